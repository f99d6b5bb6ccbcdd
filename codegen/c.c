// The C printer's frame: opens the file, prints kernels as functions, puts the sections in order.
//
// A kernel becomes `static T PREFIX_k_NAME(buffers, free symbols)`, T void or int32_t when it can fail; a kernel whose only statement is a
// parallel loop takes that loop's bounds behind them. Hosted files are GNU C with a target attribute a function, other targets get plain
// C99.
#include "c_print.h"

#include <ctype.h>
#include <limits.h>
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
    if (c->o->nparts) str_printf(&c->prototypes, "%s %s(%s);\n", result, name, params[0] ? params : "void");
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
        } else {
            print_kernel(c, k);
            if (k->outer && ptrset_count(&c->spread, k->kernel)) c_spread_function(c, k);
        }
        vec_push(c->a, &c->cuts, c->code.n);
    }
}

// ---- constants ----
static void print_constant(C *c, const WeightPlace *w) {
    const LoopBuffer *b = w->buffer;
    DType t = b->var.type.type;
    size_t n = b->nbytes / (size_t)dtype_bytes(t);
    if (b->label) str_printf(&c->data, "\n// %s\n", codegen_cname(c->a, b->label));
    const char *section = c->o->weights_section ? c_fmt(c, " %s_SECTION", c->upper) : "";
    str_printf(&c->data, "static const %s %s[%zu]%s%s = {\n", c_memory(c, t), c_constant(c, w), n ? n : 1,
        c->hosted ? " __attribute__((aligned(64)))" : "", section);
    if (n)
        codegen_data(&c->data, t, b->bytes, n);
    else
        str_add(&c->data, "    0\n");
    str_add(&c->data, "};\n");
}

// Notes which places main reads, of level `level`.
static void note_constants(const C *c, int level, bool *used) {
    const WeightPlaces *all = &c->l->weights;
    for (int i = 0; i < all->n; i++)
        if (all->data[i].level == level && ptrset_count(&c->main_uses, &all->data[i].buffer->var)) used[all->data[i].first] = true;
}

static void print_constants(C *c, const bool *used) {
    if (c->o->weights == WEIGHTS_OBJECT)
        str_printf(&c->data, "\nextern const unsigned char %s[%zu]%s; // in the object beside this file\n", c_weights(c),
            c->l->weights_bytes, c->hosted ? " __attribute__((visibility(\"hidden\")))" : "");
    for (int i = 0; i < c->l->weights.n && c->o->weights == WEIGHTS_INLINE; i++)
        if (used[i]) print_constant(c, &c->l->weights.data[i]);
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
    bool parts = c->o->nparts > 0; // which call each other's kernels
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
            "#define %s_KERNEL %s_TARGET __attribute__((noinline%s\n#define %s_INLINE %s_TARGET __attribute__((unused)) static "
            "inline\n",
            u, u, parts ? ", visibility(\"hidden\")))" : ")) static", u, u);
    } else {
        // loops that copy must not become calls of memmove, which a microcontroller without libc lacks
        str_printf(s,
            "#if defined(__clang__)\n#define %s_TARGET __attribute__((no_builtin(\"memmove\")))\n#else\n#define %s_TARGET\n#endif\n", u, u);
        str_printf(s,
            "#ifdef __GNUC__\n#define %s_ALIAS __attribute__((may_alias))\n#define %s_INLINE __attribute__((unused)) %s_TARGET static "
            "inline\n"
            "#else\n#define %s_ALIAS\n#define %s_INLINE static inline\n#endif\n",
            u, u, u, u, u);
        str_printf(s, "#define %s_KERNEL %s_TARGET%s\n", u, u, parts ? "" : " static");
    }
    if (c->o->weights_section && c->o->weights == WEIGHTS_INLINE && !strcmp(c->prefix, c->iface))
        str_printf(s, "#ifdef __GNUC__\n#define %s_SECTION __attribute__((section(\"%s\")))\n#else\n#define %s_SECTION\n#endif\n", u,
            c->o->weights_section, u);
    str_printf(s, "typedef ptrdiff_t %s_idx;\n", c->prefix);
}

static void print_parts(Str *source, int n, const Str *const *parts) {
    for (int i = 0; i < n; i++) {
        str_add(source, "\n");
        if (parts[i]->n) str_addn(source, parts[i]->data, parts[i]->n);
    }
}

static void print_sections(C *c, Str *source) {
    print_macros(c, source);
    const Str *parts[] = {&c->types, &c->helpers, &c->data, &c->code};
    print_parts(source, 4, parts);
}

static void print_opening(C *c, Str *source, const Str *header) {
    str_printf(source, "// %s: made by mlc %s for target %s; do not edit.\n// SPDX-License-Identifier: 0BSD\n", c->p->name, MLC_VERSION,
        c->target->name);
    print_guards(c, source);
    if (c->o->header)
        str_printf(source, "#include \"%s\"\n", c->o->header);
    else
        str_addn(source, header->data, header->n);
    str_add(source, "void *memcpy(void *, const void *, size_t);\nvoid *memset(void *, int, size_t);\n\n");
}

// ---- in parts: each has all types and helpers, the source has everything behind the kernels ----
static Str *lightest(Str *const *text, int n) {
    Str *least = text[0];
    for (int i = 1; i < n; i++)
        if (text[i]->n < least->n) least = text[i];
    return least;
}

// To each kernel, in order, the text that is the shortest so far.
static void print_in_parts(C *c, Str *source, const Str *header) {
    enum { SHARED = 3 };
    const Str *shared[SHARED] = {&c->types, &c->helpers, &c->prototypes};
    size_t enough = c->o->part_bytes ? c->code.n / c->o->part_bytes : INT_MAX;
    int n = 1 + (enough > (size_t)c->o->nparts ? c->o->nparts : (int)enough);
    Str **text = ARENA_ARRAY(c->a, Str *, n);
    for (int i = 0; i < n; i++) {
        text[i] = i ? &c->o->parts[i - 1] : source;
        print_opening(c, text[i], header);
        print_macros(c, text[i]);
        print_parts(text[i], SHARED, shared);
    }
    size_t kernels = c->cuts.n ? c->cuts.data[c->cuts.n - 1] : 0;
    str_addn(source, c->data.data, c->data.n);
    str_addn(source, c->code.data + kernels, c->code.n - kernels);
    for (int i = 0; i < c->cuts.n; i++) {
        size_t from = i ? c->cuts.data[i - 1] : 0;
        str_addn(lightest(text, n), c->code.data + from, c->cuts.data[i] - from);
    }
}

static char *upper_of(Arena *a, const char *prefix) {
    char *s = arena_strdup(a, prefix);
    for (char *p = s; *p; p++) *p = (char)toupper((unsigned char)*p);
    return s;
}

// A printer of p for the target, with all names beginning with prefix.
static C printer(Arena *a, const Program *p, const EmitOptions *o, const Target *target, const char *prefix, Diag *d) {
    C c = {.p = p, .o = o, .d = d, .a = a, .t = p->dims, .target = target};
    c.prefix = codegen_cname(a, prefix);
    c.iface = codegen_cname(a, o->prefix);
    c.upper = upper_of(a, c.prefix);
    c.hosted = target->hosted;
    c.x86 = c.hosted && strncmp(target->triple, "x86_64", 6) == 0;
    return c;
}

static void printer_free(C *c) {
    Str *parts[] = {&c->types, &c->helpers, &c->data, &c->code, &c->prototypes};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) str_free(parts[i]);
}

static void place_weights(Layout *l, const Program *p, const EmitOptions *o, Arena *a) {
    layout_places(a, l, p, o);
    if (o->weights != WEIGHTS_INLINE) layout_weights(l, p, o);
    if (o->weights == WEIGHTS_BLOB) l->constant = false; // they come through the environment
}

// Everything in one text with one set of names.
static bool print_program(C *c, Str *source, Str *header) {
    Str text = {0};
    c_note_uses(c, &c->p->main, &c->main_uses);
    c_header(c, &text);
    print_kernels(c);
    bool *used = ARENA_ARRAY(c->a, bool, c->l->weights.n + 1);
    note_constants(c, 0, used);
    print_constants(c, used);
    c_main(c);
    c_api(c);
    if (!c->failed) {
        if (c->o->nparts) {
            print_in_parts(c, source, &text);
        } else {
            print_opening(c, source, &text);
            print_sections(c, source);
        }
        str_addn(header, text.data, text.n);
    }
    str_free(&text);
    return !c->failed;
}

static bool print_one(Arena *a, const Program *p, const EmitOptions *o, Str *source, Str *header, Diag *d) {
    const Target *target = target_find(p->target ? p->target : "generic");
    if (!target) {
        diag_error(d, EXIT_UNSUPPORTED, "unknown target '%s'", p->target);
        return false;
    }
    C c = printer(a, p, o, target, o->prefix, d);
    Layout *l = codegen_layout(a, p, o->prefix, d);
    if (!l) return false;
    place_weights(l, p, o, a);
    c.l = l;
    bool ok = print_program(&c, source, header);
    printer_free(&c);
    return ok;
}

// ---- levels: kernels and body once for each, under the level's own names, then one interface that chooses ----
typedef struct {
    Str text;
    bool intrinsics;
    bool *used; // places of constants
} Levels;

static bool print_level(const EmitOptions *o, int i, const Layout *shared, Levels *all, Diag *d) {
    Arena *a = arena_new();
    const Program *p = o->levels[i];
    const Target *t = target_find(p->target);
    C c = printer(a, p, o, t, arena_printf(a, "%s_%s", codegen_cname(a, o->prefix), codegen_cname(a, t->name)), d);
    Layout *l = codegen_layout(a, p, o->prefix, d);
    bool ok = l != NULL;
    if (ok) {
        l->weights = shared->weights;
        l->weights_bytes = shared->weights_bytes;
        l->weights_hash = shared->weights_hash;
        c.l = l;
        c_note_uses(&c, &p->main, &c.main_uses);
        note_constants(&c, i, all->used);
        print_kernels(&c);
        c_main(&c);
        print_sections(&c, &all->text);
        all->intrinsics |= c.intrinsics;
        ok = !c.failed;
    }
    printer_free(&c);
    arena_free(a);
    return ok;
}

static void print_chosen(C *c, const Levels *all, Str *source, Str *header) {
    Str text = {0};
    c->intrinsics = all->intrinsics;
    c_header(c, &text);
    print_constants(c, all->used);
    c_api(c);
    const Str *before[] = {&c->types, &c->data}, *behind[] = {&c->helpers, &c->code};
    print_opening(c, source, &text);
    print_macros(c, source);
    print_parts(source, 2, before);
    str_addn(source, all->text.data, all->text.n);
    print_parts(source, 2, behind);
    str_addn(header, text.data, text.n);
    str_free(&text);
}

static bool print_levels(Arena *a, const EmitOptions *o, Str *source, Str *header, Diag *d) {
    Layout *shared = codegen_layout_levels(a, o, o->prefix, d);
    if (!shared) return false;
    place_weights(shared, o->levels[0], o, a);
    C c = printer(a, o->levels[0], o, o->dispatch, o->prefix, d);
    Levels all = {.used = ARENA_ARRAY(a, bool, shared->weights.n + 1)};
    c.l = shared;
    bool ok = true;
    for (int i = 0; i < o->nlevels && ok; i++) ok = print_level(o, i, shared, &all, d);
    if (ok) print_chosen(&c, &all, source, header);
    str_free(&all.text);
    printer_free(&c);
    return ok && !c.failed;
}

bool codegen_c(const Program *p, const EmitOptions *o, Str *source, Str *header, Diag *d) {
    Arena *a = arena_new();
    Str unread = {0};
    Str *to = header ? header : &unread;
    bool ok = o->nlevels ? print_levels(a, o, source, to, d) : print_one(a, p, o, source, to, d);
    str_free(&unread);
    arena_free(a);
    return ok;
}
