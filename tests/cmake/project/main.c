// Runs the model on ones and prints the sum of its outputs.
#include "big.h"

BIG_ARENA(arena);
static float x[64], y[32];

#ifdef CHIP
#include "portable.h"
PORTABLE_ARENA(arena2);
void _exit(int status);
void _exit(int status) {
    (void)status;
    for (;;) {
    }
}
int main(void) {
    big_inputs in = {x};
    big_outputs out = {y};
    portable_inputs in2 = {x};
    portable_outputs out2 = {y};
    return big_run(&in, &out, arena) | portable_run(&in2, &out2, arena2);
}
#else
#include <stdio.h>
#ifdef WEIGHTS
#include <mlc_weights.h>
#endif
int main(void) {
    big_inputs in = {x};
    big_outputs out = {y};
    for (int i = 0; i < 64; i++) x[i] = 1;
#ifdef WEIGHTS
    big_env env = {.struct_size = sizeof env, .arena = arena, .arena_bytes = sizeof arena, .weights_bytes = BIG_WEIGHTS_BYTES};
    env.weights = mlc_weights_map(WEIGHTS, BIG_WEIGHTS_BYTES);
    int status = big_run_env(NULL, &in, &out, &env);
#else
    int status = big_run(&in, &out, arena);
#endif
    double sum = 0;
    for (int i = 0; i < 32; i++) sum += (double)y[i];
    printf("%d %.3f\n", status, sum);
    return status != 0;
}
#endif
