// Operators whose algorithm is a template or whose result's size is data: TopK, NonZero, Compress, Unique, NonMaxSuppression.
#include "formula.h"

#include <string.h>

enum { RANK_MAX = GRAPH_MAX_RANK };
typedef const Dim *const *DimArray;

static IntList flags(ImportNode *n, int count, int64_t a, int64_t b) {
    int64_t *v = ARENA_ARRAY(n->arena, int64_t, 2);
    v[0] = a;
    v[1] = b;
    return (IntList){v, count};
}

static DimList defines(ImportNode *n, const Dim *d) {
    const Dim **v = ARENA_ARRAY(n->arena, const Dim *, 1);
    v[0] = d;
    return (DimList){v, 1};
}

// ---- TopK ----
static bool topk_extent(ImportNode *n, const Dim *extent, const Dim **k) {
    if (n->version < 10) {
        *k = dim_int(n->dims, attr_int(n, "k"));
        return true;
    }
    if (!dtype_is_int(n->in[1]->type)) return import_fail(n, "k has type %s, an integer type is needed", dtype_name(n->in[1]->type));
    *k = g_size(&n->b, n->in[1], 0, "topk", dim_int(n->dims, 0), extent);
    return true;
}

bool import_topk(ImportNode *n) {
    Value *x = n->in[0];
    int axis;
    const Dim *k = NULL, *shape[RANK_MAX];
    bool largest = n->version < 11 || attr_int(n, "largest") != 0, sorted = n->version < 11 || attr_int(n, "sorted") != 0;
    if (!import_numeric(n, 0) || !import_axis(n, attr_int(n, "axis"), x->rank, &axis) || !topk_extent(n, x->shape[axis], &k)) return false;
    if (dim_le(n->dims, k, x->shape[axis]) == NO)
        return import_fail(n, "k is %s, axis %d has %s", dim_text(n->dims, k), axis, dim_text(n->dims, x->shape[axis]));
    for (int i = 0; i < x->rank; i++) shape[i] = i == axis ? k : x->shape[i];
    const DType types[] = {x->type, DT_i64};
    const int ranks[] = {x->rank, x->rank};
    const DimArray shapes[] = {shape, shape};
    Node *t = g_template(&n->b, "topk", 1, &x, 2, types, ranks, shapes, axis, (F64List){0}, (DimList){0}, flags(n, 2, largest, sorted));
    n->out[0] = t->out[0];
    n->out[1] = t->out[1];
    return true;
}

// ---- NonZero, Compress ----
// Positions of the elements that are not zero: i64[rank, COUNT].
static Value *nonzero(ImportNode *n, Value *x) {
    const Dim *size = value_size(n->b.g, x);
    const Dim *count = graph_symbol(n->b.g, "entries", SYM_DATA, dim_int(n->dims, 0), size);
    const Dim *shape[] = {dim_int(n->dims, x->rank ? x->rank : 1), count};
    const DType type = DT_i64;
    const int rank = 2;
    const DimArray shapes = shape;
    return g_template(&n->b, "nonzero", 1, &x, 1, &type, &rank, &shapes, 0, (F64List){0}, defines(n, count), (IntList){0})->out[0];
}

bool import_nonzero(ImportNode *n) {
    if (!import_numeric(n, 0)) return false;
    n->out[0] = nonzero(n, n->in[0]);
    return true;
}

bool import_compress(ImportNode *n) {
    Value *x = n->in[0], *condition = n->in[1];
    int axis = 0;
    if (condition->rank != 1 || condition->type != DT_bool) return import_fail(n, "the condition must be bool of rank 1");
    bool flat = !attr_has(n, "axis");
    if (flat) {
        const Dim *size = value_size(n->b.g, x);
        x = g_reshape(&n->b, x, 1, &size);
    } else if (!import_axis(n, attr_int(n, "axis"), x->rank, &axis)) {
        return false;
    }
    Value *at = nonzero(n, condition);
    const Dim *count = at->shape[1];
    at = g_reshape(&n->b, at, 1, &count);
    for (int i = axis + 1; i < x->rank; i++) at = g_unsqueeze(&n->b, at, at->rank);
    const Dim *shape[RANK_MAX], *index[RANK_MAX], *v = dim_symbol(n->dims, "v0", SYM_DATA, NULL, NULL);
    for (int i = 0; i < x->rank; i++) shape[i] = i == axis ? count : x->shape[i];
    for (int i = 0; i < x->rank; i++) index[i] = i == axis ? v : dim_axis(n->dims, i, shape[i]);
    n->out[0] = g_gather(&n->b, x, 1, &at, &v, x->rank, shape, index, 0, NULL, scalar_int(x->type, 0));
    return true;
}

// ---- Unique ----
bool import_unique(ImportNode *n) {
    Value *x = n->in[0];
    int axis = -1;
    if (!import_numeric(n, 0)) return false;
    if (attr_has(n, "axis") && !import_axis(n, attr_int(n, "axis"), x->rank, &axis)) return false;
    const Dim *extent = axis < 0 ? value_size(n->b.g, x) : x->shape[axis];
    const Dim *count = graph_symbol(n->b.g, "entries", SYM_DATA, dim_int(n->dims, 0), extent), *shape[RANK_MAX];
    for (int i = 0; i < x->rank; i++) shape[i] = i == axis ? count : x->shape[i];
    if (axis < 0) shape[0] = count;
    const DType types[] = {x->type, DT_i64, DT_i64, DT_i64};
    const int ranks[] = {axis < 0 ? 1 : x->rank, 1, 1, 1};
    const DimArray shapes[] = {shape, &count, &extent, &count};
    Node *t = g_template(
        &n->b, "unique", 1, &x, 4, types, ranks, shapes, axis, (F64List){0}, defines(n, count), flags(n, 1, attr_int(n, "sorted") != 0, 0));
    for (int i = 0; i < 4; i++) n->out[i] = t->out[i];
    return true;
}

// ---- NonMaxSuppression ----
static Value *scalar_input(ImportNode *n, int i, DType t, double missing) {
    Value *v = i < n->nin ? n->in[i] : NULL;
    if (!v) return t == DT_i64 ? g_const_ints(&n->b, t, -1, (const int64_t[]){(int64_t)missing}) : g_const_float(&n->b, t, missing);
    return g_cast(&n->b, t, v);
}

bool import_non_max_suppression(ImportNode *n) {
    Value *boxes = n->in[0], *scores = n->in[1];
    if (boxes->rank != 3 || scores->rank != 3 || !dim_is(boxes->shape[2], 4))
        return import_fail(n, "boxes [B, N, 4] and scores [B, C, N] are needed");
    if (boxes->type != DT_f32 || scores->type != DT_f32) return import_fail(n, "boxes and scores must be f32");
    Value *most = scalar_input(n, 2, DT_i64, 0), *overlap = scalar_input(n, 3, DT_f32, 0),
          *least = scalar_input(n, 4, DT_f32, -__builtin_inf());
    Value *in[] = {boxes, scores, most, overlap, least};
    const Dim *size = value_size(n->b.g, scores);
    const Dim *count = graph_symbol(n->b.g, "entries", SYM_DATA, dim_int(n->dims, 0), size), *shape[] = {count, dim_int(n->dims, 3)};
    const DType type = DT_i64;
    const int rank = 2;
    const DimArray shapes = shape;
    n->out[0] = g_template(
        &n->b, "nms", 5, in, 1, &type, &rank, &shapes, 0, (F64List){0}, defines(n, count), flags(n, 1, attr_int(n, "center_point_box"), 0))
                    ->out[0];
    return true;
}
