// Dropout: the input as it is, or in training mode with elements dropped at random and the others scaled up.
//
// Without a seed the run's random numbers decide. With one, the dropped elements are those of the operator's reference: the numbers of the
// Mersenne Twister (Matsumoto and Nishimura 1998) as NumPy's RandomState(seed).uniform draws them, 53 bits from two outputs; they are
// constants of the program. Both ratio and mode may be data.
#include "formula.h"

enum { WORDS = 624, MIDDLE = 397, SEEDED_MAX = 1 << 22 };
typedef const Dim *const *DimArray;

typedef struct {
    uint32_t word[WORDS];
    int next;
} Twister;

static void twister_seed(Twister *w, uint32_t seed) {
    w->word[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++) w->word[i] = 1812433253u * (w->word[i - 1] ^ (w->word[i - 1] >> 30)) + i;
    w->next = WORDS;
}

static void twister_turn(Twister *w) {
    for (int i = 0; i < WORDS; i++) {
        uint32_t y = (w->word[i] & 0x80000000u) | (w->word[(i + 1) % WORDS] & 0x7fffffffu);
        w->word[i] = w->word[(i + MIDDLE) % WORDS] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    w->next = 0;
}

static uint32_t twister_word(Twister *w) {
    if (w->next == WORDS) twister_turn(w);
    uint32_t y = w->word[w->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

static double twister_uniform(Twister *w) {
    uint32_t high = twister_word(w) >> 5, low = twister_word(w) >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0;
}

// Uniform numbers of 0..1 in x's shape.
static Value *numbers(ImportNode *n, const Value *x) {
    int64_t count;
    bool seeded = n->version >= 12 && attr_has(n, "seed");
    if (!seeded || !dim_is_int(value_size(n->b.g, x), &count) || count > SEEDED_MAX) {
        const double params[] = {0, 1};
        return g_random(&n->b, "uniform", NULL, DT_f32, x->rank, (DimArray)x->shape, (F64List){params, 2});
    }
    double *v = ARENA_ARRAY(n->arena, double, count + 1);
    Twister w;
    twister_seed(&w, (uint32_t)attr_int(n, "seed"));
    for (int64_t i = 0; i < count; i++) v[i] = twister_uniform(&w);
    return g_const(&n->b, DT_f64, x->rank, (DimArray)x->shape, (Data){v, sizeof(double) * (size_t)count});
}

static bool as_it_is(ImportNode *n) {
    const Value *x = n->in[0];
    n->out[0] = g_map(&n->b, 1, n->in, x_arg(n->arena, 0, x->type));
    DType mask = n->version >= 10 ? DT_bool : x->type;
    if (n->nout > 1) n->out[1] = g_map_shape(&n->b, 0, NULL, x_int(n->arena, mask, 1), x->rank, (DimArray)x->shape);
    return true;
}

// A scalar input of the run; NULL after a fault.
static Value *scalar_input(ImportNode *n, int input, DType type) {
    Value *v = n->in[input];
    bool fits = (type == DT_bool ? v->type == DT_bool : dtype_is_float(v->type));
    if (!fits || dim_eq(n->dims, value_size(n->b.g, v), dim_int(n->dims, 1)) == NO) {
        import_fail(n, "input %d is %s, a scalar is needed", input, import_shape_text(n, v));
        return NULL;
    }
    return g_cast(&n->b, type, g_reshape(&n->b, v, 0, NULL));
}

// `ratio` of the elements of x are dropped where `training` (NULL: always).
static bool dropped(ImportNode *n, Value *ratio, Value *training) {
    Value *x = n->in[0], *drawn[] = {numbers(n, x), ratio, training};
    const char *keep = drawn[0]->type == DT_f64 ? "a0 >= cast.f64(a1)" : "a0 >= a1";
    Value *mask = formula_map(n, training ? arena_printf(n->arena, "(%s) | not(a2)", keep) : keep, training ? 3 : 2, drawn);
    if (!mask) return false;
    DType t = x->type == DT_f64 ? DT_f64 : DT_f32;
    Value *in[] = {g_cast(&n->b, t, x), mask, ratio, training};
    const char *scaled = arena_printf(n->arena, "select(a1, a0 / cast.%s(1.0 - a2), 0.0)", dtype_name(t));
    Value *y = formula_map(n, training ? arena_printf(n->arena, "select(a3, %s, a0)", scaled) : scaled, training ? 4 : 3, in);
    n->out[0] = y ? g_cast(&n->b, x->type, y) : NULL;
    n->out[1] = mask;
    return y != NULL;
}

bool import_dropout(ImportNode *n) {
    int64_t known = 0;
    double none;
    if (!dtype_is_float(n->in[0]->type)) return import_fail(n, "input has type %s, a float type is needed", dtype_name(n->in[0]->type));
    if (n->version < 12) return as_it_is(n);
    Value *mode = n->nin > 2 ? n->in[2] : NULL, *ratio = n->nin > 1 ? n->in[1] : NULL;
    if (!mode || (value_content_int(mode, 0, &known) && known == 0)) return as_it_is(n);
    if (ratio && import_const_float(n, 1, &none) && none == 0) return as_it_is(n);
    ratio = ratio ? scalar_input(n, 1, DT_f32) : g_const_float(&n->b, DT_f32, 0.5);
    if (!ratio) return false;
    if (known) return dropped(n, ratio, NULL);
    mode = scalar_input(n, 2, DT_bool);
    return mode && dropped(n, ratio, mode);
}
