/* Batches of a reader's own sizes: those of a plan with these sizes, without one. */
#include "common.h"

static void assert_same_batch(const struct leat_plan_batch *a, const struct leat_plan_batch *b)
{
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->step, b->step);
    assert_true(leat_position_is(a->at, b->at));
    assert_int_equal(a->global_rows, b->global_rows);
    assert_int_equal(a->begin, b->begin);
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->last, b->last);
    assert_true(leat_position_is(a->next, b->next));
}

/* Sizes of test `t`, among them batches larger than the epoch, and ranks without rows. */
struct sizes {
    uint64_t rows, global;
    uint32_t rank, world;
    enum leat_tail tail;
};

static struct sizes sizes_of(uint64_t t)
{
    const uint32_t world = (uint32_t)draw(t, 1, 1, t % 3 ? 4 : 40);
    return (struct sizes){.rows = draw(t, 0, 1, t % 5 ? 120 : 3),
                          .world = world,
                          .rank = (uint32_t)draw(t, 3, 0, world - 1),
                          .global = draw(t, 2, world, t % 7 ? world + 30 : world),
                          .tail = (enum leat_tail)draw(t, 4, 0, 2)};
}

static struct leat_cut cut_of(const struct sizes *s)
{
    return (struct leat_cut){.global_batch = s->global, .rank = s->rank, .world_size = s->world, .tail = s->tail};
}

TEST(a_cut_has_the_batches_of_a_plan_of_its_sizes)
{
    for (uint64_t t = 0; t < 3000; t++) {
        const struct sizes s = sizes_of(t);
        const uint64_t epoch = t % 4;
        const struct leat_cut cut = cut_of(&s);
        struct leat_plan *plan = simple_plan(LEAT_ORDER_SHUFFLED, s.rows, 1, s.global, s.rank, s.world, s.tail);
        struct leat_plan_batch wanted, got;
        struct leat_position at = {epoch, 0};
        uint64_t steps = 0, with_rows = 0;
        for (; leat_plan_batch(plan, at, &wanted) == LEAT_OK; at = wanted.next, steps++) {
            assert_int_equal(leat_cut_batch(&cut, epoch, s.rows, steps, &got), LEAT_OK);
            assert_same_batch(&got, &wanted);
            with_rows += wanted.rows > 0;
        }
        assert_int_equal(leat_cut_batch(&cut, epoch, s.rows, steps, &got), LEAT_E_END);
        assert_int_equal(leat_cut_steps(&cut, s.rows), leat_plan_rank_steps(plan, epoch));
        assert_int_equal(leat_cut_steps(&cut, s.rows), with_rows);
        leat_plan_free(plan);
    }
}

TEST(a_cut_that_begins_within_an_epoch_has_the_batches_behind_a_decision)
{
    for (uint64_t t = 0; t < 1500; t++) {
        const struct sizes s = sizes_of(t);
        struct leat_cut cut = cut_of(&s);
        struct leat_plan *plan =
            simple_plan(LEAT_ORDER_SHUFFLED, s.rows, 1, draw(t, 6, s.world, s.world + 20), s.rank, s.world, s.tail);
        struct leat_error error = {0};
        struct leat_plan_batch wanted, got;
        struct leat_position at = {1, draw(t, 5, 0, s.rows - 1)};
        const struct leat_decision decision = {.at = at, .global_batch = s.global};
        assert_ok(leat_plan_decide(plan, &decision, &error));
        cut.origin = at.row;
        for (bool first = true; leat_plan_batch(plan, at, &wanted) == LEAT_OK; at = wanted.next, first = false) {
            cut.first_step = first ? wanted.step : cut.first_step;
            assert_int_equal(leat_cut_batch(&cut, 1, s.rows, wanted.step, &got), LEAT_OK);
            assert_same_batch(&got, &wanted);
        }
        if (cut.first_step)
            assert_int_equal(leat_cut_batch(&cut, 1, s.rows, cut.first_step - 1, &got), LEAT_E_END);
        leat_plan_free(plan);
    }
}

TEST(ranks_of_a_cut_together_have_each_row_once)
{
    for (uint64_t t = 0; t < 500; t++) {
        struct sizes s = sizes_of(t);
        uint8_t seen[200] = {0};
        for (s.rank = 0; s.rank < s.world; s.rank++) {
            const struct leat_cut cut = cut_of(&s);
            struct leat_plan_batch b;
            for (uint64_t step = 0; leat_cut_batch(&cut, 0, s.rows, step, &b) == LEAT_OK; step++)
                for (uint64_t row = b.begin; row < b.begin + b.rows; row++)
                    if (row < s.rows)
                        assert_int_equal(seen[row]++, 0);
        }
        for (uint64_t row = 0; row < (s.tail == LEAT_TAIL_DROP ? s.rows / s.global * s.global : s.rows); row++)
            assert_int_equal(seen[row], 1);
    }
}

TEST(steps_and_origins_beyond_all_rows_have_no_batch)
{
    struct leat_cut cut = {.global_batch = UINT64_C(1) << 40, .world_size = 1};
    struct leat_plan_batch b;
    assert_int_equal(leat_cut_batch(&cut, 0, 100, 0, &b), LEAT_OK);
    assert_int_equal(b.rows, 100);
    const uint64_t far[] = {1, UINT64_C(1) << 24, UINT64_MAX / 2, UINT64_MAX};
    for (size_t i = 0; i < sizeof far / sizeof *far; i++)
        assert_int_equal(leat_cut_batch(&cut, 0, 100, far[i], &b), LEAT_E_END);
    cut.origin = 100;
    assert_int_equal(leat_cut_batch(&cut, 0, 100, 0, &b), LEAT_E_END);
    assert_int_equal(leat_cut_steps(&cut, 100), 0);
    cut.origin = UINT64_MAX;
    assert_int_equal(leat_cut_batch(&cut, 0, 100, 1, &b), LEAT_E_END);
    assert_int_equal(leat_cut_batch(&(struct leat_cut){.global_batch = 4, .world_size = 1}, 0, 0, 0, &b), LEAT_E_END);
}

TEST(each_row_is_found_in_the_batch_that_has_it)
{
    for (uint64_t t = 0; t < 300; t++) {
        const struct sizes s = sizes_of(t);
        struct leat_plan *plan = simple_plan(LEAT_ORDER_SHUFFLED, s.rows, 1, s.global, 0, 1, s.tail);
        struct leat_error error = {0};
        struct leat_position found;
        uint64_t border = 0;
        for (uint64_t d = 0; d < t % 3; d++) {
            border = draw(t, 20 + d, border, s.rows - 1);
            const struct leat_decision decision = {.at = {2, border}, .global_batch = draw(t, 30 + d, 1, 20)};
            assert_ok(leat_plan_decide(plan, &decision, &error));
        }
        for (uint64_t epoch = 1; epoch < 4; epoch++) {
            struct leat_plan_batch b;
            struct leat_position at = {epoch, 0};
            for (; leat_plan_batch(plan, at, &b) == LEAT_OK; at = b.next)
                for (uint64_t row = b.at.row; row < b.at.row + b.global_rows; row++) {
                    assert_int_equal(leat_plan_find(plan, (struct leat_position){epoch, row}, &found), LEAT_OK);
                    assert_true(leat_position_is(found, b.at));
                }
            assert_int_equal(leat_plan_find(plan, (struct leat_position){epoch, s.rows}, &found), LEAT_E_END);
            assert_int_equal(leat_plan_find(plan, (struct leat_position){epoch, UINT64_MAX}, &found), LEAT_E_END);
        }
        assert_int_equal(leat_plan_find(plan, (struct leat_position){UINT64_MAX, 0}, &found), LEAT_E_RANGE);
        leat_plan_free(plan);
    }
}

TEST_MAIN()
