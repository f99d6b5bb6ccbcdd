// What a Dim looks like from outside: the shown form with mod atoms, and text in both directions.
//
// Shown form: wherever a Dim holds m*x - m*k*floordiv(x, k), that part is shown as m*mod(x, k); so too with x = floordiv(y, j) and the
// quotient floordiv(y, j*k), the middle digits of a mixed-radix number. Reading mod back expands it, so the value and the pointer stay.
//
// Text: names that are not plain words ([A-Za-z_][A-Za-z0-9_]*) are written in double quotes with \" and \\ escaped.
#include "dim_impl.h"

#include <string.h>

// ---- shown form ----

enum { NEST_MAX = 100 };

// m when d holds m*x and takes away m*k*q, q = floordiv(x, k), for the term `of` of q's coefficient; else NULL.
static const Dim *mod_multiplier(DimTable *t, const Dim *d, const Dim *x, const Dim *k, Term of) {
    if (x->nterms == 0) return NULL;
    const Mono *m = mono_div(t, of.m, k->terms[0].m), *lead = m ? mono_mul(t, m, x->terms[0].m) : NULL;
    if (!lead || of.c == INT64_MIN || of.c % k->terms[0].c != 0) return NULL;
    int64_t c = -of.c / k->terms[0].c, needed;
    if (!i64_mul(c, x->terms[0].c, &needed)) return NULL;
    for (int i = 0; i < d->nterms; i++)
        if (d->terms[i].m == lead && (d->terms[i].c < 0) == (needed < 0) && i64_abs(d->terms[i].c) >= i64_abs(needed))
            return dim_of_term(t, c, m);
    return NULL;
}

// Takes one m*mod(x, k) out of *d, q = floordiv(x, k); false when *d does not get shorter.
static bool take_mod(DimTable *t, const Dim **d, const AtomNode *q, const Dim *x, const Dim *k, Poly *mods) {
    const Dim *c, *rest;
    if (!dim_take_out(t, *d, q, &c, &rest)) return false;
    for (int i = 0; i < c->nterms; i++) {
        const Dim *m = mod_multiplier(t, *d, x, k, c->terms[i]);
        if (!m) continue;
        const Dim *less = dim_add(t, dim_sub(t, *d, dim_mul(t, m, x)), dim_mul(t, dim_mul(t, m, k), q->pub.self));
        if (less->poison || less->nterms >= (*d)->nterms) continue;
        AtomNode *mod = dim_atom_node(t, ATOM_MOD, x, k);
        if (!mod) continue;
        poly_add(mods, m->terms[0].c, mono_mul(t, m->terms[0].m, dim_mono_of(t, mod)));
        *d = less;
        return true;
    }
    return false;
}

// The same with x the quotient by a part j of the divisor, for each j that occurs in *d.
static bool take_digit(DimTable *t, const Dim **d, const AtomNode *q, Poly *mods) {
    for (int i = 0; i < (*d)->nterms; i++) {
        const Mono *m = (*d)->terms[i].m;
        const AtomNode *p = m->n == 1 ? m->f[0] : NULL;
        if (!p || p == q || p->pub.kind != ATOM_FLOORDIV) continue;
        const Dim *k = dim_divide_exactly(t, q->pub.b, p->pub.b);
        if (!k || dim_is(k, 1)) continue;
        const Dim *x = dim_floordiv(t, q->pub.a, p->pub.b);
        if (dim_floordiv(t, x, k) == q->pub.self && take_mod(t, d, q, x, k, mods)) return true;
    }
    return false;
}

// One mod out of *d; false when there is none left.
static bool take_any(DimTable *t, const Dim **d, Poly *mods) {
    for (int i = 0; i < (*d)->nterms; i++)
        for (int j = 0; j < (*d)->terms[i].m->n; j++) {
            const AtomNode *q = (*d)->terms[i].m->f[j];
            if (q->pub.kind != ATOM_FLOORDIV) continue;
            if (take_mod(t, d, q, q->pub.a, q->pub.b, mods) || take_digit(t, d, q, mods)) return true;
        }
    return false;
}

const Dim *dim_shown(const Dim *d) {
    if (d->shown) return d->shown;
    DimTable *t = d->table;
    Dim *m = (Dim *)(uintptr_t)d;
    const Dim *rest = d;
    Poly shown;
    poly_init(&shown);
    while (take_any(t, &rest, &shown)) continue;
    for (int i = 0; i < rest->nterms; i++) poly_add(&shown, rest->terms[i].c, rest->terms[i].m);
    const Dim *all = poly_finish(t, &shown);
    m->shown = all->poison ? d : all;
    return m->shown;
}

int dim_nterms(const Dim *d) {
    return dim_shown(d)->nterms;
}

int64_t dim_coefficient(const Dim *d, int term) {
    return dim_shown(d)->terms[term].c;
}

int dim_nfactors(const Dim *d, int term) {
    return dim_shown(d)->terms[term].m->n;
}

const Atom *dim_factor(const Dim *d, int term, int factor) {
    return &dim_shown(d)->terms[term].m->f[factor]->pub;
}

// ---- print ----

static const char *const functions[] = {[ATOM_FLOORDIV] = "floordiv", [ATOM_MOD] = "mod", [ATOM_MIN] = "min", [ATOM_MAX] = "max"};

static bool word_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool word_char(char c) {
    return word_start(c) || (c >= '0' && c <= '9');
}

static void print_name(Str *s, const char *name) {
    bool plain = word_start(name[0]);
    for (const char *c = name; *c && plain; c++) plain = word_char(*c);
    if (plain) {
        str_add(s, name);
        return;
    }
    str_add(s, "\"");
    for (const char *c = name; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            str_printf(s, "\\x%02x", (unsigned)(unsigned char)*c);
        else
            str_printf(s, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    }
    str_add(s, "\"");
}

static void print_atom(Str *s, const AtomNode *x) {
    if (x->pub.kind == ATOM_SYMBOL) {
        print_name(s, x->sym.name);
        return;
    }
    str_printf(s, "%s(", functions[x->pub.kind]);
    dim_print(s, x->pub.a);
    str_add(s, ", ");
    dim_print(s, x->pub.b);
    str_add(s, ")");
}

void dim_print(Str *s, const Dim *d) {
    if (d->poison) str_add(s, "poison");
    if (d->nterms == 0 && !d->poison) str_add(s, "0");
    const Dim *shown = dim_shown(d);
    for (int i = 0; i < shown->nterms; i++) {
        Term x = shown->terms[i];
        bool negative = x.c < 0;
        uint64_t size = i64_abs(x.c);
        str_add(s, i == 0 ? (negative ? "-" : "") : negative ? " - " : " + ");
        if (size != 1 || x.m->n == 0) str_printf(s, "%llu%s", (unsigned long long)size, x.m->n ? "*" : "");
        for (int j = 0; j < x.m->n; j++) {
            if (j > 0) str_add(s, "*");
            print_atom(s, x.m->f[j]);
        }
    }
}

const char *dim_text(DimTable *t, const Dim *d) {
    Str s = {0};
    dim_print(&s, d);
    const char *text = arena_strdup(dim_arena(t), s.data);
    str_free(&s);
    return text;
}

// ---- parse ----

typedef struct {
    DimTable *t;
    const char *p;
    const Dim *(*lookup)(void *ctx, const char *name, size_t n);
    void *ctx;
    int depth;
} Parser;

static const Dim *parse_sum(Parser *ps);

static void skip_blanks(Parser *ps) {
    while (*ps->p == ' ' || *ps->p == '\t') ps->p++;
}

static bool accept(Parser *ps, char c) {
    skip_blanks(ps);
    if (*ps->p != c) return false;
    ps->p++;
    return true;
}

// A literal with the sign that stands before it: -9223372036854775808 is one, 9223372036854775808 is not.
static const Dim *parse_literal(Parser *ps, bool negative) {
    const char *start = ps->p;
    uint64_t v = 0, limit = (uint64_t)INT64_MAX + negative;
    for (; *ps->p >= '0' && *ps->p <= '9'; ps->p++) {
        uint64_t digit = (uint64_t)(*ps->p - '0');
        if (v > (limit - digit) / 10) {
            ps->p = start;
            return NULL;
        }
        v = v * 10 + digit;
    }
    return dim_int(ps->t, negative ? (int64_t)-v : (int64_t)v);
}

typedef const Dim *Function(DimTable *t, const Dim *a, const Dim *b);

static Function *find_function(const char *name, size_t n) {
    static const struct {
        const char *name;
        Function *fn;
    } table[] = {{"floordiv", dim_floordiv}, {"ceildiv", dim_ceildiv}, {"mod", dim_mod}, {"min", dim_min}, {"max", dim_max}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strlen(table[i].name) == n && memcmp(table[i].name, name, n) == 0) return table[i].fn;
    return NULL;
}

static const Dim *parse_call(Parser *ps, Function *fn) {
    const Dim *a = parse_sum(ps);
    if (!a || !accept(ps, ',')) return NULL;
    const Dim *b = parse_sum(ps);
    if (!b || !accept(ps, ')')) return NULL;
    return fn(ps->t, a, b);
}

static const Dim *parse_word(Parser *ps) {
    const char *name = ps->p;
    while (word_char(*ps->p)) ps->p++;
    size_t n = (size_t)(ps->p - name);
    Function *fn = find_function(name, n);
    if (fn && accept(ps, '(')) return parse_call(ps, fn);
    const Dim *d = ps->lookup ? ps->lookup(ps->ctx, name, n) : NULL;
    if (!d && n == 6 && memcmp(name, "poison", n) == 0) return dim_poison(ps->t);
    if (!d) ps->p = name;
    return d;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// One character of a quoted name; false at its end or a fault.
static bool quoted_char(const char **p, char *out) {
    const char *s = *p;
    if (*s == '"' || *s == '\0') return false;
    if (*s != '\\') {
        *out = *s;
        *p = s + 1;
        return true;
    }
    if (s[1] == 'x' && hex_digit(s[2]) >= 0 && hex_digit(s[3]) >= 0) {
        *out = (char)(hex_digit(s[2]) * 16 + hex_digit(s[3]));
        *p = s + 4;
        return true;
    }
    if (s[1] != '"' && s[1] != '\\') return false;
    *out = s[1];
    *p = s + 2;
    return true;
}

static const Dim *parse_quoted(Parser *ps) {
    const char *start = ps->p++;
    Str name = {0};
    char c;
    while (quoted_char(&ps->p, &c)) str_addn(&name, &c, 1);
    const Dim *d = NULL;
    if (*ps->p == '"') {
        d = ps->lookup ? ps->lookup(ps->ctx, name.data ? name.data : "", name.n) : NULL;
        ps->p = d ? ps->p + 1 : start;
    }
    str_free(&name);
    return d;
}

static const Dim *parse_factor(Parser *ps, bool negative) {
    while (accept(ps, '-')) negative = !negative;
    char c = *ps->p;
    if (c >= '0' && c <= '9') return parse_literal(ps, negative);
    const Dim *d = NULL;
    if (accept(ps, '(')) {
        d = parse_sum(ps);
        if (d && !accept(ps, ')')) d = NULL;
    } else if (word_start(c)) {
        d = parse_word(ps);
    } else if (c == '"') {
        d = parse_quoted(ps);
    }
    return d && negative ? dim_neg(ps->t, d) : d;
}

static const Dim *parse_product(Parser *ps, bool negative) {
    const Dim *d = parse_factor(ps, negative);
    while (d && accept(ps, '*')) {
        const Dim *f = parse_factor(ps, false);
        d = f ? dim_mul(ps->t, d, f) : NULL;
    }
    return d;
}

static const Dim *parse_sum(Parser *ps) {
    if (ps->depth == NEST_MAX) return NULL;
    ps->depth++;
    const Dim *d = parse_product(ps, false);
    while (d) {
        bool minus = accept(ps, '-');
        if (!minus && !accept(ps, '+')) break;
        const Dim *e = parse_product(ps, minus);
        d = e ? dim_add(ps->t, d, e) : NULL;
    }
    ps->depth--;
    return d;
}

const Dim *dim_parse(DimTable *t, const char **p, const Dim *(*lookup)(void *ctx, const char *name, size_t n), void *ctx) {
    Parser ps = {t, *p, lookup, ctx, 0};
    const Dim *d = parse_sum(&ps);
    *p = ps.p;
    return d;
}
