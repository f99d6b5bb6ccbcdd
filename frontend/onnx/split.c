// An If of the model's graph whose branches differ in type or rank: no value can stand for both, so the rest of the model is imported
// twice, behind each branch, and the If's outputs become the model's own.
//
//   b = if c { 5 } else { [1, 2, 3] }         y = if c { y1 = x + 5       }
//   y = x + b                            =>          else { y2 = x + [1, 2, 3] }
//
// Where only one of the two fits the rest of the model, that one is taken in place, behind a check of the condition.
#include "importer.h"
#include <string.h>

enum { MAX_SPLITS = 6 }; // each doubles what follows

bool split_begin(ImportNode *n, Value *cond, Region *const *branch) {
    Importer *imp = n->importer;
    if (!imp->scope->is_model || imp->splits == MAX_SPLITS) return false;
    Split *s = ARENA_NEW(n->arena, Split);
    *s = (Split){.node = *n, .cond = cond, .branch = {branch[0], branch[1]}};
    for (int i = 0; i < n->nout; i++) n->out[i] = branch[0]->yields.data[i];
    imp->split = s;
    return true;
}

// Names of the If's outputs as branch k gives them.
static bool bind_branch(Importer *imp, Scope *t, const Split *s, const Onnx__NodeProto *p, int k) {
    for (int i = 0; i < s->node.nout; i++) {
        if (!*p->output[i]) continue;
        Binding *b = scope_add(imp, t, p->output[i]);
        if (!b) return false;
        b->kind = BIND_VALUE;
        b->value = s->branch[k]->yields.data[i];
    }
    return true;
}

// The rest of the nodes behind branch k; what the branch yields then are the model's outputs.
static bool import_behind(
    Importer *imp, Scope *around, const Split *s, const Onnx__NodeProto *p, int k, size_t n, Onnx__NodeProto **nodes) {
    const Onnx__GraphProto *g = imp->model->proto->graph;
    Region *r = s->branch[k];
    Scope *t = scope_new(imp, around, around->call, r);
    t->is_model = true;
    bool ok = bind_branch(imp, t, s, p, k) && import_nodes(imp, t, n, nodes);
    r->yields.n = 0;
    for (size_t i = 0; ok && i < g->n_output; i++) {
        Value *v = import_output(imp, t, g->output[i]->name, "an output of the model");
        ok = v != NULL;
        vec_push(imp->graph->arena, &r->yields, v);
    }
    return ok;
}

// Outputs of the model are, in scope s, what the list gives.
static void bind_outputs(Importer *imp, Scope *s, Value *const *values) {
    const Onnx__GraphProto *g = imp->model->proto->graph;
    for (size_t i = 0; i < g->n_output; i++) {
        Binding *b = scope_find(s, g->output[i]->name);
        if (!b) b = scope_add(imp, s, g->output[i]->name);
        b->kind = BIND_VALUE;
        b->value = values[i];
    }
}

static bool regions_agree(const Region *x, const Region *y) {
    for (int i = 0; i < x->yields.n; i++)
        if (x->yields.data[i]->type != y->yields.data[i]->type || x->yields.data[i]->rank != y->yields.data[i]->rank) return false;
    return true;
}

static void take_only(Importer *imp, Scope *s, Split *split, int k, const char *why) {
    diag_warning(
        imp->diag, "node '%s' (If): %s; the program checks that '%s' is chosen", short_name(imp, split->node.b.label), why, if_branches[k]);
    if_check(&split->node, split->cond, k == 0);
    region_splice(s->region, split->branch[k]);
    bind_outputs(imp, s, split->branch[k]->yields.data);
}

bool split_rest(Importer *imp, Scope *s, const Onnx__NodeProto *p, size_t n, Onnx__NodeProto **nodes) {
    Split *split = imp->split;
    Held held[2];
    bool ok[2], dead[2];
    imp->split = NULL;
    imp->splits++;
    for (int k = 0; k < 2; k++) {
        faults_hold(imp, &held[k]);
        ok[k] = import_behind(imp, s, split, p, k, n, nodes);
        dead[k] = faults_release(imp, &held[k], ok[k]);
    }
    imp->splits--;
    for (int k = 0; k < 2; k++) {
        if (!dead[k]) continue;
        if (dead[0] && dead[1])
            diag_move(imp->diag, &held[k].faults);
        else
            diag_free(&held[k].faults);
    }
    if (!(ok[0] || dead[0]) || !(ok[1] || dead[1]) || (dead[0] && dead[1])) return false;
    if (dead[0] || dead[1]) {
        take_only(imp, s, split, dead[0], arena_printf(imp->graph->arena, "'%s' does not fit the rest of the model", if_branches[dead[1]]));
        return true;
    }
    if (!regions_agree(split->branch[0], split->branch[1])) {
        take_only(imp, s, split, 0, "an output of the model would have another type or rank with each branch");
        return true;
    }
    Node *node = g_if(&split->node.b, split->cond, split->branch[0], split->branch[1]);
    bind_outputs(imp, s, node->out);
    return true;
}
