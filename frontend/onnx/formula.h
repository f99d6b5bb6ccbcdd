// Elementwise bodies from text, and checks of inputs that families share; see math.c.
#ifndef MLC_FORMULA_H
#define MLC_FORMULA_H

#include "import.h"

// A map of in[0 … nin-1] (at most 8) with the formula as its body; NULL after import_fail. Floats narrower than f32 compute in f32 and
// round once.
Value *formula_map(ImportNode *n, const char *text, int nin, Value *const *in);
// A map of the given shape; inputs broadcast to it as they are. In the text dim(d0), dim(d1) … are its axes and the names of `dims` (ended
// by one without a name; may be NULL) further sizes, $name and $T as above.
typedef struct {
    const char *name;
    const Dim *dim;
} FormulaDim;
Value *formula_tensor(
    ImportNode *n, const char *text, int nin, Value *const *in, int rank, const Dim *const *shape, const FormulaDim *dims);
const Expr *formula_body(ImportNode *n, const char *text, int nargs, const DType *types, int rank, const Dim *const *shape,
    const FormulaDim *dims);                                                              // its body alone
const Expr *formula_expr(ImportNode *n, const char *text, int nargs, const DType *types); // NULL after import_fail

bool import_same_types(const ImportNode *n, int first, int last);     // of the inputs present
bool import_numeric(const ImportNode *n, int input);                  // a float, an integer or bool
bool import_const_float(const ImportNode *n, int input, double *out); // a constant scalar; false (no message) when it is not
// The mean over count axes of x; its divisor is the product of their extents.
Value *import_mean(ImportNode *n, Value *x, int count, const int64_t *axes, bool keep);
Value *import_matmul_values(ImportNode *n, Value *x, Value *y, DType out); // numpy.matmul; NULL after import_fail
// Conv with the node's attributes, without bias, for operands of one type (i32 for centred integers); AveragePool of a float f32 or wider.
// NULL after import_fail.
Value *import_conv_values(ImportNode *n, Value *x, Value *weights, DType out);
Value *import_average_pool_values(ImportNode *n, Value *x);
// x f32 . w integer by subs (w is [out, in]): x is quantised over its range first, the sum scaled back. w's scale and zero
// point are scalars or run along the result's last axis.
Value *import_dynamic_product(ImportNode *n, const char *subs, Value *x, Value *w, Value *w_scale, Value *w_zero);
Value *import_channel_bias(ImportNode *n, Value *y, Value *bias); // y + a rank-1 bias along axis 1

#endif
