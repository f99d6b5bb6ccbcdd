// Index expressions in the evaluator: as affine functions of the axes (a view is then a stride), else element by element over strips.
#include "graph_eval.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// ---- affine ----

static int64_t floor_div(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static bool is_constant(const Affine *a, int rank) {
    for (int i = 0; i < rank; i++)
        if (a->c[i]) return false;
    return true;
}

void affine_range(const Affine *a, int rank, const int64_t *shape, int64_t *lo, int64_t *hi) {
    *lo = *hi = a->c0;
    for (int i = 0; i < rank; i++) {
        int64_t far = a->c[i] * (shape[i] - 1);
        if (far < 0)
            *lo += far;
        else
            *hi += far;
    }
}

// out += k * a; false on overflow.
static bool add_scaled(Affine *out, int64_t k, const Affine *a, int rank) {
    int64_t p;
    if (__builtin_mul_overflow(k, a->c0, &p) || __builtin_add_overflow(out->c0, p, &out->c0)) return false;
    for (int i = 0; i < rank; i++)
        if (__builtin_mul_overflow(k, a->c[i], &p) || __builtin_add_overflow(out->c[i], p, &out->c[i])) return false;
    return true;
}

// The number after the letter of an axis symbol.
static int axis_number(const Sym *s) {
    return atoi(s->name + 1);
}

// min or max: whichever operand wins over the whole box.
static bool affine_extreme(bool min, const Affine *a, const Affine *b, int rank, const int64_t *shape, Affine *out) {
    Affine d = *a;
    int64_t lo, hi;
    if (!add_scaled(&d, -1, b, rank)) return false;
    affine_range(&d, rank, shape, &lo, &hi);
    if (hi > 0 && lo < 0) return false;
    *out = (min ? hi <= 0 : lo >= 0) ? *a : *b;
    return true;
}

// floordiv and mod by a constant: multiples of it go their own way when the rest stays in one period.
static bool affine_divide(bool mod, const Affine *a, int64_t k, int rank, const int64_t *shape, Affine *out) {
    Affine multiple = {0}, rest = {0};
    if (k <= 0) return false;
    for (int i = 0; i < rank; i++) {
        if (a->c[i] % k == 0)
            multiple.c[i] = a->c[i] / k;
        else
            rest.c[i] = a->c[i];
    }
    int64_t lo, hi;
    multiple.c0 = floor_div(a->c0, k);
    rest.c0 = a->c0 - multiple.c0 * k;
    affine_range(&rest, rank, shape, &lo, &hi);
    int64_t period = floor_div(lo, k);
    if (period != floor_div(hi, k)) return false;
    multiple.c0 += period;
    rest.c0 -= period * k;
    *out = mod ? rest : multiple;
    return true;
}

static bool affine_atom(Eval *e, const Atom *t, int rank, const int64_t *shape, Affine *out) {
    memset(out, 0, sizeof *out);
    if (t->kind == ATOM_SYMBOL) {
        if (t->sym->kind != SYM_AXIS) return eval_symbol(e, t->self, &out->c0);
        int k = axis_number(t->sym);
        if (k >= rank) return false;
        if (shape[k] > 1) out->c[k] = 1;
        return true;
    }
    Affine a, b;
    if (!eval_affine(e, t->a, rank, shape, &a) || !eval_affine(e, t->b, rank, shape, &b)) return false;
    if (t->kind == ATOM_MIN || t->kind == ATOM_MAX) return affine_extreme(t->kind == ATOM_MIN, &a, &b, rank, shape, out);
    return is_constant(&b, rank) && affine_divide(t->kind == ATOM_MOD, &a, b.c0, rank, shape, out);
}

bool eval_affine(Eval *e, const Dim *d, int rank, const int64_t *shape, Affine *out) {
    memset(out, 0, sizeof *out);
    if (dim_is_poison(d)) return false;
    for (int i = 0; i < dim_nterms(d); i++) {
        Affine product = {.c0 = dim_coefficient(d, i)};
        for (int k = 0; k < dim_nfactors(d, i); k++) {
            Affine f, old = product;
            if (!affine_atom(e, dim_factor(d, i, k), rank, shape, &f)) return false;
            bool constant = is_constant(&f, rank);
            if (!constant && !is_constant(&old, rank)) return false;
            memset(&product, 0, sizeof product);
            if (!add_scaled(&product, constant ? f.c0 : old.c0, constant ? &old : &f, rank)) return false;
        }
        if (!add_scaled(out, 1, &product, rank)) return false;
    }
    return true;
}

// ---- strips ----

void index_begin(IndexStrip *s, Eval *e, const Node *n, int rank, const int64_t *shape) {
    memset(s, 0, sizeof *s);
    s->e = e;
    s->n = n;
    s->ok = true;
    s->walk.rank = rank;
    memcpy(s->walk.shape, shape, sizeof *shape * (size_t)rank);
}

static void use_symbol(void *ctx, const Dim *sym) {
    IndexStrip *s = ctx;
    const Sym *k = dim_as_symbol(sym);
    int i = k->kind == SYM_AXIS ? axis_number(k) : -1;
    if (i < 0 || i >= s->walk.rank || s->used[i]) return;
    s->used[i] = true;
    s->axis[i] = ARENA_ARRAY(eval_scratch(s->e), int64_t, EVAL_STRIP);
}

void index_use(IndexStrip *s, const Dim *d) {
    dim_symbols(d, use_symbol, s);
}

void index_move(IndexStrip *s, int64_t first, int n) {
    s->count = n;
    int64_t inner = 1;
    for (int k = s->walk.rank - 1; k >= 0; inner *= s->walk.shape[k], k--) {
        if (!s->used[k]) continue;
        int64_t at = first / inner % s->walk.shape[k], left = inner - first % inner, *out = s->axis[k];
        for (int i = 0; i < n;) {
            int run = left < n - i ? (int)left : n - i;
            for (int j = 0; j < run; j++) out[i + j] = at;
            i += run;
            left = inner;
            if (++at == s->walk.shape[k]) at = 0;
        }
    }
}

static void symbol_value(IndexStrip *s, const Atom *t, int64_t *out) {
    size_t bytes = sizeof *out * (size_t)s->count;
    if (t->sym->kind == SYM_AXIS) {
        int k = axis_number(t->sym);
        if (k < s->walk.rank && s->used[k])
            memcpy(out, s->axis[k], bytes);
        else
            s->ok = false;
        return;
    }
    for (int i = 0; i < s->nv; i++)
        if (s->vsyms[i] == t->self) {
            memcpy(out, s->v[i], bytes);
            return;
        }
    int64_t v = 0;
    if (!eval_symbol(s->e, t->self, &v)) s->ok = false;
    for (int i = 0; i < s->count; i++) out[i] = v;
}

static void atom_value(IndexStrip *s, const Atom *t, int64_t *out) {
    if (t->kind == ATOM_SYMBOL) {
        symbol_value(s, t, out);
        return;
    }
    int64_t b[EVAL_STRIP];
    index_value(s, t->a, out);
    index_value(s, t->b, b);
    int n = s->count;
    switch (t->kind) {
    case ATOM_MIN:
        for (int i = 0; i < n; i++) out[i] = out[i] < b[i] ? out[i] : b[i];
        break;
    case ATOM_MAX:
        for (int i = 0; i < n; i++) out[i] = out[i] > b[i] ? out[i] : b[i];
        break;
    default:
        for (int i = 0; i < n; i++) {
            if (b[i] <= 0) {
                s->ok = false;
                return;
            }
            int64_t q = floor_div(out[i], b[i]);
            out[i] = t->kind == ATOM_FLOORDIV ? q : out[i] - q * b[i];
        }
    }
}

// Sums and products wrap: what comes out is checked against extents by the caller.
void index_value(IndexStrip *s, const Dim *d, int64_t *out) {
    int n = s->count;
    memset(out, 0, sizeof *out * (size_t)n);
    for (int t = 0; t < dim_nterms(d); t++) {
        int64_t product[EVAL_STRIP], c = dim_coefficient(d, t);
        int factors = dim_nfactors(d, t);
        if (factors == 0) {
            for (int i = 0; i < n; i++) out[i] = (int64_t)((uint64_t)out[i] + (uint64_t)c);
            continue;
        }
        atom_value(s, dim_factor(d, t, 0), product);
        for (int f = 1; f < factors; f++) {
            int64_t more[EVAL_STRIP];
            atom_value(s, dim_factor(d, t, f), more);
            for (int i = 0; i < n; i++) product[i] = (int64_t)((uint64_t)product[i] * (uint64_t)more[i]);
        }
        for (int i = 0; i < n; i++) out[i] = (int64_t)((uint64_t)out[i] + (uint64_t)product[i] * (uint64_t)c);
    }
}
