// Element types: the table read from dtype.def, typed scalars, and the small float formats.
//
// A small format is sign, exponent and mantissa with a bias; a row of `formats` says which codes are special. Conversion scales the
// magnitude to integer units of the target's last place (exact: a power of two), rounds that integer to even, and reads the code off:
// consecutive magnitudes have consecutive codes, so a carry into the exponent needs no care.
// Sources: IEEE 754; OCP 8-bit floating point 1.0 and microscaling formats 1.0; ONNX Cast-25 (saturation and NaN).
#include "type.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const DTypeInfo infos[DT_COUNT] = {
    {"none", 0, 0, 0, "", ""},
#define D(name, onnx, bits, cls, c, npy) {#name, onnx, bits, #cls[0], c, npy},
#include "dtype.def"
#undef D
};

const DTypeInfo *dtype_info(DType t) {
    assert((unsigned)t < DT_COUNT);
    return &infos[t];
}

const char *dtype_name(DType t) {
    return dtype_info(t)->name;
}

DType dtype_parse(const char *name, size_t n) {
    for (int t = DT_none + 1; t < DT_COUNT; t++)
        if (strlen(infos[t].name) == n && memcmp(infos[t].name, name, n) == 0) return (DType)t;
    return DT_none;
}

DType dtype_from_onnx(int onnx) {
    for (int t = DT_none + 1; t < DT_COUNT && onnx > 0; t++)
        if (infos[t].onnx == onnx) return (DType)t;
    return DT_none;
}

int dtype_bytes(DType t) {
    int bits = dtype_info(t)->bits;
    return bits > 0 && bits < 8 ? 1 : bits / 8;
}

bool dtype_is_float(DType t) {
    return dtype_info(t)->cls == 'F';
}

bool dtype_is_int(DType t) {
    return dtype_info(t)->cls == 'I' || dtype_info(t)->cls == 'U';
}

bool dtype_is_signed(DType t) {
    return dtype_info(t)->cls == 'I' || (dtype_info(t)->cls == 'F' && t != DT_f8e8m0);
}

bool dtype_is_native(DType t) {
    if (t == DT_bool || t == DT_f32 || t == DT_f64) return true;
    return dtype_is_int(t) && infos[t].bits >= 8;
}

// ---- small float formats ----

typedef struct {
    int mantissa, bias;
    uint32_t max;     // code of the largest finite magnitude
    uint32_t inf;     // code of the infinity, 0: none
    uint32_t nan;     // code of the (positive) NaN; formats without one take negative zero, as ml_dtypes does
    uint32_t sign;    // the sign bit, 0: the format is unsigned
    bool signed_zero; // -0 is a value of the format
    bool nan_signed;  // codes above max, of both signs, are infinities or NaNs
    bool saturates;   // looks at the saturate flag; otherwise overflow is the infinity if there is one, else the largest magnitude
} Format;

static const Format formats[DT_COUNT] = {
    //               mantissa bias  max     inf     nan     sign    -0     nan±   saturates
    [DT_f16] = {10, 15, 0x7bff, 0x7c00, 0x7e00, 0x8000, true, true, false},
    [DT_bf16] = {7, 127, 0x7f7f, 0x7f80, 0x7fc0, 0x8000, true, true, false},
    [DT_f8e4m3fn] = {3, 7, 0x7e, 0, 0x7f, 0x80, true, true, true},
    [DT_f8e4m3fnuz] = {3, 8, 0x7f, 0, 0x80, 0x80, false, false, true},
    [DT_f8e5m2] = {2, 15, 0x7b, 0x7c, 0x7e, 0x80, true, true, true},
    [DT_f8e5m2fnuz] = {2, 16, 0x7f, 0, 0x80, 0x80, false, false, true},
    [DT_f4e2m1] = {1, 1, 0x7, 0, 0x8, 0x8, true, false, false},
    [DT_f6e2m3] = {3, 1, 0x1f, 0, 0x20, 0x20, true, false, false},
    [DT_f6e3m2] = {2, 3, 0x1f, 0, 0x20, 0x20, true, false, false},
};

enum { E8M0_BIAS = 127, E8M0_MAX = 254, E8M0_NAN = 255 };

// The code that stands for a magnitude beyond the largest finite one.
static uint32_t overflow_code(const Format *f, uint32_t sign, bool saturate) {
    if (f->saturates ? saturate : f->inf == 0) return sign | f->max;
    if (f->inf) return sign | f->inf;
    return f->nan_signed ? sign | f->nan : f->nan;
}

static uint32_t small_to_bits(const Format *f, double v, bool saturate) {
    if (isnan(v)) return f->nan;
    uint32_t sign = signbit(v) ? f->sign : 0;
    double magnitude = fabs(v);
    if (isinf(magnitude)) return overflow_code(f, sign, saturate);
    int exponent;
    frexp(magnitude, &exponent); // magnitude in [2^(exponent-1), 2^exponent)
    int lowest = 1 - f->bias;    // exponent of the smallest normal number
    int e = magnitude > 0 && exponent - 1 > lowest ? exponent - 1 : lowest;
    if (e > f->bias + 1) return overflow_code(f, sign, saturate);
    double units = rint(ldexp(magnitude, f->mantissa - e));
    uint32_t code = (uint32_t)units + ((uint32_t)(e - lowest) << f->mantissa);
    if (code > f->max) return overflow_code(f, sign, saturate);
    return code == 0 && !f->signed_zero ? 0 : sign | code;
}

static double small_from_bits(const Format *f, uint32_t bits) {
    uint32_t code = bits & (f->sign - 1);
    bool negative = bits & f->sign;
    if (!f->signed_zero && bits == f->nan) return NAN;
    double v;
    if (code > f->max) {
        if (code != f->inf) return NAN;
        v = INFINITY;
    } else {
        int field = (int)(code >> f->mantissa);
        uint32_t units = code & ((1u << f->mantissa) - 1);
        if (field > 0) units += 1u << f->mantissa;
        v = ldexp(units, (field > 0 ? field : 1) - f->bias - f->mantissa);
    }
    return negative ? -v : v;
}

uint32_t float_to_e8m0(double v, RoundE8M0 mode, bool saturate) {
    if (isnan(v)) return E8M0_NAN;
    double magnitude = fabs(v);
    uint32_t above = saturate ? E8M0_MAX : E8M0_NAN;
    if (isinf(magnitude)) return above;
    if (magnitude < ldexp(1, -E8M0_BIAS)) return saturate ? 0 : E8M0_NAN;
    int exponent;
    double fraction = frexp(magnitude, &exponent); // in [0.5, 1)
    int code = exponent - 1 + E8M0_BIAS;
    if (mode == E8M0_UP && fraction > 0.5) code++;
    if (mode == E8M0_NEAREST && fraction >= 0.75) code++;
    return code > E8M0_MAX ? above : (uint32_t)code;
}

uint32_t float_to_bits(DType t, double v, bool saturate) {
    if (t == DT_f8e8m0) return float_to_e8m0(v, E8M0_UP, saturate);
    assert(formats[t].mantissa);
    return small_to_bits(&formats[t], v, saturate);
}

double float_from_bits(DType t, uint32_t bits) {
    if (t == DT_f8e8m0) return (bits & 0xff) == E8M0_NAN ? NAN : ldexp(1, (int)(bits & 0xff) - E8M0_BIAS);
    const Format *f = &formats[t];
    assert(f->mantissa);
    return small_from_bits(f, bits & (f->sign * 2 - 1));
}

// ---- scalars ----

// v rounded to a float type and held as its exact double.
static double round_float(DType t, double v) {
    if (t == DT_f64) return v;
    if (t == DT_f32) return (double)(float)v;
    return float_from_bits(t, float_to_bits(t, v, true));
}

// v brought into t by dropping high bits.
static Scalar wrap_int(DType t, uint64_t v) {
    Scalar s = {.type = t};
    int drop = 64 - infos[t].bits;
    if (infos[t].cls == 'U') {
        s.u = v << drop >> drop;
        return s;
    }
    uint64_t sign = (uint64_t)1 << (infos[t].bits - 1);
    uint64_t low = v << drop >> drop;
    s.i = (int64_t)((low ^ sign) - sign);
    return s;
}

static double signed_limit(DType t) {
    return ldexp(1, infos[t].bits - 1);
}

Scalar scalar_int(DType t, int64_t v) {
    if (t == DT_bool) return (Scalar){.type = t, .i = v != 0};
    if (dtype_is_int(t)) return wrap_int(t, (uint64_t)v);
    if (t == DT_f32) return (Scalar){.type = t, .f = (double)(float)v};
    if (t == DT_f64) return (Scalar){.type = t, .f = (double)v};
    if (!dtype_is_float(t)) return (Scalar){.type = DT_none};
    // Round to odd in double first, so that the second rounding cannot go astray.
    double d = (double)v;
    if (fabs(d) >= 9007199254740992.0) d = ldexp((double)((v >> 11) | ((v & 0x7ff) != 0)), 11);
    return (Scalar){.type = t, .f = round_float(t, d)};
}

Scalar scalar_float(DType t, double v) {
    Scalar s = {.type = t};
    if (t == DT_bool) {
        s.i = v != 0;
    } else if (dtype_is_float(t)) {
        s.f = round_float(t, v);
    } else if (infos[t].cls == 'I') {
        double limit = signed_limit(t);
        int64_t top = (int64_t)(((uint64_t)1 << (infos[t].bits - 1)) - 1);
        s.i = isnan(v) ? 0 : v >= limit ? top : v <= -limit ? -top - 1 : (int64_t)v;
    } else if (infos[t].cls == 'U') {
        double limit = 2 * signed_limit(t);
        uint64_t top = ~(uint64_t)0 >> (64 - infos[t].bits);
        s.u = isnan(v) || v <= 0 ? 0 : v >= limit ? top : (uint64_t)v;
    } else {
        s.type = DT_none; // strings and complex numbers are no scalars
    }
    return s;
}

static uint64_t read_bits(const void *element, int bytes) {
    uint8_t b1;
    uint16_t b2;
    uint32_t b4;
    uint64_t b8 = 0;
    switch (bytes) {
    case 1: memcpy(&b1, element, 1); return b1;
    case 2: memcpy(&b2, element, 2); return b2;
    case 4: memcpy(&b4, element, 4); return b4;
    default: memcpy(&b8, element, 8); return b8;
    }
}

static void write_bits(uint64_t v, void *element, int bytes) {
    uint8_t b1 = (uint8_t)v;
    uint16_t b2 = (uint16_t)v;
    uint32_t b4 = (uint32_t)v;
    const void *from = bytes == 1 ? (void *)&b1 : bytes == 2 ? (void *)&b2 : bytes == 4 ? (void *)&b4 : (void *)&v;
    memcpy(element, from, (size_t)bytes);
}

Scalar scalar_read(DType t, const void *element) {
    Scalar s = {.type = t};
    char cls = dtype_info(t)->cls;
    if (t == DT_f64) {
        memcpy(&s.f, element, sizeof s.f);
    } else if (t == DT_f32) {
        float f;
        memcpy(&f, element, sizeof f);
        s.f = (double)f;
    } else if (cls == 'F') {
        s.f = float_from_bits(t, (uint32_t)read_bits(element, dtype_bytes(t)));
    } else if (cls == 'B') {
        s.i = read_bits(element, 1) != 0;
    } else if (cls == 'I' || cls == 'U') {
        s = wrap_int(t, read_bits(element, dtype_bytes(t)));
    } else {
        s.type = DT_none;
    }
    return s;
}

void scalar_write(Scalar s, void *element) {
    char cls = dtype_info(s.type)->cls;
    if (s.type == DT_f64) {
        memcpy(element, &s.f, sizeof s.f);
    } else if (s.type == DT_f32) {
        float f = (float)s.f;
        memcpy(element, &f, sizeof f);
    } else if (cls == 'F') {
        write_bits(float_to_bits(s.type, s.f, false), element, dtype_bytes(s.type)); // an infinity stays one
    } else if (cls == 'B' || cls == 'I' || cls == 'U') {
        write_bits(s.u, element, dtype_bytes(s.type));
    }
}

double scalar_as_f64(Scalar s) {
    char cls = dtype_info(s.type)->cls;
    return cls == 'F' ? s.f : cls == 'U' ? (double)s.u : (double)s.i;
}

int64_t scalar_as_i64(Scalar s) {
    char cls = dtype_info(s.type)->cls;
    if (cls == 'F') return scalar_float(DT_i64, s.f).i;
    if (cls == 'U') return s.u > INT64_MAX ? INT64_MAX : (int64_t)s.u;
    return s.i;
}

bool scalar_same(Scalar a, Scalar b) {
    if (a.type != b.type) return false;
    if (dtype_is_float(a.type) && isnan(a.f) && isnan(b.f)) return true;
    return a.u == b.u;
}
