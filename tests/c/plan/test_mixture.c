/* The division of a phase by shares of rows, without a plan. */
#include "mixtures.h"
#include "plan/mixture.h"

TEST(the_row_of_a_source_is_found_from_its_number_and_back)
{
    for (uint64_t t = 0; t < 200; t++) {
        uint64_t sums[MOST + 1], counts[MOST], ordinals[700];
        int64_t offsets[MOST], carry[MOST], sum = 0;
        uint32_t sources[700];
        double shares[MOST];
        const uint32_t n = (uint32_t)draw(t, 0, 1, MOST);
        struct leat_division d = {.n = n, .sums = sums, .offsets = offsets, .carry = carry};
        draw_shares(t, n, shares);
        for (uint32_t k = 0; k < n; k++) {
            shares[k] = n > 1 && k != t % n && !draw(t, 300 + k, 0, 4) ? 0 : shares[k];
            sum += carry[k] = k + 1 == n ? -sum : (int64_t)draw(t, 400 + k, 0, UINT64_C(6) << 32) - (INT64_C(3) << 32);
        }
        assert_int_equal(leat_shares_set(shares, n, sums, NULL), LEAT_OK);
        d.mean = leat_mix_mean(&d);
        leat_mix_aim(&d);
        const uint64_t first = draw(t, 500, 0, 1) ? 0 : draw(t, 501, 0, UINT64_C(1) << 40);
        leat_mix_run(&d, first, 700, sources, ordinals);
        leat_mix_counts(&d, first, counts);
        for (uint64_t i = 0; i < 700; i++) {
            uint64_t ordinal;
            const uint32_t k = leat_mix_pick(&d, first + i, &ordinal);
            assert_int_equal(k, sources[i]);
            assert_int_equal(ordinal, ordinals[i]);
            assert_int_equal(ordinal, counts[k]++);
            assert_true(shares[k] > 0);
            assert_int_equal(leat_mix_place(&d, k, ordinal), first + i);
        }
    }
}

TEST(shares_become_integers_that_sum_to_a_whole_and_none_above_0_is_lost)
{
    for (uint64_t t = 0; t < 200; t++) {
        const uint32_t n = (uint32_t)draw(t, 0, 1, MOST);
        double shares[MOST];
        uint64_t sums[MOST + 1], divisors[MOST];
        for (uint32_t k = 0; k < n; k++) {
            shares[k] = k && !draw(t, 10 + k, 0, 3) ? 0 : draw(t, 30 + k, 0, 1) ? 1e-15 : leat_draw_unit(t, k) + 0.1;
            divisors[k] = draw(t, 50 + k, 1, 5000);
        }
        assert_int_equal(leat_shares_set(shares, n, sums, NULL), LEAT_OK);
        for (int scaled = 0; scaled < 2; scaled++) {
            assert_int_equal(sums[n], UINT64_C(1) << LEAT_SHARE_BITS);
            for (uint32_t k = 0; k < n; k++) {
                assert_int_equal(sums[k + 1] > sums[k], shares[k] > 0);
                sums[k] = sums[k + 1] - sums[k];
            }
            assert_true(leat_shares_scale(sums, n, divisors));
        }
    }
    const double none[] = {0, 0};
    uint64_t sums[3] = {0};
    assert_int_equal(leat_shares_set(none, 2, sums, NULL), LEAT_E_INVALID);
    assert_false(leat_shares_scale(sums, 2, NULL));
}

TEST_MAIN()
