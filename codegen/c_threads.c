// Kernels that several threads run: parallel loops cut into chunks, teams cut at their barriers.
//
// Threads get a function `void (void *ctx, int64_t i)`, the shape of env's parallel_for, whose ctx is a struct with the kernel's arguments
// on the caller's stack. A chunk writes its status into its own element, so that the first one in order counts, whatever ran first. A
// team's part between two barriers is such a function of the member's number; waiting for all members is the barrier, and seq loops around
// barriers run on the calling thread. So any number of threads gives the same result.
#include "c_print.h"

#include <string.h>

enum { TASKS = 64 }; // chunks a parallel loop is cut into at most

// ---- helpers in the file ----
static void make_spread(C *c) {
    const char *name = c_fmt(c, "%s_spread", c->prefix);
    if (!c_need(c, name)) return;
    c_function_text(c, name, "void", "const mlc_env *env, void (*fn)(void *ctx, int64_t i), void *ctx, int64_t n",
        "    if (n > 1 && env->pool != NULL && env->pool->threads > 1) env->pool->parallel_for(env->pool, fn, ctx, n);\n"
        "    else if (n > 1 && env->pool == NULL && env->parallel_for != NULL) env->parallel_for(env->host, fn, ctx, n);\n"
        "    else\n"
        "        for (int64_t i = 0; i < n; i++) fn(ctx, i);\n");
}

// How many chunks are worth making: four a thread, TASKS where the host does not say how many threads it has.
static void make_tasks(C *c) {
    const char *name = c_fmt(c, "%s_tasks", c->prefix);
    if (!c_need(c, name)) return;
    c_function_text(c, name, "int32_t", "const mlc_env *env",
        c_fmt(c,
            "    if (env->pool == NULL) return env->parallel_for != NULL ? %d : 1;\n"
            "    return env->pool->threads < 2 ? 1 : env->pool->threads < %d ? 4 * env->pool->threads : %d;\n",
            TASKS, TASKS / 4, TASKS));
}

// ---- the struct of arguments ----
static void struct_fields(C *c, const CKernel *k, Str *s) {
    for (int i = 0; i < k->kernel->params.n; i++) {
        const LoopBuffer *b = k->kernel->params.data[i];
        str_printf(s, "    %s%s *%s;\n", b->writes ? "" : "const ", c_memory(c, b->var.type.type), c_name(c, &b->var));
    }
    for (int i = 0; i < k->syms.n; i++) str_printf(s, "    %s_idx %s;\n", c->prefix, c_name(c, k->syms.data[i]));
}

// x, y, N with what stands before each name: "s->x, s->y, s->N".
static Str prefixed(C *c, const CKernel *k, const char *before) {
    Str s = {0};
    str_add(&s, "");
    for (int i = 0; i < k->kernel->params.n; i++) str_printf(&s, "%s%s, ", before, c_name(c, &k->kernel->params.data[i]->var));
    for (int i = 0; i < k->syms.n; i++) str_printf(&s, "%s%s, ", before, c_name(c, k->syms.data[i]));
    return s;
}

static void set_fields(C *c, const CKernel *k) {
    for (int i = 0; i < k->kernel->params.n; i++) {
        const char *name = c_name(c, &k->kernel->params.data[i]->var);
        c_line(c, "s.%s = %s;", name, name);
    }
    for (int i = 0; i < k->syms.n; i++) c_line(c, "s.%s = %s;", c_name(c, k->syms.data[i]), c_name(c, k->syms.data[i]));
}

static const char *const own_words[] = {"s", "env", "ctx", "i", "n", "from", "to", "chunk", "status", "member"};

static CFn enter_kernel(C *c, const CKernel *k) {
    CFn outer = c_enter(c);
    for (size_t i = 0; i < sizeof own_words / sizeof *own_words; i++) c_reserve(c, own_words[i]);
    c_kernel_names(c, k);
    return outer;
}

// ---- parallel loops ----
static void task_function(C *c, const CKernel *k) {
    Str args = prefixed(c, k, "s->"), body = {0};
    str_printf(&body, "    %s_args *s = ctx;\n    %s_idx from = s->from + (%s_idx)i * s->chunk;\n", k->name, c->prefix, c->prefix);
    str_printf(&body, "    %s_idx to = s->to - from < s->chunk ? s->to : from + s->chunk;\n", c->prefix);
    str_printf(&body, "    %s%s(%sfrom, to);\n", k->fails ? "s->status[i] = " : "", k->name, args.data);
    c_kernel_emit(c, "void", c_fmt(c, "%s_task", k->name), "void *ctx, int64_t i", body);
    str_free(&args);
}

void c_spread_function(C *c, const CKernel *k) {
    make_spread(c);
    make_tasks(c);
    CFn outer = enter_kernel(c, k);
    str_add(&c->code, "typedef struct {\n");
    struct_fields(c, k, &c->code);
    str_printf(&c->code, "    %s_idx from, to, chunk;\n", c->prefix);
    if (k->fails) str_printf(&c->code, "    int32_t status[%d];\n", TASKS);
    str_printf(&c->code, "} %s_args;\n", k->name);
    task_function(c, k);

    Str params = c_kernel_params(c, k), args = prefixed(c, k, "");
    long long step = k->outer->step;
    const char *result = k->fails ? "int32_t" : "void", *idx = c_fmt(c, "%s_idx", c->prefix);
    if (step == 1)
        c_line(c, "const %s n = to - from;", idx);
    else
        c_line(c, "const %s n = (to - from + %lld) / %lld;", idx, step - 1, step);
    c_line(c, "%s tasks = %s_tasks(env);", idx, c->prefix);
    c_line(c, "if (tasks > n) tasks = n;");
    c_line(c, "if (tasks < 2) {");
    c_line(c, "    %s%s(%sfrom, to);", k->fails ? "return " : "", k->name, args.data);
    if (!k->fails) c_line(c, "    return;");
    c_line(c, "}");
    c_line(c, "%s_args s;", k->name);
    set_fields(c, k);
    c_line(c, "s.from = from;");
    c_line(c, "s.to = to;");
    const char *times = step == 1 ? "" : c_fmt(c, " * %lld", step);
    c_line(c, "s.chunk = (n + tasks - 1) / tasks%s;", times);
    c_line(c, "tasks = (to - from + s.chunk - 1) / s.chunk;");
    c_line(c, "%s_spread(env, %s_task, &s, tasks);", c->prefix, k->name);
    if (k->fails) {
        c_line(c, "for (%s i = 0; i < tasks; i++)", idx);
        c_line(c, "    if (s.status[i] != 0) return s.status[i];");
        c_line(c, "return 0;");
    }
    Str body = c_leave(c, outer);
    const char *all = c_fmt(c, "const mlc_env *env, %s%s%s from, %s to", params.data, params.n ? ", " : "", idx, idx);
    c_kernel_emit(c, result, c_fmt(c, "%s_spread", k->name), all, body);
    str_free(&params);
    str_free(&args);
}

// ---- teams ----
// A seq loop around barriers or a local of the team: members find it in the struct.
typedef struct {
    const void *key;
    const char *name, *field; // field: its declaration in the struct
    const LoopBuffer *local;  // NULL: a loop's symbol
    int64_t size;             // of the local a member, in elements
} Shared;

typedef struct {
    const CKernel *k;
    VEC(Shared) shared;
    int members; // at most; 0 unknown
    int parts;
    PtrSet used;
    Str text; // functions of the parts, which stand before the kernel's
} Team;

static bool has_barrier(const Block *b) {
    for (int i = 0; i < b->n; i++)
        if (b->data[i]->kind == ST_BARRIER || (b->data[i]->kind == ST_FOR && has_barrier(&b->data[i]->body))) return true;
    return false;
}

static void share_local(C *c, Team *t, const Stmt *s) {
    const LoopBuffer *b = s->var->owner;
    int64_t n;
    if (!t->members || !dim_is_int(b->shape[0], &n)) {
        c_unsupported(c, "kernel %s: a team with locals needs a bounded number of members", t->k->kernel->name);
        return;
    }
    n = (n + 63) / 64 * 64;
    const char *name = c_declare(c, s->var, s->var->name), *type = c_memory(c, s->var->type.type);
    Shared sh = {s->var, name, c_fmt(c, "%s *%s", type, name), b, n};
    vec_push(c->a, &t->shared, sh);
    c_line(c, "%s %s[%lld]%s;", type, name, (long long)(n * t->members), c->hosted ? " __attribute__((aligned(64)))" : "");
    c_line(c, "s.%s = %s;", name, name);
}

// Locals and loops that parts share, declared in the kernel's function.
static void collect_shared(C *c, Team *t, const Block *b) {
    for (int i = 0; i < b->n; i++) {
        const Stmt *s = b->data[i];
        if (s->kind == ST_LOCAL) share_local(c, t, s);
        if (s->kind != ST_FOR || !has_barrier(&s->body)) continue;
        const char *name = c_declare(c, s->sym, dim_as_symbol(s->sym)->name);
        Shared sh = {s->sym, name, c_fmt(c, "%s_idx %s", c->prefix, name), NULL, 0};
        vec_push(c->a, &t->shared, sh);
        collect_shared(c, t, &s->body);
    }
}

// The struct's members as constants of a part, those that it reads.
static void part_names(C *c, Team *t, const PtrSet *used) {
    const CKernel *k = t->k;
    for (int i = 0; i < k->kernel->params.n; i++) {
        const LoopBuffer *b = k->kernel->params.data[i];
        const char *name = c_name(c, &b->var);
        if (ptrset_count(used, &b->var))
            c_line(c, "%s%s *const %s = s->%s;", b->writes ? "" : "const ", c_memory(c, b->var.type.type), name, name);
    }
    for (int i = 0; i < k->syms.n; i++) {
        const char *name = c_name(c, k->syms.data[i]);
        if (ptrset_count(used, k->syms.data[i])) c_line(c, "const %s_idx %s = s->%s;", c->prefix, name, name);
    }
    for (int i = 0; i < t->shared.n; i++) {
        const Shared *sh = &t->shared.data[i];
        if (!ptrset_count(used, sh->key)) continue;
        if (!sh->local)
            c_line(c, "const %s_idx %s = s->%s;", c->prefix, sh->name, sh->name);
        else
            c_line(
                c, "%s *const %s = s->%s + member * %lld;", c_memory(c, sh->local->var.type.type), sh->name, sh->name, (long long)sh->size);
    }
}

// Statements first..last-1 of b as a function; the kernel's function calls it for all members.
static void print_part(C *c, Team *t, const Block *b, int first, int last) {
    Block part = {.data = b->data + first, .n = last - first};
    const char *name = c_fmt(c, "%s_part%d", t->k->name, ++t->parts);
    PtrSet used = {0};
    c_note_uses(c, &part, &used);
    CFn outer = enter_kernel(c, t->k);
    c->f.used = &used;
    c->f.leave = "{ s->status[member] = %s; return; }";
    for (int i = 0; i < t->shared.n; i++) vec_push(c->a, &c->f.names, ((CName){t->shared.data[i].key, t->shared.data[i].name, false}));
    const char *member = c_declare(c, t->k->outer->sym, dim_as_symbol(t->k->outer->sym)->name);
    bool index = c_uses_index(&part), args = false;
    c_line(c, "%s_args *s = ctx;", t->k->name);
    part_names(c, t, &used);
    if (ptrset_count(&used, t->k->outer->sym)) c_line(c, "const %s_idx %s = (%s_idx)member;", c->prefix, member, c->prefix);
    if (index) c_line(c, "int32_t bad = 0;");
    for (int i = 0; i < part.n; i++)
        if (part.data[i]->kind != ST_LOCAL) c_statement(c, part.data[i]), args = true;
    char status[32];
    if (index) c_line(c, "if (bad) s->status[member] = %s;", c_status(CODE_INDEX, t->k->kernel->node, status));
    c_line(c, "(void)s;");
    c_line(c, "(void)member;");
    Str body = c_leave(c, outer);
    if (!args) {
        str_free(&body);
        return;
    }
    Str code = c->code;
    c->code = t->text;
    c_kernel_emit(c, "void", name, "void *ctx, int64_t member", body);
    t->text = c->code;
    c->code = code;
    c_line(c, "%s_spread(env, %s, &s, n);", c->prefix, name);
    if (!t->k->fails) return;
    c_line(c, "for (int64_t i = 0; i < n; i++)");
    c_line(c, "    if (s.status[i] != 0) return s.status[i];");
}

static void print_parts(C *c, Team *t, const Block *b) {
    int first = 0;
    for (int i = 0; i <= b->n && !c->failed; i++) {
        const Stmt *s = i < b->n ? b->data[i] : NULL;
        bool loop = s && s->kind == ST_FOR && has_barrier(&s->body);
        if (s && s->kind != ST_BARRIER && !loop) continue;
        if (i > first) print_part(c, t, b, first, i);
        first = i + 1;
        if (!loop) continue;
        const char *v = c_name(c, s->sym);
        c_line(c, "for (s.%s = %s; s.%s < %s; s.%s += %lld) {", v, c_dim(c, s->lo).s, v, c_dim_operand(c, s->hi), v, (long long)s->step);
        c->f.depth++;
        int mark = c->f.names.n; // bounds of inner loops read the struct
        vec_push(c->a, &c->f.names, ((CName){s->sym, c_fmt(c, "s.%s", v), false}));
        print_parts(c, t, &s->body);
        c->f.names.n = mark;
        c->f.depth--;
        c_line(c, "}");
    }
}

void c_team_function(C *c, const CKernel *k) {
    make_spread(c);
    int64_t lo, hi;
    dim_interval(k->outer->hi, &lo, &hi);
    Team t = {.k = k, .members = hi > 4096 ? 0 : (int)hi};
    if (k->fails && !t.members) c_unsupported(c, "kernel %s: a team that can fail needs a bounded number of members", k->kernel->name);
    CFn outer = enter_kernel(c, k);
    Str params = c_kernel_params(c, k);
    c_line(c, "%s_args s;", k->name);
    c_line(c, "const int64_t n = %s;", c_dim(c, k->outer->hi).s);
    set_fields(c, k);
    if (k->fails) c_line(c, "memset(s.status, 0, sizeof s.status);");
    collect_shared(c, &t, &k->outer->body);
    print_parts(c, &t, &k->outer->body);
    if (k->fails) c_line(c, "return 0;");
    str_add(&c->code, "typedef struct {\n");
    struct_fields(c, k, &c->code);
    for (int i = 0; i < t.shared.n; i++) str_printf(&c->code, "    %s;\n", t.shared.data[i].field);
    str_printf(&c->code, "    int32_t status[%d];\n} %s_args;\n", k->fails ? t.members : 1, k->name);
    Str body = c_leave(c, outer);
    if (t.text.n) str_addn(&c->code, t.text.data, t.text.n);
    str_free(&t.text);
    c_kernel_emit(c, k->fails ? "int32_t" : "void", k->name, c_fmt(c, "const mlc_env *env%s%s", params.n ? ", " : "", params.data), body);
    str_free(&params);
}
