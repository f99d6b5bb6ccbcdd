// shapes: a value whose elements are all known dimensions (Value.content) needs no computation: it becomes a constant or a `dims` node.
//
// So the shape arithmetic of a model with symbolic dimensions (Shape, Gather, Concat, Where, Equal …) leaves no code; dce then removes it.
#include "graph_passes.h"

#include "rewrite.h"

static bool all_ints(const Value *v, int64_t *out) {
    for (int i = 0; i < v->ncontent; i++)
        if (!dim_is_int(v->content[i], &out[i])) return false;
    return true;
}

static Value *known_value(Builder *b, const Value *v) {
    int64_t ints[CONTENT_MAX];
    const Dim **shape = (const Dim **)v->shape;
    Value *x;
    if (all_ints(v, ints)) {
        x = g_const_ints(b, v->type, v->ncontent, ints);
    } else {
        x = g_cast(b, v->type, g_dims(b, v->ncontent, v->content));
    }
    return v->rank == 1 ? x : g_reshape(b, x, v->rank, shape);
}

static bool shape_node(void *ctx, Node *n, Builder *b) {
    (void)ctx;
    GClass cls = gop_info(n->op)->cls;
    if (n->nout != 1 || cls == GC_control || cls == GC_value) return false;
    Value *v = n->out[0];
    bool computed_already = n->op == G_reshape && n->in[0]->def && gop_info(n->in[0]->def->op)->cls == GC_value;
    bool cast_of_dims = n->op == G_map && n->nin == 1 && n->in[0]->def && n->in[0]->def->op == G_dims && n->body->op == X_cast;
    if (!v->content || v->ncontent == 0 || computed_already || cast_of_dims) return false;
    Value *known = known_value(b, v);
    if (!known->label) known->label = v->label;
    graph_replace(b->g, v, known);
    return true;
}

bool pass_shapes(Graph *g, const PassOptions *o) {
    (void)o;
    return graph_rewrite(g, shape_node, NULL);
}
