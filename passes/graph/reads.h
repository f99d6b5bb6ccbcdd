// How often the kernels that follow read each element of a value if it were computed where it is used: what fuse and materialise decide by.
#ifndef MLC_READS_H
#define MLC_READS_H

#include "../../ir/graph.h"

typedef enum {
    READS_ONCE, // by one consumer, each element at most once
    READS_FEW,  // by one row-wise consumer, a few times
    READS_MANY  // by several consumers, or many times (contraction, broadcast, another region)
} Reads;

typedef struct {
    int *uses;     // [Value.id]: uses by nodes and yields of all regions
    Node **user;   // [Value.id]: the last node that uses it; NULL when only yields do
    bool *yielded; // [Value.id]: a region yields it
    int *first;    // [Value.id], one more: where its users begin in `users`
    Node **users;  // one a use by a node
} Uses;
Uses uses_of(const Graph *g, Arena *a);

// Reads of v through its user, given whether the user's own output is computed in place (inline) and then how that is read.
Reads reads_through(const Graph *g, const Uses *u, const Value *v, const Reads *reads, const bool *is_inline);

// Comes back to each element of its operands many times, or several times (softmax, norm).
bool reads_again(const Node *n);

#endif
