/* Draws by weight, below any order: against the weights themselves, and against drawing one by one. */
#include <math.h>

#include "../allocations.h"
#include "common.h"
#include "plan/weighted.h"

enum { N = 6, DRAWS = 60000 };
static const double weights[N] = {1, 0, 4, 0.5, 2.5, 2};
static const double total = 10;

static struct leat_weights *make(const double *from, uint64_t n, uint64_t num_samples)
{
    struct leat_weights *w;
    struct leat_error error = {0};
    assert_ok(leat_weights_new(from, n, num_samples, &w, &error));
    return w;
}

/* Whether `count` of `n` draws are as many as a probability says, within five standard deviations. */
static void assert_drawn(uint64_t count, uint64_t n, double probability)
{
    const double mean = (double)n * probability, deviation = sqrt(mean * (1 - probability));
    if (fabs((double)count - mean) > 5 * deviation)
        fail_msg("%" PRIu64 " of %" PRIu64 " draws, and the probability is %g", count, n, probability);
}

TEST(draws_with_replacement_follow_the_weights)
{
    uint64_t count[N] = {0};
    struct leat_weights *w = make(weights, N, 0);
    for (uint64_t i = 0; i < DRAWS; i++)
        count[leat_weights_draw(w, 3, i)]++;
    for (size_t k = 0; k < N; k++)
        assert_drawn(count[k], DRAWS, weights[k] / total);
    leat_weights_free(w);
}

/* Position k has the part of the numbers from 0 to 1 between the sums of the weights before it and up to it. */
TEST(a_draw_is_a_function_of_its_key_and_number_whatever_was_drawn_before)
{
    static double many[1000], sums[1000];
    for (uint64_t k = 0; k < 1000; k++) {
        many[k] = draw(1, k, 0, 3) ? leat_draw_unit(2, k) : 0;
        sums[k] = (k ? sums[k - 1] : 0) + many[k];
    }
    struct leat_weights *w = make(many, 1000, 0), *other = make(many, 1000, 0);
    bool differs = false;
    for (uint64_t i = 0; i < 2000; i++) {
        const uint64_t key = 7 + i % 3, at = leat_weights_draw(w, key, i);
        const double target = leat_draw_unit(key, i) * sums[999];
        assert_true(target < sums[at] && (!at || sums[at - 1] <= target));
        assert_true(many[at] > 0);
        assert_int_equal(leat_weights_draw(other, key, i), at);
        differs |= leat_weights_draw(w, key + 1, i) != at;
    }
    assert_true(differs);
    leat_weights_free(w);
    leat_weights_free(other);
}

TEST(draws_without_replacement_are_those_of_drawing_one_by_one)
{
    uint64_t first[N] = {0}, second[N][N] = {{0}}, out[5];
    struct leat_weights *w = make(weights, N, 5);
    for (uint64_t key = 0; key < DRAWS; key++) {
        bool seen[N] = {false};
        leat_weights_take(w, key, 0, 5, out);
        for (size_t i = 0; i < 5; i++) {
            assert_true(out[i] < N && weights[out[i]] > 0 && !seen[out[i]]);
            seen[out[i]] = true;
        }
        first[out[0]]++;
        second[out[0]][out[1]]++;
    }
    for (size_t a = 0; a < N; a++) {
        assert_drawn(first[a], DRAWS, weights[a] / total);
        for (size_t b = 0; b < N && first[a]; b++)
            if (b != a)
                assert_drawn(second[a][b], first[a], weights[b] / (total - weights[a]));
    }
    leat_weights_free(w);
}

TEST(any_part_of_a_pass_is_that_of_the_whole_whichever_passes_are_asked_for)
{
    enum { MANY = 200, TAKEN = 90 };
    double many[MANY];
    uint64_t whole[4][TAKEN], part[TAKEN];
    for (uint64_t k = 0; k < MANY; k++)
        many[k] = k % 2 ? 0 : 1 + (double)k;
    struct leat_weights *w = make(many, MANY, TAKEN);
    for (uint64_t key = 0; key < 4; key++) {
        struct leat_weights *alone = make(many, MANY, TAKEN);
        leat_weights_take(alone, key, 0, TAKEN, whole[key]);
        leat_weights_free(alone);
    }
    assert_memory_not_equal(whole[0], whole[1], sizeof *whole);
    for (uint64_t i = 0; i < 300; i++) {
        const uint64_t key = draw(5, 3 * i, 0, 3), begin = draw(5, 3 * i + 1, 0, TAKEN - 1),
                       n = draw(5, 3 * i + 2, 0, TAKEN - begin);
        leat_weights_take(w, key, begin, n, part);
        assert_memory_equal(part, whole[key] + begin, n * sizeof *part);
    }
    leat_weights_free(w);
}

TEST(another_draw_is_never_the_broken_one_unless_it_alone_has_a_weight)
{
    static const double alone[N] = {0, 0, 3, 0, 0, 0}, nearly[N] = {0, 1e-300, 1, 0, 1e-300, 0};
    uint64_t count[N] = {0};
    struct leat_weights *w = make(weights, N, 0);
    for (unsigned i = 0; i < DRAWS; i++)
        count[leat_weights_draw_other(w, 11, i, 2)]++;
    assert_int_equal(count[2], 0);
    for (size_t k = 0; k < N; k++)
        if (k != 2)
            assert_drawn(count[k], DRAWS, weights[k] / (total - weights[2]));
    leat_weights_free(w);
    w = make(alone, N, 0);
    assert_int_equal(leat_weights_draw_other(w, 11, 0, 2), 2);
    leat_weights_free(w);
    w = make(nearly, N, 0);
    for (unsigned i = 0; i < 100; i++) {
        const uint64_t other = leat_weights_draw_other(w, 11, i, 2);
        assert_true(other == 1 || other == 4);
    }
    leat_weights_free(w);
}

TEST(weights_from_which_nothing_can_be_drawn_are_refused_and_others_are_told_apart)
{
    const struct {
        double of[3];
        uint64_t num_samples;
        const char *why;
    } bad[] = {{{1, -1, 1}, 0, "weight 1 is -1"},        {{1, 1, NAN}, 0, "weight 2 is nan"},
               {{INFINITY, 1, 1}, 0, "weight 0 is inf"}, {{0, 0, 0}, 0, "sum to 0"},
               {{1e308, 1e308, 0}, 0, "sum to inf"},     {{1, 0, 1}, 3, "only 2 weights are above 0"}};
    struct leat_weights *w, *other;
    struct leat_error error = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(leat_weights_new(bad[i].of, 3, bad[i].num_samples, &w, &error), LEAT_E_INVALID);
        assert_null(w);
        assert_non_null(strstr(error.message, bad[i].why));
    }
    w = make((const double[]){1, 0, 1}, 3, 2);
    other = make((const double[]){1, 1, 0}, 3, 2);
    assert_true(w->hash != other->hash);
    leat_weights_free(w);
    leat_weights_free(other);
}

TEST(every_allocation_may_fail_once)
{
    struct leat_error error = {0};
    int64_t n = 0;
    for (bool done = false; !done; n++) {
        struct leat_weights *w;
        fail_allocation(n);
        const int rc = leat_weights_new(weights, N, 3, &w, &error);
        done = !allocation_failed();
        assert_int_equal(rc, done ? LEAT_OK : LEAT_E_NOMEM);
        assert_true((w != NULL) == done);
        leat_weights_free(w);
    }
    assert_true(n > 4);
}

TEST_MAIN()
