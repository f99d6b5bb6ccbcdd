// Statements in lanes: see loop_lanes.h. First the statements are checked, then rewritten; rewriting cannot fail.
#include "loop_lanes.h"

#include <limits.h>

// ---- indices ----

static bool fits_i32(const Lanes *l, const Dim *d) {
    int64_t lo, hi;
    dim_interval(d, &lo, &hi);
    if (lo < INT32_MIN || hi > INT32_MAX) return false;
    for (int i = 0; i < dim_nterms(d); i++)
        for (int k = 0; k < dim_nfactors(d, i); k++) {
            const Atom *f = dim_factor(d, i, k);
            bool inner = f->kind != ATOM_SYMBOL && varying_dim(&l->varying, f->self);
            if (inner && (!fits_i32(l, f->a) || !fits_i32(l, f->b))) return false;
        }
    return true;
}

// i32 where the value and all that it is made of fits, else idx.
static DType index_type(const Lanes *l, const Dim *d) {
    return fits_i32(l, d) ? DT_i32 : DT_idx;
}

static const Expr *spread(const Lanes *l, DType t, const Dim *d) {
    Arena *a = l->p->arena;
    return x_splat(a, x_cast(a, t, x_dim(a, d)), l->n);
}

static const Expr *lane_numbers(const Lanes *l, DType t) {
    return x_node(l->p->arena, (Expr){.op = X_iota, .type = vtype(t, l->n)});
}

// d is lane 0's index plus a constant stride a lane.
static bool strided(const Lanes *l, const Dim *d, const Dim **first, int64_t *stride) {
    const Dim *coefficient, *rest;
    *stride = 0;
    *first = d;
    if (!varying_dim(&l->varying, d)) return true;
    for (int i = 0; i < l->nsyms; i++) {
        if (!dim_has_symbol(d, l->sym[i])) continue;
        if (!dim_linear(l->p->dims, d, l->sym[i], &coefficient, &rest)) return false;
        if (!dim_is_int(coefficient, stride) || varying_dim(&l->varying, rest)) return false;
        *first = dim_add(l->p->dims, rest, dim_mul(l->p->dims, coefficient, l->base[i]));
        return true;
    }
    return false;
}

static const Expr *dim_lanes(const Lanes *l, const Dim *d, DType t);

static const Expr *atom_lanes(const Lanes *l, const Atom *f, DType t) {
    static const XOp op[] = {[ATOM_FLOORDIV] = X_floordiv, [ATOM_MOD] = X_floormod, [ATOM_MIN] = X_min, [ATOM_MAX] = X_max};
    Arena *a = l->p->arena;
    if (f->kind != ATOM_SYMBOL) return x_op2(a, op[f->kind], dim_lanes(l, f->a, t), dim_lanes(l, f->b, t));
    for (int i = 0; i < l->nsyms; i++)
        if (f->self == l->sym[i]) return x_op2(a, X_add, lane_numbers(l, t), spread(l, t, l->base[i]));
    int i = ptr_map_get(&l->symbol, f->self);
    return i >= 0 ? x_cast(a, t, x_var(a, l->wide.data[i])) : spread(l, t, f->self);
}

// The value of d in each lane, as type t.
static const Expr *dim_lanes(const Lanes *l, const Dim *d, DType t) {
    DimTable *dims = l->p->dims;
    Arena *a = l->p->arena;
    const Dim *same = dim_int(dims, 0), *first;
    int64_t stride;
    if (strided(l, d, &first, &stride)) {
        const Expr *lanes = x_op2(a, X_mul, lane_numbers(l, t), x_splat(a, x_int(a, t, stride), l->n));
        return dim_is(first, 0) ? lanes : x_op2(a, X_add, lanes, spread(l, t, first));
    }
    const Expr *sum = NULL;
    for (int i = 0; i < dim_nterms(d); i++) {
        const Dim *scale = dim_int(dims, dim_coefficient(d, i));
        const Expr *product = NULL;
        for (int k = 0; k < dim_nfactors(d, i); k++) {
            const Atom *f = dim_factor(d, i, k);
            if (!varying_dim(&l->varying, f->self)) {
                scale = dim_mul(dims, scale, f->self);
                continue;
            }
            const Expr *x = atom_lanes(l, f, t);
            product = product ? x_op2(a, X_mul, product, x) : x;
        }
        if (!product) {
            same = dim_add(dims, same, scale);
            continue;
        }
        const Expr *term = dim_is(scale, 1) ? product : x_op2(a, X_mul, product, spread(l, t, scale));
        sum = sum ? x_op2(a, X_add, sum, term) : term;
    }
    if (!sum) return spread(l, t, same);
    return dim_is(same, 0) ? sum : x_op2(a, X_add, sum, spread(l, t, same));
}

// ---- expressions ----

// A mask that may be off in all lanes: then nothing is evaluated that was not.
static bool conditional(const Lanes *l, const Expr *mask) {
    return mask && mask != l->tail;
}

typedef struct {
    const Lanes *l;
    const Expr *mask;
    PtrMap known;
    VEC(const Expr *) result;
} Widening;

static const Expr *widen(Widening *w, const Expr *e);

// Comparison of two indices whose difference is linear in the lane: the scalar part is brought into the range where it matters.
static const Expr *compare_indices(const Lanes *l, XOp op, const Dim *x, const Dim *y) {
    DimTable *t = l->p->dims;
    Arena *a = l->p->arena;
    const Dim *d = dim_sub(t, x, y), *first;
    int64_t stride;
    if (!strided(l, d, &first, &stride) || stride < -0xffff || stride > 0xffff) {
        DType type = fits_i32(l, x) && fits_i32(l, y) ? DT_i32 : DT_idx;
        return x_op2(a, op, dim_lanes(l, x, type), dim_lanes(l, y, type));
    }
    int64_t far = (stride < 0 ? -stride : stride) * l->n + 1;
    const Dim *near = dim_max(t, dim_min(t, first, dim_int(t, far)), dim_int(t, -far));
    const Expr *lanes = x_op2(a, X_mul, lane_numbers(l, DT_i32), x_splat(a, x_int(a, DT_i32, stride), l->n));
    return x_op2(a, op, lanes, spread(l, DT_i32, dim_sub(t, dim_int(t, 0), near)));
}

// e as an index: of type idx and known as a Dim; else NULL.
static const Dim *as_index(const Lanes *l, const Expr *e) {
    if (e->op == X_const && e->type.type == DT_idx) return dim_int(l->p->dims, e->k_scalar.i);
    return e->op == X_dim ? e->dim : NULL;
}

static const Expr *and_mask(Arena *a, const Expr *x, const Expr *y) {
    return !x ? y : !y ? x : x_op2(a, X_and, x, y);
}

static const Expr *widen_load(Widening *w, const Expr *e) {
    const Lanes *l = w->l;
    Arena *a = l->p->arena;
    const Expr *own = e->a[1] ? widen(w, e->a[1]) : NULL;
    bool index_differs = varying_dim(&l->varying, e->dim);
    if (!index_differs && !conditional(l, w->mask) && (!own || own->type.lanes == 1)) return e;
    const Expr *mask = and_mask(a, w->mask, own ? x_splat(a, own, l->n) : NULL), *offsets = NULL;
    const Dim *first;
    int64_t stride;
    if (!strided(l, e->dim, &first, &stride)) {
        DType t = index_type(l, e->dim);
        offsets = dim_lanes(l, e->dim, t);
        first = dim_int(l->p->dims, 0);
        stride = 0;
    }
    Expr load = {.op = X_load, .type = vtype(e->type.type, l->n), .var = e->var, .dim = first, .k = stride, .a = {offsets, mask}};
    return x_node(a, load);
}

static const Expr *widen_cast(Widening *w, const Expr *e) {
    Arena *a = w->l->p->arena;
    bool index = e->a[0]->op == X_dim;
    const Expr *x = index ? dim_lanes(w->l, e->a[0]->dim, index_type(w->l, e->a[0]->dim)) : widen(w, e->a[0]);
    return e->op == X_cast ? x_cast(a, e->type.type, x) : e->op == X_casts ? x_casts(a, e->type.type, x) : x_bits(a, e->type.type, x);
}

static const Expr *widen_operation(Widening *w, const Expr *e) {
    Arena *a = w->l->p->arena;
    const XOpInfo *info = xop_info(e->op);
    if (info->cls == XC_CAST) return widen_cast(w, e);
    const Dim *left = e->n == 2 ? as_index(w->l, e->a[0]) : NULL, *right = left ? as_index(w->l, e->a[1]) : NULL;
    if (info->cls == XC_CMP && right) return compare_indices(w->l, e->op, left, right);
    const Expr *x[3];
    for (int i = 0; i < e->n; i++) x[i] = x_splat(a, widen(w, e->a[i]), w->l->n);
    return e->n == 1 ? x_op1(a, e->op, x[0]) : e->n == 2 ? x_op2(a, e->op, x[0], x[1]) : x_op3(a, e->op, x[0], x[1], x[2]);
}

static const Expr *widen_new(Widening *w, const Expr *e) {
    const Lanes *l = w->l;
    if (e->op == X_load) return widen_load(w, e);
    if (!varying_expr(&l->varying, e)) return e;
    if (e->op == X_dim) return dim_lanes(l, e->dim, DT_idx);
    if (e->op == X_var) {
        Expr node = *e;
        node.type = e->var->type;
        return x_node(l->p->arena, node);
    }
    return widen_operation(w, e);
}

static const Expr *widen(Widening *w, const Expr *e) {
    int at = ptr_map_get(&w->known, e);
    if (at >= 0) return w->result.data[at];
    const Expr *x = widen_new(w, e);
    ptr_map_put(&w->known, e, w->result.n);
    vec_push(w->l->p->arena, &w->result, x);
    return x;
}

// e in lanes when it differs between them, else as it is.
static const Expr *in_lanes(const Lanes *l, const Expr *e, const Expr *mask) {
    Widening w = {.l = l, .mask = mask, .known = {.arena = l->p->arena}};
    return widen(&w, e);
}

// ---- checks ----

static void refuse(Lanes *l, const char *why) {
    if (!l->fault) l->fault = why;
}

static void check_node(void *ctx, const Expr *e) {
    Lanes *l = ctx;
    bool lane_form = xop_info(e->op)->cls >= XC_ARITH || e->op == X_const || e->op == X_dim || e->op == X_var || e->op == X_load;
    if (e->type.lanes > 1 || (e->op == X_load && e->a[0])) {
        refuse(l, "it holds lanes already");
        return;
    }
    if (!varying_expr(&l->varying, e)) return;
    if (!lane_form)
        refuse(l, e->op == X_index ? "an index that is checked differs between its iterations" : "an operation has no form in lanes");
    const Dim *first;
    int64_t stride;
    bool reinterprets = e->op == X_load && e->type.type != e->var->type.type;
    if (reinterprets && varying_dim(&l->varying, e->dim) && (!strided(l, e->dim, &first, &stride) || stride != 1))
        refuse(l, "a load of another type is not contiguous");
    for (int i = 0; i < 3; i++)
        if (e->idx[i] && varying_dim(&l->varying, e->idx[i])) refuse(l, "the element of a tile differs between its iterations");
}

static void check_expr(void *ctx, const Expr **e) {
    expr_visit(*e, check_node, ctx);
}

static void check_store(Lanes *l, const Stmt *s) {
    const Dim *first;
    int64_t stride;
    if (s->offsets || s->value->type.lanes > 1) return;
    bool line = strided(l, s->dim, &first, &stride);
    if (line && stride == 0) refuse(l, "all its iterations write one element");
    if (s->value->type.type != s->var->type.type && (!line || stride != 1)) refuse(l, "a store of another type is not contiguous");
}

static void find_while(void *ctx, Stmt *s) {
    if (s->kind == ST_WHILE) refuse(ctx, "a while stands under a condition that differs between its iterations");
    if (s->kind == ST_CHECK && (((Lanes *)ctx)->n & (((Lanes *)ctx)->n - 1))) refuse(ctx, "a check needs a power of two of lanes");
}

static void check_statement(void *ctx, Stmt *s) {
    Lanes *l = ctx;
    stmt_exprs(s, check_expr, l);
    bool differs = s->value && varying_expr(&l->varying, s->value);
    if (s->kind == ST_IF && differs && s != l->varying.plain) {
        loop_walk(&s->body, find_while, l);
        loop_walk(&s->orelse, find_while, l);
    }
    switch (s->kind) {
    case ST_FOR:
    case ST_REDUCE:
        if (varying_dim(&l->varying, s->lo) || varying_dim(&l->varying, s->hi))
            refuse(l, "the bounds of an inner loop differ between its iterations");
        return;
    case ST_WHILE:
        if (differs) refuse(l, "the condition of a while differs between its iterations");
        return;
    case ST_CHECK:
        if (differs && (l->n & (l->n - 1))) refuse(l, "a check needs a power of two of lanes");
        return;
    case ST_STORE: check_store(l, s); return;
    case ST_LOCAL: refuse(l, "a local buffer is declared in it"); return;
    case ST_BREAK: refuse(l, "it holds a break"); return;
    case ST_TEAM:
    case ST_BARRIER: refuse(l, "it holds a team"); return;
    default: return;
    }
}

static void widen_definition(void *ctx, Stmt *s) {
    Lanes *l = ctx;
    bool variable = s->kind == ST_LET || s->kind == ST_VAR || s->kind == ST_TILE;
    if (variable && s->var && varying_has(&l->varying, s->var)) s->var->type.lanes = l->n;
    for (int i = 0; i < s->nstates; i++)
        if (varying_has(&l->varying, s->states[i])) s->states[i]->type.lanes = s->others[i]->type.lanes = l->n;
}

Lanes lanes_new(Program *p, int n) {
    return (Lanes){.p = p, .n = n, .varying = varying_new(p->arena), .symbol = {.arena = p->arena}, .kept = {.arena = p->arena}};
}

void lanes_symbol(Lanes *l, const Dim *sym, const Dim *base) {
    l->sym[l->nsyms] = sym;
    l->base[l->nsyms++] = base;
    varying_add(&l->varying, sym);
}

void lanes_variable(Lanes *l, Var *v) {
    varying_add(&l->varying, v);
    ptr_map_put(&l->kept, v, 1);
}

void lanes_tail(Lanes *l, const Stmt *condition) {
    l->varying.plain = condition;
}

bool lanes_prepare(Lanes *l, const Block *b) {
    varying_close(&l->varying, b);
    Block copy = *b;
    loop_walk(&copy, check_statement, l);
    return !l->fault;
}

// ---- statements ----

static void lane_block(Lanes *l, Block *to, const Block *from, const Expr *mask);

static const Expr *named_mask(Lanes *l, Block *to, const Expr *mask) {
    if (!mask || mask->op == X_var || mask->op == X_const) return mask;
    return x_var(l->p->arena, loop_let(l->p, to, "on", mask));
}

static Stmt *shell(Lanes *l, Block *to, const Stmt *s) {
    Stmt *n = arena_copy(l->p->arena, s, sizeof *s);
    n->body = n->orelse = loop_block(to);
    vec_push(l->p->arena, to, n);
    return n;
}

static void lane_loop(Lanes *l, Block *to, const Stmt *s, const Expr *mask) {
    Stmt *n = shell(l, to, s);
    n->inits = ARENA_ARRAY(l->p->arena, const Expr *, s->nstates + 1);
    for (int i = 0; i < s->nstates; i++) n->inits[i] = x_splat(l->p->arena, in_lanes(l, s->inits[i], mask), s->states[i]->type.lanes);
    lane_block(l, &n->body, &s->body, mask);
    lane_block(l, &n->orelse, &s->orelse, mask);
}

static void lane_if(Lanes *l, Block *to, const Stmt *s, const Expr *mask) {
    Arena *a = l->p->arena;
    if (!varying_expr(&l->varying, s->value) && !conditional(l, mask)) {
        Stmt *n = shell(l, to, s);
        n->value = in_lanes(l, s->value, mask);
        lane_block(l, &n->body, &s->body, mask);
        lane_block(l, &n->orelse, &s->orelse, mask);
        return;
    }
    const Expr *cond = named_mask(l, to, x_splat(a, in_lanes(l, s->value, mask), l->n));
    if (s == l->varying.plain) {
        const Expr *outer = l->tail;
        l->tail = cond;
        lane_block(l, to, &s->body, cond);
        l->tail = outer;
        return;
    }
    lane_block(l, to, &s->body, named_mask(l, to, and_mask(a, mask, cond)));
    if (s->orelse.n) lane_block(l, to, &s->orelse, named_mask(l, to, and_mask(a, mask, x_op1(a, X_not, cond))));
}

static void lane_store(Lanes *l, Block *to, const Stmt *s, const Expr *mask) {
    Arena *a = l->p->arena;
    Stmt *n = shell(l, to, s);
    n->value = x_splat(a, in_lanes(l, s->value, mask), l->n);
    n->mask = and_mask(a, mask, s->mask ? x_splat(a, in_lanes(l, s->mask, mask), l->n) : NULL);
    if (strided(l, s->dim, &n->dim, &n->stride)) return;
    n->offsets = dim_lanes(l, s->dim, index_type(l, s->dim));
    n->dim = dim_int(l->p->dims, 0);
    n->stride = 0;
}

// A value for the variable that s defines or sets, as many lanes as it has. Behind a condition lanes that are off keep theirs; off in the
// tail, they may hold anything if the variable is of the block's own.
static const Expr *value_for(Lanes *l, const Stmt *s, const Expr *mask) {
    Arena *a = l->p->arena;
    const Expr *x = in_lanes(l, s->value, mask);
    if (s->var->type.lanes == 1) return x;
    x = x_splat(a, x, l->n);
    bool keeps = conditional(l, mask) || (mask && ptr_map_get(&l->kept, s->var) >= 0);
    if (s->kind != ST_SET || !keeps) return x;
    const Expr *old = s->var->kind == VAR_TILE ? x_tile(a, s->var, s->idx) : x_var(a, s->var);
    return x_op3(a, X_select, mask, x, old);
}

static void lane_let(Lanes *l, Block *to, const Stmt *s, const Expr *mask) {
    if (s->var || !varying_has(&l->varying, s->sym)) {
        Stmt *n = shell(l, to, s);
        n->value = s->var ? value_for(l, s, mask) : in_lanes(l, s->value, mask);
        return;
    }
    const Expr *x = x_splat(l->p->arena, in_lanes(l, s->value, mask), l->n);
    ptr_map_put(&l->symbol, s->sym, l->wide.n);
    Var *wide = loop_let(l->p, to, dim_as_symbol(s->sym)->name, x);
    vec_push(l->p->arena, &l->wide, wide);
}

static void lane_check(Lanes *l, Block *to, const Stmt *s, const Expr *mask) {
    Arena *a = l->p->arena;
    Stmt *n = shell(l, to, s);
    n->value = in_lanes(l, s->value, mask);
    if (conditional(l, mask)) n->value = x_splat(a, n->value, l->n);
    if (n->value->type.lanes == 1) return;
    if (mask) n->value = x_op2(a, X_or, n->value, x_op1(a, X_not, mask));
    n->value = x_node(a, (Expr){.op = X_hreduce, .type = vtype(DT_bool, 1), .n = 1, .a = {n->value}, .k = X_and});
}

static void lane_stmt(Lanes *l, Block *to, const Stmt *s, const Expr *mask) {
    switch (s->kind) {
    case ST_FOR:
    case ST_REDUCE:
    case ST_WHILE: lane_loop(l, to, s, mask); return;
    case ST_IF: lane_if(l, to, s, mask); return;
    case ST_STORE: lane_store(l, to, s, mask); return;
    case ST_LET: lane_let(l, to, s, mask); return;
    case ST_CHECK: lane_check(l, to, s, mask); return;
    case ST_VAR:
    case ST_TILE:
    case ST_SET: shell(l, to, s)->value = value_for(l, s, mask); return;
    default: shell(l, to, s); return;
    }
}

static void lane_block(Lanes *l, Block *to, const Block *from, const Expr *mask) {
    for (int i = 0; i < from->n; i++) lane_stmt(l, to, from->data[i], mask);
}

void lanes_block(Lanes *l, Block *to, const Block *from, const Expr *tail) {
    Block source = *from; // `to` may be the same block
    loop_walk(&source, widen_definition, l);
    l->tail = named_mask(l, to, tail);
    lane_block(l, to, &source, l->tail);
}

const Expr *lanes_first(Program *p, int n, const Dim *count) {
    DimTable *t = p->dims;
    const Expr *lanes = x_node(p->arena, (Expr){.op = X_iota, .type = vtype(DT_i32, n)});
    const Dim *some = dim_max(t, dim_min(t, count, dim_int(t, n)), dim_int(t, 0));
    return x_op2(p->arena, X_lt, lanes, x_splat(p->arena, x_cast(p->arena, DT_i32, x_dim(p->arena, some)), n));
}
