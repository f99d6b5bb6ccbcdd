// The loop interpreter against plain C. Loops run in strips, folded, as sums of products or one by one: all must agree for any size, in any
// order.
#include "../../ir/loop.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static DimTable *dims;
static Diag diag;

static void set_up(void) {
    dims = dim_table_new();
    memset(&diag, 0, sizeof diag);
}

static void tear_down(void) {
    diag_free(&diag);
    dim_table_free(dims);
}

static Program *parse(const char *text) {
    Program *p = loop_parse(text, NULL, dims, NULL, NULL, &diag);
    ck_assert_msg(p && loop_verify(p, &diag), "%s\n%s", text, diag.text.data);
    return p;
}

// ---- one kernel over x, w (f32), z (i32), each of N elements, and y (f32) of `out` ----

enum { MAX = 4096, OUT = 65536 };
static float x[MAX], w[MAX], y[OUT], first[OUT];
static int32_t z[MAX];

static void fill(void) {
    for (int i = 0; i < MAX; i++) {
        x[i] = (float)((i * 7919) % 1009) / 64.0f - 7.5f;
        w[i] = (float)((i * 10007) % 907) / 32.0f - 13.0f;
        z[i] = (i * 31) % 977;
    }
}

static Program *kernel(const char *out, const char *body) {
    Str s = {0};
    str_printf(&s,
        "program p\ndim N in 0..100000\ninput x: f32[N]\ninput w: f32[N]\ninput z: i32[N]\noutput y: f32[%s]\n"
        "kernel k \"node\" node 5 (x: f32 in, w: f32 in, z: i32 in, y: f32 inout) {\n%s\n}\nmain {\n  call k(x, w, z, y)\n}\n",
        out, body);
    Program *p = parse(s.data);
    str_free(&s);
    return p;
}

static int run_on(Program *p, int64_t n, uint64_t shuffle) {
    void *buf[] = {x, w, z, y};
    size_t bytes = (size_t)n * 4, cap[] = {bytes, bytes, bytes, sizeof y};
    for (int i = 0; i < OUT; i++) y[i] = -1234.5f;
    return loop_interpret(p, &n, buf, cap, NULL, NULL, shuffle, &diag);
}

static int run(const char *out, const char *body, int64_t n) {
    fill();
    Program *p = kernel(out, body);
    int status = run_on(p, n, 99);
    memcpy(first, y, sizeof y);
    ck_assert_int_eq(run_on(p, n, 0), status);
    if (status == 0) ck_assert_msg(memcmp(first, y, sizeof y) == 0, "the order of iterations matters:\n%s", body);
    program_free(p);
    return status;
}

static void run_ok(const char *out, const char *body, int64_t n) {
    int status = run(out, body, n);
    ck_assert_msg(status == 0, "status %d: %s", status, diag.text.data);
}

static void equal(int64_t i, float want) {
    ck_assert_msg(y[i] == want || (y[i] != y[i] && want != want), "y[%lld] is %g, expected %g", (long long)i, (double)y[i], (double)want);
}

static const int64_t sizes[] = {0, 1, 2, 7, 8, 63, 64, 255, 256, 257, 600};
enum { SIZES = sizeof sizes / sizeof *sizes };

// ---- strips ----

START_TEST(pointwise) {
    int64_t n = sizes[_i];
    run_ok("N", "for i in 0..N par {\n  let a: f32 = max(x[i], w[N - 1 - i])\n  y[i] = a * 2.0 + cast.f32(z[i])\n}", n);
    for (int64_t i = 0; i < n; i++) equal(i, fmaxf(x[i], w[n - 1 - i]) * 2.0f + (float)z[i]);
    equal(n, -1234.5f);
}
END_TEST

// Index lets, gathers, local buffers, conditions and checks that differ from lane to lane.
START_TEST(divergent) {
    int64_t n = sizes[_i];
    run_ok("N",
        "for i in 0..N par {\n  let j: idx 0..N - 1 = floormod(cast.idx(z[i]), dim(N))\n  local t: f32[3]\n"
        "  for u in 0..3 seq { t[u] = x[j] + cast.f32(u) }\n  var s: f32 = -0.5\n  check x[i] < 100.0 else assert @1\n"
        "  if x[i] > 0.0 {\n    set s = t[mod(j, 3)]\n    check x[i] > 0.0 else assert @2\n  } else {\n"
        "    if w[i] > 0.0 { set s = w[j] }\n    set s = s * 2.0\n  }\n"
        "  if z[i] > 9 { y[i] = s } else { y[i] = t[0 @ cast.i32(dim(mod(i, 3)))] }\n}",
        n);
    for (int64_t i = 0; i < n; i++) {
        int64_t j = z[i] % n;
        float s = x[i] > 0 ? x[j] + (float)(j % 3) : (w[i] > 0 ? w[j] : -0.5f) * 2;
        equal(i, z[i] > 9 ? s : x[j] + (float)(i % 3));
    }
}
END_TEST

START_TEST(strided_and_scattered) {
    int64_t n = sizes[_i];
    run_ok("3*N + 8",
        "for i in 0..N step 2 par {\n  y[3*i : 2 : 2] = x[i : 2 : 0] + 1.0\n  y[3*i + 1 @ cast.i32(4*i) - cast.i32(4*i)] = w[floordiv(i, "
        "2)]\n}",
        n);
    for (int64_t i = 0; i < n; i += 2) {
        equal(3 * i, x[i] + 1);
        equal(3 * i + 2, x[i] + 1);
        equal(3 * i + 1, w[i / 2]);
    }
}
END_TEST

// ---- sums ----

static const char *const products = "for i in 0..N par {\n  for j in 0..5 par {\n    reduce k in 0..%d (s: f32 = 0.5) {\n      set s = "
                                    "%s\n    } combine (s2) { set s = s + s2 }\n"
                                    "    y[5*i + j] = s\n  }\n}";

// Strips over i (strided), sums of products in all forms, and folding when n is small.
START_TEST(sums_of_products) {
    static const char *const update[] = {
        "fma(x[floordiv(i, 64) + k], w[j + 5*k], s)", "s + x[k]*w[3*k + j + floordiv(i, 40)]", "x[k]*w[2*k] + s", "s + x[2*k + j]"};
    int64_t n = sizes[_i / 4], trips = n / 7 < 20 ? n / 7 : 20;
    Str body = {0};
    str_printf(&body, products, (int)trips, update[_i % 4]);
    run_ok("5*N", body.data, n);
    str_free(&body);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < 5; j++) {
            float s = 0.5f;
            for (int64_t k = 0; k < trips; k++) {
                float product[] = {0, x[k] * w[3 * k + j + i / 40], x[k] * w[2 * k], x[2 * k + j]};
                s = _i % 4 == 0 ? fmaf(x[i / 64 + k], w[j + 5 * k], s) : s + product[_i % 4];
            }
            equal(5 * i + j, s);
        }
}
END_TEST

START_TEST(matrix_product) {
    int64_t m = sizes[_i] % 60, n = 61;
    Str body = {0};
    fill();
    str_printf(&body,
        "program p\ninput x: f32[60, 26]\ninput w: f32[26, 61]\noutput y: f32[60, 61]\nkernel k (x: f32 in, w: f32 in, y: f32 out) {\n"
        "  for i in 0..%d par {\n    for j in 0..61 par {\n      reduce k in 0..13 (s: f32 = 0.0) {\n        for l in 0..2 red {\n"
        "          set s = fma(x[i*26 + k*2 + l], w[(k*2 + l)*61 + j], s)\n        }\n      }\n      y[i*61 + j] = s\n    }\n  }\n}\nmain "
        "{\n  call k(x, w, y)\n}\n",
        (int)m);
    Program *p = parse(body.data);
    ck_assert_int_eq(loop_interpret(p, NULL, (void *[]){x, w, y}, NULL, NULL, NULL, 0, &diag), 0);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float s = 0;
            for (int64_t k = 0; k < 26; k++) s = fmaf(x[i * 26 + k], w[k * n + j], s);
            equal(i * n + j, s);
        }
    program_free(p);
    str_free(&body);
}
END_TEST

// Recurrences: argmax with ties and NaN, mean and M2, a running product, alternating sums.
START_TEST(folds) {
    int64_t n = sizes[_i];
    run_ok("6",
        "reduce k in 0..N (best: f32 = -inf, at: i64 = -1) {\n  let v: f32 = x[k] * w[N - 1 - k]\n  let better: bool = v > best\n"
        "  set best = select(better, v, best)\n  set at = select(better, cast.i64(k), at)\n}\n"
        "y[0] = best\ny[1] = cast.f32(at)\n"
        "reduce r in 0..N (mean: f32 = 0.0, m2: f32 = 0.0) {\n  let d: f32 = x[r] - mean\n  set mean = mean + d / cast.f32(r + 1)\n"
        "  set m2 = fma(d, x[r] - mean, m2)\n}\ny[2] = mean\ny[3] = m2\n"
        "var s: f32 = 1.0\nfor a in 0..N red { set s = 0.25 - s*x[a] }\ny[4] = s\n"
        "var q: i32 = 0\nfor b in 0..N red { set q = q + z[b] }\ny[5] = cast.f32(q)",
        n);
    float best = -INFINITY, mean = 0, m2 = 0, s = 1;
    int64_t at = -1;
    int32_t q = 0;
    for (int64_t k = 0; k < n; k++) {
        float v = x[k] * w[n - 1 - k], d = x[k] - mean;
        if (v > best) best = v, at = k;
        mean = mean + d / (float)(k + 1);
        m2 = fmaf(d, x[k] - mean, m2);
        s = 0.25f - s * x[k];
        q += z[k];
    }
    const float want[] = {best, (float)at, mean, m2, s, (float)q};
    for (int i = 0; i < 6; i++) equal(i, want[i]);
}
END_TEST

START_TEST(keeps_nan) {
    fill();
    Program *p = kernel("8", "reduce k in 0..N (m: f32 = -inf) { set m = max(m, x[k]) }\ny[0] = m\nreduce l in 0..N (a: f32 = inf) { set a "
                             "= min(x[l], a) }\ny[1] = a\n"
                             "y[2] = hmax(x[0 : 8])\nreduce q in 0..N (s: f32 = 0.0) { set s = s + x[q] }\ny[3] = s");
    for (int at = 0; at < 300; at += 37) {
        fill();
        x[at] = NAN;
        int64_t n = 300;
        ck_assert_int_eq(loop_interpret(p, &n, (void *[]){x, w, z, y}, NULL, NULL, NULL, 0, &diag), 0);
        ck_assert(isnan(y[0]) && isnan(y[1]) && isnan(y[3]) && (at > 7 || isnan(y[2])));
    }
    program_free(p);
}
END_TEST

// ---- lanes ----

// Each row stores its lanes at y[0]; expected values are over x[0..], z[0..].
static const struct {
    const char *body;
    float want[8];
} lanes[] = {
    {"y[0 : 4] = cast.f32(iota4.i32) * 2.0", {0, 2, 4, 6}},
    {"y[0 : 4] = cast.f32(shuffle(iota4.i32, iota4.i32 + 10; 7 0 5 2))", {13, 0, 11, 2}},
    {"y[0 : 4] = cast.f32(table(iota4.i32 * 3, iota4.i32 + 2))", {6, 9, 0, 3}},
    {"y[0] = cast.f32(lane(iota4.i32 * 5, 2))", {10}},
    {"y[0 : 4] = cast.f32(insert(iota4.i32, 1, 9))", {0, 9, 2, 3}},
    {"y[0] = cast.f32(hadd(iota8.i32))", {28}},
    {"y[0] = hadd(table(splat4(0.0), iota4.i32) + cast.f32(iota4.i32 * iota4.i32))", {14}},
    {"y[0 : 4] = cast.f32(compress(iota4.i32 + 5, iota4.i32 != 1))", {5, 7, 8, 0}},
    {"y[0 : 4] = cast.f32(expand(iota4.i32 + 5, iota4.i32 != 1))", {5, 0, 6, 7}},
    {"y[0] = cast.f32(popcount(iota8.i32 > 2)) \ny[1] = cast.f32(popcount(255i32))", {5, 8}},
    {"y[0 : 2] = cast.f32(dot4(iota2.i32, cast.u8(iota8.i32 + 250), cast.i8(iota8.i32 - 3)))", {-1504, 769}},
    {"y[0 : 4] = cast.f32(widen4.i32(cast.i8(iota8.i32 - 6), 2))", {-4, -3, -2, -1}},
    {"y[0 : 4] = select(iota4.i32 < 2, splat4(1.5), splat4(2.5))", {1.5, 1.5, 2.5, 2.5}},
    {"y[0 : 4] = 0.0\ny[0 : 4] = 7.0 ? iota4.i32 > 1", {0, 0, 7, 7}},
    {"y[0 : 4] = 3.0\ny[0 : 4] = y[100000 : 4 ? iota4.i32 > 5]", {0, 0, 0, 0}},
    {"y[0 @ (iota4.i32 * 3) & 3] = cast.f32(iota4.i32)", {0, 3, 2, 1}},
    {"y[0 @ splat4(2i32)] = cast.f32(iota4.i32)", {-1234.5f, -1234.5f, 3}},
    {"local b: u8[16]\nb[0 : 16] = cast.u8(iota16.i32)\ny[0] = cast.f32(b.u16[3])\ny[1 : 2] = cast.f32(b.i32[1 : 2])",
        {1027, 67305984, 134678016}},
    {"local b: u8[16]\nb.f32[4 : 2] = cast.f32(iota2.i32 + 1)\nb.i16[1] = -2\ny[0 : 2] = b.f32[4 : 2]\ny[2] = cast.f32(cast.i32(b[1]))",
        {1, 2, 254}},
    {"tile c[2, 3]: f32x4 = 1.0\nfor i in 0..2 seq unroll {\nfor j in 0..3 seq unroll { set c[i, j] = c[i, j] + cast.f32(3*i + j) "
     "}\n}\ny[0 : 4] = c[1, 2] - c[0, 1]",
        {4, 4, 4, 4}},
    {"var v: i32x4 = iota4.i32\nset v = shuffle(v; 3 2 1 0)\nset v = insert(v, 0, lane(v, 3))\nset v = compress(v, v != 2)\ny[0 : 4] = "
     "cast.f32(v)",
        {0, 1, 0, 0}},
};

START_TEST(lane_operations) {
    run_ok("60000", lanes[_i].body, 16);
    for (int i = 0; i < 8 && (i == 0 || lanes[_i].want[i] != 0); i++) equal(i, lanes[_i].want[i]);
}
END_TEST

// The same in a strip: 40 iterations at once, each on its own 16 elements, offset by the iteration's number.
START_TEST(lane_operations_in_strips) {
    run_ok("700",
        "for i in 0..40 par {\n  let v: f32x4 = x[i : 4] + cast.f32(i)\n  let m: boolx4 = v > w[i : 4]\n  y[16*i] = hadd(v)\n  y[16*i + 1 "
        ": 4] = compress(v, m)\n"
        "  y[16*i + 5 : 4] = shuffle(v, w[i : 4]; 7 3 0 4)\n  y[16*i + 9] = cast.f32(popcount(m))\n  y[16*i + 10 : 4] = v ? m\n"
        "  y[16*i + 14] = lane(v, 3) + lane(x[i @ iota4.i32 * 2], 1)\n}",
        64);
    for (int i = 0; i < 40; i++) {
        float v[4];
        int count = 0;
        for (int l = 0; l < 4; l++) v[l] = x[i + l] + (float)i;
        equal(16 * i, (v[0] + v[2]) + (v[1] + v[3]));
        for (int l = 0; l < 4; l++) {
            if (v[l] > w[i + l]) equal(16 * i + 1 + count++, v[l]);
            equal(16 * i + 10 + l, v[l] > w[i + l] ? v[l] : -1234.5f);
        }
        for (int l = count; l < 4; l++) equal(16 * i + 1 + l, 0);
        equal(16 * i + 5, w[i + 3]);
        equal(16 * i + 6, v[3]);
        equal(16 * i + 8, w[i]);
        equal(16 * i + 9, (float)count);
        equal(16 * i + 14, v[3] + x[i + 2]);
    }
}
END_TEST

// ---- control ----

START_TEST(sorts) {
    int64_t n = sizes[_i];
    run_ok("N",
        "for c in 0..N par { y[c] = x[c] }\n"
        "for i in 1..N seq {\n  let key: f32 = y[i]\n  var at: idx = dim(i)\n  while true {\n    if at == 0 { break }\n"
        "    let p: idx 1..N - 1 = at\n    if y[p - 1] <= key { break }\n    y[p] = y[p - 1]\n    set at = at - 1\n  }\n"
        "  let q: idx 0..N - 1 = at\n  y[q] = key\n}",
        n);
    for (int64_t i = 1; i < n; i++) ck_assert(y[i - 1] <= y[i]);
    double sum = 0, want = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)y[i], want += (double)x[i];
    ck_assert(sum == want);
}
END_TEST

START_TEST(breaks_inner_loop) {
    run_ok("4",
        "var n: i32 = 0\nfor i in 0..10 seq {\n  for j in 0..10 seq {\n    if j > i { break }\n    set n = n + 1\n  }\n  if i == 3 { break "
        "}\n}\ny[0] = cast.f32(n)",
        4);
    equal(0, 10);
}
END_TEST

// Members exchange parts over barriers, inside of a loop too; local memory is each one's own.
START_TEST(team_of_members) {
    run_ok("N",
        "team t of 3 {\n  local own: f32[2]\n  own[0] = cast.f32(t)\n  own[1] = 0.0\n"
        "  for a in floordiv(t*N, 3)..floordiv((t + 1)*N, 3) seq { y[a] = x[a] }\n  barrier\n"
        "  for s in 0..4 seq {\n    let v: f32 = y[mod(t + s, 3)*20]\n    own[1] = own[1] + v\n    barrier\n    y[t*20] = own[1] + "
        "own[0]\n    barrier\n  }\n}",
        60);
    float own[3] = {0, 0, 0}, cell[3] = {x[0], x[20], x[40]};
    for (int s = 0; s < 4; s++) {
        for (int t = 0; t < 3; t++) own[t] += cell[(t + s) % 3];
        for (int t = 0; t < 3; t++) cell[t] = own[t] + (float)t;
    }
    for (int t = 0; t < 3; t++) equal(t * 20, cell[t]);
    equal(1, x[1]);
}
END_TEST

// ---- statuses ----

START_TEST(statuses) {
    static const struct {
        const char *body;
        int code, node;
    } rows[] = {
        {"check x[1] > 1000.0 else division @7", CODE_DIVISION, 7},
        {"for i in 0..N par { check z[i] < 900 else assert @9 }", CODE_ASSERT, 9},
        {"let j: idx 0..N - 1 = index(cast.idx(z[40]) + 5000, N)\ny[j] = 1.0", CODE_INDEX, 5},
        {"for i in 0..N par {\n  let j: idx 0..N - 1 = index(cast.idx(z[i]) - 3, N)\n  y[j] = 1.0\n}", CODE_INDEX, 5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_int_eq(run("N", rows[i].body, 600), -(rows[i].code + 256 * rows[i].node));
    ck_assert_int_eq(diag.errors, 0);
    // An index that is off under a mask does not count.
    run_ok("N", "for i in 0..N par {\n  if z[i] >= 3 {\n    let j: idx 0..N - 1 = index(cast.idx(z[i]) - 3, 977)\n  }\n}", 600 + 400);
}
END_TEST

START_TEST(reports_violations) {
    static const char *const bodies[] = {
        "let j: idx 0..N = cast.idx(z[1]) + 5000\ny[j] = 1.0",
        "let j: idx 0..9999 = cast.idx(z[1]) - 32\ny[0] = 1.0",
        "for i in 0..N par {\n  let j: idx = cast.idx(z[i])\n  y[j] = x[j]\n}",
        "local t: f32[8]\nlet j: idx = cast.idx(z[1])\ny[0] = t[j]",
        "reduce k in 0..N (s: f32 = 0.0) { set s = s + x[2*k] }\ny[0] = s",
        "for i in 0..N par {\n  reduce k in 0..N (s: f32 = 0.0) { set s = fma(x[k], w[i + k], s) }\n  y[i] = s\n}",
        "for i in 0..N par {\n  local t: f32[8]\n  t[mod(i, 9)] = x[i]\n  y[i] = t[0]\n}",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        int before = diag.errors;
        ck_assert_msg(run("N", bodies[i], 300) == -CODE_INDEX && diag.errors > before, "%s", bodies[i]);
    }
    ck_assert_ptr_nonnull(strstr(diag.text.data, "lies outside of its"));
}
END_TEST

// ---- programs ----

typedef struct {
    int64_t v[4];
    int n;
} Sizes;

static void note_size(void *ctx, const Dim *sym, int64_t v) {
    Sizes *s = ctx;
    ck_assert_str_eq(dim_as_symbol(sym)->name, "s");
    s->v[s->n++] = v;
}

static const char *const nonzero =
    "program p\ndim N in 0..100\ndata dim s in 0..N\ninput x: f32[N]\noutput y: i64[s]\ntemp c: i64[1]\ntemp t: f32[s]\n"
    "kernel count (x: f32 in, c: i64 out) {\n  reduce i in 0..N (n: i64 = 0) { set n = n + select(x[i] != 0.0, 1, 0) }\n  c[0] = n\n}\n"
    "kernel fill (x: f32 in, t: f32 out, y: i64 out) {\n  var n: idx = 0\n  for i in 0..N seq {\n    if x[i] != 0.0 {\n      let p: idx "
    "0..s - 1 = n\n"
    "      y[p] = cast.i64(i)\n      t[p] = x[i]\n      set n = n + 1\n    }\n  }\n}\n"
    "main {\n  call count(x, c)\n  size s = cast.idx(c[0])\n  call fill(x, t, y)\n}\n";

START_TEST(defines_sizes) {
    Program *p = parse(nonzero);
    float in[10] = {0, 1, 0, 2, NAN, 0, 3, 0, 0, -0.0f};
    int64_t out[10], n = 10;
    Sizes sizes_seen = {0};
    size_t cap[5] = {sizeof in, sizeof out};
    ck_assert_int_eq(loop_interpret(p, &n, (void *[]){in, out, NULL, NULL}, cap, note_size, &sizes_seen, 0, &diag), 0);
    ck_assert(sizes_seen.n == 1 && sizes_seen.v[0] == 4 && out[0] == 1 && out[1] == 3 && out[2] == 4 && out[3] == 6);
    cap[1] = 31;
    ck_assert_int_eq(loop_interpret(p, &n, (void *[]){in, out, NULL, NULL}, cap, note_size, &sizes_seen, 0, &diag), -CODE_CAPACITY);
    ck_assert(sizes_seen.n == 2 && sizes_seen.v[1] == 4);
    n = 0;
    ck_assert_int_eq(loop_interpret(p, &n, (void *[]){in, out, NULL, NULL}, cap, note_size, &sizes_seen, 0, &diag), 0);
    n = 101;
    ck_assert_int_eq(loop_interpret(p, &n, (void *[]){in, out, NULL, NULL}, cap, note_size, &sizes_seen, 0, &diag), -CODE_SHAPE);
    n = 10;
    cap[0] = 39;
    ck_assert_int_eq(loop_interpret(p, &n, (void *[]){in, out, NULL, NULL}, cap, note_size, &sizes_seen, 0, &diag), -CODE_SHAPE);
    cap[0] = 40;
    ck_assert_int_eq(loop_interpret(p, &n, (void *[]){NULL, out, NULL, NULL}, cap, note_size, &sizes_seen, 0, &diag), -CODE_POINTER);
    program_free(p);
}
END_TEST

// State survives runs and is updated in place when the output is not wanted; rank 0; main's own loops, conditions and variables.
START_TEST(keeps_state) {
    Program *p = parse("program p\ninput x: f32[]\noutput y: f32[] tie h\noutput z: f32[3]\nstate h: f32[]\nstate g: f32[2] = {3.0, "
                       "4.0}\nconst c: f32[1] = {0.5}\n"
                       "kernel k (x: f32 in, h: f32 in, c: f32 in, y: f32 out same) { y[0] = h[0] + x[0]*c[0] }\n"
                       "kernel store (g: f32 inout, z: f32 out) {\n  z[i] = g[1]\n  g[1] = g[1] + cast.f32(i)\n}\n"
                       "main {\n  call k(x, h, c, y)\n  var n: i32 = 0\n  for i in 0..3 seq {\n    if h[0] > 1.0 { call store(g, z) }\n    "
                       "set n = n + 1\n  }\n"
                       "  check n == 3 else assert @1\n}\n");
    float in = 3, state = 0, g[2] = {3, 4}, out[3] = {0, 0, 0};
    void *buf[] = {&in, NULL, out, &state, g, NULL};
    for (int i = 0; i < 2; i++) ck_assert_int_eq(loop_interpret(p, NULL, buf, NULL, NULL, NULL, 0, &diag), 0);
    ck_assert(state == 3.0f && g[1] == 10.0f && out[0] == 7.0f && out[2] == 8.0f);
    buf[3] = buf[4] = NULL;
    ck_assert_int_eq(loop_interpret(p, NULL, buf, NULL, NULL, NULL, 0, &diag), 0);
    ck_assert(out[0] == 4.0f && out[1] == 4.0f && out[2] == 5.0f);
    program_free(p);
}
END_TEST

// Temps lie where the plan says: an overlap shows, and one behind the arena's end is a fault.
START_TEST(honours_the_plan) {
    const char *text =
        "program p\ndim N in 1..8\noutput y: f32[N]\ntemp a: f32[N] at 0\ntemp b: f32[N] at %s\narena 8*N\n"
        "kernel one (a: f32 out) { for i in 0..N par { a[i] = 1.0 } }\nkernel two (b: f32 out) { for i in 0..N par { b[i] = 2.0 } }\n"
        "kernel sum (a: f32 in, b: f32 in, y: f32 out) { for i in 0..N par { y[i] = a[i] + b[i] } }\n"
        "main {\n  call one(a)\n  call two(b)\n  call sum(a, b, y)\n}\n";
    static const struct {
        const char *at;
        float want;
    } rows[] = {{"4*N", 3}, {"0", 4}, {"8*N", 0}};
    for (int i = 0; i < 3; i++) {
        Str s = {0};
        float out[8] = {0};
        int64_t n = 8;
        str_printf(&s, text, rows[i].at);
        Program *p = parse(s.data);
        int status = loop_interpret(p, &n, (void *[]){out, NULL, NULL}, NULL, NULL, NULL, 0, &diag);
        ck_assert(i < 2 ? status == 0 && out[7] == rows[i].want : status != 0 && diag.errors == 1);
        program_free(p);
        str_free(&s);
    }
}
END_TEST

START_TEST(allocates) {
    Program *p = parse("program p\ndim N in 0..\noutput y: f32[]\ntemp t: f32[N] unbounded\n"
                       "kernel k (t: f32 inout, y: f32 out) {\n  for i in 0..N par { t[i] = cast.f32(i) }\n  reduce r in 0..N (s: f32 = "
                       "0.0) { set s = s + t[r] }\n  y[0] = s\n}\n"
                       "main {\n  alloc t 4*N\n  call k(t, y)\n  free t\n}\n");
    float out = 0;
    int64_t n = 1000;
    ck_assert_int_eq(loop_interpret(p, &n, (void *[]){&out, NULL}, NULL, NULL, NULL, 0, &diag), 0);
    ck_assert(out == 499500.0f);
    program_free(p);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("interpret");
    TCase *c = tcase_create("interpret");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, pointwise, 0, SIZES);
    tcase_add_loop_test(c, divergent, 1, SIZES);
    tcase_add_loop_test(c, strided_and_scattered, 2, SIZES);
    tcase_add_loop_test(c, sums_of_products, 0, 4 * SIZES);
    tcase_add_loop_test(c, matrix_product, 0, SIZES);
    tcase_add_loop_test(c, folds, 0, SIZES);
    tcase_add_test(c, keeps_nan);
    tcase_add_loop_test(c, lane_operations, 0, (int)(sizeof lanes / sizeof *lanes));
    tcase_add_test(c, lane_operations_in_strips);
    tcase_add_loop_test(c, sorts, 0, SIZES);
    tcase_add_test(c, breaks_inner_loop);
    tcase_add_test(c, team_of_members);
    tcase_add_test(c, statuses);
    tcase_add_test(c, reports_violations);
    tcase_add_test(c, defines_sizes);
    tcase_add_test(c, keeps_state);
    tcase_add_test(c, honours_the_plan);
    tcase_add_test(c, allocates);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
