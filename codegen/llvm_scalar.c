// Scalar functions and casts of scalar.def as LLVM values, for any number of lanes.
//
// The llvm column of scalar.def gives the simple ones; the others are built here to the same letter as their C text: no fast-math flag
// anywhere, a multiply-add only where the program says fma, no poison from wide shifts, division by zero or conversions.
#include "llvm_build.h"

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

static LLVMValueRef do_fma(Emit *e, VType t, LLVMValueRef *a) {
    if (!arith_float(t.type)) return bin(e, LLVMAdd, bin(e, LLVMMul, a[0], a[1]), a[2]);
    if (!llvm_has(e, HAS_FMA, t.type)) return llvm_soft_fma(e, t, a); // LLVM would call libm's
    LLVMTypeRef type = llvm_value_type(e, t);
    return llvm_intrinsic(e, "llvm.fma", 1, &type, 3, a);
}

// ---- rounding, roots ----
static LLVMValueRef rounded(Emit *e, VType t, LLVMValueRef *a, XOp op, const char *intrinsic) {
    return llvm_has(e, HAS_ROUND, t.type) ? fold1(e, intrinsic, t, a[0]) : llvm_soft_round(e, op, t, a[0]);
}
static LLVMValueRef do_rint(Emit *e, VType t, LLVMValueRef *a) {
    return rounded(e, t, a, X_rint, "llvm.rint");
}
static LLVMValueRef do_floor(Emit *e, VType t, LLVMValueRef *a) {
    return rounded(e, t, a, X_floor, "llvm.floor");
}
static LLVMValueRef do_ceil(Emit *e, VType t, LLVMValueRef *a) {
    return rounded(e, t, a, X_ceil, "llvm.ceil");
}
static LLVMValueRef do_trunc(Emit *e, VType t, LLVMValueRef *a) {
    return rounded(e, t, a, X_trunc, "llvm.trunc");
}
static LLVMValueRef do_sqrt(Emit *e, VType t, LLVMValueRef *a) {
    return llvm_has(e, HAS_FLOAT, t.type) ? fold1(e, "llvm.sqrt", t, a[0]) : llvm_soft_sqrt(e, t, a[0]);
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
    [X_fmod] = llvm_soft_fmod,
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
    if (!llvm_has(e, HAS_FLOAT, from.type)) return llvm_soft_to_int(e, from, to, v);
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
