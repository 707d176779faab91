/* Several consumers of one loader, each in a thread of its own: whatever they do to each other's pace, each gets every
 * row once and in order. Meant for the sanitizers, too. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { SAMPLES = 500, EPOCHS = 3 };

struct reader {
    struct leat_consumer *consumer;
    uint64_t batch, hash, rows; /* of ids and keys in the order in which they came */
    unsigned pause_us;
    int rc;
};

static uint64_t add_rows(uint64_t hash, const struct leat_batch *b)
{
    for (uint64_t i = 0; i < leat_batch_rows(b); i++)
        hash = leat_key_mix(hash, leat_key_mix((uint64_t)leat_batch_ids(b)[i], leat_batch_row_keys(b)[i]));
    return hash;
}

static void *read_epochs(void *user)
{
    struct reader *r = user;
    struct leat_error error;
    for (int e = 0; e < EPOCHS; e++) {
        uint64_t iteration;
        struct leat_batch *b;
        if ((r->rc = leat_consumer_start(r->consumer, &iteration, &error)))
            return NULL;
        while (!(r->rc = leat_consumer_next(r->consumer, iteration, 60000, &b, &error))) {
            test_check_batch(b);
            r->hash = add_rows(r->hash, b);
            r->rows += leat_batch_rows(b);
            struct leat_tensor x;
            leat_batch_tensor(b, 0, &x);
            memset(x.data, 0xee, test_tensor_bytes(&x)); /* its own: nobody else sees that */
            leat_batch_free(b);
            if (r->pause_us)
                usleep(r->pause_us);
        }
        if (r->rc != LEAT_E_END)
            return NULL;
    }
    r->rc = LEAT_OK;
    return NULL;
}

static void every_consumer_gets_all_rows_in_order_whatever_the_others_do(void **state)
{
    (void)state;
    for (int ragged = 0; ragged < 2; ragged++) {
        struct leat_dataset *dataset = test_dataset("numbers", SAMPLES, ragged);
        struct leat_loader_options options = test_options(16);
        options.budget_bytes = (2 << 20) * test_pages();
        struct leat_loader *loader = test_loader(dataset, &options);
        struct leat_error error;
        struct reader readers[] = {{.batch = 7}, {.batch = 16, .pause_us = 300}, {.batch = 50}, {.batch = 16}};
        enum { N = sizeof readers / sizeof *readers };
        pthread_t threads[N];
        uint64_t expected = 0, own = 0;
        for (int e = 0; e < EPOCHS; e++)
            for (uint64_t step = 0; step * 16 < SAMPLES; step++) {
                struct leat_batch *b;
                assert_ok(leat_loader_batch_at(loader, (uint64_t)e, step, &b, &error));
                expected = add_rows(expected, b);
                leat_batch_free(b);
            }
        for (size_t i = 0; i < N; i++)
            assert_ok(leat_consumer_open(loader, readers[i].batch, true, &readers[i].consumer, &error));
        for (size_t i = 0; i < N; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, read_epochs, &readers[i]), 0);
        for (int e = 0; e < EPOCHS; e++) {
            uint64_t iteration = test_start(loader);
            for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b))
                own = add_rows(own, b);
        }
        for (size_t i = 0; i < N; i++) {
            pthread_join(threads[i], NULL);
            assert_int_equal(readers[i].rc, LEAT_OK);
            assert_int_equal(readers[i].rows, EPOCHS * SAMPLES);
            assert_int_equal(readers[i].hash, expected);
            leat_consumer_close(readers[i].consumer);
        }
        assert_int_equal(own, expected);
        leat_loader_close(loader);
        leat_dataset_release(dataset);
    }
}

static void a_consumer_that_closes_in_the_middle_leaves_others_as_they_were(void **state)
{
    (void)state;
    struct leat_dataset *dataset = test_dataset("numbers", SAMPLES, true);
    struct leat_loader_options options = test_options(10);
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_error error;
    struct reader reader = {.batch = 13};
    pthread_t thread;
    assert_ok(leat_consumer_open(loader, reader.batch, true, &reader.consumer, &error));
    assert_int_equal(pthread_create(&thread, NULL, read_epochs, &reader), 0);
    for (unsigned i = 0; i < 60; i++) {
        struct leat_consumer *some;
        struct leat_batch *b;
        uint64_t iteration;
        assert_ok(leat_consumer_open(loader, 1 + i, i % 2, &some, &error));
        assert_ok(leat_consumer_start(some, &iteration, &error));
        for (unsigned k = 0; k < i % 5; k++)
            if (!leat_consumer_next(some, iteration, 60000, &b, &error))
                leat_batch_free(b);
        leat_consumer_close(some);
    }
    pthread_join(thread, NULL);
    assert_int_equal(reader.rc, LEAT_OK);
    assert_int_equal(reader.rows, EPOCHS * SAMPLES);
    leat_consumer_close(reader.consumer);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

static void a_loader_that_closes_ends_its_consumers(void **state)
{
    (void)state;
    struct leat_dataset *dataset = test_dataset("numbers", SAMPLES, false);
    struct leat_loader_options options = test_options(10);
    for (unsigned i = 0; i < 10; i++) {
        struct leat_loader *loader = test_loader(dataset, &options);
        struct leat_error error;
        struct reader reader = {.batch = 3, .pause_us = 100};
        pthread_t thread;
        assert_ok(leat_consumer_open(loader, reader.batch, true, &reader.consumer, &error));
        assert_int_equal(pthread_create(&thread, NULL, read_epochs, &reader), 0);
        usleep(1000 * i);
        leat_loader_close(loader);
        pthread_join(thread, NULL);
        assert_true(reader.rc == LEAT_E_CLOSED || reader.rows == EPOCHS * SAMPLES);
        leat_consumer_close(reader.consumer);
    }
    leat_dataset_release(dataset);
}

/* Reads `rows` rows or more, or to the end of the epoch; returns how many. */
static uint64_t read_rows(struct leat_consumer *c, uint64_t iteration, uint64_t rows, uint64_t *hash)
{
    uint64_t n = 0;
    struct leat_error error;
    for (struct leat_batch *b; n < rows; leat_batch_free(b)) {
        int rc = leat_consumer_next(c, iteration, 60000, &b, &error);
        if (rc == LEAT_E_END)
            break;
        if (rc)
            fail_msg("after %d rows: %s: %s", (int)n, leat_status_name(rc), error.message);
        test_check_batch(b);
        *hash = add_rows(*hash, b);
        n += leat_batch_rows(b);
    }
    return n;
}

static void a_batch_size_changes_while_another_consumer_is_ahead(void **state)
{
    (void)state;
    struct leat_error error;
    struct leat_dataset *dataset = test_dataset("numbers", SAMPLES, false);
    struct leat_loader_options options = test_options(2);
    options.order = LEAT_ORDER_SEQUENTIAL;
    struct leat_loader *loader = test_loader(dataset, &options);
    uint64_t expected = 0, i = test_start(loader), all = read_rows(leat_loader_consumer(loader), i, SAMPLES, &expected);
    assert_int_equal(all, SAMPLES);
    leat_loader_close(loader);
    const uint64_t sizes[] = {16, 3, 7, 64};
    for (uint64_t lag = 0; lag < 6; lag += 2)
        for (uint64_t ahead = 4; ahead < SAMPLES; ahead += 36)
            for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
                struct leat_consumer *own, *other;
                uint64_t hashes[2] = {0}, rows[2];
                loader = test_loader(dataset, &options);
                own = leat_loader_consumer(loader);
                assert_ok(leat_consumer_open(loader, 3, true, &other, &error));
                uint64_t mine = test_start(loader), its;
                assert_ok(leat_consumer_start(other, &its, &error));
                rows[1] = read_rows(other, its, ahead, &hashes[1]);
                rows[0] = read_rows(own, mine, lag, &hashes[0]); /* begins the next on the side */
                assert_ok(leat_loader_set_batch_size(loader, sizes[k], NULL, &error));
                rows[k % 2] += read_rows(k % 2 ? other : own, k % 2 ? its : mine, sizes[k], &hashes[k % 2]);
                rows[1] += read_rows(other, its, SAMPLES, &hashes[1]);
                rows[0] += read_rows(own, mine, SAMPLES, &hashes[0]);
                for (int w = 0; w < 2; w++) {
                    assert_int_equal(rows[w], SAMPLES);
                    assert_true(hashes[w] == expected);
                }
                leat_consumer_close(other);
                leat_loader_close(loader);
            }
    leat_dataset_release(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_consumer_gets_all_rows_in_order_whatever_the_others_do),
        cmocka_unit_test(a_consumer_that_closes_in_the_middle_leaves_others_as_they_were),
        cmocka_unit_test(a_loader_that_closes_ends_its_consumers),
        cmocka_unit_test(a_batch_size_changes_while_another_consumer_is_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, test_clean);
}
