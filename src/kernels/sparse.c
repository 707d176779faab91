/* Sets of columns: sparse.h. The portable variants count bits by a call, the others by an instruction. */
#include "kernels/sparse.h"

#include <string.h>

#include "base/cpu.h"
#include "base/role.h"

/* gcc makes vectors of loops at -O3. */
#if !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#define BLOCK 128 /* columns that are compared without a branch, for vectors */

LEAT_INLINE bool rise(const uint8_t *columns, size_t n)
{
    int32_t bad = 0;
    for (size_t k = 0, end; k + 1 < n && !bad; k = end) {
        end = n - 1 - k < BLOCK ? n - 1 : k + BLOCK;
        for (size_t i = k; i < end; i++) {
            int32_t a, b;
            memcpy(&a, columns + i * sizeof a, sizeof a);
            memcpy(&b, columns + (i + 1) * sizeof b, sizeof b);
            bad |= a >= b ? 1 : 0;
        }
    }
    return !bad;
}

/* Bits above the 31st are looked at together, so that the loop has no branch; those below 0 have them, too. Columns may
 * lie anywhere, and change meanwhile, in a file that is mapped: those that were found good are those that were taken.
 */
#define TAKE(type)                                                                                                     \
    {                                                                                                                  \
        uint64_t high = 0;                                                                                             \
        uint32_t largest = 0;                                                                                          \
        type column;                                                                                                   \
        for (size_t k = 0; k < n; k++) {                                                                               \
            memcpy(&column, from + k * sizeof column, sizeof column);                                                  \
            const uint32_t low = (uint32_t)column;                                                                     \
            high |= sizeof(type) == 8 ? (uint64_t)column : 0;                                                          \
            largest = low > largest ? low : largest;                                                                   \
            to[k] = (int32_t)low;                                                                                      \
        }                                                                                                              \
        if (!(high >> 31) && largest < most)                                                                           \
            return n;                                                                                                  \
        for (size_t k = 0; k < n; k++) {                                                                               \
            memcpy(&column, from + k * sizeof column, sizeof column);                                                  \
            if ((uint64_t)column >= most)                                                                              \
                return k;                                                                                              \
        }                                                                                                              \
        return 0; /* it has changed */                                                                                 \
    }

LEAT_INLINE size_t take(enum leat_dtype dtype, const void *stored, size_t n, uint64_t most, int32_t *restrict to)
{
    const uint8_t *from = stored;
    switch (dtype) {
    case LEAT_I8:
        TAKE(int8_t)
    case LEAT_U8:
        TAKE(uint8_t)
    case LEAT_I16:
        TAKE(int16_t)
    case LEAT_U16:
        TAKE(uint16_t)
    case LEAT_I32:
        TAKE(int32_t)
    case LEAT_U32:
        TAKE(uint32_t)
    case LEAT_I64:
        TAKE(int64_t)
    default:
        TAKE(uint64_t)
    }
}

LEAT_INLINE size_t collect(struct leat_column_word *words, size_t n_words, const int32_t *columns, size_t n)
{
    memset(words, 0, n_words * sizeof *words);
    for (size_t k = 0; k < n; k++)
        words[(uint32_t)columns[k] >> 6].bits |= UINT64_C(1) << (columns[k] & 63);
    uint64_t before = 0;
    for (size_t w = 0; w < n_words; w++) {
        words[w].before = before;
        before += (uint64_t)__builtin_popcountll(words[w].bits);
    }
    return (size_t)before;
}

#define PART 8 /* columns at least, on average: those of a vector */

#define PAIRS 64 /* neighbours that are compared at a time, without a branch for each */

/* Bit i: column i is below the next one. *equal: some column is as the next one. */
LEAT_INLINE uint64_t compare_pairs(const int32_t *columns, size_t n, bool *equal)
{
    uint64_t below = 0;
    for (size_t i = 0; i < n; i++) {
        below |= (uint64_t)(columns[i] < columns[i + 1]) << i;
        *equal |= columns[i] == columns[i + 1];
    }
    return below;
}

/* A column that is as the one before is left to others, who say so. */
LEAT_INLINE size_t parts(const int32_t *columns, size_t n, uint32_t *ends,
                         uint64_t (*compare)(const int32_t *columns, size_t n, bool *equal))
{
    size_t found = 0, begin = 0;
    int32_t above = -1;
    bool equal = false;
    for (size_t k = 0; k < n; k += PAIRS) {
        const size_t left = n - 1 - k;
        uint64_t bits = compare(columns + k, left < PAIRS ? left : PAIRS, &equal);
        if (left < PAIRS)
            bits |= UINT64_C(1) << left;
        for (; bits; bits &= bits - 1) {
            const size_t end = k + (size_t)__builtin_ctzll(bits) + 1;
            if (columns[end - 1] <= above)
                return 0;
            above = columns[begin];
            begin = end;
            ends[found++] = (uint32_t)end;
        }
        if (equal || found * PART > k + PAIRS + PART)
            return 0;
    }
    return found;
}

/* `item` is a constant where this is called. */
LEAT_INLINE void turn_items(const uint8_t *from, const uint32_t *ends, size_t n_parts, size_t item, uint8_t *to)
{
    for (size_t p = 0, begin = 0; p < n_parts; begin = ends[p++])
        for (size_t k = ends[p]; k-- > begin; to += item)
            memcpy(to, from + k * item, item);
}

LEAT_INLINE void turn(const uint8_t *from, const uint32_t *ends, size_t n_parts, size_t item, uint8_t *to)
{
    switch (item) {
    case 1:
        turn_items(from, ends, n_parts, 1, to);
        break;
    case 2:
        turn_items(from, ends, n_parts, 2, to);
        break;
    case 4:
        turn_items(from, ends, n_parts, 4, to);
        break;
    default:
        turn_items(from, ends, n_parts, 8, to);
    }
}

size_t leat_columns_twice(struct leat_column_word *words, size_t n_words, const int32_t *columns, size_t n)
{
    size_t k = 0;
    memset(words, 0, n_words * sizeof *words);
    for (; k < n; k++) {
        uint64_t *bits = &words[(uint32_t)columns[k] >> 6].bits;
        const uint64_t bit = UINT64_C(1) << (columns[k] & 63);
        if (*bits & bit)
            break;
        *bits |= bit;
    }
    return k;
}

/* `item` and `placed` are constants where this is called. */
LEAT_INLINE void put_items(const struct leat_column_word *words, const int32_t *columns, const uint32_t *places,
                           const uint8_t *values, size_t item, bool placed, size_t n, uint8_t *to)
{
    for (size_t k = 0; k < n; k++) {
        const uint32_t column = (uint32_t)columns[k];
        const struct leat_column_word *w = &words[column >> 6];
        const uint64_t up_to = w->bits << (~column & 63); /* shifts take a number modulo 64: one instruction */
        const size_t rank = (size_t)w->before + (size_t)__builtin_popcountll(up_to) - 1;
        memcpy(to + rank * item, values + (placed ? places[k] : k) * item, item);
        memcpy(to + n * item + rank * sizeof column, &column, sizeof column);
    }
}

LEAT_INLINE void put(const struct leat_column_word *words, const int32_t *columns, const uint32_t *places,
                     const uint8_t *values, size_t item, size_t n, uint8_t *to)
{
    switch (item) {
    case 1:
        places ? put_items(words, columns, places, values, 1, true, n, to)
               : put_items(words, columns, NULL, values, 1, false, n, to);
        break;
    case 2:
        places ? put_items(words, columns, places, values, 2, true, n, to)
               : put_items(words, columns, NULL, values, 2, false, n, to);
        break;
    case 4:
        places ? put_items(words, columns, places, values, 4, true, n, to)
               : put_items(words, columns, NULL, values, 4, false, n, to);
        break;
    default:
        places ? put_items(words, columns, places, values, 8, true, n, to)
               : put_items(words, columns, NULL, values, 8, false, n, to);
    }
}

static uint64_t compare_portable(const int32_t *columns, size_t n, bool *equal)
{
    return compare_pairs(columns, n, equal);
}

static size_t parts_portable(const int32_t *columns, size_t n, uint32_t *ends)
{
    return parts(columns, n, ends, compare_portable);
}

static bool rise_portable(const uint8_t *columns, size_t n)
{
    return rise(columns, n);
}

static size_t take_portable(enum leat_dtype dtype, const void *stored, size_t n, uint64_t most, int32_t *to)
{
    return take(dtype, stored, n, most, to);
}

static size_t collect_portable(struct leat_column_word *words, size_t n_words, uint8_t *bytes, const int32_t *columns,
                               size_t n)
{
    return collect(words, n_words, columns, n);
}

static void put_portable(const struct leat_column_word *words, const int32_t *columns, const uint32_t *places,
                         const uint8_t *values, size_t item, size_t n, uint8_t *to)
{
    put(words, columns, places, values, item, n, to);
}

#if defined(__x86_64__)
#include <immintrin.h>

static LEAT_TARGET_AVX2 bool rise_avx2(const uint8_t *columns, size_t n)
{
    return rise(columns, n);
}

static LEAT_TARGET_AVX2 size_t take_avx2(enum leat_dtype dtype, const void *stored, size_t n, uint64_t most,
                                         int32_t *to)
{
    return take(dtype, stored, n, most, to);
}

static LEAT_TARGET_AVX2 inline uint64_t compare_avx2(const int32_t *columns, size_t n, bool *equal)
{
    uint64_t below = 0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(columns + i)),
                      b = _mm256_loadu_si256((const __m256i *)(const void *)(columns + i + 1)),
                      more = _mm256_cmpgt_epi32(b, a), same = _mm256_cmpeq_epi32(b, a);
        below |= (uint64_t)(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(more)) << i;
        *equal |= !_mm256_testz_si256(same, same);
    }
    return i < n ? below | compare_pairs(columns + i, n - i, equal) << i : below;
}

static LEAT_TARGET_AVX2 size_t parts_avx2(const int32_t *columns, size_t n, uint32_t *ends)
{
    return parts(columns, n, ends, compare_avx2);
}

static LEAT_TARGET_AVX2 inline void turn_eight(const uint8_t *from, uint8_t *to)
{
    const __m256i order = _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    const __m256i eight = _mm256_loadu_si256((const __m256i *)(const void *)from);
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_permutevar8x32_epi32(eight, order));
}

/* Columns and values of 4 bytes, eight at a time, in one pass: where a part ends is seldom foreseen by the processor.
 * Where fewer are left of a part, those before it are written behind it, if the row goes on there: the next part comes
 * over them. */
static LEAT_TARGET_AVX2 void turn_fours_avx2(const uint8_t *columns, const uint32_t *ends, size_t n_parts,
                                             const uint8_t *values, uint8_t *to)
{
    const size_t n = ends[n_parts - 1];
    uint8_t *const to_columns = to + n * 4;
    for (size_t p = 0, begin = 0, at = 0; p < n_parts; at = begin = ends[p++]) {
        size_t k = ends[p];
        for (; k >= begin + 8; k -= 8, at += 8) {
            turn_eight(values + (k - 8) * 4, to + at * 4);
            turn_eight(columns + (k - 8) * 4, to_columns + at * 4);
        }
        if (k > begin && k >= 8 && at + 8 <= n) {
            turn_eight(values + (k - 8) * 4, to + at * 4);
            turn_eight(columns + (k - 8) * 4, to_columns + at * 4);
            continue;
        }
        for (; k-- > begin; at++) {
            memcpy(to + at * 4, values + k * 4, 4);
            memcpy(to_columns + at * 4, columns + k * 4, 4);
        }
    }
}

/* 32 bytes, which become 0 again. */
static LEAT_TARGET_AVX2 inline uint64_t bits_of(uint8_t *bytes)
{
    __m256i *const at = (__m256i *)(void *)bytes;
    const uint64_t bits = (uint32_t)_mm256_movemask_epi8(_mm256_loadu_si256(at));
    _mm256_storeu_si256(at, _mm256_setzero_si256());
    return bits;
}

static LEAT_TARGET_AVX2 size_t collect_avx2(struct leat_column_word *words, size_t n_words, uint8_t *bytes,
                                            const int32_t *columns, size_t n)
{
    if (!bytes || n < n_words) /* to look at all bytes would take longer */
        return collect(words, n_words, columns, n);
    for (size_t k = 0; k < n; k++)
        bytes[(uint32_t)columns[k]] = 0xff;
    uint64_t before = 0;
    for (size_t w = 0; w < n_words; w++, bytes += 64) {
        words[w] = (struct leat_column_word){bits_of(bytes) | bits_of(bytes + 32) << 32, before};
        before += (uint64_t)__builtin_popcountll(words[w].bits);
    }
    return (size_t)before;
}

static LEAT_TARGET_AVX2 void put_avx2(const struct leat_column_word *words, const int32_t *columns,
                                      const uint32_t *places, const uint8_t *values, size_t item, size_t n, uint8_t *to)
{
    put(words, columns, places, values, item, n, to);
}
#else
#define rise_avx2 rise_portable
#define parts_avx2 parts_portable
#define take_avx2 take_portable
#define collect_avx2 collect_portable
#define put_avx2 put_portable
#endif

bool leat_columns_rise(const void *columns, size_t n)
{
    return (leat_cpu_isa() >= LEAT_ISA_AVX2 ? rise_avx2 : rise_portable)(columns, n);
}

bool leat_sparse_rises(const uint8_t *row, enum leat_dtype item, size_t n, int64_t columns)
{
    return !n || (leat_columns_rise(row + n * leat_dtype_size(item), n) && leat_sparse_column(row, item, n, 0) >= 0 &&
                  leat_sparse_column(row, item, n, n - 1) < columns);
}

size_t leat_columns_parts(const int32_t *columns, size_t n, uint32_t *ends)
{
    return (leat_cpu_isa() >= LEAT_ISA_AVX2 ? parts_avx2 : parts_portable)(columns, n, ends);
}

void leat_columns_turn(const int32_t *columns, const uint32_t *ends, size_t n_parts, const uint8_t *values, size_t item,
                       size_t n, uint8_t *to)
{
#if defined(__x86_64__)
    if (item == sizeof *columns && leat_cpu_isa() >= LEAT_ISA_AVX2) {
        turn_fours_avx2((const uint8_t *)columns, ends, n_parts, values, to);
        return;
    }
#endif
    turn(values, ends, n_parts, item, to);
    turn((const uint8_t *)columns, ends, n_parts, sizeof *columns, to + n * item);
}

size_t leat_columns_take(enum leat_dtype dtype, const void *stored, size_t n, uint64_t most, int32_t *to)
{
    return (leat_cpu_isa() >= LEAT_ISA_AVX2 ? take_avx2 : take_portable)(dtype, stored, n, most, to);
}

size_t leat_columns_collect(struct leat_column_word *words, size_t n_words, uint8_t *bytes, const int32_t *columns,
                            size_t n)
{
    return (leat_cpu_isa() >= LEAT_ISA_AVX2 ? collect_avx2 : collect_portable)(words, n_words, bytes, columns, n);
}

void leat_columns_put(const struct leat_column_word *words, const int32_t *columns, const uint32_t *places,
                      const uint8_t *values, size_t item, size_t n, uint8_t *to)
{
    (leat_cpu_isa() >= LEAT_ISA_AVX2 ? put_avx2 : put_portable)(words, columns, places, values, item, n, to);
}
