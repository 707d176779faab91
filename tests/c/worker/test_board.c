/* The board, step by step: what is taken, in which order, and what finishing, cancelling and requeueing do to it. */
#include "support.h"

static void assert_unit(struct leat_board *seen, uint64_t serial, uint32_t unit, uint32_t first, uint32_t n)
{
    struct leat_board_unit u;
    assert_true(leat_board_take(seen, &u));
    assert_int_equal(u.batch.serial, serial);
    assert_int_equal(u.unit, unit);
    assert_int_equal(u.first, first);
    assert_int_equal(u.n, n);
}

static void assert_nothing(struct leat_board *seen)
{
    struct leat_board_unit u;
    assert_false(leat_board_take(seen, &u));
}

static void finish_all(struct leat_board *seen)
{
    for (struct leat_board_unit u; leat_board_take(seen, &u);)
        leat_board_finish(seen, &u, false);
}

/* ---- publishing and taking ------------------------------------------------------------------- */

TEST(units_are_runs_of_rows_the_last_one_shorter)
{
    struct bench b = bench_new(1, 4, 8);
    publish(b.board, 1, 10, 4);
    publish(b.board, 2, 2, 0);
    publish(b.board, 3, 3, 100);
    assert_unit(b.seen, 1, 0, 0, 4);
    assert_unit(b.seen, 1, 1, 4, 4);
    assert_unit(b.seen, 1, 2, 8, 2);
    assert_unit(b.seen, 2, 0, 0, 1);
    assert_unit(b.seen, 2, 1, 1, 1);
    assert_unit(b.seen, 3, 0, 0, 3);
    assert_nothing(b.seen);
    bench_free(&b);
}

TEST(a_batch_of_too_many_units_has_longer_ones_that_cover_each_row_once)
{
    const uint32_t cases[][2] = {
        {9, 1}, {4, 1}, {5, 1}, {17, 4}, {UINT32_MAX, 1}, {UINT32_MAX, 1u << 31}, {UINT32_MAX, UINT32_MAX}};
    struct bench b = bench_new(1, 4, 4);
    for (uint64_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t at = 0;
        struct leat_board_unit u;
        publish(b.board, i + 1, cases[i][0], cases[i][1]);
        while (leat_board_take(b.seen, &u)) {
            assert_int_equal(u.first, at);
            assert_true(u.n > 0 && u.unit < 4);
            at += u.n;
            leat_board_finish(b.seen, &u, false);
        }
        assert_int_equal(at, cases[i][0]);
        assert_true(leat_board_complete(b.board, i + 1));
        leat_board_retire(b.board, i + 1);
    }
    bench_free(&b);
}

TEST(a_worker_gets_all_that_the_batch_was_published_with)
{
    struct bench b = bench_new(1, 2, 4);
    struct leat_board_batch batch = {.serial = 1,
                                     .rows = 6,
                                     .run = 3,
                                     .owner = 0,
                                     .layout = 5,
                                     .kind = 2,
                                     .n_buffers = LEAT_BOARD_BUFFERS,
                                     .payload = 8192,
                                     .payload_bytes = 48,
                                     .seed = 11,
                                     .epoch = 12,
                                     .first_row = 13,
                                     .capacity = 14};
    struct leat_board_unit u;
    struct leat_error error;
    for (uint64_t i = 0; i < LEAT_BOARD_BUFFERS; i++)
        batch.buffers[i] = i * 4096;
    assert_ok(leat_board_publish(b.board, &batch, &error));
    assert_true(leat_board_take(b.seen, &u));
    assert_memory_equal(&u.batch, &batch, sizeof batch);
    bench_free(&b);
}

TEST(a_batch_whose_turn_it_is_not_is_refused)
{
    struct bench b = bench_new(2, 2, 4);
    struct leat_error error;
    struct leat_board_batch wrong[] = {batch_of(0, 1, 1), batch_of(2, 1, 1), batch_of(1, 0, 1), batch_of(1, 1, 1),
                                       batch_of(1, 1, 1)};
    wrong[3].owner = 2;
    wrong[4].n_buffers = LEAT_BOARD_BUFFERS + 1;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(leat_board_publish(b.board, &wrong[i], &error), LEAT_E_INVALID);
    publish(b.board, 1, 1, 1);
    publish(b.board, 2, 1, 1);
    struct leat_board_batch third = batch_of(3, 1, 1);
    assert_int_equal(leat_board_publish(b.board, &third, &error), LEAT_E_INVALID); /* its entry is the first's */
    assert_int_equal(leat_board_next(b.board), 0);
    finish_all(b.seen);
    leat_board_retire(b.board, 1);
    assert_int_equal(leat_board_next(b.board), 3);
    assert_ok(leat_board_publish(b.board, &third, &error));
    bench_free(&b);
}

TEST(a_batch_that_takes_long_is_overtaken_by_any_number)
{
    struct bench b = bench_new(2, 3, 4);
    struct leat_pool *others_pool;
    struct leat_board *other;
    struct leat_board_unit slow, u;
    attach(b.pool, b.board, 1, true, &others_pool, &other);
    publish(b.board, 1, 4, 2);
    assert_true(leat_board_take(other, &slow)); /* and does not end it */
    assert_unit(b.seen, 1, 1, 2, 2);
    uint64_t last = 1;
    for (int i = 0; i < 100; i++) {
        uint64_t serial = leat_board_next(b.board);
        assert_true(serial > last && serial % 3 != 1); /* whose entry is not the slow one's */
        publish(b.board, serial, 1, 1);
        assert_true(leat_board_take(b.seen, &u));
        assert_int_equal(u.batch.serial, serial);
        leat_board_finish(b.seen, &u, false);
        assert_true(leat_board_complete(b.board, serial) && !leat_board_complete(b.board, 1));
        leat_board_retire(b.board, serial);
        last = serial;
    }
    publish(b.board, leat_board_next(b.board), 1, 1);
    publish(b.board, leat_board_next(b.board), 1, 1);
    assert_int_equal(leat_board_next(b.board), 0);
    assert_int_equal(leat_board_requeue(b.board, 1, NULL, NULL), 1);
    assert_unit(b.seen, 1, 0, 0, 2); /* the earliest goes first, however far behind */
    finish_all(b.seen);
    leat_board_free(other);
    leat_pool_free(others_pool);
    bench_free(&b);
}

/* Publishes a batch that is cut by what the board knows, and computes it as if each row took so long. Returns the
 * length of its first unit. */
static uint32_t compute_paced(struct bench *b, uint32_t rows, int64_t ns_per_row, bool by_message)
{
    uint64_t serial = leat_board_next(b->board);
    uint32_t first = 0;
    publish(b->board, serial, rows, 0);
    for (struct leat_board_unit u; leat_board_take(b->seen, &u);) {
        first = first ? first : u.n;
        u.begun_ns -= by_message ? 0 : u.n * ns_per_row;
        leat_board_finish(b->seen, &u, by_message);
        if (by_message)
            leat_board_received(b->board, serial, u.unit, u.n * ns_per_row);
    }
    leat_board_retire(b->board, serial);
    return first;
}

TEST(units_are_cut_by_the_time_that_rows_took)
{
    struct bench b = bench_new(2, 4, 1 << 12); /* its units are to take 1 ms */
    assert_true(leat_board_ns_per_row(b.board) == 0);
    assert_int_equal(compute_paced(&b, 100, 100000, true), 1);
    assert_true(leat_board_ns_per_row(b.board) >= 100000);
    assert_int_equal(leat_board_run(b.board), 10);
    assert_int_equal(compute_paced(&b, 100, 100000, true), 10);
    assert_int_equal(compute_paced(&b, 8, 100000, true), 4); /* both workers have something to do */
    leat_pool_resize(b.pool, 1);
    assert_int_equal(compute_paced(&b, 8, 100000, true), 8);
    for (int i = 0; i < 20; i++)
        compute_paced(&b, 10, 10000000, false);
    assert_int_equal(compute_paced(&b, 100, 10000000, false), 1);
    double before = leat_board_ns_per_row(b.board);
    publish(b.board, leat_board_next(b.board), 10, 5); /* cut by the caller: nothing is learned of it */
    finish_all(b.seen);
    leat_board_retire(b.board, leat_board_next(b.board) - 1);
    assert_true(leat_board_ns_per_row(b.board) == before);
    bench_free(&b);
}

TEST(a_batch_with_an_owner_is_taken_by_nobody_else)
{
    struct bench b = bench_new(2, 4, 4);
    struct leat_pool *pool;
    struct leat_board *other;
    struct leat_board_batch batch = batch_of(1, 2, 1);
    struct leat_error error;
    attach(b.pool, b.board, 1, true, &pool, &other);
    batch.owner = 1;
    assert_ok(leat_board_publish(b.board, &batch, &error));
    publish(b.board, 2, 1, 1);
    assert_unit(b.seen, 2, 0, 0, 1);
    assert_nothing(b.seen);
    assert_unit(other, 1, 0, 0, 1);
    assert_unit(other, 1, 1, 1, 1);
    assert_nothing(other);
    leat_board_free(other);
    leat_pool_free(pool);
    bench_free(&b);
}

TEST(a_closed_board_gives_nothing_more)
{
    struct bench b = bench_new(1, 2, 4);
    publish(b.board, 1, 3, 1);
    assert_unit(b.seen, 1, 0, 0, 1);
    uint32_t seen = leat_pool_seen(b.theirs);
    leat_board_close(b.board);
    assert_true(leat_board_closed(b.seen));
    assert_int_not_equal(leat_pool_seen(b.theirs), seen); /* those that sleep are woken */
    assert_nothing(b.seen);
    bench_free(&b);
}

TEST(sizes_that_no_board_or_pool_has_are_refused)
{
    struct leat_pool *pool;
    struct leat_board *board;
    struct leat_error error;
    assert_int_equal(leat_pool_new(0, &pool, &error), LEAT_E_INVALID);
    assert_int_equal(leat_pool_new(LEAT_POOL_WORKERS + 1, &pool, &error), LEAT_E_INVALID);
    assert_ok(leat_pool_new(LEAT_POOL_WORKERS, &pool, &error));
    const unsigned wrong[][2] = {{0, 1}, {1, 0}, {(1 << 16) + 1, 1}, {1, (1 << 16) + 1}, {UINT32_MAX, UINT32_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(leat_board_new(pool, wrong[i][0], wrong[i][1], 1e6, 1, &board, &error), LEAT_E_INVALID);
        assert_null(board);
    }
    struct leat_pool *theirs;
    assert_int_equal(leat_pool_attach(leat_pool_offset(pool), LEAT_POOL_WORKERS, true, &theirs, &error),
                     LEAT_E_INVALID);
    assert_null(theirs);
    leat_pool_free(pool);
}

/* ---- completing ------------------------------------------------------------------------------ */

TEST(a_batch_is_complete_when_each_unit_is_finished_or_its_message_is_here)
{
    struct bench b = bench_new(1, 2, 4);
    struct leat_board_unit first, second;
    publish(b.board, 1, 2, 1);
    assert_true(leat_board_take(b.seen, &first) && leat_board_take(b.seen, &second));
    leat_board_finish(b.seen, &first, false);
    assert_false(leat_board_complete(b.board, 1));
    leat_board_message(b.seen);
    leat_board_finish(b.seen, &second, true);
    assert_false(leat_board_complete(b.board, 1));
    leat_board_received(b.board, 1, second.unit, 0);
    assert_true(leat_board_complete(b.board, 1));
    bench_free(&b);
}

TEST(a_message_that_is_received_twice_counts_once)
{
    struct bench b = bench_new(1, 2, 4);
    publish(b.board, 1, 2, 1);
    assert_unit(b.seen, 1, 0, 0, 1);
    leat_board_received(b.board, 1, 0, 0);
    leat_board_received(b.board, 1, 0, 0);
    leat_board_received(b.board, 1, 2, 0); /* it has no such unit */
    leat_board_received(b.board, 1, UINT32_MAX, 0);
    assert_false(leat_board_complete(b.board, 1));
    bench_free(&b);
}

TEST(what_is_said_of_a_batch_that_is_not_in_flight_has_no_effect)
{
    struct bench b = bench_new(1, 2, 4);
    struct leat_error error;
    uint64_t buffer = 4096;
    publish(b.board, 1, 1, 1);
    finish_all(b.seen);
    leat_board_retire(b.board, 1);
    publish(b.board, 2, 2, 1);
    publish(b.board, 3, 2, 1); /* in the entry of the first */
    const uint64_t others[] = {0, 1, 4, 5, UINT64_MAX};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        leat_board_received(b.board, others[i], 0, 0);
        leat_board_retire(b.board, others[i]);
        assert_true(leat_board_cancel(b.board, others[i]));
        assert_int_equal(leat_board_spent_ns(b.board, others[i]), 0);
        assert_int_equal(leat_board_place(b.board, others[i], 1, &buffer, 1, &error), LEAT_E_INVALID);
    }
    assert_true(leat_board_complete(b.board, 1));
    assert_false(leat_board_complete(b.board, 0));
    assert_false(leat_board_complete(b.board, 4));
    assert_false(leat_board_complete(b.board, 3));
    assert_unit(b.seen, 2, 0, 0, 1);
    assert_unit(b.seen, 2, 1, 1, 1);
    assert_unit(b.seen, 3, 0, 0, 1);
    assert_unit(b.seen, 3, 1, 1, 1);
    bench_free(&b);
}

TEST(a_finish_that_comes_after_the_entry_was_given_on_does_not_count_for_the_next_batch)
{
    struct bench b = bench_new(2, 1, 4);
    struct leat_board_unit late;
    publish(b.board, 1, 1, 1);
    assert_true(leat_board_take(b.seen, &late));
    leat_board_message(b.seen);
    leat_board_received(b.board, 1, 0, 0);
    leat_board_retire(b.board, 1);
    publish(b.board, 2, 1, 1);
    leat_board_finish(b.seen, &late, true);
    assert_false(leat_board_complete(b.board, 2));
    assert_unit(b.seen, 2, 0, 0, 1);
    bench_free(&b);
}

/* ---- places given later ---------------------------------------------------------------------- */

TEST(a_place_given_later_is_for_the_units_taken_from_then_on)
{
    struct bench b = bench_new(1, 2, 4);
    struct leat_error error;
    struct leat_board_unit before, after;
    uint64_t buffers[] = {4096, 8192, 12288};
    publish(b.board, 1, 2, 1);
    assert_true(leat_board_take(b.seen, &before));
    assert_int_equal(before.batch.layout, 0);
    assert_int_equal(leat_board_place(b.board, 1, 0, buffers, 3, &error), LEAT_E_INVALID);
    assert_int_equal(leat_board_place(b.board, 1, 9, buffers, LEAT_BOARD_BUFFERS + 1, &error), LEAT_E_INVALID);
    assert_ok(leat_board_place(b.board, 1, 9, buffers, 3, &error));
    assert_true(leat_board_take(b.seen, &after));
    assert_int_equal(after.batch.layout, 9);
    assert_int_equal(after.batch.n_buffers, 3);
    assert_memory_equal(after.batch.buffers, buffers, sizeof buffers);
    assert_int_equal(leat_board_place(b.board, 1, 10, buffers, 1, &error), LEAT_E_INVALID); /* once */
    bench_free(&b);
}

TEST(the_next_batch_of_an_entry_knows_nothing_of_a_place_given_before)
{
    struct bench b = bench_new(1, 1, 4);
    struct leat_error error;
    struct leat_board_unit u;
    uint64_t buffer = 4096;
    publish(b.board, 1, 1, 1);
    assert_ok(leat_board_place(b.board, 1, 9, &buffer, 1, &error));
    finish_all(b.seen);
    leat_board_retire(b.board, 1);
    publish(b.board, 2, 1, 1);
    assert_true(leat_board_take(b.seen, &u));
    assert_int_equal(u.batch.layout, 0);
    assert_int_equal(u.batch.n_buffers, 0);
    bench_free(&b);
}

/* ---- cancelling and requeueing --------------------------------------------------------------- */

TEST(cancelling_takes_queued_units_away_and_says_whether_any_runs)
{
    struct bench b = bench_new(1, 2, 4);
    struct leat_board_unit running;
    publish(b.board, 1, 3, 1);
    publish(b.board, 2, 3, 1);
    assert_true(leat_board_take(b.seen, &running));
    assert_false(leat_board_cancel(b.board, 1));
    assert_true(leat_board_cancel(b.board, 2));
    assert_nothing(b.seen);
    assert_false(leat_board_complete(b.board, 1));
    assert_true(leat_board_complete(b.board, 2));
    leat_board_finish(b.seen, &running, false);
    assert_true(leat_board_complete(b.board, 1));
    assert_true(leat_board_cancel(b.board, 1));
    bench_free(&b);
}

TEST(what_a_worker_had_taken_is_queued_again_and_only_that)
{
    struct bench b = bench_new(2, 4, 8);
    struct leat_pool *pool;
    struct leat_board *other;
    struct leat_board_unit u;
    attach(b.pool, b.board, 1, true, &pool, &other);
    publish(b.board, 1, 4, 1);
    publish(b.board, 2, 2, 1);
    assert_unit(other, 1, 0, 0, 1);
    assert_unit(b.seen, 1, 1, 1, 1);
    assert_true(leat_board_take(other, &u));
    leat_board_finish(other, &u, false);
    assert_unit(b.seen, 1, 3, 3, 1);
    assert_unit(b.seen, 2, 0, 0, 1);
    uint32_t seen = leat_pool_seen(b.theirs);
    assert_int_equal(leat_board_requeue(b.board, 0, NULL, NULL), 3);
    assert_int_not_equal(leat_pool_seen(b.theirs), seen);
    assert_unit(other, 1, 1, 1, 1);
    assert_unit(other, 1, 3, 3, 1);
    assert_unit(other, 2, 0, 0, 1);
    assert_unit(other, 2, 1, 1, 1);
    assert_nothing(other);
    assert_int_equal(leat_board_requeue(b.board, 0, NULL, NULL), 0);
    leat_board_free(other);
    leat_pool_free(pool);
    bench_free(&b);
}

TEST(a_dead_workers_units_of_a_cancelled_batch_are_done)
{
    struct bench b = bench_new(1, 2, 4);
    publish(b.board, 1, 3, 1);
    publish(b.board, 2, 1, 1);
    assert_unit(b.seen, 1, 0, 0, 1);
    assert_unit(b.seen, 1, 1, 1, 1);
    assert_false(leat_board_cancel(b.board, 1));
    assert_int_equal(leat_board_requeue(b.board, 0, NULL, NULL), 2);
    assert_true(leat_board_complete(b.board, 1));
    assert_unit(b.seen, 2, 0, 0, 1);
    assert_nothing(b.seen);
    bench_free(&b);
}

struct told {
    struct leat_board *board; /* not NULL: the batch is cancelled */
    unsigned n;
    uint64_t serial;
    uint32_t row;
};

static void tell(void *user, uint64_t serial, uint32_t row)
{
    struct told *t = user;
    *t = (struct told){t->board, t->n + 1, serial, row};
    if (t->board)
        leat_board_cancel(t->board, serial);
}

/* A worker takes a unit, and dies at this row of it. */
static void die_at(struct bench *b, uint32_t row, struct told *t)
{
    struct leat_board_unit u;
    assert_true(leat_board_take(b->seen, &u));
    leat_board_at_row(b->seen, row);
    assert_int_equal(leat_board_requeue(b->board, 0, tell, t), 1);
    leat_pool_forget(b->pool, 0);
}

TEST(the_caller_is_told_of_a_row_each_time_it_has_ended_three_workers)
{
    struct bench b = bench_new(1, 2, 4);
    struct told t = {0};
    publish(b.board, 1, 4, 4);
    for (unsigned deaths = 1; deaths <= 3 * LEAT_BOARD_KILLS; deaths++) {
        die_at(&b, 2, &t);
        assert_int_equal(t.n, deaths / LEAT_BOARD_KILLS);
        die_at(&b, deaths % 2 ? 0 : UINT32_MAX, &(struct told){0}); /* other rows, or none, are not to blame for it */
    }
    assert_int_equal(t.serial, 1);
    assert_int_equal(t.row, 2);
    bench_free(&b);
}

TEST(a_batch_cancelled_for_a_row_that_ended_workers_is_complete)
{
    struct bench b = bench_new(1, 1, 4);
    struct told t = {.board = b.board};
    publish(b.board, 1, 2, 1);
    for (unsigned deaths = 0; deaths < LEAT_BOARD_KILLS; deaths++)
        die_at(&b, 0, &t);
    assert_int_equal(t.n, 1);
    assert_true(leat_board_complete(b.board, 1));
    leat_board_retire(b.board, 1);
    t.n = 0;
    publish(b.board, 2, 2, 1);
    die_at(&b, 0, &t); /* the first of this batch */
    assert_int_equal(t.n, 0);
    bench_free(&b);
}

TEST(a_requeued_unit_is_found_again_whatever_was_taken_since)
{
    enum { UNITS = 6 };
    struct bench b = bench_new(2, 1, UNITS);
    struct leat_pool *pool;
    struct leat_board *dying;
    attach(b.pool, b.board, 1, true, &pool, &dying);
    for (uint64_t serial = 1; serial <= UNITS * UNITS; serial++) { /* dies with unit i, after j units of the others' */
        uint32_t i = (uint32_t)(serial - 1) % UNITS, j = (uint32_t)(serial - 1) / UNITS, left = UNITS;
        struct leat_board_unit u;
        publish(b.board, serial, UNITS, 1);
        for (uint32_t k = 0; k < i; k++, left--) {
            assert_true(leat_board_take(b.seen, &u));
            leat_board_finish(b.seen, &u, false);
        }
        assert_true(leat_board_take(dying, &u));
        for (uint32_t k = 0; k < j && leat_board_take(b.seen, &u); k++, left--)
            leat_board_finish(b.seen, &u, false);
        if (j == UNITS - 1)
            assert_nothing(b.seen); /* they looked, and found all taken */
        assert_int_equal(leat_board_requeue(b.board, 1, NULL, NULL), 1);
        for (; left; left--) {
            assert_true(leat_board_take(b.seen, &u));
            leat_board_finish(b.seen, &u, false);
        }
        assert_nothing(b.seen);
        assert_true(leat_board_complete(b.board, serial));
        leat_board_retire(b.board, serial);
    }
    leat_board_free(dying);
    leat_pool_free(pool);
    bench_free(&b);
}

/* ---- what is known of workers ---------------------------------------------------------------- */

TEST(the_pool_knows_what_a_worker_works_on)
{
    struct bench b = bench_new(2, 2, 4);
    struct leat_board_unit u;
    struct leat_pool_worker w;
    publish(b.board, 1, 7, 3);
    leat_pool_worker(b.pool, 0, &w);
    assert_int_equal(w.serial, 0);
    assert_true(leat_board_take(b.seen, &u) && leat_board_take(b.seen, &u));
    leat_pool_worker(b.pool, 0, &w);
    assert_int_equal(w.serial, 1);
    assert_int_equal(w.board, leat_board_offset(b.board));
    assert_int_equal(w.row, 3);
    assert_int_equal(w.units, 2);
    leat_board_at_row(b.seen, 5);
    leat_pool_worker(b.pool, 0, &w);
    assert_int_equal(w.row, 5);
    leat_board_finish(b.seen, &u, false);
    leat_pool_worker(b.pool, 0, &w);
    assert_int_equal(w.serial, 0);
    assert_true(leat_board_take(b.seen, &u));
    leat_pool_forget(b.pool, 0);
    leat_pool_worker(b.pool, 0, &w);
    assert_int_equal(w.serial, 0);
    leat_pool_forget(b.pool, 2);
    leat_pool_worker(b.pool, UINT32_MAX, &w); /* there is none */
    assert_int_equal(w.units, 0);
    bench_free(&b);
}

TEST(messages_are_counted_by_worker_and_in_all)
{
    struct bench b = bench_new(2, 2, 4);
    struct leat_pool *pool;
    struct leat_board *other;
    struct leat_pool_worker w;
    attach(b.pool, b.board, 1, true, &pool, &other);
    uint32_t seen = leat_board_seen(b.board);
    leat_board_message(b.seen);
    assert_int_not_equal(leat_board_seen(b.board), seen);
    leat_board_message(other);
    leat_board_message(other);
    assert_int_equal(leat_pool_messages(b.pool), 3);
    leat_pool_worker(b.pool, 1, &w);
    assert_int_equal(w.messages, 2);
    leat_pool_forget(b.pool, 1);
    assert_int_equal(leat_pool_messages(b.pool), 3);
    leat_board_free(other);
    leat_pool_free(pool);
    bench_free(&b);
}

TEST(time_is_counted_for_the_batch_and_by_weight_for_the_board)
{
    const uint64_t second = 1000000000;
    struct bench b = bench_new(1, 2, 4);
    struct leat_board *heavy, *theirs;
    struct leat_board_unit u;
    struct leat_error error;
    assert_ok(leat_board_new(b.pool, 2, 4, 1e6, 4, &heavy, &error));
    assert_ok(leat_board_attach(b.theirs, leat_board_offset(heavy), true, &theirs, &error));
    publish(b.board, 1, 1, 1);
    publish(heavy, 1, 1, 1);
    struct leat_board *boards[] = {b.seen, theirs};
    for (int i = 0; i < 2; i++) {
        assert_true(leat_board_take(boards[i], &u));
        u.begun_ns -= (int64_t)second; /* as if it had taken that long */
        leat_board_finish(boards[i], &u, false);
    }
    assert_true(leat_board_spent_ns(heavy, 1) >= (int64_t)second);
    assert_true(leat_board_served_ns(b.board) >= second);
    assert_true(leat_board_served_ns(heavy) >= second / 4 &&
                leat_board_served_ns(heavy) < leat_board_served_ns(b.board));
    leat_board_start_at(heavy, 5 * second);
    assert_int_equal(leat_board_served_ns(theirs), 5 * second);
    leat_board_free(theirs);
    leat_board_free(heavy);
    bench_free(&b);
}

TEST_MAIN()
