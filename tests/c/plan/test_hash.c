/* Hashes of a plan: equal for what ranks share, and different for each thing that changes rows. */
#include "common.h"
#include "plan/internal.h"

enum { MOST = 40 };

static const double weights[] = {1, 2, 3, 4}, other_weights[] = {1, 2, 3, 5};
static const int64_t positions[] = {2, 0, 1}, other_positions[] = {2, 1, 0};

static struct leat_plan *make(const struct leat_plan_spec *spec)
{
    struct leat_plan *plan;
    struct leat_error error = {0};
    assert_ok(leat_plan_new(spec, &plan, &error));
    return plan;
}

/* Order number i, all different. */
static struct leat_plan *make_order(unsigned i, uint32_t rank, uint64_t global_batch)
{
    struct leat_plan_source source = {.count = 4, .order = {.order = LEAT_ORDER_SHUFFLED}};
    struct leat_order_spec *order = &source.order;
    struct leat_plan_spec spec = {
        .sources = &source, .n_sources = 1, .seed = 1, .global_batch = global_batch, .rank = rank, .world_size = 2};
    const enum leat_order orders[] = {LEAT_ORDER_SEQUENTIAL, LEAT_ORDER_BLOCKS, LEAT_ORDER_BLOCKS};
    switch (i) {
    case 1:
        spec.seed = 2;
        break;
    case 2:
        source.count = 5;
        break;
    case 3:
    case 4:
    case 5:
        order->order = orders[i - 3];
        order->block_rows = i - 2;
        break;
    case 6:
    case 7:
    case 8:
    case 9:
        *order = (struct leat_order_spec){.order = LEAT_ORDER_WEIGHTED,
                                          .weights = i == 7 ? other_weights : weights,
                                          .num_samples = i == 8 ? 2 : 3,
                                          .replacement = i == 9};
        break;
    case 10:
    case 11:
    case 12:
        *order = (struct leat_order_spec){.order = LEAT_ORDER_LIST,
                                          .positions = i == 11 ? other_positions : positions,
                                          .n_positions = i == 12 ? 2 : 3};
        break;
    case 13:
    case 14:
        *order = (struct leat_order_spec){.order = LEAT_ORDER_BLOCKS, .block_rows = 1, .block_window = i - 12};
        break;
    default:;
    }
    return make(&spec);
}
enum { ORDERS = 15 };

/* Mixture number i, all different. */
static struct leat_plan *make_mixture(unsigned i)
{
    static const uint64_t lengths[] = {1, 2, 3, 4, 5}, others[] = {1, 2, 3, 4, 6};
    static const double half[] = {0.5, 0.5}, part[] = {0.25, 0.75};
    struct leat_plan_source sources[2] = {
        {.count = 5, .share = 0.5, .exhausted = LEAT_EXHAUSTED_REPEAT, .order = {.order = LEAT_ORDER_SHUFFLED}},
        {.count = 5, .share = 0.5, .exhausted = LEAT_EXHAUSTED_REPEAT, .order = {.order = LEAT_ORDER_SHUFFLED}}};
    struct leat_mix_point points[] = {{0, half}, {10, part}};
    struct leat_plan_spec spec = {.sources = sources,
                                  .n_sources = 2,
                                  .mixed = true,
                                  .epoch_rows = i == 1 ? 7 : 8,
                                  .seed = 1,
                                  .global_batch = 2,
                                  .world_size = 1};
    sources[1].exhausted = i == 2 ? LEAT_EXHAUSTED_STOP : i == 3 ? LEAT_EXHAUSTED_REDISTRIBUTE : LEAT_EXHAUSTED_REPEAT;
    sources[1].limit = i == 4 ? 3 : 0;
    sources[0].tokens = i == 5 || i == 6 ? 3 : 0;
    sources[1].tokens = i == 5 ? 4 : i == 6 ? 5 : 0;
    for (size_t k = 0; k < 2 && (i == 7 || i == 8); k++)
        sources[k].row_tokens = k && i == 8 ? others : lengths;
    spec.schedule = i >= 9 ? points : NULL;
    spec.n_points = i >= 9 ? 2 : 0;
    spec.linear = i == 10;
    points[1].row += i == 11;
    points[1].shares = i == 12 ? half : part;
    return make(&spec);
}
enum { MIXTURES = 13 };

/* Fails if two of the numbers are equal. */
static void assert_distinct(const uint64_t *hashes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (hashes[i] == hashes[k])
                fail_msg("numbers %zu and %zu have the same hash", k, i);
}

TEST(each_order_has_a_hash_of_its_own_that_ranks_and_sizes_share)
{
    uint64_t orders[ORDERS + MIXTURES], plans[ORDERS + MIXTURES];
    for (unsigned i = 0; i < ORDERS; i++) {
        struct leat_plan *plan = make_order(i, 0, 4), *other = make_order(i, 1, 4), *larger = make_order(i, 0, 6);
        orders[i] = leat_plan_order_hash(plan);
        plans[i] = leat_plan_hash(plan);
        assert_int_equal(leat_plan_order_hash(other), orders[i]);
        assert_int_equal(leat_plan_hash(other), plans[i]);
        assert_int_equal(leat_plan_order_hash(larger), orders[i]);
        assert_true(leat_plan_hash(larger) != plans[i]);
        leat_plan_free(plan);
        leat_plan_free(other);
        leat_plan_free(larger);
    }
    for (unsigned i = 0; i < MIXTURES; i++) {
        struct leat_plan *plan = make_mixture(i);
        orders[ORDERS + i] = leat_plan_order_hash(plan);
        plans[ORDERS + i] = leat_plan_hash(plan);
        leat_plan_free(plan);
    }
    assert_distinct(orders, ORDERS + MIXTURES);
    assert_distinct(plans, ORDERS + MIXTURES);
}

TEST(a_schedule_has_a_hash_of_its_points_alone)
{
    uint64_t hashes[4];
    for (unsigned i = 0; i < 4; i++) {
        struct leat_plan *plan = make_mixture(9 + i);
        hashes[i] = leat_plan_schedule_hash(plan);
        plan->seed++;
        plan->epoch_rows++;
        assert_int_equal(leat_plan_schedule_hash(plan), hashes[i]);
        leat_plan_free(plan);
    }
    assert_distinct(hashes, 4);
}

/* Entry number i, all different. */
static int decide(struct leat_plan *plan, unsigned i)
{
    static const double shares[] = {0.75, 0.25};
    const struct leat_decision decisions[] = {
        {.at = {1, 4}, .global_batch = 3},
        {.at = {1, 4}, .global_batch = 4},
        {.at = {1, 5}, .global_batch = 3},
        {.at = {2, 4}, .global_batch = 3},
        {.at = {1, 0}, .positions = positions, .n_positions = 3},
        {.at = {1, 0}, .positions = positions, .n_positions = 3, .selects = true},
        {.at = {1, 0}, .positions = other_positions, .n_positions = 3},
        {.at = {1, 0}, .unlisted = true},
        {.at = {1, 4}, .shares = shares},
    };
    struct leat_error error;
    return leat_plan_decide(plan, &decisions[i], &error);
}
enum { DECISIONS = 9 };

TEST(each_decision_has_a_hash_of_its_own_and_the_order_stays)
{
    uint64_t hashes[DECISIONS + 1];
    for (unsigned i = 0; i < DECISIONS; i++) {
        struct leat_plan *plan =
            i == 8 ? make_mixture(0) : simple_plan(LEAT_ORDER_SHUFFLED, 9, 1, 2, 0, 1, LEAT_TAIL_PAD);
        const uint64_t order = leat_plan_order_hash(plan), before = leat_plan_hash(plan);
        hashes[DECISIONS] = i == 8 ? hashes[DECISIONS] : before;
        assert_int_equal(decide(plan, i), LEAT_OK);
        hashes[i] = leat_plan_hash(plan);
        assert_true(hashes[i] != before);
        assert_int_equal(leat_plan_order_hash(plan), order);
        assert_int_equal(leat_plan_hash_until(plan, 0), before);
        leat_plan_free(plan);
    }
    assert_distinct(hashes, DECISIONS + 1);
}

TEST(the_hash_up_to_an_entry_is_that_of_the_plan_when_it_was_the_last)
{
    struct leat_plan *plan = simple_plan(LEAT_ORDER_SHUFFLED, 100, 1, 8, 0, 1, LEAT_TAIL_PAD);
    struct leat_error error = {0};
    uint64_t hashes[MOST];
    for (uint32_t i = 0; i < MOST; i++) {
        hashes[i] = leat_plan_hash(plan);
        const struct leat_decision d = {.at = {i, i}, .global_batch = 2 + i % 5};
        assert_ok(leat_plan_decide(plan, &d, &error));
    }
    for (uint32_t i = 0; i < MOST; i++)
        assert_int_equal(leat_plan_hash_until(plan, i), hashes[i]);
    const uint64_t whole = leat_plan_hash(plan);
    leat_log_fold_up_to(plan, 20); /* entries 1 to 20 are one now */
    assert_int_equal(plan->n_log, MOST + 1 - 19);
    assert_int_equal(leat_plan_hash(plan), whole);
    for (uint32_t i = 20; i < MOST; i++)
        assert_int_equal(leat_plan_hash_until(plan, i - 19), hashes[i]);
    leat_plan_free(plan);
}

TEST(facts_and_the_tail_are_part_of_it)
{
    static const char *const facts[] = {NULL, "{\"a\": 1}", "{\"a\": 2}"};
    uint64_t hashes[9];
    for (size_t i = 0; i < 9; i++) {
        const struct leat_plan_source source = {.count = 9};
        const struct leat_plan_spec spec = {.sources = &source,
                                            .n_sources = 1,
                                            .global_batch = 4,
                                            .world_size = 1,
                                            .tail = (enum leat_tail)(i % 3),
                                            .facts = facts[i / 3]};
        struct leat_plan *plan = make(&spec);
        hashes[i] = leat_plan_hash(plan);
        leat_plan_free(plan);
    }
    assert_distinct(hashes, 9);
}

TEST_MAIN()
