// Two kernels in loop text: chains of multiply-adds that never leave the registers, and a sum over memory larger than the caches. Both give
// each thread one iteration of a parallel loop. The best of several runs counts.
#include "machine.h"
#include "clock.h"

enum { RUNS = 7, CHAINS = 10, ROUNDS = 1 << 19, READ_BYTES = 128 << 20, SUMS = 8 };

// y[t] = what CHAINS accumulators hold after ROUNDS multiply-adds on each.
static void peak_text(Str *s, const Target *t, int threads, int lanes) {
    str_printf(s, "program peak\ntarget %s\ninput x: f32[%d]\noutput y: f32[%d]\n", t->name, lanes, threads * lanes);
    str_add(s, "kernel k (x: f32 in, y: f32 out disjoint) {\n");
    str_printf(s, "  for t in 0..%d par parallel {\n    let m: f32x%d = x[0 : %d]\n", threads, lanes, lanes);
    for (int i = 0; i < CHAINS; i++) str_printf(s, "    var a%d: f32x%d = splat%d(%d.0f32)\n", i, lanes, lanes, i);
    str_printf(s, "    for r in 0..%d seq {\n", ROUNDS);
    for (int i = 0; i < CHAINS; i++) str_printf(s, "      set a%d = fma(a%d, m, m)\n", i, i);
    str_printf(s, "    }\n    y[%d*t : %d] = a0", lanes, lanes);
    for (int i = 1; i < CHAINS; i++) str_printf(s, " + a%d", i);
    str_add(s, "\n  }\n}\nmain { call k(x, y) parallel }\n");
}

static void read_text(Str *s, const Target *t, int threads, int lanes) {
    int64_t all = READ_BYTES / 4, part = all / threads / (SUMS * lanes) * (SUMS * lanes);
    str_printf(s, "program read\ntarget %s\ninput x: f32[%lld]\noutput y: f32[%d]\n", t->name, (long long)all, threads * lanes);
    str_add(s, "kernel k (x: f32 in, y: f32 out disjoint) {\n");
    str_printf(s, "  for t in 0..%d par parallel {\n", threads);
    for (int i = 0; i < SUMS; i++) str_printf(s, "    var a%d: f32x%d = splat%d(0.0f32)\n", i, lanes, lanes);
    str_printf(s, "    for r in 0..%lld step %d seq {\n", (long long)part, SUMS * lanes);
    for (int i = 0; i < SUMS; i++)
        str_printf(s, "      set a%d = a%d + x[%lld*t + r + %d : %d]\n", i, i, (long long)part, i * lanes, lanes);
    str_printf(s, "    }\n    y[%d*t : %d] = a0", lanes, lanes);
    for (int i = 1; i < SUMS; i++) str_printf(s, " + a%d", i);
    str_add(s, "\n  }\n}\nmain { call k(x, y) parallel }\n");
}

// The fastest of RUNS runs on `in` in ms; 0 after diag_error.
static double best_time(Exec *e, const Tensor *in, Arena *a, Diag *d) {
    Tensor out;
    Call call;
    if (exec_run(e, in, &out, a, d) || !exec_prepare(e, in, &out, &call, a, d)) return 0;
    double best = 0;
    for (int i = 0; i < RUNS; i++) {
        double start = clock_ms();
        int status = exec_call(e, &call);
        double ms = clock_ms() - start;
        if (status) {
            diag_error(d, EXIT_INTERNAL, "measuring the machine ended with status %d", status);
            return 0;
        }
        if (!i || ms < best) best = ms;
    }
    return best;
}

static double time_program(const Str *text, int64_t elements, Backend b, const ToolOptions *t, int threads, Diag *d) {
    DimTable *dims = dim_table_new();
    Arena *a = arena_new();
    Program *p = loop_parse(text->data, "machine", dims, NULL, NULL, d);
    PassOptions o = {.target = p ? target_find(p->target) : NULL, .only = "isa", .threads = threads};
    double ms = 0;
    if (p && loop_verify(p, d) && passes_run_loop(p, &o, d)) {
        Exec *e = b == BACKEND_C ? exec_c(p, "", t, d) : exec_llvm(p, 2, d);
        Tensor in = tensor_new(a, DT_f32, 1, &elements);
        for (int64_t i = 0; i < elements; i++) ((float *)in.data)[i] = 0.5f;
        if (e) exec_set_threads(e, threads);
        if (e) ms = best_time(e, &in, a, d);
        exec_free(e);
    }
    if (p) program_free(p);
    dim_table_free(dims);
    arena_free(a);
    return ms;
}

bool machine_measure(Backend b, const ToolOptions *t, int threads, MachineSpeed *m, Diag *d) {
    const Target *target = target_find("native");
    int lanes = target->vector_bits >= 64 ? target->vector_bits / 32 : 4;
    ToolOptions tool = *t;
    tool.hooks = false;
    Str peak = {0}, read = {0};
    peak_text(&peak, target, threads, lanes);
    read_text(&read, target, threads, lanes);
    double fma_ms = time_program(&peak, lanes, b, &tool, threads, d);
    double read_ms = fma_ms > 0 ? time_program(&read, READ_BYTES / 4, b, &tool, threads, d) : 0;
    str_free(&peak);
    str_free(&read);
    if (fma_ms <= 0 || read_ms <= 0) return false;
    *m = (MachineSpeed){target->name, threads, 2.0 * CHAINS * ROUNDS * lanes * threads / fma_ms / 1e6, READ_BYTES / read_ms / 1e6};
    return true;
}
