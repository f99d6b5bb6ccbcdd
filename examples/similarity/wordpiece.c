// A word is the longest piece that begins it, then the longest piece `##…` that begins the rest, and so on; [UNK] when there is none. Words
// are runs of letters and digits, in small letters; punctuation marks are words of their own. The pieces are sorted once and found by
// halving.
#include "wordpiece.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 100 };

typedef struct {
    const char *text;
    int number; // its line
} Piece;

struct vocabulary {
    char *text;
    Piece *pieces; // by text
    int n;
};

static int by_text(const void *a, const void *b) {
    return strcmp(((const Piece *)a)->text, ((const Piece *)b)->text);
}

static char *read_all(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *text = n >= 0 ? malloc((size_t)n + 1) : NULL;
    if (text) text[fread(text, 1, (size_t)n, f)] = 0;
    fclose(f);
    return text;
}

vocabulary *vocabulary_read(const char *path) {
    vocabulary *v = calloc(1, sizeof *v);
    int lines = 1;
    if (v) v->text = read_all(path);
    for (const char *p = v && v->text ? v->text : ""; *p; p++) lines += *p == '\n';
    if (v && v->text) v->pieces = malloc((size_t)lines * sizeof *v->pieces);
    if (!v || !v->pieces) {
        vocabulary_free(v);
        return NULL;
    }
    for (char *line = strtok(v->text, "\r\n"); line; line = strtok(NULL, "\r\n"), v->n++) v->pieces[v->n] = (Piece){line, v->n};
    qsort(v->pieces, (size_t)v->n, sizeof *v->pieces, by_text);
    return v;
}

void vocabulary_free(vocabulary *v) {
    if (!v) return;
    free(v->pieces);
    free(v->text);
    free(v);
}

static int number_of(const vocabulary *v, const char *text) {
    const Piece key = {text, 0}, *found = bsearch(&key, v->pieces, (size_t)v->n, sizeof key, by_text);
    return found ? found->number : -1;
}

// The pieces of a word of n letters; how many tokens there are then.
static int add_word(const vocabulary *v, const char *word, int n, int64_t *tokens, int count, int max) {
    char piece[WORD_MAX + 3];
    int before = count;
    for (int at = 0; at < n;) {
        int end = n, number = -1;
        for (; end > at && number < 0; end -= number < 0) {
            snprintf(piece, sizeof piece, "%s%.*s", at ? "##" : "", end - at, word + at);
            number = number_of(v, piece);
        }
        if (number < 0) {
            if (before < max) tokens[before++] = number_of(v, "[UNK]");
            return before;
        }
        if (count < max) tokens[count++] = number;
        at = end;
    }
    return count;
}

int vocabulary_tokens(const vocabulary *v, const char *text, int64_t *tokens, int max) {
    int count = 0;
    tokens[count++] = number_of(v, "[CLS]");
    for (const char *p = text; *p;) {
        char word[WORD_MAX];
        int n = 0;
        if (isspace((unsigned char)*p)) {
            p++;
            continue;
        }
        if (ispunct((unsigned char)*p))
            word[n++] = *p++;
        else
            for (; *p && !isspace((unsigned char)*p) && !ispunct((unsigned char)*p); p++)
                if (n < WORD_MAX) word[n++] = (char)tolower((unsigned char)*p);
        count = add_word(v, word, n, tokens, count, max - 1);
    }
    tokens[count++] = number_of(v, "[SEP]");
    return count;
}
