/* The protocol between a port and its consumers, in all schedules: see protocol.h. */
#include "../test.h"
#include "protocol.h"

static const struct setting both = {.name = "two consumers, and one batch that is made again and again",
                                    .slots = 2,
                                    .batches = 1,
                                    .ring = 2,
                                    .fails = true,
                                    .ends = true};
static const struct setting beside_rogue = {.name = "a consumer, and one that writes anything",
                                            .slots = 2,
                                            .batches = 2,
                                            .ring = 2,
                                            .fails = true,
                                            .seeks = true,
                                            .rogue = true};
static const struct setting beside_rogue_to_the_end = {.name = "a consumer, and one that writes anything, to the end",
                                                       .slots = 2,
                                                       .batches = 2,
                                                       .ring = 1,
                                                       .fails = true,
                                                       .seeks = true,
                                                       .ends = true,
                                                       .rogue = true};
static const struct setting good = {
    .name = "two consumers that go on, one batch after the other", .slots = 2, .batches = 2, .ring = 1};
static const struct setting roomy = {.name = "more slots than a ring has", .slots = 3, .batches = 2, .ring = 1};

static void holds(const struct setting *setting)
{
    static struct exploration e;
    explore(CORRECT, setting, UINT32_C(1) << 22, &e);
    printf("# %s: %zu states, %zu steps, the farthest after %zu\n", setting->name, e.states, e.steps, e.depth);
    if (e.violation)
        fail_msg("%s, after\n%s", e.violation, e.trace);
    assert_true(e.exhausted);
}

TEST(no_schedule_of_two_consumers_that_may_die_at_any_step_breaks_it)
{
    holds(&both);
}

TEST(no_schedule_breaks_it_beside_a_consumer_that_writes_anything)
{
    holds(&beside_rogue);
}

TEST(no_schedule_breaks_it_when_the_port_ends)
{
    if (!TEST_THREAD_SANITIZED) /* it is one thread, and takes long there */
        holds(&beside_rogue_to_the_end);
}

TEST(nobody_sleeps_for_ever_while_two_consumers_read_batch_after_batch)
{
    if (!TEST_THREAD_SANITIZED)
        holds(&good);
}

TEST(each_mistake_in_it_is_found)
{
    static const struct setting *const settings[] = {&beside_rogue, &both, &roomy};
    static struct exploration e;
    for (int m = CORRECT + 1; m < N_MUTATIONS; m++) {
        for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
            explore((enum mutation)m, settings[i], 200000, &e);
            if (e.violation)
                break;
        }
        if (!e.violation)
            fail_msg("nobody has found this mistake: %s", mutation_names[m]);
        printf("# %s: after %zu states, %s\n", mutation_names[m], e.states, e.violation);
    }
}

TEST_MAIN()
