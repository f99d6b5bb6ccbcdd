// Elements of reductions, contractions and row-wise values (softmax, norm): reduce statements in front of the use. See lower.h.
//
// A reduction over several axes is one reduce statement, which carries the state, with `for` loops inside; its combine makes it splittable.
// The statistics of a row (maximum and sum, mean and scale) are computed once in front of the row's loop and kept in the KernelBuild.
#include "lower.h"

#include <assert.h>
#include <string.h>

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

const Expr *lower_reduce(Place at, const char *kind, DType type, int n, const Dim *const *extents, ElementFn *fn, const void *ctx) {
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
    multiply_add = multiply_add && l->target->fma_bits >= dtype_info(type)->bits;
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
    nest.reduce->unordered = true; // positions decide, not the order
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

const Expr *lower_reduce_element(Place at, const Value *v, const Dim *const *idx) {
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
    return x_cast(l->p->arena, v->type, lower_reduce(at, n->kind, type, count, extents, reduce_element_fn, &r));
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

const Expr *lower_contract_element(Place at, const Value *v, const Dim *const *idx) {
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
    return x_cast(l->p->arena, v->type, lower_reduce(at, "sum", type, count, extents, contract_element_fn, &c));
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
        r.minus = at.kb->stat[0] = row_let(at, "m", lower_reduce(at, "max", type, count, extents, reduce_element_fn, &r));
        r.term = TERM_EXP;
        const Expr *sum = lower_reduce(at, "sum", type, count, extents, reduce_element_fn, &r);
        bool log = !strcmp(n->kind, "logsoftmax");
        at.kb->stat[1] = row_let(at, "l", log ? x_op1(a, X_log, sum) : sum);
        return;
    }
    bool layer = !strcmp(n->kind, "layer");
    at.kb->stat[0] = NULL;
    if (layer) {
        const Expr *sum = lower_reduce(at, "sum", type, count, extents, reduce_element_fn, &r);
        r.minus = at.kb->stat[0] = row_let(at, "mean", mean_of(at, sum, count, extents));
    }
    r.term = TERM_SQUARE;
    const Expr *square = mean_of(at, lower_reduce(at, "sum", type, count, extents, reduce_element_fn, &r), count, extents);
    const Expr *root = x_op1(a, X_sqrt, x_op2(a, X_add, square, x_float(a, type, n->eps)));
    at.kb->stat[1] = row_let(at, "scale", x_op2(a, X_div, x_float(a, type, 1.0), root));
}

const Expr *lower_row_element(Place at, const Value *v, const Dim *const *idx) {
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
