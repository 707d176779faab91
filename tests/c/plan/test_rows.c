/* Rows of batches, and the samples that are drawn beside them. */
#include <math.h>
#include <pthread.h>

#include "common.h"

TEST(rows_are_the_same_in_any_order_of_calls)
{
    const double weights[] = {1, 2, 3, 4, 5};
    struct leat_plan_source sources[3] = {
        {.count = 90, .exhausted = LEAT_EXHAUSTED_REPEAT, .share = 3, .order = {.order = LEAT_ORDER_SHUFFLED}},
        {.count = 50,
         .exhausted = LEAT_EXHAUSTED_REPEAT,
         .share = 1,
         .order = {.order = LEAT_ORDER_BLOCKS, .block_rows = 8}},
        {.count = 5,
         .exhausted = LEAT_EXHAUSTED_REPEAT,
         .share = 1,
         .order = {.order = LEAT_ORDER_WEIGHTED, .weights = weights, .num_samples = 5}}};
    struct leat_plan *plan = make_plan(sources, 3, 300, 4, 300, 0, 1, LEAT_TAIL_PAD);
    struct leat_plan_batch batch[3];
    struct leat_plan_row rows[3][300], row;
    for (uint64_t e = 0; e < 3; e++) {
        assert_int_equal(leat_plan_batch(plan, (struct leat_position){e, 0}, &batch[e]), LEAT_OK);
        leat_plan_rows(plan, &batch[e], 0, 300, rows[e]);
    }
    for (uint64_t t = 0; t < 2000; t++) {
        uint64_t e = draw(t, 0, 0, 2), i = draw(t, 1, 0, 299);
        leat_plan_rows(plan, &batch[e], i, 1, &row);
        assert_true(same_row(&row, &rows[e][i]));
    }
    leat_plan_free(plan);
}

struct reading {
    const struct leat_plan *plan;
    uint64_t hash;
    pthread_t thread;
};

static void *read_all(void *arg)
{
    struct reading *r = arg;
    struct leat_plan_row rows[50];
    for (uint64_t epoch = 0; epoch < 12; epoch++) {
        struct leat_position at = {epoch, 0};
        struct leat_plan_batch batch;
        for (; leat_plan_batch(r->plan, at, &batch) == LEAT_OK; at = batch.next)
            for (uint64_t first = 0; first < batch.rows; first += 50) {
                if (leat_plan_rows(r->plan, &batch, first, 50, rows))
                    return NULL;
                for (int i = 0; i < 50; i++)
                    r->hash = leat_key_mix(r->hash + rows[i].key, rows[i].piece.position * 4 + rows[i].piece.source);
            }
    }
    return NULL;
}

TEST(threads_that_read_one_plan_at_once_get_the_same_rows)
{
    const double weights[] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct leat_plan_source sources[3] = {
        {.count = 900, .exhausted = LEAT_EXHAUSTED_REPEAT, .share = 3, .order = {.order = LEAT_ORDER_SHUFFLED}},
        {.count = 500,
         .exhausted = LEAT_EXHAUSTED_REPEAT,
         .share = 1,
         .order = {.order = LEAT_ORDER_BLOCKS, .block_rows = 8}},
        {.count = 8,
         .exhausted = LEAT_EXHAUSTED_REPEAT,
         .share = 2,
         .order = {.order = LEAT_ORDER_WEIGHTED, .weights = weights, .num_samples = 5}}}; /* passes made at use */
    struct leat_plan *plan = make_plan(sources, 3, 1000, 4, 100, 0, 1, LEAT_TAIL_PAD);
    struct reading all = {.plan = plan}, threads[4];
    read_all(&all);
    for (int i = 0; i < 4; i++) {
        threads[i] = (struct reading){.plan = plan};
        assert_int_equal(pthread_create(&threads[i].thread, NULL, read_all, &threads[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i].thread, NULL), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(threads[i].hash, all.hash);
    leat_plan_free(plan);
}

TEST(a_substitute_is_pure_never_the_broken_sample_and_evenly_spread)
{
    enum { N = 10, ROWS = 400 };
    struct leat_plan_source source = {.count = N, .order = {.order = LEAT_ORDER_SEQUENTIAL}};
    struct leat_plan *plan = make_plan(&source, 1, ROWS, 1, ROWS, 0, 1, LEAT_TAIL_PAD);
    unsigned count[N] = {0};
    for (uint64_t row = 0; row < ROWS; row++)
        for (unsigned attempt = 0; attempt < LEAT_MAX_SUBSTITUTES; attempt++) {
            struct leat_piece p = leat_plan_substitute(plan, 3, row, attempt),
                              q = leat_plan_substitute(plan, 3, row, attempt);
            assert_int_equal(p.position, q.position);
            assert_true(p.position != row % N && p.position < N);
            count[p.position]++;
        }
    for (int k = 0; k < N; k++)
        assert_in_range(count[k], 640 - 120, 640 + 120);
    leat_plan_free(plan);
    const int64_t list[] = {4, 4, 7};
    source.order = (struct leat_order_spec){.order = LEAT_ORDER_LIST, .positions = list, .n_positions = 3};
    plan = make_plan(&source, 1, 0, 1, 3, 0, 1, LEAT_TAIL_PAD);
    for (unsigned attempt = 0; attempt < LEAT_MAX_SUBSTITUTES; attempt++) {
        assert_int_equal(leat_plan_substitute(plan, 0, 0, attempt).position, 7);
        assert_int_equal(leat_plan_substitute(plan, 0, 2, attempt).position, 4);
    }
    leat_plan_free(plan);
}

TEST(a_substitute_of_a_weighted_order_follows_the_weights_of_the_others)
{
    enum { ROWS = 4000 };
    const double weights[] = {0, 1, 2, 0, 5};
    for (int replacement = 0; replacement < 2; replacement++) {
        struct leat_plan_source source = {
            .count = 5,
            .order = {.order = LEAT_ORDER_WEIGHTED, .weights = weights, .num_samples = 3, .replacement = replacement}};
        struct leat_plan *plan = make_plan(&source, 1, ROWS, 1, ROWS, 0, 1, LEAT_TAIL_PAD);
        struct leat_plan_batch batch;
        static struct leat_plan_row rows[ROWS];
        unsigned count[5][5] = {{0}}, of[5] = {0};
        assert_int_equal(leat_plan_batch(plan, (struct leat_position){2, 0}, &batch), LEAT_OK);
        assert_int_equal(leat_plan_rows(plan, &batch, 0, ROWS, rows), LEAT_OK);
        for (uint64_t row = 0; row < ROWS; row++)
            for (unsigned attempt = 0; attempt < LEAT_MAX_SUBSTITUTES; attempt++) {
                uint64_t broken = rows[row].piece.position;
                count[broken][leat_plan_substitute(plan, 2, row, attempt).position]++;
                of[broken]++;
            }
        for (int b = 0; b < 5; b++)
            for (int k = 0; k < 5; k++) {
                double expected = k == b || !of[b] ? 0 : of[b] * weights[k] / (8 - weights[b]);
                assert_true(fabs(count[b][k] - expected) <= 5 * sqrt(expected));
            }
        assert_true(of[1] && of[2] && of[4]);
        leat_plan_free(plan);
    }
}

TEST_MAIN()
