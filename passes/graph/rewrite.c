// See rewrite.h.
#include "rewrite.h"

#include <string.h>

// The old list stays in the region while its nodes are visited, so that graph_replace reaches those still to come; what the Builder appends
// behind it is moved to the new list at once.
static bool rewrite_region(Graph *g, Region *r, bool (*fn)(void *ctx, Node *n, Builder *b), void *ctx) {
    VEC(Node *) out = {0};
    int n = r->nodes.n;
    bool changed = false;
    for (int i = 0; i < n; i++) {
        Node *old = r->nodes.data[i];
        Builder b = {.g = g, .region = r, .label = old->label, .onnx = old->onnx, .onnx_id = old->onnx_id};
        bool dropped = fn(ctx, old, &b);
        for (int k = n; k < r->nodes.n; k++) vec_push(g->arena, &out, r->nodes.data[k]);
        r->nodes.n = n;
        changed |= dropped;
        if (dropped) continue;
        vec_push(g->arena, &out, old);
        for (int k = 0; k < old->regions.n; k++) changed |= rewrite_region(g, old->regions.data[k], fn, ctx);
    }
    memcpy(&r->nodes, &out, sizeof out);
    return changed;
}

bool graph_rewrite(Graph *g, bool (*fn)(void *ctx, Node *n, Builder *b), void *ctx) {
    return rewrite_region(g, g->body, fn, ctx);
}
