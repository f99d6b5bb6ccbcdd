// Model-local functions: a call's body is imported in place, in a scope that sees the call's inputs only.
#include "importer.h"
#include <string.h>

static bool same(const char *a, const char *b) {
    return strcmp(a ? a : "", b ? b : "") == 0;
}

const Onnx__FunctionProto *function_find(const Importer *imp, const Onnx__NodeProto *p) {
    const Onnx__ModelProto *m = imp->model->proto;
    for (size_t i = 0; i < m->n_functions; i++) {
        const Onnx__FunctionProto *f = m->functions[i];
        if (same(f->name, p->op_type) && same(f->domain, p->domain) && same(f->overload, p->overload)) return f;
    }
    return NULL;
}

static bool declares(const Onnx__FunctionProto *f, const char *attr) {
    for (size_t i = 0; i < f->n_attribute; i++)
        if (strcmp(f->attribute[i], attr) == 0) return true;
    for (size_t i = 0; i < f->n_attribute_proto; i++)
        if (same(f->attribute_proto[i]->name, attr)) return true;
    return false;
}

// The attributes that the body's references see: the call's, then the function's defaults.
static bool bind_attributes(ImportNode *n, const Onnx__FunctionProto *f, Call *c) {
    for (int i = 0; i < n->nattrs; i++)
        if (!declares(f, n->attrs[i].name)) return import_fail(n, "the function has no attribute '%.100s'", n->attrs[i].name);
    BoundAttr *attrs = ARENA_ARRAY(n->arena, BoundAttr, (size_t)n->nattrs + f->n_attribute_proto + 1);
    int count = 0;
    for (int i = 0; i < n->nattrs; i++) attrs[count++] = n->attrs[i];
    for (size_t i = 0; i < f->n_attribute_proto; i++) {
        const Onnx__AttributeProto *p = f->attribute_proto[i];
        if (p->name && !attr_find(attrs, count, p->name)) attrs[count++] = (BoundAttr){p->name, p};
    }
    c->attrs = attrs;
    c->nattrs = count;
    return true;
}

static bool check_call(ImportNode *n, const Scope *s, const Onnx__FunctionProto *f) {
    if (n->nin > (int)f->n_input) return import_fail(n, "has %d inputs, the function has %zu", n->nin, f->n_input);
    if (n->nout > (int)f->n_output) return import_fail(n, "has %d outputs, the function has %zu", n->nout, f->n_output);
    if (s->depth >= MAX_SCOPES) return import_fail(n, "subgraphs and functions are nested more than %d deep", MAX_SCOPES);
    for (const Call *c = s->call; c; c = c->caller)
        if (c->function == f) return import_fail(n, "the function calls itself");
    return true;
}

bool function_call(ImportNode *n, Scope *s, const Onnx__FunctionProto *f) {
    Importer *imp = n->importer;
    if (!check_call(n, s, f)) return false;
    Call *c = ARENA_NEW(n->arena, Call);
    *c = (Call){.caller = s->call, .function = f, .opsets = f->opset_import, .nopsets = f->n_opset_import};
    c->prefix = arena_printf(n->arena, "%s/", n->b.label);
    if (!bind_attributes(n, f, c)) return false;
    Scope *body = scope_new(imp, NULL, c, s->region);
    for (size_t i = 0; i < f->n_input; i++) {
        Binding *b = scope_add(imp, body, f->input[i]);
        if (!b) return import_fail(n, "the function has two inputs called '%.100s'", f->input[i]);
        b->kind = BIND_VALUE;
        b->value = (int)i < n->nin ? n->in[i] : NULL;
    }
    if (!import_nodes(imp, body, f->n_node, f->node)) return false;
    const char *what = arena_printf(n->arena, "an output of function '%s'", short_name(imp, n->b.onnx));
    bool ok = true;
    for (int i = 0; i < n->nout; i++) {
        if (!n->wanted[i]) continue;
        n->out[i] = import_output(imp, body, f->output[i], what);
        ok &= n->out[i] != NULL;
    }
    return ok;
}
