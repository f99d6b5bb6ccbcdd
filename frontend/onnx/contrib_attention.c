// Attention of com.microsoft: with its projections (Attention, QAttention), without (MultiHeadAttention), with shared heads and a cache that
// grows in place (GroupQueryAttention). All end in the core attention; the score body holds biases, masks and causality.
//
// Integer masks add mask_filter_value to what they hide, as ONNX Runtime does, so a row that is hidden wholly is the mean of all; causality
// hides altogether.
#include "attention.h"
#include "quant.h"
#include "window.h"

#include <math.h>
#include <string.h>

enum { FURTHER_MAX = 4 };
typedef const Dim *const *DimArray;

static Value *optional_input(const ImportNode *n, int i) {
    return i < n->nin ? n->in[i] : NULL;
}

typedef struct {
    ImportNode *n;
    Value *q, *k, *v;            // [B, H, S, E], [B, H, T, E], [B, H, T, F]
    Value *further[FURTHER_MAX]; // inputs of the score body from a1 on
    int nfurther;
    const Dim *past; // keys in front of this call's
    double scale;    // 0: 1/sqrt(E)
    Str sum, seen;   // what is added to a score; conditions under which it counts
} Core;

static int add_further(Core *c, Value *v) {
    c->further[c->nfurther] = v;
    return ++c->nfurther;
}

// A value of the given shape up to axes of 1: false after a fault.
static bool spreads(const Core *c, const char *what, const Value *v) {
    ImportNode *n = c->n;
    const Dim *want[] = {c->q->shape[0], c->q->shape[1], c->q->shape[2], c->k->shape[2]};
    if (v->rank != 4) return import_fail(n, "%s is %s, rank 4 is needed", what, import_shape_text(n, v));
    for (int i = 0; i < 4; i++)
        if (!dim_is(v->shape[i], 1) && dim_eq(n->dims, v->shape[i], want[i]) == NO)
            return import_fail(n, "%s is %s, at axis %d %s is needed", what, import_shape_text(n, v), i, dim_text(n->dims, want[i]));
    return true;
}

static bool add_bias(Core *c, Value *bias) {
    if (!bias) return true;
    if (!dtype_is_float(bias->type)) return import_fail(c->n, "the attention bias has type %s", dtype_name(bias->type));
    if (!spreads(c, "the attention bias", bias)) return false;
    str_printf(&c->sum, " + cast.$T(a%d)", add_further(c, bias));
    return true;
}

// An integer mask: [B] lengths, [2B] ends and then starts, [B, T] or [B, S, T] of flags.
static bool add_mask(Core *c, Value *mask, double filter) {
    ImportNode *n = c->n;
    DimTable *t = n->dims;
    const Dim *batch = c->q->shape[0];
    if (!mask) return true;
    if (!dtype_is_int(mask->type) && mask->type != DT_bool) return import_fail(n, "the mask has type %s", dtype_name(mask->type));
    Str hidden = {0};
    if (mask->rank == 1) {
        bool starts = dim_eq(t, mask->shape[0], batch) == NO;
        if (starts && dim_eq(t, mask->shape[0], dim_muli(t, batch, 2)) == NO)
            return import_unsupported(n, "a mask %s", import_shape_text(n, mask));
        for (int i = 0; i <= starts; i++) {
            Value *ends = g_cast(&n->b, DT_i64, g_slice(&n->b, mask, 0, dim_muli(t, batch, i), batch, 1));
            for (int k = 0; k < 3; k++) ends = g_unsqueeze(&n->b, ends, ends->rank);
            str_printf(&hidden, i ? " | (cast.i64(dim(d3)) < a%d)" : "(cast.i64(dim(d3)) >= a%d)", add_further(c, ends));
        }
    } else {
        if (mask->rank != 2 && mask->rank != 3) return import_unsupported(n, "a mask %s", import_shape_text(n, mask));
        mask = g_cast(&n->b, DT_i32, mask);
        while (mask->rank < 4) mask = g_unsqueeze(&n->b, mask, 1);
        if (!spreads(c, "the mask", mask)) return false;
        str_printf(&hidden, "a%d <= 0", add_further(c, mask));
    }
    str_printf(&c->sum, " + select(%s, ", hidden.data);
    str_add(&c->sum, filter < 0 ? "neg(" : "(");
    str_add_f64(&c->sum, fabs(filter));
    str_add(&c->sum, "$T), 0.0$T)");
    str_free(&hidden);
    return true;
}

static void add_causal(Core *c) {
    str_add(&c->seen, " & (dim(d3) <= dim(d2 + PAST))");
}

// The attention itself: [B, H, S, F]; NULL after a fault. Frees the texts.
static Value *attend(Core *c, double softcap) {
    ImportNode *n = c->n;
    DType t = c->q->type == DT_f64 ? DT_f64 : DT_f32, types[1 + FURTHER_MAX] = {t};
    const Dim *shape[] = {c->q->shape[0], c->q->shape[1], c->q->shape[2], c->k->shape[2]};
    const FormulaDim dims[] = {{"PAST", c->past}, {"S", c->q->shape[2]}, {0}};
    Value *in[3 + FURTHER_MAX] = {c->q, c->k, c->v};
    int64_t width;
    double scale = c->scale;
    if (scale == 0 && !dim_is_int(c->q->shape[3], &width)) return import_unsupported(n, "a head size that is not constant"), NULL;
    if (scale == 0) scale = 1 / sqrt((double)width);
    for (int i = 0; i < c->nfurther; i++) in[3 + i] = c->further[i], types[1 + i] = c->further[i]->type;
    const char *score = softcap > 0 ? "tanh(a0 / $softcap) * $softcap" : "a0";
    const char *text = arena_printf(n->arena, "%s%s", score, c->sum.n ? c->sum.data : "");
    if (c->seen.n) text = arena_printf(n->arena, "select(true%s, %s, -inf$T)", c->seen.data, text);
    str_free(&c->sum);
    str_free(&c->seen);
    const Expr *body = formula_body(n, text, 1 + c->nfurther, types, 4, shape, dims);
    return body ? g_attention(&n->b, 3 + c->nfurther, in, body, NULL, scale) : NULL;
}

static bool check_operands(const Core *c) {
    ImportNode *n = c->n;
    DimTable *t = n->dims;
    const Value *q = c->q, *k = c->k, *v = c->v;
    bool fits = dim_eq(t, q->shape[3], k->shape[3]) != NO && dim_eq(t, k->shape[2], v->shape[2]) != NO;
    for (int i = 0; i < 2; i++) fits = fits && dim_eq(t, q->shape[i], k->shape[i]) != NO && dim_eq(t, k->shape[i], v->shape[i]) != NO;
    return fits || import_fail(n, "query %s, key %s and value %s do not fit", import_shape_text(n, q), import_shape_text(n, k),
                       import_shape_text(n, v));
}

// The past in front of keys or values; NULL after a fault.
static Value *behind_past(ImportNode *n, Value *past, Value *x) {
    if (!past) return x;
    bool fits = past->rank == 4 && past->type == x->type;
    for (int i = 0; fits && i < 4; i++) fits = i == 2 || dim_eq(n->dims, past->shape[i], x->shape[i]) != NO;
    if (!fits) return import_fail(n, "the past %s does not fit %s", import_shape_text(n, past), import_shape_text(n, x)), NULL;
    return g_concat(&n->b, 2, (Value *[]){past, x}, 2);
}

// ---- Attention, QAttention ----
// Half `i` of a past [2, B, H, P, E].
static Value *half(ImportNode *n, Value *past, int i) {
    return g_squeeze(&n->b, g_slice(&n->b, past, 0, dim_of(n, i), dim_of(n, 1), 1), 0);
}

// Sizes of query, key and value in the projection's last axis.
static bool projected_sizes(ImportNode *n, const Dim *all, const Dim **size) {
    IntList given = attr_exists(n, "qkv_hidden_sizes") ? attr_ints(n, "qkv_hidden_sizes") : (IntList){0};
    int64_t width;
    if (given.n && given.n != 3) return import_fail(n, "qkv_hidden_sizes has %d entries, 3 are needed", given.n);
    if (!given.n && dim_is_int(all, &width) && width % 3)
        return import_fail(n, "%lld columns of weights are no multiple of 3", (long long)width);
    const Dim *sum = dim_of(n, 0);
    for (int i = 0; i < 3; i++) {
        size[i] = given.n ? dim_of(n, given.data[i]) : dim_floordiv(n->dims, all, dim_of(n, 3));
        sum = dim_add(n->dims, sum, size[i]);
    }
    return dim_eq(n->dims, sum, all) != NO ||
           import_fail(n, "qkv_hidden_sizes adds up to %s, the weights have %s columns", dim_text(n->dims, sum), dim_text(n->dims, all));
}

// From the projection [B, S, Q + K + V]; `past` and `bias` may be NULL.
static bool projected(ImportNode *n, Value *qkv, Value *mask, Value *past, Value *bias) {
    Core c = {.n = n, .past = dim_of(n, 0), .scale = attr_float(n, "scale")};
    const Dim *size[3], *start = dim_of(n, 0);
    int64_t heads = attr_int(n, "num_heads");
    Value *parts[3];
    if (attr_int(n, "do_rotary")) return import_unsupported(n, "do_rotary");
    if (attr_int(n, "past_present_share_buffer")) return import_unsupported(n, "past_present_share_buffer");
    if (past && (past->rank != 5 || !dim_is(past->shape[0], 2))) return import_fail(n, "the past is %s", import_shape_text(n, past));
    if (!projected_sizes(n, qkv->shape[2], size)) return false;
    for (int i = 0; i < 3; i++) {
        if (!(parts[i] = heads_split(n, g_slice(&n->b, qkv, 2, start, size[i], 1), heads))) return false;
        start = dim_add(n->dims, start, size[i]);
        if (i && !(parts[i] = behind_past(n, past ? half(n, past, i - 1) : NULL, parts[i]))) return false;
    }
    c.q = parts[0], c.k = parts[1], c.v = parts[2];
    if (past) c.past = past->shape[3];
    if (!check_operands(&c) || !add_mask(&c, mask, attr_float(n, "mask_filter_value")) || !add_bias(&c, bias)) return false;
    if (attr_int(n, "unidirectional")) add_causal(&c);
    Value *y = attend(&c, 0);
    if (!y) return false;
    n->out[0] = heads_join(n, y);
    if (n->nout > 1 && n->wanted[1]) {
        if (dim_eq(n->dims, c.k->shape[3], c.v->shape[3]) != YES)
            return import_fail(n, "keys and values differ in size, there is no present");
        n->out[1] = g_concat(&n->b, 2, (Value *[]){g_unsqueeze(&n->b, c.k, 0), g_unsqueeze(&n->b, c.v, 0)}, 0);
    }
    return true;
}

static bool projection_fits(ImportNode *n, int weights, int bias) {
    const Value *x = n->in[0], *w = n->in[weights];
    if (!import_rank(n, 0, 3) || !import_rank(n, weights, 2) || !import_rank(n, bias, 1)) return false;
    if (dim_eq(n->dims, x->shape[2], w->shape[0]) == NO)
        return import_fail(n, "%s and weights %s do not multiply", import_shape_text(n, x), import_shape_text(n, w));
    return import_shape_is(n, bias, 1, (DimArray)w->shape + 1);
}

bool import_packed_attention(ImportNode *n) {
    Value *x = n->in[0], *bias = optional_input(n, 2);
    if (!import_same_types(n, 0, 2) || !projection_fits(n, 1, 2)) return false;
    if (!dtype_is_float(x->type)) return import_fail(n, "input has type %s, a float type is needed", dtype_name(x->type));
    if (optional_input(n, 6)) return import_unsupported(n, "past_sequence_length");
    Value *wide = import_widened(n, x), *y = g_contract(&n->b, "bsi,io->bso", wide, import_widened(n, n->in[1]), wide->type);
    if (bias) y = g_map2(&n->b, X_add, y, import_widened(n, bias));
    return projected(n, g_cast(&n->b, x->type, y), optional_input(n, 3), optional_input(n, 4), optional_input(n, 5));
}

bool import_qattention(ImportNode *n) {
    Value *zx = optional_input(n, 6), *zw = optional_input(n, 7);
    if (!check_kinds(n, "qqfff") || !projection_fits(n, 1, 2)) return false;
    Value *params[] = {n->in[3], n->in[4], zx, zw};
    for (int i = 0; i < 4; i++)
        if (params[i] && dim_is(value_size(n->b.g, params[i]), 1)) params[i] = g_reshape(&n->b, params[i], 0, NULL);
    Value *acc = g_contract(&n->b, "bsi,io->bso", centred(n, n->in[0], params[2]), centred(n, n->in[1], params[3]), DT_i32);
    Value *in[] = {acc, g_cast(&n->b, DT_f32, params[0]), g_cast(&n->b, DT_f32, params[1]), g_cast(&n->b, DT_f32, n->in[2])};
    Value *y = formula_map(n, "cast.f32(a0) * (a1 * a2) + a3", 4, in);
    return y && projected(n, g_cast(&n->b, n->in[2]->type, y), optional_input(n, 5), optional_input(n, 8), NULL);
}

// ---- MultiHeadAttention ----
// Part `i` of [B, T, H, parts, E] as [B, H, T, E].
static Value *packed_part(ImportNode *n, Value *x, int i) {
    static const int64_t perm[] = {0, 2, 1, 3};
    return g_transpose(&n->b, g_squeeze(&n->b, g_slice(&n->b, x, 3, dim_of(n, i), dim_of(n, 1), 1), 3), perm);
}

// Part `i` of the bias [3 * hidden] added to heads.
static Value *with_bias(ImportNode *n, Value *x, const Dim *start) {
    const Dim *heads = x->shape[1], *split[] = {heads, dim_of(n, 1), x->shape[3]}, *len = dim_mul(n->dims, heads, x->shape[3]);
    Value *bias = g_reshape(&n->b, g_slice(&n->b, n->in[3], 0, start, len, 1), 3, split);
    return g_cast(&n->b, x->type, g_map2(&n->b, X_add, import_widened(n, x), import_widened(n, bias)));
}

static bool multi_head_operands(Core *c) {
    ImportNode *n = c->n;
    int64_t heads = attr_int(n, "num_heads");
    Value *q = n->in[0], *k = optional_input(n, 1), *v = optional_input(n, 2);
    if (!import_same_types(n, 0, 3) || !dtype_is_float(q->type)) return import_fail(n, "input has type %s", dtype_name(q->type));
    if (!k && q->rank == 5) {
        c->q = packed_part(n, q, 0), c->k = packed_part(n, q, 1), c->v = packed_part(n, q, 2);
    } else if (k && !v && k->rank == 5) {
        c->q = heads_split(n, q, heads), c->k = packed_part(n, k, 0), c->v = packed_part(n, k, 1);
    } else if (k && v) {
        c->q = heads_split(n, q, heads);
        c->k = c->q ? heads_split(n, k, heads) : NULL;
        c->v = c->k ? heads_split(n, v, heads) : NULL;
    } else {
        return import_fail(n, "query %s needs a key and a value", import_shape_text(n, q));
    }
    if (!c->q || !c->k || !c->v) return false;
    if (!optional_input(n, 3)) return true;
    const Dim *hidden = dim_mul(n->dims, c->q->shape[1], c->q->shape[3]), *values = dim_mul(n->dims, c->v->shape[1], c->v->shape[3]);
    const Dim *whole = dim_add(n->dims, dim_muli(n->dims, hidden, 2), values);
    if (!import_shape_is(n, 3, 1, &whole)) return false;
    c->q = with_bias(n, c->q, dim_of(n, 0));
    c->k = with_bias(n, c->k, hidden);
    c->v = with_bias(n, c->v, dim_muli(n->dims, hidden, 2));
    return true;
}

bool import_multi_head_attention(ImportNode *n) {
    Core c = {.n = n, .past = dim_of(n, 0), .scale = attr_float(n, "scale")};
    Value *past[] = {optional_input(n, 6), optional_input(n, 7)};
    if (optional_input(n, 8) || optional_input(n, 9)) return import_unsupported(n, "past_sequence_length and cache_indirection");
    if (n->nout > 3 && n->wanted[3]) return import_unsupported(n, "the output qk");
    if (!past[0] != !past[1]) return import_fail(n, "past_key and past_value go together");
    if (!multi_head_operands(&c)) return false;
    c.k = behind_past(n, past[0], c.k);
    c.v = c.k ? behind_past(n, past[1], c.v) : NULL;
    if (!c.v || !check_operands(&c)) return false;
    if (past[0]) c.past = past[0]->shape[2];
    if (!add_mask(&c, optional_input(n, 4), attr_float(n, "mask_filter_value")) || !add_bias(&c, optional_input(n, 5))) return false;
    if (attr_int(n, "unidirectional")) add_causal(&c);
    n->out[1] = c.k;
    n->out[2] = c.v;
    Value *y = attend(&c, 0);
    if (y) n->out[0] = heads_join(n, y);
    return y != NULL;
}

// ---- GroupQueryAttention ----
typedef struct {
    Core core;
    const Dim *total; // keys of the longest row, as an input says
    Value *before;    // i64[B, 1]: keys of each row before this call's
} Group;

static bool group_supported(ImportNode *n) {
    static const char *const attributes[] = {"smooth_softmax", "qk_output", "kv_cache_bit_width", "sliding_window_cache"};
    static const char *const inputs[] = {"head_sink", "k_scale", "v_scale", "q_norm_weight", "k_norm_weight", "query_seqlens"};
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attr_int(n, attributes[i])) return import_unsupported(n, "the attribute %s", attributes[i]);
    for (int i = 11; i < n->nin; i++)
        if (n->in[i]) return import_unsupported(n, "the input %s", inputs[i - 11]);
    if (strcmp(attr_string(n, "k_quant_type"), "NONE") || strcmp(attr_string(n, "v_quant_type"), "NONE"))
        return import_unsupported(n, "a quantised cache");
    return (n->nout < 4 || !n->wanted[3]) || import_unsupported(n, "the output qk");
}

// Query, keys and values, each with its heads, out of one tensor or three.
static bool group_operands(Group *g, Value **part) {
    ImportNode *n = g->core.n;
    int64_t heads = attr_int(n, "num_heads"), shared = attr_int(n, "kv_num_heads"), hidden;
    if (heads < 1 || shared < 1 || heads % shared)
        return import_fail(n, "%lld heads and %lld of keys", (long long)heads, (long long)shared);
    if (!import_rank(n, 0, 3) || !dtype_is_float(n->in[0]->type) || !import_same_types(n, 0, 2))
        return import_fail(n, "the query is %s", import_shape_text(n, n->in[0]));
    for (int i = 0; i < 3; i++) part[i] = n->in[i];
    if (!n->in[1] != !n->in[2]) return import_fail(n, "key and value go together");
    if (!n->in[1]) {
        if (!dim_is_int(n->in[0]->shape[2], &hidden) || hidden % (heads + 2 * shared))
            return import_fail(n, "%s does not hold %lld heads", import_shape_text(n, n->in[0]), (long long)(heads + 2 * shared));
        const Dim *width = dim_of(n, hidden / (heads + 2 * shared)), *start = dim_of(n, 0);
        for (int i = 0; i < 3; i++) {
            const Dim *len = dim_muli(n->dims, width, i ? shared : heads);
            part[i] = g_slice(&n->b, n->in[0], 2, start, len, 1);
            start = dim_add(n->dims, start, len);
        }
    }
    for (int i = 0; i < 3; i++)
        if (!(part[i] = heads_split(n, part[i], i ? shared : heads))) return false;
    return true;
}

// A row's keys before this call's: none in a prompt, where all keys are this call's, else its keys in all minus this call's.
static bool group_lengths(Group *g, const Dim *batch, const Dim *steps) {
    ImportNode *n = g->core.n;
    Value *last = n->in[5];
    if (!(g->total = import_extent(n, 6, 1))) return false;
    if (!dtype_is_int(last->type) || dim_eq(n->dims, value_size(n->b.g, last), batch) == NO)
        return import_fail(n, "seqlens_k is %s, one for each of %s rows is needed", import_shape_text(n, last), dim_text(n->dims, batch));
    const Dim *shape[] = {batch, dim_of(n, 1)};
    const FormulaDim dims[] = {{"S", steps}, {"TOTAL", g->total}, {0}};
    last = g_reshape(&n->b, g_cast(&n->b, DT_i64, last), 2, shape);
    g->before = formula_tensor(n, "select(dim(S) == dim(TOTAL), 0i64, a0 + 1i64 - cast.i64(dim(S)))", 1, &last, 2, shape, dims);
    return g->before != NULL;
}

static bool group_rotation(Group *g, Value **part) {
    ImportNode *n = g->core.n;
    Value *cos = optional_input(n, 7), *sin = optional_input(n, 8), *at = optional_input(n, 9);
    if (!attr_int(n, "do_rotary")) return true;
    if (!cos || !sin) return import_fail(n, "do_rotary needs cos_cache and sin_cache");
    const Dim *shape[] = {part[0]->shape[0], part[0]->shape[2]};
    if (!at) at = formula_tensor(n, "a0 + cast.i64(dim(d1))", 1, &g->before, 2, shape, NULL);
    cos = at ? cache_rows(n, cos, at) : NULL;
    sin = cos ? cache_rows(n, sin, at) : NULL;
    if (!sin) return false;
    const Dim *turned = dim_muli(n->dims, cos->shape[2], 2);
    for (int i = 0; i < 2; i++)
        if (!(part[i] = rotated(n, part[i], cos, sin, turned, attr_int(n, "rotary_interleaved") != 0))) return false;
    return true;
}

// The cache with x [B, H, S, E] written behind each row's keys: [B, H, max(P, total), E].
static Value *grown(const Group *g, Value *past, Value *x) {
    ImportNode *n = g->core.n;
    DimTable *t = n->dims;
    bool fits = !past || (past->rank == 4 && past->type == x->type);
    for (int i = 0; past && fits && i < 4; i++) fits = i == 2 || dim_eq(t, past->shape[i], x->shape[i]) != NO;
    if (!fits) return import_fail(n, "the past %s does not fit %s", import_shape_text(n, past), import_shape_text(n, x)), NULL;
    const Dim *length = past ? dim_max(t, past->shape[2], g->total) : g->total, *v = dim_symbol(t, "v0", SYM_DATA, NULL, NULL);
    const Dim *shape[] = {x->shape[0], x->shape[1], length, x->shape[3]}, *index[4], *zero[4], *after[4];
    for (int i = 0; i < 4; i++) index[i] = dim_axis(t, i, x->shape[i]), zero[i] = after[i] = dim_of(n, 0);
    index[2] = dim_add(t, index[2], v);
    if (past) after[2] = dim_sub(t, length, past->shape[2]);
    Value *base =
        past ? g_pad(&n->b, past, zero, after, scalar_int(x->type, 0)) : g_map_shape(&n->b, 0, NULL, x_int(n->arena, x->type, 0), 4, shape);
    Value *at = g_unsqueeze(&n->b, g_unsqueeze(&n->b, g->before, 2), 3);
    return g_scatter(&n->b, base, x, 1, &at, &v, index, 0, NULL, "set");
}

bool import_group_query_attention(ImportNode *n) {
    Group g = {.core = {.n = n, .past = dim_of(n, 0), .scale = attr_float(n, "scale")}};
    Core *c = &g.core;
    Value *part[3], *past[] = {n->in[3], n->in[4]};
    if (!group_supported(n) || !group_operands(&g, part)) return false;
    if (!past[0] != !past[1]) return import_fail(n, "past_key and past_value go together");
    for (int i = 5; i < 7; i++)
        if (!optional_input(n, i)) return import_fail(n, "input %d is missing", i);
    if (!group_lengths(&g, part[0]->shape[0], part[0]->shape[2]) || !group_rotation(&g, part)) return false;
    for (int i = 0; i < 2; i++)
        if (!(n->out[1 + i] = grown(&g, past[i], part[1 + i]))) return false;
    c->q = part[0];
    c->k = heads_share(n, n->out[1], c->q->shape[1]);
    c->v = c->k ? heads_share(n, n->out[2], c->q->shape[1]) : NULL;
    if (!c->v || !check_operands(c) || !add_bias(c, optional_input(n, 10))) return false;
    int before = add_further(c, g_unsqueeze(&n->b, g_unsqueeze(&n->b, g.before, 2), 3));
    int64_t window = attr_int(n, "local_window_size");
    const char *after = arena_printf(n->arena, "(cast.i64(dim(d3 - d2)) - a%d)", before);
    if (attr_int(n, "causal"))
        str_printf(&c->seen, " & (%s <= 0i64)", after);
    else
        str_printf(&c->seen, " & (cast.i64(dim(d3 - S)) < a%d)", before);
    if (window >= 0) str_printf(&c->seen, " & (%s > (-%lldi64))", after, (long long)window);
    Value *y = attend(c, attr_float(n, "softcap"));
    if (y) n->out[0] = heads_join(n, y);
    return y != NULL;
}
