// Exact scalar functions for machines and languages without them: sqrt, fma and rounding as IEEE 754 has them, from integers and plain
// arithmetic. SPDX-License-Identifier: 0BSD
//
// The C printer pastes the sections that a model uses, with the model's prefix for mlc_. A line "// @ NAME: NEEDS" begins a section. Where
// a compiler states an instruction for it, that is used: bits are the same. Needs stdint.h and memcpy.
#ifndef MLC_SOFT_H
#define MLC_SOFT_H

#include <stdint.h>
#include <string.h>

// @ bits_f32:
static inline uint32_t mlc_bits_f32(float a) {
    uint32_t u;
    memcpy(&u, &a, sizeof u);
    return u;
}
// @ float_u32:
static inline float mlc_float_u32(uint32_t u) {
    float a;
    memcpy(&a, &u, sizeof a);
    return a;
}
// @ bits_f64:
static inline uint64_t mlc_bits_f64(double a) {
    uint64_t u;
    memcpy(&u, &a, sizeof u);
    return u;
}
// @ float_u64:
static inline double mlc_float_u64(uint64_t u) {
    double a;
    memcpy(&a, &u, sizeof a);
    return a;
}
// @ abs_f32: bits_f32 float_u32
static inline float mlc_abs_f32(float a) {
#ifdef __GNUC__
    return __builtin_fabsf(a);
#else
    return mlc_float_u32(mlc_bits_f32(a) & 0x7fffffffu);
#endif
}
// @ abs_f64: bits_f64 float_u64
static inline double mlc_abs_f64(double a) {
#ifdef __GNUC__
    return __builtin_fabs(a);
#else
    return mlc_float_u64(mlc_bits_f64(a) & 0x7fffffffffffffffu);
#endif
}
// @ trunc_f32: bits_f32 float_u32
// Clears the bits of the fraction.
static inline float mlc_trunc_f32(float a) {
    uint32_t u = mlc_bits_f32(a), e = u >> 23 & 255;
    if (e >= 127 + 23) return a;
    return mlc_float_u32(e < 127 ? u & 0x80000000u : u & ~(0x7fffffu >> (e - 127)));
}
// @ trunc_f64: bits_f64 float_u64
static inline double mlc_trunc_f64(double a) {
    uint64_t u = mlc_bits_f64(a), e = u >> 52 & 2047;
    if (e >= 1023 + 52) return a;
    return mlc_float_u64(e < 1023 ? u & 0x8000000000000000u : u & ~(0xfffffffffffffu >> (e - 1023)));
}
// @ floor_f32: trunc_f32
static inline float mlc_floor_f32(float a) {
    float t = mlc_trunc_f32(a);
    return t > a ? t - 1.0f : t;
}
// @ floor_f64: trunc_f64
static inline double mlc_floor_f64(double a) {
    double t = mlc_trunc_f64(a);
    return t > a ? t - 1.0 : t;
}
// @ ceil_f32: trunc_f32
static inline float mlc_ceil_f32(float a) {
    float t = mlc_trunc_f32(a);
    return t < a ? t + 1.0f : t;
}
// @ ceil_f64: trunc_f64
static inline double mlc_ceil_f64(double a) {
    double t = mlc_trunc_f64(a);
    return t < a ? t + 1.0 : t;
}
// @ rint_f32: trunc_f32 abs_f32
// Ties to even: the difference to the truncated value is exact, and half of an even number has no fraction.
static inline float mlc_rint_f32(float a) {
    float t = mlc_trunc_f32(a), d = mlc_abs_f32(a - t), h = t * 0.5f;
    if (d > 0.5f || (d == 0.5f && mlc_trunc_f32(h) != h)) return a < 0 ? t - 1.0f : t + 1.0f;
    return t;
}
// @ rint_f64: trunc_f64 abs_f64
static inline double mlc_rint_f64(double a) {
    double t = mlc_trunc_f64(a), d = mlc_abs_f64(a - t), h = t * 0.5;
    if (d > 0.5 || (d == 0.5 && mlc_trunc_f64(h) != h)) return a < 0 ? t - 1.0 : t + 1.0;
    return t;
}
// @ root:
// The integer square root of m * 4^pad, digit by digit.
static inline uint64_t mlc_root(uint64_t m, int pad) {
    uint64_t q = 0, r = 0;
    for (int i = 62; i >= -2 * pad; i -= 2) {
        r = r << 2 | (i >= 0 ? m >> i & 3 : 0);
        uint64_t t = q << 2 | 1;
        q <<= 1;
        if (r >= t) {
            r -= t;
            q |= 1;
        }
    }
    return q;
}
// @ sqrt_f32: bits_f32 float_u32 root
// One digit more than the result has decides the rounding: a root is never half way between two floats.
static inline float mlc_sqrt_f32(float a) {
#if defined(__GNUC__) && defined(__SSE2__)
    float r;
    __asm__("sqrtss %1, %0" : "=x"(r) : "x"(a));
    return r;
#elif defined(__GNUC__) && defined(__aarch64__)
    float r;
    __asm__("fsqrt %s0, %s1" : "=w"(r) : "w"(a));
    return r;
#elif defined(__GNUC__) && defined(__ARM_FP) && (__ARM_FP & 4) && !defined(__SOFTFP__)
    float r;
    __asm__("vsqrt.f32 %0, %1" : "=t"(r) : "t"(a));
    return r;
#elif defined(__GNUC__) && defined(__riscv_flen)
    float r;
    __asm__("fsqrt.s %0, %1" : "=f"(r) : "f"(a));
    return r;
#else
    uint32_t u = mlc_bits_f32(a), m = u & 0x7fffffu;
    int e = (int)(u >> 23);
    if (!(a > 0)) return a == 0 ? a : (a - a) / (a - a);
    if (e == 255) return a;
    if (e == 0)
        e = 1;
    else
        m |= 0x800000u;
    while (m < 0x800000u) {
        m <<= 1;
        e--;
    }
    if (!(e & 1)) {
        m <<= 1;
        e--;
    }
    // m * 2^(e - 150) with e odd: the root of m * 2^26 has 25 or, after rounding down, 24 digits and one more
    uint32_t q = (uint32_t)mlc_root((uint64_t)m << 25, 0);
    return mlc_float_u32(((uint32_t)((e - 127) / 2 + 126) << 23) + ((q + 1) >> 1));
#endif
}
// @ sqrt_f64: bits_f64 float_u64 root
static inline double mlc_sqrt_f64(double a) {
#if defined(__GNUC__) && defined(__SSE2__)
    double r;
    __asm__("sqrtsd %1, %0" : "=x"(r) : "x"(a));
    return r;
#elif defined(__GNUC__) && defined(__aarch64__)
    double r;
    __asm__("fsqrt %d0, %d1" : "=w"(r) : "w"(a));
    return r;
#else
    uint64_t u = mlc_bits_f64(a), m = u & 0xfffffffffffffu;
    int e = (int)(u >> 52);
    if (!(a > 0)) return a == 0 ? a : (a - a) / (a - a);
    if (e == 2047) return a;
    if (e == 0)
        e = 1;
    else
        m |= 0x10000000000000u;
    while (m < 0x10000000000000u) {
        m <<= 1;
        e--;
    }
    if (!(e & 1)) {
        m <<= 1;
        e--;
    }
    uint64_t q = mlc_root(m, 27);
    return mlc_float_u64(((uint64_t)((e - 1023) / 2 + 1022) << 52) + ((q + 1) >> 1));
#endif
}
// @ fma_f32: bits_f32 float_u32
// a * b + c, rounded once. The product of the mantissas is exact; what alignment shifts out is kept as a last sticky bit.
static inline float mlc_fma_f32(float a, float b, float c) {
#if defined(__clang__) && defined(__arm__) && defined(__ARM_FEATURE_FMA) && (__ARM_FP & 4)
    __asm__("vfma.f32 %0, %1, %2" : "+t"(c) : "t"(a), "t"(b));
    return c;
#elif defined(__clang__) && defined(__aarch64__)
    __asm__("fmadd %s0, %s1, %s2, %s0" : "+w"(c) : "w"(a), "w"(b));
    return c;
#elif defined(__clang__) && defined(__riscv_flen)
    __asm__("fmadd.s %0, %1, %2, %0" : "+f"(c) : "f"(a), "f"(b));
    return c;
#elif defined(__GNUC__) && !defined(__clang__) && (defined(__FP_FAST_FMAF) || (defined(__ARM_FEATURE_FMA) && (__ARM_FP & 4)))
    return __builtin_fmaf(a, b, c);
#else
    uint32_t ua = mlc_bits_f32(a), ub = mlc_bits_f32(b), uc = mlc_bits_f32(c), sign = (ua ^ ub) & 0x80000000u;
    int ea = (int)(ua >> 23 & 255), eb = (int)(ub >> 23 & 255), ec = (int)(uc >> 23 & 255);
    uint64_t ma = ua & 0x7fffffu, mb = ub & 0x7fffffu, mc = uc & 0x7fffffu, p, s;
    if (ec == 255 && ea != 255 && eb != 255) return c;
    if (ea == 255 || eb == 255 || ec == 255 || a == 0 || b == 0) return a * b + c;
    if (c == 0) return a * b;
    if (ea)
        ma |= 0x800000u;
    else
        ea = 1;
    if (eb)
        mb |= 0x800000u;
    else
        eb = 1;
    if (ec)
        mc |= 0x800000u;
    else
        ec = 1;
    for (; ma < 0x800000u; ea--) ma <<= 1;
    for (; mb < 0x800000u; eb--) mb <<= 1;
    for (; mc < 0x800000u; ec--) mc <<= 1;
    // p * 2^e and mc * 2^ec, both with leading bits near 61
    p = ma * mb << 14;
    mc <<= 38;
    int e = ea + eb - 300 - 14, shift;
    ec += -150 - 38;
    shift = e - ec;
    if (shift >= 0)
        mc = shift > 63 ? 1 : mc >> shift | ((mc & (((uint64_t)1 << shift) - 1)) != 0);
    else {
        shift = -shift;
        p = shift > 63 ? 1 : p >> shift | ((p & (((uint64_t)1 << shift) - 1)) != 0);
        e = ec;
    }
    if (sign == (uc & 0x80000000u))
        s = p + mc;
    else if (p == mc)
        return 0.0f;
    else {
        s = p > mc ? p - mc : mc - p;
        if (mc > p) sign ^= 0x80000000u;
    }
    for (; s >> 62 == 0; e--) s <<= 1;
    e += 62 + 127; // the biased exponent of the result
    if (e >= 255) return mlc_float_u32(sign | 0x7f800000u);
    if (e <= 0) {
        shift = 1 - e;
        s = shift > 63 ? 1 : s >> shift | ((s & (((uint64_t)1 << shift) - 1)) != 0);
        e = 1;
    }
    uint64_t q = s >> 39, rest = s & 0x7fffffffffu;
    q += rest > 0x4000000000u || (rest == 0x4000000000u && (q & 1));
    return mlc_float_u32(sign | (((uint32_t)(e - 1) << 23) + (uint32_t)q));
#endif
}
// @ wide:
// A natural number of 128 bits, for fma_f64.
typedef struct {
    uint64_t hi, lo;
} mlc_wide;
static inline mlc_wide mlc_wide_left(mlc_wide a, int n) {
    mlc_wide r = {n >= 64 ? a.lo << (n - 64) : n ? a.hi << n | a.lo >> (64 - n) : a.hi, n >= 64 ? 0 : a.lo << n};
    return r;
}
// Bits shifted out are kept as a last sticky bit.
static inline mlc_wide mlc_wide_right(mlc_wide a, int n) {
    mlc_wide r = {0, 1}, back;
    if (n > 127) return r;
    r.hi = n >= 64 ? 0 : a.hi >> n;
    r.lo = n >= 64 ? a.hi >> (n - 64) : n ? a.lo >> n | a.hi << (64 - n) : a.lo;
    back = mlc_wide_left(r, n);
    r.lo |= back.hi != a.hi || back.lo != a.lo;
    return r;
}
static inline mlc_wide mlc_wide_mul(uint64_t a, uint64_t b) {
    uint64_t al = a & 0xffffffffu, ah = a >> 32, bl = b & 0xffffffffu, bh = b >> 32;
    uint64_t low = al * bl, mid = ah * bl + (low >> 32), cross = al * bh + (mid & 0xffffffffu);
    mlc_wide r = {ah * bh + (mid >> 32) + (cross >> 32), cross << 32 | (low & 0xffffffffu)};
    return r;
}
static inline mlc_wide mlc_wide_add(mlc_wide a, mlc_wide b) {
    mlc_wide r = {a.hi + b.hi, a.lo + b.lo};
    r.hi += r.lo < a.lo;
    return r;
}
static inline mlc_wide mlc_wide_sub(mlc_wide a, mlc_wide b) {
    mlc_wide r = {a.hi - b.hi - (a.lo < b.lo), a.lo - b.lo};
    return r;
}
// @ fma_f64: bits_f64 float_u64 wide
static inline double mlc_fma_f64(double a, double b, double c) {
#if defined(__clang__) && defined(__aarch64__)
    __asm__("fmadd %d0, %d1, %d2, %d0" : "+w"(c) : "w"(a), "w"(b));
    return c;
#elif defined(__GNUC__) && !defined(__clang__) && defined(__FP_FAST_FMA)
    return __builtin_fma(a, b, c);
#else
    uint64_t ua = mlc_bits_f64(a), ub = mlc_bits_f64(b), uc = mlc_bits_f64(c), top = (uint64_t)1 << 63, one = (uint64_t)1 << 52,
             sign = (ua ^ ub) & top;
    int ea = (int)(ua >> 52 & 2047), eb = (int)(ub >> 52 & 2047), ec = (int)(uc >> 52 & 2047);
    uint64_t ma = ua & (one - 1), mb = ub & (one - 1), mc = uc & (one - 1);
    if (ec == 2047 && ea != 2047 && eb != 2047) return c;
    if (ea == 2047 || eb == 2047 || ec == 2047 || a == 0 || b == 0) return a * b + c;
    if (c == 0) return a * b;
    if (ea)
        ma |= one;
    else
        ea = 1;
    if (eb)
        mb |= one;
    else
        eb = 1;
    if (ec)
        mc |= one;
    else
        ec = 1;
    for (; ma < one; ea--) ma <<= 1;
    for (; mb < one; eb--) mb <<= 1;
    for (; mc < one; ec--) mc <<= 1;
    // p * 2^e and z * 2^ec, both with leading bits near 125
    mlc_wide p = mlc_wide_left(mlc_wide_mul(ma, mb), 20), z = {mc << 9, 0}, s;
    int e = ea + eb - 2150 - 20;
    ec += -1075 - 73;
    if (e >= ec)
        z = mlc_wide_right(z, e - ec);
    else {
        p = mlc_wide_right(p, ec - e);
        e = ec;
    }
    if (sign == (uc & top))
        s = mlc_wide_add(p, z);
    else if (p.hi == z.hi && p.lo == z.lo)
        return 0.0;
    else if (p.hi > z.hi || (p.hi == z.hi && p.lo > z.lo))
        s = mlc_wide_sub(p, z);
    else {
        s = mlc_wide_sub(z, p);
        sign ^= top;
    }
    for (; s.hi >> 62 == 0; e--) s = mlc_wide_left(s, 1);
    e += 126 + 1023; // the biased exponent of the result
    if (e >= 2047) return mlc_float_u64(sign | (uint64_t)2047 << 52);
    if (e <= 0) {
        s = mlc_wide_right(s, 1 - e);
        e = 1;
    }
    uint64_t q = s.hi >> 10, rest = (s.hi & 1023) << 1 | (s.lo != 0);
    q += rest > 1024 || (rest == 1024 && (q & 1));
    return mlc_float_u64(sign | (((uint64_t)(e - 1) << 52) + q));
#endif
}
// @ popcount_u32:
static inline int32_t mlc_popcount_u32(uint32_t a) {
    a -= a >> 1 & 0x55555555u;
    a = (a & 0x33333333u) + (a >> 2 & 0x33333333u);
    a = (a + (a >> 4)) & 0x0f0f0f0fu;
    return (int32_t)((a * 0x01010101u) >> 24);
}
// @ popcount_u64: popcount_u32
static inline int32_t mlc_popcount_u64(uint64_t a) {
    return mlc_popcount_u32((uint32_t)a) + mlc_popcount_u32((uint32_t)(a >> 32));
}

#endif
