// See status.h.
#include "status.h"

#include <string.h>

static const struct {
    const char *name, *text;
} rows[] = {
#define S(NAME, name, text) {#name, text},
#include "status.def"
#undef S
};

const char *status_text(int code) {
    return code >= 0 && code < CODE_COUNT ? rows[code].text : "unknown status";
}

const char *status_name(int code) {
    return code > CODE_OK && code < CODE_COUNT ? rows[code].name : NULL;
}

StatusCode status_parse(const char *name, size_t n) {
    for (int i = CODE_OK + 1; i < CODE_COUNT; i++)
        if (strlen(rows[i].name) == n && memcmp(rows[i].name, name, n) == 0) return (StatusCode)i;
    return CODE_OK;
}
