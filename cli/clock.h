// The clock of everything that is timed: monotonic, in milliseconds.
#ifndef MLC_CLOCK_H
#define MLC_CLOCK_H

#include <time.h>

static inline double clock_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

#endif
