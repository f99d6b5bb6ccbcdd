// The Graph's builders: each appends one core operation and infers its outputs' type, shape and content.
//
// Shapes follow graph.def. What a proof leaves open (extents that must agree, sizes that must be equal) becomes a `check` node in front;
// what is disproved is noted in the Builder where it asks for that, else an assertion fails. Views that operators share are in
// graph_views.c, control in graph_control.c.
#include "graph.h"

#include <assert.h>
#include <string.h>

static Value *finish(Builder *b, Node *n, DType t, int rank, const Dim *const *shape) {
    assert(rank <= GRAPH_MAX_RANK);
    graph_value_type(b->g, n->out[0], t, rank, shape);
    if (!b->fault) graph_infer_content(b->g, n);
    return n->out[0];
}

void graph_build_fault(Builder *b, const char *fmt, ...) {
    assert(b->notes_faults && "extents or types disagree");
    if (b->fault) return;
    Str s = {0};
    va_list ap;
    va_start(ap, fmt);
    str_vprintf(&s, fmt, ap);
    va_end(ap);
    b->fault = arena_strdup(b->g->arena, s.data);
    str_free(&s);
}

// y, or in its place something of type t when its type is another one: a fault.
static Value *same_type(Builder *b, DType t, Value *y, Value *other) {
    if (y->type == t) return y;
    graph_build_fault(b, "operands of types %s and %s, which must be the same", dtype_name(t), dtype_name(y->type));
    return t == DT_str || y->type == DT_str ? other : g_cast(b, t, y);
}

static DimList dim_list(Builder *b, int n, const Dim *const *d) {
    DimList l = {ARENA_ARRAY(b->g->arena, const Dim *, n + 1), n};
    for (int i = 0; i < n; i++) l.data[i] = d[i];
    return l;
}

static const void *copy_bytes(Builder *b, const void *data, size_t n) {
    return n ? arena_copy(b->g->arena, data, n) : NULL;
}

static IntList int_list(Builder *b, int n, const int64_t *v) {
    return (IntList){copy_bytes(b, v, sizeof *v * (size_t)n), n};
}

static IntList sorted_axes(Builder *b, int n, const int64_t *axes) {
    int64_t *s = ARENA_ARRAY(b->g->arena, int64_t, n + 1);
    for (int i = 0; i < n; i++) {
        int k = i;
        for (; k > 0 && s[k - 1] > axes[i]; k--) s[k] = s[k - 1];
        s[k] = axes[i];
    }
    return (IntList){s, n};
}

// ---- constants ----

Value *g_const(Builder *b, DType t, int rank, const Dim *const *shape, Data data) {
    Node *n = graph_add_node(b, G_const, 0, NULL, 1);
    n->data = data;
    return finish(b, n, t, rank, shape);
}

Value *g_const_ints(Builder *b, DType t, int n, const int64_t *v) {
    int count = n < 0 ? 1 : n, size = dtype_bytes(t);
    char *bytes = arena_alloc(b->g->arena, (size_t)size * (size_t)count + 1);
    for (int i = 0; i < count; i++) scalar_write(scalar_int(t, v[i]), bytes + (size_t)i * (size_t)size);
    const Dim *shape[1] = {dim_int(b->g->dims, count)};
    return g_const(b, t, n < 0 ? 0 : 1, shape, (Data){bytes, (size_t)size * (size_t)count});
}

Value *g_const_float(Builder *b, DType t, double v) {
    size_t size = (size_t)dtype_bytes(t);
    void *bytes = arena_alloc(b->g->arena, size);
    scalar_write(scalar_float(t, v), bytes);
    return g_const(b, t, 0, NULL, (Data){bytes, size});
}

Value *g_dims(Builder *b, int n, const Dim *const *d) {
    Node *node = graph_add_node(b, G_dims, 0, NULL, 1);
    node->dims = dim_list(b, n < 0 ? 1 : n, d);
    const Dim *shape[1] = {dim_int(b->g->dims, n)};
    return finish(b, node, DT_i64, n < 0 ? 0 : 1, shape);
}

// ---- broadcasting ----

static const Dim *distance(DimTable *t, const Dim *a, const Dim *b) {
    return dim_max(t, dim_sub(t, a, b), dim_sub(t, b, a));
}

// guard >= 0 exactly when a == b, or a == 1 (if one_a), or b == 1 (if one_b).
static const Dim *agree_guard(DimTable *t, const Dim *a, bool one_a, const Dim *b, bool one_b) {
    const Dim *one = dim_int(t, 1), *e = distance(t, a, b);
    if (one_a) e = dim_min(t, e, distance(t, a, one));
    if (one_b) e = dim_min(t, e, distance(t, b, one));
    return dim_muli(t, e, -1);
}

const Dim *graph_broadcast_extent(Builder *b, const Dim *x, const Dim *y) {
    DimTable *t = b->g->dims;
    const Dim *one = dim_int(t, 1);
    if (dim_eq(t, x, y) == YES || dim_is(y, 1)) return x;
    if (dim_is(x, 1)) return y;
    bool one_x = dim_eq(t, x, one) != NO, one_y = dim_eq(t, y, one) != NO;
    const Dim *guard = agree_guard(t, x, one_x, y, one_y);
    if (dim_ge0(t, guard) == NO && (b->notes_faults || dim_is_int(guard, NULL))) {
        graph_build_fault(b, "extents %s and %s do not broadcast", dim_text(t, x), dim_text(t, y));
        return x;
    }
    g_check(b, NULL, 1, &guard, CODE_SHAPE);
    if (!one_x) return x;
    if (!one_y) return y;
    // Neither is known to differ from 1: the larger one, except that an empty axis stays empty.
    const Dim *empty = dim_min(t, dim_min(t, x, y), one);
    return dim_mul(t, dim_max(t, x, y), dim_max(t, empty, dim_int(t, 0)));
}

// v must broadcast to a shape that stands already.
static void expect_broadcast(Builder *b, const Value *v, int rank, const Dim *const *shape) {
    DimTable *t = b->g->dims;
    int skip = rank - v->rank;
    if (!b->notes_faults) return;
    if (skip < 0) graph_build_fault(b, "an operand of rank %d does not broadcast to rank %d", v->rank, rank);
    for (int i = 0; i < v->rank && skip >= 0; i++) {
        if (dim_is(v->shape[i], 1) || dim_eq(t, v->shape[i], shape[skip + i]) != NO) continue;
        graph_build_fault(b, "extent %s does not broadcast to %s", dim_text(t, v->shape[i]), dim_text(t, shape[skip + i]));
    }
}

static void note_body_fault(void *ctx, const Expr *e) {
    Builder *b = ctx;
    const char *wrong = expr_check(b->g->arena, e);
    if (wrong) graph_build_fault(b, "%s", wrong);
}

Value *g_map_shape(Builder *b, int n, Value *const *in, const Expr *body, int rank, const Dim *const *shape) {
    Node *node = graph_add_node(b, G_map, n, in, 1);
    node->body = body;
    for (int i = 0; i < n; i++) expect_broadcast(b, in[i], rank, shape);
    if (b->notes_faults) expr_visit(body, note_body_fault, b);
    return finish(b, node, body->type.type, rank, shape);
}

Value *g_map(Builder *b, int n, Value *const *in, const Expr *body) {
    const Dim *shape[GRAPH_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < n; i++) rank = in[i]->rank > rank ? in[i]->rank : rank;
    for (int axis = 0; axis < rank; axis++) {
        const Dim *e = dim_int(b->g->dims, 1);
        for (int i = 0; i < n; i++) {
            int k = axis - (rank - in[i]->rank);
            if (k >= 0) e = graph_broadcast_extent(b, e, in[i]->shape[k]);
        }
        shape[axis] = e;
    }
    return g_map_shape(b, n, in, body, rank, shape);
}

Value *g_map1(Builder *b, XOp op, Value *x) {
    Arena *a = b->g->arena;
    return g_map(b, 1, &x, x_op1(a, op, x_arg(a, 0, x->type)));
}

Value *g_map2(Builder *b, XOp op, Value *x, Value *y) {
    Arena *a = b->g->arena;
    Value *in[2] = {x, same_type(b, x->type, y, x)};
    return g_map(b, 2, in, x_op2(a, op, x_arg(a, 0, x->type), x_arg(a, 1, x->type)));
}

Value *g_cast(Builder *b, DType t, Value *x) {
    if (x->type == t) return x;
    Arena *a = b->g->arena;
    return g_map(b, 1, &x, x_cast(a, t, x_arg(a, 0, x->type)));
}

// ---- views, placement, indices ----

Value *g_view(
    Builder *b, Value *x, int rank, const Dim *const *shape, const Dim *const *index, int nguard, const Dim *const *guard, Scalar fill) {
    Node *n = graph_add_node(b, G_view, 1, &x, 1);
    n->index = dim_list(b, x->rank, index);
    n->guard = dim_list(b, nguard, guard);
    n->fill = fill;
    return finish(b, n, x->type, rank, shape);
}

static bool same_shape(Builder *b, const Value *x, int rank, const Dim *const *shape) {
    if (x->rank != rank) return false;
    for (int i = 0; i < rank; i++)
        if (dim_eq(b->g->dims, x->shape[i], shape[i]) != YES) return false;
    return true;
}

static void check_equal(Builder *b, const Dim *x, const Dim *y) {
    DimTable *t = b->g->dims;
    Tri same = dim_eq(t, x, y);
    if (same == NO) graph_build_fault(b, "extents %s and %s, which must be equal", dim_text(t, x), dim_text(t, y));
    if (same != UNKNOWN) return;
    const Dim *guard[2] = {dim_sub(t, x, y), dim_sub(t, y, x)};
    g_check(b, NULL, 2, guard, CODE_SHAPE);
}

Value *g_reshape(Builder *b, Value *x, int rank, const Dim *const *shape) {
    if (same_shape(b, x, rank, shape)) return x;
    check_equal(b, value_size(b->g, x), dim_product(b->g->dims, shape, rank));
    Node *n = graph_add_node(b, G_reshape, 1, &x, 1);
    return finish(b, n, x->type, rank, shape);
}

Value *g_concat(Builder *b, int n, Value *const *in, int axis) {
    assert(n > 0 && axis >= 0 && axis < in[0]->rank);
    if (n == 1) return in[0];
    const Dim *shape[GRAPH_MAX_RANK];
    int rank = in[0]->rank;
    Value **same = ARENA_ARRAY(b->g->arena, Value *, n);
    for (int i = 0; i < rank; i++) shape[i] = in[0]->shape[i];
    for (int k = 0; k < n; k++) same[k] = same_type(b, in[0]->type, in[k], in[0]);
    for (int k = 1; k < n; k++) {
        assert(in[k]->rank == rank);
        for (int i = 0; i < rank; i++) {
            if (i == axis)
                shape[i] = dim_add(b->g->dims, shape[i], in[k]->shape[i]);
            else
                check_equal(b, shape[i], in[k]->shape[i]);
        }
    }
    Node *node = graph_add_node(b, G_concat, n, same, 1);
    node->axis = axis;
    return finish(b, node, in[0]->type, rank, shape);
}

static Node *indexed(Builder *b, GOp op, int nlead, Value *const *lead, int nidx, Value *const *idx, const Dim *const *v) {
    Value **in = ARENA_ARRAY(b->g->arena, Value *, nlead + nidx);
    for (int i = 0; i < nlead; i++) in[i] = lead[i];
    for (int i = 0; i < nidx; i++) {
        assert(dtype_is_int(idx[i]->type));
        in[nlead + i] = idx[i];
    }
    Node *n = graph_add_node(b, op, nlead + nidx, in, 1);
    DimList syms = dim_list(b, nidx, v);
    n->vsyms = syms.data;
    n->nvsyms = nidx;
    return n;
}

Value *g_gather(Builder *b, Value *x, int nidx, Value *const *idx, const Dim *const *v, int rank, const Dim *const *shape,
    const Dim *const *index, int nguard, const Dim *const *guard, Scalar fill) {
    Node *n = indexed(b, G_gather, 1, &x, nidx, idx, v);
    for (int i = 0; i < nidx; i++) expect_broadcast(b, idx[i], rank, shape);
    n->index = dim_list(b, x->rank, index);
    n->guard = dim_list(b, nguard, guard);
    n->fill = fill;
    return finish(b, n, x->type, rank, shape);
}

Value *g_scatter(Builder *b, Value *x, Value *updates, int nidx, Value *const *idx, const Dim *const *v, const Dim *const *index,
    int nguard, const Dim *const *guard, const char *kind) {
    Value *lead[2] = {x, same_type(b, x->type, updates, updates)};
    Node *n = indexed(b, G_scatter, 2, lead, nidx, idx, v);
    for (int i = 0; i < nidx; i++) expect_broadcast(b, idx[i], updates->rank, (const Dim *const *)updates->shape);
    n->index = dim_list(b, x->rank, index);
    n->guard = dim_list(b, nguard, guard);
    n->kind = kind;
    return finish(b, n, x->type, x->rank, (const Dim *const *)x->shape);
}

// ---- reductions, contraction, rows ----

typedef struct {
    const char *kind;
    DType type;
    bool one_axis;
} ReduceKind; // type none: the input's
static const ReduceKind reduce_kinds[] = {
    {"sum", DT_none, false},
    {"prod", DT_none, false},
    {"min", DT_none, false},
    {"max", DT_none, false},
    {"any", DT_bool, false},
    {"all", DT_bool, false},
    {"argmin", DT_i64, true},
    {"argmax", DT_i64, true},
    {"argmin_last", DT_i64, true},
    {"argmax_last", DT_i64, true},
};

static const ReduceKind *reduce_kind(const char *kind) {
    for (size_t i = 0; i < sizeof reduce_kinds / sizeof *reduce_kinds; i++)
        if (!strcmp(reduce_kinds[i].kind, kind)) return &reduce_kinds[i];
    return NULL;
}

Value *g_reduce(Builder *b, const char *kind, Value *x, int naxes, const int64_t *axes, bool keep) {
    const ReduceKind *k = reduce_kind(kind);
    assert(k && (!k->one_axis || naxes == 1) && (k->type != DT_bool || x->type == DT_bool));
    if (naxes == 0) return x;
    Node *n = graph_add_node(b, G_reduce, 1, &x, 1);
    n->kind = k->kind;
    n->axes = sorted_axes(b, naxes, axes);
    n->keep = keep;
    const Dim *shape[GRAPH_MAX_RANK];
    int rank = 0, next = 0;
    for (int i = 0; i < x->rank; i++) {
        bool reduced = next < naxes && n->axes.data[next] == i;
        next += reduced;
        if (!reduced)
            shape[rank++] = x->shape[i];
        else if (keep)
            shape[rank++] = dim_int(b->g->dims, 1);
    }
    assert(next == naxes);
    return finish(b, n, k->type == DT_none ? x->type : k->type, rank, shape);
}

Value *g_scan(Builder *b, const char *kind, Value *x, int axis, bool exclusive, bool reverse) {
    assert(axis >= 0 && axis < x->rank);
    Node *n = graph_add_node(b, G_scan, 1, &x, 1);
    n->kind = kind;
    n->axis = axis;
    n->exclusive = exclusive;
    n->reverse = reverse;
    return finish(b, n, x->type, x->rank, (const Dim *const *)x->shape);
}

// Reads one operand's letters from *s, notes their extents.
static void contract_operand(Builder *b, const char **s, const Value *x, const Dim *extent[128]) {
    int i = 0;
    for (; **s && **s != ',' && **s != '-'; ++*s, i++) {
        assert(i < x->rank);
        const Dim **e = &extent[(unsigned char)**s & 127];
        if (*e)
            check_equal(b, *e, x->shape[i]);
        else
            *e = x->shape[i];
    }
    assert(i == x->rank);
}

Value *g_contract(Builder *b, const char *subs, Value *x, Value *y, DType out) {
    const Dim *extent[128] = {0}, *shape[GRAPH_MAX_RANK];
    const char *s = subs;
    contract_operand(b, &s, x, extent);
    assert(*s == ',');
    s++;
    contract_operand(b, &s, y, extent);
    assert(s[0] == '-' && s[1] == '>');
    int rank = 0;
    for (s += 2; *s; s++) {
        shape[rank] = extent[(unsigned char)*s & 127];
        assert(shape[rank]);
        rank++;
    }
    Value *in[2] = {x, y};
    Node *n = graph_add_node(b, G_contract, 2, in, 1);
    n->subs = arena_strdup(b->g->arena, subs);
    return finish(b, n, out, rank, shape);
}

static Node *rowwise(Builder *b, GOp op, const char *kind, Value *x, int naxes, const int64_t *axes) {
    if (!dtype_is_float(x->type)) graph_build_fault(b, "input has type %s, a float type is needed", dtype_name(x->type));
    Node *n = graph_add_node(b, op, 1, &x, 1);
    n->kind = kind;
    n->axes = sorted_axes(b, naxes, axes);
    return n;
}

Value *g_softmax(Builder *b, const char *kind, Value *x, int naxes, const int64_t *axes) {
    Node *n = rowwise(b, G_softmax, kind, x, naxes, axes);
    return finish(b, n, x->type, x->rank, (const Dim *const *)x->shape);
}

Value *g_norm(Builder *b, const char *kind, Value *x, int naxes, const int64_t *axes, double eps) {
    Node *n = rowwise(b, G_norm, kind, x, naxes, axes);
    n->eps = eps;
    return finish(b, n, x->type, x->rank, (const Dim *const *)x->shape);
}

Value *g_attention(Builder *b, int nin, Value *const *in, const Expr *score, const Expr *prob, double scale) {
    const Value *q = in[0], *k = in[1], *v = in[2];
    assert(nin >= 3 && q->rank == 4 && k->rank == 4 && v->rank == 4 && q->type == k->type && q->type == v->type);
    for (int i = 0; i < 2; i++) {
        check_equal(b, q->shape[i], k->shape[i]);
        check_equal(b, q->shape[i], v->shape[i]);
    }
    check_equal(b, q->shape[3], k->shape[3]);
    check_equal(b, k->shape[2], v->shape[2]);
    const Dim *scores[] = {q->shape[0], q->shape[1], q->shape[2], k->shape[2]};
    for (int i = 3; i < nin; i++) expect_broadcast(b, in[i], 4, scores);
    Node *n = graph_add_node(b, G_attention, nin, in, 1);
    n->score = score;
    n->prob = prob ? prob : x_arg(b->g->arena, 0, score->type.type);
    n->scale = scale;
    const Dim *shape[4] = {q->shape[0], q->shape[1], q->shape[2], v->shape[3]};
    return finish(b, n, q->type, 4, shape);
}

Value *g_random(Builder *b, const char *kind, Value *p, DType t, int rank, const Dim *const *shape, F64List params) {
    Node *n = graph_add_node(b, G_random, p ? 1 : 0, &p, 1);
    n->kind = kind;
    n->params = (F64List){copy_bytes(b, params.data, sizeof(double) * (size_t)params.n), params.n};
    return finish(b, n, t, rank, shape);
}

Node *g_template(Builder *b, const char *kind, int nin, Value *const *in, int nout, const DType *types, const int *ranks,
    const Dim *const *const *shapes, int64_t axis, F64List params, DimList defines, IntList flags) {
    Node *n = graph_add_node(b, G_template, nin, in, nout);
    n->kind = kind;
    n->axis = axis;
    n->params = (F64List){copy_bytes(b, params.data, sizeof(double) * (size_t)params.n), params.n};
    n->dims = dim_list(b, defines.n, (const Dim *const *)defines.data);
    n->flags = int_list(b, flags.n, flags.data);
    for (int i = 0; i < nout; i++) graph_value_type(b->g, n->out[i], types[i], ranks[i], shapes[i]);
    if (!b->fault) graph_infer_content(b->g, n);
    return n;
}

const Dim *g_size(Builder *b, Value *v, int k, const char *name, const Dim *lo, const Dim *hi) {
    assert(dtype_is_int(v->type) && v->rank <= 1);
    if (v->content && k < v->ncontent) return v->content[k];
    const Dim *s = graph_symbol(b->g, name, SYM_DATA, lo, hi);
    int64_t element = k;
    g_template(b, "size", 1, &v, 0, NULL, NULL, NULL, 0, (F64List){0}, (DimList){&s, 1}, (IntList){&element, 1});
    return s;
}
