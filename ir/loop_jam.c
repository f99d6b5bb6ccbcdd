// Schedule primitive jam: unroll and jam. See docs/schedule.md.
//
// The iterations of a par loop are independent, so their statements may be interleaved. jam writes each statement once for every iteration
// and shares what does not differ between them (loop_varying.h): loops inside become one loop with the statements of all iterations in it,
// a reduction gets a state for each iteration, values that are the same are computed once. This is how a register tile comes about.
//
//   for i in 0..2 par {                            reduce k in 0..n (s = 0.0, s_2 = 0.0) {
//     reduce k in 0..n (s = 0.0) {                   set s = fma(x[k], w[k], s)
//       set s = fma(x[n*i + k], w[k], s)      =>     set s_2 = fma(x[n + k], w[k], s_2)
//     }                                            }
//     y[i] = s                                     y[0] = s
//   }                                              y[1] = s_2
//
// A loop whose number of iterations is known only to be small gets a copy for each number.
#include "loop_schedule.h"
#include "loop_varying.h"

typedef struct {
    Program *p;
    Varying varying;
    int n;
    LoopMap **map; // of each iteration
} Jam;

static void jam_block(Jam *j, Block *to, const Block *from);

static void find_break(void *ctx, Stmt *s) {
    if (s->kind == ST_BREAK) *(bool *)ctx = true;
}

static bool has_break(Stmt *s) {
    bool found = false;
    loop_walk(&s->body, find_break, &found);
    loop_walk(&s->orelse, find_break, &found);
    return found;
}

static void copy_each(Jam *j, Block *to, const Stmt *s) {
    for (int i = 0; i < j->n; i++) loop_map_copy(j->map[i], to, s);
}

static Stmt *shell(Jam *j, Block *to, const Stmt *s) {
    Stmt *n = arena_copy(j->p->arena, s, sizeof *s);
    n->body = n->orelse = loop_block(to);
    vec_push(j->p->arena, to, n);
    return n;
}

// The states of all iterations; what is the same for all stays one.
static void jam_states(Jam *j, Block *to, Stmt *n, const Stmt *s) {
    Arena *a = j->p->arena;
    int room = s->nstates * j->n, count = 0;
    n->states = ARENA_ARRAY(a, Var *, room);
    n->others = ARENA_ARRAY(a, Var *, room);
    n->inits = ARENA_ARRAY(a, const Expr *, room);
    for (int i = 0; i < s->nstates; i++) {
        bool differs = varying_has(&j->varying, s->states[i]);
        for (int e = 0; e < (differs ? j->n : 1); e++, count++) {
            Var *state = s->states[i], *other = s->others[i];
            if (differs && e > 0) {
                state = arena_copy(a, state, sizeof *state);
                other = arena_copy(a, other, sizeof *other);
                state->name = loop_fresh(j->p, to, state->name);
                other->name = loop_fresh(j->p, to, other->name);
                loop_map_var(j->map[e], s->states[i], state);
                loop_map_var(j->map[e], s->others[i], other);
            }
            n->states[count] = state;
            n->others[count] = other;
            n->inits[count] = differs ? loop_map_expr(j->map[e], s->inits[i]) : s->inits[i];
        }
    }
    n->nstates = count;
}

static void jam_loop(Jam *j, Block *to, Stmt *s) {
    bool counted = s->kind != ST_WHILE;
    bool differs = counted ? varying_dim(&j->varying, s->lo) || varying_dim(&j->varying, s->hi) : varying_expr(&j->varying, s->value);
    if (differs || has_break(s)) {
        copy_each(j, to, s);
        return;
    }
    Stmt *n = shell(j, to, s);
    if (s->nstates) jam_states(j, to, n, s);
    jam_block(j, &n->body, &s->body);
    jam_block(j, &n->orelse, &s->orelse);
}

static void jam_if(Jam *j, Block *to, Stmt *s) {
    if (varying_expr(&j->varying, s->value) || has_break(s)) {
        copy_each(j, to, s);
        return;
    }
    Stmt *n = shell(j, to, s);
    jam_block(j, &n->body, &s->body);
    jam_block(j, &n->orelse, &s->orelse);
}

// A statement without blocks that is the same for all iterations.
static bool is_shared(const Jam *j, const Stmt *s) {
    switch (s->kind) {
    case ST_LET: return !varying_has(&j->varying, s->var ? (const void *)s->var : s->sym);
    case ST_VAR:
    case ST_TILE:
    case ST_SET: return !varying_has(&j->varying, s->var);
    case ST_CHECK: return !varying_expr(&j->varying, s->value);
    case ST_COMMENT: return true;
    default: return false;
    }
}

static void jam_stmt(Jam *j, Block *to, Stmt *s) {
    switch (s->kind) {
    case ST_FOR:
    case ST_REDUCE:
    case ST_WHILE: jam_loop(j, to, s); return;
    case ST_IF: jam_if(j, to, s); return;
    default: break;
    }
    if (is_shared(j, s))
        shell(j, to, s);
    else
        copy_each(j, to, s);
}

// Statements without blocks from `from` on that differ between the iterations.
static int run_of_copies(const Jam *j, const Block *b, int from) {
    int i = from;
    for (; i < b->n; i++) {
        const Stmt *s = b->data[i];
        bool has_blocks = s->kind == ST_FOR || s->kind == ST_REDUCE || s->kind == ST_WHILE || s->kind == ST_IF;
        if (has_blocks || is_shared(j, s)) break;
    }
    return i - from;
}

// What few statements share with each other stays in registers while the iterations pass by, what few iterations share while the statements
// do.
static void jam_block(Jam *j, Block *to, const Block *from) {
    for (int i = 0; i < from->n;) {
        int run = run_of_copies(j, from, i);
        if (run > 1 && run < j->n) {
            for (int e = 0; e < j->n; e++)
                for (int k = 0; k < run; k++) loop_map_copy(j->map[e], to, from->data[i + k]);
            i += run;
        } else
            jam_stmt(j, to, from->data[i++]);
    }
}

static void find_refused(void *ctx, Stmt *s) {
    const char **why = ctx;
    if (s->kind == ST_BARRIER || s->kind == ST_TEAM) *why = "it holds a team";
}

// f's body n times, side by side.
static void jam_times(Program *p, Block *to, const Dim *sym, const Dim *lo, int64_t n, const Block *body) {
    Jam j = {.p = p, .varying = varying_new(p->arena), .n = (int)n};
    varying_add(&j.varying, sym);
    varying_close(&j.varying, body);
    j.map = ARENA_ARRAY(p->arena, LoopMap *, j.n + 1);
    for (int i = 0; i < j.n; i++) {
        j.map[i] = loop_map_new(p);
        loop_map_symbol(j.map[i], sym, dim_addi(p->dims, lo, i));
    }
    if (j.n) jam_block(&j, to, body);
}

// `if extent == 1 { once } else { if extent == 2 { twice } … }`
static void jam_each_count(Program *p, Block *to, const Stmt *f, const Dim *extent, int64_t least, int64_t most) {
    for (int64_t n = least > 1 ? least : 1; n <= most; n++) {
        Stmt *which = loop_if(p, to, x_op2(p->arena, X_eq, x_dim(p->arena, extent), x_dim(p->arena, dim_int(p->dims, n))));
        Block body = f->body;
        if (n < most) {
            body = loop_block(to);
            loop_copy(p, &body, &f->body);
        }
        jam_times(p, &which->body, f->sym, f->lo, n, &body);
        to = &which->orelse;
    }
}

bool schedule_jam(Schedule *s) {
    enum { MOST = 64, COUNTS = 16 };
    LoopPlace at;
    int64_t n, least, most;
    if (!schedule_loop(s, 0, "p", &at)) return false;
    Stmt *f = at.stmt;
    const char *why = NULL;
    loop_walk(&f->body, find_refused, &why);
    if (why) return schedule_fail(s, "loop '%s': %s", s->args[0], why);
    if (f->step != 1) return schedule_fail(s, "loop '%s' has a step", s->args[0]);
    const Dim *extent = dim_sub(s->p->dims, f->hi, f->lo);
    bool constant = dim_is_int(extent, &n);
    dim_interval(extent, &least, &most);
    if (constant ? n > MOST : most > COUNTS) return schedule_fail(s, "loop '%s' has no constant extent up to %d", s->args[0], MOST);
    Block now = loop_block(at.block);
    if (constant)
        jam_times(s->p, &now, f->sym, f->lo, n < 0 ? 0 : n, &f->body);
    else
        jam_each_count(s->p, &now, f, extent, least, most);
    schedule_replace(s, at, &now);
    return true;
}
