// Open addressing with linear probing; at most half full.
#include "ptr_map.h"

static int ptr_map_slot(const PtrMap *m, const void *key) {
    uint64_t h = (uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15ull;
    int i = (int)(h >> 40) & (m->cap - 1);
    while (m->key[i] && m->key[i] != key) i = (i + 1) & (m->cap - 1);
    return i;
}

int ptr_map_get(const PtrMap *m, const void *key) {
    if (!m->cap) return -1;
    int i = ptr_map_slot(m, key);
    return m->key[i] ? m->value[i] : -1;
}

void ptr_map_put(PtrMap *m, const void *key, int value) {
    if (2 * (m->n + 1) > m->cap) {
        PtrMap old = *m;
        m->cap = old.cap ? 2 * old.cap : 32;
        m->n = 0;
        m->key = ARENA_ARRAY(m->arena, const void *, m->cap);
        m->value = ARENA_ARRAY(m->arena, int, m->cap);
        for (int i = 0; i < old.cap; i++)
            if (old.key[i]) ptr_map_put(m, old.key[i], old.value[i]);
    }
    int i = ptr_map_slot(m, key);
    m->n += !m->key[i];
    m->key[i] = key;
    m->value[i] = value;
}
