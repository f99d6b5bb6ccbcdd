// Inside the Graph's parser: its state and its tokens (graph_parse_tokens.c), used by graph_parse.c.
//
// After the first fault `failed` is set and what the functions return has no meaning.
#ifndef MLC_GRAPH_PARSE_H
#define MLC_GRAPH_PARSE_H

#include "graph.h"

typedef struct {
    const char *name;
    Value *value;
} Named;
typedef struct {
    Value *value;
    const char *root;
    size_t n;
    const char *at;
} Rooted;

typedef struct {
    const char *text, *p;
    Diag *d;
    Graph *g;
    Arena *tmp;
    bool failed;
    bool (*blob)(void *ctx, int k, Data *out);
    void *ctx;
    VEC(Rooted) roots;
    Named *names; // open addressing
    int cap, used;
    // what d<k>, v<k> and a<k> mean in the field being read
    const Dim *const *axes;
    int naxes;
    Node *node;
    bool score;
} Parser;

// Reports "line N: …" for the position `at`, once; returns NULL.
void *graph_text_fail_at(Parser *ps, const char *at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
#define graph_text_fail(ps, ...) graph_text_fail_at(ps, (ps)->p, __VA_ARGS__)

void graph_text_space(Parser *ps);                      // skips blanks and comments
bool graph_text_accept(Parser *ps, const char *token);  // reads the token if it stands there (whole words only)
bool graph_text_expect(Parser *ps, const char *token);  // the same, a fault if not
size_t graph_text_word(Parser *ps, const char **start); // letters, digits and _; 0: none
const char *graph_text_quoted(Parser *ps, size_t *n);   // NULL after a fault
const char *graph_text_word_or_quoted(Parser *ps);
int64_t graph_text_integer(Parser *ps);
double graph_text_number(Parser *ps);
Scalar graph_text_literal(Parser *ps, DType t); // as graph_print writes a scalar of type t

#endif
