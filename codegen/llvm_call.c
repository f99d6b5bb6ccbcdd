// Kernels and how they are called: once, over threads, or as a team between barriers.
//
// A team is cut at its barriers: each part becomes a function of the member's number, run for all members and awaited; that waiting is the
// barrier. The sequential loops around barriers run on the calling thread. So any number of threads, one included, gives the same bits.
#include "llvm_emit.h"
#include <assert.h>
#include <string.h>

typedef struct {
    LLVMValueRef fn;
    LLVMTypeRef type;
    VEC(const Dim *) syms;
    const Stmt *outer; // its only statement when that is a parallel loop or a team
    bool fails;        // may return another status than 0
    Arena *arena;
} LlvmKernel;

// What a part of a team gets from outside.
typedef struct {
    const void *key; // Var or symbol
    LLVMValueRef value;
    int64_t member_bytes; // a team's local: bytes a member, 0 otherwise
} Capture;
typedef VEC(Capture) Captures;

// ---- kernels ----
static void note_symbol(void *ctx, const Dim *sym) {
    LlvmKernel *k = ctx;
    vec_push(k->arena, &k->syms, sym);
}

static const Stmt *outermost(const Kernel *k) {
    const Stmt *only = NULL;
    for (int i = 0; i < k->body.n; i++) {
        const Stmt *s = k->body.data[i];
        if (s->kind == ST_COMMENT) continue;
        if (only) return NULL;
        only = s;
    }
    return only && (only->kind == ST_TEAM || (only->kind == ST_FOR && only->parallel)) ? only : NULL;
}

static void see_index(void *ctx, const Expr *x) {
    if (x->op == X_index) *(bool *)ctx = true;
}
static void see_expr(void *ctx, const Expr **x) {
    expr_visit(*x, see_index, ctx);
}
static void see_stmt(void *ctx, Stmt *s) {
    if (s->kind == ST_CHECK) *(bool *)ctx = true;
    stmt_exprs(s, see_expr, ctx);
}
static bool can_fail(const Kernel *k) {
    bool fails = false;
    Block body = k->body;
    loop_walk(&body, see_stmt, &fails);
    return fails;
}

static bool is_team(const LlvmKernel *k) {
    return k->outer && k->outer->kind == ST_TEAM;
}

// A written parameter stated disjoint from every one read is noalias; the read ones are when all written ones are.
static void param_attributes(Emit *e, const Kernel *k, LLVMValueRef fn) {
    bool all_disjoint = true;
    for (int i = 0; i < k->params.n; i++) all_disjoint &= !k->params.data[i]->writes || k->params.data[i]->alias == ALIAS_DISJOINT;
    for (int i = 0; i < k->params.n; i++) {
        const LoopBuffer *b = k->params.data[i];
        LLVMValueRef v = LLVMGetParam(fn, (unsigned)i);
        LLVMSetValueName2(v, b->var.name, strlen(b->var.name));
        llvm_param_attribute(e, fn, i, "nocapture");
        if (!b->writes) llvm_param_attribute(e, fn, i, "readonly");
        if (b->writes ? b->alias == ALIAS_DISJOINT : all_disjoint) llvm_param_attribute(e, fn, i, "noalias");
    }
}

static LlvmKernel *declare(Emit *e, const Kernel *k) {
    LlvmKernel *lk = ARENA_NEW(e->arena, LlvmKernel);
    lk->arena = e->arena;
    lk->outer = outermost(k);
    lk->fails = can_fail(k);
    kernel_free_symbols(k, note_symbol, lk);
    int n = 0;
    LLVMTypeRef *types = ARENA_ARRAY(e->arena, LLVMTypeRef, k->params.n + lk->syms.n + 2);
    for (int i = 0; i < k->params.n; i++) types[n++] = e->ptr;
    for (int i = 0; i < lk->syms.n; i++) types[n++] = e->idx;
    if (is_team(lk))
        types[n++] = e->ptr; // env
    else if (lk->outer)
        types[n++] = e->idx, types[n++] = e->idx;
    lk->type = LLVMFunctionType(e->i32, types, (unsigned)n, 0);
    lk->fn = llvm_function(e, arena_printf(e->arena, "%s_%s", e->layout->prefix, k->name), lk->type, FN_KERNEL);
    param_attributes(e, k, lk->fn);
    valuemap_put(e->arena, &e->kernels, k, lk);
    return lk;
}

static void team(Emit *e, const Kernel *k, const LlvmKernel *lk);

void llvm_kernel(Emit *e, const Kernel *k, bool here) {
    LlvmKernel *lk = declare(e, k);
    if (e->part.count > 1) LLVMSetLinkage(lk->fn, LLVMExternalLinkage);
    if (!here) return;
    llvm_fn_begin(e, lk->fn, k->node);
    int np = k->params.n, ns = lk->syms.n;
    for (int i = 0; i < np; i++) llvm_bind(e, &k->params.data[i]->var, LLVMGetParam(lk->fn, (unsigned)i));
    for (int i = 0; i < ns; i++) llvm_bind(e, lk->syms.data[i], LLVMGetParam(lk->fn, (unsigned)(np + i)));
    if (is_team(lk))
        team(e, k, lk);
    else if (lk->outer) {
        LLVMValueRef lo = llvm_dim(e, lk->outer->lo), step = llvm_int(e->idx, lk->outer->step), bound[2];
        for (int i = 0; i < 2; i++)
            bound[i] = LLVMBuildNSWAdd(e->b, lo, LLVMBuildNSWMul(e->b, LLVMGetParam(lk->fn, (unsigned)(np + ns + i)), step, ""), "");
        llvm_loop_between(e, lk->outer, bound[0], bound[1]);
    } else
        llvm_emit_block(e, &k->body);
    llvm_fn_end(e);
    LLVMBuildRet(e->b, LLVMBuildLoad2(e->b, e->i32, e->f.status, ""));
}

// ---- calls ----
static LLVMValueRef iterations(Emit *e, const Stmt *s) {
    DimTable *t = e->p->dims;
    return llvm_dim(e, dim_max(t, dim_int(t, 0), dim_ceildiv(t, dim_sub(t, s->hi, s->lo), dim_int(t, s->step))));
}

// Asks env's hook, before (phase 0) or after (1) a kernel.
static void ask_hook(Emit *e, const Kernel *k, int phase) {
    if (!e->o->hooks) return;
    LLVMTypeRef types[3] = {e->ptr, e->i32, e->i32}, type = LLVMFunctionType(e->i32, types, 3, 0);
    LLVMBasicBlockRef ask = llvm_block(e, "ask"), go = llvm_block(e, "go");
    LLVMValueRef hook = llvm_env_field(e, e->f.env, ENV_HOOK);
    LLVMBuildCondBr(e->b, LLVMBuildIsNull(e->b, hook, ""), go, ask);
    llvm_at(e, ask);
    LLVMValueRef args[3] = {llvm_env_field(e, e->f.env, ENV_USER), llvm_int(e->i32, layout_kernel(e->p, k)), llvm_int(e->i32, phase)};
    LLVMValueRef zero = LLVMBuildIsNull(e->b, LLVMBuildCall2(e->b, type, hook, args, 3, ""), "");
    llvm_fail_unless(e, zero, -(CODE_CANCELLED + 256 * k->node));
    LLVMBuildBr(e->b, go);
    llvm_at(e, go);
}

static void call_kernel(Emit *e, const Stmt *s) {
    const LlvmKernel *k = valuemap_get(&e->kernels, s->kernel);
    assert(k && s->nargs == s->kernel->params.n);
    int captured = 0;
    LLVMValueRef *args = ARENA_ARRAY(e->arena, LLVMValueRef, s->nargs + k->syms.n + 2);
    for (int i = 0; i < s->nargs; i++) args[captured++] = llvm_buffer(e, &s->args[i]->var);
    for (int i = 0; i < k->syms.n; i++) args[captured++] = llvm_dim(e, k->syms.data[i]);
    LlvmTask task = {.fn = k->fn, .type = k->type, .slots = k->fails};
    int n = captured;
    if (k->outer && !is_team(k)) {
        LLVMValueRef count = iterations(e, k->outer);
        if (s->parallel) {
            llvm_run_range(e, e->f.env, &task, args, count);
            return;
        }
        args[n++] = llvm_int(e->idx, 0), args[n++] = count;
    } else if (k->outer)
        args[n++] = e->f.env;
    LLVMValueRef status = LLVMBuildCall2(e->b, k->type, k->fn, args, (unsigned)n, "");
    if (k->fails) llvm_fail_if(e, status);
}

void llvm_call(Emit *e, const Stmt *s) {
    ask_hook(e, s->kernel, 0);
    call_kernel(e, s);
    ask_hook(e, s->kernel, 1);
}

// ---- teams ----
typedef struct {
    const Kernel *k;
    const Stmt *team;
    LLVMValueRef env, count;
    Captures seen;
    int members, parts; // members: at most, 0: not known
    bool fails;
} Team;

static bool has_barrier(const Block *b) {
    for (int i = 0; i < b->n; i++)
        if (b->data[i]->kind == ST_BARRIER || (b->data[i]->kind == ST_FOR && has_barrier(&b->data[i]->body))) return true;
    return false;
}

// Locals of the team's own blocks live in the caller's frame, one for each member, for several parts use them.
static void team_local(Emit *e, Team *t, const Stmt *s) {
    int64_t n;
    if (!t->members)
        llvm_unsupported(e, arena_printf(e->arena, "kernel %s: a team with locals needs a bounded number of members", t->k->name));
    const LoopBuffer *b = s->var->owner;
    dim_is_int(b->shape[0], &n);
    int64_t bytes = (n * dtype_bytes(s->var->type.type) + 63) / 64 * 64;
    LLVMValueRef base = llvm_alloca(e, LLVMArrayType2(e->i8, (uint64_t)(bytes * t->members)), 64);
    vec_push(e->arena, &t->seen, ((Capture){s->var, base, bytes}));
}

static void part_body(Emit *e, const Team *t, LLVMValueRef fn, const Block *b, int from, int to) {
    EmitFn outer = e->f;
    LLVMBasicBlockRef back = LLVMGetInsertBlock(e->b);
    e->f = (EmitFn){0};
    llvm_fn_begin(e, fn, t->k->node);
    LLVMValueRef member = LLVMGetParam(fn, (unsigned)t->seen.n);
    llvm_bind(e, t->team->sym, member);
    for (int i = 0; i < t->seen.n; i++) {
        const Capture *c = &t->seen.data[i];
        LLVMValueRef v = LLVMGetParam(fn, (unsigned)i), at = LLVMBuildNSWMul(e->b, member, llvm_int(e->idx, c->member_bytes), "");
        llvm_bind(e, c->key, c->member_bytes ? LLVMBuildInBoundsGEP2(e->b, e->i8, v, &at, 1, "") : v);
    }
    Block part = {b->data + from, to - from, to - from, b->names};
    llvm_emit_block(e, &part);
    llvm_fn_end(e);
    LLVMBuildRet(e->b, LLVMBuildLoad2(e->b, e->i32, e->f.status, ""));
    e->f = outer;
    llvm_at(e, back);
}

static void team_part(Emit *e, Team *t, const Block *b, int from, int to) {
    int work = 0;
    for (int i = from; i < to; i++) {
        work += b->data[i]->kind != ST_COMMENT && b->data[i]->kind != ST_LOCAL;
        if (b->data[i]->kind == ST_LOCAL) team_local(e, t, b->data[i]);
    }
    if (!work) return;
    int n = t->seen.n;
    LLVMTypeRef *types = ARENA_ARRAY(e->arena, LLVMTypeRef, n + 1);
    LLVMValueRef *args = ARENA_ARRAY(e->arena, LLVMValueRef, n);
    for (int i = 0; i < n; i++) args[i] = t->seen.data[i].value, types[i] = LLVMTypeOf(args[i]);
    types[n] = e->idx;
    LLVMTypeRef type = LLVMFunctionType(e->i32, types, (unsigned)n + 1, 0);
    LLVMValueRef fn = llvm_function(e, arena_printf(e->arena, "%s_%s.part%d", e->layout->prefix, t->k->name, t->parts++), type, FN_KERNEL);
    param_attributes(e, t->k, fn);
    part_body(e, t, fn, b, from, to);
    LlvmTask task = {.fn = fn, .type = type, .slots = t->fails ? t->members : 0};
    llvm_run_members(e, t->env, &task, args, t->count);
}

static void team_block(Emit *e, Team *t, const Block *b);

typedef struct {
    Team *team;
    const Stmt *loop;
} TeamLoop;

static void team_loop_body(Emit *e, void *ctx) {
    TeamLoop *l = ctx;
    int n = l->team->seen.n;
    vec_push(e->arena, &l->team->seen, ((Capture){l->loop->sym, llvm_dim(e, l->loop->sym), 0}));
    team_block(e, l->team, &l->loop->body);
    l->team->seen.n = n;
}

static void team_block(Emit *e, Team *t, const Block *b) {
    int from = 0;
    for (int i = 0; i < b->n; i++) {
        const Stmt *s = b->data[i];
        bool loop = s->kind == ST_FOR && has_barrier(&s->body);
        if (s->kind != ST_BARRIER && !loop) continue;
        team_part(e, t, b, from, i);
        from = i + 1;
        if (!loop) continue;
        valuemap_clear(&e->f.memo);
        llvm_loop(e, s, llvm_dim(e, s->lo), llvm_dim(e, s->hi), team_loop_body, &(TeamLoop){t, s});
    }
    team_part(e, t, b, from, b->n);
}

static void team(Emit *e, const Kernel *k, const LlvmKernel *lk) {
    int64_t lo, hi;
    dim_interval(lk->outer->hi, &lo, &hi);
    Team t = {.k = k, .team = lk->outer, .members = hi > 4096 ? 0 : (int)hi, .fails = lk->fails};
    if (t.fails && !t.members)
        llvm_unsupported(e, arena_printf(e->arena, "kernel %s: a team that can fail needs a bounded number of members", k->name));
    int np = k->params.n, ns = lk->syms.n;
    for (int i = 0; i < np; i++) vec_push(e->arena, &t.seen, ((Capture){&k->params.data[i]->var, LLVMGetParam(lk->fn, (unsigned)i), 0}));
    for (int i = 0; i < ns; i++) vec_push(e->arena, &t.seen, ((Capture){lk->syms.data[i], LLVMGetParam(lk->fn, (unsigned)(np + i)), 0}));
    t.env = LLVMGetParam(lk->fn, (unsigned)(np + ns));
    t.count = llvm_dim(e, lk->outer->hi);
    team_block(e, &t, &lk->outer->body);
}
