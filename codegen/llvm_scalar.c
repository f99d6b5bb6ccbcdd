// Scalar functions and casts of scalar.def as LLVM values, for any number of lanes.
//
// The llvm column of scalar.def gives the simple ones; the others are built here to the same letter as their C text: no fast-math flag
// anywhere, a multiply-add only where the program says fma, no poison from wide shifts, division by zero or conversions.
#include "llvm_emit.h"
#include <string.h>

typedef struct {
    enum { ROW_CUSTOM, ROW_BIN, ROW_CMP } kind;
    int f, s, u; // opcodes or predicates for floats, signed, unsigned
} LlvmRow;

#define BIN(f, s, u)                                                                                                                       \
    { ROW_BIN, LLVM##f, LLVM##s, LLVM##u }
#define CMP(f, s, u)                                                                                                                       \
    { ROW_CMP, LLVMReal##f, LLVMInt##s, LLVMInt##u }
#define CUSTOM                                                                                                                             \
    { ROW_CUSTOM, 0, 0, 0 }
#define X(name, arity, cls, cf, ci, llvm) [X_##name] = llvm,
static const LlvmRow rows[X_COUNT] = {
#include "../ir/scalar.def"
};
#undef X
#undef BIN
#undef CMP
#undef CUSTOM

static bool arith_float(DType t) {
    return t == DT_f32 || t == DT_f64;
}
static bool arith_signed(DType t) {
    return t == DT_idx || dtype_is_signed(t);
}

static LLVMValueRef bin(Emit *e, LLVMOpcode op, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildBinOp(e->b, op, x, y, "");
}
static LLVMValueRef icmp(Emit *e, LLVMIntPredicate p, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildICmp(e->b, p, x, y, "");
}
static LLVMValueRef fcmp(Emit *e, LLVMRealPredicate p, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildFCmp(e->b, p, x, y, "");
}
static LLVMValueRef pick(Emit *e, LLVMValueRef c, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildSelect(e->b, c, x, y, "");
}

static LLVMValueRef int_like(Emit *e, VType t, int64_t v) {
    return llvm_splat(e, llvm_int(llvm_value_type(e, vtype(t.type, 1)), v), t.lanes);
}
static LLVMValueRef real_like(Emit *e, VType t, double v) {
    return llvm_splat(e, LLVMConstReal(llvm_value_type(e, vtype(t.type, 1)), v), t.lanes);
}
static int int_width(Emit *e, DType t) {
    return (int)LLVMGetIntTypeWidth(llvm_value_type(e, vtype(t, 1)));
}

static LLVMValueRef fold1(Emit *e, const char *name, VType t, LLVMValueRef x) {
    LLVMTypeRef type = llvm_value_type(e, t);
    return llvm_intrinsic(e, name, 1, &type, 1, &x);
}

// ---- integer division ----
// The divisor with what traps replaced by 1: 0 and, for signed types, -1.
static LLVMValueRef safe_divisor(Emit *e, VType t, LLVMValueRef y, LLVMValueRef *zero, LLVMValueRef *minus) {
    *zero = icmp(e, LLVMIntEQ, y, int_like(e, t, 0));
    *minus = arith_signed(t.type) ? icmp(e, LLVMIntEQ, y, int_like(e, t, -1)) : NULL;
    LLVMValueRef bad = *minus ? bin(e, LLVMOr, *zero, *minus) : *zero;
    return pick(e, bad, int_like(e, t, 1), y);
}

// Whether the remainder has to move by the divisor: floor division rounds down, the machine's truncates.
static LLVMValueRef floor_adjusts(Emit *e, VType t, LLVMValueRef rem, LLVMValueRef y) {
    LLVMValueRef zero = int_like(e, t, 0);
    LLVMValueRef differs = icmp(e, LLVMIntSLT, bin(e, LLVMXor, rem, y), zero);
    return bin(e, LLVMAnd, icmp(e, LLVMIntNE, rem, zero), differs);
}

static LLVMValueRef int_quotient(Emit *e, VType t, LLVMValueRef *a, bool floors) {
    LLVMValueRef zero, minus;
    LLVMValueRef y = safe_divisor(e, t, a[1], &zero, &minus);
    LLVMValueRef q = bin(e, minus ? LLVMSDiv : LLVMUDiv, a[0], y);
    if (floors && minus) {
        LLVMValueRef rem = bin(e, LLVMSub, a[0], bin(e, LLVMMul, q, y));
        q = pick(e, floor_adjusts(e, t, rem, y), bin(e, LLVMSub, q, int_like(e, t, 1)), q);
    }
    if (minus) q = pick(e, minus, LLVMBuildNeg(e->b, a[0], ""), q);
    return pick(e, zero, int_like(e, t, 0), q);
}

static LLVMValueRef int_remainder(Emit *e, VType t, LLVMValueRef *a, bool floors) {
    LLVMValueRef zero, minus;
    LLVMValueRef y = safe_divisor(e, t, a[1], &zero, &minus); // dividing by 1 leaves the 0 that both exceptions ask for
    LLVMValueRef r = bin(e, minus ? LLVMSRem : LLVMURem, a[0], y);
    if (!floors || !minus) return r;
    return pick(e, floor_adjusts(e, t, r, y), bin(e, LLVMAdd, r, y), r);
}

static LLVMValueRef do_div(Emit *e, VType t, LLVMValueRef *a) {
    return arith_float(t.type) ? bin(e, LLVMFDiv, a[0], a[1]) : int_quotient(e, t, a, false);
}
static LLVMValueRef do_rem(Emit *e, VType t, LLVMValueRef *a) {
    return int_remainder(e, t, a, false);
}
static LLVMValueRef do_floordiv(Emit *e, VType t, LLVMValueRef *a) {
    return int_quotient(e, t, a, true);
}
static LLVMValueRef do_floormod(Emit *e, VType t, LLVMValueRef *a) {
    return int_remainder(e, t, a, true);
}

// ---- signs, order ----
static LLVMValueRef do_neg(Emit *e, VType t, LLVMValueRef *a) {
    return arith_float(t.type) ? LLVMBuildFNeg(e->b, a[0], "") : LLVMBuildNeg(e->b, a[0], "");
}

static LLVMValueRef do_abs(Emit *e, VType t, LLVMValueRef *a) {
    if (arith_float(t.type)) return fold1(e, "llvm.fabs", t, a[0]);
    if (!arith_signed(t.type)) return a[0];
    return pick(e, icmp(e, LLVMIntSLT, a[0], int_like(e, t, 0)), LLVMBuildNeg(e->b, a[0], ""), a[0]);
}

static LLVMValueRef extremum(Emit *e, VType t, LLVMValueRef *a, LLVMRealPredicate f, LLVMIntPredicate s, LLVMIntPredicate u) {
    if (!arith_float(t.type)) return pick(e, icmp(e, arith_signed(t.type) ? s : u, a[0], a[1]), a[0], a[1]);
    LLVMValueRef first = bin(e, LLVMOr, fcmp(e, f, a[0], a[1]), fcmp(e, LLVMRealUNO, a[0], a[0]));
    return pick(e, first, a[0], a[1]);
}
static LLVMValueRef do_min(Emit *e, VType t, LLVMValueRef *a) {
    return extremum(e, t, a, LLVMRealOLT, LLVMIntSLT, LLVMIntULT);
}
static LLVMValueRef do_max(Emit *e, VType t, LLVMValueRef *a) {
    return extremum(e, t, a, LLVMRealOGT, LLVMIntSGT, LLVMIntUGT);
}

// Without the instruction LLVM would call libm's fmaf.
static bool fma_in_hardware(const Emit *e) {
    const char *triple = e->target->triple, *features = e->target->llvm_features;
    if (!strncmp(triple, "aarch64", 7)) return true;
    if (!strncmp(triple, "riscv", 5)) return strstr(features, "+f") != NULL;
    if (!strncmp(triple, "thumb", 5) || !strncmp(triple, "arm", 3)) return strstr(triple, "eabihf") != NULL;
    return target_has(e->target, "fma");
}

// f32: the product is exact in f64; its sum with c, rounded to odd, has enough digits that rounding again to f32 is rounding once.
static LLVMValueRef fma_by_f64(Emit *e, VType t, LLVMValueRef *a) {
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

static LLVMValueRef do_fma(Emit *e, VType t, LLVMValueRef *a) {
    if (t.type == DT_f32 && !fma_in_hardware(e)) return fma_by_f64(e, t, a);
    if (!arith_float(t.type)) return bin(e, LLVMAdd, bin(e, LLVMMul, a[0], a[1]), a[2]);
    LLVMTypeRef type = llvm_value_type(e, t);
    return llvm_intrinsic(e, "llvm.fma", 1, &type, 3, a);
}

// ---- rounding ----
// Machines without a rounding instruction would call libm; there it is made of additions: |x| + 2^23 has no fraction bits left for f32.
static bool rounds_in_hardware(const Emit *e) {
    const char *triple = e->target->triple;
    if (!*triple || !strncmp(triple, "x86", 3)) return target_has(e->target, "sse4.1") || target_has(e->target, "avx");
    return !strncmp(triple, "aarch64", 7) || !strncmp(triple, "wasm", 4) || target_has(e->target, "mve");
}

static LLVMValueRef with_sign(Emit *e, VType t, LLVMValueRef magnitude, LLVMValueRef sign) {
    LLVMTypeRef type = llvm_value_type(e, t);
    LLVMValueRef v[2] = {magnitude, sign};
    return llvm_intrinsic(e, "llvm.copysign", 1, &type, 2, v);
}

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

static LLVMValueRef do_rint(Emit *e, VType t, LLVMValueRef *a) {
    return rounds_in_hardware(e) ? fold1(e, "llvm.rint", t, a[0]) : rint_by_addition(e, t, a[0]);
}
static LLVMValueRef do_floor(Emit *e, VType t, LLVMValueRef *a) {
    return rounds_in_hardware(e) ? fold1(e, "llvm.floor", t, a[0]) : directed(e, t, a[0], LLVMRealOGT, -1.0);
}
static LLVMValueRef do_ceil(Emit *e, VType t, LLVMValueRef *a) {
    return rounds_in_hardware(e) ? fold1(e, "llvm.ceil", t, a[0]) : directed(e, t, a[0], LLVMRealOLT, 1.0);
}
static LLVMValueRef do_trunc(Emit *e, VType t, LLVMValueRef *a) {
    if (rounds_in_hardware(e)) return fold1(e, "llvm.trunc", t, a[0]);
    return with_sign(e, t, directed(e, t, fold1(e, "llvm.fabs", t, a[0]), LLVMRealOGT, -1.0), a[0]);
}
static LLVMValueRef do_sqrt(Emit *e, VType t, LLVMValueRef *a) {
    return fold1(e, "llvm.sqrt", t, a[0]);
}

// ---- fmod ----
typedef struct {
    Emit *e;
    VType t;
    LLVMValueRef fn;
} Fmod;

static LLVMBasicBlockRef fmod_block(Fmod *f, const char *name) {
    return LLVMAppendBasicBlockInContext(f->e->ctx, f->fn, name);
}

// The divisor doubled while the dividend holds two of it.
static LLVMValueRef fmod_double(Fmod *f, LLVMValueRef x, LLVMValueRef y, LLVMBasicBlockRef from) {
    Emit *e = f->e;
    LLVMBasicBlockRef head = fmod_block(f, "double"), more = fmod_block(f, "more"), done = fmod_block(f, "doubled");
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
static LLVMValueRef fmod_reduce(Fmod *f, LLVMValueRef x, LLVMValueRef y, LLVMValueRef t) {
    Emit *e = f->e;
    LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b);
    LLVMBasicBlockRef head = fmod_block(f, "halve"), more = fmod_block(f, "take"), done = fmod_block(f, "halved");
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

static void fmod_body(Fmod *f) {
    Emit *e = f->e;
    LLVMValueRef a = LLVMGetParam(f->fn, 0), b = LLVMGetParam(f->fn, 1), zero = real_like(e, f->t, 0.0);
    LLVMBasicBlockRef entry = fmod_block(f, "entry"), invalid = fmod_block(f, "invalid"), valid = fmod_block(f, "valid");
    LLVMBasicBlockRef whole = fmod_block(f, "whole"), finite = fmod_block(f, "finite");
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

// A function of the module, for scalars: the loop has no use for lanes. (LLVM's frem would call libm.)
static LLVMValueRef fmod_function(Emit *e, DType t) {
    const char *name = arena_printf(e->arena, "%s.fmod.%s", e->o->prefix, dtype_name(t));
    LLVMValueRef fn = LLVMGetNamedFunction(e->mod, name);
    if (fn) return fn;
    LLVMBasicBlockRef back = LLVMGetInsertBlock(e->b);
    LLVMTypeRef type = llvm_value_type(e, vtype(t, 1)), types[2] = {type, type};
    fn = llvm_function(e, name, LLVMFunctionType(type, types, 2, 0), FN_KERNEL);
    fmod_body(&(Fmod){e, vtype(t, 1), fn});
    llvm_at(e, back);
    return fn;
}

static LLVMValueRef do_fmod(Emit *e, VType t, LLVMValueRef *a) {
    LLVMValueRef fn = fmod_function(e, t.type), r = LLVMGetPoison(llvm_value_type(e, t));
    LLVMTypeRef type = LLVMGlobalGetValueType(fn);
    if (t.lanes == 1) return LLVMBuildCall2(e->b, type, fn, a, 2, "");
    for (int i = 0; i < t.lanes; i++) {
        LLVMValueRef lane = llvm_int(e->i32, i);
        LLVMValueRef v[2] = {LLVMBuildExtractElement(e->b, a[0], lane, ""), LLVMBuildExtractElement(e->b, a[1], lane, "")};
        r = LLVMBuildInsertElement(e->b, r, LLVMBuildCall2(e->b, type, fn, v, 2, ""), lane, "");
    }
    return r;
}

// ---- bits, choice ----
static LLVMValueRef do_not(Emit *e, VType t, LLVMValueRef *a) {
    (void)t;
    return LLVMBuildNot(e->b, a[0], "");
}

// A shift by the width or more is poison in LLVM; the select leaves it unused.
static LLVMValueRef shift(Emit *e, VType t, LLVMValueRef *a, LLVMOpcode op) {
    LLVMValueRef fits = icmp(e, LLVMIntULT, a[1], int_like(e, t, int_width(e, t.type)));
    return pick(e, fits, bin(e, op, a[0], a[1]), int_like(e, t, 0));
}
static LLVMValueRef do_shl(Emit *e, VType t, LLVMValueRef *a) {
    return shift(e, t, a, LLVMShl);
}
static LLVMValueRef do_shr(Emit *e, VType t, LLVMValueRef *a) {
    return shift(e, t, a, arith_signed(t.type) ? LLVMAShr : LLVMLShr);
}
static LLVMValueRef do_select(Emit *e, VType t, LLVMValueRef *a) {
    (void)t;
    return pick(e, a[0], a[1], a[2]);
}

typedef LLVMValueRef (*ScalarFn)(Emit *e, VType t, LLVMValueRef *a);
static const ScalarFn custom[X_COUNT] = {
    [X_div] = do_div,
    [X_rem] = do_rem,
    [X_floordiv] = do_floordiv,
    [X_floormod] = do_floormod,
    [X_neg] = do_neg,
    [X_abs] = do_abs,
    [X_min] = do_min,
    [X_max] = do_max,
    [X_fma] = do_fma,
    [X_sqrt] = do_sqrt,
    [X_floor] = do_floor,
    [X_ceil] = do_ceil,
    [X_trunc] = do_trunc,
    [X_rint] = do_rint,
    [X_fmod] = do_fmod,
    [X_not] = do_not,
    [X_shl] = do_shl,
    [X_shr] = do_shr,
    [X_select] = do_select,
};

// A type of less than 8 bits lives in a byte that is always in its range.
static LLVMValueRef wrap_narrow(Emit *e, VType t, LLVMValueRef v) {
    const DTypeInfo *info = dtype_info(t.type);
    if (info->bits >= 8 || (info->cls != 'I' && info->cls != 'U')) return v;
    LLVMTypeRef narrow = LLVMIntTypeInContext(e->ctx, (unsigned)info->bits);
    if (t.lanes > 1) narrow = LLVMVectorType(narrow, (unsigned)t.lanes);
    LLVMValueRef low = LLVMBuildTrunc(e->b, v, narrow, "");
    LLVMTypeRef type = llvm_value_type(e, t);
    return info->cls == 'I' ? LLVMBuildSExt(e->b, low, type, "") : LLVMBuildZExt(e->b, low, type, "");
}

LLVMValueRef llvm_scalar(Emit *e, XOp op, VType t, LLVMValueRef *a) {
    const LlvmRow *row = &rows[op];
    if (row->kind == ROW_CMP) {
        if (arith_float(t.type)) return fcmp(e, (LLVMRealPredicate)row->f, a[0], a[1]);
        return icmp(e, (LLVMIntPredicate)(arith_signed(t.type) ? row->s : row->u), a[0], a[1]);
    }
    LLVMValueRef v;
    if (row->kind == ROW_BIN)
        v = bin(e, (LLVMOpcode)(arith_float(t.type) ? row->f : arith_signed(t.type) ? row->s : row->u), a[0], a[1]);
    else
        v = custom[op](e, t, a);
    return op == X_select ? v : wrap_narrow(e, t, v);
}

// ---- casts ----
// Float to integer: truncates and saturates to the type's own range, NaN gives 0.
static LLVMValueRef float_to_int(Emit *e, VType from, DType to, LLVMValueRef v) {
    bool is_signed = arith_signed(to);
    int bits = to == DT_idx ? int_width(e, to) : dtype_info(to)->bits;
    LLVMTypeRef narrow = LLVMIntTypeInContext(e->ctx, (unsigned)bits);
    if (from.lanes > 1) narrow = LLVMVectorType(narrow, (unsigned)from.lanes);
    LLVMTypeRef types[2] = {narrow, llvm_value_type(e, from)};
    LLVMValueRef r = llvm_intrinsic(e, is_signed ? "llvm.fptosi.sat" : "llvm.fptoui.sat", 2, types, 1, &v);
    LLVMTypeRef type = llvm_value_type(e, vtype(to, from.lanes));
    if (narrow == type) return r;
    return is_signed ? LLVMBuildSExt(e->b, r, type, "") : LLVMBuildZExt(e->b, r, type, "");
}

static LLVMValueRef cast_to_bool(Emit *e, VType from, LLVMValueRef v) {
    if (arith_float(from.type)) return fcmp(e, LLVMRealUNE, v, real_like(e, from, 0.0));
    return icmp(e, LLVMIntNE, v, int_like(e, from, 0));
}

LLVMValueRef llvm_cast(Emit *e, VType from, DType to, LLVMValueRef v) {
    if (from.type == to) return v;
    if (to == DT_bool) return cast_to_bool(e, from, v);
    VType vt = vtype(to, from.lanes);
    LLVMTypeRef type = llvm_value_type(e, vt);
    bool is_signed = arith_signed(from.type);
    if (arith_float(from.type)) {
        if (arith_float(to)) return LLVMBuildFPCast(e->b, v, type, "");
        return float_to_int(e, from, to, v);
    }
    if (arith_float(to)) return is_signed ? LLVMBuildSIToFP(e->b, v, type, "") : LLVMBuildUIToFP(e->b, v, type, "");
    return wrap_narrow(e, vt, LLVMBuildIntCast2(e->b, v, type, is_signed, ""));
}
