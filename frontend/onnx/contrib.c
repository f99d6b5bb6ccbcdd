// Operators of com.microsoft that join ones of ai.onnx: products and convolutions with an activation behind them, sums before a
// normalisation, embeddings, crops. What ONNX Runtime computes is the reference.
#include "window.h"

#include <string.h>

enum { RANK_MAX = GRAPH_MAX_RANK };
typedef const Dim *const *DimArray;

static Value *optional_input(const ImportNode *n, int i) {
    return i < n->nin ? n->in[i] : NULL;
}

// ---- activations ----
bool import_bias_activation(ImportNode *n) {
    bool fast = !strcmp(n->row->name, "FastGelu");
    const char *text = fast ? "0.5 * a0 * (1.0 + tanh(0.7978845608028654 * (a0 + 0.044715 * (a0 * (a0 * a0)))))"
                            : "0.5 * a0 * (1.0 + erf(a0 * 0.7071067811865476))";
    Value *x = import_widened(n, n->in[0]), *bias = optional_input(n, 1);
    if (!dtype_is_float(x->type)) return import_fail(n, "input has type %s, a float type is needed", dtype_name(x->type));
    if (bias && (!import_rank(n, 1, 1) || !import_same_types(n, 0, 1) || !import_broadcast(n, 2, n->in))) return false;
    if (bias) x = g_map2(&n->b, X_add, x, import_widened(n, bias));
    Value *y = formula_map(n, text, 1, &x);
    if (y) n->out[0] = g_cast(&n->b, n->in[0]->type, y);
    return y != NULL;
}

// An activation by name behind another operator, over the f32 or f64 value x; `p` its parameters. NULL after a fault.
static Value *activated(ImportNode *n, const char *name, const double *p, Value *x) {
    static const struct {
        const char *name, *text;
    } rows[] = {
        {"Relu", "max(0.0, a0)"},
        {"Tanh", "tanh(a0)"},
        {"Sigmoid", "sigmoid(a0)"},
        {"Softplus", "max(a0, 0.0) + log1p(exp(-abs(a0)))"},
        {"Softsign", "a0 / (1.0 + abs(a0))"},
        {"LeakyRelu", "select(a0 < 0.0, a0 * a1, a0)"},
        {"ThresholdedRelu", "select(a0 > a1, a0, 0.0)"},
        {"Elu", "select(a0 > 0.0, a0, a1 * expm1(a0))"},
        {"Clip", "min(max(a0, a1), a2)"},
        {"HardSigmoid", "max(min(a0 * a1 + a2, 1.0), 0.0)"},
        {"HardSwish", "a0 * max(min(a0 * a1 + a2, 1.0), 0.0)"},
        {"ScaledTanh", "a1 * tanh(a2 * a0)"},
    };
    if (!name || !*name) return x;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].name, name)) continue;
        Value *in[] = {x, g_const_float(&n->b, x->type, p[0]), g_const_float(&n->b, x->type, p[1])};
        return formula_map(n, rows[i].text, 3, in);
    }
    import_unsupported(n, "the activation '%.60s'", name);
    return NULL;
}

// ---- products ----
// Axis 0 moved to the last but one place, then the last two interchanged, as told.
static Value *turned(ImportNode *n, Value *x, bool batch, bool matrix) {
    int64_t perm[RANK_MAX];
    int r = x->rank;
    if (r < 2 || (!batch && !matrix)) return x;
    for (int i = 0; i < r; i++) perm[i] = !batch ? i : i < r - 2 ? i + 1 : i == r - 2 ? 0 : i;
    if (matrix) {
        int64_t last = perm[r - 1];
        perm[r - 1] = perm[r - 2];
        perm[r - 2] = last;
    }
    return g_transpose(&n->b, x, perm);
}

bool import_fused_matmul(ImportNode *n) {
    static const char *const names[2][2] = {{"transA", "transBatchA"}, {"transB", "transBatchB"}};
    Value *in[2];
    if (!import_same_types(n, 0, 1) || !import_numeric(n, 0)) return false;
    for (int i = 0; i < 2; i++) {
        bool batch = attr_exists(n, names[i][1]) && attr_int(n, names[i][1]) != 0;
        in[i] = turned(n, import_widened(n, n->in[i]), batch, attr_int(n, names[i][0]) != 0);
    }
    Value *y = import_matmul_values(n, in[0], in[1], in[0]->type);
    double alpha = attr_float(n, "alpha");
    if (!y) return false;
    if (alpha != 1) y = g_map2(&n->b, X_mul, y, g_const_float(&n->b, y->type, alpha));
    n->out[0] = g_cast(&n->b, n->in[0]->type, y);
    return true;
}

bool import_fused_gemm(ImportNode *n) {
    static const char *const names[] = {"activation_alpha", "activation_beta"};
    const char *name = attr_string(n, "activation");
    double p[2] = {0};
    for (int i = 0; i < 2; i++)
        if (attr_has(n, names[i])) p[i] = attr_float(n, names[i]);
    if (name && !attr_has(n, names[0]) && (!strcmp(name, "LeakyRelu") || !strcmp(name, "Elu"))) p[0] = *name == 'L' ? 0.01 : 1;
    if (!import_gemm(n)) return false;
    Value *y = activated(n, name, p, import_widened(n, n->out[0]));
    if (y) n->out[0] = g_cast(&n->b, n->in[0]->type, y);
    return y != NULL;
}

bool import_fused_conv(ImportNode *n) {
    F64List given = attr_floats(n, "activation_params");
    double p[2] = {given.n > 0 ? given.data[0] : 0, given.n > 1 ? given.data[1] : 0};
    if (!import_same_types(n, 0, 3)) return false;
    Value *x = import_widened(n, n->in[0]), *bias = optional_input(n, 2), *sum = optional_input(n, 3);
    Value *y = import_conv_values(n, x, import_widened(n, n->in[1]), x->type);
    if (!y) return false;
    if (bias) y = import_channel_bias(n, y, import_widened(n, bias));
    if (sum) {
        if (!import_shape_is(n, 3, y->rank, (DimArray)y->shape)) return false;
        y = g_map2(&n->b, X_add, y, import_widened(n, sum));
    }
    y = activated(n, attr_string(n, "activation"), p, y);
    if (y) n->out[0] = g_cast(&n->b, n->in[0]->type, y);
    return y != NULL;
}

// ---- normalisation ----
// y * gamma + beta over the last axis of the normalised x; outputs 1 and 2 are mean (layer only) and 1/deviation.
static bool normalise(ImportNode *n, const char *kind, Value *x, Value *gamma, Value *beta) {
    int64_t last = x->rank - 1;
    double eps = attr_float(n, "epsilon");
    bool layer = !strcmp(kind, "layer");
    Value *wide[] = {gamma, beta};
    for (int i = 0; i < 2; i++)
        if (wide[i] && !import_value_is(n, i ? "beta" : "gamma", wide[i], 1, (DimArray)x->shape + last)) return false;
    Value *y = g_norm(&n->b, kind, x, 1, &last, eps);
    if (gamma) y = g_map2(&n->b, X_mul, y, import_widened(n, gamma));
    if (beta) y = g_map2(&n->b, X_add, y, import_widened(n, beta));
    n->out[0] = g_cast(&n->b, n->in[0]->type, y);
    if (n->row->max_out < 3 || n->nout < 2 || !(n->wanted[1] || (n->nout > 2 && n->wanted[2]))) return true;
    Value *mean = import_mean(n, x, 1, &last, true), *d = layer ? g_map2(&n->b, X_sub, x, mean) : x;
    Value *var = import_mean(n, g_map2(&n->b, X_mul, d, d), 1, &last, true);
    n->out[1] = g_cast(&n->b, DT_f32, mean);
    n->out[2] = formula_map(n, "1.0 / sqrt(a0 + $epsilon)", 1, &var);
    return n->out[2] != NULL;
}

// input + skip + bias; skip may lack the batch axis or have a batch of 1.
static Value *skip_sum(ImportNode *n, Value *bias) {
    Value *x = n->in[0], *skip = n->in[1];
    if (!import_same_types(n, 0, n->nin - 1)) return NULL;
    if (!dtype_is_float(x->type) || x->rank < 2 || skip->rank > x->rank)
        return import_fail(n, "input %s and skip %s do not fit", import_shape_text(n, x), import_shape_text(n, skip)), NULL;
    if (!import_broadcast(n, 2, n->in)) return NULL;
    Value *sum = g_map2(&n->b, X_add, import_widened(n, x), import_widened(n, skip));
    if (!bias) return sum;
    return import_value_is(n, "the bias", bias, 1, (DimArray)x->shape + x->rank - 1) ? g_map2(&n->b, X_add, sum, import_widened(n, bias))
                                                                                     : NULL;
}

static bool skip_norm(ImportNode *n, const char *kind, Value *beta, Value *bias) {
    Value *sum = skip_sum(n, bias);
    if (!sum || !normalise(n, kind, sum, n->in[2], beta)) return false;
    n->out[3] = g_cast(&n->b, n->in[0]->type, sum);
    return true;
}

bool import_skip_layer_norm(ImportNode *n) {
    return skip_norm(n, "layer", optional_input(n, 3), optional_input(n, 4));
}

bool import_skip_simplified_layer_norm(ImportNode *n) {
    return skip_norm(n, "rms", NULL, optional_input(n, 3));
}

// RMSNormalization under its older name, with 1/deviation as second output.
bool import_simplified_layer_norm(ImportNode *n) {
    Value *x = import_widened(n, n->in[0]);
    int64_t axes[RANK_MAX];
    int axis, count = 0;
    if (!dtype_is_float(x->type)) return import_fail(n, "input has type %s, a float type is needed", dtype_name(x->type));
    if (!import_axis(n, attr_int(n, "axis"), x->rank, &axis)) return false;
    if (n->in[1]->rank > x->rank || !import_broadcast(n, 2, n->in))
        return import_fail(n, "the scale is %s, the input %s", import_shape_text(n, n->in[1]), import_shape_text(n, x));
    for (int i = axis; i < x->rank; i++) axes[count++] = i;
    Value *y = g_map2(&n->b, X_mul, g_norm(&n->b, "rms", x, count, axes, attr_float(n, "epsilon")), import_widened(n, n->in[1]));
    n->out[0] = g_cast(&n->b, n->in[1]->type, y);
    if (n->nout < 2) return true;
    Value *square = import_mean(n, g_map2(&n->b, X_mul, x, x), count, axes, true);
    n->out[1] = formula_map(n, "1.0 / sqrt(a0 + $epsilon)", 1, &square);
    return n->out[1] != NULL;
}

// ---- EmbedLayerNormalization ----
// Rows of a table [V, H] at ids [B, S].
static Value *rows_of(ImportNode *n, Value *table, Value *ids) {
    if (table->rank != 2 || ids->rank != 2 || !dtype_is_int(ids->type))
        return import_fail(n, "table %s and ids %s do not fit", import_shape_text(n, table), import_shape_text(n, ids)), NULL;
    const Dim *shape[] = {ids->shape[0], ids->shape[1], table->shape[1]}, *v = dim_symbol(n->dims, "v0", SYM_DATA, NULL, NULL);
    const Dim *index[] = {v, dim_axis(n->dims, 2, shape[2])};
    Value *at = g_unsqueeze(&n->b, g_cast(&n->b, DT_i64, ids), 2);
    return g_gather(&n->b, import_widened(n, table), 1, &at, &v, 3, shape, index, 0, NULL, scalar_int(import_widened(n, table)->type, 0));
}

static Value *positions_of(ImportNode *n) {
    const Value *ids = n->in[0];
    Value *given = optional_input(n, 8);
    if (!given) return formula_tensor(n, "cast.i64(dim(d1))", 0, NULL, 2, (DimArray)ids->shape, NULL);
    if (given->rank != 2 || !import_broadcast(n, 2, (Value *[]){n->in[0], given})) return NULL;
    return g_expand(&n->b, given, 2, (DimArray)ids->shape);
}

bool import_embed_layer_norm(ImportNode *n) {
    Value *ids = n->in[0], *segments = optional_input(n, 1), *mask = optional_input(n, 7);
    static const int needed[] = {2, 3, 5, 6};
    for (int i = 0; i < 4; i++)
        if (!optional_input(n, needed[i])) return import_fail(n, "input %d is missing", needed[i]);
    if (!import_rank(n, 0, 2) || !import_same_types(n, 2, 3)) return false;
    DType type = n->in[2]->type;
    if (!dtype_is_float(type)) return import_fail(n, "the embeddings have type %s", dtype_name(type));
    Value *words = rows_of(n, n->in[2], ids), *at = words ? positions_of(n) : NULL, *places = at ? rows_of(n, n->in[3], at) : NULL;
    if (!places || !import_broadcast(n, 2, (Value *[]){words, places})) return false;
    Value *sum = g_map2(&n->b, X_add, words, places);
    if (segments && optional_input(n, 4)) {
        Value *rows = rows_of(n, n->in[4], segments);
        if (!rows || !import_broadcast(n, 2, (Value *[]){sum, rows})) return false;
        sum = g_map2(&n->b, X_add, sum, rows);
    }
    int64_t last = 2, one = 1;
    Value *y = g_norm(&n->b, "layer", sum, 1, &last, attr_float(n, "epsilon"));
    for (int i = 5; i < 7; i++) {
        if (!import_shape_is(n, i, 1, (DimArray)sum->shape + 2)) return false;
        y = g_map2(&n->b, i == 5 ? X_mul : X_add, y, import_widened(n, n->in[i]));
    }
    n->out[0] = g_cast(&n->b, type, y);
    n->out[2] = g_cast(&n->b, type, sum);
    if (mask && !import_shape_is(n, 7, 2, (DimArray)ids->shape)) return false;
    n->out[1] = mask ? g_reduce(&n->b, "sum", g_cast(&n->b, DT_i32, mask), 1, &one, false)
                     : g_map_shape(&n->b, 0, NULL, x_int(n->arena, DT_i32, 0), 1, (DimArray)ids->shape);
    return true;
}

// ---- shapes ----
bool import_expand_dims(ImportNode *n) {
    Value *x = n->in[0];
    int64_t given;
    int count, axis;
    if (!import_const_ints(n, 1, &given, 1, &count) || !import_axis(n, given, x->rank + 1, &axis)) return false;
    n->out[0] = g_unsqueeze(&n->b, x, axis);
    return true;
}

// The step may be missing.
bool import_range_of_two(ImportNode *n) {
    Value *one = g_cast(&n->b, n->in[0]->type, g_const_ints(&n->b, DT_i64, -1, &(int64_t){1})), *in[] = {n->in[0], n->in[1], one};
    if (optional_input(n, 2)) return import_range(n);
    n->in = arena_copy(n->arena, in, sizeof in);
    n->nin = 3;
    return import_range(n);
}

// The distinct elements of a vector in order of occurrence, the place of each element among them, and how many there are of each.
bool import_unique_counts(ImportNode *n) {
    Value *x = n->in[0];
    if (!import_rank(n, 0, 1) || !import_numeric(n, 0)) return false;
    const Dim *extent = x->shape[0], *count = graph_symbol(n->b.g, "entries", SYM_DATA, dim_of(n, 0), extent);
    const DType types[] = {x->type, DT_i64, DT_i64, DT_i64};
    const int ranks[] = {1, 1, 1, 1};
    const DimArray shapes[] = {&count, &count, &extent, &count};
    const int64_t first_come = 0;
    Node *t =
        g_template(&n->b, "unique", 1, &x, 4, types, ranks, shapes, -1, (F64List){0}, (DimList){&count, 1}, (IntList){&first_come, 1});
    n->out[0] = t->out[0];
    n->out[1] = t->out[2];
    n->out[2] = t->out[3];
    return true;
}

bool import_nhwc_max_pool(ImportNode *n) {
    static const int64_t first[] = {0, 3, 1, 2}, last[] = {0, 2, 3, 1};
    if (!import_rank(n, 0, 4)) return false;
    Value *x = n->in[0];
    n->in[0] = g_transpose(&n->b, x, first);
    bool ok = import_max_pool(n);
    n->in[0] = x;
    if (ok) n->out[0] = g_transpose(&n->b, n->out[0], last);
    return ok;
}

// ---- CropAndResize ----
// Coordinate of the output's elements along one axis of a region given by its ends in 0..1: f32[R, cells].
static Value *crop_axis(ImportNode *n, Value *start, Value *end, const Dim *extent, const Dim *cells) {
    const FormulaDim dims[] = {{"L", extent}, {"C", cells}, {0}};
    const Dim *shape[] = {start->shape[0], cells};
    Value *in[] = {g_unsqueeze(&n->b, start, 1), g_unsqueeze(&n->b, end, 1)};
    const char *text = "select(dim(C) > 1, a0 * cast.f32(dim(L - 1)) + cast.f32(dim(d1)) * ((a1 - a0) * cast.f32(dim(L - 1)) / "
                       "cast.f32(dim(max(C - 1, 1)))), 0.5 * (a0 + a1) * cast.f32(dim(L - 1)))";
    return formula_tensor(n, text, 2, in, 2, shape, dims);
}

typedef struct {
    ImportNode *n;
    Value *x, *batch, *at[2]; // f32[R, cells] an axis
    const Dim *shape[4];      // [R, C, cells, cells]
} Crop;

// A value [R, cells] of axis 0 or 1 as it meets the output.
static Value *crop_placed(const Crop *c, Value *v, int axis) {
    v = g_unsqueeze(&c->n->b, v, 1);
    return g_unsqueeze(&c->n->b, v, axis ? 2 : 3);
}

// x at text(coordinate), one text an axis.
static Value *crop_read(const Crop *c, const char *const *texts) {
    ImportNode *n = c->n;
    DimTable *t = n->dims;
    Value *index[3] = {c->batch};
    for (int i = 0; i < 3; i++) index[0] = g_unsqueeze(&n->b, index[0], index[0]->rank);
    const Dim *v[3], *at[4] = {NULL, dim_axis(t, 1, c->shape[1]), NULL, NULL};
    for (int i = 0; i < 2; i++) {
        const FormulaDim dims[] = {{"L", c->x->shape[2 + i]}, {0}};
        const char *text = arena_printf(n->arena, "cast.i64(max(min(%s, cast.f32(dim(L - 1))), 0.0))", texts[i]);
        Value *a = c->at[i], *p = formula_tensor(n, text, 1, &a, 2, (DimArray)a->shape, dims);
        if (!p) return NULL;
        index[1 + i] = crop_placed(c, p, i);
    }
    for (int i = 0; i < 3; i++) v[i] = at[i ? 1 + i : 0] = dim_symbol(t, arena_printf(n->arena, "v%d", i), SYM_DATA, NULL, NULL);
    return g_gather(&n->b, c->x, 3, index, v, 4, c->shape, at, 0, NULL, scalar_int(c->x->type, 0));
}

static Value *crop_values(const Crop *c, bool nearest) {
    static const char *const near[] = {"floor(a0 + 0.5)", "floor(a0 + 0.5)"}, *const low = "floor(a0)", *const high = "ceil(a0)";
    ImportNode *n = c->n;
    if (nearest) return crop_read(c, near);
    Value *in[6];
    for (int i = 0; i < 4; i++) {
        const char *const texts[] = {i & 2 ? high : low, i & 1 ? high : low};
        if (!(in[i] = crop_read(c, texts))) return NULL;
    }
    for (int i = 0; i < 2; i++) {
        Value *a = c->at[i], *f = formula_map(n, "a0 - floor(a0)", 1, &a);
        if (!f) return NULL;
        in[4 + i] = crop_placed(c, f, i);
    }
    return formula_map(n, "(a0 + (a1 - a0) * a5) + ((a2 + (a3 - a2) * a5) - (a0 + (a1 - a0) * a5)) * a4", 6, in);
}

bool import_crop_and_resize(ImportNode *n) {
    static const char *const modes[] = {"bilinear", "nearest", NULL};
    Crop c = {.n = n, .x = import_widened(n, n->in[0]), .batch = n->in[2]};
    const Dim *const *cells;
    int count;
    const Dim *four = dim_of(n, 4), *regions = n->in[1]->rank ? n->in[1]->shape[0] : four, *want[] = {regions, four};
    if (!import_word(n, "mode", modes) || !import_rank(n, 0, 4) || !import_shape_is(n, 1, 2, want) || !import_shape_is(n, 2, 1, &regions))
        return false;
    if (!import_same_types(n, 0, 1) || !dtype_is_float(c.x->type) || !dtype_is_int(c.batch->type) || !import_sizes(n, 3, &cells, &count))
        return import_fail(n, "the inputs' types do not fit");
    if (count != 2) return import_fail(n, "crop_size has %d entries, 2 are needed", count);
    const Dim *shape[] = {regions, c.x->shape[1], cells[0], cells[1]};
    memcpy(c.shape, shape, sizeof shape);
    c.batch = g_cast(&n->b, DT_i64, c.batch);
    for (int i = 0; i < 2; i++) {
        Value *ends[2];
        for (int k = 0; k < 2; k++)
            ends[k] = g_cast(&n->b, DT_f32, g_squeeze(&n->b, g_slice(&n->b, n->in[1], 1, dim_of(n, i + 2 * k), dim_of(n, 1), 1), 1));
        if (!(c.at[i] = crop_axis(n, ends[0], ends[1], c.x->shape[2 + i], cells[i]))) return false;
    }
    Value *y = crop_values(&c, !strcmp(attr_string(n, "mode"), "nearest"));
    if (!y) return false;
    const FormulaDim dims[] = {{"H", c.x->shape[2]}, {"W", c.x->shape[3]}, {0}};
    Value *in[] = {y, crop_placed(&c, c.at[0], 0), crop_placed(&c, c.at[1], 1)};
    const char *text = "select((a1 >= 0.0) & (a1 <= cast.f32(dim(H - 1))) & (a2 >= 0.0) & (a2 <= cast.f32(dim(W - 1))), a0, "
                       "$extrapolation_value)";
    y = formula_tensor(n, text, 3, in, 4, c.shape, dims);
    if (y) n->out[0] = g_cast(&n->b, n->in[0]->type, y);
    return y != NULL;
}
