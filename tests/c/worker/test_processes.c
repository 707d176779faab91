/* Workers that are processes: forked, sleeping, killed in the middle of what they do. */
#include <poll.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "base/random.h"
#include "support.h"

enum { WORKERS = 4, ENTRIES = 3, ROWS = 17 };

struct worker {
    struct leat_pool *pool; /* the parent's, as inherited: only asked for its place */
    struct leat_board *board;
    unsigned number;
    int pipe; /* where messages go */
};

static void enter(const struct worker *w, struct leat_pool **pool, struct leat_board **board)
{
    child_assert(leat_pool_attach(leat_pool_offset(w->pool), w->number, false, pool, NULL) == LEAT_OK);
    child_assert(leat_board_attach(*pool, leat_board_offset(w->board), false, board, NULL) == LEAT_OK);
}

/* Adds one to each row; every third unit ends by a message over the pipe. */
static void work(void *argument)
{
    const struct worker *w = argument;
    struct leat_pool *pool;
    struct leat_board *board;
    struct leat_board_unit u;
    enter(w, &pool, &board);
    while (!leat_board_closed(board)) {
        uint32_t seen = leat_pool_seen(pool);
        if (!leat_board_take(board, &u)) {
            if (!leat_board_closed(board))
                leat_pool_sleep(pool, seen, -1);
            continue;
        }
        _Atomic uint32_t *rows = leat_board_at(board, u.batch.payload);
        for (uint32_t row = u.first; row < u.first + u.n; row++) {
            leat_board_at_row(board, row);
            atomic_fetch_add(&rows[row], 1);
        }
        bool sent = (u.batch.serial + u.unit) % 3 == 0;
        if (sent) {
            const uint64_t message[2] = {u.batch.serial, u.unit};
            leat_board_message(board);
            child_assert(write(w->pipe, message, sizeof message) == sizeof message);
        }
        leat_board_finish(board, &u, sent);
    }
    leat_board_free(board);
    leat_pool_free(pool);
}

struct office {
    struct leat_pool *pool;
    struct leat_board *board;
    struct worker workers[WORKERS];
    pid_t pids[WORKERS];
    int pipes[WORKERS][2];
    uint32_t received[WORKERS], received_sum;
};

static void hire(struct office *o, unsigned i)
{
    assert_int_equal(pipe(o->pipes[i]), 0);
    o->workers[i] = (struct worker){o->pool, o->board, i, o->pipes[i][1]};
    o->pids[i] = start_child(work, &o->workers[i]);
    close(o->pipes[i][1]);
}

static void open_office(struct office *o)
{
    struct leat_error error;
    memset(o, 0, sizeof *o);
    assert_ok(leat_pool_new(WORKERS, &o->pool, &error));
    assert_ok(leat_board_new(o->pool, ENTRIES, ROWS, 1e6, 1, &o->board, &error));
    for (unsigned i = 0; i < WORKERS; i++)
        hire(o, i);
}

static void close_office(struct office *o)
{
    leat_board_close(o->board);
    for (unsigned i = 0; i < WORKERS; i++) {
        assert_int_equal(end_of(o->pids[i]), 0);
        close(o->pipes[i][0]);
    }
    leat_board_free(o->board);
    leat_pool_free(o->pool);
}

/* Takes what came from worker i. False: nothing more for now. */
static bool take_message(struct office *o, unsigned i)
{
    struct pollfd p = {.fd = o->pipes[i][0], .events = POLLIN};
    uint64_t message[2];
    if (poll(&p, 1, 0) != 1 || read(p.fd, message, sizeof message) != sizeof message)
        return false;
    o->received[i]++;
    o->received_sum++;
    leat_board_received(o->board, message[0], (uint32_t)message[1], 0);
    return true;
}

static void take_messages(struct office *o)
{
    for (unsigned i = 0; i < WORKERS; i++)
        while (take_message(o, i)) {
        }
}

/* Waits until a batch is complete, as a parent does: messages that were announced come soon, but where a worker was
 * killed nobody may wake it. */
static void await(struct office *o, uint64_t serial, bool killed)
{
    for (;;) {
        uint32_t seen = leat_board_seen(o->board);
        take_messages(o);
        if (leat_board_complete(o->board, serial))
            return;
        if (leat_pool_messages(o->pool) == o->received_sum)
            leat_board_wait(o->board, seen, killed ? 20 : -1);
    }
}

static struct leat_slot *publish_rows(struct office *o, uint64_t serial)
{
    struct leat_slot *slot;
    struct leat_error error;
    assert_ok(leat_slot_new(ROWS * 4, &slot, &error));
    memset(leat_slot_data(slot), 0, ROWS * 4);
    struct leat_board_batch batch = batch_of(serial, ROWS, 1 + (uint32_t)serial % 5);
    batch.payload = leat_slot_offset(slot);
    assert_ok(leat_board_publish(o->board, &batch, &error));
    return slot;
}

TEST(processes_compute_each_row_once)
{
    enum { BATCHES = 3000 };
    struct office o;
    struct leat_slot *slots[ENTRIES];
    uint64_t next = 1, used = leat_share_used();
    open_office(&o);
    for (uint64_t serial = 1; serial <= BATCHES; serial++) {
        for (; next <= BATCHES && next < serial + ENTRIES; next++)
            slots[next % ENTRIES] = publish_rows(&o, next);
        await(&o, serial, false);
        const uint32_t *rows = leat_slot_data(slots[serial % ENTRIES]);
        for (uint32_t row = 0; row < ROWS; row++)
            assert_int_equal(rows[row], 1);
        leat_board_retire(o.board, serial);
        leat_slot_release(slots[serial % ENTRIES]);
    }
    assert_int_equal(leat_pool_messages(o.pool), o.received_sum);
    close_office(&o);
    assert_int_equal(leat_share_used(), used);
}

/* A worker has died: what it sent is taken, what it announced and did not send is known, what it had is queued
 * again. */
static void bury(struct office *o, unsigned i)
{
    struct leat_pool_worker w;
    while (take_message(o, i)) {
    }
    close(o->pipes[i][0]);
    leat_pool_worker(o->pool, i, &w);
    uint32_t lost = w.messages - o->received[i];
    assert_true(lost <= 1);
    o->received[i] += lost;
    o->received_sum += lost;
    assert_true(leat_board_requeue(o->board, i, NULL, NULL) <= 1);
    leat_pool_forget(o->pool, i);
}

TEST(killing_workers_at_any_time_loses_no_row_and_no_message)
{
    enum { BATCHES = 600 };
    struct office o;
    struct leat_slot *slots[ENTRIES];
    uint64_t next = 1;
    open_office(&o);
    for (uint64_t serial = 1; serial <= BATCHES; serial++) {
        for (; next <= BATCHES && next < serial + ENTRIES; next++)
            slots[next % ENTRIES] = publish_rows(&o, next);
        if (serial % 4 == 0) {
            unsigned i = (unsigned)leat_draw_below(9, serial, WORKERS);
            usleep((useconds_t)leat_draw_below(10, serial, 300)); /* anywhere in what it does */
            assert_int_equal(kill(o.pids[i], SIGKILL), 0);
            assert_int_equal(end_of(o.pids[i]), -SIGKILL);
            bury(&o, i);
            hire(&o, i);
        }
        await(&o, serial, true);
        const uint32_t *rows = leat_slot_data(slots[serial % ENTRIES]);
        for (uint32_t row = 0; row < ROWS; row++)
            assert_true(rows[row] >= 1);
        leat_board_retire(o.board, serial);
        leat_slot_release(slots[serial % ENTRIES]);
    }
    assert_int_equal(leat_pool_messages(o.pool), o.received_sum);
    close_office(&o);
}

static void takes_and_stays(void *argument)
{
    const struct worker *w = argument;
    struct leat_pool *pool;
    struct leat_board *board;
    struct leat_board_unit u;
    enter(w, &pool, &board);
    child_assert(leat_board_take(board, &u));
    leat_board_at_row(board, u.first + 1);
    child_assert(write(w->pipe, &u.unit, sizeof u.unit) == sizeof u.unit);
    for (;;)
        pause();
}

TEST(memory_that_a_worker_works_on_is_used_again_once_it_is_dead)
{
    enum { BYTES = 1 << 20 };
    struct leat_pool *pool;
    struct leat_board *board;
    struct leat_slot *slot, *other;
    struct leat_error error;
    int pipes[2];
    uint32_t unit;
    assert_int_equal(pipe(pipes), 0);
    assert_ok(leat_pool_new(1, &pool, &error));
    assert_ok(leat_board_new(pool, 2, 4, 1e6, 1, &board, &error));
    const uint64_t before = leat_share_used();
    for (int stopped = 0; stopped < 2; stopped++) {
        struct leat_board_batch batch = batch_of(1 + (uint64_t)stopped, 8, 8);
        assert_ok(leat_slot_new(BYTES, &slot, &error));
        const uint64_t place = leat_slot_offset(slot);
        batch.n_buffers = 1;
        batch.buffers[0] = place;
        assert_ok(leat_board_publish(board, &batch, &error));
        struct worker w = {.pool = pool, .board = board, .pipe = pipes[1]};
        pid_t pid = start_child(takes_and_stays, &w);
        assert_int_equal(read(pipes[0], &unit, sizeof unit), sizeof unit);
        assert_int_equal(kill(pid, stopped ? SIGSTOP : SIGCONT), 0);
        leat_slot_release(slot); /* nobody wants the batch any more, and its worker does not know */
        assert_int_equal(leat_share_used(), before + BYTES);
        assert_ok(leat_slot_new(BYTES, &other, &error));
        assert_int_not_equal(leat_slot_offset(other), place);
        leat_slot_release(other);
        assert_int_equal(leat_share_used(), before + BYTES);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(end_of(pid), -SIGKILL);
        assert_int_equal(leat_share_used(), before);
        assert_ok(leat_slot_new(BYTES, &other, &error));
        assert_int_equal(leat_slot_offset(other), place);
        leat_slot_release(other);
        leat_board_cancel(board, batch.serial);
        leat_board_requeue(board, 0, NULL, NULL);
        leat_board_cancel(board, batch.serial);
        leat_board_retire(board, batch.serial);
    }
    leat_board_free(board);
    leat_pool_free(pool);
    close(pipes[0]);
    close(pipes[1]);
}

TEST(a_killed_worker_leaves_its_unit_its_row_and_its_batch_behind)
{
    struct bench b = bench_new(3, 2, 8);
    struct leat_pool_worker w;
    struct leat_board_unit u;
    int ends[2];
    uint32_t unit;
    assert_int_equal(pipe(ends), 0);
    publish(b.board, 1, 6, 2);
    assert_true(leat_board_take(b.seen, &u));
    struct worker second = {b.pool, b.board, 2, ends[1]};
    pid_t pid = start_child(takes_and_stays, &second);
    assert_int_equal(read(ends[0], &unit, sizeof unit), sizeof unit);
    assert_int_equal(unit, 1);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(end_of(pid), -SIGKILL);
    leat_pool_worker(b.pool, 2, &w);
    assert_int_equal(w.serial, 1);
    assert_int_equal(w.row, 3);
    assert_int_equal(w.board, leat_board_offset(b.board));
    leat_board_finish(b.seen, &u, false);
    assert_int_equal(leat_board_requeue(b.board, 2, NULL, NULL), 1);
    assert_true(leat_board_take(b.seen, &u));
    assert_int_equal(u.unit, 1);
    leat_board_finish(b.seen, &u, false);
    assert_false(leat_board_complete(b.board, 1));
    assert_true(leat_board_take(b.seen, &u));
    leat_board_finish(b.seen, &u, false);
    assert_true(leat_board_complete(b.board, 1));
    close(ends[0]);
    close(ends[1]);
    bench_free(&b);
}

/* ---- sleeping -------------------------------------------------------------------------------- */

TEST(parent_and_workers_that_sleep_are_woken_by_each_other)
{
    struct office o;
    open_office(&o);
    for (uint64_t serial = 1; serial <= 2000;
         serial++) { /* one batch at a time: both sides sleep in each; a lost wake hangs */
        struct leat_slot *slot = publish_rows(&o, serial);
        await(&o, serial, false);
        leat_board_retire(o.board, serial);
        leat_slot_release(slot);
    }
    close_office(&o);
}

TEST(a_sleep_ends_when_its_time_is_over_or_something_was_published_before_it)
{
    struct bench b = bench_new(1, 2, 4);
    uint32_t before = leat_pool_seen(b.theirs), done = leat_board_seen(b.board);
    leat_pool_sleep(b.theirs, before, 1);
    leat_board_wait(b.board, done, 1);
    publish(b.board, 1, 1, 1);
    leat_pool_sleep(b.theirs, before, -1);
    leat_board_message(b.seen);
    leat_board_wait(b.board, done, -1);
    bench_free(&b);
}

/* ---- the end of the parent ------------------------------------------------------------------- */

static void waits_for_a_signal(void *argument)
{
    for (;;)
        pause();
}

static void watches(void *argument)
{
    int pidfd = (int)syscall(SYS_pidfd_open, *(pid_t *)argument, 0);
    child_assert(pidfd >= 0);
    child_assert(leat_worker_watch(pidfd, NULL) == LEAT_OK);
    waits_for_a_signal(NULL);
}

TEST(a_worker_ends_when_the_process_that_it_watches_is_killed)
{
    pid_t watched = start_child(waits_for_a_signal, NULL), worker = start_child(watches, &watched);
    assert_int_equal(kill(watched, SIGKILL), 0);
    assert_int_equal(end_of(worker),
                     1); /* whether it began to watch before or after: the pid is not free until it is waited for */
    assert_int_equal(end_of(watched), -SIGKILL);
}

TEST_MAIN()
