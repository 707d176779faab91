#include "data/good_photos.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"

/* Places of the table, each for the last checksum that came there: 32 MiB, of which pages that are used count. */
#define PLACES_LOG2 21
/* The bound of all row indexes, which stay until the process ends: what `describe` gives is never freed. */
#define ROWS_BYTES (UINT64_C(32) << 20)

struct rows {
    uint64_t checksum;
    uint32_t length;
    uint8_t bytes[];
};

struct place {
    _Atomic uint64_t checksum; /* 0: none */
    _Atomic(struct rows *) rows;
};

static _Atomic(struct place *) table;
static _Atomic uint64_t rows_bytes;

static struct place *place_of(uint64_t checksum, bool make)
{
    struct place *places = atomic_load_explicit(&table, memory_order_acquire);
    if (!places && make) {
        struct place *fresh = leat_new_array((size_t)1 << PLACES_LOG2, sizeof *fresh);
        if (!fresh || atomic_compare_exchange_strong(&table, &places, fresh))
            places = fresh;
        else
            leat_free(fresh);
    }
    return places ? &places[checksum >> (64 - PLACES_LOG2)] : NULL;
}

void leat_good_photos_describe(uint64_t checksum, struct leat_value_info *info)
{
    const struct place *p = place_of(checksum, false);
    if (!p || !checksum || atomic_load_explicit(&p->checksum, memory_order_relaxed) != checksum)
        return;
    info->health = LEAT_HEALTH_GOOD;
    const struct rows *rows = atomic_load_explicit(&p->rows, memory_order_acquire);
    if (rows && rows->checksum == checksum) {
        info->rows = rows->bytes;
        info->rows_length = rows->length;
    }
}

static void add_rows(struct place *p, uint64_t checksum, const uint8_t *bytes, size_t length)
{
    struct rows *none = NULL, *rows;
    const uint64_t all = sizeof *rows + length;
    if (atomic_load_explicit(&p->rows, memory_order_relaxed) || length > UINT32_MAX)
        return;
    if (atomic_fetch_add(&rows_bytes, all) + all <= ROWS_BYTES && (rows = leat_alloc((size_t)all))) {
        *rows = (struct rows){.checksum = checksum, .length = (uint32_t)length};
        memcpy(rows->bytes, bytes, length);
        if (atomic_compare_exchange_strong(&p->rows, &none, rows))
            return;
        leat_free(rows);
    }
    atomic_fetch_sub(&rows_bytes, all);
}

void leat_good_photos_add(uint64_t checksum, const uint8_t *rows, size_t length)
{
    struct place *p = place_of(checksum, true);
    if (!p)
        return;
    if (length)
        add_rows(p, checksum, rows, length);
    atomic_store_explicit(&p->checksum, checksum, memory_order_relaxed);
}
