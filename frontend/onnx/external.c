// External data: which files a model may name, and their mapping.
//
// A location is relative to the model's folder. It is refused when it is absolute or climbs with ".."; and again when, with symbolic links
// followed, it ends outside both folders the model has: the one of the path the user gave and the one where the model file really lies. The
// second makes the caches of Hugging Face work, where model.onnx and model.onnx_data are links from snapshots/REV into blobs/.
#define _XOPEN_SOURCE 700
#include "read.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef char Path[PATH_MAX];

static bool lexically_inside(const char *location) {
    if (location[0] == 0 || location[0] == '/') return false;
    for (const char *p = location; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.') return false;
        p += n;
        p += *p == '/';
    }
    return true;
}

// Cuts the last component off: "a/b" is "a", "b" is ".", "/b" is "/".
static void folder_of(char *path) {
    char *slash = strrchr(path, '/');
    if (!slash)
        strcpy(path, ".");
    else
        slash[slash == path] = 0;
}

static bool inside(const char *file, const char *folder) {
    size_t n = strlen(folder);
    return strcmp(folder, "/") == 0 || (strncmp(file, folder, n) == 0 && file[n] == '/');
}

// The model's two folders, links followed: dirs[0] of the given path, dirs[1] of the real file.
static bool model_folders(const Model *m, Path *dirs) {
    Path tmp;
    if (strlen(m->path) >= PATH_MAX) return false;
    strcpy(tmp, m->path);
    folder_of(tmp);
    if (!realpath(tmp, dirs[0]) || !realpath(m->path, dirs[1])) return false;
    folder_of(dirs[1]);
    return true;
}

// Finds the file in one of the folders; NULL and `file` resolved, or what is wrong.
static const char *locate(Arena *a, const char *location, Path *dirs, char *file) {
    for (int i = 0; i < 2; i++) {
        Path path;
        size_t n = strlen(dirs[i]);
        if (n + 1 + strlen(location) >= PATH_MAX) return "the path of its external data is too long";
        memcpy(path, dirs[i], n);
        path[n] = '/';
        strcpy(path + n + 1, location);
        if (!realpath(path, file)) continue;
        if (inside(file, dirs[0]) || inside(file, dirs[1])) return NULL;
        return arena_printf(a, "its external data '%s' leads outside of the model's folder through a symbolic link", location);
    }
    return arena_printf(a, "its external data '%s' is not in the model's folder", location);
}

const char *external_map(Model *m, Arena *a, const char *location, const External **out) {
    for (External *e = m->externals; e; e = e->next)
        if (strcmp(e->location, location) == 0) return *out = e, NULL;
    if (strlen(location) >= PATH_MAX) return "the path of its external data is too long";
    if (!lexically_inside(location)) return arena_printf(a, "its external data '%s' must be a path inside the model's folder", location);
    Path dirs[2], file;
    if (!model_folders(m, dirs)) return "the model's folder cannot be resolved";
    const char *fault = locate(a, location, dirs, file);
    if (fault) return fault;
    struct stat st;
    if (stat(file, &st) != 0 || !S_ISREG(st.st_mode)) return arena_printf(a, "its external data '%s' is not a regular file", location);
    External *e = ARENA_NEW(m->arena, External);
    e->location = arena_strdup(m->arena, location);
    e->path = arena_strdup(m->arena, file);
    Diag d = {0};
    e->data = file_map(file, &e->size, &d);
    diag_free(&d);
    if (!e->data) return arena_printf(a, "its external data '%s' cannot be read", location);
    e->next = m->externals;
    m->externals = e;
    *out = e;
    return NULL;
}

void external_unmap_all(Model *m) {
    for (External *e = m->externals; e; e = e->next) file_unmap(e->data, e->size);
    m->externals = NULL;
}

void external_forget_all(const Model *m) {
    for (const External *e = m->externals; e; e = e->next) file_forget(e->data, e->size);
}

const char *frontend_file(const Model *m, int i) {
    const External *e = m->externals;
    if (i == 0) return m->path;
    while (e && --i > 0) e = e->next;
    return e ? e->path : NULL;
}
