// Moving a buffer's accesses to another place: what compute_at, store_at, fold_storage, stage and pack share.
#ifndef MLC_LOOP_STORAGE_H
#define MLC_LOOP_STORAGE_H

#include "loop_region.h"
#include "loop_schedule.h"

// New index and step between lanes of an access.
typedef void PlaceFn(void *ctx, const Dim **index, int64_t *step);
// Every access of `from` below b becomes one of `to`, at the place that fn says.
void storage_rewrite(Program *p, Block *b, const LoopBuffer *from, LoopBuffer *to, PlaceFn *fn, void *ctx);

// A box of a buffer kept densely, row-major, in one of its own: the PlaceFn is storage_place.
typedef struct {
    DimTable *t;
    Digits g;
    const Dim *lo[REGION_DIGITS];
    int64_t stride[REGION_DIGITS], size;
} StorageBox;
StorageBox storage_box(DimTable *t, const Digits *g, const Region *r);
PlaceFn storage_place;

// NULL when nobody else sees b: a local, or a parameter that always is one temp of main that only this kernel uses. Else why not.
const char *storage_private(Schedule *s, const LoopBuffer *b);
// Declares the private buffer b in the loop's body, as small as the accesses there need; all of its accesses must be there.
bool storage_into(Schedule *s, LoopBuffer *b, Digits *g, Stmt *loop);
// Every element of b that is read below the block was written there before, by a nest that writes all of its box.
bool storage_is_covered(Schedule *s, const Digits *g, Block *block, const LoopBuffer *b);
// The buffer whose shape b has: its caller's where the parameter states none.
const LoopBuffer *storage_shape(Schedule *s, const LoopBuffer *b);
LoopPlace storage_declaration(Schedule *s, const LoopBuffer *b);            // its `local` statement; stmt NULL: a parameter
bool storage_is_inside(Schedule *s, const LoopBuffer *b, const Stmt *loop); // b is declared somewhere in the loop

#endif
