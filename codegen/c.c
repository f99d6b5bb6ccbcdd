// The C printer's frame: opens the file, prints kernels as functions, puts the sections in order.
//
// A kernel becomes `static T PREFIX_k_NAME(buffers, free symbols)`, T void or int32_t when it can fail; a kernel whose only statement is a
// parallel loop takes that loop's bounds behind them. Hosted files are GNU C with a target attribute a function, other targets get plain
// C99.
#include "c_print.h"

#include <ctype.h>
#include <string.h>

// ---- kernels ----
static const Stmt *outermost(const Kernel *k) {
    const Stmt *only = NULL;
    for (int i = 0; i < k->body.n; i++) {
        if (k->body.data[i]->kind == ST_COMMENT) continue;
        if (only) return NULL;
        only = k->body.data[i];
    }
    return only && (only->kind == ST_TEAM || (only->kind == ST_FOR && only->parallel)) ? only : NULL;
}

static void find_check(void *ctx, Stmt *s) {
    if (s->kind == ST_CHECK) *(bool *)ctx = true;
}

typedef struct {
    C *c;
    CKernel *k;
} SymbolSink;

static void add_symbol(void *ctx, const Dim *sym) {
    SymbolSink *s = ctx;
    vec_push(s->c->a, &s->k->syms, sym);
}

CKernel *c_kernel_of(C *c, const Kernel *kernel) {
    for (int i = 0; i < c->kernels.n; i++)
        if (c->kernels.data[i]->kernel == kernel) return c->kernels.data[i];
    CKernel *k = ARENA_NEW(c->a, CKernel);
    k->kernel = kernel;
    k->name = c_fmt(c, "%s_k_%s", c->prefix, codegen_cname(c->a, kernel->name));
    k->outer = outermost(kernel);
    k->fails = c_uses_index(&kernel->body);
    Block body = kernel->body;
    loop_walk(&body, find_check, &k->fails);
    SymbolSink sink = {c, k};
    kernel_free_symbols(kernel, add_symbol, &sink);
    vec_push(c->a, &c->kernels, k);
    return k;
}

void c_kernel_names(C *c, const CKernel *k) {
    for (int i = 0; i < k->kernel->params.n; i++) c_declare(c, &k->kernel->params.data[i]->var, k->kernel->params.data[i]->var.name);
    for (int i = 0; i < k->syms.n; i++) c_declare(c, k->syms.data[i], dim_as_symbol(k->syms.data[i])->name);
}

static const char *param_text(C *c, const LoopBuffer *b) {
    const char *name = c_name(c, &b->var), *type = c_memory(c, b->var.type.type);
    if (!b->writes) return c_fmt(c, "const %s *%s", type, name);
    return c_fmt(c, b->alias == ALIAS_DISJOINT ? "%s *restrict %s" : "%s *%s", type, name);
}

Str c_kernel_params(C *c, const CKernel *k) {
    Str s = {0};
    str_add(&s, "");
    for (int i = 0; i < k->kernel->params.n; i++) str_printf(&s, "%s%s", s.n ? ", " : "", param_text(c, k->kernel->params.data[i]));
    for (int i = 0; i < k->syms.n; i++) str_printf(&s, "%s%s_idx %s", s.n ? ", " : "", c->prefix, c_name(c, k->syms.data[i]));
    return s;
}

Str c_kernel_arguments(C *c, const CKernel *k) {
    Str s = {0};
    str_add(&s, "");
    for (int i = 0; i < k->kernel->params.n; i++) str_printf(&s, "%s%s", s.n ? ", " : "", c_name(c, &k->kernel->params.data[i]->var));
    for (int i = 0; i < k->syms.n; i++) str_printf(&s, "%s%s", s.n ? ", " : "", c_name(c, k->syms.data[i]));
    return s;
}

void c_kernel_open(C *c, const CKernel *k) {
    for (int i = 0; i < k->kernel->params.n; i++) {
        const Var *v = &k->kernel->params.data[i]->var;
        c_unused(c, v, c_name(c, v));
    }
    for (int i = 0; i < k->syms.n; i++) c_unused(c, k->syms.data[i], c_name(c, k->syms.data[i]));
    if (c_uses_index(&k->kernel->body)) c_line(c, "int32_t bad = 0;");
}

void c_kernel_close(C *c, const CKernel *k) {
    char status[32];
    if (c_uses_index(&k->kernel->body)) {
        c_line(c, "if (bad) {");
        c->f.depth++;
        c_fail(c, c_status(CODE_INDEX, k->kernel->node, status));
        c->f.depth--;
        c_line(c, "}");
    }
}

void c_kernel_emit(C *c, const char *result, const char *name, const char *params, Str body) {
    str_printf(&c->code, "%s_KERNEL %s %s(%s) {\n%s}\n", c->upper, result, name, params[0] ? params : "void", body.data ? body.data : "");
    str_free(&body);
}

static void kernel_comment(C *c, const Kernel *k) {
    str_add(&c->code, "\n");
    if (!k->label) return;
    str_add(&c->code, "// ");
    for (const char *p = k->label; *p; p++) str_addn(&c->code, (unsigned char)*p < ' ' || *p == '\\' ? " " : p, 1);
    str_add(&c->code, "\n");
}

static void print_kernel(C *c, const CKernel *k) {
    PtrSet used = {0};
    c_note_uses(c, k->outer ? &k->outer->body : &k->kernel->body, &used);
    kernel_comment(c, k->kernel);
    CFn outer = c_enter(c);
    c->f.used = &used;
    c_kernel_names(c, k);
    Str params = c_kernel_params(c, k);
    if (k->outer) {
        const char *from = c_declare(c, k, "from"), *to = c_declare(c, k->outer, "to");
        str_printf(&params, "%s%s_idx %s, %s_idx %s", params.n ? ", " : "", c->prefix, from, c->prefix, to);
        c_kernel_open(c, k);
        c_loop(c, k->outer, from, to);
    } else {
        c_kernel_open(c, k);
        c_block(c, &k->kernel->body);
    }
    c_kernel_close(c, k);
    if (k->fails) c_line(c, "return 0;");
    Str body = c_leave(c, outer);
    c_kernel_emit(c, k->fails ? "int32_t" : "void", k->name, params.data, body);
    str_free(&params);
}

static void note_call(void *ctx, Stmt *s) {
    C *c = ctx;
    if (s->kind != ST_CALL) return;
    c_kernel_of(c, s->kernel);
    if (s->parallel) ptrset_add(c->a, &c->spread, s->kernel);
}

static void print_kernels(C *c) {
    Block body = c->p->main;
    loop_walk(&body, note_call, c);
    for (int i = 0; i < c->kernels.n && !c->failed; i++) {
        CKernel *k = c->kernels.data[i];
        if (k->outer && k->outer->kind == ST_TEAM) {
            kernel_comment(c, k->kernel);
            c_team_function(c, k);
            continue;
        }
        print_kernel(c, k);
        if (k->outer && ptrset_count(&c->spread, k->kernel)) c_spread_function(c, k);
    }
}

// ---- constants ----
static void print_constants(C *c) {
    if (c->o->weights == WEIGHTS_OBJECT)
        str_printf(&c->data, "\nextern const unsigned char %s[%zu]%s; // in the object beside this file\n", c_weights(c),
            c->l->weights_bytes, c->hosted ? " __attribute__((visibility(\"hidden\")))" : "");
    if (c->o->weights != WEIGHTS_INLINE) return;
    for (int i = 0; i < c->p->buffers.n; i++) {
        const LoopBuffer *b = c->p->buffers.data[i];
        if (b->kind != BUF_CONST || !ptrset_count(&c->main_uses, &b->var)) continue;
        DType t = b->var.type.type;
        size_t n = b->nbytes / (size_t)dtype_bytes(t);
        if (b->label) str_printf(&c->data, "\n// %s\n", codegen_cname(c->a, b->label));
        str_printf(&c->data, "static const %s %s[%zu]%s = {\n", c_memory(c, t), c_buffer(c, &b->var), n ? n : 1,
            c_fmt(c, "%s%s", c->hosted ? " __attribute__((aligned(64)))" : "",
                c->o->weights_section ? c_fmt(c, " %s_SECTION", c->upper) : ""));
        if (n)
            codegen_data(&c->data, t, b->bytes, n);
        else
            str_add(&c->data, "    0\n");
        str_add(&c->data, "};\n");
    }
}

// ---- the file ----
static void print_guards(C *c, Str *s) {
    str_add(
        s, "#ifdef __FAST_MATH__\n#error \"this file needs floating point as the standard has it: compile without -ffast-math\"\n#endif\n");
    str_add(s, "#if defined(__FLT_EVAL_METHOD__) && (__FLT_EVAL_METHOD__ == 1 || __FLT_EVAL_METHOD__ == 2)\n"
               "#error \"this file needs floats computed in their own precision: compile with -msse2 -mfpmath=sse\"\n#endif\n");
    str_printf(s,
        "// a * b + c is never contracted\n#if defined(__clang__)\n#pragma clang fp contract(off)\n#elif defined(__GNUC__)\n"
        "#pragma GCC optimize(\"fp-contract=off\"%s)\n#endif\n",
        c->hosted ? "" : ", \"no-tree-loop-distribute-patterns\"");
    str_add(s, "// conditions are joined without branches, and a value that differs from itself is NaN\n"
               "#if defined(__clang__)\n#pragma clang diagnostic ignored \"-Wunknown-warning-option\"\n"
               "#pragma clang diagnostic ignored \"-Wbitwise-instead-of-logical\"\n#endif\n"
               "#if defined(__GNUC__)\n#pragma GCC diagnostic ignored \"-Wtautological-compare\"\n#endif\n");
    if (c->intrinsics) str_add(s, "#include <immintrin.h>\n");
}

static void print_macros(C *c, Str *s) {
    const char *u = c->upper, *target = c->target->c_target;
    if (c->hosted) {
        str_printf(s, "#define %s_ALIAS __attribute__((may_alias))\n", u);
        if (!target[0])
            str_printf(s, "#define %s_TARGET\n", u);
        else if (c->target->vector_bits < 512)
            str_printf(s, "#define %s_TARGET __attribute__((target(\"%s\")))\n", u, target);
        else
            str_printf(s,
                "#ifdef __clang__\n#define %s_TARGET __attribute__((target(\"%s\"), min_vector_width(512)))\n"
                "#else\n#define %s_TARGET __attribute__((target(\"%s,prefer-vector-width=512\")))\n#endif\n",
                u, target, u, target);
        str_printf(s,
            "#define %s_KERNEL %s_TARGET __attribute__((noinline)) static\n#define %s_INLINE %s_TARGET __attribute__((unused)) static "
            "inline\n",
            u, u, u, u);
    } else {
        // loops that copy must not become calls of memmove, which a microcontroller without libc lacks
        str_printf(s,
            "#if defined(__clang__)\n#define %s_TARGET __attribute__((no_builtin(\"memmove\")))\n#else\n#define %s_TARGET\n#endif\n", u, u);
        str_printf(s,
            "#ifdef __GNUC__\n#define %s_ALIAS __attribute__((may_alias))\n#define %s_INLINE __attribute__((unused)) %s_TARGET static "
            "inline\n"
            "#else\n#define %s_ALIAS\n#define %s_INLINE static inline\n#endif\n",
            u, u, u, u, u);
        str_printf(s, "#define %s_KERNEL %s_TARGET static\n", u, u);
    }
    if (c->o->weights_section && c->o->weights == WEIGHTS_INLINE)
        str_printf(s, "#ifdef __GNUC__\n#define %s_SECTION __attribute__((section(\"%s\")))\n#else\n#define %s_SECTION\n#endif\n", u,
            c->o->weights_section, u);
    str_printf(s, "typedef ptrdiff_t %s_idx;\n", c->prefix);
}

static void assemble(C *c, Str *source, const Str *header) {
    str_printf(source, "// %s: made by mlc %s for target %s; do not edit.\n// SPDX-License-Identifier: 0BSD\n", c->p->name, MLC_VERSION,
        c->target->name);
    print_guards(c, source);
    if (c->o->header)
        str_printf(source, "#include \"%s\"\n", c->o->header);
    else
        str_addn(source, header->data, header->n);
    str_add(source, "void *memcpy(void *, const void *, size_t);\nvoid *memset(void *, int, size_t);\n\n");
    print_macros(c, source);
    const Str *parts[] = {&c->types, &c->helpers, &c->data, &c->code};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        str_add(source, "\n");
        if (parts[i]->n) str_addn(source, parts[i]->data, parts[i]->n);
    }
}

static char *upper_of(Arena *a, const char *prefix) {
    char *s = arena_strdup(a, prefix);
    for (char *p = s; *p; p++) *p = (char)toupper((unsigned char)*p);
    return s;
}

static bool print_program(C *c, Str *source, Str *header) {
    Str text = {0};
    c_note_uses(c, &c->p->main, &c->main_uses);
    c_header(c, &text);
    print_kernels(c);
    print_constants(c);
    c_main(c);
    c_api(c);
    if (!c->failed) {
        assemble(c, source, &text);
        if (header) str_addn(header, text.data, text.n);
    }
    str_free(&text);
    return !c->failed;
}

bool codegen_c(const Program *p, const EmitOptions *o, Str *source, Str *header, Diag *d) {
    C c = {.p = p, .o = o, .d = d, .t = p->dims, .target = target_find(p->target ? p->target : "generic")};
    if (!c.target) {
        diag_error(d, EXIT_UNSUPPORTED, "unknown target '%s'", p->target);
        return false;
    }
    c.a = arena_new();
    c.prefix = codegen_cname(c.a, o->prefix);
    c.upper = upper_of(c.a, c.prefix);
    c.hosted = c.target->hosted;
    c.x86 = c.hosted && strncmp(c.target->triple, "x86_64", 6) == 0;
    Layout *layout = codegen_layout(c.a, p, o->prefix, d);
    if (layout && o->weights != WEIGHTS_INLINE) layout_weights(layout, p);
    if (layout && o->weights == WEIGHTS_BLOB) layout->constant = false; // they come through the environment
    c.l = layout;
    bool ok = c.l && print_program(&c, source, header);
    Str *parts[] = {&c.types, &c.helpers, &c.data, &c.code};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) str_free(parts[i]);
    arena_free(c.a);
    return ok;
}
