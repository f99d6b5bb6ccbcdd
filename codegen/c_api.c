// The header and the functions around PREFIX_body: entry checks, arena formula, state, texts of statuses, the loader's table.
//
// Everything here is what runtime/abi.h and design.md section 3 promise; places and sizes come from the Layout, which the LLVM printer
// shares.
#include "c_print.h"
#include "cpu.h"

#include "../runtime/abi.h"
#include <ctype.h>
#include <string.h>

typedef struct {
    const char *name, *text;
} EmbeddedText;
extern const EmbeddedText codegen_runtime_texts[];

static const char *runtime_text(const char *name) {
    for (int i = 0; codegen_runtime_texts[i].name; i++)
        if (strcmp(codegen_runtime_texts[i].name, name) == 0) return codegen_runtime_texts[i].text;
    return "";
}

// Text of a line comment.
static void add_comment_text(Str *s, const char *text) {
    for (const char *p = text; *p; p++) str_addn(s, (unsigned char)*p < ' ' || *p == '\\' ? " " : p, 1);
}

static void add_string(Str *s, const char *text) {
    str_add(s, "\"");
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            str_printf(s, "\\%c", *p);
        else if (*p < ' ' || *p == 127 || *p == '?')
            str_printf(s, "\\%03o", *p);
        else
            str_addn(s, (const char *)p, 1);
    }
    str_add(s, "\"");
}

static void add_shape(C *c, Str *s, const LoopBuffer *b) {
    str_printf(s, "%s[", dtype_name(b->var.type.type));
    for (int i = 0; i < b->rank; i++) str_printf(s, "%s%s", i ? ", " : "", dim_text(c->t, b->shape[i]));
    str_add(s, "]");
}

// ---- the header ----
static void header_comment(C *c, Str *s) {
    str_printf(s, "// %s: interface, made by mlc %s for target %s; do not edit.\n// SPDX-License-Identifier: 0BSD\n", c->p->name,
        MLC_VERSION, c->target->name);
    if (c->o->options && c->o->options[0]) {
        str_add(s, "// Options: ");
        add_comment_text(s, c->o->options);
        str_add(s, "\n");
    }
    str_printf(s, "// Model hash: %016llx\n", (unsigned long long)c->p->hash);
    for (int i = 0; i + 1 < c->p->metadata.n; i += 2) {
        str_add(s, "// Metadata ");
        add_comment_text(s, c->p->metadata.data[i]);
        str_add(s, ": ");
        add_comment_text(s, c->p->metadata.data[i + 1]);
        str_add(s, "\n");
    }
}

static void header_slot(C *c, Str *s, const LayoutSlot *slot, bool output) {
    const LoopBuffer *b = slot->buffer;
    const char *type = dtype_info(b->var.type.type)->c;
    str_printf(s, "    %s%s *%s; // ", output ? "" : "const ", type, slot->name);
    add_shape(c, s, b);
    str_add(s, " \"");
    add_comment_text(s, b->label ? b->label : b->var.name);
    str_add(s, "\"");
    if (slot->tie >= 0 && output)
        str_printf(s, ", the next value of state %s, may be null", c->l->states[slot->tie].name);
    else if (slot->fallback)
        str_add(s, ", may be null");
    str_add(s, "\n");
}

static void header_structs(C *c, Str *s) {
    const Layout *l = c->l;
    str_printf(s, "\ntypedef struct %s_dims {\n", c->prefix);
    for (int i = 0; i < l->ndims; i++) {
        str_printf(s, "    int64_t %s; // %lld..", l->dims[i].cname, (long long)l->dims[i].lo);
        if (l->dims[i].hi != DIM_INF) str_printf(s, "%lld", (long long)l->dims[i].hi);
        str_add(s, "\n");
    }
    if (!l->ndims) str_add(s, "    int64_t unused; // every size is constant\n");
    str_printf(s, "} %s_dims;\n\ntypedef struct %s_inputs {\n", c->prefix, c->prefix);
    for (int i = 0; i < l->ninputs; i++) header_slot(c, s, &l->inputs[i], false);
    if (!l->ninputs) str_add(s, "    const void *unused;\n");
    str_printf(s, "} %s_inputs;\n\ntypedef struct %s_outputs {\n", c->prefix, c->prefix);
    for (int i = 0; i < l->noutputs; i++) header_slot(c, s, &l->outputs[i], true);
    for (int i = 0; i < l->noutputs; i++)
        if (l->outputs[i].dynamic)
            str_printf(s,
                "    struct {\n        size_t capacity; // elements there is room for\n        int64_t shape[%d]; // set by the run\n    } "
                "%s_info;\n",
                l->outputs[i].buffer->rank, l->outputs[i].name);
    if (!l->noutputs) str_add(s, "    void *unused;\n");
    str_printf(s, "} %s_outputs;\n\ntypedef mlc_env %s_env;\n", c->prefix, c->prefix);
}

static void header_sizes(C *c, Str *s) {
    const char *u = c->upper;
    int64_t bytes;
    str_printf(s,
        "\n#if defined(__GNUC__)\n#define %s_ALIGNED __attribute__((aligned(%d)))\n#elif defined(_MSC_VER)\n#define %s_ALIGNED "
        "__declspec(align(%d))\n"
        "#elif defined(__cplusplus)\n#define %s_ALIGNED alignas(%d)\n#else\n#define %s_ALIGNED _Alignas(%d)\n#endif\n",
        u, LAYOUT_ALIGN, u, LAYOUT_ALIGN, u, LAYOUT_ALIGN, u, LAYOUT_ALIGN);
    if (dim_is_int(c->l->arena_bytes, &bytes)) {
        str_printf(s, "#define %s_ARENA_BYTES %lld\n", u, (long long)bytes);
        str_printf(s, "#define %s_ARENA(name) static %s_ALIGNED unsigned char name[%lld]\n", u, u, (long long)(bytes ? bytes : 1));
    }
    str_printf(s, "#define %s_STATE_BYTES %zu\n", u, c->l->state_bytes);
    if (c->l->state_bytes) str_printf(s, "#define %s_STATE(name) static %s_ALIGNED unsigned char name[%zu]\n", u, u, c->l->state_bytes);
    if (c->o->weights == WEIGHTS_BLOB)
        str_printf(s, "#define %s_WEIGHTS_BYTES %zu // of the weights file, for env->weights, aligned to %d\n", u, c->l->weights_bytes,
            LAYOUT_ALIGN);
    for (int i = 0; i < c->l->nregions; i++) {
        const LayoutRegion *r = &c->l->regions[i];
        str_printf(s, "#define %s_REGION_%s %d // its place in env->regions and env->region_bytes\n", u, r->cname, i);
        str_printf(s, "#define %s_REGION_%s_BYTES %zu // aligned to %d\n", u, r->cname, r->bytes, LAYOUT_ALIGN);
    }
}

// The numbers that env's hook is given.
static void header_kernels(C *c, Str *s) {
    if (!c->o->hooks) return;
    str_printf(s, "\n// env->hook is called around each kernel with its number:\n#define %s_KERNELS %d\n", c->upper, c->p->kernels.n);
    for (int i = 0; i < c->p->kernels.n; i++) {
        const Kernel *k = c->p->kernels.data[i];
        str_printf(s, "// %d: ", i);
        add_comment_text(s, k->name);
        if (k->label) str_add(s, " (");
        add_comment_text(s, k->label ? k->label : "");
        str_add(s, k->label ? ")\n" : "\n");
    }
}

static void header_functions(C *c, Str *s) {
    const char *p = c->prefix;
    str_printf(s, "\n// Statuses are 0 or -(code + 256 * node). Codes:");
    for (int i = 1; status_name(i); i++) str_printf(s, "%s %d %s", i > 1 ? "," : "", i, status_name(i));
    str_add(s, ".\n");
    if (c->l->constant) str_printf(s, "int32_t %s_run(const %s_inputs *in, %s_outputs *out, void *arena);\n", p, p, p);
    str_printf(s, "int32_t %s_run_env(const %s_dims *dims, const %s_inputs *in, %s_outputs *out, const %s_env *env);\n", p, p, p, p, p);
    str_printf(s, "// Bytes of env->arena; SIZE_MAX: a dimension is out of bounds or too large.\n");
    str_printf(s, "size_t %s_arena_bytes(const %s_dims *dims, int threads);\n", p, p);
    str_printf(s, "void %s_state_init(void *state); // %s_STATE_BYTES, aligned to %d\n", p, c->upper, LAYOUT_ALIGN);
    str_printf(s, "const char *%s_strerror(int32_t status);\nconst char *%s_error_node(int32_t status); // \"\": none\n", p, p);
    if (c->o->weights == WEIGHTS_BLOB)
        str_printf(s,
            "// 0, or the status for weights that are damaged or not this model's. Reads all of them: once after loading. A run looks at "
            "the head only.\n"
            "int32_t %s_weights_check(const void *weights, size_t bytes);\n",
            p);
    if (c->o->export_info) str_printf(s, "extern const mlc_model_info %s_info;\n", p);
}

void c_header(C *c, Str *s) {
    header_comment(c, s);
    str_printf(s, "#ifndef %s_MLC_H\n#define %s_MLC_H\n\n#include <stddef.h>\n#include <stdint.h>\n\n", c->upper, c->upper);
    str_add(s, runtime_text("abi"));
    str_add(s, "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
    header_structs(c, s);
    header_sizes(c, s);
    header_kernels(c, s);
    header_functions(c, s);
    str_add(s, "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
}

// ---- arena_bytes ----
static void make_checked(C *c) {
    if (!c_need(c, c_fmt(c, "%s_checked_mul", c->prefix))) return;
    c_function_text(c, c_fmt(c, "%s_checked_add", c->prefix), "int64_t", "int64_t a, int64_t b, int *bad",
        "    if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b) {\n        *bad = 1;\n        return 0;\n    }\n    return a + b;\n");
    c_function_text(c, c_fmt(c, "%s_checked_mul", c->prefix), "int64_t", "int64_t a, int64_t b, int *bad",
        "    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;\n"
        "    uint64_t xh = x >> 32, yh = y >> 32, mid = xh * (y & 0xffffffffu) + (x & 0xffffffffu) * yh;\n"
        "    uint64_t low = (x & 0xffffffffu) * (y & 0xffffffffu);\n"
        "    if ((xh != 0 && yh != 0) || mid >> 31 != 0 || low > (uint64_t)INT64_MAX - (mid << 32)) {\n"
        "        *bad = 1;\n        return 0;\n    }\n"
        "    return (a < 0) != (b < 0) ? -(int64_t)(low + (mid << 32)) : (int64_t)(low + (mid << 32));\n");
}

static const char *checked_dim(C *c, const Dim *d);

static const char *checked_atom(C *c, const Atom *m) {
    static const XOp ops[] = {[ATOM_FLOORDIV] = X_floordiv, [ATOM_MOD] = X_floormod, [ATOM_MIN] = X_min, [ATOM_MAX] = X_max};
    if (m->kind == ATOM_SYMBOL) {
        for (int i = 0; i < c->l->ndims; i++)
            if (c->l->dims[i].sym == m->self) return c_fmt(c, "dims->%s", c->l->dims[i].cname);
        c_unsupported(c, "the arena's size mentions '%s'", m->sym->name);
        return "0";
    }
    const char *args[] = {checked_dim(c, m->a), checked_dim(c, m->b)};
    int64_t b; // a shift where it will do: 64-bit division is a library call on small machines
    if (m->kind == ATOM_FLOORDIV && dim_is_int(m->b, &b) && b > 0 && (b & (b - 1)) == 0)
        return c_fmt(c, "(%s >> %d)", args[0], __builtin_ctzll((uint64_t)b));
    return c_scalar(c, ops[m->kind], DT_i64, DT_i64, args).s;
}

static const char *checked_dim(C *c, const Dim *d) {
    const char *sum = NULL;
    for (int i = 0; i < dim_nterms(d); i++) {
        const char *product = c_fmt(c, "%lld", (long long)dim_coefficient(d, i));
        for (int j = 0; j < dim_nfactors(d, i); j++) {
            const char *factor = checked_atom(c, dim_factor(d, i, j));
            if (j == 0 && dim_coefficient(d, i) == 1)
                product = factor;
            else
                product = c_fmt(c, "%s_checked_mul(%s, %s, &bad)", c->prefix, product, factor);
        }
        sum = sum ? c_fmt(c, "%s_checked_add(%s, %s, &bad)", c->prefix, sum, product) : product;
    }
    return sum ? sum : "0";
}

static void checked_slots(C *c, const LayoutSlot *slots, int n) {
    for (int i = 0; i < n; i++)
        if (slots[i].bytes && !dim_is_int(slots[i].bytes, NULL)) c_line(c, "(void)%s;", checked_dim(c, slots[i].bytes));
}

static void emit(C *c, const char *head, CFn outer) {
    Str body = c_leave(c, outer);
    str_printf(&c->code, "\n%s {\n%s}\n", head, body.data ? body.data : "");
    str_free(&body);
}

static void arena_function(C *c) {
    CFn outer = c_enter(c);
    int64_t bytes;
    c_line(c, "(void)dims;");
    c_line(c, "(void)threads;");
    if (c->l->ndims == 0 && dim_is_int(c->l->arena_bytes, &bytes))
        c_line(c, "return %lld;", (long long)bytes);
    else {
        make_checked(c);
        c_line(c, "int bad = 0;");
        c_line(c, "if (dims == NULL) return SIZE_MAX;");
        for (int i = 0; i < c->l->ndims; i++) {
            const LayoutDim *m = &c->l->dims[i];
            c_line(c, "if (dims->%s < %lld) return SIZE_MAX;", m->cname, (long long)m->lo);
            if (m->hi != DIM_INF) c_line(c, "if (dims->%s > %lld) return SIZE_MAX;", m->cname, (long long)m->hi);
        }
        checked_slots(c, c->l->inputs, c->l->ninputs);
        checked_slots(c, c->l->outputs, c->l->noutputs);
        c_line(c, "const int64_t bytes = %s;", checked_dim(c, c->l->arena_bytes));
        c_line(c, "return bad || bytes < 0 || (uint64_t)bytes > (uint64_t)PTRDIFF_MAX ? SIZE_MAX : (size_t)bytes;");
    }
    emit(c, c_fmt(c, "size_t %s_arena_bytes(const %s_dims *dims, int threads)", c->prefix, c->prefix), outer);
}

// ---- the processor ----
static void read_cpu(C *c) {
    c_line(c, "uint32_t a, b, c, d, b7 = 0, c7 = 0, top;");
    c_line(c, "__asm__ volatile(\"cpuid\" : \"=a\"(top), \"=b\"(b), \"=c\"(c), \"=d\"(d) : \"a\"(0), \"c\"(0));");
    c_line(c, "if (top >= 7) __asm__ volatile(\"cpuid\" : \"=a\"(a), \"=b\"(b7), \"=c\"(c7), \"=d\"(d) : \"a\"(7), \"c\"(0));");
    c_line(c, "__asm__ volatile(\"cpuid\" : \"=a\"(a), \"=b\"(b), \"=c\"(c), \"=d\"(d) : \"a\"(1), \"c\"(0));");
}

// Reads cpuid once: in a virtual machine it costs microseconds.
static void cpu_function(C *c) {
    CpuNeeds n = codegen_cpu_needs(c->target->c_target);
    CFn outer = c_enter(c);
    c_line(c, "static int known; // 1: has what the kernels use, 2: has not");
    c_line(c, "int k = __atomic_load_n(&known, __ATOMIC_RELAXED);");
    c_line(c, "if (k != 0) return k == 2;");
    read_cpu(c);
    c_line(c, "k = (c & 0x%xu) == 0x%xu && (b7 & 0x%xu) == 0x%xu && (c7 & 0x%xu) == 0x%xu ? 1 : 2;", n.leaf1_ecx, n.leaf1_ecx, n.leaf7_ebx,
        n.leaf7_ebx, n.leaf7_ecx, n.leaf7_ecx);
    if (n.xcr0) {
        c_line(c, "if (k == 1) { // the system saves the registers");
        c_line(c, "    __asm__ volatile(\"xgetbv\" : \"=a\"(a), \"=d\"(d) : \"c\"(0));");
        c_line(c, "    if ((a & 0x%xu) != 0x%xu) k = 2;", n.xcr0, n.xcr0);
        c_line(c, "}");
    }
    c_line(c, "__atomic_store_n(&known, k, __ATOMIC_RELAXED);");
    c_line(c, "return k == 2;");
    emit(c, c_fmt(c, "static int %s_cpu_lacks(void)", c->prefix), outer);
}

// The highest level that the processor has and the system saves the registers of: its number from 1, 0: none.
static void level_function(C *c) {
    CFn outer = c_enter(c);
    c_line(c, "static int known; // 1 + the level");
    c_line(c, "int k = __atomic_load_n(&known, __ATOMIC_RELAXED);");
    c_line(c, "if (k != 0) return k - 1;");
    read_cpu(c);
    c_line(c, "uint32_t saved = 0;");
    c_line(c, "if (c >> 27 & 1) __asm__ volatile(\"xgetbv\" : \"=a\"(saved), \"=d\"(d) : \"c\"(0));");
    c_line(c, "k = 1;");
    for (int i = 0; i < c->o->nlevels; i++) {
        CpuNeeds n = codegen_cpu_needs(target_find(c->o->levels[i]->target)->c_target);
        c_line(c, "if ((c & 0x%xu) == 0x%xu && (b7 & 0x%xu) == 0x%xu && (c7 & 0x%xu) == 0x%xu && (saved & 0x%xu) == 0x%xu) k = %d; // %s",
            n.leaf1_ecx, n.leaf1_ecx, n.leaf7_ebx, n.leaf7_ebx, n.leaf7_ecx, n.leaf7_ecx, n.xcr0, n.xcr0, i + 2, c->o->levels[i]->target);
    }
    c_line(c, "__atomic_store_n(&known, k, __ATOMIC_RELAXED);");
    c_line(c, "return k - 1;");
    emit(c, c_fmt(c, "static int %s_level(void)", c->prefix), outer);
}

// The run of the level at hand.
static void call_levels(C *c) {
    c_line(c, "switch (%s_level()) {", c->prefix);
    for (int i = c->o->nlevels - 1; i >= 0; i--)
        c_line(c, "case %d: return %s_%s_body(dims, in, out, &e);", i + 1, c->prefix, codegen_cname(c->a, c->o->levels[i]->target));
    c_line(c, "default: return -%d;", CODE_CPU);
    c_line(c, "}");
}

// ---- entry ----
static void check(C *c, const char *cond, int code) {
    c_line(c, "if (%s) return -%d;", cond, code);
}

// A caller made for another version may know fewer or more fields of the environment; those it lacks are zero.
static void make_env_copy(C *c) {
    c_function_text(c, c_fmt(c, "%s_env_copy", c->prefix), "void", "mlc_env *e, const void *from",
        "    const unsigned char *bytes = from;\n    unsigned char *to = (unsigned char *)e;\n    size_t known;\n"
        "    memcpy(&known, from, sizeof known);\n"
        "    for (size_t i = 0; i < sizeof *e; i++) to[i] = i < known ? bytes[i] : 0;\n");
}

// ---- weights that come through the environment (weights.c) ----
static void weights_functions(C *c) {
    const char *p = c->prefix;
    CFn outer = c_enter(c);
    c_line(c, "uint64_t hash = 0;");
    c_line(c, "if (weights == NULL || bytes < %zu || ((uintptr_t)weights & %d) != 0) return 1;", c->l->weights_bytes, LAYOUT_ALIGN - 1);
    c_line(c, "memcpy(&hash, (const unsigned char *)weights + 16, sizeof hash);");
    c_line(c, "return hash != 0x%llxu;", (unsigned long long)c->l->weights_hash);
    emit(c, c_fmt(c, "static int %s_weights_differ(const void *weights, size_t bytes)", p), outer);
    outer = c_enter(c);
    c_line(c, "uint64_t lane[4] = {1, 2, 3, 4}, all = 0;");
    check(c, c_fmt(c, "%s_weights_differ(weights, bytes)", p), CODE_WEIGHTS);
    c_line(c, "for (size_t i = 0; i < %zu; i += 8) {", c->l->weights_bytes);
    c_line(c, "    uint64_t *h = &lane[i / 8 %% 4], word = 0;");
    c_line(c, "    if (i != 16) memcpy(&word, (const unsigned char *)weights + i, sizeof word); // the hash itself");
    c_line(c, "    *h = (*h ^ word) * 0x9e3779b97f4a7c15u;");
    c_line(c, "    *h ^= *h >> 32;");
    c_line(c, "}");
    c_line(c, "for (int i = 0; i < 4; i++) {");
    c_line(c, "    all = (all ^ lane[i]) * 0x9e3779b97f4a7c15u;");
    c_line(c, "    all ^= all >> 32;");
    c_line(c, "}");
    c_line(c, "return all == 0x%llxu ? 0 : -%d;", (unsigned long long)c->l->weights_hash, CODE_WEIGHTS);
    emit(c, c_fmt(c, "int32_t %s_weights_check(const void *weights, size_t bytes)", p), outer);
}

static void run_env_function(C *c) {
    const char *p = c->prefix;
    if (c->o->weights == WEIGHTS_BLOB) weights_functions(c);
    make_env_copy(c);
    bool cpu = c->x86 && c->target->c_target[0];
    if (cpu) cpu_function(c);
    if (c->o->nlevels) level_function(c);
    CFn outer = c_enter(c);
    c_line(c, "mlc_env e;");
    check(c, c_fmt(c, "in == NULL || out == NULL || env == NULL%s", c->l->ndims ? " || dims == NULL" : ""), CODE_POINTER);
    c_line(c, "%s_env_copy(&e, env);", p);
    if (cpu) check(c, c_fmt(c, "%s_cpu_lacks()", p), CODE_CPU);
    c_line(c, "const size_t need = %s_arena_bytes(dims, 1);", p);
    check(c, "need == SIZE_MAX", CODE_SHAPE);
    check(c, c_fmt(c, "need != 0 && (e.arena == NULL || e.arena_bytes < need || ((uintptr_t)e.arena & %d) != 0)", LAYOUT_ALIGN - 1),
        CODE_ARENA);
    if (c->o->weights == WEIGHTS_BLOB) check(c, c_fmt(c, "%s_weights_differ(e.weights, e.weights_bytes)", p), CODE_WEIGHTS);
    if (c->l->nregions) check(c, "e.regions == NULL", CODE_ARENA);
    for (int i = 0; i < c->l->nregions; i++) {
        check(c, c_fmt(c, "e.region_bytes != NULL && e.region_bytes[%d] < %zu", i, c->l->regions[i].bytes), CODE_ARENA);
        check(c, c_fmt(c, "e.regions[%d] == NULL || ((uintptr_t)e.regions[%d] & %d) != 0", i, i, LAYOUT_ALIGN - 1), CODE_ARENA);
    }
    if (c->l->nstates) check(c, c_fmt(c, "e.state == NULL || ((uintptr_t)e.state & %d) != 0", LAYOUT_ALIGN - 1), CODE_POINTER);
    if (c->l->allocates) check(c, "e.alloc == NULL || e.dealloc == NULL", CODE_MEMORY);
    if (c->o->nlevels)
        call_levels(c);
    else
        c_line(c, "return %s_body(dims, in, out, &e);", p);
    emit(c, c_fmt(c, "int32_t %s_run_env(const %s_dims *dims, const %s_inputs *in, %s_outputs *out, const %s_env *env)", p, p, p, p, p),
        outer);
    if (!c->l->constant) return;
    outer = c_enter(c);
    c_line(c, "mlc_env e;");
    c_line(c, "const size_t none = 0;");
    c_line(c, "%s_env_copy(&e, &none);", p);
    c_line(c, "e.struct_size = sizeof e;");
    c_line(c, "e.arena = arena;");
    c_line(c, "e.arena_bytes = %s_arena_bytes(NULL, 1);", p);
    c_line(c, "return %s_run_env(NULL, in, out, &e);", p);
    emit(c, c_fmt(c, "int32_t %s_run(const %s_inputs *in, %s_outputs *out, void *arena)", p, p, p), outer);
}

static void state_function(C *c) {
    for (int i = 0; i < c->l->nstates; i++) {
        const LoopBuffer *b = c->l->states[i].buffer;
        DType t = b->var.type.type;
        if (!b->bytes || !b->nbytes) continue;
        size_t n = b->nbytes / (size_t)dtype_bytes(t);
        str_printf(&c->data, "\nstatic const %s %s_first_%s[%zu] = {\n", c_memory(c, t), c->prefix, codegen_cname(c->a, b->var.name), n);
        codegen_data(&c->data, t, b->bytes, n);
        str_add(&c->data, "};\n");
    }
    CFn outer = c_enter(c);
    if (c->l->state_bytes)
        c_line(c, "memset(state, 0, %zu);", c->l->state_bytes);
    else
        c_line(c, "(void)state;");
    for (int i = 0; i < c->l->nstates; i++) {
        const LoopBuffer *b = c->l->states[i].buffer;
        if (!b->bytes || !b->nbytes) continue;
        c_line(c, "memcpy((unsigned char *)state + %zu, %s_first_%s, %zu);", c->l->states[i].offset, c->prefix,
            codegen_cname(c->a, b->var.name), b->nbytes);
    }
    emit(c, c_fmt(c, "void %s_state_init(void *state)", c->prefix), outer);
}

// ---- texts ----
static void strings(C *c, Str *s, const char *name, int n, const char *(*text)(C *c, int i)) {
    if (!n) return;
    str_printf(s, "static const char *const %s_%s[] = {\n", c->prefix, name);
    for (int i = 0; i < n; i++) {
        str_add(s, "    ");
        add_string(s, text(c, i));
        str_add(s, ",\n");
    }
    str_add(s, "};\n");
}

static const char *status_at(C *c, int i) {
    (void)c;
    return status_text(i);
}
static const char *node_at(C *c, int i) {
    return c->p->node_names.data[i];
}
static const char *dim_at(C *c, int i) {
    return c->l->dims[i].name;
}
static const char *region_at(C *c, int i) {
    return c->l->regions[i].name;
}
static const char *kernel_at(C *c, int i) {
    return c->p->kernels.data[i]->name;
}
static const char *kernel_nodes_at(C *c, int i) {
    return c->p->kernels.data[i]->label ? c->p->kernels.data[i]->label : "";
}

static void text_functions(C *c) {
    int codes = 1, nodes = c->p->node_names.n;
    while (status_name(codes)) codes++;
    str_add(&c->code, "\n");
    strings(c, &c->code, "statuses", codes, status_at);
    strings(c, &c->code, "nodes", nodes, node_at);
    CFn outer = c_enter(c);
    c_line(c, "const uint32_t code = (0 - (uint32_t)status) %% 256;");
    c_line(c, "return code < %d ? %s_statuses[code] : \"unknown status\";", codes, c->prefix);
    emit(c, c_fmt(c, "const char *%s_strerror(int32_t status)", c->prefix), outer);
    outer = c_enter(c);
    if (nodes) {
        c_line(c, "const uint32_t node = (0 - (uint32_t)status) / 256;");
        c_line(c, "return node > 0 && node <= %d ? %s_nodes[node - 1] : \"\";", nodes, c->prefix);
    } else {
        c_line(c, "(void)status;");
        c_line(c, "return \"\";");
    }
    emit(c, c_fmt(c, "const char *%s_error_node(int32_t status)", c->prefix), outer);
}

// ---- the loader's table ----
static void tensor_table(C *c, Str *s, const char *name, const LayoutSlot *slots, int n) {
    if (!n) return;
    for (int i = 0; i < n; i++) {
        const LoopBuffer *b = slots[i].buffer;
        if (!b->rank) continue;
        str_printf(s, "static const char *const %s_%s%d_shape[] = {", c->prefix, name, i);
        for (int k = 0; k < b->rank; k++) {
            if (k) str_add(s, ", ");
            add_string(s, dim_text(c->t, b->shape[k]));
        }
        str_add(s, "};\n");
    }
    str_printf(s, "static const mlc_tensor_info %s_%s_table[] = {\n", c->prefix, name);
    for (int i = 0; i < n; i++) {
        const LoopBuffer *b = slots[i].buffer;
        str_printf(s, "    {\"%s\", ", slots[i].name);
        add_string(s, b->label ? b->label : b->var.name);
        str_printf(s, ", %d, %d, ", dtype_info(b->var.type.type)->onnx, b->rank);
        if (b->rank)
            str_printf(s, "%s_%s%d_shape", c->prefix, name, i);
        else
            str_add(s, "NULL");
        str_printf(s, ", %d, %d},\n", slots[i].tie, slots[i].dynamic);
    }
    str_add(s, "};\n");
}

static void number_table(C *c, Str *s, const char *name, const char *type, int n, int64_t (*value)(C *c, int i)) {
    if (!n) return;
    str_printf(s, "static const %s %s_%s[] = {", type, c->prefix, name);
    for (int i = 0; i < n; i++) str_printf(s, "%s%lld", i ? ", " : "", (long long)value(c, i));
    str_add(s, "};\n");
}
static int64_t dim_low(C *c, int i) {
    return c->l->dims[i].lo;
}
static int64_t dim_high(C *c, int i) {
    return c->l->dims[i].hi;
}
static int64_t region_size(C *c, int i) {
    return (int64_t)c->l->regions[i].bytes;
}

// run_env with arrays in the place of structs.
static void loader_run(C *c) {
    const char *p = c->prefix;
    CFn outer = c_enter(c);
    c_line(c, "%s_dims d;", p);
    c_line(c, "%s_inputs i;", p);
    c_line(c, "%s_outputs o;", p);
    c_line(c, "if (inputs == NULL || outputs == NULL%s) return -%d;", c->l->ndims ? " || dims == NULL" : "", CODE_POINTER);
    if (c->l->ndims)
        c_line(c, "memcpy(&d, dims, sizeof d);");
    else
        c_line(c, "d.unused = dims != NULL;");
    if (c->l->ninputs)
        c_line(c, "memcpy(&i, inputs, sizeof i);");
    else
        c_line(c, "i.unused = NULL;");
    if (c->l->noutputs)
        c_line(c, "memcpy(&o, outputs, sizeof o);");
    else
        c_line(c, "o.unused = NULL;");
    c_line(c, "const int32_t status = %s_run_env(&d, &i, &o, env);", p);
    if (c->l->noutputs) c_line(c, "memcpy(outputs, &o, sizeof o);");
    c_line(c, "return status;");
    emit(c, c_fmt(c, "static int32_t %s_run_arrays(const int64_t *dims, const void *const *inputs, void *outputs, const mlc_env *env)", p),
        outer);
    outer = c_enter(c);
    if (c->l->ndims) {
        c_line(c, "%s_dims d;", p);
        c_line(c, "if (dims == NULL) return SIZE_MAX;");
        c_line(c, "memcpy(&d, dims, sizeof d);");
        c_line(c, "return %s_arena_bytes(&d, threads);", p);
    } else {
        c_line(c, "(void)dims;");
        c_line(c, "return %s_arena_bytes(NULL, threads);", p);
    }
    emit(c, c_fmt(c, "static size_t %s_arena_arrays(const int64_t *dims, int threads)", p), outer);
}

// The name of a table, or NULL when it has no rows.
static const char *table(C *c, const char *name, int n) {
    return n ? c_fmt(c, "%s_%s", c->prefix, name) : "NULL";
}

static void info_table(C *c) {
    const Layout *l = c->l;
    Str *s = &c->code;
    loader_run(c);
    str_add(s, "\n");
    tensor_table(c, s, "input", l->inputs, l->ninputs);
    tensor_table(c, s, "output", l->outputs, l->noutputs);
    strings(c, s, "dim_names", l->ndims, dim_at);
    number_table(c, s, "dim_lo", "int64_t", l->ndims, dim_low);
    number_table(c, s, "dim_hi", "int64_t", l->ndims, dim_high);
    strings(c, s, "region_names", l->nregions, region_at);
    number_table(c, s, "region_bytes", "size_t", l->nregions, region_size);
    const int nkernels = c->o->hooks ? c->p->kernels.n : 0;
    strings(c, s, "kernels", nkernels, kernel_at);
    strings(c, s, "kernel_nodes", nkernels, kernel_nodes_at);
    str_printf(s, "const mlc_model_info %s_info = {\n    MLC_ABI, ", c->prefix);
    add_string(s, c->p->name);
    str_printf(s, ", \"%s\", %d, %d, %d, %d, %d, %d,\n", MLC_VERSION, l->ninputs, l->noutputs, l->ndims, l->nstates, c->p->node_names.n,
        l->nregions);
    str_printf(s, "    %s, %s, %s,\n", table(c, "input_table", l->ninputs), table(c, "output_table", l->noutputs),
        table(c, "dim_names", l->ndims));
    str_printf(s, "    %s, %s, %s,\n", table(c, "dim_lo", l->ndims), table(c, "dim_hi", l->ndims), table(c, "nodes", c->p->node_names.n));
    str_printf(s, "    %zu, %s_arena_arrays, %s_run_arrays, %s_state_init,\n", l->state_bytes, c->prefix, c->prefix, c->prefix);
    bool blob = c->o->weights == WEIGHTS_BLOB;
    str_printf(s, "    %s, %s, %d, %zu, %s,\n", table(c, "region_names", l->nregions), table(c, "region_bytes", l->nregions), l->team,
        blob ? l->weights_bytes : 0, blob ? c_fmt(c, "%s_weights_check", c->prefix) : "NULL");
    str_printf(s, "    %d, %s, %s};\n", nkernels, table(c, "kernels", nkernels), table(c, "kernel_nodes", nkernels));
}

void c_api(C *c) {
    arena_function(c);
    run_env_function(c);
    state_function(c);
    text_functions(c);
    if (c->o->export_info) info_table(c);
}
