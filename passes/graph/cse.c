// cse: a node equal to an earlier one (same operation, inputs, fields and output types) of the same region or a region around it is
// replaced by it.
//
// Nodes are found by a hash of operation and inputs; fields are compared through the table of GRAPH_FIELDS. Nodes with regions, random and
// checks stay.
#include "graph_passes.h"

#include "../../ir/graph_fields.h"
#include "rewrite.h"

#include <string.h>

typedef struct Seen {
    Node *node;
    struct Seen *next;
} Seen;

enum { BUCKETS = 1 << 12 };

typedef struct {
    Arena *arena;
    Seen **buckets;
} Cse;

// Of large constants only the size and both ends: gigabytes of weights stay unread unless two look alike.
static uint64_t hash_ends(uint64_t h, const Data *d) {
    enum { END = 1024 };
    const char *bytes = d->bytes;
    size_t end = d->size < END ? d->size : END;
    h = hash_bytes(h, &d->size, sizeof d->size);
    h = hash_bytes(h, bytes, end);
    return hash_bytes(h, bytes + (d->size - end), end);
}

static uint64_t node_hash(const Node *n) {
    uint64_t h = hash_bytes(HASH_SEED, &n->op, sizeof n->op);
    for (int i = 0; i < n->nin; i++) h = hash_bytes(h, &n->in[i]->id, sizeof n->in[i]->id);
    for (int i = 0; i < n->out[0]->rank; i++) h = hash_bytes(h, &n->out[0]->shape[i], sizeof n->out[0]->shape[i]);
    return n->op == G_const ? hash_ends(h, &n->data) : h;
}

static bool same_list(const void *a, const void *b, int na, int nb, size_t elem) {
    return na == nb && (!na || !memcmp(a, b, elem * (size_t)na));
}

static bool same_text(const char *a, const char *b) {
    return a == b || (a && b && !strcmp(a, b));
}

static bool same_field(const GField *f, const Node *a, const Node *b) {
    const void *x = FIELD_IN(char, a, f), *y = FIELD_IN(char, b, f);
    switch (f->kind) {
    case FK_int: return *(const int64_t *)x == *(const int64_t *)y;
    case FK_f64: return !memcmp(x, y, sizeof(double));
    case FK_code: return *(const StatusCode *)x == *(const StatusCode *)y;
    case FK_text: return same_text(*(const char *const *)x, *(const char *const *)y);
    case FK_ints:
        return same_list(
            ((const IntList *)x)->data, ((const IntList *)y)->data, ((const IntList *)x)->n, ((const IntList *)y)->n, sizeof(int64_t));
    case FK_params:
        return same_list(
            ((const F64List *)x)->data, ((const F64List *)y)->data, ((const F64List *)x)->n, ((const F64List *)y)->n, sizeof(double));
    case FK_dims:
        return same_list(
            ((const DimList *)x)->data, ((const DimList *)y)->data, ((const DimList *)x)->n, ((const DimList *)y)->n, sizeof(Dim *));
    case FK_expr: {
        const Expr *ex = *(const Expr *const *)x, *ey = *(const Expr *const *)y;
        return ex == ey || (ex && ey && expr_same(ex, ey));
    }
    case FK_scalar: return scalar_same(*(const Scalar *)x, *(const Scalar *)y);
    case FK_data:
        return ((const Data *)x)->size == ((const Data *)y)->size &&
               !memcmp(((const Data *)x)->bytes, ((const Data *)y)->bytes, ((const Data *)x)->size);
    default: return false;
    }
}

static bool same_type(const Value *a, const Value *b) {
    bool same = a->type == b->type && a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++) same = a->shape[i] == b->shape[i];
    return same;
}

static bool encloses(const Region *outer, const Region *r) {
    for (; r; r = r->owner ? r->owner->region : NULL)
        if (r == outer) return true;
    return false;
}

static bool same_node(const Node *a, const Node *b) {
    if (a->op != b->op || a->nin != b->nin || a->nout != b->nout || !encloses(a->region, b->region)) return false;
    for (int i = 0; i < a->nin; i++)
        if (a->in[i] != b->in[i]) return false;
    for (int i = 0; i < a->nout; i++)
        if (!same_type(a->out[i], b->out[i])) return false;
    for (int i = 0; graph_field(i); i++)
        if (graph_field_used(a->op, graph_field(i)) && !same_field(graph_field(i), a, b)) return false;
    return true;
}

static bool pure(const Node *n) {
    bool index_symbols = n->nvsyms > 0; // written in symbols of their own: never equal
    return n->nout > 0 && !n->regions.n && !index_symbols && n->op != G_random && n->op != G_template && n->op != G_call &&
           n->op != G_check;
}

static bool cse_node(void *ctx, Node *n, Builder *b) {
    Cse *c = ctx;
    if (!pure(n)) return false;
    Seen **slot = &c->buckets[node_hash(n) % BUCKETS];
    for (const Seen *s = *slot; s; s = s->next) {
        if (!same_node(s->node, n)) continue;
        for (int i = 0; i < n->nout; i++) graph_replace(b->g, n->out[i], s->node->out[i]);
        return true;
    }
    Seen *s = ARENA_NEW(c->arena, Seen);
    *s = (Seen){n, *slot};
    *slot = s;
    return false;
}

bool pass_cse(Graph *g, const PassOptions *o) {
    (void)o;
    Cse c = {.arena = arena_new()};
    c.buckets = ARENA_ARRAY(c.arena, Seen *, BUCKETS);
    bool changed = graph_rewrite(g, cse_node, &c);
    arena_free(c.arena);
    return changed;
}
