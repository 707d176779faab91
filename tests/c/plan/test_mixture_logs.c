/* Logs of mixtures that are folded: what follows is what follows from the whole log. */
#include "base/alloc.h"
#include "mixtures.h"
#include "plan/log.h"

TEST(a_log_that_was_folded_goes_on_as_the_whole_one)
{
    for (uint64_t t = 0; t < 8; t++) {
        struct made m;
        struct leat_mix_point points[4];
        double shares[4][MOST];
        draw_anything(t, &m, points, shares);
        struct leat_plan *whole = open_mixture(&m), *folded = open_mixture(&m);
        for (uint64_t epoch = 0; epoch < 300; epoch++) {
            double changed[MOST];
            draw_even_shares(leat_key_mix(t, epoch), m.spec.n_sources, changed);
            struct leat_decision d = {.at = {epoch, 0}, .shares = epoch % 3 ? changed : NULL, .global_batch = 8};
            assert_int_equal(leat_plan_decide(whole, &d, NULL), LEAT_OK);
            d.done = d.at;
            assert_int_equal(leat_plan_decide(folded, &d, NULL), LEAT_OK);
        }
        assert_true(folded->n_log < whole->n_log);
        assert_int_equal(leat_plan_hash(folded), leat_plan_hash(whole));
        const uint64_t n = read_epoch(whole, 300);
        static struct leat_plan_row again[MAX_ROWS];
        assert_int_equal(walk(&folded, 1, (struct leat_position){300, 0}, again, MAX_ROWS), n);
        for (uint64_t i = 0; i < n; i++)
            assert_true(same_row(&rows[i], &again[i]));
        leat_plan_free(whole);
        leat_plan_free(folded);
    }
}

/* Decides 400 times within an epoch, of shares or sizes, in both plans; `folded` knows how far its run is. */
static struct leat_position decide_within(uint64_t t, uint32_t n, uint64_t epoch, struct leat_plan *whole,
                                          struct leat_plan *folded)
{
    struct leat_position at = {epoch, 7};
    for (uint64_t i = 0; i < 400; i++, at.row += draw(t, 7000 + i, 0, 5)) {
        double changed[MOST];
        draw_even_shares(leat_key_mix(t, i), n, changed);
        const bool size = draw(t, 8000 + i, 0, 3) == 0;
        struct leat_decision d = {
            .at = at, .shares = size ? NULL : changed, .global_batch = size ? draw(t, 8500 + i, 4, 9) : 0};
        assert_true(at.row < leat_plan_epoch_rows(whole, epoch));
        assert_int_equal(leat_plan_decide(whole, &d, NULL), LEAT_OK);
        d.done = at;
        assert_int_equal(leat_plan_decide(folded, &d, NULL), LEAT_OK);
        assert_true(folded->n_log <= 257);
    }
    return at;
}

TEST(decisions_within_one_epoch_are_folded_and_its_rows_stay)
{
    const uint8_t print[16] = {7};
    for (uint64_t t = 0; t < 24; t += test_every(5)) {
        struct made m;
        struct leat_mix_point points[4];
        double shares[4][MOST];
        struct leat_error error;
        draw_anything(t, &m, points, shares);
        for (uint32_t k = 0; k < m.spec.n_sources; k++) {
            const bool soon = k % 3 == 1;  /* through before the last decision */
            if (m.sources[k].row_tokens) { /* of fewer samples than these */
                m.sources[k].row_tokens = NULL;
                m.sources[k].tokens = 1 + k;
            }
            m.sources[k].count = soon ? draw(t, 3000 + k, 1, 60) : 3000;
            if (soon) {
                m.sources[k].exhausted = LEAT_EXHAUSTED_REPEAT;
                m.sources[k].limit = 1;
            }
        }
        m.spec.epoch_rows = m.spec.epoch_rows ? 3000 : 0;
        m.spec.world_size = 4;
        m.spec.global_batch = 4;
        const uint64_t epoch = t % 3;
        struct leat_plan *whole = open_mixture(&m), *folded = open_mixture(&m), *loaded = open_mixture(&m);
        struct leat_position at = decide_within(t, m.spec.n_sources, epoch, whole, folded), found;
        assert_int_equal(leat_plan_hash(folded), leat_plan_hash(whole));
        assert_int_equal(leat_plan_steps(folded, epoch), leat_plan_steps(whole, epoch));
        char *json, *same;
        at = whole->log[whole->n_log - 1].at; /* where a batch begins */
        assert_ok(plan_state(whole, print, at, &json, &error));
        assert_ok(plan_state(folded, print, at, &same, &error));
        assert_string_equal(json, same);
        assert_true(strlen(json) < 30000);
        assert_ok(plan_load(loaded, print, json, &found, &error));
        static struct leat_plan_row again[MAX_ROWS];
        struct leat_plan *others[] = {folded, loaded};
        for (int k = 0; k < 2; k++)
            for (uint64_t e = epoch; e < epoch + 2; e++) {
                const struct leat_position from = e == epoch ? at : (struct leat_position){e, 0};
                uint64_t padding[7];
                for (uint64_t i = 0; i < 7; i++)
                    padding[i] = leat_plan_epoch_rows(whole, e) + i;
                const uint64_t left = leat_plan_epoch_rows(whole, e) - from.row, n = left < 6000 ? left : 6000,
                               n_all = n + 7;
                assert_int_equal(leat_plan_epoch_rows(others[k], e), from.row + left);
                for (uint64_t i = 0, row; i < n_all; i++) {
                    row = i < n ? from.row + i : padding[i - n];
                    assert_int_equal(leat_plan_rows_at(whole, e, &row, 1, &rows[i]), LEAT_OK);
                    assert_int_equal(leat_plan_rows_at(others[k], e, &row, 1, &again[i]), LEAT_OK);
                    assert_true(same_row(&rows[i], &again[i]));
                }
            }
        leat_free(json);
        leat_free(same);
        leat_plan_free(whole);
        leat_plan_free(folded);
        leat_plan_free(loaded);
    }
}

/* Rows of two plans from a position to the end of the next epoch. */
static void assert_same_from(struct leat_plan *a, struct leat_plan *b, struct leat_position at)
{
    static struct leat_plan_row again[MAX_ROWS];
    for (uint64_t e = at.epoch; e < at.epoch + 2; e++) {
        const uint64_t all = leat_plan_epoch_rows(a, e);
        assert_int_equal(leat_plan_epoch_rows(b, e), all);
        for (uint64_t row = e == at.epoch ? at.row : 0; row < all; row++) {
            assert_int_equal(leat_plan_rows_at(a, e, &row, 1, &rows[row]), LEAT_OK);
            assert_int_equal(leat_plan_rows_at(b, e, &row, 1, &again[row]), LEAT_OK);
            assert_true(same_row(&rows[row], &again[row]));
        }
    }
}

/* Some shares are 0, and at least one is not. */
static void draw_some_shares(uint64_t key, uint32_t n, double *shares)
{
    double sum = 0;
    for (uint32_t k = 0; k < n; k++)
        sum += shares[k] = draw(key, k, 0, 3) ? (double)draw(key, 50 + k, 1, 9) : 0;
    shares[0] += sum == 0;
    sum += sum == 0;
    for (uint32_t k = 0; k < n; k++)
        shares[k] /= sum;
}

/* Small sources run out at, before and behind decisions, of which some end their epoch. */
TEST(a_log_may_be_folded_at_any_decision_and_decided_on_further)
{
    for (uint64_t t = 0; t < 60; t += test_every(7)) {
        struct made m;
        struct leat_decision decided[8];
        static double shares[8][MOST], more[MOST];
        const uint32_t n = (uint32_t)draw(t, 1, 2, 4);
        draw_mixture(t, n, &m);
        for (uint32_t k = 0; k < n; k++) {
            m.sources[k].count = draw(t, 800 + k, 3, 20);
            m.sources[k].exhausted = (enum leat_exhausted)draw(t, 820 + k, 0, 2);
            m.sources[k].limit = m.sources[k].exhausted == LEAT_EXHAUSTED_REPEAT ? draw(t, 840 + k, 0, 2) : 0;
        }
        m.spec.global_batch = 1;
        struct leat_plan *whole = open_mixture(&m);
        struct leat_position at = {0, 0};
        uint32_t n_decided = 0;
        for (uint32_t i = 0; i < 8; i++) {
            draw_some_shares(leat_key_mix(t, i), n, shares[i]);
            decided[n_decided] = (struct leat_decision){.at = at, .shares = shares[i]};
            if (leat_plan_decide(whole, &decided[n_decided], NULL))
                break;
            n_decided++;
            const uint64_t all = leat_plan_epoch_rows(whole, at.epoch);
            at.row += draw(t, 900 + i, 0, 5);
            if (at.row > all || (at.row == all && draw(t, 920 + i, 0, 1)))
                at = (struct leat_position){at.epoch + 1, 0};
        }
        draw_some_shares(leat_key_mix(t, 99), n, more);
        for (uint32_t last = 2; last <= n_decided; last++)
            for (uint64_t further = 0; further < 3; further++) {
                struct leat_plan *a = open_mixture(&m), *b = open_mixture(&m);
                for (uint32_t i = 0; i < n_decided; i++) {
                    assert_int_equal(leat_plan_decide(a, &decided[i], NULL), LEAT_OK);
                    assert_int_equal(leat_plan_decide(b, &decided[i], NULL), LEAT_OK);
                }
                at = a->log[last].at;
                leat_log_fold_up_to(b, last);
                assert_same_from(a, b, at);
                struct leat_position end = a->log[n_decided].at;
                end.row += further;
                struct leat_decision d = {.at = end, .shares = more};
                if (further < 2 && end.row <= leat_plan_epoch_rows(a, end.epoch)) {
                    assert_int_equal(leat_plan_decide(a, &d, NULL), leat_plan_decide(b, &d, NULL));
                    assert_same_from(a, b, at);
                }
                leat_plan_free(a);
                leat_plan_free(b);
            }
        leat_plan_free(whole);
    }
}

TEST(decisions_that_find_no_room_in_a_state_are_counted_and_asked_for)
{
    const uint8_t print[16] = {7};
    struct made m;
    struct leat_error error;
    struct leat_position at;
    char *json, *log;
    draw_mixture(5, MOST, &m);
    m.spec.epoch_rows = 1000000;
    struct leat_plan *plan = open_mixture(&m), *loaded = open_mixture(&m);
    for (uint64_t i = 0; i < 600; i++) {
        double changed[MOST];
        draw_even_shares(i, MOST, changed);
        struct leat_decision d = {.at = {0, 64 * i}, .shares = changed};
        assert_int_equal(leat_plan_decide(plan, &d, NULL), LEAT_OK);
    }
    assert_ok(plan_state(plan, print, (struct leat_position){0, 64}, &json, &error));
    assert_true(strlen(json) < 65536);
    assert_non_null(strstr(json, "\"later\":566"));
    assert_int_equal(plan_load(loaded, print, json, &at, &error), LEAT_E_STATE);
    assert_non_null(strstr(error.message, "the last 566 decisions"));
    assert_ok(leat_plan_log(plan, 599, &log, &error));
    assert_non_null(strstr(log, "\"row\":38272"));
    assert_non_null(strstr(log, "\"row\":38336"));
    assert_null(strstr(log, "\"row\":38208"));
    leat_free(json);
    leat_free(log);
    leat_plan_free(plan);
    leat_plan_free(loaded);
}

TEST_MAIN()
