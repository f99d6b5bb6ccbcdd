// The conformance runner: every case of a folder in the backend-test layout through graph_eval, emitted C and LLVM.
//
// conform.c reads the lists and reports, pool.c shares the batches among processes and survives their crashes, stages.c runs the cases of a
// batch.
#ifndef MLC_CONFORM_H
#define MLC_CONFORM_H

#include "../../cli/compare.h"
#include "../../cli/exec.h"

typedef enum { STAGE_EVAL, STAGE_C, STAGE_LLVM, STAGE_COUNT } Stage;
extern const char *const stage_names[STAGE_COUNT];

typedef enum { RESULT_NONE, RESULT_PASS, RESULT_FAIL } ResultKind;
typedef struct {
    ResultKind kind;
    char text[256]; // why not
} Result;

// How a case is compared (special.txt).
typedef enum { MODE_VALUES, MODE_SHAPE, MODE_SKIP } Mode;
typedef struct {
    const char *name;
    Tolerance tolerance;
    Mode mode;
    bool listed[STAGE_COUNT]; // must pass (passing.txt)
} Case;

// What a worker process leaves behind, in memory shared with its parent.
typedef struct {
    Result result[STAGE_COUNT];
    bool begun[STAGE_COUNT]; // set before a stage runs: a crash happened in the last stage that has no result
    bool emitted;            // its C source stands in the batch's folder
} CaseState;

typedef struct {
    const char *folder;   // of the cases
    const char *temp;     // for emitted C
    const char *cc;       // C compiler with its flags
    const char *disabled; // passes left out, NULL: none
    int jobs, batch, timeout;
    bool stages[STAGE_COUNT];
    Case *cases;
    int ncases;
    CaseState *state; // shared
} Conform;

// Runs all cases; results are in c->state.
void conform_run(Conform *c);

// In a worker: cases first..first+n-1. Phase 1: everything but C, whose source is written; phase 2: compiles the sources and runs them.
// Cases that have begun a stage without a result (an earlier worker died there) are not tried again.
void conform_phase1(Conform *c, int first, int n);
void conform_phase2(Conform *c, int first, int n);

void result_set(Result *r, ResultKind kind, const char *text);

#endif
