// PREFIX.weights.o: an ELF object with the weights blob as its one section and one symbol, written directly.
//
// No assembler sees the data, so 100 MB take as long as writing them. The symbol's name holds the content hash: an object that does not
// belong to the source next to it fails to link. Hidden, so that a shared library does not export it. (System V ABI, chapter 4.)
#include "codegen.h"
#include "layout.h"

#include <string.h>

typedef struct {
    const char *triple; // begins so
    uint16_t machine;   // EM_…
    bool wide;          // ELFCLASS64
    uint32_t flags;
} Machine;

// Arm: EABI version 5. RISC-V: RVC, and floats in double registers where the target has them.
static const Machine machines[] = {{"x86_64", 62, true, 0}, {"aarch64", 183, true, 0}, {"thumb", 40, false, 0x05000000},
    {"riscv32", 243, false, 1}, {"riscv64", 243, true, 5}};

static const Machine *machine_of(const Program *p) {
    const Target *t = target_find(p->target ? p->target : "generic");
    for (size_t i = 0; t && i < sizeof machines / sizeof *machines; i++)
        if (!strncmp(t->triple, machines[i].triple, strlen(machines[i].triple))) return &machines[i];
    return NULL;
}

bool codegen_has_objects(const Program *p) {
    return machine_of(p) != NULL;
}

// Little-endian numbers; `word` is as wide as an address.
static void add_number(Str *s, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) str_addn(s, (char[]){(char)(v >> 8 * i)}, 1);
}
static void add_word(Str *s, const Machine *m, uint64_t v) {
    add_number(s, v, m->wide ? 8 : 4);
}
static void pad(Str *s, size_t align) {
    while (s->n % align) add_number(s, 0, 1);
}

enum { SECTION_NULL, SECTION_WEIGHTS, SECTION_SYMBOLS, SECTION_STRINGS, SECTION_NAMES, SECTION_STACK, SECTIONS };
enum { PROGBITS = 1, SYMTAB = 2, STRTAB = 3, ALLOC = 2, GLOBAL_OBJECT = 0x11, HIDDEN = 2 };

typedef struct {
    uint32_t name, type, link, info, entry;
    uint64_t flags, at, size, align;
} Section;

static void add_section(Str *s, const Machine *m, const Section *x) {
    add_number(s, x->name, 4);
    add_number(s, x->type, 4);
    add_word(s, m, x->flags);
    add_word(s, m, 0);
    add_word(s, m, x->at);
    add_word(s, m, x->size);
    add_number(s, x->link, 4);
    add_number(s, x->info, 4);
    add_word(s, m, x->align);
    add_word(s, m, x->entry);
}

static void add_symbol(Str *s, const Machine *m, uint32_t name, uint64_t size, int info, int other, int section) {
    add_number(s, name, 4);
    if (!m->wide) {
        add_word(s, m, 0);
        add_word(s, m, size);
    }
    add_number(s, (uint64_t)info, 1);
    add_number(s, (uint64_t)other, 1);
    add_number(s, (uint64_t)section, 2);
    if (m->wide) {
        add_word(s, m, 0);
        add_word(s, m, size);
    }
}

// Where programs have stacks that may be executable, an object says that it needs none; on microcontrollers nobody asks.
static int sections_of(const Machine *m) {
    return m->wide ? SECTIONS : SECTION_STACK;
}

// What stands before the data: 64 bytes.
static void add_head(Str *s, const Machine *m, uint64_t sections_at) {
    str_addn(s,
        "\x7f"
        "ELF",
        4);
    add_number(s, m->wide ? 2 : 1, 1);
    add_number(s, 1 | 1 << 8, 2); // little endian, version
    add_number(s, 0, 8);
    pad(s, 16);
    add_number(s, 1, 2); // relocatable
    add_number(s, m->machine, 2);
    add_number(s, 1, 4);
    add_word(s, m, 0);
    add_word(s, m, 0);
    add_word(s, m, sections_at);
    add_number(s, m->flags, 4);
    add_number(s, m->wide ? 64 : 52, 2);
    add_number(s, 0, 4); // no program headers
    add_number(s, m->wide ? 64 : 40, 2);
    add_number(s, (uint64_t)sections_of(m), 2);
    add_number(s, SECTION_NAMES, 2);
    pad(s, LAYOUT_ALIGN);
}

static uint32_t add_name(Str *s, const char *name) {
    uint32_t at = (uint32_t)s->n;
    str_addn(s, name, strlen(name) + 1);
    return at;
}

bool codegen_weights_object(const Program *p, const EmitOptions *o, ByteSink *put, void *ctx, Diag *d) {
    const Machine *m = machine_of(p);
    if (!m) {
        diag_error(d, EXIT_UNSUPPORTED, "no object format is known for target %s: weights go inline, to a file or extern", p->target);
        return false;
    }
    Arena *a = arena_new();
    Layout l = {0};
    layout_places(a, &l, p, o);
    layout_weights(&l, p, o);
    Str head = {0}, tail = {0}, names = {0}, strings = {0}, symbols = {0};
    const char *section = o->weights_section ? o->weights_section : ".rodata.mlc_weights";
    add_name(&strings, "");
    uint32_t symbol = add_name(&strings, weights_symbol(a, codegen_cname(a, o->prefix), l.weights_hash));
    add_symbol(&symbols, m, 0, 0, 0, 0, 0);
    uint64_t symbol_bytes = symbols.n;
    add_symbol(&symbols, m, symbol, l.weights_bytes, GLOBAL_OBJECT, HIDDEN, SECTION_WEIGHTS);
    add_name(&names, "");
    Section s[SECTIONS] = {{0},
        {.name = add_name(&names, section),
            .type = PROGBITS,
            .flags = ALLOC,
            .at = LAYOUT_ALIGN,
            .size = l.weights_bytes,
            .align = LAYOUT_ALIGN},
        {.name = add_name(&names, ".symtab"),
            .type = SYMTAB,
            .link = SECTION_STRINGS,
            .info = 1,
            .entry = (uint32_t)symbol_bytes,
            .align = 8},
        {.name = add_name(&names, ".strtab"), .type = STRTAB, .align = 1},
        {.name = add_name(&names, ".shstrtab"), .type = STRTAB, .align = 1},
        {.name = add_name(&names, ".note.GNU-stack"), .type = PROGBITS, .align = 1}};
    const Str *parts[SECTIONS] = {[SECTION_SYMBOLS] = &symbols, [SECTION_STRINGS] = &strings, [SECTION_NAMES] = &names};
    uint64_t begin = LAYOUT_ALIGN + l.weights_bytes; // of the tail
    for (int i = SECTION_SYMBOLS; i < sections_of(m); i++) {
        pad(&tail, 8);
        s[i].at = begin + tail.n;
        s[i].size = parts[i] ? parts[i]->n : 0;
        if (parts[i]) str_addn(&tail, parts[i]->data, parts[i]->n);
    }
    pad(&tail, 8);
    add_head(&head, m, begin + tail.n);
    for (int i = 0; i < sections_of(m); i++) add_section(&tail, m, &s[i]);
    put(ctx, head.data, head.n);
    codegen_weights(p, o, put, ctx);
    put(ctx, tail.data, tail.n);
    Str *const all[] = {&head, &tail, &names, &strings, &symbols};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) str_free(all[i]);
    arena_free(a);
    return true;
}
