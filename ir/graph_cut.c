// graph_cut: another piece of a model: inner tensors as inputs, inner tensors as outputs.
//
// A tensor that becomes an input is replaced by a parameter everywhere. What the outputs do not need goes, and so do the checks of nodes
// that went: a check is known by the number of the ONNX node that it guards; one without a number stays where it is computed from
// parameters that are needed anyway. Data that was known of a cut tensor (its content) stays in what was inferred from it.
#include "graph.h"

#include <string.h>

typedef struct {
    Graph *g;
    Arena *arena;
    Diag *d;
    bool *needed;     // [Value.id]: the outputs are computed from it
    bool *computable; // [Value.id]: from the parameters needed
    bool *onnx;       // [onnx_id]: a node of it is needed
} Cut;

// ---- names ----
static void find_inner(void *ctx, Node *n) {
    const char **name = ctx;
    for (int i = 0; i < n->nout && *name; i++)
        if (n->out[i]->region->owner && n->out[i]->label && !strcmp(n->out[i]->label, *name)) *name = NULL;
}

static Value *find(Graph *g, const char *name, Diag *d) {
    Region *r = g->body;
    for (int i = 0; i < r->params.n; i++)
        if (r->params.data[i]->label && !strcmp(r->params.data[i]->label, name)) return r->params.data[i];
    for (int i = 0; i < r->yields.n; i++)
        if (!strcmp(g->output_names.data[i], name)) return r->yields.data[i];
    for (int i = 0; i < r->nodes.n; i++) {
        const Node *n = r->nodes.data[i];
        for (int k = 0; k < n->nout; k++)
            if (n->out[k]->label && !strcmp(n->out[k]->label, name)) return n->out[k];
    }
    const char *inner = name;
    graph_walk(r, find_inner, &inner);
    if (inner)
        diag_error(d, EXIT_USAGE, "the model has no tensor '%s' (`mlc dump --stage=import` shows their names)", name);
    else
        diag_error(d, EXIT_USAGE, "tensor '%s' stands in a branch or loop: only tensors outside can be inputs or outputs", name);
    return NULL;
}

// ---- inputs ----
static void find_data(void *ctx, const Dim *sym) {
    if (dim_as_symbol(sym)->kind != SYM_MODEL) *(bool *)ctx = true;
}

static bool cut_input(Graph *g, const char *name, Diag *d) {
    Value *v = find(g, name, d);
    if (!v || !v->def) return v != NULL;
    bool data = false;
    for (int i = 0; i < v->rank; i++) dim_symbols(v->shape[i], find_data, &data);
    if (v->def->op == G_optional || v->type == DT_none)
        diag_error(d, EXIT_USAGE, "'%s' is no tensor: it cannot be an input", name);
    else if (data)
        diag_error(d, EXIT_USAGE, "the shape of tensor '%s' depends on data: it cannot be an input", name);
    if (d->errors) return false;
    Value *p = graph_param(g->body, name, v->type, v->rank, v->shape);
    v->label = NULL;
    graph_replace(g, v, p);
    return true;
}

// ---- outputs ----
static bool yields(const Graph *g, const Value *v, const char *name) {
    for (int i = 0; i < g->body->yields.n; i++)
        if (g->body->yields.data[i] == v && (!name || !strcmp(g->output_names.data[i], name))) return true;
    return false;
}

static void add_output(Graph *g, Value *v, const char *name) {
    vec_push(g->arena, &g->body->yields, v);
    vec_push(g->arena, &g->output_names, arena_strdup(g->arena, name));
}

// The next value of a state stays an output, for the tie leads to it.
static bool choose_outputs(Graph *g, const GraphCut *c, Diag *d) {
    Value **chosen = ARENA_ARRAY(g->arena, Value *, c->noutputs + 1);
    for (int i = 0; i < c->noutputs; i++)
        if (!(chosen[i] = find(g, c->outputs[i], d))) return false;
    Value **old = g->body->yields.data;
    const char **names = g->output_names.data;
    int n = g->body->yields.n;
    memset(&g->body->yields, 0, sizeof g->body->yields);
    memset(&g->output_names, 0, sizeof g->output_names);
    for (int i = 0; i < c->noutputs; i++)
        if (!yields(g, chosen[i], c->outputs[i])) add_output(g, chosen[i], c->outputs[i]);
    for (int i = 0; i < g->states.n; i++)
        for (int k = 0; k < n; k++)
            if (old[k] == g->states.data[i].out && !yields(g, old[k], NULL)) add_output(g, old[k], names[k]);
    return true;
}

static bool add_taps(Graph *g, const GraphCut *c, Diag *d) {
    for (int i = 0; i < c->ntaps; i++) {
        Value *v = find(g, c->taps[i], d);
        if (!v) return false;
        if (!yields(g, v, c->taps[i])) add_output(g, v, c->taps[i]);
    }
    return true;
}

// ---- what stays ----
static void need(void *ctx, Node *n) {
    Cut *c = ctx;
    for (int i = 0; i < n->nin; i++) c->needed[n->in[i]->id] = true;
    for (int i = 0; i < n->regions.n; i++)
        for (int k = 0; k < n->regions.data[i]->yields.n; k++) c->needed[n->regions.data[i]->yields.data[k]->id] = true;
}

static void need_with_regions(Cut *c, Node *n) {
    need(c, n);
    for (int i = 0; i < n->regions.n; i++) graph_walk(n->regions.data[i], need, c);
    if (n->onnx_id) c->onnx[n->onnx_id] = true;
}

static void find_needed(Cut *c) {
    Region *r = c->g->body;
    for (int i = 0; i < r->yields.n; i++) c->needed[r->yields.data[i]->id] = true;
    for (int i = r->nodes.n - 1; i >= 0; i--) {
        Node *n = r->nodes.data[i];
        for (int k = 0; k < n->nout; k++)
            if (c->needed[n->out[k]->id]) {
                need_with_regions(c, n);
                break;
            }
    }
}

typedef struct {
    const Cut *c;
    bool ok;
} Reach;

static void reach(void *ctx, Node *n) {
    Reach *x = ctx;
    for (int i = 0; i < n->nin; i++)
        if (!n->in[i]->region->owner) x->ok &= x->c->computable[n->in[i]->id];
}

static bool is_computable(const Cut *c, Node *n) {
    Reach x = {c, true};
    reach(&x, n);
    for (int i = 0; i < n->regions.n; i++) graph_walk(n->regions.data[i], reach, &x);
    return x.ok;
}

static void drop_checks(Cut *c) {
    Region *r = c->g->body;
    int kept = 0;
    for (int i = 0; i < r->params.n; i++) c->computable[r->params.data[i]->id] = c->needed[r->params.data[i]->id];
    for (int i = 0; i < r->nodes.n; i++) {
        Node *n = r->nodes.data[i];
        bool ok = is_computable(c, n);
        for (int k = 0; k < n->nout; k++) c->computable[n->out[k]->id] = ok;
        if (n->op == G_check && (n->onnx_id ? !c->onnx[n->onnx_id] : !ok)) continue;
        r->nodes.data[kept++] = n;
    }
    r->nodes.n = kept;
}

static bool is_state(const Graph *g, const Value *v) {
    for (int i = 0; i < g->states.n; i++)
        if (g->states.data[i].in == v) return true;
    return false;
}

// ---- inputs that only tell a dimension ----
typedef struct {
    const Dim *sym;
    bool found;
} Mention;

static void mention(void *ctx, const Dim *sym) {
    Mention *m = ctx;
    m->found |= sym == m->sym;
}
static void mention_list(Mention *m, const Dim *const *dims, int n) {
    for (int i = 0; i < n; i++) dim_symbols(dims[i], mention, m);
}
static void mention_expr(void *ctx, const Expr *e) {
    if (e->dim) dim_symbols(e->dim, mention, ctx);
}
static void mention_node(void *ctx, Node *n) {
    Mention *m = ctx;
    mention_list(m, n->dims.data, n->dims.n);
    mention_list(m, n->index.data, n->index.n);
    mention_list(m, n->guard.data, n->guard.n);
    for (int i = 0; i < n->nout; i++) mention_list(m, n->out[i]->shape, n->out[i]->rank);
    const Expr *bodies[] = {n->body, n->score, n->prob};
    for (int i = 0; i < 3; i++)
        if (bodies[i]) expr_visit(bodies[i], mention_expr, m);
}

typedef struct {
    Cut *c;
    const int *uses;
    const Value *param;
    bool needed;
} Tells;

static void tells(void *ctx, const Dim *sym) {
    Tells *t = ctx;
    Region *r = t->c->g->body;
    Mention elsewhere = {sym, false}, used = {sym, false};
    for (int i = 0; i < r->params.n; i++) {
        const Value *v = r->params.data[i];
        if (t->uses[v->id] || v->out < t->param->out) mention_list(&elsewhere, v->shape, v->rank);
    }
    graph_walk(r, mention_node, &used);
    t->needed |= used.found && !elsewhere.found;
}

// An unused parameter stays where nothing else gives the value of a dimension that is still in use.
static bool tells_dimension(Cut *c, const int *uses, const Value *v) {
    Tells t = {c, uses, v, false};
    for (int i = 0; i < v->rank; i++) dim_symbols(v->shape[i], tells, &t);
    return t.needed;
}

static void drop_inputs(Cut *c) {
    Region *r = c->g->body;
    int *uses = ARENA_ARRAY(c->arena, int, c->g->nvalues + 1), kept = 0;
    bool *stays = ARENA_ARRAY(c->arena, bool, r->params.n + 1);
    graph_count_uses(c->g, uses);
    for (int i = 0; i < r->params.n; i++) {
        Value *v = r->params.data[i];
        stays[i] = uses[v->id] || is_state(c->g, v) || tells_dimension(c, uses, v);
    }
    for (int i = 0; i < r->params.n; i++) {
        if (!stays[i]) continue;
        r->params.data[i]->out = kept;
        r->params.data[kept++] = r->params.data[i];
    }
    r->params.n = kept;
}

bool graph_cut(Graph *g, const GraphCut *cut, Diag *d) {
    for (int i = 0; i < cut->ninputs; i++)
        if (!cut_input(g, cut->inputs[i], d)) return false;
    if (cut->noutputs && !choose_outputs(g, cut, d)) return false;
    if (!add_taps(g, cut, d)) return false;
    if (!cut->ninputs && !cut->noutputs) return true;
    Arena *a = arena_new();
    Cut c = {.g = g, .arena = a, .d = d};
    c.needed = ARENA_ARRAY(a, bool, g->nvalues + 1);
    c.computable = ARENA_ARRAY(a, bool, g->nvalues + 1);
    c.onnx = ARENA_ARRAY(a, bool, g->nonnx + 1);
    find_needed(&c);
    drop_checks(&c);
    graph_remove_dead(g);
    drop_inputs(&c);
    arena_free(a);
    return true;
}
