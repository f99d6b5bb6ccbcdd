// The evaluator's constants, maps, views and indexed operations.
#include "graph_eval.h"
#include "strip.h"

#include <string.h>

bool eval_const(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    (void)in;
    int64_t shape[GRAPH_MAX_RANK];
    const Value *v = n->out[0];
    for (int i = 0; i < v->rank; i++)
        if (!eval_extent(e, n, v->shape[i], &shape[i])) return false;
    uintptr_t at = (uintptr_t)n->data.bytes; // read only, by every operation's contract
    strided_set(out, v->type, v->rank, shape, (void *)at);
    size_t align = (size_t)dtype_bytes(v->type) < 8 ? (size_t)dtype_bytes(v->type) : 8;
    if (at % align == 0) return true;
    // Elements of a model file may lie anywhere.
    if (!eval_alloc(e, n, v->type, v->rank, shape, out)) return false;
    memcpy(out->data, n->data.bytes, n->data.size);
    return true;
}

bool eval_dims(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    (void)in;
    if (!eval_output(e, n, n->out[0], out)) return false;
    for (int i = 0; i < n->dims.n; i++)
        if (!eval_extent(e, n, n->dims.data[i], (int64_t *)(void *)out->data + i)) return false;
    return true;
}

// ---- map ----

enum { MAP_STRIP = 1024, MAX_DIVISORS = 16 };

typedef struct {
    const Strided *const *in;
    int nin;
    Walk walk;
    int64_t (*stride)[GRAPH_MAX_RANK]; // of input k in the walk's axes
    IndexStrip index;
    int64_t first;
    bool has_dims;
} MapRun;

// The integer division nodes' divisors that are not constants other than zero: they are looked at too.
typedef struct {
    const Expr *data[MAX_DIVISORS];
    int n;
} Divisors;

static void find_divisor(void *ctx, const Expr *e) {
    Divisors *d = ctx;
    bool divides = e->op == X_div || e->op == X_rem || e->op == X_floordiv || e->op == X_floormod;
    if (!divides || dtype_is_float(e->type.type) || d->n == MAX_DIVISORS) return;
    if (e->a[1]->op == X_const && scalar_as_f64(e->a[1]->k_scalar) != 0) return;
    d->data[d->n++] = e->a[1];
}

static void find_dim(void *ctx, const Expr *e) {
    MapRun *m = ctx;
    if (e->op != X_dim) return;
    m->has_dims = true;
    index_use(&m->index, e->dim);
}

static void map_leaf(void *ctx, const Expr *e, int n, void *dst) {
    MapRun *m = ctx;
    if (e->op == X_arg) {
        const Strided *x = m->in[e->k];
        walk_fill(&m->walk, m->stride[e->k], dtype_bytes(x->type), x->data, m->first, n, dst);
        return;
    }
    for (int i = 0; i < n; i += EVAL_STRIP) {
        index_move(&m->index, m->first + i, n - i < EVAL_STRIP ? n - i : EVAL_STRIP);
        index_value(&m->index, e->dim, (int64_t *)dst + i);
    }
}

// Joins neighbouring axes that every input steps through evenly.
static void collapse(MapRun *m) {
    int rank = 0;
    for (int i = 0; i < m->walk.rank; i++) {
        if (m->walk.shape[i] == 1) continue;
        bool join = rank > 0;
        for (int k = 0; k < m->nin && join; k++) join = m->stride[k][rank - 1] == m->stride[k][i] * m->walk.shape[i];
        if (join)
            m->walk.shape[rank - 1] *= m->walk.shape[i];
        else
            m->walk.shape[rank++] = m->walk.shape[i];
        for (int k = 0; k < m->nin; k++) m->stride[k][rank - 1] = m->stride[k][i];
    }
    m->walk.rank = rank;
}

static bool has_zero(DType t, const void *v, int n) {
    int size = dtype_bytes(t);
    static const char zero[8];
    for (int i = 0; i < n; i++)
        if (!memcmp((const char *)v + (size_t)i * (size_t)size, zero, (size_t)size)) return true;
    return false;
}

static bool map_run(Eval *e, const Node *n, MapRun *m, Strided *out) {
    Divisors div = {.n = 0};
    expr_visit(n->body, find_divisor, &div);
    const Expr *roots[MAX_DIVISORS + 1] = {n->body};
    for (int i = 0; i < div.n; i++) roots[i + 1] = div.data[i];
    StripCode *code = strip_prepare(eval_scratch(e), roots, div.n + 1, MAP_STRIP);
    int64_t count = strided_count(out), size = dtype_bytes(out->type);
    for (m->first = 0; m->first < count; m->first += MAP_STRIP) {
        int k = count - m->first < MAP_STRIP ? (int)(count - m->first) : MAP_STRIP;
        strip_run(code, k, map_leaf, m);
        for (int i = 0; i < div.n; i++)
            if (has_zero(div.data[i]->type.type, strip_result(code, i + 1), k))
                return eval_fail(e, n, CODE_DIVISION, "integer division by zero");
        memcpy(out->data + m->first * size, strip_result(code, 0), (size_t)k * (size_t)size);
    }
    return m->index.ok || eval_fail(e, n, CODE_SHAPE, "a dimension in the body is not known");
}

bool eval_map(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    if (!eval_output(e, n, n->out[0], out)) return false;
    MapRun m = {.in = in, .nin = n->nin};
    m.stride = arena_alloc(eval_scratch(e), sizeof *m.stride * (size_t)(n->nin + 1));
    m.walk.rank = out->rank;
    memcpy(m.walk.shape, out->shape, sizeof m.walk.shape);
    for (int k = 0; k < n->nin; k++) {
        if (!walk_broadcast(in[k], out->rank, out->shape, m.stride[k]))
            return eval_fail(e, n, CODE_SHAPE, "input %d does not broadcast to the output", k);
    }
    if (strided_count(out) == 0) return true;
    index_begin(&m.index, e, n, out->rank, out->shape);
    expr_visit(n->body, find_dim, &m);
    if (!m.has_dims) collapse(&m);
    return map_run(e, n, &m, out);
}

// ---- views ----

// Fills a dense tensor with one element's bytes.
static void fill_all(Strided *x, const char *element) {
    strided_run(dtype_bytes(x->type), x->data, element, 0, strided_count(x));
}

static void fill_element(const Node *n, DType t, char *element) {
    memset(element, 0, 16);
    if (t == DT_str)
        memcpy(element, &(StringElement){"", 0}, sizeof(StringElement));
    else if (n->fill.type == t)
        scalar_write(n->fill, element);
}

typedef struct {
    Affine index[GRAPH_MAX_RANK];
    int64_t lo[GRAPH_MAX_RANK], hi[GRAPH_MAX_RANK];      // where the indices go
    int64_t from[GRAPH_MAX_RANK], until[GRAPH_MAX_RANK]; // where the guards let them read
    bool always, never;                                  // all guards hold, or one never holds
} ViewPlan;

// A guard that is +index_k + c or -index_k + c narrows what axis k may read; another one that may fail has no place in a plan.
static bool plan_guard(ViewPlan *p, const Affine *g, int rank, const int64_t *shape, int nindex) {
    int64_t lo, hi;
    affine_range(g, rank, shape, &lo, &hi);
    if (lo >= 0) return true;
    if (hi < 0) return p->never = true;
    p->always = false;
    for (int k = 0; k < nindex; k++) {
        bool same = true, opposite = true;
        for (int i = 0; i < rank; i++) {
            same = same && g->c[i] == p->index[k].c[i];
            opposite = opposite && g->c[i] == -p->index[k].c[i];
        }
        int64_t from = p->index[k].c0 - g->c0, until = p->index[k].c0 + g->c0;
        if (same && p->from[k] < from) p->from[k] = from;
        if (opposite && p->until[k] > until) p->until[k] = until;
        if (same || opposite) return true;
    }
    return false;
}

static bool plan_view(Eval *e, const Node *n, const Strided *x, const Strided *out, ViewPlan *p) {
    p->always = true;
    p->never = false;
    for (int k = 0; k < x->rank; k++) {
        if (!eval_affine(e, n->index.data[k], out->rank, out->shape, &p->index[k])) return false;
        affine_range(&p->index[k], out->rank, out->shape, &p->lo[k], &p->hi[k]);
        p->from[k] = INT64_MIN;
        p->until[k] = INT64_MAX;
    }
    for (int i = 0; i < n->guard.n; i++) {
        Affine g;
        if (!eval_affine(e, n->guard.data[i], out->rank, out->shape, &g) || !plan_guard(p, &g, out->rank, out->shape, x->rank))
            return false;
    }
    for (int k = 0; k < x->rank && p->always; k++)
        if (p->lo[k] < 0 || p->hi[k] >= x->shape[k]) return false; // the general way reports it
    return true;
}

// out as strides over x, which stands at index `base` of each axis.
static void place_view(const ViewPlan *p, const Strided *x, const int64_t *base, Strided *out) {
    Strided v = *out;
    v.buffer = x->buffer;
    v.data = x->data;
    memset(v.stride, 0, sizeof v.stride);
    for (int k = 0; k < x->rank; k++) {
        v.data += (p->index[k].c0 - base[k]) * x->stride[k] * dtype_bytes(x->type);
        for (int i = 0; i < out->rank; i++) v.stride[i] += p->index[k].c[i] * x->stride[k];
    }
    *out = v;
}

static int64_t read_from(const ViewPlan *p, int k) {
    return p->lo[k] > p->from[k] ? p->lo[k] : p->from[k];
}
static int64_t read_until(const ViewPlan *p, int k) {
    return p->hi[k] < p->until[k] ? p->hi[k] : p->until[k];
}

// x and fill around it over the range of the indices, so that the view is strides again; false (without fault) when that is larger than the
// output.
static bool view_of_padded(Eval *e, const Node *n, const Strided *x, const ViewPlan *p, Strided *out) {
    int64_t extent[GRAPH_MAX_RANK], size = 1;
    for (int k = 0; k < x->rank; k++) {
        extent[k] = p->hi[k] - p->lo[k] + 1;
        if (__builtin_mul_overflow(size, extent[k], &size)) return false;
        if (read_from(p, k) < 0 || read_until(p, k) >= x->shape[k]) return false; // the guards are not this axis's bounds
    }
    if (size > strided_count(out)) return false;
    Strided padded, inner, from = *x;
    char element[16];
    fill_element(n, x->type, element);
    if (!eval_alloc(e, n, x->type, x->rank, extent, &padded)) return false;
    fill_all(&padded, element);
    inner = padded;
    bool empty = false;
    for (int k = 0; k < x->rank; k++) {
        int64_t lo = read_from(p, k), hi = read_until(p, k);
        empty = empty || hi < lo;
        from.data += lo * x->stride[k] * dtype_bytes(x->type);
        inner.data += (lo - p->lo[k]) * padded.stride[k] * dtype_bytes(x->type);
        inner.shape[k] = from.shape[k] = hi - lo + 1;
    }
    if (!empty) {
        Walk w = {.rank = x->rank};
        memcpy(w.shape, inner.shape, sizeof w.shape);
        int64_t rows = 1, last = x->rank ? inner.shape[x->rank - 1] : 1;
        for (int k = 0; k + 1 < x->rank; k++) rows *= inner.shape[k];
        int64_t count, *to = strided_offsets(e, x->rank ? x->rank - 1 : 0, inner.shape, inner.stride, &count);
        int esize = dtype_bytes(x->type);
        for (int64_t r = 0; r < rows; r++) walk_fill(&w, from.stride, esize, from.data, r * last, (int)last, inner.data + to[r] * esize);
    }
    place_view(p, &padded, p->lo, out);
    return true;
}

// ---- the general way: index and guards element by element ----

typedef struct {
    IndexStrip s;
    const Strided *x;
    const Node *n;
    int nidx;
    const Strided *const *idx;
    int64_t (*stride)[GRAPH_MAX_RANK]; // of the index inputs
    int64_t *v[GRAPH_MAX_RANK];
    int64_t offset[EVAL_STRIP]; // into x, in elements; -1 where a guard fails
} Indexed;

static bool indexed_begin(
    Eval *e, const Node *n, Indexed *k, const Strided *x, int nidx, const Strided *const *idx, int rank, const int64_t *shape) {
    index_begin(&k->s, e, n, rank, shape);
    k->x = x;
    k->n = n;
    k->nidx = nidx;
    k->idx = idx;
    if (nidx > GRAPH_MAX_RANK) return eval_fail(e, n, CODE_ASSERT, "more than %d indices", GRAPH_MAX_RANK);
    k->stride = arena_alloc(eval_scratch(e), sizeof *k->stride * (size_t)(nidx + 1));
    for (int i = 0; i < nidx; i++) {
        if (!walk_broadcast(idx[i], rank, shape, k->stride[i])) return eval_fail(e, n, CODE_SHAPE, "index %d does not broadcast", i);
        k->v[i] = ARENA_ARRAY(eval_scratch(e), int64_t, EVAL_STRIP);
    }
    k->s.nv = nidx;
    k->s.vsyms = (const Dim *const *)n->vsyms;
    k->s.v = k->v;
    for (int i = 0; i < n->index.n; i++) index_use(&k->s, n->index.data[i]);
    for (int i = 0; i < n->guard.n; i++) index_use(&k->s, n->guard.data[i]);
    return true;
}

static bool indexed_strip(Eval *e, Indexed *k, int64_t first, int count) {
    const Node *n = k->n;
    int64_t value[EVAL_STRIP];
    bool on[EVAL_STRIP];
    index_move(&k->s, first, count);
    for (int i = 0; i < k->nidx; i++) {
        char raw[EVAL_STRIP * 8];
        walk_fill(&k->s.walk, k->stride[i], dtype_bytes(k->idx[i]->type), k->idx[i]->data, first, count, raw);
        strided_read_i64(k->idx[i]->type, raw, 1, count, k->v[i]);
    }
    memset(on, 1, sizeof on);
    for (int i = 0; i < n->guard.n; i++) {
        index_value(&k->s, n->guard.data[i], value);
        for (int j = 0; j < count; j++) on[j] = on[j] && value[j] >= 0;
    }
    memset(k->offset, 0, sizeof k->offset);
    for (int i = 0; i < n->index.n; i++) {
        index_value(&k->s, n->index.data[i], value);
        for (int j = 0; j < count; j++) {
            if (!on[j]) continue;
            if (value[j] < 0 || value[j] >= k->x->shape[i])
                return eval_fail(e, n, CODE_INDEX, "index %lld is outside of axis %d with extent %lld", (long long)value[j], i,
                    (long long)k->x->shape[i]);
            k->offset[j] += value[j] * k->x->stride[i];
        }
    }
    for (int j = 0; j < count; j++)
        if (!on[j]) k->offset[j] = INT64_MIN;
    return k->s.ok || eval_fail(e, n, CODE_SHAPE, "a dimension in an index is not known");
}

#define GATHER(T)                                                                                                                          \
    for (int j = 0; j < count; j++)                                                                                                        \
    ((T *)(void *)dst)[j] = k->offset[j] == INT64_MIN ? *(const T *)(const void *)element : ((const T *)(const void *)x)[k->offset[j]]

static void gather_strip(const Indexed *k, int count, int size, const char *element, char *dst) {
    const char *x = k->x->data;
    switch (size) {
    case 1: GATHER(uint8_t); break;
    case 2: GATHER(uint16_t); break;
    case 4: GATHER(uint32_t); break;
    case 8: GATHER(uint64_t); break;
    default: GATHER(StringElement); break; // any 16 bytes
    }
}

static bool gather_all(Eval *e, const Node *n, const Strided *x, int nidx, const Strided *const *idx, Strided *out) {
    Indexed k;
    if (!indexed_begin(e, n, &k, x, nidx, idx, out->rank, out->shape)) return false;
    _Alignas(16) char element[16];
    fill_element(n, x->type, element);
    int64_t count = strided_count(out);
    int size = dtype_bytes(x->type);
    for (int64_t i = 0; i < count; i += EVAL_STRIP) {
        int c = count - i < EVAL_STRIP ? (int)(count - i) : EVAL_STRIP;
        if (!indexed_strip(e, &k, i, c)) return false;
        gather_strip(&k, c, size, element, out->data + i * size);
    }
    return true;
}

bool eval_view(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    const Strided *x = in[0];
    const Value *v = n->out[0];
    ViewPlan plan;
    int64_t shape[GRAPH_MAX_RANK];
    for (int i = 0; i < v->rank; i++)
        if (!eval_extent(e, n, v->shape[i], &shape[i])) return false;
    for (int i = 0; i < v->rank; i++)
        if (shape[i] < 0) return eval_fail(e, n, CODE_SHAPE, "extent %lld of axis %d is negative", (long long)shape[i], i);
    strided_set(out, x->type, v->rank, shape, NULL);
    if (strided_count(out) > 0 && plan_view(e, n, x, out, &plan) && !plan.never) {
        static const int64_t origin[GRAPH_MAX_RANK];
        if (plan.always) {
            place_view(&plan, x, origin, out);
            if (out->buffer) *out = strided_share(out);
            return true;
        }
        if (view_of_padded(e, n, x, &plan, out)) return true;
    }
    return eval_output(e, n, v, out) && gather_all(e, n, x, 0, NULL, out);
}

bool eval_reshape(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    const Value *v = n->out[0];
    int64_t shape[GRAPH_MAX_RANK], count = 1;
    for (int i = 0; i < v->rank; i++) {
        if (!eval_extent(e, n, v->shape[i], &shape[i])) return false;
        if (shape[i] < 0 || __builtin_mul_overflow(count, shape[i], &count))
            return eval_fail(e, n, CODE_SHAPE, "extent %lld of axis %d", (long long)shape[i], i);
    }
    if (count != strided_count(in[0]))
        return eval_fail(e, n, CODE_SHAPE, "%lld elements cannot be reshaped to %lld", (long long)strided_count(in[0]), (long long)count);
    Strided dense;
    if (!strided_dense(e, n, in[0], &dense)) return false;
    strided_set(out, v->type, v->rank, shape, dense.data);
    out->buffer = dense.buffer;
    return true;
}

bool eval_concat(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    if (!eval_output(e, n, n->out[0], out)) return false;
    int64_t inner = 1, outer = 1, done = 0, size = dtype_bytes(out->type);
    int axis = (int)n->axis;
    for (int i = 0; i < out->rank; i++) {
        if (i < axis) outer *= out->shape[i];
        if (i > axis) inner *= out->shape[i];
    }
    for (int k = 0; k < n->nin; k++) {
        Strided x;
        bool fits = done + in[k]->shape[axis] <= out->shape[axis];
        for (int i = 0; i < out->rank; i++) fits = fits && (i == axis || in[k]->shape[i] == out->shape[i]);
        if (!fits) return eval_fail(e, n, CODE_SHAPE, "input %d does not fit the output", k);
        if (!strided_dense(e, n, in[k], &x)) return false;
        int64_t part = x.shape[axis] * inner * size, row = out->shape[axis] * inner * size;
        for (int64_t o = 0; o < outer && part; o++) memcpy(out->data + o * row + done * inner * size, x.data + o * part, (size_t)part);
        done += x.shape[axis];
        strided_release(e, &x);
    }
    return done == out->shape[axis] || eval_fail(e, n, CODE_SHAPE, "the inputs do not fill the output");
}

// ---- gather, scatter ----

bool eval_gather(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    return eval_output(e, n, n->out[0], out) && gather_all(e, n, in[0], n->nin - 1, in + 1, out);
}

static const struct {
    const char *kind;
    XOp op; // X_const: the new element replaces the old one
} combines[] = {{"set", X_const}, {"add", X_add}, {"mul", X_mul}, {"min", X_min}, {"max", X_max}};

static void scatter_strip(const Indexed *k, XOp op, DType t, int count, const char *updates) {
    int size = dtype_bytes(t);
    for (int j = 0; j < count; j++) {
        if (k->offset[j] == INT64_MIN) continue;
        char *at = k->x->data + k->offset[j] * size;
        const char *update = updates + (size_t)j * (size_t)size;
        if (op == X_const)
            memcpy(at, update, (size_t)size);
        else
            strip_op(op, t, t, 1, at, at, update, NULL);
    }
}

bool eval_scatter(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    const Strided *updates = in[1];
    if (!eval_alloc(e, n, in[0]->type, in[0]->rank, in[0]->shape, out)) return false;
    strided_copy(out->data, in[0]);
    XOp op = X_const;
    for (size_t i = 0; i < sizeof combines / sizeof *combines; i++)
        if (!strcmp(combines[i].kind, n->kind)) op = combines[i].op;
    Indexed k;
    if (!indexed_begin(e, n, &k, out, n->nin - 2, in + 2, updates->rank, updates->shape)) return false;
    int64_t count = strided_count(updates);
    for (int64_t i = 0; i < count; i += EVAL_STRIP) {
        int c = count - i < EVAL_STRIP ? (int)(count - i) : EVAL_STRIP;
        char strip[EVAL_STRIP * 16];
        walk_fill(&k.s.walk, updates->stride, dtype_bytes(updates->type), updates->data, i, c, strip);
        if (!indexed_strip(e, &k, i, c)) return false;
        scatter_strip(&k, op, out->type, c, strip);
    }
    return true;
}
