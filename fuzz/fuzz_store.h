/*
 * The common part of the targets of leat's own file. Checksums would turn away nearly every mutation, so that only the
 * checksums were tested: `fuzz_repair` makes them right again, from the header down to the pages, as far as the numbers
 * that lead to them stay inside the bytes.
 */
#ifndef LEAT_FUZZ_STORE_H
#define LEAT_FUZZ_STORE_H

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "store/check.h"
#include "store/layout.h"
#include "store/reader.h"

#define FUZZ_ASSERT(condition)                                                                                         \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            __builtin_trap();                                                                                          \
    } while (0)

/* The file that leat_io_open gives, whatever the path. */
static const uint8_t *fuzz_data;
static size_t fuzz_length;

static int fuzz_open(const struct leat_io_backend *backend, const char *path, struct leat_io_file **out,
                     struct leat_error *error)
{
    (void)backend;
    return leat_io_from_memory(path, fuzz_data, fuzz_length, out, error);
}

static const struct leat_io_backend fuzz_backend = {.name = "fuzz", .open = fuzz_open};

static inline bool fuzz_inside(uint64_t at, uint64_t length, uint64_t n)
{
    return at <= n && length <= n - at;
}

/* Pages, directory and header of the group at `at`; gives the checksum of its directory. */
static inline uint64_t fuzz_repair_group(uint8_t *p, uint64_t n, uint64_t at, const struct leat_store_layout *l)
{
    struct leat_store_group g;
    struct leat_store_shape shape;
    if (!fuzz_inside(at, LEAT_STORE_GROUP_HEADER, n))
        return 0;
    leat_store_group_get(p + at, &g);
    if (!leat_store_group_shape(l, g.n_rows, g.payload_bytes, g.directory_bytes, &shape) ||
        !fuzz_inside(at, shape.bytes, n))
        return 0;
    uint8_t *sum = p + at + shape.directory_at + LEAT_STORE_GROUP_FACTS;
    for (uint32_t c = 0; c < l->n_stored; c++) {
        const struct leat_store_field *info = &l->info[l->order[c]];
        const uint8_t *column = p + at + shape.columns_at + info->before * g.n_rows;
        uint64_t page = UINT64_C(1) << info->page_shift;
        for (uint64_t row = 0; row < g.n_rows; row += page, sum += 8)
            leat_put_u64(sum, leat_hash64(column + row * info->width,
                                          (page < g.n_rows - row ? page : g.n_rows - row) * info->width));
    }
    g.directory_checksum = leat_hash64(p + at + shape.directory_at, g.directory_bytes);
    leat_store_group_put(p + at, &g);
    return g.directory_checksum;
}

/* The section of page checksums at `at`, by the group index at `groups`. */
static inline void fuzz_repair_pages(uint8_t *p, uint64_t n, const struct leat_store_section *s, uint64_t groups,
                                     uint64_t n_groups)
{
    const uint64_t index = 8 + 16 * n_groups, shift = s->length >= 16 ? leat_get_u64(p + s->offset + 8) : 0;
    if (n_groups > n || s->length < 8 + index || shift < 6 || shift > 30)
        return;
    const uint64_t sums = s->offset + 8 + index, n_sums = (s->length - 8 - index) / 8;
    for (uint64_t g = 0; g < n_groups; g++) {
        uint8_t *entry = p + s->offset + 16 + 16 * g;
        uint64_t at = leat_get_u64(p + groups + g * LEAT_STORE_GROUP_ENTRY), before = leat_get_u64(entry),
                 bytes = leat_get_u64(p + groups + g * LEAT_STORE_GROUP_ENTRY + 24),
                 end = g + 1 < n_groups ? leat_get_u64(entry + 16) : n_sums;
        if (at > n || !fuzz_inside(at + LEAT_STORE_GROUP_HEADER, bytes, n) || before > end || end > n_sums ||
            end - before != leat_store_pages(bytes, (unsigned)shift))
            continue;
        for (uint64_t k = before; k < end; k++)
            leat_put_u64(p + sums + 8 * k, leat_store_page_checksum(p + at, bytes, (unsigned)shift, k - before));
        leat_put_u64(entry + 8, leat_hash64(p + sums + 8 * before, 8 * (end - before)));
    }
    leat_put_u64(p + s->offset, leat_hash64(p + s->offset + 8, index));
}

static inline void fuzz_repair(uint8_t *p, uint64_t n)
{
    struct leat_store_layout l;
    struct leat_store_identity id;
    uint64_t bytes;
    if (n < LEAT_STORE_HEADER_FIXED + LEAT_STORE_FOOTER || leat_store_header_length(p, &bytes, NULL) || bytes > n)
        return;
    leat_put_u64(p + bytes - 8, leat_hash64(p, bytes - 8));
    uint8_t *footer = p + n - LEAT_STORE_FOOTER;
    uint64_t at = leat_get_u64(footer + 16), length = leat_get_u64(footer + 24);
    if (fuzz_inside(at, length, n)) {
        bool known = !leat_store_header_get(p, bytes, &l, &id, NULL);
        uint64_t groups = 0, n_groups = 0;
        for (uint64_t e = at; e + LEAT_STORE_SECTION_ENTRY <= at + length; e += LEAT_STORE_SECTION_ENTRY) {
            struct leat_store_section s;
            leat_store_section_get(p + e, &s);
            if (!fuzz_inside(s.offset, s.length, n))
                continue;
            for (uint64_t g = s.offset;
                 known && s.type == LEAT_SECTION_GROUPS && g + LEAT_STORE_GROUP_ENTRY <= s.offset + s.length;
                 g += LEAT_STORE_GROUP_ENTRY) {
                uint64_t sum = fuzz_repair_group(p, n, leat_get_u64(p + g), &l);
                if (sum)
                    leat_put_u64(p + g + 40, sum);
            }
            if (known && s.type == LEAT_SECTION_GROUPS) {
                groups = s.offset;
                n_groups = s.length / LEAT_STORE_GROUP_ENTRY;
            }
            if (known && s.type == LEAT_SECTION_PAGES)
                fuzz_repair_pages(p, n, &s, groups, n_groups);
            leat_put_u64(p + e + 24, leat_hash64(p + s.offset, s.length));
        }
        if (known)
            leat_store_layout_destroy(&l);
        leat_put_u64(footer + 32, leat_hash64(p + at, length));
    }
    leat_put_u64(footer + 48, leat_get_u64(p + bytes - 8));
    leat_put_u64(footer + 56, leat_hash64(footer, 56));
}

#endif
