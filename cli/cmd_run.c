// `mlc run`: opens the model with a backend, runs it once on the given inputs, says what came out and writes it with -o as .npy.
#include "exec.h"
#include "files.h"
#include "npy.h"
#include "spec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 8 };

static void show_element(const Tensor *t, int64_t i) {
    const char *p = (const char *)t->data + (size_t)i * (size_t)dtype_bytes(t->type);
    if (t->type == DT_str)
        printf(" \"%s\"", ((const StringElement *)t->data)[i].text);
    else if (dtype_is_float(t->type))
        printf(" %.6g", scalar_read(t->type, p).f);
    else if (dtype_info(t->type)->cls == 'U')
        printf(" %llu", (unsigned long long)scalar_read(t->type, p).u);
    else if (dtype_info(t->type)->cls != 'C')
        printf(" %lld", (long long)scalar_read(t->type, p).i);
}

// "scores: f32[1,10] largest 9.3 at 7: -1.2 0.3 …"
static void show(const Port *p, const Tensor *t) {
    int64_t n = tensor_count(t), best = -1;
    double top = 0;
    printf("%s: %s[", p->label, dtype_name(t->type));
    for (int i = 0; i < t->rank; i++) printf("%s%lld", i ? "," : "", (long long)t->shape[i]);
    printf("]");
    for (int64_t i = 0; i < n && dtype_is_float(t->type); i++) {
        double v = scalar_read(t->type, (const char *)t->data + (size_t)i * (size_t)dtype_bytes(t->type)).f;
        if (isnan(v) || (best >= 0 && !(v > top))) continue;
        top = v;
        best = i;
    }
    if (best >= 0) printf(" largest %.6g at %lld", top, (long long)best);
    printf(":");
    for (int64_t i = 0; i < n && i < SHOWN; i++) show_element(t, i);
    printf("%s\n", n > SHOWN ? " …" : "");
}

static bool write_outputs(const Exec *e, const Tensor *outputs, const char *dir, Arena *a, Diag *d) {
    Outputs files = {.arena = a};
    bool ok = dir_make(dir, d);
    for (int i = 0; i < e->nout && ok; i++) {
        Str s = {0};
        ok = npy_format(&outputs[i], &s, d) && outputs_write(&files, arena_printf(a, "%s/%s.npy", dir, e->out[i].name), s.data, s.n, d);
        str_free(&s);
    }
    if (ok) ok = outputs_commit(&files, d);
    outputs_discard(&files);
    return ok;
}

static bool run(const Options *o, Exec *e, Diag *d) {
    Tensor *in = ARENA_ARRAY(o->arena, Tensor, e->nin + 1), *out = ARENA_ARRAY(o->arena, Tensor, e->nout + 1);
    exec_set_seed(e, (uint64_t)options_int(o, OPT_seed, 0, INT64_MAX, 0, d));
    if (!spec_inputs(o, e, false, o->arena, in, d) || exec_run(e, in, out, o->arena, d)) return false;
    for (int i = 0; i < e->nout; i++) show(&e->out[i], &out[i]);
    const char *dir = options_text(o, OPT_output, NULL);
    return !dir || write_outputs(e, out, dir, o->arena, d);
}

ExitCode cmd_run(const Options *o, Diag *d) {
    Pipeline p = {0};
    Backend b;
    ToolOptions t = {.cc = options_text(o, OPT_cc, NULL), .level = "-O2", .cache = !options_has(o, OPT_no_cache)};
    bool ok = backend_parse(o, &b, d) && pipeline_options(&p, o, o->arena, d);
    Exec *e = ok ? exec_open(&p, o->args.data[0], b, &t, d) : NULL;
    ok = e && run(o, e, d);
    exec_free(e);
    pipeline_close(&p);
    return ok ? EXIT_OK : d->code;
}
