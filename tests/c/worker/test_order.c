/* Orders that are asked for without a loader: those that a loader and the golden file have. */
#include "../engine/support.h"
#include "../golden.h"
#include "../plan/common.h"

TEST(an_order_is_that_of_a_loader_with_the_same_seed)
{
    enum { N = 301, BATCH = 16 };
    struct leat_dataset *dataset = test_dataset("order", N, false);
    struct leat_loader_options options = test_options(BATCH);
    struct leat_error error;
    options.seed = 40;
    struct leat_loader *loader = test_loader(dataset, &options);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        int64_t positions[N], *ids;
        uint64_t n;
        assert_ok(leat_order_shuffled(N, 40, epoch, 0, N, positions, &error));
        for (uint64_t step = 0; step * BATCH < N; step++) {
            assert_ok(leat_loader_plan(loader, epoch, step, &ids, &n, &error));
            for (uint64_t row = 0; row < n; row++)
                assert_int_equal(ids[row], positions[step * BATCH + row]);
            leat_free(ids);
        }
    }
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(a_row_has_the_key_that_a_loader_gives_it)
{
    struct leat_dataset *dataset = test_dataset("keys", 40, false);
    struct leat_loader_options options = test_options(8);
    struct leat_loader *loader = test_loader(dataset, &options);
    for (int epoch = 0; epoch < 2; epoch++) {
        uint64_t iteration = test_start(loader);
        for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b))
            for (uint64_t row = 0; row < leat_batch_rows(b); row++)
                assert_int_equal(leat_batch_row_keys(b)[row],
                                 leat_row_key(options.seed, leat_batch_epoch(b), leat_batch_step(b) * 8 + row));
    }
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(a_part_of_an_order_is_that_part_of_the_whole)
{
    enum { N = 5000 };
    static int64_t whole[N], part[N];
    struct leat_error error;
    assert_ok(leat_order_shuffled(N, 1, 2, 0, N, whole, &error));
    for (uint64_t first = 0; first <= N; first += 617)
        for (uint64_t n = 0; n <= N - first; n += 1 + n * 3) {
            assert_ok(leat_order_shuffled(N, 1, 2, first, n, part, &error));
            assert_memory_equal(part, whole + first, n * sizeof *part);
        }
}

TEST(rows_that_an_order_does_not_have_are_an_error)
{
    int64_t position;
    struct leat_error error;
    const uint64_t wrong[][3] = {{10, 10, 1},         {10, 11, 0}, {10, 9, 2},        {10, UINT64_MAX, 1},
                                 {10, 1, UINT64_MAX}, {0, 0, 1},   {UINT64_MAX, 0, 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(leat_order_shuffled(wrong[i][0], 0, 0, wrong[i][1], wrong[i][2], &position, &error),
                         LEAT_E_RANGE);
        assert_true(*error.message);
    }
    assert_ok(leat_order_shuffled(0, 0, 0, 0, 0, &position, &error));
}

/* What order_hash() of tests/c/plan/test_orders.c hashes. */
TEST(the_shuffled_orders_of_the_golden_file_are_these)
{
    static int64_t positions[4000];
    struct golden_line golden;
    struct leat_error error;
    FILE *file = golden_open();
    int found = 0;
    while (golden_next(file, "order", &golden)) {
        if (strcmp(golden.name, "shuffled"))
            continue;
        struct leat_plan *plan = simple_plan(LEAT_ORDER_SHUFFLED, golden.n, golden.key, 16, 0, 1, LEAT_TAIL_PAD);
        uint64_t hash = 0;
        for (uint64_t epoch = 0; epoch <= 5; epoch += 5) {
            assert_ok(leat_order_shuffled(golden.n, golden.key, epoch, 0, golden.n, positions, &error));
            for (uint64_t row = 0; row < golden.n; row++) {
                hash = leat_key_mix(hash, (uint64_t)positions[row]);
                hash = leat_key_mix(hash, leat_row_key(golden.key, epoch, row));
            }
            for (unsigned attempt = 0; attempt < 3; attempt++)
                hash = leat_key_mix(hash, leat_plan_substitute(plan, epoch, golden.n / 2, attempt).position);
        }
        leat_plan_free(plan);
        assert_int_equal(hash, golden.hash);
        found++;
    }
    assert_true(found >= 2);
}

TEST_MAIN_IN(NULL, test_clean)
