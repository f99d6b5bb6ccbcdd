// Reshape, Slice, Squeeze and Unsqueeze whose numbers are known only when the model runs: what ONNX says about -1, 0 and negative positions is
// computed on integers, and the results become sizes of the run.
#include "shape_data.h"

#include "reduce_data.h"

#include <string.h>

typedef const Dim *const *DimArray;

Value *reshape_by_data(ImportNode *n, Value *x, Value *want, bool zero_copies) {
    int64_t rank, first = 0;
    if (want->rank != 1 || !dtype_is_int(want->type)) return import_fail(n, "the shape is %s", import_shape_text(n, want)), NULL;
    if (!dim_is_int(want->shape[0], &rank) || rank > GRAPH_MAX_RANK) return import_unsupported(n, "a result of unknown rank"), NULL;
    const Dim *extents[GRAPH_MAX_RANK], *shape[GRAPH_MAX_RANK];
    for (int i = 0; i < rank; i++) extents[i] = i < x->rank ? x->shape[i] : dim_int(n->dims, 0);
    Value *in[] = {g_cast(&n->b, DT_i64, want), g_dims(&n->b, (int)rank, extents)};
    Value *given = formula_map(n, zero_copies ? "select(a0 == 0i64, a1, a0)" : "a0 + 0i64 * a1", 2, in);
    Value *known = given ? formula_map(n, "select(a0 == (-1i64), 1i64, a0)", 1, &given) : NULL;
    if (!known) return NULL;
    const FormulaDim dims[] = {{"TOTAL", value_size(n->b.g, x)}, {0}};
    Value *parts[] = {given, g_reduce(&n->b, "prod", known, 1, &first, false)};
    const char *text = "select(a0 == (-1i64), floordiv(cast.i64(dim(TOTAL)), max(a1, 1i64)), a0)";
    Value *sizes = formula_tensor(n, text, 2, parts, 1, (DimArray)given->shape, dims);
    for (int i = 0; sizes && i < rank; i++) shape[i] = g_size(&n->b, sizes, i, "reshaped", dim_int(n->dims, 0), NULL);
    return sizes ? g_reshape(&n->b, x, (int)rank, shape) : NULL;
}

// A position, a0, counted from the end of D when it is negative, between a low and a high end that depend on the step's sign, a1.
static Value *bound(ImportNode *n, Value *at, Value *step, const FormulaDim *dims, bool start) {
    const char *from_end = "select(a0 < 0i64, a0 + cast.i64(dim(D)), a0)";
    const char *text = start ? "select(a1 > 0i64, max(min(%s, cast.i64(dim(D))), 0i64), max(min(%s, cast.i64(dim(D - 1))), 0i64))"
                             : "select(a1 > 0i64, max(min(%s, cast.i64(dim(D))), 0i64), max(min(%s, cast.i64(dim(D - 1))), (-1i64)))";
    Value *in[] = {at, step};
    return formula_tensor(n, arena_printf(n->arena, text, from_end, from_end), 2, in, 0, NULL, dims);
}

// x[start : end : step] along an axis; i64 scalars. NULL after a fault.
static Value *slice_axis(ImportNode *n, Value *x, int axis, Value *start, Value *end, Value *step) {
    DimTable *t = n->dims;
    const FormulaDim dims[] = {{"D", x->shape[axis]}, {0}};
    Value *from = bound(n, start, step, dims, true), *to = from ? bound(n, end, step, dims, false) : NULL;
    Value *in[] = {from, to, step};
    Value *count = to ? formula_tensor(n, "max(0i64 - floordiv(a0 - a1, a2), 0i64)", 3, in, 0, NULL, dims) : NULL;
    if (!count) return NULL;
    const Dim *len = g_size(&n->b, count, 0, "sliced", dim_int(t, 0), x->shape[axis]);
    int64_t stride;
    if (value_content_int(step, 0, &stride) && stride == 1)
        return g_slice(&n->b, x, axis, g_size(&n->b, from, 0, "start", dim_int(t, 0), x->shape[axis]), len, 1);
    Value *origin[] = {from, step}, *at = formula_tensor(n, "a0 + cast.i64(dim(d0)) * a1", 2, origin, 1, &len, NULL);
    if (!at) return NULL;
    const Dim *shape[GRAPH_MAX_RANK], *index[GRAPH_MAX_RANK], *v = dim_symbol(t, "v0", SYM_DATA, NULL, NULL);
    for (int i = 0; i < x->rank; i++) {
        shape[i] = i == axis ? len : x->shape[i];
        index[i] = i == axis ? v : dim_axis(t, i, shape[i]);
    }
    for (int i = axis + 1; i < x->rank; i++) at = g_unsqueeze(&n->b, at, at->rank);
    Scalar zero = x->type == DT_str ? (Scalar){.type = DT_str} : scalar_int(x->type, 0);
    return g_gather(&n->b, x, 1, &at, &v, x->rank, shape, index, 0, NULL, zero);
}

// ---- Slice ----
// A list of the node as i64[count]; a missing one is all ones. NULL after a fault.
static Value *number_list(ImportNode *n, int input, int64_t count) {
    Value *v = input < n->nin ? n->in[input] : NULL;
    const Dim *shape = dim_int(n->dims, count);
    const int64_t ones[GRAPH_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    if (!v) return g_const_ints(&n->b, DT_i64, (int)count, ones);
    if (v->rank != 1 || !dtype_is_int(v->type) || dim_eq(n->dims, v->shape[0], shape) != YES)
        return import_fail(n, "input %d is %s, %ld integers are needed", input, import_shape_text(n, v), (long)count), NULL;
    return g_cast(&n->b, DT_i64, v);
}

// The number that a list has for an axis, where the axes themselves are data; `missing` when they do not name it.
Value *number_for(ImportNode *n, Value *list, Value *axes, int axis, int rank, const Dim *missing) {
    int64_t first = 0;
    const char *hit = arena_printf(n->arena, "((a1 == %di64) | (a1 == (%di64)))", axis, axis - rank);
    const FormulaDim dims[] = {{"MISSING", missing}, {0}};
    Value *in[] = {list, axes}, *named = formula_map(n, arena_printf(n->arena, "select(%s, a0, 0i64)", hit), 2, in);
    Value *there = named ? formula_map(n, arena_printf(n->arena, "(a0 == a0) & %s", hit), 2, in) : NULL;
    if (!there) return NULL;
    Value *both[] = {g_reduce(&n->b, "any", there, 1, &first, false), g_reduce(&n->b, "sum", named, 1, &first, false)};
    return formula_tensor(n, "select(a0, a1, cast.i64(dim(MISSING)))", 2, both, 0, NULL, dims);
}

static Value *list_number(ImportNode *n, Value *list, int i) {
    return g_squeeze(&n->b, g_slice(&n->b, list, 0, dim_int(n->dims, i), dim_int(n->dims, 1), 1), 0);
}

static Value *slice_axes_of_data(ImportNode *n, Value *x, Value *const *lists, Value *axes) {
    const Dim *zero = dim_int(n->dims, 0), *one = dim_int(n->dims, 1);
    for (int i = 0, rank = x->rank; i < rank && x; i++) {
        const Dim *missing[] = {zero, x->shape[i], one};
        Value *v[3];
        for (int k = 0; k < 3; k++)
            if (!(v[k] = number_for(n, lists[k], axes, i, rank, missing[k]))) return NULL;
        x = slice_axis(n, x, i, v[0], v[1], v[2]);
    }
    return x;
}

bool slice_of_data(ImportNode *n) {
    Value *x = n->in[0], *lists[3], *axes = n->nin > 3 ? n->in[3] : NULL;
    int64_t count, given[GRAPH_MAX_RANK], chosen[GRAPH_MAX_RANK];
    int listed;
    if (n->in[1]->rank != 1 || !dim_is_int(n->in[1]->shape[0], &count) || count > x->rank)
        return import_unsupported(n, "%s for %s", import_shape_text(n, n->in[1]), import_shape_text(n, x));
    static const int inputs[] = {1, 2, 4};
    for (int k = 0; k < 3; k++)
        if (!(lists[k] = number_list(n, inputs[k], count))) return false;
    if (axes && !axes->content) {
        n->out[0] = (axes = number_list(n, 3, count)) ? slice_axes_of_data(n, x, lists, axes) : NULL;
        return n->out[0] != NULL;
    }
    for (int i = 0; i < GRAPH_MAX_RANK; i++) given[i] = i;
    if (axes && !import_const_ints(n, 3, given, GRAPH_MAX_RANK, &listed)) return false;
    if (axes && listed != count) return import_fail(n, "starts, ends, axes and steps differ in length");
    if (!import_axes(n, (IntList){given, (int)count}, x->rank, chosen)) return false;
    for (int i = 0; i < count && x; i++)
        x = slice_axis(n, x, (int)chosen[i], list_number(n, lists[0], i), list_number(n, lists[1], i), list_number(n, lists[2], i));
    n->out[0] = x;
    return x != NULL;
}

bool numbers_are_data(const ImportNode *n, int input) {
    const Value *v = input < n->nin ? n->in[input] : NULL;
    return v && !v->content && !(v->rank == 1 && dim_is(v->shape[0], 0));
}

// ---- Squeeze, Unsqueeze: the length of the list of axes is constant, so the result's rank is ----
bool squeeze_of_data(ImportNode *n) {
    Value *x = n->in[0];
    DataAxes a;
    if (!data_flags(n, &a, x, n->in[1], x->rank)) return false;
    for (int i = 0; i < a.rank; i++) {
        const FormulaDim dims[] = {{"D", a.shape[i]}, {0}};
        Value *fits = formula_tensor(n, "not(a0) | (dim(D) == 1)", 1, &a.reduced[i], 0, NULL, dims);
        if (!fits) return false;
        if (!dim_is(a.shape[i], 1)) g_check(&n->b, fits, 0, NULL, CODE_SHAPE);
    }
    n->out[0] = data_squeeze(n, &a, x);
    return n->out[0] != NULL;
}

// The extent of axis i of the result: 1 where it is named, else that of the input's axis with as many unnamed axes before it.
static const Dim *unsqueezed_extent(ImportNode *n, const DataAxes *a, const Value *x, int i) {
    Str s = {0};
    FormulaDim dims[GRAPH_MAX_RANK + 1] = {{0}};
    const Dim *least = dim_int(n->dims, 1), *most = least;
    str_printf(&s, "select(a%d, 1i64, 0i64", i);
    for (int k = i - a->count < 0 ? 0 : i - a->count, d = 0; k <= i && k < x->rank; k++, d++) {
        dims[d] = (FormulaDim){arena_printf(n->arena, "D%d", k), x->shape[k]};
        str_add(&s, " + select((0i64");
        for (int j = 0; j < i; j++) str_printf(&s, " + cast.i64(a%d)", j);
        str_printf(&s, ") == %di64, cast.i64(dim(D%d)), 0i64)", i - k, k);
        least = dim_min(n->dims, least, x->shape[k]);
        most = dim_max(n->dims, most, x->shape[k]);
    }
    str_add(&s, ")");
    Value *size = formula_tensor(n, s.data, i + 1, a->reduced, 0, NULL, dims);
    str_free(&s);
    return size ? g_size(&n->b, size, 0, "unsqueezed", least, most) : NULL;
}

bool unsqueeze_of_data(ImportNode *n) {
    Value *x = n->in[0];
    DataAxes a;
    int64_t count;
    const Dim *shape[GRAPH_MAX_RANK];
    if (n->in[1]->rank != 1 || !dim_is_int(n->in[1]->shape[0], &count) || x->rank + count > GRAPH_MAX_RANK)
        return import_unsupported(n, "a result of unknown rank");
    if (!data_flags(n, &a, x, n->in[1], x->rank + (int)count)) return false;
    for (int i = 0; i < a.rank; i++)
        if (!(shape[i] = unsqueezed_extent(n, &a, x, i))) return false;
    n->out[0] = g_reshape(&n->b, x, a.rank, shape);
    return true;
}
