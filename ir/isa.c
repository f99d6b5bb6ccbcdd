// The rows of isa_*.def: lookup, meaning and matching.
//
// Each row's meaning is parsed once, over variables a0 a1 a2 of the operands' types, and kept. Matching walks the meaning beside the
// expression: a variable takes the sub-expression at its place, a second occurrence must be the same one.
#include "isa.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <string.h>

static const IsaRow rows[] = {
#define I(name, feature, result, args, c, llvm, meaning) {#name, feature, result, args, c, llvm, meaning},
#include "isa_x86.def"
#undef I
};
enum { ROWS = sizeof rows / sizeof *rows };

int isa_count(void) {
    return ROWS;
}

const IsaRow *isa_row(int i) {
    assert(i >= 0 && i < ROWS);
    return &rows[i];
}

int isa_find(const char *name, size_t n) {
    for (int i = 0; i < ROWS; i++)
        if (strlen(rows[i].name) == n && memcmp(rows[i].name, name, n) == 0) return i;
    return -1;
}

// ---- types in text ----

void vtype_print(Str *s, VType t) {
    str_add(s, dtype_name(t.type));
    if (t.lanes > 1) str_printf(s, "x%d", t.lanes);
}

// "x8" at text[at…n): 8; nothing: 1; else 0.
static int lanes_parse(const char *text, size_t at, size_t n) {
    if (at == n) return 1;
    if (text[at] != 'x' || at + 1 == n || n - at > 3) return 0;
    int lanes = 0;
    for (size_t i = at + 1; i < n; i++) {
        if (!isdigit((unsigned char)text[i])) return 0;
        lanes = lanes * 10 + (text[i] - '0');
    }
    return lanes <= 64 ? lanes : 0;
}

VType vtype_parse(const char *text, size_t n) {
    size_t split = n;
    for (size_t i = 0; i < n && split == n; i++)
        if (text[i] == 'x' && i + 1 < n && isdigit((unsigned char)text[i + 1]) && dtype_parse(text, n) == DT_none) split = i;
    int lanes = lanes_parse(text, split, n);
    DType t = dtype_parse(text, split);
    if (t == DT_none && split > 1 && text[0] == 'm' && isdigit((unsigned char)text[1])) t = DT_bool;
    return lanes ? vtype(t, lanes) : vtype(DT_none, 0);
}

// ---- meaning ----

typedef struct {
    const Expr *meaning;
    Var operand[3];
    int n;
} Parsed;

static Var *operand_var(void *ctx, const char *name, size_t n) {
    Parsed *p = ctx;
    for (int i = 0; i < p->n; i++)
        if (strlen(p->operand[i].name) == n && memcmp(p->operand[i].name, name, n) == 0) return &p->operand[i];
    return NULL;
}

static const Parsed *parsed_row(int row) {
    static Parsed parsed[ROWS];
    static Arena *arena;
    Parsed *p = &parsed[row];
    if (p->meaning) return p;
    if (!arena) arena = arena_new();
    static const char *const names[3] = {"a0", "a1", "a2"};
    const char *s = rows[row].args;
    for (size_t n = strcspn(s, " "); n; n = strcspn(s, " ")) {
        assert(p->n < 3);
        p->operand[p->n] = (Var){.kind = VAR_LET, .name = names[p->n], .type = vtype_parse(s, n)};
        p->n++;
        s += n + (s[n] == ' ');
    }
    ExprParser ps = {.arena = arena, .ctx = p, .var = operand_var};
    const char *text = rows[row].meaning;
    p->meaning = expr_parse(&ps, &text, vtype_parse(rows[row].result, strlen(rows[row].result)));
    assert(p->meaning && *text == '\0');
    return p;
}

typedef struct {
    Arena *arena;
    const Parsed *row;
    const Expr *const *operands;
} Instance;

static const Expr *place_operand(void *ctx, const Expr *e) {
    const Instance *in = ctx;
    if (e->op == X_const) return x_const(in->arena, e->k_scalar, e->type.lanes);
    return e->op == X_var ? in->operands[e->var - in->row->operand] : e;
}

const Expr *isa_meaning(Arena *a, int row, const Expr *const *operands) {
    Instance in = {a, parsed_row(row), operands};
    return expr_rewrite(a, in.row->meaning, place_operand, &in);
}

// ---- matching ----

static bool match_tree(const Parsed *row, const Expr *pattern, const Expr *e, const Expr **operands) {
    if (!vtype_same(pattern->type, e->type)) return false;
    if (pattern->op == X_var) {
        const Expr **place = &operands[pattern->var - row->operand];
        if (!*place) *place = e;
        return *place == e || expr_same(*place, e);
    }
    if (pattern->op != e->op || pattern->n != e->n) return false;
    if (pattern->n == 0) return expr_same(pattern, e);
    if (pattern->k != e->k && (pattern->op == X_lane || pattern->op == X_insert || pattern->op == X_hreduce || pattern->op == X_widen))
        return false;
    if (pattern->op == X_shuffle && memcmp(pattern->perm, e->perm, (size_t)e->type.lanes) != 0) return false;
    for (int i = 0; i < e->n; i++)
        if (!e->a[i] || !match_tree(row, pattern->a[i], e->a[i], operands)) return false;
    return true;
}

// Every word of `needs` is among the words of `features`.
static bool has_features(const char *features, const char *needs) {
    for (size_t n = strcspn(needs, " "); n; n = strcspn(needs, " ")) {
        bool found = false;
        const char *f = features;
        for (size_t m = strcspn(f, " "); m && !found; m = strcspn(f, " ")) {
            found = m == n && memcmp(f, needs, n) == 0;
            f += m + (f[m] == ' ');
        }
        if (!found) return false;
        needs += n + (needs[n] == ' ');
    }
    return true;
}

static int match_rows(const Expr *e, const char *features, const Expr **operands) {
    for (int i = 0; i < ROWS; i++) {
        const Parsed *row = parsed_row(i);
        if (row->meaning->op != e->op || !vtype_same(row->meaning->type, e->type) || !has_features(features, rows[i].feature)) continue;
        operands[0] = operands[1] = operands[2] = NULL;
        if (match_tree(row, row->meaning, e, operands)) return i;
    }
    return -1;
}

int isa_match(const Expr *e, const char *features, const Expr **operands) {
    int row = match_rows(e, features, operands);
    if (row >= 0 || (e->op != X_min && e->op != X_max) || !dtype_is_float(e->type.type)) return row;
    // min(c, y) with a constant that is no NaN is exactly c < y ? c : y, and so is min(y, c) when c is not 0 (of equal operands either will
    // do).
    const Expr *x = e->a[0], *y = e->a[1];
    if (y->op == X_const && y->k_scalar.f != 0) x = e->a[1], y = e->a[0];
    if (x->op != X_const || isnan(x->k_scalar.f)) return -1;
    Expr order = {.op = e->op == X_min ? X_lt : X_gt, .type = vtype(DT_bool, e->type.lanes), .n = 2, .a = {x, y}};
    Expr choice = {.op = X_select, .type = e->type, .n = 3, .a = {&order, x, y}};
    row = match_rows(&choice, features, operands);
    for (int i = 0; i < 3 && row >= 0; i++)
        if (operands[i] == &order) return -1; // a row that blends by any mask
    return row;
}
