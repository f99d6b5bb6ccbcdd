// The expression of one element of a value: see lower.h.
#include "lower.h"

#include <assert.h>
#include <string.h>

enum { RANK_MAX = 32 };

const Dim *lower_flat(Lower *l, const Value *v, const Dim *const *idx) {
    DimTable *t = l->g->dims;
    const Dim *flat = dim_int(t, 0);
    for (int i = 0; i < v->rank; i++) flat = dim_add(t, dim_mul(t, flat, v->shape[i]), idx[i]);
    return flat;
}

const char *kernel_local(KernelBuild *kb, const char *stem) {
    return arena_printf(kb->l->p->arena, "%s%d", stem, kb->locals++);
}

LoopBuffer *kernel_param(KernelBuild *kb, LoopBuffer *b, bool reads, bool writes) {
    for (int i = 0; i < kb->args.n; i++) {
        if (kb->args.data[i] != b) continue;
        LoopBuffer *have = kb->k->params.data[i];
        have->reads |= reads;
        have->writes |= writes;
        return have;
    }
    LoopBuffer *param = loop_param(kb->l->p, kb->k, b->var.name, b->var.type.type, reads, writes);
    vec_push(kb->l->p->arena, &kb->args, b);
    return param;
}

static const Expr *and_masks(Arena *a, const Expr *x, const Expr *y) {
    if (!x) return y;
    if (!y) return x;
    return x_op2(a, X_and, x, y);
}

const Expr *lower_all_ge0(Lower *l, int n, const Dim *const *guard) {
    Arena *a = l->p->arena;
    const Expr *all = NULL;
    for (int i = 0; i < n; i++) {
        Tri known = dim_ge0(l->g->dims, guard[i]);
        if (known == YES) continue;
        const Expr *zero = x_dim(a, dim_int(l->g->dims, 0));
        all = and_masks(a, all, x_op2(a, X_ge, x_dim(a, guard[i]), zero));
    }
    return all;
}

static const Expr *load_element(Place at, LoopBuffer *buf, const Dim *flat) {
    LoopBuffer *param = kernel_param(at.kb, buf, true, false);
    Arena *a = at.kb->l->p->arena;
    if (!at.mask) return x_load(a, &param->var, flat);
    return x_load_lanes(a, &param->var, flat, 1, 1, NULL, at.mask);
}

// The indices that a map, a broadcasting input, reads of an input: trailing axes aligned, extent 1 read at 0, an extent that may be 1 at
// min(d, extent - 1).
static void broadcast_index(Lower *l, const Value *in, int rank, const Dim *const *shape, const Dim *const *idx, const Dim **out) {
    DimTable *t = l->g->dims;
    int skip = rank - in->rank;
    for (int i = 0; i < in->rank; i++) {
        const Dim *extent = in->shape[i];
        if (extent == shape[i + skip]) {
            out[i] = idx[i + skip];
        } else if (dim_is(extent, 1)) {
            out[i] = dim_int(t, 0);
        } else {
            out[i] = dim_min(t, idx[i + skip], dim_addi(t, extent, -1));
        }
    }
}

// ---- substitution of a body ----
typedef struct {
    Arena *arena;
    DimTable *dims;
    const Expr *const *args;
    const Dim *const *from, *const *to;
    int nsubst;
} BodySubst;

static const Expr *subst_leaf(void *ctx, const Expr *e) {
    const BodySubst *s = ctx;
    if (e->op == X_arg) return s->args[e->k];
    if (e->op == X_dim) return x_dim(s->arena, dim_subst(s->dims, e->dim, s->from, s->to, s->nsubst));
    return e;
}

// The axis symbols of `shape` (what index maps and bodies are written in).
static void axis_symbols(DimTable *t, int rank, const Dim *const *shape, const Dim **out) {
    for (int i = 0; i < rank; i++) out[i] = dim_axis(t, i, shape[i]);
}

typedef struct {
    Place at;
    const Node *node;
} DivisionCheck;

// Integer division by zero ends the run: a check in front of the use, unless the divisor is a constant.
static void check_division(void *ctx, const Expr *e) {
    DivisionCheck *d = ctx;
    bool divides = e->op == X_div || e->op == X_rem || e->op == X_floordiv || e->op == X_floormod;
    if (!divides || dtype_is_float(e->type.type) || e->a[1]->op == X_const) return;
    Lower *l = d->at.kb->l;
    Arena *a = l->p->arena;
    const Expr *ok = x_op2(a, X_ne, e->a[1], x_int(a, e->a[1]->type.type, 0));
    if (d->at.mask) ok = x_op2(a, X_or, ok, x_op1(a, X_not, d->at.mask));
    loop_check(l->p, d->at.block, ok, CODE_DIVISION, d->node->onnx_id);
}

static const Expr *map_element(Place at, const Value *v, const Dim *const *idx) {
    Lower *l = at.kb->l;
    const Node *n = v->def;
    const Expr **args = ARENA_ARRAY(l->p->arena, const Expr *, n->nin + 1);
    for (int i = 0; i < n->nin; i++) {
        const Dim *in_idx[RANK_MAX];
        broadcast_index(l, n->in[i], v->rank, v->shape, idx, in_idx);
        args[i] = lower_element(at, n->in[i], in_idx);
    }
    const Dim *from[RANK_MAX];
    axis_symbols(l->g->dims, v->rank, v->shape, from);
    BodySubst s = {l->p->arena, l->g->dims, args, from, idx, v->rank};
    const Expr *e = expr_rewrite(l->p->arena, n->body, subst_leaf, &s);
    DivisionCheck d = {at, n};
    expr_visit(e, check_division, &d);
    return e;
}

// ---- views and gathers ----
static const Expr *filled(Arena *a, const Expr *guard, const Expr *e, Scalar fill) {
    if (!guard) return e;
    bool zero_load = e->op == X_load && e->a[1] && scalar_same(fill, scalar_int(fill.type, 0));
    if (zero_load) return e;
    return x_op3(a, X_select, guard, e, x_const(a, fill, 1));
}

static const Expr *view_element(Place at, const Value *v, const Dim *const *idx) {
    Lower *l = at.kb->l;
    const Node *n = v->def;
    DimTable *t = l->g->dims;
    const Dim *from[RANK_MAX], *in_idx[RANK_MAX];
    axis_symbols(t, v->rank, v->shape, from);
    const Dim **guard = ARENA_ARRAY(l->p->arena, const Dim *, n->guard.n + 1);
    for (int i = 0; i < n->guard.n; i++) guard[i] = dim_subst(t, n->guard.data[i], from, idx, v->rank);
    for (int i = 0; i < n->index.n; i++) in_idx[i] = dim_subst(t, n->index.data[i], from, idx, v->rank);
    const Expr *inside = lower_all_ge0(l, n->guard.n, guard);
    Place inner = at;
    inner.mask = and_masks(l->p->arena, at.mask, inside);
    return filled(l->p->arena, inside, lower_element(inner, n->in[0], in_idx), n->fill);
}

// Binds the node's index symbols v0, v1 … to the index inputs' elements, as immutable idx scalars in front of the use; from/to get the
// substitution.
int lower_bind_indices(
    Place at, const Node *n, int first, int rank, const Dim *const *shape, const Dim *const *idx, const Dim **from, const Dim **to) {
    Lower *l = at.kb->l;
    Arena *a = l->p->arena;
    for (int i = 0; i < rank; i++) {
        from[i] = dim_axis(l->g->dims, i, shape[i]);
        to[i] = idx[i];
    }
    for (int i = 0; i < n->nvsyms; i++) {
        const Value *in = n->in[first + i];
        from[rank + i] = n->vsyms[i];
        if (l->scalar[in->id]) { // the iteration number of a loop
            to[rank + i] = l->scalar[in->id];
            continue;
        }
        const Dim *in_idx[RANK_MAX];
        broadcast_index(l, in, rank, shape, idx, in_idx);
        const Expr *e = x_cast(a, DT_idx, lower_element(at, in, in_idx));
        to[rank + i] = loop_let_idx(l->p, at.block, kernel_local(at.kb, "v"), e, NULL, NULL);
    }
    return rank + n->nvsyms;
}

// Index dimension d of a data axis: clamped and flagged when it is not provably inside (only where the mask holds: elsewhere it is replaced
// by 0).
const Dim *lower_checked_index(Place at, const Dim *d, const Dim *extent) {
    Lower *l = at.kb->l;
    DimTable *t = l->g->dims;
    Arena *a = l->p->arena;
    if (dim_ge0(t, d) == YES && dim_lt(t, d, extent) == YES) return d;
    const Expr *e = x_dim(a, d);
    if (at.mask) e = x_op3(a, X_select, at.mask, e, x_dim(a, dim_int(t, 0)));
    const Expr *index = x_node(a, (Expr){.op = X_index, .type = vtype(DT_idx, 1), .n = 1, .a = {e}, .dim = extent});
    return loop_let_idx(l->p, at.block, kernel_local(at.kb, "j"), index, dim_int(t, 0), dim_addi(t, extent, -1));
}

static const Expr *gather_element(Place at, const Value *v, const Dim *const *idx) {
    Lower *l = at.kb->l;
    const Node *n = v->def;
    DimTable *t = l->g->dims;
    const Dim *from[2 * RANK_MAX], *to[2 * RANK_MAX], *in_idx[RANK_MAX];
    int ns = lower_bind_indices(at, n, 1, v->rank, v->shape, idx, from, to);
    const Dim **guard = ARENA_ARRAY(l->p->arena, const Dim *, n->guard.n + 1);
    for (int i = 0; i < n->guard.n; i++) guard[i] = dim_subst(t, n->guard.data[i], from, to, ns);
    const Expr *inside = lower_all_ge0(l, n->guard.n, guard);
    Place inner = at;
    inner.mask = and_masks(l->p->arena, at.mask, inside);
    for (int i = 0; i < n->index.n; i++)
        in_idx[i] = lower_checked_index(inner, dim_subst(t, n->index.data[i], from, to, ns), n->in[0]->shape[i]);
    return filled(l->p->arena, inside, lower_element(inner, n->in[0], in_idx), n->fill);
}

static const Expr *reshape_element(Place at, const Value *v, const Dim *const *idx) {
    Lower *l = at.kb->l;
    const Value *in = v->def->in[0];
    DimTable *t = l->g->dims;
    const Dim *flat = lower_flat(l, v, idx);
    while (in->storage.kind == STORE_INLINE && in->def && in->def->op == G_reshape) in = in->def->in[0];
    if (l->buffer[in->id]) return load_element(at, l->buffer[in->id], flat);
    const Dim *in_idx[RANK_MAX];
    for (int i = in->rank - 1; i >= 0; i--) {
        bool outermost = i == 0;
        const Dim *extent = dim_is(in->shape[i], 0) ? dim_int(t, 1) : in->shape[i]; // of nothing any index will do
        in_idx[i] = outermost ? flat : dim_mod(t, flat, extent);
        flat = outermost ? flat : dim_floordiv(t, flat, extent);
    }
    return lower_element(at, in, in_idx);
}

static const Expr *concat_element(Place at, const Value *v, const Dim *const *idx) {
    Lower *l = at.kb->l;
    const Node *n = v->def;
    DimTable *t = l->g->dims;
    Arena *a = l->p->arena;
    const Dim *start = dim_int(t, 0);
    const Expr *e = NULL;
    for (int i = 0; i < n->nin; i++) {
        const Dim *end = dim_add(t, start, n->in[i]->shape[n->axis]);
        const Dim *in_idx[RANK_MAX];
        memcpy(in_idx, idx, sizeof(Dim *) * (size_t)v->rank);
        in_idx[n->axis] = dim_sub(t, idx[n->axis], start);
        const Dim *guards[] = {in_idx[n->axis], dim_addi(t, dim_sub(t, end, idx[n->axis]), -1)};
        const Expr *inside = lower_all_ge0(l, 2, guards);
        Place inner = at;
        inner.mask = and_masks(a, at.mask, inside);
        const Expr *x = lower_element(inner, n->in[i], in_idx);
        e = e && inside ? x_op3(a, X_select, inside, x, e) : x;
        start = end;
    }
    return e;
}

static const Expr *dims_element(Place at, const Value *v, const Dim *const *idx) {
    Lower *l = at.kb->l;
    Arena *a = l->p->arena;
    const Node *n = v->def;
    int64_t k = 0;
    if (n->dims.n == 0) return x_int(a, DT_i64, 0); // never read
    if (v->rank == 0 || dim_is_int(idx[0], &k)) return x_cast(a, DT_i64, x_dim(a, n->dims.data[k]));
    const Expr *e = x_cast(a, DT_i64, x_dim(a, n->dims.data[n->dims.n - 1]));
    for (int i = n->dims.n - 2; i >= 0; i--) {
        const Expr *here = x_op2(a, X_eq, x_dim(a, idx[0]), x_dim(a, dim_int(l->g->dims, i)));
        e = x_op3(a, X_select, here, x_cast(a, DT_i64, x_dim(a, n->dims.data[i])), e);
    }
    return e;
}

// ---- reductions ----
DType accumulator_type(DType t) {
    return dtype_is_float(t) && t != DT_f64 ? DT_f32 : t;
}

typedef struct {
    const char *kind;
    XOp op;
    enum { INIT_ZERO, INIT_ONE, INIT_LOWEST, INIT_HIGHEST } init;
} CombineRow;

static const CombineRow combines[] = {
    {"sum", X_add, INIT_ZERO},
    {"add", X_add, INIT_ZERO},
    {"prod", X_mul, INIT_ONE},
    {"mul", X_mul, INIT_ONE},
    {"max", X_max, INIT_LOWEST},
    {"min", X_min, INIT_HIGHEST},
    {"any", X_or, INIT_ZERO},
    {"all", X_and, INIT_ONE},
};

static const CombineRow *combine_row(const char *kind) {
    for (size_t i = 0; i < sizeof combines / sizeof *combines; i++)
        if (!strcmp(combines[i].kind, kind)) return &combines[i];
    assert(!"combine kind");
    return NULL;
}

const Expr *combine_expr(Arena *a, const char *kind, const Expr *state, const Expr *x) {
    XOp op = combine_row(kind)->op;
    if (state->type.type == DT_bool) op = op == X_max || op == X_add ? X_or : op == X_min || op == X_mul ? X_and : op;
    return x_op2(a, op, state, x);
}

static Scalar lowest(DType t) {
    if (dtype_is_float(t)) return scalar_float(t, -__builtin_inf());
    if (!dtype_is_signed(t)) return scalar_int(t, 0);
    return scalar_int(t, -(int64_t)(((uint64_t)1 << (dtype_info(t)->bits - 1)) - 1) - 1);
}

static Scalar highest(DType t) {
    if (dtype_is_float(t)) return scalar_float(t, __builtin_inf());
    if (t == DT_bool) return scalar_int(t, 1);
    if (!dtype_is_signed(t)) return scalar_int(t, -1);
    int bits = dtype_info(t)->bits;
    return scalar_int(t, (int64_t)(((uint64_t)1 << (bits - 1)) - 1));
}

const Expr *combine_init(Arena *a, const char *kind, DType t) {
    switch (combine_row(kind)->init) {
    case INIT_ZERO: return x_int(a, t, 0);
    case INIT_ONE: return x_int(a, t, 1);
    case INIT_LOWEST: return x_const(a, lowest(t), 1);
    default: return x_const(a, highest(t), 1);
    }
}

// Nested reduce statements over n axes with the given extents; the innermost body is filled by the caller through *inner; states as in
// loop_reduce. The outer loops are sequential `for`s around the innermost reduce's updates, so that one tuple of states spans them all.
typedef struct {
    Stmt *reduce; // carries the states
    Block *inner; // where elements are computed and states set
} ReduceNest;

static ReduceNest reduce_nest(
    Place at, int n, const Dim *const *extents, const Dim **syms, int nstates, const char *const *names, const Expr *const *inits) {
    Lower *l = at.kb->l;
    const Dim *zero = dim_int(l->g->dims, 0), *one = dim_int(l->g->dims, 1);
    ReduceNest nest = {0};
    for (int i = 0; i < n; i++) {
        syms[i] = zero;
        if (dim_is(extents[i], 1)) continue;
        if (!nest.reduce) {
            nest.reduce = loop_reduce(l->p, at.block, kernel_local(at.kb, "r"), zero, extents[i], nstates, names, inits);
            nest.inner = &nest.reduce->body;
            syms[i] = nest.reduce->sym;
            continue;
        }
        Stmt *f = loop_for(l->p, nest.inner, kernel_local(at.kb, "r"), zero, extents[i], LOOP_RED);
        syms[i] = f->sym;
        nest.inner = &f->body;
    }
    if (nest.reduce) return nest;
    nest.reduce = loop_reduce(l->p, at.block, kernel_local(at.kb, "r"), zero, one, nstates, names, inits);
    nest.inner = &nest.reduce->body;
    return nest;
}

// One state of `type` reduced by kind over the nest: element is computed by fn at the nest's symbols. Returns the state's value after the
// loop.
typedef const Expr *ElementFn(Place at, const void *ctx, const Dim *const *syms);
static const Expr *reduce_one(Place at, const char *kind, DType type, int n, const Dim *const *extents, ElementFn *fn, const void *ctx) {
    Lower *l = at.kb->l;
    Arena *a = l->p->arena;
    const char *names[] = {kernel_local(at.kb, "acc")};
    const Expr *inits[] = {combine_init(a, kind, type)};
    const Dim *syms[RANK_MAX];
    ReduceNest nest = reduce_nest(at, n, extents, syms, 1, names, inits);
    Var *acc = nest.reduce->states[0];
    Place inner = {at.kb, nest.inner, at.mask};
    const Expr *x = fn(inner, ctx, syms);
    bool multiply_add = combine_row(kind)->op == X_add && x->op == X_mul && dtype_is_float(type);
    const Expr *next = multiply_add ? x_op3(a, X_fma, x->a[0], x->a[1], x_var(a, acc)) : combine_expr(a, kind, x_var(a, acc), x);
    loop_set(l->p, nest.inner, acc, next);
    Var *other = nest.reduce->others[0];
    loop_set(l->p, &nest.reduce->orelse, acc, combine_expr(a, kind, x_var(a, acc), x_var(a, other)));
    return x_var(a, acc);
}

typedef struct {
    const Value *in;
    const int *axis_of; // reduced axis number of each symbol
    int n;
    const Dim *const *idx; // of the kept axes, at their input positions
    DType type;
    const Expr *minus; // row statistics: elements are (x - minus), NULL: x
    enum { TERM_X, TERM_SQUARE, TERM_EXP } term;
} ReduceElement;

static const Expr *reduce_element_fn(Place at, const void *ctx, const Dim *const *syms) {
    const ReduceElement *r = ctx;
    Arena *a = at.kb->l->p->arena;
    const Dim *idx[RANK_MAX];
    for (int i = 0; i < r->in->rank; i++) idx[i] = r->idx[i];
    for (int i = 0; i < r->n; i++) idx[r->axis_of[i]] = syms[i];
    const Expr *x = x_cast(a, r->type, lower_element(at, r->in, idx));
    if (r->minus) x = x_op2(a, X_sub, x, r->minus);
    if (r->term == TERM_EXP) return x_op1(a, X_exp, x);
    if (r->term == TERM_X) return x;
    Var *d = loop_let(at.kb->l->p, at.block, kernel_local(at.kb, "d"), x);
    return x_op2(a, X_mul, x_var(a, d), x_var(a, d));
}

// Splits axes into reduced (axis_of, extents) and gives idx at the input's rank from the output's indices (keep or not).
static int reduced_axes(const Node *n, const Value *in, int *axis_of, const Dim **extents) {
    int count = 0;
    for (int i = 0; i < n->axes.n; i++) {
        axis_of[count] = (int)n->axes.data[i];
        extents[count++] = in->shape[n->axes.data[i]];
    }
    return count;
}

static bool is_reduced(const Node *n, int axis) {
    for (int i = 0; i < n->axes.n; i++)
        if (n->axes.data[i] == axis) return true;
    return false;
}

static void kept_indices(Lower *l, const Node *n, const Value *in, const Dim *const *idx, const Dim **full) {
    int o = 0;
    for (int i = 0; i < in->rank; i++) {
        bool reduced = is_reduced(n, i);
        full[i] = reduced ? dim_int(l->g->dims, 0) : idx[o];
        if (!reduced || n->keep) o++;
    }
}

// argmin, argmax: the state is (best, position); a NaN wins over everything, the first or the last extreme is kept.
static const Expr *arg_element(Place at, const Value *v, const Dim *const *idx) {
    Lower *l = at.kb->l;
    Arena *a = l->p->arena;
    const Node *n = v->def;
    const Value *in = n->in[0];
    int axis = (int)n->axes.data[0];
    bool wants_max = !strncmp(n->kind, "argmax", 6), last = strstr(n->kind, "_last") != NULL;
    const Dim *full[RANK_MAX];
    kept_indices(l, n, in, idx, full);
    const char *names[] = {kernel_local(at.kb, "best"), kernel_local(at.kb, "at")};
    const Expr *inits[] = {x_const(a, wants_max ? lowest(in->type) : highest(in->type), 1), x_int(a, DT_i64, 0)};
    const Dim *sym[1];
    ReduceNest nest = reduce_nest(at, 1, &in->shape[axis], sym, 2, names, inits);
    full[axis] = sym[0];
    Place inner = {at.kb, nest.inner, at.mask};
    Var *x = loop_let(l->p, nest.inner, kernel_local(at.kb, "x"), lower_element(inner, in, full));
    Var *best = nest.reduce->states[0], *where = nest.reduce->states[1];
    const Expr *xe = x_var(a, x), *be = x_var(a, best);
    const Expr *better = x_op2(a, wants_max ? (last ? X_ge : X_gt) : (last ? X_le : X_lt), xe, be);
    const Expr *first = x_op2(a, X_eq, x_dim(a, sym[0]), x_dim(a, dim_int(l->g->dims, 0)));
    if (dtype_is_float(in->type)) {
        const Expr *x_nan = x_op2(a, X_ne, xe, xe), *best_nan = x_op2(a, X_ne, be, be);
        better = x_op2(a, X_or, x_op2(a, X_and, better, x_op1(a, X_not, best_nan)), x_op2(a, X_and, x_nan, x_op1(a, X_not, best_nan)));
    }
    better = x_op2(a, X_or, better, first);
    Var *take = loop_let(l->p, nest.inner, kernel_local(at.kb, "take"), better);
    loop_set(l->p, nest.inner, best, x_op3(a, X_select, x_var(a, take), xe, be));
    loop_set(l->p, nest.inner, where, x_op3(a, X_select, x_var(a, take), x_cast(a, DT_i64, x_dim(a, sym[0])), x_var(a, where)));
    const Expr *ob = x_var(a, nest.reduce->others[0]), *ow = x_var(a, nest.reduce->others[1]);
    Block *c = &nest.reduce->orelse;
    const Expr *win = x_op2(a, wants_max ? X_gt : X_lt, ob, be);
    const Expr *tie = x_op2(a, X_and, x_op2(a, X_eq, ob, be), x_op2(a, last ? X_gt : X_lt, ow, x_var(a, where)));
    if (dtype_is_float(in->type)) { // the first NaN
        const Expr *before = x_op2(a, X_or, x_op2(a, X_eq, be, be), x_op2(a, X_lt, ow, x_var(a, where)));
        win = x_op2(a, X_or, win, x_op2(a, X_and, x_op2(a, X_ne, ob, ob), before));
    }
    Var *other = loop_let(l->p, c, kernel_local(at.kb, "take"), x_op2(a, X_or, win, tie));
    loop_set(l->p, c, best, x_op3(a, X_select, x_var(a, other), ob, be));
    loop_set(l->p, c, where, x_op3(a, X_select, x_var(a, other), ow, x_var(a, where)));
    return x_var(a, where);
}

static const Expr *reduce_element(Place at, const Value *v, const Dim *const *idx) {
    const Node *n = v->def;
    if (!strncmp(n->kind, "arg", 3)) return arg_element(at, v, idx);
    Lower *l = at.kb->l;
    const Value *in = n->in[0];
    int axis_of[RANK_MAX];
    const Dim *extents[RANK_MAX], *full[RANK_MAX];
    int count = reduced_axes(n, in, axis_of, extents);
    kept_indices(l, n, in, idx, full);
    DType type = accumulator_type(v->type);
    ReduceElement r = {in, axis_of, count, full, type, NULL, TERM_X};
    return x_cast(l->p->arena, v->type, reduce_one(at, n->kind, type, count, extents, reduce_element_fn, &r));
}

typedef struct {
    const Node *n;
    const Dim *const *idx; // output's indices
    const char *sum;       // letters that are summed, in order
    DType type;
} ContractElement;

static void letters_index(
    const ContractElement *c, const char *letters, int rank, const char *out_letters, const Dim *const *syms, const Dim **idx) {
    for (int i = 0; i < rank; i++) {
        const char *in_sum = strchr(c->sum, letters[i]), *in_out = strchr(out_letters, letters[i]);
        assert(in_sum || in_out);
        idx[i] = in_sum ? syms[in_sum - c->sum] : c->idx[in_out - out_letters];
    }
}

static const Expr *contract_element_fn(Place at, const void *ctx, const Dim *const *syms) {
    const ContractElement *c = ctx;
    Arena *a = at.kb->l->p->arena;
    const char *second = strchr(c->n->subs, ',') + 1, *out = strstr(c->n->subs, "->") + 2;
    const Dim *ia[RANK_MAX], *ib[RANK_MAX];
    letters_index(c, c->n->subs, c->n->in[0]->rank, out, syms, ia);
    letters_index(c, second, c->n->in[1]->rank, out, syms, ib);
    const Expr *x = x_cast(a, c->type, lower_element(at, c->n->in[0], ia));
    const Expr *y = x_cast(a, c->type, lower_element(at, c->n->in[1], ib));
    return x_op2(a, X_mul, x, y);
}

static const Expr *contract_element(Place at, const Value *v, const Dim *const *idx) {
    Lower *l = at.kb->l;
    const Node *n = v->def;
    const char *second = strchr(n->subs, ',') + 1, *out = strstr(n->subs, "->") + 2;
    char sum[2 * RANK_MAX + 1] = "";
    const Dim *extents[2 * RANK_MAX];
    int count = 0;
    for (int side = 0; side < 2; side++) {
        const Value *in = n->in[side];
        const char *letters = side ? second : n->subs;
        for (int i = 0; i < in->rank; i++) {
            if (strchr(out, letters[i]) || strchr(sum, letters[i])) continue;
            extents[count] = in->shape[i];
            sum[count++] = letters[i];
            sum[count] = 0;
        }
    }
    DType type = accumulator_type(v->type);
    ContractElement c = {n, idx, sum, type};
    return x_cast(l->p->arena, v->type, reduce_one(at, "sum", type, count, extents, contract_element_fn, &c));
}

// ---- rows: softmax and norm; statistics were computed by lower_row_statistics in front of the row's loop ----
static const Expr *mean_of(Place at, const Expr *sum, int n, const Dim *const *extents) {
    Lower *l = at.kb->l;
    const Dim *count = dim_product(l->g->dims, extents, n);
    return x_op2(l->p->arena, X_div, sum, x_cast(l->p->arena, sum->type.type, x_dim(l->p->arena, count)));
}

static const Expr *row_let(Place at, const char *stem, const Expr *e) {
    return x_var(at.kb->l->p->arena, loop_let(at.kb->l->p, at.block, kernel_local(at.kb, stem), e));
}

void lower_row_statistics(Place at, const Value *v, const Dim *const *idx) {
    Lower *l = at.kb->l;
    Arena *a = l->p->arena;
    const Node *n = v->def;
    const Value *in = n->in[0];
    int axis_of[RANK_MAX];
    const Dim *extents[RANK_MAX], *full[RANK_MAX];
    int count = reduced_axes(n, in, axis_of, extents);
    for (int i = 0; i < in->rank; i++) full[i] = is_reduced(n, i) ? dim_int(l->g->dims, 0) : idx[i];
    DType type = accumulator_type(v->type);
    ReduceElement r = {in, axis_of, count, full, type, NULL, TERM_X};
    at.kb->row = v;
    if (n->op == G_softmax) {
        r.minus = at.kb->stat[0] = row_let(at, "m", reduce_one(at, "max", type, count, extents, reduce_element_fn, &r));
        r.term = TERM_EXP;
        const Expr *sum = reduce_one(at, "sum", type, count, extents, reduce_element_fn, &r);
        bool log = !strcmp(n->kind, "logsoftmax");
        at.kb->stat[1] = row_let(at, "l", log ? x_op1(a, X_log, sum) : sum);
        return;
    }
    bool layer = !strcmp(n->kind, "layer");
    at.kb->stat[0] = NULL;
    if (layer) {
        const Expr *sum = reduce_one(at, "sum", type, count, extents, reduce_element_fn, &r);
        r.minus = at.kb->stat[0] = row_let(at, "mean", mean_of(at, sum, count, extents));
    }
    r.term = TERM_SQUARE;
    const Expr *square = mean_of(at, reduce_one(at, "sum", type, count, extents, reduce_element_fn, &r), count, extents);
    const Expr *root = x_op1(a, X_sqrt, x_op2(a, X_add, square, x_float(a, type, n->eps)));
    at.kb->stat[1] = row_let(at, "scale", x_op2(a, X_div, x_float(a, type, 1.0), root));
}

static const Expr *row_element(Place at, const Value *v, const Dim *const *idx) {
    Arena *a = at.kb->l->p->arena;
    const Node *n = v->def;
    assert(at.kb->row == v && "statistics of this row are not at hand");
    DType type = accumulator_type(v->type);
    const Expr *x = x_cast(a, type, lower_element(at, n->in[0], idx));
    if (at.kb->stat[0]) x = x_op2(a, X_sub, x, at.kb->stat[0]);
    if (n->op == G_norm) return x_cast(a, v->type, x_op2(a, X_mul, x, at.kb->stat[1]));
    bool log = !strcmp(n->kind, "logsoftmax");
    const Expr *e = log ? x_op2(a, X_sub, x, at.kb->stat[1]) : x_op2(a, X_div, x_op1(a, X_exp, x), at.kb->stat[1]);
    return x_cast(a, v->type, e);
}

static const Expr *const_element(Place at, const Value *v) {
    return x_const(at.kb->l->p->arena, scalar_read(v->type, v->def->data.bytes), 1);
}

const Expr *lower_compute(Place at, const Value *v, const Dim *const *idx) {
    assert(v->def && "value without storage");
    switch (v->def->op) {
    case G_map: return map_element(at, v, idx);
    case G_view: return view_element(at, v, idx);
    case G_reshape: return reshape_element(at, v, idx);
    case G_gather: return gather_element(at, v, idx);
    case G_concat: return concat_element(at, v, idx);
    case G_dims: return dims_element(at, v, idx);
    case G_reduce: return reduce_element(at, v, idx);
    case G_contract: return contract_element(at, v, idx);
    case G_softmax:
    case G_norm: return row_element(at, v, idx);
    default: assert(!"no element form"); return NULL;
    }
}

const Expr *lower_element(Place at, const Value *v, const Dim *const *idx) {
    Lower *l = at.kb->l;
    if (l->scalar[v->id]) return x_cast(l->p->arena, v->type, x_dim(l->p->arena, l->scalar[v->id]));
    if (v->def && v->def->op == G_const) {
        bool single = v->def->data.size == (size_t)dtype_bytes(v->type) && v->type != DT_str;
        if (single) return const_element(at, v);
        lower_buffer(l, v);
    }
    if (l->buffer[v->id]) return load_element(at, l->buffer[v->id], lower_flat(l, v, idx));
    return lower_compute(at, v, idx);
}
