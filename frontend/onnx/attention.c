// Attention, its rotary position embedding and its caches.
//
// Attention is one core operation whose score body holds soft cap, mask, causality, window and padding; heads in the last axis are split by
// a transposed view, shared key and value heads are read through a view, a cache of past keys and values is a concat in front. Only a
// wanted fourth output, the scores themselves, is computed a second time from ordinary operations with the same body.
#include "attention.h"

#include <math.h>
#include <string.h>

enum { RANK_MAX = GRAPH_MAX_RANK, FURTHER_MAX = 2 };
typedef const Dim *const *DimArray;

typedef struct {
    ImportNode *n;
    Value *q, *k, *v;            // [B, H, S, E], [B, H, T, E], [B, H, T, F]
    const Dim *past;             // keys in front of this call's, 0 without a cache
    Value *further[FURTHER_MAX]; // inputs of the score body from a1 on: the mask, the number of keys that are not padding
    int nfurther, mask, filled;  // argument numbers of those two, 0: none
    const Dim *shape[4];         // [B, H, S, T]
    double scale;
} Attention;

static Value *optional_input(const ImportNode *n, int i) {
    return i < n->nin ? n->in[i] : NULL;
}

static int64_t attr_or(const ImportNode *n, const char *name, int64_t missing) {
    return attr_exists(n, name) ? attr_int(n, name) : missing;
}

// ---- heads ----
// [B, S, H*E] as [B, H, S, E]; rank 4 as it is.
Value *heads_split(ImportNode *n, Value *x, int64_t heads) {
    static const int64_t perm[] = {0, 2, 1, 3};
    if (x->rank == 4) return x;
    if (x->rank != 3) return import_fail(n, "%s has rank %d, 3 or 4 is needed", import_shape_text(n, x), x->rank), NULL;
    if (heads < 1) return import_fail(n, "inputs of rank 3 need q_num_heads and kv_num_heads"), NULL;
    const Dim *h = dim_int(n->dims, heads), *shape[] = {x->shape[0], x->shape[1], h, dim_floordiv(n->dims, x->shape[2], h)};
    int64_t hidden;
    if (dim_is_int(x->shape[2], &hidden) && hidden % heads)
        return import_fail(n, "%ld heads do not divide %s", (long)heads, import_shape_text(n, x)), NULL;
    return g_transpose(&n->b, g_reshape(&n->b, x, 4, shape), perm);
}

Value *heads_join(ImportNode *n, Value *x) {
    static const int64_t perm[] = {0, 2, 1, 3};
    const Dim *shape[] = {x->shape[0], x->shape[2], dim_mul(n->dims, x->shape[1], x->shape[3])};
    return g_reshape(&n->b, g_transpose(&n->b, x, perm), 3, shape);
}

// Each head of x as often as `heads` needs.
Value *heads_share(ImportNode *n, Value *x, const Dim *heads) {
    DimTable *t = n->dims;
    if (dim_eq(t, x->shape[1], heads) == YES) return x;
    const Dim *times = dim_floordiv(t, heads, x->shape[1]);
    if (dim_eq(t, dim_mul(t, times, x->shape[1]), heads) != YES)
        return import_fail(n, "%s key heads do not divide %s query heads", dim_text(t, x->shape[1]), dim_text(t, heads)), NULL;
    const Dim *shape[] = {x->shape[0], heads, x->shape[2], x->shape[3]}, *index[4];
    for (int i = 0; i < 4; i++) index[i] = dim_axis(t, i, shape[i]);
    index[1] = dim_floordiv(t, index[1], times);
    return g_view(&n->b, x, 4, shape, index, 0, NULL, scalar_int(x->type, 0));
}

static Value *with_past(ImportNode *n, Value *past, Value *x) {
    if (!past) return x;
    if (past->rank != 4 || past->type != x->type)
        return import_fail(n, "the past %s does not fit %s", import_shape_text(n, past), import_shape_text(n, x)), NULL;
    for (int i = 0; i < 4; i++)
        if (i != 2 && dim_eq(n->dims, past->shape[i], x->shape[i]) == NO)
            return import_fail(n, "the past %s does not fit %s", import_shape_text(n, past), import_shape_text(n, x)), NULL;
    return g_concat(&n->b, 2, (Value *[]){past, x}, 2);
}

// ---- the score body ----
// A mask may be shorter than the keys: those behind it are masked.
static Value *padded_mask(ImportNode *n, Value *mask, const Dim *keys) {
    int last = mask->rank - 1;
    const Dim *missing = dim_sub(n->dims, keys, mask->shape[last]), *before[RANK_MAX], *after[RANK_MAX];
    if (dim_is(missing, 0)) return mask;
    for (int i = 0; i <= last; i++) before[i] = after[i] = dim_int(n->dims, 0);
    after[last] = dim_max(n->dims, missing, after[last]);
    return g_pad(&n->b, mask, before, after, mask->type == DT_bool ? scalar_int(DT_bool, 0) : scalar_float(mask->type, -INFINITY));
}

// v broadcasts to the shape: an error now where it does not, a check in the run where that is open.
static bool check_spreads(ImportNode *n, const Value *v, int rank, const Dim *const *shape) {
    DimTable *t = n->dims;
    for (int i = 0; i < v->rank; i++) {
        const Dim *here = v->shape[i], *there = shape[rank - v->rank + i], *one = dim_int(t, 1);
        Tri same = dim_eq(t, here, there), single = dim_eq(t, here, one);
        if (same == YES || single == YES) continue;
        if (same == NO && single == NO)
            return import_fail(n, "%s: extent %s does not broadcast to %s", import_shape_text(n, v), dim_text(t, here), dim_text(t, there));
        const Dim *far = dim_max(t, dim_sub(t, here, there), dim_sub(t, there, here)),
                  *more = dim_max(t, dim_sub(t, here, one), dim_sub(t, one, here));
        const Dim *guard = dim_muli(t, dim_min(t, far, more), -1);
        g_check(&n->b, NULL, 1, &guard, CODE_SHAPE);
    }
    return true;
}

static bool add_mask(Attention *a) {
    ImportNode *n = a->n;
    Value *mask = optional_input(n, 3);
    if (!mask) return true;
    if (mask->rank < 1 || mask->rank > 4 || (mask->type != DT_bool && !dtype_is_float(mask->type)))
        return import_fail(n, "%s is no mask", import_shape_text(n, mask));
    mask = padded_mask(n, mask, a->shape[3]);
    if (!check_spreads(n, mask, 4, a->shape)) return false;
    a->further[a->nfurther++] = mask;
    a->mask = a->nfurther;
    return true;
}

static bool add_padding(Attention *a) {
    ImportNode *n = a->n;
    Value *filled = optional_input(n, 6);
    if (!filled) return true;
    if (filled->rank != 1 || !dtype_is_int(filled->type)) return import_fail(n, "%s is no list of lengths", import_shape_text(n, filled));
    filled = g_cast(&n->b, DT_i64, filled);
    for (int i = 0; i < 3; i++) filled = g_unsqueeze(&n->b, filled, filled->rank);
    if (!check_spreads(n, filled, 4, a->shape)) return false;
    a->further[a->nfurther++] = filled;
    a->filled = a->nfurther;
    return true;
}

// What may be seen: conditions on the query's position QUERY among all keys and the key d3.
static void add_conditions(const Attention *a, Str *s) {
    ImportNode *n = a->n;
    int64_t left = attr_or(n, "left_window_size", -1), right = attr_or(n, "right_window_size", -1);
    bool external = a->filled && dim_is(a->past, 0);
    const char *query = external ? arena_printf(n->arena, "(cast.i64(dim(d2 - S)) + a%d)", a->filled) : "cast.i64(dim(d2 + PAST))";
    const char *after = arena_printf(n->arena, "(cast.i64(dim(d3)) - %s)", query);
    if (attr_int(n, "is_causal")) str_printf(s, " & (%s <= 0i64)", after);
    if (left >= 0) str_printf(s, " & (%s >= (-%lldi64))", after, (long long)left);
    if (right >= 0) str_printf(s, " & (%s <= %lldi64)", after, (long long)right);
    if (a->filled) str_printf(s, " & (cast.i64(dim(d3)) < a%d)", a->filled);
}

typedef enum { SCORE_RAW, SCORE_CAPPED, SCORE_MASKED } ScoreStage;

// The text of the score body over a0, the scaled product, up to a stage.
static const char *score_text(const Attention *a, ScoreStage stage) {
    ImportNode *n = a->n;
    DType t = a->q->type == DT_f64 ? DT_f64 : DT_f32;
    double cap = attr_float(n, "softcap");
    Str s = {0}, seen = {0};
    str_add(&s, "a0");
    if (cap > 0 && stage >= SCORE_CAPPED) {
        s.n = 0;
        str_add(&s, "(tanh(a0 / $softcap) * $softcap)");
    }
    if (stage == SCORE_MASKED) {
        bool additive = a->mask && a->further[a->mask - 1]->type != DT_bool;
        if (additive) str_printf(&s, " + cast.%s(a%d)", dtype_name(t), a->mask);
        str_add(&seen, a->mask && !additive ? arena_printf(n->arena, "a%d", a->mask) : "true");
        add_conditions(a, &seen);
    }
    const char *text = arena_strdup(n->arena, s.data);
    if (seen.n && strcmp(seen.data, "true")) text = arena_printf(n->arena, "select(%s, %s, -inf%s)", seen.data, text, dtype_name(t));
    str_free(&s);
    str_free(&seen);
    return text;
}

static const Expr *score_body(const Attention *a, ScoreStage stage) {
    const FormulaDim dims[] = {{"PAST", a->past}, {"S", a->shape[2]}, {0}};
    DType types[1 + FURTHER_MAX] = {a->q->type == DT_f64 ? DT_f64 : DT_f32};
    for (int i = 0; i < a->nfurther; i++) types[1 + i] = a->further[i]->type;
    return formula_body(a->n, score_text(a, stage), 1 + a->nfurther, types, 4, a->shape, dims);
}

// ---- the fourth output ----
static Value *score_map(const Attention *a, Value *products, ScoreStage stage) {
    const Expr *body = score_body(a, stage);
    Value *in[1 + FURTHER_MAX] = {products, a->further[0], a->further[1]};
    return body ? g_map_shape(&a->n->b, stage == SCORE_MASKED ? 1 + a->nfurther : 1, in, body, 4, a->shape) : NULL;
}

// Softmax in which a row of minus infinities gives zeros.
static Value *probabilities(ImportNode *n, Value *x) {
    const int64_t last = x->rank - 1;
    Value *in[] = {x, g_reduce(&n->b, "max", x, 1, &last, true)};
    Value *e = formula_map(n, "exp(a0 - select(a1 == (-inf$T), 0.0$T, a1))", 2, in);
    if (!e) return NULL;
    Value *share[] = {e, g_reduce(&n->b, "sum", e, 1, &last, true)};
    return formula_map(n, "a0 / select(a1 == 0.0$T, 1.0$T, a1)", 2, share);
}

static Value *scores_output(const Attention *a) {
    ImportNode *n = a->n;
    int64_t mode = attr_int(n, "qk_matmul_output_mode");
    if (mode < 0 || mode > 3) return import_fail(n, "unknown qk_matmul_output_mode %ld", (long)mode), NULL;
    DType t = a->q->type == DT_f64 ? DT_f64 : DT_f32;
    Value *products = g_contract(&n->b, "bhse,bhte->bhst", g_cast(&n->b, t, a->q), g_cast(&n->b, t, a->k), t);
    products = g_map2(&n->b, X_mul, products, g_const_float(&n->b, t, a->scale));
    Value *y = score_map(a, products, mode == 0 ? SCORE_RAW : mode == 1 ? SCORE_CAPPED : SCORE_MASKED);
    if (y && mode == 3) y = probabilities(n, y);
    return y ? g_cast(&n->b, a->q->type, y) : NULL;
}

// ---- Attention ----
static bool attention_operands(Attention *a) {
    ImportNode *n = a->n;
    int64_t heads = attr_int(n, "q_num_heads"), kv_heads = attr_int(n, "kv_num_heads");
    Value *past_k = optional_input(n, 4), *past_v = optional_input(n, 5);
    if (!import_same_types(n, 0, 2) || !dtype_is_float(n->in[0]->type)) return false;
    if (!past_k != !past_v) return import_fail(n, "past_key and past_value go together");
    a->q = heads_split(n, n->in[0], heads);
    a->k = a->q ? heads_split(n, n->in[1], kv_heads) : NULL;
    a->v = a->k ? heads_split(n, n->in[2], kv_heads) : NULL;
    a->k = a->v ? with_past(n, past_k, a->k) : NULL;
    a->v = a->k ? with_past(n, past_v, a->v) : NULL;
    if (!a->v) return false;
    a->past = past_k ? past_k->shape[2] : dim_int(n->dims, 0);
    for (int i = 0; i < 2; i++) n->out[1 + i] = n->nout > 1 + i && n->wanted[1 + i] ? i ? a->v : a->k : NULL;
    a->k = heads_share(n, a->k, a->q->shape[1]);
    a->v = a->k ? heads_share(n, a->v, a->q->shape[1]) : NULL;
    return a->v != NULL;
}

static bool check_operands(const Attention *a) {
    ImportNode *n = a->n;
    bool fits = dim_eq(n->dims, a->q->shape[3], a->k->shape[3]) != NO && dim_eq(n->dims, a->k->shape[2], a->v->shape[2]) != NO;
    fits = fits && dim_eq(n->dims, a->q->shape[0], a->k->shape[0]) != NO && dim_eq(n->dims, a->k->shape[0], a->v->shape[0]) != NO;
    return fits || import_fail(n, "query %s, key %s and value %s do not fit", import_shape_text(n, a->q), import_shape_text(n, a->k),
                       import_shape_text(n, a->v));
}

static bool attention_scale(Attention *a) {
    int64_t width;
    a->scale = attr_float(a->n, "scale");
    if (a->scale != 0) return true;
    if (!dim_is_int(a->q->shape[3], &width)) return import_unsupported(a->n, "a head size that is not constant");
    a->scale = 1 / sqrt((double)width);
    return true;
}

bool import_attention(ImportNode *n) {
    Attention a = {.n = n};
    if (!attention_operands(&a) || !check_operands(&a)) return false;
    const Dim *shape[] = {a.q->shape[0], a.q->shape[1], a.q->shape[2], a.k->shape[2]};
    memcpy(a.shape, shape, sizeof shape);
    if (!attention_scale(&a) || !add_mask(&a) || !add_padding(&a)) return false;
    const Expr *score = score_body(&a, SCORE_MASKED);
    if (!score) return false;
    Value *in[3 + FURTHER_MAX] = {a.q, a.k, a.v, a.further[0], a.further[1]};
    Value *y = g_attention(&n->b, 3 + a.nfurther, in, score, NULL, a.scale);
    n->out[0] = n->in[0]->rank == 3 ? heads_join(n, y) : y;
    if (n->nout > 3 && n->wanted[3] && !(n->out[3] = scores_output(&a))) return false;
    return true;
}

// ---- FlexAttention: the scores and the probabilities each go through a graph of the model's ----
static Value *through_graph(ImportNode *n, const char *name, Value *x) {
    if (!attr_has(n, name)) return x;
    Value **outs;
    int nouts;
    if (!attr_inline(n, name, 1, &x, &nouts, &outs)) return NULL;
    bool fits = nouts == 1 && outs[0]->rank == x->rank && dtype_is_float(outs[0]->type);
    for (int i = 0; fits && i < x->rank; i++) fits = dim_eq(n->dims, outs[0]->shape[i], x->shape[i]) != NO;
    if (!fits) return import_fail(n, "%s does not give one tensor like its input", name), NULL;
    return g_cast(&n->b, x->type, outs[0]);
}

bool import_flex_attention(ImportNode *n) {
    Attention a = {.n = n};
    int64_t last = 3;
    if (!import_same_types(n, 0, 2) || !dtype_is_float(n->in[0]->type)) return false;
    for (int i = 0; i < 3; i++)
        if (n->in[i]->rank != 4) return import_fail(n, "input %d has rank %d, 4 is needed", i, n->in[i]->rank);
    a.q = n->in[0];
    a.k = heads_share(n, n->in[1], a.q->shape[1]);
    a.v = a.k ? heads_share(n, n->in[2], a.q->shape[1]) : NULL;
    if (!a.v || !check_operands(&a) || !attention_scale(&a)) return false;
    DType t = a.q->type == DT_f64 ? DT_f64 : DT_f32;
    Value *scores = g_contract(&n->b, "bhse,bhte->bhst", g_cast(&n->b, t, a.q), g_cast(&n->b, t, a.k), t);
    scores = through_graph(n, "score_mod", g_map2(&n->b, X_mul, scores, g_const_float(&n->b, t, a.scale)));
    Value *p = scores ? through_graph(n, "prob_mod", g_softmax(&n->b, "softmax", scores, 1, &last)) : NULL;
    if (p) n->out[0] = g_cast(&n->b, a.q->type, g_contract(&n->b, "bhst,bhtf->bhsf", p, g_cast(&n->b, t, a.v), t));
    return p != NULL;
}

// ---- RotaryEmbedding ----
// Rows of a cache at the positions: [B, S, R/2]; without positions the cache has that shape.
Value *cache_rows(ImportNode *n, Value *cache, Value *positions) {
    if (!positions) return cache;
    if (cache->rank != 2 || positions->rank != 2 || !dtype_is_int(positions->type))
        return import_fail(n, "cache %s and positions %s do not fit", import_shape_text(n, cache), import_shape_text(n, positions)), NULL;
    DimTable *t = n->dims;
    const Dim *shape[] = {positions->shape[0], positions->shape[1], cache->shape[1]}, *v = dim_symbol(t, "v0", SYM_DATA, NULL, NULL);
    const Dim *index[] = {v, dim_axis(t, 2, shape[2])};
    Value *at = g_unsqueeze(&n->b, positions, 2);
    return g_gather(&n->b, cache, 1, &at, &v, 3, shape, index, 0, NULL, scalar_int(cache->type, 0));
}

static Value *last_axis_part(ImportNode *n, Value *x, const Dim *start, const Dim *len, int64_t step) {
    return g_slice(&n->b, x, x->rank - 1, start, len, step);
}

// x[B, H, S, D] turned by the angles; the first `turned` elements of D, in halves or in pairs.
Value *rotated(ImportNode *n, Value *x, Value *cos, Value *sin, const Dim *turned, bool pairs) {
    DimTable *t = n->dims;
    const Dim *half = dim_floordiv(t, turned, dim_int(t, 2)), *zero = dim_int(t, 0);
    Value *a = last_axis_part(n, x, zero, half, pairs ? 2 : 1),
          *b = last_axis_part(n, x, pairs ? dim_int(t, 1) : half, half, pairs ? 2 : 1);
    Value *in[] = {a, b, g_unsqueeze(&n->b, cos, 1), g_unsqueeze(&n->b, sin, 1)};
    Value *parts[3] = {formula_map(n, "a0 * a2 - a1 * a3", 4, in), formula_map(n, "a0 * a3 + a1 * a2", 4, in)};
    if (!parts[0] || !parts[1]) return NULL;
    Value *y;
    if (pairs) {
        for (int i = 0; i < 2; i++) parts[i] = g_unsqueeze(&n->b, parts[i], 4);
        const Dim *shape[] = {x->shape[0], x->shape[1], x->shape[2], turned};
        y = g_reshape(&n->b, g_concat(&n->b, 2, parts, 4), 4, shape);
    } else {
        y = g_concat(&n->b, 2, parts, 3);
    }
    const Dim *rest = dim_sub(t, x->shape[3], turned);
    if (dim_is(rest, 0)) return y;
    return g_concat(&n->b, 2, (Value *[]){y, last_axis_part(n, x, turned, rest, 1)}, 3);
}

static bool rotary_embedding(ImportNode *n, Value *cos, Value *sin, Value *positions, int64_t heads) {
    Value *x = heads_split(n, n->in[0], heads);
    cos = x ? cache_rows(n, cos, positions) : NULL;
    sin = cos ? cache_rows(n, sin, positions) : NULL;
    if (!sin) return false;
    int64_t turned = attr_int(n, "rotary_embedding_dim");
    const Dim *width = turned > 0 ? dim_int(n->dims, turned) : x->shape[3];
    if (turned < 0 || turned % 2 || dim_ge0(n->dims, dim_sub(n->dims, x->shape[3], width)) == NO)
        return import_fail(n, "rotary_embedding_dim is %ld, heads have %s", (long)turned, dim_text(n->dims, x->shape[3]));
    if (cos->rank != 3 || sin->rank != 3 || dim_eq(n->dims, dim_muli(n->dims, cos->shape[2], 2), width) == NO)
        return import_fail(n, "the cache %s does not fit a rotation of %s", import_shape_text(n, cos), dim_text(n->dims, width));
    Value *y = rotated(n, x, cos, sin, width, attr_int(n, "interleaved") != 0);
    if (y) n->out[0] = n->in[0]->rank == 3 ? heads_join(n, y) : y;
    return y != NULL;
}

bool import_rotary_embedding(ImportNode *n) {
    if (!import_same_types(n, 0, 2) || !import_numeric(n, 0)) return false;
    return rotary_embedding(n, n->in[1], n->in[2], optional_input(n, 3), attr_int(n, "num_heads"));
}

// com.microsoft's: positions come second and may be one offset for all; the number of heads may follow from the caches' width.
bool import_rotary_embedding_ms(ImportNode *n) {
    Value *x = n->in[0], *at = n->in[1];
    int64_t heads = attr_int(n, "num_heads"), hidden, half;
    if (!import_same_types(n, 2, 3) || n->in[2]->type != x->type) return import_fail(n, "the caches have another type than the input");
    if (!dtype_is_float(x->type)) return import_fail(n, "input has type %s, a float type is needed", dtype_name(x->type));
    if (attr_int(n, "is_packed_batching")) return import_unsupported(n, "is_packed_batching");
    if (attr_float(n, "scale") != 1) return import_unsupported(n, "a scale");
    bool sized =
        x->rank == 3 && n->in[2]->rank == 2 && dim_is_int(x->shape[2], &hidden) && dim_is_int(n->in[2]->shape[1], &half) && half > 0;
    if (heads == 0 && sized) heads = hidden / (2 * half);
    if (at->rank == 1 && (x->rank == 3 || x->rank == 4)) {
        const Dim *shape[] = {x->shape[0], x->shape[x->rank - 2]};
        at = g_cast(&n->b, DT_i64, g_reshape(&n->b, at, 0, NULL));
        if (!(at = formula_tensor(n, "a0 + cast.i64(dim(d1))", 1, &at, 2, shape, NULL))) return false;
    }
    return rotary_embedding(n, n->in[2], n->in[3], at, heads);
}

// ---- TensorScatter ----
// cache[b, …, start[b] + s, …] = update[b, …, s, …], around the axis's end in circular mode.
bool import_tensor_scatter(ImportNode *n) {
    Value *cache = n->in[0], *update = n->in[1], *start = optional_input(n, 2);
    DimTable *t = n->dims;
    int axis;
    bool circular = !strcmp(attr_string(n, "mode"), "circular");
    if (!import_same_types(n, 0, 1) || !import_axis(n, attr_int(n, "axis"), cache->rank, &axis)) return false;
    bool listed = !start || (start->rank == 1 && dtype_is_int(start->type));
    if (!import_numeric(n, 0)) return false;
    if (update->rank != cache->rank || axis == 0 || !listed)
        return import_fail(n, "%s does not fit %s", import_shape_text(n, update), import_shape_text(n, cache));
    const Dim *index[RANK_MAX], *v = dim_symbol(t, "v0", SYM_DATA, NULL, NULL);
    for (int i = 0; i < cache->rank; i++) index[i] = dim_axis(t, i, update->shape[i]);
    if (start) index[axis] = dim_add(t, index[axis], v);
    if (circular) index[axis] = dim_mod(t, index[axis], cache->shape[axis]);
    for (int i = 1; start && i < cache->rank; i++) start = g_unsqueeze(&n->b, start, start->rank);
    n->out[0] = g_scatter(&n->b, cache, update, start ? 1 : 0, &start, &v, index, 0, NULL, "set");
    return true;
}
