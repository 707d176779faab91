/* Sources that want to be asked for many samples at once: the batches are those of any other source, each sample is
 * computed once, and errors stay those of one sample. */
#include "../allocations.h"
#include "base/error.h"
#include "data/internal.h"
#include "engine/loader.h"
#include "leat/chunks.h"
#include "support.h"

#include <pthread.h>

enum { N = 2000, BATCH = 16, MOST = 512, BAD = 777 };

struct computer {
    uint64_t first;          /* what sample 0 has */
    uint64_t bad;            /* sample that is broken, or UINT64_MAX */
    uint64_t large;          /* bytes of each t; 0: as test_check_batch wants it */
    pthread_t caller;        /* which helps, and would hang for ever */
    _Atomic int interrupted; /* the n-th call from now on is, as by Ctrl-C; of a loader with one thread */
    _Atomic bool hangs;      /* until the call is cancelled */
    _Atomic uint64_t calls, samples, most, hung, cancelled;
};

static int put(struct leat_values *out, size_t f, size_t i, size_t which, uint64_t id, uint64_t large)
{
    uint8_t bytes[100];
    const int64_t y = (int64_t)id;
    if (which == 1)
        return leat_values_put(out, f, i, &y, sizeof y);
    if (which == 2 && large) {
        void *t = leat_values_room(out, f, i, large);
        return t ? (memset(t, (int)id, large), LEAT_OK) : LEAT_E_NOMEM;
    }
    const size_t length = which ? leat_draw_below(2, id, 100) : 24;
    test_bytes(bytes, length, id, which ? 3 : 1);
    return leat_values_put(out, f, i, bytes, length);
}

static int compute(void *user, const size_t *which, size_t n_fields, const uint64_t *samples, size_t n,
                   struct leat_values *out, size_t *failed, struct leat_error *error)
{
    struct computer *c = user;
    c->calls++;
    c->samples += n;
    for (uint64_t most = c->most; most < n && !atomic_compare_exchange_weak(&c->most, &most, n);)
        ;
    if (c->interrupted && c->interrupted-- == 1)
        return leat_fail(error, LEAT_E_CANCELLED, "it was interrupted");
    const bool hangs = c->hangs && !pthread_equal(pthread_self(), c->caller);
    c->hung += hangs;
    while (hangs)
        if (leat_values_cancelled(out)) {
            c->cancelled++;
            return leat_fail(error, LEAT_E_CANCELLED, "nobody wants it");
        }
    for (size_t i = 0; i < n; i++) {
        *failed = i;
        if (samples[i] == c->bad)
            return leat_fail(error, LEAT_E_DECODE, "sample %d cannot be computed", (int)samples[i]);
        for (size_t f = 0; f < n_fields; f++)
            if (put(out, f, i, which[f], c->first + samples[i], c->large))
                return leat_fail(error, LEAT_E_NOMEM, "no memory for a value");
    }
    return LEAT_OK;
}

static struct leat_dataset *computed(struct computer *c, size_t n_fields, uint64_t n, bool many)
{
    struct leat_dataset *d;
    struct leat_error error;
    assert_ok(leat_dataset_from_source(test_fields, n_fields, n, "1", compute, NULL, c, &d, &error));
    if (many)
        assert_ok(leat_dataset_ask_many(d, &error));
    return d;
}

static uint64_t hash_of(struct leat_dataset *d, const struct leat_loader_options *options)
{
    struct leat_loader *loader = test_loader(d, options);
    const uint64_t hash = test_hash_epochs(loader, 1);
    leat_loader_close(loader);
    return hash;
}

static struct leat_loader_options one_epoch(void)
{
    struct leat_loader_options options = test_options(BATCH);
    options.epochs = 1;
    return options;
}

TEST(samples_of_several_batches_are_asked_for_at_once_and_each_once)
{
    for (size_t n_fields = 2; n_fields <= 3; n_fields++)
        for (unsigned threads = 1; threads <= 3; threads++) {
            struct computer plain = {.bad = UINT64_MAX}, many = plain;
            struct leat_dataset *d = computed(&plain, n_fields, N, false), *e = computed(&many, n_fields, N, true);
            struct leat_loader_options options = one_epoch();
            options.num_threads = threads;
            assert_int_equal(hash_of(d, &options), hash_of(e, &options));
            assert_int_equal(many.samples, N + (n_fields == 3 ? 8 : 0)); /* which opening looks at for lengths */
            assert_true(many.calls < N / BATCH / 2 && many.most > BATCH && many.most <= MOST);
            leat_dataset_release(d);
            leat_dataset_release(e);
        }
}

TEST(batches_that_are_larger_than_a_call_are_asked_for_in_parts)
{
    struct computer plain = {.bad = UINT64_MAX}, many = plain;
    struct leat_dataset *d = computed(&plain, 2, N, false), *e = computed(&many, 2, N, true);
    struct leat_loader_options options = one_epoch();
    options.batch_size = 1500;
    assert_int_equal(hash_of(d, &options), hash_of(e, &options));
    assert_int_equal(many.samples, N);
    assert_true(many.most <= MOST);
    leat_dataset_release(d);
    leat_dataset_release(e);
}

TEST(rows_that_may_come_in_any_order_are_asked_for_as_well)
{
    for (size_t n_fields = 2; n_fields <= 3; n_fields++) {
        struct computer c = {.bad = UINT64_MAX};
        struct leat_dataset *d = computed(&c, n_fields, N, true);
        struct leat_loader_options options = one_epoch();
        options.in_order = false;
        struct leat_loader *loader = test_loader(d, &options);
        const uint64_t iteration = test_start(loader);
        uint64_t rows = 0;
        for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b)) {
            test_check_batch(b);
            rows += leat_batch_rows(b);
        }
        assert_int_equal(rows, N);
        assert_int_equal(c.samples, N + (n_fields == 3 ? 8 : 0));
        assert_true(c.calls < N / BATCH);
        leat_loader_close(loader);
        leat_dataset_release(d);
    }
}

TEST(a_call_is_for_one_source)
{
    struct computer computers[5];
    struct leat_dataset *parts[5], *d;
    struct leat_error error;
    uint64_t calls = 0, samples = 0, rows = 0;
    for (size_t i = 0; i < 5; i++) {
        computers[i] = (struct computer){.first = i * N / 5, .bad = UINT64_MAX};
        parts[i] = computed(&computers[i], 2, N / 5, i != 3); /* one asks for few */
    }
    assert_ok(leat_dataset_concat(parts, 5, &d, &error));
    const struct leat_loader_options options = one_epoch();
    struct leat_loader *loader = test_loader(d, &options);
    const uint64_t iteration = test_start(loader);
    for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b)) {
        test_check_batch(b);
        rows += leat_batch_rows(b);
    }
    leat_loader_close(loader);
    leat_dataset_release(d);
    for (size_t i = 0; i < 5; i++) {
        calls += i != 3 ? computers[i].calls : 0;
        samples += computers[i].samples;
        leat_dataset_release(parts[i]);
    }
    assert_int_equal(rows, N);
    assert_int_equal(samples, N);
    assert_true(calls < N / BATCH); /* of four sources */
}

TEST(a_broken_sample_is_that_of_its_batch_alone)
{
    for (size_t n_fields = 2; n_fields <= 3; n_fields++)
        for (int policy = LEAT_ON_ERROR_RAISE; policy <= LEAT_ON_ERROR_SUBSTITUTE; policy++) {
            struct computer plain = {.bad = BAD}, many = plain;
            struct leat_dataset *both[] = {computed(&plain, n_fields, N, false), computed(&many, n_fields, N, true)};
            struct leat_loader_options options = one_epoch();
            uint64_t hashes[2] = {0}, raised[2] = {0}, rows[2] = {0};
            options.on_error = (enum leat_on_error)policy;
            for (int k = 0; k < 2 && !(n_fields == 3 && policy == LEAT_ON_ERROR_SUBSTITUTE); k++) {
                struct leat_loader *loader = test_loader(both[k], &options);
                const uint64_t iteration = test_start(loader);
                struct leat_error error;
                struct leat_batch *b;
                int rc;
                while (!(rc = leat_loader_next(loader, iteration, TEST_HANG_MS, &b, &error)) && ++raised[k]) {
                    hashes[k] = leat_key_mix(hashes[k], test_hash_batch(b));
                    rows[k] += leat_batch_rows(b);
                    test_check_batch(b);
                    leat_batch_free(b);
                }
                assert_int_equal(rc, policy == LEAT_ON_ERROR_RAISE ? LEAT_E_DECODE : LEAT_E_END);
                if (policy == LEAT_ON_ERROR_RAISE)
                    assert_int_equal(error.sample, BAD);
                leat_loader_close(loader);
            }
            assert_int_equal(hashes[0], hashes[1]);
            assert_int_equal(raised[0], raised[1]);
            assert_int_equal(rows[0], rows[1]);
            leat_dataset_release(both[0]);
            leat_dataset_release(both[1]);
        }
}

TEST(large_values_are_not_computed_far_ahead)
{
    struct computer c = {.bad = UINT64_MAX, .large = 100 << 10};
    struct leat_dataset *d = computed(&c, 3, 200, true);
    struct leat_loader_options options = one_epoch();
    options.batch_size = 4;
    options.budget_bytes = 8 << 20;
    struct leat_loader *loader = test_loader(d, &options);
    const uint64_t iteration = test_start(loader);
    uint64_t rows = 0;
    for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b))
        rows += leat_batch_rows(b);
    assert_int_equal(rows, 200);
    assert_true(c.most <= 16);
    leat_loader_close(loader);
    leat_dataset_release(d);
}

TEST(a_call_that_was_interrupted_loses_nothing)
{
    for (size_t n_fields = 2; n_fields <= 3; n_fields++)
        for (int call = 1; call < 30; call++) {
            struct computer c = {.bad = UINT64_MAX};
            struct leat_dataset *d = computed(&c, n_fields, N, true);
            struct leat_loader_options options = one_epoch();
            options.num_threads = 1;
            options.budget_bytes = 1 << 20; /* buffers of a batch are used again */
            struct leat_loader *loader = test_loader(d, &options);
            const uint64_t iteration = test_start(loader);
            uint64_t rows = 0, failures = 0;
            struct leat_error error;
            struct leat_batch *b;
            c.interrupted = call;
            for (int rc = LEAT_OK; rc != LEAT_E_END;) {
                rc = leat_loader_next(loader, iteration, TEST_HANG_MS, &b, &error);
                failures += rc == LEAT_E_CANCELLED;
                assert_true(failures < 3 && (!rc || rc == LEAT_E_END || rc == LEAT_E_CANCELLED));
                if (rc)
                    continue;
                test_check_batch(b);
                rows += leat_batch_rows(b);
                leat_batch_free(b);
            }
            assert_int_equal(rows, N);
            leat_loader_close(loader);
            leat_dataset_release(d);
        }
}

TEST(a_call_that_nobody_wants_any_more_is_cancelled)
{
    struct computer c = {.bad = UINT64_MAX, .caller = pthread_self()};
    struct leat_dataset *d = computed(&c, 2, N, true);
    struct leat_loader_options options = one_epoch();
    c.hangs = true;
    struct leat_loader *first = test_loader(d, &options);
    test_start(first);
    while (!c.hung) /* a thread makes batches ahead */
        usleep(1000);
    leat_loader_close(first);
    assert_int_equal(c.cancelled, c.hung);
    c.hangs = false;
    for (int times = 0; times < 20; times++) { /* and wherever a call happens to be */
        struct leat_loader *loader = test_loader(d, &options);
        const uint64_t iteration = test_start(loader);
        for (int i = 0; i < times; i++)
            leat_batch_free(test_next(loader, iteration));
        c.hangs = true;
        struct leat_error error;
        struct leat_batch *b;
        int rc = LEAT_OK;
        while (!rc && !(rc = leat_loader_next(loader, iteration, 5, &b, &error)))
            leat_batch_free(b);
        assert_true(rc == LEAT_E_TIMEOUT || rc == LEAT_E_END);
        leat_loader_close(loader); /* else this would hang */
        c.hangs = false;
    }
    assert_int_equal(c.cancelled, c.hung);
    leat_dataset_release(d);
}

/* ---- chunks that do not fit in the cache ----------------------------------------------------- */

enum { CHUNKS = 40, CHUNK_ROWS = N / CHUNKS };

static int decode(void *user, const size_t *which, size_t n_fields, uint64_t chunk, struct leat_chunk *out,
                  struct leat_error *error)
{
    struct computer *c = user;
    uint8_t values[CHUNK_ROWS * 24];
    int rc = LEAT_OK;
    c->calls++;
    for (size_t f = 0; f < n_fields && !rc; f++) {
        for (uint64_t i = 0; i < CHUNK_ROWS; i++) {
            const uint64_t id = chunk * CHUNK_ROWS + i;
            if (which[f] == 1)
                memcpy(values + i * 8, &id, 8);
            else
                test_bytes(values + i * 24, 24, id, 1);
        }
        rc = leat_chunk_put(out, f, values, CHUNK_ROWS * (which[f] == 1 ? 8 : 24), NULL, 0, NULL);
    }
    return rc;
}

TEST(chunks_that_do_not_fit_in_the_cache_are_decoded_for_many_samples)
{
    struct computer c = {.bad = UINT64_MAX}, plain = c;
    uint64_t rows[CHUNKS];
    struct leat_dataset *d, *e = computed(&plain, 2, N, false);
    struct leat_error error;
    for (size_t i = 0; i < CHUNKS; i++)
        rows[i] = CHUNK_ROWS;
    assert_ok(leat_dataset_from_chunks(test_fields, 2, rows, CHUNKS, "1", decode, compute, NULL, &c, &d, &error));
    const struct leat_loader_options options = one_epoch();
    hash_of(d, &options); /* the first epoch shows that the cache is too small */
    c.calls = 0;
    assert_int_equal(hash_of(d, &options), hash_of(e, &options));
    assert_true(c.calls >= CHUNKS && c.calls < 600); /* batch by batch 1,600: each has samples of 13 chunks */
    leat_dataset_release(d);
    leat_dataset_release(e);
}

TEST(a_position_in_mid_epoch_goes_on_with_the_same_rows)
{
    struct computer c = {.bad = UINT64_MAX};
    struct leat_dataset *d = computed(&c, 3, N, true);
    const struct leat_loader_options options = one_epoch();
    uint64_t hashes[N / BATCH], n = 0;
    struct leat_loader *loader = test_loader(d, &options);
    struct leat_error error;
    uint64_t iteration = test_start(loader);
    char *states[N / BATCH];
    for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b), n++) {
        hashes[n] = test_hash_batch(b);
        assert_ok(leat_loader_state(loader, &states[n], &error));
    }
    assert_int_equal(n, N / BATCH);
    for (uint64_t k = 0; k + 1 < n; k += 7) { /* back and forth, with batches that are under way */
        const uint64_t at = k * 31 % (n - 1);
        assert_ok(leat_loader_load_state(loader, states[at], &error));
        iteration = test_start(loader);
        for (uint64_t i = at + 1; i < n && i < at + 6; i++) {
            struct leat_batch *b = test_next(loader, iteration);
            assert_int_equal(test_hash_batch(b), hashes[i]);
            leat_batch_free(b);
        }
    }
    for (uint64_t k = 0; k < n; k++)
        leat_free(states[k]);
    leat_loader_close(loader);
    leat_dataset_release(d);
}

TEST(when_any_one_allocation_fails_an_error_says_so_and_nothing_is_lost)
{
    struct computer c = {.bad = UINT64_MAX};
    struct leat_dataset *d = computed(&c, 3, 300, true);
    struct leat_loader_options options = one_epoch();
    uint64_t expected = 0, failed = 0;
    fail_allocation(INT64_MAX); /* once for all: threads of the engine use it */
    for (int64_t n = -1; n < 300; n++) {
        struct leat_error error;
        struct leat_loader *loader;
        uint64_t iteration, hash = 0, rows = 0;
        atomic_store(&allocations_left, n < 0 ? INT64_MAX : n);
        int rc = leat_loader_open(d, &options, &loader, &error);
        failed += rc == LEAT_E_NOMEM;
        if (rc) {
            assert_int_equal(rc, LEAT_E_NOMEM);
            continue;
        }
        for (rc = leat_loader_start(loader, &iteration, &error); !rc || rc == LEAT_E_NOMEM;) {
            struct leat_batch *b;
            rc = leat_loader_next(loader, iteration, TEST_HANG_MS, &b, &error);
            failed += rc == LEAT_E_NOMEM;
            if (rc)
                continue;
            hash = leat_key_mix(hash, test_hash_batch(b));
            rows += leat_batch_rows(b);
            leat_batch_free(b);
        }
        assert_int_equal(rc, LEAT_E_END);
        assert_int_equal(rows, 300);
        expected = n < 0 ? hash : expected;
        assert_int_equal(hash, expected);
        leat_loader_close(loader);
    }
    assert_true(failed > 20);
    atomic_store(&allocations_left, INT64_MAX);
    allocation_failed();
    leat_dataset_release(d);
}

/* Before the cache looks at it. */
__attribute__((constructor)) static void set_cache(void)
{
    setenv("LEAT_CACHE_BYTES", "8192", 1);
}

TEST_MAIN_IN(NULL, test_clean)
