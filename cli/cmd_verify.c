// `mlc verify`: runs the model on stored examples and compares, or compares the compiled model with the reference evaluator on given or
// random inputs. One compiled artefact runs all sets. --per-node: see verify_nodes.c.
#include "compare.h"
#include "dataset.h"
#include "exec.h"
#include "spec.h"
#include "verify_nodes.h"

#include <stdio.h>
#include <string.h>

enum { STATE_RUNS = 3 }; // of a model with state, so that later runs see a state that is not its first

typedef struct {
    const Options *o;
    Pipeline pipeline;
    ToolOptions tool;
    Backend backend;
    Tolerance tolerance;
    int differing;
} Verify;

static void compare_outputs(Verify *v, const char *set, const Exec *e, const Tensor *found, const Tensor *expected, int n) {
    for (int i = 0; i < n; i++) {
        Comparison c = tensor_compare(&found[i], &expected[i], v->tolerance);
        v->differing += !c.ok;
        printf("%s: output '%s': %s%s", set, e->out[i].label, c.ok ? "equal" : "differs: ", c.text);
        if (c.ok && dtype_is_float(expected[i].type))
            printf(" (largest difference %.3g, largest magnitude %.3g)", c.max_difference, c.max_magnitude);
        printf("\n");
    }
}

// The stored tensors that belong to the inputs and outputs left by --input and --output.
static bool select_stored(const PipelineCut *c, const Exec *e, const char *folder, Arena *a, DataSet *s, Diag *d) {
    if (s->nin != c->nin || s->nout > c->nout) {
        diag_error(
            d, EXIT_MODEL, "%s has %d inputs and %d outputs, the whole model has %d and %d", folder, s->nin, s->nout, c->nin, c->nout);
        return false;
    }
    Tensor *in = ARENA_ARRAY(a, Tensor, e->nin + 1), *out = ARENA_ARRAY(a, Tensor, e->nout + 1);
    for (int i = 0; i < e->nin; i++) {
        if (c->in[i] < 0)
            diag_error(d, EXIT_USAGE, "%s has no data for the inner tensor '%s'", folder, e->in[i].label);
        else
            in[i] = s->in[c->in[i]];
    }
    for (int i = 0; i < e->nout; i++) {
        if (c->out[i] < 0 || c->out[i] >= s->nout)
            diag_error(d, EXIT_USAGE, "%s has no data for the tensor '%s'", folder, e->out[i].label);
        else
            out[i] = s->out[c->out[i]];
    }
    *s = (DataSet){s->path, e->nin, e->nout, in, out};
    return !d->errors;
}

// A model with state sees the sets of one DIR as consecutive runs.
static bool verify_set(Verify *v, Exec *e, const char *folder, Diag *d) {
    Arena *a = arena_new();
    DataSet s;
    bool ok = dataset_read(folder, a, &s, d);
    if (ok && v->pipeline.cut) ok = select_stored(v->pipeline.cut, e, folder, a, &s, d);
    if (ok && (s.nin != e->nin || s.nout > e->nout)) {
        diag_error(d, EXIT_MODEL, "%s has %d inputs and %d outputs, the model has %d and %d", folder, s.nin, s.nout, e->nin, e->nout);
        ok = false;
    }
    Tensor *out = ARENA_ARRAY(a, Tensor, e->nout + 1);
    ok = ok && exec_run(e, s.in, out, a, d) == 0;
    if (ok) compare_outputs(v, folder, e, out, s.out, s.nout);
    arena_free(a);
    return ok;
}

static bool verify_folders(Verify *v, Exec *e, Diag *d) {
    bool ok = true;
    for (int i = 1; i < v->o->args.n; i++) {
        const char *const *folders;
        int n = dataset_folders(v->o->args.data[i], v->o->arena, &folders, d);
        ok &= n > 0;
        exec_reset(e);
        for (int k = 0; k < n; k++) ok &= verify_set(v, e, folders[k], d);
    }
    return ok;
}

static bool verify_reference(Verify *v, Exec *e, Exec *reference, Diag *d) {
    Arena *a = v->o->arena;
    Tensor *in = ARENA_ARRAY(a, Tensor, e->nin + 1), *out = ARENA_ARRAY(a, Tensor, e->nout + 1),
           *expected = ARENA_ARRAY(a, Tensor, e->nout + 1);
    if (!spec_inputs(v->o, reference, true, a, in, d)) return false;
    int runs = v->o->values[OPT_state].n ? STATE_RUNS : 1;
    for (int k = 0; k < runs; k++) {
        if (exec_run(reference, in, expected, a, d) || exec_run(e, in, out, a, d)) return false;
        compare_outputs(v, runs > 1 ? arena_printf(a, "run %d", k + 1) : "random", e, out, expected, e->nout);
    }
    return true;
}

static bool verify(Verify *v, Diag *d) {
    Pipeline reference = v->pipeline;
    const char *path = v->o->args.data[0];
    Exec *e = exec_open(&v->pipeline, path, v->backend, &v->tool, d), *r = NULL;
    bool ok = e != NULL;
    if (ok && v->o->args.n > 1)
        ok = verify_folders(v, e, d);
    else if (ok) {
        r = exec_open(&reference, path, BACKEND_EVAL, &v->tool, d);
        ok = r && verify_reference(v, e, r, d);
    }
    if (ok && options_has(v->o, OPT_per_node)) ok = verify_nodes(v->o, path, v->tolerance, &v->differing, d);
    exec_free(e);
    exec_free(r);
    pipeline_close(&reference);
    return ok;
}

ExitCode cmd_verify(const Options *o, Diag *d) {
    Verify v = {.o = o, .tool = {.cc = options_text(o, OPT_cc, NULL), .level = "-O2", .cache = !options_has(o, OPT_no_cache)}};
    v.tolerance = (Tolerance){.rtol = options_f64(o, OPT_rtol, 1e-3, d),
        .atol = options_f64(o, OPT_atol, 1e-7, d),
        .ulp = options_int(o, OPT_ulp, 0, INT32_MAX, 0, d),
        .steps = options_int(o, OPT_steps, 0, 255, 0, d),
        .scaled = options_f64(o, OPT_scaled, o->args.n > 1 ? 0 : 1e-5, d)};
    bool ok = backend_parse(o, &v.backend, d) && pipeline_options(&v.pipeline, o, o->arena, d) && !d->errors && verify(&v, d);
    pipeline_close(&v.pipeline);
    if (!ok) return d->code;
    return v.differing ? EXIT_DIFFERS : EXIT_OK;
}
