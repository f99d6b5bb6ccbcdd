// Scalar functions that the target has no instruction for, made of those it has: LLVM would call libm.
//
// Straight-line code where lanes stay lanes (rounding, fma, casts); internal functions with loops for scalars (fmod, sqrt), called lane by
// lane. What each machine has is told by llvm_has; bits are those of the instructions.
#include "llvm_build.h"
#include <string.h>

bool llvm_has(const Emit *e, Ability what, DType t) {
    const Target *m = e->target;
    const char *triple = m->triple;
    if (!*triple || strncmp(triple, "x86_64", 6) == 0) return what == HAS_FLOAT || target_has(m, what == HAS_FMA ? "fma" : "sse4.1");
    if (strncmp(triple, "aarch64", 7) == 0) return true;
    if (strncmp(triple, "wasm", 4) == 0) return what != HAS_FMA;
    bool arm = strncmp(triple, "thumb", 5) == 0, wide = strcmp(m->cpu, "cortex-m7") == 0 || strcmp(m->cpu, "cortex-m55") == 0;
    bool unit = arm ? strstr(triple, "eabihf") && (t == DT_f32 || wide) : strstr(m->llvm_features, t == DT_f32 ? "+f" : "+d") != NULL;
    return unit && what != HAS_ROUND;
}

// ---- fma of f32 ----
// f32: the product is exact in f64; its sum with c, rounded to odd, has enough digits that rounding again to f32 is rounding once.
static LLVMValueRef fma_through_f64(Emit *e, VType t, LLVMValueRef *a) {
    VType wide = vtype(DT_f64, t.lanes), bits = vtype(DT_i64, t.lanes);
    LLVMTypeRef f64 = llvm_value_type(e, wide), i64 = llvm_value_type(e, bits);
    LLVMValueRef v[3];
    for (int i = 0; i < 3; i++) v[i] = LLVMBuildFPExt(e->b, a[i], f64, "");
    LLVMValueRef p = bin(e, LLVMFMul, v[0], v[1]), c = v[2], sum = bin(e, LLVMFAdd, p, c);
    LLVMValueRef part = bin(e, LLVMFSub, sum, p); // the error of the sum, exact (Knuth)
    LLVMValueRef err = bin(e, LLVMFAdd, bin(e, LLVMFSub, p, bin(e, LLVMFSub, sum, part)), bin(e, LLVMFSub, c, part));
    LLVMValueRef u = LLVMBuildBitCast(e->b, sum, i64, ""), zero = real_like(e, wide, 0.0);
    LLVMValueRef even = icmp(e, LLVMIntEQ, bin(e, LLVMAnd, u, int_like(e, bits, 1)), int_like(e, bits, 0));
    LLVMValueRef inexact = bin(e, LLVMAnd, even, fcmp(e, LLVMRealONE, err, zero));
    LLVMValueRef outward = bin(e, LLVMXor, fcmp(e, LLVMRealOGT, err, zero), fcmp(e, LLVMRealOLT, sum, zero));
    LLVMValueRef odd = bin(e, LLVMAdd, u, pick(e, outward, int_like(e, bits, 1), int_like(e, bits, -1)));
    LLVMValueRef r = LLVMBuildBitCast(e->b, pick(e, inexact, odd, u), f64, "");
    return LLVMBuildFPTrunc(e->b, r, llvm_value_type(e, t), "");
}

// ---- rounding ----
static LLVMValueRef with_sign(Emit *e, VType t, LLVMValueRef magnitude, LLVMValueRef sign) {
    LLVMTypeRef type = llvm_value_type(e, t);
    LLVMValueRef v[2] = {magnitude, sign};
    return llvm_intrinsic(e, "llvm.copysign", 1, &type, 2, v);
}

// |x| + 2^23 has no fraction bits left for f32.
static LLVMValueRef rint_by_addition(Emit *e, VType t, LLVMValueRef x) {
    LLVMValueRef big = real_like(e, t, t.type == DT_f32 ? 8388608.0 : 4503599627370496.0);
    LLVMValueRef mag = fold1(e, "llvm.fabs", t, x);
    LLVMValueRef r = bin(e, LLVMFSub, bin(e, LLVMFAdd, mag, big), big);
    return pick(e, fcmp(e, LLVMRealOLT, mag, big), with_sign(e, t, r, x), x);
}

// rint, moved by `step` where it lies on the wrong side of x.
static LLVMValueRef directed(Emit *e, VType t, LLVMValueRef x, LLVMRealPredicate wrong, double step) {
    LLVMValueRef r = rint_by_addition(e, t, x);
    LLVMValueRef moved = bin(e, LLVMFAdd, r, real_like(e, t, step));
    return with_sign(e, t, pick(e, fcmp(e, wrong, r, x), moved, r), x);
}

LLVMValueRef llvm_soft_round(Emit *e, XOp op, VType t, LLVMValueRef x) {
    if (op == X_rint) return rint_by_addition(e, t, x);
    if (op == X_floor) return directed(e, t, x, LLVMRealOGT, -1.0);
    if (op == X_ceil) return directed(e, t, x, LLVMRealOLT, 1.0);
    return with_sign(e, t, directed(e, t, fold1(e, "llvm.fabs", t, x), LLVMRealOGT, -1.0), x);
}

// ---- casts ----
// The ends of the range are exact in either float type; what converts is always in between.
LLVMValueRef llvm_soft_to_int(Emit *e, VType from, DType to, LLVMValueRef v) {
    VType t = vtype(to, from.lanes);
    bool is_signed = arith_signed(to);
    int bits = to == DT_idx ? int_width(e, to) : dtype_info(to)->bits, digits = bits - is_signed;
    double above = (double)(UINT64_C(1) << (digits - 1)) * 2;
    int64_t largest = (int64_t)((UINT64_C(1) << (digits - 1)) * 2 - 1);
    LLVMValueRef low = fcmp(e, LLVMRealOGT, v, real_like(e, from, is_signed ? -above : 0.0)),
                 high = fcmp(e, LLVMRealOGE, v, real_like(e, from, above));
    LLVMValueRef inside = bin(e, LLVMAnd, low, LLVMBuildNot(e->b, high, "")), x = pick(e, inside, v, real_like(e, from, 0.0));
    LLVMTypeRef type = llvm_value_type(e, t);
    LLVMValueRef r = is_signed ? LLVMBuildFPToSI(e->b, x, type, "") : LLVMBuildFPToUI(e->b, x, type, "");
    LLVMValueRef number = fcmp(e, LLVMRealORD, v, v), least = int_like(e, t, is_signed ? -largest - 1 : 0);
    LLVMValueRef outside = pick(e, high, int_like(e, t, largest), pick(e, number, least, int_like(e, t, 0)));
    return pick(e, inside, r, outside);
}

// ---- functions with loops ----
typedef struct {
    Emit *e;
    VType t;
    LLVMValueRef fn;
} Soft;

static LLVMBasicBlockRef soft_block(Soft *f, const char *name) {
    return LLVMAppendBasicBlockInContext(f->e->ctx, f->fn, name);
}

// The module's function `name` of n scalars of type t; body prints it at first need.
static LLVMValueRef soft_function(Emit *e, const char *op, DType t, int n, void (*body)(Soft *f)) {
    const char *name = arena_printf(e->arena, "%s.%s.%s", e->layout->prefix, op, dtype_name(t));
    LLVMValueRef fn = LLVMGetNamedFunction(e->mod, name);
    if (fn) return fn;
    LLVMBasicBlockRef back = LLVMGetInsertBlock(e->b);
    LLVMTypeRef type = llvm_value_type(e, vtype(t, 1)), types[3] = {type, type, type};
    fn = llvm_function(e, name, LLVMFunctionType(type, types, (unsigned)n, 0), FN_KERNEL);
    body(&(Soft){e, vtype(t, 1), fn});
    llvm_at(e, back);
    return fn;
}

static LLVMValueRef call_lanes(Emit *e, LLVMValueRef fn, VType t, int n, LLVMValueRef *a) {
    LLVMTypeRef type = LLVMGlobalGetValueType(fn);
    if (t.lanes == 1) return LLVMBuildCall2(e->b, type, fn, a, (unsigned)n, "");
    LLVMValueRef r = LLVMGetPoison(llvm_value_type(e, t)), v[3];
    for (int i = 0; i < t.lanes; i++) {
        LLVMValueRef lane = llvm_int(e->i32, i);
        for (int k = 0; k < n; k++) v[k] = LLVMBuildExtractElement(e->b, a[k], lane, "");
        r = LLVMBuildInsertElement(e->b, r, LLVMBuildCall2(e->b, type, fn, v, (unsigned)n, ""), lane, "");
    }
    return r;
}

// Returns v where cond holds, goes on elsewhere.
static void return_if(Soft *f, LLVMValueRef cond, LLVMValueRef v) {
    LLVMBasicBlockRef yes = soft_block(f, "yes"), no = soft_block(f, "no");
    LLVMBuildCondBr(f->e->b, cond, yes, no);
    llvm_at(f->e, yes);
    LLVMBuildRet(f->e->b, v);
    llvm_at(f->e, no);
}

// ---- fma of f64 ----
// In integers, as runtime/soft.h does it: mantissas with their leading bits near 125 of 128, what alignment shifts out kept as a last bit.
typedef struct {
    LLVMValueRef mantissa, exponent, infinite; // i64 with bit 52 set, i64, i1: infinity or NaN
} Parts;

static LLVMValueRef leading_zeros(Emit *e, LLVMValueRef x) {
    LLVMTypeRef type = LLVMTypeOf(x);
    LLVMValueRef v[2] = {x, LLVMConstInt(LLVMInt1TypeInContext(e->ctx), 0, 0)};
    return llvm_intrinsic(e, "llvm.ctlz", 1, &type, 2, v);
}

static Parts parts_of(Emit *e, LLVMValueRef bits) {
    VType t = vtype(DT_i64, 1);
    LLVMValueRef biased = bin(e, LLVMAnd, bin(e, LLVMLShr, bits, int_like(e, t, 52)), int_like(e, t, 2047));
    LLVMValueRef subnormal = icmp(e, LLVMIntEQ, biased, int_like(e, t, 0)),
                 m = bin(e, LLVMAnd, bits, int_like(e, t, (INT64_C(1) << 52) - 1));
    m = bin(e, LLVMOr, m, pick(e, subnormal, int_like(e, t, 0), int_like(e, t, INT64_C(1) << 52)));
    LLVMValueRef up = bin(e, LLVMAnd, bin(e, LLVMSub, leading_zeros(e, m), int_like(e, t, 11)), int_like(e, t, 63));
    LLVMValueRef exponent = bin(e, LLVMSub, pick(e, subnormal, int_like(e, t, 1), biased), up);
    return (Parts){bin(e, LLVMShl, m, up), exponent, icmp(e, LLVMIntEQ, biased, int_like(e, t, 2047))};
}

// x >> n, n >= 0 an i64; x is not 0, and bits shifted out are kept as a last sticky bit.
static LLVMValueRef shift_sticky(Emit *e, LLVMValueRef x, LLVMValueRef n) {
    LLVMTypeRef wide = LLVMTypeOf(x);
    VType t = vtype(DT_i64, 1);
    LLVMValueRef all = icmp(e, LLVMIntSGT, n, int_like(e, t, 127));
    LLVMValueRef by = LLVMBuildZExt(e->b, pick(e, all, int_like(e, t, 0), n), wide, ""), r = bin(e, LLVMLShr, x, by);
    LLVMValueRef lost = LLVMBuildZExt(e->b, icmp(e, LLVMIntNE, bin(e, LLVMShl, r, by), x), wide, "");
    return pick(e, all, LLVMConstInt(wide, 1, 0), bin(e, LLVMOr, r, lost));
}

static LLVMValueRef not_negative(Emit *e, LLVMValueRef x) {
    LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(x));
    return pick(e, icmp(e, LLVMIntSGT, x, zero), x, zero);
}

// s rounded to even, with the sign bit `sign`; s is not 0, and `exponent` is what the result's biased exponent were if its leading bit is
// 126.
static LLVMValueRef round_wide(Emit *e, LLVMValueRef sign, LLVMValueRef s, LLVMValueRef exponent) {
    VType t = vtype(DT_i64, 1);
    LLVMTypeRef wide = LLVMTypeOf(s), i64 = llvm_value_type(e, t);
    LLVMValueRef up = bin(e, LLVMSub, leading_zeros(e, s), LLVMConstInt(wide, 1, 0));
    s = bin(e, LLVMShl, s, up);
    exponent = bin(e, LLVMSub, exponent, LLVMBuildTrunc(e->b, up, i64, ""));
    LLVMValueRef over = icmp(e, LLVMIntSGE, exponent, int_like(e, t, 2047)), one = int_like(e, t, 1);
    s = shift_sticky(e, s, not_negative(e, bin(e, LLVMSub, one, exponent)));
    exponent = not_negative(e, bin(e, LLVMSub, exponent, one));
    LLVMValueRef q = LLVMBuildTrunc(e->b, bin(e, LLVMLShr, s, LLVMConstInt(wide, 74, 0)), i64, "");
    LLVMValueRef rest = bin(e, LLVMShl, s, LLVMConstInt(wide, 54, 0)),
                 half = bin(e, LLVMShl, LLVMConstInt(wide, 1, 0), LLVMConstInt(wide, 127, 0));
    LLVMValueRef odd = icmp(e, LLVMIntNE, bin(e, LLVMAnd, q, one), int_like(e, t, 0));
    LLVMValueRef away = bin(e, LLVMOr, icmp(e, LLVMIntUGT, rest, half), bin(e, LLVMAnd, icmp(e, LLVMIntEQ, rest, half), odd));
    q = bin(e, LLVMAdd, bin(e, LLVMAdd, bin(e, LLVMShl, exponent, int_like(e, t, 52)), q), LLVMBuildZExt(e->b, away, i64, ""));
    q = pick(e, over, int_like(e, t, INT64_C(2047) << 52), q);
    return LLVMBuildBitCast(e->b, bin(e, LLVMOr, sign, q), llvm_value_type(e, vtype(DT_f64, 1)), "");
}

static void fma_body(Soft *f) {
    Emit *e = f->e;
    VType t = vtype(DT_i64, 1);
    LLVMTypeRef i64 = llvm_value_type(e, t), wide = LLVMIntTypeInContext(e->ctx, 128);
    LLVMValueRef v[3], u[3], zero = real_like(e, f->t, 0.0);
    Parts p[3];
    llvm_at(e, soft_block(f, "entry"));
    for (int i = 0; i < 3; i++) {
        v[i] = LLVMGetParam(f->fn, (unsigned)i);
        u[i] = LLVMBuildBitCast(e->b, v[i], i64, "");
        p[i] = parts_of(e, u[i]);
    }
    LLVMValueRef product = bin(e, LLVMFMul, v[0], v[1]), special = bin(e, LLVMOr, p[0].infinite, p[1].infinite);
    return_if(f, bin(e, LLVMAnd, p[2].infinite, LLVMBuildNot(e->b, special, "")), v[2]);
    special = bin(e, LLVMOr, special, bin(e, LLVMOr, fcmp(e, LLVMRealOEQ, v[0], zero), fcmp(e, LLVMRealOEQ, v[1], zero)));
    return_if(f, special, bin(e, LLVMFAdd, product, v[2]));
    return_if(f, fcmp(e, LLVMRealOEQ, v[2], zero), product);
    LLVMValueRef m[3];
    for (int i = 0; i < 3; i++) m[i] = LLVMBuildZExt(e->b, p[i].mantissa, wide, "");
    LLVMValueRef x = bin(e, LLVMShl, bin(e, LLVMMul, m[0], m[1]), LLVMConstInt(wide, 20, 0)),
                 y = bin(e, LLVMShl, m[2], LLVMConstInt(wide, 73, 0));
    // the biased exponents of x and y with a leading bit of 126
    LLVMValueRef ex = bin(e, LLVMAdd, bin(e, LLVMAdd, p[0].exponent, p[1].exponent), int_like(e, t, 2 - 1023));
    LLVMValueRef ey = bin(e, LLVMAdd, p[2].exponent, int_like(e, t, 1)), apart = bin(e, LLVMSub, ex, ey);
    LLVMValueRef first = icmp(e, LLVMIntSGE, apart, int_like(e, t, 0));
    x = shift_sticky(e, x, not_negative(e, LLVMBuildNeg(e->b, apart, "")));
    y = shift_sticky(e, y, not_negative(e, apart));
    LLVMValueRef top = int_like(e, t, INT64_MIN), sx = bin(e, LLVMAnd, bin(e, LLVMXor, u[0], u[1]), top), sy = bin(e, LLVMAnd, u[2], top);
    LLVMValueRef same = icmp(e, LLVMIntEQ, sx, sy), larger = icmp(e, LLVMIntUGT, x, y);
    return_if(f, bin(e, LLVMAnd, LLVMBuildNot(e->b, same, ""), icmp(e, LLVMIntEQ, x, y)), zero);
    LLVMValueRef gap = pick(e, larger, bin(e, LLVMSub, x, y), bin(e, LLVMSub, y, x));
    LLVMBuildRet(e->b, round_wide(e, pick(e, larger, sx, sy), pick(e, same, bin(e, LLVMAdd, x, y), gap), pick(e, first, ex, ey)));
}

LLVMValueRef llvm_soft_fma(Emit *e, VType t, LLVMValueRef *a) {
    if (t.type == DT_f32) return fma_through_f64(e, t, a);
    return call_lanes(e, soft_function(e, "fma", t.type, 3, fma_body), t, 3, a);
}

// ---- sqrt ----
// The largest q of `digits` bits with q * q <= v, bit by bit; type is wide enough for q * q.
static LLVMValueRef integer_root(Soft *f, LLVMValueRef v, int digits) {
    Emit *e = f->e;
    LLVMTypeRef type = LLVMTypeOf(v);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b), step = soft_block(f, "step"), done = soft_block(f, "done");
    LLVMBuildBr(e->b, step);
    llvm_at(e, step);
    LLVMValueRef q = LLVMBuildPhi(e->b, type, "q"), bit = LLVMBuildPhi(e->b, type, "bit"), zero = LLVMConstNull(type);
    LLVMValueRef more = bin(e, LLVMOr, q, bit), next = pick(e, icmp(e, LLVMIntULE, bin(e, LLVMMul, more, more), v), more, q);
    LLVMValueRef half = bin(e, LLVMLShr, bit, LLVMConstInt(type, 1, 0)), top = LLVMConstInt(type, UINT64_C(1) << (digits - 1), 0);
    LLVMBuildCondBr(e->b, icmp(e, LLVMIntNE, half, zero), step, done);
    LLVMAddIncoming(q, (LLVMValueRef[]){zero, next}, (LLVMBasicBlockRef[]){from, step}, 2);
    LLVMAddIncoming(bit, (LLVMValueRef[]){top, half}, (LLVMBasicBlockRef[]){from, step}, 2);
    llvm_at(e, done);
    return next;
}

// x = m * 2^(e - p) with e even: the root of m * 2^(p + 2) has one digit more than the result, which decides the rounding, for a root is
// never half way between two floats. Subnormals are scaled up by an even power of two first.
static void sqrt_body(Soft *f) {
    Emit *e = f->e;
    VType t = f->t, ut = vtype(t.type == DT_f32 ? DT_u32 : DT_u64, 1);
    int p = t.type == DT_f32 ? 23 : 52, bias = t.type == DT_f32 ? 127 : 1023;
    double least = t.type == DT_f32 ? 0x1p-126 : 0x1p-1022, up = t.type == DT_f32 ? 0x1p24 : 0x1p54,
           down = t.type == DT_f32 ? 0x1p-12 : 0x1p-27;
    LLVMTypeRef u = llvm_value_type(e, ut), wide = LLVMIntTypeInContext(e->ctx, t.type == DT_f32 ? 64 : 128);
    LLVMValueRef a = LLVMGetParam(f->fn, 0), zero = real_like(e, t, 0.0), none;
    llvm_at(e, soft_block(f, "entry"));
    none = bin(e, LLVMFSub, a, a);
    return_if(f, fcmp(e, LLVMRealOEQ, a, zero), a);
    return_if(f, LLVMBuildNot(e->b, fcmp(e, LLVMRealOGT, a, zero), ""), bin(e, LLVMFDiv, none, none));
    return_if(f, fcmp(e, LLVMRealUNE, none, zero), a); // infinity
    LLVMValueRef small = fcmp(e, LLVMRealOLT, a, real_like(e, t, least)), one = int_like(e, ut, 1),
                 frac = int_like(e, ut, (INT64_C(1) << p) - 1);
    LLVMValueRef bits = LLVMBuildBitCast(e->b, pick(e, small, bin(e, LLVMFMul, a, real_like(e, t, up)), a), u, "");
    LLVMValueRef exponent = bin(e, LLVMSub, bin(e, LLVMLShr, bits, int_like(e, ut, p)), int_like(e, ut, bias));
    LLVMValueRef odd = bin(e, LLVMAnd, exponent, one), m = bin(e, LLVMOr, bin(e, LLVMAnd, bits, frac), int_like(e, ut, INT64_C(1) << p));
    LLVMValueRef v = bin(e, LLVMShl, LLVMBuildZExt(e->b, bin(e, LLVMShl, m, odd), wide, ""), LLVMConstInt(wide, (unsigned)p + 2, 0));
    LLVMValueRef q = LLVMBuildTrunc(e->b, integer_root(f, v, p + 2), u, "");
    LLVMValueRef r = bin(e, LLVMSub, bin(e, LLVMLShr, bin(e, LLVMAdd, q, one), one), int_like(e, ut, INT64_C(1) << p));
    LLVMValueRef half = bin(e, LLVMAShr, bin(e, LLVMSub, exponent, odd), one);
    LLVMValueRef top = bin(e, LLVMShl, bin(e, LLVMAdd, half, int_like(e, ut, bias)), int_like(e, ut, p));
    LLVMValueRef root = LLVMBuildBitCast(e->b, bin(e, LLVMAdd, top, r), llvm_value_type(e, t), "");
    LLVMBuildRet(e->b, pick(e, small, bin(e, LLVMFMul, root, real_like(e, t, down)), root));
}

LLVMValueRef llvm_soft_sqrt(Emit *e, VType t, LLVMValueRef x) {
    return call_lanes(e, soft_function(e, "sqrt", t.type, 1, sqrt_body), t, 1, &x);
}

// ---- fmod ----
// The divisor doubled while the dividend holds two of it.
static LLVMValueRef fmod_double(Soft *f, LLVMValueRef x, LLVMValueRef y, LLVMBasicBlockRef from) {
    Emit *e = f->e;
    LLVMBasicBlockRef head = soft_block(f, "double"), more = soft_block(f, "more"), done = soft_block(f, "doubled");
    LLVMBuildBr(e->b, head);
    llvm_at(e, head);
    LLVMValueRef t = LLVMBuildPhi(e->b, LLVMTypeOf(y), "t");
    LLVMBuildCondBr(e->b, fcmp(e, LLVMRealOLE, t, bin(e, LLVMFSub, x, t)), more, done);
    llvm_at(e, more);
    LLVMValueRef twice = bin(e, LLVMFAdd, t, t);
    LLVMBuildBr(e->b, head);
    LLVMAddIncoming(t, (LLVMValueRef[]){y, twice}, (LLVMBasicBlockRef[]){from, more}, 2);
    llvm_at(e, done);
    return t;
}

// What is left of x after taking away t, t/2 … down to y where they fit.
static LLVMValueRef fmod_reduce(Soft *f, LLVMValueRef x, LLVMValueRef y, LLVMValueRef t) {
    Emit *e = f->e;
    LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b);
    LLVMBasicBlockRef head = soft_block(f, "halve"), more = soft_block(f, "take"), done = soft_block(f, "halved");
    LLVMBuildBr(e->b, head);
    llvm_at(e, head);
    LLVMValueRef left = LLVMBuildPhi(e->b, LLVMTypeOf(x), "x"), step = LLVMBuildPhi(e->b, LLVMTypeOf(x), "step");
    LLVMBuildCondBr(e->b, fcmp(e, LLVMRealOGE, step, y), more, done);
    llvm_at(e, more);
    LLVMValueRef next = pick(e, fcmp(e, LLVMRealOGE, left, step), bin(e, LLVMFSub, left, step), left);
    LLVMValueRef half = bin(e, LLVMFMul, step, real_like(e, f->t, 0.5));
    LLVMBuildBr(e->b, head);
    LLVMAddIncoming(left, (LLVMValueRef[]){x, next}, (LLVMBasicBlockRef[]){from, more}, 2);
    LLVMAddIncoming(step, (LLVMValueRef[]){t, half}, (LLVMBasicBlockRef[]){from, more}, 2);
    llvm_at(e, done);
    return left;
}

static LLVMValueRef negative_of(Emit *e, VType t, LLVMValueRef sign, LLVMValueRef v) {
    return pick(e, fcmp(e, LLVMRealOLT, sign, real_like(e, t, 0.0)), LLVMBuildFNeg(e->b, v, ""), v);
}

static void fmod_body(Soft *f) {
    Emit *e = f->e;
    LLVMValueRef a = LLVMGetParam(f->fn, 0), b = LLVMGetParam(f->fn, 1), zero = real_like(e, f->t, 0.0);
    LLVMBasicBlockRef entry = soft_block(f, "entry"), invalid = soft_block(f, "invalid"), valid = soft_block(f, "valid");
    LLVMBasicBlockRef whole = soft_block(f, "whole"), finite = soft_block(f, "finite");
    llvm_at(e, entry);
    LLVMValueRef x = negative_of(e, f->t, a, a), y = negative_of(e, f->t, b, b), dx = bin(e, LLVMFSub, x, x), dy = bin(e, LLVMFSub, y, y);
    LLVMValueRef ok = bin(e, LLVMAnd, fcmp(e, LLVMRealOGT, y, zero), fcmp(e, LLVMRealOEQ, dx, zero));
    LLVMBuildCondBr(e->b, ok, valid, invalid);
    llvm_at(e, invalid);
    LLVMBuildRet(e->b, bin(e, LLVMFDiv, dx, dy));
    llvm_at(e, valid);
    LLVMBuildCondBr(e->b, fcmp(e, LLVMRealOEQ, dy, zero), finite, whole);
    llvm_at(e, whole);
    LLVMBuildRet(e->b, a);
    llvm_at(e, finite);
    LLVMValueRef rest = fmod_reduce(f, x, y, fmod_double(f, x, y, finite));
    LLVMBuildRet(e->b, negative_of(e, f->t, a, rest));
}

LLVMValueRef llvm_soft_fmod(Emit *e, VType t, LLVMValueRef *a) {
    return call_lanes(e, soft_function(e, "fmod", t.type, 2, fmod_body), t, 2, a);
}
