// Memory, growing arrays, text, hashing and diagnostics: what every module of mlc stands on.
//
// All memory of a representation lives in an Arena and is freed whole. malloc is called in base.c only.
#ifndef MLC_BASE_H
#define MLC_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Exit codes of the command line (design.md section 2).
typedef enum {
    EXIT_OK = 0,
    EXIT_MODEL = 1,
    EXIT_USAGE = 2,
    EXIT_UNSUPPORTED = 3,
    EXIT_DIFFERS = 4,
    EXIT_LIMIT = 5,
    EXIT_IO = 6,
    EXIT_INTERNAL = 70
} ExitCode;

// ---- memory ----
typedef struct Arena Arena;
Arena *arena_new(void);
void arena_free(Arena *a);                // NULL is allowed
void arena_adopt(Arena *a, Arena *child); // child is freed with a, once
// Zeroed memory aligned to 16 bytes (64 when n >= 4096); never NULL: exhaustion ends in the handler of mem_set_oom_handler.
void *arena_alloc(Arena *a, size_t n);
void *arena_copy(Arena *a, const void *data, size_t n);
char *arena_strdup(Arena *a, const char *s);
char *arena_strndup(Arena *a, const char *s, size_t n);
char *arena_printf(Arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
size_t arena_bytes(const Arena *a); // bytes handed out so far

#define ARENA_NEW(a, T) ((T *)arena_alloc((a), sizeof(T)))
#define ARENA_ARRAY(a, T, n) ((T *)arena_alloc((a), sizeof(T) * (size_t)(n)))

// Every allocation passes here; n == 0 frees. Tests make the k-th one fail through mem_fail_at (0: never).
void *mem_realloc(void *p, size_t n);
void mem_fail_at(long k);
void mem_set_oom_handler(void (*handler)(void)); // must not return

// ---- growing arrays, in an arena ----
#define VEC(T)                                                                                                                             \
    struct {                                                                                                                               \
        T *data;                                                                                                                           \
        int n, cap;                                                                                                                        \
    }
// vec_push(arena, &v, x): amortised append; the old storage stays in the arena.
#define vec_push(a, v, x) (vec_grow_((a), (void **)&(v)->data, (v)->n, &(v)->cap, sizeof *(v)->data), (v)->data[(v)->n++] = (x))
void vec_grow_(Arena *a, void **data, int n, int *cap, size_t elem);

// ---- text ----
typedef struct {
    char *data; // NUL-terminated once anything was added; NULL before
    size_t n, cap;
} Str;
void str_add(Str *s, const char *text);
void str_addn(Str *s, const char *text, size_t n);
void str_printf(Str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void str_vprintf(Str *s, const char *fmt, va_list ap);
void str_indent(Str *s, int depth); // two spaces a level
void str_free(Str *s);
// The shortest decimal text that reads back to the same value; "nan", "inf", "-inf"; always with '.', 'e' or a word.
void str_add_f64(Str *s, double v);
void str_add_f32(Str *s, float v);

// ---- hashing (FNV-1a, 64 bits): stable across runs and machines ----
uint64_t hash_bytes(uint64_t seed, const void *data, size_t n);
#define HASH_SEED 0xcbf29ce484222325ull

// ---- diagnostics ----
// Collects faults; all of them are shown, in order. A message is lower case, without final period, with found and expected.
typedef struct {
    const char *file; // shown before each message; may be NULL
    int errors;       // number of errors so far
    ExitCode code;    // of the first error
    Str text;         // "mlc: error: FILE: MESSAGE\n" lines
} Diag;
void diag_error(Diag *d, ExitCode code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void diag_warning(Diag *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void diag_free(Diag *d);
void diag_move(Diag *to, Diag *from); // appends from's messages and frees it

// ---- work side by side ----
// fn of each of n items of `size` bytes, a thread each but for the first, and for those that no thread was to be had for: the caller's does
// these. Returns when all are done. What the items share is the caller's business: arenas and Dims may not be.
void each_side_by_side(void *items, int n, size_t size, void (*fn)(void *item));

// ---- files ----
// The whole file, mapped read-only; NULL and a message on failure. file_unmap releases it.
const void *file_map(const char *path, size_t *size, Diag *d);
// Gives the memory that reading the mapping took back to the system; it stays readable.
void file_forget(const void *data, size_t size);
void file_unmap(const void *data, size_t size);

#endif
