/* Looking one batch ahead: the position stays, and what comes next is what was looked at. Also for the sanitizers: who
 * holds a batch when. */
#include "support.h"

enum { SAMPLES = 300, BATCH = 16 };

static struct leat_batch *peek(struct leat_loader *loader)
{
    struct leat_error error;
    struct leat_batch *b;
    assert_ok(leat_loader_peek(loader, TEST_HANG_MS, &b, &error));
    return b;
}

static char *state_of(struct leat_loader *loader)
{
    struct leat_error error;
    char *json;
    assert_ok(leat_loader_state(loader, &json, &error));
    return json;
}

TEST(peeking_at_every_batch_changes_no_byte_of_an_epoch_and_no_state)
{
    struct leat_dataset *dataset = test_dataset("text", SAMPLES, true);
    struct leat_loader_options options = test_options(BATCH);
    struct leat_loader *loader = test_loader(dataset, &options);
    const uint64_t expected = test_hash_epochs(loader, 2);
    leat_loader_close(loader);
    loader = test_loader(dataset, &options);
    uint64_t hash = 0;
    for (int e = 0; e < 2; e++) {
        const uint64_t iteration = test_start(loader);
        for (uint64_t n = leat_loader_steps(loader); n; n--) {
            char *before = state_of(loader);
            struct leat_batch *ahead = peek(loader), *twice = peek(loader);
            assert_ptr_equal(ahead, twice);
            char *after = state_of(loader);
            assert_string_equal(before, after);
            leat_free(before);
            leat_free(after);
            if (n % 2) /* whoever looked lets go before or after the batch is handed out */
                leat_batch_free(ahead);
            struct leat_batch *b = test_next(loader, iteration);
            assert_ptr_equal(b, twice);
            test_check_batch(b);
            hash = leat_key_mix(hash, test_hash_batch(b));
            leat_batch_free(b);
            leat_batch_free(twice);
            if (n % 2 == 0)
                leat_batch_free(ahead);
        }
        struct leat_error error;
        struct leat_batch *none;
        assert_int_equal(leat_loader_peek(loader, TEST_HANG_MS, &none, &error), LEAT_E_END);
        assert_int_equal(leat_loader_epoch(loader), e);
        assert_null(test_next(loader, iteration));
    }
    assert_true(hash == expected);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

/* Whatever gives up a batch that was looked at: it is its holder's, and the loader goes on where it stood. */
TEST(what_was_looked_at_outlives_decisions_states_epochs_and_the_loader)
{
    struct leat_error error;
    struct leat_dataset *dataset = test_dataset("text", SAMPLES, true);
    struct leat_loader_options options = test_options(BATCH);
    for (int what = 0; what < 5; what++) {
        struct leat_loader *loader = test_loader(dataset, &options);
        uint64_t iteration = test_start(loader), first;
        leat_batch_free(test_next(loader, iteration));
        struct leat_batch *ahead = peek(loader), *b;
        const uint64_t hash = test_hash_batch(ahead);
        char *json = state_of(loader);
        if (what == 0)
            assert_ok(leat_loader_set_batch_size(loader, 5, NULL, &error));
        if (what == 1)
            assert_ok(leat_loader_load_state(loader, json, &error));
        if (what == 2)
            assert_int_equal(leat_loader_set_batch_size(loader, 0, NULL, &error), LEAT_E_INVALID);
        if (what == 1 || what == 3)
            iteration = test_start(loader);
        if (what < 4) {
            b = test_next(loader, iteration);
            first = (uint64_t)leat_batch_ids(b)[0];
            assert_int_equal(leat_batch_rows(b), what ? BATCH : 5);
            assert_int_equal(leat_batch_step(b), what == 3 ? 0 : 1);
            assert_int_equal(what != 3, first == (uint64_t)leat_batch_ids(ahead)[0]);
            leat_batch_free(b);
        }
        leat_loader_close(loader);
        test_check_batch(ahead);
        assert_true(test_hash_batch(ahead) == hash);
        leat_batch_free(ahead);
        leat_free(json);
    }
    leat_dataset_release(dataset);
}

TEST(there_is_nothing_to_look_at_before_an_epoch_or_out_of_order)
{
    struct leat_error error;
    struct leat_batch *b;
    struct leat_dataset *dataset = test_dataset("numbers", SAMPLES, false);
    struct leat_loader_options options = test_options(BATCH);
    struct leat_loader *loader = test_loader(dataset, &options);
    assert_int_equal(leat_loader_peek(loader, TEST_HANG_MS, &b, &error), LEAT_E_INVALID);
    leat_loader_close(loader);
    options.in_order = false;
    loader = test_loader(dataset, &options);
    test_start(loader);
    assert_int_equal(leat_loader_peek(loader, TEST_HANG_MS, &b, &error), LEAT_E_UNSUPPORTED);
    assert_null(b);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

/* Each change of size at a random place, looked over or not, with a further consumer beside. */
TEST(every_row_comes_once_whatever_is_decided_and_looked_at)
{
    struct leat_error error;
    struct leat_dataset *dataset = test_dataset("numbers", SAMPLES, false);
    struct leat_loader_options options = test_options(BATCH);
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct leat_loader *loader = test_loader(dataset, &options);
        struct leat_consumer *other;
        assert_ok(leat_consumer_open(loader, 7, true, &other, &error));
        uint64_t mine = test_start(loader), its, n = 0, rows[2] = {0}, sums[2] = {0};
        assert_ok(leat_consumer_start(other, &its, &error));
        struct leat_consumer *who[2] = {leat_loader_consumer(loader), other};
        while (rows[0] < SAMPLES || rows[1] < SAMPLES) {
            const uint64_t k = leat_draw_below(seed, 2 * n, 2), action = leat_draw_below(seed, 2 * n + 1, 8);
            n++;
            struct leat_batch *b, *ahead = NULL;
            if (!action)
                assert_ok(leat_loader_set_batch_size(loader, 1 + leat_draw_below(seed, 10000 + n, 40), NULL, &error));
            int rc = action > 3 ? leat_consumer_peek(who[k], TEST_HANG_MS, &ahead, &error) : LEAT_OK;
            assert_int_equal(rc, rc == LEAT_E_END ? LEAT_E_END : LEAT_OK);
            if (action == 7)
                leat_batch_free(ahead);
            if (!action || action == 7 || rows[k] == SAMPLES) {
                if (action != 7)
                    leat_batch_free(ahead);
                continue;
            }
            assert_ok(leat_consumer_next(who[k], k ? its : mine, TEST_HANG_MS, &b, &error));
            assert_true(!ahead || ahead == b);
            test_check_batch(b);
            for (uint64_t i = 0; i < leat_batch_rows(b); i++)
                sums[k] += leat_key_mix(1, (uint64_t)leat_batch_ids(b)[i]);
            rows[k] += leat_batch_rows(b);
            leat_batch_free(ahead);
            leat_batch_free(b);
        }
        uint64_t sum = 0;
        for (uint64_t i = 0; i < SAMPLES; i++)
            sum += leat_key_mix(1, i);
        assert_true(rows[0] == SAMPLES && rows[1] == SAMPLES && sums[0] == sum && sums[1] == sum);
        leat_consumer_close(other);
        leat_loader_close(loader);
    }
    leat_dataset_release(dataset);
}

TEST_MAIN_IN(NULL, test_clean)
