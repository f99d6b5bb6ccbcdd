// pack: lays the constant operand of a contraction out in panels, as its kernel walks it.
//
//   w: f32[K, N]   =>   p: f32[N/16, K, 16] (the last panel filled up with zeros), read through   view p index(floordiv(d1, 16), d0,
//   mod(d1, 16))
//
// A panel is two vectors of the target wide: the kernel's lanes are neighbours in memory whatever the layout was, and a register tile reads
// one stream. The order inside is that of the loops: axes shared with the other operand, panels, other free axes, summed axes, lanes. Left
// alone: operands with several uses, operands too small to gain, and contractions whose other operand is contiguous along an axis of its
// own (a convolution along its rows): there the lanes run along that axis.
#include "graph_passes.h"

#include <string.h>

#include "reads.h"
#include "rewrite.h"

enum { PANEL_VECTORS = 2 };

typedef struct {
    Uses u;
    const Target *target;
} Pack;

typedef struct {
    const char *own, *other, *out; // the operands' and the result's letters
    int rank, nother, nout;
} Letters;

static bool has(const char *letters, int n, char c) {
    return memchr(letters, c, (size_t)n) != NULL;
}

static Letters letters_of(const Node *n, int side) {
    const char *first = n->subs, *comma = strchr(first, ','), *arrow = strstr(first, "->");
    int nfirst = (int)(comma - first), nsecond = (int)(arrow - comma - 1);
    Letters l = {.out = arrow + 2, .nout = (int)strlen(arrow + 2)};
    l.own = side ? comma + 1 : first;
    l.other = side ? first : comma + 1;
    l.rank = side ? nsecond : nfirst;
    l.nother = side ? nfirst : nsecond;
    return l;
}

// The largest axis of the operand that only it and the result have; -1: none.
static int panel_axis(const Letters *l, const int64_t *extent) {
    int best = -1;
    for (int i = 0; i < l->rank; i++) {
        bool is_free = has(l->out, l->nout, l->own[i]) && !has(l->other, l->nother, l->own[i]);
        if (is_free && (best < 0 || extent[i] > extent[best])) best = i;
    }
    return best;
}

// The place in memory of the other operand's element at its axes.
static const Dim *place_of(DimTable *t, const Value *v) {
    bool view = v->def && v->def->op == G_view;
    const Value *x = view ? v->def->in[0] : v;
    const Dim *flat = dim_int(t, 0);
    for (int i = 0; i < x->rank; i++)
        flat = dim_add(t, dim_mul(t, flat, x->shape[i]), view ? v->def->index.data[i] : dim_axis(t, i, v->shape[i]));
    return flat;
}

// The coefficient of an axis of the other operand in its place in memory; NULL: the place is not linear in it.
static const Dim *step_of(DimTable *t, const Dim *place, const Value *other, int axis) {
    const Dim *coefficient, *rest;
    return dim_linear(t, place, dim_axis(t, axis, other->shape[axis]), &coefficient, &rest) ? coefficient : NULL;
}

// Elements one by one in the other operand's memory along axes that only it and the result have.
static const Dim *own_run(DimTable *t, const Letters *l, const Value *other, const Dim *place) {
    const Dim *run = dim_int(t, 1);
    for (int i = other->rank - 1; i >= 0; i--) {
        bool own = has(l->out, l->nout, l->other[i]) && !has(l->own, l->rank, l->other[i]);
        if (own && !dim_is(other->shape[i], 1) && step_of(t, place, other, i) == run) run = dim_mul(t, run, other->shape[i]);
    }
    return run;
}

// Summed axes step inside of that run: sliding windows, whose vectors would be loaded again and again at odd places.
static bool has_windows(DimTable *t, const Letters *l, const Value *other, const Dim *place, int64_t run) {
    int64_t step;
    for (int i = 0; i < other->rank; i++) {
        if (has(l->out, l->nout, l->other[i]) || dim_is(other->shape[i], 1)) continue;
        const Dim *coefficient = step_of(t, place, other, i);
        if (!coefficient || (dim_is_int(coefficient, &step) && step < run)) return true;
    }
    return false;
}

// The lanes should run along the other operand: it is contiguous there for many vectors, or the operand at hand has few of its own.
static bool prefers_other(DimTable *t, const Letters *l, const Value *other, int lanes, int64_t own) {
    enum { MANY_VECTORS = 12 };
    const Dim *place = place_of(t, other), *run = own_run(t, l, other, place);
    int64_t n;
    if (!dim_is_int(run, &n)) n = INT64_MAX; // many, for all that is known
    if (own < 2 * lanes) return n >= lanes;
    return n >= MANY_VECTORS * lanes && !has_windows(t, l, other, place, n);
}

// Axes of the operand outermost first, the panel's axis at its panels' place.
static int panel_order(const Letters *l, int axis, int *order) {
    int n = 0;
    for (int i = 0; i < l->rank; i++)
        if (i != axis && has(l->out, l->nout, l->own[i]) && has(l->other, l->nother, l->own[i])) order[n++] = i;
    order[n++] = axis;
    for (int i = 0; i < l->rank; i++)
        if (i != axis && has(l->out, l->nout, l->own[i]) && !has(l->other, l->nother, l->own[i])) order[n++] = i;
    for (int k = 0; k < l->nother; k++) // summed axes in the order of the loops: the first operand's
        for (int i = 0; i < l->rank; i++)
            if (l->own[i] == l->other[k] && !has(l->out, l->nout, l->own[i])) order[n++] = i;
    for (int i = 0; i < l->rank; i++)
        if (!has(l->out, l->nout, l->own[i]) && !has(l->other, l->nother, l->own[i])) order[n++] = i;
    return n;
}

// The elements of w in panels.
static Data panels(Arena *a, const Value *w, const int64_t *extent, const int *order, int axis, int panel) {
    int rank = w->rank;
    int64_t stride[GRAPH_MAX_RANK], packed[GRAPH_MAX_RANK], total = 1, at = panel;
    size_t size = (size_t)dtype_bytes(w->type);
    for (int i = rank - 1; i >= 0; i--) {
        stride[i] = total;
        total *= extent[i];
    }
    for (int k = rank - 1; k >= 0; k--) {
        packed[order[k]] = at;
        at *= order[k] == axis ? (extent[axis] + panel - 1) / panel : extent[order[k]];
    }
    Data out = {arena_alloc(a, (size_t)at * size), (size_t)at * size};
    const char *from = w->def->data.bytes;
    char *to = (char *)(uintptr_t)out.bytes;
    for (int64_t e = 0; e < total; e++) {
        int64_t place = 0;
        for (int i = 0; i < rank; i++) {
            int64_t d = e / stride[i] % extent[i];
            place += i == axis ? d / panel * packed[i] + d % panel : d * packed[i];
        }
        memcpy(to + (size_t)place * size, from + (size_t)e * size, size);
    }
    return out;
}

static Value *packed_view(Builder *b, const Value *w, const int64_t *extent, const int *order, int axis, int panel) {
    DimTable *t = b->g->dims;
    const Dim *shape[GRAPH_MAX_RANK], *index[GRAPH_MAX_RANK];
    for (int k = 0; k < w->rank; k++) {
        const Dim *d = dim_axis(t, order[k], w->shape[order[k]]);
        bool is_axis = order[k] == axis;
        shape[k] = dim_int(t, is_axis ? (extent[axis] + panel - 1) / panel : extent[order[k]]);
        index[k] = is_axis ? dim_floordiv(t, d, dim_int(t, panel)) : d;
    }
    shape[w->rank] = dim_int(t, panel);
    index[w->rank] = dim_mod(t, dim_axis(t, axis, w->shape[axis]), dim_int(t, panel));
    Value *p = g_const(b, w->type, w->rank + 1, shape, panels(b->g->arena, w, extent, order, axis, panel));
    return g_view(b, p, w->rank, (const Dim *const *)w->shape, index, 0, NULL, scalar_int(w->type, 0));
}

static Value *packed_operand(Pack *k, Builder *b, const Node *n, int side) {
    enum { LEAST = 64 };
    const Value *w = n->in[side];
    int64_t extent[GRAPH_MAX_RANK], total = 1;
    if (!w->def || w->def->op != G_const || k->u.uses[w->id] != 1 || w->rank < 2 || w->rank >= GRAPH_MAX_RANK) return NULL;
    if (!dtype_is_native(w->type)) return NULL;
    for (int i = 0; i < w->rank; i++) {
        if (!dim_is_int(w->shape[i], &extent[i])) return NULL;
        total *= extent[i];
    }
    Letters l = letters_of(n, side);
    int axis = panel_axis(&l, extent), order[GRAPH_MAX_RANK], lanes = k->target->vector_bits / 32;
    if (total < LEAST || axis < 0 || extent[axis] < lanes / 2 || prefers_other(b->g->dims, &l, n->in[!side], lanes, extent[axis]))
        return NULL;
    int widest = PANEL_VECTORS * lanes, panel = extent[axis] < widest ? power_of_two_from(extent[axis]) : widest;
    if (panel_order(&l, axis, order) != w->rank) return NULL;
    return packed_view(b, w, extent, order, axis, panel);
}

static bool pack_contraction(void *ctx, Node *n, Builder *b) {
    if (n->op != G_contract) return false;
    Value *in[2] = {n->in[0], n->in[1]};
    int side = 1;
    Value *packed = packed_operand(ctx, b, n, side);
    if (!packed) packed = packed_operand(ctx, b, n, side = 0);
    if (!packed) return false;
    in[side] = packed;
    Value *now = g_contract(b, n->subs, in[0], in[1], n->out[0]->type);
    now->label = n->out[0]->label;
    now->storage = n->out[0]->storage;
    graph_replace(b->g, n->out[0], now);
    return true;
}

bool pass_pack(Graph *g, const PassOptions *o) {
    if (!passes_for_speed(o)) return false;
    Arena *a = arena_new();
    Pack k = {uses_of(g, a), o->target};
    bool changed = graph_rewrite(g, pack_contraction, &k);
    arena_free(a);
    return changed;
}
