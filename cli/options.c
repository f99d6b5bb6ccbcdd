// Parsing of the command line by the tables. Faults are collected, so that all wrong options are told in one run.
#include "options.h"
#include "../passes/passes.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const OptionRow option_rows[] = {
#define OPTION(id, name, brief, arg, commands, help) {name, brief, arg, commands, help, false},
#define LATER(id, name, arg, commands, help) {name, "", arg, commands, help, true},
#include "options.def"
#undef OPTION
#undef LATER
};

static const Command command_rows[] = {
#define COMMAND(name, args, min, max, help) {#name, args, min, max, help, cmd_##name},
#include "commands.def"
#undef COMMAND
};

const OptionRow *option_row(int i) {
    return i >= 0 && i < OPT_COUNT ? &option_rows[i] : NULL;
}

const Command *command_row(int i) {
    return i >= 0 && i < (int)(sizeof command_rows / sizeof *command_rows) ? &command_rows[i] : NULL;
}

const Command *command_find(const char *name) {
    for (int i = 0; command_row(i); i++)
        if (!strcmp(command_row(i)->name, name)) return command_row(i);
    return NULL;
}

bool command_takes(const Command *c, const OptionRow *o) {
    if (!strcmp(o->commands, "*")) return true;
    size_t n = strlen(c->name);
    for (const char *p = o->commands; (p = strstr(p, c->name)); p += n)
        if ((p == o->commands || p[-1] == ' ') && (p[n] == ' ' || !p[n])) return true;
    return false;
}

// ---- @file ----
enum { MAX_NESTED_FILES = 8 };

static bool expand(TextList *out, Arena *a, const char *arg, int depth, Diag *d);

// Words are separated by white space; '…' and "…" keep it, a backslash keeps the next character.
static bool expand_file(TextList *out, Arena *a, const char *path, int depth, Diag *d) {
    size_t size = 0;
    if (depth > MAX_NESTED_FILES) {
        diag_error(d, EXIT_USAGE, "@%s: argument files are nested deeper than %d", path, MAX_NESTED_FILES);
        return false;
    }
    const char *text = file_map(path, &size, d);
    if (!text) return false;
    bool ok = true;
    Str word = {0};
    for (size_t i = 0; i < size && ok;) {
        while (i < size && isspace((unsigned char)text[i])) i++;
        if (i == size) break;
        str_free(&word);
        str_add(&word, "");
        char quote = 0;
        for (; i < size && (quote || !isspace((unsigned char)text[i])); i++) {
            if (quote ? text[i] == quote : text[i] == '\'' || text[i] == '"') {
                quote = quote ? 0 : text[i];
                continue;
            }
            if (text[i] == '\\' && quote != '\'' && i + 1 < size) i++;
            str_addn(&word, &text[i], 1);
        }
        ok = expand(out, a, arena_strdup(a, word.data), depth, d);
    }
    str_free(&word);
    file_unmap(text, size);
    return ok;
}

static bool expand(TextList *out, Arena *a, const char *arg, int depth, Diag *d) {
    if (arg[0] == '@' && arg[1]) return expand_file(out, a, arg + 1, depth + 1, d);
    vec_push(a, out, arg);
    return true;
}

// ---- options ----
static int find_long(const char *name, size_t n) {
    for (int i = 0; i < OPT_COUNT; i++)
        if (strlen(option_rows[i].name) == n && !memcmp(option_rows[i].name, name, n)) return i;
    return -1;
}

// The short name that `text` starts with, the longest first; a switch must be the whole text.
static int find_brief(const char *text, size_t *used) {
    int best = -1;
    *used = 0;
    for (int i = 0; i < OPT_COUNT; i++) {
        size_t n = strlen(option_rows[i].brief);
        if (n <= *used || strncmp(text, option_rows[i].brief, n)) continue;
        if (!option_rows[i].arg[0] && text[n]) continue;
        best = i;
        *used = n;
    }
    return best;
}

static bool is_pass(const char *name, size_t n) {
    for (int i = 0; pass_info(i); i++)
        if (strlen(pass_info(i)->name) == n && !memcmp(pass_info(i)->name, name, n)) return true;
    return false;
}

static void check_passes(const char *list, const char *option, Diag *d) {
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");
        if (n && !is_pass(p, n)) diag_error(d, EXIT_USAGE, "--%s: there is no pass '%.*s' (see `mlc passes`)", option, (int)n, p);
        p += n + (p[n] == ',');
    }
}

static void set_option(Options *o, int id, const char *value, Diag *d) {
    const OptionRow *row = &option_rows[id];
    if (o->command && !command_takes(o->command, row)) {
        diag_error(d, EXIT_USAGE, "--%s does not belong to `mlc %s` (it belongs to: %s)", row->name, o->command->name, row->commands);
        return;
    }
    if (row->later) {
        diag_error(d, EXIT_UNSUPPORTED, "--%s is not supported by mlc %s yet", row->name, MLC_VERSION);
        return;
    }
    bool names_passes = id == OPT_passes || id == OPT_disable_pass || (id == OPT_dump_after && strcmp(value, "all"));
    if (names_passes) check_passes(value, row->name, d);
    if (id == OPT_disable_pass) vec_push(o->arena, &o->disabled, value);
    vec_push(o->arena, &o->values[id], value);
}

// Takes the option at words[i]; returns how many words it used.
static int take_option(Options *o, const TextList *words, int i, Diag *d) {
    const char *text = words->data[i], *value = NULL;
    int id;
    if (text[1] == '-') {
        size_t n = strcspn(text + 2, "=");
        id = find_long(text + 2, n);
        if (text[2 + n]) value = text + 2 + n + 1;
        if (id < 0 && !strncmp(text, "--no-", 5) && is_pass(text + 5, strlen(text + 5))) {
            vec_push(o->arena, &o->disabled, text + 5);
            return 1;
        }
    } else {
        size_t n;
        id = find_brief(text + 1, &n);
        if (id >= 0 && text[1 + n]) value = text + 1 + n + (text[1 + n] == '=');
    }
    if (id < 0) {
        diag_error(d, EXIT_USAGE, "unknown option %s (see `mlc %s --help`)", text, o->command ? o->command->name : "");
        return 1;
    }
    const OptionRow *row = &option_rows[id];
    if (!row->arg[0]) {
        if (value) diag_error(d, EXIT_USAGE, "--%s takes no argument, found '%s'", row->name, value);
        set_option(o, id, "", d);
        return 1;
    }
    if (value) {
        set_option(o, id, value, d);
        return 1;
    }
    if (i + 1 >= words->n) {
        diag_error(d, EXIT_USAGE, "--%s needs an argument: %s", row->name, row->arg);
        return 1;
    }
    set_option(o, id, words->data[i + 1], d);
    return 2;
}

void options_add(Options *o, const char *word, Diag *d) {
    TextList one = {.data = &word, .n = 1};
    take_option(o, &one, 0, d);
}

static void check_count(const Options *o, Diag *d) {
    const Command *c = o->command;
    if (options_has(o, OPT_help)) return;
    if (o->args.n < c->min_args) diag_error(d, EXIT_USAGE, "`mlc %s` needs %s", c->name, c->args);
    if (c->max_args >= 0 && o->args.n > c->max_args)
        diag_error(d, EXIT_USAGE, "`mlc %s`: unexpected argument '%s'", c->name, o->args.data[c->max_args]);
}

bool options_parse(Options *o, Arena *a, int argc, char *const *argv, Diag *d) {
    TextList words = {0};
    *o = (Options){.arena = a};
    for (int i = 1; i < argc; i++)
        if (!expand(&words, a, argv[i], 0, d)) return false;
    if (!words.n) {
        diag_error(d, EXIT_USAGE, "a command is missing (see `mlc --help`)");
        return false;
    }
    o->command = command_find(words.data[0]);
    if (!o->command) {
        diag_error(d, EXIT_USAGE, "unknown command '%s' (see `mlc --help`)", words.data[0]);
        return false;
    }
    bool only_args = false;
    for (int i = 1; i < words.n;) {
        const char *w = words.data[i];
        if (!only_args && !strcmp(w, "--")) {
            only_args = true;
            i++;
        } else if (!only_args && w[0] == '-' && w[1]) {
            i += take_option(o, &words, i, d);
        } else {
            vec_push(a, &o->args, w);
            i++;
        }
    }
    check_count(o, d);
    return !d->errors;
}

bool options_has(const Options *o, OptionId id) {
    return o->values[id].n > 0;
}

const char *options_text(const Options *o, OptionId id, const char *otherwise) {
    return o->values[id].n ? o->values[id].data[o->values[id].n - 1] : otherwise;
}

int64_t options_int(const Options *o, OptionId id, int64_t lo, int64_t hi, int64_t otherwise, Diag *d) {
    const char *text = options_text(o, id, NULL);
    if (!text) return otherwise;
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end != text && !*end && !errno && v >= lo && v <= hi) return v;
    diag_error(
        d, EXIT_USAGE, "--%s: expected a number from %lld to %lld, found '%s'", option_rows[id].name, (long long)lo, (long long)hi, text);
    return otherwise;
}

double options_f64(const Options *o, OptionId id, double otherwise, Diag *d) {
    const char *text = options_text(o, id, NULL);
    if (!text) return otherwise;
    char *end;
    double v = strtod(text, &end);
    if (end != text && !*end && isfinite(v) && v >= 0) return v;
    diag_error(d, EXIT_USAGE, "--%s: expected a number not below 0, found '%s'", option_rows[id].name, text);
    return otherwise;
}
