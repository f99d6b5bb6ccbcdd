// Casts of the small floats (f16, bf16, f8, f6, f4) and the sub-byte integers, written with basic functions.
//
// Decoding puts exponent and mantissa where f32 has them and multiplies by the power of two between the biases, which also makes subnormals
// right; only codes above the largest finite one need a select. Encoding works on the bits of |x| as f32: normal results are rounded as
// integers (half minus one, plus the last bit kept; the carry into the exponent is the right one), subnormal ones by adding a power of two
// whose last place is the format's smallest step. A source wider than f32 is first rounded to f32 to odd, which keeps the second rounding
// exact. What overflow, infinity and NaN become is asked of float_to_bits, so that type.c states it once.
#include "expr_cast.h"

#include <assert.h>
#include <math.h>

typedef struct {
    int mantissa, bias;
    uint32_t max, sign; // code of the largest finite magnitude, the sign bit
    bool ieee;          // codes above max are infinity and NaNs
} SmallFloat;

static const SmallFloat small[DT_COUNT] = {
    [DT_f16] = {10, 15, 0x7bff, 0x8000, true},
    [DT_bf16] = {7, 127, 0x7f7f, 0x8000, true},
    [DT_f8e4m3fn] = {3, 7, 0x7e, 0x80, false},
    [DT_f8e4m3fnuz] = {3, 8, 0x7f, 0x80, false},
    [DT_f8e5m2] = {2, 15, 0x7b, 0x80, true},
    [DT_f8e5m2fnuz] = {2, 16, 0x7f, 0x80, false},
    [DT_f4e2m1] = {1, 1, 0x7, 0x8, false},
    [DT_f6e2m3] = {3, 1, 0x1f, 0x20, false},
    [DT_f6e3m2] = {2, 3, 0x1f, 0x20, false},
};

enum { F32_MANTISSA = 23, F32_BIAS = 127 };
static const uint32_t f32_inf = 0x7f800000;

static const Expr *u32(Arena *a, uint32_t v) {
    return x_int(a, DT_u32, v);
}
static const Expr *op2u(Arena *a, XOp op, const Expr *x, uint32_t v) {
    return x_op2(a, op, x, u32(a, v));
}
static const Expr *pick(Arena *a, const Expr *cond, const Expr *x, const Expr *y) {
    return x_op3(a, X_select, cond, x, y);
}
static const Expr *as_f32(Arena *a, const Expr *bits) {
    return x_bits(a, DT_f32, bits);
}
static DType holder(DType t) {
    return dtype_bytes(t) == 2 ? DT_u16 : DT_u8;
}

// ---- small float -> f32 ----

static const Expr *decode_e8m0(Arena *a, const Expr *code) {
    const Expr *normal = op2u(a, X_shl, code, F32_MANTISSA);
    const Expr *finite = pick(a, op2u(a, X_eq, code, 0), u32(a, 1u << (F32_MANTISSA - 1)), normal);
    return as_f32(a, pick(a, op2u(a, X_eq, code, 255), u32(a, 0x7fc00000), finite));
}

static const Expr *decode(Arena *a, const Expr *x) {
    DType t = x->type.type;
    const Expr *code = x_cast(a, DT_u32, x_bits(a, holder(t), x));
    if (t == DT_f8e8m0) return decode_e8m0(a, code);
    const SmallFloat *f = &small[t];
    int shift = F32_MANTISSA - f->mantissa, sign_shift = 31;
    for (uint32_t s = f->sign; s > 1; s >>= 1) sign_shift--;
    const Expr *magnitude = op2u(a, X_and, code, f->sign - 1);
    const Expr *sign = op2u(a, X_shl, op2u(a, X_and, code, f->sign), (uint32_t)sign_shift);
    const Expr *scale = x_float(a, DT_f32, ldexp(1, F32_BIAS - f->bias));
    const Expr *placed = op2u(a, X_shl, magnitude, (uint32_t)shift);
    const Expr *bits = x_bits(a, DT_u32, x_op2(a, X_mul, as_f32(a, placed), scale));
    if (t == DT_bf16) return as_f32(a, op2u(a, X_shl, code, 16));
    if (f->ieee) bits = pick(a, op2u(a, X_gt, magnitude, f->max), op2u(a, X_or, placed, f32_inf), bits);
    bits = x_op2(a, X_or, bits, sign);
    uint32_t nan = float_to_bits(t, (double)NAN, false);
    bool has_nan = !f->ieee && isnan(float_from_bits(t, nan));
    if (!has_nan) return as_f32(a, bits);
    const Expr *is_nan = nan == f->sign ? op2u(a, X_eq, code, nan) : op2u(a, X_eq, magnitude, nan);
    return as_f32(a, pick(a, is_nan, u32(a, 0x7fc00000), bits));
}

// ---- f32 -> small float ----

// Away from zero: the exponent, one more when mantissa bits follow it.
static const Expr *encode_e8m0(Arena *a, const Expr *magnitude, bool saturate) {
    const Expr *rest = op2u(a, X_ne, op2u(a, X_and, magnitude, (1u << F32_MANTISSA) - 1), 0);
    const Expr *normal = x_op2(a, X_add, op2u(a, X_shr, magnitude, F32_MANTISSA), x_cast(a, DT_u32, rest));
    const Expr *small_code = x_cast(a, DT_u32, op2u(a, X_gt, magnitude, 1u << (F32_MANTISSA - 1)));
    const Expr *code = pick(a, op2u(a, X_lt, magnitude, 1u << F32_MANTISSA), small_code, normal);
    code = pick(a, op2u(a, X_lt, magnitude, 1u << (F32_MANTISSA - 1)), u32(a, saturate ? 0 : 255), code);
    code = pick(a, op2u(a, X_gt, code, 254), u32(a, saturate ? 254 : 255), code);
    return pick(a, op2u(a, X_gt, magnitude, f32_inf), u32(a, 255), code);
}

// The code of a finite magnitude if the format went on above its largest value.
static const Expr *encode_magnitude(Arena *a, const SmallFloat *f, const Expr *magnitude) {
    int shift = F32_MANTISSA - f->mantissa;
    const Expr *last = op2u(a, X_and, op2u(a, X_shr, magnitude, (uint32_t)shift), 1);
    const Expr *rounded = x_op2(a, X_add, op2u(a, X_add, magnitude, (1u << (shift - 1)) - 1), last);
    const Expr *normal = op2u(a, X_sub, op2u(a, X_shr, rounded, (uint32_t)shift), (uint32_t)(F32_BIAS - f->bias) << f->mantissa);
    if (f->bias == F32_BIAS) return normal;
    const Expr *step = x_float(a, DT_f32, ldexp(1, shift + 1 - f->bias));
    const Expr *sum = x_bits(a, DT_u32, x_op2(a, X_add, as_f32(a, magnitude), step));
    const Expr *subnormal = x_op2(a, X_sub, sum, x_bits(a, DT_u32, step));
    uint32_t smallest_normal = (uint32_t)(F32_BIAS + 1 - f->bias) << F32_MANTISSA;
    return pick(a, op2u(a, X_lt, magnitude, smallest_normal), subnormal, normal);
}

static const Expr *encode(Arena *a, DType t, const Expr *x, bool saturate) {
    const Expr *bits = x_bits(a, DT_u32, x), *magnitude = op2u(a, X_and, bits, 0x7fffffff);
    if (t == DT_f8e8m0) return x_bits(a, t, x_cast(a, DT_u8, encode_e8m0(a, magnitude, saturate)));
    const SmallFloat *f = &small[t];
    int sign_shift = 31;
    for (uint32_t s = f->sign; s > 1; s >>= 1) sign_shift--;
    const Expr *sign = op2u(a, X_and, op2u(a, X_shr, bits, (uint32_t)sign_shift), f->sign);
    const Expr *code = encode_magnitude(a, f, magnitude);
    const Expr *overflows = op2u(a, X_gt, code, f->max);
    uint32_t over = float_to_bits(t, (double)INFINITY, saturate), nan = float_to_bits(t, (double)NAN, saturate);
    bool negative_zero = float_to_bits(t, -0.0, saturate) != 0, signed_over = float_to_bits(t, -(double)INFINITY, saturate) != over;
    if (!negative_zero) sign = pick(a, op2u(a, X_eq, code, 0), u32(a, 0), sign);
    if (signed_over) code = x_op2(a, X_or, pick(a, overflows, u32(a, over), code), sign);
    if (!signed_over) code = pick(a, overflows, u32(a, over), x_op2(a, X_or, code, sign));
    code = pick(a, op2u(a, X_gt, magnitude, f32_inf), u32(a, nan), code);
    return x_bits(a, t, x_cast(a, holder(t), code));
}

// f64 -> f32 rounded to odd: an inexact value never ends in a zero bit, so rounding it again to fewer bits goes where rounding once would.
static const Expr *round_to_odd(Arena *a, const Expr *x) {
    const Expr *near = x_cast(a, DT_f32, x), *back = x_cast(a, DT_f64, near), *bits = x_bits(a, DT_u32, near);
    const Expr *even = op2u(a, X_eq, op2u(a, X_and, bits, 1), 0);
    const Expr *inexact = x_op2(a, X_or, x_op2(a, X_lt, back, x), x_op2(a, X_gt, back, x));
    const Expr *too_large = x_op2(a, X_gt, x_op1(a, X_abs, back), x_op1(a, X_abs, x));
    const Expr *moved = x_op2(a, X_add, bits, pick(a, too_large, u32(a, UINT32_MAX), u32(a, 1)));
    return as_f32(a, pick(a, x_op2(a, X_and, even, inexact), moved, bits));
}

// An f32 whose rounding to a small float is that of the integer x.
static const Expr *int_to_f32(Arena *a, const Expr *x) {
    int bits = dtype_info(x->type.type)->bits;
    if (bits <= 16) return x_cast(a, DT_f32, x);
    if (bits == 64) { // from 2^32 on one bit stands for the 16 lowest, so that f64 holds the number
        DType t = x->type.type;
        const Expr *low = x_op2(a, X_and, x, x_int(a, t, 0xffff)), *zero = x_int(a, t, 0);
        const Expr *marked = x_op2(a, X_or, x_op2(a, X_xor, x, low), pick(a, x_op2(a, X_ne, low, zero), x_int(a, t, 0x8000), zero));
        const Expr *is_small = x_op2(a, X_lt, x_op1(a, X_abs, x), x_int(a, t, (int64_t)1 << 32));
        x = pick(a, is_small, x, marked);
    }
    return round_to_odd(a, x_cast(a, DT_f64, x));
}

// ---- sub-byte integers ----

static bool is_sub_byte(DType t) {
    return dtype_is_int(t) && !dtype_is_native(t);
}
static DType byte_of(DType t) {
    return dtype_is_signed(t) ? DT_i8 : DT_u8;
}

static const Expr *to_sub_byte(Arena *a, DType t, const Expr *x) {
    DType byte = byte_of(t);
    int bits = dtype_info(t)->bits;
    bool is_signed = dtype_is_signed(t), from_float = dtype_is_float(x->type.type);
    const Expr *v = x_cast(a, byte, x);
    if (from_float) {
        const Expr *high = x_int(a, byte, (1 << (bits - is_signed)) - 1), *low = x_int(a, byte, is_signed ? -(1 << (bits - 1)) : 0);
        v = x_op2(a, X_min, x_op2(a, X_max, v, low), high);
    } else {
        const Expr *count = x_int(a, byte, 8 - bits);
        v = x_op2(a, X_shr, x_op2(a, X_shl, v, count), count);
    }
    return x_bits(a, t, v);
}

const Expr *cast_define(Arena *a, DType t, const Expr *x, bool saturate) {
    DType from = x->type.type;
    if (t == from) return x;
    if (is_sub_byte(from)) return cast_define(a, t, x_bits(a, byte_of(from), x), saturate);
    if (dtype_is_float(from) && !dtype_is_native(from)) return cast_define(a, t, decode(a, x), saturate);
    if (dtype_is_native(t)) return x_cast(a, t, x);
    if (is_sub_byte(t)) return to_sub_byte(a, t, x);
    assert(dtype_is_float(t));
    if (from == DT_f32) return encode(a, t, x, saturate);
    return encode(a, t, from == DT_f64 ? round_to_odd(a, x) : int_to_f32(a, x), saturate);
}
