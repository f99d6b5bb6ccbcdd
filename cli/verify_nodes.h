// Which tensor do the graph passes change first?
#ifndef MLC_VERIFY_NODES_H
#define MLC_VERIFY_NODES_H

#include "compare.h"
#include "options.h"

// Evaluates the graph as read and after the graph passes on the same inputs and compares the tensors that have the same ONNX name, in
// order. Prints the first that differs (adds 1 to *differing) or how many agree. false after diag_error.
bool verify_nodes(const Options *o, const char *path, Tolerance t, int *differing, Diag *d);

#endif
