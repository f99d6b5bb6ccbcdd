// Buffers that came to no use: lowering makes temps and constants before it knows whether a kernel or main reads or writes them (a loop's
// carried value that lives in its output's memory, an optional output of a template). Those nobody mentions are taken off the list.
#include "lower.h"

#include <stdlib.h>

typedef struct {
    const LoopBuffer *buffer;
    bool used;
} Mark;

typedef struct {
    Mark *marks; // sorted by buffer
    size_t n;
} Marks;

static int by_buffer(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)((const Mark *)a)->buffer, y = (uintptr_t)((const Mark *)b)->buffer;
    return (x > y) - (x < y);
}

static Mark *find_mark(const Marks *m, const LoopBuffer *b) {
    Mark key = {b, false};
    return bsearch(&key, m->marks, m->n, sizeof key, by_buffer);
}

static void mark(Marks *m, const LoopBuffer *b) {
    Mark *found = find_mark(m, b);
    if (found) found->used = true;
}

static void mark_load(void *ctx, const Expr *e) {
    if (e->op == X_load) mark(ctx, e->var->owner);
}

static void mark_loads(void *ctx, const Expr **e) {
    if (*e) expr_visit(*e, mark_load, ctx);
}

static void mark_stmt(void *ctx, Stmt *s) {
    for (int i = 0; i < s->nargs; i++) mark(ctx, s->args[i]);
    stmt_exprs(s, mark_loads, ctx);
    if (s->var && s->var->owner) mark(ctx, s->var->owner); // store, alloc, free
}

void lower_drop_unused(Program *p) {
    Arena *scratch = arena_new();
    Marks m = {ARENA_ARRAY(scratch, Mark, p->buffers.n + 1), (size_t)p->buffers.n};
    for (size_t i = 0; i < m.n; i++) m.marks[i].buffer = p->buffers.data[i];
    qsort(m.marks, m.n, sizeof *m.marks, by_buffer);
    loop_walk(&p->main, mark_stmt, &m);
    int kept = 0;
    for (int i = 0; i < p->buffers.n; i++) {
        LoopBuffer *b = p->buffers.data[i];
        bool interface = b->kind != BUF_TEMP && b->kind != BUF_CONST;
        if (interface || find_mark(&m, b)->used) p->buffers.data[kept++] = b;
    }
    p->buffers.n = kept;
    arena_free(scratch);
}
