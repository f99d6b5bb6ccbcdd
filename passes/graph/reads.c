// See reads.h. Nodes are looked at from the last to the first, so a user's own reads are known before its inputs'.
#include "reads.h"

typedef struct {
    Uses *u;
} Walk;

static void note_region_yields(Uses *u, const Region *r) {
    for (int i = 0; i < r->yields.n; i++) {
        u->uses[r->yields.data[i]->id]++;
        u->yielded[r->yields.data[i]->id] = true;
    }
}

static void note_node(void *ctx, Node *n) {
    Uses *u = ((Walk *)ctx)->u;
    for (int i = 0; i < n->nin; i++) {
        u->uses[n->in[i]->id]++;
        u->user[n->in[i]->id] = n;
    }
    for (int i = 0; i < n->regions.n; i++) note_region_yields(u, n->regions.data[i]);
}

Uses uses_of(const Graph *g, Arena *a) {
    Uses u = {ARENA_ARRAY(a, int, g->nvalues + 1), ARENA_ARRAY(a, Node *, g->nvalues + 1), ARENA_ARRAY(a, bool, g->nvalues + 1)};
    note_region_yields(&u, g->body);
    Walk w = {&u};
    graph_walk(g->body, note_node, &w);
    return u;
}

static bool no_larger(const Graph *g, const Value *out, const Value *in) {
    return dim_le(g->dims, value_size((Graph *)g, out), value_size((Graph *)g, in)) == YES;
}

Reads reads_through(const Graph *g, const Uses *u, const Value *v, const Reads *reads, const bool *is_inline) {
    const Node *n = u->user[v->id];
    if (u->uses[v->id] != 1) return READS_MANY;
    if (!n) return READS_ONCE;
    if (n->region != v->region) return READS_MANY;
    const Value *out = n->nout ? n->out[0] : NULL;
    Reads inherited = out && is_inline[out->id] ? reads[out->id] : READS_ONCE;
    switch (n->op) {
    case G_map: return value_same_shape(v, out) ? inherited : READS_MANY;
    case G_reshape:
    case G_reduce: return inherited;
    case G_view: return no_larger(g, out, v) ? inherited : READS_MANY;
    case G_gather:
        if (v == n->in[0]) return READS_MANY;
        return value_same_shape(v, out) ? inherited : READS_MANY;
    case G_concat:
    case G_scan: return inherited;
    case G_scatter: return v == n->in[0] || value_same_shape(v, n->in[1]) ? READS_ONCE : READS_MANY;
    case G_softmax:
    case G_norm: return inherited == READS_ONCE ? READS_FEW : READS_MANY;
    case G_loop: return v == n->in[0] || v == n->in[1] ? READS_MANY : READS_ONCE;
    default: return READS_MANY;
    }
}
