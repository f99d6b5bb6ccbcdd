// Runs the statements of the interpreter: loops one iteration at a time, in strips or folded; conditions as branches or as lane masks.
#include "loop_interpret.h"

#include <string.h>

enum { FOLD_MIN = 8, STRIP_GOOD = 64, STRIP_WORTH = 32 };

uint64_t run_random(Run *r) { // splitmix64
    uint64_t z = r->shuffle += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

void run_fault(Run *r, const char *fmt, ...) {
    if (r->status) return;
    Str s = {0};
    va_list ap;
    va_start(ap, fmt);
    str_vprintf(&s, fmt, ap);
    va_end(ap);
    const Kernel *k = r->frame ? r->frame->code->kernel : NULL;
    str_printf(&s, " in %s", k ? k->name : "main");
    if (r->at) {
        str_add(&s, ": ");
        stmt_print(&s, r->at);
    }
    diag_error(r->d, EXIT_INTERNAL, "%s", s.data);
    str_free(&s);
    r->status = -CODE_INDEX;
}

static Flow flow(const Run *r) {
    return r->status ? FLOW_STOP : FLOW_NEXT;
}

// ---- variables ----

static VarVal *var_room(Run *r, int slot, const Var *var) {
    VarVal *v = &r->frame->var[slot];
    if (!v->p) v->p = arena_alloc(r->arena, STRIP * (size_t)dtype_bytes(var->type.type));
    return v;
}

// Scalar functions may write over an operand, so they compute straight into the variable; lane operations and loads may not.
static void assign(Run *r, VarVal *v, ExprCode *c) {
    bool direct = xop_info(c->node[c->n - 1].e->op)->cls >= XC_ARITH;
    const Node *n = eval_expr(r, c, direct ? v->p : NULL);
    if (n->p != v->p) memmove(v->p, n->p, (size_t)(n->size * n->e->type.lanes * (n->varies ? r->lanes : 1)));
    v->varies = n->varies;
}

// Only the active lanes take the new value.
static void assign_active(Run *r, VarVal *v, ExprCode *c) {
    const Node *n = eval_expr(r, c, NULL);
    size_t bytes = (size_t)(n->size * n->e->type.lanes);
    unsigned char *to = v->p;
    for (int l = 1; l < r->lanes && !v->varies; l++) memcpy(to + (size_t)l * bytes, to, bytes);
    const unsigned char *from = n->p;
    for (int l = 0; l < r->lanes; l++)
        if (r->active[l]) memcpy(to + (size_t)l * bytes, from + (n->varies ? (size_t)l * bytes : 0), bytes);
    v->varies = true;
}

static Flow run_var(Run *r, CodeStmt *c) {
    int n = 1;
    const Var *v = c->s->var;
    for (int i = 0; i < v->ntile && c->s->kind == ST_TILE; i++) n *= v->tile[i];
    for (int i = 0; i < n; i++) assign(r, var_room(r, c->slot + i, v), c->value);
    return flow(r);
}

static Flow run_set(Run *r, CodeStmt *c) {
    int64_t at = 0;
    const Var *v = c->s->var;
    for (int i = 0; i < v->ntile && v->kind == VAR_TILE; i++) at = at * v->tile[i] + eval_dim_scalar(r, c->idx[i]);
    VarVal *to = var_room(r, c->slot + (int)at, v);
    if (r->active)
        assign_active(r, to, c->value);
    else
        assign(r, to, c->value);
    return flow(r);
}

static void check_bounds(Run *r, CodeStmt *c, const int64_t *v, int lanes) {
    const IdxVal open = {0};
    IdxVal lo = c->lo ? eval_dim(r, c->lo) : open, hi = c->hi ? eval_dim(r, c->hi) : open;
    for (int l = 0; l < lanes; l++) {
        bool low = c->lo && v[l] < idx_at(lo, l), high = c->hi && v[l] > idx_at(hi, l), on = lanes == 1 || !r->active || r->active[l];
        if ((low || high) && on) run_fault(r, "%s = %lld lies outside of its bounds", dim_as_symbol(c->s->sym)->name, (long long)v[l]);
    }
}

static Flow run_let(Run *r, CodeStmt *c) {
    if (c->s->var) return run_var(r, c);
    const Node *n = eval_expr(r, c->value, NULL);
    const int64_t *v = n->p;
    int lanes = n->varies ? r->lanes : 1;
    check_bounds(r, c, v, lanes);
    IdxVal *to = &r->frame->sym[c->slot];
    if (lanes == 1) {
        *to = (IdxVal){.v = v[0]};
        return flow(r);
    }
    int64_t **room = &r->frame->sym_lanes[c->slot];
    if (!*room) *room = ARENA_ARRAY(r->arena, int64_t, STRIP);
    memcpy(*room, v, sizeof(int64_t) * (size_t)lanes);
    *to = (IdxVal){.lane = *room};
    return flow(r);
}

static Flow run_local(Run *r, CodeStmt *c) {
    const LoopBuffer *b = c->s->var->owner;
    BufVal *v = &r->frame->buf[c->slot];
    int64_t n = 0;
    dim_is_int(b->shape[0], &n);
    v->n = n;
    v->lane_step = r->lanes > 1 ? n : 0;
    v->bytes = (size_t)(n * dtype_bytes(b->var.type.type) * r->lanes);
    if (v->bytes > v->own_bytes) {
        v->own = arena_alloc(r->arena, v->bytes);
        v->own_bytes = v->bytes;
    }
    v->p = v->own;
    memset(v->p, 0xff, v->bytes);
    return flow(r);
}

// ---- loops ----

// Iteration numbers in the order to run them; NULL: ascending.
static int64_t *shuffled(Run *r, int64_t n) {
    if (!r->shuffle || n < 2) return NULL;
    int64_t *order = mem_realloc(NULL, sizeof(int64_t) * (size_t)n);
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t k = (int64_t)(run_random(r) % (uint64_t)(i + 1)), x = order[i];
        order[i] = order[k];
        order[k] = x;
    }
    return order;
}

static int64_t trips(Run *r, const CodeStmt *c, int64_t *lo) {
    *lo = eval_dim_scalar(r, c->lo);
    int64_t hi = eval_dim_scalar(r, c->hi);
    return hi <= *lo ? 0 : (hi - *lo - 1) / c->s->step + 1;
}

static int64_t most_trips(Run *r, CodeStmt *const *c, int n) {
    int64_t most = 0, lo;
    for (int i = 0; i < n; i++) {
        int64_t k = trips(r, c[i], &lo);
        if (k > most) most = k;
    }
    return most;
}

// Whether this par loop of n iterations is the one of its nest to run in strips. The bounds of loops inside are taken as they stand:
// where they hang on symbols of loops in between it is a guess.
static bool choose_strip(Run *r, const CodeStmt *c, int64_t n) {
    if (r->lanes > 1 || !c->strip || n < 2) return false;
    int64_t inner = most_trips(r, c->pars.data, c->pars.n);
    if (inner >= STRIP_GOOD || inner > n) return false;
    if (c->strided && inner >= 16) return false;
    int64_t fold = most_trips(r, c->folds.data, c->folds.n);
    return fold < STRIP_WORTH || (n >= STRIP_WORTH && !c->strided);
}

static Flow run_strips(Run *r, CodeStmt *c, int64_t lo, int64_t n) {
    IdxVal *sym = &r->frame->sym[c->slot];
    int64_t *order = shuffled(r, n), lane[STRIP], step = c->s->step;
    for (int64_t k = 0; k < n && !r->status; k += c->strip) {
        int m = n - k < c->strip ? (int)(n - k) : c->strip;
        r->lanes = m;
        *sym = (IdxVal){.v = lo + k * step, .step = m > 1 ? step : 0};
        for (int l = 0; l < m && order; l++) lane[l] = lo + order[k + l] * step;
        if (order) *sym = m > 1 ? (IdxVal){.lane = lane} : (IdxVal){.v = lane[0]};
        run_block(r, c->body, c->nbody);
    }
    r->lanes = 1;
    *sym = (IdxVal){0}; // its lanes end here
    mem_realloc(order, 0);
    return flow(r);
}

static Flow run_each(Run *r, CodeStmt *c, int64_t lo, int64_t n) {
    IdxVal *sym = &r->frame->sym[c->slot];
    int64_t *order = c->s->loop == LOOP_PAR ? shuffled(r, n) : NULL;
    Flow result = FLOW_NEXT;
    for (int64_t k = 0; k < n && result == FLOW_NEXT; k++) {
        *sym = (IdxVal){.v = lo + (order ? order[k] : k) * c->s->step};
        result = run_block(r, c->body, c->nbody);
    }
    mem_realloc(order, 0);
    return result == FLOW_STOP ? FLOW_STOP : FLOW_NEXT;
}

static Flow run_iterations(Run *r, CodeStmt *c, int64_t lo, int64_t n) {
    if (c->rows && r->lanes > 1 && run_rows(r, c)) return flow(r);
    if (choose_strip(r, c, n)) return run_strips(r, c, lo, n);
    if (c->fold && r->lanes == 1 && n >= FOLD_MIN) {
        run_fold(r, c, lo, n);
        return flow(r);
    }
    return run_each(r, c, lo, n);
}

// ---- reductions in parts ----

static void init_states(Run *r, CodeStmt *c) {
    for (int i = 0; i < c->s->nstates; i++) assign(r, var_room(r, c->states[i], c->s->states[i]), c->inits[i]);
}

static void copy_var(const Run *r, VarVal *to, const VarVal *from, const Var *v) {
    size_t bytes = (size_t)(dtype_bytes(v->type.type) * v->type.lanes * (from->varies ? r->lanes : 1));
    memcpy(to->p, from->p, bytes);
    to->varies = from->varies;
}

static void keep_states(Run *r, CodeStmt *c) {
    if (!c->merged) c->merged = ARENA_ARRAY(r->arena, VarVal, c->s->nstates + 1);
    for (int i = 0; i < c->s->nstates; i++) {
        const Var *v = c->s->states[i];
        if (!c->merged[i].p) c->merged[i].p = arena_alloc(r->arena, STRIP * (size_t)dtype_bytes(v->type.type));
        copy_var(r, &c->merged[i], &r->frame->var[c->states[i]], v);
    }
}

// The states of one more part, merged into those of the parts before it.
static Flow run_combine(Run *r, CodeStmt *c) {
    for (int i = 0; i < c->s->nstates; i++) {
        const Var *v = c->s->states[i];
        VarVal *state = &r->frame->var[c->states[i]];
        copy_var(r, var_room(r, c->others[i], v), state, v);
        copy_var(r, state, &c->merged[i], v);
    }
    return run_block(r, c->orelse, c->norelse);
}

// Cut at random places, each part from the initial states.
static Flow run_cut(Run *r, CodeStmt *c, int64_t lo, int64_t n) {
    Flow result = FLOW_NEXT;
    for (int64_t k = 0, m; k < n && result != FLOW_STOP; k += m) {
        m = 1 + (int64_t)(run_random(r) % (uint64_t)(n - k));
        if (k) {
            keep_states(r, c);
            init_states(r, c);
        }
        result = run_iterations(r, c, lo + k * c->s->step, m);
        if (k && result != FLOW_STOP) result = run_combine(r, c);
    }
    return result;
}

static Flow run_loop(Run *r, CodeStmt *c) {
    int64_t lo, n = trips(r, c, &lo);
    init_states(r, c);
    if (r->status) return FLOW_STOP;
    bool cut = r->cut && c->s->kind == ST_REDUCE && c->norelse && n > 1 && !r->active;
    return cut ? run_cut(r, c, lo, n) : run_iterations(r, c, lo, n);
}

static bool condition(Run *r, CodeStmt *c) {
    return *(const uint8_t *)eval_expr(r, c->value, NULL)->p;
}

static Flow run_while(Run *r, CodeStmt *c) {
    while (condition(r, c) && !r->status) {
        Flow result = run_block(r, c->body, c->nbody);
        if (result == FLOW_BREAK) break;
        if (result == FLOW_STOP) return result;
    }
    return flow(r);
}

// ---- conditions ----

static Flow run_masked(Run *r, const uint8_t *mask, bool on, CodeStmt *c, int n) {
    unsigned char active[STRIP];
    const unsigned char *outer = r->active;
    int count = 0;
    for (int l = 0; l < r->lanes; l++) {
        active[l] = (mask[l] != 0) == on && (!outer || outer[l]);
        count += active[l];
    }
    if (!count || !n) return FLOW_NEXT;
    r->active = active;
    Flow result = run_block(r, c, n);
    r->active = outer;
    return result;
}

static Flow run_if(Run *r, CodeStmt *c) {
    const Node *n = eval_expr(r, c->value, NULL);
    if (r->status) return FLOW_STOP;
    if (!n->varies) return *(const uint8_t *)n->p ? run_block(r, c->body, c->nbody) : run_block(r, c->orelse, c->norelse);
    uint8_t mask[STRIP];
    memcpy(mask, n->p, (size_t)r->lanes);
    Flow result = run_masked(r, mask, true, c->body, c->nbody);
    return result == FLOW_NEXT ? run_masked(r, mask, false, c->orelse, c->norelse) : result;
}

static Flow run_check(Run *r, CodeStmt *c) {
    const Node *n = eval_expr(r, c->value, NULL);
    for (int l = 0; l < (n->varies ? r->lanes : 1) && !r->status; l++) {
        bool on = !n->varies || !r->active || r->active[l];
        if (on && !((const uint8_t *)n->p)[l]) r->status = -(c->s->code + 256 * c->s->node);
    }
    return flow(r);
}

// ---- teams: the parts between barriers, member after member ----

typedef struct {
    int64_t n;
    int slot;     // of the member's symbol
    BufVal *bufs; // [n][nbufs]: each member's local buffers
} Team;

static Flow run_member(Run *r, const Team *t, int64_t member, CodeStmt *c, int n) {
    Frame *f = r->frame;
    size_t bytes = sizeof(BufVal) * (size_t)f->code->nbufs;
    BufVal *own = t->bufs + member * f->code->nbufs;
    memcpy(f->buf, own, bytes);
    f->sym[t->slot] = (IdxVal){.v = member};
    Flow result = run_block(r, c, n);
    memcpy(own, f->buf, bytes);
    return result;
}

static Flow run_part(Run *r, const Team *t, CodeStmt *c, int n) {
    if (n == 0) return FLOW_NEXT;
    int64_t *order = shuffled(r, t->n);
    Flow result = FLOW_NEXT;
    for (int64_t i = 0; i < t->n && result == FLOW_NEXT; i++) result = run_member(r, t, order ? order[i] : i, c, n);
    mem_realloc(order, 0);
    return result;
}

static Flow run_parts(Run *r, const Team *t, CodeStmt *c, int n) {
    int from = 0;
    for (int i = 0; i < n; i++) {
        if (!c[i].barrier && c[i].s->kind != ST_BARRIER) continue;
        if (run_part(r, t, c + from, i - from) == FLOW_STOP) return FLOW_STOP;
        from = i + 1;
        if (c[i].s->kind == ST_BARRIER) continue;
        int64_t lo, k = trips(r, &c[i], &lo);
        for (int64_t j = 0; j < k; j++) {
            r->frame->sym[c[i].slot] = (IdxVal){.v = lo + j * c[i].s->step};
            if (run_parts(r, t, c[i].body, c[i].nbody) == FLOW_STOP) return FLOW_STOP;
        }
    }
    return run_part(r, t, c + from, n - from);
}

static Flow run_team(Run *r, CodeStmt *c) {
    Team t = {.n = eval_dim_scalar(r, c->hi), .slot = c->slot};
    int nbufs = r->frame->code->nbufs;
    if (t.n < 1) return flow(r);
    t.bufs = ARENA_ARRAY(r->arena, BufVal, t.n * nbufs + 1);
    for (int64_t m = 0; m < t.n; m++)
        for (int i = 0; i < nbufs; i++) {
            BufVal *b = &t.bufs[m * nbufs + i];
            *b = r->frame->buf[i];
            b->own = NULL;
            b->own_bytes = 0;
        }
    Flow result = run_parts(r, &t, c->body, c->nbody);
    return result == FLOW_STOP ? FLOW_STOP : flow(r);
}

// ---- blocks ----

static Flow run_break(Run *r, CodeStmt *c) {
    (void)r, (void)c;
    return FLOW_BREAK;
}

static Flow run_store_stmt(Run *r, CodeStmt *c) {
    run_store(r, c);
    return flow(r);
}

static Flow run_size_stmt(Run *r, CodeStmt *c) {
    run_size(r, c);
    return flow(r);
}

static Flow run_nothing(Run *r, CodeStmt *c) {
    (void)c;
    return flow(r);
}

Flow run_block(Run *r, CodeStmt *c, int n) {
    static Flow (*const run[ST_COUNT])(Run * r, CodeStmt * c) = {[ST_FOR] = run_loop,
        [ST_REDUCE] = run_loop,
        [ST_WHILE] = run_while,
        [ST_IF] = run_if,
        [ST_BREAK] = run_break,
        [ST_LET] = run_let,
        [ST_VAR] = run_var,
        [ST_TILE] = run_var,
        [ST_SET] = run_set,
        [ST_STORE] = run_store_stmt,
        [ST_LOCAL] = run_local,
        [ST_CHECK] = run_check,
        [ST_CALL] = run_call,
        [ST_TEAM] = run_team,
        [ST_BARRIER] = run_nothing,
        [ST_SIZE] = run_size_stmt,
        [ST_ALLOC] = run_memory,
        [ST_FREE] = run_memory,
        [ST_COMMENT] = run_nothing};
    for (int i = 0; i < n; i++) {
        r->at = c[i].s;
        Flow result = run[c[i].s->kind](r, &c[i]);
        if (result != FLOW_NEXT) return result;
    }
    return FLOW_NEXT;
}
