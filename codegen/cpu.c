// The features of Target.c_target as bits of cpuid (Intel's manual, volume 2, CPUID).
#include "cpu.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *word;
    size_t leaf; // field of CpuNeeds
    int bit;
} bits[] = {{"fma", 0, 12}, {"sse4.1", 0, 19}, {"sse4.2", 0, 20}, {"popcnt", 0, 23}, {"avx", 0, 28}, {"f16c", 0, 29}, {"bmi", 1, 3},
    {"avx2", 1, 5}, {"bmi2", 1, 8}, {"avx512f", 1, 16}, {"avx512dq", 1, 17}, {"avx512cd", 1, 28}, {"avx512bw", 1, 30}, {"avx512vl", 1, 31},
    {"avx512vnni", 2, 11}};

CpuNeeds codegen_cpu_needs(const char *c_target) {
    enum { OSXSAVE = 27, YMM = 6, ZMM = 0xe6 };
    CpuNeeds n = {0, 0, 0, strstr(c_target, "avx512") ? ZMM : strstr(c_target, "avx") ? YMM : 0};
    uint32_t *const leaf[] = {&n.leaf1_ecx, &n.leaf7_ebx, &n.leaf7_ecx};
    if (n.xcr0) n.leaf1_ecx |= 1u << OSXSAVE;
    for (const char *s = c_target; *s; s += *s == ',') {
        size_t len = strcspn(s, ",");
        for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
            if (strlen(bits[i].word) == len && strncmp(bits[i].word, s, len) == 0) *leaf[bits[i].leaf] |= 1u << bits[i].bit;
        s += len;
    }
    return n;
}
