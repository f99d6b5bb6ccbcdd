// Passes: each is one file with one exported function that returns whether it changed something; their order and switches are rows of
// passes.def.
//
// run.c wraps every pass: verify after it, --dump-after, --time-passes, --check-each. passes/graph rewrites Graphs, passes/lower turns a
// Graph into a Program, passes/loop rewrites Programs.
#ifndef MLC_PASSES_H
#define MLC_PASSES_H

#include "../ir/target.h"

struct Graph;
struct Program;

typedef struct {
    const Target *target;
    int level; // 0..3 or LEVEL_SIZE
    int threads;
    const char *only;       // --passes=a,b: these and those that cannot be switched off; NULL: by level
    bool exact;             // those of `only` alone (mlc opt)
    const char *disabled;   // --disable-pass=a,b
    const char *dump_after; // pass names or "all"
    bool time_passes;
    // --check-each: called after every pass with what stands; false ends the run (a message was given). NULL: not asked for.
    bool (*check_graph)(void *ctx, const struct Graph *g, const char *pass, Diag *d);
    bool (*check_program)(void *ctx, const struct Program *p, const char *pass, Diag *d);
    void *check_ctx;
    const char *regions; // --region NAME=BYTES,…
} PassOptions;

enum { LEVEL_SIZE = 4 };
// Memory and code may grow for speed: a target with vectors, and not -Os.
static inline bool passes_for_speed(const PassOptions *o) {
    return o->target->vector_bits > 0 && o->level != LEVEL_SIZE;
}

// The number of lanes that holds n: the least power of two that is neither below n nor below 2.
static inline int power_of_two_from(int64_t n) {
    int p = 2;
    while (p < n) p *= 2;
    return p;
}

typedef enum { STAGE_GRAPH, STAGE_LOWER, STAGE_LOOP } PassStage;
typedef struct {
    const char *name;
    PassStage stage;
    int level; // lowest -O level that runs it
    const char *help;
} PassInfo;
const PassInfo *pass_info(int i); // NULL past the end

bool passes_run_graph(struct Graph *g, const PassOptions *o, Diag *d);        // false: a verifier or check failed
struct Program *passes_lower(struct Graph *g, const PassOptions *o, Diag *d); // NULL after diag_error
bool passes_run_loop(struct Program *p, const PassOptions *o, Diag *d);

#endif
