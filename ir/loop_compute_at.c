// Schedule primitive compute_at: a producer's nest moves into a loop of its consumer. See docs/schedule.md.
//
//   for i { t[i] = … }                 for j {
//   for j { y[j] = … t[j] t[j+1] }  →    for i in j..j+2 { t[i] = … }     what one iteration reads
//                                        y[j] = … }
// The region that one iteration reads is a box (loop_region.h). The producer's loops run over its part of their range that reaches the box.
#include "loop_storage.h"

#include <string.h>

typedef struct {
    Schedule *s;
    Program *p;
    DimTable *t;
    LoopPlace from, at; // the producer's nest; the consumer's loop
    int consumer;       // statement of from.block that holds the loop
    Stmt *keep;         // loop whose body gets the buffer, NULL: it stays where it is
    bool slides;        // each element is computed once
    LoopBuffer *b;
    Digits g;
    Access store; // the producer's
    Region need;  // what one iteration reads
} Move;

static Block single(Move *m, Stmt **s) {
    return (Block){.data = s, .n = 1, .cap = 1, .names = m->s->k->body.names};
}

// ---- what moves where ----

static bool find_places(Move *m) {
    Schedule *s = m->s;
    if (!schedule_loop(s, 0, "p", &m->from) || !schedule_loop(s, 1, "prsR", &m->at)) return false;
    StmtVec path = {0};
    kernel_path(m->p, s->k, m->at.stmt, &path);
    int depth = 0;
    for (m->consumer = -1; depth < path.n && m->consumer < 0; depth++)
        for (int i = m->from.at + 1; i < m->from.block->n; i++)
            if (m->from.block->data[i] == path.data[depth]) m->consumer = i;
    if (m->consumer < 0) return schedule_fail(s, "'%s' is not in a nest after '%s'", s->args[1], s->args[0]);
    m->slides = s->nargs == 3;
    m->keep = m->slides ? NULL : m->at.stmt;
    if (!m->slides) return true;
    bool open = !strcmp(s->args[2], "root"); // the loops from here on share the buffer
    for (int i = depth - 1; i < path.n - 1; i++) {
        Stmt *f = path.data[i];
        if (open && f->kind != ST_IF && (f->kind != ST_FOR || f->loop != LOOP_SEQ))
            return schedule_fail(s, "iterations of a loop around '%s' that is not seq would share the buffer", s->args[1]);
        bool here = f->kind == ST_FOR && !strcmp(dim_as_symbol(f->sym)->name, s->args[2]);
        if (here) m->keep = f;
        open |= here;
    }
    return open || schedule_fail(s, "'%s' is no loop around '%s'", s->args[2], s->args[1]);
}

static bool find_buffer(Move *m) {
    Schedule *s = m->s;
    Effects e = {.arena = m->p->arena};
    effects_add(&e, m->from.stmt);
    if (e.writes.n != 1) return schedule_fail(s, "'%s' has %d stores, expected one", s->args[0], e.writes.n);
    if (e.ordered) return schedule_fail(s, "'%s' has a check or a break: it must run as it stands", s->args[0]);
    m->b = (LoopBuffer *)(uintptr_t)e.writes.data[0]->owner;
    for (int i = 0; i < e.reads.n; i++)
        if (e.reads.data[i] == &m->b->var) return schedule_fail(s, "'%s' reads what it writes", s->args[0]);
    const char *why = storage_private(s, m->b);
    return !why || schedule_fail(s, "'%s' cannot move: %s", m->b->var.name, why);
}

// What the producer reads stays as it is until the consumer ends, and no one else touches its buffer.
static bool check_effects(Move *m) {
    Schedule *s = m->s;
    Effects own = {.arena = m->p->arena}, crossed = {.arena = m->p->arena};
    effects_add(&own, m->from.stmt);
    for (int i = m->from.at + 1; i <= m->consumer; i++) effects_add(&crossed, m->from.block->data[i]);
    for (int i = 0; i < crossed.sets.n; i++)
        for (int k = 0; k < own.uses.n; k++)
            if (crossed.sets.data[i] == own.uses.data[k]) return schedule_fail(s, "'%s' is set in between", own.uses.data[k]->name);
    for (int i = 0; i < crossed.writes.n; i++) {
        const LoopBuffer *w = crossed.writes.data[i]->owner;
        bool same = w == m->b;
        for (int k = 0; k < own.reads.n; k++) {
            same |= &w->var == own.reads.data[k];
            if (same || kernel_alias(w, own.reads.data[k]->owner) != ALIAS_DISJOINT)
                return schedule_fail(s, "'%s' may change what '%s' reads", w->var.name, s->args[0]);
        }
        if (same || kernel_alias(w, m->b) != ALIAS_DISJOINT) return schedule_fail(s, "'%s' may overlap '%s'", w->var.name, m->b->var.name);
    }
    return true;
}

static bool find_region(Move *m) {
    Schedule *s = m->s;
    AccessVec all = {0}, reads = {0};
    DimVec facts = {0};
    access_collect(m->p, &s->k->body, m->b, NULL, &all);
    for (int i = 0; i < all.n; i++) {
        const Access *a = &all.data[i];
        if (!access_under(a, a->load ? m->at.stmt : m->from.stmt))
            return schedule_fail(s, "'%s' is %s elsewhere", m->b->var.name, a->load ? "read" : "written");
    }
    kernel_facts(m->p, s->k, m->at.stmt, &facts);
    access_collect(m->p, &m->at.stmt->body, m->b, &facts, &reads);
    if (!reads.n) return schedule_fail(s, "'%s' does not read '%s' in its body", s->args[1], m->b->var.name);
    digits_choose(m->p, storage_shape(s, m->b), &all, &m->g);
    const char *why = region_hull(m->p, &m->g, &reads, &m->need);
    return !why || schedule_fail(s, "what '%s' needs of '%s' is not known: %s", s->args[1], m->b->var.name, why);
}

// ---- the producer's loops over a part of the box ----

typedef struct {
    Stmt *loop;
    const Dim *lo, *hi;
} Part;

// The loop that moves the digit fastest and its values that reach lo..hi.
static bool part_of_digit(Move *m, const Access *a, int j, const Dim *lo, const Dim *hi, Part *out) {
    DimTable *t = m->t;
    const Dim *digit[REGION_DIGITS], *c, *rest, *most = NULL;
    int64_t v, best = 0, stride = 1;
    digits_split(t, &m->g, a->index, digit);
    for (int i = 0; i < a->inner.n; i++) {
        if (!dim_has_symbol(digit[j], a->inner.data[i])) continue;
        if (!dim_linear(t, digit[j], a->inner.data[i], &c, &rest) || !dim_is_int(c, &v) || v < 1) return false;
        if (v > best) best = v, most = a->inner.data[i];
    }
    out->loop = NULL;
    if (!best) return true;
    dim_linear(t, digit[j], most, &c, &rest);
    const Dim *least = region_bound(t, rest, &a->inner, false), *largest = region_bound(t, rest, &a->inner, true);
    for (int i = 0; i < a->path.n; i++)
        if (a->path.data[i]->sym == most) out->loop = a->path.data[i];
    if (!out->loop || out->loop->kind != ST_FOR || !least || !largest) return false;
    if (digits_lane(t, &m->g, a) == j && (a->low || a->high) && dim_is_int(m->g.stride[j], &stride)) {
        least = dim_addi(t, least, a->low / stride);
        largest = dim_addi(t, largest, a->high / stride);
    }
    out->lo = dim_ceildiv(t, dim_sub(t, lo, largest), dim_int(t, best));
    out->hi = dim_addi(t, dim_floordiv(t, dim_sub(t, hi, least), dim_int(t, best)), 1);
    return true;
}

static void set_bounds(Move *m, Stmt *f, const Dim *lo, const Dim *hi) {
    const Dim *old = f->sym;
    f->lo = lo;
    f->hi = hi;
    f->sym = dim_symbol(m->t, dim_as_symbol(old)->name, SYM_LOOP, lo, dim_addi(m->t, hi, -1));
    loop_subst(m->p, &f->body, &old, &f->sym, 1);
}

// Lets the nest run over the part of its range that writes elements of the box lo..hi.
static bool restrict_nest(Move *m, Stmt *nest, const Dim *const *lo, const Dim *const *hi) {
    Schedule *s = m->s;
    AccessVec stores = {0};
    Block one = single(m, &nest);
    access_collect(m->p, &one, m->b, NULL, &stores);
    digits_learn(m->p, &m->g, &stores);
    Part part[REGION_DIGITS];
    for (int j = 0; j < m->g.n; j++) {
        if (!part_of_digit(m, &stores.data[0], j, lo[j], hi[j], &part[j]))
            return schedule_fail(s, "the index '%s' writes at is not simple enough", s->args[0]);
        if (part[j].loop && part[j].loop->unroll) return schedule_fail(s, "loop '%s' is unrolled", dim_as_symbol(part[j].loop->sym)->name);
        if (part[j].loop && part[j].loop->step != 1)
            return schedule_fail(s, "loop '%s' has a step", dim_as_symbol(part[j].loop->sym)->name);
    }
    const StmtVec *path = &stores.data[0].path;
    for (int i = path->n - 1; i >= 0; i--) // the innermost first: the outer ones' symbols stay as they are
        for (int j = 0; j < m->g.n; j++) {
            Stmt *f = part[j].loop;
            if (f == path->data[i]) set_bounds(m, f, dim_max(m->t, f->lo, part[j].lo), dim_min(m->t, f->hi, part[j].hi));
        }
    return true;
}

// A buffer that was there before the producer ran must not lend it elements: all that is read is what it writes.
static bool check_cover(Move *m) {
    LoopPlace local = storage_declaration(m->s, m->b);
    if (local.block == m->from.block || !m->keep) return true;
    AccessVec stores = {0};
    Region whole = {0};
    Block one = single(m, &m->from.stmt);
    access_collect(m->p, &one, m->b, NULL, &stores);
    bool exact = region_is_exact(m->t, &m->g, &stores.data[0]) && !region_hull(m->p, &m->g, &stores, &whole);
    return (exact && region_within(m->t, &m->g, &m->need, &whole)) ||
           schedule_fail(m->s, "'%s' may read elements of '%s' that '%s' does not write", m->s->args[1], m->b->var.name, m->s->args[0]);
}

// ---- each element once ----

static const Dim *at_value(Move *m, const Dim *d, const Dim *value) {
    return dim_subst(m->t, d, &m->at.stmt->sym, &value, 1);
}

// The rows that an iteration needs and the ones before it did not; what the first finds missing is computed in front of the loop.
static bool slide(Move *m) {
    Schedule *s = m->s;
    Stmt *f = m->at.stmt;
    DimTable *t = m->t;
    int j = -1;
    if (f->kind != ST_FOR || f->loop == LOOP_RED) return schedule_fail(s, "'%s' has no order", s->args[1]);
    for (int i = 0; i < m->g.n; i++) {
        if (!dim_has_symbol(m->need.lo[i], f->sym) && !dim_has_symbol(m->need.hi[i], f->sym)) continue;
        if (j >= 0) return schedule_fail(s, "what '%s' needs moves in two directions", s->args[1]);
        j = i;
    }
    if (j < 0) return schedule_fail(s, "what '%s' needs does not move", s->args[1]);
    const Dim *lo = m->need.lo[j], *hi = m->need.hi[j], *next = dim_addi(t, f->sym, f->step), *prev = dim_addi(t, f->sym, -f->step);
    if (dim_le(t, lo, at_value(m, lo, next)) != YES || dim_le(t, hi, at_value(m, hi, next)) != YES)
        return schedule_fail(s, "what '%s' needs does not move on", s->args[1]);
    const Dim *known = at_value(m, hi, prev);
    if (dim_lt(t, known, lo) == YES) return true; // no element is needed twice
    if (f->parallel) return schedule_fail(s, "'%s' runs in parallel", s->args[1]);
    const Dim *first = at_value(m, lo, f->lo), *before = at_value(m, hi, dim_addi(t, f->lo, -f->step));
    f->loop = LOOP_SEQ;
    if (dim_le(t, first, before) != NO) {
        Block source = single(m, &m->from.stmt), made = loop_block(m->at.block);
        const Dim *los[REGION_DIGITS], *his[REGION_DIGITS];
        memcpy(los, m->need.lo, sizeof los);
        memcpy(his, m->need.hi, sizeof his);
        los[j] = first;
        his[j] = before;
        loop_copy(m->p, &made, &source);
        if (!restrict_nest(m, made.data[0], los, his)) return false;
        schedule_insert(s, m->at.block, m->at.at, made.data[0]);
    }
    m->need.lo[j] = dim_max(t, lo, dim_addi(t, known, 1));
    return true;
}

// compute_at(P, L[, S]): the par nest P, which writes a buffer that only L's body reads, is computed in L, the part that an iteration
// reads; then the buffer is L's own and elements may be computed more than once. With S, a loop around L or `root`, the buffer lives in S
// (stays where it is) and each element is computed once: L's iterations go on in order (L becomes seq), each adds the rows it needs first,
// and the rows that the first one finds missing are computed before L. Refused when the region is not known, when anything in between may
// change what P reads, when another one reads or writes the buffer, when P has checks.
bool schedule_compute_at(Schedule *s) {
    Move m = {.s = s, .p = s->p, .t = s->p->dims};
    if (!find_places(&m) || !find_buffer(&m) || !check_effects(&m) || !find_region(&m) || !check_cover(&m)) return false;
    if (m.slides && !slide(&m)) return false;
    if (!restrict_nest(&m, m.from.stmt, m.need.lo, m.need.hi)) return false;
    schedule_insert(s, &m.at.stmt->body, 0, m.from.stmt);
    schedule_remove(schedule_place(s->k, m.from.stmt));
    return !m.keep || storage_into(s, m.b, &m.g, m.keep);
}
