// The program around the kernels: where its buffers lie, sizes known at run time, memory from the allocator, work given to threads.
//
// Main's buffers are found when a call names them: constants are globals, temps lie at their offset in the arena or a region, unbounded
// ones where the allocator put them. Inputs, outputs and states are bound by llvm_api.c at entry.
#include "llvm_emit.h"
#include "../runtime/abi.h"
#include <assert.h>
#include <string.h>

// ---- env ----
LLVMTypeRef llvm_env_type(Emit *e) {
    LLVMTypeRef z = e->size, p = e->ptr;
    LLVMTypeRef fields[ENV_FIELDS] = {z, p, z, p, p, z, p, p, p, p, p, p, p, e->i64, p};
    return LLVMStructTypeInContext(e->ctx, fields, ENV_FIELDS, 0);
}

LLVMValueRef llvm_env_field(Emit *e, LLVMValueRef env, EnvField field) {
    LLVMTypeRef type = llvm_env_type(e);
    LLVMValueRef at = LLVMBuildStructGEP2(e->b, type, env, field, "");
    return LLVMBuildLoad2(e->b, LLVMStructGetTypeAtIndex(type, field), at, "");
}

LLVMValueRef llvm_byte_at(Emit *e, LLVMValueRef base, LLVMValueRef offset) {
    return LLVMBuildInBoundsGEP2(e->b, e->i8, base, &offset, 1, "");
}

static LLVMValueRef is_null(Emit *e, LLVMValueRef p) {
    return LLVMBuildIsNull(e->b, p, "");
}

// ---- constants ----
LLVMValueRef llvm_bytes(Emit *e, const char *name, const void *bytes, size_t n, unsigned align) {
    LLVMValueRef data = LLVMConstStringInContext2(e->ctx, bytes, n, 1);
    LLVMValueRef g = LLVMAddGlobal(e->mod, LLVMTypeOf(data), name);
    LLVMSetInitializer(g, data);
    LLVMSetGlobalConstant(g, 1);
    LLVMSetLinkage(g, LLVMPrivateLinkage);
    LLVMSetAlignment(g, align);
    return g;
}

static LLVMValueRef const_address(Emit *e, const LoopBuffer *b) {
    LLVMValueRef at = valuemap_get(&e->globals, b);
    if (at) return at;
    if (e->constants) {
        char *copy = arena_alloc(e->constants, b->nbytes + 64);
        copy += (64 - (uintptr_t)copy % 64) % 64;
        if (b->nbytes) memcpy(copy, b->bytes, b->nbytes);
        at = LLVMConstIntToPtr(llvm_int(e->i64, (int64_t)(uintptr_t)copy), e->ptr);
    } else
        at = llvm_bytes(e, arena_printf(e->arena, "%s_%s", e->o->prefix, b->var.name), b->bytes, b->nbytes, 64);
    valuemap_put(e->arena, &e->globals, b, at);
    return at;
}

// ---- buffers ----
static LLVMValueRef temp_address(Emit *e, const LoopBuffer *b) {
    int i = layout_temp(e->layout, b);
    assert(i >= 0);
    LLVMValueRef base = e->f.arena_base;
    if (e->layout->temp_region[i] >= 0) {
        LLVMValueRef r = llvm_int(e->i32, e->layout->temp_region[i]);
        base = LLVMBuildLoad2(e->b, e->ptr, LLVMBuildInBoundsGEP2(e->b, e->ptr, llvm_env_field(e, e->f.env, ENV_REGIONS), &r, 1, ""), "");
    }
    return llvm_byte_at(e, base, llvm_dim(e, e->layout->temp_offset[i]));
}

// Where the address of a temp from the allocator is kept: null before alloc and after free. (b itself is its Var's address.)
static const void *slot_key(const LoopBuffer *b) {
    return &b->unbounded;
}
static LLVMValueRef alloc_slot(Emit *e, const LoopBuffer *b) {
    return valuemap_get(&e->f.vals, slot_key(b));
}

LLVMValueRef llvm_buffer(Emit *e, const Var *buf) {
    LLVMValueRef v = valuemap_get(&e->f.vals, buf);
    if (v) return v;
    const LoopBuffer *b = buf->owner;
    if (b->kind == BUF_CONST) return const_address(e, b);
    assert(b->kind == BUF_TEMP);
    return b->unbounded ? LLVMBuildLoad2(e->b, e->ptr, alloc_slot(e, b), "") : temp_address(e, b);
}

// ---- memory from env's allocator ----
void llvm_alloc_slots(Emit *e) {
    for (int i = 0; i < e->p->buffers.n; i++) {
        const LoopBuffer *b = e->p->buffers.data[i];
        if (b->kind != BUF_TEMP || !b->unbounded) continue;
        LLVMValueRef slot = llvm_alloca(e, e->ptr, 0);
        LLVMBuildStore(e->b, LLVMConstNull(e->ptr), slot);
        llvm_bind(e, slot_key(b), slot);
    }
}

static void free_slot(Emit *e, LLVMValueRef slot) {
    LLVMTypeRef types[2] = {e->ptr, e->ptr}, type = LLVMFunctionType(LLVMVoidTypeInContext(e->ctx), types, 2, 0);
    LLVMBasicBlockRef some = llvm_block(e, "free"), done = llvm_block(e, "freed");
    LLVMValueRef args[2] = {NULL, LLVMBuildLoad2(e->b, e->ptr, slot, "")};
    LLVMBuildCondBr(e->b, is_null(e, args[1]), done, some);
    llvm_at(e, some);
    args[0] = llvm_env_field(e, e->f.env, ENV_USER);
    LLVMBuildCall2(e->b, type, llvm_env_field(e, e->f.env, ENV_DEALLOC), args, 2, "");
    LLVMBuildStore(e->b, LLVMConstNull(e->ptr), slot);
    LLVMBuildBr(e->b, done);
    llvm_at(e, done);
}

void llvm_free_all(Emit *e) {
    for (int i = 0; i < e->p->buffers.n; i++) {
        const LoopBuffer *b = e->p->buffers.data[i];
        if (b->kind == BUF_TEMP && b->unbounded) free_slot(e, alloc_slot(e, b));
    }
}

void llvm_alloc(Emit *e, const Stmt *s) {
    LLVMTypeRef types[2] = {e->ptr, e->size}, type = LLVMFunctionType(e->ptr, types, 2, 0);
    const LoopBuffer *b = s->args[0];
    DimTable *t = e->p->dims;
    const Dim *size = s->dim ? s->dim : dim_muli(t, dim_product(t, b->shape, b->rank), dtype_bytes(b->var.type.type));
    LLVMValueRef slot = alloc_slot(e, b), bytes = llvm_dim(e, size);
    free_slot(e, slot);
    LLVMValueRef args[2] = {llvm_env_field(e, e->f.env, ENV_USER), LLVMBuildIntCast2(e->b, bytes, e->size, 1, "")};
    LLVMValueRef at = LLVMBuildCall2(e->b, type, llvm_env_field(e, e->f.env, ENV_ALLOC), args, 2, "");
    llvm_fail_unless(e, LLVMBuildIsNotNull(e->b, at, ""), -CODE_MEMORY);
    LLVMBuildStore(e->b, at, slot);
}

void llvm_free(Emit *e, const Stmt *s) {
    free_slot(e, alloc_slot(e, s->args[0]));
}

// ---- threads ----
// void run(env, fn, ctx, n): n calls of fn(ctx, i), by the pool, the host's parallel-for or the calling thread.
static LLVMValueRef runner(Emit *e, LLVMTypeRef thunk_type) {
    const char *name = arena_printf(e->arena, "%s.parallel", e->o->prefix);
    LLVMValueRef fn = LLVMGetNamedFunction(e->mod, name);
    if (fn) return fn;
    LLVMTypeRef nothing = LLVMVoidTypeInContext(e->ctx), types[4] = {e->ptr, e->ptr, e->ptr, e->i64};
    LLVMTypeRef for_type = LLVMFunctionType(nothing, types, 4, 0); // of the pool's and the host's parallel_for too
    fn = llvm_function(e, name, for_type, false);
    EmitFn outer = e->f;
    LLVMBasicBlockRef back = LLVMGetInsertBlock(e->b);
    e->f = (EmitFn){.fn = fn};
    LLVMBasicBlockRef entry = llvm_block(e, "entry"), pool = llvm_block(e, "pool"), no_pool = llvm_block(e, "no_pool");
    LLVMBasicBlockRef host = llvm_block(e, "host"), alone = llvm_block(e, "alone"), body = llvm_block(e, "do"),
                      done = llvm_block(e, "done");
    LLVMValueRef env = LLVMGetParam(fn, 0), args[4] = {NULL, LLVMGetParam(fn, 1), LLVMGetParam(fn, 2), LLVMGetParam(fn, 3)};
    llvm_at(e, entry);
    LLVMValueRef p = llvm_env_field(e, env, ENV_POOL), f = llvm_env_field(e, env, ENV_PARALLEL_FOR);
    LLVMBuildCondBr(e->b, is_null(e, p), no_pool, pool);
    llvm_at(e, pool);
    LLVMTypeRef pool_fields[2] = {e->i32, e->ptr}, pool_type = LLVMStructTypeInContext(e->ctx, pool_fields, 2, 0);
    LLVMValueRef pool_for = LLVMBuildLoad2(e->b, e->ptr, LLVMBuildStructGEP2(e->b, pool_type, p, 1, ""), "");
    args[0] = p;
    LLVMBuildCall2(e->b, for_type, pool_for, args, 4, "");
    LLVMBuildRetVoid(e->b);
    llvm_at(e, no_pool);
    LLVMBuildCondBr(e->b, is_null(e, f), alone, host);
    llvm_at(e, host);
    args[0] = llvm_env_field(e, env, ENV_HOST);
    LLVMBuildCall2(e->b, for_type, f, args, 4, "");
    LLVMBuildRetVoid(e->b);
    llvm_at(e, alone);
    LLVMValueRef i = LLVMBuildPhi(e->b, e->i64, "i"), first = llvm_int(e->i64, 0);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, i, args[3], ""), body, done);
    llvm_at(e, body);
    LLVMValueRef one[2] = {args[2], i};
    LLVMBuildCall2(e->b, thunk_type, args[1], one, 2, "");
    LLVMValueRef next = LLVMBuildNSWAdd(e->b, i, llvm_int(e->i64, 1), "");
    LLVMBuildBr(e->b, alone);
    LLVMAddIncoming(i, (LLVMValueRef[]){first, next}, (LLVMBasicBlockRef[]){no_pool, body}, 2);
    llvm_at(e, done);
    LLVMBuildRetVoid(e->b);
    e->f = outer;
    llvm_at(e, back);
    return fn;
}

LLVMValueRef llvm_has_threads(Emit *e, LLVMValueRef env) {
    LLVMValueRef pool = llvm_env_field(e, env, ENV_POOL), host = llvm_env_field(e, env, ENV_PARALLEL_FOR);
    return LLVMBuildNot(e->b, LLVMBuildAnd(e->b, is_null(e, pool), is_null(e, host), ""), "");
}

void llvm_run_parallel(Emit *e, LLVMValueRef env, LLVMValueRef thunk, LLVMTypeRef thunk_type, LLVMValueRef ctx, LLVMValueRef n) {
    LLVMValueRef fn = runner(e, thunk_type), args[4] = {env, thunk, ctx, n};
    LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, args, 4, "");
}
