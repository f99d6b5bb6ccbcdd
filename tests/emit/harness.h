// What generated programs check a compiled model with; harness.py writes the part that names the model. Needs no libc.
#ifndef HARNESS_H
#define HARNESS_H

#include <stddef.h>
#include <stdint.h>

// ---- from the platform: host.c, or start.c of tests/firmware ----
void say(const char *text);
void *own_memory(size_t bytes); // aligned to 64, for the rest of the program; what lies behind it is guarded

// ---- harness.c ----
enum { FILL = 0xa5 }; // every byte of own()
extern int spoil;     // not 0: expectations are changed, so that every comparison must fail
extern int show_bits; // not 0: a hash of every output is printed
extern int checks, failures;

void *own(size_t bytes);                        // own_memory, filled
void *own_copy(const void *from, size_t bytes); // a copy in own_memory
void check(int good, const char *model, const char *what, int line);
void check_status(int32_t status, int32_t expected, const char *model, const char *what, int line);
int untouched(const void *memory, size_t bytes); // every byte is FILL
// Largest difference at most 1e-5 of the largest magnitude expected.
int close_f32(const float *got, const float *want, size_t n);
int close_f64(const double *got, const double *want, size_t n);
int equal_bytes(const void *got, const void *want, size_t bytes);
void output_bits(const char *model, int set, const char *output, const void *bytes, size_t n);
int finish(void); // prints the counts; the program's exit status: 0 when all went well

#define CHECK(good, what) check(good, MODEL, what, __LINE__)
#define CHECK_STATUS(status, expected, what) check_status(status, expected, MODEL, what, __LINE__)

#endif
