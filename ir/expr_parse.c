// Reads expressions in the text form of expr.h: recursive descent with C's precedence for the infix operators.
//
// Nodes are built as written, without folding. A literal without suffix first becomes a constant of type DT_none (and so does an operation
// on such ones only); `resolve` gives it its type as soon as the other operand or the place is known. Scalars beside vectors are splatted.
#include "expr.h"
#include "expr_infix.h"
#include "isa.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 500 };

typedef struct {
    ExprParser *ps;
    const char *p;
    int depth;   // of nested expressions
    int nesting; // of brackets: inside them a line's end is a space
} Reader;

// A word of the text.
typedef struct {
    const char *s;
    size_t n;
} Word;

static const Expr *parse_expr(Reader *r, VType want, int level);

static const VType any_type = {DT_none, 0};

// ---- text ----

static const Expr *fail(Reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static const Expr *fail(Reader *r, const char *fmt, ...) {
    if (r->ps->error[0]) return NULL;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->ps->error, sizeof r->ps->error, fmt, ap);
    va_end(ap);
    return NULL;
}

static void skip_space(Reader *r) {
    while (*r->p == ' ' || *r->p == '\t' || (r->nesting && (*r->p == '\n' || *r->p == '\r'))) r->p++;
}

static bool accept(Reader *r, const char *text) {
    const char *start = r->p;
    skip_space(r);
    size_t n = strlen(text);
    if (strncmp(r->p, text, n) == 0) {
        r->p += n;
        return true;
    }
    r->p = start;
    return false;
}

static bool expect(Reader *r, const char *text) {
    if (accept(r, text)) return true;
    skip_space(r);
    fail(r, "expected '%s', found '%.12s'", text, *r->p ? r->p : "end of text");
    return false;
}

static bool is_word_char(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static Word take_word(Reader *r) {
    Word w = {r->p, 0};
    while (is_word_char(r->p[0])) r->p++;
    w.n = (size_t)(r->p - w.s);
    return w;
}

static bool word_is(Word w, const char *text) {
    return strlen(text) == w.n && memcmp(w.s, text, w.n) == 0;
}

// w is `prefix` followed by digits only: their value; else -1.
static int word_number(Word w, const char *prefix) {
    size_t n = strlen(prefix);
    if (w.n <= n || w.n > n + 6 || memcmp(w.s, prefix, n) != 0) return -1;
    int v = 0;
    for (size_t i = n; i < w.n; i++) {
        if (!isdigit((unsigned char)w.s[i])) return -1;
        v = v * 10 + (w.s[i] - '0');
    }
    return v;
}

// ".f32" after a word.
static DType take_type(Reader *r) {
    if (*r->p != '.') {
        fail(r, "expected '.' and a type, found '%.12s'", r->p);
        return DT_none;
    }
    r->p++;
    Word w = take_word(r);
    DType t = dtype_parse(w.s, w.n);
    if (t == DT_none) fail(r, "unknown type '%.*s'", (int)w.n, w.s);
    return t;
}

static bool take_int(Reader *r, int64_t *v) {
    skip_space(r);
    char *end;
    errno = 0;
    *v = strtoll(r->p, &end, 10);
    if (end == r->p || errno) {
        fail(r, "expected an integer, found '%.12s'", r->p);
        return false;
    }
    r->p = end;
    return true;
}

static const Dim *dim_lookup(void *ctx, const char *name, size_t n) {
    const ExprParser *ps = ctx;
    return ps->dim ? ps->dim(ps->ctx, name, n) : NULL;
}

static const Dim *take_dim(Reader *r) {
    skip_space(r);
    const Dim *d = dim_parse(r->ps->dims, &r->p, dim_lookup, r->ps);
    if (!d) fail(r, "expected an index, found '%.12s'", r->p);
    return d;
}

// ---- types of literals ----

static const Expr *typed_literal(Reader *r, const Expr *e, DType t) {
    Scalar k = e->k_scalar;
    if (dtype_is_float(t)) return x_const(r->ps->arena, scalar_float(t, scalar_as_f64(k)), e->type.lanes);
    if (!dtype_is_int(t) || k.type == DT_f64)
        return fail(r, "expected %s, found a %s", dtype_name(t), k.type == DT_f64 ? "float" : "number");
    Scalar s = scalar_int(t, k.i);
    bool in_range = dtype_is_signed(t) ? s.i == k.i && k.type == DT_i64 : s.u == k.u && (k.type == DT_u64 || k.i >= 0);
    if (!in_range) return fail(r, "number does not fit %s", dtype_name(t));
    return x_const(r->ps->arena, s, e->type.lanes);
}

static const Expr *checked(Reader *r, Expr e) {
    if (e.type.type == DT_none) return x_node(r->ps->arena, e);
    const Expr *node = x_node(r->ps->arena, e);
    const char *fault = expr_check(r->ps->arena, node);
    return fault ? fail(r, "%s", fault) : node;
}

// e with its literals made of type t.
static const Expr *resolve(Reader *r, const Expr *e, DType t) {
    if (!e || e->type.type != DT_none || t == DT_none) return e;
    if (e->op == X_const) return typed_literal(r, e, t);
    Expr copy = *e;
    copy.type.type = t;
    for (int i = 0; i < e->n; i++)
        if (!(copy.a[i] = resolve(r, e->a[i], t))) return NULL;
    return checked(r, copy);
}

static const Expr *widen_scalar(Reader *r, const Expr *e, int lanes) {
    if (e->type.lanes == lanes || e->type.lanes != 1) return e;
    if (e->op == X_const) {
        Expr copy = *e;
        copy.type.lanes = lanes;
        return x_node(r->ps->arena, copy);
    }
    return x_node(r->ps->arena, (Expr){.op = X_splat, .type = vtype(e->type.type, lanes), .n = 1, .a = {e}});
}

// Gives the operands [from, n) one type and all operands one number of lanes.
static bool unify(Reader *r, const Expr **x, int from, int n, DType hint) {
    DType t = hint;
    for (int i = n - 1; i >= from; i--)
        if (x[i]->type.type != DT_none) t = x[i]->type.type;
    int lanes = 1;
    for (int i = 0; i < n; i++) {
        if (i >= from && !(x[i] = resolve(r, x[i], t))) return false;
        if (x[i]->type.lanes > lanes) lanes = x[i]->type.lanes;
    }
    for (int i = 0; i < n; i++) x[i] = widen_scalar(r, x[i], lanes);
    return true;
}

static const Expr *scalar_function(Reader *r, XOp op, const Expr **x, VType want) {
    const XOpInfo *info = xop_info(op);
    bool select = info->cls == XC_SEL;
    if (select && !(x[0] = resolve(r, x[0], DT_bool))) return NULL;
    if (!unify(r, x, select, info->arity, info->cls == XC_CMP ? DT_none : want.type)) return NULL;
    const Expr *first = x[select];
    if (info->cls == XC_CMP && first->type.type == DT_none) return fail(r, "one operand of %s needs a type suffix", info->name);
    Expr e = {.op = op, .n = info->arity, .type = vtype(info->cls == XC_CMP ? DT_bool : first->type.type, first->type.lanes)};
    for (int i = 0; i < e.n; i++) e.a[i] = x[i];
    return checked(r, e);
}

// ---- literals ----

// The end of a number's digits: hexadecimal ones too, and 0x1.8p-3.
static const char *number_end(const char *p, bool *is_float, bool *is_hex) {
    *is_hex = p[0] == '0' && (p[1] == 'x' || p[1] == 'X');
    *is_float = false;
    if (*is_hex) p += 2;
    while (*is_hex ? isxdigit((unsigned char)*p) : isdigit((unsigned char)*p)) p++;
    if (p[0] == '.' && p[1] != '.') {
        *is_float = true;
        p++;
        while (*is_hex ? isxdigit((unsigned char)*p) : isdigit((unsigned char)*p)) p++;
    }
    char mark = *is_hex ? 'p' : 'e';
    const char *q = p + 1 + (p[0] == mark && (p[1] == '-' || p[1] == '+'));
    if (p[0] == mark && isdigit((unsigned char)*q)) {
        *is_float = true;
        while (isdigit((unsigned char)*q)) q++;
        p = q;
    }
    return p;
}

static const Expr *untyped(Reader *r, Scalar k) {
    return x_node(r->ps->arena, (Expr){.op = X_const, .type = {DT_none, 1}, .k_scalar = k});
}

// A number's suffix, DT_none when there is none.
static bool take_suffix(Reader *r, DType *t) {
    *t = DT_none;
    Word suffix = take_word(r);
    if (suffix.n == 0) return true;
    *t = dtype_parse(suffix.s, suffix.n);
    if (*t == DT_none) fail(r, "unknown type suffix '%.*s'", (int)suffix.n, suffix.s);
    return *t != DT_none;
}

static const Expr *parse_number(Reader *r, bool negative) {
    bool is_float, is_hex;
    const char *end = number_end(r->p, &is_float, &is_hex);
    char text[64];
    size_t n = (size_t)(end - r->p);
    if (n >= sizeof text) return fail(r, "number is too long");
    memcpy(text, r->p, n);
    text[n] = '\0';
    r->p = end;
    DType t;
    if (!take_suffix(r, &t)) return NULL;
    if (is_float || dtype_is_float(t)) {
        double v = t == DT_f32 ? (double)strtof(text, NULL) : strtod(text, NULL);
        const Expr *e = untyped(r, (Scalar){.type = DT_f64, .f = negative ? -v : v});
        return resolve(r, e, t);
    }
    errno = 0;
    uint64_t v = strtoull(text, NULL, 0 + (is_hex ? 16 : 10));
    if (errno || (negative && v > (uint64_t)1 << 63)) return fail(r, "integer is too large");
    // A hexadecimal number with a signed suffix states the bits.
    if (is_hex && !negative && dtype_is_signed(t)) {
        int bits = dtype_info(t)->bits;
        if (bits < 64 && v >> bits) return fail(r, "number does not fit %s", dtype_name(t));
        return x_const(r->ps->arena, scalar_int(t, (int64_t)v), 1);
    }
    Scalar k = {.type = !negative && v > INT64_MAX ? DT_u64 : DT_i64, .u = negative ? 0 - v : v};
    return resolve(r, untyped(r, k), t);
}

// true false nan inf nanf32 inff32; false when w is another word.
static bool parse_word_literal(Reader *r, Word w, bool negative, const Expr **out) {
    if (word_is(w, "true") || word_is(w, "false")) {
        *out = negative ? fail(r, "bool has no sign") : x_int(r->ps->arena, DT_bool, word_is(w, "true"));
        return true;
    }
    bool is_nan = w.n >= 3 && memcmp(w.s, "nan", 3) == 0, is_inf = w.n >= 3 && memcmp(w.s, "inf", 3) == 0;
    if (!is_nan && !is_inf) return false;
    DType t = w.n > 3 ? dtype_parse(w.s + 3, w.n - 3) : DT_none;
    if (w.n > 3 && !dtype_is_float(t)) return false;
    double v = is_nan ? (double)NAN : negative ? -(double)INFINITY : (double)INFINITY;
    *out = resolve(r, untyped(r, (Scalar){.type = DT_f64, .f = v}), t);
    return true;
}

// ---- variables and memory ----

// Behind "buf" or "buf.f16": [index : lanes : stride @ offsets ? mask]
static const Expr *parse_load(Reader *r, Var *buf) {
    Expr e = {.op = X_load, .var = buf, .type = vtype(buf->type.type, 1)};
    if (*r->p == '.' && (e.type.type = take_type(r)) == DT_none) return NULL;
    if (!expect(r, "[")) return NULL;
    r->nesting++;
    if (!(e.dim = take_dim(r))) return NULL;
    int64_t lanes = 1;
    bool has_lanes = accept(r, ":");
    if (has_lanes) {
        if (!take_int(r, &lanes)) return NULL;
        e.k = 1;
        if (accept(r, ":") && !take_int(r, &e.k)) return NULL;
    }
    if (lanes < 1 || lanes > 64) return fail(r, "lanes must be in 1..64, found %lld", (long long)lanes);
    if (accept(r, "@")) {
        if (!(e.a[0] = parse_expr(r, any_type, 0)) || !(e.a[0] = resolve(r, e.a[0], DT_idx))) return NULL;
        if (has_lanes)
            e.a[0] = widen_scalar(r, e.a[0], (int)lanes);
        else
            lanes = e.a[0]->type.lanes;
    }
    if (accept(r, "?")) {
        if (!(e.a[1] = parse_expr(r, vtype(DT_bool, (int)lanes), 0))) return NULL;
        e.a[1] = widen_scalar(r, e.a[1], (int)lanes);
    }
    e.type.lanes = (int)lanes;
    if (lanes == 1) e.k = 0;
    if (!expect(r, "]")) return NULL;
    r->nesting--;
    return checked(r, e);
}

static const Expr *parse_var(Reader *r, Var *v) {
    if (v->kind == VAR_BUFFER) return parse_load(r, v);
    Expr e = {.op = X_var, .type = v->type, .var = v};
    if (v->kind == VAR_TILE) {
        if (!expect(r, "[")) return NULL;
        r->nesting++;
        for (int i = 0; i < v->ntile; i++)
            if ((i && !expect(r, ",")) || !(e.idx[i] = take_dim(r))) return NULL;
        if (!expect(r, "]")) return NULL;
        r->nesting--;
    }
    return checked(r, e);
}

// ---- calls ----

static const Expr *operand(Reader *r, VType want) {
    return parse_expr(r, want, 0);
}

static const Expr *parse_cast(Reader *r, XOp op) {
    DType t = take_type(r);
    if (t == DT_none || !expect(r, "(")) return NULL;
    const Expr *x = operand(r, any_type);
    if (!x) return NULL;
    if (x->type.type == DT_none) return fail(r, "operand of %s needs a type suffix", xop_info(op)->name);
    return checked(r, (Expr){.op = op, .type = vtype(t, x->type.lanes), .n = 1, .a = {x}});
}

static const Expr *parse_splat(Reader *r, int lanes, VType want) {
    const Expr *x = operand(r, vtype(want.type, 1));
    if (!x || !(x = resolve(r, x, want.type))) return NULL;
    if (lanes < 1 || lanes > 64 || x->type.lanes != 1) return fail(r, "splat: needs a scalar and 1..64 lanes");
    return lanes == 1 ? x : widen_scalar(r, x, lanes);
}

static const Expr *parse_shuffle(Reader *r, VType want) {
    Expr e = {.op = X_shuffle, .n = 1};
    if (!(e.a[0] = operand(r, vtype(want.type, 0)))) return NULL;
    if (accept(r, ",") && (e.n = 2, !(e.a[1] = operand(r, vtype(want.type, 0))))) return NULL;
    if (!expect(r, ";")) return NULL;
    uint8_t *perm = ARENA_ARRAY(r->ps->arena, uint8_t, 64);
    int lanes = 0;
    for (skip_space(r); isdigit((unsigned char)*r->p); skip_space(r)) {
        int64_t v;
        if (!take_int(r, &v)) return NULL;
        if (lanes == 64 || v > 127) return fail(r, "shuffle: needs up to 64 lane numbers below 128");
        perm[lanes++] = (uint8_t)v;
    }
    e.perm = perm;
    e.type = vtype(e.a[0]->type.type, lanes);
    return checked(r, e);
}

static const Expr *parse_lane(Reader *r) {
    Expr e = {.op = X_lane, .n = 1};
    if (!(e.a[0] = operand(r, any_type)) || !expect(r, ",") || !take_int(r, &e.k)) return NULL;
    e.type = vtype(e.a[0]->type.type, 1);
    return checked(r, e);
}

static const Expr *parse_insert(Reader *r, VType want) {
    Expr e = {.op = X_insert, .n = 2};
    if (!(e.a[0] = operand(r, want)) || !expect(r, ",") || !take_int(r, &e.k) || !expect(r, ",")) return NULL;
    e.type = e.a[0]->type;
    if (!(e.a[1] = operand(r, vtype(e.type.type, 1))) || !(e.a[1] = resolve(r, e.a[1], e.type.type))) return NULL;
    return checked(r, e);
}

static const Expr *parse_hreduce(Reader *r, XOp op, VType want) {
    const Expr *x = operand(r, vtype(want.type, 0));
    return x ? checked(r, (Expr){.op = X_hreduce, .type = vtype(x->type.type, 1), .n = 1, .a = {x}, .k = op}) : NULL;
}

static const Expr *parse_widen(Reader *r, int lanes) {
    Expr e = {.op = X_widen, .n = 1};
    e.type = vtype(take_type(r), lanes);
    if (e.type.type == DT_none || !expect(r, "(") || !(e.a[0] = operand(r, any_type)) || !expect(r, ",") || !take_int(r, &e.k)) return NULL;
    return checked(r, e);
}

static const Expr *parse_index(Reader *r) {
    Expr e = {.op = X_index, .n = 1, .type = vtype(DT_idx, 1)};
    if (!(e.a[0] = operand(r, e.type)) || !(e.a[0] = resolve(r, e.a[0], DT_idx)) || !expect(r, ",") || !(e.dim = take_dim(r))) return NULL;
    return checked(r, e);
}

static bool parse_operands(Reader *r, const Expr **x, int n, VType first, VType others) {
    for (int i = 0; i < n; i++)
        if ((i && !expect(r, ",")) || !(x[i] = operand(r, i ? others : first))) return false;
    return true;
}

// The other lane operations: the operands fix the type.
static const Expr *parse_lane_op(Reader *r, XOp op, VType want) {
    Expr e = {.op = op, .n = xop_info(op)->arity};
    VType first = op == X_popcount ? any_type : want;
    if (!parse_operands(r, e.a, e.n, first, op == X_compress || op == X_expand ? vtype(DT_bool, 0) : any_type)) return NULL;
    e.type = op == X_popcount ? vtype(DT_i32, 1) : e.a[0]->type;
    if (op == X_table) e.type.lanes = e.a[1]->type.lanes;
    return checked(r, e);
}

static const Expr *parse_isa(Reader *r) {
    if (*r->p != '.') return fail(r, "expected '.' and an instruction's name");
    r->p++;
    Word w = take_word(r);
    int row = isa_find(w.s, w.n);
    if (row < 0) return fail(r, "unknown instruction '%.*s'", (int)w.n, w.s);
    if (!expect(r, "(")) return NULL;
    const IsaRow *info = isa_row(row);
    Expr e = {.op = X_isa, .k = row, .type = vtype_parse(info->result, strlen(info->result))};
    const char *s = info->args;
    for (size_t n = strcspn(s, " "); n; n = strcspn(s, " ")) {
        VType t = vtype_parse(s, n);
        const Expr *x = e.n && !expect(r, ",") ? NULL : operand(r, t);
        if (!x || !(x = resolve(r, x, t.type))) return NULL;
        e.a[e.n++] = widen_scalar(r, x, t.lanes);
        s += n + (s[n] == ' ');
    }
    return checked(r, e);
}

static const Expr *parse_function(Reader *r, XOp op, VType want) {
    const XOpInfo *info = xop_info(op);
    VType first = want, others = want;
    if (info->cls == XC_CMP) first = others = any_type;
    if (info->cls == XC_SEL) first = vtype(DT_bool, want.lanes);
    const Expr *x[3] = {0};
    return parse_operands(r, x, info->arity, first, others) ? scalar_function(r, op, x, want) : NULL;
}

static const Expr *parse_arguments(Reader *r, Word w, VType want) {
    int lanes = word_number(w, "splat");
    if (lanes >= 0) return parse_splat(r, lanes, want);
    if (word_is(w, "dim")) {
        const Dim *d = take_dim(r);
        return d ? checked(r, (Expr){.op = X_dim, .type = vtype(DT_idx, 1), .dim = d}) : NULL;
    }
    XOp op = xop_parse(w.s, w.n);
    if (op == X_seed) return checked(r, (Expr){.op = X_seed, .type = vtype(DT_u64, 1)});
    if (op == X_shuffle) return parse_shuffle(r, want);
    if (op == X_lane) return parse_lane(r);
    if (op == X_insert) return parse_insert(r, want);
    if (op == X_index) return parse_index(r);
    if (op == X_table || op == X_compress || op == X_expand || op == X_popcount || op == X_dot4) return parse_lane_op(r, op, want);
    if (op != X_COUNT && xop_info(op)->cls >= XC_ARITH) return parse_function(r, op, want);
    XOp reduced = w.n > 1 && w.s[0] == 'h' ? xop_parse(w.s + 1, w.n - 1) : X_COUNT;
    if (reduced != X_COUNT) return parse_hreduce(r, reduced, want);
    return fail(r, "unknown function '%.*s'", (int)w.n, w.s);
}

// Behind the name: ( … ), or .type( … ) for those that name one.
static const Expr *parse_call(Reader *r, Word w, VType want) {
    XOp op = xop_parse(w.s, w.n);
    int widened = word_number(w, "widen");
    const Expr *e;
    r->nesting++;
    if (op != X_COUNT && xop_info(op)->cls == XC_CAST)
        e = parse_cast(r, op);
    else if (widened >= 0)
        e = parse_widen(r, widened);
    else if (op == X_isa)
        e = parse_isa(r);
    else
        e = expect(r, "(") ? parse_arguments(r, w, want) : NULL;
    if (!e || !expect(r, ")")) return NULL;
    r->nesting--;
    return e;
}

// ---- expressions ----

static const Expr *parse_name(Reader *r, Word w, VType want) {
    Var *v = r->ps->var ? r->ps->var(r->ps->ctx, w.s, w.n) : NULL;
    if (v) return parse_var(r, v);
    const Expr *literal;
    if (parse_word_literal(r, w, false, &literal)) return literal;
    int arg = word_number(w, "a"), lanes = word_number(w, "iota");
    if (arg >= 0 && r->ps->arg) {
        DType t = r->ps->arg(r->ps->ctx, arg);
        return t == DT_none ? fail(r, "there is no input a%d", arg) : x_arg(r->ps->arena, arg, t);
    }
    if (lanes >= 1) {
        DType t = *r->p == '.' ? take_type(r) : want.type;
        return t == DT_none ? fail(r, "iota needs a type") : checked(r, (Expr){.op = X_iota, .type = vtype(t, lanes)});
    }
    const Dim *d = dim_lookup(r->ps, w.s, w.n);
    if (d) return x_node(r->ps->arena, (Expr){.op = X_dim, .type = vtype(DT_idx, 1), .dim = d});
    r->p = w.s;
    return fail(r, "unknown name '%.*s'", (int)w.n, w.s);
}

static const Expr *parse_negative(Reader *r, VType want);

static const Expr *parse_primary(Reader *r, VType want) {
    skip_space(r);
    if (*r->p == '-') return parse_negative(r, want);
    if (accept(r, "(")) {
        r->nesting++;
        const Expr *e = parse_expr(r, want, 0);
        if (!e || !expect(r, ")")) return NULL;
        r->nesting--;
        return e;
    }
    if (isdigit((unsigned char)*r->p)) return parse_number(r, false);
    Word w = take_word(r);
    if (w.n == 0) return fail(r, "expected an expression, found '%.12s'", *r->p ? r->p : "end of text");
    XOp op = xop_parse(w.s, w.n);
    bool dotted = *r->p == '.' && (op == X_isa || (op != X_COUNT && xop_info(op)->cls == XC_CAST) || word_number(w, "widen") >= 0);
    if (*r->p == '(' || dotted) return parse_call(r, w, want);
    return parse_name(r, w, want);
}

static const Expr *parse_negative(Reader *r, VType want) {
    r->p++;
    if (isdigit((unsigned char)*r->p)) return parse_number(r, true);
    const char *start = r->p;
    const Expr *literal;
    if (isalpha((unsigned char)*r->p) && parse_word_literal(r, take_word(r), true, &literal)) return literal;
    r->p = start;
    const Expr *x[3] = {r->depth++ < MAX_DEPTH ? parse_primary(r, want) : fail(r, "expression is nested too deep")};
    r->depth--;
    return x[0] ? scalar_function(r, X_neg, x, want) : NULL;
}

static const ExprInfix *take_infix(Reader *r, int level) {
    const char *start = r->p;
    skip_space(r);
    for (const ExprInfix *i = expr_infix; i->text; i++) {
        if (strncmp(r->p, i->text, strlen(i->text)) != 0 || i->level < level) continue;
        r->p += strlen(i->text);
        return i;
    }
    r->p = start;
    return NULL;
}

// Operators of at least `level`, left to right.
static const Expr *parse_expr(Reader *r, VType want, int level) {
    if (r->depth++ > MAX_DEPTH) return fail(r, "expression is nested too deep");
    const Expr *left = parse_primary(r, want);
    const ExprInfix *sign;
    while (left && (sign = take_infix(r, level))) {
        bool compares = xop_info(sign->op)->cls == XC_CMP;
        const Expr *x[3] = {left, parse_expr(r, compares ? any_type : want, sign->level + 1)};
        left = x[1] ? scalar_function(r, sign->op, x, want) : NULL;
    }
    r->depth--;
    return left;
}

const Expr *expr_parse(ExprParser *ps, const char **p, VType want) {
    Reader r = {.ps = ps, .p = *p};
    ps->error[0] = '\0';
    const Expr *e = parse_expr(&r, want, 0);
    if (e) e = resolve(&r, e, want.type);
    if (e && e->type.type == DT_none) e = fail(&r, "number needs a type suffix");
    if (e && want.type != DT_none) {
        e = widen_scalar(&r, e, want.lanes ? want.lanes : 1);
        if (!vtype_same(e->type, want))
            e = fail(&r, "expected %sx%d, found %sx%d", dtype_name(want.type), want.lanes, dtype_name(e->type.type), e->type.lanes);
    }
    *p = r.p;
    return e;
}
