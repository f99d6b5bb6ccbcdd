// The program around the kernels: PREFIX_body, which finds every buffer and calls the kernels in order.
//
// Buffers are pointers declared at the top, those whose offset needs a size of main are written out where they are used. Sizes of main are
// variables of the function, for a kernel behind an `if` may define them. Memory from env's allocator is freed on every way out.
#include "c_print.h"

#include <string.h>

// ---- buffers ----
static void find_own(void *ctx, const Dim *sym) {
    if (dim_as_symbol(sym)->kind != SYM_MODEL) *(bool *)ctx = true;
}
static bool needs_size(const Dim *d) {
    bool found = false;
    dim_symbols(d, find_own, &found);
    return found;
}

static const char *temp_place(C *c, int i) {
    const char *base = c->l->temp_region[i] < 0 ? "arena" : c_fmt(c, "(unsigned char *)env->regions[%d]", c->l->temp_region[i]);
    const Dim *offset = c->l->temp_offset[i];
    return dim_is(offset, 0) ? base : c_fmt(c, "%s + %s", base, c_dim_operand(c, offset));
}

const char *c_weights(C *c) {
    return c->o->weights == WEIGHTS_OBJECT ? weights_symbol(c->a, c->iface, c->l->weights_hash) : "(const unsigned char *)env->weights";
}

const char *c_constant(C *c, const WeightPlace *w) {
    const WeightPlace *first = &c->l->weights.data[w->first];
    const char *level = first->level ? c_fmt(c, "%d_", first->level) : "";
    return c_fmt(c, "%s_c_%s%s", c->iface, level, codegen_cname(c->a, first->buffer->var.name));
}

const char *c_buffer(C *c, const Var *buf) {
    const char *name = c_name(c, buf);
    if (name) return name;
    const LoopBuffer *b = buf->owner;
    if (b->kind == BUF_CONST && c->o->weights != WEIGHTS_INLINE)
        return c_fmt(
            c, "((const %s *)(const void *)(%s + %zu))", c_memory(c, buf->type.type), c_weights(c), layout_weight(c->l, b)->offset);
    if (b->kind == BUF_CONST) return c_constant(c, layout_weight(c->l, b));
    int i = b->kind == BUF_TEMP ? layout_temp(c->l, b) : -1;
    if (i >= 0) return c_fmt(c, "((%s *)(void *)(%s))", c_memory(c, buf->type.type), temp_place(c, i));
    c_unsupported(c, "buffer '%s' is not in scope", buf->name);
    return "0";
}

static void declare_buffer(C *c, const LoopBuffer *b, const char *place) {
    if (!ptrset_count(&c->main_uses, &b->var)) return;
    const char *name = c_declare(c, &b->var, b->var.name);
    Str shape = {0};
    for (int i = 0; i < b->rank; i++) str_printf(&shape, "%s%s", i ? ", " : "", dim_text(c->t, b->shape[i]));
    c_line(c, "%s%s *%s%s = %s; // %s[%s]", b->kind == BUF_INPUT ? "const " : "", c_memory(c, b->var.type.type),
        b->unbounded ? "" : "const ", name, place, dtype_name(b->var.type.type), shape.data ? shape.data : "");
    str_free(&shape);
}

static const char *output_place(C *c, const LayoutSlot *s) {
    if (s->tie >= 0) return c_fmt(c, "(void *)(state + %zu)", c->l->states[s->tie].offset);
    if (!s->fallback) return c_fmt(c, "(void *)out->%s", s->name);
    return c_fmt(c, "out->%s != NULL ? (void *)out->%s : (void *)(arena + %s)", s->name, s->name, c_dim_operand(c, s->fallback));
}

static void declare_buffers(C *c) {
    const Layout *l = c->l;
    for (int i = 0; i < l->ninputs; i++) declare_buffer(c, l->inputs[i].buffer, c_fmt(c, "(const void *)in->%s", l->inputs[i].name));
    for (int i = 0; i < l->noutputs; i++) declare_buffer(c, l->outputs[i].buffer, output_place(c, &l->outputs[i]));
    for (int i = 0; i < l->nstates; i++) declare_buffer(c, l->states[i].buffer, c_fmt(c, "(void *)(state + %zu)", l->states[i].offset));
    for (int i = 0; i < l->ntemps; i++)
        if (!needs_size(l->temp_offset[i])) declare_buffer(c, l->temps[i], c_fmt(c, "(void *)(%s)", temp_place(c, i)));
}

// ---- calls ----
static void leave_if_status(C *c) {
    c_line(c, "if (status != 0) %s;", c->l->allocates ? "goto done" : "return status");
}

// Asks env's hook, before (phase 0) or after (1) a kernel.
static void print_hook(C *c, const Kernel *k, int phase) {
    if (!c->o->hooks) return;
    char status[32];
    const char *name = c_fmt(c, "%s_hook", c->prefix);
    if (c_need(c, name))
        c_function_text(c, name, "int32_t", "const mlc_env *env, int32_t kernel, int32_t phase, int32_t cancelled",
            "    return env->hook != NULL && env->hook(env->user, kernel, phase) != 0 ? cancelled : 0;\n");
    c_line(c, "status = %s(env, %d, %d, %s);", name, layout_kernel(c->p, k), phase, c_status(CODE_CANCELLED, k->node, status));
    leave_if_status(c);
}

static void print_call(C *c, const Stmt *s) {
    const CKernel *k = c_kernel_of(c, s->kernel);
    bool team = k->outer && k->outer->kind == ST_TEAM, loop = k->outer && !team, spread = loop && s->parallel;
    Str args = {0};
    if (team || spread) str_add(&args, "env");
    for (int i = 0; i < s->nargs; i++) str_printf(&args, "%s%s", args.n ? ", " : "", c_buffer(c, &s->args[i]->var));
    for (int i = 0; i < k->syms.n; i++) str_printf(&args, "%s%s", args.n ? ", " : "", c_dim(c, k->syms.data[i]).s);
    if (loop) str_printf(&args, "%s%s, %s", args.n ? ", " : "", c_dim(c, k->outer->lo).s, c_dim(c, k->outer->hi).s);
    print_hook(c, s->kernel, 0);
    c_line(c, "%s%s%s(%s);", k->fails ? "status = " : "", k->name, spread ? "_spread" : "", args.data ? args.data : "");
    str_free(&args);
    if (k->fails) leave_if_status(c);
    print_hook(c, s->kernel, 1);
}

// ---- sizes ----
typedef struct {
    const C *c;
    const Dim *sym;
    bool here, all;
} Mention;

static void mention(void *ctx, const Dim *sym) {
    Mention *m = ctx;
    m->here |= sym == m->sym;
    if (dim_as_symbol(sym)->kind == SYM_DATA && sym != m->sym) m->all &= ptrset_count(&m->c->sized, sym) > 0;
}

static void fail_if(C *c, const char *cond, int code) {
    char status[32];
    c_line(c, "if (%s) {", cond);
    c->f.depth++;
    c_fail(c, c_status(code, 0, status));
    c->f.depth--;
    c_line(c, "}");
}

// Once the last size of a dynamic output is known: its shape, and whether it fits.
static void settle_output(C *c, const LayoutSlot *s, const Dim *sym) {
    Mention m = {c, sym, false, true};
    for (int i = 0; i < s->buffer->rank; i++) dim_symbols(s->buffer->shape[i], mention, &m);
    if (!m.here || !m.all) return;
    for (int i = 0; i < s->buffer->rank; i++) c_line(c, "out->%s_info.shape[%d] = %s;", s->name, i, c_dim(c, s->buffer->shape[i]).s);
    const char *wanted = s->fallback ? c_fmt(c, "out->%s != NULL && ", s->name) : "";
    fail_if(c, c_fmt(c, "%sout->%s_info.capacity < (size_t)%s", wanted, s->name, c_dim_operand(c, s->elements)), CODE_CAPACITY);
}

static void print_size(C *c, const Stmt *s) {
    const Sym *sym = dim_as_symbol(s->sym);
    int mark = c->f.names.n;
    c_hoist(c, 1, &s->value);
    const char *name = c_name(c, s->sym);
    c_line(c, "%s = %s;", name, c_expr(c, s->value).s);
    c_unhoist(c, mark);
    const char *low = sym->lo ? c_fmt(c, "%s < %s", name, c_dim_operand(c, sym->lo)) : NULL;
    const char *high = sym->hi ? c_fmt(c, "%s > %s", name, c_dim_operand(c, sym->hi)) : NULL;
    if (low || high) fail_if(c, low && high ? c_fmt(c, "%s || %s", low, high) : low ? low : high, CODE_CAPACITY);
    ptrset_add(c->a, &c->sized, s->sym);
    for (int i = 0; i < c->l->noutputs; i++)
        if (c->l->outputs[i].dynamic) settle_output(c, &c->l->outputs[i], s->sym);
}

// ---- memory from the allocator ----
static void print_free(C *c, const Stmt *s) {
    const char *name = c_buffer(c, &s->args[0]->var);
    c_line(c, "if (%s != NULL) env->dealloc(env->user, %s);", name, name);
    c_line(c, "%s = NULL;", name);
}

static void print_alloc(C *c, const Stmt *s) {
    print_free(c, s);
    const char *name = c_buffer(c, &s->args[0]->var);
    c_line(c, "%s = env->alloc(env->user, (size_t)%s);", name, c_dim_operand(c, loop_alloc_bytes(c->p, s)));
    fail_if(c, c_fmt(c, "%s == NULL", name), CODE_MEMORY);
}

void c_main_statement(C *c, const Stmt *s) {
    if (s->kind == ST_CALL)
        print_call(c, s);
    else if (s->kind == ST_SIZE)
        print_size(c, s);
    else if (s->kind == ST_ALLOC)
        print_alloc(c, s);
    else
        print_free(c, s);
}

// ---- the function ----
// A caller's pointer must be there, unless the tensor is empty, and aligned to its elements.
static void check_pointer(C *c, const char *pointer, const LayoutSlot *s, bool wanted) {
    int64_t n;
    bool constant = dim_is_int(s->elements, &n);
    int bytes = dtype_bytes(s->buffer->var.type.type), align = bytes > 8 ? 8 : bytes;
    const char *null = !wanted || (constant && n == 0) ? "" : c_fmt(c, "%s == NULL", pointer);
    if (null[0] && !constant && !s->dynamic) null = c_fmt(c, "(%s && %s != 0)", null, c_dim_operand(c, s->elements));
    const char *odd = align > 1 ? c_fmt(c, "((uintptr_t)%s & %d) != 0", pointer, align - 1) : "";
    if (null[0] || odd[0]) fail_if(c, c_fmt(c, "%s%s%s", null, null[0] && odd[0] ? " || " : "", odd), CODE_POINTER);
}

static void check_pointers(C *c) {
    const Layout *l = c->l;
    for (int i = 0; i < l->ninputs; i++) check_pointer(c, c_fmt(c, "in->%s", l->inputs[i].name), &l->inputs[i], true);
    for (int i = 0; i < l->noutputs; i++) {
        const LayoutSlot *s = &l->outputs[i];
        check_pointer(c, c_fmt(c, "out->%s", s->name), s, s->tie < 0 && !s->fallback);
    }
}

static void declare_size(void *ctx, Stmt *s) {
    C *c = ctx;
    if (s->kind != ST_SIZE || c_name(c, s->sym)) return;
    c_line(c, "%s_idx %s = 0;", c->prefix, c_declare(c, s->sym, dim_as_symbol(s->sym)->name));
}

static void leave_main(C *c) {
    for (int i = 0; i < c->l->noutputs; i++) {
        const LayoutSlot *s = &c->l->outputs[i];
        if (s->tie >= 0)
            c_line(c, "if (out->%s != NULL) memcpy(out->%s, state + %zu, (size_t)%s);", s->name, s->name, c->l->states[s->tie].offset,
                c_dim_operand(c, s->bytes));
    }
    char status[32];
    if (c_uses_index(&c->p->main)) c_line(c, "if (bad) status = %s;", c_status(CODE_INDEX, 0, status));
    if (c->l->allocates) str_add(&c->f.out, "done:\n");
    for (int i = 0; i < c->p->buffers.n; i++) {
        const LoopBuffer *b = c->p->buffers.data[i];
        const char *name = b->unbounded ? c_name(c, &b->var) : NULL;
        if (name) c_line(c, "if (%s != NULL) env->dealloc(env->user, %s);", name, name);
    }
    c_line(c, "return status;");
}

void c_main(C *c) {
    static const char *const words[] = {"dims", "in", "out", "env", "arena", "state", "status", "done"};
    CFn outer = c_enter(c);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) c_reserve(c, words[i]);
    if (c->l->allocates) c->f.leave = "{ status = %s; goto done; }";
    c->f.used = &c->main_uses;
    c_line(c, "unsigned char *const arena = env->arena, *const state = env->state;");
    c_line(c, "int32_t status = 0;");
    c_line(c, "(void)dims, (void)in, (void)out, (void)arena, (void)state;");
    if (c_uses_index(&c->p->main)) c_line(c, "int32_t bad = 0;");
    for (int i = 0; i < c->l->ndims; i++) {
        const LayoutDim *m = &c->l->dims[i];
        const char *name = c_declare(c, m->sym, m->name);
        c_line(c, "const %s_idx %s = (%s_idx)dims->%s;", c->prefix, name, c->prefix, m->cname);
        c_line(c, "(void)%s;", name);
    }
    for (int i = 0; i < c->p->buffers.n; i++) // before anything that may leave
        if (c->p->buffers.data[i]->unbounded) declare_buffer(c, c->p->buffers.data[i], "NULL");
    Block body = c->p->main;
    loop_walk(&body, declare_size, c);
    check_pointers(c);
    declare_buffers(c);
    c_block(c, &c->p->main);
    leave_main(c);
    Str text = c_leave(c, outer);
    const char *params =
        c_fmt(c, "const %s_dims *dims, const %s_inputs *in, %s_outputs *out, const mlc_env *env", c->iface, c->iface, c->iface);
    str_add(&c->code, "\n");
    c_kernel_emit(c, "int32_t", c_fmt(c, "%s_body", c->prefix), params, text);
}
