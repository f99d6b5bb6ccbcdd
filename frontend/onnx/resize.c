// Resize and Upsample: one axis after the other, each a gather through a table.
//
// Along an axis of extent IN the output's element o lies at a coordinate x(o) of the input. Nearest reads one element; linear, cubic and
// antialiased forms read K of them around floor(x) and sum them with weights that depend on their distance from x. Coordinates, indices and
// weights are small tensors [O] or [O, K] computed by maps: constants when the sizes are, else code that runs once.
//
//     x(o) ──> position[o, k] = floor(x) + k - (K/2 - 1) ──> index = clamped position, weight = filter(|position - x|)
//     y[.., o, ..] = sum over k of weight[o, k] * in[.., index[o, k], ..]
//
// Nearest by a whole factor needs no table: it is a view. Coordinates are f32 and rounded as ONNX Runtime rounds them.
#include "formula.h"

#include <math.h>
#include <string.h>

enum { RANK_MAX = GRAPH_MAX_RANK, UNROLLED = 4 };
typedef const Dim *const *DimArray;

typedef struct {
    ImportNode *n;
    const char *mode, *coordinates, *nearest; // nearest: ONNX's nearest_mode, or "simple" of opset 10
    bool antialias, exclude_outside, sized;   // sized: by sizes, not scales
    double extrapolation;
    int rank;
    bool resized[RANK_MAX];
    const Dim *out[RANK_MAX];
    Value *scale[RANK_MAX];   // f32 scalars
    double factor[RANK_MAX];  // the scale where it is constant, else 0
    Value *roi[2 * RANK_MAX]; // f32 scalars: starts, then ends; NULL: 0 and 1
} Resize;

static Value *constant_f32(const Resize *r, double v) {
    return g_const_float(&r->n->b, DT_f32, v);
}

// Element i of a list, as a scalar f32.
static Value *list_element(ImportNode *n, Value *list, int i) {
    Value *e = g_slice(&n->b, list, 0, dim_int(n->dims, i), dim_int(n->dims, 1), 1);
    return g_cast(&n->b, DT_f32, g_reshape(&n->b, e, 0, NULL));
}

// ---- coordinates ----
// a0: the scale, a1 and a2: the region's ends; WIDTH: the output's extent before it is rounded.
static const struct {
    const char *mode, *text;
} coordinates[] = {
    {"half_pixel", "(cast.f32(dim(d0)) + 0.5) / a0 - 0.5"},
    {"half_pixel_symmetric", "(cast.f32(dim(IN)) / 2.0) * (1.0 - cast.f32(dim(OUT)) / WIDTH) + ((cast.f32(dim(d0)) + 0.5) / a0 - 0.5)"},
    {"pytorch_half_pixel", "select(WIDTH > 1.0, (cast.f32(dim(d0)) + 0.5) / a0 - 0.5, 0.0)"},
    {"align_corners", "select(WIDTH == 1.0, 0.0, (cast.f32(dim(d0)) * cast.f32(dim(IN - 1))) / (WIDTH - 1.0))"},
    {"asymmetric", "cast.f32(dim(d0)) / a0"},
    {"tf_half_pixel_for_nn", "(cast.f32(dim(d0)) + 0.5) / a0"},
    {"tf_crop_and_resize", "select(WIDTH > 1.0, a1 * cast.f32(dim(IN - 1)) + ((cast.f32(dim(d0)) * (a2 - a1)) * cast.f32(dim(IN - 1))) / "
                           "(WIDTH - 1.0), (0.5 * (a1 + a2)) * cast.f32(dim(IN - 1)))"},
};

static const char *coordinate_text(const Resize *r) {
    const char *text = NULL;
    for (size_t i = 0; i < sizeof coordinates / sizeof *coordinates; i++)
        if (!strcmp(coordinates[i].mode, r->coordinates)) text = coordinates[i].text;
    if (!text) return import_fail(r->n, "unknown coordinate_transformation_mode '%s'", r->coordinates), NULL;
    Str s = {0};
    for (const char *at; (at = strstr(text, "WIDTH")); text = at + 5) {
        str_addn(&s, text, (size_t)(at - text));
        str_add(&s, r->sized ? "cast.f32(dim(OUT))" : "(a0 * cast.f32(dim(IN)))");
    }
    str_add(&s, text);
    const char *whole = arena_strdup(r->n->arena, s.data);
    str_free(&s);
    return whole;
}

static bool crops(const Resize *r) {
    return !strcmp(r->coordinates, "tf_crop_and_resize");
}

// x(o): f32[O].
static Value *coordinate(const Resize *r, int axis, const FormulaDim *dims) {
    const char *text = coordinate_text(r);
    if (!text) return NULL;
    Value *in[] = {r->scale[axis], r->roi[axis], r->roi[r->rank + axis]};
    return formula_tensor(r->n, text, crops(r) ? 3 : 1, in, 1, &r->out[axis], dims);
}

// ---- tables ----
// A table of axis `axis`, [O] or [O, K], with axes of extent 1 behind it so that it broadcasts to a tensor of `rank` axes.
static Value *along(ImportNode *n, Value *table, int axis, int rank) {
    for (int behind = rank - axis - table->rank; behind > 0; behind--) table = g_unsqueeze(&n->b, table, table->rank);
    return table;
}

// in[.., index, ..] for a table of indices [O] or [O, K], which replace axis `axis`.
static Value *gather_axis(ImportNode *n, Value *x, int axis, Value *index) {
    const Dim *shape[RANK_MAX + 1], *at[RANK_MAX], *v = dim_symbol(n->dims, "v0", SYM_DATA, NULL, NULL);
    int extra = index->rank - 1, rank = x->rank + extra;
    for (int i = 0; i < rank; i++) shape[i] = i < axis ? x->shape[i] : i <= axis + extra ? index->shape[i - axis] : x->shape[i - extra];
    for (int i = 0; i < x->rank; i++) {
        int o = i <= axis ? i : i + extra;
        at[i] = i == axis ? v : dim_axis(n->dims, o, shape[o]);
    }
    Value *wide = along(n, index, axis, rank);
    return g_gather(&n->b, x, 1, &wide, &v, rank, shape, at, 0, NULL, scalar_int(x->type, 0));
}

static const char clamped[] = "cast.i64(min(max(%s, 0.0), cast.f32(dim(IN - 1))))";

// ---- nearest ----
static const struct {
    const char *mode, *text;
} roundings[] = {
    {"round_prefer_floor", "ceil(a0 - 0.5)"},
    {"round_prefer_ceil", "floor(a0 + 0.5)"},
    {"floor", "floor(a0)"},
    {"ceil", "ceil(a0)"},
};

// Opset 10 does not say how to round: as ONNX Runtime, up when an axis shrinks and down when it grows.
static const char *rounding(const Resize *r, int axis) {
    const char *mode = strcmp(r->nearest, "simple") ? r->nearest : r->factor[axis] > 0 && r->factor[axis] < 1 ? "ceil" : "floor";
    for (size_t i = 0; i < sizeof roundings / sizeof *roundings; i++)
        if (!strcmp(roundings[i].mode, mode)) return roundings[i].text;
    import_fail(r->n, "unknown nearest_mode '%s'", r->nearest);
    return NULL;
}

// The whole factor by which an axis grows, when then every element is repeated that often; else 0.
static int64_t repeats(const Resize *r, const Value *x, int axis) {
    double f = r->factor[axis];
    bool whole = f >= 1 && f == floor(f) && f < 1e6;
    if (!whole || dim_eq(r->n->dims, r->out[axis], dim_muli(r->n->dims, x->shape[axis], (int64_t)f)) != YES) return 0;
    bool down = !strcmp(r->nearest, "floor") || !strcmp(r->nearest, "simple");
    bool round = !strncmp(r->nearest, "round", 5);
    bool fits = (!strcmp(r->coordinates, "asymmetric") && down) || (!strcmp(r->coordinates, "half_pixel") && round) ||
                (!strcmp(r->coordinates, "tf_half_pixel_for_nn") && down);
    return fits ? (int64_t)f : 0;
}

static Value *repeat_axis(ImportNode *n, Value *x, int axis, const Dim *out, int64_t times) {
    const Dim *shape[RANK_MAX], *index[RANK_MAX];
    for (int i = 0; i < x->rank; i++) {
        shape[i] = i == axis ? out : x->shape[i];
        index[i] = dim_axis(n->dims, i, shape[i]);
    }
    index[axis] = dim_floordiv(n->dims, index[axis], dim_int(n->dims, times));
    return g_view(&n->b, x, x->rank, shape, index, 0, NULL, scalar_int(x->type, 0));
}

static Value *nearest_axis(const Resize *r, Value *x, int axis, const FormulaDim *dims) {
    ImportNode *n = r->n;
    int64_t times = repeats(r, x, axis);
    if (times) return repeat_axis(n, x, axis, r->out[axis], times);
    const char *round = rounding(r, axis);
    Value *at = round ? coordinate(r, axis, dims) : NULL;
    if (!at) return NULL;
    Value *index = formula_tensor(n, arena_printf(n->arena, clamped, round), 1, &at, 1, &r->out[axis], dims);
    return index ? gather_axis(n, x, axis, index) : NULL;
}

// ---- linear and cubic ----
static const char linear_filter[] = "max(1.0 - a0, 0.0)";
static const char cubic_filter[] = // a0: the distance, a1: A
    "select(a0 <= 1.0, (((a1 + 2.0) * a0 - (a1 + 3.0)) * (a0 * a0)) + 1.0, "
    "select(a0 < 2.0, (((a1 * a0 - 5.0 * a1) * a0 + 8.0 * a1) * a0) - 4.0 * a1, 0.0))";

static bool is_cubic(const Resize *r) {
    return !strcmp(r->mode, "cubic");
}

static bool tap_count_of_data(const Resize *r, int axis, int64_t support, const Dim **count) {
    ImportNode *n = r->n;
    const char *text = arena_printf(n->arena, "2i64 * cast.i64(ceil(%lld.0 / min(a0, 1.0)))", (long long)support);
    Value *taps = formula_tensor(n, text, 1, &r->scale[axis], 0, NULL, NULL);
    if (taps) *count = g_size(&n->b, taps, 0, "taps", dim_int(n->dims, 2 * support), NULL);
    return taps != NULL;
}

// K: twice the filter's reach, which antialiasing widens where the axis shrinks.
static bool tap_count(const Resize *r, const Value *x, int axis, const Dim **count) {
    DimTable *t = r->n->dims;
    int64_t support = is_cubic(r) ? 2 : 1;
    *count = dim_int(t, 2 * support);
    if (!r->antialias) return true;
    if (r->sized) {
        const Dim *reach = dim_ceildiv(t, dim_muli(t, x->shape[axis], support), r->out[axis]);
        *count = dim_muli(t, dim_max(t, dim_int(t, support), reach), 2);
        return true;
    }
    if (r->factor[axis] <= 0) return tap_count_of_data(r, axis, support, count);
    double reach = ceil((double)support / (r->factor[axis] < 1 ? r->factor[axis] : 1));
    if (reach > 1e6) return import_fail(r->n, "scale %g is too small", r->factor[axis]);
    *count = dim_int(t, 2 * (int64_t)reach);
    return true;
}

// weight[O, K] from position[O, K] and x[O, 1].
static Value *weights(const Resize *r, Value *position, Value *x, int axis, const FormulaDim *dims) {
    ImportNode *n = r->n;
    DimArray shape = (DimArray)position->shape;
    Value *in[] = {position, x, r->scale[axis]};
    Value *distance =
        formula_tensor(n, r->antialias ? "abs(a0 - a1) * min(a2, 1.0)" : "abs(a0 - a1)", r->antialias ? 3 : 2, in, 2, shape, dims);
    Value *pair[] = {distance, is_cubic(r) ? constant_f32(r, attr_float(n, "cubic_coeff_a")) : NULL};
    Value *w = distance ? formula_tensor(n, is_cubic(r) ? cubic_filter : linear_filter, is_cubic(r) ? 2 : 1, pair, 2, shape, dims) : NULL;
    if (!w) return NULL;
    if (r->exclude_outside) {
        Value *outside[] = {w, position};
        w = formula_tensor(n, "select((a1 < 0.0) | (a1 > cast.f32(dim(IN - 1))), 0.0, a0)", 2, outside, 2, shape, dims);
    }
    if (!w || (!r->exclude_outside && !r->antialias)) return w;
    int64_t taps = 1;
    Value *share[] = {w, g_reduce(&n->b, "sum", w, 1, &taps, true)};
    return formula_tensor(n, "a0 / select(a1 == 0.0, 1.0, a1)", 2, share, 2, shape, dims);
}

static Value *column(ImportNode *n, Value *table, int64_t k) {
    return g_squeeze(&n->b, g_slice(&n->b, table, 1, dim_int(n->dims, k), dim_int(n->dims, 1), 1), 1);
}

// The weighted sum over few taps, each a gather.
static Value *sum_few(ImportNode *n, Value *x, int axis, Value *index, Value *weight, int64_t taps) {
    static const char *const texts[] = {"a0 * a2 + a1 * a3", "((a0 * a4 + a1 * a5) + a2 * a6) + a3 * a7"};
    Value *in[2 * UNROLLED];
    for (int64_t k = 0; k < taps; k++) {
        in[k] = gather_axis(n, x, axis, column(n, index, k));
        in[taps + k] = along(n, g_cast(&n->b, x->type, column(n, weight, k)), axis, x->rank);
    }
    return formula_map(n, texts[taps == UNROLLED], 2 * (int)taps, in);
}

static Value *sum_many(ImportNode *n, Value *x, int axis, Value *index, Value *weight) {
    char all[RANK_MAX + 2], kept[RANK_MAX + 1], *a = all, *o = kept;
    for (int i = 0; i < x->rank; i++) {
        *a++ = *o++ = (char)('a' + i);
        if (i == axis) *a++ = 'Z';
    }
    *a = *o = 0;
    const char *subs = arena_printf(n->arena, "%s,%cZ->%s", all, 'a' + axis, kept);
    return g_contract(&n->b, subs, gather_axis(n, x, axis, index), g_cast(&n->b, x->type, weight), x->type);
}

static Value *interpolate_axis(const Resize *r, Value *x, int axis, const FormulaDim *dims) {
    ImportNode *n = r->n;
    const Dim *count = NULL;
    if (!tap_count(r, x, axis, &count)) return NULL;
    Value *at = coordinate(r, axis, dims);
    if (!at) return NULL;
    at = g_unsqueeze(&n->b, at, 1);
    const Dim *shape[] = {r->out[axis], count};
    const FormulaDim more[] = {dims[0], dims[1], {"BEFORE", dim_addi(n->dims, dim_floordiv(n->dims, count, dim_int(n->dims, 2)), -1)}, {0}};
    Value *position = formula_tensor(n, "floor(a0) + cast.f32(dim(d1 - BEFORE))", 1, &at, 2, shape, more);
    Value *index = position ? formula_tensor(n, arena_printf(n->arena, clamped, "a0"), 1, &position, 2, shape, dims) : NULL;
    Value *weight = index ? weights(r, position, at, axis, dims) : NULL;
    if (!weight) return NULL;
    int64_t taps;
    bool few = dim_is_int(count, &taps) && (taps == 2 || taps == UNROLLED);
    Value *y = few ? sum_few(n, x, axis, index, weight, taps) : sum_many(n, x, axis, index, weight);
    return y;
}

// Where the coordinate lies outside of the input, a fixed value.
static Value *extrapolate_axis(const Resize *r, Value *y, int axis, const FormulaDim *dims) {
    ImportNode *n = r->n;
    Value *at = coordinate(r, axis, dims);
    Value *outside = at ? formula_tensor(n, "(a0 < 0.0) | (a0 > cast.f32(dim(IN - 1)))", 1, &at, 1, &r->out[axis], dims) : NULL;
    if (!outside) return NULL;
    Value *in[] = {y, along(n, outside, axis, y->rank), g_cast(&n->b, y->type, constant_f32(r, r->extrapolation))};
    return formula_map(n, "select(a1, a2, a0)", 3, in);
}

static Value *resize_axis(const Resize *r, Value *x, int axis) {
    const FormulaDim dims[] = {{"IN", x->shape[axis]}, {"OUT", r->out[axis]}, {0}};
    bool nearest = !strcmp(r->mode, "nearest");
    Value *y = nearest ? nearest_axis(r, x, axis, dims) : interpolate_axis(r, x, axis, dims);
    return y && crops(r) ? extrapolate_axis(r, y, axis, dims) : y;
}

static bool resize(Resize *r) {
    ImportNode *n = r->n;
    Value *x = n->in[0];
    bool nearest = !strcmp(r->mode, "nearest");
    bool known = nearest || (is_cubic(r) && attr_exists(n, "cubic_coeff_a")) || !strcmp(r->mode, "linear") || !strcmp(r->mode, "bilinear");
    if (!known) return import_fail(n, "unknown mode '%s'", r->mode);
    if (r->antialias && nearest) return import_fail(n, "antialias does not go with mode nearest");
    DType type = x->type;
    if (!import_numeric(n, 0)) return false;
    bool wide = nearest || type == DT_f64 || type == DT_f32;
    if (!wide) x = g_cast(&n->b, DT_f32, x);
    for (int i = 0; i < r->rank; i++) {
        if (!r->resized[i]) continue;
        if (dim_is(x->shape[i], 0)) return import_fail(n, "axis %d is empty", i);
        x = resize_axis(r, x, i);
        if (!x) return false;
    }
    if (!wide && !dtype_is_float(type)) x = g_map1(&n->b, X_rint, x);
    n->out[0] = x == n->in[0] ? g_map(&n->b, 1, &x, x_arg(n->arena, 0, x->type)) : g_cast(&n->b, type, x);
    return true;
}

// ---- sizes ----
// floor(extent * scale). A constant extent is multiplied in f32, as ONNX Runtime does; a symbolic one by the scale as a fraction.
static const Dim *scaled_extent(ImportNode *n, const Dim *extent, double scale) {
    int64_t e;
    if (dim_is_int(extent, &e)) return dim_int(n->dims, (int64_t)((float)scale * (float)e));
    int64_t denominator = 1;
    while (scale != floor(scale) && denominator < (int64_t)1 << 40) scale *= 2, denominator *= 2;
    return dim_floordiv(n->dims, dim_muli(n->dims, extent, (int64_t)scale), dim_int(n->dims, denominator));
}

static void set_scale(Resize *r, int axis, double scale) {
    r->factor[axis] = scale;
    r->scale[axis] = constant_f32(r, scale);
}

static bool scale_by(Resize *r, int axis, double scale) {
    const Dim *extent = r->n->in[0]->shape[axis];
    if (!(scale > 0) || scale > 1e6) return import_fail(r->n, "scale %g of axis %d is out of range", scale, axis);
    set_scale(r, axis, scale);
    r->out[axis] = scaled_extent(r->n, extent, scale);
    r->resized[axis] = scale != 1 || crops(r);
    return true;
}

// Scales that are data: the extents too.
static bool scale_by_data(Resize *r, Value *scales, const int64_t *axes, int count) {
    ImportNode *n = r->n;
    Value *x = n->in[0];
    for (int i = 0; i < count; i++) {
        int axis = (int)axes[i];
        r->scale[axis] = list_element(n, scales, i);
        const FormulaDim dims[] = {{"IN", x->shape[axis]}, {0}};
        Value *size = formula_tensor(n, "cast.i64(floor(a0 * cast.f32(dim(IN))))", 1, &r->scale[axis], 0, NULL, dims);
        if (!size) return false;
        r->out[axis] = g_size(&n->b, size, 0, "resized", dim_int(n->dims, 0), NULL);
        r->resized[axis] = true;
    }
    return true;
}

static void size_to(Resize *r, int axis, const Dim *size) {
    ImportNode *n = r->n;
    const Dim *extent = n->in[0]->shape[axis];
    int64_t in, out;
    r->out[axis] = size;
    r->resized[axis] = crops(r) || dim_eq(n->dims, size, extent) != YES;
    const Dim *times = dim_is(extent, 0) ? extent : dim_floordiv(n->dims, size, extent);
    bool whole = dim_is_int(times, &out) && dim_eq(n->dims, dim_mul(n->dims, times, extent), size) == YES;
    if (whole || (dim_is_int(extent, &in) && dim_is_int(size, &out) && in > 0)) {
        set_scale(r, axis, whole ? (double)out : (double)((float)out / (float)in));
        return;
    }
    const FormulaDim dims[] = {{"IN", extent}, {"OUT", size}, {0}};
    r->scale[axis] = formula_tensor(n, "cast.f32(dim(OUT)) / cast.f32(dim(IN))", 0, NULL, 0, NULL, dims);
}

// One factor for all axes, the smallest or the largest of those that the sizes ask for; extents are rounded half up.
static bool keep_aspect_of_data(Resize *r, bool largest, const int64_t *axes, int count) {
    ImportNode *n = r->n;
    Value *all = r->scale[axes[0]];
    for (int i = 1; i < count; i++) all = g_map2(&n->b, largest ? X_max : X_min, all, r->scale[axes[i]]);
    for (int i = 0; i < count; i++) {
        int axis = (int)axes[i];
        const FormulaDim dims[] = {{"IN", n->in[0]->shape[axis]}, {0}};
        Value *size = formula_tensor(n, "cast.i64(floor(a0 * cast.f32(dim(IN)) + 0.5))", 1, &all, 0, NULL, dims);
        if (!size) return false;
        r->scale[axis] = all;
        r->factor[axis] = 0;
        r->resized[axis] = true;
        r->out[axis] = g_size(&n->b, size, 0, "resized", dim_int(n->dims, 0), NULL);
    }
    return true;
}

static bool keep_aspect(Resize *r, bool largest, const int64_t *axes, int count) {
    ImportNode *n = r->n;
    double scale = 0;
    for (int i = 0; i < count; i++) {
        double f = r->factor[axes[i]];
        if (f <= 0) return keep_aspect_of_data(r, largest, axes, count);
        if (i == 0 || (largest ? f > scale : f < scale)) scale = f;
    }
    for (int i = 0; i < count; i++) {
        int64_t in;
        int axis = (int)axes[i];
        if (!dim_is_int(n->in[0]->shape[axis], &in)) return keep_aspect_of_data(r, largest, axes, count);
        if (!scale_by(r, axis, scale)) return false;
        r->out[axis] = dim_int(n->dims, (int64_t)floorf((float)scale * (float)in + 0.5f));
    }
    return true;
}

// ---- the operators ----
static Resize resize_begin(ImportNode *n, const char *coordinate_mode, const char *nearest) {
    Resize r = {.n = n, .mode = attr_string(n, "mode"), .coordinates = coordinate_mode, .nearest = nearest, .rank = n->in[0]->rank};
    for (int i = 0; i < r.rank; i++) r.out[i] = n->in[0]->shape[i];
    return r;
}

static bool constant_floats(ImportNode *n, Value *v, double *out, int count) {
    Tensor t;
    if (!import_known_tensor(n, v, &t)) return false;
    for (int i = 0; i < count; i++)
        out[i] = scalar_as_f64(scalar_read(t.type, (const char *)t.data + (size_t)i * (size_t)dtype_bytes(t.type)));
    return true;
}

static bool check_list(ImportNode *n, const Value *v, const char *what, int count) {
    if (v->rank == 1 && dim_eq(n->dims, v->shape[0], dim_int(n->dims, count)) == YES) return true;
    return import_fail(n, "%s is %s, a list of %d is needed", what, import_shape_text(n, v), count);
}

static bool apply_scales(Resize *r, Value *scales, const int64_t *axes, int count) {
    double v[RANK_MAX];
    if (!check_list(r->n, scales, "scales", count)) return false;
    if (!dtype_is_float(scales->type)) return import_fail(r->n, "scales have type %s, a float type is needed", dtype_name(scales->type));
    if (!constant_floats(r->n, scales, v, count)) return scale_by_data(r, scales, axes, count);
    for (int i = 0; i < count; i++)
        if (!scale_by(r, (int)axes[i], v[i])) return false;
    return true;
}

static bool apply_sizes(Resize *r, Value *sizes, const int64_t *axes, int count) {
    ImportNode *n = r->n;
    const char *policy = n->version >= 18 ? attr_string(n, "keep_aspect_ratio_policy") : "stretch";
    const Dim *size[RANK_MAX];
    if (!check_list(n, sizes, "sizes", count)) return false;
    if (!dtype_is_int(sizes->type)) return import_fail(n, "sizes have type %s, an integer type is needed", dtype_name(sizes->type));
    for (int i = 0; i < count; i++) size[i] = g_size(&n->b, sizes, i, "resized", dim_int(n->dims, 0), NULL);
    r->sized = true;
    for (int i = 0; i < count; i++) size_to(r, (int)axes[i], size[i]);
    if (!strcmp(policy, "stretch")) return true;
    bool larger = !strcmp(policy, "not_smaller");
    if (!larger && strcmp(policy, "not_larger")) return import_fail(n, "unknown keep_aspect_ratio_policy '%s'", policy);
    r->sized = false;
    return keep_aspect(r, larger, axes, count);
}

static bool apply_roi(Resize *r, Value *roi, const int64_t *axes, int count) {
    if (!crops(r)) return true;
    for (int i = 0; i < r->rank; i++) {
        r->roi[i] = constant_f32(r, 0);
        r->roi[r->rank + i] = constant_f32(r, 1);
    }
    if (!roi) return import_fail(r->n, "tf_crop_and_resize needs the input roi");
    if (!check_list(r->n, roi, "roi", 2 * count)) return false;
    if (!dtype_is_float(roi->type)) return import_fail(r->n, "roi has type %s, a float type is needed", dtype_name(roi->type));
    for (int i = 0; i < count; i++) {
        r->roi[axes[i]] = list_element(r->n, roi, i);
        r->roi[r->rank + axes[i]] = list_element(r->n, roi, count + i);
    }
    return true;
}

static bool chosen_axes(ImportNode *n, int64_t *axes, int *count) {
    IntList given = n->version >= 18 ? attr_ints(n, "axes") : (IntList){0};
    *count = given.n ? given.n : n->in[0]->rank;
    for (int i = 0; i < *count; i++) axes[i] = i;
    return !given.n || import_axes(n, given, n->in[0]->rank, axes);
}

// An input that is there and not an empty list.
static Value *given_list(const ImportNode *n, int i) {
    Value *v = i < n->nin ? n->in[i] : NULL;
    return v && v->rank == 1 && dim_is(v->shape[0], 0) ? NULL : v;
}

bool import_resize(ImportNode *n) {
    Resize r = resize_begin(n, attr_string(n, "coordinate_transformation_mode"), attr_string(n, "nearest_mode"));
    r.antialias = n->version >= 18 && attr_int(n, "antialias") != 0;
    r.exclude_outside = attr_int(n, "exclude_outside") != 0;
    r.extrapolation = attr_float(n, "extrapolation_value");
    int64_t axes[RANK_MAX];
    int count;
    if (!chosen_axes(n, axes, &count) || !apply_roi(&r, given_list(n, 1), axes, count)) return false;
    Value *scales = given_list(n, 2), *sizes = given_list(n, 3);
    if (!scales == !sizes)
        return import_fail(n, "has %s, expected one of scales and sizes", scales ? "both scales and sizes" : "neither scales nor sizes");
    return (scales ? apply_scales(&r, scales, axes, count) : apply_sizes(&r, sizes, axes, count)) && resize(&r);
}

static bool scales_only(ImportNode *n, Value *scales) {
    Resize r = resize_begin(n, "asymmetric", "simple");
    int64_t axes[RANK_MAX];
    for (int i = 0; i < r.rank; i++) axes[i] = i;
    return apply_scales(&r, scales, axes, r.rank) && resize(&r);
}

bool import_resize_10(ImportNode *n) {
    return scales_only(n, n->in[1]);
}

bool import_upsample_attr(ImportNode *n) {
    Resize r = resize_begin(n, "asymmetric", "simple");
    bool old = n->version < 7;
    F64List scales = old ? (F64List){0} : attr_floats(n, "scales");
    if ((old && r.rank != 4) || (!old && scales.n != r.rank)) return import_fail(n, "the scales do not fit rank %d", r.rank);
    for (int i = 0; i < r.rank; i++) {
        double scale = !old ? scales.data[i] : i == 2 ? attr_float(n, "height_scale") : i == 3 ? attr_float(n, "width_scale") : 1;
        if (!scale_by(&r, i, scale)) return false;
    }
    return resize(&r);
}
