/* Reads that complete later: many at once, bounded in bytes, tried again, cancelled; and when they do not any more. */
#include <errno.h>
#include <fcntl.h>

#include "../faulty.h"
#include "../files.h"
#include "data/internal.h"
#include "engine/loader.h"
#include "engine/task.h"
#include "io/blocks.h"
#include "io/local.h"
#include "store/reader.h"
#include "support.h"

enum { N = 20000, BATCH = 200 };

static struct leat_loader_options reading(uint64_t budget)
{
    struct leat_loader_options options = test_options(BATCH);
    options.budget_bytes = budget;
    options.epochs = 1; /* nothing is read ahead of the second one, which the tests look at */
    return options;
}

/* A loader over values whose reads complete later; it has learned that. */
static struct leat_loader *later_loader(struct leat_dataset **dataset, const struct leat_loader_options *options,
                                        struct leat_faulty *faulty)
{
    leat_faulty_stop(); /* of a test that failed */
    leat_dataset_release(test_dataset("values", N, true));
    faulty->later = true;
    faulty->only = "values";
    leat_faulty_start(faulty);
    *dataset = test_open(test_path("values"));
    struct leat_loader *loader = test_loader(*dataset, options);
    test_hash_epochs(loader, 1); /* what columns and indexes read once is read */
    return loader;
}

/* Waits until no further read is submitted. */
static uint64_t wait_for_held(uint64_t least, uint64_t *bytes)
{
    uint64_t n = 0, before = 1;
    for (int patience = 20000; patience && (n < least || n != before); patience--) {
        before = n;
        usleep(20000);
        n = leat_faulty_held(bytes);
    }
    return n;
}

TEST(a_thousand_reads_are_in_flight_with_the_default_budget)
{
    struct leat_loader_options options = reading(0);
    struct leat_dataset *dataset;
    uint64_t bytes;
    struct leat_loader *loader = later_loader(&dataset, &options, &(struct leat_faulty){0});
    leat_faulty_hold(1000);
    uint64_t iteration = test_start(loader), n = wait_for_held(1000, &bytes);
    assert_true(n >= 1000);
    leat_faulty_hold(0);
    leat_faulty_release(UINT32_MAX);
    uint64_t rows = 0;
    for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b)) {
        test_check_batch(b);
        rows += leat_batch_rows(b);
    }
    assert_int_equal(rows, N);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
    leat_faulty_stop();
}

TEST(reads_in_flight_stay_within_a_share_of_the_budget)
{
    uint64_t budget = 4 << 20, bytes, held = 0;
    struct leat_loader_options options = reading(budget);
    struct leat_dataset *dataset;
    struct leat_loader *loader = later_loader(&dataset, &options, &(struct leat_faulty){0});
    leat_faulty_hold(1000);
    uint64_t iteration = test_start(loader), n = wait_for_held(64, &bytes);
    leat_engine_lock();
    for (const struct leat_task *t = loader->tasks.away; t; t = t->behind)
        held += t->room;
    assert_int_equal(held, loader->tasks.in_flight);
    assert_true(loader->tasks.in_flight <= budget / 4 + 2 * loader->job.fly_bytes + (256 << 10));
    assert_true(loader->budget.fixed + leat_budget_tasks(&loader->budget) + loader->budget.used[LEAT_IN_FLIGHT] <=
                loader->budget.limit);
    leat_engine_unlock();
    assert_true(n >= 64 && bytes <= held);
    leat_faulty_hold(0);
    leat_faulty_release(UINT32_MAX);
    for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b))
        test_check_batch(b);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
    leat_faulty_stop();
}

TEST(a_read_that_fails_is_tried_again_and_nobody_notices)
{
    struct leat_loader_options options = reading(0);
    options.batch_size = 50;
    leat_dataset_release(test_dataset("few", 200, true));
    for (int later = 0; later < 2; later++)
        for (uint64_t n = 1; n < 12; n += 2) {
            leat_faulty_start(&(struct leat_faulty){.later = later, .only = "few", .retry_after_ms = 1});
            struct leat_dataset *dataset = test_open(test_path("few"));
            struct leat_loader *loader = test_loader(dataset, &options);
            test_hash_epochs(loader, 1);
            leat_faulty_fail(n);
            uint64_t iteration = test_start(loader), rows = 0;
            for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b)) {
                test_check_batch(b);
                rows += leat_batch_rows(b);
            }
            assert_int_equal(rows, 200);
            leat_loader_close(loader);
            leat_dataset_release(dataset);
            leat_faulty_stop();
        }
}

TEST(a_read_that_always_fails_is_raised_after_some_tries)
{
    struct leat_loader_options options = reading(0);
    options.batch_size = 50;
    leat_dataset_release(test_dataset("few", 200, true));
    for (int later = 0; later < 2; later++) {
        leat_faulty_start(&(struct leat_faulty){.later = later, .only = "few", .retry_after_ms = 1});
        struct leat_dataset *dataset = test_open(test_path("few"));
        struct leat_loader *loader = test_loader(dataset, &options);
        struct leat_error error;
        struct leat_batch *b;
        test_hash_epochs(loader, 1);
        leat_faulty_fail(UINT64_MAX);
        uint64_t iteration;
        int rc = LEAT_E_END;
        while (rc == LEAT_E_END) { /* what was prefetched comes still */
            iteration = test_start(loader);
            while (!(rc = leat_loader_next(loader, iteration, TEST_HANG_MS, &b, &error)))
                leat_batch_free(b);
        }
        assert_int_equal(rc, LEAT_E_IO);
        assert_true(error.sample >= 0);
        assert_string_equal(error.field, "t");
        leat_faulty_fail(0);
        b = test_next(loader, iteration); /* it is computed again when it is asked for again */
        test_check_batch(b);
        leat_batch_free(b);
        leat_loader_close(loader);
        leat_dataset_release(dataset);
        leat_faulty_stop();
    }
}

/* Of preads while `watching`, the first and that of its place that comes next, by number. */
static _Atomic bool watching;
static _Atomic uint64_t n_preads, failed_at, tried_again_after;

static ssize_t pread_failing_first(int fd, void *buffer, size_t bytes, off_t offset)
{
    uint64_t none = UINT64_MAX, number;
    if (!atomic_load(&watching))
        return pread(fd, buffer, bytes, offset);
    number = atomic_fetch_add(&n_preads, 1);
    if (atomic_compare_exchange_strong(&failed_at, &none, (uint64_t)offset)) {
        errno = EIO;
        return -1;
    }
    if (atomic_load(&failed_at) == (uint64_t)offset && !atomic_load(&tried_again_after))
        atomic_store(&tried_again_after, number);
    return pread(fd, buffer, bytes, offset);
}

TEST(a_thread_reads_other_rows_until_one_that_failed_on_the_disk_is_tried_again)
{
    struct leat_loader_options options = reading(0);
    options.num_threads = 1;
    options.order = LEAT_ORDER_SEQUENTIAL;
    leat_faulty_stop(); /* of a test that failed */
    struct leat_dataset *dataset = test_dataset("disk", N, true);
    struct leat_loader *loader = test_loader(dataset, &options);
    test_hash_epochs(loader, 1); /* what columns and indexes read once is read */
    leat_loader_close(loader);
    loader = test_loader(dataset, &options);
    atomic_store(&failed_at, UINT64_MAX);
    atomic_store(&watching, true);
    test_pread = pread_failing_first;
    test_longest_copy = 0;
    uint64_t iteration = test_start(loader), rows = 0;
    for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b)) {
        test_check_batch(b);
        rows += leat_batch_rows(b);
    }
    assert_int_equal(rows, N);
    leat_loader_close(loader);
    test_pread = pread;
    test_longest_copy = LEAT_LONGEST_COPY;
    assert_true(atomic_load(&tried_again_after) > 1);
    leat_dataset_release(dataset);
}

TEST(reads_of_batches_that_nobody_wants_are_cancelled)
{
    for (int close = 0; close < 2; close++) {
        struct leat_loader_options options = reading(0);
        struct leat_dataset *dataset;
        struct leat_error error;
        uint64_t bytes;
        struct leat_loader *loader = later_loader(&dataset, &options, &(struct leat_faulty){0});
        leat_faulty_hold(1000);
        test_start(loader);
        assert_true(wait_for_held(500, &bytes) >= 500);
        if (!close) { /* the position moves: all that is in flight is given up */
            char *json;
            assert_ok(leat_loader_state(loader, &json, &error));
            assert_ok(leat_loader_load_state(loader, json, &error));
            leat_free(json);
            for (int patience = 30000; patience && leat_faulty_held(&bytes); patience--)
                usleep(10000);
            assert_int_equal(leat_faulty_held(&bytes), 0);
        }
        leat_loader_close(loader);
        for (int patience = 30000; patience && leat_faulty_held(&bytes); patience--)
            usleep(10000);
        assert_int_equal(leat_faulty_held(&bytes), 0);
        leat_dataset_release(dataset);
        assert_true(leat_faulty_stop().cancelled >= 500);
    }
}

TEST(whether_reads_complete_at_once_is_learned_and_forgotten)
{
    struct leat_loader_options options = reading(8 << 20);
    struct leat_dataset *dataset;
    struct leat_loader *loader = later_loader(&dataset, &options, &(struct leat_faulty){0});
    assert_true(loader->tasks.pends);
    leat_faulty_later(false);
    test_hash_epochs(loader, 1);
    assert_false(loader->tasks.pends);
    assert_int_equal(loader->tasks.share, 0);
    leat_faulty_later(true);
    test_hash_epochs(loader, 1);
    assert_true(loader->tasks.pends);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
    leat_faulty_stop();
}

/* ---- an index that is not in memory ------------------------------------------------------------------------------ */

static void forget_index(const struct leat_dataset *dataset)
{
    struct leat_source *source = dataset->base->parts[0].source;
    struct leat_io_file *pages;
    struct leat_error error;
    assert_ok(source->v->file(source, LEAT_STORE_PAGES, &pages, &error));
    leat_io_forget(pages, 0, UINT64_MAX);
    leat_io_release(pages);
}

TEST(what_rows_are_located_by_is_asked_for_by_many_tasks_at_once)
{
    enum { ROWS = 200000 };
    struct leat_loader_options options = reading(0);
    uint64_t bytes;
    for (int fails = 0; fails < 2; fails++) {
        leat_faulty_stop(); /* of a test that failed */
        leat_dataset_release(test_dataset("index", ROWS, true));
        test_blocks_budget = 16 << 20; /* less than the file: its blocks come and go */
        leat_faulty_start(&(struct leat_faulty){.later = true, .unmapped = true, .only = "index", .retry_after_ms = 1});
        struct leat_dataset *dataset = test_open(test_path("index"));
        struct leat_loader *loader = test_loader(dataset, &options);
        forget_index(dataset);
        leat_faulty_hold(1000);
        uint64_t iteration = test_start(loader), n = wait_for_held(5, &bytes), rows = 0;
        assert_true(n >= 5); /* two threads and the consumer would wait for three */
        bool rests = false;  /* no thread waits for a read; some may be looking whether there is room for more */
        for (int patience = 300000; patience && !rests; patience--) {
            usleep(1000);
            leat_engine_lock();
            rests = !loader->tasks.running;
            leat_engine_unlock();
        }
        assert_true(rests);
        assert_true(bytes <= test_blocks_budget / 2 + (2 << 20));
        leat_faulty_fail(fails ? 2 : 0);
        leat_faulty_hold(0);
        leat_faulty_release(UINT32_MAX);
        for (struct leat_batch *b; rows < 2000 && (b = test_next(loader, iteration)); leat_batch_free(b)) {
            test_check_batch(b);
            rows += leat_batch_rows(b);
        }
        assert_int_equal(rows, 2000);
        leat_loader_close(loader);
        leat_dataset_release(dataset);
        leat_faulty_stop();
        test_blocks_budget = 0;
    }
}

/* What a batch is sized by cannot be read: that is said once, not after some tries for each of its rows. */
TEST(an_index_that_cannot_be_read_fails_a_batch_at_once)
{
    enum { ROWS = 200000 };
    struct leat_loader_options options = reading(0);
    struct leat_error error;
    struct leat_batch *b;
    options.batch_size = ROWS / 4;
    leat_faulty_stop(); /* of a test that failed */
    leat_dataset_release(test_dataset("index", ROWS, true));
    test_blocks_budget = 16 << 20;
    leat_faulty_start(&(struct leat_faulty){.later = true, .unmapped = true, .only = "index", .retry_after_ms = 1});
    struct leat_dataset *dataset = test_open(test_path("index"));
    struct leat_loader *loader = test_loader(dataset, &options);
    forget_index(dataset);
    leat_faulty_fail(UINT64_MAX);
    assert_int_equal(leat_loader_next(loader, test_start(loader), TEST_HANG_MS, &b, &error), LEAT_E_IO);
    assert_true(error.sample >= 0);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
    assert_true(leat_faulty_stop().reads < ROWS / 100);
    test_blocks_budget = 0;
}

/* ---- photos in place, on a file system whose opens are slow ------------------------------------------------------ */

enum { PHOTOS = 600, SIDE_BY_SIDE = 16 };

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t open_changed = PTHREAD_COND_INITIALIZER;
static _Atomic unsigned open_us;
static unsigned opening, most_opening, gate_opens_at;

/* Takes its time, if any; with `gate_opens_at`, until so many stand side by side. */
static int slow_open(const char *path, int flags)
{
    const unsigned us = atomic_load(&open_us);
    if (!us)
        return open(path, flags);
    pthread_mutex_lock(&open_lock);
    opening++;
    most_opening = most_opening > opening ? most_opening : opening;
    gate_opens_at = opening >= gate_opens_at ? 0 : gate_opens_at;
    pthread_cond_broadcast(&open_changed);
    while (gate_opens_at)
        pthread_cond_wait(&open_changed, &open_lock);
    pthread_mutex_unlock(&open_lock);
    usleep(us);
    pthread_mutex_lock(&open_lock);
    opening--;
    pthread_mutex_unlock(&open_lock);
    return open(path, flags);
}

static void set_opens(unsigned us, unsigned side_by_side)
{
    pthread_mutex_lock(&open_lock);
    atomic_store(&open_us, us);
    gate_opens_at = side_by_side;
    pthread_cond_broadcast(&open_changed);
    pthread_mutex_unlock(&open_lock);
}

static void read_photos(struct leat_loader *loader)
{
    uint64_t iteration = test_start(loader), rows = 0;
    for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b)) {
        struct leat_tensor t;
        assert_int_equal(leat_batch_tensor(b, 0, &t), LEAT_OK);
        for (uint64_t i = 0; i < leat_batch_rows(b); i++, rows++)
            assert_int_equal(atoi((const char *)t.data + t.offsets[i]), leat_batch_ids(b)[i]);
    }
    assert_int_equal(rows, PHOTOS);
}

static bool reads_are_slow(const struct leat_loader *loader)
{
    leat_engine_lock();
    const bool slow = loader->tasks.pends;
    leat_engine_unlock();
    return slow;
}

TEST(photos_in_place_are_opened_side_by_side_while_opening_is_slow)
{
    char name[32];
    struct leat_loader_options options = reading(0);
    int (*usual)(const char *path, int flags) = test_open_path;
    options.batch_size = 50;
    options.program = "{\"operators\": {}, \"outputs\": {\"raw\": {\"field\": \"image\", \"chain\": []}}}";
    leat_faulty_stop(); /* of a test that failed */
    for (int i = 0; i < PHOTOS; i++) {
        snprintf(name, sizeof name, "photos/%04d.jpg", i);
        char text[8];
        snprintf(text, sizeof text, "%d,", i);
        files_write_text(test_path(""), name, text);
    }
    struct leat_dataset *dataset = test_open(test_path("photos"));
    struct leat_loader *loader = test_loader(dataset, &options);
    test_open_path = slow_open;
    set_opens(5000, 0);
    read_photos(loader);
    leat_loader_close(loader);
    options.epochs = 1000;
    loader = test_loader(dataset, &options); /* nothing of it is in flight yet */
    set_opens(1000, SIDE_BY_SIDE);
    read_photos(loader); /* the gate would stay shut */
    pthread_mutex_lock(&open_lock);
    assert_true(most_opening >= SIDE_BY_SIDE);
    pthread_mutex_unlock(&open_lock);
    assert_true(reads_are_slow(loader));
    set_opens(0, 0);
    for (unsigned e = 2; e < options.epochs && reads_are_slow(loader); e++) /* measured, so a busy machine takes more */
        read_photos(loader);
    assert_false(reads_are_slow(loader));
    leat_loader_close(loader);
    leat_dataset_release(dataset);
    test_open_path = usual;
}

TEST_MAIN_IN(NULL, test_clean)
