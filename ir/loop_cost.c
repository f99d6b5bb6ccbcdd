// cost_kernel: a walk over a kernel's statements that carries how often each is executed and which loops stand around it.
//
// A statement's own work (its expressions) does not change between iterations, so it is counted once and multiplied. A loop is multiplied
// by its trips unless what stands in it depends on the iteration (a bound, a condition, as in triangles and tails): then its body is walked
// for each iteration or for samples with weights. An access to a parameter touches as many elements as the loops that its index mentions
// have iterations.
#include "loop_cost.h"
#include "isa.h"
#include "loop_region.h"
#include "ptr_map.h"

#include <string.h>

enum { MAX_LEVELS = 64 };

typedef struct {
    int64_t value;
    uint64_t levels; // loops that it differs in, a bit each
} Symbol;

// One load or store, with what it has touched so far.
typedef struct {
    const LoopBuffer *buffer;
    const Dim *index;
    bool write, gathers;
    int lanes; // elements of one execution
    int64_t stride;
    uint64_t levels; // loops that move it
    double elements;
} Site;

// What a statement's expressions do each time.
typedef struct {
    double flops, iops, scalar;
    int first, last; // its sites
} Work;

typedef struct {
    Program *p;
    const Kernel *k;
    Arena *a;
    int64_t (*value)(void *ctx, const Dim *sym);
    void *ctx;
    PtrMap symbol, work, steers; // Dim: in symbols; Stmt: in works; Stmt: whether its iterations differ
    VEC(Symbol) symbols;
    VEC(Work) works;
    VEC(Site) sites;
    double trips[MAX_LEVELS]; // of the loops around, as the walk at hand counts them
    int levels, sampled;      // sampled: loops around that are walked by iterations
    double scale;             // executions
    Work *now;                // being counted
    KernelCost cost;
} Cost;

// ---- values of indices ----
static int64_t symbol_value(void *ctx, const Dim *sym) {
    Cost *c = ctx;
    int i = ptr_map_get(&c->symbol, sym);
    if (i >= 0) return c->symbols.data[i].value;
    int64_t v = c->value(c->ctx, sym);
    if (v != INT64_MIN) return v;
    const Sym *s = dim_as_symbol(sym);
    bool ok = true;
    v = s->hi ? dim_eval(s->hi, symbol_value, c, &ok) : s->lo ? dim_eval(s->lo, symbol_value, c, &ok) : 0;
    return ok ? v : 0;
}

static int64_t evaluate(Cost *c, const Dim *d) {
    bool ok = true;
    int64_t v = dim_eval(d, symbol_value, c, &ok);
    return ok ? v : 0;
}

static void define(Cost *c, const Dim *sym, int64_t value, uint64_t levels) {
    int i = ptr_map_get(&c->symbol, sym);
    if (i < 0) {
        ptr_map_put(&c->symbol, sym, i = c->symbols.n);
        vec_push(c->a, &c->symbols, ((Symbol){0}));
    }
    c->symbols.data[i] = (Symbol){value, levels};
}

typedef struct {
    const Cost *c;
    uint64_t levels;
} Mentions;

static void mention(void *ctx, const Dim *sym) {
    Mentions *m = ctx;
    int i = ptr_map_get(&m->c->symbol, sym);
    if (i >= 0) m->levels |= m->c->symbols.data[i].levels;
}

static uint64_t levels_of(const Cost *c, const Dim *d) {
    Mentions m = {c, 0};
    dim_symbols(d, mention, &m);
    return m.levels;
}

static uint64_t all_levels(const Cost *c) {
    return c->levels >= MAX_LEVELS ? UINT64_MAX : ((uint64_t)1 << c->levels) - 1;
}

// 1 or 0; -1: depends on data.
static int condition(Cost *c, const Expr *e) {
    if (e->type.lanes != 1) return -1;
    if (e->op == X_const) return e->k_scalar.u != 0;
    if (e->op == X_not) {
        int v = condition(c, e->a[0]);
        return v < 0 ? v : !v;
    }
    if (e->op == X_and || e->op == X_or) {
        int x = condition(c, e->a[0]), y = condition(c, e->a[1]), decides = e->op == X_or;
        if (x == decides || y == decides) return decides;
        return x < 0 || y < 0 ? -1 : !decides;
    }
    if (xop_info(e->op)->cls != XC_CMP) return -1;
    const Dim *a = expr_as_dim(c->p->dims, e->a[0]), *b = expr_as_dim(c->p->dims, e->a[1]);
    if (!a || !b) return -1;
    int64_t x = evaluate(c, a), y = evaluate(c, b);
    return e->op == X_eq   ? x == y
           : e->op == X_ne ? x != y
           : e->op == X_lt ? x < y
           : e->op == X_le ? x <= y
           : e->op == X_gt ? x > y
                           : x >= y;
}

// ---- the work of an expression ----
static void count(Cost *c, DType t, double ops, int lanes) {
    if (t == DT_idx) return;
    if (dtype_is_float(t))
        c->now->flops += ops;
    else
        c->now->iops += ops;
    if (lanes == 1) c->now->scalar += ops;
}

static void add_site(Cost *c, const Var *buf, const Dim *index, int lanes, int64_t stride, bool gathers, bool write) {
    const LoopBuffer *b = buf->owner;
    if (b->kind != BUF_PARAM) return;
    Site s = {b, index, write, gathers, stride == 0 && !gathers ? 1 : lanes, stride, 0, 0};
    vec_push(c->a, &c->sites, s);
}

static void count_node(void *ctx, const Expr *e);

// The row's meaning over arguments of its own, for its operands are counted where they stand.
static void count_instruction(Cost *c, const Expr *e) {
    const Expr *args[3] = {0};
    for (int i = 0; i < e->n; i++)
        if (e->a[i]) args[i] = x_node(c->a, (Expr){.op = X_arg, .type = e->a[i]->type, .k = i});
    expr_visit(isa_meaning(c->a, (int)e->k, args), count_node, c);
}

static void count_node(void *ctx, const Expr *e) {
    Cost *c = ctx;
    int lanes = e->type.lanes;
    DType t = e->type.type;
    switch (e->op) {
    case X_load: add_site(c, e->var, e->dim, lanes, e->k, e->a[0] != NULL, false); return;
    case X_isa: count_instruction(c, e); return;
    case X_hreduce: count(c, t, e->a[0]->type.lanes - 1, e->a[0]->type.lanes); return;
    case X_dot4: count(c, t, 8.0 * lanes, lanes); return;
    case X_popcount: count(c, t, e->a[0]->type.lanes, e->a[0]->type.lanes); return;
    case X_widen: count(c, DT_i32, lanes, lanes); return;
    case X_fma: count(c, t, 2.0 * lanes, lanes); return;
    default: break;
    }
    switch (xop_info(e->op)->cls) {
    case XC_ARITH: count(c, t, lanes, lanes); return;
    case XC_CMP: count(c, e->a[0]->type.type == DT_idx ? DT_idx : DT_bool, lanes, lanes); return;
    case XC_LOGIC: count(c, t, lanes, lanes); return;
    case XC_SEL:
    case XC_CAST: count(c, t == DT_idx ? DT_idx : DT_i32, lanes, lanes); return;
    default: return;
    }
}

typedef struct {
    Arena *a;
    VEC(const Expr *) roots;
} Roots;

static void add_root(void *ctx, const Expr **e) {
    Roots *r = ctx;
    vec_push(r->a, &r->roots, *e);
}

// A condition on indices alone steers loops: it is no work.
static bool steers_only(const Stmt *s, DimTable *t) {
    if (s->kind != ST_IF && s->kind != ST_WHILE) return false;
    const Expr *e = s->value;
    return xop_info(e->op)->cls == XC_CMP && expr_as_dim(t, e->a[0]) && expr_as_dim(t, e->a[1]);
}

static const Work *work_of(Cost *c, Stmt *s) {
    int at = ptr_map_get(&c->work, s);
    if (at >= 0) return &c->works.data[at];
    Work w = {.first = c->sites.n};
    c->now = &w;
    Roots r = {.a = c->a};
    if (!steers_only(s, c->p->dims)) stmt_exprs(s, add_root, &r);
    if (r.roots.n) {
        expr_lower_math_all(c->a, r.roots.data, r.roots.n);
        expr_visit_all(r.roots.data, r.roots.n, count_node, c);
    }
    if (s->kind == ST_STORE) add_site(c, s->var, s->dim, s->value->type.lanes, s->stride, s->offsets != NULL, true);
    w.last = c->sites.n;
    ptr_map_put(&c->work, s, c->works.n);
    vec_push(c->a, &c->works, w);
    return &c->works.data[c->works.n - 1];
}

static void touch(Cost *c, Site *s) {
    double n = s->lanes;
    s->levels = s->gathers ? all_levels(c) : levels_of(c, s->index);
    for (int i = 0; i < c->levels && i < MAX_LEVELS; i++)
        if (s->levels >> i & 1) n *= c->trips[i];
    s->elements += n;
}

static void add_work(Cost *c, Stmt *s) {
    const Work *w = work_of(c, s);
    c->cost.flops += w->flops * c->scale;
    c->cost.iops += w->iops * c->scale;
    c->cost.scalar += w->scalar * c->scale;
    for (int i = w->first; i < w->last; i++) touch(c, &c->sites.data[i]);
}

// ---- loops ----
typedef struct {
    Cost *c;
    const Dim *sym;
    PtrMap inner; // lets of the body
    bool found;
} Steer;

static void steer_symbol(void *ctx, const Dim *sym) {
    Steer *x = ctx;
    x->found |= sym == x->sym || ptr_map_get(&x->inner, sym) >= 0;
}
static void steer_dim(void *ctx, const Dim **d) {
    dim_symbols(*d, steer_symbol, ctx);
}
static void steer_node(void *ctx, const Expr *e) {
    if (e->op == X_dim) dim_symbols(e->dim, steer_symbol, ctx);
}
static void steer_stmt(void *ctx, Stmt *s) {
    Steer *x = ctx;
    if (s->kind == ST_LET && s->sym) ptr_map_put(&x->inner, s->sym, 0);
    if (s->kind == ST_FOR || s->kind == ST_REDUCE) stmt_dims(s, steer_dim, x);
    if (s->kind == ST_IF) expr_visit(s->value, steer_node, x);
}

// Whether iterations of s may differ in what they execute.
static bool iterations_differ(Cost *c, Stmt *s) {
    int known = ptr_map_get(&c->steers, s);
    if (known >= 0) return known;
    Steer x = {.c = c, .sym = s->sym, .inner = {.arena = c->a}};
    loop_walk(&s->body, steer_stmt, &x);
    ptr_map_put(&c->steers, s, x.found);
    return x.found;
}

static void walk(Cost *c, const Block *b);

static void walk_body(Cost *c, Stmt *s, int64_t value, double weight) {
    double scale = c->scale;
    int at = c->levels;
    define(c, s->sym, value, at < MAX_LEVELS ? (uint64_t)1 << at : 0);
    if (at < MAX_LEVELS) c->trips[at] = weight;
    c->levels++;
    c->scale *= weight;
    walk(c, &s->body);
    c->scale = scale;
    c->levels--;
}

// What a site touched before a loop, and in that iteration of it which touched most: what the loop does not move is touched again.
typedef struct {
    double before, most;
} Touched;
typedef VEC(Touched) TouchedVec;

static void walk_one(Cost *c, Stmt *s, int64_t value, double weight, TouchedVec *t) {
    uint64_t bit = c->levels < MAX_LEVELS ? (uint64_t)1 << c->levels : 0;
    walk_body(c, s, value, weight);
    while (t->n < c->sites.n) vec_push(c->a, t, ((Touched){0}));
    for (int i = 0; i < t->n; i++) {
        Site *site = &c->sites.data[i];
        Touched *x = &t->data[i];
        if (site->levels & bit) {
            x->before = site->elements;
            continue;
        }
        if (site->elements - x->before > x->most) x->most = site->elements - x->before;
        site->elements = x->before;
    }
}

// The first, the last, and `between` ones that stand for the rest.
static void walk_samples(Cost *c, Stmt *s, int64_t lo, int64_t step, int64_t trips) {
    static const int64_t most[] = {64, 16, 4};
    int64_t between = most[c->sampled < 2 ? c->sampled : 2], inner = trips - 2;
    TouchedVec t = {0};
    for (int i = 0; i < c->sites.n; i++) vec_push(c->a, &t, ((Touched){c->sites.data[i].elements, 0}));
    c->sampled++;
    for (int64_t i = 0; i < trips && inner <= between; i++) walk_one(c, s, lo + i * step, 1, &t);
    if (inner > between) {
        walk_one(c, s, lo, 1, &t);
        for (int64_t i = 0; i < between; i++)
            walk_one(c, s, lo + (1 + (2 * i + 1) * inner / (2 * between)) * step, (double)inner / (double)between, &t);
        walk_one(c, s, lo + (trips - 1) * step, 1, &t);
    }
    c->sampled--;
    for (int i = 0; i < t.n; i++) c->sites.data[i].elements += t.data[i].most;
}

static void walk_loop(Cost *c, Stmt *s) {
    int64_t lo = s->kind == ST_TEAM ? 0 : evaluate(c, s->lo), hi = evaluate(c, s->hi), step = s->kind == ST_TEAM ? 1 : s->step;
    int64_t trips = hi > lo ? (hi - lo + step - 1) / step : 0;
    if (!trips) return;
    if (iterations_differ(c, s))
        walk_samples(c, s, lo, step, trips);
    else
        walk_body(c, s, lo, (double)trips);
}

// ---- statements ----
static double total(const KernelCost *k) {
    return k->flops + k->iops + k->read + k->written;
}

// A branch on data: both sides touch memory, the dearer one counts as work.
static void walk_either(Cost *c, const Stmt *s) {
    KernelCost before = c->cost;
    walk(c, &s->body);
    KernelCost first = c->cost;
    c->cost = before;
    walk(c, &s->orelse);
    if (total(&first) > total(&c->cost)) c->cost = first;
}

static void walk_let(Cost *c, Stmt *s) {
    const Dim *d = expr_as_dim(c->p->dims, s->value);
    if (d)
        define(c, s->sym, evaluate(c, d), levels_of(c, d));
    else {
        const Sym *sym = dim_as_symbol(s->sym);
        define(c, s->sym, sym->hi ? evaluate(c, sym->hi) : sym->lo ? evaluate(c, sym->lo) : 0, all_levels(c));
    }
}

static void walk_stmt(Cost *c, Stmt *s) {
    add_work(c, s);
    switch (s->kind) {
    case ST_FOR:
    case ST_REDUCE:
    case ST_TEAM: walk_loop(c, s); return;
    case ST_WHILE: walk(c, &s->body); return;
    case ST_LET:
        if (s->sym) walk_let(c, s);
        return;
    case ST_IF: {
        int v = condition(c, s->value);
        if (v < 0)
            walk_either(c, s);
        else
            walk(c, v ? &s->body : &s->orelse);
        return;
    }
    default: return;
    }
}

static void walk(Cost *c, const Block *b) {
    for (int i = 0; i < b->n; i++) walk_stmt(c, b->data[i]);
}

// ---- bytes ----
typedef struct {
    const Kernel *k;
    const Stmt *call;
} FirstCall;

static void find_call(void *ctx, Stmt *s) {
    FirstCall *f = ctx;
    if (s->kind == ST_CALL && s->kernel == f->k && !f->call) f->call = s;
}

// Elements of parameter i, -1: not known.
static double param_size(Cost *c, const Stmt *call, int i) {
    const LoopBuffer *b = call && i < call->nargs ? call->args[i] : c->k->params.data[i];
    if (b->rank < 0) return -1;
    double n = 1;
    for (int d = 0; d < b->rank; d++) n *= (double)evaluate(c, b->shape[d]);
    return n;
}

static bool same_place(const Site *a, const Site *b) {
    return a->buffer == b->buffer && a->write == b->write && a->index == b->index && a->lanes == b->lanes && a->stride == b->stride;
}

static double touched(const Cost *c, const LoopBuffer *b, bool write) {
    double n = 0;
    for (int i = 0; i < c->sites.n; i++) {
        const Site *s = &c->sites.data[i];
        double most = s->elements;
        bool first = s->buffer == b && s->write == write;
        for (int j = 0; j < c->sites.n && first; j++) {
            if (!same_place(s, &c->sites.data[j])) continue;
            first = j >= i;
            if (c->sites.data[j].elements > most) most = c->sites.data[j].elements;
        }
        if (first) n += most;
    }
    return n;
}

static void count_bytes(Cost *c) {
    FirstCall f = {c->k, NULL};
    loop_walk(&c->p->main, find_call, &f);
    for (int i = 0; i < c->k->params.n; i++) {
        const LoopBuffer *b = c->k->params.data[i];
        double size = param_size(c, f.call, i), bytes = dtype_bytes(b->var.type.type);
        double n[2] = {touched(c, b, false), touched(c, b, true)};
        for (int w = 0; w < 2; w++)
            if (size >= 0 && n[w] > size) n[w] = size;
        c->cost.read += n[0] * bytes;
        c->cost.written += n[1] * bytes;
    }
}

KernelCost cost_kernel(Program *p, const Kernel *k, int64_t (*value)(void *ctx, const Dim *sym), void *ctx) {
    Arena *a = arena_new();
    Cost c = {.p = p, .k = k, .a = a, .value = value, .ctx = ctx, .scale = 1};
    c.symbol.arena = c.work.arena = c.steers.arena = a;
    walk(&c, &k->body);
    count_bytes(&c);
    arena_free(a);
    return c.cost;
}
