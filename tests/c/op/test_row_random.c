/* Random numbers of rows (leat/random.h). */
#include <math.h>

#include "../test.h"
#include "kernels/philox.h"
#include "leat/random.h"

#define LONG 5000

static struct leat_error error;

TEST(philox_gives_the_words_that_its_authors_publish)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t out[4];
        leat_philox_block(known[i].key[0] | (uint64_t)known[i].key[1] << 32, known[i].counter, out);
        assert_memory_equal(out, known[i].out, sizeof out);
    }
}

TEST(every_instruction_set_gives_the_blocks_of_portable_c)
{
    static uint32_t want[4 * 300], found[4 * 300];
    const leat_philox_fn others[] = {
        LEAT_OF_ISA(leat_cpu_isa(), &leat_philox),
        LEAT_OF_ISA(LEAT_ISA_PORTABLE, &leat_philox),
#if defined(__x86_64__)
        leat_cpu_isa() == LEAT_ISA_PORTABLE ? leat_philox_portable : leat_philox_avx2
#endif
    };
    for (size_t f = 0; f < sizeof others / sizeof *others; f++)
        for (uint64_t first = UINT32_MAX - UINT64_C(5); first < UINT32_MAX + UINT64_C(3); first++)
            for (size_t n = 0; n < 300; n += 7) {
                memset(found, 0xab, sizeof found);
                leat_philox_portable(UINT64_C(0x0123456789abcdef), 77, first, n, want);
                others[f](UINT64_C(0x0123456789abcdef), 77, first, n, found);
                assert_memory_equal(found, want, 16 * n);
                for (size_t i = 4 * n; i < 1200; i++)
                    assert_int_equal(found[i], 0xabababab);
            }
}

/* FNV-1a, which is enough to notice a bit that has changed. */
static uint64_t hash_of(const void *p, size_t bytes)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ ((const uint8_t *)p)[i]) * UINT64_C(0x100000001b3);
    return h;
}

static const uint64_t KEYS[3] = {0, UINT64_C(0x299f31d0a4093822), UINT64_MAX};

TEST(numbers_never_change)
{
    static uint32_t words[3 * LONG];
    static float f[3 * LONG];
    static double d[3 * LONG];
    static int64_t i[3 * LONG];
    leat_random_words(KEYS, 3, 5, LONG, words);
    const uint64_t of_words = hash_of(words, sizeof words);
    assert_ok(leat_random_uniform(KEYS, 3, 5, LONG, LEAT_F32, f, &error));
    const uint64_t of_uniform = hash_of(f, sizeof f);
    assert_ok(leat_random_normal(KEYS, 3, 5, LONG, LEAT_F32, f, &error));
    const uint64_t of_normal = hash_of(f, sizeof f);
    assert_ok(leat_random_uniform(KEYS, 3, 5, LONG, LEAT_F64, d, &error));
    const uint64_t of_wide = hash_of(d, sizeof d);
    assert_ok(leat_random_normal(KEYS, 3, 5, LONG, LEAT_F64, d, &error));
    const uint64_t of_wide_normal = hash_of(d, sizeof d);
    assert_ok(leat_random_integers(KEYS, 3, 5, LONG, INT64_MIN, INT64_MAX, i, &error));
    const uint64_t of_integers = hash_of(i, sizeof i);
    assert_ok(leat_random_permutation(KEYS, 3, 5, LONG, i, &error));
    const uint64_t of_permutation = hash_of(i, sizeof i);
    assert_int_equal(of_words, UINT64_C(0xe9f6cc4501171e29));
    assert_int_equal(of_uniform, UINT64_C(0xc3dce5dfe706f2d6));
    assert_int_equal(of_normal, UINT64_C(0x4a4a739aafa4073e));
    assert_int_equal(of_wide, UINT64_C(0xbf797b789bd3a7f5));
    assert_int_equal(of_wide_normal, UINT64_C(0x45d991dfeae6f3fa));
    assert_int_equal(of_integers, UINT64_C(0x908abdd628c1f616));
    assert_int_equal(of_permutation, UINT64_C(0x57c2cdac367bdab9));
}

TEST(a_rows_numbers_follow_from_its_key_alone_and_fewer_are_the_first_of_more)
{
    static float all[3 * LONG], some[LONG];
    assert_ok(leat_random_normal(KEYS, 3, 9, LONG, LEAT_F32, all, &error));
    for (uint64_t n = 0; n < LONG; n = 3 * n + 1)
        for (size_t r = 0; r < 3; r++) {
            assert_ok(leat_random_normal(&KEYS[r], 1, 9, n, LEAT_F32, some, &error));
            assert_memory_equal(some, all + r * LONG, n * sizeof *some);
        }
}

/* Counts draws of [0, 1) in 50 equal parts; the sum of squares is that of chi squared with 49 degrees of freedom, of
 * which 100 is passed once in 40,000. The keys are constant, and so is the result. */
static double chi_squared(const double *p, size_t n)
{
    double count[50] = {0}, sum = 0;
    for (size_t i = 0; i < n; i++)
        count[p[i] < 1 ? (int)(50 * p[i]) : 49]++;
    for (size_t i = 0; i < 50; i++)
        sum += (count[i] - (double)n / 50) * (count[i] - (double)n / 50) / ((double)n / 50);
    return sum;
}

TEST(distributions_are_what_they_are_called)
{
    static double p[200000], x[200000];
    static float f[200000];
    static int64_t k[200000];
    const uint64_t key = 1;
    assert_ok(leat_random_uniform(&key, 1, 0, 200000, LEAT_F64, p, &error));
    assert_true(chi_squared(p, 200000) < 100);
    assert_ok(leat_random_normal(&key, 1, 1, 200000, LEAT_F64, x, &error));
    for (size_t i = 0; i < 200000; i++)
        p[i] = 0.5 * erfc(-x[i] / sqrt(2));
    assert_true(chi_squared(p, 200000) < 100);
    assert_ok(leat_random_normal(&key, 1, 2, 200000, LEAT_F32, f, &error));
    for (size_t i = 0; i < 200000; i++)
        p[i] = 0.5 * erfc(-(double)f[i] / sqrt(2));
    assert_true(chi_squared(p, 200000) < 100);
    assert_ok(leat_random_integers(&key, 1, 3, 200000, -25, 25, k, &error));
    for (size_t i = 0; i < 200000; i++)
        p[i] = ((double)k[i] + 25.5) / 50;
    assert_true(chi_squared(p, 200000) < 100);
}

TEST(the_normal_distribution_is_inverted_to_the_last_digits_up_to_its_ends)
{
    static double x[LONG];
    double worst = 0;
    uint32_t words[2 * LONG];
    const uint64_t key = 3;
    assert_ok(leat_random_normal(&key, 1, 0, LONG, LEAT_F64, x, &error));
    leat_random_words(&key, 1, 0, 2 * LONG, words);
    for (size_t i = 0; i < LONG; i++) {
        const uint64_t word = words[2 * i] | (uint64_t)words[2 * i + 1] << 32;
        const double p = ((double)(word >> 12) + 0.5) * 0x1p-52, back = 0.5 * erfc(-x[i] / sqrt(2));
        worst = fmax(worst, fabs(back - p) / fmin(p, 1 - p));
    }
    assert_true(worst < 1e-13);
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

TEST(permutations_have_each_number_once_and_all_places_alike)
{
    static int64_t out[LONG];
    int64_t where[5][5] = {{0}};
    for (uint64_t n = 0; n < LONG; n = 2 * n + 1) {
        assert_ok(leat_random_permutation(KEYS, 1, 0, n, out, &error));
        qsort(out, n, sizeof *out, by_value);
        for (uint64_t i = 0; i < n; i++)
            assert_int_equal(out[i], i);
    }
    for (uint64_t key = 0; key < 20000; key++) {
        assert_ok(leat_random_permutation(&key, 1, 0, 5, out, &error));
        for (size_t i = 0; i < 5; i++)
            where[i][out[i]]++;
    }
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < 5; j++)
            assert_in_range(where[i][j], 3750, 4250); /* 4000, with a deviation of 57 */
}

TEST(what_cannot_be_drawn_is_an_error)
{
    int64_t i = 7;
    assert_int_equal(leat_random_integers(KEYS, 1, 0, 1, 4, 4, &i, &error), LEAT_E_INVALID);
    assert_string_equal(error.message, "no integer is at least 4 and below 4");
    assert_int_equal(leat_random_uniform(KEYS, 1, 0, 1, LEAT_F16, &i, &error), LEAT_E_INVALID);
    assert_int_equal(leat_random_normal(KEYS, 1, 0, 1, LEAT_I64, &i, NULL), LEAT_E_INVALID);
    assert_int_equal(leat_random_permutation(KEYS, 1, 0, UINT64_MAX / 8, &i, &error), LEAT_E_NOMEM);
    assert_int_equal(i, 7);
}

TEST_MAIN()
