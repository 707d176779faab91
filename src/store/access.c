/*
 * Values of an opened file: pointers into columns, extents of payloads. `rows` is the hot path of small records: some
 * thousands of samples a call, in any order. Per sample it looks up the group, tests one bit (is this page verified?)
 * and adds. All else is in functions that are called once per page.
 *
 * Columns are mapped memory, which is read here only inside leat_guarded.
 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/search.h"
#include "io/guard.h"
#include "store/reader.h"

static inline bool bit_get(const struct leat_bits *bits, uint64_t i)
{
    return atomic_load_explicit(&bits->words[i >> 6], memory_order_relaxed) >> (i & 63) & 1;
}

static inline void bit_clear(const struct leat_bits *bits, uint64_t i)
{
    atomic_fetch_and_explicit(&bits->words[i >> 6], ~(UINT64_C(1) << (i & 63)), memory_order_relaxed);
}

/* Relaxed: a bit says that immutable bytes were seen to be good, which needs no ordering. */
static inline void bit_set(struct leat_bits *bits, uint64_t i)
{
    atomic_fetch_or_explicit(&bits->words[i >> 6], UINT64_C(1) << (i & 63), memory_order_relaxed);
}

/* The group of a row: between two hints, the last one that begins at or before it. */
static inline uint64_t group_of(const struct leat_store_source *s, uint64_t row)
{
    const uint64_t low = s->hints[row >> s->hint_shift], high = s->hints[(row >> s->hint_shift) + 1];
    return LEAT_BISECT(i, low + 1, high + 1, s->first_rows[i] <= row) - 1;
}

/* The place of a row of a column in the file. */
static inline uint64_t value_at(const struct leat_store_source *s, uint64_t group, const struct leat_store_field *info,
                                uint64_t row)
{
    return s->columns_at[group] + info->before * s->groups[group].n_rows + row * info->width;
}

/* ---- verifying pages ------------------------------------------------------------------------- */

/* Pages are read with pread into a buffer on the stack, not through the mapping. Then a page that is not in memory
 * takes one request instead of one fault per 4 KiB. And touching a mapping can make the kernel map two megabytes around
 * it, which count as this process's memory. Only a value larger than a page is hashed in place. */
#define SCRATCH LEAT_STORE_PAGE_BYTES

/* The checksum of [at, at + length); bytes that fit are left in `scratch`. */
static int checksum_of(const struct leat_store_source *s, uint64_t at, uint64_t length, uint8_t *scratch,
                       uint64_t *checksum, struct leat_error *error)
{
    if (length > SCRATCH && s->map)
        return leat_guarded_hash(s->map + at, length, checksum, error);
    if (length > SCRATCH) {
        uint8_t *bytes = leat_alloc((size_t)length);
        int rc = bytes ? leat_io_read_past_mapping(s->pages, at, length, bytes, error)
                       : leat_fail(error, LEAT_E_NOMEM, "no memory for %" PRIu64 " bytes", length);
        *checksum = rc ? 0 : leat_hash64(bytes, length);
        leat_free(bytes);
        return rc;
    }
    int rc = leat_io_read_past_mapping(s->pages, at, length, scratch, error);
    *checksum = rc ? 0 : leat_hash64(scratch, length);
    return rc;
}

static int page_failed(const struct leat_store_source *s, int rc, const char *what, uint64_t offset, uint64_t length,
                       struct leat_error *error)
{
    if (rc)
        return rc; /* of reading, which says where */
    leat_io_forget(s->pages, offset, length);
    return leat_fail_at(error, LEAT_E_CORRUPT, s->path, (int64_t)offset,
                        "%s fails its checksum: restore the file, or pack it again", what);
}

/* Verifies header and directory of a group, which hold the checksums of its pages. */
static int verify_group(struct leat_store_source *s, uint64_t group, const struct leat_store_group *want,
                        const struct leat_store_shape *shape, uint8_t *scratch, struct leat_error *error)
{
    struct leat_store_group header;
    uint64_t at = s->groups[group].offset, checksum;
    int rc = leat_io_read_past_mapping(s->pages, at, LEAT_STORE_GROUP_HEADER, scratch, error);
    if (rc || !leat_store_group_get(scratch, &header) || header.first_row != want->first_row ||
        header.n_rows != want->n_rows || header.payload_bytes != want->payload_bytes ||
        header.directory_bytes != want->directory_bytes || header.directory_checksum != want->directory_checksum)
        return page_failed(s, rc, "the header of a group", at, LEAT_STORE_GROUP_HEADER, error);
    at += shape->directory_at;
    rc = checksum_of(s, at, want->directory_bytes, scratch, &checksum, error);
    if (rc || checksum != want->directory_checksum)
        return page_failed(s, rc, "the directory of a group", at, want->directory_bytes, error);
    bit_set(&s->groups_good, group);
    return LEAT_OK;
}

/* The checksum of a page as the directory of its group has it, at *entry of the file. */
static int page_checksum(struct leat_store_source *s, uint32_t field, uint64_t group, uint64_t page, uint8_t *scratch,
                         uint64_t *entry, uint64_t *checksum, struct leat_error *error)
{
    struct leat_store_group want;
    struct leat_store_shape shape;
    uint8_t expected[8];
    leat_store_group_of(s, group, &want, &shape);
    int rc = bit_get(&s->groups_good, group) ? LEAT_OK : verify_group(s, group, &want, &shape, scratch, error);
    uint64_t in_group = leat_store_group_pages(&s->layout, want.n_rows, s->layout.info[field].position) + page;
    *entry = s->groups[group].offset + shape.directory_at + LEAT_STORE_GROUP_FACTS + 8 * in_group;
    rc = rc ? rc : leat_io_read_past_mapping(s->pages, *entry, 8, expected, error);
    *checksum = rc ? 0 : leat_get_u64(expected);
    return rc;
}

/* Verifies one page; `number` is its bit. Its bytes are left in `scratch` if they fit. */
static int verify_page(struct leat_store_source *s, uint32_t field, uint64_t group, uint64_t page, uint64_t number,
                       uint8_t *scratch, struct leat_error *error)
{
    const struct leat_store_field *info = &s->layout.info[field];
    const uint64_t row = page << info->page_shift, page_rows = UINT64_C(1) << info->page_shift,
                   left = s->groups[group].n_rows - row, bytes = (page_rows < left ? page_rows : left) * info->width,
                   at = value_at(s, group, info, row);
    uint64_t entry, expected, checksum;
    int rc = page_checksum(s, field, group, page, scratch, &entry, &expected, error);
    if (!rc) {
        rc = checksum_of(s, at, bytes, scratch, &checksum, error);
        if (rc || checksum != expected) {
            rc = page_failed(s, rc, "a page of the column", at, bytes, error);
            leat_io_forget(s->pages, entry, 8); /* it may have been read again since the directory was verified */
        } else {
            bit_set(&s->pages_good[field], number);
        }
    }
    if (rc)
        leat_error_at_sample(error, LEAT_NO_SAMPLE, s->layout.names[field]);
    return rc;
}

/* As verify_page, for callers that do not want the bytes. It is a function so that only it has the buffer on its
 * stack. */
static __attribute__((noinline)) int verify_only(struct leat_store_source *s, uint32_t field, uint64_t group,
                                                 uint64_t page, uint64_t number, struct leat_error *error)
{
    uint8_t scratch[SCRATCH];
    return verify_page(s, field, group, page, number, scratch, error);
}

static int out_of_range(const struct leat_store_source *s, uint64_t sample, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_RANGE, "sample %" PRIu64 " does not exist: the file has %" PRIu64, sample,
                     s->base.count);
}

static int wrong_field(const struct leat_store_source *s, size_t field, const char *kind, struct leat_error *error)
{
    if (field >= s->layout.n_fields)
        return leat_fail(error, LEAT_E_INVALID, "field %zu does not exist: the file has %u", field, s->layout.n_fields);
    return leat_fail(error, LEAT_E_INVALID, "field '%s' does not have a %s size", s->layout.names[field], kind);
}

/* ---- cold files ------------------------------------------------------------------------------ */

/* The first touches of a mapping are expensive: a fault maps the neighbours in the page cache, 64 KiB or a huge page,
 * and all of that counts as memory of this process. One shuffled batch of small values out of ten million touches the
 * whole column. So the first values of a large file (reader.c says how many) are read with pread, which costs about as
 * much as a fault. A process that reads a good part of the file soon uses the mapping. */
static bool is_cold(struct leat_store_source *s, size_t n)
{
    uint64_t left = atomic_load_explicit(&s->cold_values, memory_order_relaxed);
    if (!s->map)
        return true;
    if (left)
        atomic_store_explicit(&s->cold_values, left > n ? left - n : 0,
                              memory_order_relaxed); /* a lost update is harmless */
    return left != 0;
}

/* Rows of a cold file: values are taken from the page that was just verified, or read one by one. */
static __attribute__((noinline)) int cold_rows(struct leat_store_source *s, size_t field, const uint64_t *samples,
                                               size_t n, uint8_t *cold, const void **rows, size_t *failed,
                                               struct leat_error *error)
{
    const struct leat_store_field info = s->layout.info[field];
    uint8_t scratch[SCRATCH];
    uint64_t last = UINT64_MAX; /* the page in scratch */
    for (size_t i = 0; i < n; i++, cold += info.unit) {
        *failed = i;
        if (samples[i] >= s->base.count)
            return out_of_range(s, samples[i], error);
        uint64_t g = group_of(s, samples[i]), first = s->first_rows[g], row = samples[i] - first;
        uint64_t page = row >> info.page_shift, number = (first >> info.page_shift) + g + page;
        int rc = LEAT_OK;
        if (number != last && s->recheck != LEAT_RECHECK_NEVER && !bit_get(&s->pages_good[info.column], number)) {
            rc = verify_page(s, info.column, g, page, number, scratch, error);
            last = number;
        }
        if (!rc && number == last) {
            memcpy(cold, scratch + (row - (page << info.page_shift)) * info.width + info.at, info.unit);
        } else if (!rc) {
            rc = leat_io_read_past_mapping(s->pages, value_at(s, g, &info, row) + info.at, info.unit, cold, error);
            if (rc)
                leat_error_at_sample(error, LEAT_NO_SAMPLE, s->layout.names[field]);
        }
        if (rc)
            return rc;
        rows[i] = cold;
    }
    return LEAT_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

int leat_store_rows(struct leat_source *source, size_t field, const uint64_t *samples, size_t n, void *cold,
                    const void **rows, size_t *failed, struct leat_error *error)
{
    struct leat_store_source *s = (struct leat_store_source *)source;
    *failed = 0;
    if (field >= s->layout.n_fields || s->layout.info[field].varying)
        return wrong_field(s, field, "fixed", error);
    const struct leat_store_field info = s->layout.info[field];
    if (cold && info.unit <= LEAT_COLD_VALUE && is_cold(s, n))
        return cold_rows(s, field, samples, n, cold, rows, failed, error);
    const struct leat_bits *good = &s->pages_good[info.column];
    const bool never = s->recheck == LEAT_RECHECK_NEVER;
    for (size_t i = 0; i < n; i++) {
        uint64_t sample = samples[i];
        if (sample >= s->base.count) {
            *failed = i;
            return out_of_range(s, sample, error);
        }
        uint64_t g = group_of(s, sample), first = s->first_rows[g], row = sample - first;
        uint64_t page = row >> info.page_shift, number = (first >> info.page_shift) + g + page;
        if (!never && !bit_get(good, number)) {
            int rc = verify_only(s, info.column, g, page, number, error);
            if (rc) {
                *failed = i;
                return rc;
            }
        }
        rows[i] = s->map + value_at(s, g, &info, row) + info.at;
    }
    return LEAT_OK;
}

int leat_store_column(struct leat_source *source, size_t field, const void **data, struct leat_error *error)
{
    struct leat_store_source *s = (struct leat_store_source *)source;
    *data = NULL;
    if (field >= s->layout.n_fields || s->layout.info[field].varying)
        return wrong_field(s, field, "fixed", error);
    const struct leat_store_field *info = &s->layout.info[field];
    if (!s->map || s->n_groups != 1 || s->base.count == 0 || info->width != info->unit)
        return LEAT_OK;
    for (uint64_t page = 0; page < leat_store_pages(s->base.count, info->page_shift); page++) {
        if (s->recheck == LEAT_RECHECK_NEVER || bit_get(&s->pages_good[info->column], page))
            continue;
        int rc = verify_only(s, info->column, 0, page, page, error);
        if (rc)
            return rc;
    }
    *data = s->map + s->columns_at[0] + info->before * s->base.count;
    return LEAT_OK;
}

int leat_store_span(struct leat_source *source, size_t field, uint64_t sample, uint64_t n, const void **data,
                    uint64_t *got, struct leat_error *error)
{
    struct leat_store_source *s = (struct leat_store_source *)source;
    *got = 0;
    if (field >= s->layout.n_fields || s->layout.info[field].varying)
        return wrong_field(s, field, "fixed", error);
    if (sample >= s->base.count)
        return out_of_range(s, sample, error);
    const struct leat_store_field *info = &s->layout.info[field];
    if (!s->map || info->width != info->unit)
        return LEAT_OK;
    const uint64_t g = group_of(s, sample), first = s->first_rows[g], row = sample - first;
    const uint64_t left = s->groups[g].n_rows - row, rows = n < left ? n : left;
    for (uint64_t page = row >> info->page_shift; page <= (row + rows - 1) >> info->page_shift; page++) {
        const uint64_t number = (first >> info->page_shift) + g + page;
        if (s->recheck == LEAT_RECHECK_NEVER || bit_get(&s->pages_good[info->column], number))
            continue;
        int rc = verify_only(s, info->column, g, page, number, error);
        if (rc)
            return rc;
    }
    *data = s->map + value_at(s, g, info, row);
    *got = rows;
    return LEAT_OK;
}

/* ---- extents --------------------------------------------------------------------------------- */

struct record_read {
    const struct leat_store_source *s;
    size_t field, n;
    const uint64_t *samples;
    struct leat_extent *extents;
    volatile size_t i; /* how far it got, also when a read faults */
};

/* For a file whose blocks are all kept, values from this length on are read apart from them, straight to their
 * place. */
#define LONG_VALUE (UINT64_C(256) << 10)

static uint64_t file_for(const struct leat_store_source *s, uint64_t length)
{
    return s->kept && length < LONG_VALUE ? LEAT_STORE_PAGES : LEAT_STORE_FILE;
}

/* A record that passed its checksum is still bounded by its group: the file may have been made by anyone. */
static bool place(const struct leat_store_source *s, uint64_t g, const struct leat_store_field *info,
                  const struct leat_store_record *r, struct leat_extent *e)
{
    uint64_t payload = s->groups[g].payload_bytes;
    if (r->offset < LEAT_STORE_GROUP_HEADER || r->offset - LEAT_STORE_GROUP_HEADER > payload ||
        !leat_store_record_fits(&s->layout, info, r, payload - (r->offset - LEAT_STORE_GROUP_HEADER)))
        return false;
    *e = (struct leat_extent){.file = file_for(s, r->length),
                              .offset = s->groups[g].offset + r->offset,
                              .length = r->length,
                              .checksum = r->checksum,
                              .info = r->info};
    return true;
}

/* The page of a sample in its column, and that page's checksum in the directory: they may have been read again, from
 * elsewhere, since they were verified. */
void leat_store_doubt(struct leat_source *source, size_t field, uint64_t sample)
{
    struct leat_store_source *s = (struct leat_store_source *)source;
    const struct leat_store_field *info = &s->layout.info[field];
    struct leat_store_group of;
    struct leat_store_shape shape;
    if (sample >= s->base.count)
        return;
    const uint64_t g = group_of(s, sample), first = s->first_rows[g], page = (sample - first) >> info->page_shift;
    leat_store_group_of(s, g, &of, &shape);
    bit_clear(&s->groups_good, g);
    bit_clear(&s->pages_good[info->column], (first >> info->page_shift) + g + page);
    leat_io_forget(s->pages, s->groups[g].offset, LEAT_STORE_GROUP_HEADER);
    leat_io_forget(s->pages, s->groups[g].offset + shape.directory_at, of.directory_bytes);
    leat_io_forget(s->pages, value_at(s, g, info, page << info->page_shift), info->width << info->page_shift);
}

static int bad_record(struct leat_store_source *s, size_t field, uint64_t at, uint64_t sample, struct leat_error *error)
{
    leat_store_doubt(&s->base, field, sample);
    leat_fail(error, LEAT_E_CORRUPT, "the index of a value points outside its group: pack the file again");
    leat_error_at_file(error, s->path, (int64_t)at);
    leat_error_at_sample(error, LEAT_NO_SAMPLE, s->layout.names[field]);
    return LEAT_E_CORRUPT;
}

/* Verifies the pages that were not verified yet, and takes from each the record that led to it. In a cold file it reads
 * all records. Sets `verify` in the extents that it fills. */
static __attribute__((noinline)) int verify_records(struct leat_store_source *s, size_t field, const uint64_t *samples,
                                                    size_t n, struct leat_extent *extents, size_t *failed,
                                                    struct leat_error *error)
{
    const struct leat_store_field info = s->layout.info[field];
    const bool encoded = s->layout.info[field].codec;
    const bool cold = is_cold(s, n);
    uint8_t scratch[SCRATCH], one[LEAT_STORE_CODEC_RECORD];
    uint64_t last = UINT64_MAX; /* the page in scratch */
    for (size_t i = 0; i < n; i++) {
        *failed = i;
        if (samples[i] >= s->base.count)
            return out_of_range(s, samples[i], error);
        uint64_t g = group_of(s, samples[i]), first = s->first_rows[g], row = samples[i] - first;
        uint64_t page = row >> info.page_shift, number = (first >> info.page_shift) + g + page;
        int rc = LEAT_OK;
        if (number != last && s->recheck != LEAT_RECHECK_NEVER && !bit_get(&s->pages_good[field], number)) {
            rc = verify_page(s, (uint32_t)field, g, page, number, scratch, error);
            last = number;
        } else if (number != last && cold) {
            rc = leat_io_read_past_mapping(s->pages, value_at(s, g, &info, row), info.width, one, error);
        }
        if (rc)
            return rc;
        extents[i].verify = number == last || cold;
        if (!extents[i].verify)
            continue;
        struct leat_store_record r;
        leat_store_record_get(number == last ? scratch + (row - (page << info.page_shift)) * info.width : one, &r,
                              encoded);
        if (!place(s, g, &info, &r, &extents[i]))
            return bad_record(s, field, value_at(s, g, &info, row), samples[i], error);
        extents[i].verify = true;
    }
    return LEAT_OK;
}

/* Records of samples in any order are cache misses, which overlap if later ones are requested early. */
#define RECORDS_AHEAD 8

/* The records of verified pages, if they are mapped. Runs inside leat_guarded. */
static int read_records(void *arg)
{
    struct record_read *x = arg;
    const struct leat_store_source *s = x->s;
    const struct leat_store_field info = s->layout.info[x->field];
    const bool encoded = s->layout.info[x->field].codec;
    for (size_t i = 0; i < x->n; i++) {
        if (i + RECORDS_AHEAD < x->n) {
            uint64_t later = x->samples[i + RECORDS_AHEAD], in = group_of(s, later);
            __builtin_prefetch(s->map + value_at(s, in, &info, later - s->first_rows[in]));
        }
        if (x->extents[i].verify)
            continue;
        x->i = i;
        uint64_t g = group_of(s, x->samples[i]);
        struct leat_store_record r;
        leat_store_record_get(s->map + value_at(s, g, &info, x->samples[i] - s->first_rows[g]), &r, encoded);
        if (!place(s, g, &info, &r, &x->extents[i]))
            return LEAT_E_CORRUPT;
    }
    return LEAT_OK;
}

/* Columns up to this size are read in blocks that are cached, longer ones value by value. */
#define KEPT_COLUMN (UINT64_C(8) << 20)

/* Values of fixed size in a file that cannot be mapped. Those as long as a page have its checksum. Shorter ones in a
 * long column are read without one, which would need the whole page. */
static int fixed_extents(struct leat_store_source *s, size_t field, const uint64_t *samples, size_t n,
                         struct leat_extent *extents, size_t *failed, struct leat_error *error)
{
    const struct leat_store_field info = s->layout.info[field];
    const bool kept = info.width * s->base.count <= KEPT_COLUMN, never = s->recheck == LEAT_RECHECK_NEVER;
    const struct leat_bits *good = &s->pages_good[info.column];
    uint8_t scratch[SCRATCH];
    uint64_t last = UINT64_MAX, entry;
    for (size_t i = 0; i < n; i++) {
        *failed = i;
        if (samples[i] >= s->base.count)
            return out_of_range(s, samples[i], error);
        uint64_t g = group_of(s, samples[i]), first = s->first_rows[g], row = samples[i] - first;
        uint64_t page = row >> info.page_shift, number = (first >> info.page_shift) + g + page;
        int rc = LEAT_OK;
        extents[i] = (struct leat_extent){.file = kept ? LEAT_STORE_PAGES : file_for(s, info.unit),
                                          .offset = value_at(s, g, &info, row) + info.at,
                                          .length = info.unit};
        if (kept && !never && number != last && !bit_get(good, number)) {
            rc = verify_only(s, info.column, g, page, number, error);
            last = number;
        } else if (!kept && !never && !info.page_shift && info.unit == info.width) {
            rc = page_checksum(s, info.column, g, page, scratch, &entry, &extents[i].checksum, error);
            extents[i].verify = !rc;
        }
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

int leat_store_extents(struct leat_source *source, size_t field, const uint64_t *samples, size_t n,
                       struct leat_extent *extents, size_t *failed, struct leat_error *error)
{
    struct leat_store_source *s = (struct leat_store_source *)source;
    *failed = 0;
    if (!s->map && field < s->layout.n_fields && !s->layout.info[field].varying)
        return fixed_extents(s, field, samples, n, extents, failed, error);
    if (field >= s->layout.n_stored || !s->layout.info[field].varying)
        return wrong_field(s, field, "varying", error);
    int rc = verify_records(s, field, samples, n, extents, failed, error);
    if (rc)
        return rc;
    struct record_read x = {.s = s, .field = field, .n = n, .samples = samples, .extents = extents};
    rc = s->map ? leat_guarded(read_records, &x, error) : LEAT_OK; /* else all records were read */
    if (rc) {
        *failed = x.i;
        uint64_t g = group_of(s, samples[x.i]);
        if (rc == LEAT_E_CORRUPT)
            return bad_record(s, field, value_at(s, g, &s->layout.info[field], samples[x.i] - s->first_rows[g]),
                              samples[x.i], error);
        leat_error_at_sample(error, LEAT_NO_SAMPLE, s->layout.names[field]);
        return rc;
    }
    const struct leat_bits *read = atomic_load_explicit(&s->payloads_good[field], memory_order_acquire);
    const struct leat_bits *fine = atomic_load_explicit(&s->learnt[0][field], memory_order_acquire);
    const struct leat_bits *broken = atomic_load_explicit(&s->learnt[1][field], memory_order_acquire);
    for (size_t i = 0; i < n; i++) {
        extents[i].verify = s->recheck == LEAT_RECHECK_ALWAYS ||
                            (s->recheck == LEAT_RECHECK_FIRST && !(read && bit_get(read, samples[i])));
        extents[i].info.unverified = s->recheck == LEAT_RECHECK_NEVER;
        if (fine && bit_get(fine, samples[i]))
            extents[i].info.health = LEAT_HEALTH_GOOD;
        if (broken && bit_get(broken, samples[i]))
            extents[i].info.health = LEAT_HEALTH_BROKEN;
    }
    return LEAT_OK;
}

/* ---- pieces ---------------------------------------------------------------------------------------- */

/* Verifies the page checksums of a group. */
static __attribute__((noinline)) int verify_table(struct leat_store_source *s, uint64_t group, struct leat_error *error)
{
    uint8_t scratch[SCRATCH];
    const uint64_t at = s->page_checksums_at + 8 * s->paged[group].before, n = 8 * leat_store_paged_count(s, group);
    uint64_t checksum;
    int rc = checksum_of(s, at, n, scratch, &checksum, error);
    if (rc || checksum != s->paged[group].checksum)
        return page_failed(s, rc, "the list of page checksums of a group", at, n, error);
    bit_set(&s->tables_good, group);
    return LEAT_OK;
}

bool leat_store_piece(struct leat_source *source, uint64_t sample, struct leat_extent *extent, uint64_t begin,
                      uint64_t length)
{
    struct leat_store_source *s = (struct leat_store_source *)source;
    const uint64_t g = s->paged ? group_of(s, sample) : 0, page = UINT64_C(1) << s->paged_shift;
    struct leat_error unused;
    if (!leat_store_paged_count(s, g) ||
        (s->recheck != LEAT_RECHECK_NEVER && !bit_get(&s->tables_good, g) && verify_table(s, g, &unused)))
        return false; /* the checksum of the whole value is in its record */
    uint64_t payloads = s->groups[g].offset + LEAT_STORE_GROUP_HEADER, from = extent->offset + begin - payloads,
             end = leat_store_align(from + length, page);
    if (extent->offset < payloads || from + length > s->groups[g].payload_bytes)
        return false; /* a value of fixed size */
    end = end < s->groups[g].payload_bytes ? end : s->groups[g].payload_bytes;
    from &= ~(page - 1);
    *extent = (struct leat_extent){.file = file_for(s, 0), .offset = payloads + from, .length = end - from};
    return true;
}

/* Pages that are read in place are verified once, until the file changes; others as `recheck` says. */
int leat_store_check_piece(struct leat_source *source, uint64_t sample, const struct leat_extent *pages,
                           const uint8_t *data, bool mapped, struct leat_error *error)
{
    struct leat_store_source *s = (struct leat_store_source *)source;
    const uint64_t g = group_of(s, sample), page = UINT64_C(1) << s->paged_shift;
    const uint64_t first = (pages->offset - s->groups[g].offset - LEAT_STORE_GROUP_HEADER) >> s->paged_shift;
    const bool once = mapped || s->recheck == LEAT_RECHECK_FIRST;
    int rc = LEAT_OK;
    for (uint64_t done = 0; !rc && done < pages->length && s->recheck != LEAT_RECHECK_NEVER; done += page) {
        uint64_t number = s->paged[g].before + first + (done >> s->paged_shift), left = pages->length - done;
        if (once && bit_get(&s->payload_pages_good, number))
            continue;
        const uint64_t length = left < page ? left : page, entry = s->page_checksums_at + 8 * number;
        uint64_t checksum = 0;
        uint8_t expected[8];
        rc = bit_get(&s->tables_good, g) ? LEAT_OK : verify_table(s, g, error);
        if (!rc)
            rc = leat_io_read_past_mapping(s->pages, entry, 8, expected, error);
        if (!rc)
            rc = leat_guarded_hash(data + done, length, &checksum, error);
        if (!rc && checksum == leat_get_u64(expected)) {
            bit_set(&s->payload_pages_good, number);
        } else if (!rc) {
            rc = page_failed(s, rc, "a page of the value", pages->offset + done, length, error);
            leat_io_forget(s->pages, entry, 8); /* it may have been read again since the list was verified */
        }
    }
    return rc;
}

/* ---- lookups --------------------------------------------------------------------------------- */

/* Whole blocks, so that neighbours ask for the same. */
static size_t add_lookup(const struct leat_store_source *s, uint64_t at, uint64_t length, struct leat_extent *ranges,
                         size_t n)
{
    const uint64_t begin = at - at % s->block_bytes, size = s->pages->size;
    const uint64_t end = leat_store_align(at + length, s->block_bytes);
    ranges[n] =
        (struct leat_extent){.file = LEAT_STORE_PAGES, .offset = begin, .length = (end < size ? end : size) - begin};
    return n && ranges[n].offset == ranges[n - 1].offset && ranges[n].length == ranges[n - 1].length ? n : n + 1;
}

/* The reads of verify_records and fixed_extents for one sample. */
size_t leat_store_lookups(struct leat_source *source, size_t field, uint64_t sample, struct leat_extent *ranges)
{
    const struct leat_store_source *s = (const struct leat_store_source *)source;
    size_t n = 0;
    if (s->map || sample >= s->base.count || field >= s->layout.n_fields)
        return 0;
    const struct leat_store_field info = s->layout.info[field];
    const uint64_t g = group_of(s, sample), first = s->first_rows[g], row = sample - first;
    const uint64_t page = row >> info.page_shift, number = (first >> info.page_shift) + g + page;
    const bool kept = info.varying || info.width * s->base.count <= KEPT_COLUMN;
    const bool checks =
        kept ? !bit_get(&s->pages_good[info.column], number) : !info.page_shift && info.unit == info.width;
    if (checks && s->recheck != LEAT_RECHECK_NEVER) {
        struct leat_store_group want;
        struct leat_store_shape shape;
        leat_store_group_of(s, g, &want, &shape);
        const uint64_t at = s->groups[g].offset;
        if (!bit_get(&s->groups_good, g))
            n = add_lookup(s, at, LEAT_STORE_GROUP_HEADER, ranges, n);
        n = add_lookup(s, at + shape.directory_at, want.directory_bytes, ranges, n);
        const uint64_t begin = page << info.page_shift, rows = UINT64_C(1) << info.page_shift;
        if (kept)
            n = add_lookup(s, value_at(s, g, &info, begin),
                           (rows < want.n_rows - begin ? rows : want.n_rows - begin) * info.width, ranges, n);
    } else if (info.varying) {
        n = add_lookup(s, value_at(s, g, &info, row), info.width, ranges, n);
    }
    return n;
}

/* ---- files that change ----------------------------------------------------------------------------- */

static void clear_bits(struct leat_bits *bits)
{
    for (uint64_t i = 0; i <= bits->n >> 6; i++)
        atomic_store_explicit(&bits->words[i], 0, memory_order_relaxed);
}

/* Pages, and with LEAT_RECHECK_FIRST values, are verified once. So this asks the system whether the file has changed
 * since. */
int leat_store_refresh(struct leat_source *source, struct leat_error *error)
{
    struct leat_store_source *s = (struct leat_store_source *)source;
    uint64_t stamp, size;
    int rc = leat_io_stamp(s->file, &stamp, &size, error);
    if (rc || s->recheck == LEAT_RECHECK_NEVER || stamp == atomic_load(&s->stamp))
        return rc;
    clear_bits(&s->groups_good);
    clear_bits(&s->tables_good);
    clear_bits(&s->payload_pages_good);
    for (uint32_t f = 0; f < s->layout.n_stored; f++) {
        struct leat_bits *payloads = atomic_load_explicit(&s->payloads_good[f], memory_order_acquire);
        clear_bits(&s->pages_good[f]);
        if (payloads)
            clear_bits(payloads);
    }
    atomic_store(&s->stamp, stamp);
    atomic_fetch_add(&s->base.changes, 1);
    return LEAT_OK;
}

/* ---- marks ----------------------------------------------------------------------------------- */

/* The bitmap of a field, allocated at first use. Without memory nothing is cached, and values are verified again next
 * time. */
static struct leat_bits *lazy_bits(_Atomic(struct leat_bits *) *slot, uint64_t n)
{
    struct leat_bits *bits = atomic_load_explicit(slot, memory_order_acquire);
    if (bits)
        return bits;
    struct leat_bits *made = leat_new(struct leat_bits);
    if (!made)
        return NULL;
    made->n = n;
    made->words = leat_new_array((n >> 6) + 1, sizeof *made->words);
    if (made->words && atomic_compare_exchange_strong(slot, &bits, made))
        return made;
    leat_free((void *)made->words);
    leat_free(made);
    return bits;
}

static void remember(_Atomic(struct leat_bits *) *slot, uint64_t n, uint64_t sample)
{
    struct leat_bits *bits = lazy_bits(slot, n);
    if (bits && !bit_get(bits, sample))
        bit_set(bits, sample);
}

void leat_store_mark(struct leat_source *source, size_t field, uint64_t sample, bool verified, enum leat_health health)
{
    struct leat_store_source *s = (struct leat_store_source *)source;
    if (field >= s->layout.n_stored || !s->layout.info[field].varying || sample >= s->base.count)
        return;
    if (verified)
        remember(&s->payloads_good[field], s->base.count, sample);
    if (health == LEAT_HEALTH_GOOD)
        remember(&s->learnt[0][field], s->base.count, sample);
    if (health == LEAT_HEALTH_BROKEN)
        remember(&s->learnt[1][field], s->base.count, sample);
}
