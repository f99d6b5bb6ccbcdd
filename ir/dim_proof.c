// Intervals and proofs.
//
// An interval comes from the terms, and from three views of the same value that lose less: the shown form; one quotient taken out, as
// k*d = k*rest + c*x - c*mod(x, k) with mod(x, k) in [0, k-1], where rest and x may cancel; and symbols with symbolic bounds replaced by
// the bound that makes the value extreme, newest symbol first (a bound only mentions older ones).
//
// A proof of d >= 0 searches: the interval decides, or d is replaced by something that is smaller wherever d's atoms may lie, and that is
// proven: a symbol by its bound, floordiv and mod by their ends, min and max by an operand or both. The budget and the weight of d bound
// the search, so UNKNOWN is always a possible answer; YES and NO are certain as long as divisors are positive and symbols are within their
// bounds.
#include "dim_impl.h"

enum { VIEWS_MAX = 3, VIEW_DEPTH = 4, BUDGET = 80, PROOF_DEPTH = 10, SEARCH_WEIGHT = 400 };

static Range range_at(const Dim *d, int depth);

// ---- intervals ----

static int64_t add_low(int64_t a, int64_t b) {
    int64_t r;
    if (a == -DIM_INF || b == -DIM_INF) return -DIM_INF;
    if (!i64_add(a, b, &r)) return a < 0 ? -DIM_INF : DIM_INF;
    return r < -DIM_INF ? -DIM_INF : r;
}

static int64_t add_high(int64_t a, int64_t b) {
    return -add_low(-a, -b);
}

Range range_add(Range a, Range b) {
    return (Range){add_low(a.lo, b.lo), add_high(a.hi, b.hi)};
}

// An end times an end: infinities saturate, zero wins.
static int64_t mul_ends(int64_t a, int64_t b) {
    int64_t r;
    if (a == 0 || b == 0) return 0;
    bool negative = (a < 0) != (b < 0);
    if (a == DIM_INF || a == -DIM_INF || b == DIM_INF || b == -DIM_INF || !i64_mul(a, b, &r) || r < -DIM_INF)
        return negative ? -DIM_INF : DIM_INF;
    return r;
}

Range range_mul(Range a, Range b) {
    int64_t e[4] = {mul_ends(a.lo, b.lo), mul_ends(a.lo, b.hi), mul_ends(a.hi, b.lo), mul_ends(a.hi, b.hi)};
    Range r = {e[0], e[0]};
    for (int i = 1; i < 4; i++) {
        if (e[i] < r.lo) r.lo = e[i];
        if (e[i] > r.hi) r.hi = e[i];
    }
    return r;
}

Range range_scale(Range a, int64_t c) {
    if (c == INT64_MIN) c = -DIM_INF;
    return range_mul(a, (Range){c, c});
}

Range range_power(Range a, int n) {
    Range r = a;
    for (int i = 1; i < n; i++) r = range_mul(r, a);
    if (n % 2 == 0 && r.lo < 0) r.lo = 0;
    return r;
}

static Range intersect(Range a, Range b) {
    return (Range){a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
}

static int64_t div_end(int64_t a, int64_t k) {
    if (a == DIM_INF || a == -DIM_INF) return k == DIM_INF ? (a < 0 ? -1 : 0) : a;
    return i64_floordiv(a, k);
}

static Range divisor_range(const Dim *b) {
    Range k = dim_range(b);
    if (k.lo < 1) k.lo = 1; // assumed positive
    if (k.hi < 1) k.hi = 1;
    return k;
}

static Range range_of_floordiv(Range a, Range k) {
    Range r;
    r.lo = a.lo == -DIM_INF ? -DIM_INF : div_end(a.lo, a.lo < 0 ? k.lo : k.hi);
    r.hi = a.hi == DIM_INF ? DIM_INF : div_end(a.hi, a.hi < 0 ? k.hi : k.lo);
    return r;
}

static Range range_of_mod(Range a, Range k) {
    Range r = {0, k.hi == DIM_INF ? DIM_INF : k.hi - 1};
    if (a.lo >= 0 && a.hi < r.hi) r.hi = a.hi;
    return r;
}

Range range_of_atom(AtomKind kind, const Dim *a, const Dim *b) {
    Range x = dim_range(a), y = dim_range(b);
    switch (kind) {
    case ATOM_FLOORDIV: return range_of_floordiv(x, divisor_range(b));
    case ATOM_MOD: return range_of_mod(x, divisor_range(b));
    case ATOM_MIN: return (Range){x.lo < y.lo ? x.lo : y.lo, x.hi < y.hi ? x.hi : y.hi};
    case ATOM_MAX: return (Range){x.lo > y.lo ? x.lo : y.lo, x.hi > y.hi ? x.hi : y.hi};
    default: return (Range){-DIM_INF, DIM_INF};
    }
}

// The distinct atoms of d's terms that satisfy `wanted`, newest first, up to max.
static int find_atoms(const Dim *d, bool (*wanted)(const AtomNode *x), AtomNode **found, int max) {
    int n = 0;
    for (int i = 0; i < d->nterms; i++)
        for (int j = 0; j < d->terms[i].m->n; j++) {
            AtomNode *x = d->terms[i].m->f[j];
            if (!wanted(x)) continue;
            int at = 0;
            while (at < n && found[at]->id > x->id) at++;
            if (at == max || (at < n && found[at] == x)) continue;
            if (n < max) n++;
            for (int k = n - 1; k > at; k--) found[k] = found[k - 1];
            found[at] = x;
        }
    return n;
}

static bool is_quotient(const AtomNode *x) {
    return x->pub.kind == ATOM_FLOORDIV;
}

static bool has_symbolic_bound(const AtomNode *x) {
    if (x->pub.kind != ATOM_SYMBOL) return false;
    return (x->sym.lo && !dim_is_int(x->sym.lo, NULL)) || (x->sym.hi && !dim_is_int(x->sym.hi, NULL));
}

static int64_t ceil_end(int64_t a, int64_t k) {
    return a == DIM_INF || a == -DIM_INF ? a : -i64_floordiv(-a, k);
}

// The interval of d = c*q + rest seen through the quotient q = floordiv(x, k), c constant or a multiple of k.
static Range range_through_quotient(const Dim *d, const AtomNode *q, int depth) {
    DimTable *t = d->table;
    const Dim *c, *rest, *x = q->pub.a, *k = q->pub.b;
    Range open = {-DIM_INF, DIM_INF};
    int64_t n, by;
    if (!dim_take_out(t, d, q, &c, &rest)) return open;
    Range mod = range_of_mod(dim_range(x), divisor_range(k));
    const Dim *m = dim_divide_exactly(t, c, k);
    if (m) { // d = rest + m*x - m*mod
        const Dim *whole = dim_add(t, rest, dim_mul(t, m, x));
        return range_add(range_at(whole, depth + 1), range_scale(range_mul(m->range, mod), -1));
    }
    if (!dim_is_int(c, &n) || !dim_is_int(k, &by)) return open;
    const Dim *whole = dim_add(t, dim_muli(t, rest, by), dim_muli(t, x, n));
    Range scaled = range_add(range_at(whole, depth + 1), range_scale(range_scale(mod, n), -1));
    return (Range){ceil_end(scaled.lo, by), scaled.hi == DIM_INF || scaled.hi == -DIM_INF ? scaled.hi : i64_floordiv(scaled.hi, by)};
}

// d with x replaced by the bound that makes d low (or high): a lower (upper) bound of d. NULL when the sign or the bound is not known.
static const Dim *at_bound(
    const Dim *d, const AtomNode *x, bool low, bool (*sign)(DimTable *t, const Dim *c, int *sign, void *ctx), void *ctx) {
    DimTable *t = d->table;
    const Dim *c, *rest;
    int s;
    if (!dim_take_out(t, d, x, &c, &rest) || !sign(t, c, &s, ctx)) return NULL;
    const Dim *bound = (s > 0) == low ? x->sym.lo : x->sym.hi;
    return bound ? dim_add(t, rest, dim_mul(t, c, bound)) : NULL;
}

static bool sign_by_range(DimTable *t, const Dim *c, int *sign, void *ctx) {
    (void)t, (void)ctx;
    Range r = c->range;
    *sign = r.lo >= 0 ? 1 : -1;
    return r.lo >= 0 || r.hi <= 0;
}

// Symbolic bounds put in, one symbol after the other, for one end.
static int64_t end_through_bounds(const Dim *d, bool low, int depth) {
    const Dim *at = d;
    for (int round = 0; round < PROOF_DEPTH; round++) {
        AtomNode *found[VIEWS_MAX];
        int n = find_atoms(at, has_symbolic_bound, found, VIEWS_MAX);
        const Dim *next = NULL;
        for (int i = 0; i < n && !next; i++) next = at_bound(at, found[i], low, sign_by_range, NULL);
        if (!next || next->poison) break;
        at = next;
    }
    if (at == d) return low ? -DIM_INF : DIM_INF;
    Range r = range_at(at, depth + 1);
    return low ? r.lo : r.hi;
}

static Range range_at(const Dim *d, int depth) {
    if (d->tight || depth == VIEW_DEPTH || d->weight > SEARCH_WEIGHT) return d->range;
    Dim *m = (Dim *)(uintptr_t)d;
    m->tight = true; // the plain interval serves while the views are looked at
    if (d->nterms < 2) return d->range;
    AtomNode *found[VIEWS_MAX];
    int n = find_atoms(d, is_quotient, found, VIEWS_MAX);
    for (int i = 0; i < n; i++) m->range = intersect(m->range, range_through_quotient(d, found[i], depth));
    if (n > 0) m->range = intersect(m->range, dim_shown(d)->range);
    if (find_atoms(d, has_symbolic_bound, found, 1) == 0) return d->range;
    Range bounds = {end_through_bounds(d, true, depth), end_through_bounds(d, false, depth)};
    m->range = intersect(m->range, bounds);
    return d->range;
}

Range dim_range(const Dim *d) {
    return range_at(d, 0);
}

void dim_interval(const Dim *d, int64_t *lo, int64_t *hi) {
    Range r = dim_range(d);
    *lo = r.lo;
    *hi = r.hi;
}

// ---- proofs ----

static bool prove(DimTable *t, const Dim *d, int *budget, int depth);

typedef struct {
    int *budget;
    int depth;
} Search;

static bool sign_by_proof(DimTable *t, const Dim *c, int *sign, void *ctx) {
    if (sign_by_range(t, c, sign, NULL)) return true;
    Search *s = ctx;
    *sign = 1;
    if (prove(t, c, s->budget, s->depth + 1)) return true;
    *sign = -1;
    return prove(t, dim_neg(t, c), s->budget, s->depth + 1);
}

// d divided by what all its terms share; d >= 0 follows from the result >= 0. Constants are rounded down, which loses nothing.
static const Dim *without_content(DimTable *t, const Dim *d) {
    uint64_t g = 0;
    const Mono *m = NULL;
    for (int i = 0; i < d->nterms; i++) {
        if (d->terms[i].m->n > 0) g = u64_gcd(g, i64_abs(d->terms[i].c));
        m = m ? mono_gcd(t, m, d->terms[i].m) : d->terms[i].m;
    }
    if (!m || m->range.lo < 0 || g > INT64_MAX || g == 0) return d;
    if (g == 1 && m->n == 0) return d;
    Poly p;
    poly_init(&p);
    for (int i = 0; i < d->nterms; i++) poly_add(&p, i64_floordiv(d->terms[i].c, (int64_t)g), mono_div(t, d->terms[i].m, m));
    return poly_finish(t, &p);
}

// d = c*q + rest, q = floordiv(x, k).
static bool prove_quotient(DimTable *t, const Dim *d, const AtomNode *q, Search *s) {
    const Dim *c, *rest, *x = q->pub.a, *k = q->pub.b;
    int sign;
    if (!dim_take_out(t, d, q, &c, &rest)) return false;
    const Dim *last = dim_addi(t, k, -1);
    const Dim *m = dim_divide_exactly(t, c, k);
    if (m && sign_by_proof(t, m, &sign, s)) { // d = rest + m*x - m*mod
        const Dim *low = dim_add(t, rest, dim_mul(t, m, x));
        if (sign > 0) low = dim_sub(t, low, dim_mul(t, m, last));
        return prove(t, low, s->budget, s->depth + 1);
    }
    if (!sign_by_proof(t, c, &sign, s)) return false;
    // k*d = k*rest + c*x - c*mod, and d >= 0 when k*d >= 1 - k.
    const Dim *low = dim_add(t, dim_add(t, dim_mul(t, k, rest), dim_mul(t, c, x)), last);
    if (sign > 0) low = dim_sub(t, low, dim_mul(t, c, last));
    if (prove(t, low, s->budget, s->depth + 1)) return true;
    int64_t end = sign > 0 ? q->range.lo : q->range.hi;
    if (end == DIM_INF || end == -DIM_INF) return false;
    return prove(t, dim_add(t, rest, dim_muli(t, c, end)), s->budget, s->depth + 1);
}

static bool is_mod(const AtomNode *x) {
    return x->pub.kind == ATOM_MOD;
}

// As shown, d = c*mod(x, k) + rest: mod lies in [0, k-1].
static bool prove_shown_mod(DimTable *t, const Dim *d, AtomNode *mod, Search *s) {
    const Dim *c, *rest;
    AtomNode *other;
    int sign;
    if (!dim_take_out(t, dim_shown(d), mod, &c, &rest) || find_atoms(c, is_mod, &other, 1) || !sign_by_proof(t, c, &sign, s)) return false;
    const Dim *low = dim_sub(t, d, dim_mul(t, c, mod->pub.self));
    if (sign < 0) low = dim_add(t, low, dim_mul(t, c, dim_addi(t, mod->pub.b, -1)));
    return prove(t, low, s->budget, s->depth + 1);
}

static bool prove_shown(DimTable *t, const Dim *d, Search *s) {
    AtomNode *found[VIEWS_MAX], *quotient;
    if (find_atoms(d, is_quotient, &quotient, 1) == 0) return false;
    int n = find_atoms(dim_shown(d), is_mod, found, VIEWS_MAX);
    for (int i = 0; i < n; i++)
        if (prove_shown_mod(t, d, found[i], s)) return true;
    return false;
}

// d = c*e + rest, e = min(a, b) or max(a, b): e is bounded by either operand on one side, and is one of them.
static bool prove_extremum(DimTable *t, const Dim *d, const AtomNode *e, Search *s) {
    const Dim *c, *rest;
    int sign;
    if (!dim_take_out(t, d, e, &c, &rest)) return false;
    const Dim *with_a = dim_add(t, rest, dim_mul(t, c, e->pub.a)), *with_b = dim_add(t, rest, dim_mul(t, c, e->pub.b));
    bool either = sign_by_proof(t, c, &sign, s) && (sign > 0) == (e->pub.kind == ATOM_MAX);
    bool a = prove(t, with_a, s->budget, s->depth + 1);
    if (a == either) return a;
    return prove(t, with_b, s->budget, s->depth + 1);
}

static bool prove_symbol(DimTable *t, const Dim *d, const AtomNode *x, Search *s) {
    const Dim *low = at_bound(d, x, true, sign_by_proof, s);
    return low && prove(t, low, s->budget, s->depth + 1);
}

static bool prove_by_atom(DimTable *t, const Dim *d, const AtomNode *x, Search *s) {
    switch (x->pub.kind) {
    case ATOM_SYMBOL: return prove_symbol(t, d, x, s);
    case ATOM_FLOORDIV: return prove_quotient(t, d, x, s);
    case ATOM_MIN:
    case ATOM_MAX: return prove_extremum(t, d, x, s);
    default: return false;
    }
}

static bool is_composite(const AtomNode *x) {
    return x->pub.kind != ATOM_SYMBOL;
}

static bool has_constant_bound(const AtomNode *x) {
    return x->pub.kind == ATOM_SYMBOL && !has_symbolic_bound(x) && (x->sym.lo || x->sym.hi);
}

// d >= 0, by search.
static bool prove(DimTable *t, const Dim *d, int *budget, int depth) {
    if (d->poison) return false;
    d = without_content(t, d);
    Range r = d->range; // the views of dim_range would repeat the search
    if (r.lo >= 0) return true;
    if (d->poison || r.hi < 0 || d->weight > SEARCH_WEIGHT || depth > PROOF_DEPTH || --*budget < 0) return false;
    static bool (*const order[])(const AtomNode *x) = {has_symbolic_bound, is_composite, has_constant_bound};
    Search s = {budget, depth};
    if (prove_shown(t, d, &s)) return true;
    for (int kind = 0; kind < 3; kind++) {
        AtomNode *found[VIEWS_MAX];
        int n = find_atoms(d, order[kind], found, VIEWS_MAX);
        for (int i = 0; i < n; i++)
            if (prove_by_atom(t, d, found[i], &s)) return true;
    }
    return false;
}

static bool prove_from_start(DimTable *t, const Dim *d) {
    int budget = BUDGET;
    return prove(t, d, &budget, 0);
}

Tri dim_ge0(DimTable *t, const Dim *d) {
    if (d->poison) return UNKNOWN;
    Range r = dim_range(d);
    if (r.lo >= 0) return YES;
    if (r.hi < 0) return NO;
    Memo *memo = dim_memo(t, MEMO_GE0, d, NULL, 0);
    if (memo->done) return memo->tri;
    Tri result = UNKNOWN;
    if (prove_from_start(t, d))
        result = YES;
    else if (prove_from_start(t, dim_addi(t, dim_neg(t, d), -1)))
        result = NO;
    memo->tri = result;
    memo->done = true;
    return result;
}

Tri dim_le(DimTable *t, const Dim *a, const Dim *b) {
    return dim_ge0(t, dim_sub(t, b, a));
}

Tri dim_lt(DimTable *t, const Dim *a, const Dim *b) {
    return dim_ge0(t, dim_addi(t, dim_sub(t, b, a), -1));
}

// The coefficients' common divisor does not divide the constant: never zero.
static bool never_zero(const Dim *d) {
    uint64_t g = 0;
    int64_t constant = 0;
    for (int i = 0; i < d->nterms; i++) {
        if (d->terms[i].m->n == 0)
            constant = d->terms[i].c;
        else
            g = u64_gcd(g, i64_abs(d->terms[i].c));
    }
    return g == 0 ? constant != 0 : i64_abs(constant) % g != 0;
}

Tri dim_eq(DimTable *t, const Dim *a, const Dim *b) {
    const Dim *d = dim_sub(t, a, b);
    if (d->poison) return UNKNOWN;
    if (d->nterms == 0) return YES;
    if (never_zero(d)) return NO;
    Tri less = dim_ge0(t, d), more = dim_ge0(t, dim_neg(t, d)); // NO: d < 0, d > 0
    if (less == NO || more == NO) return NO;
    return less == YES && more == YES ? YES : UNKNOWN;
}
