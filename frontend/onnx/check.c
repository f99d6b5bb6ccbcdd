// Faults of a node, and the checks that import functions share.
#include "importer.h"
#include <stdlib.h>
#include <string.h>

// ---- faults ----

bool importer_vfault(Importer *imp, ExitCode code, const char *prefix, const char *fmt, va_list ap) {
    if (imp->decided_at_fault < 0) imp->decided_at_fault = imp->decided;
    if (imp->stopped) return false;
    Str s = {0};
    str_vprintf(&s, fmt, ap);
    diag_error(imp->diag, code, "%s%s", prefix, s.data ? s.data : "");
    str_free(&s);
    if (imp->fail_fast) imp->stopped = true;
    if (imp->diag->errors >= MAX_FAULTS && !imp->stopped) {
        imp->stopped = true;
        diag_error(imp->diag, code, "too many faults, the rest is not shown");
    }
    return false;
}

bool importer_fault(Importer *imp, ExitCode code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    importer_vfault(imp, code, "", fmt, ap);
    va_end(ap);
    return false;
}

const char *short_name(Importer *imp, const char *name) {
    if (!name) return "";
    if (strlen(name) <= 100) return name;
    return arena_printf(imp->graph->arena, "%.60s...%s", name, name + strlen(name) - 30);
}

static bool node_fault(const ImportNode *n, ExitCode code, const char *fmt, va_list ap) {
    Importer *imp = n->importer;
    const char *prefix = arena_printf(n->arena, "node '%s' (%s): ", short_name(imp, n->b.label), short_name(imp, n->b.onnx));
    return importer_vfault(imp, code, prefix, fmt, ap);
}

bool import_fail(const ImportNode *n, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    node_fault(n, EXIT_MODEL, fmt, ap);
    va_end(ap);
    return false;
}

bool import_unsupported(const ImportNode *n, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    node_fault(n, EXIT_UNSUPPORTED, fmt, ap);
    va_end(ap);
    return false;
}

// ---- axes ----

bool import_axis(const ImportNode *n, int64_t axis, int rank, int *out) {
    if (axis < -(int64_t)rank || axis >= rank) return import_fail(n, "axis %lld lies outside of rank %d", (long long)axis, rank);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return true;
}

bool import_axes(const ImportNode *n, IntList axes, int rank, int64_t *out) {
    if (axes.n > rank) return import_fail(n, "names %d axes of rank %d", axes.n, rank);
    for (int i = 0; i < axes.n; i++) {
        int axis;
        if (!import_axis(n, axes.data[i], rank, &axis)) return false;
        for (int k = 0; k < i; k++)
            if (out[k] == axis) return import_fail(n, "names axis %d twice", axis);
        out[i] = axis;
    }
    return true;
}

bool import_broadcast(const ImportNode *n, int nvalues, Value *const *v) {
    for (int i = 1; i < nvalues; i++)
        for (int k = 0; k < i; k++)
            for (int a = 1; v[i] && v[k] && a <= v[i]->rank && a <= v[k]->rank; a++) {
                const Dim *x = v[k]->shape[v[k]->rank - a], *y = v[i]->shape[v[i]->rank - a];
                if (dim_eq(n->dims, x, y) != NO || dim_is(x, 1) || dim_is(y, 1) || !dim_is_int(x, NULL) || !dim_is_int(y, NULL)) continue;
                return import_fail(n, "%s and %s do not broadcast", import_shape_text(n, v[k]), import_shape_text(n, v[i]));
            }
    return true;
}

bool import_rank(const ImportNode *n, int input, int rank) {
    const Value *v = input < n->nin ? n->in[input] : NULL;
    return !v || v->rank == rank || import_fail(n, "input %d is %s, rank %d is needed", input, import_shape_text(n, v), rank);
}

bool import_value_is(ImportNode *n, const char *what, const Value *v, int rank, const Dim *const *shape) {
    if (v->rank != rank) return import_fail(n, "%s is %s, rank %d is needed", what, import_shape_text(n, v), rank);
    for (int i = 0; i < rank; i++) {
        Tri same = dim_eq(n->dims, v->shape[i], shape[i]);
        if (same == NO)
            return import_fail(
                n, "%s is %s, at axis %d the extent %s is needed", what, import_shape_text(n, v), i, dim_text(n->dims, shape[i]));
        if (same == YES) continue;
        const Dim *guards[] = {dim_sub(n->dims, v->shape[i], shape[i]), dim_sub(n->dims, shape[i], v->shape[i])};
        g_check(&n->b, NULL, 2, guards, CODE_SHAPE);
    }
    return true;
}

bool import_shape_is(ImportNode *n, int input, int rank, const Dim *const *shape) {
    const Value *v = input < n->nin ? n->in[input] : NULL;
    return !v || import_value_is(n, arena_printf(n->arena, "input %d", input), v, rank, shape);
}

bool import_word(const ImportNode *n, const char *attribute, const char *const *words) {
    const char *value = attr_string(n, attribute);
    Str s = {0};
    for (int i = 0; words[i]; i++) {
        if (strcmp(words[i], value) == 0) {
            str_free(&s);
            return true;
        }
        str_printf(&s, "%s%s", i ? ", " : "", words[i]);
    }
    import_fail(n, "attribute '%s' is '%s', expected one of %s", attribute, short_name(n->importer, value), s.data);
    str_free(&s);
    return false;
}

// ---- contents ----

enum { MAX_CONSTANT = 1 << 20, MAX_CONSTANT_DEPTH = 16 };

static const char *input_name(const ImportNode *n, const Value *v) {
    return v->label ? short_name(n->importer, v->label) : "?";
}

bool import_content(const ImportNode *n, int input, const Dim *const **elems, int *count) {
    const Value *v = n->in[input];
    if (v->rank > 1) return import_fail(n, "input %d has type %s, expected a list of numbers", input, import_shape_text(n, v));
    if (!v->content && v->rank == 1 && dim_is(v->shape[0], 0)) {
        *elems = NULL;
        *count = 0;
        return true;
    }
    if (!v->content)
        return import_unsupported(n, "the elements of input %d, '%s', are computed from data; mlc needs them as constants or as sizes here",
            input, input_name(n, v));
    *elems = v->content;
    *count = v->ncontent;
    return true;
}

bool import_sizes(ImportNode *n, int input, const Dim *const **elems, int *count) {
    Value *v = n->in[input];
    int64_t length;
    if (v->content || v->rank != 1 || !dtype_is_int(v->type) || !dim_is_int(v->shape[0], &length))
        return import_content(n, input, elems, count);
    if (length > GRAPH_MAX_RANK)
        return import_fail(n, "input %d has %lld elements, expected at most %d", input, (long long)length, GRAPH_MAX_RANK);
    const Dim **sizes = ARENA_ARRAY(n->arena, const Dim *, length + 1);
    for (int i = 0; i < length; i++) sizes[i] = g_size(&n->b, v, i, "size", dim_int(n->dims, 0), NULL);
    *elems = sizes;
    *count = (int)length;
    return true;
}

bool import_const_ints(const ImportNode *n, int input, int64_t *out, int max, int *count) {
    const Dim *const *elems;
    if (!import_content(n, input, &elems, count)) return false;
    if (*count > max) return import_fail(n, "input %d has %d elements, expected at most %d", input, *count, max);
    for (int i = 0; i < *count; i++)
        if (!dim_is_int(elems[i], &out[i]))
            return import_unsupported(n, "element %d of input %d, '%s', is %s; mlc needs a constant here", i, input,
                input_name(n, n->in[input]), dim_text(n->dims, elems[i]));
    return true;
}

static bool fixed_extents(const ImportNode *n, const Value *v, Tensor *t) {
    int64_t count = 1;
    *t = (Tensor){.type = v->type, .rank = v->rank, .shape = ARENA_ARRAY(n->arena, int64_t, v->rank + 1)};
    for (int i = 0; i < v->rank; i++) {
        if (!dim_is_int(v->shape[i], &t->shape[i]) || t->shape[i] < 0 || t->shape[i] > MAX_CONSTANT) return false;
        count *= t->shape[i];
        if (count > MAX_CONSTANT) return false;
    }
    return true;
}

static bool constant_at(const ImportNode *n, const Value *v, Tensor *t, int depth) {
    if (!fixed_extents(n, v, t) || !v->def || v->type == DT_str || depth == MAX_CONSTANT_DEPTH) return false;
    const Node *def = v->def;
    if (def->op == G_const) {
        t->data = (void *)(uintptr_t)def->data.bytes;
        t->bytes = def->data.size;
        return true;
    }
    if (v->content) {
        *t = tensor_new(n->arena, v->type, t->rank, t->shape);
        for (int i = 0; i < v->ncontent; i++) {
            int64_t e;
            if (!dim_is_int(v->content[i], &e)) return false;
            scalar_write(scalar_int(v->type, e), (char *)t->data + (size_t)i * (size_t)dtype_bytes(v->type));
        }
        return true;
    }
    if (def->nout != 1 || def->nin == 0 || def->regions.n) return false;
    Tensor *in = ARENA_ARRAY(n->arena, Tensor, def->nin);
    for (int i = 0; i < def->nin; i++)
        if (!constant_at(n, def->in[i], &in[i], depth + 1)) return false;
    return graph_eval_node(def, in, t, n->arena);
}

bool import_known_tensor(const ImportNode *n, const Value *v, Tensor *t) {
    return constant_at(n, v, t, 0);
}

const Dim *import_extent(ImportNode *n, int input, int64_t lo) {
    Value *v = n->in[input];
    const Dim *least = dim_int(n->dims, lo), *size;
    if (!dtype_is_int(v->type) || v->rank > 1 || dim_eq(n->dims, value_size(n->b.g, v), dim_int(n->dims, 1)) == NO) {
        import_fail(n, "input %d is %s, one integer is needed", input, import_shape_text(n, v));
        return NULL;
    }
    size = g_size(&n->b, v->content || v->rank == 0 ? v : g_reshape(&n->b, v, 0, NULL), 0, "size", least, NULL);
    Tri enough = dim_le(n->dims, least, size);
    if (enough == NO) {
        import_fail(n, "input %d is %s, at least %lld is needed", input, dim_text(n->dims, size), (long long)lo);
        return NULL;
    }
    const Dim *guard = dim_sub(n->dims, size, least);
    if (enough == UNKNOWN) g_check(&n->b, NULL, 1, &guard, CODE_SHAPE);
    return size;
}

enum { MAX_SETTLED = 1 << 16 };

Value *import_settled(ImportNode *n, Value *v) {
    Tensor t, *in;
    if (!v->def || v->def->op == G_const || !fixed_extents(n, v, &t) || tensor_count(&t) > MAX_SETTLED) return v;
    in = ARENA_ARRAY(n->arena, Tensor, v->def->nin + 1);
    for (int i = 0; i < v->def->nin; i++)
        if (!constant_at(n, v->def->in[i], &in[i], 0)) return v;
    if (!graph_eval_node(v->def, in, &t, n->arena)) return v;
    return g_const(&n->b, v->type, v->rank, (const Dim *const *)v->shape, (Data){t.data, t.bytes});
}

const char *import_shape_text(const ImportNode *n, const Value *v) {
    Str s = {0};
    str_printf(&s, "%s[", dtype_name(v->type));
    for (int i = 0; i < v->rank; i++) {
        if (i) str_add(&s, ", ");
        dim_print(&s, v->shape[i]);
    }
    str_add(&s, "]");
    const char *text = arena_strndup(n->arena, s.data, s.n);
    str_free(&s);
    return text;
}

// ---- decisions ----

int import_decide(ImportNode *n, int nchoices) {
    Importer *imp = n->importer;
    if (nchoices < 2 || imp->decided == MAX_DECISIONS) return 0;
    int k = imp->decided++;
    if (k == imp->nchosen) imp->choice[imp->nchosen++] = 0;
    return imp->choice[k];
}
