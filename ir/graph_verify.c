// The Graph's verifier: what every pass may rely on. All violations are reported, each with its rule's number.
//
//   1 a node has the number of inputs, outputs and regions that its row says
//   2 an input or yield is defined before, in the same region or one around it
//   3 a value knows its definition, has a type, a rank up to GRAPH_MAX_RANK and extents that are not poison and not provably negative
//   4 fields that the row does not name are empty
//   5 Dims mention known symbols only: the graph's, of data only once defined, the output's axes (with their extents) and v0 … where they
//     are allowed
//   6 a const has a constant shape and exactly its bytes
//   7 dims is an i64 vector or scalar of its Dims
//   8 a map's body has the output's type, takes the inputs' types, uses scalar functions, dims and arguments only; inputs broadcast to the
//     output
//   9 a view has one index per input axis and keeps the type
//  10 a reshape keeps type and size
//  11 a concat's inputs agree but along its axis, where the extents add up
//  12 gather and scatter: integer indices, one symbol v<i> each, one index per axis of input 0, types kept, kind known
//  13 reduce and scan: kind known, axes ascending and inside, output as inferred
//  14 contract: subs fit ranks, extents and output
//  15 softmax and norm: float, kind known, axes ascending and inside, shape kept
//  16 attention: ranks 4, extents and types agree, score and prob are bodies over their arguments
//  17 a template's kind, inputs, outputs, dims and flags fit its row of template.def
//  18 if: a bool of one element, two regions without parameters, yields of the outputs' types and ranks
//  19 loop: trip count, condition, parameters and yields fit the carried values and scans
//  20 check: a known code, and something to check
//  21 regions know their graph and owner; the graph's outputs are named; symbols have different names that no axis or index has
//  22 a state tie leads from an output to an input of the same type and rank
//  23 a storage root chain ends
#include "graph_fields.h"

#include <ctype.h>
#include <string.h>

typedef struct {
    const Graph *g;
    DimTable *t;
    Diag *d;
    Arena *arena;
    bool ok;
    char *visible;         // by Value.id
    VEC(const Dim *) data; // data symbols defined so far
    // what the Dims of the node at hand may mention
    const Node *n;
    const Dim *const *axes;
    int naxes;
    bool v_allowed;
    int rule; // of expression checks
    bool score;
} Verify;

static void bad(Verify *v, int rule, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void bad(Verify *v, int rule, const char *fmt, ...) {
    v->ok = false;
    Str s = {0};
    const Node *n = v->n;
    if (n) {
        str_printf(&s, "%s", gop_info(n->op)->name);
        if (n->nout && n->out[0]) str_printf(&s, " %%%d", n->out[0]->id);
        if (n->label) str_printf(&s, " '%s'", n->label);
        str_add(&s, ": ");
    }
    va_list ap;
    va_start(ap, fmt);
    str_vprintf(&s, fmt, ap);
    va_end(ap);
    diag_error(v->d, EXIT_INTERNAL, "graph rule %d: %s", rule, s.data);
    str_free(&s);
}

// ---- symbols ----

static bool known_data(const Verify *v, const Dim *sym) {
    for (int i = 0; i < v->data.n; i++)
        if (v->data.data[i] == sym) return true;
    return false;
}

static bool in_graph(const Verify *v, const Dim *sym) {
    for (int i = 0; i < v->g->symbols.n; i++)
        if (v->g->symbols.data[i] == sym) return true;
    return false;
}

static void check_symbol(void *ctx, const Dim *sym) {
    Verify *v = ctx;
    const Sym *s = dim_as_symbol(sym);
    if (s->kind == SYM_AXIS) {
        for (int i = 0; i < v->naxes; i++)
            if (dim_axis(v->t, i, v->axes[i]) == sym) return;
        bad(v, 5, "axis symbol %s is not one of the output's axes", s->name);
        return;
    }
    for (int i = 0; v->v_allowed && i < v->n->nvsyms; i++)
        if (v->n->vsyms[i] == sym) return;
    if (!in_graph(v, sym))
        bad(v, 5, "symbol %s is not declared", s->name);
    else if (s->kind == SYM_DATA && !known_data(v, sym))
        bad(v, 5, "data symbol %s is used before its definition", s->name);
}

static void check_dims(Verify *v, const Dim *const *d, int n) {
    for (int i = 0; i < n; i++) {
        if (!d[i] || dim_is_poison(d[i]))
            bad(v, 3, "a dimension is missing or poison");
        else
            dim_symbols(d[i], check_symbol, v);
    }
}

static void define(Verify *v, const Dim *d) {
    const Sym *s = d ? dim_as_symbol(d) : NULL;
    if (s && s->kind == SYM_DATA && !known_data(v, d)) vec_push(v->arena, &v->data, d);
}

static void define_shape(Verify *v, const Value *x) {
    for (int i = 0; i < x->rank; i++) define(v, x->shape[i]);
}

// ---- values ----

static void check_value(Verify *v, const Value *x, const Node *def, const Region *r, int out) {
    if (!x || x->def != def || x->region != r || x->out != out || x->id < 0 || x->id >= v->g->nvalues) {
        bad(v, 3, "output %d does not know its definition", out);
        return;
    }
    if (v->visible[x->id]) bad(v, 3, "value %d is defined twice", x->id);
    v->visible[x->id] = 1;
    if (x->type == DT_none) bad(v, 3, "value %d has no type", x->id);
    if (x->rank < 0 || x->rank > GRAPH_MAX_RANK) {
        bad(v, 3, "value %d has rank %d, the limit is %d", x->id, x->rank, GRAPH_MAX_RANK);
        return;
    }
    check_dims(v, (const Dim *const *)x->shape, x->rank);
    for (int i = 0; i < x->rank; i++)
        if (dim_ge0(v->t, x->shape[i]) == NO) bad(v, 3, "value %d has extent %s", x->id, dim_text(v->t, x->shape[i]));
    const Value *root = x->storage.root;
    for (int steps = 0; root; root = root->storage.root)
        if (++steps > v->g->nvalues) {
            bad(v, 23, "value %d has a storage root chain without end", x->id);
            return;
        }
}

static bool agree(Verify *v, const Dim *a, const Dim *b) {
    return dim_eq(v->t, a, b) != NO;
}

static bool same_shape(Verify *v, const Value *a, const Value *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (!agree(v, a->shape[i], b->shape[i])) return false;
    return true;
}

static bool broadcasts(Verify *v, const Value *x, int rank, const Dim *const *shape) {
    if (x->rank > rank) return false;
    for (int i = 0; i < x->rank; i++) {
        const Dim *e = shape[rank - x->rank + i];
        if (!agree(v, x->shape[i], e) && dim_eq(v->t, x->shape[i], dim_int(v->t, 1)) == NO) return false;
    }
    return true;
}

static bool one_element(const Value *x) {
    for (int i = 0; i < x->rank; i++)
        if (dim_is_int(x->shape[i], NULL) && !dim_is(x->shape[i], 1)) return false;
    return true;
}

static bool one_of(const char *kind, const char *const *list) {
    for (; kind && *list; list++)
        if (!strcmp(kind, *list)) return true;
    return false;
}

static bool good_axes(const IntList *axes, int rank) {
    for (int i = 0; i < axes->n; i++)
        if (axes->data[i] < 0 || axes->data[i] >= rank || (i && axes->data[i] <= axes->data[i - 1])) return false;
    return true;
}

// ---- expressions ----

static DType arg_type(const Verify *v, int64_t k) {
    const Node *n = v->n;
    if (v->score && k == 0) return n->in[0]->type == DT_f64 ? DT_f64 : DT_f32;
    if (v->score) k += 2;
    return k >= 0 && k < n->nin ? n->in[k]->type : DT_none;
}

static void check_expr_node(void *ctx, const Expr *e) {
    Verify *v = ctx;
    bool leaf = e->op == X_const || e->op == X_arg || e->op == X_dim;
    XClass c = xop_info(e->op)->cls;
    if (e->type.lanes != 1 || (!leaf && (c == XC_LEAF || c == XC_MEM || c == XC_LANE)))
        bad(v, v->rule, "'%s' has no place in a body", xop_info(e->op)->name);
    const char *fault = expr_check(v->arena, e);
    if (fault) bad(v, v->rule, "body: %s", fault);
    if (e->op == X_dim) dim_symbols(e->dim, check_symbol, v);
    if (e->op != X_arg) return;
    DType t = arg_type(v, e->k);
    if (t != e->type.type)
        bad(v, v->rule, "argument a%d is %s, the input %s", (int)e->k, dtype_name(e->type.type), t == DT_none ? "missing" : dtype_name(t));
}

static void check_body(Verify *v, int rule, const Expr *body, DType want) {
    if (!body) {
        bad(v, rule, "the body is missing");
        return;
    }
    v->rule = rule;
    expr_visit(body, check_expr_node, v);
    if (want != DT_none && body->type.type != want)
        bad(v, rule, "the body is %s, the output %s", dtype_name(body->type.type), dtype_name(want));
}

// ---- one rule an operation ----

static void verify_const(Verify *v, const Node *n) {
    int64_t count = graph_const_count(n->out[0]);
    size_t need = count < 0 ? 0 : (size_t)count * (size_t)dtype_bytes(n->out[0]->type);
    if (count < 0 || n->data.size != need || (need && !n->data.bytes))
        bad(v, 6, "%zu bytes of data, the type needs %zu", n->data.size, need);
}

static void verify_dims(Verify *v, const Node *n) {
    const Value *o = n->out[0];
    if (o->type != DT_i64 || o->rank > 1 || (o->rank == 1 ? !dim_is(o->shape[0], n->dims.n) : n->dims.n != 1))
        bad(v, 7, "%d Dims do not fit the output's type", n->dims.n);
}

static void verify_map(Verify *v, const Node *n) {
    check_body(v, 8, n->body, n->out[0]->type);
    for (int i = 0; i < n->nin; i++)
        if (!broadcasts(v, n->in[i], n->out[0]->rank, (const Dim *const *)n->out[0]->shape))
            bad(v, 8, "input %d does not broadcast to the output", i);
}

static void verify_view(Verify *v, const Node *n) {
    if (n->index.n != n->in[0]->rank) bad(v, 9, "%d indices for rank %d", n->index.n, n->in[0]->rank);
    if (n->in[0]->type != n->out[0]->type)
        bad(v, 9, "the type changes from %s to %s", dtype_name(n->in[0]->type), dtype_name(n->out[0]->type));
}

static void verify_reshape(Verify *v, const Node *n) {
    Graph *g = n->region->graph;
    if (n->in[0]->type != n->out[0]->type || !agree(v, value_size(g, n->in[0]), value_size(g, n->out[0])))
        bad(v, 10, "type or size changes");
}

static void verify_concat(Verify *v, const Node *n) {
    const Value *o = n->out[0];
    if (n->axis < 0 || n->axis >= o->rank) {
        bad(v, 11, "axis %d is outside of rank %d", (int)n->axis, o->rank);
        return;
    }
    const Dim *sum = dim_int(v->t, 0);
    for (int k = 0; k < n->nin; k++) {
        const Value *x = n->in[k];
        bool fits = x->type == o->type && x->rank == o->rank;
        for (int i = 0; fits && i < o->rank; i++) fits = i == n->axis || agree(v, x->shape[i], o->shape[i]);
        if (!fits) {
            bad(v, 11, "input %d does not fit the output", k);
            return;
        }
        sum = dim_add(v->t, sum, x->shape[n->axis]);
    }
    if (!agree(v, sum, o->shape[n->axis]))
        bad(v, 11, "the inputs' extents add up to %s, the output has %s", dim_text(v->t, sum), dim_text(v->t, o->shape[n->axis]));
}

static void verify_indexed(Verify *v, const Node *n) {
    int lead = n->op == G_gather ? 1 : 2;
    const Value *over = n->op == G_gather ? n->out[0] : n->in[1];
    static const char *const kinds[] = {"set", "add", "mul", "min", "max", NULL};
    if (n->nvsyms != n->nin - lead) {
        bad(v, 12, "%d symbols for %d indices", n->nvsyms, n->nin - lead);
        return;
    }
    for (int i = 0; i < n->nvsyms; i++) {
        const Value *x = n->in[lead + i];
        const Sym *s = n->vsyms[i] ? dim_as_symbol(n->vsyms[i]) : NULL;
        if (!dtype_is_int(x->type)) bad(v, 12, "index %d is %s", i, dtype_name(x->type));
        if (!s || s->name[0] != 'v' || strcmp(s->name + 1, arena_printf(v->arena, "%d", i)))
            bad(v, 12, "the symbol of index %d is not v%d", i, i);
        if (!broadcasts(v, x, over->rank, (const Dim *const *)over->shape)) bad(v, 12, "index %d does not broadcast", i);
    }
    if (n->index.n != n->in[0]->rank) bad(v, 12, "%d indices for rank %d", n->index.n, n->in[0]->rank);
    if (n->in[0]->type != n->out[0]->type) bad(v, 12, "the type changes");
    if (n->op == G_gather) return;
    if (!one_of(n->kind, kinds)) bad(v, 12, "unknown kind %s", n->kind ? n->kind : "(none)");
    if (n->in[1]->type != n->in[0]->type || !same_shape(v, n->in[0], n->out[0])) bad(v, 12, "updates or output do not fit the data");
}

static void verify_reduce(Verify *v, const Node *n) {
    static const char *const kinds[] = {"sum", "prod", "min", "max", "any", "all", "argmin", "argmax", "argmin_last", "argmax_last", NULL};
    const Value *x = n->in[0], *o = n->out[0];
    if (!one_of(n->kind, kinds)) {
        bad(v, 13, "unknown kind %s", n->kind ? n->kind : "(none)");
        return;
    }
    bool arg = !strncmp(n->kind, "arg", 3), logic = !strcmp(n->kind, "any") || !strcmp(n->kind, "all");
    if (!good_axes(&n->axes, x->rank) || (arg && n->axes.n != 1)) {
        bad(v, 13, "the axes do not fit rank %d", x->rank);
        return;
    }
    if (o->type != (arg ? DT_i64 : x->type) || (logic && x->type != DT_bool))
        bad(v, 13, "%s of %s does not give %s", n->kind, dtype_name(x->type), dtype_name(o->type));
    int k = 0, a = 0;
    bool fits = o->rank == x->rank - (n->keep ? 0 : n->axes.n);
    for (int i = 0; fits && i < x->rank; i++) {
        bool reduced = a < n->axes.n && n->axes.data[a] == i;
        a += reduced;
        if (reduced && n->keep)
            fits = dim_is(o->shape[k++], 1);
        else if (!reduced)
            fits = agree(v, o->shape[k++], x->shape[i]);
    }
    if (!fits) bad(v, 13, "the output's shape is not the input's without the axes");
}

static void verify_scan(Verify *v, const Node *n) {
    static const char *const kinds[] = {"sum", "prod", "max", "min", NULL};
    const Value *x = n->in[0];
    if (!one_of(n->kind, kinds) || n->axis < 0 || n->axis >= x->rank || x->type != n->out[0]->type || !same_shape(v, x, n->out[0]))
        bad(v, 13, "kind, axis or output do not fit");
}

static bool letters_fit(Verify *v, const char **s, const Value *x, const Dim *extent[128], bool fresh) {
    int i = 0;
    for (; isalpha((unsigned char)**s); ++*s, i++) {
        const Dim **e = &extent[(unsigned char)**s];
        if (i >= x->rank || (!*e && !fresh) || (*e && !agree(v, *e, x->shape[i]))) return false;
        if (!*e) *e = x->shape[i];
    }
    return i == x->rank;
}

static void verify_contract(Verify *v, const Node *n) {
    const Dim *extent[128] = {0};
    const char *s = n->subs ? n->subs : "";
    bool fits = letters_fit(v, &s, n->in[0], extent, true) && *s == ',' && s++ && letters_fit(v, &s, n->in[1], extent, true);
    fits = fits && s[0] == '-' && s[1] == '>';
    if (fits) s += 2;
    const char *out = s;
    fits = fits && letters_fit(v, &s, n->out[0], extent, false) && !*s;
    for (const char *c = out; fits && *c; c++) fits = !strchr(c + 1, *c);
    if (!fits) bad(v, 14, "subs '%s' do not fit the shapes", n->subs ? n->subs : "");
}

static void verify_rowwise(Verify *v, const Node *n) {
    static const char *const soft[] = {"softmax", "logsoftmax", NULL}, *const norm[] = {"layer", "rms", NULL};
    const Value *x = n->in[0];
    if (!one_of(n->kind, n->op == G_softmax ? soft : norm)) bad(v, 15, "unknown kind %s", n->kind ? n->kind : "(none)");
    if (!dtype_is_float(x->type) || x->type != n->out[0]->type || !good_axes(&n->axes, x->rank) || !same_shape(v, x, n->out[0]))
        bad(v, 15, "type, axes or output do not fit");
}

static void verify_attention(Verify *v, const Node *n) {
    const Value *q = n->in[0], *k = n->in[1], *x = n->in[2], *o = n->out[0];
    if (q->rank != 4 || k->rank != 4 || x->rank != 4 || o->rank != 4 || !dtype_is_float(q->type) || k->type != q->type ||
        x->type != q->type || o->type != q->type) {
        bad(v, 16, "q, k, v and the output must have rank 4 and one float type");
        return;
    }
    bool fits = agree(v, q->shape[3], k->shape[3]) && agree(v, k->shape[2], x->shape[2]) && agree(v, o->shape[2], q->shape[2]) &&
                agree(v, o->shape[3], x->shape[3]);
    for (int i = 0; i < 2; i++)
        fits = fits && agree(v, q->shape[i], k->shape[i]) && agree(v, q->shape[i], x->shape[i]) && agree(v, q->shape[i], o->shape[i]);
    if (!fits) bad(v, 16, "the extents of q, k, v and the output do not agree");
    DType acc = q->type == DT_f64 ? DT_f64 : DT_f32;
    v->score = true;
    check_body(v, 16, n->score, acc);
    check_body(v, 16, n->prob, acc);
    v->score = false;
    for (int i = 3; i < n->nin; i++)
        if (!broadcasts(v, n->in[i], 4, v->axes)) bad(v, 16, "input %d does not broadcast to the scores", i);
}

static void verify_template(Verify *v, const Node *n) {
    const GTemplateInfo *t = n->kind ? gtemplate_info(n->kind) : NULL;
    if (!t) {
        bad(v, 17, "unknown kind %s", n->kind ? n->kind : "(none)");
        return;
    }
    bool fits = n->nin >= t->min_in && n->nin <= t->max_in && n->nout >= t->min_out && n->nout <= t->max_out && n->flags.n == t->nflags;
    fits = fits && (t->ndims < 0 ? n->dims.n <= -t->ndims : n->dims.n == t->ndims);
    for (int i = 0; fits && i < n->dims.n; i++) fits = dim_as_symbol(n->dims.data[i]) != NULL;
    if (!fits) bad(v, 17, "inputs, outputs, dims or flags do not fit %s", t->kind);
}

static bool yields_fit(const Value *a, const Value *b) {
    return a->type == b->type && a->rank == b->rank;
}

static void verify_if(Verify *v, const Node *n) {
    if (n->in[0]->type != DT_bool || !one_element(n->in[0])) bad(v, 18, "the condition must be one bool");
    for (int k = 0; k < 2; k++) {
        const Region *r = n->regions.data[k];
        bool fits = r->params.n == 0 && r->yields.n == n->nout;
        for (int i = 0; fits && i < n->nout; i++) fits = yields_fit(r->yields.data[i], n->out[i]);
        if (!fits) bad(v, 18, "region %d does not fit the outputs", k);
    }
}

static void verify_loop(Verify *v, const Node *n) {
    const Region *r = n->regions.data[0];
    int carried = n->nin - 2;
    int64_t scans = n->scans;
    bool fits = n->in[0]->type == DT_i64 && one_element(n->in[0]) && n->in[1]->type == DT_bool && one_element(n->in[1]);
    fits = fits && scans >= 0 && scans <= n->nout && n->nout == carried + scans && n->dims.n == (scans > 0) && r->params.n == 2 + carried &&
           r->yields.n == 1 + carried + scans;
    if (!fits) {
        bad(v, 19, "trip count, condition, parameters or yields do not fit");
        return;
    }
    fits = r->params.data[0]->type == DT_i64 && r->params.data[1]->type == DT_bool && r->yields.data[0]->type == DT_bool;
    for (int i = 0; i < carried; i++)
        fits = fits && yields_fit(n->in[2 + i], r->params.data[2 + i]) && yields_fit(r->yields.data[1 + i], n->out[i]) &&
               yields_fit(n->in[2 + i], n->out[i]);
    for (int i = carried; i < n->nout; i++)
        fits = fits && r->yields.data[1 + i]->type == n->out[i]->type && r->yields.data[1 + i]->rank + 1 == n->out[i]->rank;
    if (!fits) bad(v, 19, "types of parameters, yields and outputs do not fit");
}

static void verify_check(Verify *v, const Node *n) {
    if (!status_name(n->code)) bad(v, 20, "unknown code %d", (int)n->code);
    if (n->nin + n->guard.n == 0) bad(v, 20, "nothing to check");
    if (n->nin && (n->in[0]->type != DT_bool || !one_element(n->in[0]))) bad(v, 20, "the condition must be one bool");
}

static void (*const rules[G_COUNT])(Verify *v, const Node *n) = {
    [G_const] = verify_const,
    [G_dims] = verify_dims,
    [G_map] = verify_map,
    [G_view] = verify_view,
    [G_reshape] = verify_reshape,
    [G_concat] = verify_concat,
    [G_gather] = verify_indexed,
    [G_scatter] = verify_indexed,
    [G_reduce] = verify_reduce,
    [G_scan] = verify_scan,
    [G_contract] = verify_contract,
    [G_softmax] = verify_rowwise,
    [G_norm] = verify_rowwise,
    [G_attention] = verify_attention,
    [G_template] = verify_template,
    [G_if] = verify_if,
    [G_loop] = verify_loop,
    [G_check] = verify_check,
};

// ---- nodes and regions ----

static bool field_empty(const Node *n, const GField *f) {
    switch (f->kind) {
    case FK_int: return *FIELD_IN(int64_t, n, f) == 0;
    case FK_f64: return !(*FIELD_IN(double, n, f) < 0) && !(*FIELD_IN(double, n, f) > 0);
    case FK_text: return !*FIELD_IN(const char *, n, f);
    case FK_expr: return !*FIELD_IN(const Expr *, n, f);
    case FK_ints: return FIELD_IN(IntList, n, f)->n == 0;
    case FK_params: return FIELD_IN(F64List, n, f)->n == 0;
    case FK_dims: return FIELD_IN(DimList, n, f)->n == 0;
    case FK_data: return !FIELD_IN(Data, n, f)->bytes;
    case FK_code: return *FIELD_IN(StatusCode, n, f) == CODE_OK;
    case FK_regions: return n->regions.n == 0;
    case FK_scalar: break; // a typed zero in every node
    }
    return true;
}

static bool verify_arity(Verify *v, const Node *n) {
    const GOpInfo *info = gop_info(n->op);
    int regions = n->op == G_if ? 2 : n->op == G_loop ? 1 : 0;
    if (n->nin >= info->min_in && (info->max_in < 0 || n->nin <= info->max_in) && (info->nout < 0 || n->nout == info->nout) &&
        n->regions.n == regions)
        return true;
    bad(v, 1, "%d inputs, %d outputs, %d regions", n->nin, n->nout, n->regions.n);
    return false;
}

static bool verify_inputs(Verify *v, const Node *n) {
    for (int i = 0; i < n->nin; i++) {
        const Value *x = n->in[i];
        if (x && x->id >= 0 && x->id < v->g->nvalues && v->visible[x->id]) continue;
        bad(v, 2, "input %d is not defined here", i);
        return false;
    }
    return true;
}

static void verify_node_dims(Verify *v, const Node *n) {
    const Dim *scores[4];
    if (n->nout) v->axes = (const Dim *const *)n->out[0]->shape, v->naxes = n->out[0]->rank;
    if (n->op == G_scatter) v->axes = (const Dim *const *)n->in[1]->shape, v->naxes = n->in[1]->rank;
    if (n->op == G_attention && n->in[0]->rank == 4 && n->in[1]->rank == 4) {
        for (int i = 0; i < 3; i++) scores[i] = n->in[0]->shape[i];
        scores[3] = n->in[1]->shape[2];
        v->axes = scores;
        v->naxes = 4;
    }
    v->v_allowed = true;
    check_dims(v, (const Dim *const *)n->index.data, n->index.n);
    check_dims(v, (const Dim *const *)n->guard.data, n->guard.n);
    if (rules[n->op]) rules[n->op](v, n);
    v->v_allowed = false;
    v->axes = NULL;
    v->naxes = 0;
    check_dims(v, (const Dim *const *)n->dims.data, n->dims.n);
}

static void verify_region(Verify *v, const Region *r, const Node *owner);

static void verify_node(Verify *v, const Node *n, const Region *r) {
    v->n = n;
    if (n->region != r) bad(v, 21, "the node does not know its region");
    if (!verify_arity(v, n) || !verify_inputs(v, n)) return;
    for (int i = 0; graph_field(i); i++)
        if (!graph_field_used(n->op, graph_field(i)) && !field_empty(n, graph_field(i)))
            bad(v, 4, "field %s is not of this operation", graph_field(i)->name);
    if (gop_info(n->op)->cls == GC_control)
        for (int i = 0; i < n->dims.n; i++) define(v, n->dims.data[i]);
    int before = v->data.n;
    for (int k = 0; k < n->regions.n; k++) verify_region(v, n->regions.data[k], n);
    v->n = n;
    v->data.n = before; // what a region defines ends with it
    for (int i = 0; i < n->nout; i++) {
        if (gop_info(n->op)->cls == GC_control && n->out[i]) define_shape(v, n->out[i]);
        check_value(v, n->out[i], n, r, i);
    }
    verify_node_dims(v, n);
    v->n = NULL;
}

static void verify_region(Verify *v, const Region *r, const Node *owner) {
    if (r->graph != v->g || r->owner != owner) bad(v, 21, "a region does not know its graph and owner");
    for (int i = 0; i < r->params.n; i++) {
        define_shape(v, r->params.data[i]);
        check_value(v, r->params.data[i], NULL, r, i);
    }
    for (int i = 0; i < r->nodes.n; i++) verify_node(v, r->nodes.data[i], r);
    for (int i = 0; i < r->yields.n; i++)
        if (!v->visible[r->yields.data[i]->id]) bad(v, 2, "yield %d is not defined here", i);
    // Values of this region end with it; the graph's own stay for the ties.
    for (int i = 0; owner && i < r->params.n; i++) v->visible[r->params.data[i]->id] = 0;
    for (int i = 0; owner && i < r->nodes.n; i++)
        for (int k = 0; k < r->nodes.data[i]->nout; k++) v->visible[r->nodes.data[i]->out[k]->id] = 0;
}

static bool reserved(const char *name) {
    return !*name || ((*name == 'd' || *name == 'v') && name[1] && strspn(name + 1, "0123456789") == strlen(name + 1));
}

static void verify_symbols(Verify *v) {
    for (int i = 0; i < v->g->symbols.n; i++) {
        const Sym *s = dim_as_symbol(v->g->symbols.data[i]);
        if (!s || s->kind == SYM_AXIS || s->kind == SYM_LOOP || reserved(s->name))
            bad(v, 21, "symbol %d is of the wrong kind or has no proper name", i);
        for (int k = 0; s && k < i; k++)
            if (!strcmp(dim_as_symbol(v->g->symbols.data[k])->name, s->name)) bad(v, 21, "two symbols are named %s", s->name);
    }
}

static void verify_ties(Verify *v) {
    const Region *b = v->g->body;
    for (int i = 0; i < v->g->states.n; i++) {
        const StateTie *t = &v->g->states.data[i];
        bool in = t->in && !t->in->def && t->in->region == b, out = false;
        for (int k = 0; k < b->yields.n; k++) out = out || b->yields.data[k] == t->out;
        if (!in || !out || !yields_fit(t->in, t->out))
            bad(v, 22, "tie %d does not lead from an output to an input of its type and rank", i);
    }
}

bool graph_verify(const Graph *g, Diag *d) {
    Verify v = {.g = g, .t = g->dims, .d = d, .arena = arena_new(), .ok = true};
    v.visible = ARENA_ARRAY(v.arena, char, g->nvalues + 1);
    verify_symbols(&v);
    verify_region(&v, g->body, NULL);
    if (g->output_names.n != g->body->yields.n) bad(&v, 21, "%d names for %d outputs", g->output_names.n, g->body->yields.n);
    verify_ties(&v);
    arena_free(v.arena);
    return v.ok;
}
