// Files that a command writes: all of them or none; temporary folders; the cache of compiled models.
#ifndef MLC_FILES_H
#define MLC_FILES_H

#include "../ir/base.h"

#include <stdio.h>

// A set of outputs. Each is written under a temporary name beside its place; outputs_commit renames all of them, or none when one of their
// places is taken by something else than a regular file (a folder, a device). Links are written through.
// outputs_discard (after a fault, or when nothing was committed) removes the temporary files.
typedef struct {
    const char *path, *temp;
} OutputFile;
typedef struct {
    Arena *arena;
    VEC(OutputFile) files;
} Outputs;
void outputs_sink(void *file, const void *data, size_t n); // for writers of pieces: file is of outputs_open
FILE *outputs_open(Outputs *o, const char *path, Diag *d); // NULL after diag_error
bool outputs_close(Outputs *o, FILE *f, Diag *d);          // of the last one opened; reports what failed on the way
bool outputs_write(Outputs *o, const char *path, const void *data, size_t n, Diag *d); // "-": standard output, at once
const char *outputs_temp(Outputs *o, const char *path);                                // the name to write for `path`, for other programs
bool outputs_commit(Outputs *o, Diag *d);
void outputs_discard(Outputs *o);

bool file_write(const char *path, const void *data, size_t n, Diag *d);
bool file_exists(const char *path);
bool file_same(const char *a, const char *b);      // both exist and are one file
bool dir_make(const char *path, Diag *d);          // with its parents; an existing one is fine
const char *dir_temp(Arena *a, Diag *d);           // a fresh folder under $TMPDIR; NULL after diag_error
void dir_remove(const char *path);                 // with the files in it
const char *path_stem(Arena *a, const char *path); // without folder and last suffix
const char *path_suffix(const char *path);         // ".c", or ""
const char *path_with_suffix(Arena *a, const char *path, const char *suffix);

// Names of the folder's entries in order, "." and ".." left out; -1 when it cannot be read.
int dir_list(Arena *a, const char *path, const char *const **names);

// ---- the cache: $XDG_CACHE_HOME/mlc, mode 0700, entries named KEY.so ----
enum { CACHE_LIMIT_MB = 2048 };
const char *cache_dir(Arena *a, Diag *d); // made if needed; NULL after diag_error
// Removes the least recently used entries until the rest takes at most CACHE_LIMIT_MB.
void cache_trim(Arena *a, const char *dir);

// Runs a program without a shell, its output and errors collected into `text` (may be NULL). The exit status, or -1 when it could not be
// started.
int run_program(const char *const *argv, Str *text);

#endif
