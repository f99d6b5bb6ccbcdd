// Quotients, remainders, minima and maxima: everything that is decided when such an atom would be made.
//
// floordiv(a, b), b assumed positive:
//   1. a = q*b + r by division with the leading term of b; constants of r lie in [0, b), coefficients in (-b/2, b/2]: q goes outside
//   2. r within [0, b) by proof: 0; within [-b, 0): -1; a constant by its interval
//   3. floordiv(-x, b) = -floordiv(x + b - 1, b): the first coefficient is positive
//   4. floordiv(floordiv(x, c) + y, b) = floordiv(x + c*y, c*b)
//   5. floordiv(F*x + y, F*k) = floordiv(x, k) when 0 <= y < F by proof, F any factor shared by b and a term
// Each step shortens the divisor or the operand, so the steps end; what is left becomes an atom. Results are remembered by operands,
// which also makes parsing of a printed atom find it again.
#include "dim_impl.h"

#include <stdlib.h>

// ---- division of polynomials ----

typedef struct {
    int64_t q, r; // c = q*k + r
} Quotient;

// r in [0, |k|).
static Quotient floor_quotient(int64_t c, int64_t k) {
    Quotient x = {c / k, c % k};
    if (x.r < 0) {
        x.q -= k > 0 ? 1 : -1;
        x.r += k > 0 ? k : -k;
    }
    return x;
}

// r in (-|k|/2, |k|/2].
static Quotient nearest_quotient(int64_t c, int64_t k) {
    Quotient x = floor_quotient(c, k);
    int64_t size = k > 0 ? k : -k;
    if (x.r > size - x.r) {
        x.q += k > 0 ? 1 : -1;
        x.r -= size;
    }
    return x;
}

// By one term: each term of a on its own.
static void divide_by_term(DimTable *t, const Dim *a, Term by, const Dim **quotient, const Dim **rest) {
    Poly q, r;
    poly_init(&q);
    poly_init(&r);
    for (int i = 0; i < a->nterms; i++) {
        Term x = a->terms[i];
        const Mono *m = mono_div(t, x.m, by.m);
        bool constant = by.m->n == 0 && x.m->n == 0;
        Quotient n = !m ? (Quotient){0, x.c} : constant ? floor_quotient(x.c, by.c) : nearest_quotient(x.c, by.c);
        if (m) poly_add(&q, n.q, m);
        poly_add(&r, n.r, x.m);
    }
    *quotient = poly_finish(t, &q);
    *rest = poly_finish(t, &r);
}

// By a sum: a multiple of b is taken out wherever that leaves fewer terms.
static void divide_by_sum(DimTable *t, const Dim *a, const Dim *b, const Dim **quotient, const Dim **rest) {
    *quotient = dim_int(t, 0);
    for (int i = 0; i < a->nterms; i++) {
        const Mono *m = mono_div(t, a->terms[i].m, b->terms[0].m);
        int64_t n = m ? nearest_quotient(a->terms[i].c, b->terms[0].c).q : 0;
        if (n == 0) continue;
        const Dim *q = dim_of_term(t, n, m), *less = dim_sub(t, a, dim_mul(t, q, b));
        if (less->poison || less->nterms >= a->nterms) continue;
        *quotient = dim_add(t, *quotient, q);
        a = less;
        i = -1;
    }
    *rest = a;
}

// ---- floordiv ----

// The quotient when r's place between multiples of b is proven; NULL otherwise.
static const Dim *proven_quotient(DimTable *t, const Dim *r, const Dim *b) {
    int64_t k;
    Range range = dim_range(r);
    if (dim_is_int(b, &k) && range.lo > -DIM_INF && range.hi < DIM_INF && i64_floordiv(range.lo, k) == i64_floordiv(range.hi, k))
        return dim_int(t, i64_floordiv(range.lo, k));
    switch (dim_ge0(t, r)) {
    case YES: return dim_lt(t, r, b) == YES ? dim_int(t, 0) : NULL;
    case NO: return dim_ge0(t, dim_add(t, r, b)) == YES ? dim_int(t, -1) : NULL;
    default: return NULL;
    }
}

// Step 4, for the first quotient that stands alone in r; NULL when there is none.
static const Dim *flattened(DimTable *t, const Dim *r, const Dim *b) {
    for (int i = 0; i < r->nterms; i++) {
        const Mono *m = r->terms[i].m;
        if (r->terms[i].c != 1 || m->n != 1 || m->f[0]->pub.kind != ATOM_FLOORDIV) continue;
        const Dim *x = m->f[0]->pub.a, *c = m->f[0]->pub.b;
        if (c->nterms > 1) continue;
        const Dim *inner = dim_add(t, x, dim_mul(t, c, dim_sub(t, r, m->f[0]->pub.self))), *by = dim_mul(t, c, b);
        if (!inner->poison && !by->poison) return dim_floordiv(t, inner, by);
    }
    return NULL;
}

static Term shared_factor(DimTable *t, Term x, const Dim *b) {
    uint64_t g = i64_abs(x.c);
    const Mono *m = x.m;
    for (int i = 0; i < b->nterms; i++) {
        g = u64_gcd(g, i64_abs(b->terms[i].c));
        m = mono_gcd(t, m, b->terms[i].m);
    }
    return (Term){g > INT64_MAX ? 1 : (int64_t)g, m};
}

// Step 5 with one factor: r = factor*x + y.
static const Dim *reduced_by(DimTable *t, const Dim *r, const Dim *b, Term factor) {
    Poly px, py;
    poly_init(&px);
    poly_init(&py);
    for (int i = 0; i < r->nterms; i++) {
        Term e = r->terms[i];
        const Mono *m = mono_div(t, e.m, factor.m);
        Quotient n = {0, e.c};
        if (m && (e.m->n == 0 || e.c % factor.c == 0)) n = floor_quotient(e.c, factor.c);
        if (m) poly_add(&px, n.q, m);
        poly_add(&py, n.r, e.m);
    }
    const Dim *x = poly_finish(t, &px), *y = poly_finish(t, &py), *f = dim_of_term(t, factor.c, factor.m);
    if (y->nterms > 0 && !(dim_ge0(t, y) == YES && dim_lt(t, y, f) == YES)) return NULL;
    const Dim *k = dim_divide_exactly(t, b, f);
    return k ? dim_floordiv(t, x, k) : NULL;
}

// Step 5; NULL when no factor serves.
static const Dim *reduced(DimTable *t, const Dim *r, const Dim *b) {
    for (int i = 0; i < r->nterms; i++) {
        if (r->terms[i].m->n == 0) continue;
        Term f = shared_factor(t, r->terms[i], b);
        if (f.c == 1 && f.m->n == 0) continue;
        const Dim *q = reduced_by(t, r, b, f);
        if (q) return q;
    }
    return NULL;
}

static const Dim *floordiv_anew(DimTable *t, const Dim *a, const Dim *b) {
    const Dim *q, *r;
    if (b->nterms == 1)
        divide_by_term(t, a, b->terms[0], &q, &r);
    else
        divide_by_sum(t, a, b, &q, &r);
    if (q->poison || r->poison) return dim_poison(t);
    if (q->nterms > 0) return dim_add(t, q, dim_floordiv(t, r, b));
    const Dim *known = proven_quotient(t, r, b);
    if (!known && r->terms[0].c < 0) return dim_neg(t, dim_floordiv(t, dim_addi(t, dim_sub(t, b, r), -1), b));
    if (!known) known = flattened(t, r, b);
    if (!known) known = reduced(t, r, b);
    return known ? known : dim_of_atom(t, ATOM_FLOORDIV, r, b);
}

const Dim *dim_floordiv(DimTable *t, const Dim *a, const Dim *b) {
    int64_t x, k;
    if (a->poison || b->poison || b->nterms == 0) return dim_poison(t);
    if (a->nterms == 0 || dim_is(b, 1)) return a;
    if (b->nterms == 1 && b->terms[0].c < 0) return dim_floordiv(t, dim_neg(t, a), dim_neg(t, b));
    if (dim_is_int(a, &x) && dim_is_int(b, &k)) return dim_int(t, i64_floordiv(x, k));
    Memo *memo = dim_memo(t, MEMO_FLOORDIV, a, b, 0);
    if (memo->result) return memo->result;
    if (memo->busy) return dim_of_atom(t, ATOM_FLOORDIV, a, b);
    memo->busy = true;
    memo->result = floordiv_anew(t, a, b);
    memo->busy = false;
    return memo->result;
}

const Dim *dim_mod(DimTable *t, const Dim *a, const Dim *b) {
    int64_t x, k;
    if (dim_is_int(a, &x) && dim_is_int(b, &k) && k > 0) return dim_int(t, floor_quotient(x, k).r);
    return dim_sub(t, a, dim_mul(t, b, dim_floordiv(t, a, b)));
}

const Dim *dim_ceildiv(DimTable *t, const Dim *a, const Dim *b) {
    int64_t x, k;
    if (dim_is_int(a, &x) && dim_is_int(b, &k) && k > 0) return dim_int(t, i64_floordiv(x, k) + (x % k != 0));
    return dim_floordiv(t, dim_add(t, a, dim_addi(t, b, -1)), b);
}

// ---- min, max ----

enum { LEAVES_MAX = 16 };

// a <= b for min, a >= b for max: b can go.
static bool wins(DimTable *t, AtomKind kind, const Dim *a, const Dim *b) {
    const Dim *small = kind == ATOM_MIN ? a : b, *large = kind == ATOM_MIN ? b : a;
    return dim_is(large, INT64_MAX) || dim_is(small, INT64_MIN) || dim_le(t, small, large) == YES;
}

// What both have: of equal monomials with coefficients of one sign, the smaller coefficient.
static const Dim *common_part(DimTable *t, const Dim *a, const Dim *b) {
    Poly p;
    poly_init(&p);
    for (int i = 0; i < a->nterms; i++)
        for (int j = 0; j < b->nterms; j++) {
            int64_t x = a->terms[i].c, y = b->terms[j].c;
            if (a->terms[i].m != b->terms[j].m || (x < 0) != (y < 0)) continue;
            poly_add(&p, i64_abs(x) < i64_abs(y) ? x : y, a->terms[i].m);
        }
    return poly_finish(t, &p);
}

// The operands of nested atoms of one kind; false when there are too many.
static bool gather_leaves(AtomKind kind, const Dim *d, const Dim **leaves, int *n) {
    const AtomNode *x = dim_as_atom(d);
    if (x && x->pub.kind == kind) return gather_leaves(kind, x->pub.a, leaves, n) && gather_leaves(kind, x->pub.b, leaves, n);
    if (*n == LEAVES_MAX) return false;
    leaves[(*n)++] = d;
    return true;
}

static int compare_leaves(const void *x, const void *y) {
    return dim_compare(*(const Dim *const *)x, *(const Dim *const *)y);
}

static Memo *extremum_memo(DimTable *t, AtomKind kind, const Dim *a, const Dim *b) {
    MemoOp op = kind == ATOM_MIN ? MEMO_MIN : MEMO_MAX;
    return dim_compare(a, b) < 0 ? dim_memo(t, op, a, b, 0) : dim_memo(t, op, b, a, 0);
}

static const Dim *extremum(DimTable *t, AtomKind kind, const Dim *a, const Dim *b);

// Of two operands that do not decide each other and are not to be taken apart.
static const Dim *extremum_of_pair(DimTable *t, AtomKind kind, const Dim *a, const Dim *b) {
    Memo *memo = extremum_memo(t, kind, a, b);
    if (memo->result) return memo->result;
    const Dim *common = common_part(t, a, b);
    if (common->nterms > 0)
        memo->result = dim_add(t, common, extremum(t, kind, dim_sub(t, a, common), dim_sub(t, b, common)));
    else
        memo->result = dim_of_atom(t, kind, memo->a, memo->b);
    return memo->result;
}

// Sorted, without those that never decide.
static const Dim *extremum_of_leaves(DimTable *t, AtomKind kind, const Dim **leaves, int n) {
    qsort(leaves, (size_t)n, sizeof *leaves, compare_leaves);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            if (i == j || !leaves[i] || !leaves[j]) continue;
            if (leaves[i] == leaves[j] || wins(t, kind, leaves[i], leaves[j])) leaves[j] = NULL;
        }
    const Dim *all = NULL;
    for (int i = 0; i < n; i++)
        if (leaves[i]) all = all ? extremum_of_pair(t, kind, all, leaves[i]) : leaves[i];
    return all;
}

static const Dim *extremum_anew(DimTable *t, AtomKind kind, const Dim *a, const Dim *b) {
    const Dim *leaves[LEAVES_MAX];
    int n = 0;
    if (wins(t, kind, a, b)) return a;
    if (wins(t, kind, b, a)) return b;
    if (common_part(t, a, b)->nterms == 0 && gather_leaves(kind, a, leaves, &n) && gather_leaves(kind, b, leaves, &n) && n > 2)
        return extremum_of_leaves(t, kind, leaves, n);
    return extremum_of_pair(t, kind, a, b);
}

static const Dim *extremum(DimTable *t, AtomKind kind, const Dim *a, const Dim *b) {
    int64_t x, y;
    if (a->poison || b->poison) return dim_poison(t);
    if (a == b) return a;
    if (dim_is_int(a, &x) && dim_is_int(b, &y)) return (x < y) == (kind == ATOM_MIN) ? a : b;
    Memo *memo = extremum_memo(t, kind, a, b);
    if (!memo->result) memo->result = extremum_anew(t, kind, a, b);
    return memo->result;
}

const Dim *dim_min(DimTable *t, const Dim *a, const Dim *b) {
    return extremum(t, ATOM_MIN, a, b);
}

const Dim *dim_max(DimTable *t, const Dim *a, const Dim *b) {
    return extremum(t, ATOM_MAX, a, b);
}
