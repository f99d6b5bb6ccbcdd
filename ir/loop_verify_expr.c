// The verifier's rules on names, indices and expressions; they are numbered in loop_verify.c's head.
#include "loop_verify.h"

#include <ctype.h>
#include <string.h>

void verify_fault(Verifier *v, int rule, const char *fmt, ...) {
    Str s = {0};
    va_list ap;
    va_start(ap, fmt);
    str_vprintf(&s, fmt, ap);
    va_end(ap);
    if (v->at) {
        str_add(&s, ": ");
        stmt_print(&s, v->at);
    }
    diag_error(v->d, EXIT_INTERNAL, "%s %s: rule %d: %s", v->kernel ? "kernel" : "program", v->kernel ? v->kernel->name : v->p->name, rule,
        s.data);
    str_free(&s);
}

// ---- names ----

static bool is_word(const char *w) {
    if (!*w || isdigit((unsigned char)*w)) return false;
    for (; *w; w++)
        if (!isalnum((unsigned char)*w) && *w != '_') return false;
    return true;
}

void verify_word(Verifier *v, const char *name) {
    if (!is_word(name) || loop_reserved(name, strlen(name))) verify_fault(v, 1, "'%s' cannot be a name", name);
    if (names_has(v->words, name)) verify_fault(v, 1, "name '%s' is defined twice", name);
    names_add(v->arena, v->words, name);
}

void verify_define(Verifier *v, const void *what, const char *name, bool buffer) {
    if (ptr_map_get(&v->state, what) >= 0)
        verify_fault(v, 1, "'%s' is defined twice", name);
    else
        verify_word(v, name);
    ptr_map_put(&v->state, what, NAME_LIVE);
    ptr_map_put(&v->depth, what, v->loops.n);
    vec_push(v->arena, &v->names, ((LiveName){what, buffer}));
}

void verify_define_symbol(Verifier *v, const Dim *sym) {
    verify_define(v, sym, dim_as_symbol(sym)->name, false);
}
void verify_define_var(Verifier *v, const Var *var) {
    verify_define(v, var, var->name, var->kind == VAR_BUFFER);
}

void verify_end_names(Verifier *v, int mark, NameState state) {
    for (int i = mark; i < v->names.n; i++) ptr_map_put(&v->state, v->names.data[i].what, state);
    v->names.n = mark;
}

void verify_use(Verifier *v, const void *what, const char *name) {
    int state = ptr_map_get(&v->state, what);
    if (state == NAME_LIVE) return;
    if (state == NAME_CROSSED)
        verify_fault(v, 8, "'%s' is used across a barrier", name);
    else
        verify_fault(v, 2, "'%s' is %s", name, state < 0 ? "not defined" : "used outside of its block");
}

// ---- indices ----

void verify_use_symbol(void *ctx, const Dim *sym) {
    Verifier *v = ctx;
    const Sym *s = dim_as_symbol(sym);
    if (s->kind == SYM_AXIS)
        verify_fault(v, 4, "index mentions the axis '%s'", s->name);
    else
        verify_use(v, sym, s->name);
}

void verify_dim(Verifier *v, const Dim *d) {
    if (dim_is_poison(d))
        verify_fault(v, 4, "an index overflows");
    else
        dim_symbols(d, verify_use_symbol, v);
}

void verify_visit_dim(void *ctx, const Dim **d) {
    verify_dim(ctx, *d);
}

// d at the iteration that makes it largest (or smallest), over the loops whose iterations all reach the place: not those around a loop that
// may be empty or ends early. Unknown signs stay symbolic.
static const Dim *extreme(Verifier *v, const Dim *d, bool largest) {
    DimTable *t = v->p->dims;
    for (int i = v->loops.n - 1; i >= 0; i--) {
        const OpenLoop *l = &v->loops.data[i];
        const Dim *coeff, *rest;
        int64_t k;
        if (!l->sure) break;
        if (!l->s->sym || !dim_has_symbol(d, l->s->sym)) continue;
        if (!dim_linear(t, d, l->s->sym, &coeff, &rest) || !dim_is_int(coeff, &k)) continue;
        const Dim *end = (k > 0) == largest ? loop_last(t, l->s->lo, l->s->hi, l->s->step) : l->s->lo;
        d = dim_add(t, dim_mul(t, coeff, end), rest);
    }
    return d;
}

static bool in_empty_loop(Verifier *v) {
    for (int i = 0; i < v->loops.n; i++)
        if (v->loops.data[i].s->sym && dim_le(v->p->dims, v->loops.data[i].s->hi, v->loops.data[i].s->lo) == YES) return true;
    return false;
}

static void check_range(Verifier *v, const char *name, const Dim *low, const Dim *high, const Dim *size) {
    DimTable *t = v->p->dims;
    if (v->conditional || in_empty_loop(v)) return;
    if (dim_lt(t, extreme(v, low, false), dim_int(t, 0)) == YES)
        verify_fault(v, 11, "%s[%s] lies before the buffer", name, dim_text(t, low));
    if (dim_le(t, size, extreme(v, high, true)) == YES)
        verify_fault(v, 11, "%s[%s] lies behind the buffer's %s elements", name, dim_text(t, high), dim_text(t, size));
}

void verify_bounds(Verifier *v, const Var *buf, const Dim *index, int lanes, int64_t stride, DType as) {
    DimTable *t = v->p->dims;
    const LoopBuffer *b = buf->owner;
    const Dim *size = b->rank < 0 ? NULL : dim_product(t, b->shape, b->rank);
    if (!size || dim_is_poison(index)) return;
    int element = dtype_bytes(buf->type.type), bytes = dtype_bytes(as);
    int64_t last = (lanes - 1) * stride;
    if (as != buf->type.type) last = ((int64_t)lanes * bytes + element - 1) / element - 1;
    check_range(v, buf->name, dim_addi(t, index, last < 0 ? last : 0), dim_addi(t, index, last > 0 ? last : 0), size);
}

void verify_tile_index(Verifier *v, const Var *tile, const Dim *const *idx) {
    DimTable *t = v->p->dims;
    for (int i = 0; i < tile->ntile; i++) {
        const Dim *d = idx[i];
        if (!d) {
            verify_fault(v, 5, "%s: has %d indices", tile->name, tile->ntile);
            return;
        }
        for (int k = 0; k < v->loops.n; k++)
            if (v->loops.data[k].unrolled) {
                const Dim *sym = v->loops.data[k].s->sym, *zero = dim_int(t, 0);
                d = dim_subst(t, d, &sym, &zero, 1);
            }
        int64_t lo, hi;
        dim_interval(idx[i], &lo, &hi);
        if (!dim_is_int(d, NULL))
            verify_fault(v, 5, "%s: index %s is not made of constants and unrolled symbols", tile->name, dim_text(t, idx[i]));
        else if ((lo < 0 || hi >= tile->tile[i]) && !in_empty_loop(v))
            verify_fault(v, 5, "%s: index %s lies outside of its extent %d", tile->name, dim_text(t, idx[i]), tile->tile[i]);
    }
}

// ---- expressions ----

static void check_node(void *ctx, const Expr *e) {
    Verifier *v = ctx;
    const char *wrong = e->op == X_arg ? "there are no inputs a0, a1, … here" : expr_check(v->arena, e);
    if (wrong) {
        verify_fault(v, 3, "%s", wrong);
        return;
    }
    if (e->dim) verify_dim(v, e->dim);
    if (e->var) verify_use(v, e->var, e->var->name);
    for (int i = 0; i < 3; i++)
        if (e->idx[i]) verify_dim(v, e->idx[i]);
    if (e->op == X_var && e->var->kind == VAR_TILE) verify_tile_index(v, e->var, e->idx);
    if (e->op == X_seed && v->kernel) verify_fault(v, 3, "seed() stands in a kernel");
    if (e->op != X_load) return;
    const LoopBuffer *b = e->var->owner;
    if (b->kind == BUF_PARAM && !b->reads) verify_fault(v, 10, "%s is read but not an input of the kernel", e->var->name);
    if (!e->a[0] && !e->a[1]) verify_bounds(v, e->var, e->dim, e->type.lanes, e->k, e->type.type);
}

void verify_visit_expr(void *ctx, const Expr **e) {
    expr_visit(*e, check_node, ctx);
}

void verify_type(Verifier *v, const char *what, VType expected, VType found) {
    if (!vtype_same(expected, found))
        verify_fault(
            v, 3, "%s must be %sx%d, found %sx%d", what, dtype_name(expected.type), expected.lanes, dtype_name(found.type), found.lanes);
}
