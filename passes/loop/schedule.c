// schedule: applies each kernel's schedule text (Kernel.schedule) and clears it.
#include "loop_passes.h"

bool pass_schedule(Program *p, const PassOptions *o, Diag *d) {
    (void)o;
    bool changed = false;
    for (int i = 0; i < p->kernels.n; i++) {
        Kernel *k = p->kernels.data[i];
        if (!k->schedule) continue;
        if (!schedule_apply(p, k, k->schedule, d)) return changed;
        k->schedule = NULL;
        changed = true;
    }
    return changed;
}
