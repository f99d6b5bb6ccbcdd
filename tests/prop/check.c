// One case through the compiler. The Graph as parsed from its own text is evaluated; then again after each graph pass, as a Program by the
// interpreter with shuffled loops after the lowering and each loop pass: within the outputs' tolerances. The final Program in order gives
// the bits that LLVM and C must reproduce. Each text form is read back and printed again.
#include "prop.h"

#include "../../cli/exec.h"
#include "../../cli/files.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    const Case *c;
    Arena *a;
    Progress *p;
    const Tensor *expected; // of the evaluator
    Tensor *bits;           // of the interpreter, in order
    Pipeline line;
} Check;

static void stage(Check *k, const char *what, const char *pass) {
    if (k->p) snprintf(k->p->stage, sizeof k->p->stage, "%s%s%s", what, pass ? " after " : "", pass ? pass : "");
}

// ---- texts read back ----
static bool same_text(Check *k, const Str *one, const Str *two, Diag *d) {
    if (one->n == two->n && !memcmp(one->data, two->data, one->n)) return true;
    size_t i = 0;
    while (i < one->n && i < two->n && one->data[i] == two->data[i]) i++;
    while (i && one->data[i - 1] != '\n') i--;
    diag_error(d, EXIT_INTERNAL, "%s: read back and printed again the text differs:\n%.200s\n%.200s", k->p ? k->p->stage : "",
        one->data + i, two->data + i);
    return false;
}

static bool graph_blobs(void *ctx, int i, Data *out) {
    return graph_blob(ctx, i, out);
}

static Graph *graph_again(const Graph *g, Diag *d) {
    Str s = {0};
    graph_print(&s, g);
    Graph *again = graph_parse_blobs(s.data, NULL, d, graph_blobs, (void *)(uintptr_t)g);
    str_free(&s);
    return again;
}

static bool graph_reads_back(Check *k, const Graph *g, Diag *d) {
    Graph *again = graph_again(g, d);
    if (!again) return false;
    Str one = {0}, two = {0};
    graph_print(&one, g);
    graph_print(&two, again);
    bool ok = same_text(k, &one, &two, d);
    str_free(&one);
    str_free(&two);
    graph_free(again);
    return ok;
}

static const void *loop_blobs(void *ctx, int i, size_t *size) {
    const Program *p = ctx;
    for (int b = 0; b < p->buffers.n; b++) {
        const LoopBuffer *buf = p->buffers.data[b];
        if (buf->kind != BUF_CONST || buf->blob != i) continue;
        *size = buf->nbytes;
        return buf->bytes;
    }
    return NULL;
}

static bool loop_reads_back(Check *k, const Program *p, Diag *d) {
    Str one = {0}, two = {0};
    loop_print(&one, p);
    DimTable *t = dim_table_new();
    Program *again = loop_parse(one.data, NULL, t, loop_blobs, (void *)(uintptr_t)p, d);
    if (again) loop_print(&two, again);
    bool ok = again && same_text(k, &one, &two, d);
    str_free(&one);
    str_free(&two);
    program_free(again);
    dim_table_free(t);
    return ok;
}

// ---- running ----
static bool run_exec(const Check *k, Exec *e, Tensor *out, Diag *d) {
    bool ok = e && e->nin == k->c->nin && e->nout == k->c->nout && exec_run(e, k->c->in, out, k->a, d) == 0;
    if (!ok && !d->errors) diag_error(d, EXIT_INTERNAL, "the compiled model has other inputs or outputs");
    exec_free(e);
    return ok;
}

// Values of symbols: the case's N, sizes that the run has defined; before it, their upper bounds (for capacities).
enum { MAX_SIZES = 64 };
typedef struct {
    int64_t n;
    const Dim *sym[MAX_SIZES];
    int64_t value[MAX_SIZES];
    int nsizes;
} Sizes;

static int64_t dim_value(void *ctx, const Dim *sym) {
    const Sizes *z = ctx;
    const Sym *s = dim_as_symbol(sym);
    if (s->kind == SYM_MODEL) return z->n;
    for (int i = z->nsizes - 1; i >= 0; i--)
        if (z->sym[i] == sym) return z->value[i];
    bool ok = true;
    return s->hi ? dim_eval(s->hi, dim_value, ctx, &ok) : 0;
}

static void note_size(void *ctx, const Dim *sym, int64_t v) {
    Sizes *z = ctx;
    if (z->nsizes == MAX_SIZES) return;
    z->sym[z->nsizes] = sym;
    z->value[z->nsizes++] = v;
}

static Tensor buffer_tensor(Arena *a, const LoopBuffer *b, Sizes *z) {
    bool ok = true;
    int64_t shape[GRAPH_MAX_RANK];
    for (int r = 0; r < b->rank; r++) shape[r] = dim_eval(b->shape[r], dim_value, z, &ok);
    return tensor_new(a, b->var.type.type, b->rank, shape);
}

static bool interpret(const Check *k, const Program *p, uint64_t shuffle, Tensor *out, Diag *d) {
    const Case *c = k->c;
    int n = p->buffers.n, in = 0, nout = 0;
    void **memory = ARENA_ARRAY(k->a, void *, n + 1);
    size_t *capacity = ARENA_ARRAY(k->a, size_t, n + 1);
    int64_t syms[4];
    Sizes z = {.n = c->n};
    for (int i = 0; i < p->symbols.n && i < 4; i++) syms[i] = c->n;
    for (int i = 0; i < n; i++) {
        const LoopBuffer *b = p->buffers.data[i];
        if (b->kind != BUF_INPUT && b->kind != BUF_OUTPUT) continue;
        Tensor t = b->kind == BUF_INPUT ? c->in[in++] : buffer_tensor(k->a, b, &z);
        if (b->kind == BUF_OUTPUT) memset(t.data, 0x5a, t.bytes);
        memory[i] = t.data;
        capacity[i] = t.bytes;
    }
    int status = loop_interpret(p, syms, memory, capacity, note_size, &z, shuffle, d);
    for (int i = 0; i < n; i++) {
        if (p->buffers.data[i]->kind != BUF_OUTPUT) continue;
        out[nout] = buffer_tensor(k->a, p->buffers.data[i], &z);
        out[nout++].data = memory[i];
    }
    if (status && !d->errors) diag_error(d, EXIT_INTERNAL, "the interpreter ends with status %d", status);
    return status == 0;
}

// ---- comparing ----
static bool close(const Check *k, const Tensor *found, Diag *d) {
    for (int i = 0; i < k->c->nout; i++) {
        Comparison r = tensor_compare(&found[i], &k->expected[i], k->c->tolerance[i]);
        if (r.ok) continue;
        diag_error(d, EXIT_DIFFERS, "output y%d differs from the evaluator's: %s", i, r.text);
        return false;
    }
    return true;
}

static bool equal(const Check *k, const Tensor *found, Diag *d) {
    for (int i = 0; i < k->c->nout; i++) {
        const Tensor *x = &found[i], *y = &k->bits[i];
        size_t size = (size_t)dtype_bytes(y->type);
        bool ok = x->bytes == y->bytes;
        for (size_t at = 0; ok && at < y->bytes; at += size) {
            Scalar a = scalar_read(x->type, (const char *)x->data + at), b = scalar_read(y->type, (const char *)y->data + at);
            if (scalar_same(a, b)) continue;
            diag_error(d, EXIT_DIFFERS, "output y%d: element %zu is %.17g, the interpreter's %.17g", i, at / size, scalar_as_f64(a),
                scalar_as_f64(b));
            return false;
        }
        if (!ok) {
            diag_error(d, EXIT_DIFFERS, "output y%d has another size", i);
            return false;
        }
    }
    return true;
}

static bool check_graph(void *ctx, const Graph *g, const char *pass, Diag *d) {
    Check *k = ctx;
    Tensor out[MAX_OUTPUTS];
    stage(k, "graph text", pass);
    if (!graph_reads_back(k, g, d)) return false;
    stage(k, "graph_eval", pass);
    return run_exec(k, exec_from_graph(g, d), out, d) && close(k, out, d);
}

static bool check_program(void *ctx, const Program *p, const char *pass, Diag *d) {
    Check *k = ctx;
    Tensor out[MAX_OUTPUTS];
    stage(k, "loop text", pass);
    if (!loop_reads_back(k, p, d)) return false;
    stage(k, "interpreter", pass);
    return interpret(k, p, 0x5eed, out, d) && close(k, out, d);
}

// ---- stages ----
static bool to_program(Check *k, bool checked, Diag *d) {
    PassOptions *o = &k->line.passes;
    const Config *config = &k->c->config;
    *o = (PassOptions){.target = config->target, .level = config->level, .disabled = config->disabled, .threads = 1, .check_ctx = k};
    if (checked) {
        o->check_graph = check_graph;
        o->check_program = check_program;
    }
    stage(k, "graph passes", NULL);
    if (!passes_run_graph(k->line.graph, o, d)) return false;
    stage(k, "lowering", NULL);
    k->line.program = passes_lower(k->line.graph, o, d);
    if (!k->line.program) return false;
    stage(k, "loop passes", NULL);
    if (!passes_run_loop(k->line.program, o, d)) return false;
    stage(k, "interpreter in order", NULL);
    return interpret(k, k->line.program, 0, k->bits, d) && (!checked || close(k, k->bits, d));
}

static bool emit(Check *k, const char *path, const char *prefix, Diag *d) {
    Str source = {0}, header = {0};
    EmitOptions o = {.prefix = prefix, .options = "", .export_info = true};
    stage(k, "C printer", NULL);
    bool ok = codegen_c(k->line.program, &o, &source, &header, d) && file_write(path, source.data, source.n, d);
    str_free(&source);
    str_free(&header);
    return ok;
}

static bool check_llvm(Check *k, Diag *d) {
    Tensor out[MAX_OUTPUTS];
    stage(k, "LLVM", NULL);
    return run_exec(k, exec_llvm(k->line.program, 1, d), out, d) && equal(k, out, d);
}

static Check check_open(const Case *c, Arena *a, Progress *p, Diag *d) {
    Check k = {.c = c, .a = a, .p = p, .bits = ARENA_ARRAY(a, Tensor, MAX_OUTPUTS)};
    stage(&k, "graph text", NULL);
    if (p) {
        Str s = {0};
        graph_print(&s, c->g);
        snprintf(p->text, sizeof p->text, "%s%s", prop_config_text(c, a), s.data);
        str_free(&s);
    }
    if (graph_verify(c->g, d) && graph_reads_back(&k, c->g, d)) k.line.graph = graph_again(c->g, d);
    return k;
}

bool check_case(const Case *c, Arena *a, bool llvm, const char *source, const char *prefix, Progress *p, Diag *d) {
    Check k = check_open(c, a, p, d);
    Tensor *expected = ARENA_ARRAY(a, Tensor, MAX_OUTPUTS);
    k.expected = expected;
    stage(&k, "graph_eval", NULL);
    bool ok = k.line.graph && run_exec(&k, exec_from_graph(k.line.graph, d), expected, d) && to_program(&k, true, d) &&
              (!llvm || check_llvm(&k, d)) && (!source || emit(&k, source, prefix, d));
    pipeline_close(&k.line);
    return ok;
}

bool check_library(const Case *c, Arena *a, const char *so, const char *prefix, Diag *d) {
    Check k = check_open(c, a, NULL, d);
    Tensor out[MAX_OUTPUTS];
    bool ok = k.line.graph && to_program(&k, false, d) && run_exec(&k, exec_from_library(so, prefix, d), out, d) && equal(&k, out, d);
    pipeline_close(&k.line);
    return ok;
}
