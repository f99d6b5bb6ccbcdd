// Element types and typed scalars: the rows of dtype.def and what is asked of them.
#ifndef MLC_TYPE_H
#define MLC_TYPE_H

#include "base.h"

typedef enum {
    DT_none,
#define D(name, onnx, bits, cls, c, npy) DT_##name,
#include "dtype.def"
#undef D
    DT_COUNT
} DType;

typedef struct {
    const char *name; // "f32"
    int onnx;         // TensorProto.DataType, 0: none
    int bits;         // in packed storage
    char cls;         // 'F' float 'I' signed 'U' unsigned 'B' bool 'S' string 'C' complex
    const char *c;    // C type of one element in memory
    const char *npy;  // NumPy descriptor or ""
} DTypeInfo;

const DTypeInfo *dtype_info(DType t);
const char *dtype_name(DType t);
DType dtype_parse(const char *name, size_t n); // DT_none when unknown
DType dtype_from_onnx(int onnx);               // DT_none when unknown
int dtype_bytes(DType t);                      // bytes of one element in programs' memory (sub-byte types: 1; bool: 1)
bool dtype_is_float(DType t);                  // includes f16, bf16, f8.., f6.., f4..
bool dtype_is_int(DType t);                    // signed or unsigned, without bool
bool dtype_is_signed(DType t);
bool dtype_is_native(DType t); // C arithmetic exists: f32, f64, i8..i64, u8..u64, bool, idx

// One scalar. Floats of every type are held as their exact double; signed integers, bool and idx in i; unsigned ones in u.
typedef struct {
    DType type;
    union {
        double f;
        int64_t i;
        uint64_t u;
    };
} Scalar;

Scalar scalar_int(DType t, int64_t v); // v brought into t (wraps for integers, rounds for floats)
Scalar scalar_float(
    DType t, double v); // v brought into t as Cast does (floats round to nearest even; integers truncate, saturate, NaN is 0)
Scalar scalar_read(DType t, const void *element); // element as in programs' memory (sub-byte types: one byte each)
void scalar_write(Scalar s, void *element);
double scalar_as_f64(Scalar s);
int64_t scalar_as_i64(Scalar s);      // truncates, saturates
bool scalar_same(Scalar a, Scalar b); // same type and same bits, NaN equal to NaN

// One element of DT_str in memory: `size` bytes of UTF-8 with a NUL after them (mlc_string in generated code).
typedef struct {
    const char *text;
    size_t size;
} StringElement;

// Rounds to nearest even into a small float format and back; saturate as ONNX's Cast attribute (only the f8 types look at it).
uint32_t float_to_bits(DType t, double v, bool saturate);
double float_from_bits(DType t, uint32_t bits);
// f8e8m0 holds powers of two without sign (the sign of v is dropped); Cast's round_mode: up and down by magnitude, nearest with ties up.
// float_to_bits takes Cast's default, up. Saturating, what lies outside becomes the nearest end; else NaN (zero too).
typedef enum { E8M0_UP, E8M0_DOWN, E8M0_NEAREST } RoundE8M0;
uint32_t float_to_e8m0(double v, RoundE8M0 mode, bool saturate);

#endif
