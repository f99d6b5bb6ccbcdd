// Pad: a view whose index map says what lies outside: a fill value behind guards, the nearest element, the axis mirrored or repeated.
//
// Pads may be constants, sizes or data; then both the pad in front and the padded extent are sizes of the run. A fill value that is data
// is put in afterwards, by a map that knows where the input lies.
#include "reduce_data.h"
#include "shape_data.h"

#include <string.h>

enum { RANK_MAX = GRAPH_MAX_RANK };
typedef const Dim *const *DimArray;

typedef struct {
    const Dim *before[RANK_MAX], *after[RANK_MAX];
    bool data; // the pads are data
} Padding;

static const Dim *dim_of(ImportNode *n, int64_t v) {
    return dim_int(n->dims, v);
}

// ---- modes that copy ----
static const Dim *edge_index(ImportNode *n, const Dim *at, const Dim *extent, bool once) {
    (void)once;
    return dim_max(n->dims, dim_of(n, 0), dim_min(n->dims, at, dim_addi(n->dims, extent, -1)));
}

static const Dim *wrap_index(ImportNode *n, const Dim *at, const Dim *extent, bool once) {
    (void)once;
    return dim_mod(n->dims, at, extent);
}

// Mirrored at the first and last element: |at|, then 2*last - that where it is beyond the last one; more than once, modulo 2*last.
static const Dim *reflect_index(ImportNode *n, const Dim *at, const Dim *extent, bool once) {
    DimTable *t = n->dims;
    const Dim *last = dim_addi(t, extent, -1), *period = dim_muli(t, last, 2);
    const Dim *folded = once ? dim_max(t, at, dim_sub(t, dim_of(n, 0), at)) : dim_mod(t, at, dim_max(t, period, dim_of(n, 1)));
    return dim_min(t, folded, dim_sub(t, period, folded));
}

typedef struct {
    const char *name;
    const Dim *(*index)(ImportNode *n, const Dim *at, const Dim *extent, bool once); // NULL: constant
} PadMode;
static const PadMode modes[] = {{"constant", NULL}, {"edge", edge_index}, {"reflect", reflect_index}, {"wrap", wrap_index}};

static const PadMode *pad_mode(ImportNode *n) {
    const char *mode = attr_string(n, "mode");
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(modes[i].name, mode)) return &modes[i];
    import_fail(n, "unknown mode '%.60s'", mode);
    return NULL;
}

// Whether pads are shorter than the axis, so that one reflection does; a check in the run where sizes leave that open.
static bool reflects_once(ImportNode *n, const Padding *p, int axis, const Dim *extent) {
    const Dim *guards[] = {
        dim_addi(n->dims, dim_sub(n->dims, extent, p->before[axis]), -1), dim_addi(n->dims, dim_sub(n->dims, extent, p->after[axis]), -1)};
    Tri fits[] = {dim_ge0(n->dims, guards[0]), dim_ge0(n->dims, guards[1])};
    if (p->data || fits[0] == NO || fits[1] == NO) return false;
    if (fits[0] == UNKNOWN || fits[1] == UNKNOWN) g_check(&n->b, NULL, 2, guards, CODE_SHAPE);
    return true;
}

static bool copied_view(ImportNode *n, const PadMode *mode, const Padding *p) {
    Value *x = n->in[0];
    const Dim *shape[RANK_MAX], *index[RANK_MAX];
    for (int i = 0; i < x->rank; i++) {
        shape[i] = dim_add(n->dims, x->shape[i], dim_add(n->dims, p->before[i], p->after[i]));
        const Dim *at = dim_sub(n->dims, dim_axis(n->dims, i, shape[i]), p->before[i]), *some = dim_addi(n->dims, x->shape[i], -1);
        bool none = dim_is(p->before[i], 0) && dim_is(p->after[i], 0);
        if (!none && dim_ge0(n->dims, some) == NO) return import_fail(n, "axis %d of %s is empty", i, import_shape_text(n, x));
        if (!none && dim_ge0(n->dims, some) == UNKNOWN) g_check(&n->b, NULL, 1, &some, CODE_SHAPE);
        bool once = !none && mode->index == reflect_index && reflects_once(n, p, i, x->shape[i]);
        index[i] = none ? at : mode->index(n, at, x->shape[i], once);
    }
    Scalar zero = x->type == DT_str ? (Scalar){.type = DT_str} : scalar_int(x->type, 0);
    n->out[0] = g_view(&n->b, x, x->rank, shape, index, 0, NULL, zero);
    return true;
}

// ---- pads ----
static bool known_pads(ImportNode *n, Padding *p) {
    const Dim *const *pads;
    int count, rank = n->in[0]->rank, naxes = rank;
    int64_t given[RANK_MAX], axes[RANK_MAX];
    if (!import_content(n, 1, &pads, &count)) return false;
    for (int i = 0; i < rank; i++) given[i] = i, p->before[i] = p->after[i] = dim_of(n, 0);
    if (n->nin > 3 && n->in[3] && !import_const_ints(n, 3, given, RANK_MAX, &naxes)) return false;
    if (count != 2 * naxes) return import_fail(n, "pads has %d entries, %d are needed", count, 2 * naxes);
    if (!import_axes(n, (IntList){given, naxes}, rank, axes)) return false;
    for (int i = 0; i < naxes; i++) p->before[axes[i]] = pads[i], p->after[axes[i]] = pads[i + naxes];
    return true;
}

// The list's number for an axis, a scalar; 0 when the axes do not name it. NULL after a fault.
static Value *pad_number(ImportNode *n, Value *list, Value *axes, const int64_t *chosen, int count, int axis) {
    if (axes) return number_for(n, list, axes, axis, n->in[0]->rank, dim_of(n, 0));
    for (int i = 0; i < count; i++)
        if (chosen[i] == axis) return g_squeeze(&n->b, g_slice(&n->b, list, 0, dim_of(n, i), dim_of(n, 1), 1), 0);
    return g_const_ints(&n->b, DT_i64, -1, &(int64_t){0});
}

static bool pads_of_data(ImportNode *n, Padding *p) {
    const Value *x = n->in[0];
    Value *pads = n->in[1], *axes = numbers_are_data(n, 3) ? n->in[3] : NULL;
    int64_t length, given[RANK_MAX], chosen[RANK_MAX] = {0};
    int count = x->rank;
    for (int i = 0; i < RANK_MAX; i++) given[i] = i;
    if (axes && (axes->rank != 1 || !dtype_is_int(axes->type) || !dim_is_int(axes->shape[0], &length) || length > x->rank))
        return import_fail(n, "axes are %s, at most %d integers are needed", import_shape_text(n, axes), x->rank);
    if (axes) count = (int)length;
    if (!axes && n->nin > 3 && n->in[3] && !import_const_ints(n, 3, given, RANK_MAX, &count)) return false;
    if (!axes && !import_axes(n, (IntList){given, count}, x->rank, chosen)) return false;
    if (pads->rank != 1 || !dtype_is_int(pads->type) || dim_eq(n->dims, pads->shape[0], dim_of(n, 2 * count)) != YES)
        return import_fail(n, "pads are %s, %d integers are needed", import_shape_text(n, pads), 2 * count);
    if (axes && !data_range(n, axes = g_cast(&n->b, DT_i64, axes), x->rank)) return false;
    pads = g_cast(&n->b, DT_i64, pads);
    Value *lists[] = {
        g_slice(&n->b, pads, 0, dim_of(n, 0), dim_of(n, count), 1), g_slice(&n->b, pads, 0, dim_of(n, count), dim_of(n, count), 1)};
    p->data = true;
    for (int i = 0; i < x->rank; i++) {
        const FormulaDim dims[] = {{"D", x->shape[i]}, {0}};
        Value *front = pad_number(n, lists[0], axes, chosen, count, i),
              *back = front ? pad_number(n, lists[1], axes, chosen, count, i) : NULL;
        Value *ends[] = {front, back}, *sum = back ? formula_tensor(n, "a0 + a1 + cast.i64(dim(D))", 2, ends, 0, NULL, dims) : NULL;
        if (!sum) return false;
        p->before[i] = g_size(&n->b, front, 0, "pad", NULL, NULL);
        const Dim *whole = g_size(&n->b, sum, 0, "padded", dim_of(n, 0), NULL);
        p->after[i] = dim_sub(n->dims, dim_sub(n->dims, whole, x->shape[i]), p->before[i]);
    }
    return true;
}

// ---- fill ----
// `fill`, a scalar of the run, outside of the input.
static Value *filled(ImportNode *n, Value *y, const Padding *p, Value *fill) {
    const Value *x = n->in[0];
    FormulaDim dims[2 * RANK_MAX + 1] = {{0}};
    Str s = {0};
    str_add(&s, "select(true");
    for (int i = 0; i < x->rank; i++) {
        dims[2 * i] = (FormulaDim){arena_printf(n->arena, "P%d", i), p->before[i]};
        dims[2 * i + 1] = (FormulaDim){arena_printf(n->arena, "E%d", i), dim_add(n->dims, x->shape[i], p->before[i])};
        str_printf(&s, " & (dim(d%d) >= dim(P%d)) & (dim(d%d) < dim(E%d))", i, i, i, i);
    }
    str_add(&s, ", a0, a1)");
    Value *in[] = {y, g_reshape(&n->b, fill, 0, NULL)};
    Value *out = formula_tensor(n, s.data, 2, in, y->rank, (DimArray)y->shape, dims);
    str_free(&s);
    return out;
}

static bool constant_view(ImportNode *n, const Padding *p) {
    Value *x = n->in[0], *given = n->nin > 2 ? n->in[2] : NULL;
    double fill = 0;
    if (given && (given->type != x->type || dim_eq(n->dims, value_size(n->b.g, given), dim_of(n, 1)) == NO))
        return import_fail(n, "the fill value is %s, one %s is needed", import_shape_text(n, given), dtype_name(x->type));
    bool known = !given || import_const_float(n, 2, &fill);
    Scalar zero = x->type == DT_str ? (Scalar){.type = DT_str} : scalar_int(x->type, 0);
    Scalar s = dtype_is_float(x->type) ? scalar_float(x->type, fill) : x->type == DT_str ? zero : scalar_int(x->type, (int64_t)fill);
    Value *y = g_pad(&n->b, x, p->before, p->after, known ? s : zero);
    if (!known && x->rank > 10) return import_unsupported(n, "rank %d with a fill value of data", x->rank);
    n->out[0] = known ? y : filled(n, y, p, given);
    return n->out[0] != NULL;
}

// ---- the operator ----
bool import_pad(ImportNode *n) {
    Padding p = {.data = false};
    const PadMode *mode = pad_mode(n);
    bool data = numbers_are_data(n, 1) || numbers_are_data(n, 3);
    if (!mode || !(data ? pads_of_data(n, &p) : known_pads(n, &p))) return false;
    return mode->index ? copied_view(n, mode, &p) : constant_view(n, &p);
}

// Up to opset 10 pads and fill value are attributes.
bool import_pad_attr(ImportNode *n) {
    Padding p = {.data = false};
    Value *x = n->in[0];
    const PadMode *mode = pad_mode(n);
    IntList pads = attr_ints(n, n->version < 2 ? "paddings" : "pads");
    if (!mode) return false;
    if (pads.n != 2 * x->rank) return import_fail(n, "pads has %d entries, %d are needed", pads.n, 2 * x->rank);
    for (int i = 0; i < x->rank; i++) p.before[i] = dim_of(n, pads.data[i]), p.after[i] = dim_of(n, pads.data[i + x->rank]);
    if (mode->index) return copied_view(n, mode, &p);
    n->out[0] = g_pad(&n->b, x, p.before, p.after, scalar_float(x->type, attr_float(n, "value")));
    return true;
}
