// Attention: one kernel, a row of the output after the other.
//
//   for b, h, s:  row[t] = score(scale * q·k[t])
//                 m = max row, row[t] = exp(row[t] - m), l = sum row
//                 row[t] = prob(row[t] / l)
//                 out[f] = sum over t of row[t] * v[t, f]
// A row of minus infinities gives zeros: there m counts as 0 and l as 1. The rows are a temp of [B, H, S, T] in f32 (f64 for f64).
#include "lower.h"

typedef struct {
    const Node *n;
    LoopBuffer *rows;        // the kernel's parameter
    const Dim *const *shape; // [B, H, S, T]
    const Dim *idx[4];       // b, h, s of the row, then the element at hand
    DType type;
    enum { TERM_PRODUCT, TERM_ROW, TERM_VALUE } term;
    const Dim *column; // f, of TERM_VALUE
} Row;

static const Dim *row_position(Lower *l, const Row *r, const Dim *t) {
    DimTable *d = l->g->dims;
    const Dim *at = dim_add(d, dim_mul(d, r->idx[0], r->shape[1]), r->idx[1]);
    at = dim_add(d, dim_mul(d, at, r->shape[2]), r->idx[2]);
    return dim_add(d, dim_mul(d, at, r->shape[3]), t);
}

static const Expr *row_load(Lower *l, const Row *r, const Dim *t) {
    return x_load(l->p->arena, &r->rows->var, row_position(l, r, t));
}

// What a reduction over t (or, for the product, over e) sums or compares.
static const Expr *row_term(Place at, const void *ctx, const Dim *const *syms) {
    const Row *r = ctx;
    Lower *l = at.kb->l;
    Arena *a = l->p->arena;
    if (r->term == TERM_ROW) return row_load(l, r, syms[0]);
    if (r->term == TERM_VALUE) {
        const Dim *v[] = {r->idx[0], r->idx[1], syms[0], r->column};
        return x_op2(a, X_mul, row_load(l, r, syms[0]), x_cast(a, r->type, lower_element(at, r->n->in[2], v)));
    }
    const Dim *q[] = {r->idx[0], r->idx[1], r->idx[2], syms[0]}, *k[] = {r->idx[0], r->idx[1], r->idx[3], syms[0]};
    const Expr *x = x_cast(a, r->type, lower_element(at, r->n->in[0], q));
    return x_op2(a, X_mul, x, x_cast(a, r->type, lower_element(at, r->n->in[1], k)));
}

// A loop over t; r->idx[3] becomes its symbol.
static Place over_keys(Place at, Row *r) {
    Lower *l = at.kb->l;
    Stmt *f = loop_for(l->p, at.block, "t", dim_int(l->g->dims, 0), r->shape[3], LOOP_PAR);
    r->idx[3] = f->sym;
    return (Place){at.kb, &f->body, NULL};
}

static void row_store(Place at, const Row *r, const Expr *e) {
    loop_store(at.kb->l->p, at.block, r->rows, row_position(at.kb->l, r, r->idx[3]), e);
}

static const Expr *named(Place at, const char *stem, const Expr *e) {
    return x_var(at.kb->l->p->arena, loop_let(at.kb->l->p, at.block, kernel_local(at.kb, stem), e));
}

// a0 is x; a1 … are the node's further inputs.
static const Expr *row_body(Place at, const Row *r, const Expr *body, const Expr *x) {
    const Expr **args = ARENA_ARRAY(at.kb->l->p->arena, const Expr *, r->n->nin);
    args[0] = x;
    for (int i = 3; i < r->n->nin; i++) args[i - 2] = lower_broadcast(at, r->n->in[i], 4, r->shape, r->idx);
    return lower_body(at, r->n, body, args, 4, r->shape, r->idx);
}

static void score_row(Place at, Row *r) {
    Arena *a = at.kb->l->p->arena;
    Place in = over_keys(at, r);
    r->term = TERM_PRODUCT;
    const Expr *product = lower_reduce(in, "sum", r->type, 1, (const Dim *const *)&r->n->in[0]->shape[3], row_term, r);
    const Expr *scaled = named(in, "score", x_op2(a, X_mul, product, x_float(a, r->type, r->n->scale)));
    row_store(in, r, row_body(in, r, r->n->score, scaled));
}

static void normalise_row(Place at, Row *r) {
    Arena *a = at.kb->l->p->arena;
    r->term = TERM_ROW;
    const Expr *top = lower_reduce(at, "max", r->type, 1, &r->shape[3], row_term, r), *zero = x_float(a, r->type, 0);
    const Expr *masked = x_op2(a, X_eq, top, x_float(a, r->type, -__builtin_inf()));
    const Expr *m = named(at, "m", x_op3(a, X_select, masked, zero, top));
    Place in = over_keys(at, r);
    row_store(in, r, x_op1(a, X_exp, x_op2(a, X_sub, row_load(at.kb->l, r, r->idx[3]), m)));
    const Expr *sum = lower_reduce(at, "sum", r->type, 1, &r->shape[3], row_term, r);
    const Expr *all = named(at, "l", x_op3(a, X_select, x_op2(a, X_eq, sum, zero), x_float(a, r->type, 1), sum));
    in = over_keys(at, r);
    const Expr *p = named(in, "p", x_op2(a, X_div, row_load(at.kb->l, r, r->idx[3]), all));
    row_store(in, r, row_body(in, r, r->n->prob, p));
}

static void weigh_values(Place at, Row *r, LoopBuffer *out) {
    Lower *l = at.kb->l;
    const Value *v = r->n->out[0];
    Stmt *f = loop_for(l->p, at.block, "f", dim_int(l->g->dims, 0), v->shape[3], LOOP_PAR);
    r->term = TERM_VALUE;
    r->column = f->sym;
    const Expr *sum = lower_reduce((Place){at.kb, &f->body, NULL}, "sum", r->type, 1, &r->shape[3], row_term, r);
    const Dim *idx[] = {r->idx[0], r->idx[1], r->idx[2], f->sym};
    loop_store(l->p, &f->body, out, lower_flat(l, v, idx), x_cast(l->p->arena, v->type, sum));
}

void lower_attention(Lower *l, Block *main, const Node *n) {
    const Value *q = n->in[0], *k = n->in[1];
    const Dim *shape[] = {q->shape[0], q->shape[1], q->shape[2], k->shape[2]};
    DType type = accumulator_type(q->type);
    LoopBuffer *out = lower_buffer(l, n->out[0]), *rows = lower_temp(l, "scores", type, 4, shape);
    KernelBuild kb = kernel_begin(l, n, "attention");
    Row r = {.n = n, .shape = shape, .type = type, .rows = kernel_param(&kb, rows, true, true)};
    LoopBuffer *result = kernel_param(&kb, out, false, true);
    Place at = {&kb, lower_par_nest(l, &kb.k->body, 3, shape, NULL, r.idx), NULL};
    score_row(at, &r);
    normalise_row(at, &r);
    weigh_values(at, &r, result);
    kernel_end(&kb, main);
}
