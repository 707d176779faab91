/* Mixtures: shares at every prefix, sources that run out, schedules, and any position without what lies before it. */
#include <math.h>

#include "../allocations.h"
#include "mixtures.h"
#include "plan/log.h"

TEST(the_counts_before_a_row_are_those_of_the_rows_before_it)
{
    for (uint64_t t = 0; t < 40; t += test_every(7)) {
        struct made m;
        const uint32_t n = (uint32_t)draw(t, 0, 2, MOST);
        draw_mixture(t, n, &m);
        m.spec.epoch_rows = 1500;
        for (uint32_t k = 0; k < n && t % 3; k++)
            m.sources[k].exhausted = t % 3 == 1 ? LEAT_EXHAUSTED_STOP : LEAT_EXHAUSTED_REDISTRIBUTE;
        struct leat_plan *plan = open_mixture(&m);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            uint64_t given[MOST] = {0}, counts[MOST];
            const uint64_t all = read_epoch(plan, epoch);
            for (uint64_t r = 0; r <= all; r++) {
                assert_int_equal(leat_plan_mix_counts(plan, epoch, r, counts), LEAT_OK);
                assert_memory_equal(counts, given, n * sizeof *counts);
                if (r < all)
                    given[rows[r].piece.source]++;
            }
            assert_int_equal(leat_plan_mix_counts(plan, epoch, UINT64_MAX, counts), LEAT_OK);
            assert_memory_equal(counts, given, n * sizeof *counts);
        }
        assert_int_equal(leat_plan_mix_counts(plan, UINT64_MAX, 1, (uint64_t[MOST]){0}), LEAT_E_RANGE);
        leat_plan_free(plan);
    }
}

TEST(counts_stay_within_the_bound_at_every_prefix_however_often_shares_change)
{
    for (uint64_t t = 0; t < 40; t += test_every(7)) {
        struct made m;
        const uint32_t n = (uint32_t)draw(t, 0, 2, MOST);
        double shares[MOST], ideal[MOST] = {0}, worst = 0;
        uint64_t count[MOST] = {0}, changed = 0;
        draw_mixture(t, n, &m);
        m.spec.epoch_rows = 3000;
        m.spec.global_batch = 1;
        struct leat_plan *plan = open_mixture(&m);
        static double phases[700][MOST];
        static uint64_t from[700];
        for (uint32_t k = 0; k < n; k++)
            phases[0][k] = m.sources[k].share;
        for (uint64_t at = 0; changed < 250;) {
            at += draw(t, 1000 + changed, 0, 24);
            draw_shares(leat_key_mix(t, at + changed), n, shares);
            struct leat_decision d = {.at = {at / 3000, at % 3000}, .shares = shares};
            assert_int_equal(leat_plan_decide(plan, &d, NULL), LEAT_OK);
            memcpy(phases[++changed], shares, sizeof shares);
            from[changed] = at;
        }
        for (uint64_t epoch = 0, i = 0, phase = 0; epoch < 2; epoch++) {
            const uint64_t all = read_epoch(plan, epoch);
            for (uint64_t r = 0; r < all; r++, i++) {
                while (phase < changed && from[phase + 1] <= i)
                    phase++;
                count[rows[r].piece.source]++;
                for (uint32_t k = 0; k < n; k++) {
                    ideal[k] += phases[phase][k];
                    const double off = fabs((double)count[k] - ideal[k]);
                    worst = off > worst ? off : worst;
                }
            }
        }
        assert_true(worst <= bound_of(n));
        leat_plan_free(plan);
    }
}

/* E of docs/order.md waits, and is then made good. */
TEST(sources_that_leave_and_come_back_stay_near_their_shares)
{
    double worst = 0;
    for (uint64_t t = 0; t < 60; t += test_every(7)) {
        struct made m;
        const uint32_t n = (uint32_t)draw(t, 0, 3, MOST);
        double shares[MOST], ideal[MOST] = {0};
        uint64_t count[MOST] = {0};
        draw_mixture(t, n, &m);
        m.spec.epoch_rows = 10000;
        m.spec.global_batch = 1;
        struct leat_plan *plan = open_mixture(&m);
        for (uint64_t epoch = 0, at = 0, i = 0; i < 200; i++) {
            double sum = 0;
            draw_shares(leat_key_mix(t, i), n, shares);
            for (uint32_t k = 0; k < n; k++)
                sum += shares[k] = draw(t, 5000 + MOST * i + k, 0, 2) ? shares[k] : 0;
            for (uint32_t k = 0; k < n; k++)
                shares[k] = sum > 0 ? shares[k] / sum : 1.0 / n;
            struct leat_decision d = {.at = {epoch, at}, .shares = shares};
            assert_int_equal(leat_plan_decide(plan, &d, NULL), LEAT_OK);
            const uint64_t run = draw(t, 9000 + i, 1, 40);
            for (uint64_t r = 0; r < run; r++, at++) {
                assert_int_equal(leat_plan_rows_at(plan, epoch, &at, 1, rows), LEAT_OK);
                assert_true(shares[rows->piece.source] > 0);
                count[rows->piece.source]++;
                for (uint32_t k = 0; k < n; k++) {
                    ideal[k] += shares[k];
                    const double off = fabs((double)count[k] - ideal[k]);
                    worst = off > worst ? off : worst;
                }
            }
        }
        leat_plan_free(plan);
    }
    assert_true(worst <= 5); /* with 16 sources; that for which all have shares is 5 */
}

/* Row by row: 0 always has half, the others take turns. What one lacks while it has no share must not be taken from its
 * sibling in the tree alone. */
TEST(sources_that_take_turns_row_by_row_stay_near_their_shares)
{
    for (uint32_t n = 3; n <= 5; n++) {
        enum { LENGTH = 3000 };
        struct made m;
        static struct leat_mix_point points[LENGTH];
        static double shares[LENGTH][MOST];
        double ideal[MOST] = {0}, worst = 0;
        uint64_t count[MOST] = {0};
        draw_mixture(1, n, &m);
        memset(shares, 0, sizeof shares);
        for (uint64_t i = 0; i < LENGTH; i++) {
            shares[i][0] = 0.5;
            shares[i][1 + i % (n - 1)] = 0.5;
            points[i] = (struct leat_mix_point){i, shares[i]};
        }
        m.spec.epoch_rows = LENGTH;
        m.spec.schedule = points;
        m.spec.n_points = LENGTH;
        struct leat_plan *plan = open_mixture(&m);
        read_epoch(plan, 0);
        for (uint64_t i = 0; i < LENGTH; i++) {
            count[rows[i].piece.source]++;
            for (uint32_t k = 0; k < n; k++) {
                ideal[k] += shares[i][k];
                worst = fmax(worst, fabs((double)count[k] - ideal[k]));
            }
        }
        assert_true(worst <= bound_of(n));
        leat_plan_free(plan);
    }
}

TEST(sources_that_redistribute_give_each_sample_once_in_every_epoch)
{
    for (uint64_t t = 0; t < 40; t += test_every(7)) {
        struct made m;
        const uint32_t n = (uint32_t)draw(t, 0, 1, MOST);
        uint64_t total = 0;
        draw_mixture(t, n, &m);
        for (uint32_t k = 0; k < n; k++) {
            m.sources[k].exhausted = LEAT_EXHAUSTED_REDISTRIBUTE;
            total += m.sources[k].count;
        }
        struct leat_plan *plan = open_mixture(&m);
        for (uint64_t epoch = 0; epoch < 20; epoch++) {
            uint8_t seen[MOST][128] = {{0}};
            assert_int_equal(read_epoch(plan, epoch), total);
            for (uint64_t r = 0; r < total; r++)
                assert_int_equal(seen[rows[r].piece.source][rows[r].piece.position]++, 0);
        }
        leat_plan_free(plan);
    }
}

TEST(an_epoch_ends_before_the_first_row_that_a_source_cannot_give)
{
    for (uint64_t t = 0; t < 40; t += test_every(7)) {
        struct made m;
        const uint32_t n = (uint32_t)draw(t, 0, 2, MOST);
        uint64_t all[MOST] = {0}, total = 0;
        double worst = 0;
        draw_mixture(t, n, &m);
        for (uint32_t k = 0; k < n; k++)
            m.sources[k].exhausted = k % 2 ? LEAT_EXHAUSTED_REPEAT : LEAT_EXHAUSTED_STOP;
        struct leat_plan *plan = open_mixture(&m);
        for (uint64_t epoch = 0; epoch < 40; epoch++) {
            uint64_t given[MOST] = {0};
            const uint64_t here = read_epoch(plan, epoch);
            bool one_is_through = false;
            for (uint64_t r = 0; r < here; r++) {
                const struct leat_piece *p = &rows[r].piece;
                total++;
                given[p->source]++;
                all[p->source]++;
                for (uint32_t k = 0; k < n; k++) {
                    const double off = fabs((double)all[k] - m.sources[k].share * (double)total);
                    worst = off > worst ? off : worst;
                }
            }
            for (uint32_t k = 0; k < n; k += 2) {
                assert_true(given[k] <= m.sources[k].count);
                one_is_through |= given[k] == m.sources[k].count;
            }
            assert_true(one_is_through);
        }
        assert_true(worst <= bound_of(n)); /* over all epochs: what one leaves is carried into the next */
        leat_plan_free(plan);
    }
}

TEST(an_epoch_of_equal_shares_is_as_long_as_its_sources_together)
{
    for (uint32_t n = 1; n <= MOST; n++) {
        struct made m;
        draw_mixture(n, n, &m);
        for (uint32_t k = 0; k < n; k++) {
            m.sources[k].count = 100;
            m.sources[k].share = 1.0 / n;
        }
        struct leat_plan *plan = open_mixture(&m);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            uint64_t given[MOST] = {0};
            assert_int_equal(read_epoch(plan, epoch), 100 * n);
            for (uint64_t r = 0; r < 100 * n; r++)
                given[rows[r].piece.source]++;
            for (uint32_t k = 0; k < n; k++)
                assert_int_equal(given[k], 100);
        }
        leat_plan_free(plan);
    }
}

TEST(a_limit_ends_the_passes_of_a_source_in_an_epoch)
{
    struct made m;
    draw_mixture(5, 2, &m);
    m.sources[0] = (struct leat_plan_source){.count = 10, .share = 0.5, .exhausted = LEAT_EXHAUSTED_REPEAT, .limit = 3};
    m.sources[1] = (struct leat_plan_source){.count = 100, .share = 0.5, .exhausted = LEAT_EXHAUSTED_REDISTRIBUTE};
    struct leat_plan *plan = open_mixture(&m);
    for (uint64_t epoch = 0; epoch < 5; epoch++) {
        uint64_t first = 0;
        assert_int_equal(read_epoch(plan, epoch), 130);
        for (uint64_t r = 0; r < 130; r++)
            first += rows[r].piece.source == 0;
        assert_int_equal(first, 30);
        assert_int_equal(rows[129].piece.source, 1);
    }
    leat_plan_free(plan);
}

static void decide_something(struct leat_plan *plan, const struct made *m, uint64_t t, uint64_t epoch)
{
    double shares[MOST];
    draw_even_shares(leat_key_mix(t, 77 + epoch), m->spec.n_sources, shares);
    struct leat_decision d = {.at = {epoch, draw(t, 950 + epoch, 0, leat_plan_epoch_rows(plan, epoch))},
                              .shares = shares};
    assert_int_equal(leat_plan_decide(plan, &d, NULL), LEAT_OK);
}

TEST(any_row_is_found_without_those_before_it)
{
    for (uint64_t t = 0; t < 60; t += test_every(7)) {
        struct made m;
        struct leat_mix_point points[4];
        double shares[4][MOST];
        draw_anything(t, &m, points, shares);
        struct leat_plan *plan = open_mixture(&m), *fresh = open_mixture(&m);
        for (uint64_t epoch = 0; epoch < 4; epoch++) {
            decide_something(plan, &m, t, epoch);
            decide_something(fresh, &m, t, epoch);
        }
        for (uint64_t i = 0; i < 8; i++) {
            const uint64_t epoch = draw(t, 2000 + i, 0, 60), n = read_epoch(plan, epoch);
            const uint64_t at = draw(t, 3000 + i, 0, n - 1);
            struct leat_plan_row row;
            if (i == 4) { /* what is known is forgotten */
                leat_plan_free(fresh);
                fresh = open_mixture(&m);
                for (uint64_t e = 0; e < 4; e++)
                    decide_something(fresh, &m, t, e);
            }
            assert_int_equal(leat_plan_rows_at(fresh, epoch, &at, 1, &row), LEAT_OK);
            assert_true(same_row(&row, &rows[at]));
        }
        assert_int_equal(leat_plan_hash(plan), leat_plan_hash(fresh));
        leat_plan_free(plan);
        leat_plan_free(fresh);
    }
}

TEST(a_state_continues_any_mixture_on_any_number_of_ranks)
{
    const uint8_t print[16] = {7};
    for (uint64_t t = 0; t < 40; t += test_every(7)) {
        struct made m;
        struct leat_mix_point points[4];
        double shares[4][MOST];
        struct leat_error error;
        draw_anything(t, &m, points, shares);
        struct leat_plan *plan = open_mixture(&m);
        for (uint64_t epoch = 0; epoch < 3; epoch++)
            decide_something(plan, &m, t, epoch);
        struct leat_position at = {draw(t, 4000, 0, 5), 0}, loaded;
        const uint64_t steps = leat_plan_steps(plan, at.epoch);
        assert_ok(leat_plan_seek(plan, at.epoch, draw(t, 4001, 0, steps - 1), &at));
        char *json;
        assert_ok(plan_state(plan, print, at, &json, &error));
        m.spec.world_size = 3;
        struct leat_plan *ranks[3];
        for (m.spec.rank = 0; m.spec.rank < 3; m.spec.rank++) {
            ranks[m.spec.rank] = open_mixture(&m);
            assert_ok(plan_load(ranks[m.spec.rank], print, json, &loaded, &error));
            assert_true(leat_position_is(at, loaded));
        }
        static struct leat_plan_row again[MAX_ROWS];
        const uint64_t n = walk(&plan, 1, at, rows, MAX_ROWS);
        assert_int_equal(walk(ranks, 3, at, again, MAX_ROWS), n);
        for (uint64_t i = 0; i < n; i++)
            assert_true(same_row(&rows[i], &again[i]));
        for (int r = 0; r < 3; r++)
            leat_plan_free(ranks[r]);
        leat_free(json);
        leat_plan_free(plan);
    }
}

/* Also where a source has just given its last row, so that the phase that was made ends there by itself. */
TEST(a_decision_within_rows_that_were_planned_gives_the_rows_that_its_log_gives)
{
    const uint8_t print[16] = {7};
    for (uint64_t t = 0; t < 12; t++) {
        struct made m;
        double shares[MOST];
        const uint32_t n = (uint32_t)draw(t, 0, 2, 5);
        const struct leat_position begin = {t % 3, 0};
        draw_mixture(t, n, &m);
        draw_even_shares(leat_key_mix(t, 9), n, shares);
        for (uint32_t k = 0; k < n; k++) {
            m.sources[k].count = draw(t, 800 + k, 1, 12);
            m.sources[k].exhausted = k % 3 == 2 ? LEAT_EXHAUSTED_REPEAT : LEAT_EXHAUSTED_REDISTRIBUTE;
            m.sources[k].limit = 1;
        }
        for (uint64_t row = 1, all = 2; row < all; row++) {
            static struct leat_plan_row again[MAX_ROWS];
            struct leat_plan *plan = open_mixture(&m), *loaded = open_mixture(&m);
            struct leat_error error;
            struct leat_position at;
            char *json;
            all = read_epoch(plan, begin.epoch);
            struct leat_decision d = {.at = {begin.epoch, row}, .shares = t % 4 ? shares : NULL, .global_batch = 8};
            assert_int_equal(leat_plan_decide(plan, &d, NULL), LEAT_OK);
            assert_ok(plan_state(plan, print, begin, &json, &error));
            assert_ok(plan_load(loaded, print, json, &at, &error));
            for (uint64_t epoch = begin.epoch; epoch < begin.epoch + 2; epoch++) {
                const uint64_t live = read_epoch(plan, epoch);
                assert_int_equal(walk(&loaded, 1, (struct leat_position){epoch, 0}, again, MAX_ROWS), live);
                for (uint64_t i = 0; i < live; i++)
                    assert_true(same_row(&rows[i], &again[i]));
            }
            leat_free(json);
            leat_plan_free(loaded);
            leat_plan_free(plan);
        }
    }
}

TEST(shares_follow_a_schedule_within_the_bound)
{
    for (int linear = 0; linear < 2; linear++) {
        struct made m;
        const double shares[3][2] = {{0.9, 0.1}, {0.2, 0.8}, {0.5, 0.5}};
        const struct leat_mix_point points[] = {{0, shares[0]}, {1000, shares[1]}, {1640, shares[2]}};
        double ideal = 0, worst = 0, count = 0;
        draw_mixture(3, 2, &m);
        m.spec.epoch_rows = 3000;
        m.spec.schedule = points;
        m.spec.n_points = 3;
        m.spec.linear = linear;
        struct leat_plan *plan = open_mixture(&m);
        read_epoch(plan, 0);
        for (uint64_t i = 0; i < 3000; i++) {
            const double x = (double)i + 0.5;
            ideal += i >= 1640             ? 0.5
                     : i >= 1000 && linear ? 0.2 + 0.3 * (x - 1000) / 640
                     : i >= 1000           ? 0.2
                     : linear              ? 0.9 - 0.7 * x / 1000
                                           : 0.9;
            count += rows[i].piece.source == 0;
            worst = fabs(count - ideal) > worst ? fabs(count - ideal) : worst;
        }
        assert_true(worst <= 0.53); /* within a part, the line leaves its middle by 0.022 rows in sum */
        leat_plan_free(plan);
    }
}

TEST(shares_of_tokens_hold_where_rows_differ_in_length)
{
    struct made m;
    const uint64_t lengths[] = {512, 2048, 100};
    const double shares[] = {0.25, 0.25, 0.5};
    double tokens[3] = {0}, total = 0, worst = 0;
    draw_mixture(9, 3, &m);
    for (int k = 0; k < 3; k++) {
        m.sources[k].share = shares[k];
        m.sources[k].tokens = lengths[k];
    }
    m.spec.epoch_rows = 6000;
    struct leat_plan *plan = open_mixture(&m);
    read_epoch(plan, 0);
    for (uint64_t i = 0; i < 6000; i++) {
        tokens[rows[i].piece.source] += (double)lengths[rows[i].piece.source];
        total += (double)lengths[rows[i].piece.source];
        for (int k = 0; k < 3; k++)
            worst = fabs(tokens[k] - shares[k] * total) > worst ? fabs(tokens[k] - shares[k] * total) : worst;
    }
    assert_true(worst <= 2.0 * 2048);
    leat_plan_free(plan);
}

/* The bound of docs/order.md: half of the longest row of a source, and its share of half of those of all. */
TEST(shares_of_tokens_hold_at_every_prefix_where_rows_vary_in_length)
{
    for (uint64_t t = 0; t < 60; t += test_every(7)) {
        struct made m;
        const uint32_t n = (uint32_t)draw(t, 0, 2, MOST);
        double tokens[MOST] = {0}, total = 0, longest[MOST] = {0}, all = 0;
        draw_mixture(t, n, &m);
        draw_lengths(t, t % 3 ? 50 : 100000, &m);
        for (uint32_t k = 0; k < n; k++) {
            m.sources[k].order.order = t % 4 ? LEAT_ORDER_SHUFFLED : LEAT_ORDER_SEQUENTIAL;
            for (uint32_t i = 0; i < m.sources[k].count; i++)
                longest[k] = fmax(longest[k], (double)m.tokens[k][i]);
            all += longest[k];
        }
        m.spec.epoch_rows = 4000;
        struct leat_plan *plan = open_mixture(&m);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            read_epoch(plan, epoch);
            for (uint64_t i = 0; i < 4000; i++) {
                const struct leat_piece *p = &rows[i].piece;
                tokens[p->source] += (double)m.tokens[p->source][p->position];
                total += (double)m.tokens[p->source][p->position];
                for (uint32_t k = 0; k < n; k++) {
                    const double share = m.sources[k].share, off = fabs(tokens[k] - share * total);
                    assert_true(off <= longest[k] / 2 + share * all / 2 + 1 + total * 0x1p-32);
                }
            }
        }
        leat_plan_free(plan);
    }
}

TEST(what_cannot_be_planned_is_refused)
{
    struct made m;
    struct leat_plan *plan;
    struct leat_error error;
    const double some[] = {0.5, 0.5}, none[] = {0, 0};
    struct leat_mix_point points[] = {{0, some}, {10, some}};
    draw_mixture(1, 2, &m);
    m.spec.schedule = points;
    m.spec.n_points = 2;
    points[1].row = 0;
    assert_int_equal(leat_plan_new(&m.spec, &plan, &error), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "rows rise"));
    points[1] = (struct leat_mix_point){10, none};
    assert_int_equal(leat_plan_new(&m.spec, &plan, &error), LEAT_E_INVALID);
    m.spec.n_points = 0;
    m.sources[1].exhausted = (enum leat_exhausted)3;
    assert_int_equal(leat_plan_new(&m.spec, &plan, &error), LEAT_E_INVALID);
    m.sources[1].exhausted = LEAT_EXHAUSTED_STOP;
    m.sources[1].tokens = 5;
    assert_int_equal(leat_plan_new(&m.spec, &plan, &error), LEAT_E_RANGE);
    m.sources[1].tokens = 0;
    m.sources[1].share = 0;
    m.sources[1].count = 0;
    plan = open_mixture(&m);
    assert_int_equal(leat_plan_decide(plan, &(struct leat_decision){.shares = some}, &error), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "source 1 is empty"));
    struct leat_plan_batch batch;
    assert_int_equal(leat_plan_batch(plan, (struct leat_position){UINT64_C(1) << 60, 0}, &batch), LEAT_E_RANGE);
    leat_plan_free(plan);
}

TEST(every_allocation_of_a_mixture_may_fail_once)
{
    struct made m;
    struct leat_mix_point points[4];
    double shares[4][MOST];
    draw_anything(3, &m, points, shares);
    int n = 0;
    for (bool done = false; !done; n++) {
        struct leat_plan *plan = NULL;
        fail_allocation(n);
        int rc = leat_plan_new(&m.spec, &plan, NULL);
        done = !allocation_failed();
        assert_int_equal(rc, done ? LEAT_OK : LEAT_E_NOMEM);
        leat_plan_free(plan);
    }
    assert_true(n > 10);
}

TEST_MAIN()
