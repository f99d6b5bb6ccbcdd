// Ensembles of trees as tables: all rows and trees walk at once.
//
// The nodes of all trees get numbers 0 … M-1. A core loop of as many trips as the deepest tree holds the node of each row and tree,
// i32[N, T]; an iteration reads the node's feature, threshold and test, and goes on to its true or false child; a leaf is its own child.
// The weights of the leaves reached, [N, T, targets], are summed over the trees.
#include "formula.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef const Dim *const *DimArray;

typedef enum { TEST_LEQ, TEST_LT, TEST_GTE, TEST_GT, TEST_EQ, TEST_NEQ, TEST_MEMBER, TEST_LEAF, TEST_COUNT } Test;

static const struct {
    const char *name, *text; // over a0, the feature, and a1, the threshold
} tests[TEST_COUNT] = {
    {"BRANCH_LEQ", "a0 <= a1"},
    {"BRANCH_LT", "a0 < a1"},
    {"BRANCH_GTE", "a0 >= a1"},
    {"BRANCH_GT", "a0 > a1"},
    {"BRANCH_EQ", "a0 == a1"},
    {"BRANCH_NEQ", "a0 != a1"},
    {"BRANCH_MEMBER", NULL},
    {"LEAF", "a0 <= a1"},
};

typedef struct {
    int64_t feature, yes, no; // children by number; a leaf's is its own
    double value;
    Test test;
    bool missing; // a NaN goes to yes
} TreeNode;

typedef struct {
    ImportNode *n;
    VEC(TreeNode) nodes;
    VEC(int32_t) roots;
    double *weight; // [nodes, targets]
    bool *weighted; // [nodes, targets]: has a weight
    int targets;
    int64_t depth;
    DType type; // of features and thresholds
} Forest;

enum { MAX_TARGETS = 1 << 16, MAX_TREE_NODES = 1 << 22 };

// ---- checks ----
// The longest way from a root, with every child behind its parent seen once a tree; false when a way comes back.
static bool forest_depth(Forest *f) {
    int count = f->nodes.n;
    int64_t *below = ARENA_ARRAY(f->n->arena, int64_t, count + 1); // 0: not seen, -1: being visited, else depth + 1
    int32_t *stack = ARENA_ARRAY(f->n->arena, int32_t, count + 1);
    for (int r = 0; r < f->roots.n; r++) {
        int top = 0;
        stack[top++] = f->roots.data[r];
        while (top) {
            int32_t at = stack[top - 1];
            const TreeNode *t = &f->nodes.data[at];
            int64_t child[] = {t->yes, t->no};
            if (t->test == TEST_LEAF) below[at] = 1;
            if (below[at] > 0) {
                top--;
                continue;
            }
            bool ready = true;
            below[at] = -1;
            for (int k = 0; k < 2; k++) {
                if (below[child[k]] == -1) return import_fail(f->n, "node %d is above itself", (int)child[k]);
                if (below[child[k]] || !ready) continue;
                stack[top++] = (int32_t)child[k];
                ready = false;
            }
            if (!ready) continue;
            int64_t a = below[child[0]], b = below[child[1]];
            below[at] = 1 + (a > b ? a : b);
        }
        int64_t depth = below[f->roots.data[r]] - 1;
        if (depth > f->depth) f->depth = depth;
    }
    return true;
}

static bool check_nodes(Forest *f) {
    int64_t features;
    const Value *x = f->n->in[0];
    bool known = dim_is_int(x->shape[1], &features);
    for (int i = 0; i < f->nodes.n; i++) {
        const TreeNode *t = &f->nodes.data[i];
        if (t->yes < 0 || t->yes >= f->nodes.n || t->no < 0 || t->no >= f->nodes.n)
            return import_fail(f->n, "node %d has a child that does not exist", i);
        if (t->feature < 0 || (known && t->feature >= features))
            return import_fail(f->n, "node %d tests feature %ld of %s", i, (long)t->feature, import_shape_text(f->n, x));
    }
    return f->roots.n > 0 || import_fail(f->n, "there are no trees");
}

// ---- tables ----
static Value *table(Forest *f, DType t, int columns, double (*entry)(const Forest *f, int node, int column)) {
    int count = f->nodes.n, size = dtype_bytes(t);
    char *bytes = arena_alloc(f->n->arena, (size_t)count * (size_t)(columns ? columns : 1) * (size_t)size);
    for (int i = 0, at = 0; i < count; i++)
        for (int k = 0; k < (columns ? columns : 1); k++, at++)
            scalar_write(scalar_float(t, entry(f, i, k)), bytes + (size_t)at * (size_t)size);
    const Dim *shape[] = {dim_int(f->n->dims, count), dim_int(f->n->dims, columns)};
    return g_const(&f->n->b, t, columns ? 2 : 1, shape, (Data){bytes, (size_t)count * (size_t)(columns ? columns : 1) * (size_t)size});
}

static double entry_feature(const Forest *f, int i, int k) {
    return (void)k, (double)f->nodes.data[i].feature;
}
static double entry_value(const Forest *f, int i, int k) {
    return (void)k, f->nodes.data[i].value;
}
static double entry_yes(const Forest *f, int i, int k) {
    return (void)k, (double)f->nodes.data[i].yes;
}
static double entry_no(const Forest *f, int i, int k) {
    return (void)k, (double)f->nodes.data[i].no;
}
static double entry_test(const Forest *f, int i, int k) {
    return (void)k, (double)f->nodes.data[i].test;
}
static double entry_missing(const Forest *f, int i, int k) {
    return (void)k, f->nodes.data[i].missing;
}
static double entry_weight(const Forest *f, int i, int k) {
    return f->weight[(size_t)i * (size_t)f->targets + (size_t)k];
}

// table[node] for every row and tree.
static Value *look_up(ImportNode *n, Value *t, Value *node) {
    const Dim *v = dim_symbol(n->dims, "v0", SYM_DATA, NULL, NULL);
    return g_gather(&n->b, t, 1, &node, &v, node->rank, (DimArray)node->shape, &v, 0, NULL, scalar_int(t->type, 0));
}

// ---- the walk ----
// The test of the node at hand as text, over a0 the feature, a1 the threshold, a2 the kind of test, a3 whether NaN goes to yes.
static const char *test_text(const Forest *f, bool *kinds, bool *missing) {
    Arena *a = f->n->arena;
    unsigned used = 0;
    *missing = false;
    for (int i = 0; i < f->nodes.n; i++) {
        if (f->nodes.data[i].test != TEST_LEAF) used |= 1u << f->nodes.data[i].test;
        *missing |= f->nodes.data[i].missing;
    }
    const char *text = NULL;
    *kinds = (used & (used - 1)) != 0;
    for (int t = 0; t < TEST_MEMBER; t++)
        if (used & (1u << t)) text = text ? arena_printf(a, "select(a2 == %d, %s, %s)", t, tests[t].text, text) : tests[t].text;
    if (!text) text = tests[TEST_LEQ].text;
    return *missing ? arena_printf(a, "(%s) | ((a0 != a0) & (a3 != 0))", text) : text;
}

static Value *next_node(Forest *f, Value *x, Value *node) {
    ImportNode *n = f->n;
    bool kinds, missing;
    const char *test = test_text(f, &kinds, &missing);
    Value *feature = look_up(n, table(f, DT_i32, 0, entry_feature), node);
    const Dim *v = dim_symbol(n->dims, "v0", SYM_DATA, NULL, NULL), *index[] = {dim_axis(n->dims, 0, node->shape[0]), v};
    Value *in[] = {g_gather(&n->b, x, 1, &feature, &v, 2, (DimArray)node->shape, index, 0, NULL, scalar_int(x->type, 0)),
        look_up(n, table(f, f->type, 0, entry_value), node), node, node, look_up(n, table(f, DT_i32, 0, entry_yes), node),
        look_up(n, table(f, DT_i32, 0, entry_no), node)};
    if (kinds) in[2] = look_up(n, table(f, DT_i32, 0, entry_test), node);
    if (missing) in[3] = look_up(n, table(f, DT_i32, 0, entry_missing), node);
    return formula_map(n, arena_printf(n->arena, "select(%s, a4, a5)", test), 6, in);
}

// The leaf of each row and tree: i32[N, T].
static Value *walk(Forest *f, Value *x) {
    ImportNode *n = f->n;
    const Dim *trees = dim_int(n->dims, f->roots.n), *shape[] = {x->shape[0], trees}, *times = dim_int(n->dims, f->depth);
    Value *start = g_const(&n->b, DT_i32, 1, &trees, (Data){f->roots.data, sizeof(int32_t) * (size_t)f->roots.n});
    start = g_expand(&n->b, start, 2, shape);
    if (f->depth == 0) return start;
    int64_t one = 1;
    Value *trip = g_dims(&n->b, -1, &times), *always = g_const_ints(&n->b, DT_bool, -1, &one);
    Region *body = graph_region_new(n->b.g, NULL), *outer = n->b.region;
    graph_param(body, NULL, DT_i64, 0, NULL);
    graph_param(body, NULL, DT_bool, 0, NULL);
    Value *node = graph_param(body, NULL, DT_i32, 2, shape);
    n->b.region = body;
    Value *next = next_node(f, x, node), *yields[] = {next ? g_const_ints(&n->b, DT_bool, -1, &one) : NULL, next};
    n->b.region = outer;
    if (!next) return NULL;
    for (int i = 0; i < 2; i++) vec_push(n->arena, &body->yields, yields[i]);
    return g_loop(&n->b, trip, always, 1, &start, body, 0)->out[0];
}

// "sum", "min" or "max" over the trees: [N, targets].
static Value *forest_scores(Forest *f, const char *aggregate) {
    ImportNode *n = f->n;
    Value *x = g_cast(&n->b, f->type, n->in[0]);
    if (!check_nodes(f) || !forest_depth(f)) return NULL;
    Value *leaf = walk(f, x);
    if (!leaf) return NULL;
    bool mean = !strcmp(aggregate, "average");
    const Dim *targets = dim_int(n->dims, f->targets), *shape[] = {leaf->shape[0], leaf->shape[1], targets};
    const Dim *v = dim_symbol(n->dims, "v0", SYM_DATA, NULL, NULL), *index[] = {v, dim_axis(n->dims, 2, targets)};
    Value *at = g_unsqueeze(&n->b, leaf, 2), *weights = table(f, f->type, f->targets, entry_weight);
    Value *each = g_gather(&n->b, weights, 1, &at, &v, 3, shape, index, 0, NULL, scalar_int(f->type, 0));
    int64_t axis = 1;
    Value *y = g_reduce(&n->b, mean ? "sum" : aggregate, each, 1, &axis, false);
    return mean ? g_map2(&n->b, X_div, y, g_const_float(&n->b, f->type, f->roots.n)) : y;
}

static bool forest_begin(Forest *f, ImportNode *n) {
    const Value *x = n->in[0];
    *f = (Forest){.n = n, .type = x->type == DT_f64 ? DT_f64 : DT_f32};
    if (!import_numeric(n, 0)) return false;
    return x->rank == 2 || import_fail(n, "%s has not the shape [rows, features]", import_shape_text(n, x));
}

// ---- attributes ----
// A list of floats, or, in newer versions, a tensor.
static F64List floats_or_tensor(ImportNode *n, const char *name, bool *ok) {
    const char *tensor = arena_printf(n->arena, "%s_as_tensor", name);
    if (!attr_exists(n, tensor) || !attr_has(n, tensor)) return attr_floats(n, name);
    Value *v = attr_tensor(n, tensor);
    Tensor t;
    if (!v || !import_known_tensor(n, v, &t)) return *ok = false, (F64List){0};
    int count = (int)tensor_count(&t);
    double *d = ARENA_ARRAY(n->arena, double, count + 1);
    for (int i = 0; i < count; i++)
        d[i] = scalar_as_f64(scalar_read(t.type, (const char *)t.data + (size_t)i * (size_t)dtype_bytes(t.type)));
    return (F64List){d, count};
}

static bool constant_numbers(ImportNode *n, const char *name, F64List *out) {
    Value *v = attr_tensor(n, name);
    Tensor t;
    *out = (F64List){0};
    if (!v) return !attr_has(n, name);
    if (!import_known_tensor(n, v, &t)) return import_unsupported(n, "%s is too large", name);
    int count = (int)tensor_count(&t);
    double *d = ARENA_ARRAY(n->arena, double, count + 1);
    for (int i = 0; i < count; i++)
        d[i] = scalar_as_f64(scalar_read(t.type, (const char *)t.data + (size_t)i * (size_t)dtype_bytes(t.type)));
    *out = (F64List){d, count};
    return true;
}

static bool weights_begin(Forest *f, int targets) {
    if (targets < 1 || targets > MAX_TARGETS || (int64_t)f->nodes.n * targets > MAX_TREE_NODES * 4)
        return import_fail(f->n, "%d targets for %d nodes are out of range", targets, f->nodes.n);
    f->targets = targets;
    f->weight = ARENA_ARRAY(f->n->arena, double, f->nodes.n *targets);
    f->weighted = ARENA_ARRAY(f->n->arena, bool, f->nodes.n *targets);
    return true;
}

static bool add_weight(Forest *f, int64_t node, int64_t target, double w) {
    if (target < 0 || target >= f->targets) return import_fail(f->n, "target %ld of %d", (long)target, f->targets);
    f->weight[node * f->targets + target] += w;
    f->weighted[node * f->targets + target] = true;
    return true;
}

// Minimum and maximum leave out trees whose leaf has no weight for a target, which the tables cannot say.
static bool check_aggregate(const Forest *f, const char *aggregate) {
    if (strcmp(aggregate, "min") && strcmp(aggregate, "max")) return true;
    for (int i = 0; i < f->nodes.n; i++)
        for (int k = 0; k < f->targets && f->nodes.data[i].test == TEST_LEAF; k++)
            if (!f->weighted[i * f->targets + k])
                return import_unsupported(f->n, "aggregation by %s with leaves that lack a target", aggregate);
    return true;
}

// ---- the first form: nodes named by tree and number ----
typedef struct {
    int64_t tree, id;
    int number;
} NodeName;

typedef struct {
    NodeName *sorted;
    int n;
} NodeNames;

static int by_name(const void *a, const void *b) {
    const NodeName *x = a, *y = b;
    if (x->tree != y->tree) return x->tree < y->tree ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static NodeNames node_names(ImportNode *n, IntList tree, IntList id) {
    NodeNames m = {ARENA_ARRAY(n->arena, NodeName, tree.n + 1), tree.n};
    for (int i = 0; i < tree.n; i++) m.sorted[i] = (NodeName){tree.data[i], id.data[i], i};
    qsort(m.sorted, (size_t)m.n, sizeof *m.sorted, by_name);
    return m;
}

static int64_t find_node(const NodeNames *m, int64_t tree, int64_t id) { // -1: none
    NodeName key = {tree, id, 0};
    const NodeName *found = bsearch(&key, m->sorted, (size_t)m->n, sizeof key, by_name);
    return found ? found->number : -1;
}

static bool read_test(ImportNode *n, const char *name, Test *t) {
    for (int i = 0; i < TEST_COUNT; i++) {
        if (i == TEST_MEMBER || strcmp(tests[i].name, name)) continue;
        *t = (Test)i;
        return true;
    }
    return import_fail(n, "unknown mode '%s'", name);
}

static bool read_named_nodes(Forest *f, NodeNames *m) {
    ImportNode *n = f->n;
    bool ok = true;
    const char *const *modes;
    IntList tree = attr_ints(n, "nodes_treeids"), id = attr_ints(n, "nodes_nodeids");
    IntList features = attr_ints(n, "nodes_featureids"), yes = attr_ints(n, "nodes_truenodeids"), no = attr_ints(n, "nodes_falsenodeids");
    IntList missing = attr_ints(n, "nodes_missing_value_tracks_true");
    F64List values = floats_or_tensor(n, "nodes_values", &ok);
    int count = attr_strings(n, "nodes_modes", &modes);
    if (!ok || tree.n != count || id.n != count || features.n != count || yes.n != count || no.n != count || values.n != count ||
        (missing.n && missing.n != count) || count > MAX_TREE_NODES)
        return import_fail(n, "the lists that describe the nodes differ in length");
    *m = node_names(n, tree, id);
    bool *is_child = ARENA_ARRAY(n->arena, bool, count + 1);
    for (int i = 0; i < count; i++) {
        TreeNode t = {.yes = i, .no = i};
        if (!read_test(n, modes[i], &t.test)) return false;
        if (t.test != TEST_LEAF) {
            t = (TreeNode){features.data[i], find_node(m, tree.data[i], yes.data[i]), find_node(m, tree.data[i], no.data[i]),
                values.data[i], t.test, missing.n && missing.data[i]};
            if (t.yes < 0 || t.no < 0) return import_fail(n, "node %d has a child that does not exist", i);
            is_child[t.yes] = is_child[t.no] = true;
        }
        vec_push(n->arena, &f->nodes, t);
    }
    for (int i = 0; i < count; i++)
        if (!is_child[i]) vec_push(n->arena, &f->roots, i);
    return true;
}

static bool read_named_weights(Forest *f, const NodeNames *m, const char *stem, int targets) {
    ImportNode *n = f->n;
    bool ok = true;
    IntList tree = attr_ints(n, arena_printf(n->arena, "%s_treeids", stem)), id = attr_ints(n, arena_printf(n->arena, "%s_nodeids", stem)),
            target = attr_ints(n, arena_printf(n->arena, "%s_ids", stem));
    F64List w = floats_or_tensor(n, arena_printf(n->arena, "%s_weights", stem), &ok);
    if (!ok || tree.n != w.n || id.n != w.n || target.n != w.n)
        return import_fail(n, "the lists that describe the weights differ in length");
    if (!weights_begin(f, targets)) return false;
    for (int i = 0; i < w.n; i++) {
        int64_t node = find_node(m, tree.data[i], id.data[i]);
        if (node < 0) return import_fail(n, "weight %d belongs to no node", i);
        if (!add_weight(f, node, target.data[i], w.data[i])) return false;
    }
    return true;
}

static Value *with_base(ImportNode *n, Value *y, bool *ok) {
    F64List base = floats_or_tensor(n, "base_values", ok);
    if (base.n == 0 || !*ok) return y;
    char *bytes = arena_alloc(n->arena, (size_t)dtype_bytes(y->type) * (size_t)base.n);
    for (int i = 0; i < base.n; i++) scalar_write(scalar_float(y->type, base.data[i]), bytes + (size_t)i * (size_t)dtype_bytes(y->type));
    const Dim *shape = dim_int(n->dims, base.n);
    Value *in[] = {y, g_const(&n->b, y->type, 1, &shape, (Data){bytes, (size_t)dtype_bytes(y->type) * (size_t)base.n})};
    if (!import_broadcast(n, 2, in)) return *ok = false, y;
    return g_map2(&n->b, X_add, in[0], in[1]);
}

static Value *transformed(ImportNode *n, Value *y, const char *post) {
    int64_t last = y->rank - 1;
    if (!strcmp(post, "NONE")) return y;
    if (!strcmp(post, "LOGISTIC")) return g_map1(&n->b, X_sigmoid, y);
    if (!strcmp(post, "SOFTMAX")) return g_softmax(&n->b, "softmax", y, 1, &last);
    return import_unsupported(n, "post_transform '%s'", post), NULL;
}

bool import_tree_regressor(ImportNode *n) {
    static const char *const names[] = {"SUM", "sum", "AVERAGE", "average", "MIN", "min", "MAX", "max"};
    Forest f;
    NodeNames m;
    const char *aggregate = NULL;
    for (int i = 0; i < 8; i += 2)
        if (!strcmp(names[i], attr_string(n, "aggregate_function"))) aggregate = names[i + 1];
    if (!aggregate) return import_fail(n, "unknown aggregate_function '%s'", attr_string(n, "aggregate_function"));
    int64_t targets = attr_has(n, "n_targets") ? attr_int(n, "n_targets") : 1;
    if (targets < 1 || targets > MAX_TARGETS) return import_fail(n, "n_targets is %ld", (long)targets);
    if (!forest_begin(&f, n) || !read_named_nodes(&f, &m) || !read_named_weights(&f, &m, "target", (int)targets)) return false;
    Value *y = check_aggregate(&f, aggregate) ? forest_scores(&f, aggregate) : NULL;
    bool ok = y != NULL;
    if (y) y = with_base(n, y, &ok);
    if (y && ok) y = transformed(n, y, attr_string(n, "post_transform"));
    if (y && ok) n->out[0] = g_cast(&n->b, DT_f32, y);
    return ok && y;
}

// ---- classification ----
// Weights for one class only, of two: the other class's score follows from it.
static bool one_class(const Forest *f, int *class, bool *positive) {
    bool used[2] = {false, false};
    *positive = true;
    for (int i = 0; i < f->nodes.n * f->targets; i++) {
        used[i % f->targets] |= f->weighted[i];
        *positive &= f->weight[i] >= 0;
    }
    *class = used[1];
    return used[0] != used[1];
}

// [N, 1] scores of a class against another: both, so that they decide by their larger one.
static Value *both_scores(ImportNode *n, Value *y, int class, bool positive) {
    int64_t start = class;
    Value *p = g_slice(&n->b, y, 1, dim_int(n->dims, start), dim_int(n->dims, 1), 1);
    Value *other = formula_map(n, positive ? "1.0 - a0" : "-a0", 1, &p);
    return other ? g_concat(&n->b, 2, (Value *[]){other, p}, 1) : NULL;
}

static Value *class_labels(ImportNode *n, Value *best) {
    IntList ints = attr_ints(n, "classlabels_int64s");
    const Dim *shape = dim_int(n->dims, ints.n), *v = dim_symbol(n->dims, "v0", SYM_DATA, NULL, NULL);
    Value *labels = g_const(&n->b, DT_i64, 1, &shape, (Data){ints.data, sizeof(int64_t) * (size_t)ints.n});
    return g_gather(&n->b, labels, 1, &best, &v, 1, (DimArray)best->shape, &v, 0, NULL, scalar_int(DT_i64, 0));
}

bool import_tree_classifier(ImportNode *n) {
    Forest f;
    NodeNames m;
    int classes = attr_ints(n, "classlabels_int64s").n, class;
    int64_t axis = 1;
    bool ok = true, positive;
    if (classes < 2) return import_unsupported(n, "labels that are not two or more integers");
    if (!forest_begin(&f, n) || !read_named_nodes(&f, &m) || !read_named_weights(&f, &m, "class", classes)) return false;
    Value *y = forest_scores(&f, "sum");
    if (!y) return false;
    bool single = classes == 2 && one_class(&f, &class, &positive);
    F64List base = floats_or_tensor(n, "base_values", &ok);
    if (single && base.n > 1) return import_unsupported(n, "base values of two classes with weights of one");
    y = ok ? with_base(n, y, &ok) : NULL;
    if (y && single) y = both_scores(n, y, class, positive);
    if (!y || !ok) return false;
    n->out[0] = class_labels(n, g_reduce(&n->b, "argmax", y, 1, &axis, false));
    y = transformed(n, y, attr_string(n, "post_transform"));
    if (y) n->out[1] = g_cast(&n->b, DT_f32, y);
    return y != NULL;
}

// ---- the second form: nodes and leaves by position ----
// A set's test becomes a chain of equalities behind node i: the last one's false child is the node's own.
static bool expand_members(Forest *f, const F64List *members) {
    int at = 0, count = f->nodes.n;
    for (int i = 0; i < count; i++) {
        if (f->nodes.data[i].test != TEST_MEMBER) continue;
        int32_t now = i;
        TreeNode node = f->nodes.data[i];
        node.test = TEST_EQ;
        node.value = NAN;
        for (; at < members->n && !isnan(members->data[at]); at++) {
            f->nodes.data[now] = node;
            f->nodes.data[now].value = members->data[at];
            bool more = at + 1 < members->n && !isnan(members->data[at + 1]);
            if (!more) continue;
            f->nodes.data[now].no = f->nodes.n;
            now = f->nodes.n;
            vec_push(f->n->arena, &f->nodes, node);
        }
        if (now == i && f->nodes.data[i].test == TEST_MEMBER) f->nodes.data[i] = node; // an empty set
        if (at == members->n) return import_fail(f->n, "membership_values has too few sets");
        at++;
        if (f->nodes.n > MAX_TREE_NODES) return import_fail(f->n, "the ensemble has more than %d nodes", MAX_TREE_NODES);
    }
    return true;
}

typedef struct {
    IntList features, yes, no, yes_leaf, no_leaf, missing;
    F64List modes, splits;
} Positions;

static bool read_positions(ImportNode *n, Positions *p) {
    *p = (Positions){.features = attr_ints(n, "nodes_featureids"),
        .yes = attr_ints(n, "nodes_truenodeids"),
        .no = attr_ints(n, "nodes_falsenodeids"),
        .yes_leaf = attr_ints(n, "nodes_trueleafs"),
        .no_leaf = attr_ints(n, "nodes_falseleafs"),
        .missing = attr_ints(n, "nodes_missing_value_tracks_true")};
    if (!constant_numbers(n, "nodes_modes", &p->modes) || !constant_numbers(n, "nodes_splits", &p->splits)) return false;
    int count = p->features.n;
    bool same = p->yes.n == count && p->no.n == count && p->yes_leaf.n == count && p->no_leaf.n == count && p->modes.n == count &&
                p->splits.n == count;
    return (same && (!p->missing.n || p->missing.n == count)) || import_fail(n, "the lists that describe the nodes differ in length");
}

// Leaves get the numbers behind the nodes'.
static bool read_positioned_nodes(Forest *f, const Positions *p, int leaves) {
    ImportNode *n = f->n;
    IntList roots = attr_ints(n, "tree_roots");
    int count = p->features.n;
    for (int i = 0; i < count; i++) {
        bool leaf[] = {p->yes_leaf.data[i] != 0, p->no_leaf.data[i] != 0};
        int64_t child[] = {p->yes.data[i], p->no.data[i]};
        for (int k = 0; k < 2; k++)
            if (child[k] < 0 || child[k] >= (leaf[k] ? leaves : count)) return import_fail(n, "node %d has a child that does not exist", i);
        if (!(p->modes.data[i] >= 0 && p->modes.data[i] <= TEST_MEMBER))
            return import_fail(n, "node %d has the unknown mode %g", i, p->modes.data[i]);
        TreeNode t = {p->features.data[i], child[0] + (leaf[0] ? count : 0), child[1] + (leaf[1] ? count : 0), p->splits.data[i],
            (Test)p->modes.data[i], p->missing.n && p->missing.data[i]};
        vec_push(n->arena, &f->nodes, t);
    }
    for (int i = 0; i < leaves; i++) {
        TreeNode t = {.yes = count + i, .no = count + i, .test = TEST_LEAF};
        vec_push(n->arena, &f->nodes, t);
    }
    for (int i = 0; i < roots.n; i++) {
        if (roots.data[i] < 0 || roots.data[i] >= count) return import_fail(n, "root %ld does not exist", (long)roots.data[i]);
        vec_push(n->arena, &f->roots, (int32_t)roots.data[i]);
    }
    return true;
}

bool import_tree_ensemble(ImportNode *n) {
    static const char *const aggregates[] = {"average", "sum", "min", "max"}, *const posts[] = {
                                                                                  "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
    Forest f;
    Positions p;
    F64List weights, members;
    IntList targets = attr_ints(n, "leaf_targetids");
    int64_t aggregate = attr_int(n, "aggregate_function"), post = attr_int(n, "post_transform"),
            count = attr_has(n, "n_targets") ? attr_int(n, "n_targets") : 1;
    if (aggregate < 0 || aggregate > 3 || post < 0 || post > 4) return import_fail(n, "unknown aggregate_function or post_transform");
    if (count < 1 || count > MAX_TARGETS) return import_fail(n, "n_targets is %ld", (long)count);
    if (!forest_begin(&f, n) || !read_positions(n, &p)) return false;
    if (!constant_numbers(n, "leaf_weights", &weights) || !constant_numbers(n, "membership_values", &members)) return false;
    if (weights.n != targets.n || !read_positioned_nodes(&f, &p, weights.n))
        return weights.n == targets.n ? false : import_fail(n, "leaf_weights and leaf_targetids differ in length");
    if (!expand_members(&f, &members) || !weights_begin(&f, (int)count)) return false;
    for (int i = 0; i < weights.n; i++)
        if (!add_weight(&f, p.features.n + i, targets.data[i], weights.data[i])) return false;
    Value *y = check_aggregate(&f, aggregates[aggregate]) ? forest_scores(&f, aggregates[aggregate]) : NULL;
    if (y) y = transformed(n, y, posts[post]);
    if (y) n->out[0] = g_cast(&n->b, dtype_is_float(n->in[0]->type) ? n->in[0]->type : DT_f32, y);
    return y != NULL;
}
