// Runs a program in loop text through the interpreter, through C and through LLVM on given inputs; gallery.py compares what comes out.
//
// usage: gallery [-o] FILE.loop WAY,WAY… FOLDER…
//   Each FOLDER is a case: NAME.npy are its inputs, the lines `NAME VALUE` of dims.txt the program's dims and, as `runs`, how often it is
//   run (states are kept between runs). The last run's outputs become WAY/NAME.npy in it. A way is prepared once and runs every case; a
//   line `WAY CASE STATUS` is printed for each, cases counted from 0. Ends with 1 when a way could not be prepared or a case could not be
//   run. -o  makes WAY.o in the first folder instead, for a look at the machine code
// A WAY is one of `ways`, with `:TARGET` behind it for another machine than this one.
#include "../../cli/exec.h"
#include "../../cli/files.h"
#include "../../cli/npy.h"
#include "../../ir/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIMS = 16, MAX_TENSORS = 64 };

typedef enum { BY_TEXT, BY_SHUFFLE, BY_PASSES, BY_LLVM, BY_C } How;
typedef struct {
    const char *name;
    How how;
    const char *cc, *standard, *target;
    int threads;
} Way;
static const Way ways[] = {
    {"text", BY_TEXT, NULL, NULL, "native", 1},       // interpreted as it stands
    {"shuffle", BY_SHUFFLE, NULL, NULL, "native", 1}, // the same, par loops and parts of reductions in random order
    {"passes", BY_PASSES, NULL, NULL, "native", 1},   // interpreted after the loop passes
    {"llvm", BY_LLVM, NULL, NULL, "native", 1},
    {"llvm-threads", BY_LLVM, NULL, NULL, "native", 3},
    {"gcc", BY_C, "gcc", "-std=c11", "native", 1},
    {"gcc-threads", BY_C, "gcc", "-std=c11", "native", 3},
    {"clang", BY_C, "clang", "-std=c11", "native", 1},
    {"gcc99", BY_C, "gcc", "-std=c99", "generic", 1},
    {"clang99", BY_C, "clang", "-std=c99", "generic", 1},
};

typedef struct {
    const char *name;
    int64_t value;
} DimValue;

// One program made ready for a way, and the case at hand.
typedef struct {
    const char *file, *name; // name: of the way
    Way way;
    Arena *arena;
    Diag d;
    Program *p;
    DimTable *table;
    Exec *exec; // NULL: interpreted
    const char *folder;
    DimValue dims[MAX_DIMS];
    int ndims, runs;
    int64_t data[MAX_DIMS]; // values of data dims, by `syms`
    const Dim *syms[MAX_DIMS];
    int nsyms;
} Job;

// ---- sizes ----
static bool read_dims(Job *j) {
    size_t size;
    const char *path = arena_printf(j->arena, "%s/dims.txt", j->folder), *text = file_map(path, &size, &j->d);
    if (!text) return false;
    char *copy = arena_strndup(j->arena, text, size), *save = NULL;
    file_unmap(text, size);
    j->ndims = 0;
    j->runs = 1;
    for (char *line = strtok_r(copy, "\n", &save); line && j->ndims < MAX_DIMS; line = strtok_r(NULL, "\n", &save)) {
        char *value = strchr(line, ' ');
        if (!value) continue;
        *value++ = '\0';
        if (!strcmp(line, "runs"))
            j->runs = atoi(value);
        else
            j->dims[j->ndims++] = (DimValue){line, strtoll(value, NULL, 10)};
    }
    return true;
}

static int64_t model_dim(Job *j, const char *name) {
    for (int i = 0; i < j->ndims; i++)
        if (!strcmp(j->dims[i].name, name)) return j->dims[i].value;
    diag_error(&j->d, EXIT_USAGE, "%s/dims.txt: no value for %s", j->folder, name);
    return 1;
}

// Data dims that are not known yet count with their upper bound.
static int64_t size_of(void *ctx, const Dim *sym) {
    Job *j = ctx;
    const Sym *s = dim_as_symbol(sym);
    bool ok = true;
    for (int i = 0; i < j->nsyms; i++)
        if (j->syms[i] == sym) return j->data[i];
    return s->kind == SYM_MODEL ? model_dim(j, s->name) : dim_eval(s->hi, size_of, ctx, &ok);
}

static Tensor buffer_tensor(Job *j, const LoopBuffer *b) {
    int64_t shape[GRAPH_MAX_RANK];
    bool ok = true;
    for (int i = 0; i < b->rank; i++) shape[i] = dim_eval(b->shape[i], size_of, j, &ok);
    return tensor_new(j->arena, b->var.type.type, b->rank, shape);
}

static bool read_input(Job *j, const char *name, DType type, Tensor *t) {
    return npy_read(arena_printf(j->arena, "%s/%s.npy", j->folder, name), type, j->arena, t, &j->d);
}

static bool write_output(Job *j, const char *name, const Tensor *t) {
    Str s = {0};
    const char *folder = arena_printf(j->arena, "%s/%s", j->folder, j->name);
    bool ok = dir_make(folder, &j->d) && npy_format(t, &s, &j->d) &&
              file_write(arena_printf(j->arena, "%s/%s.npy", folder, name), s.data, s.n, &j->d);
    str_free(&s);
    return ok;
}

// ---- interpreted ----
static void note_size(void *ctx, const Dim *sym, int64_t v) {
    Job *j = ctx;
    j->syms[j->nsyms] = sym;
    j->data[j->nsyms++] = v;
}

static bool interpreter_memory(Job *j, Tensor *t, void **mem, size_t *cap) {
    for (int i = 0; i < j->p->buffers.n; i++) {
        const LoopBuffer *b = j->p->buffers.data[i];
        if (b->kind != BUF_INPUT && b->kind != BUF_OUTPUT && b->kind != BUF_STATE) continue;
        t[i] = buffer_tensor(j, b);
        cap[i] = t[i].bytes;
        if (b->kind == BUF_INPUT && !read_input(j, b->var.name, b->var.type.type, &t[i])) return false;
        if (b->kind == BUF_STATE && b->bytes) memcpy(t[i].data, b->bytes, b->nbytes);
        if (b->tie < 0) mem[i] = t[i].data; // a tied output lives in its state
    }
    return !j->d.errors;
}

static bool write_interpreted(Job *j, const Tensor *t) {
    for (int i = 0; i < j->p->buffers.n; i++) {
        const LoopBuffer *b = j->p->buffers.data[i];
        if (b->kind != BUF_OUTPUT) continue;
        Tensor out = buffer_tensor(j, b);
        memcpy(out.data, b->tie < 0 ? t[i].data : t[b->tie].data, out.bytes);
        if (!write_output(j, b->var.name, &out)) return false;
    }
    return true;
}

static bool interpret(Job *j, int *status) {
    Tensor t[MAX_TENSORS] = {0};
    void *mem[MAX_TENSORS] = {0};
    size_t cap[MAX_TENSORS] = {0};
    int64_t dims[MAX_DIMS];
    for (int i = 0; i < j->p->symbols.n; i++) dims[i] = model_dim(j, dim_as_symbol(j->p->symbols.data[i])->name);
    if (!interpreter_memory(j, t, mem, cap)) return false;
    uint64_t seed = j->way.how == BY_SHUFFLE ? LOOP_CUT | 20 : 0;
    for (int i = 0; i < j->runs; i++) {
        j->nsyms = 0;
        *status = loop_interpret(j->p, dims, mem, cap, note_size, j, seed, &j->d);
    }
    return !j->d.errors && (*status || write_interpreted(j, t));
}

// ---- compiled ----
static const char *source_file(Job *j, Str *source) {
    Str header = {0};
    EmitOptions o = {.prefix = "gallery", .export_info = true};
    const char *path = arena_printf(j->arena, "%s/%s.c", j->folder, j->name);
    bool ok = codegen_c(j->p, &o, source, &header, &j->d) && file_write(path, source->data, source->n, &j->d);
    str_free(&header);
    return ok ? path : NULL;
}

static bool compile_c(Job *j, const char *kind, const char *out) {
    Str source = {0};
    const char *path = source_file(j, &source);
    ToolOptions t = {.cc = j->way.cc};
    const char *args[] = {"-O2", j->way.standard, "-pedantic", "-Wall", "-Wextra", "-Werror", "-fPIC", kind, "-o", out, path, NULL};
    str_free(&source);
    return path && toolchain_run(&t, args, &j->d);
}

static Exec *open_c(Job *j) {
    const char *so = arena_printf(j->arena, "%s/%s.so", j->folder, j->name);
    return compile_c(j, "-shared", so) ? exec_from_library(so, "gallery", &j->d) : NULL;
}

static bool run_compiled(Job *j, int *status) {
    Exec *e = j->exec;
    Tensor in[MAX_TENSORS], out[MAX_TENSORS];
    bool ok = true;
    for (int i = 0; i < e->nin && ok; i++) ok = read_input(j, e->in[i].name, e->in[i].type, &in[i]);
    if (!ok) return false;
    exec_reset(e);
    for (int i = 0; i < j->runs; i++) *status = exec_run(e, in, out, j->arena, &j->d);
    if (*status) { // its message is not our fault
        diag_free(&j->d);
        j->d = (Diag){.file = j->file};
    }
    for (int i = 0; i < e->nout && ok && !*status; i++) ok = write_output(j, e->out[i].name, &out[i]);
    return ok;
}

static bool make_object(Job *j) {
    const char *path = arena_printf(j->arena, "%s/%s.o", j->folder, j->name);
    if (j->way.how == BY_C) return compile_c(j, "-c", path);
    Str out = {0};
    EmitOptions o = {.prefix = "gallery", .export_info = true};
    bool ok = codegen_llvm(j->p, &o, LLVM_OBJECT, 2, &out, &j->d) && file_write(path, out.data, out.n, &j->d);
    str_free(&out);
    return ok;
}

// ---- one way ----
static bool parse_way(Job *j) {
    size_t n = strcspn(j->name, ":");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strlen(ways[i].name) == n && !memcmp(ways[i].name, j->name, n)) {
            j->way = ways[i];
            if (j->name[n]) j->way.target = j->name + n + 1;
            return true;
        }
    diag_error(&j->d, EXIT_USAGE, "unknown way '%s'", j->name);
    return false;
}

// The text that loop_print writes is read back to a program with the same text.
static bool prints_back(Job *j) {
    Str once = {0}, twice = {0};
    DimTable *table = dim_table_new();
    loop_print(&once, j->p);
    Program *p = loop_parse(once.data, "printed text", table, NULL, NULL, &j->d);
    if (p) loop_print(&twice, p);
    bool same = p && once.n == twice.n && !memcmp(once.data, twice.data, once.n);
    if (p && !same) diag_error(&j->d, EXIT_INTERNAL, "the printed text reads back to another program");
    if (p) program_free(p);
    dim_table_free(table);
    str_free(&once);
    str_free(&twice);
    return same;
}

static bool load(Job *j) {
    size_t size;
    const void *text = file_map(j->file, &size, &j->d);
    if (!text) return false;
    j->table = dim_table_new();
    j->p = loop_parse(arena_strndup(j->arena, text, size), j->file, j->table, NULL, NULL, &j->d);
    file_unmap(text, size);
    if (!j->p || !loop_verify(j->p, &j->d)) return false;
    if (j->p->buffers.n > MAX_TENSORS || j->p->symbols.n > MAX_DIMS) {
        diag_error(&j->d, EXIT_LIMIT, "too many buffers or dims");
        return false;
    }
    PassOptions o = {.target = target_find(j->way.target), .level = 2, .threads = j->way.threads};
    if (!o.target) {
        diag_error(&j->d, EXIT_USAGE, "unknown target '%s'", j->way.target);
        return false;
    }
    j->p->target = o.target->name;
    return j->way.how < BY_PASSES ? prints_back(j) : passes_run_loop(j->p, &o, &j->d);
}

static bool prepare(Job *j, bool object) {
    if (!parse_way(j) || !load(j)) return false;
    if (object) return make_object(j);
    if (j->way.how < BY_LLVM) return true;
    j->exec = j->way.how == BY_C ? open_c(j) : exec_llvm(j->p, 2, &j->d);
    if (j->exec) exec_set_threads(j->exec, j->way.threads);
    return j->exec != NULL;
}

static int report(Job *j) { // 1: a failure
    fprintf(stderr, "%s (%s, %s):\n%s", j->file, j->name, j->folder, j->d.text.data ? j->d.text.data : "failed without a message\n");
    diag_free(&j->d);
    j->d = (Diag){.file = j->file};
    return 1;
}

static int run_way(const char *file, const char *way, char **folders, int n, bool object) {
    Job j = {.file = file, .name = way, .arena = arena_new(), .d = {.file = file}, .folder = folders[0]};
    bool ready = prepare(&j, object);
    int failed = ready ? 0 : report(&j);
    for (int i = 0; i < n && ready && !object; i++) {
        int status = 0;
        j.folder = folders[i];
        j.nsyms = 0;
        bool ok = read_dims(&j) && (j.exec ? run_compiled(&j, &status) : interpret(&j, &status));
        if (ok)
            printf("%s %d %d\n", way, i, status);
        else
            failed += report(&j);
    }
    exec_free(j.exec);
    if (j.p) program_free(j.p);
    if (j.table) dim_table_free(j.table);
    diag_free(&j.d);
    arena_free(j.arena);
    return failed;
}

int main(int argc, char **argv) {
    int i = 1, failed = 0;
    bool object = i < argc && !strcmp(argv[i], "-o");
    i += object;
    if (argc - i < 3) {
        fprintf(stderr, "usage: gallery [-o] FILE.loop WAY,WAY... FOLDER...\n");
        return EXIT_USAGE;
    }
    char *save = NULL;
    for (char *way = strtok_r(argv[i + 1], ",", &save); way; way = strtok_r(NULL, ",", &save))
        failed += run_way(argv[i], way, argv + i + 2, argc - i - 2, object);
    return failed ? 1 : 0;
}
