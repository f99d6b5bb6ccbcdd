// Machines, optimisation and files: what turns the printed module into .ll, .bc or .o.
//
// Only the targets of target.c's rows are registered, each once a process. Loops come scheduled, so LLVM's vectorisers only run at -O3;
// what is wanted of its pipeline is SSA form, common values, invariant motion and induction variables.
#include "llvm_emit.h"
#include <llvm-c/Analysis.h>
#include <llvm-c/BitWriter.h>
#include <llvm-c/Error.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdlib.h>
#include <string.h>

bool llvm_available(void) {
    return true;
}

// ---- machines ----
#define INIT(arch)                                                                                                                         \
    static void init_##arch(void) {                                                                                                        \
        LLVMInitialize##arch##TargetInfo();                                                                                                \
        LLVMInitialize##arch##Target();                                                                                                    \
        LLVMInitialize##arch##TargetMC();                                                                                                  \
        LLVMInitialize##arch##AsmPrinter();                                                                                                \
        LLVMInitialize##arch##AsmParser();                                                                                                 \
    }
INIT(X86)
INIT(AArch64)
INIT(ARM)
INIT(RISCV)
INIT(WebAssembly)
#undef INIT

static const struct {
    const char *prefix; // of the triple
    void (*init)(void);
} families[] = {
    {"x86_64", init_X86},
    {"i686", init_X86},
    {"aarch64", init_AArch64},
    {"arm", init_ARM},
    {"thumb", init_ARM},
    {"riscv", init_RISCV},
    {"wasm", init_WebAssembly},
};

static LLVMTargetRef find_target(const char *triple, char **message) {
    static bool ready[sizeof families / sizeof *families];
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (strncmp(triple, families[i].prefix, strlen(families[i].prefix)) != 0) continue;
        if (!ready[i]) families[i].init();
        ready[i] = true;
    }
    LLVMTargetRef t = NULL;
    return LLVMGetTargetFromTriple(triple, &t, message) ? NULL : t;
}

char *llvm_triple(const Target *t) {
    return *t->triple ? LLVMCreateMessage(t->triple) : LLVMGetDefaultTargetTriple();
}

LLVMTargetMachineRef llvm_machine(const Target *t, int opt, bool in_process, Diag *d) {
    static const LLVMCodeGenOptLevel levels[] = {
        LLVMCodeGenLevelNone, LLVMCodeGenLevelLess, LLVMCodeGenLevelDefault, LLVMCodeGenLevelDefault};
    char *triple = llvm_triple(t), *message = NULL;
    LLVMTargetRef target = find_target(triple, &message);
    LLVMTargetMachineRef tm = NULL;
    if (target) {
        LLVMCodeGenOptLevel level = levels[opt < 0 ? 0 : opt > 3 ? 3 : opt];
        LLVMCodeModel model = in_process ? LLVMCodeModelJITDefault : LLVMCodeModelDefault;
        tm = LLVMCreateTargetMachine(target, triple, t->cpu, t->llvm_features, level, LLVMRelocPIC, model);
    }
    if (!tm) diag_error(d, EXIT_UNSUPPORTED, "LLVM has no code generator for target %s (%s)", t->name, message ? message : triple);
    LLVMDisposeMessage(message);
    LLVMDisposeMessage(triple);
    return tm;
}

// ---- passes ----
// What scheduled code needs and no more: a third of the time of default<O2>, with the same inner loops.
#define LEAN                                                                                                                               \
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(loop-rotate,licm),gvn,simplifycfg,"             \
    "loop(loop-idiom,indvars,loop-deletion),instcombine<no-verify-fixpoint>,dse,adce,simplifycfg)"

bool llvm_optimise(LLVMModuleRef mod, LLVMTargetMachineRef tm, int opt, Diag *d) {
    static const char *const pipelines[] = {"", LEAN, LEAN, "default<O3>"};
    if (opt <= 0) return true;
    LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
    LLVMErrorRef err = LLVMRunPasses(mod, pipelines[opt > 3 ? 3 : opt], tm, o);
    LLVMDisposePassBuilderOptions(o);
    if (!err) return true;
    char *text = LLVMGetErrorMessage(err);
    diag_error(d, EXIT_INTERNAL, "LLVM: %s", text);
    LLVMDisposeErrorMessage(text);
    return false;
}

// A module that does not verify is a bug of the printer: say so before LLVM crashes on it.
bool llvm_check(LLVMModuleRef mod, Diag *d) {
    char *message = NULL;
    bool bad = LLVMVerifyModule(mod, LLVMReturnStatusAction, &message);
    if (bad) diag_error(d, EXIT_INTERNAL, "LLVM: module does not verify: %s", message);
    LLVMDisposeMessage(message);
    return !bad;
}

// ---- files ----
static void add_buffer(Str *out, LLVMMemoryBufferRef b) {
    str_addn(out, LLVMGetBufferStart(b), LLVMGetBufferSize(b));
    LLVMDisposeMemoryBuffer(b);
}

static bool write_module(LLVMModuleRef mod, LLVMTargetMachineRef tm, LlvmKind kind, Str *out, Diag *d) {
    if (kind == LLVM_LL) {
        char *text = LLVMPrintModuleToString(mod);
        str_add(out, text);
        LLVMDisposeMessage(text);
        return true;
    }
    if (kind == LLVM_BC) {
        add_buffer(out, LLVMWriteBitcodeToMemoryBuffer(mod));
        return true;
    }
    LLVMMemoryBufferRef object = NULL;
    char *message = NULL;
    if (!LLVMTargetMachineEmitToMemoryBuffer(tm, mod, LLVMObjectFile, &message, &object))
        add_buffer(out, object);
    else
        diag_error(d, EXIT_INTERNAL, "LLVM: %s", message);
    LLVMDisposeMessage(message);
    return object != NULL;
}

bool codegen_llvm(const Program *p, const EmitOptions *o, LlvmKind kind, int opt, Str *out, Diag *d) {
    const Target *t = o->nlevels ? o->dispatch : target_find(p->target ? p->target : "host");
    if (!t) {
        diag_error(d, EXIT_UNSUPPORTED, "unknown target '%s'", p->target);
        return false;
    }
    LLVMTargetMachineRef tm = llvm_machine(t, opt, false, d);
    if (!tm) return false;
    LLVMContextRef ctx = LLVMContextCreate();
    LLVMModuleRef mod = llvm_build(p, o, llvm_whole, ctx, tm, t, NULL, d);
    bool ok = mod && llvm_check(mod, d) && llvm_optimise(mod, tm, opt, d) && write_module(mod, tm, kind, out, d);
    if (mod) LLVMDisposeModule(mod);
    LLVMContextDispose(ctx);
    LLVMDisposeTargetMachine(tm);
    return ok;
}
