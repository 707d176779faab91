/* A loader from open to close: what the interface says of iterations, positions and single batches. */
#include <pthread.h>
#include <stdatomic.h>

#include "engine/loader.h"
#include "leat/feedback.h"
#include "support.h"

#include <sys/mman.h>

TEST(an_epoch_delivers_each_sample_once_with_its_own_bytes)
{
    for (int text = 0; text < 2; text++) {
        struct leat_dataset *dataset = test_dataset("once", 1000, text);
        struct leat_loader_options options = test_options(64);
        struct leat_loader *loader = test_loader(dataset, &options);
        for (int epoch = 0; epoch < 3; epoch++) {
            uint8_t seen[1000] = {0};
            uint64_t iteration = test_start(loader), steps = 0;
            for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b), steps++) {
                test_check_batch(b);
                assert_int_equal(leat_batch_epoch(b), epoch);
                assert_int_equal(leat_batch_step(b), steps);
                for (uint64_t row = 0; row < leat_batch_rows(b); row++)
                    seen[leat_batch_ids(b)[row]]++;
            }
            assert_int_equal(steps, leat_loader_steps(loader));
            for (int i = 0; i < 1000; i++)
                assert_int_equal(seen[i], 1);
        }
        leat_loader_close(loader);
        leat_dataset_release(dataset);
    }
}

static void without_outputs(int region)
{
    struct leat_dataset *dataset = test_dataset("ids", 1000, true);
    struct leat_loader_options options = test_options(64);
    struct leat_loader *whole = test_loader(dataset, &options);
    options.program = "{\"operators\": {}, \"outputs\": {}}";
    options.region = region;
    struct leat_loader *bare = test_loader(dataset, &options);
    if (region) {
        struct leat_error error;
        int fd;
        uint64_t bytes;
        assert_ok(leat_loader_region(bare, &fd, &bytes, &error));
        assert_true(fd >= 0 && bytes > 0);
    }
    for (int epoch = 0; epoch < 2; epoch++) {
        uint64_t theirs = test_start(whole), ours = test_start(bare);
        for (struct leat_batch *a, *b; (a = test_next(whole, theirs)); leat_batch_free(a), leat_batch_free(b)) {
            b = test_next(bare, ours);
            assert_non_null(b);
            assert_int_equal(leat_batch_outputs(b), 0);
            assert_int_equal(leat_batch_rows(b), leat_batch_rows(a));
            assert_memory_equal(leat_batch_ids(b), leat_batch_ids(a), leat_batch_rows(a) * sizeof(int64_t));
        }
        assert_null(test_next(bare, ours));
    }
    struct leat_batch *b;
    struct leat_error error;
    assert_ok(leat_loader_batch_at(bare, 0, 15, &b, &error));
    assert_int_equal(leat_batch_rows(b), 1000 - 15 * 64);
    leat_batch_free(b);
    leat_loader_close(whole);
    leat_loader_close(bare);
    leat_dataset_release(dataset);
}

TEST(a_program_without_outputs_delivers_the_ids_that_others_have_and_reads_nothing)
{
    without_outputs(0);
}

TEST(a_program_without_outputs_may_have_memory_that_others_map)
{
    without_outputs(1);
}

TEST(the_end_of_an_epoch_is_said_again_and_again)
{
    struct leat_dataset *dataset = test_dataset("end", 10, false);
    struct leat_loader_options options = test_options(4);
    struct leat_loader *loader = test_loader(dataset, &options);
    uint64_t iteration = test_start(loader);
    for (int i = 0; i < 3; i++)
        leat_batch_free(test_next(loader, iteration));
    for (int i = 0; i < 3; i++)
        assert_null(test_next(loader, iteration));
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(a_newer_iteration_ends_the_older_one)
{
    struct leat_dataset *dataset = test_dataset("newer", 100, false);
    struct leat_loader_options options = test_options(4);
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_error error;
    struct leat_batch *batch;
    uint64_t older = test_start(loader);
    leat_batch_free(test_next(loader, older));
    uint64_t newer = test_start(loader);
    assert_int_equal(leat_loader_next(loader, older, -1, &batch, &error), LEAT_E_CLOSED);
    batch = test_next(loader, newer);
    assert_int_equal(leat_batch_epoch(batch), 1);
    leat_batch_free(batch);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(leaving_an_epoch_early_changes_nothing_of_the_next)
{
    struct leat_dataset *dataset = test_dataset("early", 300, true);
    struct leat_loader_options options = test_options(16);
    struct leat_loader *loader = test_loader(dataset, &options), *other = test_loader(dataset, &options);
    leat_batch_free(test_next(loader, test_start(loader)));
    test_hash_epochs(other, 1);
    assert_int_equal(test_hash_epochs(loader, 1), test_hash_epochs(other, 1));
    leat_loader_close(loader);
    leat_loader_close(other);
    leat_dataset_release(dataset);
}

TEST(set_epoch_says_which_epoch_comes_next)
{
    struct leat_dataset *dataset = test_dataset("set", 100, false);
    struct leat_loader_options options = test_options(16);
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_error error;
    assert_ok(leat_loader_set_epoch(loader, 5, NULL, &error));
    assert_int_equal(leat_loader_epoch(loader), 5);
    for (uint64_t epoch = 5; epoch < 7; epoch++) {
        struct leat_batch *b = test_next(loader, test_start(loader));
        assert_int_equal(leat_batch_epoch(b), epoch);
        leat_batch_free(b);
    }
    assert_ok(leat_loader_set_epoch(loader, 2, NULL, &error));
    struct leat_batch *b = test_next(loader, test_start(loader));
    assert_int_equal(leat_batch_epoch(b), 2);
    leat_batch_free(b);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(batch_at_computes_any_batch_again)
{
    struct leat_dataset *dataset = test_dataset("at", 500, true);
    struct leat_loader_options options = test_options(32);
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_error error;
    uint64_t hashes[64], n = 0;
    for (int epoch = 0; epoch < 2; epoch++) {
        uint64_t iteration = test_start(loader);
        for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b))
            hashes[n++] = test_hash_batch(b);
    }
    uint64_t iteration = test_start(loader), steps = leat_loader_steps(loader);
    for (uint64_t i = n; i--;) {
        struct leat_batch *b;
        assert_ok(leat_loader_batch_at(loader, i / steps, i % steps, &b, &error));
        assert_int_equal(test_hash_batch(b), hashes[i]);
        int64_t *ids;
        uint64_t rows;
        assert_ok(leat_loader_plan(loader, i / steps, i % steps, &ids, &rows, &error));
        assert_int_equal(rows, leat_batch_rows(b));
        assert_memory_equal(ids, leat_batch_ids(b), rows * sizeof *ids);
        leat_free(ids);
        leat_batch_free(b);
    }
    struct leat_batch *b = test_next(loader, iteration); /* the position has not moved */
    assert_int_equal(leat_batch_step(b), 0);
    assert_int_equal(leat_batch_epoch(b), 2);
    leat_batch_free(b);
    assert_int_equal(leat_loader_batch_at(loader, 0, steps, &b, &error), LEAT_E_RANGE);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(parts_of_a_batch_have_its_rows_and_need_no_epoch_that_has_begun)
{
    struct leat_dataset *dataset = test_dataset("parts", 500, true);
    struct leat_loader_options options = test_options(32);
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_error error;
    struct leat_batch *whole, *part;
    struct leat_tensor all, some;
    assert_ok(leat_loader_batch_at(loader, 1, 3, &whole, &error));
    assert_int_equal(leat_batch_tensor(whole, 0, &all), LEAT_OK);
    const uint64_t borders[] = {0, 1, 30, 32};
    for (size_t i = 0; i + 1 < 4; i++) {
        const uint64_t first = borders[i], n = borders[i + 1] - first;
        assert_ok(leat_rows_make(loader, 1, 3, first, n, NULL, 0, &part, &error));
        assert_int_equal(leat_batch_rows(part), n);
        assert_int_equal(leat_batch_tensor(part, 0, &some), LEAT_OK);
        const uint64_t row = (uint64_t)all.strides[0] * leat_dtype_size(all.dtype);
        assert_memory_equal(some.data, (const uint8_t *)all.data + first * row, n * row);
        assert_memory_equal(leat_batch_ids(part), leat_batch_ids(whole) + first, n * sizeof(int64_t));
        assert_memory_equal(leat_batch_row_keys(part), leat_batch_row_keys(whole) + first, n * sizeof(uint64_t));
        leat_batch_free(part);
    }
    leat_batch_free(whole);
    const uint64_t wrong[][2] = {{0, 0}, {0, 33}, {32, 1}, {31, 2}, {1, UINT64_MAX}, {UINT64_MAX, 1}, {0, UINT64_MAX}};
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(leat_rows_make(loader, 1, 3, wrong[i][0], wrong[i][1], NULL, 0, &part, &error), LEAT_E_RANGE);
        assert_null(part);
    }
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(rows_are_made_into_the_caller_s_memory_or_it_stays_as_it_was)
{
    struct leat_dataset *dataset = test_dataset("places", 500, true);
    struct leat_loader_options options = test_options(32);
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_error error;
    struct leat_batch *part;
    struct leat_tensor made, place;
    static _Alignas(64) uint8_t memory[1 << 16], before[1 << 16];
    memset(memory, 0xa5, sizeof memory);
    memcpy(before, memory, sizeof before);
    assert_ok(leat_rows_make(loader, 0, 2, 5, 7, NULL, 0, &part, &error));
    assert_int_equal(leat_batch_tensor(part, 0, &made), LEAT_OK);
    const size_t bytes = (size_t)(made.shape[0] * made.strides[0]) * leat_dtype_size(made.dtype);
    assert_in_range(bytes, 1, sizeof memory - 1);
    const struct {
        int rc, rows, dtype;
        const char *name;
    } wrong[] = {
        {LEAT_E_INVALID, 6, 0, made.name}, {LEAT_E_INVALID, 7, 1, made.name}, {LEAT_E_NOT_FOUND, 7, 0, "nothing"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct leat_batch *none;
        place = made;
        place.data = memory;
        struct leat_tensor places[2] = {place, place};
        places[1].name = wrong[i].name;
        places[1].shape[0] = wrong[i].rows;
        places[1].dtype += (enum leat_dtype)wrong[i].dtype;
        assert_int_equal(leat_rows_make(loader, 0, 2, 5, 7, places, 2, &none, &error), wrong[i].rc);
        assert_null(none);
        assert_memory_equal(memory, before, sizeof memory);
    }
    struct leat_batch *again;
    place = made;
    place.data = memory;
    place.shape[0]++; /* room for more rows than are made */
    assert_ok(leat_rows_make(loader, 0, 2, 5, 7, &place, 1, &again, &error));
    assert_memory_equal(memory, made.data, bytes);
    assert_memory_equal(memory + bytes, before + bytes, sizeof memory - bytes);
    leat_batch_free(again);
    leat_batch_free(part);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(statistics_count_what_was_delivered)
{
    struct leat_dataset *dataset = test_dataset("stats", 100, true);
    struct leat_loader_options options = test_options(10);
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_error error;
    char *json;
    test_hash_epochs(loader, 2);
    assert_ok(leat_loader_stats(loader, &json, &error));
    assert_non_null(strstr(json, "\"samples\":200"));
    assert_non_null(strstr(json, "\"batches\":20"));
    assert_non_null(strstr(json, "\"held_bytes\":0"));
    static const char *const keys[] = {
        "samples_per_s",   "recent_samples_per_s", "operators", "fetch", "window",    "consumer_wait_s",
        "consumer_help_s", "budget_bytes",         "broken",    "epoch", "plan_hash", "threads"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        assert_non_null(strstr(json, keys[i]));
    leat_free(json);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

static atomic_bool enough;

static void *ask_on_and_on(void *loader)
{
    struct leat_error error;
    char *json;
    while (!atomic_load(&enough)) {
        if (leat_loader_stats(loader, &json, &error))
            return loader;
        leat_free(json);
    }
    return NULL;
}

TEST(statistics_may_be_asked_for_while_batches_are_made)
{
    struct leat_dataset *dataset = test_dataset("asking", 2000, true);
    struct leat_loader_options options = test_options(50);
    struct leat_loader *loader = test_loader(dataset, &options);
    pthread_t thread;
    void *failed;
    atomic_store(&enough, false);
    assert_int_equal(pthread_create(&thread, NULL, ask_on_and_on, loader), 0);
    uint64_t hash = test_hash_epochs(loader, 2);
    atomic_store(&enough, true);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    leat_loader_close(loader);
    loader = test_loader(dataset, &options);
    assert_int_equal(test_hash_epochs(loader, 2), hash);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(a_loader_that_was_idle_begins_at_the_present)
{
    struct leat_dataset *dataset = test_dataset("fair", 2000, true);
    struct leat_loader_options options = test_options(50);
    struct leat_loader *idle = test_loader(dataset, &options), *busy = test_loader(dataset, &options);
    test_hash_epochs(idle, 1);
    test_hash_epochs(busy, 5);
    leat_engine_lock();
    double present = leat_scheduler.vclock, charged = busy->client.vtime;
    leat_engine_unlock();
    assert_true(charged > 0 && present > 0);
    test_start(idle);
    leat_engine_lock();
    assert_true(idle->client.vtime >= present); /* else it would have all threads until it had caught up */
    leat_engine_unlock();
    leat_loader_close(idle);
    leat_loader_close(busy);
    leat_dataset_release(dataset);
}

TEST(options_that_cannot_be_are_refused)
{
    struct leat_dataset *dataset = test_dataset("options", 10, false);
    struct leat_error error;
    struct leat_loader *loader;
    struct leat_loader_options options = test_options(0);
    assert_int_equal(leat_loader_open(dataset, &options, &loader, &error), LEAT_E_INVALID);
    options = test_options(4);
    options.global_batch_size = 4;
    assert_int_equal(leat_loader_open(dataset, &options, &loader, &error), LEAT_E_INVALID);
    options = test_options(4);
    options.rank = 1;
    assert_int_equal(leat_loader_open(dataset, &options, &loader, &error), LEAT_E_INVALID);
    options = test_options(UINT64_C(1) << 60);
    assert_int_equal(leat_loader_open(dataset, &options, &loader, &error), LEAT_E_INVALID);
    options = test_options(4);
    options.weight = 0;
    assert_int_equal(leat_loader_open(dataset, &options, &loader, &error), LEAT_E_INVALID);
    options = test_options(4);
    options.region = 9;
    assert_int_equal(leat_loader_open(dataset, &options, &loader, &error), LEAT_E_INVALID);
    assert_null(loader);
    assert_int_equal(leat_loader_open(dataset, NULL, &loader, &error), LEAT_E_INVALID);
    leat_loader_close(NULL);
    leat_dataset_release(dataset);
}

TEST(another_process_can_read_batches_where_they_lie)
{
    struct leat_dataset *dataset = test_dataset("shared", 40, true);
    struct leat_error error;
    int fd;
    uint64_t bytes;
    for (int region = 1; region >= 0; region--) {
        struct leat_loader_options options = test_options(8);
        options.region = region;
        struct leat_loader *loader = test_loader(dataset, &options);
        if (!region) {
            assert_int_equal(leat_loader_region(loader, &fd, &bytes, &error), LEAT_E_UNSUPPORTED);
            leat_loader_close(loader);
            break;
        }
        assert_ok(leat_loader_region(loader, &fd, &bytes, &error));
        const uint8_t *seen = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
        assert_true(seen != MAP_FAILED);
        uint64_t iteration = test_start(loader);
        for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b))
            for (size_t o = 0; o < leat_batch_outputs(b); o++) {
                struct leat_tensor t;
                leat_batch_tensor(b, o, &t);
                const void *begin = t.offsets ? (const void *)t.offsets : t.data;
                uint64_t n = (uint64_t)t.shape[0] * (uint64_t)t.strides[0] * leat_dtype_size(t.dtype) +
                             (uint64_t)((const char *)t.data - (const char *)begin);
                assert_true(leat_buffer_offset(t.buffer) + n <= bytes);
                assert_memory_equal(seen + leat_buffer_offset(t.buffer), begin, n);
            }
        munmap((void *)(uintptr_t)seen, bytes);
        leat_loader_close(loader);
    }
    leat_dataset_release(dataset);
}

TEST(planning_goes_into_the_next_epoch_but_not_beyond_the_last_one)
{
    struct leat_dataset *dataset = test_dataset("last", 100, false);
    struct leat_loader_options options = test_options(10);
    for (options.epochs = -1; options.epochs < 4; options.epochs++) {
        struct leat_loader *loader = test_loader(dataset, &options);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            uint64_t iteration = test_start(loader);
            const bool next = options.epochs < 0 || epoch + 1 < (uint64_t)options.epochs;
            assert_int_equal(leat_window_last_epoch(loader), epoch + next);
            for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b))
                ;
        }
        leat_loader_close(loader);
    }
    leat_dataset_release(dataset);
}

/* The rows of an epoch on three ranks of an uneven tail, of which the last step leaves one without a row. As soon as
 * all have had the step before, that step gets more rows: by another list, or by a size of all ranks together. */
static void decided_in_time(bool listed)
{
    enum { RANKS = 3, ROWS = 10, STEPS = 2 };
    struct leat_dataset *dataset = test_dataset("late", ROWS, false);
    struct leat_loader *loaders[RANKS];
    uint64_t iterations[RANKS], seen[ROWS] = {0}, rows = 0, small = 0;
    const int64_t list[] = {9, 8, 7, 6, 5, 4};
    struct leat_error error;
    for (uint32_t r = 0; r < RANKS; r++) {
        struct leat_loader_options options = test_options(0);
        options.global_batch_size = 4;
        options.order = LEAT_ORDER_SEQUENTIAL;
        options.tail = LEAT_TAIL_UNEVEN;
        options.rank = r;
        options.world_size = RANKS;
        loaders[r] = test_loader(dataset, &options);
        small += leat_loader_steps(loaders[r]) == STEPS;
        iterations[r] = test_start(loaders[r]);
    }
    assert_int_equal(small, 1);
    for (unsigned step = 0; step < 2 * STEPS; step++) {
        for (unsigned r = 0; r < RANKS && step == STEPS; r++) {
            const struct leat_step at = {0, STEPS};
            assert_ok(listed ? leat_loader_decide_rows(loaders[r], &at, LEAT_ROWS_LISTED, list, 6, &error)
                             : leat_loader_set_global_batch_size(loaders[r], RANKS, &at, &error));
        }
        for (unsigned r = 0; r < RANKS; r++) {
            struct leat_batch *b = test_next(loaders[r], iterations[r]);
            for (uint64_t i = 0; b && i < leat_batch_rows(b); i++, rows++)
                seen[leat_batch_ids(b)[i]]++;
            leat_batch_free(b);
        }
    }
    assert_int_equal(rows, listed ? 14 : ROWS);
    for (unsigned i = 0; i < ROWS; i++)
        assert_int_equal(seen[i], listed && i >= 4 && i < 8 ? 2 : 1);
    const struct leat_step next = {1, 0};
    assert_int_equal(leat_loader_set_global_batch_size(loaders[0], 0, &next, &error), LEAT_E_INVALID);
    assert_int_equal(leat_loader_set_global_batch_size(loaders[0], RANKS - 1, &next, &error), LEAT_E_INVALID);
    for (unsigned r = 0; r < RANKS; r++)
        leat_loader_close(loaders[r]);
    leat_dataset_release(dataset);
}

TEST(rows_that_are_decided_in_time_reach_a_rank_whose_part_of_the_epoch_was_over)
{
    decided_in_time(true);
    decided_in_time(false);
}

TEST(planning_goes_as_far_as_there_are_lists)
{
    struct leat_dataset *dataset = test_dataset("lists", 100, false);
    struct leat_loader_options options = test_options(2);
    struct leat_error error;
    const int64_t positions[4] = {1, 2, 3, 4};
    options.order = LEAT_ORDER_LIST;
    struct leat_loader *loader = test_loader(dataset, &options);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        if (epoch < 2)
            assert_ok(leat_loader_set_positions(loader, positions, 4, &error));
        uint64_t iteration = test_start(loader);
        assert_int_equal(leat_window_last_epoch(loader), epoch);
        if (epoch == 1) {
            assert_ok(leat_loader_set_positions(loader, positions, 4, &error)); /* of the next one */
            assert_int_equal(leat_window_last_epoch(loader), 2);
        }
        for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b))
            ;
    }
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST_MAIN_IN(NULL, test_clean)
