// materialise: gives every value that is still undecided a storage. The only pass that makes buffers.
//
// Constants keep their own memory; views, reshapes and dimension tensors stay index arithmetic in their readers; everything else gets a
// buffer. A view, map or gather that a reshape looks into while a contraction or row kernel reads it gets one too: a reshape of a buffer
// costs nothing, of anything else a division an element, and those readers come back to each element many times.
#include "graph_passes.h"

#include "reads.h"

typedef struct {
    Graph *g;
    Uses u;
    bool *reread; // [Value.id]: read many times an element
    bool changed;
} Materialise;

static bool index_only(const Node *n) {
    return n->op == G_view || n->op == G_reshape || n->op == G_dims;
}

// Computed where it is read: decided so, or not decided and only index arithmetic (what fuse decides too, when it runs).
static bool is_inline(const Value *v) {
    return v->storage.kind == STORE_INLINE || (v->storage.kind == STORE_AUTO && v->def && index_only(v->def));
}

static void store(Materialise *m, Value *v, StoreKind kind) {
    if (v->storage.kind == kind) return;
    v->storage.kind = kind;
    m->changed = true;
}

// Marks reading many times through inline values, and buffers what stands behind a reshape there.
static void visit_inputs(Materialise *m, Node *n) {
    bool many = reads_again(n) || (n->nout && m->reread[n->out[0]->id] && is_inline(n->out[0]));
    for (int i = 0; i < n->nin; i++) {
        Value *in = n->in[i];
        if (many) m->reread[in->id] = true;
        bool behind_reshape = many && n->op == G_reshape && in->def && is_inline(in) && in->def->op != G_reshape;
        if (behind_reshape && in->def->op != G_dims) store(m, in, STORE_BUFFER);
    }
}

static void visit_region(Materialise *m, Region *r) {
    for (int i = r->nodes.n - 1; i >= 0; i--) {
        Node *n = r->nodes.data[i];
        for (int k = 0; k < n->nout; k++) {
            if (n->out[k]->storage.kind != STORE_AUTO) continue;
            store(m, n->out[k], n->op == G_const ? STORE_CONST : is_inline(n->out[k]) ? STORE_INLINE : STORE_BUFFER);
        }
        visit_inputs(m, n);
        for (int k = 0; k < n->regions.n; k++) visit_region(m, n->regions.data[k]);
    }
}

bool pass_materialise(Graph *g, const PassOptions *o) {
    (void)o;
    Arena *a = arena_new();
    Materialise m = {.g = g, .u = uses_of(g, a), .reread = ARENA_ARRAY(a, bool, g->nvalues + 1)};
    visit_region(&m, g->body);
    arena_free(a);
    return m.changed;
}
