// The loop interpreter's inside: the code that kernels are compiled to and the state of a run. Private to loop_interpret*.c.
//
// Lanes. At any time `lanes` iterations of one par loop (its strip) run in lockstep: 1 outside of strips. A value either is the same for
// all of them or varies; which of the two is found while running, node by node. A varying value of a type with L lanes is an array
// [lanes][L]. Under a condition that varies, `active` has a byte for each lane: others neither store nor set nor check.
//
//   loop_interpret.c        entry: symbols, buffers, main, calls
//   loop_interpret_code.c   statements and indices -> code; which loops run in strips
//   loop_interpret_stmt.c   runs statements
//   loop_interpret_expr.c   compiles and evaluates expressions
//   loop_interpret_mem.c    loads and stores with their bounds
//   loop_interpret_lane.c   operations across the lanes of a type
//   loop_interpret_fold.c   loops that only update scalars: operands in strips, the recurrence in order
//   loop_interpret_rows.c   sums of products over a nest of loops, for all lanes
#ifndef MLC_LOOP_INTERPRET_H
#define MLC_LOOP_INTERPRET_H

#include "loop.h"
#include "ptr_map.h"

enum { STRIP = 256, STRIP_BYTES = STRIP * 16 }; // elements and bytes of a strip's value

// An integer for each lane: lane[l] when lane != NULL, else v + l * step.
typedef struct {
    int64_t v, step;
    const int64_t *lane;
} IdxVal;
static inline bool idx_varies(IdxVal i) {
    return i.lane || i.step;
}
static inline int64_t idx_at(IdxVal i, int64_t l) {
    return i.lane ? i.lane[l] : i.v + l * i.step;
}

// ---- code ----
typedef struct DimCode DimCode;
typedef struct {
    AtomKind kind;
    int slot;       // ATOM_SYMBOL
    DimCode *a, *b; // the others
} DimFactor;
typedef struct {
    int64_t coeff;
    int n;
    DimFactor *factor;
} DimTerm;
struct DimCode {
    int64_t constant;
    int n;
    DimTerm *term;
    int64_t *lane; // room for a value that is no progression; made at first need
};

typedef struct {
    const Expr *e;
    int in[3]; // numbers of operand nodes, -1: missing
    int slot;  // of the variable or buffer
    int pool;  // number of the strip its value is computed into
    int size;  // bytes of an element
    DimCode *dim, *idx[3];
    void *full;    // constants: the value for a whole strip; made at first need
    const void *p; // the value: elements, of one lane or of all
    bool varies;
} Node;

typedef struct {
    int n;
    Node *node; // operands first, the root last
} ExprCode;

typedef struct {
    void *p; // STRIP elements of the type, or NULL before its definition
    bool varies;
} VarVal;

typedef struct CodeStmt CodeStmt;
typedef struct FoldCode FoldCode;
typedef struct RowsCode RowsCode;
struct CodeStmt {
    const Stmt *s;
    int slot; // of the symbol, variable or buffer
    DimCode *lo, *hi, *dim, *idx[3];
    ExprCode *value, *mask, *offsets, **inits;
    int *states, *others; // REDUCE: slots; others only where there is a combine
    VarVal *merged;       // REDUCE: the states of the parts so far; made at first need
    CodeStmt *body, *orelse;
    int nbody, norelse;
    bool barrier; // one stands inside
    // loops
    int strip;                   // par: most iterations that can run in lockstep, 0: none
    bool strided;                // lanes of the strip would touch memory in strides
    VEC(CodeStmt *) pars, folds; // loops inside that could run in strips, or fold
    FoldCode *fold;              // how it folds outside of strips, NULL: it does not
    RowsCode *rows;              // how it sums products in strips, NULL: it does not
};

typedef struct {
    const Dim *sym;
    int slot;
} SymSlot;

typedef struct {
    const Kernel *kernel; // NULL: main
    PtrMap slots;         // symbols, variables, buffers
    int nsyms, nvars, nbufs;
    VEC(SymSlot) outer; // symbols that come from main
    CodeStmt *body;
    int nbody;
} FuncCode;

// ---- state ----
typedef struct {
    unsigned char *p;
    int64_t n; // elements
    size_t bytes;
    int64_t lane_step; // elements from one lane's copy to the next; 0: shared
    void *own;         // memory that the interpreter allocated for it
    size_t own_bytes;
} BufVal;

typedef struct {
    const FuncCode *code;
    IdxVal *sym;
    int64_t **sym_lanes; // room for symbols that are no progression
    VarVal *var;
    BufVal *buf;
} Frame;

typedef struct {
    const char *name; // region, NULL: the default one
    unsigned char *p;
    size_t bytes;
} RegionVal;

typedef struct {
    const Program *p;
    Arena *arena;
    Diag *d;
    uint64_t shuffle; // state of the generator, 0: in order
    bool cut;         // reductions too
    int status;
    bool sticky; // index() met an index outside
    int lanes;
    const unsigned char *active; // NULL: all
    Frame *frame;
    const Stmt *at;
    VEC(void *) pool; // strips for intermediate values
    void *scratch[4]; // operands spread over the lanes
    FuncCode main;
    Frame main_frame;
    FuncCode **kernels; // compiled at their first call
    Frame *frames;
    VEC(RegionVal) regions;
    void *const *memory; // the caller's
    const size_t *cap;
    void (*size)(void *ctx, const Dim *sym, int64_t v);
    void *size_ctx;
    PtrMap sizes; // data dims that are defined by now
} Run;

// Reports a fault of the Program (not of the data) and stops the run.
void run_fault(Run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// ---- compiling ----
void code_function(Run *r, FuncCode *f, const Kernel *k, const Block *body);
DimCode *code_dim(Run *r, FuncCode *f, const Dim *d);
ExprCode *code_expr(Run *r, FuncCode *f, const Expr *e);
int code_slot(Run *r, FuncCode *f, const void *what, int *count, int n); // of n consecutive slots, made at first use
FoldCode *code_fold(Run *r, FuncCode *f, CodeStmt *loop);                // NULL when the loop cannot fold
RowsCode *code_rows(Run *r, FuncCode *f, CodeStmt *loop);

// ---- running ----
IdxVal eval_dim(Run *r, DimCode *d);
int64_t eval_dim_scalar(Run *r, DimCode *d); // a value that is the same for all lanes
// The root's value, computed into dst where it is computed at all (dst may be NULL: then it is valid until the next evaluation).
const Node *eval_expr(Run *r, ExprCode *c, void *dst);
const void *node_spread(Run *r, Node *n, int scratch); // the value for every lane
void eval_load(Run *r, ExprCode *c, Node *n, void *dst);
void eval_lane_op(Run *r, ExprCode *c, Node *n, void *dst);
void run_store(Run *r, CodeStmt *c);

typedef enum { FLOW_NEXT, FLOW_BREAK, FLOW_STOP } Flow;
Flow run_block(Run *r, CodeStmt *c, int n);
void run_fold(Run *r, CodeStmt *loop, int64_t lo, int64_t n);
bool run_rows(Run *r, CodeStmt *loop); // false: nothing was done
Flow run_call(Run *r, CodeStmt *c);
void run_size(Run *r, CodeStmt *c);
Flow run_memory(Run *r, CodeStmt *c); // alloc and free
uint64_t run_random(Run *r);

static inline void copy_element(void *dst, const void *src, int size) {
    switch (size) {
    case 1: *(uint8_t *)dst = *(const uint8_t *)src; return;
    case 2: __builtin_memcpy(dst, src, 2); return;
    case 4: __builtin_memcpy(dst, src, 4); return;
    case 8: __builtin_memcpy(dst, src, 8); return;
    default: __builtin_memcpy(dst, src, (size_t)size); return;
    }
}

#endif
