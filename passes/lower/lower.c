// passes_lower: a Program from a Graph; see lower.h.
#include "lower.h"

#include <string.h>

// Names of the interface as C identifiers, unique among themselves: non-word characters become _, a leading digit gets x, duplicates _2, _3
// ….
static char *interface_name(Lower *l, const char *label) {
    Arena *a = l->p->arena;
    char *name = arena_printf(a, "%s%s", label[0] >= '0' && label[0] <= '9' ? "x" : "", *label ? label : "x");
    for (char *c = name; *c; c++) {
        bool word = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '_';
        if (!word) *c = '_';
    }
    char *unique = name;
    for (int k = 2;; k++) {
        bool taken = false;
        for (int i = 0; i < l->names.n && !taken; i++) taken = !strcmp(l->names.data[i], unique);
        if (!taken) break;
        unique = arena_printf(a, "%s_%d", name, k);
    }
    vec_push(a, &l->names, unique);
    return unique;
}

static bool is_state_input(const Graph *g, const Value *v) {
    for (int i = 0; i < g->states.n; i++)
        if (g->states.data[i].in == v) return true;
    return false;
}

static void interface_buffer(Lower *l, BufKind kind, const Value *v, const char *label) {
    LoopBuffer *b = loop_buffer(l->p, kind, interface_name(l, label), v->type, v->rank, (const Dim *const *)v->shape);
    b->label = label;
    b->tie = -1;
    if (kind != BUF_OUTPUT) l->buffer[v->id] = b;
}

// An input without a name of its own is called by its number.
static const char *input_label(Lower *l, const Value *v) {
    return v->label ? v->label : arena_printf(l->p->arena, "in%d", v->out);
}

static void declare_inputs(Lower *l) {
    Region *r = l->g->body;
    for (int i = 0; i < r->params.n; i++) {
        const Value *v = r->params.data[i];
        if (!is_state_input(l->g, v)) interface_buffer(l, BUF_INPUT, v, input_label(l, v));
    }
}

static void declare_states(Lower *l) {
    for (int i = 0; i < l->g->states.n; i++) {
        const Value *v = l->g->states.data[i].in;
        interface_buffer(l, BUF_STATE, v, input_label(l, v));
    }
}

// An output's kernel writes straight into the caller's memory when the value has one and is not one already.
static bool computed_in_place(Lower *l, const Value *v) {
    bool own = v->def && v->region == l->g->body && v->storage.kind != STORE_INLINE;
    return own && v->def->op != G_const && !l->buffer[v->id];
}

static void see_data(void *ctx, const Dim *sym) {
    *(bool *)ctx |= dim_as_symbol(sym)->kind == SYM_DATA;
}

// What v is another shape of; v itself when its shape is known only once the run has come to it: its output's memory cannot be used before.
static const Value *reshape_source(const Lower *l, const Value *v) {
    bool from_data = false;
    for (int i = 0; i < v->rank; i++) dim_symbols(v->shape[i], see_data, &from_data);
    while (!from_data && v->storage.kind == STORE_INLINE && value_is_reshape(l->g, v)) v = v->def->in[0];
    return v;
}

static LoopBuffer **declare_outputs(Lower *l) {
    Region *r = l->g->body;
    LoopBuffer **out = ARENA_ARRAY(l->p->arena, LoopBuffer *, r->yields.n + 1);
    for (int i = 0; i < r->yields.n; i++) {
        const Value *v = r->yields.data[i];
        const char *label = l->g->output_names.data[i];
        out[i] = loop_buffer(l->p, BUF_OUTPUT, interface_name(l, label), v->type, v->rank, (const Dim *const *)v->shape);
        out[i]->label = label;
        out[i]->tie = -1;
        const Value *source = reshape_source(l, v);
        if (computed_in_place(l, source)) l->buffer[source->id] = out[i];
    }
    return out;
}

static void store_outputs(Lower *l, LoopBuffer **out) {
    Region *r = l->g->body;
    for (int i = 0; i < r->yields.n; i++) {
        const Value *v = r->yields.data[i];
        if (l->buffer[reshape_source(l, v)->id] != out[i]) lower_copy_at(l, &l->p->main, v, out[i], dim_int(l->g->dims, 0));
    }
}

// The next state, an output like the others, is copied over the old one at the run's end, when nothing reads the old one any more.
static void store_states(Lower *l) {
    for (int i = 0; i < l->g->states.n; i++) {
        const StateTie *s = &l->g->states.data[i];
        lower_copy_at(l, &l->p->main, s->out, l->buffer[s->in->id], dim_int(l->g->dims, 0));
    }
}

static void check_strings(const Value *v, Diag *d) {
    if (v->type != DT_str && v->type != DT_c64 && v->type != DT_c128) return;
    const Node *n = v->def;
    diag_error(d, EXIT_UNSUPPORTED, "node '%s' (%s): values of type %s are not supported yet", n && n->label ? n->label : "",
        n && n->onnx ? n->onnx : "input", dtype_name(v->type));
}

static void check_node_types(void *ctx, Node *n) {
    for (int i = 0; i < n->nout; i++) check_strings(n->out[i], ctx);
}

Program *passes_lower(Graph *g, const PassOptions *o, Diag *d) {
    int before = d->errors;
    for (int i = 0; i < g->body->params.n; i++) check_strings(g->body->params.data[i], d);
    graph_walk(g->body, check_node_types, d);
    if (d->errors > before) return NULL;
    Program *p = program_new(g->dims, g->name);
    Lower l = {.g = g, .p = p, .diag = d, .target = o->target};
    l.buffer = ARENA_ARRAY(p->arena, LoopBuffer *, g->nvalues + 1);
    l.scalar = ARENA_ARRAY(p->arena, const Dim *, g->nvalues + 1);
    lower_find_shared(&l);
    p->target = o->target->name;
    p->hash = g->hash;
    for (int i = 0; i < g->symbols.n; i++) {
        const Sym *sym = dim_as_symbol(g->symbols.data[i]);
        if (sym->kind == SYM_MODEL)
            loop_model_dim(p, g->symbols.data[i]);
        else
            loop_fresh(p, &p->main, sym->name); // taken: kernels name nothing so
    }
    for (int i = 0; i < g->onnx_names.n; i++) vec_push(p->arena, &p->node_names, g->onnx_names.data[i]);
    for (int i = 0; i < g->metadata.n; i++) vec_push(p->arena, &p->metadata, g->metadata.data[i]);
    for (int i = 0; i < g->symbols.n; i++) vec_push(p->arena, &l.names, dim_as_symbol(g->symbols.data[i])->name);
    declare_inputs(&l);
    LoopBuffer **out = declare_outputs(&l);
    declare_states(&l);
    lower_region(&l, &p->main, g->body);
    if (d->errors == before) {
        store_outputs(&l, out);
        store_states(&l);
    }
    if (d->errors > before) {
        program_free(p);
        return NULL;
    }
    lower_drop_unused(p);
    return p;
}
