// plan_memory: gives every temp its place in the arena.
//
// 1. Lifetimes: main's statements are numbered in order; a temp lives from its first to its last use, and through the whole of a loop that
// it is used
//    in as well as outside of. Branches of an if share numbers' order, so temps of different branches may overlap in memory.
// 2. In place: a kernel that reads element i of an input only to write element i of an output may write where it reads, when the input dies
// there:
//    then both are one block.
// 3. Offsets: blocks of constant size are placed largest first at the lowest gap among the blocks they live with. If any size is symbolic,
// blocks share
//    slots instead: a slot's size is the maximum of its blocks', its offset the sum of the slots below, so offsets are formulas valid for
//    every size.
// A temp whose size is data without a bound has no place in the arena: its memory comes from the environment's allocator, behind the
// statement that defines its size, until that statement's block ends. Named regions (--region NAME=BYTES,…) are filled first, largest
// blocks first; what does not fit goes to the arena.
#include "loop_passes.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64, MAX_REGIONS = 8 };

typedef struct {
    LoopBuffer *buffer;
    int first, last; // statement numbers; first == -1: unused
    int block;       // index of the block it shares
} Life;

typedef struct {
    const Dim *bytes; // rounded up to ALIGN
    int64_t size;     // constant size, -1: symbolic
    int first, last;
    int64_t offset; // constant plan
    int slot;       // symbolic plan
    const char *region;
    bool placed;
} MemBlock;

typedef struct {
    const char *name;
    int64_t bytes;
} MemRegion;

typedef struct {
    Program *p;
    Arena *arena;
    Life *life;
    int n;
    int now; // number of the statement at hand
    VEC(MemBlock) blocks;
    MemRegion regions[MAX_REGIONS];
    int nregions;
} Plan;

static Life *life_of(Plan *m, const LoopBuffer *b) {
    for (int i = 0; i < m->n; i++)
        if (m->life[i].buffer == b) return &m->life[i];
    return NULL;
}

static void touch(Plan *m, const LoopBuffer *b) {
    Life *l = b->kind == BUF_TEMP && !b->unbounded ? life_of(m, b) : NULL;
    if (!l) return;
    if (l->first < 0) l->first = m->now;
    l->last = m->now;
}

static void touch_loads(void *ctx, const Expr *e) {
    if (e->op == X_load) touch(ctx, e->var->owner);
}

static void touch_expr(void *ctx, const Expr **e) {
    expr_visit(*e, touch_loads, ctx);
}

static void number_block(Plan *m, Block *b);

// After a loop: what was used inside and before it lives to the loop's end (the next iteration may read it).
static void extend_over_loop(Plan *m, int start) {
    for (int i = 0; i < m->n; i++) {
        Life *l = &m->life[i];
        if (l->first >= 0 && l->first < start && l->last >= start) l->last = m->now;
    }
}

static void number_stmt(Plan *m, Stmt *s) {
    m->now++;
    stmt_exprs(s, touch_expr, m);
    if (s->kind == ST_STORE) touch(m, s->var->owner);
    for (int i = 0; i < s->nargs; i++) touch(m, s->args[i]);
    int start = m->now;
    number_block(m, &s->body);
    number_block(m, &s->orelse);
    bool loops = s->kind == ST_FOR || s->kind == ST_REDUCE || s->kind == ST_WHILE;
    if (!loops) return;
    m->now++;
    extend_over_loop(m, start + 1);
}

static void number_block(Plan *m, Block *b) {
    for (int i = 0; i < b->n; i++) number_stmt(m, b->data[i]);
}

// What a loop defines inside and its next iteration or the code after it reads must keep its memory for the whole loop: a value used after
// the loop, or read in the loop before it is written. The first kind has its last use behind the loop's start, so its first use is moved to
// the loop's start.
static void extend_back(Plan *m, Block *b) {
    for (int i = 0; i < b->n; i++) {
        Stmt *s = b->data[i];
        m->now++;
        int start = m->now;
        extend_back(m, &s->body);
        extend_back(m, &s->orelse);
        bool loops = s->kind == ST_FOR || s->kind == ST_REDUCE || s->kind == ST_WHILE;
        if (!loops) continue;
        m->now++;
        for (int k = 0; k < m->n; k++) {
            Life *l = &m->life[k];
            if (l->first > start && l->first <= m->now && l->last > m->now) l->first = start;
        }
    }
}

static const Dim *rounded_bytes(Plan *m, const LoopBuffer *b) {
    DimTable *t = m->p->dims;
    const Dim *bytes = dim_muli(t, loop_buffer_size(m->p, b), dtype_bytes(b->var.type.type));
    return dim_muli(t, dim_ceildiv(t, bytes, dim_int(t, ALIGN)), ALIGN);
}

// ---- in place ----
typedef struct {
    const LoopBuffer *in, *out;
    const Dim *at; // the one index of the store
    int stores;
    bool ok;
} SameElement;

static void check_load(void *ctx, const Expr *e) {
    SameElement *s = ctx;
    if (e->op != X_load) return;
    if (e->var->owner == s->out) s->ok = false;
    if (e->var->owner == s->in && (e->dim != s->at || e->type.lanes != 1 || (e->n > 0 && e->a[0]))) s->ok = false;
}

static void check_load_ref(void *ctx, const Expr **e) {
    expr_visit(*e, check_load, ctx);
}
static void find_store(void *ctx, Stmt *st) {
    SameElement *s = ctx;
    if (st->kind != ST_STORE || st->var->owner != s->out) return;
    s->stores++;
    s->at = st->dim;
    if (st->offsets || st->value->type.lanes != 1) s->ok = false;
}

static void check_stmt(void *ctx, Stmt *st) {
    stmt_exprs(st, check_load_ref, ctx);
}

// Every element of `in` that kernel k reads is read where, and in the iteration in which, the same element of `out` is written.
static bool same_element(Kernel *k, const LoopBuffer *in, const LoopBuffer *out) {
    SameElement s = {.in = in, .out = out, .ok = true};
    loop_walk(&k->body, find_store, &s);
    if (s.stores != 1 || !s.ok) return false;
    loop_walk(&k->body, check_stmt, &s);
    return s.ok;
}

static bool same_bytes(Plan *m, const LoopBuffer *a, const LoopBuffer *b) {
    return dtype_bytes(a->var.type.type) == dtype_bytes(b->var.type.type) && rounded_bytes(m, a) == rounded_bytes(m, b) &&
           loop_buffer_size(m->p, a) == loop_buffer_size(m->p, b);
}

// The call's number is `now`: an input that is last used here may be taken over by an output first used here.
static void try_in_place(Plan *m, Stmt *call, int now) {
    Kernel *k = call->kernel;
    for (int o = 0; o < k->params.n; o++) {
        if (!k->params.data[o]->writes || k->params.data[o]->reads) continue;
        Life *out = life_of(m, call->args[o]);
        if (!out || out->first != now || out->block >= 0) continue;
        for (int i = 0; i < k->params.n; i++) {
            Life *in = i != o && !k->params.data[i]->writes ? life_of(m, call->args[i]) : NULL;
            if (!in || in->last != now || in->block < 0 || !same_bytes(m, in->buffer, out->buffer)) continue;
            if (!same_element(k, k->params.data[i], k->params.data[o])) continue;
            out->block = in->block;
            MemBlock *b = &m->blocks.data[in->block];
            if (out->last > b->last) b->last = out->last;
            k->params.data[o]->alias = ALIAS_SAME;
            break;
        }
    }
}

static int new_block(Plan *m, const Life *l) {
    MemBlock b = {.bytes = rounded_bytes(m, l->buffer), .first = l->first, .last = l->last, .size = -1};
    const Dim *most = dim_upper(m->p->dims, b.bytes);
    int64_t v;
    if (most) b.bytes = most;
    if (dim_is_int(b.bytes, &v)) b.size = v;
    vec_push(m->arena, &m->blocks, b);
    return m->blocks.n - 1;
}

static void assign_blocks(Plan *m, Block *b, bool in_loop) {
    for (int i = 0; i < b->n; i++) {
        Stmt *s = b->data[i];
        m->now++;
        int now = m->now;
        if (s->kind == ST_CALL && !in_loop) try_in_place(m, s, now);
        for (int k = 0; k < m->n; k++)
            if (m->life[k].first == now && m->life[k].block < 0) m->life[k].block = new_block(m, &m->life[k]);
        bool loops = s->kind == ST_FOR || s->kind == ST_REDUCE || s->kind == ST_WHILE;
        assign_blocks(m, &s->body, in_loop || loops);
        assign_blocks(m, &s->orelse, in_loop || loops);
        if (loops) m->now++;
    }
}

// ---- temps without bound ----
typedef struct {
    Program *p;
    LoopBuffer *buffer;
    const Dim *defined; // the size just defined
    bool uses, waits;   // it mentions that size; it mentions one that is not defined yet
    VEC(const Dim *) known;
} Unbounded;

static void see_size(void *ctx, const Dim *sym) {
    Unbounded *u = ctx;
    if (dim_as_symbol(sym)->kind != SYM_DATA) return;
    u->uses |= sym == u->defined;
    for (int i = 0; i < u->known.n; i++)
        if (u->known.data[i] == sym) return;
    u->waits = true;
}

static Stmt *memory_stmt(Unbounded *u, const Block *like, StKind kind) {
    Block b = loop_block(like);
    Stmt *s = loop_stmt(u->p, &b, kind);
    s->args = ARENA_ARRAY(u->p->arena, LoopBuffer *, 1);
    s->args[0] = u->buffer;
    s->nargs = 1;
    s->dim = kind == ST_ALLOC ? dim_muli(u->p->dims, loop_buffer_size(u->p, u->buffer), dtype_bytes(u->buffer->var.type.type)) : NULL;
    return s;
}

static void allocate_in(Unbounded *u, Block *b) {
    Block out = loop_block(b);
    VEC(Stmt *) frees = {0};
    for (int i = 0; i < b->n; i++) {
        Stmt *s = b->data[i];
        allocate_in(u, &s->body);
        allocate_in(u, &s->orelse);
        vec_push(u->p->arena, &out, s);
        if (s->kind != ST_SIZE) continue;
        vec_push(u->p->arena, &u->known, s->sym);
        u->defined = s->sym;
        for (int k = 0; k < u->p->buffers.n; k++) {
            u->buffer = u->p->buffers.data[k];
            if (u->buffer->kind != BUF_TEMP || u->buffer->unbounded) continue;
            const Dim *size = loop_buffer_size(u->p, u->buffer);
            u->uses = u->waits = false;
            dim_symbols(size, see_size, u);
            if (!u->uses || u->waits || dim_upper(u->p->dims, size)) continue;
            u->buffer->unbounded = true;
            vec_push(u->p->arena, &out, memory_stmt(u, b, ST_ALLOC));
            vec_push(u->p->arena, &frees, memory_stmt(u, b, ST_FREE));
        }
    }
    for (int i = frees.n - 1; i >= 0; i--) vec_push(u->p->arena, &out, frees.data[i]);
    *b = out;
}

// ---- offsets ----
static bool lives_with(const MemBlock *a, const MemBlock *b) {
    return a->first <= b->last && b->first <= a->last;
}

static int64_t lowest_gap(const Plan *m, const MemBlock *b) {
    int64_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < m->blocks.n; i++) {
            const MemBlock *c = &m->blocks.data[i];
            bool hit = c->placed && c->region == b->region && lives_with(b, c) && at < c->offset + c->size && c->offset < at + b->size;
            if (!hit) continue;
            at = c->offset + c->size;
            moved = true;
        }
    }
    return at;
}

static int by_size(const void *pa, const void *pb) {
    const MemBlock *a = *(MemBlock *const *)pa, *b = *(MemBlock *const *)pb;
    if (a->size != b->size) return a->size < b->size ? 1 : -1;
    return a->first != b->first ? (a->first < b->first ? -1 : 1) : a->last - b->last;
}

static bool place_in_region(Plan *m, MemBlock *b) {
    for (int r = 0; r < m->nregions; r++) {
        b->region = m->regions[r].name;
        b->offset = lowest_gap(m, b);
        if (b->offset + b->size <= m->regions[r].bytes) return true;
    }
    b->region = NULL;
    return false;
}

static int64_t place_constant(Plan *m) {
    MemBlock **order = ARENA_ARRAY(m->arena, MemBlock *, m->blocks.n + 1);
    int64_t end = 0;
    for (int i = 0; i < m->blocks.n; i++) order[i] = &m->blocks.data[i];
    qsort(order, (size_t)m->blocks.n, sizeof *order, by_size);
    for (int i = 0; i < m->blocks.n; i++) {
        MemBlock *b = order[i];
        if (b->size < 0) continue;
        bool in_region = place_in_region(m, b);
        if (!in_region) b->offset = lowest_gap(m, b);
        b->placed = true;
        if (!in_region && b->offset + b->size > end) end = b->offset + b->size;
    }
    return end;
}

// Slots for the blocks of symbolic size, stacked on top of the constant part.
static const Dim *place_symbolic(Plan *m, int64_t base, const Dim ***slot_offset) {
    DimTable *t = m->p->dims;
    int *busy_until = ARENA_ARRAY(m->arena, int, m->blocks.n + 1), slots = 0;
    const Dim **size = ARENA_ARRAY(m->arena, const Dim *, m->blocks.n + 1);
    for (int now = 0; now <= m->now; now++) {
        for (int i = 0; i < m->blocks.n; i++) {
            MemBlock *b = &m->blocks.data[i];
            if (b->size >= 0 || b->first != now) continue;
            int best = -1;
            for (int s = 0; s < slots; s++) {
                if (busy_until[s] >= now) continue;
                if (best < 0 || (size[s] == b->bytes && size[best] != b->bytes)) best = s;
            }
            if (best < 0) {
                best = slots++;
                size[best] = b->bytes;
            }
            size[best] = dim_max(t, size[best], b->bytes);
            busy_until[best] = b->last;
            b->slot = best;
        }
    }
    *slot_offset = ARENA_ARRAY(m->arena, const Dim *, slots + 1);
    const Dim *at = dim_int(t, base);
    for (int s = 0; s < slots; s++) {
        (*slot_offset)[s] = at;
        at = dim_add(t, at, size[s]);
    }
    return at;
}

// A region that stays empty was most likely meant to hold something.
static void warn_of_empty_regions(const Plan *m, Diag *d) {
    for (int r = 0; r < m->nregions; r++) {
        int64_t least = INT64_MAX;
        bool used = false;
        for (int i = 0; i < m->blocks.n; i++) {
            const MemBlock *b = &m->blocks.data[i];
            used |= b->region == m->regions[r].name;
            if (b->size >= 0 && b->size < least) least = b->size;
        }
        if (used) continue;
        if (least == INT64_MAX)
            diag_warning(d, "--region %s=%lld: nothing is placed there: no buffer of constant size is left", m->regions[r].name,
                (long long)m->regions[r].bytes);
        else
            diag_warning(d, "--region %s=%lld: nothing is placed there: the smallest buffer has %lld bytes", m->regions[r].name,
                (long long)m->regions[r].bytes, (long long)least);
    }
}

static bool parse_regions(Plan *m, const char *text, Diag *d) {
    for (const char *p = text; p && *p;) {
        const char *eq = strchr(p, '=');
        char *end = NULL;
        long long bytes = eq ? strtoll(eq + 1, &end, 0) : -1;
        if (bytes > INT64_MAX >> 20) bytes = -1;
        if (end && (*end == 'K' || *end == 'k'))
            bytes *= 1024, end++;
        else if (end && *end == 'M')
            bytes *= 1024 * 1024, end++;
        size_t length = eq ? (size_t)(eq - p) : 0;
        bool word = length > 0 && !isdigit((unsigned char)*p);
        for (size_t i = 0; i < length; i++) word &= p[i] == '_' || isalnum((unsigned char)p[i]);
        bool good = word && bytes > 0 && end && (*end == ',' || *end == 0) && m->nregions < MAX_REGIONS;
        if (!good) {
            diag_error(d, EXIT_USAGE, "--region takes NAME=BYTES,… (at most %d; a name is a word of C), found '%s'", MAX_REGIONS, text);
            return false;
        }
        m->regions[m->nregions++] = (MemRegion){arena_strndup(m->p->arena, p, length), bytes};
        p = *end ? end + 1 : end;
    }
    return true;
}

bool pass_plan_memory(Program *p, const PassOptions *o, Diag *d) {
    Plan m = {.p = p, .arena = arena_new()};
    if (!parse_regions(&m, o->regions, d)) {
        arena_free(m.arena);
        return false;
    }
    Unbounded u = {.p = p};
    allocate_in(&u, &p->main);
    m.life = ARENA_ARRAY(m.arena, Life, p->buffers.n + 1);
    for (int i = 0; i < p->buffers.n; i++)
        if (p->buffers.data[i]->kind == BUF_TEMP) m.life[m.n++] = (Life){p->buffers.data[i], -1, -1, -1};
    number_block(&m, &p->main);
    m.now = 0;
    extend_back(&m, &p->main);
    for (int i = 0; i < p->kernels.n; i++)
        for (int k = 0; k < p->kernels.data[i]->params.n; k++) p->kernels.data[i]->params.data[k]->alias = ALIAS_DISJOINT;
    m.now = 0;
    assign_blocks(&m, &p->main, false);
    const Dim **slot_offset = NULL;
    p->arena_bytes = place_symbolic(&m, place_constant(&m), &slot_offset);
    for (int i = 0; i < m.n; i++) {
        Life *l = &m.life[i];
        if (l->block < 0) continue;
        MemBlock *b = &m.blocks.data[l->block];
        l->buffer->offset = b->size >= 0 ? dim_int(p->dims, b->offset) : slot_offset[b->slot];
        l->buffer->region = b->region;
    }
    warn_of_empty_regions(&m, d);
    arena_free(m.arena);
    return true;
}
