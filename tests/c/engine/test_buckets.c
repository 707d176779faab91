/* Batches by length: the same for any number of threads, each sample once, and resumable on other ranks. */
#include "base/alloc.h"

#include "support.h"

enum { SAMPLES = 900, ELEMENTS = 400 };
static const uint64_t widths[] = {10, 40, 100};

static struct leat_loader *open_by_length(struct leat_dataset *dataset, const struct leat_bucket_options *buckets,
                                          unsigned threads, uint32_t rank, uint32_t world)
{
    struct leat_loader_options options = test_options(1);
    options.order = LEAT_ORDER_SHUFFLED;
    options.num_threads = threads;
    options.rank = rank;
    options.world_size = world;
    options.buckets = buckets;
    return test_loader(dataset, &options);
}

/* Counts the valid samples of a batch, and checks it against the budget. */
static void check_batch(const struct leat_batch *b, const struct leat_bucket_options *buckets, unsigned *seen)
{
    struct leat_tensor t;
    const uint64_t rows = leat_batch_rows(b);
    int64_t longest = 0;
    assert_int_equal(leat_batch_tensor(b, 2, &t), LEAT_OK);
    for (uint64_t i = 0; i < rows; i++) {
        const int64_t length = t.offsets[i + 1] - t.offsets[i];
        assert_int_equal(length, leat_draw_below(2, (uint64_t)leat_batch_ids(b)[i], 100));
        longest = length > longest ? length : longest;
        seen[leat_batch_ids(b)[i]] += leat_batch_valid(b)[i];
    }
    assert_true(rows && (uint64_t)longest * rows <= buckets->elements);
}

TEST(batches_are_within_the_budget_and_the_same_for_any_number_of_threads)
{
    struct leat_dataset *dataset = test_dataset("texts.leat", SAMPLES, true);
    for (int own = 0; own < 2; own++) {
        const struct leat_bucket_options buckets = {.field = "t",
                                                    .elements = ELEMENTS,
                                                    .rows = own ? 30 : 0,
                                                    .widths = own ? NULL : widths,
                                                    .n_widths = own ? 0 : 3};
        uint64_t hashes[2] = {0, 0};
        for (unsigned threads = 1; threads <= 3; threads += 2) {
            struct leat_loader *loader = open_by_length(dataset, &buckets, threads, 0, 1);
            for (int epoch = 0; epoch < 2; epoch++) {
                unsigned seen[SAMPLES] = {0};
                const uint64_t iteration = test_start(loader);
                for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b)) {
                    check_batch(b, &buckets, seen);
                    hashes[threads / 2] = leat_key_mix(hashes[threads / 2], test_hash_batch(b));
                }
                for (size_t i = 0; i < SAMPLES; i++)
                    assert_int_equal(seen[i], 1);
            }
            leat_loader_close(loader);
        }
        assert_int_equal(hashes[0], hashes[1]);
    }
    leat_dataset_release(dataset);
}

TEST(a_run_goes_on_on_other_ranks)
{
    struct leat_dataset *dataset = test_dataset("texts.leat", SAMPLES, true);
    const struct leat_bucket_options buckets = {.field = "t", .elements = ELEMENTS};
    unsigned seen[SAMPLES] = {0};
    struct leat_error error;
    struct leat_loader *loader = open_by_length(dataset, &buckets, 2, 0, 1);
    uint64_t iteration = test_start(loader);
    for (int i = 0; i < 7; i++) {
        struct leat_batch *b = test_next(loader, iteration);
        assert_non_null(b);
        check_batch(b, &buckets, seen);
        leat_batch_free(b);
    }
    char *json;
    assert_ok(leat_loader_state(loader, &json, &error));
    leat_loader_close(loader);
    for (uint32_t rank = 0; rank < 2; rank++) {
        loader = open_by_length(dataset, &buckets, 1, rank, 2);
        assert_ok(leat_loader_load_state(loader, json, &error));
        iteration = test_start(loader);
        for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b))
            check_batch(b, &buckets, seen);
        leat_loader_close(loader);
    }
    for (size_t i = 0; i < SAMPLES; i++)
        assert_int_equal(seen[i], 1);
    leat_free(json);
    leat_dataset_release(dataset);
}

static void refuse(struct leat_dataset *dataset, struct leat_bucket_options buckets, uint64_t batch, int code)
{
    struct leat_loader_options options = test_options(batch);
    struct leat_loader *loader;
    struct leat_error error;
    options.order = LEAT_ORDER_SEQUENTIAL;
    options.buckets = &buckets;
    assert_int_equal(leat_loader_open(dataset, &options, &loader, &error), code);
}

TEST(what_cannot_be_is_refused)
{
    struct leat_dataset *dataset = test_dataset("texts.leat", 20, true);
    refuse(dataset, (struct leat_bucket_options){.field = "u", .elements = 100}, 1, LEAT_E_NOT_FOUND);
    refuse(dataset, (struct leat_bucket_options){.field = "x", .elements = 100}, 1, LEAT_E_TYPE);
    refuse(dataset, (struct leat_bucket_options){.field = "t", .elements = 100}, 2, LEAT_E_INVALID);
    refuse(dataset, (struct leat_bucket_options){.field = "t"}, 1, LEAT_E_INVALID);
    refuse(dataset, (struct leat_bucket_options){.field = "t", .elements = 9}, 1, LEAT_E_RANGE);
    const uint64_t costs[20] = {[7] = 10};
    refuse(dataset, (struct leat_bucket_options){.costs = costs, .n_costs = 19, .elements = 10}, 1, LEAT_E_INVALID);
    refuse(dataset, (struct leat_bucket_options){.costs = costs, .n_costs = 20, .elements = 9}, 1, LEAT_E_RANGE);
    leat_dataset_release(dataset);
}

TEST_MAIN_IN(NULL, test_clean)
