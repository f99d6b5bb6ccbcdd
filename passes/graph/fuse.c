// fuse: decides which values are computed inside the kernels that read them (storage inline) instead of in a kernel of their own.
//
// Views, reshapes and dimension tensors always are: they only change indices. A map joins its consumer when each of its elements is read
// once, or a few times by a row kernel and it is cheap. A contraction or reduction (heavy) and a softmax or norm (row-wise) join the
// pointwise chain behind them as its epilogue: one of them a kernel, when the whole chain has their shape. Nodes are visited last to first,
// so what becomes of a consumer is known. Storage other than automatic is left as it is.
#include "graph_passes.h"

#include "reads.h"

typedef struct {
    Graph *g;
    Uses u;
    Reads *reads;    // [Value.id]
    bool *is_inline; // [Value.id]
    Value **root;    // [Value.id]: the buffered value whose kernel computes it
    bool *occupied;  // [Value.id] of roots: holds a heavy or row-wise value already
    bool changed;
} Fuse;

enum { CHEAP_NODES = 12 };

static void count_cost(void *ctx, const Expr *e) {
    int *cost = ctx;
    XClass cls = xop_info(e->op)->cls;
    bool dear = cls == XC_MATH || e->op == X_div || e->op == X_rem || e->op == X_sqrt;
    *cost += dear ? CHEAP_NODES : cls == XC_LEAF ? 0 : 1;
}

static bool is_cheap(const Node *n) {
    int cost = 0;
    expr_visit(n->body, count_cost, &cost);
    return cost < CHEAP_NODES;
}

static bool continues_chain(const Node *n) {
    return n && (n->op == G_map || n->op == G_reshape);
}

// v's only consumer is a pointwise chain of v's shape that ends in a buffer of its own and holds no other heavy or row-wise value. Reshapes
// on the way (of a grouped convolution's result) change no element.
static bool joins_chain(Fuse *f, const Value *v) {
    const Node *n = f->u.user[v->id];
    if (f->reads[v->id] != READS_ONCE || !continues_chain(n)) return false;
    bool reshaped = n->op == G_reshape;
    while (f->is_inline[n->out[0]->id]) {
        n = f->u.user[n->out[0]->id];
        if (!continues_chain(n)) return false;
        reshaped |= n->op == G_reshape;
    }
    const Value *root = n->out[0];
    bool row_wise = v->def->op == G_softmax || v->def->op == G_norm;
    if (reshaped ? row_wise || value_size(f->g, root) != value_size(f->g, v) : !value_same_shape(root, v)) return false;
    if (f->occupied[root->id]) return false;
    f->occupied[root->id] = true;
    return true;
}

static bool decide(Fuse *f, const Value *v) {
    const Node *n = v->def;
    switch (n->op) {
    case G_view:
    case G_reshape:
    case G_dims: return true;
    case G_map:
        if (f->u.yielded[v->id]) return false;
        if (n->nin == 0 && is_cheap(n)) return true;
        return f->reads[v->id] == READS_ONCE || (f->reads[v->id] == READS_FEW && is_cheap(n));
    case G_gather: return !f->u.yielded[v->id] && f->reads[v->id] == READS_ONCE;
    case G_contract:
    case G_reduce:
    case G_softmax:
    case G_norm: return !f->u.yielded[v->id] && joins_chain(f, v);
    default: return false;
    }
}

static void fuse_value(Fuse *f, Value *v) {
    f->reads[v->id] = reads_through(f->g, &f->u, v, f->reads, f->is_inline);
    bool is_inline = v->storage.kind == STORE_AUTO ? decide(f, v) : v->storage.kind == STORE_INLINE;
    f->is_inline[v->id] = is_inline;
    const Node *n = f->u.user[v->id];
    f->root[v->id] = is_inline && n && n->nout ? f->root[n->out[0]->id] : v;
    if (!is_inline || v->storage.kind != STORE_AUTO) return;
    v->storage.kind = STORE_INLINE;
    f->changed = true;
}

static void fuse_region(Fuse *f, Region *r) {
    for (int i = r->nodes.n - 1; i >= 0; i--) {
        Node *n = r->nodes.data[i];
        for (int k = 0; k < n->nout; k++) {
            if (n->op == G_const) continue;
            fuse_value(f, n->out[k]);
        }
        for (int k = 0; k < n->regions.n; k++) fuse_region(f, n->regions.data[k]);
    }
}

bool pass_fuse(Graph *g, const PassOptions *o) {
    (void)o;
    Arena *a = arena_new();
    Fuse f = {.g = g, .u = uses_of(g, a)};
    f.reads = ARENA_ARRAY(a, Reads, g->nvalues + 1);
    f.is_inline = ARENA_ARRAY(a, bool, g->nvalues + 1);
    f.root = ARENA_ARRAY(a, Value *, g->nvalues + 1);
    f.occupied = ARENA_ARRAY(a, bool, g->nvalues + 1);
    fuse_region(&f, g->body);
    arena_free(a);
    return f.changed;
}
