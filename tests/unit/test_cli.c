// The command's helpers: .npy, SPEC, comparison, options, output files.
#include "../../cli/compare.h"
#include "../../cli/files.h"
#include "../../cli/npy.h"
#include "../../cli/spec.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Arena *a;
static Diag d;

static void setup(void) {
    a = arena_new();
    d = (Diag){0};
}

static void teardown(void) {
    diag_free(&d);
    arena_free(a);
}

static Tensor floats(int n, const float *v) {
    int64_t shape = n;
    Tensor t = tensor_new(a, DT_f32, 1, &shape);
    memcpy(t.data, v, (size_t)n * sizeof *v);
    return t;
}

// ---- .npy ----
static const DType round_types[] = {
    DT_f32, DT_f64, DT_f16, DT_bf16, DT_i8, DT_u8, DT_i64, DT_u64, DT_bool, DT_c64, DT_u4, DT_i4, DT_f8e4m3fn};

START_TEST(npy_round_trip) {
    DType type = round_types[_i];
    Tensor t = tensor_new(a, type, 2, (int64_t[]){2, 3}), back;
    for (size_t i = 0; i < t.bytes; i++)
        ((uint8_t *)t.data)[i] = (uint8_t)(i * 37 % (type == DT_bool ? 2 : dtype_info(type)->bits < 8 ? 8 : 256));
    Str s = {0};
    ck_assert(npy_format(&t, &s, &d));
    ck_assert_int_eq((int)((s.n - t.bytes) % 64), 0);
    ck_assert(npy_parse(s.data, s.n, "test", type, a, &back, &d));
    ck_assert_int_eq(back.type, type);
    ck_assert_int_eq((int)back.shape[0] * 10 + (int)back.shape[1], 23);
    ck_assert(!memcmp(back.data, t.data, t.bytes));
    str_free(&s);
}
END_TEST

static bool parse_text(const char *dict, const void *data, size_t n, DType want, Tensor *t) {
    Str s = {0};
    size_t len = strlen(dict);
    str_addn(&s, "\x93NUMPY\x01\x00", 8);
    str_addn(&s, (char[]){(char)(len & 255), (char)(len >> 8)}, 2);
    str_addn(&s, dict, len);
    str_addn(&s, data, n);
    bool ok = npy_parse(s.data, s.n, "test.npy", want, a, t, &d);
    str_free(&s);
    return ok;
}

START_TEST(npy_foreign_order) {
    Tensor t;
    ck_assert(parse_text("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 2), }", (int16_t[]){1, 2, 3, 4}, 8, DT_i16, &t));
    ck_assert(!memcmp(t.data, (int16_t[]){1, 3, 2, 4}, 8));
    ck_assert(parse_text("{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }", "\x01\x02\x03\x04", 4, DT_i16, &t));
    ck_assert_int_eq(((int16_t *)t.data)[0], 0x102);
    ck_assert(parse_text("{'descr': '<U2', 'fortran_order': False, 'shape': (), }", (uint32_t[]){0xE9, 'b'}, 8, DT_str, &t));
    ck_assert_str_eq(((StringElement *)t.data)->text, "\xC3\xA9"
                                                      "b");
}
END_TEST

static const char *const bad_dicts[] = {
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
    "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '<U99999999', 'fortran_order': False, 'shape': (1,), }",
    "",
};

START_TEST(npy_damaged) {
    Tensor t;
    ck_assert(!parse_text(bad_dicts[_i], "12345678", 8, DT_none, &t));
    ck_assert_int_eq(d.code, EXIT_MODEL);
}
END_TEST

// ---- comparison ----
START_TEST(compare_values) {
    Tensor x = floats(4, (float[]){1, NAN, INFINITY, 1000}), y = floats(4, (float[]){1, NAN, INFINITY, 1000.5f}),
           z = floats(4, (float[]){1, 2, INFINITY, 1000});
    ck_assert(tensor_compare(&x, &y, (Tolerance){.rtol = 1e-3}).ok);
    ck_assert(!tensor_compare(&x, &y, (Tolerance){.rtol = 1e-4}).ok);
    ck_assert(tensor_compare(&x, &y, (Tolerance){.scaled = 1e-3}).ok);
    ck_assert(!tensor_compare(&x, &z, (Tolerance){.rtol = 1}).ok);
    ck_assert(!tensor_compare(&z, &x, (Tolerance){.rtol = 1}).ok);
    Tensor one = floats(1, (float[]){1}), next = floats(1, (float[]){nextafterf(1, 2)});
    ck_assert(tensor_compare(&next, &one, (Tolerance){.ulp = 1}).ok);
    ck_assert(!tensor_compare(&next, &one, (Tolerance){0}).ok);
    ck_assert(!tensor_compare(&one, &x, (Tolerance){.rtol = 9}).ok);
    Tensor zero = floats(1, (float[]){0}), tiny = floats(1, (float[]){-1e-45f});
    ck_assert(tensor_compare(&tiny, &zero, (Tolerance){.ulp = 1}).ok);
}
END_TEST

START_TEST(compare_integers_exactly) {
    Tensor x = tensor_new(a, DT_i64, 0, NULL), y = tensor_new(a, DT_i64, 0, NULL);
    *(int64_t *)x.data = 1000000000;
    *(int64_t *)y.data = 1000000001;
    ck_assert(!tensor_compare(&x, &y, (Tolerance){.rtol = 1, .atol = 9}).ok);
}
END_TEST

// ---- SPEC ----
// An Exec with inputs x: f32[N, 3], n: i64[], s: str[2].
static Exec *fake_exec(void) {
    static const char *const xs[] = {"N", "3"}, *const ss[] = {"2"}, *const dims[] = {"N"};
    static const int64_t lo[] = {1}, hi[] = {8};
    static const mlc_tensor_info in[] = {{"x", "x:0", 1, 2, xs, -1, 0}, {"n", "n", 7, 0, NULL, -1, 0}, {"s", "s", 8, 1, ss, -1, 0}};
    static const mlc_model_info info = {
        .abi = MLC_ABI, .name = "fake", .ninputs = 3, .ndims = 1, .inputs = in, .dims = dims, .dim_lo = lo, .dim_hi = hi};
    return exec_from_info(&info, &d);
}

static bool give(const char *x, const char *n, const char *s, Tensor *inputs, Exec **e) {
    Options o;
    const char *argv[] = {"mlc", "run", "m.onnx", "-i", x, "-i", n, "-i", s};
    *e = fake_exec();
    return options_parse(&o, a, 9, (char *const *)(uintptr_t)argv, &d) && spec_inputs(&o, *e, false, a, inputs, &d);
}

START_TEST(spec_forms) {
    Tensor in[3];
    Exec *e;
    ck_assert(give("x:0=f32:2x3", "n=i64:=7", "s=str[2]{a,bc}", in, &e));
    ck_assert_int_eq((int)in[0].shape[0], 2);
    ck_assert_int_eq((int)*(int64_t *)in[1].data, 7);
    ck_assert_str_eq(((StringElement *)in[2].data)[1].text, "bc");
    int64_t dims;
    ck_assert(exec_bind(e, in, &dims, &d));
    ck_assert_int_eq((int)dims, 2);
    float first = *(float *)in[0].data;
    exec_free(e);
    ck_assert(give("x=f32[2,3]", "n=i64<5", "s=str:2:=q", in, &e));
    ck_assert(*(float *)in[0].data == first);
    ck_assert(*(int64_t *)in[1].data >= 0 && *(int64_t *)in[1].data < 5);
    ck_assert_str_eq(((StringElement *)in[2].data)[0].text, "q");
    exec_free(e);
}
END_TEST

START_TEST(spec_bounds_and_shapes_are_checked) {
    Tensor in[3];
    Exec *e;
    int64_t dims;
    ck_assert(give("x=f32:9x3", "n=1", "s=str[2]", in, &e));
    ck_assert(!exec_bind(e, in, &dims, &d));
    ck_assert(strstr(d.text.data, "dimension N must be from 1 to 8, found 9"));
    exec_free(e);
}
END_TEST

static const char *const bad_specs[] = {"x=f32:2y3", "x=f32:2x", "x=f32:2x3:5..2", "x=f32:2x3:", "x=f33:1", "q=random", "x=random",
    "x=i64[", "x=f32[1,3]<0", "x=f32:99999999999x99999999999", "x=nosuch.npy", "="};

START_TEST(spec_faults) {
    Tensor in[3];
    Exec *e;
    ck_assert(!give(bad_specs[_i], "n=1", "s=str[2]", in, &e));
    ck_assert_int_gt(d.errors, 0);
    exec_free(e);
}
END_TEST

// ---- options ----
static bool parse(const char *line, Options *o) {
    char *words[16], *copy = arena_strdup(a, line);
    int n = 0;
    for (char *w = strtok(copy, " "); w; w = strtok(NULL, " ")) words[n++] = w;
    return options_parse(o, a, n, words, &d);
}

START_TEST(options_forms) {
    Options o;
    ck_assert(parse("mlc compile m.onnx -O3 -o x.c --dim a=1 --dim=b=2 -MD --no-fuse", &o));
    ck_assert_str_eq(options_text(&o, OPT_optimize, ""), "3");
    ck_assert_str_eq(options_text(&o, OPT_output, ""), "x.c");
    ck_assert_int_eq(o.values[OPT_dim].n, 2);
    ck_assert(options_has(&o, OPT_depfile));
    ck_assert_int_eq(o.disabled.n, 1);
}
END_TEST

static const struct {
    const char *line;
    ExitCode code;
} bad_lines[] = {
    {"mlc", EXIT_USAGE},
    {"mlc nosuch", EXIT_USAGE},
    {"mlc compile", EXIT_USAGE},
    {"mlc compile a b", EXIT_USAGE},
    {"mlc compile a --nosuch", EXIT_USAGE},
    {"mlc compile a --runs=3", EXIT_USAGE},
    {"mlc compile a --passes=nosuch", EXIT_USAGE},
    {"mlc compile a --no-nosuch", EXIT_USAGE},
    {"mlc compile a -o", EXIT_USAGE},
    {"mlc compile a --check-each=1", EXIT_USAGE},
    {"mlc compile a --strip-names", EXIT_UNSUPPORTED},
};

START_TEST(options_faults) {
    Options o;
    ck_assert(!parse(bad_lines[_i].line, &o));
    ck_assert_int_eq(d.code, bad_lines[_i].code);
}
END_TEST

START_TEST(options_from_file) {
    const char *dir = dir_temp(a, &d), *file = arena_printf(a, "%s/args", dir), *text = "-o 'a b.c'\n--name=\"x\\\"y\"";
    Options o;
    ck_assert(file_write(file, text, strlen(text), &d));
    ck_assert(parse(arena_printf(a, "mlc compile m.onnx @%s", file), &o));
    ck_assert_str_eq(options_text(&o, OPT_output, ""), "a b.c");
    ck_assert_str_eq(options_text(&o, OPT_name, ""), "x\"y");
    text = arena_printf(a, "@%s", file);
    ck_assert(file_write(file, text, strlen(text), &d));
    ck_assert(!parse(arena_printf(a, "mlc compile m.onnx @%s", file), &o));
    dir_remove(dir);
}
END_TEST

// ---- files ----
START_TEST(outputs_all_or_none) {
    const char *dir = dir_temp(a, &d), *x = arena_printf(a, "%s/x", dir), *y = arena_printf(a, "%s/y", dir);
    const char *const *names;
    Outputs o = {.arena = a};
    ck_assert(outputs_write(&o, x, "1", 1, &d) && outputs_write(&o, y, "2", 1, &d));
    ck_assert(!file_exists(x));
    outputs_discard(&o);
    ck_assert_int_eq(dir_list(a, dir, &names), 0);
    ck_assert(outputs_write(&o, x, "1", 1, &d) && outputs_write(&o, y, "2", 1, &d) && outputs_commit(&o, &d));
    ck_assert_int_eq(dir_list(a, dir, &names), 2);
    ck_assert_str_eq(names[1], "y");
    dir_remove(dir);
    ck_assert_str_eq(path_stem(a, "a.b/c.d.onnx"), "c.d");
    ck_assert_str_eq(path_with_suffix(a, "a.b/c", ".h"), "a.b/c.h");
}
END_TEST

#define COUNT(x) ((int)(sizeof(x) / sizeof *(x)))

int main(void) {
    Suite *s = suite_create("cli");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, npy_round_trip, 0, COUNT(round_types));
    tcase_add_test(t, npy_foreign_order);
    tcase_add_loop_test(t, npy_damaged, 0, COUNT(bad_dicts));
    tcase_add_test(t, compare_values);
    tcase_add_test(t, compare_integers_exactly);
    tcase_add_test(t, spec_forms);
    tcase_add_test(t, spec_bounds_and_shapes_are_checked);
    tcase_add_loop_test(t, spec_faults, 0, COUNT(bad_specs));
    tcase_add_test(t, options_forms);
    tcase_add_loop_test(t, options_faults, 0, COUNT(bad_lines));
    tcase_add_test(t, options_from_file);
    tcase_add_test(t, outputs_all_or_none);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
