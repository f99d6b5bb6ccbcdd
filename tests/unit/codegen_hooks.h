// What the tests of both printers share about hooks: a program whose kernels run once, twice, over threads and into an error, and the check
// of the calls its hook must see, wherever it cancels.
#ifndef MLC_TEST_CODEGEN_HOOKS_H
#define MLC_TEST_CODEGEN_HOOKS_H

#include "codegen_agree.h"
#include <pthread.h>

static const char hooks_text[] =
    "program p\ninput x: f32[64, 64]\ninput ix: i64[1]\noutput y: f32[1]\ntemp t: f32[64] unbounded\n"
    "node 1 \"Sum_1\"\nnode 2 \"Mul_2\"\nnode 3 \"Gather_3\"\n"
    "kernel a \"Sum_1, Relu_1\" node 1 (x: f32 in, t: f32 out disjoint) {\n  for i in 0..64 par parallel {\n"
    "    reduce j in 0..64 (s: f32 = 0.0f32) {\n      set s = s + x[64*i + j]\n    }\n    t[i] = s\n  }\n}\n"
    "kernel b node 2 (t: f32 inout) {\n  for i in 0..64 par {\n    t[i] = t[i] + t[i]\n  }\n}\n"
    "kernel c \"Gather_3\" node 3 (t: f32 in, ix: i64 in, y: f32 out disjoint) {\n"
    "  let j: idx 0..63 = index(cast.idx(ix[0]), 64)\n  y[0] = t[j]\n}\n"
    "main {\n  alloc t\n  call a(x, t) parallel\n  for r in 0..2 seq {\n    call b(t)\n  }\n  call c(t, ix, y)\n  free t\n}\n";

// What the hook is called with, in order: 2 * kernel + phase.
static const int hooks_order[] = {0, 1, 2, 3, 2, 3, 4, 5};
enum { HOOK_CALLS = sizeof hooks_order / sizeof *hooks_order };

typedef struct {
    int seen, stop, live; // stop: the call that cancels, -1 none; live: memory from the allocator
    pthread_t caller;
} HookLog;

static int32_t hook_note(void *user, int32_t kernel, int32_t phase) {
    HookLog *h = user;
    ck_assert(pthread_equal(h->caller, pthread_self()));
    ck_assert_int_lt(h->seen, HOOK_CALLS);
    ck_assert_int_eq(2 * kernel + phase, hooks_order[h->seen]);
    return h->seen++ == h->stop ? 7 : 0;
}

static void *hook_alloc(void *user, size_t bytes) {
    ((HookLog *)user)->live++;
    return aligned_zero(bytes);
}

static void hook_free(void *user, void *p) {
    ((HookLog *)user)->live--;
    free(p);
}

// One run whose hook cancels at call `stop`; ix: the index read. Returns the status.
static int run_hooked(const mlc_model_info *info, mlc_pool *pool, int stop, int64_t ix, HookLog *log, float *y) {
    static float x[64 * 64];
    for (int i = 0; i < 64 * 64; i++) x[i] = (float)(i % 5);
    *log = (HookLog){.stop = stop, .caller = pthread_self()};
    mlc_env env = {.struct_size = sizeof env, .alloc = hook_alloc, .dealloc = hook_free, .user = log, .pool = pool, .hook = hook_note};
    env.arena_bytes = info->arena_bytes(NULL, 1);
    env.arena = aligned_zero(env.arena_bytes);
    int status = info->run_env(NULL, (const void *[]){x, &ix}, (void *[]){y}, &env);
    ck_assert_int_eq(log->live, 0);
    free(env.arena);
    return status;
}

static inline void check_hooks(const mlc_model_info *info, mlc_pool *pool) {
    static const int nodes[] = {1, 2, 3};
    HookLog log;
    float y = 0;
    ck_assert_int_eq(info->nkernels, 3);
    ck_assert_str_eq(info->kernels[1], "b");
    ck_assert_str_eq(info->kernel_nodes[0], "Sum_1, Relu_1");
    ck_assert_str_eq(info->kernel_nodes[1], "");
    ck_assert_int_eq(run_hooked(info, pool, -1, 3, &log, &y), 0);
    ck_assert_int_eq(log.seen, HOOK_CALLS);
    ck_assert_float_eq(y, 4 * (64 / 5 * 10 + 2 + 3 + 4 + 0)); // row 3 of i % 5: twelve times 2, 3, 4, 0, 1, then 2, 3, 4, 0
    for (int stop = 0; stop < HOOK_CALLS; stop++) {
        y = -1;
        ck_assert_int_eq(run_hooked(info, pool, stop, 3, &log, &y), -(CODE_CANCELLED + 256 * nodes[hooks_order[stop] / 2]));
        ck_assert_int_eq(log.seen, stop + 1);
        if (stop <= 6) ck_assert_float_eq(y, -1);
    }
    ck_assert_int_eq(run_hooked(info, pool, -1, 64, &log, &y), -(CODE_INDEX + 256 * 3));
    ck_assert_int_eq(log.seen, HOOK_CALLS - 1); // a kernel that fails has no phase 1
}

// A model made without hooks never calls one and has no table.
static inline void check_no_hooks(const mlc_model_info *info) {
    HookLog log;
    float y = 0;
    ck_assert_int_eq(info->nkernels, 0);
    ck_assert_ptr_null(info->kernels);
    ck_assert_int_eq(run_hooked(info, NULL, 0, 3, &log, &y), 0);
    ck_assert_int_eq(log.seen, 0);
}

#endif
