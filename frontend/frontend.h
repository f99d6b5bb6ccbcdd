// The frontend: a model file becomes a Graph. The trust boundary: nothing after it doubts the input (style.md section 6).
//
// onnx/wire.c scans the bytes, onnx/read.c makes protobuf-c structures and tensor spans, onnx/import.c walks the nodes through onnx.def's
// rows and the import_* functions (math.c nn.c shape.c …), which check attributes and compose core operations with the builders of graph.h.
#ifndef MLC_FRONTEND_H
#define MLC_FRONTEND_H

#include "../ir/graph.h"

// One fixed or bounded dimension: --dim batch=1, --dim seq=1..512, or --dim x:0=4 for an unnamed axis. lo == hi fixes.
// A symbolic dimension without bounds is 1 or more; `--dim past=0..512` admits empty tensors.
typedef struct {
    const char *name;
    int64_t lo, hi;
} DimOption;
// --shape x=1x3x224x224; -1 leaves an axis as the model has it. Gives an input without a shape its rank.
typedef struct {
    const char *input;
    int rank;
    int64_t dims[16];
} ShapeOption;
typedef struct {
    const char *past, *present;
} StateOption;

typedef struct {
    const DimOption *dims;
    int ndims;
    const ShapeOption *shapes;
    int nshapes;
    const StateOption *states;
    int nstates;
} FrontendOptions;

// Reads model file `path` ("-" is not allowed). NULL after diag_error (all faults that can be found, exit codes 1 and 3).
// The model file and its external data stay mapped until frontend_close: constants of the Graph point into them, and are not aligned there.
typedef struct Model Model;
Model *frontend_read(const char *path, Diag *d);
void frontend_close(Model *m);
const char *frontend_file(const Model *m, int i); // the i-th file that was read, the model first; NULL past the end
void frontend_forget(const Model *m);             // the pages read so far may go: most constants have been packed elsewhere
Graph *frontend_import(Model *m, const FrontendOptions *o, Diag *d);

// Files of the backend-test layout: a TensorProto, SequenceProto or OptionalProto (which one, the file does not say). false after
// diag_error.
typedef enum { VALUE_KIND_TENSOR, VALUE_KIND_SEQUENCE, VALUE_KIND_OPTIONAL } ValueKind;
typedef struct FrontendValue {
    ValueKind kind;
    Tensor tensor; // VALUE_KIND_TENSOR
    int n;         // items of a sequence; 0 or 1 of an optional
    struct FrontendValue *items;
} FrontendValue;
bool frontend_read_value(const char *path, ValueKind kind, Arena *a, FrontendValue *v, Diag *d);
bool frontend_read_tensor(const char *path, Arena *a, Tensor *t, Diag *d);

// The support table (mlc ops): row i or NULL past the end.
typedef struct {
    const char *domain, *name;
    int since, until;
} OperatorRow;
const OperatorRow *frontend_operator(int i);

#endif
