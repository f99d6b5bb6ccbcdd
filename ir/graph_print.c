// The Graph as text (the grammar is in graph.h's head): what is printed here, graph_parse.c reads back.
//
// The fields of a node come from its graph.def row through one table; values without a name are shown by their id.
#include "graph_fields.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// ---- the table of fields ----

static const GField fields[] = {
#define F(name, kind) {#name, FK_##kind, offsetof(Node, name)},
    GRAPH_FIELDS(F)
#undef F
};

const GField *graph_field(int i) {
    return i >= 0 && (size_t)i < sizeof fields / sizeof *fields ? &fields[i] : NULL;
}

const GField *graph_field_find(const char *name, size_t n) {
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strlen(fields[i].name) == n && !memcmp(fields[i].name, name, n)) return &fields[i];
    return NULL;
}

// Iterates over the words of a row's field list.
static const GField *next_field(const char **list) {
    while (**list == ' ') ++*list;
    if (!**list) return NULL;
    size_t n = strcspn(*list, " ");
    const GField *f = graph_field_find(*list, n);
    *list += n;
    return f;
}

bool graph_field_used(GOp op, const GField *f) {
    const char *list = gop_info(op)->fields;
    for (const GField *k; (k = next_field(&list));)
        if (k == f) return true;
    return false;
}

// ---- constants ----

int64_t graph_const_count(const Value *v) {
    int64_t count = 1, extent;
    for (int i = 0; i < v->rank; i++) {
        if (!dim_is_int(v->shape[i], &extent) || extent < 0 || (extent > 0 && count > INT64_MAX / 16 / extent)) return -1;
        count *= extent;
    }
    return count;
}

bool graph_const_is_splat(const Value *v, const Data *data) {
    size_t size = (size_t)dtype_bytes(v->type);
    int64_t count = graph_const_count(v);
    if (count <= GRAPH_INLINE || v->type == DT_str || data->size < size * (size_t)count) return false;
    const char *p = data->bytes;
    return !memcmp(p, p + size, size * (size_t)(count - 1));
}

bool graph_const_is_blob(const Value *v, const Data *data) {
    return graph_const_count(v) > GRAPH_INLINE && v->type != DT_str && !graph_const_is_splat(v, data);
}

static bool blob_in_region(const Region *r, int *k, Data *out) {
    for (int i = 0; i < r->nodes.n; i++) {
        const Node *n = r->nodes.data[i];
        if (n->op == G_const && graph_const_is_blob(n->out[0], &n->data) && (*k)-- == 0) {
            *out = n->data;
            return true;
        }
        for (int j = 0; j < n->regions.n; j++)
            if (blob_in_region(n->regions.data[j], k, out)) return true;
    }
    return false;
}

bool graph_blob(const Graph *g, int k, Data *out) {
    return blob_in_region(g->body, &k, out);
}

// ---- names ----

typedef struct {
    Str *s;
    Arena *arena;
    const char **names; // by Value.id
    int blobs;
    VEC(const char *) taken; // open addressing by hash_bytes, cap a power of two, NULL: free
} Printer;

static bool take(Printer *p, const char *name) {
    uint64_t mask = (uint64_t)p->taken.cap - 1, h = hash_bytes(HASH_SEED, name, strlen(name)) & mask;
    for (; p->taken.data[h]; h = (h + 1) & mask)
        if (!strcmp(p->taken.data[h], name)) return false;
    p->taken.data[h] = name;
    return true;
}

// A name with the characters that the parser takes for one.
static const char *clean(Printer *p, const char *name) {
    char *c = arena_strdup(p->arena, *name ? name : "_");
    for (char *k = c; *k; k++)
        if (!isalnum((unsigned char)*k) && !strchr("_./-", *k)) *k = '_';
    return c;
}

static void name_value(Printer *p, const Value *v, bool named) {
    if (!v || named != (v->name != NULL) || p->names[v->id]) return;
    const char *name = v->name ? clean(p, v->name) : arena_printf(p->arena, "%d", v->id), *base = name;
    for (int k = 2; !take(p, name); k++) name = arena_printf(p->arena, "%s_%d", base, k);
    p->names[v->id] = name;
}

static void name_region(Printer *p, const Region *r, bool named) {
    for (int i = 0; i < r->params.n; i++) name_value(p, r->params.data[i], named);
    for (int i = 0; i < r->nodes.n; i++) {
        const Node *n = r->nodes.data[i];
        for (int k = 0; k < n->nout; k++) name_value(p, n->out[k], named);
        for (int k = 0; k < n->regions.n; k++) name_region(p, n->regions.data[k], named);
    }
}

static void print_value(Printer *p, const Value *v) {
    str_printf(p->s, "%%%s", p->names[v->id] ? p->names[v->id] : "undefined");
}

static void print_values(Printer *p, Value *const *v, int n) {
    for (int i = 0; i < n; i++) {
        str_add(p->s, i ? ", " : " ");
        print_value(p, v[i]);
    }
}

// ---- pieces ----

static void print_quoted(Str *s, const char *text, size_t n) {
    str_add(s, "\"");
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            str_printf(s, "\\%c", c);
        else if (c < 32 || c == 127)
            str_printf(s, "\\x%02x", c);
        else
            str_addn(s, text + i, 1);
    }
    str_add(s, "\"");
}

static void print_label(Str *s, const char *text) {
    print_quoted(s, text, strlen(text));
}

static void print_word(Str *s, const char *text) {
    bool word = *text != 0;
    for (const char *c = text; *c; c++) word = word && (isalnum((unsigned char)*c) || *c == '_');
    if (word)
        str_add(s, text);
    else
        print_label(s, text);
}

static void print_scalar(Str *s, Scalar v) {
    switch (dtype_info(v.type)->cls) {
    case 'F':
        if (v.type == DT_f32)
            str_add_f32(s, (float)v.f);
        else
            str_add_f64(s, v.f);
        break;
    case 'B': str_add(s, v.i ? "true" : "false"); break;
    case 'U': str_printf(s, "%" PRIu64, v.u); break;
    default: str_printf(s, "%" PRId64, v.i);
    }
}

static void print_element(Str *s, DType t, const void *at) {
    if (t == DT_str) {
        StringElement e;
        memcpy(&e, at, sizeof e);
        print_quoted(s, e.text, e.size);
    } else if (t == DT_c64 || t == DT_c128) {
        DType part = t == DT_c64 ? DT_f32 : DT_f64;
        print_scalar(s, scalar_read(part, at));
        str_add(s, " ");
        print_scalar(s, scalar_read(part, (const char *)at + dtype_bytes(part)));
    } else
        print_scalar(s, scalar_read(t, at));
}

static void print_const(Printer *p, const Value *v, const Data *data) {
    size_t size = (size_t)dtype_bytes(v->type);
    if (graph_const_is_splat(v, data)) {
        str_add(p->s, " splat ");
        print_element(p->s, v->type, data->bytes);
        return;
    }
    if (graph_const_is_blob(v, data)) {
        str_printf(p->s, " data %d", p->blobs++);
        return;
    }
    str_add(p->s, " {");
    int64_t count = graph_const_count(v);
    for (int64_t i = 0; i < count && (size_t)(i + 1) * size <= data->size; i++) {
        if (i) str_add(p->s, ", ");
        print_element(p->s, v->type, (const char *)data->bytes + (size_t)i * size);
    }
    str_add(p->s, "}");
}

static void print_dims(Str *s, const Dim *const *d, int n) {
    for (int i = 0; i < n; i++) {
        if (i) str_add(s, ", ");
        dim_print(s, d[i]);
    }
}

static void print_type(Printer *p, const Value *v) {
    str_printf(p->s, "%s[", dtype_name(v->type));
    print_dims(p->s, (const Dim *const *)v->shape, v->rank);
    str_add(p->s, "]");
}

static const char *const store_names[] = {"auto", "buffer", "inline", "input", "output", "const", "state"};

const char *graph_store_name(int kind) {
    return kind >= 0 && kind <= STORE_STATE ? store_names[kind] : NULL;
}

static void print_storage(Printer *p, const Storage *t) {
    if (t->kind == STORE_AUTO && !t->root && !t->offset && !t->region && !t->align) return;
    str_printf(p->s, " store(%s", store_names[t->kind]);
    if (t->root) {
        str_add(p->s, " root ");
        print_value(p, t->root);
    }
    if (t->offset) {
        str_add(p->s, " offset ");
        dim_print(p->s, t->offset);
    }
    if (t->region) {
        str_add(p->s, " region ");
        print_word(p->s, t->region);
    }
    if (t->align) str_printf(p->s, " align %d", t->align);
    str_add(p->s, ")");
}

static void print_typed(Printer *p, const Value *v) {
    print_type(p, v);
    if (v->label) {
        str_add(p->s, " ");
        print_label(p->s, v->label);
    }
    print_storage(p, &v->storage);
}

static void print_list(Str *s, const GField *f, const Node *n) {
    str_printf(s, " %s(", f->name);
    if (f->kind == FK_ints) {
        const IntList *l = FIELD_IN(IntList, n, f);
        for (int i = 0; i < l->n; i++) str_printf(s, "%s%" PRId64, i ? ", " : "", l->data[i]);
    } else if (f->kind == FK_params) {
        const F64List *l = FIELD_IN(F64List, n, f);
        for (int i = 0; i < l->n; i++) {
            if (i) str_add(s, ", ");
            str_add_f64(s, l->data[i]);
        }
    } else {
        const DimList *l = FIELD_IN(DimList, n, f);
        print_dims(s, (const Dim *const *)l->data, l->n);
    }
    str_add(s, ")");
}

static void print_region(Printer *p, const Region *r, int depth);

static void print_regions(Printer *p, const Node *n, int depth) {
    for (int i = 0; i < n->regions.n; i++) {
        str_add(p->s, i ? " else {\n" : " {\n");
        print_region(p, n->regions.data[i], depth + 1);
        str_indent(p->s, depth);
        str_add(p->s, "}");
    }
}

static void print_field(Printer *p, const Node *n, const GField *f, int depth) {
    Str *s = p->s;
    switch (f->kind) {
    case FK_int:
        if (*FIELD_IN(int64_t, n, f)) str_printf(s, " %s %" PRId64, f->name, *FIELD_IN(int64_t, n, f));
        break;
    case FK_f64:
        if (*FIELD_IN(double, n, f) != 0) {
            str_printf(s, " %s ", f->name);
            str_add_f64(s, *FIELD_IN(double, n, f));
        }
        break;
    case FK_text:
        if (*FIELD_IN(const char *, n, f)) {
            str_printf(s, " %s ", f->name);
            print_word(s, *FIELD_IN(const char *, n, f));
        }
        break;
    case FK_ints:
    case FK_params:
    case FK_dims:
        if (FIELD_IN(DimList, n, f)->n) print_list(s, f, n); // the three lists have one layout
        break;
    case FK_expr:
        if (*FIELD_IN(const Expr *, n, f)) {
            str_printf(s, " %s(", f->name);
            expr_print(s, *FIELD_IN(const Expr *, n, f));
            str_add(s, ")");
        }
        break;
    case FK_scalar:
        if (n->guard.n) {
            str_printf(s, " %s ", f->name);
            print_scalar(s, *FIELD_IN(Scalar, n, f));
        }
        break;
    case FK_code:
        if (status_name(*FIELD_IN(StatusCode, n, f))) str_printf(s, " %s %s", f->name, status_name(*FIELD_IN(StatusCode, n, f)));
        break;
    case FK_regions: print_regions(p, n, depth); break;
    case FK_data: break;
    }
}

static void print_origin(Printer *p, const Node *n) {
    if (n->label) {
        str_add(p->s, " @");
        print_label(p->s, n->label);
    }
    if (n->onnx) str_printf(p->s, " (%s)", n->onnx);
    if (n->onnx_id) str_printf(p->s, " #%d", n->onnx_id);
    if (n->group) str_printf(p->s, " group %d", n->group);
    str_add(p->s, "\n");
}

static void print_node(Printer *p, const Node *n, int depth) {
    Str *s = p->s;
    str_indent(s, depth);
    for (int i = 0; i < n->nout; i++) {
        if (i) str_add(s, ", ");
        print_value(p, n->out[i]);
    }
    str_printf(s, "%s%s", n->nout ? " = " : "", gop_info(n->op)->name);
    if (n->op == G_const) {
        str_add(s, " ");
        print_type(p, n->out[0]);
        print_const(p, n->out[0], &n->data);
        if (n->out[0]->label) {
            str_add(s, " ");
            print_label(s, n->out[0]->label);
        }
        print_storage(p, &n->out[0]->storage);
        print_origin(p, n);
        return;
    }
    print_values(p, n->in, n->nin);
    const char *list = gop_info(n->op)->fields;
    const GField *regions = NULL;
    for (const GField *f; (f = next_field(&list));) {
        if (f->kind == FK_regions)
            regions = f; // last, whatever the row's order
        else
            print_field(p, n, f, depth);
    }
    if (regions) print_field(p, n, regions, depth);
    for (int i = 0; i < n->nout; i++) {
        str_add(s, i ? ", " : " : ");
        print_typed(p, n->out[i]);
    }
    print_origin(p, n);
}

static void print_region(Printer *p, const Region *r, int depth) {
    for (int i = 0; i < r->params.n; i++) {
        str_indent(p->s, depth);
        str_add(p->s, "param ");
        print_value(p, r->params.data[i]);
        str_add(p->s, ": ");
        print_typed(p, r->params.data[i]);
        str_add(p->s, "\n");
    }
    for (int i = 0; i < r->nodes.n; i++) print_node(p, r->nodes.data[i], depth);
    str_indent(p->s, depth);
    str_add(p->s, "yield");
    print_values(p, r->yields.data, r->yields.n);
    str_add(p->s, "\n");
}

static void print_symbol(Str *s, const Dim *d) {
    const Sym *sym = dim_as_symbol(d);
    str_add(s, sym->kind == SYM_DATA ? "data dim " : "dim ");
    dim_print(s, d); // quoted when it is no word
    if (sym->lo || sym->hi) {
        str_add(s, " in ");
        if (sym->lo) dim_print(s, sym->lo);
        str_add(s, "..");
        if (sym->hi) dim_print(s, sym->hi);
    }
    str_add(s, "\n");
}

void graph_print(Str *s, const Graph *g) {
    Printer p = {.s = s, .arena = arena_new()};
    p.names = ARENA_ARRAY(p.arena, const char *, g->nvalues + 1);
    for (p.taken.cap = 64; p.taken.cap < 2 * g->nvalues;) p.taken.cap *= 2;
    p.taken.data = ARENA_ARRAY(p.arena, const char *, p.taken.cap);
    name_region(&p, g->body, true);
    name_region(&p, g->body, false);
    str_add(s, "graph ");
    print_word(s, g->name);
    str_add(s, "\n");
    for (int i = 0; i + 1 < g->metadata.n; i += 2) {
        str_add(s, "metadata ");
        print_label(s, g->metadata.data[i]);
        str_add(s, " ");
        print_label(s, g->metadata.data[i + 1]);
        str_add(s, "\n");
    }
    for (int i = 0; i < g->symbols.n; i++) print_symbol(s, g->symbols.data[i]);
    for (int i = 0; i < g->body->params.n; i++) {
        str_add(s, "input ");
        print_value(&p, g->body->params.data[i]);
        str_add(s, ": ");
        print_typed(&p, g->body->params.data[i]);
        str_add(s, "\n");
    }
    for (int i = 0; i < g->body->nodes.n; i++) print_node(&p, g->body->nodes.data[i], 0);
    for (int i = 0; i < g->body->yields.n; i++) {
        str_add(s, "output ");
        print_value(&p, g->body->yields.data[i]);
        if (i < g->output_names.n && g->output_names.data[i]) {
            str_add(s, " ");
            print_label(s, g->output_names.data[i]);
        }
        str_add(s, "\n");
    }
    for (int i = 0; i < g->states.n; i++) {
        str_add(s, "tie ");
        print_value(&p, g->states.data[i].in);
        str_add(s, " ");
        print_value(&p, g->states.data[i].out);
        str_add(s, "\n");
    }
    arena_free(p.arena);
}
