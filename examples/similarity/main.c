// Which sentences mean the same? MiniLM, compiled to encoder.c, on the sentences given: the first is compared with each of the others.
//
// The model gives 64 vectors of 384 numbers, one a token. Their mean over the tokens that are there stands for the sentence; the cosine of
// two such means is near 1 where the sentences say the same.
#include "encoder.h"

#include "wordpiece.h"

#include <math.h>
#include <stdio.h>

enum { TOKENS = 64, WIDTH = 384 };

ENCODER_ARENA(arena);

// The sentence's vector, of length 1; 0 after a message.
static int encode(const vocabulary *v, const char *text, float mean[WIDTH]) {
    static int64_t ids[TOKENS];
    static float mask[TOKENS], hidden[TOKENS][WIDTH];
    int n = vocabulary_tokens(v, text, ids, TOKENS);
    double length = 0;
    for (int i = 0; i < TOKENS; i++) {
        if (i >= n) ids[i] = 0;
        mask[i] = i < n ? 0 : -1e4f; // added to the scores of attention
    }
    encoder_inputs in = {ids, mask};
    encoder_outputs out = {hidden[0]};
    int32_t status = encoder_run(&in, &out, arena);
    if (status) {
        fprintf(stderr, "%s\n", encoder_strerror(status));
        return 0;
    }
    for (int k = 0; k < WIDTH; k++) {
        mean[k] = 0;
        for (int i = 0; i < n; i++) mean[k] += hidden[i][k];
        length += (double)mean[k] * (double)mean[k];
    }
    for (int k = 0; k < WIDTH; k++) mean[k] /= (float)sqrt(length);
    return 1;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: similarity VOCABULARY SENTENCE OTHERS…\n");
        return 2;
    }
    vocabulary *v = vocabulary_read(argv[1]);
    static float first[WIDTH], other[WIDTH];
    if (!v || !encode(v, argv[2], first)) {
        fprintf(stderr, "cannot read %s\n", argv[1]);
        return 1;
    }
    for (int i = 3; i < argc; i++) {
        float cosine = 0;
        if (!encode(v, argv[i], other)) return 1;
        for (int k = 0; k < WIDTH; k++) cosine += first[k] * other[k];
        printf("%5.2f  %s\n", (double)cosine, argv[i]);
    }
    vocabulary_free(v);
    return 0;
}
