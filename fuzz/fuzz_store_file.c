/*
 * Any bytes as a leat file. The first byte says whether checksums are made right first. A file that opens must give
 * rows and extents inside it, and one that verifies without a fault must give every value, fast photos put together
 * again.
 */
#include "../tests/c/doubles.h"
#include "base/role.h"
#include "codec/jpeg/fast.h"
#include "codec/jpeg/rows.h"
#include "codec/photo/raw.h"
#include "fuzz_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

/* A photo's bytes, as its record describes them. */
static void read_photo(const struct leat_store_source *s, const struct leat_extent *e, bool whole)
{
    struct leat_raw_photo raw;
    uint8_t *original;
    size_t length;
    FUZZ_ASSERT(e->info.form <= LEAT_FORM_RAW &&
                fuzz_inside(e->offset + e->length, e->info.rows_length, s->file->size));
    FUZZ_ASSERT(!whole || !e->info.rows_length ||
                leat_jpeg_rows_whole(s->map + e->offset + e->length, e->info.rows_length));
    if (e->info.form == LEAT_FORM_RAW) {
        bool good = leat_raw_photo_get(s->map + e->offset, e->length, &raw);
        FUZZ_ASSERT(!whole || good);
        FUZZ_ASSERT(!good || raw.pixels + raw.bytes == s->map + e->offset + e->length);
    }
    if (e->info.form != LEAT_FORM_FAST)
        return;
    int rc = leat_jpeg_restore(s->map + e->offset, e->length, &original, &length, NULL);
    FUZZ_ASSERT(rc == LEAT_OK || (rc == LEAT_E_CORRUPT && !whole) || rc == LEAT_E_NOMEM);
    if (!rc)
        leat_free(original);
}

/* The last half of a value by its pages: inside the file, and good if all is. */
static void read_piece(struct leat_store_source *s, uint64_t sample, const struct leat_extent *whole, bool good)
{
    struct leat_extent e = *whole;
    const uint64_t begin = whole->length / 2;
    if (!s->base.v->piece(&s->base, sample, &e, begin, whole->length - begin))
        return;
    FUZZ_ASSERT(fuzz_inside(e.offset, e.length, s->file->size) && e.offset <= whole->offset + begin &&
                e.offset + e.length >= whole->offset + whole->length);
    int rc = s->base.v->check_piece(&s->base, sample, &e, s->map + e.offset, false, NULL);
    FUZZ_ASSERT(rc == LEAT_OK || (rc == LEAT_E_CORRUPT && !good));
}

/* A field's texts as codes: each is the text of some sample, and names it; a damaged file may have none. */
static void read_codes(struct leat_source *source, size_t field)
{
    struct leat_source_codes c;
    uint64_t texts = 0;
    int rc = source->v->codes(source, field, &c, NULL);
    FUZZ_ASSERT(rc == LEAT_OK || rc == LEAT_E_CORRUPT || rc == LEAT_E_NOMEM);
    if (rc || !c.memory)
        return;
    FUZZ_ASSERT(c.n >= 1 && c.n <= 65536 && (c.width == 1 || c.width == 2));
    for (uint32_t i = 0; i < c.n; i++)
        texts += leat_get_u32(c.lengths + 4 * (size_t)i);
    (void)leat_hash64(c.texts, (size_t)texts); /* all of them are there */
    for (uint64_t i = 0; i < source->count; i++)
        FUZZ_ASSERT((c.width == 1 ? c.codes[i] : leat_get_u16(c.codes + 2 * i)) < c.n);
    leat_free(c.memory);
}

static void read_all(struct leat_source *source, bool whole)
{
    struct leat_store_source *s = (struct leat_store_source *)source;
    struct leat_error error;
    size_t failed;
    _Alignas(64) uint8_t cold[LEAT_COLD_VALUE];
    for (size_t f = 0; f < source->n_fields; f++)
        FUZZ_ASSERT(leat_role_fits(&source->fields[f]));
    uint64_t count = source->count < 300 ? source->count : 300, n = s->file->size;
    for (size_t f = 0; f < source->n_fields; f++) {
        const void *column;
        bool varying = s->layout.info[f].varying;
        read_codes(source, f);
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
            if (varying)
                read_piece(s, sample, &e, whole);
            if (s->layout.fields[f].kind == LEAT_KIND_IMAGE)
                read_photo(s, &e, whole);
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
    test_backend = &fuzz_backend;
    fuzz_data = copy;
    fuzz_length = length - 1;
    int rc = leat_store_open("fuzz.leat", NULL, &source, &error);
    if (!rc) {
        rc = leat_store_verify(source, &options, 0, &error);
        FUZZ_ASSERT(rc == LEAT_OK || rc == LEAT_E_CORRUPT || rc == LEAT_E_NOMEM);
        read_all(source, rc == LEAT_OK);
        leat_source_close(source);
    } else {
        FUZZ_ASSERT(rc == LEAT_E_FORMAT || rc == LEAT_E_CORRUPT || rc == LEAT_E_UNFINISHED);
    }
    free(copy);
    return 0;
}
