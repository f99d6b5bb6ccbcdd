// Reductions, softmax and running sums.
#include "reduce_data.h"

#include <string.h>

enum { RANK_MAX = GRAPH_MAX_RANK };

// Axes from the attribute or, since `as_input`, from input 1 (constant content). Empty: all axes, or none when noop_with_empty_axes.
static bool reduce_axes(ImportNode *n, int as_input, int64_t *axes, int *count, bool *none) {
    int rank = n->in[0]->rank;
    IntList given = {0};
    *none = false;
    bool input = n->version >= as_input;
    if (input && n->nin > 1 && n->in[1]) {
        int64_t *data = ARENA_ARRAY(n->arena, int64_t, RANK_MAX);
        if (!import_const_ints(n, 1, data, RANK_MAX, &given.n)) return false;
        given.data = data;
    } else if (!input) {
        given = attr_ints(n, "axes");
    }
    if (given.n == 0) {
        *none = input && attr_int(n, "noop_with_empty_axes") != 0;
        *count = *none ? 0 : rank;
        for (int i = 0; i < rank; i++) axes[i] = i;
        return true;
    }
    *count = given.n;
    return import_axes(n, given, rank, axes);
}

// A reduction as what is done before, the core reduction, and what is done after: formulas, NULL: nothing.
typedef struct {
    const char *op, *before, *kind, *after;
    int axes_input; // opset since which axes are an input
} ReduceRow;

static const ReduceRow reductions[] = {
    {"ReduceSum", NULL, "sum", NULL, 13},
    {"ReduceMean", NULL, "mean", NULL, 18},
    {"ReduceProd", NULL, "prod", NULL, 18},
    {"ReduceMax", NULL, "max", NULL, 18},
    {"ReduceMin", NULL, "min", NULL, 18},
    {"ReduceL1", "abs(a0)", "sum", NULL, 18},
    {"ReduceL2", "a0 * a0", "sum", "sqrt(a0)", 18},
    {"ReduceSumSquare", "a0 * a0", "sum", NULL, 18},
    {"ReduceLogSum", NULL, "sum", "log(a0)", 18},
    {"ReduceLogSumExp", NULL, "logsumexp", NULL, 18},
};

static const ReduceRow *reduce_row(const char *op) {
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++)
        if (!strcmp(reductions[i].op, op)) return &reductions[i];
    return NULL;
}

Value *import_mean(ImportNode *n, Value *x, int count, const int64_t *axes, bool keep) {
    const Dim *elements[RANK_MAX];
    for (int i = 0; i < count; i++) elements[i] = x->shape[axes[i]];
    const Dim *size = dim_product(n->dims, elements, count);
    Value *sum = g_reduce(&n->b, "sum", x, count, axes, keep);
    Value *divisor = g_cast(&n->b, sum->type, g_dims(&n->b, -1, &size));
    return g_map2(&n->b, X_div, sum, divisor);
}

// log(sum(exp(x - m))) + m, where an infinite m is replaced by 0 so that no NaN arises from inf - inf.
static Value *log_sum_exp(ImportNode *n, Value *x, int count, const int64_t *axes, bool keep) {
    Value *m = g_reduce(&n->b, "max", x, count, axes, true);
    m = formula_map(n, "select(abs(a0) == inf$T, 0.0$T, a0)", 1, &m);
    if (!m) return NULL;
    Value *pair[] = {x, m};
    Value *e = formula_map(n, "exp(a0 - a1)", 2, pair);
    if (!e) return NULL;
    Value *sum = g_reduce(&n->b, "sum", e, count, axes, keep);
    Value *shift = keep ? m : g_reshape(&n->b, m, sum->rank, (const Dim *const *)sum->shape);
    Value *last[] = {sum, shift};
    return formula_map(n, "log(a0) + a1", 2, last);
}

static Value *reduced_by_data(ImportNode *n, const DataAxes *a, const char *kind, Value *x, bool keep) {
    Value *y = NULL;
    if (!strcmp(kind, "logsumexp")) {
        Value *m = data_reduce(n, a, "max", x);
        m = formula_map(n, "select(abs(a0) == inf$T, 0.0$T, a0)", 1, &m);
        if (!m) return NULL;
        Value *pair[] = {x, data_spread(n, a, m)}, *e = formula_map(n, "exp(a0 - a1)", 2, pair);
        if (!e) return NULL;
        Value *last[] = {data_reduce(n, a, "sum", e), m};
        y = formula_map(n, "log(a0) + a1", 2, last);
    } else if (!strcmp(kind, "mean")) {
        Value *count = data_count(n, a), *sum = data_reduce(n, a, "sum", x);
        y = count ? g_map2(&n->b, X_div, sum, g_cast(&n->b, sum->type, count)) : NULL;
    } else {
        y = data_reduce(n, a, kind, x);
    }
    return y && !keep ? data_squeeze(n, a, y) : y;
}

// Axes given as an input whose elements are data.
static bool axes_are_data(const ImportNode *n, const ReduceRow *row) {
    const Value *axes = n->version >= row->axes_input && n->nin > 1 ? n->in[1] : NULL;
    return axes && !axes->content && !(axes->rank == 1 && dim_is(axes->shape[0], 0));
}

bool import_reduce(ImportNode *n) {
    const ReduceRow *row = reduce_row(n->row->name);
    int64_t axes[RANK_MAX];
    int count = 0;
    bool none, keep = attr_int(n, "keepdims") != 0, by_data = axes_are_data(n, row);
    DataAxes data;
    if (!import_numeric(n, 0)) return false;
    if (by_data ? !data_axes(n, &data, n->in[0], n->in[1]) : !reduce_axes(n, row->axes_input, axes, &count, &none)) return false;
    DType t = n->in[0]->type;
    bool computes = row->before || row->after || !strcmp(row->kind, "mean") || !strcmp(row->kind, "logsumexp");
    bool integer_math = !dtype_is_float(t) && (row->after || !strcmp(row->kind, "logsumexp"));
    bool narrow = dtype_is_float(t) && !dtype_is_native(t) && computes;
    Value *x = integer_math ? g_cast(&n->b, DT_f64, n->in[0]) : narrow ? g_cast(&n->b, DT_f32, n->in[0]) : n->in[0];
    if (row->before && !(x = formula_map(n, row->before, 1, &x))) return false;
    if (by_data)
        x = reduced_by_data(n, &data, row->kind, x, keep);
    else if (!strcmp(row->kind, "mean"))
        x = import_mean(n, x, count, axes, keep);
    else if (!strcmp(row->kind, "logsumexp"))
        x = log_sum_exp(n, x, count, axes, keep);
    else
        x = g_reduce(&n->b, row->kind, x, count, axes, keep);
    if (x && row->after) x = formula_map(n, row->after, 1, &x);
    if (!x) return false;
    x = g_cast(&n->b, t, x);
    n->out[0] = x == n->in[0] ? g_map(&n->b, 1, &x, x_arg(n->arena, 0, t)) : x;
    return true;
}

bool import_arg(ImportNode *n) {
    int axis;
    bool max = !strcmp(n->row->name, "ArgMax"), last = n->version >= 12 && attr_int(n, "select_last_index") != 0;
    if (!import_numeric(n, 0) || !import_axis(n, attr_int(n, "axis"), n->in[0]->rank, &axis)) return false;
    int64_t axes[] = {axis};
    const char *kind = max ? (last ? "argmax_last" : "argmax") : (last ? "argmin_last" : "argmin");
    n->out[0] = g_reduce(&n->b, kind, n->in[0], 1, axes, attr_int(n, "keepdims") != 0);
    return true;
}

// ---- softmax ----
// Before opset 13 the axes from `axis` on are one.
static int softmax_axes(ImportNode *n, int axis, int64_t *axes) {
    int count = 0, rank = n->in[0]->rank;
    int last = n->version < 13 ? rank : axis + 1;
    for (int i = axis; i < last; i++) axes[count++] = i;
    return count;
}

bool import_softmax(ImportNode *n) {
    int axis;
    int64_t axes[RANK_MAX];
    if (!import_axis(n, attr_int(n, "axis"), n->in[0]->rank, &axis)) return false;
    if (!dtype_is_float(n->in[0]->type)) return import_fail(n, "input has type %s, a float type is needed", dtype_name(n->in[0]->type));
    int count = softmax_axes(n, axis, axes);
    const char *kind = !strcmp(n->row->name, "LogSoftmax") ? "logsoftmax" : "softmax";
    n->out[0] = g_softmax(&n->b, kind, n->in[0], count, axes);
    return true;
}

// 1 at the first largest element, 0 elsewhere; several axes (before opset 13) are flattened into one first.
bool import_hardmax(ImportNode *n) {
    int axis;
    int64_t axes[RANK_MAX], one[1];
    Value *x = n->in[0];
    if (!import_axis(n, attr_int(n, "axis"), x->rank, &axis)) return false;
    int count = softmax_axes(n, axis, axes);
    const Dim *flat[RANK_MAX];
    for (int i = 0; i < axis; i++) flat[i] = x->shape[i];
    flat[axis] = dim_product(n->dims, (const Dim *const *)x->shape + axis, count);
    for (int i = axis + count; i < x->rank; i++) flat[i - count + 1] = x->shape[i];
    int rank = x->rank - count + 1;
    Value *y = count == 1 ? x : g_reshape(&n->b, x, rank, flat);
    one[0] = axis;
    Value *best = g_reduce(&n->b, "argmax", y, 1, one, true);
    const Expr *here = x_cast(n->arena, DT_i64, x_dim(n->arena, dim_axis(n->dims, axis, y->shape[axis])));
    const Expr *hit = x_op2(n->arena, X_eq, x_arg(n->arena, 0, DT_i64), here);
    const Expr *body = x_op3(n->arena, X_select, hit, x_int(n->arena, x->type, 1), x_int(n->arena, x->type, 0));
    Value *out = g_map_shape(&n->b, 1, &best, body, y->rank, (const Dim *const *)y->shape);
    n->out[0] = count == 1 ? out : g_reshape(&n->b, out, x->rank, (const Dim *const *)x->shape);
    return true;
}

static Value *cumulative(ImportNode *n, int axis) {
    const char *kind = !strcmp(n->row->name, "CumSum") ? "sum" : "prod";
    return g_scan(&n->b, kind, n->in[0], axis, attr_int(n, "exclusive") != 0, attr_int(n, "reverse") != 0);
}

// An axis that is data: the scans along all axes, of which one is chosen.
static bool cumulative_of_data(ImportNode *n, Value *axis) {
    int rank = n->in[0]->rank;
    if (axis->rank > 1 || !dtype_is_int(axis->type) || rank == 0) return import_fail(n, "axis is %s", import_shape_text(n, axis));
    axis = g_cast(&n->b, DT_i64, g_reshape(&n->b, axis, 0, NULL));
    const Dim *bounds = dim_int(n->dims, rank);
    const FormulaDim dims[] = {{"RANK", bounds}, {0}};
    Value *valid = formula_tensor(n, "(a0 >= (-cast.i64(dim(RANK)))) & (a0 < cast.i64(dim(RANK)))", 1, &axis, 0, NULL, dims);
    if (!valid) return false;
    g_check(&n->b, valid, 0, NULL, CODE_SHAPE);
    Value *y = cumulative(n, 0);
    for (int i = 1; i < rank && y; i++) {
        Value *in[] = {y, cumulative(n, i), axis};
        y = formula_map(n, arena_printf(n->arena, "select((a2 == %di64) | (a2 == (%di64)), a1, a0)", i, i - rank), 3, in);
    }
    n->out[0] = y;
    return y != NULL;
}

bool import_cumulative(ImportNode *n) {
    int64_t given;
    int axis, count;
    if (!n->in[1]->content) return cumulative_of_data(n, n->in[1]);
    if (!import_const_ints(n, 1, &given, 1, &count) || !import_axis(n, given, n->in[0]->rank, &axis)) return false;
    n->out[0] = cumulative(n, axis);
    return true;
}
