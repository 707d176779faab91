/* Lines of residues: residues.h. A line is mostly of 50 to 80 bytes, so its end counts as much as its middle: the last
 * register of a line overlaps the one before, as wider ones do not: AVX-512 gains nothing. */
#include "kernels/residues.h"

#include <string.h>

#include "base/cpu.h"

#define RANGE ('~' - '!')

LEAT_INLINE bool are_white(const uint8_t *p, size_t n)
{
    bool white = true;
    for (size_t i = 0; i < n; i++)
        white &= leat_is_white(p[i]);
    return white;
}

/* The hardware does not see beyond a page of 4 KiB: so far ahead lines are asked for, as long as there are so many. */
#define AHEAD 2048

/* Line by line: copy(to, from, n, &wrong) notes in `wrong`, which is 0 at first, what it finds. */
#define COPY_LINES(copy, wrong, is_good)                                                                               \
    for (;;) {                                                                                                         \
        if (n && left == line && *from == mark)                                                                        \
            return false;                                                                                              \
        const size_t part = n < left ? n : left;                                                                       \
        if (n > AHEAD)                                                                                                 \
            __builtin_prefetch(from + AHEAD);                                                                          \
        copy(to, from, part, &wrong);                                                                                  \
        if (!(n -= part))                                                                                              \
            return is_good(wrong);                                                                                     \
        to += part;                                                                                                    \
        from += part;                                                                                                  \
        if (!(between == 1 ? *from == '\n' || leat_is_white(*from) : are_white(from, between)))                        \
            return false;                                                                                              \
        from += between;                                                                                               \
        left = line;                                                                                                   \
    }

/* Bits of 0x80 where one of eight bytes is no residue. */
LEAT_INLINE uint64_t wrong_8(uint64_t x)
{
    const uint64_t low = UINT64_C(0x7f7f7f7f7f7f7f7f), seven = x & low;
    return (x | ~(seven + (0x80 - '!') * (low / 0x7f)) | (seven + (0x7f - '~') * (low / 0x7f))) & ~low;
}

LEAT_INLINE void copy_plain(uint8_t *restrict to, const uint8_t *restrict from, size_t n, uint64_t *wrong)
{
    uint64_t x;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        memcpy(&x, from + i, 8);
        memcpy(to + i, &x, 8);
        *wrong |= wrong_8(x);
    }
    for (; i < n; i++) {
        to[i] = from[i];
        *wrong |= !leat_is_residue(from[i]);
    }
}

bool leat_residues_are(const uint8_t *p, size_t n)
{
    uint64_t wrong = 0, x;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        memcpy(&x, p + i, 8);
        wrong |= wrong_8(x);
    }
    for (; i < n; i++)
        wrong |= !leat_is_residue(p[i]);
    return !wrong;
}

bool leat_residues_copy_portable(uint8_t *to, const uint8_t *from, size_t n, size_t left, size_t line, size_t between,
                                 uint8_t mark)
{
    uint64_t wrong = 0;
    COPY_LINES(copy_plain, wrong, !)
}

#if defined(__x86_64__)
#include <immintrin.h>

/* Notes the bytes that are no residues. */
LEAT_TARGET_AVX2 static inline void note_wrong(__m256i *wrong, __m256i x)
{
    x = _mm256_subs_epu8(_mm256_sub_epi8(x, _mm256_set1_epi8('!')), _mm256_set1_epi8(RANGE));
    *wrong = _mm256_or_si256(*wrong, x);
}

LEAT_TARGET_AVX2 static inline bool is_zero(__m256i x)
{
    return _mm256_testz_si256(x, x);
}

/* Less than a register: by two halves that overlap. */
LEAT_TARGET_AVX2 static inline void copy_short(uint8_t *to, const uint8_t *from, size_t n, __m256i *wrong)
{
    if (n >= 16) {
        const __m128i first = _mm_loadu_si128((const void *)from),
                      last = _mm_loadu_si128((const void *)(from + n - 16));
        note_wrong(wrong, _mm256_set_m128i(first, last));
        _mm_storeu_si128((void *)to, first);
        _mm_storeu_si128((void *)(to + n - 16), last);
    } else {
        uint64_t bits = 0;
        copy_plain(to, from, n, &bits);
        *wrong = _mm256_or_si256(*wrong, _mm256_set1_epi64x((long long)bits));
    }
}

LEAT_TARGET_AVX2 static inline void copy_avx2(uint8_t *to, const uint8_t *from, size_t n, __m256i *wrong)
{
    if (n < 32) {
        copy_short(to, from, n, wrong);
        return;
    }
    const __m256i last = _mm256_loadu_si256((const void *)(from + n - 32));
    note_wrong(wrong, last);
    for (size_t i = 0; i + 32 < n; i += 32) {
        const __m256i x = _mm256_loadu_si256((const void *)(from + i));
        _mm256_storeu_si256((void *)(to + i), x);
        note_wrong(wrong, x);
    }
    _mm256_storeu_si256((void *)(to + n - 32), last);
}

LEAT_TARGET_AVX2 bool leat_residues_copy_avx2(uint8_t *to, const uint8_t *from, size_t n, size_t left, size_t line,
                                              size_t between, uint8_t mark)
{
    __m256i wrong = _mm256_setzero_si256();
    COPY_LINES(copy_avx2, wrong, is_zero)
}

#else

bool leat_residues_copy_avx2(uint8_t *to, const uint8_t *from, size_t n, size_t left, size_t line, size_t between,
                             uint8_t mark)
{
    return leat_residues_copy_portable(to, from, n, left, line, between);
}

#endif

bool leat_residues_copy(uint8_t *to, const uint8_t *from, size_t n, size_t left, size_t line, size_t between,
                        uint8_t mark)
{
    return (leat_cpu_isa() >= LEAT_ISA_AVX2 ? leat_residues_copy_avx2
                                            : leat_residues_copy_portable)(to, from, n, left, line, between, mark);
}
