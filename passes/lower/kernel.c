// Kernels: the loop nests that fill one value's buffer.
//
// Most nodes: a nest of par loops over the output's axes around a store of lower_compute's element. A value that depends on a softmax or
// norm runs over the kept axes outside, computes the row's statistics there and stores inside. concat writes each input at its place;
// scatter copies and then updates in order; scan runs its axis in order with a running state.
#include "lower.h"

#include <assert.h>
#include <string.h>

char *lower_name(Lower *l, const char *label) {
    char stem[32];
    int n = 0;
    for (const char *c = label; *c && n < 24; c++) {
        bool word = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');
        if (word)
            stem[n++] = *c;
        else if (n && stem[n - 1] != '_')
            stem[n++] = '_';
    }
    stem[n] = 0;
    return arena_printf(l->p->arena, "%s%s%d", n && stem[0] >= '0' && stem[0] <= '9' ? "x" : "", stem, l->temps++);
}

LoopBuffer *lower_temp(Lower *l, const char *stem, DType t, int rank, const Dim *const *shape) {
    return loop_buffer(l->p, BUF_TEMP, lower_name(l, stem), t, rank, shape);
}

static LoopBuffer *const_buffer(Lower *l, const Value *v) {
    LoopBuffer *b = loop_buffer(l->p, BUF_CONST, lower_name(l, "w"), v->type, v->rank, v->shape);
    b->bytes = v->def->data.bytes;
    b->nbytes = v->def->data.size;
    b->blob = -1;
    b->label = v->label;
    return b;
}

LoopBuffer *lower_buffer(Lower *l, const Value *v) {
    if (l->buffer[v->id]) return l->buffer[v->id];
    if (v->def && v->def->op == G_const) return l->buffer[v->id] = const_buffer(l, v);
    LoopBuffer *b = lower_temp(l, "t", v->type, v->rank, (const Dim *const *)v->shape);
    b->label = v->label;
    return l->buffer[v->id] = b;
}

KernelBuild kernel_begin(Lower *l, const Node *n, const char *stem) {
    KernelBuild kb = {.l = l};
    const char *what = n && n->onnx ? n->onnx : stem;
    kb.node = n ? n->onnx_id : 0;
    char *name = arena_printf(l->p->arena, "k%d_%s", l->kernels++, what);
    for (char *c = name; *c; c++)
        if (*c == '.' || *c == ':') *c = '_';
    kb.k = loop_kernel(l->p, name, NULL, kb.node);
    if (n) kernel_note(&kb, n);
    return kb;
}

void kernel_note(KernelBuild *kb, const Node *n) {
    if (!n->label) return;
    int at = kb->nodes.n;
    for (int i = 0; i < kb->nodes.n; i++)
        if (!strcmp(kb->nodes.data[i]->label, n->label)) return;
    while (at > 0 && kb->nodes.data[at - 1]->onnx_id > n->onnx_id) at--;
    vec_push(kb->l->p->arena, &kb->nodes, n);
    memmove(&kb->nodes.data[at + 1], &kb->nodes.data[at], (size_t)(kb->nodes.n - 1 - at) * sizeof *kb->nodes.data);
    kb->nodes.data[at] = n;
}

void kernel_end(KernelBuild *kb, Block *main) {
    for (int i = 0; i < kb->nodes.n; i++) {
        const char *label = kb->nodes.data[i]->label;
        kb->k->label = i ? arena_printf(kb->l->p->arena, "%s + %s", kb->k->label, label) : label;
    }
    loop_call(kb->l->p, main, kb->k, kb->args.n, kb->args.data);
}

Block *lower_par_nest(Lower *l, Block *b, int rank, const Dim *const *shape, const bool *want, const Dim **idx) {
    for (int i = 0; i < rank; i++) {
        if (want && !want[i]) continue;
        if (dim_is(shape[i], 1)) {
            idx[i] = dim_int(l->g->dims, 0);
            continue;
        }
        Stmt *f = loop_for(l->p, b, arena_printf(l->p->arena, "i%d", i), dim_int(l->g->dims, 0), shape[i], LOOP_PAR);
        idx[i] = f->sym;
        b = &f->body;
    }
    return b;
}

// The row-wise value that v is made of element by element: v itself or the one behind inline maps; NULL when there is none.
static const Value *row_of(Lower *l, const Value *v, bool root) {
    if (!v->def || (!root && l->buffer[v->id])) return NULL;
    if (v->def->op == G_softmax || v->def->op == G_norm) return v;
    if (v->def->op != G_map) return NULL;
    for (int i = 0; i < v->def->nin; i++) {
        const Value *row = row_of(l, v->def->in[i], false);
        if (row) return row;
    }
    return NULL;
}

// ---- row groups ----

// The statistics of v's row group in the order they are computed in: nodes of its group that it is made of, itself aside.
typedef struct {
    Lower *l;
    const Value *root;
    VEC(const Value *) stats;
    VEC(const Value *) seen;
    const Node *reduction; // the first: its axes are the row's
} RowGroup;

static void find_statistics(RowGroup *r, const Value *v) {
    if (!v->def || (v != r->root && v->storage.kind != STORE_INLINE)) return;
    for (int i = 0; i < r->seen.n; i++)
        if (r->seen.data[i] == v) return;
    vec_push(r->l->p->arena, &r->seen, v);
    for (int i = 0; i < v->def->nin; i++) find_statistics(r, v->def->in[i]);
    if (v == r->root || v->def->group != r->root->def->group) return;
    vec_push(r->l->p->arena, &r->stats, v);
    if (v->def->op == G_reduce && !r->reduction) r->reduction = v->def;
}

// The row's indices as v's own: v's extents are those of the kept axes in order, but for ones.
static void statistic_indices(const RowGroup *r, const Value *v, const bool *kept, const Dim *const *row, const Dim **idx) {
    int next = 0;
    for (int i = 0; i < v->rank; i++) {
        idx[i] = dim_int(r->l->g->dims, 0);
        if (dim_is(v->shape[i], 1)) continue;
        while (!kept[next] || dim_is(r->root->shape[next], 1)) next++;
        idx[i] = row[next++];
    }
}

// The inline concat that v is made of element by element, behind maps of its shape; NULL when there is none.
static const Node *concat_of(Lower *l, const Value *v, bool root) {
    if (!v->def || (!root && (l->buffer[v->id] || v->storage.kind != STORE_INLINE))) return NULL;
    if (v->def->op == G_concat) return root ? NULL : v->def;
    for (int i = 0; v->def->op == G_map && i < v->def->nin; i++) {
        const Value *in = v->def->in[i];
        const Node *found = value_same_shape(in, v) ? concat_of(l, in, false) : NULL;
        if (found) return found;
    }
    return NULL;
}

static void store_element(Place at, const Value *v, LoopBuffer *out, const Dim *const *idx, const Dim *base) {
    Lower *l = at.kb->l;
    const Expr *e = lower_compute(at, v, idx);
    loop_store(l->p, at.block, out, dim_add(l->g->dims, base, lower_flat(l, v, idx)), e);
}

// Rows of a group: its statistics in front of a row's elements.
static void fill_rows(KernelBuild *kb, const RowGroup *r, LoopBuffer *param, const Dim *base) {
    Lower *l = kb->l;
    const Value *v = r->root;
    const Dim *idx[RANK_MAX], *own[RANK_MAX];
    bool kept[RANK_MAX], inside[RANK_MAX];
    for (int i = 0; i < v->rank; i++) kept[i] = true;
    for (int i = 0; i < r->reduction->axes.n; i++) kept[r->reduction->axes.data[i]] = false;
    for (int i = 0; i < v->rank; i++) inside[i] = !kept[i];
    Block *outer = lower_par_nest(l, &kb->k->body, v->rank, v->shape, kept, idx);
    for (int i = 0; i < v->rank; i++)
        if (inside[i]) idx[i] = dim_int(l->g->dims, 0);
    for (int i = 0; i < r->stats.n; i++) {
        statistic_indices(r, r->stats.data[i], kept, idx, own);
        lower_group_statistic((Place){kb, outer, NULL}, r->stats.data[i], own);
    }
    Place at = {kb, lower_par_nest(l, outer, v->rank, v->shape, inside, idx), NULL};
    store_element(at, v, param, idx, base);
}

// The elements of each part of a concat in a nest of their own.
static void fill_parts(KernelBuild *kb, const Value *v, const Node *concat, LoopBuffer *param, const Dim *base) {
    DimTable *t = kb->l->g->dims;
    const Dim *start = dim_int(t, 0);
    for (int i = 0; i < concat->nin; i++) {
        const Dim *idx[RANK_MAX];
        Place at = {kb, lower_par_nest(kb->l, &kb->k->body, v->rank, concat->in[i]->shape, NULL, idx), NULL};
        idx[concat->axis] = dim_add(t, idx[concat->axis], start);
        store_element(at, v, param, idx, base);
        start = dim_add(t, start, concat->in[i]->shape[concat->axis]);
    }
}

static void fill_nest(KernelBuild *kb, const Value *v, LoopBuffer *out, const Dim *base) {
    Lower *l = kb->l;
    const Dim *idx[RANK_MAX];
    const Value *row = row_of(l, v, true);
    LoopBuffer *param = kernel_param(kb, out, false, true);
    const Node *concat = concat_of(l, v, true);
    if (concat) {
        fill_parts(kb, v, concat, param, base);
        return;
    }
    RowGroup group = {.l = l, .root = v};
    if (v->def->group) find_statistics(&group, v);
    if (group.reduction) {
        fill_rows(kb, &group, param, base);
        return;
    }
    if (!row) {
        Place at = {kb, lower_par_nest(l, &kb->k->body, v->rank, v->shape, NULL, idx), NULL};
        store_element(at, v, param, idx, base);
        return;
    }
    bool kept[RANK_MAX], reduced[RANK_MAX];
    for (int i = 0; i < v->rank; i++) kept[i] = true;
    for (int i = 0; i < row->def->axes.n; i++) kept[row->def->axes.data[i]] = false;
    for (int i = 0; i < v->rank; i++) reduced[i] = !kept[i];
    Block *outer = lower_par_nest(l, &kb->k->body, v->rank, v->shape, kept, idx);
    lower_row_statistics((Place){kb, outer, NULL}, row, idx);
    Place at = {kb, lower_par_nest(l, outer, v->rank, v->shape, reduced, idx), NULL};
    store_element(at, v, param, idx, base);
}

void lower_value_kernel(Lower *l, Block *main, const Value *v, LoopBuffer *out) {
    KernelBuild kb = kernel_begin(l, v->def, gop_info(v->def->op)->name);
    fill_nest(&kb, v, out, dim_int(l->g->dims, 0));
    kernel_end(&kb, main);
}

void lower_buffer_copy(Lower *l, Block *main, LoopBuffer *from, LoopBuffer *to, const Dim *count, const Dim *base) {
    KernelBuild kb = kernel_begin(l, NULL, "copy");
    LoopBuffer *src = kernel_param(&kb, from, true, false), *dst = kernel_param(&kb, to, false, true);
    Stmt *f = loop_for(l->p, &kb.k->body, "i0", dim_int(l->g->dims, 0), count, LOOP_PAR);
    loop_store(l->p, &f->body, dst, dim_add(l->g->dims, base, f->sym), x_load(l->p->arena, &src->var, f->sym));
    kernel_end(&kb, main);
}

void lower_copy_at(Lower *l, Block *main, const Value *v, LoopBuffer *out, const Dim *base) {
    if (v->def && v->def->op == G_const) lower_buffer(l, v);
    if (l->buffer[v->id]) {
        lower_buffer_copy(l, main, l->buffer[v->id], out, value_size(l->g, v), base);
        return;
    }
    KernelBuild kb = kernel_begin(l, v->def, "copy");
    const Dim *idx[RANK_MAX];
    if (l->scalar[v->id]) {
        LoopBuffer *param = kernel_param(&kb, out, false, true);
        Place at = {&kb, &kb.k->body, NULL};
        loop_store(l->p, at.block, param, base, lower_element(at, v, idx));
    } else {
        fill_nest(&kb, v, out, base);
    }
    kernel_end(&kb, main);
}

// ---- concat: each input is stored at its place along the axis ----
static void lower_concat(Lower *l, Block *main, const Node *n) {
    const Value *v = n->out[0];
    LoopBuffer *out = lower_buffer(l, v);
    DimTable *t = l->g->dims;
    KernelBuild kb = kernel_begin(l, n, "concat");
    LoopBuffer *param = kernel_param(&kb, out, false, true);
    const Dim *start = dim_int(t, 0);
    for (int i = 0; i < n->nin; i++) {
        const Dim *idx[RANK_MAX], *at_idx[RANK_MAX];
        Place at = {&kb, lower_par_nest(l, &kb.k->body, v->rank, n->in[i]->shape, NULL, idx), NULL};
        memcpy(at_idx, idx, sizeof idx);
        at_idx[n->axis] = dim_add(t, idx[n->axis], start);
        loop_store(l->p, at.block, param, lower_flat(l, v, at_idx), lower_element(at, n->in[i], idx));
        start = dim_add(t, start, n->in[i]->shape[n->axis]);
    }
    kernel_end(&kb, main);
}

// ---- scan: a running state along one axis ----
static void lower_scan(Lower *l, Block *main, const Node *n) {
    const Value *v = n->out[0];
    LoopBuffer *out = lower_buffer(l, v);
    DimTable *t = l->g->dims;
    Arena *a = l->p->arena;
    KernelBuild kb = kernel_begin(l, n, "scan");
    LoopBuffer *param = kernel_param(&kb, out, false, true);
    bool want[RANK_MAX];
    const Dim *idx[RANK_MAX];
    for (int i = 0; i < v->rank; i++) want[i] = i != n->axis;
    Block *b = lower_par_nest(l, &kb.k->body, v->rank, v->shape, want, idx);
    DType type = accumulator_type(v->type);
    Var *acc = loop_var(l->p, b, kernel_local(&kb, "acc"), combine_init(a, n->kind, type));
    const Dim *extent = v->shape[n->axis];
    Stmt *f = loop_for(l->p, b, "s", dim_int(t, 0), extent, LOOP_SEQ);
    idx[n->axis] = n->reverse ? dim_sub(t, dim_addi(t, extent, -1), f->sym) : f->sym;
    Place at = {&kb, &f->body, NULL};
    const Expr *x = x_cast(a, type, lower_element(at, n->in[0], idx));
    const Expr *now = x_cast(a, v->type, x_var(a, acc));
    if (n->exclusive) { // read first: the output may lie where the input did
        x = x_var(a, loop_let(l->p, at.block, kernel_local(&kb, "x"), x));
        loop_store(l->p, at.block, param, lower_flat(l, v, idx), now);
    }
    loop_set(l->p, at.block, acc, combine_expr(a, n->kind, x_var(a, acc), x));
    if (!n->exclusive) loop_store(l->p, at.block, param, lower_flat(l, v, idx), now);
    kernel_end(&kb, main);
}

// ---- scatter: a copy, then the updates in order ----
static void scatter_updates(Lower *l, Block *main, const Node *n, LoopBuffer *out) {
    const Value *v = n->out[0], *updates = n->in[1];
    DimTable *t = l->g->dims;
    Arena *a = l->p->arena;
    KernelBuild kb = kernel_begin(l, n, "scatter");
    LoopBuffer *param = kernel_param(&kb, out, strcmp(n->kind, "set") != 0, true);
    const Dim *idx[RANK_MAX], *from[2 * RANK_MAX], *to[2 * RANK_MAX], *target[RANK_MAX];
    Block *b = &kb.k->body;
    for (int i = 0; i < updates->rank; i++) {
        Stmt *f = loop_for(l->p, b, arena_printf(a, "i%d", i), dim_int(t, 0), updates->shape[i], LOOP_SEQ);
        idx[i] = f->sym;
        b = &f->body;
    }
    Place at = {&kb, b, NULL};
    int ns = lower_bind_indices(at, n, 2, updates->rank, updates->shape, idx, from, to);
    const Dim **guard = ARENA_ARRAY(a, const Dim *, n->guard.n + 1);
    for (int i = 0; i < n->guard.n; i++) guard[i] = dim_subst(t, n->guard.data[i], from, to, ns);
    const Expr *inside = lower_all_ge0(l, n->guard.n, guard);
    if (inside) {
        Stmt *s = loop_if(l->p, b, inside);
        at.block = &s->body;
    }
    for (int i = 0; i < n->index.n; i++) target[i] = lower_checked_index(at, dim_subst(t, n->index.data[i], from, to, ns), v->shape[i]);
    const Dim *flat = lower_flat(l, v, target);
    const Expr *x = lower_element(at, updates, idx);
    bool set = !strcmp(n->kind, "set");
    DType type = accumulator_type(v->type);
    const Expr *old = set ? NULL : x_cast(a, type, x_load(a, &param->var, flat));
    loop_store(l->p, at.block, param, flat, set ? x : x_cast(a, v->type, combine_expr(a, n->kind, old, x_cast(a, type, x))));
    kernel_end(&kb, main);
}

static void lower_scatter(Lower *l, Block *main, const Node *n) {
    LoopBuffer *out = lower_buffer(l, n->out[0]);
    lower_copy_at(l, main, n->in[0], out, dim_int(l->g->dims, 0));
    scatter_updates(l, main, n, out);
}

void lower_node(Lower *l, Block *main, Node *n) {
    switch (n->op) {
    case G_const: return;
    case G_if: lower_if(l, main, n); return;
    case G_loop: lower_loop(l, main, n); return;
    case G_check: lower_check(l, main, n); return;
    case G_template: lower_template(l, main, n); return;
    case G_scatter: lower_scatter(l, main, n); return;
    case G_scan: lower_scan(l, main, n); return;
    case G_attention: lower_attention(l, main, n); return;
    case G_random: lower_random(l, main, n); return;
    default: break;
    }
    if (gop_info(n->op)->cls == GC_control || n->op == G_optional) {
        diag_error(l->diag, EXIT_UNSUPPORTED, "node '%s' (%s): lowering of '%s' is not supported yet", n->label ? n->label : "",
            n->onnx ? n->onnx : "", gop_info(n->op)->name);
        return;
    }
    if (n->out[0]->storage.kind == STORE_INLINE) return;
    if (n->op == G_concat) {
        lower_concat(l, main, n);
        return;
    }
    LoopBuffer *out = lower_buffer(l, n->out[0]);
    lower_value_kernel(l, main, n->out[0], out);
}
