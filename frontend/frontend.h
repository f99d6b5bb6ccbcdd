// The frontend: a model file becomes a Graph. The trust boundary: nothing after it doubts the input (style.md section 6).
//
// onnx/wire.c scans the bytes, onnx/read.c makes protobuf-c structures and tensor spans, onnx/import.c walks the nodes through onnx.def's rows and
// the import_* functions (math.c nn.c shape.c …), which check attributes and compose core operations with the builders of graph.h.
#ifndef MLC_FRONTEND_H
#define MLC_FRONTEND_H

#include "../ir/graph.h"

// One fixed or bounded dimension: --dim batch=1, --dim seq=1..512, or --dim x:0=4 for an unnamed axis. lo == hi fixes.
typedef struct { const char *name; int64_t lo, hi; } DimOption;
// --shape x=1x3x224x224
typedef struct { const char *input; int rank; int64_t dims[16]; } ShapeOption;
typedef struct { const char *past, *present; } StateOption;

typedef struct {
    const DimOption *dims;
    int ndims;
    const ShapeOption *shapes;
    int nshapes;
    const StateOption *states;
    int nstates;
} FrontendOptions;

// Reads model file `path` ("-" is not allowed). NULL after diag_error (all faults that can be found, exit codes 1 and 3).
// The model file stays mapped until frontend_unmap (constants point into it).
typedef struct Model Model;
Model *frontend_read(const char *path, Diag *d);
void frontend_close(Model *m);
Graph *frontend_import(Model *m, const FrontendOptions *o, Diag *d);

// A TensorProto or SequenceProto file (.pb of the backend-test layout) as a Tensor.
bool frontend_read_tensor(const char *path, Arena *a, Tensor *t, Diag *d);

// The support table (mlc ops): row i or NULL past the end.
typedef struct { const char *domain, *name; int since, until; } OperatorRow;
const OperatorRow *frontend_operator(int i);

#endif
