/* The engine on real photos, as a folder and packed. */
#include <limits.h>

#include "../allocations.h"
#include "base/alloc.h"
#include "engine/loader.h"
#include "support.h"

static const char *const training = "{\"operators\": {\"d\": {\"type\": \"Decode\"}, \"c\": {\"type\": "
                                    "\"RandomResizedCrop\", \"size\": [64, 64]}, \"f\": {\"type\": "
                                    "\"RandomHorizontalFlip\"}, \"n\": {\"type\": \"Normalize\", \"mean\": [0.485, "
                                    "0.456, 0.406], \"std\": [0.229, 0.224, 0.225]}}, "
                                    "\"outputs\": {\"image\": {\"field\": \"image\", \"chain\": [\"d\", \"c\", \"f\", "
                                    "\"n\"]}, \"raw\": {\"field\": \"image\", \"chain\": "
                                    "[]}}}";

static struct leat_dataset *photos_with(enum leat_recheck recheck, const char *index_dir)
{
    char path[PATH_MAX];
    struct leat_open_options open = LEAT_OPEN_OPTIONS_INIT;
    struct leat_error error;
    struct leat_dataset *all, *some;
    snprintf(path, sizeof path, "%s/imagenet", getenv("LEAT_DATA"));
    open.recheck = recheck;
    open.index_dir = index_dir;
    assert_ok(leat_dataset_open(path, &open, &all, &error));
    assert_ok(leat_dataset_slice(all, 0, 580, 6 * test_every(3), &some, &error));
    leat_dataset_release(all);
    return some;
}

static struct leat_dataset *some_photos(void)
{
    return photos_with(LEAT_RECHECK_FIRST, NULL);
}

/* The same, packed. */
static struct leat_dataset *packed_photos(void)
{
    const struct leat_field field = {.name = "image", .kind = LEAT_KIND_IMAGE, .dtype = LEAT_U8};
    struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    struct leat_dataset *photos = some_photos();
    struct leat_writer *writer;
    struct leat_error error;
    assert_ok(leat_writer_open(test_path("photos"), &field, 1, &options, &writer, &error));
    for (uint64_t i = 0; i < leat_dataset_count(photos); i++) {
        struct leat_value value;
        assert_ok(leat_dataset_read(photos, i, 0, &value, &error));
        const struct leat_value_ref ref = {value.data, value.length, NULL};
        assert_ok(leat_writer_add(writer, &ref, NULL, &error));
        leat_value_clear(&value);
    }
    assert_ok(leat_writer_finish(writer, &error));
    leat_writer_free(writer, false);
    leat_dataset_release(photos);
    return test_open(test_path("photos"));
}

TEST(promise_1_real_photos_are_the_same_for_any_threads_and_region)
{
    test_data();
    uint64_t expected = 0;
    for (unsigned threads = 1; threads <= 3; threads++) {
        struct leat_dataset *dataset = some_photos(); /* anew: the first epoch scans each photo to its end */
        struct leat_loader_options options = test_options(16);
        options.program = training;
        options.num_threads = threads;
        options.region = threads % 2;
        options.budget_bytes = 128 << 20;
        struct leat_loader *loader = test_loader(dataset, &options);
        uint64_t hash = test_hash_epochs(loader, 2);
        expected = expected ? expected : hash;
        assert_int_equal(hash, expected);
        leat_loader_close(loader);
        leat_dataset_release(dataset);
    }
}

TEST(promise_4_no_allocation_per_photo_in_steady_state)
{
    test_data();
    library_allocations();
    struct leat_dataset *dataset = packed_photos();
    struct leat_loader_options options = test_options(16);
    options.program = "{\"operators\": {\"d\": {\"type\": \"Decode\"}, \"c\": {\"type\": \"RandomResizedCrop\", "
                      "\"size\": [64, 64]}}, "
                      "\"outputs\": {\"image\": {\"field\": \"image\", \"chain\": [\"d\", \"c\"]}}}";
    options.num_threads = 1;
    options.budget_bytes = 128 << 20;
    struct leat_loader *loader = test_loader(dataset, &options);
    test_hash_epochs(loader, 3);
    uint64_t before = library_allocations();
    test_hash_epochs(loader, 2);
    uint64_t made = library_allocations() - before;
    if (made >= 10) /* a read buffer or a decoder's memory that grew for a larger photo */
        fail_msg("%d allocations in two epochs", (int)made);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

static uint64_t hash_of(struct leat_dataset *dataset)
{
    struct leat_loader_options options = test_options(16);
    options.program = training;
    options.budget_bytes = 128 << 20;
    struct leat_loader *loader = test_loader(dataset, &options);
    uint64_t hash = test_hash_epochs(loader, 2);
    leat_loader_close(loader);
    return hash;
}

/* How many photos have an index, and whether it is read from a file. */
static uint64_t indexes(struct leat_dataset *dataset, bool apart)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < leat_dataset_count(dataset); i++) {
        struct leat_sample_ref ref;
        struct leat_extent extent;
        struct leat_error error;
        size_t failed;
        leat_dataset_locate(dataset, &i, 1, &ref);
        assert_ok(leat_dataset_extents(dataset, 0, &ref, 1, &extent, &failed, &error));
        assert_true(extent.info.rows_length <= extent.length / 100);
        n += extent.info.rows_length && extent.info.rows_apart == apart;
    }
    return n;
}

TEST(rows_of_a_folder_do_not_depend_on_what_it_remembers)
{
    test_data();
    char folder[128];
    snprintf(folder, sizeof folder, "%s", test_path("indexes"));
    struct leat_dataset *dataset =
        photos_with(LEAT_RECHECK_NEVER, NULL); /* nothing is scanned, so nothing remembered */
    uint64_t expected = hash_of(dataset), photos = leat_dataset_count(dataset);
    assert_int_equal(indexes(dataset, false), 0);
    leat_dataset_release(dataset);
    dataset = photos_with(LEAT_RECHECK_FIRST, folder);
    assert_int_equal(hash_of(dataset), expected); /* the first epoch scans, the second has indexes */
    assert_true(indexes(dataset, false) > photos * 9 / 10);
    leat_dataset_release(dataset);
    for (int recheck = LEAT_RECHECK_FIRST; recheck <= LEAT_RECHECK_NEVER; recheck++) { /* from the file */
        dataset = photos_with((enum leat_recheck)recheck, folder);
        assert_true(indexes(dataset, true) > photos * 9 / 10);
        assert_int_equal(hash_of(dataset), expected);
        leat_dataset_release(dataset);
    }
}

TEST_MAIN_IN(NULL, test_clean)
