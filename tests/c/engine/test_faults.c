/* Memory that runs out at any point, values that fit no budget, positions at the edges of epochs. */
#include "../allocations.h"
#include "engine/loader.h"
#include "leat/feedback.h"
#include "support.h"

/* ---- the n-th allocation fails --------------------------------------------------------------- */

static int one_epoch(struct leat_dataset *dataset, int64_t n, uint64_t *hash, struct leat_error *error)
{
    struct leat_loader_options options = test_options(20);
    struct leat_loader *loader;
    struct leat_batch *b;
    uint64_t iteration, failures = 0;
    atomic_store(&allocations_left, n);
    int rc = leat_loader_open(dataset, &options, &loader, error);
    if (rc) {
        assert_null(loader);
        return rc;
    }
    *hash = 0;
    rc = leat_loader_start(loader, &iteration, error);
    while (!rc || rc == LEAT_E_NOMEM) { /* the position has not moved: asking again goes on */
        rc = leat_loader_next(loader, iteration, TEST_HANG_MS, &b, error);
        if (!rc) {
            *hash = leat_key_mix(*hash, test_hash_batch(b));
            leat_batch_free(b);
        }
        failures += rc == LEAT_E_NOMEM;
        assert_true(failures < 10);
    }
    leat_loader_close(loader);
    return failures ? LEAT_E_NOMEM : rc == LEAT_E_END ? LEAT_OK : rc;
}

TEST(when_any_one_allocation_fails_an_error_says_so_and_nothing_is_lost)
{
    struct leat_dataset *dataset = test_dataset("memory", 300, true);
    struct leat_error error;
    uint64_t expected, hash = 0;
    fail_allocation(INT64_MAX); /* once for all: threads of the engine use it */
    assert_int_equal(one_epoch(dataset, INT64_MAX, &expected, &error), LEAT_OK);
    int failed = 0;
    for (int64_t n = 0; n < 400; n++) {
        int rc = one_epoch(dataset, n, &hash, &error);
        if (rc && rc != LEAT_E_NOMEM)
            fail_msg("allocation %d: %s: %s", (int)n, leat_status_name(rc), error.message);
        if (rc == LEAT_OK || hash)
            assert_int_equal(hash, expected);
        failed += rc != LEAT_OK;
        hash = 0;
    }
    assert_true(failed > 20);
    atomic_store(&allocations_left, INT64_MAX);
    allocation_failed();
    leat_dataset_release(dataset);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

TEST(a_batch_whose_values_fit_no_budget_is_an_error_that_names_both)
{
    const struct leat_field fields[] = {{.name = "t", .kind = LEAT_KIND_BYTES, .dtype = LEAT_U8},
                                        {.name = "y", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64}};
    struct leat_writer_options writing = LEAT_WRITER_OPTIONS_INIT;
    struct leat_writer *writer;
    struct leat_error error;
    size_t large = 6 << 20;
    char *value = calloc(1, large);
    writing.num_threads = 1;
    assert_ok(leat_writer_open(test_path("sizes"), fields, 2, &writing, &writer, &error));
    for (int64_t i = 0; i < 1000; i++) { /* one of them is large, and not among those that opening looks at */
        const struct leat_value_ref values[] = {{value, i == 501 ? large : 10, NULL}, {&i, 8, NULL}};
        assert_ok(leat_writer_add(writer, values, NULL, &error));
    }
    assert_ok(leat_writer_finish(writer, &error));
    leat_writer_free(writer, false);
    free(value);
    struct leat_dataset *dataset = test_open(test_path("sizes"));
    struct leat_loader_options options = test_options(10);
    options.order = LEAT_ORDER_SEQUENTIAL;
    options.budget_bytes = 4 << 20;
    struct leat_loader *loader = test_loader(dataset, &options);
    uint64_t iteration = test_start(loader);
    struct leat_batch *b;
    for (int i = 0; i < 50; i++)
        leat_batch_free(test_next(loader, iteration));
    for (int again = 0; again < 2; again++) {
        assert_int_equal(leat_loader_next(loader, iteration, TEST_HANG_MS, &b, &error), LEAT_E_BUDGET);
        assert_non_null(strstr(error.message, "budget_bytes = 4194304"));
    }
    leat_loader_close(loader);
    options.budget_bytes = 64 << 20;
    options.max_held_bytes = 64 << 20;
    loader = test_loader(dataset, &options);
    iteration = test_start(loader);
    uint64_t rows = 0;
    for (; (b = test_next(loader, iteration)); leat_batch_free(b))
        rows += leat_batch_rows(b);
    assert_int_equal(rows, 1000);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(idle_loaders_give_their_free_pages_back)
{
    struct leat_dataset *dataset = test_dataset("idle", 1000, false);
    struct leat_loader_options options = test_options(100);
    struct leat_loader *loader = test_loader(dataset, &options);
    uint64_t dirty = 1;
    test_hash_epochs(loader, 2);
    for (int tries = 0; tries < 6000 && dirty; tries++) {
        usleep(50000);
        leat_engine_lock();
        dirty = loader->pool.region.dirty;
        leat_engine_unlock();
    }
    assert_int_equal(dirty, 0);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

/* ---- positions ------------------------------------------------------------------------------- */

static void move(struct leat_loader *from, struct leat_loader *to)
{
    struct leat_error error;
    char *json;
    assert_ok(leat_loader_state(from, &json, &error));
    assert_ok(leat_loader_load_state(to, json, &error));
    leat_free(json);
}

static void expect_next(struct leat_loader *loader, uint64_t epoch, uint64_t step)
{
    struct leat_batch *b = test_next(loader, test_start(loader));
    assert_non_null(b);
    assert_int_equal(leat_batch_epoch(b), epoch);
    assert_int_equal(leat_batch_step(b), step);
    leat_batch_free(b);
}

TEST(the_state_of_a_step_is_the_one_that_a_run_has_there)
{
    struct leat_dataset *dataset = test_dataset("steps", 105, false);
    struct leat_loader_options options = test_options(10);
    struct leat_error error;
    char *told, *json;
    options.order = LEAT_ORDER_SHUFFLED;
    struct leat_loader *a = test_loader(dataset, &options), *other = test_loader(dataset, &options);
    uint64_t iteration = test_start(a);
    for (uint64_t step = 0; step < 11; step++) {
        const struct leat_step at = {0, step};
        assert_ok(leat_loader_state(a, &json, &error));
        assert_ok(leat_loader_state_at(other, &at, &told, &error)); /* which has read nothing */
        assert_string_equal(told, json);
        leat_free(told);
        leat_free(json);
        leat_batch_free(test_next(a, iteration));
    }
    const struct leat_step ahead = {7, 3}, none = {7, 11};
    assert_ok(leat_loader_state_at(a, &ahead, &json, &error));
    assert_ok(leat_loader_load_state(a, json, &error));
    leat_free(json);
    expect_next(a, 7, 3);
    assert_int_equal(leat_loader_state_at(a, &none, &json, &error), LEAT_E_RANGE);
    assert_null(json);
    leat_loader_close(other);
    options.in_order = false;
    other = test_loader(dataset, &options);
    assert_int_equal(leat_loader_state_at(other, &ahead, &json, &error), LEAT_E_UNSUPPORTED);
    assert_ok(leat_loader_state_at(other, &(struct leat_step){7, 0}, &json, &error));
    assert_ok(leat_loader_load_state(other, json, &error));
    leat_free(json);
    expect_next(other, 7, 0);
    leat_loader_close(other);
    leat_loader_close(a);
    leat_dataset_release(dataset);
}

TEST(a_state_after_the_last_batch_means_the_next_epoch)
{
    struct leat_dataset *dataset = test_dataset("last", 100, false);
    struct leat_loader_options options = test_options(10);
    struct leat_loader *a = test_loader(dataset, &options), *b = test_loader(dataset, &options);
    move(a, b); /* before anything began */
    expect_next(b, 0, 0);
    uint64_t iteration = test_start(a);
    for (int i = 0; i < 10; i++)
        leat_batch_free(test_next(a, iteration)); /* the end was not asked for */
    move(a, b);
    expect_next(b, 1, 0);
    expect_next(b, 2, 0);
    move(a, a);
    expect_next(a, 1, 0);
    leat_loader_close(a);
    leat_loader_close(b);
    leat_dataset_release(dataset);
}

TEST(set_epoch_keeps_a_loaded_position_of_that_epoch_and_drops_another)
{
    struct leat_dataset *dataset = test_dataset("loaded", 100, false);
    struct leat_loader_options options = test_options(10);
    struct leat_loader *a = test_loader(dataset, &options), *b = test_loader(dataset, &options);
    struct leat_error error;
    bool dropped;
    uint64_t iteration = test_start(a);
    for (int i = 0; i < 4; i++)
        leat_batch_free(test_next(a, iteration));
    move(a, b);
    assert_ok(leat_loader_set_epoch(b, 0, &dropped, &error));
    assert_false(dropped);
    expect_next(b, 0, 4);
    move(a, b);
    assert_ok(leat_loader_set_epoch(b, 7, &dropped, &error));
    assert_true(dropped);
    expect_next(b, 7, 0);
    leat_loader_close(a);
    leat_loader_close(b);
    leat_dataset_release(dataset);
}

TEST(loading_a_state_ends_the_iteration_that_runs)
{
    struct leat_dataset *dataset = test_dataset("ends", 100, false), *other = test_dataset("other", 101, false);
    struct leat_loader_options options = test_options(10);
    struct leat_loader *a = test_loader(dataset, &options), *stranger = test_loader(other, &options);
    struct leat_error error;
    struct leat_batch *b;
    char *json;
    uint64_t iteration = test_start(a);
    leat_batch_free(test_next(a, iteration));
    assert_ok(leat_loader_state(stranger, &json, &error));
    assert_int_equal(leat_loader_load_state(a, json, &error),
                     LEAT_E_STATE); /* of another data set: nothing has changed */
    leat_free(json);
    b = test_next(a, iteration);
    assert_int_equal(leat_batch_step(b), 1);
    leat_batch_free(b);
    move(a, a);
    assert_int_equal(leat_loader_next(a, iteration, -1, &b, &error), LEAT_E_CLOSED);
    expect_next(a, 0, 2);
    leat_loader_close(a);
    leat_loader_close(stranger);
    leat_dataset_release(dataset);
    leat_dataset_release(other);
}

TEST_MAIN_IN(NULL, test_clean)
