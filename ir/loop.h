// The Program: one statement language for kernels and for the program around them (design.md section 6).
//
// A Program has symbols, buffers, kernels and a `main` block. Kernels see only the buffers they are called with and free symbols (model
// dimensions, sizes and loop variables of main). Indices are Dims in elements of a flat buffer; values are Exprs.
//
// Text (loop_print, loop_parse), one statement a line; `;` at the start of a line or after a blank starts a comment. Inside a block a
// comment line is a statement and is kept:
//   program mnist
//   target x86-64-v3
//   dim N in 1..1024
//   data dim s in 0..2*N                          a size that main defines (SYM_DATA): bounds first, so that shapes can mention it
//   input  x: f32[N, 784] "Input3"
//   const  w: f32[784, 10] data 0                 or  = {1.0, 2.0}
//   state  h: f32[2, 128] "hn"                    zero at first, or as a const
//   output y: f32[N, 10] "Plus214"                an extent may mention a data dim: then the caller states a capacity
//   output hn: f32[2, 128] "hn_out" tie h         the next value of state h
//   temp   t0: f32[N, 784] at 0 region sram       `at`: byte offset in the arena, after plan_memory; `unbounded`: memory comes from alloc
//   arena 3136*N                                  arena_bytes; also: hash 0x12ab   node 1 "Conv_0"   meta "key" "value"
//   kernel fc "Gemm_3" node 7 (x: f32[N, 784] in, w: f32 in, y: f32 out) schedule "split(j, 8) vectorize(j_i, 8)" {
//     for i in 0..N par {
//       for j in 0..10 par {
//         reduce k in 0..784 (acc: f32 = 0.0) {
//           set acc = fma(x[i*784 + k], w[k*10 + j], acc)
//         } combine (acc2) { set acc = acc + acc2 }
//         y[i*10 + j] = max(acc, 0.0)
//       }
//     }
//   }
//   main { call fc(x, w, y) }
// Parameters: in, out or inout, then for written ones `disjoint` (no parameter read overlaps it) or `same` (element i is written after the
// last read of element i of any parameter, so it may be exactly one of them); nothing: may overlap. A parameter's shape is optional (only
// to be read and checked). A kernel may use the symbols that main defines (loop variables, idx lets): they are in scope although main
// stands last. A name is a word; it is defined once in its kernel (siblings too: schedules name loops) and is no word of the language
// (loop_reserved). Statements:
//   for v in lo..hi [step n] par|red|seq [unroll] [parallel] { … }
//   reduce v in lo..hi [step n] (s: T = init, …) { … } combine (s2, …) { … }    s stay readable after it
//     combine merges the state s2 of a later part into s; run in order and whole it is never executed; without it the reduction is not cut.
//     `combine unordered (s2, …)` also merges parts of elements that are no neighbours, in any order
//   while EXPR { … }   if EXPR { … } else { … }   break
//   let x: T = EXPR   (an idx scalar becomes a symbol usable in indices; `let j: idx 0..n-1 = …` states its bounds, inclusive)
//   var x: T = EXPR   set x = EXPR   tile acc[6, 2]: f32x8 = EXPR   set acc[i, j] = EXPR
//   buf[i] = EXPR   buf[i : 8] = EXPR   buf[i : 8 : 4] = EXPR (strided)   buf[i @ offs] = EXPR (scatter, lanes in order)   … ? MASK
//   buf.f16[i] = EXPR                an access of another type
//   local buf: T[n]                  n constant; zeroed only by code
//   check EXPR else CODE @node       leaves the program with -(CODE + 256*node); CODE is a name of status_name
//   call k(buf, …) [parallel]        main only; parallel: k's outermost statement is a `parallel` loop, the pool may run its iterations in
//                                    any grouping
//   team t of n { … barrier … }      only as a kernel's single outermost statement; t is the member's number; `local` inside is per member
//     A barrier stands in the team's block or in seq loops of it that are the same for all members, and no let, var or tile of such a block
//     is used across a barrier: so one thread can run the parts between barriers member after member with the same result.
//   size s = EXPR                    main only: defines the data dim s, or sets it anew where it is visible
//   alloc t [bytes]   free t         main only: a temp of unbounded size from env's allocator
#ifndef MLC_LOOP_H
#define MLC_LOOP_H

#include "expr.h"
#include "status.h"

typedef enum { BUF_INPUT, BUF_OUTPUT, BUF_CONST, BUF_STATE, BUF_TEMP, BUF_PARAM, BUF_LOCAL } BufKind;

// How a kernel's output parameter relates to the memory of an input parameter.
typedef enum { ALIAS_MAY, ALIAS_DISJOINT, ALIAS_SAME } AliasKind;

typedef struct LoopBuffer {
    Var var; // var.kind == VAR_BUFFER, var.owner == this
    BufKind kind;
    const char *label; // the ONNX tensor's name, or NULL
    int rank;
    const Dim **shape; // row-major; parameters may leave it out: rank -1, NULL
    const void *bytes; // BUF_CONST: elements; BUF_STATE: first value, NULL: zeros
    size_t nbytes;
    int blob;           // of bytes: number in the text, -1: inline
    const Dim *offset;  // BUF_TEMP: bytes from the arena's start, NULL before plan_memory
    const char *region; // NULL: default
    bool writes, reads; // BUF_PARAM
    AliasKind alias;    // BUF_PARAM that is written: against every parameter read
    int tie;            // BUF_OUTPUT that is a state's next value: index of the state buffer, else -1
    bool unbounded;     // BUF_TEMP given by alloc
} LoopBuffer;

typedef enum {
    ST_FOR,
    ST_REDUCE,
    ST_WHILE,
    ST_IF,
    ST_BREAK,
    ST_LET,
    ST_VAR,
    ST_TILE,
    ST_SET,
    ST_STORE,
    ST_LOCAL,
    ST_CHECK,
    ST_CALL,
    ST_TEAM,
    ST_BARRIER,
    ST_SIZE,
    ST_ALLOC,
    ST_FREE,
    ST_COMMENT,
    ST_COUNT
} StKind;

typedef enum { LOOP_PAR, LOOP_RED, LOOP_SEQ } LoopKind;

typedef struct Stmt Stmt;
struct LoopNames;
// A list of statements. `names` is its function's set of names (NULL: new names get a number no other has); see loop_block.
typedef struct {
    Stmt **data;
    int n, cap;
    struct LoopNames *names;
} Block;
typedef struct Kernel Kernel;

struct Stmt {
    StKind kind;
    // FOR, REDUCE: sym in lo..hi (exclusive) step; TEAM: sym is the member, hi the count; LET of an idx scalar, SIZE: sym is defined
    const Dim *sym, *lo, *hi;
    int64_t step;
    LoopKind loop;
    bool unroll, parallel; // FOR; CALL: parallel
    // REDUCE: states[i] starts at inits[i]; body updates them; combine merges others[i] into states[i]
    int nstates;
    Var **states, **others;
    const Expr **inits;
    Block body, orelse; // orelse: IF's else, REDUCE's combine
    bool unordered;     // REDUCE: combine merges parts in any order, of any elements
    // LET, VAR, TILE: var = value; SET: var (tile: idx) = value; STORE: var[dim …] = value; WHILE, IF, CHECK: value is the condition; SIZE:
    // value
    Var *var;
    const Dim *idx[3];
    const Dim *dim;      // STORE: index of lane 0; ALLOC: bytes
    int64_t stride;      // STORE between lanes: 1 contiguous
    const Expr *offsets; // STORE: scatter: lane l goes to dim + offsets[l] (stride does not count); NULL: none
    const Expr *mask;    // STORE: NULL: all lanes
    const Expr *value;
    int code, node;    // CHECK
    Kernel *kernel;    // CALL
    LoopBuffer **args; // CALL: one a parameter
    int nargs;
    const char *text; // COMMENT
};

struct Kernel {
    const char *name;  // a C identifier, unique
    const char *label; // names of the ONNX nodes it computes, " + " between them, or NULL: for comments, errors and profile
    int node;          // number of the first ONNX node, 0: none
    VEC(LoopBuffer *) params;
    const char *schedule; // NULL: none; text still to be applied by passes/loop/schedule
    Block body;
};

typedef struct Program {
    Arena *arena;
    DimTable *dims; // shared with the Graph it came from; not freed with the Program
    const char *name;
    const char *target;        // row of the target table
    VEC(const Dim *) symbols;  // SYM_MODEL, in order of the interface
    VEC(LoopBuffer *) buffers; // in order: inputs, outputs, states, consts, temps
    VEC(Kernel *) kernels;
    Block main;
    const Dim *arena_bytes;       // after plan_memory, else NULL
    VEC(const char *) node_names; // ONNX node i+1, for model_error_node
    VEC(const char *) metadata;   // key, value …
    uint64_t hash;
    struct LoopNames *words; // every name in use anywhere
} Program;

Program *program_new(DimTable *dims, const char *name);
void program_free(Program *p);
// A SYM_DATA symbol for loop_size and the shapes that mention it.
const Dim *loop_data_dim(Program *p, const char *name, const Dim *lo, const Dim *hi);
void loop_model_dim(Program *p, const Dim *sym); // appends to p->symbols
// True for words that cannot name anything: statements, scalar functions and the other words of expressions.
bool loop_reserved(const char *name, size_t n);

// ---- builders: append to a block ----
// A name asked for is made unique in the block's function by a number behind it (i, i_2, i_3); other names stay as they are.
const char *loop_fresh(Program *p, Block *b, const char *name);
Block loop_block(const Block *like); // an empty block of the same function, for rewrites
LoopBuffer *loop_buffer(Program *p, BufKind kind, const char *name, DType t, int rank, const Dim *const *shape); // appended in its section
LoopBuffer *loop_param(Program *p, Kernel *k, const char *name, DType t, bool reads, bool writes);
Kernel *loop_kernel(Program *p, const char *name, const char *label, int node);
Stmt *loop_stmt(Program *p, Block *b, StKind kind);
Stmt *loop_for(Program *p, Block *b, const char *name, const Dim *lo, const Dim *hi, LoopKind kind); // makes the symbol; fill stmt->body
Var *loop_let(Program *p, Block *b, const char *name, const Expr *value);
const Dim *loop_let_idx(Program *p, Block *b, const char *name, const Expr *value, const Dim *lo, const Dim *hi);
Var *loop_var(Program *p, Block *b, const char *name, const Expr *init);
void loop_set(Program *p, Block *b, Var *v, const Expr *value);
void loop_store(Program *p, Block *b, LoopBuffer *buf, const Dim *index, const Expr *value);
Stmt *loop_reduce(
    Program *p, Block *b, const char *name, const Dim *lo, const Dim *hi, int nstates, const char *const *names, const Expr *const *inits);
void loop_check(Program *p, Block *b, const Expr *cond, int code, int node);
Stmt *loop_if(Program *p, Block *b, const Expr *cond); // fill body and orelse
Stmt *loop_while(Program *p, Block *b, const Expr *cond);
Var *loop_tile(Program *p, Block *b, const char *name, int ntile, const int *extents, const Expr *init);
void loop_set_tile(Program *p, Block *b, Var *v, const Dim *const *idx, const Expr *value);
LoopBuffer *loop_local(Program *p, Block *b, const char *name, DType t, int64_t n);
Stmt *loop_team(Program *p, Block *b, const char *name, const Dim *n);
void loop_size(Program *p, Block *b, const Dim *sym, const Expr *value);
void loop_comment(Program *p, Block *b, const char *text);
// The bounds loop symbols get: lo and the last value below hi.
const Dim *loop_last(DimTable *t, const Dim *lo, const Dim *hi, int64_t step);
Stmt *loop_call(Program *p, Block *b, Kernel *k, int nargs, LoopBuffer *const *args);
const Dim *loop_alloc_bytes(const Program *p, const Stmt *alloc);   // at least 1: an allocator may have nothing to give for 0
const Dim *loop_buffer_size(const Program *p, const LoopBuffer *b); // elements

// Visits statements in order, before their blocks. Deep copies with symbol and variable renaming for rewrites.
void loop_walk(Block *b, void (*fn)(void *ctx, Stmt *s), void *ctx);
// The Dims and Exprs that s itself uses (not its blocks' statements), in order; fn may replace them. Definitions (sym, var, states) are not
// uses.
void stmt_dims(Stmt *s, void (*fn)(void *ctx, const Dim **d), void *ctx);
void stmt_exprs(Stmt *s, void (*fn)(void *ctx, const Expr **e), void *ctx);
// A deep copy into p's arena: loop symbols, lets, vars, tiles and locals defined inside get fresh identities.
void loop_copy(Program *p, Block *to, const Block *from);
// Copies statement by statement: the map is kept between copies, so that what one defined (fresh identities, as in loop_copy) the next ones
// use. Beforehand symbols and variables of outside may be mapped too.
typedef struct LoopMap LoopMap;
LoopMap *loop_map_new(Program *p);
void loop_map_symbol(LoopMap *m, const Dim *from, const Dim *to);
void loop_map_var(LoopMap *m, Var *from, Var *to);
const Expr *loop_map_expr(LoopMap *m, const Expr *e);
void loop_map_copy(LoopMap *m, Block *to, const Stmt *s);
// Replaces symbols in all Dims and Exprs of b.
void loop_subst(Program *p, Block *b, const Dim *const *from, const Dim *const *to, int n);
// Symbols a kernel uses but does not define, in canonical order: it gets them as arguments.
void kernel_free_symbols(const Kernel *k, void (*fn)(void *ctx, const Dim *sym), void *ctx);

// ---- the four tools ----
void loop_print(Str *s, const Program *p);
void kernel_print(Str *s, const Kernel *k);
void stmt_print(Str *s, const Stmt *x); // its first line, for messages
// `data N` of a const reads blob(ctx, N) (bytes, size) when blob is given, else the elements are zero.
Program *loop_parse(
    const char *text, const char *file, DimTable *dims, const void *(*blob)(void *ctx, int n, size_t *size), void *ctx, Diag *d);
bool loop_verify(const Program *p, Diag *d); // rules numbered in loop_verify.c's head

// ---- the interpreter ----
// Runs main. sym[i]: values of p->symbols; buf[i]: memory of p->buffers[i] for inputs, outputs, states (consts and temps are its own; NULL
// is allowed there). cap[i]: capacity in bytes of buf[i] (checked). size(ctx, sym, v), may be NULL, sees every SYM_DATA size defined in
// main (outputs' extents). shuffle: par loops run in a seeded random order (0: in order); with LOOP_CUT in it reductions that have a
// combine are also cut at random places. Returns the status, 0 when done; bounds violations are our bug: reported in d, status
// -(CODE_INDEX). Temps and locals start as 0xff bytes (NaN); temps with an offset lie in an arena as planned. Tied outputs that are NULL go
// to their state.
#define LOOP_CUT (UINT64_C(1) << 63)
int loop_interpret(const Program *p, const int64_t *sym, void *const *buf, const size_t *cap,
    void (*size)(void *ctx, const Dim *sym, int64_t v), void *ctx, uint64_t shuffle, Diag *d);

// The parts of a reduction may be merged in any order: it says so, or each state is merged by a commutative operation.
bool reduce_is_unordered(const Stmt *reduce);

// ---- schedules (loop_schedule.c) ----
// Applies the primitives of `text` in order to kernel k; false after diag_error when one does not apply. The list and each one's meaning:
// docs/schedule.md.
bool schedule_apply(Program *p, Kernel *k, const char *text, Diag *d);

#endif
