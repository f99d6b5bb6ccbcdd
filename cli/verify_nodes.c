// See verify_nodes.h. A pass may keep a tensor's name for the value that took its place; values without a name are not compared.
#include "verify_nodes.h"
#include "spec.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    const char *label, *node;
    Tensor t;
} Seen;

typedef struct {
    Arena *arena;
    VEC(Seen) list;
} Watch;

static void watch(void *ctx, const Value *v, const Tensor *t) {
    Watch *w = ctx;
    if (!v->label || v->region->owner) return;
    Seen s = {v->label, v->def ? v->def->label : NULL, tensor_new(w->arena, t->type, t->rank, t->shape)};
    if (t->bytes) memcpy(s.t.data, t->data, t->bytes);
    vec_push(w->arena, &w->list, s);
}

static const Seen *find(const Watch *w, const char *label) {
    for (int i = 0; i < w->list.n; i++)
        if (!strcmp(w->list.data[i].label, label)) return &w->list.data[i];
    return NULL;
}

// Inputs for all parameters of the graph, states included (as zeros).
static bool evaluate(const Options *o, const Graph *g, Watch *w, Diag *d) {
    Exec *e = exec_from_graph(g, d);
    if (!e) return false;
    Tensor *in = ARENA_ARRAY(w->arena, Tensor, e->nin + 1), *out = ARENA_ARRAY(w->arena, Tensor, e->nout + 1);
    e->watch = watch;
    e->watch_ctx = w;
    bool ok = spec_inputs(o, e, true, w->arena, in, d) && exec_run(e, in, out, w->arena, d) == 0;
    exec_free(e);
    return ok;
}

bool verify_nodes(const Options *o, const char *path, Tolerance tol, int *differing, Diag *d) {
    Pipeline p;
    Watch before = {.arena = o->arena}, after = {.arena = o->arena};
    bool ok = pipeline_options(&p, o, o->arena, d) && pipeline_import(&p, path, d) && evaluate(o, p.graph, &before, d) &&
              pipeline_graph(&p, path, d) && evaluate(o, p.graph, &after, d);
    int compared = 0;
    for (int i = 0; ok && i < after.list.n; i++) {
        const Seen *now = &after.list.data[i], *was = find(&before, now->label);
        if (!was) continue;
        compared++;
        Comparison c = tensor_compare(&now->t, &was->t, tol);
        if (c.ok) continue;
        printf("per node: the first tensor that differs is '%s'%s%s: %s\n", now->label, now->node ? " of node " : "",
            now->node ? now->node : "", c.text);
        ++*differing;
        pipeline_close(&p);
        return true;
    }
    if (ok) printf("per node: %d tensors with a name agree before and after the graph passes\n", compared);
    pipeline_close(&p);
    return ok;
}
