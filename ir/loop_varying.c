// The closure of a set of symbols and variables under "is computed from": see loop_varying.h.
#include "loop_varying.h"

Varying varying_new(Arena *a) {
    return (Varying){.set = {.arena = a}};
}

bool varying_has(const Varying *v, const void *what) {
    return ptr_map_get(&v->set, what) >= 0;
}

void varying_add(Varying *v, const void *what) {
    if (varying_has(v, what)) return;
    ptr_map_put(&v->set, what, 1);
    v->changed = true;
}

typedef struct {
    const Varying *v;
    bool found;
} Search;

static void search_symbol(void *ctx, const Dim *sym) {
    Search *s = ctx;
    s->found |= varying_has(s->v, sym);
}

bool varying_dim(const Varying *v, const Dim *d) {
    Search s = {v, false};
    dim_symbols(d, search_symbol, &s);
    return s.found;
}

static void search_node(void *ctx, const Expr *e) {
    Search *s = ctx;
    if (e->var) s->found |= varying_has(s->v, e->var);
    if (e->dim) dim_symbols(e->dim, search_symbol, s);
    for (int i = 0; i < 3; i++)
        if (e->idx[i]) dim_symbols(e->idx[i], search_symbol, s);
}

bool varying_expr(const Varying *v, const Expr *e) {
    Search s = {v, false};
    expr_visit(e, search_node, &s);
    return s.found;
}

static void close_block(Varying *v, const Block *b, bool under);

static void close_stmt(Varying *v, const Stmt *s, bool under) {
    bool differs = under || (s->value && varying_expr(v, s->value));
    if (s->kind == ST_LET && differs) varying_add(v, s->var ? (const void *)s->var : s->sym);
    if ((s->kind == ST_VAR || s->kind == ST_TILE || s->kind == ST_SET) && differs) varying_add(v, s->var);
    if (s->kind == ST_LOCAL) varying_add(v, s->var);
    bool loop = s->kind == ST_FOR || s->kind == ST_REDUCE;
    if (loop && (varying_dim(v, s->lo) || varying_dim(v, s->hi))) {
        varying_add(v, s->sym);
        under = true;
    }
    for (int i = 0; i < s->nstates; i++) {
        if (under || varying_expr(v, s->inits[i])) varying_add(v, s->states[i]);
        if (varying_has(v, s->states[i])) varying_add(v, s->others[i]);
    }
    bool conditional = (s->kind == ST_IF || s->kind == ST_WHILE) && s != v->plain;
    close_block(v, &s->body, under || (conditional && differs));
    close_block(v, &s->orelse, under || (conditional && differs));
}

static void close_block(Varying *v, const Block *b, bool under) {
    for (int i = 0; i < b->n; i++) close_stmt(v, b->data[i], under);
}

void varying_close(Varying *v, const Block *b) {
    do {
        v->changed = false;
        close_block(v, b, false);
    } while (v->changed);
}
