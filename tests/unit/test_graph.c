// The Graph: what builders infer, contents of shape computations, text there and back, editing, and each rule of the verifier broken once.
#include "../../ir/graph.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- fixture: a graph with sizes N, M, S, T ----

static Graph *g;
static DimTable *t;
static Builder b;
static const Dim *N, *M, *S, *T;

static void set_up(void) {
    g = graph_new("test");
    t = g->dims;
    b = (Builder){.g = g, .region = g->body};
    N = graph_symbol(g, "N", SYM_MODEL, dim_int(t, 1), NULL);
    M = graph_symbol(g, "M", SYM_MODEL, dim_int(t, 2), NULL);
    S = graph_symbol(g, "S", SYM_MODEL, dim_int(t, 2), NULL);
    T = graph_symbol(g, "T", SYM_MODEL, dim_int(t, 0), NULL);
}

static void tear_down(void) {
    graph_free(g);
}

static Value *input(DType type, int rank, const Dim *a, const Dim *c, const Dim *d) {
    const Dim *shape[3] = {a, c, d};
    return graph_param(g->body, "x", type, rank, shape);
}

static void give(Value *v) {
    vec_push(g->arena, &g->body->yields, v);
    vec_push(g->arena, &g->output_names, (const char *)"y");
}

static void expect_dim(const Dim *d, const char *text) {
    ck_assert_str_eq(dim_text(t, d), text);
}

static void expect_shape(const Value *v, const char *text) {
    Str s = {0};
    str_add(&s, "");
    for (int i = 0; i < v->rank; i++) {
        if (i) str_add(&s, ", ");
        dim_print(&s, v->shape[i]);
    }
    ck_assert_str_eq(s.data, text);
    str_free(&s);
}

static void expect_content(const Value *v, const char *text) {
    ck_assert_ptr_nonnull(v->content);
    Str s = {0};
    str_add(&s, "");
    for (int i = 0; i < v->ncontent; i++) {
        if (i) str_add(&s, ", ");
        dim_print(&s, v->content[i]);
    }
    ck_assert_str_eq(s.data, text);
    str_free(&s);
}

static void expect_valid(void) {
    Diag d = {0};
    bool ok = graph_verify(g, &d);
    ck_assert_msg(ok, "%s", ok ? "" : d.text.data);
    diag_free(&d);
}

static int count_nodes(const Region *r, GOp op) {
    int n = 0;
    for (int i = 0; i < r->nodes.n; i++) n += r->nodes.data[i]->op == op;
    return n;
}

static const Dim *n_(int64_t v) {
    return dim_int(t, v);
}

// ---- builders ----

START_TEST(map_broadcasts) {
    Value *x = input(DT_f32, 3, N, n_(1), n_(4)), *y = input(DT_f32, 2, n_(3), n_(1), NULL);
    Value *z = g_map2(&b, X_add, x, y);
    expect_shape(z, "N, 3, 4");
    ck_assert_int_eq(z->type, DT_f32);
    ck_assert_int_eq(g_map2(&b, X_lt, x, y)->type, DT_bool);
    ck_assert_int_eq(count_nodes(g->body, G_check), 0);
    ck_assert_ptr_eq(g_cast(&b, DT_f32, z), z);
    ck_assert_int_eq(g_cast(&b, DT_i64, z)->type, DT_i64);
    give(z);
    expect_valid();
}
END_TEST

START_TEST(open_broadcast_is_checked) {
    // Both at least 2: they must be equal. One may be 1: its extent gives way. Both may be 1: the larger one.
    Value *x = input(DT_f32, 1, M, NULL, NULL), *y = input(DT_f32, 1, S, NULL, NULL), *z = input(DT_f32, 1, N, NULL, NULL),
          *w = input(DT_f32, 1, T, NULL, NULL);
    expect_shape(g_map2(&b, X_add, x, y), "M");
    ck_assert_int_eq(count_nodes(g->body, G_check), 1);
    expect_shape(g_map2(&b, X_add, x, z), "M");
    expect_shape(g_map2(&b, X_add, z, y), "S");
    ck_assert_int_eq(count_nodes(g->body, G_check), 3);
    Value *both = g_map2(&b, X_add, z, w);
    const Dim *from[2] = {N, T};
    for (int k = 0; k < 4; k++) {
        static const int64_t n[4] = {1, 5, 5, 1}, m[4] = {7, 1, 5, 0}, out[4] = {7, 5, 5, 0};
        const Dim *to[2] = {n_(n[k]), n_(m[k])};
        ck_assert(dim_is(dim_subst(t, both->shape[0], from, to, 2), out[k]));
        const Node *check = g->body->nodes.data[g->body->nodes.n - 2];
        ck_assert_int_eq(check->op, G_check);
        ck_assert_int_eq(dim_ge0(t, dim_subst(t, check->guard.data[0], from, to, 2)), YES);
    }
    const Node *check = g->body->nodes.data[g->body->nodes.n - 2];
    const Dim *wrong[2] = {n_(3), n_(4)};
    ck_assert_int_eq(dim_ge0(t, dim_subst(t, check->guard.data[0], from, wrong, 2)), NO);
    give(both);
    expect_valid();
}
END_TEST

START_TEST(views_infer) {
    Value *x = input(DT_f32, 3, N, n_(6), S);
    const int64_t perm[3] = {2, 0, 1}, same[3] = {0, 1, 2};
    expect_shape(g_transpose(&b, x, perm), "S, N, 6");
    ck_assert_ptr_eq(g_transpose(&b, x, same), x);
    expect_shape(g_unsqueeze(&b, x, 1), "N, 1, 6, S");
    ck_assert_int_eq(g_squeeze(&b, g_unsqueeze(&b, x, 3), 3)->rank, 3);
    expect_shape(g_slice(&b, x, 1, n_(5), n_(3), -2), "N, 3, S");
    ck_assert_ptr_eq(g_slice(&b, x, 1, n_(0), n_(6), 1), x);
    const Dim *before[3] = {n_(0), n_(1), n_(-1)}, *after[3] = {n_(0), n_(2), n_(0)};
    Value *padded = g_pad(&b, x, before, after, scalar_float(DT_f32, 0));
    expect_shape(padded, "N, 9, S - 1");
    ck_assert_int_eq(padded->def->guard.n, 2); // axis 1 only; the crop stays inside
    const Dim *wide[4] = {n_(2), N, n_(6), S};
    expect_shape(g_expand(&b, x, 4, wide), "2, N, 6, S");
    const Dim *out[1] = {S}, *kernel[1] = {n_(3)}, *pad[1] = {n_(1)};
    const int64_t one[1] = {1};
    Value *w = g_windows(&b, x, 1, out, kernel, one, one, pad, scalar_float(DT_f32, 0));
    expect_shape(w, "N, 6, S, 3");
    expect_dim(w->def->index.data[2], "d2 + d3 - 1");
    give(w);
    give(padded);
    expect_valid();
}
END_TEST

START_TEST(others_infer) {
    Value *x = input(DT_f32, 3, N, S, n_(8)), *y = input(DT_f32, 2, n_(8), n_(5), NULL);
    expect_shape(g_contract(&b, "abk,kn->abn", x, y, DT_f32), "N, S, 5");
    const int64_t axes[2] = {2, 0};
    expect_shape(g_reduce(&b, "sum", x, 2, axes, false), "S");
    expect_shape(g_reduce(&b, "max", x, 2, axes, true), "1, S, 1");
    ck_assert_int_eq(g_reduce(&b, "argmax", x, 1, axes, false)->type, DT_i64);
    Value *two[2] = {x, x};
    expect_shape(g_concat(&b, 2, two, 1), "N, 2*S, 8");
    const Dim *flat[2] = {dim_mul(t, N, S), n_(8)};
    expect_shape(g_reshape(&b, x, 2, flat), "N*S, 8");
    ck_assert_int_eq(count_nodes(g->body, G_check), 0);
    const Dim *open[2] = {T, n_(8)};
    g_reshape(&b, x, 2, open);
    ck_assert_int_eq(count_nodes(g->body, G_check), 1);
    expect_shape(g_softmax(&b, "softmax", x, 1, axes), "N, S, 8");
    give(x);
    expect_valid();
}
END_TEST

static Region *constant_branch(Value *v, int64_t rows) {
    Region *r = graph_region_new(g, NULL);
    Builder in = {.g = g, .region = r};
    vec_push(g->arena, &r->yields, g_slice(&in, v, 0, n_(0), n_(rows), 1));
    return r;
}

START_TEST(if_of_two_shapes) {
    Value *c = input(DT_bool, 0, NULL, NULL, NULL), *x = input(DT_f32, 2, n_(9), N, NULL);
    Node *n = g_if(&b, c, constant_branch(x, 2), constant_branch(x, 5));
    const Sym *s = dim_as_symbol(n->out[0]->shape[0]);
    ck_assert_ptr_nonnull(s);
    ck_assert_int_eq(s->kind, SYM_DATA);
    expect_dim(s->hi, "5");
    expect_dim(n->out[0]->shape[1], "N");
    expect_shape(g_if(&b, c, constant_branch(x, 4), constant_branch(x, 4))->out[0], "4, N");
    give(n->out[0]);
    expect_valid();
}
END_TEST

// ---- content ----

// As a BERT exporter writes it: the last two axes merged, batch and sequence read from Shape, the hidden size left to -1.
START_TEST(shape_computation_folds) {
    Value *x = input(DT_f32, 3, N, S, n_(384));
    Value *shape = g_dims(&b, 3, (const Dim *const *)x->shape);
    Value *part[3];
    for (int i = 0; i < 2; i++) {
        const int64_t k = i;
        Value *at = g_const_ints(&b, DT_i64, -1, &k);
        const Dim *v = dim_symbol(t, "v0", SYM_DATA, NULL, NULL);
        part[i] = g_unsqueeze(&b, g_gather(&b, shape, 1, &at, &v, 0, NULL, &v, 0, NULL, scalar_int(DT_i64, 0)), 0);
    }
    const int64_t rest[2] = {12, -1};
    part[2] = g_const_ints(&b, DT_i64, 2, rest);
    Value *all = g_concat(&b, 3, part, 0);
    expect_content(all, "N, S, 12, -1");
    // Reshape's rule for -1: the size over the product of the others; select picks by a provable condition.
    const Dim *known = dim_product(t, (const Dim *const *)all->content, 3);
    expect_dim(dim_floordiv(t, value_size(g, x), known), "32");
    Arena *a = g->arena;
    const Expr *e = x_arg(a, 0, DT_i64);
    Value *chosen = g_map(&b, 1, &all, x_op3(a, X_select, x_op2(a, X_eq, e, x_int(a, DT_i64, -1)), x_int(a, DT_i64, 32), e));
    expect_content(chosen, "N, S, 12, 32");
    give(chosen);
    expect_valid();
}
END_TEST

static Value *known(const Dim *a, const Dim *c) {
    const Dim *d[2] = {a, c};
    return g_dims(&b, 2, d);
}

START_TEST(content_of_maps) {
    Value *x = known(dim_addi(t, dim_muli(t, N, 2), 1), n_(-7)), *two = known(n_(2), n_(2));
    expect_content(g_map2(&b, X_add, x, two), "2*N + 3, -5");
    expect_content(g_map2(&b, X_mul, x, two), "4*N + 2, -14");
    expect_content(g_map2(&b, X_div, x, two), "N, -3"); // truncation
    expect_content(g_map2(&b, X_floordiv, x, two), "N, -4");
    expect_content(g_map2(&b, X_floormod, x, two), "1, 1");
    expect_content(g_map2(&b, X_rem, x, two), "1, -1");
    expect_content(g_map2(&b, X_max, x, two), "2*N + 1, 2");
    expect_content(g_map2(&b, X_lt, x, two), "0, 1");
    expect_content(g_map1(&b, X_abs, x), "2*N + 1, 7");
    expect_content(g_cast(&b, DT_bool, x), "1, 1");
    expect_content(g_cast(&b, DT_i32, x), "2*N + 1, -7");
    expect_content(g_cast(&b, DT_i8, known(n_(300), n_(-129))), "44, 127");
    ck_assert_ptr_null(g_cast(&b, DT_i8, x)->content);
    ck_assert_ptr_null(g_map2(&b, X_eq, known(N, n_(1)), known(M, n_(1)))->content);
    ck_assert_ptr_null(g_map2(&b, X_div, x, known(N, T))->content); // T may be 0
    expect_content(g_reduce(&b, "prod", known(N, S), 1, (const int64_t[]){0}, false), "N*S");
    expect_content(g_reduce(&b, "sum", known(N, S), 1, (const int64_t[]){0}, true), "N + S");
    expect_content(g_slice(&b, known(N, S), 0, n_(1), n_(2), -1), "S, N");
    const Dim *one[1] = {n_(1)};
    expect_content(g_pad(&b, known(N, S), one, one, scalar_int(DT_i64, 9)), "9, N, S, 9");
    ck_assert(dim_is(g_size(&b, known(N, n_(4)), 1, "k", NULL, NULL), 4));
    Value *data = input(DT_i64, 1, n_(2), NULL, NULL);
    const Dim *size = g_size(&b, data, 1, "k", n_(0), n_(10));
    ck_assert_int_eq(dim_as_symbol(size)->kind, SYM_DATA);
    ck_assert_int_eq(count_nodes(g->body, G_template), 1);
    give(data);
    expect_valid();
}
END_TEST

// Through floats, as Resize's sizes are computed: constants are evaluated, symbols stay unknown.
START_TEST(content_through_floats) {
    const Dim *sizes[3] = {n_(7), n_(10), N};
    Value *x = g_dims(&b, 2, sizes), *half = g_const_float(&b, DT_f32, 0.5);
    Value *y = g_cast(&b, DT_i64, g_map1(&b, X_floor, g_map2(&b, X_mul, g_cast(&b, DT_f32, x), half)));
    expect_content(y, "3, 5");
    Value *open = g_dims(&b, 3, sizes);
    ck_assert_ptr_null(g_cast(&b, DT_i64, g_map2(&b, X_mul, g_cast(&b, DT_f32, open), half))->content);
    expect_content(g_scan(&b, "sum", x, 0, false, false), "7, 17");
    ck_assert_ptr_null(g_cast(&b, DT_i64, input(DT_f32, 1, n_(2), NULL, NULL))->content);
}
END_TEST

// ---- text ----

static const char *const samples[] = {
    "graph one\nmetadata \"author\" \"a \\\"b\\\" \\\\\"\ndim N in 1..1024\ndim \"x:0\" in 1..\ndata dim k in 0..N\n"
    "input %x: f32[N, 1, 28, \"x:0\"] \"Input3\"\ninput %c: bool[]\n"
    "%w = const f32[2, 2] {1.0, -2.5, nan, -inf} \"w\"\n%h = const f16[2] {0.5, 65504.0}\n%s = const str[2] {\"a\\x0a\", \"\"}\n%z = const "
    "i64[100] splat 7\n"
    "%e = const u64[0] {}\n%u = const u64[1] {18446744073709551615}\n%o = const bool[2] {true, false}\n"
    "%p = view %x index(d0, d1, d2 - 2, d3) guard(d2 - 2, -d2 + 29) fill 0.5 : f32[N, 1, 32, \"x:0\"] @\"conv1\" (Conv) #3 group 2\n"
    "%m = map %p body(max(a0, 0.0f32)) : f32[N, 1, 32, \"x:0\"] \"relu\" store(buffer root %q offset 4*N region sram align 128)\n"
    "%q = map %m body(a0 + cast.f32(dim(d0))) : f32[N, 1, 32, \"x:0\"]\n"
    "check guard(N - 2) code shape\n"
    "%nz = template %o kind nonzero dims(k) : i64[1, k]\n"
    "%a, %b = if %c {\n  %t = map %q body(neg(a0)) : f32[N, 1, 32, \"x:0\"]\n  yield %t, %nz\n} else {\n  yield %q, %nz\n} : f32[N, 1, 32, "
    "\"x:0\"], i64[1, k]\n"
    "output %a \"y\"\noutput %b\n",
    "graph \"two words\"\ndata dim trips in 0..\ninput %n: i64[]\ninput %x: f32[2, 3] \"in\"\n%t = const bool[] {true}\n%i = const i32[3] "
    "{0, 1, 0}\n"
    "%l, %s = loop %n, %t, %x scans 1 dims(trips) {\n  param %k: i64[]\n  param %g: bool[]\n  param %v: f32[2, 3]\n"
    "  %v2 = map %v body(a0 * 2.0f32) : f32[2, 3]\n  yield %g, %v2, %v2\n} : f32[2, 3], f32[trips, 2, 3]\n"
    "%ga = gather %l, %i index(v0, d1) guard(v0) fill 0.0 : f32[3, 3]\n%sc = scatter %l, %ga, %i index(d0 + v0, d1) guard(-d0 - v0 + 1) "
    "kind add : f32[2, 3]\n"
    "%r = reduce %sc kind sum axes(0, 1) keep 1 : f32[1, 1]\n%cs = scan %sc kind sum axis 1 exclusive 1 reverse 1 : f32[2, 3]\n"
    "%ct = contract %sc, %cs subs \"ak,bk->ab\" : f32[2, 2]\n%sm = softmax %ct kind softmax axes(1) : f32[2, 2]\n%no = norm %sm kind layer "
    "axes(1) eps 1e-05 : f32[2, 2]\n"
    "%ra = random kind uniform params(0.5, 1.5) : f32[2, 2]\n%cc = concat %no, %ra axis 1 : f32[2, 4]\n%rs = reshape %cc : f32[1, 1, 2, "
    "4]\n"
    "%at = attention %rs, %rs, %rs score(a0) prob(a0) scale 0.5 : f32[1, 1, 2, 4]\n%sv, %si = template %cc kind sort axis 1 flags(1) : "
    "f32[2, 4], i64[2, 4]\n"
    "output %at \"y\"\noutput %x \"present\"\ntie %x %x\n",
};

START_TEST(text_is_read_back) {
    Diag d = {0};
    Graph *h = graph_parse(samples[_i], "sample", &d);
    ck_assert_msg(h != NULL, "%s", d.errors ? d.text.data : "");
    bool ok = graph_verify(h, &d);
    ck_assert_msg(ok, "%s", d.errors ? d.text.data : "");
    Str s = {0};
    graph_print(&s, h);
    ck_assert_str_eq(s.data, samples[_i]);
    Str dot = {0};
    graph_print_dot(&dot, h);
    ck_assert(strstr(dot.data, "digraph") != NULL);
    str_free(&dot);
    str_free(&s);
    graph_free(h);
    diag_free(&d);
}
END_TEST

static bool blob(void *ctx, int k, Data *out) {
    const Graph *from = ctx;
    return graph_blob(from, k, out);
}

START_TEST(large_constants_are_blobs) {
    int64_t v[100];
    for (int i = 0; i < 100; i++) v[i] = i * i;
    give(g_const_ints(&b, DT_i64, 100, v));
    Str s = {0}, again = {0};
    graph_print(&s, g);
    ck_assert(strstr(s.data, "const i64[100] data 0") != NULL);
    Diag d = {0};
    ck_assert_ptr_null(graph_parse(s.data, "x", &d)); // no side data
    Graph *h = graph_parse_blobs(s.data, "x", &d, blob, g);
    ck_assert_ptr_nonnull(h);
    graph_print(&again, h);
    ck_assert_str_eq(s.data, again.data);
    int64_t last;
    ck_assert(value_content_int(h->body->yields.data[0], 99, &last));
    ck_assert_int_eq(last, 99 * 99);
    graph_free(h);
    str_free(&s);
    str_free(&again);
    diag_free(&d);
}
END_TEST

typedef struct {
    const char *text, *message;
} Fault;
static const Fault faults[] = {
    {"grph x", "line 1: expected 'graph'"},
    {"graph x\ninput %x: f33[2]", "line 2: 'f33' is no element type"},
    {"graph x\n%y = frob %x : f32[]", "line 2: 'frob' is no operation"},
    {"graph x\n%y = map %x body(a0) : f32[]", "value %x is not defined"},
    {"graph x\ninput %x: f32[K]", "expected an index expression"},
    {"graph x\ninput %x: f32[2]\ninput %x: f32[2]", "line 3: value %x is defined twice"},
    {"graph x\ninput %x: f32[2]\n%y = map %x body(a1) : f32[2]", "line 3"},
    {"graph x\ninput %x: f32[2]\n%y = reshape %x, %x : f32[2]", "reshape does not take 2 inputs"},
    {"graph x\n%y = const f32[2] {1.0}", "expected ','"},
    {"graph x\n%y = const f32[1099511627776, 1099511627776] {1.0}", "constant shape"},
    {"graph x\ninput %x: f32[2]\n%y = view %x index(d0 : f32[2]", "is not closed"},
    {"graph x\ninput %x: f32[2]\n%y = map %x body(a0) : f32[2] #99999999", "out of range"},
    {"graph x\ndim N\ndim N", "defined twice"},
    {"graph \"x", "expected"},
};

START_TEST(faulty_text_is_named) {
    Diag d = {0};
    ck_assert_ptr_null(graph_parse(faults[_i].text, "f.graph", &d));
    ck_assert_int_eq(d.errors, 1);
    ck_assert_msg(strstr(d.text.data, faults[_i].message) != NULL, "%s", d.text.data);
    diag_free(&d);
}
END_TEST

// Every prefix of a text is a fault or a graph, never a crash.
START_TEST(cut_text_is_refused) {
    size_t n = strlen(samples[_i]);
    for (size_t k = 0; k < n; k++) {
        char *cut = malloc(k + 1);
        memcpy(cut, samples[_i], k);
        cut[k] = 0;
        Diag d = {0};
        Graph *h = graph_parse(cut, "cut", &d);
        ck_assert((h == NULL) == (d.errors > 0));
        graph_free(h);
        diag_free(&d);
        free(cut);
    }
}
END_TEST

// ---- editing ----

START_TEST(dead_nodes_go) {
    Value *x = input(DT_f32, 1, n_(4), NULL, NULL), *c = input(DT_bool, 1, n_(4), NULL, NULL);
    const Dim *count = graph_symbol(g, "count", SYM_DATA, n_(0), n_(4));
    const Dim *shape[2] = {n_(1), count};
    const Dim *const *shapes[1] = {shape};
    const DType type[1] = {DT_i64};
    const int rank[1] = {2};
    g_template(&b, "nonzero", 1, &c, 1, type, rank, shapes, 0, (F64List){0}, (DimList){&count, 1}, (IntList){0});
    Value *y = g_map1(&b, X_neg, g_map1(&b, X_neg, x));
    g_map1(&b, X_neg, y);
    const Dim *guard[1] = {dim_addi(t, N, -5)};
    g_check(&b, NULL, 1, guard, CODE_SHAPE);
    give(y);
    graph_remove_dead(g);
    ck_assert_int_eq(g->body->nodes.n, 3); // two maps and the check; nobody mentions the count
    give(g_dims(&b, 1, &count));
    g_template(&b, "nonzero", 1, &c, 1, type, rank, shapes, 0, (F64List){0}, (DimList){&count, 1}, (IntList){0});
    Node *def = g->body->nodes.data[4], *use = g->body->nodes.data[3];
    g->body->nodes.data[3] = def;
    g->body->nodes.data[4] = use;
    graph_remove_dead(g);
    ck_assert_int_eq(g->body->nodes.n, 5); // the size is used though the positions are not
    expect_valid();
    int *uses = calloc((size_t)g->nvalues, sizeof *uses);
    graph_replace(g, x, y->def->in[0]);
    graph_count_uses(g, uses);
    ck_assert_int_eq(uses[x->id], 0);
    ck_assert_int_eq(uses[y->id], 1);
    free(uses);
}
END_TEST

// ---- the verifier: each rule broken once, by text or by hand ----

typedef struct {
    int rule;
    const char *text;
} Broken;
static const Broken broken[] = {
    {5, "graph x\ndata dim k in 0..\ninput %x: f32[2]\n%y = map %x body(a0) : f32[2]\n%d = dims dims(k) : i64[1]\noutput %d \"y\"\n"},
    {7, "graph x\n%d = dims dims(2, 3) : i64[3]\noutput %d \"y\"\n"},
    {8, "graph x\ninput %x: f32[2]\n%y = map %x body(a0) : f32[3]\noutput %y \"y\"\n"},
    {9, "graph x\ninput %x: f32[2, 2]\n%y = view %x index(d0) : f32[2]\noutput %y \"y\"\n"},
    {10, "graph x\ninput %x: f32[2, 2]\n%y = reshape %x : f32[5]\noutput %y \"y\"\n"},
    {11, "graph x\ninput %x: f32[2, 2]\n%y = concat %x, %x axis 1 : f32[2, 5]\noutput %y \"y\"\n"},
    {12, "graph x\ninput %x: f32[2]\ninput %i: f32[3]\n%y = gather %x, %i index(v0) : f32[3]\noutput %y \"y\"\n"},
    {13, "graph x\ninput %x: f32[2, 3]\n%y = reduce %x kind sum axes(1) : f32[3]\noutput %y \"y\"\n"},
    {13, "graph x\ninput %x: f32[2, 3]\n%y = scan %x kind xor axis 1 : f32[2, 3]\noutput %y \"y\"\n"},
    {14, "graph x\ninput %x: f32[2, 3]\n%y = contract %x, %x subs \"ab,bc->ac\" : f32[2, 3]\noutput %y \"y\"\n"},
    {15, "graph x\ninput %x: f32[2, 3]\n%y = softmax %x kind softmax axes(1, 0) : f32[2, 3]\noutput %y \"y\"\n"},
    {16, "graph x\ninput %x: f32[1, 1, 2, 3]\n%y = attention %x, %x, %x score(a0) prob(a0) scale 1.0 : f32[1, 1, 2, 4]\noutput %y \"y\"\n"},
    {17, "graph x\ninput %x: f32[2]\n%y = template %x kind sort axis 0 : f32[2]\noutput %y \"y\"\n"},
    {18, "graph x\ninput %c: bool[]\ninput %x: f32[2]\n%y = if %c {\n  yield %x\n} else {\n  yield %c\n} : f32[2]\noutput %y \"y\"\n"},
    {19, "graph x\ninput %n: i64[]\ninput %c: bool[]\n%y = loop %n, %c, %n {\n  param %i: i64[]\n  param %g: bool[]\n  yield %g\n} : "
         "i64[]\noutput %y \"y\"\n"},
    {20, "graph x\ninput %x: f32[2]\ncheck guard(-1)\noutput %x \"y\"\n"},
    {22, "graph x\ninput %x: f32[2]\n%y = map %x body(a0) : f32[2]\noutput %x \"y\"\ntie %x %y\n"},
    {23, "graph x\ninput %x: f32[2]\n%y = map %x body(a0) : f32[2] store(buffer root %z)\n%z = map %x body(a0) : f32[2] store(buffer root "
         "%y)\noutput %y \"y\"\n"},
};

static void expect_rule(const Graph *h, int rule) {
    Diag d = {0};
    ck_assert_msg(!graph_verify(h, &d), "rule %d was not seen", rule);
    char text[32];
    snprintf(text, sizeof text, "rule %d:", rule);
    ck_assert_msg(strstr(d.text.data, text) != NULL, "rule %d, found %s", rule, d.text.data);
    diag_free(&d);
}

START_TEST(broken_rules_are_seen) {
    Diag d = {0};
    Graph *h = graph_parse(broken[_i].text, "broken", &d);
    ck_assert_msg(h != NULL, "%s", d.errors ? d.text.data : "");
    expect_rule(h, broken[_i].rule);
    graph_free(h);
}
END_TEST

START_TEST(broken_by_hand) {
    Value *x = input(DT_f32, 1, n_(2), NULL, NULL), *y = g_map1(&b, X_neg, x), *c = g_const_float(&b, DT_f32, 1);
    give(y);
    expect_valid();
    Node *n = y->def;
    n->nin = 0; // 1
    n->op = G_view;
    expect_rule(g, 1);
    n->op = G_map;
    n->nin = 1;
    n->in[0] = c; // 2: defined later
    expect_rule(g, 2);
    n->in[0] = x;
    y->type = DT_none; // 3
    expect_rule(g, 3);
    y->type = DT_f32;
    y->shape[0] = n_(-2);
    expect_rule(g, 3);
    y->shape[0] = n_(2);
    n->axis = 1; // 4
    expect_rule(g, 4);
    n->axis = 0;
    c->def->data.size = 3; // 6
    expect_rule(g, 6);
    c->def->data.size = 4;
    g->output_names.n = 0; // 21
    expect_rule(g, 21);
    g->output_names.n = 1;
    expect_valid();
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("graph");
    TCase *c = tcase_create("graph");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, map_broadcasts);
    tcase_add_test(c, open_broadcast_is_checked);
    tcase_add_test(c, views_infer);
    tcase_add_test(c, others_infer);
    tcase_add_test(c, if_of_two_shapes);
    tcase_add_test(c, shape_computation_folds);
    tcase_add_test(c, content_of_maps);
    tcase_add_test(c, content_through_floats);
    tcase_add_loop_test(c, text_is_read_back, 0, (int)(sizeof samples / sizeof *samples));
    tcase_add_test(c, large_constants_are_blobs);
    tcase_add_loop_test(c, faulty_text_is_named, 0, (int)(sizeof faults / sizeof *faults));
    tcase_add_loop_test(c, cut_text_is_refused, 0, (int)(sizeof samples / sizeof *samples));
    tcase_add_test(c, dead_nodes_go);
    tcase_add_loop_test(c, broken_rules_are_seen, 0, (int)(sizeof broken / sizeof *broken));
    tcase_add_test(c, broken_by_hand);
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
