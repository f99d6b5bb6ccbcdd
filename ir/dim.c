// The canonical form: interning of monomials, atoms and sums, polynomial arithmetic, substitution and evaluation.
//
// Everything is hash-consed in open-addressing tables that are only looked up, never walked: no result depends on their order.
// Results that are costly to find (quotients, minima, proofs) are remembered in one more table.
#include "dim_impl.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    uint64_t hash;
    void *item; // NULL: free
} Slot;

typedef struct {
    Slot *slots;
    size_t n, cap; // cap is a power of two
} Interner;

struct DimTable {
    Arena *arena;
    Interner monos, atoms, dims, memos;
    const Dim *poison;
    int atom_count;
    uint64_t stamp;
};

// ---- integers ----

bool i64_add(int64_t a, int64_t b, int64_t *r) {
    return !__builtin_add_overflow(a, b, r);
}

bool i64_mul(int64_t a, int64_t b, int64_t *r) {
    return !__builtin_mul_overflow(a, b, r);
}

int64_t i64_floordiv(int64_t a, int64_t b) {
    return a / b - (a % b < 0);
}

uint64_t i64_abs(int64_t a) {
    return a < 0 ? -(uint64_t)a : (uint64_t)a;
}

uint64_t u64_gcd(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

// ---- tables ----

static uint64_t mix(uint64_t h, uint64_t v) {
    h = (h ^ v) * 0x9e3779b97f4a7c15ull;
    return h ^ (h >> 29);
}

// The slot of the item equal to key, or the free one where it belongs.
static Slot *intern_slot(Interner *in, uint64_t hash, const void *key, bool (*same)(const void *item, const void *key)) {
    size_t i = hash & (in->cap - 1);
    while (in->slots[i].item && !(in->slots[i].hash == hash && same(in->slots[i].item, key))) i = (i + 1) & (in->cap - 1);
    return &in->slots[i];
}

// Room for one more item; the old slots stay in the arena.
static void intern_reserve(DimTable *t, Interner *in) {
    if (2 * (in->n + 1) <= in->cap) return;
    Interner bigger = {.cap = in->cap ? 2 * in->cap : 64, .n = in->n};
    bigger.slots = ARENA_ARRAY(t->arena, Slot, bigger.cap);
    for (size_t i = 0; i < in->cap; i++) {
        if (!in->slots[i].item) continue;
        size_t at = in->slots[i].hash & (bigger.cap - 1);
        while (bigger.slots[at].item) at = (at + 1) & (bigger.cap - 1);
        bigger.slots[at] = in->slots[i];
    }
    *in = bigger;
}

static void intern_set(Interner *in, Slot *slot, uint64_t hash, void *item) {
    *slot = (Slot){hash, item};
    in->n++;
}

Arena *dim_arena(DimTable *t) {
    return t->arena;
}

const Dim *dim_poison(DimTable *t) {
    return t->poison;
}

uint64_t dim_next_stamp(DimTable *t) {
    return ++t->stamp;
}

static bool memo_same(const void *item, const void *key) {
    const Memo *x = item, *y = key;
    return x->op == y->op && x->a == y->a && x->b == y->b && x->n == y->n;
}

Memo *dim_memo(DimTable *t, MemoOp op, const Dim *a, const Dim *b, int64_t n) {
    Memo key = {.op = op, .a = a, .b = b, .n = n};
    uint64_t hash = mix(mix(mix(op, a->hash), b ? b->hash : 0), (uint64_t)n);
    intern_reserve(t, &t->memos);
    Slot *slot = intern_slot(&t->memos, hash, &key, memo_same);
    if (!slot->item) intern_set(&t->memos, slot, hash, arena_copy(t->arena, &key, sizeof key));
    return slot->item;
}

// ---- order ----

static int compare_bounds(const Dim *a, const Dim *b) {
    if (!a || !b) return (a != NULL) - (b != NULL);
    return dim_compare(a, b);
}

static int compare_symbols(const AtomNode *x, const AtomNode *y) {
    int c = strcmp(x->sym.name, y->sym.name);
    if (!c) c = (int)x->sym.kind - (int)y->sym.kind;
    if (!c) c = compare_bounds(x->sym.lo, y->sym.lo);
    if (!c) c = compare_bounds(x->sym.hi, y->sym.hi);
    return c ? c : x->id - y->id;
}

static int compare_atoms(const AtomNode *x, const AtomNode *y) {
    if (x == y) return 0;
    if (x->pub.kind != y->pub.kind) return (int)x->pub.kind - (int)y->pub.kind;
    if (x->pub.kind == ATOM_SYMBOL) return compare_symbols(x, y);
    int c = dim_compare(x->pub.a, y->pub.a);
    return c ? c : dim_compare(x->pub.b, y->pub.b);
}

static int compare_monos(const Mono *x, const Mono *y) {
    if (x == y) return 0;
    if (x->n != y->n) return y->n - x->n;
    for (int i = 0; i < x->n; i++) {
        int c = compare_atoms(x->f[i], y->f[i]);
        if (c) return c;
    }
    return 0;
}

int dim_compare(const Dim *a, const Dim *b) {
    if (a == b) return 0;
    if (a->poison != b->poison) return (int)a->poison - (int)b->poison;
    for (int i = 0; i < a->nterms && i < b->nterms; i++) {
        int c = compare_monos(a->terms[i].m, b->terms[i].m);
        if (c) return c;
        if (a->terms[i].c != b->terms[i].c) return a->terms[i].c < b->terms[i].c ? -1 : 1;
    }
    return a->nterms - b->nterms;
}

// ---- monomials ----

typedef struct {
    int n;
    AtomNode *f[DEGREE_MAX];
} Factors;

static bool mono_same(const void *item, const void *key) {
    const Mono *m = item;
    const Factors *k = key;
    return m->n == k->n && (m->n == 0 || memcmp(m->f, k->f, sizeof *m->f * (size_t)m->n) == 0);
}

static Range mono_range(const Factors *k) {
    Range r = {1, 1};
    for (int i = 0, run; i < k->n; i += run) {
        for (run = 1; i + run < k->n && k->f[i + run] == k->f[i];) run++;
        r = range_mul(r, range_power(k->f[i]->range, run));
    }
    return r;
}

static const Mono *mono_intern(DimTable *t, const Factors *k) {
    uint64_t hash = HASH_SEED;
    for (int i = 0; i < k->n; i++) hash = mix(hash, k->f[i]->hash);
    intern_reserve(t, &t->monos);
    Slot *slot = intern_slot(&t->monos, hash, k, mono_same);
    if (slot->item) return slot->item;
    Mono *m = ARENA_NEW(t->arena, Mono);
    *m = (Mono){.hash = hash, .n = k->n, .range = mono_range(k), .f = arena_copy(t->arena, k->f, sizeof *k->f * (size_t)k->n)};
    intern_set(&t->monos, slot, hash, m);
    return m;
}

static const Mono *mono_one(DimTable *t) {
    Factors k = {.n = 0};
    return mono_intern(t, &k);
}

const Mono *dim_mono_of(DimTable *t, AtomNode *atom) {
    Factors k = {.n = 1, .f = {atom}};
    return mono_intern(t, &k);
}

const Mono *mono_mul(DimTable *t, const Mono *a, const Mono *b) {
    if (a->n == 0) return b;
    if (b->n == 0) return a;
    if (a->n + b->n > DEGREE_MAX) return NULL;
    Factors k = {.n = 0};
    int i = 0, j = 0;
    while (i < a->n || j < b->n) {
        bool left = j == b->n || (i < a->n && compare_atoms(a->f[i], b->f[j]) <= 0);
        k.f[k.n++] = left ? a->f[i++] : b->f[j++];
    }
    return mono_intern(t, &k);
}

// The factors of a, less those of b when `without`, or only those shared with b. *shared counts the latter.
static const Mono *mono_split(DimTable *t, const Mono *a, const Mono *b, bool without, int *shared) {
    Factors k = {.n = 0};
    int j = 0;
    *shared = 0;
    for (int i = 0; i < a->n; i++) {
        while (j < b->n && compare_atoms(b->f[j], a->f[i]) < 0) j++;
        bool common = j < b->n && b->f[j] == a->f[i];
        if (common) j++, ++*shared;
        if (common != without) k.f[k.n++] = a->f[i];
    }
    return mono_intern(t, &k);
}

const Mono *mono_div(DimTable *t, const Mono *a, const Mono *b) {
    if (b->n == 0) return a;
    if (b->n > a->n) return NULL;
    int shared;
    const Mono *q = mono_split(t, a, b, true, &shared);
    return shared == b->n ? q : NULL;
}

const Mono *mono_gcd(DimTable *t, const Mono *a, const Mono *b) {
    int shared;
    return mono_split(t, a, b, false, &shared);
}

// ---- sums ----

void poly_init(Poly *p) {
    p->t = p->small;
    p->n = 0;
    p->cap = sizeof p->small / sizeof *p->small;
    p->bad = false;
}

void poly_add(Poly *p, int64_t c, const Mono *m) {
    if (!m || p->n >= 2 * TERMS_MAX) p->bad = true;
    if (p->bad || c == 0) return;
    if (p->n == p->cap) {
        Term *old = p->t == p->small ? NULL : p->t;
        p->t = mem_realloc(old, sizeof *p->t * 2 * (size_t)p->cap);
        if (!old) memcpy(p->t, p->small, sizeof p->small);
        p->cap *= 2;
    }
    p->t[p->n++] = (Term){c, m};
}

static int compare_terms(const void *x, const void *y) {
    return compare_monos(((const Term *)x)->m, ((const Term *)y)->m);
}

// Sorts, adds up equal monomials, drops zeros.
static void poly_collect(Poly *p) {
    bool sorted = true;
    for (int i = 1; i < p->n && sorted; i++) sorted = compare_terms(&p->t[i - 1], &p->t[i]) < 0;
    if (sorted) return;
    qsort(p->t, (size_t)p->n, sizeof *p->t, compare_terms);
    int out = 0;
    for (int i = 0, next; i < p->n; i = next) {
        int64_t sum = p->t[i].c;
        for (next = i + 1; next < p->n && p->t[next].m == p->t[i].m; next++)
            if (!i64_add(sum, p->t[next].c, &sum)) p->bad = true;
        if (sum) p->t[out++] = (Term){sum, p->t[i].m};
    }
    p->n = out;
}

typedef struct {
    const Term *t;
    int n;
} TermsKey;

static bool dim_same(const void *item, const void *key) {
    const Dim *d = item;
    const TermsKey *k = key;
    if (d->nterms != k->n || d->poison) return false;
    for (int i = 0; i < k->n; i++)
        if (d->terms[i].c != k->t[i].c || d->terms[i].m != k->t[i].m) return false;
    return true;
}

// Weight, depth and the interval of the terms. False when the Dim is too large to keep.
static bool measure(Dim *d) {
    Range r = {0, 0};
    for (int i = 0; i < d->nterms; i++) {
        const Mono *m = d->terms[i].m;
        d->weight++;
        for (int j = 0; j < m->n; j++) {
            d->weight += m->f[j]->weight;
            if (m->f[j]->depth > d->depth) d->depth = m->f[j]->depth;
            if (d->weight > WEIGHT_MAX) return false;
        }
        r = range_add(r, range_scale(m->range, d->terms[i].c));
    }
    d->range = r;
    return d->depth <= DEPTH_MAX;
}

// terms: sorted, distinct, without zeros.
static const Dim *dim_intern(DimTable *t, const Term *terms, int n) {
    if (n > TERMS_MAX) return t->poison;
    uint64_t hash = HASH_SEED;
    for (int i = 0; i < n; i++) hash = mix(mix(hash, (uint64_t)terms[i].c), terms[i].m->hash);
    TermsKey key = {terms, n};
    intern_reserve(t, &t->dims);
    Slot *slot = intern_slot(&t->dims, hash, &key, dim_same);
    if (slot->item) return slot->item;
    Dim trial = {.table = t, .hash = hash, .terms = terms, .nterms = n};
    if (!measure(&trial)) return t->poison;
    Dim *d = arena_copy(t->arena, &trial, sizeof trial);
    d->terms = arena_copy(t->arena, terms, sizeof *terms * (size_t)n);
    intern_set(&t->dims, slot, hash, d);
    return d;
}

const Dim *poly_finish(DimTable *t, Poly *p) {
    if (!p->bad) poly_collect(p);
    const Dim *d = p->bad ? t->poison : dim_intern(t, p->t, p->n);
    if (p->t != p->small) mem_realloc(p->t, 0);
    return d;
}

const Dim *dim_of_term(DimTable *t, int64_t c, const Mono *m) {
    Term term = {c, m};
    return m ? dim_intern(t, &term, c != 0) : t->poison;
}

// ---- atoms ----

typedef struct {
    AtomKind kind;
    const Dim *a, *b;
} AtomKey;

static bool atom_same(const void *item, const void *key) {
    const AtomNode *x = item;
    const AtomKey *k = key;
    return x->pub.kind == k->kind && x->pub.a == k->a && x->pub.b == k->b;
}

static AtomNode *atom_new(DimTable *t, AtomKind kind, uint64_t hash) {
    AtomNode *x = ARENA_NEW(t->arena, AtomNode);
    x->pub.kind = kind;
    x->hash = hash;
    x->id = t->atom_count++;
    x->weight = 1;
    return x;
}

AtomNode *dim_atom_node(DimTable *t, AtomKind kind, const Dim *a, const Dim *b) {
    if (a->poison || b->poison) return NULL;
    AtomKey key = {kind, a, b};
    uint64_t hash = mix(mix(kind, a->hash), b->hash);
    intern_reserve(t, &t->atoms);
    Slot *slot = intern_slot(&t->atoms, hash, &key, atom_same);
    if (slot->item) return slot->item;
    int depth = 1 + (a->depth > b->depth ? a->depth : b->depth);
    if (depth > DEPTH_MAX || a->weight + b->weight >= WEIGHT_MAX) return NULL;
    AtomNode *x = atom_new(t, kind, hash);
    x->pub.a = a;
    x->pub.b = b;
    x->weight = 1 + a->weight + b->weight;
    x->depth = depth;
    intern_set(&t->atoms, slot, hash, x);
    x->range = range_of_atom(kind, a, b);
    x->pub.self = kind == ATOM_MOD ? dim_mod(t, a, b) : dim_of_term(t, 1, dim_mono_of(t, x));
    return x;
}

const Dim *dim_of_atom(DimTable *t, AtomKind kind, const Dim *a, const Dim *b) {
    AtomNode *x = dim_atom_node(t, kind, a, b);
    return x ? x->pub.self : t->poison;
}

AtomNode *dim_as_atom(const Dim *d) {
    if (d->nterms != 1 || d->terms[0].c != 1 || d->terms[0].m->n != 1) return NULL;
    return d->terms[0].m->f[0];
}

// ---- table, constants, symbols ----

DimTable *dim_table_new(void) {
    Arena *arena = arena_new();
    DimTable *t = ARENA_NEW(arena, DimTable);
    t->arena = arena;
    Dim *poison = ARENA_NEW(arena, Dim);
    *poison = (Dim){.table = t, .hash = 1, .poison = true, .tight = true, .range = {-DIM_INF, DIM_INF}, .weight = 1};
    t->poison = poison;
    return t;
}

void dim_table_free(DimTable *t) {
    if (t) arena_free(t->arena);
}

const Dim *dim_int(DimTable *t, int64_t v) {
    return dim_of_term(t, v, mono_one(t));
}

const Dim *dim_symbol(DimTable *t, const char *name, SymKind kind, const Dim *lo, const Dim *hi) {
    if (lo && lo->poison) lo = NULL;
    if (hi && hi->poison) hi = NULL;
    int id = t->atom_count;
    AtomNode *x = atom_new(t, ATOM_SYMBOL, mix(HASH_SEED, (uint64_t)id));
    x->sym = (Sym){arena_strdup(t->arena, name), kind, lo, hi};
    x->pub.sym = &x->sym;
    x->range.lo = lo ? dim_range(lo).lo : -DIM_INF;
    x->range.hi = hi ? dim_range(hi).hi : DIM_INF;
    const Dim *self = dim_of_term(t, 1, dim_mono_of(t, x));
    x->pub.self = self;
    return self;
}

void dim_symbol_bound(const Dim *sym, const Dim *hi) {
    AtomNode *x = dim_as_atom(sym);
    if (x->sym.hi || hi->poison) return;
    x->sym.hi = hi;
    x->range.hi = dim_range(hi).hi;
    Dim *self = (Dim *)(uintptr_t)sym;
    if (self->range.hi > x->range.hi) self->range.hi = x->range.hi;
}

const Dim *dim_axis(DimTable *t, int axis, const Dim *extent) {
    Memo *m = dim_memo(t, MEMO_AXIS, extent, NULL, axis);
    if (!m->result) {
        char *name = arena_printf(t->arena, "d%d", axis);
        m->result = dim_symbol(t, name, SYM_AXIS, dim_int(t, 0), dim_addi(t, extent, -1));
    }
    return m->result;
}

// ---- arithmetic ----

const Dim *dim_add(DimTable *t, const Dim *a, const Dim *b) {
    if (a->poison || b->poison) return t->poison;
    if (a->nterms == 0) return b;
    if (b->nterms == 0) return a;
    Poly p;
    poly_init(&p);
    int i = 0, j = 0;
    while (i < a->nterms || j < b->nterms) {
        int c = i == a->nterms ? 1 : j == b->nterms ? -1 : compare_monos(a->terms[i].m, b->terms[j].m);
        int64_t sum = c <= 0 ? a->terms[i].c : b->terms[j].c;
        if (c == 0 && !i64_add(a->terms[i].c, b->terms[j].c, &sum)) p.bad = true;
        poly_add(&p, sum, c <= 0 ? a->terms[i].m : b->terms[j].m);
        i += c <= 0;
        j += c >= 0;
    }
    return poly_finish(t, &p);
}

const Dim *dim_muli(DimTable *t, const Dim *a, int64_t b) {
    if (a->poison || b == 1) return a;
    Poly p;
    poly_init(&p);
    for (int i = 0; i < a->nterms; i++) {
        int64_t c;
        if (!i64_mul(a->terms[i].c, b, &c)) p.bad = true;
        poly_add(&p, p.bad ? 0 : c, a->terms[i].m);
    }
    return poly_finish(t, &p);
}

const Dim *dim_neg(DimTable *t, const Dim *d) {
    return dim_muli(t, d, -1);
}

const Dim *dim_sub(DimTable *t, const Dim *a, const Dim *b) {
    return a == b && !a->poison ? dim_int(t, 0) : dim_add(t, a, dim_neg(t, b));
}

const Dim *dim_addi(DimTable *t, const Dim *a, int64_t b) {
    return dim_add(t, a, dim_int(t, b));
}

const Dim *dim_mul(DimTable *t, const Dim *a, const Dim *b) {
    int64_t v;
    if (a->poison || b->poison) return t->poison;
    if (dim_is_int(a, &v)) return dim_muli(t, b, v);
    if (dim_is_int(b, &v)) return dim_muli(t, a, v);
    Poly p;
    poly_init(&p);
    if (a->nterms > TERMS_MAX / b->nterms) p.bad = true;
    for (int i = 0; i < a->nterms && !p.bad; i++)
        for (int j = 0; j < b->nterms && !p.bad; j++) {
            int64_t c;
            if (!i64_mul(a->terms[i].c, b->terms[j].c, &c)) p.bad = true;
            poly_add(&p, p.bad ? 0 : c, mono_mul(t, a->terms[i].m, b->terms[j].m));
        }
    return poly_finish(t, &p);
}

const Dim *dim_product(DimTable *t, const Dim *const *d, int n) {
    bool zero = false;
    for (int i = 0; i < n; i++) {
        if (d[i]->poison) return t->poison;
        zero = zero || d[i]->nterms == 0;
    }
    const Dim *p = dim_int(t, zero ? 0 : 1);
    for (int i = 0; i < n && !zero; i++) p = dim_mul(t, p, d[i]);
    return p;
}

// ---- questions ----

bool dim_is_poison(const Dim *d) {
    return d->poison;
}

bool dim_is_int(const Dim *d, int64_t *v) {
    if (d->poison || d->nterms > 1 || (d->nterms == 1 && d->terms[0].m->n > 0)) return false;
    if (v) *v = d->nterms ? d->terms[0].c : 0;
    return true;
}

bool dim_is(const Dim *d, int64_t v) {
    int64_t is;
    return dim_is_int(d, &is) && is == v;
}

const Sym *dim_as_symbol(const Dim *d) {
    const AtomNode *x = dim_as_atom(d);
    return x && x->pub.kind == ATOM_SYMBOL ? &x->sym : NULL;
}

static int compare_atom_pointers(const void *x, const void *y) {
    return compare_atoms(*(AtomNode *const *)x, *(AtomNode *const *)y);
}

typedef VEC(AtomNode *) AtomVec;

static void need_symbols(const Dim *d);

static void push_symbols(DimTable *t, AtomVec *v, const Dim *d) {
    need_symbols(d);
    for (int i = 0; i < d->nsyms; i++) vec_push(t->arena, v, d->syms[i]);
}

static void push_atom_symbols(DimTable *t, AtomVec *v, AtomNode *x) {
    if (x->pub.kind == ATOM_SYMBOL) {
        vec_push(t->arena, v, x);
        return;
    }
    push_symbols(t, v, x->pub.a);
    push_symbols(t, v, x->pub.b);
}

// Fills in the distinct symbols of d, in order; on the first question, as most Dims are never asked.
static void need_symbols(const Dim *d) {
    if (d->asked) return;
    DimTable *t = d->table;
    AtomVec v = {0};
    for (int i = 0; i < d->nterms; i++)
        for (int j = 0; j < d->terms[i].m->n; j++) push_atom_symbols(t, &v, d->terms[i].m->f[j]);
    if (v.n > 1) qsort(v.data, (size_t)v.n, sizeof *v.data, compare_atom_pointers);
    int out = 0;
    for (int i = 0; i < v.n; i++)
        if (out == 0 || v.data[i] != v.data[out - 1]) v.data[out++] = v.data[i];
    Dim *m = (Dim *)(uintptr_t)d;
    m->syms = v.data;
    m->nsyms = out;
    m->asked = true;
}

bool dim_has_symbol(const Dim *d, const Dim *sym) {
    need_symbols(d);
    const AtomNode *x = dim_as_atom(sym);
    for (int i = 0; i < d->nsyms; i++)
        if (d->syms[i] == x) return true;
    return false;
}

void dim_symbols(const Dim *d, void (*fn)(void *ctx, const Dim *sym), void *ctx) {
    need_symbols(d);
    for (int i = 0; i < d->nsyms; i++) fn(ctx, d->syms[i]->pub.self);
}
