// Windows and filters of signal processing: their elements are formulas of the position, in f64, rounded once.
#include "formula.h"

#include <string.h>

typedef const Dim *const *DimArray;

static bool element_type(ImportNode *n, DType *t) {
    *t = dtype_from_onnx((int)attr_int(n, "output_datatype"));
    if (dtype_is_float(*t) || dtype_is_int(*t)) return true;
    return import_fail(n, "output_datatype %lld is no type of numbers", (long long)attr_int(n, "output_datatype"));
}

bool import_window_function(ImportNode *n) {
    static const struct {
        const char *op, *text;
    } rows[] = {
        {"BlackmanWindow", "0.42 - 0.5 * cos(%s) + 0.08 * cos(2.0 * %s)"},
        {"HammingWindow", "0.5434782608695652 - 0.45652173913043476 * cos(%s)"}, // 25/46, 21/46
        {"HannWindow", "0.5 - 0.5 * cos(%s)"},
    };
    const char *text = NULL, *angle = "(cast.f64(dim(d0)) * 6.283185307179586 / cast.f64(dim(N)))";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].op, n->row->name)) text = rows[i].text;
    DType t;
    const Dim *size = import_extent(n, 0, 0);
    if (!size || !element_type(n, &t)) return false;
    text = arena_printf(n->arena, arena_printf(n->arena, "cast.%s(%s)", dtype_name(t), text), angle, angle);
    const FormulaDim dims[] = {{"N", attr_int(n, "periodic") ? size : dim_addi(n->dims, size, -1)}, {0}};
    Value *y = formula_tensor(n, text, 0, NULL, 1, &size, dims);
    n->out[0] = y ? import_settled(n, y) : NULL;
    return y != NULL;
}

// ---- MelWeightMatrix ----
// The bins of a spectrum at which the filters start, peak and end: i64[filters + 2], evenly spaced on the mel scale.
static Value *mel_points(ImportNode *n, const Dim *filters, const Dim *length) {
    Value *in[] = {n->in[3], n->in[4], n->in[2]};
    for (int i = 0; i < 3; i++) {
        if (dim_eq(n->dims, value_size(n->b.g, in[i]), dim_int(n->dims, 1)) == NO) {
            import_fail(n, "%s is no scalar", import_shape_text(n, in[i]));
            return NULL;
        }
        in[i] = g_cast(&n->b, DT_f64, g_reshape(&n->b, in[i], 0, NULL));
    }
    const Dim *count = dim_addi(n->dims, filters, 2);
    const FormulaDim dims[] = {{"COUNT", count}, {"LENGTH", length}, {0}};
    // mel(f) = 2595 log10(1 + f / 700): a position between both edges, as a frequency, as a bin.
    Value *mel[] = {in[0], in[1]};
    for (int i = 0; i < 2; i++)
        if (!(mel[i] = formula_map(n, "log1p(a0 / 700.0)", 1, &mel[i]))) return NULL;
    Value *parts[] = {mel[0], mel[1], in[2]};
    const char *text = "cast.i64(floor(cast.f64(dim(LENGTH + 1)) * (700.0 * expm1(a0 + cast.f64(dim(d0)) * ((a1 - a0) / "
                       "cast.f64(dim(COUNT))))) / a2))";
    return formula_tensor(n, text, 3, parts, 1, &count, dims);
}

bool import_mel_weights(ImportNode *n) {
    DType t;
    const Dim *filters = import_extent(n, 0, 0), *length = filters ? import_extent(n, 1, 0) : NULL;
    if (!length || !element_type(n, &t)) return false;
    for (int i = 3; i < 5; i++)
        if (!dtype_is_float(n->in[i]->type)) return import_fail(n, "input %d has type %s", i, dtype_name(n->in[i]->type));
    Value *points = mel_points(n, filters, length), *in[3];
    if (!points) return false;
    for (int i = 0; i < 3; i++) in[i] = g_slice(&n->b, points, 0, dim_int(n->dims, i), filters, 1);
    const Dim *shape[] = {dim_addi(n->dims, dim_floordiv(n->dims, length, dim_int(n->dims, 2)), 1), filters};
    const char *at = "cast.i64(dim(d0))", *rise = "cast.f64(%s - a0) / cast.f64(a1 - a0)", *fall = "cast.f64(a2 - %s) / cast.f64(a2 - a1)";
    rise = arena_printf(n->arena, rise, at);
    fall = arena_printf(n->arena, fall, at);
    const char *up = arena_printf(n->arena, "select((%s >= a0) & (%s < a1), %s, select(%s == a1, 1.0, 0.0))", at, at, rise, at);
    const char *text = arena_printf(n->arena, "cast.%s(select((%s > a1) & (%s < a2), %s, %s))", dtype_name(t), at, at, fall, up);
    n->out[0] = formula_tensor(n, text, 3, in, 2, shape, NULL);
    return n->out[0] != NULL;
}
