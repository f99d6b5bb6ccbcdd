// `bench --profile` and the groups of `--compare`: the time of each kernel, taken by the hook of a model compiled with hooks, beside what
// it costs (loop_cost.h).
#ifndef MLC_PROFILE_H
#define MLC_PROFILE_H

#include "machine.h"
#include "../ir/loop_cost.h"

// A kernel of the program: medians over the runs, costs of a run (all its calls together).
typedef struct {
    const Kernel *kernel;
    int calls; // in a run
    double ms;
    KernelCost cost;
} ProfileRow;

typedef struct Profile Profile;
struct Profile {
    Arena *arena;
    Program *program;
    int n;
    ProfileRow *rows;  // those that ran, the slowest first (after profile_close)
    KernelCost cost;   // of all rows
    double run_ms;     // median of a run with hooks
    double kernel_ms;  // sum of the rows' times
    double outside_ms; // median of what a run spends outside of kernels
    // while it is taken
    int runs, cap;
    double *times, *run_times; // [run * kernels + kernel]
    int *calls;
    double start;
};

Profile *profile_open(Program *p, Arena *a, int most_runs);
bool profile_run(Profile *f, Exec *e, const Call *call, Diag *d); // one run more
void profile_close(Profile *f, const int64_t *dims);              // medians and costs; dims: values of the program's symbols

void profile_print(const Profile *f, const MachineSpeed *m);
void profile_json(Str *s, const Profile *f, const MachineSpeed *m); // `, "profile": […], …`
// Groups of kernels of f and of g that compute the same ONNX nodes, with the time of each side (profile_compare.c).
void profile_compare(const Profile *f, const Profile *g);
void profile_compare_json(Str *s, const Profile *f, const Profile *g); // `, "groups": […]`

#endif
