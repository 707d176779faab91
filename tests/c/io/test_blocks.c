/* Blocks of a file whose reads complete later. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/ledger.h"
#include "base/random.h"
#include "io/blocks.h"
#include "support.h"

enum { BYTES = sizeof content, BLOCK = 1000, READS = 500, MOST = 5000 };

static uint8_t got[READS][MOST];
static struct leat_io_request requests[READS];

static struct {
    pthread_mutex_t lock;
    pthread_cond_t came;
    size_t done;
} waiting = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

static void on_done(struct leat_io_request *r, void *user)
{
    pthread_mutex_lock(&waiting.lock);
    waiting.done++;
    pthread_cond_signal(&waiting.came);
    pthread_mutex_unlock(&waiting.lock);
}

/* Submits a read of request i, and counts those that are complete at once. */
static void submit(struct leat_io_file *file, size_t i, uint64_t offset, uint64_t length)
{
    requests[i] =
        (struct leat_io_request){.file = file, .offset = offset, .length = length, .buffer = got[i], .done = on_done};
    if (leat_io_submit(&requests[i]) == LEAT_OK)
        on_done(&requests[i], NULL);
}

static void wait_for(size_t n)
{
    pthread_mutex_lock(&waiting.lock);
    while (waiting.done < n)
        pthread_cond_wait(&waiting.came, &waiting.lock);
    waiting.done = 0;
    pthread_mutex_unlock(&waiting.lock);
}

static void assert_good(size_t i)
{
    assert_int_equal(requests[i].status, LEAT_OK);
    assert_memory_equal(got[i], content + requests[i].offset, requests[i].length);
}

static struct leat_io_file *open_blocks(void)
{
    struct leat_io_file *file, *blocks;
    struct leat_error error;
    assert_ok(leat_io_open(path, &file, &error));
    assert_ok(leat_blocks_over(file, BLOCK, false, NULL, NULL, &blocks, &error));
    leat_io_release(file);
    return blocks;
}

TEST(reads_of_any_blocks_have_the_bytes_of_the_file_whatever_the_cache_holds)
{
    const uint64_t budgets[] = {1, 3 * BLOCK, 2 * BYTES};
    for (int b = 0; b < 3; b++) {
        uint64_t before, after, bytes;
        test_blocks_budget = budgets[b];
        leat_faulty_start(&(struct leat_faulty){.later = true});
        struct leat_io_file *file = open_blocks();
        leat_blocks_stats(&bytes, &before);
        for (size_t i = 0; i < READS; i++) {
            uint64_t length = leat_key_mix(1, i) % MOST;
            submit(file, i, leat_key_mix(2, i) % (BYTES - length + 1), length);
        }
        wait_for(READS);
        for (size_t i = 0; i < READS; i++)
            assert_good(i);
        leat_blocks_stats(&bytes, &after);
        if (b == 2)
            assert_int_equal(after - before, BYTES / BLOCK); /* each block once */
        leat_io_release(file);
        leat_faulty_stop();
    }
    test_blocks_budget = 0;
}

static uint64_t most_held; /* bytes of blocks when memory for another one was asked for */

static void *allocate_and_note(size_t bytes)
{
    const uint64_t held = leat_ledger_used(LEAT_OF_BLOCKS);
    if (bytes == BLOCK + 1 && held > most_held)
        most_held = held;
    return malloc(bytes);
}

TEST(room_for_a_block_is_made_before_its_memory_is_taken)
{
    struct leat_error error;
    struct leat_io_file *file = open_blocks();
    test_blocks_budget = 4 * BLOCK;
    most_held = 0;
    test_allocator.allocate = allocate_and_note;
    for (uint64_t i = 0; i < 10; i++)
        assert_ok(leat_io_read(file, i * BLOCK, 10, got[1], &error));
    test_allocator.allocate = malloc;
    assert_int_equal(most_held, 3 * BLOCK);
    test_blocks_budget = 0;
    leat_io_release(file);
}

static int decode_some(void *user, size_t block, uint8_t *to, struct leat_error *error)
{
    memcpy(to, content + block * BLOCK, BLOCK);
    return LEAT_OK;
}

TEST(a_block_is_evicted_first_once_all_of_it_was_read_if_each_byte_is_read_once)
{
    enum { SOME = 4 };
    static const uint64_t starts[SOME + 1] = {0, BLOCK, 2 * BLOCK, 3 * BLOCK, 4 * BLOCK};
    for (int once = 0; once < 2; once++) {
        struct leat_io_file *file;
        struct leat_error error;
        uint64_t bytes, before, after;
        const struct leat_blocks def = {
            .path = "some", .n = SOME, .starts = starts, .decode = decode_some, .once = once};
        test_blocks_budget = 2 * BLOCK;
        assert_ok(leat_blocks_open(&def, &file, &error));
        assert_ok(leat_io_read(file, 0, 10, got[1], &error)); /* block 0 is wanted again */
        assert_ok(leat_io_read(file, BLOCK + 5, BLOCK - 5, got[1], &error));
        assert_ok(leat_io_read(file, BLOCK, 5, got[1], &error)); /* and block 1 is not */
        assert_ok(leat_io_read(file, 2 * BLOCK, 10, got[1], &error));
        leat_blocks_stats(&bytes, &before);
        assert_ok(leat_io_read(file, 10, BLOCK - 10, got[1], &error));
        assert_memory_equal(got[1], content + 10, BLOCK - 10);
        leat_blocks_stats(&bytes, &after);
        assert_int_equal(after - before, !once);
        leat_io_release(file);
    }
    test_blocks_budget = 0;
}

TEST(blocks_are_dropped_where_loaders_use_what_the_process_may)
{
    struct leat_error error;
    struct leat_io_file *file = open_blocks();
    const uint64_t before = leat_ledger_used(LEAT_OF_BLOCKS), all = leat_ledger_allowed();
    test_blocks_budget = 8 * BLOCK;
    for (uint64_t i = 0; i < 5; i++)
        assert_ok(leat_io_read(file, i * BLOCK, 10, got[1], &error));
    assert_int_equal(leat_ledger_used(LEAT_OF_BLOCKS), before + 5 * BLOCK);
    leat_ledger_take(LEAT_OF_LOADERS, all);
    assert_ok(leat_io_read(file, 5 * BLOCK, 10, got[1], &error));
    assert_memory_equal(got[1], content + 5 * BLOCK, 10);
    assert_int_equal(leat_ledger_used(LEAT_OF_BLOCKS), 2 * BLOCK); /* a quarter stays */
    leat_ledger_give(LEAT_OF_LOADERS, all);
    test_blocks_budget = 0;
    leat_io_release(file);
    assert_int_equal(leat_ledger_used(LEAT_OF_BLOCKS), 0);
}

TEST(a_block_that_cannot_be_read_is_an_error_of_all_who_wait_for_it_and_read_again_later)
{
    leat_faulty_start(&(struct leat_faulty){.later = true});
    struct leat_io_file *file = open_blocks();
    /* Reads within one block: of two, the failed one may be read again before it is asked for. */
    leat_faulty_hold(1000);
    for (size_t i = 0; i < 10; i++)
        submit(file, i, 5 * BLOCK + i, 900);
    leat_faulty_fail(1);
    leat_faulty_hold(0);
    leat_faulty_release(100);
    wait_for(10);
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(requests[i].status, LEAT_E_IO);
        assert_string_equal(requests[i].error.file, path);
    }
    for (size_t i = 0; i < 10; i++)
        submit(file, i, 5 * BLOCK + i, 900);
    wait_for(10);
    for (size_t i = 0; i < 10; i++)
        assert_good(i);
    leat_io_release(file);
    leat_faulty_stop();
}

TEST(a_read_that_is_cancelled_ends_and_others_go_on)
{
    uint64_t bytes;
    leat_faulty_start(&(struct leat_faulty){.later = true});
    struct leat_io_file *file = open_blocks();
    leat_faulty_hold(1000);
    for (size_t i = 0; i < 20; i++)
        submit(file, i, 5 * BLOCK, 1500 + i);
    while (leat_faulty_held(&bytes) < 2)
        usleep(1000);
    for (size_t i = 0; i < 20; i += 2)
        leat_io_cancel(&requests[i]);
    wait_for(10);
    leat_faulty_hold(0);
    leat_faulty_release(100);
    wait_for(10);
    for (size_t i = 0; i < 20; i++)
        if (i % 2)
            assert_good(i);
        else
            assert_int_equal(requests[i].status, LEAT_E_CANCELLED);
    leat_io_release(file);
    leat_faulty_stop();
}

static ssize_t pread_while_cancelled(int fd, void *buffer, size_t bytes, off_t offset)
{
    leat_io_cancel(&requests[0]);
    return pread(fd, buffer, bytes, offset);
}

/* Its second block was dropped before the first came, and whoever brings that reads the second at once. */
TEST(a_read_may_be_cancelled_while_a_thread_fills_its_block)
{
    uint64_t bytes;
    test_blocks_budget = 1;
    leat_faulty_start(&(struct leat_faulty){.later = true});
    struct leat_io_file *file = open_blocks();
    leat_faulty_hold(1000);
    submit(file, 1, 6 * BLOCK, 10);
    submit(file, 0, 5 * BLOCK, 2 * BLOCK);
    while (leat_faulty_held(&bytes) < 2)
        usleep(1000);
    leat_faulty_release(1);
    wait_for(1);
    assert_good(1);
    leat_faulty_later(false);
    test_pread = pread_while_cancelled;
    leat_faulty_release(1);
    wait_for(1);
    assert_int_equal(requests[0].status, LEAT_E_CANCELLED);
    leat_io_release(file);
    leat_faulty_stop();
    assert_int_equal(waiting.done, 0); /* it ended once */
    test_blocks_budget = 0;
}

TEST(blocks_that_are_there_do_not_keep_later_ones_from_being_asked_for)
{
    uint64_t bytes;
    test_blocks_budget = 12 * BLOCK; /* half of which one read may ask for ahead */
    leat_faulty_start(&(struct leat_faulty){.later = true});
    struct leat_io_file *file = open_blocks();
    submit(file, 0, 5 * BLOCK, 10);
    wait_for(1);
    leat_faulty_hold(1000);
    submit(file, 0, 5 * BLOCK, 4 * BLOCK);
    while (leat_faulty_held(&bytes) < 3)
        usleep(1000);
    submit(file, 1, 20 * BLOCK, 5 * BLOCK);
    while (leat_faulty_held(&bytes) < 8)
        usleep(1000);
    leat_faulty_hold(0);
    leat_faulty_release(100);
    wait_for(2);
    assert_good(0);
    assert_good(1);
    leat_io_release(file);
    leat_faulty_stop();
    test_blocks_budget = 0;
}

static ssize_t pread_wrong(int fd, void *buffer, size_t bytes, off_t offset)
{
    ssize_t n = pread(fd, buffer, bytes, offset);
    for (ssize_t i = 0; i < n; i++)
        ((uint8_t *)buffer)[i] ^= 1;
    return n;
}

static struct leat_io_file *forgetful;

static void forget_and_count(struct leat_io_request *r, void *user)
{
    leat_io_forget(forgetful, r->offset, r->length); /* while others copy from its blocks */
    on_done(r, user);
}

TEST(what_is_forgotten_is_read_again_also_when_it_is_in_use)
{
    for (int later = 0; later < 2; later++) {
        leat_faulty_start(&(struct leat_faulty){.later = later});
        struct leat_io_file *file = forgetful = open_blocks();
        test_pread = pread_wrong;
        requests[0] = (struct leat_io_request){
            .file = file, .offset = 5 * BLOCK + 1, .length = BLOCK, .buffer = got[0], .done = forget_and_count};
        if (leat_io_submit(&requests[0]) == LEAT_OK)
            forget_and_count(&requests[0], NULL);
        wait_for(1);
        assert_int_equal(requests[0].status, LEAT_OK);
        assert_int_equal(got[0][0], content[5 * BLOCK + 1] ^ 1);
        test_pread = pread;
        submit(file, 0, 5 * BLOCK + 1, BLOCK);
        wait_for(1);
        assert_good(0);
        leat_io_forget(file, 0, UINT64_MAX);
        leat_io_forget(file, BYTES, 1);
        submit(file, 0, 0, MOST);
        wait_for(1);
        assert_good(0);
        leat_io_release(file);
        leat_faulty_stop();
    }
}

TEST(a_constant_block_with_other_bytes_than_it_had_first_is_told)
{
    struct leat_error error;
    struct leat_io_file *file, *blocks;
    uint8_t byte = (uint8_t)~content[5 * BLOCK + 1];
    for (int later = 0; later < 2; later++) {
        leat_faulty_start(&(struct leat_faulty){.later = later != 0});
        assert_ok(leat_io_open(path, &file, &error));
        assert_ok(leat_blocks_over(file, BLOCK, true, NULL, NULL, &blocks, &error));
        leat_io_release(file);
        test_blocks_budget = 1;
        submit(blocks, 0, 0, MOST);
        submit(blocks, 1, MOST, MOST);
        wait_for(2);
        assert_good(0);
        assert_good(1);
        int fd = open(path, O_WRONLY);
        assert_int_equal(pwrite(fd, &byte, 1, 5 * BLOCK + 1), 1);
        submit(blocks, 0, 0, 5 * BLOCK);     /* as before */
        submit(blocks, 1, 5 * BLOCK + 7, 1); /* of a block that changed elsewhere */
        submit(blocks, 2, 9 * BLOCK + 7, 1); /* never read before */
        wait_for(3);
        assert_good(0);
        assert_int_equal(requests[1].status, LEAT_E_CHANGED);
        assert_string_equal(requests[1].error.file, path);
        assert_int_equal(requests[1].error.offset, 5 * BLOCK);
        assert_good(2);
        assert_int_equal(pwrite(fd, content + 5 * BLOCK + 1, 1, 5 * BLOCK + 1), 1);
        close(fd);
        submit(blocks, 1, 5 * BLOCK + 7, 1);
        wait_for(1);
        assert_good(1);
        leat_io_release(blocks);
        leat_faulty_stop();
    }
    test_blocks_budget = 0;
}

TEST(a_file_that_is_closed_while_a_block_is_read_stays_until_it_came)
{
    uint64_t bytes;
    leat_faulty_start(&(struct leat_faulty){.later = true});
    struct leat_io_file *file = open_blocks();
    leat_faulty_hold(1000);
    submit(file, 0, 0, 10);
    while (leat_faulty_held(&bytes) < 1)
        usleep(1000);
    leat_io_cancel(&requests[0]);
    wait_for(1);
    leat_io_release(file);
    leat_faulty_hold(0);
    leat_faulty_release(1);
    leat_faulty_stop();
}

TEST(the_cache_promises_room_for_as_many_files_as_it_has)
{
    test_blocks_budget = 3 * BYTES; /* of which a quarter is left for others */
    leat_faulty_start(&(struct leat_faulty){0});
    struct leat_io_file *files[3] = {open_blocks(), open_blocks(), open_blocks()};
    assert_true(leat_blocks_hold(files[0]));
    assert_true(leat_blocks_hold(files[0]));
    assert_true(leat_blocks_hold(files[1]));
    assert_false(leat_blocks_hold(files[2]));
    leat_io_release(files[0]);
    assert_true(leat_blocks_hold(files[2]));
    leat_io_release(files[1]);
    leat_io_release(files[2]);
    leat_faulty_stop();
    test_blocks_budget = 0;
}

struct slow {
    sem_t begun, go_on;
};

static int decode_slowly(void *user, size_t block, uint8_t *to, struct leat_error *error)
{
    struct slow *slow = user;
    sem_post(&slow->begun);
    sem_wait(&slow->go_on);
    memcpy(to, content + block * BLOCK, BLOCK);
    return LEAT_OK;
}

static void *read_first(void *file)
{
    struct leat_error error;
    assert_ok(leat_io_read(file, 0, 10, got[0], &error));
    return NULL;
}

static bool yes(void)
{
    return true;
}

TEST(waiting_for_a_block_that_another_thread_decodes_can_be_interrupted)
{
    const uint64_t starts[] = {0, BLOCK};
    struct slow slow;
    struct leat_io_file *file;
    struct leat_error error;
    pthread_t thread;
    sem_init(&slow.begun, 0, 0);
    sem_init(&slow.go_on, 0, 0);
    const struct leat_blocks def = {.path = "slow", .n = 1, .starts = starts, .decode = decode_slowly, .user = &slow};
    assert_ok(leat_blocks_open(&def, &file, &error));
    assert_int_equal(pthread_create(&thread, NULL, read_first, file), 0);
    sem_wait(&slow.begun);
    leat_set_interrupt(yes);
    assert_int_equal(leat_io_read(file, 0, 10, got[1], &error), LEAT_E_CANCELLED);
    assert_non_null(strstr(error.message, "reading slow was interrupted"));
    leat_set_interrupt(NULL);
    sem_post(&slow.go_on);
    pthread_join(thread, NULL);
    assert_ok(leat_io_read(file, 0, 10, got[1], &error)); /* what the other thread decoded */
    assert_memory_equal(got[1], content, 10);
    leat_io_release(file);
    sem_destroy(&slow.begun);
    sem_destroy(&slow.go_on);
}

/* ---- blocks that are made -------------------------------------------------------------------- */

enum { WAITERS = 2 };

static int make_slowly(void *user, const size_t *blocks, size_t n, struct leat_made_block *to, void *asker,
                       struct leat_error *error)
{
    struct slow *slow = user;
    sem_post(&slow->begun);
    sem_wait(&slow->go_on);
    for (size_t i = 0; i < n; i++) {
        to[i] = (struct leat_made_block){leat_alloc(BLOCK), BLOCK};
        assert_non_null(to[i].data);
        memcpy(to[i].data, content + blocks[i] * BLOCK, BLOCK);
    }
    return LEAT_OK;
}

static void *pin_first(void *file)
{
    struct leat_pin pin;
    struct leat_error error;
    const int rc = leat_blocks_pin(file, &(size_t){0}, 1, NULL, &pin, &error);
    if (!rc)
        leat_blocks_unpin(&pin, 1);
    return (void *)(intptr_t)rc;
}

static _Atomic bool stops;
static bool stops_now(void)
{
    return atomic_load(&stops);
}

/* None of them wakes the others, which would keep all of them from looking. */
TEST(several_that_wait_for_a_block_that_is_made_can_be_interrupted)
{
    struct slow slow;
    struct leat_io_file *file;
    struct leat_error error;
    pthread_t maker, waiters[WAITERS];
    void *rc;
    sem_init(&slow.begun, 0, 0);
    sem_init(&slow.go_on, 0, 0);
    assert_ok(leat_blocks_open(&(struct leat_blocks){.path = "slow", .n = 1, .make = make_slowly, .user = &slow}, &file,
                               &error));
    assert_int_equal(pthread_create(&maker, NULL, pin_first, file), 0);
    sem_wait(&slow.begun);
    leat_set_interrupt(stops_now);
    for (size_t i = 0; i < WAITERS; i++)
        assert_int_equal(pthread_create(&waiters[i], NULL, pin_first, file), 0);
    usleep(50000); /* both wait */
    atomic_store(&stops, true);
    for (size_t i = 0; i < WAITERS; i++) {
        pthread_join(waiters[i], &rc);
        assert_int_equal((intptr_t)rc, LEAT_E_CANCELLED);
    }
    leat_set_interrupt(NULL);
    sem_post(&slow.go_on);
    pthread_join(maker, &rc);
    assert_int_equal((intptr_t)rc, LEAT_OK);
    leat_io_release(file);
    sem_destroy(&slow.begun);
    sem_destroy(&slow.go_on);
}

TEST_MAIN_IN(set_up, remove_folder)
