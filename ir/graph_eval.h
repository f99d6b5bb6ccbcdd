// Inside the reference evaluator (graph_eval*.c): strided tensors, the environment of symbols, and index expressions over strips of
// elements.
//
// An operation is one function: it gets its inputs, makes its outputs and returns false after eval_fail. Views share their input's memory.
#ifndef MLC_GRAPH_EVAL_H
#define MLC_GRAPH_EVAL_H

#include "graph.h"

enum { EVAL_STRIP = 256 };

typedef struct EvalBuffer EvalBuffer;
typedef struct {
    DType type;
    int rank;
    int64_t shape[GRAPH_MAX_RANK], stride[GRAPH_MAX_RANK]; // in elements; a stride may be 0 or negative
    char *data;                                            // the element at position 0
    EvalBuffer *buffer;                                    // owner of data, counted; NULL: borrowed from an input or a constant
} Strided;

typedef struct Eval Eval;
typedef bool EvalFn(Eval *e, const Node *n, const Strided *const *in, Strided *out);
EvalFn eval_const, eval_dims, eval_map, eval_view, eval_reshape, eval_concat, eval_gather, eval_scatter, eval_reduce, eval_scan,
    eval_contract, eval_softmax, eval_norm, eval_attention, eval_template, eval_random;

// ---- graph_eval.c ----
bool eval_fail(Eval *e, const Node *n, StatusCode code, const char *fmt, ...) __attribute__((format(printf, 4, 5))); // returns false
Arena *eval_scratch(Eval *e);                                                                                        // freed after the node
bool eval_bind(Eval *e, const Node *n, const Dim *sym, int64_t value); // false when outside of the symbol's bounds
bool eval_symbol(Eval *e, const Dim *sym, int64_t *value);             // false when unbound
bool eval_extent(Eval *e, const Node *n, const Dim *d, int64_t *value);
// out becomes a dense tensor of v's type and shape under the environment, elements not set.
bool eval_output(Eval *e, const Node *n, const Value *v, Strided *out);
bool eval_alloc(Eval *e, const Node *n, DType t, int rank, const int64_t *shape, Strided *out);

// ---- graph_eval_tensor.c: strided tensors ----
int64_t strided_count(const Strided *x);
bool strided_is_dense(const Strided *x);
void strided_set(Strided *x, DType t, int rank, const int64_t *shape, void *data); // dense strides, borrowed
Strided strided_share(const Strided *x);
void strided_release(Eval *e, Strided *x);                                         // forgets it; frees the memory with the last owner
void strided_copy(void *dst, const Strided *x);                                    // elements in row-major order
bool strided_dense(Eval *e, const Node *n, const Strided *x, Strided *out);        // shares x when it is dense, else a copy
void strided_run(int size, void *dst, const void *src, int64_t stride, int64_t n); // dst[i] = src[i*stride], elements of `size` bytes
// Offsets (in elements) of all positions over some axes in row-major order, in the scratch arena.
int64_t *strided_offsets(Eval *e, int naxes, const int64_t *shape, const int64_t *stride, int64_t *count);
void strided_read_f64(DType t, const void *src, int64_t stride, int64_t n, double *dst);
void strided_read_i64(DType t, const void *src, int64_t stride, int64_t n, int64_t *dst); // u64: its bits
void strided_write_f64(DType t, void *dst, int64_t n, const double *src);
void strided_write_i64(DType t, void *dst, int64_t n, const int64_t *src);

// Walks the elements of a shape in row-major order by strips: the elements of a broadcast input for a strip.
typedef struct {
    int rank;
    int64_t shape[GRAPH_MAX_RANK];
} Walk;
void walk_fill(const Walk *w, const int64_t *stride, int size, const char *data, int64_t first, int n, void *dst);
// Strides of x seen as a tensor of the given shape (broadcast from the right); false when an extent is neither 1 nor equal.
bool walk_broadcast(const Strided *x, int rank, const int64_t *shape, int64_t *stride);

// ---- graph_eval_index.c: Dims over axes ----
typedef struct {
    int64_t c0, c[GRAPH_MAX_RANK];
} Affine; // c0 + sum of c[k]*d<k>
// d as an affine function of the axes where min, max, floordiv and mod decide themselves over the whole box; false otherwise. No extent is
// 0.
bool eval_affine(Eval *e, const Dim *d, int rank, const int64_t *shape, Affine *out);
void affine_range(const Affine *a, int rank, const int64_t *shape, int64_t *lo, int64_t *hi);

// Values of Dims on a strip of elements: axis symbols by the elements' positions, v symbols from arrays.
typedef struct {
    Eval *e;
    const Node *n;
    Walk walk;
    bool used[GRAPH_MAX_RANK];
    int64_t *axis[GRAPH_MAX_RANK]; // EVAL_STRIP values each
    int nv;
    const Dim *const *vsyms;
    int64_t **v;
    int count; // elements in the strip
    bool ok;   // false after a symbol without a value
} IndexStrip;
void index_begin(IndexStrip *s, Eval *e, const Node *n, int rank, const int64_t *shape);
void index_use(IndexStrip *s, const Dim *d);                 // before the walk: d will be asked for
void index_move(IndexStrip *s, int64_t first, int n);        // n <= EVAL_STRIP
void index_value(IndexStrip *s, const Dim *d, int64_t *out); // s->count values

#endif
