// Schedules keep what a program computes. Given and random schedules are applied to programs in loop text; the result must be a legal
// program and give the same bits as the plain one, in the interpreter with par loops in random orders and as compiled code.
#include "codegen_agree.h"

#ifdef MLC_LLVM
static void run_jit(const Case *c, Result *r) {
    Diag d = {0};
    EmitOptions o = {.prefix = "t", .export_info = true};
    LlvmJit *j = llvm_jit(c->p, &o, c->opt, &d);
    ck_assert_msg(j != NULL, "%s", d.text.data);
    run_model(c, r, llvm_jit_info(j));
    llvm_jit_free(j);
}
#endif

// ---- programs: each has one kernel k; their symbols' values are drawn from their bounds ----

#define PROGRAM(dims, buffers, params, body, call)                                                                                         \
    "program p\ntarget native\n" dims buffers "kernel k (" params ") {\n" body "}\nmain { call k(" call ") }\n"

static const char *const programs[] = {
    // 0: a stencil over a local
    PROGRAM("", "input x: f32[101]\noutput y: f32[100]\n", "x: f32 in, y: f32 out disjoint",
        "  local t: f32[101]\n  for i in 0..101 par {\n    t[i] = x[i] * 0.5\n  }\n"
        "  for j in 0..100 par {\n    y[j] = t[j] + t[j + 1]\n  }\n",
        "x, y"),
    // 1: two passes over an image, rows of the first through a temp
    PROGRAM("dim H in 1..9\ndim W in 1..7\n", "input x: f32[H + 2, W + 2]\noutput y: f32[H, W]\ntemp t: f32[H + 2, W]\n",
        "x: f32 in, t: f32 inout disjoint, y: f32 out disjoint",
        "  for a in 0..H + 2 par {\n    for b in 0..W par {\n"
        "      t[a*W + b] = x[a*(W + 2) + b] + x[a*(W + 2) + b + 1] + x[a*(W + 2) + b + 2]\n    }\n  }\n"
        "  for i in 0..H par {\n    for j in 0..W par {\n      y[i*W + j] = t[i*W + j] + t[i*W + W + j] * 2.0 + t[i*W + 2*W + j]\n    }\n  "
        "}\n",
        "x, t, y"),
    // 2: a matrix product
    PROGRAM("dim M in 1..9\ndim N in 1..20\n", "input x: f32[M, 12]\ninput w: f32[12, N]\noutput y: f32[M, N]\n",
        "x: f32 in, w: f32 in, y: f32 out disjoint",
        "  for i in 0..M par {\n    for j in 0..N par {\n      reduce c in 0..12 (s: f32 = 0.0) {\n"
        "        set s = fma(x[i*12 + c], w[c*N + j], s)\n      } combine (s2) {\n        set s = s + s2\n      }\n"
        "      y[i*N + j] = max(s, 0.0)\n    }\n  }\n",
        "x, w, y"),
    // 3: a padded window: reads under a condition
    PROGRAM("dim N in 1..15\n", "input x: f32[N]\noutput y: f32[N]\ntemp t: f32[N]\n",
        "x: f32 in, t: f32 inout disjoint, y: f32 out disjoint",
        "  for i in 0..N par {\n    t[i] = x[i] + 1.0\n  }\n"
        "  for j in 0..N par {\n    var s: f32 = 0.0\n    for d in 0..3 seq {\n      if dim(j + d) >= 1 & dim(j + d) < dim(N + 1) {\n"
        "        set s = s + t[j + d - 1]\n      }\n    }\n    y[j] = s\n  }\n",
        "x, t, y"),
    // 4: a chain of three
    PROGRAM("", "input x: f32[40]\noutput y: f32[32]\n", "x: f32 in, y: f32 out disjoint",
        "  local a: f32[40]\n  local b: f32[36]\n  for i in 0..40 par {\n    a[i] = x[i] * x[i]\n  }\n"
        "  for j in 0..36 par {\n    b[j] = a[j] - a[j + 4]\n  }\n"
        "  for k0 in 0..32 seq {\n    y[k0] = b[k0] + b[k0 + 2] + b[k0 + 4]\n  }\n",
        "x, y"),
    // 5: lanes
    PROGRAM("", "input x: f32[8, 32]\noutput y: f32[8, 24]\n", "x: f32 in, y: f32 out disjoint",
        "  local t: f32[256]\n  for i in 0..8 par {\n    for j in 0..4 par {\n      t[i*32 + 8*j : 8] = x[i*32 + 8*j : 8] * "
        "splat8(2.0f32)\n    }\n  }\n"
        "  for a in 0..8 par {\n    for b in 0..6 par {\n      y[a*24 + 4*b : 4] = t[a*32 + 4*b : 4] + t[a*32 + 4*b + 3 : 4]\n    }\n  }\n",
        "x, y"),
    // 6: a buffer that iterations hand on
    PROGRAM("", "input x: f32[30]\noutput y: f32[30]\n", "x: f32 in, y: f32 out disjoint",
        "  local t: f32[4]\n  for z in 0..4 par {\n    t[z] = 0.0\n  }\n"
        "  for i in 0..30 seq {\n    for j in 0..2 par {\n      t[j + 1] = x[i] + t[3*j]\n    }\n    for c in 0..2 par {\n      t[3*c] = "
        "t[2 - c]\n    }\n"
        "    y[i] = t[0] + t[3]\n  }\n",
        "x, y"),
    // 7: it may all be the same memory
    PROGRAM("", "input x: f32[24]\noutput y: f32[24]\ntemp t: f32[24]\n", "x: f32 in, t: f32 inout, u: f32 inout, y: f32 out",
        "  local s: f32[24]\n  for a in 0..24 par {\n    t[a] = x[a]\n  }\n  for i in 0..23 par {\n    s[i] = t[i + 1] * 3.0\n  }\n"
        "  for j in 0..20 seq {\n    u[j] = s[j] + t[j]\n    y[j] = u[j + 2] + s[j + 1]\n  }\n"
        "  for l in 20..24 par {\n    y[l] = t[l]\n  }\n",
        "x, t, t, y"),
    // 8: elementwise in place
    PROGRAM("dim N in 1..30\n", "input x: f32[N]\noutput y: f32[N]\ntemp t: f32[N]\n",
        "x: f32 in, t: f32 out, u: f32 inout same, y: f32 out disjoint",
        "  for a in 0..N par {\n    t[a] = x[a]\n  }\n  for i in 0..N par {\n    u[i] = x[i] - 2.0\n  }\n  for j in 0..N par {\n    y[j] = "
        "u[j]\n  }\n",
        "x, t, t, y"),
    // 9: quotients and remainders
    PROGRAM("dim N in 1..5\n", "input x: f32[N, 4, 6]\noutput y: f32[N, 24]\n", "x: f32 in, y: f32 out disjoint",
        "  for n in 0..N seq {\n    local t: f32[24]\n    for i in 0..24 par {\n      t[mod(i, 4)*6 + floordiv(i, 4)] = x[n*24 + i]\n    "
        "}\n"
        "    for j in 0..4 par {\n      for l in 0..6 par {\n        y[n*24 + j*6 + l] = t[j*6 + l] + t[(3 - j)*6 + l]\n      }\n    }\n  "
        "}\n",
        "x, y"),
    // 10: in blocks, with a tail
    PROGRAM("dim N in 1..30\n", "input x: f32[N + 1]\noutput y: f32[N]\ntemp t: f32[N + 1]\n",
        "x: f32 in, t: f32 inout disjoint, y: f32 out disjoint",
        "  for i in 0..N + 1 par {\n    t[i] = abs(x[i])\n  }\n"
        "  for o in 0..ceildiv(N, 8) par {\n    for e in 0..min(8, N - 8*o) par {\n      y[8*o + e] = t[8*o + e] * t[8*o + e + 1]\n    }\n "
        " }\n",
        "x, t, y"),
    // 11: integers, accumulated in memory
    PROGRAM("", "input x: u8[6, 16]\ninput w: i8[4, 8, 4]\noutput y: i32[6, 8]\n", "x: u8 in, w: i8 in, y: i32 inout disjoint",
        "  for i in 0..6 par {\n    for z in 0..8 par {\n      y[8*i + z] = 7i32\n    }\n    for c in 0..4 seq {\n      for l in 0..8 par "
        "{\n"
        "        for q in 0..4 seq {\n          y[8*i + l] = y[8*i + l] + cast.i32(x[16*i + 4*c + q]) * cast.i32(w[32*c + 4*l + q])\n      "
        "  }\n      }\n    }\n  }\n",
        "x, w, y"),
    // 12: a loop that may end early
    PROGRAM("", "input x: f32[50]\noutput y: f32[50]\n", "x: f32 in, y: f32 inout disjoint",
        "  for z in 0..50 par {\n    y[z] = -1.0\n  }\n  for i in 0..10 seq {\n    for e in 0..5 par {\n      y[5*i + e] = x[5*i + e] + "
        "1.0\n    }\n"
        "    if x[5*i] > 60.0 {\n      break\n    }\n    y[5*i] = 3.0\n  }\n",
        "x, y"),
    // 13: row statistics read after their loop
    PROGRAM("dim R in 1..6\n", "input x: f32[R, 10]\noutput y: f32[R, 10]\ntemp m: f32[R]\n",
        "x: f32 in, m: f32 inout disjoint, y: f32 out disjoint",
        "  for r in 0..R par {\n    reduce a in 0..10 (s: f32 = -inff32) {\n      set s = max(s, x[10*r + a])\n    } combine (s2) {\n      "
        "set s = max(s, s2)\n    }\n"
        "    m[r] = s\n  }\n  for i in 0..R par {\n    for j in 0..10 par {\n      y[10*i + j] = x[10*i + j] - m[i]\n    }\n  }\n",
        "x, m, y"),
    // 14: backwards and with steps
    PROGRAM("dim N in 2..12\n", "input x: f32[2*N]\noutput y: f32[2*N]\n", "x: f32 in, y: f32 inout disjoint",
        "  for z in 0..2*N par {\n    y[z] = 0.0\n  }\n  for i in 0..N par {\n    local t: f32[2]\n    for e in 0..2 par {\n      t[1 - e] "
        "= x[2*N - 1 - 2*i - e]\n    }\n"
        "    y[2*i] = t[1]\n    y[2*i + 1] = t[0] + t[1]\n  }\n  for b in 0..2*N step 2 par {\n    y[b] = y[b] * 2.0\n  }\n",
        "x, y"),
    // 15: a fused group under an outer loop, the local outside of it
    PROGRAM("dim B in 1..4\n", "input x: f32[B, 20]\noutput y: f32[B, 18]\n", "x: f32 in, y: f32 out disjoint",
        "  local t: f32[20]\n  for n in 0..B seq {\n    for i in 0..20 par {\n      t[i] = x[20*n + i] * 2.0\n    }\n"
        "    for j in 0..18 par {\n      y[18*n + j] = t[j] + t[j + 1] + t[j + 2]\n    }\n  }\n",
        "x, y"),
    // 16: the first iteration fills a buffer for the others
    PROGRAM("dim N in 1..1000000\n", "input x: f32[N]\noutput y: f32[8]\n", "x: f32 in, y: f32 out disjoint",
        "  local t: f32[8]\n  for i in 0..2 seq {\n    if dim(i) < 1 {\n      for a in 0..8 par {\n        t[a] = x[0]\n      }\n    } "
        "else {\n"
        "      for b in 0..8 par {\n        y[b] = t[b] + 1.0\n      }\n    }\n    reduce c in 0..N (s: f32 = 0.0) {\n      set s = s + "
        "x[c]\n"
        "    } combine (s2) {\n      set s = s + s2\n    }\n    if s == 0.5 {\n      y[0] = s\n    }\n  }\n",
        "x, y"),
    // 17: a product of known sizes, its sum and its largest term
    PROGRAM("", "input x: f32[6, 20]\ninput w: f32[20, 10]\noutput y: f32[6, 10]\n", "x: f32 in, w: f32 in, y: f32 out disjoint",
        "  for i in 0..6 par {\n    for j in 0..10 par {\n      reduce c in 0..20 (s: f32 = 0.0, top: f32 = w[j]) {\n"
        "        let m: f32 = x[i*20 + c] * w[c*10 + j]\n        set s = s + m\n        set top = max(top, m)\n      } combine unordered "
        "(s2, top2) {\n        set s = s + s2\n        set top = max(top, top2)\n      }\n      y[i*10 + j] = s - top\n    }\n  }\n",
        "x, w, y"),
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

// ---- running ----

static int64_t draw(int64_t lo, int64_t hi) {
    return lo + (int64_t)(random_bits() % (uint64_t)(hi - lo + 1));
}

static void draw_dims(Case *c) {
    for (int i = 0; i < c->p->symbols.n; i++) {
        int64_t lo, hi;
        dim_interval(c->p->symbols.data[i], &lo, &hi);
        c->dims[i] = draw(lo, hi > lo + 40 ? lo + 40 : hi);
    }
}

static void run_interpreter(const Case *c, Result *r, uint64_t shuffle, const char *what) {
    Diag d = {0};
    r->status = loop_interpret(c->p, c->dims, r->mem, r->bytes, NULL, NULL, shuffle, &d);
    ck_assert_msg(d.errors == 0, "%s\n%s", d.text.data, what);
}

static void same_results(const Case *plain, const Result *want, const Result *have, const char *what) {
    ck_assert_msg(want->status == have->status, "status %d became %d\n%s", want->status, have->status, what);
    for (int i = 0; i < plain->p->buffers.n && want->status == 0; i++) {
        const LoopBuffer *b = plain->p->buffers.data[i];
        size_t size = (size_t)dtype_bytes(b->var.type.type);
        for (size_t e = 0; want->mem[i] && e < want->bytes[i] / size; e++) {
            const char *x = (const char *)want->mem[i] + e * size, *y = (const char *)have->mem[i] + e * size;
            bool same = !memcmp(x, y, size) || scalar_same(scalar_read(b->var.type.type, x), scalar_read(b->var.type.type, y));
            ck_assert_msg(same, "%s[%zu] differs\n%s", b->var.name, e, what);
        }
    }
}

// Both programs on the same random data; the scheduled one also in random orders.
static void compare_programs(Program *plain, Program *scheduled, int rounds, const char *what) {
    for (int i = 0; i < rounds; i++) {
        Case a = {.p = plain}, b = {.p = scheduled};
        Result want = {0}, have = {0};
        draw_dims(&a);
        memcpy(b.dims, a.dims, sizeof b.dims);
        allocate(&a, &want, NULL);
        allocate(&b, &have, &want);
        run_interpreter(&a, &want, 0, what);
        run_interpreter(&b, &have, i ? (uint64_t)i * 77 : 0, what);
        same_results(&a, &want, &have, what);
        release(&want);
        release(&have);
    }
}

static Program *parse_fresh(const char *text) {
    Program *p = parse(text);
    if (!p->target) p->target = "native";
    return p;
}

// Applied: the scheduled program; refused: NULL and the text of the fault in *why (freed by the caller).
static Program *schedule(const char *text, const char *kernel, const char *schedule_text, char **why) {
    Program *p = parse_fresh(text);
    Kernel *k = p->kernels.data[0];
    for (int i = 0; i < p->kernels.n && kernel; i++)
        if (!strcmp(p->kernels.data[i]->name, kernel)) k = p->kernels.data[i];
    Diag d = {0};
    bool done = schedule_apply(p, k, schedule_text, &d);
    ck_assert_msg(done || d.errors == 1, "'%s' fails without one message", schedule_text);
    if (why) *why = d.text.data;
    if (done) {
        bool legal = loop_verify(p, &d);
        Str s = {0};
        if (!legal) loop_print(&s, p);
        ck_assert_msg(legal, "'%s' makes an illegal program: %s%s", schedule_text, d.text.data, s.data);
        return p;
    }
    free_program(p);
    return NULL;
}

static char *described(const char *schedule_text, const Program *p) {
    Str s = {0};
    str_printf(&s, "schedule \"%s\"\n", schedule_text);
    loop_print(&s, p);
    return s.data;
}

// ---- given schedules ----

static const struct {
    int program;
    const char *text;
} given[] = {
    {0, "compute_at(i, j)"},
    {0, "split(j, 8) compute_at(i, j_o)"},
    {0, "split(j, 8, peel) stage(t, j_o, ts)"},
    {0, "compute_at(i, j, root) fold_storage(t, 2)"},
    {1, "compute_at(a, i, root) fold_storage(t, 5) version(j, dim(i) > 3)"},
    {1, "compute_at(a, i, root) fold_storage(t, 3)"},
    {1, "compute_at(a, i, root) fold_storage(t, 4) split(j, 4)"},
    {1, "split(j, 4) compute_at(a, j_o)"},
    {1, "split(i, 2) compute_at(a, i_o)"},
    {1, "split(i, 3, peel) version(i_o, dim(mod(W, 4)) == 0)"},
    {2, "split(j, 8) reorder(j_o, i) pack(w, j_o, wp, c, j_i)"},
    {2, "reorder(j, i) split(j, 8) split(i, 4) pack(w, j_o, wp, c, j_i) pack(x, i_o, xp, c, i_i) stage(y, i_o, yt)"},
    {2, "version(j, dim(mod(N, 4)) == 0) split(j, 4)"},
    {2, "split(j, 4) version(i, dim(mod(N, 4)) == 0)"},
    {2, "version(i, dim(N) == 1)"},
    {2, "split(j, 8) vectorize(j_i, 8) version(i, dim(mod(N, 8)) == 0)"},
    {3, "compute_at(i, j)"},
    {3, "split(j, 4) compute_at(i, j_o)"},
    {3, "compute_at(i, j, root) fold_storage(t, 3)"},
    {4, "compute_at(i, j, root) fold_storage(a, 5)"},
    {4, "compute_at(j, k0) compute_at(i, k0)"},
    {4, "compute_at(j, k0, root) fold_storage(b, 5)"},
    {4, "split(k0, 8) compute_at(j, k0_o) compute_at(i, k0_o)"},
    {5, "compute_at(i, a)"},
    {5, "stage(t, a, ts)"},
    {5, "stage(x, i, xs)"},
    {5, "compute_at(i, a) stage(x, i, xs)"},
    {10, "compute_at(i, o)"},
    {10, "stage(t, o, ts)"},
    {11, "tensorize(l, dot4_u8_avx2_i32x8)"},
    {11, "stage(y, c, ys)"},
    {12, "stage(x, i, xs)"},
    {13, "compute_at(r, i)"},
    {13, "compute_at(r, i) store_at(m, i)"},
    {14, "stage(x, i, xs)"},
    {15, "store_at(t, n) compute_at(i, j)"},
    {15, "store_at(t, n) compute_at(i, j, root) fold_storage(t, 3)"},
};

START_TEST(given_schedules_keep_results) {
    char *why = NULL;
    const char *text = programs[given[_i].program];
    random_state = 1000 + (uint64_t)_i;
    Program *plain = parse_fresh(text), *p = schedule(text, NULL, given[_i].text, &why);
    bool no_isa = !p && why && strstr(why, "target") != NULL; // this machine lacks the instruction
    ck_assert_msg(p || no_isa, "%s", why);
    if (p) {
        char *what = described(given[_i].text, p);
        compare_programs(plain, p, 8, what);
#ifdef MLC_LLVM
        Case c = {.p = p, .opt = 2};
        draw_dims(&c);
        agree_through(&c, run_jit);
#endif
        free(what);
        free_program(p);
    }
    free(why);
    free_program(plain);
}
END_TEST

// ---- schedules that would change results ----

static const struct {
    int program;
    const char *text, *why;
} refused[] = {
    {0, "compute_at(j, i)", "is not in a nest after"},
    {0, "fold_storage(t, 2)", "are alive at a time"},
    {0, "compute_at(i, j, root) fold_storage(t, 1)", "are alive at a time"},
    {0, "store_at(t, j)", "is used outside of"},
    {1, "stage(t, j, ts) compute_at(a, i, j)", "is no loop around"},
    {1, "compute_at_all(a, j)", "unknown primitive"},
    {2, "store_at(y, i)", "the caller sees it"},
    {2, "pack(w, i, wp, c)", "which is not named"},
    {2, "stage(w, j, c)", "is taken"},
    {2, "version(i, dim(c) == 1)", "condition 'dim(c) == 1'"},
    {2, "version(i, x[0] == 1.0)", "condition 'x[0] == 1.0'"},
    {2, "version(i, dim(mod(M, 16)) == 0)", "is always false"},
    {2, "version(i, dim(N) > 0)", "is always true"},
    {2, "tensorize(j, fmadd_f32x8)", "is not fmadd_f32x8"},
    {2, "tensorize(j, no_such_row)", "there is no instruction"},
    {6, "store_at(t, i)", "is used outside of"},
    {16, "store_at(t, i)", "did not write before"},
    {9, "compute_at(i, j)", "not simple enough"},
    {16, "stage(x, i, xs)", "has no constant size"},
    {6, "fold_storage(t, 2)", "are alive at a time"},
    {7, "compute_at(i, j)", "may change what 'i' reads"},
    {7, "stage(s, j, ss)", NULL},
    {7, "stage(u, j, us)", "may overlap"},
    {7, "compute_at(a, l)", "cannot move"},
    {8, "compute_at(i, j)", "cannot move"},
    {8, "stage(x, i, xs)", "may overlap"},
    {12, "stage(y, i, ys)", "is left by break"},
    {15, "compute_at(i, j, root)", NULL},
};

START_TEST(wrong_schedules_are_refused) {
    char *why = NULL;
    Program *p = schedule(programs[refused[_i].program], NULL, refused[_i].text, &why);
    if (!refused[_i].why) { // legal, beside the others
        ck_assert_msg(p != NULL, "'%s': %s", refused[_i].text, why);
        free_program(p);
        return;
    }
    ck_assert_msg(!p, "'%s' is not refused", refused[_i].text);
    ck_assert_msg(strstr(why, refused[_i].why) != NULL, "'%s': expected '%s' in %s", refused[_i].text, refused[_i].why, why);
    free(why);
}
END_TEST

// ---- random schedules ----

typedef struct {
    const char *loops[64], *buffers[32];
    int nloops, nbuffers;
} Names;

static void note_names(void *ctx, Stmt *s) {
    Names *n = ctx;
    bool loop = s->kind == ST_FOR || s->kind == ST_REDUCE;
    if (loop && n->nloops < 64) n->loops[n->nloops++] = dim_as_symbol(s->sym)->name;
    if (s->kind == ST_LOCAL && n->nbuffers < 32) n->buffers[n->nbuffers++] = s->var->name;
}

static Names names_of(Kernel *k) {
    Names n = {0};
    for (int i = 0; i < k->params.n; i++) n.buffers[n.nbuffers++] = k->params.data[i]->var.name;
    loop_walk(&k->body, note_names, &n);
    return n;
}

enum { KINDS = 16 };
static const char *const kinds[KINDS] = {"split", "split", "fuse", "reorder", "unroll", "compute_at", "compute_at", "store_at",
    "fold_storage", "stage", "pack", "version", "jam", "vectorize", "compute_at", "parts"};
static int applied[KINDS];

static const char *a_loop(const Names *n) {
    return n->nloops ? n->loops[draw(0, n->nloops - 1)] : "none";
}
static const char *a_buffer(const Names *n) {
    return n->nbuffers ? n->buffers[draw(0, n->nbuffers - 1)] : "none";
}

static void random_condition(Str *s, const Program *p) {
    const char *sym = p->symbols.n ? dim_as_symbol(p->symbols.data[draw(0, p->symbols.n - 1)])->name : "none";
    static const char *const forms[] = {"dim(%s) == %d", "dim(mod(%s, %d)) == 0", "dim(%s) >= %d", "dim(%s) < %d", "dim(mod(%s, %d)) == 1"};
    int form = (int)draw(0, 4), value = (int)draw(1, 8);
    char text[64];
    const char *at = strstr(forms[form], "%s");
    snprintf(text, sizeof text, "%.*s%s", (int)(at - forms[form]), forms[form], sym);
    str_add(s, text);
    const char *rest = at + 2, *number = strstr(rest, "%d");
    str_printf(s, "%.*s%d%s", (int)(number - rest), rest, value, number + 2);
}

static void random_primitive(Str *s, int kind, const Names *n, const Program *p, int number) {
    static const char *const tails[] = {"", ", mask", ", peel", ", branch"};
    const char *name = kinds[kind], *loop = a_loop(n), *other = a_loop(n);
    str_printf(s, "%s(", name);
    if (!strcmp(name, "split")) str_printf(s, "%s, %d%s", loop, (int)draw(2, 9), tails[draw(0, 3)]);
    if (!strcmp(name, "fuse") || !strcmp(name, "reorder")) str_printf(s, "%s, %s", loop, other);
    if (!strcmp(name, "unroll") || !strcmp(name, "jam")) str_add(s, loop);
    if (!strcmp(name, "vectorize")) str_printf(s, "%s, %d", loop, (int)draw(2, 16));
    if (!strcmp(name, "compute_at")) str_printf(s, "%s, %s%s", loop, other, draw(0, 1) ? "" : ", root");
    if (!strcmp(name, "store_at")) str_printf(s, "%s, %s", a_buffer(n), loop);
    if (!strcmp(name, "fold_storage")) str_printf(s, "%s, %d", a_buffer(n), (int)draw(1, 9));
    if (!strcmp(name, "stage")) str_printf(s, "%s, %s, new%d", a_buffer(n), loop, number);
    if (!strcmp(name, "parts")) str_printf(s, "%s, %s, %d, new%d", loop, other, (int)draw(1, 9), number);
    if (!strcmp(name, "pack"))
        str_printf(s, "%s, %s, new%d, %s%s%s", a_buffer(n), loop, number, other, draw(0, 1) ? ", " : "", draw(0, 1) ? a_loop(n) : "");
    if (!strcmp(name, "version")) {
        str_printf(s, "%s, ", loop);
        random_condition(s, p);
    }
    str_add(s, ") ");
}

// Grows a schedule by primitives that apply, then compares.
static void random_schedule(const char *text, const char *kernel, bool compiled) {
    Str so_far = {0};
    Program *p = parse_fresh(text);
    for (int step = 0, tries = 0; step < 4 && tries < 60; tries++) {
        Kernel *k = p->kernels.data[0];
        for (int i = 0; i < p->kernels.n && kernel; i++)
            if (!strcmp(p->kernels.data[i]->name, kernel)) k = p->kernels.data[i];
        Names n = names_of(k);
        Str next = {0};
        if (so_far.n) str_add(&next, so_far.data);
        int kind = (int)draw(0, KINDS - 1);
        random_primitive(&next, kind, &n, p, tries);
        char *why = NULL;
        Program *q = schedule(text, kernel, next.data, &why);
        free(why);
        if (!q) {
            str_free(&next);
            continue;
        }
        free_program(p);
        p = q;
        step++;
        applied[kind]++;
        str_free(&so_far);
        so_far = next;
    }
    Program *plain = parse_fresh(text);
    char *what = described(so_far.n ? so_far.data : "", p);
    compare_programs(plain, p, 3, what);
#ifdef MLC_LLVM
    Case c = {.p = p, .opt = 0};
    if (compiled) {
        draw_dims(&c);
        agree_through(&c, run_jit);
    }
#endif
    (void)compiled;
    free(what);
    str_free(&so_far);
    free_program(plain);
    free_program(p);
}

enum { SEEDS = 60 };

START_TEST(random_schedules_keep_results) {
    const char *seeds = getenv("MLC_SEEDS");
    int n = seeds ? atoi(seeds) : SEEDS;
    for (int seed = 0; seed < n; seed++) {
        random_state = (uint64_t)(seed * PROGRAMS + _i) * 2654435761u + 12345;
        for (int k = 0; k < 5; k++) random_bits();
        random_schedule(programs[_i], NULL, seed % 20 == 0);
    }
}
END_TEST

// The primitives of this list are not refused all the time.
START_TEST(random_schedules_apply) {
    memset(applied, 0, sizeof applied);
    for (int seed = 0; seed < 24; seed++)
        for (int i = 0; i < PROGRAMS; i++) {
            random_state = (uint64_t)(seed * PROGRAMS + i) * 40503u + 99;
            random_schedule(programs[i], NULL, false);
        }
    for (int kind = 0; kind < KINDS; kind++) ck_assert_msg(applied[kind] > 0, "%s never applies", kinds[kind]);
}
END_TEST

// The programs of the printers' tests: every statement of the language.
START_TEST(random_schedules_of_all_statements) {
    const TextCase *t = &texts[_i];
    Program *p = parse(t->text);
    int kernels = p->kernels.n;
    char name[16][64];
    for (int i = 0; i < kernels && i < 16; i++) snprintf(name[i], sizeof name[i], "%s", p->kernels.data[i]->name);
    free_program(p);
    for (int seed = 0; seed < 20; seed++) {
        random_state = (uint64_t)seed * 7919u + (uint64_t)_i * 31;
        char *why = NULL;
        const char *kernel = name[draw(0, kernels - 1)];
        Str s = {0};
        Program *plain = parse_fresh(t->text);
        Kernel *k = plain->kernels.data[0];
        for (int i = 0; i < kernels; i++)
            if (!strcmp(plain->kernels.data[i]->name, kernel)) k = plain->kernels.data[i];
        Names n = names_of(k);
        Program *q = NULL;
        for (int tries = 0; tries < 20 && !q; tries++) {
            str_free(&s);
            s = (Str){0};
            random_primitive(&s, (int)draw(0, KINDS - 1), &n, plain, tries);
            q = schedule(t->text, kernel, s.data, &why);
            free(why);
        }
        if (q && !strstr(t->text, "unbounded") && !strstr(t->text, "data dim")) {
            Case a = {.p = plain, .dims = {t->dims[0], t->dims[1]}, .capacity = 64}, b = a;
            b.p = q;
            char *what = described(s.data, q);
            Result want = {0}, have = {0};
            allocate(&a, &want, NULL);
            allocate(&b, &have, &want);
            run_interpreter(&a, &want, 0, what);
            run_interpreter(&b, &have, 0, what);
            same_results(&a, &want, &have, what);
            release(&want);
            release(&have);
            free(what);
        }
        if (q) free_program(q);
        free_program(plain);
        str_free(&s);
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("schedule");
    TCase *c = tcase_create("schedule");
    tcase_set_timeout(c, 600);
    tcase_add_loop_test(c, given_schedules_keep_results, 0, (int)(sizeof given / sizeof *given));
    tcase_add_loop_test(c, wrong_schedules_are_refused, 0, (int)(sizeof refused / sizeof *refused));
    tcase_add_loop_test(c, random_schedules_keep_results, 0, PROGRAMS);
    tcase_add_loop_test(c, random_schedules_of_all_statements, 0, (int)(sizeof texts / sizeof *texts));
    tcase_add_test(c, random_schedules_apply);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
