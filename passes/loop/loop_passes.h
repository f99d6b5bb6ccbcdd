// Passes on Programs: one file each, one exported function; the rows of passes.def in the same order.
#ifndef MLC_LOOP_PASSES_H
#define MLC_LOOP_PASSES_H

#include "../../ir/loop.h"
#include "../passes.h"

#define P_graph(name)
#define P_loop(name) bool pass_##name(Program *p, const PassOptions *o, Diag *d);
#define P(stage, name, level, help) P_##stage(name)
#include "../passes.def"
#undef P
#undef P_graph
#undef P_loop

#endif
