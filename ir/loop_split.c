// Schedule primitives that cut, join and order loops: split, fuse, reorder, unroll, parallel. See docs/schedule.md.
#include "loop_schedule.h"

#include <string.h>

static const Dim *extent_of(Schedule *s, const Stmt *f) {
    return dim_sub(s->p->dims, f->hi, f->lo);
}

static Stmt *new_loop(Schedule *s, Block *like, const char *name, const Dim *hi, LoopKind kind) {
    Block b = loop_block(like);
    return loop_for(s->p, &b, name, dim_int(s->p->dims, 0), hi, kind);
}

// A break that leaves this loop, not one of a loop inside.
static bool is_left_early(const Block *b) {
    for (int i = 0; i < b->n; i++) {
        const Stmt *s = b->data[i];
        if (s->kind == ST_BREAK || (s->kind == ST_IF && (is_left_early(&s->body) || is_left_early(&s->orelse)))) return true;
    }
    return false;
}

static void find_barrier(void *ctx, Stmt *s) {
    if (s->kind == ST_BARRIER) *(bool *)ctx = true;
}

static void put(Schedule *s, LoopPlace at, Stmt *now) {
    (void)s;
    at.block->data[at.at] = now;
}

// A copy of f's body for the iterations after the last whole block, in a loop i_t of its own.
static Stmt *tail_loop(Schedule *s, Block *like, const Stmt *f, const Dim *whole, const Dim *rest) {
    DimTable *t = s->p->dims;
    Stmt *tail = new_loop(s, like, arena_printf(s->p->arena, "%s_t", s->args[0]), rest, f->loop);
    loop_copy(s->p, &tail->body, &f->body);
    const Dim *index = dim_add(t, f->lo, dim_add(t, whole, tail->sym));
    loop_subst(s->p, &tail->body, &f->sym, &index, 1);
    return tail;
}

static bool tail_kind(Schedule *s, const char *kind) {
    return s->nargs == 3 && !strcmp(s->args[2], kind);
}

// split(i, n[, mask|peel|branch]): i = lo + n*i_o + i_i. Where n does not divide the extent: mask (the default): the body runs where i <
// hi; peel: the rest after the last whole block is a loop i_t of its own behind the outer one; branch: that loop is the last iteration of
// the outer one, under a condition.
bool schedule_split(Schedule *s) {
    LoopPlace at;
    int64_t n;
    if (!schedule_loop(s, 0, "prs", &at) || !schedule_int(s, 1, 1, &n)) return false;
    bool peel = tail_kind(s, "peel"), branch = tail_kind(s, "branch");
    if (s->nargs == 3 && !peel && !branch && !tail_kind(s, "mask"))
        return schedule_fail(s, "the third argument is mask, peel or branch, not '%s'", s->args[2]);
    Stmt *f = at.stmt;
    if (f->step != 1) return schedule_fail(s, "loop '%s' has a step", s->args[0]);
    if (f->unroll) return schedule_fail(s, "loop '%s' is unrolled", s->args[0]);
    if (f->parallel && peel) return schedule_fail(s, "loop '%s' is parallel: it stays one loop with mask or branch", s->args[0]);
    if (is_left_early(&f->body)) return schedule_fail(s, "loop '%s' is left by break", s->args[0]);
    DimTable *t = s->p->dims;
    Arena *a = s->p->arena;
    const Dim *extent = dim_max(t, extent_of(s, f), dim_int(t, 0)), *size = dim_int(t, n), *rest = dim_mod(t, extent, size),
              *whole = dim_floordiv(t, extent, size);
    bool exact = dim_is(rest, 0);
    const Dim *blocks = peel && !exact ? whole : dim_ceildiv(t, extent, size);
    bool barrier = false;
    loop_walk(&f->body, find_barrier, &barrier);
    if (barrier && !exact && !peel) return schedule_fail(s, "loop '%s' has a barrier, which cannot stand under a condition", s->args[0]);
    Stmt *outer = new_loop(s, at.block, arena_printf(a, "%s_o", s->args[0]), blocks, f->loop);
    Stmt *inner = new_loop(s, at.block, arena_printf(a, "%s_i", s->args[0]), size, f->loop);
    const Dim *index = dim_add(t, f->lo, dim_add(t, dim_muli(t, outer->sym, n), inner->sym));
    Stmt *tail = exact || !(peel || branch) ? NULL : tail_loop(s, at.block, f, dim_mul(t, whole, size), rest);
    Block *body = &inner->body, *in_outer = &outer->body;
    if (!exact && !peel && !branch) body = &loop_if(s->p, body, x_op2(a, X_lt, x_dim(a, index), x_dim(a, f->hi)))->body;
    if (!exact && branch) {
        Stmt *which = loop_if(s->p, in_outer, x_op2(a, X_lt, x_dim(a, outer->sym), x_dim(a, whole)));
        vec_push(a, &which->orelse, tail);
        in_outer = &which->body;
    }
    const Dim *from = f->sym;
    Block moved = f->body;
    loop_subst(s->p, &moved, &from, &index, 1);
    for (int i = 0; i < moved.n; i++) vec_push(a, body, moved.data[i]);
    vec_push(a, in_outer, inner);
    outer->parallel = f->parallel;
    Block now = loop_block(at.block);
    vec_push(a, &now, outer);
    if (tail && peel) vec_push(a, &now, tail);
    schedule_replace(s, at, &now);
    return true;
}

static Stmt *only_inner(const Stmt *f) {
    return f->body.n == 1 && f->body.data[0]->kind == ST_FOR ? f->body.data[0] : NULL;
}

// fuse(i, j): j is all of i's body, both par: one loop i_j over the product.
bool schedule_fuse(Schedule *s) {
    LoopPlace at;
    if (!schedule_loop(s, 0, "p", &at)) return false;
    Stmt *i = at.stmt, *j = only_inner(i);
    if (!j || strcmp(dim_as_symbol(j->sym)->name, s->args[1]) || j->loop != LOOP_PAR)
        return schedule_fail(s, "'%s' is not all of the body of '%s'", s->args[1], s->args[0]);
    DimTable *t = s->p->dims;
    const Dim *ei = extent_of(s, i), *ej = extent_of(s, j);
    if (i->unroll || j->unroll) return schedule_fail(s, "a loop is unrolled");
    if (dim_has_symbol(ej, i->sym) || i->step != 1 || j->step != 1) return schedule_fail(s, "the loops do not form a rectangle");
    Stmt *f = new_loop(s, at.block, arena_printf(s->p->arena, "%s_%s", s->args[0], s->args[1]), dim_mul(t, ei, ej), LOOP_PAR);
    const Dim *from[] = {i->sym, j->sym};
    const Dim *to[] = {dim_add(t, i->lo, dim_floordiv(t, f->sym, ej)), dim_add(t, j->lo, dim_mod(t, f->sym, ej))};
    for (int k = 0; k < j->body.n; k++) vec_push(s->p->arena, &f->body, j->body.data[k]);
    loop_subst(s->p, &f->body, from, to, 2);
    put(s, at, f);
    return true;
}

// reorder(a, b, …): the named loops, a perfect nest of par loops in any order, outermost first as named.
bool schedule_reorder(Schedule *s) {
    Stmt *loops[SCHEDULE_ARGS];
    LoopPlace top = {0};
    for (int i = 0; i < s->nargs; i++) {
        LoopPlace at;
        if (!schedule_loop(s, i, "p", &at)) return false;
        loops[i] = at.stmt;
    }
    // The outermost of them in the text is the one whose nest holds all others.
    int depth = 0;
    for (int i = 0; i < s->nargs && !depth; i++) {
        Stmt *f = loops[i];
        int found = 1;
        for (Stmt *g = only_inner(f); g && found < s->nargs; g = only_inner(g)) {
            bool named = false;
            for (int k = 0; k < s->nargs; k++) named |= loops[k] == g;
            if (!named) break;
            found++;
        }
        if (found < s->nargs) continue;
        top = schedule_find(s->k, s->args[i]);
        depth = found;
    }
    if (!depth) return schedule_fail(s, "the loops are not a perfect nest");
    Stmt *innermost = top.stmt;
    for (int i = 1; i < s->nargs; i++) innermost = only_inner(innermost);
    Block body = innermost->body;
    for (int i = 0; i < s->nargs; i++)
        for (int k = 0; k < s->nargs; k++)
            if (dim_has_symbol(loops[i]->hi, loops[k]->sym) || dim_has_symbol(loops[i]->lo, loops[k]->sym))
                return schedule_fail(s, "the loops do not form a rectangle");
    for (int i = 0; i < s->nargs; i++) {
        loops[i]->body = loop_block(&body);
        if (i + 1 < s->nargs) vec_push(s->p->arena, &loops[i]->body, loops[i + 1]);
    }
    loops[s->nargs - 1]->body = body;
    put(s, top, loops[0]);
    return true;
}

bool schedule_unroll(Schedule *s) {
    LoopPlace at;
    if (!schedule_loop(s, 0, "prsR", &at)) return false;
    if (!dim_is_int(extent_of(s, at.stmt), NULL)) return schedule_fail(s, "loop '%s' has no constant extent", s->args[0]);
    at.stmt->unroll = true;
    return true;
}

bool schedule_parallel(Schedule *s) {
    LoopPlace at;
    if (!schedule_loop(s, 0, "p", &at)) return false;
    if (at.block != &s->k->body || s->k->body.n != 1)
        return schedule_fail(s, "loop '%s' is not the kernel's single outermost statement", s->args[0]);
    at.stmt->parallel = true;
    return true;
}
