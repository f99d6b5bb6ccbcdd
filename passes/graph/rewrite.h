// The frame of passes that visit every node once and may replace it.
#ifndef MLC_REWRITE_H
#define MLC_REWRITE_H

#include "../../ir/graph.h"

// Visits the nodes of every region in order. fn gets each node and a Builder that appends before it (with the node's label, operator and
// number); it returns false to keep the node, or true after it has replaced all its outputs by others (graph_replace): then the node is
// dropped. Returns whether any node was dropped. Regions of a kept node are visited after it.
bool graph_rewrite(Graph *g, bool (*fn)(void *ctx, Node *n, Builder *b), void *ctx);

#endif
