// Lanes wider than the target's registers: a struct of registers, worked on in chunks.
//
// A chunk is what fits one register in every type that an operation takes and gives (a cast of f32 to f64 on 256 bits goes four lanes at a
// time). Where a chunk is no whole member of the struct its bytes are copied, which compilers turn into register moves.
#include "c_print.h"

#include <string.h>

static bool power_of_two(int n) {
    return (n & (n - 1)) == 0;
}

int c_native_lanes(const C *c, DType t) {
    int bytes = t == DT_bool ? 4 : t == DT_idx ? c->target->pointer_bits / 8 : dtype_bytes(c_storage(t));
    int n = c->target->vector_bits / 8 / bytes;
    return n < 2 ? 2 : n;
}

bool c_is_wide(const C *c, VType t) {
    return c->hosted && t.lanes > 1 && power_of_two(t.lanes) && t.lanes > c_native_lanes(c, t.type);
}

int c_chunk_count(const C *c, int n, const VType *types) {
    int count = 1;
    for (int i = 0; i < n; i++) {
        int need = types[i].lanes / c_native_lanes(c, types[i].type);
        if (need > count) count = need;
    }
    return count;
}

static VType chunk_type(VType t, int count) {
    return vtype(t.type, t.lanes / count);
}

// Bytes of a lane in a vector.
static int lane_bytes(const C *c, DType t) {
    return c->target->vector_bits / 8 / c_native_lanes(c, t);
}

static bool is_member(const C *c, VType t, int count) {
    return c_is_wide(c, t) && t.lanes / count == c_native_lanes(c, t.type);
}

const char *c_chunk(C *c, VType t, const char *v, int count, int j) {
    VType part = chunk_type(t, count);
    if (part.lanes == t.lanes) return v;
    if (is_member(c, t, count)) return c_fmt(c, "%s.v[%d]", v, j);
    if (part.lanes == 1) return c_lane(c, t, v, j);
    return c_part(c, t, v, part.lanes, j * part.lanes);
}

const char *c_part(C *c, VType t, const char *v, int lanes, int first) {
    VType part = vtype(t.type, lanes);
    const char *name = c_fmt(c, "%s_part_%s", c->prefix, c_kind(c, part)), *type = c_type(c, part);
    if (c_need(c, name))
        c_function_text(c, name, type, "const void *p", c_fmt(c, "    %s r;\n    memcpy(&r, p, sizeof r);\n    return r;\n", type));
    return c_fmt(c, "%s((const unsigned char *)&%s + %d)", name, v, first * lane_bytes(c, t.type));
}

const char *c_chunk_set(C *c, VType t, const char *v, int count, int j, const char *value) {
    VType part = chunk_type(t, count);
    if (part.lanes == t.lanes) return c_fmt(c, "    %s = %s;\n", v, value);
    if (is_member(c, t, count)) return c_fmt(c, "    %s.v[%d] = %s;\n", v, j, value);
    return c_fmt(c, "    {\n        %s part = %s;\n        memcpy((unsigned char *)&%s + %d, &part, sizeof part);\n    }\n",
        c_type(c, part), value, v, j * part.lanes * lane_bytes(c, t.type));
}

// ---- operations lane by lane ----
static bool can_chunk(const C *c, const Expr *e, VType *types) {
    bool wide = c_is_wide(c, e->type);
    if (e->n == 0 || !c->hosted || e->type.lanes < 2 || !power_of_two(e->type.lanes)) return false;
    for (int i = 0; i < e->n; i++) {
        types[i] = e->a[i]->type;
        wide |= c_is_wide(c, types[i]);
        if (types[i].lanes < 2 || !power_of_two(types[i].lanes)) return false;
    }
    types[e->n] = e->type;
    return wide && (e->op == X_dot4 || xop_info(e->op)->cls > XC_LANE);
}

// One chunk's operation as a function of its own.
static const char *chunk_function(C *c, const Expr *e, const VType *types, int count) {
    Expr small = *e;
    VType parts[3];
    const char *name = c_fmt(c, "%s_chunk_%s", c->prefix, xop_info(e->op)->name);
    small.type = chunk_type(e->type, count);
    for (int i = 0; i < e->n; i++) {
        parts[i] = chunk_type(types[i], count);
        small.a[i] = x_node(c->a, (Expr){.op = X_arg, .type = parts[i], .k = i});
        name = c_fmt(c, "%s_%s", name, c_kind(c, parts[i]));
    }
    name = c_fmt(c, "%s_%s", name, dtype_name(e->type.type));
    if (c_need(c, name)) c_function_of(c, name, e->n, parts, x_node(c->a, small));
    return name;
}

bool c_wide_op(C *c, const Expr *e, Txt *text) {
    VType types[4];
    if (!can_chunk(c, e, types)) return false;
    const char *name = c_fmt(c, "%s_%s_%s_%s", c->prefix, xop_info(e->op)->name, c_kind(c, types[e->n > 1]), c_kind(c, e->type));
    if (c_need(c, name)) {
        int count = c_chunk_count(c, e->n + 1, types);
        const char *one = chunk_function(c, e, types, count);
        Str body = {0};
        str_printf(&body, "    %s r;\n", c_type(c, e->type));
        for (int j = 0; j < count; j++) {
            const char *call = c_fmt(c, "%s(%s", one, c_chunk(c, types[0], "a", count, j));
            if (e->n > 1) call = c_fmt(c, "%s, %s", call, c_chunk(c, types[1], "b", count, j));
            if (e->n > 2) call = c_fmt(c, "%s, %s", call, c_chunk(c, types[2], "c", count, j));
            str_add(&body, c_chunk_set(c, e->type, "r", count, j, c_fmt(c, "%s)", call)));
        }
        str_add(&body, "    return r;\n");
        c_function(c, name, e->type, e->n, types, body.data);
        str_free(&body);
    }
    *text = c_call(c, name, e);
    return true;
}
