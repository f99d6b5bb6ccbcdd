// The index algebra: named identities, hostile sizes, and random expressions whose Dim must agree with direct integer evaluation in every
// environment, lie within its interval, obey its proofs, and survive printing and parsing as the same pointer.
#include "../../ir/dim.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

// ---- fixture: model sizes N, S, T >= 1, an unnamed size, indices below them, a bounded and an open value ----

enum { SYMBOLS = 9, ENVS = 6 };

static DimTable *t;
static const Dim *sym[SYMBOLS];
static const char *const names[SYMBOLS] = {"N", "S", "T", "x:0", "i", "s", "u", "c", "w"};

static void set_up(void) {
    t = dim_table_new();
    const Dim *zero = dim_int(t, 0), *one = dim_int(t, 1);
    sym[0] = dim_symbol(t, names[0], SYM_MODEL, one, dim_int(t, 1000));
    sym[1] = dim_symbol(t, names[1], SYM_MODEL, one, NULL);
    sym[2] = dim_symbol(t, names[2], SYM_MODEL, one, NULL);
    sym[3] = dim_symbol(t, names[3], SYM_DATA, zero, NULL);
    for (int k = 0; k < 3; k++) sym[4 + k] = dim_symbol(t, names[4 + k], SYM_LOOP, zero, dim_addi(t, sym[k], -1));
    sym[7] = dim_symbol(t, names[7], SYM_LOOP, zero, dim_int(t, 63));
    sym[8] = dim_symbol(t, names[8], SYM_DATA, NULL, NULL);
}

static void tear_down(void) {
    dim_table_free(t);
}

static const Dim *lookup(void *ctx, const char *name, size_t n) {
    (void)ctx;
    for (int k = 0; k < SYMBOLS; k++)
        if (strlen(names[k]) == n && memcmp(names[k], name, n) == 0) return sym[k];
    return NULL;
}

static const Dim *parse(const char *text) {
    const char *p = text;
    const Dim *d = dim_parse(t, &p, lookup, NULL);
    ck_assert_msg(d && *p == '\0', "'%s' is not read past '%s'", text, p);
    return d;
}

static void same(const char *a, const char *b) {
    const Dim *x = parse(a), *y = parse(b);
    ck_assert_msg(x == y, "%s is %s, %s is %s", a, dim_text(t, x), b, dim_text(t, y));
}

static void shown(const char *a, const char *text) {
    ck_assert_str_eq(dim_text(t, parse(a)), text);
}

static void interval(const char *a, int64_t lo, int64_t hi) {
    int64_t l, h;
    dim_interval(parse(a), &l, &h);
    ck_assert_msg(l == lo && h == hi, "%s in [%lld, %lld]", a, (long long)l, (long long)h);
}

START_TEST(sums_are_canonical) {
    same("(N + S)*(N - S)", "N*N - S*S");
    same("N*(S + T) - S*N", "T*N");
    same("N - N", "0");
    same("2*(N + 1) - 2", "N + N");
    ck_assert(dim_is(parse("(N + 1)*(N + 1) - N*N - 2*N"), 1));
    const Dim *three[3] = {sym[0], sym[1], sym[2]};
    ck_assert(dim_product(t, three, 3) == parse("T*S*N"));
    ck_assert(dim_is(dim_product(t, three, 0), 1));
    ck_assert(dim_axis(t, 2, sym[0]) == dim_axis(t, 2, sym[0]));
    ck_assert(dim_axis(t, 2, sym[0]) != dim_axis(t, 2, sym[1]));
    ck_assert(dim_symbol(t, "N", SYM_MODEL, NULL, NULL) != sym[0]);
}
END_TEST

START_TEST(quotients_fold) {
    same("floordiv(4*w + 3, 4)", "w");
    same("mod(4*w + 7, 4)", "3");
    same("floordiv(s*T + u, T)", "s");
    same("mod(s*T + u, T)", "u");
    same("floordiv(i*S*T + s*T + u, S*T)", "i");
    same("floordiv(s*T + u, S*T)", "0");
    same("floordiv(4*s*T + 4*u + mod(w, 4), 4*T)", "s");
    same("floordiv(w + S, S)", "floordiv(w, S) + 1");
    same("floordiv(floordiv(w, 3), 4)", "floordiv(w, 12)");
    same("floordiv(floordiv(w, S), T)", "floordiv(w, S*T)");
    same("floordiv(floordiv(w, 3) + N, 4)", "floordiv(w + 3*N, 12)");
    same("mod(mod(w, 12), 4)", "mod(w, 4)");
    same("mod(c, 64)", "c");
    same("floordiv(c, 64)", "0");
    same("floordiv(c - 64, 64)", "-1");
    same("floordiv(6*w + 3, 9)", "floordiv(2*w + 1, 3)");
    same("floordiv(-w, 4)", "-ceildiv(w, 4)");
    same("floordiv(S - 1, S)", "0");
    same("floordiv(-7, 2)", "-4");
    same("mod(-7, 2)", "1");
    same("ceildiv(-7, 2)", "-3");
}
END_TEST

START_TEST(round_trips_vanish) {
    same("4*floordiv(w, 4) + mod(w, 4)", "w");
    same("S*floordiv(w, S) + mod(w, S)", "w");
    same("S*T*floordiv(w, S*T) + T*mod(floordiv(w, T), S) + mod(w, T)", "w");
    same("12*floordiv(w, 12) + 4*floordiv(mod(w, 12), 4) + mod(w, 4)", "w");
    same("N*8*floordiv(c, 8) + N*mod(c, 8)", "N*c");
    shown("mod(w, 12)", "mod(w, 12)");
    shown("floordiv(mod(w, 12), 4)", "mod(floordiv(w, 4), 3)");
    shown("8*N*S*floordiv(c, 8) + mod(c, 8)", "8*N*S*floordiv(c, 8) + mod(c, 8)");
    shown("2*w - 4*floordiv(w, 4)", "w + mod(w, 4)");
}
END_TEST

START_TEST(extrema_fold) {
    same("min(N, N + 1)", "N");
    same("max(i, N)", "N");
    same("min(i, N - 1)", "i");
    same("min(S, N)", "min(N, S)");
    same("min(min(S, N), T)", "min(N, min(T, S))");
    same("min(min(S, N), N)", "min(N, S)");
    same("min(N + 3, S + 3)", "min(N, S) + 3");
    same("min(9223372036854775807, S)", "S");
    same("max(0, s)", "s");
    same("max(min(N, S), N)", "N");
}
END_TEST

START_TEST(intervals_are_tight) {
    interval("2*c + 1", 1, 127);
    interval("mod(w, 7)", 0, 6);
    interval("floordiv(c, 8)", 0, 7);
    interval("floordiv(3*c, 4)", 0, 47);
    interval("c + 56*floordiv(c, 8)", 0, 455);
    interval("c - 8*floordiv(c, 8)", 0, 7);
    interval("N - i - 1", 0, 999);
    interval("mod(w, S)", 0, DIM_INF);
    interval("w*w", 0, DIM_INF);
    interval("min(c, N)", 0, 63);
    interval("w", -DIM_INF, DIM_INF);
}
END_TEST

START_TEST(proofs_see_symbolic_bounds) {
    ck_assert(dim_ge0(t, parse("S - s - 1")) == YES);
    ck_assert(dim_ge0(t, parse("S*T - 1 - (s*T + u)")) == YES);
    ck_assert(dim_ge0(t, parse("N*S*T - 1 - (i*S*T + s*T + u)")) == YES);
    ck_assert(dim_ge0(t, parse("s - S")) == NO);
    ck_assert(dim_ge0(t, parse("S - T")) == UNKNOWN);
    ck_assert(dim_ge0(t, parse("S*S - S")) == YES);
    ck_assert(dim_lt(t, parse("4*floordiv(s, 4)"), parse("S")) == YES);
    ck_assert(dim_le(t, parse("floordiv(S, 2)"), parse("S")) == YES);
    ck_assert(dim_lt(t, parse("mod(w, S)"), parse("S")) == YES);
    ck_assert(dim_lt(t, parse("min(s + 4, S) - 1"), parse("S")) == YES);
    ck_assert(dim_le(t, parse("S"), parse("4*ceildiv(S, 4)")) == YES);
    ck_assert(dim_eq(t, parse("2*w + 1"), parse("2*N")) == NO);
    ck_assert(dim_eq(t, parse("N + 1"), parse("1 + N")) == YES);
    ck_assert(dim_eq(t, parse("N"), parse("S")) == UNKNOWN);
    ck_assert(dim_eq(t, parse("s"), parse("S")) == NO);
}
END_TEST

static const Dim *fresh(const char *name, const char *hi) {
    return dim_symbol(t, name, SYM_LOOP, dim_int(t, 0), parse(hi));
}

// What loops, tiles, windows and caches need in bounds.
START_TEST(proofs_cover_loop_nests) {
    const Dim *io = fresh("io", "ceildiv(S, 32) - 1"), *from = dim_muli(t, io, 32);
    const Dim *left = dim_addi(t, dim_min(t, dim_int(t, 32), dim_sub(t, sym[1], from)), -1);
    const Dim *ii = dim_symbol(t, "ii", SYM_LOOP, dim_int(t, 0), left);
    ck_assert(dim_lt(t, dim_add(t, from, ii), sym[1]) == YES);
    ck_assert(dim_ge0(t, left) == YES);
    const Dim *o = fresh("o", "floordiv(S + 2 - 3, 2)"), *k = fresh("k", "2"), *at = dim_add(t, dim_muli(t, o, 2), k);
    ck_assert(dim_lt(t, at, parse("S + 2")) == YES);
    ck_assert(dim_lt(t, dim_addi(t, at, -1), sym[1]) == UNKNOWN);
    const Dim *f = fresh("f", "N*S - 1"), *row = dim_floordiv(t, f, sym[1]), *col = dim_mod(t, f, sym[1]);
    ck_assert(dim_lt(t, row, sym[0]) == YES && dim_lt(t, col, sym[1]) == YES);
    ck_assert(dim_lt(t, dim_add(t, dim_mul(t, col, sym[0]), row), parse("N*S")) == YES);
    ck_assert(dim_lt(t, parse("i*(S + T) + s + T - 1"), parse("N*(S + T)")) == YES);
    ck_assert(dim_le(t, parse("max(N, S) - min(N, S)"), parse("0 - 1")) == NO);
    ck_assert(dim_eq(t, parse("floordiv(S, 2) + floordiv(S + 1, 2)"), sym[1]) == YES);
}
END_TEST

START_TEST(structure_is_visible) {
    const Dim *d = parse("2*N*S - 3*floordiv(w + 1, 4) + 5"), *c, *r;
    ck_assert_int_eq(dim_nterms(d), 3);
    ck_assert_int_eq(dim_coefficient(d, 0), 2);
    ck_assert_int_eq(dim_nfactors(d, 0), 2);
    ck_assert(dim_factor(d, 0, 0)->kind == ATOM_SYMBOL && dim_factor(d, 0, 0)->self == sym[0]);
    ck_assert(dim_factor(d, 1, 0)->kind == ATOM_FLOORDIV && dim_factor(d, 1, 0)->a == parse("w + 1"));
    ck_assert_int_eq(dim_nfactors(d, 2), 0);
    ck_assert_int_eq(dim_nterms(parse("0")), 0);
    const Dim *m = parse("mod(w, 4)");
    ck_assert(dim_nterms(m) == 1 && dim_factor(m, 0, 0)->kind == ATOM_MOD && dim_factor(m, 0, 0)->self == m);
    ck_assert(dim_as_symbol(sym[3]) && !dim_as_symbol(d));
    ck_assert(dim_linear(t, parse("N*s + 4*s + T"), sym[5], &c, &r) && c == parse("N + 4") && r == sym[2]);
    ck_assert(!dim_linear(t, parse("s*s"), sym[5], &c, &r));
    ck_assert(!dim_linear(t, parse("s + floordiv(s, 2)"), sym[5], &c, &r));
    ck_assert(dim_linear(t, parse("N"), sym[5], &c, &r) && dim_is(c, 0) && r == sym[0]);
    ck_assert(dim_has_symbol(parse("floordiv(min(N, w), 2)"), sym[8]) && !dim_has_symbol(d, sym[2]));
}
END_TEST

START_TEST(substitution_is_simultaneous) {
    const Dim *from[2] = {sym[1], sym[2]}, *to[2] = {sym[2], sym[1]};
    ck_assert(dim_subst(t, parse("S - 2*T + floordiv(S*w, T)"), from, to, 2) == parse("T - 2*S + floordiv(T*w, S)"));
    const Dim *outer = parse("8*i + mod(s, 8)");
    ck_assert(dim_subst(t, parse("64*floordiv(w, 8) + mod(w, 8)"), &sym[8], &outer, 1) == parse("64*i + mod(s, 8)"));
}
END_TEST

START_TEST(hostile_sizes_poison) {
    const Dim *big = dim_int(t, INT64_MAX), *least = dim_int(t, INT64_MIN);
    ck_assert(dim_is_poison(dim_addi(t, big, 1)));
    ck_assert(dim_is_poison(dim_mul(t, big, big)));
    ck_assert(dim_is_poison(dim_muli(t, least, -1)));
    ck_assert(dim_is_poison(dim_mul(t, dim_mul(t, big, sym[0]), dim_int(t, 2))));
    ck_assert(dim_is_poison(dim_floordiv(t, sym[0], dim_int(t, 0))));
    ck_assert(dim_is_poison(dim_mod(t, sym[0], dim_int(t, 0))));
    const Dim *poison = dim_addi(t, big, 1);
    ck_assert(dim_is_poison(dim_add(t, sym[0], poison)) && dim_is_poison(dim_min(t, sym[0], poison)));
    ck_assert(dim_is_poison(dim_subst(t, parse("N + S"), &sym[0], &poison, 1)));
    ck_assert(dim_ge0(t, poison) == UNKNOWN && dim_eq(t, poison, poison) == UNKNOWN);
    ck_assert(dim_is(least, INT64_MIN) && parse("-9223372036854775808") == least);
    const Dim *deep = sym[0], *wide = sym[0];
    for (int k = 0; k < 1000; k++) deep = dim_min(t, dim_add(t, dim_muli(t, deep, 2), sym[1]), sym[2]);
    ck_assert(dim_is_poison(deep));
    for (int k = 0; k < 40; k++) wide = dim_mul(t, wide, dim_add(t, wide, sym[1]));
    ck_assert(dim_is_poison(wide));
    bool ok = true;
    dim_eval(poison, NULL, NULL, &ok);
    ck_assert(!ok);
}
END_TEST

START_TEST(faults_are_where_they_are) {
    static const struct {
        const char *text;
        int at;
    } cases[] = {{"N + ", 4}, {"Q", 0}, {"N + Q*2", 4}, {"min(N)", 5}, {"9223372036854775808", 0}, {"(N", 2}, {"\"x:0", 0}, {"", 0}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const char *p = cases[k].text;
        ck_assert_ptr_null(dim_parse(t, &p, lookup, NULL));
        ck_assert_int_le(p - cases[k].text, (long)strlen(cases[k].text));
        if (cases[k].text[0] != '"') ck_assert_int_eq(p - cases[k].text, cases[k].at);
    }
    char *nested = malloc(200001);
    memset(nested, '(', 200000);
    nested[200000] = '\0';
    const char *p = nested;
    ck_assert_ptr_null(dim_parse(t, &p, lookup, NULL));
    memset(nested, '-', 200000);
    p = nested;
    ck_assert_ptr_null(dim_parse(t, &p, lookup, NULL));
    free(nested);
    p = "N]";
    ck_assert(dim_parse(t, &p, lookup, NULL) == sym[0] && *p == ']');
    shown("\"x:0\" + 1", "\"x:0\" + 1");
}
END_TEST

// ---- random expressions ----

typedef struct {
    const Dim *d;
    int64_t v[ENVS];
} Sample;

static uint64_t seed;
static int64_t env[ENVS][SYMBOLS];

static int64_t rnd(int64_t lo, int64_t hi) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return lo + (int64_t)((seed >> 33) % (uint64_t)(hi - lo + 1));
}

static int64_t floor_div(int64_t a, int64_t b) {
    return a / b - (a % b < 0);
}

static void random_env(int64_t *e) {
    for (int k = 0; k < 3; k++) e[k] = rnd(1, rnd(0, 1) ? 3 : 9);
    e[3] = rnd(0, 20);
    for (int k = 0; k < 3; k++) e[4 + k] = rnd(0, e[k] - 1);
    e[7] = rnd(0, 63);
    e[8] = rnd(-40, 40);
}

static Sample constant(int64_t c) {
    Sample x = {.d = dim_int(t, c)};
    for (int e = 0; e < ENVS; e++) x.v[e] = c;
    return x;
}

static Sample symbol(int k) {
    Sample x = {.d = sym[k]};
    for (int e = 0; e < ENVS; e++) x.v[e] = env[e][k];
    return x;
}

typedef enum { ADD, SUB, MUL, DIV, MOD, MIN, MAX, CEILDIV } Op;

static int64_t apply_int(Op op, int64_t a, int64_t b) {
    switch (op) {
    case ADD: return a + b;
    case SUB: return a - b;
    case MUL: return a * b;
    case DIV: return floor_div(a, b);
    case MOD: return a - b * floor_div(a, b);
    case MIN: return a < b ? a : b;
    case MAX: return a > b ? a : b;
    default: return -floor_div(-a, b);
    }
}

static const Dim *apply_dim(Op op, const Dim *a, const Dim *b) {
    static const Dim *(*const fn[])(DimTable *, const Dim *, const Dim *) = {
        dim_add, dim_sub, dim_mul, dim_floordiv, dim_mod, dim_min, dim_max, dim_ceildiv};
    return fn[op](t, a, b);
}

static Sample apply(Op op, Sample a, Sample b) {
    Sample x = {.d = apply_dim(op, a.d, b.d)};
    for (int e = 0; e < ENVS; e++) x.v[e] = apply_int(op, a.v[e], b.v[e]);
    return x;
}

static Sample divisor(void) {
    switch (rnd(0, 4)) {
    case 0: return symbol((int)rnd(0, 2));
    case 1: return apply(MUL, symbol((int)rnd(0, 2)), symbol((int)rnd(0, 2)));
    case 2: return apply(ADD, symbol((int)rnd(0, 3)), constant(rnd(1, 3)));
    case 3: return apply(MUL, symbol((int)rnd(0, 2)), constant(rnd(1, 4)));
    default: return constant(rnd(1, 12));
    }
}

static Sample random_expr(int depth) {
    if (depth == 0 || rnd(0, 5) == 0) return rnd(0, 3) == 0 ? constant(rnd(-9, 9)) : symbol((int)rnd(0, SYMBOLS - 1));
    switch (rnd(0, 7)) {
    case 0:
    case 1: return apply(ADD, random_expr(depth - 1), random_expr(depth - 1));
    case 2: return apply(SUB, random_expr(depth - 1), random_expr(depth - 1));
    case 3: return apply(MUL, random_expr(depth - 1), rnd(0, 1) ? constant(rnd(-4, 6)) : symbol((int)rnd(0, 2)));
    case 4: return apply(DIV, random_expr(depth - 1), divisor());
    case 5: return apply(MOD, random_expr(depth - 1), divisor());
    case 6: return apply(rnd(0, 1) ? MIN : MAX, random_expr(depth - 1), random_expr(depth - 1));
    default: return apply(CEILDIV, random_expr(depth - 1), divisor());
    }
}

static int64_t value_of(void *ctx, const Dim *s) {
    const int64_t *e = ctx;
    for (int k = 0; k < SYMBOLS; k++)
        if (sym[k] == s) return e[k];
    ck_abort_msg("an unknown symbol is asked for");
}

static void check_values(const Sample *x) {
    int64_t lo, hi;
    dim_interval(x->d, &lo, &hi);
    Tri ge0 = dim_ge0(t, x->d);
    for (int e = 0; e < ENVS; e++) {
        bool ok = true;
        int64_t v = dim_eval(x->d, value_of, env[e], &ok);
        ck_assert_msg(ok && v == x->v[e], "%s is %lld, not %lld", dim_text(t, x->d), (long long)x->v[e], (long long)v);
        ck_assert_msg(
            lo <= v && v <= hi, "%s = %lld is outside [%lld, %lld]", dim_text(t, x->d), (long long)v, (long long)lo, (long long)hi);
        ck_assert_msg(ge0 == UNKNOWN || (v >= 0) == (ge0 == YES), "%s = %lld against the proof", dim_text(t, x->d), (long long)v);
    }
}

static void check_relations(const Sample *a, const Sample *b) {
    Tri le = dim_le(t, a->d, b->d), lt = dim_lt(t, a->d, b->d), eq = dim_eq(t, a->d, b->d);
    for (int e = 0; e < ENVS; e++) {
        ck_assert(le == UNKNOWN || (a->v[e] <= b->v[e]) == (le == YES));
        ck_assert(lt == UNKNOWN || (a->v[e] < b->v[e]) == (lt == YES));
        ck_assert(eq == UNKNOWN || (a->v[e] == b->v[e]) == (eq == YES));
    }
}

// The ring's laws hold as equality of pointers.
static void check_laws(const Sample *a, const Sample *b, const Sample *c) {
    ck_assert(dim_add(t, a->d, b->d) == dim_add(t, b->d, a->d));
    ck_assert(dim_add(t, dim_add(t, a->d, b->d), c->d) == dim_add(t, a->d, dim_add(t, b->d, c->d)));
    ck_assert(dim_sub(t, dim_add(t, a->d, b->d), b->d) == a->d);
    ck_assert(dim_min(t, a->d, b->d) == dim_min(t, b->d, a->d));
    const Dim *sum = dim_mul(t, a->d, dim_add(t, b->d, c->d));
    ck_assert(sum == dim_add(t, dim_mul(t, a->d, b->d), dim_mul(t, a->d, c->d)));
    Sample k = divisor();
    const Dim *q = dim_floordiv(t, a->d, k.d), *r = dim_mod(t, a->d, k.d);
    ck_assert(dim_add(t, dim_mul(t, k.d, q), r) == a->d);
}

// Substituting a symbol by an expression and evaluating is evaluating in the changed environment; `w` has no bounds to break.
static void check_subst(const Sample *a, const Sample *b) {
    const Dim *d = dim_subst(t, a->d, &sym[8], &b->d, 1);
    for (int e = 0; e < ENVS; e++) {
        int64_t changed[SYMBOLS];
        bool ok = true;
        memcpy(changed, env[e], sizeof changed);
        changed[8] = b->v[e];
        int64_t direct = dim_eval(a->d, value_of, changed, &ok), v = dim_eval(d, value_of, env[e], &ok);
        ck_assert(dim_is_poison(d) || (ok && v == direct));
    }
}

static void check_text(const Sample *x) {
    const char *text = dim_text(t, x->d), *p = text;
    const Dim *d = dim_parse(t, &p, lookup, NULL);
    ck_assert_msg(d == x->d && *p == '\0', "'%s' reads back as '%s'", text, d ? dim_text(t, d) : p);
}

START_TEST(random_expressions_agree) {
    seed = (uint64_t)_i + 1;
    for (int round = 0; round < 150; round++) {
        for (int e = 0; e < ENVS; e++) random_env(env[e]);
        Sample x[3];
        for (int k = 0; k < 3; k++) x[k] = random_expr((int)rnd(1, 5));
        if (dim_is_poison(x[0].d) || dim_is_poison(x[1].d) || dim_is_poison(x[2].d)) continue;
        for (int k = 0; k < 3; k++) {
            check_values(&x[k]);
            check_text(&x[k]);
        }
        check_relations(&x[0], &x[1]);
        check_laws(&x[0], &x[1], &x[2]);
        check_subst(&x[0], &x[2]);
    }
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("dim");
    TCase *c = tcase_create("dim");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, sums_are_canonical);
    tcase_add_test(c, quotients_fold);
    tcase_add_test(c, round_trips_vanish);
    tcase_add_test(c, extrema_fold);
    tcase_add_test(c, intervals_are_tight);
    tcase_add_test(c, proofs_see_symbolic_bounds);
    tcase_add_test(c, proofs_cover_loop_nests);
    tcase_add_test(c, structure_is_visible);
    tcase_add_test(c, substitution_is_simultaneous);
    tcase_add_test(c, hostile_sizes_poison);
    tcase_add_test(c, faults_are_where_they_are);
    tcase_add_loop_test(c, random_expressions_agree, 0, 12);
    suite_add_tcase(s, c);
    return s;
}

int main(void) {
    SRunner *r = srunner_create(suite());
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
