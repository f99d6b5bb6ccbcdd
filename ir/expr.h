// Typed expressions of scalars and lanes: bodies of the Graph's pointwise operations, right-hand sides of the Program.
//
// An Expr is an immutable node in an arena; nodes may be shared (a DAG). Its type is (element type, lanes): lanes == 1 is a scalar;
// a bool with lanes > 1 is a mask. Integer indices are not Exprs but Dims (dim.h); DIM makes an index's value an Expr of type idx.
// The text form is in expr_print's contract. Graph bodies use ARG, CONST, DIM and the scalar functions only.
#ifndef MLC_EXPR_H
#define MLC_EXPR_H

#include "dim.h"
#include "type.h"

typedef struct {
    DType type;
    int lanes; // 1..64
} VType;
static inline VType vtype(DType t, int lanes) {
    return (VType){t, lanes};
}
static inline bool vtype_same(VType a, VType b) {
    return a.type == b.type && a.lanes == b.lanes;
}

// Leaves, memory and lanes; the scalar functions of scalar.def follow them in the enum.
typedef enum {
    X_const,   // k
    X_arg,     // k.i: input number (Graph bodies)
    X_dim,     // dim: an index's value, type idx, 1 lane
    X_seed,    // the environment's seed, u64; in a program's main only
    X_var,     // var, idx[]: a scalar or lanes variable, or an element of a register tile
    X_load,    // var (a buffer), dim: index of lane 0 in elements of the buffer; stride k.i between lanes (0: all the same, 1: contiguous);
               //   a[0] optional: idx or i32 lanes added to the index (gather); a[1] optional: mask, lanes off read as 0.
               //   The type may differ from the buffer's: then the bytes are reinterpreted, without alignment (stride 1 only).
    X_splat,   // a[0] scalar into all lanes
    X_iota,    // 0, 1, 2, … of the type
    X_shuffle, // perm[lane] selects from a[0]'s lanes followed by a[1]'s (a[1] may be missing); result lanes = type.lanes
    X_table,   // a[0] lanes as a table, a[1] integer lanes as indices into it (taken modulo the table's lanes)
    X_lane,    // k.i: one lane of a[0] as a scalar
    X_insert,  // a[0] with lane k.i replaced by scalar a[1]
    X_hreduce, // a[0] reduced to a scalar by the scalar function k.i (add, mul, min, max, and, or): pairwise, upper half onto lower half
    X_compress, // lanes of a[0] where mask a[1] is on moved to the front, the rest 0
    X_expand,   // the reverse: lanes of a[0] in order go to where mask a[1] is on, the rest 0
    X_popcount, // number of lanes on in mask a[0], or set bits of a scalar; type i32
    X_dot4,     // a[0] i32xL + sum over groups of 4 of a[1] (u8 or i8, 4L lanes) * a[2] (i8, 4L lanes), wraps
    X_widen,    // the lanes of a[0] from k.i on, type.lanes many, cast to type.type (integer or float widening)
    X_index,    // index(a[0], dim): clamps idx a[0] into 0..dim-1 and raises the kernel's sticky flag when it was outside
    X_isa,      // k.i: row of isa_*.def (see isa.h), operands a[]
#define X(name, arity, cls, cf, ci, llvm) X_##name,
#include "scalar.def"
#undef X
    X_COUNT
} XOp;

typedef enum { XC_LEAF, XC_MEM, XC_LANE, XC_ARITH, XC_CMP, XC_LOGIC, XC_SEL, XC_CAST, XC_MATH } XClass;
typedef struct {
    const char *name;
    int arity; // scalar functions: operand count; -1: varies
    XClass cls;
    const char *c_float, *c_int;
} XOpInfo;
const XOpInfo *xop_info(XOp op);
XOp xop_parse(const char *name, size_t n); // X_COUNT when unknown

// Anything with a name that an expression reads or a statement writes. Immutable idx scalars are Dim symbols instead, not Vars.
typedef enum { VAR_LET, VAR_MUT, VAR_TILE, VAR_BUFFER } VarKind;
typedef struct Var {
    VarKind kind;
    const char *name; // unique in its scope's function
    VType type;       // of the value, a tile's element, a buffer's element (1 lane)
    int ntile;        // VAR_TILE: number of extents
    int tile[3];
    const void *owner; // VAR_BUFFER: its loop_buffer (loop.h)
} Var;

typedef struct Expr Expr;
struct Expr {
    XOp op;
    VType type;
    int n;            // operands used
    const Expr *a[3]; // NULL where an optional one is missing
    union {
        Scalar k_scalar; // X_const (all lanes)
        int64_t k;
    };
    Var *var;
    const Dim *dim;
    const Dim *idx[3];   // X_var of a tile: one Dim per extent
    const uint8_t *perm; // X_shuffle: type.lanes entries
};

// ---- builders: check types by assert, fold constants, apply identities that are exact (x*1, x+0 for integers, select with constant …)
// ----
const Expr *x_const(Arena *a, Scalar s, int lanes);
const Expr *x_int(Arena *a, DType t, int64_t v);
const Expr *x_float(Arena *a, DType t, double v);
const Expr *x_arg(Arena *a, int k, DType t);
const Expr *x_dim(Arena *a, const Dim *d);
const Expr *x_seed(Arena *a);
const Expr *x_var(Arena *a, Var *v);
const Expr *x_tile(Arena *a, Var *v, const Dim *const *idx);
const Expr *x_load(Arena *a, Var *buf, const Dim *index);
const Expr *x_load_lanes(Arena *a, Var *buf, const Dim *index, int lanes, int64_t stride, const Expr *offsets, const Expr *mask);
const Expr *x_load_as(Arena *a, Var *buf, VType type, const Dim *index);
const Expr *x_splat(Arena *a, const Expr *x, int lanes); // x itself when lanes == 1
// A scalar function of scalar.def other than casts. Scalars among the operands are splatted to the widest one's lanes.
const Expr *x_op1(Arena *a, XOp op, const Expr *x);
const Expr *x_op2(Arena *a, XOp op, const Expr *x, const Expr *y);
const Expr *x_op3(Arena *a, XOp op, const Expr *x, const Expr *y, const Expr *z);
const Expr *x_cast(Arena *a, DType t, const Expr *x);
const Expr *x_casts(Arena *a, DType t, const Expr *x);
const Expr *x_bits(Arena *a, DType t, const Expr *x);
// Any node as given, unfolded (for parsers and rewrites); operands as in the enum's comments.
const Expr *x_node(Arena *a, Expr e);
// e with its operands replaced (same count); folds as the builders do. For rewriting bottom up.
const Expr *x_rebuild(Arena *a, const Expr *e, const Expr *const *operands);
// Rewrites bottom up, each shared node once: fn gets a node whose operands are already rewritten and returns its replacement (or the node).
const Expr *expr_rewrite(Arena *a, const Expr *e, const Expr *(*fn)(void *ctx, const Expr *e), void *ctx);
// Calls fn for each distinct node, operands first.
void expr_visit(const Expr *e, void (*fn)(void *ctx, const Expr *e), void *ctx);
// The same for several roots that share nodes: a node shared among them is still met once. expr_rewrite_all replaces roots[i].
void expr_rewrite_all(Arena *a, const Expr **roots, int n, const Expr *(*fn)(void *ctx, const Expr *e), void *ctx);
void expr_visit_all(const Expr *const *roots, int n, void (*fn)(void *ctx, const Expr *e), void *ctx);
// Replaces symbols in every Dim of e.
const Expr *expr_subst_dims(Arena *a, DimTable *t, const Expr *e, const Dim *const *from, const Dim *const *to, int n);
bool expr_same(const Expr *a, const Expr *b); // structural

// NULL when the node's operand types fit its operation, else a text that says found and expected. Looks at this node only.
const char *expr_check(Arena *a, const Expr *e);

// ---- mathematical functions ----
// The definition of a MATH function, or of a cast between a non-native float and f32, as an expression of the other scalar functions over
// `x` (and y), for x's lanes. The one definition gives its meaning to the folder, both evaluators and both printers. ulp bounds: math.def's
// head.
const Expr *expr_define(Arena *a, const Expr *call);
// Rewrites e until no MATH function and no arithmetic on non-native floats is left (those compute in f32, round once).
const Expr *expr_lower_math(Arena *a, const Expr *e);
void expr_lower_math_all(Arena *a, const Expr **roots, int n); // of roots that share nodes

// ---- text ----
// Infix: + - * / & | ^ == != < <= > >= (each level fully parenthesised when mixed); others as calls: fma(a, b, c), select(c, a, b).
// cast.f32(x) casts.f8e4m3fn(x) bits.u32(x)   constants: 1.5f32 3i64 true nanf32 -inff32, with lanes splat8(0.0f32)
// a0 a1: arguments   dim(2*i + 1): an index's value   x: variable   acc[i, 2]: tile element
// buf[i*4 + j] scalar load   buf[i : 8] 8 lanes   buf[i : 8 : 4] strided   buf[i @ off] gather by lanes of off   "? m" before ] adds a mask
// buf.f16[i] and buf.i32[i : 8]: load as another type   iota8.i32  shuffle(a, b; 0 1 2 3)  table(t, i)  lane(a, 3)  insert(a, 3, x) hadd(x)
// hmul hmin hmax hand hor compress(x, m)  expand(x, m)  popcount(m)  dot4(acc, a, b)  widen4.f32(x, 0)  index(e, 30522)  isa.NAME(a, b, c)
// seed() A literal without type suffix takes the type of the other operand or of the place it stands in.
void expr_print(Str *s, const Expr *e);

typedef struct {
    Arena *arena;
    DimTable *dims;
    void *ctx;
    const Dim *(*dim)(void *ctx, const char *name, size_t n); // a symbol by name, or NULL
    Var *(*var)(void *ctx, const char *name, size_t n);       // a variable or buffer, or NULL
    DType (*arg)(void *ctx, int k);                           // the element type of input k, DT_none if there is none
    char error[160];                                          // set on failure
} ExprParser;
// Reads one expression at *p; want.type == DT_none when unknown. NULL on failure, *p at the fault, error set.
const Expr *expr_parse(ExprParser *ps, const char **p, VType want);

#endif
