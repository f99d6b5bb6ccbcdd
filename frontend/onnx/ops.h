// The table of operators.
#ifndef MLC_OPS_H
#define MLC_OPS_H

#include "import.h"

// The row of an operator in an opset version of its domain ("" is ai.onnx); NULL when there is none.
const OpRow *op_find(const char *domain, const char *name, int version);
bool op_known(const char *domain, const char *name); // in some version

#endif
