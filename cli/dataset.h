// A stored example in the layout of ONNX's backend tests: input_0.pb … and output_0.pb … in one folder.
#ifndef MLC_DATASET_H
#define MLC_DATASET_H

#include "../ir/graph.h"

typedef struct {
    const char *path;
    int nin, nout;
    Tensor *in, *out;
} DataSet;

// The folders with data below dir (dir itself, or its test_data_set_* in order); the count, 0 after diag_error when there is none.
int dataset_folders(const char *dir, Arena *a, const char *const **folders, Diag *d);
bool dataset_read(const char *folder, Arena *a, DataSet *s, Diag *d);

#endif
