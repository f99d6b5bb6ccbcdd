// A map from pointers to integers: which slot or state a symbol or variable has. Iteration order is never used.
#ifndef MLC_PTR_MAP_H
#define MLC_PTR_MAP_H

#include "base.h"

typedef struct {
    Arena *arena;
    const void **key;
    int *value;
    int n, cap;
} PtrMap;

int ptr_map_get(const PtrMap *m, const void *key); // -1 when absent
void ptr_map_put(PtrMap *m, const void *key, int value);

#endif
