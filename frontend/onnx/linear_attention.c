// Recurrent attention: LinearAttention, a loop over time whose state is a matrix for each head, and the causal convolution before it.
#include "window.h"

#include <math.h>
#include <string.h>

typedef const Dim *const *DimArray;

static Value *optional_input(const ImportNode *n, int i) {
    return i < n->nin ? n->in[i] : NULL;
}

// ---- LinearAttention ----
typedef struct {
    ImportNode *n;
    Value *q, *k, *v;    // [B, T, H, G, K], [B, T, H, K], [B, T, H, V]: H heads of keys, each for G heads of queries
    Value *decay, *beta; // [B, T, H, K or 1], [B, T, H or 1, 1]; NULL: none
    const Dim *batch, *time, *heads, *group, *keys, *values;
    double scale;
} Recurrence;

// x[:, i]: without the time axis.
static Value *at_time(const Recurrence *r, Value *x, Value *i) {
    ImportNode *n = r->n;
    DimTable *t = n->dims;
    const Dim *shape[GRAPH_MAX_RANK], *index[GRAPH_MAX_RANK], *v = dim_symbol(t, "v0", SYM_DATA, dim_of(n, 0), dim_addi(t, r->time, -1));
    for (int k = 0, a = 0; k < x->rank; k++) {
        index[k] = v;
        if (k == 1) continue;
        shape[a] = x->shape[k];
        index[k] = dim_axis(t, a, shape[a]);
        a++;
    }
    return g_gather(&n->b, x, 1, &i, &v, x->rank - 1, shape, index, 0, NULL, scalar_int(x->type, 0));
}

// S = exp(g) S; v' = beta (v - S^T k); S += k v'^T; o = scale q^T S.
static bool advance(const Recurrence *r, Value *i, Value **state, Value **out) {
    ImportNode *n = r->n;
    Value *k = at_time(r, r->k, i), *v = at_time(r, r->v, i), *s = *state;
    if (r->decay) {
        Value *in[] = {s, g_unsqueeze(&n->b, at_time(r, r->decay, i), 3)};
        if (!(s = formula_map(n, "a0 * exp(a1)", 2, in))) return false;
    }
    if (r->beta) {
        Value *in[] = {at_time(r, r->beta, i), v, g_contract(&n->b, "bhkv,bhk->bhv", s, k, DT_f32)};
        if (!(v = formula_map(n, "a0 * (a1 - a2)", 3, in))) return false;
    }
    Value *in[] = {s, g_unsqueeze(&n->b, k, 3), g_unsqueeze(&n->b, v, 2)};
    *state = formula_map(n, "a0 + a1 * a2", 3, in);
    if (!*state) return false;
    Value *read = g_contract(&n->b, "bhgk,bhkv->bhgv", at_time(r, r->q, i), *state, DT_f32);
    *out = g_map2(&n->b, X_mul, read, g_const_float(&n->b, DT_f32, r->scale));
    return true;
}

// The loop: *state after it, and the outputs [T, B, H, G, V]. NULL after a fault.
static Value *recur(const Recurrence *r, Value **state) {
    ImportNode *n = r->n;
    const int64_t one = 1;
    const Dim *shape[] = {r->batch, r->heads, r->keys, r->values};
    Region *body = graph_region_new(n->b.g, NULL), *outer = n->b.region;
    Value *trip = g_dims(&n->b, -1, &r->time), *always = g_const_ints(&n->b, DT_bool, -1, &one), *out = NULL;
    Value *i = graph_param(body, NULL, DT_i64, 0, NULL);
    graph_param(body, NULL, DT_bool, 0, NULL);
    Value *inner = graph_param(body, NULL, DT_f32, 4, shape);
    n->b.region = body;
    bool ok = advance(r, i, &inner, &out);
    vec_push(n->arena, &body->yields, g_const_ints(&n->b, DT_bool, -1, &one));
    n->b.region = outer;
    if (!ok) return NULL;
    vec_push(n->arena, &body->yields, inner);
    vec_push(n->arena, &body->yields, out);
    Node *loop = g_loop(&n->b, trip, always, 1, state, body, 1);
    *state = loop->out[0];
    return loop->out[1];
}

// [B, T, heads * width] in f32 with the last axis split as `parts` says.
static Value *split_last(ImportNode *n, int input, int nparts, const Dim *const *parts) {
    Value *x = n->in[input];
    const Dim *shape[GRAPH_MAX_RANK] = {x->shape[0], x->shape[1]};
    for (int i = 0; i < nparts; i++) shape[2 + i] = parts[i];
    return g_reshape(&n->b, g_cast(&n->b, DT_f32, x), 2 + nparts, shape);
}

static bool check_rule(ImportNode *n, bool *gated, bool *delta) {
    static const char *const rules[] = {"linear", "gated", "delta", "gated_delta", NULL};
    const char *rule = attr_string(n, "update_rule");
    if (!import_word(n, "update_rule", rules)) return false;
    *gated = !strncmp(rule, "gated", 5);
    *delta = strstr(rule, "delta") != NULL;
    if (*gated != (optional_input(n, 4) != NULL)) return import_fail(n, "rule '%s' %s a decay", rule, *gated ? "needs" : "does without");
    if (*delta != (optional_input(n, 5) != NULL)) return import_fail(n, "rule '%s' %s a beta", rule, *delta ? "needs" : "does without");
    return true;
}

// width of one of `heads` heads in the last axis of an input [B, T, heads * width]; NULL after a fault.
static const Dim *head_width(ImportNode *n, int input, int64_t heads) {
    const Dim *width = dim_floordiv(n->dims, n->in[input]->shape[2], dim_of(n, heads));
    const Dim *want[] = {n->in[0]->shape[0], n->in[0]->shape[1], dim_muli(n->dims, width, heads)};
    return import_shape_is(n, input, 3, want) ? width : NULL;
}

static bool operands(Recurrence *r) {
    ImportNode *n = r->n;
    int64_t q_heads = attr_int(n, "q_num_heads"), heads = attr_int(n, "kv_num_heads");
    bool gated, delta;
    if (heads < 1 || q_heads < 1 || q_heads % heads)
        return import_fail(n, "%lld query heads are no multiple of %lld key heads", (long long)q_heads, (long long)heads);
    if (!check_rule(n, &gated, &delta)) return false;
    for (int i = 0; i < n->nin; i++) {
        if (!n->in[i]) continue;
        if (!dtype_is_float(n->in[i]->type) || n->in[i]->type == DT_f64)
            return import_fail(n, "input %d has type %s, a float type up to f32 is needed", i, dtype_name(n->in[i]->type));
        if (!import_rank(n, i, i == 3 ? 4 : 3)) return false;
    }
    r->batch = n->in[0]->shape[0];
    r->time = n->in[0]->shape[1];
    r->heads = dim_of(n, heads);
    r->group = dim_of(n, q_heads / heads);
    const Dim *widths[3], *one = dim_of(n, 1);
    for (int i = 0; i < 3; i++)
        if (!(widths[i] = head_width(n, i, i ? heads : q_heads))) return false;
    r->keys = widths[0];
    r->values = widths[2];
    const Dim *want[] = {r->batch, r->time, dim_mul(n->dims, r->heads, r->keys)};
    if (!import_shape_is(n, 1, 3, want)) return false;
    const Dim *q[] = {r->heads, r->group, r->keys}, *k[] = {r->heads, r->keys}, *v[] = {r->heads, r->values};
    r->q = split_last(n, 0, 3, q);
    r->k = split_last(n, 1, 2, k);
    r->v = split_last(n, 2, 2, v);
    if (gated) {
        bool by_head = dim_eq(n->dims, n->in[4]->shape[2], r->heads) == YES;
        want[2] = by_head ? r->heads : want[2];
        const Dim *parts[] = {r->heads, by_head ? one : r->keys};
        if (!import_shape_is(n, 4, 3, want)) return false;
        r->decay = split_last(n, 4, 2, parts);
    }
    if (delta) {
        want[2] = dim_is(n->in[5]->shape[2], 1) ? one : r->heads;
        const Dim *parts[] = {want[2], one};
        if (!import_shape_is(n, 5, 3, want)) return false;
        r->beta = split_last(n, 5, 2, parts);
    }
    return true;
}

bool import_linear_attention(ImportNode *n) {
    Recurrence r = {.n = n};
    int64_t width;
    if (!operands(&r)) return false;
    r.scale = attr_float(n, "scale");
    if (r.scale == 0 && !dim_is_int(r.keys, &width)) return import_unsupported(n, "a head size that is not constant");
    if (r.scale == 0) r.scale = 1 / sqrt((double)width);
    const Dim *shape[] = {r.batch, r.heads, r.keys, r.values};
    if (!import_shape_is(n, 3, 4, shape)) return false;
    Value *past = optional_input(n, 3);
    Value *state = past ? g_cast(&n->b, DT_f32, past) : g_map_shape(&n->b, 0, NULL, x_float(n->arena, DT_f32, 0), 4, shape);
    Value *y = recur(&r, &state);
    if (!y) return false;
    static const int64_t perm[] = {1, 0, 2, 3, 4};
    const Dim *joined[] = {r.batch, r.time, dim_mul(n->dims, dim_mul(n->dims, r.heads, r.group), r.values)};
    n->out[0] = g_cast(&n->b, n->in[0]->type, g_reshape(&n->b, g_transpose(&n->b, y, perm), 3, joined));
    n->out[1] = g_cast(&n->b, past ? past->type : n->in[0]->type, state);
    return true;
}

// ---- CausalConvWithState ----
// Each channel alone: y[l] = sum_k w[k] x[l + k - (K - 1)], what lies before the first element being the past state.
bool import_causal_conv(ImportNode *n) {
    static const char *const activations[] = {"none", "silu", "swish", NULL};
    DimTable *t = n->dims;
    Value *x = n->in[0], *w = n->in[1], *bias = optional_input(n, 2), *past = optional_input(n, 3);
    if (!import_word(n, "activation", activations) || !import_same_types(n, 0, 3) || !import_rank(n, 0, 3) || !import_rank(n, 1, 3))
        return false;
    if (!dtype_is_float(x->type)) return import_fail(n, "input has type %s, a float type is needed", dtype_name(x->type));
    const Dim *channels = x->shape[1], *kernel = w->shape[2], *kept = dim_addi(t, kernel, -1);
    const Dim *filter[] = {channels, dim_of(n, 1), kernel}, *state[] = {x->shape[0], channels, kept};
    if (!import_shape_is(n, 1, 3, filter) || !import_shape_is(n, 2, 1, &channels) || !import_shape_is(n, 3, 3, state)) return false;
    if (dim_ge0(t, kept) == NO) return import_fail(n, "the weights are %s, they are empty", import_shape_text(n, w));
    const Dim *zero = dim_of(n, 0), *before[] = {zero, zero, kept}, *after[] = {zero, zero, zero};
    Value *all = past ? g_concat(&n->b, 2, (Value *[]){past, x}, 2) : g_pad(&n->b, x, before, after, scalar_int(x->type, 0));
    const int64_t one = 1;
    Value *wide = import_widened(n, all);
    Value *windows = g_windows(&n->b, wide, 1, &x->shape[2], &kernel, &one, &one, &zero, scalar_int(wide->type, 0));
    Value *y = g_contract(&n->b, "bclk,ck->bcl", windows, import_widened(n, g_squeeze(&n->b, w, 1)), wide->type);
    if (bias) y = import_channel_bias(n, y, import_widened(n, bias));
    if (strcmp(attr_string(n, "activation"), "none")) y = formula_map(n, "a0 * sigmoid(a0)", 1, &y);
    if (!y) return false;
    n->out[0] = g_cast(&n->b, x->type, y);
    n->out[1] = g_slice(&n->b, all, 2, x->shape[2], kept, 1);
    return true;
}
