// The command line: commands and options are rows of commands.def and options.def.
#ifndef MLC_OPTIONS_H
#define MLC_OPTIONS_H

#include "../ir/base.h"

typedef enum {
#define OPTION(id, name, brief, arg, commands, help) OPT_##id,
#define LATER(id, name, arg, commands, help) OPT_##id,
#include "options.def"
#undef OPTION
#undef LATER
    OPT_COUNT
} OptionId;

typedef struct {
    const char *name, *brief; // after two dashes; after one, "" none
    const char *arg;          // "" for a switch
    const char *commands;     // separated by spaces; "*": all
    const char *help;
    bool later; // not supported by this version
} OptionRow;
const OptionRow *option_row(int i); // NULL past the end

typedef struct Options Options;
typedef ExitCode CommandFn(const Options *o, Diag *d);
typedef struct {
    const char *name, *args;
    int min_args, max_args;
    const char *help;
    CommandFn *run;
} Command;
const Command *command_row(int i); // NULL past the end
const Command *command_find(const char *name);
bool command_takes(const Command *c, const OptionRow *o);

#define COMMAND(name, args, min, max, help) CommandFn cmd_##name;
#include "commands.def"
#undef COMMAND

typedef VEC(const char *) TextList;
struct Options {
    Arena *arena;
    const Command *command;
    TextList args; // positional
    TextList values[OPT_COUNT];
    TextList disabled; // passes named by --no-PASS and --disable-pass
};

// Reads argv (argv[0] is skipped; @file is replaced by the words of that file). false after diag_error with EXIT_USAGE or EXIT_UNSUPPORTED.
bool options_parse(Options *o, Arena *a, int argc, char *const *argv, Diag *d);
// One more option as a word of the command line ("--no-fuse", "-O1"); its argument must be in the same word.
void options_add(Options *o, const char *word, Diag *d);

bool options_has(const Options *o, OptionId id);
const char *options_text(const Options *o, OptionId id, const char *otherwise); // the last one given
// A number within lo..hi; reports and returns otherwise when the text is not one.
int64_t options_int(const Options *o, OptionId id, int64_t lo, int64_t hi, int64_t otherwise, Diag *d);
double options_f64(const Options *o, OptionId id, double otherwise, Diag *d);

// ---- made from the tables (help.c) ----
void help_usage(Str *s);
void help_command(Str *s, const Command *c);
void help_man(Str *s);
void help_completion(Str *s);

#endif
