// Views that operators share: transpose, expand, slice, pad, unsqueeze, squeeze and sliding windows, each one g_view with index and guard
// Dims over the output's axis symbols. A guard that is proven is left out, and a view that changes nothing is the input itself.
#include "graph.h"

#include <assert.h>

// Index and guards of a view under construction; d[i] is the output's axis symbol i.
typedef struct {
    Builder *b;
    Value *x;
    int rank, nguard;
    const Dim *shape[GRAPH_MAX_RANK], *d[GRAPH_MAX_RANK], *index[GRAPH_MAX_RANK], *guard[2 * GRAPH_MAX_RANK];
} ViewMaker;

static ViewMaker view_of(Builder *b, Value *x) {
    return (ViewMaker){.b = b, .x = x};
}

static void out_axis(ViewMaker *m, const Dim *extent) {
    assert(m->rank < GRAPH_MAX_RANK);
    m->d[m->rank] = dim_axis(m->b->g->dims, m->rank, extent);
    m->shape[m->rank++] = extent;
}

static void add_guard(ViewMaker *m, const Dim *g) {
    if (dim_ge0(m->b->g->dims, g) != YES) m->guard[m->nguard++] = g;
}

// Guards that keep input axis k's index inside.
static void guard_axis(ViewMaker *m, int k) {
    DimTable *t = m->b->g->dims;
    add_guard(m, m->index[k]);
    add_guard(m, dim_sub(t, dim_addi(t, m->x->shape[k], -1), m->index[k]));
}

static Value *make(ViewMaker *m, Scalar fill) {
    return g_view(m->b, m->x, m->rank, m->shape, m->index, m->nguard, m->guard, fill);
}
static Value *make_plain(ViewMaker *m) {
    return make(m, scalar_int(m->x->type, 0));
}

Value *g_transpose(Builder *b, Value *x, const int64_t *perm) {
    ViewMaker m = view_of(b, x);
    bool identity = true;
    for (int i = 0; i < x->rank; i++) {
        out_axis(&m, x->shape[perm[i]]);
        m.index[perm[i]] = m.d[i];
        identity = identity && perm[i] == i;
    }
    return identity ? x : make_plain(&m);
}

// Index into an input axis of extent e for an output axis of extent m->shape[i]: the axis itself, 0, or by the extents at run time.
static const Dim *broadcast_index(ViewMaker *m, int i, const Dim *e) {
    DimTable *t = m->b->g->dims;
    if (dim_eq(t, e, m->shape[i]) == YES) return m->d[i];
    if (dim_is(e, 1)) return dim_int(t, 0);
    const Dim *differ = dim_max(t, dim_sub(t, e, m->shape[i]), dim_sub(t, m->shape[i], e));
    const Dim *guard = dim_muli(t, dim_min(t, differ, dim_addi(t, e, -1)), -1);
    if (dim_ge0(t, guard) == NO) graph_build_fault(m->b, "extents %s and %s do not broadcast", dim_text(t, e), dim_text(t, m->shape[i]));
    g_check(m->b, NULL, 1, &guard, CODE_SHAPE);
    return dim_min(t, m->d[i], dim_addi(t, e, -1));
}

Value *g_expand(Builder *b, Value *x, int rank, const Dim *const *shape) {
    ViewMaker m = view_of(b, x);
    assert(rank >= x->rank);
    bool same = rank == x->rank;
    for (int i = 0; i < rank; i++) out_axis(&m, shape[i]);
    for (int k = 0; k < x->rank; k++) {
        int i = k + rank - x->rank;
        m.index[k] = broadcast_index(&m, i, x->shape[k]);
        same = same && dim_eq(b->g->dims, x->shape[k], shape[i]) == YES;
    }
    return same ? x : make_plain(&m);
}

// A slice that is known to reach outside of its axis.
static bool reaches_outside(DimTable *t, const Dim *extent, const Dim *start, const Dim *len, int64_t step) {
    const Dim *last = dim_add(t, start, dim_muli(t, dim_addi(t, len, -1), step));
    const Dim *low = step < 0 ? last : start, *high = step < 0 ? start : last;
    bool some = dim_ge0(t, dim_addi(t, len, -1)) == YES;
    return some && (dim_ge0(t, low) == NO || dim_lt(t, high, extent) == NO);
}

Value *g_slice(Builder *b, Value *x, int axis, const Dim *start, const Dim *len, int64_t step) {
    DimTable *t = b->g->dims;
    ViewMaker m = view_of(b, x);
    assert(axis >= 0 && axis < x->rank);
    if (dim_is(start, 0) && step == 1 && dim_eq(t, len, x->shape[axis]) == YES) return x;
    if (reaches_outside(t, x->shape[axis], start, len, step))
        graph_build_fault(
            b, "elements from %s on lie outside of axis %d, which has %s", dim_text(t, start), axis, dim_text(t, x->shape[axis]));
    for (int i = 0; i < x->rank; i++) {
        out_axis(&m, i == axis ? len : x->shape[i]);
        m.index[i] = i == axis ? dim_add(t, start, dim_muli(t, m.d[i], step)) : m.d[i];
    }
    return make_plain(&m);
}

Value *g_pad(Builder *b, Value *x, const Dim *const *before, const Dim *const *after, Scalar fill) {
    DimTable *t = b->g->dims;
    ViewMaker m = view_of(b, x);
    bool same = true;
    for (int i = 0; i < x->rank; i++) {
        same = same && dim_is(before[i], 0) && dim_is(after[i], 0);
        out_axis(&m, dim_add(t, dim_add(t, before[i], x->shape[i]), after[i]));
        m.index[i] = dim_sub(t, m.d[i], before[i]);
        guard_axis(&m, i);
    }
    return same ? x : make(&m, fill);
}

Value *g_unsqueeze(Builder *b, Value *x, int axis) {
    ViewMaker m = view_of(b, x);
    assert(axis >= 0 && axis <= x->rank);
    for (int i = 0; i <= x->rank; i++) {
        out_axis(&m, i == axis ? dim_int(b->g->dims, 1) : x->shape[i - (i > axis)]);
        if (i != axis) m.index[i - (i > axis)] = m.d[i];
    }
    return make_plain(&m);
}

Value *g_squeeze(Builder *b, Value *x, int axis) {
    DimTable *t = b->g->dims;
    ViewMaker m = view_of(b, x);
    assert(axis >= 0 && axis < x->rank);
    const Dim *one = dim_int(t, 1);
    if (dim_eq(t, x->shape[axis], one) != YES) {
        const Dim *guard[2] = {dim_sub(t, x->shape[axis], one), dim_sub(t, one, x->shape[axis])};
        g_check(b, NULL, 2, guard, CODE_SHAPE);
    }
    for (int i = 0; i < x->rank; i++) {
        if (i != axis) out_axis(&m, x->shape[i]);
        m.index[i] = i == axis ? dim_int(t, 0) : m.d[m.rank - 1];
    }
    return make_plain(&m);
}

Value *g_windows(Builder *b, Value *x, int n, const Dim *const *out, const Dim *const *kernel, const int64_t *stride,
    const int64_t *dilation, const Dim *const *pad, Scalar fill) {
    DimTable *t = b->g->dims;
    ViewMaker m = view_of(b, x);
    int lead = x->rank - n;
    assert(lead >= 0);
    for (int i = 0; i < lead; i++) out_axis(&m, x->shape[i]);
    for (int i = 0; i < n; i++) out_axis(&m, out[i]);
    for (int i = 0; i < n; i++) out_axis(&m, kernel[i]);
    for (int i = 0; i < lead; i++) m.index[i] = m.d[i];
    for (int i = 0; i < n; i++) {
        const Dim *at = dim_add(t, dim_muli(t, m.d[lead + i], stride[i]), dim_muli(t, m.d[lead + n + i], dilation[i]));
        m.index[lead + i] = dim_sub(t, at, pad[i]);
        guard_axis(&m, lead + i);
    }
    return make(&m, fill);
}

bool value_is_reshape(const Graph *g, const Value *v) {
    const Node *n = v->def;
    DimTable *t = g->dims;
    if (!n || n->op == G_reshape) return n != NULL;
    if (n->op != G_view || n->guard.n) return false;
    const Value *in = n->in[0];
    const Dim *size = dim_int(t, 1), *size_in = size, *place = dim_int(t, 0), *place_in = place;
    for (int i = 0; i < v->rank; i++) {
        const Dim *d = dim_is(v->shape[i], 1) ? dim_int(t, 0) : dim_axis(t, i, v->shape[i]);
        place = dim_add(t, dim_mul(t, place, v->shape[i]), d);
        size = dim_mul(t, size, v->shape[i]);
    }
    for (int i = 0; i < in->rank; i++) {
        place_in = dim_add(t, dim_mul(t, place_in, in->shape[i]), n->index.data[i]);
        size_in = dim_mul(t, size_in, in->shape[i]);
    }
    return size == size_in && place == place_in;
}
