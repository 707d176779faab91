/* Sets of columns: sparse.h. The portable variants count bits by a call, the others by an instruction. */
#include "kernels/sparse.h"

#include <string.h>

#include "base/cpu.h"
#include "base/role.h"

/* gcc makes vectors of loops at -O3. */
#if !defined(__clang__)
#pragma GCC optimize("O3")
#endif

/* Without a branch, for vectors. */
LEAT_INLINE bool rise(const uint8_t *columns, size_t n)
{
    int32_t bad = 0;
    for (size_t k = 0; k + 1 < n; k++) {
        int32_t a, b;
        memcpy(&a, columns + k * sizeof a, sizeof a);
        memcpy(&b, columns + (k + 1) * sizeof b, sizeof b);
        bad |= a >= b ? 1 : 0;
    }
    return !bad;
}

LEAT_INLINE size_t collect(struct leat_column_word *words, size_t n_words, const int32_t *columns, size_t n)
{
    uint64_t before = 0;
    memset(words, 0, n_words * sizeof *words);
    for (size_t k = 0; k < n; k++)
        words[(uint32_t)columns[k] >> 6].bits |= UINT64_C(1) << (columns[k] & 63);
    for (size_t w = 0; w < n_words; w++) {
        words[w].before = before;
        before += (uint64_t)__builtin_popcountll(words[w].bits);
    }
    return (size_t)before;
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
        const struct leat_column_word *w = &words[(uint32_t)columns[k] >> 6];
        const uint64_t below = w->bits & ((UINT64_C(1) << (columns[k] & 63)) - 1);
        const size_t rank = (size_t)w->before + (size_t)__builtin_popcountll(below);
        memcpy(to + rank * item, values + (placed ? places[k] : k) * item, item);
        memcpy(to + n * item + rank * sizeof *columns, &columns[k], sizeof *columns);
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

static bool rise_portable(const uint8_t *columns, size_t n)
{
    return rise(columns, n);
}

static size_t collect_portable(struct leat_column_word *words, size_t n_words, const int32_t *columns, size_t n)
{
    return collect(words, n_words, columns, n);
}

static void put_portable(const struct leat_column_word *words, const int32_t *columns, const uint32_t *places,
                         const uint8_t *values, size_t item, size_t n, uint8_t *to)
{
    put(words, columns, places, values, item, n, to);
}

#if defined(__x86_64__)
static LEAT_TARGET_AVX2 bool rise_avx2(const uint8_t *columns, size_t n)
{
    return rise(columns, n);
}

static LEAT_TARGET_AVX2 size_t collect_avx2(struct leat_column_word *words, size_t n_words, const int32_t *columns,
                                            size_t n)
{
    return collect(words, n_words, columns, n);
}

static LEAT_TARGET_AVX2 void put_avx2(const struct leat_column_word *words, const int32_t *columns,
                                      const uint32_t *places, const uint8_t *values, size_t item, size_t n, uint8_t *to)
{
    put(words, columns, places, values, item, n, to);
}
#else
#define rise_avx2 rise_portable
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

size_t leat_columns_collect(struct leat_column_word *words, size_t n_words, const int32_t *columns, size_t n)
{
    return (leat_cpu_isa() >= LEAT_ISA_AVX2 ? collect_avx2 : collect_portable)(words, n_words, columns, n);
}

void leat_columns_put(const struct leat_column_word *words, const int32_t *columns, const uint32_t *places,
                      const uint8_t *values, size_t item, size_t n, uint8_t *to)
{
    (leat_cpu_isa() >= LEAT_ISA_AVX2 ? put_avx2 : put_portable)(words, columns, places, values, item, n, to);
}
