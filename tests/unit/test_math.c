// The definitions of MATH functions: measured against the C library's long double on dense samples, each within the bound its row states;
// special cases; and what lowering must leave.
#include "../../ir/strip.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 256, SAMPLES = 1 << 17 };

typedef struct {
    XOp op;
    DType type;
    double ulp;
} Row;

static const Row rows[] = {
#define M(fn, type, ulp, text) {X_##fn, DT_##type, ulp},
#include "../../ir/math.def"
#undef M
};
enum { ROWS = sizeof rows / sizeof *rows };

static long double sigmoid(long double x) {
    return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x));
}

static const struct {
    XOp op;
    long double (*fn)(long double);
} references[] = {{X_exp, expl}, {X_exp2, exp2l}, {X_expm1, expm1l}, {X_log, logl}, {X_log1p, log1pl}, {X_sin, sinl}, {X_cos, cosl},
    {X_tan, tanl}, {X_asin, asinl}, {X_acos, acosl}, {X_atan, atanl}, {X_sinh, sinhl}, {X_cosh, coshl}, {X_tanh, tanhl}, {X_asinh, asinhl},
    {X_acosh, acoshl}, {X_atanh, atanhl}, {X_erf, erfl}, {X_sigmoid, sigmoid}, {X_lgamma, lgammal}};

static long double reference(XOp op, double x, double y) {
    if (op == X_pow) return powl(x, y);
    for (size_t i = 0; i < sizeof references / sizeof *references; i++)
        if (references[i].op == op) return references[i].fn(x);
    ck_abort_msg("no reference for %s", xop_info(op)->name);
    return 0;
}

// ---- measuring ----

static double read_float(DType t, const void *p, int i) {
    return t == DT_f32 ? (double)((const float *)p)[i] : ((const double *)p)[i];
}

static void write_float(DType t, void *p, int i, double v) {
    if (t == DT_f32) ((float *)p)[i] = (float)v;
    if (t == DT_f64) ((double *)p)[i] = v;
}

// A value with the bits' pattern in type t.
static double from_pattern(DType t, uint64_t bits) {
    float f;
    double d;
    uint32_t low = (uint32_t)(bits >> 32);
    memcpy(&f, &low, sizeof f);
    memcpy(&d, &bits, sizeof d);
    return t == DT_f32 ? (double)f : d;
}

static long double last_place(DType t, long double v) {
    int e, digits = t == DT_f32 ? 24 : 53, least = t == DT_f32 ? -149 : -1074;
    frexpl(v, &e);
    return ldexpl(1, e - digits < least ? least : e - digits);
}

// Infinity stands one place above the largest number, so that a result next to it is measured too.
static long double bounded(DType t, long double v) {
    long double limit = ldexpl(1, t == DT_f32 ? 128 : 1024);
    return v > limit ? limit : v < -limit ? -limit : v;
}

static double error_of(const Row *row, double got, long double want, double x) {
    if (isnan(got) || isnan(want)) return isnan(got) && isnan(want) ? 0 : HUGE_VAL;
    long double max = ldexpl(1, row->type == DT_f32 ? 127 : 1023), scale = fabsl(want) > max ? max : fabsl(want);
    if (row->op == X_lgamma && x < 0 && scale < 1) scale = 1;
    if (got == 0 && want == 0 && !signbit(got) != !signbit(want)) return HUGE_VAL;
    return (double)(fabsl(bounded(row->type, got) - bounded(row->type, want)) / last_place(row->type, scale));
}

// xorshift64*, so that samples are the same everywhere.
static uint64_t next_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1dull;
}

static double uniform(uint64_t *state, double lo, double hi) {
    return lo + (hi - lo) * ldexp((double)(next_random(state) >> 11), -53);
}

static void check_batch(const Row *row, const void *x, const void *y) {
    static double out[BATCH];
    strip_op(row->op, row->type, row->type, BATCH, out, x, y, NULL);
    for (int i = 0; i < BATCH; i++) {
        double vx = read_float(row->type, x, i), vy = read_float(row->type, y, i), got = read_float(row->type, out, i);
        double error = error_of(row, got, reference(row->op, vx, vy), vx);
        if (error <= row->ulp) continue; // an assertion each would cost more than the measurement
        ck_abort_msg(
            "%s %s(%a, %a) = %a: %.3f ulp, stated %.3f", xop_info(row->op)->name, dtype_name(row->type), vx, vy, got, error, row->ulp);
    }
}

// ---- tests ----

START_TEST(all_bit_patterns) {
    const Row *row = &rows[_i];
    static double x[BATCH], y[BATCH];
    uint64_t state = 42, step = UINT64_MAX / SAMPLES | 1, bits = 0;
    for (int done = 0; done < SAMPLES; done += BATCH) {
        for (int i = 0; i < BATCH; i++, bits += step) {
            write_float(row->type, x, i, from_pattern(row->type, bits + (next_random(&state) >> 24)));
            write_float(row->type, y, i, row->op == X_pow ? uniform(&state, -20, 20) : 0);
        }
        check_batch(row, x, y);
    }
}
END_TEST

// Where the functions vary most, and pow with bases near 1 and large exponents.
START_TEST(middle_range) {
    const Row *row = &rows[_i];
    static double x[BATCH], y[BATCH];
    uint64_t state = 7;
    for (int done = 0; done < SAMPLES; done += BATCH) {
        double range = done % (8 * BATCH) == 0 ? 100 : done % (4 * BATCH) == 0 ? 10 : 2;
        for (int i = 0; i < BATCH; i++) {
            double near_one = 1 + uniform(&state, -1, 1) * ldexp(1, -(int)(next_random(&state) % 20));
            double wide = row->type == DT_f32 ? 100 : 700;
            write_float(row->type, x, i, row->op == X_pow ? near_one : uniform(&state, -range, range));
            write_float(row->type, y, i, row->op == X_pow ? uniform(&state, -1, 1) * wide / fabs(log(near_one)) : 0);
        }
        check_batch(row, x, y);
    }
}
END_TEST

static const double specials[] = {0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1e-40, -1e-40, 0x1p-149, 3.5, -7.0, 0x1p23,
    0x1.fffffep22, -0x1p24, 0x1.fffffep127, -0x1.fffffep127, (double)INFINITY, -(double)INFINITY, (double)NAN, 0x1p52,
    0x1.fffffffffffffp1023, 0x1p-1074, 1.5, 8.0, 88.7, -103.9, 0x1.fffffep-1, -0x1.fffffep-1};
enum { SPECIALS = sizeof specials / sizeof *specials };

START_TEST(special_values) {
    const Row *row = &rows[_i];
    static double x[BATCH], y[BATCH];
    int n = 0;
    for (int i = 0; i < SPECIALS; i++) {
        for (int j = 0; j < (row->op == X_pow ? SPECIALS : 1); j++) {
            write_float(row->type, x, n, specials[i]);
            write_float(row->type, y, n, specials[j]);
            if (++n < BATCH) continue;
            check_batch(row, x, y);
            n = 0;
        }
    }
    check_batch(row, x, y); // the rest, with what lies behind it
}
END_TEST

// The f32 nearest to multiples of pi/2 and of the largest exponents.
START_TEST(hard_angles) {
    static const float angle[] = {0x1.921fb6p+0f, 0x1.921fb6p+1f, 0x1.2d97c8p+2f, 0x1.6c6cbcp+103f, 0x1.4f7b5ap+6f, 0x1.88c6f4p+15f,
        0x1.f4653cp+22f, 0x1.fffffep+127f, 0x1p127f, 0x1.58b906p+53f, 0x1.1cfcp+10f, 0x1.5d13f4p+100f};
    static const XOp ops[] = {X_sin, X_cos, X_tan};
    float x[BATCH] = {0};
    memcpy(x, angle, sizeof angle);
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < 3; k++)
            if (rows[i].op == ops[k] && rows[i].type == DT_f32) check_batch(&rows[i], x, x);
}
END_TEST

START_TEST(every_function_has_rows) {
    for (int op = 0; op < X_COUNT; op++) {
        if (xop_info((XOp)op)->cls != XC_MATH) continue;
        int found = 0;
        for (int i = 0; i < ROWS; i++) found += rows[i].op == (XOp)op;
        ck_assert_msg(found == 2, "%s has %d rows", xop_info((XOp)op)->name, found);
    }
}
END_TEST

static void assert_basic(void *ctx, const Expr *e) {
    Arena *a = ctx;
    XClass cls = xop_info(e->op)->cls;
    ck_assert_int_ne(cls, XC_MATH);
    const char *fault = expr_check(a, e);
    ck_assert_msg(!fault, "%s", fault);
    if (cls < XC_ARITH || e->op == X_bits) return;
    ck_assert(dtype_is_native(e->type.type));
    for (int i = 0; i < e->n; i++) ck_assert(dtype_is_native(e->a[i]->type.type));
}

START_TEST(lowering_leaves_basic_functions) {
    static const DType types[] = {DT_f32, DT_f64, DT_f16, DT_bf16, DT_f8e4m3fn, DT_f4e2m1};
    Arena *a = arena_new();
    for (int op = 0; op < X_COUNT; op++) {
        if (xop_info((XOp)op)->cls != XC_MATH) continue;
        for (int k = 0; k < 6; k++) {
            for (int lanes = 1; lanes <= 8; lanes *= 8) {
                const Expr *x[2] = {x_splat(a, x_arg(a, 0, types[k]), lanes), x_splat(a, x_arg(a, 1, types[k]), lanes)};
                const Expr *call = op == X_pow ? x_op2(a, (XOp)op, x[0], x[1]) : x_op1(a, (XOp)op, x[0]);
                const Expr *lowered = expr_lower_math(a, call);
                ck_assert(vtype_same(lowered->type, call->type));
                expr_visit(lowered, assert_basic, a);
            }
        }
    }
    arena_free(a);
}
END_TEST

// f16 computes in f32 and rounds once.
START_TEST(small_floats_round_the_f32_result) {
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint16_t in = (uint16_t)bits, out;
        float x = (float)float_from_bits(DT_f16, bits), y;
        strip_op(X_exp, DT_f16, DT_f16, 1, &out, &in, NULL, NULL);
        strip_op(X_exp, DT_f32, DT_f32, 1, &y, &x, NULL, NULL);
        if (out != float_to_bits(DT_f16, (double)y, false)) ck_abort_msg("exp of f16 %x is %x", (unsigned)bits, out);
    }
}
END_TEST

START_TEST(folding_is_the_run_time_value) {
    Arena *a = arena_new();
    const Expr *e = x_op1(a, X_sin, x_float(a, DT_f32, 1e30));
    float x = 1e30f, y;
    strip_op(X_sin, DT_f32, DT_f32, 1, &y, &x, NULL, NULL);
    ck_assert_int_eq(e->op, X_const);
    ck_assert(e->k_scalar.f == (double)y);
    arena_free(a);
}
END_TEST

int main(void) {
    Suite *s = suite_create("math");
    TCase *t = tcase_create("math");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, all_bit_patterns, 0, ROWS);
    tcase_add_loop_test(t, middle_range, 0, ROWS);
    tcase_add_loop_test(t, special_values, 0, ROWS);
    tcase_add_test(t, hard_angles);
    tcase_add_test(t, every_function_has_rows);
    tcase_add_test(t, lowering_leaves_basic_functions);
    tcase_add_test(t, small_floats_round_the_f32_result);
    tcase_add_test(t, folding_is_the_run_time_value);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
