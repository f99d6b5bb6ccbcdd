// The wire scan in front of protobuf-c (design.md section 7).
//
// protobuf-c 1.4.1 recurses once a message without limit and copies every bytes field. So the bytes are walked first, without recursion,
// with the message descriptors as the grammar: nesting, the number of items, every length and wire type are checked, unknown fields are
// dropped, and the payload of TensorProto.raw_data stays where it is: the skeleton that protobuf-c then unpacks holds a WireSpan in its
// place.
#ifndef MLC_WIRE_H
#define MLC_WIRE_H

#include "../../ir/base.h"
#include <protobuf-c/protobuf-c.h>

// What a raw_data field of the skeleton holds: `size` bytes from `begin` on in the scanned data.
typedef struct {
    uint64_t begin, size;
} WireSpan;

enum {
    WIRE_MAX_DEPTH = 100,    // messages inside each other; protobuf's own limit, so no file that other readers take is refused
    WIRE_MAX_ITEMS = 1 << 22 // messages, texts and byte strings in all: each costs protobuf-c far more memory than its two bytes in a file
};

// Writes the skeleton of a message of type `root` to *skeleton (str_free it). false after diag_error (EXIT_MODEL) with the byte's position.
bool wire_scan(const void *data, size_t size, const ProtobufCMessageDescriptor *root, Str *skeleton, Diag *d);

// One field of a message, for messages that have no descriptor (SequenceProto, OptionalProto). Groups are faults.
typedef struct {
    uint32_t number;
    int type;       // 0 varint, 1 fixed 64, 2 bytes, 5 fixed 32
    uint64_t value; // varint: the value; bytes: their number
    size_t begin;   // position of the value or of the first byte
} WireField;
// Reads the field at *pos < end and advances *pos. NULL when done, else what is wrong.
const char *wire_field(const uint8_t *data, size_t end, size_t *pos, WireField *f);

#endif
