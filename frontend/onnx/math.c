// Elementwise operators: a row of `formulas` or a scalar function by name; inputs broadcast as NumPy does.
//
// A formula is the text of an Expr over a0, a1 … in which $name stands for a float attribute's value. Types under f32 compute in f32 and
// round once.
#include "formula.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    const char *op, *text;
} Formula;

static const Formula formulas[] = {
    {"Celu", "max(a0, 0.0) + min($alpha * expm1(a0 / $alpha), 0.0)"},
    {"Elu", "select(a0 > 0.0, a0, $alpha * expm1(a0))"},
    {"HardSigmoid", "max(min(a0 * $alpha + $beta, 1.0), 0.0)"},
    {"HardSwish", "a0 * max(min(a0 * 0.16666666666666666 + 0.5, 1.0), 0.0)"},
    {"LeakyRelu", "select(a0 < 0.0, a0 * $alpha, a0)"},
    {"Mish", "a0 * tanh(max(a0, 0.0) + log1p(exp(-abs(a0))))"},
    {"PRelu", "select(a0 < 0, a0 * a1, a0)"},
    {"QuickGelu", "a0 * sigmoid(a0 * $alpha)"},
    {"Reciprocal", "1.0 / a0"},
    {"Relu", "max(0, a0)"},
    {"Selu", "select(a0 > 0.0, $gamma * a0, $gamma * ($alpha * expm1(a0)))"},
    {"Shrink", "select(a0 < -$lambd, a0 + $bias, select(a0 > $lambd, a0 - $bias, 0.0$T))"},
    {"Softplus", "max(a0, 0.0) + log1p(exp(-abs(a0)))"},
    {"Softsign", "a0 / (1.0 + abs(a0))"},
    {"SwiGLU", "a0 * sigmoid(a0 * $alpha) * a1"},
    {"Swish", "a0 * sigmoid(a0 * $alpha)"},
    {"ThresholdedRelu", "select(a0 > $alpha, a0, 0.0$T)"},
    {"IsNaN", "a0 != a0"},
    {"Xor", "a0 ^ a1"},
    {"And", "a0 & a1"},
    {"Or", "a0 | a1"},
};

// Operators whose scalar function has another name.
static const Formula renamed[] = {
    {"Round", "rint"},
    {"Equal", "eq"},
    {"Less", "lt"},
    {"LessOrEqual", "le"},
    {"Greater", "gt"},
    {"GreaterOrEqual", "ge"},
    {"BitwiseAnd", "and"},
    {"BitwiseOr", "or"},
    {"BitwiseXor", "xor"},
    {"BitwiseNot", "not"},
};

static const char *row_text(const Formula *rows, size_t n, const char *op) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(rows[i].op, op)) return rows[i].text;
    return NULL;
}
#define ROW_TEXT(rows, op) row_text(rows, sizeof(rows) / sizeof *(rows), op)

// ---- formulas ----
// $T: the type's name; $name: a float attribute as a literal.
static char *expand_formula(const ImportNode *n, const char *text, DType type) {
    Str s = {0};
    for (const char *p = text; *p;) {
        if (*p != '$') {
            str_addn(&s, p++, 1);
            continue;
        }
        const char *start = ++p;
        while (isalnum((unsigned char)*p) || *p == '_') p++;
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)(p - start), start);
        if (!strcmp(name, "T"))
            str_add(&s, dtype_name(type));
        else {
            double v = attr_float(n, name);
            str_add(&s, signbit(v) ? "(-" : "");
            str_add_f64(&s, fabs(v));
            str_add(&s, signbit(v) ? ")" : "");
        }
    }
    char *out = arena_strdup(n->arena, s.data);
    str_free(&s);
    return out;
}

typedef struct {
    DType types[8];
    int n;
    DimTable *table;
    int rank;
    const Dim *const *shape; // of the map, for d0, d1 …
    const FormulaDim *dims;  // NULL: none
} FormulaArgs;

static DType formula_arg(void *ctx, int k) {
    const FormulaArgs *f = ctx;
    return k < f->n ? f->types[k] : DT_none;
}

static const Dim *formula_dim(void *ctx, const char *name, size_t n) {
    const FormulaArgs *f = ctx;
    for (const FormulaDim *d = f->dims; d && d->name; d++)
        if (strlen(d->name) == n && !memcmp(d->name, name, n)) return d->dim;
    int axis = n == 2 && name[0] == 'd' ? name[1] - '0' : -1;
    return axis >= 0 && axis < f->rank ? dim_axis(f->table, axis, f->shape[axis]) : NULL;
}

static Var *no_var(void *ctx, const char *name, size_t n) {
    (void)ctx, (void)name, (void)n;
    return NULL;
}

static const Expr *parse_formula(ImportNode *n, const char *text, FormulaArgs *f) {
    ExprParser ps = {.arena = n->arena, .dims = n->dims, .ctx = f, .dim = formula_dim, .var = no_var, .arg = formula_arg};
    const char *at = expand_formula(n, text, f->n ? f->types[0] : DT_f32);
    const Expr *e = expr_parse(&ps, &at, vtype(DT_none, 1));
    if (!e) import_fail(n, "formula '%s': %s", text, ps.error);
    return e;
}

const Expr *formula_expr(ImportNode *n, const char *text, int nargs, const DType *types) {
    FormulaArgs f = {.n = nargs};
    memcpy(f.types, types, sizeof(DType) * (size_t)nargs);
    return parse_formula(n, text, &f);
}

const Expr *formula_body(
    ImportNode *n, const char *text, int nargs, const DType *types, int rank, const Dim *const *shape, const FormulaDim *dims) {
    FormulaArgs f = {.n = nargs, .table = n->dims, .rank = rank, .shape = shape, .dims = dims};
    memcpy(f.types, types, sizeof(DType) * (size_t)nargs);
    return parse_formula(n, text, &f);
}

Value *formula_tensor(
    ImportNode *n, const char *text, int nin, Value *const *in, int rank, const Dim *const *shape, const FormulaDim *dims) {
    DType types[8];
    for (int i = 0; i < nin; i++) types[i] = in[i]->type;
    const Expr *e = formula_body(n, text, nin, types, rank, shape, dims);
    return e ? g_map_shape(&n->b, nin, in, e, rank, shape) : NULL;
}

// Non-native floats are cast to f32 before and back after, so that the operator rounds once.
Value *formula_map(ImportNode *n, const char *text, int nin, Value *const *in) {
    Value *wide[8];
    DType types[8];
    DType type = in[0]->type;
    bool narrow = dtype_is_float(type) && !dtype_is_native(type);
    if (!import_broadcast(n, nin, in)) return NULL;
    for (int i = 0; i < nin; i++) {
        wide[i] = in[i]->type == type && narrow ? g_cast(&n->b, DT_f32, in[i]) : in[i];
        types[i] = wide[i]->type;
    }
    const Expr *e = formula_expr(n, text, nin, types);
    if (!e) return NULL;
    Value *out = g_map(&n->b, nin, wide, e);
    return narrow && out->type == DT_f32 ? g_cast(&n->b, type, out) : out;
}

bool import_formula(ImportNode *n) {
    const char *text = ROW_TEXT(formulas, n->row->name);
    n->out[0] = formula_map(n, text, n->nin, n->in);
    return n->out[0] != NULL;
}

bool import_same_types(const ImportNode *n, int first, int last) {
    for (int i = first + 1; i <= last && i < n->nin; i++) {
        if (!n->in[i] || n->in[i]->type == n->in[first]->type) continue;
        return import_fail(n, "input %d has type %s, input %d has %s; they must be the same", first, dtype_name(n->in[first]->type), i,
            dtype_name(n->in[i]->type));
    }
    return true;
}

bool import_numeric(const ImportNode *n, int input) {
    DType t = n->in[input]->type;
    if (dtype_is_float(t) || dtype_is_int(t) || t == DT_bool) return true;
    return import_unsupported(n, "inputs of type %s", dtype_name(t));
}

// ---- scalar functions ----
static XOp scalar_function(const char *op) {
    const char *other = ROW_TEXT(renamed, op);
    char name[32];
    int len = 0;
    for (const char *p = other ? other : op; *p && len < 31; p++) name[len++] = (char)tolower((unsigned char)*p);
    return xop_parse(name, (size_t)len);
}

// Before opset 7 binary operators broadcast only when told so: the second input's axes start at `axis` of the first.
static bool legacy_broadcast(ImportNode *n) {
    if (n->version >= 7 || n->nin != 2 || !attr_has(n, "axis")) return true;
    int rank = n->in[0]->rank, axis;
    if (!import_axis(n, attr_int(n, "axis"), rank, &axis)) return false;
    for (int left = rank - axis - n->in[1]->rank; left > 0; left--) n->in[1] = g_unsqueeze(&n->b, n->in[1], n->in[1]->rank);
    return true;
}

bool import_scalar(ImportNode *n) {
    XOp op = scalar_function(n->row->name);
    for (int i = 0; i < n->nin; i++)
        if (!import_numeric(n, i)) return false;
    if (!import_same_types(n, 0, n->nin - 1) || !import_broadcast(n, n->nin, n->in)) return false;
    XClass cls = xop_info(op)->cls;
    DType t = n->in[0]->type;
    bool integer = !dtype_is_float(t);
    bool rounds_only = op == X_rint || op == X_floor || op == X_ceil || op == X_trunc;
    if (integer && (cls == XC_MATH || op == X_sqrt || rounds_only))
        return import_fail(n, "input has type %s, a float type is needed", dtype_name(t));
    n->out[0] = n->nin == 1 ? g_map1(&n->b, op, n->in[0]) : g_map2(&n->b, op, n->in[0], n->in[1]);
    return true;
}

// Operators of opset 1 to 6 with broadcast and axis attributes.
bool import_scalar_legacy(ImportNode *n) {
    return legacy_broadcast(n) && import_scalar(n);
}

bool import_logic_legacy(ImportNode *n) {
    return legacy_broadcast(n) && import_formula(n);
}

// Before opset 7 a slope of rank 1 belongs to the channels, axis 1.
bool import_prelu(ImportNode *n) {
    bool by_channel = n->in[1]->rank == 1;
    for (int left = n->in[0]->rank - 2; by_channel && left > 0; left--) n->in[1] = g_unsqueeze(&n->b, n->in[1], n->in[1]->rank);
    return import_formula(n);
}

bool import_logic_not(ImportNode *n) {
    n->out[0] = g_map1(&n->b, X_not, n->in[0]);
    return true;
}

// ---- several inputs ----
bool import_variadic(ImportNode *n) {
    static const struct {
        const char *op;
        XOp fn;
    } rows[] = {{"Sum", X_add}, {"Mean", X_add}, {"Max", X_max}, {"Min", X_min}};
    XOp op = X_add;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].op, n->row->name)) op = rows[i].fn;
    if (!import_numeric(n, 0) || !import_same_types(n, 0, n->nin - 1) || !import_broadcast(n, n->nin, n->in)) return false;
    DType t = n->in[0]->type;
    bool narrow = dtype_is_float(t) && !dtype_is_native(t) && (op == X_add);
    Value *acc = narrow ? g_cast(&n->b, DT_f32, n->in[0]) : n->in[0];
    for (int i = 1; i < n->nin; i++) acc = g_map2(&n->b, op, acc, g_cast(&n->b, acc->type, n->in[i]));
    if (!strcmp(n->row->name, "Mean")) acc = g_map2(&n->b, X_div, acc, g_const_float(&n->b, acc->type, n->nin));
    n->out[0] = g_cast(&n->b, t, acc);
    if (n->nin == 1 && n->out[0] == n->in[0]) n->out[0] = g_map(&n->b, 1, n->in, x_arg(n->arena, 0, t));
    return true;
}

bool import_where(ImportNode *n) {
    if (!import_same_types(n, 1, 2) || !import_broadcast(n, 3, n->in)) return false;
    if (n->in[0]->type != DT_bool) return import_fail(n, "condition has type %s, bool is needed", dtype_name(n->in[0]->type));
    DType t = n->in[1]->type;
    const Expr *body = x_op3(n->arena, X_select, x_arg(n->arena, 0, DT_bool), x_arg(n->arena, 1, t), x_arg(n->arena, 2, t));
    n->out[0] = g_map(&n->b, 3, n->in, body);
    return true;
}

// ---- Clip ----
static bool clip_bound(ImportNode *n, int input, const char *attribute, XOp op, Value **x) {
    Value *bound = NULL;
    if (n->version < 11) {
        if (!attr_has(n, attribute)) return true;
        bound = g_const_float(&n->b, (*x)->type, attr_float(n, attribute));
    } else if (input < n->nin) {
        bound = n->in[input];
    }
    if (!bound) return true;
    if (bound->type != (*x)->type) return import_fail(n, "bound has type %s, input %s", dtype_name(bound->type), dtype_name((*x)->type));
    if (!import_broadcast(n, 2, (Value *[]){*x, bound})) return false;
    *x = g_map2(&n->b, op, *x, bound);
    return true;
}

bool import_clip(ImportNode *n) {
    Value *x = n->in[0];
    if (!clip_bound(n, 1, "min", X_max, &x) || !clip_bound(n, 2, "max", X_min, &x)) return false;
    n->out[0] = x == n->in[0] ? g_map(&n->b, 1, n->in, x_arg(n->arena, 0, x->type)) : x;
    return true;
}

// ---- casts ----
static bool cast_to(ImportNode *n, DType to, bool saturate) {
    Value *x = n->in[0];
    if (x->type == DT_str || to == DT_str) return import_unsupported(n, "casts between %s and %s", dtype_name(x->type), dtype_name(to));
    if (x->type == DT_c64 || x->type == DT_c128) return import_unsupported(n, "casts from %s", dtype_name(x->type));
    if (to == DT_none || to == DT_c64 || to == DT_c128) return import_unsupported(n, "casts to this type");
    const Expr *a = x_arg(n->arena, 0, x->type);
    bool wraps = dtype_is_int(to) && dtype_info(to)->bits < 8 && dtype_is_float(x->type); // the oracle's: to a wide integer first
    if (wraps) a = x_cast(n->arena, DT_i32, a);
    saturate &= dtype_is_float(to) && dtype_info(to)->bits == 8; // elsewhere casts is cast
    n->out[0] = g_map(&n->b, 1, &x, x->type == to ? a : saturate ? x_casts(n->arena, to, a) : x_cast(n->arena, to, a));
    return true;
}

bool import_cast(ImportNode *n) {
    return cast_to(n, dtype_from_onnx((int)attr_int(n, "to")), attr_int(n, "saturate") != 0);
}
bool import_cast_old(ImportNode *n) {
    return cast_to(n, dtype_from_onnx((int)attr_int(n, "to")), true);
}

// Opset 1 to 5 name the type.
bool import_cast_named(ImportNode *n) {
    static const char *const names[] = {"UNDEFINED", "FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "STRING", "BOOL",
        "FLOAT16", "DOUBLE", "UINT32", "UINT64"};
    const char *to = attr_string(n, "to");
    for (int i = 1; i < (int)(sizeof names / sizeof *names); i++)
        if (!strcmp(names[i], to)) return cast_to(n, dtype_from_onnx(i), true);
    return import_fail(n, "unknown type '%s'", to);
}

bool import_cast_like(ImportNode *n) {
    return cast_to(n, n->in[1]->type, n->version < 19 || attr_int(n, "saturate") != 0);
}

bool import_bit_cast(ImportNode *n) {
    DType to = dtype_from_onnx((int)attr_int(n, "to"));
    if (to == DT_none || dtype_bytes(to) != dtype_bytes(n->in[0]->type) || dtype_info(to)->bits != dtype_info(n->in[0]->type)->bits)
        return import_unsupported(n, "reinterpreting %s with another width", dtype_name(n->in[0]->type));
    n->out[0] = g_map(&n->b, 1, n->in, x_bits(n->arena, to, x_arg(n->arena, 0, n->in[0]->type)));
    return true;
}

// ---- single ones ----
bool import_pow(ImportNode *n) {
    Value *x = n->in[0], *y = n->in[1];
    DType t = x->type;
    bool wide = t == DT_f64 || t == DT_i64 || y->type == DT_f64;
    DType w = wide ? DT_f64 : DT_f32;
    if (!legacy_broadcast(n)) return false;
    y = n->in[1];
    if (!import_broadcast(n, 2, n->in)) return false;
    n->out[0] = g_cast(&n->b, t, g_map2(&n->b, X_pow, g_cast(&n->b, w, x), g_cast(&n->b, w, y)));
    return true;
}

bool import_swiglu(ImportNode *n) {
    const Value *a = n->in[0];
    return import_same_types(n, 0, 1) && import_shape_is(n, 1, a->rank, (const Dim *const *)a->shape) && import_formula(n);
}

// fmod = 0: the remainder has the divisor's sign, zeros too.
bool import_mod(ImportNode *n) {
    if (!import_same_types(n, 0, 1) || !import_numeric(n, 0) || !import_broadcast(n, 2, n->in)) return false;
    bool c_like = attr_int(n, "fmod") != 0, floats = dtype_is_float(n->in[0]->type);
    if (floats && !c_like) {
        DType t = n->in[0]->type, wide = t == DT_f64 ? t : DT_f32;
        Value *in[] = {g_cast(&n->b, wide, n->in[0]), g_cast(&n->b, wide, n->in[1])};
        Value *rest[] = {g_map2(&n->b, X_fmod, in[0], in[1]), in[1]};
        const char *zero = "select(a1 < 0.0, -0.0$T, 0.0$T)";
        Value *y =
            formula_map(n, arena_printf(n->arena, "select(a0 == 0.0, %s, select((a0 < 0.0) ^ (a1 < 0.0), a0 + a1, a0))", zero), 2, rest);
        n->out[0] = y ? g_cast(&n->b, t, y) : NULL;
        return y != NULL;
    }
    n->out[0] = g_map2(&n->b, floats ? X_fmod : c_like ? X_rem : X_floormod, n->in[0], n->in[1]);
    return true;
}

bool import_bit_shift(ImportNode *n) {
    const char *direction = attr_string(n, "direction");
    bool left = direction && !strcmp(direction, "LEFT");
    if (!left && (!direction || strcmp(direction, "RIGHT")))
        return import_fail(n, "direction must be LEFT or RIGHT, found '%s'", direction ? direction : "");
    if (!import_same_types(n, 0, 1) || !import_broadcast(n, 2, n->in)) return false;
    DType t = n->in[0]->type;
    if (left || !dtype_is_signed(t)) {
        n->out[0] = g_map2(&n->b, left ? X_shl : X_shr, n->in[0], n->in[1]);
        return true;
    }
    // A signed value shifted by its width or more, or by a negative count, leaves only its sign.
    int last = dtype_info(t)->bits - 1;
    n->out[0] = formula_map(n, arena_printf(n->arena, "select((a1 < 0) | (a1 > %d), shr(a0, %d), shr(a0, a1))", last, last), 2, n->in);
    return n->out[0] != NULL;
}

bool import_sign(ImportNode *n) {
    DType t = n->in[0]->type;
    const char *text = dtype_is_float(t)    ? "select(a0 > 0, 1.0, select(a0 < 0, -1.0, a0))"
                       : dtype_is_signed(t) ? "select(a0 > 0, 1, select(a0 < 0, -1, a0))"
                                            : "select(a0 > 0, 1, a0)";
    n->out[0] = formula_map(n, text, 1, n->in);
    return n->out[0] != NULL;
}

bool import_is_inf(ImportNode *n) {
    bool up = attr_int(n, "detect_positive") != 0, down = attr_int(n, "detect_negative") != 0;
    const char *text = up && down ? "abs(a0) == inff32" : up ? "a0 == inff32" : down ? "a0 == (-inff32)" : "(a0 == a0) & (a0 != a0)";
    Value *x = n->in[0]->type == DT_f64 ? n->in[0] : g_cast(&n->b, DT_f32, n->in[0]);
    if (x->type == DT_f64) text = up && down ? "abs(a0) == inff64" : up ? "a0 == inff64" : down ? "a0 == (-inff64)" : text;
    n->out[0] = formula_map(n, text, 1, &x);
    return n->out[0] != NULL;
}

bool import_gelu(ImportNode *n) {
    const char *approximate = attr_string(n, "approximate");
    bool tanh_form = approximate && !strcmp(approximate, "tanh");
    const char *text = tanh_form ? "0.5 * a0 * (1.0 + tanh(0.7978845608028654 * (a0 + 0.044715 * (a0 * (a0 * a0)))))"
                                 : "0.5 * a0 * (1.0 + erf(a0 * 0.7071067811865476))";
    n->out[0] = formula_map(n, text, 1, n->in);
    return n->out[0] != NULL;
}

bool import_const_float(const ImportNode *n, int input, double *out) {
    const Value *v = input < n->nin ? n->in[input] : NULL;
    Tensor t;
    if (!v || !import_known_tensor(n, v, &t) || t.bytes < (size_t)dtype_bytes(v->type)) return false;
    *out = scalar_as_f64(scalar_read(v->type, t.data));
    return true;
}
