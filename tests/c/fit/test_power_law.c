/* The fit of a power law to a loss curve. */
#include <math.h>

#include "../test.h"
#include "base/elementary.h"
#include "base/random.h"
#include "fit/power_sums.h"
#include "leat/curves.h"

#define POINTS 500

static const int DIAGONAL[] = {0, 2, 5};
static struct leat_error error;

struct curve {
    double n[POINTS], loss[POINTS];
};

/* A curve of the law, with uniform noise of so much relative to the loss. */
static void draw(struct curve *c, double eps, double beta, double alpha, double noise, uint64_t key)
{
    for (int i = 0; i < POINTS; i++) {
        c->n[i] = 64.0 * (i + 20);
        double u = 2 * leat_draw_unit(key, (uint64_t)i) - 1;
        c->loss[i] = (eps + beta * pow(c->n[i], -alpha)) * (1 + noise * u);
    }
}

static struct leat_power_law fit(const struct curve *c, const struct leat_power_law *start)
{
    struct leat_power_law law;
    assert_ok(leat_power_law_fit(c->n, c->loss, POINTS, NULL, start, &law, &error));
    return law;
}

static void near(double found, double wanted, double relative)
{
    if (!(fabs(found - wanted) <= relative * fabs(wanted)))
        fail_msg("%.12g is not within %g of %.12g", found, relative, wanted);
}

TEST(a_curve_without_noise_gives_back_its_law)
{
    static const double laws[][3] = {{1.8, 20, 0.4}, {0.7, 300, 0.6}, {2.5, 6, 0.15}, {3, 100, 0.7}};
    struct curve c;
    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
        draw(&c, laws[i][0], laws[i][1], laws[i][2], 0, 0);
        struct leat_power_law law = fit(&c, NULL);
        near(law.alpha, laws[i][2], 1e-3);
        near(exp(law.log_beta), laws[i][1], 1e-3 * 5);
        near(exp(law.log_eps), laws[i][0], 1e-3);
        near(leat_power_law_at(&law, 5000), laws[i][0] + laws[i][1] * pow(5000, -laws[i][2]), 1e-6);
    }
}

TEST(the_slope_of_a_noisy_curve_is_found)
{
    struct curve c;
    for (uint64_t key = 0; key < 20; key++) {
        draw(&c, 1.5, 30, 0.45, 0.01, key);
        struct leat_power_law law = fit(&c, NULL);
        near(leat_power_law_slope(&law, 16000), 0.45 * 30 * pow(16000, -1.45), 0.1);
    }
}

TEST(outliers_hardly_move_the_fit)
{
    struct curve c;
    draw(&c, 1.5, 30, 0.45, 0.002, 1);
    for (int i = 7; i < POINTS; i += 40)
        c.loss[i] *= 3;
    struct leat_power_law law = fit(&c, NULL);
    near(leat_power_law_slope(&law, 16000), 0.45 * 30 * pow(16000, -1.45), 0.1);
}

TEST(a_warm_start_finds_what_the_grid_finds)
{
    struct curve c;
    draw(&c, 1.5, 30, 0.45, 0.01, 3);
    struct leat_power_law cold = fit(&c, NULL);
    for (int i = 0; i < POINTS; i++)
        c.loss[i] *= 1 + 0.001 * (leat_draw_unit(4, (uint64_t)i) - 0.5);
    struct leat_power_law warm = fit(&c, &cold), again = fit(&c, NULL);
    near(leat_power_law_slope(&warm, 16000), leat_power_law_slope(&again, 16000), 0.02);
    near(warm.objective, again.objective, 1e-3);
}

TEST(a_start_at_upper_bounds_leaves_them)
{
    static const struct leat_power_fit_options o = LEAT_POWER_FIT_OPTIONS_INIT;
    struct curve c;
    draw(&c, 1.5, 30, 0.45, 0.01, 3);
    const struct leat_power_law cold = fit(&c, NULL);
    const struct leat_power_law at_bounds[] = {{.alpha = o.alpha_max, .log_beta = log(30), .log_eps = log(1.5)},
                                               {.alpha = 0.45, .log_beta = o.log_beta_max, .log_eps = log(1.5)}};
    for (int i = 0; i < 2; i++) {
        const struct leat_power_law warm = fit(&c, &at_bounds[i]);
        near(warm.objective, cold.objective, 1e-3);
        near(leat_power_law_slope(&warm, 16000), leat_power_law_slope(&cold, 16000), 0.02);
    }
}

TEST(bounds_hold)
{
    struct curve c;
    draw(&c, 1.0, 30, 0.9, 0.005, 5);
    struct leat_power_fit_options o = LEAT_POWER_FIT_OPTIONS_INIT;
    struct leat_power_law law;
    o.log_eps_min = 0.5;
    assert_ok(leat_power_law_fit(c.n, c.loss, POINTS, &o, NULL, &law, &error));
    assert_true(law.log_eps >= 0.5 && law.alpha <= 0.8 && law.alpha >= 0 && law.log_beta <= 6.5);
    for (int i = 0; i < POINTS; i++) /* it rises: alpha stays at 0 */
        c.loss[i] = 1 + 0.001 * i;
    law = fit(&c, NULL);
    assert_true(leat_power_law_slope(&law, 16000) >= 0);
    assert_true(leat_power_law_slope(&law, 16000) < 1e-9);
}

/* XOR of the bits of all results: golden, so that every instruction set and compiler gives the same. */
TEST(every_instruction_set_gives_the_same_bits)
{
    uint64_t hash = 0;
    struct curve c;
    for (uint64_t key = 0; key < 8; key++) {
        for (int i = 0; i < POINTS; i++) { /* no pow here: the C library's may differ */
            c.n[i] = 64.0 * (i + 20);
            c.loss[i] = (1.2 + 25 * leat_power(c.n[i], -0.4)) * (1 + 0.02 * (leat_draw_unit(key, (uint64_t)i) - 0.5));
        }
        struct leat_power_law law = fit(&c, NULL);
        const double values[] = {law.alpha, law.log_beta, law.log_eps, leat_power_law_slope(&law, 16000)};
        for (int i = 0; i < 4; i++) {
            uint64_t bits;
            memcpy(&bits, &values[i], sizeof bits);
            hash = (hash ^ bits) * UINT64_C(0x9e3779b97f4a7c15);
        }
    }
    assert_int_equal(hash, UINT64_C(0x357bb15375eac38b));
}

TEST(the_derivatives_are_those_of_the_sum)
{
    struct curve c;
    double ln_n[POINTS + 4], ln_loss[POINTS + 4], real[POINTS + 4] = {0};
    draw(&c, 1.5, 30, 0.45, 0.002, 6); /* within and beyond delta */
    for (int i = 0; i < POINTS + 4; i++) {
        int from = i < POINTS ? i : 0;
        ln_n[i] = log(c.n[from]);
        ln_loss[i] = log(c.loss[from]);
        real[i] = i < POINTS;
    }
    const struct leat_power_points points = {ln_n, ln_loss, real, POINTS + 4, 1e-3};
    const double at[3] = {log(30) + 0.001, 0.4501, log(1.5)}, h = 1e-7;
    struct leat_power_sums here, there;
    leat_power_sums(&points, at, &here);
    double plain = 0;
    for (int i = 0; i < POINTS; i++) {
        double r = fabs(log(exp(at[0] - at[1] * ln_n[i]) + exp(at[2])) - ln_loss[i]);
        plain += r <= 1e-3 ? r * r / 2 : 1e-3 * (r - 5e-4);
    }
    near(here.value, plain, 1e-9);
    for (int i = 0; i < 3; i++) {
        double moved[3] = {at[0], at[1], at[2]};
        moved[i] += h;
        leat_power_sums(&points, moved, &there);
        double found = (there.value - here.value) / h;
        assert_true(fabs(found - here.gradient[i]) < 1e-5 + 1e-3 * fabs(found));
        double second = (there.gradient[i] - here.gradient[i]) / h;
        assert_true(fabs(second - here.curvature[DIAGONAL[i]]) < 0.05 * fabs(second) + 1e-2);
        assert_true(here.bound[DIAGONAL[i]] > 0);
    }
}

TEST(points_that_are_none_are_errors)
{
    struct curve c;
    struct leat_power_law law;
    draw(&c, 1.5, 30, 0.45, 0, 0);
    assert_int_equal(leat_power_law_fit(c.n, c.loss, 3, NULL, NULL, &law, &error), LEAT_E_INVALID);
    const double wrong[] = {0, -1, NAN, INFINITY};
    for (int i = 0; i < 4; i++) {
        double kept = c.loss[5];
        c.loss[5] = wrong[i];
        assert_int_equal(leat_power_law_fit(c.n, c.loss, POINTS, NULL, NULL, &law, &error), LEAT_E_INVALID);
        assert_non_null(strstr(error.message, "point 5"));
        c.loss[5] = kept;
        kept = c.n[9];
        c.n[9] = wrong[i];
        assert_int_equal(leat_power_law_fit(c.n, c.loss, POINTS, NULL, NULL, &law, &error), LEAT_E_INVALID);
        c.n[9] = kept;
    }
    for (int i = 0; i < POINTS; i++)
        c.n[i] = 7;
    assert_int_equal(leat_power_law_fit(c.n, c.loss, POINTS, NULL, NULL, &law, &error), LEAT_E_INVALID);
}

TEST(bounds_that_are_none_are_errors)
{
    struct curve c;
    struct leat_power_law law;
    draw(&c, 1.5, 30, 0.45, 0, 0);
    const struct leat_power_fit_options wrong[] = {{0, 0.8, 6.5, -30},    {1e-3, 0, 6.5, -30},  {1e-3, NAN, 6.5, -30},
                                                   {1e-3, 0.8, -40, -30}, {1e-3, 0.8, 6.5, 40}, {1e-3, 0.8, NAN, 0},
                                                   {1e-3, 0.8, 6.5, NAN}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(leat_power_law_fit(c.n, c.loss, POINTS, &wrong[i], NULL, &law, &error), LEAT_E_INVALID);
}

TEST(a_start_that_is_no_number_is_no_harm)
{
    struct curve c;
    draw(&c, 1.5, 30, 0.45, 0.01, 3);
    const struct leat_power_law odd = {NAN, INFINITY, -INFINITY, 0};
    struct leat_power_law law = fit(&c, &odd);
    assert_true(isfinite(law.alpha) && isfinite(law.log_beta) && isfinite(law.log_eps));
}

TEST(powers_are_those_of_the_c_library_to_the_last_digits)
{
    for (int i = 1; i < 200; i++) {
        near(leat_power(i * 0.37, 0.01 * i - 1), pow(i * 0.37, 0.01 * i - 1), 1e-14);
        near(leat_exp(i - 100), exp(i - 100), 1e-14);
    }
    assert_true(leat_power(0, 0.5) == 0 && isnan(leat_power(-1, 2)) && isnan(leat_power(INFINITY, 1)));
    assert_true(leat_exp(-1e9) == 0 && isfinite(leat_exp(1e9)) && isnan(leat_exp(NAN)));
}

TEST_MAIN()
