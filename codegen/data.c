// Constants as C text that reads back exactly, made fast: models carry tens of megabytes of it.
//
// A float is a short integer ("3.f") or its odd mantissa and exponent in hexadecimal ("0x1a2b3cp-27f"), which compilers read without
// rounding. Types under 8 bits and floats without C arithmetic are the integers of their storage.
#include "c_print.h"

#include <string.h>

enum { LINE = 132, ROOM = 40 }; // columns; bytes of the longest element

static char *put_text(char *p, const char *s) {
    size_t n = strlen(s);
    memcpy(p, s, n);
    return p + n;
}

static char *put_digits(char *p, uint64_t v, unsigned base) {
    char digits[24];
    int n = 0;
    do digits[n++] = "0123456789abcdef"[v % base];
    while (v /= base);
    while (n) *p++ = digits[--n];
    return p;
}

static char *put_int(char *p, int64_t v) {
    if (v < 0) *p++ = '-';
    return put_digits(p, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, 10);
}

// m * 2^e with the sign.
static char *put_hex_float(char *p, bool negative, uint64_t m, int e, const char *suffix) {
    if (negative) *p++ = '-';
    int zeros = __builtin_ctzll(m);
    m >>= zeros;
    e += zeros;
    if (e >= 0 && e + 64 - __builtin_clzll(m) <= 16) { // an integer of up to 5 digits
        p = put_digits(p, m << e, 10);
        *p++ = '.';
        return put_text(p, suffix);
    }
    p = put_text(p, "0x");
    p = put_digits(p, m, 16);
    *p++ = 'p';
    p = put_int(p, e);
    return put_text(p, suffix);
}

static char *put_f32(char *p, float v) {
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    uint32_t m = u & 0x7fffff, e = u >> 23 & 255;
    bool negative = u >> 31;
    if (e == 255) return put_text(p, m ? "(0.f / 0.f)" : negative ? "(-1.f / 0.f)" : "(1.f / 0.f)");
    if (!e && !m) return put_text(p, negative ? "-0.f" : "0.f");
    return put_hex_float(p, negative, e ? m | 0x800000 : m, (int)(e ? e : 1) - 150, "f");
}

static char *put_f64(char *p, double v) {
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    uint64_t m = u & 0xfffffffffffff, e = u >> 52 & 2047;
    bool negative = u >> 63;
    if (e == 2047) return put_text(p, m ? "(0. / 0.)" : negative ? "(-1. / 0.)" : "(1. / 0.)");
    if (!e && !m) return put_text(p, negative ? "-0." : "0.");
    return put_hex_float(p, negative, e ? m | 0x10000000000000 : m, (int)(e ? e : 1) - 1075, "");
}

// The least values have no literal of their own: -2147483648 is minus a larger number.
static char *put_signed(char *p, int64_t v) {
    if (v == INT64_MIN) return put_text(p, "(-9223372036854775807 - 1)");
    if (v == INT32_MIN) return put_text(p, "(-2147483647 - 1)");
    return put_int(p, v);
}

static char *put_unsigned(char *p, uint64_t v, bool wide) {
    p = put_digits(p, v, 10);
    if (wide) *p++ = 'u';
    return p;
}

#define READ(T, e) (*(const T *)memcpy(&(T){0}, (e), sizeof(T)))

static char *put_element(char *p, DType storage, const char *e) {
    switch (storage) {
    case DT_f32: return put_f32(p, READ(float, e));
    case DT_f64: return put_f64(p, READ(double, e));
    case DT_i8: return put_signed(p, READ(int8_t, e));
    case DT_i16: return put_signed(p, READ(int16_t, e));
    case DT_i32: return put_signed(p, READ(int32_t, e));
    case DT_idx:
    case DT_i64: return put_signed(p, READ(int64_t, e));
    case DT_u16: return put_unsigned(p, READ(uint16_t, e), false);
    case DT_u32: return put_unsigned(p, READ(uint32_t, e), true);
    case DT_u64: return put_unsigned(p, READ(uint64_t, e), true);
    default: return put_unsigned(p, READ(uint8_t, e), false);
    }
}

void codegen_data(Str *s, DType t, const void *elements, size_t n) {
    enum { BLOCK = 1 << 16 };
    static const char indent[] = "    ";
    char block[BLOCK], *p = block, *line = p;
    DType storage = c_storage(t);
    size_t bytes = (size_t)dtype_bytes(t);
    p = put_text(p, indent);
    for (size_t i = 0; i < n; i++) {
        p = put_element(p, storage, (const char *)elements + i * bytes);
        *p++ = ',';
        if (i + 1 == n) break;
        if (p - line < LINE - ROOM / 2) {
            *p++ = ' ';
            continue;
        }
        *p++ = '\n';
        if (p - block > BLOCK - LINE - 2 * ROOM) {
            str_addn(s, block, (size_t)(p - block));
            p = block;
        }
        line = p;
        p = put_text(p, indent);
    }
    *p++ = '\n';
    str_addn(s, block, (size_t)(p - block));
}

void codegen_scalar(Str *s, Scalar v) {
    char text[ROOM], element[16] = {0};
    DType storage = c_storage(v.type);
    scalar_write(v, element);
    bool is_float = storage == DT_f32 || storage == DT_f64;
    if (is_float && v.f == v.f && v.f - v.f == 0) {
        if (storage == DT_f32)
            str_add_f32(s, (float)v.f), str_add(s, "f");
        else
            str_add_f64(s, v.f);
        return;
    }
    str_addn(s, text, (size_t)(put_element(text, storage, element) - text));
}
