/*
 * in_order = false: batches in the order in which rows are finished. Slow samples are reads that the faulty backend
 * holds until the test lets them go, so that what is late is decided by the test and by no clock.
 */
#include "../faulty.h"
#include "engine/loader.h"
#include "support.h"

enum { SAMPLES = 400, BATCH = 16 };

static struct leat_loader_options unordered(uint64_t batch)
{
    struct leat_loader_options options = test_options(batch);
    options.in_order = false;
    options.num_threads = 3;
    return options;
}

/* A data set whose reads complete on another thread, about `slow` of a thousand of them only when they are let go. */
static struct leat_dataset *slow_dataset(const char *name, uint64_t n, unsigned slow)
{
    leat_dataset_release(test_dataset(name, n, true));
    leat_faulty_start(&(struct leat_faulty){.later = true, .only = name});
    struct leat_dataset *dataset = test_open(test_path(name));
    struct leat_loader_options options = test_options(BATCH);
    struct leat_loader *loader = test_loader(dataset, &options);
    test_hash_epochs(loader, 1); /* what columns and indexes read once is read: only values can be held */
    leat_loader_close(loader);
    leat_faulty_hold(slow);
    return dataset;
}

/* The next batch; whenever none has come of itself for so many milliseconds, one held read after the other is let go.
 * NULL at the end. */
static struct leat_batch *next_after(struct leat_loader *loader, uint64_t iteration, int ms)
{
    struct leat_error error;
    struct leat_batch *batch;
    for (int patience = 100000; patience;) {
        int rc = leat_loader_next(loader, iteration, ms, &batch, &error);
        if (rc == LEAT_OK || rc == LEAT_E_END)
            return batch;
        if (rc != LEAT_E_TIMEOUT)
            fail_msg("next: %s: %s", leat_status_name(rc), error.message);
        patience -= !leat_faulty_release(1);
    }
    char *json;
    assert_ok(leat_loader_stats(loader, &json, &error));
    fail_msg("nothing is held, and no batch comes: %s", json);
    return NULL;
}

static struct leat_batch *next_slow(struct leat_loader *loader, uint64_t iteration)
{
    return next_after(loader, iteration, 2);
}

/* Sums over rows, whatever their order: of all that a consumer sees of each. */
struct seen {
    uint64_t rows, sum;
    uint32_t count[SAMPLES];
};

static void see(struct seen *s, const struct leat_batch *b)
{
    test_check_batch(b);
    for (uint64_t i = 0; i < leat_batch_rows(b); i++) {
        uint64_t id = (uint64_t)leat_batch_ids(b)[i];
        s->sum += leat_key_mix(leat_key_mix(id, leat_batch_row_keys(b)[i]), leat_batch_valid(b)[i]);
        s->count[id]++;
        s->rows++;
    }
}

static uint64_t number_in_stats(const struct leat_loader *loader, const char *key)
{
    struct leat_error error;
    char *json, *at;
    assert_ok(leat_loader_stats(loader, &json, &error));
    at = strstr(json, key);
    assert_non_null(at);
    uint64_t n = strtoull(at + strlen(key) + 2, NULL, 10);
    leat_free(json);
    return n;
}

/* What `epochs` epochs in order hold. */
static struct seen in_order(struct leat_dataset *dataset, struct leat_loader_options options, int epochs)
{
    struct seen s = {0};
    options.in_order = true;
    options.log_dir = NULL;
    struct leat_loader *loader = test_loader(dataset, &options);
    for (int e = 0; e < epochs; e++) {
        uint64_t iteration = test_start(loader);
        for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b))
            see(&s, b);
    }
    leat_loader_close(loader);
    return s;
}

TEST(each_epoch_gives_each_row_once_whatever_is_slow)
{
    struct leat_dataset *plain = test_dataset("plain", SAMPLES - 5, true);
    struct leat_loader_options options = unordered(BATCH);
    struct seen expected = in_order(plain, options, 3);
    leat_dataset_release(plain);
    static const unsigned rates[] = {0, 20, 100, 400, 1000};
    for (size_t k = 0; k < sizeof rates / sizeof *rates; k++) {
        struct leat_dataset *dataset = slow_dataset("once", SAMPLES - 5, rates[k]);
        struct leat_loader *loader = test_loader(dataset, &options);
        struct seen s = {0};
        for (uint64_t e = 0; e < 3; e++) {
            uint64_t iteration = test_start(loader), step = 0, before = s.rows;
            assert_int_equal(leat_loader_epoch(loader), e);
            for (struct leat_batch *b; (b = next_slow(loader, iteration)); leat_batch_free(b), step++) {
                assert_int_equal(leat_batch_epoch(b), e);
                assert_int_equal(leat_batch_step(b), step);
                assert_int_equal(leat_batch_rows(b),
                                 step + 1 < leat_loader_steps(loader) ? BATCH : (SAMPLES - 5) % BATCH);
                see(&s, b);
            }
            assert_int_equal(step, leat_loader_steps(loader));
            assert_int_equal(s.rows - before, SAMPLES - 5);
        }
        assert_int_equal(s.sum, expected.sum);
        assert_memory_equal(s.count, expected.count, sizeof s.count);
        leat_loader_close(loader);
        leat_dataset_release(dataset);
        leat_faulty_stop();
    }
}

TEST(without_a_slow_row_batches_are_those_of_the_plan_and_nothing_is_copied)
{
    struct leat_dataset *dataset = test_dataset("fast", SAMPLES, true);
    struct leat_loader_options options = unordered(BATCH);
    options.num_threads = 1;
    struct leat_loader *loader = test_loader(dataset, &options);
    uint64_t got = test_hash_epochs(loader, 2);
    assert_int_equal(number_in_stats(loader, "copied_rows"), 0);
    leat_loader_close(loader);
    options.in_order = true;
    loader = test_loader(dataset, &options);
    assert_int_equal(got, test_hash_epochs(loader, 2));
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(a_late_row_holds_up_no_batch_until_the_window_ends)
{
    struct leat_dataset *dataset = slow_dataset("late", SAMPLES, 30);
    struct leat_loader_options options = unordered(BATCH);
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_error error;
    struct leat_batch *b;
    uint64_t iteration = test_start(loader), n = 0, capacity = number_in_stats(loader, "capacity");
    assert_true(capacity > SAMPLES / BATCH);
    /* at least all but what the slow rows are short of */
    while (leat_loader_next(loader, iteration, n < SAMPLES / BATCH - 3 ? TEST_HANG_MS : 50, &b, &error) == LEAT_OK) {
        test_check_batch(b);
        leat_batch_free(b);
        n++;
    }
    assert_true(n < SAMPLES / BATCH && n >= SAMPLES / BATCH - 3);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
    leat_faulty_stop();
}

/* Rows of several batches would make one, and what the consumer holds leaves no memory for it. */
TEST(a_consumer_that_holds_all_it_may_is_told_so_or_waits_and_can_go_on)
{
    struct leat_dataset *dataset = slow_dataset("held", SAMPLES, 60);
    struct leat_loader_options options = unordered(BATCH);
    options.max_held_bytes = 10 * leat_region_round(1); /* 4 pages a batch */
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_error error;
    struct leat_batch *held[2] = {NULL}, *b;
    uint64_t iteration = test_start(loader), rows = 0;
    for (int n = 0, rc = LEAT_OK; rc != LEAT_E_END; n++) {
        rc = leat_loader_next(loader, iteration, 20, &b, &error);
        if (rc == LEAT_OK) {
            rows += leat_batch_rows(b);
            leat_batch_free(held[n % 2]);
            held[n % 2] = b;
            continue;
        }
        assert_true(rc == LEAT_E_TIMEOUT || rc == LEAT_E_HELD || rc == LEAT_E_END);
        for (int i = 0; i < 2; i++) {
            leat_batch_free(held[i]);
            held[i] = NULL;
        }
        leat_faulty_release(rc == LEAT_E_TIMEOUT);
    }
    assert_int_equal(rows, SAMPLES);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
    leat_faulty_stop();
}

TEST(no_row_comes_further_than_the_window_from_the_frontier)
{
    struct leat_dataset *dataset = slow_dataset("bound", SAMPLES, 60);
    struct leat_loader_options options = unordered(4);
    options.order = LEAT_ORDER_SEQUENTIAL;
    options.budget_bytes = (512 << 10) * test_pages();
    struct leat_loader *loader = test_loader(dataset, &options);
    uint64_t capacity = number_in_stats(loader, "capacity"), iteration = test_start(loader), frontier = 0;
    bool gone[SAMPLES] = {false};
    assert_true(capacity < SAMPLES / 4);
    for (struct leat_batch *b; (b = next_slow(loader, iteration)); leat_batch_free(b)) {
        for (uint64_t i = 0; i < leat_batch_rows(b); i++) {
            uint64_t row = (uint64_t)leat_batch_ids(b)[i];
            assert_false(gone[row]);
            gone[row] = true;
            assert_true(row / 4 < frontier / 4 + capacity);
        }
        while (frontier < SAMPLES && gone[frontier])
            frontier++;
    }
    assert_int_equal(frontier, SAMPLES);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
    leat_faulty_stop();
}

/* Runs an epoch to `cut`, and goes on from the state in another loader. A decision about the next epoch, whenever it is
 * made, changes nothing of this one. */
static void cut_and_resume(struct leat_dataset *dataset, const struct leat_loader_options *options, uint64_t cut,
                           uint64_t budget, struct seen *s)
{
    struct leat_error error;
    char *json, *again;
    struct leat_loader *loader = test_loader(dataset, options);
    uint64_t iteration = test_start(loader);
    for (uint64_t i = 0; i < cut; i++) {
        struct leat_batch *b = next_slow(loader, iteration);
        assert_non_null(b);
        see(s, b);
        leat_batch_free(b);
    }
    assert_ok(leat_loader_state(loader, &json, &error));
    leat_loader_close(loader);
    struct leat_loader_options other = *options;
    other.budget_bytes = budget ? budget : other.budget_bytes;
    loader = test_loader(dataset, &other);
    assert_ok(leat_loader_load_state(loader, json, &error));
    assert_ok(leat_loader_state(loader, &again, &error));
    assert_string_equal(json, again);
    leat_free(json);
    leat_free(again);
    iteration = test_start(loader);
    uint64_t step = cut;
    for (struct leat_batch *b; (b = next_slow(loader, iteration)); leat_batch_free(b)) {
        assert_int_equal(leat_batch_step(b), step++);
        see(s, b);
        if (options->batch_size) {
            leat_engine_lock();
            leat_window_cancel(loader, 0); /* as where memory is short */
            leat_engine_unlock();
            assert_ok(leat_loader_set_batch_size(loader, options->batch_size, &(struct leat_step){1, 0}, &error));
        }
    }
    assert_int_equal(step, leat_loader_steps(loader));
    leat_loader_close(loader);
}

TEST(a_state_at_every_cut_goes_on_with_exactly_the_rows_that_are_left)
{
    struct leat_dataset *plain = test_dataset("plain", SAMPLES, true);
    struct leat_loader_options options = unordered(BATCH);
    struct seen expected = in_order(plain, options, 1);
    leat_dataset_release(plain);
    for (unsigned rate = 0; rate <= 200; rate += 100) {
        struct leat_dataset *dataset = slow_dataset("cut", SAMPLES, rate);
        for (uint64_t cut = rate / 100; cut < SAMPLES / BATCH; cut += test_every(3)) {
            struct seen s = {0};
            cut_and_resume(dataset, &options, cut, cut % 2 ? (400 << 10) * test_pages() : 0, &s);
            assert_int_equal(s.sum, expected.sum);
            assert_memory_equal(s.count, expected.count, sizeof s.count);
        }
        leat_dataset_release(dataset);
        leat_faulty_stop();
    }
}

TEST(ranks_each_go_on_from_their_own_state)
{
    struct leat_dataset *plain = test_dataset("plain", SAMPLES - 7, true);
    struct leat_loader_options options = unordered(8);
    options.world_size = 3;
    struct seen expected = {0}, s = {0};
    for (options.rank = 0; options.rank < 3; options.rank++) {
        struct seen one = in_order(plain, options, 1);
        expected.sum += one.sum;
        expected.rows += one.rows;
    }
    leat_dataset_release(plain);
    struct leat_dataset *dataset = slow_dataset("ranks", SAMPLES - 7, 150);
    for (options.rank = 0; options.rank < 3; options.rank++)
        cut_and_resume(dataset, &options, 5 + options.rank, 0, &s);
    assert_int_equal(s.rows, expected.rows);
    assert_int_equal(s.sum, expected.sum);
    leat_dataset_release(dataset);
    leat_faulty_stop();
}

TEST(any_sizes_tails_ranks_budgets_and_cuts_give_each_row_once)
{
    struct leat_dataset *plain = test_dataset("plain", SAMPLES, true);
    struct leat_dataset *dataset = slow_dataset("any", SAMPLES, 0);
    for (uint64_t run = 0; run < 60; run += test_every(3)) {
        struct leat_loader_options options = unordered(1 + leat_draw_below(run, 0, 40));
        options.world_size = 1 + (uint32_t)leat_draw_below(run, 1, 3);
        options.rank = (uint32_t)leat_draw_below(run, 2, options.world_size);
        options.tail = (enum leat_tail)leat_draw_below(run, 3, 3);
        options.order = run % 2 ? LEAT_ORDER_SHUFFLED : LEAT_ORDER_SEQUENTIAL;
        options.num_threads = 1 + (unsigned)leat_draw_below(run, 4, 4);
        options.seed = run;
        options.budget_bytes = ((256 << 10) + leat_draw_below(run, 5, 4 << 20)) * test_pages();
        struct seen expected = in_order(plain, options, 1), s = {0};
        struct leat_loader *loader = test_loader(plain, &options);
        uint64_t steps = leat_loader_steps(loader);
        leat_loader_close(loader);
        leat_faulty_hold((unsigned)leat_draw_below(run, 6, 300));
        cut_and_resume(dataset, &options, leat_draw_below(run, 7, steps),
                       leat_draw_below(run, 8, 2) ? (400 << 10) * test_pages() : 0, &s);
        assert_int_equal(s.rows, expected.rows);
        assert_int_equal(s.sum, expected.sum);
    }
    leat_dataset_release(plain);
    leat_dataset_release(dataset);
    leat_faulty_stop();
}

static char *state_within(struct leat_dataset *dataset, const struct leat_loader_options *options)
{
    struct leat_error error;
    char *json;
    struct leat_loader *loader = test_loader(dataset, options);
    uint64_t iteration = test_start(loader);
    for (int i = 0; i < 6; i++)
        leat_batch_free(next_slow(loader, iteration));
    assert_ok(leat_loader_state(loader, &json, &error));
    leat_loader_close(loader);
    return json;
}

TEST(a_state_within_an_epoch_refuses_other_ranks_sizes_and_the_kept_order)
{
    struct leat_dataset *dataset = slow_dataset("refuse", SAMPLES, 100);
    struct leat_loader_options options = unordered(8), other;
    options.world_size = 2;
    struct leat_error error;
    char *json = state_within(dataset, &options);
    assert_non_null(strstr(json, "\"state\":2"));
    for (int i = 0; i < 4; i++) {
        other = options;
        other.rank = i == 0;
        other.batch_size = i == 1 ? 4 : 8;
        other.in_order = i == 2;
        other.world_size = i == 3 ? 3 : 2;
        struct leat_loader *loader = test_loader(dataset, &other);
        assert_int_equal(leat_loader_load_state(loader, json, &error), LEAT_E_STATE);
        assert_non_null(strstr(error.message, i == 2 ? "in_order=False" : "epoch's end"));
        leat_loader_close(loader);
    }
    leat_free(json);
    leat_dataset_release(dataset);
    leat_faulty_stop();
}

TEST(a_changed_state_is_refused_and_never_followed)
{
    struct leat_dataset *dataset = slow_dataset("changed", SAMPLES, 100);
    struct leat_loader_options options = unordered(BATCH);
    struct leat_error error;
    char *json = state_within(dataset, &options), *at = strstr(json, "\"received\"");
    struct leat_loader *loader = test_loader(dataset, &options);
    assert_non_null(at);
    size_t refused = 0, n = strlen(json);
    for (char *c = at; c < json + n && *c != '}'; c++) {
        char was = *c;
        *c = was == 'A' ? 'Q' : 'A';
        int rc = leat_loader_load_state(loader, json, &error);
        assert_true(rc == LEAT_OK || rc == LEAT_E_INVALID || rc == LEAT_E_STATE);
        refused += rc != LEAT_OK;
        *c = was;
    }
    assert_true(refused > 40);
    leat_loader_close(loader);
    leat_free(json);
    leat_dataset_release(dataset);
    leat_faulty_stop();
}

/* ---- the record ------------------------------------------------------------------------------ */

enum { MOST = 64 };

static uint64_t run_recorded(struct leat_dataset *dataset, const struct leat_loader_options *options,
                             uint64_t hashes[MOST])
{
    struct leat_loader *loader = test_loader(dataset, options);
    uint64_t iteration = test_start(loader), n = 0, copied;
    for (struct leat_batch *b; (b = next_slow(loader, iteration)); leat_batch_free(b))
        hashes[n++] = test_hash_batch(b);
    copied = number_in_stats(loader, "copied_rows");
    leat_loader_close(loader);
    assert_int_equal(n, SAMPLES / BATCH);
    return copied;
}

TEST(what_the_record_holds_is_given_again_batch_by_batch)
{
    struct leat_dataset *dataset = slow_dataset("again", SAMPLES, 100);
    struct leat_loader_options options = unordered(BATCH);
    char folder[128];
    strcpy(folder, test_path("record"));
    options.log_dir = folder;
    uint64_t first[MOST], second[MOST];
    struct leat_error error;
    assert_true(run_recorded(dataset, &options, first) > 0);
    assert_int_equal(run_recorded(dataset, &options, second), 0);
    assert_memory_equal(first, second, SAMPLES / BATCH * sizeof *first);
    struct leat_loader *loader = test_loader(dataset, &options);
    leat_faulty_hold(0);
    for (uint64_t step = 0; step < SAMPLES / BATCH; step++) {
        struct leat_batch *b;
        assert_ok(leat_loader_batch_at(loader, 0, step, &b, &error));
        assert_int_equal(test_hash_batch(b), first[step]);
        leat_batch_free(b);
    }
    struct leat_batch *b;
    assert_int_equal(leat_loader_batch_at(loader, 1, 0, &b, &error), LEAT_E_RANGE);
    assert_non_null(strstr(error.message, "record"));
    leat_loader_close(loader);
    options.log_dir = NULL;
    loader = test_loader(dataset, &options);
    assert_int_equal(leat_loader_batch_at(loader, 0, 0, &b, &error), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "log_dir"));
    leat_loader_close(loader);
    leat_dataset_release(dataset);
    leat_faulty_stop();
}

TEST(a_record_cut_anywhere_is_followed_as_far_as_it_goes)
{
    struct leat_dataset *dataset = slow_dataset("torn", SAMPLES, 100);
    struct leat_loader_options options = unordered(BATCH);
    char folder[128], file[256];
    strcpy(folder, test_path("torn-record"));
    snprintf(file, sizeof file, "%s/unordered-000000-0-of-1.jsonl", folder);
    options.log_dir = folder;
    uint64_t first[MOST], second[MOST];
    run_recorded(dataset, &options, first);
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    for (off_t cut = st.st_size - 1; cut > 0; cut = cut * 2 / 3) {
        assert_int_equal(truncate(file, cut), 0);
        FILE *f = fopen(file, "re");
        uint64_t whole = 0;
        for (int c; (c = fgetc(f)) != EOF;)
            whole += c == '\n';
        fclose(f);
        struct seen s = {0};
        struct leat_loader *loader = test_loader(dataset, &options);
        uint64_t iteration = test_start(loader), n = 0;
        for (struct leat_batch *b; (b = next_slow(loader, iteration)); leat_batch_free(b)) {
            second[n++] = test_hash_batch(b);
            see(&s, b);
        }
        leat_loader_close(loader);
        assert_int_equal(s.rows, SAMPLES);
        for (uint64_t i = 0; i < SAMPLES; i++)
            assert_int_equal(s.count[i], 1);
        whole -= whole > 0; /* the head */
        assert_memory_equal(first, second, whole * sizeof *first);
        memcpy(first, second, sizeof first); /* what was torn was chosen and recorded anew */
    }
    leat_dataset_release(dataset);
    leat_faulty_stop();
}

TEST(a_run_that_goes_on_gets_what_it_had_got_before_it_died)
{
    struct leat_dataset *dataset = slow_dataset("died", SAMPLES, 100);
    struct leat_loader_options options = unordered(BATCH);
    char folder[128], *json = NULL;
    strcpy(folder, test_path("died-record"));
    options.log_dir = folder;
    uint64_t hashes[MOST], n = 0;
    struct leat_error error;
    struct leat_loader *loader = test_loader(dataset, &options);
    uint64_t iteration = test_start(loader);
    for (struct leat_batch *b; n < 17; leat_batch_free(b)) {
        if (n == 9)
            assert_ok(leat_loader_state(loader, &json, &error));
        b = next_slow(loader, iteration);
        hashes[n++] = test_hash_batch(b);
    }
    leat_loader_close(loader);
    loader = test_loader(dataset, &options);
    assert_ok(leat_loader_load_state(loader, json, &error));
    iteration = test_start(loader);
    n = 9;
    for (struct leat_batch *b; (b = next_slow(loader, iteration)); leat_batch_free(b), n++)
        if (n < 17)
            assert_int_equal(test_hash_batch(b), hashes[n]);
    assert_int_equal(n, SAMPLES / BATCH);
    leat_loader_close(loader);
    leat_free(json);
    leat_dataset_release(dataset);
    leat_faulty_stop();
}

TEST(the_record_of_another_run_is_refused)
{
    struct leat_dataset *dataset = test_dataset("other", 64, true);
    struct leat_loader_options options = unordered(BATCH);
    char folder[128];
    strcpy(folder, test_path("other-record"));
    options.log_dir = folder;
    struct leat_loader *loader = test_loader(dataset, &options);
    test_hash_epochs(loader, 1);
    leat_loader_close(loader);
    options.seed++;
    loader = test_loader(dataset, &options);
    struct leat_error error;
    uint64_t iteration;
    assert_int_equal(leat_loader_start(loader, &iteration, &error), LEAT_E_STATE);
    assert_non_null(strstr(error.message, "another run"));
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

static void add_line(const char *file, const char *line)
{
    FILE *f = fopen(file, "ae");
    assert_non_null(f);
    assert_true(fputs(line, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

TEST(of_two_lines_for_a_step_the_later_one_holds)
{
    struct leat_dataset *dataset = test_dataset("later", SAMPLES, true);
    struct leat_loader_options options = unordered(BATCH);
    char folder[128], file[256];
    strcpy(folder, test_path("later-record"));
    snprintf(file, sizeof file, "%s/unordered-000000-0-of-1.jsonl", folder);
    options.order = LEAT_ORDER_SEQUENTIAL;
    options.log_dir = folder;
    uint64_t first[MOST];
    run_recorded(dataset, &options, first);
    struct leat_loader *loader = test_loader(dataset, &options);
    for (unsigned again = 0; again < 2; again++) {
        char line[128];
        struct leat_error error;
        struct leat_batch *b;
        snprintf(line, sizeof line, "{\"epoch\": 0, \"step\": 2, \"rows\": [[%u, %u]]}\n", 100 - 50 * again, BATCH);
        add_line(file, line);
        assert_ok(leat_loader_batch_at(loader, 0, 2, &b, &error));
        for (unsigned i = 0; i < BATCH; i++)
            assert_int_equal(leat_batch_ids(b)[i], 100 - 50 * again + i);
        leat_batch_free(b);
        assert_ok(leat_loader_batch_at(loader, 0, 3, &b, &error));
        assert_int_equal(test_hash_batch(b), first[3]);
        leat_batch_free(b);
    }
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(a_record_of_rows_that_were_received_before_is_not_followed)
{
    struct leat_dataset *dataset = slow_dataset("twice", SAMPLES, 60);
    struct leat_loader_options options = unordered(BATCH);
    char folder[128], file[256], line[1024], *json;
    strcpy(folder, test_path("twice-record"));
    snprintf(file, sizeof file, "%s/unordered-000000-0-of-1.jsonl", folder);
    options.order = LEAT_ORDER_SEQUENTIAL;
    options.log_dir = folder;
    enum { CUT = 6 };
    struct seen s = {0};
    struct leat_error error;
    struct leat_loader *loader = test_loader(dataset, &options);
    uint64_t iteration = test_start(loader), frontier = 0;
    int n = 0;
    bool beyond = false;
    for (unsigned step = 0; step < CUT || !beyond; step++) {
        struct leat_batch *b =
            next_after(loader, iteration, 500); /* rows overtake held ones on a loaded machine, too */
        assert_non_null(b);
        see(&s, b);
        n = sprintf(line, "{\"epoch\": 0, \"step\": %u, \"rows\": [", step + 1);
        for (unsigned i = 0; i < BATCH; i++)
            n += sprintf(line + n, "%s[%" PRId64 ", 1]", i ? ", " : "", leat_batch_ids(b)[i]);
        while (frontier < SAMPLES && s.count[frontier])
            frontier++;
        beyond = frontier < (uint64_t)leat_batch_ids(b)[0];
        leat_batch_free(b);
    }
    sprintf(line + n, "]}\n");
    assert_ok(leat_loader_state(loader, &json, &error));
    leat_loader_close(loader);
    add_line(file, line);
    loader = test_loader(dataset, &options);
    assert_ok(leat_loader_load_state(loader, json, &error));
    iteration = test_start(loader);
    for (struct leat_batch *b; (b = next_slow(loader, iteration)); leat_batch_free(b))
        see(&s, b);
    assert_int_equal(s.rows, SAMPLES);
    for (uint64_t i = 0; i < SAMPLES; i++)
        assert_int_equal(s.count[i], 1);
    leat_loader_close(loader);
    leat_free(json);
    leat_dataset_release(dataset);
    leat_faulty_stop();
}

TEST_MAIN_IN(NULL, test_clean)
