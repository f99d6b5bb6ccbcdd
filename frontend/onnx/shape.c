// Operators that move elements or speak of shapes: views, reshapes, concat, gather and scatter with their index maps.
#include "shape_data.h"

#include <string.h>

enum { RANK_MAX = GRAPH_MAX_RANK };
typedef const Dim *const *DimArray;

static const Dim *axis_sym(ImportNode *n, int axis, const Dim *extent) {
    return dim_axis(n->dims, axis, extent);
}
static const Dim *dim_of(ImportNode *n, int64_t v) {
    return dim_int(n->dims, v);
}

// ---- Shape, Size ----
bool import_shape(ImportNode *n) {
    const Value *x = n->in[0];
    int64_t start = 0, end = x->rank;
    if (n->version >= 15) {
        start = attr_int(n, "start");
        if (attr_has(n, "end")) end = attr_int(n, "end");
    }
    if (start < 0) start += x->rank;
    if (end < 0) end += x->rank;
    start = start < 0 ? 0 : start > x->rank ? x->rank : start;
    end = end < start ? start : end > x->rank ? x->rank : end;
    n->out[0] = g_dims(&n->b, (int)(end - start), (DimArray)x->shape + start);
    return true;
}

bool import_size(ImportNode *n) {
    const Dim *size = value_size(n->b.g, n->in[0]);
    n->out[0] = g_dims(&n->b, -1, &size);
    return true;
}

// ---- Reshape and its kin ----
// -1 becomes total / others, 0 the input's extent (unless allowzero).
static bool reshape_dims(ImportNode *n, const Dim *const *want, int rank, bool zero_copies, const Dim **shape) {
    const Value *x = n->in[0];
    int infer = -1;
    const Dim *known = dim_of(n, 1);
    for (int i = 0; i < rank; i++) {
        if (dim_is(want[i], -1)) {
            if (infer >= 0) return import_fail(n, "shape has -1 twice");
            infer = i;
            continue;
        }
        bool copies = zero_copies && dim_is(want[i], 0);
        if (copies && i >= x->rank) return import_fail(n, "shape has 0 at axis %d, input has rank %d", i, x->rank);
        shape[i] = copies ? x->shape[i] : want[i];
        known = dim_mul(n->dims, known, shape[i]);
    }
    const Dim *total = value_size(n->b.g, x);
    if (infer >= 0) {
        if (dim_is(known, 0)) return import_fail(n, "-1 cannot be inferred from an empty shape");
        int64_t k, t;
        if (dim_is_int(known, &k) && dim_is_int(total, &t) && t % k)
            return import_fail(n, "%s does not fit the shape", import_shape_text(n, x));
        shape[infer] = dim_floordiv(n->dims, total, known);
        return true;
    }
    if (dim_eq(n->dims, known, total) == NO)
        return import_fail(
            n, "%s has %s elements, the new shape %s", import_shape_text(n, x), dim_text(n->dims, total), dim_text(n->dims, known));
    return true;
}

// Where sizes are not provably equal, a check says so at run time.
static bool reshape_to(ImportNode *n, const Dim *const *want, int rank, bool zero_copies) {
    const Dim *shape[RANK_MAX];
    if (rank > RANK_MAX) return import_unsupported(n, "rank %d", rank);
    if (!reshape_dims(n, want, rank, zero_copies, shape)) return false;
    const Dim *total = value_size(n->b.g, n->in[0]), *now = dim_product(n->dims, shape, rank);
    if (dim_eq(n->dims, total, now) != YES) {
        const Dim *guards[] = {dim_sub(n->dims, total, now), dim_sub(n->dims, now, total)};
        g_check(&n->b, NULL, 2, guards, CODE_SHAPE);
    }
    n->out[0] = g_reshape(&n->b, n->in[0], rank, shape);
    return true;
}

bool import_reshape(ImportNode *n) {
    const Dim *const *want;
    int rank;
    bool allowzero = n->version >= 14 && attr_int(n, "allowzero") != 0;
    if (!n->in[1]->content && !(n->in[1]->rank == 1 && dim_is(n->in[1]->shape[0], 0))) {
        n->out[0] = reshape_by_data(n, n->in[0], n->in[1], !allowzero);
        return n->out[0] != NULL;
    }
    if (!import_content(n, 1, &want, &rank)) return false;
    return reshape_to(n, want, rank, !allowzero);
}

bool import_reshape_attr(ImportNode *n) {
    IntList shape = attr_ints(n, "shape");
    const Dim **want = ARENA_ARRAY(n->arena, const Dim *, shape.n + 1);
    for (int i = 0; i < shape.n; i++) want[i] = dim_of(n, shape.data[i]);
    return reshape_to(n, want, shape.n, true);
}

bool import_flatten(ImportNode *n) {
    const Value *x = n->in[0];
    int64_t axis = attr_int(n, "axis");
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis > x->rank) return import_fail(n, "axis is outside of rank %d", x->rank);
    const Dim *shape[] = {
        dim_product(n->dims, (DimArray)x->shape, (int)axis), dim_product(n->dims, (DimArray)x->shape + axis, x->rank - (int)axis)};
    n->out[0] = g_reshape(&n->b, n->in[0], 2, shape);
    return true;
}

// Axes from input 1 (since opset 13) or the attribute; count 0 when not given.
static bool squeeze_axes(ImportNode *n, int rank, int64_t *axes, int *count) {
    IntList list = {0};
    int64_t *data = ARENA_ARRAY(n->arena, int64_t, RANK_MAX);
    if (n->version < 13)
        list = attr_ints(n, "axes");
    else if (n->nin > 1 && n->in[1]) {
        if (!import_const_ints(n, 1, data, RANK_MAX, &list.n)) return false;
        list.data = data;
    }
    *count = list.n;
    return import_axes(n, list, rank, axes);
}

static bool has_axis(const int64_t *axes, int count, int axis) {
    for (int i = 0; i < count; i++)
        if (axes[i] == axis) return true;
    return false;
}

bool import_squeeze(ImportNode *n) {
    if (n->version >= 13 && numbers_are_data(n, 1)) return squeeze_of_data(n);
    const Value *x = n->in[0];
    int64_t axes[RANK_MAX];
    int count, rank = 0;
    if (!squeeze_axes(n, x->rank, axes, &count)) return false;
    const Dim *shape[RANK_MAX];
    bool all = count == 0 && !(n->nin > 1 && n->in[1]);
    for (int i = 0; i < x->rank; i++) {
        bool drop = all ? dim_is(x->shape[i], 1) : has_axis(axes, count, i);
        if (!drop) {
            shape[rank++] = x->shape[i];
            continue;
        }
        Tri one = dim_eq(n->dims, x->shape[i], dim_of(n, 1));
        if (one == NO) return import_fail(n, "axis %d of %s is not 1", i, import_shape_text(n, x));
        if (one == YES) continue;
        const Dim *guards[] = {dim_addi(n->dims, x->shape[i], -1), dim_sub(n->dims, dim_of(n, 1), x->shape[i])};
        g_check(&n->b, NULL, 2, guards, CODE_SHAPE);
    }
    n->out[0] = g_reshape(&n->b, n->in[0], rank, shape);
    return true;
}

bool import_unsqueeze(ImportNode *n) {
    if (n->version >= 13 && numbers_are_data(n, 1)) return unsqueeze_of_data(n);
    const Value *x = n->in[0];
    int64_t axes[RANK_MAX];
    int count, from = 0;
    IntList peek = n->version < 13 ? attr_ints(n, "axes") : (IntList){0};
    if (n->version >= 13) {
        int64_t data[RANK_MAX];
        if (!import_const_ints(n, 1, data, RANK_MAX, &peek.n)) return false;
    }
    int rank = x->rank + peek.n;
    if (rank > RANK_MAX) return import_unsupported(n, "rank %d", rank);
    if (!squeeze_axes(n, rank, axes, &count)) return false;
    const Dim *shape[RANK_MAX];
    for (int i = 0; i < rank; i++) shape[i] = has_axis(axes, count, i) ? dim_of(n, 1) : x->shape[from++];
    n->out[0] = g_reshape(&n->b, n->in[0], rank, shape);
    return true;
}

// ---- Transpose, Expand, Tile ----
bool import_transpose(ImportNode *n) {
    int rank = n->in[0]->rank;
    int64_t perm[RANK_MAX];
    bool seen[RANK_MAX] = {0};
    IntList given = attr_ints(n, "perm");
    if (given.n && given.n != rank) return import_fail(n, "perm has %d entries, input has rank %d", given.n, rank);
    for (int i = 0; i < rank; i++) {
        int axis;
        if (!import_axis(n, given.n ? given.data[i] : rank - 1 - i, rank, &axis)) return false;
        if (seen[axis]) return import_fail(n, "perm names axis %d twice", axis);
        seen[axis] = true;
        perm[i] = axis;
    }
    n->out[0] = g_transpose(&n->b, n->in[0], perm);
    return true;
}

bool import_expand(ImportNode *n) {
    const Dim *const *want, *shape[RANK_MAX];
    int count;
    const Value *x = n->in[0];
    if (!import_sizes(n, 1, &want, &count)) return false;
    int rank = count > x->rank ? count : x->rank;
    if (rank > RANK_MAX) return import_unsupported(n, "rank %d", rank);
    for (int i = 0; i < rank; i++) {
        const Dim *a = i >= rank - x->rank ? x->shape[i - (rank - x->rank)] : dim_of(n, 1);
        const Dim *b = i >= rank - count ? want[i - (rank - count)] : dim_of(n, 1);
        bool clash = dim_eq(n->dims, a, b) == NO && dim_eq(n->dims, a, dim_of(n, 1)) == NO && dim_eq(n->dims, b, dim_of(n, 1)) == NO;
        if (clash) return import_fail(n, "%s does not expand to extent %s at axis %d", import_shape_text(n, x), dim_text(n->dims, b), i);
        shape[i] = graph_broadcast_extent(&n->b, a, b);
    }
    n->out[0] = g_expand(&n->b, n->in[0], rank, shape);
    return true;
}

// out[d] = in[d mod extent], axis by axis.
static bool tile_by(ImportNode *n, const Dim *const *repeats) {
    Value *x = n->in[0];
    const Dim *shape[RANK_MAX], *index[RANK_MAX];
    for (int i = 0; i < x->rank; i++) {
        shape[i] = dim_mul(n->dims, x->shape[i], repeats[i]);
        const Dim *d = axis_sym(n, i, shape[i]);
        index[i] = dim_is(repeats[i], 1) ? d : dim_mod(n->dims, d, x->shape[i]);
        if (dim_is(x->shape[i], 1)) index[i] = dim_of(n, 0);
    }
    n->out[0] = g_view(&n->b, x, x->rank, shape, index, 0, NULL, scalar_int(x->type, 0));
    return true;
}

bool import_tile(ImportNode *n) {
    const Dim *const *repeats;
    int count;
    if (!import_sizes(n, 1, &repeats, &count)) return false;
    if (count != n->in[0]->rank) return import_fail(n, "repeats has %d entries, input has rank %d", count, n->in[0]->rank);
    return tile_by(n, repeats);
}

bool import_tile_old(ImportNode *n) {
    const Dim *const *tiles, *const *axis, *repeats[RANK_MAX];
    int count, k;
    int64_t at;
    if (!import_content(n, 1, &tiles, &count) || !import_content(n, 2, &axis, &count)) return false;
    if (!dim_is_int(axis[0], &at) || !import_axis(n, at, n->in[0]->rank, &k)) return import_fail(n, "axis is not a constant");
    for (int i = 0; i < n->in[0]->rank; i++) repeats[i] = i == k ? tiles[0] : dim_of(n, 1);
    return tile_by(n, repeats);
}

// ---- Concat, Split ----
bool import_concat(ImportNode *n) {
    int axis, rank = n->in[0]->rank;
    if (!import_axis(n, attr_int(n, "axis"), rank, &axis) || !import_same_types(n, 0, n->nin - 1)) return false;
    for (int i = 1; i < n->nin; i++) {
        if (n->in[i]->rank != rank) return import_fail(n, "input %d has rank %d, input 0 has %d", i, n->in[i]->rank, rank);
        for (int k = 0; k < rank; k++) {
            if (k == axis || dim_eq(n->dims, n->in[i]->shape[k], n->in[0]->shape[k]) != NO) continue;
            return import_fail(n, "input %d is %s, input 0 %s: they differ at axis %d", i, import_shape_text(n, n->in[i]),
                import_shape_text(n, n->in[0]), k);
        }
    }
    n->out[0] = g_concat(&n->b, n->nin, n->in, axis);
    return true;
}

static bool split_sizes(ImportNode *n, const Dim *extent, const Dim *const **sizes, int *count) {
    if (n->version >= 13 && n->nin > 1 && n->in[1]) return import_sizes(n, 1, sizes, count);
    IntList given = n->version < 13 ? attr_ints(n, "split") : (IntList){0};
    const Dim **made = ARENA_ARRAY(n->arena, const Dim *, n->nout + given.n + 1);
    *sizes = made;
    *count = given.n ? given.n : n->nout;
    for (int i = 0; i < given.n; i++) made[i] = dim_of(n, given.data[i]);
    if (given.n) return true;
    const Dim *chunk = dim_ceildiv(n->dims, extent, dim_of(n, n->nout)), *left = extent;
    for (int i = 0; i < n->nout; i++) {
        made[i] = i + 1 < n->nout ? dim_min(n->dims, chunk, left) : left;
        left = dim_sub(n->dims, left, made[i]);
    }
    return true;
}

bool import_split(ImportNode *n) {
    int axis, count;
    const Dim *const *sizes;
    Value *x = n->in[0];
    if (!import_axis(n, attr_int(n, "axis"), x->rank, &axis) || !split_sizes(n, x->shape[axis], &sizes, &count)) return false;
    if (count < n->nout) return import_fail(n, "split has %d entries, the node %d outputs", count, n->nout);
    const Dim *start = dim_of(n, 0), *total = dim_of(n, 0);
    for (int i = 0; i < count; i++) total = dim_add(n->dims, total, sizes[i]);
    if (dim_eq(n->dims, total, x->shape[axis]) == NO)
        return import_fail(n, "split adds up to %s, axis %d has %s", dim_text(n->dims, total), axis, dim_text(n->dims, x->shape[axis]));
    for (int i = 0; i < n->nout; i++) {
        if (dim_ge0(n->dims, sizes[i]) == NO) return import_fail(n, "split has the entry %s", dim_text(n->dims, sizes[i]));
    }
    const Dim *guards[] = {dim_sub(n->dims, total, x->shape[axis]), dim_sub(n->dims, x->shape[axis], total)};
    g_check(&n->b, NULL, 2, guards, CODE_SHAPE);
    for (int i = 0; i < n->nout; i++) {
        n->out[i] = g_slice(&n->b, x, axis, start, sizes[i], 1);
        start = dim_add(n->dims, start, sizes[i]);
    }
    return true;
}

// ---- Slice ----
// start and end as ONNX clamps them: negative counts from the end, then into 0..extent (step < 0: start into 0..extent-1, end into
// -1..extent-1).
static const Dim *slice_bound(ImportNode *n, const Dim *v, const Dim *extent, int64_t low, int64_t high_offset) {
    DimTable *t = n->dims;
    int64_t k, lo, hi;
    dim_interval(v, &lo, &hi);
    bool negative = dim_is_int(v, &k) ? k < 0 : hi < 0;
    const Dim *high = dim_addi(t, extent, high_offset);
    const Dim *least = dim_of(n, low), *at = negative ? dim_add(t, v, extent) : v;
    if (dim_is_int(v, &k) && k < -((int64_t)1 << 40)) at = least;
    if (dim_is_int(v, &k) && k > (int64_t)1 << 40) at = high;
    if (!high_offset && (dim_is(at, 0) || at == high)) return at; // an extent is not negative, whatever its formula could give
    // high last where an empty axis puts it below low: nothing is left then
    return high_offset < 0 ? dim_min(t, high, dim_max(t, least, at)) : dim_max(t, least, dim_min(t, at, high));
}

static Value *slice_axis(ImportNode *n, Value *x, int axis, const Dim *start, const Dim *end, int64_t step) {
    DimTable *t = n->dims;
    const Dim *extent = x->shape[axis];
    bool back = step < 0;
    const Dim *s = slice_bound(n, start, extent, 0, back ? -1 : 0), *e = slice_bound(n, end, extent, back ? -1 : 0, back ? -1 : 0);
    const Dim *span = back ? dim_sub(t, s, e) : dim_sub(t, e, s), *len = dim_ceildiv(t, span, dim_of(n, back ? -step : step));
    if (!dim_is(s, 0) || e != extent) len = dim_max(t, dim_of(n, 0), len);
    return g_slice(&n->b, x, axis, s, len, step);
}

typedef struct {
    const Dim *const *starts, *const *ends;
    int count;
    int64_t axes[RANK_MAX], steps[RANK_MAX];
} SliceSpec;

static bool slice_apply(ImportNode *n, const SliceSpec *s) {
    Value *x = n->in[0];
    for (int i = 0; i < s->count; i++) {
        int axis;
        int64_t step = s->steps[i];
        if (!import_axis(n, s->axes[i], x->rank, &axis)) return false;
        if (step == 0) return import_fail(n, "step is 0");
        if (step < -((int64_t)1 << 40)) step = -((int64_t)1 << 40);
        if (step > (int64_t)1 << 40) step = (int64_t)1 << 40;
        x = slice_axis(n, x, axis, s->starts[i], s->ends[i], step);
    }
    n->out[0] = x == n->in[0] ? g_map(&n->b, 1, &x, x_arg(n->arena, 0, x->type)) : x;
    return true;
}

bool import_slice(ImportNode *n) {
    SliceSpec s = {0};
    int ends, axes = 0, steps = 0;
    if (numbers_are_data(n, 1) || numbers_are_data(n, 2) || numbers_are_data(n, 3) || numbers_are_data(n, 4)) return slice_of_data(n);
    if (!import_content(n, 1, &s.starts, &s.count) || !import_content(n, 2, &s.ends, &ends)) return false;
    for (int i = 0; i < s.count && i < RANK_MAX; i++) s.axes[i] = i, s.steps[i] = 1;
    if (s.count > n->in[0]->rank || ends != s.count)
        return import_fail(n, "%d starts and %d ends for rank %d", s.count, ends, n->in[0]->rank);
    if (n->nin > 3 && n->in[3] && !import_const_ints(n, 3, s.axes, RANK_MAX, &axes)) return false;
    if (n->nin > 4 && n->in[4] && !import_const_ints(n, 4, s.steps, RANK_MAX, &steps)) return false;
    if ((axes && axes != s.count) || (steps && steps != s.count)) return import_fail(n, "starts, axes and steps differ in length");
    return slice_apply(n, &s);
}

bool import_slice_attr(ImportNode *n) {
    SliceSpec s = {0};
    IntList starts = attr_ints(n, "starts"), ends = attr_ints(n, "ends"), axes = attr_ints(n, "axes");
    if (starts.n != ends.n || (axes.n && axes.n != starts.n) || starts.n > RANK_MAX)
        return import_fail(n, "starts, ends and axes differ in length");
    const Dim **from = ARENA_ARRAY(n->arena, const Dim *, starts.n + 1), **to = ARENA_ARRAY(n->arena, const Dim *, starts.n + 1);
    for (int i = 0; i < starts.n; i++) {
        from[i] = dim_of(n, starts.data[i]);
        to[i] = dim_of(n, ends.data[i]);
        s.axes[i] = axes.n ? axes.data[i] : i;
        s.steps[i] = 1;
    }
    s.starts = from, s.ends = to, s.count = starts.n;
    return slice_apply(n, &s);
}

// ---- values of a shape ----
bool import_constant_of_shape(ImportNode *n) {
    const Dim *const *shape;
    int rank;
    Scalar fill = scalar_float(DT_f32, 0);
    if (!import_sizes(n, 0, &shape, &rank)) return false;
    const Value *given = attr_tensor(n, "value");
    if (given) fill = scalar_read(given->type, given->def->data.bytes);
    n->out[0] = g_map_shape(&n->b, 0, NULL, x_const(n->arena, fill, 1), rank, shape);
    return true;
}

// Limits that are data: max(0, ceil((limit - start) / step)) elements, a size defined at run time.
static bool range_of_data(ImportNode *n) {
    DType t = n->in[0]->type;
    Value *in[3];
    if (!import_numeric(n, 0)) return false;
    if (t == DT_bool) return import_fail(n, "limits have type bool");
    for (int i = 0; i < 3; i++) {
        if (dim_eq(n->dims, value_size(n->b.g, n->in[i]), dim_of(n, 1)) == NO) return import_fail(n, "input %d is no scalar", i);
        in[i] = g_reshape(&n->b, n->in[i], 0, NULL);
    }
    Value *count = formula_map(n, "cast.i64(max(ceil((cast.f64(a1) - cast.f64(a0)) / cast.f64(a2)), 0.0))", 3, in);
    if (!count) return false;
    const Dim *len = g_size(&n->b, count, 0, "range", dim_of(n, 0), NULL);
    DType wide = dtype_is_float(t) && !dtype_is_native(t) ? DT_f32 : t;
    Value *from[] = {g_cast(&n->b, wide, in[0]), g_cast(&n->b, wide, in[2])};
    Value *y = formula_tensor(n, "a0 + cast.$T(dim(d0)) * a1", 2, from, 1, &len, NULL);
    if (y) n->out[0] = g_cast(&n->b, t, y);
    return y != NULL;
}

bool import_range(ImportNode *n) {
    const Dim *const *ends[3];
    int count;
    DType t = n->in[0]->type;
    double f[3];
    if (!import_same_types(n, 0, 2)) return false;
    if (dtype_is_float(t)) {
        for (int i = 0; i < 3; i++)
            if (!import_const_float(n, i, &f[i])) return range_of_data(n);
        double steps = (f[1] - f[0]) / f[2];
        int64_t len = steps > 0 ? (int64_t)__builtin_ceil(steps) : 0;
        const Dim *shape = dim_of(n, len);
        const Expr *i = x_cast(n->arena, t, x_dim(n->arena, axis_sym(n, 0, shape)));
        const Expr *step = x_op2(n->arena, X_mul, i, x_float(n->arena, t, f[2]));
        n->out[0] = g_map_shape(&n->b, 0, NULL, x_op2(n->arena, X_add, step, x_float(n->arena, t, f[0])), 1, &shape);
        return true;
    }
    for (int i = 0; i < 3; i++) {
        if (!n->in[i]->content) return range_of_data(n);
        if (!import_content(n, i, &ends[i], &count)) return false;
    }
    int64_t step;
    if (!dim_is_int(ends[2][0], &step)) return range_of_data(n);
    if (step == 0) return import_fail(n, "the step is 0");
    const Dim *span = step > 0 ? dim_sub(n->dims, ends[1][0], ends[0][0]) : dim_sub(n->dims, ends[0][0], ends[1][0]);
    const Dim *len = dim_max(n->dims, dim_of(n, 0), dim_ceildiv(n->dims, span, dim_of(n, step > 0 ? step : -step)));
    const Dim *at = dim_add(n->dims, ends[0][0], dim_muli(n->dims, axis_sym(n, 0, len), step));
    n->out[0] = g_map_shape(&n->b, 0, NULL, x_cast(n->arena, t, x_dim(n->arena, at)), 1, &len);
    return true;
}

bool import_eye_like(ImportNode *n) {
    const Value *x = n->in[0];
    if (x->rank != 2) return import_fail(n, "input has rank %d, 2 is needed", x->rank);
    DType t = attr_has(n, "dtype") ? dtype_from_onnx((int)attr_int(n, "dtype")) : x->type;
    const Dim *row = axis_sym(n, 0, x->shape[0]), *col = axis_sym(n, 1, x->shape[1]);
    const Expr *hit = x_op2(n->arena, X_eq, x_dim(n->arena, dim_addi(n->dims, row, attr_int(n, "k"))), x_dim(n->arena, col));
    n->out[0] =
        g_map_shape(&n->b, 0, NULL, x_op3(n->arena, X_select, hit, x_int(n->arena, t, 1), x_int(n->arena, t, 0)), 2, (DimArray)x->shape);
    return true;
}

// upper: keep column - row >= k.
bool import_trilu(ImportNode *n) {
    Value *x = n->in[0];
    int64_t zero = 0;
    if (x->rank < 2) return import_fail(n, "input has rank %d, at least 2 is needed", x->rank);
    Value *k = n->nin > 1 && n->in[1] ? n->in[1] : g_const_ints(&n->b, DT_i64, -1, &zero);
    if (k->type != DT_i64 || dim_eq(n->dims, value_size(n->b.g, k), dim_of(n, 1)) == NO)
        return import_fail(n, "k is %s, one i64 is needed", import_shape_text(n, k));
    Value *in[] = {x, g_reshape(&n->b, k, 0, NULL)};
    const Dim *offset = dim_sub(n->dims, axis_sym(n, x->rank - 1, x->shape[x->rank - 1]), axis_sym(n, x->rank - 2, x->shape[x->rank - 2]));
    XOp keep = attr_int(n, "upper") ? X_ge : X_le;
    const Expr *kept = x_op2(n->arena, keep, x_cast(n->arena, DT_i64, x_dim(n->arena, offset)), x_arg(n->arena, 1, DT_i64));
    const Expr *body = x_op3(n->arena, X_select, kept, x_arg(n->arena, 0, x->type), x_int(n->arena, x->type, 0));
    n->out[0] = g_map_shape(&n->b, 2, in, body, x->rank, (DimArray)x->shape);
    return true;
}

// ---- blocks and channels ----
// [n, c, h, w] seen as six axes, permuted, and joined again.
static Value *regroup(ImportNode *n, Value *x, int rank, const Dim *const *split, const int64_t *perm, const Dim *const *joined) {
    Value *y = g_reshape(&n->b, x, rank, split);
    return g_reshape(&n->b, g_transpose(&n->b, y, perm), 4, joined);
}

bool import_depth_to_space(ImportNode *n) {
    Value *x = n->in[0];
    DimTable *t = n->dims;
    int64_t block = attr_int(n, "blocksize");
    if (x->rank != 4 || block < 1) return import_fail(n, "rank 4 and a positive blocksize are needed");
    const Dim *b = dim_of(n, block), *c = dim_floordiv(t, x->shape[1], dim_of(n, block * block));
    bool crd = n->version >= 11 && !strcmp(attr_string(n, "mode"), "CRD");
    const Dim *dcr_split[] = {x->shape[0], b, b, c, x->shape[2], x->shape[3]},
              *crd_split[] = {x->shape[0], c, b, b, x->shape[2], x->shape[3]};
    static const int64_t dcr_perm[] = {0, 3, 4, 1, 5, 2}, crd_perm[] = {0, 1, 4, 2, 5, 3};
    const Dim *joined[] = {x->shape[0], c, dim_mul(t, x->shape[2], b), dim_mul(t, x->shape[3], b)};
    n->out[0] = regroup(n, x, 6, crd ? crd_split : dcr_split, crd ? crd_perm : dcr_perm, joined);
    return true;
}

bool import_space_to_depth(ImportNode *n) {
    Value *x = n->in[0];
    DimTable *t = n->dims;
    int64_t block = attr_int(n, "blocksize");
    if (x->rank != 4 || block < 1) return import_fail(n, "rank 4 and a positive blocksize are needed");
    const Dim *b = dim_of(n, block), *h = dim_floordiv(t, x->shape[2], b), *w = dim_floordiv(t, x->shape[3], b);
    const Dim *split[] = {x->shape[0], x->shape[1], h, b, w, b};
    bool crd = attr_exists(n, "mode") && !strcmp(attr_string(n, "mode"), "CRD");
    static const int64_t dcr_perm[] = {0, 3, 5, 1, 2, 4}, crd_perm[] = {0, 1, 3, 5, 2, 4};
    const Dim *joined[] = {x->shape[0], dim_muli(t, x->shape[1], block * block), h, w};
    n->out[0] = regroup(n, x, 6, split, crd ? crd_perm : dcr_perm, joined);
    return true;
}
