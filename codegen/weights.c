// The constants of a Program as one blob: what PREFIX.bin holds, and the section of PREFIX.weights.o.
//
// 128 bytes of head, then the constants in the Program's order, each at a multiple of 64 bytes, little endian:
//   0 "MLCWEIGHT" and zeros (16 bytes)   16 content hash (u64)   24 bytes in all (u64)   32 MLC_ABI (u32)   36 0x01020304 (u32), so that
//   the byte order shows   40 layout: hash of the constants' types and sizes (u64)   48 the target's name and zeros (40 bytes)   88 zeros
// The content hash covers everything but itself, so a program that knows it knows that target, layout and ABI are its own. A run compares
// the hash in the head; PREFIX_weights_check, which the loader calls once, computes it from the bytes.
#include "layout.h"
#include "codegen.h"
#include "../runtime/abi.h"

#include <string.h>

enum { HASH_LANES = 4, AT_HASH = 16, AT_BYTES = 24, AT_ABI = 32, AT_ORDER = 36, AT_LAYOUT = 40, AT_TARGET = 48, TARGET_BYTES = 40 };
#define HASH_FACTOR 0x9e3779b97f4a7c15ull

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

// ---- the content hash: four lanes of 64-bit words, each step a bijection of its lane, so a changed word never goes unseen ----
typedef struct {
    uint64_t lane[HASH_LANES];
    int next;
} ContentHash;

static void hash_word(ContentHash *h, uint64_t word) {
    uint64_t *lane = &h->lane[h->next];
    *lane = (*lane ^ word) * HASH_FACTOR;
    *lane ^= *lane >> 32;
    h->next = (h->next + 1) % HASH_LANES;
}

static void hash_words(ContentHash *h, const unsigned char *bytes, size_t n) {
    for (size_t i = 0; i < n; i += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes + i, n - i < 8 ? n - i : 8);
        hash_word(h, word);
    }
}

static uint64_t hash_end(const ContentHash *h) {
    uint64_t all = 0;
    for (int i = 0; i < HASH_LANES; i++) {
        all = (all ^ h->lane[i]) * HASH_FACTOR;
        all ^= all >> 32;
    }
    return all;
}

static void hash_constant(void *ctx, const LoopBuffer *b, size_t offset) {
    ContentHash *h = ctx;
    (void)offset;
    hash_words(h, b->bytes, b->nbytes);
    for (size_t at = (b->nbytes + 7) / 8 * 8; at < aligned_size(b->nbytes); at += 8) hash_word(h, 0);
}

// ---- the layout ----
typedef struct {
    const LoopBuffer *wanted;
    size_t offset;
    uint64_t hash;
} Walk;

static void find_offset(void *ctx, const LoopBuffer *b, size_t offset) {
    Walk *w = ctx;
    if (b == w->wanted) w->offset = offset;
}

static void hash_shape(void *ctx, const LoopBuffer *b, size_t offset) {
    Walk *w = ctx;
    uint64_t row[] = {offset, b->nbytes, (uint64_t)b->var.type.type};
    w->hash = hash_bytes(w->hash, row, sizeof row);
}

size_t weights_offset(const Program *p, const LoopBuffer *b) {
    Walk w = {.wanted = b};
    walk_weights(p, find_offset, &w);
    return w.offset;
}

// The head, and with it the size and the hash of everything.
static void make_head(const Program *p, unsigned char head[static WEIGHTS_HEAD], size_t *size, uint64_t *hash) {
    Walk w = {.hash = HASH_SEED};
    uint64_t bytes = walk_weights(p, hash_shape, &w);
    uint32_t abi = MLC_ABI, order = 0x01020304;
    memset(head, 0, WEIGHTS_HEAD);
    memcpy(head, "MLCWEIGHT", 9);
    memcpy(head + AT_BYTES, &bytes, 8);
    memcpy(head + AT_ABI, &abi, 4);
    memcpy(head + AT_ORDER, &order, 4);
    memcpy(head + AT_LAYOUT, &w.hash, 8);
    strncpy((char *)head + AT_TARGET, p->target ? p->target : "generic", TARGET_BYTES - 1);
    ContentHash h = {.lane = {1, 2, 3, 4}};
    hash_words(&h, head, WEIGHTS_HEAD);
    walk_weights(p, hash_constant, &h);
    *size = bytes;
    *hash = hash_end(&h);
    memcpy(head + AT_HASH, hash, 8);
}

void layout_weights(Layout *l, const Program *p) {
    unsigned char head[WEIGHTS_HEAD];
    make_head(p, head, &l->weights_bytes, &l->weights_hash);
}

// ---- writing ----
typedef struct {
    ByteSink *put;
    void *ctx;
} Writer;

static void write_constant(void *ctx, const LoopBuffer *b, size_t offset) {
    static const char zeros[LAYOUT_ALIGN];
    const Writer *w = ctx;
    (void)offset;
    w->put(w->ctx, b->bytes, b->nbytes);
    w->put(w->ctx, zeros, aligned_size(b->nbytes) - b->nbytes);
}

void codegen_weights(const Program *p, ByteSink *put, void *ctx) {
    unsigned char head[WEIGHTS_HEAD];
    size_t size;
    uint64_t hash;
    make_head(p, head, &size, &hash);
    put(ctx, head, sizeof head);
    walk_weights(p, write_constant, &(Writer){put, ctx});
}

size_t codegen_weights_bytes(const Program *p) {
    size_t n = 0;
    for (int i = 0; i < p->buffers.n; i++)
        if (p->buffers.data[i]->kind == BUF_CONST) n += p->buffers.data[i]->nbytes;
    return n;
}

const char *weights_symbol(Arena *a, const char *prefix, uint64_t hash) {
    return arena_printf(a, "%s_weights_%016llx", prefix, (unsigned long long)hash);
}
