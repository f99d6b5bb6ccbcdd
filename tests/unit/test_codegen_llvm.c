// The LLVM printer against the loop interpreter: every scalar function on every type, and small programs that use each statement and each
// operation on lanes. Both run the same Program on the same data; results must agree bit for bit, NaN as a class.
#include "codegen_agree.h"
#include "codegen_hooks.h"

#include <dlfcn.h>

static LlvmJit *compile_hooked(const Program *p, int opt, bool hooks) {
    Diag d = {0};
    EmitOptions o = {.prefix = "t", .export_info = true, .hooks = hooks};
    LlvmJit *j = llvm_jit(p, &o, opt, &d);
    ck_assert_msg(j != NULL, "%s", d.text.data);
    return j;
}

static LlvmJit *compile(const Program *p, int opt) {
    return compile_hooked(p, opt, false);
}

static void run_jit(const Case *c, Result *r) {
    LlvmJit *j = compile(c->p, c->opt);
    run_model(c, r, llvm_jit_info(j));
    llvm_jit_free(j);
}

// The object, linked by the C compiler and loaded: constants and symbols as in a .so.
static void run_object(const Case *c, Result *r) {
    Diag d = {0};
    EmitOptions o = {.prefix = "t", .export_info = true};
    Str object = {0};
    ck_assert_msg(codegen_llvm(c->p, &o, LLVM_OBJECT, c->opt, &object, &d), "%s", d.text.data);
    char dir[] = "/tmp/mlc-llvm-XXXXXX", path[64], command[256];
    ck_assert(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/m.o", dir);
    FILE *f = fopen(path, "wb");
    ck_assert(f && fwrite(object.data, 1, object.n, f) == object.n && fclose(f) == 0);
    snprintf(command, sizeof command, "cc -shared -nostdlib -Wl,-z,defs -o %s/m.so %s/m.o -lc", dir, dir);
    ck_assert_int_eq(system(command), 0);
    snprintf(path, sizeof path, "%s/m.so", dir);
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(lib != NULL, "%s", dlerror());
    run_model(c, r, dlsym(lib, "t_info"));
    dlclose(lib);
    snprintf(command, sizeof command, "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
    str_free(&object);
}

static int agree(const Case *c) {
    return agree_through(c, run_jit);
}

static int text_agrees(const char *text, int64_t dim0, int64_t dim1) {
    random_state = 12345;
    Program *p = parse(text);
    int status = 0;
    for (int opt = 0; opt <= 2; opt += 2) status = agree(&(Case){.p = p, .dims = {dim0, dim1}, .capacity = 64, .opt = opt});
    DimTable *t = p->dims;
    program_free(p);
    dim_table_free(t);
    return status;
}

START_TEST(scalar_functions_agree) {
    scalar_matrix("native", run_jit, native[_i % NATIVE], _i / NATIVE ? 8 : 1, X_add, X_exp);
}
END_TEST

START_TEST(odd_lanes_agree) {
    scalar_matrix("native", run_jit, _i ? DT_i32 : DT_f32, 5, X_add, X_exp);
}
END_TEST

// Without fma and rounding instructions.
START_TEST(oldest_processor_agrees) {
    scalar_matrix("generic", run_jit, _i % 2 ? DT_f64 : DT_f32, _i / 2 ? 8 : 1, X_add, X_exp);
}
END_TEST

// f64 fma on a processor without it: the interpreter has the C library's; mantissas and exponents that cancel, overflow and underflow.
static const char *const fma_text =
    "program p\ntarget generic\ninput a: f64[4096]\ninput b: f64[4096]\ninput c: f64[4096]\noutput y: f64[4096]\n"
    "kernel k (a: f64 in, b: f64 in, c: f64 in, y: f64 out disjoint) {\n"
    "  for i in 0..4096 par {\n    y[i] = fma(a[i], b[i], c[i])\n  }\n}\nmain { call k(a, b, c, y) }\n";

static double hard_double(void) {
    static const uint64_t mantissas[] = {0, 1, (UINT64_C(1) << 52) - 1, UINT64_C(1) << 51, (UINT64_C(1) << 26) + 1};
    uint64_t r = random_bits(), mantissa = r % 2 ? mantissas[r / 2 % 5] : random_bits() & ((UINT64_C(1) << 52) - 1);
    uint64_t exponent = r % 7 < 4 ? 1023 + random_bits() % 120 - 60 : r % 7 == 4 ? random_bits() % 60 : random_bits() % 2048;
    uint64_t bits = (random_bits() & 1) << 63 | exponent << 52 | mantissa;
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

START_TEST(soft_fma_agrees) {
    enum { N = 4096 };
    Program *p = parse(fma_text);
    LlvmJit *j = compile(p, 2);
    double *x[4];
    for (int i = 0; i < 4; i++) x[i] = aligned_zero(N * sizeof(double));
    random_state = 3;
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < N; i++) {
            x[0][i] = hard_double();
            x[1][i] = hard_double();
            x[2][i] = i % 3 ? hard_double() : -x[0][i] * x[1][i] * (i % 2 ? 1.0 : 1.0 + 0x1p-52); // cancels, all or all but a bit
        }
        mlc_env env = {.struct_size = sizeof env};
        ck_assert_int_eq(llvm_jit_info(j)->run_env(NULL, (const void *[]){x[0], x[1], x[2]}, (void *[]){x[3]}, &env), 0);
        for (int i = 0; i < N; i++) {
            double want = fma(x[0][i], x[1][i], x[2][i]), have = x[3][i];
            bool same = memcmp(&want, &have, sizeof want) == 0 || (isnan(want) && isnan(have));
            ck_assert_msg(same, "fma(%a, %a, %a) is %a, expected %a", x[0][i], x[1][i], x[2][i], have, want);
        }
    }
    for (int i = 0; i < 4; i++) free(x[i]);
    llvm_jit_free(j);
    random_state = 4;
    ck_assert_int_eq(agree_through(&(Case){.p = p, .opt = 2}, run_object), 0); // linked without libm
    free_program(p);
}
END_TEST

START_TEST(math_functions_agree) {
    scalar_matrix("native", run_jit, _i % 2 ? DT_f64 : DT_f32, _i / 2 ? 8 : 1, X_exp, X_COUNT);
}
END_TEST

START_TEST(programs_agree) {
    const TextCase *t = &texts[_i];
    int status = text_agrees(t->text, t->dims[0], t->dims[1]);
    ck_assert_msg(status == t->status, "%s: status %d, expected %d", t->name, status, t->status);
}
END_TEST

START_TEST(objects_agree) {
    const TextCase *t = &texts[_i];
    random_state = 99;
    Program *p = parse(t->text);
    ck_assert_int_eq(agree_through(&(Case){.p = p, .dims = {t->dims[0], t->dims[1]}, .capacity = 64, .opt = 2}, run_object), t->status);
    free_program(p);
}
END_TEST

// ---- threads ----
typedef struct {
    void (*fn)(void *ctx, int64_t i);
    void *ctx;
    int64_t i;
} Item;

static void *item_thread(void *arg) {
    Item *it = arg;
    it->fn(it->ctx, it->i);
    return NULL;
}

// Every call on a thread of its own, begun last first.
static int64_t calls;
static void many_threads(mlc_pool *pool, void (*fn)(void *ctx, int64_t i), void *ctx, int64_t n) {
    (void)pool;
    pthread_t thread[64];
    Item item[64];
    ck_assert(n <= 64);
    calls += n;
    for (int64_t i = n - 1; i >= 0; i--) {
        item[i] = (Item){fn, ctx, i};
        ck_assert_int_eq(pthread_create(&thread[i], NULL, item_thread, &item[i]), 0);
    }
    for (int64_t i = 0; i < n; i++) pthread_join(thread[i], NULL);
}

START_TEST(threads_change_nothing) {
    const TextCase *t = &texts[_i];
    mlc_pool pool = {.threads = 4, .parallel_for = many_threads};
    if (!strstr(t->text, "parallel") && !strstr(t->text, "team")) return;
    random_state = 7;
    Program *p = parse(t->text);
    calls = 0;
    ck_assert_int_eq(agree(&(Case){.p = p, .dims = {t->dims[0], t->dims[1]}, .opt = 2, .pool = &pool}), t->status);
    ck_assert_int_gt(calls, 0);
    free_program(p);
}
END_TEST

// ---- the binary interface ----
static const char *const interface_text =
    "program p\ndim N in 2..64\ninput x: f32[N]\noutput y: f32[N]\noutput z: f32[N]\ntemp t: f32[N]\n"
    "kernel k \"k\" node 1 (x: f32 in, t: f32 out disjoint, y: f32 out disjoint, z: f32 out disjoint) {\n"
    "  for i in 0..N par {\n    t[i] = x[i]\n    y[i] = x[i] + 1.0f32\n    z[i] = x[i] - 1.0f32\n  }\n}\nmain { call k(x, t, y, z) }\n";

START_TEST(entry_checks) {
    Program *p = parse(interface_text);
    LlvmJit *j = compile(p, 2);
    const mlc_model_info *info = llvm_jit_info(j);
    ck_assert_uint_eq(info->abi, MLC_ABI);
    ck_assert_str_eq(info->dims[0], "N");
    ck_assert_str_eq(info->inputs[0].shape[0], "N");
    ck_assert_int_eq(info->noutputs, 2);
    ck_assert_ptr_eq(llvm_jit_symbol(j, "t_run_env"), (void *)(uintptr_t)info->run_env);
    ck_assert_ptr_null(llvm_jit_symbol(j, "t_run")); // sizes are not constant
    int64_t dims[1] = {5}, small[1] = {1}, large[1] = {65};
    size_t bytes = info->arena_bytes(dims, 1);
    ck_assert_uint_ge(bytes, 20);
    ck_assert_uint_eq(info->arena_bytes(small, 1), SIZE_MAX);
    ck_assert_uint_eq(info->arena_bytes(large, 1), SIZE_MAX);
    char *arena = aligned_zero(bytes);
    float x[5] = {1, 2, 3, 4, 5}, y[5], z[5];
    const void *in[1] = {x}, *none[1] = {NULL}, *odd[1] = {(char *)x + 1};
    void *out[2] = {y, z}, *only[2] = {NULL, z};
    mlc_env env = {.struct_size = sizeof env, .arena = arena, .arena_bytes = bytes};
    ck_assert_int_eq(info->run_env(dims, in, out, &env), 0);
    ck_assert(y[4] == 6 && z[4] == 4);
    z[4] = 0;
    ck_assert_int_eq(info->run_env(dims, in, only, &env), 0); // y is not wanted
    ck_assert(z[4] == 4);
    ck_assert_int_eq(info->run_env(small, in, out, &env), -CODE_SHAPE);
    ck_assert_int_eq(info->run_env(dims, none, out, &env), -CODE_POINTER);
    ck_assert_int_eq(info->run_env(dims, odd, out, &env), -CODE_POINTER);
    env.arena_bytes = bytes - 1;
    ck_assert_int_eq(info->run_env(dims, in, out, &env), -CODE_ARENA);
    env.arena_bytes = bytes;
    env.arena = arena + 1;
    ck_assert_int_eq(info->run_env(dims, in, out, &env), -CODE_ARENA);
    free(arena);
    llvm_jit_free(j);
    free_program(p);
}
END_TEST

START_TEST(hooks_see_every_kernel) {
    Program *p = parse(hooks_text);
    mlc_pool pool = {.threads = 4, .parallel_for = many_threads};
    for (int opt = 0; opt <= 2; opt += 2) {
        LlvmJit *j = compile_hooked(p, opt, true);
        check_hooks(llvm_jit_info(j), NULL);
        calls = 0;
        check_hooks(llvm_jit_info(j), &pool);
        ck_assert_int_gt(calls, 0);
        llvm_jit_free(j);
    }
    LlvmJit *j = compile(p, 2);
    check_no_hooks(llvm_jit_info(j));
    llvm_jit_free(j);
    free_program(p);
}
END_TEST

START_TEST(constant_sizes_have_run) {
    Program *p =
        parse("program p\ninput x: f32[4]\nstate h: f32[4] = {1.0, 2.0, 3.0, 4.0}\noutput y: f32[4]\n"
              "kernel k \"k\" (x: f32 in, h: f32 in, y: f32 out disjoint) {\n  for i in 0..4 par {\n    y[i] = x[i] + h[i]\n  }\n}\n"
              "main { call k(x, h, y) }\n");
    LlvmJit *j = compile(p, 2);
    const mlc_model_info *info = llvm_jit_info(j);
    _Alignas(64) float h[16];
    info->state_init(h);
    ck_assert(h[0] == 1 && h[3] == 4);
    ck_assert_uint_ge(info->state_bytes, 16);
    llvm_jit_free(j);
    free_program(p);
}
END_TEST

START_TEST(files_are_what_they_say) {
    Program *p = parse(interface_text);
    EmitOptions o = {.prefix = "t", .export_info = true};
    Diag d = {0};
    Str text = {0}, again = {0}, bits = {0}, object = {0};
    ck_assert(codegen_llvm(p, &o, LLVM_LL, 2, &text, &d) && codegen_llvm(p, &o, LLVM_LL, 2, &again, &d));
    ck_assert(codegen_llvm(p, &o, LLVM_BC, 2, &bits, &d) && codegen_llvm(p, &o, LLVM_OBJECT, 2, &object, &d));
    ck_assert_str_eq(text.data, again.data);
    ck_assert_ptr_nonnull(strstr(text.data, "i32 @t_run_env("));
    ck_assert_ptr_nonnull(strstr(text.data, "@t_info = "));
    ck_assert(bits.n > 4 && memcmp(bits.data, "BC\xc0\xde", 4) == 0);
    ck_assert(object.n > 4 && memcmp(object.data, "\177ELF", 4) == 0);
    str_free(&text), str_free(&again), str_free(&bits), str_free(&object);
    free_program(p);
}
END_TEST

START_TEST(no_llvm_says_so) {
    Program *p = parse(interface_text);
    Diag d = {0};
    EmitOptions o = {.prefix = "t"};
    ck_assert_ptr_null(llvm_jit(p, &o, 2, &d));
    ck_assert_int_eq(d.code, EXIT_UNSUPPORTED);
    diag_free(&d);
    free_program(p);
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("codegen_llvm");
    TCase *c = tcase_create("llvm");
    tcase_set_timeout(c, 120);
    if (llvm_available()) {
        tcase_add_loop_test(c, programs_agree, 0, TEXTS);
        tcase_add_loop_test(c, objects_agree, 0, TEXTS);
        tcase_add_loop_test(c, threads_change_nothing, 0, TEXTS);
        tcase_add_loop_test(c, scalar_functions_agree, 0, 2 * NATIVE);
        tcase_add_loop_test(c, odd_lanes_agree, 0, 2);
        tcase_add_loop_test(c, oldest_processor_agrees, 0, 4);
        tcase_add_test(c, soft_fma_agrees);
        tcase_add_loop_test(c, math_functions_agree, 0, 4);
        tcase_add_test(c, entry_checks);
        tcase_add_test(c, hooks_see_every_kernel);
        tcase_add_test(c, constant_sizes_have_run);
        tcase_add_test(c, files_are_what_they_say);
    } else
        tcase_add_test(c, no_llvm_says_so);
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
