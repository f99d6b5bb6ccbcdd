// The way from a Program to a model that can be run: LLVM in process, or emitted C through the C compiler and the dynamic loader.
//
// Compiled C is cached under the hash of its text, of the compiler's version and of the flags: whatever else changes (model, options, mlc,
// CPU) shows in the text. An entry is written under a temporary name and renamed, so two processes may fill the cache at once.
#include "exec.h"
#include "files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utime.h>

enum { MAX_WORDS = 64, PARTS_MAX = 8 };

static const char exec_prefix[] = "model";

int toolchain_words(Arena *a, const ToolOptions *t, const char **words, int max) {
    const char *env = getenv("CC"), *text = t->cc ? t->cc : env && *env ? env : "cc";
    int n = 0;
    for (size_t len; *(text += strspn(text, " ")) && n < max; text += len) {
        len = strcspn(text, " ");
        words[n++] = arena_strndup(a, text, len);
    }
    return n;
}

bool toolchain_run(const ToolOptions *t, const char *const *args, Diag *d) {
    Arena *a = arena_new();
    const char *words[2 * MAX_WORDS + 1];
    int n = toolchain_words(a, t, words, MAX_WORDS);
    for (int i = 0; args[i] && n < 2 * MAX_WORDS - 1; i++) words[n++] = args[i];
    if (t->more) words[n++] = t->more;
    words[n] = NULL;
    Str out = {0};
    int status = run_program(words, &out);
    if (status < 0) diag_error(d, EXIT_IO, "cannot run the C compiler '%s' (set CC or --cc)", words[0]);
    if (status > 0) diag_error(d, EXIT_IO, "the C compiler '%s' failed with status %d:\n%s", words[0], status, out.data ? out.data : "");
    str_free(&out);
    arena_free(a);
    return status == 0;
}

// Compiles the source, under a name that is always the same, for compilers note it in what they make. args end in NULL.
static bool compile_source(const Str *source, const ToolOptions *t, const char *const *args, Diag *d) {
    enum { MAX_ARGS = 8 };
    Arena *a = arena_new();
    const char *all[MAX_ARGS + 2], *folder = dir_temp(a, d);
    int n = 0;
    for (; args[n] && n < MAX_ARGS; n++) all[n] = args[n];
    all[n++] = arena_printf(a, "%s/model.c", folder ? folder : "");
    all[n] = NULL;
    bool ok = folder && file_write(all[n - 1], source->data, source->n, d) && toolchain_run(t, all, d);
    if (folder) dir_remove(folder);
    arena_free(a);
    return ok;
}

bool toolchain_object(const Str *source, const ToolOptions *t, const char *flag, const char *path, Diag *d) {
    return compile_source(source, t, (const char *[]){t->level, "-w", "-c", "-o", path, flag, NULL}, d);
}

bool toolchain_shared(const Str *source, const ToolOptions *t, const char *path, Diag *d) {
    return compile_source(source, t, (const char *[]){t->level, "-w", "-fPIC", "-shared", "-o", path, NULL}, d);
}

// ---- a source in parts ----
typedef struct {
    const Str *text;
    const ToolOptions *t;
    const char *object;
    Diag faults;
    bool ok;
} Part;

static void part_compile(void *arg) {
    Part *p = arg;
    p->ok = toolchain_object(p->text, p->t, "-fPIC", p->object, &p->faults);
}

// The first fault is told, for a compiler that does not run fails on every part.
static bool all_compiled(Part *part, int n, Diag *d) {
    for (int i = 0; i < n; i++)
        if (!part[i].ok) {
            diag_move(d, &part[i].faults);
            return false;
        }
    return true;
}

bool toolchain_shared_parts(const Str *text, int n, const ToolOptions *t, const char *path, Diag *d) {
    if (n == 1) return toolchain_shared(text, t, path, d);
    Arena *a = arena_new();
    Part *part = ARENA_ARRAY(a, Part, n);
    const char **args = ARENA_ARRAY(a, const char *, n + 4);
    memcpy(args, (const char *[]){"-shared", "-o", path}, 3 * sizeof *args);
    for (int i = 0; i < n; i++) {
        args[i + 3] = arena_printf(a, "%s.%d.o", path, i);
        part[i] = (Part){.text = &text[i], .t = t, .object = args[i + 3], .faults = {.file = d->file}};
    }
    each_side_by_side(part, n, sizeof *part, part_compile);
    bool ok = all_compiled(part, n, d) && toolchain_run(t, args, d);
    for (int i = 0; i < n; i++) {
        unlink(part[i].object);
        diag_free(&part[i].faults);
    }
    arena_free(a);
    return ok;
}

// What the compiler says of itself, "" when it says nothing.
static const char *compiler_version(Arena *a, const ToolOptions *t) {
    const char *words[MAX_WORDS + 2];
    int n = toolchain_words(a, t, words, MAX_WORDS);
    words[n] = "--version";
    words[n + 1] = NULL;
    Str text = {0};
    const char *version = run_program(words, &text) == 0 && text.n ? arena_strndup(a, text.data, text.n) : "";
    str_free(&text);
    return version;
}

// What scheduled code needs of gcc. -O1 takes about half of -O2's time; -O2 makes vectors of its own beside ours, which costs some models a
// third of their speed. Following the bits of every address (bit-ccp) takes up to a third of -O1's time and makes nothing faster. Other
// compilers (clang inlines from -O2 on only) and code without vectors get what was asked for.
static ToolOptions lean_options(const ToolOptions *t, const char *version, const Program *p) {
    ToolOptions lean = *t;
    const Target *target = target_find(p->target ? p->target : "generic");
    if (!target || !target->hosted || strcmp(t->level, "-O2") || !strstr(version, "Free Software Foundation")) return lean;
    lean.level = "-O1";
    lean.more = "-fno-tree-bit-ccp";
    return lean;
}

// ---- the cache ----
// The texts of a library and, where the weights are apart, the file beside it.
typedef struct {
    Str text[PARTS_MAX];
    int ntexts;
    const Program *weights; // NULL: they are in the text
    const EmitOptions *emit;
} Emitted;

static void emitted_free(Emitted *m) {
    for (int i = 0; i < m->ntexts; i++) str_free(&m->text[i]);
}

static uint64_t hash_texts(uint64_t h, const Emitted *m) {
    for (int i = 0; i < m->ntexts; i++) h = hash_bytes(h, m->text[i].data, m->text[i].n);
    return h;
}

// NAME of the cache entry for this text, or NULL when the compiler does not tell its version.
static const char *cache_key(Arena *a, const ToolOptions *t, const char *version, const Emitted *m) {
    const char *words[MAX_WORDS + 3];
    int n = toolchain_words(a, t, words, MAX_WORDS);
    words[n++] = version;
    words[n++] = t->level;
    if (t->more) words[n++] = t->more;
    uint64_t h = HASH_SEED;
    for (int i = 0; i < n; i++) h = hash_bytes(h, words[i], strlen(words[i]) + 1);
    h = hash_texts(h, m);
    uint64_t second = hash_texts(h, m);
    return version[0] ? arena_printf(a, "%016llx%016llx.so", (unsigned long long)h, (unsigned long long)second) : NULL;
}

// The blob, from where the constants are: no copy of it is made.
static bool write_weights(const Emitted *m, const char *path, Diag *d) {
    FILE *f = fopen(path, "wb");
    if (f) codegen_weights(m->weights, m->emit, outputs_sink, f);
    bool bad = !f || fflush(f) || ferror(f);
    int fault = errno;
    if (f && fclose(f) && !bad) bad = true, fault = errno;
    if (bad) diag_error(d, EXIT_IO, "cannot write %s: %s", path, strerror(fault));
    return !bad;
}

static Exec *compile_and_load(Arena *a, const Emitted *m, const ToolOptions *t, const char *folder, const char *kept, Diag *d) {
    const char *so = arena_printf(a, "%s/build-%ld.so", folder, (long)getpid()), *bin = path_with_suffix(a, so, ".bin");
    bool ok = toolchain_shared_parts(m->text, m->ntexts, t, so, d) && (!m->weights || write_weights(m, bin, d));
    bool moved = ok && kept && (!m->weights || !rename(bin, path_with_suffix(a, kept, ".bin"))) && !rename(so, kept);
    Exec *e = ok ? exec_from_library(moved ? kept : so, exec_prefix, d) : NULL;
    if (!moved) {
        unlink(so);
        unlink(bin);
    }
    return e;
}

Exec *exec_c(const Program *p, const char *options, const ToolOptions *t, Diag *d) {
    Arena *a = arena_new();
    Exec *e = NULL;
    enum { INLINE_BYTES = 1 << 14, PART_BYTES = 1 << 15 };
    int cpus = mlc_pool_default_threads();
    Emitted m = {0};
    Str header = {0};
    EmitOptions emit = {.prefix = exec_prefix,
        .options = options,
        .export_info = true,
        .hooks = t->hooks,
        .parts = m.text + 1,
        .nparts = (cpus < PARTS_MAX ? cpus : PARTS_MAX) - 1, // one text a core
        .part_bytes = PART_BYTES,
        .weights = codegen_weights_bytes(p, &(EmitOptions){0}) > INLINE_BYTES ? WEIGHTS_BLOB : WEIGHTS_INLINE};
    bool ok = codegen_c(p, &emit, &m.text[0], &header, d); // its text names the blob's hash
    while (m.ntexts < PARTS_MAX && m.text[m.ntexts].n) m.ntexts++;
    if (emit.weights == WEIGHTS_BLOB) m.weights = p;
    m.emit = &emit;
    const char *version = compiler_version(a, t);
    const ToolOptions lean = lean_options(t, version, p);
    const char *folder = ok && t->cache ? cache_dir(a, d) : NULL, *key = folder ? cache_key(a, &lean, version, &m) : NULL;
    const char *kept = key ? arena_printf(a, "%s/%s", folder, key) : NULL;
    ok = ok && !d->errors;
    bool complete = ok && kept && file_exists(kept) && (!m.weights || file_exists(path_with_suffix(a, kept, ".bin")));
    if (complete) {
        utime(kept, NULL);
        e = exec_from_library(kept, exec_prefix, d);
    } else if (ok && kept) {
        e = compile_and_load(a, &m, &lean, folder, kept, d);
        cache_trim(a, folder);
    } else if (ok && (folder = dir_temp(a, d))) {
        e = compile_and_load(a, &m, &lean, folder, NULL, d);
        dir_remove(folder);
    }
    emitted_free(&m);
    str_free(&header);
    arena_free(a);
    return e;
}

static Exec *open_llvm(const Program *p, int level, bool hooks, Diag *d) {
    EmitOptions emit = {.prefix = exec_prefix, .export_info = true, .hooks = hooks};
    LlvmJit *jit = llvm_jit(p, &emit, level, d);
    Exec *e = jit ? exec_from_info(llvm_jit_info(jit), d) : NULL;
    if (e)
        e->jit = jit;
    else if (jit)
        llvm_jit_free(jit);
    return e;
}

Exec *exec_llvm(const Program *p, int level, Diag *d) {
    return open_llvm(p, level, false, d);
}

bool backend_parse(const Options *o, Backend *b, Diag *d) {
    static const char *const names[] = {"llvm", "c", "eval"};
    const char *text = options_text(o, OPT_backend, llvm_available() ? "llvm" : "c");
    for (int i = 0; i < 3; i++)
        if (!strcmp(text, names[i])) {
            *b = (Backend)i;
            return true;
        }
    diag_error(d, EXIT_USAGE, "--backend: expected llvm, c or eval, found '%s'", text);
    return false;
}

Exec *exec_open(Pipeline *p, const char *path, Backend b, const ToolOptions *t, Diag *d) {
    if (b == BACKEND_EVAL) return pipeline_import(p, path, d) ? exec_from_graph(p->graph, d) : NULL;
    const Target *machine = p->passes.target;
    if ((b == BACKEND_LLVM || machine->hosted) && !target_runs_here(machine)) {
        diag_error(d, EXIT_UNSUPPORTED, "this machine cannot run code for %s%s", machine->name,
            machine->hosted ? "" : "; --backend=c runs its C on this machine");
        return NULL;
    }
    if (!pipeline_program(p, path, d)) return NULL;
    int level = p->passes.level > 3 ? 2 : p->passes.level;
    Exec *e = b == BACKEND_C ? exec_c(p->program, p->text, t, d) : open_llvm(p->program, level, t->hooks, d);
    if (e) exec_set_threads(e, p->passes.threads);
    return e;
}
