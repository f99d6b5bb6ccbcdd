// The C printer against the loop interpreter, through gcc and clang, without and with optimisation, hosted and generic; the interface's
// checks; constants that read back exactly; deterministic bytes.
#include "codegen_agree.h"
#include "codegen_hooks.h"

#include "../../codegen/c_print.h"
#include "../../runtime/load.h"
#include "../../runtime/mlc_pool.h"
#include <dlfcn.h>

// ---- compiling and running ----
#define WARNINGS " -Wall -Wextra -Werror -pedantic"
// {target, compiler}: every way must give the same bits. Two trap on undefined behaviour.
static const struct {
    const char *target, *command;
} ways[] = {
    {"native", "gcc -std=c11 -O2" WARNINGS},
    {"native", "clang -std=c11 -O2" WARNINGS},
    {"generic", "gcc -std=c99 -O2 -fsanitize=undefined -fsanitize-undefined-trap-on-error" WARNINGS},
    {"x86-64-v2", "clang -std=gnu11 -O0 -fsanitize=undefined -fsanitize-trap=undefined" WARNINGS},
    {"native", "gcc -std=gnu11 -O0" WARNINGS},
    {"generic", "clang -std=c99 -O3" WARNINGS},
};
enum { WAYS = sizeof ways / sizeof *ways };
static int way;    // in use
static bool hooks; // likewise
enum { PARTS_MAX = 3 };
static int nparts; // texts beside the source

static void write_file(const char *path, const Str *s) {
    FILE *f = fopen(path, "wb");
    ck_assert(f && fwrite(s->data, 1, s->n, f) == s->n && fclose(f) == 0);
}

static void emit_parts(const Program *p, Str *source, Str *header, Str *parts) {
    Diag d = {0};
    EmitOptions o = {.prefix = "t", .header = "t.h", .options = "--test", .export_info = true, .hooks = hooks};
    o.parts = parts;
    o.nparts = nparts;
    ck_assert_msg(codegen_c(p, &o, source, header, &d), "%s", d.text.data);
}

static void emit(const Program *p, Str *source, Str *header) {
    ck_assert_int_eq(nparts, 0);
    emit_parts(p, source, header, NULL);
}

// Prints p, compiles it with `command` in a fresh folder and loads it.
static mlc_loaded *build(const Program *p, const char *command, const char *libraries) {
    char dir[] = "/tmp/mlc-c-XXXXXX", path[128], line[1024], error[256];
    Str source = {0}, header = {0}, parts[PARTS_MAX] = {0};
    emit_parts(p, &source, &header, parts);
    ck_assert(mkdtemp(dir) != NULL);
    for (int i = 0; i < nparts; i++) {
        snprintf(path, sizeof path, "%s/t%d.c", dir, i);
        write_file(path, &parts[i]);
        str_free(&parts[i]);
    }
    snprintf(path, sizeof path, "%s/t.c", dir);
    write_file(path, &source);
    snprintf(path, sizeof path, "%s/t.h", dir);
    write_file(path, &header);
    snprintf(line, sizeof line, "%s -fPIC -shared -nostdlib -Wl,-z,defs -o %s/t.so %s/t*.c %s", command, dir, dir, libraries);
    ck_assert_msg(system(line) == 0, "%s", line);
    snprintf(path, sizeof path, "%s/t.so", dir);
    mlc_loaded *m = mlc_load(path, "t", error, sizeof error);
    ck_assert_msg(m != NULL, "%s", error);
    snprintf(line, sizeof line, "rm -r %s", dir);
    ck_assert_int_eq(system(line), 0);
    str_free(&source);
    str_free(&header);
    return m;
}

// Only memcpy and memset may be missing: -lc has them, and -z defs refuses the libm's.
static void run_compiled(const Case *c, Result *r) {
    mlc_loaded *m = build(c->p, ways[way].command, "-lc");
    run_model(c, r, mlc_loaded_info(m));
    mlc_unload(m);
}

// ---- agreement ----
static const DType types[] = {DT_f32, DT_f64, DT_i8, DT_u8, DT_i16, DT_u16, DT_i32, DT_u32, DT_i64, DT_u64, DT_bool};
enum { TYPES = sizeof types / sizeof *types };

// Each type meets every compiler and mode in turn: `of` ways apart.
static void some_types(int lanes, int of) {
    for (int t = 0; t < TYPES; t++)
        if ((t + way) % of == 0) scalar_matrix(ways[way].target, run_compiled, types[t], lanes, X_add, X_exp);
}

START_TEST(scalar_functions_agree) {
    way = _i;
    some_types(1, 2);
}
END_TEST

START_TEST(lanes_agree) {
    way = _i;
    some_types(8, 3);
}
END_TEST

START_TEST(other_lane_counts_agree) {
    static const struct {
        DType type;
        int lanes;
    } cases[WAYS] = {{DT_f32, 16}, {DT_i32, 4}, {DT_f32, 5}, {DT_f32, 4}, {DT_f64, 4}, {DT_i8, 2}};
    way = _i;
    scalar_matrix(ways[way].target, run_compiled, cases[way].type, cases[way].lanes, X_add, X_exp);
    scalar_matrix(ways[way].target, run_compiled, cases[(way + 1) % WAYS].type, cases[(way + 1) % WAYS].lanes, X_add, X_exp);
}
END_TEST

START_TEST(math_functions_agree) {
    way = _i;
    for (int t = way % 2; t < 4; t += 2)
        scalar_matrix(ways[way].target, run_compiled, t / 2 ? DT_f64 : DT_f32, (t + way / 2) % 2 ? 8 : 1, X_exp, X_COUNT);
}
END_TEST

START_TEST(small_floats_agree) {
    static const DType small[] = {DT_f16, DT_bf16, DT_f8e4m3fn, DT_f8e5m2};
    way = _i;
    scalar_matrix(ways[way].target, run_compiled, small[way % 4], way % 4 == 0 ? 8 : 1, X_add, X_exp);
}
END_TEST

START_TEST(programs_agree) {
    const TextCase *t = &texts[_i % TEXTS];
    way = _i / TEXTS;
    random_state = 12345;
    Program *p = parse(t->text);
    p->target = ways[way].target;
    int status = agree_through(&(Case){.p = p, .dims = {t->dims[0], t->dims[1]}, .capacity = 64}, run_compiled);
    ck_assert_msg(status == t->status, "%s: status %d, expected %d", t->name, status, t->status);
    free_program(p);
}
END_TEST

// The interface in one text, kernels in it and others.
START_TEST(parts_agree) {
    const TextCase *t = &texts[_i];
    way = _i % WAYS;
    nparts = 1 + _i % PARTS_MAX;
    random_state = 4711;
    Program *p = parse(t->text);
    p->target = ways[way].target;
    ck_assert_int_eq(agree_through(&(Case){.p = p, .dims = {t->dims[0], t->dims[1]}, .capacity = 64}, run_compiled), t->status);
    nparts = 0;
    free_program(p);
}
END_TEST

START_TEST(threads_change_nothing) {
    const TextCase *t = &texts[_i];
    if (!strstr(t->text, "parallel") && !strstr(t->text, "team")) return;
    random_state = 7;
    Program *p = parse(t->text);
    for (int threads = 1; threads <= 4; threads++) {
        mlc_pool *pool = mlc_pool_create(threads);
        ck_assert_int_eq(pool->threads, threads);
        for (int again = 0; again < 2; again++)
            ck_assert_int_eq(
                agree_through(&(Case){.p = p, .dims = {t->dims[0], t->dims[1]}, .capacity = 64, .pool = pool}, run_compiled), t->status);
        mlc_pool_destroy(pool);
    }
    free_program(p);
}
END_TEST

// ---- text ----
START_TEST(bytes_are_deterministic) {
    const TextCase *t = &texts[_i];
    Str source[2] = {{0}, {0}}, header[2] = {{0}, {0}};
    for (int i = 0; i < 2; i++) {
        Program *p = parse(t->text);
        emit(p, &source[i], &header[i]);
        free_program(p);
    }
    ck_assert_str_eq(source[0].data, source[1].data);
    ck_assert_str_eq(header[0].data, header[1].data);
    for (int i = 0; i < 2; i++) str_free(&source[i]), str_free(&header[i]);
}
END_TEST

// The header alone, as C99 and as C++17.
START_TEST(header_compiles) {
    Program *p = parse(texts[_i].text);
    char dir[] = "/tmp/mlc-h-XXXXXX", path[128], line[512];
    Str source = {0}, header = {0};
    emit(p, &source, &header);
    ck_assert(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/t.h", dir);
    write_file(path, &header);
    snprintf(line, sizeof line,
        "cd %s && echo '#include \"t.h\"' > c.c && cp c.c c.cc && gcc -std=c99" WARNINGS " -c c.c && clang -std=c99" WARNINGS
        " -c c.c && g++ -std=c++17" WARNINGS " -c c.cc && rm -r %s",
        dir, dir);
    ck_assert_int_eq(system(line), 0);
    str_free(&source);
    str_free(&header);
    free_program(p);
}
END_TEST

START_TEST(names_become_identifiers) {
    static const char *const pairs[][2] = {{"a.b/c:0", "a_b_c_0"}, {"0x", "x0x"}, {"int", "int_"}, {"class", "class_"}, {"", "x"},
        {"_A", "x_A"}, {"__a", "x__a"}, {"é", "x__"}, {"plain", "plain"}};
    Arena *a = arena_new();
    for (size_t i = 0; i + 1 < sizeof pairs / sizeof *pairs; i++) ck_assert_str_eq(codegen_cname(a, pairs[i][0]), pairs[i][1]);
    arena_free(a);
}
END_TEST

// What codegen_data writes, a compiler reads back: every class of f32 and f64, and the ends of the integers.
START_TEST(constants_read_back) {
    enum { N = 4096 };
    static const DType kinds[] = {DT_f32, DT_f64, DT_i8, DT_u8, DT_i16, DT_u16, DT_i32, DT_u32, DT_i64, DT_u64, DT_f16};
    DType t = kinds[_i];
    DimTable *dims = dim_table_new();
    Program *p = program_new(dims, "data");
    const Dim *shape[1] = {dim_int(dims, N)};
    LoopBuffer *w = loop_buffer(p, BUF_CONST, "w", t, 1, shape), *y = loop_buffer(p, BUF_OUTPUT, "y", t, 1, shape);
    unsigned char *bytes = arena_alloc(p->arena, N * 8);
    random_state = (uint64_t)t;
    for (int i = 0; i < N * 8; i += 8) {
        uint64_t bits = (random_bits() << 40) ^ (random_bits() << 20) ^ random_bits();
        if (i % 64 == 0) bits &= 0x800fffff807fffff; // subnormal
        memcpy(bytes + i, &bits, 8);
    }
    int size = dtype_bytes(t);
    for (int i = 0; i < 40; i++) random_element(t, bytes + i * size, i);
    w->bytes = bytes;
    w->nbytes = (size_t)(N * size);
    Kernel *k = loop_kernel(p, "copy", "copy", 0);
    LoopBuffer *from = loop_param(p, k, "w", t, true, false), *to = loop_param(p, k, "y", t, false, true);
    Stmt *loop = loop_for(p, &k->body, "i", dim_int(dims, 0), dim_int(dims, N), LOOP_PAR);
    loop_store(p, &loop->body, to, loop->sym, x_load(p->arena, &from->var, loop->sym));
    loop_call(p, &p->main, k, 2, (LoopBuffer *[]){w, y});
    p->target = "generic";
    mlc_loaded *m = build(p, "gcc -std=c99 -O1" WARNINGS, "-lc");
    void *out = aligned_zero(N * 8), *outputs[1] = {out};
    ck_assert_int_eq(mlc_loaded_run(m, NULL, (const void *const[]){NULL}, outputs), 0);
    compare(y, bytes, out, (size_t)(N * size));
    free(out);
    mlc_unload(m);
    free_program(p);
}
END_TEST

// ---- the interface's checks ----
static const char checked_program[] =
    "program p\ndim N in 1..100\ninput x: f32[N]\nstate h: f32[4] \"h\"\noutput y: f32[N]\noutput z: f32[N]\ntemp t: f32[N]\ntemp u: "
    "f32[8] at 0 region "
    "fast\n"
    "kernel k \"k\" node 1 (x: f32 in, h: f32 in, t: f32 inout, u: f32 inout, y: f32 out, z: f32 out) {\n  for i in 0..8 par { u[i] = h[0] "
    "}\n"
    "  for i2 in 0..N par {\n    t[i2] = x[i2] + u[3]\n    y[i2] = t[i2]\n    z[i2] = t[i2]\n  }\n}\nmain { call k(x, h, t, u, y, z) }\n";

START_TEST(bad_calls_are_refused) {
    Program *p = parse(checked_program);
    p->target = ways[_i].target;
    mlc_loaded *m = build(p, ways[_i].command, "-lc");
    const mlc_model_info *info = mlc_loaded_info(m);
    int64_t n = 10;
    ck_assert(info->arena_bytes(&n, 1) != SIZE_MAX);
    ck_assert(info->arena_bytes(&(int64_t){0}, 1) == SIZE_MAX);
    ck_assert(info->arena_bytes(&(int64_t){101}, 1) == SIZE_MAX);
    ck_assert_int_eq(info->nregions, 1);
    ck_assert_int_eq((int)info->region_bytes[0], 32);
    float x[12] = {1}, *y = aligned_zero(400), *z = aligned_zero(400);
    size_t bytes = info->arena_bytes(&n, 1);
    char *arena = aligned_zero(bytes + 64), *state = aligned_zero(info->state_bytes), *fast = aligned_zero(64);
    const void *in[1] = {x};
    void *out[2] = {y, z}, *regions[1] = {fast};
    const mlc_env good = {.struct_size = sizeof good, .arena = arena, .arena_bytes = bytes, .state = state, .regions = regions};
    info->state_init(state);
#define RUN(env) info->run_env(&n, in, out, (env))
#define REFUSED(field, value, code)                                                                                                        \
    do {                                                                                                                                   \
        mlc_env e = good;                                                                                                                  \
        e.field = (value);                                                                                                                 \
        ck_assert_int_eq(RUN(&e), -(code));                                                                                                \
    } while (0)
    ck_assert_int_eq(RUN(&good), 0);
    ck_assert_int_eq(RUN(NULL), -CODE_POINTER);
    REFUSED(arena_bytes, bytes - 1, CODE_ARENA);
    REFUSED(arena, arena + 1, CODE_ARENA);
    REFUSED(arena, NULL, CODE_ARENA);
    REFUSED(state, NULL, CODE_POINTER);
    REFUSED(regions, NULL, CODE_ARENA);
    ck_assert_int_eq(info->run_env(&(int64_t){101}, in, out, &good), -CODE_SHAPE);
    in[0] = NULL;
    ck_assert_int_eq(RUN(&good), -CODE_POINTER);
    in[0] = (char *)x + 1;
    ck_assert_int_eq(RUN(&good), -CODE_POINTER);
    in[0] = x;
    out[1] = NULL; // not wanted
    ck_assert_int_eq(RUN(&good), 0);
    ck_assert(y[0] == 1.0f);
    free(y), free(z), free(arena), free(state), free(fast);
    mlc_unload(m);
    free_program(p);
}
END_TEST

START_TEST(sizes_do_not_overflow) {
    Program *p = parse("program p\ndim N in 1..9000000000000000000\ndim M in 1..9000000000000000000\ninput x: f32[1]\noutput y: "
                       "f32[1]\ntemp t: f32[N, M, 4]\n"
                       "kernel k (x: f32 in, y: f32 out, t: f32 inout) { y[0] = x[0] + t[0] }\nmain { call k(x, y, t) }\n");
    p->target = ways[_i].target;
    mlc_loaded *m = build(p, ways[_i].command, "-lc");
    const mlc_model_info *info = mlc_loaded_info(m);
    ck_assert(info->arena_bytes((int64_t[]){4, 4}, 1) == 256);
    ck_assert(info->arena_bytes((int64_t[]){1ll << 40, 1ll << 40}, 1) == SIZE_MAX);
    ck_assert(info->arena_bytes((int64_t[]){1ll << 31, 1ll << 28}, 1) == SIZE_MAX);
    ck_assert(info->arena_bytes((int64_t[]){8999999999999999999, 1}, 1) == SIZE_MAX);
    mlc_unload(m);
    free_program(p);
}
END_TEST

START_TEST(hooks_see_every_kernel) {
    Program *p = parse(hooks_text);
    p->target = ways[_i].target;
    mlc_pool *pool = mlc_pool_create(3);
    hooks = true;
    mlc_loaded *m = build(p, ways[_i].command, "-lc");
    check_hooks(mlc_loaded_info(m), NULL);
    check_hooks(mlc_loaded_info(m), pool);
    mlc_unload(m);
    hooks = false;
    m = build(p, ways[_i].command, "-lc");
    check_no_hooks(mlc_loaded_info(m));
    mlc_unload(m);
    mlc_pool_destroy(pool);
    free_program(p);
}
END_TEST

START_TEST(hooks_are_listed) {
    Program *p = parse(hooks_text);
    Str source = {0}, header = {0};
    hooks = true;
    emit(p, &source, &header);
    ck_assert_ptr_nonnull(strstr(header.data, "#define T_KERNELS 3\n// 0: a (Sum_1, Relu_1)\n// 1: b\n// 2: c (Gather_3)\n"));
    str_free(&source), str_free(&header);
    hooks = false;
    emit(p, &source, &header);
    ck_assert_ptr_null(strstr(header.data, "T_KERNELS"));
    ck_assert_ptr_null(strstr(source.data, "env->hook")); // no cost
    str_free(&source), str_free(&header);
    free_program(p);
}
END_TEST

// One case a test, so that CK_RUN_CASE picks one.
static void add(Suite *s, const char *name, const TTest *test, int n) {
    TCase *c = tcase_create(name);
    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, test, 0, n);
    suite_add_tcase(s, c);
}

int main(void) {
    Suite *s = suite_create("codegen_c");
    add(s, "names", names_become_identifiers, 1);
    add(s, "constants", constants_read_back, 11);
    add(s, "programs", programs_agree, WAYS * TEXTS);
    add(s, "scalars", scalar_functions_agree, WAYS);
    add(s, "lanes", lanes_agree, WAYS);
    add(s, "lane_counts", other_lane_counts_agree, WAYS);
    add(s, "math", math_functions_agree, WAYS);
    add(s, "small_floats", small_floats_agree, WAYS);
    add(s, "parts", parts_agree, TEXTS);
    add(s, "threads", threads_change_nothing, TEXTS);
    add(s, "bytes", bytes_are_deterministic, TEXTS);
    add(s, "headers", header_compiles, TEXTS);
    add(s, "calls", bad_calls_are_refused, WAYS);
    add(s, "hooks", hooks_see_every_kernel, WAYS);
    add(s, "hook_list", hooks_are_listed, 1);
    add(s, "overflow", sizes_do_not_overflow, WAYS);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
