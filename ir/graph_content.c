// Content: what is known of the elements of small integer and bool tensors, one Dim each, so that the shape computations of a model (Shape,
// Gather, Unsqueeze, Concat, Reshape …) become dimension expressions and disappear from the run time.
//
// Every builder calls graph_infer_content, the parser once it has verified the whole. A rule per operation fills the output's elements from
// the inputs' contents or gives up; a content is known whole or not at all. Bodies of maps are evaluated over Dims: what depends on a
// condition is known only when the condition is proven. Symbolic values are taken to fit 32 and 64 bits (they are sizes of tensors);
// narrower types need an interval that proves it. Bools are 0 and 1.
#include "graph_known.h"
#include "strip.h"

#include <string.h>

typedef struct {
    Graph *g;
    DimTable *t;
    const Node *n;
    int count, rank;
    int64_t shape[GRAPH_MAX_RANK]; // of the output
    const Dim **elem;              // to be filled: count Dims
} Content;

// ---- positions ----

// Constant extents of v; false when one is symbolic or the tensor has more than CONTENT_MAX elements.
static bool fixed_shape(const Value *v, int64_t *shape, int *count) {
    int64_t size = 1;
    for (int i = 0; i < v->rank; i++) {
        if (!dim_is_int(v->shape[i], &shape[i]) || shape[i] < 0 || shape[i] > CONTENT_MAX) return false;
        size *= shape[i];
        if (size > CONTENT_MAX) return false;
    }
    *count = (int)size;
    return true;
}

static void unravel(const Content *c, int e, int64_t *at) {
    for (int i = c->rank - 1; i >= 0; i--) {
        at[i] = e % c->shape[i];
        e = (int)(e / c->shape[i]);
    }
}

// Element of an input that broadcasts to the output at position `at`; NULL where it does not broadcast (the verifier will refuse it).
static const Dim *broadcast_elem(const Content *c, const Value *v, const int64_t *at) {
    int64_t k = 0, extent;
    int skip = c->rank - v->rank;
    if (skip < 0 || !v->content) return NULL;
    for (int i = 0; i < v->rank; i++) {
        if (!dim_is_int(v->shape[i], &extent) || (extent != 1 && extent != c->shape[skip + i])) return NULL;
        k = k * extent + (extent == 1 ? 0 : at[skip + i]);
    }
    return v->content[k];
}

// d with the output's axis symbols (and the node's v symbols) replaced by their values at element `at`.
static const Dim *at_position(const Content *c, const Dim *d, const int64_t *at, const Dim *const *v) {
    const Dim *from[2 * GRAPH_MAX_RANK], *to[2 * GRAPH_MAX_RANK];
    int n = 0;
    const Value *out = c->n->out[0];
    for (int i = 0; i < c->rank; i++, n++) {
        from[n] = dim_axis(c->t, i, out->shape[i]);
        to[n] = dim_int(c->t, at[i]);
    }
    for (int i = 0; i < c->n->nvsyms && n < 2 * GRAPH_MAX_RANK; i++, n++) {
        from[n] = c->n->vsyms[i];
        to[n] = v[i];
    }
    return dim_subst(c->t, d, from, to, n);
}

// ---- bodies over Dims ----

typedef struct {
    const Content *c;
    const int64_t *at;
    int budget; // nodes still to be visited: shared subtrees are not remembered
} BodyEval;

static const Dim *known_bool(const BodyEval *b, Tri v) {
    return v == UNKNOWN ? NULL : dim_int(b->c->t, v == YES);
}

static Tri negate(Tri v) {
    return v == UNKNOWN ? UNKNOWN : v == YES ? NO : YES;
}

static Tri as_bool(const BodyEval *b, const Dim *d) {
    return negate(dim_eq(b->c->t, d, dim_int(b->c->t, 0)));
}

static bool positive(const Dim *d) {
    int64_t lo, hi;
    dim_interval(d, &lo, &hi);
    return lo > 0;
}

static bool nonnegative(const BodyEval *b, const Dim *d) {
    return dim_ge0(b->c->t, d) == YES;
}

static const Dim *fit(const BodyEval *b, DType type, const Dim *d) {
    int64_t v, lo, hi;
    if (!d || dim_is_poison(d)) return NULL;
    if (type == DT_bool) return known_bool(b, as_bool(b, d));
    if (dim_is_int(d, &v)) {
        if (type == DT_u64) return v < 0 ? NULL : d;
        Scalar s = scalar_int(type, v);
        return dim_int(b->c->t, dtype_is_signed(type) || type == DT_idx ? s.i : (int64_t)s.u);
    }
    dim_interval(d, &lo, &hi);
    if (dtype_info(type)->bits >= 32) return dtype_is_signed(type) || type == DT_idx || lo >= 0 ? d : NULL;
    int bits = dtype_info(type)->bits - (dtype_is_signed(type) ? 1 : 0);
    int64_t top = ((int64_t)1 << bits) - 1, bottom = dtype_is_signed(type) ? -top - 1 : 0;
    return lo >= bottom && hi <= top ? d : NULL;
}

// All operands constant: the operation's own meaning.
static const Dim *constant_op(const BodyEval *b, const Expr *e, const Dim *const *d) {
    uint64_t in[3] = {0}, out = 0;
    DType type = e->a[0]->type.type;
    for (int i = 0; i < e->n; i++) {
        int64_t v;
        if (!dim_is_int(d[i], &v)) return NULL;
        scalar_write(scalar_int(e->a[i]->type.type, v), &in[i]);
    }
    strip_op(e->op, type, e->type.type, 1, &out, &in[0], &in[1], &in[2]);
    Scalar s = scalar_read(e->type.type, &out);
    if (s.type == DT_u64 && s.u > (uint64_t)INT64_MAX) return NULL;
    return dim_int(b->c->t, scalar_as_i64(s));
}

static const Dim *symbolic_division(const BodyEval *b, XOp op, const Dim *x, const Dim *y) {
    DimTable *t = b->c->t;
    if (!positive(y)) return NULL;
    bool truncating = op == X_div || op == X_rem;
    if (truncating && !nonnegative(b, x)) return NULL;
    return op == X_div || op == X_floordiv ? dim_floordiv(t, x, y) : dim_mod(t, x, y);
}

static const Dim *symbolic_abs(const BodyEval *b, const Dim *x) {
    return dim_max(b->c->t, x, dim_muli(b->c->t, x, -1));
}

static const Dim *logic(const BodyEval *b, XOp op, const Dim *x, const Dim *y) {
    Tri p = as_bool(b, x), q = as_bool(b, y);
    if (op == X_and) return known_bool(b, p == NO || q == NO ? NO : p == YES && q == YES ? YES : UNKNOWN);
    if (op == X_or) return known_bool(b, p == YES || q == YES ? YES : p == NO && q == NO ? NO : UNKNOWN);
    return known_bool(b, p == UNKNOWN || q == UNKNOWN ? UNKNOWN : p != q ? YES : NO);
}

static const Dim *symbolic_op(const BodyEval *b, const Expr *e, const Dim *const *d) {
    DimTable *t = b->c->t;
    bool boolean = e->n > 0 && e->a[0]->type.type == DT_bool;
    switch (e->op) {
    case X_add: return dim_add(t, d[0], d[1]);
    case X_sub: return dim_sub(t, d[0], d[1]);
    case X_mul: return dim_mul(t, d[0], d[1]);
    case X_fma: return dim_add(t, dim_mul(t, d[0], d[1]), d[2]);
    case X_neg: return dim_muli(t, d[0], -1);
    case X_abs: return symbolic_abs(b, d[0]);
    case X_min: return dim_min(t, d[0], d[1]);
    case X_max: return dim_max(t, d[0], d[1]);
    case X_div:
    case X_rem:
    case X_floordiv:
    case X_floormod: return symbolic_division(b, e->op, d[0], d[1]);
    case X_eq: return known_bool(b, dim_eq(t, d[0], d[1]));
    case X_ne: return known_bool(b, negate(dim_eq(t, d[0], d[1])));
    case X_lt: return known_bool(b, dim_lt(t, d[0], d[1]));
    case X_le: return known_bool(b, dim_le(t, d[0], d[1]));
    case X_gt: return known_bool(b, dim_lt(t, d[1], d[0]));
    case X_ge: return known_bool(b, dim_le(t, d[1], d[0]));
    case X_and:
    case X_or:
    case X_xor: return boolean ? logic(b, e->op, d[0], d[1]) : NULL;
    case X_not: return boolean ? known_bool(b, negate(as_bool(b, d[0]))) : NULL;
    case X_cast: return d[0];
    default: return NULL;
    }
}

static const Dim *body_eval(BodyEval *b, const Expr *e);

static const Dim *body_select(BodyEval *b, const Expr *e) {
    const Dim *cond = body_eval(b, e->a[0]);
    Tri known = cond ? as_bool(b, cond) : UNKNOWN;
    if (known != UNKNOWN) return body_eval(b, e->a[known == YES ? 1 : 2]);
    const Dim *x = body_eval(b, e->a[1]), *y = body_eval(b, e->a[2]);
    return x && x == y ? x : NULL;
}

static const Dim *body_leaf(BodyEval *b, const Expr *e) {
    const Content *c = b->c;
    if (e->op == X_dim) return at_position(c, e->dim, b->at, NULL);
    if (e->op == X_const)
        return e->k_scalar.type == DT_u64 && e->k_scalar.u > (uint64_t)INT64_MAX ? NULL : dim_int(c->t, scalar_as_i64(e->k_scalar));
    const Value *v = c->n->in[e->k];
    return broadcast_elem(c, v, b->at);
}

static const Dim *body_eval(BodyEval *b, const Expr *e) {
    DType type = e->type.type;
    if (--b->budget < 0 || !(dtype_is_int(type) || type == DT_bool || type == DT_idx)) return NULL;
    if (e->op == X_const || e->op == X_arg || e->op == X_dim) return body_leaf(b, e);
    if (e->op == X_select) return body_select(b, e);
    const Dim *d[3] = {0};
    bool constant = true;
    for (int i = 0; i < e->n; i++) {
        d[i] = body_eval(b, e->a[i]);
        if (!d[i]) return NULL;
        constant = constant && dim_is_int(d[i], NULL);
    }
    return constant ? constant_op(b, e, d) : fit(b, type, symbolic_op(b, e, d));
}

// ---- rules: fill c->elem, false when unknown ----

static bool fill_const(Content *c) {
    const Value *v = c->n->out[0];
    size_t size = (size_t)dtype_bytes(v->type);
    if (c->n->data.size < size * (size_t)c->count) return false;
    for (int e = 0; e < c->count; e++) {
        Scalar s = scalar_read(v->type, (const char *)c->n->data.bytes + (size_t)e * size);
        if (s.type == DT_u64 && s.u > (uint64_t)INT64_MAX) return false;
        c->elem[e] = dim_int(c->t, scalar_as_i64(s));
    }
    return true;
}

static bool fill_dims(Content *c) {
    if (c->n->dims.n != c->count) return false; // the verifier tells
    for (int e = 0; e < c->count; e++) c->elem[e] = c->n->dims.data[e];
    return true;
}

static bool fill_map(Content *c) {
    int64_t at[GRAPH_MAX_RANK];
    for (int e = 0; e < c->count; e++) {
        unravel(c, e, at);
        BodyEval b = {c, at, 1000};
        c->elem[e] = body_eval(&b, c->n->body);
        if (!c->elem[e] || dim_is_poison(c->elem[e])) return false;
    }
    return true;
}

// Element of input 0 at the node's index; the fill value where a guard is disproved.
static const Dim *indexed_elem(const Content *c, const int64_t *at, const Dim *const *v) {
    const Node *n = c->n;
    const Value *x = n->in[0];
    for (int i = 0; i < n->guard.n; i++) {
        Tri ok = dim_ge0(c->t, at_position(c, n->guard.data[i], at, v));
        if (ok == NO) return dim_int(c->t, scalar_as_i64(n->fill));
        if (ok == UNKNOWN) return NULL;
    }
    if (!x->content || n->index.n != x->rank) return NULL; // text that the verifier will refuse
    int64_t k = 0;
    for (int i = 0; i < x->rank; i++) {
        int64_t at_i, extent;
        if (!dim_is_int(at_position(c, n->index.data[i], at, v), &at_i) || !dim_is_int(x->shape[i], &extent)) return NULL;
        if (at_i < 0 || at_i >= extent) return NULL;
        k = k * extent + at_i;
    }
    return x->content[k];
}

static bool fill_indexed(Content *c) {
    const Node *n = c->n;
    const Dim *v[GRAPH_MAX_RANK];
    int64_t at[GRAPH_MAX_RANK];
    if (n->nvsyms > GRAPH_MAX_RANK || n->nvsyms > n->nin - 1) return false;
    for (int k = 0; k < n->nin; k++)
        if (!n->in[k]->content) return false;
    for (int e = 0; e < c->count; e++) {
        unravel(c, e, at);
        for (int k = 0; k < n->nvsyms; k++)
            if (!(v[k] = broadcast_elem(c, n->in[1 + k], at))) return false;
        c->elem[e] = indexed_elem(c, at, v);
        if (!c->elem[e]) return false;
    }
    return true;
}

static bool fill_reshape(Content *c) {
    const Value *x = c->n->in[0];
    if (!x->content || x->ncontent != c->count) return false;
    for (int e = 0; e < c->count; e++) c->elem[e] = x->content[e];
    return true;
}

static bool fill_concat(Content *c) {
    const Node *n = c->n;
    int64_t inner = 1, outer = 1, done = 0;
    for (int i = 0; i < c->rank; i++) {
        if (i < n->axis) outer *= c->shape[i];
        if (i > n->axis) inner *= c->shape[i];
    }
    for (int k = 0; k < n->nin; k++) {
        int64_t len;
        if (!n->in[k]->content || !dim_is_int(n->in[k]->shape[n->axis], &len)) return false;
        for (int64_t o = 0; o < outer; o++)
            for (int64_t i = 0; i < len * inner; i++)
                c->elem[(o * c->shape[n->axis] + done) * inner + i] = n->in[k]->content[o * len * inner + i];
        done += len;
    }
    return true;
}

typedef const Dim *DimOp2(DimTable *t, const Dim *a, const Dim *b);
static const struct {
    const char *kind;
    DimOp2 *op;
} reductions[] = {{"sum", dim_add}, {"prod", dim_mul}, {"min", dim_min}, {"max", dim_max}, {"any", dim_max}, {"all", dim_min}};

static bool fill_reduce(Content *c) {
    const Node *n = c->n;
    const Value *x = n->in[0];
    DimOp2 *op = NULL;
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++)
        if (!strcmp(reductions[i].kind, n->kind)) op = reductions[i].op;
    if (!op || !x->content || x->ncontent == 0) return false;
    memset(c->elem, 0, sizeof *c->elem * (size_t)c->count);
    for (int e = 0; e < x->ncontent; e++) {
        // The output's element: the coordinates of axes that stay.
        int64_t k = 0, step = 1, rest = e;
        for (int i = x->rank - 1, a = n->axes.n - 1; i >= 0; i--) {
            int64_t extent;
            dim_is_int(x->shape[i], &extent);
            if (a >= 0 && n->axes.data[a] == i)
                a--;
            else {
                k += rest % extent * step;
                step *= extent;
            }
            rest /= extent;
        }
        c->elem[k] = c->elem[k] ? op(c->t, c->elem[k], x->content[e]) : x->content[e];
    }
    BodyEval b = {.c = c};
    for (int e = 0; e < c->count; e++) {
        c->elem[e] = c->elem[e] ? fit(&b, n->out[0]->type, c->elem[e]) : NULL;
        if (!c->elem[e]) return false;
    }
    return true;
}

static bool (*const rules[G_COUNT])(Content *c) = {
    [G_const] = fill_const,
    [G_dims] = fill_dims,
    [G_map] = fill_map,
    [G_view] = fill_indexed,
    [G_reshape] = fill_reshape,
    [G_concat] = fill_concat,
    [G_gather] = fill_indexed,
    [G_reduce] = fill_reduce,
};

// An If whose condition is known passes its branch's contents on.
static void infer_if(Node *n) {
    int64_t cond;
    if (!value_content_int(n->in[0], 0, &cond)) return;
    const Region *r = n->regions.data[cond ? 0 : 1];
    for (int i = 0; i < n->nout; i++) {
        n->out[i]->content = r->yields.data[i]->content;
        n->out[i]->ncontent = r->yields.data[i]->ncontent;
    }
}

void graph_infer_content(Graph *g, Node *n) {
    for (int i = 0; i < n->nout; i++) n->out[i]->content = NULL, n->out[i]->ncontent = 0;
    if (n->op == G_if) infer_if(n);
    if (n->nout != 1) return;
    Value *v = n->out[0];
    Content c = {.g = g, .t = g->dims, .n = n, .rank = v->rank};
    if (!(dtype_is_int(v->type) || v->type == DT_bool) || v->rank > GRAPH_MAX_RANK || !fixed_shape(v, c.shape, &c.count)) return;
    c.elem = ARENA_ARRAY(g->arena, const Dim *, c.count + 1);
    if (!(rules[n->op] && rules[n->op](&c)) && !graph_known_content(g, n, c.elem)) return;
    v->content = c.elem;
    v->ncontent = c.count;
}
