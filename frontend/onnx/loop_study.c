// A look at a Loop's body: which carried values never change, and whether its condition is a counter's.
//
// Converters write `while t < n` as a Loop without a trip count, with t, n and every weight of the body carried along. What the body gives
// back as it came is a value of the outside. And when the condition after an iteration is x < y with y - x = D + g*k for the k-th
// iteration, g a negative constant, the number of iterations is known in front: 1 + max(0, ceildiv(D, -g)), or max(0, ceildiv(D - g, -g))
// when the condition in front of the loop is the same one. For the look each integer that is carried gets a symbol as its content, so that
// the body's arithmetic on it becomes a Dim.
#include "loop.h"

#include <string.h>

typedef struct {
    ImportNode *n;
    const LoopStudy *s;
    const Dim **symbol;   // of carried value i, NULL: none
    const Dim *iteration; // of the iteration's number
    Value **yield;        // what the body gives back for it
} Study;

// ---- numbers ----
static const Dim *number_of(ImportNode *n, const Value *v);

// An operand of a comparison: an input, a cast of one, a whole constant.
static const Dim *operand_number(ImportNode *n, const Node *map, const Expr *e) {
    while (e->op == X_cast) e = e->a[0];
    if (e->op == X_arg) return number_of(n, map->in[e->k]);
    if (e->op != X_const) return NULL;
    double v = scalar_as_f64(e->k_scalar);
    return v == (double)(int64_t)v ? dim_int(n->dims, (int64_t)v) : NULL;
}

// The integer that a value of one element holds, also where it has been cast to a float; NULL when it is not known.
static const Dim *number_of(ImportNode *n, const Value *v) {
    if (v->content) return v->ncontent == 1 ? v->content[0] : NULL;
    if (!v->def) return NULL;
    if (v->def->op == G_reshape) return number_of(n, v->def->in[0]);
    if (v->def->op == G_map) return operand_number(n, v->def, v->def->body);
    Tensor t;
    if (v->def->op != G_const || !import_known_tensor(n, v, &t) || tensor_count(&t) != 1 || !dtype_is_float(t.type)) return NULL;
    double f = scalar_read(t.type, t.data).f;
    return f == (double)(int64_t)f ? dim_int(n->dims, (int64_t)f) : NULL;
}

// The condition as "this > 0"; NULL when it is not a comparison of known integers.
static const Dim *positive_when(ImportNode *n, const Value *cond) {
    const Node *d = cond->def;
    while (d && (d->op == G_reshape || (d->op == G_map && d->body->op == X_arg))) d = d->in[0]->def;
    if (!d || d->op != G_map) return NULL;
    XOp op = d->body->op;
    if (op != X_lt && op != X_le && op != X_gt && op != X_ge) return NULL;
    const Dim *x = operand_number(n, d, d->body->a[0]), *y = operand_number(n, d, d->body->a[1]);
    if (!x || !y) return NULL;
    bool less = op == X_lt || op == X_le, equal = op == X_le || op == X_ge;
    return dim_addi(n->dims, less ? dim_sub(n->dims, y, x) : dim_sub(n->dims, x, y), equal);
}

// ---- the study ----
static bool holds_integer(const Value *v) {
    return (v->type == DT_i32 || v->type == DT_i64) && (v->rank == 0 || (v->rank == 1 && dim_is(v->shape[0], 1)));
}

// NULL when param is no single integer.
static const Dim *give_symbol(ImportNode *n, Value *param) {
    if (!holds_integer(param)) return NULL;
    const Dim **content = ARENA_ARRAY(n->arena, const Dim *, 1);
    content[0] = dim_symbol(n->dims, "carried", SYM_DATA, NULL, NULL);
    param->content = content;
    param->ncontent = 1;
    return content[0];
}

// By how much carried value i grows in an iteration: false when it is not by a constant.
static bool step_of(const Study *y, int i, int64_t *step) {
    const Dim *next = number_of(y->n, y->yield[i]);
    return next && dim_is_int(dim_sub(y->n->dims, next, y->symbol[i]), step);
}

// d, over the carried symbols, as D + g*k.
static bool by_iteration(const Study *y, const Dim *d, const Dim **start, int64_t *slope) {
    DimTable *t = y->n->dims;
    const Dim *per_iteration, *others;
    *slope = 0;
    if (dim_has_symbol(d, y->iteration)) {
        if (!dim_linear(t, d, y->iteration, &per_iteration, &others) || !dim_is_int(per_iteration, slope)) return false;
        d = others;
    }
    for (int i = 0; i < y->s->ncarried; i++) {
        const Dim *symbol = y->symbol[i], *coeff, *rest, *first = symbol ? number_of(y->n, y->s->init[i]) : NULL;
        int64_t c, step = 0;
        if (!symbol || !dim_has_symbol(d, symbol)) continue;
        if (!first || (!y->s->fixed[i] && !step_of(y, i, &step)) || !dim_linear(t, d, symbol, &coeff, &rest) || !dim_is_int(coeff, &c))
            return false;
        *slope += c * step;
        d = dim_add(t, rest, dim_mul(t, coeff, first));
    }
    *start = d;
    return true;
}

static void count(Study *y, LoopStudy *s, const Value *cond) {
    ImportNode *n = y->n;
    DimTable *t = n->dims;
    const Dim *after = positive_when(n, cond), *start;
    int64_t slope, known;
    if (!after || !by_iteration(y, after, &start, &slope) || slope >= 0) return;
    const Dim *zero = dim_int(t, 0), *down = dim_int(t, -slope), *before = positive_when(n, s->cond), *times;
    if (value_content_int(s->cond, 0, &known) && known)
        times = dim_addi(t, dim_max(t, zero, dim_ceildiv(t, start, down)), 1);
    else if (before && dim_eq(t, before, dim_addi(t, start, -slope)) == YES)
        times = dim_max(t, zero, dim_ceildiv(t, before, down));
    else
        return;
    bool limited = !value_content_int(s->trip, 0, &known) || known != -1;
    if (limited && !s->trip->content) return;
    if (limited) times = dim_min(t, times, s->trip->content[0]);
    int64_t one = 1;
    s->trip = g_dims(&n->b, -1, &times);
    s->cond = g_const_ints(&n->b, DT_bool, -1, &one);
    s->counted = true;
}

bool loop_study(ImportNode *n, LoopStudy *s) {
    Graph *g = n->b.g;
    int onnx = g->nonnx, symbols = g->symbols.n, nargs = 2, nouts;
    Region *r = graph_region_new(g, NULL), *around = n->b.region;
    Study y = {.n = n, .s = s, .symbol = ARENA_ARRAY(n->arena, const Dim *, s->ncarried + 1)};
    Value **args = ARENA_ARRAY(n->arena, Value *, 2 + s->ncarried), **outs;
    n->b.region = r;
    args[0] = graph_param(r, NULL, DT_i64, 0, NULL);
    y.iteration = give_symbol(n, args[0]);
    args[1] = graph_param(r, NULL, DT_bool, 0, NULL);
    for (int i = 0; i < s->ncarried; i++) {
        args[nargs] = graph_param(r, NULL, s->init[i]->type, s->init[i]->rank, (const Dim *const *)s->init[i]->shape);
        y.symbol[i] = give_symbol(n, args[nargs++]);
    }
    bool ok = attr_inline(n, "body", nargs, args, &nouts, &outs);
    n->b.region = around;
    g->nonnx = g->onnx_names.n = onnx;
    g->symbols.n = symbols;
    if (!ok || nouts < 1 + s->ncarried) return ok; // the import for good says what is wrong
    y.yield = outs + 1;
    for (int i = 0; i < s->ncarried; i++) s->fixed[i] = y.yield[i] == args[2 + i];
    count(&y, s, outs[0]);
    return true;
}
