// Schedule primitives that say where a buffer lives: store_at, fold_storage. See docs/schedule.md.
#include "loop_storage.h"

#include <string.h>

// ---- accesses at another place ----

typedef struct {
    Program *p;
    const LoopBuffer *from;
    LoopBuffer *to;
    PlaceFn *fn;
    void *ctx;
} Relocate;

static const Expr *relocate_load(void *ctx, const Expr *e) {
    const Relocate *r = ctx;
    if (e->op != X_load || e->var != &r->from->var) return e;
    Expr x = *e;
    x.var = &r->to->var;
    r->fn(r->ctx, &x.dim, &x.k);
    if (x.type.lanes == 1) x.k = e->k;
    return x_node(r->p->arena, x);
}

static void relocate_expr(void *ctx, const Expr **e) {
    const Relocate *r = ctx;
    *e = expr_rewrite(r->p->arena, *e, relocate_load, ctx);
}

static void relocate_stmt(void *ctx, Stmt *s) {
    const Relocate *r = ctx;
    stmt_exprs(s, relocate_expr, ctx);
    if (s->kind != ST_STORE || s->var != &r->from->var) return;
    int64_t step = s->stride;
    s->var = &r->to->var;
    r->fn(r->ctx, &s->dim, &step);
    if (s->value->type.lanes > 1) s->stride = step;
}

void storage_rewrite(Program *p, Block *b, const LoopBuffer *from, LoopBuffer *to, PlaceFn *fn, void *ctx) {
    Relocate r = {p, from, to, fn, ctx};
    loop_walk(b, relocate_stmt, &r);
}

StorageBox storage_box(DimTable *t, const Digits *g, const Region *r) {
    StorageBox b = {.t = t, .g = *g, .size = 1};
    for (int j = g->n - 1; j >= 0; j--) {
        b.lo[j] = r->lo[j];
        b.stride[j] = b.size;
        b.size *= r->cap[j];
    }
    return b;
}

void storage_place(void *ctx, const Dim **index, int64_t *step) {
    const StorageBox *b = ctx;
    const Dim *digit[REGION_DIGITS], *sum = dim_int(b->t, 0);
    digits_split(b->t, &b->g, *index, digit);
    int lane = 0;
    int64_t stride = 1;
    while (lane < b->g.n - 1 && !dim_is(dim_mod(b->t, dim_int(b->t, *step), b->g.stride[lane]), 0)) lane++;
    if (dim_is_int(b->g.stride[lane], &stride)) *step = *step / stride * b->stride[lane];
    for (int j = 0; j < b->g.n; j++) sum = dim_add(b->t, sum, dim_muli(b->t, dim_sub(b->t, digit[j], b->lo[j]), b->stride[j]));
    *index = sum;
}

// ---- whose a buffer is ----

typedef struct {
    const Kernel *k;
    LoopBuffer *temp;
    Stmt *call;      // of k
    int calls, uses; // calls of k; arguments and statements of main that are temp
} Callers;

static void note_call(void *ctx, Stmt *s) {
    Callers *c = ctx;
    if (s->kind == ST_CALL && s->kernel == c->k) c->call = s, c->calls++;
}

static void note_temp_load(void *ctx, const Expr *e) {
    Callers *c = ctx;
    c->uses += e->op == X_load && e->var == &c->temp->var;
}

static void note_temp_expr(void *ctx, const Expr **e) {
    expr_visit(*e, note_temp_load, ctx);
}

static void note_temp(void *ctx, Stmt *s) {
    Callers *c = ctx;
    for (int i = 0; i < s->nargs; i++) c->uses += s->args[i] == c->temp;
    c->uses += s->kind == ST_STORE && s->var == &c->temp->var;
    stmt_exprs(s, note_temp_expr, c);
}

static int param_number(const Kernel *k, const LoopBuffer *b) {
    int i = 0;
    while (k->params.data[i] != b) i++;
    return i;
}

static Callers callers_of(Schedule *s, const LoopBuffer *b) {
    Callers c = {.k = s->k};
    loop_walk(&s->p->main, note_call, &c);
    if (c.calls != 1) return c;
    c.temp = c.call->args[param_number(s->k, b)];
    loop_walk(&s->p->main, note_temp, &c);
    return c;
}

const char *storage_private(Schedule *s, const LoopBuffer *b) {
    if (b->kind == BUF_LOCAL) return NULL;
    Callers c = callers_of(s, b);
    if (c.calls != 1) return "its kernel is not called once";
    if (c.temp->kind != BUF_TEMP) return "the caller sees it";
    if (c.temp->unbounded || c.temp->offset) return "its memory is planned already";
    return c.uses == 1 ? NULL : "main uses it elsewhere";
}

// A private parameter becomes a local buffer that is not declared yet.
static void drop_param(Schedule *s, LoopBuffer *b) {
    Callers c = callers_of(s, b);
    int at = param_number(s->k, b);
    for (int i = at; i + 1 < s->k->params.n; i++) {
        s->k->params.data[i] = s->k->params.data[i + 1];
        c.call->args[i] = c.call->args[i + 1];
    }
    s->k->params.n--;
    c.call->nargs--;
    int n = 0;
    for (int i = 0; i < s->p->buffers.n; i++)
        if (s->p->buffers.data[i] != c.temp) s->p->buffers.data[n++] = s->p->buffers.data[i];
    s->p->buffers.n = n;
}

typedef struct {
    const Var *var;
    Stmt *found;
} Declaration;

static void note_declaration(void *ctx, Stmt *s) {
    Declaration *d = ctx;
    if (s->kind == ST_LOCAL && s->var == d->var) d->found = s;
}

LoopPlace storage_declaration(Schedule *s, const LoopBuffer *b) {
    Declaration d = {&b->var, NULL};
    loop_walk(&s->k->body, note_declaration, &d);
    return d.found ? schedule_place(s->k, d.found) : (LoopPlace){0};
}

bool storage_is_inside(Schedule *s, const LoopBuffer *b, const Stmt *loop) {
    LoopPlace at = storage_declaration(s, b);
    StmtVec path = {0};
    if (at.stmt) kernel_path(s->p, s->k, at.stmt, &path);
    for (int i = 0; i < path.n; i++)
        if (path.data[i] == loop) return true;
    return false;
}

const LoopBuffer *storage_shape(Schedule *s, const LoopBuffer *b) {
    if (b->kind != BUF_PARAM || b->rank >= 0) return b;
    Callers c = callers_of(s, b);
    return c.calls == 1 ? c.temp : b;
}

static void set_size(Schedule *s, LoopBuffer *b, int64_t size) {
    b->rank = 1;
    b->shape = ARENA_ARRAY(s->p->arena, const Dim *, 1);
    b->shape[0] = dim_int(s->p->dims, size);
}

bool storage_into(Schedule *s, LoopBuffer *b, Digits *g, Stmt *loop) {
    AccessVec all = {0};
    DimVec facts = {0};
    Region r = {0};
    kernel_facts(s->p, s->k, loop, &facts);
    access_collect(s->p, &loop->body, b, &facts, &all);
    digits_learn(s->p, g, &all);
    const char *why = region_hull(s->p, g, &all, &r);
    if (why) return schedule_fail(s, "%s: %s", b->var.name, why);
    if (!region_size(g, &r)) return schedule_fail(s, "'%s' has no constant size there", b->var.name);
    StorageBox box = storage_box(s->p->dims, g, &r);
    LoopPlace old = storage_declaration(s, b);
    if (old.stmt)
        schedule_remove(old);
    else
        drop_param(s, b);
    b->kind = BUF_LOCAL;
    b->reads = b->writes = true;
    set_size(s, b, box.size);
    storage_rewrite(s->p, &loop->body, b, b, storage_place, &box);
    Block made = loop_block(&loop->body);
    Stmt *local = loop_stmt(s->p, &made, ST_LOCAL);
    local->var = &b->var;
    schedule_insert(s, &loop->body, 0, local);
    return true;
}

// ---- store_at ----

static bool load_is_covered(Schedule *s, const Digits *g, const AccessVec *all, const Access *load) {
    AccessVec one = {.data = (Access *)(uintptr_t)load, .n = 1};
    Region need = {0};
    if (region_hull(s->p, g, &one, &need)) return false;
    for (int i = 0; i < all->n; i++) {
        const Access *w = &all->data[i];
        Region whole = {0};
        if (w->top >= load->top || !region_is_exact(s->p->dims, g, w)) continue;
        one.data = (Access *)(uintptr_t)w;
        if (!region_hull(s->p, g, &one, &whole) && region_within(s->p->dims, g, &need, &whole)) return true;
    }
    return false;
}

bool storage_is_covered(Schedule *s, const Digits *g, Block *block, const LoopBuffer *b) {
    AccessVec all = {0};
    access_collect(s->p, block, b, NULL, &all);
    for (int i = 0; i < all.n; i++) {
        const Access *a = &all.data[i];
        if (!a->load || load_is_covered(s, g, &all, a)) continue;
        Stmt *top = block->data[a->top];
        if (a->stmt == top || !storage_is_covered(s, g, &top->body, b) || !storage_is_covered(s, g, &top->orelse, b)) return false;
    }
    return true;
}

// store_at(B, L): the buffer B, which only L's iterations use, is declared in L's body, as small as one iteration needs. For buffers that
// other primitives or the lowering left outside of a loop: memory that stays in the cache, and iterations that no longer share it. Refused
// when others see B, when an iteration reads what it did not write before, when the size is not constant.
bool schedule_store_at(Schedule *s) {
    LoopBuffer *b;
    LoopPlace at;
    if (!schedule_buffer(s, 0, &b) || !schedule_loop(s, 1, "prsR", &at)) return false;
    const char *why = storage_private(s, b);
    if (why) return schedule_fail(s, "'%s' cannot move: %s", b->var.name, why);
    AccessVec all = {0};
    access_collect(s->p, &s->k->body, b, NULL, &all);
    for (int i = 0; i < all.n; i++)
        if (!access_under(&all.data[i], at.stmt)) return schedule_fail(s, "'%s' is used outside of '%s'", b->var.name, s->args[1]);
    Digits g;
    digits_choose(s->p, storage_shape(s, b), &all, &g);
    bool own = storage_declaration(s, b).block == &at.stmt->body;
    if (!own && storage_is_inside(s, b, at.stmt)) return schedule_fail(s, "'%s' lives further inside", b->var.name);
    if (!own && !storage_is_covered(s, &g, &at.stmt->body, b))
        return schedule_fail(s, "an iteration of '%s' may read elements of '%s' that it did not write before", s->args[1], b->var.name);
    return storage_into(s, b, &g, at.stmt);
}

// ---- fold_storage ----

typedef struct {
    DimTable *t;
    Digits g;
    int64_t n;
} Ring;

static void ring_place(void *ctx, const Dim **index, int64_t *step) {
    const Ring *r = ctx;
    (void)step;
    const Dim *digit = dim_floordiv(r->t, *index, r->g.stride[0]), *slot = dim_mod(r->t, digit, dim_int(r->t, r->n));
    *index = dim_add(r->t, *index, dim_mul(r->t, dim_sub(r->t, slot, digit), r->g.stride[0]));
}

// What is alive: an interval of the outermost digit, which statements move on.
typedef struct {
    const Dim *lo, *hi;
    const char *unsure; // name of the loop that it belongs to, if that may be empty
} Window;

static bool window_fits(Schedule *s, const Window *w, int64_t n) {
    DimTable *t = s->p->dims;
    return dim_lt(t, dim_sub(t, w->hi, w->lo), dim_int(t, n)) == YES;
}

static bool window_follows(Schedule *s, const Window *now, const Window *before) {
    return dim_le(s->p->dims, before->lo, now->lo) == YES && dim_le(s->p->dims, before->hi, now->hi) == YES;
}

static Window window_at(Schedule *s, const Window *w, const Dim *sym, const Dim *value) {
    DimTable *t = s->p->dims;
    return (Window){dim_subst(t, w->lo, &sym, &value, 1), dim_subst(t, w->hi, &sym, &value, 1), NULL};
}

static bool window_of(Schedule *s, const Digits *g, Block *b, const LoopBuffer *buf, Window *out) {
    AccessVec all = {0};
    Region r = {0};
    access_collect(s->p, b, buf, NULL, &all);
    if (!all.n) return false;
    const char *why = region_hull(s->p, g, &all, &r);
    for (int i = 0; i < all.n && !why; i++)
        if ((all.data[i].low || all.data[i].high) && digits_lane(s->p->dims, g, &all.data[i]) == 0) why = "lanes lie across rows";
    if (why) schedule_fail(s, "%s: %s", buf->var.name, why);
    *out = (Window){r.lo[0], r.hi[0], NULL};
    return !why;
}

// The windows of one statement of the declaring block: it is a seq loop whose iterations move the window on, or holds still.
static bool window_passes(Schedule *s, const Digits *g, Stmt *x, const LoopBuffer *b, int64_t n, Window *before) {
    Stmt *only[] = {x};
    Block whole = {.data = only, .n = 1, .cap = 1, .names = s->k->body.names};
    Window w;
    int errors = s->d->errors;
    bool loop = x->kind == ST_FOR && x->loop == LOOP_SEQ && window_of(s, g, &x->body, b, &w);
    if (s->d->errors > errors) return false;
    if (loop) loop = dim_has_symbol(w.lo, x->sym);
    if (!loop && !window_of(s, g, &whole, b, &w)) return s->d->errors == errors;
    if (!window_fits(s, &w, n)) return schedule_fail(s, "more than %ld rows of '%s' are alive at a time", (long)n, b->var.name);
    Window first = w, last = w;
    if (loop) {
        Window next = window_at(s, &w, x->sym, dim_addi(s->p->dims, x->sym, x->step));
        first = window_at(s, &w, x->sym, x->lo);
        last = window_at(s, &w, x->sym, loop_last(s->p->dims, x->lo, x->hi, x->step));
        const char *name = dim_as_symbol(x->sym)->name;
        if (!window_follows(s, &next, &w)) return schedule_fail(s, "'%s' does not move on with '%s'", b->var.name, name);
        last.unsure = dim_lt(s->p->dims, x->lo, x->hi) == YES ? NULL : name;
    }
    if (before->unsure) return schedule_fail(s, "'%s' is used after '%s', which may be empty", b->var.name, before->unsure);
    if (before->lo && !window_follows(s, &first, before)) return schedule_fail(s, "older rows of '%s' are used again", b->var.name);
    *before = last;
    return true;
}

static void fold_shape(Schedule *s, LoopBuffer *b, const Digits *g, int64_t n) {
    DimTable *t = s->p->dims;
    bool row = b->rank > 1 && g->stride[0] == dim_product(t, &b->shape[1], b->rank - 1);
    const Dim **shape = ARENA_ARRAY(s->p->arena, const Dim *, b->rank + 1);
    for (int i = 0; row && i < b->rank; i++) shape[i] = b->shape[i];
    shape[0] = row ? dim_int(t, n) : dim_muli(t, g->stride[0], n);
    b->rank = row ? b->rank : 1;
    b->shape = shape;
}

// fold_storage(B, n): B's index along its outermost digit (its rows) is taken modulo n, and B gets as small: a ring of n rows. For a buffer
// of which a seq loop only has a few rows alive at a time (after compute_at(P, L, root), or as the lowering made it). Refused when others
// see B, and when it is not proven that all rows touched by one iteration fit in n and that the rows move on from iteration to iteration.
bool schedule_fold_storage(Schedule *s) {
    LoopBuffer *b;
    int64_t n, rows;
    if (!schedule_buffer(s, 0, &b) || !schedule_int(s, 1, 1, &n)) return false;
    const char *why = storage_private(s, b);
    if (why) return schedule_fail(s, "'%s' cannot move: %s", b->var.name, why);
    LoopPlace old = storage_declaration(s, b);
    Block *block = old.stmt ? old.block : &s->k->body;
    Callers callers = old.stmt ? (Callers){0} : callers_of(s, b);
    for (int i = 0; i < s->p->main.n && callers.call; i++)
        if (s->p->main.data[i] == callers.call) callers.call = NULL;
    if (callers.call) return schedule_fail(s, "'%s' may keep its rows from one call to the next", b->var.name);
    AccessVec all = {0};
    access_collect(s->p, block, b, NULL, &all);
    Digits g;
    digits_choose(s->p, storage_shape(s, b), &all, &g);
    Window before = {0};
    for (int i = 0; i < block->n; i++)
        if (!window_passes(s, &g, block->data[i], b, n, &before)) return false;
    if (!before.lo) return schedule_fail(s, "'%s' is not used", b->var.name);
    if (b->kind == BUF_LOCAL && !dim_is_int(g.stride[0], &rows)) return schedule_fail(s, "the rows of '%s' are not constant", b->var.name);
    Ring ring = {s->p->dims, g, n};
    storage_rewrite(s->p, block, b, b, ring_place, &ring);
    if (callers.temp) fold_shape(s, callers.temp, &g, n);
    if (b->rank >= 0) fold_shape(s, b, &g, n);
    return true;
}
