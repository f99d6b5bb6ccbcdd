// Programs from text, for unit tests.
#ifndef MLC_TEST_LOOP_TEXT_H
#define MLC_TEST_LOOP_TEXT_H

#include "../../ir/loop.h"

#include <check.h>

static Program *parse(const char *text) {
    Diag d = {0};
    Program *p = loop_parse(text, "test", dim_table_new(), NULL, NULL, &d);
    ck_assert_msg(p && loop_verify(p, &d), "%s", d.text.data);
    return p;
}

static void free_program(Program *p) {
    DimTable *t = p->dims;
    program_free(p);
    dim_table_free(t);
}

#endif
