/* What the operators draw: distributions, bounds, and golden hashes, because draws of a plan version never change. */
#include "program_helpers.h"

#include "base/elementary.h"

TEST(elementary_functions_are_accurate)
{
    for (int i = -2000; i <= 2000; i++) {
        double x = i / 100.0, e = leat_math_exp(x);
        assert_true(fabs(e - exp(x)) <= 4e-16 * exp(x) * 2);
        assert_true(fabs(leat_math_log(e) - x) <= 1e-14);
    }
    for (int i = 1; i < 5000; i++)
        assert_true(fabs(leat_math_log(i / 700.0) - log(i / 700.0)) <= 1e-15 + 4e-16 * fabs(log(i / 700.0)));
    for (int i = -80000; i <= 80000; i++) {
        double x = i / 137.0;
        assert_true(fabs(leat_math_sin(x) - sin(x)) <= 4e-16 && fabs(leat_math_cos(x) - cos(x)) <= 4e-16);
    }
    static const struct {
        double x;
        int64_t rounded;
    } cases[] = {{0.5, 0}, {1.5, 2}, {2.5, 2}, {-0.5, 0}, {-1.5, -2}, {2.4999, 2}, {2.5001, 3}, {-7, -7}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(leat_round_even(cases[i].x), cases[i].rounded);
}

/* Of crops whose first try fits, area and log of the shape are uniform; position is, too. */
TEST(a_random_resized_crop_has_torchvisions_distribution)
{
    enum { N = 40000, W = 1000, H = 1000, BINS = 20 };
    unsigned area[BINS] = {0}, shape[BINS] = {0}, place[BINS] = {0}, placed = 0;
    double mean = 0;
    for (uint64_t key = 0; key < N; key++) {
        struct leat_move m;
        assert_int_equal(
            draw_of(&leat_op_random_resized_crop, "{\"size\": 224, \"scale\": [0.08, 0.6]}", "x", key, W, H, &m), 0);
        assert_true(m.w >= 1 && m.h >= 1 && m.x >= 0 && m.y >= 0 && m.x + m.w <= W && m.y + m.h <= H);
        assert_true(m.out_w == 224 && m.out_h == 224 && !m.flip);
        double a = (double)(m.w * m.h) / ((double)W * H), r = log((double)m.w / (double)m.h) / log(4.0 / 3.0);
        mean += a / N;
        int bin = (int)((a - 0.08) / 0.52 * BINS), other = (int)((r + 1) / 2 * BINS);
        area[bin < 0 ? 0 : bin >= BINS ? BINS - 1 : bin]++;
        shape[other < 0 ? 0 : other >= BINS ? BINS - 1 : other]++;
        if (m.w < W) {
            place[(uint64_t)m.x * BINS / (uint64_t)(W - m.w + 1)]++;
            placed++;
        }
    }
    assert_true(fabs(mean - 0.34) < 0.004);
    double chi[3] = {0};
    for (int i = 0; i < BINS; i++) {
        chi[0] += pow(area[i] - N / (double)BINS, 2) / (N / (double)BINS);
        chi[1] += pow(shape[i] - N / (double)BINS, 2) / (N / (double)BINS);
        chi[2] += pow(place[i] - placed / (double)BINS, 2) / (placed / (double)BINS);
    }
    for (int i = 0; i < 3; i++) /* 19 degrees of freedom: 50 is exceeded once in ten thousand; keys are fixed */
        if (chi[i] > 50)
            fail_msg("chi square %d is %f", i, chi[i]);
}

TEST(a_shape_that_never_fits_gives_the_central_box)
{
    struct leat_move m;
    draw_of(&leat_op_random_resized_crop, "{\"size\": 8, \"scale\": [1, 1]}", "x", 5, 1000, 10, &m);
    assert_true(m.h == 10 && m.w == 13 && m.y == 0 && m.x == (1000 - 13) / 2);
    draw_of(&leat_op_random_resized_crop, "{\"size\": 8, \"scale\": [1, 1]}", "x", 5, 10, 1000, &m);
    assert_true(m.w == 10 && m.h == 13 && m.x == 0 && m.y == (1000 - 13) / 2);
    draw_of(&leat_op_random_resized_crop, "{\"size\": [3, 5], \"scale\": [1, 1]}", "x", 5, 1, 1, &m);
    assert_true(m.w == 1 && m.h == 1 && m.out_w == 5 && m.out_h == 3);
}

TEST(crops_and_flips_are_uniform_and_in_bounds)
{
    enum { N = 20000 };
    unsigned flips = 0, columns[9] = {0};
    for (uint64_t key = 0; key < N; key++) {
        struct leat_move m;
        draw_of(&leat_op_random_horizontal_flip, "{\"p\": 0.25}", "f", key, 10, 10, &m);
        flips += m.flip;
        draw_of(&leat_op_random_crop, "{\"size\": 8, \"padding\": 4}", "c", key, 8, 8, &m);
        assert_true(m.x >= -4 && m.x <= 4 && m.y >= -4 && m.y <= 4 && m.w == 8 && m.h == 8);
        columns[m.x + 4]++;
    }
    assert_true(abs((int)flips - N / 4) < 250);
    for (int i = 0; i < 9; i++)
        assert_true(abs((int)columns[i] - N / 9) < 200);
}

TEST(sizes_are_torchvisions)
{
    struct leat_move m;
    draw_of(&leat_op_resize, "{\"size\": 256}", "x", 0, 500, 375, &m);
    assert_true(m.out_w == 341 && m.out_h == 256);
    draw_of(&leat_op_resize, "{\"size\": 256}", "x", 0, 375, 500, &m);
    assert_true(m.out_w == 256 && m.out_h == 341);
    draw_of(&leat_op_resize, "{\"size\": 256, \"max_size\": 300}", "x", 0, 500, 375, &m);
    assert_true(m.out_w == 300 && m.out_h == 225);
    draw_of(&leat_op_resize, "{\"size\": [10, 20]}", "x", 0, 500, 375, &m);
    assert_true(m.out_w == 20 && m.out_h == 10);
    draw_of(&leat_op_resize, "{\"max_size\": 100}", "x", 0, 500, 375, &m);
    assert_true(m.out_w == 100 && m.out_h == 75);
    draw_of(&leat_op_center_crop, "{\"size\": 4}", "x", 0, 7, 9, &m);
    assert_true(m.x == 2 && m.y == 2); /* 1.5 and 2.5, halves to even */
    draw_of(&leat_op_center_crop, "{\"size\": 8}", "x", 0, 5, 4, &m);
    assert_true(m.x == -1 && m.y == -2 && m.w == 8);
    assert_int_equal(draw_of(&leat_op_random_crop, "{\"size\": 8}", "x", 0, 5, 9, &m), LEAT_E_DECODE);
}

TEST(draws_never_change)
{
    static const struct {
        const struct leat_op_class *class;
        const char *json;
    } ops[] = {{&leat_op_random_resized_crop, "{\"size\": 224}"},
               {&leat_op_random_crop, "{\"size\": 200, \"pad_if_needed\": true}"},
               {&leat_op_random_horizontal_flip, "{}"}};
    uint64_t hash = 0;
    for (size_t o = 0; o < 3; o++)
        for (uint64_t key = 0; key < 2000; key++) {
            struct leat_move m;
            draw_of(ops[o].class, ops[o].json, "image/Op/0", key, 500 - (uint32_t)key % 400, 375, &m);
            int64_t numbers[7] = {m.x, m.y, m.w, m.h, m.out_w, m.out_h, m.flip};
            hash = leat_key_mix(hash, leat_hash64(numbers, sizeof numbers));
        }
    if (hash != UINT64_C(0x9f0472538d287830))
        fail_msg("the draws hash to %016" PRIx64, hash);
}

TEST_MAIN()
