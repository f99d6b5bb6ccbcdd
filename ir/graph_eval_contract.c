// The evaluator's contraction: sums of products over the letters that the output lacks, straight over strided operands (so that a
// convolution reads a window view and no copy of it is made).
//
// One output letter is the vector: a block of its elements is accumulated at once, for each position of the summed letters, whose offsets
// are tables. When a summed letter runs with stride 1 in both operands and no output letter does in one, the inner loop is a dot product
// along it. f32 (and smaller floats, which are converted first) accumulate in f64, integers in 64 bits that wrap.
#include "graph_eval.h"

#include <ctype.h>
#include <string.h>

typedef struct {
    char letter;
    bool summed;
    int64_t extent, sx, sy, so; // strides in x, y and the output
} Letter;

typedef struct {
    Letter l[2 * GRAPH_MAX_RANK];
    int n;
} Letters;

static Letter *find_letter(Letters *s, char c) {
    for (int i = 0; i < s->n; i++)
        if (s->l[i].letter == c) return &s->l[i];
    return NULL;
}

static bool read_letters(Letters *s, const char **subs, const Strided *x, int which) {
    for (int i = 0; isalpha((unsigned char)**subs); ++*subs, i++) {
        Letter *l = find_letter(s, **subs);
        if (!l) {
            if (s->n == 2 * GRAPH_MAX_RANK) return false;
            l = &s->l[s->n++];
            *l = (Letter){.letter = **subs, .extent = x->shape[i], .summed = true};
        }
        if (l->extent != x->shape[i]) return false;
        if (which == 0)
            l->sx += x->stride[i];
        else if (which == 1)
            l->sy += x->stride[i];
        else
            l->so += x->stride[i], l->summed = false;
    }
    return true;
}

// ---- operands as f32, f64 or i64, keeping their strides ----

static bool convert_operand(Eval *e, const Node *n, const Strided *x, DType to, Strided *out) {
    if (x->type == to || strided_count(x) == 0) {
        *out = strided_share(x);
        return true;
    }
    // The stretch of memory that the view touches; a copy of the view itself when that is much larger.
    int64_t lo = 0, hi = 0, count = strided_count(x), stretch;
    for (int i = 0; i < x->rank; i++) {
        int64_t far = (x->shape[i] - 1) * x->stride[i];
        if (far < 0)
            lo += far;
        else
            hi += far;
    }
    stretch = hi - lo + 1;
    Strided flat, dense = *x;
    bool copied = stretch > 2 * count;
    if (copied) {
        if (!strided_dense(e, n, x, &dense)) return false;
        lo = 0;
        stretch = count;
    }
    if (!eval_alloc(e, n, to, 1, &stretch, &flat)) return false;
    const char *from = dense.data + lo * dtype_bytes(x->type);
    if (to == DT_i64)
        strided_read_i64(x->type, from, 1, stretch, (int64_t *)(void *)flat.data);
    else if (to == DT_f64)
        strided_read_f64(x->type, from, 1, stretch, (double *)(void *)flat.data);
    else {
        double v[EVAL_STRIP];
        for (int64_t i = 0; i < stretch; i += EVAL_STRIP) {
            int64_t k = stretch - i < EVAL_STRIP ? stretch - i : EVAL_STRIP;
            strided_read_f64(x->type, from + i * dtype_bytes(x->type), 1, k, v);
            strided_write_f64(to, flat.data + i * dtype_bytes(to), k, v);
        }
    }
    *out = dense;
    out->type = to;
    out->data = flat.data - lo * dtype_bytes(to);
    out->buffer = flat.buffer;
    if (copied) strided_release(e, &dense);
    return true;
}

// ---- kernels ----

enum { BLOCK = 128 };

typedef struct {
    int64_t nsum, *ox, *oy; // offsets of the summed positions
    int64_t sx, sy;         // strides of the vector letter
    int64_t run, rx, ry;    // of a dot product: length and strides (1, 1)
} Inner;

#define KERNELS(T, ACC, name)                                                                                                              \
    static void block_##name(const Inner *k, const T *x, const T *y, int n, ACC *acc) {                                                    \
        int64_t sx = k->sx, sy = k->sy;                                                                                                    \
        for (int64_t s = 0; s < k->nsum; s++) {                                                                                            \
            const T *a = x + k->ox[s], *b = y + k->oy[s];                                                                                  \
            if (sx == 0 && sy == 1) {                                                                                                      \
                ACC c = (ACC)*a;                                                                                                           \
                for (int i = 0; i < n; i++) acc[i] += c * (ACC)b[i];                                                                       \
            } else if (sx == 1 && sy == 0) {                                                                                               \
                ACC c = (ACC)*b;                                                                                                           \
                for (int i = 0; i < n; i++) acc[i] += (ACC)a[i] * c;                                                                       \
            } else                                                                                                                         \
                for (int i = 0; i < n; i++) acc[i] += (ACC)a[i * sx] * (ACC)b[i * sy];                                                     \
        }                                                                                                                                  \
    }                                                                                                                                      \
    static void dot_##name(const Inner *k, const T *x, const T *y, int n, ACC *acc) {                                                      \
        for (int i = 0; i < n; i++) {                                                                                                      \
            ACC p[8] = {0};                                                                                                                \
            for (int64_t s = 0; s < k->nsum; s++) {                                                                                        \
                const T *a = x + i * k->sx + k->ox[s], *b = y + i * k->sy + k->oy[s];                                                      \
                int64_t j = 0;                                                                                                             \
                for (; j + 8 <= k->run; j += 8)                                                                                            \
                    for (int u = 0; u < 8; u++) p[u] += (ACC)a[j + u] * (ACC)b[j + u];                                                     \
                for (; j < k->run; j++) p[j & 7] += (ACC)a[j] * (ACC)b[j];                                                                 \
            }                                                                                                                              \
            acc[i] = ((p[0] + p[1]) + (p[2] + p[3])) + ((p[4] + p[5]) + (p[6] + p[7]));                                                    \
        }                                                                                                                                  \
    }

KERNELS(float, double, f32)
KERNELS(double, double, f64)
KERNELS(uint64_t, uint64_t, i64)

// One block of n output elements to f64 or i64 (as uint64_t).
static void run_block(DType t, const Inner *k, const char *x, const char *y, int n, void *acc) {
    memset(acc, 0, (size_t)n * 8);
    const void *a = x, *b = y;
    if (t == DT_f32)
        (k->run ? dot_f32 : block_f32)(k, a, b, n, acc);
    else if (t == DT_f64)
        (k->run ? dot_f64 : block_f64)(k, a, b, n, acc);
    else
        (k->run ? dot_i64 : block_i64)(k, a, b, n, acc);
}

// The output letter with unit or zero strides and the largest extent; NULL when there is no output letter.
static Letter *vector_letter(Letters *s, bool *unit) {
    Letter *best = NULL;
    *unit = false;
    for (int i = 0; i < s->n; i++) {
        Letter *l = &s->l[i];
        if (l->summed) continue;
        bool u = l->sx >= 0 && l->sx <= 1 && l->sy >= 0 && l->sy <= 1 && l->sx + l->sy > 0 && l->extent > 3;
        if (best && (u < *unit || (u == *unit && l->extent <= best->extent))) continue;
        best = l;
        *unit = u;
    }
    return best;
}

static Letter *dot_letter(Letters *s) {
    for (int i = 0; i < s->n; i++)
        if (s->l[i].summed && s->l[i].sx == 1 && s->l[i].sy == 1 && s->l[i].extent >= 8) return &s->l[i];
    return NULL;
}

static int64_t *offsets(Eval *e, const Letters *s, bool summed, const Letter *without, int which, int64_t *count) {
    int64_t shape[2 * GRAPH_MAX_RANK], stride[2 * GRAPH_MAX_RANK];
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        const Letter *l = &s->l[i];
        if (l->summed != summed || l == without) continue;
        shape[n] = l->extent;
        stride[n++] = which == 0 ? l->sx : which == 1 ? l->sy : l->so;
    }
    return strided_offsets(e, n, shape, stride, count);
}

static void store_block(const Strided *out, int64_t at, int64_t stride, int n, const void *acc) {
    int size = dtype_bytes(out->type);
    char raw[BLOCK * 8];
    char *to = out->data + at * size;
    if (dtype_is_float(out->type))
        strided_write_f64(out->type, stride == 1 ? to : raw, n, acc);
    else
        strided_write_i64(out->type, stride == 1 ? to : raw, n, acc);
    if (stride == 1) return;
    for (int i = 0; i < n; i++) memcpy(to + i * stride * size, raw + i * size, (size_t)size);
}

static void contract(Eval *e, DType t, Letters *s, const Strided *x, const Strided *y, const Strided *out) {
    bool unit;
    Letter one = {.extent = 1}, *vec = vector_letter(s, &unit), *dot = unit ? NULL : dot_letter(s);
    Inner k = {.run = dot ? dot->extent : 0};
    k.ox = offsets(e, s, true, dot, 0, &k.nsum);
    k.oy = offsets(e, s, true, dot, 1, &k.nsum);
    int64_t nouter, *xo = offsets(e, s, false, vec, 0, &nouter), *yo = offsets(e, s, false, vec, 1, &nouter),
                    *oo = offsets(e, s, false, vec, 2, &nouter);
    if (!vec) vec = &one;
    k.sx = vec->sx;
    k.sy = vec->sy;
    int size = dtype_bytes(t);
    for (int64_t o = 0; o < nouter; o++)
        for (int64_t i = 0; i < vec->extent; i += BLOCK) {
            union {
                double f[BLOCK];
                uint64_t u[BLOCK];
            } acc;
            int n = vec->extent - i < BLOCK ? (int)(vec->extent - i) : BLOCK;
            run_block(t, &k, x->data + (xo[o] + i * vec->sx) * size, y->data + (yo[o] + i * vec->sy) * size, n, &acc);
            store_block(out, oo[o] + i * vec->so, vec->so, n, &acc);
        }
}

bool eval_contract(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    DType t = in[0]->type == DT_f64 || in[1]->type == DT_f64 ? DT_f64 : dtype_is_float(in[0]->type) ? DT_f32 : DT_i64;
    if (dtype_info(in[0]->type)->cls == 'C')
        return eval_fail(e, n, "ASSERT", "cannot contract elements of type %s", dtype_name(in[0]->type));
    if (dtype_is_float(in[0]->type) != dtype_is_float(n->out[0]->type))
        return eval_fail(e, n, "ASSERT", "operands and output mix floats and integers");
    if (!eval_output(e, n, n->out[0], out)) return false;
    Strided x, y;
    if (!convert_operand(e, n, in[0], t, &x) || !convert_operand(e, n, in[1], t, &y)) return false;
    Letters s = {.n = 0};
    const char *subs = n->subs;
    bool ok = read_letters(&s, &subs, &x, 0);
    subs++;
    ok = ok && read_letters(&s, &subs, &y, 1);
    subs += 2;
    ok = ok && read_letters(&s, &subs, out, 2);
    if (!ok) return eval_fail(e, n, "SHAPE", "extents of '%s' do not agree", n->subs);
    if (strided_count(out)) contract(e, t, &s, &x, &y, out);
    strided_release(e, &x);
    strided_release(e, &y);
    return true;
}
