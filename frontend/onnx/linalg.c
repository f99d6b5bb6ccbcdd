// Determinants and inverses of square matrices by Gaussian elimination with partial pivoting: a loop over columns whose body is maps and
// gathers over the whole batch [B, M, W].
//
// Step k: the row p >= k with the largest |a[p, k]| changes places with row k; then rows lose factor * row k, where factor = a[i, k] /
// pivot: those below k for a determinant, all others for an inverse, whose matrix has the unit matrix beside it (W = 2M).
#include "window.h"

typedef const Dim *const *DimArray;

typedef struct {
    ImportNode *n;
    const Dim *batch, *size, *width;
    bool whole; // rows above k are reduced too
    DType type;
} Elimination;

// a[b, at[b or none], :] as [B, W], or a[b, :, at] as [B, M] when `column`.
static Value *line(const Elimination *e, Value *a, Value *at, bool column) {
    ImportNode *n = e->n;
    DimTable *t = n->dims;
    const Dim *shape[] = {e->batch, column ? e->size : e->width}, *v = dim_symbol(t, "v0", SYM_DATA, NULL, NULL);
    const Dim *d = dim_axis(t, 1, shape[1]), *index[] = {dim_axis(t, 0, e->batch), column ? d : v, column ? v : d};
    if (at->rank) at = g_unsqueeze(&n->b, at, 1);
    return g_gather(&n->b, a, 1, &at, &v, 2, shape, index, 0, NULL, scalar_int(e->type, 0));
}

static Value *element(const Elimination *e, Value *column, Value *at) {
    ImportNode *n = e->n;
    const Dim *v = dim_symbol(n->dims, "v0", SYM_DATA, NULL, NULL), *index[] = {dim_axis(n->dims, 0, e->batch), v};
    return g_gather(&n->b, column, 1, &at, &v, 1, &e->batch, index, 0, NULL, scalar_int(e->type, 0));
}

// One step: *a and, for a determinant, *det after it; false after a fault.
static bool step(const Elimination *e, Value *k, Value **a, Value **det) {
    ImportNode *n = e->n;
    const Dim *lines[] = {e->batch, e->size}, *all[] = {e->batch, e->size, e->width};
    int64_t rows = 1;
    Value *column = line(e, *a, k, true), *below[] = {column, k};
    Value *sizes = formula_tensor(n, "select(cast.i64(dim(d1)) >= a1, abs(a0), -1.0)", 2, below, 2, lines, NULL);
    if (!sizes) return false;
    Value *p = g_reduce(&n->b, "argmax", sizes, 1, &rows, false);
    Value *pivot = element(e, column, p), *first = element(e, column, k), *pivot_row = line(e, *a, p, false);
    Value *upper[] = {column, k, g_unsqueeze(&n->b, p, 1), g_unsqueeze(&n->b, pivot, 1), g_unsqueeze(&n->b, first, 1)};
    const char *reduced = e->whole ? "!=" : ">";
    const char *text = arena_printf(
        n->arena, "select((cast.i64(dim(d1)) %s a1) & (a3 != 0.0), select(cast.i64(dim(d1)) == a2, a4, a0) / a3, 0.0)", reduced);
    Value *factor = formula_tensor(n, text, 5, upper, 2, lines, NULL);
    if (!factor) return false;
    Value *in[] = {*a, k, g_unsqueeze(&n->b, g_unsqueeze(&n->b, p, 1), 2), g_unsqueeze(&n->b, pivot_row, 1),
        g_unsqueeze(&n->b, line(e, *a, k, false), 1), g_unsqueeze(&n->b, factor, 2)};
    *a = formula_tensor(n, "select(cast.i64(dim(d1)) == a1, a3, select(cast.i64(dim(d1)) == a2, a4, a0)) - a5 * a3", 6, in, 3, all, NULL);
    if (e->whole) return *a != NULL;
    Value *signs[] = {*det, pivot, p, k};
    *det = formula_map(n, "a0 * select(a2 == a3, a1, neg(a1))", 4, signs);
    return *a && *det;
}

// Runs all steps; the results are in *a and *det. false after a fault.
static bool eliminate(const Elimination *e, Value **a, Value **det) {
    ImportNode *n = e->n;
    const int64_t one = 1;
    const Dim *shape[] = {e->batch, e->size, e->width};
    Region *body = graph_region_new(n->b.g, NULL), *outer = n->b.region;
    Value *trip = g_dims(&n->b, -1, &e->size), *always = g_const_ints(&n->b, DT_bool, -1, &one), *init[] = {*a, *det};
    Value *k = graph_param(body, NULL, DT_i64, 0, NULL);
    graph_param(body, NULL, DT_bool, 0, NULL);
    Value *inner = graph_param(body, NULL, e->type, 3, shape);
    Value *product = e->whole ? NULL : graph_param(body, NULL, e->type, 1, &e->batch);
    n->b.region = body;
    bool ok = step(e, k, &inner, &product);
    vec_push(n->arena, &body->yields, g_const_ints(&n->b, DT_bool, -1, &one));
    n->b.region = outer;
    if (!ok) return false;
    vec_push(n->arena, &body->yields, inner);
    if (!e->whole) vec_push(n->arena, &body->yields, product);
    Node *loop = g_loop(&n->b, trip, always, e->whole ? 1 : 2, init, body, 0);
    *a = loop->out[0];
    if (!e->whole) *det = loop->out[1];
    return true;
}

// The input as [B, M, M] of f32 or f64; NULL after a fault.
static Value *matrices(ImportNode *n, Elimination *e) {
    Value *x = n->in[0];
    int r = x->rank;
    if (!dtype_is_float(x->type)) return import_fail(n, "input has type %s, a float type is needed", dtype_name(x->type)), NULL;
    if (r < 2) return import_fail(n, "input has rank %d, at least 2 is needed", r), NULL;
    const Dim *want[GRAPH_MAX_RANK];
    for (int i = 0; i < r; i++) want[i] = x->shape[i < r - 1 ? i : r - 2];
    if (!import_value_is(n, "input", x, r, want)) return NULL;
    e->batch = dim_product(n->dims, (DimArray)x->shape, r - 2);
    e->size = x->shape[r - 2];
    const Dim *shape[] = {e->batch, e->size, e->size};
    x = g_reshape(&n->b, import_widened(n, x), 3, shape);
    e->type = x->type;
    return x;
}

bool import_det(ImportNode *n) {
    Elimination e = {.n = n};
    Value *a = matrices(n, &e);
    if (!a) return false;
    e.width = e.size;
    Value *det = g_map_shape(&n->b, 0, NULL, x_float(n->arena, e.type, 1), 1, &e.batch);
    if (!eliminate(&e, &a, &det)) return false;
    const Value *x = n->in[0];
    n->out[0] = g_cast(&n->b, x->type, g_reshape(&n->b, det, x->rank - 2, (DimArray)x->shape));
    return true;
}

bool import_inverse(ImportNode *n) {
    Elimination e = {.n = n, .whole = true};
    Value *a = matrices(n, &e), *none = NULL;
    if (!a) return false;
    const Value *x = n->in[0];
    const Dim *square[] = {e.batch, e.size, e.size};
    e.width = dim_muli(n->dims, e.size, 2);
    Value *unit = formula_tensor(n, arena_printf(n->arena, "cast.%s(dim(d1) == dim(d2))", dtype_name(e.type)), 0, NULL, 3, square, NULL);
    if (!unit) return false;
    a = g_concat(&n->b, 2, (Value *[]){a, unit}, 2);
    if (!eliminate(&e, &a, &none)) return false;
    Value *left = g_slice(&n->b, a, 2, dim_of(n, 0), e.size, 1), *right = g_slice(&n->b, a, 2, e.size, e.size, 1);
    // The left half is diagonal now.
    const Dim *d0 = dim_axis(n->dims, 0, e.batch), *d1 = dim_axis(n->dims, 1, e.size), *index[] = {d0, d1, d1};
    Value *diagonal = g_view(&n->b, left, 2, square, index, 0, NULL, scalar_int(e.type, 0));
    Value *y = g_map2(&n->b, X_div, right, g_unsqueeze(&n->b, diagonal, 2));
    n->out[0] = g_cast(&n->b, x->type, g_reshape(&n->b, y, x->rank, (DimArray)x->shape));
    return true;
}
