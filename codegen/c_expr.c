// Indices, scalar expressions and scalar loads as C text.
//
// An expression is printed where it stands; what it shares is declared in front of its statement (c_hoist), so that text and work stay
// linear in the DAG. MATH functions and arithmetic on small floats become functions whose bodies are printed from their definitions
// (expr_lower_math).
#include "c_print.h"

#include "../ir/isa.h"
#include <string.h>

static Txt atom(const char *s) {
    return (Txt){s, true};
}
static Txt compound(const char *s) {
    return (Txt){s, false};
}
static const char *operand_text(C *c, Txt t) {
    return t.atom ? t.s : c_fmt(c, "(%s)", t.s);
}

// ---- indices ----
const Dim *c_dim_now(C *c, const Dim *d) {
    return c->f.from.n ? dim_subst(c->t, d, c->f.from.data, c->f.to.data, c->f.from.n) : d;
}

static Txt dim_sum(C *c, const Dim *d);

static const char *dim_paren(C *c, const Dim *d) {
    return operand_text(c, dim_sum(c, d));
}

static const char *idx_function(C *c, XOp op) {
    const char *ops[] = {"a", "b"};
    c_scalar(c, op, DT_idx, DT_idx, ops); // makes the function
    return c_fmt(c, "%s_%s_idx", c->prefix, xop_info(op)->name);
}

static const char *dim_atom(C *c, const Atom *m) {
    static const XOp ops[] = {[ATOM_FLOORDIV] = X_floordiv, [ATOM_MOD] = X_floormod, [ATOM_MIN] = X_min, [ATOM_MAX] = X_max};
    if (m->kind == ATOM_SYMBOL) {
        const char *name = c_name(c, m->self);
        if (!name) c_unsupported(c, "symbol '%s' is not in scope", m->sym->name);
        return name ? name : "0";
    }
    int64_t lo, hi, blo, bhi;
    dim_interval(m->a, &lo, &hi);
    dim_interval(m->b, &blo, &bhi);
    bool divides = m->kind == ATOM_FLOORDIV || m->kind == ATOM_MOD;
    if (divides && lo >= 0 && blo > 0)
        return c_fmt(c, "(%s %c %s)", dim_paren(c, m->a), m->kind == ATOM_MOD ? '%' : '/', dim_paren(c, m->b));
    return c_fmt(c, "%s(%s, %s)", idx_function(c, ops[m->kind]), dim_sum(c, m->a).s, dim_sum(c, m->b).s);
}

// d must not mention replaced symbols.
static Txt dim_sum(C *c, const Dim *d) {
    int64_t v;
    if (dim_is_int(d, &v)) return v < 0 ? compound(c_fmt(c, "%lld", (long long)v)) : atom(c_fmt(c, "%lld", (long long)v));
    Str s = {0};
    int n = dim_nterms(d);
    for (int pass = 0; pass < 2; pass++) // positive terms first
        for (int i = 0; i < n; i++) {
            int64_t k = dim_coefficient(d, i);
            if ((k < 0) != (pass == 1)) continue;
            str_add(&s, s.n ? (k < 0 ? " - " : " + ") : k < 0 ? "-" : "");
            int64_t mag = k < 0 ? -k : k;
            int nf = dim_nfactors(d, i);
            if (nf == 0 || mag != 1) str_printf(&s, "%lld%s", (long long)mag, nf ? " * " : "");
            for (int j = 0; j < nf; j++) str_printf(&s, "%s%s", j ? " * " : "", dim_atom(c, dim_factor(d, i, j)));
        }
    Txt t = {arena_strndup(c->a, s.data, s.n), n == 1 && dim_coefficient(d, 0) == 1 && dim_nfactors(d, 0) == 1};
    str_free(&s);
    return t;
}

Txt c_dim(C *c, const Dim *d) {
    return dim_sum(c, c_dim_now(c, d));
}
const char *c_dim_operand(C *c, const Dim *d) {
    return operand_text(c, c_dim(c, d));
}

// ---- constants ----
Txt c_const(C *c, VType t, Scalar v) {
    if (t.lanes > 1) return c_lanes(c, x_const(c->a, v, t.lanes));
    Str s = {0};
    codegen_scalar(&s, v);
    const char *text = arena_strndup(c->a, s.data, s.n);
    str_free(&s);
    return (Txt){text, text[0] != '-'};
}

// ---- templates ----
static const char *expand_one(C *c, Str *s, const char *p, VType t, const char *const *ops) {
    if (*p >= '0' && *p <= '2') {
        str_add(s, ops[*p - '0']);
        return p + 1;
    }
    if (strncmp(p, "NEG1(", 5) == 0) {
        const char *end = strchr(p, ')');
        bool is_signed = dtype_is_signed(t.type) || t.type == DT_idx;
        if (is_signed)
            str_printf(s, "%.*s == -1", (int)(end - p - 5), p + 5);
        else
            str_add(s, "0");
        return end + 1;
    }
    const char *type = *p == 'T' ? c_type(c, t) : *p == 'U' ? c_unsigned(c, t) : *p == 'I' ? c_signed(c, t) : c_wide(t.type);
    str_add(s, type);
    return p + 1;
}

const char *c_expand(C *c, const char *text, VType t, const char *const *ops) {
    Str s = {0};
    str_add(&s, "");
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "$");
        str_addn(&s, p, n);
        p += n;
        if (*p) p = expand_one(c, &s, p + 1, t, ops);
    }
    const char *r = arena_strndup(c->a, s.data, s.n);
    str_free(&s);
    return r;
}

// ---- scalar functions ----
static const char *template_of(XOp op, DType t) {
    const XOpInfo *info = xop_info(op);
    if (t == DT_bool && op == X_not) return "!$0";
    return dtype_is_float(t) ? info->c_float : info->c_int;
}

// What an operation on unsigned types comes down to, so that no comparison with zero is always false.
static XOp unsigned_twin(XOp op, DType t) {
    if (dtype_info(t)->cls != 'U') return op;
    return op == X_floordiv ? X_div : op == X_floormod ? X_rem : op;
}

// A body of scalar.def, one statement a line.
static const char *body_lines(C *c, const char *text) {
    Str s = {0};
    int depth = 0;
    str_add(&s, "    ");
    for (const char *p = text; *p; p++) {
        depth += (*p == '(') - (*p == ')');
        if (*p == ';' && depth == 0 && p[1] == ' ')
            str_add(&s, ";\n    "), p++;
        else
            str_addn(&s, p, 1);
    }
    str_add(&s, "\n");
    const char *r = arena_strndup(c->a, s.data, s.n);
    str_free(&s);
    return r;
}

static Txt function_of_scalars(C *c, XOp op, DType t, const char *text, const char *const *ops) {
    const char *name = c_fmt(c, "%s_%s_%s", c->prefix, xop_info(op)->name, dtype_name(t));
    int n = xop_info(op)->arity;
    if (c_need(c, name)) {
        const char *params[] = {"a", "b", "c"};
        VType args[] = {vtype(t, 1), vtype(t, 1), vtype(t, 1)};
        c_function(c, name, vtype(t, 1), n, args, body_lines(c, c_expand(c, text, vtype(t, 1), params)));
    }
    return atom(c_fmt(c,
        n == 1   ? "%s(%s)"
        : n == 2 ? "%s(%s, %s)"
                 : "%s(%s, %s, %s)",
        name, ops[0], n > 1 ? ops[1] : "", n > 2 ? ops[2] : ""));
}

Txt c_scalar(C *c, XOp op, DType t, DType to, const char *const *ops) {
    op = unsigned_twin(op, t);
    const char *text = template_of(op, t);
    if (op == X_abs && dtype_info(t)->cls == 'U') return compound(ops[0]);
    if (xop_info(op)->cls == XC_CAST || strcmp(text, "CUSTOM") == 0) return c_custom(c, op, t, to, ops);
    if (!text[0]) c_unsupported(c, "%s is not defined on %s", xop_info(op)->name, dtype_name(t));
    if (strchr(text, ';')) return function_of_scalars(c, op, t, text, ops);
    return compound(c_expand(c, text, vtype(t, 1), ops));
}

// ---- functions made from expressions ----
bool c_is_defined(const Expr *e) {
    XClass cls = xop_info(e->op)->cls;
    if (e->op == X_bits || cls <= XC_LANE || cls == XC_SEL) return false;
    bool small = !dtype_is_native(e->type.type);
    for (int i = 0; i < e->n; i++) small |= !dtype_is_native(e->a[i]->type.type);
    return cls == XC_MATH || small;
}

void c_function_of(C *c, const char *name, int nargs, const VType *args, const Expr *body) {
    CFn outer = c_enter(c);
    for (int i = 0; i < 3; i++) c_reserve(c, (const char *[]){"a", "b", "c"}[i]);
    c_hoist(c, 1, &body);
    c_line(c, "return %s;", c_expr(c, body).s);
    Str text = c_leave(c, outer);
    c_function(c, name, body->type, nargs, args, text.data);
    str_free(&text);
}

Txt c_call(C *c, const char *name, const Expr *e) {
    Str s = {0};
    str_printf(&s, "%s(", name);
    for (int i = 0; i < e->n; i++) str_printf(&s, "%s%s", i ? ", " : "", c_expr(c, e->a[i]).s);
    str_add(&s, ")");
    Txt t = atom(arena_strndup(c->a, s.data, s.n));
    str_free(&s);
    return t;
}

const Expr *c_with_arguments(C *c, const Expr *e) {
    Expr call = *e;
    for (int i = 0; i < e->n; i++) call.a[i] = x_node(c->a, (Expr){.op = X_arg, .type = e->a[i]->type, .k = i});
    return x_node(c->a, call);
}

static void define(C *c, const char *name, const Expr *e, const VType *types) {
    const Expr *body = expr_lower_math(c->a, c_with_arguments(c, e));
    if (c_is_defined(body) && body->op == e->op)
        c_unsupported(c, "%s has no definition on %s", xop_info(e->op)->name, dtype_name(e->type.type));
    else
        c_function_of(c, name, e->n, types, body);
}

Txt c_defined(C *c, const Expr *e) {
    VType types[3];
    bool cast = xop_info(e->op)->cls == XC_CAST;
    for (int i = 0; i < e->n; i++) types[i] = e->a[i]->type;
    const char *name = c_fmt(c, "%s_%s_%s", c->prefix, xop_info(e->op)->name, c_kind(c, e->n ? types[0] : e->type));
    if (cast) name = c_fmt(c, "%s_%s", name, dtype_name(e->type.type));
    if (c_need(c, name) && !c_instruction(c, e, name)) define(c, name, e, types);
    return c_call(c, name, e);
}

// ---- leaves ----
const char *c_tile(C *c, const Var *v, const Dim *const *idx) {
    const char *name = c_name(c, v);
    for (int i = 0; i < v->ntile; i++) {
        int64_t k;
        if (!dim_is_int(c_dim_now(c, idx[i]), &k)) {
            c_unsupported(c, "tile '%s' is indexed by more than unrolled loops", v->name);
            return "0";
        }
        name = c_fmt(c, "%s_%lld", name ? name : "", (long long)k);
    }
    return name;
}

static Txt variable(C *c, const Expr *e) {
    const char *name = e->var->kind == VAR_TILE ? c_tile(c, e->var, e->idx) : c_name(c, e->var);
    if (!name) c_unsupported(c, "variable '%s' is not in scope", e->var->name);
    return atom(name ? name : "0");
}

const char *c_address(C *c, const Var *buf, const Dim *index) {
    const Dim *d = c_dim_now(c, index);
    return dim_is(d, 0) ? c_buffer(c, buf) : c_fmt(c, "%s + %s", c_buffer(c, buf), dim_paren(c, d));
}

// Bytes read as another type.
static Txt load_as(C *c, const Expr *e) {
    return atom(c_fmt(c, "%s(%s)", c_read_function(c, e->type.type), c_address(c, e->var, e->dim)));
}

static Txt load(C *c, const Expr *e) {
    if (e->type.lanes > 1) return c_load_lanes(c, e);
    Txt t;
    if (e->type.type != e->var->type.type)
        t = load_as(c, e);
    else if (e->a[0])
        t = atom(c_fmt(c, "%s[%s + %s]", c_buffer(c, e->var), c_dim(c, e->dim).s, c_operand(c, e->a[0])));
    else
        t = atom(c_fmt(c, "%s[%s]", c_buffer(c, e->var), c_dim(c, e->dim).s));
    if (e->type.type == DT_bool) t = compound(c_fmt(c, "%s != 0", t.s));
    if (!e->a[1]) return t;
    return compound(
        c_fmt(c, "%s ? %s : %s", c_operand(c, e->a[1]), operand_text(c, t), c_const(c, e->type, scalar_int(e->type.type, 0)).s));
}

static Txt index_checked(C *c, const Expr *e) {
    const char *name = c_fmt(c, "%s_index", c->prefix);
    if (c_need(c, name)) {
        const char *idx = c_type(c, vtype(DT_idx, 1));
        c_function_text(c, name, idx, c_fmt(c, "%s i, %s n, int32_t *bad", idx, idx),
            "    if (i >= 0 && i < n) return i;\n    *bad = 1;\n    return i < 0 || n <= 0 ? 0 : n - 1;\n");
    }
    return atom(c_fmt(c, "%s(%s, %s, &bad)", name, c_expr(c, e->a[0]).s, c_dim(c, e->dim).s));
}

static Txt popcount(C *c, const Expr *e) {
    bool wide = dtype_bytes(e->a[0]->type.type) == 8;
    const char *u = c_unsigned(c, e->a[0]->type);
    return atom(c_fmt(c, "%s((%s)%s)", c_soft(c, wide ? "popcount_u64" : "popcount_u32"), u, c_operand(c, e->a[0])));
}

static Txt argument(C *c, const Expr *e) {
    (void)c;
    static const char *const names[] = {"a", "b", "c"};
    return atom(names[e->k]);
}
static Txt index_value(C *c, const Expr *e) {
    return c_dim(c, e->dim);
}
static Txt constant(C *c, const Expr *e) {
    return c_const(c, e->type, e->k_scalar);
}

static Txt environment_seed(C *c, const Expr *e) {
    (void)c, (void)e;
    return atom("env->seed");
}

typedef Txt Print(C *c, const Expr *e);
static Print *const leaf_print[X_COUNT] = {
    [X_const] = constant,
    [X_arg] = argument,
    [X_dim] = index_value,
    [X_seed] = environment_seed,
    [X_var] = variable,
    [X_load] = load,
    [X_index] = index_checked,
};

static bool has_lanes(const Expr *e) {
    if (e->type.lanes > 1) return true;
    for (int i = 0; i < e->n; i++)
        if (e->a[i] && e->a[i]->type.lanes > 1) return true;
    return false;
}

Txt c_expr(C *c, const Expr *e) {
    const char *name = e->op > X_var ? c_name(c, e) : NULL;
    if (name) return atom(name);
    if (leaf_print[e->op]) return leaf_print[e->op](c, e);
    if (e->op == X_isa || has_lanes(e)) return c_lanes(c, e);
    if (c_is_defined(e)) return c_defined(c, e);
    if (e->op == X_splat) return c_expr(c, e->a[0]);
    if (e->op == X_popcount) return popcount(c, e);
    if (xop_info(e->op)->cls <= XC_LANE) {
        c_unsupported(c, "%s on scalars", xop_info(e->op)->name);
        return atom("0");
    }
    const char *ops[3] = {"", "", ""};
    for (int i = 0; i < e->n; i++) ops[i] = c_operand(c, e->a[i]);
    return c_scalar(c, e->op, e->a[e->op == X_select ? 1 : 0]->type.type, e->type.type, ops);
}

const char *c_operand(C *c, const Expr *e) {
    return operand_text(c, c_expr(c, e));
}

// ---- hoisting ----
static void count_uses(C *c, PtrSet *uses, const Expr *e) {
    if (!ptrset_add(c->a, uses, e)) return;
    for (int i = 0; i < e->n; i++)
        if (e->a[i]) count_uses(c, uses, e->a[i]);
}

// An index check stands alone so that it happens whatever a selection chooses.
static bool stands_alone(const Expr *e, int uses) {
    return e->op == X_index || (uses > 1 && e->op > X_var);
}

static void hoist(C *c, const PtrSet *uses, PtrSet *seen, const Expr *e, bool root) {
    if (!ptrset_add(c->a, seen, e) || (e->op <= X_var)) return;
    for (int i = 0; i < e->n; i++)
        if (e->a[i]) hoist(c, uses, seen, e->a[i], false);
    if (root || !stands_alone(e, ptrset_count(uses, e))) return;
    const char *text = c_expr(c, e).s;
    const char *name = c_declare(c, e, "t");
    c->f.names.data[c->f.names.n - 1].temp = true;
    c_line(c, "const %s %s = %s;", c_type(c, e->type), name, text);
}

void c_hoist(C *c, int n, const Expr *const *roots) {
    PtrSet uses = {0}, seen = {0};
    for (int i = 0; i < n; i++)
        if (roots[i]) count_uses(c, &uses, roots[i]);
    for (int i = 0; i < n; i++)
        if (roots[i]) hoist(c, &uses, &seen, roots[i], n == 1);
}

void c_unhoist(C *c, int mark) {
    for (int i = mark; i < c->f.names.n; i++)
        if (c->f.names.data[i].temp) c->f.names.data[i].key = NULL;
}
