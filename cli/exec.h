// A model that can be run: compiled by LLVM in process, compiled by the C compiler and loaded, or the reference evaluator on its Graph.
//
// All three look the same: ports with names, types and shapes over the model's dimensions; tensors in, tensors out. The commands and the
// conformance test run models through this interface only.
#ifndef MLC_EXEC_H
#define MLC_EXEC_H

#include "pipeline.h"
#include "../runtime/load.h"
#include "../runtime/mlc_pool.h"

typedef struct {
    const char *name;  // C name
    const char *label; // ONNX name
    DType type;
    int rank;
    const Dim **shape; // over the Exec's dims and, for dynamic outputs, symbols known after the run only
    bool dynamic;
} Port;

typedef struct Exec Exec;
struct Exec {
    Arena *arena;
    DimTable *table;
    int nin, nout, ndims;
    Port *in, *out;
    const Dim **dims; // symbols, in the interface's order
    int64_t *dim_lo, *dim_hi;
    // how it runs: one of
    mlc_loaded *model;
    const mlc_model_info *info; // the model's
    const Graph *graph;
    int *graph_inputs; // graph: Port i is parameter graph_inputs[i] (the others are states)
    Tensor *states;    // graph: current state tensors, one a StateTie
    bool states_set;
    void (*watch)(void *ctx, const Value *v, const Tensor *t); // graph: sees every value, may be NULL
    void *watch_ctx;
    LlvmJit *jit;
    mlc_pool *pool;
};

typedef enum { BACKEND_LLVM, BACKEND_C, BACKEND_EVAL } Backend;
bool backend_parse(const Options *o, Backend *b, Diag *d); // --backend, or what is built in

// How a model is compiled: how the C compiler is called and where its results are kept.
typedef struct {
    const char *cc;    // command, may hold arguments; NULL: $CC or cc
    const char *level; // "-O2"
    const char *more;  // one more flag, or NULL
    bool cache;
    bool hooks; // the model, by whatever backend, calls env's hook
} ToolOptions;

// NULL after diag_error. A table in memory, the Program and the Graph must outlive the Exec; exec_from_model takes the model.
Exec *exec_from_model(mlc_loaded *model, Diag *d);
Exec *exec_from_info(const mlc_model_info *info, Diag *d);
Exec *exec_from_library(const char *path, const char *prefix, Diag *d);
Exec *exec_from_graph(const Graph *g, Diag *d);
Exec *exec_llvm(const Program *p, int level, Diag *d);
Exec *exec_c(const Program *p, const char *options, const ToolOptions *t, Diag *d);
// Runs the pipeline as far as the backend needs, then one of the above.
Exec *exec_open(Pipeline *p, const char *path, Backend b, const ToolOptions *t, Diag *d);
void exec_free(Exec *e);
void exec_set_threads(Exec *e, int threads); // of a compiled model's runs; 1 at first
void exec_set_seed(Exec *e, uint64_t seed);
size_t exec_arena_bytes(const Exec *e, const int64_t *dims); // 0 for the evaluator

// Values of the dimensions from the inputs' shapes (types and ranks are checked first); reports contradictions and bounds. dims: e->ndims
// values.
bool exec_bind(const Exec *e, const Tensor *inputs, int64_t *dims, Diag *d);
// One run; outputs in `arena`. 0, or the model's negative status after a message in d.
int exec_run(Exec *e, const Tensor *inputs, Tensor *outputs, Arena *arena, Diag *d);
void exec_reset(Exec *e); // states to their first values

// The parts of exec_run, for timing: everything is prepared once, then exec_call only calls the compiled model. `outputs` come from an
// exec_run before.
typedef struct {
    int64_t *dims;
    const void **in;
    void *out; // the outputs struct
} Call;
bool exec_prepare(Exec *e, const Tensor *inputs, const Tensor *outputs, Call *call, Arena *arena, Diag *d);
int exec_call(Exec *e, const Call *call);

// Compiles emitted C into the shared library `path`.
bool toolchain_shared(const Str *source, const ToolOptions *t, const char *path, Diag *d);
// The same of a source in n texts, which are compiled side by side.
bool toolchain_shared_parts(const Str *text, int n, const ToolOptions *t, const char *path, Diag *d);
// The same into an object; flag: one more argument, or NULL.
bool toolchain_object(const Str *source, const ToolOptions *t, const char *flag, const char *path, Diag *d);
// Runs the C compiler with these arguments (NULL-terminated); reports its output on failure.
bool toolchain_run(const ToolOptions *t, const char *const *args, Diag *d);
// The words of $CC or --cc. The count.
int toolchain_words(Arena *a, const ToolOptions *t, const char **words, int max);

#endif
