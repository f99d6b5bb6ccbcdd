// Access kinds and costs of nests: see access.h.
#include "access.h"

static bool plain_loop(const Stmt *s) {
    return s->kind == ST_FOR && s->loop == LOOP_PAR && s->step == 1 && !s->unroll && !s->parallel;
}

static Stmt *only_statement(const Block *b) {
    Stmt *only = NULL;
    for (int i = 0; i < b->n; i++) {
        if (b->data[i]->kind == ST_COMMENT) continue;
        if (only) return NULL;
        only = b->data[i];
    }
    return only;
}

const Dim *extent_of(Program *p, const Stmt *loop) {
    return dim_sub(p->dims, loop->hi, loop->lo);
}

Nest nest_of(Program *p, Stmt *f) {
    Nest n = {.p = p};
    for (Stmt *s = f; s && plain_loop(s) && n.n < NEST_MAX; s = only_statement(&s->body)) {
        for (int i = 0; i < n.n; i++)
            if (dim_has_symbol(s->lo, n.loop[i]->sym) || dim_has_symbol(s->hi, n.loop[i]->sym)) return n;
        n.loop[n.n++] = s;
        n.body = &s->body;
    }
    return n;
}

// ---- costs ----

// What is unknown counts as 64, or less where its bound says so.
static double guess(const Dim *d) {
    enum { GUESS = 64 };
    int64_t lo, hi;
    dim_interval(d, &lo, &hi);
    return hi < GUESS ? (double)hi : GUESS;
}

double trips(const Dim *extent) {
    int64_t lo, hi;
    dim_interval(extent, &lo, &hi);
    if (lo == hi) return (double)lo;
    double sum = 0, least = guess(extent);
    for (int i = 0; i < dim_nterms(extent); i++) {
        double term = (double)dim_coefficient(extent, i);
        for (int k = 0; k < dim_nfactors(extent, i); k++) term *= guess(dim_factor(extent, i, k)->self);
        sum += term;
    }
    return sum < least ? least : hi < sum ? (double)hi : sum;
}

typedef enum { ACCESS_SAME, ACCESS_CONTIGUOUS, ACCESS_APART } AccessKind;

typedef struct {
    Program *p;
    const Dim *sym;    // NULL: scalar
    const Dim *inside; // sym's part inside a panel, and sym with it; NULL: no panels
    const Dim *panelled;
    Varying varying;
    int lanes;
    double sum;
} Cost;

static AccessKind access_kind(const Cost *c, const Dim *d) {
    const Dim *coefficient, *rest;
    if (!varying_dim(&c->varying, d)) return ACCESS_SAME;
    const Dim *sym = c->inside ? c->inside : c->sym;
    if (c->inside) d = dim_subst(c->p->dims, d, &c->sym, &c->panelled, 1);
    bool linear = dim_linear(c->p->dims, d, sym, &coefficient, &rest) && !varying_dim(&c->varying, rest);
    return linear && dim_is(coefficient, 1) ? ACCESS_CONTIGUOUS : ACCESS_APART;
}

static double access_cost(const Cost *c, const Dim *d) {
    return access_kind(c, d) == ACCESS_APART ? 1.5 * c->lanes : 1;
}

static void cost_node(void *ctx, const Expr *e) {
    Cost *c = ctx;
    XClass class = xop_info(e->op)->cls;
    if (e->op == X_load) {
        c->sum += e->a[0] ? c->lanes : access_cost(c, e->dim);
    } else if (class == XC_MATH) {
        c->sum += 12;
    } else if (e->n) {
        c->sum += 0.5;
    }
}

static void cost_expr(void *ctx, const Expr **e) {
    expr_visit(*e, cost_node, ctx);
}

static void cost_block(Cost *c, const Block *b) {
    for (int i = 0; i < b->n; i++) {
        Stmt *s = b->data[i];
        stmt_exprs(s, cost_expr, c);
        if (s->kind == ST_STORE) c->sum += s->offsets ? c->lanes : access_cost(c, s->dim);
        Cost inner = *c;
        inner.sum = 0;
        cost_block(&inner, &s->body);
        double times = s->kind == ST_FOR || s->kind == ST_REDUCE ? trips(extent_of(c->p, s)) : 1;
        c->sum += times * inner.sum;
        if (s->kind == ST_IF) cost_block(c, &s->orelse);
    }
}

// ---- panels ----

typedef struct {
    const Dim *sym;
    int64_t width;
} Panels;

static const Atom *only_factor(const Dim *d, int term) {
    return dim_nfactors(d, term) == 1 ? dim_factor(d, term, 0) : NULL;
}

// Neighbours inside a panel are neighbours in memory: the index is sym + c*floordiv(sym, width), c being not -width, or mod(sym, width).
static void panels_node(void *ctx, const Expr *e) {
    Panels *f = ctx;
    if (e->op != X_load) return;
    bool one_by_one = false;
    int64_t width = 0, w;
    for (int i = 0; i < dim_nterms(e->dim); i++) {
        const Atom *a = only_factor(e->dim, i);
        if (!a) continue;
        if (a->kind == ATOM_SYMBOL)
            one_by_one |= a == only_factor(f->sym, 0) && dim_coefficient(e->dim, i) == 1;
        else if ((a->kind == ATOM_FLOORDIV || a->kind == ATOM_MOD) && a->a == f->sym && dim_is_int(a->b, &w)) {
            one_by_one |= a->kind == ATOM_MOD && dim_coefficient(e->dim, i) == 1;
            width = w;
        }
    }
    if (one_by_one && width) f->width = width;
}

static void panels_expr(void *ctx, const Expr **e) {
    expr_visit(*e, panels_node, ctx);
}

static void panels_stmt(void *ctx, Stmt *s) {
    stmt_exprs(s, panels_expr, ctx);
}

int panel_width(const Block *b, const Dim *sym) {
    enum { WIDEST = 64 };
    Panels f = {sym, 0};
    Block copy = *b;
    loop_walk(&copy, panels_stmt, &f);
    return f.width <= WIDEST ? (int)f.width : 0;
}

double block_cost(Program *p, const Block *b, const Dim *sym, int lanes) {
    Arena *a = arena_new();
    Cost c = {.p = p, .sym = sym, .lanes = lanes, .varying = varying_new(a)};
    int panel = sym ? panel_width(b, sym) : 0;
    if (sym) {
        varying_add(&c.varying, sym);
        varying_close(&c.varying, b);
    }
    if (panel) {
        c.inside = dim_symbol(p->dims, "inside", SYM_LOOP, dim_int(p->dims, 0), dim_int(p->dims, panel - 1));
        const Dim *of = dim_symbol(p->dims, "panel", SYM_LOOP, dim_int(p->dims, 0), NULL);
        c.panelled = dim_add(p->dims, dim_muli(p->dims, of, panel), c.inside);
    }
    cost_block(&c, b);
    arena_free(a);
    return c.sum;
}

typedef struct {
    Program *p;
    Varying x, y;
    double times;
    LoadMix mix;
} Mixing;

static void mix_node(void *ctx, const Expr *e) {
    Mixing *m = ctx;
    if (e->op == X_load) m->mix.mix[varying_dim(&m->x, e->dim)][varying_dim(&m->y, e->dim)] += m->times;
}

static void mix_expr(void *ctx, const Expr **e) {
    expr_visit(*e, mix_node, ctx);
}

static void mix_block(Mixing *m, const Block *b) {
    double times = m->times;
    for (int i = 0; i < b->n; i++) {
        Stmt *s = b->data[i];
        stmt_exprs(s, mix_expr, m);
        bool loop = s->kind == ST_FOR || s->kind == ST_REDUCE;
        m->times = loop ? times * trips(extent_of(m->p, s)) : times;
        mix_block(m, &s->body);
        m->times = times;
        if (s->kind == ST_IF) mix_block(m, &s->orelse);
    }
}

LoadMix load_mix(Program *p, const Block *b, const Dim *x, const Dim *y) {
    Arena *a = arena_new();
    Mixing m = {.p = p, .x = varying_new(a), .y = varying_new(a), .times = 1};
    if (x) varying_add(&m.x, x);
    if (y) varying_add(&m.y, y);
    varying_close(&m.x, b);
    varying_close(&m.y, b);
    mix_block(&m, b);
    arena_free(a);
    return m.mix;
}

// ---- footprints ----

typedef struct {
    const Nest *n;
    Arena *arena;
    VEC(const Stmt *) loops; // around the statement at hand
    const Dim *sym;
    double above, sum;
} Stream;

static void stream_node(void *ctx, const Expr *e) {
    Stream *s = ctx;
    if (e->op != X_load || !dim_has_symbol(e->dim, s->sym)) return;
    double bytes = e->type.lanes * dtype_bytes(e->type.type);
    for (int i = 0; i < s->loops.n; i++)
        if (dim_has_symbol(e->dim, s->loops.data[i]->sym)) bytes *= trips(extent_of(s->n->p, s->loops.data[i]));
    if (bytes > s->above) s->sum += bytes;
}

static void stream_expr(void *ctx, const Expr **e) {
    expr_visit(*e, stream_node, ctx);
}

static void stream_block(Stream *s, const Block *b) {
    for (int i = 0; i < b->n; i++) {
        Stmt *x = b->data[i];
        stmt_exprs(x, stream_expr, s);
        bool loop = x->kind == ST_FOR || x->kind == ST_REDUCE;
        if (loop) vec_push(s->arena, &s->loops, x);
        stream_block(s, &x->body);
        if (loop) s->loops.n--;
        stream_block(s, &x->orelse);
    }
}

double streamed_bytes(const Nest *n, int first, const Dim *sym, double above) {
    Stream s = {.n = n, .arena = arena_new(), .sym = sym, .above = above};
    for (int i = first; i < n->n; i++) vec_push(s.arena, &s.loops, n->loop[i]);
    stream_block(&s, n->body);
    arena_free(s.arena);
    return s.sum;
}

typedef struct {
    int bytes, count;
} Widest;

static void widest_node(void *ctx, const Expr *e) {
    Widest *w = ctx;
    w->count++;
    bool value = e->op == X_load || e->op == X_var;
    int bytes = e->type.type == DT_idx ? 4 : dtype_bytes(e->type.type);
    if (value && bytes > w->bytes) w->bytes = bytes;
}

static void widest_expr(void *ctx, const Expr **e) {
    expr_visit(*e, widest_node, ctx);
}

static void widest_stmt(void *ctx, Stmt *s) {
    Widest *w = ctx;
    stmt_exprs(s, widest_expr, w);
    if (s->kind == ST_STORE && dtype_bytes(s->value->type.type) > w->bytes) w->bytes = dtype_bytes(s->value->type.type);
}

static Widest widest_of(const Block *b) {
    Widest w = {1, 0};
    Block copy = *b;
    loop_walk(&copy, widest_stmt, &w);
    return w;
}

int widest_element(const Block *b) {
    return widest_of(b).bytes;
}

int operations(const Block *b) {
    return widest_of(b).count;
}
