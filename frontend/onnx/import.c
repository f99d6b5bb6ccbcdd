// The import driver: the model's graph, node by node, through the rows of onnx.def.
//
// A node's row is found by domain, name and opset version; arity and attributes are checked against it, inputs are looked up, and the row's
// function composes core operations. A node that fails marks its outputs, and what uses them is passed over: one fault is one message, and
// all of them show in one run. Calls of model-local functions import the body in place under a scope of its own (function.c).
//
// Decisions (import_decide) are a search in depth: the first run takes choice 0 everywhere; when a run fails, the last decision made before
// its first fault takes its next choice, those after it are forgotten, and the import starts again on a fresh Graph. When nothing works,
// the faults of the first run are shown.
#include "importer.h"
#include "ops.h"
#include <assert.h>
#include <string.h>

// ---- names ----

Value *import_output(Importer *imp, Scope *s, const char *name, const char *what) {
    if (!name || !*name) return importer_fault(imp, EXIT_MODEL, "%s has no name", what), NULL;
    Binding *b = scope_lookup(imp, s, name);
    if (b && b->kind == BIND_VALUE && b->value) return b->value;
    if (!b || b->kind != BIND_FAULTY)
        importer_fault(imp, EXIT_MODEL, "%s, '%s', is %s", what, short_name(imp, name), b ? "not computed before" : "defined nowhere");
    return NULL;
}

bool import_initializers(Importer *imp, Scope *s, const Onnx__GraphProto *g) {
    bool ok = true;
    for (size_t i = 0; i < g->n_initializer + g->n_sparse_initializer; i++) {
        bool sparse = i >= g->n_initializer;
        const Onnx__SparseTensorProto *sp = sparse ? g->sparse_initializer[i - g->n_initializer] : NULL;
        const Onnx__TensorProto *t = sparse ? sp->values : g->initializer[i];
        if (!t || !t->name || !*t->name) {
            ok = importer_fault(imp, EXIT_MODEL, "initializer %zu has no name", i);
            continue;
        }
        Binding *b = scope_add(imp, s, t->name);
        if (!b) {
            ok = importer_fault(imp, EXIT_MODEL, "the name '%s' is given twice", short_name(imp, t->name));
            continue;
        }
        b->kind = BIND_TENSOR;
        Arena *a = imp->graph->arena;
        const char *fault = sparse ? sparse_read(imp->model, a, sp, &b->tensor) : tensor_read(imp->model, a, t, &b->tensor);
        if (!fault) continue;
        b->kind = BIND_FAULTY;
        ok = importer_fault(imp, EXIT_MODEL, "initializer '%s' %s", short_name(imp, t->name), fault);
    }
    return ok;
}

// ---- one node ----

// 0: the domain is not imported there.
static int opset_version(const Importer *imp, const Call *c, const char *domain) {
    while (c->caller && c->nopsets == 0) c = c->caller;
    for (size_t i = 0; i < c->nopsets; i++) {
        const char *d = c->opsets[i]->domain ? c->opsets[i]->domain : "";
        if (strcmp(d, "ai.onnx") == 0) d = "";
        int64_t v = c->opsets[i]->version;
        if (strcmp(d, domain) == 0) return v < 0 ? 0 : v > INT32_MAX ? INT32_MAX : (int)v;
    }
    return c->nopsets == 0 && imp->model->proto->ir_version < 3 && *domain == 0;
}

static bool unknown_operator(ImportNode *n, const char *domain) {
    Importer *imp = n->importer;
    if (n->version == 0) return import_fail(n, "its domain '%.100s' is not among the opset imports", domain);
    const char *id = arena_printf(n->arena, "%s:%s", domain, n->b.onnx);
    for (int i = 0; i < imp->unsupported.n; i++)
        if (strcmp(imp->unsupported.data[i], id) == 0) return false;
    vec_push(n->arena, &imp->unsupported, id);
    if (op_known(domain, n->b.onnx)) return import_unsupported(n, "the operator is not supported in opset %d of '%s'", n->version, domain);
    return import_unsupported(
        n, "the operator is not supported yet%s%.100s", *domain ? ", nor is a function of the model: domain " : "", domain);
}

static bool check_arity(ImportNode *n, const Onnx__NodeProto *p) {
    const OpRow *r = n->row;
    if (r->max_in >= 0 && n->nin > r->max_in) return import_fail(n, "has %d inputs, expected at most %d", n->nin, r->max_in);
    if (n->nin < r->min_in) return import_fail(n, "has %d inputs, expected at least %d", n->nin, r->min_in);
    if (r->max_out >= 0 && (int)p->n_output > r->max_out)
        return import_fail(n, "has %zu outputs, expected at most %d", p->n_output, r->max_out);
    if ((int)p->n_output < r->min_out) return import_fail(n, "has %zu outputs, expected at least %d", p->n_output, r->min_out);
    return true;
}

// false after a fault, or without one when an input's node failed.
static bool resolve_inputs(ImportNode *n, Scope *s, const Onnx__NodeProto *p) {
    bool ok = true;
    for (int i = 0; i < n->nin; i++) {
        if (!*p->input[i]) continue;
        const Binding *b = scope_lookup(n->importer, s, p->input[i]);
        const char *name = short_name(n->importer, p->input[i]);
        if (!b)
            ok = import_fail(n, "input %d, '%s', is defined nowhere", i, name);
        else if (b->kind == BIND_LATER)
            ok = import_fail(n, "input %d, '%s', is computed by a later node: the nodes are out of order or form a cycle", i, name);
        else if (b->kind == BIND_FAULTY)
            ok = false;
        else
            n->in[i] = b->value;
    }
    for (int i = 0; ok && n->row && i < n->row->min_in; i++)
        if (!n->in[i]) ok = import_fail(n, "input %d is missing", i);
    return ok;
}

// No extent overflowed or is negative; what is constant fits memory.
static bool check_output(ImportNode *n, const Value *v) {
    int64_t count = 1, d;
    for (int i = 0; i < v->rank; i++) {
        if (dim_is_poison(v->shape[i])) return import_fail(n, "the size of an output overflows");
        if (!dim_is_int(v->shape[i], &d)) continue;
        if (d < 0) return import_fail(n, "an output gets the negative dimension %lld", (long long)d);
        if (d && count > ((int64_t)1 << 44) / d)
            return import_fail(n, "an output, %s, has more than 2^44 elements", import_shape_text(n, v));
        count *= d ? d : 1;
    }
    return true;
}

static bool run_row(ImportNode *n) {
    int errors = n->importer->diag->errors;
    if (!n->row->fn(n)) {
        assert(n->importer->diag->errors > errors || n->importer->stopped || n->importer->decided_at_fault >= 0);
        return false;
    }
    if (n->b.fault) return import_fail(n, "%s", n->b.fault);
    for (int i = 0; i < n->nout; i++) {
        assert(n->out[i] || !n->wanted[i]);
        if (n->out[i] && !check_output(n, n->out[i])) return false;
    }
    return true;
}

static bool import_operator(ImportNode *n, Scope *s, const Onnx__NodeProto *p) {
    const char *domain = p->domain && strcmp(p->domain, "ai.onnx") != 0 ? p->domain : "";
    if (!*n->b.onnx) return import_fail(n, "names no operator");
    if (!attrs_bind(n, s->call, p)) return false;
    n->version = opset_version(n->importer, s->call, domain);
    n->row = op_find(domain, n->b.onnx, n->version);
    const Onnx__FunctionProto *f = n->row ? NULL : function_find(n->importer, p);
    if (!n->row && !f) return unknown_operator(n, domain);
    if (n->row) {
        bool attrs = attrs_check(n), arity = check_arity(n, p);
        if (!attrs || !arity) return false;
    }
    int cap_in = n->row && n->row->max_in > n->nin ? n->row->max_in : n->nin;
    int cap_out = n->row && n->row->max_out > n->nout ? n->row->max_out : n->nout;
    n->in = ARENA_ARRAY(n->arena, Value *, cap_in + 1);
    n->out = ARENA_ARRAY(n->arena, Value *, cap_out + 1);
    n->wanted = ARENA_ARRAY(n->arena, bool, cap_out + 1);
    for (int i = 0; i < n->nout; i++) n->wanted[i] = *p->output[i] != 0;
    if (!resolve_inputs(n, s, p)) return false;
    return f ? function_call(n, s, f) : run_row(n);
}

static void bind_outputs(ImportNode *n, Scope *s, const Onnx__NodeProto *p, bool ok) {
    for (size_t i = 0; i < p->n_output; i++) {
        Binding *b = *p->output[i] ? scope_find(s, p->output[i]) : NULL;
        if (!b) continue;
        b->kind = ok ? BIND_VALUE : BIND_FAULTY;
        b->value = ok ? n->out[i] : NULL;
        if (ok && b->value && b->value->def && !b->value->label) b->value->label = arena_strdup(n->arena, p->output[i]);
    }
}

// The node's own name, else its first output's, behind the names of the calls it stands in.
static const char *node_label(Importer *imp, const Call *c, const Onnx__NodeProto *p) {
    const char *name = p->name ? p->name : "";
    for (size_t i = 0; !*name && i < p->n_output; i++) name = p->output[i];
    return arena_printf(imp->graph->arena, "%s%s", c->prefix, name);
}

static bool import_node(Importer *imp, Scope *s, const Onnx__NodeProto *p) {
    Graph *g = imp->graph;
    if (g->nonnx == MAX_NODES) {
        importer_fault(imp, EXIT_LIMIT, "the model has more than %d nodes, functions expanded", MAX_NODES);
        imp->stopped = true;
        return false;
    }
    ImportNode n = {.nin = (int)p->n_input, .nout = (int)p->n_output, .arena = g->arena, .dims = g->dims, .importer = imp};
    while (n.nin > 0 && !*p->input[n.nin - 1]) n.nin--;
    while (n.nout > 0 && !*p->output[n.nout - 1]) n.nout--;
    n.b = (Builder){.g = g, .region = s->region, .label = node_label(imp, s->call, p), .onnx_id = ++g->nonnx, .notes_faults = true};
    n.b.onnx = p->op_type ? arena_strdup(g->arena, p->op_type) : "";
    vec_push(g->arena, &g->onnx_names, n.b.label);
    bool ok = import_operator(&n, s, p);
    bind_outputs(&n, s, p, ok);
    return ok;
}

static bool declare_outputs(Importer *imp, Scope *s, const Onnx__NodeProto *p) {
    bool ok = true;
    for (size_t i = 0; i < p->n_output; i++) {
        if (!*p->output[i]) continue;
        Binding *b = scope_add(imp, s, p->output[i]);
        if (b)
            b->kind = BIND_LATER;
        else
            ok = importer_fault(imp, EXIT_MODEL, "the name '%s' is given twice", short_name(imp, p->output[i]));
    }
    return ok;
}

bool import_nodes(Importer *imp, Scope *s, size_t n, Onnx__NodeProto **nodes) {
    Scope *around = imp->scope;
    imp->scope = s;
    bool ok = true;
    for (size_t i = 0; i < n; i++) ok &= declare_outputs(imp, s, nodes[i]);
    for (size_t i = 0; i < n && !imp->stopped; i++) {
        ok &= import_node(imp, s, nodes[i]);
        if (!imp->split) continue;
        ok &= split_rest(imp, s, nodes[i], n - i - 1, nodes + i + 1);
        break;
    }
    imp->scope = around;
    return ok && !imp->stopped;
}

// ---- the model ----

// A word of the text format, from the graph's name.
static const char *graph_name(Arena *a, const char *name) {
    char *s = arena_printf(a, "%s%.60s", name && *name >= '0' && *name <= '9' ? "x" : "", name && *name ? name : "model");
    for (char *p = s; *p; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9'))) *p = '_';
    return s;
}

static bool import_outputs(Importer *imp, Scope *s) {
    const Onnx__GraphProto *g = imp->model->proto->graph;
    bool ok = true;
    if (g->n_output == 0) ok = importer_fault(imp, EXIT_MODEL, "the model has no outputs");
    for (size_t i = 0; i < g->n_output; i++) {
        const Onnx__ValueInfoProto *info = g->output[i];
        for (size_t k = 0; k < i; k++)
            if (info->name && g->output[k]->name && strcmp(info->name, g->output[k]->name) == 0)
                ok = importer_fault(imp, EXIT_MODEL, "the model has two outputs called '%s'", short_name(imp, info->name));
        Value *v = import_output(imp, s, info->name, "an output of the model");
        ok &= v != NULL;
        if (!v) continue;
        const Onnx__TypeProto *t = info->type;
        bool tensor = t && t->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
        DType declared = tensor ? dtype_from_onnx(t->tensor_type->elem_type) : DT_none;
        if (declared != DT_none && declared != v->type)
            ok = importer_fault(imp, EXIT_MODEL, "output '%s' is declared %s, but the nodes compute %s", short_name(imp, info->name),
                dtype_name(declared), dtype_name(v->type));
        vec_push(imp->graph->arena, &imp->graph->body->yields, v);
        vec_push(imp->graph->arena, &imp->graph->output_names, arena_strdup(imp->graph->arena, info->name));
    }
    return ok;
}

// One run: a fresh Graph in imp->graph. false when there were faults.
static bool import_once(Importer *imp) {
    const Onnx__ModelProto *p = imp->model->proto;
    Arena *tmp = arena_new();
    Graph *g = imp->graph = graph_new(graph_name(tmp, p->graph->name));
    arena_free(tmp);
    g->hash = imp->model->hash;
    for (size_t i = 0; i < p->n_metadata_props; i++) {
        const Onnx__StringStringEntryProto *e = p->metadata_props[i];
        vec_push(g->arena, &g->metadata, arena_strdup(g->arena, e->key ? e->key : ""));
        vec_push(g->arena, &g->metadata, arena_strdup(g->arena, e->value ? e->value : ""));
    }
    Call call = {.opsets = p->opset_import, .nopsets = p->n_opset_import, .prefix = ""};
    imp->scope = NULL;
    imp->stopped = false;
    imp->decided = 0;
    imp->decided_at_fault = -1;
    imp->unsupported.n = imp->unsupported.cap = 0;
    Scope *s = scope_new(imp, NULL, &call, g->body);
    s->is_model = true;
    imp->split = NULL;
    imp->splits = 0;
    bool ok = import_initializers(imp, s, p->graph);
    ok &= import_inputs(imp, s);
    ok &= import_nodes(imp, s, p->graph->n_node, p->graph->node);
    ok &= !imp->stopped && import_outputs(imp, s);
    ok &= !imp->stopped && import_states(imp);
    return ok;
}

// The next vector of decisions after a failed run; false when all were tried.
static bool next_choice(Importer *imp) {
    if (imp->decided_at_fault >= 0 && imp->nchosen > imp->decided_at_fault) imp->nchosen = imp->decided_at_fault;
    while (imp->nchosen > 0 && imp->choice[imp->nchosen - 1] == 1) imp->nchosen--;
    if (imp->nchosen == 0) return false;
    imp->choice[imp->nchosen - 1] = 1;
    return true;
}

Graph *frontend_import(Model *m, const FrontendOptions *o, Diag *d) {
    Importer imp = {.model = m, .options = o};
    Diag first = {.file = d->file}, again = {.file = d->file};
    imp.diag = &first;
    for (int run = 0; run < MAX_RUNS; run++) {
        if (import_once(&imp)) {
            diag_move(d, imp.diag);
            if (run > 0) diag_free(&first);
            return imp.graph;
        }
        graph_free(imp.graph);
        if (run > 0) diag_free(&again);
        if (!next_choice(&imp)) break;
        again = (Diag){.file = d->file};
        imp.diag = &again;
        imp.fail_fast = true;
    }
    diag_move(d, &first);
    return NULL;
}
