// Transposed convolution, as ordinary ones: by the rest of the output's place by the stride, or of the input spread by its stride.
#include "window.h"

#include <string.h>

enum { RANK_MAX = GRAPH_MAX_RANK };

// Extent and padding: out = stride * (in - 1) + output_padding + reach - pads. The input is spread by its stride (zeros between), then an
// ordinary convolution with the flipped kernel and padding reach - 1 - pad follows.
static bool transpose_geometry(ImportNode *n, Window *w, const Value *x, int64_t *extra) {
    DimTable *t = n->dims;
    IntList pads = attr_ints(n, "pads"), out_shape = attr_ints(n, "output_shape"), out_pad = attr_ints(n, "output_padding");
    const char *mode = attr_string(n, "auto_pad");
    bool same = !strncmp(mode, "SAME", 4);
    if (!import_auto_pad(n)) return false;
    if ((pads.n && pads.n != 2 * w->n) || (out_pad.n && out_pad.n != w->n) ||
        (out_shape.n && out_shape.n != w->n && out_shape.n != w->n + 2))
        return import_fail(n, "pads, output_padding or output_shape have the wrong length");
    for (int i = 0; i < w->n; i++) {
        extra[i] = out_pad.n ? out_pad.data[i] : 0;
        const Dim *full =
            dim_add(t, dim_muli(t, dim_addi(t, x->shape[2 + i], -1), w->stride[i]), dim_addi(t, import_reach(n, w, i), extra[i]));
        const Dim *target = out_shape.n ? dim_of(n, out_shape.data[out_shape.n - w->n + i])
                            : same      ? dim_muli(t, x->shape[2 + i], w->stride[i])
                                        : NULL;
        if (target) {
            const Dim *total = dim_max(t, dim_of(n, 0), dim_sub(t, full, target));
            const Dim *half = dim_floordiv(t, total, dim_of(n, 2));
            bool upper = strcmp(mode, "SAME_UPPER") == 0;
            w->pad_before[i] = upper ? half : dim_sub(t, total, half);
            w->pad_after[i] = dim_sub(t, total, w->pad_before[i]);
            w->out[i] = target;
            continue;
        }
        w->pad_before[i] = dim_of(n, pads.n ? pads.data[i] : 0);
        w->pad_after[i] = dim_of(n, pads.n ? pads.data[i + w->n] : 0);
        w->out[i] = dim_sub(t, full, dim_add(t, w->pad_before[i], w->pad_after[i]));
    }
    return true;
}

// Element i of axis a at i * stride, zeros between.
static Value *spread(ImportNode *n, Value *x, const Window *w) {
    DimTable *t = n->dims;
    const Dim *shape[RANK_MAX], *index[RANK_MAX], *guard[SPATIAL_MAX];
    int guards = 0;
    for (int i = 0; i < x->rank; i++) {
        int64_t stride = i < 2 ? 1 : w->stride[i - 2];
        shape[i] = stride == 1 ? x->shape[i] : dim_addi(t, dim_muli(t, dim_addi(t, x->shape[i], -1), stride), 1);
        const Dim *d = dim_axis(t, i, shape[i]), *s = dim_of(n, stride);
        index[i] = stride == 1 ? d : dim_floordiv(t, d, s);
        if (stride != 1) guard[guards++] = dim_sub(t, dim_of(n, 0), dim_mod(t, d, s));
    }
    return guards ? g_view(&n->b, x, x->rank, shape, index, guards, guard, scalar_int(x->type, 0)) : x;
}

// [G*C, M, kernel] -> [G*M, C, kernel], each kernel axis reversed.
static Value *flipped(ImportNode *n, Value *weights, int64_t group, int spatial) {
    DimTable *t = n->dims;
    const Dim *g = dim_of(n, group), *c = dim_floordiv(t, weights->shape[0], g), *m = weights->shape[1];
    const Dim *split[RANK_MAX] = {g, c, m}, *joined[RANK_MAX] = {dim_mul(t, g, m), c};
    int64_t perm[RANK_MAX] = {0, 2, 1};
    for (int i = 0; i < spatial; i++) {
        split[3 + i] = joined[2 + i] = weights->shape[2 + i];
        perm[3 + i] = 3 + i;
        weights = g_slice(&n->b, weights, 2 + i, dim_addi(t, weights->shape[2 + i], -1), weights->shape[2 + i], -1);
    }
    Value *y = g_transpose(&n->b, g_reshape(&n->b, weights, 3 + spatial, split), perm);
    return g_reshape(&n->b, y, 2 + spatial, joined);
}

typedef struct {
    const Window *w;
    Value *x, *weights, *bias; // weights as flipped() gives them; no bias: NULL
    int64_t group;
} Transposed;

static Value *convolve_biased(ImportNode *n, const Transposed *c, Value *x, Value *weights, const Window *w) {
    Value *y = import_convolve(n, x, weights, w, c->group, x->type, scalar_int(x->type, 0));
    return c->bias ? import_channel_bias(n, y, c->bias) : y;
}

static Value *spread_convolution(ImportNode *n, const Transposed *c) {
    Window plain = *c->w;
    for (int i = 0; i < plain.n; i++) {
        plain.stride[i] = 1;
        plain.pad_before[i] = dim_sub(n->dims, dim_addi(n->dims, import_reach(n, c->w, i), -1), c->w->pad_before[i]);
    }
    return convolve_biased(n, c, spread(n, c->x, c->w), c->weights, &plain);
}

static int64_t common_divisor(int64_t a, int64_t b) {
    return b ? common_divisor(b, a % b) : a;
}

// Outputs whose place plus padding leaves the same rest p by the stride s meet the same taps k = first + s*m, so each such phase is a plain
// convolution with a part of the kernel, without a product by a zero: place s*u + p takes x[u + (p - first*dilation)/s - m*dilation].
static bool in_phases(const Transposed *c) {
    enum { PHASES_MAX = 16 };
    int64_t all = 1;
    for (int i = 0; i < c->w->n; i++) {
        int64_t k, pad;
        if (!dim_is_int(c->w->kernel[i], &k) || !dim_is_int(c->w->pad_before[i], &pad) || pad < 0) return false;
        if (c->w->stride[i] > PHASES_MAX || (all *= c->w->stride[i]) > PHASES_MAX) return false;
        if (common_divisor(c->w->stride[i], c->w->dilation[i]) > 1) return false; // taps of a phase would not be s apart
    }
    return all > 1;
}

// The first tap of a phase below the kernel's extent; the extent itself when there is none.
static int64_t first_tap(int64_t kernel, int64_t stride, int64_t dilation, int64_t phase) {
    int64_t k = 0;
    while (k < kernel && (k * dilation - phase) % stride != 0) k++;
    return k;
}

static int64_t dim_value(const Dim *d) {
    int64_t v = 0;
    dim_is_int(d, &v);
    return v;
}

static int64_t first_unit(const Window *w, int i) {
    return dim_value(w->pad_before[i]) / w->stride[i];
}

static const Dim *units(ImportNode *n, const Window *w, int i) {
    const Dim *last = dim_addi(n->dims, dim_add(n->dims, w->pad_before[i], w->out[i]), -1);
    return dim_addi(n->dims, dim_floordiv(n->dims, last, dim_of(n, w->stride[i])), 1 - first_unit(w, i));
}

static Value *one_phase(ImportNode *n, const Transposed *c, const int64_t *phase) {
    Window plain = *c->w;
    Value *weights = c->weights;
    bool none = false;
    const Dim *shape[RANK_MAX] = {c->x->shape[0], weights->shape[0]};
    for (int i = 0; i < plain.n; i++) {
        int64_t s = c->w->stride[i], d = c->w->dilation[i], kernel = dim_value(c->w->kernel[i]), first = first_tap(kernel, s, d, phase[i]);
        int64_t taps = (kernel - first + s - 1) / s, offset = (phase[i] - first * d) / s + first_unit(c->w, i);
        none |= taps == 0;
        plain.stride[i] = 1;
        plain.out[i] = shape[2 + i] = units(n, c->w, i);
        plain.kernel[i] = dim_of(n, taps);
        plain.pad_before[i] = dim_of(n, (taps - 1) * d - offset);
        if (taps) weights = g_slice(&n->b, weights, 2 + i, dim_of(n, kernel - 1 - (first + s * (taps - 1))), plain.kernel[i], s);
    }
    if (!none) return convolve_biased(n, c, c->x, weights, &plain);
    Value *zero = g_expand(&n->b, g_const_float(&n->b, c->x->type, 0), 2 + plain.n, shape);
    return c->bias ? import_channel_bias(n, zero, c->bias) : zero;
}

// The phases of spatial axes from `axis` on beside each other: [N, M, …, units, stride, …].
static Value *join_phases(ImportNode *n, const Transposed *c, int64_t *phase, int axis) {
    if (axis == c->w->n) {
        Value *y = one_phase(n, c, phase);
        for (int i = 0; i < c->w->n; i++) y = g_unsqueeze(&n->b, y, 3 + 2 * i);
        return y;
    }
    Value *part[RANK_MAX * 4];
    for (phase[axis] = 0; phase[axis] < c->w->stride[axis]; phase[axis]++) part[phase[axis]] = join_phases(n, c, phase, axis + 1);
    return c->w->stride[axis] == 1 ? part[0] : g_concat(&n->b, (int)c->w->stride[axis], part, 3 + 2 * axis);
}

static Value *phases(ImportNode *n, const Transposed *c) {
    DimTable *t = n->dims;
    int64_t phase[SPATIAL_MAX];
    const Dim *shape[RANK_MAX] = {c->x->shape[0], c->weights->shape[0]};
    for (int i = 0; i < c->w->n; i++) shape[2 + i] = dim_muli(t, units(n, c->w, i), c->w->stride[i]);
    Value *y = g_reshape(&n->b, join_phases(n, c, phase, 0), 2 + c->w->n, shape);
    for (int i = 0; i < c->w->n; i++) {
        const Dim *start = dim_of(n, dim_value(c->w->pad_before[i]) - c->w->stride[i] * first_unit(c->w, i));
        y = g_slice(&n->b, y, 2 + i, start, c->w->out[i], 1);
    }
    return y;
}

bool import_conv_transpose(ImportNode *n) {
    Value *x = import_widened(n, n->in[0]), *weights = import_widened(n, n->in[1]), *bias = n->nin > 2 ? n->in[2] : NULL;
    Window w;
    int64_t group = attr_int(n, "group"), extra[SPATIAL_MAX], c, cw;
    if (!import_same_types(n, 0, 2) || !import_window(n, &w, x, weights) || !transpose_geometry(n, &w, x, extra)) return false;
    if (group < 1) return import_fail(n, "group is %ld", (long)group);
    if (dim_is_int(x->shape[1], &c) && dim_is_int(weights->shape[0], &cw) && (c != cw || c % group))
        return import_fail(n, "weight has %ld input channels in %ld groups, input has %ld", (long)cw, (long)group, (long)c);
    Transposed c_t = {
        .w = &w, .x = x, .weights = flipped(n, weights, group, w.n), .bias = bias ? import_widened(n, bias) : NULL, .group = group};
    Value *y = in_phases(&c_t) ? phases(n, &c_t) : spread_convolution(n, &c_t);
    n->out[0] = g_cast(&n->b, n->in[0]->type, y);
    return true;
}
