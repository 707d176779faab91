/*
 * Pixels at any places: included by loops_avx2.c and loops_avx512.c, which define SIMD (kernels/simd.h) and NAMED.
 *
 * A lane of 128 bits is one pixel of the result: its sources are read from memory one by one (gathering is no faster),
 * spread to pairs of words, and multiplied by pairs of weights. Four pixels at a time; if one of them needs pixels
 * beyond the edge, or reads would go beyond the image, all four are made one by one.
 */
#include <string.h>

#include "kernels/sample.h"
#include "kernels/simd.h"

#if !defined(__clang__)
#pragma GCC optimize("O3")
#endif

enum { FOUR = 4, LANES = SIMD / 128, VECTORS = FOUR / LANES };

/* All that is read for a pixel is there; it lies outside; or neither is so. */
enum { NEAR = 1, OUTSIDE = 2 };

/* The places of pixels, and their weights, for a block. */
struct block {
    uint32_t at[LEAT_SAMPLE_BLOCK]; /* bytes from the beginning of the image to the first pixel that is read */
    uint32_t across[2][LEAT_SAMPLE_BLOCK], down[2][LEAT_SAMPLE_BLOCK]; /* pairs of words */
    uint8_t which[LEAT_SAMPLE_BLOCK];
};

/* Finds them; all pixels that a filter reads are there: `before` and `after` of each, and `bytes` from the first one on
 * in a row. */
INLINE void find_places(const struct leat_sampler *s, const int32_t *x, const int32_t *y, struct block *b,
                        unsigned pixel, unsigned before, unsigned after, unsigned bytes)
{
    const size_t row = (size_t)s->w * pixel;
    const uint32_t w = row < bytes ? 0 : (uint32_t)((row - bytes) / pixel + 1),
                   h = s->h > before + after ? s->h - before - after : 0;
    const uint32_t down = (uint32_t)s->row;
    const uint32_t beyond_x = s->w << LEAT_SAMPLE_BITS, beyond_y = s->h << LEAT_SAMPLE_BITS;
    const bool hard = !s->fades || !after; /* pixels outside are the fill */
    const int32_t half = after ? LEAT_SAMPLE_HALF : 0;
    for (unsigned i = 0; i < LEAT_SAMPLE_BLOCK; i++) {
        uint32_t xx = (uint32_t)((x[i] - half) >> LEAT_SAMPLE_BITS) - before,
                 yy = (uint32_t)((y[i] - half) >> LEAT_SAMPLE_BITS) - before;
        b->at[i] = yy * down + xx * pixel;
        b->which[i] = (uint8_t)(((xx < w) & (yy < h)) |
                                ((((uint32_t)x[i] >= beyond_x) | ((uint32_t)y[i] >= beyond_y)) & hard) << 1);
    }
}

INLINE uint32_t pair(uint32_t low, uint32_t high)
{
    return (low & 0xffff) | high << 16;
}

/* Words a and b of each pixel, of 16 bytes in a lane: bytes `at` and `at + pixel` for each channel. */
INLINE vec pairs_from(unsigned at, unsigned pixel)
{
    int8_t from[16];
    for (unsigned c = 0; c < 4; c++) {
        from[4 * c] = (int8_t)(c < pixel ? at + c : 0x80);
        from[4 * c + 2] = (int8_t)(c < pixel ? at + pixel + c : 0x80);
        from[4 * c + 1] = from[4 * c + 3] = -128;
    }
    return in_lanes(_mm_loadu_si128((const __m128i *)from));
}

/* One weight for each lane. */
INLINE vec spread(const uint32_t *weights)
{
#if SIMD == 512
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3),
                                    _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)weights)));
#else
    return _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(_mm_loadl_epi64((const __m128i *)weights)),
                                       _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
#endif
}

INLINE vec join(const __m128i *lanes)
{
#if SIMD == 512
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_setr_m128i(lanes[0], lanes[1])),
                              _mm256_setr_m128i(lanes[2], lanes[3]), 1);
#else
    return _mm256_setr_m128i(lanes[0], lanes[1]);
#endif
}

/* Sums of four pixels, four channels each, to the bytes of packed pixels; 16 bytes are written. */
INLINE void put(const vec *sums, unsigned pixel, uint8_t *dst)
{
#if SIMD == 512
    __m256i words = _mm256_packs_epi32(_mm512_castsi512_si256(sums[0]), _mm512_extracti64x4_epi64(sums[0], 1));
#else
    __m256i words = _mm256_packs_epi32(sums[0], sums[1]); /* pixels 0 2 | 1 3 */
#endif
    words = _mm256_permute4x64_epi64(words, 0xd8);
    __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    int8_t from[16];
    for (unsigned i = 0; i < 16; i++)
        from[i] = (int8_t)(i < 4 * pixel ? i / pixel * 4 + i % pixel : 0x80);
    _mm_storeu_si128((__m128i *)dst, _mm_shuffle_epi8(bytes, _mm_loadu_si128((const __m128i *)from)));
}

INLINE void bilinear_four(const struct leat_sampler *s, const struct block *b, unsigned i, unsigned pixel, uint8_t *dst)
{
    const vec above = pairs_from(0, pixel), below = pairs_from(8, pixel);
    const vec half = V(set1_epi32)(s->rounds ? 1 << (LEAT_BILINEAR_BITS - 1) : 0);
    vec sums[VECTORS];
    LEAT_UNROLL
    for (unsigned v = 0; v < VECTORS; v++) {
        __m128i lanes[LANES];
        LEAT_UNROLL
        for (unsigned k = 0; k < LANES; k++) {
            const uint8_t *p = s->base + b->at[i + v * LANES + k];
            lanes[k] =
                _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)p), _mm_loadl_epi64((const __m128i *)(p + s->row)));
        }
        vec bytes = join(lanes);
        vec sum = V(add_epi32)(V(madd_epi16)(V(shuffle_epi8)(bytes, above), spread(b->across[0] + i + v * LANES)),
                               V(madd_epi16)(V(shuffle_epi8)(bytes, below), spread(b->across[1] + i + v * LANES)));
        sums[v] = V(srli_epi32)(V(add_epi32)(sum, half), LEAT_BILINEAR_BITS);
    }
    put(sums, pixel, dst);
}

/* Two rows' sums, with bits dropped, as pairs of words. */
INLINE vec two_rows(const struct leat_sampler *s, const struct block *b, unsigned i, unsigned row, unsigned pixel)
{
    const vec first = pairs_from(0, pixel), second = pairs_from(2 * pixel, pixel);
    const vec left = spread(b->across[0] + i), right = spread(b->across[1] + i);
    vec sums[2];
    LEAT_UNROLL
    for (unsigned r = 0; r < 2; r++) {
        __m128i lanes[LANES];
        LEAT_UNROLL
        for (unsigned k = 0; k < LANES; k++)
            lanes[k] = _mm_loadu_si128((const __m128i *)(s->base + b->at[i + k] + (row + r) * s->row));
        vec bytes = join(lanes);
        sums[r] = V(srai_epi32)(V(add_epi32)(V(madd_epi16)(V(shuffle_epi8)(bytes, first), left),
                                             V(madd_epi16)(V(shuffle_epi8)(bytes, second), right)),
                                LEAT_BICUBIC_BETWEEN);
    }
#if SIMD == 512
    return _mm512_mask_blend_epi16(0xaaaaaaaa, sums[0], _mm512_slli_epi32(sums[1], 16));
#else
    return _mm256_blend_epi16(sums[0], _mm256_slli_epi32(sums[1], 16), 0xaa);
#endif
}

INLINE void bicubic_four(const struct leat_sampler *s, const struct block *b, unsigned i, unsigned pixel, uint8_t *dst)
{
    const int bits = 2 * LEAT_BICUBIC_BITS - LEAT_BICUBIC_BETWEEN;
    const vec half = V(set1_epi32)(s->rounds ? 1 << (bits - 1) : 0);
    vec sums[VECTORS];
    LEAT_UNROLL
    for (unsigned v = 0; v < VECTORS; v++) {
        unsigned at = i + v * LANES;
        vec sum = V(add_epi32)(V(madd_epi16)(two_rows(s, b, at, 0, pixel), spread(b->down[0] + at)),
                               V(madd_epi16)(two_rows(s, b, at, 2, pixel), spread(b->down[1] + at)));
        sums[v] = V(srai_epi32)(V(add_epi32)(sum, half), bits);
    }
    put(sums, pixel, dst);
}

INLINE void nearest_four(const struct leat_sampler *s, const struct block *b, unsigned i, unsigned pixel, uint8_t *dst)
{
    LEAT_UNROLL
    for (unsigned k = 0; k < FOUR; k++)
        memcpy(dst + k * pixel, s->base + b->at[i + k], 4); /* the next pixel overwrites the excess */
}

INLINE void sample_block(const struct leat_sampler *s, const int32_t *x, const int32_t *y, unsigned n, uint8_t *dst,
                         unsigned pixel, enum leat_filter filter)
{
    struct block b;
    uint8_t made[LEAT_SAMPLE_BLOCK * 4 + 16], fill[16];
    const int32_t half = LEAT_SAMPLE_HALF;
    if (filter == LEAT_FILTER_NEAREST)
        find_places(s, x, y, &b, pixel, 0, 0, 4);
    else if (filter == LEAT_FILTER_BILINEAR)
        find_places(s, x, y, &b, pixel, 0, 1, 8);
    else
        find_places(s, x, y, &b, pixel, 1, 2, 16);
    for (unsigned i = 0; i < LEAT_SAMPLE_BLOCK && filter == LEAT_FILTER_BILINEAR; i++) {
        uint32_t w[4];
        leat_bilinear_weights((uint32_t)(x[i] - half) & LEAT_SAMPLE_MASK, (uint32_t)(y[i] - half) & LEAT_SAMPLE_MASK,
                              w);
        b.across[0][i] = pair(w[0], w[1]);
        b.across[1][i] = pair(w[2], w[3]);
    }
    for (unsigned i = 0; i < LEAT_SAMPLE_BLOCK && filter == LEAT_FILTER_BICUBIC; i++) {
        int32_t w[4], v[4];
        leat_bicubic_weights((x[i] - half) & LEAT_SAMPLE_MASK, w);
        leat_bicubic_weights((y[i] - half) & LEAT_SAMPLE_MASK, v);
        b.across[0][i] = pair((uint32_t)w[0], (uint32_t)w[1]);
        b.across[1][i] = pair((uint32_t)w[2], (uint32_t)w[3]);
        b.down[0][i] = pair((uint32_t)v[0], (uint32_t)v[1]);
        b.down[1][i] = pair((uint32_t)v[2], (uint32_t)v[3]);
    }
    for (unsigned i = 0; i < 4 * pixel; i++)
        fill[i] = s->fill[i % pixel];
    for (unsigned i = 0; i < n; i += FOUR) {
        uint32_t which;
        memcpy(&which, b.which + i, 4);
        uint8_t *d = made + i * pixel;
        if (which == OUTSIDE * 0x01010101u)
            memcpy(d, fill, 4 * pixel);
        else if (which != NEAR * 0x01010101u)
            for (unsigned k = i; k < i + FOUR && k < n; k++)
                leat_sample_one(s, x[k], y[k], made + k * pixel);
        else if (filter == LEAT_FILTER_NEAREST)
            nearest_four(s, &b, i, pixel, d);
        else if (filter == LEAT_FILTER_BILINEAR)
            bilinear_four(s, &b, i, pixel, d);
        else
            bicubic_four(s, &b, i, pixel, d);
    }
    memcpy(dst, made, n * pixel);
}

#define WITH_PIXEL(FILTER)                                                                                             \
    switch (s->pixel) {                                                                                                \
    case 1:                                                                                                            \
        sample_block(s, x, y, n, dst, 1, FILTER);                                                                      \
        return;                                                                                                        \
    case 3:                                                                                                            \
        sample_block(s, x, y, n, dst, 3, FILTER);                                                                      \
        return;                                                                                                        \
    default:                                                                                                           \
        sample_block(s, x, y, n, dst, s->pixel, FILTER);                                                               \
        return;                                                                                                        \
    }
TARGET void NAMED(sample)(LEAT_SAMPLE_ARGS)
{
    const struct leat_sampler *s = sampler;
    if (s->row * s->h > UINT32_MAX) { /* places in memory have 32 bits here */
        leat_sample_portable(s, x, y, n, dst);
        return;
    }
    switch (s->filter) {
    case LEAT_FILTER_BILINEAR:
        WITH_PIXEL(LEAT_FILTER_BILINEAR)
    case LEAT_FILTER_BICUBIC:
        WITH_PIXEL(LEAT_FILTER_BICUBIC)
    default:
        WITH_PIXEL(LEAT_FILTER_NEAREST)
    }
}

/* ---- places ---- */

enum { DOUBLES = SIMD / 64 };
#if SIMD == 512
typedef __m512d doubles;
#define FLOOR(x) _mm512_roundscale_pd(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)
#define KEEP_INTS(to, x) _mm256_storeu_si256((__m256i *)(to), _mm512_cvttpd_epi32(x))
#else
typedef __m256d doubles;
#define FLOOR(x) _mm256_floor_pd(x)
#define KEEP_INTS(to, x) _mm_storeu_si128((__m128i *)(to), _mm256_cvttpd_epi32(x))
#endif

/* A number that is none or too large becomes the limit; one far below 0 becomes -1. */
INLINE void keep_places(int32_t *to, doubles v)
{
    doubles place = V(mul_pd)(v, V(set1_pd)(1 << LEAT_SAMPLE_BITS));
    KEEP_INTS(to, FLOOR(V(max_pd)(V(min_pd)(place, V(set1_pd)(0x1p30)), V(set1_pd)(-1))));
}

INLINE doubles line(doubles x, double a, double along, double b)
{
    return V(add_pd)(V(add_pd)(V(mul_pd)(V(set1_pd)(a), x), V(set1_pd)(along)), V(set1_pd)(b));
}

INLINE void places(LEAT_PLACES_ARGS)
{
    const double yy = y + 0.5, up[8] = {0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5};
    const doubles first = V(loadu_pd)(up);
    for (uint32_t i = 0; i < LEAT_SAMPLE_BLOCK; i += DOUBLES) {
        doubles xx = V(add_pd)(V(set1_pd)((double)(x0 + i)), first);
        doubles u = line(xx, m[0], m[1] * yy, m[2]), v = line(xx, m[3], m[4] * yy, m[5]);
        if (perspective) {
            doubles by = V(div_pd)(V(set1_pd)(1), line(xx, m[6], m[7] * yy, 1));
            u = V(mul_pd)(u, by);
            v = V(mul_pd)(v, by);
        }
        keep_places(x_out + i, u);
        keep_places(y_out + i, v);
    }
}

TARGET void NAMED(places)(LEAT_PLACES_ARGS)
{
    if (perspective)
        places(m, true, x0, y, x_out, y_out);
    else
        places(m, false, x0, y, x_out, y_out);
}

TARGET void NAMED(steps)(LEAT_STEPS_ARGS)
{
    leat_steps(f, x0, y, x_out, y_out);
}
