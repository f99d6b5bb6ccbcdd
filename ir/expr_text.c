// Prints expressions in the text form of expr.h; expr_parse.c reads it back. print(parse(print(e))) == print(e).
#include "expr.h"
#include "expr_infix.h"
#include "isa.h"

const ExprInfix expr_infix[] = {{"==", X_eq, 4}, {"!=", X_ne, 4}, {"<=", X_le, 5}, {">=", X_ge, 5}, {"<", X_lt, 5}, {">", X_gt, 5},
    {"|", X_or, 1}, {"^", X_xor, 2}, {"&", X_and, 3}, {"+", X_add, 6}, {"-", X_sub, 6}, {"*", X_mul, 7}, {"/", X_div, 7},
    {NULL, X_COUNT, 0}};

static const char *infix_text(XOp op) {
    for (const ExprInfix *i = expr_infix; i->text; i++)
        if (i->op == op) return i->text;
    return NULL;
}

static void print_scalar(Str *s, Scalar k) {
    const DTypeInfo *info = dtype_info(k.type);
    if (k.type == DT_bool) {
        str_add(s, k.i ? "true" : "false");
        return;
    }
    if (k.type == DT_f32)
        str_add_f32(s, (float)k.f);
    else if (info->cls == 'F')
        str_add_f64(s, k.f);
    else if (info->cls == 'U')
        str_printf(s, "%llu", (unsigned long long)k.u);
    else
        str_printf(s, "%lld", (long long)k.i);
    str_add(s, info->name);
}

static void print_dims(Str *s, const Dim *const *dim, int n) {
    for (int i = 0; i < n; i++) {
        if (i) str_add(s, ", ");
        dim_print(s, dim[i]);
    }
}

static void print_var(Str *s, const Expr *e) {
    str_add(s, e->var->name);
    if (e->var->kind != VAR_TILE) return;
    str_add(s, "[");
    print_dims(s, e->idx, e->var->ntile);
    str_add(s, "]");
}

static void print_load(Str *s, const Expr *e) {
    str_add(s, e->var->name);
    if (e->type.type != e->var->type.type) str_printf(s, ".%s", dtype_name(e->type.type));
    str_add(s, "[");
    dim_print(s, e->dim);
    if (e->type.lanes > 1 && (!e->a[0] || e->k != 0)) {
        str_printf(s, " : %d", e->type.lanes);
        if (e->k != 1) str_printf(s, " : %lld", (long long)e->k);
    }
    if (e->a[0]) {
        str_add(s, " @ ");
        expr_print(s, e->a[0]);
    }
    if (e->a[1]) {
        str_add(s, " ? ");
        expr_print(s, e->a[1]);
    }
    str_add(s, "]");
}

static void print_operands(Str *s, const Expr *e) {
    for (int i = 0; i < e->n && e->a[i]; i++) {
        if (i) str_add(s, ", ");
        expr_print(s, e->a[i]);
    }
}

static void print_shuffle(Str *s, const Expr *e) {
    str_add(s, "shuffle(");
    print_operands(s, e);
    str_add(s, ";");
    for (int i = 0; i < e->type.lanes; i++) str_printf(s, " %d", e->perm[i]);
    str_add(s, ")");
}

// A call: the name before the bracket, and what follows the operands for the operations that have a number or an index.
static void print_call(Str *s, const Expr *e) {
    const char *name = xop_info(e->op)->name, *type = dtype_name(e->type.type);
    if (xop_info(e->op)->cls == XC_CAST)
        str_printf(s, "%s.%s(", name, type);
    else if (e->op == X_widen)
        str_printf(s, "widen%d.%s(", e->type.lanes, type);
    else if (e->op == X_splat)
        str_printf(s, "splat%d(", e->type.lanes);
    else if (e->op == X_hreduce)
        str_printf(s, "h%s(", xop_info((XOp)e->k)->name);
    else if (e->op == X_isa)
        str_printf(s, "isa.%s(", isa_row((int)e->k)->name);
    else
        str_printf(s, "%s(", name);
    if (e->op == X_insert) {
        expr_print(s, e->a[0]);
        str_printf(s, ", %lld, ", (long long)e->k);
        expr_print(s, e->a[1]);
    } else {
        print_operands(s, e);
    }
    if (e->op == X_lane || e->op == X_widen) str_printf(s, ", %lld", (long long)e->k);
    if (e->op == X_index || e->op == X_dim) {
        if (e->n) str_add(s, ", ");
        dim_print(s, e->dim);
    }
    str_add(s, ")");
}

static void print_operand(Str *s, const Expr *e, XOp parent, bool left) {
    bool bare = !infix_text(e->op) || (left && e->op == parent);
    if (!bare) str_add(s, "(");
    expr_print(s, e);
    if (!bare) str_add(s, ")");
}

void expr_print(Str *s, const Expr *e) {
    const char *sign = infix_text(e->op);
    if (sign) {
        print_operand(s, e->a[0], e->op, true);
        str_printf(s, " %s ", sign);
        print_operand(s, e->a[1], e->op, false);
        return;
    }
    switch (e->op) {
    case X_const:
        if (e->type.lanes > 1) str_printf(s, "splat%d(", e->type.lanes);
        print_scalar(s, e->k_scalar);
        if (e->type.lanes > 1) str_add(s, ")");
        return;
    case X_arg: str_printf(s, "a%lld", (long long)e->k); return;
    case X_iota: str_printf(s, "iota%d.%s", e->type.lanes, dtype_name(e->type.type)); return;
    case X_var: print_var(s, e); return;
    case X_load: print_load(s, e); return;
    case X_shuffle: print_shuffle(s, e); return;
    default: print_call(s, e);
    }
}
