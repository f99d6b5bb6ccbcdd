// Opens compiled models and runs them with the memory they need: shared libraries with a PREFIX_info table, or such a table in memory.
// SPDX-License-Identifier: 0BSD
#ifndef MLC_LOAD_H
#define MLC_LOAD_H

#include "abi.h"

typedef struct mlc_loaded mlc_loaded;

// Opens the library and its table PREFIX_info; NULL after a message in error[n]: no library, no table, another ABI, no memory.
mlc_loaded *mlc_load(const char *path, const char *prefix, char *error, size_t n);
// The same for a table in memory, which must outlive the result.
mlc_loaded *mlc_load_table(const mlc_model_info *info, char *error, size_t n);
void mlc_unload(mlc_loaded *m); // NULL is allowed
const mlc_model_info *mlc_loaded_info(const mlc_loaded *m);

// A model whose weights are apart: mlc_load maps the file beside the library that has .bin for .so; a table in memory is given its blob
// here (borrowed, aligned to 64, info->weights_bytes bytes). All of the blob is read once: 0, or the status for wrong weights, with which
// every run ends when the head is wrong, too.
int32_t mlc_loaded_set_weights(mlc_loaded *m, const void *blob, size_t bytes);

// Threads of all later runs: borrowed, NULL: the calling thread only.
void mlc_loaded_set_pool(mlc_loaded *m, mlc_pool *pool);
void *mlc_loaded_state(mlc_loaded *m);                  // info->state_bytes bytes, NULL when there is none
void mlc_loaded_set_seed(mlc_loaded *m, uint64_t seed); // of the model's random operators, 0 at first
// Of all later runs of a model compiled with hooks (abi.h); NULL: none.
void mlc_loaded_set_hook(mlc_loaded *m, int32_t (*hook)(void *user, int32_t kernel, int32_t phase), void *user);
void mlc_loaded_reset(mlc_loaded *m); // the state as at first

// Bytes of the outputs struct of abi.h, and where the part of dynamic output i lies in it.
size_t mlc_outputs_bytes(const mlc_model_info *info);
size_t mlc_outputs_dynamic(const mlc_model_info *info, int i);

// One run. The arena, regions and state are the loader's own, made at first use and kept. Returns the model's status; -2 (arena) when the
// sizes are out of bounds or there is no memory.
int32_t mlc_loaded_run(mlc_loaded *m, const int64_t *dims, const void *const *inputs, void *outputs);

#endif
