// The exact scalar functions for machines without instructions for them, against the C library's, which are correctly rounded.
#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
// the instructions of this machine are what is to be left out
#undef __SSE2__
#undef __FMA__
#undef __FP_FAST_FMAF
#undef __FP_FAST_FMA
#undef __aarch64__
#include "../../runtime/soft.h"

static uint64_t seed = 88172645463325252u;
static uint64_t random_bits(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed * 0x2545f4914f6cdd1du;
}

// Zeros, subnormals, infinities and NaN, near exponents, few bits: whatever makes ties and cancellation likely.
static float random_f32(void) {
    uint64_t x = random_bits();
    uint32_t u = (uint32_t)(x >> 32), near = (120 + (x >> 8 & 15)) << 23;
    switch (x & 15) {
    case 0: return 0.0f;
    case 1: u &= 0x807fffff; break;
    case 2: u |= 0x7f000000; break;
    case 3:
    case 4:
    case 5: u = (u & 0x807fffff) | near; break;
    case 6: u &= 0xffff0000; break;
    case 7: u = (u & 0x80000000) | near | (x >> 20 & 3); break;
    default: break;
    }
    return mlc_float_u32(u);
}

static double random_f64(void) {
    uint64_t x = random_bits(), u = random_bits(), near = (1016 + (x >> 8 & 15)) << 52;
    switch (x & 15) {
    case 0: return 0.0;
    case 1: u &= 0x800fffffffffffff; break;
    case 2: u |= 0x7fe0000000000000; break;
    case 3:
    case 4:
    case 5: u = (u & 0x800fffffffffffff) | near; break;
    case 6: u &= 0xffffffff00000000; break;
    case 7: u = (u & 0x8000000000000000) | near | (x >> 20 & 3); break;
    default: break;
    }
    return mlc_float_u64(u);
}

static void same_f32(const char *what, float a, float b, float c, float have, float want) {
    bool same = have != have ? want != want : mlc_bits_f32(have) == mlc_bits_f32(want);
    if (!same) ck_abort_msg("%s(%a, %a, %a): found %a, expected %a", what, (double)a, (double)b, (double)c, (double)have, (double)want);
}
static void same_f64(const char *what, double a, double b, double c, double have, double want) {
    bool same = have != have ? want != want : mlc_bits_f64(have) == mlc_bits_f64(want);
    if (!same) ck_abort_msg("%s(%a, %a, %a): found %a, expected %a", what, a, b, c, have, want);
}

enum { TRIALS = 400000 };

START_TEST(f32_functions) {
    for (int i = 0; i < TRIALS; i++) {
        float a = random_f32(), b = random_f32(), c = i % 3 ? random_f32() : -a * b * (1 + (float)(i % 5 - 2) * 1e-7f);
        same_f32("fma", a, b, c, mlc_fma_f32(a, b, c), fmaf(a, b, c));
        same_f32("sqrt", a, 0, 0, mlc_sqrt_f32(a), sqrtf(a));
        same_f32("floor", a, 0, 0, mlc_floor_f32(a), floorf(a));
        same_f32("ceil", a, 0, 0, mlc_ceil_f32(a), ceilf(a));
        same_f32("trunc", a, 0, 0, mlc_trunc_f32(a), truncf(a));
        same_f32("rint", a, 0, 0, mlc_rint_f32(a), rintf(a));
        same_f32("abs", a, 0, 0, mlc_abs_f32(a), fabsf(a));
    }
}
END_TEST

START_TEST(f64_functions) {
    for (int i = 0; i < TRIALS; i++) {
        double a = random_f64(), b = random_f64(), c = i % 3 ? random_f64() : -a * b * (1 + (double)(i % 5 - 2) * 2e-16);
        same_f64("fma", a, b, c, mlc_fma_f64(a, b, c), fma(a, b, c));
        same_f64("sqrt", a, 0, 0, mlc_sqrt_f64(a), sqrt(a));
        same_f64("floor", a, 0, 0, mlc_floor_f64(a), floor(a));
        same_f64("ceil", a, 0, 0, mlc_ceil_f64(a), ceil(a));
        same_f64("trunc", a, 0, 0, mlc_trunc_f64(a), trunc(a));
        same_f64("rint", a, 0, 0, mlc_rint_f64(a), rint(a));
        same_f64("abs", a, 0, 0, mlc_abs_f64(a), fabs(a));
    }
}
END_TEST

START_TEST(set_bits) {
    for (int i = 0; i < 1000; i++) {
        uint64_t x = random_bits() & random_bits();
        int n = 0;
        for (int k = 0; k < 64; k++) n += (int)(x >> k & 1);
        ck_assert_int_eq(mlc_popcount_u64(x), n);
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("soft");
    TCase *c = tcase_create("soft");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, f32_functions);
    tcase_add_test(c, f64_functions);
    tcase_add_test(c, set_bits);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
