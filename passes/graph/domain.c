// See domain.h.
#include "domain.h"

#include <string.h>

enum { LOOK_MAX = 16 };

Domains domains_of(const Graph *g, const Uses *u, Arena *a) {
    Domains d = {.g = g, .u = u};
    d.member = ARENA_ARRAY(a, Member, g->nvalues + 1);
    d.domain = ARENA_ARRAY(a, Domain, g->nvalues + 1);
    d.is_inline = ARENA_ARRAY(a, bool, g->nvalues + 1);
    d.sweeps = ARENA_ARRAY(a, uint64_t, g->nvalues + 1);
    return d;
}

// ---- rows ----

static bool is_one(const Dim *d) {
    return dim_is(d, 1);
}

// The axes of `whole` along which v, of the same rank, has extent 1; 0 unless the others are the same.
static uint32_t broadcast_axes(const Value *v, const Value *whole) {
    uint32_t axes = 0;
    if (v->rank != whole->rank) return 0;
    for (int i = 0; i < v->rank; i++) {
        if (v->shape[i] == whole->shape[i]) continue;
        if (!is_one(v->shape[i])) return 0;
        axes |= 1u << i;
    }
    return axes;
}

static bool is_row_reduction(const Value *v, const Value *space, uint32_t axes) {
    const Node *n = v->def;
    if (!n || n->op != G_reduce || !strncmp(n->kind, "arg", 3) || !value_same_shape(n->in[0], space)) return false;
    uint32_t reduced = 0;
    for (int i = 0; i < n->axes.n; i++)
        if (!is_one(space->shape[n->axes.data[i]])) reduced |= 1u << n->axes.data[i];
    return reduced == axes;
}

// x's elements in their order under another shape: extents of 1 aside, the shapes are equal.
static bool same_but_ones(const Value *x, const Value *y) {
    int i = 0, k = 0;
    for (;;) {
        while (i < x->rank && is_one(x->shape[i])) i++;
        while (k < y->rank && is_one(y->shape[k])) k++;
        if (i == x->rank || k == y->rank) return i == x->rank && k == y->rank;
        if (x->shape[i++] != y->shape[k++]) return false;
    }
}

// A view that reads x at the axes of its output in their order. *axes: those of extent above 1 along which it repeats x.
static bool spreads(const Domains *d, const Node *view, uint32_t *axes) {
    const Value *x = view->in[0], *out = view->out[0];
    int next = 0;
    *axes = 0;
    if (view->guard.n) return false;
    for (int i = 0; i < x->rank; i++) {
        if (is_one(x->shape[i])) continue;
        while (next < out->rank && view->index.data[i] != dim_axis(d->g->dims, next, out->shape[next]))
            if (!is_one(out->shape[next++])) *axes |= 1u << (next - 1);
        if (next == out->rank || x->shape[i] != out->shape[next]) return false;
        next++;
    }
    for (; next < out->rank; next++)
        if (!is_one(out->shape[next])) *axes |= 1u << next;
    return true;
}

// v follows from reductions over the rows of space, through maps of its own shape and other spellings of it.
static bool follows_from_rows(const Domains *d, const Value *v, const Value *space, uint32_t axes, int depth) {
    const Node *n = v->def;
    uint32_t none;
    if (!n || depth > LOOK_MAX) return false;
    if (is_row_reduction(v, space, axes)) return true;
    if (n->op == G_reshape) return same_but_ones(n->in[0], v) && follows_from_rows(d, n->in[0], space, axes, depth + 1);
    if (n->op == G_view) return spreads(d, n, &none) && !none && follows_from_rows(d, n->in[0], space, axes, depth + 1);
    if (n->op != G_map) return false;
    for (int i = 0; i < n->nin; i++)
        if (value_same_shape(n->in[i], v) && follows_from_rows(d, n->in[i], space, axes, depth + 1)) return true;
    return false;
}

// ---- places ----

typedef struct {
    Member m;
    const Value *space; // of a statistic read by its rows' elements
    uint32_t axes;
} Use;

static Use statistic(const Domains *d, const Value *v, const Value *out, const Member *at, uint32_t axes) {
    bool kernel = !d->is_inline[at->root->id];
    if (!kernel || at->position != at->root || !axes || !follows_from_rows(d, v, out, axes, 0)) return (Use){0};
    return (Use){{at->root, PLACE_STATISTIC, 0, NULL}, out, axes};
}

static Use map_use(const Domains *d, const Value *v, const Node *n, const Member *at) {
    if (value_same_shape(v, n->out[0])) return (Use){.m = *at};
    return at->place == PLACE_ELEMENT ? statistic(d, v, n->out[0], at, broadcast_axes(v, n->out[0])) : (Use){0};
}

// A view that turns its input's axes: each of its elements once.
static bool permutes(const Domains *d, const Node *view) {
    const Value *x = view->in[0], *out = view->out[0];
    uint32_t seen = 0, all = 0;
    if (view->guard.n) return false;
    for (int k = 0; k < out->rank; k++)
        if (!is_one(out->shape[k])) all |= 1u << k;
    for (int i = 0; i < x->rank; i++) {
        int k = 0;
        if (is_one(x->shape[i])) continue;
        while (k < out->rank && view->index.data[i] != dim_axis(d->g->dims, k, out->shape[k])) k++;
        if (k == out->rank || x->shape[i] != out->shape[k] || seen & 1u << k) return false;
        seen |= 1u << k;
    }
    return seen == all;
}

static Use view_use(const Domains *d, const Value *v, const Node *n, const Member *at) {
    uint32_t axes;
    if (at->place == PLACE_ELEMENT && permutes(d, n)) return (Use){.m = {at->root, at->place, at->sweeps, n}};
    if (!spreads(d, n, &axes)) return (Use){0};
    if (axes) return at->place == PLACE_ELEMENT ? statistic(d, v, n->out[0], at, axes) : (Use){0};
    return (Use){.m = {at->root, at->place, at->sweeps, n}};
}

static Use reshape_use(const Value *v, const Node *n, const Member *at) {
    bool fits = at->place == PLACE_ELEMENT || same_but_ones(v, n->out[0]);
    return fits ? (Use){.m = {at->root, at->place, at->sweeps, n}} : (Use){0};
}

// A reduction, softmax or norm runs over its operand's elements, the latter two once more at the element at hand.
static Use sweep_use(const Domains *d, const Node *n, const Member *at) {
    bool rows = n->op != G_reduce;
    const void *position = rows ? at->position : at->place == PLACE_STATISTIC ? (const void *)at->root : n;
    if (rows && at->place != PLACE_ELEMENT) return (Use){0};
    return (Use){.m = {at->root, PLACE_ELEMENT, d->sweeps[n->out[0]->id] | (rows ? at->sweeps : 0), position}};
}

static Use use_of(const Domains *d, const Value *v, const Node *n) {
    if (n->region != v->region || n->nout != 1) return (Use){0};
    const Member *at = &d->member[n->out[0]->id];
    switch (n->op) {
    case G_map: return map_use(d, v, n, at);
    case G_view: return view_use(d, v, n, at);
    case G_reshape: return reshape_use(v, n, at);
    case G_reduce:
    case G_softmax:
    case G_norm: return sweep_use(d, n, at);
    default: return (Use){0};
    }
}

static bool agree(const Use *a, const Use *b) {
    if (a->m.root != b->m.root || a->m.place != b->m.place) return false;
    if (a->m.place == PLACE_ELEMENT && a->m.position != b->m.position) return false;
    return !a->space || !b->space || (a->axes == b->axes && value_same_shape(a->space, b->space));
}

static Use place_of(const Domains *d, const Value *v) {
    Use all = {0};
    int first = d->u->first[v->id], uses = d->u->first[v->id + 1] - first;
    if (d->u->yielded[v->id]) return all;
    for (int i = 0; i < uses; i++) {
        Use u = use_of(d, v, d->u->users[first + i]);
        if (u.m.place == PLACE_OPEN || (i && !agree(&u, &all))) return (Use){0};
        u.m.sweeps |= all.m.sweeps;
        if (!u.space) u.space = all.space, u.axes = all.axes;
        all = u;
    }
    return all;
}

Member domain_place(const Domains *d, const Value *v) {
    return place_of(d, v).m;
}

bool domain_join_rows(Domains *d, const Value *v, const Member *m) {
    Use u = place_of(d, v);
    Domain *at = &d->domain[m->root->id];
    bool same = at->space && (!u.space || (at->axes == u.axes && value_same_shape(at->space, u.space)));
    if (at->space ? !same : at->occupied || !u.space) return false;
    const Value *space = at->space ? at->space : u.space;
    uint32_t axes = at->space ? at->axes : u.axes;
    if (v->def->op == G_reduce && !is_row_reduction(v, space, axes)) return false;
    if (!at->space) *at = (Domain){space, axes, ++d->groups, true, at->sweeps, at->spent};
    if (v->def->op == G_map || v->def->op == G_reduce) m->root->def->group = v->def->group = at->group;
    return true;
}

// Passes over its operand, but that at the element at hand.
static int passes_of(const Node *n) {
    if (n->op == G_reduce) return 1;
    if (n->op == G_softmax) return 2;
    return n->op != G_norm ? 0 : strcmp(n->kind, "layer") ? 1 : 2;
}

void domain_enter(Domains *d, Value *v, bool is_inline, Member m) {
    enum { SWEEPS_MAX = 62 };
    bool root = !is_inline || m.place == PLACE_OPEN;
    d->is_inline[v->id] = is_inline;
    d->member[v->id] = root ? (Member){v, PLACE_ELEMENT, 1, v} : m;
    Domain *at = &d->domain[d->member[v->id].root->id];
    for (int i = passes_of(v->def); i > 0; i--) {
        if (at->sweeps < SWEEPS_MAX) at->sweeps++;
        d->sweeps[v->id] |= (uint64_t)1 << at->sweeps;
    }
}
