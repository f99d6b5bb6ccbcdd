// Schedule primitive version: a copy of a loop for the case that a condition holds. See docs/schedule.md.
//
// In the copy an equation that gives a symbol's value is substituted (s == 1; mod(N, 4) == 0 makes N four times a new symbol), then
// comparisons of indices that the condition and the loops' ranges decide are replaced by their value, and what they guard is cut down.
#include "loop_region.h"
#include "loop_schedule.h"

#include <string.h>

typedef struct {
    const Var *var;
    const Expr *value;
} Known;

typedef struct {
    Schedule *s;
    Program *p;
    DimTable *t;
    LoopPlace at;
    const Expr *cond;
    Block body;   // the specialised copy
    DimVec facts; // that hold in it
    DimVec symbols;
    VEC(Var *) vars;      // in scope at the loop
    VEC(Known) constants; // lets of the copy that came out constant
} Version;

// ---- the condition's text ----

static void add_symbol(void *ctx, Stmt *x) {
    Version *v = ctx;
    if (x->sym) vec_push(v->p->arena, &v->symbols, x->sym);
}

static void add_definitions(Version *v, Stmt *x) {
    if (x->kind == ST_LET && x->sym) vec_push(v->p->arena, &v->symbols, x->sym);
    if ((x->kind == ST_LET || x->kind == ST_VAR) && x->var) vec_push(v->p->arena, &v->vars, x->var);
    for (int i = 0; i < x->nstates; i++) vec_push(v->p->arena, &v->vars, x->states[i]);
}

// Names that the place sees: the model's and main's symbols, loops around it, what stands before it in their blocks.
static void collect_scope(Version *v) {
    for (int i = 0; i < v->p->symbols.n; i++) vec_push(v->p->arena, &v->symbols, v->p->symbols.data[i]);
    loop_walk(&v->p->main, add_symbol, v);
    StmtVec path = {0};
    kernel_path(v->p, v->s->k, v->at.stmt, &path);
    for (int d = 0; d < path.n; d++) {
        LoopPlace at = schedule_place(v->s->k, path.data[d]);
        for (int i = 0; i < at.at; i++) add_definitions(v, at.block->data[i]);
        if (d + 1 < path.n && path.data[d]->sym) vec_push(v->p->arena, &v->symbols, path.data[d]->sym);
        if (d + 1 < path.n) add_definitions(v, path.data[d]);
    }
}

static const Dim *lookup_symbol(void *ctx, const char *name, size_t n) {
    const Version *v = ctx;
    for (int i = v->symbols.n - 1; i >= 0; i--) {
        const char *have = dim_as_symbol(v->symbols.data[i])->name;
        if (strlen(have) == n && !memcmp(have, name, n)) return v->symbols.data[i];
    }
    return NULL;
}

static Var *lookup_var(void *ctx, const char *name, size_t n) {
    const Version *v = ctx;
    for (int i = v->vars.n - 1; i >= 0; i--)
        if (strlen(v->vars.data[i]->name) == n && !memcmp(v->vars.data[i]->name, name, n)) return v->vars.data[i];
    return NULL;
}

static bool read_condition(Version *v) {
    Schedule *s = v->s;
    ExprParser ps = {.arena = v->p->arena, .dims = v->p->dims, .ctx = v, .dim = lookup_symbol, .var = lookup_var};
    const char *text = s->args[1];
    v->cond = expr_parse(&ps, &text, vtype(DT_bool, 1));
    if (!v->cond) return schedule_fail(s, "condition '%s': %s", s->args[1], ps.error);
    while (*text == ' ') text++;
    if (*text) return schedule_fail(s, "condition '%s': expected its end at '%s'", s->args[1], text);
    return true;
}

// ---- equations ----

static void substitute(Version *v, const Dim *sym, const Dim *value) {
    loop_subst(v->p, &v->body, &sym, &value, 1);
    for (int i = 0; i < v->facts.n; i++) v->facts.data[i] = dim_subst(v->t, v->facts.data[i], &sym, &value, 1);
}

// mod(N, k) == r: N is k times a new symbol, plus r.
static bool define_by_remainder(Version *v, const Dim *mod, const Dim *rest) {
    int64_t k, r;
    const Atom *x = dim_nterms(mod) == 1 && dim_coefficient(mod, 0) == 1 && dim_nfactors(mod, 0) == 1 ? dim_factor(mod, 0, 0) : NULL;
    if (!x || x->kind != ATOM_MOD || !dim_as_symbol(x->a) || !dim_is_int(x->b, &k) || !dim_is_int(rest, &r) || r < 0 || r >= k)
        return false;
    const Sym *n = dim_as_symbol(x->a);
    const Dim *quotient = dim_floordiv(v->t, x->a, x->b), *lo = n->lo ? dim_floordiv(v->t, n->lo, x->b) : NULL;
    const Dim *hi = n->hi ? dim_floordiv(v->t, n->hi, x->b) : NULL;
    const char *name = arena_printf(v->p->arena, "%s_%ld", n->name, (long)k);
    Block let = loop_block(v->at.block);
    const Dim *q = loop_let_idx(v->p, &let, name, x_dim(v->p->arena, quotient), lo, hi);
    substitute(v, x->a, dim_addi(v->t, dim_muli(v->t, q, k), r));
    schedule_insert(v->s, &v->body, 0, let.data[0]);
    return true;
}

static bool define_symbol(Version *v, const Dim *sym, const Dim *value) {
    if (!dim_as_symbol(sym) || dim_has_symbol(value, sym)) return false;
    substitute(v, sym, value);
    return true;
}

static void use_equations(Version *v, const Expr *cond) {
    if (cond->op == X_and) {
        use_equations(v, cond->a[0]);
        use_equations(v, cond->a[1]);
    }
    if (cond->op != X_eq) return;
    const Dim *a = expr_as_dim(v->t, cond->a[0]), *b = expr_as_dim(v->t, cond->a[1]);
    if (!a || !b) return;
    if (!define_symbol(v, a, b) && !define_symbol(v, b, a) && !define_by_remainder(v, a, b)) define_by_remainder(v, b, a);
}

// ---- what the facts decide ----

// All values of d are values of the integer type.
static bool fits(DType type, const Dim *d) {
    int64_t lo, hi;
    int bits = dtype_info(type)->bits - dtype_is_signed(type);
    dim_interval(d, &lo, &hi);
    if (type == DT_idx || bits >= 63) return type == DT_idx || (dtype_is_signed(type) && lo != -DIM_INF && hi != DIM_INF);
    int64_t top = (INT64_C(1) << bits) - 1;
    return hi <= top && lo >= (dtype_is_signed(type) ? -top - 1 : 0);
}

// The value of one lane of index arithmetic; NULL when it is something else or may wrap in its type.
static const Dim *lane_as_dim(DimTable *t, const Expr *e, int lane) {
    bool integer = e->type.type == DT_idx || dtype_is_int(e->type.type);
    if (!integer) return NULL;
    if (e->op == X_dim) return e->dim;
    if (e->op == X_iota) return dim_int(t, lane);
    if (e->op == X_const) return e->type.type == DT_u64 ? NULL : dim_int(t, scalar_as_i64(e->k_scalar));
    if (e->op == X_splat) return lane_as_dim(t, e->a[0], 0);
    if (e->op != X_cast && (e->type.type != DT_idx || (e->op != X_add && e->op != X_sub && e->op != X_mul))) return NULL;
    const Dim *a = lane_as_dim(t, e->a[0], lane), *b = e->op == X_cast ? a : lane_as_dim(t, e->a[1], lane);
    if (!a || !b) return NULL;
    if (e->op == X_cast) return fits(e->type.type, a) ? a : NULL;
    return e->op == X_add ? dim_add(t, a, b) : e->op == X_sub ? dim_sub(t, a, b) : dim_mul(t, a, b);
}

static Tri decide_le(const Version *v, const Dim *a, const Dim *b) {
    if (facts_prove(v->t, &v->facts, dim_sub(v->t, b, a))) return YES;
    return facts_prove(v->t, &v->facts, dim_addi(v->t, dim_sub(v->t, a, b), -1)) ? NO : UNKNOWN;
}

static Tri opposite(Tri x) {
    return x == UNKNOWN ? UNKNOWN : x == YES ? NO : YES;
}

static Tri decide_eq(const Version *v, const Dim *a, const Dim *b) {
    Tri le = decide_le(v, a, b), ge = decide_le(v, b, a);
    return le == YES && ge == YES ? YES : le == NO || ge == NO ? NO : UNKNOWN;
}

static Tri decide(const Version *v, XOp op, const Dim *a, const Dim *b) {
    switch (op) {
    case X_le: return decide_le(v, a, b);
    case X_ge: return decide_le(v, b, a);
    case X_lt: return opposite(decide_le(v, b, a));
    case X_gt: return opposite(decide_le(v, a, b));
    case X_eq: return decide_eq(v, a, b);
    default: return opposite(decide_eq(v, a, b));
    }
}

static const Expr *decide_node(void *ctx, const Expr *e) {
    Version *v = ctx;
    if (e->op == X_load && e->a[1] && e->a[1]->op == X_const && e->a[1]->k_scalar.i) {
        Expr x = *e;
        x.a[1] = NULL;
        x.n = x.a[0] ? 1 : 0;
        return x_node(v->p->arena, x);
    }
    for (int i = 0; i < v->constants.n && e->op == X_var; i++)
        if (v->constants.data[i].var == e->var) return v->constants.data[i].value;
    if (xop_info(e->op)->cls != XC_CMP) return e;
    Tri all = UNKNOWN;
    for (int l = 0; l < e->type.lanes; l++) {
        const Dim *a = lane_as_dim(v->t, e->a[0], l), *b = lane_as_dim(v->t, e->a[1], l);
        Tri one = a && b ? decide(v, e->op, a, b) : UNKNOWN;
        if (one == UNKNOWN || (l && one != all)) return e;
        all = one;
    }
    return x_const(v->p->arena, scalar_int(DT_bool, all == YES), e->type.lanes);
}

static void decide_expr(void *ctx, const Expr **e) {
    Version *v = ctx;
    *e = expr_rewrite(v->p->arena, *e, decide_node, v);
}

// A condition that the symbols' ranges decide would leave a case that never happens.
static bool check_condition(Version *v) {
    Schedule *s = v->s;
    decide_expr(v, &v->cond);
    return v->cond->op != X_const || schedule_fail(s, "condition '%s' is always %s", s->args[1], v->cond->k_scalar.i ? "true" : "false");
}

static void cut_block(Version *v, Block *b);

// What is left of x, appended to `to`.
static void cut_stmt(Version *v, Block *to, Stmt *x) {
    stmt_exprs(x, decide_expr, v);
    cut_block(v, &x->body);
    cut_block(v, &x->orelse);
    if (x->kind == ST_LET && x->var && x->value->op == X_const && x->value->type.type == DT_bool) {
        vec_push(v->p->arena, &v->constants, ((Known){x->var, x->value}));
        return;
    }
    bool known_if = x->kind == ST_IF && x->value->op == X_const;
    if (x->kind == ST_STORE && x->mask && x->mask->op == X_const) {
        if (!x->mask->k_scalar.i) return;
        x->mask = NULL;
    }
    if (!known_if) {
        vec_push(v->p->arena, to, x);
        return;
    }
    const Block *kept = x->value->k_scalar.i ? &x->body : &x->orelse;
    for (int i = 0; i < kept->n; i++) vec_push(v->p->arena, to, kept->data[i]);
}

static void cut_block(Version *v, Block *b) {
    Block out = loop_block(b);
    for (int i = 0; i < b->n; i++) cut_stmt(v, &out, b->data[i]);
    *b = out;
}

static void find_barrier(void *ctx, Stmt *x) {
    if (x->kind == ST_BARRIER) *(bool *)ctx = true;
}

// version(L, condition): `if condition { L for that case } else { L }`. Later primitives see the special copy under the old names; the
// other's get a number. For a size or a stride that is often the same, and for tails that a multiple does not have. Refused when the
// condition does not read as one of the names around L, reads memory, or is constant; when L is parallel, has a barrier or is a reduce:
// these cannot stand in an if.
bool schedule_version(Schedule *s) {
    Version v = {.s = s, .p = s->p, .t = s->p->dims};
    if (!schedule_loop(s, 0, "prs", &v.at)) return false;
    bool barrier = false;
    loop_walk(&v.at.stmt->body, find_barrier, &barrier);
    if (barrier) return schedule_fail(s, "'%s' has a barrier", s->args[0]);
    if (v.at.stmt->parallel) return schedule_fail(s, "'%s' is parallel", s->args[0]);
    collect_scope(&v);
    if (!read_condition(&v) || !check_condition(&v)) return false;
    Block whole = {.data = &v.at.stmt, .n = 1, .cap = 1, .names = v.at.block->names}, made = loop_block(v.at.block);
    Stmt *choice = loop_if(s->p, &made, v.cond);
    loop_copy(s->p, &choice->orelse, &whole);
    v.body = loop_block(v.at.block);
    vec_push(s->p->arena, &v.body, v.at.stmt);
    guards_of(s->p, v.cond, false, &v.facts);
    use_equations(&v, v.cond);
    cut_block(&v, &v.body);
    choice->body = v.body;
    v.at.block->data[v.at.at] = choice;
    return true;
}
