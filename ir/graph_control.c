// Builders of control: checks, If and Loop, whose regions the caller has filled.
//
// An output's extent is the regions' where they agree on something visible outside; else it is a fresh SYM_DATA symbol, defined by the node
// at run time.
#include "graph.h"

#include <assert.h>
#include <string.h>

void g_check(Builder *b, Value *cond, int nguard, const Dim *const *guard, StatusCode code) {
    const Dim **open = ARENA_ARRAY(b->g->arena, const Dim *, nguard + 1);
    int n = 0;
    for (int i = 0; i < nguard; i++) {
        if (dim_is_poison(guard[i])) {
            graph_build_fault(b, "a size overflows");
            return;
        }
        if (dim_ge0(b->g->dims, guard[i]) != YES) open[n++] = guard[i];
    }
    int64_t known;
    if (cond && value_content_int(cond, 0, &known) && known) cond = NULL;
    if (n == 0 && !cond) return;
    Node *node = graph_add_node(b, G_check, cond ? 1 : 0, &cond, 0);
    node->guard = (DimList){open, n};
    node->code = code;
}

// The data symbols that a region defines: extents of its parameters and of the outputs of its control nodes.
typedef struct {
    Arena *arena;
    VEC(const Dim *) syms;
} Defined;

static void note_value(Defined *d, const Value *v) {
    for (int i = 0; i < v->rank; i++) {
        const Sym *s = dim_as_symbol(v->shape[i]);
        if (s && s->kind == SYM_DATA) vec_push(d->arena, &d->syms, v->shape[i]);
    }
}

static void note_node(void *ctx, Node *n) {
    Defined *d = ctx;
    for (int i = 0; i < n->nout && gop_info(n->op)->cls == GC_control; i++) note_value(d, n->out[i]);
    for (int k = 0; k < n->regions.n; k++)
        for (int i = 0; i < n->regions.data[k]->params.n; i++) note_value(d, n->regions.data[k]->params.data[i]);
}

static bool visible(const Defined *d, const Dim *e) {
    for (int i = 0; i < d->syms.n; i++)
        if (dim_has_symbol(e, d->syms.data[i])) return false;
    return true;
}

static const Dim *data_extent(Builder *b, const Dim *hi) {
    return graph_symbol(b->g, "n", SYM_DATA, dim_int(b->g->dims, 0), hi);
}

Node *g_if(Builder *b, Value *cond, Region *then, Region *otherwise) {
    Graph *g = b->g;
    int nout = then->yields.n;
    assert(cond->type == DT_bool && nout == otherwise->yields.n && !then->params.n && !otherwise->params.n);
    Node *n = graph_add_node(b, G_if, 1, &cond, nout);
    n->regions.data = ARENA_ARRAY(g->arena, Region *, 2);
    n->regions.data[0] = then;
    n->regions.data[1] = otherwise;
    n->regions.n = 2;
    then->owner = otherwise->owner = n;
    Defined d = {.arena = g->arena};
    graph_walk(then, note_node, &d);
    graph_walk(otherwise, note_node, &d);
    for (int i = 0; i < nout; i++) {
        const Value *x = then->yields.data[i], *y = otherwise->yields.data[i];
        assert(x->type == y->type && x->rank == y->rank);
        const Dim *shape[GRAPH_MAX_RANK];
        for (int k = 0; k < x->rank; k++) {
            bool seen = visible(&d, x->shape[k]) && visible(&d, y->shape[k]);
            if (seen && dim_eq(g->dims, x->shape[k], y->shape[k]) == YES)
                shape[k] = x->shape[k];
            else
                shape[k] = data_extent(b, seen ? dim_max(g->dims, x->shape[k], y->shape[k]) : NULL);
        }
        graph_value_type(g, n->out[i], x->type, x->rank, shape);
    }
    graph_infer_content(g, n);
    return n;
}

// The extent of the scan outputs' axis 0: the trip count when nothing else ends the loop.
static const Dim *scan_length(Builder *b, const Value *trip, const Value *cond, const Region *body) {
    DimTable *t = b->g->dims;
    int64_t go_first, go_on, count;
    const Dim *n = trip->content ? trip->content[0] : NULL;
    if (n && dim_is_int(n, &count) && count < 0) n = NULL;
    const Dim *len = n ? dim_max(t, n, dim_int(t, 0)) : NULL;
    bool always = value_content_int(cond, 0, &go_first) && go_first && value_content_int(body->yields.data[0], 0, &go_on) && go_on;
    return len && always ? len : graph_symbol(b->g, "trips", SYM_DATA, dim_int(t, 0), len);
}

// The largest extent that a carried value reaches whose extent is `init` before the loop, `inside` (a symbol) in an iteration and then `next`;
// NULL when that is not known.
static const Dim *carried_bound(Builder *b, const Value *trip, const Defined *d, const Dim *init, const Dim *inside, const Dim *next) {
    DimTable *t = b->g->dims;
    const Dim *zero = dim_int(t, 0), *growth = dim_sub(t, next, inside);
    if (!visible(d, init)) return NULL;
    if (visible(d, next)) return dim_max(t, init, next);
    if (dim_le(t, growth, zero) == YES) return init;
    if (!visible(d, growth) || !trip->content || dim_lt(t, trip->content[0], zero) != NO) return NULL;
    return dim_add(t, init, dim_mul(t, trip->content[0], dim_max(t, growth, zero)));
}

static void loop_output(Builder *b, Node *n, int out, const Defined *d) {
    const Region *r = n->regions.data[0];
    const Value *init = n->in[2 + out], *param = r->params.data[2 + out], *yield = r->yields.data[1 + out];
    const Dim *shape[GRAPH_MAX_RANK];
    assert(yield->type == param->type && yield->rank == param->rank && init->type == param->type && init->rank == param->rank);
    for (int k = 0; k < yield->rank; k++) {
        bool fixed = param->shape[k] == init->shape[k] && dim_eq(b->g->dims, yield->shape[k], init->shape[k]) == YES;
        if (fixed && visible(d, init->shape[k])) {
            shape[k] = init->shape[k];
            continue;
        }
        const Sym *inside = param->shape[k] != init->shape[k] ? dim_as_symbol(param->shape[k]) : NULL;
        bool own = inside && inside->kind == SYM_DATA;
        const Dim *hi = own ? carried_bound(b, n->in[0], d, init->shape[k], param->shape[k], yield->shape[k]) : NULL;
        if (hi) dim_symbol_bound(param->shape[k], hi);
        shape[k] = data_extent(b, hi);
    }
    graph_value_type(b->g, n->out[out], yield->type, yield->rank, shape);
}

static void loop_scan_output(Builder *b, Node *n, int out, const Defined *d, const Value *yield) {
    const Dim *shape[GRAPH_MAX_RANK] = {n->dims.data[0]};
    assert(yield->rank + 1 <= GRAPH_MAX_RANK);
    for (int k = 0; k < yield->rank; k++) shape[k + 1] = visible(d, yield->shape[k]) ? yield->shape[k] : data_extent(b, NULL);
    graph_value_type(b->g, n->out[out], yield->type, yield->rank + 1, shape);
}

Node *g_loop(Builder *b, Value *trip, Value *cond, int ncarried, Value *const *init, Region *body, int nscans) {
    Graph *g = b->g;
    assert(trip->type == DT_i64 && cond->type == DT_bool);
    assert(body->params.n == 2 + ncarried && body->yields.n == 1 + ncarried + nscans);
    Value **in = ARENA_ARRAY(g->arena, Value *, 2 + ncarried);
    in[0] = trip;
    in[1] = cond;
    for (int i = 0; i < ncarried; i++) in[2 + i] = init[i];
    Node *n = graph_add_node(b, G_loop, 2 + ncarried, in, ncarried + nscans);
    n->regions.data = ARENA_ARRAY(g->arena, Region *, 1);
    n->regions.data[0] = body;
    n->regions.n = 1;
    n->scans = nscans;
    body->owner = n;
    Defined d = {.arena = g->arena};
    note_node(&d, n);
    graph_walk(body, note_node, &d);
    // A parameter whose extent is an outer symbol does not define it.
    for (int i = 0; i < ncarried; i++)
        for (int k = 0; k < init[i]->rank; k++)
            for (int s = d.syms.n - 1; s >= 0; s--)
                if (d.syms.data[s] == init[i]->shape[k]) d.syms.data[s] = d.syms.data[--d.syms.n];
    if (nscans) {
        n->dims.data = ARENA_ARRAY(g->arena, const Dim *, 1);
        n->dims.data[0] = scan_length(b, trip, cond, body);
        n->dims.n = 1;
    }
    for (int i = 0; i < ncarried; i++) loop_output(b, n, i, &d);
    for (int i = 0; i < nscans; i++) loop_scan_output(b, n, ncarried + i, &d, body->yields.data[1 + ncarried + i]);
    return n;
}
