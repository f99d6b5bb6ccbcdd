// Operators on the spatial axes of images: sampling grids, centred crops, sums of columns, unpooling. Each is a map, a view or a scatter
// whose index map says it all, so sizes may be symbols or data.
#include "window.h"

#include <string.h>

enum { RANK_MAX = GRAPH_MAX_RANK };
typedef const Dim *const *DimArray;

// ---- AffineGrid ----
// grid[n, (z,) y, x, i] = sum_k theta[n, i, k] * p_k, where p holds x, y (, z) in -1..1 and 1.
static const char *grid_formula(ImportNode *n, int spatial, bool corners) {
    Str s = {0};
    for (int k = 0; k < spatial; k++) {
        int axis = spatial - k; // x runs along the last spatial axis
        const char *at = corners ? "(2.0$T * cast.$T(dim(d%d)) / cast.$T(dim(max(E%d - 1, 1))) - 1.0$T)"
                                 : "((2.0$T * cast.$T(dim(d%d)) + 1.0$T) / cast.$T(dim(E%d)) - 1.0$T)";
        str_printf(&s, "a%d * ", k);
        str_printf(&s, at, axis, axis);
        str_add(&s, " + ");
    }
    str_printf(&s, "a%d", spatial);
    const char *text = arena_strdup(n->arena, s.data);
    str_free(&s);
    return text;
}

bool import_affine_grid(ImportNode *n) {
    const Dim *const *size, *shape[5];
    int count;
    Value *theta = import_widened(n, n->in[0]), *in[4];
    if (!dtype_is_float(theta->type)) return import_fail(n, "theta has type %s, a float type is needed", dtype_name(theta->type));
    if (!import_sizes(n, 1, &size, &count)) return false;
    if (count != 4 && count != 5) return import_fail(n, "size has %d entries, 4 or 5 are needed", count);
    int spatial = count - 2;
    const Dim *want[] = {size[0], dim_of(n, spatial), dim_of(n, spatial + 1)};
    if (!import_value_is(n, "theta", theta, 3, want)) return false;
    shape[0] = size[0];
    FormulaDim dims[4] = {{0}};
    for (int i = 1; i <= spatial; i++) {
        shape[i] = size[1 + i];
        dims[i - 1] = (FormulaDim){arena_printf(n->arena, "E%d", i), shape[i]};
    }
    shape[spatial + 1] = dim_of(n, spatial);
    for (int k = 0; k <= spatial; k++) { // [N, 1.., spatial]
        in[k] = g_squeeze(&n->b, g_slice(&n->b, theta, 2, dim_of(n, k), dim_of(n, 1), 1), 2);
        for (int i = 0; i < spatial; i++) in[k] = g_unsqueeze(&n->b, in[k], 1);
    }
    Value *y = formula_tensor(n, grid_formula(n, spatial, attr_int(n, "align_corners") != 0), spatial + 1, in, count, shape, dims);
    if (y) n->out[0] = g_cast(&n->b, n->in[0]->type, y);
    return y != NULL;
}

// ---- CenterCropPad ----
bool import_center_crop_pad(ImportNode *n) {
    DimTable *t = n->dims;
    Value *x = n->in[0];
    const Dim *const *want, *before[RANK_MAX], *after[RANK_MAX], *zero = dim_of(n, 0), *two = dim_of(n, 2);
    int64_t all[RANK_MAX], axes[RANK_MAX];
    int count;
    for (int i = 0; i < RANK_MAX; i++) all[i] = i;
    IntList given = attr_ints(n, "axes");
    if (!attr_has(n, "axes")) given = (IntList){all, x->rank};
    if (!import_axes(n, given, x->rank, axes) || !import_sizes(n, 1, &want, &count)) return false;
    if (count != given.n) return import_fail(n, "shape has %d entries for %d axes", count, given.n);
    for (int i = 0; i < x->rank; i++) before[i] = after[i] = zero;
    for (int i = 0; i < count; i++) {
        const Dim *grow = dim_sub(t, want[i], x->shape[axes[i]]), *shrink = dim_sub(t, zero, grow);
        const Dim *front = dim_floordiv(t, dim_max(t, grow, zero), two);
        front = dim_sub(t, front, dim_floordiv(t, dim_max(t, shrink, zero), two));
        before[axes[i]] = front;
        after[axes[i]] = dim_sub(t, grow, front);
    }
    Scalar fill = x->type == DT_str ? (Scalar){.type = DT_str} : scalar_int(x->type, 0);
    n->out[0] = g_pad(&n->b, x, before, after, fill);
    return true;
}

// ---- Col2Im ----
typedef struct {
    int n;
    const Dim *const *image, *const *block;
    int64_t stride[SPATIAL_MAX], dilation[SPATIAL_MAX], before[SPATIAL_MAX], after[SPATIAL_MAX];
} Columns;

static bool list_of(ImportNode *n, const char *name, int count, int64_t missing, int64_t least, int64_t *out) {
    IntList v = attr_ints(n, name);
    if (v.n && v.n != count) return import_fail(n, "%s has %d entries, %d are needed", name, v.n, count);
    for (int i = 0; i < count; i++) {
        out[i] = v.n ? v.data[i] : missing;
        if (out[i] < least) return import_fail(n, "%s has the entry %lld", name, (long long)out[i]);
    }
    return true;
}

static bool columns_of(ImportNode *n, Columns *c) {
    int blocks;
    int64_t pads[2 * SPATIAL_MAX];
    if (!import_sizes(n, 1, &c->image, &c->n) || !import_sizes(n, 2, &c->block, &blocks)) return false;
    if (c->n < 1 || c->n > SPATIAL_MAX || blocks != c->n) return import_fail(n, "image_shape has %d entries, block_shape %d", c->n, blocks);
    if (!list_of(n, "strides", c->n, 1, 1, c->stride) || !list_of(n, "dilations", c->n, 1, 1, c->dilation)) return false;
    if (!list_of(n, "pads", 2 * c->n, 0, INT32_MIN, pads)) return false;
    for (int i = 0; i < c->n; i++) {
        c->before[i] = pads[i];
        c->after[i] = pads[c->n + i];
        for (int k = 0; k < 2; k++)
            if (dim_lt(n->dims, k ? c->block[i] : c->image[i], dim_of(n, 1)) == YES)
                return import_fail(
                    n, "%s has the entry %s", k ? "block_shape" : "image_shape", dim_text(n->dims, k ? c->block[i] : c->image[i]));
    }
    return true;
}

// Element p of the image is the sum over the block's elements k of column (p + pad - k*dilation) / stride, where that is a column.
static Value *image_of(ImportNode *n, Value *x, const Columns *c) {
    DimTable *t = n->dims;
    const Dim *columns = dim_of(n, 1), *elements = dim_product(t, c->block, c->n), *steps[SPATIAL_MAX];
    for (int i = 0; i < c->n; i++) {
        const Dim *reach = dim_addi(t, dim_muli(t, dim_addi(t, c->block[i], -1), c->dilation[i]), 1);
        const Dim *span = dim_sub(t, dim_addi(t, c->image[i], c->before[i] + c->after[i]), reach);
        steps[i] = dim_addi(t, dim_floordiv(t, span, dim_of(n, c->stride[i])), 1);
        columns = dim_mul(t, columns, steps[i]);
    }
    const Dim *channels = dim_floordiv(t, x->shape[1], elements), *want[] = {x->shape[0], dim_mul(t, channels, elements), columns};
    if (!import_value_is(n, "input 0", x, 3, want)) return NULL;
    const Dim *shape[RANK_MAX] = {x->shape[0], channels}, *split[RANK_MAX], *index[RANK_MAX], *guard[3 * SPATIAL_MAX];
    int64_t axes[SPATIAL_MAX];
    split[0] = x->shape[0], split[1] = channels;
    for (int i = 0; i < c->n; i++) {
        shape[2 + i] = c->image[i];
        shape[2 + c->n + i] = split[2 + i] = c->block[i];
        split[2 + c->n + i] = steps[i];
        axes[i] = 2 + c->n + i;
    }
    index[0] = dim_axis(t, 0, shape[0]), index[1] = dim_axis(t, 1, shape[1]);
    for (int i = 0; i < c->n; i++) {
        const Dim *p = dim_axis(t, 2 + i, shape[2 + i]), *k = dim_axis(t, 2 + c->n + i, c->block[i]), *stride = dim_of(n, c->stride[i]);
        const Dim *at = dim_sub(t, dim_addi(t, p, c->before[i]), dim_muli(t, k, c->dilation[i])), *column = dim_floordiv(t, at, stride);
        index[2 + i] = k;
        index[2 + c->n + i] = column;
        guard[3 * i] = column;
        guard[3 * i + 1] = dim_sub(t, dim_addi(t, steps[i], -1), column);
        guard[3 * i + 2] = dim_muli(t, dim_mod(t, at, stride), -1);
    }
    x = g_reshape(&n->b, x, 2 + 2 * c->n, split);
    Value *terms = g_view(&n->b, x, 2 + 2 * c->n, shape, index, 3 * c->n, guard, scalar_int(x->type, 0));
    return g_reduce(&n->b, "sum", terms, c->n, axes, false);
}

bool import_col2im(ImportNode *n) {
    Columns c = {0};
    Value *x = n->in[0];
    if (!import_rank(n, 0, 3) || !columns_of(n, &c)) return false;
    if (!dtype_is_float(x->type) && !dtype_is_int(x->type)) return import_unsupported(n, "sums of %s", dtype_name(x->type));
    Value *y = image_of(n, import_widened(n, x), &c);
    if (y) n->out[0] = g_cast(&n->b, x->type, y);
    return y != NULL;
}

// ---- MaxUnpool ----
// Positions count in the tensor that the pooling's attributes give back; a given shape pads or cuts that at the axes' ends.
static bool unpool_shape(ImportNode *n, const Dim **shape) {
    const Value *x = n->in[0];
    int64_t kernel[SPATIAL_MAX], stride[SPATIAL_MAX], pads[2 * SPATIAL_MAX];
    int spatial = x->rank - 2;
    if (spatial < 1 || spatial > SPATIAL_MAX || attr_ints(n, "kernel_shape").n != spatial)
        return import_fail(n, "kernel_shape has %d entries, input is %s", attr_ints(n, "kernel_shape").n, import_shape_text(n, x));
    if (!list_of(n, "kernel_shape", spatial, 1, 1, kernel) || !list_of(n, "strides", spatial, 1, 1, stride)) return false;
    if (!list_of(n, "pads", 2 * spatial, 0, 0, pads)) return false;
    for (int i = 0; i < x->rank; i++) shape[i] = x->shape[i];
    for (int i = 0; i < spatial; i++) {
        const Dim *span = dim_muli(n->dims, dim_addi(n->dims, x->shape[2 + i], -1), stride[i]);
        shape[2 + i] = dim_addi(n->dims, span, kernel[i] - pads[i] - pads[spatial + i]);
    }
    return true;
}

bool import_max_unpool(ImportNode *n) {
    DimTable *t = n->dims;
    Value *x = n->in[0], *at = n->in[1];
    const Dim *shape[RANK_MAX], *const *want, *before[RANK_MAX], *after[RANK_MAX];
    int count;
    if (!import_numeric(n, 0) || !unpool_shape(n, shape) || !import_shape_is(n, 1, x->rank, (DimArray)x->shape)) return false;
    if (!dtype_is_int(at->type)) return import_fail(n, "indices have type %s, an integer type is needed", dtype_name(at->type));
    const Dim *size = dim_product(t, shape, x->rank), *elements = value_size(n->b.g, x), *v = dim_symbol(t, "v0", SYM_DATA, NULL, NULL);
    Value *zeros = g_map_shape(&n->b, 0, NULL, x_int(n->arena, x->type, 0), 1, &size);
    Value *flat = g_reshape(&n->b, x, 1, &elements), *place = g_reshape(&n->b, g_cast(&n->b, DT_i64, at), 1, &elements);
    Value *y = g_reshape(&n->b, g_scatter(&n->b, zeros, flat, 1, &place, &v, &v, 0, NULL, "set"), x->rank, shape);
    n->out[0] = y;
    if (n->nin < 3 || !n->in[2]) return true;
    if (!import_sizes(n, 2, &want, &count)) return false;
    if (count != x->rank) return import_fail(n, "output_shape has %d entries, input has rank %d", count, x->rank);
    for (int i = 0; i < count; i++) {
        before[i] = dim_of(n, 0);
        after[i] = dim_sub(t, want[i], shape[i]);
    }
    n->out[0] = g_pad(&n->b, y, before, after, scalar_int(x->type, 0));
    return true;
}
