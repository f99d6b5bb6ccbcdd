// The wire scan of a model's bytes: what it lets through, protobuf-c unpacks.
#include "fuzz.h"

#include "../../frontend/onnx/wire.h"
#include "onnx.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Diag d = {0};
    Str skeleton = {0};
    if (wire_scan(data, size, &onnx__model_proto__descriptor, &skeleton, &d)) {
        const uint8_t *bytes = (const uint8_t *)(skeleton.n ? skeleton.data : "");
        Onnx__ModelProto *m = onnx__model_proto__unpack(NULL, skeleton.n, bytes);
        if (m) onnx__model_proto__free_unpacked(m, NULL);
    }
    str_free(&skeleton);
    diag_free(&d);
    return 0;
}
