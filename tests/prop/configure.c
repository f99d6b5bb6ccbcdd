// How the compiler is called for a case: any target's passes, mostly at -O2, sometimes without one or two of them.
#include "prop.h"

Config prop_configure(Gen *g, Arena *a) {
    static const char *const likely[] = {"host", "generic", "x86-64-v2", "x86-64-v3"};
    static const int levels[] = {2, 2, 2, 2, 2, 3, 1, 0, LEVEL_SIZE};
    int rows = 0, passes = 0;
    while (target_row(rows)) rows++;
    while (pass_info(passes)) passes++;
    Config c = {.level = levels[gen_int(g, 0, 8)]};
    do c.target = gen_chance(g, 75) ? target_find(likely[gen_int(g, 0, 3)]) : target_row(gen_int(g, 0, rows - 1));
    while (c.target->levels);
    for (int left_out = gen_chance(g, 35) ? gen_int(g, 1, 2) : 0; left_out > 0;) {
        const PassInfo *p = pass_info(gen_int(g, 0, passes - 1));
        if (p->level < 0) continue;
        c.disabled = c.disabled ? arena_printf(a, "%s,%s", c.disabled, p->name) : p->name;
        left_out--;
    }
    return c;
}

const char *prop_config_text(const Case *c, Arena *a) {
    return arena_printf(a, "; N = %lld, --target=%s -O%d%s%s\n", (long long)c->n, c->config.target->name, c->config.level,
        c->config.disabled ? " --disable-pass=" : "", c->config.disabled ? c->config.disabled : "");
}
