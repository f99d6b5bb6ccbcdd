// The stages of one case, and a batch of them. All C sources of a batch are one translation unit, for most of a small compile is its start.
#include "conform.h"

#include "../../cli/dataset.h"
#include "../../cli/files.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_BATCH = 256 };
static const double bf16_rtol = 0x1p-6; // two units, as the package's own runner allows

void result_set(Result *r, ResultKind kind, const char *text) {
    snprintf(r->text, sizeof r->text, "%s", text);
    r->text[strcspn(r->text, "\n")] = 0;
    r->kind = kind;
}

// The first message of d without its head.
static void set_fault(Result *r, const Diag *d) {
    const char *text = d->text.data ? d->text.data : "failed without a message", *head = "mlc: error: ";
    const char *found = strstr(text, head);
    if (found) text = found + strlen(head);
    if (d->file && !strncmp(text, d->file, strlen(d->file))) text += strlen(d->file) + 2;
    result_set(r, RESULT_FAIL, text);
}

static bool compare(const Case *c, const Tensor *found, const Tensor *expected, int n, Result *r) {
    for (int i = 0; i < n; i++) {
        Tolerance t = c->tolerance;
        if (expected[i].type == DT_bf16 && t.rtol < bf16_rtol) t.rtol = bf16_rtol;
        Comparison k = tensor_compare(&found[i], &expected[i], t);
        if (k.ok || (c->mode == MODE_SHAPE && k.differing)) continue;
        char text[sizeof r->text];
        snprintf(text, sizeof text, "output %d: %.220s", i, k.text);
        result_set(r, RESULT_FAIL, text);
        return false;
    }
    return true;
}

static bool run_set(const Case *c, Exec *e, const char *folder, Result *r, Diag *d) {
    Arena *a = arena_new();
    DataSet s;
    bool ok = dataset_read(folder, a, &s, d);
    if (ok && (s.nin != e->nin || s.nout != e->nout)) {
        diag_error(d, EXIT_MODEL, "the case has %d inputs and %d outputs, the model has %d and %d", s.nin, s.nout, e->nin, e->nout);
        ok = false;
    }
    Tensor *out = ARENA_ARRAY(a, Tensor, e->nout + 1);
    exec_reset(e);
    ok = ok && exec_run(e, s.in, out, a, d) == 0;
    if (!ok) set_fault(r, d);
    ok = ok && compare(c, out, s.out, s.nout, r);
    arena_free(a);
    return ok;
}

// Every data set of the case through e, which is freed.
static void run_exec(const Conform *c, int i, Exec *e, Stage stage, Diag *d) {
    Result *r = &c->state[i].result[stage];
    Arena *a = arena_new();
    const char *const *folders;
    int n = e ? dataset_folders(arena_printf(a, "%s/%s", c->folder, c->cases[i].name), a, &folders, d) : 0;
    bool ok = n > 0;
    if (!ok) set_fault(r, d);
    for (int k = 0; k < n && ok; k++) ok = run_set(&c->cases[i], e, folders[k], r, d);
    if (ok) result_set(r, RESULT_PASS, "");
    exec_free(e);
    arena_free(a);
}

static void fail_rest(CaseState *s, const Diag *d) {
    for (int k = 0; k < STAGE_COUNT; k++)
        if (s->result[k].kind == RESULT_NONE) set_fault(&s->result[k], d);
}

static const char *source_path(const Conform *c, Arena *a, int i, const char *suffix) {
    return arena_printf(a, "%s/t%d%s", c->temp, i, suffix);
}

static void emit_source(const Conform *c, Arena *a, const Pipeline *p, int i, Diag *d) {
    Str source = {0}, header = {0};
    EmitOptions o = {.prefix = arena_printf(a, "t%d", i), .options = "", .export_info = true};
    if (codegen_c(p->program, &o, &source, &header, d) && file_write(source_path(c, a, i, ".c"), source.data, source.n, d))
        c->state[i].emitted = true;
    else
        set_fault(&c->state[i].result[STAGE_C], d);
    str_free(&source);
    str_free(&header);
}

static void run_case(const Conform *c, int i) {
    CaseState *s = &c->state[i];
    Arena *a = arena_new();
    Diag d = {0};
    const char *path = arena_printf(a, "%s/%s/model.onnx", c->folder, c->cases[i].name);
    const Target *host = target_find("host");
    Pipeline p = {.arena = a, .passes = {.target = host, .level = 2, .threads = 1, .disabled = c->disabled}, .target = host, .text = ""};
    s->begun[STAGE_EVAL] = true;
    if (pipeline_import(&p, path, &d)) {
        if (c->stages[STAGE_EVAL]) run_exec(c, i, exec_from_graph(p.graph, &d), STAGE_EVAL, &d);
        diag_free(&d);
        d = (Diag){0};
        s->begun[STAGE_C] = true;
        if (!pipeline_program(&p, path, &d))
            fail_rest(s, &d);
        else {
            if (c->stages[STAGE_C]) emit_source(c, a, &p, i, &d);
            diag_free(&d);
            d = (Diag){0};
            s->begun[STAGE_LLVM] = true;
            if (c->stages[STAGE_LLVM]) run_exec(c, i, exec_llvm(p.program, 1, &d), STAGE_LLVM, &d);
        }
    } else
        fail_rest(s, &d);
    pipeline_close(&p);
    diag_free(&d);
    arena_free(a);
}

void conform_phase1(Conform *c, int first, int n) {
    for (int i = first; i < first + n; i++) {
        if (c->cases[i].mode == MODE_SKIP || c->state[i].begun[STAGE_EVAL]) continue;
        alarm((unsigned)c->timeout);
        run_case(c, i);
    }
    alarm(0);
}

// ---- phase 2 ----
static bool compile(const Conform *c, Arena *a, const int *which, int n, const char *so, Diag *d) {
    Str text = {0};
    for (int i = 0; i < n; i++) str_printf(&text, "#include \"t%d.c\"\n", which[i]);
    ToolOptions t = {.cc = c->cc, .level = "-I."};
    t.level = arena_printf(a, "-I%s", c->temp);
    bool ok = toolchain_shared(&text, &t, so, d);
    str_free(&text);
    return ok;
}

static void run_library(const Conform *c, Arena *a, const int *which, int n, const char *so) {
    for (int k = 0; k < n; k++) {
        int i = which[k];
        Diag d = {0};
        c->state[i].begun[STAGE_C] = true;
        alarm((unsigned)c->timeout);
        run_exec(c, i, exec_from_library(so, arena_printf(a, "t%d", i), &d), STAGE_C, &d);
        diag_free(&d);
    }
    alarm(0);
}

void conform_phase2(Conform *c, int first, int n) {
    Arena *a = arena_new();
    Diag d = {0};
    int which[MAX_BATCH], count = 0;
    for (int i = first; i < first + n && count < MAX_BATCH; i++)
        if (c->state[i].emitted && c->state[i].result[STAGE_C].kind == RESULT_NONE) which[count++] = i;
    const char *so = source_path(c, a, first, ".so");
    if (count && (file_exists(so) || compile(c, a, which, count, so, &d)))
        run_library(c, a, which, count, so);
    else
        for (int k = 0; k < count; k++) { // one by one, so that only the source at fault fails
            Diag one = {0};
            const char *alone = source_path(c, a, which[k], ".one.so");
            if (compile(c, a, &which[k], 1, alone, &one))
                run_library(c, a, &which[k], 1, alone);
            else
                set_fault(&c->state[which[k]].result[STAGE_C], &one);
            diag_free(&one);
        }
    diag_free(&d);
    arena_free(a);
}
