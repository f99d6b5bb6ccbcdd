// windows: gives the input of sliding windows its padding in memory, so that the windows themselves need no conditions.
//
//   view x index(d0, d1, d2 + d4 - 1, …) guard(…) fill 0     =>   p = view x index(d0, d1, d2 - 1, …) guard(…) fill 0   (a buffer)
//                                                                 view p index(d0, d1, d2 + d4, …)
// where a contraction or reduction reads the windows. The copy costs one pass over x, the conditions would cost one a multiplication. Left
// alone: views whose guard is not just "inside x", windows that overlap no neighbour (each element is read once), and targets without
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

static bool is_guard(DimTable *t, const Node *n, const Dim *d) {
    for (int i = 0; i < n->index.n; i++)
        if (d == n->index.data[i] || d == dim_sub(t, dim_addi(t, n->in[0]->shape[i], -1), n->index.data[i])) return true;
    return false;
}

static bool guards_are_edges(DimTable *t, const Node *n) {
    for (int i = 0; i < n->guard.n; i++)
        if (!is_guard(t, n, n->guard.data[i])) return false;
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
    if (!is_windows(w, b->g, n) || !guards_are_edges(t, n)) return false;
    const Value *x = n->in[0], *out = n->out[0];
    const Dim *shape[GRAPH_MAX_RANK], *from_pad[GRAPH_MAX_RANK], *in_pad[GRAPH_MAX_RANK], *guard[2 * GRAPH_MAX_RANK];
    int nguard = 0;
    for (int i = 0; i < x->rank; i++) {
        const Dim *lo, *hi, *last = dim_addi(t, x->shape[i], -1);
        if (!reach_of(t, n->index.data[i], out, &lo, &hi)) return false;
        const Dim *before = dim_max(t, dim_int(t, 0), dim_sub(t, dim_int(t, 0), lo)),
                  *after = dim_max(t, dim_int(t, 0), dim_sub(t, hi, last));
        shape[i] = dim_add(t, x->shape[i], dim_add(t, before, after));
        from_pad[i] = dim_sub(t, dim_axis(t, i, shape[i]), before);
        in_pad[i] = dim_add(t, n->index.data[i], before);
        if (!dim_is(before, 0)) guard[nguard++] = from_pad[i];
        if (!dim_is(after, 0)) guard[nguard++] = dim_sub(t, last, from_pad[i]);
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
