// Scopes: hash tables of names, chained outwards through subgraphs up to a function's body or the model's graph.
#include "importer.h"
#include <string.h>

Scope *scope_new(Importer *imp, Scope *outer, Call *call, Region *region) {
    Scope *s = ARENA_NEW(imp->graph->arena, Scope);
    *s = (Scope){.outer = outer, .region = region, .call = call, .depth = imp->scope ? imp->scope->depth + 1 : 0};
    return s;
}

// The slot that has the name, or the free one where it belongs.
static Binding *slot_of(Binding *table, int cap, const char *name) {
    uint64_t h = hash_bytes(HASH_SEED, name, strlen(name));
    for (uint64_t i = h;; i++) {
        Binding *b = &table[i & (uint64_t)(cap - 1)];
        if (!b->name || strcmp(b->name, name) == 0) return b;
    }
}

static void grow(Importer *imp, Scope *s) {
    int cap = s->cap ? s->cap * 2 : 16;
    Binding *table = ARENA_ARRAY(imp->graph->arena, Binding, cap);
    for (int i = 0; i < s->cap; i++)
        if (s->table[i].name) *slot_of(table, cap, s->table[i].name) = s->table[i];
    s->table = table;
    s->cap = cap;
}

Binding *scope_find(const Scope *s, const char *name) {
    if (!s->cap) return NULL;
    Binding *b = slot_of(s->table, s->cap, name);
    return b->name ? b : NULL;
}

Binding *scope_add(Importer *imp, Scope *s, const char *name) {
    if (s->n * 2 >= s->cap) grow(imp, s);
    Binding *b = slot_of(s->table, s->cap, name);
    if (b->name) return NULL;
    b->name = name;
    s->n++;
    return b;
}

Value *tensor_const(Builder *b, const TensorData *t, const char *label) {
    const Dim *shape[MAX_RANK];
    for (int i = 0; i < t->rank; i++) shape[i] = dim_int(b->g->dims, t->dims[i]);
    Value *v = g_const(b, t->type, t->rank, shape, t->data);
    if (label && !v->label) v->label = arena_strdup(b->g->arena, label);
    return v;
}

Binding *scope_lookup(Importer *imp, Scope *s, const char *name) {
    Binding *b = NULL;
    while (s && !(b = scope_find(s, name))) s = s->outer;
    if (b && b->kind == BIND_TENSOR) {
        Builder at = {.g = imp->graph, .region = s->region};
        b->value = tensor_const(&at, &b->tensor, name);
        b->kind = BIND_VALUE;
    }
    return b;
}
