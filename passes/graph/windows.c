// windows: gives the input of sliding windows its padding in memory, so that the windows themselves need no conditions.
//
//   view x index(d0, d1, d2 + d4 - 1, …) guard(…) fill 0     =>   p = view x index(d0, d1, d2 - 1, …) guard(…) fill 0   (a buffer)
//                                                                 view p index(d0, d1, d2 + d4, …)
// where a contraction or reduction reads the windows. The copy costs one pass over x, the conditions would cost one a multiplication. Left
// alone: views whose guard is not a box, windows that overlap no neighbour (each element is read once), and targets without
// vectors, whose memory matters more.
#include "graph_passes.h"

#include "reads.h"
#include "rewrite.h"

typedef struct {
    Uses u;
    int *reduced; // of each value: its uses by contractions and reductions
} Windows;

static void count_reduced(void *ctx, Node *n) {
    const Windows *w = ctx;
    if (n->op != G_contract && n->op != G_reduce) return;
    for (int i = 0; i < n->nin; i++) w->reduced[n->in[i]->id]++;
}

// The smallest and the largest value of an index that is a sum of axes with constant, positive coefficients.
static bool reach_of(DimTable *t, const Dim *index, const Value *out, const Dim **lo, const Dim **hi) {
    *lo = *hi = index;
    for (int i = 0; i < out->rank; i++) {
        const Dim *axis = dim_axis(t, i, out->shape[i]), *coefficient, *rest;
        if (!dim_has_symbol(*hi, axis)) continue;
        int64_t c;
        if (!dim_linear(t, *hi, axis, &coefficient, &rest) || !dim_is_int(coefficient, &c) || c < 0) return false;
        *hi = dim_add(t, rest, dim_muli(t, dim_addi(t, out->shape[i], -1), c));
        if (!dim_linear(t, *lo, axis, &coefficient, lo)) return false;
    }
    return true;
}

// The part of x that the guards leave: lo..hi along each axis, both inside.
typedef struct {
    const Dim *lo[GRAPH_MAX_RANK], *hi[GRAPH_MAX_RANK];
} Box;

static bool mentions_axis(const Dim *d, DimTable *t, const Value *out) {
    for (int i = 0; i < out->rank; i++)
        if (dim_has_symbol(d, dim_axis(t, i, out->shape[i]))) return true;
    return false;
}

// guard >= 0 says that an index is not below or not above a bound.
static bool narrow(DimTable *t, const Node *n, const Dim *guard, Box *box) {
    for (int i = 0; i < n->index.n; i++) {
        const Dim *index = n->index.data[i], *below = dim_sub(t, index, guard), *above = dim_add(t, index, guard);
        if (!mentions_axis(index, t, n->out[0])) continue;
        if (!mentions_axis(below, t, n->out[0])) {
            box->lo[i] = dim_max(t, box->lo[i], below);
            return true;
        }
        if (!mentions_axis(above, t, n->out[0])) {
            box->hi[i] = dim_min(t, box->hi[i], above);
            return true;
        }
    }
    return false;
}

static bool guarded_box(DimTable *t, const Node *n, Box *box) {
    for (int i = 0; i < n->in[0]->rank; i++) {
        box->lo[i] = dim_int(t, 0);
        box->hi[i] = dim_addi(t, n->in[0]->shape[i], -1);
    }
    for (int i = 0; i < n->guard.n; i++)
        if (!narrow(t, n, n->guard.data[i], box)) return false;
    for (int i = 0; i < n->in[0]->rank; i++) { // the input's own extent is not negative, whatever its formula could give
        const Dim *extent = dim_addi(t, dim_sub(t, box->hi[i], box->lo[i]), 1);
        if (extent != n->in[0]->shape[i] && dim_ge0(t, extent) != YES) return false;
    }
    return true;
}

// Read by contractions and reductions only, each element of x several times.
static bool is_windows(const Windows *w, Graph *g, const Node *n) {
    int uses = w->u.uses[n->out[0]->id];
    return uses > 0 && w->reduced[n->out[0]->id] == uses && dim_le(g->dims, value_size(g, n->out[0]), value_size(g, n->in[0])) != YES;
}

static bool pad_apart(void *ctx, Node *n, Builder *b) {
    const Windows *w = ctx;
    DimTable *t = b->g->dims;
    if (n->op != G_view || !n->guard.n || n->in[0]->rank == 0 || n->out[0]->storage.kind != STORE_AUTO) return false;
    Box box;
    if (!is_windows(w, b->g, n) || !guarded_box(t, n, &box)) return false;
    const Value *x = n->in[0], *out = n->out[0];
    const Dim *shape[GRAPH_MAX_RANK], *from_pad[GRAPH_MAX_RANK], *in_pad[GRAPH_MAX_RANK], *guard[2 * GRAPH_MAX_RANK];
    int nguard = 0;
    for (int i = 0; i < x->rank; i++) {
        const Dim *lo, *hi, *zero = dim_int(t, 0);
        if (!reach_of(t, n->index.data[i], out, &lo, &hi)) return false;
        const Dim *before = dim_max(t, zero, dim_sub(t, box.lo[i], lo)), *after = dim_max(t, zero, dim_sub(t, hi, box.hi[i]));
        const Dim *first = dim_sub(t, box.lo[i], before), *extent = dim_addi(t, dim_sub(t, box.hi[i], box.lo[i]), 1);
        shape[i] = dim_add(t, extent, dim_add(t, before, after));
        from_pad[i] = dim_add(t, dim_axis(t, i, shape[i]), first);
        in_pad[i] = dim_sub(t, n->index.data[i], first);
        if (!dim_is(before, 0)) guard[nguard++] = dim_sub(t, from_pad[i], box.lo[i]);
        if (!dim_is(after, 0)) guard[nguard++] = dim_sub(t, box.hi[i], from_pad[i]);
    }
    Value *padded = g_view(b, n->in[0], x->rank, shape, from_pad, nguard, guard, n->fill);
    padded->storage.kind = STORE_BUFFER;
    Value *now = g_view(b, padded, out->rank, (const Dim *const *)out->shape, in_pad, 0, NULL, n->fill);
    now->label = out->label;
    graph_replace(b->g, n->out[0], now);
    return true;
}

bool pass_windows(Graph *g, const PassOptions *o) {
    if (!passes_for_speed(o)) return false;
    Arena *a = arena_new();
    Windows w = {uses_of(g, a), ARENA_ARRAY(a, int, g->nvalues + 1)};
    graph_walk(g->body, count_reduced, &w);
    bool changed = graph_rewrite(g, pad_apart, &w);
    arena_free(a);
    return changed;
}
