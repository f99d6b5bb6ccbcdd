// Random operators: the core operation `random`, whose numbers depend on the run's seed and on the node's place in the model.
#include "formula.h"

#include <string.h>

static DType element_type(const ImportNode *n, DType missing) {
    int64_t given = attr_int(n, "dtype");
    return given ? dtype_from_onnx((int)given) : missing;
}

bool import_random(ImportNode *n) {
    const Value *like = n->nin ? n->in[0] : NULL;
    bool gauss = !strncmp(n->row->name, "RandomNormal", 12);
    DType t = element_type(n, like ? like->type : DT_f32);
    if (!dtype_is_float(t)) return import_fail(n, "the output's type is %s, a float type is needed", dtype_name(t));
    IntList shape = like ? (IntList){0} : attr_ints(n, "shape");
    int rank = like ? like->rank : shape.n;
    if (rank > GRAPH_MAX_RANK) return import_unsupported(n, "rank %d", rank);
    const Dim **extents = ARENA_ARRAY(n->arena, const Dim *, rank + 1);
    for (int i = 0; i < rank; i++) {
        if (!like && shape.data[i] < 0) return import_fail(n, "shape has the entry %ld", (long)shape.data[i]);
        extents[i] = like ? like->shape[i] : dim_int(n->dims, shape.data[i]);
    }
    const double params[] = {attr_float(n, gauss ? "mean" : "low"), attr_float(n, gauss ? "scale" : "high")};
    n->out[0] = g_random(&n->b, gauss ? "normal" : "uniform", NULL, t, rank, extents, (F64List){params, 2});
    return true;
}

bool import_bernoulli(ImportNode *n) {
    Value *p = n->in[0];
    DType t = element_type(n, p->type);
    if (!dtype_is_float(p->type) || t == DT_none || t == DT_str) return import_fail(n, "the types do not fit");
    n->out[0] = g_random(&n->b, "bernoulli", p, t, p->rank, (const Dim *const *)p->shape, (F64List){0});
    return true;
}

bool import_multinomial(ImportNode *n) {
    Value *p = n->in[0];
    DType t = element_type(n, DT_i32);
    if (p->rank != 2 || !dtype_is_float(p->type) || !dtype_is_int(t))
        return import_fail(n, "%s and the type %s do not fit", import_shape_text(n, p), dtype_name(t));
    int64_t samples = attr_int(n, "sample_size");
    if (samples < 1) return import_fail(n, "sample_size is %ld", (long)samples);
    const Dim *shape[] = {p->shape[0], dim_int(n->dims, samples)};
    n->out[0] = g_random(&n->b, "multinomial", p, t, 2, shape, (F64List){0});
    return true;
}
