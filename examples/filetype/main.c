// What kind of file is it? Magika's model, compiled to magika.c, on the files named on the command line.
//
// The model sees the first and the last 1024 bytes after white space at the file's ends is taken off; where the file is shorter, 256 stands
// for "no byte". labels.h holds the names of its 214 outputs, made by build.sh from the package's configuration.
#include "magika.h"

#include "labels.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { BLOCK = 4096, PART = 1024, PADDING = 256 };
enum { NLABELS = sizeof labels / sizeof *labels };

MAGIKA_ARENA(arena);

// Reads up to BLOCK bytes from the file's start and end; false when it cannot be read.
static int read_ends(const char *path, unsigned char *first, unsigned char *last, size_t *n) {
    FILE *f = fopen(path, "rb");
    if (!f) return 0;
    *n = fread(first, 1, BLOCK, f);
    fseek(f, 0, SEEK_END);
    fseek(f, -(long)*n, SEEK_END);
    size_t m = fread(last, 1, *n, f);
    fclose(f);
    return m == *n;
}

static void features(const unsigned char *first, const unsigned char *last, size_t n, int32_t x[2 * PART]) {
    size_t skip = 0, end = n;
    while (skip < n && isspace(first[skip])) skip++;
    while (end > 0 && isspace(last[end - 1])) end--;
    for (size_t i = 0; i < PART; i++) {
        x[i] = skip + i < n ? first[skip + i] : PADDING;
        x[2 * PART - 1 - i] = i < end ? last[end - 1 - i] : PADDING;
    }
}

int main(int argc, char **argv) {
    for (int k = 1; k < argc; k++) {
        static unsigned char first[BLOCK], last[BLOCK];
        static int32_t x[2 * PART];
        static float scores[NLABELS];
        size_t n;
        if (!read_ends(argv[k], first, last, &n)) {
            fprintf(stderr, "cannot read %s\n", argv[k]);
            return 1;
        }
        features(first, last, n, x);
        magika_inputs in = {0};
        magika_outputs out = {0};
        in.bytes = x;
        out.target_label = scores;
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        int32_t status = magika_run(&in, &out, arena);
        clock_gettime(CLOCK_MONOTONIC, &b);
        if (status) {
            fprintf(stderr, "%s: %s\n", argv[k], magika_strerror(status));
            return 1;
        }
        int best = 0;
        for (int i = 1; i < NLABELS; i++)
            if (scores[i] > scores[best]) best = i;
        double ms = (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6;
        const char *name = strrchr(argv[k], '/');
        printf("%-16s %-12s %5.1f %%  %6.2f ms\n", name ? name + 1 : argv[k], labels[best], 100 * (double)scores[best], ms);
    }
    return 0;
}
