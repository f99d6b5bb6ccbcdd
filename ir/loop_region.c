// Accesses below a block and the boxes they touch; see loop_region.h.
//
// A box comes from the digits of each index: a symbol that is defined inside is replaced by the end of its range that makes the digit
// largest or smallest, the innermost first; a guard that cancels all inner symbols of a digit bounds it too.
#include "loop_region.h"

// ---- collecting ----

typedef struct {
    Program *p;
    const LoopBuffer *b;
    AccessVec *out;
    StmtVec path;
    DimVec inner, guards;
    int vague; // conditions around the place that the guards do not tell in full
    int top, facts;
    Stmt *at;
} Collect;

#define COPY_VEC(a, to, from)                                                                                                              \
    do {                                                                                                                                   \
        for (int copy_i = 0; copy_i < (from)->n; copy_i++) vec_push(a, to, (from)->data[copy_i]);                                          \
    } while (0)

static void add_access(Collect *c, const Expr *load, const Dim *index, int64_t stride, VType type, const Expr *offsets, const Expr *mask) {
    Arena *a = c->p->arena;
    DType element = c->b->var.type.type;
    Access x = {.stmt = c->at, .load = load, .index = index, .step = stride, .gathers = offsets != NULL, .top = c->top, .facts = c->facts};
    x.vague = c->vague > 0 || mask != NULL;
    x.punned = type.type != element;
    int64_t last = (type.lanes - 1) * stride;
    if (x.punned) last = ((int64_t)type.lanes * dtype_bytes(type.type) + dtype_bytes(element) - 1) / dtype_bytes(element) - 1;
    if (x.punned) x.step = 1;
    x.low = last < 0 ? last : 0;
    x.high = last > 0 ? last : 0;
    COPY_VEC(a, &x.path, &c->path);
    COPY_VEC(a, &x.inner, &c->inner);
    COPY_VEC(a, &x.guards, &c->guards);
    if (mask && type.lanes == 1) guards_of(c->p, mask, false, &x.guards);
    vec_push(a, c->out, x);
}

static void collect_node(void *ctx, const Expr *e) {
    Collect *c = ctx;
    if (e->op == X_load && e->var == &c->b->var) add_access(c, e, e->dim, e->k, e->type, e->a[0], e->a[1]);
}

static void collect_expr(void *ctx, const Expr **e) {
    expr_visit(*e, collect_node, ctx);
}

static void collect_block(Collect *c, Block *b, bool top);

static void collect_stmt(Collect *c, Stmt *s) {
    Arena *a = c->p->arena;
    int guards = c->guards.n;
    c->at = s;
    stmt_exprs(s, collect_expr, c);
    if (s->kind == ST_STORE && s->var == &c->b->var) add_access(c, NULL, s->dim, s->stride, s->value->type, s->offsets, s->mask);
    if (s->sym && s->kind != ST_SIZE) vec_push(a, &c->inner, s->sym);
    vec_push(a, &c->path, s);
    for (int branch = 0; branch < 2; branch++) {
        bool told = s->kind != ST_IF || guards_of(c->p, s->value, branch == 1, &c->guards);
        c->vague += !told;
        collect_block(c, branch ? &s->orelse : &s->body, false);
        c->vague -= !told;
        c->guards.n = guards;
    }
    c->path.n--;
}

static void collect_block(Collect *c, Block *b, bool top) {
    int inner = c->inner.n;
    for (int i = 0; i < b->n; i++) {
        if (top) c->top = i;
        collect_stmt(c, b->data[i]);
    }
    c->inner.n = inner;
}

void access_collect(Program *p, Block *root, const LoopBuffer *b, const DimVec *facts, AccessVec *out) {
    Collect c = {.p = p, .b = b, .out = out, .facts = facts ? facts->n : 0};
    for (int i = 0; i < c.facts; i++) vec_push(p->arena, &c.guards, facts->data[i]);
    collect_block(&c, root, true);
}

bool access_under(const Access *a, const Stmt *s) {
    for (int i = 0; i < a->path.n; i++)
        if (a->path.data[i] == s) return true;
    return false;
}

// ---- bounds ----

static const Dim *extreme(DimTable *t, const Dim *d, const Dim *sym, bool largest);

static const Dim *extreme_atom(DimTable *t, const Atom *x, const Dim *sym, bool largest) {
    if (x->kind == ATOM_MOD) return largest ? dim_addi(t, x->b, -1) : dim_int(t, 0);
    if (x->kind == ATOM_SYMBOL || (x->kind == ATOM_FLOORDIV && dim_has_symbol(x->b, sym))) return NULL;
    const Dim *a = extreme(t, x->a, sym, largest), *b = x->kind == ATOM_FLOORDIV ? x->b : extreme(t, x->b, sym, largest);
    if (!a || !b) return NULL;
    return x->kind == ATOM_FLOORDIV ? dim_floordiv(t, a, b) : x->kind == ATOM_MIN ? dim_min(t, a, b) : dim_max(t, a, b);
}

// A term whose single atom with sym is no symbol.
static const Dim *extreme_term(DimTable *t, const Dim *d, int term, const Dim *sym, bool largest) {
    const Dim *c = dim_int(t, dim_coefficient(d, term));
    const Atom *with = NULL;
    for (int k = 0; k < dim_nfactors(d, term); k++) {
        const Atom *x = dim_factor(d, term, k);
        if (!dim_has_symbol(x->self, sym))
            c = dim_mul(t, c, x->self);
        else if (with)
            return NULL;
        else
            with = x;
    }
    if (!with) return c;
    Tri sign = dim_ge0(t, c);
    if (sign == UNKNOWN) return NULL;
    const Dim *end;
    if (with->kind == ATOM_SYMBOL)
        end = (sign == YES) == largest ? with->sym->hi : with->sym->lo;
    else
        end = extreme_atom(t, with, sym, (sign == YES) == largest);
    return end ? dim_mul(t, c, end) : NULL;
}

// d at the value of sym that makes it largest (smallest); NULL: not known.
static const Dim *extreme(DimTable *t, const Dim *d, const Dim *sym, bool largest) {
    if (!dim_has_symbol(d, sym)) return d;
    const Dim *c, *rest;
    if (dim_linear(t, d, sym, &c, &rest)) {
        Tri sign = dim_ge0(t, c);
        if (sign == UNKNOWN) return NULL;
        const Sym *s = dim_as_symbol(sym);
        const Dim *end = (sign == YES) == largest ? s->hi : s->lo;
        return end ? dim_add(t, dim_mul(t, c, end), rest) : NULL;
    }
    const Dim *sum = dim_int(t, 0);
    for (int i = 0; i < dim_nterms(d); i++) {
        const Dim *term = extreme_term(t, d, i, sym, largest);
        if (!term) return NULL;
        sum = dim_add(t, sum, term);
    }
    return sum;
}

const Dim *region_bound(DimTable *t, const Dim *d, const DimVec *inner, bool largest) {
    for (int i = inner->n - 1; i >= 0 && d; i--) d = extreme(t, d, inner->data[i], largest);
    return d && !dim_is_poison(d) ? d : NULL;
}

static bool mentions(const Dim *d, const DimVec *symbols) {
    for (int i = 0; i < symbols->n; i++)
        if (dim_has_symbol(d, symbols->data[i])) return true;
    return false;
}

// The bound of a digit that guards give: digit <= digit + guard, digit >= digit - guard.
static const Dim *guarded(DimTable *t, const Dim *digit, const Access *a, bool largest, const Dim *plain) {
    const Dim *best = plain;
    for (int i = a->facts; i < a->guards.n; i++) {
        const Dim *g = a->guards.data[i], *u = largest ? dim_add(t, digit, g) : dim_sub(t, digit, g);
        if (mentions(u, &a->inner) || dim_is_poison(u)) continue;
        best = !best ? u : largest ? dim_min(t, best, u) : dim_max(t, best, u);
    }
    return best;
}

// ---- regions ----

static int64_t constant_extent(DimTable *t, const Dim *lo, const Dim *hi) {
    int64_t least, most;
    if (!lo || !hi) return 0;
    dim_interval(dim_addi(t, dim_sub(t, hi, lo), 1), &least, &most);
    return most == DIM_INF ? 0 : most < 1 ? 1 : most;
}

static const Dim *merge(DimTable *t, const Dim *so_far, const Dim *next, bool first, bool largest) {
    if (first) return next;
    if (!so_far || !next) return NULL;
    return largest ? dim_max(t, so_far, next) : dim_min(t, so_far, next);
}

const char *region_hull(Program *p, const Digits *g, const AccessVec *all, Region *out) {
    DimTable *t = p->dims;
    const Dim *lo[REGION_DIGITS], *hi[REGION_DIGITS]; // without guards
    for (int i = 0; i < all->n; i++) {
        const Access *a = &all->data[i];
        int lane = a->gathers ? -1 : digits_lane(t, g, a);
        if (a->gathers) return "an index comes from lanes of data";
        if (lane < 0) return arena_printf(p->arena, "the lanes at [%s] cross a row", dim_text(t, a->index));
        const Dim *digit[REGION_DIGITS];
        digits_split(t, g, a->index, digit);
        for (int j = 0; j < g->n; j++) {
            const Dim *first = region_bound(t, digit[j], &a->inner, false), *last = region_bound(t, digit[j], &a->inner, true);
            const Dim *low = guarded(t, digit[j], a, false, first), *high = guarded(t, digit[j], a, true, last);
            if (!low || !high) return arena_printf(p->arena, "the range of [%s] is not known", dim_text(t, a->index));
            int64_t stride = 0, below = 0, above = 0;
            if (j == lane && (a->low || a->high) && dim_is_int(g->stride[j], &stride)) below = a->low / stride, above = a->high / stride;
            lo[j] = merge(t, lo[j], first ? dim_addi(t, first, below) : NULL, i == 0, false);
            hi[j] = merge(t, hi[j], last ? dim_addi(t, last, above) : NULL, i == 0, true);
            out->lo[j] = merge(t, out->lo[j], dim_addi(t, low, below), i == 0, false);
            out->hi[j] = merge(t, out->hi[j], dim_addi(t, high, above), i == 0, true);
        }
    }
    for (int j = 0; j < g->n; j++) {
        int64_t loose = constant_extent(t, lo[j], hi[j]), tight = constant_extent(t, out->lo[j], out->hi[j]);
        out->cap[j] = !tight || (loose && loose < tight) ? loose : tight;
    }
    return NULL;
}

// Each digit lies below the one before, the first below what the size has of it.
static bool digits_inside(DimTable *t, const Digits *g, const Region *r, const DimVec *facts, const Dim *size) {
    for (int j = 0; j < g->n; j++) {
        const Dim *extent = dim_floordiv(t, j ? g->stride[j - 1] : size, g->stride[j]);
        if (!facts_prove(t, facts, r->lo[j]) || !facts_prove(t, facts, dim_addi(t, dim_sub(t, extent, r->hi[j]), -1))) return false;
    }
    return true;
}

bool region_inside(DimTable *t, const Digits *g, const Region *r, const DimVec *facts, const Dim *size) {
    const Dim *first = dim_int(t, 0), *last = first;
    if (!size) return false;
    for (int j = 0; j < g->n; j++) {
        first = dim_add(t, first, dim_mul(t, r->lo[j], g->stride[j]));
        last = dim_add(t, last, dim_mul(t, r->hi[j], g->stride[j]));
    }
    if (facts_prove(t, facts, first) && facts_prove(t, facts, dim_addi(t, dim_sub(t, size, last), -1))) return true;
    return digits_inside(t, g, r, facts, size);
}

bool region_within(DimTable *t, const Digits *g, const Region *part, const Region *whole) {
    for (int j = 0; j < g->n; j++)
        if (dim_le(t, whole->lo[j], part->lo[j]) != YES || dim_le(t, part->hi[j], whole->hi[j]) != YES) return false;
    return true;
}

int64_t region_size(const Digits *g, const Region *r) {
    int64_t n = 1;
    for (int j = 0; j < g->n; j++)
        if (!r->cap[j] || __builtin_mul_overflow(n, r->cap[j], &n) || n > REGION_MOST) return 0;
    return n;
}

// ---- exactness ----

enum { MOVING = 8 }; // loops in one digit

// The loop over inner symbol s of a store whose path holds only plain loops; NULL: something else defines it.
static const Stmt *loop_of(const Access *a, const Dim *s) {
    for (int i = 0; i < a->path.n; i++)
        if (a->path.data[i]->sym == s) return a->path.data[i];
    return NULL;
}

static bool plain_loops(DimTable *t, const Access *a) {
    for (int i = 0; i < a->path.n; i++) {
        const Stmt *f = a->path.data[i];
        if (f->kind == ST_IF) continue;
        if (f->kind != ST_FOR || f->step != 1 || mentions(f->lo, &a->inner) || mentions(f->hi, &a->inner)) return false;
        bool moves = dim_has_symbol(a->index, f->sym);
        if (!moves && dim_lt(t, f->lo, f->hi) != YES) return false;
    }
    return true;
}

typedef struct {
    int64_t coefficient;
    const Stmt *loop;
} Moving;

// The digit's loops with their coefficients, smaller ones first; -1: one is no loop, or its coefficient no positive constant.
static int moving_loops(DimTable *t, const Access *a, const Dim *digit, Moving *out) {
    int n = 0;
    for (int i = 0; i < a->inner.n; i++) {
        const Dim *c, *rest;
        Moving m = {0, loop_of(a, a->inner.data[i])};
        if (!dim_has_symbol(digit, a->inner.data[i])) continue;
        if (!m.loop || n == MOVING || !dim_linear(t, digit, a->inner.data[i], &c, &rest)) return -1;
        if (!dim_is_int(c, &m.coefficient) || m.coefficient < 1) return -1;
        int at = n++;
        for (; at > 0 && out[at - 1].coefficient > m.coefficient; at--) out[at] = out[at - 1];
        out[at] = m;
    }
    return n;
}

// The digit's values have no gap, from `width` neighbours at a time on: each loop's step is at most what those with smaller ones cover.
// Only the last extent may be no constant; it may be empty only when the steps do not overlap, because then the hull is empty too.
static bool digit_is_dense(DimTable *t, const Access *a, const Dim *digit, int64_t width, int *uses) {
    Moving loops[MOVING];
    int n = moving_loops(t, a, digit, loops);
    for (int i = 0; i < n; i++) {
        const Stmt *f = loops[i].loop;
        int64_t extent = 0;
        bool constant = dim_is_int(dim_sub(t, f->hi, f->lo), &extent) && extent > 0;
        if (loops[i].coefficient > width || (!constant && i < n - 1)) return false;
        if (!constant && loops[i].coefficient < width && dim_lt(t, f->lo, f->hi) != YES) return false;
        width += constant ? loops[i].coefficient * (extent - 1) : 0;
        ++*uses;
    }
    return n >= 0;
}

static bool breaks_out(const Block *b) {
    for (int i = 0; i < b->n; i++)
        if (b->data[i]->kind == ST_BREAK || breaks_out(&b->data[i]->body) || breaks_out(&b->data[i]->orelse)) return true;
    return false;
}

// Each guard cuts one digit, so that a box stays a box.
static bool guards_cut(DimTable *t, const Digits *g, const Access *a, const Dim *const *digit) {
    for (int i = a->facts; i < a->guards.n; i++) {
        bool cuts = !mentions(a->guards.data[i], &a->inner);
        if (cuts) return false; // the whole store may be off
        for (int j = 0; j < g->n; j++)
            cuts |= !mentions(dim_add(t, digit[j], a->guards.data[i]), &a->inner) ||
                    !mentions(dim_sub(t, digit[j], a->guards.data[i]), &a->inner);
        if (!cuts) return false;
    }
    return true;
}

bool region_is_exact(DimTable *t, const Digits *g, const Access *a) {
    if (a->load || a->gathers || a->punned || a->vague || !plain_loops(t, a)) return false;
    if (a->path.n && breaks_out(&a->path.data[0]->body)) return false;
    int lane = digits_lane(t, g, a), uses = 0, moving = 0;
    if (lane < 0) return false;
    const Dim *digit[REGION_DIGITS];
    digits_split(t, g, a->index, digit);
    if (!guards_cut(t, g, a, digit) || (a->guards.n > a->facts && a->high > a->low)) return false;
    int64_t stride;
    for (int j = 0; j < g->n; j++) {
        int64_t width = 1;
        bool wide = j == lane && (a->low || a->high);
        if (wide && (!dim_is_int(g->stride[j], &stride) || a->step != stride)) return false;
        if (wide) width = a->high / stride + 1;
        if (!digit_is_dense(t, a, digit[j], width, &uses)) return false;
    }
    for (int i = 0; i < a->inner.n; i++) moving += dim_has_symbol(a->index, a->inner.data[i]);
    return uses == moving;
}
