/*
 * Polynomial hashes modulo the prime P = 2^61 - 1, whose remainder needs no division: 2^61 is 1.
 */
#include "format/fingerprint.h"

#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/random.h"

#define P ((UINT64_C(1) << 61) - 1)

/* Any two numbers below P would do; these never change. */
static const uint64_t base[2] = {UINT64_C(0x0b7e151628aed2a7), UINT64_C(0x1243f6a8885a308d)};
static const uint64_t seed[2] = {UINT64_C(0x6c65617466703031), UINT64_C(0x9e3779b97f4a7c15)};

static uint64_t reduce(uint64_t x)
{
    x = (x & P) + (x >> 61);
    return x >= P ? x - P : x;
}

static uint64_t multiply(uint64_t x, uint64_t y)
{
    unsigned __int128 product = (unsigned __int128)x * y;
    return reduce((uint64_t)(product & P) + (uint64_t)(product >> 61));
}

static uint64_t power(uint64_t x, uint64_t n)
{
    uint64_t result = 1;
    for (; n; n >>= 1) {
        if (n & 1)
            result = multiply(result, x);
        x = multiply(x, x);
    }
    return result;
}

void leat_fingerprint_value(uint64_t sample[2], uint64_t checksum)
{
    for (int k = 0; k < 2; k++)
        sample[k] = leat_key_mix(sample[k] + seed[k], checksum);
}

void leat_fingerprint_file(uint64_t sample[2], const char *relative_name, uint64_t length)
{
    leat_fingerprint_value(sample, leat_hash64(relative_name, strlen(relative_name)));
    leat_fingerprint_value(sample, length);
}

void leat_fingerprint_append(uint64_t sums[2], const uint64_t sample[2])
{
    for (int k = 0; k < 2; k++)
        sums[k] = reduce(multiply(sums[k], base[k]) + reduce(sample[k]));
}

void leat_fingerprint_join(uint64_t sums[2], const uint64_t tail[2], uint64_t n)
{
    for (int k = 0; k < 2; k++)
        sums[k] = reduce(multiply(sums[k], power(base[k], n)) + tail[k]);
}

void leat_fingerprint_finish(const struct leat_field *fields, size_t n_fields, const char *const *classes,
                             size_t n_classes, uint64_t count, const uint64_t sums[2], uint8_t out[16])
{
    uint64_t total[2] = {0, 0};
    for (size_t f = 0; f < n_fields; f++) {
        const struct leat_field *field = &fields[f];
        if (field->flags & LEAT_FIELD_DERIVED)
            continue;
        leat_fingerprint_value(total, leat_hash64(field->name, strlen(field->name)));
        leat_fingerprint_value(total, (uint64_t)field->kind | (uint64_t)field->dtype << 8 |
                                          (uint64_t)field->layout << 16 | (uint64_t)field->ndim << 24 |
                                          (uint64_t)(field->flags & LEAT_FIELD_FILES) << 32 |
                                          (uint64_t)field->role << 40 | (uint64_t)field->normalized << 48);
        for (unsigned d = 0; d < field->ndim; d++)
            leat_fingerprint_value(total, (uint64_t)field->shape[d]);
        if (field->columns) {
            leat_fingerprint_value(total, field->item);
            leat_fingerprint_value(total, (uint64_t)field->columns);
        }
        if (field->n_pairs)
            leat_fingerprint_value(total, leat_hash64(field->pairs, 2 * field->n_pairs * sizeof *field->pairs));
    }
    leat_fingerprint_value(total, n_classes);
    for (size_t c = 0; c < n_classes; c++)
        leat_fingerprint_value(total, leat_hash64(classes[c], strlen(classes[c])));
    leat_fingerprint_value(total, count);
    for (int k = 0; k < 2; k++)
        leat_fingerprint_value(total, sums[k]);
    leat_put_u64(out, total[0]);
    leat_put_u64(out + 8, total[1]);
}
