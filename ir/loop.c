// Programs: construction, and the builders that append statements. Rewrites (copy, substitution) are in loop_rewrite.c.
#include "loop.h"

#include <assert.h>
#include <string.h>

#include "loop_names.h"

// ---- words ----
static const char *const reserved_words[] = {"for", "reduce", "combine", "while", "if", "else", "break", "let", "var", "set", "tile",
    "local", "check", "call", "team", "barrier", "size", "alloc", "free", "true", "false", "nan", "inf", "mod", "ceildiv"};

static bool all_digits(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (s[i] < '0' || s[i] > '9') return false;
    return n > 0;
}

// iota16 nanf32: words of expressions made of a stem and a number or a type.
static bool reserved_stem(const char *name, size_t n) {
    if (n > 4 && memcmp(name, "iota", 4) == 0) return all_digits(name + 4, n - 4);
    bool word = n > 3 && (memcmp(name, "nan", 3) == 0 || memcmp(name, "inf", 3) == 0);
    return word && dtype_parse(name + 3, n - 3) != DT_none;
}

bool loop_reserved(const char *name, size_t n) {
    for (size_t i = 0; i < sizeof reserved_words / sizeof *reserved_words; i++)
        if (strlen(reserved_words[i]) == n && memcmp(reserved_words[i], name, n) == 0) return true;
    return xop_parse(name, n) != X_COUNT || reserved_stem(name, n);
}

const char *loop_fresh(Program *p, Block *b, const char *name) {
    if (!b->names) { // a block outside of any function so far: a name that no function has
        const char *w = names_fresh(p->arena, p->words, p->main.names, arena_printf(p->arena, "%s_0", name));
        return w;
    }
    bool in_main = b->names == p->main.names;
    const char *w = names_fresh(p->arena, b->names, in_main ? p->words : NULL, name);
    names_add(p->arena, p->words, w);
    return w;
}

Block loop_block(const Block *like) {
    return (Block){.names = like->names};
}

// ---- programs ----
Program *program_new(DimTable *dims, const char *name) {
    Arena *a = arena_new();
    Program *p = ARENA_NEW(a, Program);
    p->arena = a;
    p->dims = dims;
    p->name = arena_strdup(a, name);
    p->words = names_new(a, NULL);
    p->main.names = names_new(a, NULL);
    return p;
}

void program_free(Program *p) {
    if (p) arena_free(p->arena);
}

static void name_symbol(Program *p, const Dim *sym) {
    names_add(p->arena, p->main.names, dim_as_symbol(sym)->name);
    names_add(p->arena, p->words, dim_as_symbol(sym)->name);
}

const Dim *loop_data_dim(Program *p, const char *name, const Dim *lo, const Dim *hi) {
    return dim_symbol(p->dims, loop_fresh(p, &p->main, name), SYM_DATA, lo, hi);
}

void loop_model_dim(Program *p, const Dim *sym) {
    vec_push(p->arena, &p->symbols, sym);
    name_symbol(p, sym);
}

// inputs, outputs, states, consts, temps: the order in p->buffers.
static int buffer_section(BufKind kind) {
    static const int section[] = {[BUF_INPUT] = 0, [BUF_OUTPUT] = 1, [BUF_STATE] = 2, [BUF_CONST] = 3, [BUF_TEMP] = 4};
    assert(kind <= BUF_TEMP);
    return section[kind];
}

static LoopBuffer *buffer_new(Program *p, BufKind kind, const char *name, DType t) {
    LoopBuffer *b = ARENA_NEW(p->arena, LoopBuffer);
    b->var = (Var){.kind = VAR_BUFFER, .name = name, .type = vtype(t, 1), .owner = b};
    b->kind = kind;
    b->rank = -1;
    b->blob = -1;
    b->tie = -1;
    return b;
}

LoopBuffer *loop_buffer(Program *p, BufKind kind, const char *name, DType t, int rank, const Dim *const *shape) {
    LoopBuffer *b = buffer_new(p, kind, names_fresh(p->arena, p->words, p->main.names, name), t);
    b->rank = rank;
    b->shape = ARENA_ARRAY(p->arena, const Dim *, rank + 1);
    for (int i = 0; i < rank; i++) b->shape[i] = shape[i];
    vec_push(p->arena, &p->buffers, b);
    int at = p->buffers.n - 1;
    for (; at > 0 && buffer_section(p->buffers.data[at - 1]->kind) > buffer_section(kind); at--)
        p->buffers.data[at] = p->buffers.data[at - 1];
    p->buffers.data[at] = b;
    for (int i = 0; i < p->buffers.n; i++)
        if (p->buffers.data[i] != b && p->buffers.data[i]->tie >= at) p->buffers.data[i]->tie++;
    return b;
}

Kernel *loop_kernel(Program *p, const char *name, const char *label, int node) {
    Kernel *k = ARENA_NEW(p->arena, Kernel);
    k->name = names_fresh(p->arena, p->words, p->main.names, name);
    k->label = label ? arena_strdup(p->arena, label) : NULL;
    k->node = node;
    k->body.names = names_new(p->arena, p->main.names);
    vec_push(p->arena, &p->kernels, k);
    return k;
}

LoopBuffer *loop_param(Program *p, Kernel *k, const char *name, DType t, bool reads, bool writes) {
    LoopBuffer *b = buffer_new(p, BUF_PARAM, loop_fresh(p, &k->body, name), t);
    b->reads = reads;
    b->writes = writes;
    vec_push(p->arena, &k->params, b);
    return b;
}

const Dim *loop_buffer_size(const Program *p, const LoopBuffer *b) {
    return b->rank < 0 ? NULL : dim_product(p->dims, b->shape, b->rank);
}

const Dim *loop_alloc_bytes(const Program *p, const Stmt *alloc) {
    const LoopBuffer *b = alloc->args[0];
    const Dim *bytes = alloc->dim ? alloc->dim : dim_muli(p->dims, loop_buffer_size(p, b), dtype_bytes(b->var.type.type));
    return dim_max(p->dims, bytes, dim_int(p->dims, 1));
}

// ---- statements ----
Stmt *loop_stmt(Program *p, Block *b, StKind kind) {
    Stmt *s = ARENA_NEW(p->arena, Stmt);
    s->kind = kind;
    s->step = 1;
    s->stride = 1;
    s->body = loop_block(b);
    s->orelse = loop_block(b);
    vec_push(p->arena, b, s);
    return s;
}

const Dim *loop_last(DimTable *t, const Dim *lo, const Dim *hi, int64_t step) {
    if (step == 1) return dim_addi(t, hi, -1);
    const Dim *steps = dim_floordiv(t, dim_addi(t, dim_sub(t, hi, lo), -1), dim_int(t, step));
    return dim_add(t, lo, dim_muli(t, steps, step));
}

Stmt *loop_for(Program *p, Block *b, const char *name, const Dim *lo, const Dim *hi, LoopKind kind) {
    Stmt *s = loop_stmt(p, b, ST_FOR);
    s->loop = kind;
    s->lo = lo;
    s->hi = hi;
    s->sym = dim_symbol(p->dims, loop_fresh(p, b, name), SYM_LOOP, lo, loop_last(p->dims, lo, hi, 1));
    return s;
}

static Var *var_new(Program *p, Block *b, VarKind kind, const char *name, VType type) {
    Var *v = ARENA_NEW(p->arena, Var);
    *v = (Var){.kind = kind, .name = loop_fresh(p, b, name), .type = type};
    return v;
}

Var *loop_let(Program *p, Block *b, const char *name, const Expr *value) {
    assert(value->type.type != DT_idx || value->type.lanes > 1);
    Stmt *s = loop_stmt(p, b, ST_LET);
    s->value = value;
    return s->var = var_new(p, b, VAR_LET, name, value->type);
}

const Dim *loop_let_idx(Program *p, Block *b, const char *name, const Expr *value, const Dim *lo, const Dim *hi) {
    assert(vtype_same(value->type, vtype(DT_idx, 1)));
    Stmt *s = loop_stmt(p, b, ST_LET);
    s->value = value;
    return s->sym = dim_symbol(p->dims, loop_fresh(p, b, name), SYM_DATA, lo, hi);
}

Var *loop_var(Program *p, Block *b, const char *name, const Expr *init) {
    Stmt *s = loop_stmt(p, b, ST_VAR);
    s->value = init;
    return s->var = var_new(p, b, VAR_MUT, name, init->type);
}

void loop_set(Program *p, Block *b, Var *v, const Expr *value) {
    Stmt *s = loop_stmt(p, b, ST_SET);
    s->var = v;
    s->value = value;
}

Var *loop_tile(Program *p, Block *b, const char *name, int ntile, const int *extents, const Expr *init) {
    assert(ntile >= 1 && ntile <= 3);
    Stmt *s = loop_stmt(p, b, ST_TILE);
    s->value = init;
    s->var = var_new(p, b, VAR_TILE, name, init->type);
    s->var->ntile = ntile;
    for (int i = 0; i < ntile; i++) s->var->tile[i] = extents[i];
    return s->var;
}

void loop_set_tile(Program *p, Block *b, Var *v, const Dim *const *idx, const Expr *value) {
    Stmt *s = loop_stmt(p, b, ST_SET);
    s->var = v;
    s->value = value;
    for (int i = 0; i < v->ntile; i++) s->idx[i] = idx[i];
}

LoopBuffer *loop_local(Program *p, Block *b, const char *name, DType t, int64_t n) {
    Stmt *s = loop_stmt(p, b, ST_LOCAL);
    LoopBuffer *buf = buffer_new(p, BUF_LOCAL, loop_fresh(p, b, name), t);
    buf->rank = 1;
    buf->shape = ARENA_ARRAY(p->arena, const Dim *, 1);
    buf->shape[0] = dim_int(p->dims, n);
    buf->reads = buf->writes = true;
    s->var = &buf->var;
    return buf;
}

void loop_store(Program *p, Block *b, LoopBuffer *buf, const Dim *index, const Expr *value) {
    Stmt *s = loop_stmt(p, b, ST_STORE);
    s->var = &buf->var;
    s->dim = index;
    s->value = value;
}

Stmt *loop_reduce(
    Program *p, Block *b, const char *name, const Dim *lo, const Dim *hi, int nstates, const char *const *names, const Expr *const *inits) {
    Stmt *s = loop_stmt(p, b, ST_REDUCE);
    s->loop = LOOP_RED;
    s->lo = lo;
    s->hi = hi;
    s->sym = dim_symbol(p->dims, loop_fresh(p, b, name), SYM_LOOP, lo, loop_last(p->dims, lo, hi, 1));
    s->nstates = nstates;
    s->states = ARENA_ARRAY(p->arena, Var *, nstates);
    s->others = ARENA_ARRAY(p->arena, Var *, nstates);
    s->inits = ARENA_ARRAY(p->arena, const Expr *, nstates);
    for (int i = 0; i < nstates; i++) {
        s->inits[i] = inits[i];
        s->states[i] = var_new(p, b, VAR_MUT, names[i], inits[i]->type);
        s->others[i] = var_new(p, b, VAR_LET, arena_printf(p->arena, "%s_other", names[i]), inits[i]->type);
    }
    return s;
}

void loop_check(Program *p, Block *b, const Expr *cond, int code, int node) {
    Stmt *s = loop_stmt(p, b, ST_CHECK);
    s->value = cond;
    s->code = code;
    s->node = node;
}

Stmt *loop_if(Program *p, Block *b, const Expr *cond) {
    Stmt *s = loop_stmt(p, b, ST_IF);
    s->value = cond;
    return s;
}

Stmt *loop_while(Program *p, Block *b, const Expr *cond) {
    Stmt *s = loop_stmt(p, b, ST_WHILE);
    s->value = cond;
    return s;
}

Stmt *loop_call(Program *p, Block *b, Kernel *k, int nargs, LoopBuffer *const *args) {
    Stmt *s = loop_stmt(p, b, ST_CALL);
    s->kernel = k;
    s->nargs = nargs;
    s->args = ARENA_ARRAY(p->arena, LoopBuffer *, nargs);
    for (int i = 0; i < nargs; i++) s->args[i] = args[i];
    return s;
}

Stmt *loop_team(Program *p, Block *b, const char *name, const Dim *n) {
    Stmt *s = loop_stmt(p, b, ST_TEAM);
    s->hi = n;
    s->lo = dim_int(p->dims, 0);
    s->sym = dim_symbol(p->dims, loop_fresh(p, b, name), SYM_LOOP, s->lo, dim_addi(p->dims, n, -1));
    return s;
}

void loop_size(Program *p, Block *b, const Dim *sym, const Expr *value) {
    Stmt *s = loop_stmt(p, b, ST_SIZE);
    s->sym = sym;
    s->value = value;
}

void loop_comment(Program *p, Block *b, const char *text) {
    loop_stmt(p, b, ST_COMMENT)->text = arena_strdup(p->arena, text);
}
