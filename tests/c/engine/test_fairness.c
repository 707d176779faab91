/* How loaders share the threads. In a program of its own: no other loader has started more threads than one. */
#include "engine/engine.h"
#include "support.h"

enum { SAMPLES = 500, ROWS = 1000000 };

/* Work of a loader so far, in the unit in which it is charged. */
struct work {
    int64_t ns;
    uint64_t tasks;
};

static struct work work_of(const struct leat_loader *l)
{
    return (struct work){l->count.native_ns + l->count.fetch_ns, l->count.tasks};
}

/* Both have work all the time: their windows are far from full, and nobody takes batches. */
static void two_loaders_share_one_thread_by_their_weights(void **state)
{
    (void)state;
    struct leat_dataset *dataset = test_dataset("weights", SAMPLES, true);
    double weights[SAMPLES];
    for (int i = 0; i < SAMPLES; i++)
        weights[i] = 1;
    struct leat_loader *loaders[2];
    for (int i = 0; i < 2; i++) {
        struct leat_loader_options options = test_options(500);
        options.order = LEAT_ORDER_WEIGHTED;
        options.weights = weights;
        options.n_weights = SAMPLES;
        options.num_samples = ROWS;
        options.replacement = true;
        options.num_threads = 1;
        options.budget_bytes = 64 << 20;
        options.weight = i ? 1 : 3;
        loaders[i] = test_loader(dataset, &options);
    }
    for (int i = 0; i < 2; i++)
        test_start(loaders[i]);
    struct work first[2] = {0}, now[2];
    double ratio = 0;
    bool full = false;
    /* A task that the system held up counts with the time that it took: then it takes longer until that is evened out.
     */
    for (bool fair = false; !fair && !full;) {
        usleep(1000);
        leat_engine_lock();
        assert_int_equal(leat_scheduler.n_threads, 1);
        for (int i = 0; i < 2; i++)
            now[i] = work_of(loaders[i]);
        full = loaders[0]->window.full || loaders[1]->window.full;
        leat_engine_unlock();
        bool warm = now[0].tasks >= 20 && now[1].tasks >= 20;
        if (warm && !first[0].tasks)
            memcpy(first, now, sizeof first);
        if (!first[0].tasks || now[1].ns == first[1].ns)
            continue;
        ratio = (double)(now[0].ns - first[0].ns) / (double)(now[1].ns - first[1].ns);
        fair = ratio > 2 && ratio < 4.5 && now[1].tasks - first[1].tasks >= 200;
    }
    if (full)
        fail_msg("%.2f to 1 of the time, %llu and %llu tasks", ratio,
                 (unsigned long long)(now[0].tasks - first[0].tasks),
                 (unsigned long long)(now[1].tasks - first[1].tasks));
    for (int i = 0; i < 2; i++)
        leat_loader_close(loaders[i]);
    leat_dataset_release(dataset);
}

/* A loader whose share is a millionth is served nevertheless, beside one that always has work. */
static void a_loader_of_little_weight_is_not_starved(void **state)
{
    (void)state;
    struct leat_dataset *dataset = test_dataset("little", SAMPLES, true);
    struct leat_loader *loaders[2];
    uint64_t iterations[2];
    for (int i = 0; i < 2; i++) {
        struct leat_loader_options options = test_options(50);
        options.num_threads = 1;
        options.weight = i ? 1e-3 : 1e3;
        loaders[i] = test_loader(dataset, &options);
        iterations[i] = test_start(loaders[i]);
    }
    for (int taken = 0; taken < 10; taken++) { /* an epoch of the small one; the large one is kept going */
        struct leat_batch *b = test_next(loaders[1], iterations[1]);
        assert_non_null(b);
        leat_batch_free(b);
        b = test_next(loaders[0], iterations[0]);
        if (!b)
            iterations[0] = test_start(loaders[0]);
        leat_batch_free(b);
    }
    assert_null(test_next(loaders[1], iterations[1]));
    for (int i = 0; i < 2; i++)
        leat_loader_close(loaders[i]);
    leat_dataset_release(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_loaders_share_one_thread_by_their_weights),
        cmocka_unit_test(a_loader_of_little_weight_is_not_starved),
    };
    return cmocka_run_group_tests(tests, NULL, test_clean);
}
