// Where is text on a picture? PP-OCR's detector, compiled to detector.c, on a PPM file of 480x320 pixels.
//
// The model gives each pixel the probability that it is in the core of a line of text. Cores are the connected pixels above 0.3; a box
// around one whose mean is above 0.5 is widened by 1.6 times its area over its circumference, for cores are thinner than their lines.
#include "detector.h"

#include <stdio.h>

enum { W = 480, H = 320, PIXELS = W * H };

DETECTOR_ARENA(arena);
static unsigned char rgb[PIXELS][3], seen[PIXELS];
static float x[3 * PIXELS], probability[PIXELS];
static int stack[PIXELS];

static int read_picture(const char *path) {
    FILE *f = fopen(path, "rb");
    int w = 0, h = 0, max = 0;
    if (!f) return 0;
    int ok = fscanf(f, "P6 %d %d %d", &w, &h, &max) == 3 && w == W && h == H && max == 255 && fgetc(f) != EOF;
    ok = ok && fread(rgb, 3, PIXELS, f) == PIXELS;
    fclose(f);
    return ok;
}

typedef struct {
    int left, top, right, bottom, pixels;
    float sum;
} Core;

// All pixels above the threshold that are connected to pixel `first`.
static Core grow(int first) {
    Core c = {W, H, -1, -1, 0, 0};
    int n = 0;
    stack[n++] = first;
    seen[first] = 1;
    while (n) {
        int p = stack[--n], px = p % W, py = p / W;
        c.left = px < c.left ? px : c.left;
        c.right = px > c.right ? px : c.right;
        c.top = py < c.top ? py : c.top;
        c.bottom = py > c.bottom ? py : c.bottom;
        c.sum += probability[p];
        c.pixels++;
        const int next[] = {px ? p - 1 : p, px < W - 1 ? p + 1 : p, py ? p - W : p, py < H - 1 ? p + W : p};
        for (int i = 0; i < 4; i++) {
            if (seen[next[i]] || probability[next[i]] <= 0.3f) continue;
            seen[next[i]] = 1;
            stack[n++] = next[i];
        }
    }
    return c;
}

static int clamp(int v, int most) {
    return v < 0 ? 0 : v > most ? most : v;
}

static void show_boxes(void) {
    for (int p = 0; p < PIXELS; p++) {
        if (seen[p] || probability[p] <= 0.3f) continue;
        Core c = grow(p);
        int w = c.right - c.left + 1, h = c.bottom - c.top + 1, wider = (int)(1.6 * w * h / (2 * (w + h)) + 0.5);
        if (c.sum / (float)c.pixels <= 0.5f || w < 3 || h < 3) continue;
        printf("text from (%d, %d) to (%d, %d), %.0f %%\n", clamp(c.left - wider, W - 1), clamp(c.top - wider, H - 1),
            clamp(c.right + wider, W - 1), clamp(c.bottom + wider, H - 1), 100 * (double)c.sum / c.pixels);
    }
}

int main(int argc, char **argv) {
    if (argc != 2 || !read_picture(argv[1])) {
        fprintf(stderr, "usage: text PICTURE, a PPM file of %dx%d pixels\n", W, H);
        return 2;
    }
    for (int p = 0; p < PIXELS; p++) // blue, green, red planes within -1..1
        for (int k = 0; k < 3; k++) x[k * PIXELS + p] = (float)rgb[p][2 - k] / 127.5f - 1;
    detector_inputs in = {x};
    detector_outputs out = {probability};
    int32_t status = detector_run(&in, &out, arena);
    if (status) {
        fprintf(stderr, "%s\n", detector_strerror(status));
        return 1;
    }
    show_boxes();
    return 0;
}
