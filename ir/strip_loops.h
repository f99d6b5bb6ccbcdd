// The loops of strip.c, included once for each level of the processor with
//   STRIP_NAME(f)  the function's name at this level      STRIP_TARGET  its target attribute (may be empty)
// and ending in STRIP_NAME(table)[op][type] and STRIP_NAME(casts)[from][to]. No include guard: it is meant to be included again.
// dst may be an operand, so the loops carry no dependence between elements (STRIP_INDEPENDENT) but their pointers are not restrict.

// The type's name is pasted into names here, so the macro of stdbool.h must not expand it.
#pragma push_macro("bool")
#undef bool

#define LOOP(fn, D, S, expr)                                                                                                               \
    STRIP_TARGET static void STRIP_NAME(fn)(int n, void *dst, const void *pa, const void *pb, const void *pc) {                            \
        D *d = dst;                                                                                                                        \
        const S *pa_ = pa, *pb_ = pb, *pc_ = pc;                                                                                           \
        (void)pb_;                                                                                                                         \
        (void)pc_;                                                                                                                         \
        STRIP_INDEPENDENT for (int i = 0; i < n; i++) d[i] = (D)(expr);                                                                    \
    }
#define A (pa_[i])
#define B (pb_[i])
#define C (pc_[i])

// ---- comparisons and copies, for all native types ----
#define COMPARE(t, T)                                                                                                                      \
    LOOP(eq_##t, uint8_t, T, A == B)                                                                                                       \
    LOOP(ne_##t, uint8_t, T, A != B)                                                                                                       \
    LOOP(lt_##t, uint8_t, T, A < B)                                                                                                        \
    LOOP(le_##t, uint8_t, T, A <= B)                                                                                                       \
    LOOP(gt_##t, uint8_t, T, A > B)                                                                                                        \
    LOOP(ge_##t, uint8_t, T, A >= B)
STRIP_NATIVE(COMPARE)
COMPARE(bool, uint8_t)

// By a mask, which vectorises where a branch would not.
#define SELECT(T)                                                                                                                          \
    STRIP_TARGET static void STRIP_NAME(select_##T)(int n, void *dst, const void *pa, const void *pb, const void *pc) {                    \
        T *d = dst;                                                                                                                        \
        const uint8_t *a = pa;                                                                                                             \
        const T *b = pb, *c = pc;                                                                                                          \
        STRIP_INDEPENDENT for (int i = 0; i < n; i++) {                                                                                    \
            T mask = (T)(0 - (T)a[i]);                                                                                                     \
            d[i] = (T)((b[i] & mask) | (c[i] & (T)~mask));                                                                                 \
        }                                                                                                                                  \
    }
SELECT(uint8_t)
SELECT(uint16_t)
SELECT(uint32_t)
SELECT(uint64_t)

// ---- floats ----
#define FLOAT_OPS(t, T)                                                                                                                    \
    LOOP(add_##t, T, T, A + B)                                                                                                             \
    LOOP(sub_##t, T, T, A - B)                                                                                                             \
    LOOP(mul_##t, T, T, A *B)                                                                                                              \
    LOOP(div_##t, T, T, A / B)                                                                                                             \
    LOOP(neg_##t, T, T, -A)                                                                                                                \
    LOOP(abs_##t, T, T, strip_abs_##t(A))                                                                                                  \
    LOOP(min_##t, T, T, ((A < B) | (A != A)) ? A : B)                                                                                      \
    LOOP(max_##t, T, T, ((A > B) | (A != A)) ? A : B)                                                                                      \
    LOOP(fma_##t, T, T, strip_fma_##t(A, B, C))                                                                                            \
    LOOP(sqrt_##t, T, T, strip_sqrt_##t(A))                                                                                                \
    LOOP(floor_##t, T, T, strip_floor_##t(A))                                                                                              \
    LOOP(ceil_##t, T, T, strip_ceil_##t(A))                                                                                                \
    LOOP(trunc_##t, T, T, strip_trunc_##t(A))                                                                                              \
    LOOP(rint_##t, T, T, strip_rint_##t(A))
FLOAT_OPS(f32, float)
FLOAT_OPS(f64, double)
LOOP(fmod_f32, float, float, strip_fmod_f32(A, B))
LOOP(fmod_f64, double, double, strip_fmod_f64(A, B))

// ---- integers: U is the unsigned twin, W an unsigned type at least as wide as int ----
#define SHARED_INT_OPS(t, T, U, W)                                                                                                         \
    LOOP(add_##t, T, T, (W)A + (W)B)                                                                                                       \
    LOOP(sub_##t, T, T, (W)A - (W)B)                                                                                                       \
    LOOP(mul_##t, T, T, (W)A *(W)B)                                                                                                        \
    LOOP(fma_##t, T, T, (W)A *(W)B + (W)C)                                                                                                 \
    LOOP(neg_##t, T, T, 0 - (W)A)                                                                                                          \
    LOOP(min_##t, T, T, A < B ? A : B)                                                                                                     \
    LOOP(max_##t, T, T, A > B ? A : B)                                                                                                     \
    LOOP(and_##t, T, T, A &B)                                                                                                              \
    LOOP(or_##t, T, T, A | B)                                                                                                              \
    LOOP(xor_##t, T, T, A ^ B)                                                                                                             \
    LOOP(not_##t, T, T, ~A)                                                                                                                \
    LOOP(shl_##t, T, T, (U)B >= sizeof(T) * 8 ? 0 : (W)A << ((W)B & (sizeof(T) * 8 - 1)))                                                  \
    LOOP(shr_##t, T, T, (U)B >= sizeof(T) * 8 ? 0 : A >> ((W)B & (sizeof(T) * 8 - 1)))

#define SIGNED_OPS(t, T, U, W)                                                                                                             \
    SHARED_INT_OPS(t, T, U, W)                                                                                                             \
    LOOP(abs_##t, T, T, A < 0 ? 0 - (W)A : (W)A)                                                                                           \
    LOOP(div_##t, T, T, B == 0 ? 0 : B == -1 ? (T)(0 - (W)A) : A / B)                                                                      \
    LOOP(rem_##t, T, T, B == 0 || B == -1 ? 0 : A % B)                                                                                     \
    LOOP(floordiv_##t, T, T, B == 0 ? 0 : B == -1 ? (T)(0 - (W)A) : A / B - (A % B != 0 && (A < 0) != (B < 0)))                            \
    LOOP(floormod_##t, T, T, B == 0 || B == -1 ? 0 : A % B != 0 && (A < 0) != (B < 0) ? A % B + B : A % B)

#define UNSIGNED_OPS(t, T, U, W)                                                                                                           \
    SHARED_INT_OPS(t, T, U, W)                                                                                                             \
    LOOP(abs_##t, T, T, A)                                                                                                                 \
    LOOP(div_##t, T, T, B == 0 ? 0 : A / B)                                                                                                \
    LOOP(rem_##t, T, T, B == 0 ? 0 : A % B)                                                                                                \
    LOOP(floordiv_##t, T, T, B == 0 ? 0 : A / B)                                                                                           \
    LOOP(floormod_##t, T, T, B == 0 ? 0 : A % B)

SIGNED_OPS(i8, int8_t, uint8_t, uint32_t)
SIGNED_OPS(i16, int16_t, uint16_t, uint32_t)
SIGNED_OPS(i32, int32_t, uint32_t, uint32_t)
SIGNED_OPS(i64, int64_t, uint64_t, uint64_t)
UNSIGNED_OPS(u8, uint8_t, uint8_t, uint32_t)
UNSIGNED_OPS(u16, uint16_t, uint16_t, uint32_t)
UNSIGNED_OPS(u32, uint32_t, uint32_t, uint32_t)
UNSIGNED_OPS(u64, uint64_t, uint64_t, uint64_t)
LOOP(and_bool, uint8_t, uint8_t, A &B)
LOOP(or_bool, uint8_t, uint8_t, A | B)
LOOP(xor_bool, uint8_t, uint8_t, A ^ B)
LOOP(not_bool, uint8_t, uint8_t, A ^ 1)

// ---- casts between native types ----
#define PLAIN_CAST(s, S, d, D) LOOP(s##_to_##d, D, S, A)
// 2^digits is the first value above the type's range; the comparisons are exact in S.
#define SATURATING_CAST(s, S, d, D, MIN, MAX, digits)                                                                                      \
    LOOP(s##_to_##d, D, S, A != A ? 0 : A <= (S)(MIN) ? (MIN) : A >= (S)((uint64_t)1 << ((digits)-1)) * 2 ? (MAX) : (D)A)
#define FLOAT_TO_INTS(s, S)                                                                                                                \
    SATURATING_CAST(s, S, i8, int8_t, INT8_MIN, INT8_MAX, 7)                                                                               \
    SATURATING_CAST(s, S, i16, int16_t, INT16_MIN, INT16_MAX, 15)                                                                          \
    SATURATING_CAST(s, S, i32, int32_t, INT32_MIN, INT32_MAX, 31)                                                                          \
    SATURATING_CAST(s, S, i64, int64_t, INT64_MIN, INT64_MAX, 63)                                                                          \
    SATURATING_CAST(s, S, u8, uint8_t, 0, UINT8_MAX, 8)                                                                                    \
    SATURATING_CAST(s, S, u16, uint16_t, 0, UINT16_MAX, 16)                                                                                \
    SATURATING_CAST(s, S, u32, uint32_t, 0, UINT32_MAX, 32)                                                                                \
    SATURATING_CAST(s, S, u64, uint64_t, 0, UINT64_MAX, 64)
FLOAT_TO_INTS(f32, float)
FLOAT_TO_INTS(f64, double)
PLAIN_CAST(f32, float, f64, double)
PLAIN_CAST(f64, double, f32, float)
#define INT_CASTS(s, S)                                                                                                                    \
    PLAIN_CAST(s, S, f32, float)                                                                                                           \
    PLAIN_CAST(s, S, f64, double)                                                                                                          \
    PLAIN_CAST(s, S, i8, int8_t)                                                                                                           \
    PLAIN_CAST(s, S, i16, int16_t)                                                                                                         \
    PLAIN_CAST(s, S, i32, int32_t)                                                                                                         \
    PLAIN_CAST(s, S, i64, int64_t)
STRIP_INTS(INT_CASTS)
INT_CASTS(bool, uint8_t)
#define TO_BOOL(s, S) LOOP(s##_to_bool, uint8_t, S, A != 0)
STRIP_NATIVE(TO_BOOL)
TO_BOOL(bool, uint8_t)
#define COPY(T) LOOP(copy_##T, T, T, A)
COPY(uint8_t)
COPY(uint16_t)
COPY(uint32_t)
COPY(uint64_t)

// ---- tables ----
#define ROW(op, t) [X_##op][DT_##t] = STRIP_NAME(op##_##t)
#define COMPARE_ROWS(t, T) ROW(eq, t), ROW(ne, t), ROW(lt, t), ROW(le, t), ROW(gt, t), ROW(ge, t),
#define FLOAT_ROWS(t)                                                                                                                      \
    ROW(add, t), ROW(sub, t), ROW(mul, t), ROW(div, t), ROW(neg, t), ROW(abs, t), ROW(min, t), ROW(max, t), ROW(fma, t), ROW(sqrt, t),     \
        ROW(floor, t), ROW(ceil, t), ROW(trunc, t), ROW(rint, t), ROW(fmod, t),
#define INT_ROWS(t, T)                                                                                                                     \
    ROW(add, t), ROW(sub, t), ROW(mul, t), ROW(div, t), ROW(rem, t), ROW(floordiv, t), ROW(floormod, t), ROW(neg, t), ROW(abs, t),         \
        ROW(min, t), ROW(max, t), ROW(fma, t), ROW(and, t), ROW(or, t), ROW(xor, t), ROW(not, t), ROW(shl, t), ROW(shr, t),
static StripLoop *const STRIP_NAME(table)[X_COUNT][DT_COUNT] = {STRIP_NATIVE(COMPARE_ROWS) COMPARE_ROWS(bool, ) FLOAT_ROWS(f32)
                                                                    FLOAT_ROWS(f64) STRIP_INTS(INT_ROWS) ROW(and, bool),
    ROW(or, bool), ROW(xor, bool), ROW(not, bool)};

static StripLoop *const STRIP_NAME(select)[4] = {
    STRIP_NAME(select_uint8_t), STRIP_NAME(select_uint16_t), STRIP_NAME(select_uint32_t), STRIP_NAME(select_uint64_t)};
static StripLoop *const STRIP_NAME(copy)[4] = {
    STRIP_NAME(copy_uint8_t), STRIP_NAME(copy_uint16_t), STRIP_NAME(copy_uint32_t), STRIP_NAME(copy_uint64_t)};

// An integer result has the same bits in a signed and in an unsigned type: integers cast to the signed one.
#define CAST(s, d, f) [DT_##s][DT_##d] = STRIP_NAME(s##_to_##f)
#define CAST_ROW(s, T)                                                                                                                     \
    CAST(s, f32, f32), CAST(s, f64, f64), CAST(s, i8, i8), CAST(s, i16, i16), CAST(s, i32, i32), CAST(s, i64, i64), CAST(s, u8, i8),       \
        CAST(s, u16, i16), CAST(s, u32, i32), CAST(s, u64, i64), CAST(s, bool, bool),
#define FLOAT_CAST_ROW(s)                                                                                                                  \
    CAST(s, i8, i8), CAST(s, i16, i16), CAST(s, i32, i32), CAST(s, i64, i64), CAST(s, u8, u8), CAST(s, u16, u16), CAST(s, u32, u32),       \
        CAST(s, u64, u64), CAST(s, bool, bool),
static StripLoop *const STRIP_NAME(casts)[DT_COUNT][DT_COUNT] = {
    STRIP_INTS(CAST_ROW) CAST_ROW(bool, ) FLOAT_CAST_ROW(f32) FLOAT_CAST_ROW(f64) CAST(f32, f64, f64), CAST(f64, f32, f32)};

#undef LOOP
#undef A
#undef B
#undef C
#undef COMPARE
#undef SELECT
#undef FLOAT_OPS
#undef SHARED_INT_OPS
#undef SIGNED_OPS
#undef UNSIGNED_OPS
#undef PLAIN_CAST
#undef SATURATING_CAST
#undef FLOAT_TO_INTS
#undef INT_CASTS
#undef TO_BOOL
#undef COPY
#undef ROW
#undef COMPARE_ROWS
#undef FLOAT_ROWS
#undef INT_ROWS
#undef CAST
#undef CAST_ROW
#undef FLOAT_CAST_ROW
#pragma pop_macro("bool")
