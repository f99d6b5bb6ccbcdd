// What part of a buffer statements touch: the ground on which schedule primitives prove that a rewrite is legal.
//
// An index is an element of a flat buffer. It is cut into digits by a list of strides, outermost first (index = sum of digit * stride, each
// digit but the first below the quotient of its neighbours' strides), so that a region is a box: an interval a digit. Any strides give true
// boxes; good ones (the buffer's shape, or the coefficients of its indices) give small ones.
#ifndef MLC_LOOP_REGION_H
#define MLC_LOOP_REGION_H

#include "loop.h"

enum {
    REGION_DIGITS = 6,
    REGION_MOST = 1 << 18 // elements of a local buffer that a schedule makes: it lies on the stack
};

typedef VEC(const Dim *) DimVec;
typedef VEC(Stmt *) StmtVec;

// One load or store of a buffer below a root block.
typedef struct {
    Stmt *stmt;
    const Expr *load;  // NULL: stmt is the store
    const Dim *index;  // of lane 0
    int64_t step;      // elements between lanes
    int64_t low, high; // elements that the lanes touch, from index on: low <= 0 <= high
    bool gathers;      // lane offsets from data: the place is unknown
    bool punned;       // as another type
    bool vague;        // stands under a condition of which the guards do not say all
    int top;           // number of the root's statement that holds it
    StmtVec path;      // statements around it, outermost first, stmt itself left out
    DimVec inner;      // symbols defined below the root in reach of it, in order of definition
    DimVec guards;     // each is >= 0 where the access happens
    int facts;         // the first of them hold in all of the root
} Access;
typedef VEC(Access) AccessVec;

// Every access of b below root, in order of the text. facts: guards that hold in all of root, NULL: none.
void access_collect(Program *p, Block *root, const LoopBuffer *b, const DimVec *facts, AccessVec *out);
bool access_under(const Access *a, const Stmt *s); // s is on its path

// What the quotients of one index come to where its guards hold.
typedef struct {
    const Dim *index, *digit[REGION_DIGITS];
    bool split; // false: nothing simpler than the quotients
} KnownDigits;
typedef struct {
    int n;
    const Dim *stride[REGION_DIGITS]; // the last is 1
    VEC(KnownDigits) known;
} Digits;
// The strides that suit all accesses best: those of the shape, or those of their loops' coefficients.
void digits_choose(Program *p, const LoopBuffer *b, const AccessVec *all, Digits *out);
void digits_learn(Program *p, Digits *g, const AccessVec *all); // the digits of more accesses
void digits_split(DimTable *t, const Digits *g, const Dim *index, const Dim **digit);
// The digit that the lanes of `a` move along; -1: its lanes may cross a digit's end.
int digits_lane(DimTable *t, const Digits *g, const Access *a);

// A box, ends inclusive; free of the accesses' inner symbols. cap: the constant number of elements a digit needs at most, 0: none known.
typedef struct {
    const Dim *lo[REGION_DIGITS], *hi[REGION_DIGITS];
    int64_t cap[REGION_DIGITS];
} Region;
// The hull of what `all` touch; NULL, or why there is none.
const char *region_hull(Program *p, const Digits *g, const AccessVec *all, Region *out);
// True when the store writes every element of its own hull, whatever the values of the symbols outside.
bool region_is_exact(DimTable *t, const Digits *g, const Access *store);
// With the facts no element of the box lies outside of a buffer of `size` elements (NULL: not known).
bool region_inside(DimTable *t, const Digits *g, const Region *r, const DimVec *facts, const Dim *size);
bool region_within(DimTable *t, const Digits *g, const Region *part, const Region *whole);
// d at its largest (or smallest) over the symbols, later ones first; NULL when that is not known.
const Dim *region_bound(DimTable *t, const Dim *d, const DimVec *inner, bool largest);
int64_t region_size(const Digits *g, const Region *r); // product of the caps, 0: not constant or too large

// ---- facts ----
// Appends Dims that are >= 0 wherever cond is true (negated: false); true when they say all that cond does.
bool guards_of(Program *p, const Expr *cond, bool negated, DimVec *out);
const Dim *expr_as_dim(DimTable *t, const Expr *e);                   // an idx scalar made of indices and integers; NULL otherwise
void kernel_facts(Program *p, Kernel *k, const Stmt *s, DimVec *out); // of the conditions around s
bool facts_prove(DimTable *t, const DimVec *facts, const Dim *ge0);

// ---- effects ----
// The statements around s in the kernel, outermost first, s itself last; n == 0: not there.
void kernel_path(Program *p, Kernel *k, const Stmt *s, StmtVec *path);
typedef struct {
    VEC(const Var *) reads, writes; // buffers
    VEC(const Var *) uses, sets;    // variables and tiles
    bool ordered;                   // has a check, a sticky flag, a break, a barrier: must run just so
    Arena *arena;
} Effects;
void effects_add(Effects *e, Stmt *s); // of s and all inside
// How memory of `other` may lie to that of `written`, which the kernel writes; they are not the same buffer.
AliasKind kernel_alias(const LoopBuffer *written, const LoopBuffer *other);

#endif
