/* An IDX file, plain or compressed: opening never crashes, and the opened data can be read to their end, the same way
 * in memory and in blocks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "format/idx.h"
#include "format/source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t read_all(const char *path, uint64_t memory_bytes, struct leat_source **out)
{
    struct leat_error error;
    uint64_t sum = 0, bytes;
    if (leat_idx_open(path, memory_bytes, out, &error))
        return UINT64_MAX;
    struct leat_source *s = *out;
    bytes = leat_dtype_size(s->fields[0].dtype);
    for (unsigned d = 0; d < s->fields[0].ndim; d++)
        bytes *= (uint64_t)s->fields[0].shape[d];
    for (uint64_t i = 0; i < s->count && i < 1000; i++) {
        size_t failed;
        uint8_t *value = leat_alloc(bytes);
        const void *row = NULL;
        struct leat_extent extent;
        struct leat_io_file *file;
        if (s->storage[0] == LEAT_STORAGE_MAPPED) {
            s->v->rows(s, 0, &i, 1, NULL, &row, &failed, &error);
            memcpy(value, row, bytes);
        } else {
            s->v->extents(s, 0, &i, 1, &extent, &failed, &error);
            s->v->file(s, 0, &file, &error);
            if (leat_io_read(file, extent.offset, extent.length, value, &error))
                abort();
            leat_io_release(file);
        }
        for (uint64_t k = 0; k < bytes; k++)
            sum = sum * 31 + value[k];
        leat_free(value);
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = memfd_create("fuzz", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    uint64_t sums[2];
    for (int way = 0; way < 2; way++) {
        struct leat_source *s = NULL;
        sums[way] = read_all(path, way ? 0 : 1 << 20, &s);
        leat_source_close(s);
    }
    if (sums[0] != sums[1])
        abort();
    close(fd);
    return 0;
}
