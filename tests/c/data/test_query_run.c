/* Blocks on threads: each once, and an end of its own for whatever goes wrong. */
#include <stdatomic.h>

#include "../test.h"
#include "base/error.h"
#include "data/query.h"

enum { BLOCKS = 500 };

struct work {
    atomic_uint seen[BLOCKS];
    atomic_uint started, ended;
    uint64_t fails_from; /* these and later blocks fail */
    bool start_fails;
    uint64_t stops_at; /* the block during which somebody stops it */
    struct leat_query_stop stop;
};

static int start(void *user, bool asks, void **state, struct leat_error *error)
{
    struct work *w = user;
    atomic_fetch_add(&w->started, 1);
    *state = w;
    return w->start_fails ? leat_fail(error, LEAT_E_NOMEM, "no start") : LEAT_OK;
}

static int run(void *user, void *state, uint64_t block, struct leat_error *error)
{
    struct work *w = user;
    assert_ptr_equal(state, user);
    atomic_fetch_add(&w->seen[block], 1);
    if (block == w->stops_at)
        atomic_store(&w->stop.stopped, true);
    return block >= w->fails_from ? leat_fail(error, LEAT_E_CORRUPT, "block %" PRIu64, block) : LEAT_OK;
}

static void end(void *user, void *state)
{
    struct work *w = user;
    atomic_fetch_add(&w->ended, 1);
}

static int go(struct work *w, uint64_t n, struct leat_error *error)
{
    const struct leat_query_job job = {w, start, run, end};
    const int rc = leat_query_run(&job, n, &w->stop, error);
    assert_int_equal(atomic_load(&w->started), atomic_load(&w->ended));
    return rc;
}

TEST(each_block_runs_once)
{
    struct leat_error error;
    struct work w = {.fails_from = UINT64_MAX, .stops_at = UINT64_MAX};
    assert_ok(go(&w, BLOCKS, &error));
    for (size_t i = 0; i < BLOCKS; i++)
        assert_int_equal(atomic_load(&w.seen[i]), 1);
}

TEST(no_blocks_are_fine)
{
    struct leat_error error;
    struct work w = {.fails_from = UINT64_MAX, .stops_at = UINT64_MAX};
    assert_ok(go(&w, 0, &error));
    assert_int_equal(atomic_load(&w.started), 1);
}

TEST(the_error_is_that_of_the_lowest_block_that_failed)
{
    for (int i = 0; i < 50; i++) {
        struct leat_error error;
        struct work w = {.fails_from = 40, .stops_at = UINT64_MAX};
        assert_int_equal(go(&w, BLOCKS, &error), LEAT_E_CORRUPT);
        assert_string_equal(error.message, "block 40");
        assert_int_equal(go(&(struct work){.fails_from = 40, .stops_at = UINT64_MAX}, BLOCKS, NULL), LEAT_E_CORRUPT);
    }
}

TEST(a_query_that_is_stopped_is_no_success)
{
    struct leat_error error;
    struct work w = {.fails_from = UINT64_MAX, .stops_at = 20};
    assert_int_equal(go(&w, BLOCKS, &error), LEAT_E_CANCELLED);
    assert_int_equal(atomic_load(&w.seen[BLOCKS - 1]), 0);
}

TEST(a_thread_that_cannot_start_ends_the_query)
{
    struct leat_error error;
    struct work w = {.fails_from = UINT64_MAX, .stops_at = UINT64_MAX, .start_fails = true};
    assert_int_equal(go(&w, BLOCKS, &error), LEAT_E_NOMEM);
    assert_string_equal(error.message, "no start");
}

TEST_MAIN()
