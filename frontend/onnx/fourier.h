// The discrete Fourier transform along one axis; see fourier.c.
#ifndef MLC_FOURIER_H
#define MLC_FOURIER_H

#include "formula.h"

typedef struct {
    int axis;           // not the last one, which holds real and imaginary part (extent 2) or the real part alone (1)
    const Dim *length;  // of the transform: a longer axis is cut, a shorter one is zero behind its end
    const Dim *bins;    // results wanted, from frequency 0 on
    bool inverse, real; // real: only the real parts of the results
} Fourier;

// x is f32 or f64. The result has `bins` along the axis and 2 (or 1 when `real`) in its last axis. NULL after a fault.
Value *fourier(ImportNode *n, Value *x, const Fourier *f);

#endif
