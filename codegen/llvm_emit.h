// What the files of the LLVM printer share: the module being built, the function at hand, and the values its names stand for.
//
// llvm.c opens a module and prints statements, llvm_expr.c indices and lanes, llvm_mem.c loads and stores, llvm_scalar.c scalar functions
// and casts, llvm_soft.c those the target lacks, llvm_call.c kernels and teams, llvm_threads.c work for threads, llvm_main.c the program
// around the kernels, llvm_api.c and llvm_info.c the binary interface, llvm_target.c machines, passes and files, llvm_jit.c the in-process
// compiler.
//
// How values are held: bool is i1 in registers and a byte in memory; floats without arithmetic (f16, bf16, f8 …) and types under 8 bits are
// integers of their storage's width; strings and complex numbers are opaque integers that can only be moved. idx has the target's pointer
// width.
#ifndef MLC_LLVM_EMIT_H
#define MLC_LLVM_EMIT_H

#include "codegen.h"
#include "layout.h"
#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

// A map of pointers, emptied in constant time. Never iterated, so that no output depends on addresses.
typedef struct {
    struct ValueSlot {
        const void *key;
        void *val;
        unsigned gen;
    } * slot;
    unsigned cap, used, gen;
} ValueMap;
void valuemap_put(Arena *a, ValueMap *m, const void *key, void *val);
void *valuemap_get(const ValueMap *m, const void *key); // NULL when absent
void valuemap_clear(ValueMap *m);

typedef struct Emit Emit;

// One of `count` modules that make up a Program: each has the bodies of the kernels whose number leaves `number`, the first one all else.
typedef struct {
    int number, count;
} LlvmPart;
static const LlvmPart llvm_whole = {0, 1};

// Fields of mlc_env (runtime/abi.h), in order.
typedef enum {
    ENV_STRUCT_SIZE,
    ENV_ARENA,
    ENV_ARENA_BYTES,
    ENV_REGIONS,
    ENV_WEIGHTS,
    ENV_WEIGHTS_BYTES,
    ENV_STATE,
    ENV_POOL,
    ENV_PARALLEL_FOR,
    ENV_HOST,
    ENV_ALLOC,
    ENV_DEALLOC,
    ENV_USER,
    ENV_SEED,
    ENV_HOOK,
    ENV_REGION_BYTES,
    ENV_FIELDS
} EnvField;

// The function being printed.
typedef struct {
    LLVMValueRef fn, status, sticky; // status: alloca of the i32 returned at `leave`; sticky: alloca of the i1 raised by index()
    LLVMBasicBlockRef allocas, first, leave, breaks; // breaks: where `break` goes
    ValueMap vals;                                   // Var, symbol Dim -> value or address; Sym of a data dim -> its alloca
    ValueMap memo;                                   // Expr, Dim -> value, within one statement
    VEC(const void *) bound;                         // what got a value, in order: loops from outside in
    int node;                                        // of the kernel, for the sticky flag's status
    LLVMValueRef env, arena_base, outputs;           // of main
} EmitFn;

struct Emit {
    LlvmPart part;
    const Program *p;
    const EmitOptions *o;
    const Target *target;
    const Layout *layout;
    Diag *d;
    Arena *arena;     // of the printer's own tables
    Arena *constants; // in process: where constants are copied, for the code to name them by address; else NULL
    LLVMContextRef ctx;
    LLVMModuleRef mod;
    LLVMBuilderRef b;
    LLVMTargetDataRef data;
    LLVMTypeRef i1, i8, i32, i64, idx, ptr, f32, f64, size;
    EmitFn f;
    ValueMap lowered; // Expr -> Expr without MATH functions
    ValueMap kernels; // Kernel -> its function
    ValueMap globals; // LoopBuffer (BUF_CONST) -> address
    bool failed;
};

// ---- llvm_expr.c ----
LLVMTypeRef llvm_value_type(Emit *e, VType t);  // in registers
LLVMTypeRef llvm_memory_type(Emit *e, DType t); // of one element in memory
LLVMTypeRef llvm_memory_vector(Emit *e, VType t);
LLVMValueRef llvm_expr(Emit *e, const Expr *x);
LLVMValueRef llvm_dim(Emit *e, const Dim *d);
LLVMValueRef llvm_int(LLVMTypeRef type, int64_t v);
LLVMValueRef llvm_splat(Emit *e, LLVMValueRef v, int lanes); // v itself for one lane
LLVMValueRef llvm_tile_address(Emit *e, const Var *v, const Dim *const *idx);
LLVMValueRef llvm_alloca(Emit *e, LLVMTypeRef type, unsigned align); // in the function's first block
// Calls intrinsic `name` overloaded on types[]; the result is its value.
LLVMValueRef llvm_intrinsic(Emit *e, const char *name, int ntypes, LLVMTypeRef *types, int nargs, LLVMValueRef *args);
LLVMBasicBlockRef llvm_block(Emit *e, const char *name);
void llvm_at(Emit *e, LLVMBasicBlockRef block);
void llvm_unsupported(Emit *e, const char *what); // one diagnosis a module

// ---- llvm_mem.c ----
LLVMValueRef llvm_load(Emit *e, const Expr *x, LLVMValueRef offsets, LLVMValueRef mask); // offsets, mask: NULL when missing
void llvm_store(Emit *e, const Stmt *s);

// ---- llvm_scalar.c ----
// op on values a[] whose operands have type t (of the last operand for select).
LLVMValueRef llvm_scalar(Emit *e, XOp op, VType t, LLVMValueRef *a);
LLVMValueRef llvm_cast(Emit *e, VType from, DType to, LLVMValueRef v);

// ---- llvm_soft.c ----
typedef enum { HAS_FLOAT, HAS_FMA, HAS_ROUND } Ability; // arithmetic and sqrt; fma; rounding to integers
bool llvm_has(const Emit *e, Ability what, DType t);    // t: f32 or f64
LLVMValueRef llvm_soft_fma(Emit *e, VType t, LLVMValueRef *a);
LLVMValueRef llvm_soft_round(Emit *e, XOp op, VType t, LLVMValueRef x);
LLVMValueRef llvm_soft_to_int(Emit *e, VType from, DType to, LLVMValueRef v);
LLVMValueRef llvm_soft_sqrt(Emit *e, VType t, LLVMValueRef x);
LLVMValueRef llvm_soft_fmod(Emit *e, VType t, LLVMValueRef *a);

// ---- llvm.c ----
void llvm_emit_block(Emit *e, const Block *b);
void llvm_bind(Emit *e, const void *name, LLVMValueRef v);
// s->sym from lo to below hi; fn prints the body (llvm_loop_between: s's own).
void llvm_loop(Emit *e, const Stmt *s, LLVMValueRef lo, LLVMValueRef hi, void (*fn)(Emit *e, void *ctx), void *ctx);
void llvm_loop_between(Emit *e, const Stmt *s, LLVMValueRef lo, LLVMValueRef hi);
void llvm_fn_begin(Emit *e, LLVMValueRef fn, int node); // clears e->f but for its tables
void llvm_fn_end(Emit *e);                       // tests the sticky flag; the caller goes on in `leave`, where f.status holds the status
void llvm_fail(Emit *e, LLVMValueRef status);    // leaves the function with the status
void llvm_fail_if(Emit *e, LLVMValueRef status); // when it is not 0
void llvm_fail_unless(Emit *e, LLVMValueRef cond, int32_t status);
// KERNEL: for the target; COLD: too, but nothing of it is worth compile time in process; BASE, EXPORTED: for the oldest processor.
typedef enum { FN_KERNEL, FN_COLD, FN_BASE, FN_EXPORTED } FnKind;
LLVMValueRef llvm_function(Emit *e, const char *name, LLVMTypeRef type, FnKind kind);
void llvm_fn_attribute(Emit *e, LLVMValueRef fn, const char *name, const char *value); // value NULL: not a string attribute
void llvm_param_attribute(Emit *e, LLVMValueRef fn, int param, const char *name);
// The module, or a part of it; NULL after diag_error. The caller disposes of it, then of its context. constants: see Emit.
LLVMModuleRef llvm_build(const Program *p, const EmitOptions *o, LlvmPart part, LLVMContextRef ctx, LLVMTargetMachineRef tm,
    const Target *t, Arena *constants, Diag *d);

// ---- llvm_call.c ----
void llvm_kernel(Emit *e, const Kernel *k, bool here); // not here: another part has its body
void llvm_call(Emit *e, const Stmt *s);

// ---- llvm_threads.c ----
// fn takes the arguments given, then a member's number (run_members) or the first iteration and the one behind the last (run_range).
typedef struct {
    LLVMValueRef fn;
    LLVMTypeRef type;
    int slots;  // 0: fn returns 0 always; else the most members there are
    bool range; // set by run_range
} LlvmTask;
// Runs members or iterations 0..n-1 through env; leaves the function at hand with the first failure. args has room for what is appended.
void llvm_run_members(Emit *e, LLVMValueRef env, const LlvmTask *t, LLVMValueRef *args, LLVMValueRef n);
void llvm_run_range(Emit *e, LLVMValueRef env, const LlvmTask *t, LLVMValueRef *args, LLVMValueRef n);

// ---- llvm_main.c ----
LLVMTypeRef llvm_env_type(Emit *e);
LLVMValueRef llvm_env_field(Emit *e, LLVMValueRef env, EnvField field);
LLVMValueRef llvm_byte_at(Emit *e, LLVMValueRef base, LLVMValueRef offset);
LLVMValueRef llvm_bytes(Emit *e, const char *name, const void *bytes, size_t n, unsigned align); // a private constant
LLVMValueRef llvm_buffer(Emit *e, const Var *buf);                                               // address of element 0
LLVMValueRef llvm_pointer_in(Emit *e, LLVMValueRef array, int i);
LLVMValueRef llvm_aligned(Emit *e, LLVMValueRef p, int64_t bytes);
void llvm_alloc(Emit *e, const Stmt *s);
void llvm_free(Emit *e, const Stmt *s);
void llvm_size(Emit *e, const Stmt *s);
LLVMValueRef llvm_main(Emit *e); // the function of main

// ---- llvm_api.c, llvm_info.c ----
void llvm_api(Emit *e, LLVMValueRef body);
LLVMValueRef llvm_choose(Emit *e, LLVMValueRef *bodies); // the function that runs one of the levels' mains
LLVMValueRef llvm_string(Emit *e, const char *s);
LLVMValueRef llvm_array(Emit *e, LLVMTypeRef type, const LLVMValueRef *v, int n); // a private constant, null when empty
LLVMValueRef llvm_list(Emit *e, LLVMTypeRef type, int n, LLVMValueRef (*fn)(Emit *e, int i));
void llvm_info(Emit *e, LLVMValueRef arena_bytes, LLVMValueRef run_env, LLVMValueRef state_init);

// ---- llvm_target.c ----
char *llvm_triple(const Target *t); // to be given to LLVMDisposeMessage
LLVMTargetMachineRef llvm_machine(const Target *t, int opt, bool in_process, Diag *d);
bool llvm_check(LLVMModuleRef mod, Diag *d);
bool llvm_optimise(LLVMModuleRef mod, LLVMTargetMachineRef tm, int opt, Diag *d);

#endif
