// Runs the graph passes in the order of passes.def, each wrapped: verify, --dump-after, --time-passes, --check-each.
#include "graph_passes.h"

#include "../select.h"

#include <stdio.h>

typedef struct {
    const char *name;
    int level;
    bool (*fn)(Graph *g, const PassOptions *o);
} GraphPass;

static const GraphPass passes[] = {
#define P_graph(name, level) {#name, level, pass_##name},
#define P_loop(name, level)
#define P(stage, name, level, help) P_##stage(name, level)
#include "../passes.def"
#undef P
#undef P_graph
#undef P_loop
};

static void dump(const Graph *g, const char *pass) {
    Str s = {0};
    graph_print(&s, g);
    fprintf(stderr, "; after %s\n%s\n", pass, s.data ? s.data : "");
    str_free(&s);
}

bool passes_run_graph(Graph *g, const PassOptions *o, Diag *d) {
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        const GraphPass *p = &passes[i];
        if (!pass_selected(p->name, p->level, o)) continue;
        double start = pass_clock();
        p->fn(g, o);
        pass_report_time(p->name, start, o);
        if (!graph_verify(g, d)) {
            diag_error(d, EXIT_INTERNAL, "pass '%s' made an invalid graph", p->name);
            return false;
        }
        if (pass_dumped(p->name, o)) dump(g, p->name);
        if (o->check_graph && !o->check_graph(o->check_ctx, g, p->name, d)) return false;
    }
    return true;
}
