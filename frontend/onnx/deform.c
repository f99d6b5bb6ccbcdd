// DeformConv: a convolution whose kernel elements read at places that an input moves, between elements by linear interpolation.
//
// For output o and kernel element k the place along axis a is o*stride - pad + k*dilation + offset[k, a, o]. The 2^n elements around it are
// gathers with index tensors [N, groups, 1, k, o], zero outside; their sum, weighted by the distances and the mask, is contracted with the
// weights as in Conv.
#include "window.h"

#include <string.h>

enum { RANK_MAX = GRAPH_MAX_RANK, AXES_MAX = 3 };
typedef const Dim *const *DimArray;

typedef struct {
    ImportNode *n;
    Window w;
    const Dim *groups;          // of offsets
    Value *x;                   // [N, groups, C/groups, spatial]
    Value *at[AXES_MAX];        // places, [N, groups, k, o]
    const Dim *shape[RANK_MAX]; // [N, groups, C/groups, k, o]
    int rank;
} Deform;

static bool deform_window(Deform *d) {
    ImportNode *n = d->n;
    Window *w = &d->w;
    const Value *x = n->in[0], *offset = n->in[2];
    if (!import_window(n, w, x, n->in[1])) return false;
    if (w->n > AXES_MAX) return import_unsupported(n, "%d spatial axes", w->n);
    IntList pads = attr_ints(n, "pads");
    if (pads.n && pads.n != 2 * w->n) return import_fail(n, "pads has %d entries, %d are needed", pads.n, 2 * w->n);
    if (!import_rank(n, 2, x->rank)) return false;
    for (int i = 0; i < w->n; i++) {
        int64_t before = pads.n ? pads.data[i] : 0, after = pads.n ? pads.data[i + w->n] : 0;
        const Dim *span = dim_sub(n->dims, dim_addi(n->dims, x->shape[2 + i], before + after), import_reach(n, w, i));
        w->pad_before[i] = dim_of(n, before);
        w->out[i] = dim_addi(n->dims, dim_floordiv(n->dims, span, dim_of(n, w->stride[i])), 1);
        if (dim_ge0(n->dims, dim_addi(n->dims, w->out[i], -1)) == NO)
            return import_fail(n, "the window does not fit %s at spatial axis %d", import_shape_text(n, x), i);
        if (dim_eq(n->dims, w->out[i], offset->shape[2 + i]) == NO)
            return import_fail(n, "offsets are %s, the output's extent along spatial axis %d is %s", import_shape_text(n, offset), i,
                dim_text(n->dims, w->out[i]));
    }
    return true;
}

// Input `input`, [N, groups * kernel * each, out], as [N, groups, kernel, each, out], without `each` where it is 0. NULL after a fault.
static Value *by_element(const Deform *d, int input, int64_t each) {
    ImportNode *n = d->n;
    const Window *w = &d->w;
    const Dim *split[RANK_MAX] = {d->x->shape[0], d->groups}, *whole[RANK_MAX] = {d->x->shape[0]};
    const Dim *channels = d->groups;
    int rank = 2;
    for (int i = 0; i < w->n; i++) channels = dim_mul(n->dims, channels, split[rank++] = w->kernel[i]);
    if (each) channels = dim_mul(n->dims, channels, split[rank++] = dim_of(n, each));
    whole[1] = channels;
    for (int i = 0; i < w->n; i++) split[rank++] = whole[2 + i] = w->out[i];
    if (!import_shape_is(n, input, 2 + w->n, whole)) return NULL;
    return g_reshape(&n->b, n->in[input], rank, split);
}

static bool places(Deform *d) {
    ImportNode *n = d->n;
    const Window *w = &d->w;
    Value *offsets = by_element(d, 2, w->n);
    if (!offsets) return false;
    offsets = g_cast(&n->b, d->x->type, offsets);
    for (int i = 0; i < w->n; i++) {
        Value *own = g_squeeze(&n->b, g_slice(&n->b, offsets, 2 + w->n, dim_of(n, i), dim_of(n, 1), 1), 2 + w->n);
        const FormulaDim dims[] = {{"PAD", w->pad_before[i]}, {0}};
        const char *text = arena_printf(n->arena, "a0 + cast.$T(dim(%lld * d%d + %lld * d%d - PAD))", (long long)w->stride[i], 2 + w->n + i,
            (long long)w->dilation[i], 2 + i);
        if (!(d->at[i] = formula_tensor(n, text, 1, &own, own->rank, (DimArray)own->shape, dims))) return false;
    }
    return true;
}

// The elements at floor(place) + bit along each axis; 0 outside.
static Value *neighbour(const Deform *d, int bits) {
    ImportNode *n = d->n;
    DimTable *t = n->dims;
    int spatial = d->w.n;
    const Dim *v[AXES_MAX], *index[RANK_MAX], *guard[2 * AXES_MAX];
    Value *at[AXES_MAX];
    for (int i = 0; i < 3; i++) index[i] = dim_axis(t, i, d->shape[i]);
    for (int i = 0; i < spatial; i++) {
        const Dim *extent = d->x->shape[3 + i];
        const FormulaDim dims[] = {{"L", extent}, {0}};
        const char *text = arena_printf(n->arena, "cast.i64(max(min(floor(a0) + %d.0, cast.$T(dim(L))), -1.0))", bits >> i & 1);
        at[i] = formula_tensor(n, text, 1, &d->at[i], d->at[i]->rank, (DimArray)d->at[i]->shape, dims);
        if (!at[i]) return NULL;
        at[i] = g_unsqueeze(&n->b, at[i], 2);
        v[i] = index[3 + i] = dim_symbol(t, arena_printf(n->arena, "v%d", i), SYM_DATA, NULL, NULL);
        guard[2 * i] = v[i];
        guard[2 * i + 1] = dim_sub(t, dim_addi(t, extent, -1), v[i]);
    }
    return g_gather(&n->b, d->x, spatial, at, v, d->rank, d->shape, index, 2 * spatial, guard, scalar_int(d->x->type, 0));
}

static Value *weight_of(const Deform *d, int bits) {
    ImportNode *n = d->n;
    Str s = {0};
    for (int i = 0; i < d->w.n; i++)
        str_printf(&s, bits >> i & 1 ? "%s(a%d - floor(a%d))" : "%s(1.0 - (a%d - floor(a%d)))", i ? " * " : "", i, i);
    Value *w = formula_map(n, s.data, d->w.n, d->at);
    str_free(&s);
    return w ? g_unsqueeze(&n->b, w, 2) : NULL;
}

// [N, groups, C/groups, k, o]: what the kernel elements read.
static Value *columns(const Deform *d) {
    ImportNode *n = d->n;
    Value *sum = NULL;
    for (int bits = 0; bits < 1 << d->w.n; bits++) {
        Value *value = neighbour(d, bits), *weight = value ? weight_of(d, bits) : NULL, *in[] = {value, weight, sum};
        if (!weight || !(sum = formula_map(n, sum ? "a2 + a0 * a1" : "a0 * a1", sum ? 3 : 2, in))) return NULL;
    }
    if (n->nin < 5 || !n->in[4]) return sum;
    Value *mask = by_element(d, 4, 0);
    return mask ? g_map2(&n->b, X_mul, sum, g_unsqueeze(&n->b, g_cast(&n->b, d->x->type, mask), 2)) : NULL;
}

// "ngc(k)(o),gmc(k)->ngm(o)".
static Value *contracted(const Deform *d, Value *columns, Value *weights, int64_t group) {
    ImportNode *n = d->n;
    const Window *w = &d->w;
    const Dim *g = dim_of(n, group), *filters = dim_floordiv(n->dims, weights->shape[0], g);
    const Dim *cs[RANK_MAX] = {d->x->shape[0], g, weights->shape[1]}, *ws[RANK_MAX] = {g, filters, weights->shape[1]};
    const Dim *os[RANK_MAX] = {d->x->shape[0], weights->shape[0]};
    char kernel[AXES_MAX + 1] = "", out[AXES_MAX + 1] = "";
    for (int i = 0; i < w->n; i++) {
        cs[3 + i] = ws[3 + i] = w->kernel[i];
        cs[3 + w->n + i] = os[2 + i] = w->out[i];
        kernel[i] = (char)('A' + i);
        out[i] = (char)('p' + i);
    }
    columns = g_reshape(&n->b, columns, 3 + 2 * w->n, cs);
    weights = g_reshape(&n->b, weights, 3 + w->n, ws);
    const char *subs = arena_printf(n->arena, "ngc%s%s,gmc%s->ngm%s", kernel, out, kernel, out);
    return g_reshape(&n->b, g_contract(&n->b, subs, columns, weights, columns->type), 2 + w->n, os);
}

static bool deform_groups(Deform *d, int64_t group) {
    ImportNode *n = d->n;
    const Value *weights = n->in[1];
    Value *x = n->in[0];
    int64_t offset_group = attr_int(n, "offset_group"), c, cw, m;
    if (group < 1 || offset_group < 1) return import_fail(n, "group is %lld, offset_group %lld", (long long)group, (long long)offset_group);
    if (!dim_is_int(x->shape[1], &c) || !dim_is_int(weights->shape[1], &cw) || !dim_is_int(weights->shape[0], &m))
        return import_unsupported(n, "channels that are not constant");
    if (c != cw * group || m % group || c % offset_group)
        return import_fail(n, "input %s and weights %s do not fit %lld groups and %lld of offsets", import_shape_text(n, x),
            import_shape_text(n, weights), (long long)group, (long long)offset_group);
    d->groups = dim_of(n, offset_group);
    const Dim *split[RANK_MAX] = {x->shape[0], d->groups, dim_of(n, c / offset_group)};
    memcpy(d->shape, split, 3 * sizeof *split);
    for (int i = 0; i < d->w.n; i++) {
        split[3 + i] = x->shape[2 + i];
        d->shape[3 + i] = d->w.kernel[i];
        d->shape[3 + d->w.n + i] = d->w.out[i];
    }
    d->rank = 3 + 2 * d->w.n;
    d->x = g_reshape(&n->b, import_widened(n, x), 3 + d->w.n, split);
    return true;
}

bool import_deform_conv(ImportNode *n) {
    Deform d = {.n = n};
    int64_t group = attr_int(n, "group");
    DType t = n->in[0]->type;
    if (!import_same_types(n, 0, 4)) return false;
    if (!dtype_is_float(t)) return import_fail(n, "input has type %s, a float type is needed", dtype_name(t));
    if (!deform_window(&d) || !deform_groups(&d, group) || !places(&d)) return false;
    Value *cols = columns(&d), *y = cols ? contracted(&d, cols, import_widened(n, n->in[1]), group) : NULL;
    if (!y) return false;
    if (n->nin > 3 && n->in[3]) y = import_channel_bias(n, y, import_widened(n, n->in[3]));
    n->out[0] = g_cast(&n->b, t, y);
    return true;
}
