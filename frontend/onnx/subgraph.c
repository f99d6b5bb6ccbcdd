// Graphs in attributes: bodies of If, Loop and Scan.
//
// attr_region gives a body a region of its own; attr_inline puts its nodes where the node stands, with its inputs bound to values. Either
// way names that the body does not define resolve outwards.
#include "importer.h"
#include <assert.h>
#include <string.h>

static const Onnx__GraphProto *graph_of(const ImportNode *n, const char *name) {
    const BoundAttr *a = attr_find(n->attrs, n->nattrs, name);
    return a ? a->proto->g : NULL;
}

int attr_graph_outputs(const ImportNode *n, const char *name) {
    const Onnx__GraphProto *g = graph_of(n, name);
    return g ? (int)g->n_output : -1;
}

static bool check_input(const ImportNode *n, const char *attr, const Onnx__ValueInfoProto *info, DType type, int rank) {
    const Onnx__TypeProto *t = info->type;
    if (!t || t->value_case == ONNX__TYPE_PROTO__VALUE__NOT_SET) return true;
    const char *name = short_name(n->importer, info->name);
    if (t->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
        return import_unsupported(n, "input '%s' of attribute '%s' is not a tensor", name, attr);
    DType declared = dtype_from_onnx(t->tensor_type->elem_type);
    if (declared != DT_none && declared != type)
        return import_fail(n, "input '%s' of attribute '%s' is %s, the node gives %s", name, attr, dtype_name(declared), dtype_name(type));
    const Onnx__TensorShapeProto *shape = t->tensor_type->shape;
    if (shape && shape->n_dim != 0 && shape->n_dim != (size_t)rank)
        return import_fail(n, "input '%s' of attribute '%s' has rank %zu, the node gives rank %d", name, attr, shape->n_dim, rank);
    return true;
}

// A scope in region r for graph g with its inputs bound to values.
static Scope *open_scope(ImportNode *n, const char *attr, const Onnx__GraphProto *g, Region *r, int nvalues, Value *const *values) {
    Importer *imp = n->importer;
    if (imp->scope->depth >= MAX_SCOPES) return import_fail(n, "subgraphs and functions are nested more than %d deep", MAX_SCOPES), NULL;
    Scope *s = scope_new(imp, imp->scope, imp->scope->call, r);
    for (int i = 0; i < nvalues; i++) {
        const Onnx__ValueInfoProto *info = g->input[i];
        if (!info->name || !*info->name) continue;
        if (!check_input(n, attr, info, values[i]->type, values[i]->rank)) return NULL;
        Binding *b = scope_add(imp, s, info->name);
        if (!b) return import_fail(n, "attribute '%s' has two inputs called '%s'", attr, short_name(imp, info->name)), NULL;
        b->kind = BIND_VALUE;
        b->value = values[i];
    }
    return s;
}

static Value **import_body(ImportNode *n, const char *attr, Scope *s, const Onnx__GraphProto *g) {
    Importer *imp = n->importer;
    Value **outs = ARENA_ARRAY(n->arena, Value *, g->n_output + 1);
    bool ok = import_initializers(imp, s, g);
    ok &= import_nodes(imp, s, g->n_node, g->node);
    const char *what = arena_printf(n->arena, "an output of attribute '%s' of node '%s'", attr, short_name(imp, n->b.label));
    for (size_t i = 0; i < g->n_output; i++) {
        outs[i] = import_output(imp, s, g->output[i]->name, what);
        ok &= outs[i] != NULL;
    }
    return ok ? outs : NULL;
}

static const Onnx__GraphProto *checked_graph(ImportNode *n, const char *name, int ninputs) {
    const Onnx__GraphProto *g = graph_of(n, name);
    if (!g) return import_fail(n, "attribute '%s' is missing", name), NULL;
    if (g->n_input != (size_t)ninputs) return import_fail(n, "attribute '%s' has %zu inputs, expected %d", name, g->n_input, ninputs), NULL;
    return g;
}

bool attr_inline(ImportNode *n, const char *name, int nargs, Value *const *args, int *nouts, Value ***outs) {
    const Onnx__GraphProto *g = checked_graph(n, name, nargs);
    if (!g) return false;
    Scope *s = open_scope(n, name, g, n->b.region, nargs, args);
    if (!s) return false;
    *nouts = (int)g->n_output;
    *outs = import_body(n, name, s, g);
    return *outs != NULL;
}

Region *attr_region(ImportNode *n, const char *name, int nparams, const ParamType *params) {
    const Onnx__GraphProto *g = checked_graph(n, name, nparams);
    if (!g) return NULL;
    Region *r = graph_region_new(n->b.g, NULL);
    Value **values = ARENA_ARRAY(n->arena, Value *, nparams + 1);
    for (int i = 0; i < nparams; i++) values[i] = graph_param(r, g->input[i]->name, params[i].type, params[i].rank, params[i].shape);
    Scope *s = open_scope(n, name, g, r, nparams, values);
    Value **outs = s ? import_body(n, name, s, g) : NULL;
    for (size_t i = 0; outs && i < g->n_output; i++) vec_push(n->arena, &r->yields, outs[i]);
    return outs ? r : NULL;
}

Value *scalar_value(ImportNode *n, Value *v, DType type, const char *what) {
    if (v->type != type || dim_eq(n->dims, value_size(n->b.g, v), dim_int(n->dims, 1)) == NO)
        return import_fail(n, "%s is %s, expected one element of %s", what, import_shape_text(n, v), dtype_name(type)), NULL;
    return v->rank == 0 ? v : g_reshape(&n->b, v, 0, NULL);
}

void region_splice(Region *to, Region *from) {
    for (int i = 0; i < from->nodes.n; i++) {
        Node *node = from->nodes.data[i];
        node->region = to;
        for (int k = 0; k < node->nout; k++) node->out[k]->region = to;
        vec_push(to->graph->arena, &to->nodes, node);
    }
    from->nodes.n = 0;
}
