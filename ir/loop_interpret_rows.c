// Sums of products over a nest of loops, for all lanes of a strip: the inside of matrix products and convolutions.
//
//   reduce c … { for a … { for b … { set acc = fma(x[…], w[…], acc) } } }      also acc + x[…]*w[…] and acc + x[…]; f32
//
// The indices are linear in the symbols of the nest, so that addresses are computed once and then only moved; bounds are checked once, at
// the ends of all loops. Each lane adds in the order of the loops: the bits are those of the plain loop. Whatever does not fit is left to
// run_loop.
#include "loop_interpret.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { MAX_NEST = 4, BLOCK = 16 };
typedef enum { ROWS_FMA, ROWS_MULADD, ROWS_ADD } RowsKind;

typedef struct {
    int slot; // of the buffer
    DimCode *at, *coeff[MAX_NEST];
} RowsOperand;

struct RowsCode {
    int depth, var;
    RowsKind kind;
    CodeStmt *level[MAX_NEST];
    RowsOperand x, w; // ROWS_ADD has no w
};

// ---- compiling ----

// The only statement of a loop's body, comments aside.
static CodeStmt *only_stmt(CodeStmt *c) {
    CodeStmt *only = NULL;
    for (int i = 0; i < c->nbody; i++) {
        if (c->body[i].s->kind == ST_COMMENT) continue;
        if (only) return NULL;
        only = &c->body[i];
    }
    return only;
}

static bool is_plain_load(const Expr *e) {
    VType f32 = vtype(DT_f32, 1);
    return e->op == X_load && !e->a[0] && !e->a[1] && vtype_same(e->type, f32) && vtype_same(e->var->type, f32);
}

static bool is_acc(const Expr *e, const Var *acc) {
    return e->op == X_var && e->var == acc;
}

static bool match_update(const Expr *e, const Var *acc, RowsKind *kind, const Expr **x, const Expr **w) {
    if (e->op == X_fma && is_acc(e->a[2], acc)) {
        *kind = ROWS_FMA;
        *x = e->a[0];
        *w = e->a[1];
        return is_plain_load(*x) && is_plain_load(*w);
    }
    if (e->op != X_add || is_acc(e->a[0], acc) == is_acc(e->a[1], acc)) return false;
    const Expr *term = e->a[is_acc(e->a[0], acc)];
    bool product = term->op == X_mul;
    *kind = product ? ROWS_MULADD : ROWS_ADD;
    *x = product ? term->a[0] : term;
    *w = product ? term->a[1] : NULL;
    return is_plain_load(*x) && (!*w || is_plain_load(*w));
}

static bool mentions_nest(const RowsCode *rows, const Dim *d) {
    for (int i = 0; i < rows->depth; i++)
        if (dim_has_symbol(d, rows->level[i]->s->sym)) return true;
    return false;
}

static bool code_operand(Run *r, FuncCode *f, RowsCode *rows, const Expr *load, RowsOperand *o) {
    const Dim *index = load->dim;
    for (int i = 0; i < rows->depth; i++) {
        const Dim *coeff, *rest;
        if (!dim_linear(r->p->dims, index, rows->level[i]->s->sym, &coeff, &rest) || mentions_nest(rows, coeff)) return false;
        o->coeff[i] = code_dim(r, f, coeff);
        index = rest;
    }
    o->at = code_dim(r, f, load->dim);
    o->slot = code_slot(r, f, load->var, &f->nbufs, 1);
    return true;
}

RowsCode *code_rows(Run *r, FuncCode *f, CodeStmt *loop) {
    RowsCode rows = {0};
    CodeStmt *c = loop;
    for (; c && (c->s->kind == ST_FOR || c->s->kind == ST_REDUCE); c = only_stmt(c)) {
        bool inner = rows.depth > 0;
        if (c->s->loop == LOOP_PAR || (inner && c->s->kind == ST_REDUCE) || rows.depth == MAX_NEST) return NULL;
        if (mentions_nest(&rows, c->s->lo) || mentions_nest(&rows, c->s->hi)) return NULL;
        rows.level[rows.depth++] = c;
    }
    if (!c || c->s->kind != ST_SET || c->s->var->kind != VAR_MUT || !rows.depth) return NULL;
    const Expr *x, *w;
    if (!match_update(c->s->value, c->s->var, &rows.kind, &x, &w)) return NULL;
    if (!code_operand(r, f, &rows, x, &rows.x) || (w && !code_operand(r, f, &rows, w, &rows.w))) return NULL;
    rows.var = c->slot;
    return arena_copy(r->arena, &rows, sizeof rows);
}

// ---- kernels: m <= BLOCK lanes, n iterations of the innermost loop ----

// Distances in elements: between lanes, between iterations.
typedef struct {
    int64_t lane, step;
} Walk;
typedef void RowsKernel(float *acc, int m, int64_t n, const float *x, Walk xs, const float *w, Walk ws);

static inline float update(RowsKind kind, float acc, float x, float w) {
    return kind == ROWS_FMA ? __builtin_fmaf(x, w, acc) : kind == ROWS_MULADD ? acc + x * w : acc + x;
}

#define ROWS_ANY(name, kind, attribute)                                                                                                    \
    attribute static void name(float *acc, int m, int64_t n, const float *x, Walk xs, const float *w, Walk ws) {                           \
        for (int l = 0; l + 4 <= m; l += 4, acc += 4, x += 4 * xs.lane, w += 4 * ws.lane) {                                                \
            float s0 = acc[0], s1 = acc[1], s2 = acc[2], s3 = acc[3];                                                                      \
            const float *p = x, *q = w;                                                                                                    \
            for (int64_t k = 0; k < n; k++, p += xs.step, q += ws.step) {                                                                  \
                s0 = update(kind, s0, p[0], q[0]);                                                                                         \
                s1 = update(kind, s1, p[xs.lane], q[ws.lane]);                                                                             \
                s2 = update(kind, s2, p[2 * xs.lane], q[2 * ws.lane]);                                                                     \
                s3 = update(kind, s3, p[3 * xs.lane], q[3 * ws.lane]);                                                                     \
            }                                                                                                                              \
            acc[0] = s0, acc[1] = s1, acc[2] = s2, acc[3] = s3;                                                                            \
        }                                                                                                                                  \
        for (int l = 0; l < m % 4; l++, acc++, x += xs.lane, w += ws.lane)                                                                 \
            for (int64_t k = 0; k < n; k++) *acc = update(kind, *acc, x[k * xs.step], w[k * ws.step]);                                     \
    }

#if defined(__x86_64__)
#define ROWS_TARGET __attribute__((target("avx2,fma")))
// All lanes side by side in at least one operand; the other one is the same for all or side by side too.
#define ROWS_WIDE(name, kind, load_x)                                                                                                      \
    ROWS_TARGET static void name(float *acc, int m, int64_t n, const float *x, Walk xs, const float *w, Walk ws) {                         \
        __m256 s0 = _mm256_loadu_ps(acc), s1 = _mm256_loadu_ps(acc + 8);                                                                   \
        (void)m;                                                                                                                           \
        for (int64_t k = 0; k < n; k++, x += xs.step, w += ws.step) {                                                                      \
            s0 = wide_update(kind, s0, load_x(x), _mm256_loadu_ps(w));                                                                     \
            s1 = wide_update(kind, s1, load_x(x + 8 * xs.lane), _mm256_loadu_ps(w + 8));                                                   \
        }                                                                                                                                  \
        _mm256_storeu_ps(acc, s0);                                                                                                         \
        _mm256_storeu_ps(acc + 8, s1);                                                                                                     \
    }
#define wide_update(kind, s, x, w)                                                                                                         \
    ((kind) == ROWS_FMA ? _mm256_fmadd_ps(x, w, s) : _mm256_add_ps(s, (kind) == ROWS_MULADD ? _mm256_mul_ps(x, w) : (w)))

ROWS_WIDE(fma_same, ROWS_FMA, _mm256_broadcast_ss)
ROWS_WIDE(fma_side, ROWS_FMA, _mm256_loadu_ps)
ROWS_WIDE(muladd_same, ROWS_MULADD, _mm256_broadcast_ss)
ROWS_WIDE(muladd_side, ROWS_MULADD, _mm256_loadu_ps)
ROWS_WIDE(add_side, ROWS_ADD, _mm256_loadu_ps)
static RowsKernel *const wide[3][2] = {{fma_same, fma_side}, {muladd_same, muladd_side}, {add_side, add_side}};
static bool is_wide(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
#define ROWS_TARGET
static RowsKernel *const wide[3][2] = {{0}};
static bool is_wide(void) {
    return false;
}
#endif

ROWS_ANY(fma_any, ROWS_FMA, ROWS_TARGET)
ROWS_ANY(fma_base, ROWS_FMA, )
ROWS_ANY(muladd_any, ROWS_MULADD, )
ROWS_ANY(add_any, ROWS_ADD, )

// ---- running ----

typedef struct {
    const float *p;
    Walk walk[MAX_NEST]; // .lane is the same for all levels
    int64_t lane;
} Operand;

typedef struct {
    const RowsCode *rows;
    int64_t n[MAX_NEST];
    RowsKernel *kernel;
    Operand x, w;
} Nest;

// Addresses at the first iteration and their moves; false when the operand is no progression or may leave its buffer.
static bool place_operand(Run *r, const Nest *nest, const RowsOperand *o, Operand *out) {
    const BufVal *b = &r->frame->buf[o->slot];
    IdxVal at = eval_dim(r, o->at);
    if (at.lane || b->lane_step) return false;
    int64_t lo = at.v, hi = at.v, last = at.step * (r->lanes - 1);
    *(last < 0 ? &lo : &hi) += last;
    for (int i = 0; i < nest->rows->depth; i++) {
        IdxVal coeff = eval_dim(r, o->coeff[i]);
        if (idx_varies(coeff)) return false;
        int64_t step = coeff.v * nest->rows->level[i]->s->step;
        out->walk[i] = (Walk){at.step, step};
        last = step * (nest->n[i] - 1);
        *(last < 0 ? &lo : &hi) += last;
    }
    out->p = (const float *)(const void *)b->p + at.v;
    out->lane = at.step;
    return lo >= 0 && hi < b->n;
}

static void run_level(const Nest *nest, int level, float *acc, int m, const float *x, const float *w) {
    if (level == nest->rows->depth - 1) {
        nest->kernel(acc, m, nest->n[level], x, nest->x.walk[level], w, nest->w.walk[level]);
        return;
    }
    for (int64_t i = 0; i < nest->n[level]; i++)
        run_level(nest, level + 1, acc, m, x + i * nest->x.walk[level].step, w + i * nest->w.walk[level].step);
}

// The operand that is side by side comes second in the wide kernels.
static RowsKernel *choose_kernel(Nest *nest) {
    static RowsKernel *const any[3] = {fma_any, muladd_any, add_any};
    RowsKind kind = nest->rows->kind;
    if (kind == ROWS_FMA && !is_wide()) return fma_base;
    if (nest->w.lane != 1) {
        Operand swap = nest->x;
        nest->x = nest->w;
        nest->w = swap;
    }
    bool fits = nest->w.lane == 1 && (nest->x.lane == 0 || nest->x.lane == 1);
    return is_wide() && fits ? wide[kind][nest->x.lane] : any[kind];
}

static bool prepare_nest(Run *r, Nest *nest) {
    for (int i = 0; i < nest->rows->depth; i++) {
        const CodeStmt *c = nest->rows->level[i];
        IdxVal lo = eval_dim(r, c->lo), hi = eval_dim(r, c->hi);
        if (idx_varies(lo) || idx_varies(hi)) return false;
        nest->n[i] = hi.v <= lo.v ? 0 : (hi.v - lo.v - 1) / c->s->step + 1;
        if (nest->n[i] == 0) return false;
        r->frame->sym[c->slot] = (IdxVal){.v = lo.v};
    }
    if (!place_operand(r, nest, &nest->rows->x, &nest->x)) return false;
    nest->w = nest->x;
    return nest->rows->kind == ROWS_ADD || place_operand(r, nest, &nest->rows->w, &nest->w);
}

bool run_rows(Run *r, CodeStmt *loop) {
    Nest nest = {.rows = loop->rows};
    VarVal *v = &r->frame->var[loop->rows->var];
    if (r->active || r->lanes < 2 || !prepare_nest(r, &nest)) return false;
    if (nest.x.lane == 0 && nest.w.lane == 0) return false; // the same for all lanes
    nest.kernel = choose_kernel(&nest);
    float *acc = v->p;
    for (int l = 1; l < r->lanes && !v->varies; l++) acc[l] = acc[0];
    v->varies = true;
    RowsKernel *rest = nest.kernel;
    for (int l = 0; l < r->lanes; l += BLOCK) {
        int m = r->lanes - l < BLOCK ? r->lanes - l : BLOCK;
        if (m < BLOCK) { // the wide kernels take whole blocks
            bool fma = nest.rows->kind == ROWS_FMA;
            rest = fma ? (is_wide() ? fma_any : fma_base) : nest.rows->kind == ROWS_MULADD ? muladd_any : add_any;
        }
        nest.kernel = rest;
        run_level(&nest, 0, acc + l, m, nest.x.p + l * nest.x.lane, nest.w.p + l * nest.w.lane);
    }
    return true;
}
