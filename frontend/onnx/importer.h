// Inside of the importer: the state of one import, the scopes of names, and what the driver's files share.
//
//   import.c    the driver: decisions and restarts, nodes in order, outputs
//   function.c  model-local functions, imported in place
//   scope.c     names -> values, outwards through subgraphs
//   input.c     the model's inputs, dimensions and state ties
//   attr.c      attributes of a node against its row
//   check.c     faults, and the checks that import functions share
//   control.c   If
//   split.c     the rest of the model behind each branch of an If
//   subgraph.c  graphs in attributes, into a region of their own or in place
#ifndef MLC_IMPORTER_H
#define MLC_IMPORTER_H

#include "import.h"
#include "read.h"

// What a name stands for.
typedef enum {
    BIND_VALUE,  // value, NULL: an optional input of a function that its call leaves out
    BIND_TENSOR, // an initialiser, made a const of the scope's region at its first use
    BIND_LATER,  // a node further down computes it
    BIND_FAULTY  // its node failed: uses are passed over, so that one fault is one message
} BindKind;

typedef struct {
    const char *name;
    BindKind kind;
    Value *value;
    TensorData tensor;
} Binding;

// An attribute as the node means it: a reference is followed to the attribute of the function's call.
typedef struct BoundAttr {
    const char *name;
    const Onnx__AttributeProto *proto;
} BoundAttr;

// A call of a model-local function; the model's graph is the call without function.
typedef struct Call {
    struct Call *caller;
    const Onnx__FunctionProto *function; // NULL: the model's graph
    Onnx__OperatorSetIdProto **opsets;
    size_t nopsets;
    const BoundAttr *attrs; // of the calling node and the function's defaults
    int nattrs;
    const char *prefix; // of its nodes' labels
} Call;

// The names of one graph or function body.
typedef struct Scope {
    struct Scope *outer; // of the graph around a subgraph; NULL: functions see nothing of their callers
    Region *region;      // where its nodes go
    Call *call;
    int depth;      // scopes around it, callers' included
    bool is_model;  // of the model's own nodes
    Binding *table; // open addressing, a power of two
    int n, cap;
} Scope;

enum { MAX_DECISIONS = 20, MAX_RUNS = 256, MAX_SCOPES = 100, MAX_NODES = 1 << 18, MAX_FAULTS = 100 };

// An If whose branches differ in type or rank, met among the model's nodes: what follows is imported behind each (split.c).
typedef struct {
    ImportNode node;
    Value *cond;
    Region *branch[2];
} Split;

typedef struct Importer {
    Model *model;
    const FrontendOptions *options;
    Graph *graph;
    Diag *diag;
    Scope *scope;
    bool fail_fast; // a run after the first: its faults are not shown
    bool stopped;   // too many faults, or the first of a fail_fast run: no further messages
    // decisions (import_decide): choice[0 .. nchosen) are given, `decided` counts those asked for, in order
    unsigned char choice[MAX_DECISIONS];
    int nchosen, decided;
    int decided_at_fault;          // decided when the first fault was found, -1: none yet
    VEC(const char *) unsupported; // operators already reported
    Split *split;                  // set by a node: the nodes behind it are to be split
    int splits;                    // around the nodes at hand
} Importer;

// Faults of a part that may turn out not to be needed.
typedef struct {
    Importer before;
    Diag faults;
} Held;

// ---- scope.c ----
Scope *scope_new(Importer *imp, Scope *outer, Call *call, Region *region);
Binding *scope_add(Importer *imp, Scope *s, const char *name); // NULL when the scope has the name already
Binding *scope_find(const Scope *s, const char *name);         // in this scope only
// The name's binding here or outwards, initialisers made into consts; NULL when nothing has it.
Binding *scope_lookup(Importer *imp, Scope *s, const char *name);
Value *tensor_const(Builder *b, const TensorData *t, const char *label);

// ---- import.c ----
// A fault that no node is at. false always.
bool importer_fault(Importer *imp, ExitCode code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool importer_vfault(Importer *imp, ExitCode code, const char *prefix, const char *fmt, va_list ap);
// Nodes in order into s (which becomes imp->scope meanwhile). false when one failed.
bool import_nodes(Importer *imp, Scope *s, size_t n, Onnx__NodeProto **nodes);
bool import_initializers(Importer *imp, Scope *s, const Onnx__GraphProto *g);
// The value that name stands for at the end of scope s; NULL after a fault (`what` names the thing that wants it).
Value *import_output(Importer *imp, Scope *s, const char *name, const char *what);
const char *short_name(Importer *imp, const char *name); // at most 100 bytes of it, for messages

// ---- control.c ----
extern const char *const if_branches[2];
// Leaves the program unless the condition is `want`; true: it compares sizes, so that the caller's shapes decide at entry.
bool if_check(ImportNode *n, Value *cond, bool want);
void faults_hold(Importer *imp, Held *h);
// Ends the holding of a part that is imported (ok) or not. true: the part is at fault by itself, h->faults holds its messages; false: its
// messages are the importer's. Faults after a decision inside of it are the decision's: they stay faults.
bool faults_release(Importer *imp, Held *h, bool ok);

// ---- split.c ----
bool split_begin(ImportNode *n, Value *cond, Region *const *branch); // false: not here
// The nodes behind p, whose split is imp->split: binds the model's outputs in s. false after a fault.
bool split_rest(Importer *imp, Scope *s, const Onnx__NodeProto *p, size_t n, Onnx__NodeProto **nodes);

// ---- function.c ----
const Onnx__FunctionProto *function_find(const Importer *imp, const Onnx__NodeProto *p); // NULL when the model has none such
bool function_call(ImportNode *n, Scope *s, const Onnx__FunctionProto *f);               // sets n->out; false after a fault

// ---- input.c ----
bool import_inputs(Importer *imp, Scope *s);
bool import_states(Importer *imp);

// ---- attr.c ----
// Follows references to attributes of the function that call stands for: sets n->attrs. false after a fault.
bool attrs_bind(ImportNode *n, const Call *call, const Onnx__NodeProto *proto);
bool attrs_check(ImportNode *n);                                             // against n->row; false after a fault
const BoundAttr *attr_find(const BoundAttr *attrs, int n, const char *name); // NULL when absent

// ---- subgraph.c ----
// The one element of v as a scalar, where the node's builder stands; NULL after a fault that names `what`.
Value *scalar_value(ImportNode *n, Value *v, DType type, const char *what);
void region_splice(Region *to, Region *from); // moves from's nodes to the end of `to`

#endif
