/* How loaders share the threads. In a program of its own: no other loader has started more threads than one. */
#include <math.h>

#include "base/clock.h"
#include "engine/loader.h"
#include "support.h"

enum { SAMPLES = 500, TASKS = 4000 };

/* A client that always has work, of which each task took a microsecond. */
struct busy {
    struct leat_client client;
    uint64_t tasks;
};
static uint64_t all_tasks;

static struct leat_task *take(struct leat_client *client)
{
    return all_tasks < TASKS ? (struct leat_task *)client : NULL;
}

static void run(struct leat_task *task) {}

static void finish(struct leat_task *task)
{
    struct busy *busy = (struct busy *)task;
    busy->tasks++;
    all_tasks++;
    leat_client_charge(&busy->client, 1000);
}

static bool rest(struct leat_client *client, int64_t now_ns)
{
    return false;
}

static void stop(struct leat_client *client) {}

static bool all_done(void)
{
    leat_engine_lock();
    const bool done = all_tasks >= TASKS;
    leat_engine_unlock();
    return done;
}

TEST(clients_share_one_thread_by_their_weights)
{
    static const struct leat_client_functions functions = {take, run, finish, rest, stop};
    struct busy busy[2] = {{{.functions = &functions, .weight = 3, .max_threads = 1}, 0},
                           {{.functions = &functions, .weight = 1, .max_threads = 1}, 0}};
    struct leat_error error;
    leat_engine_lock();
    for (int i = 0; i < 2; i++) {
        assert_ok(leat_client_join(&busy[i].client, &error));
        leat_client_activate(&busy[i].client);
    }
    assert_int_equal(leat_scheduler.n_threads, 1);
    leat_engine_unlock();
    while (!all_done())
        usleep(1000);
    leat_engine_lock();
    for (int i = 0; i < 2; i++)
        leat_client_leave(&busy[i].client);
    leat_engine_unlock();
    assert_in_range(busy[0].tasks, TASKS * 3 / 4 - 3, TASKS * 3 / 4 + 3);
    assert_int_equal(busy[0].tasks + busy[1].tasks, TASKS);
}

/* What is estimated when a task is taken is put right when it is done. The scheduler's clock stands meanwhile: a loader
 * that rests while the clock is ahead of it is put forward to the clock, which is no charge of a task. */
TEST(a_loader_is_charged_the_time_that_its_tasks_took)
{
    struct leat_dataset *dataset = test_dataset("charged", SAMPLES, true);
    struct leat_loader_options options = test_options(50);
    options.weight = 4;
    struct leat_loader *l = test_loader(dataset, &options);
    const double before = l->client.vtime;
    leat_engine_lock();
    const double clock = leat_scheduler.vclock;
    leat_scheduler.vclock = NAN; /* neither ahead of any client nor behind it */
    leat_engine_unlock();
    test_hash_epochs(l, 2);
    leat_engine_lock();
    l->client.paused = true; /* rows of the next epoch are under way */
    while (l->client.working) {
        leat_engine_unlock();
        usleep(1000);
        leat_engine_lock();
    }
    const double charged = (l->client.vtime - before) * options.weight;
    const double took = (double)(l->count.native_ns + l->count.fetch_ns);
    leat_scheduler.vclock = clock;
    leat_engine_unlock();
    assert_true(took > 0 && fabs(charged - took) <= 1e-6 * took);
    leat_loader_close(l);
    leat_dataset_release(dataset);
}

static void fire(struct leat_timer *timer) {}

TEST(timers_stand_in_the_order_in_which_they_are_due_and_any_of_them_can_be_stopped)
{
    const int64_t now = leat_clock_ns(), far = INT64_C(3600) * 1000000000;
    struct leat_timer first = {now + far, fire, NULL}, second = {now + 2 * far, fire, NULL},
                      third = {now + 3 * far, fire, NULL};
    leat_engine_lock();
    leat_timer_start(&second);
    leat_timer_start(&third);
    leat_timer_start(&first);
    assert_ptr_equal(leat_scheduler.timers, &first);
    assert_ptr_equal(first.next, &second);
    assert_ptr_equal(second.next, &third);
    leat_timer_stop(&second);
    assert_ptr_equal(first.next, &third);
    leat_timer_stop(&second); /* one that is not there */
    leat_timer_stop(&third);
    assert_null(first.next);
    leat_timer_stop(&first);
    assert_null(leat_scheduler.timers);
    leat_engine_unlock();
}

/* A loader whose share is a millionth is served nevertheless, beside one that always has work. */
TEST(a_loader_of_little_weight_is_not_starved)
{
    struct leat_dataset *dataset = test_dataset("little", SAMPLES, true);
    struct leat_loader *loaders[2];
    uint64_t iterations[2];
    for (int i = 0; i < 2; i++) {
        struct leat_loader_options options = test_options(50);
        options.num_threads = 1;
        options.weight = i ? 1e-3 : 1e3;
        loaders[i] = test_loader(dataset, &options);
        iterations[i] = test_start(loaders[i]);
    }
    for (int taken = 0; taken < 10; taken++) { /* an epoch of the small one; the large one is kept going */
        struct leat_batch *b = test_next(loaders[1], iterations[1]);
        assert_non_null(b);
        leat_batch_free(b);
        b = test_next(loaders[0], iterations[0]);
        if (!b)
            iterations[0] = test_start(loaders[0]);
        leat_batch_free(b);
    }
    assert_null(test_next(loaders[1], iterations[1]));
    for (int i = 0; i < 2; i++)
        leat_loader_close(loaders[i]);
    leat_dataset_release(dataset);
}

TEST_MAIN_IN(NULL, test_clean)
