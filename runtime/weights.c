// The mapping of mlc_weights.h. An aligned address comes from a larger reservation whose ends are given back.
// SPDX-License-Identifier: 0BSD
#include "mlc_weights.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20)

// `bytes` of reserved addresses, the first a multiple of HUGE_PAGE; MAP_FAILED.
static void *reserve(size_t bytes) {
    if (bytes > SIZE_MAX - 2 * HUGE_PAGE) return MAP_FAILED;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    unsigned char *all = mmap(NULL, whole + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return MAP_FAILED;
    size_t skip = (HUGE_PAGE - (uintptr_t)all % HUGE_PAGE) % HUGE_PAGE;
    if (skip) munmap(all, skip);
    if (skip < HUGE_PAGE) munmap(all + skip + whole, HUGE_PAGE - skip);
    return all + skip;
}

static void *map_at_huge_page(int fd, size_t bytes) {
    void *at = reserve(bytes);
    if (at == MAP_FAILED) return MAP_FAILED;
    void *map = mmap(at, bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
    if (map == MAP_FAILED) {
        munmap(at, bytes);
        return MAP_FAILED;
    }
#ifdef MADV_HUGEPAGE
    int kept = errno; // only a wish: not every file system has huge pages
    madvise(map, bytes, MADV_HUGEPAGE);
    errno = kept;
#endif
    return map;
}

const void *mlc_weights_map(const char *path, size_t bytes) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    struct stat st;
    void *map = MAP_FAILED;
    if (fstat(fd, &st) == 0) {
        if (bytes && (uint64_t)st.st_size == bytes)
            map = map_at_huge_page(fd, bytes);
        else
            errno = EINVAL;
    }
    int fault = errno;
    close(fd);
    errno = fault;
    return map == MAP_FAILED ? NULL : map;
}

void mlc_weights_unmap(const void *weights, size_t bytes) {
    if (weights) munmap((void *)(uintptr_t)weights, bytes);
}
