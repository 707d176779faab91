/*
 * Many workers at few entries: each row is computed exactly once, whatever the threads do to each other. Workers are
 * threads here, so that the thread sanitizer sees them. Entries are few, so that a worker often looks at a batch that
 * is gone.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "base/random.h"
#include "support.h"

enum { WORKERS = 4, BOARDS = 2, ENTRIES = 2, MAX_ROWS = 24 };

/* What is expected of a batch stands in its slot: how often each row was computed. */
struct crowd {
    struct leat_pool *pool;
    struct leat_board *boards[BOARDS];
    _Atomic bool stop;
    _Atomic uint64_t wrong;
};

struct member {
    struct crowd *crowd;
    unsigned number;
};

/* One unit: adds one to its rows. Without a layout there is no place for them: it goes by message, which is the
 * test's. */
static void compute(struct crowd *c, struct leat_board *board, const struct leat_board_unit *u)
{
    _Atomic uint32_t *rows = leat_board_at(board, u->batch.payload);
    if (u->batch.layout && (u->batch.n_buffers != 1 || u->batch.buffers[0] != u->batch.payload + u->batch.layout))
        atomic_fetch_add(&c->wrong, 1);
    for (uint32_t row = u->first; row < u->first + u->n; row++) {
        leat_board_at_row(board, row);
        atomic_fetch_add_explicit(&rows[row], 1, memory_order_relaxed);
    }
    leat_board_finish(board, u, false);
}

static void *work(void *argument)
{
    struct member *m = argument;
    struct crowd *c = m->crowd;
    struct leat_pool *pool;
    struct leat_board *boards[BOARDS];
    struct leat_board_unit u;
    struct leat_error error;
    if (leat_pool_attach(leat_pool_offset(c->pool), m->number, true, &pool, &error))
        abort();
    for (int i = 0; i < BOARDS; i++)
        if (leat_board_attach(pool, leat_board_offset(c->boards[i]), true, &boards[i], &error))
            abort();
    while (!atomic_load(&c->stop)) {
        uint32_t seen = leat_pool_seen(pool);
        bool any = false;
        for (int i = 0; i < BOARDS; i++)
            if (leat_board_take(boards[i], &u)) {
                compute(c, boards[i], &u);
                any = true;
            }
        if (!any && !atomic_load(&c->stop))
            leat_pool_sleep(pool, seen, -1);
    }
    for (int i = 0; i < BOARDS; i++)
        leat_board_free(boards[i]);
    leat_pool_free(pool);
    return NULL;
}

struct flight {
    struct leat_slot *slot;
    uint32_t rows;
    bool cancelled;
};

static void publish_next(struct crowd *c, int board, uint64_t serial, struct flight *f)
{
    struct leat_error error;
    f->rows = 1 + (uint32_t)leat_draw_below((uint64_t)board, serial, MAX_ROWS);
    assert_ok(leat_slot_new(MAX_ROWS * 4, &f->slot, &error));
    memset(leat_slot_data(f->slot), 0, MAX_ROWS * 4);
    struct leat_board_batch batch = batch_of(serial, f->rows, (uint32_t)leat_draw_below(3, serial, 4));
    batch.payload = leat_slot_offset(f->slot);
    assert_ok(leat_board_publish(c->boards[board], &batch, &error));
    if (serial % 3 == 0) { /* its place is known later, while it is being taken */
        uint32_t layout = 1 + (uint32_t)serial % 1000;
        uint64_t buffer = batch.payload + layout;
        assert_ok(leat_board_place(c->boards[board], serial, layout, &buffer, 1, &error));
    }
    f->cancelled = serial % 7 == 0;
    if (f->cancelled)
        leat_board_cancel(c->boards[board], serial);
}

static void check_and_retire(struct crowd *c, int board, uint64_t serial, struct flight *f)
{
    const _Atomic uint32_t *rows = leat_slot_data(f->slot);
    for (uint32_t row = 0; row < f->rows; row++) {
        uint32_t times = atomic_load_explicit(&rows[row], memory_order_relaxed);
        assert_true(f->cancelled ? times <= 1 : times == 1);
    }
    leat_board_retire(c->boards[board], serial);
    leat_slot_release(f->slot);
}

TEST(every_row_is_computed_once_by_threads_that_race_for_it)
{
    enum { BATCHES = 4000 };
    struct crowd c = {0};
    struct leat_error error;
    pthread_t threads[WORKERS];
    struct member members[WORKERS];
    struct flight flights[BOARDS][ENTRIES] = {0};
    uint64_t first[BOARDS] = {1, 1}, next[BOARDS] = {1, 1}, used = leat_share_used();
    assert_ok(leat_pool_new(WORKERS, &c.pool, &error));
    for (int i = 0; i < BOARDS; i++)
        assert_ok(leat_board_new(c.pool, ENTRIES, MAX_ROWS, 1e6, 1, &c.boards[i], &error));
    for (unsigned i = 0; i < WORKERS; i++) {
        members[i] = (struct member){&c, i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &members[i]), 0);
    }
    while (first[0] <= BATCHES || first[1] <= BATCHES)
        for (int i = 0; i < BOARDS; i++) {
            uint32_t seen = leat_board_seen(c.boards[i]);
            while (next[i] <= BATCHES && next[i] < first[i] + ENTRIES) {
                publish_next(&c, i, next[i], &flights[i][next[i] % ENTRIES]);
                next[i]++;
            }
            if (first[i] > BATCHES)
                continue;
            struct flight *f = &flights[i][first[i] % ENTRIES];
            /* The end of a cancelled batch wakes nobody: its units do not all get done. */
            while (!leat_board_complete(c.boards[i], first[i])) {
                leat_board_wait(c.boards[i], seen, f->cancelled ? 1 : -1);
                seen = leat_board_seen(c.boards[i]);
            }
            check_and_retire(&c, i, first[i]++, f);
        }
    atomic_store(&c.stop, true);
    leat_pool_wake(c.pool);
    for (unsigned i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&c.wrong), 0);
    for (int i = 0; i < BOARDS; i++)
        leat_board_free(c.boards[i]);
    leat_pool_free(c.pool);
    assert_int_equal(leat_share_used(), used);
}

TEST_MAIN()
