// prop [--seeds=A..B] [--llvm=K] [--c=K] [--all] [--jobs=N] [--cc=COMMAND] [--show=SEED]: the cases of seeds A to B (default 1 to 2000),
// each with its configuration, through the evaluator, every pass and the interpreter. Every K-th that this machine can run also goes
// through LLVM and, at -O0 and -O3, through the C compiler, several to a translation unit; --all is every one, --llvm=0 and --c=0 are none.
// Prints each failing case's graph and where it failed; the last lines are how many went through what and "N passed, N failed". A case
// that the compiler says it does not support is left out; more than one in ten of them is a failure too. --show=SEED prints a case.
#include "prop.h"

#include "../../cli/exec.h"
#include "../../cli/files.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 12, SECONDS = 60, MAX_JOBS = 64, MAX_SPAN = 600 };

typedef struct {
    atomic_long next; // seed of the next batch
    atomic_int passed, failed, skipped, llvm, c;
    Progress progress[MAX_JOBS];
} Shared; // by all processes

typedef struct {
    long first, last, every_llvm, every_c, jobs, span; // span: seeds of a batch
    const char *cc, *temp;
    Shared *shared;
    Progress *progress; // of this worker
} Prop;

static const char *prefix_of(Arena *a, long seed) {
    return arena_printf(a, "t%ld", seed);
}

static const char *source_of(const Prop *p, Arena *a, long seed) {
    return arena_printf(a, "%s/t%ld.c", p->temp, seed);
}

static bool takes(const Prop *p, long seed, long every) {
    return every > 0 && (seed - p->first) % every == 0;
}

typedef enum { RUN_GOOD, RUN_BAD, RUN_SKIPPED } RunEnd;

// In a child: the case itself, or with `so` its compiled C.
static RunEnd run_seed(const Prop *p, long seed, const char *so) {
    Arena *a = arena_new();
    Diag d = {0};
    Case c;
    snprintf(p->progress->stage, sizeof p->progress->stage, so ? "C %s" : "generating", so ? so : "");
    prop_generate(&c, (uint64_t)seed, a);
    bool here = target_runs_here(c.config.target), llvm = here && llvm_available() && takes(p, seed, p->every_llvm);
    const char *source = here && takes(p, seed, p->every_c) ? source_of(p, a, seed) : NULL;
    bool ok = so ? check_library(&c, a, so, prefix_of(a, seed), &d) : check_case(&c, a, llvm, source, prefix_of(a, seed), p->progress, &d);
    if (!ok && d.code == EXIT_UNSUPPORTED) return RUN_SKIPPED;
    if (ok && llvm && !so) p->shared->llvm++;
    if (!ok) snprintf(p->progress->message, sizeof p->progress->message, "%s", d.text.data ? d.text.data : "failed without a message\n");
    return ok ? RUN_GOOD : RUN_BAD;
}

// In one write, so that workers do not mix their lines.
static void report(const Prop *p, long seed, int status) {
    Str s = {0};
    str_printf(&s, "%sFAIL seed %ld: %s", p->progress->message, seed, p->progress->stage);
    if (WIFSIGNALED(status)) str_printf(&s, ": signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    str_printf(&s, "\n%s\n", p->progress->text);
    if (write(STDOUT_FILENO, s.data, s.n) < 0) p->shared->failed++;
    str_free(&s);
}

// Runs the seed in a process of its own; says what failed.
static RunEnd fork_seed(const Prop *p, long seed, const char *so) {
    p->progress->text[0] = p->progress->message[0] = 0;
    pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS);
        _exit((int)run_seed(p, seed, so));
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) status = 1;
    if (status == 0) return RUN_GOOD;
    if (WIFEXITED(status) && WEXITSTATUS(status) == RUN_SKIPPED) return RUN_SKIPPED;
    report(p, seed, status);
    return RUN_BAD;
}

static bool compile(const Prop *p, Arena *a, const long *seeds, int n, const char *level, const char *so, Diag *d) {
    Str text = {0};
    for (int i = 0; i < n; i++) str_printf(&text, "#include \"t%ld.c\"\n", seeds[i]);
    ToolOptions t = {.cc = arena_printf(a, "%s -I%s", p->cc, p->temp), .level = level};
    bool ok = toolchain_shared(&text, &t, so, d);
    str_free(&text);
    return ok;
}

// The emitted sources of these seeds as one library at each level. ok[i] becomes false for a seed that fails.
static void run_c(const Prop *p, const long *seeds, int n, bool *ok) {
    static const char *const levels[] = {"-O0", "-O3"};
    Arena *a = arena_new();
    for (int l = 0; l < 2 && n; l++) {
        Diag d = {0};
        const char *so = arena_printf(a, "%s/batch%ld%s.so", p->temp, seeds[0], levels[l]);
        if (compile(p, a, seeds, n, levels[l], so, &d)) {
            for (int i = 0; i < n; i++) ok[i] = fork_seed(p, seeds[i], so) == RUN_GOOD && ok[i];
            remove(so);
        } else {
            printf("FAIL seeds %ld..%ld: %.1000s\n", seeds[0], seeds[n - 1], d.text.data);
            fflush(stdout);
            for (int i = 0; i < n; i++) ok[i] = false;
        }
        diag_free(&d);
    }
    arena_free(a);
}

static void run_batch(const Prop *p, long first, long last) {
    Arena *a = arena_new();
    long seeds[MAX_SPAN];
    bool good[MAX_SPAN];
    int n = 0;
    for (long s = first; s <= last; s++) {
        RunEnd end = fork_seed(p, s, NULL);
        p->shared->failed += end == RUN_BAD;
        p->shared->skipped += end == RUN_SKIPPED;
        if (end != RUN_GOOD) continue;
        if (file_exists(source_of(p, a, s)))
            good[n] = true, seeds[n++] = s;
        else
            p->shared->passed++;
    }
    run_c(p, seeds, n, good);
    for (int i = 0; i < n; i++) {
        p->shared->c++;
        p->shared->passed += good[i];
        p->shared->failed += !good[i];
        remove(source_of(p, a, seeds[i]));
    }
    arena_free(a);
}

// One of the jobs: takes batches until there are none.
static void work(const Prop *p) {
    for (long s; (s = atomic_fetch_add(&p->shared->next, p->span)) <= p->last;)
        run_batch(p, s, s + p->span - 1 < p->last ? s + p->span - 1 : p->last);
}

static bool run_jobs(Prop *p) {
    p->span = p->every_c > 0 ? BATCH * p->every_c : BATCH;
    if (p->span > MAX_SPAN) p->span = MAX_SPAN;
    p->shared->next = p->first;
    for (int j = 0; j < p->jobs; j++) {
        p->progress = &p->shared->progress[j];
        pid_t child = fork();
        if (child < 0) return false;
        if (child == 0) {
            work(p);
            _exit(0);
        }
    }
    bool ok = true;
    for (int status; wait(&status) > 0;) ok &= status == 0;
    return ok;
}

static void show(long seed) {
    Arena *a = arena_new();
    Case c;
    prop_generate(&c, (uint64_t)seed, a);
    Str s = {0};
    graph_print(&s, c.g);
    printf("%s%s", prop_config_text(&c, a), s.data);
    str_free(&s);
    graph_free(c.g);
    arena_free(a);
}

static bool read_options(Prop *p, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *o = argv[i];
        if (sscanf(o, "--seeds=%ld..%ld", &p->first, &p->last) == 2 || sscanf(o, "--llvm=%ld", &p->every_llvm) == 1 ||
            sscanf(o, "--c=%ld", &p->every_c) == 1 || sscanf(o, "--jobs=%ld", &p->jobs) == 1)
            continue;
        if (!strcmp(o, "--all"))
            p->every_llvm = p->every_c = 1;
        else if (!strncmp(o, "--cc=", 5))
            p->cc = o + 5;
        else
            return false;
    }
    return p->jobs > 0 && p->jobs <= MAX_JOBS;
}

int main(int argc, char **argv) {
    Prop p = {.first = 1, .last = 2000, .every_llvm = 4, .every_c = 16, .jobs = sysconf(_SC_NPROCESSORS_ONLN)};
    p.cc = getenv("CC") ? getenv("CC") : "cc";
    long seed;
    if (argc == 2 && sscanf(argv[1], "--show=%ld", &seed) == 1) {
        show(seed);
        return 0;
    }
    if (!read_options(&p, argc, argv)) {
        fprintf(stderr, "usage: prop [--seeds=A..B] [--llvm=K] [--c=K] [--all] [--jobs=N] [--cc=COMMAND] [--show=SEED]\n");
        return EXIT_USAGE;
    }
    Arena *a = arena_new();
    Diag d = {0};
    p.temp = dir_temp(a, &d);
    p.shared = mmap(NULL, sizeof *p.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!p.temp || p.shared == MAP_FAILED) return EXIT_IO;
    Shared *s = p.shared;
    bool ok = run_jobs(&p);
    dir_remove(p.temp);
    arena_free(a);
    if (s->skipped) printf("%d cases are not supported and were left out\n", s->skipped);
    if (!ok || (s->skipped > 10 && s->skipped > s->passed / 10)) s->failed++;
    printf("of %ld cases %d also went through LLVM, %d through C at -O0 and -O3\n", p.last - p.first + 1, s->llvm, s->c);
    printf("%d passed, %d failed\n", s->passed, s->failed);
    return s->failed > 0;
}
