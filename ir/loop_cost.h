// What one call of a kernel costs, read off its statements: the one function behind `bench --profile`, schedules and reports.
#ifndef MLC_LOOP_COST_H
#define MLC_LOOP_COST_H

#include "loop.h"

typedef struct {
    double flops;         // arithmetic on floats, lane by lane; an fma is two
    double iops;          // arithmetic on integers, logic, comparisons, selects and casts
    double read, written; // bytes of the parameters that are touched, each element once
    double scalar;        // those of flops + iops that are done one at a time, outside of lanes
} KernelCost;

// The cost of a call of k with the given values of its free symbols (model dimensions, sizes and loop variables of main); where `value`
// gives INT64_MIN, a symbol counts as its upper bound, or its lower one when it has none.
// Work is what is executed: lanes that a mask switches off count, mathematical functions count as what they are made of. Index arithmetic
// (type idx) is addressing and does not count. A branch on data counts as its dearer side, a `while` as one iteration, and the merging of a
// reduction's parts not at all. A loop whose iterations differ in cost is counted iteration by iteration, or where it is long from its ends
// and samples between them. Bytes: what differs only in a loop that an index does not mention is one element; a parameter counts at most as
// the size of the buffer that main's first call passes for it. What several indices of a buffer have in common counts several times, up to
// that size.
KernelCost cost_kernel(Program *p, const Kernel *k, int64_t (*value)(void *ctx, const Dim *sym), void *ctx);

#endif
