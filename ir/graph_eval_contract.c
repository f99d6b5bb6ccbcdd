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

enum { BLOCK = 128, ROWS = 4 };

typedef struct {
    int64_t nsum, *ox, *oy; // offsets of the summed positions
    int64_t sx, sy;         // strides of the vector letter
    int64_t row;            // stride in x of ROWS rows that share y (sx is 0, sy 1); 0: one row
    int64_t run;            // length of a dot product along a letter with strides 1 and 1; 0: none
} Inner;

// block: one row of n accumulators. rows: ROWS rows of them, BLOCK apart, n a multiple of 8. dot: n products. The inner loops of constant
// length are there for the compiler's vectoriser.
#define KERNELS(T, ACC, name)                                                                                                              \
    static void block_##name(const Inner *k, const T *x, const T *y, int n, ACC *acc) {                                                    \
        int64_t sx = k->sx, sy = k->sy;                                                                                                    \
        for (int64_t s = 0; s < k->nsum; s++) {                                                                                            \
            const T *a = x + k->ox[s], *b = y + k->oy[s];                                                                                  \
            int i = 0;                                                                                                                     \
            ACC c = (ACC)*a;                                                                                                               \
            for (; sx == 0 && sy == 1 && i + 8 <= n; i += 8)                                                                               \
                for (int u = 0; u < 8; u++) acc[i + u] += c * (ACC)b[i + u];                                                               \
            for (; i < n; i++) acc[i] += (ACC)a[i * sx] * (ACC)b[i * sy];                                                                  \
        }                                                                                                                                  \
    }                                                                                                                                      \
    static void rows_##name(const Inner *k, const T *x, const T *y, int n, ACC *acc) {                                                     \
        for (int64_t s = 0; s < k->nsum; s++) {                                                                                            \
            const T *a = x + k->ox[s], *b = y + k->oy[s];                                                                                  \
            ACC c0 = (ACC)a[0], c1 = (ACC)a[k->row], c2 = (ACC)a[2 * k->row], c3 = (ACC)a[3 * k->row];                                     \
            for (int i = 0; i < n; i += 8) {                                                                                               \
                ACC v[8];                                                                                                                  \
                for (int u = 0; u < 8; u++) v[u] = (ACC)b[i + u];                                                                          \
                for (int u = 0; u < 8; u++) acc[i + u] += c0 * v[u];                                                                       \
                for (int u = 0; u < 8; u++) acc[BLOCK + i + u] += c1 * v[u];                                                               \
                for (int u = 0; u < 8; u++) acc[2 * BLOCK + i + u] += c2 * v[u];                                                           \
                for (int u = 0; u < 8; u++) acc[3 * BLOCK + i + u] += c3 * v[u];                                                           \
            }                                                                                                                              \
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

typedef union {
    double f[ROWS * BLOCK];
    uint64_t u[ROWS * BLOCK];
} Block;

// n output elements of one row, or of ROWS rows (BLOCK apart), to f64 or i64.
static void run_block(DType t, const Inner *k, const char *x, const char *y, int n, Block *acc) {
    memset(acc, 0, k->row ? sizeof *acc : (size_t)n * 8);
    int whole = k->row ? n & ~7 : 0, size = dtype_bytes(t);
    const void *a = x, *b = y;
    if (whole)
        (t == DT_f32      ? rows_f32(k, a, b, whole, acc->f)
            : t == DT_f64 ? rows_f64(k, a, b, whole, acc->f)
                          : rows_i64(k, a, b, whole, acc->u));
    for (int r = 0; r < (k->row ? ROWS : 1) && whole < n; r++) {
        a = x + r * k->row * size;
        b = y + whole * k->sy * size;
        Block *at = (Block *)(void *)&acc->f[r * BLOCK + whole];
        if (t == DT_f32)
            (k->run ? dot_f32 : block_f32)(k, a, b, n - whole, at->f);
        else if (t == DT_f64)
            (k->run ? dot_f64 : block_f64)(k, a, b, n - whole, at->f);
        else
            (k->run ? dot_i64 : block_i64)(k, a, b, n - whole, at->u);
    }
}

// ---- which letter is what ----

// The output letter with stride 1 or 0 in the operands and the largest extent; NULL when there is no output letter.
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

// An output letter that only x has, at least ROWS of it.
static Letter *row_letter(Letters *s, const Letter *vec) {
    for (int i = 0; i < s->n; i++)
        if (&s->l[i] != vec && !s->l[i].summed && s->l[i].sy == 0 && s->l[i].sx != 0 && s->l[i].extent >= ROWS) return &s->l[i];
    return NULL;
}

static Letter *dot_letter(Letters *s) {
    for (int i = 0; i < s->n; i++)
        if (s->l[i].summed && s->l[i].sx == 1 && s->l[i].sy == 1 && s->l[i].extent >= 8) return &s->l[i];
    return NULL;
}

// Offsets of the positions over the summed (or the output's) letters other than two, in operand 0 or 1 or the output (2).
static int64_t *offsets(Eval *e, const Letters *s, bool summed, const Letter *without, const Letter *nor, int which, int64_t *count) {
    int64_t shape[2 * GRAPH_MAX_RANK], stride[2 * GRAPH_MAX_RANK];
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        const Letter *l = &s->l[i];
        if (l->summed != summed || l == without || l == nor) continue;
        shape[n] = l->extent;
        stride[n++] = which == 0 ? l->sx : which == 1 ? l->sy : l->so;
    }
    return strided_offsets(e, n, shape, stride, count);
}

// acc is f64, or i64 when t is.
static void store_block(DType t, const Strided *out, int64_t at, int64_t stride, int n, const void *acc) {
    int size = dtype_bytes(out->type);
    char raw[BLOCK * 8], *to = out->data + at * size;
    int64_t whole[BLOCK];
    if (!dtype_is_float(out->type) && t != DT_i64) {
        for (int i = 0; i < n; i++) whole[i] = (int64_t)((const double *)acc)[i];
        acc = whole;
    }
    if (dtype_is_float(out->type))
        strided_write_f64(out->type, stride == 1 ? to : raw, n, acc);
    else
        strided_write_i64(out->type, stride == 1 ? to : raw, n, acc);
    for (int i = 0; i < n && stride != 1; i++) memcpy(to + i * stride * size, raw + i * size, (size_t)size);
}

static void swap_operands(Letters *s, const Strided **x, const Strided **y) {
    const Strided *t = *x;
    *x = *y;
    *y = t;
    for (int i = 0; i < s->n; i++) {
        int64_t stride = s->l[i].sx;
        s->l[i].sx = s->l[i].sy;
        s->l[i].sy = stride;
    }
}

// The letters of a contraction in their parts, and all positions of the outer loops.
typedef struct {
    DType t;
    const Strided *x, *y, *out;
    Inner k;
    Letter vec, row; // extent 1 where there is none
    int64_t nouter, *xo, *yo, *oo;
} Plan;

static void run_rows(const Plan *p, int64_t o, int64_t r, int rows, Block *acc) {
    const Letter *vec = &p->vec;
    int size = dtype_bytes(p->t);
    Inner k = p->k;
    if (rows == 1) k.row = 0;
    int64_t x = p->xo[o] + r * p->row.sx, y = p->yo[o] + r * p->row.sy, z = p->oo[o] + r * p->row.so;
    for (int64_t i = 0; i < vec->extent; i += BLOCK) {
        int n = vec->extent - i < BLOCK ? (int)(vec->extent - i) : BLOCK;
        run_block(p->t, &k, p->x->data + (x + i * vec->sx) * size, p->y->data + (y + i * vec->sy) * size, n, acc);
        for (int j = 0; j < rows; j++) store_block(p->t, p->out, z + j * p->row.so + i * vec->so, vec->so, n, &acc->f[j * BLOCK]);
    }
}

static void contract(Eval *e, DType t, Letters *s, const Strided *x, const Strided *y, const Strided *out) {
    bool unit;
    const Letter one = {.extent = 1};
    Letter *vec = vector_letter(s, &unit), *dot = unit ? NULL : dot_letter(s), *row = NULL;
    if (unit && vec->sy == 0) swap_operands(s, &x, &y);
    if (unit && vec->sx == 0) row = row_letter(s, vec);
    Plan p = {.t = t, .x = x, .y = y, .out = out, .vec = vec ? *vec : one, .row = row ? *row : one};
    p.k = (Inner){.sx = p.vec.sx, .sy = p.vec.sy, .row = p.row.sx, .run = dot ? dot->extent : 0};
    p.k.ox = offsets(e, s, true, dot, NULL, 0, &p.k.nsum);
    p.k.oy = offsets(e, s, true, dot, NULL, 1, &p.k.nsum);
    p.xo = offsets(e, s, false, vec, row, 0, &p.nouter);
    p.yo = offsets(e, s, false, vec, row, 1, &p.nouter);
    p.oo = offsets(e, s, false, vec, row, 2, &p.nouter);
    Block *acc = arena_alloc(eval_scratch(e), sizeof *acc);
    for (int64_t o = 0; o < p.nouter; o++)
        for (int64_t r = 0; r < p.row.extent;) {
            int rows = p.row.extent - r >= ROWS && row ? ROWS : 1;
            run_rows(&p, o, r, rows, acc);
            r += rows;
        }
}

// Joins letters that step as one through both operands and the output.
static void join_letters(Letters *s) {
    for (int i = 0; i < s->n; i++)
        for (int j = 0; j < s->n; j++) {
            Letter *a = &s->l[i], *b = &s->l[j];
            bool same =
                i != j && a->summed == b->summed && a->sx == b->sx * b->extent && a->sy == b->sy * b->extent && a->so == b->so * b->extent;
            if (!same) continue;
            b->extent *= a->extent;
            *a = s->l[--s->n];
            i = j = -1;
            break;
        }
}

// What the operands are computed in: 8-bit integers are exact in f32, and their sums in f64.
static DType compute_type(DType a, DType b) {
    if (a == DT_f64 || b == DT_f64) return DT_f64;
    bool small = dtype_info(a)->bits <= 8 && dtype_info(b)->bits <= 8;
    return small || dtype_is_float(a) ? DT_f32 : DT_i64;
}

bool eval_contract(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    DType t = compute_type(in[0]->type, in[1]->type);
    if (dtype_info(in[0]->type)->cls == 'C')
        return eval_fail(e, n, CODE_ASSERT, "cannot contract elements of type %s", dtype_name(in[0]->type));
    if (dtype_is_float(in[0]->type) != dtype_is_float(n->out[0]->type))
        return eval_fail(e, n, CODE_ASSERT, "operands and output mix floats and integers");
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
    if (!ok) return eval_fail(e, n, CODE_SHAPE, "extents of '%s' do not agree", n->subs);
    join_letters(&s);
    if (strided_count(out)) contract(e, t, &s, &x, &y, out);
    strided_release(e, &x);
    strided_release(e, &y);
    return true;
}
