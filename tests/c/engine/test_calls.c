/*
 * Functions of a program, run by an executor (engine/executor.h). This one is two threads and a queue, in this process
 * and at the loader's own addresses, so that the sanitizers see both sides of every row. Some of its calls are kept
 * until the test lets them go: what is late is decided by the test and by no clock.
 */
#include <pthread.h>

#include "base/error.h"
#include "engine/executor.h"
#include "engine/loader.h"
#include "support.h"

enum { SAMPLES = 200, BATCH = 16, THREADS = 2, NEVER = 10 };
enum { X, X_OF, LENGTHS_OF, Y, Z, SUM_OF, Z_OF }; /* outputs of the program; X, Z and SUM_OF are hidden */

#define ROWS                                                                                                           \
    "\"x\": {\"field\": \"x\", \"chain\": [], \"calls\": [{\"segment\": 1, \"kind\": 1, \"dtype\": \"uint64\", "       \
    "\"shape\": [3]}]}, \"lengths\": {\"input\": \"x\", \"calls\": [{\"segment\": 1, \"kind\": 1, \"dtype\": "         \
    "\"int32\", \"shape\": [null]}]}, \"y\": {\"field\": \"y\", \"chain\": []}"
#define LATER_SEGMENTS                                                                                                 \
    "\"z\": {\"field\": \"y\", \"chain\": [], \"calls\": [{\"segment\": 2, \"kind\": 1, \"dtype\": \"int64\", "        \
    "\"shape\": []}, {\"segment\": 3, \"kind\": 1, \"dtype\": \"int64\", \"shape\": []}]}"
static const char *const by_rows = "{\"operators\": {}, \"outputs\": {" ROWS "}}";
static const char *const all_segments = "{\"operators\": {}, \"outputs\": {" ROWS ", " LATER_SEGMENTS "}}";

/* ---- the executor ---------------------------------------------------------------------------- */

struct executor {
    struct leat_executor face;
    pthread_mutex_t lock;
    pthread_cond_t news;
    pthread_t threads[THREADS];
    struct leat_call *queue, *kept; /* linked by their handles */
    uint8_t *memory;                /* the loader's region */
    bool at_once;                   /* calls are done inside of start */
    bool slow_to_cancel;            /* calls that are cancelled are run all the same */
    bool ended;
    unsigned keep;                           /* every so many calls are kept; 0: none */
    int64_t fails[4];                        /* rows of ids ending in this digit fail, by segment */
    uint64_t n_started, n_done, n_cancelled; /* under the lock */
};

static void *area(const struct executor *e, const struct leat_call *call, size_t output)
{
    return e->memory + call->areas[output].offset;
}

/* A hash over the input, what functions draw by, and the id; and id % 7 numbers from 10 * id on. */
static void run_row(const struct executor *e, struct leat_call *call, uint64_t i)
{
    const uint8_t *x = area(e, call, X);
    uint64_t row = call->places[i], *to = (uint64_t *)area(e, call, X_OF) + 3 * row;
    int32_t numbers[7];
    to[0] = leat_hash64(x + 24 * row, 24);
    to[1] = call->draws[i];
    to[2] = (uint64_t)call->ids[i];
    for (int32_t k = 0; k < 7; k++)
        numbers[k] = (int32_t)call->ids[i] * 10 + k;
    leat_call_result(call, i, LENGTHS_OF, numbers, (uint64_t)call->ids[i] % 7 * sizeof *numbers);
}

static void run_call(struct executor *e, struct leat_call *call)
{
    int64_t sum = 0;
    assert_int_equal(call->units, call->segment == 2);
    for (uint64_t i = 0; i < call->n; i++) {
        if (call->ids[i] % 10 == e->fails[call->segment]) {
            leat_call_row_failed(call, i, LEAT_E_OPERATOR, "the function does not like it");
            leat_call_row_failed(call, i, LEAT_E_DECODE, "a second reason");
            continue;
        }
        uint64_t row = call->places[i];
        if (call->segment == 1)
            run_row(e, call, i);
        else if (call->segment == 2)
            sum += ((int64_t *)area(e, call, Z))[row];
        else
            ((int64_t *)area(e, call, Z_OF))[row] = ((int64_t *)area(e, call, SUM_OF))[row] + 1;
    }
    for (uint64_t i = 0; call->segment == 2 && i < call->n; i++)
        ((int64_t *)area(e, call, SUM_OF))[call->places[i]] = ((int64_t *)area(e, call, Z))[call->places[i]] + sum;
    pthread_mutex_lock(&e->lock);
    e->n_done++;
    pthread_mutex_unlock(&e->lock);
    leat_call_done(call);
}

static struct leat_call *take(struct leat_call **list, const struct leat_call *wanted)
{
    struct leat_call *before = NULL, *call = *list;
    for (; call && wanted && call != wanted; call = call->handle)
        before = call;
    if (call && before)
        before->handle = call->handle;
    else if (call)
        *list = call->handle;
    return call;
}

static void put(struct leat_call **list, struct leat_call *call)
{
    call->handle = *list;
    *list = call;
}

static void *run_calls(void *user)
{
    struct executor *e = user;
    pthread_mutex_lock(&e->lock);
    while (!e->ended || e->queue) {
        struct leat_call *call = take(&e->queue, NULL);
        if (!call) {
            pthread_cond_wait(&e->news, &e->lock);
            continue;
        }
        pthread_mutex_unlock(&e->lock);
        run_call(e, call);
        pthread_mutex_lock(&e->lock);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

static void start(struct leat_executor *face, struct leat_call *call)
{
    struct executor *e = (struct executor *)(void *)face;
    pthread_mutex_lock(&e->lock);
    bool kept = e->keep && e->n_started % e->keep == 0, now = e->at_once && !kept;
    e->n_started++;
    if (!now)
        put(kept ? &e->kept : &e->queue, call);
    pthread_cond_broadcast(&e->news);
    pthread_mutex_unlock(&e->lock);
    if (now)
        run_call(e, call);
}

static void cancel(struct leat_executor *face, struct leat_call *call)
{
    struct executor *e = (struct executor *)(void *)face;
    pthread_mutex_lock(&e->lock);
    bool found = take(&e->kept, call) || take(&e->queue, call);
    e->n_cancelled++;
    if (found && e->slow_to_cancel) {
        put(&e->queue, call);
        pthread_cond_broadcast(&e->news);
        found = false;
    }
    e->n_done += found;
    pthread_mutex_unlock(&e->lock);
    if (found)
        leat_call_done(call);
}

static uint64_t run(struct leat_executor *face)
{
    return 4;
}

static void begin(struct executor *e)
{
    *e = (struct executor){.face = {start, cancel, run}, .fails = {NEVER, NEVER, NEVER, NEVER}};
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->news, NULL);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&e->threads[i], NULL, run_calls, e), 0);
}

/* Every call was done, also those of loaders that were closed. */
static void end(struct executor *e)
{
    pthread_mutex_lock(&e->lock);
    e->ended = true;
    pthread_cond_broadcast(&e->news);
    pthread_mutex_unlock(&e->lock);
    for (int i = 0; i < THREADS; i++)
        pthread_join(e->threads[i], NULL);
    assert_null(e->kept);
    assert_true(e->n_started > 0);
    assert_int_equal(e->n_done, e->n_started);
    pthread_cond_destroy(&e->news);
    pthread_mutex_destroy(&e->lock);
}

/* That of the first batch. */
static bool let_one_go(struct executor *e)
{
    pthread_mutex_lock(&e->lock);
    struct leat_call *call = e->kept;
    for (struct leat_call *other = call; other; other = other->handle)
        if (other->epoch < call->epoch || (other->epoch == call->epoch && other->step < call->step))
            call = other;
    call = call ? take(&e->kept, call) : NULL;
    if (call)
        put(&e->queue, call);
    pthread_cond_broadcast(&e->news);
    pthread_mutex_unlock(&e->lock);
    return call;
}

static void wait_for_a_kept_one(struct executor *e)
{
    pthread_mutex_lock(&e->lock);
    while (!e->kept)
        pthread_cond_wait(&e->news, &e->lock);
    pthread_mutex_unlock(&e->lock);
}

/* ---- loaders --------------------------------------------------------------------------------- */

static struct leat_loader_options options_of(struct executor *e, const char *program)
{
    struct leat_loader_options options = test_options(BATCH);
    options.program = program;
    options.executor = &e->face;
    options.tail = LEAT_TAIL_UNEVEN;
    return options;
}

static struct leat_loader *open_loader(struct leat_dataset *dataset, struct executor *e,
                                       const struct leat_loader_options *options)
{
    struct leat_loader *loader = test_loader(dataset, options);
    e->memory = loader->pool.region.base;
    return loader;
}

/* The next batch; where nothing comes of itself, one call that is kept after the other is let go. NULL at the end. */
static struct leat_batch *next(struct leat_consumer *consumer, struct executor *e, uint64_t iteration)
{
    struct leat_error error;
    struct leat_batch *batch;
    for (int patience = 100000; patience;) {
        int rc = leat_consumer_next(consumer, iteration, 2, &batch, &error);
        if (rc == LEAT_OK || rc == LEAT_E_END)
            return batch;
        if (rc != LEAT_E_TIMEOUT)
            fail_msg("next: %s: %s", leat_status_name(rc), error.message);
        patience -= !let_one_go(e);
    }
    fail_msg("nothing is kept, and no batch comes");
    return NULL;
}

static bool is_substitute(const struct leat_batch *b, uint64_t row)
{
    struct leat_row_error e;
    for (size_t i = 0; i < leat_batch_errors(b); i++)
        if (!leat_batch_error(b, i, &e) && e.row == row && e.delivered >= 0)
            return true;
    return false;
}

/* Each row is what the functions make of its sample; `sums`: and the batch is as it was planned. */
static void check(const struct leat_batch *b, bool sums, uint32_t counts[SAMPLES])
{
    struct leat_tensor x, lengths, y, z;
    uint64_t rows = leat_batch_rows(b);
    int64_t sum = 0;
    assert_int_equal(leat_batch_tensor(b, X_OF, &x), LEAT_OK);
    assert_int_equal(leat_batch_tensor(b, LENGTHS_OF, &lengths), LEAT_OK);
    assert_int_equal(leat_batch_tensor(b, Y, &y), LEAT_OK);
    for (uint64_t row = 0; row < rows; row++) {
        int64_t id = leat_batch_ids(b)[row], from = lengths.offsets[row];
        const uint64_t *made = (uint64_t *)x.data + 3 * row;
        uint8_t bytes[24];
        test_bytes(bytes, sizeof bytes, (uint64_t)id, 1);
        assert_int_equal(made[0], leat_hash64(bytes, sizeof bytes));
        assert_int_equal(made[1] == leat_batch_row_keys(b)[row], !is_substitute(b, row));
        assert_int_equal(made[2], id);
        assert_int_equal(lengths.offsets[row + 1] - from, id % 7);
        for (int64_t k = 0; k < id % 7; k++)
            assert_int_equal(((int32_t *)lengths.data)[from + k], id * 10 + k);
        assert_int_equal(((int64_t *)y.data)[row], id);
        sum += id;
        if (counts)
            counts[id]++;
    }
    if (!sums)
        return;
    assert_int_equal(leat_batch_tensor(b, Z_OF, &z), LEAT_OK);
    for (uint64_t row = 0; row < rows; row++)
        assert_int_equal(((int64_t *)z.data)[row], leat_batch_ids(b)[row] + sum + 1);
}

static void assert_each_once(const uint32_t counts[SAMPLES])
{
    for (int i = 0; i < SAMPLES; i++)
        assert_int_equal(counts[i], 1);
}

/* ---- the tests ------------------------------------------------------------------------------- */

TEST(rows_are_the_same_whenever_calls_are_done)
{
    struct leat_dataset *dataset = test_dataset("numbers", SAMPLES, false);
    uint64_t expected = 0;
    for (unsigned kind = 0; kind < 4; kind++) { /* at once; on other threads; some of them kept, in either case */
        struct executor e;
        struct leat_error error;
        begin(&e);
        e.at_once = kind % 2 == 0;
        e.keep = kind < 2 ? 0 : 5;
        struct leat_loader_options options = options_of(&e, all_segments);
        struct leat_loader *loader = open_loader(dataset, &e, &options);
        uint64_t hash = 0;
        for (uint64_t epoch = 0; epoch < 2; epoch++) {
            uint32_t counts[SAMPLES] = {0};
            uint64_t iteration = test_start(loader), step = 0;
            for (struct leat_batch *b; (b = next(leat_loader_consumer(loader), &e, iteration)); leat_batch_free(b)) {
                assert_int_equal(leat_batch_step(b), step++);
                check(b, true, counts);
                hash = leat_key_mix(hash, leat_hash64(leat_batch_row_keys(b), 8 * leat_batch_rows(b)));
            }
            assert_each_once(counts);
        }
        expected = kind ? expected : hash;
        assert_int_equal(hash, expected);
        if (!e.keep) {
            struct leat_batch *b;
            assert_ok(leat_loader_batch_at(loader, 0, 3, &b, &error));
            check(b, true, NULL);
            leat_batch_free(b);
        }
        leat_loader_close(loader);
        end(&e);
    }
    leat_dataset_release(dataset);
}

TEST(rows_that_fail_are_raised_skipped_or_substituted)
{
    struct leat_dataset *dataset = test_dataset("numbers", SAMPLES, false);
    for (int on_error = LEAT_ON_ERROR_SKIP; on_error <= LEAT_ON_ERROR_SUBSTITUTE; on_error++) {
        bool skips = on_error == LEAT_ON_ERROR_SKIP;
        for (unsigned kind = 0; kind < 3; kind++) {
            struct executor e;
            begin(&e);
            e.at_once = kind == 0;
            e.keep = kind == 2 ? 5 : 0;
            e.fails[1] = 7;
            e.fails[3] =
                skips ? NEVER : 3; /* after a function has seen the batch: what was replaced goes through all */
            struct leat_loader_options options = options_of(&e, all_segments);
            options.on_error = (enum leat_on_error)on_error;
            struct leat_loader *loader = open_loader(dataset, &e, &options);
            uint64_t iteration = test_start(loader), rows = 0, errors = 0;
            for (struct leat_batch *b; (b = next(leat_loader_consumer(loader), &e, iteration)); leat_batch_free(b)) {
                check(b, true, NULL);
                rows += leat_batch_rows(b);
                errors += leat_batch_errors(b);
                for (size_t i = 0; i < leat_batch_errors(b); i++) {
                    struct leat_row_error row;
                    leat_batch_error(b, i, &row);
                    assert_true(row.planned % 10 == e.fails[1] || row.planned % 10 == e.fails[3]);
                    assert_true(skips ? row.delivered == -1
                                      : row.delivered % 10 != e.fails[1] && row.delivered % 10 != e.fails[3]);
                    assert_non_null(strstr(row.reason, "the function does not like it"));
                }
            }
            assert_int_equal(errors, skips ? SAMPLES / 10 : 2 * SAMPLES / 10);
            assert_int_equal(rows, SAMPLES - (skips ? errors : 0));
            leat_loader_close(loader);
            end(&e);
        }
    }
    leat_dataset_release(dataset);
}

TEST(raise_names_the_sample_and_calls_again_when_asked_again)
{
    struct leat_dataset *dataset = test_dataset("numbers", SAMPLES, false);
    for (unsigned segment = 1; segment <= 3; segment++) {
        struct executor e;
        struct leat_error error;
        struct leat_batch *b;
        begin(&e);
        e.fails[segment] = 7;
        struct leat_loader_options options = options_of(&e, all_segments);
        options.order = LEAT_ORDER_SEQUENTIAL;
        struct leat_loader *loader = open_loader(dataset, &e, &options);
        uint64_t iteration = test_start(loader);
        for (int again = 0; again < 3; again++) {
            assert_int_equal(leat_loader_next(loader, iteration, -1, &b, &error), LEAT_E_OPERATOR);
            assert_int_equal(error.sample, segment == 2 ? LEAT_NO_SAMPLE : 7); /* the batch failed, as a whole */
            assert_non_null(strstr(error.message, "the function does not like it"));
        }
        leat_loader_close(loader);
        end(&e);
    }
    leat_dataset_release(dataset);
}

TEST(calls_in_flight_are_cancelled_by_a_state_and_by_closing)
{
    struct leat_dataset *dataset = test_dataset("numbers", SAMPLES, false);
    for (unsigned kind = 0; kind < 8; kind++) {
        struct executor e;
        struct leat_error error;
        struct leat_batch *held = NULL;
        char *json;
        begin(&e);
        e.keep = kind % 2 ? 3 : 1;
        e.slow_to_cancel = kind & 2;
        e.fails[1] = kind & 4 ? 7 : NEVER;
        struct leat_loader_options options = options_of(&e, all_segments);
        options.on_error = LEAT_ON_ERROR_SUBSTITUTE;
        struct leat_loader *loader = open_loader(dataset, &e, &options);
        struct leat_consumer *consumer = leat_loader_consumer(loader);
        uint64_t iteration = test_start(loader);
        assert_ok(leat_loader_state(loader, &json, &error));
        for (int again = 0; again < 5; again++) {
            for (int i = 0; i < again; i++) {
                leat_batch_free(held);
                held = next(consumer, &e, iteration);
                check(held, true, NULL);
            }
            wait_for_a_kept_one(&e);
            assert_ok(leat_loader_load_state(loader, json, &error));
            iteration = test_start(loader);
        }
        uint64_t rows = 0;
        for (struct leat_batch *b; (b = next(consumer, &e, iteration)); leat_batch_free(b)) {
            check(b, true, NULL);
            rows += leat_batch_rows(b);
        }
        assert_int_equal(rows, SAMPLES);
        leat_free(json);
        iteration = test_start(loader);
        leat_batch_free(next(consumer, &e, iteration));
        wait_for_a_kept_one(&e);
        leat_loader_close(loader);
        check(held, true, NULL);
        leat_batch_free(held);
        end(&e);
        assert_true(e.n_cancelled >= 5);
    }
    leat_dataset_release(dataset);
}

TEST(without_an_order_each_row_comes_once_whatever_is_kept)
{
    struct leat_dataset *dataset = test_dataset("numbers", SAMPLES, false);
    for (unsigned kind = 0; kind < 3; kind++) {
        struct executor e;
        begin(&e);
        e.at_once = kind == 1;
        e.keep = 7;
        e.fails[1] = kind == 2 ? 7 : NEVER;
        struct leat_loader_options options = options_of(&e, by_rows);
        options.in_order = false;
        options.on_error = LEAT_ON_ERROR_SKIP;
        struct leat_loader *loader = open_loader(dataset, &e, &options);
        for (int epoch = 0; epoch < 3; epoch++) {
            uint32_t counts[SAMPLES] = {0};
            uint64_t iteration = test_start(loader);
            for (struct leat_batch *b; (b = next(leat_loader_consumer(loader), &e, iteration)); leat_batch_free(b))
                check(b, false, counts);
            for (int i = 0; i < SAMPLES; i++)
                assert_int_equal(counts[i], i % 10 != e.fails[1]);
        }
        test_start(loader); /* and closed in the middle */
        leat_loader_close(loader);
        end(&e);
    }
    leat_dataset_release(dataset);
}

struct reader {
    struct leat_consumer *consumer;
    struct executor *e;
    uint32_t counts[SAMPLES];
};

static void *read_epoch(void *user)
{
    struct reader *r = user;
    struct leat_error error;
    uint64_t iteration;
    assert_ok(leat_consumer_start(r->consumer, &iteration, &error));
    for (struct leat_batch *b; (b = next(r->consumer, r->e, iteration)); leat_batch_free(b))
        check(b, false, r->counts);
    return NULL;
}

TEST(two_consumers_get_every_row_of_the_same_calls)
{
    struct leat_dataset *dataset = test_dataset("numbers", SAMPLES, false);
    for (unsigned keep = 0; keep < 6; keep += 5) {
        struct executor e;
        struct leat_error error;
        pthread_t thread;
        begin(&e);
        e.keep = keep;
        struct leat_loader_options options = options_of(&e, by_rows);
        struct leat_loader *loader = open_loader(dataset, &e, &options);
        struct reader own = {leat_loader_consumer(loader), &e, {0}}, other = {NULL, &e, {0}};
        assert_ok(leat_consumer_open(loader, 7, true, &other.consumer, &error));
        assert_int_equal(pthread_create(&thread, NULL, read_epoch, &other), 0);
        read_epoch(&own);
        pthread_join(thread, NULL);
        assert_each_once(own.counts);
        assert_each_once(other.counts);
        leat_consumer_close(other.consumer);
        leat_loader_close(loader);
        end(&e);
    }
    leat_dataset_release(dataset);
}

TEST_MAIN_IN(NULL, test_clean)
