// Lowering: a Graph whose values have storage (passes fuse and materialise) becomes a Program.
//
// Every value with STORE_BUFFER gets a buffer and one kernel, a loop nest over its elements; STORE_INLINE values are computed where they
// are read. The heart is lower_element (element.c): the expression of one element of a value at given indices. It pulls: a buffer's element
// is a load, a view's is its input's at the mapped indices, a map's is its body over its inputs' elements, a reduction's is a reduce
// statement in front of the use. So pointwise chains, epilogues, padding and windows fuse without patterns. kernel.c makes the nests,
// control.c the main block around them.
#ifndef MLC_LOWER_H
#define MLC_LOWER_H

#include "../../ir/graph.h"
#include "../../ir/loop.h"
#include "../passes.h"

enum { RANK_MAX = GRAPH_MAX_RANK };

typedef struct Lower {
    Graph *g;
    Program *p;
    Diag *diag;
    const Target *target;
    LoopBuffer **buffer; // [Value.id]: of values that have one; region parameters of loops map to carried buffers
    const Dim **scalar;  // [Value.id]: an index symbol that stands for a scalar value (a loop's iteration number), or NULL
    bool *shared;        // [Value.id]: inline and pulled several times: at one place its element is kept
    int kernels;         // numbers names
    int temps;
    VEC(const char *) names; // C names in use
    VEC(const Dim *) sizes;  // data symbols of the Graph that are defined
} Lower;

// An element at hand: of value v at idx in a block and under a mask; idx NULL: a statistic of the row at hand, wherever in it.
typedef struct {
    const Value *v;
    const Block *block;
    const Expr *mask, *e;
    const Dim **idx;
} Kept;

// One kernel under construction.
typedef struct KernelBuild {
    Lower *l;
    Kernel *k;
    VEC(LoopBuffer *) args; // program buffers, one a parameter of k
    const Value *row;       // the row-wise value whose statistics are in stat[]: its element is computed from them
    const Expr *stat[2];
    VEC(Kept) kept;
    int locals;              // numbers names
    int node;                // ONNX node number for checks
    VEC(const Node *) nodes; // those whose elements it computes, one a label, in the model's order
} KernelBuild;

// Where an element is needed: statements that compute it are appended to block; mask (or NULL) says when it is needed at all: no load
// happens, and no check fails, where it is false.
typedef struct {
    KernelBuild *kb;
    Block *block;
    const Expr *mask;
} Place;

// element.c
const Expr *lower_element(Place at, const Value *v, const Dim *const *idx);
// The same without looking at v's own buffer: how a kernel's root computes what it stores.
const Expr *lower_compute(Place at, const Value *v, const Dim *const *idx);
// in's element where idx is read of a tensor of `shape` to which it broadcasts.
const Expr *lower_broadcast(Place at, const Value *in, int rank, const Dim *const *shape, const Dim *const *idx);
// n's body over args at idx of the axes of shape; checks in front of it that no integer is divided by zero.
const Expr *lower_body(
    Place at, const Node *n, const Expr *body, const Expr *const *args, int rank, const Dim *const *shape, const Dim *const *idx);
// Binds node n's index symbols to the elements (at idx over shape) of its index inputs in[first] …: idx scalars in front of the use.
// from/to get the substitution of the axis symbols of shape and of the index symbols; returns its length.
int lower_bind_indices(
    Place at, const Node *n, int first, int rank, const Dim *const *shape, const Dim *const *idx, const Dim **from, const Dim **to);
// Index d of an axis: itself where it provably lies inside, else clamped and flagged (0 where the mask is off).
const Dim *lower_checked_index(Place at, const Dim *d, const Dim *extent);
const Dim *lower_flat(Lower *l, const Value *v, const Dim *const *idx); // row-major position
const Expr *lower_all_ge0(Lower *l, int n, const Dim *const *guard);    // conjunction; NULL when proven
LoopBuffer *kernel_param(KernelBuild *kb, LoopBuffer *b, bool reads, bool writes);
const char *kernel_local(KernelBuild *kb, const char *stem);

// reduce.c: elements of a reduce, a contract, a softmax or norm (whose row statistics must be at hand).
const Expr *lower_reduce_element(Place at, const Value *v, const Dim *const *idx);
const Expr *lower_contract_element(Place at, const Value *v, const Dim *const *idx);
const Expr *lower_row_element(Place at, const Value *v, const Dim *const *idx);
// Computes statistic v of a row group for the row at idx, v's own indices, and keeps it.
void lower_group_statistic(Place at, const Value *v, const Dim *const *idx);
// Computes the statistics of softmax or norm value v for the row at idx (its reduced axes are ignored) and keeps them in at.kb.
void lower_row_statistics(Place at, const Value *v, const Dim *const *idx);
// The value of one state after combining x into it, for reductions and scans of `kind` (sum prod min max any all add mul); and its neutral
// element.
const Expr *combine_expr(Arena *a, const char *kind, const Expr *state, const Expr *x);
const Expr *combine_init(Arena *a, const char *kind, DType t);
DType accumulator_type(DType t); // f16 and bf16 accumulate in f32
// A state of `type` that is reduced by kind over n axes: fn gives the element at the axes' symbols. Its value after the loop.
typedef const Expr *ElementFn(Place at, const void *ctx, const Dim *const *syms);
const Expr *lower_reduce(Place at, const char *kind, DType type, int n, const Dim *const *extents, ElementFn *fn, const void *ctx);

// attention.c
void lower_attention(Lower *l, Block *main, const Node *n);

// shared.c
void lower_find_shared(Lower *l); // fills l->shared

// random.c
void lower_random(Lower *l, Block *main, const Node *n);

// kernel.c: the kernels of one node and their calls in `main`.
KernelBuild kernel_begin(Lower *l, const Node *n, const char *stem);
// Calls it; its label becomes the names of its nodes: "Conv_1 + Relu_2".
void kernel_end(KernelBuild *kb, Block *main);
void kernel_note(KernelBuild *kb, const Node *n); // it computes n
// par loops over the axes for which want[i] (all when NULL); idx gets the symbols. The innermost block.
Block *lower_par_nest(Lower *l, Block *b, int rank, const Dim *const *shape, const bool *want, const Dim **idx);
void lower_value_kernel(Lower *l, Block *main, const Value *v, LoopBuffer *out); // out[flat] = element of v
// The same, stored from element `base` of out on.
void lower_copy_at(Lower *l, Block *main, const Value *v, LoopBuffer *out, const Dim *base);
void lower_buffer_copy(Lower *l, Block *main, LoopBuffer *from, LoopBuffer *to, const Dim *count, const Dim *base);
void lower_node(Lower *l, Block *main, Node *n);

// carry.c: a value whose size the program finds out on its way, with the extents of v or of values that take its place
typedef struct {
    const Dim *count;
    LoopBuffer *elements, *extents; // [count], i64[rank]
} Carry;
Carry lower_carry(Lower *l, Block *b, const char *stem, const Value *v); // empty
// v, or the elements of v in `staged`, becomes what it holds. Without `staged` v must not be computed from what it held.
void lower_carry_put(Lower *l, Block *b, const Carry *c, const Value *v, LoopBuffer *staged);
void lower_carry_sizes(Lower *l, Block *b, const Carry *c, const Value *v); // defines the symbols that are extents of v
void lower_carry_out(Lower *l, Block *b, const Carry *c, const Value *v);   // v gets what it holds, and its memory goes back

// The same as a stack of rows, one an iteration of loop n: the extents are the number of rows, then those of a row.
void lower_stack_begin(Lower *l, Block *b, const Carry *c, const Value *v);
void lower_stack_push(Lower *l, Block *b, const Carry *c, const Node *n, const Value *v, const Value *row, const Dim *iteration);

// control.c
bool lower_size_defined(const Lower *l, const Dim *sym);
void lower_define_size(Lower *l, Block *b, const Dim *sym, const Expr *value); // defines it
void lower_region(Lower *l, Block *main, Region *r);
void lower_if(Lower *l, Block *main, Node *n);
void lower_loop(Lower *l, Block *main, Node *n);
void lower_check(Lower *l, Block *main, Node *n);
// unused.c: takes off p's list the temps and constants that no kernel and no statement of main reads or writes.
void lower_drop_unused(Program *p);
// template.c: kernels from loop text.
void lower_template(Lower *l, Block *main, Node *n);

LoopBuffer *lower_buffer(Lower *l, const Value *v); // its buffer, made as a temp when it has none yet
LoopBuffer *lower_temp(Lower *l, const char *stem, DType t, int rank, const Dim *const *shape);
char *lower_name(Lower *l, const char *label); // a fresh C identifier

#endif
