// If: which of its branches become code.
//
//   the condition is known          that branch, in place of the node
//   both outputs agree in type      an `if` of two regions; extents that differ become symbols of run time
//   they differ in type or rank     among the model's own nodes the rest of the model behind each (split.c); in subgraphs and functions a
//                                   decision (import.h): one branch in place, behind a check that the condition chooses it. A condition
//                                   that compares sizes is checked through guards, at the program's entry; any other through its value
//   one branch is at fault itself   the other one, behind the same check
#include "importer.h"
#include <string.h>

const char *const if_branches[2] = {"then_branch", "else_branch"};

// ---- conditions over sizes ----

typedef struct {
    const Dim *list[16];
    int n;
} Guards;

static const Dim *single(const Node *map, const Expr *arg) {
    if (arg->op != X_arg) return NULL;
    const Value *v = map->in[arg->k];
    return v->content && v->ncontent == 1 ? v->content[0] : NULL;
}

// Adds the guards (Dims >= 0) under which x op y is `want`; false when no conjunction says it.
static bool compare_guards(DimTable *t, XOp op, const Dim *x, const Dim *y, bool want, Guards *g) {
    static const struct {
        XOp op;
        bool want;
        int sign, less; // sign * (x - y) - less >= 0
    } rows[] = {{X_eq, true, 1, 0}, {X_eq, true, -1, 0}, {X_ne, false, 1, 0}, {X_ne, false, -1, 0}, {X_lt, true, -1, 1},
        {X_lt, false, 1, 0}, {X_le, true, -1, 0}, {X_le, false, 1, 1}, {X_gt, true, 1, 1}, {X_gt, false, -1, 0}, {X_ge, true, 1, 0},
        {X_ge, false, -1, 1}};
    int before = g->n;
    const Dim *diff = dim_sub(t, x, y);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].op != op || rows[i].want != want) continue;
        if (g->n == (int)(sizeof g->list / sizeof *g->list)) return false;
        g->list[g->n++] = dim_addi(t, dim_muli(t, diff, rows[i].sign), -rows[i].less);
    }
    return g->n > before;
}

static bool condition_guards(DimTable *t, const Value *cond, bool want, Guards *g) {
    const Node *def = cond->def;
    if (def && def->op == G_reshape) return condition_guards(t, def->in[0], want, g);
    if (!def || def->op != G_map || !def->body) return false;
    const Expr *e = def->body;
    for (int i = 0; i < e->n; i++)
        if (!e->a[i] || e->a[i]->op != X_arg) return false;
    if (e->op == X_not) return condition_guards(t, def->in[e->a[0]->k], !want, g);
    if ((e->op == X_and && want) || (e->op == X_or && !want))
        return condition_guards(t, def->in[e->a[0]->k], want, g) && condition_guards(t, def->in[e->a[1]->k], want, g);
    if (e->n != 2) return false;
    const Dim *x = single(def, e->a[0]), *y = single(def, e->a[1]);
    return x && y && compare_guards(t, e->op, x, y, want, g);
}

bool if_check(ImportNode *n, Value *cond, bool want) {
    Guards g = {.n = 0};
    bool sizes = condition_guards(n->dims, cond, want, &g);
    if (sizes)
        g_check(&n->b, NULL, g.n, g.list, CODE_SHAPE);
    else
        g_check(&n->b, want ? cond : g_map1(&n->b, X_not, cond), 0, NULL, CODE_ASSERT);
    return sizes;
}

// ---- branches ----

typedef struct {
    Region *region;
    bool dead;
    Held held;
} Branch;

void faults_hold(Importer *imp, Held *h) {
    *h = (Held){.before = *imp, .faults = {.file = imp->diag->file}};
    imp->diag = &h->faults;
}

bool faults_release(Importer *imp, Held *h, bool ok) {
    const Importer *before = &h->before;
    imp->diag = before->diag;
    bool own = h->faults.errors > 0 && h->faults.code == EXIT_MODEL && imp->decided == before->decided && before->decided_at_fault < 0;
    if (ok || !own) {
        diag_move(imp->diag, &h->faults);
        return false;
    }
    imp->stopped = before->stopped;
    imp->decided_at_fault = before->decided_at_fault;
    imp->unsupported.n = before->unsupported.n;
    return true;
}

static void import_branch(ImportNode *n, const char *name, Branch *b) {
    faults_hold(n->importer, &b->held);
    b->region = attr_region(n, name, 0, NULL);
    b->dead = faults_release(n->importer, &b->held, b->region != NULL);
}

static bool agree(const ImportNode *n, const Region *x, const Region *y) {
    for (int i = 0; i < n->nout; i++) {
        const Value *a = x->yields.data[i], *b = y->yields.data[i];
        if (a->type != b->type || a->rank != b->rank) return false;
    }
    return true;
}

// A branch in place of the node; its outputs. As if_check.
static bool take_branch(ImportNode *n, Value *cond, Region *r, bool want) {
    bool sizes = if_check(n, cond, want);
    region_splice(n->b.region, r);
    for (int i = 0; i < n->nout; i++) n->out[i] = r->yields.data[i];
    return sizes;
}

static bool both_branches(ImportNode *n, Value *cond, Branch *b) {
    Region *then = b[0].region, *otherwise = b[1].region;
    then->yields.n = otherwise->yields.n = n->nout;
    if (!agree(n, then, otherwise)) {
        if (split_begin(n, cond, (Region *const[]){then, otherwise})) return true;
        int choice = import_decide(n, 2);
        if (!take_branch(n, cond, b[choice].region, choice == 0))
            diag_warning(n->importer->diag, "node '%s' (If): its branches differ in type or rank; the program checks that '%s' is chosen",
                short_name(n->importer, n->b.label), if_branches[choice]);
        return true;
    }
    Node *node = g_if(&n->b, cond, then, otherwise);
    for (int i = 0; i < n->nout; i++) n->out[i] = node->out[i];
    return true;
}

static bool known_branch(ImportNode *n, const char *name) {
    int count;
    Value **outs;
    if (!attr_inline(n, name, 0, NULL, &count, &outs)) return false;
    for (int i = 0; i < n->nout; i++) n->out[i] = outs[i];
    return true;
}

bool import_if(ImportNode *n) {
    for (int k = 0; k < 2; k++)
        if (attr_graph_outputs(n, if_branches[k]) < n->nout)
            return import_fail(n, "has %d outputs, its attribute '%s' %d", n->nout, if_branches[k], attr_graph_outputs(n, if_branches[k]));
    Value *cond = scalar_value(n, n->in[0], DT_bool, "the condition");
    if (!cond) return false;
    int64_t known;
    if (value_content_int(cond, 0, &known)) return known_branch(n, if_branches[known == 0]);
    Branch b[2];
    for (int k = 0; k < 2; k++) import_branch(n, if_branches[k], &b[k]);
    bool both_dead = b[0].dead && b[1].dead, dead = b[0].dead || b[1].dead;
    for (int k = 0; k < 2; k++) {
        if (!b[k].dead) continue;
        if (both_dead)
            diag_move(n->importer->diag, &b[k].held.faults);
        else
            diag_free(&b[k].held.faults);
    }
    if (both_dead) return import_fail(n, "neither of its branches can be imported");
    if (dead && b[b[0].dead].region) {
        diag_warning(n->importer->diag,
            "node '%s' (If): '%s' does not fit the model and is left out; the program checks that it is not chosen",
            short_name(n->importer, n->b.label), if_branches[b[1].dead]);
        take_branch(n, cond, b[b[0].dead].region, b[1].dead);
        return true;
    }
    if (!b[0].region || !b[1].region) return false;
    return both_branches(n, cond, b);
}
