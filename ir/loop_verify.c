// The rules of a legal Program. Passes, printers and the interpreter rely on all of them; a message names the rule's number.
//
//  1 A name is a word (those of dims may be any text), not reserved, and defined once in its function; a kernel does not define a name of
//    the model's or main's symbols.
//  2 A name is used after its definition and inside the block of it. States of a reduce live on behind it; combine sees no name of the body.
//  3 Each expression node has the type that expr_check asks for; the value's type is the place's; there is no a0, a1, ….
//  4 Indices do not overflow their coefficients and mention no axis; a step is positive; an unrolled loop has a constant number of
//    iterations.
//  5 A tile is indexed by constants and symbols of unrolled loops with constant bounds only, inside its extents.
//  6 Only variables, states and tiles are set.
//  7 A break stands in a seq for or a while, with no other kind of loop in between.
//  8 A team is the only statement of its kernel; barriers stand in its block or in seq loops that are the same for all members, and no name
//    of such a block is used across a barrier.
//  9 A parallel loop is a par loop and the only statement of its kernel; only such kernels are called `parallel`.
// 10 A parameter that is read is `in`, one that is written `out`; inputs and constants are not written.
// 11 No access can be proven to lie outside its buffer.
// 12 A par loop sets no variable or tile from outside of it, a reduce only its states (and those of the reduces around it), a combine its
//    states.
// 13 Calls, sizes, alloc and free stand in main; teams, barriers, tiles, locals and parallel loops do not.
// 14 A call passes one buffer a parameter, of its type, not smaller; the symbols its kernel and its buffers need are defined; a parameter
//    that is written and disjoint shares its buffer with no other.
// 15 A data dim is defined by one size statement; others may set it anew where that one is visible.
// 16 A buffer's shape mentions dims of the model and data dims only; a constant has as many bytes as its shape says; a tied output has the
//    type and shape of its state.
// 17 A check has a known code and a node that is not negative.
#include "loop_verify.h"

// ---- statements ----

static void check_block(Verifier *v, const Block *b);
static void check_barrier_block(Verifier *v, const Block *b);
static void check_stmt(Verifier *v, const Stmt *s);

static void find_barrier(void *ctx, Stmt *s) {
    if (s->kind == ST_BARRIER) *(bool *)ctx = true;
}
static bool has_barrier(const Block *b) {
    bool found = false;
    Block copy = *b;
    loop_walk(&copy, find_barrier, &found);
    return found;
}

// A break that leaves this loop: not one of a loop inside.
static bool has_break(const Block *b) {
    for (int i = 0; i < b->n; i++) {
        const Stmt *s = b->data[i];
        if (s->kind == ST_BREAK) return true;
        if (s->kind == ST_IF && (has_break(&s->body) || has_break(&s->orelse))) return true;
    }
    return false;
}

// Comments do not count.
static bool only_statement(const Block *b, const Stmt **out) {
    int n = 0;
    for (int i = 0; i < b->n; i++)
        if (b->data[i]->kind != ST_COMMENT) *out = b->data[i], n++;
    return n == 1;
}

static void check_loop_head(Verifier *v, const Stmt *s) {
    if (s->step < 1) verify_fault(v, 4, "step must be positive, found %lld", (long long)s->step);
    if (s->unroll && !dim_is_int(dim_sub(v->p->dims, s->hi, s->lo), NULL))
        verify_fault(v, 4, "an unrolled loop has a constant number of iterations");
    if (!s->parallel) return;
    if (!v->kernel) verify_fault(v, 13, "a parallel loop stands in main");
    const Stmt *only = NULL;
    bool alone = v->kernel && only_statement(&v->kernel->body, &only) && only == s;
    if (s->loop != LOOP_PAR || !alone) verify_fault(v, 9, "a parallel loop is a par loop and the only statement of its kernel");
}

static void open_loop(Verifier *v, const Stmt *s) {
    bool counted = s->kind != ST_WHILE;
    bool nonempty = counted && dim_lt(v->p->dims, s->lo, s->hi) == YES;
    bool constant = counted && dim_is_int(s->lo, NULL) && dim_is_int(s->hi, NULL);
    vec_push(v->arena, &v->loops, ((OpenLoop){s, nonempty && !has_break(&s->body), s->unroll && constant}));
}

static void check_inner(Verifier *v, const Block *b) {
    if (v->team && has_barrier(b))
        check_barrier_block(v, b);
    else
        check_block(v, b);
}

static void check_for(Verifier *v, const Stmt *s) {
    check_loop_head(v, s);
    open_loop(v, s);
    int mark = v->names.n;
    verify_define_symbol(v, s->sym);
    check_inner(v, &s->body);
    verify_end_names(v, mark, NAME_ENDED);
    v->loops.n--;
}

static void check_reduce(Verifier *v, const Stmt *s) {
    check_loop_head(v, s);
    for (int i = 0; i < s->nstates; i++) {
        verify_type(v, s->states[i]->name, s->states[i]->type, s->inits[i]->type);
        verify_define_var(v, s->states[i]);
    }
    open_loop(v, s);
    int mark = v->names.n;
    verify_define_symbol(v, s->sym);
    check_block(v, &s->body);
    verify_end_names(v, mark, NAME_ENDED);
    for (int i = 0; i < s->nstates && s->orelse.n; i++) verify_define_var(v, s->others[i]);
    check_block(v, &s->orelse);
    verify_end_names(v, mark, NAME_ENDED);
    v->loops.n--;
}

static void check_conditional(Verifier *v, const Block *b) {
    v->conditional++;
    check_block(v, b);
    v->conditional--;
}

static void check_if(Verifier *v, const Stmt *s) {
    verify_type(v, "condition", vtype(DT_bool, 1), s->value->type);
    check_conditional(v, &s->body);
    check_conditional(v, &s->orelse);
}

static void check_while(Verifier *v, const Stmt *s) {
    verify_type(v, "condition", vtype(DT_bool, 1), s->value->type);
    open_loop(v, s);
    check_conditional(v, &s->body);
    v->loops.n--;
}

static void check_let(Verifier *v, const Stmt *s) {
    if (s->sym) {
        verify_type(v, "value", vtype(DT_idx, 1), s->value->type);
        verify_define_symbol(v, s->sym);
        return;
    }
    if (vtype_same(s->var->type, vtype(DT_idx, 1))) verify_fault(v, 3, "'%s' must be a symbol: it is an idx scalar", s->var->name);
    verify_type(v, "value", s->var->type, s->value->type);
    verify_define_var(v, s->var);
}

static void check_var(Verifier *v, const Stmt *s) {
    if (s->kind == ST_TILE && !v->kernel) verify_fault(v, 13, "a tile stands in main");
    verify_type(v, "value", s->var->type, s->value->type);
    verify_define_var(v, s->var);
}

// The loops between a variable's definition and the place may let it be set.
static void check_set_through(Verifier *v, const Var *var) {
    int depth = ptr_map_get(&v->depth, var);
    for (int i = v->loops.n - 1; i >= depth && depth >= 0; i--) {
        const Stmt *l = v->loops.data[i].s;
        if (l->kind == ST_FOR && l->loop == LOOP_PAR) {
            verify_fault(v, 12, "a par loop sets '%s' of outside", var->name);
            return;
        }
        if (l->kind != ST_REDUCE) continue;
        bool own = false;
        for (int k = 0; k <= i; k++)
            for (int j = 0; j < v->loops.data[k].s->nstates; j++) own |= v->loops.data[k].s->states[j] == var;
        if (own) continue;
        verify_fault(v, 12, "a reduce sets '%s', which is not its state", var->name);
        return;
    }
}

static void check_set(Verifier *v, const Stmt *s) {
    if (s->var->kind != VAR_MUT && s->var->kind != VAR_TILE) {
        verify_fault(v, 6, "'%s' cannot be set", s->var->name);
        return;
    }
    verify_use(v, s->var, s->var->name);
    verify_type(v, "value", s->var->type, s->value->type);
    if (s->var->kind == VAR_TILE) verify_tile_index(v, s->var, s->idx);
    check_set_through(v, s->var);
}

static void check_store(Verifier *v, const Stmt *s) {
    const LoopBuffer *b = s->var->owner;
    int lanes = s->value->type.lanes;
    verify_use(v, s->var, s->var->name);
    bool writable = b->kind == BUF_PARAM ? b->writes : b->kind != BUF_INPUT && b->kind != BUF_CONST;
    if (!writable) verify_fault(v, 10, "%s is written but not an output", s->var->name);
    if (s->mask) verify_type(v, "mask", vtype(DT_bool, lanes), s->mask->type);
    if (s->offsets && (s->offsets->type.lanes != lanes || (s->offsets->type.type != DT_idx && s->offsets->type.type != DT_i32)))
        verify_fault(v, 3, "offsets must be idx or i32 with %d lanes", lanes);
    if (s->value->type.type != s->var->type.type && (s->offsets || (lanes > 1 && s->stride != 1)))
        verify_fault(v, 3, "'%s' can be written as %s only contiguously", s->var->name, dtype_name(s->value->type.type));
    if (!s->offsets && !s->mask) verify_bounds(v, s->var, s->dim, lanes, s->stride, s->value->type.type);
}

static void check_break(Verifier *v, const Stmt *s) {
    (void)s;
    const OpenLoop *l = v->loops.n ? &v->loops.data[v->loops.n - 1] : NULL;
    bool ok = l && (l->s->kind == ST_WHILE || (l->s->kind == ST_FOR && l->s->loop == LOOP_SEQ));
    if (!ok) verify_fault(v, 7, "a break stands in a seq for or a while");
}

static void use_free_symbol(void *ctx, const Dim *sym) {
    verify_use_symbol(ctx, sym);
}

static void check_argument(Verifier *v, const Stmt *s, int i) {
    DimTable *t = v->p->dims;
    const LoopBuffer *param = s->kernel->params.data[i], *arg = s->args[i];
    if (arg->var.type.type != param->var.type.type)
        verify_fault(v, 14, "'%s' must be %s, found %s", param->var.name, dtype_name(param->var.type.type), dtype_name(arg->var.type.type));
    if (param->writes && (arg->kind == BUF_INPUT || arg->kind == BUF_CONST))
        verify_fault(v, 10, "%s is written but not an output", arg->var.name);
    const Dim *size = dim_product(t, arg->shape, arg->rank);
    dim_symbols(size, use_free_symbol, v);
    if (param->rank >= 0 && dim_lt(t, size, dim_product(t, param->shape, param->rank)) == YES)
        verify_fault(v, 14, "'%s' has %s elements, its parameter needs more", arg->var.name, dim_text(t, size));
    for (int k = 0; k < s->nargs && param->writes && param->alias == ALIAS_DISJOINT; k++)
        if (k != i && s->args[k] == arg) verify_fault(v, 14, "'%s' is disjoint but passed twice", param->var.name);
}

static void check_call(Verifier *v, const Stmt *s) {
    if (v->kernel) verify_fault(v, 13, "a kernel calls");
    if (s->nargs != s->kernel->params.n) {
        verify_fault(v, 14, "'%s' takes %d buffers, found %d", s->kernel->name, s->kernel->params.n, s->nargs);
        return;
    }
    for (int i = 0; i < s->nargs; i++) check_argument(v, s, i);
    kernel_free_symbols(s->kernel, use_free_symbol, v);
    const Stmt *only = NULL;
    if (s->parallel && (!only_statement(&s->kernel->body, &only) || !only->parallel))
        verify_fault(v, 9, "'%s' has no parallel loop", s->kernel->name);
}

static void check_team(Verifier *v, const Stmt *s) {
    const Stmt *only = NULL;
    if (!v->kernel) verify_fault(v, 13, "a team stands in main");
    if (v->kernel && (!only_statement(&v->kernel->body, &only) || only != s))
        verify_fault(v, 8, "a team is the only statement of its kernel");
    int mark = v->names.n;
    verify_define_symbol(v, s->sym);
    v->team = s->sym;
    check_barrier_block(v, &s->body);
    v->team = NULL;
    verify_end_names(v, mark, NAME_ENDED);
}

static void check_check(Verifier *v, const Stmt *s) {
    verify_type(v, "condition", vtype(DT_bool, 1), s->value->type);
    if (!status_name(s->code) || s->node < 0) verify_fault(v, 17, "status %d of node %d", s->code, s->node);
}

static void check_size(Verifier *v, const Stmt *s) {
    if (v->kernel) verify_fault(v, 13, "a size stands in a kernel");
    verify_type(v, "value", vtype(DT_idx, 1), s->value->type);
    if (dim_as_symbol(s->sym)->kind != SYM_DATA) verify_fault(v, 15, "'%s' is no data dim", dim_as_symbol(s->sym)->name);
    int state = ptr_map_get(&v->state, s->sym);
    if (state == NAME_LIVE) return; // set anew
    if (state >= 0)
        verify_fault(v, 15, "'%s' is defined twice", dim_as_symbol(s->sym)->name);
    else if (names_has(v->words, dim_as_symbol(s->sym)->name))
        verify_fault(v, 1, "name '%s' is defined twice", dim_as_symbol(s->sym)->name);
    ptr_map_put(&v->state, s->sym, NAME_LIVE);
    names_add(v->arena, v->words, dim_as_symbol(s->sym)->name);
    vec_push(v->arena, &v->names, ((LiveName){s->sym, false}));
}

static void check_local(Verifier *v, const Stmt *s) {
    if (!v->kernel) verify_fault(v, 13, "a local stands in main");
    const LoopBuffer *b = s->var->owner;
    if (b->rank != 1 || !dim_is_int(b->shape[0], NULL)) verify_fault(v, 4, "a local has one constant extent");
    verify_define_var(v, s->var);
}

static void check_memory(Verifier *v, const Stmt *s) {
    if (v->kernel) verify_fault(v, 13, "a kernel allocates");
    if (!s->args[0]->unbounded || s->args[0]->kind != BUF_TEMP) verify_fault(v, 13, "'%s' is no unbounded temp", s->args[0]->var.name);
}

static void check_barrier(Verifier *v, const Stmt *s) {
    (void)s;
    verify_fault(v, v->kernel ? 8 : 13, "a barrier stands in a team's block or a seq loop of it");
}

static void check_comment(Verifier *v, const Stmt *s) {
    (void)v;
    (void)s;
}

static void check_stmt(Verifier *v, const Stmt *s) {
    static void (*const check[ST_COUNT])(Verifier * v, const Stmt *s) = {[ST_FOR] = check_for,
        [ST_REDUCE] = check_reduce,
        [ST_WHILE] = check_while,
        [ST_IF] = check_if,
        [ST_BREAK] = check_break,
        [ST_LET] = check_let,
        [ST_VAR] = check_var,
        [ST_TILE] = check_var,
        [ST_SET] = check_set,
        [ST_STORE] = check_store,
        [ST_LOCAL] = check_local,
        [ST_CHECK] = check_check,
        [ST_CALL] = check_call,
        [ST_TEAM] = check_team,
        [ST_BARRIER] = check_barrier,
        [ST_SIZE] = check_size,
        [ST_ALLOC] = check_memory,
        [ST_FREE] = check_memory,
        [ST_COMMENT] = check_comment};
    v->at = s;
    Stmt copy = *s;
    stmt_dims(&copy, verify_visit_dim, v);
    stmt_exprs(&copy, verify_visit_expr, v);
    check[s->kind](v, s);
    v->at = NULL;
}

static void check_block(Verifier *v, const Block *b) {
    int mark = v->names.n;
    for (int i = 0; i < b->n; i++) check_stmt(v, b->data[i]);
    verify_end_names(v, mark, NAME_ENDED);
}

// ---- teams ----

// The bounds of a loop with barriers: names of the team's blocks are out of reach by then, so only the member itself differs.
static void check_uniform(Verifier *v, const Stmt *s) {
    if (dim_has_symbol(s->lo, v->team) || dim_has_symbol(s->hi, v->team))
        verify_fault(v, 8, "the bounds of a loop with barriers are the same for all members");
}

// A barrier ends the names from mark on, except local buffers.
static void cross(Verifier *v, int mark) {
    int kept = mark;
    for (int i = mark; i < v->names.n; i++) {
        if (v->names.data[i].buffer)
            v->names.data[kept++] = v->names.data[i];
        else
            ptr_map_put(&v->state, v->names.data[i].what, NAME_CROSSED);
    }
    v->names.n = kept;
}

static void check_barrier_stmt(Verifier *v, const Stmt *s, int mark) {
    bool split = has_barrier(&s->body) || has_barrier(&s->orelse);
    if (s->kind == ST_BARRIER || split) cross(v, mark);
    if (s->kind == ST_BARRIER) return;
    v->at = s;
    if (split && (s->kind != ST_FOR || s->loop != LOOP_SEQ)) {
        verify_fault(v, 8, "a barrier stands in a team's block or a seq loop of it");
        return;
    }
    if (split) check_uniform(v, s);
    check_stmt(v, s);
    if (split) cross(v, mark);
}

static void check_barrier_block(Verifier *v, const Block *b) {
    int mark = v->names.n;
    for (int i = 0; i < b->n; i++) check_barrier_stmt(v, b->data[i], mark);
    verify_end_names(v, mark, NAME_ENDED);
}

// ---- functions and the header ----

static void live_symbol(Verifier *v, const Dim *sym) {
    ptr_map_put(&v->state, sym, NAME_LIVE);
    names_add(v->arena, v->words, dim_as_symbol(sym)->name);
}

static void live_main_symbol(void *ctx, Stmt *s) {
    if (s->sym) live_symbol(ctx, s->sym);
}

static void check_kernel(const Program *p, const Kernel *k, Diag *d) {
    Verifier v = {.p = p, .d = d, .kernel = k, .arena = arena_new()};
    v.state.arena = v.depth.arena = v.arena;
    v.words = names_new(v.arena, NULL);
    for (int i = 0; i < p->symbols.n; i++) live_symbol(&v, p->symbols.data[i]);
    Block body = p->main;
    loop_walk(&body, live_main_symbol, &v);
    for (int i = 0; i < k->params.n; i++) verify_define_var(&v, &k->params.data[i]->var);
    for (int i = 0; i < k->params.n; i++)
        for (int a = 0; a < k->params.data[i]->rank; a++) verify_dim(&v, k->params.data[i]->shape[a]);
    check_block(&v, &k->body);
    arena_free(v.arena);
}

static void check_buffer_symbol(void *ctx, const Dim *sym) {
    Verifier *v = ctx;
    const Sym *s = dim_as_symbol(sym);
    if (s->kind != SYM_DATA && ptr_map_get(&v->state, sym) < 0) verify_fault(v, 16, "a shape mentions '%s', which is no dim", s->name);
}

static bool same_shape(const LoopBuffer *a, const LoopBuffer *b) {
    bool same = a->rank == b->rank && a->var.type.type == b->var.type.type;
    for (int i = 0; i < a->rank && same; i++) same = a->shape[i] == b->shape[i];
    return same;
}

static void check_buffer(Verifier *v, const LoopBuffer *b) {
    const Program *p = v->p;
    int64_t n;
    for (int i = 0; i < b->rank; i++) {
        if (dim_is_poison(b->shape[i])) verify_fault(v, 4, "%s: an extent overflows", b->var.name);
        dim_symbols(b->shape[i], check_buffer_symbol, v);
    }
    if (b->rank < 0) verify_fault(v, 16, "%s: has no shape", b->var.name);
    if ((b->kind == BUF_CONST || b->bytes) && b->rank >= 0) {
        bool known = dim_is_int(dim_product(p->dims, b->shape, b->rank), &n);
        if (!known || n < 0 || (uint64_t)n * (uint64_t)dtype_bytes(b->var.type.type) != b->nbytes)
            verify_fault(v, 16, "%s: its shape does not say %zu bytes", b->var.name, b->nbytes);
    }
    if (b->tie < 0) return;
    bool ok = b->kind == BUF_OUTPUT && b->tie < p->buffers.n && p->buffers.data[b->tie]->kind == BUF_STATE;
    if (!ok || !same_shape(b, p->buffers.data[b->tie])) verify_fault(v, 16, "%s: is tied to no state of its type and shape", b->var.name);
}

static void check_main(const Program *p, Diag *d) {
    Verifier v = {.p = p, .d = d, .arena = arena_new()};
    v.state.arena = v.depth.arena = v.arena;
    v.words = names_new(v.arena, NULL);
    for (int i = 0; i < p->symbols.n; i++) {
        if (ptr_map_get(&v.state, p->symbols.data[i]) >= 0 || names_has(v.words, dim_as_symbol(p->symbols.data[i])->name))
            verify_fault(&v, 1, "dim '%s' is defined twice", dim_as_symbol(p->symbols.data[i])->name);
        live_symbol(&v, p->symbols.data[i]);
    }
    for (int i = 0; i < p->kernels.n; i++) verify_word(&v, p->kernels.data[i]->name);
    for (int i = 0; i < p->buffers.n; i++) {
        verify_define_var(&v, &p->buffers.data[i]->var);
        check_buffer(&v, p->buffers.data[i]);
    }
    check_block(&v, &p->main);
    arena_free(v.arena);
}

bool loop_verify(const Program *p, Diag *d) {
    int before = d->errors;
    for (int i = 0; i < p->kernels.n; i++) check_kernel(p, p->kernels.data[i], d);
    check_main(p, d);
    return d->errors == before;
}
