// The program around the kernels: PREFIX.body, which finds every buffer and runs main.
//
// Main's buffers are found where a call names them: constants are globals, temps lie at their offset in the arena or a region, unbounded
// ones where the allocator put them; inputs, outputs and states are bound at the top. Sizes of main are variables of the function, for a
// block behind an `if` may define them. Memory from env's allocator is freed on every way out.
#include "llvm_emit.h"
#include "../runtime/abi.h"
#include <assert.h>
#include <string.h>

// ---- env ----
LLVMTypeRef llvm_env_type(Emit *e) {
    LLVMTypeRef z = e->size, p = e->ptr;
    LLVMTypeRef fields[ENV_FIELDS] = {z, p, z, p, p, z, p, p, p, p, p, p, p, e->i64, p, p};
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

// The symbol of the object that holds the weights (object.c).
static LLVMValueRef weights_global(Emit *e) {
    const char *name = weights_symbol(e->arena, codegen_cname(e->arena, e->o->prefix), e->layout->weights_hash);
    LLVMValueRef g = LLVMGetNamedGlobal(e->mod, name);
    if (g) return g;
    g = LLVMAddGlobal(e->mod, LLVMArrayType2(e->i8, e->layout->weights_bytes), name);
    LLVMSetGlobalConstant(g, 1);
    LLVMSetVisibility(g, LLVMHiddenVisibility);
    LLVMSetAlignment(g, LAYOUT_ALIGN);
    return g;
}

static LLVMValueRef const_address(Emit *e, const LoopBuffer *b) {
    const WeightPlace *place = layout_weight(e->layout, b);
    const LoopBuffer *first = e->layout->weights.data[place->first].buffer;
    LLVMValueRef at = valuemap_get(&e->globals, first);
    if (at) return at;
    if (e->o->weights == WEIGHTS_OBJECT) {
        LLVMValueRef offset = llvm_int(e->size, (int64_t)place->offset);
        at = LLVMConstInBoundsGEP2(e->i8, weights_global(e), &offset, 1);
    } else if (e->constants) {
        char *copy = arena_alloc(e->constants, b->nbytes + 64);
        copy += (64 - (uintptr_t)copy % 64) % 64;
        if (b->nbytes) memcpy(copy, b->bytes, b->nbytes);
        at = LLVMConstIntToPtr(llvm_int(e->i64, (int64_t)(uintptr_t)copy), e->ptr);
    } else {
        at = llvm_bytes(e, arena_printf(e->arena, "%s_%s", e->layout->prefix, b->var.name), b->bytes, b->nbytes, 64);
        if (e->o->weights_section) LLVMSetSection(at, e->o->weights_section);
    }
    valuemap_put(e->arena, &e->globals, first, at);
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
static void alloc_slots(Emit *e) {
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

static void free_all(Emit *e) {
    for (int i = 0; i < e->p->buffers.n; i++) {
        const LoopBuffer *b = e->p->buffers.data[i];
        if (b->kind == BUF_TEMP && b->unbounded) free_slot(e, alloc_slot(e, b));
    }
}

void llvm_alloc(Emit *e, const Stmt *s) {
    LLVMTypeRef types[2] = {e->ptr, e->size}, type = LLVMFunctionType(e->ptr, types, 2, 0);
    LLVMValueRef slot = alloc_slot(e, s->args[0]), bytes = llvm_dim(e, loop_alloc_bytes(e->p, s));
    free_slot(e, slot);
    LLVMValueRef args[2] = {llvm_env_field(e, e->f.env, ENV_USER), LLVMBuildIntCast2(e->b, bytes, e->size, 1, "")};
    LLVMValueRef at = LLVMBuildCall2(e->b, type, llvm_env_field(e, e->f.env, ENV_ALLOC), args, 2, "");
    llvm_fail_unless(e, LLVMBuildIsNotNull(e->b, at, ""), -CODE_MEMORY);
    LLVMBuildStore(e->b, at, slot);
}

void llvm_free(Emit *e, const Stmt *s) {
    free_slot(e, alloc_slot(e, s->args[0]));
}

// ---- sizes known at run time ----
typedef struct {
    const Dim *sym;
    bool here, all;
    Emit *e;
} Mention;

static void mention(void *ctx, const Dim *sym) {
    Mention *m = ctx;
    m->here |= sym == m->sym;
    if (dim_as_symbol(sym)->kind == SYM_DATA) m->all &= valuemap_get(&m->e->f.vals, dim_as_symbol(sym)) != NULL;
}

// Dynamic output number `dynamic`: states its shape and whether it fits, once the last of its sizes is known.
static void settle_output(Emit *e, const LayoutSlot *s, int64_t at, const Dim *sym) {
    Mention m = {sym, false, true, e};
    for (int a = 0; a < s->buffer->rank; a++) dim_symbols(s->buffer->shape[a], mention, &m);
    if (!m.here || !m.all) return;
    int64_t word = (int64_t)LLVMABISizeOfType(e->data, e->size), shape = (at + word + 7) / 8 * 8;
    for (int a = 0; a < s->buffer->rank; a++) {
        LLVMValueRef n = LLVMBuildIntCast2(e->b, llvm_dim(e, s->buffer->shape[a]), e->i64, 1, "");
        LLVMBuildStore(e->b, n, llvm_byte_at(e, e->f.outputs, llvm_int(e->size, shape + 8 * a)));
    }
    LLVMValueRef have = LLVMBuildLoad2(e->b, e->size, llvm_byte_at(e, e->f.outputs, llvm_int(e->size, at)), "");
    LLVMValueRef need = LLVMBuildIntCast2(e->b, llvm_dim(e, s->elements), e->size, 1, "");
    LLVMValueRef fits = LLVMBuildICmp(e->b, LLVMIntULE, need, have, "");
    if (s->fallback)
        fits = LLVMBuildOr(e->b, fits, LLVMBuildIsNull(e->b, llvm_pointer_in(e, e->f.outputs, (int)(s - e->layout->outputs)), ""), "");
    llvm_fail_unless(e, fits, -CODE_CAPACITY);
}

void llvm_size(Emit *e, const Stmt *s) {
    const Sym *sym = dim_as_symbol(s->sym);
    LLVMValueRef v = llvm_expr(e, s->value), slot = valuemap_get(&e->f.vals, sym);
    if (!slot) llvm_bind(e, sym, slot = llvm_alloca(e, e->idx, 0));
    LLVMBuildStore(e->b, v, slot);
    valuemap_clear(&e->f.memo);
    LLVMValueRef ok = NULL;
    if (sym->lo) ok = LLVMBuildICmp(e->b, LLVMIntSGE, v, llvm_dim(e, sym->lo), "");
    if (sym->hi) {
        LLVMValueRef below = LLVMBuildICmp(e->b, LLVMIntSLE, v, llvm_dim(e, sym->hi), "");
        ok = ok ? LLVMBuildAnd(e->b, ok, below, "") : below;
    }
    if (ok) llvm_fail_unless(e, ok, -CODE_CAPACITY);
    int64_t word = (int64_t)LLVMABISizeOfType(e->data, e->size), at = word * e->layout->noutputs;
    for (int i = 0; i < e->layout->noutputs; i++) {
        const LayoutSlot *o = &e->layout->outputs[i];
        if (!o->dynamic) continue;
        at = (at + 7) / 8 * 8; // { size_t capacity; int64_t shape[rank]; }
        settle_output(e, o, at, s->sym);
        at += (word + 7) / 8 * 8 + 8 * o->buffer->rank;
    }
}

// ---- the caller's pointers ----
LLVMValueRef llvm_pointer_in(Emit *e, LLVMValueRef array, int i) {
    LLVMValueRef at = llvm_int(e->i32, i);
    return LLVMBuildLoad2(e->b, e->ptr, LLVMBuildInBoundsGEP2(e->b, e->ptr, array, &at, 1, ""), "");
}

LLVMValueRef llvm_aligned(Emit *e, LLVMValueRef p, int64_t bytes) {
    LLVMValueRef low = LLVMBuildAnd(e->b, LLVMBuildPtrToInt(e->b, p, e->size, ""), llvm_int(e->size, bytes - 1), "");
    return LLVMBuildICmp(e->b, LLVMIntEQ, low, llvm_int(e->size, 0), "");
}

static int64_t element_align(const LoopBuffer *b) {
    int n = dtype_bytes(b->var.type.type);
    return n > 8 ? 8 : n;
}

// A caller's pointer must be aligned to its elements and, where it is wanted, there; an empty tensor may be null.
static void check_pointer(Emit *e, LLVMValueRef p, const LayoutSlot *s, bool wanted) {
    LLVMValueRef ok = llvm_aligned(e, p, element_align(s->buffer));
    if (wanted) {
        LLVMValueRef there = LLVMBuildIsNotNull(e->b, p, "");
        if (!s->dynamic)
            there = LLVMBuildOr(e->b, there, LLVMBuildICmp(e->b, LLVMIntEQ, llvm_dim(e, s->elements), llvm_int(e->idx, 0), ""), "");
        ok = LLVMBuildAnd(e->b, ok, there, "");
    }
    valuemap_clear(&e->f.memo);
    llvm_fail_unless(e, ok, -CODE_POINTER);
}

static LLVMValueRef output_place(Emit *e, const LayoutSlot *s, LLVMValueRef p) {
    if (s->tie >= 0) return llvm_buffer(e, &e->layout->states[s->tie].buffer->var);
    if (!s->fallback) return p;
    LLVMValueRef spare = llvm_byte_at(e, e->f.arena_base, llvm_dim(e, s->fallback));
    return LLVMBuildSelect(e->b, is_null(e, p), spare, p, "");
}

static void bind_interface(Emit *e, LLVMValueRef in, LLVMValueRef out) {
    const Layout *l = e->layout;
    LLVMValueRef state = l->nstates ? llvm_env_field(e, e->f.env, ENV_STATE) : NULL;
    for (int i = 0; i < l->nstates; i++)
        llvm_bind(e, &l->states[i].buffer->var, llvm_byte_at(e, state, llvm_int(e->size, (int64_t)l->states[i].offset)));
    for (int i = 0; i < l->ninputs; i++) {
        LLVMValueRef p = llvm_pointer_in(e, in, i);
        check_pointer(e, p, &l->inputs[i], true);
        llvm_bind(e, &l->inputs[i].buffer->var, p);
    }
    for (int i = 0; i < l->noutputs; i++) {
        const LayoutSlot *s = &l->outputs[i];
        LLVMValueRef p = llvm_pointer_in(e, out, i);
        check_pointer(e, p, s, s->tie < 0 && !s->fallback);
        llvm_bind(e, &s->buffer->var, output_place(e, s, p));
    }
}

// A tied output lives in the state; where the caller gave a pointer it gets a copy.
static void copy_tied(Emit *e, LLVMValueRef out) {
    for (int i = 0; i < e->layout->noutputs; i++) {
        const LayoutSlot *s = &e->layout->outputs[i];
        if (s->tie < 0) continue;
        valuemap_clear(&e->f.memo);
        LLVMBasicBlockRef wanted = llvm_block(e, "copy"), done = llvm_block(e, "copied");
        LLVMValueRef to = llvm_pointer_in(e, out, i), from = llvm_buffer(e, &s->buffer->var);
        LLVMBuildCondBr(e->b, is_null(e, to), done, wanted);
        llvm_at(e, wanted);
        LLVMValueRef bytes = LLVMBuildIntCast2(e->b, llvm_dim(e, s->bytes), e->size, 1, "");
        LLVMBuildMemCpy(e->b, to, (unsigned)element_align(s->buffer), from, LAYOUT_ALIGN, bytes);
        LLVMBuildBr(e->b, done);
        llvm_at(e, done);
    }
}

// ---- the whole ----
// i32 body(dims, in, out, env): main, after the entry checks that need no size.
LLVMValueRef llvm_main(Emit *e) {
    LLVMTypeRef types[4] = {e->ptr, e->ptr, e->ptr, e->ptr}, type = LLVMFunctionType(e->i32, types, 4, 0);
    LLVMValueRef fn = llvm_function(e, arena_printf(e->arena, "%s.body", e->layout->prefix), type, FN_COLD);
    e->f = (EmitFn){0};
    llvm_fn_begin(e, fn, 0);
    e->f.env = LLVMGetParam(fn, 3);
    e->f.outputs = LLVMGetParam(fn, 2);
    e->f.arena_base = llvm_env_field(e, e->f.env, ENV_ARENA);
    alloc_slots(e);
    for (int i = 0; i < e->layout->ndims; i++) {
        LLVMValueRef at = llvm_int(e->i32, i), v = LLVMBuildInBoundsGEP2(e->b, e->i64, LLVMGetParam(fn, 0), &at, 1, "");
        llvm_bind(e, e->layout->dims[i].sym, LLVMBuildIntCast2(e->b, LLVMBuildLoad2(e->b, e->i64, v, ""), e->idx, 1, ""));
    }
    bind_interface(e, LLVMGetParam(fn, 1), e->f.outputs);
    llvm_emit_block(e, &e->p->main);
    copy_tied(e, e->f.outputs);
    llvm_fn_end(e);
    free_all(e);
    LLVMBuildRet(e->b, LLVMBuildLoad2(e->b, e->i32, e->f.status, ""));
    return fn;
}
