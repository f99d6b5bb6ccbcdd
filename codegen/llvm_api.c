// The binary interface: PREFIX_run_env with its entry checks, PREFIX_run, PREFIX_arena_bytes, PREFIX_state_init, texts of statuses.
//
// The same contract as the C printer's c_api.c: dims, inputs and outputs are arrays of int64_t and pointers (runtime/abi.h); the layout of
// arena, state and regions comes from codegen_layout. These functions are for the oldest processor of the architecture, for they test the
// one they run on.
#include "llvm_emit.h"
#include "cpu.h"
#include <string.h>

static LLVMTypeRef fn_type(LLVMTypeRef result, int n, LLVMTypeRef a, LLVMTypeRef b, LLVMTypeRef c, LLVMTypeRef d) {
    LLVMTypeRef types[4] = {a, b, c, d};
    return LLVMFunctionType(result, types, (unsigned)n, 0);
}

static LLVMValueRef exported(Emit *e, const char *suffix, LLVMTypeRef type) {
    return llvm_function(e, arena_printf(e->arena, "%s_%s", e->layout->prefix, suffix), type, FN_EXPORTED);
}

static LLVMValueRef at_offset(Emit *e, LLVMValueRef base, int64_t bytes) {
    return llvm_byte_at(e, base, llvm_int(e->size, bytes));
}

static LLVMValueRef both(Emit *e, LLVMValueRef x, LLVMValueRef y) {
    return x ? LLVMBuildAnd(e->b, x, y, "") : y;
}

// ---- arena_bytes: checked arithmetic on int64 ----
typedef struct {
    Emit *e;
    const ValueMap *dims; // symbol -> i64
    LLVMValueRef ok;      // so far
} Checked;

static LLVMValueRef checked_op(Checked *c, const char *name, LLVMValueRef x, LLVMValueRef y) {
    if (!x) return y;
    Emit *e = c->e;
    LLVMValueRef args[2] = {x, y}, pair = llvm_intrinsic(e, name, 1, &e->i64, 2, args);
    c->ok = both(e, c->ok, LLVMBuildNot(e->b, LLVMBuildExtractValue(e->b, pair, 1, ""), ""));
    return LLVMBuildExtractValue(e->b, pair, 0, "");
}

static LLVMValueRef checked_dim(Checked *c, const Dim *d);

static LLVMValueRef checked_atom(Checked *c, const Atom *m) {
    Emit *e = c->e;
    if (m->kind == ATOM_SYMBOL) return valuemap_get(c->dims, m->self);
    static const XOp ops[] = {[ATOM_FLOORDIV] = X_floordiv, [ATOM_MOD] = X_floormod, [ATOM_MIN] = X_min, [ATOM_MAX] = X_max};
    LLVMValueRef v[2] = {checked_dim(c, m->a), checked_dim(c, m->b)};
    return llvm_scalar(e, ops[m->kind], vtype(DT_i64, 1), v);
}

static LLVMValueRef checked_dim(Checked *c, const Dim *d) {
    LLVMValueRef sum = NULL;
    for (int t = 0; t < dim_nterms(d); t++) {
        LLVMValueRef product = llvm_int(c->e->i64, dim_coefficient(d, t));
        for (int i = 0; i < dim_nfactors(d, t); i++)
            product = checked_op(c, "llvm.smul.with.overflow", product, checked_atom(c, dim_factor(d, t, i)));
        sum = checked_op(c, "llvm.sadd.with.overflow", sum, product);
    }
    return sum ? sum : llvm_int(c->e->i64, 0);
}

static void checked_slots(Checked *c, const LayoutSlot *slots, int n) {
    for (int i = 0; i < n; i++)
        if (slots[i].bytes) checked_dim(c, slots[i].bytes);
}

// Sizes of the caller's tensors must be numbers too.
static LLVMValueRef arena_function(Emit *e) {
    const Layout *l = e->layout;
    LLVMValueRef fn = exported(e, "arena_bytes", fn_type(e->size, 2, e->ptr, e->i32, NULL, NULL)), dims = LLVMGetParam(fn, 0);
    e->f = (EmitFn){.fn = fn};
    llvm_at(e, llvm_block(e, "body"));
    LLVMBasicBlockRef given = llvm_block(e, "given"), missing = llvm_block(e, "missing");
    LLVMValueRef none = LLVMConstAllOnes(e->size);
    LLVMBuildCondBr(e->b, l->ndims ? LLVMBuildIsNotNull(e->b, dims, "") : llvm_int(e->i1, 1), given, missing);
    llvm_at(e, missing);
    LLVMBuildRet(e->b, none);
    llvm_at(e, given);
    ValueMap values = {0};
    Checked c = {e, &values, NULL};
    for (int i = 0; i < l->ndims; i++) {
        LLVMValueRef v = LLVMBuildLoad2(e->b, e->i64, at_offset(e, dims, 8 * i), "");
        c.ok = both(e, c.ok, LLVMBuildICmp(e->b, LLVMIntSGE, v, llvm_int(e->i64, l->dims[i].lo), ""));
        if (l->dims[i].hi != DIM_INF) c.ok = both(e, c.ok, LLVMBuildICmp(e->b, LLVMIntSLE, v, llvm_int(e->i64, l->dims[i].hi), ""));
        valuemap_put(e->arena, &values, l->dims[i].sym, v);
    }
    LLVMValueRef bytes = checked_dim(&c, l->arena_bytes), most = llvm_int(e->i64, e->target->pointer_bits == 32 ? INT32_MAX : INT64_MAX);
    checked_slots(&c, l->inputs, l->ninputs);
    checked_slots(&c, l->outputs, l->noutputs);
    c.ok = both(e, c.ok, LLVMBuildICmp(e->b, LLVMIntULE, bytes, most, ""));
    LLVMBuildRet(e->b, LLVMBuildSelect(e->b, c.ok, LLVMBuildIntCast2(e->b, bytes, e->size, 0, ""), none, ""));
    return fn;
}

// ---- state ----
static LLVMValueRef state_function(Emit *e) {
    LLVMTypeRef nothing = LLVMVoidTypeInContext(e->ctx);
    LLVMValueRef fn = exported(e, "state_init", fn_type(nothing, 1, e->ptr, NULL, NULL, NULL)), state = LLVMGetParam(fn, 0);
    e->f = (EmitFn){.fn = fn};
    llvm_at(e, llvm_block(e, "body"));
    if (e->layout->state_bytes)
        LLVMBuildMemSet(e->b, state, llvm_int(e->i8, 0), llvm_int(e->size, (int64_t)e->layout->state_bytes), LAYOUT_ALIGN);
    for (int i = 0; i < e->layout->nstates; i++) {
        const LoopBuffer *b = e->layout->states[i].buffer;
        if (!b->bytes || !b->nbytes) continue;
        LLVMValueRef first = llvm_bytes(e, arena_printf(e->arena, "%s_%s_first", e->layout->prefix, b->var.name), b->bytes, b->nbytes, 64);
        LLVMValueRef to = at_offset(e, state, (int64_t)e->layout->states[i].offset);
        LLVMBuildMemCpy(e->b, to, LAYOUT_ALIGN, first, 64, llvm_int(e->size, (int64_t)b->nbytes));
    }
    LLVMBuildRetVoid(e->b);
    return fn;
}

// ---- the processor ----
static LLVMValueRef assembly(Emit *e, const char *text, const char *constraints, int results, int n, LLVMValueRef *args) {
    LLVMTypeRef i32[4] = {e->i32, e->i32, e->i32, e->i32}, result = LLVMStructTypeInContext(e->ctx, i32, (unsigned)results, 0);
    LLVMTypeRef type = LLVMFunctionType(result, i32, (unsigned)n, 0);
    LLVMValueRef fn = LLVMGetInlineAsm(type, text, strlen(text), constraints, strlen(constraints), 1, 0, LLVMInlineAsmDialectATT, 0);
    return LLVMBuildCall2(e->b, type, fn, args, (unsigned)n, "");
}

static LLVMValueRef cpuid(Emit *e, int leaf) {
    LLVMValueRef args[2] = {llvm_int(e->i32, leaf), llvm_int(e->i32, 0)};
    return assembly(e, "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx}", 4, 2, args);
}

static LLVMValueRef has_bits(Emit *e, LLVMValueRef v, int reg, uint32_t mask) {
    LLVMValueRef want = LLVMConstInt(e->i32, mask, 0),
                 have = LLVMBuildAnd(e->b, LLVMBuildExtractValue(e->b, v, (unsigned)reg, ""), want, "");
    return LLVMBuildICmp(e->b, LLVMIntEQ, have, want, "");
}

// Goes on where cond holds; elsewhere the processor lacks something, which is remembered.
static void need(Emit *e, LLVMValueRef cond, LLVMBasicBlockRef lacks) {
    LLVMBasicBlockRef next = llvm_block(e, "has");
    LLVMBuildCondBr(e->b, cond, next, lacks);
    llvm_at(e, next);
}

static void remember(Emit *e, LLVMValueRef known, int v, bool lacks) {
    LLVMValueRef s = LLVMBuildStore(e->b, llvm_int(e->i32, v), known);
    LLVMSetOrdering(s, LLVMAtomicOrderingMonotonic);
    LLVMBuildRet(e->b, llvm_int(e->i1, lacks));
}

// i1 cpu_lacks(): reads cpuid once, for in a virtual machine it costs microseconds.
static LLVMValueRef cpu_function(Emit *e) {
    CpuNeeds n = codegen_cpu_needs(e->target->c_target);
    LLVMValueRef known = LLVMAddGlobal(e->mod, e->i32, arena_printf(e->arena, "%s.known", e->layout->prefix)); // 1: fits, 2: lacks
    LLVMSetInitializer(known, llvm_int(e->i32, 0));
    LLVMSetLinkage(known, LLVMInternalLinkage);
    const char *name = arena_printf(e->arena, "%s.cpu_lacks", e->layout->prefix);
    LLVMValueRef fn = llvm_function(e, name, LLVMFunctionType(e->i1, NULL, 0, 0), FN_BASE);
    e->f = (EmitFn){.fn = fn};
    LLVMBasicBlockRef entry = llvm_block(e, "entry"), again = llvm_block(e, "again"), ask = llvm_block(e, "ask"),
                      lacks = llvm_block(e, "lacks");
    llvm_at(e, entry);
    LLVMValueRef k = LLVMBuildLoad2(e->b, e->i32, known, "");
    LLVMSetOrdering(k, LLVMAtomicOrderingMonotonic);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, k, llvm_int(e->i32, 0), ""), ask, again);
    llvm_at(e, again);
    LLVMBuildRet(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, k, llvm_int(e->i32, 2), ""));
    llvm_at(e, lacks);
    remember(e, known, 2, true);
    llvm_at(e, ask);
    LLVMValueRef top = LLVMBuildExtractValue(e->b, cpuid(e, 0), 0, "");
    if (n.leaf7_ebx || n.leaf7_ecx) need(e, LLVMBuildICmp(e->b, LLVMIntUGE, top, llvm_int(e->i32, 7), ""), lacks);
    need(e, has_bits(e, cpuid(e, 1), 2, n.leaf1_ecx), lacks);
    if (n.leaf7_ebx || n.leaf7_ecx) {
        LLVMValueRef leaf7 = cpuid(e, 7);
        need(e, LLVMBuildAnd(e->b, has_bits(e, leaf7, 1, n.leaf7_ebx), has_bits(e, leaf7, 2, n.leaf7_ecx), ""), lacks);
    }
    LLVMValueRef zero = llvm_int(e->i32, 0);
    if (n.xcr0) need(e, has_bits(e, assembly(e, "xgetbv", "={ax},={dx},{cx}", 2, 1, &zero), 0, n.xcr0), lacks);
    remember(e, known, 1, false);
    return fn;
}

// ---- levels ----
static LLVMValueRef stored(Emit *e, LLVMValueRef v) {
    LLVMValueRef at = LLVMBuildAlloca(e->b, e->i32, "");
    LLVMBuildStore(e->b, v, at);
    return at;
}

static LLVMValueRef bits_of(Emit *e, LLVMValueRef slot, uint32_t mask) {
    LLVMValueRef want = LLVMConstInt(e->i32, mask, 0), have = LLVMBuildAnd(e->b, LLVMBuildLoad2(e->b, e->i32, slot, ""), want, "");
    return LLVMBuildICmp(e->b, LLVMIntEQ, have, want, "");
}

// What cpuid and xgetbv say: leaf 1 ecx, leaf 7 ebx and ecx, the registers that the system saves.
static void read_cpu(Emit *e, LLVMValueRef slots[4]) {
    LLVMValueRef zero = llvm_int(e->i32, 0), top = LLVMBuildExtractValue(e->b, cpuid(e, 0), 0, "");
    LLVMBasicBlockRef leaf7 = llvm_block(e, "leaf7"), leaf1 = llvm_block(e, "leaf1"), save = llvm_block(e, "save"),
                      done = llvm_block(e, "done");
    for (int i = 0; i < 4; i++) slots[i] = stored(e, zero);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntUGE, top, llvm_int(e->i32, 7), ""), leaf7, leaf1);
    llvm_at(e, leaf7);
    LLVMValueRef regs = cpuid(e, 7);
    LLVMBuildStore(e->b, LLVMBuildExtractValue(e->b, regs, 1, ""), slots[1]);
    LLVMBuildStore(e->b, LLVMBuildExtractValue(e->b, regs, 2, ""), slots[2]);
    LLVMBuildBr(e->b, leaf1);
    llvm_at(e, leaf1);
    LLVMBuildStore(e->b, LLVMBuildExtractValue(e->b, cpuid(e, 1), 2, ""), slots[0]);
    LLVMBuildCondBr(e->b, bits_of(e, slots[0], 1u << 27), save, done); // OSXSAVE
    llvm_at(e, save);
    LLVMBuildStore(e->b, LLVMBuildExtractValue(e->b, assembly(e, "xgetbv", "={ax},={dx},{cx}", 2, 1, &zero), 0, ""), slots[3]);
    LLVMBuildBr(e->b, done);
    llvm_at(e, done);
}

// i32 level(): the highest level that the processor has, from 1; 0: none.
static LLVMValueRef level_function(Emit *e) {
    LLVMValueRef known = LLVMAddGlobal(e->mod, e->i32, arena_printf(e->arena, "%s.known", e->layout->prefix)); // 1 + the level
    LLVMSetInitializer(known, llvm_int(e->i32, 0));
    LLVMSetLinkage(known, LLVMInternalLinkage);
    const char *name = arena_printf(e->arena, "%s.level", e->layout->prefix);
    LLVMValueRef fn = llvm_function(e, name, LLVMFunctionType(e->i32, NULL, 0, 0), FN_BASE), one = llvm_int(e->i32, 1), slots[4];
    e->f = (EmitFn){.fn = fn};
    LLVMBasicBlockRef entry = llvm_block(e, "entry"), again = llvm_block(e, "again"), ask = llvm_block(e, "ask");
    llvm_at(e, entry);
    LLVMValueRef k = LLVMBuildLoad2(e->b, e->i32, known, "");
    LLVMSetOrdering(k, LLVMAtomicOrderingMonotonic);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, k, llvm_int(e->i32, 0), ""), ask, again);
    llvm_at(e, again);
    LLVMBuildRet(e->b, LLVMBuildSub(e->b, k, one, ""));
    llvm_at(e, ask);
    read_cpu(e, slots);
    k = one;
    for (int i = 0; i < e->o->nlevels; i++) {
        CpuNeeds n = codegen_cpu_needs(target_find(e->o->levels[i]->target)->c_target);
        LLVMValueRef has = both(e, bits_of(e, slots[0], n.leaf1_ecx), bits_of(e, slots[1], n.leaf7_ebx));
        has = both(e, both(e, has, bits_of(e, slots[2], n.leaf7_ecx)), bits_of(e, slots[3], n.xcr0));
        k = LLVMBuildSelect(e->b, has, llvm_int(e->i32, i + 2), k, "");
    }
    LLVMSetOrdering(LLVMBuildStore(e->b, k, known), LLVMAtomicOrderingMonotonic);
    LLVMBuildRet(e->b, LLVMBuildSub(e->b, k, one, ""));
    return fn;
}

LLVMValueRef llvm_choose(Emit *e, LLVMValueRef *bodies) {
    LLVMValueRef level = level_function(e), args[4];
    LLVMTypeRef type = LLVMGlobalGetValueType(bodies[0]);
    LLVMValueRef fn = llvm_function(e, arena_printf(e->arena, "%s.body", e->layout->prefix), type, FN_BASE);
    e->f = (EmitFn){.fn = fn};
    llvm_at(e, llvm_block(e, "body"));
    for (unsigned i = 0; i < 4; i++) args[i] = LLVMGetParam(fn, i);
    LLVMBasicBlockRef none = llvm_block(e, "none");
    LLVMValueRef which = LLVMBuildCall2(e->b, LLVMGlobalGetValueType(level), level, NULL, 0, "");
    LLVMValueRef choice = LLVMBuildSwitch(e->b, which, none, (unsigned)e->o->nlevels);
    for (int i = 0; i < e->o->nlevels; i++) {
        LLVMBasicBlockRef run = llvm_block(e, "run");
        LLVMAddCase(choice, llvm_int(e->i32, i + 1), run);
        llvm_at(e, run);
        LLVMBuildRet(e->b, LLVMBuildCall2(e->b, type, bodies[i], args, 4, ""));
    }
    llvm_at(e, none);
    LLVMBuildRet(e->b, llvm_int(e->i32, -CODE_CPU));
    return fn;
}

// ---- entry ----
static void return_unless(Emit *e, LLVMValueRef ok, int code) {
    if (!ok) return;
    LLVMBasicBlockRef bad = llvm_block(e, "fault"), next = llvm_block(e, "ok");
    LLVMBuildCondBr(e->b, ok, next, bad);
    llvm_at(e, bad);
    LLVMBuildRet(e->b, llvm_int(e->i32, -code));
    llvm_at(e, next);
}

static LLVMValueRef there(Emit *e, LLVMValueRef p) {
    return LLVMBuildIsNotNull(e->b, p, "");
}

static LLVMValueRef full_size(Emit *e) {
    return llvm_int(e->size, (int64_t)LLVMABISizeOfType(e->data, llvm_env_type(e)));
}

// env may be shorter or longer than this version's: what it lacks is zero.
static LLVMValueRef own_env(Emit *e, LLVMValueRef env) {
    LLVMValueRef own = LLVMBuildAlloca(e->b, llvm_env_type(e), ""), size = LLVMBuildLoad2(e->b, e->size, env, "");
    LLVMValueRef less = LLVMBuildICmp(e->b, LLVMIntULT, size, full_size(e), "");
    LLVMBuildMemSet(e->b, own, llvm_int(e->i8, 0), full_size(e), 8);
    LLVMBuildMemCpy(e->b, own, 8, env, (unsigned)e->target->pointer_bits / 8, LLVMBuildSelect(e->b, less, size, full_size(e), ""));
    return own;
}

// Where the caller states what the regions hold, that is enough.
static void check_region_bytes(Emit *e, LLVMValueRef env) {
    const Layout *l = e->layout;
    LLVMValueRef stated = llvm_env_field(e, env, ENV_REGION_BYTES);
    LLVMBasicBlockRef given = llvm_block(e, "given"), done = llvm_block(e, "regions");
    LLVMBuildCondBr(e->b, there(e, stated), given, done);
    llvm_at(e, given);
    for (int i = 0; i < l->nregions; i++) {
        LLVMValueRef at = llvm_int(e->idx, i), place = LLVMBuildInBoundsGEP2(e->b, e->size, stated, &at, 1, "");
        LLVMValueRef have = LLVMBuildLoad2(e->b, e->size, place, ""), need = llvm_int(e->size, (int64_t)l->regions[i].bytes);
        return_unless(e, LLVMBuildICmp(e->b, LLVMIntUGE, have, need, ""), CODE_ARENA);
    }
    LLVMBuildBr(e->b, done);
    llvm_at(e, done);
}

static void check_memory(Emit *e, LLVMValueRef env, LLVMValueRef bytes) {
    const Layout *l = e->layout;
    LLVMValueRef base = llvm_env_field(e, env, ENV_ARENA),
                 fits = LLVMBuildICmp(e->b, LLVMIntULE, bytes, llvm_env_field(e, env, ENV_ARENA_BYTES), "");
    fits = both(e, both(e, fits, there(e, base)), llvm_aligned(e, base, LAYOUT_ALIGN));
    return_unless(e, LLVMBuildOr(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, bytes, llvm_int(e->size, 0), ""), fits, ""), CODE_ARENA);
    LLVMValueRef regions = l->nregions ? llvm_env_field(e, env, ENV_REGIONS) : NULL;
    if (regions) {
        return_unless(e, there(e, regions), CODE_ARENA);
        check_region_bytes(e, env);
    }
    for (int i = 0; i < l->nregions; i++) {
        LLVMValueRef r = llvm_pointer_in(e, regions, i);
        return_unless(e, both(e, there(e, r), llvm_aligned(e, r, LAYOUT_ALIGN)), CODE_ARENA);
    }
    LLVMValueRef state = llvm_env_field(e, env, ENV_STATE);
    if (l->nstates) return_unless(e, both(e, there(e, state), llvm_aligned(e, state, LAYOUT_ALIGN)), CODE_POINTER);
    if (l->allocates)
        return_unless(e, both(e, there(e, llvm_env_field(e, env, ENV_ALLOC)), there(e, llvm_env_field(e, env, ENV_DEALLOC))), CODE_MEMORY);
}

static LLVMValueRef run_env(Emit *e, LLVMValueRef arena_fn, LLVMValueRef body) {
    bool cpu = strncmp(e->target->triple, "x86_64", 6) == 0 && e->target->c_target[0];
    LLVMValueRef lacks = cpu ? cpu_function(e) : NULL;
    LLVMValueRef fn = exported(e, "run_env", fn_type(e->i32, 4, e->ptr, e->ptr, e->ptr, e->ptr)), args[4], given = NULL;
    e->f = (EmitFn){.fn = fn};
    llvm_at(e, llvm_block(e, "body"));
    for (int i = 0; i < 4; i++) args[i] = LLVMGetParam(fn, (unsigned)i);
    for (int i = e->layout->ndims ? 0 : 1; i < 4; i++) given = both(e, given, there(e, args[i]));
    return_unless(e, given, CODE_POINTER);
    args[3] = own_env(e, args[3]);
    if (cpu) return_unless(e, LLVMBuildNot(e->b, LLVMBuildCall2(e->b, LLVMGlobalGetValueType(lacks), lacks, NULL, 0, ""), ""), CODE_CPU);
    LLVMValueRef one[2] = {args[0], llvm_int(e->i32, 1)};
    LLVMValueRef bytes = LLVMBuildCall2(e->b, LLVMGlobalGetValueType(arena_fn), arena_fn, one, 2, "");
    return_unless(e, LLVMBuildICmp(e->b, LLVMIntNE, bytes, LLVMConstAllOnes(e->size), ""), CODE_SHAPE);
    check_memory(e, args[3], bytes);
    LLVMBuildRet(e->b, LLVMBuildCall2(e->b, LLVMGlobalGetValueType(body), body, args, 4, ""));
    return fn;
}

// PREFIX_run(in, out, arena): for models whose sizes are all constant; the arena is taken to have its stated size.
static void run_constant(Emit *e, LLVMValueRef run, LLVMValueRef arena_fn) {
    LLVMValueRef fn = exported(e, "run", fn_type(e->i32, 3, e->ptr, e->ptr, e->ptr, NULL));
    e->f = (EmitFn){.fn = fn};
    llvm_at(e, llvm_block(e, "body"));
    LLVMTypeRef type = llvm_env_type(e);
    LLVMValueRef env = LLVMBuildAlloca(e->b, type, ""), none = LLVMConstNull(e->ptr), one[2] = {none, llvm_int(e->i32, 1)};
    LLVMBuildMemSet(e->b, env, llvm_int(e->i8, 0), full_size(e), 8);
    LLVMBuildStore(e->b, full_size(e), env);
    LLVMBuildStore(e->b, LLVMGetParam(fn, 2), LLVMBuildStructGEP2(e->b, type, env, ENV_ARENA, ""));
    LLVMValueRef bytes = LLVMBuildCall2(e->b, LLVMGlobalGetValueType(arena_fn), arena_fn, one, 2, "");
    LLVMBuildStore(e->b, bytes, LLVMBuildStructGEP2(e->b, type, env, ENV_ARENA_BYTES, ""));
    LLVMValueRef args[4] = {none, LLVMGetParam(fn, 0), LLVMGetParam(fn, 1), env};
    LLVMBuildRet(e->b, LLVMBuildCall2(e->b, LLVMGlobalGetValueType(run), run, args, 4, ""));
}

// ---- texts of statuses ----
static LLVMValueRef status_item(Emit *e, int i) {
    return llvm_string(e, status_text(i));
}
static LLVMValueRef node_item(Emit *e, int i) {
    return llvm_string(e, i ? e->p->node_names.data[i - 1] : "");
}

// const char *PREFIX_name(status): item number -status % 256 or -status / 256 of a list of n, otherwise `unknown`.
static void text_function(Emit *e, const char *name, bool node, int n, LLVMValueRef (*item)(Emit *e, int i), const char *unknown) {
    LLVMValueRef fn = exported(e, name, fn_type(e->ptr, 1, e->i32, NULL, NULL, NULL)), list = llvm_list(e, e->ptr, n, item);
    e->f = (EmitFn){.fn = fn};
    llvm_at(e, llvm_block(e, "body"));
    LLVMValueRef v = LLVMBuildNeg(e->b, LLVMGetParam(fn, 0), ""), by = llvm_int(e->i32, 256);
    LLVMValueRef i = node ? LLVMBuildUDiv(e->b, v, by, "") : LLVMBuildURem(e->b, v, by, "");
    LLVMValueRef known = LLVMBuildICmp(e->b, LLVMIntULT, i, llvm_int(e->i32, n), "");
    i = LLVMBuildZExt(e->b, LLVMBuildSelect(e->b, known, i, llvm_int(e->i32, 0), ""), e->i64, "");
    LLVMValueRef text = LLVMBuildLoad2(e->b, e->ptr, LLVMBuildInBoundsGEP2(e->b, e->ptr, list, &i, 1, ""), "");
    LLVMBuildRet(e->b, LLVMBuildSelect(e->b, known, text, llvm_string(e, unknown), ""));
}

void llvm_api(Emit *e, LLVMValueRef body) {
    LLVMValueRef arena = arena_function(e), state = state_function(e), run = run_env(e, arena, body);
    if (e->layout->constant) run_constant(e, run, arena);
    int codes = 1;
    while (status_name(codes)) codes++;
    text_function(e, "strerror", false, codes, status_item, "unknown status");
    text_function(e, "error_node", true, e->p->node_names.n + 1, node_item, "");
    if (e->o->export_info) llvm_info(e, arena, run, state);
}
