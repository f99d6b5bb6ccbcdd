// conform [options] FOLDER: runs the cases of FOLDER (see generate.py) and compares with the list of those that must pass.
//
//   --list=FILE      the cases that must pass: a line "name" (all stages) or "name stage…"; a listed case that fails is a failure
//   --special=FILE   "name mode reason" a line, mode `shape` (values are random by the package's own word), `scaled=X` (floats may differ by X of
//                    the largest magnitude) or `skip`; a name may end in *
//   --update         writes the list anew from this run's results
//   --results=FILE   every case's results as text
//   --only=TEXT      only cases whose name holds TEXT      --stages=eval,c,llvm   --jobs=N   --batch=N   --cc=COMMAND   --timeout=SECONDS
//   --sample=N:K     N of the list's cases, evenly spread; another K, others     --disable=PASS,…  leaves these passes out
// The last line is "N passed, N failed", which counts pairs of case and stage in the list; the exit status is 0 when none failed.
#include "conform.h"

#include "../../cli/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

const char *const stage_names[STAGE_COUNT] = {"eval", "c", "llvm"};

typedef struct {
    Conform run;
    Arena *arena;
    Diag d;
    const char *list, *special, *results, *only, *sample;
    bool update;
} Job;

// ---- files of lines ----
// Calls fn with each line's words; '#' starts a comment line.
static bool each_line(Job *j, const char *path, void (*fn)(Job *j, char **words, int n)) {
    size_t size;
    const char *bytes = file_map(path, &size, &j->d);
    if (!bytes) return false;
    char *text = arena_strndup(j->arena, bytes, size);
    file_unmap(bytes, size);
    for (char *line = text, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end) *end++ = 0;
        char *words[8], *p = line;
        int n = 0;
        while (n < 8 && *(p += strspn(p, " \t"))) {
            words[n++] = p;
            p += strcspn(p, " \t");
            if (*p) *p++ = 0;
        }
        if (n && words[0][0] != '#') fn(j, words, n);
    }
    return true;
}

static int stage_find(const char *name, size_t n) {
    for (int k = 0; k < STAGE_COUNT; k++)
        if (strlen(stage_names[k]) == n && !strncmp(stage_names[k], name, n)) return k;
    return -1;
}

static void add_case(Job *j, char **words, int n) {
    if (n != 3 || (j->only && !strstr(words[0], j->only))) return;
    j->run.cases[j->run.ncases++] = (Case){.name = words[0], .tolerance = {.rtol = atof(words[1]), .atol = atof(words[2])}};
}

static void count_line(Job *j, char **words, int n) {
    (void)words, (void)n;
    j->run.ncases++;
}

static void mark_listed(Job *j, char **words, int n) {
    for (int i = 0; i < j->run.ncases; i++) {
        if (strcmp(j->run.cases[i].name, words[0])) continue;
        for (int k = 0; k < STAGE_COUNT; k++) j->run.cases[i].listed[k] = n == 1;
        for (int w = 1; w < n; w++)
            if (stage_find(words[w], strlen(words[w])) >= 0) j->run.cases[i].listed[stage_find(words[w], strlen(words[w]))] = true;
        return;
    }
    if (!j->only && !j->sample) diag_error(&j->d, EXIT_MODEL, "the list holds '%s', which is no case of %s", words[0], j->run.folder);
}

static bool matches(const char *pattern, const char *name) {
    size_t n = strlen(pattern);
    return n && pattern[n - 1] == '*' ? !strncmp(pattern, name, n - 1) : !strcmp(pattern, name);
}

static void mark_special(Job *j, char **words, int n) {
    bool skip = n > 1 && !strcmp(words[1], "skip"), scaled = n > 1 && !strncmp(words[1], "scaled=", 7);
    if (n < 3 || (!skip && !scaled && strcmp(words[1], "shape"))) {
        diag_error(&j->d, EXIT_USAGE, "%s: expected NAME skip|shape|scaled=X REASON, found '%s'", j->special, words[0]);
        return;
    }
    for (int i = 0; i < j->run.ncases; i++) {
        Case *c = &j->run.cases[i];
        if (!matches(words[0], c->name)) continue;
        c->mode = skip ? MODE_SKIP : scaled ? MODE_VALUES : MODE_SHAPE;
        if (scaled) c->tolerance.scaled = atof(words[1] + 7);
    }
}

// Keeps `some` of the cases that must pass, evenly spread.
static void sample(Conform *c, int64_t some, int64_t shift) {
    int all = 0;
    for (int i = 0; i < c->ncases; i++)
        if (c->cases[i].listed[STAGE_C] || c->cases[i].listed[STAGE_LLVM]) c->cases[all++] = c->cases[i];
    c->ncases = 0;
    for (int i = 0; i < all; i++)
        if ((i * some + shift) % all < some) c->cases[c->ncases++] = c->cases[i];
}

static bool read_lists(Job *j) {
    const char *index = arena_printf(j->arena, "%s/cases.txt", j->run.folder);
    if (!each_line(j, index, count_line)) return false;
    j->run.cases = ARENA_ARRAY(j->arena, Case, j->run.ncases + 1);
    j->run.ncases = 0;
    if (!each_line(j, index, add_case)) return false;
    if (j->special && !each_line(j, j->special, mark_special)) return false;
    if (j->list && file_exists(j->list) && !each_line(j, j->list, mark_listed)) return false;
    long some, shift;
    if (j->sample && sscanf(j->sample, "%ld:%ld", &some, &shift) == 2) sample(&j->run, some, shift);
    return j->d.errors == 0 || j->update;
}

// ---- report ----
static bool passed(const Job *j, int i, int stage) {
    return j->run.state[i].result[stage].kind == RESULT_PASS;
}

static void write_results(Job *j) {
    Str s = {0};
    for (int i = 0; i < j->run.ncases; i++)
        for (int k = 0; k < STAGE_COUNT; k++) {
            const Result *r = &j->run.state[i].result[k];
            static const char *const words[] = {"none", "pass", "fail"};
            str_printf(&s, "%s %s %s%s%s\n", j->run.cases[i].name, stage_names[k], words[r->kind], r->text[0] ? ": " : "", r->text);
        }
    file_write(j->results, s.data, s.n, &j->d);
    str_free(&s);
}

// The list with this run's passes; stages and cases that were not run keep their place.
static void write_list(Job *j) {
    Str s = {0};
    str_add(&s, "# Cases that pass, kept by `conform --update`: all stages, or the stages named.\n");
    for (int i = 0; i < j->run.ncases; i++) {
        bool in[STAGE_COUNT];
        int n = 0;
        for (int k = 0; k < STAGE_COUNT; k++) n += in[k] = j->run.stages[k] ? passed(j, i, k) : j->run.cases[i].listed[k];
        if (!n) continue;
        str_add(&s, j->run.cases[i].name);
        for (int k = 0; k < STAGE_COUNT && n < STAGE_COUNT; k++)
            if (in[k]) str_printf(&s, " %s", stage_names[k]);
        str_add(&s, "\n");
    }
    file_write(j->list, s.data, s.n, &j->d);
    str_free(&s);
}

static int report(Job *j) {
    int count[STAGE_COUNT] = {0}, all = 0, kept = 0, lost = 0, fresh = 0, skipped = 0;
    for (int i = 0; i < j->run.ncases; i++) {
        int n = 0;
        skipped += j->run.cases[i].mode == MODE_SKIP;
        for (int k = 0; k < STAGE_COUNT; k++) {
            bool ok = passed(j, i, k), listed = j->run.cases[i].listed[k] && j->run.stages[k];
            n += ok;
            count[k] += ok;
            kept += listed && ok;
            fresh += ok && !listed;
            if (!listed || ok) continue;
            lost++;
            printf("FAIL %s %s: %s\n", j->run.cases[i].name, stage_names[k], j->run.state[i].result[k].text);
        }
        all += n == STAGE_COUNT;
    }
    printf("%d cases (%d skipped): %d pass in eval, %d in c, %d in llvm, %d in all of them\n", j->run.ncases, skipped, count[STAGE_EVAL],
        count[STAGE_C], count[STAGE_LLVM], all);
    if (fresh)
        printf("%d results pass that the list does not hold%s\n", fresh, j->update ? " (it is written anew)" : " (--update adds them)");
    printf("%d passed, %d failed\n", kept, lost);
    return lost;
}

// ---- options ----
static bool take(const char *arg, const char *name, const char **value) {
    size_t n = strlen(name);
    if (strncmp(arg, name, n) || arg[n] != '=') return false;
    *value = arg + n + 1;
    return true;
}

static bool parse_stages(Conform *c, const char *text) {
    memset(c->stages, 0, sizeof c->stages);
    for (size_t n; *text; text += n + (text[n] == ',')) {
        n = strcspn(text, ",");
        int k = stage_find(text, n);
        if (k < 0) return false;
        c->stages[k] = true;
    }
    return true;
}

static bool parse_args(Job *j, int argc, char **argv) {
    const char *jobs = "2", *batch = "48", *timeout = "60", *stages = llvm_available() ? "eval,c,llvm" : "eval,c";
    j->run.cc = "cc -O1";
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (!strcmp(a, "--update"))
            j->update = true;
        else if (!take(a, "--list", &j->list) && !take(a, "--special", &j->special) && !take(a, "--results", &j->results) &&
                 !take(a, "--only", &j->only) && !take(a, "--sample", &j->sample) && !take(a, "--disable", &j->run.disabled) &&
                 !take(a, "--stages", &stages) && !take(a, "--jobs", &jobs) && !take(a, "--batch", &batch) &&
                 !take(a, "--cc", &j->run.cc) && !take(a, "--timeout", &timeout)) {
            if (a[0] == '-' || j->run.folder) return false;
            j->run.folder = a;
        }
    }
    j->run.jobs = atoi(jobs);
    j->run.batch = atoi(batch);
    j->run.timeout = atoi(timeout);
    return j->run.folder && j->run.jobs > 0 && j->run.batch > 0 && j->run.batch <= 256 && j->run.timeout > 0 &&
           parse_stages(&j->run, stages) && (!j->update || (j->list && !j->only && !j->sample));
}

int main(int argc, char **argv) {
    Job j = {.arena = arena_new()};
    int code = EXIT_USAGE;
    if (!parse_args(&j, argc, argv))
        fputs("usage: conform [--list=FILE [--update]] [--special=FILE] [--results=FILE] [--only=TEXT] [--sample=N:K] [--disable=PASS] "
              "[--stages=eval,c,llvm] [--jobs=N] FOLDER\n",
            stderr);
    else if (read_lists(&j) && (j.run.temp = dir_temp(j.arena, &j.d))) {
        size_t size = sizeof(CaseState) * (size_t)(j.run.ncases + 1);
        void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared != MAP_FAILED) {
            j.run.state = shared;
            conform_run(&j.run);
            code = report(&j) ? EXIT_DIFFERS : EXIT_OK;
            if (j.results) write_results(&j);
            if (j.update) write_list(&j);
            munmap(shared, size);
        }
        dir_remove(j.run.temp);
    }
    if (j.d.text.n) fputs(j.d.text.data, stderr);
    if (j.d.errors && !code) code = (int)j.d.code;
    diag_free(&j.d);
    arena_free(j.arena);
    return code;
}
