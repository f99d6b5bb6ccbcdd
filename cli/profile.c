// Takes a profile and prints it; see profile.h.
#include "profile.h"
#include "clock.h"
#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- taking it ----
Profile *profile_open(Program *p, Arena *a, int most_runs) {
    Profile *f = ARENA_NEW(a, Profile);
    f->arena = a;
    f->program = p;
    f->cap = most_runs;
    f->times = ARENA_ARRAY(a, double, (size_t)most_runs *(size_t)(p->kernels.n + 1));
    f->run_times = ARENA_ARRAY(a, double, most_runs);
    f->calls = ARENA_ARRAY(a, int, p->kernels.n + 1);
    return f;
}

static int32_t note_time(void *user, int32_t kernel, int32_t phase) {
    Profile *f = user;
    if (phase)
        f->times[f->runs * f->program->kernels.n + kernel] += clock_ms() - f->start;
    else {
        f->calls[kernel]++;
        f->start = clock_ms();
    }
    return 0;
}

bool profile_run(Profile *f, Exec *e, const Call *call, Diag *d) {
    memset(f->calls, 0, (size_t)f->program->kernels.n * sizeof *f->calls);
    mlc_loaded_set_hook(e->model, note_time, f);
    double start = clock_ms();
    int status = exec_call(e, call);
    f->run_times[f->runs] = clock_ms() - start;
    mlc_loaded_set_hook(e->model, NULL, NULL);
    f->runs++;
    if (status) diag_error(d, EXIT_MODEL, "a run for the profile ended with status %d", status);
    return status == 0;
}

static int by_value(const void *x, const void *y) {
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

static double median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, by_value);
    return n ? v[n / 2] : 0;
}

static double kernel_median(const Profile *f, int kernel, double *room) {
    for (int r = 0; r < f->runs; r++) room[r] = f->times[r * f->program->kernels.n + kernel];
    return median(room, f->runs);
}

static double outside_median(const Profile *f, double *room) {
    int n = f->program->kernels.n;
    for (int r = 0; r < f->runs; r++) {
        room[r] = f->run_times[r];
        for (int i = 0; i < n; i++) room[r] -= f->times[r * n + i];
    }
    return median(room, f->runs);
}

typedef struct {
    const Program *p;
    const int64_t *dims;
} Sizes;

static int64_t size_of(void *ctx, const Dim *sym) {
    const Sizes *s = ctx;
    for (int i = 0; i < s->p->symbols.n; i++)
        if (s->p->symbols.data[i] == sym) return s->dims[i];
    return INT64_MIN;
}

static void add_cost(KernelCost *sum, const KernelCost *c, double times) {
    sum->flops += c->flops * times;
    sum->iops += c->iops * times;
    sum->read += c->read * times;
    sum->written += c->written * times;
    sum->scalar += c->scalar * times;
}

static int slower_first(const void *x, const void *y) {
    const ProfileRow *a = x, *b = y;
    if (a->ms != b->ms) return a->ms < b->ms ? 1 : -1;
    return strcmp(a->kernel->name, b->kernel->name);
}

void profile_close(Profile *f, const int64_t *dims) {
    Program *p = f->program;
    Sizes sizes = {p, dims};
    double *room = ARENA_ARRAY(f->arena, double, f->runs + 1);
    f->rows = ARENA_ARRAY(f->arena, ProfileRow, p->kernels.n + 1);
    for (int i = 0; i < p->kernels.n; i++) {
        if (!f->calls[i]) continue;
        ProfileRow *r = &f->rows[f->n++];
        KernelCost once = cost_kernel(p, p->kernels.data[i], size_of, &sizes);
        *r = (ProfileRow){.kernel = p->kernels.data[i], .calls = f->calls[i], .ms = kernel_median(f, i, room)};
        add_cost(&r->cost, &once, f->calls[i]);
        add_cost(&f->cost, &r->cost, 1);
        f->kernel_ms += r->ms;
    }
    f->outside_ms = outside_median(f, room);
    f->run_ms = median(f->run_times, f->runs);
    qsort(f->rows, (size_t)f->n, sizeof *f->rows, slower_first);
}

// ---- showing it ----
// What a row shows, derived from time and cost.
typedef struct {
    double share, gflops, peak, gbs, bandwidth, scalar;
} Rates;

static double ratio(double a, double b) {
    return b > 0 ? a / b : 0;
}

static Rates rates_of(const KernelCost *c, double ms, double all_ms, const MachineSpeed *m) {
    double gflops = ratio(c->flops, ms * 1e6), gbs = ratio(c->read + c->written, ms * 1e6);
    return (Rates){ratio(ms, all_ms), gflops, ratio(gflops, m->gflops), gbs, ratio(gbs, m->gbs), ratio(c->scalar, c->flops + c->iops)};
}

static int name_width(const Profile *f) {
    int width = 6;
    for (int i = 0; i < f->n; i++) {
        int n = (int)strlen(f->rows[i].kernel->name);
        if (n > width) width = n;
    }
    return width;
}

static void print_row(int width, const char *name, double ms, const Rates *r, int calls, const char *nodes) {
    printf("%-*s %10.4f %6.1f%% %9.2f %6.1f%% %8.2f %6.1f%% %6.1f%% %6d  %s\n", width, name, ms, 100 * r->share, r->gflops, 100 * r->peak,
        r->gbs, 100 * r->bandwidth, 100 * r->scalar, calls, nodes);
}

void profile_print(const Profile *f, const MachineSpeed *m) {
    int width = name_width(f), calls = 0;
    printf("%-*s %10s %7s %9s %7s %8s %7s %7s %6s  %s\n", width, "kernel", "median ms", "share", "GFLOP/s", "of peak", "GB/s", "of read",
        "scalar", "calls", "nodes");
    for (int i = 0; i < f->n; i++) {
        const ProfileRow *r = &f->rows[i];
        Rates s = rates_of(&r->cost, r->ms, f->kernel_ms + f->outside_ms, m);
        print_row(width, r->kernel->name, r->ms, &s, r->calls, r->kernel->label ? r->kernel->label : "");
        calls += r->calls;
    }
    Rates all = rates_of(&f->cost, f->kernel_ms, f->kernel_ms + f->outside_ms, m);
    print_row(width, "total", f->kernel_ms, &all, calls, "");
    printf("%-*s %10.4f %6.1f%%\n", width, "outside", f->outside_ms, 100 * ratio(f->outside_ms, f->kernel_ms + f->outside_ms));
    printf("medians of %d runs with hooks, a whole run takes %.4f ms\n", f->runs, f->run_ms);
    printf("this machine (%s, %d thread%s): fma peak %.1f GFLOP/s, read bandwidth from memory %.1f GB/s\n", m->target, m->threads,
        m->threads > 1 ? "s" : "", m->gflops, m->gbs);
    printf("scalar work: %.2f%% of the model's %.4g operations\n", 100 * all.scalar, f->cost.flops + f->cost.iops);
}

void profile_json(Str *s, const Profile *f, const MachineSpeed *m) {
    str_add(s, ", \"profile\": [");
    for (int i = 0; i < f->n; i++) {
        const ProfileRow *r = &f->rows[i];
        Rates x = rates_of(&r->cost, r->ms, f->kernel_ms + f->outside_ms, m);
        str_printf(s, "%s{\"ms\": %.6g, \"share\": %.4g, \"calls\": %d", i ? ", " : "", r->ms, x.share, r->calls);
        str_printf(s, ", \"flops\": %.10g, \"iops\": %.10g, \"read\": %.10g, \"written\": %.10g", r->cost.flops, r->cost.iops, r->cost.read,
            r->cost.written);
        str_printf(s, ", \"gflops\": %.5g, \"of_peak\": %.4g, \"gbs\": %.5g, \"of_read\": %.4g, \"scalar_share\": %.4g", x.gflops, x.peak,
            x.gbs, x.bandwidth, x.scalar);
        json_text(s, "kernel", r->kernel->name);
        json_text(s, "nodes", r->kernel->label ? r->kernel->label : "");
        str_add(s, "}");
    }
    str_printf(s,
        "], \"peak_gflops\": %.5g, \"read_gbs\": %.5g, \"scalar_share\": %.4g, \"run_ms\": %.6g, \"kernel_ms\": %.6g, \"outside_ms\": %.6g",
        m->gflops, m->gbs, ratio(f->cost.scalar, f->cost.flops + f->cost.iops), f->run_ms, f->kernel_ms, f->outside_ms);
}
