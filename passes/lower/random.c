// Random elements: functions of the environment's seed, the node's number and the element's number, as ir/graph_eval_random.c defines them.
//
// The seed is read in main, as a size, and goes into the kernel with the other sizes. There
//   key = splitmix64(seed + 0x9e3779b97f4a7c15 * node), bits(i) = splitmix64(key + i), uniform(i) = the top 53 bits of bits(i) over 2^53
// are expressions of u64, so the elements are independent and any number of threads gives the same ones.
#include "lower.h"

#include <string.h>

static const uint64_t golden = 0x9e3779b97f4a7c15u;

static const Expr *u64(Arena *a, uint64_t v) {
    return x_const(a, (Scalar){.type = DT_u64, .u = v}, 1);
}

static const Expr *shift_mix(Arena *a, const Expr *z, uint64_t by) {
    return x_op2(a, X_xor, z, x_op2(a, X_shr, z, u64(a, by)));
}

static const Expr *splitmix64(Arena *a, const Expr *z) {
    z = x_op2(a, X_add, z, u64(a, golden));
    z = x_op2(a, X_mul, shift_mix(a, z, 30), u64(a, 0xbf58476d1ce4e5b9u));
    z = x_op2(a, X_mul, shift_mix(a, z, 27), u64(a, 0x94d049bb133111ebu));
    return shift_mix(a, z, 31);
}

// f64 in 0..1, 1 excluded.
static const Expr *uniform(Arena *a, const Expr *key, const Expr *i) {
    const Expr *bits = splitmix64(a, x_op2(a, X_add, key, i));
    return x_op2(a, X_mul, x_cast(a, DT_f64, x_op2(a, X_shr, bits, u64(a, 11))), x_float(a, DT_f64, 0x1p-53));
}

// Box-Muller, of two uniform numbers.
static const Expr *normal(Arena *a, const Expr *key, const Expr *i) {
    const Expr *twice = x_op2(a, X_mul, i, u64(a, 2));
    const Expr *u = x_op2(a, X_sub, x_float(a, DT_f64, 1), uniform(a, key, twice));
    const Expr *v = uniform(a, key, x_op2(a, X_add, twice, u64(a, 1)));
    const Expr *radius = x_op1(a, X_sqrt, x_op2(a, X_mul, x_float(a, DT_f64, -2), x_op1(a, X_log, u)));
    return x_op2(a, X_mul, radius, x_op1(a, X_cos, x_op2(a, X_mul, x_float(a, DT_f64, 6.283185307179586), v)));
}

static const Expr *affine(Arena *a, double offset, double scale, const Expr *x) {
    return x_op2(a, X_add, x_float(a, DT_f64, offset), x_op2(a, X_mul, x_float(a, DT_f64, scale), x));
}

// exp of the weight of class `c` in row `row`.
static const Expr *class_weight(Place at, const Value *p, const Dim *row, const Dim *c) {
    Arena *a = at.kb->l->p->arena;
    const Dim *idx[] = {row, c};
    return x_op1(a, X_exp, x_cast(a, DT_f64, lower_element(at, p, idx)));
}

// The class whose stretch of the cumulated weights holds u: as many as end at or before u, the last one not counted.
static const Expr *pick_class(Place at, const Value *p, const Dim *row, const Expr *u) {
    Lower *l = at.kb->l;
    Arena *a = l->p->arena;
    const Dim *zero = dim_int(l->g->dims, 0), *classes = p->shape[1];
    Var *sum = loop_var(l->p, at.block, kernel_local(at.kb, "sum"), x_float(a, DT_f64, 0));
    Stmt *f = loop_for(l->p, at.block, kernel_local(at.kb, "c"), zero, classes, LOOP_SEQ);
    Place in = {at.kb, &f->body, NULL};
    loop_set(l->p, in.block, sum, x_op2(a, X_add, x_var(a, sum), class_weight(in, p, row, f->sym)));
    Var *end = loop_let(l->p, at.block, kernel_local(at.kb, "end"), x_op2(a, X_mul, u, x_var(a, sum)));
    Var *cumulated = loop_var(l->p, at.block, kernel_local(at.kb, "at"), x_float(a, DT_f64, 0));
    Var *class = loop_var(l->p, at.block, kernel_local(at.kb, "class"), x_int(a, DT_i64, 0));
    f = loop_for(l->p, at.block, kernel_local(at.kb, "c"), zero, dim_addi(l->g->dims, classes, -1), LOOP_SEQ);
    in.block = &f->body;
    loop_set(l->p, in.block, cumulated, x_op2(a, X_add, x_var(a, cumulated), class_weight(in, p, row, f->sym)));
    const Expr *past = x_cast(a, DT_i64, x_op2(a, X_le, x_var(a, cumulated), x_var(a, end)));
    loop_set(l->p, in.block, class, x_op2(a, X_add, x_var(a, class), past));
    return x_var(a, class);
}

static const Expr *element(Place at, const Node *n, const Expr *key, const Dim *const *idx) {
    Lower *l = at.kb->l;
    Arena *a = l->p->arena;
    double p0 = n->params.n > 0 ? n->params.data[0] : 0, p1 = n->params.n > 1 ? n->params.data[1] : 1;
    const Expr *i = x_cast(a, DT_u64, x_dim(a, lower_flat(l, n->out[0], idx)));
    if (!strcmp(n->kind, "normal")) return affine(a, p0, p1, normal(a, key, i));
    const Expr *u = uniform(a, key, i);
    if (!strcmp(n->kind, "uniform")) return affine(a, p0, p1 - p0, u);
    if (!strcmp(n->kind, "multinomial")) return pick_class(at, n->in[0], idx[0], u);
    return x_op2(a, X_lt, u, x_cast(a, DT_f64, lower_element(at, n->in[0], idx)));
}

void lower_random(Lower *l, Block *main, const Node *n) {
    Arena *a = l->p->arena;
    const Value *v = n->out[0];
    const Dim *seed = graph_symbol(l->g, "seed", SYM_DATA, NULL, NULL), *idx[GRAPH_MAX_RANK];
    loop_size(l->p, main, seed, x_cast(a, DT_idx, x_seed(a)));
    LoopBuffer *out = lower_buffer(l, v);
    KernelBuild kb = kernel_begin(l, n, "random");
    LoopBuffer *param = kernel_param(&kb, out, false, true);
    const Expr *start = x_op2(a, X_add, x_cast(a, DT_u64, x_dim(a, seed)), u64(a, golden * (uint64_t)n->onnx_id));
    const Expr *key = x_var(a, loop_let(l->p, &kb.k->body, kernel_local(&kb, "key"), splitmix64(a, start)));
    Place at = {&kb, lower_par_nest(l, &kb.k->body, v->rank, (const Dim *const *)v->shape, NULL, idx), NULL};
    const Expr *e = element(at, n, key, idx);
    loop_store(l->p, at.block, param, lower_flat(l, v, idx), x_cast(a, v->type, e));
    kernel_end(&kb, main);
}
