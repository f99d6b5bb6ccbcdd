// The platform of the checks on a Cortex-M board without libc: start-up, semihosting, memory, and the two functions a compiled model needs.
//
// The exit status is main's; 98 when something wrote outside its memory, 99 on a fault. Memory is handed out from one array, with guards
// between the blocks that are looked at when main has returned.
#include "harness.h"

enum { POOL = 1 << 20, GUARD = 64, GUARD_BYTE = 0x3c, EXIT_GUARD = 98, EXIT_FAULT = 99 };

extern uint32_t stack_top, data_start, data_end, data_load, bss_start, bss_end; // from board.ld
int main(void);

// ---- what a compiled model needs ----
void *memcpy(void *to, const void *from, size_t n);
void *memset(void *to, int byte, size_t n);

void *memcpy(void *to, const void *from, size_t n) {
    for (size_t i = 0; i < n; i++) ((unsigned char *)to)[i] = ((const unsigned char *)from)[i];
    return to;
}

void *memset(void *to, int byte, size_t n) {
    for (size_t i = 0; i < n; i++) ((unsigned char *)to)[i] = (unsigned char)byte;
    return to;
}

// ---- semihosting ----
static int semihost(int operation, const void *argument) {
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory", "cc");
    return r0;
}

void say(const char *text) {
    semihost(0x04, text); // SYS_WRITE0
}

static void __attribute__((noreturn)) leave(int status) {
    uint32_t block[2] = {0x20026u, (uint32_t)status}; // ADP_Stopped_ApplicationExit
    semihost(0x20, block);                            // SYS_EXIT_EXTENDED
    for (;;) {
    }
}

// ---- memory ----
static unsigned char pool[POOL] __attribute__((aligned(64)));
static size_t used;

typedef struct {
    size_t from, to; // in pool
} Guard;
static Guard guards[1024];
static int nguards;

static void add_guard(size_t from, size_t to) {
    for (size_t i = from; i < to; i++) pool[i] = GUARD_BYTE;
    guards[nguards++] = (Guard){from, to};
    used = to;
}

void *own_memory(size_t bytes) {
    if (!nguards) add_guard(0, GUARD);
    size_t at = used;
    if (bytes > POOL - 2 * GUARD || at > POOL - 2 * GUARD - bytes || nguards == (int)(sizeof guards / sizeof *guards)) {
        say("the pool is used up\n");
        leave(EXIT_FAULT);
    }
    add_guard(at + bytes, (at + bytes + 2 * GUARD - 1) / GUARD * GUARD);
    return pool + at;
}

static int guards_hold(void) {
    for (int g = 0; g < nguards; g++)
        for (size_t i = guards[g].from; i < guards[g].to; i++)
            if (pool[i] != GUARD_BYTE) return 0;
    return 1;
}

// ---- start-up ----
void reset_handler(void);

void reset_handler(void) {
    *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20; // CPACR: full access to the floating-point unit
    __asm__ volatile("dsb\n isb");
    for (uint32_t *from = &data_load, *to = &data_start; to < &data_end;) *to++ = *from++;
    for (uint32_t *to = &bss_start; to < &bss_end;) *to++ = 0;
    int status = main();
    leave(guards_hold() ? status : EXIT_GUARD);
}

static void fault(void) {
    say("FAULT\n");
    leave(EXIT_FAULT);
}

// The processor's vectors: the stack, then handlers.
__attribute__((section(".vectors"), used)) static void *const vectors[16] = {&stack_top, (void *)reset_handler, (void *)fault,
    (void *)fault, (void *)fault, (void *)fault, (void *)fault, 0, 0, 0, 0, (void *)fault, (void *)fault, 0, (void *)fault, (void *)fault};
