// The evaluator's templates: one function per row of template.def, whose head comment says what each means.
//
// Comparisons go through keys: an element as f64 or, for integers, as a 64-bit number, in an order where NaN is the largest. Sorting is a
// stable merge sort of positions.
#include "graph_eval.h"

#include <math.h>
#include <string.h>

// ---- keys ----

typedef struct {
    bool is_float;
    double f;
    int64_t i; // u64 with its top bit flipped
} Key;

static Key read_key(DType t, const char *at) {
    Key k = {.is_float = dtype_is_float(t)};
    if (k.is_float)
        strided_read_f64(t, at, 1, 1, &k.f);
    else
        strided_read_i64(t, at, 1, 1, &k.i);
    if (t == DT_u64) k.i ^= INT64_MIN;
    return k;
}

static int compare_f64(double a, double b) {
    if (isnan(a) || isnan(b)) return isnan(a) - isnan(b);
    return (a > b) - (a < b);
}

static int compare_keys(const Key *a, const Key *b) {
    return a->is_float ? compare_f64(a->f, b->f) : (a->i > b->i) - (a->i < b->i);
}

static int compare_strings(const char *a, const char *b) {
    StringElement s, t;
    memcpy(&s, a, sizeof s);
    memcpy(&t, b, sizeof t);
    size_t n = s.size < t.size ? s.size : t.size;
    int c = n ? memcmp(s.text, t.text, n) : 0;
    return c ? c : (s.size > t.size) - (s.size < t.size);
}

// Stable sort of the n positions in p; compare(ctx, a, b) < 0: a stands before b. room: n more.
static void merge_sort(int64_t *p, int64_t n, int64_t *room, int (*compare)(void *ctx, int64_t a, int64_t b), void *ctx) {
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t lo = 0; lo < n; lo += 2 * width) {
            int64_t mid = lo + width < n ? lo + width : n, hi = lo + 2 * width < n ? lo + 2 * width : n;
            for (int64_t i = lo, j = mid, k = lo; k < hi; k++) {
                bool left = i < mid && (j >= hi || compare(ctx, p[i], p[j]) <= 0);
                room[k] = left ? p[i++] : p[j++];
            }
        }
        memcpy(p, room, sizeof *p * (size_t)n);
    }
}

typedef struct {
    const Key *key;
    bool falling;
} KeyOrder;

static int by_key(void *ctx, int64_t a, int64_t b) {
    const KeyOrder *o = ctx;
    int c = compare_keys(&o->key[a], &o->key[b]);
    return o->falling ? -c : c;
}

// ---- size ----

static bool template_size(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    (void)out;
    const Strided *x = in[0];
    int64_t k = n->flags.data[0], v;
    if (k < 0 || k >= strided_count(x)) return eval_fail(e, n, CODE_SHAPE, "there is no element %lld", (long long)k);
    strided_read_i64(x->type, x->data + (x->rank ? k * x->stride[0] : 0) * dtype_bytes(x->type), 1, 1, &v);
    return eval_bind(e, n, n->dims.data[0], v);
}

// ---- sort, topk ----

// Lines along the node's axis: offsets of their first elements.
static int64_t *lines(Eval *e, const Strided *x, int axis, int64_t *count) {
    int64_t shape[GRAPH_MAX_RANK], stride[GRAPH_MAX_RANK];
    int n = 0;
    for (int i = 0; i < x->rank; i++) {
        if (i == axis) continue;
        shape[n] = x->shape[i];
        stride[n++] = x->stride[i];
    }
    return strided_offsets(e, n, shape, stride, count);
}

// Sorts every line and writes the first `keep` elements and positions.
static bool sort_lines(Eval *e, const Node *n, const Strided *x, bool falling, int64_t keep, Strided *out) {
    int axis = (int)n->axis, size = dtype_bytes(x->type);
    if (dtype_info(x->type)->cls == 'S' || dtype_info(x->type)->cls == 'C')
        return eval_fail(e, n, CODE_ASSERT, "cannot sort elements of type %s", dtype_name(x->type));
    int64_t len = x->shape[axis], count, *from = lines(e, x, axis, &count), *to = lines(e, &out[0], axis, &count);
    Key *key = arena_alloc(eval_scratch(e), sizeof *key * (size_t)(len + 1));
    int64_t *p = ARENA_ARRAY(eval_scratch(e), int64_t, 2 * len + 1);
    KeyOrder order = {key, falling};
    for (int64_t l = 0; l < count; l++) {
        for (int64_t i = 0; i < len; i++) {
            key[i] = read_key(x->type, x->data + (from[l] + i * x->stride[axis]) * size);
            p[i] = i;
        }
        merge_sort(p, len, p + len, by_key, &order);
        for (int64_t i = 0; i < keep; i++) {
            int64_t at = to[l] + i * out[0].stride[axis];
            memcpy(out[0].data + at * size, x->data + (from[l] + p[i] * x->stride[axis]) * size, (size_t)size);
            if (n->nout > 1) ((int64_t *)(void *)out[1].data)[at] = p[i];
        }
    }
    return true;
}

static bool alloc_sorted(Eval *e, const Node *n, const Strided *x, int64_t keep, Strided *out) {
    int64_t shape[GRAPH_MAX_RANK];
    memcpy(shape, x->shape, sizeof shape);
    shape[n->axis] = keep;
    for (int i = 0; i < n->nout; i++)
        if (!eval_alloc(e, n, n->out[i]->type, x->rank, shape, &out[i])) return false;
    return true;
}

static bool template_sort(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    int64_t len = in[0]->shape[n->axis];
    return alloc_sorted(e, n, in[0], len, out) && sort_lines(e, n, in[0], n->flags.data[0], len, out);
}

static int64_t scalar_i64(const Strided *x) {
    int64_t v = 0;
    if (strided_count(x)) strided_read_i64(x->type, x->data, 1, 1, &v);
    return v;
}

static bool template_topk(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    int64_t keep, len = in[0]->shape[n->axis];
    if (n->nin > 1)
        keep = scalar_i64(in[1]);
    else if (!eval_extent(e, n, n->out[0]->shape[n->axis], &keep))
        return false;
    if (keep < 0 || keep > len) return eval_fail(e, n, CODE_SHAPE, "k is %lld, the axis has extent %lld", (long long)keep, (long long)len);
    return alloc_sorted(e, n, in[0], keep, out) && sort_lines(e, n, in[0], n->flags.data[0], keep, out);
}

// ---- nonzero ----

static bool template_nonzero(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    Strided x;
    if (!strided_dense(e, n, in[0], &x)) return false;
    int64_t count = strided_count(&x), found = 0, size = dtype_bytes(x.type), *at = ARENA_ARRAY(eval_scratch(e), int64_t, count + 1);
    for (int64_t i = 0; i < count; i++) {
        Key k = read_key(x.type, x.data + i * size), zero = {.is_float = k.is_float};
        if (x.type == DT_u64) zero.i = INT64_MIN;
        if (compare_keys(&k, &zero)) at[found++] = i;
    }
    int rank = x.rank ? x.rank : 1;
    int64_t shape[2] = {rank, found}, inner = 1;
    if (!eval_alloc(e, n, DT_i64, 2, shape, out)) return false;
    int64_t *o = (int64_t *)(void *)out->data;
    for (int k = rank - 1; k >= 0; k--) {
        int64_t extent = x.rank ? x.shape[k] : 1;
        for (int64_t i = 0; i < found; i++) o[k * found + i] = at[i] / inner % extent;
        inner *= extent;
    }
    strided_release(e, &x);
    return true;
}

// ---- unique ----

typedef struct {
    DType type;
    int64_t items, elements; // each item is a slice of that many elements
    const char *data;        // [items][elements], dense
    const Key *key;          // NULL for strings
} Items;

static int by_item(void *ctx, int64_t a, int64_t b) {
    const Items *s = ctx;
    for (int64_t i = 0; i < s->elements; i++) {
        int64_t x = a * s->elements + i, y = b * s->elements + i;
        int c = s->key ? compare_keys(&s->key[x], &s->key[y]) : compare_strings(s->data + x * 16, s->data + y * 16);
        if (c) return c;
    }
    return 0;
}

// The slices of x along axis (-1: its elements) as rows of a dense matrix.
static bool gather_items(Eval *e, const Node *n, const Strided *x, Items *s, Strided *room) {
    Strided moved = *x;
    int axis = (int)n->axis, rank = 0;
    if (axis >= 0) {
        moved.shape[rank] = x->shape[axis];
        moved.stride[rank++] = x->stride[axis];
        for (int i = 0; i < x->rank; i++) {
            if (i == axis) continue;
            moved.shape[rank] = x->shape[i];
            moved.stride[rank++] = x->stride[i];
        }
    }
    if (!eval_alloc(e, n, x->type, x->rank, moved.shape, room)) return false;
    strided_copy(room->data, &moved);
    int64_t count = strided_count(x), size = dtype_bytes(x->type);
    s->type = x->type;
    s->items = axis < 0 ? count : x->shape[axis];
    s->elements = axis < 0 ? 1 : s->items ? count / s->items : 0;
    s->data = room->data;
    if (x->type == DT_str) return true;
    Key *key = arena_alloc(eval_scratch(e), sizeof *key * (size_t)(count + 1));
    for (int64_t i = 0; i < count; i++) key[i] = read_key(x->type, room->data + i * size);
    s->key = key;
    return true;
}

typedef struct {
    int64_t first, count, rank;
} Group; // of equal items; rank: its place in the output

static bool write_unique(
    Eval *e, const Node *n, const Strided *x, const Items *s, const Group *groups, int64_t ngroups, const int64_t *group_of, Strided *out) {
    int64_t shape[GRAPH_MAX_RANK] = {ngroups}, size = dtype_bytes(x->type);
    int axis = n->axis < 0 ? 0 : (int)n->axis, rank = n->axis < 0 ? 1 : x->rank;
    for (int i = 0; i < rank && n->axis >= 0; i++) shape[i] = i == axis ? ngroups : x->shape[i];
    if (!eval_alloc(e, n, x->type, rank, shape, &out[0])) return false;
    for (int i = 1; i < n->nout; i++)
        if (!eval_alloc(e, n, DT_i64, 1, i == 2 ? &s->items : &ngroups, &out[i])) return false;
    int64_t lines_count, *line = lines(e, &out[0], axis, &lines_count);
    for (int64_t g = 0; g < ngroups; g++) {
        for (int64_t i = 0; i < s->elements; i++)
            memcpy(out[0].data + (line[i] + groups[g].rank * out[0].stride[axis]) * size,
                s->data + (groups[g].first * s->elements + i) * size, (size_t)size);
        if (n->nout > 1) ((int64_t *)(void *)out[1].data)[groups[g].rank] = groups[g].first;
        if (n->nout > 3) ((int64_t *)(void *)out[3].data)[groups[g].rank] = groups[g].count;
    }
    for (int64_t i = 0; i < s->items && n->nout > 2; i++) ((int64_t *)(void *)out[2].data)[i] = groups[group_of[i]].rank;
    return true;
}

static int by_first(void *ctx, int64_t a, int64_t b) {
    const Group *g = ctx;
    return (g[a].first > g[b].first) - (g[a].first < g[b].first);
}

static bool template_unique(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    Items s = {.key = NULL};
    Strided room;
    if (!gather_items(e, n, in[0], &s, &room)) return false;
    Arena *a = eval_scratch(e);
    int64_t *p = ARENA_ARRAY(a, int64_t, 2 * s.items + 1), *group_of = ARENA_ARRAY(a, int64_t, s.items + 1), ngroups = 0;
    Group *groups = ARENA_ARRAY(a, Group, s.items + 1);
    for (int64_t i = 0; i < s.items; i++) p[i] = i;
    merge_sort(p, s.items, p + s.items, by_item, &s);
    for (int64_t i = 0; i < s.items; i++) {
        if (i == 0 || by_item(&s, p[i - 1], p[i])) {
            groups[ngroups] = (Group){.first = p[i], .rank = ngroups};
            ngroups++;
        }
        groups[ngroups - 1].count++;
        group_of[p[i]] = ngroups - 1;
    }
    if (!n->flags.data[0]) {
        for (int64_t g = 0; g < ngroups; g++) p[g] = g;
        merge_sort(p, ngroups, p + s.items, by_first, groups);
        for (int64_t g = 0; g < ngroups; g++) groups[p[g]].rank = g;
    }
    bool ok = write_unique(e, n, in[0], &s, groups, ngroups, group_of, out);
    strided_release(e, &room);
    return ok;
}

// ---- nms ----

typedef struct {
    double y1, x1, y2, x2;
} Box;

static Box read_box(const Strided *boxes, int64_t batch, int64_t i, bool centre) {
    double v[4];
    strided_read_f64(
        boxes->type, boxes->data + (batch * boxes->stride[0] + i * boxes->stride[1]) * dtype_bytes(boxes->type), boxes->stride[2], 4, v);
    if (centre) return (Box){v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
    return (Box){fmin(v[0], v[2]), fmin(v[1], v[3]), fmax(v[0], v[2]), fmax(v[1], v[3])};
}

// Intersection over union; 0 for boxes without area. In f32, as a threshold that is met exactly must be met everywhere.
static float overlap(const Box *a, const Box *b) {
    float h = (float)fmin(a->y2, b->y2) - (float)fmax(a->y1, b->y1), w = (float)fmin(a->x2, b->x2) - (float)fmax(a->x1, b->x1);
    float area_a = (float)(a->y2 - a->y1) * (float)(a->x2 - a->x1), area_b = (float)(b->y2 - b->y1) * (float)(b->x2 - b->x1);
    if (h <= 0 || w <= 0 || area_a <= 0 || area_b <= 0) return 0;
    float both = h * w;
    return both / (area_a + area_b - both);
}

static double scalar_f64(const Strided *x) {
    double v = 0;
    if (strided_count(x)) strided_read_f64(x->type, x->data, 1, 1, &v);
    return v;
}

typedef struct {
    int64_t batch, cls, box;
} Picked;

static bool template_nms(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    const Strided *boxes = in[0], *scores = in[1];
    int64_t N = boxes->shape[1], max = scalar_i64(in[2]);
    double iou = scalar_f64(in[3]), least = scalar_f64(in[4]);
    if (scores->shape[0] != boxes->shape[0] || scores->shape[2] != N || boxes->shape[2] != 4)
        return eval_fail(e, n, CODE_SHAPE, "boxes and scores do not fit");
    Arena *a = eval_scratch(e);
    VEC(Picked) picked = {0};
    Box *box = arena_alloc(a, sizeof *box * (size_t)(N + 1));
    Key *key = arena_alloc(a, sizeof *key * (size_t)(N + 1));
    int64_t *p = ARENA_ARRAY(a, int64_t, 2 * N + 1);
    KeyOrder order = {key, true};
    for (int64_t b = 0; b < boxes->shape[0]; b++) {
        for (int64_t i = 0; i < N; i++) box[i] = read_box(boxes, b, i, n->flags.data[0]);
        for (int64_t c = 0; c < scores->shape[1]; c++) {
            int64_t candidates = 0;
            int first = picked.n;
            for (int64_t i = 0; i < N; i++) {
                key[i] = read_key(scores->type,
                    scores->data + (b * scores->stride[0] + c * scores->stride[1] + i * scores->stride[2]) * dtype_bytes(scores->type));
                if (key[i].f > least) p[candidates++] = i;
            }
            merge_sort(p, candidates, p + N, by_key, &order);
            for (int64_t i = 0; i < candidates && picked.n - first < max; i++) {
                bool keep = true;
                for (int k = first; k < picked.n && keep; k++) keep = !(overlap(&box[p[i]], &box[picked.data[k].box]) > (float)iou);
                Picked t = {b, c, p[i]};
                if (keep) vec_push(a, &picked, t);
            }
        }
    }
    int64_t shape[2] = {picked.n, 3};
    if (!eval_alloc(e, n, DT_i64, 2, shape, out)) return false;
    if (picked.n) memcpy(out->data, picked.data, sizeof *picked.data * (size_t)picked.n);
    return true;
}

static const struct {
    const char *kind;
    EvalFn *fn;
} templates[] = {
#define T(kind, min_in, max_in, min_out, max_out, ndims, nflags, meaning) {#kind, template_##kind},
#include "template.def"
#undef T
};

bool eval_template(Eval *e, const Node *n, const Strided *const *in, Strided *out) {
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++)
        if (!strcmp(templates[i].kind, n->kind)) return templates[i].fn(e, n, in, out);
    return eval_fail(e, n, CODE_ASSERT, "there is no template %s", n->kind);
}
