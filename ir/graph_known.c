// Small values that are the same in every run, found by evaluation: where a shape computation passes through floats (Resize's scales, a
// floor(size * 0.5)), its constant parts cannot be followed as Dims, but they can be computed.
//
// A value is known when it is a constant, has a constant content, or its operation's inputs are known; the walk upwards is bounded in depth
// and nodes.
#include "graph_known.h"

enum { MAX_DEPTH = 64, MAX_NODES = 256 };

typedef struct {
    Arena *arena;
    int nodes;
} Search;

static bool fixed_shape(Arena *a, const Value *v, bool small, Tensor *t) {
    int64_t size = 1;
    *t = (Tensor){.type = v->type, .rank = v->rank, .shape = ARENA_ARRAY(a, int64_t, v->rank + 1)};
    for (int i = 0; i < v->rank; i++) {
        if (!dim_is_int(v->shape[i], &t->shape[i]) || t->shape[i] < 0) return false;
        if (small && (t->shape[i] > CONTENT_MAX || (size *= t->shape[i]) > CONTENT_MAX)) return false;
    }
    return true;
}

static bool from_content(Search *s, const Value *v, Tensor *t) {
    if (!fixed_shape(s->arena, v, true, t)) return false;
    *t = tensor_new(s->arena, v->type, v->rank, t->shape);
    for (int i = 0; i < v->ncontent; i++) {
        int64_t e;
        if (!value_content_int(v, i, &e)) return false;
        scalar_write(scalar_int(v->type, e), (char *)t->data + (size_t)i * (size_t)dtype_bytes(v->type));
    }
    return true;
}

static bool known_value(Search *s, const Value *v, int depth, Tensor *t);

static bool known_node(Search *s, const Node *n, int depth, Tensor *out) {
    GClass cls = gop_info(n->op)->cls;
    if (cls == GC_control || cls == GC_value || n->nout != 1 || n->nin == 0 || depth == MAX_DEPTH || ++s->nodes > MAX_NODES) return false;
    if (n->out[0]->type == DT_str || !fixed_shape(s->arena, n->out[0], true, out)) return false;
    Tensor *in = ARENA_ARRAY(s->arena, Tensor, n->nin);
    for (int i = 0; i < n->nin; i++)
        if (!known_value(s, n->in[i], depth + 1, &in[i])) return false;
    return graph_eval_node(n, in, out, s->arena);
}

static bool known_value(Search *s, const Value *v, int depth, Tensor *t) {
    if (!v->def) return false;
    if (v->def->op == G_const) {
        if (!fixed_shape(s->arena, v, false, t)) return false;
        t->data = (void *)(uintptr_t)v->def->data.bytes; // read only
        t->bytes = v->def->data.size;
        return true;
    }
    return v->content ? from_content(s, v, t) : known_node(s, v->def, depth, t);
}

bool graph_known_content(Graph *g, const Node *n, const Dim **elem) {
    Search s = {arena_new(), 0};
    Tensor t;
    bool ok = known_node(&s, n, 0, &t);
    for (int64_t i = 0; ok && i < tensor_count(&t); i++) {
        Scalar v = scalar_read(t.type, (const char *)t.data + (size_t)i * (size_t)dtype_bytes(t.type));
        ok = v.type != DT_u64 || v.u <= (uint64_t)INT64_MAX;
        if (ok) elem[i] = dim_int(g->dims, scalar_as_i64(v));
    }
    arena_free(s.arena);
    return ok;
}
