/* Selections by value, held against sorting. */
#include <float.h>
#include <math.h>

#include "../test.h"
#include "base/alloc.h"
#include "base/random.h"
#include "leat/feedback.h"

static struct leat_error error;
static const struct leat_mark *sorted_marks;
static bool sorted_least;

static int by_value(const void *pa, const void *pb)
{
    const int64_t a = *(const int64_t *)pa, b = *(const int64_t *)pb;
    const struct leat_mark *x = &sorted_marks[a], *y = &sorted_marks[b];
    if (!x->count != !y->count)
        return (!x->count) == sorted_least ? 1 : -1;
    if (x->count && x->value != y->value)
        return (x->value < y->value) == sorted_least ? -1 : 1;
    return a < b ? -1 : 1;
}

static int by_position(const void *a, const void *b)
{
    return *(const int64_t *)a < *(const int64_t *)b ? -1 : 1;
}

/* Values with many equals, zeros of both signs, denormal and huge ones, and unknown samples. */
static void fill(struct leat_mark *marks, uint64_t n, uint64_t key)
{
    static const float odd[] = {0.0F, -0.0F, FLT_TRUE_MIN, -FLT_TRUE_MIN, FLT_MAX, -FLT_MAX, 1.0F, 1.0000001F, -1.0F};
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t draw = leat_draw_u64(key, i);
        float value = odd[draw % (sizeof odd / sizeof *odd)];
        if (draw >> 63)
            value = (float)leat_draw_unit(key + 1, i) * 8 - 4;
        marks[i] = (struct leat_mark){.value = value, .count = draw >> 32 & 7 ? 1 : 0};
    }
}

TEST(the_extremes_are_those_of_sorting_with_ties_by_position)
{
    enum { N = 700 };
    struct leat_mark marks[N];
    int64_t expected[N], found[N];
    for (uint64_t round = 0; round < 60; round++) {
        const uint64_t n = 1 + leat_draw_below(round, 0, N), k = leat_draw_below(round, 1, n + 1);
        fill(marks, n, round);
        for (int least = 0; least < 2; least++) {
            const struct leat_measured values = {&marks->value, &marks->count, sizeof *marks, n};
            for (uint64_t i = 0; i < n; i++)
                expected[i] = (int64_t)i;
            sorted_marks = marks;
            sorted_least = least;
            qsort(expected, n, sizeof *expected, by_value);
            qsort(expected, k, sizeof *expected, by_position);
            assert_ok(leat_select_extreme(&values, least ? LEAT_LEAST : LEAT_GREATEST, k, found, &error));
            assert_memory_equal(found, expected, k * sizeof *found);
        }
    }
}

TEST(plain_numbers_are_selected_without_counts)
{
    const float numbers[] = {3, INFINITY, -INFINITY, 3, 2};
    const struct leat_measured values = {numbers, NULL, sizeof *numbers, 5};
    int64_t found[3];
    assert_ok(leat_select_extreme(&values, LEAT_GREATEST, 2, found, &error));
    assert_true(found[0] == 0 && found[1] == 1);
    assert_ok(leat_select_extreme(&values, LEAT_LEAST, 3, found, &error));
    assert_true(found[0] == 0 && found[1] == 2 && found[2] == 4);
    assert_ok(leat_select_extreme(&values, LEAT_LEAST, 0, found, &error));
}

TEST(what_cannot_be_selected_is_refused)
{
    const float numbers[] = {3, NAN, 1};
    const struct leat_measured values = {numbers, NULL, sizeof *numbers, 3}, none = {numbers, NULL, sizeof *numbers, 0};
    int64_t found[4];
    assert_int_equal(leat_select_extreme(&values, LEAT_GREATEST, 1, found, &error), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "value 1 is NaN"));
    assert_int_equal(leat_select_extreme(&values, LEAT_GREATEST, 4, found, &error), LEAT_E_RANGE);
    assert_int_equal(leat_select_weighted(&values, 1, 0, 1, found, &error), LEAT_E_INVALID);
    assert_int_equal(leat_select_weighted(&none, 1, 0, 1, found, &error), LEAT_E_INVALID);
    const float good[] = {1, 2, -1};
    const struct leat_measured negative = {good, NULL, sizeof *good, 3}, two = {good, NULL, sizeof *good, 2};
    assert_int_equal(leat_select_weighted(&negative, 1, 0, 1, found, &error), LEAT_E_INVALID);
    assert_int_equal(leat_select_weighted(&two, NAN, 0, 1, found, &error), LEAT_E_INVALID);
    assert_int_equal(leat_select_weighted(&two, -1, 0, 1, found, &error), LEAT_E_INVALID);
    const float huge[] = {FLT_MAX, FLT_MAX};
    const struct leat_measured great = {huge, NULL, sizeof *huge, 2};
    assert_int_equal(leat_select_weighted(&great, 1000, 0, 1, found, &error), LEAT_E_INVALID);
}

TEST(draws_are_in_proportion_to_the_power_and_follow_from_their_number)
{
    enum { N = 40000 };
    const struct leat_mark marks[] = {{1, 1, 0, 0}, {0, 1, 0, 0}, {2, 1, 0, 0}, {0, 0, 0, 0}};
    const struct leat_measured values = {&marks->value, &marks->count, sizeof *marks, 4};
    int64_t *found = malloc(N * sizeof *found), again[10];
    uint64_t counts[4] = {0};
    assert_non_null(found);
    assert_ok(leat_select_weighted(&values, 2, 77, N, found, &error)); /* 1 : 0 : 4 : 4 (unknown) */
    for (size_t i = 0; i < N; i++)
        counts[found[i]]++;
    assert_true(counts[1] == 0);
    assert_true(fabs((double)counts[0] / N - 1 / 9.0) < 0.01 && fabs((double)counts[3] / N - 4 / 9.0) < 0.01);
    assert_ok(leat_select_weighted(&values, 2, 77, 10, again, &error));
    assert_memory_equal(again, found, sizeof again);
    free(found);
}

TEST(where_all_weights_are_0_or_the_power_is_0_each_is_as_likely)
{
    enum { N = 8000 };
    const float zeros[] = {0, 0, 0, 0}, some[] = {0, 1, 2, 3};
    int64_t found[N];
    for (int round = 0; round < 2; round++) {
        const struct leat_measured values = {round ? some : zeros, NULL, sizeof *zeros, 4};
        uint64_t counts[4] = {0};
        assert_ok(leat_select_weighted(&values, round ? 0 : 1, 5, N, found, &error));
        for (size_t i = 0; i < N; i++)
            counts[found[i]]++;
        for (int i = 0; i < 4; i++)
            assert_true(fabs((double)counts[i] / N - 0.25) < 0.03);
    }
}

static void *refuse(size_t bytes)
{
    return NULL;
}

TEST(without_memory_nothing_is_selected)
{
    const float numbers[] = {1, 2};
    const struct leat_measured values = {numbers, NULL, sizeof *numbers, 2};
    int64_t found[1];
    const struct test_allocator own = test_allocator;
    test_allocator = (struct test_allocator){refuse, own.resize, own.release};
    const int first = leat_select_extreme(&values, LEAT_LEAST, 1, found, &error),
              second = leat_select_weighted(&values, 1, 0, 1, found, &error);
    test_allocator = own;
    assert_int_equal(first, LEAT_E_NOMEM);
    assert_int_equal(second, LEAT_E_NOMEM);
}

TEST_MAIN()
