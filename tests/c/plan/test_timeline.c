/* Finding the phase of a position: far ahead, far behind, and by several threads at once. */
#include <math.h>
#include <pthread.h>

#include "mixtures.h"
#include "plan/log.h"
#include "plan/timeline.h"

/* Row by row, as a run reads it, and then from anywhere: of a fresh plan, so that phases are made from few others. */
TEST(any_row_of_a_schedule_of_100000_points_is_found)
{
    enum { POINTS = 100000, SOURCES = 3, LENGTH = 300000 };
    struct made m;
    struct leat_mix_point *points = calloc(POINTS, sizeof *points);
    double(*shares)[SOURCES] = calloc(POINTS, sizeof *shares), ideal[SOURCES] = {0}, worst = 0;
    uint8_t *sources = calloc(LENGTH, 1);
    uint64_t count[SOURCES] = {0}, numbers[64];
    assert_true(points && shares && sources);
    draw_mixture(8, SOURCES, &m);
    for (uint32_t k = 0; k < SOURCES; k++) {
        m.sources[k].count = 1000000;
        m.sources[k].exhausted = LEAT_EXHAUSTED_REDISTRIBUTE;
    }
    for (uint64_t i = 0, row = 0; i < POINTS; row += draw(8, 20 + i++, 1, 4)) {
        draw_shares(leat_key_mix(8, i), SOURCES, shares[i]);
        points[i] = (struct leat_mix_point){row, shares[i]};
    }
    m.spec.schedule = points;
    m.spec.n_points = POINTS;
    struct leat_plan *plan = open_mixture(&m);
    assert_true(leat_plan_epoch_rows(plan, 0) == 3000000);
    for (uint64_t at = 0, point = 0; at < LENGTH; at += 64) {
        const uint64_t n = LENGTH - at < 64 ? LENGTH - at : 64;
        for (uint64_t i = 0; i < n; i++)
            numbers[i] = at + i;
        assert_int_equal(leat_plan_rows_at(plan, 0, numbers, n, rows), LEAT_OK);
        for (uint64_t i = at; i < at + n; i++) {
            while (point + 1 < POINTS && points[point + 1].row <= i)
                point++;
            count[sources[i] = (uint8_t)rows[i - at].piece.source]++;
            for (uint32_t k = 0; k < SOURCES; k++) {
                ideal[k] += shares[point][k];
                const double off = fabs((double)count[k] - ideal[k]);
                worst = off > worst ? off : worst;
            }
        }
    }
    assert_true(worst <= bound_of(SOURCES));
    leat_plan_free(plan);
    plan = open_mixture(&m);
    for (uint64_t i = 0; i < 200; i++) {
        const uint64_t at = draw(9, i, 0, LENGTH - 1);
        assert_int_equal(leat_plan_rows_at(plan, 0, &at, 1, rows), LEAT_OK);
        assert_int_equal(rows->piece.source, sources[at]);
    }
    leat_plan_free(plan);
    free(points);
    free(shares);
    free(sources);
}

TEST(an_epoch_behind_100000_phases_is_found)
{
    enum { FAR = 25000 };
    struct made m;
    draw_mixture(4, 4, &m);
    for (uint32_t k = 0; k < 4; k++) {
        m.sources[k].share = 0.1 * (k + 1);
        m.sources[k].count = 3 + k;
        m.sources[k].exhausted = LEAT_EXHAUSTED_REDISTRIBUTE;
    }
    struct leat_plan *plan = open_mixture(&m), *far = open_mixture(&m);
    static struct leat_plan_row again[MAX_ROWS];
    for (uint64_t epoch = 0; epoch < FAR; epoch++)
        assert_int_equal(leat_plan_epoch_rows(plan, epoch), 18);
    assert_int_equal(read_epoch(far, FAR), 18);
    assert_int_equal(walk(&plan, 1, (struct leat_position){FAR, 0}, again, MAX_ROWS), 18);
    for (uint64_t i = 0; i < 18; i++)
        assert_true(same_row(&rows[i], &again[i]));
    leat_plan_free(plan);
    leat_plan_free(far);
}

/* The part of a state on the begin of its epoch stays in use. Here it says something that no run would have come to. */
TEST(a_decision_in_the_epoch_of_a_state_does_not_go_back_to_those_before)
{
    struct made m;
    uint64_t base[] = {0, 17};
    int64_t carry[] = {-(INT64_C(1) << 31), INT64_C(1) << 31};
    const double shares[] = {0.5, 0.5};
    const struct leat_entry begin = {.at = {UINT64_C(1) << 40, 0}, .base = base, .carry = carry, .stream = 1 << 20};
    draw_mixture(6, 2, &m);
    m.sources[0].count = m.sources[1].count = 80;
    m.sources[0].exhausted = LEAT_EXHAUSTED_STOP;
    struct leat_plan *plan = open_mixture(&m);
    assert_true(leat_timeline_seed(plan, &begin));
    for (uint64_t i = 0; i < 2; i++) {
        static struct leat_plan_row before[4], after[4];
        const uint64_t numbers[] = {0, 1, 2, 3};
        assert_int_equal(leat_plan_rows_at(plan, begin.at.epoch, numbers, 4, before), LEAT_OK);
        struct leat_decision d = {.at = {begin.at.epoch, 4 + i}, .shares = shares};
        assert_int_equal(leat_plan_decide(plan, &d, NULL), LEAT_OK);
        assert_int_equal(leat_plan_rows_at(plan, begin.at.epoch, numbers, 4, after), LEAT_OK);
        for (int r = 0; r < 4; r++)
            assert_true(same_row(&before[r], &after[r]));
    }
    leat_plan_free(plan);
}

struct reading {
    pthread_t thread;
    const struct leat_plan *plan;
    uint64_t hash, key;
};

static void *read_at_random(void *arg)
{
    struct reading *r = arg;
    for (uint64_t i = 0; i < 60; i++) { /* more epochs than phases are kept, in an order of its own */
        const uint64_t epoch = (i * 37 + r->key * 11) % 60, last = leat_plan_epoch_rows(r->plan, epoch) - 1;
        struct leat_plan_row row;
        if (!leat_plan_rows_at(r->plan, epoch, &last, 1, &row))
            r->hash += leat_key_mix(leat_key_mix(epoch, row.key), row.piece.position);
    }
    return NULL;
}

static void read_by_threads(bool vary)
{
    struct made m;
    struct reading all[4];
    draw_mixture(2, MOST, &m);
    if (vary)
        draw_lengths(2, 100, &m);
    for (uint32_t k = 0; k < MOST; k++) {
        m.sources[k].share = 1.0 / MOST;
        m.sources[k].exhausted = LEAT_EXHAUSTED_REDISTRIBUTE;
    }
    struct leat_plan *plan = open_mixture(&m);
    for (uint64_t i = 0; i < 4; i++) {
        all[i] = (struct reading){.plan = plan, .key = i};
        assert_int_equal(pthread_create(&all[i].thread, NULL, read_at_random, &all[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(all[i].thread, NULL), 0);
    for (int i = 1; i < 4; i++)
        assert_int_equal(all[i].hash, all[0].hash);
    leat_plan_free(plan);
}

TEST(threads_that_ask_for_different_epochs_get_the_same_rows)
{
    read_by_threads(false);
    read_by_threads(true); /* by tokens, of rows that vary in length */
}

TEST_MAIN()
