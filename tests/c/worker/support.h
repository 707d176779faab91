/* What the tests of workers share: a pool with one board, batches of a plain shape, and children that are processes. */
#ifndef LEAT_TESTS_WORKER_SUPPORT_H
#define LEAT_TESTS_WORKER_SUPPORT_H

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../test.h"
#include "worker/worker.h"

/* A pool and a board, and the first worker's view of both, as a thread of this process. */
struct bench {
    struct leat_pool *pool, *theirs;
    struct leat_board *board, *seen;
};

static inline void attach(struct leat_pool *pool, struct leat_board *board, unsigned worker, bool thread,
                          struct leat_pool **theirs, struct leat_board **seen)
{
    struct leat_error error;
    assert_ok(leat_pool_attach(leat_pool_offset(pool), worker, thread, theirs, &error));
    assert_ok(leat_board_attach(*theirs, leat_board_offset(board), thread, seen, &error));
}

static inline struct bench bench_new(unsigned workers, unsigned entries, unsigned units)
{
    struct bench b;
    struct leat_error error;
    assert_ok(leat_pool_new(workers, &b.pool, &error));
    assert_ok(leat_board_new(b.pool, entries, units, 1e6, 1, &b.board, &error));
    attach(b.pool, b.board, 0, true, &b.theirs, &b.seen);
    return b;
}

static inline void bench_free(struct bench *b)
{
    leat_board_free(b->seen);
    leat_pool_free(b->theirs);
    leat_board_free(b->board);
    leat_pool_free(b->pool);
}

static inline struct leat_board_batch batch_of(uint64_t serial, uint32_t rows, uint32_t run)
{
    return (struct leat_board_batch){.serial = serial, .rows = rows, .run = run, .owner = -1};
}

static inline void publish(struct leat_board *board, uint64_t serial, uint32_t rows, uint32_t run)
{
    struct leat_board_batch batch = batch_of(serial, rows, run);
    struct leat_error error;
    assert_ok(leat_board_publish(board, &batch, &error));
}

/* An assertion in a child process, which cmocka does not see fail. */
#define child_assert(condition)                                                                                        \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: in a child: %s\n", __FILE__, __LINE__, #condition);                                \
            _exit(3);                                                                                                  \
        }                                                                                                              \
    } while (0)

/* Runs function(argument) in a child, which ends with 0 when it returns. */
static inline pid_t start_child(void (*function)(void *argument), void *argument)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid)
        return pid;
    function(argument);
    _exit(0);
}

/* The exit code of a child, or minus the signal that ended it. */
static inline int end_of(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

#endif
