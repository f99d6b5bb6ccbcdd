// Loops that only update variables (reductions, recurrences): what does not depend on the variables is computed for a strip of iterations
// at once, then the recurrence runs in order, so that the result has the bits of the plain loop.
//
//   for k in 0..n red { let d: f32 = x[k] - m   set s = fma(d, d, s) }     strip: d[0..255];  then s = fma(d[l], d[l], s) for each l
//
// A node is early when no variable that the body sets, and no let made of one, reaches it; the others must be scalar functions.
#include "loop_interpret.h"

#include <string.h>

#include "strip.h"

typedef enum { REF_EARLY, REF_VAR, REF_TEMP } RefKind;
typedef struct {
    RefKind kind;
    int number; // of the early value or the variable's slot
    void *temp;
} Ref;

// op(in …) -> out; X_COUNT copies. `lanes` elements of `size` bytes.
typedef struct {
    XOp op;
    DType type, to;
    int arity, lanes, size;
    Ref in[3], out;
} SerialOp;

typedef struct {
    ExprCode *code;
    void *room;
    int step; // bytes from one iteration's value to the next when it varies
    // while running
    const unsigned char *p;
    int varies_step;
} Early;

struct FoldCode {
    int strip;
    VEC(CodeStmt *) lets; // early ones
    VEC(Early) early;
    VEC(SerialOp) ops;
    bool copies; // ops has no arithmetic of one op
};

// ---- compiling ----

typedef struct {
    Run *r;
    FuncCode *f;
    FoldCode *fold;
    PtrMap late; // variables and nodes that are late
    PtrMap refs; // node -> position in `known`
    VEC(Ref) known;
    int lanes;
    bool ok;
} FoldBuild;

static void note_late(void *ctx, const Expr *e) {
    FoldBuild *b = ctx;
    if (e->type.lanes > b->lanes) b->lanes = e->type.lanes;
    bool late = e->var && ptr_map_get(&b->late, e->var) >= 0;
    for (int i = 0; i < e->n; i++) late |= e->a[i] && ptr_map_get(&b->late, e->a[i]) >= 0;
    if (late) ptr_map_put(&b->late, e, 1);
}

static bool is_late(FoldBuild *b, const Expr *e) {
    expr_visit(e, note_late, b);
    return ptr_map_get(&b->late, e) >= 0;
}

static Ref early_ref(FoldBuild *b, const Expr *e) {
    Early x = {.code = code_expr(b->r, b->f, e), .step = dtype_bytes(e->type.type) * e->type.lanes};
    x.room = arena_alloc(b->r->arena, STRIP_BYTES);
    vec_push(b->r->arena, &b->fold->early, x);
    return (Ref){.kind = REF_EARLY, .number = b->fold->early.n - 1};
}

static Ref fold_node(FoldBuild *b, const Expr *e);

static Ref late_ref(FoldBuild *b, const Expr *e) {
    if (e->op == X_var && e->var->kind != VAR_TILE) return (Ref){.kind = REF_VAR, .number = code_slot(b->r, b->f, e->var, &b->f->nvars, 1)};
    if (xop_info(e->op)->cls < XC_ARITH) {
        b->ok = false;
        return (Ref){0};
    }
    SerialOp op = {.op = e->op, .type = e->a[e->op == X_select]->type.type, .to = e->type.type, .arity = e->n, .lanes = e->type.lanes};
    op.size = dtype_bytes(e->type.type);
    for (int i = 0; i < e->n; i++) op.in[i] = fold_node(b, e->a[i]);
    op.out = (Ref){.kind = REF_TEMP, .temp = arena_alloc(b->r->arena, 64 * 16)};
    vec_push(b->r->arena, &b->fold->ops, op);
    return op.out;
}

static Ref fold_node(FoldBuild *b, const Expr *e) {
    int at = ptr_map_get(&b->refs, e);
    if (at >= 0) return b->known.data[at];
    Ref ref = ptr_map_get(&b->late, e) >= 0 ? late_ref(b, e) : early_ref(b, e);
    ptr_map_put(&b->refs, e, b->known.n);
    vec_push(b->r->arena, &b->known, ref);
    return ref;
}

// var = e, after the body's statements before it: nodes that mention variables set there must be computed anew.
static void fold_assign(FoldBuild *b, const Var *v, const Expr *e) {
    b->refs = (PtrMap){.arena = b->r->arena};
    expr_visit(e, note_late, b);
    Ref value = fold_node(b, e), out = {.kind = REF_VAR, .number = code_slot(b->r, b->f, v, &b->f->nvars, 1)};
    SerialOp *last = b->fold->ops.n ? &b->fold->ops.data[b->fold->ops.n - 1] : NULL;
    if (value.kind == REF_TEMP && last && last->out.temp == value.temp) {
        last->out = out;
        return;
    }
    SerialOp copy = {.op = X_COUNT, .arity = 1, .lanes = e->type.lanes, .size = dtype_bytes(e->type.type), .in = {value}, .out = out};
    vec_push(b->r->arena, &b->fold->ops, copy);
}

static void fold_stmt(FoldBuild *b, CodeStmt *c) {
    const Stmt *s = c->s;
    if (s->kind == ST_COMMENT) return;
    if (s->kind == ST_SET) {
        fold_assign(b, s->var, s->value);
    } else if (!is_late(b, s->value)) {
        vec_push(b->r->arena, &b->fold->lets, c);
    } else if (s->sym) {
        b->ok = false;
    } else {
        ptr_map_put(&b->late, s->var, 1);
        fold_assign(b, s->var, s->value);
    }
}

FoldCode *code_fold(Run *r, FuncCode *f, CodeStmt *loop) {
    const Stmt *s = loop->s;
    if ((s->kind != ST_FOR && s->kind != ST_REDUCE) || s->loop == LOOP_PAR || s->unroll) return NULL;
    FoldBuild b = {.r = r, .f = f, .late = {.arena = r->arena}, .lanes = 1, .ok = true};
    int sets = 0;
    for (int i = 0; i < s->body.n; i++) {
        const Stmt *x = s->body.data[i];
        bool set = x->kind == ST_SET && x->var->kind == VAR_MUT;
        if (!set && x->kind != ST_LET && x->kind != ST_COMMENT) return NULL;
        if (set) ptr_map_put(&b.late, x->var, 1);
        sets += set;
    }
    if (!sets) return NULL;
    b.fold = ARENA_NEW(r->arena, FoldCode);
    for (int i = 0; i < loop->nbody && b.ok; i++) fold_stmt(&b, &loop->body[i]);
    b.fold->strip = STRIP / b.lanes;
    return b.ok && b.fold->strip > 1 ? b.fold : NULL;
}

// ---- the recurrence of one operation ----

typedef struct {
    void *acc;
    int position; // of acc among the operands
    const unsigned char *x, *y;
    int64_t xstep, ystep;
    int n;
} Chain;

#if defined(__x86_64__)
#define WITH_FMA __attribute__((target("fma")))
static bool has_fma(void) {
    return __builtin_cpu_supports("fma");
}
#else
#define WITH_FMA
static bool has_fma(void) {
    return true;
}
#endif

#define CHAIN(name, T, attribute, expression)                                                                                              \
    attribute static void name(const Chain *c) {                                                                                           \
        T s = *(T *)c->acc;                                                                                                                \
        const unsigned char *x = c->x, *y = c->y;                                                                                          \
        for (int i = 0; i < c->n; i++, x += c->xstep, y += c->ystep) {                                                                     \
            T a = *(const T *)x, b = *(const T *)y;                                                                                        \
            (void)b;                                                                                                                       \
            s = expression;                                                                                                                \
        }                                                                                                                                  \
        *(T *)c->acc = s;                                                                                                                  \
    }

CHAIN(chain_add_f32, float, , s + a)
CHAIN(chain_add_f64, double, , s + a)
CHAIN(chain_add_i32, uint32_t, , s + a)
CHAIN(chain_add_i64, uint64_t, , s + a)
CHAIN(chain_fma_f32, float, WITH_FMA, __builtin_fmaf(a, b, s))
CHAIN(chain_fma_f64, double, WITH_FMA, __builtin_fma(a, b, s))
CHAIN(chain_max_f32, float, , (a > s || a != a ? a : s)) // max(x, acc)
CHAIN(chain_min_f32, float, , (a < s || a != a ? a : s))
CHAIN(chain_xam_f32, float, , (s > a || s != s ? s : a)) // max(acc, x)
CHAIN(chain_nim_f32, float, , (s < a || s != s ? s : a))

static const struct {
    XOp op;
    DType type;
    int position; // of the accumulator: -1 any
    void (*run)(const Chain *c);
} chains[] = {{X_add, DT_f32, -1, chain_add_f32}, {X_add, DT_f64, -1, chain_add_f64}, {X_add, DT_i32, -1, chain_add_i32},
    {X_add, DT_i64, -1, chain_add_i64}, {X_fma, DT_f32, 2, chain_fma_f32}, {X_fma, DT_f64, 2, chain_fma_f64},
    {X_max, DT_f32, 1, chain_max_f32}, {X_min, DT_f32, 1, chain_min_f32}, {X_max, DT_f32, 0, chain_xam_f32},
    {X_min, DT_f32, 0, chain_nim_f32}};

// The position of acc when the op is acc = op(acc, early …); -1 otherwise.
static int chain_position(const SerialOp *op) {
    int at = -1;
    if (op->lanes != 1 || op->out.kind != REF_VAR) return -1;
    for (int i = 0; i < op->arity; i++) {
        bool acc = op->in[i].kind == REF_VAR && op->in[i].number == op->out.number;
        if (acc && at >= 0) return -1;
        if (acc) at = i;
        if (!acc && op->in[i].kind != REF_EARLY) return -1;
    }
    return at;
}

static bool run_chain(Run *r, FoldCode *f, int n) {
    const SerialOp *op = &f->ops.data[0];
    int at = f->ops.n == 1 ? chain_position(op) : -1;
    if (at < 0 || (op->op == X_fma && !has_fma())) return false;
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        if (chains[i].op != op->op || chains[i].type != op->type || (chains[i].position >= 0 && chains[i].position != at)) continue;
        const Early *x = &f->early.data[op->in[at == 0].number], *y = op->arity > 2 ? &f->early.data[op->in[1].number] : x;
        Chain c = {r->frame->var[op->out.number].p, at, x->p, y->p, x->varies_step, y->varies_step, n};
        chains[i].run(&c);
        return true;
    }
    return false;
}

// ---- running ----

static void *ref_at(Run *r, FoldCode *f, const Ref *ref, int l) {
    if (ref->kind == REF_TEMP) return ref->temp;
    if (ref->kind == REF_VAR) return r->frame->var[ref->number].p;
    const Early *e = &f->early.data[ref->number];
    return (void *)(uintptr_t)(e->p + (size_t)l * (size_t)e->varies_step);
}

static void run_serial(Run *r, FoldCode *f, int l) {
    for (int i = 0; i < f->ops.n; i++) {
        const SerialOp *op = &f->ops.data[i];
        const void *in[3] = {NULL, NULL, NULL};
        void *out = ref_at(r, f, &op->out, l);
        for (int k = 0; k < op->arity; k++) in[k] = ref_at(r, f, &op->in[k], l);
        if (op->op == X_COUNT)
            memmove(out, in[0], (size_t)(op->size * op->lanes));
        else
            strip_op(op->op, op->type, op->to, op->lanes, out, in[0], in[1], in[2]);
    }
}

static void prepare_early(Run *r, FoldCode *f) {
    for (int i = 0; i < f->early.n; i++) {
        Early *e = &f->early.data[i];
        const Node *n = eval_expr(r, e->code, e->room);
        e->p = n->p;
        e->varies_step = n->varies ? e->step : 0;
    }
}

// Variables that are set must have memory of their own and one value.
static void prepare_vars(Run *r, FoldCode *f) {
    for (int i = 0; i < f->ops.n; i++) {
        if (f->ops.data[i].out.kind != REF_VAR) continue;
        VarVal *v = &r->frame->var[f->ops.data[i].out.number];
        if (!v->p) v->p = arena_alloc(r->arena, STRIP * (size_t)f->ops.data[i].size);
        v->varies = false;
    }
}

void run_fold(Run *r, CodeStmt *loop, int64_t lo, int64_t n) {
    FoldCode *f = loop->fold;
    IdxVal *sym = &r->frame->sym[loop->slot];
    prepare_vars(r, f);
    for (int64_t k = 0; k < n && !r->status; k += f->strip) {
        int m = n - k < f->strip ? (int)(n - k) : f->strip;
        *sym = (IdxVal){.v = lo + k * loop->s->step, .step = m > 1 ? loop->s->step : 0};
        r->lanes = m;
        for (int i = 0; i < f->lets.n; i++) run_block(r, f->lets.data[i], 1);
        prepare_early(r, f);
        r->lanes = 1;
        if (r->status || run_chain(r, f, m)) continue;
        for (int l = 0; l < m; l++) run_serial(r, f, l);
    }
}
