// Indices as digits: which strides cut the accesses of a buffer into rows, and each index into its digits; see loop_region.h.
//
// A digit is a quotient, index / stride. Where it is not simple by itself the guards around the access may show that it is: 8*o + i under
// `8*o + i < 30` has no carry into a digit of stride 30. What was found so is kept with the strides, by index.
#include "loop_region.h"

#include <string.h>

static int divisions(const Dim *d) {
    int n = 0;
    for (int i = 0; i < dim_nterms(d); i++)
        for (int k = 0; k < dim_nfactors(d, i); k++) {
            AtomKind kind = dim_factor(d, i, k)->kind;
            n += kind == ATOM_FLOORDIV || kind == ATOM_MOD;
        }
    return n;
}

static const KnownDigits *find_known(const Digits *g, const Dim *index) {
    for (int i = 0; i < g->known.n; i++)
        if (g->known.data[i].index == index) return &g->known.data[i];
    return NULL;
}

void digits_split(DimTable *t, const Digits *g, const Dim *index, const Dim **digit) {
    const KnownDigits *k = find_known(g, index);
    for (int j = 0; j < g->n; j++) {
        digit[j] = k && k->split ? k->digit[j] : dim_floordiv(t, index, g->stride[j]);
        index = dim_sub(t, index, dim_mul(t, digit[j], g->stride[j]));
    }
}

typedef struct {
    DimTable *t;
    const Dim *stride, *left, *quotient;
} Division;

// Takes a symbol whose coefficient is a multiple of the stride out of what is left.
static void divide_symbol(void *ctx, const Dim *sym) {
    Division *d = ctx;
    const Dim *c, *rest;
    if (!dim_linear(d->t, d->left, sym, &c, &rest) || !dim_is(dim_mod(d->t, c, d->stride), 0)) return;
    d->quotient = dim_add(d->t, d->quotient, dim_mul(d->t, dim_floordiv(d->t, c, d->stride), sym));
    d->left = rest;
}

static bool same_factors(const Dim *a, int i, const Dim *b, int j) {
    if (dim_nfactors(a, i) != dim_nfactors(b, j)) return false;
    for (int k = 0; k < dim_nfactors(a, i); k++)
        if (dim_factor(a, i, k)->self != dim_factor(b, j, k)->self) return false;
    return true;
}

// How often the stride's first term goes into the like term of d.
static int64_t times(const Dim *d, const Dim *stride) {
    for (int i = 0; i < dim_nterms(d); i++) {
        int64_t c = dim_coefficient(d, i), s = dim_coefficient(stride, 0);
        if (s > 0 && same_factors(d, i, stride, 0)) return c / s - (c % s < 0);
    }
    return 0;
}

// index / stride as a sum of symbols, when the guards show that the rest is in 0..stride-1; NULL otherwise.
static const Dim *quotient_under(DimTable *t, const Dim *index, const Dim *stride, const DimVec *guards) {
    Division d = {t, stride, index, dim_int(t, 0)};
    dim_symbols(index, divide_symbol, &d);
    int64_t n = times(d.left, stride);
    const int64_t tries[] = {n, n + 1, n - 1, 0};
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        const Dim *q = dim_addi(t, d.quotient, tries[i]), *rest = dim_sub(t, d.left, dim_muli(t, stride, tries[i]));
        if (facts_prove(t, guards, rest) && facts_prove(t, guards, dim_addi(t, dim_sub(t, stride, rest), -1))) return q;
    }
    return NULL;
}

void digits_learn(Program *p, Digits *g, const AccessVec *all) {
    for (int i = 0; i < all->n; i++) {
        const Access *a = &all->data[i];
        const Dim *rest = a->index;
        KnownDigits k = {.index = rest, .split = true};
        for (int j = 0; j < g->n && k.split; j++) {
            const Dim *q = dim_floordiv(p->dims, rest, g->stride[j]);
            if (divisions(q) > divisions(rest)) q = quotient_under(p->dims, rest, g->stride[j], &a->guards);
            k.split = q != NULL;
            k.digit[j] = q;
            if (q) rest = dim_sub(p->dims, rest, dim_mul(p->dims, q, g->stride[j]));
        }
        KnownDigits *old = (KnownDigits *)(uintptr_t)find_known(g, a->index);
        if (old)
            old->split &= k.split;
        else
            vec_push(p->arena, &g->known, k);
    }
}

// How many digits of all accesses had to be divided out.
static int uncleanness(Program *p, const Digits *strides, const AccessVec *all) {
    DimTable *t = p->dims;
    Digits whole = {.n = strides->n}, *g = &whole;
    memcpy(whole.stride, strides->stride, sizeof whole.stride);
    digits_learn(p, g, all);
    int n = 0;
    for (int i = 0; i < all->n; i++) {
        const Dim *digit[REGION_DIGITS], *index = all->data[i].index;
        digits_split(t, g, index, digit);
        int before = divisions(index);
        for (int j = 0; j < g->n; j++) {
            int found = divisions(digit[j]);
            n += found > before ? found - before : 0;
        }
        n += digits_lane(t, g, &all->data[i]) < 0;
    }
    return n;
}

static bool add_stride(DimTable *t, Digits *g, const Dim *s) {
    if (g->n == REGION_DIGITS - 1 || dim_is(s, 1) || dim_lt(t, dim_int(t, 0), s) != YES) return false;
    const Dim *last = g->n ? g->stride[g->n - 1] : NULL;
    if (last && (last == s || !dim_is(dim_mod(t, last, s), 0))) return false;
    g->stride[g->n++] = s;
    return true;
}

static void end_strides(DimTable *t, Digits *g) {
    g->stride[g->n++] = dim_int(t, 1);
}

static void shape_strides(DimTable *t, const LoopBuffer *b, Digits *g) {
    g->n = 0;
    for (int i = 1; i < b->rank; i++) add_stride(t, g, dim_product(t, &b->shape[i], b->rank - i));
    end_strides(t, g);
}

// The constant or symbolic coefficients of the accesses' loops, each once, larger ones first.
static void coefficients(Program *p, const AccessVec *all, DimVec *out) {
    DimTable *t = p->dims;
    for (int i = 0; i < all->n; i++)
        for (int k = 0; k < all->data[i].inner.n; k++) {
            const Dim *c, *rest;
            if (!dim_linear(t, all->data[i].index, all->data[i].inner.data[k], &c, &rest) || dim_is(c, 0)) continue;
            bool known = false;
            for (int m = 0; m < out->n; m++) known |= out->data[m] == c;
            if (!known) vec_push(p->arena, out, c);
        }
    for (int i = 1; i < out->n; i++)
        for (int k = i; k > 0 && dim_lt(t, out->data[k - 1], out->data[k]) == YES; k--) {
            const Dim *d = out->data[k];
            out->data[k] = out->data[k - 1];
            out->data[k - 1] = d;
        }
}

static void coefficient_strides(Program *p, const AccessVec *all, Digits *g) {
    DimTable *t = p->dims;
    DimVec c = {0};
    coefficients(p, all, &c);
    g->n = 0;
    int base = uncleanness(p, &(Digits){.n = 1, .stride = {dim_int(t, 1)}}, all);
    for (int i = 0; i < c.n; i++) {
        if (!add_stride(t, g, c.data[i])) continue;
        Digits whole = *g;
        end_strides(t, &whole);
        if (uncleanness(p, &whole, all) > base) g->n--;
    }
    end_strides(t, g);
}

void digits_choose(Program *p, const LoopBuffer *b, const AccessVec *all, Digits *out) {
    Digits shape = {0};
    *out = shape;
    coefficient_strides(p, all, out);
    shape_strides(p->dims, b, &shape);
    if (b->rank > 1 && uncleanness(p, &shape, all) <= uncleanness(p, out, all)) *out = shape;
    digits_learn(p, out, all);
}

int digits_lane(DimTable *t, const Digits *g, const Access *a) {
    if (a->low == 0 && a->high == 0) return g->n - 1;
    int j = 0;
    while (j < g->n - 1 && !dim_is(dim_mod(t, dim_int(t, a->step), g->stride[j]), 0)) j++;
    if (a->punned && j != g->n - 1) return -1;
    if (j == 0) return j;
    const Dim *digit[REGION_DIGITS];
    digits_split(t, g, a->index, digit);
    const Dim *span = dim_mul(t, digit[j], g->stride[j]);
    const Dim *last = region_bound(t, dim_addi(t, span, a->high), &a->inner, true);
    const Dim *first = region_bound(t, dim_addi(t, span, a->low), &a->inner, false);
    bool inside = last && first && dim_lt(t, last, g->stride[j - 1]) == YES && dim_ge0(t, first) == YES;
    return inside ? j : -1;
}
