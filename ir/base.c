// The only file that calls malloc: arenas, growing arrays, text, hashing, diagnostics, threads and mapped files.
//
// An arena is a list of zeroed chunks; small requests are cut from the newest one, large ones get a chunk of their own behind it,
// so that the room left in the newest chunk is not lost. Chunks double from 16 KiB to 1 MiB.
#define _POSIX_C_SOURCE 200809L
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK_MIN = 16 << 10, CHUNK_MAX = 1 << 20, ALIGN_SMALL = 16, ALIGN_LARGE = 64, LARGE = 4096 };

// ---- memory ----

static void oom_exit(void) {
    fputs("mlc: error: out of memory\n", stderr);
    exit(EXIT_LIMIT);
}

static void (*oom_handler)(void) = oom_exit;
static long fail_countdown; // 0: never

void mem_set_oom_handler(void (*handler)(void)) {
    oom_handler = handler ? handler : oom_exit;
}

void mem_fail_at(long k) {
    fail_countdown = k;
}

static void out_of_memory(void) {
    oom_handler();
    abort(); // a handler that returns breaks its contract
}

static bool forced_failure(void) {
    return fail_countdown > 0 && --fail_countdown == 0;
}

void *mem_realloc(void *p, size_t n) {
    if (n == 0) {
        free(p);
        return NULL;
    }
    void *q = forced_failure() ? NULL : realloc(p, n);
    if (!q) out_of_memory();
    return q;
}

// Zeroed by the system where it can, so that large untouched blocks stay out of memory.
static void *mem_zeroed(size_t n) {
    void *p = forced_failure() ? NULL : calloc(1, n);
    if (!p) out_of_memory();
    return p;
}

typedef struct Chunk {
    struct Chunk *next;
    size_t size, used; // of the bytes after the header
} Chunk;

struct Arena {
    Chunk *head; // the one that small requests are cut from
    size_t chunk_size, bytes;
    Arena *adopted, *next; // freed with this one
};

Arena *arena_new(void) {
    Arena *a = mem_zeroed(sizeof *a);
    a->chunk_size = CHUNK_MIN;
    return a;
}

void arena_adopt(Arena *a, Arena *child) {
    child->next = a->adopted;
    a->adopted = child;
}

void arena_free(Arena *a) {
    if (!a) return;
    for (Arena *c = a->adopted, *next; c; c = next) {
        next = c->next;
        arena_free(c);
    }
    for (Chunk *c = a->head, *next; c; c = next) {
        next = c->next;
        mem_realloc(c, 0);
    }
    mem_realloc(a, 0);
}

// The next n bytes of c at the alignment, or NULL when they do not fit.
static void *chunk_cut(Chunk *c, size_t n, size_t align) {
    uintptr_t base = (uintptr_t)(c + 1);
    uintptr_t at = (base + c->used + align - 1) & ~(uintptr_t)(align - 1);
    size_t start = (size_t)(at - base);
    if (start > c->size || n > c->size - start) return NULL;
    c->used = start + n;
    return (char *)(c + 1) + start;
}

static Chunk *chunk_new(size_t size) {
    Chunk *c = mem_zeroed(sizeof *c + size);
    c->size = size;
    return c;
}

void *arena_alloc(Arena *a, size_t n) {
    size_t align = n >= LARGE ? ALIGN_LARGE : ALIGN_SMALL;
    a->bytes += n;
    void *p = a->head ? chunk_cut(a->head, n, align) : NULL;
    if (p) return p;
    if (n > SIZE_MAX / 2) out_of_memory();
    if (a->head && n >= a->chunk_size / 4) {
        Chunk *c = chunk_new(n + align);
        c->next = a->head->next;
        a->head->next = c;
        return chunk_cut(c, n, align);
    }
    Chunk *c = chunk_new(n + align > a->chunk_size ? n + align : a->chunk_size);
    c->next = a->head;
    a->head = c;
    if (a->chunk_size < CHUNK_MAX) a->chunk_size *= 2;
    return chunk_cut(c, n, align);
}

void *arena_copy(Arena *a, const void *data, size_t n) {
    void *p = arena_alloc(a, n);
    if (n) memcpy(p, data, n);
    return p;
}

char *arena_strdup(Arena *a, const char *s) {
    return arena_copy(a, s, strlen(s) + 1);
}

char *arena_strndup(Arena *a, const char *s, size_t n) {
    char *p = arena_alloc(a, n + 1); // zeroed: terminated
    if (n) memcpy(p, s, n);
    return p;
}

char *arena_printf(Arena *a, const char *fmt, ...) {
    Str s = {0};
    va_list ap;
    va_start(ap, fmt);
    str_vprintf(&s, fmt, ap);
    va_end(ap);
    char *p = arena_strndup(a, s.data ? s.data : "", s.n);
    str_free(&s);
    return p;
}

size_t arena_bytes(const Arena *a) {
    return a->bytes;
}

void vec_grow_(Arena *a, void **data, int n, int *cap, size_t elem) {
    if (n < *cap) return;
    if (*cap > INT_MAX / 2) out_of_memory();
    int wanted = *cap ? *cap * 2 : 8;
    void *p = arena_alloc(a, (size_t)wanted * elem);
    if (n) memcpy(p, *data, (size_t)n * elem);
    *data = p;
    *cap = wanted;
}

// ---- text ----

static void str_reserve(Str *s, size_t more) {
    if (more >= SIZE_MAX / 2 - s->n) out_of_memory();
    size_t need = s->n + more + 1;
    if (need <= s->cap) return;
    size_t cap = s->cap ? s->cap : 64;
    while (cap < need) cap *= 2;
    s->data = mem_realloc(s->data, cap);
    s->cap = cap;
}

void str_addn(Str *s, const char *text, size_t n) {
    str_reserve(s, n);
    if (n) memcpy(s->data + s->n, text, n);
    s->n += n;
    s->data[s->n] = '\0';
}

void str_add(Str *s, const char *text) {
    str_addn(s, text, strlen(text));
}

void str_vprintf(Str *s, const char *fmt, va_list ap) {
    va_list again;
    if (!fmt) return;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n >= 0) {
        str_reserve(s, (size_t)n);
        vsnprintf(s->data + s->n, (size_t)n + 1, fmt, again);
        s->n += (size_t)n;
    }
    va_end(again);
}

void str_printf(Str *s, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    str_vprintf(s, fmt, ap);
    va_end(ap);
}

void str_indent(Str *s, int depth) {
    while (depth-- > 0) str_addn(s, "  ", 2);
}

void str_free(Str *s) {
    mem_realloc(s->data, 0);
    *s = (Str){0};
}

static bool reads_back(const char *text, double v, bool single) {
    return single ? (double)strtof(text, NULL) == v : strtod(text, NULL) == v;
}

// Bisects the number of digits; the upper end (17 for double, 9 for float) always reads back.
static void add_float(Str *s, double v, bool single) {
    if (isnan(v)) {
        str_add(s, "nan");
        return;
    }
    if (isinf(v)) {
        str_add(s, v < 0 ? "-inf" : "inf");
        return;
    }
    char text[320]; // more than %g ever writes
    int lo = 1, hi = single ? 9 : 17;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        snprintf(text, sizeof text, "%.*g", mid, v);
        if (reads_back(text, v, single))
            hi = mid;
        else
            lo = mid + 1;
    }
    snprintf(text, sizeof text, "%.*g", hi, v);
    str_add(s, text);
    if (!strpbrk(text, ".e")) str_add(s, ".0");
}

void str_add_f64(Str *s, double v) {
    add_float(s, v, false);
}

void str_add_f32(Str *s, float v) {
    add_float(s, (double)v, true);
}

// ---- hashing ----

uint64_t hash_bytes(uint64_t seed, const void *data, size_t n) {
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++) seed = (seed ^ p[i]) * 0x100000001b3ull;
    return seed;
}

// ---- diagnostics ----

// Names in messages come from models: control characters must not reach a terminal.
static void neutralise(char *text, size_t n) {
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f) text[i] = '?';
}

static void diag_line(Diag *d, const char *kind, const char *fmt, va_list ap) {
    str_printf(&d->text, "mlc: %s: ", kind);
    size_t start = d->text.n;
    if (d->file) str_printf(&d->text, "%s: ", d->file);
    str_vprintf(&d->text, fmt, ap);
    neutralise(d->text.data + start, d->text.n - start);
    str_add(&d->text, "\n");
}

void diag_error(Diag *d, ExitCode code, const char *fmt, ...) {
    if (d->errors++ == 0) d->code = code;
    va_list ap;
    va_start(ap, fmt);
    diag_line(d, "error", fmt, ap);
    va_end(ap);
}

void diag_warning(Diag *d, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    diag_line(d, "warning", fmt, ap);
    va_end(ap);
}

void diag_free(Diag *d) {
    str_free(&d->text);
}

void diag_move(Diag *to, Diag *from) {
    if (from->text.n) str_addn(&to->text, from->text.data, from->text.n);
    if (to->errors == 0) to->code = from->code;
    to->errors += from->errors;
    diag_free(from);
}

// ---- files ----

static const char empty_file[1];

const void *file_map(const char *path, size_t *size, Diag *d) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    const void *data = NULL;
    if (fd < 0 || fstat(fd, &st) != 0) {
        diag_error(d, EXIT_IO, "cannot open '%s': %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        diag_error(d, EXIT_IO, "cannot read '%s': not a regular file", path);
    } else if (st.st_size == 0) {
        *size = 0;
        data = empty_file;
    } else {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            diag_error(d, EXIT_IO, "cannot map '%s': %s", path, strerror(errno));
        } else {
            *size = (size_t)st.st_size;
            data = p;
        }
    }
    if (fd >= 0) close(fd);
    return data;
}

void file_forget(const void *data, size_t size) {
    if (data != empty_file) madvise((void *)(uintptr_t)data, size, MADV_DONTNEED);
}

void file_unmap(const void *data, size_t size) {
    if (data && data != empty_file) munmap((void *)(uintptr_t)data, size);
}

// ---- work side by side ----
typedef struct {
    void (*fn)(void *item);
    void *item;
    pthread_t thread;
    bool running;
} Work;

static void *work_thread(void *arg) {
    Work *w = arg;
    w->fn(w->item);
    return NULL;
}

void each_side_by_side(void *items, int n, size_t size, void (*fn)(void *item)) {
    Work *work = mem_realloc(NULL, (size_t)(n + 1) * sizeof *work);
    for (int i = 0; i < n; i++) {
        work[i] = (Work){.fn = fn, .item = (char *)items + (size_t)i * size};
        work[i].running = i > 0 && pthread_create(&work[i].thread, NULL, work_thread, &work[i]) == 0;
    }
    for (int i = 0; i < n; i++)
        if (!work[i].running) fn(work[i].item);
    for (int i = 0; i < n; i++)
        if (work[i].running) pthread_join(work[i].thread, NULL);
    mem_realloc(work, 0);
}
