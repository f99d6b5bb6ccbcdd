// Operators of ai.onnx.ml on numbers: feature selection and scaling.
#include "formula.h"

#include <string.h>

enum { RANK_MAX = GRAPH_MAX_RANK };

// The elements of the last axis that an index tensor names: [.., F] at Y -> [.., |Y|]; rank 1 becomes one row.
bool import_array_feature_extractor(ImportNode *n) {
    Value *x = n->in[0], *at = n->in[1];
    if (!import_numeric(n, 0)) return false;
    if (x->rank < 1 || !dtype_is_int(at->type))
        return import_fail(n, "%s and %s do not fit", import_shape_text(n, x), import_shape_text(n, at));
    if (x->rank == 1) x = g_unsqueeze(&n->b, x, 0);
    const Dim *count = value_size(n->b.g, at), *shape[RANK_MAX], *index[RANK_MAX], *v = dim_symbol(n->dims, "v0", SYM_DATA, NULL, NULL);
    for (int i = 0; i < x->rank; i++) {
        shape[i] = i + 1 < x->rank ? x->shape[i] : count;
        index[i] = i + 1 < x->rank ? dim_axis(n->dims, i, shape[i]) : v;
    }
    at = g_reshape(&n->b, at, 1, &count);
    n->out[0] = g_gather(&n->b, x, 1, &at, &v, x->rank, shape, index, 0, NULL, scalar_int(x->type, 0));
    return true;
}

bool import_binarizer(ImportNode *n) {
    if (!import_numeric(n, 0)) return false;
    DType t = n->in[0]->type;
    n->out[0] =
        formula_map(n, dtype_is_float(t) ? "select(a0 > $threshold, 1.0$T, 0.0$T)" : "cast.$T(cast.f64(a0) > $threshold)", 1, n->in);
    return n->out[0] != NULL;
}

static Value *float_list(ImportNode *n, const char *name, double missing) {
    F64List list = attr_floats(n, name);
    int count = list.n ? list.n : 1;
    float *v = arena_alloc(n->arena, sizeof(float) * (size_t)count);
    for (int i = 0; i < count; i++) v[i] = list.n ? (float)list.data[i] : (float)missing;
    const Dim *shape = dim_int(n->dims, count);
    return g_const(&n->b, DT_f32, 1, &shape, (Data){v, sizeof(float) * (size_t)count});
}

// (x - offset) * scale along the last axis.
bool import_scaler(ImportNode *n) {
    if (!import_numeric(n, 0)) return false;
    Value *in[] = {g_cast(&n->b, DT_f32, n->in[0]), float_list(n, "offset", 0), float_list(n, "scale", 1)};
    if (!import_broadcast(n, 3, in)) return false;
    n->out[0] = formula_map(n, "(a0 - a1) * a2", 3, in);
    return n->out[0] != NULL;
}
