// Shared by the two halves of the Program's parser: loop_parse.c (text, header) and loop_parse_stmt.c (statements). Private to them.
#ifndef MLC_LOOP_PARSE_H
#define MLC_LOOP_PARSE_H

#include "loop.h"
#include "loop_names.h"

// What a name stands for: a symbol, a variable or a buffer.
typedef struct {
    const char *name;
    size_t n;
    const Dim *sym;
    Var *var;
} Binding;

typedef struct {
    Binding *slot;
    int n, cap;
} BindingMap;

typedef struct {
    Program *p;
    const char *text, *s; // whole text, place of reading
    Diag *d;
    bool failed;
    Arena *scratch;
    BindingMap main;    // symbols of the model and of main, main's lets
    BindingMap buffers; // what main's expressions and calls see
    BindingMap local;   // the kernel that is being read
    bool in_kernel;
    int depth; // of blocks
    const void *(*blob)(void *ctx, int n, size_t *size);
    void *blob_ctx;
} Parser;

typedef struct {
    const char *s;
    size_t n;
} Word;

// Reports the fault at the place of reading, once. Always false.
bool parse_fail(Parser *ps, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void parse_blanks(Parser *ps); // spaces
void parse_lines(Parser *ps);  // spaces, line ends and comments
bool parse_accept(Parser *ps, const char *text);
bool parse_expect(Parser *ps, const char *text);
bool parse_accept_word(Parser *ps, const char *word);
Word parse_word(Parser *ps); // n == 0: none here
bool parse_name(Parser *ps, Word *w);
char *parse_quoted(Parser *ps); // NULL when there is none
bool parse_int(Parser *ps, int64_t *v);
const Dim *parse_dim(Parser *ps); // NULL after parse_fail
bool parse_type(Parser *ps, VType *t);
const Expr *parse_value(Parser *ps, VType want); // NULL after parse_fail; want.type DT_none: any
bool parse_shape(Parser *ps, int *rank, const Dim ***shape);
// Adds a name as it stands to the function that is being read; names defined twice are left to the verifier.
const char *parse_define(Parser *ps, BindingMap *m, Word w, const Dim *sym, Var *var);
const Binding *parse_find(const BindingMap *m, const char *name, size_t n);
const Dim *parse_symbol(Parser *ps, Word w, SymKind kind, const Dim *lo, const Dim *hi); // defines it

bool parse_block(Parser *ps, Block *b); // from '{' to '}'

#endif
