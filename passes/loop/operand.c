// Streamed operands of register tiles: see operand.h.
//
// Whether a panel stays in the first cache is counted, not guessed: its rows lie a stride apart, and a stride of a large power of two maps
// them to few sets, which then hold a fraction of what the cache could.
#include "operand.h"

enum { ROWS_MOST = 1 << 16 };

typedef struct {
    const Nest *n;
    const Dim *sym; // of the vector loop
    VEC(const Stmt *) loops;
    Arena *arena;
    const Expr *load;
    int others; // further loads of its buffer, stores, loads in doubt
    Operand *out;
} Search;

static void search_node(void *ctx, const Expr *e) {
    Search *s = ctx;
    if (e->op != X_load || !dim_has_symbol(e->dim, s->sym)) return;
    if (s->load || !s->loops.n || e->type.lanes != 1 || e->a[0] || e->a[1]) {
        s->others++;
        return;
    }
    s->load = e;
    for (int i = 0; i < s->loops.n; i++)
        if (dim_has_symbol(e->dim, s->loops.data[i]->sym) && s->out->nloops < NEST_MAX) s->out->loops[s->out->nloops++] = s->loops.data[i];
}

static void search_expr(void *ctx, const Expr **e) {
    expr_visit(*e, search_node, ctx);
}

static void search_block(Search *s, const Block *b) {
    for (int i = 0; i < b->n; i++) {
        Stmt *x = b->data[i];
        bool reduces = x->kind == ST_REDUCE || (x->kind == ST_FOR && x->loop == LOOP_RED);
        if (reduces) vec_push(s->arena, &s->loops, x);
        if (s->loops.n) stmt_exprs(x, search_expr, s);
        search_block(s, &x->body);
        if (reduces) s->loops.n--;
        search_block(s, &x->orelse);
    }
}

typedef struct {
    const LoopBuffer *buffer;
    int uses;
} Uses;

static void uses_node(void *ctx, const Expr *e) {
    Uses *u = ctx;
    u->uses += e->op == X_load && e->var->owner == u->buffer;
}

static void uses_expr(void *ctx, const Expr **e) {
    expr_visit(*e, uses_node, ctx);
}

static void uses_stmt(void *ctx, Stmt *s) {
    Uses *u = ctx;
    stmt_exprs(s, uses_expr, u);
    u->uses += s->kind == ST_STORE && s->var->owner == u->buffer;
}

static int uses_of(const Block *b, const LoopBuffer *buffer) {
    Uses u = {buffer, 0};
    Block copy = *b;
    loop_walk(&copy, uses_stmt, &u);
    return u.uses;
}

// Where the reduction's loops move the panel's rows: constant extents, and strides in elements.
typedef struct {
    int64_t extent[NEST_MAX], stride[NEST_MAX], rows;
} Rows;

// The panel's index is the vector loop's symbol, neighbours side by side, plus strides of the reduction's loops, plus what is fixed inside.
static bool rows_of(const Search *s, int vector, Rows *r) {
    DimTable *t = s->n->p->dims;
    const Dim *rest = s->load->dim, *c;
    *r = (Rows){.rows = 1};
    if (!dim_linear(t, rest, s->sym, &c, &rest) || !dim_is(c, 1)) return false;
    for (int i = 0; i < s->out->nloops; i++) {
        const Stmt *f = s->out->loops[i];
        if (!dim_linear(t, rest, f->sym, &c, &rest) || !dim_is_int(c, &r->stride[i])) return false;
        if (f->step != 1 || !dim_is_int(extent_of(s->n->p, f), &r->extent[i]) || r->extent[i] < 1 || r->extent[i] > ROWS_MOST) return false;
        r->rows *= r->extent[i];
        if (r->rows > ROWS_MOST) return false;
    }
    for (int i = vector + 1; i < s->n->n; i++)
        if (dim_has_symbol(rest, s->n->loop[i]->sym)) return false;
    return true;
}

// Lines past the ways of their set are lost between two passes. The other operand needs ways too.
static double missing_share(const Rows *r, int nloops, int64_t width, int64_t bytes, int64_t cache) {
    enum { LINE = 64, WAYS = 8, USABLE = 6, SETS_MOST = 1024 };
    int held[SETS_MOST] = {0};
    int64_t nsets = cache / (LINE * WAYS), lines = 0, missing = 0;
    if (nsets < 1 || nsets > SETS_MOST) return 0;
    for (int64_t row = 0; row < r->rows; row++) {
        int64_t at = 0, rest = row;
        for (int i = nloops - 1; i >= 0; i--) {
            at += rest % r->extent[i] * r->stride[i] * bytes;
            rest /= r->extent[i];
        }
        for (int64_t line = at / LINE; line <= (at + width * bytes - 1) / LINE; line++) {
            int64_t set = line % nsets;
            lines++;
            if (++held[set < 0 ? set + nsets : set] > USABLE) missing++;
        }
    }
    return (double)missing / (double)lines;
}

bool operand_find(const Nest *n, int vector, int width, const Target *t, Operand *out) {
    *out = (Operand){0};
    Search s = {.n = n, .sym = n->loop[vector]->sym, .arena = arena_new(), .out = out};
    Rows r;
    search_block(&s, n->body);
    arena_free(s.arena);
    if (!s.load || s.others || !out->nloops || !rows_of(&s, vector, &r)) return false;
    out->buffer = s.load->var->owner;
    out->rows = r.rows;
    out->missing = missing_share(&r, out->nloops, width, dtype_bytes(s.load->type.type), t->l1);
    return uses_of(n->body, out->buffer) == 1;
}

// ---- cache that a tile takes ----

typedef struct {
    Program *p;
    const Stmt *reduce;
    VEC(const Stmt *) loops; // inside of the reduction around the statement at hand
    Arena *arena;
    const Dim *column, *row;
    int width, rows;
    double sum;
} Taken;

// Lines that n iterations touch which move an access by `sym`, at least one.
static double lines_along(const Taken *t, const Expr *load, const Dim *sym, double n) {
    const double line = 64;
    const Dim *c, *rest;
    int64_t stride;
    if (!dim_has_symbol(load->dim, sym)) return 1;
    if (!dim_linear(t->p->dims, load->dim, sym, &c, &rest) || !dim_is_int(c, &stride)) return n;
    double bytes = (double)(stride < 0 ? -stride : stride) * dtype_bytes(load->type.type);
    double lines = bytes >= line ? n : n * bytes / line;
    return lines > 1 ? lines : 1;
}

static void taken_node(void *ctx, const Expr *e) {
    Taken *t = ctx;
    const double line = 64, many = 64;
    if (e->op != X_load) return;
    double bytes = line;
    if (dim_has_symbol(e->dim, t->column))
        bytes = t->width * dtype_bytes(e->type.type);
    else // neighbours along the reduction share lines
        bytes *= lines_along(t, e, t->row, t->rows) * lines_along(t, e, t->reduce->sym, many) / many;
    for (int i = 0; i < t->loops.n; i++) bytes *= lines_along(t, e, t->loops.data[i]->sym, trips(extent_of(t->p, t->loops.data[i])));
    t->sum += bytes;
}

static void taken_expr(void *ctx, const Expr **e) {
    expr_visit(*e, taken_node, ctx);
}

static void taken_block(Taken *t, const Block *b) {
    for (int i = 0; i < b->n; i++) {
        Stmt *s = b->data[i];
        bool loop = s->kind == ST_FOR || s->kind == ST_REDUCE;
        stmt_exprs(s, taken_expr, t);
        if (loop) vec_push(t->arena, &t->loops, s);
        taken_block(t, &s->body);
        if (loop) t->loops.n--;
        taken_block(t, &s->orelse);
    }
}

double operand_bytes(const Nest *n, const Stmt *reduce, int vector, int width, int row, int rows) {
    Taken t = {.p = n->p, .reduce = reduce, .arena = arena_new(), .width = width, .rows = rows};
    t.column = n->loop[vector]->sym;
    t.row = n->loop[row]->sym;
    taken_block(&t, &reduce->body);
    arena_free(t.arena);
    return t.sum;
}

// ---- memory of calls ----

typedef struct {
    const Kernel *k;
    bool apart;
} Calls;

static void look_at_call(void *ctx, Stmt *s) {
    Calls *c = ctx;
    if (s->kind != ST_CALL || s->kernel != c->k) return;
    for (int o = 0; o < c->k->params.n; o++) {
        if (!c->k->params.data[o]->writes) continue;
        c->apart &= s->args[o]->tie < 0;
        for (int i = 0; i < c->k->params.n; i++) c->apart &= i == o || s->args[i] != s->args[o];
    }
}

bool operand_set_apart(Program *p, Kernel *k) {
    Calls c = {k, true};
    loop_walk(&p->main, look_at_call, &c);
    for (int i = 0; i < k->params.n && c.apart; i++)
        if (k->params.data[i]->writes) k->params.data[i]->alias = ALIAS_DISJOINT;
    return c.apart;
}
