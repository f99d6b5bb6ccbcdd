// loop_parse, then the verifier; a valid program's text is read back.
#include "fuzz.h"

#include "../../ir/loop.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Arena *a = arena_new();
    Diag d = {0};
    DimTable *t = dim_table_new(), *u = dim_table_new();
    Program *p = loop_parse(arena_strndup(a, (const char *)data, size), "fuzz", t, NULL, NULL, &d);
    if (p && loop_verify(p, &d)) {
        Str one = {0}, two = {0};
        loop_print(&one, p);
        Program *again = loop_parse(one.data, "again", u, NULL, NULL, &d);
        if (!again) fprintf(stderr, "%s", d.text.data);
        if (again) loop_print(&two, again);
        fuzz_same(&one, &two);
        str_free(&one);
        str_free(&two);
        program_free(again);
    }
    program_free(p);
    dim_table_free(t);
    dim_table_free(u);
    diag_free(&d);
    arena_free(a);
    return 0;
}
