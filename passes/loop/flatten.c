// flatten: joins two par loops, one inside the other, into one over both extents where every index of the body stays linear in it, as for
// the axes of a pointwise kernel or the rows and columns of a 1x1 convolution. One long loop vectorises with fewer tails than several short
// ones. What it joins is a `fuse` of the kernel's schedule language, applied at once, so that the passes behind it see plain nests.
#include "access.h"
#include "loop_passes.h"

typedef struct {
    DimTable *dims;
    const Dim *from[2], *to[2], *sym;
    bool linear;
} Joining;

static void check_dim(void *ctx, const Dim **d) {
    Joining *j = ctx;
    const Dim *coefficient, *rest;
    j->linear = j->linear && dim_linear(j->dims, dim_subst(j->dims, *d, j->from, j->to, 2), j->sym, &coefficient, &rest);
}

static void check_node(void *ctx, const Expr *e) {
    const Dim *d = e->dim;
    if (d) check_dim(ctx, &d);
    for (int i = 0; i < 3; i++)
        if ((d = e->idx[i])) check_dim(ctx, &d);
}

static void check_expr(void *ctx, const Expr **e) {
    expr_visit(*e, check_node, ctx);
}

static void check_stmt(void *ctx, Stmt *s) {
    stmt_dims(s, check_dim, ctx);
    stmt_exprs(s, check_expr, ctx);
}

static bool joins(Program *p, const Stmt *a, const Stmt *b) {
    DimTable *t = p->dims;
    const Dim *rows = extent_of(p, a), *columns = extent_of(p, b), *size = dim_mul(t, rows, columns);
    const Dim *sym = dim_symbol(t, "joined", SYM_LOOP, dim_int(t, 0), dim_addi(t, size, -1));
    Joining j = {
        t, {a->sym, b->sym}, {dim_add(t, a->lo, dim_floordiv(t, sym, columns)), dim_add(t, b->lo, dim_mod(t, sym, columns))}, sym, true};
    Block body = b->body;
    loop_walk(&body, check_stmt, &j);
    return j.linear;
}

static bool flatten_block(Program *p, Kernel *k, Block *b, Diag *d);

// Joins the innermost pair of the nest that f begins.
static bool join_one(Program *p, Kernel *k, Stmt *f, Diag *d) {
    Nest n = nest_of(p, f);
    for (int i = n.n - 2; i >= 0; i--) {
        if (!joins(p, n.loop[i], n.loop[i + 1])) continue;
        const char *outer = dim_as_symbol(n.loop[i]->sym)->name, *inner = dim_as_symbol(n.loop[i + 1]->sym)->name;
        return schedule_apply(p, k, arena_printf(p->arena, "fuse(%s, %s)", outer, inner), d);
    }
    return false;
}

static bool flatten_block(Program *p, Kernel *k, Block *b, Diag *d) {
    bool changed = false;
    for (int i = 0; i < b->n; i++) {
        while (b->data[i]->kind == ST_FOR && join_one(p, k, b->data[i], d)) changed = true;
        Stmt *s = b->data[i];
        changed |= flatten_block(p, k, &s->body, d);
        changed |= flatten_block(p, k, &s->orelse, d);
    }
    return changed;
}

bool pass_flatten(Program *p, const PassOptions *o, Diag *d) {
    (void)o;
    bool changed = false;
    for (int i = 0; i < p->kernels.n; i++)
        if (!p->kernels.data[i]->schedule) changed |= flatten_block(p, p->kernels.data[i], &p->kernels.data[i]->body, d);
    return changed;
}
