// Computes the Layout of a Program: see layout.h for the rules.
#include "layout.h"

#include <string.h>

typedef struct {
    Arena *a;
    const Program *p;
    DimTable *t;
    Diag *d;
    Layout *l;
    const Dim **data; // data dims and their upper bounds
    const Dim **bound;
    int ndata;
    bool ok;
} Work;

static const Dim *align_up(DimTable *t, const Dim *bytes) {
    return dim_muli(t, dim_ceildiv(t, bytes, dim_int(t, LAYOUT_ALIGN)), LAYOUT_ALIGN);
}

static const char *unique(Arena *a, const char *name, LayoutSlot *before, int n) {
    const char *cname = codegen_cname(a, name), *try = cname;
    for (int k = 2, i = 0; i < n; i++) {
        if (strcmp(before[i].name, try) != 0) continue;
        try = arena_printf(a, "%s_%d", cname, k++);
        i = -1;
    }
    return try;
}

// ---- bounds ----
static void see_data(void *ctx, const Dim *sym) {
    if (dim_as_symbol(sym)->kind == SYM_DATA) *(bool *)ctx = true;
}

static bool from_data(const Dim *d) {
    bool found = false;
    dim_symbols(d, see_data, &found);
    return found;
}

// The largest value of d if it is a constant or bounded by one; false otherwise.
static bool constant_bound(const Dim *d, size_t *v) {
    int64_t lo, hi;
    if (!d) return false;
    dim_interval(d, &lo, &hi);
    *v = (size_t)hi;
    return hi != DIM_INF && hi >= 0;
}

static const Dim *buffer_bytes(Work *w, const LoopBuffer *b) {
    const Dim *n = dim_product(w->t, b->shape, b->rank);
    return dim_muli(w->t, n, dtype_bytes(b->var.type.type));
}

// ---- slots ----
static void fill_slot(Work *w, LayoutSlot *slots, int n, LoopBuffer *b) {
    LayoutSlot *s = &slots[n];
    *s = (LayoutSlot){.buffer = b, .tie = -1};
    s->name = unique(w->a, b->label ? b->label : b->var.name, slots, n);
    s->elements = dim_product(w->t, b->shape, b->rank);
    s->bytes = dim_upper(w->t, buffer_bytes(w, b));
    s->dynamic = b->kind == BUF_OUTPUT && from_data(s->elements);
    for (int i = 0; i < b->rank; i++) s->dynamic |= b->kind == BUF_OUTPUT && from_data(b->shape[i]);
}

static int count_kind(const Program *p, BufKind kind) {
    int n = 0;
    for (int i = 0; i < p->buffers.n; i++) n += p->buffers.data[i]->kind == kind;
    return n;
}

static int state_index(const Work *w, int buffer) {
    int n = 0;
    for (int i = 0; i < buffer; i++) n += w->p->buffers.data[i]->kind == BUF_STATE;
    return n;
}

static int tie_of(const Work *w, const LoopBuffer *b) {
    return b->tie < 0 ? -1 : state_index(w, b->tie);
}

static void fill_interface(Work *w) {
    Layout *l = w->l;
    l->inputs = ARENA_ARRAY(w->a, LayoutSlot, count_kind(w->p, BUF_INPUT));
    l->outputs = ARENA_ARRAY(w->a, LayoutSlot, count_kind(w->p, BUF_OUTPUT));
    l->states = ARENA_ARRAY(w->a, LayoutSlot, count_kind(w->p, BUF_STATE));
    for (int i = 0; i < w->p->buffers.n; i++) {
        LoopBuffer *b = w->p->buffers.data[i];
        if (b->kind == BUF_INPUT) fill_slot(w, l->inputs, l->ninputs++, b);
        if (b->kind == BUF_OUTPUT) {
            fill_slot(w, l->outputs, l->noutputs, b);
            l->outputs[l->noutputs++].tie = tie_of(w, b);
        }
        if (b->kind == BUF_STATE) {
            fill_slot(w, l->states, l->nstates, b);
            l->states[l->nstates].tie = l->nstates;
            l->nstates++;
        }
    }
}

static void fill_dims(Work *w) {
    Layout *l = w->l;
    l->ndims = w->p->symbols.n;
    l->dims = ARENA_ARRAY(w->a, LayoutDim, l->ndims);
    for (int i = 0; i < l->ndims; i++) {
        LayoutDim *m = &l->dims[i];
        m->sym = w->p->symbols.data[i];
        m->name = dim_as_symbol(m->sym)->name;
        m->cname = codegen_cname(w->a, m->name);
        for (int j = 0, k = 2; j < i; j++)
            if (strcmp(l->dims[j].cname, m->cname) == 0) m->cname = arena_printf(w->a, "%s_%d", codegen_cname(w->a, m->name), k++), j = -1;
        dim_interval(m->sym, &m->lo, &m->hi);
        if (m->lo < 0) m->lo = 0;
    }
}

static void fill_states(Work *w) {
    Layout *l = w->l;
    for (int i = 0; i < l->nstates; i++) {
        size_t bytes;
        if (!constant_bound(l->states[i].bytes, &bytes)) {
            diag_error(w->d, EXIT_UNSUPPORTED, "state '%s' has no constant size: bound its dimensions with --dim", l->states[i].name);
            w->ok = false;
            return;
        }
        l->states[i].offset = l->state_bytes;
        l->state_bytes += (bytes + LAYOUT_ALIGN - 1) / LAYOUT_ALIGN * LAYOUT_ALIGN;
    }
}

// ---- regions and arena ----
static int region_index(Work *w, const char *name) {
    Layout *l = w->l;
    for (int i = 0; i < l->nregions; i++)
        if (strcmp(l->regions[i].name, name) == 0) return i;
    l->regions[l->nregions] = (LayoutRegion){name, codegen_cname(w->a, name), 0};
    return l->nregions++;
}

static void place_in_region(Work *w, int i, const Dim *bytes) {
    Layout *l = w->l;
    LoopBuffer *b = l->temps[i];
    LayoutRegion *r = &l->regions[l->temp_region[i]];
    size_t end = 0;
    if (!b->offset) l->temp_offset[i] = dim_int(w->t, (int64_t)((r->bytes + LAYOUT_ALIGN - 1) / LAYOUT_ALIGN * LAYOUT_ALIGN));
    if (bytes && constant_bound(dim_upper(w->t, dim_add(w->t, l->temp_offset[i], bytes)), &end)) {
        if (end > r->bytes) r->bytes = end;
        return;
    }
    diag_error(w->d, EXIT_UNSUPPORTED, "region '%s': tensor '%s' has no constant size", r->name, b->var.name);
    w->ok = false;
}

// The planned part ends at p->arena_bytes or, without a plan, where the temps with offsets end.
static const Dim *planned_end(Work *w) {
    const Dim *end = w->p->arena_bytes ? w->p->arena_bytes : dim_int(w->t, 0);
    for (int i = 0; i < w->l->ntemps && !w->p->arena_bytes; i++) {
        LoopBuffer *b = w->l->temps[i];
        const Dim *bytes = b->offset && !b->region ? dim_upper(w->t, dim_add(w->t, b->offset, buffer_bytes(w, b))) : NULL;
        if (bytes) end = dim_max(w->t, end, bytes);
    }
    return end;
}

static void fill_temps(Work *w) {
    Layout *l = w->l;
    int n = count_kind(w->p, BUF_TEMP);
    l->temps = ARENA_ARRAY(w->a, LoopBuffer *, n);
    l->temp_offset = ARENA_ARRAY(w->a, const Dim *, n);
    l->temp_region = ARENA_ARRAY(w->a, int, n);
    l->regions = ARENA_ARRAY(w->a, LayoutRegion, n);
    for (int i = 0; i < w->p->buffers.n; i++) {
        LoopBuffer *b = w->p->buffers.data[i];
        if (b->kind == BUF_TEMP && !b->unbounded) l->temps[l->ntemps++] = b;
    }
    const Dim *end = dim_upper(w->t, planned_end(w));
    for (int i = 0; i < l->ntemps && w->ok; i++) {
        LoopBuffer *b = l->temps[i];
        const Dim *bytes = dim_upper(w->t, buffer_bytes(w, b));
        l->temp_offset[i] = b->offset;
        l->temp_region[i] = b->region ? region_index(w, b->region) : -1;
        if (b->region) place_in_region(w, i, bytes);
        if (b->region || b->offset) continue;
        if (!end || !bytes) {
            diag_error(w->d, EXIT_UNSUPPORTED, "tensor '%s' has no bounded size and no memory of its own", b->var.name);
            w->ok = false;
            return;
        }
        end = l->temp_offset[i] = align_up(w->t, end);
        end = dim_add(w->t, end, bytes);
    }
    l->arena_bytes = end;
}

// ---- outputs that are not wanted ----
typedef struct {
    const Var *var;
    bool read;
} Reading;

static void see_load(void *ctx, const Expr *e) {
    Reading *r = ctx;
    if (e->op == X_load && e->var == r->var) r->read = true;
}
static void see_expr(void *ctx, const Expr **e) {
    expr_visit(*e, see_load, ctx);
}
static void see_stmt(void *ctx, Stmt *s) {
    Reading *r = ctx;
    stmt_exprs(s, see_expr, r);
    for (int i = 0; s->kind == ST_CALL && i < s->nargs; i++) r->read |= &s->args[i]->var == r->var && s->kernel->params.data[i]->reads;
}
static bool main_reads(const Program *p, const LoopBuffer *b) {
    Reading r = {&b->var, false};
    Block body = p->main;
    loop_walk(&body, see_stmt, &r);
    return r.read;
}

// Outputs that are only written share one place; a sole output is always wanted.
static void fill_fallbacks(Work *w) {
    Layout *l = w->l;
    if (!l->arena_bytes) {
        diag_error(w->d, EXIT_UNSUPPORTED, "the arena has no bounded size");
        w->ok = false;
        return;
    }
    const Dim *end = l->arena_bytes, *shared = NULL, *size = dim_int(w->t, 0);
    for (int i = 0; i < l->noutputs && l->noutputs > 1; i++) {
        LayoutSlot *s = &l->outputs[i];
        if (!s->bytes || s->tie >= 0) continue;
        if (main_reads(w->p, s->buffer)) {
            s->fallback = align_up(w->t, end);
            end = dim_add(w->t, s->fallback, s->bytes);
        } else
            size = dim_max(w->t, size, s->bytes);
    }
    for (int i = 0; i < l->noutputs && l->noutputs > 1; i++) {
        LayoutSlot *s = &l->outputs[i];
        if (!s->bytes || s->tie >= 0 || s->fallback) continue;
        if (!shared) shared = align_up(w->t, end), end = dim_add(w->t, shared, size);
        s->fallback = shared;
    }
    l->arena_bytes = align_up(w->t, end);
}

// ---- the whole ----
static void see_main(void *ctx, Stmt *s) {
    Layout *l = ctx;
    if (s->kind == ST_ALLOC) l->allocates = true;
}
static void see_team(void *ctx, Stmt *s) {
    Layout *l = ctx;
    int64_t lo, hi;
    if (s->kind != ST_TEAM) return;
    dim_interval(s->hi, &lo, &hi);
    int n = hi > INT32_MAX ? INT32_MAX : (int)hi;
    if (n > l->team) l->team = n;
}

Layout *codegen_layout(Arena *a, const Program *p, const char *prefix, Diag *d) {
    Layout *l = ARENA_NEW(a, Layout);
    Work w = {.a = a, .p = p, .t = p->dims, .d = d, .l = l, .ok = true};
    l->prefix = codegen_cname(a, prefix);
    fill_interface(&w);
    fill_dims(&w);
    fill_states(&w);
    if (w.ok) fill_temps(&w);
    if (w.ok) fill_fallbacks(&w);
    if (!w.ok) return NULL;
    Block body = p->main;
    loop_walk(&body, see_main, l);
    for (int i = 0; i < p->kernels.n; i++) loop_walk(&p->kernels.data[i]->body, see_team, l);
    l->constant = l->ndims == 0 && l->nregions == 0 && l->nstates == 0 && !l->allocates;
    return l;
}

int layout_temp(const Layout *l, const LoopBuffer *b) {
    for (int i = 0; i < l->ntemps; i++)
        if (l->temps[i] == b) return i;
    return -1;
}

int layout_kernel(const Program *p, const Kernel *k) {
    int i = 0;
    while (p->kernels.data[i] != k) i++;
    return i;
}

// ---- levels ----
static bool merge(Layout *l, const Layout *other, DimTable *t, Diag *d) {
    bool same = l->nregions == other->nregions;
    for (int i = 0; i < l->nregions && same; i++) same = !strcmp(l->regions[i].name, other->regions[i].name);
    if (!same) {
        diag_error(d, EXIT_UNSUPPORTED, "the levels of the target use different memory regions: name one of them with --target");
        return false;
    }
    for (int i = 0; i < l->nregions; i++)
        if (other->regions[i].bytes > l->regions[i].bytes) l->regions[i].bytes = other->regions[i].bytes;
    for (int i = 0; i < l->noutputs; i++)
        if (!other->outputs[i].fallback) l->outputs[i].fallback = NULL;
    l->arena_bytes = dim_max(t, l->arena_bytes, other->arena_bytes);
    l->constant &= other->constant;
    l->allocates |= other->allocates;
    if (other->team > l->team) l->team = other->team;
    return true;
}

// env's hook is given one list of kernels.
static bool same_kernels(const Program *p, const Program *q, Diag *d) {
    bool same = p->kernels.n == q->kernels.n;
    for (int i = 0; i < p->kernels.n && same; i++) same = !strcmp(p->kernels.data[i]->name, q->kernels.data[i]->name);
    if (!same) diag_error(d, EXIT_UNSUPPORTED, "the levels of the target differ in their kernels: with --hooks name one with --target");
    return same;
}

Layout *codegen_layout_levels(Arena *a, const EmitOptions *o, const char *prefix, Diag *d) {
    Layout *l = codegen_layout(a, o->levels[0], prefix, d);
    for (int i = 1; l && i < o->nlevels; i++) {
        const Layout *other = codegen_layout(a, o->levels[i], prefix, d);
        if (o->hooks && !same_kernels(o->levels[0], o->levels[i], d)) return NULL;
        if (!other || !merge(l, other, o->levels[0]->dims, d)) return NULL;
    }
    return l;
}
