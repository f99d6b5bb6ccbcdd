// Scalar functions for which C has no operator: casts, roundings, fma, and the functions of runtime/soft.h.
#include "c_print.h"

#include <string.h>

static Txt call(C *c, const char *name, int n, const char *const *ops) {
    return (Txt){c_fmt(c, n == 1 ? "%s(%s)" : "%s(%s, %s, %s)", name, ops[0], n > 1 ? ops[1] : "", n > 2 ? ops[2] : ""), true};
}

// ---- casts ----
static int cast_digits(const C *c, DType t) {
    int bits = t == DT_idx ? c->target->pointer_bits : dtype_info(t)->bits;
    return bits - (dtype_is_signed(t) || t == DT_idx);
}

// 2^digits is the first value above the type's range; comparisons with it are exact in either float type.
static Txt saturating_cast(C *c, DType from, DType to, const char *const *ops) {
    const char *name = c_fmt(c, "%s_cast_%s_%s", c->prefix, dtype_name(from), dtype_name(to));
    VType arg = vtype(from, 1);
    if (!c_need(c, name)) return call(c, name, 1, ops);
    int digits = cast_digits(c, to);
    bool is_signed = dtype_is_signed(to) || to == DT_idx;
    const char *f = from == DT_f32 ? "f" : "", *type = c_type(c, vtype(to, 1));
    double above = (double)((uint64_t)1 << (digits - 1)) * 2;
    uint64_t largest = ((uint64_t)1 << (digits - 1)) * 2 - 1;
    const char *max = c_fmt(c, "%llu%s", (unsigned long long)largest, is_signed || digits < 32 ? "" : "u");
    const char *min = is_signed ? c_fmt(c, "-%s - 1", max) : "0", *below = is_signed ? c_fmt(c, "-%.1f%s", above, f) : c_fmt(c, "0.0%s", f);
    c_function(c, name, vtype(to, 1), 1, &arg,
        c_fmt(c, "    if (a != a) return 0;\n    if (a <= %s) return %s;\n    if (a >= %.1f%s) return %s;\n    return (%s)a;\n", below, min,
            above, f, max, type));
    return call(c, name, 1, ops);
}

static Txt bits_cast(C *c, DType from, DType to, const char *const *ops) {
    DType f = c_storage(from), t = c_storage(to);
    const char *type = c_type(c, vtype(to, 1));
    if (!dtype_is_float(f) && !dtype_is_float(t)) return (Txt){c_fmt(c, "(%s)%s", type, ops[0]), false};
    if (f == t) return (Txt){ops[0], false};
    const char *name = c_fmt(c, "%s_bits_%s_%s", c->prefix, dtype_name(f), dtype_name(t));
    VType arg = vtype(f, 1);
    if (c_need(c, name))
        c_function(c, name, vtype(t, 1), 1, &arg, c_fmt(c, "    %s r;\n    memcpy(&r, &a, sizeof r);\n    return r;\n", type));
    return call(c, name, 1, ops);
}

static Txt cast(C *c, XOp op, DType from, DType to, const char *const *ops) {
    if (op == X_bits) return bits_cast(c, from, to, ops);
    if (from == to) return (Txt){ops[0], false};
    if (to == DT_bool) return (Txt){c_fmt(c, "%s != 0", ops[0]), false};
    if (dtype_is_float(from) && !dtype_is_float(to)) return saturating_cast(c, from, to, ops);
    return (Txt){c_fmt(c, "(%s)%s", c_type(c, vtype(to, 1)), ops[0]), false};
}

// ---- functions ----
// Builtins that compile to an instruction where the target has the feature.
static const struct {
    XOp op;
    const char *feature, *f32, *f64;
} builtins[] = {
    {X_fma, "fma", "__builtin_fmaf", "__builtin_fma"},
    {X_floor, "sse4.1", "__builtin_floorf", "__builtin_floor"},
    {X_ceil, "sse4.1", "__builtin_ceilf", "__builtin_ceil"},
    {X_trunc, "sse4.1", "__builtin_truncf", "__builtin_trunc"},
    {X_rint, "sse4.1", "__builtin_rintf", "__builtin_rint"},
};

Txt c_custom(C *c, XOp op, DType t, DType to, const char *const *ops) {
    if (xop_info(op)->cls == XC_CAST) return cast(c, op, t, to, ops);
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
        if (builtins[i].op == op && c->hosted && target_has(c->target, builtins[i].feature))
            return call(c, t == DT_f32 ? builtins[i].f32 : builtins[i].f64, xop_info(op)->arity, ops);
    return call(c, c_soft(c, c_fmt(c, "%s_%s", xop_info(op)->name, dtype_name(t))), xop_info(op)->arity, ops);
}
