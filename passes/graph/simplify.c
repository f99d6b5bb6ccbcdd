// simplify: removes operations that change nothing. Those that only move elements are left to views.
//
//   map whose body is its only argument, of the same shape        -> the argument
//   concat of one; reduce over no axes (not arg…)                 -> the input
//   a loop's carried value that no iteration changes              -> its first value, inside and behind the loop
#include "graph_passes.h"

#include "rewrite.h"

#include <string.h>

static bool changes_nothing(const Node *n) {
    switch (n->op) {
    case G_map: return n->nin == 1 && n->body->op == X_arg && value_same_shape(n->in[0], n->out[0]);
    case G_concat: return n->nin == 1;
    case G_reduce: return n->axes.n == 0 && strncmp(n->kind, "arg", 3) != 0 && n->in[0]->type == n->out[0]->type;
    default: return false;
    }
}

static bool simplify_node(void *ctx, Node *n, Builder *b) {
    (void)ctx;
    if (!changes_nothing(n)) return false;
    Value *now = n->in[0];
    if (!now->label) now->label = n->out[0]->label;
    graph_replace(b->g, n->out[0], now);
    return true;
}

// Takes carried value i off loop n.
static void drop_carried(Node *n, int i) {
    Region *r = n->regions.data[0];
    memmove(&n->in[2 + i], &n->in[3 + i], (size_t)(n->nin - 3 - i) * sizeof *n->in);
    memmove(&n->out[i], &n->out[i + 1], (size_t)(n->nout - 1 - i) * sizeof *n->out);
    memmove(&r->params.data[2 + i], &r->params.data[3 + i], (size_t)(r->params.n - 3 - i) * sizeof *r->params.data);
    memmove(&r->yields.data[1 + i], &r->yields.data[2 + i], (size_t)(r->yields.n - 2 - i) * sizeof *r->yields.data);
    n->nin--;
    n->nout--;
    r->params.n--;
    r->yields.n--;
    for (int k = i; k < n->nout; k++) n->out[k]->out = k;
    for (int k = 2 + i; k < r->params.n; k++) r->params.data[k]->out = k;
}

typedef struct {
    Graph *g;
    bool changed;
} Invariants;

static void find_invariants(void *ctx, Node *n) {
    Invariants *v = ctx;
    if (n->op != G_loop) return;
    const Region *r = n->regions.data[0];
    for (int i = n->nin - 3; i >= 0; i--) {
        Value *param = r->params.data[2 + i], *first = n->in[2 + i];
        if (r->yields.data[1 + i] != param || !value_same_shape(param, first) || !value_same_shape(n->out[i], first)) continue;
        Value *last = n->out[i];
        drop_carried(n, i);
        graph_replace(v->g, param, first);
        graph_replace(v->g, last, first);
        v->changed = true;
    }
}

bool pass_simplify(Graph *g, const PassOptions *o) {
    (void)o;
    bool changed = false;
    while (graph_rewrite(g, simplify_node, NULL)) changed = true;
    Invariants v = {g, changed};
    graph_walk(g->body, find_invariants, &v);
    return v.changed;
}
