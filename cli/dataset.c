// See dataset.h.
#include "dataset.h"
#include "files.h"
#include "../frontend/frontend.h"

#include <stdlib.h>
#include <string.h>

static int set_number(const char *name) {
    static const char prefix[] = "test_data_set_";
    return strncmp(name, prefix, sizeof prefix - 1) ? -1 : atoi(name + sizeof prefix - 1);
}

int dataset_folders(const char *dir, Arena *a, const char *const **folders, Diag *d) {
    const char *const *names;
    int n = dir_list(a, dir, &names), count = 0;
    const char **found = ARENA_ARRAY(a, const char *, n > 0 ? n + 1 : 1);
    *folders = found;
    if (file_exists(arena_printf(a, "%s/output_0.pb", dir))) {
        found[0] = dir;
        return 1;
    }
    // In numerical order: set 2 before set 10.
    for (int want = 0, left = n; left > 0 && want < 100000; want++, left = count < n ? left : 0) {
        int before = count;
        for (int i = 0; i < n; i++)
            if (set_number(names[i]) == want) found[count++] = arena_printf(a, "%s/%s", dir, names[i]);
        if (count == before) break;
    }
    if (!count) diag_error(d, EXIT_IO, "%s: neither output_0.pb nor test_data_set_0 is in this folder", dir);
    return count;
}

static bool read_all(const char *folder, const char *kind, Arena *a, Tensor **tensors, int *count, Diag *d) {
    int n = 0;
    while (file_exists(arena_printf(a, "%s/%s_%d.pb", folder, kind, n))) n++;
    *tensors = ARENA_ARRAY(a, Tensor, n + 1);
    *count = n;
    bool ok = true;
    for (int i = 0; i < n; i++) ok &= frontend_read_tensor(arena_printf(a, "%s/%s_%d.pb", folder, kind, i), a, &(*tensors)[i], d);
    return ok;
}

bool dataset_read(const char *folder, Arena *a, DataSet *s, Diag *d) {
    s->path = folder;
    return read_all(folder, "input", a, &s->in, &s->nin, d) && read_all(folder, "output", a, &s->out, &s->nout, d);
}
