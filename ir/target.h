// Targets: one table of machines (--target=NAME); `host` and `native` resolve to rows or to what the running CPU has.
#ifndef MLC_TARGET_H
#define MLC_TARGET_H

#include "base.h"

typedef struct {
    const char *name; // "x86-64-v3"
    const char *help;
    const char *features;                     // "avx2 fma f16c …": names of isa rows' features
    const char *c_target;                     // text of __attribute__((target("…"))), "" none
    const char *triple, *cpu, *llvm_features; // for LLVM
    int vector_bits;                          // widest vectors to schedule for; 0: scalar code
    int registers;                            // vector registers
    int pointer_bits;                         // width of idx
    bool hosted;                              // GNU C with vector types; false: plain C99 (generic and microcontrollers)
    int fma_bits;                             // widest float with a multiply-add instruction of one rounding; 0: none
    int l1, l2, l3;                           // bytes of data cache
    const char *levels; // code for each of these rows, ascending, and a choice among them at run time; NULL: code for this row
} Target;

const Target *target_find(const char *name);        // NULL when unknown; "native" and "host" look at the running CPU
const Target *target_level(const Target *t, int i); // i-th of its levels; the target itself is level 0 where it has none; NULL past the end
const Target *target_row(int i);                    // NULL past the end
bool target_runs_here(const Target *t);             // the running machine executes code for it
bool target_has(const Target *t, const char *feature);

#endif
