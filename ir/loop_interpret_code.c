// Compiles statements for the interpreter and decides which loops may run in strips.
//
// A par loop runs in lockstep when its iterations take the same path: the bounds of loops inside do not depend on the iteration (found by
// following the loop's symbol through lets), and there is no while and no break. Conditions may differ: they become lane masks.
#include "loop_interpret.h"

int code_slot(Run *r, FuncCode *f, const void *what, int *count, int n) {
    int slot = ptr_map_get(&f->slots, what);
    if (slot >= 0) return slot;
    slot = *count;
    *count += n;
    f->slots.arena = r->arena;
    ptr_map_put(&f->slots, what, slot);
    return slot;
}

static int code_var(Run *r, FuncCode *f, const Var *v) {
    int n = 1;
    for (int i = 0; i < v->ntile && v->kind == VAR_TILE; i++) n *= v->tile[i];
    return code_slot(r, f, v, v->kind == VAR_BUFFER ? &f->nbufs : &f->nvars, n);
}

// ---- what depends on a loop's iteration ----

typedef struct {
    PtrMap tainted; // symbols, variables, buffers
    int lanes;      // most lanes of a type inside
    bool ok, strided;
    const Dim *sym;
    DimTable *dims;
    bool found; // by the visit that is running
    int depth;
} Taint;

static void taint_symbol(void *ctx, const Dim *sym) {
    Taint *t = ctx;
    if (ptr_map_get(&t->tainted, sym) >= 0) t->found = true;
}

static bool dim_tainted(Taint *t, const Dim *d) {
    t->found = false;
    dim_symbols(d, taint_symbol, t);
    return t->found;
}

// Inside of loops, an index that moves by more than one element a lane.
static void note_stride(Taint *t, const Dim *index) {
    const Dim *coeff, *rest;
    int64_t k;
    if (t->depth == 0 || !dim_has_symbol(index, t->sym)) return;
    bool unit = dim_linear(t->dims, index, t->sym, &coeff, &rest) && dim_is_int(coeff, &k) && k == 1;
    if (!unit) t->strided = true;
}

static void taint_node(void *ctx, const Expr *e) {
    Taint *t = ctx;
    if (e->type.lanes > t->lanes) t->lanes = e->type.lanes;
    if (e->dim) dim_symbols(e->dim, taint_symbol, t);
    for (int i = 0; i < 3; i++)
        if (e->idx[i]) dim_symbols(e->idx[i], taint_symbol, t);
    if (e->var && (e->var->kind == VAR_MUT || e->var->kind == VAR_TILE || ptr_map_get(&t->tainted, e->var) >= 0)) t->found = true;
    if (e->op == X_load) note_stride(t, e->dim);
}

static bool expr_tainted(Taint *t, const Expr *e) {
    t->found = false;
    expr_visit(e, taint_node, t);
    return t->found;
}

static void taint_block(Taint *t, const Block *b);

static void taint_stmt(Taint *t, const Stmt *s) {
    for (int i = 0; i < s->nstates; i++) expr_tainted(t, s->inits[i]);
    if (s->offsets) expr_tainted(t, s->offsets);
    if (s->mask) expr_tainted(t, s->mask);
    bool value = s->value && expr_tainted(t, s->value);
    switch (s->kind) {
    case ST_FOR:
    case ST_REDUCE:
        if (dim_tainted(t, s->lo) || dim_tainted(t, s->hi)) t->ok = false;
        t->depth++;
        taint_block(t, &s->body);
        t->depth--;
        return;
    case ST_IF:
        taint_block(t, &s->body);
        taint_block(t, &s->orelse);
        return;
    case ST_LET:
        if (value) ptr_map_put(&t->tainted, s->sym ? (const void *)s->sym : s->var, 1);
        return;
    case ST_LOCAL: ptr_map_put(&t->tainted, s->var, 1); return;
    case ST_STORE: ptr_map_put(&t->tainted, s->var, 1); return;
    case ST_VAR:
    case ST_TILE:
    case ST_SET:
    case ST_CHECK:
    case ST_COMMENT: return;
    default: t->ok = false;
    }
}

static void taint_block(Taint *t, const Block *b) {
    for (int i = 0; i < b->n && t->ok; i++) taint_stmt(t, b->data[i]);
}

// A buffer that is stored to may be read before the store in the text but after it in time: a second walk sees it tainted.
static void find_strip(Run *r, CodeStmt *c) {
    const Stmt *s = c->s;
    if (s->kind != ST_FOR || s->loop != LOOP_PAR) return;
    Taint t = {.tainted = {.arena = r->arena}, .lanes = 1, .ok = true, .sym = s->sym, .dims = r->p->dims};
    ptr_map_put(&t.tainted, s->sym, 1);
    taint_block(&t, &s->body);
    if (t.ok) taint_block(&t, &s->body);
    c->strided = t.strided;
    c->strip = t.ok ? STRIP / t.lanes : 0;
    if (c->strip < 2) c->strip = 0;
}

// ---- statements ----

static void code_block(Run *r, FuncCode *f, const Block *b, CodeStmt **out, int *n);

static DimCode *code_optional(Run *r, FuncCode *f, const Dim *d) {
    return d ? code_dim(r, f, d) : NULL;
}

// Symbols that come from main: free ones and those that only bounds mention.
typedef struct {
    Run *r;
    FuncCode *f;
} Outer;

static void note_outer(void *ctx, const Dim *sym) {
    Outer *o = ctx;
    if (ptr_map_get(&o->f->slots, sym) >= 0) return;
    int slot = code_slot(o->r, o->f, sym, &o->f->nsyms, 1);
    vec_push(o->r->arena, &o->f->outer, ((SymSlot){sym, slot}));
}

// The stated bounds of an idx let, to be checked.
static void code_bounds(Run *r, FuncCode *f, CodeStmt *c) {
    const Sym *s = dim_as_symbol(c->s->sym);
    Outer o = {r, f};
    if (s->lo) dim_symbols(s->lo, note_outer, &o);
    if (s->hi) dim_symbols(s->hi, note_outer, &o);
    c->lo = code_optional(r, f, s->lo);
    c->hi = code_optional(r, f, s->hi);
}

static void code_definitions(Run *r, FuncCode *f, CodeStmt *c) {
    const Stmt *s = c->s;
    if (s->kind == ST_LET && s->sym) code_bounds(r, f, c);
    if (s->sym) c->slot = code_slot(r, f, s->sym, &f->nsyms, 1);
    if (s->var) c->slot = code_var(r, f, s->var);
    c->states = ARENA_ARRAY(r->arena, int, s->nstates + 1);
    c->others = ARENA_ARRAY(r->arena, int, s->nstates + 1);
    for (int i = 0; i < s->nstates; i++) {
        c->states[i] = code_var(r, f, s->states[i]);
        if (s->orelse.n) c->others[i] = code_var(r, f, s->others[i]);
    }
}

// Loops inside, for the choice of the one to run in strips.
static void collect_loops(Run *r, CodeStmt *to, CodeStmt *c, int n) {
    for (int i = 0; i < n; i++) {
        if (c[i].strip) vec_push(r->arena, &to->pars, &c[i]);
        if (c[i].fold && !c[i].rows) vec_push(r->arena, &to->folds, &c[i]);
        to->barrier |= c[i].barrier || c[i].s->kind == ST_BARRIER;
        for (int k = 0; k < c[i].pars.n; k++) vec_push(r->arena, &to->pars, c[i].pars.data[k]);
        for (int k = 0; k < c[i].folds.n; k++) vec_push(r->arena, &to->folds, c[i].folds.data[k]);
    }
}

static void code_stmt(Run *r, FuncCode *f, CodeStmt *c, const Stmt *s) {
    c->s = s;
    c->lo = code_optional(r, f, s->lo);
    c->hi = code_optional(r, f, s->hi);
    c->dim = code_optional(r, f, s->dim);
    for (int i = 0; i < 3; i++) c->idx[i] = code_optional(r, f, s->idx[i]);
    c->inits = ARENA_ARRAY(r->arena, ExprCode *, s->nstates + 1);
    for (int i = 0; i < s->nstates; i++) c->inits[i] = code_expr(r, f, s->inits[i]);
    if (s->value) c->value = code_expr(r, f, s->value);
    if (s->mask) c->mask = code_expr(r, f, s->mask);
    if (s->offsets) c->offsets = code_expr(r, f, s->offsets);
    code_definitions(r, f, c);
    code_block(r, f, &s->body, &c->body, &c->nbody);
    code_block(r, f, &s->orelse, &c->orelse, &c->norelse);
    find_strip(r, c);
    c->fold = code_fold(r, f, c);
    c->rows = code_rows(r, f, c);
    collect_loops(r, c, c->body, c->nbody);
    collect_loops(r, c, c->orelse, c->norelse);
}

static void code_block(Run *r, FuncCode *f, const Block *b, CodeStmt **out, int *n) {
    *out = ARENA_ARRAY(r->arena, CodeStmt, b->n + 1);
    *n = b->n;
    for (int i = 0; i < b->n; i++) code_stmt(r, f, &(*out)[i], b->data[i]);
}

// ---- functions ----

void code_function(Run *r, FuncCode *f, const Kernel *k, const Block *body) {
    f->kernel = k;
    f->slots.arena = r->arena;
    if (k) {
        for (int i = 0; i < k->params.n; i++) code_slot(r, f, &k->params.data[i]->var, &f->nbufs, 1); // parameter i has slot i
        Outer o = {r, f};
        kernel_free_symbols(k, note_outer, &o);
    } else {
        for (int i = 0; i < r->p->symbols.n; i++) code_slot(r, f, r->p->symbols.data[i], &f->nsyms, 1);
        for (int i = 0; i < r->p->buffers.n; i++) code_slot(r, f, &r->p->buffers.data[i]->var, &f->nbufs, 1);
    }
    code_block(r, f, body, &f->body, &f->nbody);
}
