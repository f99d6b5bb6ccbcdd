// The LLVM printer: a module from a Program; kernels as internal functions, statements as basic blocks.
//
// A kernel is `i32 k(ptr params…, idx symbols…[, idx first, idx last])` and returns a status; the two last are there when its one statement
// is a parallel loop: the iterations to run. Main is PREFIX.body (llvm_main.c). Loops marked `unroll` with constant bounds are
// printed once an iteration, so that a register tile's indices are constants and LLVM's SROA turns its stack array into registers.
#include "llvm_emit.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { UNROLL_MAX = 1024 };

// ---- functions ----
static void target_attributes(Emit *e, LLVMValueRef fn, bool base) {
    const Target *t = e->target;
    bool x86 = strncmp(t->triple, "x86_64", 6) == 0;
    if (base && x86) {
        llvm_fn_attribute(e, fn, "target-cpu", "x86-64");
        llvm_fn_attribute(e, fn, "target-features", "");
        return;
    }
    if (*t->cpu) llvm_fn_attribute(e, fn, "target-cpu", t->cpu);
    if (*t->llvm_features) llvm_fn_attribute(e, fn, "target-features", t->llvm_features);
    if (t->vector_bits < 512) return;
    llvm_fn_attribute(e, fn, "prefer-vector-width", "512");
    llvm_fn_attribute(e, fn, "min-legal-vector-width", "512");
}

LLVMValueRef llvm_function(Emit *e, const char *name, LLVMTypeRef type, FnKind kind) {
    LLVMValueRef fn = LLVMAddFunction(e->mod, name, type);
    if (kind != FN_EXPORTED) LLVMSetLinkage(fn, LLVMInternalLinkage);
    llvm_fn_attribute(e, fn, "nounwind", NULL);
    llvm_fn_attribute(e, fn, "noinline", NULL);
    if (kind != FN_KERNEL && e->constants) llvm_fn_attribute(e, fn, "optnone", NULL);
    target_attributes(e, fn, kind == FN_BASE || kind == FN_EXPORTED);
    return fn;
}

// value NULL: one of LLVM's own attributes, else a string attribute.
static LLVMAttributeRef attribute(Emit *e, const char *name, const char *value) {
    if (value) return LLVMCreateStringAttribute(e->ctx, name, (unsigned)strlen(name), value, (unsigned)strlen(value));
    return LLVMCreateEnumAttribute(e->ctx, LLVMGetEnumAttributeKindForName(name, strlen(name)), 0);
}
void llvm_fn_attribute(Emit *e, LLVMValueRef fn, const char *name, const char *value) {
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, attribute(e, name, value));
}
void llvm_param_attribute(Emit *e, LLVMValueRef fn, int param, const char *name) {
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)(param + 1), attribute(e, name, NULL));
}

void llvm_fn_begin(Emit *e, LLVMValueRef fn, int node) {
    EmitFn *f = &e->f;
    ValueMap vals = f->vals, memo = f->memo;
    valuemap_clear(&vals);
    valuemap_clear(&memo);
    *f = (EmitFn){.fn = fn, .node = node, .vals = vals, .memo = memo};
    f->allocas = llvm_block(e, "allocas");
    f->leave = llvm_block(e, "leave");
    LLVMBasicBlockRef body = llvm_block(e, "body");
    llvm_at(e, body);
    f->status = llvm_alloca(e, e->i32, 0);
    f->sticky = llvm_alloca(e, e->i1, 0);
    LLVMBuildStore(e->b, llvm_int(e->i1, 0), f->sticky);
    f->first = body;
}

void llvm_fn_end(Emit *e) {
    EmitFn *f = &e->f;
    LLVMValueRef raised = LLVMBuildLoad2(e->b, e->i1, f->sticky, "");
    LLVMValueRef bad = llvm_int(e->i32, -(CODE_INDEX + 256 * (int64_t)f->node));
    llvm_fail(e, LLVMBuildSelect(e->b, raised, bad, llvm_int(e->i32, 0), ""));
    llvm_at(e, f->allocas);
    LLVMBuildBr(e->b, f->first);
    LLVMMoveBasicBlockAfter(f->leave, LLVMGetLastBasicBlock(f->fn));
    llvm_at(e, f->leave);
}

void llvm_fail(Emit *e, LLVMValueRef status) {
    LLVMBuildStore(e->b, status, e->f.status);
    LLVMBuildBr(e->b, e->f.leave);
}

void llvm_fail_if(Emit *e, LLVMValueRef status) {
    LLVMBasicBlockRef bad = llvm_block(e, "fault"), ok = llvm_block(e, "ok");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, status, llvm_int(e->i32, 0), ""), ok, bad);
    llvm_at(e, bad);
    llvm_fail(e, status);
    llvm_at(e, ok);
}

void llvm_fail_unless(Emit *e, LLVMValueRef cond, int32_t status) {
    LLVMBasicBlockRef bad = llvm_block(e, "fault"), ok = llvm_block(e, "ok");
    LLVMBuildCondBr(e->b, cond, ok, bad);
    llvm_at(e, bad);
    llvm_fail(e, llvm_int(e->i32, status));
    llvm_at(e, ok);
}

// ---- statements ----
static bool ended(Emit *e) {
    return LLVMGetBasicBlockTerminator(LLVMGetInsertBlock(e->b)) != NULL;
}
void llvm_bind(Emit *e, const void *name, LLVMValueRef v) {
    valuemap_put(e->arena, &e->f.vals, name, v);
    vec_push(e->arena, &e->f.bound, name);
}

// Goes to `to` unless a break or a failure ended the block already.
static void flow(Emit *e, LLVMBasicBlockRef to) {
    if (!ended(e)) LLVMBuildBr(e->b, to);
}

static bool constant_value(LLVMValueRef v, int64_t *out) {
    if (!LLVMIsAConstantInt(v)) return false;
    *out = LLVMConstIntGetSExtValue(v);
    return true;
}

typedef void (*BodyFn)(Emit *e, void *ctx);

static void unrolled(Emit *e, const Stmt *s, int64_t lo, int64_t hi, BodyFn fn, void *ctx) {
    for (int64_t v = lo; v < hi && !ended(e); v += s->step) {
        llvm_bind(e, s->sym, llvm_int(e->idx, v));
        fn(e, ctx);
    }
}

static void counted(Emit *e, const Stmt *s, LLVMValueRef lo, LLVMValueRef hi, BodyFn fn, void *ctx) {
    LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b), head = llvm_block(e, s->kind == ST_REDUCE ? "reduce" : "for");
    LLVMBasicBlockRef body = llvm_block(e, "do"), done = e->f.breaks;
    LLVMBuildBr(e->b, head);
    llvm_at(e, head);
    LLVMValueRef v = LLVMBuildPhi(e->b, e->idx, dim_as_symbol(s->sym)->name);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, v, hi, ""), body, done);
    llvm_at(e, body);
    llvm_bind(e, s->sym, v);
    fn(e, ctx);
    LLVMAddIncoming(v, &lo, &from, 1);
    if (ended(e)) return;
    LLVMValueRef next = LLVMBuildNSWAdd(e->b, v, llvm_int(e->idx, s->step), "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->b);
    LLVMBuildBr(e->b, head);
    LLVMAddIncoming(v, &next, &latch, 1);
}

void llvm_loop(Emit *e, const Stmt *s, LLVMValueRef lo, LLVMValueRef hi, void (*fn)(Emit *e, void *ctx), void *ctx) {
    LLVMBasicBlockRef outer = e->f.breaks, done = llvm_block(e, "done");
    int64_t a, b;
    e->f.breaks = done;
    if (s->unroll && constant_value(lo, &a) && constant_value(hi, &b) && (b - a) / s->step <= UNROLL_MAX)
        unrolled(e, s, a, b, fn, ctx);
    else
        counted(e, s, lo, hi, fn, ctx);
    flow(e, done);
    llvm_at(e, done);
    e->f.breaks = outer;
}

static void body_of(Emit *e, void *ctx) {
    llvm_emit_block(e, &((const Stmt *)ctx)->body);
}

void llvm_loop_between(Emit *e, const Stmt *s, LLVMValueRef lo, LLVMValueRef hi) {
    llvm_loop(e, s, lo, hi, body_of, (void *)(uintptr_t)s);
}

static void do_for(Emit *e, const Stmt *s) {
    llvm_loop_between(e, s, llvm_dim(e, s->lo), llvm_dim(e, s->hi));
}

// One place on the stack for each variable of the text, however often it is unrolled.
static LLVMValueRef place(Emit *e, const void *name, LLVMTypeRef type, unsigned align) {
    LLVMValueRef at = valuemap_get(&e->f.vals, name);
    if (!at) llvm_bind(e, name, at = llvm_alloca(e, type, align));
    return at;
}

static LLVMValueRef var_place(Emit *e, const Var *v) {
    return place(e, v, llvm_value_type(e, v->type), 0);
}

static void do_reduce(Emit *e, const Stmt *s) {
    LLVMValueRef *init = ARENA_ARRAY(e->arena, LLVMValueRef, s->nstates);
    for (int i = 0; i < s->nstates; i++) init[i] = llvm_expr(e, s->inits[i]);
    for (int i = 0; i < s->nstates; i++) LLVMBuildStore(e->b, init[i], var_place(e, s->states[i]));
    do_for(e, s);
}

static void do_while(Emit *e, const Stmt *s) {
    LLVMBasicBlockRef outer = e->f.breaks, head = llvm_block(e, "while"), body = llvm_block(e, "do"), done = llvm_block(e, "done");
    LLVMBuildBr(e->b, head);
    llvm_at(e, head);
    valuemap_clear(&e->f.memo);
    LLVMBuildCondBr(e->b, llvm_expr(e, s->value), body, done);
    llvm_at(e, body);
    e->f.breaks = done;
    llvm_emit_block(e, &s->body);
    flow(e, head);
    llvm_at(e, done);
    e->f.breaks = outer;
}

static void do_if(Emit *e, const Stmt *s) {
    LLVMValueRef cond = llvm_expr(e, s->value);
    LLVMBasicBlockRef yes = llvm_block(e, "then"), no = llvm_block(e, "else"), done = llvm_block(e, "endif");
    LLVMBuildCondBr(e->b, cond, yes, no);
    llvm_at(e, yes);
    llvm_emit_block(e, &s->body);
    flow(e, done);
    llvm_at(e, no);
    llvm_emit_block(e, &s->orelse);
    flow(e, done);
    llvm_at(e, done);
}

static void do_break(Emit *e, const Stmt *s) {
    (void)s;
    LLVMBuildBr(e->b, e->f.breaks);
}

static void do_let(Emit *e, const Stmt *s) {
    LLVMValueRef v = llvm_expr(e, s->value);
    llvm_bind(e, s->sym ? (const void *)s->sym : s->var, v);
}

static void do_var(Emit *e, const Stmt *s) {
    LLVMValueRef v = llvm_expr(e, s->value);
    LLVMBuildStore(e->b, v, var_place(e, s->var));
}

static void do_tile(Emit *e, const Stmt *s) {
    int n = 1;
    for (int i = 0; i < s->var->ntile; i++) n *= s->var->tile[i];
    LLVMTypeRef type = llvm_value_type(e, s->var->type);
    LLVMValueRef v = llvm_expr(e, s->value), base = place(e, s->var, LLVMArrayType2(type, (uint64_t)n), 0);
    for (int i = 0; i < n; i++) {
        LLVMValueRef at = llvm_int(e->idx, i);
        LLVMBuildStore(e->b, v, LLVMBuildInBoundsGEP2(e->b, type, base, &at, 1, ""));
    }
}

static void do_set(Emit *e, const Stmt *s) {
    LLVMValueRef v = llvm_expr(e, s->value);
    LLVMBuildStore(e->b, v, s->var->kind == VAR_TILE ? llvm_tile_address(e, s->var, s->idx) : valuemap_get(&e->f.vals, s->var));
}

static void do_local(Emit *e, const Stmt *s) {
    const LoopBuffer *b = s->var->owner;
    int64_t n = 1, extent;
    for (int i = 0; i < b->rank; i++)
        if (dim_is_int(b->shape[i], &extent)) n *= extent;
    place(e, s->var, LLVMArrayType2(llvm_memory_type(e, s->var->type.type), (uint64_t)n), 64);
}

static void do_check(Emit *e, const Stmt *s) {
    llvm_fail_unless(e, llvm_expr(e, s->value), -(int32_t)(s->code + 256 * s->node));
}

static void do_nothing(Emit *e, const Stmt *s) {
    (void)e;
    (void)s;
}

typedef void (*StmtFn)(Emit *e, const Stmt *s);
static const StmtFn statements[ST_COUNT] = {
    [ST_FOR] = do_for,
    [ST_REDUCE] = do_reduce,
    [ST_WHILE] = do_while,
    [ST_IF] = do_if,
    [ST_BREAK] = do_break,
    [ST_LET] = do_let,
    [ST_VAR] = do_var,
    [ST_TILE] = do_tile,
    [ST_SET] = do_set,
    [ST_STORE] = llvm_store,
    [ST_LOCAL] = do_local,
    [ST_CHECK] = do_check,
    [ST_COMMENT] = do_nothing,
    [ST_CALL] = llvm_call,
    [ST_SIZE] = llvm_size,
    [ST_ALLOC] = llvm_alloc,
    [ST_FREE] = llvm_free,
};

void llvm_emit_block(Emit *e, const Block *b) {
    for (int i = 0; i < b->n && !ended(e); i++) {
        valuemap_clear(&e->f.memo);
        statements[b->data[i]->kind](e, b->data[i]);
    }
}

// ---- the module ----
static void types(Emit *e) {
    e->i1 = LLVMInt1TypeInContext(e->ctx);
    e->i8 = LLVMInt8TypeInContext(e->ctx);
    e->i32 = LLVMInt32TypeInContext(e->ctx);
    e->i64 = LLVMInt64TypeInContext(e->ctx);
    e->f32 = LLVMFloatTypeInContext(e->ctx);
    e->f64 = LLVMDoubleTypeInContext(e->ctx);
    e->ptr = LLVMPointerTypeInContext(e->ctx, 0);
    e->size = e->idx = LLVMIntPtrTypeInContext(e->ctx, e->data);
}

static void open_module(Emit *e, LLVMTargetMachineRef tm) {
    e->mod = LLVMModuleCreateWithNameInContext(e->p->name, e->ctx);
    e->data = LLVMCreateTargetDataLayout(tm);
    e->b = LLVMCreateBuilderInContext(e->ctx);
    char *triple = llvm_triple(e->target);
    LLVMSetTarget(e->mod, triple);
    LLVMSetModuleDataLayout(e->mod, e->data);
    LLVMDisposeMessage(triple);
    types(e);
}

// The kernels of e's Program that stand in this part.
static void kernels(Emit *e) {
    for (int i = 0; i < e->p->kernels.n; i++) llvm_kernel(e, e->p->kernels.data[i], i % e->part.count == e->part.number);
}

// The kernels of e's Program and its main, which is returned.
static LLVMValueRef program(Emit *e) {
    kernels(e);
    return llvm_main(e);
}

// One Program of several: e's module, under names of its own; constants of the same content are shared.
static LLVMValueRef level(Emit *e, int i) {
    Emit own = *e;
    own.p = e->o->levels[i];
    own.target = target_find(own.p->target);
    own.lowered = own.kernels = own.f.vals = own.f.memo = (ValueMap){0};
    Layout *l = codegen_layout(e->arena, own.p, arena_printf(e->arena, "%s_%s", e->o->prefix, own.target->name), e->d);
    if (!l) return NULL;
    l->weights = e->layout->weights;
    l->weights_bytes = e->layout->weights_bytes;
    l->weights_hash = e->layout->weights_hash;
    own.layout = l;
    LLVMValueRef body = program(&own);
    e->globals = own.globals;
    e->failed |= own.failed;
    return body;
}

static bool levels(Emit *e) {
    LLVMValueRef *bodies = ARENA_ARRAY(e->arena, LLVMValueRef, e->o->nlevels);
    for (int i = 0; i < e->o->nlevels; i++)
        if (!(bodies[i] = level(e, i))) return false;
    llvm_api(e, llvm_choose(e, bodies));
    return true;
}

LLVMModuleRef llvm_build(const Program *p, const EmitOptions *o, LlvmPart part, LLVMContextRef ctx, LLVMTargetMachineRef tm,
    const Target *t, Arena *constants, Diag *d) {
    Emit e = {.p = p, .o = o, .part = part, .target = t, .d = d, .arena = arena_new(), .constants = constants, .ctx = ctx};
    Layout *layout = o->nlevels ? codegen_layout_levels(e.arena, o, o->prefix, d) : codegen_layout(e.arena, p, o->prefix, d);
    if (!layout) {
        arena_free(e.arena);
        return NULL;
    }
    layout_places(e.arena, layout, p, o);
    if (o->weights == WEIGHTS_OBJECT) layout_weights(layout, p, o);
    e.layout = layout;
    open_module(&e, tm);
    if (part.number)
        kernels(&e);
    else if (!o->nlevels)
        llvm_api(&e, program(&e));
    else if (!levels(&e))
        e.failed = true;
    LLVMDisposeBuilder(e.b);
    LLVMDisposeTargetData(e.data);
    arena_free(e.arena);
    if (!e.failed) return e.mod;
    LLVMDisposeModule(e.mod);
    return NULL;
}
