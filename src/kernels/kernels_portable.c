/* The kernels in portable C, which the others must equal. Plain loops, as far as the compiler can vectorise them. */
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/values.h"

#define HALF (1 << (LEAT_WEIGHT_BITS - 1))

static inline uint8_t clip(int32_t sum)
{
    int32_t v = sum >> LEAT_WEIGHT_BITS; /* weights may be below 0, and add up to slightly more than 1 */
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static void horizontal(const struct leat_axis *axis, uint32_t begin, uint32_t n, unsigned pixel, unsigned channels,
                       const uint8_t *src, uint8_t *dst)
{
    for (uint32_t i = begin; i < begin + n; i++, dst += channels) {
        const uint8_t *s = src + (size_t)axis->first[i] * pixel;
        const int32_t *w = axis->weights + (size_t)i * axis->taps;
        uint32_t taps = axis->end[i] - axis->first[i];
        if (pixel == 1) {
            int32_t sum = HALF;
            for (uint32_t k = 0; k < taps; k++)
                sum += s[k] * w[k];
            dst[0] = clip(sum);
            continue;
        }
        int32_t sum[4] = {HALF, HALF, HALF, HALF};
        for (uint32_t k = 0; k < taps; k++)
            for (unsigned c = 0; c < 4; c++)
                sum[c] += s[4 * k + c] * w[k];
        for (unsigned c = 0; c < channels; c++)
            dst[c] = clip(sum[c]);
    }
}

static void vertical(const uint8_t *const *rows, const int32_t *weights, unsigned taps, uint8_t *dst, size_t n)
{
    enum { BLOCK = 64 };
    for (size_t done = 0; done < n; done += BLOCK) {
        size_t some = n - done < BLOCK ? n - done : BLOCK;
        int32_t sum[BLOCK];
        for (size_t i = 0; i < some; i++)
            sum[i] = HALF;
        for (unsigned k = 0; k < taps; k++) {
            const uint8_t *row = rows[k] + done;
            for (size_t i = 0; i < some; i++)
                sum[i] += row[i] * weights[k];
        }
        for (size_t i = 0; i < some; i++)
            dst[done + i] = clip(sum[i]);
    }
}

static void expand(const uint8_t *src, unsigned pixel, size_t n, uint8_t *dst)
{
    for (size_t i = 0; i < n; i++, src += pixel, dst += 4)
        for (unsigned c = 0; c < 4; c++)
            dst[c] = c < pixel ? src[c] : 255;
}

/* dst value i of channel c lies at dst[c] + i * size (planar) or dst[0] + (i * channels + c) * size. */
#define STORE(NAME, TYPE)                                                                                              \
    static void store_##NAME(const struct leat_store *s, const uint8_t *src, size_t n, bool flip,                      \
                             uint8_t *const dst[4])                                                                    \
    {                                                                                                                  \
        ptrdiff_t step = flip ? -(ptrdiff_t)s->pixel : (ptrdiff_t)s->pixel;                                            \
        for (unsigned c = 0; c < s->channels; c++) {                                                                   \
            const TYPE *table = s->table[c];                                                                           \
            const uint8_t *p = src + c + (flip ? (n - 1) * s->pixel : 0);                                              \
            uint8_t *d = s->planar ? dst[c] : dst[0] + c * sizeof(TYPE);                                               \
            size_t stride = (s->planar ? 1 : s->channels) * sizeof(TYPE);                                              \
            for (size_t i = 0; i < n; i++, p += step, d += stride)                                                     \
                memcpy(d, &table[*p], sizeof(TYPE));                                                                   \
        }                                                                                                              \
    }
STORE(8, uint8_t)
STORE(16, uint16_t)
STORE(32, uint32_t)
STORE(64, uint64_t)

/* Bytes as they are, interleaved, all channels of the pixel: a copy, or the pixels in reverse. */
static void store_copy(const struct leat_store *s, const uint8_t *src, size_t n, bool flip, uint8_t *const dst[4])
{
    if (!flip) {
        memcpy(dst[0], src, n * s->pixel);
        return;
    }
    uint8_t *d = dst[0];
    for (size_t i = n; i-- > 0; d += s->pixel)
        for (unsigned c = 0; c < s->pixel; c++)
            d[c] = src[i * s->pixel + c];
}

static leat_store_fn store(const struct leat_store *s)
{
    if (s->identity && s->channels == s->pixel && (!s->planar || s->channels == 1))
        return store_copy;
    return s->size == 1 ? store_8 : s->size == 2 ? store_16 : s->size == 4 ? store_32 : store_64;
}

static leat_convert_fn convert(enum leat_dtype from, enum leat_dtype to)
{
    return NULL;
}

/* Rows lie anywhere in a large mapping: each is a cache miss. Asking for them some rows ahead overlaps the misses. */
#define AHEAD 24

static inline void prefetch(const uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        __builtin_prefetch(p + i);
    __builtin_prefetch(p + bytes - 1);
}

#define GATHER(BYTES)                                                                                                  \
    for (size_t i = 0; i < n; i++) {                                                                                   \
        if (i + AHEAD < n)                                                                                             \
            prefetch(leat_gather_row(first, stride, i + AHEAD), BYTES);                                                \
        memcpy(dst + i * BYTES, leat_gather_row(first, stride, i), BYTES);                                             \
    }                                                                                                                  \
    return;

static void gather(const void *const *first, size_t stride, size_t n, size_t bytes, uint8_t *dst)
{
    switch (bytes) { /* copies whose size the compiler knows become a few instructions */
    case 0:
        return;
    case 1:
        GATHER(1)
    case 2:
        GATHER(2)
    case 4:
        GATHER(4)
    case 8:
        GATHER(8)
    case 16:
        GATHER(16)
    case 32:
        GATHER(32)
    case 64:
        GATHER(64)
    default:
        break;
    }
    for (size_t i = 0; i < n; i++) {
        if (bytes <= 4096 && i + AHEAD < n)
            prefetch(leat_gather_row(first, stride, i + AHEAD), bytes);
        memcpy(dst + i * bytes, leat_gather_row(first, stride, i), bytes);
    }
}

const struct leat_kernels leat_kernels_portable = {.isa = LEAT_ISA_PORTABLE,
                                                   .horizontal = horizontal,
                                                   .vertical = vertical,
                                                   .store = store,
                                                   .convert = convert,
                                                   .expand = expand,
                                                   .gather = gather};
