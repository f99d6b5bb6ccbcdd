// The Graph's core: its table of operations, making values, nodes and regions, and editing (replace uses, remove dead nodes, walk).
//
// Everything lives in the graph's arena; removed nodes stay in it until the graph is freed. Dims are interned in graph->dims, which
// graph_free frees too: a caller that keeps the Dims (a Program shares the table) sets graph->dims to NULL first and frees the table
// itself.
#include "graph.h"

#include <assert.h>
#include <string.h>

static const GOpInfo gops[G_COUNT] = {
#define G(name, cls, lo, hi, nout, fields, meaning) {#name, GC_##cls, lo, hi, nout, fields, meaning},
#include "graph.def"
#undef G
};

const GOpInfo *gop_info(GOp op) {
    assert((int)op >= 0 && op < G_COUNT);
    return &gops[op];
}

GOp gop_parse(const char *name, size_t n) {
    for (int i = 0; i < G_COUNT; i++)
        if (strlen(gops[i].name) == n && !memcmp(gops[i].name, name, n)) return (GOp)i;
    return G_COUNT;
}

static const GTemplateInfo templates[] = {
#define T(kind, min_in, max_in, min_out, max_out, ndims, nflags, meaning) {#kind, min_in, max_in, min_out, max_out, ndims, nflags, meaning},
#include "template.def"
#undef T
};

const GTemplateInfo *gtemplate_info(const char *kind) {
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++)
        if (!strcmp(templates[i].kind, kind)) return &templates[i];
    return NULL;
}

Graph *graph_new(const char *name) {
    Arena *a = arena_new();
    Graph *g = ARENA_NEW(a, Graph);
    g->arena = a;
    g->dims = dim_table_new();
    g->name = arena_strdup(a, name);
    g->body = graph_region_new(g, NULL);
    return g;
}

void graph_free(Graph *g) {
    if (!g) return;
    if (g->dims) dim_table_free(g->dims);
    arena_free(g->arena);
}

Region *graph_region_new(Graph *g, Node *owner) {
    Region *r = ARENA_NEW(g->arena, Region);
    r->graph = g;
    r->owner = owner;
    return r;
}

static void value_shape(Graph *g, Value *v, DType t, int rank, const Dim *const *shape) {
    v->type = t;
    v->rank = rank;
    v->shape = ARENA_ARRAY(g->arena, const Dim *, rank + 1);
    for (int i = 0; i < rank; i++) v->shape[i] = shape[i];
}

Value *graph_value_new(Graph *g, Region *r, Node *def, int out, DType t, int rank, const Dim *const *shape) {
    Value *v = ARENA_NEW(g->arena, Value);
    v->id = g->nvalues++;
    v->def = def;
    v->out = out;
    v->region = r;
    value_shape(g, v, t, rank, shape);
    return v;
}

void graph_value_type(Graph *g, Value *v, DType t, int rank, const Dim *const *shape) {
    value_shape(g, v, t, rank, shape);
}

Value *graph_param(Region *r, const char *label, DType t, int rank, const Dim *const *shape) {
    Graph *g = r->graph;
    Value *v = graph_value_new(g, r, NULL, r->params.n, t, rank, shape);
    if (label) v->label = arena_strdup(g->arena, label);
    vec_push(g->arena, &r->params, v);
    return v;
}

Node *graph_add_node(Builder *b, GOp op, int nin, Value *const *in, int nout) {
    Graph *g = b->g;
    Node *n = ARENA_NEW(g->arena, Node);
    n->op = op;
    n->nin = nin;
    n->nout = nout;
    n->in = ARENA_ARRAY(g->arena, Value *, nin + 1);
    for (int i = 0; i < nin; i++) n->in[i] = in[i];
    n->out = ARENA_ARRAY(g->arena, Value *, nout + 1);
    n->label = b->label;
    n->onnx = b->onnx;
    n->onnx_id = b->onnx_id;
    n->region = b->region;
    for (int i = 0; i < nout; i++) n->out[i] = graph_value_new(g, b->region, n, i, DT_none, 0, NULL);
    vec_push(g->arena, &b->region->nodes, n);
    return n;
}

// A name that no symbol of g has yet: base, base_2, base_3 …
static const char *symbol_name(Graph *g, const char *base) {
    const char *name = base;
    for (int k = 2;; k++) {
        bool taken = false;
        for (int i = 0; i < g->symbols.n && !taken; i++) taken = !strcmp(dim_as_symbol(g->symbols.data[i])->name, name);
        if (!taken) return name;
        name = arena_printf(g->arena, "%s_%d", base, k);
    }
}

const Dim *graph_symbol(Graph *g, const char *name, SymKind kind, const Dim *lo, const Dim *hi) {
    const Dim *s = dim_symbol(g->dims, symbol_name(g, name), kind, lo, hi);
    vec_push(g->arena, &g->symbols, s);
    return s;
}

bool value_same_shape(const Value *a, const Value *b) {
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++) same = a->shape[i] == b->shape[i];
    return same;
}

const Dim *value_size(Graph *g, const Value *v) {
    return dim_product(g->dims, v->shape, v->rank);
}

bool value_content_int(const Value *v, int i, int64_t *out) {
    return v->content && i >= 0 && i < v->ncontent && dim_is_int(v->content[i], out);
}

// ---- editing ----

void graph_walk(Region *r, void (*fn)(void *ctx, Node *n), void *ctx) {
    for (int i = 0; i < r->nodes.n; i++) {
        Node *n = r->nodes.data[i];
        fn(ctx, n);
        for (int k = 0; k < n->regions.n; k++) graph_walk(n->regions.data[k], fn, ctx);
    }
}

static void replace_in_region(Region *r, Value *a, Value *b) {
    for (int i = 0; i < r->nodes.n; i++) {
        Node *n = r->nodes.data[i];
        for (int k = 0; k < n->nin; k++)
            if (n->in[k] == a) n->in[k] = b;
        for (int k = 0; k < n->regions.n; k++) replace_in_region(n->regions.data[k], a, b);
    }
    for (int i = 0; i < r->yields.n; i++)
        if (r->yields.data[i] == a) r->yields.data[i] = b;
}

void graph_replace(Graph *g, Value *a, Value *b) {
    if (a == b) return;
    replace_in_region(g->body, a, b);
    for (int i = 0; i < g->states.n; i++)
        if (g->states.data[i].out == a) g->states.data[i].out = b;
}

static void count_region(const Region *r, int *uses, int step) {
    for (int i = 0; i < r->nodes.n; i++) {
        const Node *n = r->nodes.data[i];
        for (int k = 0; k < n->nin; k++) uses[n->in[k]->id] += step;
        for (int k = 0; k < n->regions.n; k++) count_region(n->regions.data[k], uses, step);
    }
    for (int i = 0; i < r->yields.n; i++) uses[r->yields.data[i]->id] += step;
}

void graph_count_uses(const Graph *g, int *uses) {
    memset(uses, 0, sizeof *uses * (size_t)g->nvalues);
    count_region(g->body, uses, 1);
}

// ---- dead nodes: one walk backwards; symbols that kept nodes mention keep the node that defines them ----

typedef struct {
    Graph *g;
    Arena *arena;
    int *uses;
    VEC(const Dim *) symbols; // mentioned by what was kept so far
} Dead;

static void note_symbol(void *ctx, const Dim *sym) {
    Dead *d = ctx;
    if (dim_as_symbol(sym)->kind != SYM_DATA) return;
    for (int i = 0; i < d->symbols.n; i++)
        if (d->symbols.data[i] == sym) return;
    vec_push(d->arena, &d->symbols, sym);
}

static void note_dims(Dead *d, const Dim *const *dims, int n) {
    for (int i = 0; i < n; i++) dim_symbols(dims[i], note_symbol, d);
}

static void note_expr(void *ctx, const Expr *e) {
    if (e->op == X_dim) dim_symbols(e->dim, note_symbol, ctx);
}

static void note_node(Dead *d, const Node *n) {
    note_dims(d, n->dims.data, n->dims.n);
    note_dims(d, n->index.data, n->index.n);
    note_dims(d, n->guard.data, n->guard.n);
    for (int i = 0; i < n->nout; i++) note_dims(d, n->out[i]->shape, n->out[i]->rank);
    const Expr *bodies[] = {n->body, n->score, n->prob};
    for (int i = 0; i < 3; i++)
        if (bodies[i]) expr_visit(bodies[i], note_expr, d);
}

static bool symbol_used(const Dead *d, const Dim *sym) {
    for (int s = 0; s < d->symbols.n; s++)
        if (sym == d->symbols.data[s]) return true;
    return false;
}

static bool defines_used_symbol(const Dead *d, const Node *n) {
    if (gop_info(n->op)->cls != GC_control) return false;
    for (int i = 0; i < n->dims.n; i++)
        if (symbol_used(d, n->dims.data[i])) return true;
    for (int i = 0; i < n->nout; i++)
        for (int k = 0; k < n->out[i]->rank; k++)
            if (symbol_used(d, n->out[i]->shape[k])) return true;
    return false;
}

static bool is_dead(const Dead *d, const Node *n) {
    if (n->op == G_check || n->op == G_call) return false;
    for (int i = 0; i < n->nout; i++)
        if (d->uses[n->out[i]->id]) return false;
    return !defines_used_symbol(d, n);
}

static void dead_region(Dead *d, Region *r) {
    for (int i = 0; i < r->yields.n; i++) note_dims(d, r->yields.data[i]->shape, r->yields.data[i]->rank);
    for (int i = 0; i < r->params.n; i++) note_dims(d, r->params.data[i]->shape, r->params.data[i]->rank);
    int kept = r->nodes.n;
    for (int i = r->nodes.n - 1; i >= 0; i--) {
        Node *n = r->nodes.data[i];
        if (is_dead(d, n)) {
            for (int k = 0; k < n->nin; k++) d->uses[n->in[k]->id]--;
            for (int k = 0; k < n->regions.n; k++) count_region(n->regions.data[k], d->uses, -1);
            continue;
        }
        note_node(d, n);
        for (int k = 0; k < n->regions.n; k++) dead_region(d, n->regions.data[k]);
        r->nodes.data[--kept] = n;
    }
    int live = r->nodes.n - kept;
    if (live) memmove(r->nodes.data, r->nodes.data + kept, sizeof *r->nodes.data * (size_t)live);
    r->nodes.n = live;
}

void graph_remove_dead(Graph *g) {
    Dead d = {.g = g, .arena = arena_new()};
    d.uses = ARENA_ARRAY(d.arena, int, g->nvalues + 1);
    graph_count_uses(g, d.uses);
    dead_region(&d, g->body);
    arena_free(d.arena);
}
