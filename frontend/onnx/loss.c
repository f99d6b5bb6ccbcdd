// Losses: the log probability of each target's class is gathered, weighed and reduced.
#include "formula.h"

#include <string.h>

enum { RANK_MAX = GRAPH_MAX_RANK };
typedef const Dim *const *DimArray;

// log_prob [N, C, d…], targets [N, d…], class weights [C] or NULL -> the loss; NULL after a fault. Targets equal to ignore_index count
// nothing, whatever their value.
static Value *likelihood_loss(ImportNode *n, Value *log_prob, Value *targets, Value *weights) {
    DimTable *t = n->dims;
    const char *reduction = attr_string(n, "reduction");
    bool mean = !strcmp(reduction, "mean"), none = !strcmp(reduction, "none");
    if (!mean && !none && strcmp(reduction, "sum")) return import_fail(n, "unknown reduction '%s'", reduction), NULL;
    if (log_prob->rank < 2 || targets->rank != log_prob->rank - 1 || !dtype_is_int(targets->type))
        return import_fail(n, "%s and targets %s do not fit", import_shape_text(n, log_prob), import_shape_text(n, targets)), NULL;
    for (int i = 0; i < targets->rank; i++)
        if (dim_eq(t, targets->shape[i], log_prob->shape[i ? i + 1 : 0]) == NO)
            return import_fail(n, "%s and targets %s do not fit", import_shape_text(n, log_prob), import_shape_text(n, targets)), NULL;
    targets = g_cast(&n->b, DT_i64, targets);
    Value *at = targets;
    if (attr_has(n, "ignore_index"))
        at = formula_map(
            n, arena_printf(n->arena, "select(a0 == (%lldi64), 0i64, a0)", (long long)attr_int(n, "ignore_index")), 1, &targets);
    const Dim *index[RANK_MAX], *v = dim_symbol(t, "v0", SYM_DATA, NULL, NULL);
    for (int i = 0; i < log_prob->rank; i++) index[i] = i == 1 ? v : dim_axis(t, i ? i - 1 : 0, targets->shape[i ? i - 1 : 0]);
    Value *picked =
        g_gather(&n->b, log_prob, 1, &at, &v, targets->rank, (DimArray)targets->shape, index, 0, NULL, scalar_int(log_prob->type, 0));
    Value *w = g_const_float(&n->b, log_prob->type, 1);
    if (weights) {
        if (!import_numeric(n, 2)) return NULL;
        weights = g_cast(&n->b, log_prob->type, weights);
        if (weights->rank != 1 || dim_eq(t, weights->shape[0], log_prob->shape[1]) == NO)
            return import_fail(n, "weights %s do not fit %s", import_shape_text(n, weights), import_shape_text(n, log_prob)), NULL;
        const Dim *u = dim_symbol(t, "v0", SYM_DATA, NULL, NULL);
        w = g_gather(&n->b, weights, 1, &at, &u, targets->rank, (DimArray)targets->shape, &u, 0, NULL, scalar_int(weights->type, 0));
    }
    const char *text = attr_has(n, "ignore_index")
                           ? arena_printf(n->arena, "select(a1 == (%lldi64), 0.0$T, a0)", (long long)attr_int(n, "ignore_index"))
                           : "a0";
    Value *in[] = {w, targets};
    w = formula_map(n, text, 2, in);
    Value *parts[] = {picked, w};
    Value *loss = w ? formula_map(n, "-(a0 * a1)", 2, parts) : NULL;
    if (!loss || none) return loss;
    int64_t axes[RANK_MAX];
    for (int i = 0; i < targets->rank; i++) axes[i] = i;
    Value *sum = g_reduce(&n->b, "sum", loss, targets->rank, axes, false);
    return mean ? g_map2(&n->b, X_div, sum, g_reduce(&n->b, "sum", w, targets->rank, axes, false)) : sum;
}

static Value *wide(ImportNode *n, Value *x) {
    return dtype_is_native(x->type) ? x : g_cast(&n->b, DT_f32, x);
}

static bool check_input(ImportNode *n) {
    DType t = n->in[0]->type;
    return dtype_is_float(t) || import_fail(n, "the input has type %s, a float type is needed", dtype_name(t));
}

bool import_nll_loss(ImportNode *n) {
    if (!check_input(n)) return false;
    Value *y = likelihood_loss(n, wide(n, n->in[0]), n->in[1], n->nin > 2 ? n->in[2] : NULL);
    if (y) n->out[0] = g_cast(&n->b, n->in[0]->type, y);
    return y != NULL;
}

bool import_cross_entropy_loss(ImportNode *n) {
    int64_t axis = 1;
    if (!check_input(n)) return false;
    if (n->in[0]->rank < 2) return import_fail(n, "scores have rank %d, at least 2 is needed", n->in[0]->rank);
    Value *log_prob = g_softmax(&n->b, "logsoftmax", wide(n, n->in[0]), 1, &axis);
    Value *y = likelihood_loss(n, log_prob, n->in[1], n->nin > 2 ? n->in[2] : NULL);
    if (!y) return false;
    n->out[0] = g_cast(&n->b, n->in[0]->type, y);
    n->out[1] = g_cast(&n->b, n->in[0]->type, log_prob);
    return true;
}
