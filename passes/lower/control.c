// Control flow in main: regions, if, loop, checks.
//
// loop: carried values live in buffers for the whole loop; an iteration computes its yields and then copies them into the carried buffers
// (through staging copies where a yield is itself read from a carried value, so that all are assigned at once). Scan elements are stored at
// iteration * size.
#include "lower.h"

#include <assert.h>
#include <string.h>

// A one-element value as a scalar expression of main.
static const Expr *main_scalar(Lower *l, Block *main, const Value *v) {
    if (l->scalar[v->id]) return x_cast(l->p->arena, v->type, x_dim(l->p->arena, l->scalar[v->id]));
    LoopBuffer *b = v->def && v->def->op == G_const ? lower_buffer(l, v) : l->buffer[v->id];
    if (!b) {
        b = lower_temp(l, "s", v->type, v->rank, (const Dim *const *)v->shape);
        lower_copy_at(l, main, v, b, dim_int(l->g->dims, 0));
    }
    return x_load(l->p->arena, &b->var, dim_int(l->g->dims, 0));
}

void lower_region(Lower *l, Block *main, Region *r) {
    int before = l->diag->errors; // what cannot be lowered leaves values without buffers
    for (int i = 0; i < r->nodes.n && l->diag->errors == before; i++) lower_node(l, main, r->nodes.data[i]);
}

static void store_yield(Lower *l, Block *main, const Value *v, LoopBuffer *to) {
    if (l->buffer[v->id] == to) return;
    lower_copy_at(l, main, v, to, dim_int(l->g->dims, 0));
}

// Lets a value computed inside r by its own kernel be computed straight into `out`.
static void place_yield(Lower *l, const Region *r, const Value *v, LoopBuffer *out) {
    bool own = v->def && v->region == r && v->storage.kind != STORE_INLINE && v->def->op != G_const && v->def->op != G_loop;
    if (own && !l->buffer[v->id]) l->buffer[v->id] = out;
}

static void refuse(Lower *l, const Node *n, const char *what) {
    diag_error(
        l->diag, EXIT_UNSUPPORTED, "node '%s' (%s): %s; this is not supported yet", n->label ? n->label : "", n->onnx ? n->onnx : "", what);
}

// ---- sizes that the taken branch decides ----
typedef struct {
    Lower *l;
    const Region *inside; // sizes defined in here are not known before
    bool unknown;
} SizeUse;

static void see_definition(void *ctx, Node *n) {
    const Dim *const *use = ctx;
    for (int i = 0; i < n->dims.n; i++)
        if (n->dims.data[i] == use[0]) ((const Dim **)ctx)[1] = use[0];
}

static void see_size(void *ctx, const Dim *sym) {
    SizeUse *u = ctx;
    const Dim *found[2] = {sym, NULL};
    if (dim_as_symbol(sym)->kind == SYM_DATA) graph_walk((Region *)u->inside, see_definition, found);
    u->unknown |= found[1] != NULL;
}

static bool already_defined(Lower *l, const Dim *sym) {
    for (int i = 0; i < l->sizes.n; i++)
        if (l->sizes.data[i] == sym) return true;
    return false;
}

// An output's extent that differs between the branches is a symbol: the extent of the branch that cond takes, defined in front of the if.
static void if_extent(Lower *l, Block *main, const Node *n, const Expr *cond, int output, int axis) {
    const Dim *sym = n->out[output]->shape[axis], *extent[2];
    const Sym *s = dim_as_symbol(sym);
    if (!s || s->kind != SYM_DATA || already_defined(l, sym)) return;
    for (int b = 0; b < 2; b++) {
        extent[b] = n->regions.data[b]->yields.data[output]->shape[axis];
        SizeUse use = {l, n->regions.data[b], false};
        dim_symbols(extent[b], see_size, &use);
        if (extent[b] == sym) return; // both branches: a size from before
        if (use.unknown) {
            refuse(l, n, "an output's size is computed inside a branch");
            return;
        }
    }
    Arena *a = l->p->arena;
    loop_size(l->p, main, sym, x_op3(a, X_select, cond, x_dim(a, extent[0]), x_dim(a, extent[1])));
    vec_push(a, &l->sizes, sym);
}

void lower_if(Lower *l, Block *main, Node *n) {
    const Expr *cond = main_scalar(l, main, n->in[0]);
    for (int i = 0; i < n->nout; i++)
        for (int k = 0; k < n->out[i]->rank; k++) if_extent(l, main, n, cond, i, k);
    if (l->diag->errors) return;
    LoopBuffer **out = ARENA_ARRAY(l->p->arena, LoopBuffer *, n->nout + 1);
    for (int i = 0; i < n->nout; i++) out[i] = lower_buffer(l, n->out[i]);
    Stmt *s = loop_if(l->p, main, cond);
    Block *blocks[] = {&s->body, &s->orelse};
    for (int b = 0; b < 2; b++) {
        Region *r = n->regions.data[b];
        for (int i = 0; i < n->nout; i++) place_yield(l, r, r->yields.data[i], out[i]);
        lower_region(l, blocks[b], r);
        if (l->diag->errors) return;
        for (int i = 0; i < n->nout; i++) store_yield(l, blocks[b], r->yields.data[i], out[i]);
    }
}

// ---- loop ----
typedef struct {
    Node *n;
    Region *r;
    int ncarried;
    LoopBuffer *cond; // NULL: never ends early
    LoopBuffer **carried;
} LoopBuild;

static bool known_true(const Value *v) {
    int64_t k;
    return value_content_int(v, 0, &k) && k != 0;
}

// The trip count as a Dim: a known one, or a let of the value; endless counts are a number no loop reaches.
static const Dim *trip_count(Lower *l, Block *main, const Value *v) {
    DimTable *t = l->g->dims;
    int64_t k;
    if (v->content) {
        if (!dim_is_int(v->content[0], &k)) return v->content[0];
        return dim_int(t, k < 0 ? INT64_MAX / 4 : k);
    }
    const Expr *e = x_cast(l->p->arena, DT_idx, main_scalar(l, main, v));
    return loop_let_idx(l->p, main, lower_name(l, "trip"), e, NULL, NULL);
}

static void loop_enter(Lower *l, Block *main, LoopBuild *lb) {
    Node *n = lb->n;
    Region *r = lb->r;
    bool endless = known_true(n->in[1]) && known_true(r->yields.data[0]);
    if (!endless) {
        lb->cond = lower_temp(l, "cond", DT_bool, 0, NULL);
        store_yield(l, main, n->in[1], lb->cond);
        l->buffer[r->params.data[1]->id] = lb->cond;
    } else {
        l->scalar[r->params.data[1]->id] = dim_int(l->g->dims, 1);
    }
    for (int i = 0; i < lb->ncarried; i++) {
        const Value *param = r->params.data[2 + i], *out = n->out[i];
        lb->carried[i] = lower_temp(l, "c", param->type, param->rank, (const Dim *const *)param->shape);
        l->buffer[param->id] = l->buffer[out->id] ? l->buffer[out->id] : lb->carried[i];
        lb->carried[i] = l->buffer[out->id] = l->buffer[param->id];
        store_yield(l, main, n->in[2 + i], lb->carried[i]);
    }
}

// True when v's element is computed from a carried buffer at the moment it is read.
static bool reads_carried(Lower *l, const LoopBuild *lb, const Value *v) {
    for (int i = 0; i < lb->ncarried; i++)
        if (l->buffer[v->id] == lb->carried[i]) return true;
    if (l->buffer[v->id] || !v->def || v->def->op == G_const) return false;
    for (int i = 0; i < v->def->nin; i++)
        if (reads_carried(l, lb, v->def->in[i])) return true;
    return false;
}

static void loop_iteration_end(Lower *l, Block *body, LoopBuild *lb, const Dim *iteration) {
    Node *n = lb->n;
    Region *r = lb->r;
    DimTable *t = l->g->dims;
    for (int i = 0; i < n->scans; i++) {
        const Value *y = r->yields.data[1 + lb->ncarried + i];
        LoopBuffer *out = lower_buffer(l, n->out[lb->ncarried + i]);
        lower_copy_at(l, body, y, out, dim_mul(t, iteration, value_size(l->g, y)));
    }
    LoopBuffer **staged = ARENA_ARRAY(l->p->arena, LoopBuffer *, lb->ncarried + 1);
    for (int i = 0; i < lb->ncarried; i++) {
        const Value *y = r->yields.data[1 + i];
        if (l->buffer[y->id] == lb->carried[i] || !reads_carried(l, lb, y)) continue;
        staged[i] = lower_temp(l, "next", y->type, y->rank, (const Dim *const *)y->shape);
        lower_copy_at(l, body, y, staged[i], dim_int(t, 0));
    }
    if (lb->cond) store_yield(l, body, r->yields.data[0], lb->cond);
    for (int i = 0; i < lb->ncarried; i++) {
        const Value *y = r->yields.data[1 + i];
        if (staged[i])
            lower_buffer_copy(l, body, staged[i], lb->carried[i], value_size(l->g, y), dim_int(t, 0));
        else
            store_yield(l, body, y, lb->carried[i]);
    }
}

// The number of iterations as the symbol that the stacked outputs' extent is: known before the loop when only the trip count ends it. The
// loop then runs to the symbol.
static const Dim *scan_extent(Lower *l, Block *main, LoopBuild *lb, const Dim *trip) {
    Node *n = lb->n;
    Arena *a = l->p->arena;
    if (!n->scans || !n->dims.n || n->dims.data[0] == trip) return trip;
    if (!known_true(lb->r->yields.data[0])) {
        refuse(l, n, "outputs are stacked over a loop that its condition ends");
        return trip;
    }
    const Expr *zero = x_dim(a, dim_int(l->g->dims, 0));
    const Expr *count = x_op2(a, X_max, x_dim(a, trip), zero);
    if (lb->cond) count = x_op3(a, X_select, x_load(a, &lb->cond->var, dim_int(l->g->dims, 0)), count, zero);
    loop_size(l->p, main, n->dims.data[0], count);
    return n->dims.data[0];
}

// A carried value's size may change from iteration to iteration: then the parameter has a symbol of its own, which nothing defines.
static bool carried_sizes_stay(const Node *n) {
    const Region *r = n->regions.data[0];
    for (int i = 2; i < r->params.n; i++)
        for (int k = 0; k < r->params.data[i]->rank; k++) {
            if (r->params.data[i]->shape[k] != n->in[i]->shape[k]) return false;
        }
    return true;
}

void lower_loop(Lower *l, Block *main, Node *n) {
    if (!carried_sizes_stay(n)) {
        refuse(l, n, "a carried value's size changes from iteration to iteration");
        return;
    }
    DimTable *t = l->g->dims;
    Arena *a = l->p->arena;
    LoopBuild lb = {.n = n, .r = n->regions.data[0], .ncarried = n->nin - 2};
    lb.carried = ARENA_ARRAY(a, LoopBuffer *, lb.ncarried + 1);
    const Dim *trip = trip_count(l, main, n->in[0]);
    loop_enter(l, main, &lb);
    trip = scan_extent(l, main, &lb, trip);
    Stmt *f = loop_for(l->p, main, arena_printf(a, "it%d", l->temps++), dim_int(t, 0), trip, LOOP_SEQ);
    l->scalar[lb.r->params.data[0]->id] = f->sym;
    if (lb.cond) {
        Stmt *stop = loop_if(l->p, &f->body, x_op1(a, X_not, x_load(a, &lb.cond->var, dim_int(t, 0))));
        loop_stmt(l->p, &stop->body, ST_BREAK);
    }
    lower_region(l, &f->body, lb.r);
    if (l->diag->errors) return;
    loop_iteration_end(l, &f->body, &lb, f->sym);
}

// ---- check ----
void lower_check(Lower *l, Block *main, Node *n) {
    const Expr *ok = lower_all_ge0(l, n->guard.n, n->guard.data);
    int code = n->code;
    if (ok) loop_check(l->p, main, ok, code, n->onnx_id);
    if (n->nin) loop_check(l->p, main, main_scalar(l, main, n->in[0]), code, n->onnx_id);
}
