// The stages in their order, on one page: model file -> Graph -> Graph -> Program -> Program. The commands stop where they need to.
#ifndef MLC_PIPELINE_H
#define MLC_PIPELINE_H

#include "options.h"
#include "../codegen/codegen.h"
#include "../frontend/frontend.h"
#include "../ir/graph.h"
#include "../passes/passes.h"

enum { LEVELS_MAX = 4 };

// What --input, --output and --tap made of the model's interface (states are no inputs).
typedef struct {
    int nin, nout; // of the whole model
    int *in, *out; // of each input and output now: its place in the whole model's, -1: an inner tensor
} PipelineCut;

typedef struct {
    Arena *arena;
    FrontendOptions frontend;
    PassOptions passes;
    const char *text; // the effective options, for the emitted header
    const Options *options;
    bool verbose;
    // what stands; pipeline_close frees it
    Model *model;
    Graph *graph;
    Program *program;
    const Target *target;              // may have levels; the Programs are for them
    const Program *levels[LEVELS_MAX]; // nlevels > 1: all Programs, the first is `program`
    int nlevels;
    PipelineCut *cut;   // NULL: the model is whole
    DimTable *own_dims; // of a .loop file
} Pipeline;

// Fills the options of every stage from the command line. false after diag_error.
bool pipeline_options(Pipeline *p, const Options *o, Arena *a, Diag *d);

// Each runs the stages before it that have not run. `path` is a model, a .graph file or (program, optimised program) a .loop file. false
// after diag_error.
bool pipeline_import(Pipeline *p, const char *path, Diag *d);  // graph: as read
bool pipeline_graph(Pipeline *p, const char *path, Diag *d);   // graph: after passes/graph
bool pipeline_program(Pipeline *p, const char *path, Diag *d); // program: lowered, after passes/loop
void pipeline_close(Pipeline *p);

#endif
