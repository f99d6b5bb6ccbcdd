// Tokens of the Graph's text: blanks and comments, words, quoted texts, numbers; and the one message of a fault.
#include "graph_parse.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

void *graph_text_fail_at(Parser *ps, const char *at, const char *fmt, ...) {
    if (ps->failed) return NULL;
    ps->failed = true;
    int line = 1;
    for (const char *c = ps->text; c < at; c++) line += *c == '\n';
    Str s = {0};
    va_list ap;
    va_start(ap, fmt);
    str_vprintf(&s, fmt, ap);
    va_end(ap);
    diag_error(ps->d, EXIT_MODEL, "line %d: %s", line, s.data);
    str_free(&s);
    return NULL;
}

// ---- tokens ----

void graph_text_space(Parser *ps) {
    for (;;) {
        while (isspace((unsigned char)*ps->p)) ps->p++;
        if (*ps->p != ';') return;
        ps->p += strcspn(ps->p, "\n");
    }
}

bool graph_text_accept(Parser *ps, const char *token) {
    graph_text_space(ps);
    size_t n = strlen(token);
    if (strncmp(ps->p, token, n)) return false;
    if (isalnum((unsigned char)token[n - 1]) && (isalnum((unsigned char)ps->p[n]) || ps->p[n] == '_')) return false;
    ps->p += n;
    return true;
}

bool graph_text_expect(Parser *ps, const char *token) {
    if (graph_text_accept(ps, token)) return true;
    graph_text_fail(ps, "expected '%s', found '%.*s'", token, (int)strcspn(ps->p, "\n") > 20 ? 20 : (int)strcspn(ps->p, "\n"), ps->p);
    return false;
}

size_t graph_text_word(Parser *ps, const char **start) {
    graph_text_space(ps);
    *start = ps->p;
    while (isalnum((unsigned char)*ps->p) || *ps->p == '_') ps->p++;
    return (size_t)(ps->p - *start);
}

static int hex(char c) {
    return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : -1;
}

// A quoted text; NULL after a fault.
const char *graph_text_quoted(Parser *ps, size_t *n) {
    if (!graph_text_expect(ps, "\"")) return NULL;
    Str s = {0};
    str_add(&s, "");
    while (*ps->p && *ps->p != '"') {
        if (*ps->p != '\\') {
            str_addn(&s, ps->p++, 1);
            continue;
        }
        if (ps->p[1] == 'x' && hex(ps->p[2]) >= 0 && hex(ps->p[3]) >= 0) {
            char c = (char)(hex(ps->p[2]) * 16 + hex(ps->p[3]));
            str_addn(&s, &c, 1);
            ps->p += 4;
        } else if (ps->p[1]) {
            str_addn(&s, ps->p + 1, 1);
            ps->p += 2;
        } else
            break;
    }
    char *out = arena_strndup(ps->g->arena, s.data, s.n);
    if (n) *n = s.n;
    str_free(&s);
    return graph_text_expect(ps, "\"") ? out : NULL;
}

const char *graph_text_word_or_quoted(Parser *ps) {
    graph_text_space(ps);
    if (*ps->p == '"') return graph_text_quoted(ps, NULL);
    const char *w;
    size_t n = graph_text_word(ps, &w);
    if (n == 0) return graph_text_fail(ps, "expected a word");
    return arena_strndup(ps->g->arena, w, n);
}

int64_t graph_text_integer(Parser *ps) {
    graph_text_space(ps);
    char *end;
    long long v = strtoll(ps->p, &end, 10);
    if (end == ps->p) graph_text_fail(ps, "expected an integer");
    ps->p = end;
    return v;
}

double graph_text_number(Parser *ps) {
    graph_text_space(ps);
    char *end;
    double v = strtod(ps->p, &end);
    if (end == ps->p) graph_text_fail(ps, "expected a number");
    ps->p = end;
    return v;
}

Scalar graph_text_literal(Parser *ps, DType t) {
    graph_text_space(ps);
    char *end = NULL;
    Scalar s = scalar_int(t, 0);
    switch (dtype_info(t)->cls) {
    case 'F': s = scalar_float(t, t == DT_f32 ? (double)strtof(ps->p, &end) : strtod(ps->p, &end)); break;
    case 'B':
        if (graph_text_accept(ps, "true")) return scalar_int(t, 1);
        if (!graph_text_accept(ps, "false")) graph_text_fail(ps, "expected true or false");
        return s;
    case 'U': s.u = strtoull(ps->p, &end, 10); break;
    default: s.i = strtoll(ps->p, &end, 10);
    }
    if (end == ps->p || !end)
        graph_text_fail(ps, "expected a number of type %s", dtype_name(t));
    else
        ps->p = end;
    return s;
}
