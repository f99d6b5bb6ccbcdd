// The evaluator's random elements: a function of seed, node number and element number only, so that any order of evaluation gives the same
// ones.
//
// bits(i) = splitmix64(splitmix64(seed + 0x9e3779b97f4a7c15 * node) + i), the generator of Steele, Lea, Flood, "Fast splittable
// pseudorandom number generators" (2014); a uniform number is its top 53 bits over 2^53. Normal: Box-Muller of uniforms 2i and 2i + 1. The
// evaluator's seed is 0.
#include "graph_eval.h"
#include "strip.h"

#include <math.h>
#include <string.h>

static uint64_t splitmix64(uint64_t z) {
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double uniform(uint64_t key, uint64_t i) {
    return (double)(splitmix64(key + i) >> 11) * 0x1p-53;
}

static double f64_function(XOp op, double x) {
    strip_op(op, DT_f64, DT_f64, 1, &x, &x, NULL, NULL);
    return x;
}

static double normal(uint64_t key, uint64_t i) {
    double u = 1 - uniform(key, 2 * i), v = uniform(key, 2 * i + 1);
    return sqrt(-2 * f64_function(X_log, u)) * f64_function(X_cos, 6.283185307179586 * v);
}

// The class whose stretch of the cumulated weights exp(p) holds the uniform number u.
static int64_t pick_class(const Strided *p, int64_t row, double u, double *w) {
    int64_t classes = p->shape[1], c = 0;
    double sum = 0, at = 0;
    strided_read_f64(p->type, p->data + row * p->stride[0] * dtype_bytes(p->type), p->stride[1], classes, w);
    for (int64_t i = 0; i < classes; i++) sum += w[i] = f64_function(X_exp, w[i]);
    for (; c + 1 < classes; c++)
        if ((at += w[c]) > u * sum) break;
    return c;
}

bool eval_random(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    if (!eval_output(e, n, n->out[0], out)) return false;
    uint64_t key = splitmix64(0x9e3779b97f4a7c15u * (uint64_t)n->onnx_id);
    double a = n->params.n > 0 ? n->params.data[0] : 0, b = n->params.n > 1 ? n->params.data[1] : 1;
    int64_t count = strided_count(out), size = dtype_bytes(out->type);
    bool multinomial = !strcmp(n->kind, "multinomial"), bernoulli = !strcmp(n->kind, "bernoulli"), gauss = !strcmp(n->kind, "normal");
    if ((multinomial || bernoulli) && n->nin == 0) return eval_fail(e, n, CODE_ASSERT, "%s needs an input", n->kind);
    if (multinomial && (in[0]->rank != 2 || out->rank != 2 || in[0]->shape[1] == 0))
        return eval_fail(e, n, CODE_SHAPE, "multinomial needs weights [batch, classes]");
    Strided p = {.rank = 0};
    if (n->nin && !strided_dense(e, n, in[0], &p)) return false;
    double *room = multinomial ? ARENA_ARRAY(eval_scratch(e), double, p.shape[1]) : NULL;
    if (bernoulli && strided_count(&p) != count) return eval_fail(e, n, CODE_SHAPE, "bernoulli's output has another shape than its input");
    for (int64_t i = 0; i < count; i++) {
        double v = uniform(key, (uint64_t)i), chance;
        if (multinomial)
            v = (double)pick_class(&p, i / out->shape[1], v, room);
        else if (bernoulli) {
            strided_read_f64(p.type, p.data + i * dtype_bytes(p.type), 1, 1, &chance);
            v = v < chance;
        } else
            v = gauss ? a + b * normal(key, (uint64_t)i) : a + (b - a) * v;
        strided_write_f64(out->type, out->data + i * size, 1, &v);
    }
    strided_release(e, &p);
    return true;
}
