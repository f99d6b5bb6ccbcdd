// Loop and Scan as the Graph's loop.
//
//   Loop   body(iteration, condition, carried…) -> condition, carried…, scanned…
//   Scan   body(states…, slices…) -> states…, scanned…   with slice i of each scan input at iteration i; the trip count is the scanned
//   extent
// A carried value's extents are those of its initial value where the body gives them back unchanged; one that the body changes becomes a
// symbol of the region, and the body is imported again under it, until nothing changes any more. A first look (loop_study.c) takes out what
// the body never changes, and finds loops that only count.
#include "loop.h"
#include <string.h>

typedef struct {
    Value *x; // the whole scan input
    int axis;
    const Dim *len; // its extent there
    bool reverse;
} Slice;

typedef struct {
    bool scan; // Scan: the body neither sees nor gives iteration and condition
    Value *trip, *cond;
    int ncarried, nslices, nscanned;
    Value **init;
    bool *fixed, counted; // see LoopStudy
    Slice *slices;
    const Dim ***shape; // of the carried values inside
} LoopSpec;

// ---- the region ----

// x[…, iteration, …] without the axis.
static Value *slice_at(Builder *b, const Slice *s, Value *iteration) {
    DimTable *t = b->g->dims;
    const Dim *shape[MAX_RANK + 1], *index[MAX_RANK + 1], *last = dim_addi(t, s->len, -1);
    const Dim *v = dim_symbol(t, "v0", SYM_DATA, dim_int(t, 0), last);
    for (int i = 0, k = 0; i < s->x->rank; i++) {
        if (i == s->axis) {
            index[i] = s->reverse ? dim_sub(t, last, v) : v;
            continue;
        }
        shape[k] = s->x->shape[i];
        index[i] = dim_axis(t, k, shape[k]);
        k++;
    }
    return g_gather(b, s->x, 1, &iteration, &v, s->x->rank - 1, shape, index, 0, NULL, scalar_int(s->x->type, 0));
}

static Value *always(Builder *b) {
    int64_t one = 1;
    return g_const_ints(b, DT_bool, -1, &one);
}

// A region with the body in it; NULL after a fault.
static Region *loop_region(ImportNode *n, const LoopSpec *l) {
    Region *r = graph_region_new(n->b.g, NULL), *around = n->b.region;
    Value **args = ARENA_ARRAY(n->arena, Value *, 2 + l->ncarried + l->nslices), **outs;
    int nargs = 0, nouts;
    n->b.region = r;
    Value *iteration = graph_param(r, NULL, DT_i64, 0, NULL);
    graph_param(r, NULL, DT_bool, 0, NULL);
    if (!l->scan) args[nargs++] = iteration, args[nargs++] = always(&n->b); // the body runs while the condition holds: it sees true
    for (int i = 0; i < l->ncarried; i++)
        args[nargs++] = l->fixed[i] ? l->init[i] : graph_param(r, NULL, l->init[i]->type, l->init[i]->rank, l->shape[i]);
    for (int i = 0; i < l->nslices; i++) args[nargs++] = slice_at(&n->b, &l->slices[i], iteration);
    bool ok = attr_inline(n, "body", nargs, args, &nouts, &outs);
    if (ok && l->scan) vec_push(n->arena, &r->yields, always(&n->b));
    if (ok && !l->scan && l->counted) outs[0] = always(&n->b);
    if (ok && !l->scan) ok = (outs[0] = scalar_value(n, outs[0], DT_bool, "the body's condition")) != NULL;
    for (int i = 0; ok && i < nouts; i++) {
        int carried = i - !l->scan;
        if (carried < 0 || carried >= l->ncarried || !l->fixed[carried]) vec_push(n->arena, &r->yields, outs[i]);
    }
    n->b.region = around;
    return ok ? r : NULL;
}

static bool check_yields(ImportNode *n, const LoopSpec *l, const Region *r) {
    for (int i = 0, k = 1; i < l->ncarried; i++) {
        if (l->fixed[i]) continue;
        const Value *y = r->yields.data[k++], *x = l->init[i];
        if (y->type != x->type)
            return import_fail(n, "carried value %d is %s, the body gives %s", i, import_shape_text(n, x), import_shape_text(n, y));
        if (y->rank != x->rank)
            return import_unsupported(
                n, "carried value %d changes its rank, from %s to %s", i, import_shape_text(n, x), import_shape_text(n, y));
    }
    return true;
}

// Makes a symbol of each carried extent that the body does not give back; false when there was none.
static bool widen(ImportNode *n, LoopSpec *l, const Region *r) {
    bool changed = false;
    for (int i = 0, at = 1; i < l->ncarried; i++) {
        if (l->fixed[i]) continue;
        const Value *y = r->yields.data[at++];
        for (int k = 0; k < y->rank; k++) {
            if (dim_eq(n->dims, y->shape[k], l->shape[i][k]) == YES) continue;
            const Sym *s = dim_as_symbol(l->shape[i][k]);
            if (s && s->kind == SYM_DATA && l->shape[i][k] != l->init[i]->shape[k]) continue; // is one already
            l->shape[i][k] = NULL;
            changed = true;
        }
    }
    return changed;
}

static Region *import_body(ImportNode *n, LoopSpec *l) {
    Graph *g = n->b.g;
    l->shape = ARENA_ARRAY(n->arena, const Dim **, l->ncarried + 1);
    for (int i = 0; i < l->ncarried; i++)
        l->shape[i] = arena_copy(n->arena, l->init[i]->shape, sizeof(const Dim *) * (size_t)(l->init[i]->rank + 1));
    for (;;) {
        int onnx = g->nonnx, symbols = g->symbols.n;
        Region *r = loop_region(n, l);
        if (!r || !check_yields(n, l, r)) return NULL;
        if (!widen(n, l, r)) return r;
        g->nonnx = g->onnx_names.n = onnx;
        g->symbols.n = symbols;
        for (int i = 0; i < l->ncarried; i++)
            for (int k = 0; k < l->init[i]->rank; k++)
                if (!l->shape[i][k]) l->shape[i][k] = graph_symbol(g, "n", SYM_DATA, dim_int(n->dims, 0), NULL);
    }
}

// Sets n->out. false after a fault.
static bool import_loop_node(ImportNode *n, LoopSpec *l) {
    int ncarried = 0;
    Region *r = import_body(n, l);
    if (!r) return false;
    Value **init = ARENA_ARRAY(n->arena, Value *, l->ncarried + 1);
    for (int i = 0; i < l->ncarried; i++)
        if (!l->fixed[i]) init[ncarried++] = l->init[i];
    Node *node = g_loop(&n->b, l->trip, l->cond, ncarried, init, r, l->nscanned);
    for (int i = 0, at = 0; i < n->nout; i++) n->out[i] = i < l->ncarried && l->fixed[i] ? l->init[i] : node->out[at++];
    return true;
}

// Before the body is looked at: the counts of outputs fit, initial values are there.
static bool check_interface(ImportNode *n, LoopSpec *l) {
    int nouts = attr_graph_outputs(n, "body") - !l->scan;
    l->nscanned = nouts - l->ncarried;
    if (l->nscanned < 0) return import_fail(n, "its body has %d outputs beside the condition, expected at least %d", nouts, l->ncarried);
    if (n->nout > nouts) return import_fail(n, "has %d outputs, its body gives %d", n->nout, nouts);
    for (int i = 0; i < l->ncarried; i++)
        if (!l->init[i]) return import_fail(n, "the initial value of carried value %d is missing", i);
    return true;
}

// ---- Loop ----

// A negative count is none in ONNX, and endless in the Graph when it is a constant.
static Value *trip_count(ImportNode *n) {
    int64_t endless = -1, zero = 0, lo = -1, hi;
    if (n->nin < 1 || !n->in[0]) return g_const_ints(&n->b, DT_i64, -1, &endless);
    Value *v = scalar_value(n, n->in[0], DT_i64, "the trip count");
    if (v && v->content) dim_interval(v->content[0], &lo, &hi);
    return v && lo < 0 ? g_map2(&n->b, X_max, v, g_const_ints(&n->b, DT_i64, -1, &zero)) : v;
}

bool import_loop(ImportNode *n) {
    LoopSpec l = {.ncarried = n->nin > 2 ? n->nin - 2 : 0, .init = n->in + 2};
    l.trip = trip_count(n);
    l.cond = n->nin > 1 && n->in[1] ? scalar_value(n, n->in[1], DT_bool, "the condition") : always(&n->b);
    if (!l.trip || !l.cond || !check_interface(n, &l)) return false;
    LoopStudy s = {
        .trip = l.trip, .cond = l.cond, .ncarried = l.ncarried, .init = l.init, .fixed = ARENA_ARRAY(n->arena, bool, l.ncarried + 1)};
    if (!loop_study(n, &s)) return false;
    l.trip = s.trip;
    l.cond = s.cond;
    l.fixed = s.fixed;
    l.counted = s.counted;
    return import_loop_node(n, &l);
}

// ---- Scan ----

// Element i of a list attribute that may be absent (then 0).
static bool list_items(ImportNode *n, const char *attr, int count, IntList *list) {
    *list = attr_ints(n, attr);
    if (list->n == 0 || list->n == count) return true;
    return import_fail(n, "attribute '%s' has %d elements, expected %d", attr, list->n, count);
}

static int64_t item(IntList l, int i) {
    return l.n ? l.data[i] : 0;
}

static bool scan_slices(ImportNode *n, LoopSpec *l, Value **xs) {
    IntList axes, directions;
    bool v8 = n->version < 9;
    if (!list_items(n, v8 ? "directions" : "scan_input_directions", l->nslices, &directions)) return false;
    if (v8) axes = (IntList){NULL, 0};
    if (!v8 && !list_items(n, "scan_input_axes", l->nslices, &axes)) return false;
    l->slices = ARENA_ARRAY(n->arena, Slice, l->nslices);
    for (int i = 0; i < l->nslices; i++) {
        Slice *s = &l->slices[i];
        if (!xs[i]) return import_fail(n, "scan input %d is missing", i);
        if (xs[i]->rank == 0 || xs[i]->rank > MAX_RANK)
            return import_fail(n, "scan input %d is %s, it has no axis to scan", i, import_shape_text(n, xs[i]));
        *s = (Slice){.x = xs[i], .reverse = item(directions, i) == 1};
        if (!import_axis(n, item(axes, i), xs[i]->rank, &s->axis)) return false;
        s->len = xs[i]->shape[s->axis];
        Tri same = dim_eq(n->dims, s->len, l->slices[0].len);
        if (same == NO)
            return import_fail(n, "scan inputs have the lengths %s and %s", dim_text(n->dims, l->slices[0].len), dim_text(n->dims, s->len));
        const Dim *guards[2] = {dim_sub(n->dims, s->len, l->slices[0].len), dim_sub(n->dims, l->slices[0].len, s->len)};
        if (same == UNKNOWN) g_check(&n->b, NULL, 2, guards, CODE_SHAPE);
    }
    return true;
}

// A scanned output, stacked along axis 0 in order of iterations, as the attributes want it.
static Value *place_scanned(ImportNode *n, Value *v, int64_t axis, bool reverse) {
    int64_t perm[MAX_RANK + 2];
    int at;
    if (!import_axis(n, axis, v->rank, &at)) return NULL;
    if (reverse) v = g_slice(&n->b, v, 0, dim_addi(n->dims, v->shape[0], -1), v->shape[0], -1);
    if (at == 0) return v;
    for (int i = 0; i < v->rank; i++) perm[i] = i < at ? i + 1 : i == at ? 0 : i;
    return g_transpose(&n->b, v, perm);
}

static bool scan(ImportNode *n, int nstates, int nslices, Value **in) {
    LoopSpec l = {.scan = true, .ncarried = nstates, .nslices = nslices, .init = in};
    if (!scan_slices(n, &l, in + nstates)) return false;
    l.trip = g_dims(&n->b, -1, &l.slices[0].len);
    l.cond = always(&n->b);
    l.fixed = ARENA_ARRAY(n->arena, bool, nstates + 1);
    if (!check_interface(n, &l) || !import_loop_node(n, &l)) return false;
    IntList axes = {NULL, 0}, directions = {NULL, 0};
    if (n->version >= 9 &&
        (!list_items(n, "scan_output_axes", l.nscanned, &axes) || !list_items(n, "scan_output_directions", l.nscanned, &directions)))
        return false;
    for (int i = 0; i < n->nout; i++) {
        int k = i - nstates;
        if (k >= 0) n->out[i] = place_scanned(n, n->out[i], item(axes, k), item(directions, k) == 1);
        if (!n->out[i]) return false;
    }
    return true;
}

static bool scan_counts(ImportNode *n, int nin, int *nstates, int *nslices) {
    int64_t k = attr_int(n, "num_scan_inputs");
    if (k < 1 || k > nin) return import_fail(n, "num_scan_inputs is %lld, but the node has %d inputs to scan or carry", (long long)k, nin);
    *nslices = (int)k;
    *nstates = nin - (int)k;
    return true;
}

bool import_scan(ImportNode *n) {
    int nstates = 0, nslices = 0;
    return scan_counts(n, n->nin, &nstates, &nslices) && scan(n, nstates, nslices, n->in);
}

// Opset 8: every value has a batch axis in front, and sequences may have lengths. Done for a batch of one.
bool import_scan8(ImportNode *n) {
    int nstates = 0, nslices = 0;
    if (n->nin < 2) return import_fail(n, "has %d inputs, expected at least 2", n->nin);
    if (n->in[0]) return import_unsupported(n, "sequence_lens is not supported");
    if (!scan_counts(n, n->nin - 1, &nstates, &nslices)) return false;
    Value **in = ARENA_ARRAY(n->arena, Value *, n->nin);
    for (int i = 1; i < n->nin; i++) {
        Value *v = n->in[i];
        if (!v || v->rank == 0) return import_fail(n, "input %d has no batch axis", i);
        if (!dim_is(v->shape[0], 1))
            return import_unsupported(n, "a batch of %s is not supported in opset 8, only 1", dim_text(n->dims, v->shape[0]));
        in[i - 1] = g_squeeze(&n->b, v, 0);
    }
    if (!scan(n, nstates, nslices, in)) return false;
    for (int i = 0; i < n->nout; i++) n->out[i] = g_unsqueeze(&n->b, n->out[i], 0);
    return true;
}
