// Sliding windows of convolutions and pooling.
#ifndef MLC_WINDOW_H
#define MLC_WINDOW_H

#include "formula.h"

enum { SPATIAL_MAX = 8 };

typedef struct {
    int n; // spatial axes
    const Dim *kernel[SPATIAL_MAX], *pad_before[SPATIAL_MAX], *pad_after[SPATIAL_MAX], *out[SPATIAL_MAX];
    int64_t stride[SPATIAL_MAX], dilation[SPATIAL_MAX];
} Window;

static inline const Dim *dim_of(ImportNode *n, int64_t v) {
    return dim_int(n->dims, v);
}

bool import_auto_pad(ImportNode *n); // the attribute's word is one of those known
// Axes, kernel, strides and dilations of a convolution of x; false after import_fail.
bool import_window(ImportNode *n, Window *w, const Value *x, const Value *weights);
// Extent of the window's reach along spatial axis i: (k - 1) * dilation + 1.
const Dim *import_reach(ImportNode *n, const Window *w, int i);
// x [N, G*C, spatial] and weights [G*M, C, kernel] -> [N, G*M, out].
Value *import_convolve(ImportNode *n, Value *x, Value *weights, const Window *w, int64_t group, DType out, Scalar fill);
// x in f32 when it has a float type below f32, for operators with more than one step.
Value *import_widened(ImportNode *n, Value *x);

#endif
