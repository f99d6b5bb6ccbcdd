// `mlc compile`: writes the model in the form that the output's suffix (or --emit) names. All files are written under temporary names and
// renamed together.
#include "exec.h"
#include "files.h"

#include <stdio.h>
#include <string.h>

typedef enum { FORM_C, FORM_LL, FORM_BC, FORM_O, FORM_SO, FORM_COUNT } Form;
static const char *const form_names[] = {"c", "ll", "bc", "o", "so"};

// Where the weights are: in the output, in an object beside it, in a file beside it, where the caller says.
typedef enum { PLACE_INLINE, PLACE_OBJECT, PLACE_FILE, PLACE_EXTERN, PLACES } WeightsPlace;

typedef struct {
    Arena *arena;
    Pipeline pipeline;
    Outputs outputs;
    ToolOptions tool;
    Form form;
    Backend backend;
    WeightsPlace weights;
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

static const char *weights_path(const Job *j) {
    return path_with_suffix(j->arena, j->path, j->weights == PLACE_OBJECT ? ".weights.o" : ".bin");
}

static bool write_weights_object(Job *j, const char *path, Diag *d) {
    FILE *f = outputs_open(&j->outputs, path, d);
    if (!f) return false;
    bool ok = codegen_weights_object(j->pipeline.program, &j->emit, outputs_sink, f, d);
    return outputs_close(&j->outputs, f, d) && ok;
}

// What stands beside the output: a file or an object of weights.
static bool write_weights(Job *j, Diag *d) {
    if (j->weights == PLACE_OBJECT) return j->form == FORM_SO || write_weights_object(j, weights_path(j), d);
    if (j->weights != PLACE_FILE) return true;
    FILE *f = outputs_open(&j->outputs, weights_path(j), d);
    if (!f) return false;
    codegen_weights(j->pipeline.program, &j->emit, outputs_sink, f);
    return outputs_close(&j->outputs, f, d);
}

static bool write_header(Job *j, const Str *header, Diag *d) {
    return outputs_write(&j->outputs, path_with_suffix(j->arena, j->path, ".h"), header->data, header->n, d);
}

// The header of what LLVM made: the C printer's, whose source nobody reads, so it need not hold the constants.
static bool write_header_alone(Job *j, Diag *d) {
    Str source = {0}, header = {0};
    EmitOptions emit = j->emit;
    if (emit.weights == WEIGHTS_INLINE) emit.weights = WEIGHTS_OBJECT;
    bool ok = codegen_c(j->pipeline.program, &emit, &source, &header, d) && write_header(j, &header, d);
    str_free(&source);
    str_free(&header);
    return ok;
}

static bool write_c(Job *j, Diag *d) {
    Str source = {0}, header = {0};
    bool one_file = !strcmp(j->path, "-");
    bool ok = codegen_c(j->pipeline.program, &j->emit, &source, &header, d) &&
              outputs_write(&j->outputs, j->path, source.data, source.n, d) && (one_file || write_header(j, &header, d));
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
    return ok && write_header_alone(j, d);
}

// The model's code as an object at `path`, by LLVM or by the C compiler.
static bool make_object(Job *j, const EmitOptions *emit, const char *path, Diag *d) {
    Str text = {0}, header = {0};
    bool ok;
    if (j->backend == BACKEND_LLVM)
        ok = codegen_llvm(j->pipeline.program, emit, LLVM_OBJECT, llvm_level(j), &text, d) && file_write(path, text.data, text.n, d);
    else
        ok = codegen_c(j->pipeline.program, emit, &text, &header, d) &&
             toolchain_object(&text, &j->tool, j->form == FORM_SO ? "-fPIC" : NULL, path, d);
    str_free(&text);
    str_free(&header);
    return ok;
}

static bool write_object(Job *j, Diag *d) {
    if (j->backend == BACKEND_LLVM) return write_llvm(j, d);
    EmitOptions emit = j->emit;
    emit.header = NULL;
    return make_object(j, &emit, outputs_temp(&j->outputs, j->path), d) && write_header_alone(j, d);
}

// Weights in an object of their own go from here to the linker, past both compilers.
static bool write_shared(Job *j, Diag *d) {
    const char *target = outputs_temp(&j->outputs, j->path), *object = arena_printf(j->arena, "%s.o", target);
    const char *weights = arena_printf(j->arena, "%s.w.o", target);
    EmitOptions emit = j->emit;
    emit.header = NULL;
    emit.export_info = true;
    bool apart = j->weights == PLACE_OBJECT, ok = make_object(j, &emit, object, d);
    if (ok && apart) {
        ok = write_weights_object(j, weights, d);
        weights = j->outputs.files.data[--j->outputs.files.n].temp; // not an output
    }
    ok = ok && toolchain_run(&j->tool, (const char *[]){"-shared", "-o", target, object, apart ? weights : NULL, NULL}, d);
    remove(object);
    if (apart) remove(weights);
    return ok && write_header_alone(j, d);
}

// A path in a make rule.
static void add_make_path(Str *s, const char *path) {
    for (; *path; path++) {
        if (*path == ' ' || *path == '#' || *path == '\\') str_add(s, "\\");
        if (*path == '$') str_add(s, "$");
        str_addn(s, path, 1);
    }
}

static bool write_depfile(Job *j, Diag *d) {
    Str s = {0};
    const Model *m = j->pipeline.model;
    add_make_path(&s, j->path);
    str_add(&s, ":");
    for (int i = 0; m ? frontend_file(m, i) != NULL : i == 0; i++) {
        str_add(&s, " ");
        add_make_path(&s, m ? frontend_file(m, i) : j->model);
    }
    str_add(&s, "\n");
    bool ok = outputs_write(&j->outputs, path_with_suffix(j->arena, j->path, ".d"), s.data, s.n, d);
    str_free(&s);
    return ok;
}

static bool write_all(Job *j, Diag *d) {
    static bool (*const writers[])(Job *, Diag *) = {write_c, write_llvm, write_llvm, write_object, write_shared};
    return writers[j->form](j, d) && write_weights(j, d);
}

// Which compiler makes .o and .so; .ll and .bc are LLVM's own.
static bool choose_backend(Job *j, const Options *o, Diag *d) {
    if (!backend_parse(o, &j->backend, d)) return false;
    if (j->backend == BACKEND_EVAL) diag_error(d, EXIT_USAGE, "--backend: expected llvm or c, found 'eval'");
    if (options_has(o, OPT_backend) && j->form == FORM_C && j->backend == BACKEND_LLVM)
        diag_error(d, EXIT_USAGE, "--backend=llvm does not write C");
    if (j->backend == BACKEND_C && (j->form == FORM_LL || j->form == FORM_BC))
        diag_error(d, options_has(o, OPT_backend) ? EXIT_USAGE : EXIT_UNSUPPORTED, "only LLVM writes .%s", form_names[j->form]);
    return !d->errors;
}

static bool prepare(Job *j, const Options *o, Diag *d) {
    j->model = o->args.data[0];
    j->path = options_text(o, OPT_output, NULL);
    if (!j->path) j->path = arena_printf(j->arena, "%s.%s", path_stem(j->arena, j->model), options_text(o, OPT_emit, "c"));
    if (!choose_form(j, o, d) || !choose_backend(j, o, d) || !pipeline_options(&j->pipeline, o, j->arena, d)) return false;
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
    j->emit = (EmitOptions){.prefix = codegen_cname(j->arena, options_text(o, OPT_name, stem)),
        .options = j->pipeline.text,
        .hooks = options_has(o, OPT_hooks)};
    if (!one_file) j->emit.header = file_name(path_with_suffix(j->arena, j->path, ".h"));
    return true;
}

static const char *const place_names[] = {"inline", "object", "file", "extern"};

// Weights stand in the output itself up to a size that C compilers take in seconds, then in an object beside it (a .so holds it), or in a
// file where the target has no objects we know. One file on standard output holds everything.
static WeightsPlace usual_place(const Job *j) {
    enum { INLINE_BYTES = 4 << 20 };
    if (!strcmp(j->path, "-") || codegen_weights_bytes(j->pipeline.program, &j->emit) <= INLINE_BYTES) return PLACE_INLINE;
    if (codegen_has_objects(j->pipeline.program)) return PLACE_OBJECT;
    return j->form == FORM_C ? PLACE_FILE : PLACE_INLINE;
}

static void take_levels(Job *j) {
    if (j->pipeline.nlevels < 2) return;
    j->emit.dispatch = j->pipeline.target;
    j->emit.levels = j->pipeline.levels;
    j->emit.nlevels = j->pipeline.nlevels;
}

static bool choose_place(Job *j, const Options *o, Diag *d) {
    static const WeightsForm forms[] = {WEIGHTS_INLINE, WEIGHTS_OBJECT, WEIGHTS_BLOB, WEIGHTS_BLOB};
    const char *text = options_text(o, OPT_weights, NULL);
    int i = 0;
    while (text && i < PLACES && strcmp(text, place_names[i])) i++;
    if (i == PLACES) {
        diag_error(d, EXIT_USAGE, "--weights: expected inline, object, file or extern, found '%s'", text);
        return false;
    }
    take_levels(j);
    j->weights = text ? (WeightsPlace)i : usual_place(j);
    j->emit.weights = forms[j->weights];
    if (!strcmp(j->path, "-") && (j->weights == PLACE_OBJECT || j->weights == PLACE_FILE))
        diag_error(d, EXIT_USAGE, "--weights=%s goes with C written to a file", text);
    if (j->emit.weights == WEIGHTS_BLOB && j->form != FORM_C && j->backend == BACKEND_LLVM)
        diag_error(d, EXIT_USAGE, "--weights=%s goes through the C compiler: --backend=c", text);
    return !d->errors;
}

// --section weights=NAME
static bool choose_section(Job *j, const Options *o, Diag *d) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._$-";
    const char *text = options_text(o, OPT_section, NULL);
    if (!text) return true;
    const char *name = strncmp(text, "weights=", 8) ? "" : text + 8;
    if (!*name || name[strspn(name, letters)])
        diag_error(d, EXIT_USAGE, "--section: expected weights=NAME with a section's name, found '%s'", text);
    if (j->emit.weights == WEIGHTS_BLOB)
        diag_error(d, EXIT_USAGE, "--section: weights of --weights=%s are in no section", place_names[j->weights]);
    j->emit.weights_section = name;
    return !d->errors;
}

ExitCode cmd_compile(const Options *o, Diag *d) {
    Job j = {.arena = o->arena, .outputs = {.arena = o->arena}};
    bool ok = prepare(&j, o, d) && pipeline_program(&j.pipeline, j.model, d) && choose_place(&j, o, d) && choose_section(&j, o, d) &&
              write_all(&j, d);
    if (ok && options_has(o, OPT_depfile)) ok = write_depfile(&j, d);
    if (ok && !d->errors) ok = outputs_commit(&j.outputs, d);
    outputs_discard(&j.outputs);
    pipeline_close(&j.pipeline);
    return ok ? EXIT_OK : d->code;
}
