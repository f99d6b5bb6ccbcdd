// The in-process compiler: a Program's module becomes machine code of this process.
//
// The object is made by the same code generator as a .o and linked by LLJIT. Constants stay outside of it: they are copied once to aligned
// memory that the code names by address, so that 25 MB of weights neither pass through an object file nor are moved by the linker.
#include "llvm_emit.h"
#include "../runtime/abi.h"
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>

struct LlvmJit {
    LLVMOrcLLJITRef jit;
    Arena *arena; // of the constants
    const mlc_model_info *info;
};

static bool failed(LLVMErrorRef err, Diag *d) {
    if (!err) return false;
    char *text = LLVMGetErrorMessage(err);
    diag_error(d, EXIT_INTERNAL, "LLVM: %s", text);
    LLVMDisposeErrorMessage(text);
    return true;
}

static LLVMMemoryBufferRef object_of(
    const Program *p, const EmitOptions *o, int opt, Arena *constants, LLVMTargetMachineRef tm, const Target *t, Diag *d) {
    LLVMContextRef ctx = LLVMContextCreate();
    LLVMModuleRef mod = llvm_build(p, o, ctx, tm, t, constants, d);
    LLVMMemoryBufferRef object = NULL;
    char *message = NULL;
    if (mod && llvm_check(mod, d) && llvm_optimise(mod, tm, opt, d))
        if (LLVMTargetMachineEmitToMemoryBuffer(tm, mod, LLVMObjectFile, &message, &object))
            diag_error(d, EXIT_INTERNAL, "LLVM: %s", message);
    LLVMDisposeMessage(message);
    if (mod) LLVMDisposeModule(mod);
    LLVMContextDispose(ctx);
    return object;
}

// memcpy, memset and the routines of the compiler's own library come from this process.
static bool see_process(LLVMOrcLLJITRef jit, Diag *d) {
    LLVMOrcDefinitionGeneratorRef process = NULL;
    if (failed(LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(&process, LLVMOrcLLJITGetGlobalPrefix(jit), NULL, NULL), d))
        return false;
    LLVMOrcJITDylibAddGenerator(LLVMOrcLLJITGetMainJITDylib(jit), process);
    return true;
}

// Takes the machine and the object.
static bool link_object(LlvmJit *j, LLVMTargetMachineRef tm, LLVMMemoryBufferRef object, Diag *d) {
    LLVMOrcLLJITBuilderRef builder = LLVMOrcCreateLLJITBuilder();
    LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(builder, LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(tm));
    if (failed(LLVMOrcCreateLLJIT(&j->jit, builder), d)) {
        LLVMDisposeMemoryBuffer(object);
        return false;
    }
    if (!see_process(j->jit, d)) {
        LLVMDisposeMemoryBuffer(object);
        return false;
    }
    return !failed(LLVMOrcLLJITAddObjectFile(j->jit, LLVMOrcLLJITGetMainJITDylib(j->jit), object), d);
}

LlvmJit *llvm_jit(const Program *p, const EmitOptions *o, int opt, Diag *d) {
    const Target *t = target_find(p->target ? p->target : "host");
    if (!t) {
        diag_error(d, EXIT_UNSUPPORTED, "unknown target '%s'", p->target);
        return NULL;
    }
    LLVMTargetMachineRef tm = llvm_machine(t, opt, true, d);
    if (!tm) return NULL;
    LlvmJit *j = mem_realloc(NULL, sizeof *j);
    *j = (LlvmJit){.arena = arena_new()};
    EmitOptions with_info = *o;
    with_info.export_info = true;
    LLVMMemoryBufferRef object = object_of(p, &with_info, opt, j->arena, tm, t, d);
    if (!object)
        LLVMDisposeTargetMachine(tm);
    else if (link_object(j, tm, object, d))
        j->info = llvm_jit_symbol(j, arena_printf(j->arena, "%s_info", codegen_cname(j->arena, o->prefix)));
    if (j->info) return j;
    if (!d->errors) diag_error(d, EXIT_INTERNAL, "LLVM: the module has no %s_info", o->prefix);
    llvm_jit_free(j);
    return NULL;
}

const mlc_model_info *llvm_jit_info(const LlvmJit *j) {
    return j->info;
}

void *llvm_jit_symbol(const LlvmJit *j, const char *name) {
    LLVMOrcExecutorAddress at = 0;
    LLVMErrorRef err = LLVMOrcLLJITLookup(j->jit, &at, name);
    if (!err) return (void *)(uintptr_t)at;
    LLVMConsumeError(err);
    return NULL;
}

void llvm_jit_free(LlvmJit *j) {
    if (!j) return;
    LLVMErrorRef err = j->jit ? LLVMOrcDisposeLLJIT(j->jit) : NULL;
    if (err) LLVMConsumeError(err);
    arena_free(j->arena);
    mem_realloc(j, 0);
}
