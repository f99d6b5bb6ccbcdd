// `mlc bench`: times the compiled model. One warm-up run finds the outputs' sizes; then the model alone is called, its arguments prepared
// once. With --compare a second build is timed in turn with the first, so that what the machine does meanwhile falls on both. --profile and
// --compare then run models compiled with hooks some more, to time their kernels; the runs timed before do not ask the hook.
#include "clock.h"
#include "files.h"
#include "json.h"
#include "profile.h"
#include "spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RUNS = 1000000, MIN_RUNS = 5, PROFILE_RUNS = 1001 };

typedef struct {
    const Options *o;
    const char *path;
    Pipeline pipeline;
    Backend backend;
    ToolOptions tool;
    Exec *exec;
    Call call;
    Profile *profile;
    Tensor *in, *out;
    double *ms;
    int runs;
    double median, min, p95, p99, spread;
} Subject;

static bool open_subject(Subject *s, Diag *d) {
    bool hooks = options_has(s->o, OPT_profile) || options_has(s->o, OPT_compare);
    s->tool =
        (ToolOptions){.cc = options_text(s->o, OPT_cc, NULL), .level = "-O2", .cache = !options_has(s->o, OPT_no_cache), .hooks = hooks};
    if (!backend_parse(s->o, &s->backend, d) || !pipeline_options(&s->pipeline, s->o, s->o->arena, d)) return false;
    Exec *e = s->exec = exec_open(&s->pipeline, s->path, s->backend, &s->tool, d);
    if (!e) return false;
    Arena *a = s->o->arena;
    s->in = ARENA_ARRAY(a, Tensor, e->nin + 1);
    s->out = ARENA_ARRAY(a, Tensor, e->nout + 1);
    s->ms = ARENA_ARRAY(a, double, MAX_RUNS);
    if (!spec_inputs(s->o, e, true, a, s->in, d) || exec_run(e, s->in, s->out, a, d)) return false;
    return !e->info || exec_prepare(e, s->in, s->out, &s->call, a, d);
}

static bool time_once(Subject *s, Diag *d) {
    Arena *a = s->exec->info ? NULL : arena_new();
    double start = clock_ms();
    int status = a ? exec_run(s->exec, s->in, s->out, a, d) : exec_call(s->exec, &s->call);
    s->ms[s->runs++] = clock_ms() - start;
    arena_free(a);
    if (status && !d->errors) diag_error(d, EXIT_MODEL, "run %d ended with status %d", s->runs, status);
    return status == 0;
}

static int by_value(const void *x, const void *y) {
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

static void summarise(Subject *s) {
    qsort(s->ms, (size_t)s->runs, sizeof *s->ms, by_value);
    s->median = s->ms[s->runs / 2];
    s->min = s->ms[0];
    s->p95 = s->ms[(int)(0.95 * (s->runs - 1))];
    s->p99 = s->ms[(int)(0.99 * (s->runs - 1))];
    s->spread = s->min > 0 ? s->p95 / s->min : 0;
}

static bool measure(Subject *subjects, int n, const Options *o, Diag *d) {
    int runs = (int)options_int(o, OPT_runs, 1, MAX_RUNS, 0, d);
    double limit = options_f64(o, OPT_seconds, 2, d) * 1e3 * n, start = clock_ms();
    for (int k = 0; k < MAX_RUNS; k++) {
        if (runs ? k >= runs : k >= MIN_RUNS && clock_ms() - start > limit) break;
        for (int i = 0; i < n; i++)
            if (!time_once(&subjects[i], d)) return false;
    }
    for (int i = 0; i < n; i++) summarise(&subjects[i]);
    return true;
}

// Runs with hooks, in turn, until the time is over.
static bool profile(Subject *subjects, int n, const Options *o, Diag *d) {
    int runs = (int)options_int(o, OPT_runs, 1, MAX_RUNS, PROFILE_RUNS, d);
    if (runs > PROFILE_RUNS) runs = PROFILE_RUNS;
    double limit = options_f64(o, OPT_seconds, 2, d) * 1e3 * n, start = clock_ms();
    for (int i = 0; i < n; i++) subjects[i].profile = profile_open(subjects[i].pipeline.program, o->arena, runs);
    for (int k = 0; k < runs && (k < MIN_RUNS || clock_ms() - start < limit); k++)
        for (int i = 0; i < n; i++)
            if (!profile_run(subjects[i].profile, subjects[i].exec, &subjects[i].call, d)) return false;
    for (int i = 0; i < n; i++) profile_close(subjects[i].profile, subjects[i].call.dims);
    return true;
}

// ---- the report ----
static const char *cpu_name(Arena *a) {
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[256];
    const char *name = "unknown";
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon) continue;
        name = arena_strndup(a, colon + 2, strcspn(colon + 2, "\n"));
        break;
    }
    if (f) fclose(f);
    return name;
}

static const char *compiler_version(const Subject *s) {
    if (!options_text(s->o, OPT_backend, NULL) && llvm_available()) return "llvm";
    if (strcmp(options_text(s->o, OPT_backend, "c"), "c")) return options_text(s->o, OPT_backend, "");
    ToolOptions t = {.cc = options_text(s->o, OPT_cc, NULL)};
    const char *words[66];
    int n = toolchain_words(s->o->arena, &t, words, 64);
    words[n] = "--version";
    words[n + 1] = NULL;
    Str out = {0};
    const char *version = run_program(words, &out) == 0 ? arena_strndup(s->o->arena, out.data, strcspn(out.data, "\n")) : words[0];
    str_free(&out);
    return version;
}

static size_t arena_size(const Subject *s) {
    return s->exec->info ? exec_arena_bytes(s->exec, s->call.dims) : 0;
}

static void print_json(const Subject *s, const Subject *other, const MachineSpeed *machine) {
    Str t = {0};
    str_printf(&t, "{\"median_ms\": %.6g, \"min_ms\": %.6g, \"p95_ms\": %.6g, \"p99_ms\": %.6g, \"spread\": %.4g, \"runs\": %d", s->median,
        s->min, s->p95, s->p99, s->spread, s->runs);
    str_printf(&t, ", \"threads\": %d, \"arena_bytes\": %zu", s->pipeline.passes.threads, arena_size(s));
    if (other) str_printf(&t, ", \"other_median_ms\": %.6g, \"ratio\": %.4g", other->median, other->median / s->median);
    if (machine) profile_json(&t, s->profile, machine);
    if (other && s->profile) profile_compare_json(&t, s->profile, other->profile);
    json_text(&t, "model", s->path);
    json_text(&t, "machine", cpu_name(s->o->arena));
    json_text(&t, "compiler", compiler_version(s));
    json_text(&t, "flags", s->pipeline.text);
    str_add(&t, "}\n");
    fputs(t.data, stdout);
    str_free(&t);
}

static void print_text(const Subject *s) {
    printf("%s (%s): median %.4g ms, min %.4g, p95 %.4g, p99 %.4g, p95/min %.3g, %d runs, arena %zu bytes\n", s->path, s->pipeline.text,
        s->median, s->min, s->p95, s->p99, s->spread, s->runs, arena_size(s));
}

// The second subject of --compare: another model when the word is a file, else the first one with more options.
static bool second_subject(Subject *s, const Options *o, Options *more, Diag *d) {
    const char *text = options_text(o, OPT_compare, "");
    *s = (Subject){.o = o, .path = o->args.data[0]};
    if (file_exists(text)) {
        s->path = text;
        return true;
    }
    *more = *o;
    s->o = more;
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, ",");
        if (n) options_add(more, arena_printf(o->arena, "%s%.*s", p[0] == 'O' && n == 2 ? "-" : "--", (int)n, p), d);
        p += n + (p[n] == ',');
    }
    return !d->errors;
}

// What --profile and --compare show of the kernels; machine: measured for --profile.
static bool show_kernels(Subject *s, int n, const Options *o, MachineSpeed *machine, Diag *d) {
    bool wanted = options_has(o, OPT_profile), compiled = s[0].exec->info && s[n - 1].exec->info;
    if (!compiled && wanted) diag_error(d, EXIT_USAGE, "--profile needs a compiled model: --backend=llvm or --backend=c");
    if (!compiled || (!wanted && n == 1)) return !d->errors;
    if (!profile(s, n, o, d)) return false;
    if (wanted && !machine_measure(s[0].backend, &s[0].tool, s[0].pipeline.passes.threads, machine, d)) return false;
    for (int i = 0; i < n && wanted; i++) {
        if (n == 2) printf("%s (%s):\n", s[i].path, s[i].pipeline.text);
        profile_print(s[i].profile, machine);
    }
    if (n == 2) profile_compare(s[0].profile, s[1].profile);
    return true;
}

static bool bench(Subject *s, int n, const Options *o, Diag *d) {
    MachineSpeed machine;
    for (int i = 0; i < n; i++)
        if (!open_subject(&s[i], d)) return false;
    if (!measure(s, n, o, d) || d->errors) return false;
    for (int i = 0; i < n; i++) print_text(&s[i]);
    if (n == 2) printf("ratio of the medians, second to first: %.3f\n", s[1].median / s[0].median);
    if (!show_kernels(s, n, o, &machine, d)) return false;
    if (options_has(o, OPT_json)) print_json(&s[0], n == 2 ? &s[1] : NULL, options_has(o, OPT_profile) ? &machine : NULL);
    return true;
}

ExitCode cmd_bench(const Options *o, Diag *d) {
    Subject s[2] = {{.o = o, .path = o->args.data[0]}};
    Options more;
    int n = options_has(o, OPT_compare) ? 2 : 1;
    bool ok = (n == 1 || second_subject(&s[1], o, &more, d)) && bench(s, n, o, d);
    for (int i = 0; i < n; i++) {
        exec_free(s[i].exec);
        pipeline_close(&s[i].pipeline);
    }
    return ok ? EXIT_OK : d->code;
}
