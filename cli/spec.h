// Inputs given on the command line: -i NAME=SPEC (the grammar is in spec.c's head) becomes one tensor a port.
#ifndef MLC_SPEC_H
#define MLC_SPEC_H

#include "exec.h"

// Reads all --in options for e's ports into inputs[e->nin], in `a`. With `fill`, inputs that are not given are random and free dimensions
// get small sizes; without it they are faults. false after diag_error.
bool spec_inputs(const Options *o, const Exec *e, bool fill, Arena *a, Tensor *inputs, Diag *d);

#endif
