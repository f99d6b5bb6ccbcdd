// Expressions: folding and identities keep the value, rewriting meets shared nodes once, the checks name the fault, and text reads back.
#include "../../ir/expr.h"
#include "../../ir/strip.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static Arena *arena;
static DimTable *dims;
static const Dim *sym_i, *sym_n;
static Var var_x = {.kind = VAR_LET, .name = "x", .type = {DT_f32, 1}}, var_v = {.kind = VAR_MUT, .name = "v", .type = {DT_f32, 8}};
static Var var_m = {.kind = VAR_LET, .name = "m", .type = {DT_bool, 8}}, var_k = {.kind = VAR_LET, .name = "k", .type = {DT_i32, 8}};
static Var var_b = {.kind = VAR_LET, .name = "b", .type = {DT_u8, 32}}, var_s = {.kind = VAR_LET, .name = "s", .type = {DT_i8, 32}};
static Var var_j = {.kind = VAR_LET, .name = "j", .type = {DT_idx, 1}}, var_max = {.kind = VAR_LET, .name = "max", .type = {DT_i64, 1}};
static Var var_acc = {.kind = VAR_TILE, .name = "acc", .type = {DT_f32, 8}, .ntile = 2, .tile = {4, 2}};
static Var var_buf = {.kind = VAR_BUFFER, .name = "buf", .type = {DT_f32, 1}},
           var_q = {.kind = VAR_BUFFER, .name = "q", .type = {DT_u8, 1}};
static Var *const vars[] = {&var_x, &var_v, &var_m, &var_k, &var_b, &var_s, &var_j, &var_max, &var_acc, &var_buf, &var_q};

static void setup(void) {
    arena = arena_new();
    dims = dim_table_new();
    sym_i = dim_symbol(dims, "i", SYM_LOOP, dim_int(dims, 0), dim_int(dims, 99));
    sym_n = dim_symbol(dims, "N", SYM_MODEL, dim_int(dims, 1), NULL);
}

static void teardown(void) {
    dim_table_free(dims);
    arena_free(arena);
}

static const Dim *find_dim(void *ctx, const char *name, size_t n) {
    (void)ctx;
    return n == 1 && *name == 'i' ? sym_i : n == 1 && *name == 'N' ? sym_n : NULL;
}

static Var *find_var(void *ctx, const char *name, size_t n) {
    (void)ctx;
    for (size_t i = 0; i < sizeof vars / sizeof *vars; i++)
        if (strlen(vars[i]->name) == n && memcmp(vars[i]->name, name, n) == 0) return vars[i];
    return NULL;
}

static DType find_arg(void *ctx, int k) {
    (void)ctx;
    static const DType types[] = {DT_f32, DT_f32, DT_i64, DT_bool, DT_f16};
    return k < 5 ? types[k] : DT_none;
}

static ExprParser parser(void) {
    return (ExprParser){.arena = arena, .dims = dims, .dim = find_dim, .var = find_var, .arg = find_arg};
}

static const Expr *parse_as(const char *text, VType want) {
    ExprParser ps = parser();
    const char *p = text;
    const Expr *e = expr_parse(&ps, &p, want);
    ck_assert_msg(e != NULL, "%s: %s at '%s'", text, ps.error, p);
    ck_assert_msg(*p == '\0', "%s: stopped at '%s'", text, p);
    return e;
}

static const Expr *parse(const char *text) {
    return parse_as(text, vtype(DT_none, 0));
}

static char *print(const Expr *e) {
    Str s = {0};
    expr_print(&s, e);
    char *text = arena_strdup(arena, s.data);
    str_free(&s);
    return text;
}

// ---- text ----

// What is printed as it is written.
static const char *const canonical[] = {"a0 + a1", "(a0*a1) - 1.5f32", "a0 + a1 + a0", "(a0 + a1) - a0", "a0 - (a1 - a0)", "fma(a0, a1, x)",
    "select(a3, a0, -0.0f32)", "(a0 < a1) & a3", "(a0 == a1) | (a0 != a1)", "(a2 & 7i64) ^ -1i64", "cast.f16(a0)", "casts.f8e4m3fn(a0)",
    "bits.u32(a0)", "cast.i64(dim(2*i + 1)) + a2", "neg(a0)", "nanf32", "-inff32", "inff64", "0.1f32", "1e-45f32", "1e+30f64", "true",
    "18446744073709551615u64", "-9223372036854775808i64", "0.5f16", "7idx", "v + splat8(0.5f32)", "v + splat8(x)", "acc[i, 2]",
    "buf[N + 4*i]", "buf[i : 8]", "buf[i : 8 : 4]", "buf[i : 8 : 0]", "buf[0 @ k]", "buf[i : 8 @ k]", "buf[i : 8 : 2 @ k ? m]",
    "buf[i : 8 ? m]", "buf.i32[i : 8]", "q.f16[2*i]", "q[i @ j]", "iota8.i32", "shuffle(v; 0 0 2 3)", "shuffle(v, v; 0 8 1 9)",
    "table(v, k)", "lane(v, 3)", "insert(v, 3, x)", "hadd(v)", "hmax(k)", "hand(m)", "compress(v, m)", "expand(v, m)", "popcount(m)",
    "popcount(a2)", "dot4(k, b, s)", "widen16.i32(b, 16)", "index(j, 30522)", "index(j, N - 1)", "isa.fmadd_f32x8(v, v, splat8(1.0f32))",
    "max(max, 3i64)", "sigmoid(a0)", "pow(a0, 2.0f32)", "fmod(a0, a1)", "floordiv(a2, 2i64)", "not(a3)", "select(m, v, splat8(0.0f32))"};
enum { CANONICAL = sizeof canonical / sizeof *canonical };

static char *without_spaces(const char *s) {
    char *out = arena_strdup(arena, s), *to = out;
    for (; *s; s++)
        if (*s != ' ') *to++ = *s;
    *to = '\0';
    return out;
}

START_TEST(text_reads_back) {
    const Expr *e = parse(canonical[_i]);
    char *once = print(e);
    ck_assert_str_eq(without_spaces(once), without_spaces(canonical[_i]));
    const Expr *again = parse(once);
    ck_assert_str_eq(once, print(again));
    ck_assert_msg(expr_same(e, again), "%s", once);
}
END_TEST

START_TEST(literals_take_the_type_of_their_place) {
    static const char *const cases[][2] = {{"a0 + 1", "a0 + 1.0f32"}, {"1.5*a0", "1.5f32*a0"}, {"a2 + 1", "a2 + 1i64"},
        {"(1 + 2)*a0", "(1.0f32 + 2.0f32)*a0"}, {"max(v, 0)", "max(v, splat8(0.0f32))"}, {"v*x", "v*splat8(x)"}, {"a0 < 1", "a0 < 1.0f32"},
        {"select(a0 < 0, nan, a0)", "select(a0 < 0.0f32, nanf32, a0)"}, {"select(a3, 1, 2)*a0", "select(a3, 1.0f32, 2.0f32)*a0"},
        {"-a0*2", "neg(a0)*2.0f32"}, {"a0 - -1", "a0 - -1.0f32"}, {"a0 + a1*2 - 1", "(a0 + (a1*2.0f32)) - 1.0f32"},
        {"a2 & 3 == 1", "a2 & (3 == 1)"}, {"bits.i32(a0) & 0x80000000", ""}, {"bits.u32(a0) & 0x80000000", "bits.u32(a0) & 2147483648u32"},
        {"bits.i32(a0) ^ 0x80000000i32", "bits.i32(a0) ^ -2147483648i32"}, {"0x1.8p1f32", "3.0f32"}, {"buf[i ? a3]", "buf[i ? a3]"},
        {"i", "dim(i)"}, {"index(3, N)", "index(3idx, N)"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ExprParser ps = parser();
        const char *p = cases[i][0];
        const Expr *e = expr_parse(&ps, &p, vtype(DT_none, 0));
        if (!e && (i == 12 || i == 13)) continue; // a comparison of two bare literals; a number that does not fit
        ck_assert_msg(e && i != 12 && i != 13, "%s: %s", cases[i][0], ps.error);
        ck_assert_str_eq(without_spaces(print(e)), without_spaces(cases[i][1]));
    }
    ck_assert_str_eq(print(parse_as("1", vtype(DT_f16, 1))), "1.0f16");
    ck_assert_str_eq(print(parse_as("0", vtype(DT_f32, 8))), "splat8(0.0f32)");
    ck_assert_str_eq(print(parse_as("x", vtype(DT_f32, 8))), "splat8(x)");
}
END_TEST

START_TEST(faults_are_named) {
    static const char *const cases[][2] = {{"", "expected an expression, found 'end of text'"}, {"a0 +", "expected an expression"},
        {"(a0", "expected ')'"}, {"zz", "unknown name 'zz'"}, {"foo(a0)", "unknown function 'foo'"}, {"a9", "there is no input a9"},
        {"1", "type suffix"}, {"1f33", "unknown type suffix 'f33'"}, {"a0 + a2", "must be f32, found i64"},
        {"a0 & a1", "must be an integer or bool, found f32"}, {"rem(a0, a1)", "must be an integer, found f32"},
        {"sqrt(a2)", "must be a float, found i64"}, {"300u8", "does not fit u8"}, {"a2 + 1.5", "expected i64, found a float"},
        {"min(a0, 6.0 & 3.0)", "must be an integer or bool, found f32"}, {"cast.f99(a0)", "unknown type 'f99'"},
        {"bits.u64(a0)", "must have 8 bytes, found f32"}, {"select(a0, a1, a1)", "must be bool"}, {"lane(v, 8)", "lane must be in 0..7"},
        {"shuffle(v; 0 16)", "must be below 8"}, {"buf[i : 65]", "lanes must be in 1..64"}, {"buf.i32[i : 8 : 2]", "only contiguously"},
        {"acc[i]", "expected ','"}, {"isa.nothing(v)", "unknown instruction"}, {"dot4(k, b, b)", "must be i8x32"}, {"v + k", "must be"},
        {"buf[i : 8 ? v]", "mask"}, {"99999999999999999999", "too large"}, {"table(v, v)", "integers with 8 lanes"},
        {"not(-true)", "bool has no sign"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ExprParser ps = parser();
        const char *p = cases[i][0];
        ck_assert_msg(expr_parse(&ps, &p, vtype(DT_none, 0)) == NULL, "'%s' was read", cases[i][0]);
        ck_assert_msg(strstr(ps.error, cases[i][1]) != NULL, "'%s': \"%s\" does not say \"%s\"", cases[i][0], ps.error, cases[i][1]);
    }
    ExprParser ps = parser();
    const char *p = "x";
    ck_assert_ptr_null(expr_parse(&ps, &p, vtype(DT_i32, 1)));
    ck_assert_ptr_nonnull(strstr(ps.error, "expected i32"));
}
END_TEST

START_TEST(deep_nesting_is_refused) {
    char *text = ARENA_ARRAY(arena, char, 200001);
    memset(text, '(', 200000);
    ExprParser ps = parser();
    const char *p = text;
    ck_assert_ptr_null(expr_parse(&ps, &p, vtype(DT_none, 0)));
    memset(text, '-', 200000);
    p = text;
    ck_assert_ptr_null(expr_parse(&ps, &p, vtype(DT_none, 0)));
    ck_assert_ptr_nonnull(strstr(ps.error, "too deep"));
}
END_TEST

// An expression ends where no operator follows; a line's end is a space inside brackets only.
START_TEST(parsing_stops_behind_the_expression) {
    static const char *const cases[][2] = {
        {"a0 + a1, rest", ", rest"}, {"a0\n+ a1", "\n+ a1"}, {"fma(a0,\n a1,\n a0)\n", "\n"}, {"buf[i] }", " }"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ExprParser ps = parser();
        const char *p = cases[i][0];
        ck_assert_ptr_nonnull(expr_parse(&ps, &p, vtype(DT_none, 0)));
        ck_assert_str_eq(p, cases[i][1]);
    }
}
END_TEST

// ---- builders ----

START_TEST(constants_fold) {
    const Expr *two = x_float(arena, DT_f32, 2), *three = x_float(arena, DT_f32, 3);
    ck_assert_str_eq(print(x_op2(arena, X_mul, two, three)), "6.0f32");
    ck_assert_str_eq(print(x_op2(arena, X_lt, two, three)), "true");
    ck_assert_str_eq(print(x_cast(arena, DT_i8, x_float(arena, DT_f64, 1e9))), "127i8");
    ck_assert_str_eq(print(x_op2(arena, X_add, x_int(arena, DT_u8, 255), x_int(arena, DT_u8, 2))), "1u8");
    ck_assert_str_eq(print(x_op2(arena, X_add, x_splat(arena, two, 4), three)), "splat4(5.0f32)");
    ck_assert_str_eq(print(x_bits(arena, DT_u16, x_float(arena, DT_f16, 1))), "15360u16");
    ck_assert_str_eq(print(x_dim(arena, dim_int(dims, 5))), "5idx");
    ck_assert_str_eq(print(x_op2(arena, X_add, x_float(arena, DT_f16, 1), x_float(arena, DT_f16, 0x1p-11))), "1.0f16");
}
END_TEST

START_TEST(exact_identities_only) {
    const Expr *x = x_arg(arena, 0, DT_f32), *n = x_arg(arena, 2, DT_i64), *c = x_arg(arena, 3, DT_bool);
    const Expr *one = x_float(arena, DT_f32, 1), *zero = x_float(arena, DT_f32, 0), *minus_zero = x_float(arena, DT_f32, -0.0);
    const Expr *i0 = x_int(arena, DT_i64, 0), *i1 = x_int(arena, DT_i64, 1), *ones = x_int(arena, DT_i64, -1);
    ck_assert(x_op2(arena, X_mul, x, one) == x && x_op2(arena, X_mul, one, x) == x && x_op2(arena, X_div, x, one) == x);
    ck_assert(x_op2(arena, X_add, x, minus_zero) == x && x_op2(arena, X_sub, x, zero) == x);
    ck_assert(x_op2(arena, X_add, x, zero)->op == X_add);       // -0 + 0 is 0
    ck_assert(x_op2(arena, X_sub, x, minus_zero)->op == X_sub); // -0 - -0 is 0
    ck_assert(x_op2(arena, X_mul, x, zero)->op == X_mul);       // NaN and the sign
    ck_assert(x_op2(arena, X_sub, x, x)->op == X_sub);
    ck_assert(x_op2(arena, X_eq, x, x)->op == X_eq);
    ck_assert(x_op3(arena, X_fma, x, x, zero)->op == X_fma && x_op3(arena, X_fma, x, x, minus_zero)->op == X_mul);
    ck_assert(x_op2(arena, X_add, n, i0) == n && x_op2(arena, X_mul, n, i1) == n && x_op2(arena, X_mul, n, i0)->op == X_const);
    ck_assert(x_op2(arena, X_sub, n, n)->op == X_const && x_op2(arena, X_and, n, ones) == n && x_op2(arena, X_or, n, i0) == n &&
              x_op2(arena, X_shl, n, i0) == n);
    ck_assert(x_op3(arena, X_select, x_int(arena, DT_bool, 1), x, one) == x && x_op3(arena, X_select, c, x, x) == x);
    ck_assert(x_op1(arena, X_neg, x_op1(arena, X_neg, x)) == x && x_op1(arena, X_not, x_op1(arena, X_not, c)) == c);
    ck_assert(x_op2(arena, X_max, x, x) == x && x_splat(arena, x, 1) == x);
}
END_TEST

START_TEST(casts_through_a_wider_type_vanish) {
    const Expr *h = x_arg(arena, 4, DT_f16), *x = x_arg(arena, 0, DT_f32), *n = x_arg(arena, 2, DT_i64);
    ck_assert(x_cast(arena, DT_f32, x) == x);
    ck_assert(x_cast(arena, DT_f16, x_cast(arena, DT_f32, h)) == h);
    ck_assert(x_cast(arena, DT_f32, x_cast(arena, DT_f16, x))->op == X_cast); // rounds
    ck_assert_str_eq(print(x_cast(arena, DT_f64, x_cast(arena, DT_f32, h))), "cast.f64(a4)");
    ck_assert_str_eq(print(x_cast(arena, DT_i64, x_cast(arena, DT_i32, n))), "cast.i64(cast.i32(a2))");
    ck_assert_str_eq(print(x_cast(arena, DT_i8, x_cast(arena, DT_f32, x_arg(arena, 5, DT_i16)))),
        "cast.i8(cast.f32(a5))"); // saturates, a cast of i16 wraps
    ck_assert(x_bits(arena, DT_f32, x_bits(arena, DT_u32, x)) == x);
}
END_TEST

static void count(void *ctx, const Expr *e) {
    (void)e;
    ++*(int *)ctx;
}

static const Expr *replace_x(void *ctx, const Expr *e) {
    ++*(int *)ctx;
    return e->op == X_var && e->var == &var_x ? x_float(arena, DT_f32, 2) : e;
}

START_TEST(shared_nodes_are_met_once) {
    const Expr *e = x_var(arena, &var_x);
    for (int i = 0; i < 200; i++) e = x_op2(arena, X_add, e, e); // 2^200 paths
    int n = 0;
    expr_visit(e, count, &n);
    ck_assert_int_eq(n, 201);
    n = 0;
    const Expr *folded = expr_rewrite(arena, e, replace_x, &n);
    ck_assert_int_eq(n, 201);
    ck_assert(folded->op == X_const && isinf(folded->k_scalar.f));
    const Expr *f = x_var(arena, &var_x);
    for (int i = 0; i < 200; i++) f = x_op2(arena, X_add, f, f);
    ck_assert(expr_same(e, f) && !expr_same(e, f->a[0]));
}
END_TEST

START_TEST(long_chains_do_not_recurse) {
    const Expr *x = x_var(arena, &var_x), *e = x;
    for (int i = 0; i < 200000; i++) e = x_op2(arena, X_add, x, e);
    int n = 0;
    expr_visit(e, count, &n);
    ck_assert_int_eq(n, 200001);
}
END_TEST

static const Expr *widen_x(void *ctx, const Expr *e) {
    (void)ctx;
    return e->op == X_var && e->var == &var_x ? x_var(arena, &var_v) : e;
}

// Vectorising an operand widens what stands above it.
START_TEST(rewriting_adapts_lanes) {
    const Expr *e = parse("select(x < 0, x*2 + 1, x)");
    const Expr *v = expr_rewrite(arena, e, widen_x, NULL);
    ck_assert_str_eq(print(v), "select(v < splat8(0.0f32), (v * splat8(2.0f32)) + splat8(1.0f32), v)");
    int faults = 0;
    expr_visit(v, count, &faults);
    ck_assert_ptr_null(expr_check(arena, v));
}
END_TEST

START_TEST(dims_are_substituted) {
    const Expr *e = parse("buf[4*i + N]*cast.f32(dim(i))");
    const Dim *three = dim_int(dims, 3);
    const Expr *s = expr_subst_dims(arena, dims, e, &sym_i, &three, 1);
    ck_assert_str_eq(print(s), "buf[N + 12] * 3.0f32");
    ck_assert(expr_subst_dims(arena, dims, e, &sym_n, &sym_n, 1) == e);
    const Expr *tile = expr_subst_dims(arena, dims, parse("acc[i, 1]"), &sym_i, &three, 1);
    ck_assert_str_eq(print(tile), "acc[3, 1]");
}
END_TEST

START_TEST(wrong_nodes_are_refused) {
    const Expr *x = x_var(arena, &var_x), *v = x_var(arena, &var_v), *c = x_arg(arena, 3, DT_bool);
    static const uint8_t perm[64] = {9};
    const struct {
        Expr e;
        const char *says;
    } cases[] = {{{.op = X_add, .type = {DT_f32, 1}, .n = 1, .a = {x}}, "takes 2 operands, found 1"},
        {{.op = X_add, .type = {DT_f32, 8}, .n = 2, .a = {v, x}}, "must be f32x8, found f32"},
        {{.op = X_lt, .type = {DT_f32, 1}, .n = 2, .a = {x, x}}, "result must be bool, found f32"},
        {{.op = X_splat, .type = {DT_f32, 4}, .n = 1, .a = {v}}, "must be f32, found f32x8"},
        {{.op = X_shuffle, .type = {DT_f32, 1}, .n = 1, .a = {v}, .perm = perm}, "must be below 8, found 9"},
        {{.op = X_hreduce, .type = {DT_f32, 1}, .n = 1, .a = {v}, .k = X_sub}, "operation must be"},
        {{.op = X_widen, .type = {DT_f64, 8}, .n = 1, .a = {v}, .k = 1}, "must lie in f32x8"},
        {{.op = X_popcount, .type = {DT_i32, 1}, .n = 1, .a = {v}}, "a mask or an integer scalar"},
        {{.op = X_not, .type = {DT_bool, 1}, .n = 1, .a = {NULL}}, "operand 1 is missing"},
        {{.op = X_neg, .type = {DT_bool, 1}, .n = 1, .a = {c}}, "must be a number, found bool"},
        {{.op = X_load, .type = {DT_f32, 1}, .var = &var_x}, "needs a buffer"},
        {{.op = X_var, .type = {DT_f32, 8}, .var = &var_acc}, "must have 2 indices"},
        {{.op = X_isa, .type = {DT_f32, 8}, .n = 1, .a = {v}, .k = 0}, "must be f32x4, found f32x8"},
        {{.op = X_iota, .type = {DT_f32, 65}}, "lanes must be in 1..64"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *fault = expr_check(arena, &cases[i].e);
        ck_assert_msg(
            fault && strstr(fault, cases[i].says), "case %d: \"%s\" does not say \"%s\"", (int)i, fault ? fault : "(none)", cases[i].says);
    }
}
END_TEST

// Whatever the builders make of random operands keeps the value that the unfolded nodes have.
static void leaf_value(void *ctx, const Expr *e, int n, void *dst) {
    const int64_t *seed = ctx;
    for (int i = 0; i < n; i++)
        scalar_write(scalar_float(e->type.type, (double)((*seed * 7 + i * 5 + e->k * 3) % 11) - 5),
            (char *)dst + (size_t)(i * dtype_bytes(e->type.type)));
}

START_TEST(folding_keeps_values) {
    static const XOp ops[] = {X_add, X_sub, X_mul, X_div, X_min, X_max, X_neg, X_abs, X_fma};
    int64_t seed = 12345;
    for (int round = 0; round < 300; round++) {
        DType t = round % 2 ? DT_i32 : DT_f32;
        const Expr *built[12], *plain[12];
        for (int i = 0; i < 12; i++) {
            seed = (seed * 1103515245 + 12345) & 0x7fffffff;
            int64_t pick = seed >> 8;
            if (i < 4) {
                static const double constants[] = {0.0, 1.0, -1.0, -0.0};
                built[i] = plain[i] = i < 2 ? x_arg(arena, i, t) : x_float(arena, t, constants[pick % 4]);
                continue;
            }
            XOp op = ops[pick % 9];
            int n = xop_info(op)->arity, k[3] = {(int)(pick >> 4) % i, (int)(pick >> 8) % i, (int)(pick >> 12) % i};
            built[i] = n == 1   ? x_op1(arena, op, built[k[0]])
                       : n == 2 ? x_op2(arena, op, built[k[0]], built[k[1]])
                                : x_op3(arena, op, built[k[0]], built[k[1]], built[k[2]]);
            plain[i] = x_node(arena,
                (Expr){.op = op, .type = vtype(t, 1), .n = n, .a = {plain[k[0]], n > 1 ? plain[k[1]] : NULL, n > 2 ? plain[k[2]] : NULL}});
        }
        const Expr *roots[2] = {built[11], plain[11]};
        StripCode *code = strip_prepare(arena, roots, 2, 16);
        strip_run(code, 16, leaf_value, &seed);
        for (int i = 0; i < 16; i++) {
            Scalar a = scalar_read(t, (const char *)strip_result(code, 0) + (size_t)(i * 4)),
                   b = scalar_read(t, (const char *)strip_result(code, 1) + (size_t)(i * 4));
            ck_assert_msg(scalar_same(a, b), "%s is not %s", print(built[11]), print(plain[11]));
        }
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("expr");
    TCase *t = tcase_create("expr");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, text_reads_back, 0, CANONICAL);
    tcase_add_test(t, literals_take_the_type_of_their_place);
    tcase_add_test(t, faults_are_named);
    tcase_add_test(t, deep_nesting_is_refused);
    tcase_add_test(t, parsing_stops_behind_the_expression);
    tcase_add_test(t, constants_fold);
    tcase_add_test(t, exact_identities_only);
    tcase_add_test(t, casts_through_a_wider_type_vanish);
    tcase_add_test(t, shared_nodes_are_met_once);
    tcase_add_test(t, long_chains_do_not_recurse);
    tcase_add_test(t, rewriting_adapts_lanes);
    tcase_add_test(t, dims_are_substituted);
    tcase_add_test(t, wrong_nodes_are_refused);
    tcase_add_test(t, folding_keeps_values);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
