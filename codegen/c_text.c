// The C printer's ground: names in scope, C types of values and of memory, helper functions made when first asked for.
#include "c_print.h"

#include <stdlib.h>
#include <string.h>

// The texts of runtime/*.h, made by CMake.
typedef struct {
    const char *name, *text;
} EmbeddedText;
extern const EmbeddedText codegen_runtime_texts[];

// ---- sets of pointers ----
static size_t slot_of(const PtrSet *s, const void *key) {
    size_t i = (size_t)(((uintptr_t)key >> 4) * 0x9e3779b97f4a7c15ull >> 20) & (size_t)(s->cap - 1);
    while (s->slot[i] && s->slot[i] != key) i = (i + 1) & (size_t)(s->cap - 1);
    return i;
}

static void ptrset_grow(Arena *a, PtrSet *s) {
    PtrSet old = *s;
    s->cap = old.cap ? 2 * old.cap : 32;
    s->slot = ARENA_ARRAY(a, const void *, s->cap);
    s->count = ARENA_ARRAY(a, int, s->cap);
    for (int i = 0; i < old.cap; i++) {
        if (!old.slot[i]) continue;
        size_t k = slot_of(s, old.slot[i]);
        s->slot[k] = old.slot[i];
        s->count[k] = old.count[i];
    }
}

bool ptrset_add(Arena *a, PtrSet *s, const void *key) {
    if (2 * s->n >= s->cap) ptrset_grow(a, s);
    size_t i = slot_of(s, key);
    bool fresh = !s->slot[i];
    s->slot[i] = key;
    s->count[i]++;
    s->n += fresh;
    return fresh;
}

int ptrset_count(const PtrSet *s, const void *key) {
    if (!s->cap) return 0;
    size_t i = slot_of(s, key);
    return s->slot[i] ? s->count[i] : 0;
}

// ---- text ----
const char *c_fmt(C *c, const char *fmt, ...) {
    Str s = {0};
    va_list ap;
    va_start(ap, fmt);
    str_vprintf(&s, fmt, ap);
    va_end(ap);
    char *text = arena_strndup(c->a, s.data ? s.data : "", s.n);
    str_free(&s);
    return text;
}

void c_line(C *c, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    for (int i = 0; i < c->f.depth; i++) str_add(&c->f.out, "    ");
    str_vprintf(&c->f.out, fmt, ap);
    str_add(&c->f.out, "\n");
    va_end(ap);
}

void c_unsupported(C *c, const char *fmt, ...) {
    if (c->failed) return;
    va_list ap;
    va_start(ap, fmt);
    Str s = {0};
    str_vprintf(&s, fmt, ap);
    va_end(ap);
    diag_error(c->d, EXIT_UNSUPPORTED, "%s", s.data);
    str_free(&s);
    c->failed = true;
}

// ---- names ----
const char *c_name(C *c, const void *key) {
    for (int i = c->f.names.n - 1; i >= 0; i--)
        if (c->f.names.data[i].key == key) return c->f.names.data[i].name;
    return NULL;
}

static bool name_taken(const C *c, const char *name) {
    for (int i = c->f.names.n - 1; i >= 0; i--)
        if (strcmp(c->f.names.data[i].name, name) == 0) return true;
    return false;
}

void c_reserve(C *c, const char *name) {
    vec_push(c->a, &c->f.names, ((CName){NULL, name, false}));
}

const char *c_declare(C *c, const void *key, const char *base) {
    const char *stem = codegen_cname(c->a, base), *name = stem;
    for (int k = 2; name_taken(c, name); k++) name = c_fmt(c, "%s_%d", stem, k);
    vec_push(c->a, &c->f.names, ((CName){key, name, false}));
    return name;
}

// ---- functions being printed ----
CFn c_enter(C *c) {
    static const char *const taken[] = {"memcpy", "memset", "NULL", "SIZE_MAX", "INT64_MAX", "INT64_MIN", "INT32_MAX", "INT32_MIN",
        "size_t", "ptrdiff_t", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "uintptr_t", "bad",
        "main"};
    CFn outer = c->f;
    c->f = (CFn){.depth = 1, .leave = "return %s;"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) c_reserve(c, taken[i]);
    return outer;
}

Str c_leave(C *c, CFn outer) {
    Str text = c->f.out;
    c->f = outer;
    return text;
}

// ---- types ----
bool c_need(C *c, const char *name) {
    for (int i = 0; i < c->made.n; i++)
        if (strcmp(c->made.data[i], name) == 0) return false;
    vec_push(c->a, &c->made, arena_strdup(c->a, name));
    return true;
}

DType c_storage(DType t) {
    if (dtype_is_native(t)) return t;
    if (!dtype_is_float(t)) return dtype_is_signed(t) ? DT_i8 : DT_u8;
    return dtype_bytes(t) == 2 ? DT_u16 : DT_u8;
}

const char *c_kind(C *c, VType t) {
    return t.lanes == 1 ? dtype_name(t.type) : c_fmt(c, "%sx%d", dtype_name(t.type), t.lanes);
}

bool c_vector(const C *c, VType t) {
    return c->hosted && t.lanes > 1 && (t.lanes & (t.lanes - 1)) == 0 && !c_is_wide(c, t);
}

// The native type in a vector's lanes: idx is the integer of the pointer's width.
static DType lane_storage(const C *c, DType t) {
    if (t == DT_bool) return DT_i32;
    if (t == DT_idx) return c->target->pointer_bits == 32 ? DT_i32 : DT_i64;
    return c_storage(t);
}

static const char *scalar_type(C *c, DType t) {
    char cls = dtype_info(t)->cls;
    if (cls == 'S' || cls == 'C') c_unsupported(c, "type %s cannot be printed as C yet", dtype_name(t));
    if (t == DT_bool) return "int";
    if (t == DT_idx) return c_fmt(c, "%s_idx", c->prefix);
    return dtype_info(c_storage(t))->c;
}

static const char *vector_type(C *c, VType t) {
    DType e = lane_storage(c, t.type);
    const char *name = c_fmt(c, "%s_%sx%d", c->prefix, dtype_name(e), t.lanes);
    if (!c_need(c, name)) return name;
    str_printf(&c->types, "typedef %s %s __attribute__((vector_size(%d)));\n", dtype_info(e)->c, name, t.lanes * dtype_bytes(e));
    return name;
}

static const char *struct_type(C *c, VType t) {
    const char *name = c_fmt(c, "%s_%s", c->prefix, c_kind(c, t));
    int native = c_is_wide(c, t) ? c_native_lanes(c, t.type) : 1;
    const char *elem = native > 1 ? vector_type(c, vtype(t.type, native)) : t.type == DT_bool ? "uint8_t" : scalar_type(c, t.type);
    if (c_need(c, name)) str_printf(&c->types, "typedef struct {\n    %s v[%d];\n} %s;\n", elem, t.lanes / native, name);
    return name;
}

const char *c_type(C *c, VType t) {
    if (t.lanes == 1) return scalar_type(c, t.type);
    return c_vector(c, t) ? vector_type(c, t) : struct_type(c, t);
}

const char *c_memory(C *c, DType t) {
    const char *name = c_fmt(c, "%s_%s", c->prefix, dtype_name(t));
    if (t == DT_idx) return name;
    const char *type = t == DT_bool ? "uint8_t" : scalar_type(c, t);
    if (c_need(c, name)) str_printf(&c->types, "typedef %s %s %s_ALIAS;\n", type, name, c->upper);
    return name;
}

const char *c_unaligned(C *c, VType t) {
    DType e = t.type == DT_bool ? DT_u8 : lane_storage(c, t.type);
    const char *name = c_fmt(c, "%s_%sx%du", c->prefix, dtype_name(e), t.lanes);
    if (c_need(c, name))
        str_printf(&c->types, "typedef %s %s __attribute__((vector_size(%d), aligned(1), may_alias));\n", dtype_info(e)->c, name,
            t.lanes * dtype_bytes(e));
    return name;
}

static const DType unsigned_of[] = {[1] = DT_u8, [2] = DT_u16, [4] = DT_u32, [8] = DT_u64};
static const DType signed_of[] = {[1] = DT_i8, [2] = DT_i16, [4] = DT_i32, [8] = DT_i64};

const char *c_unsigned(C *c, VType t) {
    if (t.lanes == 1 && t.type == DT_idx) return "size_t";
    if (t.lanes == 1 && t.type == DT_bool) return "unsigned";
    return c_type(c, vtype(unsigned_of[dtype_bytes(t.lanes > 1 ? lane_storage(c, t.type) : c_storage(t.type))], t.lanes));
}

const char *c_signed(C *c, VType t) {
    if (t.lanes == 1 && (t.type == DT_idx || t.type == DT_bool)) return c_type(c, t);
    return c_type(c, vtype(signed_of[dtype_bytes(t.lanes > 1 ? lane_storage(c, t.type) : c_storage(t.type))], t.lanes));
}

const char *c_wide(DType t) {
    if (t == DT_idx) return "size_t";
    return dtype_bytes(t) == 8 ? "uint64_t" : "uint32_t";
}

// ---- helper functions ----
void c_function_text(C *c, const char *name, const char *result, const char *params, const char *body) {
    str_printf(&c->helpers, "%s_INLINE %s %s(%s) {\n%s}\n", c->upper, result, name, params, body);
}

void c_function(C *c, const char *name, VType result, int nargs, const VType *args, const char *body) {
    Str params = {0};
    for (int i = 0; i < nargs; i++) str_printf(&params, "%s%s %c", i ? ", " : "", c_type(c, args[i]), "abc"[i]);
    const char *text = body[0] == '=' ? c_fmt(c, "    return %s;\n", body + 2) : body;
    c_function_text(c, name, c_type(c, result), params.data, text);
    str_free(&params);
}

// ---- functions of runtime/soft.h ----
// A section begins with a line "// @ NAME: NEEDS" and lasts to the next one.
static const char *soft_text(void) {
    for (int i = 0; codegen_runtime_texts[i].name; i++)
        if (strcmp(codegen_runtime_texts[i].name, "soft") == 0) return codegen_runtime_texts[i].text;
    abort();
}

static const char *soft_section(const char *name) {
    size_t n = strlen(name);
    for (const char *s = soft_text(); (s = strstr(s, "\n// @ ")); s++)
        if (strncmp(s + 6, name, n) == 0 && s[6 + n] == ':') return s + 6 + n;
    abort();
}

// Appends the text with mlc_ and `static inline` in the model's own spelling.
static void soft_paste(C *c, const char *s, const char *end) {
    for (; s < end; s++) {
        if (strncmp(s, "mlc_", 4) == 0) {
            str_printf(&c->helpers, "%s_", c->prefix);
            s += 3;
        } else if (strncmp(s, "static inline", 13) == 0) {
            str_printf(&c->helpers, "%s_INLINE", c->upper);
            s += 12;
        } else
            str_addn(&c->helpers, s, 1);
    }
}

const char *c_soft(C *c, const char *name) {
    const char *full = c_fmt(c, "%s_%s", c->prefix, name);
    if (!c_need(c, full)) return full;
    const char *s = soft_section(name), *line = strchr(s, '\n'), *end = strstr(line, "\n// @ ");
    for (s++; s < line;) {
        while (*s == ' ') s++;
        size_t n = strcspn(s, " \n");
        if (n) c_soft(c, arena_strndup(c->a, s, n));
        s += n;
    }
    soft_paste(c, line + 1, end ? end + 1 : strstr(line, "\n#endif") + 1);
    return full;
}
