// The binary interface: PREFIX_run_env with its entry checks around main, PREFIX_run, PREFIX_arena_bytes, PREFIX_state_init.
//
// The same contract as the C printer's c_api.c: dims, inputs and outputs are arrays of int64_t and pointers (runtime/abi.h); the layout of
// arena, state and regions comes from codegen_layout. Every size is computed with overflow checks once, by PREFIX_arena_bytes.
#include "llvm_emit.h"
#include "../runtime/abi.h"
#include <assert.h>
#include <string.h>

static LLVMTypeRef fn_type(LLVMTypeRef result, int n, LLVMTypeRef a, LLVMTypeRef b, LLVMTypeRef c, LLVMTypeRef d) {
    LLVMTypeRef types[4] = {a, b, c, d};
    return LLVMFunctionType(result, types, (unsigned)n, 0);
}

static LLVMValueRef exported(Emit *e, const char *suffix, LLVMTypeRef type) {
    return llvm_function(e, arena_printf(e->arena, "%s_%s", e->layout->prefix, suffix), type, true);
}

static LLVMValueRef pointer_in(Emit *e, LLVMValueRef array, int i) {
    LLVMValueRef at = llvm_int(e->i32, i);
    return LLVMBuildLoad2(e->b, e->ptr, LLVMBuildInBoundsGEP2(e->b, e->ptr, array, &at, 1, ""), "");
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
    LLVMValueRef a = checked_dim(c, m->a), b = checked_dim(c, m->b), one = llvm_int(e->i64, 1);
    if (m->kind == ATOM_MIN || m->kind == ATOM_MAX) {
        LLVMIntPredicate p = m->kind == ATOM_MIN ? LLVMIntSLT : LLVMIntSGT;
        return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, p, a, b, ""), a, b, "");
    }
    LLVMValueRef positive = LLVMBuildICmp(e->b, LLVMIntSGE, b, one, "");
    c->ok = both(e, c->ok, positive);
    b = LLVMBuildSelect(e->b, positive, b, one, "");
    LLVMValueRef v[2] = {a, b};
    return llvm_scalar(e, m->kind == ATOM_MOD ? X_floormod : X_floordiv, vtype(DT_i64, 1), v);
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

// Reads the dims into wide (as i64) and binds them; the result says whether all lie in their bounds.
static LLVMValueRef load_dims(Emit *e, LLVMValueRef dims, ValueMap *wide) {
    LLVMValueRef ok = NULL;
    for (int i = 0; i < e->layout->ndims; i++) {
        const LayoutDim *m = &e->layout->dims[i];
        LLVMValueRef v = LLVMBuildLoad2(e->b, e->i64, at_offset(e, dims, 8 * i), "");
        ok = both(e, ok, LLVMBuildICmp(e->b, LLVMIntSGE, v, llvm_int(e->i64, m->lo), ""));
        if (m->hi != DIM_INF) ok = both(e, ok, LLVMBuildICmp(e->b, LLVMIntSLE, v, llvm_int(e->i64, m->hi), ""));
        valuemap_put(e->arena, wide, m->sym, v);
        llvm_bind(e, m->sym, LLVMBuildIntCast2(e->b, v, e->idx, 1, ""));
    }
    return ok;
}

static LLVMValueRef arena_function(Emit *e) {
    LLVMValueRef fn = exported(e, "arena_bytes", fn_type(e->size, 2, e->ptr, e->i32, NULL, NULL));
    e->f = (EmitFn){.fn = fn};
    llvm_at(e, llvm_block(e, "body"));
    ValueMap wide = {0};
    Checked c = {e, &wide, load_dims(e, LLVMGetParam(fn, 0), &wide)};
    LLVMValueRef bytes = checked_dim(&c, e->layout->arena_bytes), none = LLVMConstAllOnes(e->size);
    for (int i = 0; i < e->layout->ninputs + e->layout->noutputs; i++) { // sizes of the caller's tensors must be numbers too
        const LayoutSlot *s = i < e->layout->ninputs ? &e->layout->inputs[i] : &e->layout->outputs[i - e->layout->ninputs];
        if (s->bytes) checked_dim(&c, s->bytes);
    }
    LLVMValueRef r = LLVMBuildIntCast2(e->b, bytes, e->size, 0, "");
    LLVMBuildRet(e->b, c.ok ? LLVMBuildSelect(e->b, c.ok, r, none, "") : r);
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

// ---- entry checks ----
static LLVMValueRef aligned(Emit *e, LLVMValueRef p, int64_t bytes) {
    LLVMValueRef low = LLVMBuildAnd(e->b, LLVMBuildPtrToInt(e->b, p, e->size, ""), llvm_int(e->size, bytes - 1), "");
    return LLVMBuildICmp(e->b, LLVMIntEQ, low, llvm_int(e->size, 0), "");
}

static int64_t element_align(const LoopBuffer *b) {
    int n = dtype_bytes(b->var.type.type);
    return n > 8 ? 8 : n;
}

// A caller's pointer must be there and aligned; an empty tensor may be null.
static void check_pointer(Emit *e, LLVMValueRef p, const LayoutSlot *s) {
    LLVMValueRef ok = LLVMBuildIsNotNull(e->b, p, "");
    if (!s->dynamic) {
        LLVMValueRef empty = LLVMBuildICmp(e->b, LLVMIntEQ, llvm_dim(e, s->elements), llvm_int(e->idx, 0), "");
        ok = LLVMBuildOr(e->b, ok, empty, "");
    }
    ok = LLVMBuildAnd(e->b, ok, aligned(e, p, element_align(s->buffer)), "");
    llvm_fail_unless(e, ok, -CODE_POINTER);
}

// env may be shorter or longer than this version's: what it lacks is zero.
static LLVMValueRef own_env(Emit *e, LLVMValueRef env) {
    LLVMTypeRef type = llvm_env_type(e);
    LLVMValueRef own = llvm_alloca(e, type, 8), full = llvm_int(e->size, (int64_t)LLVMABISizeOfType(e->data, type)), size, more, copy;
    llvm_fail_unless(e, LLVMBuildIsNotNull(e->b, env, ""), -CODE_POINTER);
    size = LLVMBuildLoad2(e->b, e->size, env, "");
    more = LLVMBuildICmp(e->b, LLVMIntULT, full, size, "");
    copy = LLVMBuildSelect(e->b, more, full, size, "");
    LLVMBuildMemSet(e->b, own, llvm_int(e->i8, 0), full, 8);
    LLVMBuildMemCpy(e->b, own, 8, env, LLVMABIAlignmentOfType(e->data, e->size), copy);
    return own;
}

static void check_env(Emit *e, LLVMValueRef arena_fn, LLVMValueRef dims) {
    LLVMValueRef args[2] = {dims, llvm_int(e->i32, 1)};
    LLVMValueRef need = LLVMBuildCall2(e->b, LLVMGlobalGetValueType(arena_fn), arena_fn, args, 2, "");
    llvm_fail_unless(e, LLVMBuildICmp(e->b, LLVMIntNE, need, LLVMConstAllOnes(e->size), ""), -CODE_SHAPE);
    LLVMValueRef base = llvm_env_field(e, e->f.env, ENV_ARENA), have = llvm_env_field(e, e->f.env, ENV_ARENA_BYTES);
    LLVMValueRef fits = LLVMBuildICmp(e->b, LLVMIntULE, need, have, "");
    fits = both(e, both(e, fits, LLVMBuildIsNotNull(e->b, base, "")), aligned(e, base, LAYOUT_ALIGN));
    LLVMValueRef none = LLVMBuildICmp(e->b, LLVMIntEQ, need, llvm_int(e->size, 0), "");
    llvm_fail_unless(e, LLVMBuildOr(e->b, none, fits, ""), -CODE_ARENA);
    e->f.arena_base = base;
    if (e->layout->allocates) {
        LLVMValueRef a = llvm_env_field(e, e->f.env, ENV_ALLOC), f = llvm_env_field(e, e->f.env, ENV_DEALLOC);
        llvm_fail_unless(e, both(e, LLVMBuildIsNotNull(e->b, a, ""), LLVMBuildIsNotNull(e->b, f, "")), -CODE_MEMORY);
    }
    LLVMValueRef regions = llvm_env_field(e, e->f.env, ENV_REGIONS);
    if (e->layout->nregions) llvm_fail_unless(e, LLVMBuildIsNotNull(e->b, regions, ""), -CODE_ARENA);
    for (int i = 0; i < e->layout->nregions; i++) {
        LLVMValueRef r = pointer_in(e, regions, i);
        llvm_fail_unless(e, both(e, LLVMBuildIsNotNull(e->b, r, ""), aligned(e, r, LAYOUT_ALIGN)), -CODE_ARENA);
    }
}

static void bind_states(Emit *e) {
    if (!e->layout->nstates) return;
    LLVMValueRef state = llvm_env_field(e, e->f.env, ENV_STATE);
    llvm_fail_unless(e, both(e, LLVMBuildIsNotNull(e->b, state, ""), aligned(e, state, LAYOUT_ALIGN)), -CODE_POINTER);
    for (int i = 0; i < e->layout->nstates; i++)
        llvm_bind(e, &e->layout->states[i].buffer->var, at_offset(e, state, (int64_t)e->layout->states[i].offset));
}

static void bind_output(Emit *e, const LayoutSlot *s, LLVMValueRef p) {
    const Var *v = &s->buffer->var;
    if (s->tie >= 0) { // lives in the state; the caller gets a copy at the end
        llvm_bind(e, v, llvm_buffer(e, &e->layout->states[s->tie].buffer->var));
        llvm_fail_unless(e, aligned(e, p, element_align(s->buffer)), -CODE_POINTER);
        return;
    }
    if (!s->fallback) {
        check_pointer(e, p, s);
        llvm_bind(e, v, p);
        return;
    }
    llvm_fail_unless(e, aligned(e, p, element_align(s->buffer)), -CODE_POINTER);
    LLVMValueRef spare = llvm_byte_at(e, e->f.arena_base, llvm_dim(e, s->fallback));
    llvm_bind(e, v, LLVMBuildSelect(e->b, LLVMBuildIsNull(e->b, p, ""), spare, p, ""));
}

static void bind_interface(Emit *e, LLVMValueRef in, LLVMValueRef out) {
    const Layout *l = e->layout;
    for (int i = 0; i < l->ninputs; i++) {
        LLVMValueRef p = pointer_in(e, in, i);
        check_pointer(e, p, &l->inputs[i]);
        llvm_bind(e, &l->inputs[i].buffer->var, p);
    }
    for (int i = 0; i < l->noutputs; i++) {
        valuemap_clear(&e->f.memo);
        bind_output(e, &l->outputs[i], pointer_in(e, out, i));
    }
}

static void copy_tied(Emit *e, LLVMValueRef out) {
    for (int i = 0; i < e->layout->noutputs; i++) {
        const LayoutSlot *s = &e->layout->outputs[i];
        if (s->tie < 0) continue;
        valuemap_clear(&e->f.memo);
        LLVMBasicBlockRef wanted = llvm_block(e, "copy"), done = llvm_block(e, "copied");
        LLVMValueRef to = pointer_in(e, out, i), from = llvm_buffer(e, &s->buffer->var);
        LLVMBuildCondBr(e->b, LLVMBuildIsNull(e->b, to, ""), done, wanted);
        llvm_at(e, wanted);
        LLVMValueRef bytes = LLVMBuildIntCast2(e->b, llvm_dim(e, s->bytes), e->size, 1, "");
        LLVMBuildMemCpy(e->b, to, (unsigned)element_align(s->buffer), from, LAYOUT_ALIGN, bytes);
        LLVMBuildBr(e->b, done);
        llvm_at(e, done);
    }
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
        LLVMBuildStore(e->b, n, at_offset(e, e->f.outputs, shape + 8 * a));
    }
    LLVMValueRef have = LLVMBuildLoad2(e->b, e->size, at_offset(e, e->f.outputs, at), "");
    LLVMValueRef need = LLVMBuildIntCast2(e->b, llvm_dim(e, s->elements), e->size, 1, "");
    LLVMValueRef fits = LLVMBuildICmp(e->b, LLVMIntULE, need, have, "");
    if (s->fallback)
        fits = LLVMBuildOr(e->b, fits, LLVMBuildIsNull(e->b, pointer_in(e, e->f.outputs, (int)(s - e->layout->outputs)), ""), "");
    llvm_fail_unless(e, fits, -CODE_CAPACITY);
}

void llvm_size(Emit *e, const Stmt *s) {
    const Sym *sym = dim_as_symbol(s->sym);
    LLVMValueRef v = llvm_expr(e, s->value), slot = valuemap_get(&e->f.vals, sym);
    if (!slot) llvm_bind(e, sym, slot = llvm_alloca(e, e->idx, 0));
    LLVMBuildStore(e->b, v, slot);
    valuemap_clear(&e->f.memo);
    LLVMValueRef ok = NULL;
    if (sym->lo) ok = both(e, ok, LLVMBuildICmp(e->b, LLVMIntSGE, v, llvm_dim(e, sym->lo), ""));
    if (sym->hi) ok = both(e, ok, LLVMBuildICmp(e->b, LLVMIntSLE, v, llvm_dim(e, sym->hi), ""));
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

// ---- entry points ----
static LLVMValueRef run_env(Emit *e, LLVMValueRef arena_fn) {
    LLVMValueRef fn = exported(e, "run_env", fn_type(e->i32, 4, e->ptr, e->ptr, e->ptr, e->ptr));
    e->f = (EmitFn){0};
    llvm_fn_begin(e, fn, 0);
    LLVMValueRef dims = LLVMGetParam(fn, 0);
    e->f.outputs = LLVMGetParam(fn, 2);
    llvm_alloc_slots(e);
    e->f.env = own_env(e, LLVMGetParam(fn, 3));
    check_env(e, arena_fn, dims);
    load_dims(e, dims, &(ValueMap){0});
    bind_states(e);
    bind_interface(e, LLVMGetParam(fn, 1), e->f.outputs);
    llvm_emit_block(e, &e->p->main);
    copy_tied(e, e->f.outputs);
    llvm_fn_end(e);
    if (e->layout->allocates) llvm_free_all(e);
    LLVMBuildRet(e->b, LLVMBuildLoad2(e->b, e->i32, e->f.status, ""));
    return fn;
}

// PREFIX_run(in, out, arena): for models whose sizes are all constant; the arena is taken to have its stated size.
static void run_constant(Emit *e, LLVMValueRef run, LLVMValueRef arena_fn) {
    LLVMValueRef fn = exported(e, "run", fn_type(e->i32, 3, e->ptr, e->ptr, e->ptr, NULL));
    e->f = (EmitFn){.fn = fn};
    llvm_at(e, llvm_block(e, "body"));
    LLVMTypeRef type = llvm_env_type(e);
    LLVMValueRef env = LLVMBuildAlloca(e->b, type, ""), full = llvm_int(e->size, (int64_t)LLVMABISizeOfType(e->data, type));
    LLVMValueRef none = LLVMConstNull(e->ptr), bytes_args[2] = {none, llvm_int(e->i32, 1)};
    LLVMBuildMemSet(e->b, env, llvm_int(e->i8, 0), full, 8);
    LLVMBuildStore(e->b, full, env);
    LLVMBuildStore(e->b, LLVMGetParam(fn, 2), LLVMBuildStructGEP2(e->b, type, env, ENV_ARENA, ""));
    LLVMValueRef bytes = LLVMBuildCall2(e->b, LLVMGlobalGetValueType(arena_fn), arena_fn, bytes_args, 2, "");
    LLVMBuildStore(e->b, bytes, LLVMBuildStructGEP2(e->b, type, env, ENV_ARENA_BYTES, ""));
    LLVMValueRef args[4] = {none, LLVMGetParam(fn, 0), LLVMGetParam(fn, 1), env};
    LLVMBuildRet(e->b, LLVMBuildCall2(e->b, LLVMGlobalGetValueType(run), run, args, 4, ""));
}

void llvm_api(Emit *e) {
    LLVMValueRef arena = arena_function(e), state = state_function(e), run = run_env(e, arena);
    if (e->layout->constant) run_constant(e, run, arena);
    if (e->o->export_info) llvm_info(e, arena, run, state);
}
