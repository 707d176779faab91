/* A port and those who attach to it, in one process, each in a thread of its own. Meant for the sanitizers, too. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../engine/support.h"
#include "base/ledger.h"
#include "port/published.h"

enum { SAMPLES = 203, BATCH = 16, EPOCHS = 2 };

/* One reader, and what a loader of its own gives. */
struct reader {
    uint64_t batch_size;
    uint32_t rank, world_size;
    enum leat_tail tail;
    bool writable;
    unsigned pause_us;
    const char *outputs; /* of its own; NULL: the port's */
    struct leat_dataset *dataset;
    pthread_barrier_t *attached; /* nobody reads before all are: "the beginning" is that of the epoch that is read */
    uint64_t batches;
    char failed[300];
};

static char sockets[128]; /* the folder */

static struct leat_loader_options served(void)
{
    struct leat_loader_options options = test_options(BATCH);
    options.order = LEAT_ORDER_SHUFFLED;
    options.seed = 5;
    options.region = 1;
    options.tail = LEAT_TAIL_UNEVEN;
    options.max_held_bytes = 64 << 20;
    return options;
}

static struct leat_port *open_port(struct leat_loader *loader)
{
    struct leat_port_options options = LEAT_PORT_OPTIONS_INIT;
    struct leat_error error;
    struct leat_port *port;
    options.name = "p";
    options.folder = sockets;
    assert_ok(leat_port_open(loader, &options, &port, &error));
    return port;
}

static struct leat_attach_options attaching(const struct reader *r)
{
    struct leat_attach_options options = LEAT_ATTACH_OPTIONS_INIT;
    options.name = "p";
    options.folder = sockets;
    options.batch_size = r->batch_size;
    options.rank = r->rank;
    options.world_size = r->world_size;
    options.tail = r->tail;
    options.writable = r->writable;
    options.beginning = true;
    options.outputs = r->outputs;
    return options;
}

static struct leat_loader *own_loader(const struct reader *r)
{
    struct leat_loader_options options = test_options(r->batch_size);
    options.order = LEAT_ORDER_SHUFFLED;
    options.seed = 5;
    options.rank = r->rank;
    options.world_size = r->world_size;
    options.tail = r->tail;
    options.program = r->outputs;
    return test_loader(r->dataset, &options);
}

/* cmocka's checks are for the thread of the test: what fails here is said there. */
static bool expect(struct reader *r, bool right, const char *what, const struct leat_error *error)
{
    if (!right && !*r->failed)
        snprintf(r->failed, sizeof r->failed, "%s (batch %llu): %.200s", what, (unsigned long long)r->batches,
                 error ? error->message : "");
    return right;
}

static void *read_all(void *user)
{
    struct reader *r = user;
    struct leat_attach_options options = attaching(r);
    struct leat_attached *attached = NULL;
    struct leat_error error;
    struct leat_loader *own = own_loader(r);
    const bool there = expect(r, !leat_attach(&options, &attached, &error), "attach", &error);
    pthread_barrier_wait(r->attached);
    if (!there)
        goto out;
    for (int e = 0; e < EPOCHS; e++) {
        uint64_t iteration, other, steps;
        int rc, own_rc;
        if (!expect(r, !leat_consumer_start(leat_attached_consumer(attached), &iteration, &error), "start", &error) ||
            !expect(r, !leat_loader_start(own, &other, &error), "start of its own", &error) ||
            !expect(r,
                    !leat_consumer_steps(leat_attached_consumer(attached), &steps, &error) &&
                        steps == leat_loader_steps(own),
                    "steps", NULL))
            goto out;
        for (;;) {
            struct leat_batch *b, *wanted;
            rc = leat_consumer_next(leat_attached_consumer(attached), iteration, TEST_HANG_MS, &b, &error);
            own_rc = leat_loader_next(own, other, TEST_HANG_MS, &wanted, NULL);
            if (!expect(r, rc == own_rc, "next", &error) || rc)
                break;
            expect(r, test_hash_batch(b) == test_hash_batch(wanted), "hash", NULL);
            struct leat_tensor x;
            if (r->writable && !leat_batch_tensor(b, 0, &x))
                memset(x.data, 0xee, test_tensor_bytes(&x)); /* its own: nobody else sees that */
            leat_batch_free(b);
            leat_batch_free(wanted);
            r->batches++;
            if (r->pause_us)
                usleep(r->pause_us);
        }
        if (!expect(r, rc == LEAT_E_END, "end", &error))
            break;
    }
out:
    leat_attached_close(attached);
    leat_loader_close(own);
    return NULL;
}

#define ONLY_X "{\"operators\": {}, \"outputs\": {\"x\": {\"field\": \"x\", \"chain\": []}}}"
#define CAST_X                                                                                                         \
    "{\"operators\": {\"a\": {\"type\": \"ToDtype\", \"dtype\": \"float32\"}},"                                        \
    " \"outputs\": {\"z\": {\"field\": \"x\", \"chain\": [\"a\"]}}}"

TEST(every_reader_gets_what_a_loader_of_its_own_gives)
{
    for (int text = 0; text < 2; text++) {
        struct leat_dataset *dataset = test_dataset("numbers", SAMPLES, text);
        struct leat_loader_options options = served();
        struct leat_loader *loader = test_loader(dataset, &options);
        struct leat_port *port = open_port(loader);
        struct reader readers[] = {
            {.batch_size = BATCH, .world_size = 1},
            {.batch_size = 5, .world_size = 1, .tail = LEAT_TAIL_DROP, .pause_us = 200},
            {.batch_size = 40, .world_size = 1, .writable = true},
            {.batch_size = 7, .rank = 1, .world_size = 3},
            {.batch_size = 32, .rank = 2, .world_size = 4, .tail = LEAT_TAIL_UNEVEN},
            {.batch_size = 16, .world_size = 1, .writable = true, .tail = LEAT_TAIL_UNEVEN},
            {.batch_size = 16, .world_size = 1, .outputs = ONLY_X},
            {.batch_size = 24, .rank = 1, .world_size = 2, .outputs = ONLY_X, .pause_us = 100},
            {.batch_size = 16, .world_size = 1, .outputs = CAST_X, .writable = true},
        };
        enum { N = sizeof readers / sizeof *readers };
        pthread_t threads[N];
        pthread_barrier_t all;
        assert_int_equal(pthread_barrier_init(&all, NULL, N), 0);
        for (int i = 0; i < N; i++) {
            readers[i].dataset = dataset;
            readers[i].attached = &all;
            assert_int_equal(pthread_create(&threads[i], NULL, read_all, &readers[i]), 0);
        }
        for (int i = 0; i < N; i++)
            pthread_join(threads[i], NULL);
        pthread_barrier_destroy(&all);
        for (int i = 0; i < N; i++) {
            assert_string_equal(readers[i].failed, "");
            assert_true(readers[i].batches > 0);
        }
        leat_port_close(port);
        leat_loader_close(loader);
        leat_dataset_release(dataset);
    }
}

/* Lines come and go while another reader reads. */
static void *come_and_go(void *user)
{
    struct reader *r = user;
    for (int i = 0; i < 20 && !*r->failed; i++) {
        struct leat_attach_options options = attaching(r);
        struct leat_attached *attached;
        struct leat_error error;
        struct leat_batch *b;
        uint64_t iteration;
        options.key = (uint64_t)(i % 3);
        if (!expect(r, !leat_attach(&options, &attached, &error), "attach", &error))
            break;
        if (expect(r, !leat_consumer_start(leat_attached_consumer(attached), &iteration, &error), "start", &error) &&
            expect(r, !leat_consumer_next(leat_attached_consumer(attached), iteration, TEST_HANG_MS, &b, &error),
                   "next", &error)) {
            leat_batch_free(b);
            r->batches++;
        }
        leat_attached_close(attached);
    }
    return NULL;
}

TEST(lines_that_come_and_go_disturb_nobody)
{
    struct leat_dataset *dataset = test_dataset("numbers", SAMPLES, false);
    struct leat_loader_options options = served();
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_port *port = open_port(loader);
    struct reader readers[] = {
        {.batch_size = 16, .world_size = 1, .outputs = ONLY_X},
        {.batch_size = 16, .world_size = 1, .outputs = CAST_X},
        {.batch_size = BATCH, .world_size = 1, .pause_us = 1000},
    };
    pthread_t threads[3];
    pthread_barrier_t one;
    assert_int_equal(pthread_barrier_init(&one, NULL, 1), 0);
    for (int i = 0; i < 3; i++) {
        readers[i].dataset = dataset;
        readers[i].attached = &one;
        assert_int_equal(pthread_create(&threads[i], NULL, i < 2 ? come_and_go : read_all, &readers[i]), 0);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&one);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(readers[i].failed, "");
        assert_true(readers[i].batches > 0);
    }
    leat_port_close(port);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(batches_stay_valid_when_reader_and_port_are_closed)
{
    struct leat_dataset *dataset = test_dataset("numbers", SAMPLES, true);
    struct leat_loader_options options = served();
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_port *port = open_port(loader);
    const struct reader one = {.batch_size = 10, .world_size = 1, .dataset = dataset};
    struct leat_attach_options wish = attaching(&one);
    struct leat_attached *attached, *other;
    struct leat_error error;
    struct leat_batch *held[4], *b;
    uint64_t iteration, hashes[4];
    assert_ok(leat_attach(&wish, &attached, &error));
    assert_ok(leat_attach(&wish, &other, &error));
    assert_ok(leat_consumer_start(leat_attached_consumer(attached), &iteration, &error));
    for (int i = 0; i < 4; i++) {
        assert_ok(leat_consumer_next(leat_attached_consumer(attached), iteration, TEST_HANG_MS, &held[i], &error));
        hashes[i] = test_hash_batch(held[i]);
    }
    leat_attached_close(attached);
    assert_ok(
        leat_consumer_start(leat_attached_consumer(other), &iteration, &error)); /* the port uses again what it can */
    for (int i = 0; i < 20; i++) {
        assert_ok(leat_consumer_next(leat_attached_consumer(other), iteration, TEST_HANG_MS, &b, &error));
        leat_batch_free(b);
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(test_hash_batch(held[i]), hashes[i]);
    leat_attached_close(other);
    leat_port_close(port);
    leat_loader_close(loader);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(test_hash_batch(held[i]), hashes[i]);
        leat_batch_free(held[i]);
    }
    leat_dataset_release(dataset);
}

TEST(a_plan_a_batch_and_a_state_are_those_of_a_loader)
{
    struct leat_dataset *dataset = test_dataset("numbers", SAMPLES, false);
    struct leat_loader_options options = served();
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_port *port = open_port(loader);
    const struct reader one = {.batch_size = 12, .rank = 1, .world_size = 2, .dataset = dataset};
    struct leat_attach_options wish = attaching(&one);
    struct leat_loader *own = own_loader(&one);
    struct leat_attached *attached;
    struct leat_error error;
    uint64_t n, m, iteration;
    char *text;
    assert_ok(leat_attach(&wish, &attached, &error));
    for (uint64_t step = 0; step < leat_loader_steps(own); step++) {
        int64_t *ids, *wanted;
        struct leat_batch *b, *w;
        assert_ok(leat_attached_plan(attached, 1, step, &ids, &n, &error));
        assert_ok(leat_loader_plan(own, 1, step, &wanted, &m, &error));
        assert_int_equal(n, m);
        assert_memory_equal(ids, wanted, n * sizeof *ids);
        assert_ok(leat_attached_batch_at(attached, 1, step, &b, &error));
        assert_ok(leat_loader_batch_at(own, 1, step, &w, &error));
        assert_int_equal(test_hash_batch(b), test_hash_batch(w));
        leat_batch_free(b);
        leat_batch_free(w);
        leat_free(ids);
        leat_free(wanted);
    }
    struct leat_batch *b;
    int64_t *ids;
    assert_int_equal(leat_attached_plan(attached, 1, leat_loader_steps(own), &ids, &n, &error), LEAT_E_RANGE);
    assert_int_equal(leat_attached_batch_at(attached, 0, 1000, &b, &error), LEAT_E_RANGE);
    assert_ok(leat_consumer_start(leat_attached_consumer(attached), &iteration, &error));
    assert_ok(leat_consumer_next(leat_attached_consumer(attached), iteration, TEST_HANG_MS, &b, &error));
    leat_batch_free(b);
    assert_ok(leat_consumer_state(leat_attached_consumer(attached), &text, &error));
    assert_non_null(strstr(text, "\"row\":24"));
    assert_ok(leat_consumer_load_state(leat_attached_consumer(attached), text, &error));
    leat_free(text);
    assert_int_equal(leat_consumer_load_state(leat_attached_consumer(attached), "{\"attached\": 1}", &error),
                     LEAT_E_INVALID);
    assert_ok(leat_consumer_start(leat_attached_consumer(attached), &iteration, &error));
    assert_ok(leat_consumer_next(leat_attached_consumer(attached), iteration, TEST_HANG_MS, &b, &error));
    assert_int_equal(leat_batch_step(b), 1);
    leat_batch_free(b);
    leat_attached_close(attached);
    leat_loader_close(own);
    leat_port_close(port);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

/* Until the port has so many batches that are read or about to be. */
static void wait_for_published(struct leat_port *port, long n)
{
    for (long found = 0; found < n; usleep(1000)) {
        struct leat_error error;
        char *json;
        assert_ok(leat_port_stat(port, &json, &error));
        found = strtol(strstr(json, "\"published\":") + strlen("\"published\":"), NULL, 10);
        leat_free(json);
    }
}

TEST(copies_count_in_the_ledger_and_a_reader_looks_one_batch_ahead)
{
    struct leat_dataset *dataset = test_dataset("ledger", SAMPLES, false);
    struct leat_loader_options options = served();
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_port *port = open_port(loader);
    const struct reader one = {.batch_size = 12, .world_size = 1, .dataset = dataset};
    struct leat_attach_options wish = attaching(&one);
    struct leat_loader *own = own_loader(&one);
    struct leat_attached *attached;
    struct leat_error error;
    struct leat_batch *first, *second, *again, *wanted;
    uint64_t iteration;
    assert_ok(leat_attach(&wish, &attached, &error));
    struct leat_consumer *reader = leat_attached_consumer(attached);
    assert_int_equal(leat_consumer_peek(reader, 0, &first, &error), LEAT_E_INVALID);
    assert_ok(leat_consumer_start(reader, &iteration, &error));
    assert_ok(leat_consumer_next(reader, iteration, TEST_HANG_MS, &first, &error)); /* rows of one batch of the port */
    wait_for_published(port, 2);
    const uint64_t most = UINT64_C(1) << 60; /* more than loaders can give back */
    leat_ledger_take(LEAT_OF_LOADERS, most);
    assert_int_equal(leat_consumer_peek(reader, TEST_HANG_MS, &second, &error), LEAT_E_HELD);
    assert_non_null(strstr(error.message, "let go of batches"));
    leat_ledger_give(LEAT_OF_LOADERS, most);
    assert_ok(leat_consumer_peek(reader, TEST_HANG_MS, &second, &error));
    assert_ok(leat_loader_batch_at(own, 0, 1, &wanted, &error));
    assert_int_equal(test_hash_batch(second), test_hash_batch(wanted));
    assert_ok(leat_consumer_next(reader, iteration, TEST_HANG_MS, &again, &error));
    assert_ptr_equal(again, second);
    leat_batch_free(again);
    leat_batch_free(second);
    leat_batch_free(wanted);
    leat_batch_free(first);
    leat_attached_close(attached);
    leat_port_close(port);
    leat_loader_close(loader);
    leat_loader_close(own);
    leat_dataset_release(dataset);
    assert_int_equal(leat_ledger_used(LEAT_OF_LOADERS), 0);
}

TEST(a_reader_that_holds_a_batch_gets_it_again_as_it_is_planned)
{
    struct leat_dataset *dataset = test_dataset("numbers", SAMPLES, false);
    struct leat_loader_options options = served();
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_port *port = open_port(loader);
    for (int shares = 0; shares < 2; shares++) { /* another one reads beside it */
        const struct reader one = {.batch_size = BATCH, .world_size = 1, .writable = true, .dataset = dataset};
        struct leat_attach_options wish = attaching(&one);
        struct leat_attached *attached, *other = NULL;
        struct leat_error error;
        struct leat_batch *held[3];
        uint64_t iteration, hash = 0;
        bool dropped;
        assert_ok(leat_attach(&wish, &attached, &error));
        if (shares) {
            assert_ok(leat_attach(&wish, &other, &error));
            assert_ok(leat_consumer_start(leat_attached_consumer(other), &iteration, &error));
            assert_ok(leat_consumer_next(leat_attached_consumer(other), iteration, TEST_HANG_MS, &held[0], &error));
            leat_batch_free(held[0]);
        }
        for (int i = 0; i < 3; i++) {
            struct leat_tensor x;
            assert_ok(leat_consumer_set_epoch(leat_attached_consumer(attached), 0, &dropped, &error));
            assert_ok(leat_consumer_start(leat_attached_consumer(attached), &iteration, &error));
            assert_ok(leat_consumer_next(leat_attached_consumer(attached), iteration, TEST_HANG_MS, &held[i], &error));
            hash = i ? hash : test_hash_batch(held[i]);
            assert_int_equal(test_hash_batch(held[i]), hash);
            assert_ok(leat_batch_tensor(held[i], 0, &x));
            memset(x.data, 0x11 * (i + 1), test_tensor_bytes(&x));
        }
        for (int i = 0; i < 3; i++)
            leat_batch_free(held[i]);
        leat_attached_close(attached);
        leat_attached_close(other);
    }
    leat_port_close(port);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(a_reader_that_keeps_all_that_it_asks_for_leaves_memory_to_others)
{
    enum { MOST = 200 };
    struct leat_dataset *dataset = test_dataset("numbers", SAMPLES, false);
    struct leat_loader_options options = served();
    options.max_held_bytes = 1 << 20;
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_port *port = open_port(loader);
    const struct reader one = {.batch_size = BATCH, .world_size = 1, .tail = LEAT_TAIL_UNEVEN, .dataset = dataset};
    struct leat_attach_options wish = attaching(&one);
    struct leat_attached *greedy, *other;
    struct leat_error error = {0};
    struct leat_batch *kept[MOST], *b, *wanted;
    struct leat_loader *own = own_loader(&one);
    uint64_t iteration, mine;
    int n = 0, rc = LEAT_OK;
    assert_ok(leat_attach(&wish, &greedy, &error));
    assert_ok(leat_attach(&wish, &other, &error));
    while (n < MOST && !(rc = leat_attached_batch_at(greedy, 0, 1, &kept[n], &error)))
        n++;
    assert_int_equal(rc, LEAT_E_HELD);
    assert_non_null(strstr(error.message, "let go of some"));
    assert_true(n >= 2 && n < 100);
    assert_ok(leat_consumer_start(leat_attached_consumer(other), &iteration, &error));
    assert_ok(leat_loader_start(own, &mine, &error));
    while (!(rc = leat_loader_next(own, mine, TEST_HANG_MS, &wanted, &error))) {
        assert_ok(leat_consumer_next(leat_attached_consumer(other), iteration, TEST_HANG_MS, &b, &error));
        assert_int_equal(test_hash_batch(b), test_hash_batch(wanted));
        leat_batch_free(b);
        leat_batch_free(wanted);
    }
    assert_int_equal(rc, LEAT_E_END);
    while (n)
        leat_batch_free(kept[--n]);
    assert_ok(leat_attached_batch_at(greedy, 0, 1, &b, &error));
    leat_batch_free(b);
    leat_attached_close(greedy);
    leat_attached_close(other);
    leat_loader_close(own);
    leat_port_close(port);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(names_and_loaders_that_do_not_fit_are_refused)
{
    struct leat_dataset *dataset = test_dataset("numbers", SAMPLES, false);
    struct leat_loader_options options = served();
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_port *port = open_port(loader), *second;
    struct leat_port_options wish = LEAT_PORT_OPTIONS_INIT;
    struct leat_error error;
    wish.folder = sockets;
    wish.name = "p";
    assert_int_equal(leat_port_open(loader, &wish, &second, &error), LEAT_E_EXISTS);
    const char *const bad[] = {"", ".p", "a/b", "a b", NULL};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        wish.name = bad[i];
        assert_int_equal(leat_port_open(loader, &wish, &second, &error), LEAT_E_INVALID);
    }
    options.region = 0;
    struct leat_loader *private = test_loader(dataset, &options);
    wish.name = "q";
    assert_int_equal(leat_port_open(private, &wish, &second, &error), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "region 1"));
    struct leat_attach_options attach = LEAT_ATTACH_OPTIONS_INIT;
    struct leat_attached *attached;
    attach.folder = wish.folder;
    attach.name = "q";
    assert_int_equal(leat_attach(&attach, &attached, &error), LEAT_E_NOT_FOUND);
    attach.name = "p";
    attach.rank = attach.world_size = 2;
    assert_int_equal(leat_attach(&attach, &attached, &error), LEAT_E_INVALID);
    attach.rank = 0;
    attach.batch_size = 33 * BATCH;
    assert_int_equal(leat_attach(&attach, &attached, &error), LEAT_E_INVALID);
    leat_loader_close(private);
    leat_port_close(port);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

/* What a port says of a batch of four rows, the second of which was left out and the third replaced. */
struct said {
    struct leat_published_head head;
    uint64_t outputs[1];
    int64_t ids[3];
    uint64_t keys[3];
    struct leat_published_error errors[2];
    int32_t domains[3];
    uint8_t valid[3];
    char texts[4];
};

enum { SAID_AT = 64, SAID_BYTES = offsetof(struct said, texts) + 4 };

static int read_said(const struct said *said, uint64_t memory_bytes, uint64_t offset, uint64_t bytes)
{
    static _Alignas(64) uint8_t memory[1024];
    struct leat_published got;
    struct leat_error error;
    memset(memory, 0xff, sizeof memory);
    memcpy(memory + SAID_AT, said, sizeof *said);
    const int rc = leat_published_read(memory, memory_bytes, offset, bytes, 1, &got, &error);
    if (rc)
        return rc;
    assert_int_equal(got.ids[2], 44);
    assert_int_equal(got.keys[2], 7);
    assert_int_equal(got.valid[2], 1);
    assert_string_equal(got.texts + got.errors[1].text, "bad");
    return LEAT_OK;
}

TEST(what_a_port_says_of_a_batch_is_trusted_in_no_number)
{
    const struct said good = {{"LEATPUB2", SAID_BYTES, 0, 0, 4, 3, 1, 2, 4, 0, 0},
                              {4096},
                              {11, 33, 44},
                              {5, 6, 7},
                              {{1, 22, -1, LEAT_E_DECODE, 0}, {2, 32, 33, LEAT_E_DECODE, 0}},
                              {0},
                              {1, 1, 1},
                              "bad"};
    enum { MEMORY = SAID_AT + SAID_BYTES };
    assert_int_equal(read_said(&good, MEMORY, SAID_AT, SAID_BYTES), LEAT_OK);
    assert_int_equal(read_said(&good, MEMORY - 1, SAID_AT, SAID_BYTES), LEAT_E_FORMAT);
    assert_int_equal(read_said(&good, MEMORY, SAID_AT, UINT64_MAX), LEAT_E_FORMAT);
    assert_int_equal(read_said(&good, MEMORY, SAID_AT, SAID_BYTES - 1), LEAT_E_FORMAT);
    assert_int_equal(read_said(&good, MEMORY, SAID_AT, sizeof good.head - 1), LEAT_E_FORMAT);
    assert_int_equal(read_said(&good, MEMORY, UINT64_C(1) << 40, SAID_BYTES), LEAT_E_FORMAT);
    assert_int_equal(read_said(&good, MEMORY, SAID_AT - 8, SAID_BYTES), LEAT_E_FORMAT);
    enum { FAULTS = 15 };
    for (int fault = 0; fault < FAULTS; fault++) {
        struct said s = good;
        struct leat_published_head *h = &s.head;
        h->magic[0] = (char)(fault == 0 ? 'X' : h->magic[0]);
        h->bytes -= fault == 1;
        h->rows = fault == 2 ? UINT64_MAX : fault == 3 ? 5 : fault == 4 ? 3 : h->rows;
        h->delivered = fault == 5 ? UINT64_MAX : h->delivered;
        h->n_outputs += fault == 6;
        h->failed = fault == 7;
        h->mirrored = fault == 14;
        s.errors[1].row = fault == 8 ? 4 : fault == 9 ? 1 : fault == 10 ? 0 : s.errors[1].row;
        s.errors[1].text = fault == 11 ? 4 : s.errors[1].text;
        s.errors[1].delivered = fault == 12 ? -1 : s.errors[1].delivered;
        s.texts[3] = fault == 13 ? '!' : 0;
        if (read_said(&s, MEMORY, SAID_AT, SAID_BYTES) != LEAT_E_FORMAT)
            fail_msg("number %d is believed", fault);
    }
}

int main(void)
{
    snprintf(sockets, sizeof sockets, "%s", test_path("ports"));
    return test_run(NULL, test_clean);
}
