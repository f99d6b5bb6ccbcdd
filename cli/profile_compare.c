// Two profiles side by side, by groups of ONNX nodes; see profile.h.
//
// Nodes are known by the names in the kernels' labels. Each kernel of the first profile is a group, but one whose nodes are all among
// another's (padding in front of a convolution, parts of a sum) belongs to that one's; a kernel of the second profile goes to the group
// that shares most names with it, the first one of several. One group is for what has no counterpart.
#include "profile.h"
#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef VEC(const char *) Names;

typedef struct {
    const char *label;
    Names names;
    double first, second; // ms
    int kernels[2];
} Group;

typedef struct {
    Arena *arena;
    VEC(Group) groups;
} Groups;

static Names split(Arena *a, const char *label) {
    Names names = {0};
    for (const char *p = label; p && *p;) {
        const char *end = strstr(p, " + ");
        size_t n = end ? (size_t)(end - p) : strlen(p);
        vec_push(a, &names, arena_strndup(a, p, n));
        p = end ? end + 3 : p + n;
    }
    return names;
}

static int shared(const Names *a, const Names *b) {
    int n = 0;
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < b->n; k++) n += !strcmp(a->data[i], b->data[k]);
    return n;
}

// The group that has all names of the label, or a new one.
static Group *group_of(Groups *g, const char *label) {
    Names names = split(g->arena, label);
    for (int i = 0; i < g->groups.n; i++) {
        Group *x = &g->groups.data[i];
        if (names.n ? shared(&x->names, &names) == names.n : !x->names.n) return x;
    }
    vec_push(g->arena, &g->groups, ((Group){.label = label, .names = names}));
    return &g->groups.data[g->groups.n - 1];
}

static Group *best_group(Groups *g, const char *label) {
    Names names = split(g->arena, label);
    int best = -1, most = 0;
    for (int i = 0; i < g->groups.n; i++) {
        int n = shared(&g->groups.data[i].names, &names);
        if (n > most) most = n, best = i;
    }
    return best < 0 ? group_of(g, "") : &g->groups.data[best];
}

static int slower_first(const void *x, const void *y) {
    const Group *a = x, *b = y;
    if (a->first != b->first) return a->first < b->first ? 1 : -1;
    return strcmp(a->label, b->label);
}

static const char *label_of(const ProfileRow *r) {
    return r->kernel->label ? r->kernel->label : "";
}

static Groups groups_of(const Profile *f, const Profile *g) {
    Groups all = {.arena = f->arena};
    int most = 0;
    for (int i = 0; i < f->n; i++) {
        int n = split(f->arena, label_of(&f->rows[i])).n;
        if (n > most) most = n;
    }
    for (int n = most; n >= 0; n--) // the larger ones first, so that the smaller ones find them
        for (int i = 0; i < f->n; i++) {
            if (split(f->arena, label_of(&f->rows[i])).n != n) continue;
            Group *x = group_of(&all, label_of(&f->rows[i]));
            x->first += f->rows[i].ms;
            x->kernels[0]++;
        }
    for (int i = 0; i < g->n; i++) {
        Group *x = best_group(&all, label_of(&g->rows[i]));
        x->second += g->rows[i].ms;
        x->kernels[1]++;
    }
    qsort(all.groups.data, (size_t)all.groups.n, sizeof *all.groups.data, slower_first);
    return all;
}

static void print_group(double first, double second, int kernels, int others, const char *label) {
    printf("%10.4f %10.4f ", first, second);
    if (first > 0)
        printf("%7.3f", second / first);
    else
        printf("%7s", "-");
    printf(" %8d %7d  %s\n", kernels, others, label);
}

void profile_compare(const Profile *f, const Profile *g) {
    Groups all = groups_of(f, g);
    printf("%10s %10s %7s %8s %7s  %s\n", "first ms", "second ms", "ratio", "kernels", "second", "nodes of the group");
    for (int i = 0; i < all.groups.n; i++) {
        const Group *x = &all.groups.data[i];
        print_group(x->first, x->second, x->kernels[0], x->kernels[1], x->label[0] ? x->label : "(kernels of no node in common)");
    }
    print_group(f->kernel_ms, g->kernel_ms, f->n, g->n, "in all");
}

void profile_compare_json(Str *s, const Profile *f, const Profile *g) {
    Groups all = groups_of(f, g);
    str_add(s, ", \"groups\": [");
    for (int i = 0; i < all.groups.n; i++) {
        const Group *x = &all.groups.data[i];
        str_printf(s, "%s{\"ms\": %.6g, \"other_ms\": %.6g, \"kernels\": %d, \"other_kernels\": %d", i ? ", " : "", x->first, x->second,
            x->kernels[0], x->kernels[1]);
        json_text(s, "nodes", x->label);
        str_add(s, "}");
    }
    str_printf(s, "], \"groups_ms\": %.6g, \"other_groups_ms\": %.6g", f->kernel_ms, g->kernel_ms);
}
