// Reshape, Slice, Squeeze and Unsqueeze whose numbers are data; see shape_data.c.
#ifndef MLC_SHAPE_DATA_H
#define MLC_SHAPE_DATA_H

#include "formula.h"

// x in the shape that the integers of `want` (of constant length) say when the model runs; NULL after a fault.
Value *reshape_by_data(ImportNode *n, Value *x, Value *want, bool zero_copies);
// Slice of opset 10 and later. false after a fault.
bool slice_of_data(ImportNode *n);
bool squeeze_of_data(ImportNode *n);                   // of opset 13 and later
bool unsqueeze_of_data(ImportNode *n);                 // the same
bool numbers_are_data(const ImportNode *n, int input); // an input that is there, not empty, and unknown before the run
// The number that a list (i64, rank 1) has for an axis, where the axes themselves are data; `missing` when they do not name it. NULL after a
// fault.
Value *number_for(ImportNode *n, Value *list, Value *axes, int axis, int rank, const Dim *missing);

#endif
