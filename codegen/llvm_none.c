// The LLVM printer's functions in a build without it (MLC_LLVM=OFF): each says so.
#include "codegen.h"

static const char missing[] = "this mlc was built without LLVM (MLC_LLVM=OFF): use the C printer";

bool llvm_available(void) {
    return false;
}

bool codegen_llvm(const Program *p, const EmitOptions *o, LlvmKind kind, int opt, Str *out, Diag *d) {
    (void)p, (void)o, (void)kind, (void)opt, (void)out;
    diag_error(d, EXIT_UNSUPPORTED, "%s", missing);
    return false;
}

LlvmJit *llvm_jit(const Program *p, const EmitOptions *o, int opt, Diag *d) {
    (void)p, (void)o, (void)opt;
    diag_error(d, EXIT_UNSUPPORTED, "%s", missing);
    return NULL;
}

const struct mlc_model_info *llvm_jit_info(const LlvmJit *j) {
    (void)j;
    return NULL;
}

void *llvm_jit_symbol(const LlvmJit *j, const char *name) {
    (void)j, (void)name;
    return NULL;
}

void llvm_jit_free(LlvmJit *j) {
    (void)j;
}
