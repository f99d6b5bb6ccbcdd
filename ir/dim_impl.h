// Inside of the dim module: shared by dim*.c only.
//
// Representation. A Dim is a polynomial with int64 coefficients over atoms: symbols, floordiv, min and max. mod is not stored:
// mod(x, k) is x - k*floordiv(x, k), so that sums, differences and round trips through reshapes cancel by plain polynomial arithmetic and
// equal polynomials are one pointer. What printers see (dim_shown) folds such pairs back into mod atoms.
//
// Order: monomials by degree (high first), then factor by factor; so the constant is last and the order is compatible with products,
// as division by a leading term needs. Atoms: symbols by name, then floordiv, mod, min, max by structure; creation order breaks ties of
// symbols that look alike.
#ifndef MLC_DIM_IMPL_H
#define MLC_DIM_IMPL_H

#include "dim.h"

enum {
    TERMS_MAX = 256,   // of one Dim; beyond, the result is poison
    DEGREE_MAX = 32,   // of one monomial
    WEIGHT_MAX = 4096, // atoms and terms of a Dim, written out in full
    DEPTH_MAX = 200    // of nested atoms
};

typedef struct {
    int64_t lo, hi; // inclusive; -DIM_INF and DIM_INF: open
} Range;

typedef struct AtomNode {
    Atom pub; // first: an Atom * of dim_factor is an AtomNode *
    Sym sym;
    uint64_t hash;
    int id, weight, depth;
    Range range;
    uint64_t stamp; // of the dim_subst that `image` belongs to
    const Dim *image;
} AtomNode;

// A product of atoms in order, with repetition; interned.
typedef struct {
    uint64_t hash;
    int n;
    Range range;
    AtomNode *const *f;
} Mono;

typedef struct {
    int64_t c; // never 0
    const Mono *m;
} Term;

struct Dim {
    DimTable *table;
    uint64_t hash;
    const Term *terms;
    const Dim *shown;      // the printers' form, the only one with ATOM_MOD; NULL until asked for
    AtomNode *const *syms; // distinct, in order
    int nterms, nsyms, weight, depth;
    bool poison, tight, asked; // asked: syms are known
    Range range;               // from the terms alone until `tight`
};

typedef enum { MEMO_FLOORDIV, MEMO_MIN, MEMO_MAX, MEMO_AXIS, MEMO_GE0 } MemoOp;

typedef struct {
    MemoOp op;
    int64_t n;
    const Dim *a, *b;
    const Dim *result; // NULL: not known yet
    Tri tri;
    bool busy, done;
} Memo;

// The remembered result of op on (a, b, n), made empty on the first call.
Memo *dim_memo(DimTable *t, MemoOp op, const Dim *a, const Dim *b, int64_t n);

Arena *dim_arena(DimTable *t);
const Dim *dim_poison(DimTable *t);
const Dim *dim_of_term(DimTable *t, int64_t c, const Mono *m);
// No simplification; NULL and poison when too large. ATOM_MOD only for shown forms: its `self` is the expanded Dim.
AtomNode *dim_atom_node(DimTable *t, AtomKind kind, const Dim *a, const Dim *b);
const Dim *dim_of_atom(DimTable *t, AtomKind kind, const Dim *a, const Dim *b);
const Mono *dim_mono_of(DimTable *t, AtomNode *atom);
int dim_compare(const Dim *a, const Dim *b);
AtomNode *dim_as_atom(const Dim *d); // when d is exactly one atom; else NULL

// Products and quotients of monomials; NULL when too large, or not divisible.
const Mono *mono_mul(DimTable *t, const Mono *a, const Mono *b);
const Mono *mono_div(DimTable *t, const Mono *a, const Mono *b);
const Mono *mono_gcd(DimTable *t, const Mono *a, const Mono *b);

// A sum being collected.
typedef struct {
    Term *t;
    int n, cap;
    bool bad;
    Term small[16];
} Poly;
void poly_init(Poly *p);
void poly_add(Poly *p, int64_t c, const Mono *m); // m == NULL or an earlier overflow: the sum is poison
const Dim *poly_finish(DimTable *t, Poly *p);

// d = coeff * atom + rest, with the atom taken out once of each term that holds it; false when none does.
bool dim_take_out(DimTable *t, const Dim *d, const AtomNode *atom, const Dim **coeff, const Dim **rest);
// d = q * by exactly; NULL otherwise.
const Dim *dim_divide_exactly(DimTable *t, const Dim *d, const Dim *by);
const Dim *dim_neg(DimTable *t, const Dim *d);
uint64_t dim_next_stamp(DimTable *t);

bool i64_add(int64_t a, int64_t b, int64_t *r); // false on overflow
bool i64_mul(int64_t a, int64_t b, int64_t *r);
int64_t i64_floordiv(int64_t a, int64_t b); // b > 0
uint64_t u64_gcd(uint64_t a, uint64_t b);
uint64_t i64_abs(int64_t a);

// Intervals.
Range range_mul(Range a, Range b);
Range range_add(Range a, Range b);
Range range_scale(Range a, int64_t c);
Range range_power(Range a, int n);
Range range_of_atom(AtomKind kind, const Dim *a, const Dim *b);
Range dim_range(const Dim *d);      // the tight interval
const Dim *dim_shown(const Dim *d); // for its terms only: sums and products are made of stored forms

#endif
