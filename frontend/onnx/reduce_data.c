// Reductions over axes that are known only when the model runs.
//
// Each axis gets a flag that says whether it is reduced and a size, 1 or its extent. The axes are gone through one by one: along axis i the
// result is the reduction over it, broadcast, or the tensor itself, as the flag says. So ranks stay static and shapes are sizes of the run.
#include "reduce_data.h"

#include <string.h>

typedef const Dim *const *DimArray;
enum { FLAGS_MAX = 8 }; // arguments of a formula

static Value *flag_of(ImportNode *n, Value *axes, int axis, int rank) {
    int64_t first = 0;
    Value *hit = formula_map(n, arena_printf(n->arena, "(a0 == %di64) | (a0 == (%di64))", axis, axis - rank), 1, &axes);
    return hit ? g_reduce(&n->b, "any", hit, 1, &first, false) : NULL;
}

bool data_range(ImportNode *n, Value *axes, int rank) {
    int64_t first = 0;
    Value *valid = formula_map(n, arena_printf(n->arena, "(a0 >= (%di64)) & (a0 < %di64)", -rank, rank), 1, &axes);
    if (valid) g_check(&n->b, g_reduce(&n->b, "all", valid, 1, &first, false), 0, NULL, CODE_SHAPE);
    return valid != NULL;
}

// As many flags are set as axes are named.
static bool check_distinct(ImportNode *n, const DataAxes *a) {
    Str s = {0};
    str_add(&s, "(0i64");
    for (int i = 0; i < a->rank; i++) str_printf(&s, " + cast.i64(a%d)", i);
    str_printf(&s, ") == %di64", a->count);
    Value *distinct = formula_map(n, s.data, a->rank, a->reduced);
    str_free(&s);
    if (distinct) g_check(&n->b, distinct, 0, NULL, CODE_SHAPE);
    return distinct != NULL;
}

bool data_flags(ImportNode *n, DataAxes *a, const Value *x, Value *axes, int rank) {
    int64_t count;
    if (axes->rank != 1 || !dtype_is_int(axes->type))
        return import_fail(n, "axes are %s, integers of rank 1 are needed", import_shape_text(n, axes));
    if (!dim_is_int(axes->shape[0], &count) || rank > FLAGS_MAX) return import_unsupported(n, "axes of data for rank %d", rank);
    if (count > rank) return import_fail(n, "names %ld axes of rank %d", (long)count, rank);
    axes = g_cast(&n->b, DT_i64, axes);
    *a = (DataAxes){.rank = rank, .count = (int)count, .shape = (DimArray)x->shape};
    if (!data_range(n, axes, rank)) return false;
    for (int i = 0; i < rank; i++)
        if (!(a->reduced[i] = flag_of(n, axes, i, rank))) return false;
    return check_distinct(n, a);
}

bool data_axes(ImportNode *n, DataAxes *a, const Value *x, Value *axes) {
    DimTable *t = n->dims;
    if (!data_flags(n, a, x, axes, x->rank)) return false;
    for (int i = 0; i < x->rank; i++) {
        const FormulaDim dims[] = {{"D", x->shape[i]}, {0}};
        Value *size = formula_tensor(n, "select(a0, 1i64, cast.i64(dim(D)))", 1, &a->reduced[i], 0, NULL, dims);
        const Dim *one = dim_int(t, 1);
        if (size) a->kept[i] = g_size(&n->b, size, 0, "kept", dim_min(t, x->shape[i], one), dim_max(t, x->shape[i], one));
        if (!size) return false;
    }
    return true;
}

// x with axis `axis` cut to its kept extent: what is read when that is the whole one.
static Value *cut(ImportNode *n, const DataAxes *a, Value *x, int axis) {
    DimTable *t = n->dims;
    const Dim *shape[GRAPH_MAX_RANK], *index[GRAPH_MAX_RANK];
    for (int i = 0; i < x->rank; i++) {
        shape[i] = i == axis ? a->kept[i] : x->shape[i];
        index[i] = dim_axis(t, i, shape[i]);
    }
    const Dim *guard = dim_sub(t, dim_addi(t, x->shape[axis], -1), index[axis]); // an empty axis has nothing to read
    return g_view(&n->b, x, x->rank, shape, index, 1, &guard, scalar_int(x->type, 0));
}

Value *data_reduce(ImportNode *n, const DataAxes *a, const char *kind, Value *x) {
    for (int64_t i = 0; i < a->rank; i++) {
        Value *whole = cut(n, a, x, (int)i), *in[] = {a->reduced[i], g_reduce(&n->b, kind, x, 1, &i, true), whole};
        const Expr *body = x_op3(n->arena, X_select, x_arg(n->arena, 0, DT_bool), x_arg(n->arena, 1, x->type), x_arg(n->arena, 2, x->type));
        x = g_map_shape(&n->b, 3, in, body, x->rank, (DimArray)whole->shape);
    }
    return x;
}

Value *data_count(ImportNode *n, const DataAxes *a) {
    Str s = {0};
    FormulaDim dims[FLAGS_MAX + 1] = {{0}};
    str_add(&s, "1i64");
    for (int i = 0; i < a->rank; i++) {
        dims[i] = (FormulaDim){arena_printf(n->arena, "D%d", i), a->shape[i]};
        str_printf(&s, " * select(a%d, cast.i64(dim(D%d)), 1i64)", i, i);
    }
    Value *y = formula_tensor(n, s.data, a->rank, a->reduced, 0, NULL, dims);
    str_free(&s);
    return y;
}

Value *data_spread(ImportNode *n, const DataAxes *a, Value *y) {
    DimTable *t = n->dims;
    const Dim *index[GRAPH_MAX_RANK];
    for (int i = 0; i < a->rank; i++) index[i] = dim_min(t, dim_axis(t, i, a->shape[i]), dim_addi(t, a->kept[i], -1));
    return g_view(&n->b, y, a->rank, a->shape, index, 0, NULL, scalar_int(y->type, 0));
}

// The extent of the j-th axis that stays: that of the axis i with j others that stay in front.
Value *data_squeeze(ImportNode *n, const DataAxes *a, Value *y) {
    const Dim *shape[GRAPH_MAX_RANK];
    FormulaDim dims[FLAGS_MAX + 1] = {{0}};
    for (int i = 0; i < a->rank; i++) dims[i] = (FormulaDim){arena_printf(n->arena, "D%d", i), a->shape[i]};
    for (int j = 0; j < a->rank - a->count; j++) {
        Str s = {0}, before = {0};
        str_add(&s, "0i64");
        str_add(&before, "0i64");
        for (int i = 0; i < a->rank; i++) {
            str_printf(&s, " + select((%s == %di64) & not(a%d), cast.i64(dim(D%d)), 0i64)", before.data, j, i, i);
            str_printf(&before, " + cast.i64(not(a%d))", i);
        }
        Value *size = formula_tensor(n, s.data, a->rank, a->reduced, 0, NULL, dims);
        str_free(&s);
        str_free(&before);
        if (!size) return NULL;
        const Dim *least = a->shape[j], *most = a->shape[j]; // of the axes that may be it
        for (int i = j + 1; i <= j + a->count; i++) {
            least = dim_min(n->dims, least, a->shape[i]);
            most = dim_max(n->dims, most, a->shape[i]);
        }
        shape[j] = g_size(&n->b, size, 0, "stays", least, most);
    }
    return g_reshape(&n->b, y, a->rank - a->count, shape);
}
