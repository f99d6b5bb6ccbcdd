// The model's inputs and their dimensions; ties of state.
//
// A dimension is a number, a symbol that all inputs with its name share, or (unnamed) a symbol of its own, called "input:axis". --dim and
// --shape fix and bound them before any is made: a fixed one is a number everywhere. A symbol is at least 1 unless --dim says otherwise.
// Its name in the Graph is a word ("x:0" is x_0); options may use either form.
#include "importer.h"
#include <assert.h>
#include <ctype.h>
#include <string.h>

typedef struct {
    const char *name;   // as the model or "input:axis" says
    const char *symbol; // as a word
    int64_t lo, hi;
    bool fixed_by_shape;
    const Dim *dim; // once made
} Dimension;

typedef struct {
    Importer *imp;
    Scope *scope;
    VEC(Dimension) dims;
} Inputs;

// ---- names ----

static bool reserved(const char *s) {
    static const char *const words[] = {"floordiv", "mod", "min", "max", "ceildiv", "dim", "index", "in", "nan", "inf", "true", "false"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(s, words[i]) == 0) return true;
    // d0, v0, a0 …: axes, index inputs and arguments in the text of the Graph
    return strchr("dva", s[0]) && s[1] && strspn(s + 1, "0123456789") == strlen(s + 1);
}

static const char *symbol_name(Arena *a, const char *name) {
    char *s = arena_printf(a, "%s%.60s", isdigit((unsigned char)*name) ? "x" : "", name);
    for (char *p = s; *p; p++)
        if (!isalnum((unsigned char)*p)) *p = '_';
    return reserved(s) ? arena_printf(a, "%s_", s) : s;
}

static Dimension *find_dimension(Inputs *in, const char *name) {
    for (int i = 0; i < in->dims.n; i++)
        if (strcmp(in->dims.data[i].name, name) == 0) return &in->dims.data[i];
    return NULL;
}

static Dimension *add_dimension(Inputs *in, const char *name) {
    Dimension *d = find_dimension(in, name);
    if (d) return d;
    Arena *a = in->imp->graph->arena;
    Dimension fresh = {.name = arena_strdup(a, name), .symbol = symbol_name(a, name), .lo = 1, .hi = DIM_INF};
    vec_push(a, &in->dims, fresh);
    return &in->dims.data[in->dims.n - 1];
}

// ---- the model's side ----

typedef Onnx__TensorShapeProto__Dimension DimProto;

static const Onnx__TypeProto__Tensor *tensor_type(const Onnx__ValueInfoProto *v) {
    const Onnx__TypeProto *t = v->type;
    return t && t->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ? t->tensor_type : NULL;
}

static const Onnx__TensorShapeProto *shape_of(const Onnx__ValueInfoProto *v) {
    const Onnx__TypeProto__Tensor *t = tensor_type(v);
    return t ? t->shape : NULL;
}

// Old writers say -1 for a dimension that they do not know.
static bool is_number(const DimProto *d) {
    return d && d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE && d->dim_value != -1;
}

// Writers say "", "_" or "?" for a dimension without a name: without a letter or digit it is not one that inputs share.
static bool names_dimension(const char *s) {
    while (*s && (unsigned char)*s < 0x80 && !isalnum((unsigned char)*s)) s++;
    return *s != 0;
}

static Dimension *symbolic(Inputs *in, const Onnx__ValueInfoProto *v, size_t axis, const DimProto *d) {
    bool param = d && d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM && d->dim_param;
    bool named = param && names_dimension(d->dim_param);
    return add_dimension(in, named ? d->dim_param : arena_printf(in->imp->graph->arena, "%s:%zu", v->name, axis));
}

static const ShapeOption *shape_option(const Importer *imp, const char *input) {
    for (int i = 0; i < imp->options->nshapes; i++)
        if (strcmp(imp->options->shapes[i].input, input) == 0) return &imp->options->shapes[i];
    return NULL;
}

// An input that a caller gives: not one with an initialiser.
static bool is_input(const Inputs *in, const Onnx__ValueInfoProto *v) {
    return v->name && *v->name && !scope_find(in->scope, v->name);
}

// ---- options ----

static bool apply_shape_axis(Inputs *in, const Onnx__ValueInfoProto *v, const ShapeOption *o, size_t axis, const DimProto *d) {
    int64_t want = o->dims[axis];
    if (want < 0) {
        if (!is_number(d)) symbolic(in, v, axis, d);
        return true;
    }
    if (is_number(d)) {
        if (d->dim_value == want) return true;
        return importer_fault(in->imp, EXIT_USAGE, "--shape %s: axis %zu is %lld in the model, not %lld", o->input, axis,
            (long long)d->dim_value, (long long)want);
    }
    Dimension *dim = symbolic(in, v, axis, d);
    if (dim->fixed_by_shape && dim->lo != want)
        return importer_fault(in->imp, EXIT_USAGE, "--shape gives dimension '%s' the sizes %lld and %lld", short_name(in->imp, dim->name),
            (long long)dim->lo, (long long)want);
    dim->lo = dim->hi = want;
    dim->fixed_by_shape = true;
    return true;
}

static bool apply_shape(Inputs *in, const ShapeOption *o) {
    const Onnx__GraphProto *g = in->imp->model->proto->graph;
    for (size_t i = 0; i < g->n_input; i++) {
        const Onnx__ValueInfoProto *v = g->input[i];
        if (!is_input(in, v) || strcmp(v->name, o->input) != 0) continue;
        const Onnx__TensorShapeProto *s = shape_of(v);
        if (s && s->n_dim != (size_t)o->rank)
            return importer_fault(
                in->imp, EXIT_USAGE, "--shape %s: has rank %d, the model's input has rank %zu", o->input, o->rank, s->n_dim);
        bool ok = true;
        for (size_t k = 0; k < (size_t)o->rank; k++) ok &= apply_shape_axis(in, v, o, k, s ? s->dim[k] : NULL);
        return ok;
    }
    return importer_fault(in->imp, EXIT_USAGE, "--shape %s: the model has no input of that name", o->input);
}

static const char *dimension_names(Inputs *in) {
    Str s = {0};
    for (int i = 0; i < in->dims.n; i++) str_printf(&s, "%s'%s'", i ? ", " : "", short_name(in->imp, in->dims.data[i].name));
    const char *text = s.n ? arena_strndup(in->imp->graph->arena, s.data, s.n) : "none";
    str_free(&s);
    return text;
}

static bool apply_dim(Inputs *in, const DimOption *o) {
    Dimension *d = find_dimension(in, o->name);
    for (int i = 0; i < in->dims.n && !d; i++)
        if (strcmp(in->dims.data[i].symbol, o->name) == 0) d = &in->dims.data[i];
    if (!d)
        return importer_fault(in->imp, EXIT_USAGE, "--dim %s: the model's inputs have no such symbolic dimension; there are: %s", o->name,
            dimension_names(in));
    if (o->lo < 0 || o->hi < o->lo)
        return importer_fault(
            in->imp, EXIT_USAGE, "--dim %s: %lld..%lld is not a range of sizes", o->name, (long long)o->lo, (long long)o->hi);
    if (d->fixed_by_shape && (d->lo < o->lo || d->lo > o->hi))
        return importer_fault(in->imp, EXIT_USAGE, "--dim %s and --shape give it different sizes", o->name);
    if (d->fixed_by_shape) return true;
    d->lo = o->lo;
    d->hi = o->hi;
    return true;
}

// Every symbolic dimension of the inputs in order, then the options.
static bool collect_dimensions(Inputs *in) {
    const Onnx__GraphProto *g = in->imp->model->proto->graph;
    const FrontendOptions *o = in->imp->options;
    bool ok = true;
    for (size_t i = 0; i < g->n_input; i++) {
        const Onnx__TensorShapeProto *s = shape_of(g->input[i]);
        for (size_t k = 0; s && is_input(in, g->input[i]) && k < s->n_dim && k < MAX_RANK; k++)
            if (!is_number(s->dim[k])) symbolic(in, g->input[i], k, s->dim[k]);
    }
    for (int i = 0; i < o->nshapes; i++) ok &= apply_shape(in, &o->shapes[i]);
    for (int i = 0; i < o->ndims; i++) ok &= apply_dim(in, &o->dims[i]);
    return ok;
}

// ---- values ----

static const Dim *make_dim(Inputs *in, Dimension *d) {
    Graph *g = in->imp->graph;
    if (d->dim) return d->dim;
    if (d->lo == d->hi) return d->dim = dim_int(g->dims, d->lo);
    const Dim *hi = d->hi == DIM_INF ? NULL : dim_int(g->dims, d->hi);
    return d->dim = graph_symbol(g, d->symbol, SYM_MODEL, dim_int(g->dims, d->lo), hi);
}

static bool input_shape(Inputs *in, const Onnx__ValueInfoProto *v, int *rank, const Dim **shape) {
    const Onnx__TensorShapeProto *s = shape_of(v);
    const ShapeOption *o = shape_option(in->imp, v->name);
    const char *name = short_name(in->imp, v->name);
    if (!s && !o)
        return importer_fault(
            in->imp, EXIT_UNSUPPORTED, "input '%s' has no shape in the model, not even a rank: give it with --shape %s=...", name, name);
    size_t n = s ? s->n_dim : (size_t)o->rank;
    if (n > MAX_RANK) return importer_fault(in->imp, EXIT_MODEL, "input '%s' has rank %zu, the limit is %d", name, n, MAX_RANK);
    *rank = (int)n;
    for (size_t i = 0; i < n; i++) {
        const DimProto *d = s ? s->dim[i] : NULL;
        if (is_number(d) && d->dim_value < 0)
            return importer_fault(in->imp, EXIT_MODEL, "input '%s' has the negative dimension %lld", name, (long long)d->dim_value);
        shape[i] = is_number(d) ? dim_int(in->imp->graph->dims, d->dim_value) : make_dim(in, symbolic(in, v, i, d));
    }
    return true;
}

// The constant extents of a shape multiply to less than 2^44.
static bool fits(const Dim *const *shape, int rank) {
    int64_t count = 1, d;
    for (int i = 0; i < rank; i++) {
        if (!dim_is_int(shape[i], &d) || d == 0) continue;
        if (count > ((int64_t)1 << 44) / d) return false;
        count *= d;
    }
    return true;
}

static bool input_type(Inputs *in, const Onnx__ValueInfoProto *v, DType *type) {
    const Onnx__TypeProto__Tensor *t = tensor_type(v);
    const char *name = short_name(in->imp, v->name);
    if (!v->type || v->type->value_case == ONNX__TYPE_PROTO__VALUE__NOT_SET)
        return importer_fault(in->imp, EXIT_MODEL, "input '%s' has no type", name);
    if (!t)
        return importer_fault(
            in->imp, EXIT_UNSUPPORTED, "input '%s' is a sequence, optional, map or sparse tensor, which are not supported yet", name);
    *type = dtype_from_onnx(t->elem_type);
    if (*type == DT_none) return importer_fault(in->imp, EXIT_MODEL, "input '%s' has unknown element type %d", name, t->elem_type);
    return true;
}

static bool import_input(Inputs *in, const Onnx__ValueInfoProto *v) {
    Importer *imp = in->imp;
    if (!v->name || !*v->name) return importer_fault(imp, EXIT_MODEL, "an input of the model has no name");
    Binding *b = scope_find(in->scope, v->name);
    if (b && (b->kind == BIND_TENSOR || b->kind == BIND_FAULTY)) return true;
    b = scope_add(imp, in->scope, v->name);
    if (!b) return importer_fault(imp, EXIT_MODEL, "the model has two inputs called '%s'", short_name(imp, v->name));
    b->kind = BIND_FAULTY;
    DType type;
    int rank = 0;
    const Dim *shape[MAX_RANK];
    if (!input_type(in, v, &type) || !input_shape(in, v, &rank, shape)) return false;
    if (!fits(shape, rank)) return importer_fault(imp, EXIT_MODEL, "input '%s' has more than 2^44 elements", short_name(imp, v->name));
    b->kind = BIND_VALUE;
    b->value = graph_param(in->scope->region, v->name, type, rank, shape);
    return true;
}

bool import_inputs(Importer *imp, Scope *s) {
    const Onnx__GraphProto *g = imp->model->proto->graph;
    Inputs in = {.imp = imp, .scope = s};
    bool ok = collect_dimensions(&in);
    for (size_t i = 0; i < g->n_input; i++) ok &= import_input(&in, g->input[i]);
    return ok;
}

// ---- states: extents that a proof leaves open are checked at entry ----

static Value *find_param(const Graph *g, const char *name) {
    for (int i = 0; i < g->body->params.n; i++)
        if (strcmp(g->body->params.data[i]->label, name) == 0) return g->body->params.data[i];
    return NULL;
}

static Value *find_yield(const Graph *g, const char *name) {
    for (int i = 0; i < g->output_names.n; i++)
        if (strcmp(g->output_names.data[i], name) == 0) return g->body->yields.data[i];
    return NULL;
}

static bool import_state(Importer *imp, const StateOption *o) {
    Graph *g = imp->graph;
    Value *in = find_param(g, o->past), *out = find_yield(g, o->present);
    if (!in) return importer_fault(imp, EXIT_USAGE, "--state %s=%s: the model has no input '%s'", o->past, o->present, o->past);
    if (!out) return importer_fault(imp, EXIT_USAGE, "--state %s=%s: the model has no output '%s'", o->past, o->present, o->present);
    bool same = in->type == out->type && in->rank == out->rank;
    for (int i = 0; same && i < in->rank; i++) same = dim_eq(g->dims, in->shape[i], out->shape[i]) != NO;
    ImportNode text = {.arena = g->arena};
    if (!same)
        return importer_fault(imp, EXIT_USAGE, "--state %s=%s: the input is %s, the output %s; they must agree", o->past, o->present,
            import_shape_text(&text, in), import_shape_text(&text, out));
    for (int i = 0; i < g->states.n; i++)
        if (g->states.data[i].in == in || g->states.data[i].out == out)
            return importer_fault(imp, EXIT_USAGE, "--state %s=%s: one of them is tied already", o->past, o->present);
    Builder b = {.g = g, .region = g->body};
    for (int i = 0; i < in->rank; i++) {
        const Dim *guards[2] = {dim_sub(g->dims, in->shape[i], out->shape[i]), dim_sub(g->dims, out->shape[i], in->shape[i])};
        g_check(&b, NULL, 2, guards, CODE_SHAPE);
    }
    vec_push(g->arena, &g->states, ((StateTie){in, out}));
    return true;
}

bool import_states(Importer *imp) {
    bool ok = true;
    for (int i = 0; i < imp->options->nstates; i++) ok &= import_state(imp, &imp->options->states[i]);
    return ok;
}
