// Where in a recording does someone speak? Silero's model, compiled to silero.c, on the WAV files named on the command line (16 kHz, 16
// bits, mono).
//
// The model hears 32 ms at a time with the 4 ms before them, and keeps what it remembers in its state, which lives outside the arena: one
// state a recording. Speech begins where the probability exceeds 0.5 and ends where it falls below 0.35, as Silero's own code has it.
#include "silero.h"

#include <stdio.h>
#include <string.h>

enum { RATE = 16000, STEP = 512, BEFORE = 64 };

SILERO_ARENA(arena);
SILERO_STATE(state);

static unsigned read_le(const unsigned char *p, int bytes) {
    unsigned v = 0;
    for (int i = 0; i < bytes; i++) v |= (unsigned)p[i] << 8 * i;
    return v;
}

// Goes to the samples; 0 when the file is not 16 kHz, 16 bits, mono.
static int open_wav(FILE *f) {
    unsigned char head[12], chunk[8], format[16];
    int known = 0;
    if (fread(head, 1, 12, f) != 12 || memcmp(head, "RIFF", 4) || memcmp(head + 8, "WAVE", 4)) return 0;
    while (fread(chunk, 1, 8, f) == 8) {
        unsigned n = read_le(chunk + 4, 4);
        if (!memcmp(chunk, "data", 4)) return known;
        if (!memcmp(chunk, "fmt ", 4) && n >= 16) {
            if (fread(format, 1, 16, f) != 16) return 0;
            known =
                read_le(format, 2) == 1 && read_le(format + 2, 2) == 1 && read_le(format + 4, 4) == RATE && read_le(format + 14, 2) == 16;
            n -= 16;
        }
        fseek(f, n + n % 2, SEEK_CUR);
    }
    return 0;
}

// The next samples behind the last ones of before; 0 at the end.
static int next_samples(FILE *f, float x[BEFORE + STEP]) {
    unsigned char bytes[2 * STEP];
    size_t n = fread(bytes, 2, STEP, f);
    memmove(x, x + STEP, BEFORE * sizeof *x);
    for (size_t i = 0; i < STEP; i++) x[BEFORE + i] = i < n ? (float)(short)read_le(bytes + 2 * i, 2) / 32768 : 0;
    return n > 0;
}

static int listen(FILE *f) {
    static float x[BEFORE + STEP];
    int64_t rate = RATE;
    float probability;
    double begin = -1, now = 0;
    silero_inputs in = {.input = x, .sr = &rate};
    silero_outputs out = {.output = &probability};
    silero_env env = {.struct_size = sizeof env, .arena = arena, .arena_bytes = sizeof arena, .state = state};
    memset(x, 0, sizeof x);
    silero_state_init(state);
    for (; next_samples(f, x); now += (double)STEP / RATE) {
        int32_t status = silero_run_env(NULL, &in, &out, &env);
        if (status) {
            fprintf(stderr, "%s\n", silero_strerror(status));
            return 1;
        }
        if (begin < 0 && probability > 0.5f) begin = now;
        if (begin < 0 || probability >= 0.35f) continue;
        printf("  speech from %.2f s to %.2f s\n", begin, now);
        begin = -1;
    }
    if (begin >= 0) printf("  speech from %.2f s to the end, %.2f s\n", begin, now);
    return 0;
}

int main(int argc, char **argv) {
    for (int k = 1; k < argc; k++) {
        FILE *f = fopen(argv[k], "rb");
        if (!f || !open_wav(f)) {
            fprintf(stderr, "%s: not a WAV file of 16 kHz, 16 bits, mono\n", argv[k]);
            return 1;
        }
        const char *name = strrchr(argv[k], '/');
        printf("%s\n", name ? name + 1 : argv[k]);
        int failed = listen(f);
        fclose(f);
        if (failed) return 1;
    }
    return 0;
}
