/* A file of arrays (.npy, .npz, safetensors): it is refused, or its values are read to their end, and have the
 * fingerprint that opening found. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "format/fingerprint.h"
#include "format/source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t hash_of(struct leat_source *s, size_t field, uint64_t sample)
{
    struct leat_values values;
    struct leat_extent extent;
    struct leat_io_file *file;
    const void *row = NULL;
    size_t failed;
    uint64_t bytes = leat_dtype_size(s->fields[field].dtype), hash;
    for (unsigned d = 0; d < s->fields[field].ndim; d++)
        bytes *= (uint64_t)s->fields[field].shape[d];
    if (s->storage[field] == LEAT_STORAGE_MAPPED) {
        if (s->v->rows(s, field, &sample, 1, NULL, &row, &failed, NULL))
            abort();
        return leat_hash64(row, bytes);
    }
    if (s->storage[field] == LEAT_STORAGE_COMPUTED) {
        if (leat_values_init(&values, 1, 1) || s->v->compute(s, &field, 1, &sample, 1, &values, &failed, NULL) ||
            values.at[0].bytes != bytes)
            abort();
        hash = leat_hash64(values.at[0].data, bytes);
        leat_values_destroy(&values);
        return hash;
    }
    uint8_t *value = leat_alloc(bytes);
    if (!value || s->v->extents(s, field, &sample, 1, &extent, &failed, NULL) || extent.length != bytes ||
        s->v->file(s, extent.file, &file, NULL) || leat_io_read(file, extent.offset, bytes, value, NULL))
        abort();
    hash = leat_hash64(value, bytes);
    leat_io_release(file);
    leat_free(value);
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const formats[] = {"npy", "npz", "safetensors"};
    char path[64];
    int fd = memfd_create("fuzz", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (int k = 0; k < 3; k++) {
        struct leat_source *s = NULL;
        struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
        options.format = formats[k];
        if (leat_source_open(path, &options, &s, NULL))
            continue;
        uint64_t sums[2] = {0, 0};
        for (uint64_t i = 0; i < s->count && s->count < 10000; i++) {
            uint64_t sample[2] = {0, 0};
            for (size_t f = 0; f < s->n_fields; f++)
                leat_fingerprint_value(sample, hash_of(s, f, i));
            leat_fingerprint_append(sums, sample);
        }
        if (s->count < 10000 && memcmp(sums, s->fingerprint, sizeof sums) != 0)
            abort();
        leat_source_close(s);
    }
    close(fd);
    return 0;
}
