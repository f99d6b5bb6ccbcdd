// Values whose size the program finds out on its way: what an if's branch gives, what a loop carries from iteration to iteration or stacks.
//
// A carry is a temp for the elements, whose number is a size of its own, and one for the extents. Whoever puts a value in sets that size and
// states the extents; whoever reads it defines the symbols of its shape from them. Without an upper bound the elements' memory comes from the
// allocator, anew for each value.
#include "lower.h"

enum { REASONABLE = 1 << 28 }; // elements; a loop's trip count that means "endless" is no bound

Carry lower_carry(Lower *l, Block *b, const char *stem, const Value *v) {
    DimTable *t = l->g->dims;
    const Dim *zero = dim_int(t, 0), *rank = dim_int(t, v->rank), *most = dim_upper(t, value_size(l->g, v));
    int64_t known;
    if (most && dim_is_int(most, &known) && known > REASONABLE) most = NULL;
    Carry c = {.count = loop_data_dim(l->p, lower_name(l, "count"), zero, most)};
    c.elements = lower_temp(l, stem, v->type, 1, &c.count);
    c.extents = lower_temp(l, "extents", DT_i64, 1, &rank);
    c.elements->unbounded = !most;
    loop_size(l->p, b, c.count, x_dim(l->p->arena, zero));
    return c;
}

static void store_extents(Lower *l, Block *b, const Carry *c, const Value *v) {
    if (v->rank == 0) return;
    KernelBuild kb = kernel_begin(l, NULL, "extents");
    LoopBuffer *out = kernel_param(&kb, c->extents, false, true);
    Arena *a = l->p->arena;
    for (int i = 0; i < v->rank; i++) loop_store(l->p, &kb.k->body, out, dim_int(l->g->dims, i), x_cast(a, DT_i64, x_dim(a, v->shape[i])));
    kernel_end(&kb, b);
}

static Stmt *memory(Lower *l, Block *b, StKind kind, LoopBuffer *of) {
    Stmt *s = loop_stmt(l->p, b, kind);
    s->args = ARENA_ARRAY(l->p->arena, LoopBuffer *, 1);
    s->args[0] = of;
    s->nargs = 1;
    return s;
}

void lower_carry_put(Lower *l, Block *b, const Carry *c, const Value *v, LoopBuffer *staged) {
    DimTable *t = l->g->dims;
    store_extents(l, b, c, v);
    loop_size(l->p, b, c->count, x_dim(l->p->arena, value_size(l->g, v)));
    if (c->elements->unbounded) memory(l, b, ST_ALLOC, c->elements);
    if (staged)
        lower_buffer_copy(l, b, staged, c->elements, value_size(l->g, v), dim_int(t, 0));
    else
        lower_copy_at(l, b, v, c->elements, dim_int(t, 0));
}

void lower_carry_sizes(Lower *l, Block *b, const Carry *c, const Value *v) {
    Arena *a = l->p->arena;
    for (int i = 0; i < v->rank; i++) {
        const Sym *s = dim_as_symbol(v->shape[i]);
        if (!s || s->kind != SYM_DATA || lower_size_defined(l, v->shape[i])) continue;
        lower_define_size(l, b, v->shape[i], x_cast(a, DT_idx, x_load(a, &c->extents->var, dim_int(l->g->dims, i))));
    }
}

void lower_carry_out(Lower *l, Block *b, const Carry *c, const Value *v) {
    lower_carry_sizes(l, b, c, v);
    lower_buffer_copy(l, b, c->elements, lower_buffer(l, v), value_size(l->g, v), dim_int(l->g->dims, 0));
    if (c->elements->unbounded) memory(l, b, ST_FREE, c->elements);
}

// ---- stacks: one value an iteration ----
void lower_stack_begin(Lower *l, Block *b, const Carry *c, const Value *v) {
    Arena *a = l->p->arena;
    if (!c->elements->unbounded) loop_size(l->p, b, c->count, x_dim(a, dim_upper(l->g->dims, value_size(l->g, v))));
    KernelBuild kb = kernel_begin(l, NULL, "extents");
    LoopBuffer *out = kernel_param(&kb, c->extents, false, true);
    for (int i = 0; i < v->rank; i++) loop_store(l->p, &kb.k->body, out, dim_int(l->g->dims, i), x_int(a, DT_i64, 0));
    kernel_end(&kb, b);
}

// Room for `need` elements, `used` of them in use: twice as much as needed when there is too little.
static void grow(Lower *l, Block *b, const Carry *c, const Dim *used, const Dim *need) {
    Arena *a = l->p->arena;
    DimTable *t = l->g->dims;
    const Dim *kept = loop_data_dim(l->p, lower_name(l, "kept"), dim_int(t, 0), NULL);
    LoopBuffer *spare = lower_temp(l, "spare", c->elements->var.type.type, 1, &kept);
    spare->unbounded = true;
    Stmt *s = loop_if(l->p, b, x_op2(a, X_lt, x_dim(a, c->count), x_dim(a, need)));
    loop_size(l->p, &s->body, kept, x_dim(a, used));
    memory(l, &s->body, ST_ALLOC, spare);
    lower_buffer_copy(l, &s->body, c->elements, spare, used, dim_int(t, 0));
    loop_size(l->p, &s->body, c->count, x_dim(a, dim_muli(t, need, 2)));
    memory(l, &s->body, ST_ALLOC, c->elements);
    lower_buffer_copy(l, &s->body, spare, c->elements, used, dim_int(t, 0));
    memory(l, &s->body, ST_FREE, spare);
}

// All values of a stack have the extents of the first.
static void store_row_extents(Lower *l, Block *b, const Carry *c, const Value *v, const Value *row, const Dim *iteration, int node) {
    Arena *a = l->p->arena;
    DimTable *t = l->g->dims;
    KernelBuild kb = kernel_begin(l, NULL, "extents");
    LoopBuffer *out = kernel_param(&kb, c->extents, true, true);
    const Expr *first = x_op2(a, X_eq, x_dim(a, iteration), x_dim(a, dim_int(t, 0)));
    for (int i = 0; i < row->rank; i++) {
        const Dim *at = dim_int(t, i + 1);
        const Expr *extent = x_cast(a, DT_i64, x_dim(a, row->shape[i]));
        if (v->shape[i + 1] == row->shape[i]) continue;
        loop_check(l->p, &kb.k->body, x_op2(a, X_or, first, x_op2(a, X_eq, x_load(a, &out->var, at), extent)), CODE_SHAPE, node);
        loop_store(l->p, &kb.k->body, out, at, extent);
    }
    loop_store(l->p, &kb.k->body, out, dim_int(t, 0), x_cast(a, DT_i64, x_dim(a, dim_addi(t, iteration, 1))));
    kernel_end(&kb, b);
}

void lower_stack_push(Lower *l, Block *b, const Carry *c, const Node *n, const Value *v, const Value *row, const Dim *iteration) {
    DimTable *t = l->g->dims;
    const Dim *size = value_size(l->g, row), *used = dim_mul(t, iteration, size);
    store_row_extents(l, b, c, v, row, iteration, n->onnx_id);
    if (c->elements->unbounded) grow(l, b, c, used, dim_add(t, used, size));
    lower_copy_at(l, b, row, c->elements, used);
}
