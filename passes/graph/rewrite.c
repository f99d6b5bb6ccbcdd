// See rewrite.h.
#include "rewrite.h"

#include <string.h>

static bool rewrite_region(Graph *g, Region *r, bool (*fn)(void *ctx, Node *n, Builder *b), void *ctx) {
    Node **old = r->nodes.data;
    int n = r->nodes.n;
    bool changed = false;
    memset(&r->nodes, 0, sizeof r->nodes);
    for (int i = 0; i < n; i++) {
        Builder b = {g, r, old[i]->label, old[i]->onnx, old[i]->onnx_id};
        if (fn(ctx, old[i], &b)) {
            changed = true;
            continue;
        }
        vec_push(g->arena, &r->nodes, old[i]);
        for (int k = 0; k < old[i]->regions.n; k++) changed |= rewrite_region(g, old[i]->regions.data[k], fn, ctx);
    }
    return changed;
}

bool graph_rewrite(Graph *g, bool (*fn)(void *ctx, Node *n, Builder *b), void *ctx) { return rewrite_region(g, g->body, fn, ctx); }
