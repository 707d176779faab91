/*
 * The kernels for AVX-512 with VBMI and VNNI.
 *
 * A resize multiplies bytes by weights of 22 bits. A weight is split into three signed digits of base 256, so that
 * vpdpbusd (four unsigned bytes times four signed bytes, added up) does four taps of 16 results at a time, exactly:
 *
 *     weight = (d2 * 256 + d1) * 256 + d0       sum = ((sum d2 p) * 256 + (sum d1 p)) * 256 + (sum d0 p)
 *
 * Across a row, which bytes meet in a lane is the same for every row of the photo: a permutation of a window of the
 * source row, computed once per photo (the plan) together with the digits. Above a scale of about 5.6 no window holds
 * all taps of the pixels in a register; then, and for grey, the plan is that of AVX2.
 */
#include "kernels/kernels.h"

#if defined(__x86_64__)
#include <string.h>

#define SIMD 512
#include "kernels/widen_kernels.h"

#define LANES 16

static void split(int32_t weight, int8_t digit[3])
{
    for (int i = 0; i < 3; i++) {
        digit[i] = (int8_t)weight;
        weight = (weight - digit[i]) >> 8; /* exact: the difference is a multiple of 256 */
    }
}

/* ---- across ---- */

/*
 * The plan: one group per 16 bytes of the result row.
 *
 *     struct plan | group 0: permutation, then per four taps the digits d2, d1, d0 | group 1 ...
 *
 * Group g reads windows of 64 (or 128) bytes of the source from pixel base[g] on, four pixels further for each four
 * taps.
 */
struct group {
    uint32_t base;
    uint8_t unused[60];
    uint8_t from[64];
    int8_t digits[][3][64];
};
struct plan {
    uint32_t groups, quads;
    bool wide; /* windows of 128 bytes */
    size_t step;
};

static size_t group_bytes(uint32_t quads)
{
    return sizeof(struct group) + (size_t)quads * 192;
}

static int reserve(struct leat_axis *axis, uint32_t out, unsigned taps)
{
    size_t groups = (((size_t)out * 4 + LANES - 1) / LANES + 3) & ~(size_t)3;
    int rc = leat_axis_reserve_plan(axis, 64 + groups * group_bytes(taps / 4));
    return rc ? rc : leat_kernels_avx2.reserve(axis, out, taps);
}

/* The output pixel that lane `lane` of group g belongs to; pixels after the row repeat its end. */
static inline uint32_t pixel_of(uint32_t g, size_t lane, uint32_t begin, uint32_t n, unsigned channels, unsigned *c)
{
    size_t at = (size_t)g * LANES + lane, last = (size_t)n * channels - 1;
    at = at < last ? at : last;
    *c = (unsigned)(at % channels);
    return begin + (uint32_t)(at / channels);
}

/* The starts of the group's windows: none may reach further beyond the row than its padding. */
static uint32_t base_of(const struct leat_axis *axis, const struct plan *plan, uint32_t first)
{
    uint32_t most = axis->in - 4 * (plan->quads - 1); /* above 0: some pixel has that many taps */
    return first < most ? first : most;
}

/* The digits of four weights, as one word per digit; [0] is that of the highest. */
static inline void split_four(const int32_t *weights, uint32_t words[3])
{
    words[0] = words[1] = words[2] = 0;
    for (unsigned t = 0; t < 4; t++) {
        int8_t digit[3];
        split(weights[t], digit);
        for (unsigned d = 0; d < 3; d++)
            words[2 - d] |= (uint32_t)(uint8_t)digit[d] << 8 * t;
    }
}

static void fill_group(const struct leat_axis *axis, const struct plan *plan, struct group *group, uint32_t g,
                       uint32_t begin, uint32_t n, unsigned channels)
{
    unsigned c;
    uint32_t done = UINT32_MAX, i = pixel_of(g, 0, begin, n, channels, &c);
    group->base = base_of(axis, plan, axis->first[i]);
    for (uint32_t q = 0; q < plan->quads; q++, done = UINT32_MAX) {
        uint32_t words[3] = {0}; /* set by the first lane; gcc at -O3 cannot tell */
        for (size_t lane = 0; lane < LANES; lane++) {
            i = pixel_of(g, lane, begin, n, channels, &c);
            if (i != done)
                split_four(axis->weights + (size_t)i * axis->taps + 4 * q, words);
            done = i;
            for (unsigned d = 0; d < 3; d++)
                memcpy(&group->digits[q][d][lane * 4], &words[d], 4);
            uint32_t from = ((axis->first[i] - group->base) * 4 + c) * 0x01010101u + 0x0c080400u;
            memcpy(&group->from[lane * 4], &from, 4);
        }
    }
}

static int prepare(struct leat_axis *axis, uint32_t begin, uint32_t n, unsigned pixel, unsigned channels)
{
    if (reserve(axis, axis->out, axis->taps))
        return LEAT_E_NOMEM;
    struct plan *plan = leat_axis_plan(axis);
    uint32_t used = 1, span = 0;
    for (uint32_t i = begin; i < begin + n; i++)
        used = axis->end[i] - axis->first[i] > used ? axis->end[i] - axis->first[i] : used;
    *plan = (struct plan){.groups = (uint32_t)((((size_t)n * channels + LANES - 1) / LANES + 3) & ~(size_t)3),
                          .quads = (used + 3) / 4};
    for (uint32_t g = 0; g < plan->groups; g++) {
        unsigned c;
        uint32_t first = axis->first[pixel_of(g, 0, begin, n, channels, &c)],
                 last = axis->first[pixel_of(g, 15, begin, n, channels, &c)];
        uint32_t reach = last - base_of(axis, plan, first);
        span = reach > span ? reach : span;
    }
    plan->wide = span + 4 > 16;
    axis->plan_is_lower = span + 4 > 32 || pixel != 4;
    if (axis->plan_is_lower)
        return leat_kernels_avx2.prepare(axis, begin, n, pixel, channels);
    plan->step = group_bytes(plan->quads);
    for (uint32_t g = 0; g < plan->groups; g++)
        fill_group(axis, plan, (struct group *)((uint8_t *)plan + 64 + g * plan->step), g, begin, n, channels);
    return LEAT_OK;
}

INLINE __m512i digits_of(__m512i sum, __m512i bytes, const int8_t *digits)
{
    return _mm512_dpbusd_epi32(sum, bytes, _mm512_load_si512(digits));
}

/* The sums of one group, still with their 22 fraction bits. */
INLINE __m512i group_sum(const struct group *group, const uint8_t *src, size_t limit, uint32_t quads, bool wide)
{
    const __m512i from = _mm512_load_si512(group->from);
    __m512i d2 = _mm512_setzero_si512(), d1 = d2, d0 = _mm512_set1_epi32(1 << (LEAT_WEIGHT_BITS - 1));
    size_t at = (size_t)group->base * 4;
    for (uint32_t q = 0; q < quads; q++, at += 16) {
        __m512i bytes = _mm512_loadu_si512(src + at);
        if (wide) { /* `limit`: the end of the row with its padding */
            __mmask64 there =
                at + 64 < limit ? _bzhi_u64(~UINT64_C(0), limit - at - 64 < 64 ? (uint32_t)(limit - at - 64) : 64) : 0;
            bytes = _mm512_permutex2var_epi8(bytes, from, _mm512_maskz_loadu_epi8(there, src + at + 64));
        } else {
            bytes = _mm512_permutexvar_epi8(from, bytes);
        }
        d2 = digits_of(d2, bytes, group->digits[q][0]);
        d1 = digits_of(d1, bytes, group->digits[q][1]);
        d0 = digits_of(d0, bytes, group->digits[q][2]);
    }
    d1 = _mm512_add_epi32(d1, _mm512_slli_epi32(d2, 8));
    d0 = _mm512_add_epi32(d0, _mm512_slli_epi32(d1, 8));
    return _mm512_srai_epi32(d0, LEAT_WEIGHT_BITS);
}

/* Four vectors of 16 sums to 64 bytes in order, saturated. */
INLINE __m512i pack(__m512i a, __m512i b, __m512i c, __m512i d)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(order, _mm512_packus_epi16(_mm512_packus_epi32(a, b), _mm512_packus_epi32(c, d)));
}

INLINE void all_groups(const struct plan *plan, const uint8_t *src, size_t limit, uint8_t *dst, uint32_t quads,
                       bool wide)
{
    const uint8_t *group = (const uint8_t *)plan + 64;
    const size_t step = plan->step;
    for (uint32_t g = 0; g < plan->groups; g += 4, group += 4 * step, dst += 64)
        _mm512_storeu_si512(dst, pack(group_sum((const void *)group, src, limit, quads, wide),
                                      group_sum((const void *)(group + step), src, limit, quads, wide),
                                      group_sum((const void *)(group + 2 * step), src, limit, quads, wide),
                                      group_sum((const void *)(group + 3 * step), src, limit, quads, wide)));
}

static TARGET void horizontal(const struct leat_axis *axis, uint32_t begin, uint32_t n, unsigned pixel,
                              unsigned channels, const uint8_t *src, uint8_t *dst)
{
    const struct plan *plan = leat_axis_plan(axis);
    const size_t limit = (size_t)axis->in * 4 + LEAT_ROW_PADDING;
    if (axis->plan_is_lower)
        leat_kernels_avx2.horizontal(axis, begin, n, pixel, channels, src, dst);
    else if (plan->wide)
        all_groups(plan, src, limit, dst, plan->quads, true);
    else if (plan->quads == 1)
        all_groups(plan, src, limit, dst, 1, false);
    else
        all_groups(plan, src, limit, dst, plan->quads, false);
}

/* ---- down ---- */

/* Four rows of 64 bytes to lanes of four bytes, one of each row; the order of lanes is undone by packing. */
INLINE void interleave(const uint8_t *const *rows, size_t at, __m512i out[4])
{
    __m512i a = _mm512_loadu_si512(rows[0] + at), b = _mm512_loadu_si512(rows[1] + at),
            c = _mm512_loadu_si512(rows[2] + at), d = _mm512_loadu_si512(rows[3] + at);
    __m512i ab0 = _mm512_unpacklo_epi8(a, b), ab1 = _mm512_unpackhi_epi8(a, b), cd0 = _mm512_unpacklo_epi8(c, d),
            cd1 = _mm512_unpackhi_epi8(c, d);
    out[0] = _mm512_unpacklo_epi16(ab0, cd0);
    out[1] = _mm512_unpackhi_epi16(ab0, cd0);
    out[2] = _mm512_unpacklo_epi16(ab1, cd1);
    out[3] = _mm512_unpackhi_epi16(ab1, cd1);
}

#define MAX_QUADS 64

/* Rows are read and the result is written in whole blocks of 64 bytes: all have that padding. */
static TARGET void vertical(const uint8_t *const *rows, const int32_t *weights, unsigned taps, uint8_t *dst, size_t n)
{
    int8_t digits[3][MAX_QUADS * 4];
    if (taps > MAX_QUADS * 4) {
        leat_kernels_portable.vertical(rows, weights, taps, dst, n);
        return;
    }
    for (unsigned t = 0; t < taps; t++) {
        int8_t digit[3];
        split(weights[t], digit);
        LEAT_UNROLL
        for (int d = 0; d < 3; d++)
            digits[d][t] = digit[d];
    }
    for (size_t at = 0; at < n; at += 64) {
        __m512i d2[4], d1[4], d0[4];
        LEAT_UNROLL
        for (int v = 0; v < 4; v++) {
            d2[v] = d1[v] = _mm512_setzero_si512();
            d0[v] = _mm512_set1_epi32(1 << (LEAT_WEIGHT_BITS - 1));
        }
        for (unsigned t = 0; t < taps; t += 4) {
            __m512i bytes[4];
            int32_t w[3];
            LEAT_UNROLL
            for (int d = 0; d < 3; d++)
                memcpy(&w[d], &digits[d][t], 4);
            interleave(rows + t, at, bytes);
            LEAT_UNROLL
            for (int v = 0; v < 4; v++) {
                d2[v] = _mm512_dpbusd_epi32(d2[v], bytes[v], _mm512_set1_epi32(w[2]));
                d1[v] = _mm512_dpbusd_epi32(d1[v], bytes[v], _mm512_set1_epi32(w[1]));
                d0[v] = _mm512_dpbusd_epi32(d0[v], bytes[v], _mm512_set1_epi32(w[0]));
            }
        }
        LEAT_UNROLL
        for (int v = 0; v < 4; v++) {
            d1[v] = _mm512_add_epi32(d1[v], _mm512_slli_epi32(d2[v], 8));
            d0[v] = _mm512_srai_epi32(_mm512_add_epi32(d0[v], _mm512_slli_epi32(d1[v], 8)), LEAT_WEIGHT_BITS);
        }
        _mm512_storeu_si512(dst + at,
                            _mm512_packus_epi16(_mm512_packus_epi32(d0[0], d0[1]), _mm512_packus_epi32(d0[2], d0[3])));
    }
}

/* ---- values ---- */

/* A mask of the low n bits, n <= 64. */
INLINE uint64_t low_bits(size_t n)
{
    return _bzhi_u64(~UINT64_C(0), (uint32_t)n);
}

/* Value j of 16 pixels' values, in the order of the result: the byte of the source that it comes from. */
static unsigned byte_of(const struct leat_store *s, unsigned j, bool flip, unsigned pixels)
{
    unsigned pixel = s->planar ? j % 16 : j / s->channels, channel = s->planar ? j / 16 : j % s->channels;
    pixel = pixel < pixels ? (flip ? pixels - 1 - pixel : pixel) : 0;
    return pixel * s->pixel + channel;
}

struct lines { /* for each vector of 16 results */
    __m512i from[4];
    __m512 a[4], b[4], c[4], d[4];
};

/* Planes: all lanes of a vector belong to one channel. */
INLINE void make_planar_lines(const struct leat_store *s, unsigned channels, bool flip, struct lines *l)
{
    const __m512i up = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i pixels = flip ? _mm512_sub_epi32(_mm512_set1_epi32(15), up) : up;
    const __m512i from = _mm512_mullo_epi32(pixels, _mm512_set1_epi32((int32_t)s->pixel));
    LEAT_UNROLL
    for (unsigned k = 0; k < 4 && k < channels; k++) {
        l->from[k] = _mm512_add_epi32(from, _mm512_set1_epi32((int32_t)k));
        l->a[k] = _mm512_set1_ps(s->a[k]);
        l->b[k] = _mm512_set1_ps(s->b[k]);
        l->c[k] = _mm512_set1_ps(s->c[k]);
        l->d[k] = _mm512_set1_ps(s->d[k]);
    }
}

/* Pixels: the channel changes from lane to lane. */
static TARGET void make_lines(const struct leat_store *s, bool flip, struct lines *l)
{
    for (unsigned k = 0; k < s->channels; k++) {
        int32_t from[16];
        float a[16], b[16], c[16], d[16];
        for (unsigned i = 0; i < 16; i++) {
            unsigned j = 16 * k + i, channel = j % s->channels;
            from[i] = (int32_t)byte_of(s, j, flip, 16);
            a[i] = s->a[channel];
            b[i] = s->b[channel];
            c[i] = s->c[channel];
            d[i] = s->d[channel];
        }
        l->from[k] = _mm512_loadu_si512(from);
        l->a[k] = _mm512_loadu_ps(a);
        l->b[k] = _mm512_loadu_ps(b);
        l->c[k] = _mm512_loadu_ps(c);
        l->d[k] = _mm512_loadu_ps(d);
    }
}

/* 16 values as their table has them, by the arithmetic that was compared with it. */
INLINE __m512 line_values(const struct lines *l, unsigned k, __m512i bytes)
{
    __m512 v = _mm512_cvtepi32_ps(_mm512_maskz_permutexvar_epi8(UINT64_C(0x1111111111111111), l->from[k], bytes));
    return _mm512_add_ps(_mm512_fmadd_ps(v, l->a[k], l->b[k]), _mm512_fmadd_ps(v, l->c[k], l->d[k]));
}

INLINE __m256i to_16(__m512 v, bool half)
{
    if (half)
        return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512i u = _mm512_castps_si512(v);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    u = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(u, 16));
}

INLINE void put_values(uint8_t *d, __m512 v, __mmask16 there, unsigned size, bool half)
{
    if (size == 4)
        _mm512_mask_storeu_ps(d, there, v);
    else
        _mm256_mask_storeu_epi16(d, there, to_16(v, half));
}

/* Floats by arithmetic. Blocks of 16 pixels from the left of the result; mirrored, these come from the right of the
 * source. */
INLINE void store_lines(const struct leat_store *s, const uint8_t *src, size_t n, bool flip, uint8_t *const dst[4],
                        unsigned channels, unsigned size, bool planar)
{
    uintptr_t places = 0; /* the start of planes: whole cache lines can bypass the caches */
    for (unsigned k = 0; k < (planar ? channels : 1); k++)
        places |= (uintptr_t)dst[k];
    const bool stream = s->stream && size == 4 && !(places & 63);
    struct lines l;
    bool half = s->dtype == LEAT_F16;
    if (planar)
        make_planar_lines(s, channels, flip, &l);
    else
        make_lines(s, flip, &l);
    size_t whole = n / 16 * 16, pixel = s->pixel, i = 0;
    const uint64_t bytes_there = low_bits(16 * pixel);
    for (; i < whole; i += 16) {
        __m512i bytes = _mm512_maskz_loadu_epi8(bytes_there, src + (flip ? n - 16 - i : i) * pixel);
        LEAT_UNROLL
        for (unsigned k = 0; k < 4 && k < channels; k++) {
            uint8_t *d = planar ? dst[k] + i * size : dst[0] + (i * channels + 16 * k) * size;
            if (stream)
                _mm512_stream_ps((float *)(void *)d, line_values(&l, k, bytes));
            else
                put_values(d, line_values(&l, k, bytes), 0xffff, size, half);
        }
    }
    size_t rest = n - whole;
    if (!rest)
        return;
    /* the last pixels: shifted so that they lie at the end of a block that is read from the right, at its start else */
    uint8_t block[64] = {0};
    memcpy(block + (flip ? (16 - rest) * pixel : 0), src + (flip ? 0 : i) * pixel, rest * pixel);
    __m512i bytes = _mm512_loadu_si512(block);
    LEAT_UNROLL
    for (unsigned k = 0; k < 4 && k < channels; k++) {
        size_t values = planar ? rest : rest * channels > 16 * k ? rest * channels - 16 * k : 0;
        uint8_t *d = planar ? dst[k] + i * size : dst[0] + (i * channels + 16 * k) * size;
        put_values(d, line_values(&l, k, bytes), (__mmask16)low_bits(values < 16 ? values : 16), size, half);
    }
}

#define LINES(NAME, CHANNELS, SIZE, PLANAR)                                                                            \
    static TARGET void NAME(const struct leat_store *s, const uint8_t *src, size_t n, bool flip,                       \
                            uint8_t *const dst[4])                                                                     \
    {                                                                                                                  \
        store_lines(s, src, n, flip, dst, CHANNELS, SIZE, PLANAR);                                                     \
    }
LINES(lines_1_32, 1, 4, true)
LINES(lines_3_32_planar, 3, 4, true)
LINES(lines_3_32, 3, 4, false)
LINES(lines_1_16, 1, 2, true)
LINES(lines_3_16_planar, 3, 2, true)
LINES(lines_3_16, 3, 2, false)
static TARGET void lines_any(const struct leat_store *s, const uint8_t *src, size_t n, bool flip, uint8_t *const dst[4])
{
    store_lines(s, src, n, flip, dst, s->channels, s->size, s->planar);
}

/* Bytes as they are: blocks of 16 pixels permuted (mirrored, X dropped), or parted into planes. */
static TARGET void store_bytes(const struct leat_store *s, const uint8_t *src, size_t n, bool flip,
                               uint8_t *const dst[4])
{
    const unsigned channels = s->channels, pixel = s->pixel;
    uint8_t from[64] = {0};
    for (unsigned j = 0; j < 16 * channels; j++)
        from[j] = (uint8_t)byte_of(s, j, flip, 16);
    const __m512i order = _mm512_loadu_si512(from);
    const __mmask64 read = low_bits(16 * pixel), write = low_bits(16 * channels);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m512i v =
            _mm512_permutexvar_epi8(order, _mm512_maskz_loadu_epi8(read, src + (flip ? n - 16 - i : i) * pixel));
        if (!s->planar) {
            _mm512_mask_storeu_epi8(dst[0] + i * channels, write, v);
            continue;
        }
        _mm_storeu_si128((__m128i *)(dst[0] + i), _mm512_castsi512_si128(v));
        if (channels > 1)
            _mm_storeu_si128((__m128i *)(dst[1] + i), _mm512_extracti32x4_epi32(v, 1));
        if (channels > 2)
            _mm_storeu_si128((__m128i *)(dst[2] + i), _mm512_extracti32x4_epi32(v, 2));
        if (channels > 3)
            _mm_storeu_si128((__m128i *)(dst[3] + i), _mm512_extracti32x4_epi32(v, 3));
    }
    for (; i < n; i++)
        for (unsigned c = 0; c < channels; c++)
            *(s->planar ? dst[c] + i : dst[0] + i * channels + c) = src[(flip ? n - 1 - i : i) * pixel + c];
}

/* 16 pixels from 48 bytes; those behind them are read only if they belong to a next pixel. */
static TARGET void expand(const uint8_t *src, unsigned pixel, size_t n, uint8_t *dst)
{
    const __m512i three = _mm512_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45);
    const __m512i order =
        _mm512_add_epi32(_mm512_mullo_epi32(three, _mm512_set1_epi32(0x010101)), _mm512_set1_epi32(0x020100));
    const __m512i rest = _mm512_set1_epi32((int32_t)0xff000000u);
    size_t i = 0;
    for (; i + 22 <= n && pixel == 3; i += 16)
        _mm512_storeu_si512(dst + 4 * i, _mm512_mask_permutexvar_epi8(rest, UINT64_C(0x7777777777777777), order,
                                                                      _mm512_loadu_si512(src + 3 * i)));
    leat_kernels_avx2.expand(src + i * pixel, pixel, n - i, dst + 4 * i);
}

static leat_store_fn store(const struct leat_store *s)
{
    if (s->affine && s->size == 4)
        return s->channels == 1   ? lines_1_32
               : s->channels != 3 ? lines_any
               : s->planar        ? lines_3_32_planar
                                  : lines_3_32;
    if (s->affine && s->size == 2)
        return s->channels == 1   ? lines_1_16
               : s->channels != 3 ? lines_any
               : s->planar        ? lines_3_16_planar
                                  : lines_3_16;
    if (s->identity && s->pixel == 3 && s->channels == 3 && !s->planar)
        return leat_mirror_3_avx2;
    if (s->identity)
        return store_bytes;
    return leat_kernels_portable.store(s);
}

const struct leat_kernels leat_kernels_avx512 = {.isa = LEAT_ISA_AVX512,
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
