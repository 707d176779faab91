/* Rows that were made before the batch size changed are copied into batches with the new borders: kept.c. */
#include "engine/loader.h"
#include "engine/task.h"
#include "leat/feedback.h"
#include "support.h"

enum { N = 1200, EPOCHS = 3, MOST = N * EPOCHS };

/* What the plan has at each place of each epoch, whatever the sizes. */
struct row {
    int64_t id;
    uint64_t key;
};
static struct row planned[EPOCHS][N];

static void read_plan(struct leat_dataset *dataset)
{
    struct leat_loader_options options = test_options(100);
    struct leat_loader *loader = test_loader(dataset, &options);
    for (size_t epoch = 0, at = 0; epoch < EPOCHS; epoch++, at = 0) {
        uint64_t iteration = test_start(loader);
        for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b))
            for (uint64_t i = 0; i < leat_batch_rows(b); i++)
                planned[epoch][at++] = (struct row){leat_batch_ids(b)[i], leat_batch_row_keys(b)[i]};
        assert_int_equal(at, N);
    }
    leat_loader_close(loader);
}

/* Rows of a batch are those of the plan from place `at` on, and hold what their ids say. Returns the next place. */
static uint64_t check(const struct leat_batch *b, uint64_t at)
{
    for (uint64_t i = 0; i < leat_batch_rows(b); i++) {
        const bool valid = leat_batch_valid(b)[i];
        assert_int_equal(valid, at < N);
        if (!valid)
            continue;
        const struct row *row = &planned[leat_batch_epoch(b)][at++];
        assert_int_equal(leat_batch_ids(b)[i], row->id);
        assert_int_equal(leat_batch_row_keys(b)[i], row->key);
    }
    test_check_batch(b);
    return at;
}

static uint64_t reused(const struct leat_loader *loader)
{
    leat_engine_lock();
    uint64_t n = loader->count.reused;
    leat_engine_unlock();
    return n;
}

/* Until the window is full, or has all of the epoch. Returns how many rows it has. */
static uint64_t wait_for_window(struct leat_loader *loader)
{
    for (;; usleep(1000)) {
        uint64_t rows = 0;
        leat_engine_lock();
        bool ready = loader->window.n && !loader->tasks.running && !leat_task_has_work(loader) &&
                     (loader->window.full || loader->window.plan_at.epoch >= 1);
        for (size_t i = 0; i < loader->window.n; i++)
            rows += leat_window_at(&loader->window, i)->plan.rows;
        leat_engine_unlock();
        if (ready)
            return rows;
    }
}

TEST(no_row_is_made_again_because_the_size_changed)
{
    struct leat_dataset *dataset = test_dataset("again", N, false);
    read_plan(dataset);
    const uint64_t sizes[] = {64, 7, 16, 32, 100, 1};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct leat_loader_options options = test_options(32);
        struct leat_error error;
        options.budget_bytes = 64 << 20;
        options.epochs = 1;
        struct leat_loader *loader = test_loader(dataset, &options);
        uint64_t iteration = test_start(loader), at = 0;
        struct leat_batch *b = test_next(loader, iteration);
        at = check(b, at);
        leat_batch_free(b);
        const uint64_t made = wait_for_window(loader);
        assert_true(made >= 256);
        assert_ok(leat_loader_set_batch_size(loader, sizes[s], NULL, &error));
        for (; (b = test_next(loader, iteration)); leat_batch_free(b))
            at = check(b, at);
        assert_int_equal(at, N);
        assert_int_equal(reused(loader), made);
        leat_loader_close(loader);
    }
    leat_dataset_release(dataset);
}

TEST(a_second_change_keeps_what_the_first_one_kept)
{
    struct leat_dataset *dataset = test_dataset("twice", N, false);
    read_plan(dataset);
    struct leat_loader_options options = test_options(32);
    struct leat_error error;
    options.budget_bytes = 64 << 20;
    options.epochs = 1;
    struct leat_loader *loader = test_loader(dataset, &options);
    uint64_t iteration = test_start(loader), at = 0, n = 0;
    const uint64_t made = wait_for_window(loader);
    for (struct leat_batch *b;; leat_batch_free(b)) { /* each batch has another size than the one before */
        assert_ok(leat_loader_set_batch_size(loader, 20 + 7 * (n++ % 5), NULL, &error));
        if (!(b = test_next(loader, iteration)))
            break;
        at = check(b, at);
    }
    assert_int_equal(at, N);
    assert_true(reused(loader) >= made);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(any_changes_states_and_budgets_leave_the_rows_as_they_are)
{
    struct leat_dataset *dataset = test_dataset("any", N, false);
    read_plan(dataset);
    uint64_t copied = 0;
    for (uint64_t t = 0; t < (TEST_SANITIZED ? 30 : 120); t++) {
        struct leat_loader_options options = test_options(1 + leat_draw_below(t, 0, 60));
        struct leat_error error;
        options.budget_bytes = (t % 3 ? 600 << 10 : 64 << 20) * test_pages();
        options.num_threads = 1 + (unsigned)(t % 3);
        options.tail = t % 2 ? LEAT_TAIL_PAD : LEAT_TAIL_UNEVEN;
        struct leat_loader *loader = test_loader(dataset, &options);
        char *saved = NULL;
        uint64_t saved_at = 0, draw = 1;
        for (uint64_t epoch = 0, at = 0; epoch < EPOCHS;) {
            uint64_t iteration = test_start(loader);
            struct leat_batch *b = NULL;
            bool again = false;
            while (!again && (b = test_next(loader, iteration))) {
                assert_int_equal(leat_batch_epoch(b), epoch);
                at = check(b, at);
                leat_batch_free(b);
                const uint64_t what = leat_draw_below(t, draw++, 12);
                if (what < 4)
                    assert_ok(leat_loader_set_batch_size(loader, 1 + leat_draw_below(t, draw++, 60), NULL, &error));
                else if (what == 4 && !saved && at < N) {
                    assert_ok(leat_loader_state(loader, &saved, &error));
                    saved_at = epoch * N + at;
                } else if (what == 5 && saved && saved_at / N == epoch) {
                    assert_ok(leat_loader_load_state(loader, saved, &error));
                    leat_free(saved);
                    saved = NULL;
                    at = saved_at % N;
                    again = true;
                } else if (what == 6)
                    usleep(200);
            }
            if (again)
                continue;
            assert_int_equal(at, N);
            epoch++;
            at = 0;
        }
        copied += reused(loader);
        leat_free(saved);
        leat_loader_close(loader);
    }
    assert_true(copied > N);
    leat_dataset_release(dataset);
}

TEST(a_list_of_other_samples_uses_nothing_that_was_kept)
{
    struct leat_dataset *dataset = test_dataset("list", N, false);
    struct leat_loader_options options = test_options(32);
    struct leat_error error;
    options.budget_bytes = 64 << 20;
    struct leat_loader *loader = test_loader(dataset, &options);
    for (uint64_t iteration = test_start(loader), n = 0; n < N / 32 - 2; n++)
        leat_batch_free(test_next(loader, iteration)); /* the window has rows of the next epoch */
    wait_for_window(loader);
    int64_t list[64];
    for (size_t i = 0; i < 64; i++)
        list[i] = (int64_t)(i * 3);
    assert_ok(leat_loader_set_batch_size(loader, 20, NULL, &error));
    const uint64_t next = 1;
    assert_ok(leat_loader_decide_rows(loader, &(struct leat_step){next, 0}, LEAT_ROWS_LISTED, list, 64, &error));
    bool dropped;
    assert_ok(leat_loader_set_epoch(loader, 1, &dropped, &error));
    uint64_t iteration = test_start(loader), at = 0;
    for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b)) {
        test_check_batch(b);
        for (uint64_t i = 0; i < leat_batch_rows(b); i++)
            if (leat_batch_valid(b)[i])
                assert_int_equal(leat_batch_ids(b)[i], list[at++]);
    }
    assert_int_equal(at, 64);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

/* Of two ranks, each keeps the rows that are its own under both sizes. */
TEST(ranks_keep_what_stays_theirs)
{
    struct leat_dataset *dataset = test_dataset("ranks", N, false);
    read_plan(dataset);
    static uint8_t seen[N];
    memset(seen, 0, sizeof seen);
    for (unsigned rank = 0; rank < 2; rank++) {
        struct leat_loader_options options = test_options(30);
        struct leat_error error;
        options.budget_bytes = 64 << 20;
        options.rank = rank;
        options.world_size = 2;
        options.epochs = 1;
        struct leat_loader *loader = test_loader(dataset, &options);
        uint64_t iteration = test_start(loader), n = 0;
        for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b)) {
            test_check_batch(b);
            for (uint64_t i = 0; i < leat_batch_rows(b); i++)
                seen[leat_batch_ids(b)[i]] += leat_batch_valid(b)[i];
            const struct leat_step at = {0, ++n};
            if (n % 3 == 1 && n < 12)
                assert_ok(leat_loader_set_batch_size(loader, n % 2 ? 50 : 30, &at, &error));
        }
        leat_loader_close(loader);
    }
    for (size_t i = 0; i < N; i++)
        assert_int_equal(seen[i], 1);
    leat_dataset_release(dataset);
}

TEST_MAIN_IN(NULL, test_clean)
