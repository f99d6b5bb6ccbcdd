// Work for several threads: a function's calls for i in 0..n given to env's pool, the host's parallel-for, or made in turn.
//
// Threads get a thunk `void t(ptr ctx, i64 i)`, the shape of env's parallel_for. ctx is a struct on the caller's stack: the function's
// first arguments, for a parallel loop the iterations a task and in all, and a status for each task, so that the first failure in order
// counts, whatever ran first. A task of a loop is a run of iterations, one of a team is a member.
#include "llvm_emit.h"
#include <string.h>

enum { TASKS = 64 }; // runs a parallel loop is cut into at most

static LLVMValueRef icmp(Emit *e, LLVMIntPredicate p, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildICmp(e->b, p, x, y, "");
}
static LLVMValueRef pick(Emit *e, LLVMValueRef c, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildSelect(e->b, c, x, y, "");
}
static LLVMValueRef least(Emit *e, LLVMValueRef x, LLVMValueRef y) {
    return pick(e, icmp(e, LLVMIntSLT, x, y), x, y);
}

// ---- helper functions of the module ----
typedef struct {
    EmitFn outer;
    LLVMBasicBlockRef back;
} Helper;

// A function being made once; NULL in *fn's place never. True when its body is still to be printed: then end with helper_end.
static bool helper_begin(Emit *e, Helper *h, const char *suffix, LLVMTypeRef result, int n, LLVMTypeRef *types, LLVMValueRef *fn) {
    const char *name = arena_printf(e->arena, "%s.%s", e->layout->prefix, suffix);
    if ((*fn = LLVMGetNamedFunction(e->mod, name))) return false;
    *fn = llvm_function(e, name, LLVMFunctionType(result, types, (unsigned)n, 0), FN_COLD);
    *h = (Helper){e->f, LLVMGetInsertBlock(e->b)};
    e->f = (EmitFn){.fn = *fn};
    llvm_at(e, llvm_block(e, "entry"));
    return true;
}
static void helper_end(Emit *e, const Helper *h) {
    e->f = h->outer;
    llvm_at(e, h->back);
}

// Goes on in a new block where cond holds; otherwise fn prints what happens.
static LLVMBasicBlockRef branch(Emit *e, LLVMValueRef cond) {
    LLVMBasicBlockRef yes = llvm_block(e, "yes"), no = llvm_block(e, "no");
    LLVMBuildCondBr(e->b, cond, yes, no);
    llvm_at(e, yes);
    return no;
}

static LLVMValueRef pool_threads(Emit *e, LLVMValueRef pool) {
    return LLVMBuildLoad2(e->b, e->i32, pool, "");
}

// i32 tasks(env): how many runs are worth making: four a thread, TASKS where the host does not say how many threads it has.
static LLVMValueRef tasks_function(Emit *e) {
    Helper h;
    LLVMValueRef fn;
    if (!helper_begin(e, &h, "tasks", e->i32, 1, &e->ptr, &fn)) return fn;
    LLVMValueRef env = LLVMGetParam(fn, 0), pool = llvm_env_field(e, env, ENV_POOL), one = llvm_int(e->i32, 1),
                 all = llvm_int(e->i32, TASKS);
    LLVMBasicBlockRef has_pool = branch(e, LLVMBuildIsNull(e->b, pool, ""));
    LLVMBuildRet(e->b, pick(e, LLVMBuildIsNull(e->b, llvm_env_field(e, env, ENV_PARALLEL_FOR), ""), one, all));
    llvm_at(e, has_pool);
    LLVMValueRef threads = pool_threads(e, pool), four = LLVMBuildMul(e->b, threads, llvm_int(e->i32, 4), "");
    LLVMValueRef some = pick(e, icmp(e, LLVMIntSLT, threads, llvm_int(e->i32, TASKS / 4)), four, all);
    LLVMBuildRet(e->b, pick(e, icmp(e, LLVMIntSLT, threads, llvm_int(e->i32, 2)), one, some));
    helper_end(e, &h);
    return fn;
}

// Prints `for i in 0..n` around what body makes of i; goes on behind it.
static void count_to(Emit *e, LLVMValueRef n, void (*body)(Emit *e, LLVMValueRef i, void *ctx), void *ctx) {
    LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b), head = llvm_block(e, "head"), next = llvm_block(e, "do"),
                      done = llvm_block(e, "done");
    LLVMValueRef first = llvm_int(e->i64, 0);
    LLVMBuildBr(e->b, head);
    llvm_at(e, head);
    LLVMValueRef i = LLVMBuildPhi(e->b, e->i64, "i");
    LLVMBuildCondBr(e->b, icmp(e, LLVMIntSLT, i, n), next, done);
    llvm_at(e, next);
    body(e, i, ctx);
    LLVMValueRef more = LLVMBuildNSWAdd(e->b, i, llvm_int(e->i64, 1), "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->b);
    LLVMBuildBr(e->b, head);
    LLVMAddIncoming(i, (LLVMValueRef[]){first, more}, (LLVMBasicBlockRef[]){from, latch}, 2);
    llvm_at(e, done);
}

static LLVMTypeRef thunk_type(Emit *e) {
    LLVMTypeRef types[2] = {e->ptr, e->i64};
    return LLVMFunctionType(LLVMVoidTypeInContext(e->ctx), types, 2, 0);
}

static void call_one(Emit *e, LLVMValueRef i, void *fn) {
    LLVMValueRef args[2] = {LLVMGetParam(fn, 2), i};
    LLVMBuildCall2(e->b, thunk_type(e), LLVMGetParam(fn, 1), args, 2, "");
}

// A call of fn(first, thunk, ctx, n), as the pool's and the host's parallel_for are.
static void hand_over(Emit *e, LLVMTypeRef type, LLVMValueRef run, LLVMValueRef fn, LLVMValueRef first) {
    LLVMValueRef args[4] = {first, LLVMGetParam(fn, 1), LLVMGetParam(fn, 2), LLVMGetParam(fn, 3)};
    LLVMBuildCall2(e->b, type, run, args, 4, "");
    LLVMBuildRetVoid(e->b);
}

// void spread(env, thunk, ctx, n)
static LLVMValueRef spread_function(Emit *e) {
    Helper h;
    LLVMValueRef fn;
    LLVMTypeRef types[4] = {e->ptr, e->ptr, e->ptr, e->i64};
    if (!helper_begin(e, &h, "spread", LLVMVoidTypeInContext(e->ctx), 4, types, &fn)) return fn;
    LLVMTypeRef type = LLVMGlobalGetValueType(fn), pool_fields[2] = {e->i32, e->ptr},
                pool_type = LLVMStructTypeInContext(e->ctx, pool_fields, 2, 0);
    LLVMValueRef env = LLVMGetParam(fn, 0), n = LLVMGetParam(fn, 3);
    LLVMBasicBlockRef in_turn = branch(e, icmp(e, LLVMIntSGT, n, llvm_int(e->i64, 1)));
    LLVMValueRef pool = llvm_env_field(e, env, ENV_POOL), host = llvm_env_field(e, env, ENV_PARALLEL_FOR);
    LLVMBasicBlockRef no_pool = branch(e, LLVMBuildIsNotNull(e->b, pool, "")),
                      few = branch(e, icmp(e, LLVMIntSGT, pool_threads(e, pool), llvm_int(e->i32, 1)));
    hand_over(e, type, LLVMBuildLoad2(e->b, e->ptr, LLVMBuildStructGEP2(e->b, pool_type, pool, 1, ""), ""), fn, pool);
    llvm_at(e, few);
    LLVMBuildBr(e->b, in_turn);
    llvm_at(e, no_pool);
    LLVMBasicBlockRef no_host = branch(e, LLVMBuildIsNotNull(e->b, host, ""));
    hand_over(e, type, host, fn, llvm_env_field(e, env, ENV_HOST));
    llvm_at(e, no_host);
    LLVMBuildBr(e->b, in_turn);
    llvm_at(e, in_turn);
    count_to(e, n, call_one, fn);
    LLVMBuildRetVoid(e->b);
    helper_end(e, &h);
    return fn;
}

static void return_failure(Emit *e, LLVMValueRef i, void *fn) {
    LLVMValueRef s = LLVMBuildLoad2(e->b, e->i32, LLVMBuildInBoundsGEP2(e->b, e->i32, LLVMGetParam(fn, 0), &i, 1, ""), "");
    LLVMBasicBlockRef fine = branch(e, icmp(e, LLVMIntNE, s, llvm_int(e->i32, 0)));
    LLVMBuildRet(e->b, s);
    llvm_at(e, fine);
}

// i32 first_failure(status, n): the first of n that is not 0.
static LLVMValueRef failure_function(Emit *e) {
    Helper h;
    LLVMValueRef fn;
    LLVMTypeRef types[2] = {e->ptr, e->i64};
    if (!helper_begin(e, &h, "first_failure", e->i32, 2, types, &fn)) return fn;
    count_to(e, LLVMGetParam(fn, 1), return_failure, fn);
    LLVMBuildRet(e->b, llvm_int(e->i32, 0));
    helper_end(e, &h);
    return fn;
}

// ---- tasks ----
typedef struct {
    const LlvmTask *task;
    LLVMTypeRef type, *fields;
    int captured, range, status; // numbers of fields; -1: none
} Context;

static Context context_of(Emit *e, const LlvmTask *t) {
    int n = (int)LLVMCountParamTypes(t->type), k = n - (t->range ? 2 : 1);
    Context c = {t, NULL, ARENA_ARRAY(e->arena, LLVMTypeRef, n + 2), k, t->range ? k : -1, t->slots ? (t->range ? k + 2 : k) : -1};
    LLVMGetParamTypes(t->type, c.fields);
    if (t->slots) c.fields[c.status] = LLVMArrayType2(e->i32, (uint64_t)t->slots);
    c.type = LLVMStructTypeInContext(e->ctx, c.fields, (unsigned)(k + (t->range ? 2 : 0) + (t->slots ? 1 : 0)), 0);
    return c;
}

static LLVMValueRef field(Emit *e, const Context *c, LLVMValueRef ctx, int i) {
    return LLVMBuildStructGEP2(e->b, c->type, ctx, (unsigned)i, "");
}
static LLVMValueRef load_field(Emit *e, const Context *c, LLVMValueRef ctx, int i) {
    return LLVMBuildLoad2(e->b, c->fields[i], field(e, c, ctx, i), "");
}

static LLVMValueRef thunk(Emit *e, const Context *c) {
    Helper h;
    size_t n;
    LLVMValueRef t, args[256];
    LLVMTypeRef types[2] = {e->ptr, e->i64};
    const char *name = arena_printf(e->arena, "%s.task", LLVMGetValueName2(c->task->fn, &n));
    if (!helper_begin(e, &h, name, LLVMVoidTypeInContext(e->ctx), 2, types, &t)) return t;
    LLVMValueRef ctx = LLVMGetParam(t, 0), number = LLVMGetParam(t, 1), i = LLVMBuildIntCast2(e->b, number, e->idx, 1, "");
    int k = 0;
    for (; k < c->captured; k++) args[k] = load_field(e, c, ctx, k);
    if (c->range >= 0) {
        LLVMValueRef chunk = load_field(e, c, ctx, c->range), count = load_field(e, c, ctx, c->range + 1);
        args[k] = LLVMBuildNSWMul(e->b, i, chunk, "");
        args[k + 1] = least(e, LLVMBuildNSWAdd(e->b, args[k], chunk, ""), count);
        k += 2;
    } else
        args[k++] = i;
    LLVMValueRef status = LLVMBuildCall2(e->b, c->task->type, c->task->fn, args, (unsigned)k, "");
    if (c->status >= 0) LLVMBuildStore(e->b, status, LLVMBuildInBoundsGEP2(e->b, e->i32, field(e, c, ctx, c->status), &number, 1, ""));
    LLVMBuildRetVoid(e->b);
    helper_end(e, &h);
    return t;
}

static LLVMValueRef fill_context(Emit *e, const Context *c, LLVMValueRef *args) {
    LLVMValueRef ctx = llvm_alloca(e, c->type, 8);
    for (int k = 0; k < c->captured; k++) LLVMBuildStore(e->b, args[k], field(e, c, ctx, k));
    return ctx;
}

static void run_tasks(Emit *e, LLVMValueRef env, const Context *c, LLVMValueRef ctx, LLVMValueRef n) {
    LLVMValueRef count = LLVMBuildIntCast2(e->b, n, e->i64, 1, ""), fn = spread_function(e), args[4] = {env, thunk(e, c), ctx, count};
    LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, args, 4, "");
    if (c->status < 0) return;
    LLVMValueRef failure = failure_function(e), list[2] = {field(e, c, ctx, c->status), count};
    llvm_fail_if(e, LLVMBuildCall2(e->b, LLVMGlobalGetValueType(failure), failure, list, 2, ""));
}

void llvm_run_members(Emit *e, LLVMValueRef env, const LlvmTask *t, LLVMValueRef *args, LLVMValueRef members) {
    Context c = context_of(e, t);
    run_tasks(e, env, &c, fill_context(e, &c, args), members);
}

static LLVMValueRef divide_up(Emit *e, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildSDiv(e->b, LLVMBuildNSWAdd(e->b, x, LLVMBuildNSWSub(e->b, y, llvm_int(e->idx, 1), ""), ""), y, "");
}

void llvm_run_range(Emit *e, LLVMValueRef env, const LlvmTask *task, LLVMValueRef *args, LLVMValueRef n) {
    LlvmTask t = *task;
    t.range = true;
    t.slots = t.slots ? TASKS : 0;
    Context c = context_of(e, &t);
    LLVMValueRef tasks_fn = tasks_function(e), tasks = LLVMBuildCall2(e->b, LLVMGlobalGetValueType(tasks_fn), tasks_fn, &env, 1, "");
    tasks = least(e, LLVMBuildIntCast2(e->b, tasks, e->idx, 1, ""), n);
    LLVMBasicBlockRef many = llvm_block(e, "many"), alone = llvm_block(e, "alone"), done = llvm_block(e, "done");
    LLVMBuildCondBr(e->b, icmp(e, LLVMIntSGT, tasks, llvm_int(e->idx, 1)), many, alone);
    llvm_at(e, many);
    LLVMValueRef ctx = fill_context(e, &c, args), chunk = divide_up(e, n, tasks);
    LLVMBuildStore(e->b, chunk, field(e, &c, ctx, c.range));
    LLVMBuildStore(e->b, n, field(e, &c, ctx, c.range + 1));
    run_tasks(e, env, &c, ctx, divide_up(e, n, chunk));
    LLVMBuildBr(e->b, done);
    llvm_at(e, alone);
    args[c.captured] = llvm_int(e->idx, 0);
    args[c.captured + 1] = n;
    LLVMValueRef status = LLVMBuildCall2(e->b, t.type, t.fn, args, (unsigned)c.captured + 2, "");
    if (t.slots) llvm_fail_if(e, status);
    LLVMBuildBr(e->b, done);
    llvm_at(e, done);
}
