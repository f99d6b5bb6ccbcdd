// Property tests: seeded random graphs whose results must not change on the way through the compiler.
//
// generate.c and expr.c make a graph and its inputs from a seed; check.c takes it through evaluator, graph passes, loop passes, interpreter
// and both printers; prop.c forks one process a graph, batches the emitted C and reports. A failure is reproduced by its seed alone.
#ifndef MLC_PROP_H
#define MLC_PROP_H

#include "../../cli/compare.h"
#include "../../passes/passes.h"

enum { MAX_OUTPUTS = 8, MAX_INPUTS = 8 };

// What is known of a value: whether all stages must agree on it to the bit, and how large its elements may be.
typedef struct {
    Value *v;
    bool exact;  // no float was summed on the way: discrete functions may depend on it
    bool tame;   // float elements are within about ±10 (or special): sums of them cannot cancel badly
    bool coarse; // rounded to a 16-bit float after something inexact
} Item;

typedef struct {
    Builder b;
    Arena *a;
    DimTable *t;
    uint64_t rng;
    VEC(Item) pool;       // visible values
    const Dim *n;         // the symbolic dimension
    const Dim *extent[4]; // extents that many shapes share, so that operands fit
    int depth;            // of regions
} Gen;

// How the compiler is called.
typedef struct {
    const Target *target;
    int level;            // as PassOptions.level
    const char *disabled; // passes left out, NULL: none
} Config;

typedef struct {
    Graph *g;
    Config config;
    int64_t n; // value of the symbolic dimension
    int nin, nout;
    Tensor in[MAX_INPUTS];
    Tolerance tolerance[MAX_OUTPUTS];
} Case;

// The case of a seed; g is the caller's to free, the tensors are in `a`.
void prop_generate(Case *c, uint64_t seed, Arena *a);
// One line of text on the configuration, in `a`.
const char *prop_config_text(const Case *c, Arena *a);

// ---- shared by generate.c, expr.c and configure.c ----
uint32_t gen_bits(Gen *g);
int gen_int(Gen *g, int lo, int hi); // inclusive
bool gen_chance(Gen *g, int percent);
Config prop_configure(Gen *g, Arena *a); // text in `a`
DType gen_type(Gen *g);
// A body of the result type t over the items; *exact: whether its result is.
const Expr *gen_body(Gen *g, DType t, const Item *in, int nin, const Value *like, bool *exact);

// ---- check.c ----
// Shared with the process that watches: for reports of crashes too.
typedef struct {
    char stage[96];     // what is being done
    char message[4096]; // what went wrong
    char text[1 << 16]; // the case
} Progress;

// Runs the case through all that needs no C compiler; writes its C source to the path `source` when given. false after a report in d.
bool check_case(const Case *c, Arena *a, bool llvm, const char *source, const char *prefix, Progress *p, Diag *d);
// Runs the C that check_case wrote, from a library, against the interpreter, bit for bit.
bool check_library(const Case *c, Arena *a, const char *so, const char *prefix, Diag *d);

#endif
