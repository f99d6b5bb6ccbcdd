// Opening, binding and running a model; see exec.h.
//
// Shapes come as text from both sides (a model's info table, a Graph) and are read into the Exec's own dimension table; a dimension's value
// is found from the first axis that is linear in it, the other axes are then checked against all values.
#include "exec.h"

#include <string.h>

// ---- ports ----
static const Dim *port_symbol(void *ctx, const char *name, size_t n) {
    Exec *e = ctx;
    for (int i = 0; i < e->ndims; i++) {
        const Sym *s = dim_as_symbol(e->dims[i]);
        if (strlen(s->name) == n && !memcmp(s->name, name, n)) return e->dims[i];
    }
    // Known after the run only; such an extent is never evaluated, so the symbol need not be the same each time.
    return dim_symbol(e->table, arena_strndup(e->arena, name, n), SYM_DATA, dim_int(e->table, 0), NULL);
}

static const Dim *parse_extent(Exec *e, const char *text, Diag *d) {
    const char *p = text;
    const Dim *dim = dim_parse(e->table, &p, port_symbol, e);
    if (!dim || *p) {
        diag_error(d, EXIT_INTERNAL, "the shape expression '%s' cannot be read", text);
        return NULL;
    }
    return dim;
}

static Exec *exec_new(int nin, int nout, int ndims) {
    Exec *e = mem_realloc(NULL, sizeof *e);
    Arena *a = arena_new();
    *e = (Exec){.arena = a, .table = dim_table_new(), .nin = nin, .nout = nout};
    e->in = ARENA_ARRAY(a, Port, nin + 1);
    e->out = ARENA_ARRAY(a, Port, nout + 1);
    e->dims = ARENA_ARRAY(a, const Dim *, ndims + 1);
    e->dim_lo = ARENA_ARRAY(a, int64_t, ndims + 1);
    e->dim_hi = ARENA_ARRAY(a, int64_t, ndims + 1);
    return e;
}

static void add_dim(Exec *e, const char *name, int64_t lo, int64_t hi) {
    e->dim_lo[e->ndims] = lo;
    e->dim_hi[e->ndims] = hi;
    e->dims[e->ndims++] = dim_symbol(e->table, arena_strdup(e->arena, name), SYM_MODEL, NULL, NULL);
}

static bool port_from_info(Exec *e, Port *p, const mlc_tensor_info *t, Diag *d) {
    *p = (Port){.name = t->name, .label = t->onnx_name, .type = dtype_from_onnx(t->dtype), .rank = t->rank, .dynamic = t->dynamic != 0};
    p->shape = ARENA_ARRAY(e->arena, const Dim *, t->rank + 1);
    for (int i = 0; i < t->rank; i++)
        if (!(p->shape[i] = parse_extent(e, t->shape[i], d))) return false;
    return true;
}

Exec *exec_from_model(mlc_loaded *model, Diag *d) {
    const mlc_model_info *info = mlc_loaded_info(model);
    Exec *e = exec_new(info->ninputs, info->noutputs, info->ndims);
    e->model = model;
    e->info = info;
    for (int i = 0; i < info->ndims; i++) add_dim(e, info->dims[i], info->dim_lo[i], info->dim_hi[i]);
    bool ok = true;
    for (int i = 0; i < e->nin && ok; i++) ok = port_from_info(e, &e->in[i], &info->inputs[i], d);
    for (int i = 0; i < e->nout && ok; i++) ok = port_from_info(e, &e->out[i], &info->outputs[i], d);
    if (ok) return e;
    exec_free(e);
    return NULL;
}

Exec *exec_from_info(const mlc_model_info *info, Diag *d) {
    char error[256];
    mlc_loaded *model = mlc_load_table(info, error, sizeof error);
    if (model) return exec_from_model(model, d);
    diag_error(d, EXIT_INTERNAL, "%s", error);
    return NULL;
}

Exec *exec_from_library(const char *path, const char *prefix, Diag *d) {
    char error[512];
    mlc_loaded *model = mlc_load(path, prefix, error, sizeof error);
    if (model) return exec_from_model(model, d);
    diag_error(d, EXIT_IO, "%s: %s", path, error);
    return NULL;
}

static bool port_from_value(Exec *e, Port *p, const Value *v, const char *name, Diag *d) {
    *p = (Port){.label = arena_strdup(e->arena, name), .name = codegen_cname(e->arena, name), .type = v->type, .rank = v->rank};
    p->shape = ARENA_ARRAY(e->arena, const Dim *, v->rank + 1);
    for (int i = 0; i < v->rank; i++) {
        Str s = {0};
        dim_print(&s, v->shape[i]);
        p->shape[i] = parse_extent(e, s.data, d);
        str_free(&s);
        if (!p->shape[i]) return false;
    }
    return true;
}

static int state_of(const Graph *g, const Value *v) {
    for (int i = 0; i < g->states.n; i++)
        if (g->states.data[i].in == v) return i;
    return -1;
}

Exec *exec_from_graph(const Graph *g, Diag *d) {
    Region *r = g->body;
    Exec *e = exec_new(r->params.n, r->yields.n, g->symbols.n);
    e->graph = g;
    e->graph_inputs = ARENA_ARRAY(e->arena, int, r->params.n + 1);
    e->states = ARENA_ARRAY(e->arena, Tensor, g->states.n + 1);
    for (int i = 0; i < g->symbols.n; i++) {
        const Sym *s = dim_as_symbol(g->symbols.data[i]);
        int64_t lo, hi;
        dim_interval(g->symbols.data[i], &lo, &hi);
        if (s->kind == SYM_MODEL) add_dim(e, s->name, lo < 0 ? 0 : lo, hi);
    }
    bool ok = true;
    e->nin = 0;
    for (int i = 0; i < r->params.n && ok; i++) {
        const Value *v = r->params.data[i];
        if (state_of(g, v) >= 0) continue;
        e->graph_inputs[e->nin] = i;
        ok = port_from_value(e, &e->in[e->nin++], v, v->label ? v->label : arena_printf(e->arena, "in%d", i), d);
    }
    for (int i = 0; i < e->nout && ok; i++) ok = port_from_value(e, &e->out[i], r->yields.data[i], g->output_names.data[i], d);
    if (ok) return e;
    exec_free(e);
    return NULL;
}

void exec_free(Exec *e) {
    if (!e) return;
    mlc_unload(e->model);
    mlc_pool_destroy(e->pool);
    if (e->jit) llvm_jit_free(e->jit);
    dim_table_free(e->table);
    arena_free(e->arena);
    mem_realloc(e, 0);
}

void exec_reset(Exec *e) {
    e->states_set = false;
    if (e->model) mlc_loaded_reset(e->model);
}

void exec_set_threads(Exec *e, int threads) {
    if (!e->model || threads <= 1 || e->pool) return;
    e->pool = mlc_pool_create(threads);
    mlc_loaded_set_pool(e->model, e->pool);
}

void exec_set_seed(Exec *e, uint64_t seed) {
    if (e->model) mlc_loaded_set_seed(e->model, seed);
}

size_t exec_arena_bytes(const Exec *e, const int64_t *dims) {
    return e->info ? e->info->arena_bytes(dims, e->pool ? e->pool->threads : 1) : 0;
}

// ---- dimensions ----
typedef struct {
    const Exec *e;
    const int64_t *values;
    const bool *known;
} Binding;

static int64_t bound_value(void *ctx, const Dim *sym) {
    const Binding *b = ctx;
    for (int i = 0; i < b->e->ndims; i++)
        if (b->e->dims[i] == sym && (!b->known || b->known[i])) return b->values[i];
    return INT64_MIN;
}

typedef struct {
    const Binding *b;
    int missing; // number of symbols without value
    int last;    // one of them, -1: not a dimension of the interface
} Missing;

static void count_missing(void *ctx, const Dim *sym) {
    Missing *m = ctx;
    const Exec *e = m->b->e;
    for (int i = 0; i < e->ndims; i++) {
        if (e->dims[i] != sym) continue;
        if (m->b->known[i]) return;
        m->last = i;
        m->missing++;
        return;
    }
    m->missing++;
    m->last = -1;
}

static Missing missing_symbols(const Binding *b, const Dim *extent) {
    Missing m = {b, 0, -1};
    dim_symbols(extent, count_missing, &m);
    return m;
}

// extent = coeff * sym + rest with everything but sym known: sym = (size - rest) / coeff.
static bool solve(const Binding *b, const Dim *extent, int sym, int64_t size, int64_t *value) {
    const Dim *coeff, *rest;
    bool ok = true;
    if (!dim_linear(b->e->table, extent, b->e->dims[sym], &coeff, &rest)) return false;
    int64_t c = dim_eval(coeff, bound_value, (void *)(uintptr_t)b, &ok), r = dim_eval(rest, bound_value, (void *)(uintptr_t)b, &ok);
    if (!ok || c == 0 || (size - r) % c) return false;
    *value = (size - r) / c;
    return true;
}

static bool check_type(const Port *p, const Tensor *t, Diag *d) {
    if (p->type != t->type) {
        diag_error(d, EXIT_MODEL, "input '%s' is %s, found %s", p->label, dtype_name(p->type), dtype_name(t->type));
        return false;
    }
    if (p->rank != t->rank) {
        diag_error(d, EXIT_MODEL, "input '%s' has %d dimensions, found %d", p->label, p->rank, t->rank);
        return false;
    }
    return true;
}

static bool check_extents(const Exec *e, const Tensor *inputs, const int64_t *dims, Diag *d) {
    Binding all = {e, dims, NULL};
    for (int i = 0; i < e->ndims; i++) {
        if (dims[i] >= e->dim_lo[i] && dims[i] <= e->dim_hi[i]) continue;
        diag_error(d, EXIT_MODEL, "dimension %s must be from %lld to %lld, found %lld", dim_as_symbol(e->dims[i])->name,
            (long long)e->dim_lo[i], (long long)e->dim_hi[i], (long long)dims[i]);
    }
    for (int i = 0; i < e->nin; i++)
        for (int k = 0; k < e->in[i].rank; k++) {
            bool ok = true;
            int64_t want = dim_eval(e->in[i].shape[k], bound_value, &all, &ok);
            if (ok && want == inputs[i].shape[k]) continue;
            diag_error(d, EXIT_MODEL, "input '%s': axis %d must be %s%s%lld, found %lld", e->in[i].label, k,
                dim_is_int(e->in[i].shape[k], NULL) ? "" : dim_text(e->table, e->in[i].shape[k]),
                dim_is_int(e->in[i].shape[k], NULL) ? "" : " = ", (long long)want, (long long)inputs[i].shape[k]);
        }
    return !d->errors;
}

bool exec_bind(const Exec *e, const Tensor *inputs, int64_t *dims, Diag *d) {
    bool types = true;
    for (int i = 0; i < e->nin; i++) types &= check_type(&e->in[i], &inputs[i], d);
    if (!types) return false;
    bool *known = ARENA_ARRAY(e->arena, bool, e->ndims + 1);
    Binding b = {e, dims, known};
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < e->nin; i++)
            for (int k = 0; k < e->in[i].rank; k++) {
                Missing m = missing_symbols(&b, e->in[i].shape[k]);
                if (m.missing != 1 || m.last < 0 || !solve(&b, e->in[i].shape[k], m.last, inputs[i].shape[k], &dims[m.last])) continue;
                known[m.last] = more = true;
            }
    }
    for (int i = 0; i < e->ndims; i++) {
        if (known[i]) continue;
        // No input tells it: any value will do for the inputs; the smallest allowed one is taken.
        dims[i] = e->dim_lo[i] > 1 ? e->dim_lo[i] : 1;
    }
    return check_extents(e, inputs, dims, d);
}

// ---- running a compiled model ----
enum { FIRST_CAPACITY = 4096, MAX_TRIES = 8 };
#define MAX_ARENA ((size_t)1 << 40)

static int64_t shape_size(int rank, const int64_t *shape) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        if (shape[i] < 0 || __builtin_mul_overflow(n, shape[i], &n)) return -1;
    return n;
}

static bool fill_call(Exec *e, const Tensor *inputs, Call *c, Arena *arena, Diag *d) {
    c->dims = ARENA_ARRAY(arena, int64_t, e->ndims + 1);
    if (!exec_bind(e, inputs, c->dims, d)) return false;
    size_t need = exec_arena_bytes(e, c->dims);
    if (need > MAX_ARENA) {
        diag_error(d, EXIT_LIMIT, "the sizes of this run are outside the model's bounds, or need more memory than there is");
        return false;
    }
    c->in = ARENA_ARRAY(arena, const void *, e->nin + 1);
    for (int i = 0; i < e->nin; i++) c->in[i] = inputs[i].data;
    c->out = arena_alloc(arena, mlc_outputs_bytes(e->info) + 1);
    return true;
}

// An output's memory and, where its shape is dynamic, how many elements fit into it.
static void place_output(const Exec *e, Call *c, int i, void *data, size_t capacity) {
    ((void **)c->out)[i] = data;
    if (e->out[i].dynamic) memcpy((char *)c->out + mlc_outputs_dynamic(e->info, i), &capacity, sizeof capacity);
}

bool exec_prepare(Exec *e, const Tensor *inputs, const Tensor *outputs, Call *c, Arena *arena, Diag *d) {
    if (!fill_call(e, inputs, c, arena, d)) return false;
    for (int i = 0; i < e->nout; i++) place_output(e, c, i, outputs[i].data, (size_t)tensor_count(&outputs[i]));
    return true;
}

int exec_call(Exec *e, const Call *c) {
    return mlc_loaded_run(e->model, c->dims, c->in, c->out);
}

static bool make_output(const Exec *e, Call *c, int i, Tensor *t, int64_t capacity, Arena *arena, Diag *d) {
    const Port *p = &e->out[i];
    Binding b = {e, c->dims, NULL};
    int64_t shape[GRAPH_MAX_RANK];
    bool ok = true;
    for (int k = 0; k < p->rank; k++) shape[k] = p->dynamic ? 0 : dim_eval(p->shape[k], bound_value, &b, &ok);
    if (!ok || shape_size(p->rank, shape) < 0) {
        diag_error(d, EXIT_LIMIT, "output '%s': the size overflows", p->label);
        return false;
    }
    *t = tensor_new(arena, p->type, p->rank, shape);
    if (p->dynamic) t->data = arena_alloc(arena, (size_t)capacity * (size_t)dtype_bytes(p->type) + 1);
    place_output(e, c, i, t->data, (size_t)capacity);
    return true;
}

// Shapes of the dynamic outputs from the struct; false when one of them does not fit its capacity.
static bool read_shapes(const Exec *e, const Call *c, Tensor *outputs, int64_t *capacity) {
    bool fits = true;
    for (int i = 0; i < e->nout; i++) {
        if (!e->out[i].dynamic) continue;
        const char *part = (const char *)c->out + mlc_outputs_dynamic(e->info, i);
        if (outputs[i].rank) memcpy(outputs[i].shape, part + sizeof(size_t), (size_t)outputs[i].rank * sizeof(int64_t));
        int64_t n = shape_size(outputs[i].rank, outputs[i].shape);
        outputs[i].bytes = n < 0 ? 0 : (size_t)n * (size_t)dtype_bytes(outputs[i].type);
        if (n > capacity[i]) {
            capacity[i] = n;
            fits = false;
        }
    }
    return fits;
}

static void report_status(const Exec *e, int status, Diag *d) {
    int code = -status & 255, node = -status >> 8;
    bool named = node > 0 && node <= e->info->nnodes && e->info->nodes[node - 1] && e->info->nodes[node - 1][0];
    diag_error(d, EXIT_MODEL, "the run ended with status %d: %s%s%s%s", status, status_text(code), named ? " in node '" : "",
        named ? e->info->nodes[node - 1] : "", named ? "'" : "");
}

static int run_info(Exec *e, const Tensor *inputs, Tensor *outputs, Arena *arena, Diag *d) {
    Call c;
    int64_t *capacity = ARENA_ARRAY(arena, int64_t, e->nout + 1);
    for (int i = 0; i < e->nout; i++) capacity[i] = FIRST_CAPACITY;
    if (!fill_call(e, inputs, &c, arena, d)) return -CODE_SHAPE;
    void *state = mlc_loaded_state(e->model), *saved = state ? arena_copy(arena, state, e->info->state_bytes) : NULL;
    int status = 0;
    for (int tries = 0; tries < MAX_TRIES; tries++) {
        for (int i = 0; i < e->nout; i++)
            if (!make_output(e, &c, i, &outputs[i], capacity[i], arena, d)) return -CODE_SHAPE;
        status = exec_call(e, &c);
        bool fits = read_shapes(e, &c, outputs, capacity);
        if ((-status & 255) != CODE_CAPACITY || status == 0 || fits) break;
        if (saved) memcpy(state, saved, e->info->state_bytes); // a run that failed leaves it unspecified
    }
    if (status) report_status(e, status, d);
    return status;
}

// ---- running the evaluator ----
static int run_graph(Exec *e, const Tensor *inputs, Tensor *outputs, Arena *arena, Diag *d) {
    const Graph *g = e->graph;
    int64_t *dims = ARENA_ARRAY(arena, int64_t, e->ndims + 1);
    if (!exec_bind(e, inputs, dims, d)) return -CODE_SHAPE;
    Binding b = {e, dims, NULL};
    int n = g->body->params.n;
    Tensor *all = ARENA_ARRAY(arena, Tensor, n + 1);
    for (int i = 0; i < e->nin; i++) all[e->graph_inputs[i]] = inputs[i];
    for (int i = 0; i < g->states.n; i++) {
        const Value *v = g->states.data[i].in;
        if (!e->states_set) {
            Port p;
            int64_t shape[GRAPH_MAX_RANK];
            bool ok = port_from_value(e, &p, v, "state", d);
            for (int k = 0; k < v->rank && ok; k++) shape[k] = dim_eval(p.shape[k], bound_value, &b, &ok);
            if (!ok) return -CODE_SHAPE;
            e->states[i] = tensor_new(e->arena, v->type, v->rank, shape);
        }
        all[v->out] = e->states[i];
    }
    e->states_set = true;
    int status = graph_eval(g, all, outputs, arena, e->watch, e->watch_ctx, d);
    for (int i = 0; i < g->states.n && !status; i++)
        for (int k = 0; k < g->body->yields.n; k++)
            if (g->body->yields.data[k] == g->states.data[i].out) memcpy(e->states[i].data, outputs[k].data, e->states[i].bytes);
    return status;
}

int exec_run(Exec *e, const Tensor *inputs, Tensor *outputs, Arena *arena, Diag *d) {
    return e->info ? run_info(e, inputs, outputs, arena, d) : run_graph(e, inputs, outputs, arena, d);
}
