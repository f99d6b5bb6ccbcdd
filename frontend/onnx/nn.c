// Neural-network operators: products, convolutions, pooling, normalisation.
//
// A convolution is a contraction over sliding windows of the padded input, pooling reduces windows. So padding, strides and dilation are
// index maps that fusion and schedules see, and no operator has a loop of its own.
#include "window.h"

#include <string.h>

enum { RANK_MAX = GRAPH_MAX_RANK };
typedef const Dim *const *DimArray;

// Computes in f32 what has a float type under f32, for operators with more than one step.
Value *import_widened(ImportNode *n, Value *x) {
    return dtype_is_float(x->type) && !dtype_is_native(x->type) ? g_cast(&n->b, DT_f32, x) : x;
}

// ---- matrix products ----
// The letters of an operand's batch axes ('a' + place from the left of `batch` places). An axis of extent 1 against a larger one of the
// other operand is squeezed out: without a letter it broadcasts. Returns the operand so reduced, NULL after import_fail.
static Value *batch_letters(ImportNode *n, Value *v, const Value *other, int batch, char *letters) {
    int lead = v->rank - 2, count = 0;
    bool kept[RANK_MAX];
    Value *out = v;
    for (int i = lead - 1; i >= 0; i--) {
        int o = other->rank - v->rank + i;
        const Dim *theirs = o >= 0 ? other->shape[o] : dim_of(n, 1);
        kept[i] = !(dim_is(v->shape[i], 1) && !dim_is(theirs, 1));
        bool free_choice = dim_is(v->shape[i], 1) || dim_is(theirs, 1);
        Tri equal = free_choice ? YES : dim_eq(n->dims, v->shape[i], theirs);
        if (equal == NO) return import_fail(n, "%s and %s do not broadcast", import_shape_text(n, v), import_shape_text(n, other)), NULL;
        if (equal == UNKNOWN) {
            const Dim *guards[] = {dim_sub(n->dims, v->shape[i], theirs), dim_sub(n->dims, theirs, v->shape[i])};
            g_check(&n->b, NULL, 2, guards, CODE_SHAPE);
        }
        if (!kept[i]) out = g_squeeze(&n->b, out, i);
    }
    for (int i = 0; i < lead; i++)
        if (kept[i]) letters[count++] = (char)('a' + batch - lead + i);
    letters[count] = 0;
    return out;
}

// numpy.matmul: batch axes broadcast, rank 1 gains an axis that is dropped again.
Value *import_matmul_values(ImportNode *n, Value *x, Value *y, DType out) {
    if (x->rank == 0 || y->rank == 0) return import_fail(n, "an input is a scalar"), NULL;
    bool drop_row = x->rank == 1, drop_col = y->rank == 1;
    if (drop_row) x = g_unsqueeze(&n->b, x, 0);
    if (drop_col) y = g_unsqueeze(&n->b, y, 1);
    if (dim_eq(n->dims, x->shape[x->rank - 1], y->shape[y->rank - 2]) == NO)
        return import_fail(n, "%s and %s do not multiply", import_shape_text(n, x), import_shape_text(n, y)), NULL;
    int batch = (x->rank > y->rank ? x->rank : y->rank) - 2;
    if (batch > 20) return import_unsupported(n, "rank %d", batch + 2), NULL;
    char xl[24], yl[24], all[24];
    Value *xs = batch_letters(n, x, y, batch, xl), *ys = xs ? batch_letters(n, y, x, batch, yl) : NULL;
    if (!ys) return NULL;
    for (int k = 0; k < batch; k++) all[k] = (char)('a' + k);
    all[batch] = 0;
    Value *z = g_contract(&n->b, arena_printf(n->arena, "%syz,%szx->%syx", xl, yl, all), xs, ys, out);
    if (drop_col) z = g_squeeze(&n->b, z, z->rank - 1);
    if (drop_row) z = g_squeeze(&n->b, z, z->rank - (drop_col ? 1 : 2));
    return z;
}

bool import_matmul(ImportNode *n) {
    if (!import_same_types(n, 0, 1)) return false;
    n->out[0] = import_matmul_values(n, n->in[0], n->in[1], n->in[0]->type);
    return n->out[0] != NULL;
}

// v broadcasts to y's shape without making it larger, as far as is known.
static bool broadcasts_to(const ImportNode *n, const Value *v, const Value *y) {
    for (int i = 0; i < v->rank && v->rank <= y->rank; i++) {
        const Dim *have = v->shape[i], *want = y->shape[y->rank - v->rank + i];
        if (!dim_is(have, 1) && dim_eq(n->dims, have, want) == NO) return false;
    }
    return v->rank <= y->rank;
}

bool import_gemm(ImportNode *n) {
    if (!import_same_types(n, 0, 2)) return false;
    Value *a = n->in[0], *b = n->in[1], *c = n->nin > 2 ? n->in[2] : NULL;
    if (a->rank != 2 || b->rank != 2) return import_fail(n, "inputs have ranks %d and %d, 2 is needed", a->rank, b->rank);
    bool ta = attr_int(n, "transA") != 0, tb = attr_int(n, "transB") != 0;
    if (dim_eq(n->dims, a->shape[ta ? 0 : 1], b->shape[tb ? 1 : 0]) == NO)
        return import_fail(n, "%s and %s do not multiply", import_shape_text(n, a), import_shape_text(n, b));
    const char *subs = ta ? (tb ? "km,nk->mn" : "km,kn->mn") : (tb ? "mk,nk->mn" : "mk,kn->mn");
    double alpha = attr_float(n, "alpha"), beta = attr_float(n, "beta");
    DType t = a->type, w = import_widened(n, a)->type;
    Value *y = g_contract(&n->b, subs, import_widened(n, a), import_widened(n, b), w);
    if (alpha != 1) y = g_map2(&n->b, X_mul, y, g_const_float(&n->b, w, alpha));
    if (c) {
        if (!broadcasts_to(n, c, y)) return import_fail(n, "C is %s, the product %s", import_shape_text(n, c), import_shape_text(n, y));
        c = import_widened(n, c);
        if (beta != 1) c = g_map2(&n->b, X_mul, c, g_const_float(&n->b, w, beta));
        y = g_map2(&n->b, X_add, y, c);
    }
    n->out[0] = g_cast(&n->b, t, y);
    return true;
}

// ---- windows ----
static bool window_ints(ImportNode *n, const char *name, int count, int64_t *out, int64_t missing) {
    IntList v = attr_ints(n, name);
    if (v.n && v.n != count) return import_fail(n, "%s has %d entries, %d are needed", name, v.n, count);
    for (int i = 0; i < count; i++) {
        out[i] = v.n ? v.data[i] : missing;
        if (out[i] < 1) return import_fail(n, "%s has the entry %ld", name, (long)out[i]);
    }
    return true;
}

bool import_auto_pad(ImportNode *n) {
    static const char *const words[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", NULL};
    return import_word(n, "auto_pad", words);
}

// Extent of the window's reach: (k - 1) * dilation + 1.
const Dim *import_reach(ImportNode *n, const Window *w, int i) {
    return dim_addi(n->dims, dim_muli(n->dims, dim_addi(n->dims, w->kernel[i], -1), w->dilation[i]), 1);
}

static void pads_same(ImportNode *n, Window *w, int i, const Dim *extent, bool upper) {
    DimTable *t = n->dims;
    w->out[i] = dim_ceildiv(t, extent, dim_of(n, w->stride[i]));
    const Dim *need = dim_sub(t, dim_add(t, dim_muli(t, dim_addi(t, w->out[i], -1), w->stride[i]), import_reach(n, w, i)), extent);
    const Dim *total = dim_max(t, dim_of(n, 0), need), *half = dim_floordiv(t, total, dim_of(n, 2));
    w->pad_before[i] = upper ? half : dim_sub(t, total, half);
    w->pad_after[i] = dim_sub(t, total, w->pad_before[i]);
}

static bool window_pads(ImportNode *n, Window *w, const Value *x, bool ceil_mode) {
    DimTable *t = n->dims;
    IntList pads = attr_ints(n, "pads");
    const char *pad_mode = attr_string(n, "auto_pad");
    bool same = !strncmp(pad_mode, "SAME", 4), valid = !strcmp(pad_mode, "VALID");
    if (!import_auto_pad(n)) return false;
    if (pads.n && !same && !valid && pads.n != 2 * w->n) return import_fail(n, "pads has %d entries, %d are needed", pads.n, 2 * w->n);
    for (int i = 0; i < w->n; i++) {
        const Dim *extent = x->shape[2 + i];
        if (same) {
            pads_same(n, w, i, extent, strcmp(pad_mode, "SAME_LOWER") != 0);
            continue;
        }
        bool given = pads.n && !valid;
        w->pad_before[i] = dim_of(n, given ? pads.data[i] : 0);
        w->pad_after[i] = dim_of(n, given ? pads.data[i + w->n] : 0);
        const Dim *padded = dim_add(t, extent, dim_add(t, w->pad_before[i], w->pad_after[i]));
        const Dim *span = dim_sub(t, padded, import_reach(n, w, i)), *stride = dim_of(n, w->stride[i]);
        w->out[i] = dim_addi(t, ceil_mode ? dim_ceildiv(t, span, stride) : dim_floordiv(t, span, stride), 1);
        if (ceil_mode) { // a window that would start in the padding behind is dropped
            const Dim *start = dim_muli(t, dim_addi(t, w->out[i], -1), w->stride[i]), *limit = dim_add(t, extent, w->pad_before[i]);
            int64_t s, l;
            if (dim_is_int(start, &s) && dim_is_int(limit, &l) && s >= l) w->out[i] = dim_addi(t, w->out[i], -1);
        }
        if (dim_ge0(t, dim_addi(t, w->out[i], -1)) == NO)
            return import_fail(n, "the window does not fit %s at spatial axis %d", import_shape_text(n, x), i);
    }
    return true;
}

bool import_window(ImportNode *n, Window *w, const Value *x, const Value *weights) {
    if (x->rank < 3 || weights->rank != x->rank || x->rank - 2 > SPATIAL_MAX)
        return import_fail(n, "input %s and weights %s do not fit", import_shape_text(n, x), import_shape_text(n, weights));
    w->n = x->rank - 2;
    IntList kernel = attr_ints(n, "kernel_shape");
    if (kernel.n && kernel.n != w->n) return import_fail(n, "kernel_shape has %d entries, %d are needed", kernel.n, w->n);
    for (int i = 0; i < w->n; i++) {
        w->kernel[i] = weights->shape[2 + i];
        if (kernel.n && dim_eq(n->dims, w->kernel[i], dim_of(n, kernel.data[i])) == NO)
            return import_fail(
                n, "kernel_shape has %ld at axis %d, the weights %s", (long)kernel.data[i], i, dim_text(n->dims, w->kernel[i]));
    }
    return window_ints(n, "strides", w->n, w->stride, 1) && window_ints(n, "dilations", w->n, w->dilation, 1);
}

// ---- convolution ----
// x [N, G*C, spatial] and weights [G*M, C, kernel] -> [N, G*M, out]: einsum n c (out) (k), m c (k) -> n m (out); with groups n g c (out)
// (k), g m c (k) -> n g m (out); where each channel is a group of its own n c (out) (k), c (k) -> n c (out).
Value *import_convolve(ImportNode *n, Value *x, Value *weights, const Window *w, int64_t group, DType out_type, Scalar fill) {
    DimTable *t = n->dims;
    const Dim *g = dim_of(n, group);
    const Dim *channels = dim_floordiv(t, x->shape[1], g), *filters = dim_floordiv(t, weights->shape[0], g);
    bool depthwise = group > 1 && dim_is(channels, 1) && dim_is(filters, 1);
    const Dim *xs[RANK_MAX], *ws[RANK_MAX], *os[RANK_MAX];
    xs[0] = x->shape[0], xs[1] = g, xs[2] = channels;
    ws[0] = g, ws[1] = filters, ws[2] = channels;
    os[0] = x->shape[0], os[1] = weights->shape[0];
    char spatial[SPATIAL_MAX + 1] = "", kernel[SPATIAL_MAX + 1] = "";
    for (int i = 0; i < w->n; i++) {
        xs[3 + i] = x->shape[2 + i];
        os[2 + i] = w->out[i];
        ws[3 + i] = w->kernel[i];
        spatial[i] = (char)('p' + i);
        kernel[i] = (char)('A' + i);
    }
    if (group > 1 && !depthwise) x = g_reshape(&n->b, x, 3 + w->n, xs);
    Value *win = g_windows(&n->b, x, w->n, w->out, w->kernel, w->stride, w->dilation, w->pad_before, fill);
    if (group == 1)
        return g_contract(&n->b, arena_printf(n->arena, "nc%s%s,mc%s->nm%s", spatial, kernel, kernel, spatial), win, weights, out_type);
    if (depthwise) {
        weights = g_squeeze(&n->b, weights, 1);
        return g_contract(&n->b, arena_printf(n->arena, "nc%s%s,c%s->nc%s", spatial, kernel, kernel, spatial), win, weights, out_type);
    }
    weights = g_reshape(&n->b, weights, 3 + w->n, ws);
    Value *y = g_contract(&n->b, arena_printf(n->arena, "ngc%s%s,gmc%s->ngm%s", spatial, kernel, kernel, spatial), win, weights, out_type);
    return g_reshape(&n->b, y, 2 + w->n, os);
}

static bool check_groups(ImportNode *n, const Value *x, const Value *weights, int64_t group) {
    int64_t c, cw, m;
    if (group < 1) return import_fail(n, "group is %ld", (long)group);
    bool known = dim_is_int(x->shape[1], &c) && dim_is_int(weights->shape[1], &cw) && dim_is_int(weights->shape[0], &m);
    if (!known) return true;
    if (c != cw * group)
        return import_fail(n, "weight has %ld input channels in %ld groups, input has %ld", (long)cw, (long)group, (long)c);
    return m % group == 0 || import_fail(n, "%ld filters do not divide into %ld groups", (long)m, (long)group);
}

// A bias of rank 1 along axis 1.
Value *import_channel_bias(ImportNode *n, Value *y, Value *bias) {
    if (bias->rank != 1 || dim_eq(n->dims, bias->shape[0], y->shape[1]) == NO) {
        graph_build_fault(&n->b, "bias is %s, the output has %s channels", import_shape_text(n, bias), dim_text(n->dims, y->shape[1]));
        return y;
    }
    for (int i = y->rank - 2; i > 0; i--) bias = g_unsqueeze(&n->b, bias, bias->rank);
    return g_map2(&n->b, X_add, y, bias);
}

Value *import_conv_values(ImportNode *n, Value *x, Value *weights, DType out) {
    Window w;
    int64_t group = attr_int(n, "group");
    if (!import_window(n, &w, x, weights) || !check_groups(n, x, weights, group) || !window_pads(n, &w, x, false)) return NULL;
    return import_convolve(n, x, weights, &w, group, out, scalar_int(x->type, 0));
}

bool import_conv(ImportNode *n) {
    if (!import_same_types(n, 0, 2)) return false;
    Value *x = import_widened(n, n->in[0]), *bias = n->nin > 2 ? n->in[2] : NULL;
    Value *y = import_conv_values(n, x, import_widened(n, n->in[1]), x->type);
    if (!y) return false;
    if (bias) y = import_channel_bias(n, y, import_widened(n, bias));
    n->out[0] = g_cast(&n->b, n->in[0]->type, y);
    return true;
}

// ---- pooling ----
static bool pool_window(ImportNode *n, Window *w, const Value *x) {
    if (!import_numeric(n, 0)) return false;
    IntList kernel = attr_ints(n, "kernel_shape");
    w->n = x->rank - 2;
    if (x->rank < 3 || w->n > SPATIAL_MAX || kernel.n != w->n)
        return import_fail(n, "kernel_shape has %d entries, input has rank %d", kernel.n, x->rank);
    for (int i = 0; i < w->n; i++) {
        if (kernel.data[i] < 1) return import_fail(n, "kernel_shape has the entry %ld", (long)kernel.data[i]);
        w->kernel[i] = dim_of(n, kernel.data[i]);
        w->dilation[i] = 1;
    }
    if (!window_ints(n, "strides", w->n, w->stride, 1)) return false;
    if (attr_exists(n, "dilations") && !window_ints(n, "dilations", w->n, w->dilation, 1)) return false;
    return window_pads(n, w, x, attr_exists(n, "ceil_mode") && attr_int(n, "ceil_mode") != 0);
}

static Value *pool_reduce(ImportNode *n, Value *x, const Window *w, const char *kind, Scalar fill) {
    Value *win = g_windows(&n->b, x, w->n, w->out, w->kernel, w->stride, w->dilation, w->pad_before, fill);
    int64_t axes[SPATIAL_MAX];
    for (int i = 0; i < w->n; i++) axes[i] = x->rank + i;
    return g_reduce(&n->b, kind, win, w->n, axes, false);
}

static Scalar lowest(DType t) {
    if (dtype_is_float(t)) return scalar_float(t, -__builtin_inf());
    return scalar_int(t, dtype_is_signed(t) ? -((int64_t)1 << (dtype_info(t)->bits - 1)) : 0);
}

// The flat position of a window's first maximum in the input: [.., out] of i64; column-major order counts the last axis slowest.
static Value *max_indices(ImportNode *n, Value *x, const Window *w, bool column_major) {
    DimTable *t = n->dims;
    Value *win = g_windows(&n->b, x, w->n, w->out, w->kernel, w->stride, w->dilation, w->pad_before, lowest(x->type));
    const Dim *shape[RANK_MAX], *count = dim_of(n, 1);
    for (int i = 0; i < x->rank; i++) shape[i] = win->shape[i];
    for (int i = 0; i < w->n; i++) count = dim_mul(t, count, w->kernel[i]);
    shape[x->rank] = count;
    int64_t axis[] = {x->rank};
    Value *best = g_reduce(&n->b, "argmax", g_reshape(&n->b, win, x->rank + 1, shape), 1, axis, false);
    const Expr *k = x_cast(n->arena, DT_idx, x_arg(n->arena, 0, DT_i64)), *flat = NULL;
    const Dim *rest = count;
    const Expr *at[SPATIAL_MAX];
    for (int i = 0; i < w->n; i++) {
        rest = dim_floordiv(t, rest, w->kernel[i]);
        const Expr *q = x_op2(n->arena, X_floordiv, k, x_dim(n->arena, rest));
        const Expr *pos = x_op2(n->arena, X_floormod, q, x_dim(n->arena, w->kernel[i]));
        const Dim *base = dim_sub(t, dim_muli(t, dim_axis(t, 2 + i, best->shape[2 + i]), w->stride[i]), w->pad_before[i]);
        at[i] = x_op2(n->arena, X_add, x_op2(n->arena, X_mul, pos, x_dim(n->arena, dim_of(n, w->dilation[i]))), x_dim(n->arena, base));
    }
    flat = x_dim(n->arena, dim_add(t, dim_mul(t, dim_axis(t, 0, best->shape[0]), x->shape[1]), dim_axis(t, 1, best->shape[1])));
    for (int i = 0; i < w->n; i++) flat = x_op2(n->arena, X_mul, flat, x_dim(n->arena, x->shape[2 + i]));
    const Dim *stride = dim_of(n, 1);
    for (int i = 0; i < w->n; i++) {
        int a = column_major ? i : w->n - 1 - i;
        flat = x_op2(n->arena, X_add, flat, x_op2(n->arena, X_mul, at[a], x_dim(n->arena, stride)));
        stride = dim_mul(t, stride, x->shape[2 + a]);
    }
    return g_map(&n->b, 1, &best, x_cast(n->arena, DT_i64, flat));
}

bool import_max_pool(ImportNode *n) {
    Window w;
    Value *x = n->in[0];
    if (!pool_window(n, &w, x)) return false;
    n->out[0] = pool_reduce(n, x, &w, "max", lowest(x->type));
    if (n->nout > 1 && n->wanted[1]) n->out[1] = max_indices(n, x, &w, attr_int(n, "storage_order") != 0);
    return true;
}

Value *import_average_pool_values(ImportNode *n, Value *x) {
    Window w;
    if (!pool_window(n, &w, x)) return NULL;
    Value *sum = pool_reduce(n, x, &w, "sum", scalar_int(x->type, 0));
    bool with_pads = attr_exists(n, "count_include_pad") && attr_int(n, "count_include_pad") != 0;
    const Dim *shape[RANK_MAX];
    for (int i = 0; i < x->rank; i++) shape[i] = i < 2 ? dim_of(n, 1) : x->shape[i];
    Value *ones = g_map_shape(&n->b, 0, NULL, x_int(n->arena, x->type, 1), x->rank, shape);
    if (with_pads) {
        const Dim *before[RANK_MAX], *after[RANK_MAX];
        for (int i = 0; i < x->rank; i++) {
            before[i] = i < 2 ? dim_of(n, 0) : w.pad_before[i - 2];
            after[i] = i < 2 ? dim_of(n, 0) : w.pad_after[i - 2];
        }
        ones = g_pad(&n->b, ones, before, after, scalar_int(x->type, 1));
        for (int i = 0; i < w.n; i++) w.pad_before[i] = dim_of(n, 0);
    }
    Value *count = pool_reduce(n, ones, &w, "sum", scalar_int(x->type, 0));
    return g_map2(&n->b, X_div, sum, count);
}

bool import_average_pool(ImportNode *n) {
    Value *y = import_average_pool_values(n, import_widened(n, n->in[0]));
    if (y) n->out[0] = g_cast(&n->b, n->in[0]->type, y);
    return y != NULL;
}

bool import_lp_pool(ImportNode *n) {
    Window w;
    Value *x = import_widened(n, n->in[0]);
    if (!pool_window(n, &w, x)) return false;
    double p = attr_int(n, "p") ? (double)attr_int(n, "p") : 2;
    Value *e = g_const_float(&n->b, x->type, p), *inverse = g_const_float(&n->b, x->type, 1 / p);
    Value *powers = g_map2(&n->b, X_pow, g_map1(&n->b, X_abs, x), e);
    Value *sum = pool_reduce(n, powers, &w, "sum", scalar_int(x->type, 0));
    n->out[0] = g_cast(&n->b, n->in[0]->type, g_map2(&n->b, X_pow, sum, inverse));
    return true;
}

bool import_global_pool(ImportNode *n) {
    Value *x = n->in[0];
    int64_t axes[RANK_MAX];
    int count = 0;
    if (x->rank < 2) return import_fail(n, "input has rank %d, at least 2 is needed", x->rank);
    for (int i = 2; i < x->rank; i++) axes[count++] = i;
    if (!strcmp(n->row->name, "GlobalMaxPool")) {
        n->out[0] = g_reduce(&n->b, "max", x, count, axes, true);
        return true;
    }
    Value *wide = import_widened(n, x);
    if (!strcmp(n->row->name, "GlobalAveragePool")) {
        n->out[0] = g_cast(&n->b, x->type, import_mean(n, wide, count, axes, true));
        return true;
    }
    double p = (double)attr_int(n, "p");
    Value *powers = g_map2(&n->b, X_pow, g_map1(&n->b, X_abs, wide), g_const_float(&n->b, wide->type, p));
    Value *sum = g_reduce(&n->b, "sum", powers, count, axes, true);
    n->out[0] = g_cast(&n->b, x->type, g_map2(&n->b, X_pow, sum, g_const_float(&n->b, wide->type, 1 / p)));
    return true;
}
