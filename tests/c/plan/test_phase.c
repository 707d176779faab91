/* Phases made one from the other, without a timeline: where each ends, and what it hands on. */
#include "mixtures.h"
#include "plan/phase.h"

struct chain {
    struct leat_plan *plan;
    struct leat_phase *phase;
    uint64_t scratch[2 * MOST + 1];
    uint64_t memory[4096];
};

static void begin(struct chain *c, const struct made *m)
{
    c->plan = open_mixture(m);
    assert_true(leat_phase_bytes(m->spec.n_sources) <= sizeof c->memory);
    c->phase = leat_phase_place(c->memory, m->spec.n_sources);
    leat_phase_begin(c->plan, c->phase, NULL);
}

static bool make(struct chain *c)
{
    return leat_phase_make(c->plan, c->scratch, c->phase);
}

TEST(a_source_that_is_through_ends_a_phase_and_its_share_goes_to_the_others)
{
    static struct chain c;
    struct made m;
    draw_mixture(1, 2, &m);
    m.sources[0] = (struct leat_plan_source){.count = 10, .share = 0.5, .exhausted = LEAT_EXHAUSTED_REDISTRIBUTE};
    m.sources[1] = (struct leat_plan_source){.count = 30, .share = 0.5, .exhausted = LEAT_EXHAUSTED_REDISTRIBUTE};
    begin(&c, &m);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        assert_true(make(&c));
        const uint64_t both = c.phase->rows;
        assert_int_equal(c.phase->d.epoch, epoch);
        assert_int_equal(c.phase->row, 0);
        assert_int_equal(c.phase->ends, 0);
        assert_true(both >= 19 && both <= 21); /* half of its rows were those of source 0 */
        leat_phase_advance(c.plan, c.scratch, c.phase);
        assert_int_equal(c.phase->d.given[0], 10);
        assert_true(c.phase->through[0] && !c.phase->through[1]);
        assert_true(make(&c));
        assert_int_equal(c.phase->d.sums[1], 0); /* all of the share is source 1's */
        assert_int_equal(c.phase->d.sums[2], UINT64_C(1) << LEAT_SHARE_BITS);
        assert_int_equal(c.phase->rows, 40 - both);
        leat_phase_advance(c.plan, c.scratch, c.phase);
        assert_false(make(&c)); /* nothing is left of the epoch */
        leat_phase_next_epoch(c.plan, c.phase);
        assert_int_equal(c.phase->stream, 40 * (epoch + 1));
    }
    leat_plan_free(c.plan);
}

TEST(a_source_that_stops_ends_the_epoch_with_its_phase)
{
    static struct chain c;
    struct made m;
    draw_mixture(1, 2, &m);
    m.sources[0] = (struct leat_plan_source){.count = 10, .share = 0.25, .exhausted = LEAT_EXHAUSTED_STOP};
    m.sources[1] = (struct leat_plan_source){.count = 7, .share = 0.75, .exhausted = LEAT_EXHAUSTED_REPEAT};
    begin(&c, &m);
    for (uint64_t epoch = 0, given = 0; epoch < 4; epoch++) {
        assert_true(make(&c));
        assert_true(c.phase->last);
        assert_int_equal(c.phase->d.epoch, epoch);
        assert_int_equal(c.phase->d.given[0], 0);     /* it begins again, */
        assert_int_equal(c.phase->d.given[1], given); /* ... and this one goes on */
        given += c.phase->rows - 10;
        leat_phase_advance(c.plan, c.scratch, c.phase);
    }
    leat_plan_free(c.plan);
}

TEST(a_phase_ends_where_shares_change_and_its_copy_is_its_own)
{
    static struct chain c;
    static uint64_t memory[4096];
    struct made m;
    double first[] = {0.5, 0.5}, second[] = {1, 0};
    const struct leat_mix_point points[] = {{0, first}, {17, second}};
    draw_mixture(3, 2, &m);
    m.spec.schedule = points;
    m.spec.n_points = 2;
    m.spec.epoch_rows = 1000;
    begin(&c, &m);
    assert_true(make(&c));
    assert_int_equal(c.phase->rows, 17);
    struct leat_phase *copy = leat_phase_place(memory, 2);
    leat_phase_copy(copy, c.phase);
    leat_phase_advance(c.plan, c.scratch, c.phase);
    assert_true(make(&c));
    assert_int_equal(c.phase->stream, 17);
    assert_int_equal(c.phase->rows, LEAT_NO_END);
    assert_int_equal(c.phase->d.sums[1], UINT64_C(1) << LEAT_SHARE_BITS);
    assert_int_equal(copy->rows, 17);
    assert_int_equal(copy->d.sums[1], UINT64_C(1) << (LEAT_SHARE_BITS - 1));
    assert_int_equal(copy->d.given[0] + copy->d.given[1], 0);
    leat_plan_free(c.plan);
}

TEST_MAIN()
