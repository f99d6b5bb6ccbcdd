// The expression of one element of a value: see lower.h.
#include "lower.h"

#include <assert.h>
#include <string.h>

const Dim *lower_flat(Lower *l, const Value *v, const Dim *const *idx) {
    DimTable *t = l->g->dims;
    const Dim *flat = dim_int(t, 0);
    for (int i = 0; i < v->rank; i++) flat = dim_add(t, dim_mul(t, flat, v->shape[i]), idx[i]);
    return flat;
}

const char *kernel_local(KernelBuild *kb, const char *stem) {
    return arena_printf(kb->l->p->arena, "%s%d", stem, kb->locals++);
}

LoopBuffer *kernel_param(KernelBuild *kb, LoopBuffer *b, bool reads, bool writes) {
    for (int i = 0; i < kb->args.n; i++) {
        if (kb->args.data[i] != b) continue;
        LoopBuffer *have = kb->k->params.data[i];
        have->reads |= reads;
        have->writes |= writes;
        return have;
    }
    LoopBuffer *param = loop_param(kb->l->p, kb->k, b->var.name, b->var.type.type, reads, writes);
    vec_push(kb->l->p->arena, &kb->args, b);
    return param;
}

static const Expr *and_masks(Arena *a, const Expr *x, const Expr *y) {
    if (!x) return y;
    if (!y) return x;
    return x_op2(a, X_and, x, y);
}

const Expr *lower_all_ge0(Lower *l, int n, const Dim *const *guard) {
    Arena *a = l->p->arena;
    const Expr *all = NULL;
    for (int i = 0; i < n; i++) {
        Tri known = dim_ge0(l->g->dims, guard[i]);
        if (known == YES) continue;
        const Expr *zero = x_dim(a, dim_int(l->g->dims, 0));
        all = and_masks(a, all, x_op2(a, X_ge, x_dim(a, guard[i]), zero));
    }
    return all;
}

static const Expr *load_element(Place at, LoopBuffer *buf, const Dim *flat) {
    LoopBuffer *param = kernel_param(at.kb, buf, true, false);
    Arena *a = at.kb->l->p->arena;
    if (!at.mask) return x_load(a, &param->var, flat);
    return x_load_lanes(a, &param->var, flat, 1, 1, NULL, at.mask);
}

// The indices that a map, a broadcasting input, reads of an input: trailing axes aligned, extent 1 read at 0, an extent that may be 1 at
// min(d, extent - 1).
static void broadcast_index(Lower *l, const Value *in, int rank, const Dim *const *shape, const Dim *const *idx, const Dim **out) {
    DimTable *t = l->g->dims;
    int skip = rank - in->rank;
    for (int i = 0; i < in->rank; i++) {
        const Dim *extent = in->shape[i];
        if (extent == shape[i + skip]) {
            out[i] = idx[i + skip];
        } else if (dim_is(extent, 1)) {
            out[i] = dim_int(t, 0);
        } else {
            out[i] = dim_min(t, idx[i + skip], dim_addi(t, extent, -1));
        }
    }
}

// ---- substitution of a body ----
typedef struct {
    Arena *arena;
    DimTable *dims;
    const Expr *const *args;
    const Dim *const *from, *const *to;
    int nsubst;
} BodySubst;

static const Expr *subst_leaf(void *ctx, const Expr *e) {
    const BodySubst *s = ctx;
    if (e->op == X_arg) return s->args[e->k];
    if (e->op == X_dim) return x_dim(s->arena, dim_subst(s->dims, e->dim, s->from, s->to, s->nsubst));
    return e;
}

// The axis symbols of `shape` (what index maps and bodies are written in).
static void axis_symbols(DimTable *t, int rank, const Dim *const *shape, const Dim **out) {
    for (int i = 0; i < rank; i++) out[i] = dim_axis(t, i, shape[i]);
}

typedef struct {
    Place at;
    const Node *node;
} DivisionCheck;

// Integer division by zero ends the run: a check in front of the use, unless the divisor is a constant.
static void check_division(void *ctx, const Expr *e) {
    DivisionCheck *d = ctx;
    bool divides = e->op == X_div || e->op == X_rem || e->op == X_floordiv || e->op == X_floormod;
    if (!divides || dtype_is_float(e->type.type) || e->a[1]->op == X_const) return;
    Lower *l = d->at.kb->l;
    Arena *a = l->p->arena;
    const Expr *ok = x_op2(a, X_ne, e->a[1], x_int(a, e->a[1]->type.type, 0));
    if (d->at.mask) ok = x_op2(a, X_or, ok, x_op1(a, X_not, d->at.mask));
    loop_check(l->p, d->at.block, ok, CODE_DIVISION, d->node->onnx_id);
}

const Expr *lower_broadcast(Place at, const Value *in, int rank, const Dim *const *shape, const Dim *const *idx) {
    const Dim *in_idx[RANK_MAX];
    broadcast_index(at.kb->l, in, rank, shape, idx, in_idx);
    return lower_element(at, in, in_idx);
}

const Expr *lower_body(
    Place at, const Node *n, const Expr *body, const Expr *const *args, int rank, const Dim *const *shape, const Dim *const *idx) {
    Lower *l = at.kb->l;
    const Dim *from[RANK_MAX];
    axis_symbols(l->g->dims, rank, shape, from);
    BodySubst s = {l->p->arena, l->g->dims, args, from, idx, rank};
    const Expr *e = expr_rewrite(l->p->arena, body, subst_leaf, &s);
    DivisionCheck d = {at, n};
    expr_visit(e, check_division, &d);
    return e;
}

static const Expr *map_element(Place at, const Value *v, const Dim *const *idx) {
    const Node *n = v->def;
    const Dim *const *shape = (const Dim *const *)v->shape;
    const Expr **args = ARENA_ARRAY(at.kb->l->p->arena, const Expr *, n->nin + 1);
    for (int i = 0; i < n->nin; i++) args[i] = lower_broadcast(at, n->in[i], v->rank, shape, idx);
    return lower_body(at, n, n->body, args, v->rank, shape, idx);
}

// ---- views and gathers ----
static const Expr *filled(Arena *a, const Expr *guard, const Expr *e, Scalar fill) {
    if (!guard) return e;
    bool zero_load = e->op == X_load && e->a[1] && scalar_same(fill, scalar_int(fill.type, 0));
    if (zero_load) return e;
    return x_op3(a, X_select, guard, e, x_const(a, fill, 1));
}

static const Expr *view_element(Place at, const Value *v, const Dim *const *idx) {
    Lower *l = at.kb->l;
    const Node *n = v->def;
    DimTable *t = l->g->dims;
    const Dim *from[RANK_MAX], *in_idx[RANK_MAX];
    axis_symbols(t, v->rank, v->shape, from);
    const Dim **guard = ARENA_ARRAY(l->p->arena, const Dim *, n->guard.n + 1);
    for (int i = 0; i < n->guard.n; i++) guard[i] = dim_subst(t, n->guard.data[i], from, idx, v->rank);
    for (int i = 0; i < n->index.n; i++) in_idx[i] = dim_subst(t, n->index.data[i], from, idx, v->rank);
    const Expr *inside = lower_all_ge0(l, n->guard.n, guard);
    Place inner = at;
    inner.mask = and_masks(l->p->arena, at.mask, inside);
    return filled(l->p->arena, inside, lower_element(inner, n->in[0], in_idx), n->fill);
}

// Binds the node's index symbols v0, v1 … to the index inputs' elements, as immutable idx scalars in front of the use; from/to get the
// substitution.
int lower_bind_indices(
    Place at, const Node *n, int first, int rank, const Dim *const *shape, const Dim *const *idx, const Dim **from, const Dim **to) {
    Lower *l = at.kb->l;
    Arena *a = l->p->arena;
    for (int i = 0; i < rank; i++) {
        from[i] = dim_axis(l->g->dims, i, shape[i]);
        to[i] = idx[i];
    }
    for (int i = 0; i < n->nvsyms; i++) {
        const Value *in = n->in[first + i];
        from[rank + i] = n->vsyms[i];
        if (l->scalar[in->id]) { // the iteration number of a loop
            to[rank + i] = l->scalar[in->id];
            continue;
        }
        const Dim *in_idx[RANK_MAX];
        broadcast_index(l, in, rank, shape, idx, in_idx);
        const Expr *e = x_cast(a, DT_idx, lower_element(at, in, in_idx));
        to[rank + i] = loop_let_idx(l->p, at.block, kernel_local(at.kb, "v"), e, NULL, NULL);
    }
    return rank + n->nvsyms;
}

// Index dimension d of a data axis: clamped and flagged when it is not provably inside (only where the mask holds: elsewhere it is replaced
// by 0).
const Dim *lower_checked_index(Place at, const Dim *d, const Dim *extent) {
    Lower *l = at.kb->l;
    DimTable *t = l->g->dims;
    Arena *a = l->p->arena;
    if (dim_ge0(t, d) == YES && dim_lt(t, d, extent) == YES) return d;
    const Expr *e = x_dim(a, d);
    if (at.mask) e = x_op3(a, X_select, at.mask, e, x_dim(a, dim_int(t, 0)));
    const Expr *index = x_node(a, (Expr){.op = X_index, .type = vtype(DT_idx, 1), .n = 1, .a = {e}, .dim = extent});
    return loop_let_idx(l->p, at.block, kernel_local(at.kb, "j"), index, dim_int(t, 0), dim_addi(t, extent, -1));
}

static const Expr *gather_element(Place at, const Value *v, const Dim *const *idx) {
    Lower *l = at.kb->l;
    const Node *n = v->def;
    DimTable *t = l->g->dims;
    const Dim *from[2 * RANK_MAX], *to[2 * RANK_MAX], *in_idx[RANK_MAX];
    int ns = lower_bind_indices(at, n, 1, v->rank, v->shape, idx, from, to);
    const Dim **guard = ARENA_ARRAY(l->p->arena, const Dim *, n->guard.n + 1);
    for (int i = 0; i < n->guard.n; i++) guard[i] = dim_subst(t, n->guard.data[i], from, to, ns);
    const Expr *inside = lower_all_ge0(l, n->guard.n, guard);
    Place inner = at;
    inner.mask = and_masks(l->p->arena, at.mask, inside);
    for (int i = 0; i < n->index.n; i++)
        in_idx[i] = lower_checked_index(inner, dim_subst(t, n->index.data[i], from, to, ns), n->in[0]->shape[i]);
    return filled(l->p->arena, inside, lower_element(inner, n->in[0], in_idx), n->fill);
}

static const Expr *reshape_element(Place at, const Value *v, const Dim *const *idx) {
    Lower *l = at.kb->l;
    const Value *in = v->def->in[0];
    DimTable *t = l->g->dims;
    const Dim *flat = lower_flat(l, v, idx);
    while (in->storage.kind == STORE_INLINE && in->def && in->def->op == G_reshape) in = in->def->in[0];
    if (l->buffer[in->id]) return load_element(at, l->buffer[in->id], flat);
    const Dim *in_idx[RANK_MAX];
    for (int i = in->rank - 1; i >= 0; i--) {
        bool outermost = i == 0;
        const Dim *extent = dim_is(in->shape[i], 0) ? dim_int(t, 1) : in->shape[i]; // of nothing any index will do
        in_idx[i] = outermost ? flat : dim_mod(t, flat, extent);
        flat = outermost ? flat : dim_floordiv(t, flat, extent);
    }
    return lower_element(at, in, in_idx);
}

static const Expr *concat_element(Place at, const Value *v, const Dim *const *idx) {
    Lower *l = at.kb->l;
    const Node *n = v->def;
    DimTable *t = l->g->dims;
    Arena *a = l->p->arena;
    const Dim *start = dim_int(t, 0);
    const Expr *e = NULL;
    for (int i = 0; i < n->nin; i++) {
        const Dim *end = dim_add(t, start, n->in[i]->shape[n->axis]);
        const Dim *in_idx[RANK_MAX];
        memcpy(in_idx, idx, sizeof(Dim *) * (size_t)v->rank);
        in_idx[n->axis] = dim_sub(t, idx[n->axis], start);
        const Dim *guards[] = {in_idx[n->axis], dim_addi(t, dim_sub(t, end, idx[n->axis]), -1)};
        start = end;
        if (dim_ge0(t, guards[0]) == NO || dim_ge0(t, guards[1]) == NO) continue;
        const Expr *inside = lower_all_ge0(l, 2, guards);
        Place inner = at;
        inner.mask = and_masks(a, at.mask, inside);
        const Expr *x = lower_element(inner, n->in[i], in_idx);
        e = e && inside ? x_op3(a, X_select, inside, x, e) : x;
    }
    return e;
}

static const Expr *dims_element(Place at, const Value *v, const Dim *const *idx) {
    Lower *l = at.kb->l;
    Arena *a = l->p->arena;
    const Node *n = v->def;
    int64_t k = 0;
    bool one = v->rank == 0 || dim_is_int(idx[0], &k);
    if (n->dims.n == 0 || k < 0 || k >= n->dims.n) return x_int(a, DT_i64, 0); // behind a guard that never holds
    if (one) return x_cast(a, DT_i64, x_dim(a, n->dims.data[k]));
    const Expr *e = x_cast(a, DT_i64, x_dim(a, n->dims.data[n->dims.n - 1]));
    for (int i = n->dims.n - 2; i >= 0; i--) {
        const Expr *here = x_op2(a, X_eq, x_dim(a, idx[0]), x_dim(a, dim_int(l->g->dims, i)));
        e = x_op3(a, X_select, here, x_cast(a, DT_i64, x_dim(a, n->dims.data[i])), e);
    }
    return e;
}

static const Expr *const_element(Place at, const Value *v) {
    return x_const(at.kb->l->p->arena, scalar_read(v->type, v->def->data.bytes), 1);
}

const Expr *lower_compute(Place at, const Value *v, const Dim *const *idx) {
    assert(v->def && "value without storage");
    kernel_note(at.kb, v->def);
    switch (v->def->op) {
    case G_map: return map_element(at, v, idx);
    case G_view: return view_element(at, v, idx);
    case G_reshape: return reshape_element(at, v, idx);
    case G_gather: return gather_element(at, v, idx);
    case G_concat: return concat_element(at, v, idx);
    case G_dims: return dims_element(at, v, idx);
    case G_reduce: return lower_reduce_element(at, v, idx);
    case G_contract: return lower_contract_element(at, v, idx);
    case G_softmax:
    case G_norm: return lower_row_element(at, v, idx);
    default: assert(!"no element form"); return NULL;
    }
}

// ---- elements at hand ----

static bool is_at(const Kept *k, Place at, const Value *v, const Dim *const *idx) {
    if (k->v != v || !k->idx) return k->v == v;
    if (k->block != at.block || k->mask != at.mask) return false;
    for (int i = 0; i < v->rank; i++)
        if (k->idx[i] != idx[i]) return false;
    return true;
}

static const Expr *element_at_hand(Place at, const Value *v, const Dim *const *idx) {
    for (int i = at.kb->kept.n - 1; i >= 0; i--)
        if (is_at(&at.kb->kept.data[i], at, v, idx)) return at.kb->kept.data[i].e;
    return NULL;
}

static const Expr *keep_element(Place at, const Value *v, const Dim *const *idx, const Expr *e) {
    Lower *l = at.kb->l;
    Arena *a = l->p->arena;
    Kept k = {v, at.block, at.mask, e, NULL};
    if (e->op != X_const && e->op != X_var) k.e = x_var(a, loop_let(l->p, at.block, kernel_local(at.kb, "e"), e));
    if (idx) {
        k.idx = ARENA_ARRAY(a, const Dim *, v->rank + 1);
        memcpy(k.idx, idx, sizeof *k.idx * (size_t)v->rank);
    }
    vec_push(a, &at.kb->kept, k);
    return k.e;
}

void lower_group_statistic(Place at, const Value *v, const Dim *const *idx) {
    keep_element(at, v, NULL, lower_compute(at, v, idx));
    at.kb->l->shared[v->id] = true;
}

static bool worth_keeping(const Value *v) {
    return v->def->op != G_view && v->def->op != G_reshape && v->def->op != G_dims && v->type != DT_str;
}

const Expr *lower_element(Place at, const Value *v, const Dim *const *idx) {
    Lower *l = at.kb->l;
    const Expr *kept = l->shared[v->id] ? element_at_hand(at, v, idx) : NULL;
    if (kept) return kept;
    if (l->scalar[v->id]) return x_cast(l->p->arena, v->type, x_dim(l->p->arena, l->scalar[v->id]));
    if (v->def && v->def->op == G_const) {
        bool single = v->def->data.size == (size_t)dtype_bytes(v->type) && v->type != DT_str;
        if (single) return const_element(at, v);
        lower_buffer(l, v);
    }
    if (l->buffer[v->id]) return load_element(at, l->buffer[v->id], lower_flat(l, v, idx));
    const Expr *e = lower_compute(at, v, idx);
    return l->shared[v->id] && worth_keeping(v) ? keep_element(at, v, idx, e) : e;
}
