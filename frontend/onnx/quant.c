// Quantised operators: integers stand for (q - zero point) * scale.
//
// Quantising and dequantising are maps over parameters that broadcast per tensor, per axis or per block. Integer products subtract the zero
// points in i32 first, so that padding is 0, and accumulate in i32; what follows is a map again. The QLinear operators of com.microsoft
// compute in f32 between the two, as ONNX Runtime does.
#include "quant.h"

#include <string.h>

enum { RANK_MAX = GRAPH_MAX_RANK };
typedef const Dim *const *DimArray;

static Value *optional_input(const ImportNode *n, int i) {
    return i < n->nin ? n->in[i] : NULL;
}

static bool is_single(const Value *v) {
    for (int i = 0; i < v->rank; i++)
        if (!dim_is(v->shape[i], 1)) return false;
    return true;
}

static bool is_quantised(DType t) {
    return t != DT_bool && (dtype_is_int(t) || (dtype_is_float(t) && dtype_info(t)->bits <= 8));
}

// ---- parameters ----
// A scale or zero point as it meets x: a scalar; per element of `axis`; or, with blocks, one for each `block` elements along it.
static Value *parameter(ImportNode *n, Value *v, const Value *x, int64_t axis, int64_t block) {
    if (!v) return NULL;
    if (is_single(v) && block == 0) return g_reshape(&n->b, v, 0, NULL);
    int at;
    if (!import_axis(n, axis, x->rank, &at)) return NULL;
    if (block == 0) {
        if (v->rank != 1 || dim_eq(n->dims, v->shape[0], x->shape[at]) == NO)
            return import_fail(n, "the parameters %s do not fit axis %d of %s", import_shape_text(n, v), at, import_shape_text(n, x)), NULL;
        for (int i = at + 1; i < x->rank; i++) v = g_unsqueeze(&n->b, v, v->rank);
        return v;
    }
    const Dim *index[RANK_MAX];
    bool fits = v->rank == x->rank && block > 0;
    for (int i = 0; fits && i < x->rank; i++) {
        const Dim *d = dim_axis(n->dims, i, x->shape[i]), *blocks = dim_ceildiv(n->dims, x->shape[i], dim_int(n->dims, block));
        index[i] = i == at ? dim_floordiv(n->dims, d, dim_int(n->dims, block)) : d;
        fits = dim_eq(n->dims, v->shape[i], i == at ? blocks : x->shape[i]) != NO;
    }
    if (!fits)
        return import_fail(n, "the parameters %s do not fit %s with blocks of %ld along axis %d", import_shape_text(n, v),
                   import_shape_text(n, x), (long)block, at),
               NULL;
    return g_view(&n->b, v, x->rank, (DimArray)x->shape, index, 0, NULL, scalar_int(v->type, 0));
}

static int64_t attr_or(const ImportNode *n, const char *name, int64_t missing) {
    return attr_exists(n, name) ? attr_int(n, name) : missing;
}

// ---- QuantizeLinear, DequantizeLinear ----
Value *quantised(ImportNode *n, Value *x, Value *scale, Value *zero, DType precision, DType to, bool saturate) {
    Value *in[] = {g_cast(&n->b, precision, x), g_cast(&n->b, precision, scale), zero};
    bool integer = dtype_is_int(to);
    const char *cast = !integer && dtype_info(to)->bits == 8 && saturate ? "casts" : "cast";
    const char *sum = zero ? " + cast.f32(a2)" : "";
    const char *text =
        arena_printf(n->arena, integer ? "%s.%s(rint(cast.f32(a0 / a1))%s)" : "%s.%s(cast.f32(a0 / a1)%s)", cast, dtype_name(to), sum);
    if (!import_broadcast(n, zero ? 3 : 2, in)) return NULL;
    DType types[] = {precision, precision, zero ? zero->type : DT_f32};
    const Expr *body = formula_expr(n, text, zero ? 3 : 2, types);
    return body ? g_map(&n->b, zero ? 3 : 2, in, body) : NULL;
}

Value *dequantised(ImportNode *n, Value *x, Value *scale, Value *zero, DType to) {
    Value *in[] = {x, scale, zero};
    bool integer = dtype_is_int(x->type);
    const char *centre = !zero ? "cast.f32(a0)" : integer ? "cast.f32(cast.i32(a0) - cast.i32(a2))" : "(cast.f32(a0) - cast.f32(a2))";
    const char *text = arena_printf(n->arena, "cast.%s(%s * cast.f32(a1))", dtype_name(to), centre);
    if (!import_broadcast(n, zero ? 3 : 2, in)) return NULL;
    DType types[] = {x->type, scale->type, zero ? zero->type : DT_f32};
    const Expr *body = formula_expr(n, text, zero ? 3 : 2, types);
    return body ? g_map(&n->b, zero ? 3 : 2, in, body) : NULL;
}

static bool check_quantised(const ImportNode *n, DType t) {
    return is_quantised(t) || import_fail(n, "%s is not a type to quantise to", dtype_name(t));
}

static bool check_scale(const ImportNode *n) {
    DType t = n->in[1]->type;
    return dtype_is_float(t) || import_fail(n, "the scale has type %s, a float type is needed", dtype_name(t));
}

bool import_quantize(ImportNode *n) {
    if (!import_numeric(n, 0)) return false;
    Value *x = n->in[0], *zero = optional_input(n, 2);
    int64_t axis = attr_or(n, "axis", 1), block = attr_or(n, "block_size", 0), given = attr_or(n, "output_dtype", 0);
    DType to = zero ? zero->type : given ? dtype_from_onnx((int)given) : DT_u8;
    if (!check_quantised(n, to) || !check_scale(n)) return false;
    if (zero && given && dtype_from_onnx((int)given) != to)
        return import_fail(n, "output_dtype is %s, the zero point has type %s", dtype_name(dtype_from_onnx((int)given)), dtype_name(to));
    int64_t wanted = attr_or(n, "precision", 0);
    bool same_floats = dtype_is_float(x->type) && x->type == n->in[1]->type;
    DType precision = wanted ? dtype_from_onnx((int)wanted) : same_floats ? x->type : DT_f32;
    if (!dtype_is_float(precision)) return import_fail(n, "precision must be a float type");
    Value *scale = parameter(n, n->in[1], x, axis, block);
    if (!scale || (zero && !(zero = parameter(n, zero, x, axis, block)))) return false;
    n->out[0] = quantised(n, x, scale, zero, precision, to, attr_or(n, "saturate", 1) != 0);
    return n->out[0] != NULL;
}

bool import_dequantize(ImportNode *n) {
    Value *x = n->in[0], *zero = optional_input(n, 2);
    int64_t axis = attr_or(n, "axis", 1), block = attr_or(n, "block_size", 0), given = attr_or(n, "output_dtype", 0);
    DType to = given ? dtype_from_onnx((int)given) : n->in[1]->type;
    if (!check_quantised(n, x->type) || !check_scale(n)) return false;
    if (zero && zero->type != x->type)
        return import_fail(n, "the zero point has type %s, the input %s", dtype_name(zero->type), dtype_name(x->type));
    if (!dtype_is_float(to)) return import_fail(n, "%s is not a type to dequantise to", dtype_name(to));
    Value *scale = parameter(n, n->in[1], x, axis, block);
    if (!scale || (zero && !(zero = parameter(n, zero, x, axis, block)))) return false;
    n->out[0] = dequantised(n, x, scale, zero, to);
    return n->out[0] != NULL;
}

Quantised dynamically_quantised(ImportNode *n, Value *x) {
    int64_t axes[RANK_MAX];
    for (int i = 0; i < x->rank; i++) axes[i] = i;
    Value *ends[] = {g_reduce(&n->b, "min", x, x->rank, axes, false), g_reduce(&n->b, "max", x, x->rank, axes, false)};
    Value *scale = formula_map(n, "select(max(a1, 0.0) == min(a0, 0.0), 1.0, max(a1, 0.0) - min(a0, 0.0)) / 255.0", 2, ends);
    Value *in[] = {ends[0], scale};
    Value *zero = scale ? formula_map(n, "cast.u8(rint((0.0 - min(a0, 0.0)) / a1))", 2, in) : NULL;
    return (Quantised){zero ? quantised(n, x, scale, zero, DT_f32, DT_u8, true) : NULL, scale, zero};
}

bool import_dynamic_quantize(ImportNode *n) {
    DType t = n->in[0]->type;
    if (t != DT_f32) return import_fail(n, "the input has type %s, f32 is needed", dtype_name(t));
    Quantised q = dynamically_quantised(n, n->in[0]);
    n->out[0] = q.values;
    n->out[1] = q.scale;
    n->out[2] = q.zero;
    return q.values != NULL;
}

bool check_kinds(const ImportNode *n, const char *kinds) {
    for (int i = 0; kinds[i]; i++) {
        const Value *v = optional_input(n, i);
        if (!v && kinds[i] >= 'a') return import_fail(n, "input %d is missing", i);
        if (!v) continue;
        char kind = (char)(kinds[i] | 32);
        bool fits = kind == 'q' ? is_quantised(v->type) : kind == 'f' ? dtype_is_float(v->type) : v->type == DT_i32;
        if (!fits) return import_fail(n, "input %d is %s, which does not fit", i, import_shape_text(n, v));
    }
    return true;
}

// ---- integer products ----
Value *centred(ImportNode *n, Value *x, Value *zero) {
    Value *wide = g_cast(&n->b, DT_i32, x);
    return zero ? g_map2(&n->b, X_sub, wide, g_cast(&n->b, DT_i32, zero)) : wide;
}

// A parameter of rank 1 with one element for each of axis 0 of weights of `rank` axes; a single one as a scalar.
static Value *by_filter(ImportNode *n, Value *v, int rank) {
    if (!v || is_single(v)) return v ? g_reshape(&n->b, v, 0, NULL) : NULL;
    while (v->rank < rank) v = g_unsqueeze(&n->b, v, v->rank);
    return v;
}

Value *import_dynamic_product(ImportNode *n, const char *subs, Value *x, Value *w, Value *w_scale, Value *w_zero) {
    Quantised q = dynamically_quantised(n, x);
    if (!q.values) return NULL;
    if (w_zero && is_single(w_zero)) w_zero = g_reshape(&n->b, w_zero, 0, NULL);
    if (w_zero && w_zero->rank == 1) w_zero = g_unsqueeze(&n->b, w_zero, 1); // w is [out, in]
    Value *acc = g_contract(&n->b, subs, centred(n, q.values, q.zero), centred(n, w, w_zero), DT_i32);
    Value *in[] = {acc, q.scale, is_single(w_scale) ? g_reshape(&n->b, w_scale, 0, NULL) : w_scale};
    return formula_map(n, "cast.f32(a0) * (a1 * a2)", 3, in);
}

bool import_conv_integer(ImportNode *n) {
    if (!check_kinds(n, "qqQQ")) return false;
    Value *zero = by_filter(n, optional_input(n, 3), n->in[1]->rank);
    n->out[0] = import_conv_values(n, centred(n, n->in[0], optional_input(n, 2)), centred(n, n->in[1], zero), DT_i32);
    return n->out[0] != NULL;
}

// A parameter of the left operand: a scalar, or one for each row.
static Value *by_row(ImportNode *n, Value *v, const Value *x) {
    bool rows = v && v->rank == 1 && x->rank > 1 && !dim_is(v->shape[0], 1);
    return rows ? g_unsqueeze(&n->b, v, 1) : v;
}

bool import_matmul_integer(ImportNode *n) {
    if (!check_kinds(n, "qqQQ")) return false;
    Value *za = by_row(n, optional_input(n, 2), n->in[0]), *zb = optional_input(n, 3);
    n->out[0] = import_matmul_values(n, centred(n, n->in[0], za), centred(n, n->in[1], zb), DT_i32);
    return n->out[0] != NULL;
}

// i32 accumulators to the output's type: rint(acc * (sx * sw / sy)) + zero.
static Value *requantised(ImportNode *n, Value *acc, Value *sx, Value *sw, Value *sy, Value *zero) {
    Value *in[] = {acc, g_cast(&n->b, DT_f32, sx), g_cast(&n->b, DT_f32, sw), g_cast(&n->b, DT_f32, sy), zero};
    const char *text = arena_printf(n->arena, "cast.%s(rint(cast.f32(a0) * ((a1 * a2) / a3)) + cast.f32(a4))", dtype_name(zero->type));
    return formula_map(n, text, 5, in);
}

bool import_qlinear_conv(ImportNode *n) {
    Value **in = n->in, *bias = optional_input(n, 8);
    if (!check_kinds(n, "qfqqfqfqI")) return false;
    int rank = in[3]->rank;
    Value *x = centred(n, in[0], g_reshape(&n->b, in[2], 0, NULL)), *w = centred(n, in[3], by_filter(n, in[5], rank));
    Value *acc = import_conv_values(n, x, w, DT_i32);
    if (!acc) return false;
    if (bias) acc = import_channel_bias(n, acc, bias);
    Value *sw = by_filter(n, in[4], rank - 1); // along axis 1 of the result
    n->out[0] =
        requantised(n, acc, g_reshape(&n->b, in[1], 0, NULL), sw, g_reshape(&n->b, in[6], 0, NULL), g_reshape(&n->b, in[7], 0, NULL));
    return n->out[0] != NULL;
}

bool import_qlinear_matmul(ImportNode *n) {
    Value **in = n->in;
    if (!check_kinds(n, "qfqqfqfq")) return false;
    Value *a = centred(n, in[0], by_row(n, in[2], in[0])), *b = centred(n, in[3], in[5]);
    Value *acc = import_matmul_values(n, a, b, DT_i32);
    if (!acc) return false;
    n->out[0] = requantised(n, acc, by_row(n, in[1], in[0]), in[4], by_row(n, in[6], in[0]), by_row(n, in[7], in[0]));
    return n->out[0] != NULL;
}

// ---- com.microsoft: f32 between dequantising and quantising ----
Value *input_as_float(ImportNode *n, int first) {
    Value *zero = optional_input(n, first + 2);
    if (!check_quantised(n, n->in[first]->type)) return NULL;
    return dequantised(n, n->in[first], n->in[first + 1], zero, DT_f32);
}

bool output_quantised(ImportNode *n, Value *y, int scale) {
    if (y) n->out[0] = quantised(n, y, n->in[scale], optional_input(n, scale + 1), DT_f32, n->in[0]->type, true);
    return y && n->out[0];
}

bool import_qlinear_binary(ImportNode *n) {
    if (!check_kinds(n, "qfQqfQfQ")) return false;
    Value *a = input_as_float(n, 0), *b = a ? input_as_float(n, 3) : NULL;
    if (!b || !import_broadcast(n, 2, (Value *[]){a, b})) return false;
    bool adds = !strcmp(n->row->name, "QLinearAdd");
    return output_quantised(n, g_map2(&n->b, adds ? X_add : X_mul, a, b), 6);
}

// Axis 1 last, or the last axis first behind the batch.
static Value *move_channels(ImportNode *n, Value *x, bool to_last) {
    int64_t perm[RANK_MAX] = {0};
    for (int i = 1; i < x->rank; i++) perm[i] = to_last ? (i + 1 < x->rank ? i + 1 : 1) : (i == 1 ? x->rank - 1 : i - 1);
    return g_transpose(&n->b, x, perm);
}

bool import_qlinear_average_pool(ImportNode *n) {
    bool last = attr_int(n, "channels_last") != 0;
    if (!check_kinds(n, "qfQfQ")) return false;
    Value *x = input_as_float(n, 0);
    if (x && last) x = move_channels(n, x, false);
    Value *y = x ? import_average_pool_values(n, x) : NULL;
    if (y && last) y = move_channels(n, y, true);
    return output_quantised(n, y, 3);
}

bool import_qlinear_softmax(ImportNode *n) {
    Value *x = check_kinds(n, "qfQfQ") ? input_as_float(n, 0) : NULL;
    int axis, count = 0;
    int64_t axes[RANK_MAX];
    if (!x || !import_axis(n, attr_int(n, "axis"), x->rank, &axis)) return false;
    int last = attr_int(n, "opset") < 13 ? x->rank - 1 : axis; // before opset 13 from the axis on, as one
    for (int i = axis; i <= last; i++) axes[count++] = i;
    return output_quantised(n, g_softmax(&n->b, "softmax", x, count, axes), 3);
}
