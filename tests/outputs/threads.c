// Two models in one program, each run by two threads at once on its own arenas: every result must be the bits that a run alone gave, and
// the models' results must differ. usage: threads [WEIGHTS-OF-ONE WEIGHTS-OF-TWO]; prints the bits of both.
#include "one.h"
#include "two.h"

#include "../../runtime/mlc_weights.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { IN = 64, OUT = 32, CASES = 8, ROUNDS = 400 };
static float x[CASES][IN], alone[2][CASES][OUT];
static const void *weights[2];
static size_t bytes[2];
static _Alignas(64) unsigned char arenas[4][(ONE_ARENA_BYTES > TWO_ARENA_BYTES ? ONE_ARENA_BYTES : TWO_ARENA_BYTES) + 64];

static int32_t run_one(const float *from, float *to, void *arena) {
    one_inputs in = {from};
    one_outputs out = {to};
    one_env env = {
        .struct_size = sizeof env, .arena = arena, .arena_bytes = sizeof arenas[0], .weights = weights[0], .weights_bytes = bytes[0]};
    return one_run_env(NULL, &in, &out, &env);
}

static int32_t run_two(const float *from, float *to, void *arena) {
    two_inputs in = {from};
    two_outputs out = {to};
    two_env env = {
        .struct_size = sizeof env, .arena = arena, .arena_bytes = sizeof arenas[0], .weights = weights[1], .weights_bytes = bytes[1]};
    return two_run_env(NULL, &in, &out, &env);
}

static int32_t (*const run[2])(const float *from, float *to, void *arena) = {run_one, run_two};

typedef struct {
    int model;
    void *arena;
    int wrong;
} Thread;

static void *work(void *ctx) {
    Thread *t = ctx;
    for (int i = 0; i < ROUNDS; i++) {
        float y[OUT];
        memset(y, 0x55, sizeof y);
        int k = (i + t->model) % CASES;
        t->wrong += run[t->model](x[k], y, t->arena) != 0 || memcmp(y, alone[t->model][k], sizeof y) != 0;
    }
    return NULL;
}

#ifdef ONE_WEIGHTS_BYTES
static int map(int argc, char **argv) {
    static const size_t sizes[2] = {ONE_WEIGHTS_BYTES, TWO_WEIGHTS_BYTES};
    for (int i = 0; i < 2; i++) {
        bytes[i] = sizes[i];
        weights[i] = argc == 3 ? mlc_weights_map(argv[1 + i], bytes[i]) : NULL;
        if (!weights[i]) return 1;
    }
    return 0;
}
#else
static int map(int argc, char **argv) {
    (void)argc, (void)argv;
    return 0;
}
#endif

int main(int argc, char **argv) {
    if (map(argc, argv)) return 2;
    for (int i = 0; i < CASES * IN; i++) x[0][i] = (float)((i * 37 + 11) % 101 - 50) / 32;
    for (int m = 0; m < 2; m++)
        for (int k = 0; k < CASES; k++)
            if (run[m](x[k], alone[m][k], arenas[m])) return 3;
    Thread threads[4];
    pthread_t id[4];
    int wrong = !memcmp(alone[0], alone[1], sizeof alone[0]);
    for (int i = 0; i < 4; i++) {
        threads[i] = (Thread){i % 2, arenas[i], 0};
        if (pthread_create(&id[i], NULL, work, &threads[i])) return 4;
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(id[i], NULL);
        wrong += threads[i].wrong;
    }
    for (int i = 0; i < 2 * OUT; i++) {
        unsigned bits;
        memcpy(&bits, &alone[i / OUT][i % CASES][i % OUT], sizeof bits);
        printf("%08x ", bits);
    }
    printf("\n");
    return wrong > 0;
}
