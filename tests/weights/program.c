// Runs the model `big` on one seeded input and prints the output's bits. usage: program [WEIGHTS-FILE]; built with -DLOADER: program
// LIBRARY
//
// Where the model takes its weights through the environment, they are mapped from WEIGHTS-FILE and refused, with the status as text, when
// they are wrong.
#include "big.h"

#include "../../runtime/load.h"
#include "../../runtime/mlc_weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IN = 64, OUT = 32 };
static float x[IN], y[OUT];
static _Alignas(64) unsigned char arena[BIG_ARENA_BYTES + 64];

static int show(int32_t status) {
    if (status) {
        printf("%s\n", big_strerror(status));
        return 1;
    }
    for (int i = 0; i < OUT; i++) {
        unsigned bits;
        memcpy(&bits, &y[i], sizeof bits);
        printf("%08x ", bits);
    }
    printf("\n");
    return 0;
}

#if defined(BIG_WEIGHTS_BYTES) && !defined(LOADER)
static int32_t run_with(const void *weights, size_t bytes) {
    big_inputs in = {x};
    big_outputs out = {y};
    big_env env = {.struct_size = sizeof env, .arena = arena, .arena_bytes = sizeof arena, .weights = weights, .weights_bytes = bytes};
    return big_run_env(NULL, &in, &out, &env);
}

// Short, misaligned and absent weights are refused by check and run.
static int wrong(const unsigned char *weights) {
    unsigned char *copy = aligned_alloc(64, BIG_WEIGHTS_BYTES + 64);
    memcpy(copy + 1, weights, BIG_WEIGHTS_BYTES);
    int bad = 0;
    bad |= !big_weights_check(NULL, BIG_WEIGHTS_BYTES) || !run_with(NULL, BIG_WEIGHTS_BYTES);
    bad |= !big_weights_check(weights, BIG_WEIGHTS_BYTES - 1) || !run_with(weights, BIG_WEIGHTS_BYTES - 1);
    bad |= !big_weights_check(copy + 1, BIG_WEIGHTS_BYTES) || !run_with(copy + 1, BIG_WEIGHTS_BYTES);
    memcpy(copy, weights, BIG_WEIGHTS_BYTES);
    bad |= big_weights_check(copy, BIG_WEIGHTS_BYTES) != 0;
    copy[16] ^= 1; // the hash in the head: a run sees it
    bad |= !run_with(copy, BIG_WEIGHTS_BYTES);
    free(copy);
    return bad;
}

static int run(const char *path) {
    const void *weights = mlc_weights_map(path, BIG_WEIGHTS_BYTES);
    if (!weights) {
        printf("not mapped\n");
        return 1;
    }
    if ((uintptr_t)weights % (2 << 20)) printf("not aligned to 2 MiB\n");
    int32_t status = big_weights_check(weights, BIG_WEIGHTS_BYTES);
    if (!status && wrong(weights)) printf("wrong weights pass\n");
    if (!status) status = run_with(weights, BIG_WEIGHTS_BYTES);
    mlc_weights_unmap(weights, BIG_WEIGHTS_BYTES);
    return show(status);
}
#elif defined(LOADER)
static int run(const char *path) {
    char error[256];
    mlc_loaded *m = mlc_load(path, "big", error, sizeof error);
    if (!m) {
        printf("%s\n", error);
        return 1;
    }
    const void *in[] = {x};
    void *out[] = {y};
    int64_t dims[1] = {0};
    int32_t status = mlc_loaded_run(m, dims, in, out);
    mlc_unload(m);
    return show(status);
}
const char *big_strerror(int32_t status) {
    (void)status;
    return "the run failed";
}
#else
static int run(const char *path) {
    (void)path;
    big_inputs in = {x};
    big_outputs out = {y};
    return show(big_run(&in, &out, arena));
}
#endif

int main(int argc, char **argv) {
    for (int i = 0; i < IN; i++) x[i] = (float)(i % 7) / 8 - 0.25f;
    return run(argc > 1 ? argv[1] : "");
}
