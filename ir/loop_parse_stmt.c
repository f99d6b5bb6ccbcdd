// Reads the statements of a Program: one function a statement, found by its first word in a table; anything else is a store.
#include "loop_parse.h"

#include <string.h>

enum { MAX_BLOCKS = 200 };

static const VType any_type = {DT_none, 0};

static Var *new_var(Parser *ps, Block *b, VarKind kind, Word w, VType t) {
    Var *v = ARENA_NEW(ps->p->arena, Var);
    *v = (Var){.kind = kind, .type = t};
    v->name = parse_define(ps, ps->in_kernel ? &ps->local : &ps->main, w, NULL, v);
    names_add(ps->p->arena, b->names, v->name);
    return v;
}

static const Dim *new_symbol(Parser *ps, Block *b, Word w, SymKind kind, const Dim *lo, const Dim *hi) {
    const Dim *sym = parse_symbol(ps, w, kind, lo, hi);
    names_add(ps->p->arena, b->names, dim_as_symbol(sym)->name);
    return sym;
}

static bool fail_here(Parser *ps, const char *expected) {
    return parse_expect(ps, expected);
}

// ---- loops ----

static bool parse_range(Parser *ps, Block *b, Stmt *s) {
    Word w;
    if (!parse_name(ps, &w) || !(parse_accept_word(ps, "in") || fail_here(ps, "in"))) return false;
    if (!(s->lo = parse_dim(ps)) || !parse_expect(ps, "..") || !(s->hi = parse_dim(ps))) return false;
    if (parse_accept_word(ps, "step") && !parse_int(ps, &s->step)) return false;
    if (s->step < 1) return parse_fail(ps, "step must be positive, found %lld", (long long)s->step);
    s->sym = new_symbol(ps, b, w, SYM_LOOP, s->lo, loop_last(ps->p->dims, s->lo, s->hi, s->step));
    return true;
}

static bool parse_for(Parser *ps, Block *b) {
    Stmt *s = loop_stmt(ps->p, b, ST_FOR);
    if (!parse_range(ps, b, s)) return false;
    if (parse_accept_word(ps, "par"))
        s->loop = LOOP_PAR;
    else if (parse_accept_word(ps, "red"))
        s->loop = LOOP_RED;
    else if (parse_accept_word(ps, "seq"))
        s->loop = LOOP_SEQ;
    else
        return fail_here(ps, "par, red or seq");
    s->unroll = parse_accept_word(ps, "unroll");
    s->parallel = parse_accept_word(ps, "parallel");
    return parse_block(ps, &s->body);
}

static bool parse_states(Parser *ps, Block *b, Stmt *s) {
    VEC(Word) names = {0};
    VEC(const Expr *) inits = {0};
    if (!parse_expect(ps, "(")) return false;
    for (parse_lines(ps); !parse_accept(ps, ")"); parse_lines(ps)) {
        Word w;
        VType t;
        if (names.n && !parse_expect(ps, ",")) return false;
        parse_lines(ps);
        if (!parse_name(ps, &w) || !parse_expect(ps, ":") || !parse_type(ps, &t) || !parse_expect(ps, "=")) return false;
        const Expr *init = parse_value(ps, t);
        if (!init) return false;
        vec_push(ps->scratch, &names, w);
        vec_push(ps->p->arena, &inits, init);
    }
    s->nstates = names.n;
    s->inits = inits.data;
    s->states = ARENA_ARRAY(ps->p->arena, Var *, names.n);
    s->others = ARENA_ARRAY(ps->p->arena, Var *, names.n);
    for (int i = 0; i < names.n; i++) s->states[i] = new_var(ps, b, VAR_MUT, names.data[i], inits.data[i]->type);
    return true;
}

static bool parse_combine(Parser *ps, Block *b, Stmt *s) {
    s->unordered = parse_accept_word(ps, "unordered");
    if (!parse_expect(ps, "(")) return false;
    for (int i = 0; i < s->nstates; i++) {
        Word w;
        if ((i && !parse_expect(ps, ",")) || !parse_name(ps, &w)) return false;
        s->others[i] = new_var(ps, b, VAR_LET, w, s->states[i]->type);
    }
    return parse_expect(ps, ")") && parse_block(ps, &s->orelse);
}

static bool parse_reduce(Parser *ps, Block *b) {
    Stmt *s = loop_stmt(ps->p, b, ST_REDUCE);
    s->loop = LOOP_RED;
    if (!parse_range(ps, b, s) || !parse_states(ps, b, s) || !parse_block(ps, &s->body)) return false;
    if (parse_accept_word(ps, "combine")) return parse_combine(ps, b, s);
    for (int i = 0; i < s->nstates; i++) {
        s->others[i] = ARENA_NEW(ps->p->arena, Var);
        const char *name = loop_fresh(ps->p, b, arena_printf(ps->p->arena, "%s_other", s->states[i]->name));
        *s->others[i] = (Var){.kind = VAR_LET, .name = name, .type = s->states[i]->type};
    }
    return true;
}

static bool parse_condition(Parser *ps, Stmt *s) {
    return (s->value = parse_value(ps, vtype(DT_bool, 1))) && parse_block(ps, &s->body);
}

static bool parse_while(Parser *ps, Block *b) {
    return parse_condition(ps, loop_stmt(ps->p, b, ST_WHILE));
}

static bool parse_if(Parser *ps, Block *b) {
    Stmt *s = loop_stmt(ps->p, b, ST_IF);
    if (!parse_condition(ps, s)) return false;
    if (!parse_accept_word(ps, "else")) return true;
    if (!parse_accept_word(ps, "if")) return parse_block(ps, &s->orelse);
    return parse_if(ps, &s->orelse);
}

static bool parse_break(Parser *ps, Block *b) {
    return loop_stmt(ps->p, b, ST_BREAK), true;
}

// ---- values ----

static bool parse_let_idx(Parser *ps, Block *b, Stmt *s, Word w) {
    const Dim *lo = NULL, *hi = NULL;
    parse_blanks(ps);
    if (*ps->s != '=' && (!(lo = parse_dim(ps)) || !parse_expect(ps, "..") || !(hi = parse_dim(ps)))) return false;
    if (!parse_expect(ps, "=") || !(s->value = parse_value(ps, vtype(DT_idx, 1)))) return false;
    s->sym = new_symbol(ps, b, w, SYM_DATA, lo, hi);
    return true;
}

static bool parse_let(Parser *ps, Block *b) {
    Stmt *s = loop_stmt(ps->p, b, ST_LET);
    Word w;
    VType t;
    if (!parse_name(ps, &w) || !parse_expect(ps, ":") || !parse_type(ps, &t)) return false;
    if (vtype_same(t, vtype(DT_idx, 1))) return parse_let_idx(ps, b, s, w);
    if (!parse_expect(ps, "=") || !(s->value = parse_value(ps, t))) return false;
    s->var = new_var(ps, b, VAR_LET, w, t);
    return true;
}

static bool parse_var(Parser *ps, Block *b) {
    Stmt *s = loop_stmt(ps->p, b, ST_VAR);
    Word w;
    VType t;
    if (!parse_name(ps, &w) || !parse_expect(ps, ":") || !parse_type(ps, &t) || !parse_expect(ps, "=")) return false;
    if (!(s->value = parse_value(ps, t))) return false;
    s->var = new_var(ps, b, VAR_MUT, w, t);
    return true;
}

static bool parse_tile(Parser *ps, Block *b) {
    Stmt *s = loop_stmt(ps->p, b, ST_TILE);
    Word w;
    VType t;
    int rank;
    const Dim **shape;
    if (!parse_name(ps, &w) || !parse_shape(ps, &rank, &shape)) return false;
    if (rank < 1 || rank > 3) return parse_fail(ps, "a tile has 1 to 3 extents, found %d", rank);
    if (!parse_expect(ps, ":") || !parse_type(ps, &t) || !parse_expect(ps, "=") || !(s->value = parse_value(ps, t))) return false;
    s->var = new_var(ps, b, VAR_TILE, w, t);
    s->var->ntile = rank;
    for (int i = 0; i < rank; i++) {
        int64_t n;
        if (!dim_is_int(shape[i], &n) || n < 1 || n > 1024) return parse_fail(ps, "a tile's extents are constants in 1..1024");
        s->var->tile[i] = (int)n;
    }
    return true;
}

static Var *find_var(Parser *ps, Word w) {
    const Binding *found = parse_find(ps->in_kernel ? &ps->local : &ps->main, w.s, w.n);
    if (!found && !ps->in_kernel) found = parse_find(&ps->buffers, w.s, w.n);
    return found ? found->var : NULL;
}

static bool parse_set(Parser *ps, Block *b) {
    Stmt *s = loop_stmt(ps->p, b, ST_SET);
    Word w;
    if (!parse_name(ps, &w)) return false;
    s->var = find_var(ps, w);
    if (!s->var || s->var->kind == VAR_BUFFER) return parse_fail(ps, "there is no variable '%.*s'", (int)w.n, w.s);
    parse_blanks(ps);
    if (*ps->s == '[') {
        int rank;
        const Dim **idx;
        if (!parse_shape(ps, &rank, &idx)) return false;
        if (s->var->kind != VAR_TILE || rank != s->var->ntile)
            return parse_fail(ps, "%s: expected %d indices, found %d", s->var->name, s->var->ntile, rank);
        for (int i = 0; i < rank; i++) s->idx[i] = idx[i];
    } else if (s->var->kind == VAR_TILE) {
        return fail_here(ps, "[");
    }
    return parse_expect(ps, "=") && (s->value = parse_value(ps, s->var->type));
}

// ---- memory ----

// [index : lanes : stride] or [index @ offsets]; gives the number of lanes.
static bool parse_store_index(Parser *ps, Stmt *s, int *lanes) {
    int64_t n = 1;
    if (!parse_expect(ps, "[") || !(s->dim = parse_dim(ps))) return false;
    if (parse_accept(ps, ":")) {
        if (!parse_int(ps, &n)) return false;
        if (n < 1 || n > 64) return parse_fail(ps, "lanes must be in 1..64, found %lld", (long long)n);
        if (parse_accept(ps, ":") && !parse_int(ps, &s->stride)) return false;
    } else if (parse_accept(ps, "@")) {
        if (!(s->offsets = parse_value(ps, any_type))) return false;
        n = s->offsets->type.lanes;
    }
    *lanes = (int)n;
    return parse_expect(ps, "]") && parse_expect(ps, "=");
}

static bool parse_store(Parser *ps, Block *b, Word w, const char *start) {
    Var *buf = find_var(ps, w);
    if (!buf || buf->kind != VAR_BUFFER) {
        ps->s = start; // not w.s: a quoted name is a copy
        return parse_fail(ps, "'%.*s' is no statement and no buffer", (int)w.n, w.s);
    }
    Stmt *s = loop_stmt(ps->p, b, ST_STORE);
    s->var = buf;
    VType t = buf->type;
    if (*ps->s == '.' && (ps->s++, !parse_type(ps, &t))) return false;
    if (!parse_store_index(ps, s, &t.lanes) || !(s->value = parse_value(ps, t))) return false;
    return !parse_accept(ps, "?") || (s->mask = parse_value(ps, vtype(DT_bool, t.lanes)));
}

static bool parse_local(Parser *ps, Block *b) {
    Word w;
    VType t;
    int rank;
    const Dim **shape;
    int64_t n;
    if (!parse_name(ps, &w) || !parse_expect(ps, ":") || !parse_type(ps, &t) || !parse_shape(ps, &rank, &shape)) return false;
    if (rank != 1 || !dim_is_int(shape[0], &n) || n < 0) return parse_fail(ps, "a local buffer has one constant extent");
    LoopBuffer *buf = loop_local(ps->p, b, "local", t.type, n);
    buf->var.name = parse_define(ps, ps->in_kernel ? &ps->local : &ps->main, w, NULL, &buf->var);
    names_add(ps->p->arena, b->names, buf->var.name);
    return true;
}

// ---- the rest ----

static bool parse_check(Parser *ps, Block *b) {
    Stmt *s = loop_stmt(ps->p, b, ST_CHECK);
    Word w;
    int64_t node = 0;
    if (!(s->value = parse_value(ps, vtype(DT_bool, 1)))) return false;
    if (!(parse_accept_word(ps, "else") || fail_here(ps, "else")) || !parse_name(ps, &w)) return false;
    s->code = status_parse(w.s, w.n);
    if (s->code == CODE_OK) return parse_fail(ps, "unknown status '%.*s'", (int)w.n, w.s);
    if (!parse_expect(ps, "@") || !parse_int(ps, &node)) return false;
    s->node = (int)node;
    return true;
}

static LoopBuffer *parse_argument(Parser *ps) {
    Word w;
    if (!parse_name(ps, &w)) return NULL;
    const Binding *found = parse_find(&ps->buffers, w.s, w.n);
    if (!found) parse_fail(ps, "there is no buffer '%.*s'", (int)w.n, w.s);
    return found ? (LoopBuffer *)(uintptr_t)found->var->owner : NULL;
}

static bool parse_call(Parser *ps, Block *b) {
    Stmt *s = loop_stmt(ps->p, b, ST_CALL);
    Word w;
    if (!parse_name(ps, &w)) return false;
    for (int i = 0; i < ps->p->kernels.n; i++) {
        Kernel *k = ps->p->kernels.data[i];
        if (strlen(k->name) == w.n && memcmp(k->name, w.s, w.n) == 0) s->kernel = k;
    }
    if (!s->kernel) return parse_fail(ps, "there is no kernel '%.*s'", (int)w.n, w.s);
    VEC(LoopBuffer *) args = {0};
    if (!parse_expect(ps, "(")) return false;
    for (parse_lines(ps); !parse_accept(ps, ")"); parse_lines(ps)) {
        if (args.n && !parse_expect(ps, ",")) return false;
        parse_lines(ps);
        LoopBuffer *arg = parse_argument(ps);
        if (!arg) return false;
        vec_push(ps->p->arena, &args, arg);
    }
    s->args = args.data;
    s->nargs = args.n;
    s->parallel = parse_accept_word(ps, "parallel");
    return true;
}

static bool parse_team(Parser *ps, Block *b) {
    Stmt *s = loop_stmt(ps->p, b, ST_TEAM);
    Word w;
    if (!parse_name(ps, &w) || !(parse_accept_word(ps, "of") || fail_here(ps, "of")) || !(s->hi = parse_dim(ps))) return false;
    s->lo = dim_int(ps->p->dims, 0);
    s->sym = new_symbol(ps, b, w, SYM_LOOP, s->lo, dim_addi(ps->p->dims, s->hi, -1));
    return parse_block(ps, &s->body);
}

static bool parse_barrier(Parser *ps, Block *b) {
    return loop_stmt(ps->p, b, ST_BARRIER), true;
}

static bool parse_size(Parser *ps, Block *b) {
    Stmt *s = loop_stmt(ps->p, b, ST_SIZE);
    Word w;
    if (!parse_name(ps, &w)) return false;
    const Binding *found = parse_find(&ps->main, w.s, w.n);
    if (!found || !found->sym || dim_as_symbol(found->sym)->kind != SYM_DATA)
        return parse_fail(ps, "there is no data dim '%.*s'", (int)w.n, w.s);
    s->sym = found->sym;
    return parse_expect(ps, "=") && (s->value = parse_value(ps, vtype(DT_idx, 1)));
}

static bool parse_memory(Parser *ps, Block *b, StKind kind) {
    Stmt *s = loop_stmt(ps->p, b, kind);
    s->args = ARENA_ARRAY(ps->p->arena, LoopBuffer *, 1);
    s->nargs = 1;
    if (!(s->args[0] = parse_argument(ps))) return false;
    parse_blanks(ps);
    if (kind == ST_FREE || strchr("\r\n;}", *ps->s)) return true;
    return (s->dim = parse_dim(ps)) != NULL;
}
static bool parse_alloc(Parser *ps, Block *b) {
    return parse_memory(ps, b, ST_ALLOC);
}
static bool parse_free(Parser *ps, Block *b) {
    return parse_memory(ps, b, ST_FREE);
}

// ---- blocks ----

static const struct {
    const char *word;
    bool (*parse)(Parser *ps, Block *b);
} statements[] = {{"for", parse_for}, {"reduce", parse_reduce}, {"while", parse_while}, {"if", parse_if}, {"break", parse_break},
    {"let", parse_let}, {"var", parse_var}, {"tile", parse_tile}, {"set", parse_set}, {"local", parse_local}, {"check", parse_check},
    {"call", parse_call}, {"team", parse_team}, {"barrier", parse_barrier}, {"size", parse_size}, {"alloc", parse_alloc},
    {"free", parse_free}};

static bool parse_stmt(Parser *ps, Block *b) {
    parse_blanks(ps);
    const char *start = ps->s;
    Word w;
    if (!parse_name(ps, &w)) return false;
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (strlen(statements[i].word) == w.n && memcmp(statements[i].word, w.s, w.n) == 0) return statements[i].parse(ps, b);
    return parse_store(ps, b, w, start);
}

static void parse_comment(Parser *ps, Block *b, bool keep) {
    ps->s += 1;
    parse_blanks(ps);
    size_t n = strcspn(ps->s, "\r\n");
    if (keep) loop_comment(ps->p, b, arena_strndup(ps->p->arena, ps->s, n));
    ps->s += n;
}

static bool parse_statements(Parser *ps, Block *b) {
    for (;;) {
        bool line_start = false;
        for (; *ps->s == ' ' || *ps->s == '\t' || *ps->s == '\r' || *ps->s == '\n'; ps->s++) line_start |= *ps->s == '\n';
        if (*ps->s == '}') return ps->s++, true;
        if (*ps->s == ';') {
            parse_comment(ps, b, line_start);
            continue;
        }
        if (!parse_stmt(ps, b)) return false;
        parse_blanks(ps);
        if (*ps->s && !strchr("\n;}", *ps->s)) return fail_here(ps, "end of line");
    }
}

bool parse_block(Parser *ps, Block *b) {
    if (!parse_expect(ps, "{")) return false;
    if (ps->depth++ > MAX_BLOCKS) return parse_fail(ps, "blocks are nested too deep");
    bool ok = parse_statements(ps, b);
    ps->depth--;
    return ok;
}
