// Heads, rotations and caches that attention operators share; see attention.c.
#ifndef MLC_ATTENTION_H
#define MLC_ATTENTION_H

#include "formula.h"

// All return NULL after a fault.
Value *heads_split(ImportNode *n, Value *x, int64_t heads);    // [B, S, H*E] as [B, H, S, E]; rank 4 as it is
Value *heads_join(ImportNode *n, Value *x);                    // back
Value *heads_share(ImportNode *n, Value *x, const Dim *heads); // each head of x as often as `heads` needs
Value *cache_rows(
    ImportNode *n, Value *cache, Value *positions); // rows [B, S, R/2] of a cache [max, R/2] at positions [B, S]; NULL: itself
// x[B, H, S, D] turned by angles whose cosines and sines are [B, S, turned/2]: the first `turned` elements of D, in halves or in pairs.
Value *rotated(ImportNode *n, Value *x, Value *cos, Value *sin, const Dim *turned, bool pairs);

#endif
