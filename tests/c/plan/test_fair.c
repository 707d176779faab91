/* The division of a phase by shares of tokens, of rows that vary in length, without a plan. */
#include "common.h"
#include "plan/fair.h"
#include "plan/lengths.h"

enum { SOURCES = 5, ROWS = 60, FEW = 900 };

struct divided {
    struct leat_source_order orders[SOURCES];
    struct leat_plan_source from[SOURCES];
    uint64_t tokens[SOURCES][ROWS], sums[SOURCES + 1], given[SOURCES], at_first[SOURCES];
    int64_t offsets[SOURCES], carry[SOURCES];
    double shares[SOURCES];
    struct leat_division d;
    struct leat_fair *fair;
};

static void divide(uint64_t key, struct divided *x)
{
    uint64_t most;
    struct leat_error error = {0};
    *x = (struct divided){.d = {.n = SOURCES}};
    for (uint32_t k = 0; k < SOURCES; k++) {
        const uint64_t n = draw(key, k, 1, ROWS);
        for (uint64_t i = 0; i < n; i++)
            x->tokens[k][i] = draw(key, 100 * k + 10 + i, 1, 90);
        x->orders[k] = (struct leat_source_order){
            .order = LEAT_ORDER_SHUFFLED, .count = n, .rows = n, .key = key + k, .exhausted = LEAT_EXHAUSTED_REPEAT};
        x->from[k] = (struct leat_plan_source){.row_tokens = x->tokens[k], .order = {.order = LEAT_ORDER_SHUFFLED}};
        x->shares[k] = (double)draw(key, 900 + k, 1, 9);
        x->given[k] = x->at_first[k] = draw(key, 950 + k, 0, 200);
    }
    assert_int_equal(leat_shares_set(x->shares, SOURCES, x->sums, NULL), LEAT_OK);
    x->d.sums = x->sums;
    x->d.offsets = x->offsets;
    x->d.given = x->given;
    x->d.at_first = x->at_first;
    x->d.carry = x->carry;
    x->d.key = key;
    assert_ok(leat_fair_new(x->orders, SOURCES, x->from, &x->fair, &most, &error));
    leat_fair_begin(x->fair, &x->d);
}

static void end(struct divided *x)
{
    for (uint32_t k = 0; k < SOURCES; k++)
        leat_lengths_free(x->orders[k].lengths);
    leat_fair_free(x->fair);
}

TEST(each_source_is_near_its_share_of_tokens_at_every_row_and_counts_are_those_of_the_rows)
{
    for (uint64_t t = 0; t < 20; t++) {
        static struct divided x;
        uint32_t sources[FEW];
        uint64_t passes[FEW], rows[FEW], count[SOURCES] = {0}, own[SOURCES] = {0}, all = 0, counts[SOURCES];
        uint64_t tokens[SOURCES];
        divide(t, &x);
        assert_int_equal(leat_fair_run(x.fair, &x.d, 0, FEW, sources, passes, rows), FEW);
        for (uint64_t i = 0; i < FEW; i++) {
            const uint32_t k = sources[i];
            assert_int_equal(passes[i] * x.orders[k].rows + rows[i], x.given[k] + count[k]);
            count[k]++;
            own[k] += leat_lengths_at(&x.orders[k], passes[i], rows[i]);
            all += leat_lengths_at(&x.orders[k], passes[i], rows[i]);
            for (uint32_t s = 0; s < SOURCES; s++) {
                const double due = (double)all * (double)(x.sums[s + 1] - x.sums[s]) / 0x1p32;
                assert_true((double)own[s] - due < 200 && due - (double)own[s] < 200); /* a few of the longest rows */
            }
            if (i % 37 == 0) {
                assert_int_equal(leat_fair_counts(x.fair, &x.d, i + 1, counts, tokens), all);
                assert_memory_equal(counts, count, sizeof count);
                assert_memory_equal(tokens, own, sizeof own);
            }
        }
        end(&x);
    }
}

TEST(a_run_may_begin_at_any_row)
{
    static struct divided x;
    uint32_t sources[FEW], some[50];
    uint64_t passes[FEW], rows[FEW], some_passes[50], some_rows[50];
    divide(7, &x);
    leat_fair_run(x.fair, &x.d, 0, FEW, sources, passes, rows);
    for (uint64_t t = 0; t < 100; t++) {
        const uint64_t first = draw(3, t, 0, FEW - 50);
        assert_int_equal(leat_fair_run(x.fair, &x.d, first, 50, some, some_passes, some_rows), 50);
        assert_memory_equal(some, sources + first, sizeof some);
        assert_memory_equal(some_passes, passes + first, sizeof some_passes);
        assert_memory_equal(some_rows, rows + first, sizeof some_rows);
    }
    end(&x);
}

TEST(a_phase_ends_when_a_source_has_given_all_and_none_has_given_more)
{
    for (uint64_t t = 0; t < 20; t++) {
        static struct divided x;
        uint32_t ends;
        uint64_t left[SOURCES], counts[SOURCES], tokens[SOURCES];
        divide(50 + t, &x);
        for (uint32_t k = 0; k < SOURCES; k++)
            left[k] = k == t % SOURCES ? UINT64_MAX : draw(t, k, 0, 40);
        const uint64_t rows = leat_fair_end(x.fair, &x.d, left, &ends);
        leat_fair_counts(x.fair, &x.d, rows, counts, tokens);
        for (uint32_t k = 0; k < SOURCES; k++)
            assert_true(counts[k] <= left[k]);
        assert_int_equal(counts[ends], left[ends]);
        end(&x);
    }
}

TEST_MAIN()
