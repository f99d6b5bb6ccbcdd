// Definitions of MATH functions, and the rewriting that leaves basic functions on native types only.
//
// A row of math.def is text: `name = expression; …; result` over x and y of the row's type. It is parsed once, its names replaced by what
// they stand for (so they are shared nodes), and kept as a template over arguments 0 and 1; a definition is the template with a call's
// operands in their place. Other floats compute in f32 and round the result.
#include "expr.h"
#include "expr_cast.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    XOp op;
    DType type;
    const char *text;
} MathRow;

static const MathRow rows[] = {
#define M(fn, type, ulp, text) {X_##fn, DT_##type, text},
#include "math.def"
#undef M
};
enum { ROWS = sizeof rows / sizeof *rows, MAX_NAMES = 160 };

static const MathRow *find_row(XOp op, DType t) {
    for (int i = 0; i < ROWS; i++)
        if (rows[i].op == op && rows[i].type == t) return &rows[i];
    return NULL;
}

// ---- templates ----

typedef struct {
    Arena *arena;
    int n;
    Var var[MAX_NAMES];
    const Expr *value[MAX_NAMES];
} Names;

static Var *find_name(void *ctx, const char *name, size_t n) {
    Names *names = ctx;
    for (int i = names->n - 1; i >= 0; i--)
        if (strlen(names->var[i].name) == n && memcmp(names->var[i].name, name, n) == 0) return &names->var[i];
    return NULL;
}

static void add_name(Names *names, const char *name, const Expr *value) {
    assert(names->n < MAX_NAMES);
    names->var[names->n] = (Var){.kind = VAR_LET, .name = name, .type = value->type};
    names->value[names->n++] = value;
}

static const Expr *place_name(void *ctx, const Expr *e) {
    const Names *names = ctx;
    return e->op == X_var ? names->value[e->var - names->var] : e;
}

// "name =" at *p: the name, *p behind the sign; else NULL.
static const char *take_name(Arena *a, const char **p) {
    const char *s = *p;
    while (*s == ' ') s++;
    const char *end = s;
    while (isalnum((unsigned char)*end) || *end == '_') end++;
    const char *sign = end;
    while (*sign == ' ') sign++;
    if (end == s || sign[0] != '=' || sign[1] == '=') return NULL;
    *p = sign + 1;
    return arena_strndup(a, s, (size_t)(end - s));
}

static const Expr *parse_row(Arena *a, const MathRow *row) {
    Names *names = ARENA_NEW(a, Names);
    add_name(names, "x", x_arg(a, 0, row->type));
    add_name(names, "y", x_arg(a, 1, row->type));
    ExprParser ps = {.arena = a, .ctx = names, .var = find_name};
    for (const char *p = row->text;; p++) {
        const char *name = take_name(a, &p);
        const Expr *e = expr_parse(&ps, &p, name ? vtype(DT_none, 0) : vtype(row->type, 1));
        if (!e || *p != (name ? ';' : '\0')) {
            fprintf(stderr, "mlc: math.def: %s %s: %s at '%.40s'\n", xop_info(row->op)->name, dtype_name(row->type), ps.error, p);
            abort();
        }
        e = expr_rewrite(a, e, place_name, names);
        if (!name) return e;
        add_name(names, name, e);
    }
}

static const Expr *template_of(const MathRow *row) {
    static const Expr *templates[ROWS];
    static Arena *arena;
    const Expr **t = &templates[row - rows];
    if (!arena) arena = arena_new();
    if (!*t) *t = parse_row(arena, row);
    return *t;
}

typedef struct {
    Arena *arena;
    const Expr *const *operands;
} Instance;

static const Expr *place_operand(void *ctx, const Expr *e) {
    const Instance *in = ctx;
    if (e->op == X_const) return x_const(in->arena, e->k_scalar, e->type.lanes);
    return e->op == X_arg ? in->operands[e->k] : e;
}

// ---- definitions ----

static bool is_basic(DType t) {
    return dtype_is_native(t);
}

// The native type that the operations of a small type compute in.
static DType compute_type(DType t) {
    return dtype_is_float(t) ? DT_f32 : dtype_is_signed(t) ? DT_i8 : DT_u8;
}

// The operation on operands brought into their compute type, its result brought back.
static const Expr *define_small(Arena *a, const Expr *e, DType small) {
    DType wide = compute_type(small);
    const Expr *operands[3] = {0};
    for (int i = 0; i < e->n; i++) operands[i] = x_cast(a, wide, e->a[i]);
    const Expr *r = x_rebuild(a, e, operands);
    return r->type.type == wide ? x_cast(a, small, r) : r;
}

static const Expr *define_select(Arena *a, const Expr *e) {
    DType bits = dtype_bytes(e->type.type) == 2 ? DT_u16 : DT_u8;
    return x_bits(a, e->type.type, x_op3(a, X_select, e->a[0], x_bits(a, bits, e->a[1]), x_bits(a, bits, e->a[2])));
}

static const Expr *define_widen(Arena *a, const Expr *e) {
    uint8_t *perm = ARENA_ARRAY(a, uint8_t, e->type.lanes);
    for (int i = 0; i < e->type.lanes; i++) perm[i] = (uint8_t)(e->k + i);
    Expr part = {.op = X_shuffle, .type = vtype(e->a[0]->type.type, e->type.lanes), .n = 1, .a = {e->a[0]}, .perm = perm};
    return x_cast(a, e->type.type, x_node(a, part));
}

// One step towards basic functions on native types; e itself when there is nothing to do.
static const Expr *define_step(Arena *a, const Expr *e) {
    XClass cls = xop_info(e->op)->cls;
    if (e->op == X_widen) return is_basic(e->type.type) && is_basic(e->a[0]->type.type) ? e : define_widen(a, e);
    if (cls < XC_ARITH) return e;
    DType t = e->a[cls == XC_SEL ? 1 : 0]->type.type;
    if (cls == XC_CAST) {
        if (e->op == X_bits || (is_basic(t) && is_basic(e->type.type))) return e;
        return cast_define(a, e->type.type, e->a[0], e->op == X_casts);
    }
    if (!is_basic(t)) return cls == XC_SEL ? define_select(a, e) : define_small(a, e, t);
    const MathRow *row = cls == XC_MATH ? find_row(e->op, t) : NULL;
    if (!row) return e;
    Instance in = {a, e->a};
    return expr_rewrite(a, template_of(row), place_operand, &in);
}

const Expr *expr_define(Arena *a, const Expr *call) {
    return define_step(a, call);
}

// e's operands are basic already; a definition may hold casts and MATH functions in turn.
static const Expr *lower_node(void *ctx, const Expr *e) {
    const Expr *d = define_step(ctx, e);
    return d == e ? e : expr_lower_math(ctx, d);
}

const Expr *expr_lower_math(Arena *a, const Expr *e) {
    return expr_rewrite(a, e, lower_node, a);
}
void expr_lower_math_all(Arena *a, const Expr **roots, int n) {
    expr_rewrite_all(a, roots, n, lower_node, a);
}
