// schedule_apply: reads a schedule's text and applies its primitives in order. The primitives' rewrites stand in loop_split.c and its
// neighbours.
#include "loop_schedule.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int min_args, max_args;
    ScheduleFn *fn;
} primitives[] = {
    {"split", 2, 3, schedule_split},
    {"fuse", 2, 2, schedule_fuse},
    {"reorder", 2, SCHEDULE_ARGS, schedule_reorder},
    {"unroll", 1, 1, schedule_unroll},
    {"parallel", 1, 1, schedule_parallel},
    {"jam", 1, 1, schedule_jam},
    {"vectorize", 2, 2, schedule_vectorize},
    {"rfactor", 3, 3, schedule_rfactor},
    {"compute_at", 2, 3, schedule_compute_at},
    {"store_at", 2, 2, schedule_store_at},
    {"fold_storage", 2, 2, schedule_fold_storage},
    {"stage", 3, 3, schedule_stage},
    {"pack", 4, SCHEDULE_ARGS, schedule_pack},
    {"parts", 4, 4, schedule_parts},
    {"version", 2, 2, schedule_version},
    {"tensorize", 2, 2, schedule_tensorize},
};

bool schedule_fail(Schedule *s, const char *fmt, ...) {
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    diag_error(s->d, EXIT_INTERNAL, "kernel '%s': schedule %s: %s", s->k->name, s->name, text);
    return false;
}

// ---- finding loops ----
static LoopPlace find_in(Block *b, const char *name) {
    for (int i = 0; i < b->n; i++) {
        Stmt *s = b->data[i];
        bool loops = s->kind == ST_FOR || s->kind == ST_REDUCE;
        if (loops && !strcmp(dim_as_symbol(s->sym)->name, name)) return (LoopPlace){s, b, i};
        LoopPlace inner = find_in(&s->body, name);
        if (!inner.stmt) inner = find_in(&s->orelse, name);
        if (inner.stmt) return inner;
    }
    return (LoopPlace){0};
}

LoopPlace schedule_find(Kernel *k, const char *name) {
    return find_in(&k->body, name);
}

static LoopPlace place_in(Block *b, const Stmt *s) {
    LoopPlace found = {0};
    for (int i = 0; i < b->n && !found.stmt; i++) {
        if (b->data[i] == s) return (LoopPlace){b->data[i], b, i};
        found = place_in(&b->data[i]->body, s);
        if (!found.stmt) found = place_in(&b->data[i]->orelse, s);
    }
    return found;
}

LoopPlace schedule_place(Kernel *k, const Stmt *s) {
    return place_in(&k->body, s);
}

void schedule_insert(Schedule *s, Block *b, int at, Stmt *now) {
    vec_push(s->p->arena, b, now);
    for (int i = b->n - 1; i > at; i--) b->data[i] = b->data[i - 1];
    b->data[at] = now;
}

void schedule_remove(LoopPlace at) {
    for (int i = at.at; i + 1 < at.block->n; i++) at.block->data[i] = at.block->data[i + 1];
    at.block->n--;
}

typedef struct {
    const char *name;
    LoopBuffer *local;
    bool team;
} LocalSearch;

static void look_for_local(void *ctx, Stmt *s) {
    LocalSearch *l = ctx;
    l->team |= s->kind == ST_TEAM;
    if (s->kind == ST_LOCAL && !strcmp(s->var->name, l->name)) l->local = (LoopBuffer *)(uintptr_t)s->var->owner;
}

bool schedule_buffer(Schedule *s, int arg, LoopBuffer **out) {
    LocalSearch l = {.name = s->args[arg]};
    loop_walk(&s->k->body, look_for_local, &l);
    *out = l.local;
    for (int i = 0; i < s->k->params.n; i++)
        if (!strcmp(s->k->params.data[i]->var.name, s->args[arg])) *out = s->k->params.data[i];
    if (l.team) return schedule_fail(s, "the kernel has a team");
    return *out || schedule_fail(s, "there is no buffer '%s'", s->args[arg]);
}

bool schedule_loop(Schedule *s, int arg, const char *kinds, LoopPlace *out) {
    *out = schedule_find(s->k, s->args[arg]);
    if (!out->stmt) return schedule_fail(s, "there is no loop '%s'", s->args[arg]);
    char kind = out->stmt->kind == ST_REDUCE ? 'R' : "prs"[out->stmt->loop];
    return strchr(kinds, kind) != NULL || schedule_fail(s, "loop '%s' is of the wrong kind", s->args[arg]);
}

bool schedule_int(Schedule *s, int arg, int64_t least, int64_t *out) {
    char *end;
    *out = strtoll(s->args[arg], &end, 10);
    return (*end == 0 && *out >= least) || schedule_fail(s, "'%s' is not an integer of at least %ld", s->args[arg], (long)least);
}

void schedule_replace(Schedule *s, LoopPlace at, const Block *now) {
    Block *b = at.block;
    Block rest = loop_block(b);
    for (int i = at.at + 1; i < b->n; i++) vec_push(s->p->arena, &rest, b->data[i]);
    b->n = at.at;
    for (int i = 0; i < now->n; i++) vec_push(s->p->arena, b, now->data[i]);
    for (int i = 0; i < rest.n; i++) vec_push(s->p->arena, b, rest.data[i]);
}

// ---- text: name(arg, arg) name(…) ----
static const char *skip_blanks(const char *p) {
    while (isspace((unsigned char)*p) || *p == ',' || *p == ';') p++;
    return p;
}

// The word from *p to `stop` or to a comma outside of parentheses.
static bool read_word(Schedule *s, const char **p, char stop, const char **out) {
    const char *start = skip_blanks(*p);
    size_t n = 0;
    for (int open = 0; start[n] && (open || (start[n] != stop && start[n] != ',')); n++) open += (start[n] == '(') - (start[n] == ')');
    *p = start + n;
    while (n && isspace((unsigned char)start[n - 1])) n--;
    *out = arena_strndup(s->p->arena, start, n);
    return n > 0;
}

static bool read_primitive(Schedule *s, const char **p) {
    s->nargs = 0;
    s->name = "text";
    if (!read_word(s, p, '(', &s->name) || **p != '(') return schedule_fail(s, "expected '(' at '%.20s'", *p);
    ++*p;
    while (*(*p = skip_blanks(*p)) && **p != ')') {
        if (s->nargs == SCHEDULE_ARGS) return schedule_fail(s, "more than %d arguments", SCHEDULE_ARGS);
        if (!read_word(s, p, ')', &s->args[s->nargs++])) return schedule_fail(s, "empty argument");
    }
    if (**p != ')') return schedule_fail(s, "')' is missing");
    ++*p;
    return true;
}

static bool apply_primitive(Schedule *s) {
    for (size_t i = 0; i < sizeof primitives / sizeof *primitives; i++) {
        if (strcmp(primitives[i].name, s->name)) continue;
        if (s->nargs < primitives[i].min_args || s->nargs > primitives[i].max_args)
            return schedule_fail(s, "takes another number of arguments than %d", s->nargs);
        return primitives[i].fn(s);
    }
    return schedule_fail(s, "unknown primitive");
}

bool schedule_apply(Program *p, Kernel *k, const char *text, Diag *d) {
    Schedule s = {.p = p, .k = k, .d = d};
    for (const char *at = skip_blanks(text); *at; at = skip_blanks(at))
        if (!read_primitive(&s, &at) || !apply_primitive(&s)) return false;
    return true;
}
