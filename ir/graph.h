// The Graph: the small tensor language between the frontend and the lowering (design.md section 6).
//
// A Graph is a Region: parameters (the model's inputs), nodes in topological order, yields (the outputs). Values are SSA; a node in an
// inner region may use values of the regions around it. Ranks are static, extents are Dims. Operations are the rows of graph.def.
//
// Text (graph_print, graph_parse):
//   graph mnist
//   dim N in 1..1024                                   symbols: 'model' unless 'data' stands before 'dim'
//   input %x: f32[N, 1, 28, 28] "Input3"               region parameters, with the ONNX name
//   %w = const f32[2, 2] {1.0, 2.0, 3.0, 4.0}          or `= const f32[512, 512] data 3` (blob 3 of the file's side data)
//   %p = view %x index(d0, d1, d2 - 2, d3 - 2) guard(d2 - 2, 29 - d2, d3 - 2, 29 - d3) fill 0.0 : f32[N, 1, 32, 32] @"conv1" (Conv)
//   %m = map %p, %w body(max(a0 + a1, 0.0f32)) : f32[N, 1, 32, 32]
//   %a, %b = if %c { … yield %u } else { … yield %v } : f32[N], f32[N]
//   output %m "y"
//   tie %past %present                                 a state: output %present is input %past of the next run
// After a type may stand the ONNX tensor's name in quotes and `store(…)` (Storage); after the types @"node" (Operator) #number and `group
// n`. Constants over GRAPH_INLINE elements are blobs, numbered in the order of the text (graph_blob), or `splat V` when all elements are
// the same. The fields of a node are printed in the order of its graph.def row as name(…) or `fill V`, `kind sum`, `axis 1`.
#ifndef MLC_GRAPH_H
#define MLC_GRAPH_H

#include "expr.h"
#include "status.h"

typedef enum {
#define G(name, cls, lo, hi, nout, fields, meaning) G_##name,
#include "graph.def"
#undef G
    G_COUNT
} GOp;

typedef enum { GC_map, GC_reduce, GC_contract, GC_rowwise, GC_index, GC_view, GC_control, GC_value } GClass;
typedef struct {
    const char *name;
    GClass cls;
    int min_in, max_in, nout;
    const char *fields;
    const char *meaning;
} GOpInfo;
const GOpInfo *gop_info(GOp op);
GOp gop_parse(const char *name, size_t n); // G_COUNT when unknown

// GRAPH_FIELDS: F(name, kind) with kind of: int, f64, text (short word), ints, params (f64 list), dims (Dim list), expr, exprs, scalar,
// data, code (status.def), regions
#define GRAPH_FIELDS(F)                                                                                                                    \
    F(data, data)                                                                                                                          \
    F(dims, dims)                                                                                                                          \
    F(body, expr)                                                                                                                          \
    F(index, dims)                                                                                                                         \
    F(guard, dims)                                                                                                                         \
    F(fill, scalar)                                                                                                                        \
    F(axis, int)                                                                                                                           \
    F(kind, text)                                                                                                                          \
    F(axes, ints)                                                                                                                          \
    F(keep, int)                                                                                                                           \
    F(exclusive, int)                                                                                                                      \
    F(reverse, int)                                                                                                                        \
    F(subs, text)                                                                                                                          \
    F(eps, f64)                                                                                                                            \
    F(score, expr)                                                                                                                         \
    F(prob, expr)                                                                                                                          \
    F(scale, f64)                                                                                                                          \
    F(params, params)                                                                                                                      \
    F(flags, ints)                                                                                                                         \
    F(scans, int)                                                                                                                          \
    F(code, code)                                                                                                                          \
    F(regions, regions)

typedef struct Value Value;
typedef struct Node Node;
typedef struct Region Region;
typedef struct Graph Graph;

typedef struct {
    const Dim **data;
    int n;
} DimList;
typedef struct {
    const int64_t *data;
    int n;
} IntList;
typedef struct {
    const double *data;
    int n;
} F64List;

// Elements as in programs' memory (little endian, row-major, sub-byte types one byte each); points into the mapped model file or an arena.
typedef struct {
    const void *bytes;
    size_t size;
} Data;

// Physical storage of a value, apart from its logical shape, printed when not default. materialise decides the kind (AUTO, BUFFER, INLINE,
// CONST); what else stands here is text, checked and kept, that no pass sets yet: plan_memory places buffers in the Program.
typedef enum { STORE_AUTO, STORE_BUFFER, STORE_INLINE, STORE_INPUT, STORE_OUTPUT, STORE_CONST, STORE_STATE } StoreKind;
typedef struct {
    StoreKind kind;
    Value *root;        // shares root's memory: in place, a placement inside a concat, or a reshape of it; NULL: its own
    const Dim *offset;  // elements into root
    const char *region; // memory region by name; NULL: default
    int align;          // bytes; 0: 64
} Storage;

struct Value {
    int id;            // unique in the graph, dense
    const char *name;  // text after %; unique; chosen by the printer when NULL
    const char *label; // the ONNX tensor's name, or NULL
    DType type;
    int rank;
    const Dim **shape; // rank Dims
    Node *def;         // NULL for a region's parameter
    Region *region;    // where it is defined
    int out;           // which output of def, or which parameter
    // What is known of its elements: for integer and bool tensors of at most CONTENT_MAX elements, one Dim each; NULL: unknown.
    // This is how shape computations become dimension expressions (graph_infer_content).
    const Dim **content;
    int ncontent;
    Storage storage;
};
enum { CONTENT_MAX = 1024, GRAPH_MAX_RANK = 32 };

struct Node {
    GOp op;
    int nin, nout;
    Value **in, **out;
    const char *label; // the ONNX node's name, or NULL
    const char *onnx;  // its operator ("Conv"), or NULL
    int onnx_id;       // number of the ONNX node, 1 based, for error statuses; 0: none
    const Dim **vsyms; // gather, scatter: the symbols v0… of the index inputs (one each)
    int nvsyms;
    int group;      // row group, 0: none: statistics computed in front of each row of the one stored value that has their number
    Region *region; // where it stands
    // fields
    Data data;
    DimList dims, index, guard;
    const Expr *body, *score, *prob;
    Scalar fill;
    int64_t axis, keep, exclusive, reverse, scans;
    const char *kind, *subs;
    StatusCode code;
    IntList axes, flags;
    double eps, scale;
    F64List params;
    struct {
        Region **data;
        int n;
    } regions;
};

struct Region {
    Graph *graph;
    Node *owner; // NULL for the graph itself
    VEC(Value *) params;
    VEC(Node *) nodes;
    VEC(Value *) yields;
};

// A state tie: output `out` becomes input `in` of the next run (--state past=present).
typedef struct {
    Value *in, *out;
} StateTie;

struct Graph {
    Arena *arena;
    DimTable *dims;
    const char *name;
    Region *body;
    VEC(const Dim *) symbols;       // SYM_MODEL and SYM_DATA symbols in order of appearance
    VEC(const char *) output_names; // one a yield of body
    VEC(StateTie) states;
    VEC(const char *) metadata;   // key, value, key, value …
    int nvalues;                  // next Value.id
    int nonnx;                    // ONNX nodes numbered so far
    VEC(const char *) onnx_names; // name of ONNX node i+1
    uint64_t hash;                // of the model file
};

Graph *graph_new(const char *name);
void graph_free(Graph *g); // NULL is allowed; set g->dims to NULL first to keep the Dims

// Templates: the rows of template.def.
typedef struct {
    const char *kind;
    int min_in, max_in, min_out, max_out, ndims, nflags;
    const char *meaning;
} GTemplateInfo;
const GTemplateInfo *gtemplate_info(const char *kind); // NULL when unknown

// ---- builders: infer type, shape and content, append to the region's end, return the (first) output ----
// They assert their preconditions, ranks and axes above all: the frontend checks and reports those before. Extents and types that disagree
// it may learn from the Builder (notes_faults). label, onnx and onnx_id go into new nodes.
typedef struct {
    Graph *g;
    Region *region;
    const char *label, *onnx;
    int onnx_id;
    // What to do where extents or types that must agree do not: true: the first such fault is noted here as text and the builder goes on
    // (with the first operand's); false: an assertion fails.
    bool notes_faults;
    const char *fault;
} Builder;

Value *g_const(Builder *b, DType t, int rank, const Dim *const *shape, Data data);
Value *g_const_ints(Builder *b, DType t, int n, const int64_t *v); // rank 1; n < 0: a scalar (rank 0)
Value *g_const_float(Builder *b, DType t, double v);               // rank 0
Value *g_dims(Builder *b, int n, const Dim *const *d);             // rank 1 i64; n < 0: a scalar of d[0]
// Shape = numpy broadcast of the inputs' (an extent of 1 gives way; two unknown ones must be equal or become a check).
Value *g_map(Builder *b, int n, Value *const *in, const Expr *body);
void graph_build_fault(Builder *b, const char *fmt, ...) __attribute__((format(printf, 2, 3))); // notes it, or fails an assertion
const Dim *graph_broadcast_extent(Builder *b, const Dim *x, const Dim *y); // of one axis; adds the check that a proof leaves open
Value *g_map_shape(Builder *b, int n, Value *const *in, const Expr *body, int rank, const Dim *const *shape);
Value *g_map1(Builder *b, XOp op, Value *x);
Value *g_map2(Builder *b, XOp op, Value *x, Value *y);
Value *g_cast(Builder *b, DType t, Value *x); // x itself when already t
Value *g_view(
    Builder *b, Value *x, int rank, const Dim *const *shape, const Dim *const *index, int nguard, const Dim *const *guard, Scalar fill);
Value *g_reshape(Builder *b, Value *x, int rank, const Dim *const *shape);
Value *g_concat(Builder *b, int n, Value *const *in, int axis);
// index and guard over dim_axis symbols of `shape` and the symbols v[i] (one for each of nidx index inputs, made by dim_symbol(SYM_DATA)).
Value *g_gather(Builder *b, Value *x, int nidx, Value *const *idx, const Dim *const *v, int rank, const Dim *const *shape,
    const Dim *const *index, int nguard, const Dim *const *guard, Scalar fill);
Value *g_scatter(Builder *b, Value *x, Value *updates, int nidx, Value *const *idx, const Dim *const *v, const Dim *const *index,
    int nguard, const Dim *const *guard, const char *kind);
Value *g_reduce(Builder *b, const char *kind, Value *x, int naxes, const int64_t *axes, bool keep);
Value *g_scan(Builder *b, const char *kind, Value *x, int axis, bool exclusive, bool reverse);
Value *g_contract(Builder *b, const char *subs, Value *x, Value *y, DType out);
Value *g_softmax(Builder *b, const char *kind, Value *x, int naxes, const int64_t *axes);
Value *g_norm(Builder *b, const char *kind, Value *x, int naxes, const int64_t *axes, double eps);
// prob NULL: a0 itself. in: q, k, v, then the further inputs of score (a1 …).
Value *g_attention(Builder *b, int nin, Value *const *in, const Expr *score, const Expr *prob, double scale);
// kind uniform (params low, high), normal (mean, scale), bernoulli (p: the input's probabilities), multinomial (p: [batch, classes] log
// weights).
Value *g_random(Builder *b, const char *kind, Value *p, DType t, int rank, const Dim *const *shape, F64List params);
Node *g_template(Builder *b, const char *kind, int nin, Value *const *in, int nout, const DType *types, const int *ranks,
    const Dim *const *const *shapes, int64_t axis, F64List params, DimList defines, IntList flags);
// A size from data: element k of the integers v as a Dim: its content when known, else a fresh symbol with bounds lo, hi (NULL: open)
// defined by a template `size` node.
const Dim *g_size(Builder *b, Value *v, int k, const char *name, const Dim *lo, const Dim *hi);
void g_check(Builder *b, Value *cond, int nguard, const Dim *const *guard, StatusCode code);
// An If or Loop whose regions were filled by the caller (graph_region_new); infers the outputs.
Node *g_if(Builder *b, Value *cond, Region *then, Region *otherwise);
Node *g_loop(Builder *b, Value *trip, Value *cond, int ncarried, Value *const *init, Region *body, int nscans);
Region *graph_region_new(Graph *g, Node *owner);
Value *graph_param(Region *r, const char *label, DType t, int rank, const Dim *const *shape);

// Views that operators share; all are g_view or g_reshape.
Value *g_transpose(Builder *b, Value *x, const int64_t *perm);
Value *g_expand(Builder *b, Value *x, int rank, const Dim *const *shape);                           // numpy broadcast
Value *g_slice(Builder *b, Value *x, int axis, const Dim *start, const Dim *len, int64_t step);     // out[i] = x[start + i*step]
Value *g_pad(Builder *b, Value *x, const Dim *const *before, const Dim *const *after, Scalar fill); // negative pads crop
Value *g_unsqueeze(Builder *b, Value *x, int axis);
Value *g_squeeze(Builder *b, Value *x, int axis);
// Sliding windows over the last `n` axes: [.., L1, .., Ln] -> [.., O1, .., On, K1, .., Kn] with element [o*stride + k*dilation - pad] or
// fill outside.
Value *g_windows(Builder *b, Value *x, int n, const Dim *const *out, const Dim *const *kernel, const int64_t *stride,
    const int64_t *dilation, const Dim *const *pad, Scalar fill);

// Fills v->content from the inputs' contents where they are known; called by every builder.
void graph_infer_content(Graph *g, Node *n);
bool value_content_int(const Value *v, int i, int64_t *out); // element i as a constant, false when unknown
const Dim *value_size(Graph *g, const Value *v);             // number of elements
bool value_same_shape(const Value *a, const Value *b);       // the same rank and Dims
// v is its operand's elements in their order under another shape: a reshape, or a view that only adds or drops axes of one element.
bool value_is_reshape(const Graph *g, const Value *v);

// ---- editing ----
// Appends a node with nout fresh outputs of unknown type (the builders' base).
Node *graph_add_node(Builder *b, GOp op, int nin, Value *const *in, int nout);
Value *graph_value_new(Graph *g, Region *r, Node *def, int out, DType t, int rank, const Dim *const *shape);
void graph_value_type(Graph *g, Value *v, DType t, int rank, const Dim *const *shape); // gives a value another type and shape
// A fresh symbol in g->symbols; the name gets a suffix when another symbol has it.
const Dim *graph_symbol(Graph *g, const char *name, SymKind kind, const Dim *lo, const Dim *hi);
// Replaces every use of a (nodes and yields of all regions) by b.
void graph_replace(Graph *g, Value *a, Value *b);
void graph_count_uses(const Graph *g, int *uses); // uses[Value.id], yields included; array of g->nvalues
void graph_remove_dead(Graph *g);
// Another piece of the same model, by the ONNX names of tensors outside of branches and loops: `inputs` become parameters, what only they
// needed goes, parameters nobody needs too (but those that alone tell a dimension in use); with noutputs > 0 the outputs are exactly
// `outputs` (and the next values of states); `taps` are further outputs. false after diag_error.
typedef struct {
    const char *const *inputs, *const *outputs, *const *taps;
    int ninputs, noutputs, ntaps;
} GraphCut;
bool graph_cut(Graph *g, const GraphCut *c, Diag *d);
void graph_walk(Region *r, void (*fn)(void *ctx, Node *n), void *ctx); // nodes in order, a node before its regions' nodes

// ---- the four tools ----
enum { GRAPH_INLINE = 64 };
void graph_print(Str *s, const Graph *g);
bool graph_blob(const Graph *g, int k, Data *out); // the k-th constant that graph_print writes as `data k`; false past the end
// Blob references resolve through blob (may be NULL: they are faults then), which returns false for an unknown one; the bytes must outlive
// the graph. NULL after diag_error on a fault.
Graph *graph_parse_blobs(const char *text, const char *file, Diag *d, bool (*blob)(void *ctx, int k, Data *out), void *ctx);
Graph *graph_parse(const char *text, const char *file, Diag *d);
// Checks the rules numbered in graph_verify.c's head; reports all violations; true when there are none.
bool graph_verify(const Graph *g, Diag *d);
void graph_print_dot(Str *s, const Graph *g);

// ---- graph_eval: the reference ----
// A tensor of the evaluator and of everything that feeds or checks a run. data: elements as in programs' memory (strings: StringElement).
typedef struct {
    DType type;
    int rank;
    int64_t *shape;
    void *data;
    size_t bytes;
} Tensor;
Tensor tensor_new(Arena *a, DType t, int rank, const int64_t *shape);
int64_t tensor_count(const Tensor *t);

// Runs g on inputs (one a parameter, types and ranks checked); dimension symbols are bound from their shapes. outputs: one a yield, in
// `arena`. watch (may be NULL) sees every computed value. 0, or a negative status as generated code returns, with the reason in d.
int graph_eval(const Graph *g, const Tensor *inputs, Tensor *outputs, Arena *arena,
    void (*watch)(void *ctx, const Value *v, const Tensor *t), void *ctx, Diag *d);
// Evaluates one node without symbols on constant inputs (for folding); false when it cannot.
bool graph_eval_node(const Node *n, const Tensor *in, Tensor *out, Arena *arena);

#endif
