// The evaluator's reductions, scans, softmax, normalisation and attention.
//
// Floats are reduced in f64 with four partial sums and rounded once; integers in 64 bits, wrapping. The axes of a row are gathered through
// a table of offsets, so several axes are as good as one.
#include "graph_eval.h"
#include "strip.h"

#include <math.h>
#include <string.h>

// ---- splitting axes ----

typedef struct {
    int64_t *kept, *reduced; // offsets into the input, in elements
    int64_t nkept, nreduced;
    int64_t run, run_stride; // the reduced table covers all but the innermost reduced axis, which is a run
} Split;

static bool is_axis(const IntList *axes, int i) {
    for (int k = 0; k < axes->n; k++)
        if (axes->data[k] == i) return true;
    return false;
}

static Split split_axes(Eval *e, const Strided *x, const IntList *axes) {
    int64_t shape[2][GRAPH_MAX_RANK], stride[2][GRAPH_MAX_RANK];
    int n[2] = {0, 0};
    for (int i = 0; i < x->rank; i++) {
        int side = is_axis(axes, i);
        shape[side][n[side]] = x->shape[i];
        stride[side][n[side]++] = x->stride[i];
    }
    Split s = {.run = 1, .run_stride = 1};
    if (n[1]) {
        n[1]--;
        s.run = shape[1][n[1]];
        s.run_stride = stride[1][n[1]];
    }
    s.kept = strided_offsets(e, n[0], shape[0], stride[0], &s.nkept);
    s.reduced = strided_offsets(e, n[1], shape[1], stride[1], &s.nreduced);
    return s;
}

// ---- reduce ----

// 64-bit integers in an order that signed comparison follows.
static int64_t ordered(DType t, int64_t v) {
    return t == DT_u64 ? v ^ INT64_MIN : v;
}

typedef struct {
    double sum[4], prod, min, max;
} FloatState;
typedef struct {
    uint64_t sum, prod;
    int64_t min, max;
} IntState;
typedef enum { R_sum, R_prod, R_min, R_max, R_any, R_all, R_arg } ReduceKind;

static ReduceKind reduce_kind(const char *kind) {
    static const char *const names[] = {"sum", "prod", "min", "max", "any", "all"};
    for (int i = 0; i < 6; i++)
        if (!strcmp(names[i], kind)) return (ReduceKind)i;
    return R_arg;
}

static double min_f64(double a, double b) {
    return a < b || isnan(a) ? a : b;
}
static double max_f64(double a, double b) {
    return a > b || isnan(a) ? a : b;
}

static void float_run(FloatState *s, ReduceKind k, const double *v, int n) {
    switch (k) {
    case R_sum:
        for (int i = 0; i < n; i++) s->sum[i & 3] += v[i];
        break;
    case R_prod:
        for (int i = 0; i < n; i++) s->prod *= v[i];
        break;
    case R_min:
        for (int i = 0; i < n; i++) s->min = min_f64(s->min, v[i]);
        break;
    default:
        for (int i = 0; i < n; i++) s->max = max_f64(s->max, v[i]);
    }
}

static void int_run(IntState *s, ReduceKind k, const int64_t *v, int n) {
    switch (k) {
    case R_sum:
        for (int i = 0; i < n; i++) s->sum += (uint64_t)v[i];
        break;
    case R_prod:
        for (int i = 0; i < n; i++) s->prod *= (uint64_t)v[i];
        break;
    case R_min:
    case R_all:
        for (int i = 0; i < n; i++) s->min = v[i] < s->min ? v[i] : s->min;
        break;
    default:
        for (int i = 0; i < n; i++) s->max = v[i] > s->max ? v[i] : s->max;
    }
}

static void reduce_float(const Strided *x, ReduceKind k, const Split *s, int64_t base, void *out) {
    FloatState st = {.prod = 1, .min = INFINITY, .max = -INFINITY};
    double v[EVAL_STRIP];
    int size = dtype_bytes(x->type);
    for (int64_t r = 0; r < s->nreduced; r++)
        for (int64_t i = 0; i < s->run; i += EVAL_STRIP) {
            int n = s->run - i < EVAL_STRIP ? (int)(s->run - i) : EVAL_STRIP;
            strided_read_f64(x->type, x->data + (base + s->reduced[r] + i * s->run_stride) * size, s->run_stride, n, v);
            float_run(&st, k, v, n);
        }
    double result = k == R_sum ? (st.sum[0] + st.sum[1]) + (st.sum[2] + st.sum[3]) : k == R_prod ? st.prod : k == R_min ? st.min : st.max;
    strided_write_f64(x->type, out, 1, &result);
}

// The least and greatest value of an integer type, as `ordered` gives them.
static void int_bounds(DType t, int64_t *lo, int64_t *hi) {
    *lo = INT64_MIN;
    *hi = INT64_MAX;
    int bits = dtype_info(t)->bits;
    if (t == DT_bool)
        *lo = 0, *hi = 1;
    else if (bits < 64 && dtype_is_signed(t))
        *lo = -((int64_t)1 << (bits - 1)), *hi = -*lo - 1;
    else if (bits < 64)
        *lo = 0, *hi = ((int64_t)1 << bits) - 1;
}

static void reduce_int(const Strided *x, ReduceKind k, const Split *s, int64_t base, void *out) {
    IntState st = {.prod = 1};
    int_bounds(x->type, &st.max, &st.min);
    int64_t v[EVAL_STRIP];
    int size = dtype_bytes(x->type);
    for (int64_t r = 0; r < s->nreduced; r++)
        for (int64_t i = 0; i < s->run; i += EVAL_STRIP) {
            int n = s->run - i < EVAL_STRIP ? (int)(s->run - i) : EVAL_STRIP;
            strided_read_i64(x->type, x->data + (base + s->reduced[r] + i * s->run_stride) * size, s->run_stride, n, v);
            for (int j = 0; j < n && x->type == DT_u64 && k >= R_min; j++) v[j] = ordered(DT_u64, v[j]);
            int_run(&st, k, v, n);
        }
    int64_t result = k == R_sum    ? (int64_t)st.sum
                     : k == R_prod ? (int64_t)st.prod
                                   : ordered(x->type, k == R_min || k == R_all ? st.min : st.max);
    strided_write_i64(x->type, out, 1, &result);
}

// Position of the extreme along the one axis; the first NaN is the extreme of floats.
static int64_t arg_extreme(const Strided *x, bool min, bool last, const Split *s, int64_t base) {
    int64_t best = -1, iv[EVAL_STRIP], ibest = 0;
    double fv[EVAL_STRIP], fbest = 0;
    bool is_float = dtype_is_float(x->type);
    int size = dtype_bytes(x->type);
    for (int64_t i = 0; i < s->run; i += EVAL_STRIP) {
        int n = s->run - i < EVAL_STRIP ? (int)(s->run - i) : EVAL_STRIP;
        const char *at = x->data + (base + i * s->run_stride) * size;
        if (is_float)
            strided_read_f64(x->type, at, s->run_stride, n, fv);
        else
            strided_read_i64(x->type, at, s->run_stride, n, iv);
        for (int j = 0; j < n; j++) {
            if (is_float && isnan(fv[j])) return i + j;
            int64_t w = is_float ? 0 : ordered(x->type, iv[j]);
            int order = is_float ? (fv[j] > fbest) - (fv[j] < fbest) : (w > ibest) - (w < ibest);
            if (min) order = -order;
            if (best >= 0 && order < (last ? 0 : 1)) continue;
            best = i + j;
            ibest = w;
            fbest = is_float ? fv[j] : 0;
        }
    }
    return best;
}

// ---- reduce, many kept elements at a time: for short runs, as in pooling ----

static double float_start(ReduceKind k) {
    return k == R_prod ? 1 : k == R_min ? INFINITY : k == R_max ? -INFINITY : 0;
}

static void combine_floats(ReduceKind k, double *acc, const double *v, int n) {
    switch (k) {
    case R_sum:
        for (int i = 0; i < n; i++) acc[i] += v[i];
        break;
    case R_prod:
        for (int i = 0; i < n; i++) acc[i] *= v[i];
        break;
    case R_min:
        for (int i = 0; i < n; i++) acc[i] = min_f64(acc[i], v[i]);
        break;
    default:
        for (int i = 0; i < n; i++) acc[i] = max_f64(acc[i], v[i]);
    }
}

// n kept elements, `stride` apart in x, to out.
static void reduce_block(const Strided *x, ReduceKind k, const Split *s, int64_t base, int64_t stride, int n, void *out) {
    double acc[EVAL_STRIP], v[EVAL_STRIP];
    int size = dtype_bytes(x->type);
    for (int i = 0; i < n; i++) acc[i] = float_start(k);
    for (int64_t r = 0; r < s->nreduced; r++)
        for (int64_t i = 0; i < s->run; i++) {
            strided_read_f64(x->type, x->data + (base + s->reduced[r] + i * s->run_stride) * size, stride, n, v);
            combine_floats(k, acc, v, n);
        }
    strided_write_f64(x->type, out, n, acc);
}

// True when it was done: floats, runs too short to be worth a loop, and a long enough last kept axis.
static bool reduce_by_blocks(const Node *n, const Strided *x, ReduceKind k, const Split *s, Strided *out) {
    int last = x->rank - 1;
    while (last >= 0 && is_axis(&n->axes, last)) last--;
    if (k > R_max || last < 0 || !dtype_is_float(x->type) || s->run >= 16 || x->shape[last] < 16) return false;
    for (int64_t i = 0; i < s->nkept; i += x->shape[last])
        for (int64_t j = 0; j < x->shape[last]; j += EVAL_STRIP) {
            int c = x->shape[last] - j < EVAL_STRIP ? (int)(x->shape[last] - j) : EVAL_STRIP;
            reduce_block(x, k, s, s->kept[i + j], x->stride[last], c, out->data + (i + j) * dtype_bytes(out->type));
        }
    return true;
}

bool eval_reduce(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    const Strided *x = in[0];
    DType t = x->type;
    if (dtype_info(t)->cls == 'S' || dtype_info(t)->cls == 'C')
        return eval_fail(e, n, CODE_ASSERT, "cannot reduce elements of type %s", dtype_name(t));
    if (!eval_output(e, n, n->out[0], out)) return false;
    Split s = split_axes(e, x, &n->axes);
    ReduceKind k = reduce_kind(n->kind);
    bool min = k == R_arg && !strncmp(n->kind, "argmin", 6), last = k == R_arg && strstr(n->kind, "_last");
    if (k == R_arg && s.run == 0 && s.nkept) return eval_fail(e, n, CODE_SHAPE, "%s of an empty axis", n->kind);
    if (reduce_by_blocks(n, x, k, &s, out)) return true;
    int size = dtype_bytes(out->type);
    for (int64_t i = 0; i < s.nkept; i++) {
        char *to = out->data + i * size;
        if (k == R_arg)
            ((int64_t *)(void *)out->data)[i] = arg_extreme(x, min, last, &s, s.kept[i]);
        else if (dtype_is_float(t))
            reduce_float(x, k, &s, s.kept[i], to);
        else
            reduce_int(x, k, &s, s.kept[i], to);
    }
    return true;
}

// ---- scan ----

static double scan_f64(ReduceKind k, double a, double b) {
    return k == R_sum ? a + b : k == R_prod ? a * b : k == R_min ? min_f64(a, b) : max_f64(a, b);
}

static int64_t scan_i64(ReduceKind k, DType t, int64_t a, int64_t b) {
    if (k == R_sum) return (int64_t)((uint64_t)a + (uint64_t)b);
    if (k == R_prod) return (int64_t)((uint64_t)a * (uint64_t)b);
    return (ordered(t, a) < ordered(t, b)) == (k == R_min) ? a : b;
}

static void scan_line(const Node *n, const Strided *x, ReduceKind k, int64_t base, int64_t to, Strided *out) {
    int axis = (int)n->axis, size = dtype_bytes(x->type);
    bool is_float = dtype_is_float(x->type);
    int64_t len = x->shape[axis], lo, hi;
    int_bounds(x->type, &lo, &hi);
    double f = k == R_prod ? 1 : k == R_min ? INFINITY : k == R_max ? -INFINITY : 0;
    int64_t w = k == R_prod ? 1 : k == R_min ? ordered(x->type, hi) : k == R_max ? ordered(x->type, lo) : 0;
    for (int64_t i = 0; i < len; i++) {
        int64_t p = n->reverse ? len - 1 - i : i, fi;
        double ff;
        char *o = out->data + (to + p * out->stride[axis]) * size;
        const char *v = x->data + (base + p * x->stride[axis]) * size;
        if (n->exclusive && is_float) strided_write_f64(x->type, o, 1, &f);
        if (n->exclusive && !is_float) strided_write_i64(x->type, o, 1, &w);
        if (is_float) {
            strided_read_f64(x->type, v, 1, 1, &ff);
            f = scan_f64(k, f, ff);
        } else {
            strided_read_i64(x->type, v, 1, 1, &fi);
            w = scan_i64(k, x->type, w, fi);
        }
        if (!n->exclusive && is_float) strided_write_f64(x->type, o, 1, &f);
        if (!n->exclusive && !is_float) strided_write_i64(x->type, o, 1, &w);
    }
}

bool eval_scan(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    if (!eval_output(e, n, n->out[0], out)) return false;
    IntList axes = {&n->axis, 1};
    Split a = split_axes(e, in[0], &axes), b = split_axes(e, out, &axes);
    for (int64_t i = 0; i < a.nkept; i++) scan_line(n, in[0], reduce_kind(n->kind), a.kept[i], b.kept[i], out);
    return true;
}

// ---- softmax, norm: a row at a time in f64 ----

static void read_row(const Strided *x, const Split *s, int64_t base, double *row) {
    int size = dtype_bytes(x->type);
    for (int64_t r = 0; r < s->nreduced; r++)
        strided_read_f64(x->type, x->data + (base + s->reduced[r]) * size, s->run_stride, s->run, row + r * s->run);
}

static void write_row(const Strided *x, const Split *s, int64_t base, const double *row) {
    int size = dtype_bytes(x->type);
    for (int64_t r = 0; r < s->nreduced; r++)
        for (int64_t i = 0; i < s->run; i++)
            strided_write_f64(x->type, x->data + (base + s->reduced[r] + i * s->run_stride) * size, 1, &row[r * s->run + i]);
}

static void apply_f64(XOp op, double *v, int64_t n) {
    for (int64_t i = 0; i < n; i += EVAL_STRIP)
        strip_op(op, DT_f64, DT_f64, n - i < EVAL_STRIP ? (int)(n - i) : EVAL_STRIP, v + i, v + i, NULL, NULL);
}

static double sum_f64(const double *v, int64_t n) {
    double s[4] = {0};
    for (int64_t i = 0; i < n; i++) s[i & 3] += v[i];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

// In place. A row that is -inf throughout is NaN, or 0 when masked_zero.
static void softmax_row(double *v, int64_t n, bool log, double *room, bool masked_zero) {
    double m = -INFINITY;
    for (int64_t i = 0; i < n; i++) m = max_f64(m, v[i]);
    if (masked_zero && isinf(m) && m < 0) {
        memset(v, 0, sizeof *v * (size_t)n);
        return;
    }
    for (int64_t i = 0; i < n; i++) room[i] = v[i] -= m;
    apply_f64(X_exp, room, n);
    double sum = sum_f64(room, n);
    if (log) apply_f64(X_log, &sum, 1);
    for (int64_t i = 0; i < n; i++) v[i] = log ? v[i] - sum : room[i] / sum;
}

static void norm_row(double *v, int64_t n, bool layer, double eps, double *room) {
    double mean = layer ? sum_f64(v, n) / (double)n : 0;
    for (int64_t i = 0; i < n; i++) {
        v[i] -= mean;
        room[i] = v[i] * v[i];
    }
    double scale = sqrt(sum_f64(room, n) / (double)n + eps);
    for (int64_t i = 0; i < n; i++) v[i] /= scale;
}

static bool eval_rows(Eval *e, const Node *n, const Strided *x, Strided *out) {
    if (!eval_output(e, n, n->out[0], out)) return false;
    Split s = split_axes(e, x, &n->axes), t = split_axes(e, out, &n->axes);
    int64_t len = s.nreduced * s.run;
    double *row = ARENA_ARRAY(eval_scratch(e), double, 2 * len + 1), *room = row + len;
    for (int64_t i = 0; i < s.nkept; i++) {
        read_row(x, &s, s.kept[i], row);
        if (n->op == G_softmax)
            softmax_row(row, len, !strcmp(n->kind, "logsoftmax"), room, false);
        else
            norm_row(row, len, !strcmp(n->kind, "layer"), n->eps, room);
        write_row(out, &t, t.kept[i], row);
    }
    return true;
}

bool eval_softmax(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    return eval_rows(e, n, in[0], out);
}
bool eval_norm(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    return eval_rows(e, n, in[0], out);
}

// ---- attention ----

typedef struct {
    const Strided *const *in;
    Walk walk;                         // over [b, h, s, t]
    int64_t (*stride)[GRAPH_MAX_RANK]; // of inputs 3 … in the walk
    IndexStrip index;
    int64_t first;
    DType acc;
    const char *a0; // the row's scores, type acc; element 0 stands at `row`
    int64_t row;
} Scores;

static void scores_leaf(void *ctx, const Expr *e, int n, void *dst) {
    Scores *s = ctx;
    if (e->op == X_dim) {
        index_move(&s->index, s->first, n);
        index_value(&s->index, e->dim, dst);
    } else if (e->k == 0) {
        memcpy(dst, s->a0 + (s->first - s->row) * dtype_bytes(s->acc), (size_t)n * (size_t)dtype_bytes(s->acc));
    } else {
        const Strided *x = s->in[2 + e->k];
        walk_fill(&s->walk, s->stride[e->k - 1], dtype_bytes(x->type), x->data, s->first, n, dst);
    }
}

static void find_score_dim(void *ctx, const Expr *e) {
    if (e->op == X_dim) index_use(ctx, e->dim);
}

// The body over the row's scores, in place.
static void score_row(Scores *s, StripCode *code, int64_t len, char *row) {
    int size = dtype_bytes(s->acc);
    s->a0 = row;
    for (int64_t i = 0; i < len; i += EVAL_STRIP) {
        int n = len - i < EVAL_STRIP ? (int)(len - i) : EVAL_STRIP;
        s->first = s->row + i;
        strip_run(code, n, scores_leaf, s);
        memcpy(row + i * size, strip_result(code, 0), (size_t)n * (size_t)size);
    }
}

static double dot_f64(const double *a, const double *b, int64_t n) {
    double s[4] = {0};
    for (int64_t i = 0; i < n; i++) s[i & 3] += a[i] * b[i];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

static void read_matrix(const Strided *x, int64_t b, int64_t h, double *m) {
    const char *at = x->data + (b * x->stride[0] + h * x->stride[1]) * dtype_bytes(x->type);
    for (int64_t i = 0; i < x->shape[2]; i++)
        strided_read_f64(x->type, at + i * x->stride[2] * dtype_bytes(x->type), x->stride[3], x->shape[3], m + i * x->shape[3]);
}

// Rows of one head: q [S, E], k [T, E], v [T, F] in f64.
static void attend_head(const Node *n, Scores *s, StripCode *score, StripCode *prob, const double *q, const double *k, const double *v,
    const Strided *out, int64_t head, double *room) {
    int64_t S = s->walk.shape[2], T = s->walk.shape[3], E = s->in[0]->shape[3], F = out->shape[3];
    double *p = room, *more = room + T, *sum = more + T;
    char *row = (char *)(sum + F);
    for (int64_t i = 0; i < S; i++) {
        s->row = (head * S + i) * T;
        for (int64_t j = 0; j < T; j++) p[j] = n->scale * dot_f64(q + i * E, k + j * E, E);
        strided_write_f64(s->acc, row, T, p);
        score_row(s, score, T, row);
        strided_read_f64(s->acc, row, 1, T, p);
        softmax_row(p, T, false, more, true);
        strided_write_f64(s->acc, row, T, p);
        score_row(s, prob, T, row);
        strided_read_f64(s->acc, row, 1, T, p);
        memset(sum, 0, sizeof *sum * (size_t)F);
        for (int64_t j = 0; j < T; j++)
            for (int64_t f = 0; f < F; f++) sum[f] += p[j] * v[j * F + f];
        strided_write_f64(out->type, out->data + (head * S + i) * F * dtype_bytes(out->type), F, sum);
    }
}

bool eval_attention(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    const Strided *q = in[0], *k = in[1], *v = in[2];
    if (!eval_output(e, n, n->out[0], out)) return false;
    int64_t shape[4] = {q->shape[0], q->shape[1], q->shape[2], k->shape[2]};
    bool fits = k->shape[3] == q->shape[3] && v->shape[2] == k->shape[2] && v->shape[3] == out->shape[3];
    for (int i = 0; i < 2; i++) fits = fits && k->shape[i] == q->shape[i] && v->shape[i] == q->shape[i];
    if (!fits) return eval_fail(e, n, CODE_SHAPE, "q, k and v do not fit");
    Scores s = {.in = in, .acc = q->type == DT_f64 ? DT_f64 : DT_f32};
    s.walk.rank = 4;
    memcpy(s.walk.shape, shape, sizeof shape);
    s.stride = arena_alloc(eval_scratch(e), sizeof *s.stride * (size_t)n->nin);
    for (int i = 3; i < n->nin; i++)
        if (!walk_broadcast(in[i], 4, shape, s.stride[i - 3]))
            return eval_fail(e, n, CODE_SHAPE, "input %d does not broadcast to the scores", i);
    if (strided_count(out) == 0) return true;
    index_begin(&s.index, e, n, 4, shape);
    expr_visit(n->score, find_score_dim, &s.index);
    expr_visit(n->prob, find_score_dim, &s.index);
    StripCode *score = strip_prepare(eval_scratch(e), &n->score, 1, EVAL_STRIP),
              *prob = strip_prepare(eval_scratch(e), &n->prob, 1, EVAL_STRIP);
    int64_t S = shape[2], T = shape[3], E = q->shape[3], F = v->shape[3];
    double *qm = ARENA_ARRAY(eval_scratch(e), double, (S + T) * E + T * F + 3 * T + F + 8), *km = qm + S * E, *vm = km + T * E;
    for (int64_t b = 0; b < shape[0]; b++)
        for (int64_t h = 0; h < shape[1]; h++) {
            read_matrix(q, b, h, qm);
            read_matrix(k, b, h, km);
            read_matrix(v, b, h, vm);
            attend_head(n, &s, score, prob, qm, km, vm, out, b * shape[1] + h, vm + T * F);
        }
    return s.index.ok || eval_fail(e, n, CODE_SHAPE, "a dimension in a body is not known");
}
