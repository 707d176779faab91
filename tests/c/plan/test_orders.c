#include <math.h>
#include <pthread.h>

#include "../golden.h"
#include "common.h"
#include "plan/order.h"

enum { MAX_ROWS = 4000 };

static void assert_permutation(const struct leat_plan_row *rows, uint64_t n)
{
    uint8_t *seen = calloc(n + 1, 1);
    assert_non_null(seen);
    for (uint64_t i = 0; i < n; i++) {
        assert_true(rows[i].piece.position < n && !seen[rows[i].piece.position]);
        seen[rows[i].piece.position] = 1;
    }
    free(seen);
}

TEST(blocks_of_any_size_give_every_row_exactly_once)
{
    static struct leat_plan_row rows[MAX_ROWS];
    for (uint64_t t = 0; t < 300; t++) {
        uint64_t n = draw(t, 0, 1, 400);
        struct leat_plan_source source = {.count = n,
                                          .order = {.order = LEAT_ORDER_BLOCKS, .block_rows = draw(t, 1, 1, 450)}};
        struct leat_plan *plan = make_plan(&source, 1, 0, t, 32, 0, 1, LEAT_TAIL_PAD);
        assert_int_equal(walk(&plan, 1, (struct leat_position){1, 0}, rows, MAX_ROWS), n);
        assert_permutation(rows, n);
        leat_plan_free(plan);
    }
}

TEST(rows_of_a_block_stay_within_eight_blocks_of_the_order)
{
    static struct leat_plan_row rows[MAX_ROWS];
    const uint64_t block = 10, n = 3007;
    struct leat_plan_source source = {.count = n, .order = {.order = LEAT_ORDER_BLOCKS, .block_rows = block}};
    struct leat_plan *plan = make_plan(&source, 1, 0, 3, 64, 0, 1, LEAT_TAIL_PAD);
    assert_int_equal(walk(&plan, 1, (struct leat_position){0, 0}, rows, MAX_ROWS), n);
    uint64_t different = 0;
    for (uint64_t begin = 0; begin < n; begin += 8 * block) {
        uint64_t touched = 0;
        uint8_t seen[302] = {0};
        for (uint64_t i = begin; i < n && i < begin + 8 * block; i++) {
            touched += !seen[rows[i].piece.position / block];
            seen[rows[i].piece.position / block] = 1;
            different += i > begin && rows[i].piece.position != rows[i - 1].piece.position + 1;
        }
        assert_true(touched <=
                    10); /* 8, and what the short block shifts: the ends of one window may halve two blocks */
    }
    assert_true(different > n / 2);
    leat_plan_free(plan);
}

TEST(epochs_and_seeds_give_unrelated_orders)
{
    static struct leat_plan_row a[MAX_ROWS], b[MAX_ROWS];
    for (int which = 0; which < 2; which++) {
        struct leat_plan *p = simple_plan(LEAT_ORDER_SHUFFLED, 1000, 1, 10, 0, 1, LEAT_TAIL_PAD);
        struct leat_plan *q = simple_plan(LEAT_ORDER_SHUFFLED, 1000, which ? 2 : 1, 10, 0, 1, LEAT_TAIL_PAD);
        walk(&p, 1, (struct leat_position){0, 0}, a, MAX_ROWS);
        walk(&q, 1, (struct leat_position){which ? 0 : 1, 0}, b, MAX_ROWS);
        unsigned same = 0;
        for (int i = 0; i < 1000; i++)
            same += a[i].piece.position == b[i].piece.position;
        assert_true(same < 12);
        leat_plan_free(p);
        leat_plan_free(q);
    }
}

TEST(a_million_million_samples_are_shuffled_in_constant_memory)
{
    const uint64_t n = UINT64_C(1000000000000);
    struct leat_plan *plan = simple_plan(LEAT_ORDER_SHUFFLED, n, 1, 4096, 0, 1, LEAT_TAIL_PAD);
    struct leat_position at;
    struct leat_plan_batch batch;
    static struct leat_plan_row rows[4096];
    assert_int_equal(leat_plan_steps(plan, 0), (n + 4095) / 4096);
    assert_int_equal(leat_plan_seek(plan, 7, n / 4096 - 1, &at), LEAT_OK);
    assert_int_equal(leat_plan_batch(plan, at, &batch), LEAT_OK);
    leat_plan_rows(plan, &batch, 0, 4096, rows);
    uint64_t low = 0;
    for (int i = 0; i < 4096; i++) {
        assert_true(rows[i].piece.position < n);
        low += rows[i].piece.position < n / 2;
    }
    assert_in_range(low, 1850, 2250);
    leat_plan_free(plan);
}

TEST(weighted_draws_follow_the_weights_and_never_give_a_weight_of_zero)
{
    const double weights[] = {0, 1, 0, 3, 4, 0};
    struct leat_plan_source source = {
        .count = 6,
        .order = {.order = LEAT_ORDER_WEIGHTED, .weights = weights, .num_samples = 80000, .replacement = true}};
    struct leat_plan *plan = make_plan(&source, 1, 0, 11, 80000, 0, 1, LEAT_TAIL_PAD);
    struct leat_plan_row *rows = calloc(80000, sizeof *rows);
    assert_non_null(rows);
    assert_int_equal(leat_plan_epoch_rows(plan, 0), 80000);
    walk(&plan, 1, (struct leat_position){2, 0}, rows, 80000);
    unsigned count[6] = {0};
    for (int i = 0; i < 80000; i++)
        count[rows[i].piece.position]++;
    for (int k = 0; k < 6; k++)
        assert_true(fabs(count[k] - weights[k] * 10000) <= 5 * sqrt(weights[k] * 10000));
    free(rows);
    leat_plan_free(plan);
}

TEST(draws_without_replacement_are_distinct_and_the_first_follows_the_weights)
{
    const double weights[] = {1, 0, 2, 5, 0, 2};
    struct leat_plan_source source = {.count = 6,
                                      .order = {.order = LEAT_ORDER_WEIGHTED, .weights = weights, .num_samples = 4}};
    struct leat_plan *plan = make_plan(&source, 1, 0, 12, 4, 0, 1, LEAT_TAIL_PAD);
    unsigned first[6] = {0}, second[6] = {0};
    struct leat_plan_row rows[4];
    for (uint64_t epoch = 0; epoch < 20000; epoch++) {
        unsigned seen = 0;
        assert_int_equal(walk(&plan, 1, (struct leat_position){epoch, 0}, rows, 4), 4);
        for (int i = 0; i < 4; i++)
            seen |= 1u << rows[i].piece.position;
        assert_int_equal(seen, 0x2d);
        first[rows[0].piece.position]++;
        second[rows[1].piece.position]++;
    }
    for (int k = 0; k < 6; k++) {
        double expected = 0; /* of the second draw: over the first ones */
        for (int j = 0; j < 6; j++)
            if (j != k)
                expected += weights[j] / 10 * weights[k] / (10 - weights[j]) * 20000;
        assert_true(fabs(first[k] - weights[k] * 2000) <= 5 * sqrt(weights[k] * 2000));
        assert_true(fabs(second[k] - expected) <= 5 * sqrt(expected));
    }
    leat_plan_free(plan);
}

TEST(a_list_is_delivered_as_given_and_replaced_from_an_epoch_on)
{
    const int64_t one[] = {5, 5, 0, 9}, two[] = {1, 2};
    struct leat_plan_source source = {.count = 10,
                                      .order = {.order = LEAT_ORDER_LIST, .positions = one, .n_positions = 4}};
    struct leat_plan *plan = make_plan(&source, 1, 0, 1, 3, 0, 1, LEAT_TAIL_PAD);
    struct leat_error error = {0};
    struct leat_decision decision = {.at = {2, 0}, .positions = two, .n_positions = 2};
    assert_ok(leat_plan_decide(plan, &decision, &error));
    struct leat_plan_row rows[4];
    for (uint64_t epoch = 0; epoch < 4; epoch++) {
        uint64_t n = epoch < 2 ? 4 : 2;
        assert_int_equal(leat_plan_epoch_rows(plan, epoch), n);
        assert_int_equal(walk(&plan, 1, (struct leat_position){epoch, 0}, rows, 4), n);
        for (uint64_t i = 0; i < n; i++)
            assert_int_equal(rows[i].piece.position, epoch < 2 ? one[i] : two[i]);
    }
    leat_plan_free(plan);
}

/* ---- mixtures -------------------------------------------------------------------------------- */

TEST(every_prefix_of_a_mixture_keeps_each_share_within_the_bound)
{
    for (uint64_t t = 0; t < 60; t++) {
        enum { K = 16 };
        uint32_t k = (uint32_t)draw(t, 0, 2, K);
        struct leat_plan_source sources[K] = {0};
        double total = 0;
        for (uint32_t i = 0; i < k; i++) {
            sources[i].count = 1 + draw(t, 100 + i, 1, 50);
            sources[i].exhausted = LEAT_EXHAUSTED_REPEAT;
            sources[i].share = leat_draw_unit(t, 200 + i) * (draw(t, 300 + i, 0, 3) ? 1 : 0.001);
            total += sources[i].share;
        }
        struct leat_plan *plan = make_plan(sources, k, 1000, t, 1000, 0, 1, LEAT_TAIL_PAD);
        struct leat_plan_batch batch;
        static struct leat_plan_row rows[1000];
        uint64_t count[K] = {0}, seen[K][64] = {{0}};
        double bound = log2(k) + 1;
        for (uint64_t epoch = 0, i = 0; epoch < 3; epoch++) {
            assert_int_equal(leat_plan_batch(plan, (struct leat_position){epoch, 0}, &batch), LEAT_OK);
            leat_plan_rows(plan, &batch, 0, 1000, rows);
            for (uint64_t r = 0; r < 1000; r++) {
                struct leat_piece p = rows[r].piece;
                uint64_t pass = count[p.source]++ / sources[p.source].count;
                assert_int_equal(seen[p.source][p.position]++, pass); /* once in each pass of the source */
                i++;
                for (uint32_t s = 0; s < k; s++)
                    assert_true(fabs((double)count[s] - sources[s].share / total * (double)i) <= bound);
            }
        }
        leat_plan_free(plan);
    }
}

TEST(a_change_of_shares_and_batch_size_in_mid_epoch_loses_and_repeats_nothing)
{
    struct leat_plan_source sources[2] = {
        {.count = 70, .exhausted = LEAT_EXHAUSTED_REPEAT, .share = 3, .order = {.order = LEAT_ORDER_SHUFFLED}},
        {.count = 50,
         .exhausted = LEAT_EXHAUSTED_REPEAT,
         .share = 1,
         .order = {.order = LEAT_ORDER_BLOCKS, .block_rows = 8}}};
    struct leat_plan *plan = make_plan(sources, 2, 200, 4, 16, 0, 1, LEAT_TAIL_PAD), *before;
    before = make_plan(sources, 2, 200, 4, 16, 0, 1, LEAT_TAIL_PAD);
    struct leat_error error = {0};
    const double shares[2] = {1, 4};
    struct leat_decision decisions[] = {{.at = {0, 64}, .global_batch = 24},
                                        {.at = {0, 100}, .global_batch = 10, .shares = shares}};
    for (int d = 0; d < 2; d++)
        assert_ok(leat_plan_decide(plan, &decisions[d], &error));
    static struct leat_plan_row rows[400], old[400];
    assert_int_equal(walk(&plan, 1, (struct leat_position){0, 0}, rows, 400), 200);
    assert_int_equal(walk(&plan, 1, (struct leat_position){1, 0}, rows + 200, 200), 200);
    assert_int_equal(walk(&before, 1, (struct leat_position){0, 0}, old, 400), 200);
    uint64_t count[2] = {0}, after[2] = {0}, seen[2][70] = {{0}};
    for (int i = 0; i < 400; i++) {
        struct leat_piece p = rows[i].piece;
        if (i < 100)
            assert_true(same_row(&rows[i], &old[i]));
        else
            after[p.source]++;
        uint64_t pass = count[p.source]++ / sources[p.source].count;
        assert_int_equal(seen[p.source][p.position]++, pass);
    }
    assert_in_range(after[1], 239, 241);
    struct leat_plan_batch batch;
    assert_int_equal(leat_plan_batch(plan, (struct leat_position){0, 100}, &batch), LEAT_OK);
    assert_int_equal(batch.step, 4 + 2);
    assert_int_equal(batch.rows, 10);
    leat_plan_free(plan);
    leat_plan_free(before);
}

/* A hash over the ids and keys of epochs 0 and 5 under one order. */
static uint64_t order_hash(int which, uint64_t n, uint64_t seed)
{
    static double weights[3000];
    static int64_t list[3000];
    static struct leat_plan_row rows[MAX_ROWS];
    for (uint64_t i = 0; i < n; i++) {
        weights[i] = (double)(i % 7);
        list[i] = (int64_t)(i * i % n);
    }
    struct leat_plan_source s[3] = {{.count = n, .exhausted = LEAT_EXHAUSTED_REPEAT, .share = 5},
                                    {.count = n / 2 + 1, .exhausted = LEAT_EXHAUSTED_REPEAT, .share = 2},
                                    {.count = 3, .exhausted = LEAT_EXHAUSTED_REPEAT, .share = 1}};
    if (which < 3)
        s[0].order = (struct leat_order_spec){.order = (enum leat_order)which, .block_rows = 7};
    else if (which < 5)
        s[0].order = (struct leat_order_spec){LEAT_ORDER_WEIGHTED, 0, weights, n / 2, which == 3, NULL, 0};
    else if (which == 5)
        s[0].order = (struct leat_order_spec){LEAT_ORDER_LIST, 0, NULL, 0, false, list, n};
    else
        s[0].order.order = s[1].order.order = LEAT_ORDER_SHUFFLED;
    struct leat_plan *plan = make_plan(s, which == 6 ? 3 : 1, which == 6 ? n : 0, seed, 16, 0, 1, LEAT_TAIL_PAD);
    uint64_t hash = 0;
    for (uint64_t epoch = 0; epoch <= 5; epoch += 5) {
        uint64_t got = walk(&plan, 1, (struct leat_position){epoch, 0}, rows, MAX_ROWS);
        for (uint64_t i = 0; i < got; i++) {
            hash = leat_key_mix(hash, rows[i].piece.position);
            hash = leat_key_mix(hash, rows[i].key + rows[i].piece.source);
        }
        for (unsigned a = 0; a < 3; a++)
            hash = leat_key_mix(hash, leat_plan_substitute(plan, epoch, got / 2, a).position);
    }
    leat_plan_free(plan);
    return hash;
}

TEST(the_orders_of_this_plan_version_never_change)
{
    static const char *const names[] = {"sequential",       "shuffled", "blocks", "weighted",
                                        "weighted_without", "list",     "mixture"};
    struct golden_line golden;
    unsigned seen = 0;
    for (FILE *file = golden_open(); golden_next(file, "order", &golden);) {
        int which = 0;
        while (which < 7 && strcmp(names[which], golden.name))
            which++;
        assert_true(which < 7);
        uint64_t hash = order_hash(which, golden.n, golden.key);
        if (hash != golden.hash)
            fail_msg("order %s, n = %" PRIu64 ": %016" PRIx64, golden.name, golden.n, hash);
        seen |= 1u << (2 * which + (golden.n > 10));
    }
    assert_int_equal(seen, (1u << 14) - 1);
}

/* What is shared by the rows of one pass is not taken for what another order needs. */
TEST(a_cursor_may_go_from_one_order_to_another_in_the_same_pass)
{
    const int64_t positions[] = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 19, 18};
    struct leat_list chosen = {.positions = (int64_t *)(uintptr_t)positions, .n = 12, .selects = true};
    for (int selects = 0; selects < 2; selects++) {
        const struct leat_list *list = selects ? &chosen : NULL;
        const struct leat_source_order orders[] = {
            {.order = LEAT_ORDER_SHUFFLED, .count = 50, .rows = 50, .key = 1},
            {.order = LEAT_ORDER_SHUFFLED, .count = 70, .rows = 70, .key = 2},
            {.order = LEAT_ORDER_BLOCKS, .count = 60, .rows = 60, .block_rows = 7, .key = 3},
        };
        struct leat_order_cursor shared = {0};
        for (int turn = 0; turn < 6; turn++) {
            struct leat_order_cursor own = {0};
            uint64_t got[12], expected[12];
            leat_order_run(&orders[turn % 3], list, &shared, 4, 0, 12, got);
            leat_order_run(&orders[turn % 3], list, &own, 4, 0, 12, expected);
            assert_memory_equal(got, expected, sizeof got);
        }
    }
}

TEST_MAIN()
