// The in-process compiler: a Program's module becomes machine code of this process, in several parts where there are cores to share them.
//
// Objects are made by the same code generator as a .o and linked by LLJIT. Constants stay outside of it: they are copied once to aligned
// memory that the code names by address, so that 25 MB of weights neither pass through an object file nor are moved by the linker.
#define _GNU_SOURCE // sched_getaffinity
#include "llvm_emit.h"
#include "../runtime/abi.h"
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <sched.h>

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

// ---- objects, made side by side ----
// A part of the module with what it stands on. Parts are built one after the other, for they share the Program's Dims, and optimised and
// compiled by a thread each: that is where the time goes.
typedef struct {
    LLVMContextRef ctx;
    LLVMTargetMachineRef tm;
    LLVMModuleRef mod;
    LLVMMemoryBufferRef object;
    int opt;
    Diag faults;
} Part;

enum { PARTS_MAX = 8, KERNELS_PER_PART = 6 };

static int parts_of(const Program *p) {
    cpu_set_t set;
    int cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1, most = p->kernels.n / KERNELS_PER_PART;
    int n = cpus < most ? cpus : most;
    return n < 1 ? 1 : n > PARTS_MAX ? PARTS_MAX : n;
}

static bool part_build(Part *part, LlvmPart which, const Program *p, const EmitOptions *o, Arena *constants, const Target *t, Diag *d) {
    part->tm = llvm_machine(t, part->opt, true, d);
    if (!part->tm) return false;
    part->ctx = LLVMContextCreate();
    part->mod = llvm_build(p, o, which, part->ctx, part->tm, t, constants, d);
    return part->mod != NULL;
}

static void part_compile(void *arg) {
    Part *part = arg;
    char *message = NULL;
    if (llvm_check(part->mod, &part->faults) && llvm_optimise(part->mod, part->tm, part->opt, &part->faults))
        if (LLVMTargetMachineEmitToMemoryBuffer(part->tm, part->mod, LLVMObjectFile, &message, &part->object))
            diag_error(&part->faults, EXIT_INTERNAL, "LLVM: %s", message);
    LLVMDisposeMessage(message);
}

static void part_free(Part *part, Diag *d) {
    if (part->faults.errors) diag_move(d, &part->faults);
    if (part->mod) LLVMDisposeModule(part->mod);
    if (part->ctx) LLVMContextDispose(part->ctx);
    if (part->tm) LLVMDisposeTargetMachine(part->tm);
}

// ---- linking ----
// memcpy, memset and the routines of the compiler's own library come from this process.
static bool see_process(LLVMOrcLLJITRef jit, Diag *d) {
    LLVMOrcDefinitionGeneratorRef process = NULL;
    if (failed(LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(&process, LLVMOrcLLJITGetGlobalPrefix(jit), NULL, NULL), d))
        return false;
    LLVMOrcJITDylibAddGenerator(LLVMOrcLLJITGetMainJITDylib(jit), process);
    return true;
}

// Takes the machine.
static bool open_linker(LlvmJit *j, LLVMTargetMachineRef tm, Diag *d) {
    LLVMOrcLLJITBuilderRef builder = LLVMOrcCreateLLJITBuilder();
    LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(builder, LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(tm));
    return !failed(LLVMOrcCreateLLJIT(&j->jit, builder), d) && see_process(j->jit, d);
}

// Takes the object.
static bool link_object(LlvmJit *j, LLVMMemoryBufferRef object, Diag *d) {
    return !failed(LLVMOrcLLJITAddObjectFile(j->jit, LLVMOrcLLJITGetMainJITDylib(j->jit), object), d);
}

static bool compile_and_link(LlvmJit *j, const Program *p, const EmitOptions *o, int opt, const Target *t, Diag *d) {
    Part part[PARTS_MAX] = {0};
    int n = parts_of(p);
    bool ok = true;
    for (int i = 0; i < n && ok; i++) {
        part[i].opt = opt;
        part[i].faults.file = d->file;
        ok = part_build(&part[i], (LlvmPart){i, n}, p, o, j->arena, t, d);
    }
    if (ok) each_side_by_side(part, n, sizeof *part, part_compile);
    LLVMTargetMachineRef tm = ok ? llvm_machine(t, opt, true, d) : NULL;
    ok = tm && open_linker(j, tm, d);
    for (int i = 0; i < n; i++) {
        if (part[i].object && ok)
            ok = link_object(j, part[i].object, d);
        else if (part[i].object)
            LLVMDisposeMemoryBuffer(part[i].object);
        part_free(&part[i], d);
    }
    return ok && !d->errors;
}

LlvmJit *llvm_jit(const Program *p, const EmitOptions *o, int opt, Diag *d) {
    const Target *t = target_find(p->target ? p->target : "host");
    if (!t) {
        diag_error(d, EXIT_UNSUPPORTED, "unknown target '%s'", p->target);
        return NULL;
    }
    LlvmJit *j = mem_realloc(NULL, sizeof *j);
    *j = (LlvmJit){.arena = arena_new()};
    EmitOptions with_info = *o;
    with_info.export_info = true;
    if (compile_and_link(j, p, &with_info, opt, t, d))
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
