// DFT: a contraction with the matrix of roots of unity, or, where a constant length has small divisors, several short ones.
//
// A root w^p, w = exp(-2 pi i / N), is a 2x2 matrix over (real, imaginary), so one contraction over axis and part transforms complex numbers
// and real ones alike. A length N = A*B above DIRECT is taken as Cooley and Tukey do: with n = B*a + b and k = c + A*d,
//
//     X[c + A*d] = sum_b w_B^(b*d) ( w_N^(b*c) sum_a w_A^(a*c) x[B*a + b] )
//
// transforms of length A, a product with roots, transforms of length B (again so), and a transposition.
#include "fourier.h"
#include "window.h"

#include <string.h>

enum { RANK_MAX = 24, DIRECT = 64, FACTOR = 32 };
typedef const Dim *const *DimArray;

// Rows p = 0 … N-1 of w^p / scale: [N, 2, 2], parts of the operand before parts of the result.
static Value *roots(ImportNode *n, const Dim *length, bool inverse, bool scaled, DType t) {
    const char *sine = inverse ? "d2 - d1" : "d1 - d2";
    const char *text = "cast.%s(select(dim(d1) == dim(d2), cos(cast.f64(dim(d0)) * 6.283185307179586 / cast.f64(dim(N))), "
                       "cast.f64(dim(%s)) * sin(cast.f64(dim(d0)) * 6.283185307179586 / cast.f64(dim(N)))) / cast.f64(dim(S)))";
    const Dim *two = dim_of(n, 2), *shape[] = {length, two, two};
    const FormulaDim dims[] = {{"N", length}, {"S", scaled ? length : dim_of(n, 1)}, {0}};
    Value *w = formula_tensor(n, arena_printf(n->arena, text, dtype_name(t), sine), 0, NULL, 3, shape, dims);
    return w ? import_settled(n, w) : NULL;
}

// w^(i*k) for i < rows, k < bins: [rows, parts, bins, outs].
static Value *matrix(ImportNode *n, Value *w, const Dim *rows, const Dim *parts, const Dim *bins, const Dim *outs) {
    DimTable *t = n->dims;
    const Dim *shape[] = {rows, parts, bins, outs}, *phases[] = {rows, dim_of(n, 1), bins, dim_of(n, 1)};
    const FormulaDim dims[] = {{"N", w->shape[0]}, {0}};
    Value *phase = formula_tensor(n, "cast.i64(dim(mod(d0 * d2, N)))", 0, NULL, 4, phases, dims);
    const Dim *v = dim_symbol(t, "v0", SYM_DATA, dim_of(n, 0), dim_addi(t, w->shape[0], -1));
    const Dim *index[] = {v, dim_axis(t, 1, parts), dim_axis(t, 3, outs)};
    if (phase) phase = import_settled(n, phase);
    return phase ? import_settled(n, g_gather(&n->b, w, 1, &phase, &v, 4, shape, index, 0, NULL, scalar_int(w->type, 0))) : NULL;
}

static Value *direct(ImportNode *n, Value *x, const Fourier *f, bool scaled) {
    int last = x->rank - 1;
    const Dim *rows = dim_min(n->dims, x->shape[f->axis], f->length);
    x = g_slice(&n->b, x, f->axis, dim_of(n, 0), rows, 1);
    Value *w = roots(n, f->length, f->inverse, scaled, x->type);
    Value *m = w ? matrix(n, w, rows, x->shape[last], f->bins, dim_of(n, f->real ? 1 : 2)) : NULL;
    if (!m) return NULL;
    char in[RANK_MAX + 1] = "", out[RANK_MAX + 1] = "";
    for (int i = 0; i < x->rank; i++) in[i] = out[i] = (char)('a' + i);
    out[f->axis] = 'Y';
    out[last] = 'Z';
    return g_contract(&n->b, arena_printf(n->arena, "%s,%c%cYZ->%s", in, in[f->axis], in[last], out), x, m, x->type);
}

// The largest divisor up to FACTOR of a constant length above DIRECT; 1: the transform is done directly.
static int64_t divisor(const Dim *length) {
    int64_t v;
    if (!dim_is_int(length, &v) || v <= DIRECT) return 1;
    for (int64_t k = FACTOR; k > 1; k--)
        if (v % k == 0) return k;
    return 1;
}

// x, with the axes A and B at `axis`, times w^(b*c): part by part, the other part beside.
static Value *twisted(ImportNode *n, Value *x, const Fourier *f) {
    int last = x->rank - 1, axis = f->axis;
    const char *root = "cast.%s(select(dim(d%d) == 0, cos(%s), %s(sin(%s))))";
    const char *angle = arena_printf(n->arena, "cast.f64(dim(d%d * d%d)) * 6.283185307179586 / cast.f64(dim(N))", 0, 1);
    const Dim *shape[] = {x->shape[axis], x->shape[axis + 1], dim_of(n, 2)};
    const FormulaDim dims[] = {{"N", f->length}, {0}};
    const char *text = arena_printf(n->arena, root, dtype_name(x->type), 2, angle, f->inverse ? "" : "neg", angle);
    Value *w = formula_tensor(n, text, 0, NULL, 3, shape, dims);
    if (!w) return NULL;
    w = import_settled(n, w);
    Value *part[2];
    for (int i = 0; i < 2; i++) {
        part[i] = g_squeeze(&n->b, g_slice(&n->b, w, 2, dim_of(n, i), dim_of(n, 1), 1), 2);
        for (int k = axis + 2; k <= last; k++) part[i] = g_unsqueeze(&n->b, part[i], part[i]->rank);
    }
    Value *in[] = {x, g_slice(&n->b, x, last, dim_of(n, 1), x->shape[last], -1), part[0], part[1]};
    text = arena_printf(n->arena, "a0 * a2 + select(dim(d%d) == 0, neg(a3), a3) * a1", last);
    return formula_tensor(n, text, 4, in, x->rank, (DimArray)x->shape, NULL);
}

static Value *transform(ImportNode *n, Value *x, const Fourier *f, bool scaled);

static Value *factored(ImportNode *n, Value *x, const Fourier *f, int64_t a, bool scaled) {
    DimTable *t = n->dims;
    const Dim *A = dim_of(n, a), *B = dim_floordiv(t, f->length, A), *shape[RANK_MAX + 1], *before[RANK_MAX], *after[RANK_MAX];
    int64_t perm[RANK_MAX + 1];
    int axis = f->axis;
    for (int i = 0; i < x->rank; i++) before[i] = after[i] = dim_of(n, 0);
    after[axis] = dim_sub(t, f->length, x->shape[axis]);
    x = g_pad(&n->b, x, before, after, scalar_int(x->type, 0));
    for (int i = 0; i <= x->rank; i++) shape[i] = i < axis ? x->shape[i] : i == axis ? A : i == axis + 1 ? B : x->shape[i - 1];
    Fourier of_a = {axis, A, A, f->inverse, false}, of_b = {axis + 1, B, B, f->inverse, false};
    Value *y = direct(n, g_reshape(&n->b, x, x->rank + 1, shape), &of_a, false);
    if (y) y = twisted(n, y, f);
    if (y) y = transform(n, y, &of_b, false);
    if (!y) return NULL;
    for (int i = 0; i < y->rank; i++) perm[i] = i == axis ? axis + 1 : i == axis + 1 ? axis : i;
    for (int i = 0; i < x->rank; i++) shape[i] = x->shape[i];
    shape[axis] = f->length;
    shape[x->rank - 1] = dim_of(n, 2);
    y = g_reshape(&n->b, g_transpose(&n->b, y, perm), x->rank, shape);
    y = g_slice(&n->b, y, axis, dim_of(n, 0), f->bins, 1);
    if (f->real) y = g_slice(&n->b, y, y->rank - 1, dim_of(n, 0), dim_of(n, 1), 1);
    const FormulaDim dims[] = {{"N", f->length}, {0}};
    return scaled ? formula_tensor(n, "a0 / cast.$T(dim(N))", 1, &y, y->rank, (DimArray)y->shape, dims) : y;
}

static Value *transform(ImportNode *n, Value *x, const Fourier *f, bool scaled) {
    int64_t a = divisor(f->length);
    return a > 1 ? factored(n, x, f, a, scaled) : direct(n, x, f, scaled);
}

Value *fourier(ImportNode *n, Value *x, const Fourier *f) {
    if (x->rank > RANK_MAX - 1) return import_unsupported(n, "rank %d", x->rank), NULL;
    return transform(n, x, f, f->inverse);
}

// ---- DFT ----
// X[k] for all k < N from those up to N/2: the others are their conjugates.
static Value *whole_spectrum(ImportNode *n, Value *x, int axis, const Dim *length) {
    DimTable *t = n->dims;
    const Dim *shape[RANK_MAX], *index[RANK_MAX];
    for (int i = 0; i < x->rank; i++) {
        shape[i] = i == axis ? length : x->shape[i];
        index[i] = dim_axis(t, i, shape[i]);
    }
    index[axis] = dim_min(t, index[axis], dim_sub(t, length, index[axis]));
    const Dim *guard = dim_sub(t, dim_addi(t, x->shape[axis], -1), index[axis]);
    Value *y = g_view(&n->b, x, x->rank, shape, index, 1, &guard, scalar_int(x->type, 0));
    const FormulaDim dims[] = {{"N", length}, {0}};
    const char *text = arena_printf(n->arena, "select((dim(d%d) == 1) & (dim(2 * d%d) > dim(N)), neg(a0), a0)", x->rank - 1, axis);
    return formula_tensor(n, text, 1, &y, y->rank, shape, dims);
}

static bool dft_axis(ImportNode *n, const Value *x, int *axis) {
    int64_t given = -2;
    int count = 1;
    if (n->version < 20)
        given = attr_int(n, "axis");
    else if (n->nin > 2 && n->in[2] && !import_const_ints(n, 2, &given, 1, &count))
        return false;
    if (!import_axis(n, given, x->rank, axis)) return false;
    return *axis < x->rank - 1 || import_fail(n, "the axis %lld is that of real and imaginary part", (long long)given);
}

static bool check_parts(ImportNode *n, const Value *x) {
    const Dim *parts = x->rank ? x->shape[x->rank - 1] : NULL;
    if (!dtype_is_float(x->type)) return import_fail(n, "input has type %s, a float type is needed", dtype_name(x->type));
    return (parts && x->rank > 1 && (dim_is(parts, 1) || dim_is(parts, 2))) ||
           import_fail(n, "input is %s, a last axis of 1 or 2 is needed", import_shape_text(n, x));
}

// The transform along an axis as the node means it; length NULL: what the axis says.
static Fourier dft_of(ImportNode *n, int axis, const Dim *length) {
    DimTable *t = n->dims;
    bool inverse = attr_int(n, "inverse") != 0, onesided = attr_int(n, "onesided") != 0;
    const Dim *here = n->in[0]->shape[axis];
    if (!length) length = inverse && onesided ? dim_muli(t, dim_addi(t, here, -1), 2) : here;
    const Dim *bins = onesided && !inverse ? dim_addi(t, dim_floordiv(t, length, dim_of(n, 2)), 1) : length;
    return (Fourier){axis, length, bins, inverse, inverse && onesided};
}

static Value *dft_along(ImportNode *n, const Fourier *f) {
    Value *x = import_widened(n, n->in[0]);
    if (f->real) x = whole_spectrum(n, x, f->axis, f->length);
    Value *y = x ? fourier(n, x, f) : NULL;
    return y ? g_cast(&n->b, n->in[0]->type, y) : NULL;
}

static bool is_empty(ImportNode *n, const Fourier *f) {
    return dim_ge0(n->dims, dim_addi(n->dims, f->length, -1)) == NO;
}

// ---- an axis that is data ----
typedef struct {
    Value *at;                           // the axis counted from the front, an i64 scalar
    const Dim *length, *shape[RANK_MAX]; // of the result: sizes of the run
    int allowed[RANK_MAX], count;        // axes that can be transformed
} DataAxis;

// The run checks that the axis is one of those allowed.
static bool data_axis(ImportNode *n, DataAxis *d) {
    int rank = n->in[0]->rank;
    if (!dtype_is_int(n->in[2]->type) || dim_eq(n->dims, value_size(n->b.g, n->in[2]), dim_of(n, 1)) == NO)
        return import_fail(n, "the axis is %s, one integer is needed", import_shape_text(n, n->in[2]));
    Value *v = g_cast(&n->b, DT_i64, g_reshape(&n->b, n->in[2], 0, NULL));
    Str s = {0};
    for (int i = 0; i < rank - 1; i++) {
        Fourier f = dft_of(n, i, d->length);
        if (is_empty(n, &f)) continue;
        str_printf(&s, "%s(a0 == %di64)", d->count ? " | " : "", i);
        d->allowed[d->count++] = i;
    }
    const char *allowed = d->count ? arena_strdup(n->arena, s.data) : NULL;
    str_free(&s);
    if (!allowed) return import_fail(n, "no axis of %s can be transformed", import_shape_text(n, n->in[0]));
    d->at = formula_map(n, arena_printf(n->arena, "select(a0 < 0i64, a0 + %di64, a0)", rank), 1, &v);
    Value *fits = d->at ? formula_map(n, allowed, 1, &d->at) : NULL;
    if (fits) g_check(&n->b, fits, 0, NULL, CODE_SHAPE);
    return fits != NULL;
}

static bool data_shape(ImportNode *n, DataAxis *d) {
    DimTable *t = n->dims;
    const Value *x = n->in[0];
    for (int i = 0; i < x->rank - 1; i++) {
        Fourier f = dft_of(n, i, d->length);
        const FormulaDim dims[] = {{"BINS", f.bins}, {"D", x->shape[i]}, {0}};
        const char *text = arena_printf(n->arena, "select(a0 == %di64, cast.i64(dim(BINS)), cast.i64(dim(D)))", i);
        Value *size = formula_tensor(n, text, 1, &d->at, 0, NULL, dims);
        if (!size) return false;
        const Dim *lo = dim_max(t, dim_min(t, f.bins, x->shape[i]), dim_of(n, 0)), *hi = dim_max(t, f.bins, x->shape[i]);
        d->shape[i] = is_empty(n, &f) ? x->shape[i] : g_size(&n->b, size, 0, "dft", lo, hi);
    }
    d->shape[x->rank - 1] = dim_of(n, attr_int(n, "inverse") && attr_int(n, "onesided") ? 1 : 2);
    return true;
}

// One branch for each axis allowed, from the k-th on. NULL after a fault.
static Value *data_branch(ImportNode *n, const DataAxis *d, int k) {
    Fourier f = dft_of(n, d->allowed[k], d->length);
    Value *y[2] = {NULL}, *here = NULL;
    if (k == d->count - 1) return (y[0] = dft_along(n, &f)) ? g_reshape(&n->b, y[0], y[0]->rank, d->shape) : NULL;
    if (!(here = formula_map(n, arena_printf(n->arena, "a0 == %di64", d->allowed[k]), 1, (Value **)&d->at))) return NULL;
    Region *branch[2], *outer = n->b.region;
    for (int i = 0; i < 2; i++) {
        n->b.region = branch[i] = graph_region_new(n->b.g, NULL);
        y[i] = i ? data_branch(n, d, k + 1) : dft_along(n, &f);
        if (y[i] && !i) y[i] = g_reshape(&n->b, y[i], y[i]->rank, d->shape);
        n->b.region = outer;
        if (!y[i]) return NULL;
        vec_push(n->arena, &branch[i]->yields, y[i]);
    }
    return g_if(&n->b, here, branch[0], branch[1])->out[0];
}

bool import_dft(ImportNode *n) {
    const Value *x = n->in[0];
    const Dim *length = NULL;
    int axis;
    if (!check_parts(n, x)) return false;
    if (attr_int(n, "onesided") && !attr_int(n, "inverse") && !dim_is(x->shape[x->rank - 1], 1))
        return import_fail(n, "onesided needs real numbers, input is %s", import_shape_text(n, x));
    if (n->nin > 1 && n->in[1] && !(length = import_extent(n, 1, 1))) return false;
    if (n->version >= 20 && n->nin > 2 && n->in[2] && !n->in[2]->content) {
        DataAxis d = {.length = length};
        n->out[0] = data_axis(n, &d) && data_shape(n, &d) ? data_branch(n, &d, 0) : NULL;
    } else {
        if (!dft_axis(n, x, &axis)) return false;
        Fourier f = dft_of(n, axis, length);
        if (is_empty(n, &f)) return import_fail(n, "a transform of length %s", dim_text(n->dims, f.length));
        n->out[0] = dft_along(n, &f);
    }
    return n->out[0] != NULL;
}

// ---- STFT ----
// [B, L, parts] as [B, frames, window, parts]; a window that reaches over the end reads zeros there.
static Value *frames(ImportNode *n, Value *x, const Dim *count, const Dim *window, const Dim *step) {
    DimTable *t = n->dims;
    const Dim *shape[] = {x->shape[0], count, window, x->shape[2]}, *d[4];
    for (int i = 0; i < 4; i++) d[i] = dim_axis(t, i, shape[i]);
    const Dim *at = dim_add(t, dim_mul(t, d[1], step), d[2]), *index[] = {d[0], at, d[3]};
    const Dim *guard = dim_sub(t, dim_addi(t, x->shape[1], -1), at);
    return g_view(&n->b, x, 4, shape, index, 1, &guard, scalar_int(x->type, 0));
}

bool import_stft(ImportNode *n) {
    DimTable *t = n->dims;
    Value *x = n->in[0], *window = n->nin > 2 ? n->in[2] : NULL;
    if (!check_parts(n, x) || !import_rank(n, 0, 3) || !import_rank(n, 2, 1)) return false;
    if (window && window->type != x->type)
        return import_fail(n, "the window has type %s, the signal %s", dtype_name(window->type), dtype_name(x->type));
    const Dim *step = import_extent(n, 1, 1), *length = window ? window->shape[0] : x->shape[1];
    if (!step || (n->nin > 3 && n->in[3] && !(length = import_extent(n, 3, 1)))) return false;
    const Dim *count = dim_addi(t, dim_floordiv(t, dim_sub(t, x->shape[1], length), step), 1);
    if (dim_ge0(t, count) == NO) return import_fail(n, "frames of %s do not fit %s", dim_text(t, length), import_shape_text(n, x));
    if (dim_ge0(t, count) == UNKNOWN) g_check(&n->b, NULL, 1, &count, CODE_SHAPE);
    bool onesided = attr_int(n, "onesided") != 0 && dim_is(x->shape[2], 1);
    Value *cut = import_widened(n, frames(n, x, count, window ? window->shape[0] : length, step));
    if (window) cut = g_map2(&n->b, X_mul, cut, g_unsqueeze(&n->b, import_widened(n, window), 1));
    Fourier f = {.axis = 2, .length = length, .bins = onesided ? dim_addi(t, dim_floordiv(t, length, dim_of(n, 2)), 1) : length};
    Value *y = fourier(n, cut, &f);
    if (y) n->out[0] = g_cast(&n->b, x->type, y);
    return y != NULL;
}
