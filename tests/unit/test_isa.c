// The rows of isa_*.def: well-formed, found by their meaning, and, for what this processor has, computing that meaning: the C texts are
// compiled into a library and run on random and special operands beside a lane-by-lane evaluation.
#include "../../ir/isa.h"
#include "../../ir/strip.h"

#include <check.h>
#include <ctype.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 64 * 8 };

static Arena *arena;
static void setup(void) {
    arena = arena_new();
}
static void teardown(void) {
    arena_free(arena);
}

static VType type_of(const char *s) {
    return vtype_parse(s, strlen(s));
}

// Types of the operands: their number.
static int operand_types(const IsaRow *row, VType *types) {
    int n = 0;
    const char *s = row->args;
    for (size_t len = strcspn(s, " "); len; len = strcspn(s, " ")) {
        types[n++] = vtype_parse(s, len);
        s += len + (s[len] == ' ');
    }
    return n;
}

static int operand_vars(const IsaRow *row, const Expr **operands) {
    static const char *const names[3] = {"p", "q", "r"};
    VType types[3];
    int n = operand_types(row, types);
    for (int i = 0; i < n; i++) {
        Var *v = ARENA_NEW(arena, Var);
        *v = (Var){.kind = VAR_LET, .name = names[i], .type = types[i]};
        operands[i] = x_var(arena, v);
    }
    return n;
}

// ---- rows and matching ----

static void check_node(void *ctx, const Expr *e) {
    (void)ctx;
    const char *fault = expr_check(arena, e);
    ck_assert_msg(!fault, "%s", fault);
}

START_TEST(types_in_text) {
    ck_assert(vtype_same(type_of("f32x8"), vtype(DT_f32, 8)) && vtype_same(type_of("i64"), vtype(DT_i64, 1)));
    ck_assert(vtype_same(type_of("m32x16"), vtype(DT_bool, 16)) && vtype_same(type_of("boolx4"), vtype(DT_bool, 4)));
    ck_assert(vtype_same(type_of("idx"), vtype(DT_idx, 1)) && vtype_same(type_of("u8x64"), vtype(DT_u8, 64)));
    static const char *const bad[] = {"", "f32x", "f32x0", "f32x65", "x8", "f31x8", "f32x8x", "f32 "};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) ck_assert_msg(type_of(bad[i]).type == DT_none, "%s", bad[i]);
    Str s = {0};
    vtype_print(&s, vtype(DT_bool, 8));
    ck_assert_str_eq(s.data, "boolx8");
    str_free(&s);
}
END_TEST

START_TEST(rows_are_found_by_their_meaning) {
    const IsaRow *row = isa_row(_i);
    ck_assert_int_eq(isa_find(row->name, strlen(row->name)), _i);
    const Expr *operands[3] = {0}, *found[3];
    int n = operand_vars(row, operands);
    const Expr *meaning = isa_meaning(arena, _i, operands);
    ck_assert(vtype_same(meaning->type, type_of(row->result)));
    expr_visit(meaning, check_node, NULL);
    int match = isa_match(meaning, row->feature, found);
    ck_assert_msg(match == _i, "%s is taken for %s", row->name, match < 0 ? "nothing" : isa_row(match)->name);
    for (int i = 0; i < n; i++) ck_assert(found[i] == operands[i]);
    ck_assert_int_eq(isa_match(meaning, "neon sve", found), -1);
    Expr call = {.op = X_isa, .k = _i, .type = meaning->type, .n = n, .a = {operands[0], operands[1], operands[2]}};
    check_node(NULL, x_node(arena, call));
}
END_TEST

static const Expr *vector_var(const char *name, VType type) {
    Var *v = ARENA_NEW(arena, Var);
    *v = (Var){.kind = VAR_LET, .name = name, .type = type};
    return x_var(arena, v);
}

START_TEST(matching_binds_operands) {
    const Expr *x = vector_var("x", vtype(DT_f32, 8)), *y = vector_var("y", vtype(DT_f32, 8)), *o[3];
    const Expr *sum = x_op2(arena, X_add, x, y), *e = x_op3(arena, X_fma, sum, y, x);
    int row = isa_match(e, "avx2 fma", o);
    ck_assert_str_eq(isa_row(row)->name, "fmadd_f32x8");
    ck_assert(o[0] == sum && o[1] == y && o[2] == x);
    ck_assert_int_eq(isa_match(e, "avx2", o), -1);
    ck_assert_int_eq(isa_match(sum, "avx2 fma", o), -1);
    e = x_op3(arena, X_fma, x_op1(arena, X_neg, x), y, sum);
    ck_assert_str_eq(isa_row(isa_match(e, "fma", o))->name, "fnmadd_f32x8");
    ck_assert(o[0] == x);
    // a second occurrence must be the same: select(x < y, x, y) is a minimum, select(x < y, y, x) is not
    const Expr *less = x_op2(arena, X_lt, x, y);
    ck_assert_str_eq(isa_row(isa_match(x_op3(arena, X_select, less, x, y), "avx", o))->name, "min_f32x8");
    ck_assert_str_eq(isa_row(isa_match(x_op3(arena, X_select, less, y, x), "avx", o))->name, "select_f32x8");
    // two features are both needed
    const Expr *dot =
        x_node(arena, (Expr){.op = X_dot4,
                          .type = vtype(DT_i32, 8),
                          .a = {vector_var("c", vtype(DT_i32, 8)), vector_var("u", vtype(DT_u8, 32)), vector_var("s", vtype(DT_i8, 32))}});
    ck_assert_str_eq(isa_row(isa_match(dot, "avx2 avx512vnni", o))->name, "dot4_u8_avx2_i32x8");
    ck_assert_str_eq(isa_row(isa_match(dot, "avx2 avx512vl avx512vnni", o))->name, "dot4_u8_i32x8");
}
END_TEST

START_TEST(minimum_of_a_constant_is_the_instruction) {
    const Expr *x = vector_var("x", vtype(DT_f32, 8)), *zero = x_splat(arena, x_float(arena, DT_f32, 0), 8), *o[3];
    const Expr *nan = x_splat(arena, x_float(arena, DT_f32, NAN), 8);
    int row = isa_match(x_op2(arena, X_max, zero, x), "avx", o);
    ck_assert_str_eq(isa_row(row)->name, "max_f32x8");
    ck_assert(o[0] == zero && o[1] == x);
    ck_assert_int_eq(isa_match(x_op2(arena, X_max, nan, x), "avx", o), -1);
    const Expr *one = x_splat(arena, x_float(arena, DT_f32, 1), x->type.lanes);
    ck_assert_str_eq(isa_row(isa_match(x_op2(arena, X_max, x, one), "avx", o))->name, "max_f32x8");
    ck_assert(o[0] == one && o[1] == x);
    ck_assert_int_eq(isa_match(x_op2(arena, X_max, x, zero), "avx", o), -1); // of 0 and -0 the second is taken
    // A row that blends by any mask is none: the comparison is no operand.
    const Expr *y = vector_var("y", vtype(DT_f32, 4)), *two = x_splat(arena, x_float(arena, DT_f32, 2), 4);
    ck_assert_int_eq(isa_match(x_op2(arena, X_max, two, y), "sse4.1", o), -1);
}
END_TEST

// ---- a plain evaluation of meanings ----

typedef struct {
    VType type;
    uint64_t lane[64]; // each as in programs' memory
} Value;

static Value eval(const Expr *e, const Expr *const *operands, const Value *values);

static Value eval_function(const Expr *e, const Value *in) {
    Value r = {.type = e->type};
    for (int i = 0; i < e->type.lanes; i++)
        strip_op(e->op, e->a[e->op == X_select]->type.type, e->type.type, 1, &r.lane[i], &in[0].lane[i], &in[1].lane[i], &in[2].lane[i]);
    return r;
}

static Value eval_dot4(const Expr *e, const Value *in) {
    Value r = in[0];
    for (int i = 0; i < 4 * e->type.lanes; i++) {
        int32_t product =
            (in[1].type.type == DT_u8 ? (int32_t)(uint8_t)in[1].lane[i] : (int32_t)(int8_t)in[1].lane[i]) * (int8_t)in[2].lane[i];
        r.lane[i / 4] = (uint32_t)r.lane[i / 4] + (uint32_t)product;
    }
    for (int i = 0; i < e->type.lanes; i++) r.lane[i] = (uint32_t)r.lane[i];
    return r;
}

static Value eval_lanes(const Expr *e, const Value *in) {
    Value r = {.type = e->type};
    int k = 0;
    switch (e->op) {
    case X_dot4: return eval_dot4(e, in);
    case X_table:
        for (int i = 0; i < e->type.lanes; i++) r.lane[i] = in[0].lane[in[1].lane[i] % (uint64_t)in[0].type.lanes];
        return r;
    case X_compress:
        for (int i = 0; i < e->type.lanes; i++)
            if (in[1].lane[i]) r.lane[k++] = in[0].lane[i];
        return r;
    case X_expand:
        for (int i = 0; i < e->type.lanes; i++)
            if (in[1].lane[i]) r.lane[i] = in[0].lane[k++];
        return r;
    case X_popcount: r.lane[0] = (uint64_t)__builtin_popcountll(in[0].lane[0]); return r;
    default: ck_abort_msg("no evaluation of %s", xop_info(e->op)->name);
    }
    return r;
}

static Value eval(const Expr *e, const Expr *const *operands, const Value *values) {
    for (int i = 0; i < 3; i++)
        if (e == operands[i]) return values[i];
    Value in[3] = {0};
    for (int i = 0; i < e->n; i++) in[i] = eval(e->a[i], operands, values);
    return xop_info(e->op)->cls >= XC_ARITH ? eval_function(e, in) : eval_lanes(e, in);
}

#if defined(__x86_64__)
// ---- the C texts ----

static int mask_bits(const char *text) {
    return text[0] == 'm' ? atoi(text + 1) : 0;
}

// The k-th word of args.
static const char *word(const char *args, int k) {
    while (k-- > 0) args += strcspn(args, " ") + 1;
    return args;
}

static void emit_operand(Str *s, const IsaRow *row, int k) {
    const char *text = word(row->args, k);
    VType t = vtype_parse(text, strcspn(text, " "));
    char element[32];
    snprintf(element, sizeof element, "int%d_t", mask_bits(text));
    const char *c = mask_bits(text) ? element : dtype_info(t.type)->c;
    str_printf(s, "    typedef %s T%d", c, k);
    if (t.lanes > 1) str_printf(s, " __attribute__((vector_size(%d * sizeof(%s))))", t.lanes, c);
    str_printf(s, ";\n    T%d x%d;\n    memcpy(&x%d, in[%d], sizeof x%d);\n", k, k, k, k, k);
}

static void emit_text(Str *s, const char *text) {
    for (; *text; text++) {
        if (*text == '$')
            str_add(s, "x");
        else
            str_addn(s, text, 1);
    }
}

static void emit_row(Str *s, const IsaRow *row) {
    VType types[3];
    int n = operand_types(row, types);
    str_add(s, "__attribute__((target(\"");
    for (const char *f = row->feature; *f; f++) str_addn(s, *f == ' ' ? "," : f, 1);
    str_printf(s, "\"))) void row_%s(void *out, const void *const *in) {\n", row->name);
    for (int i = 0; i < n; i++) emit_operand(s, row, i);
    str_add(s, "    __typeof__(");
    emit_text(s, row->c);
    str_add(s, ") r = ");
    emit_text(s, row->c);
    str_add(s, ";\n    memcpy(out, &r, sizeof r);\n}\n");
}

static void *compiled_rows(const char *compiler) {
    char dir[] = "/tmp/mlc-isa-XXXXXX", path[64], command[256];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    Str s = {0};
    str_add(&s, "#include <immintrin.h>\n#include <stdint.h>\n#include <string.h>\n");
    for (int i = 0; i < isa_count(); i++) emit_row(&s, isa_row(i));
    snprintf(path, sizeof path, "%s/rows.c", dir);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(s.data, 1, s.n, f), s.n);
    fclose(f);
    str_free(&s);
    snprintf(command, sizeof command, "%s -O1 -w -shared -fPIC -o %s/rows.so %s/rows.c", compiler, dir, dir);
    ck_assert_msg(system(command) == 0, "%s failed; see %s", command, path);
    snprintf(path, sizeof path, "%s/rows.so", dir);
    void *lib = dlopen(path, RTLD_NOW);
    ck_assert_msg(lib != NULL, "%s", dlerror());
    snprintf(command, sizeof command, "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
    return lib;
}

// The flags of /proc/cpuinfo as words without '_' ("avx512vnni").
static const char *cpu_flags(void) {
    static char flags[8192];
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[8192];
    while (f && !flags[0] && fgets(line, sizeof line, f)) {
        char *to = flags;
        if (strncmp(line, "flags", 5) != 0) continue;
        for (const char *p = strchr(line, ':') + 1; *p; p++)
            if (*p != '_') *to++ = isspace((unsigned char)*p) ? ' ' : *p;
    }
    if (f) fclose(f);
    return flags;
}

static bool cpu_has(const char *needs) {
    while (*needs) {
        char name[32] = " ";
        size_t n = 1;
        for (; *needs && *needs != ' '; needs++)
            if (*needs != '.') name[n++] = *needs;
        name[n++] = ' ';
        name[n] = '\0';
        if (!strstr(cpu_flags(), name)) return false;
        needs += *needs == ' ';
    }
    return true;
}

static uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 16 ^ *state << 40;
}

// A lane: any bits, a small number or a special value.
static uint64_t random_lane(DType t, uint64_t *state) {
    static const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1, -1, 0.5, 2.5, 1e-40, 65519, 65520, 1e30};
    uint64_t v = next_random(state), r = 0;
    if (t == DT_bool) return v >> 20 & 1;
    if (dtype_is_float(t) && v % 4 == 0)
        scalar_write(scalar_float(t, special[v / 4 % 13]), &r);
    else if (dtype_is_float(t) && v % 4 == 1)
        scalar_write(scalar_float(t, (double)(int64_t)(v >> 44) / 64 - 8000), &r);
    else
        memcpy(&r, &v, (size_t)dtype_bytes(t));
    return r;
}

static void pack(const Value *v, const char *text, void *out) {
    int mask = mask_bits(text), bytes = mask ? mask / 8 : dtype_bytes(v->type.type);
    for (int i = 0; i < v->type.lanes; i++) {
        uint64_t lane = mask ? 0 - v->lane[i] : v->lane[i];
        memcpy((char *)out + (size_t)(i * bytes), &lane, (size_t)bytes);
    }
}

static void check_result(const IsaRow *row, const Value *want, const void *got) {
    int bytes = dtype_bytes(want->type.type);
    for (int i = 0; i < want->type.lanes; i++) {
        Scalar w = scalar_read(want->type.type, &want->lane[i]), g = scalar_read(want->type.type, (const char *)got + (size_t)(i * bytes));
        if (!scalar_same(w, g)) ck_abort_msg("%s: lane %d is %a, its meaning %a", row->name, i, scalar_as_f64(g), scalar_as_f64(w));
    }
}

static void check_row(const IsaRow *row, int k, void (*fn)(void *out, const void *const *in)) {
    const Expr *operands[3] = {0};
    int n = operand_vars(row, operands);
    const Expr *meaning = isa_meaning(arena, k, operands);
    uint64_t state = (uint64_t)k + 1;
    for (int round = 0; round < 200; round++) {
        Value values[3] = {0};
        static uint64_t memory[3][64], out[64];
        const void *in[3] = {memory[0], memory[1], memory[2]};
        for (int i = 0; i < n; i++) {
            values[i].type = operands[i]->type;
            for (int lane = 0; lane < values[i].type.lanes; lane++) values[i].lane[lane] = random_lane(values[i].type.type, &state);
            pack(&values[i], word(row->args, i), memory[i]);
        }
        fn(out, in);
        Value want = eval(meaning, operands, values);
        check_result(row, &want, out);
    }
}

START_TEST(c_texts_compute_the_meaning) {
    static const char *const compilers[] = {"gcc", "clang"};
    char command[64];
    snprintf(command, sizeof command, "command -v %s >/dev/null", compilers[_i]);
    if (system(command) != 0) return;
    void *lib = compiled_rows(compilers[_i]);
    int run = 0;
    for (int i = 0; i < isa_count(); i++) {
        const IsaRow *row = isa_row(i);
        char name[64];
        snprintf(name, sizeof name, "row_%s", row->name);
        void *symbol = dlsym(lib, name);
        ck_assert_ptr_nonnull(symbol);
        if (!cpu_has(row->feature)) continue;
        void (*fn)(void *out, const void *const *in);
        memcpy(&fn, &symbol, sizeof fn);
        check_row(row, i, fn);
        run++;
    }
    ck_assert_msg(run > 0 || !cpu_has("sse4.1"), "no row was run");
    dlclose(lib);
}
END_TEST
#endif

int main(void) {
    Suite *s = suite_create("isa");
    TCase *t = tcase_create("isa");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, types_in_text);
    tcase_add_loop_test(t, rows_are_found_by_their_meaning, 0, isa_count());
    tcase_add_test(t, matching_binds_operands);
    tcase_add_test(t, minimum_of_a_constant_is_the_instruction);
#if defined(__x86_64__)
    tcase_add_loop_test(t, c_texts_compute_the_meaning, 0, 2);
#endif
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
