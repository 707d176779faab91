/*
 * The inverse DCTs in vectors, a block in each lane of 128 bits: included by idct_portable.c (one lane), idct_avx2.c
 * (two) and idct_avx512.c (four).
 *
 * A pass is computed from its definition: each output is the sum of four products of even inputs and of four of odd
 * ones, added up two at a time out of registers of pairs, (0, 4), (1, 5), (2, 6) and (3, 7). The inputs of the first
 * pass are multiplied by 16 and all weights by 2, so that the 16 bits that a sum is rounded to are the upper half of
 * its 32; the upper halves of columns c and c + 4 make one register again, whose transpose holds the pairs of the
 * second pass.
 *
 *     blocks                          pairs of rows, lane = block        sums, rounded, two to a register       out
 *     +----+----+----+----+  x quant  +--------------------------+ pass  +---------------------------+  again   8 rows
 *     | r0 | r1 | r2 | r3 |  unpack,  | (r0,r4) c0 c1 c2 c3 | .. |  ->   | row r: (c0,c4) ... (c3,c7) |   ->    of 8
 *     +----+----+----+----+  lanes    +--------------------------+       +---------------------------+          a lane
 *
 * libjpeg-turbo's vector code wraps and saturates at 16 bits in some places of a pass; this has other places. So it
 * does only groups in which nothing reaches 16 bits: coefficients within MOST1 after dequantisation (photos' are within
 * 1024) and within MOST2 between the passes. Plain C does the others.
 *
 * Definitions of including files, for vectors of LANES lanes and 16-bit words unless it says otherwise:
 *
 *     LANES, IDCT, TARGET, INLINE       lanes; the table of functions that is filled; what functions are compiled for
 *     times(x, lo, hi)                  of each pair lo * first + hi * second, as 32 bits
 *     times_to(sum, x, lo, hi)          the same added to 32-bit sums; or nothing, then these are made of `times`
 *     plus_minus(sum, x, lo, hi, p, m)  p: the same; m: subtracted from them
 *     LOW16 HIGH16 LOW32 HIGH32 LOW64   interleave elements of so many bits of the lower or upper halves of the lanes
 *     HIGH64                            of two registers
 *     upper(lo, hi)                     the upper halves of 32-bit sums, of lo in the lower half
 *     pack(a, b)                        of a lane, a and b clamped to bytes
 *     any_of(x, bits)                   whether one of these bits is set in one of the words
 *     turn(x)                           element i of lane j of LANES registers becomes that of lane i of register j
 *     low_pairs(k, quant, p)            rows 0 to 3 of dequantised coefficients of columns 0 to 3: pairs of rows (0, 2)
 *                                       in p[0], (1, 3) in p[1]
 *     columns_apart(x, y, p)            of pairs of rows, x (0, 1) and y (2, 3), the pairs of columns: (0, 2) in p[0],
 *                                       (1, 3) in p[1]
 *     put8(w, out, stride)              four rows of eight samples, w[i] holding columns 2 i, 2 i + 1 of four rows
 *     put4(rows, out, stride)           four rows of four: bytes of columns 0 and 1 of four rows, 2 and 3
 *     put2(left, right, out, stride)    32-bit samples, not clamped: elements 0 and 1 are those of rows 0 and 1
 *     put_dc(k, quant, S, out, stride)  all samples of blocks that hold only DC. False: not done
 */
#ifndef times_to
#define times_to(sum, x, lo, hi) ((sum) + times(x, lo, hi))
#define plus_minus(sum, x, lo, hi, plus, minus)                                                                        \
    do {                                                                                                               \
        longs product_ = times(x, lo, hi);                                                                             \
        plus = (sum) + product_;                                                                                       \
        minus = (sum)-product_;                                                                                        \
    } while (0)
#endif

INLINE words load_words(const void *p)
{
    words x;
    memcpy(&x, p, sizeof x);
    return x;
}

#ifdef V
/* Operations of x86-64 that both widths have. */
#define W(f, a, b) ((words)V(f)((vec)(a), (vec)(b)))
#define LOW16(a, b) W(unpacklo_epi16, a, b)
#define HIGH16(a, b) W(unpackhi_epi16, a, b)
#define LOW32(a, b) W(unpacklo_epi32, a, b)
#define HIGH32(a, b) W(unpackhi_epi32, a, b)
#define LOW64(a, b) W(unpacklo_epi64, a, b)
#define HIGH64(a, b) W(unpackhi_epi64, a, b)
#define pack(a, b) W(packus_epi16, a, b)

/* A sample of each block that holds only DC. The shift wraps, as that of the vector code that is the measure does. */
INLINE __m128i dc_samples(const int16_t *k, uint32_t quant)
{
    __m128i dc = _mm_set_epi16(0, 0, 0, 0, LANES > 2 ? k[192] : 0, LANES > 2 ? k[128] : 0, k[64], k[0]);
    dc = _mm_slli_epi16(_mm_mullo_epi16(dc, _mm_set1_epi16((short)quant)), PASS1_BITS);
    dc = _mm_srai_epi32(_mm_add_epi32(_mm_cvtepi16_epi32(dc), _mm_set1_epi32((128 << 5) + 16)), 5);
    return _mm_packus_epi16(_mm_packs_epi32(dc, dc), dc);
}

INLINE bool put_dc(const int16_t *k, uint32_t quant, size_t S, uint8_t *out, size_t stride)
{
    const __m256i row = _mm256_broadcastsi128_si256(dc_samples(k, quant));
    const __m256i row8 =
        _mm256_shuffle_epi8(row, _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0));
    const __m128i row4 =
        _mm_shuffle_epi8(_mm256_castsi256_si128(row), _mm_set_epi32(0x03030303, 0x02020202, 0x01010101, 0));
    LEAT_UNROLL
    for (size_t r = 0; r < S; r++, out += stride)
        if (S == 8 && LANES > 2)
            _mm256_storeu_si256((void *)out, row8);
        else if (S == 8 || LANES > 2)
            _mm_storeu_si128((void *)out, S == 8 ? _mm256_castsi256_si128(row8) : row4);
        else
            _mm_storel_epi64((void *)out, row4);
    return true;
}
#endif

/* Whether one of x[0] to x[n - 1] is outside [-most, most). */
INLINE bool beyond(const words *x, int n, int most)
{
    uwords any = {0};
    LEAT_UNROLL
    for (int i = 0; i < n; i++)
        any |= (uwords)x[i] + (uint16_t)most;
    return __builtin_expect(any_of((words)any, (int16_t) ~(2 * most - 1)), 0);
}

INLINE words times_16(words x)
{
    return (words)((uwords)x << 4);
}

INLINE void butterfly(const longs e[4], const longs o[4], longs out[8])
{
    out[0] = e[0] + o[0], out[7] = e[0] - o[0];
    out[1] = e[1] + o[1], out[6] = e[1] - o[1];
    out[2] = e[2] + o[2], out[5] = e[2] - o[2];
    out[3] = e[3] + o[3], out[4] = e[3] - o[3];
}

/* One dimension of the columns whose rows come as p[i] = (i, i + 4). */
INLINE void pass(const words p[4], int round, longs out[8])
{
    const longs r = (longs){0} + round;
    longs sum = times_to(r, p[0], EVEN_0, EVEN_0), difference = times_to(r, p[0], EVEN_0, -EVEN_0), e[4], o[4];
    plus_minus(sum, p[2], EVEN_0_2, EVEN_0_6, e[0], e[3]);
    plus_minus(difference, p[2], EVEN_1_2, EVEN_1_6, e[1], e[2]);
    o[0] = times_to(times(p[1], ODD_0_1, ODD_0_5), p[3], ODD_0_3, ODD_0_7);
    o[1] = times_to(times(p[1], ODD_1_1, ODD_1_5), p[3], ODD_1_3, ODD_1_7);
    o[2] = times_to(times(p[1], ODD_2_1, ODD_2_5), p[3], ODD_2_3, ODD_2_7);
    o[3] = times_to(times(p[1], ODD_3_1, ODD_3_5), p[3], ODD_3_3, ODD_3_7);
    butterfly(e, o, out);
}

/* The same if rows 4 to 7 are zero: p[0] = (0, 2), p[1] = (1, 3). */
INLINE void pass_low(const words p[2], int round, longs out[8])
{
    const longs r = (longs){0} + round;
    longs e[4] = {times_to(r, p[0], EVEN_0, EVEN_0_2), times_to(r, p[0], EVEN_0, EVEN_1_2),
                  times_to(r, p[0], EVEN_0, -EVEN_1_2), times_to(r, p[0], EVEN_0, -EVEN_0_2)};
    longs o[4] = {times(p[1], ODD_0_1, ODD_0_3), times(p[1], ODD_1_1, ODD_1_3), times(p[1], ODD_2_1, ODD_2_3),
                  times(p[1], ODD_3_1, ODD_3_3)};
    butterfly(e, o, out);
}

/* Four rows out of o[c], which has a row in each 32 bits and a block in each lane. */
INLINE void store(const longs o[8], uint8_t *out, size_t stride)
{
    const words w[4] = {upper(o[0], o[1]) >> LEFT, upper(o[2], o[3]) >> LEFT, upper(o[4], o[5]) >> LEFT,
                        upper(o[6], o[7]) >> LEFT};
    put8(w, out, stride);
}

/* For every lane: x[i], 32-bit element j becomes p[j], element i. */
INLINE void transpose(const words x[4], words p[4])
{
    words a = LOW32(x[0], x[1]), b = LOW32(x[2], x[3]), c = HIGH32(x[0], x[1]), d = HIGH32(x[2], x[3]);
    p[0] = LOW64(a, b), p[1] = HIGH64(a, b), p[2] = LOW64(c, d), p[3] = HIGH64(c, d);
}

/* LANES blocks as pairs of rows of dequantised coefficients times 16: p[i] = (i, i + 4) of columns 0 to 3, p[4 + i] of
 * the others, a block in each lane. False if values are too large. */
INLINE bool dequantise(const int16_t *k, const uint16_t quant[64], words p[8])
{
    words x[8];
    LEAT_UNROLL
    for (int i = 0; i < 8; i++) { /* block b, rows LANES * g and on */
        const int b = i % LANES, g = i / LANES;
        x[i] = (words)((uwords)load_words(k + 64 * b + 8 * LANES * g) * (uwords)load_words(quant + 8 * LANES * g));
    }
    if (beyond(x, 8, MOST1))
        return false;
    LEAT_UNROLL
    for (int i = 0; i < 8; i++)
        x[i] = times_16(x[i]);
    LEAT_UNROLL
    for (int i = 0; i < 4; i++)
        p[i] = LOW16(x[i], x[i + 4]), p[4 + i] = HIGH16(x[i], x[i + 4]);
    LEAT_UNROLL
    for (int i = 0; i < 8; i += LANES)
        turn(p + i);
    return true;
}

/* LANES blocks; false, without a write, if values are too large. */
INLINE bool all8(const int16_t *k, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    words p[8], x[8];
    longs a[8], b[8];
    if (!dequantise(k, quant, p))
        return false;
    pass(p, ROUND1, a);
    pass(p + 4, ROUND1, b);
    LEAT_UNROLL
    for (int r = 0; r < 8; r++)
        x[r] = upper(a[r], b[r]); /* columns (i, i + 4) */
    if (beyond(x, 8, MOST2))
        return false;
    LEAT_UNROLL
    for (size_t r = 0; r < 8; r += 4) {
        transpose(x + r, p);
        pass(p, ROUND2, b);
        store(b, out + r * stride, stride);
    }
    return true;
}

/* Blocks that hold nothing outside rows and columns 0 to 3. */
INLINE bool low8(const int16_t *k, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    words x[4], p[2];
    longs a[8], b[8];
    low_pairs(k, quant, p);
    if (beyond(p, 2, MOST1))
        return false;
    p[0] = times_16(p[0]), p[1] = times_16(p[1]);
    pass_low(p, ROUND1, a);
    LEAT_UNROLL
    for (int i = 0; i < 4; i++)
        x[i] = upper(a[2 * i], a[2 * i + 1]); /* (row 2 i, row 2 i + 1) of columns 0 to 3 */
    if (beyond(x, 4, MOST2))
        return false;
    LEAT_UNROLL
    for (size_t i = 0; i < 2; i++) {
        columns_apart(x[2 * i], x[2 * i + 1], p);
        pass_low(p, ROUND2, b);
        store(b, out + 4 * i * stride, stride);
    }
    return true;
}

/* ---- 4 samples of 8 ---- */

INLINE void pass4(const words p[4], int round, longs out[4])
{
    longs sum = times_to((longs){0} + round, p[0], EVEN_0, 0), e0, e1;
    plus_minus(sum, p[2], EVEN4_2, EVEN4_6, e0, e1);
    longs o0 = times_to(times(p[1], ODD4_0_1, ODD4_0_5), p[3], ODD4_0_3, ODD4_0_7);
    longs o1 = times_to(times(p[1], ODD4_1_1, ODD4_1_5), p[3], ODD4_1_3, ODD4_1_7);
    out[0] = e0 + o0, out[3] = e0 - o0;
    out[1] = e1 + o1, out[2] = e1 - o1;
}

INLINE bool all4(const int16_t *k, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    words p[8], x[4];
    longs a[4], b[4];
    if (!dequantise(k, quant, p))
        return false;
    pass4(p, ROUND1, a);
    pass4(p + 4, ROUND1, b);
    LEAT_UNROLL
    for (int r = 0; r < 4; r++)
        x[r] = upper(a[r], b[r]);
    transpose(x, p);
    pass4(p, ROUND2, a);
    put4(pack(upper(a[0], a[1]) >> LEFT, upper(a[2], a[3]) >> LEFT), out, stride);
    return true;
}

/* ---- 2 samples of 8 ---- */

INLINE longs odd2(words p1, words p3)
{
    return times_to(times(p1, ODD2_1, ODD2_5), p3, ODD2_3, ODD2_7);
}

INLINE longs even2(words p0, int round)
{
    return times_to(times_to((longs){0} + round, p0, EVEN_0, 0), p0, EVEN_0, 0);
}

INLINE bool all2(const int16_t *k, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    words p[8];
    if (!dequantise(k, quant, p))
        return false;
    longs e = even2(p[0], ROUND1_2), f = even2(p[4], ROUND1_2), o = odd2(p[1], p[3]), q = odd2(p[5], p[7]);
    words row0 = upper(e + o, f + q) >> 1, row1 = upper(e - o, f - q) >> 1;
    words p01 = LOW32(row0, row1), p23 = HIGH32(row0, row1); /* two rows of (0, 4), of (1, 5); (3, 7) */
    /* the upper halves of lanes hold the inputs of the odd part */
    longs even = even2(LOW64(p01, p01), ROUND2_2), odd = odd2(HIGH64(p01, p01), HIGH64(p23, p23));
    put2((even + odd) >> DOWN2_2, (even - odd) >> DOWN2_2, out, stride);
    return true;
}

/* ---- rows ---- */

/* LANES blocks, S samples across each; `ends` has a byte of `last` for each of them. */
INLINE void some(size_t S, const int16_t *k, uint32_t ends, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    uint8_t last[4];
    bool low = !((ends + 0x01010101 * (127 - LAST_LOW)) & 0x80808080);
    if (!ends && S > 2 ? put_dc(k, quant[0], S, out, stride)
        : S == 8       ? (low ? low8 : all8)(k, quant, out, stride)
                       : (S == 4 ? all4 : all2)(k, quant, out, stride))
        return;
    memcpy(last, &ends, 4);
    const struct leat_jpeg_idct *plain = &leat_jpeg_idct_plain;
    (S == 8 ? plain->samples8 : S == 4 ? plain->samples4 : plain->samples2)(k, last, LANES, quant, out, stride);
}

INLINE uint32_t ends_of(const uint8_t *last)
{
    return LANES == 1 ? last[0] : LANES == 2 ? leat_get_u16(last) : leat_get_u32(last);
}

INLINE void in_row(size_t S, const int16_t *coefficients, const uint8_t *last, size_t n, const uint16_t quant[64],
                   uint8_t *out, size_t stride)
{
    _Alignas(64) int16_t few[LANES * 64];
    uint8_t few_last[LANES];
    if (n < LANES) { /* behind the row there is room for samples, but there are no coefficients */
        memset(few, 0, sizeof few);
        memset(few_last, 0, sizeof few_last);
        coefficients = memcpy(few, coefficients, n * 128);
        last = memcpy(few_last, last, n);
        n = LANES;
    }
    for (size_t i = 0; i < n; i += LANES) {
        const size_t at = LANES == 1 || i + LANES <= n ? i : n - LANES; /* the last: some blocks once more */
        some(S, coefficients + 64 * at, ends_of(last + at), quant, out + S * at, stride);
    }
}

#define SAMPLES(S)                                                                                                     \
    TARGET static void samples##S(const int16_t *coefficients, const uint8_t *last, size_t n,                          \
                                  const uint16_t quant[64], uint8_t *out, size_t stride)                               \
    {                                                                                                                  \
        in_row(S, coefficients, last, n, quant, out, stride);                                                          \
    }
SAMPLES(8)
SAMPLES(4)
SAMPLES(2)

const struct leat_jpeg_idct IDCT = {samples8, samples4, samples2, leat_jpeg_idct_samples1};
