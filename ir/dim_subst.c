// Taking Dims apart: coefficients of an atom, exact division, substitution of symbols, evaluation.
#include "dim_impl.h"

bool dim_take_out(DimTable *t, const Dim *d, const AtomNode *atom, const Dim **coeff, const Dim **rest) {
    Poly with, without;
    poly_init(&with);
    poly_init(&without);
    const Mono *m = dim_mono_of(t, (AtomNode *)(uintptr_t)atom);
    for (int i = 0; i < d->nterms; i++) {
        const Mono *q = mono_div(t, d->terms[i].m, m);
        poly_add(q ? &with : &without, d->terms[i].c, q ? q : d->terms[i].m);
    }
    bool any = with.n > 0;
    *coeff = poly_finish(t, &with);
    *rest = poly_finish(t, &without);
    return any;
}

const Dim *dim_divide_exactly(DimTable *t, const Dim *d, const Dim *by) {
    if (d->poison || by->poison || by->nterms == 0) return NULL;
    Term lead = by->terms[0];
    const Dim *quotient = dim_int(t, 0);
    while (d->nterms > 0) {
        const Mono *m = mono_div(t, d->terms[0].m, lead.m);
        if (!m || d->terms[0].c % lead.c != 0 || (d->terms[0].c == INT64_MIN && lead.c == -1)) return NULL;
        const Dim *q = dim_of_term(t, d->terms[0].c / lead.c, m);
        quotient = dim_add(t, quotient, q);
        d = dim_sub(t, d, dim_mul(t, q, by));
        if (d->poison || quotient->poison) return NULL;
    }
    return quotient;
}

bool dim_linear(DimTable *t, const Dim *d, const Dim *sym, const Dim **coeff, const Dim **rest) {
    if (d->poison || !dim_as_symbol(sym)) return false;
    if (!dim_take_out(t, d, dim_as_atom(sym), coeff, rest)) {
        *coeff = dim_int(t, 0);
        *rest = d;
    }
    return !dim_has_symbol(*coeff, sym) && !dim_has_symbol(*rest, sym);
}

typedef struct {
    const Dim *const *from, *const *to;
    int n;
    uint64_t stamp;
} Subst;

static bool touches(const Subst *s, const Dim *d) {
    for (int i = 0; i < s->n; i++)
        if (dim_has_symbol(d, s->from[i])) return true;
    return false;
}

static const Dim *subst_dim(DimTable *t, const Subst *s, const Dim *d);

static const Dim *rebuild(DimTable *t, AtomKind kind, const Dim *a, const Dim *b) {
    switch (kind) {
    case ATOM_FLOORDIV: return dim_floordiv(t, a, b);
    case ATOM_MOD: return dim_mod(t, a, b);
    case ATOM_MIN: return dim_min(t, a, b);
    case ATOM_MAX: return dim_max(t, a, b);
    default: return dim_poison(t);
    }
}

// The image of one atom; symbols that are replaced carry theirs from the start.
static const Dim *subst_atom(DimTable *t, const Subst *s, AtomNode *x) {
    if (x->stamp == s->stamp) return x->image;
    if (x->pub.kind == ATOM_SYMBOL || !touches(s, x->pub.self)) return x->pub.self;
    const Dim *a = subst_dim(t, s, x->pub.a), *b = subst_dim(t, s, x->pub.b);
    x->image = rebuild(t, x->pub.kind, a, b);
    x->stamp = s->stamp;
    return x->image;
}

static const Dim *subst_dim(DimTable *t, const Subst *s, const Dim *d) {
    if (!touches(s, d)) return d;
    const Dim *sum = dim_int(t, 0);
    Poly kept; // terms without any of the symbols go over as they are
    poly_init(&kept);
    for (int i = 0; i < d->nterms; i++) {
        const Dim *term = dim_of_term(t, d->terms[i].c, d->terms[i].m);
        if (!touches(s, term)) {
            poly_add(&kept, d->terms[i].c, d->terms[i].m);
            continue;
        }
        const Dim *product = dim_int(t, d->terms[i].c);
        for (int j = 0; j < d->terms[i].m->n; j++) product = dim_mul(t, product, subst_atom(t, s, d->terms[i].m->f[j]));
        sum = dim_add(t, sum, product);
    }
    return dim_add(t, sum, poly_finish(t, &kept));
}

const Dim *dim_subst(DimTable *t, const Dim *d, const Dim *const *from, const Dim *const *to, int n) {
    Subst s = {from, to, n, 0};
    if (!touches(&s, d)) return d;
    s.stamp = dim_next_stamp(t);
    for (int i = n - 1; i >= 0; i--) { // the first of equal symbols wins
        AtomNode *x = dim_as_atom(from[i]);
        x->stamp = s.stamp;
        x->image = to[i];
    }
    return subst_dim(t, &s, d);
}

// ---- upper bounds ----

static void find_inner(void *ctx, const Dim *sym) {
    const Dim **found = ctx;
    if (dim_as_symbol(sym)->kind != SYM_MODEL) *found = sym;
}

// d at sym's bound: the lower one where d falls as sym grows.
static const Dim *at_bound(DimTable *t, const Dim *d, const Dim *sym) {
    const Sym *s = dim_as_symbol(sym);
    const Dim *next = dim_addi(t, sym, 1), *grown = dim_subst(t, d, &sym, &next, 1);
    bool falls = dim_ge0(t, dim_sub(t, grown, d)) != YES && dim_ge0(t, dim_sub(t, d, grown)) == YES;
    const Dim *bound = falls ? s->lo : s->hi;
    return bound ? dim_subst(t, d, &sym, &bound, 1) : NULL;
}

const Dim *dim_upper(DimTable *t, const Dim *d) {
    enum { STEPS = 64 }; // bounds mention symbols in their turn
    for (int i = 0; d && i < STEPS; i++) {
        const Dim *sym = NULL;
        dim_symbols(d, find_inner, &sym);
        if (!sym) return d;
        d = at_bound(t, d, sym);
    }
    return NULL;
}

// ---- evaluation ----

typedef struct {
    int64_t (*get)(void *ctx, const Dim *sym);
    void *ctx;
    bool *ok;
} Env;

static int64_t eval_atom(const Env *e, const AtomNode *x) {
    if (x->pub.kind == ATOM_SYMBOL) return e->get(e->ctx, x->pub.self);
    int64_t a = dim_eval(x->pub.a, e->get, e->ctx, e->ok), b = dim_eval(x->pub.b, e->get, e->ctx, e->ok);
    if (x->pub.kind == ATOM_MIN) return a < b ? a : b;
    if (x->pub.kind == ATOM_MAX) return a > b ? a : b;
    if (b == 0 || (a == INT64_MIN && b == -1)) {
        *e->ok = false;
        return 0;
    }
    int64_t r = a % b;
    bool down = r != 0 && (r < 0) != (b < 0);
    return x->pub.kind == ATOM_MOD ? r + (down ? b : 0) : a / b - down;
}

int64_t dim_eval(const Dim *d, int64_t (*get)(void *ctx, const Dim *sym), void *ctx, bool *ok) {
    if (d->poison) {
        *ok = false;
        return 0;
    }
    Env e = {get, ctx, ok};
    const Dim *shown = dim_shown(d);
    int64_t sum = 0;
    for (int i = 0; i < shown->nterms; i++) {
        int64_t product = shown->terms[i].c;
        const Mono *m = shown->terms[i].m;
        for (int j = 0; j < m->n; j++)
            if (!i64_mul(product, eval_atom(&e, m->f[j]), &product)) *ok = false, product = 0;
        if (!i64_add(sum, product, &sum)) *ok = false, sum = 0;
    }
    return sum;
}
