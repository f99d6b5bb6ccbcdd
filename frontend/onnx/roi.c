// RoiAlign: each bin of a region is sampled at a grid of points, each of them between two rows and two columns.
//
// Along an axis the table [R, bins, K, 2] holds, for region, bin, point and tap, the position read and its weight: zero outside of the
// image and for points that the region does not have. The bins are a contraction of one gather with the product of both axes' weights, or,
// for max, the maximum of the weighted elements.
#include "formula.h"

#include <string.h>

typedef const Dim *const *DimArray;

typedef struct {
    const Dim *extent, *bins, *points; // of the image, of the output, K
    Value *count;                      // points of a region, f32[R]
    Value *index, *weight;             // [R, bins, K, 2]
} RoiAxis;

// Column k of the regions as a coordinate of the image: f32[R].
static Value *corner(ImportNode *n, Value *rois, int64_t k, bool half_pixel) {
    Value *c = g_squeeze(&n->b, g_slice(&n->b, rois, 1, dim_int(n->dims, k), dim_int(n->dims, 1), 1), 1);
    c = g_cast(&n->b, DT_f32, c);
    return formula_map(n, half_pixel ? "a0 * $spatial_scale - 0.5" : "a0 * $spatial_scale", 1, &c);
}

static Value *unsqueezed(ImportNode *n, Value *v, int axes) {
    for (int i = 0; i < axes; i++) v = g_unsqueeze(&n->b, v, v->rank);
    return v;
}

// How many points a bin has: the attribute, or one a pixel, the largest region's for all.
static bool count_points(ImportNode *n, RoiAxis *a, Value *bin) {
    int64_t ratio = attr_int(n, "sampling_ratio"), axis = 0;
    if (ratio > 0) {
        a->points = dim_int(n->dims, ratio);
        a->count = g_map_shape(&n->b, 0, NULL, x_float(n->arena, DT_f32, (double)ratio), 1, (DimArray)bin->shape);
        return true;
    }
    a->count = formula_map(n, "max(ceil(a0), 0.0)", 1, &bin);
    Value *most = a->count ? g_reduce(&n->b, "max", a->count, 1, &axis, false) : NULL;
    most = most ? formula_map(n, "cast.i64(max(a0, 0.0))", 1, &most) : NULL;
    if (most) a->points = g_size(&n->b, most, 0, "points", dim_int(n->dims, 0), NULL);
    return most != NULL;
}

static bool roi_axis(ImportNode *n, RoiAxis *a, Value *start, Value *end, bool half_pixel) {
    const FormulaDim dims[] = {{"L", a->extent}, {"BINS", a->bins}, {0}};
    Value *ends[] = {start, end};
    const char *size = half_pixel ? "(a1 - a0) / cast.f32(dim(BINS))" : "max(a1 - a0, 1.0) / cast.f32(dim(BINS))";
    Value *bin = formula_tensor(n, size, 2, ends, 1, (DimArray)start->shape, dims);
    if (!bin || !count_points(n, a, bin)) return false;
    const Dim *shape[] = {start->shape[0], a->bins, a->points, dim_int(n->dims, 2)};
    Value *in[] = {unsqueezed(n, start, 2), unsqueezed(n, bin, 2), unsqueezed(n, a->count, 2)};
    Value *at = formula_tensor(n, "a0 + cast.f32(dim(d1)) * a1 + ((cast.f32(dim(d2)) + 0.5) * a1) / a2", 3, in, 3, shape, dims);
    if (!at) return false;
    Value *point[] = {g_unsqueeze(&n->b, at, 3), unsqueezed(n, a->count, 3)};
    const char *low = "min(floor(max(a0, 0.0)), cast.f32(dim(L - 1)))";
    a->index = formula_tensor(
        n, arena_printf(n->arena, "cast.i64(min(%s + cast.f32(dim(d3)), cast.f32(dim(L - 1))))", low), 1, point, 4, shape, dims);
    const char *part = arena_printf(n->arena, "max(min(max(a0, 0.0), cast.f32(dim(L - 1))) - %s, 0.0)", low);
    const char *outside = "((a0 < (-1.0)) | (a0 > cast.f32(dim(L)))) | (cast.f32(dim(d2)) >= a1)";
    const char *text = arena_printf(n->arena, "select(%s, 0.0, select(cast.f32(dim(d3)) == 0.0, 1.0 - %s, %s))", outside, part, part);
    a->weight = formula_tensor(n, text, 2, point, 4, shape, dims);
    return a->index && a->weight;
}

// A table [R, bins, K, 2] of axis 0 or 1 among the axes [R, (C,) bins, bins, K, 2, K, 2].
static Value *placed(ImportNode *n, Value *v, int axis, bool channel) {
    const Dim *shape[8];
    int lead = channel ? 2 : 1, rank = lead + 6;
    for (int i = 0; i < rank; i++) shape[i] = dim_int(n->dims, 1);
    shape[0] = v->shape[0];
    shape[lead + axis] = v->shape[1];
    shape[lead + 2 + 2 * axis] = v->shape[2];
    shape[lead + 3 + 2 * axis] = v->shape[3];
    return g_reshape(&n->b, v, rank, shape);
}

static Value *read_points(ImportNode *n, Value *x, Value *batch, const RoiAxis *a) {
    DimTable *t = n->dims;
    const Dim *two = dim_int(t, 2), *shape[] = {batch->shape[0], x->shape[1], a[0].bins, a[1].bins, a[0].points, two, a[1].points, two},
              *v[3];
    for (int i = 0; i < 3; i++) v[i] = dim_symbol(t, arena_printf(n->arena, "v%d", i), SYM_DATA, NULL, NULL);
    Value *index[] = {unsqueezed(n, batch, 7), placed(n, a[0].index, 0, true), placed(n, a[1].index, 1, true)};
    const Dim *at[] = {v[0], dim_axis(t, 1, shape[1]), v[1], v[2]};
    return g_gather(&n->b, x, 3, index, v, 8, shape, at, 0, NULL, scalar_int(x->type, 0));
}

static Value *averaged(ImportNode *n, Value *x, Value *points, const RoiAxis *a) {
    Value *w = g_map2(&n->b, X_mul, placed(n, a[0].weight, 0, false), placed(n, a[1].weight, 1, false));
    Value *sum = g_contract(&n->b, "rcpqiajb,rpqiajb->rcpq", points, g_cast(&n->b, x->type, w), x->type);
    Value *in[] = {sum, unsqueezed(n, a[0].count, 3), unsqueezed(n, a[1].count, 3)};
    return formula_map(n, "a0 / cast.$T(max(a1 * a2, 1.0))", 3, in);
}

static Value *maximum(ImportNode *n, Value *x, Value *points, const RoiAxis *a) {
    static const int64_t axes[] = {4, 5, 6, 7};
    Value *in[] = {points, g_cast(&n->b, x->type, placed(n, a[0].weight, 0, true)), g_cast(&n->b, x->type, placed(n, a[1].weight, 1, true)),
        unsqueezed(n, a[0].count, 7), unsqueezed(n, a[1].count, 7)};
    const char *text = "select((cast.f32(dim(d4)) < a3) & (cast.f32(dim(d6)) < a4), a0 * (a1 * a2), -inf$T)";
    Value *each = formula_tensor(n, text, 5, in, 8, (DimArray)points->shape, NULL);
    Value *most = each ? g_reduce(&n->b, "max", each, 4, axes, false) : NULL;
    return most ? formula_map(n, "select(a0 == (-inf$T), 0.0$T, a0)", 1, &most) : NULL;
}

bool import_roi_align(ImportNode *n) {
    Value *x = n->in[0], *rois = n->in[1], *batch = n->in[2];
    bool half_pixel =
        attr_exists(n, "coordinate_transformation_mode") && !strcmp(attr_string(n, "coordinate_transformation_mode"), "half_pixel");
    bool mean = !strcmp(attr_string(n, "mode"), "avg");
    if (x->rank != 4 || rois->rank != 2 || batch->rank != 1 || !dim_is(rois->shape[1], 4) || !dtype_is_int(batch->type))
        return import_fail(
            n, "%s, regions %s and batch %s do not fit", import_shape_text(n, x), import_shape_text(n, rois), import_shape_text(n, batch));
    if (!import_numeric(n, 1)) return false;
    if (dim_eq(n->dims, rois->shape[0], batch->shape[0]) == NO)
        return import_fail(n, "%s regions, but %s batch indices", dim_text(n->dims, rois->shape[0]), dim_text(n->dims, batch->shape[0]));
    if (!dtype_is_float(x->type)) return import_fail(n, "the input has type %s, a float type is needed", dtype_name(x->type));
    if (!mean && strcmp(attr_string(n, "mode"), "max")) return import_fail(n, "unknown mode '%s'", attr_string(n, "mode"));
    int64_t bins[] = {attr_int(n, "output_height"), attr_int(n, "output_width")};
    if (bins[0] < 1 || bins[1] < 1) return import_fail(n, "the output is %ld by %ld", (long)bins[0], (long)bins[1]);
    RoiAxis a[2];
    for (int i = 0; i < 2; i++) {
        a[i] = (RoiAxis){.extent = x->shape[2 + i], .bins = dim_int(n->dims, bins[i])};
        Value *start = corner(n, rois, 1 - i, half_pixel), *end = start ? corner(n, rois, 3 - i, half_pixel) : NULL;
        if (!end || !roi_axis(n, &a[i], start, end, half_pixel)) return false;
    }
    Value *wide = dtype_is_native(x->type) ? x : g_cast(&n->b, DT_f32, x);
    Value *points = read_points(n, wide, batch, a), *y = mean ? averaged(n, wide, points, a) : maximum(n, wide, points, a);
    if (y) n->out[0] = g_cast(&n->b, x->type, y);
    return y != NULL;
}
