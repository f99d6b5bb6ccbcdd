// simplify: removes operations that change nothing. Those that only move elements are left to views.
//
//   map whose body is its only argument, of the same shape        -> the argument
//   concat of one; reduce over no axes (not arg…)                 -> the input
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

bool pass_simplify(Graph *g, const PassOptions *o) {
    (void)o;
    bool changed = false;
    while (graph_rewrite(g, simplify_node, NULL)) changed = true;
    return changed;
}
