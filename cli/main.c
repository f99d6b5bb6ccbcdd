// The command `mlc`: parses the command line, runs one command, prints what was found and ends with its exit code.
#include "options.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void out_of_memory(void) {
    fputs("mlc: error: out of memory\n", stderr);
    exit(EXIT_LIMIT);
}

static ExitCode run(int argc, char **argv, Arena *a, Diag *d) {
    Options o;
    if (!options_parse(&o, a, argc, argv, d)) return d->code;
    if (options_has(&o, OPT_help)) {
        Str s = {0};
        help_command(&s, o.command);
        fputs(s.data, stdout);
        str_free(&s);
        return EXIT_OK;
    }
    ExitCode code = o.command->run(&o, d);
    return code ? code : d->errors ? d->code : EXIT_OK;
}

int main(int argc, char **argv) {
    static char help[] = "help";
    mem_set_oom_handler(out_of_memory);
    signal(SIGXFSZ, SIG_IGN); // a file too large is an error of write, with a message
    if (argc == 2 && !strcmp(argv[1], "--version")) {
        printf("mlc %s\n", MLC_VERSION);
        return EXIT_OK;
    }
    if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) argv[1] = help;
    Diag d = {0};
    Arena *a = arena_new();
    ExitCode code = run(argc, argv, a, &d);
    if (fflush(stdout) || ferror(stdout)) {
        if (!d.errors) diag_error(&d, EXIT_IO, "cannot write to standard output");
        if (!code) code = EXIT_IO;
    }
    if (d.text.n) fputs(d.text.data, stderr);
    diag_free(&d);
    arena_free(a);
    return code;
}
