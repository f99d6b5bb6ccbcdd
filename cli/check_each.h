// --check-each: after every pass the Graph or Program is evaluated on the same inputs as the model before any pass; the first pass that
// changes a result beyond rounding is named.
#ifndef MLC_CHECK_EACH_H
#define MLC_CHECK_EACH_H

#include "pipeline.h"

typedef struct CheckEach CheckEach;
// Makes inputs for g (those given by --in, the rest random) and its reference outputs. NULL after diag_error.
CheckEach *check_each_open(const Options *o, const Graph *g, Arena *a, Diag *d);
// Callbacks of PassOptions: ctx is the CheckEach.
bool check_each_graph(void *ctx, const Graph *g, const char *pass, Diag *d);
bool check_each_program(void *ctx, const Program *p, const char *pass, Diag *d);

#endif
