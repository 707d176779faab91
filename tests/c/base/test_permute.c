#include <math.h>

#include "../golden.h"
#include "base/permute.h"
#include "base/random.h"

static void assert_bijective(uint64_t n, uint64_t key)
{
    struct leat_permutation p = leat_permutation_init(n, key);
    uint8_t *seen = calloc(n, 1);
    assert_non_null(seen);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t v = leat_permute(&p, i);
        assert_true(v < n && !seen[v]);
        seen[v] = 1;
    }
    free(seen);
}

TEST(every_small_range_is_permuted)
{
    for (uint64_t n = 1; n <= 2000; n++)
        assert_bijective(n, n * 977);
}

TEST(ranges_around_powers_and_squares_are_permuted)
{
    const uint64_t sizes[] = {65535, 65536, 65537, 998001, 999999, 1000000, 1000001, 1281167};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_bijective(sizes[i], i);
}

TEST(huge_ranges_stay_inside_and_do_not_collide)
{
    const uint64_t sizes[] = {UINT64_C(1) << 32, (UINT64_C(1) << 32) + 1, (UINT64_C(1) << 63) - 1, UINT64_C(1) << 63};
    for (size_t s = 0; s < 4; s++) {
        struct leat_permutation p = leat_permutation_init(sizes[s], 5);
        /* The round trip by brute force is out of reach; neighbours at both ends stay inside and apart. */
        for (uint64_t i = 0; i < 1000; i++) {
            uint64_t low = leat_permute(&p, i), high = leat_permute(&p, sizes[s] - 1 - i);
            assert_true(low < sizes[s] && high < sizes[s] && low != high);
            assert_true(leat_permute(&p, i + 1) != low);
        }
    }
}

TEST(position_and_value_are_not_correlated)
{
    const uint64_t n = 100000;
    for (uint64_t key = 0; key < 10; key++) {
        struct leat_permutation p = leat_permutation_init(n, key);
        double with_position = 0, with_next = 0, mean = (double)(n - 1) / 2,
               variance = ((double)n * (double)n - 1) / 12;
        for (uint64_t i = 0; i < n; i++) {
            double v = (double)leat_permute(&p, i) - mean, next = (double)leat_permute(&p, (i + 1) % n) - mean;
            with_position += ((double)i - mean) * v;
            with_next += v * next;
        }
        /* The correlation of two independent orders has sigma 1 / sqrt(n). */
        double bound = 5 / sqrt((double)n);
        assert_true(fabs(with_position / variance / (double)n) < bound);
        assert_true(fabs(with_next / variance / (double)n) < bound);
    }
}

/* Chi-square over `cells` equally likely cells, as its distance from the mean in standard deviations. */
static double deviation(const uint32_t *count, size_t cells, uint64_t draws)
{
    double expected = (double)draws / (double)cells, chi = 0;
    for (size_t i = 0; i < cells; i++)
        chi += ((double)count[i] - expected) * ((double)count[i] - expected) / expected;
    return (chi - (double)(cells - 1)) / sqrt(2 * (double)(cells - 1));
}

TEST(where_a_pair_lands_is_uniform_over_keys)
{
    const uint64_t sizes[] = {2, 3, 4, 5, 7, 10, 12, 16, 25, 31, 255, 256, 400};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint64_t n = sizes[s], draws = n * (n - 1) * (n < 100 ? 200 : 20) / test_every(4);
        uint32_t *count = calloc(n * (n - 1), sizeof *count);
        assert_non_null(count);
        for (uint64_t key = 0; key < draws; key++) {
            struct leat_permutation p = leat_permutation_init(n, key);
            uint64_t x = leat_permute(&p, 0), y = leat_permute(&p, n - 1);
            count[x * (n - 1) + (y > x ? y - 1 : y)]++;
        }
        double d = deviation(count, n * (n - 1), draws);
        free(count);
        if (d > 5)
            fail_msg("n = %" PRIu64 ": chi-square is %.1f standard deviations above its mean", n, d);
    }
}

TEST(gaps_between_neighbours_are_spread_evenly)
{
    enum { CELLS = 256 };
    const uint64_t n = 1000003;
    for (uint64_t step = 1; step <= 1024; step *= 4) {
        uint32_t count[CELLS] = {0};
        struct leat_permutation p = leat_permutation_init(n, step);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t gap = (leat_permute(&p, (i + step) % n) + n - leat_permute(&p, i)) % n;
            count[gap * CELLS / n]++;
        }
        assert_true(deviation(count, CELLS, n) < 5);
    }
}

TEST(a_bit_of_the_key_changes_the_whole_order)
{
    const uint64_t n = 1 << 16;
    struct leat_permutation base = leat_permutation_init(n, 12345);
    for (unsigned bit = 0; bit < 64; bit++) {
        struct leat_permutation other = leat_permutation_init(n, 12345 ^ (UINT64_C(1) << bit));
        unsigned same = 0, bits = 0;
        for (uint64_t i = 0; i < 4096; i++) {
            uint64_t a = leat_permute(&base, i), b = leat_permute(&other, i);
            same += a == b;
            bits += (unsigned)__builtin_popcountll(a ^ b);
        }
        assert_true(same <= 4);              /* expected 1 in 16 */
        assert_in_range(bits, 32128, 33408); /* 8 of 16 bits; sigma is 128 */
    }
}

TEST(the_order_never_changes_between_versions)
{
    struct golden_line golden;
    int n = 0;
    for (FILE *file = golden_open(); golden_next(file, "permutation", &golden); n++) {
        struct leat_permutation p = leat_permutation_init(golden.n, golden.key);
        uint64_t sum = 0, count = golden.n < 1000 ? golden.n : 1000;
        for (uint64_t i = 0; i < count; i++)
            sum = leat_key_mix(sum, leat_permute(&p, i));
        if (sum != golden.hash)
            fail_msg("n = %" PRIu64 ", key %" PRIu64 ": %016" PRIx64, golden.n, golden.key, sum);
    }
    assert_int_equal(n, 10);
}

TEST(many_at_once_are_the_same_as_one_by_one)
{
    const uint64_t sizes[] = {1, 2, 5, 100, 300, 4095, 5000, 65537, (UINT64_C(1) << 50) + 9};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t n = 0; n < 40; n++) {
            struct leat_permutation p = leat_permutation_init(sizes[s], n);
            uint64_t values[40], images[40];
            for (size_t i = 0; i < n; i++) {
                values[i] = leat_draw_below(s, i, sizes[s]);
                images[i] = leat_permute(&p, values[i]);
            }
            leat_permute_many(&p, values, n);
            assert_memory_equal(values, images, n * sizeof *values);
        }
}

TEST_MAIN()
