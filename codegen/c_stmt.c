// Statements of kernels and of main as C text, line by line.
//
// `unroll` is obeyed here: the body is printed once a value, with the loop's symbol replaced in every index, so that a register tile's
// elements are named variables (acc_0_1). A loop without constant bounds, or one that a break leaves, stays a loop.
#include "c_print.h"

#include <stdio.h>
#include <string.h>

enum { UNROLL_MOST = 1024 }; // copies of a body

// ---- what a block reads ----
typedef struct {
    Arena *a;
    PtrSet *used;
} Uses;

static void use_symbol(void *ctx, const Dim *sym) {
    Uses *u = ctx;
    ptrset_add(u->a, u->used, sym);
}
static void use_dim(void *ctx, const Dim **d) {
    dim_symbols(*d, use_symbol, ctx);
}

static void use_node(void *ctx, const Expr *e) {
    Uses *u = ctx;
    if (e->var) ptrset_add(u->a, u->used, e->var);
    if (e->dim) dim_symbols(e->dim, use_symbol, ctx);
    for (int i = 0; i < 3; i++)
        if (e->idx[i]) dim_symbols(e->idx[i], use_symbol, ctx);
}
static void use_expr(void *ctx, const Expr **e) {
    expr_visit(*e, use_node, ctx);
}

static void use_stmt(void *ctx, Stmt *s) {
    Uses *u = ctx;
    stmt_dims(s, use_dim, ctx);
    stmt_exprs(s, use_expr, ctx);
    if (s->kind == ST_STORE) ptrset_add(u->a, u->used, s->var);
    for (int i = 0; i < s->nargs; i++) ptrset_add(u->a, u->used, &s->args[i]->var);
}

void c_note_uses(C *c, const Block *b, PtrSet *used) {
    Uses u = {c->a, used};
    Block body = *b;
    loop_walk(&body, use_stmt, &u);
}

static void find_index(void *ctx, const Expr *e) {
    if (e->op == X_index) *(bool *)ctx = true;
}
static void find_index_expr(void *ctx, const Expr **e) {
    expr_visit(*e, find_index, ctx);
}
static void find_index_stmt(void *ctx, Stmt *s) {
    stmt_exprs(s, find_index_expr, ctx);
}

bool c_uses_index(const Block *b) {
    bool found = false;
    Block body = *b;
    loop_walk(&body, find_index_stmt, &found);
    return found;
}

void c_unused(C *c, const void *key, const char *name) {
    if (c->f.used && !ptrset_count(c->f.used, key)) c_line(c, "(void)%s;", name);
}

const char *c_status(int code, int node, char text[static 32]) {
    snprintf(text, 32, "%lld", -(code + 256ll * node));
    return text;
}

void c_fail(C *c, const char *status) {
    const char *mark = strstr(c->f.leave, "%s");
    c_line(c, "%.*s%s%s", (int)(mark - c->f.leave), c->f.leave, status, mark + 2);
}

// ---- scopes ----
static int open_scope(C *c) {
    c->f.depth++;
    return c->f.names.n;
}
static void close_scope(C *c, int mark) {
    c->f.names.n = mark;
    c->f.depth--;
}

static void braced(C *c, const Block *b) {
    int mark = open_scope(c);
    c_block(c, b);
    close_scope(c, mark);
    c_line(c, "}");
}

// ---- loops ----
static bool leaves_loop(const Block *b) {
    for (int i = 0; i < b->n; i++) {
        const Stmt *s = b->data[i];
        if (s->kind == ST_BREAK) return true;
        if (s->kind == ST_IF && (leaves_loop(&s->body) || leaves_loop(&s->orelse))) return true;
        if (s->kind == ST_FOR && s->unroll && leaves_loop(&s->body)) return true;
    }
    return false;
}

static bool declares(const Block *b) {
    for (int i = 0; i < b->n; i++) {
        StKind k = b->data[i]->kind;
        if (k == ST_LET || k == ST_VAR || k == ST_TILE || k == ST_LOCAL || k == ST_REDUCE) return true;
        if (k == ST_FOR && b->data[i]->unroll && declares(&b->data[i]->body)) return true;
    }
    return false;
}

static void one_copy(C *c, const Stmt *s, int64_t value) {
    vec_push(c->a, &c->f.from, s->sym);
    vec_push(c->a, &c->f.to, dim_int(c->t, value));
    if (declares(&s->body)) {
        c_line(c, "{");
        braced(c, &s->body);
    } else
        c_block(c, &s->body);
    c->f.from.n--;
    c->f.to.n--;
}

static bool unrolled(C *c, const Stmt *s) {
    int64_t lo, hi;
    if (!s->unroll || !dim_is_int(c_dim_now(c, s->lo), &lo) || !dim_is_int(c_dim_now(c, s->hi), &hi)) return false;
    if ((hi - lo) / s->step > UNROLL_MOST || leaves_loop(&s->body)) return false;
    for (int64_t v = lo; v < hi; v += s->step) one_copy(c, s, v);
    return true;
}

void c_loop(C *c, const Stmt *s, const char *lo, const char *hi) {
    int mark = c->f.names.n;
    const char *type = c_type(c, vtype(DT_idx, 1)), *i = c_declare(c, s->sym, dim_as_symbol(s->sym)->name);
    const char *step = s->step == 1 ? c_fmt(c, "%s++", i) : c_fmt(c, "%s += %lld", i, (long long)s->step);
    c_line(c, "for (%s %s = %s; %s < %s; %s) {", type, i, lo, i, hi, step);
    braced(c, &s->body);
    c->f.names.n = mark;
}

static void print_for(C *c, const Stmt *s) {
    if (!unrolled(c, s)) c_loop(c, s, c_dim(c, s->lo).s, c_dim_operand(c, s->hi));
}

static void declare_var(C *c, Var *v, const char *value) {
    const char *name = c_declare(c, v, v->name);
    c_line(c, "%s%s %s = %s;", v->kind == VAR_LET ? "const " : "", c_type(c, v->type), name, value);
    c_unused(c, v, name);
}

static void print_reduce(C *c, const Stmt *s) {
    int mark = c->f.names.n;
    c_hoist(c, s->nstates, s->inits);
    for (int i = 0; i < s->nstates; i++) declare_var(c, s->states[i], c_expr(c, s->inits[i]).s);
    c_unhoist(c, mark);
    if (!unrolled(c, s)) c_loop(c, s, c_dim(c, s->lo).s, c_dim_operand(c, s->hi));
}

static void print_while(C *c, const Stmt *s) {
    c_line(c, "for (;;) {");
    int mark = open_scope(c);
    c_hoist(c, 1, &s->value);
    c_line(c, "if (!%s) break;", c_operand(c, s->value));
    c_unhoist(c, mark);
    c_block(c, &s->body);
    close_scope(c, mark);
    c_line(c, "}");
}

static void print_if(C *c, const Stmt *s) {
    int mark = c->f.names.n;
    c_hoist(c, 1, &s->value);
    c_line(c, "if (%s) {", c_expr(c, s->value).s);
    c_unhoist(c, mark);
    mark = open_scope(c);
    c_block(c, &s->body);
    close_scope(c, mark);
    if (s->orelse.n) {
        c_line(c, "} else {");
        mark = open_scope(c);
        c_block(c, &s->orelse);
        close_scope(c, mark);
    }
    c_line(c, "}");
}

static void print_break(C *c, const Stmt *s) {
    (void)s;
    c_line(c, "break;");
}

// ---- values ----
static void print_let(C *c, const Stmt *s) {
    int mark = c->f.names.n;
    c_hoist(c, 1, &s->value);
    const char *value = c_expr(c, s->value).s;
    c_unhoist(c, mark);
    if (!s->sym) {
        declare_var(c, s->var, value);
        return;
    }
    const char *name = c_declare(c, s->sym, dim_as_symbol(s->sym)->name);
    c_line(c, "const %s %s = %s;", c_type(c, vtype(DT_idx, 1)), name, value);
    c_unused(c, s->sym, name);
}

// Calls fn with the suffix of each element: "_0_1".
static void each_element(C *c, const Var *v, void (*fn)(C *c, const Var *v, const char *element, void *ctx), void *ctx) {
    int n[3] = {1, 1, 1};
    for (int i = 0; i < v->ntile; i++) n[i] = v->tile[i];
    const char *name = c_name(c, v);
    for (int i = 0; i < n[0]; i++)
        for (int j = 0; j < n[1]; j++)
            for (int k = 0; k < n[2]; k++) {
                const char *text = c_fmt(c, "%s_%d", name, i);
                if (v->ntile > 1) text = c_fmt(c, "%s_%d", text, j);
                if (v->ntile > 2) text = c_fmt(c, "%s_%d", text, k);
                fn(c, v, text, ctx);
            }
}

static void declare_element(C *c, const Var *v, const char *element, void *ctx) {
    c_line(c, "%s %s = %s;", c_type(c, v->type), element, (const char *)ctx);
    c_reserve(c, element);
    c_unused(c, v, element);
}

static void print_tile(C *c, const Stmt *s) {
    int mark = c->f.names.n;
    c_hoist(c, 1, &s->value);
    const char *value = c_expr(c, s->value).s;
    c_unhoist(c, mark);
    c_declare(c, s->var, s->var->name);
    each_element(c, s->var, declare_element, (void *)value);
}

static void print_set(C *c, const Stmt *s) {
    int mark = c->f.names.n;
    c_hoist(c, 1, &s->value);
    const char *name = s->var->kind == VAR_TILE ? c_tile(c, s->var, s->idx) : c_name(c, s->var);
    c_line(c, "%s = %s;", name ? name : "", c_expr(c, s->value).s);
    c_unhoist(c, mark);
}

// ---- memory ----
static void store_scalar(C *c, const Stmt *s) {
    const char *value = c_expr(c, s->value).s, *on = s->mask ? c_fmt(c, "if (%s) ", c_expr(c, s->mask).s) : "";
    DType t = s->value->type.type;
    if (t != s->var->type.type) {
        const char *name = c_fmt(c, "%s_write_%s", c->prefix, dtype_name(t)), *type = t == DT_bool ? "uint8_t" : c_type(c, s->value->type);
        if (c_need(c, name)) c_function_text(c, name, "void", c_fmt(c, "void *p, %s a", type), "    memcpy(p, &a, sizeof a);\n");
        c_line(c, "%s%s(%s, %s);", on, name, c_address(c, s->var, s->dim), value);
        return;
    }
    const char *index = c_dim(c, s->dim).s;
    if (s->offsets) index = c_fmt(c, "%s + %s", index, c_operand(c, s->offsets));
    c_line(c, "%s%s[%s] = %s;", on, c_buffer(c, s->var), index, value);
}

static void print_store(C *c, const Stmt *s) {
    int mark = c->f.names.n;
    const Expr *roots[] = {s->offsets, s->mask, s->value};
    c_hoist(c, 3, roots);
    if (s->value->type.lanes > 1)
        c_store_lanes(c, s);
    else
        store_scalar(c, s);
    c_unhoist(c, mark);
}

static void print_local(C *c, const Stmt *s) {
    const LoopBuffer *b = s->var->owner;
    const char *name = c_declare(c, s->var, s->var->name), *align = c->hosted ? " __attribute__((aligned(64)))" : "";
    int64_t n;
    if (b->rank != 1 || !dim_is_int(b->shape[0], &n)) {
        c_unsupported(c, "local '%s' has no constant size", s->var->name);
        return;
    }
    c_line(c, "%s %s[%lld]%s;", c_memory(c, s->var->type.type), name, (long long)(n ? n : 1), align);
    c_unused(c, s->var, name);
}

// ---- the rest ----
static void print_check(C *c, const Stmt *s) {
    int mark = c->f.names.n;
    char status[32];
    c_hoist(c, 1, &s->value);
    c_line(c, "if (!%s) {", c_operand(c, s->value));
    c->f.depth++;
    c_fail(c, c_status(s->code, s->node, status));
    c->f.depth--;
    c_line(c, "}");
    c_unhoist(c, mark);
}

static void print_comment(C *c, const Stmt *s) {
    char *text = arena_strdup(c->a, s->text);
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < ' ' || *p == '\\') *p = ' ';
    c_line(c, "// %s", text);
}

static void print_stray(C *c, const Stmt *s) {
    (void)s;
    c_unsupported(c, "a team or a barrier where none can stand");
}

typedef void Print(C *c, const Stmt *s);
static Print *const printers[ST_COUNT] = {
    [ST_FOR] = print_for,
    [ST_REDUCE] = print_reduce,
    [ST_WHILE] = print_while,
    [ST_IF] = print_if,
    [ST_BREAK] = print_break,
    [ST_LET] = print_let,
    [ST_VAR] = print_let,
    [ST_TILE] = print_tile,
    [ST_SET] = print_set,
    [ST_STORE] = print_store,
    [ST_LOCAL] = print_local,
    [ST_CHECK] = print_check,
    [ST_CALL] = c_main_statement,
    [ST_TEAM] = print_stray,
    [ST_BARRIER] = print_stray,
    [ST_SIZE] = c_main_statement,
    [ST_ALLOC] = c_main_statement,
    [ST_FREE] = c_main_statement,
    [ST_COMMENT] = print_comment,
};

void c_statement(C *c, const Stmt *s) {
    if (!c->failed) printers[s->kind](c, s);
}

void c_block(C *c, const Block *b) {
    for (int i = 0; i < b->n; i++) c_statement(c, b->data[i]);
}
