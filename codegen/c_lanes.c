// Expressions of more than one lane.
//
// Three ways, the first that fits: an instruction of the target (isa_*.def), an operator of GNU vectors, a function that states every lane.
// The last serves all types and is all there is for structs. Functions are made once a type and inlined by the compiler.
#include "c_print.h"

#include "../ir/isa.h"
#include <string.h>

static Txt atom(const char *s) {
    return (Txt){s, true};
}

static VType mask_type(VType t) {
    return vtype(DT_bool, t.lanes);
}

// Where lane l of a variable lies; l may be an expression of the variable i or k.
static const char *place(C *c, VType t, const char *v, const char *l) {
    if (t.lanes == 1) return v;
    int n = c_native_lanes(c, t.type);
    if (c_is_wide(c, t)) return c_fmt(c, "%s.v[%s / %d][%s %% %d]", v, l, n, l, n);
    return c_fmt(c, c_vector(c, t) ? "%s[%s]" : "%s.v[%s]", v, l);
}

// Lane l of a variable, as a scalar; a mask's is an int 0 or 1.
static const char *lane(C *c, VType t, const char *v, const char *l) {
    bool mask = t.lanes > 1 && t.type == DT_bool && (c_vector(c, t) || c_is_wide(c, t));
    return c_fmt(c, mask ? "(%s & 1)" : "%s", place(c, t, v, l));
}
const char *c_lane(C *c, VType t, const char *v, int l) {
    return lane(c, t, v, c_fmt(c, "%d", l));
}

// A value of type t whose lanes are texts[].
const char *c_literal(C *c, VType t, const char *const *texts) {
    if (t.lanes == 1) return texts[0];
    bool wide = c_is_wide(c, t), vector = c_vector(c, t), mask = t.type == DT_bool && (wide || vector);
    int native = wide ? c_native_lanes(c, t.type) : 64;
    Str s = {0};
    str_printf(&s, vector ? "(%s){" : wide ? "(%s){{{" : "(%s){{", c_type(c, t));
    for (int l = 0; l < t.lanes; l++) {
        if (l) str_add(&s, l % native ? ", " : "}, {");
        str_printf(&s, mask ? "-(int32_t)(%s)" : "%s", texts[l]);
    }
    str_add(&s, vector ? "}" : wide ? "}}}" : "}}");
    const char *r = arena_strndup(c->a, s.data, s.n);
    str_free(&s);
    return r;
}

static bool all_vectors(const C *c, const Expr *e) {
    bool ok = c_vector(c, e->type);
    for (int i = 0; i < e->n; i++) ok = ok && c_vector(c, e->a[i]->type);
    return ok;
}

// "add_f32x8"; casts name both types.
static const char *function_name(C *c, const Expr *e) {
    const char *name = c_fmt(c, "%s_%s_%s", c->prefix, xop_info(e->op)->name, c_kind(c, e->a[e->n > 1 ? 1 : 0]->type));
    return xop_info(e->op)->cls == XC_CAST ? c_fmt(c, "%s_%s", name, dtype_name(e->type.type)) : name;
}

static void types_of(const Expr *e, VType *types) {
    for (int i = 0; i < e->n; i++) types[i] = e->a[i]->type;
}

// ---- instructions ----
// A mask operand of 64 bits a lane is widened for the row.
static const char *isa_operand(C *c, const char *want, const char *text, VType t) {
    if (t.type != DT_bool || strncmp(want, "m64", 3) != 0) return text;
    return c_fmt(c, "__builtin_convertvector(%s, %s)", text, c_type(c, vtype(DT_i64, t.lanes)));
}

static Txt isa_text(C *c, const IsaRow *row, const Expr *const *operands, VType result) {
    const char *texts[3] = {"", "", ""}, *args = row->args;
    for (int i = 0; i < 3 && *args; i++) {
        texts[i] = isa_operand(c, args, c_operand(c, operands[i]), operands[i]->type);
        args += strcspn(args, " ");
        args += strspn(args, " ");
    }
    if (strstr(row->c, "_mm")) c->intrinsics = true;
    const char *text = c_expand(c, row->c, result, texts);
    return (Txt){c_fmt(c, "(%s)%s", c_type(c, result), text), false};
}

static Txt isa_call(C *c, const Expr *e) {
    const IsaRow *row = isa_row((int)e->k);
    const char *name = c_fmt(c, "%s_isa_%s", c->prefix, row->name);
    if (!c->hosted) return c_expr(c, isa_meaning(c->a, (int)e->k, e->a));
    if (!c_need(c, name)) return c_call(c, name, e);
    VType types[3];
    types_of(e, types);
    const Expr *call = c_with_arguments(c, e);
    c_function(c, name, e->type, e->n, types, c_fmt(c, "= %s", isa_text(c, row, call->a, e->type).s));
    return c_call(c, name, e);
}

// The instruction that is e on its own, as a function.
bool c_instruction(C *c, const Expr *e, const char *name) {
    if (!c->x86 || !all_vectors(c, e)) return false;
    const Expr *operands[3] = {NULL, NULL, NULL}, *call = c_with_arguments(c, e);
    int row = isa_match(call, c->target->features, operands);
    if (row < 0) return false;
    VType types[3];
    types_of(e, types);
    c_function(c, name, e->type, e->n, types, c_fmt(c, "= %s", isa_text(c, isa_row(row), operands, e->type).s));
    return true;
}

// ---- scalar functions on lanes ----
// Bodies for GNU vectors: "= expression" or statements, over a b c.
static const struct {
    XOp op;
    const char *cls, *text;
} vector_bodies[] = {
    {X_mul, "IU", "= ($T)(($U)a * ($U)b)"},
    {X_fma, "IU", "= ($T)(($U)a * ($U)b + ($U)c)"},
    {X_neg, "IU", "= ($T)(-($U)a)"},
    {X_min, "IU", "    $I m = ($I)(a < b);\n    return ($T)((($I)a & m) | (($I)b & ~m));\n"},
    {X_max, "IU", "    $I m = ($I)(a > b);\n    return ($T)((($I)a & m) | (($I)b & ~m));\n"},
    {X_abs, "U", "= a"},
    {X_abs, "I", "    $U m = ($U)(a < ($T){0});\n    return ($T)((($U)a ^ m) - m);\n"},
    {X_abs, "F", "= ($T)(($U)a & (~($U){0} >> 1))"},
};

// The operator of scalar.def when it means the same on GNU vectors.
static const char *operator_text(const Expr *e, DType t) {
    const XOpInfo *info = xop_info(e->op);
    const char *text = dtype_is_float(t) ? info->c_float : info->c_int;
    bool plain = text[0] && !strchr(text, ';') && strcmp(text, "CUSTOM") != 0 && info->cls != XC_CAST && info->cls != XC_SEL;
    return plain && !(e->op == X_neg && !dtype_is_float(t)) ? text : NULL;
}

static Txt comparison(C *c, const Expr *e, const char *text, const char *const *ops) {
    VType t = e->a[0]->type, m = mask_type(t);
    const char *ordered[2] = {ops[0], ops[1]};
    for (int i = 0; i < 2 && t.type == DT_bool; i++) ordered[i] = c_fmt(c, "(-%s)", ops[i]); // false < true
    const char *cmp = c_expand(c, text, t, ordered);
    bool narrow = t.type == DT_bool || dtype_bytes(c_storage(t.type)) == 4;
    if (narrow) return (Txt){c_fmt(c, "(%s)(%s)", c_type(c, m), cmp), false};
    return atom(c_fmt(c, "__builtin_convertvector(%s, %s)", cmp, c_type(c, m)));
}

static const char *shift_body(C *c, const Expr *e) {
    int bits = 8 * dtype_bytes(e->type.type);
    const char *type = e->op == X_shr ? "$T" : "$U", *sign = e->op == X_shl ? "<<" : ">>";
    return c_fmt(c, "    return ($T)(($U)((%s)a %s (%s)(($U)b & %d)) & ($U)(($U)b < %d));\n", type, sign, type, bits - 1, bits);
}

static const char *select_body(C *c, const Expr *e) {
    const char *mask = "a";
    if (e->type.type != DT_bool && dtype_bytes(c_storage(e->type.type)) != 4) mask = "__builtin_convertvector(a, $I)";
    return c_fmt(c, "    $I m = ($I)%s;\n    return ($T)((($I)b & m) | (($I)c & ~m));\n", mask);
}

static const char *vector_body(C *c, const Expr *e) {
    if (e->op == X_shl || e->op == X_shr) return shift_body(c, e);
    if (e->op == X_select) return select_body(c, e);
    char cls = dtype_info(e->type.type)->cls;
    for (size_t i = 0; i < sizeof vector_bodies / sizeof *vector_bodies; i++)
        if (vector_bodies[i].op == e->op && strchr(vector_bodies[i].cls, cls)) return vector_bodies[i].text;
    return NULL;
}

// min and max of floats: the first operand where it is not a number, else what one comparison chooses.
static const Expr *min_max_meaning(C *c, const Expr *e) {
    const Expr *call = c_with_arguments(c, e), *a = call->a[0], *b = call->a[1];
    VType m = mask_type(e->type);
    const Expr *nan = x_node(c->a, (Expr){.op = X_ne, .type = m, .n = 2, .a = {a, a}});
    const Expr *first = x_node(c->a, (Expr){.op = e->op == X_min ? X_lt : X_gt, .type = m, .n = 2, .a = {a, b}});
    const Expr *chosen = x_node(c->a, (Expr){.op = X_select, .type = e->type, .n = 3, .a = {first, a, b}});
    return x_node(c->a, (Expr){.op = X_select, .type = e->type, .n = 3, .a = {nan, a, chosen}});
}

static void lanewise_body(C *c, const Expr *e, const char *name, const VType *types) {
    const char *texts[64];
    for (int l = 0; l < e->type.lanes; l++) {
        const char *ops[3] = {"", "", ""};
        for (int i = 0; i < e->n; i++) ops[i] = c_lane(c, types[i], (const char *[]){"a", "b", "c"}[i], l);
        texts[l] = c_scalar(c, e->op, types[e->op == X_select ? 1 : 0].type, e->type.type, ops).s;
    }
    c_function(c, name, e->type, e->n, types, c_fmt(c, "= %s", c_literal(c, e->type, texts)));
}

// ---- casts of vectors ----
// Clamped so that truncation to 32 bits is defined: NaN to 0, the rest into min..max, which the float type holds exactly.
static const Expr *clamped(C *c, const Expr *x, double min, double max) {
    VType t = x->type, m = mask_type(t);
    const Expr *lo = x_const(c->a, scalar_float(t.type, min), t.lanes), *hi = x_const(c->a, scalar_float(t.type, max), t.lanes);
    const Expr *zero = x_const(c->a, scalar_float(t.type, 0), t.lanes);
    const struct {
        XOp op;
        const Expr *than, *becomes;
    } steps[] = {{X_ne, x, zero}, {X_lt, lo, lo}, {X_gt, hi, hi}};
    for (int i = 0; i < 3; i++) {
        const Expr *test = x_node(c->a, (Expr){.op = steps[i].op, .type = m, .n = 2, .a = {x, steps[i].than}});
        x = x_node(c->a, (Expr){.op = X_select, .type = t, .n = 3, .a = {test, steps[i].becomes, x}});
    }
    return x;
}

// f32 to i32: the largest float below 2^31 bounds the truncation, what lies above it saturates.
static bool float_to_int(C *c, const Expr *e, const char *name) {
    VType from = e->a[0]->type, to = e->type, i32 = vtype(DT_i32, to.lanes);
    int bits = dtype_info(to.type)->bits;
    if (!dtype_is_native(to.type) || bits > 32 || to.type == DT_u32 || !dtype_is_float(from.type)) return false;
    bool is_signed = dtype_is_signed(to.type), wide = bits == 32 && from.type == DT_f32;
    double max = wide ? 2147483520.0 : (double)((1ull << (bits - is_signed)) - 1), min = is_signed ? -(double)(1ull << (bits - 1)) : 0;
    const Expr *arg = c_with_arguments(c, e)->a[0], *x = clamped(c, arg, min, max);
    c_function_of(c, c_fmt(c, "%s_clamp", name), 1, &from, x);
    const char *text = c_fmt(c, "__builtin_convertvector(%s_clamp(a), %s)", name, c_type(c, i32));
    if (bits < 32) text = c_fmt(c, "__builtin_convertvector(%s, %s)", text, c_type(c, to));
    if (wide) {
        const Expr *above = x_node(c->a,
            (Expr){.op = X_ge, .type = mask_type(to), .n = 2, .a = {arg, x_const(c->a, scalar_float(DT_f32, 2147483648.0), to.lanes)}});
        const char *test = c_operand(c, above), *mask = c_type(c, i32);
        text = c_fmt(c, "(%s & ~%s) | ((%s)(((%s)%s) & 0x7fffffff))", text, test, mask, mask, test);
    }
    c_function(c, name, to, 1, &from, c_fmt(c, "= %s", text));
    return true;
}

static bool vector_cast(C *c, const Expr *e, const char *name) {
    VType from = e->a[0]->type, to = e->type;
    const char *type = c_type(c, to), *text = NULL;
    bool same_width = dtype_bytes(from.type) == dtype_bytes(to.type) && from.type != DT_bool && to.type != DT_bool;
    if (e->op == X_bits)
        text = same_width ? c_fmt(c, "(%s)a", type) : NULL;
    else if (from.type == to.type)
        text = "a";
    else if (to.type == DT_bool)
        text = comparison(c, e, "$0 != $1", (const char *[]){"a", c_fmt(c, "(%s){0}", c_type(c, from)), ""}).s;
    else if (from.type == DT_bool)
        text = c_fmt(c, "__builtin_convertvector(-a, %s)", type);
    else if (dtype_is_float(from.type) && !dtype_is_float(to.type))
        return float_to_int(c, e, name);
    else
        text = c_fmt(c, "__builtin_convertvector(a, %s)", type);
    if (text) c_function(c, name, to, 1, &from, c_fmt(c, "= %s", text));
    return text != NULL;
}

static void make_vector_function(C *c, const Expr *e, const char *name, const VType *types) {
    const char *params[] = {"a", "b", "c"};
    bool is_float = dtype_is_float(e->type.type), cast = xop_info(e->op)->cls == XC_CAST;
    if (cast && vector_cast(c, e, name)) return;
    if ((e->op == X_min || e->op == X_max) && is_float) {
        c_function_of(c, name, e->n, types, min_max_meaning(c, e));
        return;
    }
    const char *body = cast ? NULL : vector_body(c, e);
    if (body)
        c_function(c, name, e->type, e->n, types, c_expand(c, body, e->type, params));
    else
        lanewise_body(c, e, name, types);
}

static Txt lane_function(C *c, const Expr *e) {
    bool vectors = all_vectors(c, e);
    DType t = e->a[e->op == X_select ? 1 : 0]->type.type;
    const char *text = vectors ? operator_text(e, t) : NULL;
    if (text) {
        const char *ops[3] = {"", "", ""};
        for (int i = 0; i < e->n; i++) ops[i] = c_operand(c, e->a[i]);
        if (xop_info(e->op)->cls == XC_CMP) return comparison(c, e, text, ops);
        return (Txt){c_expand(c, text, e->type, ops), false};
    }
    const char *name = function_name(c, e);
    VType types[3];
    types_of(e, types);
    if (!c_need(c, name)) return c_call(c, name, e);
    if (c_instruction(c, e, name)) return c_call(c, name, e);
    if (vectors)
        make_vector_function(c, e, name, types);
    else
        lanewise_body(c, e, name, types);
    return c_call(c, name, e);
}

// ---- lanes moved about ----
Txt c_splat(C *c, const Expr *e) {
    const char *name = c_fmt(c, "%s_splat_%s", c->prefix, c_kind(c, e->type)), *texts[64];
    VType arg = vtype(e->type.type, 1);
    for (int l = 0; l < 64; l++) texts[l] = "a";
    if (c_need(c, name)) c_function(c, name, e->type, 1, &arg, c_fmt(c, "= %s", c_literal(c, e->type, texts)));
    return atom(c_fmt(c, "%s(%s)", name, e->op == X_const ? c_const(c, arg, e->k_scalar).s : c_expr(c, e->a[0]).s));
}

static Txt iota(C *c, const Expr *e) {
    const char *texts[64];
    for (int l = 0; l < e->type.lanes; l++) texts[l] = c_const(c, vtype(e->type.type, 1), scalar_int(e->type.type, l)).s;
    return atom(c_literal(c, e->type, texts));
}

// Consecutive lanes of one wide operand: a copy of a part.
static bool is_part(const C *c, const Expr *e) {
    if (e->a[1] || !c_is_wide(c, e->a[0]->type) || e->type.lanes == 1 || (e->type.lanes & (e->type.lanes - 1)) != 0) return false;
    for (int l = 1; l < e->type.lanes; l++)
        if (e->perm[l] != e->perm[0] + l) return false;
    return true;
}

static Txt part(C *c, const Expr *e) {
    VType from = e->a[0]->type;
    const char *name = c_fmt(c, "%s_lanes_%s_%d_%d", c->prefix, c_kind(c, from), e->perm[0], e->type.lanes);
    if (c_need(c, name)) c_function(c, name, e->type, 1, &from, c_fmt(c, "= %s", c_part(c, from, "a", e->type.lanes, e->perm[0])));
    return c_call(c, name, e);
}

static Txt shuffle(C *c, const Expr *e) {
    const Expr *a = e->a[0], *b = e->a[1];
    if (is_part(c, e)) return part(c, e);
    Str list = {0};
    for (int l = 0; l < e->type.lanes; l++) str_printf(&list, ", %d", e->perm[l]);
    const char *lanes = arena_strndup(c->a, list.data, list.n);
    str_free(&list);
    bool vectors = c_vector(c, e->type) && c_vector(c, a->type) && (!b || b->type.lanes == a->type.lanes);
    const char *second = b ? c_expr(c, b).s : vectors ? c_fmt(c, "(%s){0}", c_type(c, a->type)) : "";
    if (vectors) return atom(c_fmt(c, "__builtin_shufflevector(%s, %s%s)", c_expr(c, a).s, second, lanes));
    char *name = arena_printf(c->a, "%s_shuffle_%s_%s%s", c->prefix, c_kind(c, a->type), b ? c_kind(c, b->type) : "", lanes);
    for (char *s = name; *s; s++)
        if (*s == ',' || *s == ' ') *s = '_';
    if (c_need(c, name)) {
        const char *texts[64];
        VType types[2] = {a->type, b ? b->type : a->type};
        for (int l = 0; l < e->type.lanes; l++) {
            int k = e->perm[l], n = a->type.lanes;
            texts[l] = k < n ? c_lane(c, types[0], "a", k) : c_lane(c, types[1], "b", k - n);
        }
        c_function(c, name, e->type, b ? 2 : 1, types, c_fmt(c, "= %s", c_literal(c, e->type, texts)));
    }
    return atom(c_fmt(c, b ? "%s(%s, %s)" : "%s(%s)", name, c_expr(c, a).s, second));
}

static Txt table(C *c, const Expr *e) {
    VType types[2] = {e->a[0]->type, e->a[1]->type};
    const char *name = c_fmt(c, "%s_table_%s_%s", c->prefix, c_kind(c, types[0]), c_kind(c, types[1])), *texts[64];
    if (!c_need(c, name) || c_instruction(c, e, name)) return c_call(c, name, e);
    for (int l = 0; l < e->type.lanes; l++) {
        const char *ops[] = {c_lane(c, types[1], "b", l), c_fmt(c, "%d", types[0].lanes)};
        texts[l] = lane(c, types[0], "a", c_fmt(c, "(%s)", c_scalar(c, X_floormod, types[1].type, types[1].type, ops).s));
    }
    c_function(c, name, e->type, 2, types, c_fmt(c, "= %s", c_literal(c, e->type, texts)));
    return c_call(c, name, e);
}

static Txt lane_of(C *c, const Expr *e) {
    return atom(c_lane(c, e->a[0]->type, c_operand(c, e->a[0]), (int)e->k));
}

static Txt insert(C *c, const Expr *e) {
    VType types[2] = {e->type, e->a[1]->type};
    const char *name = c_fmt(c, "%s_insert_%s_%d", c->prefix, c_kind(c, e->type), (int)e->k);
    bool mask = e->type.type == DT_bool && (c_vector(c, e->type) || c_is_wide(c, e->type));
    if (c_need(c, name))
        c_function(c, name, e->type, 2, types,
            c_fmt(c, "    %s = %s;\n    return a;\n", place(c, e->type, "a", c_fmt(c, "%d", (int)e->k)), mask ? "-(int32_t)b" : "b"));
    return c_call(c, name, e);
}

// The upper half is brought onto the lower one until one lane is left.
static Txt hreduce(C *c, const Expr *e) {
    const Expr *x = c_with_arguments(c, e)->a[0];
    VType from = x->type;
    const char *name = c_fmt(c, "%s_h%s_%s", c->prefix, xop_info((XOp)e->k)->name, c_kind(c, from));
    if (!c_need(c, name)) return c_call(c, name, e);
    for (int half = from.lanes / 2; half >= 1; half /= 2) {
        VType t = vtype(from.type, half);
        const Expr *part[2];
        for (int k = 0; k < 2; k++) {
            uint8_t *perm = ARENA_ARRAY(c->a, uint8_t, half);
            for (int l = 0; l < half; l++) perm[l] = (uint8_t)(k * half + l);
            Expr s = {.op = half > 1 ? X_shuffle : X_lane, .type = t, .n = 1, .a = {x}};
            if (half > 1)
                s.perm = perm;
            else
                s.k = k;
            part[k] = x_node(c->a, s);
        }
        x = x_node(c->a, (Expr){.op = (XOp)e->k, .type = t, .n = 2, .a = {part[0], part[1]}});
    }
    c_function_of(c, name, 1, &from, x);
    return c_call(c, name, e);
}

static Txt compress(C *c, const Expr *e) {
    const char *name = function_name(c, e);
    VType types[2] = {e->a[0]->type, e->a[1]->type};
    if (!c_need(c, name) || c_instruction(c, e, name)) return c_call(c, name, e);
    bool pack = e->op == X_compress;
    const char *zero = c_vector(c, e->type) ? "{0}" : c_is_wide(c, e->type) ? "{{{0}}}" : "{{0}}";
    const char *to = place(c, e->type, "r", pack ? "k" : "i"), *from = place(c, e->type, "a", pack ? "i" : "k");
    c_function(c, name, e->type, 2, types,
        c_fmt(c,
            "    %s r = %s;\n    int k = 0;\n    for (int i = 0; i < %d; i++) {\n        if (!%s) continue;\n        %s = %s;\n        "
            "k++;\n    }\n"
            "    return r;\n",
            c_type(c, e->type), zero, e->type.lanes, lane(c, types[1], "b", "i"), to, from));
    return c_call(c, name, e);
}

static Txt popcount(C *c, const Expr *e) {
    VType from = e->a[0]->type;
    const char *name = c_fmt(c, "%s_popcount_%s", c->prefix, c_kind(c, from)), *sum = c_lane(c, from, "a", 0);
    if (!c_need(c, name)) return c_call(c, name, e);
    for (int l = 1; l < from.lanes; l++) sum = c_fmt(c, "%s + %s", sum, c_lane(c, from, "a", l));
    c_function(c, name, e->type, 1, &from, c_fmt(c, "= %s", sum));
    return c_call(c, name, e);
}

static Txt dot4(C *c, const Expr *e) {
    VType types[3];
    types_of(e, types);
    const char *name = c_fmt(c, "%s_dot4_%s", c->prefix, c_kind(c, types[1])), *texts[64];
    if (!c_need(c, name) || c_instruction(c, e, name)) return c_call(c, name, e);
    for (int l = 0; l < e->type.lanes; l++) {
        const char *sum = "";
        for (int k = 0; k < 4; k++)
            sum = c_fmt(c, "%s%s%s * %s", sum, k ? " + " : "", c_lane(c, types[1], "b", 4 * l + k), c_lane(c, types[2], "c", 4 * l + k));
        texts[l] = c_fmt(c, "(int32_t)((uint32_t)%s + (uint32_t)(%s))", c_lane(c, types[0], "a", l), sum);
    }
    c_function(c, name, e->type, 3, types, c_fmt(c, "= %s", c_literal(c, e->type, texts)));
    return c_call(c, name, e);
}

static Txt widen(C *c, const Expr *e) {
    uint8_t *perm = ARENA_ARRAY(c->a, uint8_t, e->type.lanes);
    for (int l = 0; l < e->type.lanes; l++) perm[l] = (uint8_t)(e->k + l);
    VType from = vtype(e->a[0]->type.type, e->type.lanes);
    const Expr *part = e->a[0];
    if (part->type.lanes != e->type.lanes) part = x_node(c->a, (Expr){.op = X_shuffle, .type = from, .n = 1, .a = {part}, .perm = perm});
    return c_expr(c, x_node(c->a, (Expr){.op = X_cast, .type = e->type, .n = 1, .a = {part}}));
}

typedef Txt Print(C *c, const Expr *e);
static Print *const lane_print[X_COUNT] = {
    [X_const] = c_splat,
    [X_splat] = c_splat,
    [X_iota] = iota,
    [X_shuffle] = shuffle,
    [X_table] = table,
    [X_lane] = lane_of,
    [X_insert] = insert,
    [X_hreduce] = hreduce,
    [X_compress] = compress,
    [X_expand] = compress,
    [X_popcount] = popcount,
    [X_dot4] = dot4,
    [X_widen] = widen,
    [X_isa] = isa_call,
};

Txt c_lanes(C *c, const Expr *e) {
    Txt text;
    if (c_wide_op(c, e, &text)) return text;
    if (lane_print[e->op]) return lane_print[e->op](c, e);
    return c_is_defined(e) ? c_defined(c, e) : lane_function(c, e);
}
