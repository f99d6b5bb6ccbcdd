// isa: replaces lane expressions by the hardware instruction of the target whose meaning they are (rows of isa_*.def).
//
// Only what has lanes is looked at: scalars are left to the C compiler, which selects well there. The choice shows in the dump as
// isa.NAME(…).
#include "loop_passes.h"

#include "../../ir/isa.h"

typedef struct {
    Program *p;
    const Target *target;
    bool changed;
} Isa;

static const Expr *select_row(void *ctx, const Expr *e) {
    Isa *s = ctx;
    bool has_lanes = e->type.lanes > 1 || (e->n > 0 && e->a[0] && e->a[0]->type.lanes > 1);
    if (!has_lanes || e->op == X_isa) return e;
    const Expr *operands[3] = {0};
    int row = isa_match(e, s->target->features, operands);
    if (row < 0) return e;
    Expr n = {.op = X_isa, .type = e->type, .k = row};
    for (int i = 0; i < 3 && operands[i]; i++) n.a[n.n++] = operands[i];
    s->changed = true;
    return x_node(s->p->arena, n);
}

static void select_expr(void *ctx, const Expr **e) {
    Isa *s = ctx;
    *e = expr_rewrite(s->p->arena, *e, select_row, s);
}

static void select_stmt(void *ctx, Stmt *st) {
    stmt_exprs(st, select_expr, ctx);
}

bool pass_isa(Program *p, const PassOptions *o, Diag *d) {
    (void)d;
    Isa s = {p, o->target, false};
    if (!o->target->vector_bits) return false;
    for (int i = 0; i < p->kernels.n; i++) loop_walk(&p->kernels.data[i]->body, select_stmt, &s);
    return s.changed;
}
