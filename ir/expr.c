// Expressions: the table of operations, the builders with their exact foldings, rewriting and visiting.
//
// Folding is limited to what holds bit for bit (NaN as a class): constants through strip_op, so that the compiler's arithmetic is the
// generated code's, and the identities listed in simplify_*. Visits and rewrites are iterative and meet each shared node once.
#include "expr.h"
#include "strip.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const XOpInfo infos[X_COUNT] = {
    [X_const] = {"const", 0, XC_LEAF, "", ""},
    [X_arg] = {"arg", 0, XC_LEAF, "", ""},
    [X_dim] = {"dim", 0, XC_LEAF, "", ""},
    [X_seed] = {"seed", 0, XC_LEAF, "", ""},
    [X_var] = {"var", 0, XC_LEAF, "", ""},
    [X_load] = {"load", -1, XC_MEM, "", ""},
    [X_splat] = {"splat", 1, XC_LANE, "", ""},
    [X_iota] = {"iota", 0, XC_LANE, "", ""},
    [X_shuffle] = {"shuffle", -1, XC_LANE, "", ""},
    [X_table] = {"table", 2, XC_LANE, "", ""},
    [X_lane] = {"lane", 1, XC_LANE, "", ""},
    [X_insert] = {"insert", 2, XC_LANE, "", ""},
    [X_hreduce] = {"hreduce", 1, XC_LANE, "", ""},
    [X_compress] = {"compress", 2, XC_LANE, "", ""},
    [X_expand] = {"expand", 2, XC_LANE, "", ""},
    [X_popcount] = {"popcount", 1, XC_LANE, "", ""},
    [X_dot4] = {"dot4", 3, XC_LANE, "", ""},
    [X_widen] = {"widen", 1, XC_LANE, "", ""},
    [X_index] = {"index", 1, XC_LANE, "", ""},
    [X_isa] = {"isa", -1, XC_LANE, "", ""},
#define X(name, arity, cls, cf, ci, llvm) [X_##name] = {#name, arity, XC_##cls, cf, ci},
#include "scalar.def"
#undef X
};

const XOpInfo *xop_info(XOp op) {
    return &infos[op];
}

XOp xop_parse(const char *name, size_t n) {
    for (int i = 0; i < X_COUNT; i++)
        if (strlen(infos[i].name) == n && memcmp(infos[i].name, name, n) == 0) return (XOp)i;
    return X_COUNT;
}

// ---- nodes ----

const Expr *x_node(Arena *a, Expr e) {
    if (e.n == 0)
        for (int i = 0; i < 3; i++)
            if (e.a[i]) e.n = i + 1;
    return arena_copy(a, &e, sizeof e);
}

const Expr *x_const(Arena *a, Scalar s, int lanes) {
    return x_node(a, (Expr){.op = X_const, .type = vtype(s.type, lanes), .k_scalar = s});
}
const Expr *x_int(Arena *a, DType t, int64_t v) {
    return x_const(a, scalar_int(t, v), 1);
}
const Expr *x_float(Arena *a, DType t, double v) {
    return x_const(a, scalar_float(t, v), 1);
}
const Expr *x_arg(Arena *a, int k, DType t) {
    return x_node(a, (Expr){.op = X_arg, .type = vtype(t, 1), .k = k});
}

const Expr *x_dim(Arena *a, const Dim *d) {
    int64_t v;
    if (dim_is_int(d, &v)) return x_int(a, DT_idx, v);
    return x_node(a, (Expr){.op = X_dim, .type = vtype(DT_idx, 1), .dim = d});
}

const Expr *x_seed(Arena *a) {
    return x_node(a, (Expr){.op = X_seed, .type = vtype(DT_u64, 1)});
}

const Expr *x_var(Arena *a, Var *v) {
    assert(v->kind == VAR_LET || v->kind == VAR_MUT);
    return x_node(a, (Expr){.op = X_var, .type = v->type, .var = v});
}

const Expr *x_tile(Arena *a, Var *v, const Dim *const *idx) {
    assert(v->kind == VAR_TILE);
    Expr e = {.op = X_var, .type = v->type, .var = v};
    for (int i = 0; i < v->ntile; i++) e.idx[i] = idx[i];
    return x_node(a, e);
}

const Expr *x_load(Arena *a, Var *buf, const Dim *index) {
    return x_load_lanes(a, buf, index, 1, 0, NULL, NULL);
}

const Expr *x_load_lanes(Arena *a, Var *buf, const Dim *index, int lanes, int64_t stride, const Expr *offsets, const Expr *mask) {
    assert(buf->kind == VAR_BUFFER && (!offsets || offsets->type.lanes == lanes) && (!mask || mask->type.lanes == lanes));
    Expr e = {.op = X_load, .type = vtype(buf->type.type, lanes), .var = buf, .dim = index, .k = lanes == 1 ? 0 : stride};
    e.a[0] = offsets;
    e.a[1] = mask;
    return x_node(a, e);
}

const Expr *x_load_as(Arena *a, Var *buf, VType type, const Dim *index) {
    assert(buf->kind == VAR_BUFFER);
    return x_node(a, (Expr){.op = X_load, .type = type, .var = buf, .dim = index, .k = type.lanes > 1});
}

const Expr *x_splat(Arena *a, const Expr *x, int lanes) {
    if (lanes == x->type.lanes) return x;
    assert(x->type.lanes == 1);
    if (x->op == X_const) return x_const(a, x->k_scalar, lanes);
    return x_node(a, (Expr){.op = X_splat, .type = vtype(x->type.type, lanes), .n = 1, .a = {x}});
}

// ---- folding ----

static bool is_const(const Expr *e) {
    return e && e->op == X_const;
}

// e is the constant v (for floats the sign of zero counts).
static bool is_value(const Expr *e, double v) {
    if (!is_const(e)) return false;
    if (dtype_is_float(e->type.type)) return e->k_scalar.f == v && signbit(e->k_scalar.f) == signbit(v);
    return scalar_same(e->k_scalar, scalar_int(e->type.type, (int64_t)v));
}

// The constant of the operation on constants; NULL when an operand varies or the type has no arithmetic.
static const Expr *fold_constant(Arena *a, const Expr *e) {
    for (int i = 0; i < e->n; i++)
        if (!is_const(e->a[i]) || dtype_info(e->a[i]->type.type)->cls == 'S' || dtype_info(e->a[i]->type.type)->cls == 'C') return NULL;
    uint64_t in[3] = {0, 0, 0}, out = 0;
    for (int i = 0; i < e->n; i++) scalar_write(e->a[i]->k_scalar, &in[i]);
    DType operand = e->a[e->op == X_select ? 1 : 0]->type.type;
    strip_op(e->op, operand, e->type.type, 1, &out, &in[0], &in[1], &in[2]);
    return x_const(a, scalar_read(e->type.type, &out), e->type.lanes);
}

// Every value of `from` is a value of `to`.
static bool cast_is_exact(DType from, DType to) {
    const DTypeInfo *f = dtype_info(from), *t = dtype_info(to);
    if (f->cls == 'B') return t->cls == 'I' || t->cls == 'U' || t->cls == 'F';
    if (t->cls == 'F') {
        if (to != DT_f32 && to != DT_f64) return false;
        int digits = to == DT_f32 ? 24 : 53;
        return f->cls == 'F' ? f->bits <= t->bits : f->bits - (f->cls == 'I') <= digits;
    }
    if (f->cls == 'U') return t->cls == 'U' ? t->bits >= f->bits : t->cls == 'I' && t->bits > f->bits;
    return f->cls == 'I' && t->cls == 'I' && t->bits >= f->bits;
}

static const Expr *simplify_cast(Arena *a, const Expr *e) {
    const Expr *x = e->a[0];
    DType to = e->type.type, from = x->type.type;
    if (to == from) return x;
    if (e->op == X_bits) return x->op == X_bits ? x_bits(a, to, x->a[0]) : NULL;
    if (x->op != X_cast || !cast_is_exact(x->a[0]->type.type, from)) return NULL;
    DType source = x->a[0]->type.type;
    if (source == to) return x->a[0];
    bool floats = dtype_is_float(source) && dtype_is_float(from) && dtype_is_float(to);
    bool ints = dtype_is_int(source) && dtype_is_int(from) && dtype_is_int(to);
    if (!floats && !ints) return NULL;
    return e->op == X_casts ? x_casts(a, to, x->a[0]) : x_cast(a, to, x->a[0]);
}

static const Expr *zero_like(Arena *a, const Expr *x) {
    return x_const(a, scalar_int(x->type.type, 0), x->type.lanes);
}

static bool all_ones(const Expr *e) {
    if (!is_const(e)) return false;
    return e->type.type == DT_bool ? e->k_scalar.i != 0 : scalar_same(e->k_scalar, scalar_int(e->type.type, -1));
}

static const Expr *simplify_float(Arena *a, const Expr *e) {
    const Expr *x = e->a[0], *y = e->a[1], *z = e->a[2];
    switch (e->op) {
    case X_add: return is_value(y, -0.0) ? x : is_value(x, -0.0) ? y : NULL;
    case X_sub: return is_value(y, 0.0) ? x : NULL;
    case X_mul: return is_value(y, 1) ? x : is_value(x, 1) ? y : NULL;
    case X_div: return is_value(y, 1) ? x : NULL;
    case X_fma:
        if (is_value(z, -0.0)) return x_op2(a, X_mul, x, y);
        return is_value(x, 1) ? x_op2(a, X_add, y, z) : is_value(y, 1) ? x_op2(a, X_add, x, z) : NULL;
    default: return NULL;
    }
}

static const Expr *simplify_int(Arena *a, const Expr *e) {
    const Expr *x = e->a[0], *y = e->a[1], *z = e->a[2];
    switch (e->op) {
    case X_add:
    case X_or:
    case X_xor:
        if (e->op == X_or && (all_ones(x) || all_ones(y))) return all_ones(x) ? x : y;
        return is_value(y, 0) ? x : is_value(x, 0) ? y : NULL;
    case X_sub: return is_value(y, 0) ? x : x == y ? zero_like(a, x) : NULL;
    case X_shl:
    case X_shr: return is_value(y, 0) ? x : NULL;
    case X_mul:
        if (is_value(x, 0) || is_value(y, 0)) return zero_like(a, x);
        return is_value(y, 1) ? x : is_value(x, 1) ? y : NULL;
    case X_div:
    case X_floordiv: return is_value(y, 1) ? x : NULL;
    case X_rem:
    case X_floormod: return is_value(y, 1) ? zero_like(a, x) : NULL;
    case X_and:
        if (is_value(x, 0) || is_value(y, 0)) return zero_like(a, x);
        return all_ones(y) ? x : all_ones(x) ? y : NULL;
    case X_fma: return is_value(z, 0) ? x_op2(a, X_mul, x, y) : is_value(x, 1) ? x_op2(a, X_add, y, z) : NULL;
    default: return NULL;
    }
}

static const Expr *simplify(Arena *a, const Expr *e) {
    const Expr *x = e->a[0];
    if (xop_info(e->op)->cls == XC_CAST) return simplify_cast(a, e);
    if (e->op == X_select) {
        if (is_const(x)) return x->k_scalar.i ? e->a[1] : e->a[2];
        return e->a[1] == e->a[2] ? e->a[1] : NULL;
    }
    if ((e->op == X_neg || e->op == X_not) && x->op == e->op) return x->a[0];
    if ((e->op == X_min || e->op == X_max || e->op == X_and || e->op == X_or) && x == e->a[1]) return x;
    return dtype_is_float(x->type.type) ? simplify_float(a, e) : simplify_int(a, e);
}

static const Expr *finish(Arena *a, Expr e) {
    const Expr *r = fold_constant(a, &e);
    if (!r) r = simplify(a, &e);
    return r ? r : x_node(a, e);
}

// ---- builders of scalar functions ----

static const Expr *build_op(Arena *a, XOp op, int n, const Expr *const *x) {
    assert(xop_info(op)->arity == n && xop_info(op)->cls >= XC_ARITH && xop_info(op)->cls != XC_CAST);
    int lanes = 1;
    for (int i = 0; i < n; i++)
        if (x[i]->type.lanes > lanes) lanes = x[i]->type.lanes;
    Expr e = {.op = op, .n = n};
    for (int i = 0; i < n; i++) e.a[i] = x_splat(a, x[i], lanes);
    int first = op == X_select;
    for (int i = first + 1; i < n; i++) assert(x[i]->type.type == x[first]->type.type);
    assert(op != X_select || x[0]->type.type == DT_bool);
    e.type = vtype(xop_info(op)->cls == XC_CMP ? DT_bool : x[first]->type.type, lanes);
    return finish(a, e);
}

const Expr *x_op1(Arena *a, XOp op, const Expr *x) {
    return build_op(a, op, 1, (const Expr *[]){x});
}
const Expr *x_op2(Arena *a, XOp op, const Expr *x, const Expr *y) {
    return build_op(a, op, 2, (const Expr *[]){x, y});
}
const Expr *x_op3(Arena *a, XOp op, const Expr *x, const Expr *y, const Expr *z) {
    return build_op(a, op, 3, (const Expr *[]){x, y, z});
}

static const Expr *build_cast(Arena *a, XOp op, DType t, const Expr *x) {
    assert(op != X_bits || dtype_bytes(t) == dtype_bytes(x->type.type));
    return finish(a, (Expr){.op = op, .type = vtype(t, x->type.lanes), .n = 1, .a = {x}});
}

const Expr *x_cast(Arena *a, DType t, const Expr *x) {
    return build_cast(a, X_cast, t, x);
}
const Expr *x_casts(Arena *a, DType t, const Expr *x) {
    return build_cast(a, X_casts, t, x);
}
const Expr *x_bits(Arena *a, DType t, const Expr *x) {
    return build_cast(a, X_bits, t, x);
}

const Expr *x_rebuild(Arena *a, const Expr *e, const Expr *const *operands) {
    XClass cls = xop_info(e->op)->cls;
    if (cls == XC_CAST) return build_cast(a, e->op, e->type.type, operands[0]);
    if (cls >= XC_ARITH) return build_op(a, e->op, e->n, operands);
    if (e->op == X_splat) return x_splat(a, operands[0], e->type.lanes);
    Expr copy = *e;
    for (int i = 0; i < e->n; i++) copy.a[i] = operands[i];
    return x_node(a, copy);
}

// ---- walks ----

// A set of nodes with a value each: open addressing, in an arena of its own.
typedef struct {
    Arena *arena;
    const Expr **key;
    const Expr **value;
    int n, cap;
} NodeMap;

static int map_slot(const NodeMap *m, const Expr *e) {
    uint64_t h = (uint64_t)(uintptr_t)e * 0x9e3779b97f4a7c15ull;
    int i = (int)(h >> 40) & (m->cap - 1);
    while (m->key[i] && m->key[i] != e) i = (i + 1) & (m->cap - 1);
    return i;
}

static void map_put(NodeMap *m, const Expr *e, const Expr *value) {
    if (2 * (m->n + 1) > m->cap) {
        NodeMap old = *m;
        m->cap = old.cap ? 2 * old.cap : 64;
        m->key = ARENA_ARRAY(m->arena, const Expr *, m->cap);
        m->value = ARENA_ARRAY(m->arena, const Expr *, m->cap);
        for (int i = 0; i < old.cap; i++) {
            if (!old.key[i]) continue;
            int to = map_slot(m, old.key[i]);
            m->key[to] = old.key[i];
            m->value[to] = old.value[i];
        }
    }
    int i = map_slot(m, e);
    if (!m->key[i]) m->n++;
    m->key[i] = e;
    m->value[i] = value;
}

// NULL when e is not in the map.
static const Expr *map_get(const NodeMap *m, const Expr *e) {
    return m->cap ? m->value[map_slot(m, e)] : NULL;
}

typedef VEC(const Expr *) ExprVec;

// The distinct nodes of root that are not yet in `seen`, operands first; `seen` maps each of them to itself afterwards.
static void post_order(NodeMap *seen, const Expr *root, ExprVec *out) {
    if (map_get(seen, root)) return;
    ExprVec stack = {0};
    vec_push(seen->arena, &stack, root);
    while (stack.n) {
        const Expr *e = stack.data[stack.n - 1];
        int pending = 0;
        for (int i = e->n - 1; i >= 0 && !map_get(seen, e); i--) {
            if (!e->a[i] || map_get(seen, e->a[i])) continue;
            vec_push(seen->arena, &stack, e->a[i]);
            pending++;
        }
        if (pending) continue;
        stack.n--;
        if (map_get(seen, e)) continue;
        map_put(seen, e, e);
        vec_push(seen->arena, out, e);
    }
}

void expr_visit_all(const Expr *const *roots, int n, void (*fn)(void *ctx, const Expr *e), void *ctx) {
    NodeMap seen = {.arena = arena_new()};
    ExprVec order = {0};
    for (int i = 0; i < n; i++) post_order(&seen, roots[i], &order);
    for (int i = 0; i < order.n; i++) fn(ctx, order.data[i]);
    arena_free(seen.arena);
}

void expr_visit(const Expr *e, void (*fn)(void *ctx, const Expr *e), void *ctx) {
    expr_visit_all(&e, 1, fn, ctx);
}

void expr_rewrite_all(Arena *a, const Expr **roots, int n, const Expr *(*fn)(void *ctx, const Expr *e), void *ctx) {
    NodeMap seen = {.arena = arena_new()}, done = {.arena = seen.arena};
    ExprVec order = {0};
    for (int i = 0; i < n; i++) post_order(&seen, roots[i], &order);
    for (int i = 0; i < order.n; i++) {
        const Expr *e = order.data[i], *operands[3] = {0};
        bool changed = false;
        for (int j = 0; j < e->n; j++) {
            if (e->a[j]) operands[j] = map_get(&done, e->a[j]);
            changed |= operands[j] != e->a[j];
        }
        map_put(&done, e, fn(ctx, changed ? x_rebuild(a, e, operands) : e));
    }
    for (int i = 0; i < n; i++) roots[i] = map_get(&done, roots[i]);
    arena_free(seen.arena);
}

const Expr *expr_rewrite(Arena *a, const Expr *e, const Expr *(*fn)(void *ctx, const Expr *e), void *ctx) {
    expr_rewrite_all(a, &e, 1, fn, ctx);
    return e;
}

typedef struct {
    Arena *arena;
    DimTable *dims;
    const Dim *const *from, *const *to;
    int n;
} DimSubst;

static const Expr *subst_node(void *ctx, const Expr *e) {
    const DimSubst *s = ctx;
    if (!e->dim && !e->idx[0]) return e;
    Expr copy = *e;
    bool changed = false;
    if (e->dim) copy.dim = dim_subst(s->dims, e->dim, s->from, s->to, s->n);
    changed |= copy.dim != e->dim;
    for (int i = 0; i < 3; i++) {
        if (e->idx[i]) copy.idx[i] = dim_subst(s->dims, e->idx[i], s->from, s->to, s->n);
        changed |= copy.idx[i] != e->idx[i];
    }
    if (!changed) return e;
    return e->op == X_dim ? x_dim(s->arena, copy.dim) : x_node(s->arena, copy);
}

const Expr *expr_subst_dims(Arena *a, DimTable *t, const Expr *e, const Dim *const *from, const Dim *const *to, int n) {
    DimSubst s = {a, t, from, to, n};
    return expr_rewrite(a, e, subst_node, &s);
}

// ---- comparison ----

// Everything but the operands.
static bool same_head(const Expr *a, const Expr *b) {
    if (a->op != b->op || !vtype_same(a->type, b->type) || a->n != b->n || a->var != b->var || a->dim != b->dim) return false;
    for (int i = 0; i < 3; i++)
        if (a->idx[i] != b->idx[i]) return false;
    switch (a->op) {
    case X_const: return scalar_same(a->k_scalar, b->k_scalar);
    case X_load: return a->type.lanes == 1 || a->k == b->k;
    case X_arg:
    case X_lane:
    case X_insert:
    case X_hreduce:
    case X_widen:
    case X_isa: return a->k == b->k;
    case X_shuffle: return memcmp(a->perm, b->perm, (size_t)a->type.lanes) == 0;
    default: return true;
    }
}

static bool same_tree(NodeMap *known, const Expr *a, const Expr *b) {
    if (a == b) return true;
    if (!a || !b) return false;
    if (map_get(known, a) == b) return true;
    if (!same_head(a, b)) return false;
    for (int i = 0; i < a->n; i++)
        if (!same_tree(known, a->a[i], b->a[i])) return false;
    map_put(known, a, b);
    return true;
}

bool expr_same(const Expr *a, const Expr *b) {
    if (a == b) return true;
    if (!same_head(a, b)) return false;
    if (a->n == 0) return true;
    NodeMap known = {.arena = arena_new()};
    bool same = same_tree(&known, a, b);
    arena_free(known.arena);
    return same;
}
