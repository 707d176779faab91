/*
 * Packing the row index. A row costs a place (its distance from the row before, in bits) and the predictors (their
 * distances), each as a number of as few bytes as it needs: about seven bytes a row of a colour photo. If that is more
 * than the photo can afford, every second, third ... row is kept.
 */
#include "codec/jpeg/rows.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"

#define CHECKSUM_BYTES 4
#define MAX_VARINT 10

bool leat_jpeg_rows_reserve(struct leat_jpeg_rows *rows, uint32_t n)
{
    if (n <= rows->room)
        return true;
    struct leat_jpeg_row_start *row = leat_realloc_array(rows->row, n, sizeof *row);
    if (!row)
        return false;
    rows->row = row;
    rows->room = n;
    return true;
}

void leat_jpeg_rows_destroy(struct leat_jpeg_rows *rows)
{
    leat_free(rows->row);
    leat_free(rows->packed);
    *rows = (struct leat_jpeg_rows){0};
}

/* ---- numbers --------------------------------------------------------------------------------- */

static uint8_t *put(uint8_t *p, uint64_t v)
{
    for (; v > 127; v >>= 7)
        *p++ = (uint8_t)(v | 128);
    *p++ = (uint8_t)v;
    return p;
}

/* False: the bytes end, or the number is written with more bytes than it needs. */
static bool get(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
    *v = 0;
    for (unsigned shift = 0; shift < 63 && *p < end; shift += 7) {
        const uint8_t byte = *(*p)++;
        *v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return byte || !shift;
    }
    return false;
}

/* 0, -1, 1, -2 ... as 0, 1, 2, 3 ... */
static uint64_t fold(int32_t v)
{
    return v < 0 ? 2 * (uint64_t) - (int64_t)v - 1 : 2 * (uint64_t)v;
}

static int64_t unfold(uint64_t v)
{
    return v & 1 ? -(int64_t)(v >> 1) - 1 : (int64_t)(v >> 1);
}

static void put_checksum(uint8_t *packed, size_t length)
{
    const uint64_t sum = leat_hash64(packed + CHECKSUM_BYTES, length - CHECKSUM_BYTES);
    for (unsigned i = 0; i < CHECKSUM_BYTES; i++)
        packed[i] = (uint8_t)(sum >> (8 * i));
}

static bool checksum_holds(const uint8_t *packed, size_t length)
{
    const uint64_t sum = leat_hash64(packed + CHECKSUM_BYTES, length - CHECKSUM_BYTES);
    for (unsigned i = 0; i < CHECKSUM_BYTES; i++)
        if (packed[i] != (uint8_t)(sum >> (8 * i)))
            return false;
    return true;
}

bool leat_jpeg_rows_whole(const uint8_t *packed, size_t length)
{
    return length > CHECKSUM_BYTES && checksum_holds(packed, length);
}

/* ---- packing --------------------------------------------------------------------------------- */

/* With the distances between every `every`-th of the rows given. */
static size_t pack_every(const struct leat_jpeg_rows *rows, unsigned n_components, uint32_t every, uint8_t *out)
{
    uint8_t *p = out + CHECKSUM_BYTES;
    p = put(p, (uint64_t)every * rows->every);
    p = put(p, rows->row[0].restart);
    for (uint32_t i = every; i < rows->n; i += every) {
        const struct leat_jpeg_row_start *a = &rows->row[i - every], *b = &rows->row[i];
        p = put(p, b->bit - a->bit);
        for (unsigned c = 0; c < n_components; c++)
            p = put(p, fold((int32_t)b->dc[c] - a->dc[c]));
    }
    put_checksum(out, (size_t)(p - out));
    return (size_t)(p - out);
}

int leat_jpeg_rows_pack(struct leat_jpeg_rows *rows, const struct leat_jpeg_frame *frame, uint64_t photo_bytes,
                        uint8_t **packed, size_t *length)
{
    *packed = NULL;
    *length = 0;
    if (rows->n < 2)
        return LEAT_OK;
    const size_t room = CHECKSUM_BYTES + MAX_VARINT * (2 + (size_t)rows->n * (1u + frame->n_components));
    const uint64_t most = photo_bytes / 100;
    if (rows->packed_room < room) {
        leat_free(rows->packed);
        rows->packed = leat_alloc(room);
        rows->packed_room = rows->packed ? room : 0;
        if (!rows->packed)
            return LEAT_E_NOMEM;
    }
    for (uint64_t every = 1; every < rows->n;) {
        const size_t bytes = pack_every(rows, frame->n_components, (uint32_t)every, rows->packed);
        if (bytes <= most) {
            *packed = rows->packed;
            *length = bytes;
            return LEAT_OK;
        }
        const uint64_t next = most ? every * bytes / most : rows->n; /* about so few rows fit */
        every = next > every ? next : every + 1;
    }
    return LEAT_OK;
}

/* ---- unpacking ------------------------------------------------------------------------------- */

/* The state before MCU m: the number of MCUs left to the next marker, if there is one every `interval`. */
static uint32_t left_to_restart(uint64_t m, uint32_t interval)
{
    return interval ? interval - (uint32_t)(m % interval) : 0;
}

bool leat_jpeg_rows_unpack(struct leat_jpeg_rows *rows, const struct leat_jpeg_frame *frame, const uint8_t *packed,
                           size_t length, uint64_t scan_bytes)
{
    uint64_t every, interval;
    const uint8_t *p = packed + CHECKSUM_BYTES, *end = packed + length;
    rows->n = 0;
    if (!leat_jpeg_rows_whole(packed, length) || !get(&p, end, &every) || !get(&p, end, &interval) || !every ||
        every >= frame->mcus_h || interval > UINT16_MAX)
        return false;
    const uint32_t n = (uint32_t)((frame->mcus_h + every - 1) / every);
    if ((size_t)(end - p) < (n - 1) * (size_t)(1 + frame->n_components)) /* before memory is spent on it */
        return false;
    if (!leat_jpeg_rows_reserve(rows, n))
        return false;
    struct leat_jpeg_row_start at = {.restart = left_to_restart(0, (uint32_t)interval)};
    rows->row[0] = at;
    for (uint32_t i = 1; i < n; i++) {
        uint64_t step;
        if (!get(&p, end, &step) || !step || step >= scan_bytes * 8 - at.bit)
            return false;
        at.bit += step;
        for (unsigned c = 0; c < frame->n_components; c++) {
            uint64_t folded;
            if (!get(&p, end, &folded)) /* of at most 63 bits */
                return false;
            const int64_t dc = at.dc[c] + unfold(folded);
            if (dc < INT16_MIN || dc > INT16_MAX)
                return false;
            at.dc[c] = (int16_t)dc;
        }
        at.restart = left_to_restart(i * every * frame->mcus_w, (uint32_t)interval);
        rows->row[i] = at;
    }
    if (p != end)
        return false;
    rows->every = (uint32_t)every;
    rows->n = n;
    return true;
}
