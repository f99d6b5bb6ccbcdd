// Unique names of a function: words are made valid first (non-word characters become _), then numbered until they are free.
#include "loop_names.h"

#include <ctype.h>
#include <string.h>

#include "loop.h"

LoopNames *names_new(Arena *a, const LoopNames *outer) {
    LoopNames *s = ARENA_NEW(a, LoopNames);
    s->outer = outer;
    s->cap = 16;
    s->slot = ARENA_ARRAY(a, LoopName, s->cap);
    return s;
}

// The slot that holds word, or the free one where it belongs.
static LoopName *names_slot(const LoopNames *s, const char *word) {
    size_t i = (size_t)hash_bytes(HASH_SEED, word, strlen(word)) & (size_t)(s->cap - 1);
    while (s->slot[i].word && strcmp(s->slot[i].word, word) != 0) i = (i + 1) & (size_t)(s->cap - 1);
    return &s->slot[i];
}

bool names_has(const LoopNames *s, const char *word) {
    for (; s; s = s->outer)
        if (names_slot(s, word)->word) return true;
    return false;
}

static void names_grow(Arena *a, LoopNames *s) {
    LoopNames big = *s;
    big.cap = s->cap * 2;
    big.slot = ARENA_ARRAY(a, LoopName, big.cap);
    for (int i = 0; i < s->cap; i++)
        if (s->slot[i].word) *names_slot(&big, s->slot[i].word) = s->slot[i];
    *s = big;
}

void names_add(Arena *a, LoopNames *s, const char *word) {
    if (s->n * 2 >= s->cap) names_grow(a, s);
    LoopName *e = names_slot(s, word);
    if (e->word) return;
    e->word = arena_strdup(a, word);
    e->next = 2;
    s->n++;
}

// A valid word from any text: "conv/1" becomes conv_1, "3x" x3x.
static char *names_word(Arena *a, const char *text) {
    if (!*text) return arena_strdup(a, "v");
    char *w = isdigit((unsigned char)*text) ? arena_printf(a, "x%s", text) : arena_strdup(a, text);
    for (char *c = w; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_') *c = '_';
    return w;
}

// i_2 was made from i: a copy of it is numbered from i again.
static void names_strip_number(char *w) {
    size_t n = strlen(w), k = n;
    while (k > 0 && isdigit((unsigned char)w[k - 1])) k--;
    if (k < n && k > 1 && w[k - 1] == '_' && w[k] != '0') w[k - 1] = 0;
}

const char *names_fresh(Arena *a, LoopNames *s, const LoopNames *also, const char *text) {
    char *base = names_word(a, text);
    bool taken = loop_reserved(base, strlen(base)) || names_has(s, base) || (also && names_has(also, base));
    if (!taken) {
        names_add(a, s, base);
        return base;
    }
    names_strip_number(base);
    names_add(a, s, base); // so that it has a counter; it is taken or reserved already, or the root of a numbered name
    int n = names_slot(s, base)->next;
    char *word;
    do word = arena_printf(a, "%s_%d", base, n++);
    while (names_has(s, word) || (also && names_has(also, word)));
    names_slot(s, base)->next = n;
    names_add(a, s, word);
    return word;
}
