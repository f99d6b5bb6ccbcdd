// Status codes of runs: the rows of status.def, shared by both languages and by what is generated (design.md section 3).
#ifndef MLC_STATUS_H
#define MLC_STATUS_H

#include <stddef.h>

typedef enum {
#define S(NAME, name, text) CODE_##NAME,
#include "status.def"
#undef S
    CODE_COUNT
} StatusCode;

const char *status_text(int code);                   // a sentence; "unknown status" for other numbers
const char *status_name(int code);                   // "index"; NULL when unknown and for CODE_OK, which no check ends with
StatusCode status_parse(const char *name, size_t n); // CODE_OK when no check has this name

#endif
