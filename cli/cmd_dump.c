// `mlc dump` and `mlc opt`: a stage of the model as text. `opt` runs exactly the passes of --passes (none without it); what they print both
// read again.
#include "files.h"
#include "pipeline.h"

#include <string.h>

// One line a buffer: bytes as an expression of the dimensions, offset in the arena, region, name.
static void print_memory(Str *s, Program *p) {
    static const char *const kinds[] = {"input", "output", "const", "state", "temp"};
    str_add(s, "; kind bytes offset region name\n");
    for (int i = 0; i < p->buffers.n; i++) {
        const LoopBuffer *b = p->buffers.data[i];
        str_printf(s, "%-6s ", kinds[b->kind]);
        dim_print(s, dim_muli(p->dims, loop_buffer_size(p, b), dtype_bytes(b->var.type.type)));
        str_add(s, " ");
        if (b->offset)
            dim_print(s, b->offset);
        else
            str_add(s, "-");
        str_printf(s, " %s %s%s%s\n", b->region ? b->region : "-", b->var.name, b->label ? " ; " : "", b->label ? b->label : "");
    }
    if (p->arena_bytes) {
        str_add(s, "arena  ");
        dim_print(s, p->arena_bytes);
        str_add(s, "\n");
    }
}

typedef enum { STAGE_NAME_IMPORT, STAGE_NAME_GRAPH, STAGE_NAME_LOOPS, STAGE_NAME_MEMORY, STAGE_NAMES } StageName;

static bool print_stage(Pipeline *p, const char *path, StageName stage, bool dot, Str *s, Diag *d) {
    bool ok = stage == STAGE_NAME_IMPORT  ? pipeline_import(p, path, d)
              : stage == STAGE_NAME_GRAPH ? pipeline_graph(p, path, d)
                                          : pipeline_program(p, path, d);
    if (!ok) return false;
    if (stage == STAGE_NAME_LOOPS) loop_print(s, p->program);
    if (stage == STAGE_NAME_MEMORY) print_memory(s, p->program);
    if (stage <= STAGE_NAME_GRAPH && dot) graph_print_dot(s, p->graph);
    if (stage <= STAGE_NAME_GRAPH && !dot) graph_print(s, p->graph);
    return true;
}

static bool parse_stage(const char *text, StageName *stage, Diag *d) {
    static const char *const names[] = {"import", "graph", "loops", "memory"};
    for (int i = 0; i < STAGE_NAMES; i++)
        if (!strcmp(text, names[i])) {
            *stage = (StageName)i;
            return true;
        }
    diag_error(d, EXIT_USAGE, "--stage: expected import, graph, loops or memory, found '%s'", text);
    return false;
}

static ExitCode print(const Options *o, bool only_named, Diag *d) {
    const char *path = o->args.data[0];
    bool is_loop = !strcmp(path_suffix(path), ".loop");
    StageName stage = STAGE_NAME_IMPORT;
    Pipeline p = {0};
    Str s = {0};
    Outputs files = {.arena = o->arena};
    bool ok = pipeline_options(&p, o, o->arena, d) && parse_stage(options_text(o, OPT_stage, is_loop ? "loops" : "graph"), &stage, d);
    if (ok && is_loop && stage < STAGE_NAME_LOOPS) {
        diag_error(d, EXIT_USAGE, "a .loop file has the stages loops and memory only");
        ok = false;
    }
    if (only_named && !p.passes.only) p.passes.only = "";
    p.passes.exact = only_named && (is_loop || stage < STAGE_NAME_LOOPS); // lowering needs what cannot be switched off
    ok = ok && print_stage(&p, path, stage, options_has(o, OPT_dot), &s, d) &&
         outputs_write(&files, options_text(o, OPT_output, "-"), s.data, s.n, d) && outputs_commit(&files, d);
    outputs_discard(&files);
    str_free(&s);
    pipeline_close(&p);
    return ok ? EXIT_OK : d->code;
}

ExitCode cmd_dump(const Options *o, Diag *d) {
    return print(o, false, d);
}

ExitCode cmd_opt(const Options *o, Diag *d) {
    return print(o, true, d);
}
