// The wire scan: one pass over the bytes with an explicit stack of open messages; see wire.h for what it checks and why.
//
// Lengths of messages change when raw_data is cut out of them, and are known only at their end: the skeleton reserves five bytes for each
// (a padded varint, which protobuf-c reads) and fills them in when the message closes.
#include "wire.h"
#include "onnx.pb-c.h"
#include <string.h>

enum { LENGTH_BYTES = 5, RAW_DATA_FIELD = 9 };

typedef struct {
    const ProtobufCMessageDescriptor *type;
    size_t end;       // position after the message in the data
    size_t length_at; // where its length stands in the skeleton
    uint64_t seen;    // bit i: the singular message field type->fields[i] was there
} Frame;

typedef struct {
    const uint8_t *data;
    size_t pos;
    Frame stack[WIRE_MAX_DEPTH];
    int depth;
    long items;
    Str *out;
    Diag *d;
} Scan;

static bool fault(Scan *s, const char *what) {
    diag_error(s->d, EXIT_MODEL, "the file is damaged or not in ONNX's format: %s, at byte %zu", what, s->pos);
    return false;
}

// protobuf's lengths end at 2 GB: n bytes more, and the headers of a field, must fit the skeleton.
static bool room(Scan *s, uint64_t n) {
    if (n <= INT32_MAX - 64 && s->out->n <= INT32_MAX - 64 - (size_t)n) return true;
    diag_error(s->d, EXIT_LIMIT, "the file holds more than 2 GB beside its raw data");
    return false;
}

static const char *read_varint(const uint8_t *data, size_t end, size_t *pos, uint64_t *v) {
    *v = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (*pos >= end) return "a number is cut off";
        uint8_t b = data[(*pos)++];
        if (shift == 63 && b > 1) return "a number does not fit 64 bits";
        *v |= (uint64_t)(b & 127) << shift;
        if (b < 128) return NULL;
    }
    return "a number does not fit 64 bits";
}

const char *wire_field(const uint8_t *data, size_t end, size_t *pos, WireField *f) {
    uint64_t tag;
    const char *e = read_varint(data, end, pos, &tag);
    if (e) return e;
    if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff) return "a field has no valid number";
    f->number = (uint32_t)(tag >> 3);
    f->type = (int)(tag & 7);
    f->begin = *pos;
    f->value = 0;
    switch (f->type) {
    case PROTOBUF_C_WIRE_TYPE_VARINT: return read_varint(data, end, pos, &f->value);
    case PROTOBUF_C_WIRE_TYPE_64BIT: f->value = 8; break;
    case PROTOBUF_C_WIRE_TYPE_32BIT: f->value = 4; break;
    case PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED:
        if ((e = read_varint(data, end, pos, &f->value))) return e;
        f->begin = *pos;
        break;
    default: return "a field has an unknown wire type";
    }
    if (f->value > end - *pos) return "a field is longer than what holds it";
    *pos += (size_t)f->value;
    return NULL;
}

static void put_varint(Str *out, uint64_t v) {
    char b[10];
    size_t n = 0;
    do {
        b[n++] = (char)((v & 127) | (v > 127 ? 128 : 0));
        v >>= 7;
    } while (v);
    str_addn(out, b, n);
}

static int wire_type_of(ProtobufCType t) {
    switch (t) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT: return PROTOBUF_C_WIRE_TYPE_32BIT;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return PROTOBUF_C_WIRE_TYPE_64BIT;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED;
    default: return PROTOBUF_C_WIRE_TYPE_VARINT;
    }
}

// A field of scalars, alone or packed.
static bool scan_scalars(Scan *s, const ProtobufCFieldDescriptor *fd, const WireField *f) {
    bool packed = f->type == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED && fd->label == PROTOBUF_C_LABEL_REPEATED;
    if (!packed && f->type != wire_type_of(fd->type)) return fault(s, "a field has the wrong wire type");
    if (!room(s, s->pos - f->begin)) return false;
    put_varint(s->out, (uint64_t)f->number << 3 | (uint64_t)f->type);
    if (packed) put_varint(s->out, f->value);
    str_addn(s->out, (const char *)s->data + f->begin, s->pos - f->begin);
    return true;
}

static bool scan_message(Scan *s, Frame *parent, const ProtobufCFieldDescriptor *fd, const WireField *f) {
    if (!room(s, 0)) return false;
    if (fd->label != PROTOBUF_C_LABEL_REPEATED) {
        uint64_t bit = 1ull << ((fd - parent->type->fields) & 63);
        if (parent->seen & bit) return fault(s, "a field that may stand once stands twice");
        parent->seen |= bit;
    }
    if (s->depth == WIRE_MAX_DEPTH) {
        s->pos = f->begin;
        diag_error(s->d, EXIT_MODEL, "messages are nested more than %d deep, at byte %zu", WIRE_MAX_DEPTH, s->pos);
        return false;
    }
    put_varint(s->out, (uint64_t)f->number << 3 | PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED);
    s->stack[s->depth++] = (Frame){.type = fd->descriptor, .end = s->pos, .length_at = s->out->n};
    str_addn(s->out, "\x80\x80\x80\x80", LENGTH_BYTES); // with the NUL: five bytes, zero
    s->pos = f->begin;
    return true;
}

// Text, bytes or a message.
static bool scan_bytes(Scan *s, Frame *parent, const ProtobufCFieldDescriptor *fd, const WireField *f) {
    if (f->type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED) return fault(s, "a field has the wrong wire type");
    if (++s->items > WIRE_MAX_ITEMS) {
        diag_error(s->d, EXIT_LIMIT, "the file holds more than %d messages and texts", WIRE_MAX_ITEMS);
        return false;
    }
    if (fd->type == PROTOBUF_C_TYPE_MESSAGE) return scan_message(s, parent, fd, f);
    const char *bytes = (const char *)s->data + f->begin;
    if (fd->type == PROTOBUF_C_TYPE_STRING && memchr(bytes, 0, (size_t)f->value)) return fault(s, "a text holds a zero byte");
    WireSpan span = {f->begin, f->value};
    bool cut = parent->type == &onnx__tensor_proto__descriptor && f->number == RAW_DATA_FIELD;
    size_t n = cut ? sizeof span : (size_t)f->value;
    if (!room(s, n)) return false;
    put_varint(s->out, (uint64_t)f->number << 3 | PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED);
    put_varint(s->out, n);
    str_addn(s->out, cut ? (const char *)&span : bytes, n);
    return true;
}

static bool scan_field(Scan *s, Frame *parent) {
    WireField f;
    const char *e = wire_field(s->data, parent->end, &s->pos, &f);
    if (e) return fault(s, e);
    const ProtobufCFieldDescriptor *fd = protobuf_c_message_descriptor_get_field(parent->type, f.number);
    if (!fd) return true;
    bool bytes = wire_type_of(fd->type) == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED;
    return bytes ? scan_bytes(s, parent, fd, &f) : scan_scalars(s, fd, &f);
}

static void close_message(Scan *s) {
    const Frame *f = &s->stack[--s->depth];
    if (s->depth == 0) return;
    size_t n = s->out->n - f->length_at - LENGTH_BYTES;
    for (int i = 0; i < LENGTH_BYTES; i++, n >>= 7)
        s->out->data[f->length_at + (size_t)i] = (char)((n & 127) | (i < LENGTH_BYTES - 1 ? 128 : 0));
}

bool wire_scan(const void *data, size_t size, const ProtobufCMessageDescriptor *root, Str *skeleton, Diag *d) {
    Scan s = {.data = data, .out = skeleton, .d = d, .depth = 1};
    s.stack[0] = (Frame){.type = root, .end = size};
    while (s.depth > 0) {
        Frame *top = &s.stack[s.depth - 1];
        if (s.pos == top->end)
            close_message(&s);
        else if (!scan_field(&s, top))
            return false;
    }
    return true;
}
