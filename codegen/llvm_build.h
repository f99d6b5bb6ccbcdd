// Short names for the builder calls that scalar code is made of. t: type of the values; constants are splatted to its lanes.
#ifndef MLC_LLVM_BUILD_H
#define MLC_LLVM_BUILD_H

#include "llvm_emit.h"

static inline bool arith_float(DType t) {
    return t == DT_f32 || t == DT_f64;
}
static inline bool arith_signed(DType t) {
    return t == DT_idx || dtype_is_signed(t);
}

static inline LLVMValueRef bin(Emit *e, LLVMOpcode op, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildBinOp(e->b, op, x, y, "");
}
static inline LLVMValueRef icmp(Emit *e, LLVMIntPredicate p, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildICmp(e->b, p, x, y, "");
}
static inline LLVMValueRef fcmp(Emit *e, LLVMRealPredicate p, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildFCmp(e->b, p, x, y, "");
}
static inline LLVMValueRef pick(Emit *e, LLVMValueRef c, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildSelect(e->b, c, x, y, "");
}

static inline LLVMValueRef int_like(Emit *e, VType t, int64_t v) {
    return llvm_splat(e, llvm_int(llvm_value_type(e, vtype(t.type, 1)), v), t.lanes);
}
static inline LLVMValueRef real_like(Emit *e, VType t, double v) {
    return llvm_splat(e, LLVMConstReal(llvm_value_type(e, vtype(t.type, 1)), v), t.lanes);
}
static inline int int_width(Emit *e, DType t) {
    return (int)LLVMGetIntTypeWidth(llvm_value_type(e, vtype(t, 1)));
}

static inline LLVMValueRef fold1(Emit *e, const char *name, VType t, LLVMValueRef x) {
    LLVMTypeRef type = llvm_value_type(e, t);
    return llvm_intrinsic(e, name, 1, &type, 1, &x);
}

#endif
