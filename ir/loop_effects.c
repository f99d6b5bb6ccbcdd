// Facts and effects for schedule primitives: what a condition says of indices, which buffers and variables statements touch, how parameters
// may overlap. See loop_region.h.
#include "loop_region.h"

// ---- facts ----

const Dim *expr_as_dim(DimTable *t, const Expr *e) {
    if (!vtype_same(e->type, vtype(DT_idx, 1))) return NULL;
    if (e->op == X_dim) return e->dim;
    if (e->op == X_const) return dim_int(t, e->k_scalar.i);
    if (e->op != X_add && e->op != X_sub && e->op != X_mul) return NULL;
    const Dim *a = expr_as_dim(t, e->a[0]), *b = expr_as_dim(t, e->a[1]);
    if (!a || !b) return NULL;
    return e->op == X_add ? dim_add(t, a, b) : e->op == X_sub ? dim_sub(t, a, b) : dim_mul(t, a, b);
}

// a - b + plus >= 0
static bool add_fact(Program *p, const Dim *a, const Dim *b, int64_t plus, DimVec *out) {
    const Dim *d = dim_addi(p->dims, dim_sub(p->dims, a, b), plus);
    if (!dim_is_poison(d)) vec_push(p->arena, out, d);
    return !dim_is_poison(d);
}

static XOp negation(XOp op) {
    switch (op) {
    case X_lt: return X_ge;
    case X_le: return X_gt;
    case X_gt: return X_le;
    case X_ge: return X_lt;
    case X_eq: return X_ne;
    default: return op == X_ne ? X_eq : op;
    }
}

bool guards_of(Program *p, const Expr *cond, bool negated, DimVec *out) {
    if (cond->type.lanes != 1) return false;
    if (cond->op == X_not) return guards_of(p, cond->a[0], !negated, out);
    if (cond->op == (negated ? X_or : X_and)) {
        bool first = guards_of(p, cond->a[0], negated, out), second = guards_of(p, cond->a[1], negated, out);
        return first && second;
    }
    if (cond->n != 2 || xop_info(cond->op)->cls != XC_CMP) return false;
    const Dim *a = expr_as_dim(p->dims, cond->a[0]), *b = expr_as_dim(p->dims, cond->a[1]);
    if (!a || !b) return false;
    switch (negated ? negation(cond->op) : cond->op) {
    case X_lt: return add_fact(p, b, a, -1, out);
    case X_le: return add_fact(p, b, a, 0, out);
    case X_gt: return add_fact(p, a, b, -1, out);
    case X_ge: return add_fact(p, a, b, 0, out);
    case X_eq: return add_fact(p, a, b, 0, out) && add_fact(p, b, a, 0, out);
    default: return false;
    }
}

typedef struct {
    DimTable *t;
    const Dim *goal, *fact;
    bool proven;
} Proof;

// goal >= 0 when goal - k * fact is, with the k >= 0 that cancels the symbol.
static void prove_without(void *ctx, const Dim *sym) {
    Proof *p = ctx;
    const Dim *c, *g, *rest;
    if (p->proven || !dim_linear(p->t, p->fact, sym, &c, &rest) || !dim_linear(p->t, p->goal, sym, &g, &rest)) return;
    int64_t n;
    if (!dim_is_int(c, &n) || n == 0 || n == INT64_MIN) return;
    if (n < 0) g = dim_muli(p->t, g, -1), n = -n;
    const Dim *size = dim_int(p->t, n), *k = dim_floordiv(p->t, g, size);
    if (!dim_is(dim_mod(p->t, g, size), 0)) return;
    p->proven = dim_ge0(p->t, k) == YES && dim_ge0(p->t, dim_sub(p->t, p->goal, dim_mul(p->t, k, p->fact))) == YES;
}

bool facts_prove(DimTable *t, const DimVec *facts, const Dim *ge0) {
    if (dim_ge0(t, ge0) == YES) return true;
    for (int i = 0; i < facts->n; i++) {
        Proof p = {t, ge0, facts->data[i], dim_ge0(t, dim_sub(t, ge0, facts->data[i])) == YES};
        if (!p.proven) dim_symbols(p.fact, prove_without, &p);
        if (p.proven) return true;
    }
    return false;
}

// ---- effects ----

static bool path_to(Program *p, Block *b, const Stmt *s, StmtVec *path) {
    for (int i = 0; i < b->n; i++) {
        vec_push(p->arena, path, b->data[i]);
        if (b->data[i] == s || path_to(p, &b->data[i]->body, s, path) || path_to(p, &b->data[i]->orelse, s, path)) return true;
        path->n--;
    }
    return false;
}

void kernel_path(Program *p, Kernel *k, const Stmt *s, StmtVec *path) {
    path->n = 0;
    path_to(p, &k->body, s, path);
}

void kernel_facts(Program *p, Kernel *k, const Stmt *s, DimVec *out) {
    StmtVec path = {0};
    kernel_path(p, k, s, &path);
    for (int i = 0; i + 1 < path.n; i++) {
        Stmt *c = path.data[i];
        bool otherwise = false;
        if (c->kind != ST_IF) continue;
        for (int j = 0; j < c->orelse.n; j++) otherwise |= c->orelse.data[j] == path.data[i + 1];
        guards_of(p, c->value, otherwise, out);
    }
}

static void effect_node(void *ctx, const Expr *e) {
    Effects *f = ctx;
    if (e->op == X_load) vec_push(f->arena, &f->reads, e->var);
    if (e->op == X_var) vec_push(f->arena, &f->uses, e->var);
    f->ordered |= e->op == X_index;
}

static void effect_expr(void *ctx, const Expr **e) {
    expr_visit(*e, effect_node, ctx);
}

static void effect_stmt(void *ctx, Stmt *s) {
    Effects *f = ctx;
    stmt_exprs(s, effect_expr, f);
    if (s->kind == ST_STORE) vec_push(f->arena, &f->writes, s->var);
    if (s->kind == ST_SET) vec_push(f->arena, &f->sets, s->var);
    static const bool ordered[ST_COUNT] = {[ST_BREAK] = true, [ST_CHECK] = true, [ST_CALL] = true, [ST_TEAM] = true, [ST_BARRIER] = true};
    f->ordered |= ordered[s->kind];
}

void effects_add(Effects *e, Stmt *s) {
    effect_stmt(e, s);
    loop_walk(&s->body, effect_stmt, e);
    loop_walk(&s->orelse, effect_stmt, e);
}

AliasKind kernel_alias(const LoopBuffer *written, const LoopBuffer *other) {
    if (written->kind == BUF_LOCAL || other->kind == BUF_LOCAL) return ALIAS_DISJOINT;
    if (other->writes && other->alias == ALIAS_DISJOINT) return ALIAS_DISJOINT;
    return written->alias;
}
