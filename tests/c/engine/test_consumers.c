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
        while (!(r->rc = leat_consumer_next(r->consumer, iteration, TEST_HANG_MS, &b, &error))) {
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

TEST(every_consumer_gets_all_rows_in_order_whatever_the_others_do)
{
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

TEST(a_consumer_that_closes_in_the_middle_leaves_others_as_they_were)
{
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
            if (!leat_consumer_next(some, iteration, TEST_HANG_MS, &b, &error))
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

TEST(a_loader_that_closes_ends_its_consumers)
{
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
        int rc = leat_consumer_next(c, iteration, TEST_HANG_MS, &b, &error);
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

TEST(a_batch_size_changes_while_another_consumer_is_ahead)
{
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
        for (uint64_t ahead = 4; ahead < SAMPLES; ahead += 36 * test_every(2))
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

/* The first sample of its next batch, of data that is read in order; SAMPLES: there is none in the epoch. */
static uint64_t first_of_next(struct leat_consumer *c)
{
    struct leat_error error;
    struct leat_batch *b;
    uint64_t iteration;
    assert_ok(leat_consumer_start(c, &iteration, &error));
    int rc = leat_consumer_next(c, iteration, TEST_HANG_MS, &b, &error);
    if (rc == LEAT_E_END)
        return SAMPLES;
    assert_int_equal(rc, LEAT_OK);
    const uint64_t id = (uint64_t)leat_batch_ids(b)[0];
    leat_batch_free(b);
    return id;
}

TEST(a_consumer_opens_where_the_one_ahead_is_also_after_a_decision)
{
    struct leat_error error;
    struct leat_dataset *dataset = test_dataset("numbers", SAMPLES, false);
    struct leat_loader_options options = test_options(2);
    options.order = LEAT_ORDER_SEQUENTIAL;
    for (uint64_t size = 1; size < 70; size += 11)
        for (uint64_t ahead = 6; ahead < 480; ahead += 54 * test_every(2))
            for (int loads = 0; loads < 2; loads++) {
                struct leat_consumer *own, *other, *third, *late;
                struct leat_loader *loader = test_loader(dataset, &options);
                char *saved;
                uint64_t hash = 0, mine = test_start(loader), its;
                own = leat_loader_consumer(loader);
                assert_ok(leat_consumer_open(loader, 3, true, &other, &error));
                assert_ok(leat_consumer_start(other, &its, &error));
                read_rows(own, mine, 4, &hash);
                assert_int_equal(read_rows(other, its, ahead, &hash), ahead);
                assert_ok(leat_loader_set_batch_size(loader, size, NULL, &error));
                if (loads) { /* its own position goes back: the other one is as far ahead as before */
                    assert_ok(leat_loader_state(loader, &saved, &error));
                    read_rows(own, mine, 100, &hash);
                    assert_ok(leat_loader_load_state(loader, saved, &error));
                    leat_free(saved);
                }
                assert_ok(leat_consumer_open(loader, 5, false, &third, &error));
                assert_int_equal(first_of_next(third), ahead);
                leat_consumer_close(third);
                leat_consumer_close(other);
                assert_ok(leat_loader_state(loader, &saved, &error));
                assert_ok(leat_loader_load_state(loader, saved, &error)); /* not begun, and the only one */
                leat_free(saved);
                assert_ok(leat_consumer_open(loader, 5, false, &late, &error));
                assert_int_equal(first_of_next(late), first_of_next(own));
                leat_consumer_close(late);
                leat_loader_close(loader);
            }
    leat_dataset_release(dataset);
}

/* Lists of positions are given for the next epoch, and states loaded, while another consumer is anywhere. */
TEST(lists_and_states_change_what_comes_and_nothing_that_others_still_read)
{
    struct leat_error error;
    struct leat_dataset *dataset = test_dataset("numbers", SAMPLES, true);
    struct leat_loader_options options = test_options(7);
    int64_t list[SAMPLES];
    options.order = LEAT_ORDER_LIST;
    for (uint64_t lag = 0; lag < SAMPLES; lag += 83) {
        struct leat_loader *loader = test_loader(dataset, &options);
        struct leat_consumer *own = leat_loader_consumer(loader), *other;
        uint64_t hashes[2] = {0}, rows[2] = {0}, its = 0;
        for (int64_t epoch = 0; epoch < 4; epoch++) {
            for (int64_t i = 0; i < SAMPLES; i++)
                list[i] = (i * 7 + epoch * 13) % SAMPLES;
            assert_ok(leat_loader_set_positions(loader, list, SAMPLES, &error));
            if (!epoch)
                assert_ok(leat_consumer_open(loader, 16, true, &other, &error));
            if (epoch) /* what it had left of the epoch before */
                rows[1] += read_rows(other, its, SAMPLES, &hashes[1]);
            const uint64_t mine = test_start(loader);
            assert_ok(leat_consumer_start(other, &its, &error));
            if (lag)
                rows[1] += read_rows(other, its, lag, &hashes[1]);
            rows[0] += read_rows(own, mine, SAMPLES / 2, &hashes[0]);
            char *saved;
            uint64_t hash = 0;
            assert_ok(leat_loader_state(loader, &saved, &error));
            read_rows(own, mine, 200, &hash);
            assert_ok(leat_loader_load_state(loader, saved, &error));
            leat_free(saved);
            rows[0] += read_rows(own, test_start(loader), SAMPLES, &hashes[0]);
        }
        rows[1] += read_rows(other, its, SAMPLES, &hashes[1]);
        assert_int_equal(rows[0], 4 * SAMPLES);
        assert_int_equal(rows[1], 4 * SAMPLES);
        assert_true(hashes[0] == hashes[1]);
        leat_consumer_close(other);
        leat_loader_close(loader);
    }
    leat_dataset_release(dataset);
}

TEST(the_loader_goes_back_while_others_copy_rows)
{
    struct leat_error error;
    struct leat_dataset *dataset = test_dataset("numbers", SAMPLES, true);
    struct leat_loader_options options = test_options(16);
    options.budget_bytes = (2 << 20) * test_pages();
    struct leat_loader *loader = test_loader(dataset, &options);
    struct reader readers[] = {{.batch = 16}, {.batch = 5, .pause_us = 100}};
    pthread_t threads[2];
    char *begin;
    assert_ok(leat_loader_state(loader, &begin, &error));
    uint64_t hash = 0;
    for (unsigned i = 0; i < 2; i++)
        assert_ok(leat_consumer_open(loader, readers[i].batch, true, &readers[i].consumer, &error));
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_epochs, &readers[i]), 0);
    for (unsigned i = 0; i < 40; i++) {
        read_rows(leat_loader_consumer(loader), test_start(loader), 20 + i, &hash);
        if (i % 4 == 1)
            assert_ok(leat_loader_set_batch_size(loader, 1 + i, NULL, &error));
        if (i % 4 == 3)
            assert_ok(leat_loader_load_state(loader, begin, &error));
        assert_ok(leat_loader_set_epoch(loader, i % 3, NULL, &error));
    }
    for (unsigned i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(readers[i].rc, LEAT_OK);
        assert_int_equal(readers[i].rows, EPOCHS * SAMPLES);
        leat_consumer_close(readers[i].consumer);
    }
    assert_true(readers[0].hash == readers[1].hash);
    leat_free(begin);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(a_state_within_an_epoch_is_that_of_its_rank)
{
    struct leat_dataset *dataset = test_dataset("numbers", SAMPLES, false);
    struct leat_loader_options options = test_options(16);
    struct leat_loader *loaders[2];
    struct leat_consumer *consumers[2];
    struct leat_error error;
    struct leat_batch *b;
    char *begin, *within;
    uint64_t iteration;
    options.world_size = 2;
    for (options.rank = 0; options.rank < 2; options.rank++) {
        loaders[options.rank] = test_loader(dataset, &options);
        assert_ok(leat_consumer_open(loaders[options.rank], 5, true, &consumers[options.rank], &error));
    }
    assert_ok(leat_consumer_state(consumers[0], &begin, &error));
    assert_ok(leat_consumer_start(consumers[0], &iteration, &error));
    assert_ok(leat_consumer_next(consumers[0], iteration, TEST_HANG_MS, &b, &error));
    leat_batch_free(b);
    assert_ok(leat_consumer_state(consumers[0], &within, &error));
    assert_int_equal(leat_consumer_load_state(consumers[1], within, &error), LEAT_E_STATE);
    assert_non_null(strstr(error.message, "rank 0 of 2, and this is rank 1 of 2"));
    assert_ok(leat_consumer_load_state(consumers[1], begin, &error)); /* an epoch begins for all at once */
    assert_ok(leat_consumer_load_state(consumers[0], within, &error));
    leat_free(begin);
    leat_free(within);
    for (int rank = 0; rank < 2; rank++) {
        leat_consumer_close(consumers[rank]);
        leat_loader_close(loaders[rank]);
    }
    leat_dataset_release(dataset);
}

TEST_MAIN_IN(NULL, test_clean)
