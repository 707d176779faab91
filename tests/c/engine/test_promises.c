/* The promises of the design, each as a test that bears its name. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "../allocations.h"
#include "base/alloc.h"
#include "engine/loader.h"
#include "support.h"

/* Stand before the library's own (--wrap): what the process may use, and the bytes that new buffers begin with. */
uint64_t __real_leat_memory_allowed(void);
uint64_t __wrap_leat_memory_allowed(void);
uint8_t *__real_leat_region_alloc(struct leat_region *region, uint64_t bytes, uint64_t *offset);
uint8_t *__wrap_leat_region_alloc(struct leat_region *region, uint64_t bytes, uint64_t *offset);

static uint64_t memory_limit; /* of all loaders together, or 0 */
static int poison = -1;

uint64_t __wrap_leat_memory_allowed(void)
{
    return memory_limit ? 2 * memory_limit : __real_leat_memory_allowed();
}

uint8_t *__wrap_leat_region_alloc(struct leat_region *region, uint64_t bytes, uint64_t *offset)
{
    uint8_t *found = __real_leat_region_alloc(region, bytes, offset);
    if (found && poison >= 0)
        memset(found, poison, bytes);
    return found;
}

TEST(promise_1_same_order_for_any_threads_window_and_region)
{
    struct leat_dataset *dataset = test_dataset("order", 3000, true);
    uint64_t expected = 0;
    for (unsigned threads = 1; threads <= 4; threads++)
        for (int wide = 0; wide < 2; wide++)
            for (int region = 0; region < 2; region++) {
                struct leat_loader_options options = test_options(50);
                options.num_threads = threads;
                options.region = region;
                options.budget_bytes = wide ? 32 << 20 : 1 << 20;
                struct leat_loader *loader = test_loader(dataset, &options);
                uint64_t hash = test_hash_epochs(loader, 2);
                expected = expected ? expected : hash;
                assert_int_equal(hash, expected);
                leat_loader_close(loader);
            }
    leat_dataset_release(dataset);
}

/* Rows of all ranks, one step after the other, are the rows of one rank: ids, keys and bytes. */
TEST(promise_1_same_order_for_any_number_of_ranks)
{
    struct leat_dataset *dataset = test_dataset("ranks", 1200, true);
    uint64_t expected = 0;
    for (uint32_t world = 1; world <= 4; world++) {
        struct leat_loader *loaders[4];
        uint64_t iterations[4], hash = 0;
        for (uint32_t rank = 0; rank < world; rank++) {
            struct leat_loader_options options = test_options(0);
            options.global_batch_size = 60;
            options.rank = rank;
            options.world_size = world;
            loaders[rank] = test_loader(dataset, &options);
            iterations[rank] = test_start(loaders[rank]);
        }
        for (uint64_t step = 0; step < 20; step++)
            for (uint32_t rank = 0; rank < world; rank++) {
                struct leat_batch *b = test_next(loaders[rank], iterations[rank]);
                struct leat_tensor x, t;
                test_check_batch(b);
                leat_batch_tensor(b, 0, &x);
                leat_batch_tensor(b, 2, &t);
                for (uint64_t row = 0; row < leat_batch_rows(b); row++) {
                    hash = leat_key_mix(hash, (uint64_t)leat_batch_ids(b)[row]);
                    hash = leat_key_mix(hash, leat_batch_row_keys(b)[row]);
                    hash = leat_key_mix(hash, leat_hash64((uint8_t *)x.data + row * 24, 24));
                    hash = leat_key_mix(hash, leat_hash64((uint8_t *)t.data + t.offsets[row],
                                                          (size_t)(t.offsets[row + 1] - t.offsets[row])));
                }
                leat_batch_free(b);
            }
        expected = expected ? expected : hash;
        assert_int_equal(hash, expected);
        for (uint32_t rank = 0; rank < world; rank++)
            leat_loader_close(loaders[rank]);
    }
    leat_dataset_release(dataset);
}

TEST(promise_2_each_row_exactly_once_with_padding_marked)
{
    enum { N = 1003 };
    struct leat_dataset *dataset = test_dataset("once", N, false);
    for (int tail = LEAT_TAIL_PAD; tail <= LEAT_TAIL_UNEVEN; tail++)
        for (uint32_t world = 1; world <= 3; world++) {
            uint8_t seen[N] = {0};
            uint64_t padding = 0, rows = 0;
            for (uint32_t rank = 0; rank < world; rank++) {
                struct leat_loader_options options = test_options(0);
                options.global_batch_size = 50;
                options.tail = (enum leat_tail)tail;
                options.rank = rank;
                options.world_size = world;
                struct leat_loader *loader = test_loader(dataset, &options);
                uint64_t iteration = test_start(loader), steps = 0;
                for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b), steps++)
                    for (uint64_t row = 0; row < leat_batch_rows(b); row++) {
                        if (leat_batch_valid(b)[row])
                            seen[leat_batch_ids(b)[row]]++, rows++;
                        else
                            padding++;
                    }
                assert_int_equal(steps, leat_loader_steps(loader));
                leat_loader_close(loader);
            }
            assert_true(padding < world && (tail == LEAT_TAIL_PAD || !padding));
            assert_int_equal(rows, tail == LEAT_TAIL_DROP ? 1000 : N);
            for (int i = 0; i < N; i++)
                assert_true(seen[i] <= 1);
        }
    leat_dataset_release(dataset);
}

TEST(promise_3_exact_resume_at_every_cut)
{
    struct leat_dataset *dataset = test_dataset("resume", 403, true);
    struct leat_loader_options options = test_options(20);
    struct leat_loader *whole = test_loader(dataset, &options);
    struct leat_error error;
    uint64_t hashes[64], n = 0;
    for (int epoch = 0; epoch < 2; epoch++) {
        uint64_t iteration = test_start(whole);
        for (struct leat_batch *b; (b = test_next(whole, iteration)); leat_batch_free(b))
            hashes[n++] = test_hash_batch(b);
    }
    leat_loader_close(whole);
    for (uint64_t cut = 0; cut < n; cut++) {
        struct leat_loader *first = test_loader(dataset, &options), *second = test_loader(dataset, &options);
        char *json;
        uint64_t at = 0, iteration = 0;
        for (int epoch = 0; epoch < 2 && (at < cut || !epoch); epoch++) {
            iteration = test_start(first);
            for (struct leat_batch *b; at < cut && (b = test_next(first, iteration)); leat_batch_free(b))
                assert_int_equal(test_hash_batch(b), hashes[at++]);
        }
        assert_ok(leat_loader_state(first, &json, &error));
        leat_loader_close(first);
        if (cut % 2) /* a loader that has run before takes a state as well as a fresh one */
            leat_batch_free(test_next(second, test_start(second)));
        assert_ok(leat_loader_load_state(second, json, &error));
        leat_free(json);
        while (at < n) {
            iteration = test_start(second);
            for (struct leat_batch *b; (b = test_next(second, iteration)); leat_batch_free(b))
                if (at < n)
                    assert_int_equal(test_hash_batch(b), hashes[at++]);
        }
        leat_loader_close(second);
    }
    leat_dataset_release(dataset);
}

/* 4000 samples of 4 KiB. */
static struct leat_dataset *wide_dataset(const char *name)
{
    const struct leat_field field = {
        .name = "x", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U16, .ndim = 1, .shape = {2048}};
    struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    struct leat_writer *writer;
    struct leat_error error;
    uint16_t x[2048];
    options.num_threads = 1;
    assert_ok(leat_writer_open(test_path(name), &field, 1, &options, &writer, &error));
    for (unsigned i = 0; i < 4000; i++) {
        for (unsigned k = 0; k < 2048; k++)
            x[k] = (uint16_t)(i + k);
        const struct leat_value_ref value = {x, sizeof x, NULL};
        assert_ok(leat_writer_add(writer, &value, NULL, &error));
    }
    assert_ok(leat_writer_finish(writer, &error));
    leat_writer_free(writer, false);
    return test_open(test_path(name));
}

#if !TEST_SANITIZED /* whose own memory would be counted */
TEST(promise_4_resident_memory_stays_within_budget_and_held)
{
    struct leat_dataset *dataset = wide_dataset("wide");
    for (int region = 0; region < 2; region++) {
        struct leat_loader_options options = test_options(256); /* 1 MiB a batch */
        options.budget_bytes = 8 << 20;
        options.max_held_bytes = 6 << 20;
        options.region = region;
        uint64_t before = test_resident(), most = 0;
        struct leat_loader *loader = test_loader(dataset, &options);
        struct leat_batch *held[16] = {0};
        struct leat_error error;
        for (int epoch = 0; epoch < 4; epoch++) {
            uint64_t iteration = test_start(loader);
            for (uint64_t i = 0;; i++) {
                struct leat_batch *b;
                int rc = leat_loader_next(loader, iteration, -1, &b, &error);
                if (rc == LEAT_E_END)
                    break;
                size_t k = leat_draw_below(1, i, 16); /* let go in any order: holes */
                if (rc == LEAT_E_HELD) {
                    leat_batch_free(held[k]);
                    held[k] = NULL;
                    continue;
                }
                assert_int_equal(rc, LEAT_OK);
                leat_batch_free(held[k]);
                held[k] = b;
                uint64_t now = test_resident();
                most = now > most ? now : most;
            }
        }
        assert_true(most <= before + options.budget_bytes + options.max_held_bytes);
        for (int k = 0; k < 16; k++)
            leat_batch_free(held[k]);
        leat_loader_close(loader);
    }
    leat_dataset_release(dataset);
}
#endif

/* Until every batch of the window is ready. */
static void wait_until_full(struct leat_loader *loader)
{
    for (;;) {
        leat_engine_lock();
        bool full = loader->window.full && !loader->tasks.running;
        leat_engine_unlock();
        if (full)
            return;
        usleep(1000);
    }
}

TEST(promise_4_no_allocation_per_sample_in_steady_state)
{
    library_allocations();
    for (int text = 0; text < 2; text++) {
        struct leat_dataset *dataset = test_dataset("steady", 5000, text);
        struct leat_loader_options options = test_options(50);
        options.budget_bytes = 1 << 20;
        struct leat_loader *loader = test_loader(dataset, &options);
        test_hash_epochs(loader, 3);
        uint64_t iteration = test_start(loader);
        wait_until_full(
            loader); /* the pools are as large as they will be, but for a batch or two in the consumer's hands */
        struct leat_batch *one = test_next(loader, iteration), *two = test_next(loader, iteration);
        wait_until_full(loader);
        leat_batch_free(one);
        leat_batch_free(two);
        uint64_t before = library_allocations();
        test_hash_epochs(loader, 4);
        uint64_t made = library_allocations() - before;
        /* 20000 samples in 400 batches. Tasks of a left epoch may keep a batch each for a moment, and where values
         * vary, a window of short ones holds more batches: the pool may grow by a few, of some ten allocations each. */
        if (made >= (text ? 400 : 50))
            fail_msg("%d allocations", (int)made);
        leat_loader_close(loader);
        leat_dataset_release(dataset);
    }
}

TEST(promise_4_a_budget_too_small_for_three_batches_says_what_is_needed)
{
    struct leat_dataset *dataset = test_dataset("small", 100000, false);
    struct leat_loader_options options = test_options(100000);
    struct leat_loader *loader;
    struct leat_error error;
    options.budget_bytes = 4 << 20;
    assert_int_equal(leat_loader_open(dataset, &options, &loader, &error), LEAT_E_BUDGET);
    const char *need = strstr(error.message, "need ");
    assert_non_null(need);
    options.budget_bytes = strtoull(need + 5, NULL, 10);
    assert_ok(leat_loader_open(dataset, &options, &loader, &error));
    struct leat_batch *b = test_next(loader, test_start(loader));
    assert_int_equal(leat_batch_rows(b), 100000);
    leat_batch_free(b);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(promise_4_holding_too_much_is_an_error_that_ends_when_batches_are_let_go)
{
    struct leat_dataset *dataset = test_dataset("held", 1000, true);
    struct leat_loader_options options = test_options(10);
    options.max_held_bytes = (256 << 10) * test_pages();
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_error error;
    struct leat_batch *held[100], *b;
    uint64_t iteration = test_start(loader);
    size_t n = 0;
    while (leat_loader_next(loader, iteration, -1, &b, &error) == LEAT_OK) {
        assert_true(n < 99);
        held[n++] = b;
    }
    assert_int_equal(error.code, LEAT_E_HELD);
    char words[32];
    snprintf(words, sizeof words, "%zu batches", n);
    assert_non_null(strstr(error.message, words));
    assert_true(n >= 3);
    assert_int_equal(leat_loader_next(loader, iteration, -1, &b, &error), LEAT_E_HELD);
    leat_batch_free(held[0]);
    b = test_next(loader, iteration);
    assert_int_equal(leat_batch_step(b), n); /* nothing was lost by the refusals */
    for (size_t i = 1; i < n; i++) {
        test_check_batch(held[i]);
        leat_batch_free(held[i]);
    }
    leat_batch_free(b);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(promise_4_all_loaders_together_stay_under_the_limit_of_the_process)
{
    struct leat_dataset *dataset = wide_dataset("together");
    memory_limit = 12 << 20;
    struct leat_loader *loaders[3];
    uint64_t iterations[3];
    for (int i = 0; i < 3; i++) {
        struct leat_loader_options options = test_options(128);
        options.num_threads = 1;
        options.budget_bytes = 8 << 20;
        loaders[i] = test_loader(dataset, &options);
        iterations[i] = test_start(loaders[i]);
    }
    for (int step = 0; step < 20; step++) /* each makes progress although none could have its whole window */
        for (int i = 0; i < 3; i++) {
            struct leat_batch *b = test_next(loaders[i], iterations[i]);
            assert_non_null(b);
            assert_int_equal(leat_batch_step(b), step);
            leat_engine_lock();
            assert_true(leat_ledger_used(LEAT_OF_LOADERS) <= memory_limit);
            leat_engine_unlock();
            leat_batch_free(b);
        }
    for (int i = 0; i < 3; i++)
        leat_loader_close(loaders[i]);
    memory_limit = 0;
    leat_dataset_release(dataset);
}

TEST(promise_5_every_byte_of_an_output_is_written)
{
    struct leat_dataset *dataset = test_dataset("written", 997, true);
    uint64_t hashes[2];
    for (int k = 0; k < 2; k++) {
        poison = k ? 0x5a : 0xa5;
        struct leat_loader_options options = test_options(64);
        struct leat_loader *loader = test_loader(dataset, &options);
        hashes[k] = test_hash_epochs(loader, 1);
        leat_loader_close(loader);
    }
    poison = -1;
    assert_int_equal(hashes[0], hashes[1]);
    leat_dataset_release(dataset);
}

static atomic_bool interrupted;

/* Again and again, as one that comes before the wait ends nothing. */
static void *interrupt_a_wait(void *loader)
{
    while (!atomic_load(&interrupted)) {
        usleep(1000);
        leat_loader_interrupt(loader);
    }
    return NULL;
}

TEST(promise_6_a_wait_ends_by_time_by_interrupt_and_by_close)
{
    struct leat_dataset *dataset = test_dataset("wait", 100, false);
    struct leat_loader_options options = test_options(10);
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_error error;
    struct leat_batch *b;
    uint64_t iteration = test_start(loader);
    leat_engine_lock();
    loader->client.paused = true; /* nothing will be made: every next waits */
    leat_engine_unlock();
    int rc;
    while ((rc = leat_loader_next(loader, iteration, 0, &b, &error)) == LEAT_OK)
        leat_batch_free(b);
    assert_int_equal(rc, LEAT_E_TIMEOUT);
    assert_int_equal(leat_loader_next(loader, iteration, 20, &b, &error), LEAT_E_TIMEOUT);
    pthread_t thread;
    atomic_store(&interrupted, false);
    assert_int_equal(pthread_create(&thread, NULL, interrupt_a_wait, loader), 0);
    assert_int_equal(leat_loader_next(loader, iteration, -1, &b, &error), LEAT_E_CANCELLED);
    atomic_store(&interrupted, true);
    pthread_join(thread, NULL);
    leat_engine_lock();
    loader->client.paused = false;
    leat_engine_unlock();
    while ((b = test_next(loader, iteration))) /* and all goes on where it was */
        leat_batch_free(b);
    assert_int_equal(loader->count.samples, 100);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(promise_7_a_batch_is_yours_while_you_hold_it_even_after_close)
{
    struct leat_dataset *dataset = test_dataset("yours", 1000, true);
    for (int region = 0; region < 2; region++) {
        struct leat_loader_options options = test_options(20);
        options.region = region;
        struct leat_loader *loader = test_loader(dataset, &options);
        struct leat_batch *held[10];
        uint64_t hashes[10];
        uint64_t iteration = test_start(loader);
        for (int i = 0; i < 50; i++) {
            struct leat_batch *b = test_next(loader, iteration);
            if (i % 5) {
                leat_batch_free(b);
                continue;
            }
            held[i / 5] = b;
            hashes[i / 5] = test_hash_batch(b);
        }
        struct leat_tensor y;
        leat_batch_tensor(held[0], 1, &y);
        int64_t first = *(int64_t *)y.data;
        leat_buffer_retain(y.buffer); /* a tensor of the label outlives its batch */
        test_hash_epochs(loader, 1);
        leat_loader_close(loader);
        for (int i = 0; i < 10; i++) {
            assert_int_equal(test_hash_batch(held[i]), hashes[i]);
            leat_batch_free(held[i]);
        }
        assert_int_equal(*(int64_t *)y.data, first);
        leat_buffer_release(y.buffer);
    }
    leat_dataset_release(dataset);
}

TEST(promise_7_a_kept_label_keeps_no_images)
{
    struct leat_dataset *dataset = test_dataset("label", 1000, true);
    struct leat_loader_options options = test_options(500);
    options.max_held_bytes = 64 * leat_region_round(1);
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_buffer *kept[10];
    for (int epoch = 0, n = 0; epoch < 5; epoch++) {
        uint64_t iteration = test_start(loader);
        for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b)) {
            struct leat_tensor y;
            leat_batch_tensor(b, 1, &y);
            leat_buffer_retain(y.buffer);
            kept[n++] = y.buffer;
        }
    }
    assert_int_equal(loader->budget.used[LEAT_HELD], 10 * leat_region_round(1));
    for (int i = 0; i < 10; i++)
        leat_buffer_release(kept[i]);
    assert_int_equal(loader->budget.used[LEAT_HELD], 0);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

static void count_release(void *user)
{
    ++*(int *)user;
}

TEST(promise_7_a_buffer_waits_for_its_release_hook)
{
    struct leat_dataset *dataset = test_dataset("hook", 100, false);
    struct leat_loader_options options = test_options(10);
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_batch *b = test_next(loader, test_start(loader));
    struct leat_tensor x;
    int called = 0;
    leat_batch_tensor(b, 0, &x);
    leat_buffer_on_release(x.buffer, count_release, &called);
    leat_buffer_retain(x.buffer);
    leat_batch_free(b);
    assert_int_equal(called, 0);
    leat_buffer_release(x.buffer);
    assert_int_equal(called, 1);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

#if !TEST_THREAD_SANITIZED /* which cannot start threads in the child of a process that has some */
static int in_child(struct leat_loader *parents, struct leat_batch *held, uint64_t iteration,
                    struct leat_dataset *dataset)
{
    struct leat_error error;
    struct leat_batch *b;
    struct leat_loader *own;
    char *json;
    uint64_t n;
    if (leat_loader_next(parents, iteration, -1, &b, &error) != LEAT_E_FORKED ||
        leat_loader_start(parents, &n, &error) != LEAT_E_FORKED ||
        leat_loader_state(parents, &json, &error) != LEAT_E_FORKED ||
        leat_loader_stats(parents, &json, &error) != LEAT_E_FORKED)
        return 1;
    leat_batch_free(held);
    leat_loader_close(parents);
    struct leat_loader_options options = test_options(10);
    if (leat_loader_open(dataset, &options, &own, &error) || leat_loader_start(own, &n, &error) ||
        leat_loader_next(own, n, TEST_HANG_MS, &b, &error))
        return 2;
    leat_batch_free(b);
    leat_loader_close(own);
    return 0;
}

TEST(promise_9_fork_is_safe_while_everything_works)
{
    struct leat_dataset *dataset = test_dataset("fork", 2000, true);
    struct leat_loader_options options = test_options(10);
    struct leat_loader *loader = test_loader(dataset, &options);
    uint64_t iteration = test_start(loader);
    for (int i = 0; i < 20; i++) {
        struct leat_batch *b = test_next(loader, iteration);
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child)
            _exit(in_child(loader, b, iteration, dataset));
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        test_check_batch(b);
        leat_batch_free(b);
    }
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(promise_9_exit_with_a_live_loader_is_clean)
{
    struct leat_dataset *dataset = test_dataset("exit", 2000, true);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        static struct leat_loader *volatile living; /* where a leak checker sees it */
        alarm(TEST_HANG_MS / 1000);
        struct leat_loader_options options = test_options(10);
        living = test_loader(dataset, &options);
        leat_batch_free(test_next(living, test_start(living)));
        leat_dataset_release(dataset);
        exit(42);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 42);
    leat_dataset_release(dataset);
}
#endif

TEST(promise_9_a_thousand_open_loaders_share_the_threads)
{
    enum { N = 1000 };
    struct leat_dataset *dataset = test_dataset("many", 100, false);
    static struct leat_loader *loaders[N];
    static uint64_t iterations[N];
    for (int i = 0; i < N; i++) {
        struct leat_loader_options options = test_options(10);
        options.budget_bytes = 1 << 20;
        loaders[i] = test_loader(dataset, &options);
        iterations[i] = test_start(loaders[i]);
    }
    leat_engine_lock();
    assert_true(leat_scheduler.n_threads <= 4);
    leat_engine_unlock();
    for (int step = 0; step < 10; step++)
        for (int i = 0; i < N; i++) {
            struct leat_batch *b = test_next(loaders[i], iterations[i]);
            assert_int_equal(leat_batch_step(b), step);
            leat_batch_free(b);
        }
    for (int i = 0; i < N; i++)
        leat_loader_close(loaders[i]);
    leat_dataset_release(dataset);
}

TEST_MAIN_IN(NULL, test_clean)
