// Loads and stores of more than one lane: one unaligned access where lanes are contiguous, else a function that states every lane, or an
// instruction that touches only the lanes that are on.
#include "c_print.h"

#include <string.h>

static VType mask_type(VType t) {
    return vtype(DT_bool, t.lanes);
}

const char *c_read_function(C *c, DType t) {
    const char *name = c_fmt(c, "%s_read_%s", c->prefix, dtype_name(t)), *type = t == DT_bool ? "uint8_t" : c_type(c, vtype(t, 1));
    if (c_need(c, name))
        c_function_text(c, name, type, "const void *p", c_fmt(c, "    %s r;\n    memcpy(&r, p, sizeof r);\n    return r;\n", type));
    return name;
}

// Which lanes a load or store touches, and its function's name.
typedef struct {
    VType type;
    DType memory;
    int64_t stride;
    VType offsets; // added to the places; lanes 0: none
    bool masked;
} Access;

static const char *access_name(C *c, const char *verb, const Access *m) {
    const char *name = c_fmt(c, "%s_%s_%s", c->prefix, verb, c_kind(c, m->type));
    if (m->memory != m->type.type) name = c_fmt(c, "%s_at_%s", name, dtype_name(m->memory));
    if (m->stride != (m->offsets.lanes == 0))
        name = c_fmt(c, m->stride < 0 ? "%s_back%lld" : "%s_by%lld", name, (long long)(m->stride < 0 ? -m->stride : m->stride));
    if (m->offsets.lanes) name = c_fmt(c, "%s_on_%s", name, c_kind(c, m->offsets));
    return m->masked ? c_fmt(c, "%s_if", name) : name;
}

static const char *access_params(C *c, const Access *m, bool store) {
    const char *text = store ? c_fmt(c, "void *p, %s a", c_type(c, m->type)) : "const void *p";
    if (m->memory == m->type.type)
        text =
            store ? c_fmt(c, "%s *p, %s a", c_memory(c, m->memory), c_type(c, m->type)) : c_fmt(c, "const %s *p", c_memory(c, m->memory));
    if (m->offsets.lanes) text = c_fmt(c, "%s, %s at", text, c_type(c, m->offsets));
    return m->masked ? c_fmt(c, "%s, %s on", text, c_type(c, mask_type(m->type))) : text;
}

static const char *lane_place(C *c, const Access *m, int l) {
    const char *at = m->offsets.lanes ? c_lane(c, m->offsets, "at", l) : "";
    if (m->offsets.lanes && m->stride == 0) return at;
    return c_fmt(c, "%lld%s%s", (long long)(l * m->stride), at[0] ? " + " : "", at);
}

// Instructions that touch only the lanes that are on.
static const struct {
    const char *kind, *feature, *load, *store;
} masked_rows[] = {
    {"f32x4", "avx2", "_mm_maskload_ps((const float *)p, (__m128i)on)", "_mm_maskstore_ps((float *)p, (__m128i)on, a)"},
    {"f32x8", "avx2", "_mm256_maskload_ps((const float *)p, (__m256i)on)", "_mm256_maskstore_ps((float *)p, (__m256i)on, a)"},
    {"f64x4", "avx2", "_mm256_maskload_pd((const double *)p, _mm256_cvtepi32_epi64((__m128i)on))",
        "_mm256_maskstore_pd((double *)p, _mm256_cvtepi32_epi64((__m128i)on), a)"},
    {"f32x16", "avx512dq", "_mm512_maskz_loadu_ps(_mm512_movepi32_mask((__m512i)on), p)",
        "_mm512_mask_storeu_ps(p, _mm512_movepi32_mask((__m512i)on), a)"},
};

static const char *masked_instruction(C *c, const Access *m, bool store) {
    if (!c->x86 || !m->masked || m->stride != 1 || m->offsets.lanes || m->memory != m->type.type) return NULL;
    for (size_t i = 0; i < sizeof masked_rows / sizeof *masked_rows; i++) {
        if (strcmp(masked_rows[i].kind, c_kind(c, m->type)) != 0 || !target_has(c->target, masked_rows[i].feature)) continue;
        c->intrinsics = true;
        return store ? masked_rows[i].store : masked_rows[i].load;
    }
    return NULL;
}

static const char *lane_read(C *c, const Access *m, int l) {
    if (m->memory == m->type.type) return c_fmt(c, m->type.type == DT_bool ? "p[%s] != 0" : "p[%s]", lane_place(c, m, l));
    return c_fmt(c, "%s((const unsigned char *)p + %d)", c_read_function(c, m->type.type), l * dtype_bytes(m->type.type));
}

static bool access_is_wide(const C *c, const Access *m) {
    VType mask = mask_type(m->type);
    return c_is_wide(c, m->type) ||
           (c_vector(c, m->type) && ((m->offsets.lanes && c_is_wide(c, m->offsets)) || (m->masked && c_is_wide(c, mask))));
}

// Chunk j of an access: its own Access, where it begins and what is passed behind the pointer.
static Access chunk_access(C *c, const Access *m, bool store, int count, int j, const char **at, const char **more) {
    Access part = *m;
    part.type.lanes /= count;
    part.offsets.lanes /= count;
    int64_t first = m->offsets.lanes && m->stride == 0 ? 0 : j * part.type.lanes * m->stride;
    if (m->memory == m->type.type)
        *at = c_fmt(c, "p + %lld", (long long)first);
    else
        *at = c_fmt(c, "(%sunsigned char *)p + %lld", store ? "" : "const ", (long long)first * dtype_bytes(m->type.type));
    *more = m->offsets.lanes ? c_fmt(c, ", %s", c_chunk(c, m->offsets, "at", count, j)) : "";
    if (m->masked) *more = c_fmt(c, "%s, %s", *more, c_chunk(c, mask_type(m->type), "on", count, j));
    return part;
}

static int access_chunks(const C *c, const Access *m) {
    VType types[] = {m->type, m->masked ? mask_type(m->type) : m->type, m->offsets.lanes ? m->offsets : m->type};
    return c_chunk_count(c, 3, types);
}

static const char *load_text(C *c, const Access *m, const char *at, const char *more);
static const char *store_text(C *c, const Access *m, const char *at, const char *value, const char *more);

static void make_wide(C *c, const char *name, const Access *m, bool store) {
    int count = access_chunks(c, m);
    const char *type = c_type(c, m->type);
    Str body = {0};
    if (!store) str_printf(&body, "    %s r;\n", type);
    for (int j = 0; j < count; j++) {
        const char *at, *more;
        Access part = chunk_access(c, m, store, count, j, &at, &more);
        if (store)
            str_printf(&body, "    %s;\n", store_text(c, &part, at, c_chunk(c, m->type, "a", count, j), more));
        else
            str_add(&body, c_chunk_set(c, m->type, "r", count, j, load_text(c, &part, at, more)));
    }
    if (!store) str_add(&body, "    return r;\n");
    const char *params = access_params(c, m, store);
    c_function_text(c, name, store ? "void" : type, params, body.data);
    str_free(&body);
}

static void make_load(C *c, const char *name, const Access *m) {
    const char *special = masked_instruction(c, m, false), *texts[64], *type = c_type(c, m->type);
    for (int l = 0; l < m->type.lanes && !special; l++) {
        texts[l] = lane_read(c, m, l);
        const char *on = m->masked ? c_lane(c, mask_type(m->type), "on", l) : NULL;
        if (on) texts[l] = c_fmt(c, "%s ? %s : %s", on, texts[l], c_const(c, vtype(m->type.type, 1), scalar_int(m->type.type, 0)).s);
    }
    const char *value = special ? c_fmt(c, "(%s)%s", type, special) : c_literal(c, m->type, texts);
    const char *params = access_params(c, m, false);
    c_function_text(c, name, type, params, c_fmt(c, "    return %s;\n", value));
}

static const char *lane_write(C *c, const Access *m, int l) {
    const char *value = c_lane(c, m->type, "a", l), *on = m->masked ? c_fmt(c, "if (%s) ", c_lane(c, mask_type(m->type), "on", l)) : "";
    if (m->memory == m->type.type) {
        const char *cast = m->type.type == DT_bool ? "(uint8_t)" : "";
        return c_fmt(c, "    %sp[%s] = %s%s;\n", on, lane_place(c, m, l), cast, value);
    }
    const char *type = dtype_info(c_storage(m->type.type))->c;
    return c_fmt(
        c, "    %smemcpy((unsigned char *)p + %d, &(%s){%s}, sizeof(%s));\n", on, l * dtype_bytes(m->type.type), type, value, type);
}

static void make_store(C *c, const char *name, const Access *m) {
    const char *special = masked_instruction(c, m, true);
    Str body = {0};
    if (special) str_printf(&body, "    %s;\n", special);
    for (int l = 0; l < m->type.lanes && !special; l++) str_add(&body, lane_write(c, m, l));
    const char *params = access_params(c, m, true);
    c_function_text(c, name, "void", params, body.data);
    str_free(&body);
}

// One access to contiguous lanes without a mask.
static bool is_plain(const C *c, const Access *m) {
    return c_vector(c, m->type) && m->stride == 1 && !m->offsets.lanes && !m->masked && m->type.type != DT_bool;
}

static const char *more_args(C *c, const Expr *offsets, const Expr *mask) {
    const char *text = offsets ? c_fmt(c, ", %s", c_expr(c, offsets).s) : "";
    return mask ? c_fmt(c, "%s, %s", text, c_expr(c, mask).s) : text;
}

static const char *load_text(C *c, const Access *m, const char *at, const char *more) {
    if (is_plain(c, m)) return c_fmt(c, "*(const %s *)(%s)", c_unaligned(c, m->type), at);
    const char *name = access_name(c, "load", m);
    if (c_need(c, name)) {
        if (access_is_wide(c, m))
            make_wide(c, name, m, false);
        else
            make_load(c, name, m);
    }
    return c_fmt(c, "%s(%s%s)", name, at, more);
}

static const char *store_text(C *c, const Access *m, const char *at, const char *value, const char *more) {
    if (is_plain(c, m)) return c_fmt(c, "*(%s *)(%s) = %s", c_unaligned(c, m->type), at, value);
    const char *name = access_name(c, "store", m);
    if (c_need(c, name)) {
        if (access_is_wide(c, m))
            make_wide(c, name, m, true);
        else
            make_store(c, name, m);
    }
    return c_fmt(c, "%s(%s, %s%s)", name, at, value, more);
}

Txt c_load_lanes(C *c, const Expr *e) {
    Access m = {e->type, e->var->type.type, e->k, e->a[0] ? e->a[0]->type : vtype(DT_none, 0), e->a[1] != NULL};
    if (m.stride == 0 && !e->a[0] && !e->a[1]) {
        Expr scalar = *e;
        scalar.type.lanes = 1;
        return c_splat(c, x_node(c->a, (Expr){.op = X_splat, .type = e->type, .n = 1, .a = {x_node(c->a, scalar)}}));
    }
    return (Txt){load_text(c, &m, c_address(c, e->var, e->dim), more_args(c, e->a[0], e->a[1])), !is_plain(c, &m)};
}

void c_store_lanes(C *c, const Stmt *s) {
    Access m = {s->value->type, s->var->type.type, s->stride, s->offsets ? s->offsets->type : vtype(DT_none, 0), s->mask != NULL};
    if (m.offsets.lanes) m.stride = 0;
    c_line(c, "%s;", store_text(c, &m, c_address(c, s->var, s->dim), c_expr(c, s->value).s, more_args(c, s->offsets, s->mask)));
}
