// The meaning of scalar functions, and straight-line code over strips for whole expressions.
//
// strip_op looks up a loop by (operation, type): strip_loops.h compiled for the base machine and, on x86, for AVX2 with FMA, chosen once.
// Both give the same bits: nothing is contracted, and fma is the true one (libm's where the machine has none). What has no loop, i.e. MATH
// functions and everything on non-native types, runs the code of its expression after expr_lower_math, made once and kept.
#include "strip.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#pragma clang diagnostic ignored "-Wpass-failed" // integer divisions do not vectorise
#define STRIP_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#pragma GCC optimize("tree-vectorize", "vect-cost-model=dynamic", "no-trapping-math", "no-math-errno")
#define STRIP_INDEPENDENT _Pragma("GCC ivdep")
#endif

typedef void StripLoop(int n, void *dst, const void *a, const void *b, const void *c);

// Rows of types for strip_loops.h; idx shares the loops of i64.
#define STRIP_INTS(F)                                                                                                                      \
    F(i8, int8_t) F(i16, int16_t) F(i32, int32_t) F(i64, int64_t) F(u8, uint8_t) F(u16, uint16_t) F(u32, uint32_t) F(u64, uint64_t)
#define STRIP_NATIVE(F) F(f32, float) F(f64, double) STRIP_INTS(F)

#define strip_abs_f32 __builtin_fabsf
#define strip_abs_f64 __builtin_fabs
#define strip_fma_f32 __builtin_fmaf
#define strip_fma_f64 __builtin_fma
#define strip_sqrt_f32 __builtin_sqrtf
#define strip_sqrt_f64 __builtin_sqrt
#define strip_floor_f32 __builtin_floorf
#define strip_floor_f64 __builtin_floor
#define strip_ceil_f32 __builtin_ceilf
#define strip_ceil_f64 __builtin_ceil
#define strip_trunc_f32 __builtin_truncf
#define strip_trunc_f64 __builtin_trunc
#define strip_rint_f32 __builtin_rintf
#define strip_rint_f64 __builtin_rint
#define strip_fmod_f32 fmodf
#define strip_fmod_f64 fmod

#define STRIP_NAME(f) base_##f
#define STRIP_TARGET
#include "strip_loops.h"
#undef STRIP_NAME
#undef STRIP_TARGET

#if defined(__x86_64__)
#define STRIP_NAME(f) avx2_##f
#define STRIP_TARGET __attribute__((target("avx2,fma")))
#include "strip_loops.h"
#endif

// ---- one operation ----

static bool has_avx2(void) {
#if defined(__x86_64__)
    static int known; // 0: not asked yet
    if (!known) known = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 1 : -1;
    return known > 0;
#else
    return false;
#endif
}

#if defined(__x86_64__)
#define AT_LEVEL(entry) (has_avx2() ? avx2_##entry : base_##entry)
#else
#define AT_LEVEL(entry) base_##entry
#endif

static int log2_bytes(DType t) {
    int bytes = dtype_bytes(t);
    return bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : bytes == 8 ? 3 : -1;
}

static StripLoop *find_cast(XOp op, DType from, DType to) {
    if (op == X_bits || from == to) return log2_bytes(from) < 0 ? NULL : AT_LEVEL(copy[log2_bytes(from)]);
    return AT_LEVEL(casts[from == DT_idx ? DT_i64 : from][to == DT_idx ? DT_i64 : to]);
}

// NULL when the operation is not basic on this type.
static StripLoop *find_loop(XOp op, DType type, DType to) {
    if (xop_info(op)->cls == XC_CAST) return find_cast(op, type, to);
    if (op == X_select) return log2_bytes(type) < 0 ? NULL : AT_LEVEL(select[log2_bytes(type)]);
    return AT_LEVEL(table[op][type == DT_idx ? DT_i64 : type]);
}

enum { CALL_STRIP = 256 };

// The code of an operation without a loop: its operands are arguments 0, 1, 2.
static StripCode *derived_code(XOp op, DType type, DType to) {
    static Arena *arena;
    static StripCode *functions[X_COUNT][DT_COUNT], *conversions[2][DT_COUNT][DT_COUNT];
    bool cast = xop_info(op)->cls == XC_CAST;
    StripCode **code = cast ? &conversions[op == X_casts][type][to] : &functions[op][type];
    if (*code) return *code;
    if (!arena) arena = arena_new();
    Expr e = {.op = op, .n = xop_info(op)->arity};
    for (int i = 0; i < e.n; i++) e.a[i] = x_arg(arena, i, type);
    e.type = vtype(cast ? to : xop_info(op)->cls == XC_CMP ? DT_bool : type, 1);
    const Expr *root = x_node(arena, e);
    *code = strip_prepare(arena, &root, 1, CALL_STRIP);
    return *code;
}

typedef struct {
    const char *operand[3];
} CallOperands;

static void load_operand(void *ctx, const Expr *e, int n, void *dst) {
    const CallOperands *call = ctx;
    memcpy(dst, call->operand[e->k], (size_t)(n * dtype_bytes(e->type.type)));
}

static void run_derived(StripCode *code, DType type, DType result, int n, char *dst, CallOperands call) {
    int in = dtype_bytes(type), out = dtype_bytes(result);
    for (int i = 0; i < n; i += CALL_STRIP) {
        int m = n - i < CALL_STRIP ? n - i : CALL_STRIP;
        strip_run(code, m, load_operand, &call);
        memcpy(dst + (size_t)i * (size_t)out, strip_result(code, 0), (size_t)(m * out));
        for (int j = 0; j < 3; j++)
            if (call.operand[j]) call.operand[j] += m * in;
    }
}

void strip_op(XOp op, DType type, DType to, int n, void *dst, const void *a, const void *b, const void *c) {
    StripLoop *loop = find_loop(op, type, to);
    if (loop) {
        loop(n, dst, a, b, c);
        return;
    }
    XClass cls = xop_info(op)->cls;
    int arity = xop_info(op)->arity;
    assert(cls >= XC_ARITH && op != X_select);
    DType result = cls == XC_CAST ? to : cls == XC_CMP ? DT_bool : type;
    run_derived(derived_code(op, type, to), type, result, n, dst, (CallOperands){{a, arity > 1 ? b : NULL, arity > 2 ? c : NULL}});
}

// ---- expressions ----

typedef struct {
    StripLoop *loop; // NULL: a leaf
    const Expr *leaf;
    void *dst;
    const void *in[3];
} StripStep;

struct StripCode {
    int max_n, nsteps, nroots;
    StripStep *steps;
    const void **results;
    const void *const *operands; // of the leaf that is being filled
};

// A strip of memory for one value; free ones are reused by the next value of the same width.
typedef struct Strip {
    void *data;
    struct Strip *next;
} Strip;

typedef struct {
    const Expr *e;
    Strip *strip; // where its value lies
    int uses;     // still to come
} StripValue;

typedef struct {
    Arena *arena;
    StripCode *code;
    VEC(StripValue) values; // in order of evaluation
    int *slots;             // hash table: node -> position in values, -1: free
    int nslots;
    Strip *free[5]; // by log2 of the element's bytes
} Planner;

static void collect(void *ctx, const Expr *e) {
    Planner *p = ctx;
    vec_push(p->arena, &p->values, ((StripValue){e, NULL, 0}));
}

static int slot_of(const Planner *p, const Expr *e) {
    int i = (int)(((uint64_t)(uintptr_t)e * 0x9e3779b97f4a7c15ull) >> 40) & (p->nslots - 1);
    while (p->slots[i] >= 0 && p->values.data[p->slots[i]].e != e) i = (i + 1) & (p->nslots - 1);
    return i;
}

static StripValue *value_of(const Planner *p, const Expr *e) {
    return &p->values.data[p->slots[slot_of(p, e)]];
}

static void index_values(Planner *p) {
    for (p->nslots = 64; p->nslots < 2 * p->values.n;) p->nslots *= 2;
    p->slots = ARENA_ARRAY(p->arena, int, p->nslots);
    for (int i = 0; i < p->nslots; i++) p->slots[i] = -1;
    for (int i = 0; i < p->values.n; i++) p->slots[slot_of(p, p->values.data[i].e)] = i;
    for (int i = 0; i < p->values.n; i++) {
        const Expr *e = p->values.data[i].e;
        for (int j = 0; j < e->n; j++)
            if (e->a[j]) value_of(p, e->a[j])->uses++;
    }
}

static int width_class(DType t) {
    return log2_bytes(t) < 0 ? 4 : log2_bytes(t);
}

static Strip *take_strip(Planner *p, DType t) {
    Strip **list = &p->free[width_class(t)], *s = *list;
    if (s) {
        *list = s->next;
        return s;
    }
    s = ARENA_NEW(p->arena, Strip);
    char *data = arena_alloc(p->arena, ((size_t)p->code->max_n << width_class(t)) + 64);
    s->data = data + (-(uintptr_t)data & 63);
    return s;
}

static Strip *constant_strip(Planner *p, const Expr *e) {
    for (int i = 0; i < p->values.n; i++) {
        const StripValue *v = &p->values.data[i];
        if (v->e->op == X_const && v->strip && scalar_same(v->e->k_scalar, e->k_scalar)) return v->strip;
    }
    Strip *s = ARENA_NEW(p->arena, Strip);
    int bytes = dtype_bytes(e->type.type);
    s->data = arena_alloc(p->arena, (size_t)(p->code->max_n * bytes));
    for (int i = 0; i < p->code->max_n; i++) scalar_write(e->k_scalar, (char *)s->data + (size_t)(i * bytes));
    return s;
}

static void release_operands(Planner *p, const Expr *e) {
    for (int j = 0; j < e->n; j++) {
        StripValue *v = e->a[j] ? value_of(p, e->a[j]) : NULL;
        if (!v || --v->uses > 0 || v->e->op == X_const) continue;
        Strip **list = &p->free[width_class(v->e->type.type)];
        v->strip->next = *list;
        *list = v->strip;
    }
}

static void plan_value(Planner *p, StripValue *v) {
    const Expr *e = v->e;
    assert(e->type.lanes == 1);
    if (e->op == X_const) {
        v->strip = constant_strip(p, e);
        return;
    }
    StripStep *step = &p->code->steps[p->code->nsteps++];
    for (int j = 0; j < e->n; j++)
        if (e->a[j]) step->in[j] = value_of(p, e->a[j])->strip->data;
    if (xop_info(e->op)->cls >= XC_ARITH) {
        step->loop = find_loop(e->op, e->a[e->op == X_select ? 1 : 0]->type.type, e->type.type);
        assert(step->loop);
    } else {
        step->leaf = e;
    }
    v->strip = take_strip(p, e->type.type);
    step->dst = v->strip->data;
    release_operands(p, e);
}

StripCode *strip_prepare(Arena *a, const Expr *const *roots, int nroots, int max_n) {
    StripCode *code = ARENA_NEW(a, StripCode);
    const Expr **lowered = ARENA_ARRAY(a, const Expr *, nroots);
    memcpy(lowered, roots, sizeof *roots * (size_t)nroots);
    expr_lower_math_all(a, lowered, nroots);
    code->max_n = max_n;
    code->nroots = nroots;
    Planner p = {.arena = a, .code = code};
    expr_visit_all(lowered, nroots, collect, &p);
    index_values(&p);
    for (int i = 0; i < nroots; i++) value_of(&p, lowered[i])->uses++;
    code->steps = ARENA_ARRAY(a, StripStep, p.values.n);
    for (int i = 0; i < p.values.n; i++) plan_value(&p, &p.values.data[i]);
    code->results = ARENA_ARRAY(a, const void *, nroots);
    for (int i = 0; i < nroots; i++) code->results[i] = value_of(&p, lowered[i])->strip->data;
    return code;
}

void strip_run(StripCode *code, int n, void (*leaf)(void *ctx, const Expr *e, int n, void *dst), void *ctx) {
    assert(n <= code->max_n);
    for (int i = 0; i < code->nsteps; i++) {
        StripStep *s = &code->steps[i];
        if (s->loop) {
            s->loop(n, s->dst, s->in[0], s->in[1], s->in[2]);
        } else {
            code->operands = s->in;
            leaf(ctx, s->leaf, n, s->dst);
        }
    }
}

const void *strip_result(const StripCode *code, int i) {
    return code->results[i];
}
const void *const *strip_operands(const StripCode *code) {
    return code->operands;
}
