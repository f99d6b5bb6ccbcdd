// Element types: the table, and every code of every small float format: values, round trips, ties to even, saturation, NaN; wrapping and
// saturating integers; memory form.
#include "../../ir/type.h"

#include <check.h>
#include <math.h>
#include <string.h>

static const DType small[] = {DT_f16, DT_bf16, DT_f8e4m3fn, DT_f8e4m3fnuz, DT_f8e5m2, DT_f8e5m2fnuz, DT_f4e2m1, DT_f6e2m3, DT_f6e3m2};
enum { SMALL = sizeof small / sizeof *small };

START_TEST(table_is_consistent) {
    for (int i = DT_none + 1; i < DT_COUNT; i++) {
        DType t = (DType)i;
        const char *name = dtype_name(t);
        ck_assert(dtype_parse(name, strlen(name)) == t);
        if (dtype_info(t)->onnx) ck_assert(dtype_from_onnx(dtype_info(t)->onnx) == t);
    }
    ck_assert(dtype_parse("f3", 2) == DT_none && dtype_parse("f322", 4) == DT_none && dtype_parse("", 0) == DT_none);
    ck_assert(dtype_from_onnx(0) == DT_none && dtype_from_onnx(99) == DT_none && dtype_from_onnx(-1) == DT_none);
    ck_assert_int_eq(dtype_bytes(DT_i4), 1);
    ck_assert_int_eq(dtype_bytes(DT_bool), 1);
    ck_assert_int_eq(dtype_bytes(DT_idx), 8);
    ck_assert_int_eq(dtype_bytes(DT_c128), 16);
    ck_assert(dtype_is_native(DT_idx) && dtype_is_native(DT_bool) && !dtype_is_native(DT_f16) && !dtype_is_native(DT_u4));
    ck_assert(dtype_is_int(DT_u2) && !dtype_is_int(DT_bool) && dtype_is_signed(DT_i4) && !dtype_is_signed(DT_u4));
    ck_assert(dtype_is_float(DT_f4e2m1) && !dtype_is_float(DT_c64));
}
END_TEST

START_TEST(known_values) {
    static const struct {
        DType t;
        uint32_t code;
        double v;
    } rows[] = {
        {DT_f16, 0x3c00, 1},
        {DT_f16, 0x7bff, 65504},
        {DT_f16, 0x0001, 5.9604644775390625e-8},
        {DT_f16, 0x7c00, INFINITY},
        {DT_bf16, 0x3f80, 1},
        {DT_bf16, 0xff80, -INFINITY},
        {DT_bf16, 0x0001, 0x1p-133},
        {DT_f8e4m3fn, 0x7e, 448},
        {DT_f8e4m3fn, 0x01, 0x1p-9},
        {DT_f8e4m3fnuz, 0x7f, 240},
        {DT_f8e4m3fnuz, 0x01, 0x1p-10},
        {DT_f8e5m2, 0x7b, 57344},
        {DT_f8e5m2, 0x7c, INFINITY},
        {DT_f8e5m2, 0x01, 0x1p-16},
        {DT_f8e5m2fnuz, 0x7f, 57344},
        {DT_f8e5m2fnuz, 0x01, 0x1p-17},
        {DT_f4e2m1, 0x7, 6},
        {DT_f4e2m1, 0x1, 0.5},
        {DT_f6e2m3, 0x1f, 7.5},
        {DT_f6e2m3, 0x01, 0.125},
        {DT_f6e3m2, 0x1f, 28},
        {DT_f6e3m2, 0x01, 0.0625},
        {DT_f8e8m0, 127, 1},
        {DT_f8e8m0, 0, 0x1p-127},
        {DT_f8e8m0, 254, 0x1p127},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_msg(float_from_bits(rows[i].t, rows[i].code) == rows[i].v, "%s code %x", dtype_name(rows[i].t), rows[i].code);
        ck_assert_uint_eq(float_to_bits(rows[i].t, rows[i].v, false), rows[i].code);
    }
    ck_assert(isnan(float_from_bits(DT_f8e4m3fn, 0x7f)) && isnan(float_from_bits(DT_f8e4m3fn, 0xff)));
    ck_assert(isnan(float_from_bits(DT_f8e4m3fnuz, 0x80)) && isnan(float_from_bits(DT_f8e8m0, 255)));
    ck_assert(isnan(float_from_bits(DT_f16, 0x7e01)) && isnan(float_from_bits(DT_f8e5m2, 0x7d)));
}
END_TEST

// Between neighbours: the middle goes to the even code, anything beside it to the nearer one.
static void check_gap(DType t, uint32_t code) {
    double lo = float_from_bits(t, code), hi = float_from_bits(t, code + 1), middle = lo + (hi - lo) / 2;
    uint32_t even = code % 2 == 0 ? code : code + 1;
    ck_assert_msg(float_to_bits(t, middle, true) == even, "%s: tie above code %x", dtype_name(t), code);
    ck_assert_msg(float_to_bits(t, nextafter(middle, 0), true) == code, "%s: below the tie above code %x", dtype_name(t), code);
    ck_assert_msg(float_to_bits(t, nextafter(middle, INFINITY), true) == code + 1, "%s: above the tie above code %x", dtype_name(t), code);
}

START_TEST(every_code_rounds) {
    DType t = small[_i];
    uint32_t codes = 1u << dtype_info(t)->bits;
    for (uint32_t code = 0; code < codes; code++) {
        double v = float_from_bits(t, code);
        if (isnan(v)) continue;
        ck_assert_msg(float_to_bits(t, v, false) == code, "%s: code %x does not come back", dtype_name(t), code);
        ck_assert(code >= codes / 2 || isinf(v) || float_from_bits(t, code | codes / 2) == -v ||
                  (code == 0 && isnan(float_from_bits(t, codes / 2))));
        bool next = code + 1 < codes / 2 && isfinite(float_from_bits(t, code + 1));
        if (next && code < codes / 2) check_gap(t, code);
    }
}
END_TEST

// ONNX Cast-25's tables for NaN, infinities and overflow.
START_TEST(overflow_follows_cast) {
    static const struct {
        DType t;
        double over;
        uint32_t saturated, plain;
    } rows[] = {
        {DT_f8e4m3fn, 465, 0x7e, 0x7f},
        {DT_f8e4m3fnuz, 248.5, 0x7f, 0x80},
        {DT_f8e5m2, 61440, 0x7b, 0x7c},
        {DT_f8e5m2fnuz, 61440, 0x7f, 0x80},
        {DT_f16, 65520, 0x7c00, 0x7c00},
        {DT_bf16, 3.4e38, 0x7f80, 0x7f80},
        {DT_f4e2m1, 100, 0x7, 0x7},
        {DT_f6e2m3, 100, 0x1f, 0x1f},
        {DT_f6e3m2, 100, 0x1f, 0x1f},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        DType t = rows[i].t;
        double values[3] = {rows[i].over, INFINITY, 1e300};
        for (int k = 0; k < 3; k++) {
            ck_assert_msg(float_to_bits(t, values[k], true) == rows[i].saturated, "%s %g", dtype_name(t), values[k]);
            ck_assert_msg(float_to_bits(t, values[k], false) == rows[i].plain, "%s %g", dtype_name(t), values[k]);
        }
        double below = float_from_bits(t, float_to_bits(t, -INFINITY, true));
        ck_assert(below == -float_from_bits(t, rows[i].saturated));
    }
    for (int i = 0; i < SMALL; i++) {
        double v = float_from_bits(small[i], float_to_bits(small[i], NAN, true));
        ck_assert_msg(isnan(v) || (dtype_info(small[i])->bits < 8 && v == 0), "%s", dtype_name(small[i]));
    }
    ck_assert_uint_eq(float_to_bits(DT_f8e4m3fnuz, -0.0, true), 0);
    ck_assert_uint_eq(float_to_bits(DT_f8e5m2fnuz, -1e-30, true), 0);
    ck_assert_uint_eq(float_to_bits(DT_f8e4m3fn, -0.0, true), 0x80);
    ck_assert_uint_eq(float_to_bits(DT_f4e2m1, -0.0, true), 0x8);
}
END_TEST

START_TEST(powers_of_two_round_as_asked) {
    ck_assert_uint_eq(float_to_e8m0(1.1, E8M0_UP, true), 128);
    ck_assert_uint_eq(float_to_e8m0(1.9, E8M0_DOWN, true), 127);
    ck_assert_uint_eq(float_to_e8m0(1.5, E8M0_NEAREST, true), 128);
    ck_assert_uint_eq(float_to_e8m0(nextafter(1.5, 0), E8M0_NEAREST, true), 127);
    ck_assert_uint_eq(float_to_e8m0(4, E8M0_UP, true), 129);
    ck_assert_uint_eq(float_to_e8m0(0, E8M0_UP, true), 0);
    ck_assert_uint_eq(float_to_e8m0(0, E8M0_NEAREST, false), 255);
    ck_assert_uint_eq(float_to_e8m0(1e-45, E8M0_UP, true), 0);
    ck_assert_uint_eq(float_to_e8m0(INFINITY, E8M0_UP, true), 254);
    ck_assert_uint_eq(float_to_e8m0(INFINITY, E8M0_NEAREST, false), 255);
    ck_assert_uint_eq(float_to_e8m0(0x1.8p127, E8M0_UP, true), 254);
    ck_assert_uint_eq(float_to_e8m0(0x1.8p127, E8M0_UP, false), 255);
    ck_assert_uint_eq(float_to_e8m0(NAN, E8M0_UP, true), 255);
}
END_TEST

START_TEST(integers_wrap_and_saturate) {
    ck_assert_int_eq(scalar_int(DT_i8, 200).i, -56);
    ck_assert_uint_eq(scalar_int(DT_u8, -1).u, 255);
    ck_assert_int_eq(scalar_int(DT_i4, 8).i, -8);
    ck_assert_uint_eq(scalar_int(DT_u2, 7).u, 3);
    ck_assert_int_eq(scalar_int(DT_bool, 256).i, 1);
    ck_assert_uint_eq(scalar_int(DT_u64, -1).u, UINT64_MAX);
    ck_assert(scalar_int(DT_f32, 16777217).f == 16777216);
    ck_assert(scalar_int(DT_bf16, 0x1010000000000001).f == 0x1020000000000000);
    ck_assert(scalar_int(DT_bf16, 0x1010000000000000).f == 0x1000000000000000);
    ck_assert_int_eq(scalar_float(DT_i32, 2.9).i, 2);
    ck_assert_int_eq(scalar_float(DT_i32, -2.9).i, -2);
    ck_assert_int_eq(scalar_float(DT_i8, 1e9).i, 127);
    ck_assert_int_eq(scalar_float(DT_i8, -1e9).i, -128);
    ck_assert_int_eq(scalar_float(DT_i8, NAN).i, 0);
    ck_assert_int_eq(scalar_float(DT_i64, INFINITY).i, INT64_MAX);
    ck_assert_int_eq(scalar_float(DT_i64, -INFINITY).i, INT64_MIN);
    ck_assert_uint_eq(scalar_float(DT_u64, 0x1p64).u, UINT64_MAX);
    ck_assert_uint_eq(scalar_float(DT_u8, -3).u, 0);
    ck_assert_int_eq(scalar_float(DT_bool, NAN).i, 1);
    ck_assert(scalar_float(DT_f16, 1.0 / 3).f == 0x1.554p-2);
    ck_assert(scalar_float(DT_f8e4m3fn, 1e9).f == 448);
    ck_assert_int_eq(scalar_as_i64(scalar_float(DT_f32, -7.5)), -7);
    ck_assert_int_eq(scalar_as_i64(scalar_int(DT_u64, -1)), INT64_MAX);
    ck_assert(scalar_as_f64(scalar_int(DT_u64, -1)) == 0x1p64);
}
END_TEST

START_TEST(memory_form_comes_back) {
    for (int i = DT_none + 1; i < DT_COUNT; i++) {
        DType t = (DType)i;
        if (dtype_info(t)->cls == 'S' || dtype_info(t)->cls == 'C') continue;
        for (int v = -3; v <= 3; v++) {
            unsigned char element[16];
            Scalar s = scalar_int(t, v);
            memset(element, 0xaa, sizeof element);
            scalar_write(s, element);
            ck_assert_msg(scalar_same(scalar_read(t, element), s), "%s %d", dtype_name(t), v);
            ck_assert_int_eq(element[dtype_bytes(t)], 0xaa);
        }
    }
    uint8_t inf = 0x7c, out = 0;
    scalar_write(scalar_read(DT_f8e5m2, &inf), &out);
    ck_assert_int_eq(out, inf);
    ck_assert(!scalar_same(scalar_float(DT_f32, 0.0), scalar_float(DT_f32, -0.0)));
    ck_assert(scalar_same(scalar_float(DT_f32, NAN), scalar_float(DT_f32, -NAN)));
    ck_assert(!scalar_same(scalar_int(DT_i8, 1), scalar_int(DT_i16, 1)));
}
END_TEST

int main(void) {
    Suite *s = suite_create("type");
    TCase *c = tcase_create("type");
    tcase_add_test(c, table_is_consistent);
    tcase_add_test(c, known_values);
    tcase_add_loop_test(c, every_code_rounds, 0, SMALL);
    tcase_add_test(c, overflow_follows_cast);
    tcase_add_test(c, powers_of_two_round_as_asked);
    tcase_add_test(c, integers_wrap_and_saturate);
    tcase_add_test(c, memory_form_comes_back);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
