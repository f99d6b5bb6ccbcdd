// The one page that runs the stages, and the translation of the command line into each stage's options.
//
//   frontend_read -> frontend_import -> passes_run_graph -> passes_lower -> passes_run_loop          (codegen: the commands call it)
//
// Constants of a Program may point into the mapped model file and into the Graph's arena, therefore both stand until pipeline_close.
#include "pipeline.h"
#include "check_each.h"
#include "files.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say(const Pipeline *p, const char *what, const char *path) {
    if (p->verbose) fprintf(stderr, "mlc: %s %s\n", what, path);
}

static char *read_text(Arena *a, const char *path, Diag *d) {
    size_t n;
    const char *bytes = file_map(path, &n, d);
    if (!bytes) return NULL;
    char *text = arena_strndup(a, bytes, n);
    file_unmap(bytes, n);
    return text;
}

// A text that the verifier refuses is its author's fault, a Graph or Program that we made is ours.
static bool verified_text(bool ok, Diag *d) {
    if (!ok) d->code = EXIT_MODEL;
    return ok;
}

static bool read_loop(Pipeline *p, const char *path, Diag *d) {
    char *text = read_text(p->arena, path, d);
    if (!text) return false;
    p->own_dims = dim_table_new();
    p->program = loop_parse(text, path, p->own_dims, NULL, NULL, d);
    return p->program && verified_text(loop_verify(p->program, d), d);
}

// Where each input and output that is left after a cut stood before; -1: it is new.
static int place_before(const char *const *names, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (names[i] && name && !strcmp(names[i], name)) return i;
    return -1;
}

typedef struct {
    VEC(const char *) inputs, outputs;
} Interface;

// Names of the inputs without states, and of the outputs.
static Interface interface_of(Arena *a, const Graph *g) {
    Interface x = {0};
    for (int i = 0; i < g->body->params.n; i++) {
        bool state = false;
        for (int k = 0; k < g->states.n; k++) state |= g->states.data[k].in == g->body->params.data[i];
        if (!state) vec_push(a, &x.inputs, g->body->params.data[i]->label);
    }
    for (int i = 0; i < g->output_names.n; i++) vec_push(a, &x.outputs, g->output_names.data[i]);
    return x;
}

static bool cut(Pipeline *p, Diag *d) {
    const Options *o = p->options;
    const TextList *in = o ? &o->values[OPT_cut_input] : NULL, *out = o ? &o->values[OPT_cut_output] : NULL,
                   *taps = o ? &o->values[OPT_tap] : NULL;
    if (!o || (!in->n && !out->n && !taps->n)) return true;
    Interface before = interface_of(p->arena, p->graph);
    if (!graph_cut(p->graph, &(GraphCut){in->data, out->data, taps->data, in->n, out->n, taps->n}, d)) return false;
    Interface now = interface_of(p->arena, p->graph);
    PipelineCut *c = p->cut = ARENA_NEW(p->arena, PipelineCut);
    *c = (PipelineCut){.nin = before.inputs.n, .nout = before.outputs.n};
    c->in = ARENA_ARRAY(p->arena, int, now.inputs.n + 1);
    c->out = ARENA_ARRAY(p->arena, int, now.outputs.n + 1);
    for (int i = 0; i < now.inputs.n; i++) c->in[i] = place_before(before.inputs.data, before.inputs.n, now.inputs.data[i]);
    for (int i = 0; i < now.outputs.n; i++) c->out[i] = place_before(before.outputs.data, before.outputs.n, now.outputs.data[i]);
    return true;
}

bool pipeline_import(Pipeline *p, const char *path, Diag *d) {
    if (p->graph) return true;
    d->file = path;
    say(p, "reading", path);
    if (!strcmp(path_suffix(path), ".graph")) {
        char *text = read_text(p->arena, path, d);
        p->graph = text ? graph_parse(text, path, d) : NULL;
        return p->graph && verified_text(graph_verify(p->graph, d), d) && cut(p, d) && graph_verify(p->graph, d);
    }
    p->model = frontend_read(path, d);
    p->graph = p->model ? frontend_import(p->model, &p->frontend, d) : NULL;
    return p->graph && graph_verify(p->graph, d) && cut(p, d) && graph_verify(p->graph, d);
}

bool pipeline_graph(Pipeline *p, const char *path, Diag *d) {
    if (!pipeline_import(p, path, d)) return false;
    if (p->options && options_has(p->options, OPT_check_each)) {
        p->passes.check_ctx = check_each_open(p->options, p->graph, p->arena, d);
        if (!p->passes.check_ctx) return false;
        p->passes.check_graph = check_each_graph;
        p->passes.check_program = check_each_program;
    }
    say(p, "running the graph passes on", path);
    return passes_run_graph(p->graph, &p->passes, d);
}

// The Graph is one for all levels of a target, so are the constants.
static bool lower_level(Pipeline *p, const Target *level, const char *path, Diag *d) {
    assert(p->nlevels < LEVELS_MAX);
    PassOptions passes = p->passes;
    passes.target = level;
    say(p, "lowering", path);
    Program *program = passes_lower(p->graph, &passes, d);
    if (!program) return false;
    if (!p->program) p->program = program;
    p->levels[p->nlevels++] = program;
    say(p, "running the loop passes on", path);
    return passes_run_loop(program, &passes, d);
}

bool pipeline_program(Pipeline *p, const char *path, Diag *d) {
    if (!strcmp(path_suffix(path), ".loop")) {
        d->file = path;
        if (p->options &&
            (options_has(p->options, OPT_cut_input) || options_has(p->options, OPT_cut_output) || options_has(p->options, OPT_tap)))
            diag_error(d, EXIT_USAGE, "--input, --output and --tap cut graphs, not loops");
        if (d->errors || !read_loop(p, path, d)) return false;
    } else {
        if (!pipeline_graph(p, path, d)) return false;
        if (p->model) frontend_forget(p->model);
        for (int i = 0; target_level(p->target, i); i++)
            if (!lower_level(p, target_level(p->target, i), path, d)) return false;
        return true;
    }
    say(p, "running the loop passes on", path);
    return passes_run_loop(p->program, &p->passes, d);
}

void pipeline_close(Pipeline *p) {
    for (int i = 1; i < p->nlevels; i++) program_free((Program *)(uintptr_t)p->levels[i]);
    if (p->program) program_free(p->program);
    p->nlevels = 0;
    if (p->graph) graph_free(p->graph);
    if (p->model) frontend_close(p->model);
    if (p->own_dims) dim_table_free(p->own_dims);
    p->program = NULL;
    p->graph = NULL;
    p->model = NULL;
    p->own_dims = NULL;
}

// ---- options ----
static bool read_int(const char **p, int64_t *v) {
    char *end;
    errno = 0;
    long long x = strtoll(*p, &end, 10);
    if (end == *p || errno || x < 0) return false;
    *v = x;
    *p = end;
    return true;
}

// batch=1, seq=1..512, x:0=4
static bool parse_dim(Arena *a, const char *text, DimOption *out) {
    const char *eq = strrchr(text, '=');
    if (!eq || eq == text) return false;
    const char *p = eq + 1;
    out->name = arena_strndup(a, text, (size_t)(eq - text));
    if (!read_int(&p, &out->lo)) return false;
    out->hi = out->lo;
    if (!strncmp(p, "..", 2)) {
        p += 2;
        if (!read_int(&p, &out->hi)) return false;
    }
    return !*p && out->lo <= out->hi;
}

// x=1x3x224x224
static bool parse_shape(Arena *a, const char *text, ShapeOption *out) {
    const char *eq = strrchr(text, '=');
    if (!eq || eq == text) return false;
    *out = (ShapeOption){.input = arena_strndup(a, text, (size_t)(eq - text))};
    for (const char *p = eq + 1; *p;) {
        if (out->rank == (int)(sizeof out->dims / sizeof *out->dims) || !read_int(&p, &out->dims[out->rank++])) return false;
        if (*p && (*p++ != 'x' || !*p)) return false;
    }
    return true;
}

static bool parse_state(Arena *a, const char *text, StateOption *out) {
    const char *eq = strchr(text, '=');
    if (!eq || eq == text || !eq[1]) return false;
    *out = (StateOption){arena_strndup(a, text, (size_t)(eq - text)), arena_strdup(a, eq + 1)};
    return true;
}

static const char *join(Arena *a, const TextList *list) {
    const char *all = NULL;
    for (int i = 0; i < list->n; i++) all = all ? arena_printf(a, "%s,%s", all, list->data[i]) : list->data[i];
    return all;
}

static void frontend_options(Pipeline *p, const Options *o, Diag *d) {
    const TextList *dims = &o->values[OPT_dim], *shapes = &o->values[OPT_shape], *states = &o->values[OPT_state];
    DimOption *dim = ARENA_ARRAY(p->arena, DimOption, dims->n + 1);
    ShapeOption *shape = ARENA_ARRAY(p->arena, ShapeOption, shapes->n + 1);
    StateOption *state = ARENA_ARRAY(p->arena, StateOption, states->n + 1);
    for (int i = 0; i < dims->n; i++)
        if (!parse_dim(p->arena, dims->data[i], &dim[i]))
            diag_error(d, EXIT_USAGE, "--dim: expected NAME=N or NAME=LO..HI, found '%s'", dims->data[i]);
    for (int i = 0; i < shapes->n; i++)
        if (!parse_shape(p->arena, shapes->data[i], &shape[i]))
            diag_error(d, EXIT_USAGE, "--shape: expected INPUT=1x3x224x224, found '%s'", shapes->data[i]);
    for (int i = 0; i < states->n; i++)
        if (!parse_state(p->arena, states->data[i], &state[i]))
            diag_error(d, EXIT_USAGE, "--state: expected INPUT=OUTPUT, found '%s'", states->data[i]);
    p->frontend = (FrontendOptions){dim, dims->n, shape, shapes->n, state, states->n};
}

static int level_of(const char *text, Diag *d) {
    static const char levels[] = "0123s";
    const char *at = text[0] ? strchr(levels, text[0]) : NULL;
    if (at && !text[1]) return (int)(at - levels);
    diag_error(d, EXIT_USAGE, "-O: expected 0, 1, 2, 3 or s, found '%s'", text);
    return 2;
}

// What of the command line shapes the output, as one line.
static const char *effective(Arena *a, const Options *o, const Target *t) {
    static const OptionId shaping[] = {
        OPT_dim, OPT_shape, OPT_state, OPT_region, OPT_threads, OPT_passes, OPT_hooks, OPT_cut_input, OPT_cut_output, OPT_tap};
    const char *text = arena_printf(a, "-O%s --target=%s", options_text(o, OPT_optimize, "2"), t ? t->name : "");
    for (size_t i = 0; i < sizeof shaping / sizeof *shaping; i++)
        for (int k = 0; k < o->values[shaping[i]].n; k++) {
            const OptionRow *row = option_row(shaping[i]);
            text = arena_printf(a, "%s --%s%s%s", text, row->name, row->arg[0] ? "=" : "", o->values[shaping[i]].data[k]);
        }
    const char *disabled = join(a, &o->disabled);
    return disabled ? arena_printf(a, "%s --disable-pass=%s", text, disabled) : text;
}

// Only what `compile` writes meets other machines: it has code for all levels of a target, the other commands for the highest that runs
// here. `host` is such a target on x86; a .loop file is for one machine.
static const Target *chosen_target(const Options *o, const char *name) {
    bool compile = !strcmp(o->command->name, "compile"), one = o->args.n && !strcmp(path_suffix(o->args.data[0]), ".loop");
    const Target *t = target_find(name);
    if (compile && !one && t && !strcmp(name, "host") && !strncmp(t->name, "x86-64", 6)) return target_find("x86-64");
    if (!t || !t->levels || (compile && !one)) return t;
    const Target *best = target_level(t, 0);
    for (int i = 1; target_level(t, i) && target_runs_here(target_level(t, i)); i++) best = target_level(t, i);
    return best;
}

bool pipeline_options(Pipeline *p, const Options *o, Arena *a, Diag *d) {
    *p = (Pipeline){.arena = a, .options = o, .verbose = options_has(o, OPT_verbose)};
    frontend_options(p, o, d);
    const char *name = options_text(o, OPT_target, "host");
    p->passes = (PassOptions){
        .target = chosen_target(o, name),
        .level = level_of(options_text(o, OPT_optimize, "2"), d),
        .threads = (int)options_int(o, OPT_threads, 1, 4096, 1, d),
        .only = options_has(o, OPT_passes) ? join(a, &o->values[OPT_passes]) : NULL,
        .disabled = join(a, &o->disabled),
        .dump_after = join(a, &o->values[OPT_dump_after]),
        .time_passes = options_has(o, OPT_time_passes),
        .regions = join(a, &o->values[OPT_region]),
    };
    p->target = p->passes.target;
    bool numbered = options_has(o, OPT_hooks) || options_has(o, OPT_profile) || options_has(o, OPT_compare);
    if (numbered) // each kernel has its own number
        p->passes.disabled = p->passes.disabled ? arena_printf(a, "%s,share", p->passes.disabled) : "share";
    if (!p->passes.target) diag_error(d, EXIT_UNSUPPORTED, "unknown target '%s' (see `mlc targets`)", name);
    p->text = effective(a, o, p->passes.target);
    return !d->errors;
}
