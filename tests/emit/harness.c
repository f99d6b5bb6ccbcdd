// The functions of harness.h that need no platform.
#include "harness.h"

int spoil, show_bits, checks, failures;

static void say_number(int64_t v) {
    char text[24];
    int at = sizeof text - 1;
    uint64_t rest = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    text[at] = 0;
    do text[--at] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (v < 0) text[--at] = '-';
    say(text + at);
}

void *own(size_t bytes) {
    unsigned char *p = own_memory(bytes);
    for (size_t i = 0; i < bytes; i++) p[i] = FILL;
    return p;
}

void *own_copy(const void *from, size_t bytes) {
    unsigned char *p = own_memory(bytes);
    for (size_t i = 0; i < bytes; i++) p[i] = ((const unsigned char *)from)[i];
    return p;
}

static void failed(const char *model, const char *what, int line) {
    failures++;
    say("FAIL ");
    say(model);
    say(" (line ");
    say_number(line);
    say("): ");
    say(what);
}

void check(int good, const char *model, const char *what, int line) {
    checks++;
    if (good) return;
    failed(model, what, line);
    say("\n");
}

void check_status(int32_t status, int32_t expected, const char *model, const char *what, int line) {
    checks++;
    if (status == expected) return;
    failed(model, what, line);
    say(": status ");
    say_number(status);
    say(", expected ");
    say_number(expected);
    say("\n");
}

int untouched(const void *memory, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (((const unsigned char *)memory)[i] != FILL) return 0;
    return 1;
}

static double magnitude(double x) {
    return x < 0 ? -x : x;
}

int close_f32(const float *got, const float *want, size_t n) {
    float largest = 0, worst = 0;
    for (size_t i = 0; i < n; i++) {
        float wanted = spoil && i == n - 1 ? want[i] + 1 : want[i], m = wanted < 0 ? -wanted : wanted, d = got[i] - wanted;
        if (d < 0) d = -d;
        if (m > largest) largest = m;
        if (!(d <= worst)) worst = d;
    }
    return worst <= 1e-5f * largest;
}

int close_f64(const double *got, const double *want, size_t n) {
    double largest = 0, worst = 0;
    for (size_t i = 0; i < n; i++) {
        double wanted = spoil && i == n - 1 ? want[i] + 1 : want[i];
        if (magnitude(wanted) > largest) largest = magnitude(wanted);
        if (!(magnitude(got[i] - wanted) <= worst)) worst = magnitude(got[i] - wanted);
    }
    return worst <= 1e-12 * largest;
}

int equal_bytes(const void *got, const void *want, size_t bytes) {
    const unsigned char *a = got, *b = want;
    for (size_t i = 0; i < bytes; i++)
        if (a[i] != (unsigned char)(spoil && i == bytes - 1 ? b[i] + 1 : b[i])) return 0;
    return 1;
}

void output_bits(const char *model, int set, const char *output, const void *bytes, size_t n) {
    if (!show_bits) return;
    uint64_t h = UINT64_C(0xcbf29ce484222325); // FNV-1a
    for (size_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    say(model);
    say(" ");
    say_number(set);
    say(" ");
    say(output);
    say(" ");
    say_number((int64_t)h);
    say("\n");
}

int finish(void) {
    say_number(checks);
    say(" checks, ");
    say_number(failures);
    say(" failed\n");
    return failures != 0 || checks == 0;
}
