// The grammar of SPEC:
//   file.npy  file.pb  file.npz:key     stored data
//   random                              generated, of the input's type and shape
//   NUMBER                              every element has this value
//   TYPE:DIMS[:GEN]                     f32:1x3x8x8 (standard normal), i64:1x16:0..29999 (uniform, inclusive), i64:1x16:=1; no DIMS: a
//   scalar TYPE[DIMS][GEN]                     the form of inputs.json: i64[1,16]<30000 (below), i64[1,16]=1, str[1,2]{a,b}; no [DIMS]: a
//   scalar
// Generated floats are standard normal, integers cover their type's whole range. The numbers depend on --seed and the input's name only.
#include "spec.h"
#include "npy.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum { GEN_RANDOM, GEN_RANGE, GEN_VALUE, GEN_STRINGS } GenKind;
typedef struct {
    DType type;
    bool has_shape;
    int rank;
    int64_t shape[GRAPH_MAX_RANK];
    GenKind kind;
    int64_t lo, hi;   // GEN_RANGE, inclusive
    const char *text; // GEN_VALUE, GEN_STRINGS: not yet read
} Generator;

// ---- random numbers (splitmix64) ----
static uint64_t next_random(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double next_uniform(uint64_t *state) {
    return ((double)(next_random(state) >> 11) + 0.5) * 0x1p-53;
} // inside (0, 1)

static double next_normal(uint64_t *state) { // Box and Muller's transform
    double u = next_uniform(state), v = next_uniform(state);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static int64_t next_in_range(uint64_t *state, int64_t lo, int64_t hi) {
    uint64_t width = (uint64_t)hi - (uint64_t)lo + 1;
    uint64_t r = next_random(state);
    return (int64_t)((uint64_t)lo + (width ? r % width : r));
}

static Scalar random_scalar(DType t, const Generator *g, uint64_t *state) {
    if (g->kind == GEN_RANGE) return scalar_int(t, next_in_range(state, g->lo, g->hi));
    if (dtype_is_float(t)) return scalar_float(t, next_normal(state));
    return scalar_int(t, t == DT_bool ? (int64_t)(next_random(state) & 1) : (int64_t)next_random(state));
}

// ---- parsing ----
static bool read_number(const char **p, int64_t *v) {
    char *end;
    errno = 0;
    *v = strtoll(*p, &end, 10);
    if (end == *p || errno) return false;
    *p = end;
    return true;
}

static bool read_dims(const char **p, char separator, Generator *g) {
    g->has_shape = true;
    while (isdigit((unsigned char)**p)) {
        if (g->rank == GRAPH_MAX_RANK || !read_number(p, &g->shape[g->rank++])) return false;
        if (**p != separator) return true;
        if (!isdigit((unsigned char)*++*p)) return false;
    }
    return true;
}

static bool read_generator(const char *p, Generator *g) {
    if (!*p) return true;
    if (*p == '=') {
        g->kind = GEN_VALUE;
        g->text = p + 1;
        return p[1] != 0;
    }
    if (*p == '{') {
        g->kind = GEN_STRINGS;
        g->text = p + 1;
        return p[strlen(p) - 1] == '}';
    }
    g->kind = GEN_RANGE;
    if (*p == '<') {
        p++;
        if (!read_number(&p, &g->hi) || g->hi < 1) return false;
        g->hi--;
        return !*p;
    }
    if (!read_number(&p, &g->lo) || strncmp(p, "..", 2)) return false;
    p += 2;
    return read_number(&p, &g->hi) && !*p && g->lo <= g->hi;
}

// TYPE:… or TYPE[…]…; false when the text is not of this form at all or has a fault in it.
static bool read_typed(const char *text, Generator *g) {
    size_t n = 0;
    while (isalnum((unsigned char)text[n])) n++;
    g->type = dtype_parse(text, n);
    if (g->type == DT_none) return false;
    const char *p = text + n;
    if (*p == ':') {
        p++;
        if (!read_dims(&p, 'x', g)) return false;
        if (*p == ':') return p[1] && read_generator(p + 1, g);
        return read_generator(p, g);
    }
    g->has_shape = true;
    if (*p == '[') {
        p++;
        if (!read_dims(&p, ',', g) || *p++ != ']') return false;
    }
    return read_generator(p, g);
}

// ---- making ----
static uint64_t seed_of(const Options *o, const Port *p, Diag *d) {
    uint64_t seed = (uint64_t)options_int(o, OPT_seed, 0, INT64_MAX, 0, d);
    return hash_bytes(HASH_SEED ^ seed, p->label, strlen(p->label));
}

static bool value_scalar(const char *text, DType t, Scalar *s) {
    char *end;
    if (!strcmp(text, "true") || !strcmp(text, "false")) {
        *s = scalar_int(t, text[0] == 't');
        return true;
    }
    errno = 0;
    if (!dtype_is_float(t)) {
        long long v = strtoll(text, &end, 0);
        *s = scalar_int(t, v);
        if (end != text && !*end && !errno) return true;
    }
    double v = strtod(text, &end);
    *s = scalar_float(t, v);
    return end != text && !*end;
}

static void set_string(Arena *a, Tensor *t, int64_t i, const char *text, size_t n) {
    ((StringElement *)t->data)[i] = (StringElement){arena_strndup(a, text, n), n};
}

// The strings of {a,b}, repeated when there are fewer than elements; "=text" gives all elements this text; random ones are short words.
static void fill_strings(const Generator *g, uint64_t seed, Arena *a, Tensor *t) {
    int64_t n = tensor_count(t);
    const char *p = g->text;
    for (int64_t i = 0; i < n; i++) {
        if (g->kind == GEN_STRINGS) {
            size_t len = strcspn(p, ",}");
            set_string(a, t, i, p, len);
            p = p[len] == ',' ? p + len + 1 : g->text;
        } else if (g->kind == GEN_VALUE) {
            set_string(a, t, i, g->text, strlen(g->text));
        } else {
            const char *word = arena_printf(a, "w%llu", (unsigned long long)(next_random(&seed) % 1000));
            set_string(a, t, i, word, strlen(word));
        }
    }
}

static bool generate(const Options *o, const Port *port, const Generator *g, Arena *a, Tensor *t, Diag *d) {
    int64_t count = 1;
    for (int i = 0; i < g->rank; i++)
        if (__builtin_mul_overflow(count, g->shape[i], &count) || count > (int64_t)1 << 36) {
            diag_error(d, EXIT_USAGE, "--in: input '%s': the shape is too large", port->label);
            return false;
        }
    *t = tensor_new(a, g->type, g->rank, g->shape);
    uint64_t seed = seed_of(o, port, d);
    if (g->type == DT_str) {
        fill_strings(g, seed, a, t);
        return true;
    }
    Scalar s = {0};
    if (g->kind == GEN_STRINGS || (g->kind == GEN_VALUE && !value_scalar(g->text, g->type, &s))) {
        diag_error(d, EXIT_USAGE, "--in: input '%s': '%s' is not a value of type %s", port->label, g->text, dtype_name(g->type));
        return false;
    }
    bool complex = dtype_info(g->type)->cls == 'C';
    DType part = g->type == DT_c64 ? DT_f32 : g->type == DT_c128 ? DT_f64 : g->type;
    size_t step = (size_t)dtype_bytes(part);
    for (int64_t i = 0; i < count * (complex ? 2 : 1); i++)
        scalar_write(g->kind == GEN_VALUE ? s : random_scalar(part, g, &seed), (char *)t->data + (size_t)i * step);
    return true;
}

// ---- shapes that the SPEC leaves to the model ----
typedef struct {
    const Exec *e;
    const int64_t *dims;
    const bool *known;
    bool *free_symbol;
} ShapeNeed;

static int64_t dim_value(void *ctx, const Dim *sym) {
    const ShapeNeed *n = ctx;
    for (int i = 0; i < n->e->ndims; i++) {
        if (n->e->dims[i] != sym) continue;
        if (!n->known[i]) *n->free_symbol = true;
        return n->dims[i];
    }
    *n->free_symbol = true;
    return 1;
}

// Dimensions that a given tensor's axis names alone; the others get small distinct sizes within their bounds.
static void known_dims(const Exec *e, const Tensor *inputs, const bool *given, int64_t *dims, bool *known) {
    for (int k = 0; k < e->ndims; k++) {
        int64_t small = 2 + k % 3;
        dims[k] = small < e->dim_lo[k] ? e->dim_lo[k] : small > e->dim_hi[k] ? e->dim_hi[k] : small;
    }
    for (int i = 0; i < e->nin; i++)
        for (int axis = 0; given[i] && axis < e->in[i].rank && axis < inputs[i].rank; axis++)
            for (int k = 0; k < e->ndims; k++)
                if (e->in[i].shape[axis] == e->dims[k]) {
                    dims[k] = inputs[i].shape[axis];
                    known[k] = true;
                }
}

static bool model_shape(const Exec *e, const Port *p, const int64_t *dims, const bool *known, bool fill, Generator *g, Diag *d) {
    g->rank = p->rank;
    for (int i = 0; i < p->rank; i++) {
        bool ok = true, is_free = false;
        ShapeNeed need = {e, dims, known, &is_free};
        g->shape[i] = dim_eval(p->shape[i], dim_value, &need, &ok);
        if (ok && g->shape[i] >= 0 && (fill || !is_free)) continue;
        diag_error(d, EXIT_USAGE, "--in: axis %d of input '%s' is %s: give a shape (%s:…) or fix it with --dim", i, p->label,
            dim_text(e->table, p->shape[i]), dtype_name(p->type));
        return false;
    }
    return true;
}

// ---- the options ----
// The port that "NAME=SPEC" starts with, by ONNX or C name, and the SPEC; a single input needs no name.
static int find_port(const Exec *e, const char *text, const char **spec) {
    for (int i = 0; i < e->nin; i++) {
        const char *names[] = {e->in[i].label, e->in[i].name};
        for (int k = 0; k < 2; k++) {
            size_t n = strlen(names[k]);
            if (!strncmp(text, names[k], n) && text[n] == '=') {
                *spec = text + n + 1;
                return i;
            }
        }
    }
    // The only input needs no name; but what stands before the first = of a SPEC holds one of these, unless it is the name of another
    // input.
    const char *eq = strchr(text, '=');
    bool named = eq && strcspn(text, ":[<./") > (size_t)(eq - text);
    *spec = text;
    return e->nin == 1 && !named ? 0 : -1;
}

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

static bool read_file(const char *spec, const Port *p, Arena *a, Tensor *t, bool *is_file, Diag *d) {
    const char *npz = strstr(spec, ".npz:");
    *is_file = true;
    if (ends_with(spec, ".npy")) return npy_read(spec, p->type, a, t, d);
    if (ends_with(spec, ".pb")) return frontend_read_tensor(spec, a, t, d);
    if (npz) return npz_read(arena_strndup(a, spec, (size_t)(npz + 4 - spec)), npz + 5, p->type, a, t, d);
    *is_file = false;
    return true;
}

// Reads one SPEC. *wait is set when the shape comes from the model: g then waits until the other inputs are known.
static bool read_spec(const Options *o, const char *spec, const Port *p, Generator *g, bool *wait, Arena *a, Tensor *t, Diag *d) {
    bool is_file;
    *wait = false;
    if (!read_file(spec, p, a, t, &is_file, d)) return false;
    if (is_file) return true;
    *g = (Generator){.type = p->type};
    if (!strcmp(spec, "random")) {
        *wait = true;
        return true;
    }
    Scalar s;
    if (p->type != DT_str && value_scalar(spec, p->type, &s)) {
        g->kind = GEN_VALUE;
        g->text = spec;
        *wait = true;
        return true;
    }
    if (!read_typed(spec, g)) {
        diag_error(d, EXIT_USAGE, "--in: input '%s': '%s' is neither a .npy, .pb or .npz:key file nor a value, `random`, %s:1x3 or %s[1,3]",
            p->label, spec, dtype_name(p->type), dtype_name(p->type));
        return false;
    }
    return generate(o, p, g, a, t, d);
}

bool spec_inputs(const Options *o, const Exec *e, bool fill, Arena *a, Tensor *inputs, Diag *d) {
    bool *given = ARENA_ARRAY(a, bool, e->nin + 1), *wait = ARENA_ARRAY(a, bool, e->nin + 1), *known = ARENA_ARRAY(a, bool, e->ndims + 1);
    Generator *gens = ARENA_ARRAY(a, Generator, e->nin + 1);
    int64_t *dims = ARENA_ARRAY(a, int64_t, e->ndims + 1);
    const TextList *specs = &o->values[OPT_input];
    for (int k = 0; k < specs->n; k++) {
        const char *spec;
        int i = find_port(e, specs->data[k], &spec);
        if (i < 0) {
            diag_error(d, EXIT_USAGE, "--in: '%s' names no input of the model", specs->data[k]);
            for (int j = 0; j < e->nin; j++)
                diag_error(d, EXIT_USAGE, "--in: the model has input '%s' (%s)", e->in[j].label, dtype_name(e->in[j].type));
            return false;
        }
        given[i] = read_spec(o, spec, &e->in[i], &gens[i], &wait[i], a, &inputs[i], d) && !wait[i];
    }
    if (d->errors) return false;
    known_dims(e, inputs, given, dims, known);
    for (int i = 0; i < e->nin; i++) {
        if (given[i]) continue;
        if (!wait[i] && !fill) {
            diag_error(d, EXIT_USAGE, "input '%s' is missing: give -i %s=SPEC", e->in[i].label, e->in[i].label);
            continue;
        }
        if (!wait[i]) gens[i] = (Generator){.type = e->in[i].type};
        if (model_shape(e, &e->in[i], dims, known, fill, &gens[i], d)) generate(o, &e->in[i], &gens[i], a, &inputs[i], d);
    }
    return !d->errors;
}
