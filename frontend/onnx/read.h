// Inside of the ONNX reader: an open model, and TensorProtos turned into elements.
#ifndef MLC_READ_H
#define MLC_READ_H

#include "../frontend.h"
#include "onnx.pb-c.h"

// Files mapped beside the model, for external data.
typedef struct External {
    const char *location; // as the model writes it
    const char *path;     // of the file
    const void *data;
    size_t size;
    struct External *next;
} External;

struct Model {
    Arena *arena; // protobuf-c's structures and everything read from them
    const char *path;
    const uint8_t *data; // the mapped file; raw_data spans count from here
    size_t size;
    Onnx__ModelProto *proto;
    External *externals;
    uint64_t hash;
};

typedef struct {
    DType type;
    int rank;
    const int64_t *dims;
    int64_t count;
    Data data; // not aligned when it lies in a mapped file
} TensorData;

enum { MAX_RANK = 16 };

// The elements of t as in programs' memory, in place where the file already holds them so, else in arena a.
// Returns NULL when done, else what is wrong ("holds 12 bytes, f32[2, 3] needs 24"), a text in a.
const char *tensor_read(Model *m, Arena *a, const Onnx__TensorProto *t, TensorData *out);
const char *sparse_read(Model *m, Arena *a, const Onnx__SparseTensorProto *t, TensorData *out); // made dense

// Maps the file that external data names by `location`, after the checks of design.md section 7; stays mapped until frontend_close.
// Returns NULL when done, else what is wrong, a text in a.
const char *external_map(Model *m, Arena *a, const char *location, const External **out);
void external_unmap_all(Model *m);
void external_forget_all(const Model *m);

#endif
