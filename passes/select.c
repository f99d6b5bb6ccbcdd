// Pass selection by level and by name, and the table of passes; see select.h and passes.def.
#include "select.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

bool name_in_list(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *p = list; p && *p;) {
        size_t len = strcspn(p, ",");
        if (len == n && !memcmp(p, name, n)) return true;
        p += len + (p[len] == ',');
    }
    return false;
}

bool pass_selected(const char *name, int level, const PassOptions *o) {
    if (o->exact) return name_in_list(o->only, name);
    if (level < 0) return true;
    if (o->only) return name_in_list(o->only, name);
    return o->level >= level && !name_in_list(o->disabled, name);
}

bool pass_dumped(const char *name, const PassOptions *o) {
    return o->dump_after && (!strcmp(o->dump_after, "all") || name_in_list(o->dump_after, name));
}

double pass_clock(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void pass_report_time(const char *name, double start, const PassOptions *o) {
    if (o->time_passes) fprintf(stderr, "mlc: %-12s %8.3f ms\n", name, 1e3 * (pass_clock() - start));
}

static const PassInfo infos[] = {
#define P(stage, name, level, help) {#name, P_##stage, level, help},
#define P_graph STAGE_GRAPH
#define P_loop STAGE_LOOP
#include "passes.def"
#undef P
};

const PassInfo *pass_info(int i) {
    return i >= 0 && (size_t)i < sizeof infos / sizeof *infos ? &infos[i] : NULL;
}
