// The matmul tile of the gallery beside the machine's fma peak: the same program through gcc and clang (-O2 -std=c11) and through LLVM.
//
// usage: tile [ROUNDS]   (from the project's folder)
// Pinned to one processor. A round runs each candidate for some 70 microseconds and a loop of independent fmas as long before and after it.
// In each block of rounds the candidate's best sample is divided by the best of the peaks beside its samples: so the clock is the same.
// `best` is the ninth decile of the blocks, what the code does while nobody disturbs it; the bar is for it. `median` is the middle of all
// candidate / mean of its two peaks. It falls far below `best` where another machine's thread shares the core: that takes dispatch slots
// and load ports, of which the tile needs 3.6 and 1.3 a cycle at its peak rate and the loop of fmas 2.3 and none; a loop of 12 fmas with 8
// loads of nothing falls as far. Ends with 1 when a candidate lies below the bar.
#define _GNU_SOURCE
#include "../../cli/exec.h"
#include "../../cli/files.h"

#include <immintrin.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BAR 0.95
#define QUIET 0.9
enum { P = 32, Q = 2, K = 256, CALLS = 2, CHAINS = 12, STEPS = 32000, BLOCK = 100, MAX_ROUNDS = 20000 };

typedef struct {
    const char *name, *cc; // cc NULL: LLVM in process
    Exec *exec;
    Call call;
    Tensor out;
    double rate[MAX_ROUNDS], before[MAX_ROUNDS], after[MAX_ROUNDS]; // FLOP/s of the rounds, and of the peaks beside them
} Candidate;

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// ---- the peak: chains of fmas that do not wait for each other, in variables of their own so that they stay in registers; FLOP done ----
#define EACH(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#define START(i) s##i = x + (float)i,
#define STEP_AVX2(i) s##i = _mm256_fmadd_ps(s##i, x, y);
#define STEP_AVX512(i) s##i = _mm512_fmadd_ps(s##i, x, y);
#define TAKE(i) all += s##i;

__attribute__((target("avx2,fma"), noinline)) static double peak_avx2(int steps) {
    __m256 x = _mm256_set1_ps(0.999999f), y = _mm256_set1_ps(1e-6f), EACH(START) all = x;
    for (int k = 0; k < steps; k++) {
        EACH(STEP_AVX2)
    }
    EACH(TAKE)
    volatile float sink = all[0];
    (void)sink;
    return 2.0 * 8 * CHAINS * steps;
}

__attribute__((target("avx512f"), noinline)) static double peak_avx512(int steps) {
    __m512 x = _mm512_set1_ps(0.999999f), y = _mm512_set1_ps(1e-6f), EACH(START) all = x;
    for (int k = 0; k < steps; k++) {
        EACH(STEP_AVX512)
    }
    EACH(TAKE)
    volatile float sink = all[0];
    (void)sink;
    return 2.0 * 16 * CHAINS * steps;
}

static double peak_rate(bool wide) {
    double begin = seconds(), work = wide ? peak_avx512(STEPS) : peak_avx2(STEPS);
    return work / (seconds() - begin);
}

// ---- the candidates ----
static Program *load(const char *path, const Target *target, Diag *d) {
    size_t size;
    const void *text = file_map(path, &size, d);
    if (!text) return NULL;
    Arena *a = arena_new();
    Program *p = loop_parse(arena_strndup(a, text, size), path, dim_table_new(), NULL, NULL, d);
    file_unmap(text, size);
    arena_free(a);
    if (!p || !loop_verify(p, d)) return NULL;
    p->target = target->name;
    PassOptions o = {.target = target, .level = 2, .threads = 1};
    return passes_run_loop(p, &o, d) ? p : NULL;
}

static Tensor random_tensor(Arena *a, int rank, const int64_t *shape) {
    Tensor t = tensor_new(a, DT_f32, rank, shape);
    for (int64_t i = 0; i < tensor_count(&t); i++) ((float *)t.data)[i] = (float)(i * 7919 % 1000) * 1e-3f - 0.5f;
    return t;
}

static bool prepare(Candidate *c, const Program *p, int rows, int columns, Arena *a, Diag *d) {
    ToolOptions t = {.cc = c->cc ? arena_printf(a, "%s -std=c11", c->cc) : NULL, .level = "-O2"};
    c->exec = c->cc ? exec_c(p, "", &t, d) : exec_llvm(p, 2, d);
    Tensor in[2] = {random_tensor(a, 3, (int64_t[]){P, K, rows}), random_tensor(a, 3, (int64_t[]){Q, K, columns})};
    return c->exec && exec_run(c->exec, in, &c->out, a, d) == 0 && exec_prepare(c->exec, in, &c->out, &c->call, a, d);
}

static double candidate_rate(Candidate *c, int rows, int columns) {
    double begin = seconds();
    for (int i = 0; i < CALLS; i++) exec_call(c->exec, &c->call);
    return 2.0 * P * Q * K * rows * columns * CALLS / (seconds() - begin);
}

// ---- the table ----
static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The value that `part` of the n values lie below.
static double quantile(double *v, int n, double part) {
    qsort(v, (size_t)n, sizeof *v, ascending);
    return v[(int)((n - 1) * part)];
}

static double highest(const double *v, int n) {
    double h = v[0];
    for (int i = 1; i < n; i++)
        if (v[i] > h) h = v[i];
    return h;
}

static double best_part(const Candidate *c, int rounds) {
    static double blocks[MAX_ROUNDS / BLOCK + 1];
    int n = 0;
    for (int r = 0; r + BLOCK <= rounds; r += BLOCK) {
        double before = highest(c->before + r, BLOCK), after = highest(c->after + r, BLOCK);
        blocks[n++] = highest(c->rate + r, BLOCK) / (before > after ? before : after);
    }
    return quantile(blocks, n, QUIET);
}

static double median_part(const Candidate *c, int rounds) {
    static double parts[MAX_ROUNDS];
    for (int r = 0; r < rounds; r++) parts[r] = 2 * c->rate[r] / (c->before[r] + c->after[r]);
    return quantile(parts, rounds, 0.5);
}

static bool same_results(const Candidate *c, int n) {
    for (int i = 1; i < n; i++)
        if (memcmp(c[i].out.data, c[0].out.data, c[0].out.bytes) != 0) return false;
    return true;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 10000;
    if (rounds < BLOCK || rounds > MAX_ROUNDS) rounds = MAX_ROUNDS;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);

    static Candidate c[] = {{.name = "gcc", .cc = "gcc"}, {.name = "clang", .cc = "clang"}, {.name = "llvm"}};
    enum { N = sizeof c / sizeof *c };
    Diag d = {0};
    Arena *a = arena_new();
    const Target *target = target_find("native");
    bool wide = target_has(target, "avx512f");
    int rows = wide ? 14 : 6, columns = wide ? 32 : 16;
    Program *p = load(arena_printf(a, "tests/loop/gallery/matmul_%dx%d.loop", rows, columns), target, &d);
    for (int i = 0; i < N && p && !d.errors; i++) prepare(&c[i], p, rows, columns, a, &d);
    if (d.errors) {
        fputs(d.text.data, stderr);
        return d.code;
    }
    if (!same_results(c, N)) {
        fprintf(stderr, "the candidates' results differ\n");
        return EXIT_DIFFERS;
    }
    for (int r = -2; r < rounds; r++) {
        double before = peak_rate(wide);
        for (int i = 0; i < N; i++) {
            double rate = candidate_rate(&c[i], rows, columns), after = peak_rate(wide);
            if (r >= 0) c[i].rate[r] = rate, c[i].before[r] = before, c[i].after[r] = after;
            before = after;
        }
    }
    bool reached = true;
    printf("%dx%d tile, k = %d, target %s, %d rounds\n", rows, columns, K, target->name, rounds);
    printf("%-8s %10s %10s %8s %8s\n", "", "GFLOP/s", "peak", "best", "median");
    for (int i = 0; i < N; i++) {
        double best = best_part(&c[i], rounds);
        reached &= best >= BAR;
        printf("%-8s %10.1f %10.1f %7.1f%% %7.1f%%\n", c[i].name, highest(c[i].rate, rounds) * 1e-9, highest(c[i].after, rounds) * 1e-9,
            100 * best, 100 * median_part(&c[i], rounds));
        exec_free(c[i].exec);
    }
    program_free(p);
    arena_free(a);
    return reached ? 0 : 1;
}
