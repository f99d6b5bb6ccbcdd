// What differs between the iterations of a loop: the loop's symbol, and every variable and symbol computed from it. Schedule primitives
// that run iterations side by side (lanes, jam) keep the rest as it is.
#ifndef MLC_LOOP_VARYING_H
#define MLC_LOOP_VARYING_H

#include "loop.h"
#include "ptr_map.h"

typedef struct {
    PtrMap set;        // symbols and variables
    const Stmt *plain; // an if whose condition does not make what it sets differ (lanes off there hold anything); NULL: none
    bool changed;
} Varying;

// An empty set in arena a.
Varying varying_new(Arena *a);
void varying_add(Varying *v, const void *symbol_or_var);
bool varying_has(const Varying *v, const void *symbol_or_var);
bool varying_dim(const Varying *v, const Dim *d);
bool varying_expr(const Varying *v, const Expr *e);
// Adds what the statements of b define or set from members of the set (or under a condition that is one), until nothing more is found.
// Local buffers declared in b are members: each iteration has its own.
void varying_close(Varying *v, const Block *b);

#endif
