// Loads and stores of scalars and lanes: contiguous, strided, gathered, scattered, masked, and bytes read as another type.
//
// Addresses are elements of the buffer's own type. Only unmasked accesses are stated to be in bounds: a masked one may point outside with
// its lanes off, so its address is plain arithmetic. Strides of a few elements become one load of the covering range and a shuffle.
#include "llvm_emit.h"
#include <assert.h>

enum { COVER_STRIDE = 4 };

typedef struct {
    LLVMValueRef base; // of element 0
    LLVMTypeRef elem;  // type of the buffer's elements in memory
    unsigned align;    // of the access
    bool checked;      // every lane is in bounds
} Place;

static unsigned natural_align(DType t) {
    int n = dtype_bytes(t);
    return n > 8 ? 8 : (unsigned)n;
}

static Place place_of(Emit *e, const Var *buf, const Dim *index, DType as, bool masked) {
    Place p = {.elem = llvm_memory_type(e, buf->type.type), .checked = !masked};
    p.align = as == buf->type.type ? natural_align(as) : 1;
    LLVMValueRef i = llvm_dim(e, index), base = llvm_buffer(e, buf);
    p.base = p.checked ? LLVMBuildInBoundsGEP2(e->b, p.elem, base, &i, 1, "") : LLVMBuildGEP2(e->b, p.elem, base, &i, 1, "");
    return p;
}

// Bytes to the value held in registers and back; only bool differs.
static LLVMValueRef from_memory(Emit *e, VType t, LLVMValueRef v) {
    if (t.type != DT_bool) return v;
    return LLVMBuildICmp(e->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
}
static LLVMValueRef to_memory(Emit *e, VType t, LLVMValueRef v) {
    return t.type == DT_bool ? LLVMBuildZExt(e->b, v, llvm_memory_vector(e, t), "") : v;
}

static LLVMValueRef plain_load(Emit *e, VType t, const Place *p) {
    LLVMValueRef v = LLVMBuildLoad2(e->b, llvm_memory_vector(e, t), p->base, "");
    LLVMSetAlignment(v, p->align);
    return v;
}

// The load happens only where the mask is on: reading elsewhere might fault.
static LLVMValueRef scalar_masked_load(Emit *e, VType t, const Place *p, LLVMValueRef mask) {
    LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b), on = llvm_block(e, "load"), done = llvm_block(e, "loaded");
    LLVMBuildCondBr(e->b, mask, on, done);
    llvm_at(e, on);
    LLVMValueRef v[2] = {plain_load(e, t, p), NULL};
    v[1] = LLVMConstNull(LLVMTypeOf(v[0]));
    LLVMBuildBr(e->b, done);
    llvm_at(e, done);
    LLVMValueRef phi = LLVMBuildPhi(e->b, LLVMTypeOf(v[0]), "");
    LLVMAddIncoming(phi, v, (LLVMBasicBlockRef[]){on, from}, 2);
    return phi;
}

static LLVMValueRef masked_load(Emit *e, VType t, const Place *p, LLVMValueRef mask) {
    LLVMTypeRef type = llvm_memory_vector(e, t), types[2] = {type, e->ptr};
    LLVMValueRef args[4] = {p->base, llvm_int(e->i32, p->align), mask, LLVMConstNull(type)};
    return llvm_intrinsic(e, "llvm.masked.load", 2, types, 4, args);
}

static LLVMValueRef all_on(Emit *e, int lanes) {
    return llvm_splat(e, llvm_int(e->i1, 1), lanes);
}

// Addresses of lanes at the given element offsets from the place.
static LLVMValueRef lane_addresses(Emit *e, const Place *p, LLVMValueRef offsets) {
    return p->checked ? LLVMBuildInBoundsGEP2(e->b, p->elem, p->base, &offsets, 1, "")
                      : LLVMBuildGEP2(e->b, p->elem, p->base, &offsets, 1, "");
}

static LLVMTypeRef pointers(Emit *e, int lanes) {
    return LLVMVectorType(e->ptr, (unsigned)lanes);
}

static LLVMValueRef gather(Emit *e, VType t, const Place *p, LLVMValueRef offsets, LLVMValueRef mask) {
    LLVMTypeRef type = llvm_memory_vector(e, t), types[2] = {type, pointers(e, t.lanes)};
    LLVMValueRef on = mask ? mask : all_on(e, t.lanes);
    LLVMValueRef args[4] = {lane_addresses(e, p, offsets), llvm_int(e->i32, p->align), on, LLVMConstNull(type)};
    return llvm_intrinsic(e, "llvm.masked.gather", 2, types, 4, args);
}

// stride, 2*stride …: offsets of the lanes.
static LLVMValueRef stride_offsets(Emit *e, int lanes, int64_t stride) {
    LLVMValueRef v[64];
    for (int i = 0; i < lanes; i++) v[i] = llvm_int(e->idx, i * stride);
    return LLVMConstVector(v, (unsigned)lanes);
}

// Every lane of a small stride out of one load that ends at the last lane.
static LLVMValueRef covering_load(Emit *e, VType t, const Place *p, int64_t stride) {
    int64_t step = stride < 0 ? -stride : stride, span = (t.lanes - 1) * step + 1;
    Place cover = *p;
    LLVMValueRef first = llvm_int(e->idx, stride < 0 ? -(span - 1) : 0);
    cover.base = LLVMBuildInBoundsGEP2(e->b, p->elem, p->base, &first, 1, "");
    LLVMTypeRef type = LLVMVectorType(llvm_memory_type(e, t.type), (unsigned)span);
    LLVMValueRef wide = LLVMBuildLoad2(e->b, type, cover.base, "");
    LLVMSetAlignment(wide, p->align);
    LLVMValueRef perm[64];
    for (int i = 0; i < t.lanes; i++) perm[i] = llvm_int(e->i32, stride < 0 ? span - 1 - i * step : i * step);
    return LLVMBuildShuffleVector(e->b, wide, LLVMGetPoison(type), LLVMConstVector(perm, (unsigned)t.lanes), "");
}

// The place of a lane at a constant distance.
static Place lane_place(Emit *e, const Place *p, int64_t distance) {
    Place lane = *p;
    LLVMValueRef offset = llvm_int(e->idx, distance);
    lane.base = lane_addresses(e, p, offset);
    return lane;
}

// Lane by lane: constant distances are part of the instructions, which a gather of LLVM first puts into a vector.
static LLVMValueRef lanes_load(Emit *e, VType t, const Place *p, int64_t stride) {
    LLVMValueRef v = LLVMGetPoison(llvm_memory_vector(e, t));
    for (int i = 0; i < t.lanes; i++) {
        Place lane = lane_place(e, p, i * stride);
        v = LLVMBuildInsertElement(e->b, v, plain_load(e, vtype(t.type, 1), &lane), llvm_int(e->i32, i), "");
    }
    return v;
}

static LLVMValueRef strided_load(Emit *e, VType t, const Place *p, int64_t stride, LLVMValueRef mask) {
    if (mask) return gather(e, t, p, stride_offsets(e, t.lanes, stride), mask);
    if (stride == 0) return llvm_splat(e, plain_load(e, vtype(t.type, 1), p), t.lanes);
    if (stride >= -COVER_STRIDE && stride <= COVER_STRIDE) return covering_load(e, t, p, stride);
    return lanes_load(e, t, p, stride);
}

LLVMValueRef llvm_load(Emit *e, const Expr *x, LLVMValueRef offsets, LLVMValueRef mask) {
    VType t = x->type;
    Place p = place_of(e, x->var, x->dim, t.type, mask != NULL);
    LLVMValueRef v;
    if (t.lanes == 1) {
        if (offsets) p.base = lane_addresses(e, &p, offsets);
        v = mask ? scalar_masked_load(e, t, &p, mask) : plain_load(e, t, &p);
    } else if (offsets)
        v = gather(e, t, &p, offsets, mask);
    else if (x->k != 1)
        v = strided_load(e, t, &p, x->k, mask);
    else
        v = mask ? masked_load(e, t, &p, mask) : plain_load(e, t, &p);
    return from_memory(e, t, v);
}

// ---- stores ----
static void plain_store(Emit *e, const Place *p, LLVMValueRef v) {
    LLVMValueRef s = LLVMBuildStore(e->b, v, p->base);
    LLVMSetAlignment(s, p->align);
}

static void scalar_masked_store(Emit *e, const Place *p, LLVMValueRef v, LLVMValueRef mask) {
    LLVMBasicBlockRef on = llvm_block(e, "store"), done = llvm_block(e, "stored");
    LLVMBuildCondBr(e->b, mask, on, done);
    llvm_at(e, on);
    plain_store(e, p, v);
    LLVMBuildBr(e->b, done);
    llvm_at(e, done);
}

static void masked_store(Emit *e, const Place *p, LLVMValueRef v, LLVMValueRef mask) {
    LLVMTypeRef types[2] = {LLVMTypeOf(v), e->ptr};
    LLVMValueRef args[4] = {v, p->base, llvm_int(e->i32, p->align), mask};
    llvm_intrinsic(e, "llvm.masked.store", 2, types, 4, args);
}

// LLVM's scatter writes lanes in order, so the last of several to one address stays.
static void scatter(Emit *e, VType t, const Place *p, LLVMValueRef v, LLVMValueRef offsets, LLVMValueRef mask) {
    LLVMTypeRef types[2] = {LLVMTypeOf(v), pointers(e, t.lanes)};
    LLVMValueRef args[4] = {v, lane_addresses(e, p, offsets), llvm_int(e->i32, p->align), mask ? mask : all_on(e, t.lanes)};
    llvm_intrinsic(e, "llvm.masked.scatter", 2, types, 4, args);
}

static void lanes_store(Emit *e, VType t, const Place *p, LLVMValueRef v, int64_t stride) {
    for (int i = 0; i < t.lanes; i++) {
        Place lane = lane_place(e, p, i * stride);
        plain_store(e, &lane, LLVMBuildExtractElement(e->b, v, llvm_int(e->i32, i), ""));
    }
}

void llvm_store(Emit *e, const Stmt *s) {
    VType t = s->value->type;
    LLVMValueRef v = llvm_expr(e, s->value);
    LLVMValueRef mask = s->mask ? llvm_expr(e, s->mask) : NULL, offsets = s->offsets ? llvm_expr(e, s->offsets) : NULL;
    Place p = place_of(e, s->var, s->dim, t.type, mask != NULL);
    v = to_memory(e, t, v);
    if (t.lanes == 1) {
        if (offsets) p.base = lane_addresses(e, &p, offsets);
        if (mask)
            scalar_masked_store(e, &p, v, mask);
        else
            plain_store(e, &p, v);
    } else if (offsets)
        scatter(e, t, &p, v, offsets, mask);
    else if (s->stride != 1 && mask)
        scatter(e, t, &p, v, stride_offsets(e, t.lanes, s->stride), mask);
    else if (s->stride != 1)
        lanes_store(e, t, &p, v, s->stride);
    else if (mask)
        masked_store(e, &p, v, mask);
    else
        plain_store(e, &p, v);
}
