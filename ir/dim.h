// Integer index algebra: sizes, loop bounds and indices of both IRs are canonical polynomials over symbols.
//
// A Dim is immutable and interned in its DimTable: two Dims with the same value by the algebra's rules are the same pointer.
// Form: a sum of (int64 coefficient) * (product of atoms); an atom is a symbol or floordiv(e, e), mod(e, e), min(e, e), max(e, e).
// Canonical: terms and factors are sorted by creation-independent order (names, then structure), zero terms are dropped,
// floordiv/mod/min/max fold on constants and on what the intervals prove: floordiv(a*k + b, k) = a + floordiv(b, k),
// mod(a*k + b, k) = mod(b, k), both vanish when 0 <= b < k is proven (k may be a polynomial known positive).
// mod(x, k) is kept as x - k*floordiv(x, k), so that k*floordiv(x, k) + mod(x, k) is x; print, structure and evaluation show it as mod
// again where it stands alone. dim_linear, dim_subst and dim_symbols see the kept form. mod and floordiv are the mathematical ones (floor);
// a divisor must be proven or assumed positive. Overflow of a coefficient gives the poison Dim (dim_is_poison), never undefined behaviour;
// poison is contagious.
#ifndef MLC_DIM_H
#define MLC_DIM_H

#include "base.h"

typedef struct Dim Dim;
typedef struct DimTable DimTable;

#define DIM_INF INT64_MAX // an interval's open upper end; -DIM_INF is the open lower end

// What a symbol stands for. Bounds are inclusive; either may be NULL (open) and may mention other symbols.
typedef enum {
    SYM_MODEL, // a symbolic dimension of the model, given by the caller
    SYM_DATA,  // a size or index defined at run time from data
    SYM_AXIS,  // axis d of a tensor expression (view, map): dim_axis
    SYM_LOOP   // a loop variable
} SymKind;

typedef struct {
    const char *name;
    SymKind kind;
    const Dim *lo, *hi;
} Sym;

DimTable *dim_table_new(void);
void dim_table_free(DimTable *t);

const Dim *dim_int(DimTable *t, int64_t v);
// A fresh symbol; each call makes another one even if the name is the same. lo/hi may be NULL.
const Dim *dim_symbol(DimTable *t, const char *name, SymKind kind, const Dim *lo, const Dim *hi);
// States the upper bound of a symbol that was made without. What was proven before holds still.
void dim_symbol_bound(const Dim *sym, const Dim *hi);
// The interned symbol "d<axis>" with bounds 0..extent-1: the same (axis, extent) gives the same symbol.
const Dim *dim_axis(DimTable *t, int axis, const Dim *extent);

const Dim *dim_add(DimTable *t, const Dim *a, const Dim *b);
const Dim *dim_sub(DimTable *t, const Dim *a, const Dim *b);
const Dim *dim_mul(DimTable *t, const Dim *a, const Dim *b);
const Dim *dim_addi(DimTable *t, const Dim *a, int64_t b);
const Dim *dim_muli(DimTable *t, const Dim *a, int64_t b);
const Dim *dim_floordiv(DimTable *t, const Dim *a, const Dim *b);
const Dim *dim_ceildiv(DimTable *t, const Dim *a, const Dim *b); // floordiv(a + b - 1, b)
const Dim *dim_mod(DimTable *t, const Dim *a, const Dim *b);
const Dim *dim_min(DimTable *t, const Dim *a, const Dim *b);
const Dim *dim_max(DimTable *t, const Dim *a, const Dim *b);
const Dim *dim_product(DimTable *t, const Dim *const *d, int n); // 1 for n == 0

bool dim_is_poison(const Dim *d);
bool dim_is_int(const Dim *d, int64_t *v); // v may be NULL
bool dim_is(const Dim *d, int64_t v);
const Sym *dim_as_symbol(const Dim *d); // when d is exactly one symbol; else NULL
// The constant interval of d from the symbols' bounds: lo <= d <= hi, with -DIM_INF and DIM_INF for open ends.
void dim_interval(const Dim *d, int64_t *lo, int64_t *hi);

typedef enum { NO = 0, YES = 1, UNKNOWN = 2 } Tri;
// Proofs. They use intervals and, for symbols with symbolic bounds that occur linearly, substitution of the bound (i <= N - 1 proves N - i
// - 1 >= 0).
Tri dim_ge0(DimTable *t, const Dim *d); // d >= 0 always / never / depends or not provable
Tri dim_eq(DimTable *t, const Dim *a, const Dim *b);
Tri dim_le(DimTable *t, const Dim *a, const Dim *b);
Tri dim_lt(DimTable *t, const Dim *a, const Dim *b);

// Replaces symbols (compared by pointer) everywhere, simultaneously. from[i] must be symbols.
const Dim *dim_subst(DimTable *t, const Dim *d, const Dim *const *from, const Dim *const *to, int n);
bool dim_has_symbol(const Dim *d, const Dim *sym);
// d = coeff * sym + rest with neither mentioning sym; false when sym occurs otherwise (nonlinear, inside an atom).
bool dim_linear(DimTable *t, const Dim *d, const Dim *sym, const Dim **coeff, const Dim **rest);
// An upper bound of d over model dims: every other symbol is replaced by its own bound (the lower one where d provably falls as it grows).
// NULL where a symbol has none.
const Dim *dim_upper(DimTable *t, const Dim *d);
// Calls fn once for each distinct symbol of d, in canonical order.
void dim_symbols(const Dim *d, void (*fn)(void *ctx, const Dim *sym), void *ctx);

// Structure, for printers: a Dim is the sum of dim_nterms terms; term i is coefficient times dim_nfactors atoms.
int dim_nterms(const Dim *d); // 0 for the constant 0; a constant is one term without factors
int64_t dim_coefficient(const Dim *d, int term);
int dim_nfactors(const Dim *d, int term);
typedef enum { ATOM_SYMBOL, ATOM_FLOORDIV, ATOM_MOD, ATOM_MIN, ATOM_MAX } AtomKind;
typedef struct Atom {
    AtomKind kind;
    const Dim *self;  // the Dim that is just this atom
    const Sym *sym;   // ATOM_SYMBOL
    const Dim *a, *b; // the others
} Atom;
const Atom *dim_factor(const Dim *d, int term, int factor);

// Value under an environment: get(ctx, sym) gives a symbol's value. Overflow or division by zero sets *ok to false (never to true).
int64_t dim_eval(const Dim *d, int64_t (*get)(void *ctx, const Dim *sym), void *ctx, bool *ok);

// Text: "2*N*S - 3*floordiv(L + 1, 4) + min(a, b)"; what dim_print writes dim_parse reads back to the same pointer.
void dim_print(Str *s, const Dim *d);
const char *dim_text(DimTable *t, const Dim *d); // in the table's arena
// Reads one expression from *p (infix + - * with parentheses, floordiv(,), mod(,), min(,), max(,), ceildiv(,), integers, names) and
// advances *p. lookup gives a name's Dim or NULL (unknown). NULL and *p at the fault on error.
const Dim *dim_parse(DimTable *t, const char **p, const Dim *(*lookup)(void *ctx, const char *name, size_t n), void *ctx);

#endif
