// TensorProto -> elements as programs hold them.
//
//   raw_data, external data   packed little-endian bytes: used in place, or unpacked to one byte an element for types under 8 bits
//   float_data … uint64_data  protobuf-c's array in place where its elements are the type's own, else narrowed with a range check
//   string_data               StringElements that point at protobuf-c's bytes
// Complex elements are two entries. Every size is checked against dims before a byte is looked at.
#include "read.h"
#include "wire.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef enum { ENTRY_NONE, ENTRY_FLOAT, ENTRY_INT32, ENTRY_INT64, ENTRY_DOUBLE, ENTRY_UINT64, ENTRY_STRING } EntryKind;

// The typed field that holds a type's elements when there is no raw data.
static EntryKind entry_kind(DType t) {
    switch (t) {
    case DT_f32:
    case DT_c64: return ENTRY_FLOAT;
    case DT_f64:
    case DT_c128: return ENTRY_DOUBLE;
    case DT_i64: return ENTRY_INT64;
    case DT_u32:
    case DT_u64: return ENTRY_UINT64;
    case DT_str: return ENTRY_STRING;
    default: return ENTRY_INT32;
    }
}

typedef struct {
    const void *data;
    size_t n;
} Entries;

static Entries entries_of(const Onnx__TensorProto *t, EntryKind kind) {
    switch (kind) {
    case ENTRY_FLOAT: return (Entries){t->float_data, t->n_float_data};
    case ENTRY_INT32: return (Entries){t->int32_data, t->n_int32_data};
    case ENTRY_INT64: return (Entries){t->int64_data, t->n_int64_data};
    case ENTRY_DOUBLE: return (Entries){t->double_data, t->n_double_data};
    case ENTRY_UINT64: return (Entries){t->uint64_data, t->n_uint64_data};
    case ENTRY_STRING: return (Entries){t->string_data, t->n_string_data};
    default: return (Entries){NULL, 0};
    }
}

static const char *type_text(Arena *a, const TensorData *d) {
    Str s = {0};
    str_printf(&s, "%s[", dtype_name(d->type));
    for (int i = 0; i < d->rank; i++) str_printf(&s, "%s%lld", i ? ", " : "", (long long)d->dims[i]);
    str_add(&s, "]");
    const char *text = arena_strndup(a, s.data, s.n);
    str_free(&s);
    return text;
}

// Type and shape; the element count fits 2^48, so that no size in bytes or bits overflows.
static const char *read_header(Arena *a, const int64_t *dims, size_t rank, int onnx_type, TensorData *out) {
    *out = (TensorData){.type = dtype_from_onnx(onnx_type), .count = 1};
    if (out->type == DT_none) return arena_printf(a, "has unknown element type %d", onnx_type);
    if (rank > MAX_RANK) return arena_printf(a, "has rank %zu, the limit is %d", rank, MAX_RANK);
    out->rank = (int)rank;
    out->dims = arena_copy(a, dims, rank * sizeof *dims);
    bool empty = false;
    for (int i = 0; i < out->rank; i++) {
        if (dims[i] < 0) return arena_printf(a, "has the negative dimension %lld", (long long)dims[i]);
        empty |= dims[i] == 0;
    }
    for (int i = 0; i < out->rank && !empty; i++) {
        if (dims[i] > ((int64_t)1 << 48) / out->count) return "has more than 2^48 elements";
        out->count *= dims[i];
    }
    if (empty) out->count = 0;
    return NULL;
}

static size_t packed_bytes(DType t, int64_t count) {
    return ((size_t)count * (size_t)dtype_info(t)->bits + 7) / 8;
}

// A stream of fields of `bits` bits, low bits first, into one byte each; signed ones extended.
static void unpack_bits(uint8_t *to, const uint8_t *from, size_t nfrom, int64_t count, int bits, bool sign) {
    int mask = (1 << bits) - 1;
    for (int64_t i = 0; i < count; i++) {
        size_t bit = (size_t)i * (size_t)bits, byte = bit / 8;
        int v = from[byte] | (byte + 1 < nfrom ? from[byte + 1] << 8 : 0);
        v = v >> (bit % 8) & mask;
        to[i] = (uint8_t)(sign && v >> (bits - 1) ? v - mask - 1 : v);
    }
}

// Packed bytes, of a file or of narrowed entries, become elements.
static void take_packed(Arena *a, TensorData *out, const uint8_t *bytes, size_t size) {
    const DTypeInfo *info = dtype_info(out->type);
    out->data = (Data){bytes, size};
    if (info->bits < 8) {
        uint8_t *to = arena_alloc(a, (size_t)out->count);
        unpack_bits(to, bytes, size, out->count, info->bits, info->cls == 'I');
        out->data = (Data){to, (size_t)out->count};
    } else if (out->type == DT_bool) {
        size_t i = 0;
        while (i < size && bytes[i] < 2) i++;
        if (i == size) return;
        uint8_t *to = arena_alloc(a, size);
        for (i = 0; i < size; i++) to[i] = bytes[i] != 0;
        out->data.bytes = to;
    }
}

static const char *take_raw(Arena *a, TensorData *out, const uint8_t *bytes, uint64_t size, const char *where) {
    size_t need = packed_bytes(out->type, out->count);
    if (out->type == DT_str) return arena_printf(a, "is of strings, which cannot stand in %s", where);
    if (size != need)
        return arena_printf(a, "holds %llu bytes of %s, %s needs %zu", (unsigned long long)size, where, type_text(a, out), need);
    take_packed(a, out, bytes, need);
    return NULL;
}

// ---- external data ----

static const char *parse_size(Arena *a, const char *key, const char *text, uint64_t *v) {
    char *end;
    errno = 0;
    unsigned long long x = strtoull(text, &end, 10);
    if (errno || *end || text[0] < '0' || text[0] > '9')
        return arena_printf(a, "has external data with %s '%.40s', which is not a size", key, text);
    *v = x;
    return NULL;
}

static const char *take_external(Model *m, Arena *a, const Onnx__TensorProto *t, TensorData *out) {
    const char *location = NULL, *fault;
    uint64_t offset = 0, length = packed_bytes(out->type, out->count);
    for (size_t i = 0; i < t->n_external_data; i++) {
        const char *key = t->external_data[i]->key, *value = t->external_data[i]->value;
        if (!key || !value) return "has external data with an entry that lacks its key or value";
        if (strcmp(key, "location") == 0) location = value;
        if (strcmp(key, "offset") == 0 && (fault = parse_size(a, key, value, &offset))) return fault;
        if (strcmp(key, "length") == 0 && (fault = parse_size(a, key, value, &length))) return fault;
    }
    if (!location) return "has external data without a location";
    const External *e;
    if ((fault = external_map(m, a, location, &e))) return fault;
    if (offset > e->size || length > e->size - offset)
        return arena_printf(a, "lies at bytes %llu to %llu of its external data '%s', which has %zu", (unsigned long long)offset,
            (unsigned long long)(offset + length), location, e->size);
    return take_raw(a, out, (const uint8_t *)e->data + offset, length, "external data");
}

// ---- typed fields ----

static const char *narrow_int32(Arena *a, TensorData *out, const int32_t *from, size_t n) {
    const DTypeInfo *info = dtype_info(out->type);
    int bits = info->bits < 8 && info->bits != 6 ? 8 : info->bits; // 4- and 2-bit types: an entry is a byte of packed elements
    bool whole = info->cls == 'I' && info->bits >= 8;
    int64_t hi = whole ? ((int64_t)1 << (bits - 1)) - 1 : info->cls == 'B' ? 1 : ((int64_t)1 << bits) - 1;
    int64_t lo = whole || (info->cls == 'F' && bits >= 8) || info->cls == 'I' ? -((int64_t)1 << (bits - 1)) : 0;
    size_t bytes = bits > 8 ? 2 : 1;
    uint8_t *to = arena_alloc(a, n * bytes);
    for (size_t i = 0; i < n; i++) {
        if (from[i] < lo || from[i] > hi)
            return arena_printf(a, "has the entry %d in int32_data, which %s cannot hold", from[i], info->name);
        to[i * bytes] = (uint8_t)from[i];
        if (bytes == 2) to[i * 2 + 1] = (uint8_t)((uint32_t)from[i] >> 8);
    }
    if (info->bits == 6)
        out->data = (Data){to, n};
    else
        take_packed(a, out, to, n * bytes);
    return NULL;
}

static const char *narrow_uint64(Arena *a, TensorData *out, const uint64_t *from, size_t n) {
    uint32_t *to = arena_alloc(a, n * sizeof *to);
    for (size_t i = 0; i < n; i++) {
        if (from[i] > UINT32_MAX)
            return arena_printf(a, "has the entry %llu in uint64_data, which u32 cannot hold", (unsigned long long)from[i]);
        to[i] = (uint32_t)from[i];
    }
    out->data = (Data){to, n * sizeof *to};
    return NULL;
}

static const char *take_strings(Arena *a, TensorData *out, const ProtobufCBinaryData *from, size_t n) {
    StringElement *to = arena_alloc(a, n * sizeof *to);
    for (size_t i = 0; i < n; i++)
        to[i] = (StringElement){arena_strndup(a, from[i].len ? (const char *)from[i].data : "", from[i].len), from[i].len};
    out->data = (Data){to, n * sizeof *to};
    return NULL;
}

// How many entries of the typed field `count` elements take.
static size_t entries_needed(DType t, int64_t count) {
    const DTypeInfo *info = dtype_info(t);
    if (info->cls == 'C') return (size_t)count * 2;
    return info->bits == 4 || info->bits == 2 ? packed_bytes(t, count) : (size_t)count;
}

static const char *take_typed(Arena *a, const Onnx__TensorProto *t, TensorData *out) {
    EntryKind kind = entry_kind(out->type);
    Entries e = entries_of(t, kind);
    size_t need = entries_needed(out->type, out->count);
    if (e.n != need) return arena_printf(a, "holds %zu entries, %s needs %zu", e.n, type_text(a, out), need);
    if (kind == ENTRY_STRING) return take_strings(a, out, e.data, e.n);
    if (kind == ENTRY_INT32 && out->type != DT_i32) return narrow_int32(a, out, e.data, e.n);
    if (out->type == DT_u32) return narrow_uint64(a, out, e.data, e.n);
    out->data = (Data){e.data, packed_bytes(out->type, out->count)};
    return NULL;
}

const char *tensor_read(Model *m, Arena *a, const Onnx__TensorProto *t, TensorData *out) {
    const char *fault = read_header(a, t->dims, t->n_dims, t->data_type, out);
    if (fault) return fault;
    if (t->segment) return "is split into segments, which no writer of ONNX does";
    if (t->has_data_location && t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL) return take_external(m, a, t, out);
    if (!t->has_raw_data) return take_typed(a, t, out);
    WireSpan span;
    memcpy(&span, t->raw_data.data, sizeof span);
    if (span.size == 0 && out->count > 0) return take_typed(a, t, out);
    return take_raw(a, out, m->data + span.begin, span.size, "raw data");
}

// ---- sparse tensors ----

// Row-major position of non-zero i: its index is one number, or one a dimension.
static int64_t sparse_position(const TensorData *out, const TensorData *indices, int64_t i) {
    const char *at = indices->data.bytes;
    int64_t v, pos = 0;
    if (indices->rank == 1) {
        memcpy(&v, at + i * 8, 8);
        return v >= 0 && v < out->count ? v : -1;
    }
    for (int d = 0; d < out->rank; d++) {
        memcpy(&v, at + (i * out->rank + d) * 8, 8);
        if (v < 0 || v >= out->dims[d]) return -1;
        pos = pos * out->dims[d] + v;
    }
    return pos;
}

const char *sparse_read(Model *m, Arena *a, const Onnx__SparseTensorProto *t, TensorData *out) {
    TensorData values, indices;
    if (!t->values || !t->indices) return "is sparse without values or without indices";
    const char *fault = tensor_read(m, a, t->values, &values);
    if (!fault) fault = tensor_read(m, a, t->indices, &indices);
    if (!fault) fault = read_header(a, t->dims, t->n_dims, t->values->data_type, out);
    if (fault) return fault;
    bool linear = indices.rank == 1, listed = indices.rank == 2 && indices.dims[1] == out->rank;
    if (values.rank != 1 || indices.type != DT_i64 || !(linear || listed) || indices.dims[0] != values.count)
        return arena_printf(
            a, "is sparse with values %s and indices %s, which do not fit each other", type_text(a, &values), type_text(a, &indices));
    size_t each = (size_t)dtype_bytes(out->type);
    if (out->type == DT_str) return "is sparse and of strings, which ONNX does not define";
    if (out->count > INT32_MAX / (int64_t)each) return arena_printf(a, "is sparse; made dense, %s would take over 2 GB", type_text(a, out));
    out->data = (Data){arena_alloc(a, (size_t)out->count * each), (size_t)out->count * each};
    for (int64_t i = 0; i < values.count; i++) {
        int64_t pos = sparse_position(out, &indices, i);
        if (pos < 0) return arena_printf(a, "is sparse; the index of its value %lld lies outside of %s", (long long)i, type_text(a, out));
        memcpy((char *)(uintptr_t)out->data.bytes + (size_t)pos * each, (const char *)values.data.bytes + (size_t)i * each, each);
    }
    return NULL;
}
