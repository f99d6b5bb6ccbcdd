// The weights blob: what PREFIX.bin holds when weights are not part of the source.
//
// 64 bytes of head, then the constants in the Program's order, each at a multiple of 64 bytes:
//   0 "MLCWEIGHT" and zeros (16 bytes)   16 content hash   24 bytes in all   32 MLC_ABI (u32)   36 0x01020304 (u32), so byte order shows 40
//   zeros
// The hash is FNV-1a over the rest; the program that uses the blob knows it and refuses another one. Little endian, as the constants are.
#include "layout.h"
#include "codegen.h"
#include "../runtime/abi.h"

#include <string.h>

static size_t aligned_size(size_t n) {
    return (n + LAYOUT_ALIGN - 1) / LAYOUT_ALIGN * LAYOUT_ALIGN;
}

// Calls see for each constant with its offset; returns where they end.
static size_t walk_weights(const Program *p, void (*see)(void *ctx, const LoopBuffer *b, size_t offset), void *ctx) {
    size_t at = WEIGHTS_HEAD;
    for (int i = 0; i < p->buffers.n; i++) {
        const LoopBuffer *b = p->buffers.data[i];
        if (b->kind != BUF_CONST) continue;
        see(ctx, b, at);
        at += aligned_size(b->nbytes);
    }
    return at;
}

typedef struct {
    const LoopBuffer *wanted;
    size_t offset;
    uint64_t hash;
} Walk;

static void find_offset(void *ctx, const LoopBuffer *b, size_t offset) {
    Walk *w = ctx;
    if (b == w->wanted) w->offset = offset;
}

static void hash_padded(void *ctx, const LoopBuffer *b, size_t offset) {
    static const unsigned char zeros[LAYOUT_ALIGN];
    Walk *w = ctx;
    (void)offset;
    w->hash = hash_bytes(w->hash, b->bytes, b->nbytes);
    w->hash = hash_bytes(w->hash, zeros, aligned_size(b->nbytes) - b->nbytes);
}

size_t weights_offset(const Program *p, const LoopBuffer *b) {
    Walk w = {.wanted = b};
    walk_weights(p, find_offset, &w);
    return w.offset;
}

void layout_weights(Layout *l, const Program *p) {
    Walk w = {.hash = HASH_SEED};
    l->weights_bytes = walk_weights(p, hash_padded, &w);
    l->weights_hash = w.hash;
    l->constant = false; // they come through the environment
}

static void append(void *ctx, const LoopBuffer *b, size_t offset) {
    static const char zeros[LAYOUT_ALIGN];
    Str *s = ctx;
    (void)offset;
    str_addn(s, b->bytes, b->nbytes);
    str_addn(s, zeros, aligned_size(b->nbytes) - b->nbytes);
}

void codegen_weights(const Program *p, Str *blob) {
    Layout l = {0};
    unsigned char head[WEIGHTS_HEAD] = "MLCWEIGHT";
    uint32_t abi = MLC_ABI, order = 0x01020304;
    layout_weights(&l, p);
    uint64_t bytes = l.weights_bytes;
    memcpy(head + 16, &l.weights_hash, 8);
    memcpy(head + 24, &bytes, 8);
    memcpy(head + 32, &abi, 4);
    memcpy(head + 36, &order, 4);
    str_addn(blob, (const char *)head, sizeof head);
    walk_weights(p, append, blob);
}

size_t codegen_weights_bytes(const Program *p) {
    size_t n = 0;
    for (int i = 0; i < p->buffers.n; i++)
        if (p->buffers.data[i]->kind == BUF_CONST) n += p->buffers.data[i]->nbytes;
    return n;
}
