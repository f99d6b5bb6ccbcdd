// The platform of the checks on the machine that runs the tests: PROGRAM [threads [bits | spoil]].
//
// Every block has its exact size from the allocator, so sanitizers and valgrind see each access outside.
#include "harness.h"
#include "mlc_pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void run_models(mlc_pool *pool);

static void *blocks[4096];
static int nblocks;

void say(const char *text) {
    fputs(text, stdout);
}

void *own_memory(size_t bytes) {
    void *p = NULL;
    if (nblocks == (int)(sizeof blocks / sizeof *blocks) || posix_memalign(&p, 64, bytes)) abort();
    return blocks[nblocks++] = p;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    show_bits = argc > 2 && !strcmp(argv[2], "bits");
    spoil = argc > 2 && !strcmp(argv[2], "spoil");
    mlc_pool *pool = threads > 1 ? mlc_pool_create(threads) : NULL;
    if (threads > 1 && (!pool || pool->threads != threads)) abort();
    run_models(pool);
    mlc_pool_destroy(pool);
    for (int i = 0; i < nblocks; i++) free(blocks[i]);
    return finish();
}
