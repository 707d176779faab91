/* Samples in the caller's memory: their values are a loader's, and nobody reads the memory after the call. Each value
 * is a block of its own, which is freed then. */
#include <pthread.h>

#include "../codec/photo/photos.h"
#include "base/error.h"
#include "leat/apply.h"
#include "support.h"

enum { N = 60, SIDE = 40, LONG = 1 << 20 };
static const char *const crop_program =
    "{\"operators\": {\"d\": {\"type\": \"Decode\"}, \"c\": {\"type\": \"RandomResizedCrop\", \"size\": [24, 24]}}, "
    "\"outputs\": "
    "{\"image\": {\"field\": \"image\", \"chain\": [\"d\", \"c\"]}, \"label\": {\"field\": \"label\", \"chain\": []}}}";

/* A block of exactly these bytes, so that a read behind its end is found. */
static struct leat_value_ref block(const void *data, size_t bytes)
{
    void *copy = malloc(bytes ? bytes : 1);
    assert_non_null(copy);
    memcpy(copy, data, bytes);
    return (struct leat_value_ref){copy, bytes, NULL};
}

static void free_blocks(struct leat_value_ref *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free((void *)(uintptr_t)values[i].data);
}

static struct leat_loader *open_loader(struct leat_dataset *dataset, const char *program, enum leat_on_error on_error,
                                       unsigned threads)
{
    struct leat_loader_options options = test_options(16);
    struct leat_loader *loader;
    struct leat_error error;
    options.program = program;
    options.on_error = on_error;
    options.num_threads = threads;
    options.max_held_bytes = UINT64_C(1) << 30; /* no more than the addresses of the thread sanitizer hold */
    assert_ok(leat_loader_open(dataset, &options, &loader, &error));
    return loader;
}

static struct leat_dataset *lent_like(struct leat_dataset *stored, size_t n_fields)
{
    struct leat_dataset *lent;
    struct leat_error error;
    size_t n;
    assert_ok(leat_dataset_lent(leat_dataset_fields(stored, &n), n_fields, &lent, &error));
    assert_true(n >= n_fields);
    return lent;
}

/* Fixed and varying values, of rows in any order, in batches of any size. */
TEST(its_rows_are_those_of_a_loader)
{
    struct leat_dataset *stored = test_dataset("plain.leat", N, true), *lent = lent_like(stored, 3);
    struct leat_loader *loader = open_loader(stored, NULL, LEAT_ON_ERROR_RAISE, 2),
                       *applied = open_loader(lent, NULL, LEAT_ON_ERROR_RAISE, 2);
    struct leat_batch *batch, *made;
    struct leat_error error;
    const uint64_t iteration = test_start(loader);
    while ((batch = test_next(loader, iteration))) {
        const uint64_t n = leat_batch_rows(batch);
        struct leat_value_ref values[3 * 16];
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t id = (uint64_t)leat_batch_ids(batch)[i];
            const int64_t y = (int64_t)id;
            uint8_t x[24], t[100];
            test_bytes(x, sizeof x, id, 1);
            const size_t length = leat_draw_below(2, id, sizeof t);
            test_bytes(t, length, id, 3);
            values[i] = block(x, sizeof x);
            values[n + i] = block(&y, sizeof y);
            values[2 * n + i] = block(t, length);
        }
        assert_ok(leat_dataset_lend(lent, values, n, &error));
        assert_ok(leat_rows_apply(applied, n, leat_batch_row_keys(batch), &made, &error));
        assert_ok(leat_dataset_lend(lent, NULL, 0, &error));
        free_blocks(values, 3 * n);
        assert_int_equal(leat_batch_rows(made), n);
        assert_memory_equal(leat_batch_row_keys(made), leat_batch_row_keys(batch), n * 8);
        for (size_t o = 0; o < 3; o++) {
            struct leat_tensor a, b;
            assert_int_equal(leat_batch_tensor(batch, o, &a), LEAT_OK);
            assert_int_equal(leat_batch_tensor(made, o, &b), LEAT_OK);
            assert_int_equal(test_tensor_bytes(&a), test_tensor_bytes(&b));
            assert_memory_equal(a.data, b.data, test_tensor_bytes(&a));
        }
        for (uint64_t i = 0; i < n; i++)
            assert_int_equal(leat_batch_ids(made)[i], i);
        leat_batch_free(made);
        leat_batch_free(batch);
    }
    leat_loader_close(loader);
    leat_loader_close(applied);
    leat_dataset_release(stored);
    leat_dataset_release(lent);
}

static bool is_broken(size_t i)
{
    return i % 10 == 7;
}

/* Photos of noise and their labels; each tenth photo is cut in the middle if `broken`. */
static void make_photos(struct leat_value_ref values[2 * N], bool broken)
{
    static const struct photo_style style = {"420", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {2, 1, 1},
                                             0,     false,   false,     false,     false};
    for (size_t i = 0; i < N; i++) {
        size_t length;
        const int64_t label = (int64_t)i;
        uint8_t *pixels = photo_pixels(SIDE, SIDE, 3, i), *jpeg = photo_encode(&style, pixels, SIDE, SIDE, 90, &length);
        values[i] = block(jpeg, broken && is_broken(i) ? length / 2 : length);
        values[N + i] = block(&label, sizeof label);
        free(pixels);
        free(jpeg);
    }
}

static struct leat_dataset *lent_photos(void)
{
    const struct leat_field fields[] = {{.name = "image", .kind = LEAT_KIND_IMAGE, .dtype = LEAT_U8},
                                        {.name = "label", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64}};
    struct leat_dataset *lent;
    struct leat_error error;
    assert_ok(leat_dataset_lent(fields, 2, &lent, &error));
    return lent;
}

/* Values that take long to read, so that threads are at it when the call ends. */
static int apply_long(struct leat_dataset *lent, struct leat_loader *loader, uint64_t broken)
{
    static uint64_t keys[N];
    struct leat_value_ref values[2 * N];
    struct leat_batch *batch;
    struct leat_error error;
    uint8_t *bytes = calloc(1, LONG);
    make_photos(values, false);
    for (size_t i = 0; i < N; i++) {
        free_blocks(values + N + i, 1);
        values[N + i] = block(bytes, LONG);
        values[i].length = i == broken ? 2 : values[i].length;
    }
    free(bytes);
    assert_ok(leat_dataset_lend(lent, values, N, &error));
    const int rc = leat_rows_apply(loader, N, keys, &batch, &error);
    free_blocks(values, 2 * N);
    leat_batch_free(batch);
    return rc;
}

/* Lends photos, makes rows of them, takes them back at once, and gives the code and the sample at fault. */
static int apply_photos(struct leat_dataset *lent, struct leat_loader *loader, bool broken, uint64_t key,
                        struct leat_batch **batch, int64_t *culprit)
{
    struct leat_value_ref values[2 * N];
    uint64_t keys[N];
    struct leat_error error;
    for (size_t i = 0; i < N; i++)
        keys[i] = key + i;
    make_photos(values, broken);
    assert_ok(leat_dataset_lend(lent, values, N, &error));
    const int rc = leat_rows_apply(loader, N, keys, batch, &error);
    free_blocks(values, 2 * N);
    *culprit = rc ? error.sample : LEAT_NO_SAMPLE;
    return rc;
}

static _Atomic bool enough;

static void *interrupt(void *loader)
{
    while (!enough) {
        usleep(3000);
        leat_loader_interrupt(loader);
    }
    return NULL;
}

TEST(nobody_reads_a_value_after_a_call_that_failed_or_was_interrupted)
{
    const struct leat_field fields[] = {{.name = "image", .kind = LEAT_KIND_IMAGE, .dtype = LEAT_U8},
                                        {.name = "label", .kind = LEAT_KIND_BYTES, .dtype = LEAT_U8}};
    struct leat_dataset *lent;
    struct leat_error error;
    pthread_t thread;
    assert_ok(leat_dataset_lent(fields, 2, &lent, &error));
    struct leat_loader *loader = open_loader(lent, crop_program, LEAT_ON_ERROR_RAISE, 4);
    for (uint64_t k = 0; k < 4; k++)
        assert_int_equal(apply_long(lent, loader, k % 2 ? 7 * k : N), k % 2 ? LEAT_E_DECODE : LEAT_OK);
    assert_int_equal(pthread_create(&thread, NULL, interrupt, loader), 0);
    unsigned interrupted = 0;
    while (interrupted < 3) /* an interrupt may come between two calls */
        interrupted += apply_long(lent, loader, N) == LEAT_E_CANCELLED;
    enough = true;
    pthread_join(thread, NULL);
    assert_int_equal(apply_long(lent, loader, N), LEAT_OK);
    leat_loader_close(loader);
    leat_dataset_release(lent);
}

TEST(broken_samples_are_left_out_or_replaced)
{
    struct leat_dataset *lent = lent_photos();
    const enum leat_on_error ways[] = {LEAT_ON_ERROR_SKIP, LEAT_ON_ERROR_SUBSTITUTE};
    for (size_t w = 0; w < 2; w++) {
        struct leat_loader *loader = open_loader(lent, crop_program, ways[w], 3);
        struct leat_batch *batch;
        struct leat_tensor label;
        int64_t culprit;
        assert_int_equal(apply_photos(lent, loader, true, 5, &batch, &culprit), LEAT_OK);
        const uint64_t n = leat_batch_rows(batch);
        assert_int_equal(n, w ? N : N - N / 10);
        assert_int_equal(leat_batch_tensor(batch, 1, &label), LEAT_OK);
        for (uint64_t i = 0; i < n; i++) {
            const int64_t id = leat_batch_ids(batch)[i];
            assert_false(is_broken((size_t)id));
            assert_int_equal(((int64_t *)label.data)[i], id);
            assert_true(!w || id == (int64_t)i || is_broken(i));
        }
        leat_batch_free(batch);
        leat_loader_close(loader);
    }
    leat_dataset_release(lent);
}

TEST(only_what_is_lent_can_be_made)
{
    struct leat_dataset *stored = test_dataset("plain.leat", N, true), *lent = lent_like(stored, 3);
    struct leat_loader *loader = open_loader(stored, NULL, LEAT_ON_ERROR_RAISE, 1),
                       *applied = open_loader(lent, NULL, LEAT_ON_ERROR_RAISE, 1);
    const uint8_t bytes[24] = {0};
    const struct leat_value_ref good[] = {{bytes, 24, NULL}, {bytes, 8, NULL}, {bytes, 0, NULL}},
                                bad[] = {{bytes, 23, NULL}, {bytes, 8, NULL}, {bytes, 1, NULL}},
                                file[] = {{bytes, 24, "/dev/null"}, {bytes, 8, NULL}, {bytes, 0, NULL}};
    const uint64_t keys[2] = {1, 2};
    struct leat_batch *batch;
    struct leat_error error;
    assert_int_equal(leat_rows_apply(loader, 1, keys, &batch, &error), LEAT_E_INVALID);
    assert_int_equal(leat_dataset_lend(stored, good, 1, &error), LEAT_E_INVALID);
    assert_int_equal(leat_rows_apply(applied, 1, keys, &batch, &error), LEAT_E_RANGE);
    assert_ok(leat_dataset_lend(lent, good, 1, &error));
    assert_int_equal(leat_rows_apply(applied, 2, keys, &batch, &error), LEAT_E_RANGE);
    assert_int_equal(leat_rows_apply(applied, 0, keys, &batch, &error), LEAT_E_RANGE);
    assert_null(batch);
    assert_ok(leat_rows_apply(applied, 1, keys, &batch, &error));
    leat_batch_free(batch);
    assert_int_equal(leat_dataset_lend(lent, bad, 1, &error), LEAT_E_INVALID);
    assert_int_equal(error.sample, 0);
    assert_non_null(strstr(error.message, "'x'"));
    assert_int_equal(leat_dataset_lend(lent, file, 1, &error), LEAT_E_INVALID);
    assert_int_equal(leat_rows_apply(applied, 1, keys, &batch, &error), LEAT_E_RANGE); /* nothing is lent then */
    assert_int_equal(leat_dataset_lend(lent, good, LEAT_MOST_LENT + 1, &error), LEAT_E_RANGE);
    leat_loader_close(loader);
    leat_loader_close(applied);
    leat_dataset_release(stored);
    leat_dataset_release(lent);
}

TEST_MAIN_IN(NULL, test_clean)
