// Reshape and Slice whose numbers are data; see shape_data.c.
#ifndef MLC_SHAPE_DATA_H
#define MLC_SHAPE_DATA_H

#include "formula.h"

// x in the shape that the integers of `want` (of constant length) say when the model runs; NULL after a fault.
Value *reshape_by_data(ImportNode *n, Value *x, Value *want, bool zero_copies);
// Slice of opset 10 and later. false after a fault.
bool slice_of_data(ImportNode *n);

#endif
