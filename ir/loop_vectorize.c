// Schedule primitives that compute iterations side by side in lanes: vectorize for independent iterations, rfactor for those of a
// reduction. See docs/schedule.md.
#include "loop_lanes.h"
#include "loop_schedule.h"

#include <assert.h>
#include <string.h>

static bool lane_count(Schedule *s, int arg, int *n) {
    int64_t v;
    if (!schedule_int(s, arg, 2, &v)) return false;
    *n = (int)v;
    return v <= 64 || schedule_fail(s, "at most 64 lanes, not %ld", (long)v);
}

// vectorize(i, n): a par loop of at most n iterations becomes one pass over n lanes. With fewer iterations the last lanes are off; when
// there may be none, the whole stands under a condition.
bool schedule_vectorize(Schedule *s) {
    LoopPlace at;
    int n;
    if (!schedule_loop(s, 0, "p", &at) || !lane_count(s, 1, &n)) return false;
    DimTable *t = s->p->dims;
    Stmt *f = at.stmt;
    const Dim *extent = dim_sub(t, f->hi, f->lo);
    if (f->step != 1) return schedule_fail(s, "loop '%s' has a step", s->args[0]);
    if (dim_le(t, extent, dim_int(t, n)) != YES) return schedule_fail(s, "loop '%s' may have more than %d iterations", s->args[0], n);
    Lanes l = lanes_new(s->p, n);
    lanes_symbol(&l, f->sym, f->lo);
    if (!lanes_prepare(&l, &f->body)) return schedule_fail(s, "loop '%s': %s", s->args[0], l.fault);
    Block now = loop_block(at.block), *to = &now;
    if (dim_ge0(t, dim_addi(t, extent, -1)) != YES)
        to = &loop_if(s->p, &now, x_op2(s->p->arena, X_gt, x_dim(s->p->arena, extent), x_dim(s->p->arena, dim_int(t, 0))))->body;
    lanes_block(&l, to, &f->body, dim_is(extent, n) ? NULL : lanes_first(s->p, n, extent));
    schedule_replace(s, at, &now);
    return true;
}

// ---- rfactor ----

enum { PATH_MAX_DEPTH = 16 };

// The way from a reduction down through red loops to one of them: positions in the blocks. The depth, -1 when there is none.
static int find_path(const Stmt *at, const Stmt *goal, int depth, int *path) {
    if (at == goal) return depth;
    for (int i = 0; i < at->body.n && depth < PATH_MAX_DEPTH; i++) {
        const Stmt *f = at->body.data[i];
        if (f->kind != ST_FOR || f->loop != LOOP_RED) continue;
        path[depth] = i;
        int found = find_path(f, goal, depth + 1, path);
        if (found >= 0) return found;
    }
    return -1;
}

// The combine block sets state i to op(state, other) by an operation that lanes are reduced by: that operation, else X_COUNT.
static XOp plain_combine(const Stmt *reduce, int i) {
    static const XOp ops[] = {X_add, X_mul, X_min, X_max, X_and, X_or};
    XOp found = X_COUNT;
    int sets = 0;
    for (int k = 0; k < reduce->orelse.n; k++) {
        const Stmt *set = reduce->orelse.data[k];
        if (set->kind != ST_SET) return X_COUNT;
        if (set->var != reduce->states[i]) continue;
        const Expr *e = set->value;
        bool operands = e->n == 2 && e->a[0]->op == X_var && e->a[0]->var == reduce->states[i] && e->a[1]->op == X_var &&
                        e->a[1]->var == reduce->others[i];
        for (size_t o = 0; o < sizeof ops / sizeof *ops && operands; o++)
            if (e->op == ops[o]) found = ops[o];
        sets++;
    }
    return sets == 1 ? found : X_COUNT;
}

bool reduce_is_unordered(const Stmt *reduce) {
    bool plain = true;
    for (int i = 0; i < reduce->nstates; i++) plain &= plain_combine(reduce, i) != X_COUNT;
    return plain || reduce->unordered;
}

// Lanes [first, first + n) of x.
static const Expr *lanes_of(Arena *a, const Expr *x, int first, int n) {
    if (n == 1) return x_node(a, (Expr){.op = X_lane, .type = vtype(x->type.type, 1), .n = 1, .a = {x}, .k = first});
    uint8_t *perm = ARENA_ARRAY(a, uint8_t, n);
    for (int i = 0; i < n; i++) perm[i] = (uint8_t)(first + i);
    return x_node(a, (Expr){.op = X_shuffle, .type = vtype(x->type.type, n), .n = 1, .a = {x}, .perm = perm});
}

// One step of merging: the combine block on the states' lower and upper halves, h lanes each.
static void merge_halves(Schedule *s, const Stmt *reduce, Block *to, const Expr **state, int h) {
    Program *p = s->p;
    LoopMap *m = loop_map_new(p);
    Lanes l = lanes_new(p, h);
    for (int i = 0; i < reduce->nstates; i++) {
        Var *low = loop_var(p, to, reduce->states[i]->name, lanes_of(p->arena, state[i], 0, h));
        Var *high = loop_let(p, to, reduce->others[i]->name, lanes_of(p->arena, state[i], h, h));
        loop_map_var(m, reduce->states[i], low);
        loop_map_var(m, reduce->others[i], high);
        lanes_variable(&l, low);
        lanes_variable(&l, high);
        state[i] = x_var(p->arena, low);
    }
    Block one = loop_block(to);
    for (int i = 0; i < reduce->orelse.n; i++) loop_map_copy(m, &one, reduce->orelse.data[i]);
    if (h == 1) {
        for (int i = 0; i < one.n; i++) vec_push(p->arena, to, one.data[i]);
        return;
    }
    lanes_prepare(&l, &one);
    lanes_block(&l, to, &one, NULL);
}

// The states of the wide reduction `wide` as scalars: lets with the names of the states of `reduce`, which the statements behind it read.
static void merge(Schedule *s, const Stmt *reduce, Var *const *wide, int n, Block *to) {
    Program *p = s->p;
    const Expr **state = ARENA_ARRAY(p->arena, const Expr *, reduce->nstates);
    for (int i = 0; i < reduce->nstates; i++) state[i] = x_var(p->arena, wide[i]);
    bool plain = true;
    for (int i = 0; i < reduce->nstates; i++) plain &= plain_combine(reduce, i) != X_COUNT;
    for (int i = 0; i < reduce->nstates && plain; i++) {
        Expr across = {.op = X_hreduce, .type = reduce->states[i]->type, .n = 1, .a = {state[i]}, .k = plain_combine(reduce, i)};
        state[i] = x_node(p->arena, across);
    }
    for (int h = n / 2; h >= 1 && !plain; h /= 2) merge_halves(s, reduce, to, state, h);
    for (int i = 0; i < reduce->nstates; i++) {
        Stmt *let = loop_stmt(p, to, ST_LET);
        let->var = reduce->states[i];
        let->var->kind = VAR_LET;
        let->value = state[i];
    }
}

// Makes loop f's iterations those of whole groups of n; *rest gets those left over, under a condition, with a symbol of their own. The
// lanes' symbols are told to l.
static void cut_lanes(Schedule *s, Lanes *l, Block *around, Stmt *f, Block *rest) {
    Program *p = s->p;
    DimTable *t = p->dims;
    Arena *a = p->arena;
    const char *name = dim_as_symbol(f->sym)->name;
    const Dim *n = dim_int(t, l->n), *zero = dim_int(t, 0), *extent = dim_max(t, dim_sub(t, f->hi, f->lo), zero);
    const Dim *blocks = dim_floordiv(t, extent, n), *left = dim_mod(t, extent, n), *sym = f->sym;
    if (!dim_is(left, 0)) {
        Block *to = rest;
        if (dim_ge0(t, dim_addi(t, left, -1)) != YES) to = &loop_if(p, rest, x_op2(a, X_gt, x_dim(a, left), x_dim(a, zero)))->body;
        const Dim *last = dim_symbol(t, loop_fresh(p, around, arena_printf(a, "%s_t", name)), SYM_LOOP, f->lo, dim_addi(t, f->hi, -1));
        Stmt *tail = loop_if(p, to, x_op2(a, X_lt, x_dim(a, last), x_dim(a, f->hi)));
        lanes_tail(l, tail);
        to = &tail->body;
        LoopMap *m = loop_map_new(p);
        loop_map_symbol(m, sym, last);
        for (int i = 0; i < f->body.n; i++) loop_map_copy(m, to, f->body.data[i]);
        lanes_symbol(l, last, dim_add(t, f->lo, dim_mul(t, blocks, n)));
    }
    f->sym = dim_symbol(t, loop_fresh(p, around, arena_printf(a, "%s_o", name)), SYM_LOOP, zero, dim_addi(t, blocks, -1));
    lanes_symbol(l, sym, dim_add(t, f->lo, dim_muli(t, f->sym, l->n)));
    f->lo = zero;
    f->hi = blocks;
}

static void insert(Arena *a, Block *b, int at, const Block *these) {
    Block rest = {0};
    for (int i = at; i < b->n; i++) vec_push(a, &rest, b->data[i]);
    b->n = at;
    for (int i = 0; i < these->n; i++) vec_push(a, b, these->data[i]);
    for (int i = 0; i < rest.n; i++) vec_push(a, b, rest.data[i]);
}

// rfactor(r, i, n): the iterations of i (the reduction r itself or a red loop inside it) n at a time, each lane with states of its own,
// which start at the initial values and are merged by the combine block at the end. The order of the elements changes: refused unless the
// combine block is unordered or made of sums, products, extremes. n is a power of two.
bool schedule_rfactor(Schedule *s) {
    LoopPlace at, inner;
    int n, path[PATH_MAX_DEPTH];
    if (!schedule_loop(s, 0, "R", &at) || !lane_count(s, 2, &n) || !schedule_loop(s, 1, "rR", &inner)) return false;
    int depth = find_path(at.stmt, inner.stmt, 0, path);
    if (depth < 0) return schedule_fail(s, "'%s' is neither the reduction nor a red loop inside it", s->args[1]);
    if (n & (n - 1)) return schedule_fail(s, "%d is no power of two", n);
    if (!at.stmt->orelse.n) return schedule_fail(s, "'%s' has no combine block", s->args[0]);
    if (!reduce_is_unordered(at.stmt)) return schedule_fail(s, "the combine block of '%s' may need its parts in order", s->args[0]);
    if (inner.stmt->step != 1) return schedule_fail(s, "loop '%s' has a step", s->args[1]);
    // A check of the scalar form first: nothing is changed when it is refused.
    Lanes try = lanes_new(s->p, n);
    lanes_symbol(&try, inner.stmt->sym, inner.stmt->lo);
    for (int i = 0; i < at.stmt->nstates; i++) lanes_variable(&try, at.stmt->states[i]), lanes_variable(&try, at.stmt->others[i]);
    if (!lanes_prepare(&try, &at.stmt->body) || !lanes_prepare(&try, &at.stmt->orelse))
        return schedule_fail(s, "loop '%s': %s", s->args[1], try.fault);

    Block wide = loop_block(at.block), now = loop_block(at.block), rest = loop_block(at.block);
    LoopMap *m = loop_map_new(s->p);
    loop_map_copy(m, &wide, at.stmt);
    Stmt *copy = wide.data[0], *f = copy;
    Block *around = &wide;
    for (int i = 0; i < depth; i++) {
        around = &f->body;
        f = around->data[path[i]];
    }
    Lanes l = lanes_new(s->p, n);
    cut_lanes(s, &l, around, f, &rest);
    insert(s->p->arena, around, depth ? path[depth - 1] + 1 : 1, &rest);
    for (int i = 0; i < copy->nstates; i++) lanes_variable(&l, copy->states[i]);
    bool can = lanes_prepare(&l, &wide);
    assert(can && "the scalar form was checked");
    (void)can;
    lanes_block(&l, &now, &wide, NULL);
    merge(s, at.stmt, copy->states, n, &now);
    schedule_replace(s, at, &now);
    return true;
}
