// What the tests of both printers share: programs in loop text, and the harness that runs a Program through the loop interpreter and
// through a compiled model on the same data. Results must agree bit for bit, NaN as a class.
#ifndef MLC_TEST_CODEGEN_AGREE_H
#define MLC_TEST_CODEGEN_AGREE_H

#include "../../codegen/codegen.h"
#include "../../codegen/layout.h"
#include "../../runtime/abi.h"
#include "loop_text.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- running a Program both ways ----
enum { MAX_BUFFERS = 128, MAX_DIMS = 4 };

typedef struct {
    Program *p;
    int64_t dims[MAX_DIMS];
    int64_t capacity; // elements of dynamic outputs
    int opt;
    mlc_pool *pool;
} Case;

static int64_t dim_value(void *ctx, const Dim *sym) {
    const Case *c = ctx;
    for (int i = 0; i < c->p->symbols.n; i++)
        if (c->p->symbols.data[i] == sym) return c->dims[i];
    return c->capacity;
}

static size_t buffer_bytes(const Case *c, const LoopBuffer *b) {
    bool ok = true;
    int64_t n = 1;
    for (int i = 0; i < b->rank; i++) n *= dim_eval(b->shape[i], dim_value, (void *)(uintptr_t)c, &ok);
    ck_assert(ok);
    return (size_t)n * (size_t)dtype_bytes(b->var.type.type);
}

static uint64_t random_state;
static uint64_t random_bits(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return random_state >> 20;
}

static const double special[] = {0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 127.5, 128.0, -129.0, 255.5, 32768.0, -32769.0, 65536.0,
    8388609.0, 2147483647.0, 2147483648.0, -2147483649.0, 4294967296.0, 9223372036854775808.0, -9223372036854775808.0,
    18446744073709551616.0, 1e-45, 1e-40, -1e-310, 3.4028234663852886e38, 1e300, 0.3333333333333333, 88.7, -87.3, 3.14159265358979};
enum { SPECIAL = sizeof special / sizeof *special };

static void random_element(DType t, void *p, int i) {
    uint64_t r = random_bits();
    if (t == DT_bool)
        *(uint8_t *)p = r & 1;
    else if (!dtype_is_float(t)) {
        static const int64_t edges[] = {0, 1, -1, 2, 7, -8, 127, -128, 255, 32767, -32768, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
        int64_t v = r % 3 == 0 ? edges[r / 3 % 15] : r % 3 == 1 ? (int64_t)(r / 3 % 40) - 20 : (int64_t)(r * 0x9e3779b97f4a7c15u);
        scalar_write(scalar_int(t, v), p);
    } else {
        double v = r % 4 == 0 ? special[r / 4 % SPECIAL] : (double)(int64_t)(r % 200001 - 100000) / 977.0;
        if (i % 17 == 3) v = NAN;
        if (i % 19 == 5) v = i % 2 ? INFINITY : -INFINITY;
        scalar_write(scalar_float(t, v), p);
    }
}

// Inputs whose name begins with "ix" are small indices.
static void fill_input(const LoopBuffer *b, void *p, size_t bytes) {
    DType t = b->var.type.type;
    int size = dtype_bytes(t);
    for (size_t i = 0; i < bytes / (size_t)size; i++) {
        char *at = (char *)p + i * (size_t)size;
        if (strncmp(b->var.name, "ix", 2) == 0)
            scalar_write(scalar_int(t, (int64_t)(random_bits() % 16)), at);
        else
            random_element(t, at, (int)i);
    }
}

static void *aligned_zero(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    memset(p, 0, (bytes + 127) / 64 * 64);
    return p;
}

static void compare(const LoopBuffer *b, const void *want, const void *have, size_t bytes) {
    DType t = b->var.type.type;
    size_t size = (size_t)dtype_bytes(t);
    for (size_t i = 0; i < bytes / size; i++) {
        const char *x = (const char *)want + i * size, *y = (const char *)have + i * size;
        if (memcmp(x, y, size) == 0) continue;
        Scalar s = scalar_read(t, x), r = scalar_read(t, y);
        bool same = scalar_same(s, r);
        ck_assert_msg(same, "%s[%zu]: interpreter %.17g, compiled %.17g", b->var.name, i, scalar_as_f64(s), scalar_as_f64(r));
    }
}

typedef struct {
    void *mem[MAX_BUFFERS]; // by buffer of the Program
    size_t bytes[MAX_BUFFERS];
    int status;
    int64_t extents[16]; // of dynamic outputs, in order
} Result;

static void allocate(const Case *c, Result *r, const Result *like) {
    for (int i = 0; i < c->p->buffers.n; i++) {
        const LoopBuffer *b = c->p->buffers.data[i];
        if (b->kind != BUF_INPUT && b->kind != BUF_OUTPUT && b->kind != BUF_STATE) continue;
        r->bytes[i] = buffer_bytes(c, b);
        r->mem[i] = aligned_zero(r->bytes[i]);
        if (like)
            memcpy(r->mem[i], like->mem[i], r->bytes[i]);
        else if (b->kind != BUF_OUTPUT)
            fill_input(b, r->mem[i], r->bytes[i]);
    }
}

static void note_size(void *ctx, const Dim *sym, int64_t v) {
    (void)sym;
    Result *r = ctx;
    r->extents[0] = v;
}

// A tied output's next value goes to the state; the model's caller gets a copy.
static void interpret(const Case *c, Result *r) {
    Diag d = {0};
    void *mem[MAX_BUFFERS];
    memcpy(mem, r->mem, sizeof mem);
    for (int i = 0; i < c->p->buffers.n; i++)
        if (c->p->buffers.data[i]->kind == BUF_OUTPUT && c->p->buffers.data[i]->tie >= 0) mem[i] = NULL;
    r->status = loop_interpret(c->p, c->dims, mem, r->bytes, note_size, r, 0, &d);
    ck_assert_msg(d.errors == 0, "%s", d.text.data);
    for (int i = 0; i < c->p->buffers.n; i++)
        if (r->mem[i] && !mem[i]) memcpy(r->mem[i], r->mem[c->p->buffers.data[i]->tie], r->bytes[i]);
}

static void *host_alloc(void *user, size_t n) {
    ++*(int *)user;
    return aligned_zero(n);
}
static void host_free(void *user, void *p) {
    --*(int *)user;
    free(p);
}

// Outputs as the model's struct: pointers, then { capacity, shape } of the dynamic ones.
static void *output_struct(const Case *c, const Layout *l, const Result *r) {
    char *out = aligned_zero(4096);
    size_t at = (size_t)l->noutputs * sizeof(void *);
    for (int o = 0, i = 0; i < c->p->buffers.n; i++) {
        if (c->p->buffers.data[i]->kind != BUF_OUTPUT) continue;
        ((void **)out)[o] = r->mem[i];
        if (l->outputs[o].dynamic) {
            *(size_t *)(out + at) = (size_t)c->capacity;
            at += 8 + 8 * (size_t)l->outputs[o].buffer->rank;
        }
        o++;
    }
    return out;
}

static void copy_states(const Case *c, const Layout *l, Result *r, char *state, bool in) {
    for (int s = 0, i = 0; i < c->p->buffers.n; i++) {
        if (c->p->buffers.data[i]->kind != BUF_STATE) continue;
        char *at = state + l->states[s++].offset;
        if (in)
            memcpy(at, r->mem[i], r->bytes[i]);
        else
            memcpy(r->mem[i], at, r->bytes[i]);
    }
}

static void run_model(const Case *c, Result *r, const mlc_model_info *info) {
    Diag d = {0};
    Arena *a = arena_new();
    Layout *l = codegen_layout(a, c->p, "t", &d);
    ck_assert_msg(l != NULL, "%s", d.text.data);
    const void *in[MAX_BUFFERS];
    int n = 0, live = 0;
    for (int i = 0; i < c->p->buffers.n; i++)
        if (c->p->buffers.data[i]->kind == BUF_INPUT) in[n++] = r->mem[i];
    char *out = output_struct(c, l, r), *state = aligned_zero(info->state_bytes);
    copy_states(c, l, r, state, true);
    mlc_env env = {.struct_size = sizeof env, .state = state, .alloc = host_alloc, .dealloc = host_free, .user = &live, .pool = c->pool};
    env.arena_bytes = info->arena_bytes(c->dims, 1);
    ck_assert(env.arena_bytes != SIZE_MAX);
    env.arena = aligned_zero(env.arena_bytes);
    memset(env.arena, 0xff, env.arena_bytes);
    r->status = info->run_env(c->dims, in, out, &env);
    ck_assert_int_eq(live, 0);
    copy_states(c, l, r, state, false);
    if (l->noutputs && l->outputs[0].dynamic) r->extents[0] = *(int64_t *)(out + (size_t)l->noutputs * sizeof(void *) + 8);
    free(env.arena);
    free(state);
    free(out);
    arena_free(a);
}

typedef void RunFn(const Case *c, Result *r); // compiles c->p, runs it on r's memory and sets its status

static void release(Result *r) {
    for (int i = 0; i < MAX_BUFFERS; i++) free(r->mem[i]);
}

// Runs both and compares outputs, states, status and sizes. Returns the status.
static inline int agree_through(const Case *c, RunFn *run) {
    Result a = {0}, b = {0};
    allocate(c, &a, NULL);
    allocate(c, &b, &a);
    interpret(c, &a);
    run(c, &b);
    ck_assert_int_eq(a.status, b.status);
    ck_assert_int_eq(a.extents[0], b.extents[0]);
    for (int i = 0; i < c->p->buffers.n && a.status == 0; i++)
        if (a.mem[i]) compare(c->p->buffers.data[i], a.mem[i], b.mem[i], a.bytes[i]);
    int status = a.status;
    release(&a);
    release(&b);
    return status;
}

// ---- every scalar function on every type ----
enum { ELEMENTS = 240 };

typedef struct {
    Program *p;
    Kernel *k;
    Block *body;
    LoopBuffer *args[MAX_BUFFERS];
    int nargs, lanes;
    const Dim *i;
} Matrix;

static LoopBuffer *matrix_buffer(Matrix *m, BufKind kind, const char *name, DType t) {
    const Dim *shape[1] = {dim_int(m->p->dims, ELEMENTS)};
    LoopBuffer *b = loop_buffer(m->p, kind, name, t, 1, shape);
    LoopBuffer *param = loop_param(m->p, m->k, name, t, kind == BUF_INPUT, kind == BUF_OUTPUT);
    m->args[m->nargs++] = b;
    return param;
}

static const Expr *matrix_load(Matrix *m, LoopBuffer *b) {
    return m->lanes == 1 ? x_load(m->p->arena, &b->var, m->i) : x_load_lanes(m->p->arena, &b->var, m->i, m->lanes, 1, NULL, NULL);
}

static void matrix_store(Matrix *m, const Expr *value, const char *name) {
    LoopBuffer *b = matrix_buffer(m, BUF_OUTPUT, name, value->type.type);
    loop_store(m->p, m->body, b, m->i, value);
}

static const DType native[] = {DT_f32, DT_f64, DT_i8, DT_u8, DT_i16, DT_u16, DT_i32, DT_u32, DT_i64, DT_u64, DT_bool};
enum { NATIVE = sizeof native / sizeof *native };

static void matrix_op(Matrix *m, XOp op, DType t, const Expr *const *in, const Expr *mask) {
    const XOpInfo *info = xop_info(op);
    Arena *a = m->p->arena;
    for (int c = 0; c < (info->cls == XC_CAST ? NATIVE : 1); c++) {
        DType to = info->cls == XC_CAST ? native[c] : info->cls == XC_CMP ? DT_bool : t;
        Expr e = {.op = op, .type = vtype(to, m->lanes), .n = info->arity};
        for (int i = 0; i < info->arity; i++) e.a[i] = in[i];
        if (info->cls == XC_SEL) e.a[0] = mask, e.a[1] = in[0], e.a[2] = in[1];
        if (op == X_bits && (t == DT_bool || to == DT_bool)) continue;
        if (expr_check(a, &e)) continue;
        matrix_store(m, x_node(a, e), arena_printf(a, "y_%s_%s", info->name, dtype_name(to)));
    }
}

static inline void scalar_matrix(const char *target, RunFn *run, DType t, int lanes, XOp from, XOp to) {
    Matrix m = {.p = program_new(dim_table_new(), "matrix"), .lanes = lanes};
    m.p->target = target;
    m.k = loop_kernel(m.p, "all", "all", 1);
    Stmt *loop = loop_for(m.p, &m.k->body, "i", dim_int(m.p->dims, 0), dim_int(m.p->dims, ELEMENTS / lanes), LOOP_PAR);
    m.body = &loop->body;
    m.i = dim_muli(m.p->dims, loop->sym, lanes);
    LoopBuffer *in[3] = {matrix_buffer(&m, BUF_INPUT, "x", t), matrix_buffer(&m, BUF_INPUT, "y", t), matrix_buffer(&m, BUF_INPUT, "z", t)};
    LoopBuffer *mask = matrix_buffer(&m, BUF_INPUT, "m", DT_bool);
    const Expr *v[3], *on = matrix_load(&m, mask);
    for (int i = 0; i < 3; i++) v[i] = matrix_load(&m, in[i]);
    for (XOp op = from; op < to; op++) matrix_op(&m, op, t, v, on);
    loop_call(m.p, &m.p->main, m.k, m.nargs, m.args);
    Diag d = {0};
    ck_assert_msg(loop_verify(m.p, &d), "%s", d.text.data);
    random_state = (uint64_t)t * 77 + (uint64_t)lanes;
    ck_assert_int_eq(agree_through(&(Case){.p = m.p, .opt = 2}, run), 0);
    DimTable *dims = m.p->dims;
    program_free(m.p);
    dim_table_free(dims);
}

// ---- statements and lanes ----
typedef struct {
    const char *name;
    int64_t dims[2];
    int status;
    const char *text;
} TextCase;

#define CHECK_STATUS(code, node) (-((code) + 256 * (node)))

static const TextCase texts[] = {
    {"reduce in order, two states", {7}, 0,
        "program p\ndim N in 1..64\ninput x: f32[N, 33]\noutput y: f32[N]\noutput z: f32[N]\n"
        "kernel k \"k\" node 1 (x: f32 in, y: f32 out disjoint, z: f32 out disjoint) {\n"
        "  for i in 0..N par {\n"
        "    reduce j in 0..33 (s: f32 = 0.0f32, m: f32 = -inff32) {\n"
        "      set s = fma(x[33*i + j], 0.25f32, s)\n      set m = max(m, x[33*i + j])\n"
        "    } combine (s2, m2) {\n      set s = s + s2\n      set m = max(m, m2)\n    }\n"
        "    y[i] = s\n    z[i] = m\n  }\n}\nmain { call k(x, y, z) }\n"},
    {"register tile and unrolled loops", {0}, 0,
        "program p\ntarget native\ninput x: f32[6, 32]\ninput w: f32[32, 16]\noutput y: f32[6, 16]\n"
        "kernel k \"k\" node 1 (x: f32 in, w: f32 in, y: f32 out disjoint) {\n"
        "  tile acc[6, 2]: f32x8 = splat8(0.5f32)\n"
        "  for k in 0..32 seq {\n    for i in 0..6 seq unroll {\n      for j in 0..2 seq unroll {\n"
        "        set acc[i, j] = fma(splat8(x[32*i + k]), w[16*k + 8*j : 8], acc[i, j])\n      }\n    }\n  }\n"
        "  for i2 in 0..6 seq unroll {\n    for j2 in 0..2 seq unroll {\n      y[16*i2 + 8*j2 : 8] = acc[i2, j2]\n    }\n  }\n"
        "}\nmain { call k(x, w, y) }\n"},
    {"masks, strides, gathers, scatters", {0}, 0,
        "program p\ntarget native\ninput x: f32[64]\ninput ixs: i32[16]\noutput y: f32[64]\noutput z: f32[64]\noutput u: f32[64]\noutput "
        "v: u8[8]\n"
        "kernel k \"k\" node 1 (x: f32 in, ixs: i32 in, y: f32 out disjoint, z: f32 out disjoint, u: f32 out disjoint, v: u8 out disjoint) "
        "{\n"
        "  let m: boolx8 = x[0 : 8] > splat8(0.0f32)\n"
        "  y[0 : 8] = x[1 : 8 : 3]\n  y[8 : 8] = x[40 : 8 : -2]\n  y[16 : 8] = x[3 : 8 : 0]\n  y[24 : 8] = x[2 : 8 : 7]\n"
        "  y[32 : 8] = x[8 : 8 ? m]\n  y[40 : 8] = x[8 : 8 : 2 ? m]\n  y[48 : 8] = x[4 @ ixs[0 : 8]]\n  y[56 : 8] = x[4 @ ixs[8 : 8] ? m]\n"
        "  z[0 : 8] = x[0 : 8] ? m\n  z[8 : 8 : 3] = x[8 : 8]\n  z[40 : 8 : 2] = x[8 : 8] ? m\n"
        "  u[0 @ ixs[0 : 8]] = x[0 : 8]\n  u[20 @ ixs[8 : 8]] = x[8 : 8] ? m\n"
        "  u[40] = x[5] ? x[6] > 0.0f32\n  u[41] = x[7 ? x[9] > 0.0f32]\n"
        "  v[0 : 8] = cast.u8(m)\n"
        "}\nmain { call k(x, ixs, y, z, u, v) }\n"},
    {"loads and stores as other types", {0}, 0,
        "program p\ntarget native\ninput x: u8[64]\noutput y: u8[64]\noutput z: f32[8]\noutput h: u16[8]\n"
        "kernel k \"k\" node 1 (x: u8 in, y: u8 out disjoint, z: f32 out disjoint, h: u16 out disjoint) {\n"
        "  for i in 0..8 par {\n    z[i] = cast.f32(x.u16[7*i + 1])\n    h[i] = bits.u16(x.f16[3*i + 1])\n    y.u32[8*i + 1] = x.u32[5*i] "
        "+ 1\n  }\n"
        "}\nmain { call k(x, y, z, h) }\n"},
    {"shuffle, table, lane, insert, widen, iota", {0}, 0,
        "program p\ntarget native\ninput x: i32[16]\ninput b: i8[16]\noutput y: i32[128]\noutput f: f32[16]\n"
        "kernel k \"k\" node 1 (x: i32 in, b: i8 in, y: i32 out disjoint, f: f32 out disjoint) {\n"
        "  let a: i32x8 = x[0 : 8]\n  let c: i32x8 = x[8 : 8]\n"
        "  y[0 : 8] = shuffle(a, c; 0 8 1 9 2 10 3 11)\n  y[8 : 4] = shuffle(a; 7 6 5 4)\n  y[12 : 4] = shuffle(x[0 : 4], c; 0 11 4 3)\n"
        "  y[16 : 8] = table(a, c)\n  y[24 : 8] = insert(a, 3, lane(c, 5))\n  y[32 : 8] = widen8.i32(b[0 : 16], 4)\n"
        "  y[40 : 8] = iota8.i32 * a\n  y[48] = lane(a, 7)\n  y[49] = popcount(a < c)\n  y[50] = popcount(x[3])\n"
        "  y[56 : 8] = compress(a, a < c)\n  y[64 : 8] = expand(a, a < c)\n  y[72 : 4] = dot4(x[0 : 4], b[0 : 16], b[0 : 16])\n"
        "  y[80] = hadd(a)\n  y[81] = hmin(a)\n  y[82] = hmax(a)\n  y[83] = hand(a)\n  y[84] = hor(a)\n  y[85] = hmul(a)\n"
        "  y[86] = cast.i32(hand(a < c))\n  y[87] = cast.i32(hor(a < c))\n  y[96 : 8] = table(x[0 : 3], c)\n"
        "  f[0] = hadd(cast.f32(a))\n  f[1] = hmax(cast.f32(c))\n  f[2] = hmul(cast.f32(a))\n"
        "}\nmain { call k(x, b, y, f) }\n"},
    {"while, if, break, scalars", {12}, 0,
        "program p\ndim N in 0..64\ninput x: i32[N]\noutput y: i32[4]\n"
        "kernel k \"k\" node 1 (x: i32 in, y: i32 out disjoint) {\n"
        "  var n: i32 = 0\n  var s: i32 = 0\n  var w: i32 = 1000\n"
        "  for i in 0..N seq {\n    if x[i] < 0 {\n      set n = n + 1\n    } else {\n      set s = s + x[i]\n    }\n    if n > 3 {\n      "
        "break\n    }\n  }\n"
        "  while w > 7 {\n    set w = w / 3\n    if w == 37 {\n      break\n    }\n  }\n"
        "  y[0] = n\n  y[1] = s\n  y[2] = w\n  for j in 0..4 seq unroll {\n    set s = s + n*cast.i32(dim(j))\n    if s > 40 {\n      "
        "break\n    }\n  }\n  y[3] = s\n}\nmain { call k(x, y) }\n"},
    {"idx lets and clamped indices", {9}, 0,
        "program p\ndim N in 1..64\ninput ixa: i64[16]\ninput x: f32[N + 16]\noutput y: f32[16]\n"
        "kernel k \"k\" node 3 (ixa: i64 in, x: f32 in, y: f32 out disjoint) {\n"
        "  for i in 0..16 par {\n    let j: idx 0..N + 15 = index(cast.idx(ixa[i]), N + 16)\n    y[i] = x[j] * 2.0f32\n  }\n}\n"
        "main { call k(ixa, x, y) }\n"},
    {"index out of range raises the sticky flag", {9}, CHECK_STATUS(CODE_INDEX, 3),
        "program p\ndim N in 1..64\ninput a: i64[16]\ninput x: f32[N]\noutput y: f32[16]\n"
        "kernel k \"k\" node 3 (a: i64 in, x: f32 in, y: f32 out disjoint) {\n"
        "  for i in 0..16 par {\n    let j: idx 0..N - 1 = index(cast.idx(a[i]), N)\n    y[i] = x[j]\n  }\n}\n"
        "main { call k(a, x, y) }\n"},
    {"check fails", {5}, CHECK_STATUS(CODE_DIVISION, 2),
        "program p\ndim N in 1..64\ninput a: i32[N]\noutput y: i32[N]\n"
        "kernel k \"k\" node 2 (a: i32 in, y: i32 out disjoint) {\n"
        "  for i in 0..N seq {\n    check a[i] > 2000000000 else division @2\n    y[i] = 100 / a[i]\n  }\n}\nmain { call k(a, y) }\n"},
    {"odd strides of Dims: floordiv, mod, min, max", {7, 5}, 0,
        "program p\ndim N in 1..64\ndim M in 1..64\ninput x: f32[N*M]\noutput y: f32[N*M + 64]\n"
        "kernel k \"k\" node 1 (x: f32 in, y: f32 out disjoint) {\n"
        "  for i in 0..N*M par {\n    y[mod(i, M)*N + floordiv(i, M)] = x[min(i, N*M - 1 - i)]\n  }\n"
        "  for j in 0..64 par {\n    y[N*M + j] = cast.f32(dim(floordiv(j - 40, 8)*100 + mod(j - 40, 8) + floordiv(j - 31, M)*1000 + mod(j "
        "- 31, M)))\n  }\n}\n"
        "main { call k(x, y) }\n"},
    {"temps, constants, locals, step", {6}, 0,
        "program p\ndim N in 1..64\ninput x: f32[N, 8]\nconst w: f32[8] = {1.0, -2.0, 3.5, 0.0, 1e30, -1e-30, 7.0, 8.0}\noutput y: f32[N, "
        "8]\n"
        "temp t: f32[N, 8]\ntemp u: f32[N]\n"
        "kernel a \"a\" node 1 (x: f32 in, w: f32 in, t: f32 out disjoint) {\n  for i in 0..N par {\n    for j in 0..8 par {\n      t[8*i "
        "+ j] = x[8*i + j]*w[j]\n    }\n  }\n}\n"
        "kernel b \"b\" node 2 (t: f32 in, u: f32 out disjoint) {\n  for i in 0..N par {\n    local s: f32[4]\n"
        "    for j in 0..8 step 2 seq {\n      s[floordiv(j, 2)] = t[8*i + j] - t[8*i + j + 1]\n    }\n    u[i] = (s[0] + s[1]) + (s[2] + "
        "s[3])\n  }\n}\n"
        "kernel c \"c\" node 3 (t: f32 in, u: f32 in, y: f32 out) {\n  for i in 0..N par {\n    for j in 0..8 par {\n      y[8*i + j] = "
        "t[8*i + j] / u[i]\n    }\n  }\n}\n"
        "main {\n  call a(x, w, t)\n  call b(t, u)\n  call c(t, u, y)\n}\n"},
    {"state in place and tied output", {0}, 0,
        "program p\ninput x: f32[8]\nstate h: f32[8] \"h\"\noutput hn: f32[8] \"hn\" tie h\noutput y: f32[8]\n"
        "kernel k \"k\" node 1 (x: f32 in, h: f32 in, y: f32 out disjoint) {\n  for i in 0..8 par {\n    y[i] = x[i] + h[i]\n  }\n}\n"
        "kernel s \"s\" node 2 (y: f32 in, hn: f32 out disjoint) {\n  for i in 0..8 par {\n    hn[i] = y[i]*0.5f32\n  }\n}\n"
        "main {\n  call k(x, h, y)\n  call s(y, hn)\n}\n"},
    {"parallel loop", {23}, 0,
        "program p\ndim N in 1..64\ninput x: f32[N, 64]\noutput y: f32[N]\n"
        "kernel k \"k\" node 1 (x: f32 in, y: f32 out disjoint) {\n  for i in 1..N - 1 par parallel {\n"
        "    reduce j in 0..64 (s: f32 = 0.0f32) {\n      set s = s + x[64*i + j]\n    }\n    y[i] = s\n  }\n}\nmain { call k(x, y) "
        "parallel }\n"},
    {"team with barriers in a loop and a local", {5}, 0,
        "program p\ndim T in 1..64\ninput x: f32[T, 8]\nstate h: f32[8]\noutput y: f32[T, 8]\ntemp g: f32[8]\n"
        "kernel k \"k\" node 1 (x: f32 in, h: f32 inout, y: f32 out, g: f32 inout) {\n  team t of 4 {\n    local keep: f32[2]\n"
        "    for s in 0..T seq {\n"
        "      for i in 0..2 par {\n        keep[i] = x[8*s + 2*t + i] + h[7 - 2*t - i]\n        g[2*t + i] = keep[i]*0.5f32\n      }\n    "
        "  barrier\n"
        "      for j in 0..2 par {\n        h[2*t + j] = g[7 - 2*t - j] + keep[j]\n        y[8*s + 2*t + j] = h[2*t + j]\n      }\n      "
        "barrier\n    }\n  }\n}\n"
        "main { call k(x, h, y, g) }\n"},
    {"size known at run time", {32}, 0,
        "program p\ndim N in 1..64\ndata dim s in 0..N\ninput x: f32[N]\noutput y: i64[s]\ntemp n: i64[1]\n"
        "kernel c \"c\" node 1 (x: f32 in, n: i64 out disjoint) {\n  reduce i in 0..N (k: i64 = 0i64) {\n    set k = k + cast.i64(x[i] > "
        "0.0f32)\n  }\n  n[0] = k\n}\n"
        "kernel f \"f\" node 1 (x: f32 in, y: i64 out disjoint) {\n  var k: idx = 0idx\n  for i in 0..N seq {\n    if x[i] > 0.0f32 {\n"
        "      let at: idx 0..s - 1 = index(k, s)\n      y[at] = cast.i64(dim(i))\n      set k = k + 1idx\n    }\n  }\n}\n"
        "main {\n  call c(x, n)\n  size s = cast.idx(n[0])\n  call f(x, y)\n}\n"},
    {"output larger than its capacity", {80}, CHECK_STATUS(CODE_CAPACITY, 0),
        "program p\ndim N in 1..99\ndata dim s in 0..N\ninput x: f32[N]\noutput y: f32[s]\n"
        "kernel f \"f\" node 1 (x: f32 in, y: f32 out disjoint) {\n  for i in 0..s par {\n    y[i] = x[i]\n  }\n}\n"
        "main {\n  size s = dim(N)\n  call f(x, y)\n}\n"},
    {"memory from the allocator, control flow in main", {10}, 0,
        "program p\ndim N in 1..64\ninput x: f32[N]\noutput y: f32[N]\ntemp t: f32[N] unbounded\n"
        "kernel a \"a\" node 1 (x: f32 in, t: f32 out disjoint) {\n  for i in 0..N par {\n    t[i] = x[i] + 1.0f32\n  }\n}\n"
        "kernel b \"b\" node 2 (t: f32 in, y: f32 inout disjoint) {\n  for i in 0..N par {\n    y[i] = y[i]*0.5f32 + "
        "t[i]*cast.f32(dim(r))\n  }\n}\n"
        "main {\n  alloc t 4*N\n  call a(x, t)\n  for r in 0..3 seq {\n    if x[r] > 0.0f32 {\n      call b(t, y)\n    }\n  }\n  free "
        "t\n}\n"},
};
enum { TEXTS = sizeof texts / sizeof *texts };

#endif
