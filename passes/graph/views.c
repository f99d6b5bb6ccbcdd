// views: makes one operation of neighbours that only move elements, and none of those that move nothing.
//
//   view with identity indices, the input's shape and no guard    -> the input
//   reshape to the shape it has; reshape of a reshape             -> the input; one reshape
//   view of a view                                                -> one view, when the inner one has no guard or the outer one none
//
// Chains shrink from the input on until nothing changes: each merge looks one operation back. Which views become memory is not decided here
// but in fuse and materialise.
#include "graph_passes.h"

#include "rewrite.h"

static bool identity_index(DimTable *t, const Node *n) {
    const Value *out = n->out[0];
    if (n->guard.n || !value_same_shape(out, n->in[0])) return false;
    for (int i = 0; i < out->rank; i++)
        if (n->index.data[i] != dim_axis(t, i, out->shape[i]) && !dim_is(out->shape[i], 1)) return false;
    return true;
}

static bool moves_nothing(DimTable *t, const Node *n) {
    if (n->op == G_reshape) return value_same_shape(n->in[0], n->out[0]);
    return n->op == G_view && identity_index(t, n);
}

// out = outer(inner(x)): indices of inner at outer's. Guards of both hold together only when at most one of them has a fill to give.
static Value *merge_views(Builder *b, const Node *outer) {
    const Node *inner = outer->in[0]->def;
    if (outer->guard.n && inner->guard.n) return NULL;
    DimTable *t = b->g->dims;
    const Value *mid = outer->in[0], *out = outer->out[0];
    const Dim *from[GRAPH_MAX_RANK];
    for (int i = 0; i < mid->rank; i++) from[i] = dim_axis(t, i, mid->shape[i]);
    const Dim **index = ARENA_ARRAY(b->g->arena, const Dim *, inner->index.n + 1);
    for (int i = 0; i < inner->index.n; i++) index[i] = dim_subst(t, inner->index.data[i], from, outer->index.data, mid->rank);
    int nguard = outer->guard.n + inner->guard.n;
    const Dim **guard = ARENA_ARRAY(b->g->arena, const Dim *, nguard + 1);
    for (int i = 0; i < outer->guard.n; i++) guard[i] = outer->guard.data[i];
    for (int i = 0; i < inner->guard.n; i++) guard[i] = dim_subst(t, inner->guard.data[i], from, outer->index.data, mid->rank);
    Scalar fill = inner->guard.n ? inner->fill : outer->fill;
    return g_view(b, inner->in[0], out->rank, (const Dim *const *)out->shape, index, nguard, guard, fill);
}

static bool merge_node(void *ctx, Node *n, Builder *b) {
    (void)ctx;
    Value *now = NULL;
    const Node *in = n->nin ? n->in[0]->def : NULL;
    if (moves_nothing(b->g->dims, n)) {
        now = n->in[0];
    } else if (n->op == G_reshape && in && in->op == G_reshape) {
        now = g_reshape(b, in->in[0], n->out[0]->rank, (const Dim *const *)n->out[0]->shape);
    } else if (n->op == G_view && in && in->op == G_view) {
        now = merge_views(b, n);
    }
    if (!now) return false;
    if (!now->label) now->label = n->out[0]->label;
    graph_replace(b->g, n->out[0], now);
    return true;
}

bool pass_views(Graph *g, const PassOptions *o) {
    (void)o;
    bool changed = false;
    while (graph_rewrite(g, merge_node, NULL)) changed = true;
    return changed;
}
