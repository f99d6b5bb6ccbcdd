// Sets of names behind loop_fresh: one a kernel, one for main and the model's dimensions, one for the whole program. Private to loop*.c.
#ifndef MLC_LOOP_NAMES_H
#define MLC_LOOP_NAMES_H

#include "base.h"

// An open-addressing table of words; `next` remembers the number to try next for a word used as a base.
typedef struct {
    const char *word;
    int next;
} LoopName;

typedef struct LoopNames {
    const struct LoopNames *outer; // names of main that a kernel can see, or NULL
    LoopName *slot;
    int n, cap;
} LoopNames;

LoopNames *names_new(Arena *a, const LoopNames *outer);
bool names_has(const LoopNames *s, const char *word); // here or in an outer set
void names_add(Arena *a, LoopNames *s, const char *word);
// `base` itself when it is a free word, else base_2, base_3 … not in s and (also != NULL) not in also; the result is added to s.
const char *names_fresh(Arena *a, LoopNames *s, const LoopNames *also, const char *base);

#endif
