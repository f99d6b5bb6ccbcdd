// See files.h. A temporary name is PATH.tmp-PID, so that two processes never meet and a rename stays within one file system.
#define _GNU_SOURCE // pipe2
#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// Writes `path`; messages call it `name`.
static bool write_named(const char *path, const char *name, const void *data, size_t n, Diag *d) {
    FILE *f = fopen(path, "wb");
    int fault = f ? 0 : errno;
    if (f && n && fwrite(data, 1, n, f) != n) fault = errno;
    if (f && fclose(f) && !fault) fault = errno;
    if (fault) diag_error(d, EXIT_IO, "cannot write %s: %s", name, strerror(fault));
    return !fault;
}

bool file_write(const char *path, const void *data, size_t n, Diag *d) {
    return write_named(path, path, data, n, d);
}

bool file_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

bool file_same(const char *a, const char *b) {
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

// A link is written through: the file it points to is replaced, not the link.
static const char *behind_links(Arena *a, const char *path) {
    char *real = realpath(path, NULL);
    const char *target = real ? arena_strdup(a, real) : path;
    free(real);
    return target;
}

const char *outputs_temp(Outputs *o, const char *path) {
    const char *target = behind_links(o->arena, path);
    OutputFile f = {arena_strdup(o->arena, target), arena_printf(o->arena, "%s.tmp-%ld-%d", target, (long)getpid(), o->files.n)};
    vec_push(o->arena, &o->files, f);
    return f.temp;
}

bool outputs_write(Outputs *o, const char *path, const void *data, size_t n, Diag *d) {
    if (!strcmp(path, "-")) {
        if (n == 0 || fwrite(data, 1, n, stdout) == n) return true;
        diag_error(d, EXIT_IO, "cannot write to standard output");
        return false;
    }
    return write_named(outputs_temp(o, path), path, data, n, d);
}

FILE *outputs_open(Outputs *o, const char *path, Diag *d) {
    FILE *f = fopen(outputs_temp(o, path), "wb");
    if (!f) diag_error(d, EXIT_IO, "cannot write %s: %s", path, strerror(errno));
    return f;
}

void outputs_sink(void *file, const void *data, size_t n) {
    if (n) fwrite(data, 1, n, file); // a fault stays in the stream until outputs_close
}

bool outputs_close(Outputs *o, FILE *f, Diag *d) {
    bool failed = fflush(f) || ferror(f);
    failed |= fclose(f) != 0;
    if (failed) diag_error(d, EXIT_IO, "cannot write %s: %s", o->files.data[o->files.n - 1].path, strerror(errno));
    return !failed;
}

// What renaming could not do, or should not: replace a folder or a device, and one output by another.
static bool replaceable(const Outputs *o, int i, Diag *d) {
    const char *path = o->files.data[i].path;
    struct stat st;
    if (!stat(path, &st) && !S_ISREG(st.st_mode)) {
        diag_error(d, EXIT_IO, "cannot write %s: it is there already and not a regular file", path);
        return false;
    }
    for (int k = 0; k < i; k++) {
        if (strcmp(o->files.data[k].path, path)) continue;
        diag_error(d, EXIT_USAGE, "two of the outputs are called %s", path);
        return false;
    }
    return true;
}

bool outputs_commit(Outputs *o, Diag *d) {
    bool ok = true;
    for (int i = 0; i < o->files.n; i++) ok &= replaceable(o, i, d);
    if (!ok) return false;
    for (int i = 0; i < o->files.n; i++) {
        if (!rename(o->files.data[i].temp, o->files.data[i].path)) continue;
        diag_error(d, EXIT_IO, "cannot write %s: %s", o->files.data[i].path, strerror(errno));
        ok = false;
    }
    if (ok) o->files.n = 0;
    return ok;
}

void outputs_discard(Outputs *o) {
    for (int i = 0; i < o->files.n; i++) remove(o->files.data[i].temp);
    o->files.n = 0;
}

static bool dir_make_mode(const char *path, mode_t mode, Diag *d) {
    char buf[4096];
    size_t n = strlen(path);
    if (n >= sizeof buf) {
        diag_error(d, EXIT_IO, "cannot make the folder %.64s…: the name is too long", path);
        return false;
    }
    memcpy(buf, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (buf[i] != '/' && buf[i]) continue;
        char kept = buf[i];
        buf[i] = 0;
        struct stat st;
        if (mkdir(buf, mode) && !(errno == EEXIST && !stat(buf, &st) && S_ISDIR(st.st_mode))) {
            diag_error(d, EXIT_IO, "cannot make the folder %s: %s", buf, strerror(errno));
            return false;
        }
        buf[i] = kept;
    }
    return true;
}

bool dir_make(const char *path, Diag *d) {
    return dir_make_mode(path, 0777, d);
}

const char *dir_temp(Arena *a, Diag *d) {
    const char *root = getenv("TMPDIR");
    char *path = arena_printf(a, "%s/mlc-XXXXXX", root && *root ? root : "/tmp");
    if (mkdtemp(path)) return path;
    diag_error(d, EXIT_IO, "cannot make a temporary folder %s: %s", path, strerror(errno));
    return NULL;
}

static int by_name(const void *x, const void *y) {
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

int dir_list(Arena *a, const char *path, const char *const **names) {
    DIR *dir = opendir(path);
    if (!dir) return -1;
    VEC(const char *) list = {0};
    for (struct dirent *e; (e = readdir(dir));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) vec_push(a, &list, arena_strdup(a, e->d_name));
    closedir(dir);
    if (list.n) qsort(list.data, (size_t)list.n, sizeof *list.data, by_name);
    *names = list.data;
    return list.n;
}

void dir_remove(const char *path) {
    Arena *a = arena_new();
    const char *const *names;
    int n = dir_list(a, path, &names);
    for (int i = 0; i < n; i++) unlink(arena_printf(a, "%s/%s", path, names[i]));
    rmdir(path);
    arena_free(a);
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *path_suffix(const char *path) {
    const char *base = base_name(path), *dot = strrchr(base, '.');
    return dot && dot != base ? dot : "";
}

const char *path_stem(Arena *a, const char *path) {
    const char *base = base_name(path);
    return arena_strndup(a, base, strlen(base) - strlen(path_suffix(path)));
}

const char *path_with_suffix(Arena *a, const char *path, const char *suffix) {
    return arena_printf(a, "%.*s%s", (int)(strlen(path) - strlen(path_suffix(path))), path, suffix);
}

// ---- the cache ----
const char *cache_dir(Arena *a, Diag *d) {
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (!(xdg && *xdg) && !(home && *home)) {
        diag_error(d, EXIT_IO, "neither XDG_CACHE_HOME nor HOME is set: there is no place for the cache (--no-cache does without)");
        return NULL;
    }
    const char *dir = xdg && *xdg ? arena_printf(a, "%s/mlc", xdg) : arena_printf(a, "%s/.cache/mlc", home);
    return dir_make_mode(dir, 0700, d) ? dir : NULL;
}

typedef struct {
    const char *path;
    long long size;
    struct timespec used;
} CacheEntry;

static int newest_first(const void *x, const void *y) {
    const struct timespec *p = &((const CacheEntry *)x)->used, *q = &((const CacheEntry *)y)->used;
    if (p->tv_sec != q->tv_sec) return p->tv_sec < q->tv_sec ? 1 : -1;
    return p->tv_nsec < q->tv_nsec ? 1 : p->tv_nsec > q->tv_nsec ? -1 : 0;
}

void cache_trim(Arena *a, const char *dir) {
    const char *const *names;
    int n = dir_list(a, dir, &names), kept = 0;
    CacheEntry *entries = ARENA_ARRAY(a, CacheEntry, n > 0 ? n : 1);
    for (int i = 0; i < n; i++) {
        struct stat st;
        const char *path = arena_printf(a, "%s/%s", dir, names[i]);
        if (!stat(path, &st)) entries[kept++] = (CacheEntry){path, (long long)st.st_size, st.st_mtim};
    }
    qsort(entries, (size_t)kept, sizeof *entries, newest_first);
    long long sum = 0;
    for (int i = 0; i < kept; i++)
        if ((sum += entries[i].size) > CACHE_LIMIT_MB * 1048576LL) unlink(entries[i].path);
}

// ---- other programs ----
static void collect(int fd, Str *text) {
    char buf[4096];
    for (ssize_t n; (n = read(fd, buf, sizeof buf)) != 0;) {
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) break;
        if (text) str_addn(text, buf, (size_t)n);
    }
    close(fd);
}

int run_program(const char *const *argv, Str *text) {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC)) return -1; // programs started at the same time must not hold it open
    pid_t pid = fork();
    if (pid < 0) {
        close(fds[0]);
        close(fds[1]);
        return -1;
    }
    if (pid == 0) {
        dup2(fds[1], 1);
        dup2(fds[1], 2);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    close(fds[1]);
    collect(fds[0], text);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) != 127 ? WEXITSTATUS(status) : -1;
}
