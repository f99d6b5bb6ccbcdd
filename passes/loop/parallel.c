// parallel: marks kernels whose iterations several threads share, and their calls, when --threads is more than 1.
//
// A kernel qualifies when its one statement is a par loop of at least two iterations with enough work: waking the pool costs a few
// microseconds, so smaller kernels stay on the calling thread. Iterations of a par loop are independent and none is cut, so the bits are
// the same for any number of threads. The work is counted in operations: those of an iteration times the iterations; a count that is not
// known when compiling is taken as its upper bound, and as large when it has none.
#include "loop_passes.h"

enum { LEAST_WORK = 1 << 15, LARGE = 1 << 12, WHILE_TURNS = 64 };
static const int64_t MOST_WORK = (int64_t)1 << 40; // where counting stops

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// Iterations at most.
static int64_t iterations(DimTable *t, const Stmt *s) {
    int64_t lo, hi;
    dim_interval(dim_ceildiv(t, dim_sub(t, s->hi, s->lo), dim_int(t, s->step)), &lo, &hi);
    return hi < 0 ? 0 : hi == DIM_INF ? LARGE : hi;
}

static void count_operation(void *ctx, const Expr *e) {
    if (e->n) *(int64_t *)ctx += 1;
}

static void count_expr(void *ctx, const Expr **e) {
    expr_visit(*e, count_operation, ctx);
}

static int64_t work_of(DimTable *t, const Block *b);

static int64_t work_of_stmt(DimTable *t, Stmt *s) {
    int64_t own = 1, inside = work_of(t, &s->body), turns = 1;
    stmt_exprs(s, count_expr, &own);
    if (s->kind == ST_FOR || s->kind == ST_REDUCE) turns = iterations(t, s);
    if (s->kind == ST_WHILE) turns = WHILE_TURNS;
    if (s->kind == ST_IF) inside += work_of(t, &s->orelse);
    return own + (turns && inside > MOST_WORK / turns ? MOST_WORK : turns * inside);
}

static int64_t work_of(DimTable *t, const Block *b) {
    int64_t sum = 0;
    for (int i = 0; i < b->n; i++) sum = least(sum + work_of_stmt(t, b->data[i]), MOST_WORK);
    return sum;
}

// The kernel's only statement when that is a par loop, else NULL.
static Stmt *only_loop(const Kernel *k) {
    Stmt *only = NULL;
    for (int i = 0; i < k->body.n; i++) {
        if (k->body.data[i]->kind == ST_COMMENT) continue;
        if (only) return NULL;
        only = k->body.data[i];
    }
    return only && only->kind == ST_FOR && only->loop == LOOP_PAR ? only : NULL;
}

static void mark_call(void *ctx, Stmt *s) {
    bool *changed = ctx;
    if (s->kind != ST_CALL || s->parallel) return;
    const Stmt *loop = only_loop(s->kernel);
    if (!loop || !loop->parallel) return;
    s->parallel = true;
    *changed = true;
}

bool pass_parallel(Program *p, const PassOptions *o, Diag *d) {
    (void)d;
    if (o->threads < 2) return false;
    for (int i = 0; i < p->kernels.n; i++) {
        Stmt *loop = only_loop(p->kernels.data[i]);
        if (!loop || loop->unroll || iterations(p->dims, loop) < 2) continue;
        if (work_of_stmt(p->dims, loop) >= LEAST_WORK) loop->parallel = true;
    }
    bool changed = false;
    loop_walk(&p->main, mark_call, &changed);
    return changed;
}
