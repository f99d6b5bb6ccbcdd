// Optimisers of ai.onnx.preview.training: pointwise formulas over a tensor, its gradient and its accumulators.
//
// Inputs are the learning rate R, the number of updates T, then all tensors, all gradients and all of each accumulator; outputs are the new
// tensors, then the new accumulators. In the formulas a0 is R, a1 T (as X's type), a2 X, a3 its gradient, a4 … its accumulators.
#include "formula.h"

#include <string.h>

enum { STATES_MAX = 2 };

typedef struct {
    const char *op, *mode;
    int nstates;
    const char *state[STATES_MAX]; // the new accumulators
    const char *x;                 // the new tensor, where a4 … are the new accumulators already
} Optimizer;

#define GRADIENT "($norm_coefficient * a2 + a3)"
static const Optimizer optimizers[] = {
    {"Adagrad", NULL, 1, {"a4 + " GRADIENT " * " GRADIENT},
        "a2 - (a0 / (1.0 + a1 * $decay_factor)) * " GRADIENT " / (sqrt(a4) + $epsilon)"},
    {"Adam", NULL, 2, {"$alpha * a4 + (1.0 - $alpha) * " GRADIENT, "$beta * a5 + (1.0 - $beta) * (" GRADIENT " * " GRADIENT ")"},
        "(1.0 - $norm_coefficient_post) * (a2 - select(a1 > 0.0, a0 * sqrt(1.0 - pow($beta, a1)) / (1.0 - pow($alpha, a1)), a0) * "
        "(a4 / (sqrt(a5) + $epsilon)))"},
    {"Momentum", "standard", 1, {"$alpha * a4 + select(a1 > 0.0, $beta, 1.0$T) * " GRADIENT}, "a2 - a0 * a4"},
    {"Momentum", "nesterov", 1, {"$alpha * a4 + select(a1 > 0.0, $beta, 1.0$T) * " GRADIENT}, "a2 - a0 * (" GRADIENT " + $alpha * a4)"},
};

static const Optimizer *find_optimizer(ImportNode *n) {
    static const char *const modes[] = {"standard", "nesterov", NULL};
    const char *mode = attr_exists(n, "mode") ? attr_string(n, "mode") : NULL;
    if (mode && !import_word(n, "mode", modes)) return NULL;
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        const Optimizer *o = &optimizers[i];
        if (!strcmp(o->op, n->row->name) && (!mode || !strcmp(mode, o->mode))) return o;
    }
    return NULL;
}

// One tensor: in holds R, T, X, the gradient and the accumulators, and gets the new X and accumulators in place. false after a fault.
static bool update(ImportNode *n, const Optimizer *o, Value **in) {
    Value *fresh[STATES_MAX];
    int count = 4 + o->nstates;
    DType t = in[2]->type;
    const Dim *const *shape = (const Dim *const *)in[2]->shape;
    if (!dtype_is_float(t) || !dtype_is_native(t)) return import_fail(n, "a tensor has type %s, float or double is needed", dtype_name(t));
    for (int i = 3; i < count; i++) {
        if (in[i]->type != t) return import_fail(n, "%s and %s differ in type", import_shape_text(n, in[2]), import_shape_text(n, in[i]));
        if (!import_value_is(n, "a gradient or accumulator", in[i], in[2]->rank, shape)) return false;
    }
    for (int i = 0; i < 2; i++) in[i] = g_cast(&n->b, t, in[i]);
    for (int i = 0; i < o->nstates; i++)
        if (!(fresh[i] = formula_tensor(n, o->state[i], count, in, in[2]->rank, shape, NULL))) return false;
    memcpy(in + 4, fresh, sizeof *fresh * (size_t)o->nstates);
    return (in[2] = formula_tensor(n, o->x, count, in, in[2]->rank, shape, NULL)) != NULL;
}

bool import_optimizer(ImportNode *n) {
    const Optimizer *o = find_optimizer(n);
    if (!o) return false;
    int each = 2 + o->nstates, count = (n->nin - 2) / each;
    if (count < 1 || (n->nin - 2) % each || n->nout > count * (1 + o->nstates))
        return import_fail(n, "has %d inputs and %d outputs, %d and %d are needed for each tensor behind the first two", n->nin, n->nout,
            each, 1 + o->nstates);
    Value *scalar[2];
    for (int i = 0; i < n->nin; i++)
        if (!n->in[i]) return import_fail(n, "input %d is missing", i);
    for (int i = 0; i < 2; i++) {
        if (dim_eq(n->dims, value_size(n->b.g, n->in[i]), dim_int(n->dims, 1)) == NO)
            return import_fail(n, "input %d is %s, a scalar is needed", i, import_shape_text(n, n->in[i]));
        scalar[i] = g_reshape(&n->b, n->in[i], 0, NULL);
    }
    Value **all = ARENA_ARRAY(n->arena, Value *, count * (1 + o->nstates));
    for (int i = 0; i < count; i++) {
        Value *in[4 + STATES_MAX] = {scalar[0], scalar[1]};
        for (int k = 0; k < each; k++) in[2 + k] = n->in[2 + k * count + i];
        if (!update(n, o, in)) return false;
        all[i] = in[2];
        for (int k = 0; k < o->nstates; k++) all[(1 + k) * count + i] = in[4 + k];
    }
    for (int i = 0; i < n->nout; i++) n->out[i] = all[i];
    return true;
}
