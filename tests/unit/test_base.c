// Memory, text, hashing, diagnostics and files.
#include "../../ir/base.h"
#include "../../ir/target.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

START_TEST(arena_gives_zeroed_aligned_memory) {
    Arena *a = arena_new();
    size_t total = 0;
    for (size_t n = 0; n < 200000; n = n * 2 + 1) {
        unsigned char *p = arena_alloc(a, n);
        ck_assert_uint_eq((uintptr_t)p % (n >= 4096 ? 64 : 16), 0);
        for (size_t i = 0; i < n; i++) ck_assert_int_eq(p[i], 0);
        memset(p, 0xff, n);
        total += n;
    }
    ck_assert_uint_eq(arena_bytes(a), total);
    char *kept = arena_strdup(a, "kept");
    for (int i = 0; i < 10000; i++) memset(arena_alloc(a, 100), i, 100);
    ck_assert_str_eq(kept, "kept");
    ck_assert_str_eq(arena_strndup(a, "abcdef", 3), "abc");
    ck_assert_str_eq(arena_printf(a, "%s-%d", "x", 7), "x-7");
    arena_free(a);
    arena_free(NULL);
}
END_TEST

START_TEST(vectors_grow) {
    Arena *a = arena_new();
    VEC(int) v = {0};
    for (int i = 0; i < 1000; i++) vec_push(a, &v, i * i);
    ck_assert_int_eq(v.n, 1000);
    for (int i = 0; i < 1000; i++) ck_assert_int_eq(v.data[i], i * i);
    arena_free(a);
}
END_TEST

static void exit_7(void) {
    _exit(7);
}

// Runs in a child: the second allocation from here fails.
START_TEST(exhaustion_ends_in_the_handler) {
    mem_set_oom_handler(exit_7);
    mem_fail_at(2);
    void *p = mem_realloc(NULL, 10);
    ck_assert_ptr_nonnull(p);
    mem_realloc(p, 20);
}
END_TEST

START_TEST(impossible_sizes_end_in_the_handler) {
    mem_set_oom_handler(exit_7);
    Arena *a = arena_new();
    arena_alloc(a, SIZE_MAX - 8);
}
END_TEST

START_TEST(text_is_built) {
    Str s = {0};
    str_add(&s, "a");
    str_addn(&s, "bcd", 2);
    str_indent(&s, 2);
    str_printf(&s, "%05d", 42);
    ck_assert_str_eq(s.data, "abc    00042");
    for (int i = 0; i < 1000; i++) str_printf(&s, "%d", i % 10);
    ck_assert_uint_eq(s.n, 1012);
    ck_assert_uint_eq(strlen(s.data), 1012);
    str_free(&s);
    ck_assert_ptr_null(s.data);
}
END_TEST

static void f64_is(double v, const char *text) {
    Str s = {0};
    str_add_f64(&s, v);
    ck_assert_str_eq(s.data, text);
    str_free(&s);
}

static void f32_is(float v, const char *text) {
    Str s = {0};
    str_add_f32(&s, v);
    ck_assert_str_eq(s.data, text);
    str_free(&s);
}

START_TEST(floats_print_shortest) {
    f64_is(0.1, "0.1");
    f64_is(1, "1.0");
    f64_is(-0.0, "-0.0");
    f64_is(1e300, "1e+300");
    f64_is(0.1 + 0.2, "0.30000000000000004");
    f64_is(NAN, "nan");
    f64_is(-INFINITY, "-inf");
    f64_is(5e-324, "5e-324");
    f32_is(0.1f, "0.1");
    f32_is(16777216.0f, "16777216.0");
    f32_is(3.4028234663852886e38f, "3.4028235e+38");
    uint32_t bits = 1;
    for (int i = 0; i < 20000; i++) {
        bits = bits * 1664525 + 1013904223;
        float f;
        memcpy(&f, &bits, sizeof f);
        if (isnan(f)) continue;
        Str s = {0};
        str_add_f32(&s, f);
        ck_assert_msg(strtof(s.data, NULL) == f && strpbrk(s.data, ".en"), "%s", s.data);
        str_free(&s);
    }
}
END_TEST

START_TEST(hash_is_fnv) {
    ck_assert_uint_eq(hash_bytes(HASH_SEED, "", 0), 0xcbf29ce484222325ull);
    ck_assert_uint_eq(hash_bytes(HASH_SEED, "a", 1), 0xaf63dc4c8601ec8cull);
    ck_assert_uint_eq(hash_bytes(HASH_SEED, "foobar", 6), 0x85944171f73967e8ull);
}
END_TEST

START_TEST(diagnostics_collect) {
    Diag d = {.file = "m.onnx"};
    diag_warning(&d, "odd %s", "thing");
    ck_assert_int_eq(d.errors, 0);
    diag_error(&d, EXIT_UNSUPPORTED, "node '%s' is new", "a\n\033[31mb");
    diag_error(&d, EXIT_MODEL, "found %d, expected %d", 1, 2);
    ck_assert_int_eq(d.errors, 2);
    ck_assert_int_eq(d.code, EXIT_UNSUPPORTED);
    ck_assert_str_eq(d.text.data, "mlc: warning: m.onnx: odd thing\nmlc: error: m.onnx: node 'a??[31mb' is new\n"
                                  "mlc: error: m.onnx: found 1, expected 2\n");
    diag_free(&d);
}
END_TEST

START_TEST(files_are_mapped) {
    char path[] = "/tmp/mlc_test_XXXXXX";
    int fd = mkstemp(path);
    ck_assert(fd >= 0);
    Diag d = {0};
    size_t n = 99;
    const void *p = file_map(path, &n, &d);
    ck_assert(p && n == 0);
    file_unmap(p, n);
    ck_assert(write(fd, "hello", 5) == 5);
    p = file_map(path, &n, &d);
    ck_assert(p && n == 5 && memcmp(p, "hello", 5) == 0);
    file_unmap(p, n);
    close(fd);
    unlink(path);
    ck_assert_int_eq(d.errors, 0);
    ck_assert_ptr_null(file_map(path, &n, &d));
    ck_assert_ptr_null(file_map("/tmp", &n, &d));
    ck_assert(d.errors == 2 && d.code == EXIT_IO);
    ck_assert_ptr_nonnull(strstr(d.text.data, "not a regular file"));
    diag_free(&d);
}
END_TEST

START_TEST(targets_resolve) {
    static const char *const all[] = {"generic", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", "cortex-m4", "cortex-m4+nofp",
        "cortex-m7", "cortex-m33", "cortex-m55", "rv32imc", "rv64gcv"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const Target *t = target_find(all[i]);
        ck_assert_msg(t && strcmp(t->name, all[i]) == 0, "%s", all[i]);
        ck_assert(!t->hosted || t->vector_bits >= 128);
        ck_assert(t->features && t->c_target && t->triple && t->cpu && t->llvm_features && t->help && t->registers > 0);
    }
    ck_assert_ptr_null(target_find("pdp-11"));
    ck_assert(target_has(target_find("x86-64-v3"), "avx2") && !target_has(target_find("x86-64-v3"), "avx512f"));
    ck_assert(!target_has(target_find("x86-64-v3"), "avx51") && target_has(target_find("cortex-m55"), "mve"));
    const Target *host = target_find("host"), *native = target_find("native");
    ck_assert(host && native && native->vector_bits >= host->vector_bits && host->vector_bits <= 256);
    int n = 0;
    while (target_row(n)) n++;
    ck_assert_int_ge(n, 14);
    ck_assert_str_eq(target_row(0)->name, "host");
}
END_TEST

int main(void) {
    Suite *s = suite_create("base");
    TCase *c = tcase_create("base");
    tcase_add_test(c, arena_gives_zeroed_aligned_memory);
    tcase_add_test(c, vectors_grow);
    tcase_add_exit_test(c, exhaustion_ends_in_the_handler, 7);
    tcase_add_exit_test(c, impossible_sizes_end_in_the_handler, 7);
    tcase_add_test(c, text_is_built);
    tcase_add_test(c, floats_print_shortest);
    tcase_add_test(c, hash_is_fnv);
    tcase_add_test(c, diagnostics_collect);
    tcase_add_test(c, files_are_mapped);
    tcase_add_test(c, targets_resolve);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
