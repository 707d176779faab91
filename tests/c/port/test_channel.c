/* A channel between two processes: what is given arrives, what is returned comes back, and nobody sleeps for ever. */
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../test.h"
#include "base/random.h"
#include "port/channel.h"

#define ROUNDS 1000000u
#define SLOTS 24u
#define LONG_MS TEST_HANG_MS

struct pair {
    struct leat_channel *channel;
    int fd, wake;
};

static struct pair pair_new(void)
{
    struct pair p;
    struct leat_error error;
    assert_ok(leat_channel_new(&p.channel, &p.fd, &error));
    p.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(p.wake >= 0);
    return p;
}

static void pair_free(struct pair *p)
{
    leat_channel_unmap(p->channel);
    close(p->fd);
    close(p->wake);
}

static pid_t start(int (*function)(struct pair *p), struct pair *p)
{
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        alarm(LONG_MS / 1000);
        _exit(function(p));
    }
    return pid;
}

static int end_of(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void pause_sometimes(uint64_t t, uint64_t who)
{
    if (!leat_draw_below(t, who, 20000))
        nanosleep(&(struct timespec){0, (long)leat_draw_below(t, who + 7, 200000)}, NULL);
}

static void ring(struct pair *p, uint32_t out, bool all)
{
    if (leat_channel_should_wake(p->channel, out, all))
        (void)!write(p->wake, &(uint64_t){1}, sizeof(uint64_t));
}

/* Takes ROUNDS entries, holds some, and returns them in an order of its own. 0: they were the right ones. */
static int consume(struct pair *p)
{
    struct leat_channel *c = p->channel;
    uint32_t held[SLOTS], n_held = 0, returned = 0;
    for (uint32_t taken = 0; taken < ROUNDS;) {
        if (atomic_load(&c->n_given) == taken) {
            while (n_held) { /* or the port has nothing left to give */
                leat_channel_return(c, held[--n_held]);
                returned++;
            }
            ring(p, taken - returned, true);
            leat_channel_wait(c, taken, LONG_MS * INT64_C(1000000));
            continue;
        }
        const struct leat_given given = c->given[taken % LEAT_CHANNEL_RING];
        if (given.offset != taken || given.bytes != ~(uint64_t)taken || given.slot >= SLOTS)
            return 1;
        for (uint32_t i = 0; i < n_held; i++)
            if (held[i] == given.slot)
                return 2;
        held[n_held++] = given.slot;
        taken++;
        pause_sometimes(taken, 1);
        while (n_held && leat_draw_below(taken, n_held, 3)) {
            const uint32_t i = (uint32_t)leat_draw_below(taken, n_held + 100, n_held);
            const uint32_t slot = held[i];
            held[i] = held[--n_held];
            leat_channel_return(c, slot);
            returned++;
            ring(p, taken - returned, false);
        }
    }
    while (n_held) {
        leat_channel_return(c, held[--n_held]);
        ring(p, n_held, true);
    }
    return 0;
}

/* Takes back what has come, and notes it. False: a slot came back that was not out. */
static bool take_back(struct leat_channel *c, uint32_t *seen, bool *out, uint32_t *n_out)
{
    for (const uint32_t n = atomic_load(&c->n_returned); *seen != n; (*seen)++) {
        const uint32_t slot = atomic_load(&c->returned[*seen % LEAT_CHANNEL_RING]);
        if (slot >= SLOTS || !out[slot])
            return false;
        out[slot] = false;
        (*n_out)--;
    }
    return true;
}

/* Sleeps until something has come back. */
static void starve(struct pair *p, uint32_t *seen, bool *out, uint32_t *n_out)
{
    struct pollfd poll_it = {.fd = p->wake, .events = POLLIN};
    uint64_t rung;
    atomic_store(&p->channel->credit, *n_out);
    atomic_store(&p->channel->starved, 1);
    const uint32_t before = *n_out;
    assert_true(take_back(p->channel, seen, out, n_out));
    if (*n_out != before)
        return;
    assert_int_equal(poll(&poll_it, 1, LONG_MS), 1);
    assert_int_equal(read(p->wake, &rung, sizeof rung), sizeof rung);
    assert_true(take_back(p->channel, seen, out, n_out));
}

TEST(a_million_batches_are_given_and_returned_with_pauses_on_both_sides)
{
    struct pair p = pair_new();
    bool out[SLOTS] = {false};
    uint32_t n_out = 0, seen = 0, slot = 0;
    const pid_t consumer = start(consume, &p);
    for (uint32_t t = 0; t < ROUNDS; t++) {
        assert_true(take_back(p.channel, &seen, out, &n_out));
        while (n_out == SLOTS)
            starve(&p, &seen, out, &n_out);
        while (out[slot])
            slot = (slot + 1) % SLOTS;
        out[slot] = true;
        n_out++;
        leat_channel_give(p.channel, &(struct leat_given){.offset = t, .bytes = ~(uint64_t)t, .slot = slot});
        pause_sometimes(t, 2);
    }
    while (n_out)
        starve(&p, &seen, out, &n_out);
    assert_int_equal(end_of(consumer), 0);
    pair_free(&p);
}

static int sleep_until_given(struct pair *p)
{
    while (!atomic_load(&p->channel->n_given) && !atomic_load(&p->channel->ended))
        leat_channel_wait(p->channel, 0, LONG_MS * INT64_C(1000000));
    return atomic_load(&p->channel->ended) ? 2 : 0;
}

static void wait_until_it_sleeps(struct leat_channel *c)
{
    while (!atomic_load(&c->sleeping))
        nanosleep(&(struct timespec){0, 1000000}, NULL);
}

TEST(a_consumer_that_sleeps_is_woken_when_something_is_given)
{
    struct pair p = pair_new();
    const pid_t consumer = start(sleep_until_given, &p);
    wait_until_it_sleeps(p.channel);
    leat_channel_give(p.channel, &(struct leat_given){.slot = 1});
    assert_int_equal(end_of(consumer), 0);
    pair_free(&p);
}

/* Each time at another moment of its falling asleep. */
TEST(a_consumer_that_falls_asleep_while_the_port_ends_is_woken)
{
    for (uint64_t t = 0; t < 300; t++) {
        struct pair p = pair_new();
        const pid_t consumer = start(sleep_until_given, &p);
        if (t % 3)
            wait_until_it_sleeps(p.channel);
        for (volatile uint64_t spin = leat_draw_below(5, t, 3000); spin; spin--) {
        }
        leat_channel_end(p.channel);
        assert_int_equal(end_of(consumer), 2);
        pair_free(&p);
    }
}

static int sleep_for_ever(struct pair *p)
{
    while (!atomic_load(&p->channel->ended))
        leat_channel_wait(p->channel, atomic_load(&p->channel->n_given), LONG_MS * INT64_C(1000000));
    return 0;
}

TEST(a_consumer_that_died_sleeping_does_not_hold_the_port_up)
{
    struct pair p = pair_new();
    const pid_t consumer = start(sleep_for_ever, &p);
    wait_until_it_sleeps(p.channel);
    kill(consumer, SIGKILL);
    assert_int_equal(end_of(consumer), -SIGKILL);
    for (uint32_t t = 0; t < 2 * LEAT_CHANNEL_RING; t++)
        leat_channel_give(p.channel, &(struct leat_given){.slot = t});
    assert_int_equal(atomic_load(&p.channel->n_given), 2 * LEAT_CHANNEL_RING);
    assert_int_equal(atomic_load(&p.channel->sleeping), 0); /* one wake for the first; none for the others */
    leat_channel_end(p.channel);
    pair_free(&p);
}

TEST(waiting_ends_after_its_time)
{
    struct pair p = pair_new();
    leat_channel_wait(p.channel, 0, 1000000);
    leat_channel_wait(p.channel, 0, 0);
    assert_int_equal(atomic_load(&p.channel->sleeping), 0);
    pair_free(&p);
}

TEST(the_port_is_woken_when_half_has_come_back_or_when_the_consumer_says_so)
{
    struct pair p = pair_new();
    struct leat_channel *c = p.channel;
    assert_false(leat_channel_should_wake(c, 0, true)); /* it does not wait */
    atomic_store(&c->credit, 8);
    atomic_store(&c->starved, 1);
    assert_false(leat_channel_should_wake(c, 5, false));
    assert_true(leat_channel_should_wake(c, 4, false));
    assert_false(leat_channel_should_wake(c, 4, false)); /* once */
    atomic_store(&c->starved, 1);
    assert_true(leat_channel_should_wake(c, 8, true));
    pair_free(&p);
}

TEST(a_channel_cannot_be_resized_and_others_are_refused)
{
    struct pair p = pair_new();
    struct leat_channel *mapped;
    struct leat_error error;
    assert_int_not_equal(ftruncate(p.fd, 64), 0);
    assert_int_not_equal(ftruncate(p.fd, 1 << 20), 0);
    assert_ok(leat_channel_map(p.fd, &mapped, &error));
    leat_channel_give(p.channel, &(struct leat_given){.slot = 3});
    assert_int_equal(atomic_load(&mapped->n_given), 1);
    assert_int_equal(mapped->given[0].slot, 3);
    leat_channel_unmap(mapped);
    const int small = memfd_create("small", MFD_CLOEXEC);
    assert_int_equal(ftruncate(small, 100), 0);
    assert_int_equal(leat_channel_map(small, &mapped, &error), LEAT_E_FORMAT);
    close(small);
    assert_int_equal(leat_channel_map(p.wake, &mapped, &error), LEAT_E_FORMAT);
    pair_free(&p);
}

TEST_MAIN()
