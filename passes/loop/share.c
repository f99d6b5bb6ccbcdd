// share: kernels that are the same but for the buffers they are called with become one kernel, called with each.
//
// Models repeat their blocks, so this shortens emitted code, its compilation and what the instruction cache holds. Two kernels are the same
// when their texts are, the parameters' names aside; a check inside names its ONNX node, so kernels with checks stay apart. The first one's
// name and label stand for all.
#include "loop_passes.h"

#include <string.h>

typedef struct {
    const char *text;
    Kernel *kernel;
} Known;

typedef struct {
    Program *p;
    Arena *arena;
    VEC(Known) known;
    Kernel **stands_for; // [number of the kernel]: the first one like it
} Share;

// The text with parameters numbered and without what only names the kernel.
static const char *text_of(Share *h, const Kernel *k) {
    const char **names = ARENA_ARRAY(h->arena, const char *, k->params.n + 1);
    Kernel bare = *k;
    bare.name = "k";
    bare.label = NULL;
    bare.node = 0;
    for (int i = 0; i < k->params.n; i++) {
        names[i] = k->params.data[i]->var.name;
        k->params.data[i]->var.name = arena_printf(h->arena, "$%d", i);
    }
    Str s = {0};
    kernel_print(&s, &bare);
    for (int i = 0; i < k->params.n; i++) k->params.data[i]->var.name = names[i];
    const char *text = arena_strdup(h->arena, s.data);
    str_free(&s);
    return text;
}

static Kernel *first_like(Share *h, Kernel *k) {
    const char *text = text_of(h, k);
    for (int i = 0; i < h->known.n; i++)
        if (!strcmp(h->known.data[i].text, text)) return h->known.data[i].kernel;
    vec_push(h->arena, &h->known, ((Known){text, k}));
    return k;
}

static void share_call(void *ctx, Stmt *s) {
    Share *h = ctx;
    for (int i = 0; s->kind == ST_CALL && i < h->p->kernels.n; i++)
        if (h->p->kernels.data[i] == s->kernel) {
            s->kernel = h->stands_for[i];
            return;
        }
}

bool pass_share(Program *p, const PassOptions *o, Diag *d) {
    (void)o;
    (void)d;
    Arena *a = arena_new();
    Share h = {.p = p, .arena = a, .stands_for = ARENA_ARRAY(a, Kernel *, p->kernels.n + 1)};
    for (int i = 0; i < p->kernels.n; i++) h.stands_for[i] = first_like(&h, p->kernels.data[i]);
    loop_walk(&p->main, share_call, &h);
    int kept = 0, all = p->kernels.n;
    for (int i = 0; i < all; i++)
        if (h.stands_for[i] == p->kernels.data[i]) p->kernels.data[kept++] = p->kernels.data[i];
    p->kernels.n = kept;
    arena_free(a);
    return kept < all;
}
