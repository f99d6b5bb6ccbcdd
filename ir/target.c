// The table of machines. A new target is a row here and, for hardware instructions, an isa_*.def.
//
// `host` is the widest portable level of the running CPU (on x86 at most x86-64-v3, so that a model built on one machine of a fleet runs on
// the others and is the same file); `native` is the last row of its architecture whose features the CPU has. Both name a row: no result
// depends on more than that row.
#include "target.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define FEATURES_V2 "sse sse2 sse3 ssse3 sse4.1 sse4.2 popcnt"
#define FEATURES_V3 FEATURES_V2 " avx avx2 fma f16c bmi bmi2"
#define FEATURES_V4 FEATURES_V3 " avx512f avx512bw avx512cd avx512dq avx512vl"
#define C_V3 "avx2,fma,f16c,bmi,bmi2,popcnt"
#define C_V4 C_V3 ",avx512f,avx512bw,avx512cd,avx512dq,avx512vl"
#define LLVM_V2 "+sse4.2,+popcnt"
#define LLVM_V3 LLVM_V2 ",+avx2,+fma,+f16c,+bmi,+bmi2"
#define LLVM_V4 LLVM_V3 ",+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"
#define LINUX_X86 .triple = "x86_64-unknown-linux-gnu", .pointer_bits = 64, .hosted = true
// Microcontrollers: no data cache is counted on, code is plain C99.
#define MICRO .c_target = "", .pointer_bits = 32

static const Target rows[] = {
    {.name = "generic",
        .help = "portable C99 for any machine",
        .features = "",
        .c_target = "",
        .triple = "",
        .cpu = "",
        .llvm_features = "",
        .registers = 8,
        .pointer_bits = 64,
        .l1 = 32 << 10,
        .l2 = 256 << 10},
    // Vectors of 256 bits: constants are packed in panels that all levels share, of 16 floats.
    {.name = "x86-64",
        .help = "any x86-64 from v2 on: code for x86-64-v2, v3 and v4, chosen when it runs",
        .features = "",
        .c_target = "",
        LINUX_X86,
        .cpu = "x86-64",
        .llvm_features = "",
        .vector_bits = 256,
        .registers = 16,
        .l1 = 32 << 10,
        .l2 = 512 << 10,
        .levels = "x86-64-v2 x86-64-v3 x86-64-v4"},
    {.name = "x86-64-v2",
        .help = "x86-64 with SSE4.2 (2009)",
        .features = FEATURES_V2,
        .c_target = "sse4.2,popcnt",
        LINUX_X86,
        .cpu = "x86-64-v2",
        .llvm_features = LLVM_V2,
        .vector_bits = 128,
        .registers = 16,
        .l1 = 32 << 10,
        .l2 = 256 << 10,
        .l3 = 8 << 20},
    {.name = "x86-64-v3",
        .fma_bits = 64,
        .help = "x86-64 with AVX2 and FMA (2013)",
        .features = FEATURES_V3,
        .c_target = C_V3,
        LINUX_X86,
        .cpu = "x86-64-v3",
        .llvm_features = LLVM_V3,
        .vector_bits = 256,
        .registers = 16,
        .l1 = 32 << 10,
        .l2 = 512 << 10,
        .l3 = 16 << 20},
    {.name = "x86-64-v4",
        .fma_bits = 64,
        .help = "x86-64 with AVX-512 F, BW, CD, DQ, VL (2017)",
        .features = FEATURES_V4,
        .c_target = C_V4,
        LINUX_X86,
        .cpu = "x86-64-v4",
        .llvm_features = LLVM_V4,
        .vector_bits = 512,
        .registers = 32,
        .l1 = 32 << 10,
        .l2 = 1 << 20,
        .l3 = 32 << 20},
    {.name = "x86-64-v4+avx512vnni",
        .fma_bits = 64,
        .help = "x86-64-v4 with 8-bit dot products (2019)",
        .features = FEATURES_V4 " avx512vnni",
        .c_target = C_V4 ",avx512vnni",
        LINUX_X86,
        .cpu = "x86-64-v4",
        .llvm_features = LLVM_V4 ",+avx512vnni",
        .vector_bits = 512,
        .registers = 32,
        .l1 = 32 << 10,
        .l2 = 1 << 20,
        .l3 = 32 << 20},
    {.name = "aarch64",
        .fma_bits = 64,
        .help = "64-bit Arm with NEON",
        .features = "neon",
        .c_target = "",
        .triple = "aarch64-unknown-linux-gnu",
        .cpu = "generic",
        .llvm_features = "+neon",
        .vector_bits = 128,
        .registers = 32,
        .pointer_bits = 64,
        .hosted = true,
        .l1 = 32 << 10,
        .l2 = 512 << 10,
        .l3 = 4 << 20},
    {.name = "cortex-m4",
        .fma_bits = 32,
        .help = "Arm Cortex-M4 with single-precision floating point",
        .features = "dsp",
        MICRO,
        .triple = "thumbv7em-none-eabihf",
        .cpu = "cortex-m4",
        .llvm_features = "",
        .registers = 32},
    {.name = "cortex-m4+nofp",
        .help = "Arm Cortex-M4 without floating point",
        .features = "dsp",
        MICRO,
        .triple = "thumbv7em-none-eabi",
        .cpu = "cortex-m4",
        .llvm_features = "-vfp2sp,-vfp4d16sp",
        .registers = 8},
    {.name = "cortex-m7",
        .fma_bits = 64,
        .help = "Arm Cortex-M7 with double-precision floating point",
        .features = "dsp",
        MICRO,
        .triple = "thumbv7em-none-eabihf",
        .cpu = "cortex-m7",
        .llvm_features = "",
        .registers = 32,
        .l1 = 16 << 10},
    {.name = "cortex-m33",
        .fma_bits = 32,
        .help = "Arm Cortex-M33 with single-precision floating point",
        .features = "dsp",
        MICRO,
        .triple = "thumbv8m.main-none-eabihf",
        .cpu = "cortex-m33",
        .llvm_features = "",
        .registers = 32},
    {.name = "cortex-m55",
        .fma_bits = 32,
        .help = "Arm Cortex-M55 with Helium",
        .features = "dsp mve",
        MICRO,
        .triple = "thumbv8.1m.main-none-eabihf",
        .cpu = "cortex-m55",
        .llvm_features = "",
        .registers = 8,
        .l1 = 32 << 10},
    {.name = "rv32imc",
        .help = "32-bit RISC-V without floating point",
        .features = "",
        MICRO,
        .triple = "riscv32-unknown-elf",
        .cpu = "generic-rv32",
        .llvm_features = "+m,+c",
        .registers = 8},
    {.name = "rv64gcv",
        .fma_bits = 64,
        .help = "64-bit RISC-V with vectors",
        .features = "rvv",
        .c_target = "",
        .triple = "riscv64-unknown-linux-gnu",
        .cpu = "generic-rv64",
        .llvm_features = "+m,+a,+f,+d,+c,+v",
        .vector_bits = 128,
        .registers = 32,
        .pointer_bits = 64,
        .hosted = true,
        .l1 = 32 << 10,
        .l2 = 512 << 10},
};

enum { ROWS = sizeof rows / sizeof *rows };

static const Target *find_row_of(const char *name, size_t n) {
    for (int i = 0; i < ROWS; i++)
        if (strncmp(rows[i].name, name, n) == 0 && !rows[i].name[n]) return &rows[i];
    return NULL;
}
static const Target *find_row(const char *name) {
    return find_row_of(name, strlen(name));
}

const Target *target_level(const Target *t, int i) {
    if (!t->levels) return i == 0 ? t : NULL;
    for (const char *p = t->levels; *p;) {
        size_t n = strcspn(p, " ");
        if (i-- == 0) return find_row_of(p, n);
        p += n;
        p += strspn(p, " ");
    }
    return NULL;
}

// Whether word stands in a space-separated list.
static bool list_has(const char *list, const char *word, size_t n) {
    for (const char *p = list; *p;) {
        size_t len = strcspn(p, " ");
        if (len == n && memcmp(p, word, n) == 0) return true;
        p += len;
        p += strspn(p, " ");
    }
    return false;
}

bool target_has(const Target *t, const char *feature) {
    return list_has(t->features, feature, strlen(feature));
}

// ---- the running CPU ----

#if defined(__x86_64__)
static bool cpu_has_f16c(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

// The features of the CPU (with the system's support for its registers), as a list.
static const char *cpu_features(void) {
    static char list[256];
    if (*list) return list;
    __builtin_cpu_init();
    const struct {
        const char *name;
        bool there;
    } all[] = {
        {"sse", __builtin_cpu_supports("sse")},
        {"sse2", __builtin_cpu_supports("sse2")},
        {"sse3", __builtin_cpu_supports("sse3")},
        {"ssse3", __builtin_cpu_supports("ssse3")},
        {"sse4.1", __builtin_cpu_supports("sse4.1")},
        {"sse4.2", __builtin_cpu_supports("sse4.2")},
        {"popcnt", __builtin_cpu_supports("popcnt")},
        {"avx", __builtin_cpu_supports("avx")},
        {"avx2", __builtin_cpu_supports("avx2")},
        {"fma", __builtin_cpu_supports("fma")},
        {"f16c", __builtin_cpu_supports("avx") && cpu_has_f16c()},
        {"bmi", __builtin_cpu_supports("bmi")},
        {"bmi2", __builtin_cpu_supports("bmi2")},
        {"avx512f", __builtin_cpu_supports("avx512f")},
        {"avx512bw", __builtin_cpu_supports("avx512bw")},
        {"avx512cd", __builtin_cpu_supports("avx512cd")},
        {"avx512dq", __builtin_cpu_supports("avx512dq")},
        {"avx512vl", __builtin_cpu_supports("avx512vl")},
        {"avx512vnni", __builtin_cpu_supports("avx512vnni")},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!all[i].there) continue;
        strcat(list, all[i].name);
        strcat(list, " ");
    }
    return list;
}

static bool cpu_runs(const Target *t) {
    for (const char *p = t->features; *p;) {
        size_t n = strcspn(p, " ");
        if (!list_has(cpu_features(), p, n)) return false;
        p += n;
        p += strspn(p, " ");
    }
    return true;
}

// The last x86 row that the CPU runs, up to the row called `last` (NULL: all).
static const Target *running_cpu(const char *last) {
    const Target *best = find_row("generic");
    for (int i = 0; i < ROWS; i++) {
        if (strncmp(rows[i].name, "x86-64", 6) != 0 || rows[i].levels) continue;
        if (cpu_runs(&rows[i])) best = &rows[i];
        if (last && strcmp(rows[i].name, last) == 0) break;
    }
    return best;
}
#else
static const Target *running_cpu(const char *last) {
    (void)last;
#if defined(__aarch64__)
    return find_row("aarch64");
#else
    return find_row("generic");
#endif
}
#endif

bool target_runs_here(const Target *t) {
    if (t->levels) return target_runs_here(target_level(t, 0));
    if (!*t->triple) return true;
#if defined(__x86_64__)
    return !strncmp(t->triple, "x86_64", 6) && cpu_runs(t);
#else
    return t == running_cpu(NULL);
#endif
}

const Target *target_find(const char *name) {
    if (strcmp(name, "host") == 0) return running_cpu("x86-64-v3");
    if (strcmp(name, "native") == 0) return running_cpu(NULL);
    return find_row(name);
}

// The names that stand for the running CPU come first, with what they stand for here.
const Target *target_row(int i) {
    static Target alias[2];
    static const char *const names[2] = {"host", "native"};
    static const char *const help[2] = {"this machine's level, at most x86-64-v3 (the default)", "everything this machine has"};
    if (i < 0 || i >= ROWS + 2) return NULL;
    if (i >= 2) return &rows[i - 2];
    alias[i] = *target_find(names[i]);
    alias[i].name = names[i];
    alias[i].help = help[i];
    return &alias[i];
}
