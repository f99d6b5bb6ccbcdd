// Reads the Graph's text (the grammar is in graph.h's head): one pass over the text, line breaks mean nothing, `;` starts a comment.
//
// A node's index, guards and bodies speak of its output's axes (d0, d1 …), so their text is set aside until the type at the line's end is
// known. The first fault ends the reading: what the text means after it is a guess. Storage roots may name values that come later.
#include "graph_fields.h"
#include "graph_parse.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// ---- values by name ----

static Named *slot(Named *names, int cap, const char *name, size_t n) {
    uint64_t mask = (uint64_t)cap - 1, h = hash_bytes(HASH_SEED, name, n) & mask;
    while (names[h].name && (strncmp(names[h].name, name, n) || names[h].name[n])) h = (h + 1) & mask;
    return &names[h];
}

static void bind_name(Parser *ps, const char *name, size_t n, Value *v) {
    if (2 * ps->used >= ps->cap) {
        int cap = ps->cap ? 2 * ps->cap : 256;
        Named *names = ARENA_ARRAY(ps->tmp, Named, cap);
        for (int i = 0; i < ps->cap; i++)
            if (ps->names[i].name) *slot(names, cap, ps->names[i].name, strlen(ps->names[i].name)) = ps->names[i];
        ps->names = names;
        ps->cap = cap;
    }
    Named *s = slot(ps->names, ps->cap, name, n);
    if (s->name) {
        graph_text_fail(ps, "value %%%.*s is defined twice", (int)n, name);
        return;
    }
    s->name = v->name = arena_strndup(ps->g->arena, name, n);
    s->value = v;
    ps->used++;
}

static size_t value_name(Parser *ps, const char **start) {
    if (!graph_text_expect(ps, "%")) return 0;
    *start = ps->p;
    while (isalnum((unsigned char)*ps->p) || (*ps->p && strchr("_./-", *ps->p))) ps->p++;
    if (ps->p == *start) graph_text_fail(ps, "expected a value's name after '%%'");
    return (size_t)(ps->p - *start);
}

static Value *find_value(Parser *ps, const char *name, size_t n) {
    return ps->cap ? slot(ps->names, ps->cap, name, n)->value : NULL;
}

static Value *use_value(Parser *ps) {
    const char *name;
    size_t n = value_name(ps, &name);
    if (n == 0) return NULL;
    Value *v = find_value(ps, name, n);
    return v ? v : graph_text_fail_at(ps, name, "value %%%.*s is not defined before its use", (int)n, name);
}

// ---- dims, types ----

// The number after a letter when the whole name is letter and digits, else -1.
static int numbered(const char *name, size_t n, char letter) {
    if (n < 2 || n > 4 || name[0] != letter) return -1;
    int k = 0;
    for (size_t i = 1; i < n; i++) {
        if (!isdigit((unsigned char)name[i])) return -1;
        k = 10 * k + name[i] - '0';
    }
    return k;
}

static const Dim *lookup_dim(void *ctx, const char *name, size_t n) {
    Parser *ps = ctx;
    int k = numbered(name, n, 'd');
    if (ps->axes && k >= 0 && k < ps->naxes) return dim_axis(ps->g->dims, k, ps->axes[k]);
    k = numbered(name, n, 'v');
    if (ps->node && k >= 0 && k < ps->node->nvsyms) return ps->node->vsyms[k];
    for (int i = 0; i < ps->g->symbols.n; i++) {
        const char *s = dim_as_symbol(ps->g->symbols.data[i])->name;
        if (strlen(s) == n && !memcmp(s, name, n)) return ps->g->symbols.data[i];
    }
    return NULL;
}

static const Dim *dim(Parser *ps) {
    graph_text_space(ps);
    const char *start = ps->p;
    const Dim *d = dim_parse(ps->g->dims, &ps->p, lookup_dim, ps);
    if (!d || dim_is_poison(d)) return graph_text_fail_at(ps, d ? start : ps->p, "expected an index expression");
    return d;
}

// Dims up to `close`, which is read too.
static DimList dims_until(Parser *ps, const char *close) {
    VEC(const Dim *) v = {0};
    if (!graph_text_accept(ps, close)) {
        do {
            const Dim *d = dim(ps);
            if (!d) return (DimList){0};
            vec_push(ps->g->arena, &v, d);
        } while (graph_text_accept(ps, ","));
        graph_text_expect(ps, close);
    }
    return (DimList){v.data, v.n};
}

typedef struct {
    DType type;
    DimList shape;
} Typed;

static bool type_of(Parser *ps, Typed *t) {
    const char *w;
    size_t n = graph_text_word(ps, &w);
    t->type = dtype_parse(w, n);
    if (t->type == DT_none) return graph_text_fail_at(ps, w, "'%.*s' is no element type", (int)n, w);
    if (!graph_text_expect(ps, "[")) return false;
    t->shape = dims_until(ps, "]");
    if (t->shape.n > GRAPH_MAX_RANK) graph_text_fail(ps, "rank %d is over the limit of %d", t->shape.n, GRAPH_MAX_RANK);
    return !ps->failed;
}

static void storage(Parser *ps, Value *v) {
    if (!graph_text_accept(ps, "store")) return;
    if (!graph_text_expect(ps, "(")) return;
    const char *w;
    size_t n = graph_text_word(ps, &w);
    int kind = 0;
    while (graph_store_name(kind) && (strlen(graph_store_name(kind)) != n || memcmp(graph_store_name(kind), w, n))) kind++;
    if (!graph_store_name(kind)) {
        graph_text_fail_at(ps, w, "'%.*s' is no kind of storage", (int)n, w);
        return;
    }
    v->storage.kind = (StoreKind)kind;
    if (graph_text_accept(ps, "root")) {
        Rooted r = {.value = v, .at = ps->p};
        r.n = value_name(ps, &r.root);
        vec_push(ps->tmp, &ps->roots, r);
    }
    if (graph_text_accept(ps, "offset")) v->storage.offset = dim(ps);
    if (graph_text_accept(ps, "region")) v->storage.region = graph_text_word_or_quoted(ps);
    if (graph_text_accept(ps, "align")) v->storage.align = (int)graph_text_integer(ps);
    graph_text_expect(ps, ")");
}

// What may follow a type: the ONNX tensor's name and the storage.
static void type_tail(Parser *ps, Value *v) {
    graph_text_space(ps);
    if (*ps->p == '"') v->label = graph_text_quoted(ps, NULL);
    storage(ps, v);
}

// ---- constants ----

static void element(Parser *ps, DType t, char *at) {
    if (t == DT_str) {
        StringElement e = {0};
        e.text = graph_text_quoted(ps, &e.size);
        memcpy(at, &e, sizeof e);
    } else if (t == DT_c64 || t == DT_c128) {
        DType part = t == DT_c64 ? DT_f32 : DT_f64;
        scalar_write(graph_text_literal(ps, part), at);
        scalar_write(graph_text_literal(ps, part), at + dtype_bytes(part));
    } else
        scalar_write(graph_text_literal(ps, t), at);
}

static Data constant(Parser *ps, const Value *v) {
    size_t size = (size_t)dtype_bytes(v->type);
    int64_t count = graph_const_count(v);
    Data data = {0};
    if (count < 0 || count > ((int64_t)1 << 40)) return graph_text_fail(ps, "a constant needs a constant shape"), data;
    if (graph_text_accept(ps, "data")) {
        int k = (int)graph_text_integer(ps);
        if (!ps->blob || !ps->blob(ps->ctx, k, &data))
            graph_text_fail(ps, "there is no side data %d", k);
        else if (data.size != size * (size_t)count)
            graph_text_fail(ps, "side data %d has %zu bytes, the type needs %zu", k, data.size, size * (size_t)count);
        return data;
    }
    bool splat = graph_text_accept(ps, "splat");
    if (!splat && !graph_text_expect(ps, "{")) return data;
    char *bytes = arena_alloc(ps->g->arena, size * (size_t)count + 1);
    for (int64_t i = 0; i < (splat ? 1 : count) && !ps->failed; i++) {
        if (i && !graph_text_expect(ps, ",")) return data;
        element(ps, v->type, bytes + (size_t)i * size);
    }
    for (int64_t i = 1; splat && i < count; i++) memcpy(bytes + (size_t)i * size, bytes, size);
    if (!splat) graph_text_expect(ps, "}");
    data.bytes = bytes;
    data.size = size * (size_t)count;
    return data;
}

// ---- fields ----

typedef struct {
    const GField *field;
    const char *at;
} Pending;
typedef struct {
    Pending data[8];
    int n;
} PendingList;

// Skips a parenthesised text, whose symbols may be quoted.
static void skip_group(Parser *ps) {
    const char *open = ps->p;
    int depth = 1;
    bool quote = false;
    for (; *ps->p && depth; ps->p++) {
        if (quote && *ps->p == '\\' && ps->p[1])
            ps->p++;
        else if (*ps->p == '"')
            quote = !quote;
        else if (!quote)
            depth += (*ps->p == '(') - (*ps->p == ')');
    }
    if (depth) graph_text_fail_at(ps, open, "'(' is not closed");
}

static void list_field(Parser *ps, Node *n, const GField *f) {
    if (!graph_text_expect(ps, "(")) return;
    VEC(int64_t) ints = {0};
    VEC(double) floats = {0};
    if (!graph_text_accept(ps, ")")) {
        do {
            if (f->kind == FK_ints)
                vec_push(ps->g->arena, &ints, graph_text_integer(ps));
            else
                vec_push(ps->g->arena, &floats, graph_text_number(ps));
        } while (graph_text_accept(ps, ",") && !ps->failed);
        graph_text_expect(ps, ")");
    }
    if (f->kind == FK_ints)
        *FIELD_AT(IntList, n, f) = (IntList){ints.data, ints.n};
    else
        *FIELD_AT(F64List, n, f) = (F64List){floats.data, floats.n};
}

static StatusCode status(Parser *ps) {
    graph_text_space(ps);
    const char *w;
    size_t n = graph_text_word(ps, &w);
    StatusCode code = status_parse(w, n);
    if (code == CODE_OK) graph_text_fail_at(ps, w, "unknown status '%.*s'", (int)n, w);
    return code;
}

static void field(Parser *ps, Node *n, const GField *f, PendingList *later) {
    switch (f->kind) {
    case FK_int: *FIELD_AT(int64_t, n, f) = graph_text_integer(ps); break;
    case FK_f64: *FIELD_AT(double, n, f) = graph_text_number(ps); break;
    case FK_text: *FIELD_AT(const char *, n, f) = graph_text_word_or_quoted(ps); break;
    case FK_code: *FIELD_AT(StatusCode, n, f) = status(ps); break;
    case FK_ints:
    case FK_params: list_field(ps, n, f); break;
    case FK_dims:
    case FK_expr:
        if (!graph_text_expect(ps, "(")) return;
        if (later->n == 8) {
            graph_text_fail(ps, "too many fields");
            return;
        }
        later->data[later->n++] = (Pending){f, ps->p};
        skip_group(ps);
        break;
    case FK_scalar:
        later->data[later->n++] = (Pending){f, ps->p};
        graph_text_space(ps);
        if (*ps->p == '"')
            graph_text_quoted(ps, NULL);
        else
            while (*ps->p && !isspace((unsigned char)*ps->p)) ps->p++;
        break;
    case FK_data:
    case FK_regions: graph_text_fail(ps, "'%s' is no written field", f->name); break;
    }
}

// The axes that d0, d1 … of the node's Dims and bodies stand for.
static void node_axes(Parser *ps, const Node *n, const Dim **room) {
    ps->axes = (const Dim *const *)(n->nout ? n->out[0]->shape : NULL);
    ps->naxes = n->nout ? n->out[0]->rank : 0;
    if (n->op == G_scatter && n->nin > 1) {
        ps->axes = (const Dim *const *)n->in[1]->shape;
        ps->naxes = n->in[1]->rank;
    }
    if (n->op == G_attention && n->nin > 2 && n->in[0]->rank == 4 && n->in[1]->rank == 4) {
        for (int i = 0; i < 3; i++) room[i] = n->in[0]->shape[i];
        room[3] = n->in[1]->shape[2];
        ps->axes = room;
        ps->naxes = 4;
    }
}

static DType lookup_arg(void *ctx, int k) {
    const Parser *ps = ctx;
    const Node *n = ps->node;
    if (ps->score && k == 0) return n->nin && n->in[0]->type == DT_f64 ? DT_f64 : DT_f32;
    if (ps->score) k += 2;
    return k >= 0 && k < n->nin ? n->in[k]->type : DT_none;
}

static Var *no_var(void *ctx, const char *name, size_t n) {
    (void)ctx, (void)name, (void)n;
    return NULL;
}

static void expr_field(Parser *ps, Node *n, const GField *f) {
    ExprParser e = {.arena = ps->g->arena, .dims = ps->g->dims, .ctx = ps, .dim = lookup_dim, .var = no_var, .arg = lookup_arg};
    ps->score = n->op == G_attention;
    DType want = n->nout == 1 && !ps->score ? n->out[0]->type : DT_none;
    const Expr *x = expr_parse(&e, &ps->p, vtype(want, 1));
    if (!x) graph_text_fail(ps, "%s", e.error[0] ? e.error : "expected an expression");
    *FIELD_AT(const Expr *, n, f) = x;
    graph_text_expect(ps, ")");
}

static void late_fields(Parser *ps, Node *n, const PendingList *later) {
    const char *end = ps->p;
    const Dim *room[4];
    ps->node = n;
    node_axes(ps, n, room);
    if (n->nout) n->fill = scalar_int(n->out[0]->type, 0);
    for (int i = 0; i < later->n && !ps->failed; i++) {
        const GField *f = later->data[i].field;
        ps->p = later->data[i].at;
        if (f->kind == FK_expr)
            expr_field(ps, n, f);
        else if (f->kind == FK_scalar)
            n->fill = graph_text_literal(ps, n->out[0]->type);
        else
            *FIELD_AT(DimList, n, f) = dims_until(ps, ")");
    }
    ps->node = NULL;
    ps->axes = NULL;
    ps->naxes = 0;
    if (!ps->failed) ps->p = end;
}

// ---- nodes and regions ----

static void region(Parser *ps, Region *r);

static void origin(Parser *ps, Node *n) {
    if (graph_text_accept(ps, "@")) n->label = graph_text_quoted(ps, NULL);
    if (graph_text_accept(ps, "(")) {
        size_t len = strcspn(ps->p, ")\n");
        n->onnx = arena_strndup(ps->g->arena, ps->p, len);
        ps->p += len;
        graph_text_expect(ps, ")");
    }
    if (graph_text_accept(ps, "#")) n->onnx_id = (int)graph_text_integer(ps);
    if (graph_text_accept(ps, "group")) n->group = (int)graph_text_integer(ps);
    if (n->onnx_id < 0 || n->onnx_id > (1 << 22)) {
        graph_text_fail(ps, "node number %d is out of range", n->onnx_id);
        return;
    }
    Graph *g = ps->g;
    while (g->nonnx < n->onnx_id) {
        g->nonnx++;
        vec_push(g->arena, &g->onnx_names, "");
    }
    if (n->onnx_id && n->label) g->onnx_names.data[n->onnx_id - 1] = n->label;
}

static void node_regions(Parser *ps, Node *n) {
    VEC(Region *) regions = {0};
    while (!ps->failed && graph_text_accept(ps, regions.n ? "else" : "{")) {
        if (regions.n && !graph_text_expect(ps, "{")) return;
        Region *r = graph_region_new(ps->g, n);
        region(ps, r);
        graph_text_expect(ps, "}");
        vec_push(ps->g->arena, &regions, r);
    }
    n->regions.data = regions.data;
    n->regions.n = regions.n;
}

static void vsyms(Parser *ps, Node *n) {
    int lead = n->op == G_gather ? 1 : n->op == G_scatter ? 2 : n->nin;
    n->nvsyms = n->nin > lead ? n->nin - lead : 0;
    n->vsyms = ARENA_ARRAY(ps->g->arena, const Dim *, n->nvsyms + 1);
    for (int i = 0; i < n->nvsyms; i++) n->vsyms[i] = dim_symbol(ps->g->dims, arena_printf(ps->g->arena, "v%d", i), SYM_DATA, NULL, NULL);
}

static void typed_output(Parser *ps, Value *v) {
    Typed t;
    if (!type_of(ps, &t)) return;
    graph_value_type(ps->g, v, t.type, t.shape.n, (const Dim *const *)t.shape.data);
}

static void node_body(Parser *ps, Node *n) {
    PendingList later = {.n = 0};
    if (n->op == G_const) {
        typed_output(ps, n->out[0]);
        if (ps->failed) return;
        n->data = constant(ps, n->out[0]);
        type_tail(ps, n->out[0]);
        return;
    }
    for (;;) {
        const char *before = ps->p, *w;
        size_t len = graph_text_word(ps, &w);
        const GField *f = graph_field_find(w, len);
        if (!f || !graph_field_used(n->op, f)) {
            ps->p = before;
            break;
        }
        field(ps, n, f, &later);
        if (ps->failed) return;
    }
    node_regions(ps, n);
    for (int i = 0; i < n->nout && !ps->failed; i++) {
        if (!graph_text_expect(ps, i ? "," : ":")) return;
        typed_output(ps, n->out[i]);
        if (!ps->failed) type_tail(ps, n->out[i]);
    }
    if (!ps->failed) late_fields(ps, n, &later);
}

typedef struct {
    const char *name;
    size_t n;
} Name;

// Reads `%a, %b = op …` or `op …`; the caller has seen that one begins.
static void node(Parser *ps, Region *r) {
    VEC(Name) outs = {0};
    graph_text_space(ps);
    if (*ps->p == '%') {
        do {
            Name name;
            name.n = value_name(ps, &name.name);
            vec_push(ps->tmp, &outs, name);
        } while (graph_text_accept(ps, ",") && !ps->failed);
        graph_text_expect(ps, "=");
    }
    const char *w;
    size_t len = graph_text_word(ps, &w);
    GOp op = gop_parse(w, len);
    if (op == G_COUNT) {
        graph_text_fail_at(ps, w, "'%.*s' is no operation", (int)len, w);
        return;
    }
    VEC(Value *) in = {0};
    graph_text_space(ps);
    if (*ps->p == '%') do
            vec_push(ps->tmp, &in, use_value(ps));
        while (graph_text_accept(ps, ",") && !ps->failed);
    if (ps->failed) return;
    const GOpInfo *info = gop_info(op);
    if (in.n < info->min_in || (info->max_in >= 0 && in.n > info->max_in))
        graph_text_fail_at(ps, w, "%s does not take %d inputs", info->name, in.n);
    if (info->nout >= 0 && outs.n != info->nout) graph_text_fail_at(ps, w, "%s has %d outputs, found %d", info->name, info->nout, outs.n);
    if (ps->failed) return;
    Builder b = {.g = ps->g, .region = r};
    Node *n = graph_add_node(&b, op, in.n, in.data, outs.n);
    vsyms(ps, n);
    node_body(ps, n);
    if (ps->failed) return;
    for (int i = 0; i < outs.n; i++) bind_name(ps, outs.data[i].name, outs.data[i].n, n->out[i]);
    origin(ps, n);
}

static void param(Parser *ps, Region *r) {
    const char *name;
    size_t n = value_name(ps, &name);
    Typed t;
    if (!n || !graph_text_expect(ps, ":") || !type_of(ps, &t)) return;
    Value *v = graph_param(r, NULL, t.type, t.shape.n, (const Dim *const *)t.shape.data);
    bind_name(ps, name, n, v);
    type_tail(ps, v);
}

static void region(Parser *ps, Region *r) {
    while (!ps->failed && graph_text_accept(ps, "param")) param(ps, r);
    while (!ps->failed && !graph_text_accept(ps, "yield")) node(ps, r);
    graph_text_space(ps);
    if (*ps->p != '%' || ps->failed) return;
    do {
        Value *v = use_value(ps);
        vec_push(ps->g->arena, &r->yields, v);
    } while (graph_text_accept(ps, ",") && !ps->failed);
}

// ---- the whole ----

static void symbol(Parser *ps, SymKind kind) {
    graph_text_space(ps);
    const char *start = ps->p,
               *name = *ps->p == '"' || isalpha((unsigned char)*ps->p) || *ps->p == '_' ? graph_text_word_or_quoted(ps) : NULL;
    const Dim *lo = NULL, *hi = NULL;
    if (!name || !*name) {
        graph_text_fail_at(ps, start, "expected a symbol's name");
        return;
    }
    if (lookup_dim(ps, name, strlen(name))) {
        graph_text_fail_at(ps, start, "symbol %s is defined twice", name);
        return;
    }
    if (graph_text_accept(ps, "in")) {
        graph_text_space(ps);
        if (*ps->p != '.') lo = dim(ps);
        if (ps->failed || !graph_text_expect(ps, "..")) return;
        // An upper bound stands on the same line.
        while (*ps->p == ' ') ps->p++;
        if (*ps->p && *ps->p != '\n' && *ps->p != ';') hi = dim(ps);
    }
    if (ps->failed) return;
    graph_symbol(ps->g, name, kind, lo, hi);
}

static void output(Parser *ps) {
    Graph *g = ps->g;
    Value *v = use_value(ps);
    if (!v) return;
    if (v->region != g->body) {
        graph_text_fail(ps, "an output must be defined outside of inner regions");
        return;
    }
    vec_push(g->arena, &g->body->yields, v);
    graph_text_space(ps);
    vec_push(g->arena, &g->output_names, *ps->p == '"' ? graph_text_quoted(ps, NULL) : NULL);
}

static void statement(Parser *ps) {
    Graph *g = ps->g;
    if (graph_text_accept(ps, "metadata")) {
        for (int i = 0; i < 2 && !ps->failed; i++) vec_push(g->arena, &g->metadata, graph_text_quoted(ps, NULL));
    } else if (graph_text_accept(ps, "dim"))
        symbol(ps, SYM_MODEL);
    else if (graph_text_accept(ps, "data")) {
        if (graph_text_expect(ps, "dim")) symbol(ps, SYM_DATA);
    } else if (graph_text_accept(ps, "input"))
        param(ps, g->body);
    else if (graph_text_accept(ps, "output"))
        output(ps);
    else if (graph_text_accept(ps, "tie")) {
        StateTie t = {.in = use_value(ps)};
        t.out = ps->failed ? NULL : use_value(ps);
        vec_push(g->arena, &g->states, t);
    } else
        node(ps, g->body);
}

static void resolve_roots(Parser *ps) {
    for (int i = 0; i < ps->roots.n && !ps->failed; i++) {
        const Rooted *r = &ps->roots.data[i];
        r->value->storage.root = find_value(ps, r->root, r->n);
        if (!r->value->storage.root) graph_text_fail_at(ps, r->at, "value %%%.*s is not defined", (int)r->n, r->root);
    }
}

// Contents are inferred once all of the text is known to be a valid graph: the rules rely on the verifier's.
static void infer_region(Graph *g, Region *r) {
    for (int i = 0; i < r->nodes.n; i++) {
        Node *n = r->nodes.data[i];
        for (int k = 0; k < n->regions.n; k++) infer_region(g, n->regions.data[k]);
        graph_infer_content(g, n);
    }
}

static void infer_contents(Graph *g) {
    Diag unheard = {0}; // the caller verifies too, and tells
    if (graph_verify(g, &unheard)) infer_region(g, g->body);
    diag_free(&unheard);
}

Graph *graph_parse_blobs(const char *text, const char *file, Diag *d, bool (*blob)(void *ctx, int k, Data *out), void *ctx) {
    const char *outer = d->file;
    d->file = file;
    Parser ps = {.text = text, .p = text, .d = d, .g = graph_new(""), .tmp = arena_new(), .blob = blob, .ctx = ctx};
    if (graph_text_expect(&ps, "graph")) ps.g->name = graph_text_word_or_quoted(&ps);
    for (graph_text_space(&ps); *ps.p && !ps.failed; graph_text_space(&ps)) statement(&ps);
    resolve_roots(&ps);
    arena_free(ps.tmp);
    d->file = outer;
    if (!ps.failed) {
        infer_contents(ps.g);
        return ps.g;
    }
    graph_free(ps.g);
    return NULL;
}

Graph *graph_parse(const char *text, const char *file, Diag *d) {
    return graph_parse_blobs(text, file, d, NULL, NULL);
}
