// A pool of threads for compiled models: one pool serves all models of a process, sleeps when idle, and needs pthreads only.
// SPDX-License-Identifier: 0BSD
//
//   mlc_pool *pool = mlc_pool_create(0);
//   env.pool = pool; … model_run_env(&dims, &in, &out, &env); …
//   mlc_pool_destroy(pool);
//
// Link runtime/pool.c or compile it with the program. Runs from several threads at once take turns.
#ifndef MLC_POOL_H
#define MLC_POOL_H

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

// threads: how many work at once, the calling one included; 0: as many as the process may use (affinity and cgroup quota). NULL: no memory.
mlc_pool *mlc_pool_create(int threads);
void mlc_pool_destroy(mlc_pool *pool); // NULL is allowed; no run may be under way
void mlc_pool_parallel_for(mlc_pool *pool, void (*fn)(void *ctx, int64_t i), void *ctx, int64_t n);
int mlc_pool_default_threads(void);

#ifdef __cplusplus
}
#endif

#endif
