// Schedule primitive tensorize: a loop nest becomes the hardware instruction that does the same. See docs/schedule.md.
//
// The nest is run with symbols: each iteration in turn, every stored element as an expression of what memory held before. The row's meaning
// is written out lane by lane over placeholders for its operands' lanes, and the two are matched; what the placeholders stand for must then
// be an operand: one value for all lanes, neighbours in memory, or an expression of such.
#include "isa.h"
#include "target.h"
#include "loop_region.h"
#include "loop_schedule.h"

#include <string.h>

enum { STEPS = 4096, LANES = 64, ADDENDS = 16 };

typedef struct {
    const Var *var;    // buffer or variable
    const Dim *idx[3]; // element; [0] alone for a buffer
    const Expr *value; // at this point of the run
    Var *place;        // of a buffer
} Cell;

typedef struct {
    Schedule *s;
    Program *p;
    Arena *a;
    VEC(Cell) cells; // all that was written, variables first met in the nest too
    DimVec from, to; // loop symbols and their values
    const char *why; // the run fails
    int steps;
} Run;

static void fail(Run *r, const char *why) {
    if (!r->why) r->why = why;
}

static const Dim *at_now(Run *r, const Dim *d) {
    return d ? dim_subst(r->p->dims, d, r->from.data, r->to.data, r->from.n) : NULL;
}

// ---- the run ----

static Cell *find_cell(Run *r, const Var *var, const Dim *const *idx) {
    for (int i = 0; i < r->cells.n; i++) {
        Cell *c = &r->cells.data[i];
        bool same = c->var == var;
        for (int k = 0; k < 3 && same && idx[k]; k++) same = c->idx[k] == idx[k];
        if (same) return c;
    }
    return NULL;
}

static void set_cell(Run *r, Var *var, const Dim *const *idx, const Expr *value) {
    Cell *c = find_cell(r, var, idx);
    if (c)
        c->value = value;
    else
        vec_push(r->a, &r->cells, ((Cell){var, {idx[0], idx[1], idx[2]}, value, var}));
}

static const Expr *load_now(Run *r, const Expr *e) {
    const Dim *idx[3] = {at_now(r, e->dim), NULL, NULL};
    const LoopBuffer *b = e->var->owner;
    if (e->type.lanes != 1 || e->a[0] || e->a[1] || e->type.type != e->var->type.type) fail(r, "a load has lanes, a mask or another type");
    for (int i = 0; i < r->cells.n; i++) {
        const Cell *c = &r->cells.data[i];
        if (c->var->kind != VAR_BUFFER) continue;
        AliasKind alias = c->var == e->var ? ALIAS_SAME : kernel_alias(c->var->owner, b);
        if (alias == ALIAS_DISJOINT) continue;
        Tri same = dim_eq(r->p->dims, c->idx[0], idx[0]);
        if (alias == ALIAS_MAY || same == UNKNOWN || (same == YES && c->var != e->var))
            fail(r, "an element may be written before it is read");
        if (same == YES) return c->value;
    }
    return x_load(r->a, e->var, idx[0]);
}

static const Expr *node_now(void *ctx, const Expr *e) {
    Run *r = ctx;
    if (e->op == X_dim) return x_dim(r->a, at_now(r, e->dim));
    if (e->op == X_load) return load_now(r, e);
    if (e->op == X_index) fail(r, "an index is checked");
    if (e->op != X_var) return e;
    const Dim *idx[3] = {at_now(r, e->idx[0]), at_now(r, e->idx[1]), at_now(r, e->idx[2])};
    const Cell *c = find_cell(r, e->var, idx);
    return c ? c->value : e->var->kind == VAR_TILE ? x_tile(r->a, e->var, idx) : e;
}

static const Expr *value_now(Run *r, const Expr *e) {
    return expr_rewrite(r->a, e, node_now, r);
}

static void run_block(Run *r, const Block *b);

static void run_loop(Run *r, const Stmt *f) {
    int64_t n;
    const Dim *lo = at_now(r, f->lo), *none[3] = {0};
    if (!dim_is_int(dim_sub(r->p->dims, at_now(r, f->hi), lo), &n)) {
        fail(r, "a loop has no constant extent");
        return;
    }
    for (int i = 0; i < f->nstates; i++) set_cell(r, f->states[i], none, value_now(r, f->inits[i]));
    vec_push(r->a, &r->from, f->sym);
    vec_push(r->a, &r->to, lo);
    for (int64_t i = 0; i < n && !r->why; i += f->step) {
        r->to.data[r->to.n - 1] = dim_addi(r->p->dims, lo, i);
        run_block(r, &f->body);
    }
    r->from.n--;
    r->to.n--;
}

static void run_let(Run *r, const Stmt *x) {
    const Dim *none[3] = {0};
    const Expr *value = value_now(r, x->value);
    if (!x->sym) {
        set_cell(r, x->var, none, value);
        return;
    }
    const Dim *d = expr_as_dim(r->p->dims, value);
    if (!d) {
        fail(r, "an index comes from data");
        return;
    }
    vec_push(r->a, &r->from, x->sym); // stays: its uses are in reach of it only
    vec_push(r->a, &r->to, d);
}

static void run_set(Run *r, const Stmt *x) {
    const Dim *idx[3] = {at_now(r, x->idx[0]), at_now(r, x->idx[1]), at_now(r, x->idx[2])};
    if (x->var->kind == VAR_TILE || !find_cell(r, x->var, idx))
        fail(r, "it sets a variable from outside or a tile");
    else
        set_cell(r, x->var, idx, value_now(r, x->value));
}

static void run_if(Run *r, const Stmt *x) {
    const Expr *cond = value_now(r, x->value);
    if (cond->op != X_const)
        fail(r, "a condition is not constant");
    else
        run_block(r, cond->k_scalar.i ? &x->body : &x->orelse);
}

static void run_store(Run *r, const Stmt *x) {
    const Dim *idx[3] = {at_now(r, x->dim), NULL, NULL};
    const Expr *value = value_now(r, x->value);
    if (x->mask || x->offsets || value->type.lanes != 1 || value->type.type != x->var->type.type) {
        fail(r, "a store has lanes, a mask or another type");
        return;
    }
    for (int i = 0; i < r->cells.n; i++) {
        const Cell *c = &r->cells.data[i];
        if (c->var->kind == VAR_BUFFER && c->var != x->var) fail(r, "it writes two buffers");
        if (c->var == x->var && c->idx[0] != idx[0] && dim_eq(r->p->dims, c->idx[0], idx[0]) != NO)
            fail(r, "it is not known which elements are the same");
    }
    set_cell(r, x->var, idx, value);
}

static void run_stmt(Run *r, const Stmt *x) {
    if (++r->steps > STEPS) fail(r, "it has too many steps");
    if (r->why) return;
    const Dim *none[3] = {0};
    switch (x->kind) {
    case ST_FOR:
    case ST_REDUCE: run_loop(r, x); return;
    case ST_LET: run_let(r, x); return;
    case ST_VAR: set_cell(r, x->var, none, value_now(r, x->value)); return;
    case ST_SET: run_set(r, x); return;
    case ST_IF: run_if(r, x); return;
    case ST_STORE: run_store(r, x); return;
    case ST_COMMENT: return;
    default: fail(r, "it has statements that no instruction has");
    }
}

static void run_block(Run *r, const Block *b) {
    int from = r->from.n;
    for (int i = 0; i < b->n; i++) run_stmt(r, b->data[i]);
    r->from.n = r->to.n = from;
}

// ---- the row, lane by lane ----

typedef struct {
    Arena *a;
    Var operand[3];           // of the row's types
    Var lane[3][LANES];       // placeholders
    const Expr *is[3][LANES]; // what they stand for
    int n;
} Row;

static const Expr *row_lane(Row *w, const Expr *e, int lane);

// acc + a1[4l] * a2[4l] + …, in i32.
static const Expr *dot_lane(Row *w, const Expr *e, int lane) {
    const Expr *sum = row_lane(w, e->a[0], lane);
    for (int q = 4 * lane; sum && q < 4 * lane + 4; q++) {
        const Expr *x = row_lane(w, e->a[1], q), *y = row_lane(w, e->a[2], q);
        sum = x && y ? x_op2(w->a, X_add, sum, x_op2(w->a, X_mul, x_cast(w->a, DT_i32, x), x_cast(w->a, DT_i32, y))) : NULL;
    }
    return sum;
}

// NULL: the operation has no meaning of its own for a lane (tables, compress).
static const Expr *row_lane(Row *w, const Expr *e, int lane) {
    XClass cls = xop_info(e->op)->cls;
    if (e->op == X_var) return x_var(w->a, &w->lane[e->var - w->operand][lane]);
    if (e->op == X_const) return x_const(w->a, e->k_scalar, 1);
    if (e->op == X_iota) return x_int(w->a, e->type.type, lane);
    if (e->op == X_splat) return row_lane(w, e->a[0], 0);
    if (e->op == X_dot4) return dot_lane(w, e, lane);
    if (e->op == X_shuffle) {
        int first = e->a[0]->type.lanes, from = e->perm[lane];
        return from < first ? row_lane(w, e->a[0], from) : row_lane(w, e->a[1], from - first);
    }
    if (e->op == X_lane) return row_lane(w, e->a[0], (int)e->k);
    if (e->op == X_widen) {
        const Expr *x = row_lane(w, e->a[0], (int)e->k + lane);
        return x ? x_cast(w->a, e->type.type, x) : NULL;
    }
    if (cls < XC_ARITH && e->op != X_popcount) return NULL;
    const Expr *operands[3] = {0};
    for (int i = 0; i < e->n; i++)
        if (!(operands[i] = row_lane(w, e->a[i], lane))) return NULL;
    if (e->op == X_popcount && e->type.lanes > 1) return NULL;
    Expr head = *e;
    head.type.lanes = 1;
    return x_rebuild(w->a, x_node(w->a, head), operands);
}

static void open_row(Row *w, const IsaRow *row) {
    const char *s = row->args;
    for (size_t n = strcspn(s, " "); n; n = strcspn(s, " ")) {
        VType t = vtype_parse(s, n);
        w->operand[w->n] = (Var){.kind = VAR_LET, .name = "operand", .type = t};
        for (int l = 0; l < t.lanes; l++) w->lane[w->n][l] = (Var){.kind = VAR_LET, .name = "lane", .type = vtype(t.type, 1)};
        w->n++;
        s += n + (s[n] == ' ');
    }
}

// ---- matching ----

static const Expr **binding_of(Row *w, const Expr *e) {
    for (int k = 0; k < w->n && e->op == X_var; k++)
        if (e->var >= w->lane[k] && e->var < w->lane[k] + LANES) return &w->is[k][e->var - w->lane[k]];
    return NULL;
}

static bool match(Row *w, const Expr *pattern, const Expr *e);

// Wrapping integers may be added in any order: a sum is the list of what is added.
static int addends(Arena *a, const Expr *e, const Expr **out, int n) {
    if (n > ADDENDS - 2) return ADDENDS;
    if (e->op == X_add) return addends(a, e->a[1], out, addends(a, e->a[0], out, n));
    if (e->op == X_fma) {
        n = addends(a, e->a[2], out, n);
        e = x_op2(a, X_mul, e->a[0], e->a[1]);
    }
    if (n < ADDENDS) out[n] = e;
    return n + 1;
}

static bool match_list(Row *w, const Expr **pattern, const Expr **list, int n) {
    if (n == 0) return true;
    for (int i = 0; i < n; i++) {
        Row before = *w;
        const Expr *chosen = list[i], *rest[ADDENDS];
        for (int k = 0, m = 0; k < n; k++)
            if (k != i) rest[m++] = list[k];
        if (match(w, pattern[0], chosen) && match_list(w, pattern + 1, rest, n - 1)) return true;
        memcpy(w->is, before.is, sizeof w->is);
    }
    return false;
}

static bool match_operands(Row *w, const Expr *pattern, const Expr *e, bool swap) {
    for (int i = 0; i < e->n; i++)
        if (!match(w, pattern->a[i], e->a[swap && i < 2 ? 1 - i : i])) return false;
    return true;
}

static bool match(Row *w, const Expr *pattern, const Expr *e) {
    if (!vtype_same(pattern->type, e->type)) return false;
    const Expr **is = binding_of(w, pattern);
    if (is) {
        if (!*is) *is = e;
        return expr_same(*is, e);
    }
    bool integer = !dtype_is_float(e->type.type) && e->type.type != DT_bool;
    if (integer && pattern->op == X_add) {
        const Expr *p[ADDENDS], *l[ADDENDS];
        int n = addends(w->a, pattern, p, 0), m = addends(w->a, e, l, 0);
        return n == m && n < ADDENDS && match_list(w, p, l, n);
    }
    if (pattern->op != e->op || pattern->n != e->n) return false;
    if (e->n == 0) return expr_same(pattern, e);
    Row before = *w;
    if (match_operands(w, pattern, e, false)) return true;
    memcpy(w->is, before.is, sizeof w->is);
    bool commutes = e->op == X_mul || e->op == X_add || e->op == X_fma || e->op == X_and || e->op == X_or || e->op == X_xor;
    return commutes && match_operands(w, pattern, e, true);
}

// ---- operands ----

static bool all_same(const Expr *const *x, int n) {
    for (int i = 1; i < n; i++)
        if (!expr_same(x[0], x[i])) return false;
    return true;
}

// Elements of one buffer: neighbours (or a constant step apart), or a permutation of such.
static const Expr *gather_loads(Run *r, const Expr *const *x, int n) {
    int64_t at[LANES], least = 0, most = 0;
    uint8_t perm[LANES];
    for (int i = 0; i < n; i++) {
        if (x[i]->op != X_load || x[i]->var != x[0]->var || !dim_is_int(dim_sub(r->p->dims, x[i]->dim, x[0]->dim), &at[i])) return NULL;
        least = at[i] < least ? at[i] : least;
        most = at[i] > most ? at[i] : most;
    }
    bool even = true;
    for (int i = 2; i < n; i++) even &= at[i] == i * at[1];
    if (even) return x_load_lanes(r->a, x[0]->var, x[0]->dim, n, at[1], NULL, NULL);
    bool used[LANES] = {false};
    if (most - least >= LANES || most - least < 1) return NULL;
    for (int i = 0; i < n; i++) {
        perm[i] = (uint8_t)(at[i] - least);
        used[perm[i]] = true;
    }
    for (int i = 0; i <= most - least; i++)
        if (!used[i]) return NULL; // may lie outside
    const Expr *window = x_load_lanes(r->a, x[0]->var, dim_addi(r->p->dims, x[0]->dim, least), (int)(most - least) + 1, 1, NULL, NULL);
    Expr shuffle = {.op = X_shuffle, .type = vtype(x[0]->type.type, n), .n = 1, .a = {window}, .perm = arena_copy(r->a, perm, (size_t)n)};
    return x_node(r->a, shuffle);
}

// One value of n lanes from its lanes; NULL when they have nothing in common.
static const Expr *gather_lanes(Run *r, const Expr *const *x, int n) {
    if (n == 1 || all_same(x, n)) return x_splat(r->a, x[0], n);
    const Expr *loads = gather_loads(r, x, n), *operands[3] = {0};
    if (loads) return loads;
    for (int i = 1; i < n; i++)
        if (x[i]->op != x[0]->op || x[i]->n != x[0]->n || !vtype_same(x[i]->type, x[0]->type)) return NULL;
    if (xop_info(x[0]->op)->cls < XC_ARITH) return NULL;
    for (int k = 0; k < x[0]->n; k++) {
        const Expr *part[LANES];
        for (int i = 0; i < n; i++) {
            part[i] = x[i]->a[k];
            if (!vtype_same(part[i]->type, part[0]->type)) return NULL;
        }
        if (!(operands[k] = gather_lanes(r, part, n))) return NULL;
    }
    Expr head = *x[0];
    head.type.lanes = n;
    return x_rebuild(r->a, x_node(r->a, head), operands);
}

// ---- the primitive ----

// The elements written, in order of their place; 0: they are not a constant step apart.
static int written(Run *r, const Cell **out, int64_t *step) {
    int64_t at[LANES];
    int n = 0;
    for (int i = 0; i < r->cells.n; i++) {
        Cell *c = &r->cells.data[i];
        int64_t d;
        if (c->var->kind != VAR_BUFFER) continue;
        if (n == LANES || !dim_is_int(dim_sub(r->p->dims, c->idx[0], n ? out[0]->idx[0] : c->idx[0]), &d)) return 0;
        d += n ? at[0] : 0;
        int k = n++;
        for (; k > 0 && at[k - 1] > d; k--) out[k] = out[k - 1], at[k] = at[k - 1];
        out[k] = c;
        at[k] = d;
    }
    *step = n > 1 ? at[1] - at[0] : 1;
    for (int i = 1; i < n; i++)
        if (at[i] - at[i - 1] != *step) return 0;
    return n;
}

static bool check_row(Schedule *s, int row) {
    if (row < 0) return schedule_fail(s, "there is no instruction '%s'", s->args[1]);
    const Target *target = s->p->target ? target_find(s->p->target) : NULL;
    const char *need = isa_row(row)->feature;
    if (!target) return schedule_fail(s, "the program names no target");
    for (size_t n = strcspn(need, " "); n; n = strcspn(need, " ")) {
        if (!target_has(target, arena_strndup(s->p->arena, need, n)))
            return schedule_fail(s, "target %s has no '%s'", target->name, isa_row(row)->feature);
        need += n + (need[n] == ' ');
    }
    return true;
}

// The operands that make the row's lanes the values of the cells.
static const Expr *match_row(Run *r, int row, const Cell *const *cells, int n) {
    Row *w = ARENA_NEW(r->a, Row);
    w->a = r->a;
    open_row(w, isa_row(row));
    const Expr *operands[3] = {0};
    for (int k = 0; k < w->n; k++) operands[k] = x_var(r->a, &w->operand[k]);
    const Expr *meaning = isa_meaning(r->a, row, operands);
    if (meaning->type.lanes != n) {
        fail(r, arena_printf(r->a, "it writes %d elements, the instruction %d", n, meaning->type.lanes));
        return NULL;
    }
    for (int l = 0; l < n; l++) {
        const Expr *lane = row_lane(w, meaning, l);
        if (!lane) fail(r, "the instruction cannot be told lane by lane");
        if (!lane || !match(w, lane, cells[l]->value)) {
            fail(r, arena_printf(r->a, "element %d is not what %s says", l, isa_row(row)->meaning));
            return NULL;
        }
    }
    Expr call = {.op = X_isa, .type = meaning->type, .k = row, .n = w->n};
    for (int k = 0; k < w->n; k++) {
        int lanes = w->operand[k].type.lanes;
        for (int l = 0; l < lanes; l++)
            if (!w->is[k][l]) fail(r, "an operand is not used in full");
        call.a[k] = r->why ? NULL : gather_lanes(r, w->is[k], lanes);
        if (!call.a[k]) fail(r, arena_printf(r->a, "the lanes of operand %d do not lie together", k));
    }
    return r->why ? NULL : x_node(r->a, call);
}

// tensorize(L, row): the nest at L is replaced by the instruction of that row of isa_*.def, when its effect, worked out element by element,
// is the row's meaning: the same operations on the same operands (operands of + and * in either order, wrapping integer sums in any).
// For instructions whose meaning is a nest (dot products), and to ask for one by name. Refused otherwise, with the element that differs,
// when the target lacks the instruction, and when it is not known whether an element is written before it is read.
bool schedule_tensorize(Schedule *s) {
    LoopPlace at;
    int row = isa_find(s->args[1], strlen(s->args[1]));
    if (!schedule_loop(s, 0, "prs", &at) || !check_row(s, row)) return false;
    Run r = {.s = s, .p = s->p, .a = s->p->arena};
    const Cell *cells[LANES];
    int64_t step;
    run_stmt(&r, at.stmt);
    int n = r.why ? 0 : written(&r, cells, &step);
    if (!n) fail(&r, "what it writes does not lie side by side");
    const Expr *call = r.why ? NULL : match_row(&r, row, cells, n);
    if (r.why) return schedule_fail(s, "'%s' is not %s: %s", s->args[0], s->args[1], r.why);
    Block made = loop_block(at.block);
    loop_store(s->p, &made, (LoopBuffer *)(uintptr_t)cells[0]->var->owner, cells[0]->idx[0], call);
    made.data[0]->stride = step;
    at.block->data[at.at] = made.data[0];
    return true;
}
