/*
 * Records: one version of one row. The payload has the fields in their order, each at a multiple of 8:
 *
 *     of fixed size                  int8, of fixed size                of a size that varies
 *     | values      | zeroes |       | scale (float) 0 | values | 0 |   | rows (8) | scale (float; int8) 0 |
 *
 * and behind all of them the values of those whose size varies, each at a multiple of 8 again. If there is one field
 * only, of fixed size and not int8, the payload is its value and nothing else.
 */
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "columns/internal.h"
#include "kernels/sparse.h"
#include "kernels/values.h"

uint64_t leat_columns_checksum(const struct record *header, uint64_t payload)
{
    const uint64_t of[6] = {header->stamp, header->id, header->key, header->length, header->spare, payload};
    return leat_hash64(of, sizeof of);
}

static uint64_t align8(uint64_t n)
{
    return (n + 7) & ~UINT64_C(7);
}

uint64_t leat_columns_payload(const struct leat_columns *c, const struct leat_column *columns, uint64_t i)
{
    uint64_t bytes = c->fixed;
    for (size_t f = 0; c->ragged && f < c->n_fields; f++) {
        if (!c->shapes[f].ragged)
            continue;
        const uint64_t rows = (uint64_t)(columns[f].offsets[i + 1] - columns[f].offsets[i]);
        if (rows > LEAT_COLUMNS_MAX_ROW_BYTES / c->shapes[f].item)
            return UINT64_MAX;
        bytes += align8(rows * c->shapes[f].item);
    }
    return bytes;
}

static float scale_of(const float *from, uint64_t n)
{
    float most = 0;
    for (uint64_t i = 0; i < n; i++) {
        const float a = fabsf(from[i]);
        most = a > most ? a : most;
    }
    return most / 127;
}

/* Multiples of the scale, to the nearest, even. A scale that is too small to divide by makes zeroes. */
static void quantize(const float *from, uint64_t n, float scale, int8_t *to)
{
    const float by = scale > 0 ? 1 / scale : 0;
    for (uint64_t i = 0; i < n; i++) {
        float x = rintf(by <= 3e38f ? from[i] * by : 0);
        to[i] = (int8_t)(x > 127 ? 127 : x < -127 ? -127 : x);
    }
}

/* n elements to their place in the file; for int8, their scale. */
static float store(const struct shape *s, const struct leat_column *column, uint64_t first, uint64_t n, uint8_t *to)
{
    const size_t size = leat_dtype_size(s->dtype);
    if (column->dtype == s->dtype) {
        if (n)
            memcpy(to, (const uint8_t *)column->data + first * size, n * size);
        return 1;
    }
    const float *from = (const float *)column->data + first;
    if (s->dtype == LEAT_I8) {
        const float scale = scale_of(from, n);
        quantize(from, n, scale, (int8_t *)to);
        return scale;
    }
    leat_values_convert(LEAT_F32, s->dtype, from, to, n);
    return 1;
}

static void put_scale(uint8_t *p, float scale)
{
    memset(p, 0, 8);
    memcpy(p, &scale, 4);
}

void leat_columns_encode(const struct leat_columns *c, const struct leat_column *columns, uint64_t i, uint8_t *payload)
{
    uint8_t *tail = payload + c->fixed;
    for (size_t f = 0; f < c->n_fields; f++) {
        const struct shape *s = &c->shapes[f];
        const struct leat_column *column = &columns[f];
        uint8_t *at = payload + s->at;
        if (s->ragged) {
            const uint64_t begin = (uint64_t)column->offsets[i], rows = (uint64_t)column->offsets[i + 1] - begin;
            const uint64_t bytes = rows * s->item;
            memcpy(at, &rows, 8);
            put_scale(at + 8, store(s, column, begin * s->n_items, rows * s->n_items, tail));
            memset(tail + bytes, 0, align8(bytes) - bytes);
            tail += align8(bytes);
            continue;
        }
        uint8_t *values = at + (s->scaled ? 8 : 0);
        const float scale = store(s, column, i * s->n_items, s->n_items, values);
        if (s->scaled)
            put_scale(at, scale);
        if (!c->plain)
            memset(values + s->item, 0, align8(s->item) - s->item);
    }
}

bool leat_columns_payload_fits(const struct leat_columns *c, const uint8_t *payload, uint64_t length)
{
    uint64_t at = c->fixed;
    for (size_t f = 0; at <= length && f < c->n_fields; f++) {
        uint64_t rows;
        if (!c->shapes[f].ragged)
            continue;
        memcpy(&rows, payload + c->shapes[f].at, 8);
        if (rows > length / c->shapes[f].item)
            return false;
        const struct leat_field *field = &c->fields[f];
        const uint8_t *values = payload + at;
        at += align8(rows * c->shapes[f].item);
        if (field->columns && at <= length && !leat_sparse_rises(values, field->item, rows, field->columns))
            return false;
    }
    return at == length;
}
