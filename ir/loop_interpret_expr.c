// Expressions and indices of the interpreter: compiled to lists of nodes in order of evaluation, then evaluated for all lanes at once.
//
// Scalar functions run through strip_op on lanes * L elements; operands that are the same for all lanes are spread when another one varies.
#include "loop_interpret.h"

#include <string.h>

#include "isa.h"
#include "strip.h"

// ---- indices ----

static DimFactor code_factor(Run *r, FuncCode *f, const Atom *a) {
    DimFactor out = {.kind = a->kind};
    if (a->kind == ATOM_SYMBOL) {
        out.slot = code_slot(r, f, a->self, &f->nsyms, 1);
        return out;
    }
    out.a = code_dim(r, f, a->a);
    out.b = code_dim(r, f, a->b);
    return out;
}

DimCode *code_dim(Run *r, FuncCode *f, const Dim *d) {
    DimCode *c = ARENA_NEW(r->arena, DimCode);
    c->term = ARENA_ARRAY(r->arena, DimTerm, dim_nterms(d) + 1);
    for (int i = 0; i < dim_nterms(d); i++) {
        int n = dim_nfactors(d, i);
        if (n == 0) {
            c->constant = dim_coefficient(d, i);
            continue;
        }
        DimTerm *t = &c->term[c->n++];
        t->coeff = dim_coefficient(d, i);
        t->n = n;
        t->factor = ARENA_ARRAY(r->arena, DimFactor, n);
        for (int k = 0; k < n; k++) t->factor[k] = code_factor(r, f, dim_factor(d, i, k));
    }
    return c;
}

// Arithmetic that wraps: what overflows fails the bounds.
static int64_t wrap_add(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
static int64_t wrap_mul(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static int64_t floor_div(int64_t a, int64_t b) {
    if (b <= 0) return 0;
    int64_t q = a / b;
    return q - (a % b < 0);
}

static int64_t atom_value(AtomKind kind, int64_t a, int64_t b) {
    switch (kind) {
    case ATOM_FLOORDIV: return floor_div(a, b);
    case ATOM_MOD: return b <= 0 ? 0 : wrap_add(a, -wrap_mul(floor_div(a, b), b));
    case ATOM_MIN: return a < b ? a : b;
    default: return a > b ? a : b;
    }
}

// Any value as lanes: an array that out may be.
static void idx_fill(IdxVal i, int lanes, int64_t *out) {
    for (int l = 0; l < lanes; l++) out[l] = idx_at(i, l);
}

static int64_t *lanes_of(Run *r, DimCode *d) {
    if (!d->lane) d->lane = ARENA_ARRAY(r->arena, int64_t, STRIP);
    return d->lane;
}

static IdxVal eval_factor(Run *r, const DimFactor *f) {
    if (f->kind == ATOM_SYMBOL) return r->frame->sym[f->slot];
    IdxVal a = eval_dim(r, f->a), b = eval_dim(r, f->b);
    if (!idx_varies(a) && !idx_varies(b)) return (IdxVal){.v = atom_value(f->kind, a.v, b.v)};
    int64_t *out = lanes_of(r, f->a); // a is not needed any more
    for (int l = 0; l < r->lanes; l++) out[l] = atom_value(f->kind, idx_at(a, l), idx_at(b, l));
    return (IdxVal){.lane = out};
}

static IdxVal idx_times(Run *r, IdxVal a, IdxVal b, int64_t *room) {
    if (!idx_varies(a) && !b.lane) return (IdxVal){.v = wrap_mul(a.v, b.v), .step = wrap_mul(a.v, b.step)};
    if (!idx_varies(b) && !a.lane) return (IdxVal){.v = wrap_mul(a.v, b.v), .step = wrap_mul(a.step, b.v)};
    for (int l = 0; l < r->lanes; l++) room[l] = wrap_mul(idx_at(a, l), idx_at(b, l));
    return (IdxVal){.lane = room};
}

// The sum so far becomes lanes in d's own room once a term has lanes.
static IdxVal idx_plus(Run *r, DimCode *d, IdxVal sum, IdxVal term) {
    if (!sum.lane && !term.lane) return (IdxVal){.v = wrap_add(sum.v, term.v), .step = wrap_add(sum.step, term.step)};
    int64_t *out = lanes_of(r, d);
    for (int l = 0; l < r->lanes; l++) out[l] = wrap_add(idx_at(sum, l), idx_at(term, l));
    return (IdxVal){.lane = out};
}

IdxVal eval_dim(Run *r, DimCode *d) {
    IdxVal sum = {.v = d->constant};
    for (int i = 0; i < d->n; i++) {
        const DimTerm *t = &d->term[i];
        const IdxVal *s = t->n == 1 && t->factor[0].kind == ATOM_SYMBOL ? &r->frame->sym[t->factor[0].slot] : NULL;
        if (s && !s->lane && !sum.lane) { // by far the most
            sum.v = wrap_add(sum.v, wrap_mul(t->coeff, s->v));
            sum.step = wrap_add(sum.step, wrap_mul(t->coeff, s->step));
            continue;
        }
        IdxVal x = {.v = t->coeff};
        int64_t room[STRIP];
        for (int k = 0; k < t->n; k++) x = idx_times(r, x, eval_factor(r, &t->factor[k]), room);
        sum = idx_plus(r, d, sum, x);
    }
    return sum;
}

int64_t eval_dim_scalar(Run *r, DimCode *d) {
    return idx_at(eval_dim(r, d), 0);
}

// ---- compiling expressions ----

typedef struct {
    Run *r;
    FuncCode *f;
    ExprCode *code;
    PtrMap number; // node -> position
    VEC(Node) nodes;
} ExprBuild;

static const Expr *expand_isa(void *ctx, const Expr *e) {
    Run *r = ctx;
    return e->op == X_isa ? isa_meaning(r->arena, (int)e->k, e->a) : e;
}

static void *constant_elements(Run *r, const Expr *e, int size, int n) {
    unsigned char *p = arena_alloc(r->arena, (size_t)(size * n));
    for (int i = 0; i < n; i++) {
        Scalar k = e->op == X_iota   ? (dtype_is_float(e->type.type) ? scalar_float(e->type.type, i % e->type.lanes)
                                                                     : scalar_int(e->type.type, i % e->type.lanes))
                   : e->op == X_seed ? scalar_int(DT_u64, 0)
                                     : e->k_scalar;
        scalar_write(k, p + i * size);
    }
    return p;
}

static bool is_constant(const Expr *e) {
    return e->op == X_const || e->op == X_iota || e->op == X_seed;
}

static void code_node(void *ctx, const Expr *e) {
    ExprBuild *b = ctx;
    Node n = {.e = e, .in = {-1, -1, -1}, .pool = -1, .size = dtype_bytes(e->type.type)};
    for (int i = 0; i < e->n; i++)
        if (e->a[i]) n.in[i] = ptr_map_get(&b->number, e->a[i]);
    if (e->dim) n.dim = code_dim(b->r, b->f, e->dim);
    for (int i = 0; i < 3 && e->op == X_var; i++)
        if (e->idx[i]) n.idx[i] = code_dim(b->r, b->f, e->idx[i]);
    if (is_constant(e)) n.p = constant_elements(b->r, e, n.size, e->type.lanes);
    if (e->op == X_var) {
        int elements = 1;
        for (int i = 0; i < e->var->ntile && e->var->kind == VAR_TILE; i++) elements *= e->var->tile[i];
        n.slot = code_slot(b->r, b->f, e->var, &b->f->nvars, elements);
    }
    if (e->op == X_load) n.slot = code_slot(b->r, b->f, e->var, &b->f->nbufs, 1);
    ptr_map_put(&b->number, e, b->nodes.n);
    vec_push(b->r->arena, &b->nodes, n);
}

// Strips for the values: one is free again once the last reader of its value is done.
static void assign_pool(Run *r, ExprCode *c) {
    int *last = ARENA_ARRAY(r->arena, int, c->n);
    VEC(int) free_strips = {0};
    int used = 0;
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < 3; k++)
            if (c->node[i].in[k] >= 0) last[c->node[i].in[k]] = i;
    for (int i = 0; i < c->n; i++) {
        Node *n = &c->node[i];
        if (!is_constant(n->e)) n->pool = free_strips.n ? free_strips.data[--free_strips.n] : used++;
        for (int k = 0; k < 3; k++) {
            int in = n->in[k];
            bool again = (k > 0 && in == n->in[0]) || (k > 1 && in == n->in[1]);
            if (in >= 0 && !again && last[in] == i && c->node[in].pool >= 0) vec_push(r->arena, &free_strips, c->node[in].pool);
        }
    }
    while (r->pool.n < used) vec_push(r->arena, &r->pool, arena_alloc(r->arena, STRIP_BYTES));
}

ExprCode *code_expr(Run *r, FuncCode *f, const Expr *e) {
    ExprBuild b = {.r = r, .f = f, .number = {.arena = r->arena}};
    expr_visit(expr_rewrite(r->arena, e, expand_isa, r), code_node, &b);
    ExprCode *c = ARENA_NEW(r->arena, ExprCode);
    c->node = b.nodes.data;
    c->n = b.nodes.n;
    assign_pool(r, c);
    return c;
}

// ---- evaluating ----

// Repeats `bytes` bytes n times; writes whole blocks of 64 bytes, for which a strip has room.
static void repeat(void *dst, const void *src, size_t bytes, size_t n) {
    enum { BLOCK = 64 };
    unsigned char *d = dst, block[BLOCK];
    if (BLOCK % bytes) {
        for (size_t i = 0; i < n; i++) memcpy(d + i * bytes, src, bytes);
        return;
    }
    for (size_t i = 0; i < BLOCK; i += bytes) memcpy(block + i, src, bytes);
    for (size_t i = 0; i < n * bytes; i += BLOCK) memcpy(d + i, block, BLOCK);
}

const void *node_spread(Run *r, Node *n, int scratch) {
    if (n->varies || r->lanes == 1) return n->p;
    int lanes = n->e->type.lanes;
    if (!is_constant(n->e)) {
        repeat(r->scratch[scratch], n->p, (size_t)(n->size * lanes), (size_t)r->lanes);
        return r->scratch[scratch];
    }
    if (!n->full) n->full = constant_elements(r, n->e, n->size, STRIP / lanes * lanes);
    return n->full;
}

static void eval_function(Run *r, ExprCode *c, Node *n, void *dst) {
    const Expr *e = n->e;
    const void *in[3] = {NULL, NULL, NULL};
    n->varies = false;
    for (int i = 0; i < e->n; i++) n->varies |= c->node[n->in[i]].varies;
    for (int i = 0; i < e->n; i++) {
        Node *a = &c->node[n->in[i]];
        in[i] = n->varies ? node_spread(r, a, i) : a->p;
    }
    DType type = e->a[e->op == X_select]->type.type;
    strip_op(e->op, type, e->type.type, e->type.lanes * (n->varies ? r->lanes : 1), dst, in[0], in[1], in[2]);
    n->p = dst;
}

static void eval_index_value(Run *r, Node *n, void *dst) {
    IdxVal i = eval_dim(r, n->dim);
    n->varies = idx_varies(i);
    idx_fill(i, n->varies ? r->lanes : 1, dst);
    n->p = dst;
}

static void eval_variable(Run *r, Node *n) {
    int slot = n->slot;
    const Var *v = n->e->var;
    if (v->kind == VAR_TILE) {
        int64_t at = 0;
        for (int i = 0; i < v->ntile; i++) at = at * v->tile[i] + eval_dim_scalar(r, n->idx[i]);
        slot += (int)at;
    }
    n->p = r->frame->var[slot].p;
    n->varies = r->frame->var[slot].varies;
}

static void eval_node(Run *r, ExprCode *c, Node *n, void *dst) {
    XOp op = n->e->op;
    if (is_constant(n->e)) return;
    if (xop_info(op)->cls >= XC_ARITH)
        eval_function(r, c, n, dst);
    else if (op == X_load)
        eval_load(r, c, n, dst);
    else if (op == X_var)
        eval_variable(r, n);
    else if (op == X_dim)
        eval_index_value(r, n, dst);
    else
        eval_lane_op(r, c, n, dst);
}

const Node *eval_expr(Run *r, ExprCode *c, void *dst) {
    for (int i = 0; i < c->n; i++) {
        Node *n = &c->node[i];
        void *to = i == c->n - 1 && dst ? dst : n->pool >= 0 ? r->pool.data[n->pool] : NULL;
        eval_node(r, c, n, to);
    }
    return &c->node[c->n - 1];
}
