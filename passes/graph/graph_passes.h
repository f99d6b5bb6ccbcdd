// Passes on Graphs: one file each, one exported function; the rows of passes.def in the same order.
#ifndef MLC_GRAPH_PASSES_H
#define MLC_GRAPH_PASSES_H

#include "../../ir/graph.h"
#include "../passes.h"

#define P_graph(name) bool pass_##name(Graph *g, const PassOptions *o);
#define P_loop(name)
#define P(stage, name, level, help) P_##stage(name)
#include "../passes.def"
#undef P
#undef P_graph
#undef P_loop

#endif
