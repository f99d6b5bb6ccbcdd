// LSTM, GRU, RNN: one contraction of the inputs with all gates' weights for the whole sequence, then a core loop over time for each
// direction.
//
// In the loop: gates = x_t + h R^T + bias, a cell function of maps, and the new states as carried values; the hidden states are stacked as
// scan outputs. Rows past their sequence length keep their state and give 0; a reverse direction reads each row from its last element on
// and its outputs are turned back.
#include "formula.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MAX_ACTIVATIONS = 6 };
typedef const Dim *const *DimArray;

typedef struct {
    const char *name, *text; // over a0, with A and B for alpha and beta
    double alpha, beta;      // defaults
} Activation;

static const Activation activations[] = {
    {"relu", "max(a0, 0.0)", 0, 0},
    {"tanh", "tanh(a0)", 0, 0},
    {"sigmoid", "sigmoid(a0)", 0, 0},
    {"affine", "a0 * A + B", 1, 0},
    {"leakyrelu", "select(a0 < 0.0, a0 * A, a0)", 0.01, 0},
    {"thresholdedrelu", "select(a0 > A, a0, 0.0$T)", 1, 0},
    {"scaledtanh", "A * tanh(a0 * B)", 1, 1},
    {"hardsigmoid", "max(min(a0 * A + B, 1.0), 0.0)", 0.2, 0.5},
    {"elu", "select(a0 > 0.0, a0, A * expm1(a0))", 1, 0},
    {"softsign", "a0 / (1.0 + abs(a0))", 0, 0},
    {"softplus", "max(a0, 0.0) + log1p(exp(-abs(a0)))", 0, 0},
};

// What one operator's cell is made of, and the node's facts.
typedef struct Cell {
    ImportNode *n;
    const char *text[MAX_ACTIVATIONS]; // by direction and gate: activations per direction one after the other
    int gates, per_direction;          // weight blocks of a row of W; activations a direction
    int64_t hidden;
    const Dim *time, *batch;
    Value *lens; // [batch] i64, NULL: all full
    double clip; // 0: none
    DType type;
    // Appends the cell: gates' sums x_t + bias and h R^T -> new h and c.
    void (*step)(
        struct Cell *cell, int direction, Value *x, Value *h, Value *c, Value *recurrent, Value *bias, Value **new_h, Value **new_c);
    Value *peephole; // of the direction at hand, [3 * hidden] or NULL
    Value *w, *r;    // [directions, gates * hidden, inputs or hidden]
    bool quantised;  // w and r are integers: these are their scales and zero points, by direction and then of the direction at hand
    Value *scale[2], *zero[2], *scale_now[2], *zero_now[2];
} Cell;

static const Dim *dim_of(Cell *c, int64_t v) {
    return dim_int(c->n->dims, v);
}

// ---- activations ----
static char *activation_text(ImportNode *n, const Activation *a, double alpha, double beta) {
    Str s = {0};
    for (const char *p = a->text; *p; p++) {
        bool letter = (*p == 'A' || *p == 'B') && (p == a->text || !isalnum((unsigned char)p[-1])) && !isalnum((unsigned char)p[1]);
        if (!letter)
            str_addn(&s, p, 1);
        else
            str_add_f64(&s, *p == 'A' ? alpha : beta);
    }
    char *out = arena_strdup(n->arena, s.data);
    str_free(&s);
    return out;
}

static bool read_activations(Cell *c, int directions, const char *const *defaults) {
    ImportNode *n = c->n;
    const char *const *names;
    int count = attr_strings(n, "activations", &names), at_alpha = 0, at_beta = 0;
    F64List alpha = attr_floats(n, "activation_alpha"), beta = attr_floats(n, "activation_beta");
    if (count && count != directions * c->per_direction)
        return import_fail(n, "activations has %d entries, %d are needed", count, directions * c->per_direction);
    for (int i = 0; i < directions * c->per_direction; i++) {
        const char *name = count ? names[i] : defaults[i % c->per_direction];
        const Activation *found = NULL;
        for (size_t k = 0; k < sizeof activations / sizeof *activations && !found; k++) {
            const char *a = activations[k].name, *b = name;
            while (*a && *a == tolower((unsigned char)*b)) a++, b++;
            if (!*a && !*b) found = &activations[k];
        }
        if (!found) return import_fail(n, "unknown activation '%s'", name);
        bool takes_alpha = strchr(found->text, 'A') != NULL, takes_beta = strchr(found->text, 'B') != NULL;
        double av = takes_alpha && at_alpha < alpha.n ? alpha.data[at_alpha++] : found->alpha;
        double bv = takes_beta && at_beta < beta.n ? beta.data[at_beta++] : found->beta;
        c->text[i] = activation_text(n, found, av, bv);
    }
    return true;
}

static Value *activate(Cell *c, int direction, int which, Value *x) {
    return formula_map(c->n, c->text[direction * c->per_direction + which], 1, &x);
}

static Value *add(Cell *c, Value *x, Value *y) {
    return x && y ? g_map2(&c->n->b, X_add, x, y) : x ? x : y;
}
static Value *mul(Cell *c, Value *x, Value *y) {
    return g_map2(&c->n->b, X_mul, x, y);
}

static Value *clipped(Cell *c, Value *x) {
    if (c->clip <= 0) return x;
    x = g_map2(&c->n->b, X_min, x, g_const_float(&c->n->b, c->type, c->clip));
    return g_map2(&c->n->b, X_max, x, g_const_float(&c->n->b, c->type, -c->clip));
}

// Block k of the last axis, `hidden` wide.
static Value *block(Cell *c, Value *x, int k) {
    if (!x) return NULL;
    return g_slice(&c->n->b, x, x->rank - 1, dim_of(c, k * c->hidden), dim_of(c, c->hidden), 1);
}

enum { OF_INPUT, OF_STATE }; // which weights

static Value *product(Cell *c, int which, const char *subs, Value *x, Value *weights) {
    if (!c->quantised) return g_contract(&c->n->b, subs, x, weights, c->type);
    return import_dynamic_product(c->n, subs, x, weights, c->scale_now[which], c->zero_now[which]);
}

static Value *times(Cell *c, Value *h, Value *weights) {
    return product(c, OF_STATE, "bh,gh->bg", h, weights);
}

// ---- cells ----
static void rnn_step(Cell *c, int d, Value *x, Value *h, Value *state, Value *r, Value *bias, Value **new_h, Value **new_c) {
    Value *sum = add(c, add(c, x, times(c, h, r)), add(c, block(c, bias, 0), block(c, bias, 1)));
    *new_h = activate(c, d, 0, clipped(c, sum));
    *new_c = state;
}

static void gru_step(Cell *c, int d, Value *x, Value *h, Value *state, Value *r, Value *bias, Value **new_h, Value **new_c) {
    ImportNode *n = c->n;
    bool before = attr_exists(n, "linear_before_reset") && attr_int(n, "linear_before_reset") != 0;
    Value *zr_weights = g_slice(&n->b, r, 0, dim_of(c, 0), dim_of(c, 2 * c->hidden), 1);
    Value *h_weights = g_slice(&n->b, r, 0, dim_of(c, 2 * c->hidden), dim_of(c, c->hidden), 1);
    Value *zr = times(c, h, zr_weights);
    Value *gate[2];
    for (int k = 0; k < 2; k++) {
        Value *sum = add(c, add(c, block(c, x, k), block(c, zr, k)), add(c, block(c, bias, k), block(c, bias, 3 + k)));
        gate[k] = activate(c, d, 0, clipped(c, sum));
    }
    Value *candidate;
    if (before)
        candidate = mul(c, gate[1], add(c, times(c, h, h_weights), block(c, bias, 5)));
    else
        candidate = add(c, times(c, mul(c, gate[1], h), h_weights), block(c, bias, 5));
    candidate = add(c, add(c, block(c, x, 2), candidate), block(c, bias, 2));
    candidate = activate(c, d, 1, clipped(c, candidate));
    Value *in[] = {gate[0], candidate, h};
    *new_h = formula_map(n, "(1.0 - a0) * a1 + a0 * a2", 3, in);
    *new_c = state;
}

// Gates in the order i, o, f, c; peepholes in the order i, o, f.
static void lstm_step(Cell *c, int d, Value *x, Value *h, Value *state, Value *r, Value *bias, Value **new_h, Value **new_c) {
    ImportNode *n = c->n;
    Value *sums = add(c, x, times(c, h, r)), *gate[4];
    for (int k = 0; k < 4; k++) gate[k] = add(c, block(c, sums, k), add(c, block(c, bias, k), block(c, bias, 4 + k)));
    if (c->peephole) {
        gate[0] = add(c, gate[0], mul(c, block(c, c->peephole, 0), state));
        gate[2] = add(c, gate[2], mul(c, block(c, c->peephole, 2), state));
    }
    Value *i = activate(c, d, 0, clipped(c, gate[0])), *candidate = activate(c, d, 1, clipped(c, gate[3]));
    bool coupled = attr_int(n, "input_forget") != 0;
    Value *f = coupled ? formula_map(n, "1.0 - a0", 1, &i) : activate(c, d, 0, clipped(c, gate[2]));
    *new_c = add(c, mul(c, f, state), mul(c, i, candidate));
    if (c->peephole) gate[1] = add(c, gate[1], mul(c, block(c, c->peephole, 1), *new_c));
    *new_h = mul(c, activate(c, d, 0, clipped(c, gate[1])), activate(c, d, 2, *new_c));
}

// ---- the loop over time ----
// Element t of axis 0 of x [T, B, G] for each row: in a reverse direction the row's elements from its end.
static Value *at_time(Cell *c, Value *x, Value *t, bool reverse) {
    ImportNode *n = c->n;
    const Dim *v = dim_symbol(n->dims, "v0", SYM_DATA, NULL, NULL);
    const Dim *shape[] = {x->shape[1], x->shape[2]};
    const Dim *d0 = dim_axis(n->dims, 0, shape[0]), *d1 = dim_axis(n->dims, 1, shape[1]);
    const Dim *last = dim_addi(n->dims, x->shape[0], -1);
    const Dim *index[] = {reverse && !c->lens ? dim_sub(n->dims, last, v) : v, d0, d1};
    Value *at = t;
    if (reverse && c->lens) {
        const Expr *time = x_arg(n->arena, 0, DT_i64), *len = x_arg(n->arena, 1, DT_i64);
        const Expr *from_end = x_op2(n->arena, X_sub, x_op2(n->arena, X_sub, len, x_int(n->arena, DT_i64, 1)), time);
        Value *in[] = {t, c->lens};
        at = g_map(&n->b, 2, in, x_op3(n->arena, X_select, x_op2(n->arena, X_lt, time, len), from_end, time));
        at = g_unsqueeze(&n->b, at, 1);
    }
    return g_gather(&n->b, x, 1, &at, &v, 2, shape, index, 0, NULL, scalar_int(x->type, 0));
}

// value where t < length of the row, other elsewhere.
static Value *while_running(Cell *c, Value *t, Value *value, Value *other) {
    ImportNode *n = c->n;
    if (!c->lens) return value;
    const Expr *runs = x_op2(n->arena, X_lt, x_arg(n->arena, 2, DT_i64), x_arg(n->arena, 3, DT_i64));
    Value *in[] = {value, other, t, g_unsqueeze(&n->b, c->lens, 1)};
    return g_map(&n->b, 4, in, x_op3(n->arena, X_select, runs, x_arg(n->arena, 0, c->type), x_arg(n->arena, 1, c->type)));
}

// outputs of one direction: y [T, B, H], the last h and c [B, H].
typedef struct {
    Value *y, *h, *c;
} Direction;

static Direction run_direction(Cell *c, int d, bool reverse, Value *x, Value *w, Value *r, Value *bias, Value *h0, Value *c0) {
    ImportNode *n = c->n;
    Value *xw = product(c, OF_INPUT, "tbi,gi->tbg", x, w);
    Value *trip = g_dims(&n->b, -1, &c->time), *always = g_const_ints(&n->b, DT_bool, -1, (const int64_t[]){1});
    Value *zero = g_const_float(&n->b, c->type, 0);
    Region *body = graph_region_new(n->b.g, NULL);
    const Dim *state[] = {c->batch, dim_of(c, c->hidden)};
    Value *t = graph_param(body, NULL, DT_i64, 0, NULL);
    graph_param(body, NULL, DT_bool, 0, NULL);
    Value *h = graph_param(body, NULL, c->type, 2, state), *cell = graph_param(body, NULL, c->type, 2, state);
    Region *outer = n->b.region;
    n->b.region = body;
    Value *new_h, *new_c;
    c->step(c, d, at_time(c, xw, t, reverse), h, cell, r, bias, &new_h, &new_c);
    Value *kept_h = while_running(c, t, new_h, h), *kept_c = while_running(c, t, new_c, cell);
    Value *yields[] = {g_const_ints(&n->b, DT_bool, -1, (const int64_t[]){1}), kept_h, kept_c, while_running(c, t, new_h, zero)};
    for (int i = 0; i < 4; i++) vec_push(n->b.g->arena, &body->yields, yields[i]);
    n->b.region = outer;
    Value *init[] = {h0, c0};
    Node *loop = g_loop(&n->b, trip, always, 2, init, body, 1);
    return (Direction){loop->out[2], loop->out[0], loop->out[1]};
}

// Turns the outputs of a reverse direction back into the order of time.
static Value *turned_back(Cell *c, Value *y) {
    ImportNode *n = c->n;
    if (!c->lens) return g_slice(&n->b, y, 0, dim_addi(n->dims, y->shape[0], -1), y->shape[0], -1);
    const Dim *v = dim_symbol(n->dims, "v0", SYM_DATA, NULL, NULL),
              *index[] = {v, dim_axis(n->dims, 1, y->shape[1]), dim_axis(n->dims, 2, y->shape[2])};
    const Expr *time = x_cast(n->arena, DT_i64, x_dim(n->arena, dim_axis(n->dims, 0, y->shape[0]))), *len = x_arg(n->arena, 0, DT_i64);
    const Expr *from_end = x_op2(n->arena, X_sub, x_op2(n->arena, X_sub, len, x_int(n->arena, DT_i64, 1)), time);
    const Expr *source = x_op3(n->arena, X_select, x_op2(n->arena, X_lt, time, len), from_end, time);
    Value *lens = g_unsqueeze(&n->b, c->lens, 1);
    const Dim *shape[] = {y->shape[0], y->shape[1], dim_of(c, 1)};
    Value *at = g_map_shape(&n->b, 1, &lens, source, 3, shape);
    return g_gather(&n->b, y, 1, &at, &v, 3, (DimArray)y->shape, index, 0, NULL, scalar_int(y->type, 0));
}

// Direction d of a weight [directions, …].
static Value *of_direction(Cell *c, Value *v, int d) {
    if (!v) return NULL;
    return g_squeeze(&c->n->b, g_slice(&c->n->b, v, 0, dim_of(c, d), dim_of(c, 1), 1), 0);
}

static Value *swapped(ImportNode *n, Value *v) {
    static const int64_t swap[] = {1, 0, 2};
    return v ? g_transpose(&n->b, v, swap) : NULL;
}

static Value *joined(Cell *c, int directions, Value **v, int axis) {
    Value *parts[2];
    for (int d = 0; d < directions; d++) parts[d] = g_unsqueeze(&c->n->b, v[d], axis);
    return directions == 1 ? parts[0] : g_concat(&c->n->b, 2, parts, axis);
}

static Value *optional_input(const ImportNode *n, int i) {
    return i < n->nin ? n->in[i] : NULL;
}

// An initial state as [batch, hidden]: where its extents are not provably so, a check says so at run time.
static Value *initial_state(Cell *c, Value *v) {
    ImportNode *n = c->n;
    const Dim *shape[] = {c->batch, dim_of(c, c->hidden)};
    bool same = v->shape[0] == shape[0] && v->shape[1] == shape[1];
    if (same) return v;
    const Dim *guards[4];
    for (int i = 0; i < 2; i++) {
        guards[2 * i] = dim_sub(n->dims, v->shape[i], shape[i]);
        guards[2 * i + 1] = dim_sub(n->dims, shape[i], v->shape[i]);
    }
    g_check(&n->b, NULL, 4, guards, CODE_SHAPE);
    return g_reshape(&n->b, v, 2, shape);
}

// W [directions, gates * hidden, input], R [directions, gates * hidden, hidden], B [directions, 2 * gates * hidden], sequence_lens [batch],
// initial states [directions, batch, hidden] (the batch first with layout 1), P [directions, 3 * hidden]
static bool check_shapes(Cell *c, int directions, bool batch_first) {
    ImportNode *n = c->n;
    const Dim *d = dim_of(c, directions), *h = dim_of(c, c->hidden), *batch = n->in[0]->shape[batch_first ? 0 : 1];
    const Dim *rows = dim_of(c, c->gates * c->hidden), *state[] = {batch_first ? batch : d, batch_first ? d : batch, h};
    for (int i = 5; i < 7 && i < n->row->max_in; i++)
        if (!import_shape_is(n, i, 3, state)) return false;
    for (int i = 8; i < n->nin && c->quantised; i++) {
        const Value *v = n->in[i]; // scales and zero points: by direction, or by direction and row
        if (v->rank != 1 && !import_shape_is(n, i, 2, (const Dim *[]){d, rows})) return false;
        if (v->rank == 1 && !import_shape_is(n, i, 1, &d)) return false;
    }
    return import_value_is(n, "W", c->w, 3, (const Dim *[]){d, rows, n->in[0]->shape[2]}) &&
           import_value_is(n, "R", c->r, 3, (const Dim *[]){d, rows, h}) &&
           import_shape_is(n, 3, 2, (const Dim *[]){d, dim_muli(n->dims, rows, 2)}) && import_shape_is(n, 4, 1, &batch) &&
           (n->row->max_in < 8 || import_shape_is(n, 7, 2, (const Dim *[]){d, dim_of(c, 3 * c->hidden)}));
}

// All inputs but the sequence lengths have X's type, a float that the target computes in.
static bool check_types(Cell *c) {
    ImportNode *n = c->n;
    c->type = n->in[0]->type;
    if (!dtype_is_float(c->type)) return import_fail(n, "input has type %s, a float type is needed", dtype_name(c->type));
    if (!dtype_is_native(c->type)) return import_unsupported(n, "type %s", dtype_name(c->type));
    for (int i = c->quantised ? 3 : 1; i < n->nin && i < 8; i++) {
        if (!n->in[i] || n->in[i]->type == c->type || (i == 4 && dtype_is_int(n->in[i]->type))) continue;
        return import_fail(n, "input %d has type %s, which does not fit %s", i, dtype_name(n->in[i]->type), dtype_name(c->type));
    }
    return true;
}

static void take_direction(Cell *c, Value *peephole, int d) {
    c->peephole = of_direction(c, peephole, d);
    for (int i = 0; i < 2; i++) {
        c->scale_now[i] = of_direction(c, c->scale[i], d);
        c->zero_now[i] = of_direction(c, c->zero[i], d);
    }
}

static bool run_cell(Cell *c, const char *const *defaults) {
    ImportNode *n = c->n;
    static const char *const words[] = {"forward", "reverse", "bidirectional", NULL};
    const char *direction = attr_string(n, "direction");
    if (!import_word(n, "direction", words) || !import_rank(n, 0, 3) || !import_rank(n, 2, 3) || !check_types(c)) return false;
    bool both = !strcmp(direction, "bidirectional"), reverse = !strcmp(direction, "reverse");
    int directions = both ? 2 : 1;
    bool batch_first = attr_exists(n, "layout") && attr_int(n, "layout") != 0;
    int64_t hidden;
    if (!c->w) c->w = n->in[1], c->r = n->in[2];
    if (!dim_is_int(c->r->shape[2], &hidden)) return import_unsupported(n, "a symbolic hidden size");
    c->hidden = hidden;
    if (hidden < 1 || hidden > 1 << 24) return import_fail(n, "a hidden size of %lld", (long long)hidden);
    if (!check_shapes(c, directions, batch_first) || !read_activations(c, directions, defaults)) return false;
    if (attr_has(n, "clip")) c->clip = attr_float(n, "clip");
    Value *x = batch_first ? swapped(n, n->in[0]) : n->in[0];
    c->time = x->shape[0];
    c->batch = x->shape[1];
    Value *lens = optional_input(n, 4);
    c->lens = lens ? g_cast(&n->b, DT_i64, lens) : NULL;
    Value *h0 = optional_input(n, 5), *c0 = n->row->max_in > 6 ? optional_input(n, 6) : NULL,
          *p = n->row->max_in > 7 ? optional_input(n, 7) : NULL;
    if (batch_first) h0 = swapped(n, h0), c0 = swapped(n, c0);
    const Dim *state[] = {c->batch, dim_of(c, c->hidden)};
    Value *zero = g_map_shape(&n->b, 0, NULL, x_int(n->arena, c->type, 0), 2, state);
    Value *y[2], *h[2], *cells[2];
    for (int d = 0; d < directions; d++) {
        bool back = reverse || d == 1;
        take_direction(c, p, d);
        Value *start_h = h0 ? initial_state(c, of_direction(c, h0, d)) : zero,
              *start_c = c0 ? initial_state(c, of_direction(c, c0, d)) : zero;
        Direction out = run_direction(
            c, d, back, x, of_direction(c, c->w, d), of_direction(c, c->r, d), of_direction(c, optional_input(n, 3), d), start_h, start_c);
        y[d] = back ? turned_back(c, out.y) : out.y;
        h[d] = out.h;
        cells[d] = out.c;
    }
    static const int64_t y_batch_first[] = {2, 0, 1, 3};
    n->out[0] = joined(c, directions, y, 1);
    if (batch_first) n->out[0] = g_transpose(&n->b, n->out[0], y_batch_first);
    if (n->row->max_out > 1) n->out[1] = batch_first ? swapped(n, joined(c, directions, h, 0)) : joined(c, directions, h, 0);
    if (n->row->max_out > 2) n->out[2] = batch_first ? swapped(n, joined(c, directions, cells, 0)) : joined(c, directions, cells, 0);
    return true;
}

bool import_rnn(ImportNode *n) {
    static const char *const defaults[] = {"Tanh"};
    Cell c = {.n = n, .gates = 1, .per_direction = 1, .step = rnn_step};
    return run_cell(&c, defaults);
}

bool import_gru(ImportNode *n) {
    static const char *const defaults[] = {"Sigmoid", "Tanh"};
    Cell c = {.n = n, .gates = 3, .per_direction = 2, .step = gru_step};
    return run_cell(&c, defaults);
}

bool import_lstm(ImportNode *n) {
    static const char *const defaults[] = {"Sigmoid", "Tanh", "Tanh"};
    Cell c = {.n = n, .gates = 4, .per_direction = 3, .step = lstm_step};
    return run_cell(&c, defaults);
}

// com.microsoft: integer weights [directions, inputs, gates * hidden]; inputs and states are quantised where they are multiplied.
bool import_dynamic_quantize_lstm(ImportNode *n) {
    static const char *const defaults[] = {"Sigmoid", "Tanh", "Tanh"};
    static const int64_t turn[] = {0, 2, 1};
    Cell c = {.n = n, .gates = 4, .per_direction = 3, .step = lstm_step, .quantised = true};
    if (n->in[0]->type != DT_f32 || n->in[1]->rank != 3 || n->in[2]->rank != 3)
        return import_fail(n, "X in f32, W and R of rank 3 are needed");
    c.w = g_transpose(&n->b, n->in[1], turn);
    c.r = g_transpose(&n->b, n->in[2], turn);
    for (int i = 0; i < 2; i++) {
        c.scale[i] = optional_input(n, 8 + 2 * i);
        c.zero[i] = optional_input(n, 9 + 2 * i);
        bool typed = c.scale[i] && c.zero[i] && dtype_is_float(c.scale[i]->type) && dtype_is_int(c.zero[i]->type) &&
                     dtype_is_int(n->in[1 + i]->type);
        if (!typed) return import_fail(n, "a scale or zero point of the weights is missing");
    }
    return run_cell(&c, defaults);
}
