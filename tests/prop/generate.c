// Random graphs: a few inputs and constants, then operations on values that fit, built with the builders of graph.h. Extents come from a
// small palette (odd ones, 0 and the symbolic N among them), so that operands often fit each other.
#include "prop.h"

#include <math.h>
#include <string.h>

enum { MAX_ELEMENTS = 6000, N_MAX = 9 };

// ---- random numbers ----
uint32_t gen_bits(Gen *g) {
    g->rng = g->rng * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = g->rng;
    return (uint32_t)((x ^ (x >> 22)) >> (22 + (x >> 61)));
}

int gen_int(Gen *g, int lo, int hi) {
    return lo + (int)(gen_bits(g) % (uint32_t)(hi - lo + 1));
}

bool gen_chance(Gen *g, int percent) {
    return gen_int(g, 0, 99) < percent;
}

DType gen_type(Gen *g) {
    static const DType types[] = {DT_f32, DT_f32, DT_f32, DT_f32, DT_f32, DT_f64, DT_f16, DT_bf16, DT_i32, DT_i32, DT_i64, DT_i64, DT_i8,
        DT_u8, DT_i16, DT_u32, DT_u64, DT_bool};
    return types[gen_int(g, 0, (int)(sizeof types / sizeof *types) - 1)];
}

// Floats within ±4, sometimes special; integers small or anything.
static void fill(Gen *g, Tensor *t) {
    static const double special[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1.0, 1e-40, -0.5, 2.5};
    bool specials = gen_chance(g, 30);
    int64_t n = tensor_count(t);
    for (int64_t i = 0; i < n; i++) {
        Scalar s;
        if (t->type == DT_bool)
            s = scalar_int(DT_bool, gen_bits(g) & 1);
        else if (dtype_is_float(t->type))
            s = scalar_float(t->type, specials && gen_chance(g, 12) ? special[gen_int(g, 0, 8)] : (double)gen_int(g, -4000, 4000) / 1000.0);
        else
            s = scalar_int(t->type, gen_chance(g, 85) ? gen_int(g, -20, 20) : (int64_t)((uint64_t)gen_bits(g) << 32 | gen_bits(g)));
        scalar_write(s, (char *)t->data + i * dtype_bytes(t->type));
    }
}

// ---- the pool ----
static Item *add(Gen *g, Value *v, bool exact, bool tame, bool coarse) {
    bool narrow = v->type == DT_f16 || v->type == DT_bf16;
    bool whole = !dtype_is_float(v->type);
    Item i = {v, exact, tame || whole, coarse || (narrow && !exact)};
    vec_push(g->a, &g->pool, i);
    return &g->pool.data[g->pool.n - 1];
}

static Item *pick(Gen *g) {
    int n = g->pool.n; // later values more often
    int k = gen_chance(g, 60) ? gen_int(g, n > 5 ? n - 5 : 0, n - 1) : gen_int(g, 0, n - 1);
    return &g->pool.data[k];
}

static Value *like(Gen *g, const Item *from, Value *v) { // a value made by moving elements
    if (v == from->v) return v;
    Item i = *from;
    return add(g, v, i.exact, i.tame, i.coarse)->v;
}

static int64_t most(const Dim *d) {
    int64_t lo, hi;
    dim_interval(d, &lo, &hi);
    return hi;
}

static int64_t least(const Dim *d) {
    int64_t lo, hi;
    dim_interval(d, &lo, &hi);
    return lo;
}

static bool small(int rank, const Dim *const *shape, int64_t limit) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) {
        n *= most(shape[i]) > 0 ? most(shape[i]) : 1;
        if (n > limit) return false;
    }
    return true;
}

static const Dim *extent(Gen *g) {
    return g->extent[gen_int(g, 0, 3)];
}

static bool broadcasts(const Value *x, const Value *to) {
    if (x->rank > to->rank) return false;
    for (int i = 0; i < x->rank; i++) {
        const Dim *d = x->shape[i];
        if (d != to->shape[to->rank - x->rank + i] && !dim_is(d, 1)) return false;
    }
    return true;
}

// An item with floats small enough to be summed, as a clamped copy when it is not.
static Item tamed(Gen *g, Item i) {
    if (i.tame) return i;
    DType t = i.v->type;
    const Expr *x = x_op2(g->a, X_min, x_op2(g->a, X_max, x_arg(g->a, 0, t), x_float(g->a, t, -8)), x_float(g->a, t, 8));
    return *add(g, g_map(&g->b, 1, &i.v, x), i.exact, true, i.coarse);
}

// ---- operations: each adds to the pool, or does nothing when what was picked does not fit ----
static void do_map(Gen *g) {
    Item in[3] = {*pick(g)};
    Value *v[3] = {in[0].v};
    int n = 1, want = gen_int(g, 1, 3);
    for (int tries = 0; tries < 12 && n < want; tries++) {
        Item *i = pick(g);
        if (!broadcasts(i->v, v[0])) continue;
        in[n] = *i;
        v[n++] = i->v;
    }
    DType t = gen_chance(g, 50) ? v[0]->type : gen_type(g);
    bool exact, coarse = false;
    for (int i = 0; i < n; i++) coarse |= in[i].coarse;
    const Expr *body = gen_body(g, t, in, n, v[0], &exact);
    Value *out = g_map_shape(&g->b, n, v, body, v[0]->rank, v[0]->shape);
    add(g, out, exact || !dtype_is_float(t), false, coarse);
}

static void do_transpose(Gen *g) {
    Item i = *pick(g);
    int64_t perm[8];
    for (int k = 0; k < i.v->rank; k++) perm[k] = k;
    for (int k = i.v->rank - 1; k > 0; k--) {
        int j = gen_int(g, 0, k);
        int64_t was = perm[k];
        perm[k] = perm[j];
        perm[j] = was;
    }
    like(g, &i, g_transpose(&g->b, i.v, perm));
}

static void do_slice(Gen *g) {
    Item i = *pick(g);
    if (!i.v->rank) return;
    int axis = gen_int(g, 0, i.v->rank - 1);
    const Dim *d = i.v->shape[axis];
    int64_t n;
    if (!dim_is_int(d, &n)) {
        if (least(d) < 1) return;
        const Dim *one = dim_int(g->t, 1);
        bool flip = gen_chance(g, 50);
        like(g, &i, g_slice(&g->b, i.v, axis, flip ? dim_sub(g->t, d, one) : one, flip ? d : dim_sub(g->t, d, one), flip ? -1 : 1));
        return;
    }
    if (n == 0) return;
    int start = gen_int(g, 0, (int)n - 1), step = gen_int(g, 1, 3);
    bool back = gen_chance(g, 30);
    int room = back ? start / step + 1 : ((int)n - 1 - start) / step + 1;
    int len = gen_int(g, gen_chance(g, 5) ? 0 : 1, room);
    like(g, &i, g_slice(&g->b, i.v, axis, dim_int(g->t, start), dim_int(g->t, len), back ? -step : step));
}

static void do_pad(Gen *g) {
    Item i = *pick(g);
    const Dim *before[8], *after[8], *shape[8];
    if (!i.v->rank) return;
    for (int k = 0; k < i.v->rank; k++) {
        int least_pad = least(i.v->shape[k]) >= 3 ? -1 : 0;
        before[k] = dim_int(g->t, gen_int(g, least_pad, 2));
        after[k] = dim_int(g->t, gen_int(g, least_pad, 2));
        shape[k] = dim_addi(g->t, i.v->shape[k], 4);
    }
    if (!small(i.v->rank, shape, MAX_ELEMENTS)) return;
    Scalar value = scalar_float(i.v->type, gen_int(g, -1, 2));
    like(g, &i, g_pad(&g->b, i.v, before, after, value));
}

static void do_expand(Gen *g) {
    Item i = *pick(g);
    const Dim *shape[8];
    int lead = i.v->rank < 4 ? gen_int(g, 0, 1) : 0;
    for (int k = 0; k < lead; k++) shape[k] = extent(g);
    for (int k = 0; k < i.v->rank; k++) shape[lead + k] = dim_is(i.v->shape[k], 1) ? extent(g) : i.v->shape[k];
    if (small(lead + i.v->rank, shape, MAX_ELEMENTS)) like(g, &i, g_expand(&g->b, i.v, lead + i.v->rank, shape));
}

static void do_reshape(Gen *g) {
    Item i = *pick(g);
    const Dim *shape[8];
    int rank = i.v->rank, at = rank > 1 ? gen_int(g, 0, rank - 2) : 0, n = 0;
    int how = gen_int(g, 0, 2);
    if (how == 0) { // flat
        shape[n++] = dim_product(g->t, i.v->shape, rank);
    } else if (how == 1 && rank > 1) { // two axes become one
        for (int k = 0; k < rank; k++) {
            shape[n++] = k == at ? dim_mul(g->t, i.v->shape[k], i.v->shape[k + 1]) : i.v->shape[k];
            k += k == at;
        }
    } else if (rank && rank < 4) { // one becomes two
        int64_t e, f = gen_int(g, 2, 3);
        if (!dim_is_int(i.v->shape[at], &e) || e % f) return;
        for (int k = 0; k < rank; k++) {
            if (k == at) shape[n++] = dim_int(g->t, f);
            shape[n++] = k == at ? dim_int(g->t, e / f) : i.v->shape[k];
        }
    } else
        return;
    like(g, &i, g_reshape(&g->b, i.v, n, shape));
}

static void do_axes(Gen *g) { // an axis of 1 comes or goes
    Item i = *pick(g);
    int axis = gen_int(g, 0, i.v->rank);
    if (axis < i.v->rank && dim_is(i.v->shape[axis], 1))
        like(g, &i, g_squeeze(&g->b, i.v, axis));
    else if (i.v->rank < 4)
        like(g, &i, g_unsqueeze(&g->b, i.v, axis));
}

static void do_windows(Gen *g) {
    Item i = *pick(g);
    int64_t n;
    if (i.v->rank == 0 || i.v->rank > 3 || !dim_is_int(i.v->shape[i.v->rank - 1], &n) || n < 3) return;
    int64_t stride = gen_int(g, 1, 2), dilation = gen_int(g, 1, 2), pad = gen_int(g, 0, 1);
    int64_t out = (n + 2 * pad - dilation * 1 - 1) / stride + 1;
    if (out < 1) return;
    const Dim *o = dim_int(g->t, out), *k = dim_int(g->t, 2), *p = dim_int(g->t, pad);
    like(g, &i, g_windows(&g->b, i.v, 1, &o, &k, &stride, &dilation, &p, scalar_float(i.v->type, 0)));
}

static void do_concat(Gen *g) {
    Item i = *pick(g);
    if (!i.v->rank) return;
    int axis = gen_int(g, 0, i.v->rank - 1), n = 1, want = gen_int(g, 2, 3);
    Value *in[3] = {i.v};
    for (int tries = 0; tries < 12 && n < want; tries++) {
        Item *other = pick(g);
        bool fits = other->v->type == i.v->type && other->v->rank == i.v->rank;
        for (int k = 0; fits && k < i.v->rank; k++) fits = k == axis || other->v->shape[k] == i.v->shape[k];
        if (!fits) continue;
        in[n++] = other->v;
        i.exact &= other->exact;
        i.tame &= other->tame;
        i.coarse |= other->coarse;
    }
    if (n == 1) in[n++] = i.v;
    Value *out = g_concat(&g->b, n, in, axis);
    if (small(out->rank, (const Dim *const *)out->shape, MAX_ELEMENTS)) like(g, &i, out);
}

// Indices 0..extent-1 as a value of rank 1, from one of the pool's values; NULL when there is none.
static Value *indices(Gen *g, const Dim *d) {
    if (least(d) < 1) return NULL;
    for (int tries = 0; tries < 10; tries++) {
        Item *i = pick(g);
        if (i->v->rank != 1 || i->v->type == DT_bool || (dtype_is_float(i->v->type) && !i->exact)) continue;
        DType t = gen_chance(g, 50) ? DT_i64 : DT_i32;
        const Expr *x = x_cast(g->a, t, x_arg(g->a, 0, i->v->type));
        x = x_op2(g->a, X_floormod, x, x_cast(g->a, t, x_dim(g->a, d)));
        return add(g, g_map(&g->b, 1, &i->v, x), true, true, false)->v;
    }
    return NULL;
}

// v0 along axis 0 of x, the further axes as they are. The indices stand as [k, 1, …, 1].
static int index_axes(Gen *g, Value *idx, const Value *x, const Dim **v, const Dim **shape, const Dim **index, Value **column) {
    const Dim *wide[8];
    for (int k = 0; k < x->rank; k++) {
        wide[k] = k ? dim_int(g->t, 1) : idx->shape[0];
        shape[k] = k ? x->shape[k] : idx->shape[0];
    }
    *column = g_reshape(&g->b, idx, x->rank, wide);
    *v = dim_symbol(g->t, "v0", SYM_DATA, NULL, NULL);
    for (int k = 0; k < x->rank; k++) index[k] = k ? dim_axis(g->t, k, shape[k]) : *v;
    return x->rank;
}

static void do_gather(Gen *g) {
    Item i = *pick(g);
    Value *idx = i.v->rank ? indices(g, i.v->shape[0]) : NULL, *column;
    if (!idx) return;
    const Dim *v, *shape[8], *index[8];
    int rank = index_axes(g, idx, i.v, &v, shape, index, &column);
    if (!small(rank, shape, MAX_ELEMENTS)) return;
    const Dim *guard = dim_addi(g->t, v, -1);
    like(g, &i, g_gather(&g->b, i.v, 1, &column, &v, rank, shape, index, gen_chance(g, 30), &guard, scalar_float(i.v->type, 1)));
}

static void do_scatter(Gen *g) {
    static const char *const kinds[] = {"set", "add", "mul", "min", "max"};
    Item i = *pick(g);
    if (i.v->type == DT_bool) return;
    const char *kind = kinds[gen_int(g, 0, 4)];
    if (dtype_is_float(i.v->type) && !strcmp(kind, "add")) i = tamed(g, i);
    if (dtype_is_float(i.v->type) && !strcmp(kind, "mul")) kind = "set";
    Value *idx = i.v->rank ? indices(g, i.v->shape[0]) : NULL, *column;
    if (!idx) return;
    const Dim *v, *shape[8], *index[8];
    int rank = index_axes(g, idx, i.v, &v, shape, index, &column);
    if (!small(rank, shape, MAX_ELEMENTS)) return;
    const Expr *body = x_cast(g->a, i.v->type, x_dim(g->a, rank > 1 ? dim_axis(g->t, 1, shape[1]) : dim_axis(g->t, 0, shape[0])));
    Value *updates = g_map_shape(&g->b, 0, NULL, body, rank, shape);
    bool sums = dtype_is_float(i.v->type) && !strcmp(kind, "add");
    Value *out = g_scatter(&g->b, i.v, updates, 1, &column, &v, index, 0, NULL, kind);
    add(g, out, i.exact && !sums, false, i.coarse);
}

static int some_axes(Gen *g, int rank, int64_t *axes) {
    int n = 0;
    for (int k = 0; k < rank; k++)
        if (gen_chance(g, 50)) axes[n++] = k;
    return n;
}

static void do_reduce(Gen *g) {
    static const char *const kinds[] = {"sum", "sum", "sum", "min", "max", "prod", "argmin", "argmax", "argmin_last", "argmax_last"};
    Item i = *pick(g);
    int64_t axes[8];
    int n = some_axes(g, i.v->rank, axes);
    const char *kind = kinds[gen_int(g, 0, 9)];
    if (i.v->type == DT_bool) kind = gen_chance(g, 50) ? "any" : "all";
    bool sums = !strcmp(kind, "sum"), arg = !strncmp(kind, "arg", 3), floats = dtype_is_float(i.v->type);
    if (!n || (arg && (n != 1 || least(i.v->shape[axes[0]]) < 1 || !i.exact)) || (!strcmp(kind, "prod") && floats)) return;
    if (sums && floats) i = tamed(g, i);
    add(g, g_reduce(&g->b, kind, i.v, n, axes, gen_chance(g, 50)), i.exact && !(sums && floats), i.tame && !sums, i.coarse);
}

static void do_scan(Gen *g) {
    static const char *const kinds[] = {"sum", "max", "min", "sum"};
    Item i = *pick(g);
    const char *kind = kinds[gen_int(g, 0, 3)];
    if (!i.v->rank || i.v->type == DT_bool) return;
    bool sums = !strcmp(kind, "sum") && dtype_is_float(i.v->type);
    if (sums) i = tamed(g, i);
    Value *out = g_scan(&g->b, kind, i.v, gen_int(g, 0, i.v->rank - 1), gen_chance(g, 40), gen_chance(g, 40));
    add(g, out, i.exact && !sums, false, i.coarse);
}

static void do_contract(Gen *g) {
    static const struct {
        int x, y, same_x, same_y;
        const char *subs;
    } forms[] = {{2, 2, 1, 0, "ab,bc->ac"}, {2, 2, 1, 1, "ab,cb->ac"}, {3, 3, 2, 1, "nab,nbc->nac"}, {3, 2, 2, 0, "nab,bc->nac"},
        {1, 1, 0, 0, "a,a->"}, {2, 2, 0, 0, "ab,ac->bc"}, {1, 1, 0, 0, "a,b->ab"}};
    Item x = *pick(g);
    for (int tries = 0; tries < 20; tries++) {
        int f = gen_int(g, 0, 6);
        Item y = *pick(g);
        if (x.v->rank != forms[f].x || y.v->rank != forms[f].y || x.v->type != y.v->type || x.v->type == DT_bool) continue;
        if (f != 6 && x.v->shape[forms[f].same_x] != y.v->shape[forms[f].same_y]) continue;
        if (f == 2 && x.v->shape[0] != y.v->shape[0]) continue;
        bool floats = dtype_is_float(x.v->type);
        if (floats) x = tamed(g, x), y = tamed(g, y);
        DType out = x.v->type == DT_i8 || x.v->type == DT_u8 ? DT_i32 : x.v->type;
        Value *v = g_contract(&g->b, forms[f].subs, x.v, y.v, out);
        if (small(v->rank, (const Dim *const *)v->shape, MAX_ELEMENTS))
            add(g, v, !floats && x.exact && y.exact, false, x.coarse || y.coarse);
        return;
    }
}

static void do_rowwise(Gen *g) {
    Item i = *pick(g);
    int64_t axes[8];
    int n = i.v->rank && gen_chance(g, 60) ? (axes[0] = i.v->rank - 1, 1) : some_axes(g, i.v->rank, axes);
    if (!n || !dtype_is_float(i.v->type) || dtype_bytes(i.v->type) == 1) return;
    i = tamed(g, i);
    Value *out;
    if (gen_chance(g, 50))
        out = g_softmax(&g->b, gen_chance(g, 70) ? "softmax" : "logsoftmax", i.v, n, axes);
    else
        out = g_norm(&g->b, gen_chance(g, 60) ? "layer" : "rms", i.v, n, axes, 0.1);
    add(g, out, false, true, i.coarse);
}

static void do_attention(Gen *g) { // of a tensor to itself
    Item x = *pick(g);
    if (!dtype_is_float(x.v->type) || dtype_bytes(x.v->type) == 1 || x.v->rank > 4) return;
    x = tamed(g, x);
    Value *v = x.v;
    while (v->rank < 4) v = g_unsqueeze(&g->b, v, 0);
    DType t = x.v->type == DT_f64 ? DT_f64 : DT_f32;
    const Dim *shape[] = {v->shape[0], v->shape[1], v->shape[2], v->shape[2]};
    const Expr *later = x_dim(g->a, dim_sub(g->t, dim_axis(g->t, 3, shape[3]), dim_axis(g->t, 2, shape[2])));
    const Expr *seen = x_op2(g->a, X_le, later, x_dim(g->a, dim_int(g->t, gen_int(g, -2, 1))));
    const Expr *score = x_op3(g->a, X_select, seen, x_arg(g->a, 0, t), x_float(g->a, t, -__builtin_inf()));
    Value *in[] = {v, v, v};
    add(g, g_attention(&g->b, 3, in, gen_chance(g, 50) ? score : x_arg(g->a, 0, t), NULL, 0.25), false, true, x.coarse);
}

static void do_sort(Gen *g) {
    Item i = *pick(g);
    if (!i.exact || !i.v->rank || i.v->type == DT_bool) return;
    int axis = gen_int(g, 0, i.v->rank - 1);
    const Dim *shape[8];
    for (int k = 0; k < i.v->rank; k++) shape[k] = i.v->shape[k];
    bool top = gen_chance(g, 50) && least(shape[axis]) > 0;
    if (top) shape[axis] = dim_int(g->t, gen_int(g, 1, (int)least(shape[axis])));
    int64_t flags[2] = {gen_chance(g, 50), 1};
    DType types[2] = {i.v->type, DT_i64};
    int ranks[2] = {i.v->rank, i.v->rank};
    const Dim *const *shapes[2] = {shape, shape};
    IntList f = {ARENA_ARRAY(g->a, int64_t, 2), top ? 2 : 1};
    memcpy((int64_t *)(uintptr_t)f.data, flags, sizeof flags);
    Node *n = g_template(&g->b, top ? "topk" : "sort", 1, &i.v, 2, types, ranks, shapes, axis, (F64List){0}, (DimList){0}, f);
    add(g, n->out[0], true, i.tame, i.coarse);
    add(g, n->out[1], true, true, false);
}

// ---- sizes ----
static void do_random(Gen *g) { // of an item's shape
    static const double params[] = {-1, 2};
    const Value *x = pick(g)->v;
    g->b.onnx_id = gen_int(g, 1, 9);
    const char *kind = gen_chance(g, 50) ? "uniform" : "normal";
    add(g, g_random(&g->b, kind, NULL, DT_f32, x->rank, (const Dim *const *)x->shape, (F64List){params, 2}), false, true, false);
    g->b.onnx_id = 0;
}

static void do_dims(Gen *g) { // a tensor of sizes
    const Dim *d[3];
    int n = gen_int(g, 1, 3);
    for (int k = 0; k < n; k++) d[k] = dim_addi(g->t, extent(g), gen_int(g, 0, 2));
    add(g, g_dims(&g->b, n, d), true, true, false);
}

static void do_size(Gen *g) { // a size from data, and something of that size
    Item i = *pick(g);
    if (i.v->rank > 1 || i.v->type == DT_bool || dtype_is_float(i.v->type) || (i.v->rank && least(i.v->shape[0]) < 1)) return;
    const Expr *x = x_op2(g->a, X_floormod, x_cast(g->a, DT_i64, x_arg(g->a, 0, i.v->type)), x_int(g->a, DT_i64, 6));
    Value *v = g_map(&g->b, 1, &i.v, x);
    const Dim *size = g_size(&g->b, v, 0, "S", dim_int(g->t, 0), dim_int(g->t, 5));
    Item y = *pick(g);
    const Dim *shape[8] = {size};
    for (int k = 0; k < y.v->rank; k++) shape[k + 1] = y.v->shape[k];
    if (y.v->rank < 4 && small(y.v->rank + 1, shape, MAX_ELEMENTS)) like(g, &y, g_expand(&g->b, y.v, y.v->rank + 1, shape));
}

static void do_nonzero(Gen *g) {
    Item i = *pick(g);
    if (!i.exact || !i.v->rank || g->depth) return;
    const Dim *count = graph_symbol(g->b.g, "COUNT", SYM_DATA, dim_int(g->t, 0), dim_product(g->t, i.v->shape, i.v->rank));
    const Dim *shape[2] = {dim_int(g->t, i.v->rank), count}, **dims = ARENA_ARRAY(g->a, const Dim *, 1);
    if (!small(2, shape, MAX_ELEMENTS)) return;
    dims[0] = count;
    DType type = DT_i64;
    int rank = 2;
    const Dim *const *shapes = shape;
    Node *n = g_template(&g->b, "nonzero", 1, &i.v, 1, &type, &rank, &shapes, 0, (F64List){0}, (DimList){dims, 1}, (IntList){0});
    add(g, n->out[0], true, true, false);
}

// ---- regions ----
static void some_operations(Gen *g, int n);

// Fills r with a few operations and yields a value of x's type and shape made from the last of them.
static Item branch(Gen *g, Region *r, Item x, int noperations) {
    Builder outer = g->b;
    int visible = g->pool.n;
    g->b.region = r;
    g->depth++;
    vec_push(g->a, &g->pool, x);
    some_operations(g, noperations);
    Item in[2] = {x, g->pool.data[g->pool.n - 1]};
    Value *v[2] = {in[0].v, in[1].v};
    int n = broadcasts(v[1], v[0]) ? 2 : 1;
    bool exact, coarse = x.coarse || in[n - 1].coarse;
    const Expr *body = gen_body(g, x.v->type, in, n, x.v, &exact);
    Item out = {g_map_shape(&g->b, n, v, body, x.v->rank, x.v->shape), exact, false, coarse};
    g->depth--;
    g->pool.n = visible;
    g->b = outer;
    return out;
}

static void do_if(Gen *g) {
    Item x = *pick(g), cond = *pick(g);
    if (g->depth > 1 || cond.v->type != DT_bool) return;
    int64_t axes[8];
    for (int k = 0; k < cond.v->rank; k++) axes[k] = k;
    Value *c = g_reduce(&g->b, "any", cond.v, cond.v->rank, axes, false);
    Region *then = graph_region_new(g->b.g, NULL), *otherwise = graph_region_new(g->b.g, NULL);
    Item a = branch(g, then, x, gen_int(g, 0, 3)), b = branch(g, otherwise, x, gen_int(g, 0, 3));
    int64_t rows;
    if (x.v->rank && gen_chance(g, 25) && dim_is_int(x.v->shape[0], &rows) && rows > 1) { // branches of two sizes
        Builder inner = g->b;
        inner.region = then;
        a.v = g_slice(&inner, a.v, 0, dim_int(g->t, 0), dim_int(g->t, rows - 1), 1);
    }
    vec_push(g->a, &then->yields, a.v);
    vec_push(g->a, &otherwise->yields, b.v);
    Node *n = g_if(&g->b, c, then, otherwise);
    add(g, n->out[0], a.exact && b.exact, false, a.coarse || b.coarse);
}

static void do_loop(Gen *g) {
    Item x = *pick(g);
    if (g->depth > 1 || x.v->rank > 3) return;
    int64_t trips = gen_int(g, 0, 4), yes = 1;
    Value *trip = g_const_ints(&g->b, DT_i64, -1, &trips), *go = g_const_ints(&g->b, DT_bool, -1, &yes);
    Region *r = graph_region_new(g->b.g, NULL);
    Value *step = graph_param(r, NULL, DT_i64, 0, NULL), *on = graph_param(r, NULL, DT_bool, 0, NULL);
    Item carried = {graph_param(r, NULL, x.v->type, x.v->rank, (const Dim *const *)x.v->shape), x.exact, false, x.coarse};
    int64_t last = gen_int(g, 0, 4);
    bool scan = gen_chance(g, 40), ends = !scan && gen_chance(g, 40);
    Builder inner = g->b;
    inner.region = r;
    const Expr *before = x_op2(g->a, X_lt, x_arg(g->a, 0, DT_i64), x_int(g->a, DT_i64, last));
    Value *stay = ends ? g_map(&inner, 1, &step, before) : scan ? g_const_ints(&inner, DT_bool, -1, &yes) : on;
    Item now = branch(g, r, carried, gen_int(g, 0, 2));
    if (x.exact && !now.exact) return; // the first trip would see a value that later ones could not: leave it
    vec_push(g->a, &r->yields, stay);
    vec_push(g->a, &r->yields, now.v);
    if (scan) vec_push(g->a, &r->yields, now.v);
    Node *n = g_loop(&g->b, trip, go, 1, &x.v, r, scan);
    for (int k = 0; k < n->nout; k++) add(g, n->out[k], now.exact && x.exact, false, now.coarse || x.coarse);
}

static void some_operations(Gen *g, int n) {
    static const struct {
        void (*fn)(Gen *g);
        int weight;
    } operations[] = {{do_map, 20}, {do_transpose, 5}, {do_slice, 6}, {do_pad, 5}, {do_expand, 5}, {do_reshape, 7}, {do_axes, 3},
        {do_windows, 4}, {do_concat, 6}, {do_gather, 6}, {do_scatter, 5}, {do_reduce, 10}, {do_scan, 4}, {do_contract, 8}, {do_rowwise, 7},
        {do_attention, 3}, {do_sort, 4}, {do_random, 2}, {do_dims, 2}, {do_size, 3}, {do_nonzero, 2}, {do_if, 3}, {do_loop, 3}};
    enum { COUNT = sizeof operations / sizeof *operations };
    for (int before = g->pool.n, tries = 0; g->pool.n < before + n && tries < 5 * n; tries++) {
        int total = 0, k = 0;
        for (int i = 0; i < COUNT; i++) total += operations[i].weight;
        for (int at = gen_int(g, 0, total - 1); at >= operations[k].weight; k++) at -= operations[k].weight;
        operations[k].fn(g);
    }
}

// ---- the whole ----
static void make_input(Gen *g, Case *c, Arena *a) {
    int rank = gen_int(g, c->nin == 0, 4);
    const Dim *shape[4];
    int64_t sizes[4];
    for (int k = 0; k < rank; k++) shape[k] = c->nin == 0 && k == 0 ? g->n : extent(g);
    if (!small(rank, shape, MAX_ELEMENTS / 4)) rank = 1;
    for (int k = 0; k < rank; k++) sizes[k] = shape[k] == g->n ? c->n : least(shape[k]);
    DType t = gen_type(g);
    add(g, graph_param(g->b.g->body, arena_printf(g->a, "x%d", c->nin), t, rank, shape), true, true, false);
    c->in[c->nin] = tensor_new(a, t, rank, sizes);
    fill(g, &c->in[c->nin++]);
}

static void make_const(Gen *g) {
    int rank = gen_int(g, 0, 2);
    const Dim *shape[2];
    int64_t sizes[2];
    for (int k = 0; k < rank; k++) {
        shape[k] = extent(g);
        if (shape[k] == g->n) shape[k] = dim_int(g->t, gen_int(g, 1, 11));
        sizes[k] = least(shape[k]);
    }
    Tensor t = tensor_new(g->a, gen_type(g), rank, sizes);
    fill(g, &t);
    add(g, g_const(&g->b, t.type, rank, shape, (Data){t.data, t.bytes}), true, true, false);
}

static void make_outputs(Gen *g, Case *c) {
    int *uses = ARENA_ARRAY(g->a, int, g->b.g->nvalues + 1);
    graph_count_uses(g->b.g, uses);
    for (int i = g->pool.n - 1; i >= 0 && c->nout < MAX_OUTPUTS - 1; i--) {
        const Item *x = &g->pool.data[i];
        bool wanted = (!uses[x->v->id] && x->v->def) || gen_chance(g, 5) || (i == g->pool.n - 1 && !c->nout);
        if (!wanted) continue;
        bool narrow = x->coarse || x->v->type == DT_f16 || x->v->type == DT_bf16;
        c->tolerance[c->nout] = x->exact ? (Tolerance){0}
                                : narrow ? (Tolerance){.rtol = 0.06, .atol = 0.03, .scaled = 0.06}
                                         : (Tolerance){.rtol = 1e-4, .atol = 2e-5, .scaled = 1e-4};
        vec_push(g->a, &g->b.g->body->yields, x->v);
        vec_push(g->a, &g->b.g->output_names, arena_printf(g->a, "y%d", c->nout++));
    }
}

void prop_generate(Case *c, uint64_t seed, Arena *a) {
    *c = (Case){.g = graph_new("random")};
    Gen g = {.b = {.g = c->g, .region = c->g->body}, .a = c->g->arena, .t = c->g->dims, .rng = seed * 0x9e3779b97f4a7c15u + 1};
    for (int i = 0; i < 4; i++) gen_bits(&g);
    int lo = gen_chance(&g, 25) ? 0 : 1;
    g.n = graph_symbol(c->g, "N", SYM_MODEL, dim_int(g.t, lo), dim_int(g.t, N_MAX));
    c->n = gen_int(&g, lo, gen_chance(&g, 50) ? 3 : N_MAX);
    for (int i = 0; i < 3; i++) g.extent[i] = dim_int(g.t, gen_chance(&g, 4) ? 0 : gen_int(&g, 1, gen_chance(&g, 70) ? 5 : 11));
    g.extent[3] = g.n;
    int nin = gen_int(&g, 1, 4), nconst = gen_int(&g, 0, 2);
    for (int i = 0; i < nin; i++) make_input(&g, c, a);
    for (int i = 0; i < nconst; i++) make_const(&g);
    some_operations(&g, gen_int(&g, 1, 14));
    make_outputs(&g, c);
    c->config = prop_configure(&g, a);
}
