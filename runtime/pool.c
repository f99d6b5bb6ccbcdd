// The thread pool of mlc_pool.h.
// SPDX-License-Identifier: 0BSD
//
// One job at a time: fn(ctx, i) for i in 0..n-1. Workers and the calling thread take the next index from a shared counter; a worker that
// finds no job spins for a short while, for jobs come in quick succession inside a run, then sleeps on a condition variable.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "mlc_pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SPINS = 20000, MAX_THREADS = 256 };

typedef struct {
    mlc_pool face;        // first: a pointer to it is a pointer to this
    pthread_mutex_t turn; // held by the thread whose job runs
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t threads[MAX_THREADS];
    int workers;  // threads besides the caller's
    int spins;    // before sleeping; 0 where threads outnumber processors
    bool stop;    // under lock
    int sleeping; // under lock
    void (*fn)(void *ctx, int64_t i);
    void *ctx;
    int64_t n;
    atomic_uint job;    // number of the current job
    atomic_llong next;  // index to take
    atomic_int running; // workers that have not finished the current job
} Pool;

static void pause_a_moment(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void work(Pool *p) {
    for (;;) {
        long long i = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
        if (i >= p->n) return;
        p->fn(p->ctx, i);
    }
}

// Waits until the job number is no longer `seen`; false when the pool ends.
static bool await_job(Pool *p, unsigned seen) {
    for (int i = 0; i < p->spins; i++) {
        if (atomic_load_explicit(&p->job, memory_order_acquire) != seen) return true;
        pause_a_moment();
    }
    pthread_mutex_lock(&p->lock);
    p->sleeping++;
    while (atomic_load_explicit(&p->job, memory_order_acquire) == seen && !p->stop) pthread_cond_wait(&p->wake, &p->lock);
    p->sleeping--;
    bool stop = p->stop;
    pthread_mutex_unlock(&p->lock);
    return !stop;
}

static void *worker(void *arg) {
    Pool *p = arg;
    for (unsigned seen = 0; await_job(p, seen);) {
        seen = atomic_load_explicit(&p->job, memory_order_acquire);
        work(p);
        atomic_fetch_sub_explicit(&p->running, 1, memory_order_release);
    }
    return NULL;
}

static void await_workers(Pool *p) {
    for (int i = 0; atomic_load_explicit(&p->running, memory_order_acquire) > 0; i++) {
        if (i < p->spins)
            pause_a_moment();
        else
            sched_yield();
    }
}

void mlc_pool_parallel_for(mlc_pool *pool, void (*fn)(void *ctx, int64_t i), void *ctx, int64_t n) {
    Pool *p = (Pool *)(void *)pool;
    if (n <= 1 || p->workers == 0) {
        for (int64_t i = 0; i < n; i++) fn(ctx, i);
        return;
    }
    pthread_mutex_lock(&p->turn);
    p->fn = fn;
    p->ctx = ctx;
    p->n = n;
    atomic_store_explicit(&p->next, 0, memory_order_relaxed);
    atomic_store_explicit(&p->running, p->workers, memory_order_relaxed);
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add_explicit(&p->job, 1, memory_order_release);
    if (p->sleeping) pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    work(p);
    await_workers(p);
    pthread_mutex_unlock(&p->turn);
}

// ---- size ----
static int affinity_threads(void) {
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

// Processors that the quota of a container is worth, rounded up; MAX_THREADS when there is none.
static int quota_threads(void) {
    long long quota = -1, period = 0;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (f) {
        if (fscanf(f, "%lld %lld", &quota, &period) != 2) quota = -1;
        fclose(f);
    }
    return quota > 0 && period > 0 ? (int)((quota + period - 1) / period) : MAX_THREADS;
}

int mlc_pool_default_threads(void) {
    int n = affinity_threads(), quota = quota_threads();
    if (n > quota) n = quota;
    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : n;
}

// ---- life ----
mlc_pool *mlc_pool_create(int threads) {
    int processors = mlc_pool_default_threads();
    if (threads <= 0) threads = processors;
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    Pool *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->face.parallel_for = mlc_pool_parallel_for;
    p->spins = threads <= processors ? SPINS : 0;
    pthread_mutex_init(&p->turn, NULL);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    while (p->workers < threads - 1 && pthread_create(&p->threads[p->workers], NULL, worker, p) == 0) p->workers++;
    p->face.threads = p->workers + 1;
    return &p->face;
}

void mlc_pool_destroy(mlc_pool *pool) {
    if (!pool) return;
    Pool *p = (Pool *)(void *)pool;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->workers; i++) pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->turn);
    free(p);
}
