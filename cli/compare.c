// See compare.h.
#include "compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Order-preserving integers of a float type's values: neighbours differ by one.
static int64_t float_order(DType t, double v) {
    if (t == DT_f64) {
        int64_t b;
        memcpy(&b, &v, sizeof b);
        return b < 0 ? INT64_MIN - b : b;
    }
    if (t == DT_f32) {
        float f = (float)v;
        int32_t b;
        memcpy(&b, &f, sizeof b);
        return b < 0 ? (int64_t)INT32_MIN - b : b;
    }
    uint32_t bits = float_to_bits(t, fabs(v), true);
    return signbit(v) ? -(int64_t)bits : (int64_t)bits;
}

static bool within_ulp(DType t, double x, double y, int64_t ulp) {
    int64_t a = float_order(t, x), b = float_order(t, y);
    uint64_t distance = a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
    return ulp > 0 && distance <= (uint64_t)ulp;
}

static bool float_close(DType t, double x, double y, Tolerance tol) {
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
    if (x == y) return true;
    if (isinf(x) || isinf(y)) return false;
    return fabs(x - y) <= tol.atol + tol.rtol * fabs(y) || within_ulp(t, x, y, tol.ulp);
}

static void shape_text(Str *s, const Tensor *t) {
    str_printf(s, "%s[", dtype_name(t->type));
    for (int i = 0; i < t->rank; i++) str_printf(s, "%s%lld", i ? "," : "", (long long)t->shape[i]);
    str_add(s, "]");
}

static void index_text(Str *s, const Tensor *t, int64_t i) {
    int64_t at[GRAPH_MAX_RANK];
    for (int k = t->rank - 1; k >= 0; k--) {
        at[k] = i % t->shape[k];
        i /= t->shape[k];
    }
    str_add(s, "[");
    for (int k = 0; k < t->rank; k++) str_printf(s, "%s%lld", k ? "," : "", (long long)at[k]);
    str_add(s, "]");
}

static void scalar_text(Str *s, Scalar v) {
    if (dtype_is_float(v.type))
        str_printf(s, "%.9g", v.f);
    else if (dtype_is_signed(v.type) || v.type == DT_bool)
        str_printf(s, "%lld", (long long)v.i);
    else
        str_printf(s, "%llu", (unsigned long long)v.u);
}

static void element_text(Str *s, const Tensor *t, int64_t i) {
    const char *p = (const char *)t->data + (size_t)i * (size_t)dtype_bytes(t->type);
    if (t->type == DT_str)
        str_printf(s, "\"%.60s\"", ((const StringElement *)t->data)[i].text);
    else if (dtype_info(t->type)->cls == 'C') {
        bool wide = t->type == DT_c128;
        scalar_text(s, scalar_read(wide ? DT_f64 : DT_f32, p));
        str_add(s, "+i*");
        scalar_text(s, scalar_read(wide ? DT_f64 : DT_f32, p + (wide ? 8 : 4)));
    } else
        scalar_text(s, scalar_read(t->type, p));
}

static bool string_same(const StringElement *x, const StringElement *y) {
    return x->size == y->size && (x->size == 0 || !memcmp(x->text, y->text, x->size));
}

static bool within_steps(DType type, Scalar a, Scalar b, int64_t steps) {
    bool quantised = dtype_is_int(type) && dtype_info(type)->bits <= 8;
    int64_t distance = scalar_as_i64(a) - scalar_as_i64(b);
    return quantised && distance >= -steps && distance <= steps;
}

static bool element_close(Comparison *c, DType type, const char *x, const char *y, Tolerance tol) {
    if (type == DT_str) return string_same((const StringElement *)(const void *)x, (const StringElement *)(const void *)y);
    Scalar a = scalar_read(type, x), b = scalar_read(type, y);
    if (!dtype_is_float(type)) return scalar_same(a, b) || within_steps(type, a, b, tol.steps);
    double diff = fabs(a.f - b.f);
    if (isfinite(diff) && diff > c->max_difference) c->max_difference = diff;
    if (isfinite(b.f) && fabs(b.f) > c->max_magnitude) c->max_magnitude = fabs(b.f);
    return float_close(type, a.f, b.f, tol);
}

static double largest_magnitude(const Tensor *t) {
    double most = 0;
    int64_t n = dtype_is_float(t->type) ? tensor_count(t) : 0;
    for (int64_t i = 0; i < n; i++) {
        double v = fabs(scalar_read(t->type, (const char *)t->data + (size_t)i * (size_t)dtype_bytes(t->type)).f);
        if (isfinite(v) && v > most) most = v;
    }
    return most;
}

Comparison tensor_compare(const Tensor *found, const Tensor *expected, Tolerance tol) {
    Comparison c = {.ok = true};
    Str s = {0};
    bool same = found->type == expected->type && found->rank == expected->rank;
    for (int i = 0; i < expected->rank && same; i++) same = found->shape[i] == expected->shape[i];
    if (!same) {
        c.ok = false;
        str_add(&s, "is ");
        shape_text(&s, found);
        str_add(&s, ", expected ");
        shape_text(&s, expected);
    }
    int64_t n = same ? tensor_count(expected) : 0, first = -1;
    if (same && tol.scaled > 0) tol.atol = fmax(tol.atol, tol.scaled * largest_magnitude(expected));
    // A complex element is two floats.
    DType part = expected->type == DT_c64 ? DT_f32 : expected->type == DT_c128 ? DT_f64 : expected->type;
    size_t size = (size_t)dtype_bytes(expected->type), step = (size_t)dtype_bytes(part);
    for (int64_t i = 0; i < n; i++) {
        bool close = true;
        for (size_t k = 0; k < size; k += step)
            close &=
                element_close(&c, part, (char *)found->data + (size_t)i * size + k, (char *)expected->data + (size_t)i * size + k, tol);
        if (close) continue;
        if (first < 0) first = i;
        c.differing++;
    }
    if (first >= 0) {
        c.ok = false;
        str_printf(&s, "%lld of %lld elements differ, first at ", (long long)c.differing, (long long)n);
        index_text(&s, expected, first);
        str_add(&s, ": found ");
        element_text(&s, found, first);
        str_add(&s, ", expected ");
        element_text(&s, expected, first);
        if (dtype_is_float(part)) str_printf(&s, " (largest difference %.3g, largest magnitude %.3g)", c.max_difference, c.max_magnitude);
    }
    if (s.n) snprintf(c.text, sizeof c.text, "%s", s.data);
    str_free(&s);
    return c;
}
