// Expressions as LLVM values: indices (Dims), leaves, lanes and hardware instructions.
//
// An expression is a DAG: each node is built once within a statement (EmitFn.memo). Everything is plain SSA without control flow, but for
// masked scalar loads; LLVM's own passes find common values across statements. MATH functions are first replaced by their definitions.
#include "llvm_emit.h"
#include "../ir/isa.h"
#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- pointer maps ----
static unsigned slot_of(const ValueMap *m, const void *key) {
    uint64_t h = (uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15ull;
    unsigned i = (unsigned)(h >> 32) & (m->cap - 1);
    while (m->slot[i].gen == m->gen && m->slot[i].key != key) i = (i + 1) & (m->cap - 1);
    return i;
}

static void valuemap_grow(Arena *a, ValueMap *m) {
    ValueMap old = *m;
    m->cap = old.cap ? old.cap * 2 : 64;
    m->slot = ARENA_ARRAY(a, struct ValueSlot, m->cap);
    m->gen = 1;
    for (unsigned i = 0; i < old.cap; i++)
        if (old.slot[i].gen == old.gen) m->slot[slot_of(m, old.slot[i].key)] = (struct ValueSlot){old.slot[i].key, old.slot[i].val, 1};
}

void valuemap_put(Arena *a, ValueMap *m, const void *key, void *val) {
    if (m->used * 2 >= m->cap) valuemap_grow(a, m);
    unsigned i = slot_of(m, key);
    m->used += m->slot[i].gen != m->gen;
    m->slot[i] = (struct ValueSlot){key, val, m->gen};
}

void *valuemap_get(const ValueMap *m, const void *key) {
    if (!m->cap) return NULL;
    unsigned i = slot_of(m, key);
    return m->slot[i].gen == m->gen ? m->slot[i].val : NULL;
}

void valuemap_clear(ValueMap *m) {
    m->gen++;
    m->used = 0;
}

// ---- types and small helpers ----
void llvm_unsupported(Emit *e, const char *what) {
    if (!e->failed) diag_error(e->d, EXIT_UNSUPPORTED, "LLVM: %s", what);
    e->failed = true;
}

LLVMTypeRef llvm_memory_type(Emit *e, DType t) {
    if (t == DT_f32) return e->f32;
    if (t == DT_f64) return e->f64;
    if (t == DT_idx) return e->idx;
    return LLVMIntTypeInContext(e->ctx, 8u * (unsigned)dtype_bytes(t));
}

static LLVMTypeRef lanes_of(LLVMTypeRef elem, int lanes) {
    return lanes == 1 ? elem : LLVMVectorType(elem, (unsigned)lanes);
}

LLVMTypeRef llvm_memory_vector(Emit *e, VType t) {
    return lanes_of(llvm_memory_type(e, t.type), t.lanes);
}

LLVMTypeRef llvm_value_type(Emit *e, VType t) {
    return lanes_of(t.type == DT_bool ? e->i1 : llvm_memory_type(e, t.type), t.lanes);
}

LLVMValueRef llvm_int(LLVMTypeRef type, int64_t v) {
    return LLVMConstInt(type, (unsigned long long)v, 1);
}

LLVMBasicBlockRef llvm_block(Emit *e, const char *name) {
    return LLVMAppendBasicBlockInContext(e->ctx, e->f.fn, name);
}
void llvm_at(Emit *e, LLVMBasicBlockRef block) {
    LLVMPositionBuilderAtEnd(e->b, block);
}

LLVMValueRef llvm_alloca(Emit *e, LLVMTypeRef type, unsigned align) {
    LLVMBasicBlockRef at = LLVMGetInsertBlock(e->b);
    llvm_at(e, e->f.allocas);
    LLVMValueRef v = LLVMBuildAlloca(e->b, type, "");
    if (align) LLVMSetAlignment(v, align);
    llvm_at(e, at);
    return v;
}

LLVMValueRef llvm_intrinsic(Emit *e, const char *name, int ntypes, LLVMTypeRef *types, int nargs, LLVMValueRef *args) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    assert(id);
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->mod, id, types, (size_t)ntypes);
    return LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, args, (unsigned)nargs, "");
}

static LLVMValueRef poison_like(LLVMValueRef v) {
    return LLVMGetPoison(LLVMTypeOf(v));
}

static LLVMValueRef shuffle(Emit *e, LLVMValueRef x, LLVMValueRef y, const int *perm, int lanes) {
    LLVMValueRef mask[256];
    for (int i = 0; i < lanes; i++) mask[i] = llvm_int(e->i32, perm[i]);
    return LLVMBuildShuffleVector(e->b, x, y ? y : poison_like(x), LLVMConstVector(mask, (unsigned)lanes), "");
}

static LLVMValueRef extract(Emit *e, LLVMValueRef v, int lane) {
    return LLVMBuildExtractElement(e->b, v, llvm_int(e->i32, lane), "");
}

LLVMValueRef llvm_splat(Emit *e, LLVMValueRef v, int lanes) {
    if (lanes == 1) return v;
    LLVMValueRef all[64];
    if (LLVMIsConstant(v)) {
        for (int i = 0; i < lanes; i++) all[i] = v;
        return LLVMConstVector(all, (unsigned)lanes);
    }
    int zeros[64] = {0};
    LLVMValueRef one = LLVMGetPoison(LLVMVectorType(LLVMTypeOf(v), (unsigned)lanes));
    return shuffle(e, LLVMBuildInsertElement(e->b, one, v, llvm_int(e->i32, 0), ""), NULL, zeros, lanes);
}

// ---- indices ----
static LLVMValueRef nsw_add(Emit *e, LLVMValueRef x, LLVMValueRef y) {
    return x ? LLVMBuildNSWAdd(e->b, x, y, "") : y;
}
static LLVMValueRef nsw_mul(Emit *e, LLVMValueRef x, LLVMValueRef y) {
    return x ? LLVMBuildNSWMul(e->b, x, y, "") : y;
}

static bool power_of_two(int64_t v) {
    return v > 0 && (v & (v - 1)) == 0;
}

// A divisor that a run with an empty dimension could make 0 is taken as 1: such a quotient is never used, but may be computed.
static LLVMValueRef divisor(Emit *e, const Dim *b) {
    LLVMValueRef v = llvm_dim(e, b);
    int64_t lo, hi;
    dim_interval(b, &lo, &hi);
    if (lo >= 1) return v;
    return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, v, llvm_int(e->idx, 0), ""), v, llvm_int(e->idx, 1), "");
}

static LLVMValueRef floor_divide(Emit *e, const Atom *m) {
    LLVMValueRef a = llvm_dim(e, m->a), b = divisor(e, m->b);
    bool rem = m->kind == ATOM_MOD;
    int64_t lo, hi, c = 0;
    dim_interval(m->a, &lo, &hi);
    if (lo >= 0) return rem ? LLVMBuildURem(e->b, a, b, "") : LLVMBuildUDiv(e->b, a, b, "");
    if (dim_is_int(m->b, &c) && power_of_two(c)) {
        if (rem) return LLVMBuildAnd(e->b, a, llvm_int(e->idx, c - 1), "");
        int shift = 0;
        while (c >> shift != 1) shift++;
        return LLVMBuildAShr(e->b, a, llvm_int(e->idx, shift), "");
    }
    LLVMValueRef v[2] = {a, b};
    return llvm_scalar(e, rem ? X_floormod : X_floordiv, vtype(DT_idx, 1), v);
}

static LLVMValueRef atom_value(Emit *e, const Atom *m) {
    if (m->kind == ATOM_SYMBOL) {
        LLVMValueRef v = valuemap_get(&e->f.vals, m->self), slot = v ? NULL : valuemap_get(&e->f.vals, m->sym);
        if (slot) return LLVMBuildLoad2(e->b, e->idx, slot, ""); // a size defined in main
        if (!v) {
            fprintf(stderr, "mlc: internal error: LLVM: symbol '%s' has no value here\n", m->sym->name);
            abort();
        }
        return v;
    }
    if (m->kind == ATOM_FLOORDIV || m->kind == ATOM_MOD) return floor_divide(e, m);
    LLVMValueRef v[2] = {llvm_dim(e, m->a), llvm_dim(e, m->b)};
    return llvm_scalar(e, m->kind == ATOM_MIN ? X_min : X_max, vtype(DT_idx, 1), v);
}

typedef struct {
    const Emit *e;
    int depth;
} Depth;

static void deepen(void *ctx, const Dim *sym) {
    Depth *d = ctx;
    for (int i = d->e->f.bound.n; i > d->depth; i--)
        if (d->e->f.bound.data[i - 1] == sym) d->depth = i;
}

// How far inside the term's value is known first: 0 outside of all loops.
static int depth_of(const Emit *e, const Dim *d, int term) {
    Depth depth = {e, 0};
    for (int i = 0; i < dim_nfactors(d, term); i++) dim_symbols(dim_factor(d, term, i)->self, deepen, &depth);
    return depth.depth;
}

static LLVMValueRef term_value(Emit *e, const Dim *d, int term) {
    LLVMValueRef product = NULL;
    for (int i = 0; i < dim_nfactors(d, term); i++) product = nsw_mul(e, product, atom_value(e, dim_factor(d, term, i)));
    int64_t k = dim_coefficient(d, term);
    return !product || k != 1 ? nsw_mul(e, product, llvm_int(e->idx, k)) : product;
}

// The terms from the outermost loop's to the innermost one's, so that sums may be computed outside, the constant last.
LLVMValueRef llvm_dim(Emit *e, const Dim *d) {
    int64_t c;
    if (dim_is_int(d, &c)) return llvm_int(e->idx, c);
    LLVMValueRef sum = valuemap_get(&e->f.memo, d), constant = NULL;
    if (sum) return sum;
    for (int level = 0; level != INT_MAX;) {
        LLVMValueRef group = NULL;
        int next = INT_MAX;
        for (int t = 0; t < dim_nterms(d); t++) {
            int depth = depth_of(e, d, t);
            if (depth > level && depth < next) next = depth;
            if (depth != level) continue;
            LLVMValueRef v = term_value(e, d, t);
            if (dim_nfactors(d, t))
                group = nsw_add(e, group, v);
            else
                constant = v;
        }
        if (group) sum = nsw_add(e, sum, group);
        level = next;
    }
    if (constant) sum = nsw_add(e, sum, constant);
    valuemap_put(e->arena, &e->f.memo, d, sum);
    return sum;
}

// ---- leaves ----
static LLVMValueRef constant(Emit *e, const Expr *x) {
    Scalar s = x->k_scalar;
    LLVMTypeRef type = llvm_value_type(e, vtype(s.type, 1));
    LLVMValueRef v;
    if (dtype_is_native(s.type) && dtype_is_float(s.type))
        v = LLVMConstReal(type, s.f);
    else if (dtype_is_float(s.type))
        v = llvm_int(type, (int64_t)float_to_bits(s.type, s.f, false));
    else
        v = llvm_int(type, s.i);
    return llvm_splat(e, v, x->type.lanes);
}

LLVMValueRef llvm_tile_address(Emit *e, const Var *v, const Dim *const *idx) {
    LLVMValueRef at = llvm_int(e->idx, 0);
    for (int i = 0; i < v->ntile; i++)
        at = LLVMBuildNSWAdd(e->b, LLVMBuildNSWMul(e->b, at, llvm_int(e->idx, v->tile[i]), ""), llvm_dim(e, idx[i]), "");
    LLVMValueRef base = valuemap_get(&e->f.vals, v);
    assert(base);
    return LLVMBuildInBoundsGEP2(e->b, llvm_value_type(e, v->type), base, &at, 1, "");
}

static LLVMValueRef variable(Emit *e, const Expr *x) {
    LLVMTypeRef type = llvm_value_type(e, x->type);
    if (x->var->kind == VAR_TILE) return LLVMBuildLoad2(e->b, type, llvm_tile_address(e, x->var, x->idx), "");
    LLVMValueRef v = valuemap_get(&e->f.vals, x->var);
    assert(v);
    return x->var->kind == VAR_MUT ? LLVMBuildLoad2(e->b, type, v, "") : v;
}

// ---- lanes ----
static LLVMValueRef iota(Emit *e, const Expr *x) {
    LLVMTypeRef type = llvm_value_type(e, vtype(x->type.type, 1));
    LLVMValueRef v[64];
    for (int i = 0; i < x->type.lanes; i++) v[i] = dtype_is_float(x->type.type) ? LLVMConstReal(type, i) : llvm_int(type, i);
    return x->type.lanes == 1 ? v[0] : LLVMConstVector(v, (unsigned)x->type.lanes);
}

// The first `lanes` entries as a vector; a scalar is one lane.
static LLVMValueRef as_vector(Emit *e, LLVMValueRef v, int lanes, int want) {
    if (lanes == want) return v;
    if (lanes == 1)
        return LLVMBuildInsertElement(e->b, LLVMGetPoison(LLVMVectorType(LLVMTypeOf(v), (unsigned)want)), v, llvm_int(e->i32, 0), "");
    int perm[64];
    for (int i = 0; i < want; i++) perm[i] = i < lanes ? i : 0;
    return shuffle(e, v, NULL, perm, want);
}

static LLVMValueRef permute(Emit *e, const Expr *x, LLVMValueRef *a) {
    int n0 = x->a[0]->type.lanes, n1 = x->n > 1 && x->a[1] ? x->a[1]->type.lanes : 0, wide = n0 > n1 ? n0 : n1;
    if (wide == 1) wide = 2;
    int perm[64];
    for (int i = 0; i < x->type.lanes; i++) perm[i] = x->perm[i] < n0 ? x->perm[i] : wide + x->perm[i] - n0;
    LLVMValueRef v0 = as_vector(e, a[0], n0, wide), v1 = n1 ? as_vector(e, a[1], n1, wide) : NULL;
    if (x->type.lanes > 1) return shuffle(e, v0, v1, perm, x->type.lanes);
    return perm[0] < wide ? extract(e, v0, perm[0]) : extract(e, v1, perm[0] - wide);
}

// The lanes of v as elements of memory on the stack, for accesses by a number known at run time.
static LLVMValueRef spill(Emit *e, LLVMValueRef v, VType t) {
    LLVMValueRef at = llvm_alloca(e, LLVMArrayType2(llvm_memory_type(e, t.type), (uint64_t)t.lanes), 64);
    LLVMValueRef bytes = t.type == DT_bool ? LLVMBuildZExt(e->b, v, llvm_memory_vector(e, t), "") : v;
    LLVMSetAlignment(LLVMBuildStore(e->b, bytes, at), 64);
    return at;
}

static LLVMValueRef element_at(Emit *e, LLVMValueRef base, VType t, LLVMValueRef i) {
    LLVMTypeRef elem = llvm_memory_type(e, t.type);
    LLVMValueRef v = LLVMBuildLoad2(e->b, elem, LLVMBuildInBoundsGEP2(e->b, elem, base, &i, 1, ""), "");
    return t.type == DT_bool ? LLVMBuildTrunc(e->b, v, e->i1, "") : v;
}

// The index modulo the table's lanes, as i32.
static LLVMValueRef table_index(Emit *e, LLVMValueRef i, VType it, int lanes) {
    if (dtype_info(it.type)->bits < 8) {
        i = llvm_cast(e, it, dtype_is_signed(it.type) ? DT_i8 : DT_u8, i);
        it.type = dtype_is_signed(it.type) ? DT_i8 : DT_u8;
    }
    LLVMTypeRef elem = llvm_value_type(e, vtype(it.type, 1));
    LLVMValueRef v[2] = {i, llvm_splat(e, llvm_int(elem, lanes), it.lanes)};
    if (power_of_two(lanes))
        i = LLVMBuildAnd(e->b, i, llvm_splat(e, llvm_int(elem, lanes - 1), it.lanes), "");
    else
        i = llvm_scalar(e, X_floormod, it, v);
    return llvm_cast(e, it, DT_i32, i);
}

static LLVMValueRef table(Emit *e, const Expr *x, LLVMValueRef *a) {
    VType t = x->a[0]->type, it = x->a[1]->type;
    if (t.lanes == 1) return llvm_splat(e, a[0], x->type.lanes);
    LLVMValueRef base = spill(e, a[0], t), at = table_index(e, a[1], it, t.lanes);
    if (it.lanes == 1) return element_at(e, base, t, at);
    LLVMValueRef r = LLVMGetPoison(llvm_value_type(e, x->type));
    for (int i = 0; i < it.lanes; i++)
        r = LLVMBuildInsertElement(e->b, r, element_at(e, base, t, extract(e, at, i)), llvm_int(e->i32, i), "");
    return r;
}

static LLVMValueRef hreduce(Emit *e, const Expr *x, LLVMValueRef *a) {
    VType t = x->a[0]->type;
    LLVMValueRef v = a[0];
    for (int n = t.lanes; n > 1; n /= 2) {
        LLVMValueRef half[2];
        int perm[2][64];
        for (int i = 0; i < n / 2; i++) perm[0][i] = i, perm[1][i] = n / 2 + i;
        for (int i = 0; i < 2; i++) half[i] = n == 2 ? extract(e, v, i) : shuffle(e, v, NULL, perm[i], n / 2);
        v = llvm_scalar(e, (XOp)x->k, vtype(t.type, n / 2), half);
    }
    return v;
}

static LLVMValueRef mask_lane(Emit *e, LLVMValueRef mask, int lanes, int i) {
    return lanes == 1 ? mask : extract(e, mask, i);
}

// Lane i goes to (compress) or comes from (expand) the number of lanes on before it.
static LLVMValueRef squeeze(Emit *e, const Expr *x, LLVMValueRef *a) {
    VType t = x->type;
    if (t.lanes == 1) return LLVMBuildSelect(e->b, a[1], a[0], LLVMConstNull(LLVMTypeOf(a[0])), "");
    bool expand = x->op == X_expand;
    LLVMTypeRef elem = llvm_memory_type(e, t.type);
    LLVMValueRef zero = LLVMConstNull(llvm_value_type(e, t)), base = spill(e, expand ? a[0] : zero, t);
    LLVMValueRef count = llvm_int(e->i32, 0), r = zero;
    for (int i = 0; i < t.lanes; i++) {
        LLVMValueRef on = mask_lane(e, a[1], t.lanes, i);
        if (expand) {
            LLVMValueRef v =
                LLVMBuildSelect(e->b, on, element_at(e, base, t, count), LLVMConstNull(llvm_value_type(e, vtype(t.type, 1))), "");
            r = LLVMBuildInsertElement(e->b, r, v, llvm_int(e->i32, i), "");
        } else {
            LLVMValueRef at = LLVMBuildInBoundsGEP2(e->b, elem, base, &count, 1, ""), v = extract(e, a[0], i);
            LLVMValueRef kept = LLVMBuildLoad2(e->b, elem, at, "");
            if (t.type == DT_bool) v = LLVMBuildZExt(e->b, v, elem, "");
            LLVMBuildStore(e->b, LLVMBuildSelect(e->b, on, v, kept, ""), at);
        }
        count = LLVMBuildAdd(e->b, count, LLVMBuildZExt(e->b, on, e->i32, ""), "");
    }
    if (expand) return r;
    LLVMValueRef v = LLVMBuildLoad2(e->b, llvm_memory_vector(e, t), base, "");
    LLVMSetAlignment(v, 64);
    return t.type == DT_bool ? LLVMBuildTrunc(e->b, v, llvm_value_type(e, t), "") : v;
}

static LLVMValueRef popcount(Emit *e, const Expr *x, LLVMValueRef *a) {
    VType t = x->a[0]->type;
    LLVMValueRef bits = a[0];
    if (t.type == DT_bool && t.lanes > 1)
        bits = LLVMBuildBitCast(e->b, bits, LLVMIntTypeInContext(e->ctx, (unsigned)t.lanes), "");
    else if (dtype_info(t.type)->bits < 8)
        bits = LLVMBuildTrunc(e->b, bits, LLVMIntTypeInContext(e->ctx, (unsigned)dtype_info(t.type)->bits), "");
    LLVMTypeRef type = LLVMTypeOf(bits);
    return LLVMBuildIntCast2(e->b, llvm_intrinsic(e, "llvm.ctpop", 1, &type, 1, &bits), e->i32, 0, "");
}

static LLVMValueRef dot4(Emit *e, const Expr *x, LLVMValueRef *a) {
    int lanes = x->type.lanes;
    LLVMTypeRef wide = llvm_value_type(e, vtype(DT_i32, 4 * lanes));
    LLVMValueRef f[2];
    for (int i = 0; i < 2; i++) f[i] = LLVMBuildIntCast2(e->b, a[1 + i], wide, dtype_is_signed(x->a[1 + i]->type.type), "");
    LLVMValueRef products = LLVMBuildMul(e->b, f[0], f[1], ""), sum = a[0];
    for (int k = 0; k < 4; k++) {
        int perm[64];
        for (int i = 0; i < lanes; i++) perm[i] = 4 * i + k;
        LLVMValueRef part = lanes == 1 ? extract(e, products, k) : shuffle(e, products, NULL, perm, lanes);
        sum = LLVMBuildAdd(e->b, sum, part, "");
    }
    return sum;
}

static LLVMValueRef widen(Emit *e, const Expr *x, LLVMValueRef *a) {
    VType from = x->a[0]->type;
    int perm[64];
    for (int i = 0; i < x->type.lanes; i++) perm[i] = (int)x->k + i;
    LLVMValueRef part = a[0];
    if (from.lanes > 1) part = x->type.lanes == 1 ? extract(e, a[0], perm[0]) : shuffle(e, a[0], NULL, perm, x->type.lanes);
    return llvm_cast(e, vtype(from.type, x->type.lanes), x->type.type, part);
}

static LLVMValueRef checked_index(Emit *e, const Expr *x, LLVMValueRef *a) {
    LLVMValueRef n = llvm_dim(e, x->dim), zero = llvm_int(e->idx, 0);
    LLVMValueRef bad = LLVMBuildICmp(e->b, LLVMIntUGE, a[0], n, "");
    LLVMValueRef raised = LLVMBuildLoad2(e->b, e->i1, e->f.sticky, "");
    LLVMBuildStore(e->b, LLVMBuildOr(e->b, raised, bad, ""), e->f.sticky);
    LLVMValueRef low[2] = {a[0], LLVMBuildNSWSub(e->b, n, llvm_int(e->idx, 1), "")};
    LLVMValueRef high[2] = {llvm_scalar(e, X_min, vtype(DT_idx, 1), low), zero};
    return llvm_scalar(e, X_max, vtype(DT_idx, 1), high);
}

// ---- hardware instructions ----
// The row's intrinsic on the operands; types of the same width are reinterpreted where LLVM's signature differs from the row's.
static LLVMValueRef hardware(Emit *e, const Expr *x, LLVMValueRef *a) {
    const IsaRow *row = isa_row((int)x->k);
    if (!row->llvm[0]) {
        const Expr *meaning = expr_lower_math(e->arena, isa_meaning(e->arena, (int)x->k, x->a));
        return llvm_expr(e, meaning);
    }
    unsigned id = LLVMLookupIntrinsicID(row->llvm, strlen(row->llvm));
    LLVMTypeRef result = llvm_value_type(e, x->type), types[3], fty;
    LLVMValueRef args[3];
    for (int i = 0; i < x->n; i++) types[i] = LLVMTypeOf(a[i]);
    if (id && !LLVMIntrinsicIsOverloaded(id))
        fty = LLVMIntrinsicGetType(e->ctx, id, NULL, 0);
    else
        fty = LLVMFunctionType(result, types, (unsigned)x->n, 0);
    LLVMValueRef fn = LLVMGetNamedFunction(e->mod, row->llvm);
    if (!fn) fn = LLVMAddFunction(e->mod, row->llvm, fty);
    if (LLVMCountParamTypes(fty) != (unsigned)x->n) {
        llvm_unsupported(e, row->name);
        return LLVMGetPoison(result);
    }
    LLVMGetParamTypes(fty, types);
    for (int i = 0; i < x->n; i++) args[i] = types[i] == LLVMTypeOf(a[i]) ? a[i] : LLVMBuildBitCast(e->b, a[i], types[i], "");
    LLVMValueRef v = LLVMBuildCall2(e->b, fty, fn, args, (unsigned)x->n, "");
    return LLVMTypeOf(v) == result ? v : LLVMBuildBitCast(e->b, v, result, "");
}

// ---- dispatch ----
static LLVMValueRef reinterpret(Emit *e, const Expr *x, LLVMValueRef *a) { // bits
    LLVMTypeRef type = llvm_value_type(e, x->type);
    if (x->a[0]->type.type == DT_bool) return LLVMBuildZExt(e->b, a[0], type, "");
    if (x->type.type == DT_bool) return LLVMBuildTrunc(e->b, a[0], type, "");
    return LLVMTypeOf(a[0]) == type ? a[0] : LLVMBuildBitCast(e->b, a[0], type, "");
}
static LLVMValueRef cast(Emit *e, const Expr *x, LLVMValueRef *a) {
    return llvm_cast(e, x->a[0]->type, x->type.type, a[0]);
}
static LLVMValueRef load(Emit *e, const Expr *x, LLVMValueRef *a) {
    return llvm_load(e, x, a[0], a[1]);
}
static LLVMValueRef splat(Emit *e, const Expr *x, LLVMValueRef *a) {
    return llvm_splat(e, a[0], x->type.lanes);
}
static LLVMValueRef lane(Emit *e, const Expr *x, LLVMValueRef *a) {
    return x->a[0]->type.lanes == 1 ? a[0] : extract(e, a[0], (int)x->k);
}
static LLVMValueRef insert(Emit *e, const Expr *x, LLVMValueRef *a) {
    return x->type.lanes == 1 ? a[1] : LLVMBuildInsertElement(e->b, a[0], a[1], llvm_int(e->i32, x->k), "");
}
static LLVMValueRef index_value(Emit *e, const Expr *x, LLVMValueRef *a) {
    (void)a;
    return llvm_dim(e, x->dim);
}
static LLVMValueRef leaf_constant(Emit *e, const Expr *x, LLVMValueRef *a) {
    (void)a;
    return constant(e, x);
}
static LLVMValueRef leaf_variable(Emit *e, const Expr *x, LLVMValueRef *a) {
    (void)a;
    return variable(e, x);
}
static LLVMValueRef leaf_iota(Emit *e, const Expr *x, LLVMValueRef *a) {
    (void)a;
    return iota(e, x);
}

static LLVMValueRef environment_seed(Emit *e, const Expr *x, LLVMValueRef *a) {
    (void)x, (void)a;
    return llvm_env_field(e, e->f.env, ENV_SEED);
}

typedef LLVMValueRef (*NodeFn)(Emit *e, const Expr *x, LLVMValueRef *a);
static const NodeFn nodes[X_COUNT] = {
    [X_const] = leaf_constant,
    [X_dim] = index_value,
    [X_seed] = environment_seed,
    [X_var] = leaf_variable,
    [X_load] = load,
    [X_splat] = splat,
    [X_iota] = leaf_iota,
    [X_shuffle] = permute,
    [X_table] = table,
    [X_lane] = lane,
    [X_insert] = insert,
    [X_hreduce] = hreduce,
    [X_compress] = squeeze,
    [X_expand] = squeeze,
    [X_popcount] = popcount,
    [X_dot4] = dot4,
    [X_widen] = widen,
    [X_index] = checked_index,
    [X_isa] = hardware,
    [X_cast] = cast,
    [X_casts] = cast,
    [X_bits] = reinterpret,
};

static LLVMValueRef build(Emit *e, const Expr *x) {
    LLVMValueRef v = valuemap_get(&e->f.memo, x);
    if (v) return v;
    LLVMValueRef a[3] = {NULL, NULL, NULL};
    for (int i = 0; i < 3; i++)
        if (x->a[i]) a[i] = build(e, x->a[i]);
    if (nodes[x->op])
        v = nodes[x->op](e, x, a);
    else
        v = llvm_scalar(e, x->op, x->a[xop_info(x->op)->arity - 1]->type, a);
    valuemap_put(e->arena, &e->f.memo, x, v);
    return v;
}

LLVMValueRef llvm_expr(Emit *e, const Expr *x) {
    const Expr *plain = valuemap_get(&e->lowered, x);
    if (!plain) {
        plain = expr_lower_math(e->arena, x);
        valuemap_put(e->arena, &e->lowered, x, (void *)(uintptr_t)plain);
    }
    return build(e, plain);
}
