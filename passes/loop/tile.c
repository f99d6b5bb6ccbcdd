// tile: writes the schedule of every kernel that has none: which loop becomes lanes, and which loops' iterations are computed side by side
// so that a register tile shares its loads.
//
// A nest of par loops has one of two plans, whichever costs less (access.h):
//   lanes    one of its loops becomes lanes: the one along which most accesses are contiguous or shared. A body with a reduction gets a
//            register tile: `rows` iterations of the loop that shares most loads times `vectors` vectors of lanes, as many as the registers
//            hold.
//   inside   the loops inside its body are vectorised instead: par loops likewise, reductions by rfactor (rows of softmax and norm,
//   products
//            along contiguous memory); iterations that share loads are computed four at a time.
// Lanes past an extent are masked, never a scalar loop. Schedules are written from the inside out: the tails that an outer split makes are
// copies of what stands inside, which is scheduled by then.
#include "../../ir/loop_lanes.h"
#include "../../ir/loop_names.h"
#include "access.h"
#include "loop_passes.h"
#include "operand.h"

#include <math.h>
#include <string.h>

typedef struct {
    Program *p;
    const Target *target;
    Kernel *k;
    Str text;
    bool jammed; // rows around the block at hand are computed side by side: one vector of lanes is enough inside
} Tile;

static const char *name_of(const Stmt *loop) {
    return dim_as_symbol(loop->sym)->name;
}

static int lanes_for(const Tile *t, const Block *b) {
    return t->target->vector_bits / 8 / widest_element(b);
}

typedef struct {
    const Program *p;
    bool found;
} Batch;

static void find_batch(void *ctx, const Dim *sym) {
    Batch *b = ctx;
    for (int i = 0; i < b->p->buffers.n; i++) {
        const LoopBuffer *input = b->p->buffers.data[i];
        b->found |= input->kind == BUF_INPUT && input->rank > 1 && input->shape[0] == sym;
    }
}

// An extent of an unknown number of examples, which is often one: the first axis of an input.
static bool is_batch(const Tile *t, const Dim *extent) {
    Batch b = {t->p, false};
    dim_symbols(extent, find_batch, &b);
    return b.found;
}

// The share of lanes that are on over all iterations.
static double use(const Tile *t, const Dim *extent, int lanes) {
    const double many = 0.9, few = 0.5;
    int64_t n, most;
    if (!dim_is_int(extent, &n)) {
        dim_interval(extent, &n, &most);
        return n < lanes && is_batch(t, extent) ? few : many;
    }
    int64_t blocks = (n + lanes - 1) / lanes;
    return n > 0 ? (double)n / (double)(blocks * lanes) : 1;
}

// ---- reductions ----

static void find_reduce(void *ctx, Stmt *s) {
    if (s->kind == ST_REDUCE) ++*(int *)ctx;
}

static void find_par(void *ctx, Stmt *s) {
    if (s->kind == ST_FOR && s->loop == LOOP_PAR) ++*(int *)ctx;
}

static int count(const Block *b, void (*fn)(void *ctx, Stmt *s)) {
    int n = 0;
    Block copy = *b;
    loop_walk(&copy, fn, &n);
    return n;
}

static bool reduction_in_lanes(const Tile *t, const Stmt *r, const Stmt *loop, int lanes) {
    Lanes l = lanes_new(t->p, lanes);
    lanes_symbol(&l, loop->sym, loop->lo);
    for (int i = 0; i < r->nstates; i++) {
        lanes_variable(&l, r->states[i]);
        lanes_variable(&l, r->others[i]);
    }
    return lanes_prepare(&l, &r->body) && lanes_prepare(&l, &r->orelse);
}

// Runs of the loop's body in one run of the reduction.
static double runs_of(const Tile *t, const Stmt *at, const Stmt *loop) {
    double times = trips(extent_of(t->p, at));
    if (at == loop) return times;
    for (int i = 0; i < at->body.n; i++) {
        const Stmt *f = at->body.data[i];
        if (f->kind != ST_FOR || f->loop != LOOP_RED) continue;
        double inner = runs_of(t, f, loop);
        if (inner > 0) return times * inner;
    }
    return 0;
}

// Runs of the innermost of the red loops in one iteration of the reduction.
static double runs_inside(const Tile *t, const Stmt *r) {
    for (int i = 0; i < r->body.n; i++) {
        const Stmt *f = r->body.data[i];
        if (f->kind == ST_FOR && f->loop == LOOP_RED) return trips(extent_of(t->p, f)) * runs_inside(t, f);
    }
    return 1;
}

static double cost_in_lanes(const Tile *t, const Stmt *r, const Stmt *loop, int lanes) {
    const double merging = lanes + 4;
    double all = block_cost(t->p, &r->body, loop->sym, lanes) * trips(extent_of(t->p, r));
    return all / (lanes * use(t, extent_of(t->p, loop), lanes)) + merging;
}

// The red loop of r that costs least in lanes, or NULL when scalar code costs less.
static const Stmt *loop_for_lanes(const Tile *t, const Stmt *r, int lanes, double *cost) {
    const Stmt *best = NULL;
    for (const Stmt *loop = r; loop;) {
        double c = cost_in_lanes(t, r, loop, lanes);
        if (c < *cost && reduction_in_lanes(t, r, loop, lanes)) {
            *cost = c;
            best = loop;
        }
        const Stmt *inner = NULL;
        for (int i = 0; i < loop->body.n; i++)
            if (loop->body.data[i]->kind == ST_FOR && loop->body.data[i]->loop == LOOP_RED) inner = loop->body.data[i];
        loop = inner;
    }
    return best;
}

static double choose_reduction(Tile *t, const Stmt *r) {
    double cost = trips(extent_of(t->p, r)) * block_cost(t->p, &r->body, NULL, 1);
    int lanes = lanes_for(t, &r->body);
    if (!r->orelse.n || !reduce_is_unordered(r) || lanes < 2 || r->step != 1) return cost;
    const Stmt *loop = loop_for_lanes(t, r, lanes, &cost);
    if (!loop) return cost;
    // Several vectors hide the latency of the state's update, unless rows side by side do.
    double vectors = runs_of(t, r, loop) / lanes;
    int wide = t->jammed || operations(&r->body) > 60 ? 1 : vectors >= 8 && lanes <= 16 ? 4 : vectors >= 4 ? 2 : 1;
    str_printf(&t->text, "rfactor(%s, %s, %d) ", name_of(r), name_of(loop), lanes * wide);
    return cost;
}

// ---- register tiles ----

enum { COPIES_MAX = 5, ROWS_LEFT = 4 };

// Rows of loop `row` (-1: none) side by side, each of `vectors` vectors.
typedef struct {
    int row, rows, vectors;
    double cost;
} Shape;

static bool fits(const Dim *extent, int n) {
    int64_t v;
    return !dim_is_int(extent, &v) || n <= v;
}

// Cycles of one step of the reduction in a tile: two updates and two loads a cycle, an update's latency of four, and the loop's own work.
static double step_cycles(const LoadMix *m, int rows, int vectors) {
    const double all = m->mix[0][0] + m->mix[0][1] + m->mix[1][0] + m->mix[1][1] + 1e-9, latency = 4, overhead = 0.4;
    double loads = 2 * (m->mix[0][0] + rows * m->mix[1][0] + vectors * m->mix[0][1] + rows * vectors * m->mix[1][1]) / all;
    double updates = rows * vectors / 2.0, cycles = updates > loads / 2 ? updates : loads / 2;
    return (cycles > latency ? cycles : latency) + overhead;
}

// Cycles of a step over all rows (at most `rows` at a time), each of so many vectors.
static double column_cycles(const LoadMix *m, double all, int rows, int vectors) {
    double blocks = floor(all / rows), rest = all - blocks * rows;
    return blocks * step_cycles(m, rows, vectors) + (rest > 0 ? step_cycles(m, (int)ceil(rest), vectors) : 0);
}

static double tile_cycles(const LoadMix *m, double rows, double vectors, const Shape *s) {
    double blocks = floor(vectors / s->vectors), rest = vectors - blocks * s->vectors;
    double cost = blocks * column_cycles(m, rows, s->rows, s->vectors);
    if (rest > 0) cost += column_cycles(m, rows, s->rows, (int)ceil(rest));
    return cost / (rows * vectors);
}

// As many accumulators as registers hold and the latency of an update wants, as few loads an update as possible, and little left over.
static void try_shapes(const Tile *t, const Nest *n, int row, int vector, int lanes, Shape *best) {
    enum { ROWS_MAX = 14, VECTORS_MAX = 4, CODE_MAX = 4000 };
    int panel = panel_width(n->body, n->loop[vector]->sym), size = operations(n->body);
    const Dim *columns = extent_of(t->p, n->loop[vector]), *rows = row >= 0 ? extent_of(t->p, n->loop[row]) : NULL;
    LoadMix m = load_mix(t->p, n->body, row >= 0 ? n->loop[row]->sym : NULL, n->loop[vector]->sym);
    double nrows = rows ? trips(rows) : 1, nvectors = ceil(trips(columns) / lanes);
    const double unknown_rows = 1.3, batch_rows = 1.4; // often few
    int64_t known;
    double doubt = !rows || dim_is_int(rows, &known) ? 1 : is_batch(t, rows) ? batch_rows : unknown_rows;
    for (int r = 1; r <= (rows ? ROWS_MAX : 1) && (r == 1 || fits(rows, r)); r++)
        for (int v = 1; v <= VECTORS_MAX && (v == 1 || fits(columns, v * lanes)); v++) {
            if (doubt > 1 && r - 1 > COPIES_MAX && r % ROWS_LEFT) continue;
            if (r * v + v + 1 >= t->target->registers || r * v * size > CODE_MAX || (panel && v * lanes != panel)) continue;
            Shape s = {row, r, v, 0};
            s.cost = tile_cycles(&m, nrows, nvectors, &s) * doubt;
            if (s.cost < best->cost) *best = s;
        }
}

static Shape best_shape(const Tile *t, const Nest *n, int vector, int lanes) {
    Shape best = {-1, 1, 1, 1e300};
    try_shapes(t, n, -1, vector, lanes, &best);
    for (int i = n->n - 1; i >= 0; i--)
        if (i != vector) try_shapes(t, n, i, vector, lanes, &best);
    return best;
}

// A loop of lanes * vectors iterations.
static void write_vectors(Tile *t, const char *name, int lanes, int vectors) {
    if (vectors > 1)
        str_printf(&t->text, "split(%s, %d) vectorize(%s_i, %d) jam(%s_o) ", name, lanes, name, lanes, name);
    else
        str_printf(&t->text, "vectorize(%s, %d) ", name, lanes);
}

static void write_lanes(Tile *t, const char *name, const Dim *extent, int lanes, int vectors, const char *tail);

// What is left over of a loop split in blocks of lanes * vectors: the loop name_t.
static void write_lanes_left(Tile *t, const char *name, const Dim *extent, int lanes, int vectors) {
    DimTable *d = t->p->dims;
    int64_t n;
    const Dim *rest = dim_mod(d, extent, dim_int(d, lanes * vectors));
    if (dim_is(rest, 0)) return;
    if (vectors == 1 || dim_le(d, rest, dim_int(d, lanes)) == YES) {
        int some = dim_is_int(rest, &n) ? power_of_two_from(n) : lanes;
        str_printf(&t->text, "vectorize(%s_t, %d) ", name, some);
        return;
    }
    write_lanes(t, arena_printf(t->p->arena, "%s_t", name), rest, lanes, 1, "peel");
}

static void write_lanes(Tile *t, const char *name, const Dim *extent, int lanes, int vectors, const char *tail) {
    int64_t n;
    if (dim_is_int(extent, &n) && n <= lanes) {
        str_printf(&t->text, "vectorize(%s, %d) ", name, power_of_two_from(n));
        return;
    }
    str_printf(&t->text, "split(%s, %d, %s) ", name, lanes * vectors, tail);
    write_vectors(t, arena_printf(t->p->arena, "%s_i", name), lanes, vectors);
    write_lanes_left(t, name, extent, lanes, vectors);
}

// Rows left over of a number known at run time only: a copy of the tile for each number up to COPIES_MAX, else first by ROWS_LEFT, which may
// leave a known number, none too.
static void write_rows_left(Tile *t, const char *name, const Dim *rest, int most) {
    if (most <= COPIES_MAX) {
        str_printf(&t->text, "jam(%s) ", name);
        return;
    }
    DimTable *d = t->p->dims;
    int64_t n;
    str_printf(&t->text, "split(%s, %d, peel) jam(%s_i) ", name, ROWS_LEFT, name);
    bool known = dim_is_int(dim_mod(d, rest, dim_int(d, ROWS_LEFT)), &n);
    if (!known || n > 1) str_printf(&t->text, "jam(%s_t) ", name);
}

static void write_rows(Tile *t, const char *name, const Dim *extent, int rows, const char *tail) {
    DimTable *d = t->p->dims;
    int64_t n;
    if (rows < 2) return;
    if (dim_is_int(extent, &n) && n <= rows) {
        str_printf(&t->text, "jam(%s) ", name);
        return;
    }
    const Dim *rest = dim_mod(d, extent, dim_int(d, rows));
    str_printf(&t->text, "split(%s, %d, %s) jam(%s_i) ", name, rows, tail, name);
    if (dim_is_int(rest, &n)) {
        if (n > 1) str_printf(&t->text, "jam(%s_t) ", name);
    } else if (rows > 2)
        write_rows_left(t, arena_printf(t->p->arena, "%s_t", name), rest, rows - 1);
}

// The loop of the nest whose iterations share most loads; -1 when none shares any.
static int sharing_loop(const Tile *t, const Nest *n) {
    int best = -1;
    double most = 0;
    for (int i = n->n - 1; i >= 0; i--) {
        LoadMix m = load_mix(t->p, n->body, n->loop[i]->sym, NULL);
        if (m.mix[0][0] <= most || trips(extent_of(t->p, n->loop[i])) < 2) continue;
        most = m.mix[0][0];
        best = i;
    }
    return best;
}

static const char *tail_of(int loop, bool outermost) {
    return loop == 0 && outermost ? "branch" : "peel";
}

// Puts the loop that streams less memory again and again outside: with blocks of a outside, all that varies with b passes by for each of
// them.
static void order_loops(Tile *t, Nest *n, const Shape *s, int *vector, int lanes) {
    int a = s->row < *vector ? s->row : *vector, b = a + 1;
    if (s->row < 0 || (s->row != b && *vector != b)) return;
    const double near = t->target->l2 / 2.0;
    double blocks[2] = {trips(extent_of(t->p, n->loop[a])), trips(extent_of(t->p, n->loop[b]))};
    blocks[s->row - a] /= s->rows;
    blocks[*vector - a] /= s->vectors * lanes;
    double as_is = blocks[0] * streamed_bytes(n, a, n->loop[b]->sym, near),
           turned = blocks[1] * streamed_bytes(n, a, n->loop[a]->sym, near);
    if (turned >= 0.7 * as_is) return;
    str_printf(&t->text, "reorder(%s, %s) ", name_of(n->loop[b]), name_of(n->loop[a]));
    Stmt *swap = n->loop[a];
    n->loop[a] = n->loop[b];
    n->loop[b] = swap;
    *vector = *vector == a ? b : a;
}

// The name that the first copy of a loop gets; NULL: not known.
static const char *copy_name(const Tile *t, const Stmt *loop) {
    const char *name = name_of(loop), *copy = arena_printf(t->p->arena, "%s_2", name), *end = name + strlen(name);
    while (end > name && strchr("0123456789", end[-1])) end--;
    bool numbered = *end && end > name && end[-1] == '_'; // a copy itself
    const LoopNames *names = t->k->body.names;
    return numbered || !names || names_has(names, copy) ? NULL : copy;
}

// Passes over a panel while the loops inside of the vector loop run.
static double passes_over(const Tile *t, const Nest *n, const Shape *s, int vector) {
    double passes = 1.0 / s->rows;
    for (int i = vector + 1; i < n->n; i++) {
        int64_t known;
        if (!dim_is_int(extent_of(t->p, n->loop[i]), &known)) return 0;
        passes *= (double)known;
    }
    return passes;
}

// How a tile's operands are kept near: its vector loop's panels copied, its reduction cut in parts.
typedef struct {
    bool packs;
    Operand operand; // to pack
    int loop;        // of the nest: all of its iterations for a part before the next; -1: no parts
    int64_t part;
    const char *panel, *states; // names
} Blocking;

static void find_other(void *ctx, Stmt *s) {
    *(bool *)ctx |= s->kind != ST_SET && s->kind != ST_LET && s->kind != ST_FOR && s->kind != ST_COMMENT;
}

static void find_set(void *ctx, Stmt *s) {
    *(bool *)ctx |= s->kind == ST_SET;
}

// Nothing but its states is changed by the reduction b starts with, and they only by it.
static bool is_plain_sum(const Block *b) {
    bool other = false;
    if (!b->n || b->data[0]->kind != ST_REDUCE) return false;
    Block in = b->data[0]->body, rest = {.data = b->data + 1, .n = b->n - 1};
    loop_walk(&in, find_other, &other);
    loop_walk(&rest, find_set, &other);
    return !other;
}

static int64_t divisor_up_to(int64_t n, int64_t most) {
    int64_t best = 1;
    for (int64_t i = 1; i <= most && i <= n; i++)
        if (n % i == 0) best = i;
    return best;
}

// The loop for whose iterations a part stays near: the innermost one that passes over it often, else the outermost one whose states fit.
static int loop_of_parts(const Tile *t, const Nest *n, const Shape *s, int vector, int width) {
    const double often = 10, enough = 4;
    const int64_t states_most = t->target->l2 / 8;
    int best = -1;
    int64_t elements = width;
    double passes = 1.0 / s->rows;
    bool rows = false;
    for (int i = n->n - 1; i > vector; i--) {
        int64_t extent;
        if (!dim_is_int(extent_of(t->p, n->loop[i]), &extent) || extent * elements * 4 > states_most) break;
        elements *= extent;
        passes *= (double)extent;
        rows |= i == s->row;
        if (rows && passes >= enough) best = i;
        if (rows && passes >= often) break;
    }
    return best;
}

// Parts of the reduction of which the panel and the rows of a tile stay in the first cache.
static void choose_parts(const Tile *t, const Nest *n, const Shape *s, int vector, int width, Blocking *b) {
    const Stmt *r = n->body->data[0];
    const double usable = 0.625 * t->target->l1, least = 48; // cycles of a part: its states are loaded and stored
    int64_t extent, lo;
    if (!is_plain_sum(n->body) || r->step != 1 || r->unroll) return;
    if (!dim_is_int(r->lo, &lo) || !dim_is_int(extent_of(t->p, r), &extent)) return;
    double bytes = operand_bytes(n, r, vector, width, s->row, s->rows), steps = runs_inside(t, r);
    if (bytes * (double)extent <= 1.25 * t->target->l1) return;
    b->part = divisor_up_to(extent, (int64_t)(usable / bytes));
    if ((double)b->part * steps < least || b->part == extent) return;
    b->loop = loop_of_parts(t, n, s, vector, width);
}

static bool choose_blocking(const Tile *t, const Nest *n, const Shape *s, int vector, int lanes, Blocking *b) {
    const double worth = 0.25, passes = 4;
    enum { PANEL_MOST = 64 << 10 };
    const char *name = name_of(n->loop[vector]);
    int width = lanes * s->vectors;
    int64_t known;
    *b = (Blocking){.loop = -1, .panel = arena_printf(t->p->arena, "%s_panel", name)};
    b->states = arena_printf(t->p->arena, "%s_states", name);
    if (vector > s->row || !copy_name(t, n->loop[s->row]) || !dim_is_int(extent_of(t->p, n->loop[vector]), &known) || known <= width)
        return false;
    if (names_has(t->k->body.names, b->panel) || names_has(t->k->body.names, b->states)) return false;
    bool streams = operand_find(n, vector, width, t->target, &b->operand);
    int64_t bytes = streams ? b->operand.rows * width * dtype_bytes(b->operand.buffer->var.type.type) : 0;
    b->packs = streams && b->operand.missing >= worth && passes_over(t, n, s, vector) >= passes;
    if (!b->packs || bytes > PANEL_MOST) choose_parts(t, n, s, vector, width, b);
    if (b->loop < 0 && bytes > PANEL_MOST) b->packs = false;
    if (b->packs) b->packs = operand_set_apart(t->p, t->k);
    return b->packs || b->loop >= 0;
}

// The vector loop is cut into panels first; its iterations go inside of the loops that use a panel again. Then what the tile reads is kept
// near: an operand that does not stay in the first cache is copied panel by panel into memory of its own, a long reduction goes in parts.
static bool write_blocked(Tile *t, const Nest *n, const Shape *s, int vector, int lanes, bool outermost) {
    Blocking b;
    int64_t known;
    if (!choose_blocking(t, n, s, vector, lanes, &b)) return false;
    const Stmt *row = n->loop[s->row];
    const Dim *extent = extent_of(t->p, n->loop[vector]);
    int width = lanes * s->vectors;
    const char *name = name_of(n->loop[vector]);
    const char *at = arena_printf(t->p->arena, "%s_o", name), *in = arena_printf(t->p->arena, "%s_i", name);
    str_printf(&t->text, "split(%s, %d, %s) ", name, width, tail_of(vector, outermost));
    if (dim_is_int(extent, &known) && known % width) {
        write_rows(t, copy_name(t, row), extent_of(t->p, row), s->rows, "peel");
        write_lanes_left(t, name, extent, lanes, s->vectors);
        // A loop of one iteration: what is left over may stand in the same iteration of the outer one.
        str_printf(&t->text, "split(%s, %d) ", in, width);
        at = arena_printf(t->p->arena, "%s_o", in);
        in = arena_printf(t->p->arena, "%s_i", in);
    }
    str_printf(&t->text, "reorder(");
    for (int i = vector + 1; i < n->n; i++) str_printf(&t->text, "%s, ", name_of(n->loop[i]));
    str_printf(&t->text, "%s) ", in);
    const Stmt *reduce = b.loop < 0 ? NULL : n->body->data[0];
    if (reduce) {
        str_printf(&t->text, "parts(%s, %s, %lld, %s) ", name_of(n->loop[b.loop]), name_of(reduce), (long long)b.part, b.states);
        at = arena_printf(t->p->arena, "%s_o", name_of(reduce));
        write_vectors(t, arena_printf(t->p->arena, "%s_%s", b.states, in), lanes, s->vectors);
        write_vectors(t, arena_printf(t->p->arena, "%s_%s_f", b.states, in), lanes, s->vectors);
    }
    if (b.packs) {
        str_printf(&t->text, "pack(%s, %s, %s, ", b.operand.buffer->var.name, at, b.panel);
        for (int i = 0; i < b.operand.nloops; i++)
            str_printf(&t->text, "%s%s, ", name_of(b.operand.loops[i]), b.operand.loops[i] == reduce ? "_i" : "");
        str_printf(&t->text, "%s) ", in);
        write_vectors(t, arena_printf(t->p->arena, "%s_%s", b.panel, in), lanes, s->vectors);
    }
    write_vectors(t, in, lanes, s->vectors);
    write_rows(t, name_of(row), extent_of(t->p, row), s->rows, "peel");
    return true;
}

static void write_tile(Tile *t, Nest *n, int vector, int lanes, bool outermost) {
    bool reduces = count(n->body, find_reduce) == 1 && count(n->body, find_par) == 0;
    Shape shape = reduces ? best_shape(t, n, vector, lanes) : (Shape){-1, 1, 1, 0};
    int was = vector;
    order_loops(t, n, &shape, &vector, lanes);
    if (vector != was) shape.row = was;
    if (shape.row >= 0 && write_blocked(t, n, &shape, vector, lanes, outermost)) return;
    for (int i = n->n - 1; i >= 0; i--) {
        const Dim *extent = extent_of(t->p, n->loop[i]);
        if (i == vector) write_lanes(t, name_of(n->loop[i]), extent, lanes, shape.vectors, tail_of(i, outermost));
        if (i == shape.row) write_rows(t, name_of(n->loop[i]), extent, shape.rows, tail_of(i, outermost));
    }
}

// ---- nests ----

static bool in_lanes(const Tile *t, const Stmt *loop, int lanes) {
    Lanes l = lanes_new(t->p, lanes);
    lanes_symbol(&l, loop->sym, loop->lo);
    return lanes_prepare(&l, &loop->body);
}

static double choose_block(Tile *t, Block *b, bool outermost);

// The loops' trips outside of the body count only in the result.
static double choose_nest(Tile *t, Stmt *f, bool outermost) {
    enum { SIDE_BY_SIDE = 4 };
    Nest n = nest_of(t->p, f);
    double times = 1;
    for (int i = 0; i < n.n; i++) times *= trips(extent_of(t->p, n.loop[i]));
    int lanes = lanes_for(t, n.body), vector = -1;
    double best = 1e300;
    for (int i = 0; i < n.n && lanes > 1; i++) {
        const Dim *extent = extent_of(t->p, n.loop[i]);
        if (trips(extent) < 2) continue;
        double c = block_cost(t->p, n.body, n.loop[i]->sym, lanes) / (lanes * use(t, extent, lanes));
        bool panels = panel_width(n.body, n.loop[i]->sym) > 0; // made for lanes along this loop
        if ((c > best && !panels) || !in_lanes(t, n.loop[i], lanes)) continue;
        best = c;
        vector = i;
        if (panels) break;
    }
    size_t mark = t->text.n;
    bool product = count(n.body, find_reduce) == 1 && count(n.body, find_par) == 0, around = t->jammed;
    int row = product ? sharing_loop(t, &n) : -1;
    t->jammed = row >= 0;
    double inside = choose_block(t, n.body, false);
    t->jammed = around;
    if (vector >= 0 && best <= inside) {
        t->text.n = mark;
        if (t->text.data) t->text.data[mark] = 0;
        write_tile(t, &n, vector, lanes, outermost);
        return times * best;
    }
    if (row >= 0 && t->text.n > mark)
        write_rows(t, name_of(n.loop[row]), extent_of(t->p, n.loop[row]), SIDE_BY_SIDE, tail_of(row, outermost));
    return times * inside;
}

static double choose_stmt(Tile *t, Stmt *s, bool outermost) {
    Block single = {&s, 1, 1, NULL};
    if (s->kind == ST_REDUCE) return choose_reduction(t, s);
    if (s->kind == ST_FOR && nest_of(t->p, s).n) return choose_nest(t, s, outermost);
    if (s->kind != ST_FOR && s->kind != ST_WHILE && s->kind != ST_IF) return block_cost(t->p, &single, NULL, 1);
    double inside = choose_block(t, &s->body, false) + choose_block(t, &s->orelse, false);
    return s->kind == ST_FOR ? trips(extent_of(t->p, s)) * inside : inside;
}

static double choose_block(Tile *t, Block *b, bool outermost) {
    double cost = 0;
    for (int i = 0; i < b->n; i++) cost += choose_stmt(t, b->data[i], outermost && b->n == 1);
    return cost;
}

bool pass_tile(Program *p, const PassOptions *o, Diag *d) {
    (void)d;
    bool changed = false;
    if (!passes_for_speed(o)) return false;
    for (int i = 0; i < p->kernels.n; i++) {
        Kernel *k = p->kernels.data[i];
        if (k->schedule || (k->body.n && k->body.data[0]->kind == ST_TEAM)) continue;
        Tile t = {.p = p, .target = o->target, .k = k};
        choose_block(&t, &k->body, true);
        if (t.text.n) k->schedule = arena_strndup(p->arena, t.text.data, t.text.n - 1);
        changed |= t.text.n > 0;
        str_free(&t.text);
    }
    return changed;
}
