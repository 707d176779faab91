/*
 * Any bytes as a leat file. The first byte says whether checksums are made right first. What opens must give rows
 * inside the file and extents inside the file, and a file that verifies without a fault must give every value.
 */
#include "fuzz_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void read_all(struct leat_source *source, bool whole)
{
    struct leat_store_source *s = (struct leat_store_source *)source;
    struct leat_error error;
    size_t failed;
    _Alignas(64) uint8_t cold[LEAT_COLD_VALUE];
    uint64_t count = source->count < 300 ? source->count : 300, n = s->file->size;
    for (size_t f = 0; f < source->n_fields; f++) {
        const void *column;
        bool varying = s->layout.info[f].varying;
        if (!varying)
            (void)source->v->column(source, f, &column, &error);
        for (uint64_t i = 0; i < count; i++) {
            uint64_t sample = i % 2 ? source->count - 1 - i : i;
            const void *row = NULL;
            struct leat_extent e;
            int rc = varying ? source->v->extents(source, f, &sample, 1, &e, &failed, &error)
                             : source->v->rows(source, f, &sample, 1, i % 3 ? cold : NULL, &row, &failed, &error);
            FUZZ_ASSERT(rc == LEAT_OK || rc == LEAT_E_CORRUPT);
            FUZZ_ASSERT(!whole || rc == LEAT_OK);
            if (rc)
                continue;
            if (row == cold) /* read apart from the mapping */
                continue;
            uint64_t at = varying ? e.offset : (uint64_t)((const uint8_t *)row - s->map),
                     bytes = varying ? e.length : s->layout.info[f].unit;
            FUZZ_ASSERT(fuzz_inside(at, bytes, n));
            FUZZ_ASSERT(!whole || !varying || leat_hash64(s->map + at, bytes) == e.checksum);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct leat_source *source;
    struct leat_error error;
    struct leat_verify_options options = {.struct_size = sizeof options, .num_threads = 1};
    if (length < 1)
        return 0;
    uint8_t *copy = malloc(length);
    memcpy(copy, data + 1, length - 1);
    if (data[0] & 1)
        fuzz_repair(copy, length - 1);
    leat_io_backend = &fuzz_backend;
    fuzz_data = copy;
    fuzz_length = length - 1;
    int rc = leat_store_open("fuzz.leat", NULL, &source, &error);
    if (!rc) {
        rc = leat_store_verify(source, &options, 0, &error);
        FUZZ_ASSERT(rc == LEAT_OK || rc == LEAT_E_CORRUPT);
        read_all(source, rc == LEAT_OK);
        leat_source_close(source);
    } else {
        FUZZ_ASSERT(rc == LEAT_E_FORMAT || rc == LEAT_E_CORRUPT || rc == LEAT_E_UNFINISHED);
    }
    free(copy);
    return 0;
}
