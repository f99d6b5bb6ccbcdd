// The operand of a register tile that each block of rows streams through again: whether it stays in the first cache, and what a copy of it
// in the order of use needs to know.
#ifndef MLC_OPERAND_H
#define MLC_OPERAND_H

#include "../../ir/target.h"
#include "access.h"

// A panel: what a block of `width` iterations of a nest's vector loop loads, neighbours in memory, once for each step of the reduction.
typedef struct {
    const LoopBuffer *buffer;
    const Stmt *loops[NEST_MAX]; // of the reduction, that move the panel's rows; outermost first
    int nloops;
    int64_t rows;
    double missing; // share of its cache lines that the first cache loses between two passes over the panel
} Operand;

// Finds such a panel of the body's only reduction: one load that nothing but the vector loop n->loop[vector] and loops of the reduction
// move, of constant extents and strides, of a buffer that the body does not use otherwise. False: there is none.
bool operand_find(const Nest *n, int vector, int width, const Target *t, Operand *out);
// Bytes of cache that an iteration of the reduction's outermost loop takes in a tile of `rows` iterations of n->loop[row] and `width` of
// n->loop[vector].
double operand_bytes(const Nest *n, const Stmt *reduce, int vector, int width, int row, int rows);

// True when no call passes a buffer that k writes as another parameter, nor a state's next value: what k writes is then marked as disjoint
// from what it reads. The memory plan lets an output take over an input only where the scheduled kernel allows it.
bool operand_set_apart(Program *p, Kernel *k);

#endif
