// The loader of load.h.
// SPDX-License-Identifier: 0BSD
#include "load.h"
#include "mlc_weights.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64, NO_ARENA = -2 };

struct mlc_loaded {
    void *library; // NULL: the table came from memory
    const mlc_model_info *info;
    mlc_pool *pool;
    void *arena, *state, **regions;
    const void *weights;
    const void *mapped; // weights that the loader mapped, or NULL
    size_t arena_bytes, weights_bytes;
    uint64_t seed;
    int32_t (*hook)(void *user, int32_t kernel, int32_t phase);
    void *user; // of hook
};

static void *aligned(size_t bytes) {
    size_t n = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return bytes > SIZE_MAX - ALIGN ? NULL : aligned_alloc(ALIGN, n ? n : ALIGN);
}

static void say(char *error, size_t n, const char *what, const char *detail) {
    if (n) snprintf(error, n, "%s%s%s", what, detail ? ": " : "", detail ? detail : "");
}

const mlc_model_info *mlc_loaded_info(const mlc_loaded *m) {
    return m->info;
}
void mlc_loaded_set_pool(mlc_loaded *m, mlc_pool *pool) {
    m->pool = pool;
}
void *mlc_loaded_state(mlc_loaded *m) {
    return m->state;
}
void mlc_loaded_set_seed(mlc_loaded *m, uint64_t seed) {
    m->seed = seed;
}
void mlc_loaded_set_hook(mlc_loaded *m, int32_t (*hook)(void *user, int32_t kernel, int32_t phase), void *user) {
    m->hook = hook;
    m->user = user;
}
void mlc_loaded_reset(mlc_loaded *m) {
    if (m->state) m->info->state_init(m->state);
}

// ---- opening ----
static bool make_memory(mlc_loaded *m) {
    const mlc_model_info *info = m->info;
    if (info->state_bytes && !(m->state = aligned(info->state_bytes))) return false;
    mlc_loaded_reset(m);
    if (info->nregions && !(m->regions = calloc((size_t)info->nregions, sizeof *m->regions))) return false;
    for (int i = 0; i < info->nregions; i++)
        if (!(m->regions[i] = aligned(info->region_bytes[i]))) return false;
    return true;
}

mlc_loaded *mlc_load_table(const mlc_model_info *info, char *error, size_t n) {
    if (info->abi != MLC_ABI) {
        char text[64];
        snprintf(text, sizeof text, "expected %d, found %u", MLC_ABI, (unsigned)info->abi);
        say(error, n, "the model has another binary interface", text);
        return NULL;
    }
    mlc_loaded *m = calloc(1, sizeof *m);
    if (m) m->info = info;
    if (m && make_memory(m)) return m;
    say(error, n, "no memory", NULL);
    mlc_unload(m);
    return NULL;
}

int32_t mlc_loaded_set_weights(mlc_loaded *m, const void *blob, size_t bytes) {
    m->weights = blob;
    m->weights_bytes = bytes;
    return m->info->weights_check ? m->info->weights_check(blob, bytes) : 0;
}

// The file NAME.bin beside NAME.so, mapped.
static bool map_weights(mlc_loaded *m, const char *path, char *error, size_t n) {
    char name[4096];
    size_t stem = strlen(path);
    if (stem > 3 && !strcmp(path + stem - 3, ".so")) stem -= 3;
    snprintf(name, sizeof name, "%.*s.bin", (int)stem, path);
    errno = 0;
    m->mapped = mlc_weights_map(name, m->info->weights_bytes);
    if (!m->mapped) {
        say(error, n, errno == EINVAL ? "the weights file has another size than the model's" : "cannot map the weights", name);
        return false;
    }
    if (mlc_loaded_set_weights(m, m->mapped, m->info->weights_bytes) == 0) return true;
    say(error, n, "the weights are damaged or another model's", name);
    return false;
}

mlc_loaded *mlc_load(const char *path, const char *prefix, char *error, size_t n) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        say(error, n, "cannot load the library", dlerror());
        return NULL;
    }
    char name[512];
    snprintf(name, sizeof name, "%s_info", prefix);
    const mlc_model_info *info = dlsym(library, name);
    if (!info) say(error, n, "the library has no table", name);
    mlc_loaded *m = info ? mlc_load_table(info, error, n) : NULL;
    if (!m) {
        dlclose(library);
        return NULL;
    }
    m->library = library;
    if (info->weights_bytes && !map_weights(m, path, error, n)) {
        mlc_unload(m);
        return NULL;
    }
    return m;
}

void mlc_unload(mlc_loaded *m) {
    if (!m) return;
    for (int i = 0; m->regions && i < m->info->nregions; i++) free(m->regions[i]);
    free(m->regions);
    free(m->state);
    free(m->arena);
    mlc_weights_unmap(m->mapped, m->info->weights_bytes);
    if (m->library) dlclose(m->library);
    free(m);
}

// ---- outputs ----
static size_t round_up(size_t n) {
    return (n + sizeof(int64_t) - 1) / sizeof(int64_t) * sizeof(int64_t);
}

size_t mlc_outputs_dynamic(const mlc_model_info *info, int i) {
    size_t n = round_up((size_t)info->noutputs * sizeof(void *));
    for (int k = 0; k < i; k++)
        if (info->outputs[k].dynamic) n += round_up(sizeof(size_t)) + (size_t)info->outputs[k].rank * sizeof(int64_t);
    return n;
}

size_t mlc_outputs_bytes(const mlc_model_info *info) {
    return mlc_outputs_dynamic(info, info->noutputs);
}

// ---- running ----
static bool make_arena(mlc_loaded *m, const int64_t *dims) {
    size_t need = m->info->arena_bytes(dims, m->pool ? m->pool->threads : 1);
    if (need == SIZE_MAX) return false;
    if (m->arena && need <= m->arena_bytes) return true;
    free(m->arena);
    m->arena = aligned(need);
    m->arena_bytes = m->arena ? need : 0;
    return m->arena != NULL;
}

static void *allocate(void *user, size_t bytes) {
    (void)user;
    return aligned(bytes);
}
static void deallocate(void *user, void *p) {
    (void)user;
    free(p);
}

int32_t mlc_loaded_run(mlc_loaded *m, const int64_t *dims, const void *const *inputs, void *outputs) {
    if (!make_arena(m, dims)) return NO_ARENA;
    mlc_env env = {.struct_size = sizeof env,
        .arena = m->arena,
        .arena_bytes = m->arena_bytes,
        .regions = m->regions,
        .weights = m->weights,
        .weights_bytes = m->weights_bytes,
        .state = m->state,
        .pool = m->pool,
        .alloc = allocate,
        .dealloc = deallocate,
        .user = m->user,
        .seed = m->seed,
        .hook = m->hook};
    return m->info->run_env(dims, inputs, outputs, &env);
}
