#include "../test.h"
#include "base/random.h"

TEST(draws_below_n_are_uniform_within_five_sigma)
{
    enum { N = 10, DRAWS = 100000 };
    unsigned count[N] = {0};
    for (unsigned i = 0; i < DRAWS; i++)
        count[leat_draw_below(42, i, N)]++;
    for (unsigned k = 0; k < N; k++) /* sigma = sqrt(DRAWS * 0.1 * 0.9) = 95 */
        assert_in_range(count[k], DRAWS / N - 475, DRAWS / N + 475);
}

TEST(related_keys_give_unrelated_draws)
{
    unsigned bits = 0;
    for (uint64_t row = 0; row < 1000; row++)
        bits += (unsigned)__builtin_popcountll(leat_draw_u64(leat_key_mix(1, row), 0) ^
                                               leat_draw_u64(leat_key_mix(1, row + 1), 0));
    assert_in_range(bits, 31000, 33000); /* half of 64 bits differ; sigma is about 126 */
}

TEST(draws_never_change_between_versions)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < 1000; i++)
        sum = sum * 31 + leat_draw_u64(leat_key_mix(i, 7), i);
    assert_int_equal(sum, UINT64_C(0xd0c2ab0b9fd25f12));
}

TEST_MAIN()
