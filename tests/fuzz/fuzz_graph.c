// graph_parse, then the verifier; a valid graph's text is read back.
#include "fuzz.h"

#include "../../ir/graph.h"

static bool blob(void *ctx, int k, Data *out) {
    return graph_blob(ctx, k, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Arena *a = arena_new();
    Diag d = {0};
    Graph *g = graph_parse(arena_strndup(a, (const char *)data, size), "fuzz", &d);
    if (g && graph_verify(g, &d)) {
        Str one = {0}, two = {0};
        graph_print(&one, g);
        Graph *again = graph_parse_blobs(one.data, "again", &d, blob, g);
        if (!again) fprintf(stderr, "%s", d.text.data);
        if (again) graph_print(&two, again);
        fuzz_same(&one, &two);
        str_free(&one);
        str_free(&two);
        graph_free(again);
    }
    graph_free(g);
    diag_free(&d);
    arena_free(a);
    return 0;
}
