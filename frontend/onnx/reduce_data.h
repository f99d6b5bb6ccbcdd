// Reductions over axes that are data; see reduce_data.c.
#ifndef MLC_REDUCE_DATA_H
#define MLC_REDUCE_DATA_H

#include "formula.h"

typedef struct {
    int rank, count;                 // of the tensor; axes named
    const Dim *const *shape;         // of the tensor
    Value *reduced[GRAPH_MAX_RANK];  // bool scalars: axis i is reduced
    const Dim *kept[GRAPH_MAX_RANK]; // its extent afterwards: a size of the run, 1 or what it was
} DataAxes;

// Sets rank, count, shape and reduced from the integers of `axes`, rank 1 and of constant length, which name axes of a tensor of that rank
// (shape: x's); the run checks that they are distinct and inside. false after a fault.
bool data_flags(ImportNode *n, DataAxes *a, const Value *x, Value *axes, int rank);
// `kept` too.
bool data_axes(ImportNode *n, DataAxes *a, const Value *x, Value *axes);
// x reduced by kind, all axes kept.
Value *data_reduce(ImportNode *n, const DataAxes *a, const char *kind, Value *x);
Value *data_count(ImportNode *n, const DataAxes *a);             // elements reduced to one: an i64 scalar
Value *data_spread(ImportNode *n, const DataAxes *a, Value *y);  // a reduced tensor as one of the whole shape again
Value *data_squeeze(ImportNode *n, const DataAxes *a, Value *y); // without the reduced axes
bool data_range(ImportNode *n, Value *axes, int rank);           // the run checks that i64 axes lie inside of the rank

#endif
