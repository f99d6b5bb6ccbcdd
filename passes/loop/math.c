// math: leaves only basic scalar functions on native types, each computed once.
//
// Every expression of a statement is rewritten by expr_lower_math; nodes that are then used more than once become `let`s in front of the
// statement, so that the printers can print trees. A while's condition is computed again and again, so there nothing is moved in front.
#include "loop_passes.h"

#include <string.h>

// ---- how often each node of a DAG is used ----
typedef struct {
    const Expr *e;
    int uses;
    const Expr *let; // the variable that holds it once it was moved
} Entry;

typedef struct {
    Arena *arena; // of the table
    Entry *slots;
    int cap, n;
} Table;

static Entry *table_slot(Table *t, const Expr *e) {
    uint64_t h = hash_bytes(HASH_SEED, &e, sizeof e);
    for (int i = (int)(h & (uint64_t)(t->cap - 1));; i = (i + 1) & (t->cap - 1))
        if (!t->slots[i].e || t->slots[i].e == e) return &t->slots[i];
}

static Entry *table_entry(Table *t, const Expr *e) {
    if (2 * (t->n + 1) > t->cap) {
        Table old = *t;
        t->cap = old.cap ? 2 * old.cap : 64;
        t->slots = ARENA_ARRAY(t->arena, Entry, t->cap);
        for (int i = 0; i < old.cap; i++)
            if (old.slots[i].e) *table_slot(t, old.slots[i].e) = old.slots[i];
    }
    Entry *s = table_slot(t, e);
    if (!s->e) {
        s->e = e;
        t->n++;
    }
    return s;
}

static void count_operands(void *ctx, const Expr *e) {
    Table *t = ctx;
    table_entry(t, e);
    for (int i = 0; i < e->n; i++)
        if (e->a[i]) table_entry(t, e->a[i])->uses++;
}

// ---- one block ----
typedef struct {
    Program *p;
    Block out;     // statements so far
    Table uses;    // of the statement at hand
    bool may_move; // lets may go in front of it
    bool changed;
} Math;

static bool is_leaf(const Expr *e) {
    return e->op == X_const || e->op == X_var || e->op == X_dim || e->op == X_iota;
}

static const Expr *share(Math *m, const Expr *e) {
    if (is_leaf(e)) return e;
    Entry *entry = table_entry(&m->uses, e);
    if (entry->let) return entry->let;
    bool moves = entry->uses > 1;
    const Expr *operands[3] = {0};
    bool same = true;
    for (int i = 0; i < e->n; i++) {
        operands[i] = e->a[i] ? share(m, e->a[i]) : NULL;
        same &= operands[i] == e->a[i];
    }
    const Expr *now = e;
    if (!same) {
        Expr copy = *e;
        memcpy(copy.a, operands, sizeof operands);
        now = x_node(m->p->arena, copy);
    }
    if (!moves) return now;
    bool index = now->type.type == DT_idx && now->type.lanes == 1;
    if (index)
        now = x_dim(m->p->arena, loop_let_idx(m->p, &m->out, "e", now, NULL, NULL));
    else
        now = x_var(m->p->arena, loop_let(m->p, &m->out, "e", now));
    table_entry(&m->uses, e)->let = now;
    m->changed = true;
    return now;
}

static void lower_expr(void *ctx, const Expr **e) {
    Math *m = ctx;
    const Expr *low = expr_lower_math(m->p->arena, *e);
    m->changed |= low != *e;
    *e = low;
}

static void count_expr(void *ctx, const Expr **e) {
    Math *m = ctx;
    table_entry(&m->uses, *e)->uses++;
    expr_visit(*e, count_operands, &m->uses);
}

static void share_expr(void *ctx, const Expr **e) {
    *e = share(ctx, *e);
}

static void math_block(Program *p, Block *b, bool *changed);

static void math_stmt(Math *m, Stmt *s) {
    stmt_exprs(s, lower_expr, m);
    if (s->kind != ST_WHILE) {
        Arena *scratch = arena_new();
        m->uses = (Table){.arena = scratch};
        stmt_exprs(s, count_expr, m);
        stmt_exprs(s, share_expr, m);
        arena_free(scratch);
    }
    math_block(m->p, &s->body, &m->changed);
    math_block(m->p, &s->orelse, &m->changed);
    vec_push(m->p->arena, &m->out, s);
}

static void math_block(Program *p, Block *b, bool *changed) {
    Math m = {.p = p, .out = loop_block(b)};
    for (int i = 0; i < b->n; i++) math_stmt(&m, b->data[i]);
    *b = m.out;
    *changed |= m.changed;
}

bool pass_math(Program *p, const PassOptions *o, Diag *d) {
    (void)o;
    (void)d;
    bool changed = false;
    for (int i = 0; i < p->kernels.n; i++) math_block(p, &p->kernels.data[i]->body, &changed);
    math_block(p, &p->main, &changed);
    return changed;
}
