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

static bool same_content(const LoopBuffer *x, const LoopBuffer *y) {
    bool alike = x->nbytes == y->nbytes && x->var.type.type == y->var.type.type;
    return alike && (x->bytes == y->bytes || !x->nbytes || !memcmp(x->bytes, y->bytes, x->nbytes));
}

// Constants of one Program have places of their own; those of further levels are looked for among the levels before.
static void add_places(Arena *a, WeightPlaces *places, const Program *p, int level, size_t *at) {
    int before = places->n;
    for (int i = 0; i < p->buffers.n; i++) {
        const LoopBuffer *b = p->buffers.data[i];
        if (b->kind != BUF_CONST) continue;
        WeightPlace w = {b, level, places->n, *at};
        for (int k = 0; k < before && w.first == places->n; k++)
            if (places->data[k].first == k && same_content(places->data[k].buffer, b))
                w = (WeightPlace){b, level, k, places->data[k].offset};
        if (w.first == places->n) *at += aligned_size(b->nbytes);
        vec_push(a, places, w);
    }
}

static size_t find_places(Arena *a, WeightPlaces *places, const Program *p, const EmitOptions *o) {
    size_t at = WEIGHTS_HEAD;
    for (int i = 0; i < o->nlevels; i++) add_places(a, places, o->levels[i], i, &at);
    if (!o->nlevels) add_places(a, places, p, 0, &at);
    return at;
}

void layout_places(Arena *a, Layout *l, const Program *p, const EmitOptions *o) {
    find_places(a, &l->weights, p, o);
}

const WeightPlace *layout_weight(const Layout *l, const LoopBuffer *b) {
    for (int i = 0; i < l->weights.n; i++)
        if (l->weights.data[i].buffer == b) return &l->weights.data[i];
    return NULL;
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

static void hash_constant(ContentHash *h, const LoopBuffer *b) {
    hash_words(h, b->bytes, b->nbytes);
    for (size_t at = (b->nbytes + 7) / 8 * 8; at < aligned_size(b->nbytes); at += 8) hash_word(h, 0);
}

// ---- the head ----
static const char *target_name(const Program *p, const EmitOptions *o) {
    return o->nlevels ? o->dispatch->name : p->target ? p->target : "generic";
}

// The head, and with it the hash of everything. size: of the blob.
static uint64_t make_head(const WeightPlaces *places, const char *target, size_t size, unsigned char head[static WEIGHTS_HEAD]) {
    uint64_t layout = HASH_SEED, bytes = size;
    uint32_t abi = MLC_ABI, order = 0x01020304;
    for (int i = 0; i < places->n; i++) {
        const LoopBuffer *b = places->data[i].buffer;
        uint64_t row[] = {places->data[i].offset, b->nbytes, (uint64_t)b->var.type.type};
        layout = hash_bytes(layout, row, sizeof row);
    }
    memset(head, 0, WEIGHTS_HEAD);
    memcpy(head, "MLCWEIGHT", 9);
    memcpy(head + AT_BYTES, &bytes, 8);
    memcpy(head + AT_ABI, &abi, 4);
    memcpy(head + AT_ORDER, &order, 4);
    memcpy(head + AT_LAYOUT, &layout, 8);
    strncpy((char *)head + AT_TARGET, target, TARGET_BYTES - 1);
    ContentHash h = {.lane = {1, 2, 3, 4}};
    hash_words(&h, head, WEIGHTS_HEAD);
    for (int i = 0; i < places->n; i++)
        if (places->data[i].first == i) hash_constant(&h, places->data[i].buffer);
    uint64_t hash = hash_end(&h);
    memcpy(head + AT_HASH, &hash, 8);
    return hash;
}

static size_t end_of(const WeightPlaces *places) {
    size_t end = WEIGHTS_HEAD;
    for (int i = 0; i < places->n; i++)
        if (places->data[i].first == i) end = places->data[i].offset + aligned_size(places->data[i].buffer->nbytes);
    return end;
}

void layout_weights(Layout *l, const Program *p, const EmitOptions *o) {
    unsigned char head[WEIGHTS_HEAD];
    l->weights_bytes = end_of(&l->weights);
    l->weights_hash = make_head(&l->weights, target_name(p, o), l->weights_bytes, head);
}

// ---- writing ----
void codegen_weights(const Program *p, const EmitOptions *o, ByteSink *put, void *ctx) {
    static const char zeros[LAYOUT_ALIGN];
    unsigned char head[WEIGHTS_HEAD];
    Arena *a = arena_new();
    WeightPlaces places = {0};
    size_t size = find_places(a, &places, p, o);
    make_head(&places, target_name(p, o), size, head);
    put(ctx, head, sizeof head);
    for (int i = 0; i < places.n; i++) {
        const LoopBuffer *b = places.data[i].buffer;
        if (places.data[i].first != i) continue;
        put(ctx, b->bytes, b->nbytes);
        put(ctx, zeros, aligned_size(b->nbytes) - b->nbytes);
    }
    arena_free(a);
}

size_t codegen_weights_bytes(const Program *p, const EmitOptions *o) {
    Arena *a = arena_new();
    WeightPlaces places = {0};
    size_t n = 0;
    find_places(a, &places, p, o);
    for (int i = 0; i < places.n; i++)
        if (places.data[i].first == i) n += places.data[i].buffer->nbytes;
    arena_free(a);
    return n;
}

const char *weights_symbol(Arena *a, const char *prefix, uint64_t hash) {
    return arena_printf(a, "%s_weights_%016llx", prefix, (unsigned long long)hash);
}
