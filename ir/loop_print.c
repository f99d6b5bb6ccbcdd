// Prints Programs in the text form of loop.h; loop_parse.c reads it back. print(parse(print(p))) == print(p).
#include "loop.h"

#include <string.h>

static void print_quoted(Str *s, const char *text) {
    str_add(s, "\"");
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            str_printf(s, "\\%c", *c);
        else if (*c == '\n')
            str_add(s, "\\n");
        else if (*c < 32)
            str_printf(s, "\\x%02x", *c);
        else
            str_addn(s, (const char *)c, 1);
    }
    str_add(s, "\"");
}

// Names of the model's dimensions need not be words ("x:0"): those are quoted, as in the text of Dims.
static void print_symbol(Str *s, const Dim *sym) {
    dim_print(s, sym);
}

static void print_type(Str *s, VType t) {
    str_add(s, dtype_name(t.type));
    if (t.lanes > 1) str_printf(s, "x%d", t.lanes);
}

static void print_shape(Str *s, int rank, const Dim *const *shape) {
    if (rank < 0) return;
    str_add(s, "[");
    for (int i = 0; i < rank; i++) {
        if (i) str_add(s, ", ");
        dim_print(s, shape[i]);
    }
    str_add(s, "]");
}

// ---- buffers ----

static void print_element(Str *s, DType t, const void *at) {
    Scalar k = scalar_read(t, at);
    char cls = dtype_info(t)->cls;
    if (t == DT_f32)
        str_add_f32(s, (float)k.f);
    else if (cls == 'F')
        str_add_f64(s, k.f);
    else if (cls == 'B')
        str_add(s, k.i ? "true" : "false");
    else if (cls == 'U')
        str_printf(s, "%llu", (unsigned long long)k.u);
    else
        str_printf(s, "%lld", (long long)k.i);
}

static void print_bytes(Str *s, const LoopBuffer *b) {
    if (b->blob >= 0) {
        str_printf(s, " data %d", b->blob);
        return;
    }
    if (!b->bytes && b->kind != BUF_CONST) return;
    DType t = b->var.type.type;
    size_t size = (size_t)dtype_bytes(t), n = b->bytes ? b->nbytes / size : 0;
    str_add(s, " = {");
    for (size_t i = 0; i < n; i++) {
        if (i) str_add(s, ", ");
        print_element(s, t, (const char *)b->bytes + i * size);
    }
    str_add(s, "}");
}

static void print_buffer(Str *s, const Program *p, const LoopBuffer *b) {
    static const char *const word[] = {
        [BUF_INPUT] = "input ", [BUF_OUTPUT] = "output ", [BUF_CONST] = "const ", [BUF_STATE] = "state ", [BUF_TEMP] = "temp "};
    str_add(s, word[b->kind]);
    str_printf(s, "%s: %s", b->var.name, dtype_name(b->var.type.type));
    print_shape(s, b->rank, b->shape);
    if (b->label) {
        str_add(s, " ");
        print_quoted(s, b->label);
    }
    if (b->tie >= 0) str_printf(s, " tie %s", p->buffers.data[b->tie]->var.name);
    if (b->offset) {
        str_add(s, " at ");
        dim_print(s, b->offset);
    }
    if (b->region) str_printf(s, " region %s", b->region);
    if (b->unbounded) str_add(s, " unbounded");
    if (b->kind == BUF_CONST || b->kind == BUF_STATE) print_bytes(s, b);
    str_add(s, "\n");
}

// ---- statements ----

static void print_block(Str *s, const Block *b, int depth);

static void print_body(Str *s, const Block *b, int depth) {
    str_add(s, " {\n");
    print_block(s, b, depth + 1);
    str_indent(s, depth);
    str_add(s, "}");
}

static void print_range(Str *s, const Stmt *x) {
    print_symbol(s, x->sym);
    str_add(s, " in ");
    dim_print(s, x->lo);
    str_add(s, "..");
    dim_print(s, x->hi);
    if (x->step != 1) str_printf(s, " step %lld", (long long)x->step);
}

static void print_for(Str *s, const Stmt *x, int depth) {
    static const char *const kind[] = {[LOOP_PAR] = " par", [LOOP_RED] = " red", [LOOP_SEQ] = " seq"};
    str_add(s, "for ");
    print_range(s, x);
    str_add(s, kind[x->loop]);
    if (x->unroll) str_add(s, " unroll");
    if (x->parallel) str_add(s, " parallel");
    print_body(s, &x->body, depth);
}

static void print_reduce(Str *s, const Stmt *x, int depth) {
    str_add(s, "reduce ");
    print_range(s, x);
    str_add(s, " (");
    for (int i = 0; i < x->nstates; i++) {
        str_printf(s, "%s%s: ", i ? ", " : "", x->states[i]->name);
        print_type(s, x->states[i]->type);
        str_add(s, " = ");
        expr_print(s, x->inits[i]);
    }
    str_add(s, ")");
    print_body(s, &x->body, depth);
    if (!x->orelse.n) return;
    str_add(s, x->unordered ? " combine unordered (" : " combine (");
    for (int i = 0; i < x->nstates; i++) str_printf(s, "%s%s", i ? ", " : "", x->others[i]->name);
    str_add(s, ")");
    print_body(s, &x->orelse, depth);
}

static void print_value(Str *s, const Expr *e) {
    str_add(s, " = ");
    expr_print(s, e);
}

static void print_let(Str *s, const Stmt *x) {
    if (x->var) {
        str_printf(s, "let %s: ", x->var->name);
        print_type(s, x->var->type);
    } else {
        const Sym *sym = dim_as_symbol(x->sym);
        str_add(s, "let ");
        print_symbol(s, x->sym);
        str_add(s, ": idx");
        if (sym->lo && sym->hi) {
            str_add(s, " ");
            dim_print(s, sym->lo);
            str_add(s, "..");
            dim_print(s, sym->hi);
        }
    }
    print_value(s, x->value);
}

static void print_var(Str *s, const Stmt *x) {
    str_printf(s, "%s %s", x->kind == ST_TILE ? "tile" : "var", x->var->name);
    for (int i = 0; i < x->var->ntile && x->kind == ST_TILE; i++) str_printf(s, "%s%d", i ? ", " : "[", x->var->tile[i]);
    str_add(s, x->kind == ST_TILE ? "]: " : ": ");
    print_type(s, x->var->type);
    print_value(s, x->value);
}

static void print_set(Str *s, const Stmt *x) {
    str_printf(s, "set %s", x->var->name);
    if (x->var->kind == VAR_TILE) print_shape(s, x->var->ntile, x->idx);
    print_value(s, x->value);
}

static void print_store(Str *s, const Stmt *x) {
    str_add(s, x->var->name);
    if (x->value->type.type != x->var->type.type) str_printf(s, ".%s", dtype_name(x->value->type.type));
    str_add(s, "[");
    dim_print(s, x->dim);
    if (x->offsets) {
        str_add(s, " @ ");
        expr_print(s, x->offsets);
    } else if (x->value->type.lanes > 1) {
        str_printf(s, " : %d", x->value->type.lanes);
        if (x->stride != 1) str_printf(s, " : %lld", (long long)x->stride);
    }
    str_add(s, "]");
    print_value(s, x->value);
    if (!x->mask) return;
    str_add(s, " ? ");
    expr_print(s, x->mask);
}

static void print_if(Str *s, const Stmt *x, int depth) {
    str_add(s, "if ");
    expr_print(s, x->value);
    print_body(s, &x->body, depth);
    if (!x->orelse.n) return;
    str_add(s, " else");
    print_body(s, &x->orelse, depth);
}

static void print_call(Str *s, const Stmt *x) {
    str_printf(s, "call %s(", x->kernel->name);
    for (int i = 0; i < x->nargs; i++) str_printf(s, "%s%s", i ? ", " : "", x->args[i]->var.name);
    str_add(s, x->parallel ? ") parallel" : ")");
}

static void print_alloc(Str *s, const Stmt *x) {
    str_printf(s, "%s %s", x->kind == ST_ALLOC ? "alloc" : "free", x->args[0]->var.name);
    if (!x->dim) return;
    str_add(s, " ");
    dim_print(s, x->dim);
}

static void print_stmt(Str *s, const Stmt *x, int depth) {
    switch (x->kind) {
    case ST_FOR: print_for(s, x, depth); break;
    case ST_REDUCE: print_reduce(s, x, depth); break;
    case ST_WHILE:
        str_add(s, "while ");
        expr_print(s, x->value);
        print_body(s, &x->body, depth);
        break;
    case ST_IF: print_if(s, x, depth); break;
    case ST_BREAK: str_add(s, "break"); break;
    case ST_LET: print_let(s, x); break;
    case ST_VAR:
    case ST_TILE: print_var(s, x); break;
    case ST_SET: print_set(s, x); break;
    case ST_STORE: print_store(s, x); break;
    case ST_LOCAL: {
        const LoopBuffer *b = x->var->owner;
        str_printf(s, "local %s: %s", x->var->name, dtype_name(x->var->type.type));
        print_shape(s, b->rank, b->shape);
        break;
    }
    case ST_CHECK:
        str_add(s, "check ");
        expr_print(s, x->value);
        str_printf(s, " else %s @%d", status_name(x->code), x->node);
        break;
    case ST_CALL: print_call(s, x); break;
    case ST_TEAM:
        str_add(s, "team ");
        print_symbol(s, x->sym);
        str_add(s, " of ");
        dim_print(s, x->hi);
        print_body(s, &x->body, depth);
        break;
    case ST_BARRIER: str_add(s, "barrier"); break;
    case ST_SIZE:
        str_add(s, "size ");
        print_symbol(s, x->sym);
        print_value(s, x->value);
        break;
    case ST_ALLOC:
    case ST_FREE: print_alloc(s, x); break;
    case ST_COMMENT: str_printf(s, "; %s", x->text); break;
    case ST_COUNT: break;
    }
}

void stmt_print(Str *s, const Stmt *x) {
    Str all = {0};
    print_stmt(&all, x, 0);
    str_addn(s, all.data, strcspn(all.data, "\n"));
    str_free(&all);
}

static void print_block(Str *s, const Block *b, int depth) {
    for (int i = 0; i < b->n; i++) {
        str_indent(s, depth);
        print_stmt(s, b->data[i], depth);
        str_add(s, "\n");
    }
}

// ---- kernels and programs ----

static void print_param(Str *s, const LoopBuffer *b) {
    str_printf(s, "%s: %s", b->var.name, dtype_name(b->var.type.type));
    print_shape(s, b->rank, b->shape);
    str_add(s, b->reads && b->writes ? " inout" : b->writes ? " out" : " in");
    if (b->writes && b->alias != ALIAS_MAY) str_add(s, b->alias == ALIAS_SAME ? " same" : " disjoint");
}

void kernel_print(Str *s, const Kernel *k) {
    str_printf(s, "kernel %s", k->name);
    if (k->label) {
        str_add(s, " ");
        print_quoted(s, k->label);
    }
    if (k->node) str_printf(s, " node %d", k->node);
    str_add(s, " (");
    for (int i = 0; i < k->params.n; i++) {
        if (i) str_add(s, ", ");
        print_param(s, k->params.data[i]);
    }
    str_add(s, ")");
    if (k->schedule) {
        str_add(s, " schedule ");
        print_quoted(s, k->schedule);
    }
    print_body(s, &k->body, 0);
    str_add(s, "\n");
}

static void print_dim(Str *s, const char *word, const Dim *d) {
    const Sym *sym = dim_as_symbol(d);
    str_printf(s, "%s ", word);
    print_symbol(s, d);
    if (sym->lo || sym->hi) str_add(s, " in ");
    if (sym->lo) dim_print(s, sym->lo);
    if (sym->lo || sym->hi) str_add(s, "..");
    if (sym->hi) dim_print(s, sym->hi);
    str_add(s, "\n");
}

typedef struct {
    Arena *arena;
    VEC(const Dim *) dims; // each once, though several statements may set it
} SizeDims;

static void note_size_dim(void *ctx, Stmt *x) {
    SizeDims *d = ctx;
    if (x->kind != ST_SIZE) return;
    for (int i = 0; i < d->dims.n; i++)
        if (d->dims.data[i] == x->sym) return;
    vec_push(d->arena, &d->dims, x->sym);
}

static void print_size_dims(Str *s, const Program *p) {
    SizeDims d = {.arena = p->arena};
    Block body = p->main;
    loop_walk(&body, note_size_dim, &d);
    for (int i = 0; i < d.dims.n; i++) print_dim(s, "data dim", d.dims.data[i]);
}

void loop_print(Str *s, const Program *p) {
    str_printf(s, "program %s\n", p->name);
    if (p->target) str_printf(s, "target %s\n", p->target);
    if (p->hash) str_printf(s, "hash 0x%016llx\n", (unsigned long long)p->hash);
    for (int i = 0; i + 1 < p->metadata.n; i += 2) {
        str_add(s, "meta ");
        print_quoted(s, p->metadata.data[i]);
        str_add(s, " ");
        print_quoted(s, p->metadata.data[i + 1]);
        str_add(s, "\n");
    }
    for (int i = 0; i < p->node_names.n; i++) {
        str_printf(s, "node %d ", i + 1);
        print_quoted(s, p->node_names.data[i]);
        str_add(s, "\n");
    }
    for (int i = 0; i < p->symbols.n; i++) print_dim(s, "dim", p->symbols.data[i]);
    print_size_dims(s, p);
    for (int i = 0; i < p->buffers.n; i++) print_buffer(s, p, p->buffers.data[i]);
    if (p->arena_bytes) {
        str_add(s, "arena ");
        dim_print(s, p->arena_bytes);
        str_add(s, "\n");
    }
    for (int i = 0; i < p->kernels.n; i++) kernel_print(s, p->kernels.data[i]);
    str_add(s, "main");
    print_body(s, &p->main, 0);
    str_add(s, "\n");
}
