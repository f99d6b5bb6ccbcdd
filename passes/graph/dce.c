// dce: removes nodes without effect that nobody uses, in all regions.
#include "graph_passes.h"

bool pass_dce(Graph *g, const PassOptions *o) {
    (void)o;
    int before = g->body->nodes.n;
    graph_remove_dead(g);
    return g->body->nodes.n != before;
}
