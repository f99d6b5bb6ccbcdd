// expr_parse over some variables, and dim_parse: what they accept reads back to the same expression, the same Dim.
#include "fuzz.h"

#include "../../ir/expr.h"

static Var vars[] = {{.kind = VAR_LET, .name = "x", .type = {DT_f32, 1}}, {.kind = VAR_LET, .name = "v", .type = {DT_f32, 8}},
    {.kind = VAR_LET, .name = "m", .type = {DT_bool, 8}}, {.kind = VAR_LET, .name = "k", .type = {DT_i32, 8}},
    {.kind = VAR_LET, .name = "b", .type = {DT_u8, 32}}, {.kind = VAR_LET, .name = "j", .type = {DT_idx, 1}},
    {.kind = VAR_TILE, .name = "acc", .type = {DT_f32, 8}, .ntile = 2, .tile = {4, 2}},
    {.kind = VAR_BUFFER, .name = "buf", .type = {DT_f32, 1}}, {.kind = VAR_BUFFER, .name = "q", .type = {DT_u8, 1}}};
static const Dim *syms[2];

static const Dim *find_dim(void *ctx, const char *name, size_t n) {
    (void)ctx;
    return n == 1 && *name == 'i' ? syms[0] : n == 1 && *name == 'N' ? syms[1] : NULL;
}

static Var *find_var(void *ctx, const char *name, size_t n) {
    (void)ctx;
    for (size_t i = 0; i < sizeof vars / sizeof *vars; i++)
        if (strlen(vars[i].name) == n && !memcmp(vars[i].name, name, n)) return &vars[i];
    return NULL;
}

static DType find_arg(void *ctx, int k) {
    (void)ctx;
    static const DType types[] = {DT_f32, DT_i32, DT_bool, DT_f16};
    return k < 4 ? types[k] : DT_none;
}

static void expression(Arena *a, DimTable *t, const char *text) {
    ExprParser ps = {.arena = a, .dims = t, .dim = find_dim, .var = find_var, .arg = find_arg};
    const char *p = text;
    const Expr *e = expr_parse(&ps, &p, (VType){DT_none, 1});
    if (!e) return;
    Str one = {0}, two = {0};
    expr_print(&one, e);
    p = one.data;
    const Expr *again = expr_parse(&ps, &p, e->type);
    if (again) expr_print(&two, again);
    fuzz_same(&one, &two);
    str_free(&one);
    str_free(&two);
}

static void dimension(DimTable *t, const char *text) {
    const char *p = text;
    const Dim *d = dim_parse(t, &p, find_dim, NULL);
    if (!d || dim_is_poison(d)) return;
    const char *printed = dim_text(t, d);
    p = printed;
    if (dim_parse(t, &p, find_dim, NULL) == d) return;
    fprintf(stderr, "'%s' does not read back\n", printed);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Arena *a = arena_new();
    DimTable *t = dim_table_new();
    syms[0] = dim_symbol(t, "i", SYM_LOOP, dim_int(t, 0), dim_int(t, 99));
    syms[1] = dim_symbol(t, "N", SYM_MODEL, dim_int(t, 1), NULL);
    const char *text = arena_strndup(a, (const char *)data, size);
    expression(a, t, text);
    dimension(t, text);
    dim_table_free(t);
    arena_free(a);
    return 0;
}
