// The binary interface of a compiled model: what PREFIX_info points at. Shared by emitted code (pasted), the loader and the LLVM printer.
// SPDX-License-Identifier: 0BSD
#ifndef MLC_ABI_H
#define MLC_ABI_H

#include <stddef.h>
#include <stdint.h>

#define MLC_ABI 4

typedef struct mlc_tensor_info {
    const char *name; // C name
    const char *onnx_name;
    int32_t dtype; // TensorProto.DataType
    int32_t rank;
    const char *const *shape; // one Dim text an axis ("N", "3", "2*N + 1")
    int32_t state;            // index of the state it is tied to, or -1
    int32_t dynamic;          // output: some extent is known only after the run
} mlc_tensor_info;

// The structs of every model are arrays in disguise:
//   inputs   `const void *ptr[ninputs]`
//   outputs  `void *ptr[noutputs]`, then for each dynamic output in order { size_t capacity (elements); int64_t shape[rank]; }
//   dims     `int64_t d[ndims]` (one int64_t when there are none)
// A null output is not wanted. A tied output lives in the state; where its pointer is not null it gets a copy. Statuses are 0 or
// -(code + 256 * node): the codes stand in the model's header, `node` counts the ONNX nodes from 1.

// A pool of threads. Models reach it through its own functions, so that a model needs nothing linked; mlc_pool.h makes one.
typedef struct mlc_pool {
    int32_t threads; // how many work at the same time, the calling one included
    // Runs fn(ctx, i) for each i in 0..n-1 in any order and grouping, returns when all are done. Never called from inside fn.
    void (*parallel_for)(struct mlc_pool *pool, void (*fn)(void *ctx, int64_t i), void *ctx, int64_t n);
} mlc_pool;

// What a caller may state. Zero means default everywhere but in struct_size and, where the model needs it, arena and state.
typedef struct mlc_env {
    size_t struct_size; // sizeof(mlc_env) of the caller
    void *arena;        // arena_bytes(dims, threads) bytes, aligned to 64
    size_t arena_bytes;
    void *const *regions; // named memory regions: region R of model M at [M_REGION_R]; NULL: none
    const void *weights;
    size_t weights_bytes;
    void *state;           // PREFIX_STATE_BYTES, initialised by PREFIX_state_init
    struct mlc_pool *pool; // threads; NULL: the calling thread only
    void (*parallel_for)(void *host, void (*fn)(void *ctx, int64_t i), void *ctx, int64_t n); // instead of pool
    void *host;                                                                               // first argument of parallel_for
    void *(*alloc)(void *user, size_t bytes);
    void (*dealloc)(void *user, void *p);
    void *user;
    uint64_t seed;
    // Called by models compiled with --hooks only (their table's nkernels is not 0), always on the thread that called the run: before a
    // kernel (phase 0) and after it (phase 1; not when it failed). Any result but 0 ends the run with the status `cancelled`, 10, of the
    // kernel's node. `kernel` counts from 0 in the order of the table and of the list in the model's header; a kernel that runs several
    // times has one number.
    int32_t (*hook)(void *user, int32_t kernel, int32_t phase);
    const size_t *region_bytes; // what each of `regions` holds: too little is an error; NULL: not checked
} mlc_env;

typedef struct mlc_model_info {
    uint32_t abi;
    const char *name;
    const char *version;
    int32_t ninputs, noutputs, ndims, nstates, nnodes, nregions;
    const mlc_tensor_info *inputs, *outputs;
    const char *const *dims; // names
    const int64_t *dim_lo, *dim_hi;
    const char *const *nodes; // ONNX node names
    size_t state_bytes;
    size_t (*arena_bytes)(const int64_t *dims, int threads); // SIZE_MAX: out of bounds or overflow
    int32_t (*run_env)(const int64_t *dims, const void *const *inputs, void *outputs, const mlc_env *env);
    void (*state_init)(void *state);
    const char *const *regions; // names
    const size_t *region_bytes;
    int32_t team;         // members of the largest team, 0: none; fewer threads do their work in turn
    size_t weights_bytes; // of the blob that env->weights must point at, aligned to 64; 0: the model holds its constants
    int32_t (*weights_check)(const void *weights, size_t bytes); // reads all of it: 0, or the status for wrong weights; NULL: no blob
    int32_t nkernels;                                            // of env->hook; 0 in models without hooks
    const char *const *kernels, *const *kernel_nodes;            // names, and the ONNX nodes each one computes ("": none)
} mlc_model_info;

#endif
