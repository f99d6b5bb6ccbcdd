// Attributes of a node: references to a function's attributes, the check against the row's text, defaults; and the node's faults.
#include "importer.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

// ---- kinds ----

static const struct {
    const char *kind;
    Onnx__AttributeProto__AttributeType type;
    const char *text;
} kinds[] = {
    {"i", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT, "an integer"},
    {"f", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT, "a float"},
    {"s", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING, "a string"},
    {"t", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR, "a tensor"},
    {"g", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH, "a graph"},
    {"is", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS, "integers"},
    {"fs", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS, "floats"},
    {"ss", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS, "strings"},
    {"ts", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSORS, "tensors"},
    {"gs", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPHS, "graphs"},
    {"st", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__SPARSE_TENSOR, "a sparse tensor"},
    {"tp", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TYPE_PROTO, "a type"},
};
enum { NKINDS = sizeof kinds / sizeof *kinds };

static int kind_of_type(Onnx__AttributeProto__AttributeType t) {
    for (int i = 0; i < NKINDS; i++)
        if (kinds[i].type == t) return i;
    return -1;
}

static int kind_of_text(const char *s, size_t n) {
    for (int i = 0; i < NKINDS; i++)
        if (strlen(kinds[i].kind) == n && memcmp(kinds[i].kind, s, n) == 0) return i;
    return -1;
}

// IR versions 1 and 2 have no type field: then the one field that is set says it.
static Onnx__AttributeProto__AttributeType type_of(const Onnx__AttributeProto *p) {
    if (p->has_type && p->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED) return p->type;
    if (p->has_i) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    if (p->has_f) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
    if (p->has_s) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
    if (p->t) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
    if (p->g) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH;
    if (p->n_ints) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
    if (p->n_floats) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS;
    if (p->n_strings) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS;
    if (p->n_tensors) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSORS;
    return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED;
}

// ---- the row's text ----

typedef struct {
    const char *name, *kind, *deflt; // into the row's text; deflt NULL: none
    size_t nname, nkind, ndeflt;
    bool required;
} AttrSpec;

// The attribute described at *p, which moves on; false at the end.
static bool spec_next(const char **p, AttrSpec *s) {
    const char *t = *p + strspn(*p, " ");
    if (!*t) return false;
    s->name = t;
    s->nname = strcspn(t, ":");
    t += s->nname + 1;
    s->kind = t;
    s->nkind = strcspn(t, "!= ");
    t += s->nkind;
    s->required = *t == '!';
    if (s->required) t++;
    s->deflt = *t == '=' ? t + 1 : NULL;
    s->ndeflt = s->deflt ? strcspn(s->deflt, " ") : 0;
    *p = t + strcspn(t, " ");
    return true;
}

static bool spec_find(const OpRow *row, const char *name, AttrSpec *s) {
    for (const char *p = row->attrs; spec_next(&p, s);)
        if (strlen(name) == s->nname && memcmp(name, s->name, s->nname) == 0) return true;
    return false;
}

// ---- binding and check ----

const BoundAttr *attr_find(const BoundAttr *attrs, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (strcmp(attrs[i].name, name) == 0) return &attrs[i];
    return NULL;
}

bool attrs_bind(ImportNode *n, const Call *call, const Onnx__NodeProto *proto) {
    BoundAttr *attrs = ARENA_ARRAY(n->arena, BoundAttr, proto->n_attribute + 1);
    n->attrs = attrs;
    for (size_t i = 0; i < proto->n_attribute; i++) {
        const Onnx__AttributeProto *p = proto->attribute[i];
        if (!p->name || !*p->name) return import_fail(n, "has an attribute without a name");
        if (attr_find(attrs, n->nattrs, p->name)) return import_fail(n, "has attribute '%.100s' twice", p->name);
        BoundAttr a = {p->name, p};
        if (p->ref_attr_name && *p->ref_attr_name) {
            if (!call->function)
                return import_fail(n, "attribute '%.100s' refers to an attribute of a function, but stands in none", p->name);
            const BoundAttr *outer = attr_find(call->attrs, call->nattrs, p->ref_attr_name);
            if (!outer) continue;
            if (type_of(outer->proto) == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH)
                return import_unsupported(n, "attribute '%.100s' takes a graph from the function's call", p->name);
            a.proto = outer->proto;
        }
        attrs[n->nattrs++] = a;
    }
    return true;
}

// The payload that the type promises is there.
static bool has_payload(const Onnx__AttributeProto *p, int kind) {
    switch (kinds[kind].kind[0]) {
    case 't': return kinds[kind].kind[1] == 'p' ? p->tp != NULL : kinds[kind].kind[1] == 's' || p->t != NULL;
    case 'g': return kinds[kind].kind[1] == 's' || p->g != NULL;
    case 's': return kinds[kind].kind[1] != 't' || p->sparse_tensor != NULL;
    default: return true;
    }
}

static bool check_given(ImportNode *n, const BoundAttr *a) {
    AttrSpec spec;
    if (!spec_find(n->row, a->name, &spec)) return import_fail(n, "attribute '%.100s' does not exist in opset %d", a->name, n->version);
    int want = kind_of_text(spec.kind, spec.nkind), got = kind_of_type(type_of(a->proto));
    assert(want >= 0);
    if (got < 0) return import_fail(n, "attribute '%s' has no value", a->name);
    if (got != want) return import_fail(n, "attribute '%s' is %s, expected %s", a->name, kinds[got].text, kinds[want].text);
    if (!has_payload(a->proto, got)) return import_fail(n, "attribute '%s' has no value", a->name);
    return true;
}

bool attrs_check(ImportNode *n) {
    bool ok = true;
    for (int i = 0; i < n->nattrs; i++) ok &= check_given(n, &n->attrs[i]);
    AttrSpec spec;
    for (const char *p = n->row->attrs; spec_next(&p, &spec);) {
        if (!spec.required) continue;
        const char *name = arena_strndup(n->arena, spec.name, spec.nname);
        if (!attr_find(n->attrs, n->nattrs, name)) ok = import_fail(n, "attribute '%s' is missing", name);
    }
    return ok;
}

// ---- values ----

// The attribute as given, else NULL with the row's default in *deflt (NULL: none).
static const Onnx__AttributeProto *get(const ImportNode *n, const char *name, const char *kind, const char **deflt) {
    AttrSpec spec;
    bool found = spec_find(n->row, name, &spec);
    assert(found && spec.nkind == strlen(kind) && memcmp(spec.kind, kind, spec.nkind) == 0);
    *deflt = found && spec.deflt ? arena_strndup(n->arena, spec.deflt, spec.ndeflt) : NULL;
    const BoundAttr *a = attr_find(n->attrs, n->nattrs, name);
    return a ? a->proto : NULL;
}

bool attr_has(const ImportNode *n, const char *name) {
    return attr_find(n->attrs, n->nattrs, name) != NULL;
}

bool attr_exists(const ImportNode *n, const char *name) {
    AttrSpec spec;
    return spec_find(n->row, name, &spec);
}

int64_t attr_int(const ImportNode *n, const char *name) {
    const char *deflt;
    const Onnx__AttributeProto *p = get(n, name, "i", &deflt);
    return p ? p->i : deflt ? strtoll(deflt, NULL, 10) : 0;
}

double attr_float(const ImportNode *n, const char *name) {
    const char *deflt;
    const Onnx__AttributeProto *p = get(n, name, "f", &deflt);
    return p ? (double)p->f : deflt ? (double)strtof(deflt, NULL) : 0;
}

static const char *text_of(const ImportNode *n, const ProtobufCBinaryData *b) {
    return arena_strndup(n->arena, b->len ? (const char *)b->data : "", b->len);
}

const char *attr_string(const ImportNode *n, const char *name) {
    const char *deflt;
    const Onnx__AttributeProto *p = get(n, name, "s", &deflt);
    return p ? text_of(n, &p->s) : deflt;
}

static int count_items(const char *list) {
    int n = 1;
    for (const char *p = list; *p; p++) n += *p == ',';
    return n;
}

IntList attr_ints(const ImportNode *n, const char *name) {
    const char *deflt;
    const Onnx__AttributeProto *p = get(n, name, "is", &deflt);
    if (p) return (IntList){p->ints, (int)p->n_ints};
    if (!deflt) return (IntList){NULL, 0};
    int count = count_items(deflt);
    int64_t *v = ARENA_ARRAY(n->arena, int64_t, count);
    char *end = (char *)(uintptr_t)deflt;
    for (int i = 0; i < count; i++) v[i] = strtoll(end + (i > 0), &end, 10);
    return (IntList){v, count};
}

F64List attr_floats(const ImportNode *n, const char *name) {
    const char *deflt;
    const Onnx__AttributeProto *p = get(n, name, "fs", &deflt);
    int count = p ? (int)p->n_floats : deflt ? count_items(deflt) : 0;
    double *v = ARENA_ARRAY(n->arena, double, count + 1);
    char *end = (char *)(uintptr_t)deflt;
    for (int i = 0; i < count; i++) v[i] = p ? (double)p->floats[i] : (double)strtof(end + (i > 0), &end);
    return (F64List){v, count};
}

int attr_strings(const ImportNode *n, const char *name, const char *const **out) {
    const char *deflt;
    const Onnx__AttributeProto *p = get(n, name, "ss", &deflt);
    int count = p ? (int)p->n_strings : 0;
    const char **v = ARENA_ARRAY(n->arena, const char *, count + 1);
    for (int i = 0; i < count; i++) v[i] = text_of(n, &p->strings[i]);
    *out = v;
    return count;
}

Value *attr_tensor(ImportNode *n, const char *name) {
    const BoundAttr *a = attr_find(n->attrs, n->nattrs, name);
    if (!a) return NULL;
    TensorData t;
    bool sparse = type_of(a->proto) == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__SPARSE_TENSOR;
    const char *fault = sparse ? sparse_read(n->importer->model, n->arena, a->proto->sparse_tensor, &t)
                               : tensor_read(n->importer->model, n->arena, a->proto->t, &t);
    if (fault) return import_fail(n, "the tensor in attribute '%s' %s", name, fault), NULL;
    return tensor_const(&n->b, &t, NULL);
}
