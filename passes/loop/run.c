// Runs the loop passes in the order of passes.def, each wrapped: verify, --dump-after, --time-passes.
#include "loop_passes.h"

#include "../select.h"

#include <stdio.h>

typedef struct {
    const char *name;
    int level;
    bool (*fn)(Program *p, const PassOptions *o, Diag *d);
} LoopPass;

static const LoopPass passes[] = {
#define P_graph(name, level)
#define P_loop(name, level) {#name, level, pass_##name},
#define P(stage, name, level, help) P_##stage(name, level)
#include "../passes.def"
#undef P
#undef P_graph
#undef P_loop
};

static void dump(const Program *p, const char *pass) {
    Str s = {0};
    loop_print(&s, p);
    fprintf(stderr, "; after %s\n%s\n", pass, s.data ? s.data : "");
    str_free(&s);
}

bool passes_run_loop(Program *p, const PassOptions *o, Diag *d) {
    if (pass_dumped("lower", o)) dump(p, "lower");
    if (!loop_verify(p, d)) {
        diag_error(d, EXIT_INTERNAL, "lowering made an invalid program");
        return false;
    }
    if (o->check_program && !o->check_program(o->check_ctx, p, "lower", d)) return false;
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        const LoopPass *pass = &passes[i];
        if (!pass_selected(pass->name, pass->level, o)) continue;
        int errors = d->errors;
        double start = pass_clock();
        pass->fn(p, o, d);
        pass_report_time(pass->name, start, o);
        if (d->errors > errors) return false;
        if (!loop_verify(p, d)) {
            diag_error(d, EXIT_INTERNAL, "pass '%s' made an invalid program", pass->name);
            return false;
        }
        if (pass_dumped(pass->name, o)) dump(p, pass->name);
        if (o->check_program && !o->check_program(o->check_ctx, p, pass->name, d)) return false;
    }
    return true;
}
