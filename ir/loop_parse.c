// Reads Programs: the text's words, the header, parameters and constants; statements are in loop_parse_stmt.c.
//
// Kernels stand before main but may use its symbols, so the first pass reads headers and steps over the blocks; then main's block and the
// kernels' blocks are read. The first fault ends the reading.
#include "loop_parse.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- words ----

bool parse_fail(Parser *ps, const char *fmt, ...) {
    if (ps->failed) return false;
    ps->failed = true;
    int line = 1;
    for (const char *c = ps->text; c < ps->s; c++) line += *c == '\n';
    va_list ap;
    va_start(ap, fmt);
    char message[300];
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    diag_error(ps->d, EXIT_MODEL, "line %d: %s", line, message);
    return false;
}

void parse_blanks(Parser *ps) {
    while (*ps->s == ' ' || *ps->s == '\t' || *ps->s == '\r') ps->s++;
}

void parse_lines(Parser *ps) {
    for (;;) {
        while (isspace((unsigned char)*ps->s)) ps->s++;
        if (*ps->s != ';') return;
        ps->s += strcspn(ps->s, "\n");
    }
}

bool parse_accept(Parser *ps, const char *text) {
    parse_blanks(ps);
    size_t n = strlen(text);
    if (strncmp(ps->s, text, n) != 0) return false;
    ps->s += n;
    return true;
}

static const char *here(Parser *ps) {
    parse_blanks(ps);
    size_t n = strcspn(ps->s, "\n");
    if (!*ps->s) return "end of text";
    return n ? arena_strndup(ps->scratch, ps->s, n < 24 ? n : 24) : "end of line";
}

bool parse_expect(Parser *ps, const char *text) {
    return parse_accept(ps, text) || parse_fail(ps, "expected '%s', found '%s'", text, here(ps));
}

static bool is_word_char(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

Word parse_word(Parser *ps) {
    parse_blanks(ps);
    Word w = {ps->s, 0};
    if (isdigit((unsigned char)*ps->s)) return w;
    while (is_word_char(w.s[w.n])) w.n++;
    ps->s += w.n;
    return w;
}

// A word, or a quoted text for a dimension whose name is no word.
bool parse_name(Parser *ps, Word *w) {
    parse_blanks(ps);
    if (*ps->s == '"') {
        w->s = parse_quoted(ps);
        w->n = w->s ? strlen(w->s) : 0;
        return !ps->failed;
    }
    *w = parse_word(ps);
    return w->n > 0 || parse_fail(ps, "expected a name, found '%s'", here(ps));
}

bool parse_accept_word(Parser *ps, const char *word) {
    parse_blanks(ps);
    const char *start = ps->s;
    Word w = parse_word(ps);
    if (w.n == strlen(word) && memcmp(w.s, word, w.n) == 0) return true;
    ps->s = start;
    return false;
}

static int hex_pair(const char *s) {
    char two[3] = {s[0], s[0] ? s[1] : 0, 0};
    return isxdigit((unsigned char)two[0]) && isxdigit((unsigned char)two[1]) ? (int)strtol(two, NULL, 16) : -1;
}

char *parse_quoted(Parser *ps) {
    parse_blanks(ps);
    if (*ps->s != '"') return NULL;
    const char *s = ps->s + 1;
    char *out = arena_alloc(ps->p->arena, strcspn(s, "\n") + 1), *o = out;
    for (; *s && *s != '"' && *s != '\n'; s++) {
        if (*s != '\\') {
            *o++ = *s;
            continue;
        }
        s++;
        if (!*s) break;
        int code = *s == 'x' ? hex_pair(s + 1) : -1;
        if (code > 0) {
            *o++ = (char)code;
            s += 2;
        } else {
            *o++ = *s == 'n' ? '\n' : *s;
        }
    }
    if (*s != '"') {
        parse_fail(ps, "text without closing quote");
        return NULL;
    }
    ps->s = s + 1;
    return out;
}

bool parse_int(Parser *ps, int64_t *v) {
    parse_blanks(ps);
    char *end;
    errno = 0;
    *v = strtoll(ps->s, &end, 10);
    if (end == ps->s || errno) return parse_fail(ps, "expected an integer, found '%s'", here(ps));
    ps->s = end;
    return true;
}

// ---- names ----

static Binding *binding_slot(const BindingMap *m, const char *name, size_t n) {
    size_t i = (size_t)hash_bytes(HASH_SEED, name, n) & (size_t)(m->cap - 1);
    while (m->slot[i].name && (m->slot[i].n != n || memcmp(m->slot[i].name, name, n) != 0)) i = (i + 1) & (size_t)(m->cap - 1);
    return &m->slot[i];
}

const Binding *parse_find(const BindingMap *m, const char *name, size_t n) {
    if (!m->cap) return NULL;
    const Binding *b = binding_slot(m, name, n);
    return b->name ? b : NULL;
}

static void bind(Parser *ps, BindingMap *m, Binding b) {
    if (2 * (m->n + 1) > m->cap) {
        BindingMap old = *m;
        m->cap = old.cap ? 2 * old.cap : 64;
        m->slot = ARENA_ARRAY(ps->scratch, Binding, m->cap);
        for (int i = 0; i < old.cap; i++)
            if (old.slot[i].name) *binding_slot(m, old.slot[i].name, old.slot[i].n) = old.slot[i];
    }
    Binding *slot = binding_slot(m, b.name, b.n);
    m->n += !slot->name;
    *slot = b;
}

const char *parse_define(Parser *ps, BindingMap *m, Word w, const Dim *sym, Var *var) {
    const char *name = arena_strndup(ps->p->arena, w.s, w.n);
    bind(ps, m, (Binding){name, w.n, sym, var});
    names_add(ps->p->arena, ps->p->words, name);
    return name;
}

const Dim *parse_symbol(Parser *ps, Word w, SymKind kind, const Dim *lo, const Dim *hi) {
    const char *name = arena_strndup(ps->p->arena, w.s, w.n);
    const Dim *sym = dim_symbol(ps->p->dims, name, kind, lo, hi);
    parse_define(ps, ps->in_kernel ? &ps->local : &ps->main, w, sym, NULL);
    if (!ps->in_kernel) names_add(ps->p->arena, ps->p->main.names, name);
    return sym;
}

static const Dim *lookup_dim(void *ctx, const char *name, size_t n) {
    Parser *ps = ctx;
    const Binding *b = ps->in_kernel ? parse_find(&ps->local, name, n) : NULL;
    if (!b) b = parse_find(&ps->main, name, n);
    return b ? b->sym : NULL;
}

static Var *lookup_var(void *ctx, const char *name, size_t n) {
    Parser *ps = ctx;
    const Binding *b = parse_find(ps->in_kernel ? &ps->local : &ps->main, name, n);
    if (!b && !ps->in_kernel) b = parse_find(&ps->buffers, name, n);
    return b ? b->var : NULL;
}

// ---- indices, types, values ----

const Dim *parse_dim(Parser *ps) {
    parse_blanks(ps);
    const Dim *d = dim_parse(ps->p->dims, &ps->s, lookup_dim, ps);
    if (d && dim_is_poison(d)) parse_fail(ps, "index overflows");
    if (!d) parse_fail(ps, "expected an index, found '%s'", here(ps));
    return ps->failed ? NULL : d;
}

bool parse_type(Parser *ps, VType *t) {
    Word w;
    if (!parse_name(ps, &w)) return false;
    *t = vtype(dtype_parse(w.s, w.n), 1);
    if (t->type != DT_none) return true;
    size_t k = w.n;
    while (k > 0 && isdigit((unsigned char)w.s[k - 1])) k--;
    if (k > 1 && k < w.n && w.n - k <= 3 && w.s[k - 1] == 'x') *t = vtype(dtype_parse(w.s, k - 1), atoi(w.s + k));
    return t->type != DT_none || parse_fail(ps, "unknown type '%.*s'", (int)w.n, w.s);
}

const Expr *parse_value(Parser *ps, VType want) {
    ExprParser x = {.arena = ps->p->arena, .dims = ps->p->dims, .ctx = ps, .dim = lookup_dim, .var = lookup_var};
    const Expr *e = ps->failed ? NULL : expr_parse(&x, &ps->s, want);
    if (!e) parse_fail(ps, "%s", x.error);
    return e;
}

bool parse_shape(Parser *ps, int *rank, const Dim ***shape) {
    VEC(const Dim *) v = {0};
    *rank = 0;
    *shape = NULL;
    if (!parse_expect(ps, "[")) return false;
    while (!parse_accept(ps, "]")) {
        if (v.n && !parse_expect(ps, ",")) return false;
        const Dim *d = parse_dim(ps);
        if (!d) return false;
        vec_push(ps->p->arena, &v, d);
    }
    *rank = v.n;
    *shape = v.data ? v.data : ARENA_ARRAY(ps->p->arena, const Dim *, 1);
    return true;
}

// ---- constants ----

static bool parse_element(Parser *ps, DType t, Scalar *out) {
    bool is_float = dtype_is_float(t), negative = parse_accept(ps, "-");
    if (parse_accept_word(ps, "true") || parse_accept_word(ps, "false")) {
        *out = scalar_int(t, ps->s[-2] == 'u');
        return true;
    }
    if (is_float && (parse_accept_word(ps, "nan") || parse_accept_word(ps, "inf"))) {
        double v = ps->s[-1] == 'n' ? (double)NAN : (double)INFINITY;
        *out = scalar_float(t, negative ? -v : v);
        return true;
    }
    parse_blanks(ps);
    char *end;
    if (is_float) {
        double v = t == DT_f32 ? (double)strtof(ps->s, &end) : strtod(ps->s, &end);
        *out = scalar_float(t, negative ? -v : v);
    } else {
        uint64_t v = strtoull(ps->s, &end, 10);
        *out = scalar_int(t, (int64_t)(negative ? 0 - v : v));
        if (!isdigit((unsigned char)*ps->s)) end = (char *)(uintptr_t)ps->s;
    }
    if (end == ps->s) return parse_fail(ps, "expected a %s, found '%s'", dtype_name(t), here(ps));
    ps->s = end;
    return true;
}

// The number of bytes of b when its shape is constant; else -1.
static int64_t constant_bytes(Parser *ps, const LoopBuffer *b) {
    int64_t n;
    return dim_is_int(loop_buffer_size(ps->p, b), &n) && n >= 0 ? n * dtype_bytes(b->var.type.type) : -1;
}

static bool parse_elements(Parser *ps, LoopBuffer *b) {
    DType t = b->var.type.type;
    int64_t size = constant_bytes(ps, b), step = dtype_bytes(t), at = 0;
    if (size < 0 || t == DT_str) return parse_fail(ps, "%s: elements need a number type and a constant shape", b->var.name);
    char *bytes = arena_alloc(ps->p->arena, (size_t)size);
    parse_lines(ps);
    while (!parse_accept(ps, "}")) {
        Scalar v;
        if (at && !parse_expect(ps, ",")) return false;
        parse_lines(ps);
        if (!parse_element(ps, t, &v)) return false;
        if (at < size) scalar_write(v, bytes + at);
        at += step;
        parse_lines(ps);
    }
    if (at != size)
        return parse_fail(ps, "%s: expected %lld elements, found %lld", b->var.name, (long long)(size / step), (long long)(at / step));
    b->bytes = bytes;
    b->nbytes = (size_t)size;
    return true;
}

static bool parse_blob(Parser *ps, LoopBuffer *b) {
    int64_t n, size = constant_bytes(ps, b);
    if (!parse_int(ps, &n)) return false;
    if (n < 0 || n > INT32_MAX || size < 0) return parse_fail(ps, "%s: data needs a number and a constant shape", b->var.name);
    b->blob = (int)n;
    b->nbytes = (size_t)size;
    if (!ps->blob) {
        b->bytes = arena_alloc(ps->p->arena, b->nbytes);
        return true;
    }
    size_t found = 0;
    b->bytes = ps->blob(ps->blob_ctx, b->blob, &found);
    if (!b->bytes) return parse_fail(ps, "%s: there is no data %d", b->var.name, b->blob);
    if (found != b->nbytes) return parse_fail(ps, "%s: expected %zu bytes of data, found %zu", b->var.name, b->nbytes, found);
    return true;
}

// ---- buffers ----

typedef struct {
    LoopBuffer *output;
    Word state;
} Tie;
typedef VEC(Tie) TieVec;

static bool parse_buffer_fields(Parser *ps, LoopBuffer *b, TieVec *ties) {
    for (;;) {
        Word w;
        if (parse_accept_word(ps, "tie")) {
            if (!parse_name(ps, &w)) return false;
            vec_push(ps->scratch, ties, ((Tie){b, w}));
        } else if (parse_accept_word(ps, "at")) {
            if (!(b->offset = parse_dim(ps))) return false;
        } else if (parse_accept_word(ps, "region")) {
            if (!parse_name(ps, &w)) return false;
            b->region = arena_strndup(ps->p->arena, w.s, w.n);
        } else if (parse_accept_word(ps, "unbounded")) {
            b->unbounded = true;
        } else if (parse_accept_word(ps, "data")) {
            if (!parse_blob(ps, b)) return false;
        } else if (parse_accept(ps, "=")) {
            if (!parse_expect(ps, "{") || !parse_elements(ps, b)) return false;
        } else {
            return true;
        }
    }
}

static bool parse_buffer(Parser *ps, BufKind kind, TieVec *ties) {
    Word w;
    VType t;
    int rank;
    const Dim **shape;
    if (!parse_name(ps, &w) || !parse_expect(ps, ":") || !parse_type(ps, &t) || !parse_shape(ps, &rank, &shape)) return false;
    LoopBuffer *b = loop_buffer(ps->p, kind, "buffer", t.type, rank, shape);
    b->var.name = parse_define(ps, &ps->buffers, w, NULL, &b->var);
    b->label = parse_quoted(ps);
    return !ps->failed && parse_buffer_fields(ps, b, ties);
}

static bool resolve_ties(Parser *ps, const TieVec *ties) {
    for (int i = 0; i < ties->n; i++) {
        Word w = ties->data[i].state;
        const Binding *found = parse_find(&ps->buffers, w.s, w.n);
        for (int k = 0; k < ps->p->buffers.n; k++)
            if (found && found->var == &ps->p->buffers.data[k]->var) ties->data[i].output->tie = k;
        if (ties->data[i].output->tie < 0)
            return parse_fail(ps, "%s: there is no state '%.*s'", ties->data[i].output->var.name, (int)w.n, w.s);
    }
    return true;
}

// ---- kernels ----

typedef struct {
    Kernel *kernel;
    const char *params, *body;
} Pending;
typedef VEC(Pending) PendingVec;

static bool parse_param(Parser *ps, Kernel *k) {
    Word w;
    VType t;
    if (!parse_name(ps, &w) || !parse_expect(ps, ":") || !parse_type(ps, &t)) return false;
    LoopBuffer *b = loop_param(ps->p, k, "param", t.type, false, false);
    b->var.name = parse_define(ps, &ps->local, w, NULL, &b->var);
    names_add(ps->p->arena, k->body.names, b->var.name);
    parse_blanks(ps);
    if (*ps->s == '[' && !parse_shape(ps, &b->rank, &b->shape)) return false;
    bool inout = parse_accept_word(ps, "inout");
    b->reads = inout || parse_accept_word(ps, "in");
    b->writes = inout || (!b->reads && parse_accept_word(ps, "out"));
    if (!b->reads && !b->writes) return parse_fail(ps, "%s: expected in, out or inout, found '%s'", b->var.name, here(ps));
    if (b->writes && parse_accept_word(ps, "disjoint")) b->alias = ALIAS_DISJOINT;
    if (b->writes && parse_accept_word(ps, "same")) b->alias = ALIAS_SAME;
    return true;
}

static bool parse_params(Parser *ps, Kernel *k) {
    if (!parse_expect(ps, "(")) return false;
    for (parse_lines(ps); !parse_accept(ps, ")"); parse_lines(ps)) {
        if (k->params.n && !parse_expect(ps, ",")) return false;
        parse_lines(ps);
        if (!parse_param(ps, k)) return false;
    }
    return true;
}

// Steps over {…}; a brace in a quoted text or a comment does not count.
static bool skip_block(Parser *ps) {
    int depth = 0;
    for (bool quoted = false; *ps->s; ps->s++) {
        if (*ps->s == '"' && ps->s[-1] != '\\') quoted = !quoted;
        if (quoted) continue;
        if (*ps->s == ';' && isspace((unsigned char)ps->s[-1])) {
            ps->s += strcspn(ps->s, "\n");
            if (!*ps->s) break;
        }
        depth += (*ps->s == '{') - (*ps->s == '}');
        if (depth == 0 && *ps->s == '}') {
            ps->s++;
            return true;
        }
    }
    return parse_fail(ps, "block without closing brace");
}

// Parameters are read with the body: their shapes may use symbols of main.
static bool parse_kernel(Parser *ps, PendingVec *pending) {
    Word w;
    if (!parse_name(ps, &w)) return false;
    Kernel *k = loop_kernel(ps->p, "kernel", NULL, 0);
    k->name = arena_strndup(ps->p->arena, w.s, w.n);
    names_add(ps->p->arena, ps->p->words, k->name);
    k->label = parse_quoted(ps);
    int64_t node = 0;
    if (parse_accept_word(ps, "node") && !parse_int(ps, &node)) return false;
    k->node = (int)node;
    const char *params = ps->s;
    while (*ps->s && *ps->s != '{') {
        if (*ps->s == '"' && !parse_quoted(ps)) return false;
        ps->s += *ps->s && *ps->s != '{';
    }
    vec_push(ps->scratch, pending, ((Pending){k, params, ps->s}));
    return skip_block(ps);
}

static bool parse_kernel_body(Parser *ps, const Pending *pending) {
    ps->in_kernel = true;
    ps->local = (BindingMap){0};
    ps->s = pending->params;
    bool ok = parse_params(ps, pending->kernel);
    if (ok && parse_accept_word(ps, "schedule") && !(pending->kernel->schedule = parse_quoted(ps)))
        ok = parse_fail(ps, "expected a quoted schedule, found '%s'", here(ps));
    if (ok) parse_lines(ps);
    ok = ok && parse_block(ps, &pending->kernel->body);
    ps->in_kernel = false;
    return ok;
}

// ---- the header ----

static char *parse_token(Parser *ps) {
    parse_blanks(ps);
    size_t n = strcspn(ps->s, " \t\r\n");
    char *t = arena_strndup(ps->p->arena, ps->s, n);
    ps->s += n;
    return t;
}

static bool at_line_end(Parser *ps) {
    parse_blanks(ps);
    return !*ps->s || *ps->s == '\n' || *ps->s == ';';
}

static bool parse_dim_row(Parser *ps, SymKind kind) {
    Word w;
    const Dim *lo = NULL, *hi = NULL;
    if (!parse_name(ps, &w)) return false;
    if (parse_accept_word(ps, "in")) {
        parse_blanks(ps);
        if (strncmp(ps->s, "..", 2) != 0 && !(lo = parse_dim(ps))) return false;
        if (!parse_expect(ps, "..")) return false;
        if (!at_line_end(ps) && !(hi = parse_dim(ps))) return false;
    }
    const Dim *sym = parse_symbol(ps, w, kind, lo, hi);
    if (kind == SYM_MODEL) vec_push(ps->p->arena, &ps->p->symbols, sym);
    return true;
}

static bool parse_meta(Parser *ps) {
    for (int i = 0; i < 2; i++) {
        const char *text = parse_quoted(ps);
        if (!text) return parse_fail(ps, "expected a quoted text, found '%s'", here(ps));
        vec_push(ps->p->arena, &ps->p->metadata, text);
    }
    return true;
}

static bool parse_node_name(Parser *ps) {
    int64_t n;
    if (!parse_int(ps, &n)) return false;
    if (n != ps->p->node_names.n + 1) return parse_fail(ps, "expected node %d, found %lld", ps->p->node_names.n + 1, (long long)n);
    const char *text = parse_quoted(ps);
    if (!text) return parse_fail(ps, "expected a quoted text, found '%s'", here(ps));
    vec_push(ps->p->arena, &ps->p->node_names, text);
    return true;
}

static bool parse_hash(Parser *ps) {
    char *end;
    parse_blanks(ps);
    ps->p->hash = strtoull(ps->s, &end, 16);
    if (end == ps->s) return parse_fail(ps, "expected a hexadecimal number, found '%s'", here(ps));
    ps->s = end;
    return true;
}

static bool parse_row(Parser *ps, PendingVec *kernels, const char **main_body, TieVec *ties) {
    static const struct {
        const char *word;
        BufKind kind;
    } buffers[] = {{"input", BUF_INPUT}, {"output", BUF_OUTPUT}, {"const", BUF_CONST}, {"state", BUF_STATE}, {"temp", BUF_TEMP}};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        if (parse_accept_word(ps, buffers[i].word)) return parse_buffer(ps, buffers[i].kind, ties);
    if (parse_accept_word(ps, "target")) return ps->p->target = parse_token(ps), true;
    if (parse_accept_word(ps, "hash")) return parse_hash(ps);
    if (parse_accept_word(ps, "meta")) return parse_meta(ps);
    if (parse_accept_word(ps, "node")) return parse_node_name(ps);
    if (parse_accept_word(ps, "dim")) return parse_dim_row(ps, SYM_MODEL);
    if (parse_accept_word(ps, "data"))
        return parse_accept_word(ps, "dim") ? parse_dim_row(ps, SYM_DATA) : parse_fail(ps, "expected 'dim', found '%s'", here(ps));
    if (parse_accept_word(ps, "arena")) return (ps->p->arena_bytes = parse_dim(ps)) != NULL;
    if (parse_accept_word(ps, "kernel")) return parse_kernel(ps, kernels);
    if (!parse_accept_word(ps, "main")) return parse_fail(ps, "expected a row of the header, a kernel or main, found '%s'", here(ps));
    parse_blanks(ps);
    if (*main_body) return parse_fail(ps, "main stands twice");
    *main_body = ps->s;
    return *ps->s == '{' ? skip_block(ps) : parse_expect(ps, "{");
}

static bool parse_program(Parser *ps) {
    PendingVec kernels = {0};
    TieVec ties = {0};
    const char *main_body = NULL;
    for (parse_lines(ps); *ps->s; parse_lines(ps))
        if (!parse_row(ps, &kernels, &main_body, &ties)) return false;
    if (!resolve_ties(ps, &ties)) return false;
    if (!main_body) return parse_fail(ps, "there is no main");
    ps->s = main_body;
    if (!parse_block(ps, &ps->p->main)) return false;
    for (int i = 0; i < kernels.n; i++)
        if (!parse_kernel_body(ps, &kernels.data[i])) return false;
    return true;
}

Program *loop_parse(
    const char *text, const char *file, DimTable *dims, const void *(*blob)(void *ctx, int n, size_t *size), void *ctx, Diag *d) {
    const char *outer = d->file;
    if (file) d->file = file;
    Parser ps = {.text = text, .s = text, .d = d, .blob = blob, .blob_ctx = ctx, .scratch = arena_new()};
    ps.p = program_new(dims, "");
    parse_lines(&ps);
    bool ok = parse_accept_word(&ps, "program") || parse_fail(&ps, "expected 'program', found '%s'", here(&ps));
    if (ok) {
        ps.p->name = parse_token(&ps);
        ok = parse_program(&ps);
    }
    arena_free(ps.scratch);
    d->file = outer;
    if (ok) return ps.p;
    program_free(ps.p);
    return NULL;
}
