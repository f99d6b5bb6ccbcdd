// Lanes: statements of one iteration rewritten to compute n iterations at once. Private to the schedule primitives.
//
// The iterations differ in one symbol (or in one each of several pieces of code), which is a base + lane; what is computed from it
// (loop_varying.h) becomes n lanes wide, the rest stays scalar. A condition that differs between the lanes becomes a mask of stores, loads
// and sets. Loads and stores whose index is linear in the symbol are contiguous or strided, others gather and scatter.
#ifndef MLC_LOOP_LANES_H
#define MLC_LOOP_LANES_H

#include "loop_varying.h"

enum { LANE_SYMBOLS = 2 };

typedef struct {
    Program *p;
    int n;
    int nsyms;
    const Dim *sym[LANE_SYMBOLS], *base[LANE_SYMBOLS]; // sym is base + lane
    const Expr *tail;                                  // the mask of the whole block: one of its lanes at least is on; NULL: all are
    Varying varying;
    PtrMap kept;       // variables of outside: lanes that are off keep their value
    PtrMap symbol;     // idx lets that differ: index into `wide`
    VEC(Var *) wide;   // their lanes
    const char *fault; // why the block cannot be rewritten
} Lanes;

Lanes lanes_new(Program *p, int n);
void lanes_symbol(Lanes *l, const Dim *sym, const Dim *base);
void lanes_variable(Lanes *l, Var *v); // v has a value a lane when the block begins, or is a state or variable that gets one
// An if of the block whose condition is true for one lane at least: a tail, as that of lanes_block.
void lanes_tail(Lanes *l, const Stmt *condition);
// Finds what differs in block b and checks it; b is not changed. False with the fault when a statement has no form in lanes.
bool lanes_prepare(Lanes *l, const Block *b);
// Appends the statements of `from`, which must be the block prepared (its variables change their types), in lanes to `to`. Lanes off in
// tail (NULL: none) have no effect; one at least is on.
void lanes_block(Lanes *l, Block *to, const Block *from, const Expr *tail);
// Lanes [0, count) of n, for tails: a mask.
const Expr *lanes_first(Program *p, int n, const Dim *count);

#endif
