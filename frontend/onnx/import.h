// What an import function sees: one ONNX node with its inputs as Values, its attributes, and a Builder placed where the node stands.
//
// An import function checks what onnx.def's row cannot say, composes core operations with graph.h's builders and sets n->out[]. It returns
// false after import_fail (the model is wrong, exit 1) or import_unsupported (mlc cannot do it yet, exit 3; the message names what is
// missing). Types, arity and unknown attributes were checked against the row; n->in[i] is NULL for a missing optional input.
#ifndef MLC_IMPORT_H
#define MLC_IMPORT_H

#include "../frontend.h"

typedef struct ImportNode ImportNode;
typedef bool ImportFn(ImportNode *n);

// A row of onnx.def: OP(domain, name, since, until, min_in, max_in, min_out, max_out, attrs, fn)
//   since, until  the opset versions of the domain in which the row holds, both included; until 0: still valid
//   max           -1: any number
//   attrs         "axis:i=0 axes:is=0,1 mode:s=nearest alpha:f=0.01 value:t body:g!": name, kind, '!': required, '=': default (none: absent
//   unless given)
//                 kinds: i f s t g (graph) is fs ss ts st (sparse tensor) tp (type)
// Rows of one operator with different versions name the same or another function; n->version is the opset's version in effect.
typedef struct {
    const char *domain, *name;
    int since, until;
    int min_in, max_in, min_out, max_out;
    const char *attrs;
    const char *fn_name;
    ImportFn *fn;
} OpRow;

struct ImportNode {
    const OpRow *row;
    int version;   // of the domain's opset in this model
    int nin, nout; // as the node has them, without missing ones at the end
    Value **in;    // max(nin, row->max_in) entries, NULL where missing
    Value **out;   // max(nout, row->max_out) entries, to be set; NULL allowed only where !wanted
    bool *wanted;  // the output has a name; as long as out
    Builder b;     // carries label, operator, number
    Arena *arena;  // the graph's
    DimTable *dims;
    const struct BoundAttr *attrs; // attr.c
    int nattrs;
    struct Importer *importer;
};

// ---- attributes (with the row's default when absent, else zero; assert that the row names them with that kind) ----
bool attr_has(const ImportNode *n, const char *name);    // given by the node
bool attr_exists(const ImportNode *n, const char *name); // the row names it: this version has it
int64_t attr_int(const ImportNode *n, const char *name);
double attr_float(const ImportNode *n, const char *name);
const char *attr_string(const ImportNode *n, const char *name); // NULL when absent without default
IntList attr_ints(const ImportNode *n, const char *name);       // n == 0 when absent
F64List attr_floats(const ImportNode *n, const char *name);
int attr_strings(const ImportNode *n, const char *name, const char *const **out);
Value *attr_tensor(ImportNode *n, const char *name); // as a const (dense or sparse); NULL when absent or after an error
// Imports a subgraph attribute into a new region with these parameters; captured names resolve outwards. Its outputs become the region's
// yields. NULL after an error.
typedef struct {
    DType type;
    int rank;
    const Dim *const *shape;
} ParamType;
Region *attr_region(ImportNode *n, const char *name, int nparams, const ParamType *params);
// Imports a subgraph attribute where the node stands, its inputs standing for args: *outs gets its outputs. false after an error.
bool attr_inline(ImportNode *n, const char *name, int nargs, Value *const *args, int *nouts, Value ***outs);
// Number of outputs a subgraph attribute declares; -1 when it is absent.
int attr_graph_outputs(const ImportNode *n, const char *name);

// ---- faults ----
bool import_fail(const ImportNode *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));        // returns false
bool import_unsupported(const ImportNode *n, const char *fmt, ...) __attribute__((format(printf, 2, 3))); // returns false

// ---- helpers shared by the families ----
bool import_axis(const ImportNode *n, int64_t axis, int rank, int *out);     // normalises a negative axis; fails when outside
bool import_axes(const ImportNode *n, IntList axes, int rank, int64_t *out); // all of them, no duplicates
// Fails when an input has another rank, or an extent that is disproved; what a proof leaves open is checked at run time. A missing input is
// passed over.
bool import_rank(const ImportNode *n, int input, int rank);
bool import_value_is(ImportNode *n, const char *what, const Value *v, int rank, const Dim *const *shape);
bool import_shape_is(ImportNode *n, int input, int rank, const Dim *const *shape);
bool import_word(const ImportNode *n, const char *attribute, const char *const *words); // its value is one of words (ended by NULL)
// Fails when extents of the values, aligned at the last axis as NumPy does, are unequal constants other than 1. NULL values are passed
// over.
bool import_broadcast(const ImportNode *n, int nvalues, Value *const *v);
// An input that must be known at compile time or as symbols: its content as Dims (rank 0 or 1). false after unsupported, naming the input.
bool import_content(const ImportNode *n, int input, const Dim *const **elems, int *count);
// The same for sizes: elements that are data become sizes of the run.
bool import_sizes(ImportNode *n, int input, const Dim *const **elems, int *count);
bool import_const_ints(const ImportNode *n, int input, int64_t *out, int max, int *count);
// v's elements when v is a constant or computed from constants alone (at most 2^20 elements); false, without a message, when it is not.
bool import_known_tensor(const ImportNode *n, const Value *v, Tensor *t);
// A size of at least lo: the one element of an integer input, a size of the run when it is data. NULL after a fault.
const Dim *import_extent(ImportNode *n, int input, int64_t lo);
// v as a constant when its node computes at most 2^16 elements from nothing or from constants; else v.
Value *import_settled(ImportNode *n, Value *v);
const char *import_shape_text(const ImportNode *n, const Value *v); // "f32[N, 3]" for messages
// A decision between things that the model's facts leave open (If with branches of different rank): returns the current choice, 0 first;
// when the rest of the model fails to import, the importer starts again with the next choice. nchoices is at most 2.
int import_decide(ImportNode *n, int nchoices);

#define IMPORT_FUNCTIONS_DECLARE
#define OP(domain, name, since, until, min_in, max_in, min_out, max_out, attrs, fn) ImportFn fn;
#include "onnx.def"
#undef OP

#endif
