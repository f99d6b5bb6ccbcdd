// Schedule primitive parts: a reduction over blocks of its iterations, each for all elements before the next. See docs/schedule.md.
//
// A long reduction streams a long panel of its operands for each element, or each tile of elements, again. With its iterations in parts,
// the panel of one part stays near while all elements of L add what that part gives; their states wait in memory in between. The order in
// which an element's parts are added is kept: the reduction loses its combine block, so that nobody cuts it further.
//
//   for i in 0..m par {                            local acc: f32[m]
//     reduce k in 0..n (s = 0.0) {                 for acc_i in 0..m par { acc[acc_i] = 0.0 }
//       set s = fma(x[n*i + k], w[k], s)           for k_o in 0..n/8 seq {
//     }                                      =>      for i in 0..m par {
//     y[i] = s                                         reduce k_i in 0..8 (s = acc[i]) { … }
//   }                                                  acc[i] = s
//                                                  } }
//                                                  for acc_i_f in 0..m par { y[acc_i_f] = acc[acc_i_f] }
#include "loop_region.h"
#include "loop_schedule.h"

#include <string.h>

enum { NEST = 16 };

typedef struct {
    Schedule *s;
    Program *p;
    LoopPlace at;     // of L
    Stmt *nest[NEST]; // L and the loops inside of it, outermost first
    int n;
    Stmt *reduce; // first statement of the innermost loop
    int64_t size, part;
    LoopBuffer **acc; // one a state
    const Dim *place; // element of the nest's iteration in each acc
} Parts;

static Stmt *only_loop(const Stmt *f) {
    return f->body.n == 1 && f->body.data[0]->kind == ST_FOR ? f->body.data[0] : NULL;
}

static bool find_nest(Parts *m) {
    Schedule *s = m->s;
    if (!schedule_loop(s, 0, "p", &m->at)) return false;
    m->size = 1;
    for (Stmt *f = m->at.stmt; f; f = only_loop(f)) {
        int64_t extent;
        if (f->loop != LOOP_PAR || f->step != 1 || m->n == NEST) return schedule_fail(s, "'%s' is no nest of par loops", s->args[0]);
        if (!dim_is_int(dim_sub(m->p->dims, f->hi, f->lo), &extent) || extent < 1 || __builtin_mul_overflow(m->size, extent, &m->size) ||
            m->size > REGION_MOST)
            return schedule_fail(s, "loop '%s' has no constant extent, or too many elements", dim_as_symbol(f->sym)->name);
        for (int i = 0; i < m->n; i++)
            if (dim_has_symbol(f->lo, m->nest[i]->sym) || dim_has_symbol(f->hi, m->nest[i]->sym))
                return schedule_fail(s, "the loops do not form a rectangle");
        m->nest[m->n++] = f;
    }
    return true;
}

static void find_refused(void *ctx, Stmt *s) {
    const char **why = ctx;
    if (s->kind == ST_BREAK) *why = "is left by break";
    if (s->kind == ST_CHECK) *why = "holds a check";
    if (s->kind == ST_STORE && ((const LoopBuffer *)s->var->owner)->kind != BUF_LOCAL) *why = "writes memory";
    if (s->kind == ST_BARRIER || s->kind == ST_TEAM || s->kind == ST_CALL) *why = "is not plain";
}

static void find_set(void *ctx, Stmt *s) {
    Parts *m = ctx;
    for (int i = 0; i < m->reduce->nstates; i++)
        if (s->kind == ST_SET && s->var == m->reduce->states[i]) m->part = 0;
}

static bool find_reduce(Parts *m) {
    Schedule *s = m->s;
    Block *body = &m->nest[m->n - 1]->body;
    const char *why = NULL;
    m->reduce = body->n ? body->data[0] : NULL;
    if (!m->reduce || m->reduce->kind != ST_REDUCE || strcmp(dim_as_symbol(m->reduce->sym)->name, s->args[1]))
        return schedule_fail(s, "reduction '%s' is not the first statement inside of '%s'", s->args[1], s->args[0]);
    loop_walk(&m->reduce->body, find_refused, &why);
    if (why) return schedule_fail(s, "'%s' %s", s->args[1], why);
    if (m->reduce->step != 1 || m->reduce->unroll) return schedule_fail(s, "loop '%s' has a step or is unrolled", s->args[1]);
    for (int i = 0; i < m->n; i++)
        if (dim_has_symbol(m->reduce->lo, m->nest[i]->sym) || dim_has_symbol(m->reduce->hi, m->nest[i]->sym))
            return schedule_fail(s, "the bounds of '%s' move with '%s'", s->args[1], dim_as_symbol(m->nest[i]->sym)->name);
    for (int i = 0; i < m->reduce->nstates; i++)
        if (m->reduce->states[i]->type.lanes != 1) return schedule_fail(s, "'%s' has lanes", s->args[1]);
    Block rest = {.data = body->data + 1, .n = body->n - 1};
    loop_walk(&rest, find_set, m);
    return m->part || schedule_fail(s, "the state of '%s' is set behind it", s->args[1]);
}

static bool make_buffers(Parts *m, Block *to) {
    Schedule *s = m->s;
    DimTable *t = m->p->dims;
    m->acc = ARENA_ARRAY(m->p->arena, LoopBuffer *, m->reduce->nstates + 1);
    if (loop_reserved(s->args[3], strlen(s->args[3]))) return schedule_fail(s, "'%s' cannot be a name", s->args[3]);
    for (int i = 0; i < m->reduce->nstates; i++) m->acc[i] = loop_local(m->p, to, s->args[3], m->reduce->states[i]->type.type, m->size);
    if (m->reduce->nstates && strcmp(m->acc[0]->var.name, s->args[3])) return schedule_fail(s, "the name '%s' is taken", s->args[3]);
    m->place = dim_int(t, 0);
    for (int i = 0; i < m->n; i++) {
        const Stmt *f = m->nest[i];
        m->place = dim_add(t, dim_mul(t, m->place, dim_sub(t, f->hi, f->lo)), dim_sub(t, f->sym, f->lo));
    }
    return true;
}

// The nest's loops again, with names of their own. Returns the innermost body; *place: the element.
static Block *another_nest(Parts *m, Block *to, LoopMap *map, const char *form, const Dim **place) {
    const Dim *from[NEST], *now[NEST];
    for (int i = 0; i < m->n; i++) {
        const Stmt *f = m->nest[i];
        const char *name = arena_printf(m->p->arena, form, m->s->args[3], dim_as_symbol(f->sym)->name);
        Stmt *own = loop_for(m->p, to, name, f->lo, f->hi, LOOP_PAR);
        from[i] = f->sym;
        now[i] = own->sym;
        loop_map_symbol(map, f->sym, own->sym);
        to = &own->body;
    }
    *place = dim_subst(m->p->dims, m->place, from, now, m->n);
    return to;
}

static void first_nest(Parts *m, Block *to) {
    LoopMap *map = loop_map_new(m->p);
    const Dim *place;
    Block *body = another_nest(m, to, map, "%s_%s", &place);
    for (int i = 0; i < m->reduce->nstates; i++) loop_store(m->p, body, m->acc[i], place, loop_map_expr(map, m->reduce->inits[i]));
}

// What stands behind the reduction, on the final states.
static void last_nest(Parts *m, Block *to) {
    LoopMap *map = loop_map_new(m->p);
    const Dim *place;
    Block *body = another_nest(m, to, map, "%s_%s_f", &place);
    const Block *old = &m->nest[m->n - 1]->body;
    for (int i = 0; i < m->reduce->nstates; i++) {
        Var *state = m->reduce->states[i];
        loop_map_var(map, state, loop_let(m->p, body, state->name, x_load(m->p->arena, &m->acc[i]->var, place)));
    }
    for (int i = 1; i < old->n; i++) loop_map_copy(map, body, old->data[i]);
}

// The reduction over one part, from the states of the parts before it.
static void middle_nest(Parts *m, Block *to) {
    DimTable *t = m->p->dims;
    Stmt *r = m->reduce;
    const char *name = m->s->args[1];
    const Dim *extent = dim_max(t, dim_sub(t, r->hi, r->lo), dim_int(t, 0)), *part = dim_int(t, m->part), *sym = r->sym;
    Stmt *outer = loop_for(m->p, to, arena_printf(m->p->arena, "%s_o", name), dim_int(t, 0), dim_ceildiv(t, extent, part), LOOP_SEQ);
    const Dim *before = dim_muli(t, outer->sym, m->part);
    r->hi = dim_is(dim_mod(t, extent, part), 0) ? part : dim_min(t, part, dim_sub(t, extent, before));
    const Dim *lo = dim_int(t, 0);
    r->sym = dim_symbol(t, loop_fresh(m->p, to, arena_printf(m->p->arena, "%s_i", name)), SYM_LOOP, lo, loop_last(t, lo, r->hi, 1));
    const Dim *index = dim_add(t, r->lo, dim_add(t, before, r->sym));
    r->lo = lo;
    loop_subst(m->p, &r->body, &sym, &index, 1);
    r->orelse = loop_block(&r->body);
    Block *body = &m->nest[m->n - 1]->body;
    body->n = 1;
    for (int i = 0; i < r->nstates; i++) {
        r->inits[i] = x_load(m->p->arena, &m->acc[i]->var, m->place);
        loop_store(m->p, body, m->acc[i], m->place, x_var(m->p->arena, r->states[i]));
    }
    vec_push(m->p->arena, &outer->body, m->nest[0]);
}

// parts(L, r, n, acc): the reduction r, the first statement of the nest of par loops L, n of its iterations at a time, for all of L before
// the next n. The states are kept in a local buffer `acc` between the parts. Refused when the nest has no constant extents, when the
// reduction writes memory, checks something or is left by break, when its bounds move with the nest.
bool schedule_parts(Schedule *s) {
    Parts m = {.s = s, .p = s->p};
    if (!schedule_int(s, 2, 1, &m.part) || !find_nest(&m) || !find_reduce(&m)) return false;
    Block now = loop_block(m.at.block);
    if (!make_buffers(&m, &now)) return false;
    first_nest(&m, &now);
    Block last = loop_block(m.at.block);
    last_nest(&m, &last);
    middle_nest(&m, &now);
    for (int i = 0; i < last.n; i++) vec_push(s->p->arena, &now, last.data[i]);
    schedule_replace(s, m.at, &now);
    return true;
}
