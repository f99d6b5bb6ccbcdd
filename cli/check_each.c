// See check_each.h. Graphs run through graph_eval, Programs through the loop interpreter with par loops in a shuffled order.
#include "check_each.h"
#include "compare.h"
#include "spec.h"

#include <stdio.h>
#include <string.h>

struct CheckEach {
    const Options *o;
    Arena *arena;
    Tensor *inputs, *expected; // by the Exec's ports
    int nin, nout;
    const char **in_labels, **out_labels;
};

enum { SHUFFLE_SEED = 0x5eed };

static bool evaluate(CheckEach *c, const Graph *g, Tensor *outputs, Diag *d) {
    Exec *e = exec_from_graph(g, d);
    if (!e) return false;
    bool ok = exec_run(e, c->inputs, outputs, c->arena, d) == 0;
    exec_free(e);
    return ok;
}

CheckEach *check_each_open(const Options *o, const Graph *g, Arena *a, Diag *d) {
    CheckEach *c = ARENA_NEW(a, CheckEach);
    Exec *e = exec_from_graph(g, d);
    if (!e) return NULL;
    *c = (CheckEach){.o = o, .arena = a, .nin = e->nin, .nout = e->nout};
    c->inputs = ARENA_ARRAY(a, Tensor, c->nin + 1);
    c->expected = ARENA_ARRAY(a, Tensor, c->nout + 1);
    c->in_labels = ARENA_ARRAY(a, const char *, c->nin + 1);
    c->out_labels = ARENA_ARRAY(a, const char *, c->nout + 1);
    for (int i = 0; i < c->nin; i++) c->in_labels[i] = arena_strdup(a, e->in[i].label);
    for (int i = 0; i < c->nout; i++) c->out_labels[i] = arena_strdup(a, e->out[i].label);
    bool ok = spec_inputs(o, e, true, a, c->inputs, d);
    exec_free(e);
    return ok && evaluate(c, g, c->expected, d) ? c : NULL;
}

static bool same_outputs(const CheckEach *c, const Tensor *found, const char *pass, Diag *d) {
    Tolerance t = {.rtol = 1e-4, .atol = 1e-6, .scaled = 1e-4};
    for (int i = 0; i < c->nout; i++) {
        Comparison r = tensor_compare(&found[i], &c->expected[i], t);
        if (r.ok) continue;
        diag_error(d, EXIT_INTERNAL, "after pass '%s' output '%s' differs: %s", pass, c->out_labels[i], r.text);
        return false;
    }
    return true;
}

bool check_each_graph(void *ctx, const Graph *g, const char *pass, Diag *d) {
    CheckEach *c = ctx;
    Tensor *found = ARENA_ARRAY(c->arena, Tensor, c->nout + 1);
    return evaluate(c, g, found, d) && same_outputs(c, found, pass, d);
}

// ---- programs ----
typedef struct {
    Arena *arena;
    VEC(const Dim *) syms;
    VEC(int64_t) values;
} Bindings;

static int64_t bound(void *ctx, const Dim *sym) {
    const Bindings *b = ctx;
    for (int i = 0; i < b->syms.n; i++)
        if (b->syms.data[i] == sym) return b->values.data[i];
    const Sym *s = dim_as_symbol(sym); // a size not known before the run: its upper bound, for capacities
    bool ok = true;
    return s->hi ? dim_eval(s->hi, bound, ctx, &ok) : 0;
}

static void note_size(void *ctx, const Dim *sym, int64_t v) {
    Bindings *b = ctx;
    for (int i = 0; i < b->syms.n; i++)
        if (b->syms.data[i] == sym) {
            b->values.data[i] = v;
            return;
        }
    vec_push(b->arena, &b->syms, sym);
    vec_push(b->arena, &b->values, v);
}

static int find_label(const char *const *labels, int n, const char *label) {
    for (int i = 0; i < n; i++)
        if (label && !strcmp(labels[i], label)) return i;
    return -1;
}

// Dimensions that are an input's extent get their value from it.
static void bind_shape(Bindings *b, const LoopBuffer *buf, const Tensor *t) {
    for (int i = 0; i < buf->rank && i < t->rank; i++)
        if (dim_as_symbol(buf->shape[i]) && dim_as_symbol(buf->shape[i])->kind == SYM_MODEL) note_size(b, buf->shape[i], t->shape[i]);
}

static int64_t extent(Bindings *b, const Dim *d) {
    bool ok = true;
    int64_t v = dim_eval(d, bound, b, &ok);
    return ok ? v : 0;
}

static size_t buffer_bytes(Bindings *b, const LoopBuffer *buf) {
    size_t bytes = (size_t)dtype_bytes(buf->var.type.type);
    for (int i = 0; i < buf->rank; i++) bytes *= (size_t)extent(b, buf->shape[i]);
    return bytes;
}

static Tensor output_tensor(CheckEach *c, Bindings *b, const LoopBuffer *buf, void *memory) {
    int64_t *shape = ARENA_ARRAY(c->arena, int64_t, buf->rank + 1);
    for (int i = 0; i < buf->rank; i++) shape[i] = extent(b, buf->shape[i]);
    return (Tensor){buf->var.type.type, buf->rank, shape, memory, buffer_bytes(b, buf)};
}

bool check_each_program(void *ctx, const Program *p, const char *pass, Diag *d) {
    CheckEach *c = ctx;
    int n = p->buffers.n;
    void **memory = ARENA_ARRAY(c->arena, void *, n + 1);
    size_t *capacity = ARENA_ARRAY(c->arena, size_t, n + 1);
    Bindings b = {.arena = c->arena};
    for (int i = 0; i < n; i++) {
        const LoopBuffer *buf = p->buffers.data[i];
        int in = buf->kind == BUF_INPUT ? find_label(c->in_labels, c->nin, buf->label) : -1;
        if (in >= 0) bind_shape(&b, buf, &c->inputs[in]);
    }
    for (int i = 0; i < n; i++) {
        const LoopBuffer *buf = p->buffers.data[i];
        int in = buf->kind == BUF_INPUT ? find_label(c->in_labels, c->nin, buf->label) : -1;
        bool given = buf->kind == BUF_INPUT || buf->kind == BUF_OUTPUT || buf->kind == BUF_STATE;
        if (!given) continue;
        int out = buf->kind == BUF_OUTPUT ? find_label(c->out_labels, c->nout, buf->label) : -1;
        capacity[i] = in >= 0 ? c->inputs[in].bytes : buffer_bytes(&b, buf);
        if (out >= 0 && capacity[i] < c->expected[out].bytes) capacity[i] = c->expected[out].bytes; // a size without a bound
        memory[i] = in >= 0 ? c->inputs[in].data : arena_alloc(c->arena, capacity[i] + 1);
    }
    int64_t *syms = ARENA_ARRAY(c->arena, int64_t, p->symbols.n + 1);
    for (int i = 0; i < p->symbols.n; i++) syms[i] = bound(&b, p->symbols.data[i]);
    int status = loop_interpret(p, syms, memory, capacity, note_size, &b, SHUFFLE_SEED, d);
    if (status) {
        diag_error(d, EXIT_INTERNAL, "after pass '%s' the program ends with status %d", pass, status);
        return false;
    }
    Tensor *found = ARENA_ARRAY(c->arena, Tensor, c->nout + 1);
    for (int i = 0; i < n; i++) {
        const LoopBuffer *buf = p->buffers.data[i];
        int out = buf->kind == BUF_OUTPUT ? find_label(c->out_labels, c->nout, buf->label) : -1;
        if (out >= 0) found[out] = output_tensor(c, &b, buf, memory[i]);
    }
    return same_outputs(c, found, pass, d);
}
