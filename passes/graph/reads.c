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

static void count_users(void *ctx, Node *n) {
    Uses *u = ((Walk *)ctx)->u;
    for (int i = 0; i < n->nin; i++) u->first[n->in[i]->id + 1]++;
}

static void note_users(void *ctx, Node *n) {
    Uses *u = ((Walk *)ctx)->u;
    for (int i = 0; i < n->nin; i++) u->users[u->first[n->in[i]->id]++] = n;
}

// users: by a counting sort; first[] is a place too far when it is done.
static void list_users(Uses *u, const Graph *g, Arena *a) {
    Walk w = {u};
    u->first = ARENA_ARRAY(a, int, g->nvalues + 2);
    graph_walk(g->body, count_users, &w);
    for (int i = 0; i < g->nvalues; i++) u->first[i + 1] += u->first[i];
    u->users = ARENA_ARRAY(a, Node *, u->first[g->nvalues] + 1);
    graph_walk(g->body, note_users, &w);
    for (int i = g->nvalues; i > 0; i--) u->first[i] = u->first[i - 1];
    u->first[0] = 0;
}

Uses uses_of(const Graph *g, Arena *a) {
    Uses u = {.uses = ARENA_ARRAY(a, int, g->nvalues + 1)};
    u.user = ARENA_ARRAY(a, Node *, g->nvalues + 1);
    u.yielded = ARENA_ARRAY(a, bool, g->nvalues + 1);
    note_region_yields(&u, g->body);
    Walk w = {&u};
    graph_walk(g->body, note_node, &w);
    list_users(&u, g, a);
    return u;
}

static bool no_larger(const Graph *g, const Value *out, const Value *in) {
    return dim_le(g->dims, value_size((Graph *)g, out), value_size((Graph *)g, in)) == YES;
}

// The coefficient of an axis in the view's indices, which must be linear in it; 0: it occurs in none, -1: in several or otherwise. *where: the
// index.
static int64_t coefficient_of(DimTable *t, const Node *view, int axis, int *where) {
    const Dim *sym = dim_axis(t, axis, view->out[0]->shape[axis]), *coefficient, *rest;
    int64_t c = 0;
    for (int i = 0; i < view->index.n; i++) {
        if (!dim_has_symbol(view->index.data[i], sym)) continue;
        if (c || !dim_linear(t, view->index.data[i], sym, &coefficient, &rest) || !dim_is_int(coefficient, &c) || c <= 0) return -1;
        *where = i;
    }
    return c;
}

// A view without guard that reads no element of its input twice: in each index an axis steps over all that the axes with smaller steps reach.
static bool reads_apart(const Graph *g, const Node *view) {
    DimTable *t = g->dims;
    const Value *out = view->out[0];
    enum { MOST = 1 << 24 };
    int64_t step[GRAPH_MAX_RANK];
    int where[GRAPH_MAX_RANK];
    if (view->guard.n) return false;
    for (int i = 0; i < out->rank; i++) {
        if (dim_is(out->shape[i], 1))
            step[i] = 0;
        else if ((step[i] = coefficient_of(t, view, i, &where[i])) <= 0)
            return false;
    }
    for (int i = 0; i < out->rank; i++) {
        int64_t reach = 0, extent;
        for (int k = 0; k < out->rank; k++) {
            if (k == i || !step[i] || !step[k] || where[k] != where[i] || step[k] > step[i]) continue;
            if (!dim_is_int(out->shape[k], &extent) || extent > MOST || step[k] > MOST) return false;
            reach += step[k] * (extent - 1);
        }
        if (step[i] && step[i] <= reach) return false;
    }
    return true;
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
    case G_view: return no_larger(g, out, v) || reads_apart(g, n) ? inherited : READS_MANY;
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

bool reads_again(const Node *n) {
    return n->op == G_contract || n->op == G_softmax || n->op == G_norm || n->op == G_attention;
}
