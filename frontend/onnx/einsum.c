// Einsum: operands are contracted from left to right.
//
// Each axis has a letter; those of an ellipsis get the digits, counted from the right, so that shorter operands broadcast. A letter that an
// operand has twice takes its diagonal; one that nobody else and not the output has is summed at once; an axis of extent 1 whose letter
// runs further elsewhere is dropped. Then contract joins two operands at a time and keeps the letters that are still wanted.
#include "formula.h"

#include <ctype.h>
#include <string.h>

enum { RANK_MAX = GRAPH_MAX_RANK, LETTERS = 128 };

typedef struct {
    ImportNode *n;
    char out[RANK_MAX + 1];
    const Dim *extent[LETTERS]; // by letter
    int ellipsis;               // axes of the longest one
} Einsum;

typedef struct {
    Value *v;
    char letters[RANK_MAX + 1];
} Operand;

// ---- the equation ----
static const char *skip_blanks(const char *s) {
    return s + strspn(s, " ");
}

// Letters of a term at *s, up to a comma, an arrow or the end; '.' stands for the ellipsis. false when it is malformed.
static bool read_term(const char **s, char *term) {
    int count = 0;
    bool dots = false;
    for (*s = skip_blanks(*s); **s && **s != ',' && **s != '-'; *s = skip_blanks(*s)) {
        if (count == RANK_MAX) return false;
        if (!strncmp(*s, "...", 3) && !dots) {
            dots = true;
            term[count++] = '.';
            *s += 3;
        } else if (isalpha((unsigned char)**s)) {
            term[count++] = *(*s)++;
        } else {
            return false;
        }
    }
    term[count] = 0;
    return true;
}

// '.' becomes as many digits as the operand has axes left: the last axis is 0.
static bool spell(const char *term, int axes, char *out) {
    int plain = (int)strlen(term) - (strchr(term, '.') != NULL), count = 0;
    if (axes < 0 || axes > 10 || plain + axes > RANK_MAX) return false;
    for (const char *p = term; *p; p++) {
        if (*p != '.') {
            out[count++] = *p;
            continue;
        }
        for (int i = axes - 1; i >= 0; i--) out[count++] = (char)('0' + i);
    }
    out[count] = 0;
    return true;
}

static bool note_extents(Einsum *e, const Operand *o) {
    for (int i = 0; i < o->v->rank; i++) {
        const Dim **extent = &e->extent[(unsigned char)o->letters[i]], *here = o->v->shape[i];
        if (!*extent || dim_is(*extent, 1)) *extent = here;
        if (dim_is(here, 1) || dim_eq(e->n->dims, *extent, here) != NO) continue;
        return import_fail(
            e->n, "letter '%c' has the extents %s and %s", o->letters[i], dim_text(e->n->dims, *extent), dim_text(e->n->dims, here));
    }
    return true;
}

static bool read_operands(Einsum *e, const char **s, Operand *operands) {
    ImportNode *n = e->n;
    for (int i = 0; i < n->nin; i++) {
        char term[RANK_MAX + 1];
        if (i && *(*s)++ != ',') return import_fail(n, "the equation has fewer terms than the node has inputs");
        if (!read_term(s, term)) return import_fail(n, "term %d of the equation is malformed", i);
        bool dots = strchr(term, '.') != NULL;
        int axes = n->in[i]->rank - (int)strlen(term) + dots;
        operands[i].v = n->in[i];
        if ((!dots && axes) || !spell(term, dots ? axes : 0, operands[i].letters))
            return import_fail(n, "term %d does not fit %s", i, import_shape_text(n, n->in[i]));
        if (dots && axes > e->ellipsis) e->ellipsis = axes;
        if (!note_extents(e, &operands[i])) return false;
    }
    return **s != ',' || import_fail(n, "the equation has more terms than the node has inputs");
}

// Without an arrow: the ellipsis, then the letters that stand once, in order.
static bool read_output(Einsum *e, const char *s, const Operand *operands) {
    ImportNode *n = e->n;
    char term[RANK_MAX + 1];
    if (!*s) {
        int uses[LETTERS] = {0}, count = 0;
        for (int i = 0; i < n->nin; i++)
            for (const char *p = operands[i].letters; *p; p++) uses[(unsigned char)*p]++;
        for (int i = e->ellipsis - 1; i >= 0; i--) e->out[count++] = (char)('0' + i);
        for (int c = 'A'; c < LETTERS; c++)
            if (uses[c] == 1 && count < RANK_MAX) e->out[count++] = (char)c;
        return true;
    }
    if (*s++ != '-' || *s++ != '>' || !read_term(&s, term) || *s || !spell(term, e->ellipsis, e->out))
        return import_fail(n, "the equation's output is malformed");
    for (const char *p = e->out; *p; p++)
        if (!e->extent[(unsigned char)*p] || strchr(p + 1, *p))
            return import_fail(n, "the output's letter '%c' stands in no term, or twice", *p);
    return true;
}

// ---- one operand ----
static void remove_letter(char *letters, int at) {
    memmove(letters + at, letters + at + 1, strlen(letters + at));
}

static void take_diagonal(Einsum *e, Operand *o, int first, int second) {
    ImportNode *n = e->n;
    const Dim *shape[RANK_MAX], *index[RANK_MAX];
    int rank = 0;
    for (int i = 0; i < o->v->rank; i++)
        if (i != second) shape[rank++] = o->v->shape[i];
    for (int i = 0; i < o->v->rank; i++) {
        int at = i == second ? first : i - (i > second);
        index[i] = dim_axis(n->dims, at, shape[at]);
    }
    o->v = g_view(&n->b, o->v, rank, shape, index, 0, NULL, scalar_int(o->v->type, 0));
    remove_letter(o->letters, second);
}

static bool wanted_elsewhere(const Einsum *e, const Operand *operands, int count, int but, char letter) {
    if (strchr(e->out, letter)) return true;
    for (int i = 0; i < count; i++)
        if (i != but && strchr(operands[i].letters, letter)) return true;
    return false;
}

static void simplify(Einsum *e, Operand *operands, int count, int which) {
    ImportNode *n = e->n;
    Operand *o = &operands[which];
    for (int i = 0; i < o->v->rank; i++) {
        char *again = strchr(o->letters + i + 1, o->letters[i]);
        if (again) take_diagonal(e, o, i, (int)(again - o->letters)), i--;
    }
    for (int i = o->v->rank - 1; i >= 0; i--) {
        const Dim *whole = e->extent[(unsigned char)o->letters[i]];
        bool spread = dim_is(o->v->shape[i], 1) && !dim_is(whole, 1), wanted = wanted_elsewhere(e, operands, count, which, o->letters[i]);
        if (!spread && wanted) continue;
        int64_t axis = i;
        o->v = spread ? g_squeeze(&n->b, o->v, i) : g_reduce(&n->b, "sum", o->v, 1, &axis, false);
        remove_letter(o->letters, i);
    }
}

// ---- the sum ----
// operands[0] * operands[i] into operands[0], with the letters that the output or a later operand wants.
static void join(Einsum *e, Operand *operands, int i) {
    ImportNode *n = e->n;
    char kept[2 * RANK_MAX + 1];
    int count = 0;
    for (int side = 0; side < 2; side++)
        for (const char *p = operands[side ? i : 0].letters; *p; p++) {
            bool later = strchr(e->out, *p) != NULL;
            for (int k = i + 1; k < n->nin; k++) later |= strchr(operands[k].letters, *p) != NULL;
            if (later && !memchr(kept, *p, (size_t)count)) kept[count++] = *p;
        }
    kept[count] = 0;
    const char *subs = arena_printf(n->arena, "%s,%s->%s", operands[0].letters, operands[i].letters, kept);
    operands[0].v = g_contract(&n->b, subs, operands[0].v, operands[i].v, operands[0].v->type);
    strcpy(operands[0].letters, kept);
}

// The axes in the output's order; letters that were dropped because all had extent 1 come back.
static Value *in_output_order(Einsum *e, Operand *o) {
    ImportNode *n = e->n;
    int64_t perm[RANK_MAX];
    int count = 0;
    for (const char *p = e->out; *p; p++) {
        const char *at = strchr(o->letters, *p);
        if (at) perm[count++] = at - o->letters;
    }
    Value *y = g_transpose(&n->b, o->v, perm);
    for (int i = 0; e->out[i]; i++)
        if (!strchr(o->letters, e->out[i])) y = g_unsqueeze(&n->b, y, i);
    return y;
}

bool import_einsum(ImportNode *n) {
    Einsum e = {.n = n};
    Operand *operands = ARENA_ARRAY(n->arena, Operand, n->nin);
    const char *s = attr_string(n, "equation");
    DType type = n->in[0]->type;
    if (!import_numeric(n, 0) || !import_same_types(n, 0, n->nin - 1)) return false;
    if (!read_operands(&e, &s, operands) || !read_output(&e, s, operands)) return false;
    DType sum = dtype_is_float(type) && !dtype_is_native(type) ? DT_f32 : type;
    for (int i = 0; i < n->nin; i++) {
        operands[i].v = g_cast(&n->b, sum, operands[i].v);
        simplify(&e, operands, n->nin, i);
    }
    for (int i = 1; i < n->nin; i++) {
        if (strlen(operands[0].letters) + strlen(operands[i].letters) > RANK_MAX)
            return import_unsupported(n, "a product of more than %d axes", RANK_MAX);
        join(&e, operands, i);
    }
    n->out[0] = g_cast(&n->b, type, in_output_order(&e, &operands[0]));
    return true;
}
