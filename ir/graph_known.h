// Constant contents found by evaluation (graph_known.c), for graph_infer_content.
#ifndef MLC_GRAPH_KNOWN_H
#define MLC_GRAPH_KNOWN_H

#include "graph.h"

// n has one integer or bool output of a constant shape with at most CONTENT_MAX elements: fills elem with them, false when they are not
// constant.
bool graph_known_content(Graph *g, const Node *n, const Dim **elem);

#endif
