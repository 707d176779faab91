/* Running sums of the tokens of rows, made from either end of a pass, against sums made row by row. */
#include "base/alloc.h"
#include "common.h"
#include "plan/lengths.h"

enum { PASSES = 3, MOST_ROWS = 5003 };

TEST(sums_are_those_of_the_rows_whatever_is_asked_for_first)
{
    static const uint64_t sizes[] = {1, 15, 16, 17, 255, 256, 257, 600, 1024, MOST_ROWS};
    static uint64_t tokens[MOST_ROWS], sums[PASSES][MOST_ROWS + 1];
    for (enum leat_order order = LEAT_ORDER_SEQUENTIAL; order <= LEAT_ORDER_BLOCKS; order++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            const uint64_t n = sizes[s], key = 100 * order + s;
            for (uint64_t i = 0; i < n; i++)
                tokens[i] = draw(key, i, 0, 2) ? draw(key, n + i, 0, 40) : 0;
            tokens[n - 1] = 7;
            struct leat_source_order o = {
                .order = order, .count = n, .rows = n, .block_rows = n < 13 ? n : 13, .key = key};
            for (uint64_t pass = 0; pass < PASSES; pass++) {
                struct leat_order_cursor cursor = {0};
                for (uint64_t i = 0, at; i < n; i++) {
                    leat_order_run(&o, NULL, &cursor, pass, i, 1, &at);
                    sums[pass][i + 1] = sums[pass][i] + tokens[at];
                }
            }
            const struct leat_plan_source from = {.row_tokens = tokens, .order = {.order = order}};
            struct leat_error error = {0};
            for (uint64_t t = 0; t < 6; t++) { /* fresh ones: what is asked for first differs */
                assert_ok(leat_lengths_new(&from, 0, n, &o.lengths, &error));
                for (uint64_t i = 0; i < 60; i++) {
                    const uint64_t c = 1000 * t + 4 * i, pass = draw(key + 7, c, 0, PASSES - 1),
                                   row = draw(key + 7, c + 1, 0, n), total = sums[pass][n],
                                   twice = draw(key + 7, c + 2, 0, 2 * total + 1);
                    uint64_t count = 0;
                    assert_int_equal(leat_lengths_before(&o, pass, row), sums[pass][row]);
                    while (count < n && sums[pass][count] + sums[pass][count + 1] <= twice)
                        count++;
                    assert_int_equal(leat_lengths_count(&o, pass, twice), count);
                }
                leat_lengths_free(o.lengths);
            }
        }
}

TEST_MAIN()
