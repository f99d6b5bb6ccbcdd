// Opens model files and the .pb files of the backend-test layout: map, wire scan, protobuf-c.
#include "read.h"
#include "wire.h"
#include <string.h>

static void *allocate(void *arena, size_t n) {
    return arena_alloc(arena, n);
}
static void release(void *arena, void *p) {
    (void)arena, (void)p;
}

// A message of `size` bytes as protobuf-c's structure in arena a; raw_data holds WireSpans that count from `data`.
static ProtobufCMessage *unpack(const void *data, size_t size, const ProtobufCMessageDescriptor *type, Arena *a, Diag *d) {
    Str skeleton = {0};
    ProtobufCMessage *msg = NULL;
    if (wire_scan(data, size, type, &skeleton, d)) {
        ProtobufCAllocator allocator = {allocate, release, a};
        const uint8_t *bytes = (const uint8_t *)(skeleton.n ? skeleton.data : "");
        msg = protobuf_c_message_unpack(type, &allocator, skeleton.n, bytes);
        if (!msg) diag_error(d, EXIT_MODEL, "the file is damaged or not in ONNX's format: its fields do not decode");
    }
    str_free(&skeleton);
    return msg;
}

static bool open_model(Model *m, Diag *d) {
    static const char lfs[] = "version https://git-lfs";
    if (m->size == 0) return diag_error(d, EXIT_MODEL, "the file is empty"), false;
    if (m->size >= sizeof lfs - 1 && memcmp(m->data, lfs, sizeof lfs - 1) == 0)
        return diag_error(d, EXIT_MODEL, "the file is a pointer of Git LFS, not the model: fetch it with 'git lfs pull'"), false;
    m->proto = (Onnx__ModelProto *)unpack(m->data, m->size, &onnx__model_proto__descriptor, m->arena, d);
    if (!m->proto) return false;
    if (!m->proto->graph) return diag_error(d, EXIT_MODEL, "the file holds no graph: is it an ONNX model?"), false;
    m->hash = hash_bytes(HASH_SEED, m->data, m->size);
    return true;
}

Model *frontend_read(const char *path, Diag *d) {
    if (!d->file) d->file = path;
    size_t size;
    const void *data = file_map(path, &size, d);
    if (!data) return NULL;
    Arena *arena = arena_new();
    Model *m = ARENA_NEW(arena, Model);
    *m = (Model){.arena = arena, .path = arena_strdup(arena, path), .data = data, .size = size};
    if (open_model(m, d)) return m;
    frontend_close(m);
    return NULL;
}

void frontend_forget(const Model *m) {
    external_forget_all(m);
    file_forget(m->data, m->size);
}

void frontend_close(Model *m) {
    if (!m) return;
    external_unmap_all(m);
    file_unmap(m->data, m->size);
    arena_free(m->arena);
}

// ---- values in .pb files ----

// The fields that SequenceProto and OptionalProto share (onnx-data.proto).
enum { VALUE_TENSOR = 3, VALUE_SPARSE = 4, VALUE_SEQUENCE = 5, VALUE_MAP = 6, VALUE_OPTIONAL = 7, VALUE_MAX_DEPTH = 16 };

// m: a model without proto, the file; [begin, end): the message.
static const char *read_tensor_value(Model *m, size_t begin, size_t end, Arena *a, Tensor *t, Diag *d) {
    Model part = *m;
    part.data += begin;
    ProtobufCMessage *msg = unpack(part.data, end - begin, &onnx__tensor_proto__descriptor, m->arena, d);
    if (!msg) return "is not a tensor";
    TensorData td;
    const char *fault = tensor_read(&part, a, (Onnx__TensorProto *)msg, &td);
    if (fault) return fault;
    *t = tensor_new(a, td.type, td.rank, td.dims);
    if (td.data.size) memcpy(t->data, td.data.bytes, td.data.size);
    return NULL;
}

static const char *read_value(Model *m, ValueKind kind, size_t begin, size_t end, int depth, Arena *a, FrontendValue *v, Diag *d) {
    *v = (FrontendValue){.kind = kind};
    if (kind == VALUE_KIND_TENSOR) return read_tensor_value(m, begin, end, a, &v->tensor, d);
    if (depth == VALUE_MAX_DEPTH) return "is nested too deep";
    VEC(FrontendValue) items = {0};
    for (size_t pos = begin; pos < end;) {
        WireField f;
        const char *fault = wire_field(m->data, end, &pos, &f);
        if (fault) return fault;
        if (f.number < VALUE_TENSOR || f.number > VALUE_OPTIONAL) continue;
        if (f.type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED) return "has a field of the wrong wire type";
        if (f.number == VALUE_SPARSE || f.number == VALUE_MAP) return "holds sparse tensors or maps, which are not read yet";
        ValueKind inner = f.number == VALUE_TENSOR     ? VALUE_KIND_TENSOR
                          : f.number == VALUE_SEQUENCE ? VALUE_KIND_SEQUENCE
                                                       : VALUE_KIND_OPTIONAL;
        FrontendValue item;
        fault = read_value(m, inner, f.begin, f.begin + (size_t)f.value, depth + 1, a, &item, d);
        if (fault) return fault;
        vec_push(a, &items, item);
    }
    if (kind == VALUE_KIND_OPTIONAL && items.n > 1) return "is an optional of more than one value";
    v->items = items.data;
    v->n = items.n;
    return NULL;
}

bool frontend_read_value(const char *path, ValueKind kind, Arena *a, FrontendValue *v, Diag *d) {
    Model m = {.path = path};
    m.data = file_map(path, &m.size, d);
    if (!m.data) return false;
    m.arena = arena_new();
    int before = d->errors;
    const char *fault = read_value(&m, kind, 0, m.size, 0, a, v, d);
    if (fault && d->errors == before) diag_error(d, EXIT_MODEL, "the value in '%s' %s", path, fault);
    external_unmap_all(&m);
    arena_free(m.arena);
    file_unmap(m.data, m.size);
    return d->errors == before;
}

bool frontend_read_tensor(const char *path, Arena *a, Tensor *t, Diag *d) {
    FrontendValue v;
    if (!frontend_read_value(path, VALUE_KIND_TENSOR, a, &v, d)) return false;
    *t = v.tensor;
    return true;
}
