// What the running machine can do at most, measured with small Programs that the chosen backend compiles for its widest target: the measure
// that `bench --profile` holds kernels against.
#ifndef MLC_MACHINE_H
#define MLC_MACHINE_H

#include "exec.h"

typedef struct {
    const char *target;
    int threads;
    double gflops; // f32 multiply-adds (two operations each) on registers, on all threads together
    double gbs;    // 10^9 bytes read a second from memory larger than the caches, on all threads together
} MachineSpeed;

// Takes about half a second. false after diag_error.
bool machine_measure(Backend b, const ToolOptions *t, int threads, MachineSpeed *m, Diag *d);

#endif
