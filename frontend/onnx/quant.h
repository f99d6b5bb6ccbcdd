// Parts of quantised operators; see quant.c.
#ifndef MLC_QUANT_H
#define MLC_QUANT_H

#include "formula.h"

// rint(x / scale) + zero, saturated; the quotient is rounded to `precision`. zero may be NULL. NULL after a fault, as the others.
Value *quantised(ImportNode *n, Value *x, Value *scale, Value *zero, DType precision, DType to, bool saturate);
Value *dequantised(ImportNode *n, Value *x, Value *scale, Value *zero, DType to); // (x - zero) * scale, rounded once
Value *centred(ImportNode *n, Value *x, Value *zero);                             // x - zero in i32; zero may be NULL

// f32 as u8 over the range of x and 0.
typedef struct {
    Value *values, *scale, *zero; // values NULL: failed
} Quantised;
Quantised dynamically_quantised(ImportNode *n, Value *x);

// Each input's type: q quantised, f float, i i32; small letters must be there.
bool check_kinds(const ImportNode *n, const char *kinds);
// The tensor at inputs first (values), first + 1 (scale), first + 2 (zero point, may be missing) as f32.
Value *input_as_float(ImportNode *n, int first);
// Output 0 from y, by the scale at input `scale` and the zero point behind it, in input 0's type. false after a fault or when y is NULL.
bool output_quantised(ImportNode *n, Value *y, int scale);

#endif
