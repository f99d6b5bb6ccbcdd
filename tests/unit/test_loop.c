// The loop language: text in and out, the verifier's rules (each has a program that breaks it), copies, substitution and free symbols.
#include "../../ir/loop.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static DimTable *dims;
static Diag diag;

static void set_up(void) {
    dims = dim_table_new();
    memset(&diag, 0, sizeof diag);
}

static void tear_down(void) {
    diag_free(&diag);
    dim_table_free(dims);
}

static Program *parse(const char *text) {
    Program *p = loop_parse(text, NULL, dims, NULL, NULL, &diag);
    ck_assert_msg(p != NULL, "%s", diag.text.data);
    return p;
}

// A program around a kernel's body: x, y of N elements, z of 8 integers, m of 16.
static char *around(const char *body) {
    Str s = {0};
    str_printf(&s,
        "program p\ndim N in 1..100\ninput x: f32[N]\noutput y: f32[N]\ntemp z: i32[8]\nconst m: f32[16] data 0\n"
        "kernel k (x: f32[N] in, y: f32[N] inout, z: i32[8] inout, m: f32[16] in) {\n%s\n}\nmain {\n  call k(x, y, z, m)\n}\n",
        body);
    return s.data;
}

static char *printed(const Program *p) {
    Str s = {0};
    loop_print(&s, p);
    return s.data;
}

// ---- text ----

static void round_trip(const char *text) {
    Program *p = parse(text);
    char *first = printed(p);
    Program *q = parse(first);
    char *second = printed(q);
    ck_assert_str_eq(first, second);
    free(first);
    free(second);
    program_free(p);
    program_free(q);
}

START_TEST(prints_header) {
    const char *text = "program mnist\n"
                       "target x86-64-v3\n"
                       "hash 0x00000000000012ab\n"
                       "meta \"author\" \"a \\\"b\\\"\\n\\\\\"\n"
                       "node 1 \"conv/1\"\n"
                       "node 2 \"relu\"\n"
                       "dim N in 1..1024\n"
                       "dim \"x:0\" in 1..\n"
                       "dim T\n"
                       "data dim s in 0..2*N\n"
                       "input x: f32[N, 784] \"Input3\"\n"
                       "output y: i64[2, s]\n"
                       "output hn: f32[2, 128] \"hn_out\" tie h\n"
                       "state h: f32[2, 128] \"hn\"\n"
                       "state c: u8[2] = {1, 255}\n"
                       "const w: f32[2, 2] = {1.0, -inf, nan, -0.0}\n"
                       "const b: bool[2] = {true, false}\n"
                       "const q: i8[0] = {}\n"
                       "const v: f16[3] data 4\n"
                       "temp t0: f32[N, 784] at 64*N region sram\n"
                       "temp t1: f32[N] unbounded\n"
                       "arena 3136*N + 64\n"
                       "main {\n"
                       "  size s = 3idx\n"
                       "}\n";
    Program *p = parse(text);
    char *out = printed(p);
    ck_assert_str_eq(out, text);
    free(out);
    ck_assert_int_eq(p->buffers.n, 11);
    ck_assert_int_eq(p->buffers.data[2]->tie, 3);
    ck_assert_uint_eq(p->hash, 0x12ab);
    ck_assert_str_eq(p->metadata.data[1], "a \"b\"\n\\");
    const float *w = p->buffers.data[5]->bytes;
    ck_assert(w[1] < -3e38f && w[2] != w[2] && w[0] == 1.0f);
    program_free(p);
}
END_TEST

START_TEST(prints_statements) {
    char *text = around("  ; comments are kept {\n"
                        "  for i in 0..N step 2 par { ; trailing ones are not\n"
                        "    let a: f32 = x[i] * 2.0\n"
                        "    if a > 1.0 { y[i] = a } else if a < -1.0 { y[i] = 0.0 } else { y[i] = 1.0 }\n"
                        "  }\n"
                        "  reduce r in 0..N (acc: f32 = 0.0, best: i64 = -1) { set acc = acc + x[r] set best = cast.i64(r) }\n"
                        "    combine (acc2, best2) { set acc = acc + acc2 }\n");
    Program *p = loop_parse(text, NULL, dims, NULL, NULL, &diag);
    ck_assert(!p); // two statements on one line
    free(text);
    diag_free(&diag);
    memset(&diag, 0, sizeof diag);
    text = around("  ; comments are kept {\n"
                  "  for i in 0..N step 2 par { ; trailing ones are not\n"
                  "    let a: f32 = x[i] * 2.0\n"
                  "    if a > 1.0 { y[i] = a } else if a < -1.0 { y[i] = 0.0 } else { y[i] = 1.0 }\n"
                  "  }\n"
                  "  reduce r in 0..N (acc: f32 = 0.0, best: i64 = -1) {\n    set acc = acc + x[r]\n    set best = cast.i64(r)\n  } "
                  "combine (acc2, best2) { set acc = acc + acc2 }\n"
                  "  let j: idx 0..N - 1 = index(cast.idx(z[0]), N)\n"
                  "  var f: bool = true\n"
                  "  while f { break }\n"
                  "  local t: u8[64]\n"
                  "  tile c[2, 3]: f32x8 = 0.5\n"
                  "  for u in 0..2 seq unroll { set c[u, 2] = fma(c[u, 0], c[1, u], splat8(m[u])) }\n"
                  "  y[j : 8 : 2] = c[0, 0] ? iota8.i32 < splat8(3)\n"
                  "  y[0 @ iota4.i32] = m[0 : 4]\n"
                  "  t.f16[3] = cast.f16(y[0])\n"
                  "  z[1 : 4] = shuffle(z[0 : 4], z[4 : 4]; 7 6 5 4) + dot4(z[0 : 4], t[0 : 16], bits.i8(t[16 : 16]))\n"
                  "  check z[0] == 1 else index @12\n");
    round_trip(text);
    p = parse(text);
    ck_assert_msg(loop_verify(p, &diag), "%s", diag.text.data);
    char *out = printed(p);
    ck_assert(strstr(out, "  ; comments are kept {\n") && !strstr(out, "trailing"));
    ck_assert(strstr(out, "combine (acc2, best2) {\n"));
    ck_assert(strstr(out, "} else {\n      if a < -1.0f32 {"));
    free(out);
    program_free(p);
    free(text);
}
END_TEST

START_TEST(prints_kernels) {
    round_trip("program p\ninput x: f32[4]\ntemp t: f32[4]\noutput y: f32[4]\n"
               "kernel a \"Relu \\\"1\\\"\" node 3 (x: f32 in,\n    y: f32[4] out disjoint) schedule \"tile(i, 2)\" {\n"
               "  for i in 0..4 par parallel { y[i] = x[i] }\n}\n"
               "kernel b (x: f32 in, y: f32 inout same) {\n  team t of 2 {\n    barrier\n    y[t + s] = x[t]\n  }\n}\n"
               "main {\n  for s in 0..2 seq {\n    call a(x, t) parallel\n    call b(t, y)\n  }\n}\n");
}
END_TEST

START_TEST(reports_lines) {
    Program *p =
        loop_parse("program p\noutput y: f32[2]\nkernel k (y: f32 out) {\n  y[0] = q\n}\nmain {\n}\n", "a.loop", dims, NULL, NULL, &diag);
    ck_assert(!p);
    ck_assert_ptr_nonnull(strstr(diag.text.data, "a.loop: line 4: unknown name 'q'"));
}
END_TEST

// Every prefix of a program and every one with a byte replaced ends in a program or a message.
START_TEST(survives_damage) {
    char *text = around("  for i in 0..N par {\n    let a: f32 = x[i] * 2.0\n    reduce r in 0..N (s: f32 = 0.0) { set s = s + x[r] } "
                        "combine (q) { set s = s + q }\n"
                        "    y[i] = select(a > 1.0, s, shuffle(a; 0))\n  }\n  local t: f32[4]\n  check z[0] == 1 else index @1\n");
    size_t n = strlen(text);
    for (size_t i = 0; i < 2 * n; i++) {
        char *copy = strdup(text);
        if (i < n)
            copy[i] = 0;
        else
            copy[i - n] = "}{;\"(=0"[i % 7];
        Diag d = {0};
        Program *p = loop_parse(copy, NULL, dims, NULL, NULL, &d);
        ck_assert(p || d.errors == 1);
        if (p) loop_verify(p, &d);
        program_free(p);
        diag_free(&d);
        free(copy);
    }
    free(text);
}
END_TEST

// ---- rules ----

static const struct {
    int rule;
    const char *body;
} broken[] = {
    {1, "let x: f32 = 1.0"},
    {1, "for i in 0..4 par { y[0] = 1.0 }\nfor i in 0..4 par { y[0] = 1.0 }"},
    {1, "var N: f32 = 1.0"},
    {1, "var mod: f32 = 1.0"},
    {2, "for i in 0..4 par { let a: f32 = x[0] }\ny[0] = a"},
    {2, "for i in 0..4 par { y[0] = 1.0 }\ny[i] = 1.0"},
    {2, "reduce r in 0..4 (s: f32 = 0.0) { let q: f32 = x[0] } combine (s2) { set s = s2 + q }"},
    {2, "y[w] = 1.0\nlet w: idx 0..0 = 0"},
    {4, "for i in 0..N seq unroll { y[i] = 1.0 }"},
    {5, "tile c[2]: f32 = 0.0\nfor i in 0..2 seq { set c[i] = 1.0 }"},
    {5, "tile c[2]: f32 = 0.0\nset c[2] = 1.0"},
    {5, "tile c[2]: f32 = 0.0\nfor i in 0..3 seq unroll { y[0] = c[i] }"},
    {6, "let a: f32 = 1.0\nset a = 2.0"},
    {7, "break"},
    {7, "for i in 0..4 par { break }"},
    {7, "for i in 0..4 seq { reduce r in 0..4 (s: f32 = 0.0) { break } }"},
    {8, "y[0] = 1.0\nteam t of 2 { y[t] = 1.0 }"},
    {8, "team t of 2 {\nlet a: f32 = x[0]\nbarrier\ny[t] = a\n}"},
    {8, "team t of 2 {\nlet a: f32 = x[0]\nfor i in 0..4 seq {\nz[t] = cast.i32(a)\nbarrier\n}\n}"},
    {8, "team t of 2 { if t == 0 { barrier } }"},
    {8, "team t of 2 { for i in 0..t seq { barrier } }"},
    {8, "barrier"},
    {9, "y[0] = 0.0\nfor i in 0..4 par parallel { y[i] = 1.0 }"},
    {9, "for i in 0..4 seq parallel { y[i] = 1.0 }"},
    {10, "m[0] = 1.0"},
    {11, "y[N] = 1.0"},
    {11, "z[-1] = 1"},
    {11, "for i in 0..N par { y[i + 1] = 1.0 }"},
    {11, "for i in 0..N par { y[i] = x[N - 2 - i] }"},
    {11, "z[1 : 8] = z[0 : 8]"},
    {11, "z[0 : 4] = z[0 : 4 : 3]"},
    {11, "y[0] = cast.f32(m.f64[15])"},
    {11, "local t: f32[4]\nfor i in 0..5 par { t[i] = 1.0 }"},
    {12, "var a: f32 = 0.0\nfor i in 0..4 par { set a = x[0] }"},
    {12, "var a: f32 = 0.0\nreduce r in 0..4 (s: f32 = 0.0) { set a = x[0] }"},
    {12, "tile c[1]: f32 = 0.0\nfor i in 0..4 par { set c[0] = x[0] }"},
    {9, "for i in 0..4 par { for j in 0..4 par parallel { y[j] = 1.0 } }"},
};

// The rule a message names.
static bool names_rule(int rule) {
    char want[24];
    snprintf(want, sizeof want, ": rule %d: ", rule);
    return diag.text.data && strstr(diag.text.data, want);
}

START_TEST(breaks_rule) {
    char *text = around(broken[_i].body);
    Program *p = loop_parse(text, NULL, dims, NULL, NULL, &diag);
    int rule = broken[_i].rule;
    if (p) ck_assert_msg(!loop_verify(p, &diag) && names_rule(rule), "%s\nexpected rule %d: %s", broken[_i].body, rule, diag.text.data);
    if (!p) ck_assert_msg(rule == 2, "%s\n%s", broken[_i].body, diag.text.data);
    program_free(p);
    free(text);
}
END_TEST

START_TEST(breaks_rules_of_main) {
    static const struct {
        int rule;
        const char *text;
    } rows[] = {
        {13, "program p\noutput y: f32[2]\nmain {\n  tile c[1]: f32 = 0.0\n}\n"},
        {13, "program p\noutput y: f32[2]\nmain {\n  local c: f32[2]\n}\n"},
        {13, "program p\noutput y: f32[2]\nmain {\n  team t of 2 { y[t] = 1.0 }\n}\n"},
        {13, "program p\ntemp t: f32[2]\nmain {\n  alloc t\n}\n"},
        {10, "program p\ninput x: f32[2]\nmain {\n  x[0] = 1.0\n}\n"},
        {10, "program p\ninput x: f32[2]\nkernel k (x: f32 out) {\n  x[0] = 1.0\n}\nmain {\n  call k(x)\n}\n"},
        {10, "program p\noutput x: f32[2]\nkernel k (x: f32 out) {\n  x[0] = x[1]\n}\nmain {\n  call k(x)\n}\n"},
        {14, "program p\noutput y: f32[2]\nkernel k (y: i32 out) {\n  y[0] = 1\n}\nmain {\n  call k(y)\n}\n"},
        {14, "program p\noutput y: f32[2]\nkernel k (y: f32 out) {\n  y[0] = 1.0\n}\nmain {\n  call k(y, y)\n}\n"},
        {14, "program p\noutput y: f32[2]\nkernel k (x: f32 in, y: f32 out disjoint) {\n  y[0] = x[0]\n}\nmain {\n  call k(y, y)\n}\n"},
        {14, "program p\noutput y: f32[2]\nkernel k (y: f32[3] out) {\n  y[0] = 1.0\n}\nmain {\n  call k(y)\n}\n"},
        {9, "program p\noutput y: f32[2]\nkernel k (y: f32 out) {\n  y[0] = 1.0\n}\nmain {\n  call k(y) parallel\n}\n"},
        {2, "program p\noutput y: f32[4]\nkernel k (y: f32 out) {\n  y[i] = 1.0\n}\nmain {\n  for i in 0..4 seq { call k(y) }\n  call "
            "k(y)\n}\n"},
        {2, "program p\ndata dim s in 0..4\noutput y: f32[s]\nkernel k (y: f32 out) {\n  y[0] = 1.0\n}\nmain {\n  call k(y)\n  size s = "
            "2\n}\n"},
        {15, "program p\ndata dim s in 0..4\nmain {\n  if true {\n    size s = 2\n  }\n  size s = 3\n}\n"},
        {16, "program p\nstate h: f32[2]\noutput y: f32[3] tie h\nmain {\n}\n"},
        {1, "program p\noutput y: f32[2]\ntemp y: f32[2]\nmain {\n}\n"},
        {1, "program p\noutput y: f32[2]\nkernel k (y: f32 out) {\n  let i: idx 0..1 = 0\n  y[i] = 1.0\n}\nmain {\n  for i in 0..2 seq { "
            "call k(y) }\n}\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Program *p = parse(rows[i].text);
        ck_assert_msg(
            !loop_verify(p, &diag) && names_rule(rows[i].rule), "%s\nexpected rule %d: %s", rows[i].text, rows[i].rule, diag.text.data);
        program_free(p);
        tear_down();
        set_up();
    }
}
END_TEST

// What is built by hand can break rules that text cannot.
START_TEST(breaks_rules_by_hand) {
    Program *p = parse("program p\noutput y: f32[2]\nkernel k (y: f32 inout) {\n  y[0] = y[1]\n  check y[0] > 0.0 else index @1\n}\nmain "
                       "{\n  call k(y)\n}\n");
    Kernel *k = p->kernels.data[0];
    ck_assert_msg(loop_verify(p, &diag), "%s", diag.text.data);
    Stmt *store = k->body.data[0];
    const Expr *good = store->value;
    store->value = x_node(p->arena, (Expr){.op = X_add, .type = vtype(DT_f32, 1), .n = 2, .a = {good, x_int(p->arena, DT_i32, 1)}});
    ck_assert(!loop_verify(p, &diag) && names_rule(3));
    diag_free(&diag);
    memset(&diag, 0, sizeof diag);
    store->value = x_arg(p->arena, 0, DT_f32);
    ck_assert(!loop_verify(p, &diag) && names_rule(3));
    diag_free(&diag);
    memset(&diag, 0, sizeof diag);
    store->value = good;
    store->mask = x_const(p->arena, scalar_int(DT_bool, 1), 4);
    ck_assert(!loop_verify(p, &diag) && names_rule(3));
    store->mask = NULL;
    k->body.data[1]->code = 99;
    ck_assert(!loop_verify(p, &diag) && names_rule(17));
    program_free(p);
}
END_TEST

START_TEST(accepts_guarded_index) {
    char *text = around("for i in 0..N par {\n  if i > 3 { y[i - 4] = 1.0 }\n}\nfor j in 0..0 par { y[j] = 1.0 }\nfor l in 0..N seq {\n  "
                        "if l == 2 { break }\n  y[l] = 0.0\n}\n"
                        "y[0] = x[-1 ? false]");
    Program *p = parse(text);
    ck_assert_msg(loop_verify(p, &diag), "%s", diag.text.data);
    program_free(p);
    free(text);
}
END_TEST

// ---- builders and rewrites ----

START_TEST(builds_unique_names) {
    Program *p = program_new(dims, "p");
    const Dim *n = dim_symbol(dims, "N", SYM_MODEL, dim_int(dims, 1), NULL);
    loop_model_dim(p, n);
    LoopBuffer *out = loop_buffer(p, BUF_OUTPUT, "y/1", DT_f32, 1, &n), *in = loop_buffer(p, BUF_INPUT, "y/1", DT_f32, 1, &n);
    ck_assert_str_eq(out->var.name, "y_1");
    ck_assert_str_ne(in->var.name, "y_1");
    ck_assert_ptr_eq(p->buffers.data[0], in);
    Kernel *k = loop_kernel(p, "relu", NULL, 0);
    LoopBuffer *x = loop_param(p, k, "x", DT_f32, true, false), *y = loop_param(p, k, "N", DT_f32, false, true);
    ck_assert_str_eq(y->var.name, "N_2");
    for (int i = 0; i < 2; i++) {
        Stmt *s = loop_for(p, &k->body, "i", dim_int(dims, 0), n, LOOP_PAR);
        Var *v = loop_let(p, &s->body, "i", x_load(p->arena, &x->var, s->sym));
        loop_store(p, &s->body, y, s->sym, x_op2(p->arena, X_max, x_var(p->arena, v), x_float(p->arena, DT_f32, 0)));
    }
    loop_copy(p, &k->body, &k->body);
    Stmt *call = loop_call(p, &p->main, k, 2, (LoopBuffer *[]){in, out});
    ck_assert_ptr_eq(call->kernel, k);
    ck_assert_msg(loop_verify(p, &diag), "%s", diag.text.data);
    ck_assert_int_eq(k->body.n, 4);
    char *text = printed(p);
    ck_assert_ptr_nonnull(strstr(text, "let i_8: f32 = x[i_7]"));
    round_trip(text);
    free(text);
    program_free(p);
}
END_TEST

static void count(void *ctx, const Dim *sym) {
    str_printf(ctx, "%s ", dim_as_symbol(sym)->name);
}

START_TEST(substitutes) {
    Program *p = parse("program p\ndim N in 1..8\ndim M in 1..8\noutput y: f32[N, M]\nkernel k (y: f32 out) {\n"
                       "  for i in 0..N par {\n    for j in i..M par {\n      tile c[2]: f32 = cast.f32(N)\n      y[i*M + j] = c[1] ? N > "
                       "2\n    }\n  }\n}\nmain {\n  call k(y)\n}\n");
    Kernel *k = p->kernels.data[0];
    Str free_symbols = {0};
    kernel_free_symbols(k, count, &free_symbols);
    ck_assert_str_eq(free_symbols.data, "M N ");
    str_free(&free_symbols);
    const Dim *from[] = {p->symbols.data[0], p->symbols.data[1]}, *to[] = {dim_int(dims, 3), p->symbols.data[0]};
    loop_subst(p, &k->body, from, to, 2);
    const Dim *i = k->body.data[0]->sym, *j = k->body.data[0]->body.data[0]->sym;
    ck_assert(dim_is(dim_as_symbol(i)->hi, 2));
    ck_assert_str_eq(dim_text(dims, dim_as_symbol(j)->hi), "N - 1");
    ck_assert_ptr_eq(dim_as_symbol(j)->lo, i);
    Str s = {0};
    kernel_print(&s, k);
    ck_assert_ptr_nonnull(strstr(s.data, "for i in 0..3 par"));
    ck_assert_ptr_nonnull(strstr(s.data, "y[N*i + j] = c[1] ? true"));
    str_free(&s);
    kernel_free_symbols(k, count, &free_symbols);
    ck_assert_str_eq(free_symbols.data, "N ");
    str_free(&free_symbols);
    program_free(p);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("loop");
    TCase *text = tcase_create("text"), *rules = tcase_create("rules"), *build = tcase_create("build");
    TCase *cases[] = {text, rules, build};
    for (int i = 0; i < 3; i++) {
        tcase_add_checked_fixture(cases[i], set_up, tear_down);
        tcase_set_timeout(cases[i], 60);
        suite_add_tcase(suite, cases[i]);
    }
    tcase_add_test(text, prints_header);
    tcase_add_test(text, prints_statements);
    tcase_add_test(text, prints_kernels);
    tcase_add_test(text, reports_lines);
    tcase_add_test(text, survives_damage);
    tcase_add_loop_test(rules, breaks_rule, 0, (int)(sizeof broken / sizeof *broken));
    tcase_add_test(rules, breaks_rules_of_main);
    tcase_add_test(rules, breaks_rules_by_hand);
    tcase_add_test(rules, accepts_guarded_index);
    tcase_add_test(build, builds_unique_names);
    tcase_add_test(build, substitutes);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
