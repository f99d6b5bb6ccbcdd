// fold: operations whose inputs are constants become constants, evaluated by graph_eval's own functions (so with mlc's own mathematics).
//
// What would grow the model is left: a result of more than 4096 elements must not be larger than the inputs together (a transposed weight
// is folded, a broadcast one stays a view).
#include "graph_passes.h"

#include "rewrite.h"

enum { SMALL = 4096 };

typedef struct {
    Arena *scratch;
} Fold;

static bool const_tensor(Arena *a, const Value *v, Tensor *t) {
    if (!v->def || v->def->op != G_const) return false;
    *t = (Tensor){v->type, v->rank, ARENA_ARRAY(a, int64_t, v->rank + 1), (void *)(uintptr_t)v->def->data.bytes, v->def->data.size};
    for (int i = 0; i < v->rank; i++)
        if (!dim_is_int(v->shape[i], &t->shape[i])) return false;
    return true;
}

static bool worth_it(const Node *n, size_t input_bytes) {
    int64_t size = 1, extent;
    const Value *out = n->out[0];
    for (int i = 0; i < out->rank; i++) {
        if (!dim_is_int(out->shape[i], &extent) || extent < 0) return false;
        if (extent && size > INT64_MAX / 16 / extent) return false;
        size *= extent;
    }
    return size <= SMALL || (size_t)size * (size_t)dtype_bytes(out->type) <= input_bytes;
}

static bool fold_node(void *ctx, Node *n, Builder *b) {
    Fold *f = ctx;
    GClass cls = gop_info(n->op)->cls;
    if (n->nout != 1 || n->nin == 0 || cls == GC_control || cls == GC_value) return false;
    Tensor *in = ARENA_ARRAY(f->scratch, Tensor, n->nin);
    size_t bytes = 0;
    for (int i = 0; i < n->nin; i++) {
        if (n->in[i]->type == DT_str || !const_tensor(f->scratch, n->in[i], &in[i])) return false;
        bytes += in[i].bytes;
    }
    Tensor out;
    if (n->out[0]->type == DT_str || !worth_it(n, bytes) || !graph_eval_node(n, in, &out, b->g->arena)) return false;
    const Dim **shape = ARENA_ARRAY(b->g->arena, const Dim *, out.rank + 1);
    for (int i = 0; i < out.rank; i++) shape[i] = dim_int(b->g->dims, out.shape[i]);
    Value *folded = g_const(b, out.type, out.rank, shape, (Data){out.data, out.bytes});
    folded->label = n->out[0]->label;
    graph_replace(b->g, n->out[0], folded);
    return true;
}

bool pass_fold(Graph *g, const PassOptions *o) {
    (void)o;
    Fold f = {arena_new()};
    bool changed = graph_rewrite(g, fold_node, &f);
    arena_free(f.scratch);
    return changed;
}
