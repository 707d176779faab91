#include <math.h>
#include <pthread.h>

#include "../golden.h"
#include "base/alloc.h"
#include "common.h"
#include "plan/hash.h"
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

/* ---- windows of blocks ------------------------------------------------------------------------------------------- */

/* docs/order.md, by its words: row i of a pass of n rows with the key P. */
static uint64_t row_of_blocks(uint64_t n, uint64_t block, uint64_t window, uint64_t P, uint64_t i)
{
    const uint64_t B = block < n ? block : n, w = window ? window : B < n / 8 ? 8 * B : n, W = w < n ? w : n, v = i / W;
    const uint64_t f = n / B, t = n % B, s = leat_draw_below(P, 0, f + 1);
    const struct leat_permutation rows = leat_permutation_init(W < n - v * W ? W : n - v * W, leat_key_mix(P, v)),
                                  blocks = leat_permutation_init(f, P);
    uint64_t j = v * W + leat_permute(&rows, i - v * W);
    if (j >= s * B && j < s * B + t)
        return f * B + j - s * B;
    j -= j < s * B ? 0 : t;
    return leat_permute(&blocks, j / B) * B + j % B;
}

static uint64_t pass_key(uint64_t seed, uint64_t pass)
{
    return leat_key_mix(leat_key_mix(leat_key_mix(seed, LEAT_TAG_ORDER), 0), pass);
}

/* Samples, blocks and windows drawn by t: few and many of each, and some that are larger than what they are of. */
static struct leat_plan_source draw_blocks(uint64_t t)
{
    struct leat_plan_source s = {.count = draw(t, 0, 1, 400), .order = {.order = LEAT_ORDER_BLOCKS}};
    s.order.block_rows = draw(t, 1, 1, t % 4 ? 20 : s.count + 20);
    s.order.block_window = s.order.block_rows * draw(t, 2, t % 8 ? 1 : 0, t % 3 ? 6 : 40);
    return s;
}

TEST(a_window_of_blocks_is_that_of_the_page_on_any_number_of_ranks)
{
    static struct leat_plan_row rows[MAX_ROWS];
    for (uint64_t t = 0; t < 300; t++) {
        const struct leat_plan_source source = draw_blocks(t);
        const uint32_t world = (uint32_t)draw(t, 3, 1, 4);
        const uint64_t global = draw(t, 4, world, 90), epoch = draw(t, 5, 0, 3), n = source.count;
        struct leat_plan *plans[4];
        for (uint32_t r = 0; r < world; r++)
            plans[r] = make_plan(&source, 1, 0, t, global, r, world, LEAT_TAIL_PAD);
        assert_int_equal(walk(plans, world, (struct leat_position){epoch, 0}, rows, MAX_ROWS), n);
        assert_permutation(rows, n);
        for (uint64_t i = 0; i < n; i++)
            assert_int_equal(rows[i].piece.position, row_of_blocks(n, source.order.block_rows,
                                                                   source.order.block_window, pass_key(t, epoch), i));
        for (uint32_t r = 0; r < world; r++)
            leat_plan_free(plans[r]);
    }
}

TEST(a_run_with_windows_goes_on_from_any_batch_on_another_number_of_ranks)
{
    static struct leat_plan_row whole[MAX_ROWS], rest[MAX_ROWS];
    const uint8_t fingerprint[16] = {1};
    struct leat_error error = {0};
    for (uint64_t t = 0; t < 40; t++) {
        const struct leat_plan_source source = draw_blocks(t);
        struct leat_plan *plan = make_plan(&source, 1, 0, t, draw(t, 4, 1, 90), 0, 1, LEAT_TAIL_PAD);
        const uint64_t n = walk(&plan, 1, (struct leat_position){1, 0}, whole, MAX_ROWS);
        struct leat_plan_batch batch;
        for (struct leat_position at = {1, 0}; !leat_plan_batch(plan, at, &batch); at = batch.next) {
            const uint32_t world = (uint32_t)draw(t, 6 + at.row, 1, 3);
            const uint64_t global = draw(t, 600 + at.row, world, 90);
            struct leat_plan *plans[3];
            char *json;
            assert_ok(plan_state(plan, fingerprint, at, &json, &error));
            for (uint32_t r = 0; r < world; r++) {
                struct leat_position loaded;
                plans[r] = make_plan(&source, 1, 0, t, global, r, world, LEAT_TAIL_PAD);
                assert_ok(plan_load(plans[r], fingerprint, json, &loaded, &error));
                assert_true(leat_position_is(loaded, at));
            }
            assert_int_equal(walk(plans, world, at, rest, MAX_ROWS), n - at.row);
            for (uint64_t i = at.row; i < n; i++)
                assert_int_equal(rest[i - at.row].piece.position, whole[i].piece.position);
            for (uint32_t r = 0; r < world; r++)
                leat_plan_free(plans[r]);
            leat_free(json);
        }
        leat_plan_free(plan);
    }
}

/* The rows of a block lie in one window, or, behind the short block, in two neighbours. */
TEST(a_window_has_the_rows_of_its_own_blocks_alone)
{
    static struct leat_plan_row rows[MAX_ROWS];
    for (uint64_t t = 0; t < 100; t++) {
        enum { BLOCK = 10 };
        const uint64_t window = BLOCK * draw(t, 0, 1, 12), left = t % 2 ? draw(t, 1, 1, BLOCK - 1) : 0,
                       n = BLOCK * draw(t, 2, 1, 60) + left;
        struct leat_plan_source source = {
            .count = n, .order = {.order = LEAT_ORDER_BLOCKS, .block_rows = BLOCK, .block_window = window}};
        struct leat_plan *plan = make_plan(&source, 1, 0, t, 64, 0, 1, LEAT_TAIL_PAD);
        uint64_t first[61], last[61], shared[601] = {0};
        memset(first, 0xff, sizeof first);
        assert_int_equal(walk(&plan, 1, (struct leat_position){0, 0}, rows, MAX_ROWS), n);
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t block = rows[i].piece.position / BLOCK;
            first[block] = first[block] == UINT64_MAX ? i / window : first[block];
            last[block] = i / window;
        }
        for (uint64_t b = 0; b * BLOCK < n; b++) {
            assert_in_range(last[b] - first[b], 0, left ? 1 : 0);
            assert_true(last[b] == first[b] || !shared[first[b]]++); /* one at each border */
        }
        leat_plan_free(plan);
    }
}

static char *state_of(uint64_t n, uint64_t block, uint64_t window, uint64_t *hash)
{
    static struct leat_plan_row rows[MAX_ROWS];
    const uint8_t fingerprint[16] = {1};
    const struct leat_plan_source source = {
        .count = n, .order = {.order = LEAT_ORDER_BLOCKS, .block_rows = block, .block_window = window}};
    struct leat_plan *plan = make_plan(&source, 1, 0, 1, 32, 0, 1, LEAT_TAIL_PAD);
    struct leat_error error = {0};
    char *state;
    assert_int_equal(walk(&plan, 1, (struct leat_position){0, 0}, rows, MAX_ROWS), n);
    *hash = leat_plan_order_hash(plan);
    for (uint64_t i = 0; i < n; i++)
        *hash = leat_key_mix(*hash, rows[i].piece.position);
    assert_ok(plan_state(plan, fingerprint, (struct leat_position){0, 32}, &state, &error));
    leat_plan_free(plan);
    return state;
}

TEST(a_stated_window_of_eight_blocks_is_the_usual_one_and_has_its_states)
{
    static const uint64_t n[] = {400, 403, 60, 33}, block[] = {10, 7, 7, 40};
    for (int i = 0; i < 4; i++) {
        uint64_t usual, stated, other;
        char *one = state_of(n[i], block[i], 0, &usual), *same = state_of(n[i], block[i], 8 * block[i], &stated),
             *last = state_of(n[i], block[i], 2 * block[i], &other);
        assert_string_equal(same, one);
        assert_int_equal(stated, usual);
        assert_int_equal(!strcmp(last, one), i == 3); /* where a block is all, so is any window */
        assert_int_equal(other == usual, i == 3);
        assert_int_equal(!strstr(last, "\"block_window\""), i == 3);
        leat_free(one);
        leat_free(same);
        leat_free(last);
    }
}

TEST(a_state_of_another_window_is_refused)
{
    const uint8_t fingerprint[16] = {1};
    struct leat_plan_source source = {.count = 100, .order = {.order = LEAT_ORDER_BLOCKS, .block_rows = 5}};
    for (uint64_t theirs = 0; theirs <= 15; theirs += 5) {
        for (uint64_t ours = 0; ours <= 15; ours += 5) {
            struct leat_error error = {0};
            struct leat_position at;
            char *json;
            source.order.block_window = theirs;
            struct leat_plan *plan = make_plan(&source, 1, 0, 1, 32, 0, 1, LEAT_TAIL_PAD);
            source.order.block_window = ours;
            struct leat_plan *other = make_plan(&source, 1, 0, 1, 32, 0, 1, LEAT_TAIL_PAD);
            assert_ok(plan_state(plan, fingerprint, (struct leat_position){0, 32}, &json, &error));
            const int rc = plan_load(other, fingerprint, json, &at, &error);
            assert_int_equal(rc, theirs == ours ? LEAT_OK : LEAT_E_STATE);
            assert_true(!rc || strstr(error.message, "another order"));
            leat_free(json);
            leat_plan_free(plan);
            leat_plan_free(other);
        }
    }
}

TEST(a_window_that_is_no_multiple_of_its_blocks_is_an_error)
{
    static const uint64_t windows[] = {1, 6, 8, 20, 57, UINT64_MAX};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        const struct leat_plan_source source = {
            .count = 100, .order = {.order = LEAT_ORDER_BLOCKS, .block_rows = 7, .block_window = windows[i]}};
        const struct leat_plan_spec spec = {.sources = &source, .n_sources = 1, .global_batch = 8, .world_size = 1};
        struct leat_plan *plan;
        struct leat_error error = {0};
        assert_int_equal(leat_plan_new(&spec, &plan, &error), LEAT_E_INVALID);
        assert_non_null(strstr(error.message, "a multiple of its blocks' 7 rows"));
    }
}

TEST(windows_of_nearly_all_samples_that_there_can_be_are_found_at_once)
{
    const uint64_t n = (UINT64_C(1) << 63) - 1, block = UINT64_C(1) << 61;
    for (uint64_t blocks = 0; blocks < 8; blocks++) { /* 0: those of 8, which are more than 2^64 - 1 rows */
        struct leat_plan_source source = {
            .count = n, .order = {.order = LEAT_ORDER_BLOCKS, .block_rows = block, .block_window = blocks * block}};
        struct leat_plan *plan = make_plan(&source, 1, 0, 5, 100, 0, 1, LEAT_TAIL_PAD);
        struct leat_plan_batch batch;
        struct leat_plan_row rows[100];
        const uint64_t window = blocks && blocks < 4 ? blocks * block : n;
        for (uint64_t begin = 0; begin <= n - window; begin += window) {
            const uint64_t at = begin + window / 100 * 50;
            assert_int_equal(leat_plan_batch(plan, (struct leat_position){0, at / 100 * 100}, &batch), LEAT_OK);
            leat_plan_rows(plan, &batch, 0, 100, rows);
            for (uint64_t i = 0; i < 100; i++)
                assert_int_equal(rows[i].piece.position, row_of_blocks(n, block, window, pass_key(5, 0), rows[i].row));
        }
        leat_plan_free(plan);
    }
}

/* ------------------------------------------------------------------------------------------------------------------ */

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
        s[0].order = (struct leat_order_spec){
            .order = LEAT_ORDER_WEIGHTED, .weights = weights, .num_samples = n / 2, .replacement = which == 3};
    else if (which == 5)
        s[0].order = (struct leat_order_spec){.order = LEAT_ORDER_LIST, .positions = list, .n_positions = n};
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
            {.order = LEAT_ORDER_BLOCKS, .count = 60, .rows = 60, .block_rows = 7, .block_window = 7, .key = 3},
        };
        struct leat_order_cursor shared = {0};
        for (int turn = 0; turn < 8; turn++) {
            struct leat_order_cursor own = {0};
            uint64_t got[12], expected[12];
            leat_order_run(&orders[turn % 4], list, &shared, 4, 0, 12, got);
            leat_order_run(&orders[turn % 4], list, &own, 4, 0, 12, expected);
            assert_memory_equal(got, expected, sizeof got);
        }
    }
}

TEST_MAIN()
