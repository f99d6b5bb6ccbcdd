// NumPy's files: .npy read and written, members of .npz read.
#ifndef MLC_NPY_H
#define MLC_NPY_H

#include "../ir/graph.h"

// `want` decides between types that the file does not tell apart (bf16 is stored as '<V2', a 4-bit type as one byte an element); DT_none:
// none wanted.
bool npy_read(const char *path, DType want, Arena *a, Tensor *t, Diag *d);
bool npz_read(const char *path, const char *key, DType want, Arena *a, Tensor *t, Diag *d); // key with or without ".npy"
bool npy_parse(const void *bytes, size_t size, const char *name, DType want, Arena *a, Tensor *t, Diag *d);
bool npy_format(const Tensor *t, Str *out, Diag *d); // C order, version 1.0

#endif
