// PREFIX_info: the table of runtime/abi.h that describes a model to a loader, as constants.
//
// Structs are LLVM's with natural alignment, which is the layout C gives them on the same target. Every field follows abi.h in order.
#include "llvm_emit.h"
#include "../runtime/abi.h"
#include <string.h>

static LLVMValueRef private_constant(Emit *e, LLVMValueRef init, const char *name) {
    LLVMValueRef g = LLVMAddGlobal(e->mod, LLVMTypeOf(init), name);
    LLVMSetInitializer(g, init);
    LLVMSetGlobalConstant(g, 1);
    LLVMSetLinkage(g, LLVMPrivateLinkage);
    return g;
}

LLVMValueRef llvm_string(Emit *e, const char *s) {
    LLVMValueRef g = private_constant(e, LLVMConstStringInContext2(e->ctx, s, strlen(s), 0), "text");
    LLVMSetUnnamedAddress(g, LLVMGlobalUnnamedAddr);
    return g;
}

LLVMValueRef llvm_array(Emit *e, LLVMTypeRef type, const LLVMValueRef *v, int n) {
    if (!n) return LLVMConstNull(e->ptr);
    return private_constant(e, LLVMConstArray2(type, (LLVMValueRef *)(uintptr_t)v, (uint64_t)n), "list");
}

static const char *dim_name(Emit *e, const Dim *d) {
    return dim_text(e->p->dims, d);
}

// ---- tensors ----
static LLVMTypeRef tensor_type(Emit *e) {
    LLVMTypeRef fields[] = {e->ptr, e->ptr, e->i32, e->i32, e->ptr, e->i32, e->i32};
    return LLVMStructTypeInContext(e->ctx, fields, sizeof fields / sizeof *fields, 0);
}

static LLVMValueRef tensor(Emit *e, const LayoutSlot *s, bool output) {
    const LoopBuffer *b = s->buffer;
    LLVMValueRef *shape = ARENA_ARRAY(e->arena, LLVMValueRef, b->rank + 1);
    for (int i = 0; i < b->rank; i++) shape[i] = llvm_string(e, dim_name(e, b->shape[i]));
    LLVMValueRef fields[] = {
        llvm_string(e, s->name),
        llvm_string(e, b->label ? b->label : b->var.name),
        llvm_int(e->i32, dtype_info(b->var.type.type)->onnx),
        llvm_int(e->i32, b->rank),
        llvm_array(e, e->ptr, shape, b->rank),
        llvm_int(e->i32, s->tie),
        llvm_int(e->i32, output && s->dynamic),
    };
    return LLVMConstStructInContext(e->ctx, fields, sizeof fields / sizeof *fields, 0);
}

static LLVMValueRef tensors(Emit *e, const LayoutSlot *slots, int n, bool output) {
    LLVMValueRef *v = ARENA_ARRAY(e->arena, LLVMValueRef, n + 1);
    for (int i = 0; i < n; i++) v[i] = tensor(e, &slots[i], output);
    return llvm_array(e, tensor_type(e), v, n);
}

// ---- lists ----
LLVMValueRef llvm_list(Emit *e, LLVMTypeRef type, int n, LLVMValueRef (*fn)(Emit *e, int i)) {
    LLVMValueRef *v = ARENA_ARRAY(e->arena, LLVMValueRef, n + 1);
    for (int i = 0; i < n; i++) v[i] = fn(e, i);
    return llvm_array(e, type, v, n);
}
static LLVMValueRef dim_label(Emit *e, int i) {
    return llvm_string(e, e->layout->dims[i].name);
}
static LLVMValueRef dim_lo(Emit *e, int i) {
    return llvm_int(e->i64, e->layout->dims[i].lo);
}
static LLVMValueRef dim_hi(Emit *e, int i) {
    return llvm_int(e->i64, e->layout->dims[i].hi);
}
static LLVMValueRef node_name(Emit *e, int i) {
    return llvm_string(e, e->p->node_names.data[i]);
}
static LLVMValueRef region_name(Emit *e, int i) {
    return llvm_string(e, e->layout->regions[i].name);
}
static LLVMValueRef region_bytes(Emit *e, int i) {
    return llvm_int(e->size, (int64_t)e->layout->regions[i].bytes);
}

static LLVMValueRef kernel_name(Emit *e, int i) {
    return llvm_string(e, e->p->kernels.data[i]->name);
}
static LLVMValueRef kernel_nodes(Emit *e, int i) {
    return llvm_string(e, e->p->kernels.data[i]->label ? e->p->kernels.data[i]->label : "");
}

void llvm_info(Emit *e, LLVMValueRef arena_bytes, LLVMValueRef run_env, LLVMValueRef state_init) {
    const Layout *l = e->layout;
    const int nkernels = e->o->hooks ? e->p->kernels.n : 0;
    LLVMValueRef fields[] = {
        llvm_int(e->i32, MLC_ABI),
        llvm_string(e, e->p->name),
        llvm_string(e, MLC_VERSION),
        llvm_int(e->i32, l->ninputs),
        llvm_int(e->i32, l->noutputs),
        llvm_int(e->i32, l->ndims),
        llvm_int(e->i32, l->nstates),
        llvm_int(e->i32, e->p->node_names.n),
        llvm_int(e->i32, l->nregions),
        tensors(e, l->inputs, l->ninputs, false),
        tensors(e, l->outputs, l->noutputs, true),
        llvm_list(e, e->ptr, l->ndims, dim_label),
        llvm_list(e, e->i64, l->ndims, dim_lo),
        llvm_list(e, e->i64, l->ndims, dim_hi),
        llvm_list(e, e->ptr, e->p->node_names.n, node_name),
        llvm_int(e->size, (int64_t)l->state_bytes),
        arena_bytes,
        run_env,
        state_init,
        llvm_list(e, e->ptr, l->nregions, region_name),
        llvm_list(e, e->size, l->nregions, region_bytes),
        llvm_int(e->i32, l->team),
        llvm_int(e->size, 0),
        LLVMConstNull(e->ptr),
        llvm_int(e->i32, nkernels),
        llvm_list(e, e->ptr, nkernels, kernel_name),
        llvm_list(e, e->ptr, nkernels, kernel_nodes),
    };
    LLVMValueRef table = LLVMConstStructInContext(e->ctx, fields, sizeof fields / sizeof *fields, 0);
    LLVMValueRef g = LLVMAddGlobal(e->mod, LLVMTypeOf(table), arena_printf(e->arena, "%s_info", l->prefix));
    LLVMSetInitializer(g, table);
    LLVMSetGlobalConstant(g, 1);
}
