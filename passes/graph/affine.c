// affine: moves the scale of an affine map behind a contraction (BatchNormalization behind a convolution, most often) into the
// contraction's constant operand.
//
//   map contract(x, w) body((a0 - m)*k + b)   =>   map contract(x, w*k) body(a0 + (b - m*k))
//
// The constants may differ along one axis of the result, one that w has too. The sums are rounded in another order, as every runtime does
// here. Needs fold behind it: what it writes about constants is evaluated there.
#include "graph_passes.h"

#include <string.h>

#include "reads.h"
#include "rewrite.h"

typedef struct {
    Uses u;
    int nvalues; // that u knows
} Affine;

static bool used_once(const Affine *f, const Value *v) {
    return v->id < f->nvalues && f->u.uses[v->id] == 1;
}

// e = scale*a0 + shift; scale NULL: a0 does not occur.
typedef struct {
    const Expr *scale, *shift;
    bool ok;
} Form;

static Form form_of(Arena *a, const Expr *e, int arg);

static const Expr *combine(Arena *a, XOp op, const Expr *x, const Expr *y) {
    return x && y ? x_op2(a, op, x, y) : x ? x : !y ? NULL : op == X_sub ? x_op1(a, X_neg, y) : y;
}

static Form operation_form(Arena *a, const Expr *e, int arg) {
    Form x = form_of(a, e->a[0], arg), y = e->n > 1 ? form_of(a, e->a[1], arg) : (Form){.ok = true};
    Form no = {0};
    if (!x.ok || !y.ok) return no;
    if (!x.scale && !y.scale) return (Form){.shift = e, .ok = true};
    switch (e->op) {
    case X_add:
    case X_sub: return (Form){combine(a, e->op, x.scale, y.scale), combine(a, e->op, x.shift, y.shift), true};
    case X_neg: return (Form){x_op1(a, X_neg, x.scale), x.shift ? x_op1(a, X_neg, x.shift) : NULL, true};
    case X_mul: {
        if (x.scale && y.scale) return no;
        Form v = x.scale ? x : y;
        const Expr *k = x.scale ? e->a[1] : e->a[0];
        return (Form){x_op2(a, X_mul, v.scale, k), v.shift ? x_op2(a, X_mul, v.shift, k) : NULL, true};
    }
    case X_div:
        if (y.scale) return no;
        return (Form){x_op2(a, X_div, x.scale, e->a[1]), x.shift ? x_op2(a, X_div, x.shift, e->a[1]) : NULL, true};
    default: return no;
    }
}

static Form form_of(Arena *a, const Expr *e, int arg) {
    if (e->op == X_arg && e->k == arg) return (Form){x_float(a, e->type.type, 1), NULL, true};
    if (e->op == X_arg || e->op == X_const) return (Form){.shift = e, .ok = true};
    if (e->op == X_dim || xop_info(e->op)->cls < XC_ARITH) return (Form){0};
    for (int i = 0; i < e->n; i++)
        if (e->a[i]->type.type != e->type.type) return (Form){0};
    return e->n > 2 ? (Form){0} : operation_form(a, e, arg);
}

// The one axis of the result along which v's elements differ: -1 none, -2 several.
static int varying_axis(const Value *v, int rank) {
    int axis = -1;
    for (int i = 0; i < v->rank; i++) {
        if (dim_is(v->shape[i], 1)) continue;
        axis = axis == -1 ? rank - v->rank + i : -2;
    }
    return axis;
}

typedef struct {
    Node *map, *contract;
    int arg;        // which input of the map the contraction is
    int side, axis; // constant operand, its axis that the constants follow; -1: they are scalars
    int out_axis;   // that axis in the result
    const Dim *extent;
} Match;

// The constant operand whose letter is the result's `out_axis`.
static bool find_operand(const Node *c, int out_axis, Match *m) {
    const char *comma = strchr(c->subs, ','), *out = strstr(c->subs, "->") + 2;
    for (int side = 1; side >= 0; side--) {
        const Value *w = c->in[side];
        const char *letters = side ? comma + 1 : c->subs;
        if (!w->def || w->def->op != G_const) continue;
        m->side = side;
        m->axis = -1;
        if (out_axis < 0) return true;
        for (int i = 0; i < w->rank; i++)
            if (letters[i] == out[out_axis]) m->axis = i;
        if (m->axis >= 0) return true;
    }
    return false;
}

static bool match(const Affine *f, Node *n, Match *m) {
    const Value *out = n->out[0];
    if (n->op != G_map || (out->type != DT_f32 && out->type != DT_f64)) return false;
    *m = (Match){.map = n, .arg = -1, .out_axis = -1};
    for (int i = 0; i < n->nin; i++) {
        const Node *def = n->in[i]->def;
        bool product = def && def->op == G_contract && m->arg < 0 && value_same_shape(n->in[i], out) && n->in[i]->type == out->type;
        if (product) {
            m->arg = i;
            m->contract = n->in[i]->def;
            continue;
        }
        if (!def || def->op != G_const || n->in[i]->type != out->type) return false;
        int axis = varying_axis(n->in[i], out->rank);
        if (axis == -2 || (axis >= 0 && m->out_axis >= 0 && axis != m->out_axis)) return false;
        if (axis >= 0) m->out_axis = axis;
    }
    if (m->arg < 0 || !used_once(f, n->in[m->arg])) return false;
    if (m->out_axis >= 0) m->extent = out->shape[m->out_axis];
    if (!find_operand(m->contract, m->out_axis, m)) return false;
    const Value *w = m->contract->in[m->side];
    return w->type == out->type && used_once(f, w);
}

// ---- maps of maps ----

typedef struct {
    Arena *arena;
    const Expr *const *args;
} Inlining;

static const Expr *inline_arg(void *ctx, const Expr *e) {
    const Inlining *in = ctx;
    return e->op == X_arg ? in->args[e->k] : e;
}

// The map's inputs but one are constants, and that one is a contraction or such a map again, of its shape.
static Node *map_behind_product(const Affine *f, const Node *n, int *arg) {
    Node *inner = NULL;
    for (int i = 0; i < n->nin; i++) {
        Node *def = n->in[i]->def;
        if (def && def->op == G_const) continue;
        if (!def || inner || (def->op != G_map && def->op != G_contract) || !value_same_shape(n->in[i], n->out[0])) return NULL;
        inner = def;
        *arg = i;
    }
    return inner && used_once(f, inner->out[0]) ? inner : NULL;
}

// map (map (contract) body f) body g: one map with body g(f), where the other inputs are constants.
static bool merge_maps(void *ctx, Node *n, Builder *b) {
    const Affine *f = ctx;
    int at, inner_at;
    if (n->op != G_map) return false;
    Node *inner = map_behind_product(f, n, &at);
    if (!inner || !form_of(b->g->arena, n->body, at).ok || inner->op != G_map || !map_behind_product(f, inner, &inner_at)) return false;
    if (!form_of(b->g->arena, inner->body, inner_at).ok) return false;
    Arena *a = b->g->arena;
    int count = n->nin + inner->nin - 1;
    Value **in = ARENA_ARRAY(a, Value *, count);
    const Expr **of_inner = ARENA_ARRAY(a, const Expr *, inner->nin), **args = ARENA_ARRAY(a, const Expr *, n->nin);
    for (int i = 0; i < inner->nin; i++) {
        in[i] = inner->in[i];
        of_inner[i] = x_arg(a, i, in[i]->type);
    }
    Inlining inlining = {a, of_inner};
    args[at] = expr_rewrite(a, inner->body, inline_arg, &inlining);
    for (int i = 0, k = inner->nin; i < n->nin; i++) {
        if (i == at) continue;
        in[k] = n->in[i];
        args[i] = x_arg(a, k++, n->in[i]->type);
    }
    inlining.args = args;
    const Value *out = n->out[0];
    Value *now = g_map_shape(b, count, in, expr_rewrite(a, n->body, inline_arg, &inlining), out->rank, (const Dim *const *)out->shape);
    now->label = out->label;
    graph_replace(b->g, n->out[0], now);
    return true;
}

// ---- moving ----

// An expression over the map's constants as a value: a scalar, or one element for each place along the axis.
static Value *constant_value(Builder *b, const Match *m, const Expr *e) {
    const Node *n = m->map;
    Value **in = ARENA_ARRAY(b->g->arena, Value *, n->nin);
    const Dim *one = dim_int(b->g->dims, 1);
    for (int i = 0; i < n->nin; i++) in[i] = i == m->arg ? g_const_float(b, n->out[0]->type, 0) : n->in[i];
    for (int i = 0; i < n->nin; i++) {
        bool scalar = i == m->arg || varying_axis(n->in[i], n->out[0]->rank) < 0;
        in[i] = scalar ? g_reshape(b, in[i], 0, &one) : g_reshape(b, in[i], 1, &m->extent);
    }
    return m->axis < 0 ? g_map_shape(b, n->nin, in, e, 0, NULL) : g_map_shape(b, n->nin, in, e, 1, &m->extent);
}

// v along axis `axis` of `rank` axes.
static Value *along(Builder *b, Value *v, int rank, int axis) {
    const Dim *shape[GRAPH_MAX_RANK];
    for (int i = 0; i < rank; i++) shape[i] = dim_int(b->g->dims, 1);
    if (axis >= 0) shape[axis] = v->shape[0];
    return g_reshape(b, v, rank, shape);
}

static bool move_scale(void *ctx, Node *n, Builder *b) {
    Match m;
    if (!match(ctx, n, &m)) return false;
    Form f = form_of(b->g->arena, n->body, m.arg);
    if (!f.ok || !f.scale || f.scale->op == X_const) return false;
    Node *c = m.contract;
    Value *w = c->in[m.side], *out = n->out[0];
    Value *in[2] = {c->in[0], c->in[1]};
    in[m.side] = g_map2(b, X_mul, w, along(b, constant_value(b, &m, f.scale), w->rank, m.axis));
    Value *now = g_contract(b, c->subs, in[0], in[1], out->type);
    if (f.shift) now = g_map2(b, X_add, now, along(b, constant_value(b, &m, f.shift), out->rank, m.out_axis));
    now->label = out->label;
    graph_replace(b->g, out, now);
    return true;
}

bool pass_affine(Graph *g, const PassOptions *o) {
    (void)o;
    Arena *a = arena_new();
    bool changed = false;
    Affine f = {uses_of(g, a), g->nvalues};
    while (graph_rewrite(g, merge_maps, &f)) {
        graph_remove_dead(g); // the merged maps count no longer
        f = (Affine){uses_of(g, a), g->nvalues};
        changed = true;
    }
    changed |= graph_rewrite(g, move_scale, &f);
    arena_free(a);
    return changed;
}
