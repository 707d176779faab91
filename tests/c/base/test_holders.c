/* References of processes that are killed while they hold them. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../test.h"
#include "base/holders.h"
#include "base/random.h"

enum { ROWS = 6, PLACES = 8, STEP = 4096 };

struct shared {
    _Atomic uint64_t sure[ROWS]; /* of each child: the place + 1 that it holds at this moment, for sure; else 0 */
    struct leat_holders table;
};

static struct shared *map(void)
{
    struct shared *s =
        mmap(NULL, sizeof *s + leat_holders_bytes(ROWS), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(s != MAP_FAILED);
    s->table.n = ROWS;
    return s;
}

static void unmap(struct shared *s)
{
    munmap(s, sizeof *s + leat_holders_bytes(ROWS));
}

static bool have(struct shared *s, uint64_t place)
{
    return leat_holders_have(&s->table, place * STEP, (place + 1) * STEP);
}

/* A child that takes and gives back references until it is killed. */
static pid_t start_holder(struct shared *s, unsigned number)
{
    atomic_store(&s->sure[number], 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid)
        return pid;
    struct leat_holder *row = leat_holders_join(&s->table);
    for (uint64_t i = 0; row; i++) {
        const uint64_t place = leat_draw_below(number + 1, i, PLACES),
                       other = leat_draw_below(number + 1, i + 7, PLACES);
        if (!leat_holder_hold(row, place * STEP) || !leat_holder_hold(row, other * STEP + 100))
            break;
        atomic_store(&s->sure[number], place + 1);
        atomic_store(&s->sure[number], 0);
        leat_holder_drop(row, place * STEP);
        leat_holder_drop(row, other * STEP + 100);
    }
    _exit(1);
}

static void bury(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(what_killed_processes_held_is_taken_back_and_what_others_hold_is_not)
{
    enum { KILLS = 300, N = 3 };
    struct shared *s = map();
    pid_t pids[N];
    for (unsigned i = 0; i < N; i++)
        pids[i] = start_holder(s, i);
    for (unsigned turn = 0; turn < KILLS / test_every(3); turn++) {
        const unsigned victim = turn % N;
        usleep((useconds_t)leat_draw_below(9, turn, 400)); /* anywhere in what it does */
        assert_int_equal(kill(pids[victim], SIGSTOP), 0);
        int status;
        assert_int_equal(waitpid(pids[victim], &status, WUNTRACED), pids[victim]);
        assert_true(WIFSTOPPED(status));
        const uint64_t sure = atomic_load(&s->sure[victim]);
        if (sure)
            assert_true(have(s, sure - 1)); /* it cannot let go now */
        assert_int_equal(kill(pids[victim], SIGKILL), 0);
        if (turn % 2) /* also before anybody has waited for it */
            bury(pids[victim]);
        for (uint64_t place = 0; place < PLACES; place++)
            have(s, place);
        if (turn % 2 == 0)
            bury(pids[victim]);
        pids[victim] = start_holder(s, victim);
    }
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(kill(pids[i], SIGKILL), 0);
        bury(pids[i]);
    }
    for (uint64_t place = 0; place < PLACES; place++)
        assert_false(have(s, place));
    for (uint32_t i = 0; i < ROWS; i++) /* none of them is lost */
        assert_non_null(leat_holders_join(&s->table));
    assert_null(leat_holders_join(&s->table));
    unmap(s);
}

TEST(a_number_that_another_process_has_by_now_holds_nothing)
{
    struct shared *s = map();
    struct leat_holder *row = leat_holders_join(&s->table);
    assert_true(leat_holder_hold(row, 5 * STEP));
    assert_true(have(s, 5));
    assert_false(have(s, 4));
    assert_false(have(s, 6));
    atomic_fetch_add(&row->who, 1); /* this process, but begun at another time */
    assert_false(have(s, 5));
    assert_int_equal(atomic_load(&row->who), 0);
    unmap(s);
}

TEST(references_are_counted_and_only_a_full_table_has_no_room)
{
    struct shared *s = map();
    struct leat_holder *row = leat_holders_join(&s->table);
    assert_true(leat_holder_hold(row, 0) && leat_holder_hold(row, 0));
    leat_holder_drop(row, 0);
    assert_true(have(s, 0));
    leat_holder_drop(row, 0);
    assert_false(have(s, 0));
    enum { MOST = ROWS * LEAT_HOLDER_ROOM };
    for (unsigned i = 0; i < MOST; i++)
        assert_true(leat_holder_hold(row, i * STEP));
    assert_false(leat_holder_hold(row, MOST * STEP));
    assert_null(leat_holders_join(&s->table));
    for (unsigned i = 0; i < MOST; i++) {
        assert_true(have(s, i));
        leat_holder_drop(row, i * STEP);
        assert_false(have(s, i));
    }
    assert_true(leat_holder_hold(row, 0));
    leat_holder_leave(row);
    assert_false(have(s, 0));
    for (unsigned i = 0; i < ROWS; i++)
        assert_non_null(leat_holders_join(&s->table)); /* all of its rows are free */
    unmap(s);
}

TEST_MAIN()
