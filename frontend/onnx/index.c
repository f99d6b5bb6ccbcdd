// Gather and scatter in all their forms: index tensors become gather and scatter nodes whose index maps say which axis they choose on.
#include "formula.h"

#include <string.h>

enum { RANK_MAX = GRAPH_MAX_RANK };
typedef const Dim *const *DimArray;

// Indices as i64 with negative ones counted from the end of an axis of `extent`.
static Value *normalised(ImportNode *n, Value *indices, const Dim *extent) {
    Value *i = g_cast(&n->b, DT_i64, indices);
    if (indices->content) {
        bool known = true;
        for (int k = 0; k < indices->ncontent && known; k++) known = dim_ge0(n->dims, indices->content[k]) == YES;
        if (known) return i;
    }
    const Expr *a = x_arg(n->arena, 0, DT_i64);
    const Expr *end = x_cast(n->arena, DT_i64, x_dim(n->arena, extent));
    const Expr *from_end = x_op2(n->arena, X_add, a, end);
    return g_map(&n->b, 1, &i, x_op3(n->arena, X_select, x_op2(n->arena, X_lt, a, x_int(n->arena, DT_i64, 0)), from_end, a));
}

static const Dim *index_symbol(ImportNode *n, int k) {
    return dim_symbol(n->dims, arena_printf(n->arena, "v%d", k), SYM_DATA, NULL, NULL);
}

// The value seen with `before` axes in front and `after` behind, all of extent 1 and broadcast.
static Value *with_axes(ImportNode *n, Value *v, int before, int after) {
    for (int i = 0; i < before; i++) v = g_unsqueeze(&n->b, v, 0);
    for (int i = 0; i < after; i++) v = g_unsqueeze(&n->b, v, v->rank);
    return v;
}

static Scalar zero_of(const Value *v) {
    return v->type == DT_str ? (Scalar){.type = DT_str} : scalar_int(v->type, 0);
}

static bool check_indices(const ImportNode *n, int input) {
    DType t = n->in[input]->type;
    return dtype_is_int(t) || import_fail(n, "indices have type %s, an integer type is needed", dtype_name(t));
}

bool import_gather(ImportNode *n) {
    Value *x = n->in[0];
    int axis;
    if (!check_indices(n, 1) || !import_axis(n, attr_int(n, "axis"), x->rank, &axis)) return false;
    Value *indices = normalised(n, n->in[1], x->shape[axis]);
    int q = indices->rank, rank = x->rank - 1 + q;
    if (rank > RANK_MAX) return import_unsupported(n, "rank %d", rank);
    const Dim *shape[RANK_MAX], *index[RANK_MAX], *v = index_symbol(n, 0);
    for (int i = 0; i < rank; i++) shape[i] = i < axis ? x->shape[i] : i < axis + q ? indices->shape[i - axis] : x->shape[i - q + 1];
    for (int i = 0; i < x->rank; i++) {
        int o = i < axis ? i : i + q - 1;
        index[i] = i == axis ? v : dim_axis(n->dims, o, shape[o]);
    }
    Value *wide = with_axes(n, indices, 0, rank - axis - q);
    n->out[0] = g_gather(&n->b, x, 1, &wide, &v, rank, shape, index, 0, NULL, zero_of(x));
    return true;
}

bool import_gather_elements(ImportNode *n) {
    Value *x = n->in[0];
    int axis;
    if (!check_indices(n, 1) || !import_axis(n, attr_int(n, "axis"), x->rank, &axis)) return false;
    if (n->in[1]->rank != x->rank) return import_fail(n, "indices have rank %d, data %d", n->in[1]->rank, x->rank);
    Value *indices = normalised(n, n->in[1], x->shape[axis]);
    const Dim *index[RANK_MAX], *v = index_symbol(n, 0);
    for (int i = 0; i < x->rank; i++) index[i] = i == axis ? v : dim_axis(n->dims, i, indices->shape[i]);
    n->out[0] = g_gather(&n->b, x, 1, &indices, &v, x->rank, (DimArray)indices->shape, index, 0, NULL, zero_of(x));
    return true;
}

// Component k of index tuples that lie along the last axis: a slice without that axis.
static Value *tuple_component(ImportNode *n, Value *indices, int64_t k, const Dim *extent) {
    int last = indices->rank - 1;
    Value *s = g_slice(&n->b, indices, last, dim_int(n->dims, k), dim_int(n->dims, 1), 1);
    return normalised(n, g_squeeze(&n->b, s, last), extent);
}

bool import_gather_nd(ImportNode *n) {
    Value *x = n->in[0], *indices = n->in[1];
    int64_t batch = n->version >= 12 ? attr_int(n, "batch_dims") : 0, k;
    if (!check_indices(n, 1)) return false;
    if (indices->rank < 1 || !dim_is_int(indices->shape[indices->rank - 1], &k))
        return import_unsupported(n, "index tuples of symbolic length");
    if (k < 1 || batch < 0 || batch + k > x->rank || batch >= indices->rank)
        return import_fail(n, "index tuples of length %ld do not fit", (long)k);
    int q = indices->rank - 1, rest = x->rank - (int)(batch + k), rank = q + rest;
    const Dim *shape[RANK_MAX], *index[RANK_MAX], *v[RANK_MAX];
    Value *parts[RANK_MAX];
    if (rank > RANK_MAX) return import_unsupported(n, "rank %d", rank);
    for (int i = 0; i < rank; i++) shape[i] = i < q ? indices->shape[i] : x->shape[batch + k + i - q];
    for (int i = 0; i < k; i++) {
        v[i] = index_symbol(n, i);
        parts[i] = with_axes(n, tuple_component(n, indices, i, x->shape[batch + i]), 0, rest);
    }
    for (int i = 0; i < x->rank; i++) {
        int o = i < batch ? i : q + i - (int)(batch + k);
        index[i] = i >= batch && i < batch + k ? v[i - batch] : dim_axis(n->dims, o, shape[o]);
    }
    n->out[0] = g_gather(&n->b, x, (int)k, parts, v, rank, shape, index, 0, NULL, zero_of(x));
    return true;
}

// ---- scatter ----
static const char *scatter_kind(const ImportNode *n, int since) {
    const char *reduction = n->version >= since ? attr_string(n, "reduction") : "none";
    return !strcmp(reduction, "none") ? "set" : reduction;
}

static bool known_kind(const ImportNode *n, const char *kind) {
    static const char *const kinds[] = {"set", "add", "mul", "min", "max"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i], kind)) return true;
    return import_fail(n, "unknown reduction '%s'", kind);
}

bool import_scatter_elements(ImportNode *n) {
    Value *x = n->in[0];
    int axis;
    const char *kind = scatter_kind(n, 16);
    if (!check_indices(n, 1) || !known_kind(n, kind) || !import_axis(n, attr_int(n, "axis"), x->rank, &axis)) return false;
    if (n->in[1]->rank != x->rank || n->in[2]->rank != x->rank) return import_fail(n, "data, indices and updates differ in rank");
    Value *indices = normalised(n, n->in[1], x->shape[axis]);
    const Dim *index[RANK_MAX], *v = index_symbol(n, 0);
    for (int i = 0; i < x->rank; i++) index[i] = i == axis ? v : dim_axis(n->dims, i, n->in[2]->shape[i]);
    n->out[0] = g_scatter(&n->b, x, n->in[2], 1, &indices, &v, index, 0, NULL, kind);
    return true;
}

bool import_scatter_nd(ImportNode *n) {
    Value *x = n->in[0], *indices = n->in[1], *updates = n->in[2];
    const char *kind = scatter_kind(n, 16);
    int64_t k;
    if (!check_indices(n, 1) || !known_kind(n, kind)) return false;
    if (indices->rank < 1 || !dim_is_int(indices->shape[indices->rank - 1], &k))
        return import_unsupported(n, "index tuples of symbolic length");
    int q = indices->rank - 1;
    if (k < 1 || k > x->rank || updates->rank != q + x->rank - k)
        return import_fail(
            n, "index tuples of length %ld do not fit %s and %s", (long)k, import_shape_text(n, x), import_shape_text(n, updates));
    const Dim *index[RANK_MAX], *v[RANK_MAX];
    Value *parts[RANK_MAX];
    for (int i = 0; i < k; i++) {
        v[i] = index_symbol(n, i);
        parts[i] = with_axes(n, tuple_component(n, indices, i, x->shape[i]), 0, updates->rank - q);
    }
    for (int i = 0; i < x->rank; i++) {
        int o = q + i - (int)k;
        index[i] = i < k ? v[i] : dim_axis(n->dims, o, updates->shape[o]);
    }
    n->out[0] = g_scatter(&n->b, x, updates, (int)k, parts, v, index, 0, NULL, kind);
    return true;
}

// ---- OneHot ----
bool import_one_hot(ImportNode *n) {
    Value *indices = n->in[0], *values = n->in[2];
    const Dim *const *content, *two = dim_int(n->dims, 2);
    double depth_value;
    if (!import_shape_is(n, 2, 1, &two) || !import_numeric(n, 0) || !import_numeric(n, 1)) return false;
    const Dim *depth;
    int count, axis;
    if (n->in[1]->content) {
        if (!import_content(n, 1, &content, &count)) return false;
        depth = content[0];
    } else if (import_const_float(n, 1, &depth_value)) {
        depth = dim_int(n->dims, (int64_t)depth_value);
    } else {
        Value *given = g_cast(&n->b, DT_i64, n->in[1]);
        if (given->rank > 1) return import_fail(n, "depth is %s", import_shape_text(n, given));
        depth = g_size(&n->b, given, 0, "depth", dim_int(n->dims, 0), NULL);
    }
    int rank = indices->rank + 1;
    if (!import_axis(n, attr_int(n, "axis"), rank, &axis)) return false;
    const Dim *shape[RANK_MAX];
    for (int i = 0; i < rank; i++) shape[i] = i < axis ? indices->shape[i] : i == axis ? depth : indices->shape[i - 1];
    Value *i64 = g_unsqueeze(&n->b, g_cast(&n->b, DT_i64, indices), axis);
    Value *at = normalised(n, i64, depth);
    Value *off = g_slice(&n->b, values, 0, dim_int(n->dims, 0), dim_int(n->dims, 1), 1),
          *on = g_slice(&n->b, values, 0, dim_int(n->dims, 1), dim_int(n->dims, 1), 1);
    Value *in[] = {at, off, on};
    const Expr *here = x_cast(n->arena, DT_i64, x_dim(n->arena, dim_axis(n->dims, axis, depth)));
    const Expr *hit = x_op2(n->arena, X_eq, x_arg(n->arena, 0, DT_i64), here);
    const Expr *body = x_op3(n->arena, X_select, hit, x_arg(n->arena, 2, values->type), x_arg(n->arena, 1, values->type));
    n->out[0] = g_map_shape(&n->b, 3, in, body, rank, shape);
    return true;
}

// out[t, b] = x[t < len[b] ? len[b] - 1 - t : t, b] with the time and batch axes where the attributes say.
bool import_reverse_sequence(ImportNode *n) {
    Value *x = n->in[0];
    int time, batch;
    if (!import_axis(n, attr_int(n, "time_axis"), x->rank, &time) || !import_axis(n, attr_int(n, "batch_axis"), x->rank, &batch))
        return false;
    if (x->rank < 2 || time == batch) return import_fail(n, "two different axes are needed");
    Value *len = with_axes(n, g_cast(&n->b, DT_i64, n->in[1]), 0, x->rank - batch - 1);
    const Expr *l = x_arg(n->arena, 0, DT_i64), *t = x_cast(n->arena, DT_i64, x_dim(n->arena, dim_axis(n->dims, time, x->shape[time])));
    const Expr *mirrored = x_op2(n->arena, X_sub, x_op2(n->arena, X_sub, l, x_int(n->arena, DT_i64, 1)), t);
    const Expr *source = x_op3(n->arena, X_select, x_op2(n->arena, X_lt, t, l), mirrored, t);
    Value *at = g_map_shape(&n->b, 1, &len, source, x->rank, (DimArray)x->shape);
    const Dim *index[RANK_MAX], *v = index_symbol(n, 0);
    for (int i = 0; i < x->rank; i++) index[i] = i == time ? v : dim_axis(n->dims, i, x->shape[i]);
    n->out[0] = g_gather(&n->b, x, 1, &at, &v, x->rank, (DimArray)x->shape, index, 0, NULL, zero_of(x));
    return true;
}
