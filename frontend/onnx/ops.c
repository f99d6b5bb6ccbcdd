// The table of operators, from onnx.def, and its look-up.
#include "ops.h"
#include <string.h>

static const OpRow rows[] = {
#define OP(domain, name, since, until, min_in, max_in, min_out, max_out, attrs, fn)                                                        \
    {domain, #name, since, until, min_in, max_in, min_out, max_out, attrs, #fn, fn},
#include "onnx.def"
#undef OP
};

static const OperatorRow table[] = {
#define OP(domain, name, since, until, min_in, max_in, min_out, max_out, attrs, fn) {domain, #name, since, until},
#include "onnx.def"
#undef OP
};

enum { NROWS = sizeof rows / sizeof *rows };

const OperatorRow *frontend_operator(int i) {
    return i >= 0 && i < NROWS ? &table[i] : NULL;
}

const OpRow *op_find(const char *domain, const char *name, int version) {
    for (int i = 0; i < NROWS; i++) {
        const OpRow *r = &rows[i];
        bool holds = r->since <= version && (r->until == 0 || version <= r->until);
        if (holds && strcmp(r->name, name) == 0 && strcmp(r->domain, domain) == 0) return r;
    }
    return NULL;
}

bool op_known(const char *domain, const char *name) {
    for (int i = 0; i < NROWS; i++)
        if (strcmp(rows[i].name, name) == 0 && strcmp(rows[i].domain, domain) == 0) return true;
    return false;
}
