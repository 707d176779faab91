/* Pixels at any places, in portable C: sample.h. */
#include <string.h>

#include "kernels/sample.h"

static inline size_t clip(int32_t at, uint32_t n)
{
    return at < 0 ? 0 : at < (int32_t)n ? (size_t)at : n - 1;
}

static void bilinear(const struct leat_sampler *s, int32_t x, int32_t y, uint8_t *dst)
{
    uint32_t w[4], half = s->rounds ? 1u << (LEAT_BILINEAR_BITS - 1) : 0;
    x -= LEAT_SAMPLE_HALF;
    y -= LEAT_SAMPLE_HALF;
    leat_bilinear_weights((uint32_t)x & LEAT_SAMPLE_MASK, (uint32_t)y & LEAT_SAMPLE_MASK, w);
    x >>= LEAT_SAMPLE_BITS;
    y >>= LEAT_SAMPLE_BITS;
    const uint8_t *above = s->base + clip(y, s->h) * s->row, *below = s->base + clip(y + 1, s->h) * s->row;
    size_t left = clip(x, s->w) * s->pixel, right = clip(x + 1, s->w) * s->pixel;
    for (unsigned c = 0; c < s->pixel; c++)
        dst[c] = (uint8_t)((above[left + c] * w[0] + above[right + c] * w[1] + below[left + c] * w[2] +
                            below[right + c] * w[3] + half) >>
                           LEAT_BILINEAR_BITS);
}

static void bicubic(const struct leat_sampler *s, int32_t x, int32_t y, uint8_t *dst)
{
    int32_t across[4], down[4], sum[4] = {0};
    x -= LEAT_SAMPLE_HALF;
    y -= LEAT_SAMPLE_HALF;
    leat_bicubic_weights(x & LEAT_SAMPLE_MASK, across);
    leat_bicubic_weights(y & LEAT_SAMPLE_MASK, down);
    x >>= LEAT_SAMPLE_BITS;
    y >>= LEAT_SAMPLE_BITS;
    for (int r = 0; r < 4; r++) {
        const uint8_t *row = s->base + clip(y - 1 + r, s->h) * s->row;
        for (unsigned c = 0; c < s->pixel; c++) {
            int32_t v = 0;
            for (int k = 0; k < 4; k++)
                v += row[clip(x - 1 + k, s->w) * s->pixel + c] * across[k];
            sum[c] += (v >> LEAT_BICUBIC_BETWEEN) * down[r];
        }
    }
    const int bits = 2 * LEAT_BICUBIC_BITS - LEAT_BICUBIC_BETWEEN;
    for (unsigned c = 0; c < s->pixel; c++) {
        int32_t v = (sum[c] + (s->rounds ? 1 << (bits - 1) : 0)) >> bits;
        dst[c] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
    }
}

/* Pixels outside add nothing, neither to the pixel nor to the mask of its share of the result. */
static void faded(const struct leat_sampler *s, int32_t x, int32_t y, uint8_t *dst)
{
    uint32_t w[4], sum[4] = {0}, mask = 0;
    x -= LEAT_SAMPLE_HALF;
    y -= LEAT_SAMPLE_HALF;
    leat_bilinear_weights((uint32_t)x & LEAT_SAMPLE_MASK, (uint32_t)y & LEAT_SAMPLE_MASK, w);
    for (int k = 0; k < 4; k++) {
        int64_t column = (x >> LEAT_SAMPLE_BITS) + (k & 1), row = (y >> LEAT_SAMPLE_BITS) + (k >> 1);
        if (column < 0 || row < 0 || column >= s->w || row >= s->h)
            continue;
        const uint8_t *p = s->base + (size_t)row * s->row + (size_t)column * s->pixel;
        mask += w[k];
        for (unsigned c = 0; c < s->pixel; c++)
            sum[c] += p[c] * w[k];
    }
    for (unsigned c = 0; c < s->pixel; c++) {
        uint64_t outside = (uint64_t)s->fill[c] * ((1u << LEAT_BILINEAR_BITS) - mask) << LEAT_BILINEAR_BITS;
        uint64_t half = s->rounds ? UINT64_C(1) << (2 * LEAT_BILINEAR_BITS - 1) : 0;
        dst[c] = (uint8_t)(((uint64_t)sum[c] * mask + outside + half) >> (2 * LEAT_BILINEAR_BITS));
    }
}

void leat_sample_one(const struct leat_sampler *s, int32_t x, int32_t y, uint8_t *dst)
{
    if (s->fades && s->filter == LEAT_FILTER_BILINEAR)
        faded(s, x, y, dst);
    else if (x < 0 || y < 0 || (uint32_t)x >= s->w << LEAT_SAMPLE_BITS || (uint32_t)y >= s->h << LEAT_SAMPLE_BITS)
        memcpy(dst, s->fill, s->pixel);
    else if (s->filter == LEAT_FILTER_BILINEAR)
        bilinear(s, x, y, dst);
    else if (s->filter == LEAT_FILTER_BICUBIC)
        bicubic(s, x, y, dst);
    else
        memcpy(dst, s->base + (size_t)(y >> LEAT_SAMPLE_BITS) * s->row + (size_t)(x >> LEAT_SAMPLE_BITS) * s->pixel,
               s->pixel);
}

void leat_sample_portable(LEAT_SAMPLE_ARGS)
{
    for (unsigned i = 0; i < n; i++, dst += sampler->pixel)
        leat_sample_one(sampler, x[i], y[i], dst);
}

void leat_places_portable(LEAT_PLACES_ARGS)
{
    const double yy = y + 0.5, along[2] = {m[1] * yy, m[4] * yy}, below = m[7] * yy;
    for (uint32_t i = 0; i < LEAT_SAMPLE_BLOCK; i++) {
        double xx = (double)(int32_t)(x0 + i) + 0.5, by = perspective ? 1 / (m[6] * xx + below + 1) : 1;
        x_out[i] = leat_place_at((m[0] * xx + along[0] + m[2]) * by);
        y_out[i] = leat_place_at((m[3] * xx + along[1] + m[5]) * by);
    }
}

void leat_steps_portable(LEAT_STEPS_ARGS)
{
    leat_steps(f, x0, y, x_out, y_out);
}
