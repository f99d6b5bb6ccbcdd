// The interface of a compiled Program as data: names, places and sizes that both printers must agree on, because C and LLVM share one
// header.
//
// Arena: planned temps, then temps without a planned offset, then room for outputs the caller does not want; each part is a multiple of 64
// bytes. State: the state buffers in order, each at a multiple of 64 bytes. Region r holds the temps with that region's name at their
// offsets.
#ifndef MLC_LAYOUT_H
#define MLC_LAYOUT_H

#include "codegen.h"

enum { LAYOUT_ALIGN = 64, WEIGHTS_HEAD = 128 };

// An input, an output or a state.
typedef struct {
    const char *name; // C name, unique among its kind
    LoopBuffer *buffer;
    const Dim *elements; // mentions data dims when dynamic
    const Dim *bytes;    // at most, over model dims only; NULL: no bound is known
    bool dynamic;        // output: an extent is a size of main, so the struct has its capacity and shape
    int tie;             // state the buffer is tied to (its own number for a state), -1: none
    const Dim *fallback; // output: byte offset in the arena where a null pointer is led; NULL: null is CODE_POINTER (tied: the state)
    size_t offset;       // state: byte offset in the state
} LayoutSlot;

typedef struct {
    const char *name; // as in the Program
    const char *cname;
    size_t bytes;
} LayoutRegion;

typedef struct {
    const char *name;  // as in the Program, for texts
    const char *cname; // member of the dims struct
    const Dim *sym;
    int64_t lo, hi; // inclusive; hi is DIM_INF when open
} LayoutDim;

// A constant: where it is in the blob. Levels share constants of equal content.
typedef struct {
    const LoopBuffer *buffer;
    int level; // of the target's levels
    int first; // number of the place that stands for its content, its own where it is the first
    size_t offset;
} WeightPlace;
typedef VEC(WeightPlace) WeightPlaces;

typedef struct {
    const char *prefix;
    int ninputs, noutputs, nstates, ndims, nregions, ntemps;
    LayoutSlot *inputs, *outputs, *states;
    LayoutDim *dims;
    LayoutRegion *regions;
    LoopBuffer **temps;      // every BUF_TEMP that is not unbounded
    const Dim **temp_offset; // of temps[i]: in its region or the arena
    int *temp_region;        // of temps[i]: index in regions, -1: the arena
    size_t state_bytes;
    const Dim *arena_bytes; // over model dims
    bool constant;          // no model dims, states, regions or allocator: PREFIX_run exists
    bool allocates;         // main has alloc
    int team;               // members of the largest team, 0: none
    size_t weights_bytes;   // of the weights blob or object, 0: the constants are in the source
    uint64_t weights_hash;
    WeightPlaces weights;
} Layout;

// In p's dims and arena `a`. NULL after diag_error (a state, region or arena without constant bound).
Layout *codegen_layout(Arena *a, const Program *p, const char *prefix, Diag *d);
// The levels' common interface: the largest arena and regions, what any of them needs.
Layout *codegen_layout_levels(Arena *a, const EmitOptions *o, const char *prefix, Diag *d);
void layout_places(Arena *a, Layout *l, const Program *p, const EmitOptions *o); // sets weights (weights.c)
void layout_weights(Layout *l, const Program *p, const EmitOptions *o);          // behind it: weights_bytes and weights_hash
const WeightPlace *layout_weight(const Layout *l, const LoopBuffer *b);          // of a constant
const char *weights_symbol(Arena *a, const char *prefix, uint64_t hash);         // of the blob in an object
int layout_temp(const Layout *l, const LoopBuffer *b);                           // index in temps, -1: none
int layout_kernel(const Program *p, const Kernel *k);                            // its number for env's hook: its place among the kernels

#endif
