// Walks and rewrites of statements: visiting, deep copies with fresh identities, substitution of symbols, free symbols of a kernel.
//
// Copy and substitution are one rewriter. It maps symbols, variables and buffers; a definition inside the block that has to change (every
// one in a copy; in a substitution a symbol whose bounds mention a replaced one) gets a new identity, which is added to the map before its
// uses are met.
#include "loop.h"

#include <string.h>

void loop_walk(Block *b, void (*fn)(void *ctx, Stmt *s), void *ctx) {
    for (int i = 0; i < b->n; i++) {
        Stmt *s = b->data[i];
        fn(ctx, s);
        loop_walk(&s->body, fn, ctx);
        loop_walk(&s->orelse, fn, ctx);
    }
}

void stmt_dims(Stmt *s, void (*fn)(void *ctx, const Dim **d), void *ctx) {
    if (s->lo) fn(ctx, &s->lo);
    if (s->hi) fn(ctx, &s->hi);
    for (int i = 0; i < 3; i++)
        if (s->idx[i]) fn(ctx, &s->idx[i]);
    if (s->dim) fn(ctx, &s->dim);
}

void stmt_exprs(Stmt *s, void (*fn)(void *ctx, const Expr **e), void *ctx) {
    for (int i = 0; i < s->nstates; i++) fn(ctx, &s->inits[i]);
    if (s->offsets) fn(ctx, &s->offsets);
    if (s->value) fn(ctx, &s->value);
    if (s->mask) fn(ctx, &s->mask);
}

// ---- the rewriter ----

typedef struct {
    Var *from, *to;
} VarPair;

typedef struct LoopMap {
    Program *p;
    bool copy;
    VEC(const Dim *) from, to;
    VEC(VarPair) vars;
} Rewrite;

static Var *map_var(const Rewrite *r, Var *v) {
    for (int i = r->vars.n - 1; i >= 0; i--)
        if (r->vars.data[i].from == v) return r->vars.data[i].to;
    return v;
}

static const Dim *map_dim(const Rewrite *r, const Dim *d) {
    return d && r->from.n ? dim_subst(r->p->dims, d, r->from.data, r->to.data, r->from.n) : d;
}

static void rewrite_dim(void *ctx, const Dim **d) {
    *d = map_dim(ctx, *d);
}

static const Expr *rewrite_node(void *ctx, const Expr *e) {
    Rewrite *r = ctx;
    if (!e->var || map_var(r, e->var) == e->var) return e;
    Expr copy = *e;
    copy.var = map_var(r, e->var);
    return x_node(r->p->arena, copy);
}

static void rewrite_expr(void *ctx, const Expr **e) {
    Rewrite *r = ctx;
    if (r->from.n) *e = expr_subst_dims(r->p->arena, r->p->dims, *e, r->from.data, r->to.data, r->from.n);
    if (r->vars.n) *e = expr_rewrite(r->p->arena, *e, rewrite_node, r);
}

// The symbol that s defines, after its own bounds were rewritten.
static void rewrite_symbol(Rewrite *r, Block *b, Stmt *s) {
    const Sym *sym = dim_as_symbol(s->sym);
    bool loop = s->kind == ST_FOR || s->kind == ST_REDUCE;
    const Dim *lo = loop ? s->lo : map_dim(r, sym->lo);
    const Dim *hi = loop ? loop_last(r->p->dims, s->lo, s->hi, s->step) : map_dim(r, sym->hi);
    if (!r->copy && lo == sym->lo && hi == sym->hi) return;
    const char *name = r->copy ? loop_fresh(r->p, b, sym->name) : sym->name;
    const Dim *fresh = dim_symbol(r->p->dims, name, sym->kind, lo, hi);
    vec_push(r->p->arena, &r->from, s->sym);
    vec_push(r->p->arena, &r->to, fresh);
    s->sym = fresh;
}

static Var *fresh_var(Rewrite *r, Block *b, Var *v) {
    Var *n = arena_copy(r->p->arena, v, sizeof *v);
    n->name = loop_fresh(r->p, b, v->name);
    vec_push(r->p->arena, &r->vars, ((VarPair){v, n}));
    return n;
}

static Var *fresh_local(Rewrite *r, Block *b, Var *v) {
    LoopBuffer *n = arena_copy(r->p->arena, v->owner, sizeof(LoopBuffer));
    n->var.name = loop_fresh(r->p, b, v->name);
    n->var.owner = n;
    vec_push(r->p->arena, &r->vars, ((VarPair){v, &n->var}));
    return &n->var;
}

static Var **fresh_vars(Rewrite *r, Block *b, Var **v, int n) {
    Var **out = ARENA_ARRAY(r->p->arena, Var *, n);
    for (int i = 0; i < n; i++) out[i] = fresh_var(r, b, v[i]);
    return out;
}

static void rewrite_definitions(Rewrite *r, Block *b, Stmt *s) {
    if (s->sym && s->kind != ST_SIZE) rewrite_symbol(r, b, s);
    if (!r->copy) return;
    if (s->kind == ST_LET && s->var) s->var = fresh_var(r, b, s->var);
    if (s->kind == ST_VAR || s->kind == ST_TILE) s->var = fresh_var(r, b, s->var);
    if (s->kind == ST_LOCAL) s->var = fresh_local(r, b, s->var);
    if (!s->nstates) return;
    s->states = fresh_vars(r, b, s->states, s->nstates);
    s->others = fresh_vars(r, b, s->others, s->nstates);
}

static void rewrite_block(Rewrite *r, Block *to, const Block *from);

// s in place; in a copy s is a shallow copy whose blocks still are the original's.
static void rewrite_stmt(Rewrite *r, Block *b, Stmt *s) {
    stmt_dims(s, rewrite_dim, r);
    if (r->copy && s->nstates) s->inits = arena_copy(r->p->arena, s->inits, sizeof *s->inits * (size_t)s->nstates);
    stmt_exprs(s, rewrite_expr, r);
    if (s->kind == ST_SET || s->kind == ST_STORE) s->var = map_var(r, s->var);
    rewrite_definitions(r, b, s);
    Block body = s->body, orelse = s->orelse;
    if (r->copy) s->body = s->orelse = loop_block(b);
    rewrite_block(r, &s->body, &body);
    rewrite_block(r, &s->orelse, &orelse);
}

static void rewrite_block(Rewrite *r, Block *to, const Block *from) {
    for (int i = 0; i < from->n; i++) {
        Stmt *s = from->data[i];
        if (r->copy) {
            s = arena_copy(r->p->arena, s, sizeof *s);
            vec_push(r->p->arena, to, s);
        }
        rewrite_stmt(r, to, s);
    }
}

void loop_copy(Program *p, Block *to, const Block *from) {
    Rewrite r = {.p = p, .copy = true};
    Block source = *from; // `to` may be the same block
    rewrite_block(&r, to, &source);
}

void loop_subst(Program *p, Block *b, const Dim *const *from, const Dim *const *to, int n) {
    Rewrite r = {.p = p};
    for (int i = 0; i < n; i++) {
        vec_push(p->arena, &r.from, from[i]);
        vec_push(p->arena, &r.to, to[i]);
    }
    rewrite_block(&r, b, b);
}

// ---- maps ----

LoopMap *loop_map_new(Program *p) {
    LoopMap *m = ARENA_NEW(p->arena, LoopMap);
    m->p = p;
    m->copy = true;
    return m;
}

void loop_map_symbol(LoopMap *m, const Dim *from, const Dim *to) {
    vec_push(m->p->arena, &m->from, from);
    vec_push(m->p->arena, &m->to, to);
}

void loop_map_var(LoopMap *m, Var *from, Var *to) {
    vec_push(m->p->arena, &m->vars, ((VarPair){from, to}));
}

const Expr *loop_map_expr(LoopMap *m, const Expr *e) {
    rewrite_expr(m, &e);
    return e;
}

void loop_map_copy(LoopMap *m, Block *to, const Stmt *s) {
    Stmt *one = arena_copy(m->p->arena, s, sizeof *s);
    const Block single = {&one, 1, 1, to->names};
    rewrite_block(m, to, &single);
}

// ---- free symbols ----

typedef struct {
    Arena *arena;
    VEC(const Dim *) defined, used;
} FreeSymbols;

static void note_symbol(void *ctx, const Dim *sym) {
    FreeSymbols *f = ctx;
    for (int i = 0; i < f->used.n; i++)
        if (f->used.data[i] == sym) return;
    vec_push(f->arena, &f->used, sym);
}

static void note_dim(void *ctx, const Dim **d) {
    dim_symbols(*d, note_symbol, ctx);
}

static void note_node(void *ctx, const Expr *e) {
    if (e->dim) dim_symbols(e->dim, note_symbol, ctx);
    for (int i = 0; i < 3; i++)
        if (e->idx[i]) dim_symbols(e->idx[i], note_symbol, ctx);
}

static void note_expr(void *ctx, const Expr **e) {
    expr_visit(*e, note_node, ctx);
}

static void note_stmt(void *ctx, Stmt *s) {
    FreeSymbols *f = ctx;
    if (s->sym) vec_push(f->arena, &f->defined, s->sym);
    stmt_dims(s, note_dim, f);
    stmt_exprs(s, note_expr, f);
}

void kernel_free_symbols(const Kernel *k, void (*fn)(void *ctx, const Dim *sym), void *ctx) {
    FreeSymbols f = {.arena = arena_new()};
    Block body = k->body;
    loop_walk(&body, note_stmt, &f);
    int n = 0;
    for (int i = 0; i < f.used.n; i++) {
        bool defined = false;
        for (int j = 0; j < f.defined.n; j++) defined |= f.defined.data[j] == f.used.data[i];
        if (!defined) f.used.data[n++] = f.used.data[i];
    }
    for (int i = 1; i < n; i++) // by name: names in reach of one kernel differ
        for (int j = i; j > 0 && strcmp(dim_as_symbol(f.used.data[j])->name, dim_as_symbol(f.used.data[j - 1])->name) < 0; j--) {
            const Dim *d = f.used.data[j];
            f.used.data[j] = f.used.data[j - 1];
            f.used.data[j - 1] = d;
        }
    for (int i = 0; i < n; i++) fn(ctx, f.used.data[i]);
    arena_free(f.arena);
}
