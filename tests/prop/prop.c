// prop [--seeds=A..B] [--full=N] [--cc=COMMAND]: the cases of seeds A to B; the first N of them (default 60) also through LLVM and, at -O0
// and -O3, through the C compiler, several to a translation unit. Prints each failing case's graph and where it failed; the last line is "N
// passed, N failed". A case that the compiler says it does not support is left out; more than one in ten of them is a failure too.
// --show=SEED prints the graph of a seed.
#include "prop.h"

#include "../../cli/exec.h"
#include "../../cli/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 15, SECONDS = 60 };

typedef struct {
    long first, last, full;
    const char *cc, *temp;
    Progress *progress; // shared with the children
    int passed, failed, skipped;
} Prop;

static const char *prefix_of(Arena *a, long seed) {
    return arena_printf(a, "t%ld", seed);
}

static const char *source_of(const Prop *p, Arena *a, long seed) {
    return arena_printf(a, "%s/t%ld.c", p->temp, seed);
}

typedef enum { RUN_GOOD, RUN_BAD, RUN_SKIPPED } RunEnd;

// In a child: the case itself, or with `so` its compiled C.
static RunEnd run_seed(const Prop *p, long seed, const char *so) {
    Arena *a = arena_new();
    Diag d = {0};
    Case c;
    snprintf(p->progress->stage, sizeof p->progress->stage, so ? "C %s" : "generating", so ? so : "");
    prop_generate(&c, (uint64_t)seed, a);
    bool full = seed < p->first + p->full;
    bool ok = so ? check_library(&c, a, so, prefix_of(a, seed), &d)
                 : check_case(&c, a, full && llvm_available(), full ? source_of(p, a, seed) : NULL, prefix_of(a, seed), p->progress, &d);
    if (!ok && d.code == EXIT_UNSUPPORTED) return RUN_SKIPPED;
    if (!ok) printf("%s", d.text.data ? d.text.data : "failed without a message\n");
    fflush(stdout);
    return ok ? RUN_GOOD : RUN_BAD;
}

// Runs the seed in a process of its own; says what failed.
static RunEnd fork_seed(Prop *p, long seed, const char *so) {
    p->progress->text[0] = 0;
    pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS);
        _exit((int)run_seed(p, seed, so));
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) status = 1;
    if (status == 0) return RUN_GOOD;
    if (WIFEXITED(status) && WEXITSTATUS(status) == RUN_SKIPPED) return RUN_SKIPPED;
    printf("FAIL seed %ld: %s", seed, p->progress->stage);
    if (WIFSIGNALED(status)) printf(": signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    printf("\n%s\n", p->progress->text);
    fflush(stdout);
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
static void run_c(Prop *p, const long *seeds, int n, bool *ok) {
    static const char *const levels[] = {"-O0", "-O3"};
    Arena *a = arena_new();
    for (int l = 0; l < 2 && n; l++) {
        Diag d = {0};
        const char *so = arena_printf(a, "%s/batch%ld%s.so", p->temp, seeds[0], levels[l]);
        if (compile(p, a, seeds, n, levels[l], so, &d)) {
            for (int i = 0; i < n; i++) ok[i] = fork_seed(p, seeds[i], so) == RUN_GOOD && ok[i];
        } else {
            printf("FAIL seeds %ld..%ld: %.1000s\n", seeds[0], seeds[n - 1], d.text.data);
            for (int i = 0; i < n; i++) ok[i] = false;
        }
        diag_free(&d);
    }
    arena_free(a);
}

static void run_batch(Prop *p, long first, long last) {
    Arena *a = arena_new();
    long seeds[BATCH];
    bool good[BATCH];
    int n = 0;
    for (long s = first; s <= last; s++) {
        RunEnd end = fork_seed(p, s, NULL);
        p->failed += end == RUN_BAD;
        p->skipped += end == RUN_SKIPPED;
        if (end != RUN_GOOD) continue;
        if (file_exists(source_of(p, a, s)))
            good[n] = true, seeds[n++] = s;
        else
            p->passed++;
    }
    run_c(p, seeds, n, good);
    for (int i = 0; i < n; i++) {
        p->passed += good[i];
        p->failed += !good[i];
    }
    arena_free(a);
}

static void show(long seed) {
    Arena *a = arena_new();
    Case c;
    prop_generate(&c, (uint64_t)seed, a);
    Str s = {0};
    graph_print(&s, c.g);
    printf("; N = %lld\n%s", (long long)c.n, s.data);
    str_free(&s);
    graph_free(c.g);
    arena_free(a);
}

int main(int argc, char **argv) {
    Prop p = {.first = 1, .last = 300, .full = 60, .cc = getenv("CC") ? getenv("CC") : "cc"};
    for (int i = 1; i < argc; i++) {
        long seed;
        if (sscanf(argv[i], "--show=%ld", &seed) == 1) {
            show(seed);
            return 0;
        }
        if (sscanf(argv[i], "--seeds=%ld..%ld", &p.first, &p.last) == 2 || sscanf(argv[i], "--full=%ld", &p.full) == 1) continue;
        if (!strncmp(argv[i], "--cc=", 5)) {
            p.cc = argv[i] + 5;
            continue;
        }
        fprintf(stderr, "usage: prop [--seeds=A..B] [--full=N] [--cc=COMMAND] [--show=SEED]\n");
        return EXIT_USAGE;
    }
    Arena *a = arena_new();
    Diag d = {0};
    p.temp = dir_temp(a, &d);
    p.progress = mmap(NULL, sizeof *p.progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!p.temp || p.progress == MAP_FAILED) return EXIT_IO;
    for (long s = p.first; s <= p.last; s += BATCH) run_batch(&p, s, s + BATCH - 1 < p.last ? s + BATCH - 1 : p.last);
    dir_remove(p.temp);
    arena_free(a);
    if (p.skipped) printf("%d cases are not supported and were left out\n", p.skipped);
    if (p.skipped > 10 && p.skipped > p.passed / 10) p.failed++;
    printf("%d passed, %d failed\n", p.passed, p.failed);
    return p.failed > 0;
}
