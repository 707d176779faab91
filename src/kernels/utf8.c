/*
 * UTF-8 by looking things up, as Keiser and Lemire describe it (Validating UTF-8 in less than one instruction per byte,
 * 2021): an error of two neighbouring bytes follows from three of their half bytes. Each half byte gives the set of
 * faults that it allows, and a fault that all three allow is one.
 *
 *     first byte     high half -> set \
 *                    low half  -> set  > and = faults of the pair
 *     second byte    high half -> set /
 *
 * Two bytes that continue a character are a fault too, unless the byte two or three before begins one of three or four.
 */
#include "kernels/utf8.h"

#include <string.h>

#include "base/cpu.h"

bool leat_utf8_is_valid_portable(const uint8_t *p, size_t n)
{
    const uint8_t *const end = p + n;
    while (p < end) {
        uint64_t word;
        if (end - p >= 8) {
            memcpy(&word, p, sizeof word);
            if (!(word & UINT64_C(0x8080808080808080))) {
                p += 8;
                continue;
            }
        }
        const uint8_t c = *p;
        if (c < 0x80) {
            p++;
            continue;
        }
        const size_t bytes = c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
        if (!bytes || (size_t)(end - p) < bytes || (p[1] & 0xc0) != 0x80 || (c == 0xe0 && p[1] < 0xa0) ||
            (c == 0xed && p[1] >= 0xa0) || (c == 0xf0 && p[1] < 0x90) || (c == 0xf4 && p[1] >= 0x90) ||
            (bytes > 2 && (p[2] & 0xc0) != 0x80) || (bytes > 3 && (p[3] & 0xc0) != 0x80))
            return false;
        p += bytes;
    }
    return true;
}

#if defined(__x86_64__)

#include <immintrin.h>

enum {
    SHORT = 1,       /* a character begins, and the next byte does not continue it */
    LONG = 2,        /* ASCII, and the next byte continues something */
    OVERLONG_3 = 4,  /* e0 and 80 to 9f */
    TOO_LARGE = 8,   /* f4 and 90 or more, or f5 and more */
    SURROGATE = 16,  /* ed and a0 or more */
    OVERLONG_2 = 32, /* c0 or c1 */
    LARGE_8 = 64,    /* f5 or more and 80 to 8f; also f0 and 80 to 8f */
    OVERLONG_4 = 64,
    TWO = 128, /* both continue something */
    ANY_LOW = SHORT | LONG | TWO
};

#define HALF_BYTES(...) _mm256_setr_epi8(__VA_ARGS__, __VA_ARGS__)
#define SET(x) (char)(x)

/* The bytes `back` before those of `now`. */
#define BEFORE(now, last, back) _mm256_alignr_epi8(now, _mm256_permute2x128_si256(last, now, 0x21), 16 - (back))

LEAT_TARGET_AVX2 static inline __m256i faults_of(__m256i now, __m256i last)
{
    const __m256i by_first_high =
        HALF_BYTES(SET(LONG), SET(LONG), SET(LONG), SET(LONG), SET(LONG), SET(LONG), SET(LONG), SET(LONG), SET(TWO),
                   SET(TWO), SET(TWO), SET(TWO), SET(SHORT | OVERLONG_2), SET(SHORT),
                   SET(SHORT | OVERLONG_3 | SURROGATE), SET(SHORT | TOO_LARGE | LARGE_8 | OVERLONG_4));
    const __m256i by_first_low = HALF_BYTES(
        SET(ANY_LOW | OVERLONG_3 | OVERLONG_2 | OVERLONG_4), SET(ANY_LOW | OVERLONG_2), SET(ANY_LOW), SET(ANY_LOW),
        SET(ANY_LOW | TOO_LARGE), SET(ANY_LOW | TOO_LARGE | LARGE_8), SET(ANY_LOW | TOO_LARGE | LARGE_8),
        SET(ANY_LOW | TOO_LARGE | LARGE_8), SET(ANY_LOW | TOO_LARGE | LARGE_8), SET(ANY_LOW | TOO_LARGE | LARGE_8),
        SET(ANY_LOW | TOO_LARGE | LARGE_8), SET(ANY_LOW | TOO_LARGE | LARGE_8), SET(ANY_LOW | TOO_LARGE | LARGE_8),
        SET(ANY_LOW | TOO_LARGE | LARGE_8 | SURROGATE), SET(ANY_LOW | TOO_LARGE | LARGE_8),
        SET(ANY_LOW | TOO_LARGE | LARGE_8));
    const __m256i by_second_high = HALF_BYTES(
        SET(SHORT), SET(SHORT), SET(SHORT), SET(SHORT), SET(SHORT), SET(SHORT), SET(SHORT), SET(SHORT),
        SET(LONG | OVERLONG_2 | TWO | OVERLONG_3 | LARGE_8 | OVERLONG_4),
        SET(LONG | OVERLONG_2 | TWO | OVERLONG_3 | TOO_LARGE), SET(LONG | OVERLONG_2 | TWO | SURROGATE | TOO_LARGE),
        SET(LONG | OVERLONG_2 | TWO | SURROGATE | TOO_LARGE), SET(SHORT), SET(SHORT), SET(SHORT), SET(SHORT));
    const __m256i half = _mm256_set1_epi8(0x0f), first = BEFORE(now, last, 1);
    const __m256i pairs = _mm256_and_si256(
        _mm256_and_si256(_mm256_shuffle_epi8(by_first_high, _mm256_and_si256(_mm256_srli_epi16(first, 4), half)),
                         _mm256_shuffle_epi8(by_first_low, _mm256_and_si256(first, half))),
        _mm256_shuffle_epi8(by_second_high, _mm256_and_si256(_mm256_srli_epi16(now, 4), half)));
    /* The highest bit is set if a byte must be the third or fourth of a character: there TWO is right, elsewhere
     * wrong. */
    const __m256i third = _mm256_subs_epu8(BEFORE(now, last, 2), _mm256_set1_epi8((char)(0xe0 - 0x80))),
                  fourth = _mm256_subs_epu8(BEFORE(now, last, 3), _mm256_set1_epi8((char)(0xf0 - 0x80)));
    return _mm256_xor_si256(_mm256_and_si256(_mm256_or_si256(third, fourth), _mm256_set1_epi8((char)0x80)), pairs);
}

LEAT_TARGET_AVX2 bool leat_utf8_is_valid_avx2(const uint8_t *text, size_t n)
{
    __m256i last = _mm256_setzero_si256(), faults = last;
    uint8_t rest[64] = {0}; /* zeros behind the end: a character that is cut off is followed by ASCII */
    size_t at = 0;
    for (; at + 32 <= n; at += 32) {
        const __m256i now = _mm256_loadu_si256((const void *)(text + at));
        if (_mm256_movemask_epi8(_mm256_or_si256(now, last))) /* else both are ASCII */
            faults = _mm256_or_si256(faults, faults_of(now, last));
        last = now;
    }
    if (n > at)
        memcpy(rest, text + at, n - at);
    const __m256i now = _mm256_loadu_si256((const void *)rest), zero = _mm256_setzero_si256();
    faults = _mm256_or_si256(faults, faults_of(now, last));
    faults = _mm256_or_si256(faults, faults_of(zero, now));
    return _mm256_testz_si256(faults, faults);
}

bool leat_utf8_is_valid(const uint8_t *text, size_t n)
{
    return leat_cpu_isa() >= LEAT_ISA_AVX2 ? leat_utf8_is_valid_avx2(text, n) : leat_utf8_is_valid_portable(text, n);
}

#else

bool leat_utf8_is_valid_avx2(const uint8_t *text, size_t n)
{
    return leat_utf8_is_valid_portable(text, n);
}

bool leat_utf8_is_valid(const uint8_t *text, size_t n)
{
    return leat_utf8_is_valid_portable(text, n);
}

#endif
