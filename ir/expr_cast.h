// Casts from and to the types without C arithmetic, as integer operations on bits: used by expr_define and expr_lower_math.
#ifndef MLC_EXPR_CAST_H
#define MLC_EXPR_CAST_H

#include "expr.h"

// The cast (X_cast, or X_casts when saturate) of x to t, where x's type or t is not native, by basic functions of native types and by bits
// between a small type and the unsigned (or, for i2 and i4, signed) byte or 16-bit integer that holds it. Exact for every input.
const Expr *cast_define(Arena *a, DType t, const Expr *x, bool saturate);

#endif
