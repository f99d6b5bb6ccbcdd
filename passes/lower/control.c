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

// ---- sizes that the taken branch decides ----
bool lower_size_defined(const Lower *l, const Dim *sym) {
    for (int i = 0; i < l->sizes.n; i++)
        if (l->sizes.data[i] == sym) return true;
    return false;
}

void lower_define_size(Lower *l, Block *b, const Dim *sym, const Expr *value) {
    loop_size(l->p, b, sym, value);
    vec_push(l->p->arena, &l->sizes, sym);
}

typedef struct {
    const Lower *l;
    bool open; // it mentions a size that is not defined yet
} SizeUse;

static void see_size(void *ctx, const Dim *sym) {
    SizeUse *u = ctx;
    u->open |= dim_as_symbol(sym)->kind == SYM_DATA && !lower_size_defined(u->l, sym);
}

// An output's extent that differs between the branches is a symbol. True when both branches' extents are known in front of the if: then it is
// defined there, as the extent of the branch that cond takes; or it was already.
static bool if_extent(Lower *l, Block *main, const Node *n, const Expr *cond, int output, int axis) {
    const Dim *sym = n->out[output]->shape[axis], *extent[2];
    const Sym *s = dim_as_symbol(sym);
    if (!s || s->kind != SYM_DATA || lower_size_defined(l, sym)) return true;
    for (int b = 0; b < 2; b++) {
        extent[b] = n->regions.data[b]->yields.data[output]->shape[axis];
        SizeUse use = {l, false};
        dim_symbols(extent[b], see_size, &use);
        if (use.open) return false;
    }
    Arena *a = l->p->arena;
    lower_define_size(l, main, sym, x_op3(a, X_select, cond, x_dim(a, extent[0]), x_dim(a, extent[1])));
    return true;
}

void lower_if(Lower *l, Block *main, Node *n) {
    const Expr *cond = main_scalar(l, main, n->in[0]);
    Arena *a = l->p->arena;
    LoopBuffer **out = ARENA_ARRAY(a, LoopBuffer *, n->nout + 1);
    Carry *carry = ARENA_ARRAY(a, Carry, n->nout + 1);
    for (int i = 0; i < n->nout; i++) {
        bool before = true;
        for (int k = 0; k < n->out[i]->rank; k++) before &= if_extent(l, main, n, cond, i, k);
        if (before)
            out[i] = lower_buffer(l, n->out[i]);
        else
            carry[i] = lower_carry(l, main, "branch", n->out[i]);
    }
    Stmt *s = loop_if(l->p, main, cond);
    Block *blocks[] = {&s->body, &s->orelse};
    for (int b = 0; b < 2; b++) {
        Region *r = n->regions.data[b];
        for (int i = 0; i < n->nout; i++)
            if (out[i]) place_yield(l, r, r->yields.data[i], out[i]);
        lower_region(l, blocks[b], r);
        if (l->diag->errors) return;
        for (int i = 0; i < n->nout; i++) {
            if (out[i])
                store_yield(l, blocks[b], r->yields.data[i], out[i]);
            else
                lower_carry_put(l, blocks[b], &carry[i], r->yields.data[i], NULL);
        }
    }
    for (int i = 0; i < n->nout; i++)
        if (!out[i]) lower_carry_out(l, main, &carry[i], n->out[i]);
}

// ---- loop ----
typedef struct {
    Node *n;
    Region *r;
    int ncarried;
    LoopBuffer *cond; // NULL: never ends early
    LoopBuffer **carried;
    Carry *carry; // of carried values whose size changes, then of outputs stacked without a known number of rows; elements NULL for others
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

// A carried value's size may change from iteration to iteration: then the parameter has symbols of its own.
static bool size_stays(const Node *n, int carried) {
    const Value *param = n->regions.data[0]->params.data[2 + carried], *init = n->in[2 + carried];
    for (int k = 0; k < param->rank; k++)
        if (param->shape[k] != init->shape[k]) return false;
    return true;
}

// An output of a carried value whose size stays may have symbols of its own: they are the first value's extents.
static void same_extents(Lower *l, Block *main, const Value *out, const Value *init) {
    for (int k = 0; k < out->rank; k++) {
        const Dim *own = out->shape[k];
        const Sym *s = dim_as_symbol(own);
        if (own == init->shape[k] || !s || s->kind != SYM_DATA || lower_size_defined(l, own)) continue;
        loop_size(l->p, main, own, x_dim(l->p->arena, init->shape[k]));
        vec_push(l->p->arena, &l->sizes, own);
    }
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
        if (!size_stays(n, i)) {
            lb->carry[i] = lower_carry(l, main, "c", param);
            lower_carry_put(l, main, &lb->carry[i], n->in[2 + i], NULL);
            lb->carried[i] = l->buffer[param->id] = lb->carry[i].elements;
            continue;
        }
        same_extents(l, main, out, n->in[2 + i]);
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
        int o = lb->ncarried + i;
        const Value *y = r->yields.data[1 + o], *out = n->out[o];
        if (lb->carry[o].elements)
            lower_stack_push(l, body, &lb->carry[o], n, out, y, iteration);
        else
            lower_copy_at(l, body, y, lower_buffer(l, out), dim_mul(t, iteration, value_size(l->g, y)));
    }
    LoopBuffer **staged = ARENA_ARRAY(l->p->arena, LoopBuffer *, lb->ncarried + 1);
    for (int i = 0; i < lb->ncarried; i++) {
        Value *y = r->yields.data[1 + i];
        if (l->buffer[y->id] == lb->carried[i] || !reads_carried(l, lb, y)) continue;
        staged[i] = lower_temp(l, "next", y->type, y->rank, (const Dim *const *)y->shape);
        lower_copy_at(l, body, y, staged[i], dim_int(t, 0));
    }
    if (lb->cond) store_yield(l, body, r->yields.data[0], lb->cond);
    for (int i = 0; i < lb->ncarried; i++) {
        const Value *y = r->yields.data[1 + i];
        if (lb->carry[i].elements) {
            if (l->buffer[y->id] != lb->carried[i]) lower_carry_put(l, body, &lb->carry[i], y, staged[i]);
        } else if (staged[i])
            lower_buffer_copy(l, body, staged[i], lb->carried[i], value_size(l->g, y), dim_int(t, 0));
        else
            store_yield(l, body, y, lb->carried[i]);
    }
}

// The number of iterations as the symbol that the stacked outputs' extent is: known before the loop when only the trip count ends it. The
// loop then runs to the symbol. Otherwise, or where a row's extents are found out inside, the outputs are stacked by carries.
static const Dim *scan_extent(Lower *l, Block *main, LoopBuild *lb, const Dim *trip) {
    Node *n = lb->n;
    Arena *a = l->p->arena;
    bool counted = known_true(lb->r->yields.data[0]) || (n->dims.n && n->dims.data[0] == trip);
    for (int i = lb->ncarried; i < n->nout; i++) {
        bool rows_known = true;
        for (int k = 1; k < n->out[i]->rank; k++) rows_known &= n->out[i]->shape[k] == lb->r->yields.data[1 + i]->shape[k - 1];
        if (counted && rows_known) continue;
        lb->carry[i] = lower_carry(l, main, "stack", n->out[i]);
        lower_stack_begin(l, main, &lb->carry[i], n->out[i]);
    }
    if (!n->scans || !n->dims.n || n->dims.data[0] == trip || !counted) return trip;
    const Expr *zero = x_dim(a, dim_int(l->g->dims, 0));
    const Expr *count = x_op2(a, X_max, x_dim(a, trip), zero);
    if (lb->cond) count = x_op3(a, X_select, x_load(a, &lb->cond->var, dim_int(l->g->dims, 0)), count, zero);
    lower_define_size(l, main, n->dims.data[0], count);
    return n->dims.data[0];
}

void lower_loop(Lower *l, Block *main, Node *n) {
    DimTable *t = l->g->dims;
    Arena *a = l->p->arena;
    LoopBuild lb = {.n = n, .r = n->regions.data[0], .ncarried = n->nin - 2};
    lb.carried = ARENA_ARRAY(a, LoopBuffer *, lb.ncarried + 1);
    lb.carry = ARENA_ARRAY(a, Carry, n->nout + 1);
    const Dim *trip = trip_count(l, main, n->in[0]);
    loop_enter(l, main, &lb);
    trip = scan_extent(l, main, &lb, trip);
    Stmt *f = loop_for(l->p, main, arena_printf(a, "it%d", l->temps++), dim_int(t, 0), trip, LOOP_SEQ);
    l->scalar[lb.r->params.data[0]->id] = f->sym;
    if (lb.cond) {
        Stmt *stop = loop_if(l->p, &f->body, x_op1(a, X_not, x_load(a, &lb.cond->var, dim_int(t, 0))));
        loop_stmt(l->p, &stop->body, ST_BREAK);
    }
    for (int i = 0; i < lb.ncarried; i++)
        if (lb.carry[i].elements) lower_carry_sizes(l, &f->body, &lb.carry[i], lb.r->params.data[2 + i]);
    lower_region(l, &f->body, lb.r);
    if (l->diag->errors) return;
    loop_iteration_end(l, &f->body, &lb, f->sym);
    for (int i = 0; i < n->nout; i++)
        if (lb.carry[i].elements) lower_carry_out(l, main, &lb.carry[i], n->out[i]);
}

// ---- check ----
void lower_check(Lower *l, Block *main, Node *n) {
    const Expr *ok = lower_all_ge0(l, n->guard.n, n->guard.data);
    int code = n->code;
    if (ok) loop_check(l->p, main, ok, code, n->onnx_id);
    if (n->nin) loop_check(l->p, main, main_scalar(l, main, n->in[0]), code, n->onnx_id);
}
