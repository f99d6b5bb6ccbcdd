// Weights files of compiled models (PREFIX.bin, for env->weights): mapped, not read.
// SPDX-License-Identifier: 0BSD
#ifndef MLC_WEIGHTS_H
#define MLC_WEIGHTS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// The file, read-only at an address aligned to 2 MiB with huge pages asked for; NULL and errno when it cannot be mapped, is empty or has
// another size than `bytes` (EINVAL). PREFIX_weights_check then tells whether its content is the model's.
const void *mlc_weights_map(const char *path, size_t bytes);
void mlc_weights_unmap(const void *weights, size_t bytes); // NULL is allowed

#ifdef __cplusplus
}
#endif

#endif
