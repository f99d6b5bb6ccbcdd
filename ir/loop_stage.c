// Schedule primitives that copy what a loop's iteration uses into a local buffer: stage, pack. See docs/schedule.md.
#include "loop_storage.h"

#include <string.h>

typedef struct {
    Schedule *s;
    Program *p;
    DimTable *t;
    LoopPlace at;
    LoopBuffer *b, *copy;
    AccessVec all; // of b in the loop's body
    DimVec facts;  // of the conditions around the loop
} Stage;

static bool breaks_loop(const Block *b) {
    for (int i = 0; i < b->n; i++) {
        const Stmt *s = b->data[i];
        if (s->kind == ST_BREAK || (s->kind == ST_IF && (breaks_loop(&s->body) || breaks_loop(&s->orelse)))) return true;
    }
    return false;
}

static bool open_stage(Stage *g) {
    Schedule *s = g->s;
    if (!schedule_buffer(s, 0, &g->b) || !schedule_loop(s, 1, "prsR", &g->at)) return false;
    if (storage_is_inside(s, g->b, g->at.stmt)) return schedule_fail(s, "'%s' is local to '%s' already", s->args[0], s->args[1]);
    kernel_facts(g->p, s->k, g->at.stmt, &g->facts);
    access_collect(g->p, &g->at.stmt->body, g->b, &g->facts, &g->all);
    if (!g->all.n) return schedule_fail(s, "'%s' is not used in '%s'", s->args[0], s->args[1]);
    return true;
}

static bool is_written(const Stage *g) {
    for (int i = 0; i < g->all.n; i++)
        if (!g->all.data[i].load) return true;
    return false;
}

// No other buffer that the loop's body uses may be the same memory, where one of the two is written.
static bool check_alias(Stage *g) {
    Effects e = {.arena = g->p->arena};
    for (int i = 0; i < g->at.stmt->body.n; i++) effects_add(&e, g->at.stmt->body.data[i]);
    for (int i = 0; i < e.writes.n; i++) {
        const LoopBuffer *w = e.writes.data[i]->owner;
        if (w != g->b && kernel_alias(w, g->b) != ALIAS_DISJOINT)
            return schedule_fail(g->s, "'%s' may overlap '%s'", w->var.name, g->b->var.name);
    }
    for (int i = 0; i < e.reads.n && is_written(g); i++) {
        const LoopBuffer *r = e.reads.data[i]->owner;
        if (r != g->b && kernel_alias(g->b, r) != ALIAS_DISJOINT)
            return schedule_fail(g->s, "'%s' may overlap '%s'", r->var.name, g->b->var.name);
    }
    return true;
}

// The copy's `local` statement goes in front of the loop's body.
static bool make_copy(Stage *g, int64_t size) {
    Schedule *s = g->s;
    Block made = loop_block(&g->at.stmt->body);
    if (loop_reserved(s->args[2], strlen(s->args[2]))) return schedule_fail(s, "'%s' cannot be a name", s->args[2]);
    g->copy = loop_local(g->p, &made, s->args[2], g->b->var.type.type, size);
    if (strcmp(g->copy->var.name, s->args[2])) return schedule_fail(s, "the name '%s' is taken", s->args[2]);
    schedule_insert(s, &g->at.stmt->body, 0, made.data[0]);
    return true;
}

// for name_0 in 0..n0 par { for name_1 … { the copy's element = the buffer's, or the reverse } } over the box.
static Stmt *copy_nest(Stage *g, const StorageBox *box, const Region *r, bool back) {
    Block outer = loop_block(&g->at.stmt->body), *in = &outer;
    const Dim *from = dim_int(g->t, 0), *to = from;
    for (int j = 0; j < box->g.n; j++) {
        const Dim *v = dim_int(g->t, 0), *extent = dim_addi(g->t, dim_sub(g->t, r->hi[j], r->lo[j]), 1);
        if (!dim_is(extent, 1)) {
            Stmt *f = loop_for(g->p, in, arena_printf(g->p->arena, "%s_%d", g->copy->var.name, j), v, extent, LOOP_PAR);
            in = &f->body;
            v = f->sym;
        }
        from = dim_add(g->t, from, dim_mul(g->t, dim_add(g->t, r->lo[j], v), box->g.stride[j]));
        to = dim_add(g->t, to, dim_muli(g->t, v, box->stride[j]));
    }
    if (back)
        loop_store(g->p, in, g->b, from, x_load(g->p->arena, &g->copy->var, to));
    else
        loop_store(g->p, in, g->copy, to, x_load(g->p->arena, &g->b->var, from));
    return outer.data[0];
}

// ---- stage ----

static bool is_shared(Stage *g) { // iterations of a loop that has no order may write neighbours
    StmtVec path = {0};
    kernel_path(g->p, g->s->k, g->at.stmt, &path);
    for (int i = 0; i < path.n; i++)
        if (path.data[i]->kind == ST_REDUCE || (path.data[i]->kind == ST_FOR && path.data[i]->loop != LOOP_SEQ)) return true;
    return false;
}

static bool has_exact_store(Stage *g, const Digits *d, const Region *whole) {
    for (int i = 0; i < g->all.n; i++) {
        AccessVec one = {.data = &g->all.data[i], .n = 1};
        Region part = {0};
        if (!region_is_exact(g->t, d, one.data) || region_hull(g->p, d, &one, &part)) continue;
        if (region_within(g->t, d, whole, &part)) return true;
    }
    return false;
}

// Whether the copy has to be filled first; false with *ok false: it cannot be.
static bool needs_filling(Stage *g, const Digits *d, const Region *r, bool *ok) {
    Schedule *s = g->s;
    bool written = is_written(g), exact = has_exact_store(g, d, r);
    *ok = true;
    if (exact && storage_is_covered(s, d, &g->at.stmt->body, g->b)) return false;
    if (written && is_shared(g) && !exact)
        *ok = schedule_fail(s, "an iteration of '%s' may write a part of the region only", s->args[1]);
    else if (!g->b->reads && g->b->kind == BUF_PARAM)
        *ok = schedule_fail(s, "'%s' is not readable and may be written in part", s->args[0]);
    return true;
}

// stage(B, L, name): what an iteration of L uses of the buffer B is kept in a local buffer of that name: copied in front of the body,
// used there, and written back after it when the body writes B. For data that is used many times but lies far apart. Refused when the
// region is not a box of constant size inside of B, when other memory in L may overlap B, when L is left by break before B is written back,
// when iterations in no order would write back elements that they did not write.
bool schedule_stage(Schedule *s) {
    Stage g = {.s = s, .p = s->p, .t = s->p->dims};
    if (!open_stage(&g) || !check_alias(&g)) return false;
    const LoopBuffer *shape = storage_shape(s, g.b);
    Digits d;
    Region r = {0};
    digits_choose(s->p, shape, &g.all, &d);
    const char *why = region_hull(s->p, &d, &g.all, &r);
    if (why) return schedule_fail(s, "%s: %s", s->args[0], why);
    if (!region_size(&d, &r)) return schedule_fail(s, "what '%s' uses of '%s' has no constant size", s->args[1], s->args[0]);
    if (!region_inside(g.t, &d, &r, &g.facts, loop_buffer_size(s->p, shape)))
        return schedule_fail(s, "what '%s' uses is not proven to lie inside of '%s'", s->args[1], s->args[0]);
    bool written = is_written(&g), ok, fill = needs_filling(&g, &d, &r, &ok);
    if (!ok) return false;
    if (written && (g.at.stmt->kind == ST_REDUCE || breaks_loop(&g.at.stmt->body)))
        return schedule_fail(s, "'%s' is a reduce or is left by break", s->args[1]);
    StorageBox box = storage_box(g.t, &d, &r);
    if (!make_copy(&g, box.size)) return false;
    storage_rewrite(s->p, &g.at.stmt->body, g.b, g.copy, storage_place, &box);
    if (fill) schedule_insert(s, &g.at.stmt->body, 1, copy_nest(&g, &box, &r, false));
    if (written) schedule_insert(s, &g.at.stmt->body, g.at.stmt->body.n, copy_nest(&g, &box, &r, true));
    return true;
}

// ---- pack ----

typedef struct {
    Stage g;
    const Stmt *loops[SCHEDULE_ARGS]; // as named, outermost in the layout first
    int64_t caps[SCHEDULE_ARGS];
    int n;
    const Dim *index; // of every access
    int lanes;
    int64_t step, size;
} Pack;

static bool is_inner(const Access *a, const Dim *d) {
    for (int i = 0; i < a->inner.n; i++)
        if (dim_has_symbol(d, a->inner.data[i])) return true;
    return false;
}

static bool find_loops(Pack *k) {
    Schedule *s = k->g.s;
    k->n = s->nargs - 3;
    k->size = k->lanes;
    for (int i = 0; i < k->n; i++) {
        LoopPlace at;
        int64_t least;
        if (!schedule_loop(s, i + 3, "prsR", &at)) return false;
        const Stmt *f = k->loops[i] = at.stmt;
        for (int j = 0; j < k->g.all.n; j++)
            if (!access_under(&k->g.all.data[j], f) || is_inner(&k->g.all.data[j], f->lo) || is_inner(&k->g.all.data[j], f->hi))
                return schedule_fail(
                    s, "'%s' is no loop inside of '%s' with fixed bounds around all of '%s'", s->args[i + 3], s->args[1], s->args[0]);
        dim_interval(dim_sub(k->g.t, f->hi, f->lo), &least, &k->caps[i]);
        if (f->step != 1 || k->caps[i] == DIM_INF || k->caps[i] < 1 || __builtin_mul_overflow(k->size, k->caps[i], &k->size) ||
            k->size > REGION_MOST)
            return schedule_fail(s, "loop '%s' has no constant extent", s->args[i + 3]);
    }
    return true;
}

// All accesses are one: the same element for the same values of the named loops.
static bool find_index(Pack *k) {
    Schedule *s = k->g.s;
    const Access *first = &k->g.all.data[0];
    if (is_written(&k->g)) return schedule_fail(s, "'%s' is written", s->args[0]);
    k->index = first->index;
    k->lanes = first->load->type.lanes;
    k->step = first->step;
    for (int i = 0; i < k->g.all.n; i++) {
        const Access *a = &k->g.all.data[i];
        bool plain = !a->gathers && !a->punned && (!a->load->a[1] || a->load->type.lanes == 1);
        if (!plain || a->index != k->index || a->load->type.lanes != k->lanes || a->step != k->step)
            return schedule_fail(s, "'%s' is read in more than one way", s->args[0]);
    }
    return true;
}

static bool check_symbols(Pack *k) {
    const Access *a = &k->g.all.data[0];
    for (int i = 0; i < a->inner.n; i++) {
        bool named = !dim_has_symbol(k->index, a->inner.data[i]);
        for (int j = 0; j < k->n; j++) named |= k->loops[j]->sym == a->inner.data[i];
        if (!named)
            return schedule_fail(
                k->g.s, "'%s' is read by '%s', which is not named", k->g.s->args[0], dim_as_symbol(a->inner.data[i])->name);
    }
    return true;
}

static bool stays_inside(Pack *k, const DimVec *facts) {
    DimTable *t = k->g.t;
    const Access *a = &k->g.all.data[0];
    const Dim *size = loop_buffer_size(k->g.p, storage_shape(k->g.s, k->g.b));
    if (!size) return false;
    return facts_prove(t, facts, dim_addi(t, k->index, a->low)) &&
           facts_prove(t, facts, dim_addi(t, dim_sub(t, size, k->index), -1 - a->high));
}

static void find_exit(void *ctx, Stmt *s) {
    if (s->kind == ST_BREAK || s->kind == ST_CHECK || s->kind == ST_WHILE) *(bool *)ctx = true;
}

// Each iteration of L reads all that the named loops run over, whatever data say: the program itself keeps that inside of B.
static bool is_surely_read(Pack *k) {
    bool exits = false;
    loop_walk(&k->g.at.stmt->body, find_exit, &exits);
    for (int i = 0; i < k->g.all.n && !exits; i++) {
        const Access *a = &k->g.all.data[i];
        bool sure = !a->vague && a->guards.n == a->facts;
        for (int j = 0; j < a->path.n && sure; j++) {
            const Stmt *f = a->path.data[j];
            bool loop = f->kind == ST_FOR || f->kind == ST_REDUCE;
            sure = loop && dim_ge0(k->g.t, dim_addi(k->g.t, dim_sub(k->g.t, f->hi, f->lo), -1)) == YES;
        }
        if (sure) return true;
    }
    return false;
}

// The guards of the only access that mention nothing but named loops: the copy is filled under them. False: not inside even so.
static bool find_guards(Pack *k, DimVec *guards) {
    if (is_surely_read(k) || stays_inside(k, &k->g.facts)) return true;
    const Access *a = &k->g.all.data[0];
    DimVec known = k->g.facts;
    known.cap = known.n; // so that a push copies it
    for (int i = a->facts; i < a->guards.n && k->g.all.n == 1; i++) {
        bool usable = true;
        for (int j = 0; j < a->inner.n; j++) {
            bool named = !dim_has_symbol(a->guards.data[i], a->inner.data[j]);
            for (int l = 0; l < k->n; l++) named |= k->loops[l]->sym == a->inner.data[j];
            usable &= named;
        }
        if (!usable) continue;
        vec_push(k->g.p->arena, guards, a->guards.data[i]);
        vec_push(k->g.p->arena, &known, a->guards.data[i]);
    }
    return stays_inside(k, &known);
}

static void packed_place(void *ctx, const Dim **index, int64_t *step) {
    const Pack *k = ctx;
    const Dim *at = dim_int(k->g.t, 0);
    for (int i = 0; i < k->n; i++) {
        const Stmt *f = k->loops[i];
        at = dim_add(k->g.t, dim_muli(k->g.t, at, k->caps[i]), dim_sub(k->g.t, f->sym, f->lo));
    }
    *index = dim_muli(k->g.t, at, k->lanes);
    *step = 1;
}

// The guards as one condition; NULL: there are none.
static const Expr *all_of(Pack *k, const DimVec *guards, const Dim *const *from, const Dim *const *to) {
    Arena *a = k->g.p->arena;
    const Expr *all = NULL;
    for (int i = 0; i < guards->n; i++) {
        const Dim *g = dim_subst(k->g.t, guards->data[i], from, to, k->n);
        const Expr *one = x_op2(a, X_ge, x_dim(a, g), x_int(a, DT_idx, 0));
        all = all ? x_op2(a, X_and, all, one) : one;
    }
    return all;
}

static Stmt *fill_nest(Pack *k, const DimVec *guards) {
    Program *p = k->g.p;
    DimTable *t = k->g.t;
    Block outer = loop_block(&k->g.at.stmt->body), *in = &outer;
    const char *name = k->g.copy->var.name;
    const Dim *from[SCHEDULE_ARGS], *to[SCHEDULE_ARGS], *at = NULL, *lane = dim_int(t, 0);
    int64_t step;
    packed_place(k, &at, &step);
    for (int i = 0; i < k->n; i++) {
        const Stmt *f = k->loops[i];
        Stmt *own = loop_for(p, in, arena_printf(p->arena, "%s_%s", name, dim_as_symbol(f->sym)->name), f->lo, f->hi, LOOP_PAR);
        in = &own->body;
        from[i] = f->sym;
        to[i] = own->sym;
    }
    const Expr *cond = all_of(k, guards, from, to);
    if (cond) in = &loop_if(p, in, cond)->body;
    if (k->lanes > 1) {
        Stmt *l = loop_for(p, in, arena_printf(p->arena, "%s_lane", name), lane, dim_int(t, k->lanes), LOOP_PAR);
        in = &l->body;
        lane = l->sym;
    }
    const Dim *source = dim_add(t, dim_subst(t, k->index, from, to, k->n), dim_muli(t, lane, k->step));
    loop_store(p, in, k->g.copy, dim_add(t, dim_subst(t, at, from, to, k->n), lane), x_load(p->arena, &k->g.b->var, source));
    return outer.data[0];
}

// pack(B, L, name, i, j, …): in front of L's body the elements of B that the named loops inside read are copied into a local buffer of that
// name in the order in which loops i, j, … read them, the last one's side by side; the reads then go through the copy in order. For panels
// of a matrix, and for windows (an element may be copied more than once). Refused when B is written in L, when its accesses there are not
// one and the same, when a loop moves it that is not named, when an extent is not constant, when a copied element may lie outside of B.
bool schedule_pack(Schedule *s) {
    Pack k = {.g = {.s = s, .p = s->p, .t = s->p->dims}};
    DimVec guards = {0};
    if (!open_stage(&k.g) || !check_alias(&k.g) || !find_index(&k) || !find_loops(&k) || !check_symbols(&k)) return false;
    if (!find_guards(&k, &guards)) return schedule_fail(s, "what '%s' uses is not proven to lie inside of '%s'", s->args[1], s->args[0]);
    if (!make_copy(&k.g, k.size)) return false;
    storage_rewrite(s->p, &k.g.at.stmt->body, k.g.b, k.g.copy, packed_place, &k);
    schedule_insert(s, &k.g.at.stmt->body, 1, fill_nest(&k, &guards));
    return true;
}
