// The commands that print tables: ops, targets, passes, cache.
#include "files.h"
#include "options.h"
#include "../frontend/frontend.h"
#include "../ir/target.h"
#include "../passes/passes.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

ExitCode cmd_ops(const Options *o, Diag *d) {
    (void)o, (void)d;
    for (int i = 0; frontend_operator(i); i++) {
        const OperatorRow *r = frontend_operator(i);
        printf("%s%s%s opset %d", r->domain, r->domain[0] ? "." : "", r->name, r->since);
        printf(r->until ? "..%d\n" : "..\n", r->until);
    }
    return EXIT_OK;
}

ExitCode cmd_targets(const Options *o, Diag *d) {
    (void)o, (void)d;
    for (int i = 0; target_row(i); i++) printf("%-16s %s\n", target_row(i)->name, target_row(i)->help);
    return EXIT_OK;
}

ExitCode cmd_passes(const Options *o, Diag *d) {
    (void)o, (void)d;
    static const char *const stages[] = {"graph", "lower", "loop"};
    for (int i = 0; pass_info(i); i++) {
        const PassInfo *p = pass_info(i);
        if (p->level < 0)
            printf("%-5s %-14s always %s\n", stages[p->stage], p->name, p->help);
        else
            printf("%-5s %-14s -O%d    %s\n", stages[p->stage], p->name, p->level, p->help);
    }
    return EXIT_OK;
}

ExitCode cmd_cache(const Options *o, Diag *d) {
    const char *dir = cache_dir(o->arena, d);
    if (!dir) return d->code;
    const char *const *names;
    int n = dir_list(o->arena, dir, &names);
    bool clear = options_has(o, OPT_clear);
    long long sum = 0;
    for (int i = 0; i < n; i++) {
        struct stat st;
        const char *path = arena_printf(o->arena, "%s/%s", dir, names[i]);
        if (stat(path, &st)) continue;
        sum += (long long)st.st_size;
        if (!clear)
            printf("%10lld %s\n", (long long)st.st_size, names[i]);
        else if (unlink(path))
            diag_error(d, EXIT_IO, "cannot remove %s", path);
    }
    printf("%s: %d entries, %lld bytes%s\n", dir, n < 0 ? 0 : n, sum, clear ? " removed" : "");
    return d->errors ? d->code : EXIT_OK;
}
