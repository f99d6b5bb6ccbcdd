// fuse: decides which values are computed inside the kernels that read them (storage inline) instead of in a kernel of their own.
//
// Views, reshapes and dimension tensors always are: they only change indices. A map joins its consumers when all of them are in one kernel at
// one place (domain.h) and it is cheap enough for the number of times its elements are computed there. A contraction or reduction (heavy) and
// a softmax or norm (row-wise) join the pointwise chain behind them as its epilogue: one of them a kernel, when the whole chain has their shape.
// A concat joins it likewise: the chain is computed part by part.
// Reductions over the rows that their consumers run along, and what follows from them (a mean, a root), become statistics, computed once in
// front of each row: a norm or softmax written out is one kernel (its nodes' `group`). Nodes are visited last to first, so what becomes of a
// consumer is known. Storage other than automatic is left as it is.
#include "graph_passes.h"

#include "domain.h"

typedef struct {
    Graph *g;
    Uses u;
    Reads *reads; // [Value.id]
    Domains d;
    bool *again;  // [Value.id]: a contraction or row kernel comes back to its elements
    bool *output; // [Value.id]: a region yields it, as it is or reshaped
    bool changed;
} Fuse;

enum { CHEAP_NODES = 12, SPENT_MAX = 3 * CHEAP_NODES };

static void count_cost(void *ctx, const Expr *e) {
    int *cost = ctx;
    XClass cls = xop_info(e->op)->cls;
    bool slow = e->op == X_div || e->op == X_rem || e->op == X_sqrt;
    *cost += cls == XC_MATH ? CHEAP_NODES : slow ? CHEAP_NODES / 2 : cls == XC_LEAF ? 0 : 1;
}

static int cost_of(const Node *n) {
    int cost = 0;
    expr_visit(n->body, count_cost, &cost);
    return cost;
}

static bool is_index(const Value *v) {
    return v->rank == 0 && dtype_is_int(v->type);
}

// Of sizes alone (the divisor of a mean), or one index of others (of an iteration's number): as cheap as they are.
static bool is_of_sizes(const Node *n) {
    for (int i = 0; i < n->nin; i++) {
        const Value *in = n->in[i];
        bool known = in->def && (in->def->op == G_dims || in->def->op == G_const);
        if (known && in->def->op == G_dims) continue;
        if (!is_index(n->out[0]) || !is_index(in) || !(known || !in->def)) return false;
    }
    return cost_of(n) < CHEAP_NODES;
}

static int sweeps_in(uint64_t set) {
    int n = 0;
    for (; set; set &= set - 1) n++;
    return n;
}

// A map read at one place: its elements are computed again in each further sweep, as far as that is worth less than a buffer.
static bool map_joins(Fuse *f, const Value *v, const Member *m) {
    if (m->place == PLACE_STATISTIC) return domain_join_rows(&f->d, v, m);
    Domain *at = &f->d.domain[m->root->id];
    Reads outside = f->d.is_inline[m->root->id] ? f->reads[m->root->id] : READS_ONCE;
    if (outside == READS_MANY) return false;
    int again = sweeps_in(m->sweeps) - 1 + (outside == READS_FEW ? 2 : 0), cost = again * cost_of(v->def);
    if (at->spent + cost > SPENT_MAX) return false;
    at->spent += cost;
    return true;
}

// At the element that a kernel stores, which holds no other heavy or row-wise value. Reshapes and turned axes on the way (of a grouped
// convolution's result, of heads) change no element.
static bool heavy_joins(Fuse *f, const Value *v, const Member *m) {
    if (m->place == PLACE_STATISTIC) return v->def->op == G_reduce && domain_join_rows(&f->d, v, m);
    bool row_wise = v->def->op == G_softmax || v->def->op == G_norm;
    if (m->place != PLACE_ELEMENT || m->sweeps != 1 || f->d.is_inline[m->root->id] || (row_wise && m->position != m->root)) return false;
    Domain *at = &f->d.domain[m->root->id];
    if (at->occupied || value_size(f->g, m->root) != value_size(f->g, v)) return false;
    at->occupied = true;
    return true;
}

// A view that is stored: an output, and one that a reshape looks into where elements are read again and again (materialise.c).
static bool is_stored(const Fuse *f, const Value *v) {
    if (f->output[v->id]) return true;
    for (int i = f->u.first[v->id]; i < f->u.first[v->id + 1]; i++) {
        const Node *n = f->u.users[i];
        if (n->op == G_reshape && f->again[n->out[0]->id]) return true;
    }
    return false;
}

// The parts of a concat at the element that a kernel stores: it stores one part after the other.
static bool concat_joins(Fuse *f, const Member *m) {
    bool stored = m->place == PLACE_ELEMENT && m->sweeps == 1 && m->position == m->root && !f->d.is_inline[m->root->id];
    if (!stored || f->d.domain[m->root->id].occupied || m->root->def->op != G_map) return false;
    f->d.domain[m->root->id].occupied = true;
    return true;
}

static bool joins(Fuse *f, const Value *v, Member *m) {
    const Node *n = v->def;
    switch (n->op) {
    case G_view:
        if (!value_is_reshape(f->g, v) && is_stored(f, v)) return false;
    // fall through
    case G_reshape:
        if (m->place == PLACE_STATISTIC && !domain_join_rows(&f->d, v, m)) m->place = PLACE_OPEN;
        return true;
    case G_dims: return true;
    case G_map:
        if (f->output[v->id]) return false;
        if (is_of_sizes(n)) return true;
        if (m->place != PLACE_OPEN) return map_joins(f, v, m);
        return f->reads[v->id] == READS_ONCE || (f->reads[v->id] == READS_FEW && cost_of(n) < CHEAP_NODES);
    case G_gather: return !f->output[v->id] && f->reads[v->id] == READS_ONCE;
    case G_concat: return !f->output[v->id] && concat_joins(f, m);
    case G_contract:
    case G_reduce:
    case G_softmax:
    case G_norm: return !f->output[v->id] && heavy_joins(f, v, m);
    default: return false;
    }
}

static bool read_again(const Fuse *f, const Value *v) {
    for (int i = f->u.first[v->id]; i < f->u.first[v->id + 1]; i++) {
        const Node *n = f->u.users[i];
        if (reads_again(n) || (n->nout && f->again[n->out[0]->id] && f->d.is_inline[n->out[0]->id])) return true;
    }
    return false;
}

static bool is_output(const Fuse *f, const Value *v) {
    if (f->u.yielded[v->id]) return true;
    for (int i = f->u.first[v->id]; i < f->u.first[v->id + 1]; i++) {
        const Node *n = f->u.users[i];
        if (n->nout == 1 && f->output[n->out[0]->id] && value_is_reshape(f->g, n->out[0])) return true;
    }
    return false;
}

static void fuse_value(Fuse *f, Value *v) {
    f->again[v->id] = read_again(f, v);
    f->output[v->id] = is_output(f, v);
    Member m = domain_place(&f->d, v);
    bool element = m.place == PLACE_ELEMENT;
    Reads outside = element && f->d.is_inline[m.root->id] ? f->reads[m.root->id] : READS_ONCE;
    f->reads[v->id] = element ? (m.sweeps & (m.sweeps - 1) ? READS_FEW : outside) : reads_through(f->g, &f->u, v, f->reads, f->d.is_inline);
    bool is_inline = v->storage.kind == STORE_AUTO ? joins(f, v, &m) : v->storage.kind == STORE_INLINE;
    domain_enter(&f->d, v, is_inline, m);
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
    f.again = ARENA_ARRAY(a, bool, g->nvalues + 1);
    f.output = ARENA_ARRAY(a, bool, g->nvalues + 1);
    f.d = domains_of(g, &f.u, a);
    fuse_region(&f, g->body);
    arena_free(a);
    return f.changed;
}
