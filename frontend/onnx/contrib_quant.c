// Quantised operators of com.microsoft: products with integer or block-quantised weights, and f32 operators between dequantising and
// quantising.
//
// Weights of 2, 4 or 8 bits are packed in bytes, the first in the low bits. They are decoded where they are read: a view of the bytes, a
// shift and a mask, minus the block's zero point, times its scale.
#include "quant.h"
#include "window.h"

#include <string.h>

enum { RANK_MAX = GRAPH_MAX_RANK };
typedef const Dim *const *DimArray;

static Value *optional_input(const ImportNode *n, int i) {
    return i < n->nin ? n->in[i] : NULL;
}

// ---- packed numbers ----
// Number `at` of the last axis of packed bytes [.., ceil(count * bits / 8)], as f32 of the given shape, whose axes before the last are the
// bytes' own. at is a Dim over the axes of the result.
static Value *unpacked(ImportNode *n, Value *bytes, int64_t bits, int rank, const Dim *const *shape, const Dim *at) {
    DimTable *t = n->dims;
    const Dim *each = dim_of(n, 8 / bits), *index[RANK_MAX];
    for (int i = 0; i < bytes->rank - 1; i++) index[i] = dim_axis(t, i, shape[i]);
    index[bytes->rank - 1] = dim_floordiv(t, at, each);
    Value *byte = g_view(&n->b, bytes, rank, shape, index, 0, NULL, scalar_int(DT_u8, 0));
    if (bits == 8) return g_cast(&n->b, DT_f32, byte);
    const FormulaDim dims[] = {{"SHIFT", dim_muli(t, dim_mod(t, at, each), bits)}, {0}};
    const char *text = arena_printf(n->arena, "cast.f32(shr(cast.i32(a0), cast.i32(dim(SHIFT))) & %lldi32)", (1LL << bits) - 1);
    return formula_tensor(n, text, 1, &byte, rank, shape, dims);
}

static bool check_bits(ImportNode *n, int64_t bits, int64_t block) {
    if (bits != 2 && bits != 4 && bits != 8) return import_unsupported(n, "weights of %lld bits", (long long)bits);
    return (block >= 16 && (block & (block - 1)) == 0) ||
           import_fail(n, "block_size is %lld, a power of two from 16 on is needed", (long long)block);
}

// ---- MatMulNBits ----
typedef struct {
    ImportNode *n;
    int64_t bits, block;
    const Dim *rows, *width, *blocks; // N, K, blocks of a row
} Blocks;

// Zero points [N, width] as f32: packed like the weights, or floats, or the middle of the range.
static Value *block_zeros(const Blocks *b, const Dim *const *shape, const Dim *block_at) {
    ImportNode *n = b->n;
    DimTable *t = n->dims;
    Value *zero = optional_input(n, 3);
    if (!zero) return g_const_float(&n->b, DT_f32, (double)(1LL << (b->bits - 1)));
    const Dim *index[] = {dim_axis(t, 0, b->rows), block_at}, *grid[] = {b->rows, b->blocks};
    if (zero->type != DT_u8) {
        if (!dtype_is_float(zero->type)) return import_fail(n, "zero points have type %s", dtype_name(zero->type)), NULL;
        if (dim_eq(t, value_size(n->b.g, zero), dim_mul(t, b->rows, b->blocks)) == NO)
            return import_fail(
                       n, "zero points are %s, %s are needed", import_shape_text(n, zero), dim_text(t, dim_mul(t, b->rows, b->blocks))),
                   NULL;
        zero = g_cast(&n->b, DT_f32, g_reshape(&n->b, zero, 2, grid));
        return g_view(&n->b, zero, 2, shape, index, 0, NULL, scalar_int(DT_f32, 0));
    }
    grid[1] = dim_ceildiv(t, dim_muli(t, b->blocks, b->bits), dim_of(n, 8));
    if (dim_eq(t, value_size(n->b.g, zero), dim_mul(t, grid[0], grid[1])) == NO)
        return import_fail(
                   n, "zero points are %s, %s bytes are needed", import_shape_text(n, zero), dim_text(t, dim_mul(t, grid[0], grid[1]))),
               NULL;
    return unpacked(n, g_reshape(&n->b, zero, 2, grid), b->bits, 2, shape, block_at);
}

// The weights [N, K] in `type`.
static Value *block_weights(const Blocks *b, DType type) {
    ImportNode *n = b->n;
    DimTable *t = n->dims;
    const Dim *shape[] = {b->rows, b->width}, *grid[] = {b->rows, b->blocks},
              *bytes[] = {b->rows, b->blocks, dim_of(n, b->block * b->bits / 8)};
    const Dim *flat[] = {b->rows, dim_mul(t, bytes[1], bytes[2])};
    Value *packed = n->in[1], *scales = n->in[2];
    if (packed->type != DT_u8 || dim_eq(t, value_size(n->b.g, packed), dim_product(t, bytes, 3)) == NO)
        return import_fail(n, "the weights are %s, u8[%s, %s, %s] is needed", import_shape_text(n, packed), dim_text(t, bytes[0]),
                   dim_text(t, bytes[1]), dim_text(t, bytes[2])),
               NULL;
    if (dim_eq(t, value_size(n->b.g, scales), dim_mul(t, b->rows, b->blocks)) == NO)
        return import_fail(n, "the scales are %s, one for each of %s blocks is needed", import_shape_text(n, scales),
                   dim_text(t, dim_mul(t, b->rows, b->blocks))),
               NULL;
    const Dim *row = dim_axis(t, 0, b->rows), *k = dim_axis(t, 1, b->width), *at = dim_floordiv(t, k, dim_of(n, b->block));
    const Dim *scale_at[] = {row, at};
    Value *in[3] = {unpacked(n, g_reshape(&n->b, packed, 2, flat), b->bits, 2, shape, k)};
    in[1] = in[0] ? block_zeros(b, shape, at) : NULL;
    if (!in[1]) return NULL;
    scales = g_cast(&n->b, DT_f32, g_reshape(&n->b, scales, 2, grid));
    in[2] = g_view(&n->b, scales, 2, shape, scale_at, 0, NULL, scalar_int(DT_f32, 0));
    Value *w = formula_tensor(n, "(a0 - a1) * a2", 3, in, 2, shape, NULL);
    return w ? g_cast(&n->b, type, w) : NULL;
}

bool import_matmul_nbits(ImportNode *n) {
    Blocks b = {n, attr_int(n, "bits"), attr_int(n, "block_size"), dim_of(n, attr_int(n, "N")), dim_of(n, attr_int(n, "K")), NULL};
    Value *x = n->in[0], *bias = optional_input(n, 5);
    if (!check_bits(n, b.bits, b.block)) return false;
    if (attr_int(n, "N") < 1 || attr_int(n, "K") < 1) return import_fail(n, "N and K must be positive");
    if (optional_input(n, 4)) return import_unsupported(n, "g_idx");
    if (attr_int(n, "weight_prepacked")) return import_unsupported(n, "prepacked weights");
    if (!dtype_is_float(x->type) || !dtype_is_float(n->in[2]->type) || x->rank < 1 || dim_eq(n->dims, x->shape[x->rank - 1], b.width) == NO)
        return import_fail(n, "%s does not fit K = %s", import_shape_text(n, x), dim_text(n->dims, b.width));
    b.blocks = dim_ceildiv(n->dims, b.width, dim_of(n, b.block));
    Value *wide = import_widened(n, x), *w = block_weights(&b, wide->type);
    if (!w) return false;
    char in[RANK_MAX + 1] = "", out[RANK_MAX + 1] = "";
    if (x->rank > 20) return import_unsupported(n, "rank %d", x->rank);
    for (int i = 0; i < x->rank; i++) in[i] = out[i] = (char)('a' + i);
    out[x->rank - 1] = 'N';
    const char *subs = arena_printf(n->arena, "%s,N%c->%s", in, in[x->rank - 1], out);
    Value *y = g_contract(&n->b, subs, wide, w, wide->type);
    if (bias) {
        if (!import_shape_is(n, 5, 1, &b.rows)) return false;
        y = g_map2(&n->b, X_add, y, import_widened(n, bias));
    }
    n->out[0] = g_cast(&n->b, x->type, y);
    return true;
}

// ---- GatherBlockQuantized ----
// The scales or zero points (one for each block along the quantised axis) at the places that the output's elements come from.
static Value *block_parameter(
    ImportNode *n, Value *v, Value *at, const Dim *const *sym, int rank, const Dim *const *shape, const Dim *const *index, int64_t bits) {
    if (bits == 0) return g_cast(&n->b, DT_f32, g_gather(&n->b, v, 1, &at, sym, rank, shape, index, 0, NULL, scalar_int(v->type, 0)));
    // packed along the last axis
    const Dim *bytes[RANK_MAX], *each = dim_of(n, 8 / bits), *last = index[v->rank - 1];
    memcpy(bytes, index, sizeof *index * (size_t)v->rank);
    bytes[v->rank - 1] = dim_floordiv(n->dims, last, each);
    Value *byte = g_gather(&n->b, v, 1, &at, sym, rank, shape, bytes, 0, NULL, scalar_int(v->type, 0));
    if (dim_has_symbol(last, sym[0])) return import_unsupported(n, "packed numbers along the gathered axis"), NULL;
    const FormulaDim dims[] = {{"SHIFT", dim_muli(n->dims, dim_mod(n->dims, last, each), bits)}, {0}};
    const char *text = arena_printf(n->arena, "cast.f32(shr(cast.i32(a0), cast.i32(dim(SHIFT))) & %lldi32)", (1LL << bits) - 1);
    return formula_tensor(n, text, 1, &byte, rank, shape, dims);
}

bool import_gather_block_quantized(ImportNode *n) {
    DimTable *t = n->dims;
    Value *x = n->in[0], *at = n->in[1], *scales = n->in[2], *zeros = optional_input(n, 3);
    int gather_axis, axis;
    int64_t bits = attr_int(n, "bits"), block = attr_int(n, "block_size");
    bool packed = x->type == DT_u8 && bits < 8;
    if (!dtype_is_int(x->type) || !dtype_is_int(at->type) || !dtype_is_float(scales->type) || x->rank < 1)
        return import_fail(n, "%s, %s and %s do not fit", import_shape_text(n, x), import_shape_text(n, at), import_shape_text(n, scales));
    if (!import_axis(n, attr_int(n, "gather_axis"), x->rank, &gather_axis) ||
        !import_axis(n, attr_int(n, "quantize_axis"), x->rank, &axis) || !check_bits(n, bits, block))
        return false;
    if (zeros && zeros->type != x->type)
        return import_fail(n, "the zero points have type %s, the data %s", dtype_name(zeros->type), dtype_name(x->type));
    int last = x->rank - 1, rank = x->rank - 1 + at->rank;
    if (rank > RANK_MAX) return import_unsupported(n, "rank %d", rank);
    if (packed && (axis != last || gather_axis == last))
        return import_unsupported(n, "packed numbers along another axis than the quantised one");
    const Dim *extent[RANK_MAX], *shape[RANK_MAX], *index[RANK_MAX], *blocks[RANK_MAX], *v = dim_symbol(t, "v0", SYM_DATA, NULL, NULL);
    for (int i = 0; i <= last; i++) extent[i] = packed && i == last ? dim_muli(t, x->shape[i], 8 / bits) : x->shape[i];
    for (int i = 0; i <= last; i++) {
        const Dim *want = i == axis ? dim_ceildiv(t, extent[i], dim_of(n, block)) : extent[i];
        if (scales->rank != x->rank || dim_eq(t, scales->shape[i], want) == NO)
            return import_fail(n, "the scales are %s, the data %s in blocks of %lld", import_shape_text(n, scales), import_shape_text(n, x),
                (long long)block);
    }
    for (int i = 0, o = 0; i <= last; i++) {
        if (i == gather_axis) {
            for (int k = 0; k < at->rank; k++) shape[o + k] = at->shape[k];
            o += at->rank;
            index[i] = v;
            continue;
        }
        shape[o] = extent[i];
        index[i] = dim_axis(t, o, shape[o]);
        o++;
    }
    memcpy(blocks, index, sizeof *index * (size_t)x->rank);
    blocks[axis] = dim_floordiv(t, index[axis], dim_of(n, block));
    const FormulaDim dims[] = {{"D", x->shape[gather_axis]}, {0}};
    at = g_cast(&n->b, DT_i64, at);
    at = formula_tensor(n, "select(a0 < 0i64, a0 + cast.i64(dim(D)), a0)", 1, &at, at->rank, (DimArray)at->shape, dims);
    for (int i = gather_axis; at && i < last; i++) at = g_unsqueeze(&n->b, at, at->rank);
    if (!at) return false;
    Value *in[3] = {block_parameter(n, x, at, &v, rank, shape, index, packed ? bits : 0)};
    in[2] = block_parameter(n, scales, at, &v, rank, shape, blocks, 0);
    in[1] = zeros ? block_parameter(n, zeros, at, &v, rank, shape, blocks, packed ? bits : 0)
                  : g_const_float(&n->b, DT_f32, x->type == DT_u8 ? (double)(1LL << (bits - 1)) : 0);
    if (!in[0] || !in[1] || !in[2]) return false;
    Value *y = formula_tensor(n, "(a0 - a1) * a2", 3, in, rank, shape, NULL);
    if (y) n->out[0] = g_cast(&n->b, scales->type, y);
    return y != NULL;
}

// ---- integer products ----
// A scalar, or elements along the last axis.
static Value *by_column(ImportNode *n, Value *v) {
    return v && dim_is(value_size(n->b.g, v), 1) ? g_reshape(&n->b, v, 0, NULL) : v;
}

// (acc * (sa * sb)) + bias as the type.
static bool scaled_product(ImportNode *n, Value *acc, Value *sa, Value *sb, Value *bias, DType type) {
    if (!acc) return false;
    Value *in[] = {acc, g_cast(&n->b, DT_f32, by_column(n, sa)), g_cast(&n->b, DT_f32, by_column(n, sb))};
    Value *y = formula_map(n, "cast.f32(a0) * (a1 * a2)", 3, in);
    if (y && bias) {
        if (!import_value_is(n, "the bias", bias, 1, (DimArray)y->shape + y->rank - 1)) return false;
        y = g_map2(&n->b, X_add, y, g_cast(&n->b, DT_f32, bias));
    }
    if (y) n->out[0] = g_cast(&n->b, type, y);
    return y != NULL;
}

bool import_dynamic_quantize_matmul(ImportNode *n) {
    if (!check_kinds(n, "fqfQF")) return false;
    Quantised q = dynamically_quantised(n, g_cast(&n->b, DT_f32, n->in[0]));
    if (!q.values) return false;
    Value *b = centred(n, n->in[1], by_column(n, optional_input(n, 3)));
    Value *acc = import_matmul_values(n, centred(n, q.values, q.zero), b, DT_i32);
    return scaled_product(n, acc, q.scale, n->in[2], optional_input(n, 4), n->in[0]->type);
}

bool import_matmul_integer_to_float(ImportNode *n) {
    if (!check_kinds(n, "qqffQQF")) return false;
    Value *a = centred(n, n->in[0], by_column(n, optional_input(n, 4))), *b = centred(n, n->in[1], by_column(n, optional_input(n, 5)));
    return scaled_product(n, import_matmul_values(n, a, b, DT_i32), n->in[2], n->in[3], optional_input(n, 6), n->in[2]->type);
}

// alpha * A' * B' + C in integers, scaled to f32, or quantised where the output has a scale.
bool import_qgemm(ImportNode *n) {
    if (!check_kinds(n, "qfqqfqIFQ") || !import_rank(n, 0, 2) || !import_rank(n, 3, 2)) return false;
    static const int64_t perm[] = {1, 0};
    Value *a = centred(n, n->in[0], by_column(n, n->in[2])), *b = centred(n, n->in[3], NULL), *c = optional_input(n, 6);
    Value *zero = by_column(n, n->in[5]), *scale = by_column(n, n->in[4]), *sy = optional_input(n, 7), *zy = optional_input(n, 8);
    if (attr_int(n, "transA")) a = g_transpose(&n->b, a, perm);
    if (attr_int(n, "transB")) b = g_transpose(&n->b, b, perm);
    b = g_map2(&n->b, X_sub, b, g_cast(&n->b, DT_i32, zero));
    Value *acc = import_matmul_values(n, a, b, DT_i32);
    if (!acc) return false;
    if (c) {
        if (!import_broadcast(n, 2, (Value *[]){acc, c}) || c->rank > 2) return import_fail(n, "C is %s", import_shape_text(n, c));
        acc = g_map2(&n->b, X_add, acc, c);
    }
    Value *in[] = {acc, by_column(n, n->in[1]), scale};
    Value *y = formula_map(n, "cast.f32(a0) * (a1 * a2 * $alpha)", 3, in);
    if (y && sy) y = quantised(n, y, by_column(n, sy), zy ? by_column(n, zy) : NULL, DT_f32, zy ? zy->type : n->in[0]->type, true);
    n->out[0] = y;
    return y != NULL;
}

// ---- f32 between dequantising and quantising ----
bool import_qlinear_unary(ImportNode *n) {
    if (!check_kinds(n, "qfQfQ")) return false;
    Value *x = input_as_float(n, 0);
    const char *text = attr_exists(n, "alpha") ? "select(a0 < 0.0, a0 * $alpha, a0)" : "sigmoid(a0)";
    return x && output_quantised(n, formula_map(n, text, 1, &x), 3);
}

bool import_qlinear_global_average_pool(ImportNode *n) {
    Value *x = check_kinds(n, "qfQfQ") ? input_as_float(n, 0) : NULL;
    int64_t axes[RANK_MAX];
    int count = 0, first = attr_int(n, "channels_last") ? 1 : 2;
    if (!x || x->rank < 3) return x ? import_fail(n, "input has rank %d, at least 3 is needed", x->rank) : false;
    for (int i = 0; i < x->rank - 2; i++) axes[count++] = first + i;
    return output_quantised(n, import_mean(n, x, count, axes, true), 3);
}

bool import_qlinear_reduce_mean(ImportNode *n) {
    Value *x = check_kinds(n, "qfQfQ") ? input_as_float(n, 0) : NULL;
    int64_t axes[RANK_MAX];
    IntList given = attr_ints(n, "axes");
    if (!x || !import_axes(n, given, x->rank, axes)) return false;
    return output_quantised(n, import_mean(n, x, given.n, axes, attr_int(n, "keepdims") != 0), 3);
}

// Scale and zero point of the output first, then a triple for each input.
bool import_qlinear_concat(ImportNode *n) {
    int count = (n->nin - 2) / 3, axis;
    Value **parts = ARENA_ARRAY(n->arena, Value *, count + 1), *zero = n->in[1];
    if (count < 1 || (n->nin - 2) % 3) return import_fail(n, "has %d inputs, three for each part behind the first two are needed", n->nin);
    for (int i = 0; i < count; i++) {
        int at = 2 + 3 * i;
        for (int k = 0; k < 3; k++)
            if (!n->in[at + k]) return import_fail(n, "input %d is missing", at + k);
        if (!(parts[i] = input_as_float(n, at))) return false;
        if (parts[i]->rank != parts[0]->rank)
            return import_fail(n, "%s and %s differ in rank", import_shape_text(n, parts[0]), import_shape_text(n, parts[i]));
    }
    if (!import_axis(n, attr_int(n, "axis"), parts[0]->rank, &axis)) return false;
    for (int i = 1; i < count; i++)
        for (int k = 0; k < parts[0]->rank; k++)
            if (k != axis && dim_eq(n->dims, parts[i]->shape[k], parts[0]->shape[k]) == NO)
                return import_fail(n, "%s and %s differ at axis %d", import_shape_text(n, parts[0]), import_shape_text(n, parts[i]), k);
    n->out[0] = quantised(n, g_concat(&n->b, count, parts, axis), n->in[0], zero, DT_f32, zero->type, true);
    return n->out[0] != NULL;
}

bool import_qlinear_where(ImportNode *n) {
    Value *x = input_as_float(n, 1), *y = x ? input_as_float(n, 4) : NULL, *in[] = {n->in[0], x, y};
    if (!y || n->in[0]->type != DT_bool) return import_fail(n, "the condition has type %s, bool is needed", dtype_name(n->in[0]->type));
    if (!import_broadcast(n, 3, in)) return false;
    Value *z = formula_map(n, "select(a0, a1, a2)", 3, in);
    n->out[0] = z ? quantised(n, z, n->in[7], n->in[8], DT_f32, n->in[8]->type, true) : NULL;
    return n->out[0] != NULL;
}
