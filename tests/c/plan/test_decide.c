/* Decisions: the position from which each holds, the lists that go, and the folding of entries. */
#include "../allocations.h"
#include "common.h"
#include "plan/internal.h"
#include "plan/log.h"

enum { N = 100, ROWS = 400 };

static struct leat_plan_row rows[2][ROWS];

static void decide(struct leat_plan *plan, struct leat_decision decision)
{
    struct leat_error error = {0};
    assert_ok(leat_plan_decide(plan, &decision, &error));
}

/* The sample of a row. */
static uint64_t sample_at(const struct leat_plan *plan, uint64_t epoch, uint64_t row)
{
    struct leat_plan_row found;
    assert_int_equal(leat_plan_rows_at(plan, epoch, &row, 1, &found), LEAT_OK);
    return found.piece.position;
}

TEST(a_batch_size_holds_from_its_position_which_cuts_the_batch_there)
{
    static const struct leat_position sizes[] = {{8, 0}, {8, 8}, {4, 16}, {12, 20}, {12, 32}}; /* {rows, begin} */
    struct leat_plan *plan = simple_plan(LEAT_ORDER_SHUFFLED, N, 1, 8, 0, 1, LEAT_TAIL_PAD),
                     *as_before = simple_plan(LEAT_ORDER_SHUFFLED, N, 1, 8, 0, 1, LEAT_TAIL_PAD);
    struct leat_plan_batch batch = {.next = {2, 0}}, other;
    decide(plan, (struct leat_decision){.at = {2, 20}, .global_batch = 12});
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(leat_plan_batch(plan, batch.next, &batch), LEAT_OK);
        assert_int_equal(batch.at.row, sizes[i].row);
        assert_int_equal(batch.global_rows, sizes[i].epoch);
    }
    assert_int_equal(leat_plan_batch(plan, (struct leat_position){1, 0}, &batch), LEAT_OK);
    assert_int_equal(batch.global_rows, 8);
    assert_int_equal(leat_plan_batch(plan, (struct leat_position){3, 0}, &batch), LEAT_OK);
    assert_int_equal(batch.global_rows, 12);
    assert_int_equal(leat_plan_batch(as_before, (struct leat_position){2, 0}, &other), LEAT_OK);
    for (uint64_t row = 0; row < N; row++) /* the order is what it was */
        assert_int_equal(sample_at(plan, 2, row), sample_at(as_before, 2, row));
    leat_plan_free(plan);
    leat_plan_free(as_before);
}

TEST(a_decision_behind_the_last_row_is_one_at_the_next_epochs_start)
{
    struct leat_plan *plan = simple_plan(LEAT_ORDER_SHUFFLED, N, 1, 8, 0, 1, LEAT_TAIL_PAD);
    decide(plan, (struct leat_decision){.at = {2, N}, .global_batch = 12});
    assert_int_equal(plan->n_log, 2);
    assert_int_equal(plan->log[1].at.epoch, 3);
    assert_int_equal(plan->log[1].at.row, 0);
    assert_int_equal(plan->log[1].kind, LEAT_ENTRY_DECIDE);
    leat_plan_free(plan);
}

TEST(a_list_holds_from_its_epoch_until_it_ends_and_is_copied)
{
    static const uint64_t samples[] = {7, 3, 99};
    int64_t list[] = {7, 3, 99};
    struct leat_plan *plan = simple_plan(LEAT_ORDER_SHUFFLED, N, 1, 8, 0, 1, LEAT_TAIL_PAD),
                     *as_before = simple_plan(LEAT_ORDER_SHUFFLED, N, 1, 8, 0, 1, LEAT_TAIL_PAD);
    decide(plan, (struct leat_decision){.at = {2, 0}, .positions = list, .n_positions = 3});
    decide(plan, (struct leat_decision){.at = {4, 0}, .unlisted = true});
    memset(list, 0, sizeof list);
    for (uint64_t epoch = 0; epoch < 6; epoch++) {
        const bool listed = epoch == 2 || epoch == 3;
        assert_int_equal(leat_plan_epoch_rows(plan, epoch), listed ? 3 : N);
        assert_int_equal(leat_plan_list(plan, epoch) != NULL, listed);
        for (uint64_t row = 0; row < (listed ? 3 : N); row++)
            assert_int_equal(sample_at(plan, epoch, row), listed ? samples[row] : sample_at(as_before, epoch, row));
    }
    leat_plan_free(plan);
    leat_plan_free(as_before);
}

TEST(what_is_refused_leaves_the_plan_as_it_was)
{
    static const int64_t outside[] = {N}, one[] = {1};
    static const double shares[] = {1};
    const struct {
        struct leat_decision decision;
        int code;
        const char *why;
    } bad[] = {
        {{.at = {3, 0}}, LEAT_E_INVALID, "must change something"},
        {{.at = {2, 7}, .global_batch = 9}, LEAT_E_INVALID, "before an earlier one at epoch 2 row 8"},
        {{.at = {3, N + 1}, .global_batch = 9}, LEAT_E_RANGE, "row 101 of epoch 3, which has 100 rows"},
        {{.at = {3, 0}, .shares = shares}, LEAT_E_INVALID, "one source"},
        {{.at = {3, 0}, .positions = outside, .n_positions = 1}, LEAT_E_RANGE, "is 100"},
        {{.at = {3, 0}, .global_batch = UINT64_MAX}, LEAT_E_INVALID, "at most 2^40"},
        {{.at = {3, 0}, .positions = one, .n_positions = 1, .global_batch = UINT64_MAX}, LEAT_E_INVALID, "2^40"},
    };
    struct leat_plan *plan = simple_plan(LEAT_ORDER_SHUFFLED, N, 1, 8, 0, 1, LEAT_TAIL_PAD);
    struct leat_error error = {0};
    decide(plan, (struct leat_decision){.at = {2, 8}, .global_batch = 6});
    const uint64_t hash = leat_plan_hash(plan);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(leat_plan_decide(plan, &bad[i].decision, &error), bad[i].code);
        assert_non_null(strstr(error.message, bad[i].why));
        assert_int_equal(plan->n_log, 2);
        assert_int_equal(leat_plan_hash(plan), hash);
    }
    leat_plan_free(plan);
}

/* Every epoch has a list; the run has passed those before `done`. */
TEST(lists_that_the_run_has_passed_are_released_but_the_last_and_their_hash_stays)
{
    enum { EPOCHS = 20 };
    int64_t list[3];
    uint64_t hashes[EPOCHS];
    struct leat_plan *plan = simple_plan(LEAT_ORDER_LIST, N, 1, 8, 0, 1, LEAT_TAIL_PAD);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        for (size_t k = 0; k < 3; k++)
            list[k] = (int64_t)draw(epoch, k, 0, N - 1);
        const uint64_t done = epoch > 10 ? epoch - 10 : 0;
        decide(plan, (struct leat_decision){.at = {epoch, 0}, .positions = list, .n_positions = 3, .done = {done, 5}});
        hashes[epoch] = plan->log[plan->n_log - 1].list->hash;
    }
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) { /* the run is in epoch 9 */
        const struct leat_list *found = leat_plan_list(plan, epoch);
        assert_int_equal(found->hash, hashes[epoch]);
        assert_int_equal(found->n, 3);
        assert_int_equal(found->positions != NULL, epoch >= 9);
    }
    leat_plan_free(plan);
    plan = simple_plan(LEAT_ORDER_LIST, N, 1, 8, 0, 1, LEAT_TAIL_PAD);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) /* the run is in the epoch that is decided */
        decide(plan, (struct leat_decision){.at = {epoch, 0}, .positions = list, .n_positions = 3, .done = {epoch, 0}});
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
        assert_int_equal(leat_plan_list(plan, epoch)->positions != NULL, epoch + 4 >= EPOCHS);
    leat_plan_free(plan);
}

/* ---- folding --------------------------------------------------------------------------------- */

/* A mixture of two sources with a decision every 10 rows, of sizes and shares. */
static struct leat_plan *make_mixture(uint32_t decisions, bool tell)
{
    const struct leat_plan_source sources[2] = {
        {.count = 70, .share = 0.5, .exhausted = LEAT_EXHAUSTED_REPEAT, .order = {.order = LEAT_ORDER_SHUFFLED}},
        {.count = 30, .share = 0.5, .exhausted = LEAT_EXHAUSTED_REPEAT, .order = {.order = LEAT_ORDER_SHUFFLED}}};
    struct leat_plan *plan = make_plan(sources, 2, 60, 1, 8, 0, 1, LEAT_TAIL_PAD);
    for (uint32_t i = 0; i < decisions; i++) {
        const double first = 0.2 + 0.6 * leat_draw_unit(4, i), shares[2] = {first, 1 - first};
        const struct leat_position at = {i / 6, 10 * (i % 6)};
        decide(plan, (struct leat_decision){.at = at,
                                            .global_batch = i % 2 ? 0 : 2 + i % 7,
                                            .shares = i % 4 ? shares : NULL,
                                            .done = tell ? at : (struct leat_position){0, 0}});
    }
    return plan;
}

/* All of it that a run sees from a position on. */
static void assert_same_from(struct leat_plan *a, struct leat_plan *b, struct leat_position at)
{
    struct leat_plan *plans[] = {a, b};
    assert_int_equal(leat_plan_hash(a), leat_plan_hash(b));
    for (uint64_t epoch = at.epoch; epoch < at.epoch + 3; epoch++) {
        const struct leat_position from = {epoch, epoch == at.epoch ? at.row : 0};
        uint64_t n[2];
        for (size_t p = 0; p < 2; p++)
            n[p] = walk(&plans[p], 1, from, rows[p], ROWS);
        assert_int_equal(n[0], n[1]);
        for (uint64_t i = 0; i < n[0]; i++)
            assert_true(same_row(&rows[0][i], &rows[1][i]));
        assert_int_equal(leat_plan_steps(a, epoch), leat_plan_steps(b, epoch));
    }
}

TEST(entries_up_to_any_one_become_one_and_the_rows_behind_it_stay)
{
    enum { DECISIONS = 30 };
    struct leat_plan *whole = make_mixture(DECISIONS, false);
    struct leat_plan_batch batch;
    for (uint32_t last = 2; last <= DECISIONS; last++) {
        struct leat_plan *plan = make_mixture(DECISIONS, false);
        const struct leat_position at = plan->log[last].at;
        assert_int_equal(leat_log_foldable(plan, last, UINT64_MAX), last);
        leat_log_fold_up_to(plan, last);
        assert_int_equal(plan->n_log, 1 + 1 + DECISIONS - last);
        assert_int_equal(plan->log[1].kind, LEAT_ENTRY_FOLDED);
        assert_int_equal(plan->log[1].folded.entries, last);
        assert_true(leat_position_is(plan->log[1].at, at));
        assert_same_from(plan, whole, at);
        if (at.epoch) /* what lies before can no longer be planned */
            assert_int_equal(leat_plan_batch(plan, (struct leat_position){at.epoch - 1, 0}, &batch), LEAT_E_RANGE);
        const uint32_t more = last + (plan->n_log - 2) / 2; /* and again, with some of those behind */
        if (more > last) {
            const struct leat_position later = whole->log[more].at;
            leat_log_fold_up_to(plan, more - last + 1);
            assert_int_equal(plan->log[1].folded.entries, more);
            assert_same_from(plan, whole, later);
        }
        leat_plan_free(plan);
    }
    leat_plan_free(whole);
}

TEST(a_run_of_any_number_of_decisions_has_a_short_log)
{
    enum { DECISIONS = 1500 };
    struct leat_plan *whole = make_mixture(DECISIONS, false), *folded = make_mixture(DECISIONS, true);
    assert_int_equal(whole->n_log, DECISIONS + 1);
    assert_true(folded->n_log <= 256 + 1 && folded->n_log > 64);
    assert_int_equal(folded->log[1].folded.entries + folded->n_log - 2, DECISIONS);
    assert_same_from(folded, whole, whole->log[DECISIONS].at);
    leat_plan_free(whole);
    leat_plan_free(folded);
}

TEST(an_epoch_that_is_read_keeps_its_decisions_on_rows)
{
    static const int64_t list[] = {1, 2, 3};
    struct leat_plan *plan = simple_plan(LEAT_ORDER_SHUFFLED, N, 1, 8, 0, 1, LEAT_TAIL_PAD);
    decide(plan, (struct leat_decision){.at = {0, 0}, .global_batch = 9});
    decide(plan, (struct leat_decision){.at = {1, 0}, .global_batch = 8});
    decide(plan, (struct leat_decision){.at = {2, 16}, .positions = list, .n_positions = 3});
    decide(plan, (struct leat_decision){.at = {2, 17}, .unlisted = true});
    assert_int_equal(leat_log_foldable(plan, 4, 2), 2);
    assert_int_equal(leat_log_foldable(plan, 4, 3), 4);
    assert_int_equal(leat_log_foldable(plan, 1, 2), 1);
    leat_plan_free(plan);
}

TEST(every_allocation_may_fail_once_and_changes_nothing)
{
    static const double shares[] = {0.25, 0.75};
    static const int64_t list[] = {5, 1};
    struct leat_error error = {0};
    for (int listed = 0; listed < 2; listed++) {
        int64_t n = 0;
        for (bool done = false; !done; n++) {
            struct leat_plan *plan =
                listed ? simple_plan(LEAT_ORDER_SHUFFLED, N, 1, 8, 0, 1, LEAT_TAIL_PAD) : make_mixture(2, false);
            const uint64_t hash = leat_plan_hash(plan);
            const struct leat_decision d = {.at = {1, 10},
                                            .shares = listed ? NULL : shares,
                                            .positions = listed ? list : NULL,
                                            .n_positions = listed ? 2 : 0};
            fail_allocation(n);
            const int rc = leat_plan_decide(plan, &d, &error);
            done = !allocation_failed();
            assert_int_equal(rc, done ? LEAT_OK : LEAT_E_NOMEM);
            assert_int_equal(leat_plan_hash(plan) != hash, done);
            leat_plan_free(plan);
        }
        assert_true(n > 1);
    }
}

TEST_MAIN()
