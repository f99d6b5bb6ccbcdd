// The Graph as a drawing for Graphviz: nodes with their ONNX names, edges with types; an If's or Loop's regions are boxes.
#include "graph.h"

#include <string.h>

typedef struct {
    Str *s;
    int boxes;
} Dot;

static void escaped(Str *s, const char *text) {
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') str_add(s, "\\");
        str_addn(s, text, 1);
    }
}

// The drawing's name of the place where v comes from.
static void place(Str *s, const Value *v) {
    if (v->def && v->def->nout)
        str_printf(s, "n%d", v->def->out[0]->id);
    else
        str_printf(s, "p%d", v->id);
}

static void edge(Dot *d, const Value *v, const char *to, int id) {
    str_add(d->s, "  ");
    place(d->s, v);
    str_printf(d->s, " -> %s%d [label=\"%s[", to, id, dtype_name(v->type));
    for (int i = 0; i < v->rank; i++) {
        if (i) str_add(d->s, ",");
        dim_print(d->s, v->shape[i]);
    }
    str_add(d->s, "]\"];\n");
}

static void region(Dot *d, const Region *r);

static void node(Dot *d, const Node *n) {
    int id = n->nout ? n->out[0]->id : -1;
    const char *prefix = "n";
    if (id < 0) id = d->boxes++, prefix = "c"; // a check has no value to be named by
    str_printf(d->s, "  %s%d [shape=box, label=\"%s", prefix, id, gop_info(n->op)->name);
    if (n->kind) str_printf(d->s, " %s", n->kind);
    if (n->label) {
        str_add(d->s, "\\n");
        escaped(d->s, n->label);
    }
    str_add(d->s, "\"];\n");
    for (int i = 0; i < n->nin; i++) edge(d, n->in[i], prefix, id);
    for (int i = 0; i < n->regions.n; i++) {
        str_printf(d->s, "  subgraph cluster_%d {\n  label=\"%s %d\";\n", d->boxes++, gop_info(n->op)->name, i);
        region(d, n->regions.data[i]);
        str_add(d->s, "  }\n");
        for (int k = 0; k < n->regions.data[i]->yields.n; k++) edge(d, n->regions.data[i]->yields.data[k], prefix, id);
    }
}

static void region(Dot *d, const Region *r) {
    for (int i = 0; i < r->params.n; i++) {
        str_printf(d->s, "  p%d [label=\"", r->params.data[i]->id);
        escaped(d->s, r->params.data[i]->label ? r->params.data[i]->label : "parameter");
        str_add(d->s, "\"];\n");
    }
    for (int i = 0; i < r->nodes.n; i++) node(d, r->nodes.data[i]);
}

void graph_print_dot(Str *s, const Graph *g) {
    Dot d = {.s = s};
    str_add(s, "digraph \"");
    escaped(s, g->name);
    str_add(s, "\" {\n");
    region(&d, g->body);
    for (int i = 0; i < g->body->yields.n; i++) {
        str_printf(s, "  o%d [label=\"", i);
        escaped(s, i < g->output_names.n && g->output_names.data[i] ? g->output_names.data[i] : "output");
        str_add(s, "\"];\n");
        edge(&d, g->body->yields.data[i], "o", i);
    }
    str_add(s, "}\n");
}
