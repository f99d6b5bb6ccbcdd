// Help, man page and shell completion: three readers of commands.def and options.def.
#include "options.h"

#include <stdio.h>
#include <string.h>

static const char exit_codes[] =
    "0 done, 1 model or data at fault, 2 command line, 3 unsupported operator, type or target, 4 verification differs, "
    "5 a limit is exceeded, 6 I/O or the C compiler failed, 70 a bug of mlc";

void help_usage(Str *s) {
    str_add(
        s, "usage: mlc COMMAND [arguments] [options]\n\nmlc compiles a trained model (ONNX) to standalone C or LLVM code.\n\ncommands:\n");
    for (int i = 0; command_row(i); i++) str_printf(s, "  %-8s %s\n", command_row(i)->name, command_row(i)->help);
    str_printf(s,
        "\n`mlc COMMAND --help` shows a command's options; `@FILE` reads arguments from a file; `mlc --version`.\nexit status: %s\n",
        exit_codes);
}

static void option_names(Str *s, const OptionRow *o) {
    if (o->brief[0]) str_printf(s, "-%s, ", o->brief);
    str_printf(s, "--%s", o->name);
    if (o->arg[0]) str_printf(s, "=%s", o->arg);
}

void help_command(Str *s, const Command *c) {
    str_printf(s, "usage: mlc %s%s%s [options]\n%s\n\noptions:\n", c->name, c->args[0] ? " " : "", c->args, c->help);
    for (int i = 0; option_row(i); i++) {
        const OptionRow *o = option_row(i);
        if (o->later || !command_takes(c, o)) continue;
        Str names = {0};
        option_names(&names, o);
        str_printf(s, "  %-24s %s\n", names.data, o->help);
        str_free(&names);
    }
}

// Text for troff: a backslash, and a dot or quote at a line's start, would be commands.
static void add_troff(Str *s, const char *text) {
    for (; *text; text++) {
        if (*text == '-' || *text == '\\') str_add(s, "\\");
        str_addn(s, text, 1);
    }
}

void help_man(Str *s) {
    str_printf(s, ".TH MLC 1 \"\" \"mlc %s\"\n.SH NAME\nmlc \\- compile a trained model to standalone C\n", MLC_VERSION);
    str_add(s, ".SH SYNOPSIS\n.B mlc\n.I COMMAND\n[arguments] [options]\n.SH COMMANDS\n");
    for (int i = 0; command_row(i); i++) {
        str_printf(s, ".TP\n.B %s\n.I ", command_row(i)->name);
        add_troff(s, command_row(i)->args);
        str_add(s, "\n.br\n");
        add_troff(s, command_row(i)->help);
        str_add(s, "\n");
    }
    str_add(s, ".SH OPTIONS\n");
    for (int i = 0; option_row(i); i++) {
        const OptionRow *o = option_row(i);
        if (o->later) continue;
        Str names = {0};
        option_names(&names, o);
        str_add(s, ".TP\n.B ");
        add_troff(s, names.data);
        str_add(s, "\n");
        add_troff(s, o->help);
        str_printf(s, " (%s)\n", strcmp(o->commands, "*") ? o->commands : "all commands");
        str_free(&names);
    }
    str_printf(s, ".SH EXIT STATUS\n%s\n", exit_codes);
}

void help_completion(Str *s) {
    str_add(
        s, "_mlc() {\n    local cur=${COMP_WORDS[COMP_CWORD]}\n    if [ \"$COMP_CWORD\" = 1 ]; then\n        COMPREPLY=($(compgen -W '");
    for (int i = 0; command_row(i); i++) str_printf(s, "%s%s", i ? " " : "", command_row(i)->name);
    str_add(s, "' -- \"$cur\"))\n        return\n    fi\n    case ${COMP_WORDS[1]} in\n");
    for (int i = 0; command_row(i); i++) {
        str_printf(s, "    %s) [ \"${cur#-}\" != \"$cur\" ] && COMPREPLY=($(compgen -W '", command_row(i)->name);
        const char *sep = "";
        for (int k = 0; option_row(k); k++) {
            const OptionRow *o = option_row(k);
            if (o->later || !command_takes(command_row(i), o)) continue;
            str_printf(s, "%s--%s%s", sep, o->name, o->arg[0] ? "=" : "");
            sep = " ";
        }
        str_add(s, "' -- \"$cur\")) ;;\n");
    }
    str_add(s, "    esac\n}\ncomplete -o default -o nospace -F _mlc mlc\n");
}

ExitCode cmd_help(const Options *o, Diag *d) {
    Str s = {0};
    const Command *c = o->args.n ? command_find(o->args.data[0]) : NULL;
    if (o->args.n && !c)
        diag_error(d, EXIT_USAGE, "unknown command '%s' (see `mlc --help`)", o->args.data[0]);
    else if (options_has(o, OPT_man))
        help_man(&s);
    else if (options_has(o, OPT_completion))
        help_completion(&s);
    else if (c)
        help_command(&s, c);
    else
        help_usage(&s);
    if (s.n) fputs(s.data, stdout);
    str_free(&s);
    return d->errors ? d->code : EXIT_OK;
}
