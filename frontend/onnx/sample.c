// GridSample: the output's elements are read at points that a grid gives.
//
// A point's coordinate x along an axis is read at K positions (nearest 1, linear 2, cubic 4) around floor(x), whose weights depend on their
// distance from x. The product of the axes' taps is a gather with one index tensor an axis; few taps are summed in one map, more of them as
// a contraction over tap axes behind the output's.
#include "formula.h"

#include <string.h>

enum { RANK_MAX = GRAPH_MAX_RANK, SPATIAL_MAX = 3, UNROLLED = 4 };
typedef const Dim *const *DimArray;

typedef struct {
    ImportNode *n;
    Value *x; // [N, C, spatial]
    int spatial, taps;
    bool zeros, reflects, corners;
    Value *at[SPATIAL_MAX];     // coordinates, f32[N, 1, out]
    const Dim *shape[RANK_MAX]; // [N, C, out, taps]: the taps' axes only in a contraction
} Sampling;

// ---- coordinates ----
// A float outside of LOW..HIGH is folded back at the ends until it lies inside.
static const char *reflected(Arena *a, const char *x, bool corners) {
    const char *low = corners ? "0.0" : "-0.5", *high = corners ? "cast.f32(dim(L - 1))" : "(cast.f32(dim(L)) - 0.5)";
    const char *range = arena_printf(a, "max(cast.f32(dim(%s)), 1e-6)", corners ? "L - 1" : "L");
    const char *past = arena_printf(a, "max(max((%s) - (%s), (%s) - (%s)), 0.0)", low, x, x, high);
    const char *folds = arena_printf(a, "floor((%s) / (%s))", past, range);
    const char *rest = arena_printf(a, "((%s) - ((%s) * (%s)))", past, folds, range);
    const char *odd = arena_printf(a, "(((%s) - 2.0 * floor((%s) * 0.5)) > 0.5)", folds, folds);
    const char *from_low = arena_printf(a, "(((%s) < (%s)) ^ (%s))", x, low, odd);
    const char *folded = arena_printf(a, "select(%s, (%s) + (%s), (%s) - (%s))", from_low, low, rest, high, rest);
    return arena_printf(a, "select(((%s) < (%s)) | ((%s) > (%s)), %s, %s)", x, low, x, high, folded, x);
}

static FormulaDim *extent_of(const Sampling *s, int axis) {
    FormulaDim *d = ARENA_ARRAY(s->n->arena, FormulaDim, 2);
    d[0] = (FormulaDim){"L", s->x->shape[2 + axis]};
    return d;
}

// The grid's last axis counts the spatial axes from the last one; it holds -1..1.
static Value *coordinate(const Sampling *s, Value *grid, int axis, bool nearest) {
    ImportNode *n = s->n;
    int last = grid->rank - 1;
    Value *g = g_slice(&n->b, grid, last, dim_int(n->dims, s->spatial - 1 - axis), dim_int(n->dims, 1), 1);
    g = g_unsqueeze(&n->b, g_squeeze(&n->b, g_cast(&n->b, DT_f32, g), last), 1);
    const char *text = s->corners ? "((a0 + 1.0) / 2.0) * cast.f32(dim(L - 1))" : "((a0 + 1.0) * cast.f32(dim(L)) - 1.0) / 2.0";
    if (nearest) text = arena_printf(n->arena, "rint(%s)", text);
    Value *x = formula_tensor(n, text, 1, &g, g->rank, (DimArray)g->shape, extent_of(s, axis));
    const char *low = s->corners ? "0.0" : "-0.5", *high = s->corners ? "0.0" : "0.5";
    const char *inside = s->zeros      ? NULL
                         : s->reflects ? reflected(n->arena, "a0", s->corners)
                                       : arena_printf(n->arena,
                                             "select((a0 < %s) | (a0 > (cast.f32(dim(L - 1)) + %s)), "
                                             "max(min(a0, cast.f32(dim(L - 1))), 0.0), a0)",
                                             low, high);
    return x && inside ? formula_tensor(n, inside, 1, &x, x->rank, (DimArray)x->shape, extent_of(s, axis)) : x;
}

// ---- taps ----
// The shape of an axis's table: [N, 1, out] or, with tap axes, [N, 1, out, 1, K, 1].
static void table_shape(const Sampling *s, int rank, int axis, const Dim **shape) {
    for (int i = 0; i < rank; i++) {
        bool other_tap = i >= 2 + s->spatial && i - 2 - s->spatial != axis;
        shape[i] = i == 1 || other_tap ? dim_int(s->n->dims, 1) : s->shape[i];
    }
}

// The position of tap `tap` (or, tap < 0, of the tap that the axis's tap axis says) along an axis.
static const char *position(const Sampling *s, int axis, int tap) {
    Arena *a = s->n->arena;
    int before = s->taps / 2 - (s->taps > 1);
    if (s->taps == 1) return "a0";
    if (tap >= 0) return arena_printf(a, "(floor(a0) + (%d.0))", tap - before);
    return arena_printf(a, "(floor(a0) + cast.f32(dim(d%d - %d)))", 2 + s->spatial + axis, before);
}

static Value *tap_index(const Sampling *s, int rank, int axis, int tap) {
    ImportNode *n = s->n;
    const char *p = position(s, axis, tap);
    const char *low = s->zeros ? "-1.0" : "0.0", *high = s->zeros ? "dim(L)" : "dim(L - 1)";
    if (s->reflects) p = arena_printf(n->arena, "trunc(%s)", reflected(n->arena, p, s->corners));
    const char *text = arena_printf(n->arena, "cast.i64(max(min(%s, cast.f32(%s)), %s))", p, high, low);
    const Dim *shape[RANK_MAX];
    table_shape(s, rank, axis, shape);
    Value *at = s->at[axis];
    while (at->rank < rank) at = g_unsqueeze(&n->b, at, at->rank);
    return formula_tensor(n, text, 1, &at, rank, shape, extent_of(s, axis));
}

static Value *tap_weight(const Sampling *s, int rank, int axis, int tap) {
    ImportNode *n = s->n;
    const char *d = arena_printf(n->arena, "abs(%s - a0)", position(s, axis, tap));
    const char *cubic = "select(%s <= 1.0, ((1.25 * %s - 2.25) * (%s * %s)) + 1.0, ((-0.75 * %s + 3.75) * %s - 6.0) * %s + 3.0)";
    const char *text = s->taps == 2 ? arena_printf(n->arena, "max(1.0 - %s, 0.0)", d) : arena_printf(n->arena, cubic, d, d, d, d, d, d, d);
    const Dim *shape[RANK_MAX];
    table_shape(s, rank, axis, shape);
    Value *at = s->at[axis];
    while (at->rank < rank) at = g_unsqueeze(&n->b, at, at->rank);
    return formula_tensor(n, text, 1, &at, rank, shape, extent_of(s, axis));
}

// x read at index tensors, one a spatial axis; what lies outside is 0.
static Value *read_taps(const Sampling *s, int rank, Value *const *index) {
    ImportNode *n = s->n;
    DimTable *t = n->dims;
    const Dim *v[SPATIAL_MAX], *at[RANK_MAX], *guard[2 * SPATIAL_MAX];
    at[0] = dim_axis(t, 0, s->shape[0]);
    at[1] = dim_axis(t, 1, s->shape[1]);
    for (int i = 0; i < s->spatial; i++) {
        v[i] = at[2 + i] = dim_symbol(t, arena_printf(n->arena, "v%d", i), SYM_DATA, NULL, NULL);
        guard[2 * i] = v[i];
        guard[2 * i + 1] = dim_sub(t, dim_addi(t, s->x->shape[2 + i], -1), v[i]);
    }
    return g_gather(&n->b, s->x, s->spatial, index, v, rank, s->shape, at, s->zeros ? 2 * s->spatial : 0, guard, scalar_int(s->x->type, 0));
}

// ---- sums ----
// One gather for each of at most four combinations of taps, summed in a map.
static Value *sum_few(const Sampling *s, int combinations) {
    static const char *const texts[] = {"a0", "a0 * a2 + a1 * a3", NULL, "((a0 * a4 + a1 * a5) + a2 * a6) + a3 * a7"};
    ImportNode *n = s->n;
    Value *in[2 * UNROLLED];
    int rank = 2 + s->spatial;
    for (int c = 0; c < combinations; c++) {
        Value *index[SPATIAL_MAX], *weight = NULL;
        for (int axis = 0, rest = c; axis < s->spatial; axis++, rest /= s->taps) {
            if (!(index[axis] = tap_index(s, rank, axis, rest % s->taps))) return NULL;
            Value *w = s->taps > 1 ? tap_weight(s, rank, axis, rest % s->taps) : NULL;
            weight = weight && w ? g_map2(&n->b, X_mul, weight, w) : w;
        }
        in[c] = read_taps(s, rank, index);
        if (s->taps > 1) in[combinations + c] = g_cast(&n->b, s->x->type, weight);
    }
    return s->taps == 1 ? in[0] : formula_map(n, texts[combinations - 1], 2 * combinations, in);
}

// "abcdYZ,acdYZ->abcd" over tap axes.
static Value *sum_many(Sampling *s) {
    ImportNode *n = s->n;
    int out = 2 + s->spatial, rank = out + s->spatial;
    Value *index[SPATIAL_MAX], *weight = NULL;
    for (int axis = 0; axis < s->spatial; axis++) s->shape[out + axis] = dim_int(n->dims, s->taps);
    for (int axis = 0; axis < s->spatial; axis++) {
        Value *w = tap_weight(s, rank, axis, -1);
        if (!w || !(index[axis] = tap_index(s, rank, axis, -1))) return NULL;
        weight = weight ? g_map2(&n->b, X_mul, weight, w) : w;
    }
    char all[RANK_MAX + 1], some[RANK_MAX + 1], kept[RANK_MAX + 1];
    for (int i = 0; i < rank; i++) all[i] = (char)('a' + i);
    all[rank] = 0;
    strcpy(kept, all);
    kept[out] = 0;
    some[0] = 'a';
    strcpy(some + 1, all + 2);
    Value *w = g_cast(&n->b, s->x->type, g_squeeze(&n->b, weight, 1));
    return g_contract(&n->b, arena_printf(n->arena, "%s,%s->%s", all, some, kept), read_taps(s, rank, index), w, s->x->type);
}

static bool sampling_mode(Sampling *s) {
    static const struct {
        const char *name;
        int taps;
    } modes[] = {{"nearest", 1}, {"linear", 2}, {"bilinear", 2}, {"cubic", 4}, {"bicubic", 4}};
    const char *mode = attr_string(s->n, "mode"), *padding = attr_string(s->n, "padding_mode");
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(modes[i].name, mode)) s->taps = modes[i].taps;
    s->zeros = !strcmp(padding, "zeros");
    s->reflects = !strcmp(padding, "reflection");
    s->corners = attr_int(s->n, "align_corners") != 0;
    if (!s->taps) return import_fail(s->n, "unknown mode '%s'", mode);
    return s->zeros || s->reflects || !strcmp(padding, "border") || import_fail(s->n, "unknown padding_mode '%s'", padding);
}

bool import_grid_sample(ImportNode *n) {
    Value *x = n->in[0], *grid = n->in[1];
    Sampling s = {.n = n, .spatial = x->rank - 2};
    if (x->rank < 3 || grid->rank != x->rank || s.spatial > SPATIAL_MAX ||
        dim_eq(n->dims, grid->shape[grid->rank - 1], dim_int(n->dims, s.spatial)) != YES)
        return import_fail(n, "%s and the grid %s do not fit", import_shape_text(n, x), import_shape_text(n, grid));
    if (!dtype_is_float(grid->type)) return import_fail(n, "the grid has type %s, a float type is needed", dtype_name(grid->type));
    if (!sampling_mode(&s) || !import_numeric(n, 0)) return false;
    s.x = s.taps == 1 || (dtype_is_float(x->type) && dtype_is_native(x->type)) ? x : g_cast(&n->b, DT_f32, x);
    s.shape[0] = x->shape[0];
    s.shape[1] = x->shape[1];
    for (int i = 0; i < s.spatial; i++) {
        s.shape[2 + i] = grid->shape[1 + i];
        if (!(s.at[i] = coordinate(&s, grid, i, s.taps == 1))) return false;
    }
    int combinations = 1;
    for (int i = 0; i < s.spatial; i++) combinations *= s.taps;
    Value *y = combinations <= UNROLLED ? sum_few(&s, combinations) : sum_many(&s);
    if (y) n->out[0] = g_cast(&n->b, x->type, y);
    return y != NULL;
}
