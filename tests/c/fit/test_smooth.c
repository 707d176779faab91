/* Savitzky and Golay's filter. */
#include <math.h>

#include "../test.h"
#include "leat/curves.h"

static struct leat_error error;

TEST(known_weights_are_found)
{
    /* A parabola through 5 points: (-3, 12, 17, 12, -3) / 35 in the middle. */
    const double values[] = {0, 0, 35, 0, 0};
    double out[5];
    assert_ok(leat_curve_smooth(values, 5, 5, 2, 0, 1, 5, out, &error));
    assert_true(fabs(out[2] - 17) < 1e-12);
    const double other[] = {35, 0, 0, 0, 0};
    assert_ok(leat_curve_smooth(other, 5, 5, 2, 2, 1, 1, out, &error));
    assert_true(fabs(out[0] + 3) < 1e-12);
}

TEST(a_cubic_is_kept_up_to_its_ends)
{
    double values[300], out[300];
    for (int i = 0; i < 300; i++)
        values[i] = 2 - 0.3 * i + 0.01 * i * i - 2e-5 * i * i * i;
    assert_ok(leat_curve_smooth(values, 300, 101, 3, 0, 1, 300, out, &error));
    for (int i = 0; i < 300; i++)
        assert_true(fabs(out[i] - values[i]) < 1e-9);
}

TEST(every_tenth_value_is_the_same_as_among_all)
{
    double values[257], all[257], some[25];
    for (int i = 0; i < 257; i++)
        values[i] = sin(i * 0.7) + i % 5;
    assert_ok(leat_curve_smooth(values, 257, 101, 3, 0, 1, 257, all, &error));
    assert_ok(leat_curve_smooth(values, 257, 101, 3, 13, 10, 25, some, &error));
    for (int i = 0; i < 25; i++)
        assert_true(some[i] == all[13 + 10 * i]);
}

TEST(a_window_alone_gives_the_same_bits_as_the_whole_curve)
{
    double values[257], all[257], one;
    for (int i = 0; i < 257; i++)
        values[i] = cos(i * 0.3) + i % 7;
    assert_ok(leat_curve_smooth(values, 257, 101, 3, 0, 1, 257, all, &error));
    for (int i = 50; i < 207; i++) {
        assert_ok(leat_curve_smooth(values + i - 50, 101, 101, 3, 50, 1, 1, &one, &error));
        assert_true(one == all[i]);
    }
}

TEST(a_short_curve_has_a_shorter_window)
{
    const double values[] = {3, 1, 4, 1, 5, 9};
    double out[6];
    for (uint64_t n = 1; n <= 6; n++) {
        assert_ok(leat_curve_smooth(values, n, 101, 3, 0, 1, n, out, &error));
        for (uint64_t i = 0; i < n; i++)
            assert_true(isfinite(out[i]));
    }
    assert_ok(leat_curve_smooth(values, 1, 101, 3, 0, 1, 1, out, &error));
    assert_true(out[0] == 3);
}

TEST(wrong_arguments_are_errors)
{
    double values[] = {1, 2, NAN, 4, 5}, out[5];
    assert_int_equal(leat_curve_smooth(values, 5, 3, 1, 0, 1, 5, out, &error), LEAT_E_INVALID);
    values[2] = 3;
    assert_int_equal(leat_curve_smooth(values, 5, 4, 1, 0, 1, 5, out, &error), LEAT_E_INVALID);
    assert_int_equal(leat_curve_smooth(values, 5, 3, 3, 0, 1, 5, out, &error), LEAT_E_INVALID);
    assert_int_equal(leat_curve_smooth(values, 5, 101, 6, 0, 1, 5, out, &error), LEAT_E_INVALID);
    assert_int_equal(leat_curve_smooth(values, 5, 3, 1, 5, 1, 1, out, &error), LEAT_E_RANGE);
    assert_int_equal(leat_curve_smooth(values, 5, 3, 1, 1, 2, 3, out, &error), LEAT_E_RANGE);
    assert_int_equal(leat_curve_smooth(values, 5, 3, 1, 0, 0, 1, out, &error), LEAT_E_RANGE);
    assert_int_equal(leat_curve_smooth(NULL, 0, 3, 1, 0, 1, 1, out, &error), LEAT_E_RANGE);
    assert_ok(leat_curve_smooth(NULL, 0, 3, 1, 0, 1, 0, out, &error));
}

TEST_MAIN()
