/*
 * Delivery out of order where the caller chooses the rows of each batch (leat/elsewhere.h).
 */
#include "leat/elsewhere.h"

#include "base/random.h"
#include "support.h"

enum { SAMPLES = 203, BATCH = 8, AHEAD = 5 };

static struct leat_loader *opened(struct leat_dataset *dataset, bool in_order)
{
    struct leat_loader_options options = test_options(BATCH);
    options.in_order = in_order;
    options.tail = LEAT_TAIL_UNEVEN;
    return test_loader(dataset, &options);
}

/* Chooses rows of the next few planned batches at random, one run for each. False: none is left. */
static bool choose(struct leat_loader *l, uint64_t seed)
{
    struct leat_row_run rows[AHEAD * BATCH], *runs;
    struct leat_error error;
    uint64_t n = 0, n_runs, step = 0, picked = 0;
    for (int i = 0; i < AHEAD; i++, step++) {
        int rc = leat_loader_left(l, &step, &runs, &n_runs, &error);
        if (rc == LEAT_E_END)
            break;
        assert_ok(rc);
        for (uint64_t k = 0; k < n_runs; k++)
            for (uint64_t row = 0; row < runs[k].n; row++)
                rows[n++] = (struct leat_row_run){step, runs[k].first + row, 1};
        leat_free(runs);
    }
    if (!n)
        return false;
    const uint64_t wanted = n < BATCH ? n : BATCH;
    for (uint64_t i = 0; i < n; i++) /* each with the probability that fills the batch */
        if (leat_key_mix(seed, i) % (n - i) < wanted - picked)
            rows[picked++] = rows[i];
    assert_ok(leat_loader_choose(l, rows, picked, &step, &error));
    return true;
}

static uint64_t count(struct leat_batch *b, unsigned char *seen)
{
    for (uint64_t i = 0; i < leat_batch_rows(b); i++)
        seen[leat_batch_ids(b)[i]]++;
    uint64_t n = leat_batch_rows(b);
    leat_batch_free(b);
    return n;
}

TEST(batches_have_the_chosen_rows_and_a_state_goes_on_with_the_others)
{
    struct leat_dataset *dataset = test_dataset("chosen", SAMPLES, true);
    for (uint64_t cut = 0; cut <= SAMPLES / BATCH; cut += test_every(3)) {
        struct leat_loader *l = opened(dataset, false), *other = opened(dataset, false);
        unsigned char seen[SAMPLES] = {0};
        struct leat_error error;
        char *json;
        struct leat_batch *b;
        uint64_t iteration = test_start(l), n = 0;
        while (leat_consumer_epoch(leat_loader_consumer(l)) == 0 && n < cut * BATCH) {
            assert_true(choose(l, cut * 1000 + n));
            n += count(test_next(l, iteration), seen);
        }
        assert_ok(leat_loader_state(l, &json, &error));
        assert_ok(leat_loader_load_state(other, json, &error));
        leat_free(json);
        iteration = test_start(other);
        while ((b = test_next(other, iteration)))
            n += count(b, seen);
        assert_int_equal(n, SAMPLES);
        for (int i = 0; i < SAMPLES; i++)
            assert_int_equal(seen[i], 1);
        leat_loader_close(l);
        leat_loader_close(other);
    }
    leat_dataset_release(dataset);
}

TEST(rows_that_no_batch_can_have_are_refused_and_change_nothing)
{
    struct leat_dataset *dataset = test_dataset("chosen", SAMPLES, true);
    struct leat_loader *l = opened(dataset, false), *ordered = opened(dataset, true);
    struct leat_error error;
    struct leat_row_run *runs;
    uint64_t iteration = test_start(l), step = 0, n;
    test_start(ordered);
    const struct {
        struct leat_row_run runs[2];
        uint64_t n;
        int code;
    } bad[] = {
        {{{0, 0, 7}}, 1, LEAT_E_INVALID},
        {{{0, 0, 7}, {1, 0, 2}}, 2, LEAT_E_INVALID},
        {{{1, 0, 4}, {0, 0, 4}}, 2, LEAT_E_INVALID},
        {{{0, 4, 4}, {0, 0, 4}}, 2, LEAT_E_INVALID},
        {{{0, 0, 4}, {0, 3, 4}}, 2, LEAT_E_INVALID},
        {{{0, 4, 8}}, 1, LEAT_E_RANGE},
        {{{0, UINT64_MAX, 8}}, 1, LEAT_E_RANGE},
        {{{0, 0, UINT64_MAX}, {1, 0, 9}}, 2, LEAT_E_RANGE},
        {{{SAMPLES, 0, 8}}, 1, LEAT_E_INVALID},
        {{{SAMPLES / BATCH, 0, 3}, {SAMPLES / BATCH + 1, 0, 5}}, 2, LEAT_E_INVALID},
        {{{0, 0, 0}}, 0, LEAT_E_INVALID},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(leat_loader_choose(l, bad[i].runs, bad[i].n, &step, &error), bad[i].code);
    assert_int_equal(leat_loader_choose(ordered, bad[0].runs, 1, &step, &error), LEAT_E_INVALID);
    assert_int_equal(leat_loader_left(ordered, &step, &runs, &n, &error), LEAT_E_INVALID);
    assert_ok(leat_loader_choose(l, (struct leat_row_run[]){{1, 0, 8}}, 1, &step, &error));
    assert_ok(leat_loader_choose(l, (struct leat_row_run[]){{2, 0, 8}}, 1, &step, &error)); /* replaces it */
    struct leat_batch *b = test_next(l, iteration);
    assert_int_equal(leat_batch_step(b), 0);
    leat_batch_free(b);
    assert_int_equal(leat_loader_choose(l, (struct leat_row_run[]){{2, 0, 8}}, 1, &step, &error), LEAT_E_INVALID);
    assert_int_equal(leat_loader_next(l, iteration, -1, &b, &error), LEAT_E_INVALID); /* none was chosen */
    assert_ok(leat_loader_choose(l, (struct leat_row_run[]){{0, 0, 8}}, 1, &step, &error));
    assert_int_equal(step, 1);
    leat_batch_free(test_next(l, iteration));
    step = 0;
    assert_ok(leat_loader_left(l, &step, &runs, &n, &error));
    assert_int_equal(step, 1);
    assert_int_equal(n, 1);
    leat_free(runs);
    leat_loader_close(l);
    leat_loader_close(ordered);
    leat_dataset_release(dataset);
}

TEST_MAIN_IN(NULL, test_clean)
