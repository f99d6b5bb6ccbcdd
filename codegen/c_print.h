// What the files of the C printer share: the text being made, section by section, and the function at hand.
//
// c.c opens the file and prints kernels, c_stmt.c statements, c_expr.c indices, scalar expressions and memory, c_lanes.c everything of more
// than one lane, c_text.c names, types and helper functions, c_main.c the program around the kernels, c_api.c the header and the tables.
// c_memory.c loads and stores of lanes, c_soft.c what C has no operator for.
//
// How values are held: bool is an int 0 or 1 (a byte in memory); floats without arithmetic (f16, bf16, f8 …) and types under 8 bits are the
// integers of their storage. Lanes are GNU vectors where the target is hosted and the count is a power of two, else structs with an array
// `v`; a mask is a vector of int32_t lanes 0 or -1, or a struct of bytes 0 or 1. Every name of file scope begins with the model's prefix.
#ifndef MLC_C_PRINT_H
#define MLC_C_PRINT_H

#include "codegen.h"
#include "layout.h"

// An expression's text; an atom needs no parentheses as an operand.
typedef struct {
    const char *s;
    bool atom;
} Txt;

// The C name of a Var, a symbol or a hoisted Expr.
typedef struct {
    const void *key;
    const char *name;
    bool temp; // made by c_hoist
} CName;

// A set of pointers, never iterated.
typedef struct {
    const void **slot;
    int *count;
    int cap, n;
} PtrSet;

// The function being printed.
typedef struct {
    Str out;
    int depth;
    VEC(CName) names; // the innermost scope last
    VEC(const Dim *) from;
    VEC(const Dim *) to; // symbols of loops printed once a value
    const PtrSet *used;  // Vars and symbols that are read
    int node;            // of the kernel, for the sticky flag
    const char *leave;   // how a failure leaves: a format of the status
} CFn;

// A kernel as a C function.
typedef struct {
    const Kernel *kernel;
    const char *name;      // of its function
    const Stmt *outer;     // its only statement when that is a parallel loop or a team
    VEC(const Dim *) syms; // free symbols, passed behind the buffers
    bool fails;            // it returns a status
} CKernel;

typedef struct {
    const Program *p;
    const EmitOptions *o;
    const Target *target;
    const Layout *l;
    Diag *d;
    Arena *a;
    DimTable *t;
    const char *prefix, *upper; // of all names
    const char *iface;          // of the types of the interface: the prefix without the level's name
    bool hosted, x86, intrinsics, failed;
    Str types, helpers, data, code;
    Str prototypes;         // of kernels, where the text is in parts
    VEC(size_t) cuts;       // ends of the kernels in `code`
    VEC(const char *) made; // helpers and types that exist
    PtrSet main_uses;       // buffers and symbols that main reads
    PtrSet sized;           // sizes of main that are defined so far
    PtrSet spread;          // kernels that are called `parallel`
    VEC(CKernel *) kernels;
    CFn f;
} C;

// ---- c_text.c ----
bool ptrset_add(Arena *a, PtrSet *s, const void *key); // true when new; counts each call
int ptrset_count(const PtrSet *s, const void *key);    // calls of ptrset_add with key
bool c_need(C *c, const char *name);                   // true once a name: the caller then makes it
const char *c_type(C *c, VType t);                     // of a value
const char *c_memory(C *c, DType t);                   // of one element in memory
const char *c_unaligned(C *c, VType t);                // hosted: lanes in memory
const char *c_unsigned(C *c, VType t);                 // its unsigned twin, of the same width
const char *c_signed(C *c, VType t);                   // its signed integer twin, of the same width
const char *c_wide(DType t);                           // unsigned type without promotion
bool c_vector(const C *c, VType t);                    // held in a GNU vector
DType c_storage(DType t);                              // the native type that holds t
const char *c_kind(C *c, VType t);                     // "f32x8", for names
const char *c_name(C *c, const void *key);             // NULL when unknown
const char *c_declare(C *c, const void *key, const char *base);
void c_reserve(C *c, const char *name); // a name no declaration may take
void c_line(C *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void c_unsupported(C *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// A static inline function PREFIX_name of parameters a, b, c. body: its statements, or "= expression".
void c_function(C *c, const char *name, VType result, int nargs, const VType *args, const char *body);
// The same with the parameters' text given.
void c_function_text(C *c, const char *name, const char *result, const char *params, const char *body);
// The function of runtime/soft.h called `name`, with all it needs. Its name in the file.
const char *c_soft(C *c, const char *name);
CFn c_enter(C *c); // begins another function; give the result to c_leave
Str c_leave(C *c, CFn outer);
const char *c_fmt(C *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// ---- c_expr.c ----
Txt c_dim(C *c, const Dim *d);
const char *c_dim_operand(C *c, const Dim *d);
const Dim *c_dim_now(C *c, const Dim *d); // with loops that are printed once a value replaced
Txt c_expr(C *c, const Expr *e);
const char *c_operand(C *c, const Expr *e); // parenthesised where needed
// Declares what e shares or must compute once as constants in front of the statement; c_expr then refers to them.
void c_hoist(C *c, int n, const Expr *const *roots);
void c_unhoist(C *c, int mark); // forgets the constants named since c->f.names.n was `mark`
Txt c_const(C *c, VType t, Scalar s);
// op on scalars whose texts are given. t: of the operands (of the last for select), to: of the result.
Txt c_scalar(C *c, XOp op, DType t, DType to, const char *const *ops);
// $0 $1 $2 replaced by ops, $T $U $I $W by the types that go with t, $NEG1( ) by a test of -1.
const char *c_expand(C *c, const char *text, VType t, const char *const *ops);
const char *c_address(C *c, const Var *buf, const Dim *index);
// A function of parameters a, b, c made from an expression of X_arg 0, 1, 2.
void c_function_of(C *c, const char *name, int nargs, const VType *args, const Expr *body);
const Expr *c_with_arguments(C *c, const Expr *e); // e with X_arg i as operand i
Txt c_call(C *c, const char *name, const Expr *e); // name(operands of e)
Txt c_defined(C *c, const Expr *e); // a MATH function or arithmetic on a float without it: a function made from the definition
bool c_is_defined(const Expr *e);
const char *c_buffer(C *c, const Var *buf);         // pointer to element 0
const char *c_constant(C *c, const WeightPlace *w); // name of the array that holds its content
const char *c_weights(C *c);                        // WEIGHTS_OBJECT: the blob's symbol
const char *c_tile(C *c, const Var *v, const Dim *const *idx);

// ---- c_lanes.c ----
Txt c_lanes(C *c, const Expr *e);                               // e has lanes or an operand with lanes
Txt c_splat(C *c, const Expr *e);                               // X_const or X_splat
const char *c_lane(C *c, VType t, const char *v, int l);        // lane l of variable v as a scalar
const char *c_literal(C *c, VType t, const char *const *texts); // a value of the lanes texts[]
bool c_instruction(C *c, const Expr *e, const char *name);      // makes the function of e when it is an instruction of the target

// ---- c_wide.c ----
int c_native_lanes(const C *c, DType t); // lanes of a register
bool c_is_wide(const C *c, VType t);     // held in a struct of several registers
// Types that are taken `count` chunks each so that every chunk fits a register.
int c_chunk_count(const C *c, int n, const VType *types);
const char *c_chunk(C *c, VType t, const char *v, int count, int j);                        // chunk j of variable v
const char *c_chunk_set(C *c, VType t, const char *v, int count, int j, const char *value); // the statement that sets it
const char *c_part(C *c, VType t, const char *v, int lanes, int first);                     // lanes first… of variable v
bool c_wide_op(C *c, const Expr *e, Txt *text);                                             // e when it works lane by lane on wide types

// ---- c_memory.c ----
Txt c_load_lanes(C *c, const Expr *e);
void c_store_lanes(C *c, const Stmt *s);
const char *c_read_function(C *c, DType t); // reads the bytes at a pointer as t

// ---- c_soft.c: scalar functions that C has no operator for ----
Txt c_custom(C *c, XOp op, DType t, DType to, const char *const *ops);

// ---- c_stmt.c ----
void c_block(C *c, const Block *b);
void c_statement(C *c, const Stmt *s);
void c_loop(C *c, const Stmt *s, const char *lo, const char *hi); // a for with the bounds given
void c_fail(C *c, const char *status);                            // leaves the function with the status
void c_note_uses(C *c, const Block *b, PtrSet *used);             // Vars and symbols that are read in b
bool c_uses_index(const Block *b);                                // some index(…) may raise the sticky flag
const char *c_status(int code, int node, char text[static 32]);
void c_unused(C *c, const void *key, const char *name); // keeps compilers quiet about a name that nothing reads

// ---- c.c ----
CKernel *c_kernel_of(C *c, const Kernel *k);
// Declares parameters and free symbols in the function at hand.
void c_kernel_names(C *c, const CKernel *k);
Str c_kernel_params(C *c, const CKernel *k);    // their declarations, behind c_kernel_names
Str c_kernel_arguments(C *c, const CKernel *k); // their names
void c_kernel_open(C *c, const CKernel *k);     // what stands before a body: unused names, the sticky flag
void c_kernel_close(C *c, const CKernel *k);    // and behind it
void c_kernel_emit(C *c, const char *result, const char *name, const char *params, Str body);

// ---- c_threads.c: kernels that several threads run ----
void c_spread_function(C *c, const CKernel *k); // PREFIX_k_NAME_spread: a parallel kernel's iterations over the threads of env
void c_team_function(C *c, const CKernel *k);

// ---- c_main.c ----
void c_main(C *c);
void c_main_statement(C *c, const Stmt *s); // call, size, alloc, free

// ---- c_api.c ----
void c_header(C *c, Str *s);
void c_api(C *c); // entry functions and the table

// ---- data.c ----
// Elements of type t as the initialisers of a C array, a few a line. Reads back exactly; NaN as a class.
void codegen_data(Str *s, DType t, const void *elements, size_t n);
// One element as a C constant.
void codegen_scalar(Str *s, Scalar v);

#endif
