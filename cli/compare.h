// Comparing a computed tensor with a reference.
#ifndef MLC_COMPARE_H
#define MLC_COMPARE_H

#include "../ir/graph.h"

typedef struct {
    double rtol, atol; // floats: |found - expected| <= atol + rtol * |expected|; other types must be equal
    int64_t ulp;       // or at most so many units in the last place
    double scaled;     // or at most so much of the largest finite expected magnitude
    int64_t steps;     // integers of at most 8 bits (quantised values): |found - expected| <= steps
} Tolerance;

typedef struct {
    bool ok;
    int64_t differing;     // elements outside the tolerance
    double max_difference; // of float elements that are finite on both sides
    double max_magnitude;  // of the expected elements
    char text[240];        // what differs first, "" when ok
} Comparison;

// NaN equals NaN, infinities equal themselves. Type and shape must be equal.
Comparison tensor_compare(const Tensor *found, const Tensor *expected, Tolerance t);

#endif
