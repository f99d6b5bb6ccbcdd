// Operations across the lanes of a type, one value after the other: shuffles, tables, reductions, compress and expand, dot products,
// index().
#include "loop_interpret.h"

#include <string.h>

#include "strip.h"

// Operands of one strip lane: pointers to the L elements of each.
typedef struct {
    const unsigned char *a[3];
    const Node *n;
    unsigned char *dst;
    Run *r;
} LaneCall;

static void lane_splat(const LaneCall *c) {
    for (int l = 0; l < c->n->e->type.lanes; l++) memcpy(c->dst + l * c->n->size, c->a[0], (size_t)c->n->size);
}

static void lane_shuffle(const LaneCall *c) {
    const Expr *e = c->n->e;
    int size = c->n->size, first = e->a[0]->type.lanes;
    for (int l = 0; l < e->type.lanes; l++) {
        int from = e->perm[l];
        memcpy(c->dst + l * size, from < first ? c->a[0] + from * size : c->a[1] + (from - first) * size, (size_t)size);
    }
}

static void lane_table(const LaneCall *c) {
    const Expr *e = c->n->e;
    int size = c->n->size, step = dtype_bytes(e->a[1]->type.type);
    int64_t entries = e->a[0]->type.lanes;
    for (int l = 0; l < e->type.lanes; l++) {
        Scalar k = scalar_read(e->a[1]->type.type, c->a[1] + l * step);
        int64_t i = dtype_is_signed(k.type) ? ((k.i % entries) + entries) % entries : (int64_t)(k.u % (uint64_t)entries);
        memcpy(c->dst + l * size, c->a[0] + i * size, (size_t)size);
    }
}

static void lane_pick(const LaneCall *c) {
    memcpy(c->dst, c->a[0] + c->n->e->k * c->n->size, (size_t)c->n->size);
}

static void lane_insert(const LaneCall *c) {
    memcpy(c->dst, c->a[0], (size_t)(c->n->size * c->n->e->type.lanes));
    memcpy(c->dst + c->n->e->k * c->n->size, c->a[1], (size_t)c->n->size);
}

static void lane_reduce(const LaneCall *c) {
    const Expr *e = c->n->e;
    DType t = e->type.type;
    unsigned char part[64 * 16];
    memcpy(part, c->a[0], (size_t)(e->a[0]->type.lanes * c->n->size));
    for (int half = e->a[0]->type.lanes / 2; half > 0; half /= 2)
        strip_op((XOp)e->k, t, t, half, part, part, part + half * c->n->size, NULL);
    memcpy(c->dst, part, (size_t)c->n->size);
}

static void lane_compress(const LaneCall *c) {
    int size = c->n->size, lanes = c->n->e->type.lanes, to = 0;
    for (int l = 0; l < lanes; l++)
        if (c->a[1][l]) memcpy(c->dst + to++ * size, c->a[0] + l * size, (size_t)size);
    memset(c->dst + to * size, 0, (size_t)((lanes - to) * size));
}

static void lane_expand(const LaneCall *c) {
    int size = c->n->size, from = 0;
    for (int l = 0; l < c->n->e->type.lanes; l++) {
        if (c->a[1][l])
            memcpy(c->dst + l * size, c->a[0] + from++ * size, (size_t)size);
        else
            memset(c->dst + l * size, 0, (size_t)size);
    }
}

static void lane_popcount(const LaneCall *c) {
    const Expr *x = c->n->e->a[0];
    int bytes = x->type.lanes * dtype_bytes(x->type.type);
    int32_t count = 0;
    for (int i = 0; i < bytes; i++) count += __builtin_popcount(c->a[0][i]);
    memcpy(c->dst, &count, sizeof count);
}

static void lane_dot4(const LaneCall *c) {
    const Expr *e = c->n->e;
    bool is_unsigned = e->a[1]->type.type == DT_u8;
    for (int l = 0; l < e->type.lanes; l++) {
        int32_t acc;
        memcpy(&acc, c->a[0] + 4 * l, 4);
        for (int i = 4 * l; i < 4 * l + 4; i++) {
            int x = is_unsigned ? c->a[1][i] : (int8_t)c->a[1][i];
            acc = (int32_t)((uint32_t)acc + (uint32_t)(x * (int8_t)c->a[2][i]));
        }
        memcpy(c->dst + 4 * l, &acc, 4);
    }
}

static void lane_widen(const LaneCall *c) {
    const Expr *e = c->n->e, *x = e->a[0];
    strip_op(X_cast, x->type.type, e->type.type, e->type.lanes, c->dst, c->a[0] + e->k * dtype_bytes(x->type.type), NULL, NULL);
}

static void (*const lane_ops[X_COUNT])(const LaneCall *c) = {[X_splat] = lane_splat,
    [X_shuffle] = lane_shuffle,
    [X_table] = lane_table,
    [X_lane] = lane_pick,
    [X_insert] = lane_insert,
    [X_hreduce] = lane_reduce,
    [X_compress] = lane_compress,
    [X_expand] = lane_expand,
    [X_popcount] = lane_popcount,
    [X_dot4] = lane_dot4,
    [X_widen] = lane_widen};

// index(i, n): clamps and remembers that it had to.
static void eval_clamp(Run *r, ExprCode *c, Node *n, void *dst) {
    Node *x = &c->node[n->in[0]];
    IdxVal bound = eval_dim(r, n->dim);
    n->varies = x->varies || idx_varies(bound);
    const int64_t *in = n->varies ? node_spread(r, x, 0) : x->p;
    int64_t *out = dst;
    for (int l = 0; l < (n->varies ? r->lanes : 1); l++) {
        int64_t top = idx_at(bound, l) - 1, i = in[l];
        bool outside = i < 0 || i > top;
        out[l] = i > top ? top : i;
        if (out[l] < 0) out[l] = 0;
        if (outside && (!n->varies || !r->active || r->active[l])) r->sticky = true;
    }
    n->p = dst;
}

void eval_lane_op(Run *r, ExprCode *c, Node *n, void *dst) {
    const Expr *e = n->e;
    if (e->op == X_index) {
        eval_clamp(r, c, n, dst);
        return;
    }
    LaneCall call = {.n = n, .dst = dst, .r = r};
    size_t step[3] = {0, 0, 0};
    n->varies = false;
    for (int i = 0; i < e->n; i++) {
        const Node *a = n->in[i] >= 0 ? &c->node[n->in[i]] : NULL;
        if (!a) continue;
        call.a[i] = a->p;
        step[i] = a->varies ? (size_t)(a->size * a->e->type.lanes) : 0;
        n->varies |= a->varies;
    }
    for (int s = 0; s < (n->varies ? r->lanes : 1); s++) {
        lane_ops[e->op](&call);
        call.dst += n->size * e->type.lanes;
        for (int i = 0; i < 3; i++)
            if (call.a[i]) call.a[i] += step[i];
    }
    n->p = dst;
}
