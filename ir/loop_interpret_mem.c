// Loads and stores of the interpreter. Addresses that are a progression are checked once for all lanes and, when contiguous, not copied;
// all others are checked one by one, those of lanes that are off not at all.
#include "loop_interpret.h"

#include <string.h>

// One access of all lanes: element of lane s and type lane l is at  index + s * buffer's lane step + l * stride (+ offset).
typedef struct {
    const char *name;
    const BufVal *b;
    IdxVal at; // of type lane 0, the buffer's lane step included
    int64_t stride;
    int lanes, width;  // of the strip (1 when nothing varies), of the type
    int size, element; // bytes of the value's and of the buffer's elements
    const Node *offsets, *mask;
} Access;

static void out_of_bounds(Run *r, const Access *a, int64_t i) {
    run_fault(r, "%s[%lld] lies outside of its %lld elements", a->name, (long long)i, (long long)a->b->n);
}

static IdxVal with_lane_step(Run *r, IdxVal i, const BufVal *b, int64_t *room) {
    if (!b->lane_step || r->lanes == 1) return i;
    if (!i.lane) return (IdxVal){.v = i.v, .step = i.step + b->lane_step};
    for (int l = 0; l < r->lanes; l++) room[l] = i.lane[l] + l * b->lane_step;
    return (IdxVal){.lane = room};
}

// Elements of the buffer that one contiguous value covers.
static int64_t covered(const Access *a) {
    return ((int64_t)a->width * a->size + a->element - 1) / a->element;
}

// A progression without offsets and mask: whether all of it is inside. Each lane's copy of a local buffer has its own bounds.
static bool progression_inside(const Access *a) {
    int64_t per_lane = a->at.step - a->b->lane_step * (a->lanes > 1), last = per_lane * (a->lanes - 1);
    int64_t span = a->size != a->element || a->width == 1 ? covered(a) - 1 : a->stride * (a->width - 1);
    int64_t lo = a->at.v + (last < 0 ? last : 0) + (span < 0 ? span : 0), hi = a->at.v + (last > 0 ? last : 0) + (span > 0 ? span : 0);
    return lo >= 0 && hi < a->b->n;
}

// Whether the value lies in memory just as it is computed with.
static bool is_contiguous(const Access *a) {
    bool inside = a->width == 1 || a->stride == 1;
    return inside && (a->lanes == 1 || a->at.step * a->element == (int64_t)a->width * a->size);
}

static int64_t offset_at(const Node *n, int s, int l, int width) {
    if (!n) return 0;
    int i = (n->varies ? s * width : 0) + l;
    return n->e->type.type == DT_i32 ? ((const int32_t *)n->p)[i] : ((const int64_t *)n->p)[i];
}

static bool mask_at(const Node *n, int s, int l, int width) {
    return !n || ((const uint8_t *)n->p)[(n->varies ? s * width : 0) + l];
}

// The byte address of one element; NULL when it is outside (reported).
static unsigned char *address(Run *r, const Access *a, int s, int l) {
    int64_t copy = a->lanes > 1 ? s * a->b->lane_step : 0, i = idx_at(a->at, s) - copy;
    if (a->size == a->element || a->width == 1) {
        i += l * a->stride + offset_at(a->offsets, s, l, a->width);
        int64_t cover = (a->size + a->element - 1) / a->element;
        if (i >= 0 && i + cover <= a->b->n) return a->b->p + (i + copy) * a->element;
    } else if (i >= 0 && i + covered(a) <= a->b->n) {
        return a->b->p + (i + copy) * a->element + l * a->size;
    }
    out_of_bounds(r, a, i);
    return NULL;
}

static void load_each(Run *r, const Access *a, unsigned char *dst) {
    for (int s = 0; s < a->lanes; s++) {
        bool on = a->lanes == 1 || !r->active || r->active[s];
        for (int l = 0; l < a->width; l++, dst += a->size) {
            const unsigned char *p = on && mask_at(a->mask, s, l, a->width) ? address(r, a, s, l) : NULL;
            if (p)
                copy_element(dst, p, a->size);
            else
                memset(dst, 0, (size_t)a->size);
        }
    }
}

// Values of a type with lanes that are contiguous each, at a constant distance, known to be inside.
static void load_rows(const Access *a, unsigned char *dst) {
    const unsigned char *p = a->b->p + a->at.v * a->element;
    size_t bytes = (size_t)(a->width * a->size);
    for (int s = 0; s < a->lanes; s++) memcpy(dst + (size_t)s * bytes, p + s * a->at.step * a->element, bytes);
}

#define LOAD_STRIDED(T)                                                                                                                    \
    for (int s = 0; s < a->lanes; s++) ((T *)dst)[s] = *(const T *)(p + s * step)

// Scalars of all lanes at a constant distance, known to be inside.
static void load_strided(const Access *a, void *dst) {
    const unsigned char *p = a->b->p + a->at.v * a->element;
    int64_t step = a->at.step * a->element;
    switch (a->size) {
    case 1: LOAD_STRIDED(uint8_t); return;
    case 2: LOAD_STRIDED(uint16_t); return;
    case 4: LOAD_STRIDED(uint32_t); return;
    default: LOAD_STRIDED(uint64_t); return;
    }
}

void eval_load(Run *r, ExprCode *c, Node *n, void *dst) {
    const Expr *e = n->e;
    const BufVal *b = &r->frame->buf[n->slot];
    const Node *offsets = n->in[0] >= 0 ? &c->node[n->in[0]] : NULL, *mask = n->in[1] >= 0 ? &c->node[n->in[1]] : NULL;
    int64_t room[STRIP];
    IdxVal at = with_lane_step(r, eval_dim(r, n->dim), b, room);
    n->varies = idx_varies(at) || (offsets && offsets->varies) || (mask && mask->varies);
    Access a = {.name = e->var->name, .b = b, .at = at, .stride = e->k, .lanes = n->varies ? r->lanes : 1, .width = e->type.lanes};
    a.size = n->size;
    a.element = dtype_bytes(e->var->type.type);
    a.offsets = offsets;
    a.mask = mask;
    n->p = dst;
    bool straight = !at.lane && !offsets && !mask && progression_inside(&a);
    unsigned char *p = b->p + at.v * a.element;
    if (straight && is_contiguous(&a) && (uintptr_t)p % (size_t)(n->size < 16 ? n->size : 8) == 0)
        n->p = p;
    else if (straight && is_contiguous(&a))
        memcpy(dst, p, (size_t)(a.lanes * a.width * a.size));
    else if (straight && a.width == 1 && a.size <= 8 && a.size == a.element)
        load_strided(&a, dst);
    else if (straight && a.width > 1 && a.stride == 1)
        load_rows(&a, dst);
    else
        load_each(r, &a, dst);
}

// ---- stores ----

static void store_each(Run *r, const Access *a, const Node *value) {
    bool same_lanes = a->lanes > 1 && !value->varies;
    const unsigned char *src = value->p;
    for (int s = 0; s < a->lanes; s++) {
        if (same_lanes) src = value->p;
        bool on = !r->active || r->active[s];
        for (int l = 0; l < a->width; l++, src += a->size) {
            unsigned char *p = on && mask_at(a->mask, s, l, a->width) ? address(r, a, s, l) : NULL;
            if (p) copy_element(p, src, a->size);
        }
    }
}

// Contiguous values of a type with lanes, at a constant distance, all inside.
static bool straight_rows(const Run *r, const Access *a, const CodeStmt *c) {
    bool plain = !a->at.lane && !c->offsets && !c->mask && !r->active;
    return plain && a->width > 1 && a->stride == 1 && progression_inside(a);
}

void run_store(Run *r, CodeStmt *c) {
    const Stmt *s = c->s;
    // Values of statements before these evaluations live on in their own strips only if they are no pool strips: so the value comes last.
    void *room[2] = {NULL, NULL};
    Node offsets, mask;
    unsigned char offsets_room[STRIP * 8], mask_room[STRIP];
    Access a = {.name = s->var->name, .b = &r->frame->buf[c->slot], .stride = s->offsets ? 0 : s->stride, .width = s->value->type.lanes};
    if (c->offsets) {
        room[0] = offsets_room;
        offsets = *eval_expr(r, c->offsets, room[0]);
        a.offsets = &offsets;
    }
    if (c->mask) {
        room[1] = mask_room;
        mask = *eval_expr(r, c->mask, room[1]);
        a.mask = &mask;
    }
    const Node *value = eval_expr(r, c->value, NULL);
    if (r->status) return;
    int64_t lane_room[STRIP];
    a.at = with_lane_step(r, eval_dim(r, c->dim), a.b, lane_room);
    a.lanes = r->lanes;
    a.size = value->size;
    a.element = dtype_bytes(s->var->type.type);
    bool straight = !a.at.lane && !c->offsets && !c->mask && !r->active && progression_inside(&a) && is_contiguous(&a);
    if (straight_rows(r, &a, c) && value->varies) {
        const unsigned char *from = value->p;
        size_t bytes = (size_t)(a.width * a.size);
        for (int l = 0; l < a.lanes; l++) memmove(a.b->p + (a.at.v + l * a.at.step) * a.element, from + (size_t)l * bytes, bytes);
        return;
    }
    if (!straight || (a.lanes > 1 && !value->varies)) {
        store_each(r, &a, value);
        return;
    }
    memmove(a.b->p + a.at.v * a.element, value->p, (size_t)(a.lanes * a.width * a.size));
}
