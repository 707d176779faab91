/* Memory where values are far larger than what opening saw of them: long values, large photos of all kinds, and
 * consumers that keep batches. 10 s under sanitizers: only photos of some megabytes, of each kind, fill a budget. */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>

#include "../codec/photo/photos.h"
#include "codec/photo/photo.h"
#include "engine/loader.h"
#include "engine/task.h"
#include "support.h"

enum { N = 300, SMALL = 48 };

static const char *const program = "{\"operators\": {\"d\": {\"type\": \"Decode\"}, \"c\": {\"type\": "
                                   "\"RandomResizedCrop\", \"size\": [64, 64]}, \"n\": {\"type\": "
                                   "\"Normalize\", \"mean\": [0.5, 0.5, 0.5], \"std\": [0.2, 0.2, 0.2]}}, \"outputs\": "
                                   "{\"image\": {\"field\": \"image\", \"chain\": "
                                   "[\"d\", \"c\", \"n\"]}}}";

/* As it came, too: of the fast form it is made again. */
static const char *const with_originals =
    "{\"operators\": {\"d\": {\"type\": \"Decode\"}, \"c\": {\"type\": \"RandomResizedCrop\", \"size\": [64, 64]}}, "
    "\"outputs\": "
    "{\"image\": "
    "{\"field\": \"image\", \"chain\": [\"d\", \"c\"]}, \"original\": {\"field\": \"image\", \"chain\": []}}}";

enum set { PLAIN = 0, SCANS, FAST, SETS };

static const struct photo_style plain = {"420", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {2, 1, 1},
                                         0,     false,   false,     false,     false};
static const struct photo_style progressive = {"progressive", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {2, 1, 1}, 0,
                                               true,          false,   false,     false};

/* Opening probes 64 samples, first and last among them: those in between are not seen. */
static bool is_probed(uint64_t i)
{
    for (uint64_t k = 0; k < 64; k++)
        if (k * (N - 1) / 63 == i)
            return true;
    return false;
}

static bool is_large(uint64_t i)
{
    return i % 20 == 3 && !is_probed(i);
}

struct jpeg {
    uint8_t *bytes;
    size_t length;
};

static struct jpeg photo(const struct photo_style *style, uint32_t w, uint32_t h, int quality)
{
    struct jpeg jpeg;
    uint8_t *pixels = photo_pixels(w, h, 3, w);
    jpeg.bytes = photo_encode(style, pixels, w, h, quality, &jpeg.length);
    free(pixels);
    return jpeg;
}

/* Small photos, and among them large ones: a long file (about 1.5 MB), and with SCANS in turn with it one that is
 * progressive, whose coefficients take 7.5 MB. */
static void make_photos(const char *path, enum set set)
{
    const struct leat_field field = {.name = "image", .kind = LEAT_KIND_IMAGE, .dtype = LEAT_U8};
    const struct jpeg kinds[] = {photo(&plain, SMALL, SMALL, 90), photo(&plain, 1270, 990, 97),
                                 photo(&progressive, 1800, 1400, 20)};
    assert_true(kinds[1].length > 1000000);
    const struct leat_value_info unknown = {0};
    assert_true(leat_codec_photo.decode_bytes(kinds[2].bytes, kinds[2].length, &unknown, false) > 7000000);
    struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    struct leat_writer *writer;
    struct leat_error error;
    options.num_threads = 1;
    options.check = false;
    options.photos = set == FAST ? LEAT_PHOTOS_FAST : LEAT_PHOTOS_ORIGINAL;
    assert_ok(leat_writer_open(path, &field, 1, &options, &writer, &error));
    for (uint64_t i = 0; i < N; i++) {
        const struct jpeg *jpeg = &kinds[!is_large(i) ? 0 : set == SCANS ? 1 + i / 20 % 2 : 1];
        const struct leat_value_ref value = {jpeg->bytes, jpeg->length, NULL};
        assert_ok(leat_writer_add(writer, &value, NULL, &error));
    }
    assert_ok(leat_writer_finish(writer, &error));
    leat_writer_free(writer, false);
    for (size_t i = 0; i < 3; i++)
        free(kinds[i].bytes);
}

static struct leat_dataset *photos(enum set set)
{
    static const char *const names[SETS] = {"plain", "scans", "fast"};
    static bool made[SETS];
    const char *path = test_path(names[set]);
    if (!made[set])
        make_photos(path, set);
    made[set] = true;
    return test_open(path);
}

static struct leat_loader_options options_of(int region, uint64_t budget)
{
    struct leat_loader_options options = test_options(8); /* 393 KB a batch */
    options.program = program;
    options.region = region;
    options.budget_bytes = budget;
    options.max_held_bytes = 2 << 20;
    return options;
}

/* The bytes are those of a loader with room for all, whoever had to wait, on any number of threads. */
TEST(large_values_wait_for_memory_and_come_as_planned)
{
    struct leat_dataset *dataset = photos(SCANS);
    uint64_t expected = 0;
    for (unsigned threads = 1; threads <= 3; threads += 2)
        for (int tight = 0; tight < 2; tight++) {
            struct leat_loader_options options = options_of(threads % 2, tight ? (threads * 2 + 14) << 20 : 512 << 20);
            options.num_threads = threads;
            options.epochs = 1;
            struct leat_loader *loader = test_loader(dataset, &options);
            uint64_t hash = test_hash_epochs(loader, 1);
            expected = expected ? expected : hash;
            assert_int_equal(hash, expected);
            assert_null(loader->tasks.starved); /* nothing runs: the only epoch is over */
            assert_true(loader->budget.used[LEAT_TASKS] <= loader->budget.reserved + leat_task_size(loader) * 2);
            leat_loader_close(loader);
        }
    leat_dataset_release(dataset);
}

/* At every moment that the lock shows, what is booked fits the budget. */
struct watch {
    struct leat_loader *loader;
    _Atomic bool stop;
    uint64_t most, resident, least;
};

static void *watch(void *arg)
{
    struct watch *w = arg;
    while (!atomic_load(&w->stop)) {
        leat_engine_lock();
        const struct leat_loader *l = w->loader;
        uint64_t now = l->budget.used[LEAT_IN_FLIGHT] + l->budget.fixed + leat_budget_tasks(&l->budget);
        w->most = now > w->most ? now : w->most;
        leat_engine_unlock();
        now = TEST_SANITIZED ? 0 : test_resident(); /* a sanitizer's own memory would be counted */
        w->resident = now > w->resident ? now : w->resident;
        usleep(100);
    }
    return NULL;
}

TEST(promise_4_large_photos_stay_within_budget_and_held)
{
    for (int kind = 0; kind < 2 * SETS; kind++) {
        static const uint64_t budgets[SETS] = {9 << 20, 16 << 20, 30 << 20};
        int region = kind % 2;
        enum set set = (enum set)(kind / 2);
        struct leat_dataset *dataset = photos(set);
        struct leat_loader_options options = options_of(region, budgets[set]);
        options.program = set == FAST ? with_originals : program;
        options.max_held_bytes = set == FAST ? 6 << 20 : 2 << 20; /* a batch with an original has 1.5 MB */
        struct leat_batch *held[4] = {0};
        struct leat_error error;
        uint64_t before = test_resident();
        struct leat_loader *loader = test_loader(dataset, &options);
        struct watch w = {.loader = loader};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, watch, &w), 0);
        const int epochs = region && !test_full() ? 1 : 2; /* the first scans each photo to its end */
        for (int epoch = 0; epoch < epochs; epoch++) {
            uint64_t iteration = test_start(loader);
            for (uint64_t i = 0;; i++) {
                struct leat_batch *b;
                int rc = leat_loader_next(loader, iteration, -1, &b, &error);
                if (rc == LEAT_E_END)
                    break;
                if (rc != LEAT_OK && rc != LEAT_E_HELD)
                    fail_msg("%s: %s", leat_status_name(rc), error.message);
                size_t k = leat_draw_below(1, i, 4);
                leat_batch_free(held[k]);
                held[k] = rc ? NULL : b;
            }
        }
        atomic_store(&w.stop, true);
        pthread_join(thread, NULL);
        assert_true(w.most <= options.budget_bytes);
        if (w.resident > before + options.budget_bytes + options.max_held_bytes)
            fail_msg("%llu KiB above the level before", (unsigned long long)(w.resident - before) >> 10);
        for (int k = 0; k < 4; k++)
            leat_batch_free(held[k]);
        leat_loader_close(loader);
        leat_dataset_release(dataset);
    }
}

/* The error names the file, and a budget: who does as it says gets past that photo. */
static void assert_says_which_budget_helps(struct leat_error error, struct leat_dataset *dataset,
                                           struct leat_loader_options options)
{
    static const char words[] = "raise it to at least ";
    const int64_t refused = error.sample;
    int rc = LEAT_E_BUDGET;
    for (int tries = 0; rc == LEAT_E_BUDGET && error.sample == refused && tries < 4; tries++) {
        const char *said = strstr(error.message, words);
        assert_true(error.file[0]);
        assert_non_null(said);
        const uint64_t told = strtoull(said + strlen(words), NULL, 10);
        assert_true(told > options.budget_bytes);
        options.budget_bytes = told;
        struct leat_loader *loader = test_loader(dataset, &options);
        struct leat_batch *b;
        const uint64_t iteration = test_start(loader);
        while ((rc = leat_loader_next(loader, iteration, -1, &b, &error)) == LEAT_OK)
            leat_batch_free(b);
        leat_loader_close(loader);
    }
    assert_true(rc == LEAT_E_END || (rc == LEAT_E_BUDGET && error.sample != refused));
}

/* Takes batches until a large photo does not fit; returns the iteration. */
static uint64_t read_to_a_photo_beyond_the_budget(struct leat_loader *loader)
{
    struct leat_error error;
    struct leat_batch *b;
    uint64_t iteration = test_start(loader);
    int rc;
    while ((rc = leat_loader_next(loader, iteration, -1, &b, &error)) == LEAT_OK)
        leat_batch_free(b);
    assert_int_equal(rc, LEAT_E_BUDGET);
    assert_true(is_large((uint64_t)error.sample));
    assert_non_null(strstr(error.message, "budget_bytes"));
    return iteration;
}

TEST(a_photo_that_no_budget_of_this_size_can_decode_is_an_error_that_says_so)
{
    struct leat_dataset *dataset = photos(SCANS);
    struct leat_loader_options options = options_of(0, 8 << 20);
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_error error;
    struct leat_batch *b;
    uint64_t iteration = read_to_a_photo_beyond_the_budget(loader);
    assert_int_equal(leat_loader_next(loader, iteration, -1, &b, &error), LEAT_E_BUDGET);
    assert_says_which_budget_helps(error, dataset, options);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

/* What putting a large photo of the fast form together takes is booked where nothing is decoded, too. */
TEST(a_photo_that_no_budget_of_this_size_can_give_back_is_an_error_that_says_so)
{
    struct leat_dataset *dataset = photos(FAST);
    struct leat_loader_options options = options_of(0, 11 << 20);
    options.program = NULL;
    options.max_held_bytes = 6 << 20;
    struct leat_loader *loader = test_loader(dataset, &options);
    read_to_a_photo_beyond_the_budget(loader);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(closing_while_values_wait_for_memory_is_clean)
{
    struct leat_dataset *dataset = photos(SCANS);
    for (int i = 0; i < 10; i++) {
        struct leat_loader_options options = options_of(0, 16 << 20);
        options.num_threads = 3;
        struct leat_loader *loader = test_loader(dataset, &options);
        uint64_t iteration = test_start(loader);
        for (int k = 0; k < i; k++)
            leat_batch_free(test_next(loader, iteration));
        if (i % 2)
            test_start(loader); /* leaves the epoch: its batches are cancelled */
        leat_loader_close(loader);
    }
    leat_dataset_release(dataset);
}

TEST(what_a_loader_has_set_aside_goes_back_to_the_process)
{
    struct leat_budget b = {.limit = 1000, .max_held = 100, .fixed = 50};
    const uint64_t before = leat_ledger_used(LEAT_OF_LOADERS);
    leat_budget_open(&b);
    assert_int_equal(leat_ledger_used(LEAT_OF_LOADERS), before + 50);
    assert_int_equal(leat_budget_reserve(&b, 300), 300);
    assert_int_equal(leat_budget_reserve(&b, 5000), 650); /* what is left */
    assert_int_equal(leat_ledger_used(LEAT_OF_LOADERS), before + 1000);
    leat_budget_unreserve(&b, 650);
    assert_int_equal(b.reserved, 300);
    assert_int_equal(leat_ledger_used(LEAT_OF_LOADERS), before + 350);
    leat_budget_close(&b);
    assert_int_equal(leat_ledger_used(LEAT_OF_LOADERS), before);
}

TEST(a_batch_waits_for_what_is_held_unless_it_alone_passes_it)
{
    struct leat_budget b = {.limit = 1000, .max_held = 100};
    const uint64_t before = leat_ledger_used(LEAT_OF_LOADERS);
    leat_budget_open(&b);
    leat_budget_take(&b, LEAT_HELD, 60);
    assert_int_equal(leat_budget_ask(&b, LEAT_HELD, 40), LEAT_YES);
    assert_int_equal(leat_budget_ask(&b, LEAT_HELD, 41), LEAT_WAIT);
    assert_int_equal(leat_budget_ask(&b, LEAT_HELD, 100), LEAT_WAIT);
    assert_int_equal(leat_budget_ask(&b, LEAT_HELD, 101), LEAT_NEVER);
    leat_budget_give(&b, LEAT_HELD, 60);
    assert_int_equal(leat_budget_ask(&b, LEAT_HELD, 100), LEAT_YES);
    assert_int_equal(leat_ledger_used(LEAT_OF_LOADERS), before);
    leat_budget_close(&b);
}

int main(void)
{
    /* What is freed goes back to the system: how much of it glibc keeps, and in how many arenas, is chance. */
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    mallopt(M_TRIM_THRESHOLD, 128 << 10);
    mallopt(M_ARENA_MAX, 1);
    return test_run(NULL, test_clean);
}
