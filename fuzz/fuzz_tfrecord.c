/* TFRecord: a file is refused, or its values lie within it; numbers of a list come to their end. An input is one
 * Example, whose record is made around it, as no fuzzer finds checksums; or it is a file as it is. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "format/tfrecord_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_crc(uint8_t *to, const uint8_t *bytes, size_t n)
{
    const uint32_t crc = leat_crc32c(0, bytes, n);
    leat_put_u32(to, (crc >> 15 | crc << 17) + 0xa282ead8);
}

static void count_numbers(const struct leat_place *at, const uint8_t *data)
{
    struct leat_tfrecord_list l = leat_tfrecord_list(leat_tfrecord_kind_of(at), data + at->offset, (size_t)at->length);
    uint64_t n = 0, value;
    int rc;
    while ((rc = leat_tfrecord_next(&l, &value)) == 1)
        n++;
    if (rc || n != leat_tfrecord_count_of(at))
        abort();
}

static void read_file(const uint8_t *data, size_t size)
{
    struct leat_io_file *file;
    struct leat_compressed made;
    struct leat_places p;
    if (leat_io_from_memory("fuzz", data, size, &file, NULL))
        abort();
    const struct leat_tfrecord_making making = {.file = file};
    leat_tfrecord_recognise(data, size);
    if (!leat_tfrecord_index_make(&making, &made, &p, NULL)) {
        if (!leat_tfrecord_index_fits(&p) || p.starts[0] || p.starts[p.count] != p.n_sparse)
            abort();
        for (uint64_t i = 0; i < p.n_sparse; i++) {
            const struct leat_place *at = &p.at[i];
            const unsigned kind = leat_tfrecord_kind_of(at);
            if (at->offset > size || at->length > size - at->offset || leat_place_column(at) >= p.width || !kind ||
                kind > LEAT_TFRECORD_INTS)
                abort();
            if (kind != LEAT_TFRECORD_BYTES)
                count_numbers(at, data);
        }
        leat_places_destroy(&p);
        leat_io_release(made.file);
    }
    leat_io_release(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *record = leat_alloc(size + 16);
    read_file(data, size);
    if (!record)
        return 0;
    leat_put_u64(record, size);
    put_crc(record + 8, record, 8);
    if (size)
        memcpy(record + 12, data, size);
    put_crc(record + 12 + size, data, size);
    read_file(record, size + 16);
    leat_free(record);
    return 0;
}
