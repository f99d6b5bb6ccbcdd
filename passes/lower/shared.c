// Values that a kernel pulls several times at one place: x in x * sigmoid(x) when both are computed where they are stored. Their elements are
// kept in variables, so that a chain of such diamonds is computed once and not once a path.
#include "lower.h"

typedef struct {
    int *uses;         // [Value.id]
    const Node **user; // [Value.id]: the last
} Users;

static void note_users(void *ctx, Node *n) {
    Users *u = ctx;
    for (int i = 0; i < n->nin; i++) {
        u->uses[n->in[i]->id]++;
        u->user[n->in[i]->id] = n;
    }
}

typedef struct {
    Lower *l;
    const Users *u;
    VEC(Node *) nodes;
} Finding;

static void collect(void *ctx, Node *n) {
    Finding *f = ctx;
    vec_push(f->l->p->arena, &f->nodes, n);
}

// Used twice itself, or once by a view of the kind, whose element is not worth a variable.
static bool is_shared(const Finding *f, const Value *v) {
    if (f->u->uses[v->id] != 1) return f->u->uses[v->id] > 1;
    const Node *n = f->u->user[v->id];
    bool looks = n->op == G_view || n->op == G_reshape;
    return looks && n->out[0]->storage.kind == STORE_INLINE && f->l->shared[n->out[0]->id];
}

void lower_find_shared(Lower *l) {
    Arena *a = l->p->arena;
    Users u = {ARENA_ARRAY(a, int, l->g->nvalues + 1), ARENA_ARRAY(a, const Node *, l->g->nvalues + 1)};
    Finding f = {.l = l, .u = &u};
    l->shared = ARENA_ARRAY(a, bool, l->g->nvalues + 1);
    graph_walk(l->g->body, note_users, &u);
    graph_walk(l->g->body, collect, &f);
    for (int i = f.nodes.n - 1; i >= 0; i--)
        for (int k = 0; k < f.nodes.data[i]->nout; k++) {
            const Value *v = f.nodes.data[i]->out[k];
            l->shared[v->id] = v->storage.kind == STORE_INLINE && is_shared(&f, v);
        }
}
