// Random bodies of map operations. Functions that could blow up a last bit's difference (comparison, rounding, division, cast to integer)
// get exact operands only; divisors of integers are odd and shift counts small.
#include "prop.h"

typedef struct {
    Gen *g;
    const Item *in;
    int nin;
    const Value *like; // whose axes a body may mention
    bool exact;        // all of in are
} Body;

static const XOp float_any[] = {X_add, X_mul, X_min, X_max, X_sub, X_neg, X_abs, X_tanh, X_sigmoid};
static const XOp float_exact[] = {X_add, X_sub, X_mul, X_div, X_min, X_max, X_neg, X_abs, X_sqrt, X_floor, X_ceil, X_trunc, X_rint, X_fmod,
    X_exp, X_exp2, X_expm1, X_log, X_log1p, X_sin, X_cos, X_atan, X_tanh, X_erf, X_sigmoid, X_pow, X_asinh, X_fma};
static const XOp int_ops[] = {
    X_add, X_sub, X_mul, X_min, X_max, X_and, X_or, X_xor, X_not, X_shl, X_shr, X_div, X_rem, X_floordiv, X_floormod, X_neg, X_abs};
static const XOp bool_ops[] = {X_and, X_or, X_xor, X_not};
static const XOp compares[] = {X_eq, X_ne, X_lt, X_le, X_gt, X_ge};
#define PICK(g, table) ((table)[gen_int((g), 0, (int)(sizeof(table) / sizeof *(table)) - 1)])

static const Expr *expr(Body *b, DType t, int depth);

static const Expr *literal(Body *b, DType t) {
    static const double values[] = {0.0, 1.0, -1.0, 2.0, 0.5, -3.25, 7.0};
    return x_const(b->g->a, scalar_float(t, PICK(b->g, values)), 1);
}

static const Expr *leaf(Body *b, DType t) {
    Gen *g = b->g;
    if (b->nin == 0 || gen_chance(g, 12)) return literal(b, t);
    if (b->like->rank && t != DT_bool && gen_chance(g, 12)) {
        int axis = gen_int(g, 0, b->like->rank - 1);
        return x_cast(g->a, t, x_dim(g->a, dim_axis(g->t, axis, b->like->shape[axis])));
    }
    int k = gen_int(g, 0, b->nin - 1);
    const Item *i = &b->in[k];
    const Expr *x = x_arg(g->a, k, i->v->type);
    bool discrete = dtype_is_float(i->v->type) && !dtype_is_float(t);
    return discrete && !b->exact ? literal(b, t) : x_cast(g->a, t, x);
}

static const Expr *compare(Body *b, int depth) {
    DType t = gen_chance(b->g, 50) ? DT_f32 : DT_i32;
    const Expr *x = expr(b, t, depth - 1);
    return x_op2(b->g->a, PICK(b->g, compares), x, expr(b, t, depth - 1));
}

static const Expr *apply(Body *b, XOp op, DType t, int depth) {
    Arena *a = b->g->a;
    const Expr *x[3];
    int n = xop_info(op)->arity;
    for (int i = 0; i < n; i++) x[i] = expr(b, t, depth - 1);
    if (op == X_div || op == X_rem || op == X_floordiv || op == X_floormod)
        if (!dtype_is_float(t)) x[1] = x_op2(a, X_or, x[1], x_int(a, t, 1));
    if (op == X_shl || op == X_shr) x[1] = x_op2(a, X_and, x[1], x_int(a, t, 63));
    return n == 1 ? x_op1(a, op, x[0]) : n == 2 ? x_op2(a, op, x[0], x[1]) : x_op3(a, op, x[0], x[1], x[2]);
}

static const Expr *expr(Body *b, DType t, int depth) {
    Gen *g = b->g;
    if (depth <= 0 || gen_chance(g, 10)) return leaf(b, t);
    if (t == DT_bool) return b->exact && gen_chance(g, 60) ? compare(b, depth) : apply(b, PICK(g, bool_ops), t, depth);
    if (b->exact && gen_chance(g, 15)) {
        const Expr *c = compare(b, depth), *x = expr(b, t, depth - 1);
        return x_op3(g->a, X_select, c, x, expr(b, t, depth - 1));
    }
    if (dtype_is_float(t)) return apply(b, b->exact ? PICK(g, float_exact) : PICK(g, float_any), t, depth);
    XOp op = PICK(g, int_ops);
    if (!dtype_is_signed(t) && (op == X_neg || op == X_abs)) op = X_not;
    return apply(b, op, t, depth);
}

const Expr *gen_body(Gen *g, DType t, const Item *in, int nin, const Value *like, bool *exact) {
    Body b = {g, in, nin, like, true};
    for (int i = 0; i < nin; i++) b.exact &= in[i].exact;
    *exact = b.exact;
    return expr(&b, t, gen_int(g, 1, 4));
}
