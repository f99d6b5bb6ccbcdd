// The typing rules of expressions, node by node: what expr_check says is the list of what verifiers accept.
#include "expr.h"
#include "isa.h"

#include <string.h>

static char *type_text(Arena *a, VType t) {
    return t.lanes == 1 ? arena_strdup(a, dtype_name(t.type)) : arena_printf(a, "%sx%d", dtype_name(t.type), t.lanes);
}

static const char *want(Arena *a, const Expr *e, const char *what, const char *expected, VType found) {
    return arena_printf(a, "%s: %s must be %s, found %s", xop_info(e->op)->name, what, expected, type_text(a, found));
}

static const char *want_type(Arena *a, const Expr *e, const char *what, VType expected, VType found) {
    return vtype_same(expected, found) ? NULL : want(a, e, what, type_text(a, expected), found);
}

static bool has_arithmetic(DType t) {
    char cls = dtype_info(t)->cls;
    return cls == 'F' || cls == 'I' || cls == 'U';
}

// ---- scalar functions ----

static const char *check_arith(Arena *a, const Expr *e) {
    for (int i = 0; i < e->n; i++) {
        if (!has_arithmetic(e->a[i]->type.type)) return want(a, e, "operand", "a number", e->a[i]->type);
        const char *fault = want_type(a, e, "operand", e->type, e->a[i]->type);
        if (fault) return fault;
    }
    const XOpInfo *info = xop_info(e->op);
    if (dtype_is_float(e->type.type) && !info->c_float[0] && info->cls != XC_MATH) return want(a, e, "operand", "an integer", e->type);
    if (dtype_is_int(e->type.type) && !info->c_int[0]) return want(a, e, "operand", "a float", e->type);
    return NULL;
}

static const char *check_cmp(Arena *a, const Expr *e) {
    VType t = e->a[0]->type;
    if (!has_arithmetic(t.type) && t.type != DT_bool) return want(a, e, "operand", "a number or bool", t);
    const char *fault = want_type(a, e, "second operand", t, e->a[1]->type);
    return fault ? fault : want_type(a, e, "result", vtype(DT_bool, t.lanes), e->type);
}

static const char *check_logic(Arena *a, const Expr *e) {
    for (int i = 0; i < e->n; i++) {
        VType t = e->a[i]->type;
        bool shift = e->op == X_shl || e->op == X_shr;
        if (!dtype_is_int(t.type) && (shift || t.type != DT_bool))
            return want(a, e, "operand", shift ? "an integer" : "an integer or bool", t);
        const char *fault = want_type(a, e, "operand", e->type, t);
        if (fault) return fault;
    }
    return NULL;
}

static const char *check_select(Arena *a, const Expr *e) {
    const char *fault = want_type(a, e, "condition", vtype(DT_bool, e->type.lanes), e->a[0]->type);
    if (!fault) fault = want_type(a, e, "second operand", e->type, e->a[1]->type);
    return fault ? fault : want_type(a, e, "third operand", e->type, e->a[2]->type);
}

static const char *check_cast(Arena *a, const Expr *e) {
    VType from = e->a[0]->type;
    if (from.lanes != e->type.lanes) return want_type(a, e, "operand", vtype(from.type, e->type.lanes), from);
    bool from_ok = has_arithmetic(from.type) || from.type == DT_bool, to_ok = has_arithmetic(e->type.type) || e->type.type == DT_bool;
    if (!from_ok || !to_ok) return want(a, e, from_ok ? "result" : "operand", "a number or bool", from_ok ? e->type : from);
    if (e->op == X_bits && dtype_bytes(from.type) != dtype_bytes(e->type.type))
        return arena_printf(a, "bits: operand must have %d bytes, found %s", dtype_bytes(e->type.type), type_text(a, from));
    return NULL;
}

// ---- leaves and memory ----

static const char *check_const(Arena *a, const Expr *e) {
    return want_type(a, e, "value", vtype(e->k_scalar.type, e->type.lanes), e->type);
}

static const char *check_arg(Arena *a, const Expr *e) {
    return e->k < 0 ? arena_printf(a, "arg: number must not be negative, found %lld", (long long)e->k) : NULL;
}

static const char *check_dim(Arena *a, const Expr *e) {
    return e->dim ? want_type(a, e, "type", vtype(DT_idx, 1), e->type) : "dim: has no index";
}

static const char *check_var(Arena *a, const Expr *e) {
    if (!e->var || e->var->kind == VAR_BUFFER) return "var: must be a let, a variable or a tile";
    int n = e->var->kind == VAR_TILE ? e->var->ntile : 0;
    for (int i = 0; i < 3; i++)
        if ((e->idx[i] != NULL) != (i < n)) return arena_printf(a, "var: '%s' must have %d indices", e->var->name, n);
    return want_type(a, e, e->var->name, e->var->type, e->type);
}

static const char *check_load(Arena *a, const Expr *e) {
    if (!e->var || e->var->kind != VAR_BUFFER || !e->dim) return "load: needs a buffer and an index";
    const Expr *offsets = e->a[0], *mask = e->a[1];
    if (offsets && ((offsets->type.type != DT_idx && offsets->type.type != DT_i32) || offsets->type.lanes != e->type.lanes))
        return want(a, e, "offset", arena_printf(a, "idx or i32 with %d lanes", e->type.lanes), offsets->type);
    if (e->type.type != e->var->type.type && (offsets || (e->type.lanes > 1 && e->k != 1)))
        return arena_printf(a, "load: '%s' can be read as %s only contiguously", e->var->name, dtype_name(e->type.type));
    return mask ? want_type(a, e, "mask", vtype(DT_bool, e->type.lanes), mask->type) : NULL;
}

// ---- lanes ----

static const char *check_splat(Arena *a, const Expr *e) {
    return want_type(a, e, "operand", vtype(e->type.type, 1), e->a[0]->type);
}

static const char *check_iota(Arena *a, const Expr *e) {
    return dtype_is_native(e->type.type) && e->type.type != DT_bool ? NULL : want(a, e, "type", "a native number", e->type);
}

static const char *check_shuffle(Arena *a, const Expr *e) {
    int lanes = e->a[0]->type.lanes + (e->a[1] ? e->a[1]->type.lanes : 0);
    for (int i = 0; i < 2 && e->a[i]; i++)
        if (e->a[i]->type.type != e->type.type) return want(a, e, "operand", dtype_name(e->type.type), e->a[i]->type);
    if (!e->perm) return "shuffle: has no lane numbers";
    for (int i = 0; i < e->type.lanes; i++)
        if (e->perm[i] >= lanes) return arena_printf(a, "shuffle: lane number must be below %d, found %d", lanes, e->perm[i]);
    return NULL;
}

static const char *check_table(Arena *a, const Expr *e) {
    if (e->a[0]->type.type != e->type.type) return want(a, e, "table", dtype_name(e->type.type), e->a[0]->type);
    if (!dtype_is_int(e->a[1]->type.type) || e->a[1]->type.lanes != e->type.lanes)
        return want(a, e, "index", arena_printf(a, "integers with %d lanes", e->type.lanes), e->a[1]->type);
    return NULL;
}

static const char *check_lane(Arena *a, const Expr *e) {
    int lanes = e->a[0]->type.lanes;
    if (e->k < 0 || e->k >= lanes)
        return arena_printf(a, "%s: lane must be in 0..%d, found %lld", xop_info(e->op)->name, lanes - 1, (long long)e->k);
    if (e->op == X_insert) {
        const char *fault = want_type(a, e, "vector", e->type, e->a[0]->type);
        return fault ? fault : want_type(a, e, "value", vtype(e->type.type, 1), e->a[1]->type);
    }
    return want_type(a, e, "result", vtype(e->a[0]->type.type, 1), e->type);
}

static const char *check_hreduce(Arena *a, const Expr *e) {
    DType t = e->a[0]->type.type;
    bool logic = e->k == X_and || e->k == X_or;
    if (!logic && e->k != X_add && e->k != X_mul && e->k != X_min && e->k != X_max)
        return "hreduce: operation must be add, mul, min, max, and, or";
    if (logic ? !dtype_is_int(t) && t != DT_bool : !has_arithmetic(t))
        return want(a, e, "operand", logic ? "integer or bool" : "a number", e->a[0]->type);
    int lanes = e->a[0]->type.lanes;
    if (lanes & (lanes - 1)) return want(a, e, "operand", "a power of two of lanes", e->a[0]->type);
    return want_type(a, e, "result", vtype(t, 1), e->type);
}

static const char *check_compress(Arena *a, const Expr *e) {
    const char *fault = want_type(a, e, "operand", e->type, e->a[0]->type);
    return fault ? fault : want_type(a, e, "mask", vtype(DT_bool, e->type.lanes), e->a[1]->type);
}

static const char *check_popcount(Arena *a, const Expr *e) {
    VType t = e->a[0]->type;
    if (t.type != DT_bool && (t.lanes != 1 || !dtype_is_int(t.type))) return want(a, e, "operand", "a mask or an integer scalar", t);
    return want_type(a, e, "result", vtype(DT_i32, 1), e->type);
}

static const char *check_dot4(Arena *a, const Expr *e) {
    const char *fault = want_type(a, e, "result", vtype(DT_i32, e->type.lanes), e->type);
    if (!fault) fault = want_type(a, e, "accumulator", e->type, e->a[0]->type);
    if (fault) return fault;
    VType x = e->a[1]->type;
    if ((x.type != DT_u8 && x.type != DT_i8) || x.lanes != 4 * e->type.lanes)
        return want(a, e, "first factor", arena_printf(a, "u8 or i8 with %d lanes", 4 * e->type.lanes), x);
    return want_type(a, e, "second factor", vtype(DT_i8, 4 * e->type.lanes), e->a[2]->type);
}

static const char *check_widen(Arena *a, const Expr *e) {
    VType from = e->a[0]->type;
    if (e->k < 0 || e->k + e->type.lanes > from.lanes)
        return arena_printf(
            a, "widen: lanes %lld..%lld must lie in %s", (long long)e->k, (long long)e->k + e->type.lanes - 1, type_text(a, from));
    bool floats = dtype_is_float(from.type) && dtype_is_float(e->type.type), ints = dtype_is_int(from.type) && dtype_is_int(e->type.type);
    if ((!floats && !ints) || dtype_info(from.type)->bits > dtype_info(e->type.type)->bits)
        return want(a, e, "operand", "a narrower type of the same kind", from);
    return NULL;
}

static const char *check_seed(Arena *a, const Expr *e) {
    return want_type(a, e, "type", vtype(DT_u64, 1), e->type);
}

static const char *check_index(Arena *a, const Expr *e) {
    if (!e->dim) return "index: has no bound";
    const char *fault = want_type(a, e, "operand", vtype(DT_idx, 1), e->a[0]->type);
    return fault ? fault : want_type(a, e, "result", vtype(DT_idx, 1), e->type);
}

static const char *check_isa(Arena *a, const Expr *e) {
    if (e->k < 0 || e->k >= isa_count()) return "isa: no such row";
    const IsaRow *row = isa_row((int)e->k);
    const char *s = row->args;
    for (int i = 0; i < e->n; i++) {
        size_t n = strcspn(s, " ");
        if (n == 0) return arena_printf(a, "isa: %s takes %d operands, found %d", row->name, i, e->n);
        const char *fault = want_type(a, e, row->name, vtype_parse(s, n), e->a[i]->type);
        if (fault) return fault;
        s += n + (s[n] == ' ');
    }
    if (*s) return arena_printf(a, "isa: %s needs more than %d operands", row->name, e->n);
    return want_type(a, e, "result", vtype_parse(row->result, strlen(row->result)), e->type);
}

typedef const char *Check(Arena *a, const Expr *e);
static Check *const class_check[] = {[XC_ARITH] = check_arith,
    [XC_MATH] = check_arith,
    [XC_CMP] = check_cmp,
    [XC_LOGIC] = check_logic,
    [XC_SEL] = check_select,
    [XC_CAST] = check_cast};
static Check *const node_check[X_COUNT] = {[X_const] = check_const,
    [X_arg] = check_arg,
    [X_dim] = check_dim,
    [X_seed] = check_seed,
    [X_var] = check_var,
    [X_load] = check_load,
    [X_splat] = check_splat,
    [X_iota] = check_iota,
    [X_shuffle] = check_shuffle,
    [X_table] = check_table,
    [X_lane] = check_lane,
    [X_insert] = check_lane,
    [X_hreduce] = check_hreduce,
    [X_compress] = check_compress,
    [X_expand] = check_compress,
    [X_popcount] = check_popcount,
    [X_dot4] = check_dot4,
    [X_widen] = check_widen,
    [X_index] = check_index,
    [X_isa] = check_isa};

const char *expr_check(Arena *a, const Expr *e) {
    const XOpInfo *info = xop_info(e->op);
    if (e->type.type == DT_none || e->type.lanes < 1 || e->type.lanes > 64)
        return arena_printf(a, "%s: lanes must be in 1..64, found %d", info->name, e->type.lanes);
    if (info->arity >= 0 && e->n != info->arity) return arena_printf(a, "%s: takes %d operands, found %d", info->name, info->arity, e->n);
    int required = info->arity >= 0 ? e->n : e->op == X_shuffle;
    for (int i = 0; i < required; i++)
        if (!e->a[i]) return arena_printf(a, "%s: operand %d is missing", info->name, i + 1);
    Check *check = node_check[e->op] ? node_check[e->op] : class_check[info->cls];
    return check(a, e);
}
