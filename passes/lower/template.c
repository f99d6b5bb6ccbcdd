// Templates: algorithms written as loop text (passes/lower/*.loop) become kernels and statements of the program around them.
//
// A text is a program whose placeholders ($T, $LESS …) are filled in; its dims are bound to the node's sizes by name, its inputs and
// outputs to the node's buffers in order (outputs the node leaves out become temps), its data dim COUNT to the symbol the node defines;
// then its kernels, temps and main are taken over.
#include "lower.h"

#include <assert.h>
#include <string.h>

typedef struct {
    const char *name, *text;
} EmbeddedText;
extern const EmbeddedText lower_templates[];

enum { MAX_BINDINGS = 48, MAX_WORDS = 8 };

typedef struct {
    const char *names[MAX_BINDINGS];
    const Dim *dims[MAX_BINDINGS];
    int ndims;
    const char *words[MAX_WORDS], *texts[MAX_WORDS]; // placeholders without $
    int nwords;
} Binding;

static void bind_dim(Binding *b, const char *name, const Dim *d) {
    assert(b->ndims < MAX_BINDINGS);
    b->names[b->ndims] = name;
    b->dims[b->ndims++] = d;
}

static void bind_word(Binding *b, const char *word, const char *text) {
    assert(b->nwords < MAX_WORDS);
    b->words[b->nwords] = word;
    b->texts[b->nwords++] = text;
}

// ---- what each kind binds ----
// x as [OUTER, EXTENT, INNER] around axis; axis -1: everything is the middle.
static void bind_rows(Lower *l, Binding *b, const Value *x, int64_t axis) {
    DimTable *t = l->g->dims;
    const Dim *const *shape = (const Dim *const *)x->shape;
    bool whole = axis < 0;
    bind_dim(b, "OUTER", whole ? dim_int(t, 1) : dim_product(t, shape, (int)axis));
    bind_dim(b, "EXTENT", whole ? dim_product(t, shape, x->rank) : shape[axis]);
    bind_dim(b, "INNER", whole ? dim_int(t, 1) : dim_product(t, shape + axis + 1, x->rank - (int)axis - 1));
}

static void bind_topk(Lower *l, Binding *b, const Node *n) {
    const Value *x = n->in[0];
    bool largest = n->flags.data[0] != 0;
    bind_rows(l, b, x, n->axis);
    bind_dim(b, "K", n->out[0]->shape[n->axis]);
    bind_word(b, "LESS", largest ? ">" : "<");
    bind_word(b, "NAN", largest ? "(v != v) & (other == other)" : "(other != other) & (v == v)");
}

static void bind_nonzero(Lower *l, Binding *b, const Node *n) {
    const Value *x = n->in[0];
    Arena *a = l->p->arena;
    Str axes = {0}, extents = {0};
    bind_dim(b, "SIZE", value_size(l->g, x));
    int rank = x->rank ? x->rank : 1;
    for (int i = 0; i < rank; i++) {
        const Dim *inner =
            x->rank ? dim_product(l->g->dims, (const Dim *const *)x->shape + i + 1, x->rank - i - 1) : dim_int(l->g->dims, 1);
        str_printf(&extents, "dim E%d in 0..\ndim S%d in 0..\n", i, i);
        str_printf(&axes, "    places[%d*COUNT + c] = floormod(floordiv(flat[c], cast.i64(dim(S%d))), cast.i64(dim(E%d)))\n", i, i, i);
        bind_dim(b, arena_printf(a, "E%d", i), x->rank ? x->shape[i] : dim_int(l->g->dims, 1));
        bind_dim(b, arena_printf(a, "S%d", i), inner);
    }
    bind_word(b, "AXES", arena_strdup(a, axes.data));
    bind_word(b, "EXTENTS", arena_strdup(a, extents.data));
    bind_word(b, "RANK", arena_printf(a, "%d", rank));
    str_free(&axes);
    str_free(&extents);
}

static void bind_unique(Lower *l, Binding *b, const Node *n) {
    bind_rows(l, b, n->in[0], n->axis);
    bind_word(b, "SORTED", n->flags.data[0] ? "1i32" : "0i32");
}

static void bind_nms(Lower *l, Binding *b, const Node *n) {
    (void)l;
    bind_dim(b, "B", n->in[1]->shape[0]);
    bind_dim(b, "C", n->in[1]->shape[1]);
    bind_dim(b, "N", n->in[1]->shape[2]);
    bind_word(b, "CENTRE", n->flags.data[0] ? "1i32" : "0i32");
}

static const struct {
    const char *kind, *text;
    void (*bind)(Lower *l, Binding *b, const Node *n);
} kinds[] = {
    {"topk", "topk", bind_topk},
    {"sort", "topk", bind_topk},
    {"nonzero", "nonzero", bind_nonzero},
    {"unique", "unique", bind_unique},
    {"nms", "nms", bind_nms},
};

// ---- text ----
static char *filled_text(Lower *l, const char *text, const Binding *b) {
    Str s = {0};
    for (const char *p = text; *p;) {
        int hit = -1;
        size_t len = 0;
        for (int i = 0; *p == '$' && i < b->nwords; i++) {
            size_t n = strlen(b->words[i]);
            if (n > len && !strncmp(p + 1, b->words[i], n)) hit = i, len = n;
        }
        if (hit < 0) {
            str_addn(&s, p++, 1);
            continue;
        }
        str_add(&s, b->texts[hit]);
        p += 1 + len;
    }
    char *out = arena_strdup(l->p->arena, s.data);
    str_free(&s);
    return out;
}

// ---- taking over ----
typedef struct {
    Lower *l;
    const Dim *from[MAX_BINDINGS], *to[MAX_BINDINGS];
    int nsubst;
    LoopBuffer *old[MAX_BINDINGS], *now[MAX_BINDINGS];
    int nbuffers;
} Takeover;

static LoopBuffer *buffer_now(const Takeover *t, const LoopBuffer *b) {
    for (int i = 0; i < t->nbuffers; i++)
        if (t->old[i] == b) return t->now[i];
    return NULL;
}

static void map_symbols(Takeover *t, const Program *q, const Binding *b) {
    for (int i = 0; i < q->symbols.n; i++) {
        const char *name = dim_as_symbol(q->symbols.data[i])->name;
        for (int k = 0; k < b->ndims; k++) {
            if (strcmp(b->names[k], name)) continue;
            t->from[t->nsubst] = q->symbols.data[i];
            t->to[t->nsubst++] = b->dims[k];
        }
    }
}

static void map_data_dim(void *ctx, Stmt *s) {
    Takeover *t = ctx;
    if (s->kind != ST_SIZE) return;
    t->from[t->nsubst] = s->sym;
    t->nsubst++;
}

static LoopBuffer *in_buffer(Lower *l, Block *main, const Value *v) {
    if (v->def && v->def->op == G_const) return lower_buffer(l, v);
    if (l->buffer[v->id]) return l->buffer[v->id];
    LoopBuffer *b = lower_temp(l, "in", v->type, v->rank, (const Dim *const *)v->shape);
    lower_copy_at(l, main, v, b, dim_int(l->g->dims, 0));
    return b;
}

static void map_buffers(Takeover *t, const Program *q, Block *main, const Node *n) {
    Lower *l = t->l;
    int in = 0, out = 0;
    for (int i = 0; i < q->buffers.n; i++) {
        LoopBuffer *b = q->buffers.data[i];
        const Dim **shape = ARENA_ARRAY(l->p->arena, const Dim *, b->rank + 1);
        for (int k = 0; k < b->rank; k++) shape[k] = dim_subst(l->g->dims, b->shape[k], t->from, t->to, t->nsubst);
        LoopBuffer *now;
        if (b->kind == BUF_INPUT)
            now = in_buffer(l, main, n->in[in++]);
        else if (b->kind == BUF_OUTPUT && out < n->nout)
            now = lower_buffer(l, n->out[out++]);
        else
            now = lower_temp(l, b->var.name, b->var.type.type, b->rank, shape);
        t->old[t->nbuffers] = b;
        t->now[t->nbuffers++] = now;
    }
}

static const Expr *map_load(void *ctx, const Expr *e) {
    Takeover *t = ctx;
    LoopBuffer *now = e->op == X_load ? buffer_now(t, e->var->owner) : NULL;
    if (!now) return e;
    Expr copy = *e;
    copy.var = &now->var;
    return x_node(t->l->p->arena, copy);
}

static void map_expr(void *ctx, const Expr **e) {
    Takeover *t = ctx;
    *e = expr_rewrite(t->l->p->arena, *e, map_load, t);
}

static void map_stmt(void *ctx, Stmt *s) {
    Takeover *t = ctx;
    stmt_exprs(s, map_expr, t);
    for (int i = 0; i < s->nargs; i++) s->args[i] = buffer_now(t, s->args[i]);
    if (s->kind != ST_SIZE) return;
    for (int i = 0; i < t->nsubst; i++)
        if (t->from[i] == s->sym) s->sym = t->to[i];
    vec_push(t->l->p->arena, &t->l->sizes, s->sym);
}

static void map_kernel_stmt(void *ctx, Stmt *s) {
    Takeover *t = ctx;
    stmt_exprs(s, map_expr, t);
    LoopBuffer *now = s->kind == ST_STORE ? buffer_now(t, s->var->owner) : NULL;
    if (now) s->var = &now->var;
}

// A copy of kernel k in the program at hand, with names of its own.
static Kernel *take_kernel(Takeover *t, const Kernel *k, const Node *n) {
    Lower *l = t->l;
    Kernel *now = loop_kernel(l->p, arena_printf(l->p->arena, "k%d_%s", l->kernels++, k->name), n->label, n->onnx_id);
    Takeover inner = {.l = l};
    for (int i = 0; i < k->params.n; i++) {
        LoopBuffer *p = k->params.data[i];
        inner.old[inner.nbuffers] = p;
        inner.now[inner.nbuffers++] = loop_param(l->p, now, p->var.name, p->var.type.type, p->reads, p->writes);
    }
    loop_copy(l->p, &now->body, &k->body);
    loop_subst(l->p, &now->body, t->from, t->to, t->nsubst);
    loop_walk(&now->body, map_kernel_stmt, &inner);
    return now;
}

static void take_kernels(Takeover *t, Program *q, const Node *n) {
    for (int i = 0; i < q->kernels.n; i++) {
        Kernel *old = q->kernels.data[i], *now = take_kernel(t, old, n);
        for (int k = 0; k < q->main.n; k++)
            if (q->main.data[k]->kernel == old) q->main.data[k]->kernel = now;
    }
}

// `size`: the symbol is an element's value, within the symbol's bounds.
static void lower_size(Lower *l, Block *main, Node *n) {
    Arena *a = l->p->arena;
    const Value *v = n->in[0];
    const Dim *sym = n->dims.data[0];
    LoopBuffer *b = in_buffer(l, main, v);
    lower_define_size(l, main, sym, x_cast(a, DT_idx, x_load(a, &b->var, dim_int(l->g->dims, n->flags.data[0]))));
    const Sym *s = dim_as_symbol(sym);
    const Expr *value = x_dim(a, sym);
    if (s->lo) loop_check(l->p, main, x_op2(a, X_ge, value, x_dim(a, s->lo)), CODE_SHAPE, n->onnx_id);
    if (s->hi) loop_check(l->p, main, x_op2(a, X_le, value, x_dim(a, s->hi)), CODE_SHAPE, n->onnx_id);
}

static const char *template_text(const char *name) {
    for (int i = 0; lower_templates[i].name; i++)
        if (!strcmp(lower_templates[i].name, name)) return lower_templates[i].text;
    return NULL;
}

void lower_template(Lower *l, Block *main, Node *n) {
    if (!strcmp(n->kind, "size")) {
        lower_size(l, main, n);
        return;
    }
    size_t row = 0;
    while (row < sizeof kinds / sizeof *kinds && strcmp(kinds[row].kind, n->kind)) row++;
    assert(row < sizeof kinds / sizeof *kinds);
    Binding b = {0};
    bind_word(&b, "T", dtype_name(n->in[0]->type));
    kinds[row].bind(l, &b, n);
    Program *q = loop_parse(filled_text(l, template_text(kinds[row].text), &b), kinds[row].text, l->g->dims, NULL, NULL, l->diag);
    if (!q) return;
    Takeover t = {.l = l};
    map_symbols(&t, q, &b);
    int plain = t.nsubst;
    loop_walk(&q->main, map_data_dim, &t);
    for (int i = plain; i < t.nsubst; i++) t.to[i] = n->dims.data[0];
    map_buffers(&t, q, main, n);
    take_kernels(&t, q, n);
    loop_walk(&q->main, map_stmt, &t);
    for (int i = 0; i < q->main.n; i++) vec_push(l->p->arena, main, q->main.data[i]);
    arena_adopt(l->p->arena, q->arena);
}
