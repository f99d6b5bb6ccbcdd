// What code for an x86 target needs of the processor it runs on, as bits of cpuid.
#ifndef MLC_CPU_H
#define MLC_CPU_H

#include <stdint.h>

typedef struct {
    uint32_t leaf1_ecx, leaf7_ebx, leaf7_ecx; // bits that must be set
    uint32_t xcr0;                            // bits of xgetbv(0): registers the system must save; 0: do not ask
} CpuNeeds;

CpuNeeds codegen_cpu_needs(const char *c_target); // c_target: of the Target

#endif
