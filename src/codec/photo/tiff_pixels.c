/*
 * Samples of a TIFF to RGBA, row by row and in two passes: samples of any kind to numbers of 0 to 255 (65535), one
 * array for each that counts; then these to colours.
 */
#include "codec/photo/tiff_pixels.h"

#include <string.h>

uint64_t leat_tiff_row_bytes(const struct leat_tiff_layout *l, uint32_t width)
{
    return ((uint64_t)width * (l->apart ? 1 : l->samples) * l->bits + 7) / 8;
}

static uint16_t clip(double v, double most)
{
    return v >= most ? (uint16_t)most : v > 0 ? (uint16_t)v : 0; /* no number: 0 */
}

/* Samples first, first + step ... of a row. */
static void take(const struct leat_tiff_layout *l, const uint8_t *row, size_t first, size_t step, size_t n, bool wide,
                 uint16_t *out)
{
    const uint16_t most = wide ? 65535 : 255;
    if (l->number == LEAT_TIFF_UNSIGNED && l->bits == 8) {
        for (size_t i = 0; i < n; i++)
            out[i] = row[first + i * step];
    } else if (l->number == LEAT_TIFF_UNSIGNED && l->bits == 16) {
        for (size_t i = 0; i < n; i++) {
            uint16_t v;
            memcpy(&v, row + 2 * (first + i * step), 2);
            out[i] = wide ? v : v >> 8;
        }
    } else if (l->bits < 16 && l->number == LEAT_TIFF_UNSIGNED) {
        const uint32_t largest = (1u << l->bits) - 1;
        for (size_t i = 0; i < n; i++) {
            const uint64_t bit = (uint64_t)(first + i * step) * l->bits;
            const uint8_t *p = row + bit / 8;
            const unsigned skip = bit % 8, held = skip + l->bits;
            uint32_t v = (uint32_t)p[0] << 16 | (held > 8 ? (uint32_t)p[1] << 8 : 0) | (held > 16 ? p[2] : 0);
            v = v >> (24 - held) & largest;
            out[i] = (uint16_t)(l->bits > 8 && !wide ? v >> (l->bits - 8) : (v * most + largest / 2) / largest);
        }
    } else {
        for (size_t i = 0; i < n; i++) {
            const uint8_t *p = row + (first + i * step) * (l->bits / 8);
            int16_t s16;
            int32_t s32;
            uint32_t u32;
            float f32;
            double v = 0;
            if (l->bits == 8)
                v = p[0] < 128 ? p[0] : 0;
            else if (l->bits == 16)
                v = (memcpy(&s16, p, 2), s16);
            else if (l->bits == 64)
                memcpy(&v, p, 8);
            else if (l->number == LEAT_TIFF_FLOAT)
                v = (memcpy(&f32, p, 4), (double)f32);
            else if (l->number == LEAT_TIFF_SIGNED)
                v = (memcpy(&s32, p, 4), s32);
            else
                v = (memcpy(&u32, p, 4), u32);
            out[i] = clip(v, most);
        }
    }
}

/* Colours as they were before they were multiplied by an opacity; nothing if that is 0. */
static unsigned divided(unsigned v, unsigned opacity, unsigned most)
{
    const unsigned q = opacity ? (unsigned)((uint64_t)v * most / opacity) : 0;
    return q < most ? q : most;
}

static unsigned without_ink(unsigned ink, unsigned black, unsigned most)
{
    return (unsigned)(((uint64_t)(most - ink) * (most - black) + most / 2) / most);
}

static void put_palette(const struct leat_tiff_layout *l, unsigned index, unsigned rgb[3])
{
    for (unsigned c = 0; c < 3; c++)
        rgb[c] = leat_tiff_value(&l->tiff, &l->palette, ((uint64_t)c << l->bits) + index) >> 8 & 255;
}

void leat_tiff_put(const struct leat_tiff_layout *l, const uint8_t *row, uint64_t plane_bytes, uint32_t n, bool wide,
                   uint8_t *line, uint8_t *to)
{
    const unsigned most = wide ? 65535 : 255, used = l->colours + (l->alpha ? 1 : 0);
    const bool shares = l->number == LEAT_TIFF_UNSIGNED && l->bits <= 16;
    uint16_t *v[LEAT_TIFF_MOST_USED];
    for (unsigned c = 0; c < used; c++) {
        v[c] = (uint16_t *)(void *)line + (size_t)c * n;
        if (l->apart)
            take(l, row + plane_bytes * c, 0, 1, n, wide, v[c]);
        else
            take(l, row, c < l->colours ? c : l->alpha, l->samples, n, wide, v[c]);
    }
    for (size_t x = 0; x < n; x++) {
        unsigned p[4] = {v[0][x], 0, 0, most};
        if (l->photometric == LEAT_TIFF_PALETTE) {
            /* indices of fewer bits than 8 were made shares of 255 */
            put_palette(l, (p[0] * ((1u << l->bits) - 1) + 127) / 255, p);
        } else if (l->colours == 1) {
            p[0] = l->photometric == LEAT_TIFF_WHITE_IS_0 && shares ? most - p[0] : p[0];
            p[1] = p[2] = p[0];
        } else if (l->colours == 3) {
            const unsigned sign = l->photometric == LEAT_TIFF_LAB ? 128 : 0;
            p[1] = v[1][x] ^ sign;
            p[2] = v[2][x] ^ sign;
        } else if (l->inks) {
            for (unsigned c = 1; c < 4; c++)
                p[c] = v[c][x];
        } else {
            for (unsigned c = 0; c < 3; c++)
                p[c] = without_ink(v[c][x], v[3][x], most);
        }
        if (l->alpha && !l->inks) {
            p[3] = v[used - 1][x];
            for (unsigned c = 0; c < 3 && l->multiplied && p[3] < most; c++)
                p[c] = divided(p[c], p[3], most);
        }
        if (wide) {
            const uint16_t words[4] = {(uint16_t)p[0], (uint16_t)p[1], (uint16_t)p[2], (uint16_t)p[3]};
            memcpy(to + 8 * x, words, 8);
        } else {
            const uint8_t bytes[4] = {(uint8_t)p[0], (uint8_t)p[1], (uint8_t)p[2], (uint8_t)p[3]};
            memcpy(to + 4 * x, bytes, 4);
        }
    }
}
