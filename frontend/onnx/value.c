// Values without computation: Constant and Identity.
#include "import.h"
#include <string.h>

bool import_identity(ImportNode *n) {
    n->out[0] = n->in[0];
    return true;
}

static Value *string_const(ImportNode *n, int rank, int count, const char *const *text) {
    StringElement *e = ARENA_ARRAY(n->arena, StringElement, count + 1);
    for (int i = 0; i < count; i++) e[i] = (StringElement){text[i], strlen(text[i])};
    const Dim *shape[1] = {dim_int(n->dims, count)};
    return g_const(&n->b, DT_str, rank, shape, (Data){e, sizeof *e * (size_t)count});
}

static Value *floats_const(ImportNode *n) {
    F64List list = attr_floats(n, "value_floats");
    float *v = ARENA_ARRAY(n->arena, float, list.n + 1);
    for (int i = 0; i < list.n; i++) v[i] = (float)list.data[i];
    const Dim *shape[1] = {dim_int(n->dims, list.n)};
    return g_const(&n->b, DT_f32, 1, shape, (Data){v, sizeof *v * (size_t)list.n});
}

static Value *text_const(ImportNode *n, bool list) {
    const char *one = list ? NULL : attr_string(n, "value_string");
    const char *const *text = &one;
    int count = list ? attr_strings(n, "value_strings", &text) : 1;
    return string_const(n, list, count, text);
}

static Value *const_of(ImportNode *n, const char *attr) {
    if (strcmp(attr, "value_int") == 0) {
        int64_t v = attr_int(n, attr);
        return g_const_ints(&n->b, DT_i64, -1, &v);
    }
    if (strcmp(attr, "value_ints") == 0) {
        IntList v = attr_ints(n, attr);
        return g_const_ints(&n->b, DT_i64, v.n, v.data);
    }
    if (strcmp(attr, "value_float") == 0) return g_const_float(&n->b, DT_f32, attr_float(n, attr));
    if (strcmp(attr, "value_floats") == 0) return floats_const(n);
    if (strncmp(attr, "value_string", 12) == 0) return text_const(n, attr[12] == 's');
    return attr_tensor(n, attr);
}

bool import_constant(ImportNode *n) {
    static const char *const forms[] = {
        "value", "sparse_value", "value_float", "value_floats", "value_int", "value_ints", "value_string", "value_strings"};
    const char *form = NULL;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (!attr_has(n, forms[i])) continue;
        if (form) return import_fail(n, "has both '%s' and '%s', expected one", form, forms[i]);
        form = forms[i];
    }
    if (!form) return import_fail(n, "has no value");
    return (n->out[0] = const_of(n, form)) != NULL;
}
