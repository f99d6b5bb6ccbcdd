// `mlc compile`: writes the model in the form that the output's suffix (or --emit) names. All files are written under temporary names and
// renamed together.
#include "exec.h"
#include "files.h"

#include <stdio.h>
#include <string.h>

typedef enum { FORM_C, FORM_LL, FORM_BC, FORM_O, FORM_SO, FORM_COUNT } Form;
static const char *const form_names[] = {"c", "ll", "bc", "o", "so"};

typedef struct {
    Arena *arena;
    Pipeline pipeline;
    Outputs outputs;
    ToolOptions tool;
    Form form;
    const char *model, *path; // path: of -o
    EmitOptions emit;
} Job;

static bool choose_form(Job *j, const Options *o, Diag *d) {
    const char *name = options_text(o, OPT_emit, NULL);
    if (!name) name = !strcmp(j->path, "-") ? "c" : path_suffix(j->path) + (path_suffix(j->path)[0] == '.');
    for (int i = 0; i < FORM_COUNT; i++)
        if (!strcmp(name, form_names[i])) {
            j->form = (Form)i;
            return true;
        }
    diag_error(d, EXIT_USAGE, "cannot tell from '%s' what to write: expected a name that ends in .c .ll .bc .o or .so, or --emit", j->path);
    return false;
}

// The file's name without its folder.
static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// Source and header as text; a header that nobody reads is left out.
static bool write_c(Job *j, Diag *d) {
    Str source = {0}, header = {0};
    bool one_file = !strcmp(j->path, "-");
    bool ok = codegen_c(j->pipeline.program, &j->emit, &source, &header, d);
    if (ok && j->form == FORM_C) ok = outputs_write(&j->outputs, j->path, source.data, source.n, d);
    if (ok && !one_file) ok = outputs_write(&j->outputs, path_with_suffix(j->arena, j->path, ".h"), header.data, header.n, d);
    if (ok && j->form == FORM_C && j->emit.weights_apart) {
        Str blob = {0};
        codegen_weights(j->pipeline.program, &blob);
        ok = outputs_write(&j->outputs, path_with_suffix(j->arena, j->path, ".bin"), blob.data, blob.n, d);
        str_free(&blob);
    }
    str_free(&source);
    str_free(&header);
    return ok;
}

static int llvm_level(const Job *j) {
    return j->pipeline.passes.level > 3 ? 2 : j->pipeline.passes.level;
}

static bool write_llvm(Job *j, Diag *d) {
    static const LlvmKind kinds[] = {[FORM_LL] = LLVM_LL, [FORM_BC] = LLVM_BC, [FORM_O] = LLVM_OBJECT};
    Str out = {0};
    bool ok = codegen_llvm(j->pipeline.program, &j->emit, kinds[j->form], llvm_level(j), &out, d) &&
              outputs_write(&j->outputs, j->path, out.data, out.n, d);
    str_free(&out);
    return ok && write_c(j, d);
}

// The object comes from LLVM where it is built in, else from the C compiler, which also links.
static bool write_shared(Job *j, Diag *d) {
    const char *target = outputs_temp(&j->outputs, j->path), *object = arena_printf(j->arena, "%s.o", target);
    Str text = {0}, header = {0};
    EmitOptions emit = j->emit;
    emit.header = NULL;
    emit.export_info = true;
    bool ok;
    if (llvm_available()) {
        ok = codegen_llvm(j->pipeline.program, &emit, LLVM_OBJECT, llvm_level(j), &text, d) && file_write(object, text.data, text.n, d) &&
             toolchain_run(&j->tool, (const char *[]){"-shared", "-o", target, object, NULL}, d);
        remove(object);
    } else
        ok = codegen_c(j->pipeline.program, &emit, &text, &header, d) && toolchain_shared(&text, &j->tool, target, d);
    str_free(&text);
    str_free(&header);
    return ok && write_c(j, d);
}

static bool write_depfile(Job *j, Diag *d) {
    const char *text = arena_printf(j->arena, "%s: %s\n", j->path, j->model);
    return outputs_write(&j->outputs, path_with_suffix(j->arena, j->path, ".d"), text, strlen(text), d);
}

static bool write_all(Job *j, Diag *d) {
    static bool (*const writers[])(Job *, Diag *) = {write_c, write_llvm, write_llvm, write_llvm, write_shared};
    return writers[j->form](j, d);
}

static bool prepare(Job *j, const Options *o, Diag *d) {
    j->model = o->args.data[0];
    j->path = options_text(o, OPT_output, NULL);
    if (!j->path) j->path = arena_printf(j->arena, "%s.%s", path_stem(j->arena, j->model), options_text(o, OPT_emit, "c"));
    if (!choose_form(j, o, d) || !pipeline_options(&j->pipeline, o, j->arena, d)) return false;
    bool one_file = !strcmp(j->path, "-");
    if (file_same(j->path, j->model)) {
        diag_error(d, EXIT_USAGE, "the output %s is the model itself", j->path);
        return false;
    }
    if (one_file && (j->form != FORM_C || options_has(o, OPT_depfile))) {
        diag_error(d, EXIT_USAGE, "only C without a depfile can be written to standard output");
        return false;
    }
    j->tool = (ToolOptions){.cc = options_text(o, OPT_cc, NULL), .level = "-O2"};
    const char *stem = path_stem(j->arena, one_file ? j->model : j->path);
    j->emit = (EmitOptions){.prefix = codegen_cname(j->arena, options_text(o, OPT_name, stem)), .options = j->pipeline.text};
    if (!one_file) j->emit.header = file_name(path_with_suffix(j->arena, j->path, ".h"));
    return true;
}

// Weights stand in the source up to a size that C compilers take in seconds; one file on standard output holds everything.
static bool choose_weights(Job *j, const Options *o, Diag *d) {
    enum { INLINE_BYTES = 4 << 20 };
    const char *form = options_text(o, OPT_weights, NULL);
    bool one_file = !strcmp(j->path, "-"), large = codegen_weights_bytes(j->pipeline.program) > INLINE_BYTES;
    bool file = form && !strcmp(form, "file"), in_source = form && !strcmp(form, "inline");
    if (form && !file && !in_source) diag_error(d, EXIT_USAGE, "--weights: expected inline or file, found '%s'", form);
    if (file && (one_file || j->form != FORM_C)) diag_error(d, EXIT_USAGE, "--weights=file goes with C written to a file");
    j->emit.weights_apart = j->form == FORM_C && !one_file && (file || (!form && large));
    return !d->errors;
}

ExitCode cmd_compile(const Options *o, Diag *d) {
    Job j = {.arena = o->arena, .outputs = {.arena = o->arena}};
    bool ok = prepare(&j, o, d) && pipeline_program(&j.pipeline, j.model, d) && choose_weights(&j, o, d) && write_all(&j, d);
    if (ok && options_has(o, OPT_depfile)) ok = write_depfile(&j, d);
    if (ok && !d->errors) ok = outputs_commit(&j.outputs, d);
    outputs_discard(&j.outputs);
    pipeline_close(&j.pipeline);
    return ok ? EXIT_OK : d->code;
}
