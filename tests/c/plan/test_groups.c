/* Batches by length and by cost: compared with sorting and cutting, or packing, the samples in memory. */
#include "base/alloc.h"
#include "base/permute.h"
#include "common.h"
#include "plan/best_fit.h"

#define TAG_ORDER ((UINT64_C(1) << 63) | 1)
#define TAG_BUCKET ((UINT64_C(1) << 63) | 5)
enum { MOST = 200 };
static const uint64_t widths[] = {4, 9, 20, 40};

struct samples {
    uint64_t n, lengths[MOST];
    struct leat_group_spec spec;
};

static struct samples draw_samples(uint64_t key)
{
    struct samples s = {.n = draw(key, 0, 1, MOST)};
    for (uint64_t i = 0; i < s.n; i++)
        s.lengths[i] = draw(key, 10 + i, 0, 40);
    s.spec = (struct leat_group_spec){.budget = draw(key, 1, 0, 2) ? draw(key, 2, 40, 120) : 0,
                                      .rows = draw(key, 3, 0, 1) ? draw(key, 4, 1, 9) : 0};
    if (!s.spec.budget && !s.spec.rows)
        s.spec.rows = 5;
    if (draw(key, 5, 0, 1)) {
        s.spec.widths = widths;
        s.spec.n_widths = 4;
    }
    return s;
}

static void group_by_cost(struct samples *s, uint64_t key)
{
    s->spec = (struct leat_group_spec){
        .budget = draw(key, 7, 20, 120), .rows = s->spec.rows, .costs = true, .alone = true, .seed = key};
}

static struct samples draw_any(uint64_t key)
{
    struct samples s = draw_samples(key);
    if (!draw(key, 9, 0, 2))
        group_by_cost(&s, key);
    return s;
}

static struct leat_plan *open_plan(struct samples *s, bool shuffled, uint32_t rank, uint32_t world, enum leat_tail tail)
{
    s->spec.lengths = s->lengths;
    struct leat_plan_source source = {
        .count = s->n, .order = {.order = shuffled ? LEAT_ORDER_SHUFFLED : LEAT_ORDER_SEQUENTIAL}, .group = &s->spec};
    return make_plan(&source, 1, 0, 3, world, rank, world, tail);
}

/* The samples of an epoch in its order, by the rule of docs/order.md for stated widths. Returns how many groups. */
static uint64_t expect(const struct samples *s, bool shuffled, uint64_t epoch, uint64_t *out)
{
    const uint64_t pass = leat_key_mix(leat_key_mix(leat_key_mix(3, TAG_ORDER), 0), epoch);
    uint64_t groups[MOST][MOST], sizes[MOST], n_groups = 0, bucket = 0;
    for (size_t w = 0; w < 4; w++) {
        uint64_t of[MOST], n = 0, rows = s->spec.budget ? s->spec.budget / widths[w] : MOST;
        for (uint64_t i = 0; i < s->n; i++)
            if (s->lengths[i] <= widths[w] && (!w || s->lengths[i] > widths[w - 1]))
                of[n++] = i;
        rows = s->spec.rows && s->spec.rows < rows ? s->spec.rows : rows;
        if (!n)
            continue;
        struct leat_permutation order = leat_permutation_init(n, leat_key_mix(leat_key_mix(pass, TAG_BUCKET), bucket));
        bucket++;
        for (uint64_t i = 0; i < n; i++) {
            if (i % rows == 0)
                sizes[n_groups++] = 0;
            groups[n_groups - 1][sizes[n_groups - 1]++] = of[shuffled ? leat_permute(&order, i) : i];
        }
    }
    struct leat_permutation order = leat_permutation_init(n_groups, pass);
    for (uint64_t i = 0, n = 0; i < n_groups; i++) {
        const uint64_t g = shuffled ? leat_permute(&order, i) : i;
        for (uint64_t k = 0; k < sizes[g]; k++)
            out[n++] = groups[g][k];
    }
    return n_groups;
}

TEST(an_epoch_is_the_buckets_cut_and_permuted)
{
    for (uint64_t key = 0; key < 200; key++) {
        struct samples s = draw_samples(key);
        s.spec.widths = widths;
        s.spec.n_widths = 4;
        const bool shuffled = key % 2;
        struct leat_plan *plan = open_plan(&s, shuffled, 0, 1, LEAT_TAIL_PAD);
        static struct leat_plan_row rows[MOST];
        uint64_t want[MOST];
        const uint64_t groups = expect(&s, shuffled, 7, want);
        assert_int_equal(leat_plan_steps(plan, 7), groups);
        assert_int_equal(leat_plan_epoch_rows(plan, 7), s.n);
        assert_int_equal(walk(&plan, 1, (struct leat_position){7, 0}, rows, MOST), s.n);
        for (uint64_t i = 0; i < s.n; i++) {
            assert_int_equal(rows[i].row, i);
            assert_int_equal(rows[i].piece.position, want[i]);
        }
        leat_plan_free(plan);
    }
}

TEST(by_cost_an_epoch_is_the_batches_of_best_fit_permuted)
{
    for (uint64_t key = 0; key < 100; key++) {
        struct samples s = draw_samples(key);
        struct leat_bins bins;
        struct leat_error error = {0};
        static struct leat_plan_row rows[MOST];
        const bool shuffled = key % 2;
        group_by_cost(&s, key);
        struct leat_plan *plan = open_plan(&s, shuffled, 0, 1, LEAT_TAIL_PAD);
        assert_ok(
            leat_bins_of_costs(s.lengths, s.n, s.spec.budget, s.spec.rows, shuffled ? &key : NULL, &bins, &error));
        const uint64_t pass = leat_key_mix(leat_key_mix(leat_key_mix(3, TAG_ORDER), 0), 7);
        const struct leat_permutation order = leat_permutation_init(bins.n, pass);
        assert_int_equal(leat_plan_steps(plan, 7), bins.n);
        assert_int_equal(walk(&plan, 1, (struct leat_position){7, 0}, rows, MOST), s.n);
        for (uint64_t i = 0, n = 0; i < bins.n; i++) {
            const uint64_t k = shuffled ? leat_permute(&order, i) : i;
            for (uint32_t at = bins.begin[k]; at < bins.begin[k + 1]; at++, n++)
                assert_int_equal(rows[n].piece.position, bins.documents[at]);
        }
        leat_bins_clear(&bins);
        leat_plan_free(plan);
    }
}

TEST(the_hash_of_a_plan_covers_which_samples_come_together_by_cost)
{
    struct samples s = {.n = 40, .spec = {.budget = 60, .costs = true}};
    for (uint64_t i = 0; i < s.n; i++)
        s.lengths[i] = draw(1, i, 1, 40);
    struct leat_plan *a = open_plan(&s, true, 0, 1, LEAT_TAIL_PAD), *same = open_plan(&s, true, 0, 1, LEAT_TAIL_PAD);
    assert_int_equal(leat_plan_hash(a), leat_plan_hash(same));
    for (int i = 0; i < 3; i++) {
        s.spec.budget += i == 0;
        s.spec.rows = i == 1 ? 3 : 0;
        s.lengths[7] = i == 2 ? 41 : s.lengths[7];
        struct leat_plan *other = open_plan(&s, true, 0, 1, LEAT_TAIL_PAD);
        assert_int_not_equal(leat_plan_hash(a), leat_plan_hash(other));
        leat_plan_free(other);
    }
    leat_plan_free(a);
    leat_plan_free(same);
}

static void check_batch(const struct samples *s, const struct leat_plan_row *rows, uint64_t n)
{
    uint64_t longest = 0, shortest = UINT64_MAX, sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t length = s->lengths[rows[i].piece.position];
        longest = length > longest ? length : longest;
        shortest = length < shortest ? length : shortest;
        sum += length;
        assert_int_equal(rows[i].valid, rows[0].valid);
    }
    if (s->spec.costs)
        assert_true(sum <= s->spec.budget || n == 1);
    else
        assert_true(!s->spec.budget || longest * n <= s->spec.budget);
    assert_true(!s->spec.rows || n <= s->spec.rows);
    if (!s->spec.n_widths && !s->spec.costs)
        assert_true(longest < 16 ? longest == shortest || longest < 2 : 8 * (longest - shortest) <= longest);
}

TEST(all_ranks_have_as_many_batches_within_the_budget_and_each_sample_once)
{
    for (uint64_t key = 0; key < 200; key++) {
        struct samples s = draw_any(key);
        const uint32_t world = (uint32_t)draw(key, 6, 1, 5);
        const enum leat_tail tail = (enum leat_tail)(key % 3);
        uint64_t seen[MOST] = {0}, steps = 0, least = 1;
        for (uint32_t r = 0; r < world; r++) {
            struct leat_plan *plan = open_plan(&s, key % 2, r, world, tail);
            struct leat_plan_batch batch;
            uint64_t mine = 0, epoch = key % 4;
            for (struct leat_position at = {epoch, 0}; leat_plan_batch(plan, at, &batch) == LEAT_OK; at = batch.next) {
                struct leat_plan_row rows[MOST], again[MOST];
                uint64_t numbers[MOST];
                struct leat_position found;
                assert_int_equal(leat_plan_seek(plan, epoch, batch.step, &found), LEAT_OK);
                assert_true(leat_position_is(found, at));
                assert_true(batch.rows <= leat_plan_group_rows(plan) && (batch.rows || tail == LEAT_TAIL_UNEVEN));
                assert_int_equal(leat_plan_rows(plan, &batch, 0, batch.rows, rows), LEAT_OK);
                for (uint64_t i = 0; i < batch.rows; i++) {
                    seen[rows[i].piece.position] += rows[i].valid;
                    numbers[i] = rows[i].row;
                }
                assert_int_equal(leat_plan_rows_at(plan, epoch, numbers, batch.rows, again), LEAT_OK);
                for (uint64_t i = 0; i < batch.rows; i++)
                    assert_true(same_row(&rows[i], &again[i]));
                check_batch(&s, rows, batch.rows);
                mine += batch.rows > 0;
            }
            assert_int_equal(mine, leat_plan_rank_steps(plan, epoch));
            if (tail != LEAT_TAIL_UNEVEN)
                assert_true(!r || mine == steps);
            steps = mine;
            least = tail == LEAT_TAIL_DROP ? 0 : 1;
            leat_plan_free(plan);
        }
        for (uint64_t i = 0; i < s.n; i++)
            assert_true(seen[i] >= least && seen[i] <= 1);
    }
}

TEST(a_state_goes_on_on_other_ranks_and_is_refused_for_other_groups)
{
    const uint8_t print[16] = {0};
    for (uint64_t key = 0; key < 60; key++) {
        struct samples s = draw_any(key);
        struct leat_plan *whole = open_plan(&s, true, 0, 1, LEAT_TAIL_PAD), *after[3], *other;
        static struct leat_plan_row want[MOST], got[MOST];
        struct leat_error error = {0};
        struct leat_position at;
        char *json;
        const uint64_t steps = leat_plan_steps(whole, 1), cut = draw(key, 8, 0, steps - 1);
        assert_int_equal(plan_state(whole, print, (struct leat_position){1, cut}, &json, &error), LEAT_OK);
        for (uint32_t r = 0; r < 3; r++) {
            after[r] = open_plan(&s, true, r, 3, LEAT_TAIL_PAD);
            assert_ok(plan_load(after[r], print, json, &at, &error));
            assert_int_equal(at.row, cut);
        }
        const uint64_t n = walk(&whole, 1, (struct leat_position){1, cut}, want, MOST);
        assert_int_equal(walk(after, 3, at, got, MOST), n);
        for (uint64_t i = 0; i < n; i++)
            assert_true(same_row(&want[i], &got[i]));
        s.spec.rows = s.spec.rows == 1 ? 2 : 1;
        other = open_plan(&s, true, 0, 1, LEAT_TAIL_PAD);
        assert_int_equal(plan_load(other, print, json, &at, &error), LEAT_E_STATE);
        leat_free(json);
        leat_plan_free(whole);
        leat_plan_free(other);
        for (uint32_t r = 0; r < 3; r++)
            leat_plan_free(after[r]);
    }
}

static void refuse(struct samples *s, enum leat_order order, uint64_t global, int code, const char *says)
{
    struct leat_plan_source source = {.count = s->n, .order = {.order = order, .block_rows = 2}, .group = &s->spec};
    struct leat_plan_spec spec = {.sources = &source, .n_sources = 1, .global_batch = global, .world_size = 2};
    struct leat_plan *plan;
    struct leat_error error = {0};
    s->spec.lengths = s->lengths;
    assert_int_equal(leat_plan_new(&spec, &plan, &error), code);
    assert_non_null(strstr(error.message, says));
}

TEST(what_cannot_be_is_refused)
{
    const uint64_t falling[] = {9, 4};
    struct samples s = {.n = 3, .lengths = {3, 41, 2}, .spec = {.budget = 40}};
    refuse(&s, LEAT_ORDER_SHUFFLED, 2, LEAT_E_RANGE, "position 1 has 41 elements, more than the budget of a batch");
    s.spec = (struct leat_group_spec){.rows = 2, .widths = widths, .n_widths = 4};
    refuse(&s, LEAT_ORDER_SHUFFLED, 2, LEAT_E_RANGE, "position 1 has 41 elements, more than the last bucket of 40");
    s.lengths[1] = 30;
    refuse(&s, LEAT_ORDER_BLOCKS, 2, LEAT_E_INVALID, "in order or shuffled");
    refuse(&s, LEAT_ORDER_SHUFFLED, 4, LEAT_E_INVALID, "each rank has one a step");
    s.spec.budget = 35;
    refuse(&s, LEAT_ORDER_SHUFFLED, 2, LEAT_E_INVALID, "bucket of width 40 does not fit the budget of 35");
    s.spec = (struct leat_group_spec){.rows = 2, .widths = falling, .n_widths = 2};
    refuse(&s, LEAT_ORDER_SHUFFLED, 2, LEAT_E_INVALID, "rising widths above 0, not 4 as number 1");
    s.spec = (struct leat_group_spec){.widths = widths, .n_widths = 4};
    refuse(&s, LEAT_ORDER_SHUFFLED, 2, LEAT_E_INVALID, "a budget of elements or a number of rows");
    s.spec = (struct leat_group_spec){.budget = 29, .costs = true};
    refuse(&s, LEAT_ORDER_SHUFFLED, 2, LEAT_E_RANGE, "position 1 has a cost of 30, more than the 29 of a batch");
    s.spec.alone = true;
    s.lengths[2] = LEAT_BINS_MAX_COST + 1;
    refuse(&s, LEAT_ORDER_SHUFFLED, 2, LEAT_E_RANGE, "position 2 has a cost of 281474976710657: at most 2^48");
    s.spec.budget = 0;
    refuse(&s, LEAT_ORDER_SHUFFLED, 2, LEAT_E_INVALID, "the cost of a batch is 1 to 2^48, not 0");
}

TEST_MAIN()
