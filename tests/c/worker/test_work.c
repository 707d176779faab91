/* The board's record of who worked on a unit, and when. */
#include "base/clock.h"
#include "support.h"

static struct leat_board_work work_of(const struct leat_board *board, uint64_t serial, uint32_t unit)
{
    struct leat_board_work w;
    assert_true(leat_board_work(board, serial, unit, &w));
    return w;
}

TEST(a_unit_tells_who_had_it_from_when_to_when)
{
    struct bench b = bench_new(2, 2, 4);
    struct leat_board_unit u;
    const int64_t before = leat_clock_ns();
    publish(b.board, 1, 5, 2);
    assert_int_equal(leat_board_units(b.board, 1), 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(leat_board_take(b.seen, &u));
        assert_int_equal(work_of(b.board, 1, i).ended_ns, 0);
        leat_board_finish(b.seen, &u, false);
        const struct leat_board_work w = work_of(b.board, 1, i);
        assert_true(before <= w.begun_ns && w.begun_ns <= w.ended_ns && w.ended_ns <= leat_clock_ns());
        assert_int_equal(w.idle_ns, 0);
        assert_int_equal(w.worker, 0);
        assert_int_equal(w.process, getpid());
        assert_int_equal(w.thread, gettid());
        assert_int_equal(w.first, 2 * i);
        assert_int_equal(w.n, i < 2 ? 2 : 1);
    }
    bench_free(&b);
}

TEST(units_that_nobody_has_taken_tell_nothing)
{
    struct bench b = bench_new(1, 1, 4);
    struct leat_board_unit u;
    struct leat_board_work w;
    publish(b.board, 1, 2, 1);
    assert_true(leat_board_take(b.seen, &u));
    leat_board_finish(b.seen, &u, false);
    assert_true(leat_board_work(b.board, 1, 0, &w));
    assert_false(leat_board_work(b.board, 1, 1, &w));
    assert_false(leat_board_work(b.board, 1, 2, &w));
    assert_true(leat_board_cancel(b.board, 1));
    assert_false(leat_board_work(b.board, 1, 1, &w));
    leat_board_retire(b.board, 1);
    assert_false(leat_board_work(b.board, 1, 0, &w));
    assert_int_equal(leat_board_units(b.board, 1), 0);
    publish(b.board, 2, 2, 1); /* in its entry */
    assert_false(leat_board_work(b.board, 2, 0, &w));
    bench_free(&b);
}

TEST(work_ends_with_its_message_and_nothing_is_written_after)
{
    struct bench b = bench_new(2, 1, 4);
    struct leat_pool *theirs;
    struct leat_board *seen;
    struct leat_board_unit late, u;
    attach(b.pool, b.board, 1, true, &theirs, &seen);
    publish(b.board, 1, 1, 1);
    assert_true(leat_board_take(b.seen, &late));
    leat_board_message(b.seen);
    const struct leat_board_work w = work_of(b.board, 1, 0);
    assert_true(w.begun_ns <= w.ended_ns);
    leat_board_received(b.board, 1, 0, 0);
    assert_int_equal(work_of(b.board, 1, 0).ended_ns, w.ended_ns);
    leat_board_retire(b.board, 1);
    publish(b.board, 2, 1, 1);
    assert_true(leat_board_take(seen, &u));
    leat_board_finish(b.seen, &late, true);
    assert_int_equal(work_of(b.board, 2, 0).ended_ns, 0);
    assert_int_equal(work_of(b.board, 2, 0).worker, 1);
    leat_board_free(seen);
    leat_pool_free(theirs);
    bench_free(&b);
}

TEST(a_worker_that_slept_says_since_when)
{
    struct bench b = bench_new(1, 2, 4);
    struct leat_board_unit u;
    const int64_t before = leat_clock_ns();
    leat_pool_sleep(b.theirs, leat_pool_seen(b.theirs), 1);
    const int64_t between = leat_clock_ns();
    leat_pool_sleep(b.theirs, leat_pool_seen(b.theirs), 1); /* it still waits for the same */
    publish(b.board, 1, 2, 1);
    assert_true(leat_board_take(b.seen, &u));
    leat_board_finish(b.seen, &u, false);
    assert_true(leat_board_take(b.seen, &u));
    const struct leat_board_work w = work_of(b.board, 1, 0);
    assert_true(before <= w.idle_ns && w.idle_ns <= between && between <= w.begun_ns);
    assert_int_equal(work_of(b.board, 1, 1).idle_ns, 0);
    bench_free(&b);
}

static void take_and_die(void *argument)
{
    struct bench *b = argument;
    struct leat_board_unit u;
    struct leat_pool *theirs;
    struct leat_board *seen;
    attach(b->pool, b->board, 1, false, &theirs, &seen);
    child_assert(leat_board_take(seen, &u));
    raise(SIGKILL);
}

TEST(what_a_worker_died_at_is_known_until_another_takes_it)
{
    struct bench b = bench_new(2, 2, 4);
    struct leat_board_unit u;
    struct leat_board_work w;
    publish(b.board, 1, 1, 1);
    const pid_t child = start_child(take_and_die, &b);
    assert_int_equal(end_of(child), -SIGKILL);
    w = work_of(b.board, 1, 0);
    assert_int_equal(w.worker, 1);
    assert_int_equal(w.process, child);
    assert_int_equal(w.ended_ns, 0);
    assert_int_equal(leat_board_requeue(b.board, 1, NULL, NULL), 1);
    assert_false(leat_board_work(b.board, 1, 0, &w));
    assert_true(leat_board_take(b.seen, &u));
    assert_int_equal(work_of(b.board, 1, 0).worker, 0);
    assert_int_equal(work_of(b.board, 1, 0).process, getpid());
    leat_board_finish(b.seen, &u, false);
    bench_free(&b);
}

TEST_MAIN()
