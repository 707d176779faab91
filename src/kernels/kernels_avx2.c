/*
 * The kernels for AVX2. A resize splits a weight of 22 bits in two, so that 16-bit multiply-add (vpmaddwd) does two
 * taps at a time, exactly:
 *
 *     weight = high * 2048 + low      sum = (sum high p) * 2048 + (sum low p)      0 <= low < 2048, |high| <= 2^15
 */
#include "kernels/kernels.h"

#if defined(__x86_64__)
#include <string.h>

#define SIMD 256
#include "kernels/widen_kernels.h"

#define LOW_BITS 11
#define HALF (1 << (LEAT_WEIGHT_BITS - 1))

/* ---- across ---- */

/*
 * The plan: for each four output pixels the start of their taps, and for each four taps of two neighbouring pixels,
 * which fill one half of a register each: high weights of taps 0 and 1, of 2 and 3, then the low ones, each pair of
 * words once per channel.
 *
 *     struct plan | four 0: quad of pixels 0 and 1, of 2 and 3; the next four taps: ... | four 1 ...
 *
 * The last pixels are left to portable C, and those whose taps would be read from beyond the row's padding.
 */
struct quad {
    int32_t high[2][8], low[2][8];
};
struct four {
    uint32_t at[4]; /* bytes from the beginning of the row */
    uint32_t quads; /* of the longest of the four; reads of a shorter one beyond it have weight 0 */
    uint32_t unused[11];
    struct quad quad[][2];
};
struct plan {
    uint32_t fours; /* how many */
    bool one;       /* none has more than one quad */
    size_t step;    /* bytes from one to the next */
};
struct pair {
    int32_t high, low;
};

static size_t four_bytes(unsigned taps)
{
    return sizeof(struct four) + (size_t)taps / 4 * 2 * sizeof(struct quad);
}

static int reserve(struct leat_axis *axis, uint32_t out, unsigned taps)
{
    return leat_axis_reserve_plan(axis, 64 + (size_t)out / 4 * four_bytes(taps));
}

static inline struct pair make_pair(const int32_t *weights)
{
    const uint32_t mask = (1u << LOW_BITS) - 1;
    uint32_t a = (uint32_t)weights[0], b = (uint32_t)weights[1];
    uint32_t high = (uint32_t)(weights[0] >> LOW_BITS) & 0xffff, next = (uint32_t)(weights[1] >> LOW_BITS);
    return (struct pair){(int32_t)(high | next << 16), (int32_t)((a & mask) | (b & mask) << 16)};
}

static void fill_four(struct four *four, const struct leat_axis *axis, uint32_t i)
{
    for (unsigned k = 0; k < 4; k++)
        four->at[k] = axis->first[i + k] * 4;
    for (unsigned q = 0; q < four->quads; q++)
        for (unsigned k = 0; k < 8; k++) { /* pixel k / 2, taps 2 (k mod 2) and the next */
            struct pair pair = make_pair(axis->weights + (size_t)(i + k / 2) * axis->taps + 4 * q + 2 * (k & 1));
            struct quad *quad = &four->quad[q][k / 4];
            for (unsigned c = 0; c < 4; c++) {
                quad->high[k & 1][(k / 2 & 1) * 4 + c] = pair.high;
                quad->low[k & 1][(k / 2 & 1) * 4 + c] = pair.low;
            }
        }
}

static int prepare(struct leat_axis *axis, uint32_t begin, uint32_t n, unsigned pixel, unsigned channels)
{
    if (reserve(axis, axis->out, axis->taps))
        return LEAT_E_NOMEM;
    struct plan *plan = leat_axis_plan(axis);
    *plan = (struct plan){.one = true, .step = four_bytes(axis->taps)};
    if (pixel != 4 || channels < 3)
        return LEAT_OK;
    for (uint32_t i = 0; i + 4 <= n; i += 4, plan->fours++) {
        const uint32_t *first = axis->first + begin + i, *end = axis->end + begin + i;
        uint32_t taps = 1;
        for (unsigned k = 0; k < 4; k++)
            taps = end[k] - first[k] > taps ? end[k] - first[k] : taps;
        struct four *four = (struct four *)((uint8_t *)plan + 64 + plan->fours * plan->step);
        four->quads = (taps + 3) / 4;
        if (first[3] + 4 * four->quads > axis->in + LEAT_ROW_PADDING / 4)
            break;
        plan->one = plan->one && four->quads == 1;
        fill_four(four, axis, begin + i);
    }
    return LEAT_OK;
}

INLINE __m256i times(__m256i words, const int32_t *weights)
{
    return _mm256_madd_epi16(words, _mm256_load_si256((const __m256i *)weights));
}

/* Two output pixels, one in each half of a register: four channels of 32 bits each. `quad` steps over those of the
 * other two. */
INLINE __m256i two_pixels(const struct quad *quad, const uint8_t *s0, const uint8_t *s1, uint32_t quads)
{
    /* bytes of two neighbouring pixels to words: R R' G G' B B' X X' */
    const __m256i first = _mm256_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1, 0, -1, 4, -1, 1, -1,
                                           5, -1, 2, -1, 6, -1, 3, -1, 7, -1);
    const __m256i second = _mm256_setr_epi8(8, -1, 12, -1, 9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1, 8, -1, 12, -1,
                                            9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1);
    __m256i high = _mm256_setzero_si256(), low = _mm256_set1_epi32(HALF);
    for (uint32_t q = 0; q < quads; q++, s0 += 16, s1 += 16, quad += 2) {
        __m256i bytes = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)s0)),
                                                _mm_loadu_si128((const __m128i *)s1), 1);
        __m256i a = _mm256_shuffle_epi8(bytes, first), b = _mm256_shuffle_epi8(bytes, second);
        high = _mm256_add_epi32(high, _mm256_add_epi32(times(a, quad->high[0]), times(b, quad->high[1])));
        low = _mm256_add_epi32(low, _mm256_add_epi32(times(a, quad->low[0]), times(b, quad->low[1])));
    }
    return _mm256_srai_epi32(_mm256_add_epi32(low, _mm256_slli_epi32(high, LOW_BITS)), LEAT_WEIGHT_BITS);
}

INLINE void all_fours(const struct plan *plan, const uint8_t *src, uint8_t *dst, unsigned channels, bool one)
{
    const __m128i keep = channels == 3 ? _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1)
                                       : _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const uint8_t *next = (const uint8_t *)plan + 64;
    for (uint32_t i = 0; i < plan->fours; i++, next += plan->step, dst += 4 * channels) {
        const struct four *four = (const void *)next;
        uint32_t quads = one ? 1 : four->quads;
        __m256i a = two_pixels(&four->quad[0][0], src + four->at[0], src + four->at[1], quads);
        __m256i b = two_pixels(&four->quad[0][1], src + four->at[2], src + four->at[3], quads);
        __m256i words = _mm256_packus_epi32(a, b); /* pixels 0 2 | 1 3 */
        words = _mm256_permute4x64_epi64(words, 0xd8);
        __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
        _mm_storeu_si128((__m128i *)dst, _mm_shuffle_epi8(bytes, keep)); /* the row's padding takes the bytes beyond */
    }
}

static TARGET void horizontal(const struct leat_axis *axis, uint32_t begin, uint32_t n, unsigned pixel,
                              unsigned channels, const uint8_t *src, uint8_t *dst)
{
    const struct plan *plan = leat_axis_plan(axis);
    uint32_t done = 4 * plan->fours;
    if (plan->one)
        all_fours(plan, src, dst, channels, true);
    else
        all_fours(plan, src, dst, channels, false);
    if (done < n)
        leat_kernels_portable.horizontal(axis, begin + done, n - done, pixel, channels, src,
                                         dst + (size_t)done * channels);
}

/* ---- down ---- */

#define MAX_TAPS 256

/* Rows are read and the result is written in whole blocks of 32 bytes: all have that padding. */
static TARGET void vertical(const uint8_t *const *rows, const int32_t *weights, unsigned taps, uint8_t *dst, size_t n)
{
    const __m256i zero = _mm256_setzero_si256();
    struct pair pairs[MAX_TAPS / 2];
    if (taps > MAX_TAPS) {
        leat_kernels_portable.vertical(rows, weights, taps, dst, n);
        return;
    }
    for (unsigned t = 0; t < taps; t += 2)
        pairs[t / 2] = make_pair(weights + t);
    while (taps > 2 && !(weights[taps - 1] | weights[taps - 2]))
        taps -= 2;
    for (size_t at = 0; at < n; at += 32) {
        __m256i high[4], low[4];
        LEAT_UNROLL
        for (int v = 0; v < 4; v++) {
            high[v] = zero;
            low[v] = _mm256_set1_epi32(HALF);
        }
        for (unsigned t = 0; t < taps; t += 2) {
            const __m256i weight_high = _mm256_set1_epi32(pairs[t / 2].high),
                          weight_low = _mm256_set1_epi32(pairs[t / 2].low);
            __m256i a = _mm256_loadu_si256((const __m256i *)(rows[t] + at)),
                    b = _mm256_loadu_si256((const __m256i *)(rows[t + 1] + at));
            __m256i ab0 = _mm256_unpacklo_epi8(a, b), ab1 = _mm256_unpackhi_epi8(a, b);
            __m256i words[4] = {_mm256_unpacklo_epi8(ab0, zero), _mm256_unpackhi_epi8(ab0, zero),
                                _mm256_unpacklo_epi8(ab1, zero), _mm256_unpackhi_epi8(ab1, zero)};
            LEAT_UNROLL
            for (int v = 0; v < 4; v++) {
                high[v] = _mm256_add_epi32(high[v], _mm256_madd_epi16(words[v], weight_high));
                low[v] = _mm256_add_epi32(low[v], _mm256_madd_epi16(words[v], weight_low));
            }
        }
        LEAT_UNROLL
        for (int v = 0; v < 4; v++)
            low[v] =
                _mm256_srai_epi32(_mm256_add_epi32(low[v], _mm256_slli_epi32(high[v], LOW_BITS)), LEAT_WEIGHT_BITS);
        _mm256_storeu_si256((__m256i *)(dst + at), _mm256_packus_epi16(_mm256_packus_epi32(low[0], low[1]),
                                                                       _mm256_packus_epi32(low[2], low[3])));
    }
}

/* ---- values ---- */

/* Eight pixels of 3 or 4 bytes: byte c of each, as words of 32 bits. Reads 32 bytes (24 of pixels of 3 bytes, which may
 * be the last of a mapping, in two parts). */
INLINE __m256i channel_of(__m256i pixels, __m256i from)
{
    return _mm256_shuffle_epi8(pixels, from);
}
INLINE __m256i load_8(const uint8_t *p, unsigned pixel)
{
    if (pixel == 4)
        return _mm256_loadu_si256((const __m256i *)p);
    if (pixel == 1)
        return _mm256_castsi128_si256(_mm_loadl_epi64((const __m128i *)p));
    /* 24 bytes: pixels 0-3 in the low half, 4-7 in the high one, from byte 4 of it on */
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)p)),
                                   _mm_loadu_si128((const __m128i *)(p + 8)), 1);
}
INLINE __m256i from_of(unsigned pixel, unsigned c)
{
    const __m256i three = _mm256_setr_epi32(0, 3, 6, 9, 4, 7, 10, 13),
                  four = _mm256_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12);
    return _mm256_add_epi32(pixel == 3 ? three : four, _mm256_set1_epi32((int32_t)(0x80808000u + c)));
}

/* Eight values by the arithmetic that was compared with the table. */
INLINE __m256 line_values(const struct leat_store *s, unsigned c, __m256i bytes)
{
    __m256 v = _mm256_cvtepi32_ps(bytes);
    return _mm256_add_ps(_mm256_fmadd_ps(v, _mm256_set1_ps(s->a[c]), _mm256_set1_ps(s->b[c])),
                         _mm256_fmadd_ps(v, _mm256_set1_ps(s->c[c]), _mm256_set1_ps(s->d[c])));
}

INLINE void lines_planar(const struct leat_store *s, const uint8_t *src, size_t n, bool flip, uint8_t *const dst[4],
                         unsigned pixel)
{
    const __m256i reverse = _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    const unsigned channels = s->channels;
    __m256i from[4];
    for (unsigned c = 0; c < channels; c++)
        from[c] = from_of(pixel, c);
    size_t i = 0;
    uintptr_t places = 0; /* the start of planes: whole vectors can bypass the caches */
    for (unsigned c = 0; c < channels; c++)
        places |= (uintptr_t)dst[c];
    const bool stream = s->stream && !(places & 31);
    for (; i + 8 <= n; i += 8) {
        __m256i pixels = load_8(src + (flip ? n - 8 - i : i) * pixel, pixel);
        LEAT_UNROLL
        for (unsigned c = 0; c < channels; c++) {
            __m256i bytes =
                pixel == 1 ? _mm256_cvtepu8_epi32(_mm256_castsi256_si128(pixels)) : channel_of(pixels, from[c]);
            if (flip)
                bytes = _mm256_permutevar8x32_epi32(bytes, reverse);
            if (stream)
                _mm256_stream_ps((float *)(void *)(dst[c] + i * 4), line_values(s, c, bytes));
            else
                _mm256_storeu_ps((float *)(void *)(dst[c] + i * 4), line_values(s, c, bytes));
        }
    }
    for (; i < n; i++)
        for (unsigned c = 0; c < channels; c++)
            memcpy(dst[c] + i * 4, (const float *)s->table[c] + src[(flip ? n - 1 - i : i) * pixel + c], 4);
}
#define LINES(PIXEL)                                                                                                   \
    static TARGET void lines_##PIXEL(const struct leat_store *s, const uint8_t *src, size_t n, bool flip,              \
                                     uint8_t *const dst[4])                                                            \
    {                                                                                                                  \
        lines_planar(s, src, n, flip, dst, PIXEL);                                                                     \
    }
LINES(1)
LINES(3)
LINES(4)

/* Pixels of three bytes mirrored: five to a load of 16 bytes, whose first or last byte belongs to a neighbour. */
TARGET void leat_mirror_3_avx2(const struct leat_store *s, const uint8_t *src, size_t n, bool flip,
                               uint8_t *const dst[4])
{
    if (!flip) {
        memcpy(dst[0], src, n * 3);
        return;
    }
    const __m128i order = _mm_setr_epi8(13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, 0);
    uint8_t *d = dst[0];
    size_t i = 0; /* pixels done; the load ends with pixel n - 1 - i and begins a byte before five pixels */
    for (; i + 6 <= n; i += 5, d += 15)
        _mm_storeu_si128((__m128i *)d,
                         _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(src + (n - i) * 3 - 16)), order));
    for (; i < n; i++, d += 3)
        for (unsigned c = 0; c < 3; c++)
            d[c] = src[(n - 1 - i) * 3 + c];
}

static leat_store_fn store(const struct leat_store *s)
{
    if (s->affine && s->size == 4 && (s->planar || s->channels == 1))
        return s->pixel == 1   ? lines_1
               : s->pixel == 3 ? lines_3
               : s->pixel == 4 ? lines_4
                               : leat_kernels_portable.store(s);
    if (s->identity && s->pixel == 3 && s->channels == 3 && !s->planar)
        return leat_mirror_3_avx2;
    return leat_kernels_portable.store(s);
}

/* Four pixels to each half of a register. */
static TARGET void expand(const uint8_t *src, unsigned pixel, size_t n, uint8_t *dst)
{
    const __m256i order = _mm256_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1, 4, 5, 6, -1, 7, 8, 9,
                                           -1, 10, 11, 12, -1, 13, 14, 15, -1);
    const __m256i rest = _mm256_set1_epi32((int32_t)0xff000000u);
    size_t i = 0;
    for (; i + 8 <= n && pixel == 3; i += 8)
        _mm256_storeu_si256((__m256i *)(dst + 4 * i),
                            _mm256_or_si256(_mm256_shuffle_epi8(load_8(src + 3 * i, 3), order), rest));
    leat_kernels_portable.expand(src + i * pixel, pixel, n - i, dst + 4 * i);
}

/* ---- arrays ---- */

/* Small rows: whole registers, the last one overlapping the one before. */
TARGET void leat_gather_avx2(const void *const *first, size_t stride, size_t n, size_t bytes, uint8_t *dst)
{
    enum { AHEAD = 32 };
    if (bytes < 32 || bytes > 256 || !(bytes & (bytes - 1))) {
        leat_kernels_portable.gather(first, stride, n, bytes, dst);
        return;
    }
    for (size_t i = 0; i < n; i++, dst += bytes) {
        if (i + AHEAD < n) {
            const uint8_t *p = leat_gather_row(first, stride, i + AHEAD);
            for (size_t k = 0; k < bytes; k += 64)
                _mm_prefetch((const char *)p + k, _MM_HINT_T0);
            _mm_prefetch((const char *)p + bytes - 1, _MM_HINT_T0);
        }
        const uint8_t *s = leat_gather_row(first, stride, i);
        for (size_t k = 0; k + 32 < bytes; k += 32)
            _mm256_storeu_si256((__m256i *)(dst + k), _mm256_loadu_si256((const __m256i *)(s + k)));
        _mm256_storeu_si256((__m256i *)(dst + bytes - 32), _mm256_loadu_si256((const __m256i *)(s + bytes - 32)));
    }
}

const struct leat_kernels leat_kernels_avx2 = {.isa = LEAT_ISA_AVX2,
                                               .reserve = reserve,
                                               .prepare = prepare,
                                               .horizontal = horizontal,
                                               .vertical = vertical,
                                               .store = store,
                                               .convert = convert,
                                               .expand = expand,
                                               .fence = fence,
                                               .gather = leat_gather_avx2};
#endif
