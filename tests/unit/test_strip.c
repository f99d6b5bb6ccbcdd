// What scalar functions mean on elements: each operation on every type against a plain restatement, casts of small types for every code,
// and expressions run in strips.
#include "../../ir/strip.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 67 }; // odd, so that vector loops have a remainder

static Arena *arena;
static void setup(void) {
    arena = arena_new();
}
static void teardown(void) {
    arena_free(arena);
}

// ---- one operation on scalars ----

static Scalar run(XOp op, DType to, int n, const Scalar *x) {
    uint64_t in[3] = {0}, out = 0;
    for (int i = 0; i < n; i++) scalar_write(x[i], &in[i]);
    strip_op(op, x[op == X_select ? 1 : 0].type, to, 1, &out, &in[0], &in[1], &in[2]);
    return scalar_read(to, &out);
}

static Scalar int_op(XOp op, DType t, int64_t a, int64_t b) {
    return run(op, xop_info(op)->cls == XC_CMP ? DT_bool : t, 2, (Scalar[]){scalar_int(t, a), scalar_int(t, b)});
}

static double float_op(XOp op, DType t, double a, double b, double c) {
    return run(op, t, 3, (Scalar[]){scalar_float(t, a), scalar_float(t, b), scalar_float(t, c)}).f;
}

static const DType ints[] = {DT_i8, DT_i16, DT_i32, DT_i64, DT_u8, DT_u16, DT_u32, DT_u64, DT_idx, DT_i4, DT_u4, DT_i2, DT_u2};
enum { INTS = sizeof ints / sizeof *ints };

// Values that lie at the ends and near zero of every type.
static const int64_t edges[] = {0, 1, -1, 2, -2, 3, 7, -7, -8, 8, 15, 100, 127, -128, 255, 32767, -32768, 65535, INT32_MAX, INT32_MIN,
    UINT32_MAX, INT64_MAX, INT64_MIN};
enum { EDGES = sizeof edges / sizeof *edges };

// The result in a wide type where nothing overflows, to be wrapped into t; only for types of up to 32 bits.
static bool wide_result(XOp op, int64_t a, int64_t b, int64_t *r) {
    switch (op) {
    case X_add: *r = a + b; return true;
    case X_sub: *r = a - b; return true;
    case X_mul: *r = (int64_t)((uint64_t)a * (uint64_t)b); return true;
    case X_div: *r = b == 0 ? 0 : a / b; return true;
    case X_rem: *r = b == 0 ? 0 : a % b; return true;
    case X_floordiv: *r = b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0)); return true;
    case X_floormod: *r = b == 0 ? 0 : ((a % b) + b) % b; return true;
    case X_min: *r = a < b ? a : b; return true;
    case X_max: *r = a > b ? a : b; return true;
    case X_and: *r = a & b; return true;
    case X_or: *r = a | b; return true;
    case X_xor: *r = a ^ b; return true;
    case X_eq: *r = a == b; return true;
    case X_lt: *r = a < b; return true;
    case X_ge: *r = a >= b; return true;
    default: return false;
    }
}

START_TEST(integers_wrap_as_if_computed_wide) {
    DType t = ints[_i];
    if (dtype_info(t)->bits > 32) return;
    for (int op = X_add; op < X_COUNT; op++) {
        for (int i = 0; i < EDGES * EDGES; i++) {
            int64_t a = scalar_as_i64(scalar_int(t, edges[i / EDGES])), b = scalar_as_i64(scalar_int(t, edges[i % EDGES])), want;
            if (!wide_result((XOp)op, a, b, &want)) break;
            Scalar got = int_op((XOp)op, t, a, b), expected = scalar_int(got.type, want);
            ck_assert_msg(scalar_same(got, expected), "%s %s(%lld, %lld) = %lld", xop_info((XOp)op)->name, dtype_name(t), (long long)a,
                (long long)b, (long long)got.i);
        }
    }
}
END_TEST

START_TEST(integers_of_64_bits) {
    ck_assert(int_op(X_add, DT_i64, INT64_MAX, 1).i == INT64_MIN);
    ck_assert(int_op(X_mul, DT_idx, INT64_MAX, 2).i == -2);
    ck_assert(int_op(X_div, DT_i64, INT64_MIN, -1).i == INT64_MIN);
    ck_assert(int_op(X_rem, DT_i64, INT64_MIN, -1).i == 0);
    ck_assert(int_op(X_div, DT_i64, 5, 0).i == 0 && int_op(X_floormod, DT_i64, 5, 0).i == 0);
    ck_assert(
        int_op(X_floordiv, DT_i64, -7, 2).i == -4 && int_op(X_floormod, DT_i64, -7, 2).i == 1 && int_op(X_floormod, DT_i64, 7, -2).i == -1);
    ck_assert(int_op(X_div, DT_u64, -1, 2).u == UINT64_MAX / 2);
    ck_assert(int_op(X_lt, DT_u64, 1, -1).i == 1 && int_op(X_lt, DT_i64, 1, -1).i == 0);
    ck_assert(run(X_abs, DT_i64, 1, (Scalar[]){scalar_int(DT_i64, INT64_MIN)}).i == INT64_MIN);
}
END_TEST

START_TEST(shifts_by_the_width_give_zero) {
    for (int i = 0; i < 9; i++) {
        DType t = ints[i];
        int bits = dtype_info(t)->bits;
        ck_assert(scalar_same(int_op(X_shl, t, -1, bits), scalar_int(t, 0)));
        ck_assert(scalar_same(int_op(X_shr, t, -1, bits), scalar_int(t, 0)));
        ck_assert(scalar_same(int_op(X_shl, t, 1, -1), scalar_int(t, 0)));
        ck_assert(scalar_same(int_op(X_shl, t, 3, bits - 1), scalar_int(t, INT64_MIN >> (64 - bits))));
        ck_assert(scalar_same(
            int_op(X_shr, t, -8, 1), dtype_is_signed(t) ? scalar_int(t, -4) : scalar_int(t, (int64_t)((UINT64_MAX >> (65 - bits)) - 3))));
    }
}
END_TEST

START_TEST(float_arithmetic) {
    static const DType types[] = {DT_f32, DT_f64, DT_f16, DT_bf16};
    for (int i = 0; i < 4; i++) {
        DType t = types[i];
        ck_assert(isnan(float_op(X_min, t, NAN, 1, 0)) && isnan(float_op(X_min, t, 1, NAN, 0)));
        ck_assert(isnan(float_op(X_max, t, NAN, 1, 0)) && isnan(float_op(X_max, t, 1, NAN, 0)));
        ck_assert(signbit(float_op(X_min, t, 0.0, -0.0, 0)) && !signbit(float_op(X_min, t, -0.0, 0.0, 0)));
        ck_assert(
            float_op(X_rint, t, 2.5, 0, 0) == 2 && float_op(X_rint, t, -3.5, 0, 0) == -4 && signbit(float_op(X_rint, t, -0.25, 0, 0)));
        ck_assert(float_op(X_floor, t, -0.5, 0, 0) == -1 && float_op(X_ceil, t, 0.5, 0, 0) == 1 && float_op(X_trunc, t, -1.5, 0, 0) == -1);
        ck_assert(float_op(X_sqrt, t, 2.25, 0, 0) == 1.5 && isnan(float_op(X_sqrt, t, -1, 0, 0)));
        ck_assert(
            float_op(X_abs, t, -0.0, 0, 0) == 0 && !signbit(float_op(X_abs, t, -0.0, 0, 0)) && signbit(float_op(X_neg, t, 0.0, 0, 0)));
        ck_assert(isinf(float_op(X_div, t, 1, 0, 0)) && isnan(float_op(X_div, t, 0, 0, 0)));
    }
    // one rounding: the product's low part survives only in a true fma
    ck_assert(float_op(X_fma, DT_f32, 1 + 0x1p-23, 1 - 0x1p-23, -1) == -0x1p-46);
    ck_assert(float_op(X_fma, DT_f64, 1 + 0x1p-52, 1 - 0x1p-52, -1) == -0x1p-104);
    ck_assert(float_op(X_add, DT_f16, 2048, 1, 0) == 2048 && float_op(X_add, DT_f16, 65504, 16, 0) == HUGE_VAL);
}
END_TEST

START_TEST(fmod_is_exact) {
    static const double v[] = {0.0, -0.0, 1, -1, 0.1, 5.5, -5.5, 3, 1e30, -1e30, 0x1p-149, 0x1.fffffep127, 7e-40, 1e-20, INFINITY,
        -INFINITY, NAN, 0x1p-1074, 1e300};
    enum { V = sizeof v / sizeof *v };
    for (int i = 0; i < V * V; i++) {
        float a = (float)v[i / V], b = (float)v[i % V];
        double want = (double)fmodf(a, b), got = float_op(X_fmod, DT_f32, (double)a, (double)b, 0);
        ck_assert(scalar_same(scalar_float(DT_f32, want), scalar_float(DT_f32, got)));
        want = fmod(v[i / V], v[i % V]), got = float_op(X_fmod, DT_f64, v[i / V], v[i % V], 0);
        ck_assert(scalar_same(scalar_float(DT_f64, want), scalar_float(DT_f64, got)));
    }
}
END_TEST

START_TEST(logic_and_selection) {
    for (int a = 0; a < 2; a++) {
        for (int b = 0; b < 2; b++) {
            ck_assert_int_eq((int)int_op(X_and, DT_bool, a, b).i, a & b);
            ck_assert_int_eq((int)int_op(X_or, DT_bool, a, b).i, a | b);
            ck_assert_int_eq((int)int_op(X_xor, DT_bool, a, b).i, a ^ b);
            ck_assert_int_eq((int)int_op(X_eq, DT_bool, a, b).i, a == b);
        }
        ck_assert_int_eq((int)run(X_not, DT_bool, 1, (Scalar[]){scalar_int(DT_bool, a)}).i, !a);
    }
    static const DType types[] = {DT_f32, DT_f16, DT_i64, DT_u8, DT_bool, DT_f8e5m2, DT_i4};
    for (int i = 0; i < 7; i++) {
        Scalar one = scalar_int(types[i], 1), zero = scalar_int(types[i], 0);
        ck_assert(scalar_same(run(X_select, types[i], 3, (Scalar[]){scalar_int(DT_bool, 1), one, zero}), one));
        ck_assert(scalar_same(run(X_select, types[i], 3, (Scalar[]){scalar_int(DT_bool, 0), one, zero}), zero));
    }
}
END_TEST

// ---- casts ----

static Scalar cast(XOp op, Scalar x, DType to) {
    return run(op, to, 1, &x);
}

static const double sources[] = {0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.999, 100.7, 127.5, -128.9, 255.9, 256, 65504, 65520, 1e9, -1e9,
    2147483647.0, 2147483648.0, -2147483649.0, 4294967296.0, 9.3e18, -9.3e18, 1.9e19, 1e300, INFINITY, -INFINITY, NAN, 1e-8, 5.96e-8,
    1e-40};
enum { SOURCES = sizeof sources / sizeof *sources };

// scalar_float states what the saturating Cast from a float means.
START_TEST(casts_from_floats_are_those_of_type_c) {
    static const DType from[] = {DT_f32, DT_f64, DT_f16, DT_bf16};
    for (int f = 0; f < 4; f++) {
        for (int t = DT_none + 1; t < DT_COUNT; t++) {
            char cls = dtype_info((DType)t)->cls;
            if (cls == 'S' || cls == 'C') continue;
            for (int i = 0; i < SOURCES; i++) {
                Scalar x = scalar_float(from[f], sources[i]), got = cast(X_casts, x, (DType)t), want = scalar_float((DType)t, x.f);
                ck_assert_msg(scalar_same(got, want), "%s %a to %s: %lld, expected %lld", dtype_name(from[f]), x.f, dtype_name((DType)t),
                    (long long)got.i, (long long)want.i);
            }
        }
    }
}
END_TEST

START_TEST(casts_from_integers_are_those_of_type_c) {
    for (int f = 0; f < INTS; f++) {
        for (int t = DT_none + 1; t < DT_COUNT; t++) {
            char cls = dtype_info((DType)t)->cls;
            if (cls == 'S' || cls == 'C' || (t == DT_f32 && dtype_info(ints[f])->bits > 32)) continue; // f64 is no detour for those
            for (int i = 0; i < EDGES; i++) {
                Scalar x = scalar_int(ints[f], edges[i]), got = cast(X_casts, x, (DType)t);
                Scalar want = cls != 'F' ? scalar_int((DType)t, x.i)
                                         : scalar_float((DType)t, ints[f] == DT_u64 ? (double)x.u : (double)scalar_as_i64(x));
                ck_assert_msg(scalar_same(got, want), "%s %lld to %s: %lld, expected %lld", dtype_name(ints[f]), (long long)x.i,
                    dtype_name((DType)t), (long long)got.i, (long long)want.i);
            }
        }
    }
}
END_TEST

static const DType small[] = {
    DT_f16, DT_bf16, DT_f8e4m3fn, DT_f8e4m3fnuz, DT_f8e5m2, DT_f8e5m2fnuz, DT_f4e2m1, DT_f6e2m3, DT_f6e3m2, DT_f8e8m0};
enum { SMALL = sizeof small / sizeof *small };

START_TEST(every_code_of_a_small_float_decodes) {
    DType t = small[_i];
    uint32_t codes = 1u << dtype_info(t)->bits;
    for (uint32_t code = 0; code < codes; code++) {
        uint16_t in = (uint16_t)code;
        float got, want = (float)float_from_bits(t, code);
        strip_op(X_cast, t, DT_f32, 1, &got, &in, NULL, NULL);
        if (memcmp(&got, &want, sizeof got) != 0 && !(isnan(got) && isnan(want)))
            ck_abort_msg("%s code %x is %a, expected %a", dtype_name(t), code, (double)got, (double)want);
    }
}
END_TEST

static void check_encoding(DType t, int n, const float *x, const double *wide) {
    uint16_t out[256] = {0};
    for (int pass = 0; pass < 4; pass++) {
        bool saturate = pass & 1, from_f64 = pass & 2;
        strip_op(saturate ? X_casts : X_cast, from_f64 ? DT_f64 : DT_f32, t, n, out, from_f64 ? (const void *)wide : x, NULL, NULL);
        for (int i = 0; i < n; i++) {
            uint32_t got = dtype_bytes(t) == 2 ? out[i] : ((const uint8_t *)out)[i],
                     want = float_to_bits(t, from_f64 ? wide[i] : (double)x[i], saturate);
            if (got != want) ck_abort_msg("%a to %s: code %x, expected %x", from_f64 ? wide[i] : (double)x[i], dtype_name(t), got, want);
        }
    }
}

// All codes' values, the ties between neighbours and what lies one place beside a tie (in f64 also far closer than f32 can tell), and a
// sample of all f32.
START_TEST(encoding_rounds_once) {
    DType t = small[_i];
    float x[256];
    double wide[256];
    uint32_t codes = 1u << dtype_info(t)->bits;
    for (uint32_t code = 0; code + 1 < codes; code++) {
        double v = float_from_bits(t, code), next = float_from_bits(t, code + 1), tie = isfinite(v) && isfinite(next) ? (v + next) / 2 : v;
        float ft = (float)tie;
        float near[] = {(float)v, ft, nextafterf(ft, INFINITY), nextafterf(ft, -INFINITY), ft * 2, -ft};
        double close[] = {v, tie, nextafter(tie, INFINITY), nextafter(tie, -INFINITY), tie * 1.0000001, -tie};
        check_encoding(t, 6, near, close);
    }
    uint64_t bits = 0;
    while (bits < UINT64_C(1) << 32) {
        int n = 0;
        for (; n < 256 && bits < UINT64_C(1) << 32; n++, bits += 12289) {
            uint32_t low = (uint32_t)bits;
            memcpy(&x[n], &low, sizeof x[n]);
            wide[n] = (double)x[n] * (1 + 0x1p-40);
        }
        check_encoding(t, n, x, wide);
    }
}
END_TEST

// An i64 between two bf16 values, one above their middle: rounding through f64 would lose the one.
START_TEST(large_integers_round_once) {
    int64_t tie = ((int64_t)0x101 << 54) + 0; // 257 * 2^54 lies between 256 and 258
    ck_assert(cast(X_cast, scalar_int(DT_i64, tie), DT_bf16).f == ldexp(256, 54));
    ck_assert(cast(X_cast, scalar_int(DT_i64, tie + 1), DT_bf16).f == ldexp(258, 54));
    ck_assert(cast(X_cast, scalar_int(DT_i64, -tie - 1), DT_bf16).f == -ldexp(258, 54));
    ck_assert(cast(X_cast, scalar_int(DT_u64, (int64_t)((uint64_t)tie * 2 + 1)), DT_bf16).f == ldexp(258, 55));
}
END_TEST

START_TEST(bits_are_kept) {
    ck_assert(cast(X_bits, scalar_float(DT_f32, 1), DT_u32).u == 0x3f800000);
    ck_assert(cast(X_bits, scalar_int(DT_i64, INT64_MIN), DT_f64).f == 0);
    ck_assert(cast(X_bits, scalar_float(DT_f16, -2), DT_u16).u == 0xc000);
    ck_assert(cast(X_bits, scalar_int(DT_u8, 0x7e), DT_f8e4m3fn).f == 448);
}
END_TEST

// ---- strips ----

// A strip gives the same as its elements one by one, at every length, and in place.
START_TEST(strips_equal_single_elements) {
    for (int op = X_add; op < X_COUNT; op++) {
        for (int k = 0; k < 6; k++) {
            static const DType types[] = {DT_f32, DT_f64, DT_i32, DT_u8, DT_i64, DT_f16};
            DType t = types[k];
            const XOpInfo *info = xop_info((XOp)op);
            if (info->cls == XC_CAST || op == X_select || !(dtype_is_float(t) ? info->cls == XC_MATH || info->c_float[0] : info->c_int[0]))
                continue;
            uint64_t a[N], b[N], c[N], out[N], in_place[N];
            int bytes = dtype_bytes(t);
            for (int i = 0; i < N; i++) {
                double v[3] = {i * 0.75 - 9, i % 7 - 3, 5.5 - i};
                scalar_write(scalar_float(t, v[0]), (char *)a + (size_t)(i * bytes));
                scalar_write(scalar_float(t, v[1]), (char *)b + (size_t)(i * bytes));
                scalar_write(scalar_float(t, v[2]), (char *)c + (size_t)(i * bytes));
            }
            strip_op((XOp)op, t, t, N, out, a, b, c);
            DType result = info->cls == XC_CMP ? DT_bool : t;
            for (int i = 0; i < N; i++) {
                uint64_t one = 0;
                size_t at = (size_t)(i * bytes);
                strip_op((XOp)op, t, t, 1, &one, (char *)a + at, (char *)b + at, (char *)c + at);
                ck_assert(scalar_same(scalar_read(result, &one), scalar_read(result, (char *)out + (size_t)(i * dtype_bytes(result)))));
            }
            if (result != t) continue;
            memcpy(in_place, a, sizeof a);
            strip_op((XOp)op, t, t, N, in_place, in_place, b, c);
            for (int i = 0; i < N; i++)
                ck_assert(
                    scalar_same(scalar_read(t, (char *)in_place + (size_t)(i * bytes)), scalar_read(t, (char *)out + (size_t)(i * bytes))));
        }
    }
}
END_TEST

typedef struct {
    int calls;
} Leaves;

// Argument k is the element's number times k + 1.
static void fill(void *ctx, const Expr *e, int n, void *dst) {
    Leaves *l = ctx;
    l->calls++;
    for (int i = 0; i < n; i++) ((float *)dst)[i] = (float)(i * (int)(e->k + 1));
}

START_TEST(expressions_share_nodes) {
    const Expr *x = x_arg(arena, 0, DT_f32), *y = x_arg(arena, 1, DT_f32);
    const Expr *s = x_op2(arena, X_add, x, y),
               *roots[2] = {x_op2(arena, X_mul, s, s), x_op3(arena, X_fma, s, x, x_float(arena, DT_f32, 0.5))};
    StripCode *code = strip_prepare(arena, roots, 2, 64);
    for (int n = 64; n > 0; n -= 21) {
        Leaves l = {0};
        strip_run(code, n, fill, &l);
        ck_assert_int_eq(l.calls, 2);
        const float *r0 = strip_result(code, 0), *r1 = strip_result(code, 1);
        for (int i = 0; i < n; i++) ck_assert(r0[i] == (float)(9 * i * i) && r1[i] == (float)(3 * i * i) + 0.5f);
    }
}
END_TEST

// Many values alive at once and many dead ones: strips are reused without mixing them up.
START_TEST(long_chains_reuse_strips) {
    const Expr *x = x_arg(arena, 0, DT_f32), *sum = x;
    const Expr *terms[40];
    for (int i = 0; i < 40; i++) terms[i] = x_op2(arena, X_mul, x, x_float(arena, DT_f32, i + 2));
    for (int i = 0; i < 40; i++) sum = x_op2(arena, X_add, sum, x_op2(arena, X_sub, terms[i], terms[39 - i]));
    const Expr *roots[2] = {sum, x};
    StripCode *code = strip_prepare(arena, roots, 2, 256);
    strip_run(code, 256, fill, &(Leaves){0});
    for (int i = 0; i < 256; i++)
        ck_assert(((const float *)strip_result(code, 0))[i] == (float)i && ((const float *)strip_result(code, 1))[i] == (float)i);
}
END_TEST

int main(void) {
    Suite *s = suite_create("strip");
    TCase *t = tcase_create("strip");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, integers_wrap_as_if_computed_wide, 0, INTS);
    tcase_add_test(t, integers_of_64_bits);
    tcase_add_test(t, shifts_by_the_width_give_zero);
    tcase_add_test(t, float_arithmetic);
    tcase_add_test(t, fmod_is_exact);
    tcase_add_test(t, logic_and_selection);
    tcase_add_test(t, casts_from_floats_are_those_of_type_c);
    tcase_add_test(t, casts_from_integers_are_those_of_type_c);
    tcase_add_loop_test(t, every_code_of_a_small_float_decodes, 0, SMALL);
    tcase_add_loop_test(t, encoding_rounds_once, 0, SMALL);
    tcase_add_test(t, large_integers_round_once);
    tcase_add_test(t, bits_are_kept);
    tcase_add_test(t, strips_equal_single_elements);
    tcase_add_test(t, expressions_share_nodes);
    tcase_add_test(t, long_chains_reuse_strips);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
