// Inside of schedules: the primitives' common ground; schedule_apply is in loop.h, their meaning in docs/schedule.md.
#ifndef MLC_LOOP_SCHEDULE_H
#define MLC_LOOP_SCHEDULE_H

#include "loop.h"

enum { SCHEDULE_ARGS = 16 };

typedef struct {
    Program *p;
    Kernel *k;
    const char *name;                // of the primitive at hand
    const char *args[SCHEDULE_ARGS]; // its arguments
    int nargs;
    Diag *d;
} Schedule;

// A loop by its symbol's name with the block and position it stands at; stmt NULL: not found.
typedef struct {
    Stmt *stmt;
    Block *block;
    int at;
} LoopPlace;
LoopPlace schedule_find(Kernel *k, const char *name);
LoopPlace schedule_place(Kernel *k, const Stmt *s); // of any statement
void schedule_insert(Schedule *s, Block *b, int at, Stmt *now);
void schedule_remove(LoopPlace at);
// The same with a fault when there is none, or when it is not of a kind in `kinds` (letters p r s; R: a reduce statement).
bool schedule_loop(Schedule *s, int arg, const char *kinds, LoopPlace *out);
// A buffer of the kernel by its name, with a fault when there is none. Teams share buffers between their members: a fault too.
bool schedule_buffer(Schedule *s, int arg, LoopBuffer **out);
bool schedule_int(Schedule *s, int arg, int64_t least, int64_t *out);
bool schedule_fail(Schedule *s, const char *fmt, ...) __attribute__((format(printf, 2, 3))); // returns false

typedef bool ScheduleFn(Schedule *s);
ScheduleFn schedule_split, schedule_fuse, schedule_reorder, schedule_unroll, schedule_parallel; // loop_split.c
ScheduleFn schedule_jam;                                                                        // loop_jam.c
ScheduleFn schedule_vectorize, schedule_rfactor;                                                // loop_vectorize.c
ScheduleFn schedule_compute_at;                                                                 // loop_compute_at.c
ScheduleFn schedule_store_at, schedule_fold_storage;                                            // loop_storage.c
ScheduleFn schedule_stage, schedule_pack;                                                       // loop_stage.c
ScheduleFn schedule_parts;                                                                      // loop_parts.c
ScheduleFn schedule_version;                                                                    // loop_version.c
ScheduleFn schedule_tensorize;                                                                  // loop_tensorize.c

// Puts the statements of `now` in place of the one at `at`.
void schedule_replace(Schedule *s, LoopPlace at, const Block *now);

#endif
