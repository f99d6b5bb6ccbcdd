// Normalisations: the core norm (layer, rms) with scale and bias as maps behind it; batch normalisation is pointwise.
#include "formula.h"

#include <string.h>

enum { RANK_MAX = GRAPH_MAX_RANK };
typedef const Dim *const *DimArray;

static Value *widened(ImportNode *n, Value *x) {
    return dtype_is_float(x->type) && !dtype_is_native(x->type) ? g_cast(&n->b, DT_f32, x) : x;
}

// A value of rank 1 seen along axis 1 of a rank-r tensor.
static Value *along_channels(ImportNode *n, Value *v, int rank) {
    for (int i = 2; i < rank; i++) v = g_unsqueeze(&n->b, v, v->rank);
    return v;
}

// X is a float tensor of rank `least` or more; inputs first to last are of rank 1, as long as `channels` where it is given.
static bool check_channels(ImportNode *n, int least, int first, int last, const Dim *channels) {
    const Value *x = n->in[0];
    if (!dtype_is_float(x->type)) return import_fail(n, "input has type %s, a float type is needed", dtype_name(x->type));
    if (x->rank < least) return import_fail(n, "input has rank %d, at least %d is needed", x->rank, least);
    for (int i = first; i <= last; i++)
        if (channels ? !import_shape_is(n, i, 1, &channels) : !import_rank(n, i, 1)) return false;
    return true;
}

// The same with scale and bias of the normalised axes, broadcast over the trailing ones.
static bool check_trailing(ImportNode *n) {
    const Value *x = n->in[0];
    for (int i = 1; i < n->nin; i++)
        if (n->in[i] && n->in[i]->rank > x->rank)
            return import_fail(n, "input %d is %s, input 0 %s", i, import_shape_text(n, n->in[i]), import_shape_text(n, x));
    return check_channels(n, 0, 1, 0, NULL) && import_broadcast(n, n->nin, n->in);
}

// (x - mean) * (scale / sqrt(var + eps)) + bias; NULL after a fault.
static Value *batch_normalised(ImportNode *n, Value *const *in) {
    DType t = in[0]->type;
    const Expr *text = formula_expr(n, "(a0 - a3) * (a1 / sqrt(a4 + $epsilon)) + a2", 5, (DType[]){t, t, t, t, t});
    return text ? g_map(&n->b, 5, in, text) : NULL;
}

// Statistics of the batch over `axes` replace in[3] and in[4]; the outputs behind Y are the running ones: the inputs' share is momentum.
// Before opset 14 the batch's own follow them.
static bool batch_statistics(ImportNode *n, int count, const int64_t *axes, Value **in) {
    Value *given[] = {n->in[3], n->in[4]}, *d, *batch[2];
    in[3] = import_mean(n, in[0], count, axes, true);
    d = g_map2(&n->b, X_sub, in[0], in[3]);
    in[4] = import_mean(n, g_map2(&n->b, X_mul, d, d), count, axes, true);
    for (int i = 0; i < 2; i++) {
        batch[i] = g_reshape(&n->b, in[3 + i], given[i]->rank, (DimArray)given[i]->shape);
        Value *mix[] = {batch[i], g_cast(&n->b, in[0]->type, given[i])};
        Value *running = formula_map(n, "a1 * $momentum + a0 * (1.0 - $momentum)", 2, mix);
        if (!running) return false;
        if (n->row->max_out > 1 + i) n->out[1 + i] = g_cast(&n->b, given[i]->type, running);
        if (n->row->max_out > 3 + i) n->out[3 + i] = g_cast(&n->b, given[i]->type, batch[i]);
    }
    return true;
}

// Opset 14 has an attribute for it; before, more outputs than Y say that this is training (before 7, is_test = 0 does too).
static bool is_training(const ImportNode *n) {
    if (n->version >= 14) return attr_int(n, "training_mode") != 0;
    return n->nout > 1 || (n->version < 7 && attr_has(n, "is_test") && attr_int(n, "is_test") == 0);
}

bool import_batch_norm(ImportNode *n) {
    const Value *given = n->in[0];
    bool by_element = n->version < 9 && attr_int(n, "spatial") == 0; // statistics of their own for each element of an image
    if (!check_channels(n, 1, 1, by_element ? 0 : 4, given->rank > 1 ? given->shape[1] : NULL)) return false;
    for (int i = 1; i < 5 && by_element; i++)
        if (!import_shape_is(n, i, given->rank - 1, (DimArray)given->shape + 1)) return false;
    Value *x = widened(n, n->in[0]), *in[5] = {x};
    for (int i = 1; i < 5; i++) {
        in[i] = g_cast(&n->b, x->type, n->in[i]);
        if (!by_element) in[i] = along_channels(n, in[i], x->rank);
    }
    int64_t axes[RANK_MAX] = {0};
    int count = 1;
    for (int i = 2; i < x->rank && !by_element; i++) axes[count++] = i;
    if (is_training(n) && !batch_statistics(n, count, axes, in)) return false;
    Value *y = batch_normalised(n, in);
    if (y) n->out[0] = g_cast(&n->b, given->type, y);
    return y != NULL;
}

// scale and bias over the axes from `axis` on, broadcast by trailing axes.
static Value *scaled(ImportNode *n, Value *y, Value *scale, Value *bias) {
    if (scale) y = g_map2(&n->b, X_mul, y, g_cast(&n->b, y->type, scale));
    if (bias) y = g_map2(&n->b, X_add, y, g_cast(&n->b, y->type, bias));
    return y;
}

static int axes_from(int axis, int rank, int64_t *axes) {
    int count = 0;
    for (int i = axis; i < rank; i++) axes[count++] = i;
    return count;
}

bool import_layer_norm(ImportNode *n) {
    if (!check_trailing(n)) return false;
    Value *x = widened(n, n->in[0]), *bias = n->nin > 2 ? n->in[2] : NULL;
    int64_t axes[RANK_MAX];
    int axis;
    if (!import_axis(n, attr_int(n, "axis"), x->rank, &axis)) return false;
    int count = axes_from(axis, x->rank, axes);
    double eps = attr_float(n, "epsilon");
    Value *y = g_norm(&n->b, "layer", x, count, axes, eps);
    n->out[0] = g_cast(&n->b, n->in[0]->type, scaled(n, y, n->in[1], bias));
    bool stats = (n->nout > 1 && n->wanted[1]) || (n->nout > 2 && n->wanted[2]);
    if (!stats) return true;
    Value *mean = import_mean(n, x, count, axes, true), *d = g_map2(&n->b, X_sub, x, mean);
    Value *var = import_mean(n, g_map2(&n->b, X_mul, d, d), count, axes, true);
    if (n->nout > 1) n->out[1] = mean;
    if (n->nout > 2) n->out[2] = formula_map(n, "1.0 / sqrt(a0 + $epsilon)", 1, &var);
    return n->nout <= 2 || n->out[2] != NULL;
}

bool import_rms_norm(ImportNode *n) {
    if (!check_trailing(n)) return false;
    Value *x = widened(n, n->in[0]);
    int64_t axes[RANK_MAX];
    int axis;
    if (!import_axis(n, attr_int(n, "axis"), x->rank, &axis)) return false;
    int count = axes_from(axis, x->rank, axes);
    n->out[0] = g_cast(&n->b, n->in[0]->type, scaled(n, g_norm(&n->b, "rms", x, count, axes, attr_float(n, "epsilon")), n->in[1], NULL));
    return true;
}

bool import_instance_norm(ImportNode *n) {
    if (!check_channels(n, 3, 1, 2, n->in[0]->rank > 1 ? n->in[0]->shape[1] : NULL)) return false;
    Value *x = widened(n, n->in[0]);
    int64_t axes[RANK_MAX];
    int count = axes_from(2, x->rank, axes);
    Value *y = g_norm(&n->b, "layer", x, count, axes, attr_float(n, "epsilon"));
    n->out[0] = g_cast(&n->b, n->in[0]->type, scaled(n, y, along_channels(n, n->in[1], x->rank), along_channels(n, n->in[2], x->rank)));
    return true;
}

// [N, C, …] as [N, G, C/G * …], a layer norm over the last axis, back; scale and bias by channel (by group before opset 21).
bool import_group_norm(ImportNode *n) {
    const Dim *length = n->in[0]->rank < 2 ? NULL : n->version < 21 ? dim_int(n->dims, attr_int(n, "num_groups")) : n->in[0]->shape[1];
    if (!check_channels(n, 2, 1, 2, length)) return false;
    Value *x = widened(n, n->in[0]);
    DimTable *t = n->dims;
    int64_t groups = attr_int(n, "num_groups"), axes[] = {2};
    if (groups < 1) return import_fail(n, "num_groups is %lld", (long long)groups);
    if (dim_eq(t, dim_mod(t, x->shape[1], dim_int(t, groups)), dim_int(t, 0)) == NO)
        return import_fail(n, "%s does not divide into %lld groups of channels", import_shape_text(n, x), (long long)groups);
    const Dim *g = dim_int(t, groups),
              *rest = dim_mul(t, dim_floordiv(t, x->shape[1], g), dim_product(t, (DimArray)x->shape + 2, x->rank - 2));
    const Dim *split[] = {x->shape[0], g, rest};
    Value *y = g_norm(&n->b, "layer", g_reshape(&n->b, x, 3, split), 1, axes, attr_float(n, "epsilon"));
    bool by_group = n->version < 21;
    Value *scale = g_cast(&n->b, x->type, n->in[1]), *bias = g_cast(&n->b, x->type, n->in[2]);
    if (by_group) y = scaled(n, y, g_unsqueeze(&n->b, scale, 1), g_unsqueeze(&n->b, bias, 1));
    y = g_reshape(&n->b, y, x->rank, (DimArray)x->shape);
    if (!by_group) y = scaled(n, y, along_channels(n, scale, x->rank), along_channels(n, bias, x->rank));
    n->out[0] = g_cast(&n->b, n->in[0]->type, y);
    return true;
}

bool import_mean_variance_norm(ImportNode *n) {
    if (!check_channels(n, 1, 1, 0, NULL)) return false;
    Value *x = widened(n, n->in[0]);
    IntList given = attr_ints(n, "axes");
    int64_t axes[RANK_MAX];
    if (!import_axes(n, given, x->rank, axes)) return false;
    n->out[0] = g_cast(&n->b, n->in[0]->type, g_norm(&n->b, "layer", x, given.n, axes, 0));
    return true;
}

// x / (bias + alpha / size * sum of squares over `size` neighbouring channels)^beta
bool import_lrn(ImportNode *n) {
    if (!check_channels(n, 2, 1, 0, NULL)) return false;
    Value *x = widened(n, n->in[0]);
    int64_t size = attr_int(n, "size");
    DimTable *t = n->dims;
    if (size < 1 || size > 1 << 24) return import_fail(n, "a size of %lld", (long long)size);
    Value *square = g_map2(&n->b, X_mul, x, x);
    const Dim *before[RANK_MAX], *after[RANK_MAX];
    for (int i = 0; i < x->rank; i++) before[i] = after[i] = dim_int(t, 0);
    before[1] = dim_int(t, (size - 1) / 2);
    after[1] = dim_int(t, size - 1 - (size - 1) / 2);
    Value *padded = g_pad(&n->b, square, before, after, scalar_float(x->type, 0));
    const Dim *shape[RANK_MAX], *index[RANK_MAX];
    for (int i = 0; i < x->rank; i++) shape[i] = x->shape[i];
    shape[x->rank] = dim_int(t, size);
    for (int i = 0; i < x->rank; i++) index[i] = dim_axis(t, i, shape[i]);
    index[1] = dim_add(t, index[1], dim_axis(t, x->rank, shape[x->rank]));
    Value *win = g_view(&n->b, padded, x->rank + 1, shape, index, 0, NULL, scalar_float(x->type, 0));
    int64_t axes[] = {x->rank};
    Value *in[] = {x, g_reduce(&n->b, "sum", win, 1, axes, false)};
    double alpha = attr_float(n, "alpha") / (double)size;
    Value *scaled_sum = g_map2(&n->b, X_mul, in[1], g_const_float(&n->b, x->type, alpha));
    in[1] = scaled_sum;
    Value *y = formula_map(n, "a0 / pow(a1 + $bias, $beta)", 2, in);
    n->out[0] = y ? g_cast(&n->b, n->in[0]->type, y) : NULL;
    return y != NULL;
}

bool import_lp_norm(ImportNode *n) {
    if (!check_channels(n, 1, 1, 0, NULL)) return false;
    Value *x = widened(n, n->in[0]);
    int axis;
    int64_t p = attr_int(n, "p");
    if (!import_axis(n, attr_int(n, "axis"), x->rank, &axis)) return false;
    if (p != 1 && p != 2) return import_fail(n, "p is %ld, 1 or 2 is needed", (long)p);
    int64_t axes[] = {axis};
    Value *terms = p == 1 ? g_map1(&n->b, X_abs, x) : g_map2(&n->b, X_mul, x, x);
    Value *sum = g_reduce(&n->b, "sum", terms, 1, axes, true);
    Value *in[] = {x, p == 1 ? sum : g_map1(&n->b, X_sqrt, sum)};
    Value *y = formula_map(n, "select(a1 == 0.0, 0.0$T, a0 / a1)", 2, in);
    n->out[0] = y ? g_cast(&n->b, n->in[0]->type, y) : NULL;
    return y != NULL;
}
