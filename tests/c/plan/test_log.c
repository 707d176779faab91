/* The entry that holds at a position, and the values behind each entry. */
#include "common.h"
#include "plan/log.h"
#include "plan/order.h"

enum { ENTRIES = 40 };

/* A plan that is nothing but its log: entries at rising positions, drawn from a number. */
static void draw_log(uint64_t key, struct leat_plan *plan, struct leat_source_order *order, struct leat_entry *log)
{
    *order = (struct leat_source_order){.rows = 1000, .count = 1000};
    *plan = (struct leat_plan){.sources = order, .n_sources = 1, .log = log, .n_log = ENTRIES, .rank = 1};
    log[0] = (struct leat_entry){.kind = LEAT_ENTRY_OPEN, .global_batch = 8, .world_size = 2};
    for (uint32_t i = 1; i < ENTRIES; i++) {
        const bool later = !draw(key, 3 * i, 0, 2);
        log[i] = (struct leat_entry){.kind = LEAT_ENTRY_DECIDE, .tail = -1, .at = log[i - 1].at};
        log[i].at.row = later ? draw(key, 3 * i + 1, 0, 1) : log[i].at.row + draw(key, 3 * i + 1, 0, 20);
        log[i].at.epoch += later ? draw(key, 3 * i + 2, 1, 2) : 0;
        log[i].global_batch = draw(key, 1000 + i, 0, 1) ? draw(key, 2000 + i, 2, 30) : 0;
    }
}

TEST(the_last_entry_up_to_a_position_holds_there)
{
    for (uint64_t t = 0; t < 50; t++) {
        struct leat_entry log[ENTRIES];
        struct leat_source_order order;
        struct leat_plan plan;
        draw_log(t, &plan, &order, log);
        for (uint64_t i = 0; i < 300; i++) {
            const struct leat_position at = {draw(t, 5000 + i, 0, log[ENTRIES - 1].at.epoch + 1),
                                             draw(t, 6000 + i, 0, 120)};
            const struct leat_entry *last = log;
            for (uint32_t k = 1; k < ENTRIES; k++)
                last = leat_position_precedes(at, log[k].at) ? last : &log[k];
            assert_ptr_equal(leat_log_entry(&plan, at), last);
        }
    }
}

TEST(each_entry_changes_what_held_and_counts_the_batches_before_it)
{
    for (uint64_t t = 0; t < 50; t++) {
        struct leat_entry log[ENTRIES];
        struct leat_source_order order;
        struct leat_plan plan;
        struct leat_error error = {0};
        draw_log(t, &plan, &order, log);
        assert_ok(leat_log_resolve(&plan, log, 0, ENTRIES, &error));
        uint64_t batch = 8, steps = 0, row = 0;
        for (uint32_t i = 1; i < ENTRIES; i++) {
            const bool same = log[i].at.epoch == log[i - 1].at.epoch;
            steps = same ? steps : 0;
            row = same ? row : 0;
            for (; row < log[i].at.row; row += batch < log[i].at.row - row ? batch : log[i].at.row - row)
                steps++;
            batch = log[i].global_batch ? log[i].global_batch : batch;
            assert_int_equal(log[i].now.global_batch, batch);
            assert_int_equal(log[i].now.world_size, 2);
            assert_int_equal(log[i].now.steps, steps);
        }
    }
}

TEST(sizes_that_do_not_fit_each_other_are_refused)
{
    struct leat_entry log[ENTRIES];
    struct leat_source_order order;
    struct leat_plan plan;
    struct leat_error error = {0};
    draw_log(1, &plan, &order, log);
    log[7].global_batch = 1;
    assert_int_equal(leat_log_resolve(&plan, log, 0, ENTRIES, &error), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "a global batch of 1 rows for 2 ranks"));
}

TEST_MAIN()
