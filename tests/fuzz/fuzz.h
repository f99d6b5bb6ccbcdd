// What the libFuzzer targets share. A target may refuse its input; what it accepts must read back, and nothing may crash.
#ifndef MLC_FUZZ_H
#define MLC_FUZZ_H

#include "../../ir/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Ends the run as a crash when two texts of the same thing differ, or the second is missing.
static inline void fuzz_same(const Str *one, const Str *two) {
    if (one->n == two->n && !memcmp(one->data, two->data, one->n)) return;
    fprintf(
        stderr, "printed, read back and printed again the text differs:\n%s\n----\n%s\n", one->data, two->data ? two->data : "(not read)");
    abort();
}

#endif
