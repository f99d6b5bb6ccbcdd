// cost_kernel against counts by hand: each kernel's floating-point and integer operations, its bytes, and what of it is scalar.
#include "../../ir/loop_cost.h"
#include "../../passes/passes.h"
#include "loop_text.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

enum { N_IS_UNKNOWN = -1 };

static int64_t value_of_n(void *ctx, const Dim *sym) {
    int64_t n = *(int64_t *)ctx;
    return n == N_IS_UNKNOWN || strcmp(dim_as_symbol(sym)->name, "N") ? INT64_MIN : n;
}

static KernelCost cost_of(Program *p, int64_t n) {
    return cost_kernel(p, p->kernels.data[0], value_of_n, &n);
}

typedef struct {
    const char *name;
    int64_t n;
    double flops, iops, read, written, scalar;
    const char *interface, *kernel, *call; // texts of a program: buffers, the kernel behind `kernel k `, arguments
} CostCase;

static const CostCase cases[] = {
    {"a product with bias", 3, 3 * 10 * (784 * 2 + 1), 0, 4 * (3 * 784 + 784 * 10 + 10), 4 * 30, 3 * 10 * (784 * 2 + 1),
        "input x: f32[N, 784]\ninput w: f32[784, 10]\ninput b: f32[10]\noutput y: f32[N, 10]\n",
        "(x: f32 in, w: f32 in, b: f32 in, y: f32 out disjoint) {\n  for i in 0..N par {\n    for j in 0..10 par {\n"
        "      reduce r in 0..784 (acc: f32 = 0.0f32) {\n        set acc = fma(x[784*i + r], w[10*r + j], acc)\n      }\n"
        "      y[10*i + j] = acc + b[j]\n    }\n  }\n}\n",
        "x, w, b, y"},
    {"lanes", 8, 8 * 8 * 3, 0, 4 * 64 + 4, 4 * 64, 0, "input x: f32[N, 8]\ninput s: f32[1]\noutput y: f32[N, 8]\n",
        "(x: f32 in, s: f32 in, y: f32 out disjoint) {\n  for i in 0..N par {\n"
        "    y[8*i : 8] = isa.fmadd_f32x8(x[8*i : 8], splat8(s[0]), x[8*i : 8] + splat8(1.0f32))\n  }\n}\n",
        "x, s, y"},
    {"a sum of lanes", 1, 7, 0, 32, 4, 0, "input x: f32[8]\noutput y: f32[1]\n",
        "(x: f32 in, y: f32 out disjoint) {\n  y[0] = hadd(x[0 : 8])\n}\n", "x, y"},
    {"a triangle", 50, 50 * 51 / 2, 0, 4 * 50, 4 * 50, 50 * 51 / 2, "input x: f32[N]\noutput y: f32[N]\n",
        "(x: f32 in, y: f32 out disjoint) {\n  for i in 0..N par {\n    reduce j in 0..i + 1 (s: f32 = 0.0f32) {\n"
        "      set s = s + x[j]\n    }\n    y[i] = s\n  }\n}\n",
        "x, y"},
    {"a tail behind many whole parts", 80003, 80003, 0, 4 * 80003, 4 * 80003, 3, "input x: f32[N]\noutput y: f32[N]\n",
        "(x: f32 in, y: f32 out disjoint) {\n  for i in 0..floordiv(N + 7, 8) par {\n    if dim(i) < dim(floordiv(N, 8)) {\n"
        "      y[8*i : 8] = x[8*i : 8] + splat8(1.0f32)\n    } else {\n      for j in 0..mod(N, 8) par {\n"
        "        y[8*floordiv(N, 8) + j] = x[8*floordiv(N, 8) + j] + 1.0f32\n      }\n    }\n  }\n}\n",
        "x, y"},
    {"integers, comparisons, selects and casts", 5, 5 * 1, 5 * 5, 5 * (1 + 4), 5 * 8, 5 * 6,
        "input a: i8[N]\ninput b: f32[N]\noutput y: f64[N]\n",
        "(a: i8 in, b: f32 in, y: f64 out disjoint) {\n  for i in 0..N par {\n"
        "    y[i] = cast.f64(select(b[i] > 0.0f32, b[i] * 2.0f32, cast.f32(a[i] + a[i])))\n  }\n}\n",
        "a, b, y"},
    {"the dearer side of a branch on data", 4, 4 * 3, 4, 4 * 4, 4 * 4, 4 * 4, "input x: f32[N]\noutput y: f32[N]\n",
        "(x: f32 in, y: f32 out disjoint) {\n  for i in 0..N par {\n    if x[i] > 0.0f32 {\n      y[i] = -x[i]\n    } else {\n"
        "      y[i] = x[i] * x[i] * x[i] + 1.0f32\n    }\n  }\n}\n",
        "x, y"},
    {"neighbours count once, up to the buffer's size", 100, 200, 0, 4 * 102, 400, 200, "input x: f32[N + 2]\noutput y: f32[N]\n",
        "(x: f32 in, y: f32 out disjoint) {\n  for i in 0..N par {\n    y[i] = x[i] + x[i + 1] + x[i + 2]\n  }\n}\n", "x, y"},
    {"the same element in two loops", 10, 10 * 4, 0, 4 * 10, 4 * 10, 40, "input x: f32[1000]\noutput y: f32[N]\n",
        "(x: f32 in, y: f32 out disjoint) {\n  for r in 0..10 par {\n    reduce i in 0..N (s: f32 = x[r]) {\n      set s = x[r]\n    }\n"
        "    y[r] = s + x[r] + 1.0f32 - 2.0f32 * s\n  }\n}\n",
        "x, y"},
    {"members of a team", 16, 16, 0, 64, 64, 16, "input x: f32[N]\noutput y: f32[N]\n",
        "(x: f32 in, y: f32 out disjoint) {\n  team t of 4 {\n    for i in 0..4 par {\n      y[4*t + i] = x[4*t + i] + 1.0f32\n    }\n"
        "    barrier\n  }\n}\n",
        "x, y"},
    {"an unknown size is its upper bound", N_IS_UNKNOWN, 100000, 0, 400000, 400000, 100000, "input x: f32[N]\noutput y: f32[N]\n",
        "(x: f32 in, y: f32 out disjoint) {\n  for i in 0..N par {\n    y[i] = x[i] + 1.0f32\n  }\n}\n", "x, y"},
    {"rows picked by data, index arithmetic free", 6, 0, 0, 8 * 6 + 4 * 6 * 8, 4 * 6 * 8, 0,
        "input t: f32[1000, 8]\ninput ix: i64[N]\noutput y: f32[N, 8]\n",
        "(t: f32 in, ix: i64 in, y: f32 out disjoint) {\n  for i in 0..N par {\n    let r: idx 0..999 = index(cast.idx(ix[i]), 1000)\n"
        "    for j in 0..8 par {\n      y[8*i + j] = t[8*r + j]\n    }\n  }\n}\n",
        "t, ix, y"},
    {"nothing", 0, 0, 0, 0, 0, 0, "input x: f32[N]\noutput y: f32[N]\n",
        "(x: f32 in, y: f32 out disjoint) {\n  for i in 0..N par {\n    y[i] = x[i] + 1.0f32\n  }\n}\n", "x, y"},
};
enum { CASES = sizeof cases / sizeof *cases };

START_TEST(counted_by_hand) {
    const CostCase *k = &cases[_i];
    char text[2048];
    snprintf(text, sizeof text, "program p\ntarget x86-64-v3\ndim N in 0..100000\n%skernel k %smain { call k(%s) }\n", k->interface,
        k->kernel, k->call);
    Program *p = parse(text);
    KernelCost c = cost_of(p, k->n);
    const double have[] = {c.flops, c.iops, c.read, c.written, c.scalar}, want[] = {k->flops, k->iops, k->read, k->written, k->scalar};
    static const char *const names[] = {"flops", "iops", "read", "written", "scalar"};
    for (int i = 0; i < 5; i++)
        ck_assert_msg(
            have[i] > want[i] - 1e-6 && have[i] < want[i] + 1e-6, "%s: %s is %.17g, expected %.17g", k->name, names[i], have[i], want[i]);
    free_program(p);
}
END_TEST

// A triangle too long to be counted row by row: sampled, and close.
START_TEST(samples_are_close) {
    Program *p = parse("program p\ndim N in 0..100000\ninput x: f32[N]\noutput y: f32[N]\n"
                       "kernel k (x: f32 in, y: f32 out disjoint) {\n  for i in 0..N par {\n    reduce j in 0..i + 1 (s: f32 = 0.0f32) {\n"
                       "      set s = s + x[j]\n    }\n    y[i] = s\n  }\n}\nmain { call k(x, y) }\n");
    KernelCost c = cost_of(p, 20000);
    ck_assert_double_eq_tol(c.flops, 20000.0 * 20001 / 2, 0.01 * 20000.0 * 20001 / 2);
    ck_assert_double_eq_tol(c.written, 80000, 1e-3);
    free_program(p);
}
END_TEST

static const char pointwise[] = "program p\ntarget x86-64-v3\ndim N in 0..100000\ninput x: f32[N]\noutput y: f32[N]\n"
                                "kernel k (x: f32 in, y: f32 out disjoint) {\n  for i in 0..N par {\n    y[i] = exp(x[i])\n  }\n}\n"
                                "main { call k(x, y) }\n";

// Before the passes everything is scalar, behind them nothing; a mathematical function costs what it is made of, in both.
START_TEST(passes_leave_nothing_scalar) {
    Program *p = parse(pointwise);
    KernelCost before = cost_of(p, 4096);
    ck_assert_double_gt(before.flops, 4096 * 10.0);
    ck_assert_double_eq(before.scalar, before.flops + before.iops);
    Diag d = {0};
    PassOptions o = {.target = target_find("x86-64-v3"), .level = 2, .threads = 1};
    ck_assert(passes_run_loop(p, &o, &d));
    KernelCost after = cost_of(p, 4096);
    ck_assert_double_eq(after.scalar, 0);
    ck_assert_double_eq_tol(after.flops, before.flops, 0.1 * before.flops);
    ck_assert_double_eq(after.read, 4 * 4096);
    ck_assert_double_eq(after.written, 4 * 4096);
    free_program(p);
}
END_TEST

int main(void) {
    Suite *s = suite_create("cost");
    TCase *c = tcase_create("all");
    tcase_add_loop_test(c, counted_by_hand, 0, CASES);
    tcase_add_test(c, samples_are_close);
    tcase_add_test(c, passes_leave_nothing_scalar);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
