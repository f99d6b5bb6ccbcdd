// Printers: a scheduled, planned Program becomes C text or LLVM IR. They decide nothing and know no operator: what they print stands in the
// Program.
//
// c.c prints statements and expressions, c_api.c the header, entry checks and wrappers, data.c constants; llvm*.c do the same through
// LLVM's C API. Both make the same binary interface (design.md section 3), described at run time by PREFIX_info (abi.h), so one loader runs
// either.
#ifndef MLC_CODEGEN_H
#define MLC_CODEGEN_H

#include "../ir/loop.h"
#include "../ir/target.h"

// Where the constants are: in the source, in an object whose symbol it refers to, or in a blob that env->weights points at (C only).
typedef enum { WEIGHTS_INLINE, WEIGHTS_OBJECT, WEIGHTS_BLOB } WeightsForm;

typedef struct {
    const char *prefix;  // C prefix of everything exported
    const char *header;  // name in #include, NULL: one self-contained file
    const char *options; // effective options, for the header's text
    bool export_info;    // emit PREFIX_info (the loader's table)
    bool hooks;          // env's hook is called around each kernel
    WeightsForm weights;
    const char *weights_section; // linker section of constants inline or in an object, NULL: the usual one
    // Code for several levels of a target: `levels` are Programs of one Graph for the rows of `dispatch`, ascending; the printers get the
    // first as p. The highest level that the processor has is chosen when the model runs. NULL: p alone.
    const Target *dispatch;
    const Program *const *levels;
    int nlevels;
    // Further texts, each to be compiled by itself and linked with the source: kernels are spread evenly over all of them. As many are used
    // as there are part_bytes of code for each, the others stay empty. Not with levels.
    Str *parts;
    int nparts;
    size_t part_bytes;
} EmitOptions;

// Appends the source and the header. false after diag_error (what the target cannot express).
bool codegen_c(const Program *p, const EmitOptions *o, Str *source, Str *header, Diag *d);

// The blob of all constants in pieces, for WEIGHTS_BLOB; and how many bytes they have.
typedef void ByteSink(void *ctx, const void *bytes, size_t n);
void codegen_weights(const Program *p, const EmitOptions *o, ByteSink *put, void *ctx);
size_t codegen_weights_bytes(const Program *p, const EmitOptions *o);
// The same as an object file, for WEIGHTS_OBJECT; false after diag_error where the target has no format we know.
bool codegen_weights_object(const Program *p, const EmitOptions *o, ByteSink *put, void *ctx, Diag *d);
bool codegen_has_objects(const Program *p);

// C identifier of a name: non-word characters become _, a leading digit gets x, keywords get _. Duplicates are the caller's
// (codegen_unique).
char *codegen_cname(Arena *a, const char *name);

// LLVM: writes .ll, .bc, .o or .so by kind; needs the build option MLC_LLVM, else an error says so. opt: 0..3.
typedef enum { LLVM_LL, LLVM_BC, LLVM_OBJECT } LlvmKind;
bool codegen_llvm(const Program *p, const EmitOptions *o, LlvmKind kind, int opt, Str *out, Diag *d);
// Compiles in process. NULL after diag_error. The info table stays valid until llvm_jit_free.
typedef struct LlvmJit LlvmJit;
struct mlc_model_info;
LlvmJit *llvm_jit(const Program *p, const EmitOptions *o, int opt, Diag *d);
const struct mlc_model_info *llvm_jit_info(const LlvmJit *j);
void *llvm_jit_symbol(const LlvmJit *j, const char *name);
void llvm_jit_free(LlvmJit *j);
bool llvm_available(void);

#endif
