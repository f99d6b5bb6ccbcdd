// How a loop's iterations touch memory, and what a nest costs: what the choice of schedules stands on.
#ifndef MLC_ACCESS_H
#define MLC_ACCESS_H

#include "../../ir/loop_varying.h"

enum { NEST_MAX = 16 };

// A perfect nest of par loops.
typedef struct {
    Program *p;
    Stmt *loop[NEST_MAX]; // outermost first
    int n;
    Block *body; // of the innermost loop
} Nest;

// The perfect nest of par loops without step, with bounds that do not depend on each other, from f inwards.
Nest nest_of(Program *p, Stmt *f);
const Dim *extent_of(Program *p, const Stmt *loop);

// Iterations of an extent: its value, or a guess within its bounds.
double trips(const Dim *extent);
// The width of the panels in which b reads memory along sym: c when an index holds floordiv(sym, c), 0 when there are none.
int panel_width(const Block *b, const Dim *sym);
// Estimated cycles of one run of b when the iterations of the loop over `sym` (NULL: none) are `lanes` lanes: an access that all lanes
// share or that is contiguous costs one, any other one a lane.
double block_cost(Program *p, const Block *b, const Dim *sym, int lanes);
// b's loads by what they vary with: mix[varies with x][varies with y], each the number of runs of such a load.
typedef struct {
    double mix[2][2];
} LoadMix;
LoadMix load_mix(Program *p, const Block *b, const Dim *x, const Dim *y);
// Bytes of what the body loads along sym in one run of the loops from `first` on, of those loads that touch more than `above` bytes.
double streamed_bytes(const Nest *n, int first, const Dim *sym, double above);
// The widest element that b loads, stores or keeps, in bytes.
int widest_element(const Block *b);
int operations(const Block *b); // nodes of all expressions

#endif
