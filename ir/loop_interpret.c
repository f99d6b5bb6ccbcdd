// The loop interpreter: what Programs mean, and the oracle of loop passes and printers.
//
// This file prepares a run (symbols, the caller's memory, constants, temps), runs main and its calls. Temps with an offset are placed as
// planned, so that a wrong plan shows as a wrong result; fresh memory is filled with 0xff, so that reading before writing does too.
#include "loop_interpret.h"

#include <string.h>

// ---- frames ----

static void frame_init(Run *r, Frame *f, const FuncCode *code) {
    f->code = code;
    f->sym = ARENA_ARRAY(r->arena, IdxVal, code->nsyms + 1);
    f->sym_lanes = ARENA_ARRAY(r->arena, int64_t *, code->nsyms + 1);
    f->var = ARENA_ARRAY(r->arena, VarVal, code->nvars + 1);
    f->buf = ARENA_ARRAY(r->arena, BufVal, code->nbufs + 1);
}

static int64_t main_symbol(void *ctx, const Dim *sym) {
    Run *r = ctx;
    int slot = ptr_map_get(&r->main.slots, sym);
    if (slot < 0) {
        run_fault(r, "size '%s' is not defined", dim_as_symbol(sym)->name);
        return 1;
    }
    return r->main_frame.sym[slot].v;
}

// d under main's symbols; -1 after a fault.
static int64_t main_value(Run *r, const Dim *d, const char *what) {
    bool ok = true;
    int64_t v = dim_eval(d, main_symbol, r, &ok);
    if (!ok || v < 0) run_fault(r, "%s has size %lld", what, (long long)v);
    return ok ? v : -1;
}

static bool symbols_inside(Run *r) {
    for (int i = 0; i < r->p->symbols.n; i++) {
        const Sym *s = dim_as_symbol(r->p->symbols.data[i]);
        int64_t v = r->main_frame.sym[ptr_map_get(&r->main.slots, r->p->symbols.data[i])].v;
        bool ok = true;
        if (s->lo && v < dim_eval(s->lo, main_symbol, r, &ok)) return false;
        if (s->hi && v > dim_eval(s->hi, main_symbol, r, &ok)) return false;
    }
    return true;
}

// ---- buffers of main ----

// Memory of the interpreter's own, kept as it grows.
static void own_memory(BufVal *v, size_t bytes) {
    if (bytes <= v->own_bytes && v->own) return;
    size_t room = bytes ? bytes : 1;
    v->own = mem_realloc(v->own, room);
    memset((char *)v->own + v->own_bytes, 0xff, room - v->own_bytes);
    v->own_bytes = room;
}

static RegionVal *find_region(Run *r, const char *name) {
    for (int i = 0; i < r->regions.n; i++) {
        const char *have = r->regions.data[i].name;
        if (have == name || (have && name && strcmp(have, name) == 0)) return &r->regions.data[i];
    }
    vec_push(r->arena, &r->regions, ((RegionVal){.name = name}));
    return &r->regions.data[r->regions.n - 1];
}

static unsigned char *planned_memory(Run *r, const LoopBuffer *b, size_t bytes) {
    RegionVal *region = find_region(r, b->region);
    int64_t at = main_value(r, b->offset, b->var.name);
    if (at < 0) return NULL;
    if (r->p->arena_bytes && !b->region && (uint64_t)at + bytes > (uint64_t)main_value(r, r->p->arena_bytes, "the arena"))
        run_fault(r, "%s lies behind the arena's end", b->var.name);
    size_t end = (size_t)at + bytes;
    if (end > region->bytes) {
        region->p = mem_realloc(region->p, end);
        memset(region->p + region->bytes, 0xff, end - region->bytes);
        region->bytes = end;
    }
    return region->p + at;
}

static unsigned char *state_memory(Run *r, int i, BufVal *v, size_t bytes) {
    if (r->memory && r->memory[i]) return r->memory[i];
    if (v->own) return v->own;
    const LoopBuffer *b = r->p->buffers.data[i];
    own_memory(v, bytes);
    if (b->bytes)
        memcpy(v->own, b->bytes, bytes);
    else
        memset(v->own, 0, bytes);
    return v->own;
}

// Inputs and outputs: the caller's memory, of the size that is needed now.
static unsigned char *caller_memory(Run *r, int i, BufVal *v, size_t bytes) {
    const LoopBuffer *b = r->p->buffers.data[i];
    unsigned char *p = r->memory ? r->memory[i] : NULL;
    if (p) {
        if (r->cap && r->cap[i] < bytes) r->status = -(b->kind == BUF_OUTPUT ? CODE_CAPACITY : CODE_SHAPE);
        return p;
    }
    if (b->kind == BUF_INPUT && bytes) r->status = -CODE_POINTER;
    own_memory(v, bytes); // an output that is not wanted
    return v->own;
}

static BufVal *buffer_now(Run *r, int i);

static unsigned char *buffer_memory(Run *r, int i, BufVal *v, size_t bytes) {
    const LoopBuffer *b = r->p->buffers.data[i];
    switch (b->kind) {
    case BUF_CONST: return (unsigned char *)(uintptr_t)b->bytes;
    case BUF_STATE: return state_memory(r, i, v, bytes);
    case BUF_TEMP:
        if (b->offset) return planned_memory(r, b, bytes);
        own_memory(v, bytes);
        return v->own;
    default: break;
    }
    bool tied = b->tie >= 0 && !(r->memory && r->memory[i]);
    return tied ? buffer_now(r, b->tie)->p : caller_memory(r, i, v, bytes);
}

// Buffer i of the program with its present size and place.
static BufVal *buffer_now(Run *r, int i) {
    const LoopBuffer *b = r->p->buffers.data[i];
    BufVal *v = &r->main_frame.buf[ptr_map_get(&r->main.slots, &b->var)];
    int64_t n = main_value(r, dim_product(r->p->dims, b->shape, b->rank), b->var.name);
    if (n < 0 || r->status) return v;
    v->n = n;
    v->bytes = (size_t)n * (size_t)dtype_bytes(b->var.type.type);
    v->p = buffer_memory(r, i, v, v->bytes);
    return v;
}

typedef struct {
    const Run *r;
    bool known;
} SizeReader;

static void note_unknown(void *ctx, const Dim *sym) {
    SizeReader *s = ctx;
    if (dim_as_symbol(sym)->kind == SYM_DATA && ptr_map_get(&s->r->sizes, sym) < 0) s->known = false;
}

// Main's own expressions read buffers directly: those whose sizes are known are placed at once, the others when their size is.
static void place_buffers(Run *r) {
    for (int pass = 0; pass < 2; pass++) // the second one sees a planned arena that has stopped growing
        for (int i = 0; i < r->p->buffers.n && !r->status; i++) {
            const LoopBuffer *b = r->p->buffers.data[i];
            SizeReader s = {r, true};
            for (int k = 0; k < b->rank; k++) dim_symbols(b->shape[k], note_unknown, &s);
            if (b->offset) dim_symbols(b->offset, note_unknown, &s);
            if (s.known) buffer_now(r, i);
        }
}

static int buffer_number(const Run *r, const LoopBuffer *b) {
    for (int i = 0; i < r->p->buffers.n; i++)
        if (r->p->buffers.data[i] == b) return i;
    return -1;
}

// ---- statements of main ----

void run_size(Run *r, CodeStmt *c) {
    int64_t v = *(const int64_t *)eval_expr(r, c->value, NULL)->p;
    const Sym *s = dim_as_symbol(c->s->sym);
    r->frame->sym[c->slot] = (IdxVal){.v = v};
    if (r->size) r->size(r->size_ctx, c->s->sym, v);
    bool ok = true;
    if (s->lo && v < dim_eval(s->lo, main_symbol, r, &ok)) r->status = -CODE_SHAPE;
    if (s->hi && v > dim_eval(s->hi, main_symbol, r, &ok)) r->status = -CODE_CAPACITY;
    ptr_map_put(&r->sizes, c->s->sym, 1);
    place_buffers(r);
}

Flow run_memory(Run *r, CodeStmt *c) {
    int i = buffer_number(r, c->s->args[0]);
    BufVal *v = &r->main_frame.buf[ptr_map_get(&r->main.slots, &c->s->args[0]->var)];
    if (c->s->kind == ST_FREE) {
        v->own = mem_realloc(v->own, 0);
        v->own_bytes = 0;
        v->n = 0;
        return FLOW_NEXT;
    }
    buffer_now(r, i);
    if (c->dim && eval_dim_scalar(r, c->dim) < (int64_t)v->bytes) run_fault(r, "%s needs %zu bytes", c->s->args[0]->var.name, v->bytes);
    return r->status ? FLOW_STOP : FLOW_NEXT;
}

static int kernel_number(const Run *r, const Kernel *k) {
    int i = 0;
    while (r->p->kernels.data[i] != k) i++;
    return i;
}

static Frame *kernel_frame(Run *r, const Kernel *k) {
    int i = kernel_number(r, k);
    if (r->kernels[i]) return &r->frames[i];
    r->kernels[i] = ARENA_NEW(r->arena, FuncCode);
    code_function(r, r->kernels[i], k, &k->body);
    frame_init(r, &r->frames[i], r->kernels[i]);
    return &r->frames[i];
}

// All places first: a planned arena that grows moves.
static void pass_buffers(Run *r, const Stmt *s, Frame *f) {
    for (int i = 0; i < s->nargs && !r->status; i++) buffer_now(r, buffer_number(r, s->args[i]));
    for (int i = 0; i < s->nargs && !r->status; i++) {
        BufVal v = *buffer_now(r, buffer_number(r, s->args[i]));
        f->buf[i].p = v.p;
        f->buf[i].n = v.n;
        f->buf[i].bytes = v.bytes;
    }
}

Flow run_call(Run *r, CodeStmt *c) {
    const Stmt *s = c->s;
    Frame *f = kernel_frame(r, s->kernel);
    pass_buffers(r, s, f);
    if (r->status) return FLOW_STOP;
    for (int i = 0; i < f->code->outer.n; i++) {
        int from = ptr_map_get(&r->main.slots, f->code->outer.data[i].sym);
        if (from >= 0) f->sym[f->code->outer.data[i].slot] = r->main_frame.sym[from];
    }
    r->frame = f;
    r->sticky = false;
    run_block(r, f->code->body, f->code->nbody);
    if (r->sticky && !r->status) r->status = -(CODE_INDEX + 256 * s->kernel->node);
    r->frame = &r->main_frame;
    r->at = s;
    return r->status ? FLOW_STOP : FLOW_NEXT;
}

// ---- entry ----

static void run_free(Run *r) {
    for (int i = 0; i < r->main.nbufs; i++) mem_realloc(r->main_frame.buf[i].own, 0);
    for (int i = 0; i < r->regions.n; i++) mem_realloc(r->regions.data[i].p, 0);
    arena_free(r->arena);
}

int loop_interpret(const Program *p, const int64_t *sym, void *const *buf, const size_t *cap,
    void (*size)(void *ctx, const Dim *sym, int64_t v), void *ctx, uint64_t shuffle, Diag *d) {
    Run r = {.p = p,
        .arena = arena_new(),
        .d = d,
        .shuffle = shuffle,
        .cut = (shuffle & LOOP_CUT) != 0,
        .lanes = 1,
        .memory = buf,
        .cap = cap,
        .size = size,
        .size_ctx = ctx};
    r.sizes.arena = r.arena;
    for (int i = 0; i < 4; i++) r.scratch[i] = arena_alloc(r.arena, STRIP_BYTES);
    r.kernels = ARENA_ARRAY(r.arena, FuncCode *, p->kernels.n + 1);
    r.frames = ARENA_ARRAY(r.arena, Frame, p->kernels.n + 1);
    code_function(&r, &r.main, NULL, &p->main);
    frame_init(&r, &r.main_frame, &r.main);
    r.frame = &r.main_frame;
    for (int i = 0; i < p->symbols.n; i++) r.main_frame.sym[ptr_map_get(&r.main.slots, p->symbols.data[i])].v = sym[i];
    if (!symbols_inside(&r)) r.status = -CODE_SHAPE;
    if (!r.status) place_buffers(&r);
    if (!r.status) run_block(&r, r.main.body, r.main.nbody);
    run_free(&r);
    return r.status;
}
