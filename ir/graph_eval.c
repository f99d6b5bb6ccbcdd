// graph_eval, the reference: walks the Graph, binds dimension symbols from the tensors' shapes and calls one plain strided function per
// operation.
//
// It is the constant folder, the reference of `mlc verify` and the oracle of the lowering, so it is meant to be right and plain; it is fast
// enough (about a nanosecond an element) because views share memory and maps run in strips. A value's memory is freed after its last use.
// Data symbols (sizes of control nodes' outputs, shapes of region parameters) are bound when the tensor that carries them is made; an
// iteration of a loop unbinds what it bound. A status is 0 or -(code + 256 * number of the ONNX node), as in generated code.
#include "graph_eval.h"

#include <assert.h>
#include <string.h>

struct EvalBuffer {
    EvalBuffer *prev, *next;
    int owners;
};
enum { BUFFER_HEAD = 64 };

typedef struct {
    const Dim *sym;
    int64_t value;
} Binding;

struct Eval {
    const Graph *g;
    Arena *arena;   // of the run
    Arena *scratch; // of the node
    Diag *d;
    int status;
    EvalBuffer all; // ring of buffers in use
    VEC(Binding) bound;
    Strided *vals; // by Value.id; data NULL: not there
    bool *have;
    int *last; // by Value.id: index in its region of the last node that uses it; LAST_YIELD; -1: unused
    void (*watch)(void *ctx, const Value *v, const Tensor *t);
    void *ctx;
};
enum { LAST_YIELD = 1 << 30 };

static EvalFn *const ops[G_COUNT] = {
    [G_const] = eval_const,
    [G_dims] = eval_dims,
    [G_map] = eval_map,
    [G_view] = eval_view,
    [G_reshape] = eval_reshape,
    [G_concat] = eval_concat,
    [G_gather] = eval_gather,
    [G_scatter] = eval_scatter,
    [G_reduce] = eval_reduce,
    [G_scan] = eval_scan,
    [G_contract] = eval_contract,
    [G_softmax] = eval_softmax,
    [G_norm] = eval_norm,
    [G_attention] = eval_attention,
    [G_template] = eval_template,
    [G_random] = eval_random,
};

Tensor tensor_new(Arena *a, DType t, int rank, const int64_t *shape) {
    Tensor x = {.type = t, .rank = rank};
    x.shape = ARENA_ARRAY(a, int64_t, rank + 1);
    for (int i = 0; i < rank; i++) x.shape[i] = shape[i];
    x.bytes = (size_t)tensor_count(&x) * (size_t)dtype_bytes(t);
    x.data = arena_alloc(a, x.bytes ? x.bytes : 1);
    return x;
}

int64_t tensor_count(const Tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->shape[i];
    return n;
}

// ---- faults, memory ----

bool eval_fail(Eval *e, const Node *n, StatusCode code, const char *fmt, ...) {
    if (e->status) return false;
    e->status = -((int)code + 256 * (n ? n->onnx_id : 0));
    Str s = {0};
    va_list ap;
    va_start(ap, fmt);
    str_vprintf(&s, fmt, ap);
    va_end(ap);
    if (e->d && n)
        diag_error(e->d, EXIT_MODEL, "node '%s' (%s): %s", n->label ? n->label : "", n->onnx ? n->onnx : gop_info(n->op)->name, s.data);
    else if (e->d)
        diag_error(e->d, EXIT_MODEL, "%s", s.data);
    str_free(&s);
    return false;
}

Arena *eval_scratch(Eval *e) {
    if (!e->scratch) e->scratch = arena_new();
    return e->scratch;
}

static void end_scratch(Eval *e) {
    arena_free(e->scratch);
    e->scratch = NULL;
}

bool eval_alloc(Eval *e, const Node *n, DType t, int rank, const int64_t *shape, Strided *out) {
    int64_t count = 1, size = dtype_bytes(t);
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 0) return eval_fail(e, n, CODE_SHAPE, "extent %lld of axis %d is negative", (long long)shape[i], i);
        if (__builtin_mul_overflow(count, shape[i], &count) || count > ((int64_t)1 << 40) / size)
            return eval_fail(e, n, CODE_MEMORY, "a tensor is too large");
    }
    EvalBuffer *b = mem_realloc(NULL, BUFFER_HEAD + (size_t)(count * size) + 1);
    b->owners = 1;
    b->next = &e->all;
    b->prev = e->all.prev;
    b->prev->next = b->next->prev = b;
    strided_set(out, t, rank, shape, (char *)b + BUFFER_HEAD);
    out->buffer = b;
    return true;
}

Strided strided_share(const Strided *x) {
    if (x->buffer) x->buffer->owners++;
    return *x;
}

static void free_buffer(EvalBuffer *b) {
    b->prev->next = b->next;
    b->next->prev = b->prev;
    mem_realloc(b, 0);
}

void strided_release(Eval *e, Strided *x) {
    (void)e;
    if (x->buffer && --x->buffer->owners == 0) free_buffer(x->buffer);
    memset(x, 0, offsetof(Strided, shape));
    x->data = NULL;
    x->buffer = NULL;
}

// ---- symbols ----

bool eval_symbol(Eval *e, const Dim *sym, int64_t *value) {
    for (int i = e->bound.n - 1; i >= 0; i--)
        if (e->bound.data[i].sym == sym) {
            *value = e->bound.data[i].value;
            return true;
        }
    return false;
}

typedef struct {
    Eval *e;
    bool ok;
} Lookup;

static int64_t lookup(void *ctx, const Dim *sym) {
    Lookup *l = ctx;
    int64_t v = 0;
    if (!eval_symbol(l->e, sym, &v)) l->ok = false;
    return v;
}

static bool try_dim(Eval *e, const Dim *d, int64_t *value) {
    if (dim_is_int(d, value)) return true;
    Lookup l = {e, true};
    bool ok = true;
    *value = dim_eval(d, lookup, &l, &ok);
    return ok && l.ok;
}

bool eval_extent(Eval *e, const Node *n, const Dim *d, int64_t *value) {
    if (try_dim(e, d, value)) return true;
    return eval_fail(e, n, CODE_SHAPE, "the value of dimension %s is not known", dim_text(e->g->dims, d));
}

bool eval_bind(Eval *e, const Node *n, const Dim *sym, int64_t value) {
    const Sym *s = dim_as_symbol(sym);
    int64_t bound;
    if (s->lo && try_dim(e, s->lo, &bound) && value < bound)
        return eval_fail(
            e, n, CODE_SHAPE, "dimension %s is %lld, less than its bound of %lld", s->name, (long long)value, (long long)bound);
    if (s->hi && try_dim(e, s->hi, &bound) && value > bound)
        return eval_fail(
            e, n, CODE_SHAPE, "dimension %s is %lld, more than its bound of %lld", s->name, (long long)value, (long long)bound);
    Binding b = {sym, value};
    vec_push(e->arena, &e->bound, b);
    return true;
}

// Extents of a tensor that is there against v's: unbound symbols are bound, the others must agree.
static bool bind_symbols(Eval *e, const Node *n, const Value *v, const int64_t *shape) {
    int64_t known;
    for (int i = 0; i < v->rank; i++) {
        if (!dim_as_symbol(v->shape[i]) || eval_symbol(e, v->shape[i], &known)) continue;
        if (!eval_bind(e, n, v->shape[i], shape[i])) return false;
    }
    return true;
}

static bool check_shape(Eval *e, const Node *n, const Value *v, const int64_t *shape) {
    int64_t known;
    for (int i = 0; i < v->rank; i++) {
        if (!eval_extent(e, n, v->shape[i], &known)) return false;
        if (known == shape[i]) continue;
        return eval_fail(e, n, CODE_SHAPE, "axis %d of %s has extent %lld, expected %s = %lld", i, v->label ? v->label : "a value",
            (long long)shape[i], dim_text(e->g->dims, v->shape[i]), (long long)known);
    }
    return true;
}

bool eval_output(Eval *e, const Node *n, const Value *v, Strided *out) {
    int64_t shape[GRAPH_MAX_RANK];
    for (int i = 0; i < v->rank; i++)
        if (!eval_extent(e, n, v->shape[i], &shape[i])) return false;
    return eval_alloc(e, n, v->type, v->rank, shape, out);
}

// ---- lifetimes ----

typedef struct Frame {
    const Region *region;
    int at;
    struct Frame *up;
} Frame;

static void note_use(Eval *e, const Value *v, const Frame *f) {
    while (f && f->region != v->region) f = f->up;
    if (f && e->last[v->id] < f->at) e->last[v->id] = f->at;
}

static void note_uses(Eval *e, const Region *r, Frame *up) {
    Frame f = {r, 0, up};
    for (f.at = 0; f.at < r->nodes.n; f.at++) {
        const Node *n = r->nodes.data[f.at];
        for (int i = 0; i < n->nin; i++) note_use(e, n->in[i], &f);
        for (int i = 0; i < n->regions.n; i++) note_uses(e, n->regions.data[i], &f);
    }
    f.at = LAST_YIELD;
    for (int i = 0; i < r->yields.n; i++) note_use(e, r->yields.data[i], &f);
}

static void drop(Eval *e, const Value *v) {
    if (!e->have[v->id]) return;
    strided_release(e, &e->vals[v->id]);
    e->have[v->id] = false;
}

// Frees what n (at index `at` of region r), or a node inside of it, used last.
static void drop_used(Eval *e, const Node *n, const Region *r, int at) {
    for (int i = 0; i < n->nin; i++)
        if (n->in[i]->region == r && e->last[n->in[i]->id] == at) drop(e, n->in[i]);
    for (int k = 0; k < n->regions.n; k++) {
        const Region *inner = n->regions.data[k];
        for (int i = 0; i < inner->nodes.n; i++) drop_used(e, inner->nodes.data[i], r, at);
        for (int i = 0; i < inner->yields.n; i++)
            if (inner->yields.data[i]->region == r && e->last[inner->yields.data[i]->id] == at) drop(e, inner->yields.data[i]);
    }
}

static void show(Eval *e, const Value *v) {
    if (!e->watch) return;
    const Strided *x = &e->vals[v->id];
    Tensor t = tensor_new(eval_scratch(e), x->type, x->rank, x->shape);
    strided_copy(t.data, x);
    e->watch(e->ctx, v, &t);
}

// ---- control ----

static bool eval_region(Eval *e, const Region *r, Strided *yields);

static int64_t scalar_value(const Strided *x) {
    int64_t v = 0;
    if (strided_count(x) > 0) strided_read_i64(x->type, x->data, 1, 1, &v);
    return v;
}

static bool eval_if(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    int mark = e->bound.n;
    if (!eval_region(e, n->regions.data[scalar_value(in[0]) ? 0 : 1], out)) return false;
    e->bound.n = mark;
    return true;
}

static bool scalar_tensor(Eval *e, const Node *n, DType t, int64_t v, Strided *out) {
    if (!eval_alloc(e, n, t, 0, NULL, out)) return false;
    strided_write_i64(t, out->data, 1, &v);
    return true;
}

typedef VEC(Strided) Stack;

// The elements that the iterations yielded, as one tensor with a new axis 0.
static bool stack_scan(Eval *e, const Node *n, const Value *v, Stack *s, Strided *out) {
    int64_t shape[GRAPH_MAX_RANK] = {s->n};
    for (int i = 1; i < v->rank; i++)
        if (s->n)
            shape[i] = s->data[0].shape[i - 1];
        else if (!try_dim(e, v->shape[i], &shape[i]))
            shape[i] = 0;
    if (!eval_alloc(e, n, v->type, v->rank, shape, out)) return false;
    int64_t bytes = 0;
    for (int k = 0; k < s->n; k++) {
        if (memcmp(s->data[k].shape, s->data[0].shape, sizeof *shape * (size_t)(v->rank - 1)))
            return eval_fail(e, n, CODE_SHAPE, "scan elements differ in shape");
        strided_copy(out->data + bytes, &s->data[k]);
        bytes += strided_count(&s->data[k]) * dtype_bytes(v->type);
    }
    return true;
}

// One iteration: parameters from `carried` (which it takes over), yields to `yields`.
static bool loop_iteration(Eval *e, const Node *n, int64_t i, bool cond, Strided *carried, int ncarried, Strided *yields) {
    const Region *r = n->regions.data[0];
    Strided p;
    for (int k = 0; k < r->params.n; k++) {
        const Value *v = r->params.data[k];
        if (k == 0 && !scalar_tensor(e, n, DT_i64, i, &p)) return false;
        if (k == 1 && !scalar_tensor(e, n, DT_bool, cond, &p)) return false;
        if (k >= 2) p = carried[k - 2];
        if (k >= 2 && k - 2 < ncarried) memset(&carried[k - 2], 0, sizeof *carried);
        if (k < 2 && v->rank == 1) { // the condition may be a vector of one element
            p.rank = 1;
            p.shape[0] = p.stride[0] = 1;
        }
        e->vals[v->id] = p;
        e->have[v->id] = true;
        if (!bind_symbols(e, n, v, p.shape)) return false;
    }
    for (int k = 0; k < r->params.n; k++)
        if (!check_shape(e, n, r->params.data[k], e->vals[r->params.data[k]->id].shape)) return false;
    return eval_region(e, r, yields);
}

static bool loop_all(Eval *e, const Node *n, const Strided *const *in, Strided *carried, Stack *scans, Strided *yields) {
    int ncarried = n->nin - 2, nyields = n->regions.data[0]->yields.n, mark = e->bound.n;
    int64_t trip = scalar_value(in[0]);
    bool cond = scalar_value(in[1]) != 0;
    const Value *t = n->in[0];
    int64_t known;
    bool endless = trip < 0 && value_content_int(t, 0, &known);
    for (int64_t i = 0; cond && (endless || i < trip); i++) {
        if (!loop_iteration(e, n, i, cond, carried, ncarried, yields)) return false;
        e->bound.n = mark;
        cond = scalar_value(&yields[0]) != 0;
        strided_release(e, &yields[0]);
        for (int k = 0; k < ncarried; k++) carried[k] = yields[1 + k];
        for (int k = 1 + ncarried; k < nyields; k++) vec_push(e->arena, &scans[k - 1 - ncarried], yields[k]);
    }
    return true;
}

static bool eval_loop(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    int ncarried = n->nin - 2, nyields = n->regions.data[0]->yields.n;
    Strided *yields = ARENA_ARRAY(e->arena, Strided, nyields);
    Stack *scans = ARENA_ARRAY(e->arena, Stack, n->scans + 1);
    for (int k = 0; k < ncarried; k++) out[k] = strided_share(in[2 + k]);
    if (!loop_all(e, n, in, out, scans, yields)) return false;
    for (int k = 0; k < n->scans; k++) {
        if (!stack_scan(e, n, n->out[ncarried + k], &scans[k], &out[ncarried + k])) return false;
        for (int i = 0; i < scans[k].n; i++) strided_release(e, &scans[k].data[i]);
    }
    return true;
}

static bool eval_check(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    (void)out;
    int64_t v;
    for (int i = 0; i < n->guard.n; i++) {
        if (!eval_extent(e, n, n->guard.data[i], &v)) return false;
        if (v < 0) return eval_fail(e, n, n->code, "check failed: %s >= 0", dim_text(e->g->dims, n->guard.data[i]));
    }
    return n->nin == 0 || scalar_value(in[0]) || eval_fail(e, n, n->code, "check failed");
}

// ---- nodes ----

static bool call_op(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    if (n->op == G_if) return eval_if(e, n, in, out);
    if (n->op == G_loop) return eval_loop(e, n, in, out);
    if (n->op == G_check) return eval_check(e, n, in, out);
    if (!ops[n->op]) return eval_fail(e, n, CODE_ASSERT, "the evaluator does not know operation %s", gop_info(n->op)->name);
    return ops[n->op](e, n, in, out);
}

static bool eval_node(Eval *e, const Node *n) {
    const Strided *few[16];
    Strided few_out[8] = {0}, *out = few_out;
    const Strided **in = n->nin <= 16 ? few : ARENA_ARRAY(e->arena, const Strided *, n->nin);
    if (n->nout > 8) out = ARENA_ARRAY(e->arena, Strided, n->nout);
    for (int i = 0; i < n->nin; i++) {
        assert(e->have[n->in[i]->id]);
        in[i] = &e->vals[n->in[i]->id];
    }
    if (!call_op(e, n, in, out)) return false;
    for (int i = 0; i < n->nout; i++) {
        const Value *v = n->out[i];
        assert(out[i].type == v->type && out[i].rank == v->rank);
        e->vals[v->id] = out[i];
        e->have[v->id] = true;
        if (gop_info(n->op)->cls == GC_control && !bind_symbols(e, n, v, out[i].shape)) return false;
        if (!check_shape(e, n, v, out[i].shape)) return false;
        show(e, v);
    }
    end_scratch(e);
    return true;
}

static bool eval_region(Eval *e, const Region *r, Strided *yields) {
    for (int i = 0; i < r->params.n; i++) show(e, r->params.data[i]);
    for (int i = 0; i < r->nodes.n; i++) {
        const Node *n = r->nodes.data[i];
        if (!eval_node(e, n)) return false;
        drop_used(e, n, r, i);
        for (int k = 0; k < n->nout; k++)
            if (e->last[n->out[k]->id] < 0) drop(e, n->out[k]);
    }
    for (int i = 0; i < r->yields.n; i++) yields[i] = strided_share(&e->vals[r->yields.data[i]->id]);
    for (int i = 0; i < r->yields.n; i++)
        if (r->yields.data[i]->region == r) drop(e, r->yields.data[i]);
    for (int i = 0; i < r->params.n; i++) drop(e, r->params.data[i]);
    return true;
}

// ---- the run ----

static void begin(Eval *e, const Graph *g, Diag *d) {
    memset(e, 0, sizeof *e);
    e->g = g;
    e->d = d;
    e->arena = arena_new();
    e->all.prev = e->all.next = &e->all;
}

static void end(Eval *e) {
    while (e->all.next != &e->all) free_buffer(e->all.next);
    end_scratch(e);
    arena_free(e->arena);
}

static bool set_inputs(Eval *e, const Tensor *inputs) {
    const Region *r = e->g->body;
    for (int i = 0; i < r->params.n; i++) {
        const Value *v = r->params.data[i];
        const Tensor *t = &inputs[i];
        if (t->type != v->type || t->rank != v->rank)
            return eval_fail(e, NULL, CODE_SHAPE, "input '%s' is %s of rank %d, expected %s of rank %d", v->label ? v->label : "",
                dtype_name(t->type), t->rank, dtype_name(v->type), v->rank);
        strided_set(&e->vals[v->id], t->type, t->rank, t->shape, t->data);
        e->have[v->id] = true;
        if (!bind_symbols(e, NULL, v, t->shape)) return false;
    }
    for (int i = 0; i < r->params.n; i++)
        if (!check_shape(e, NULL, r->params.data[i], inputs[i].shape)) return false;
    return true;
}

static Tensor to_tensor(Arena *a, const Strided *x) {
    Tensor t = tensor_new(a, x->type, x->rank, x->shape);
    strided_copy(t.data, x);
    return t;
}

int graph_eval(const Graph *g, const Tensor *inputs, Tensor *outputs, Arena *arena,
    void (*watch)(void *ctx, const Value *v, const Tensor *t), void *ctx, Diag *d) {
    Eval e;
    begin(&e, g, d);
    e.watch = watch;
    e.ctx = ctx;
    e.vals = ARENA_ARRAY(e.arena, Strided, g->nvalues + 1);
    e.have = ARENA_ARRAY(e.arena, bool, g->nvalues + 1);
    e.last = ARENA_ARRAY(e.arena, int, g->nvalues + 1);
    for (int i = 0; i < g->nvalues; i++) e.last[i] = -1;
    note_uses(&e, g->body, NULL);
    Strided *yields = ARENA_ARRAY(e.arena, Strided, g->body->yields.n + 1);
    if (set_inputs(&e, inputs) && eval_region(&e, g->body, yields))
        for (int i = 0; i < g->body->yields.n; i++) outputs[i] = to_tensor(arena, &yields[i]);
    end(&e);
    return e.status;
}

bool graph_eval_node(const Node *n, const Tensor *in, Tensor *out, Arena *arena) {
    if (n->regions.n || !ops[n->op] || n->op == G_random) return false;
    Eval e;
    begin(&e, n->region->graph, NULL);
    Strided *x = ARENA_ARRAY(e.arena, Strided, n->nin + n->nout + 1), *y = x + n->nin;
    const Strided **p = ARENA_ARRAY(e.arena, const Strided *, n->nin + 1);
    for (int i = 0; i < n->nin; i++) {
        bool aligned = (uintptr_t)in[i].data % 8 == 0; // elements of a model file may lie anywhere
        strided_set(&x[i], in[i].type, in[i].rank, in[i].shape,
            aligned || !in[i].bytes ? in[i].data : arena_copy(e.arena, in[i].data, in[i].bytes));
        p[i] = &x[i];
    }
    bool ok = call_op(&e, n, p, y);
    for (int i = 0; ok && i < n->nout; i++) out[i] = to_tensor(arena, &y[i]);
    end(&e);
    return ok;
}
