#include "base/alloc.h"
#include "common.h"

enum { MAX_ROWS = 600, MAX_RANKS = 9 };

TEST(every_rank_together_gets_the_global_order_exactly_once)
{
    for (uint64_t t = 0; t < 400; t++) {
        uint64_t n = draw(t, 0, 0, 300);
        uint32_t world = (uint32_t)draw(t, 1, 1, MAX_RANKS);
        uint64_t global = draw(t, 2, world, 64);
        enum leat_tail tail = (enum leat_tail)draw(t, 3, 0, 2);
        struct leat_plan *plans[MAX_RANKS];
        for (uint32_t r = 0; r < world; r++)
            plans[r] = simple_plan(LEAT_ORDER_SHUFFLED, n, t, global, r, world, tail);
        struct leat_plan_row rows[MAX_ROWS];
        uint8_t seen[MAX_ROWS] = {0};
        uint64_t got = walk(plans, world, (struct leat_position){t, 0}, rows, MAX_ROWS);
        assert_int_equal(got, tail == LEAT_TAIL_DROP ? n / global * global : n);
        for (uint64_t i = 0; i < got; i++) {
            assert_int_equal(rows[i].row, i);
            assert_int_equal(rows[i].key, leat_plan_key(t, t, i));
            assert_true(rows[i].piece.position < n && !seen[rows[i].piece.position]);
            seen[rows[i].piece.position] = 1;
        }
        for (uint32_t r = 0; r < world; r++)
            leat_plan_free(plans[r]);
    }
}

TEST(the_order_depends_neither_on_ranks_nor_on_batch_size_nor_on_where_it_resumes)
{
    const enum leat_order orders[] = {LEAT_ORDER_SEQUENTIAL, LEAT_ORDER_SHUFFLED, LEAT_ORDER_BLOCKS};
    for (uint64_t t = 0; t < 150; t++) {
        enum leat_order order = orders[t % 3];
        uint64_t n = draw(t, 0, 1, 300), from = draw(t, 4, 0, n - 1);
        struct leat_plan *one = simple_plan(order, n, 5, n, 0, 1, LEAT_TAIL_PAD), *plans[MAX_RANKS];
        struct leat_plan_row all[MAX_ROWS], rows[MAX_ROWS];
        assert_int_equal(walk(&one, 1, (struct leat_position){3, 0}, all, MAX_ROWS), n);
        uint32_t world = (uint32_t)draw(t, 1, 1, MAX_RANKS);
        uint64_t global = draw(t, 2, world, 64);
        for (uint32_t r = 0; r < world; r++) {
            plans[r] = simple_plan(order, n, 5, 16, r, world, t % 2 ? LEAT_TAIL_PAD : LEAT_TAIL_UNEVEN);
            struct leat_decision decision = {.at = {3, from}, .global_batch = global};
            struct leat_error error = {0};
            assert_ok(leat_plan_decide(plans[r], &decision, &error));
        }
        assert_int_equal(walk(plans, world, (struct leat_position){3, from}, rows, MAX_ROWS), n - from);
        for (uint64_t i = 0; i < n - from; i++)
            assert_true(same_row(&rows[i], &all[from + i]));
        assert_int_equal(walk(plans, world, (struct leat_position){3, 0}, rows, MAX_ROWS), n);
        for (uint64_t i = 0; i < n; i++)
            assert_true(same_row(&rows[i], &all[i]));
        for (uint32_t r = 0; r < world; r++)
            leat_plan_free(plans[r]);
        leat_plan_free(one);
    }
}

TEST(padding_makes_the_last_parts_equal_and_repeats_the_first_rows_under_keys_of_their_own)
{
    for (uint64_t n = 1; n <= 40; n++)
        for (uint32_t world = 1; world <= 6; world++) {
            uint64_t global = world * 2u, padded = 0, part = UINT64_MAX;
            for (uint32_t r = 0; r < world; r++) {
                struct leat_plan *plan = simple_plan(LEAT_ORDER_SHUFFLED, n, 9, global, r, world, LEAT_TAIL_PAD);
                struct leat_plan_batch batch, first;
                struct leat_position at;
                assert_int_equal(leat_plan_seek(plan, 0, leat_plan_steps(plan, 0) - 1, &at), LEAT_OK);
                assert_int_equal(leat_plan_batch(plan, at, &batch), LEAT_OK);
                assert_int_equal(leat_plan_batch(plan, (struct leat_position){0, 0}, &first), LEAT_OK);
                assert_true(batch.last && batch.next.row == n);
                assert_true(part == UINT64_MAX || part == batch.rows);
                part = batch.rows;
                struct leat_plan_row rows[16], whole;
                leat_plan_rows(plan, &batch, 0, batch.rows, rows);
                for (uint64_t i = 0; i < batch.rows; i++) {
                    assert_int_equal(rows[i].row, batch.begin + i);
                    assert_int_equal(rows[i].key, leat_plan_key(9, 0, batch.begin + i));
                    assert_int_equal(rows[i].valid, batch.begin + i < n);
                    if (rows[i].valid)
                        continue;
                    padded++;
                    uint64_t of = (batch.begin + i - n) % n;
                    struct leat_plan *one = simple_plan(LEAT_ORDER_SHUFFLED, n, 9, n, 0, 1, LEAT_TAIL_PAD);
                    struct leat_plan_batch everything;
                    assert_int_equal(leat_plan_batch(one, (struct leat_position){0, 0}, &everything), LEAT_OK);
                    leat_plan_rows(one, &everything, of, 1, &whole);
                    assert_int_equal(whole.piece.position, rows[i].piece.position);
                    leat_plan_free(one);
                }
                leat_plan_free(plan);
            }
            assert_true(padded <= world - 1);
        }
}

TEST(steps_count_through_the_log_and_seek_inverts_them)
{
    for (uint64_t t = 0; t < 200; t++) {
        uint64_t n = draw(t, 0, 1, 200), at = 0;
        struct leat_plan *plan =
            simple_plan(LEAT_ORDER_SEQUENTIAL, n, 0, draw(t, 1, 1, 20), 0, 1, (enum leat_tail)draw(t, 2, 0, 2));
        struct leat_error error = {0};
        for (uint64_t d = 0; d < 4; d++) {
            at = draw(t, 10 + d, at, n - 1);
            struct leat_decision decision = {.at = {1, at}, .global_batch = draw(t, 20 + d, 1, 20)};
            assert_ok(leat_plan_decide(plan, &decision, &error));
        }
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            struct leat_position p = {epoch, 0}, sought;
            struct leat_plan_batch batch;
            uint64_t steps = 0;
            int rc;
            for (; (rc = leat_plan_batch(plan, p, &batch)) == LEAT_OK; p = batch.next, steps++) {
                assert_int_equal(batch.step, steps);
                assert_int_equal(leat_plan_seek(plan, epoch, steps, &sought), LEAT_OK);
                assert_int_equal(sought.row, p.row);
                assert_int_equal(batch.begin, p.row);
                assert_int_equal(batch.rows, batch.global_rows);
            }
            assert_int_equal(rc, LEAT_E_END);
            assert_int_equal(steps, leat_plan_steps(plan, epoch));
            assert_int_equal(leat_plan_seek(plan, epoch, steps, &sought), LEAT_E_RANGE);
        }
        leat_plan_free(plan);
    }
}

TEST(a_batch_never_spans_a_decision_and_the_next_one_begins_at_it)
{
    struct leat_plan *plan = simple_plan(LEAT_ORDER_SEQUENTIAL, 19, 0, 4, 0, 1, LEAT_TAIL_DROP);
    struct leat_decision decision = {.at = {0, 10}, .global_batch = 6};
    struct leat_error error = {0};
    assert_ok(leat_plan_decide(plan, &decision, &error));
    const uint64_t begins[] = {0, 4, 8, 10}, sizes[] = {4, 4, 2, 6}; /* 16 to 18 are the dropped tail */
    struct leat_position at = {0, 0};
    struct leat_plan_batch batch;
    for (size_t i = 0; i < 4; i++, at = batch.next) {
        assert_int_equal(leat_plan_batch(plan, at, &batch), LEAT_OK);
        assert_int_equal(batch.begin, begins[i]);
        assert_int_equal(batch.rows, sizes[i]);
    }
    assert_true(batch.last);
    assert_int_equal(at.row, 19);
    assert_int_equal(leat_plan_batch(plan, at, &batch), LEAT_E_END);
    assert_int_equal(leat_plan_batch(plan, (struct leat_position){0, 5}, &batch), LEAT_E_INVALID);
    leat_plan_free(plan);
}

TEST(an_uneven_tail_leaves_ranks_without_a_row_without_a_batch)
{
    uint64_t total = 0;
    for (uint32_t r = 0; r < 4; r++) {
        struct leat_plan *plan = simple_plan(LEAT_ORDER_SEQUENTIAL, 10, 0, 8, r, 4, LEAT_TAIL_UNEVEN);
        struct leat_plan_batch batch;
        assert_int_equal(leat_plan_batch(plan, (struct leat_position){0, 8}, &batch), LEAT_OK);
        assert_int_equal(leat_plan_steps(plan, 0), 2);
        assert_int_equal(leat_plan_rank_steps(plan, 0), 1 + (batch.rows > 0));
        total += batch.rows;
        leat_plan_free(plan);
    }
    assert_int_equal(total, 2);
}

TEST(an_uneven_batch_cut_by_a_decision_is_parted_without_padding)
{
    static struct leat_plan_row rows[40];
    for (uint64_t cut = 1; cut < 16; cut++) {
        struct leat_plan *plans[4];
        uint64_t total = 0;
        for (uint32_t r = 0; r < 4; r++) {
            plans[r] = simple_plan(LEAT_ORDER_SHUFFLED, 40, 2, 8, r, 4, LEAT_TAIL_UNEVEN);
            struct leat_decision d = {.at = {0, cut}, .global_batch = 12};
            struct leat_error error = {0};
            struct leat_plan_batch batch;
            assert_ok(leat_plan_decide(plans[r], &d, &error));
            uint64_t begin = (cut - 1) / 8 * 8, m = cut - begin;
            assert_int_equal(leat_plan_batch(plans[r], (struct leat_position){0, begin}, &batch), LEAT_OK);
            assert_int_equal(batch.next.row, cut);
            assert_int_equal(batch.begin, begin + r * m / 4);
            assert_int_equal(batch.rows, (r + 1) * m / 4 - r * m / 4);
            total += leat_plan_rank_steps(plans[r], 0);
        }
        uint64_t last = (40 - cut) % 12, m = cut % 8; /* short batches have rows for fewer ranks */
        assert_int_equal(total, 4 * (cut / 8 + (40 - cut) / 12) + (m < 4 ? m : 4) + (last < 4 ? last : 4));
        assert_int_equal(walk(plans, 4, (struct leat_position){0, 0}, rows, 40), 40);
        for (uint64_t i = 0; i < 40; i++)
            assert_int_equal(rows[i].row, i);
        for (uint32_t r = 0; r < 4; r++)
            leat_plan_free(plans[r]);
    }
}

TEST(a_rank_that_did_not_exist_yet_has_no_rows)
{
    const uint8_t print[16] = {1};
    struct leat_plan *two = simple_plan(LEAT_ORDER_SHUFFLED, 40, 2, 8, 0, 2, LEAT_TAIL_PAD),
                     *four = simple_plan(LEAT_ORDER_SHUFFLED, 40, 2, 8, 3, 4, LEAT_TAIL_PAD);
    struct leat_error error = {0};
    struct leat_position at;
    struct leat_plan_batch batch;
    char *text;
    assert_ok(plan_state(two, print, (struct leat_position){0, 16}, &text, &error));
    assert_ok(plan_load(four, print, text, &at, &error));
    for (uint64_t row = 0; row < 40; row += 8) {
        assert_int_equal(leat_plan_batch(four, (struct leat_position){0, row}, &batch), LEAT_OK);
        assert_int_equal(batch.rows, row < 16 ? 0 : 2);
    }
    leat_free(text);
    leat_plan_free(two);
    leat_plan_free(four);
}

TEST(what_cannot_be_planned_is_refused)
{
    const double weights[] = {1, 0, 2}, negative[] = {1, -1, 2}, zero[] = {0, 0, 0};
    const int64_t outside[] = {0, 3};
    struct leat_plan_source good = {.count = 3}, s = good;
    struct leat_plan_spec base = {.sources = &good, .n_sources = 1, .global_batch = 4, .world_size = 1}, spec;
    struct leat_plan *plan;
    struct leat_error error;
#define REFUSED(change, rc)                                                                                            \
    do {                                                                                                               \
        spec = base;                                                                                                   \
        s = good;                                                                                                      \
        change;                                                                                                        \
        assert_int_equal(leat_plan_new(&spec, &plan, &error), rc);                                                     \
        assert_null(plan);                                                                                             \
        assert_true(strlen(error.message) > 10);                                                                       \
    } while (0)
    REFUSED(spec.n_sources = 0, LEAT_E_INVALID);
    REFUSED(spec.global_batch = 0, LEAT_E_INVALID);
    REFUSED(spec.world_size = 0, LEAT_E_INVALID);
    REFUSED(spec.rank = 1, LEAT_E_INVALID);
    REFUSED(spec.world_size = 5, LEAT_E_INVALID); /* fewer rows than ranks */
    REFUSED(spec.tail = (enum leat_tail)9, LEAT_E_INVALID);
    REFUSED(spec.facts = "[]", LEAT_E_INVALID);
    REFUSED(spec.facts = "{", LEAT_E_INVALID);
    REFUSED((spec.sources = &s, s.order.order = (enum leat_order)77), LEAT_E_INVALID);
    REFUSED((spec.sources = &s, s.order.order = LEAT_ORDER_BLOCKS), LEAT_E_INVALID);
    REFUSED((spec.sources = &s, s.count = UINT64_C(1) << 63), LEAT_E_RANGE);
    REFUSED((spec.sources = &s, s.order = (struct leat_order_spec){.order = LEAT_ORDER_WEIGHTED, .num_samples = 1}),
            LEAT_E_INVALID);
#define WEIGHTED(w, n, with)                                                                                           \
    (spec.sources = &s, s.order = (struct leat_order_spec){                                                            \
                            .order = LEAT_ORDER_WEIGHTED, .weights = w, .num_samples = n, .replacement = with})
    REFUSED(WEIGHTED(weights, 0, true), LEAT_E_INVALID);
    REFUSED(WEIGHTED(negative, 1, true), LEAT_E_INVALID);
    REFUSED(WEIGHTED(zero, 1, true), LEAT_E_INVALID);
    REFUSED(WEIGHTED(((const double[]){1, 0.0 / 0.0, 1}), 1, true), LEAT_E_INVALID);
    REFUSED(WEIGHTED(weights, 3, false), LEAT_E_INVALID); /* two weights are above 0 */
    REFUSED((spec.sources = &s,
             s.order = (struct leat_order_spec){.order = LEAT_ORDER_LIST, .positions = outside, .n_positions = 2}),
            LEAT_E_RANGE);
}

TEST(a_decision_that_does_not_fit_is_refused_and_changes_nothing)
{
    struct leat_plan *plan = simple_plan(LEAT_ORDER_SEQUENTIAL, 100, 0, 10, 0, 4, LEAT_TAIL_PAD);
    struct leat_error error = {0};
    const double shares[] = {1};
    const int64_t positions[] = {1};
    struct leat_decision good = {.at = {1, 10}, .global_batch = 20};
    assert_ok(leat_plan_decide(plan, &good, &error));
    const struct {
        struct leat_decision decision;
        int code;
    } bad[] = {
        {{.at = {1, 20}}, LEAT_E_INVALID},
        {{.at = {1, 9}, .global_batch = 4}, LEAT_E_INVALID},
        {{.at = {1, 101}, .global_batch = 4}, LEAT_E_RANGE},
        {{.at = {UINT64_MAX, 0}, .global_batch = 4}, LEAT_E_RANGE},
        {{.at = {1, 20}, .global_batch = 3}, LEAT_E_INVALID},
        {{.at = {1, 20}, .global_batch = UINT64_MAX}, LEAT_E_INVALID},
        {{.at = {1, 20}, .shares = shares}, LEAT_E_INVALID},
        {{.at = {2, 0}, .positions = positions, .n_positions = 1, .shares = shares}, LEAT_E_INVALID},
    };
    uint64_t hash = leat_plan_hash(plan);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(leat_plan_decide(plan, &bad[i].decision, &error), bad[i].code);
        assert_int_equal(leat_plan_hash(plan), hash);
    }
    leat_plan_free(plan);
}

/* The positions of an epoch's rows. */
static void positions_of(const struct leat_plan *plan, uint64_t epoch, uint64_t n, uint64_t *out)
{
    uint64_t numbers[100] = {0};
    struct leat_plan_row rows[100];
    for (uint64_t i = 0; i < n; i++)
        numbers[i] = i;
    assert_int_equal(leat_plan_rows_at(plan, epoch, numbers, n, rows), LEAT_OK);
    for (uint64_t i = 0; i < n; i++)
        out[i] = rows[i].piece.position;
}

TEST(a_list_selects_in_the_order_of_the_plan_until_it_ends_and_a_state_keeps_it)
{
    static const enum leat_order orders[] = {LEAT_ORDER_SEQUENTIAL, LEAT_ORDER_SHUFFLED, LEAT_ORDER_BLOCKS};
    const uint8_t print[16] = {0};
    struct leat_error error = {0};
    int64_t some[30];
    for (int64_t i = 0; i < 30; i++)
        some[i] = 3 * i + 1;
    for (size_t k = 0; k < sizeof orders / sizeof *orders; k++) {
        struct leat_plan *plan = simple_plan(orders[k], 100, 8, 10, 0, 2, LEAT_TAIL_PAD),
                         *small = simple_plan(orders[k], 30, 8, 10, 0, 2, LEAT_TAIL_PAD),
                         *again = simple_plan(orders[k], 100, 8, 10, 0, 2, LEAT_TAIL_PAD);
        const struct leat_decision selects = {.at = {1, 0}, .positions = some, .n_positions = 30, .selects = true},
                                   ends = {.at = {3, 0}, .unlisted = true};
        uint64_t whole[100], found[100], among[100];
        positions_of(plan, 3, 100, whole);
        assert_ok(leat_plan_decide(plan, &selects, &error));
        assert_ok(leat_plan_decide(plan, &ends, &error));
        assert_int_equal(leat_plan_epoch_rows(plan, 0), 100);
        for (uint64_t epoch = 1; epoch < 3; epoch++) {
            assert_int_equal(leat_plan_epoch_rows(plan, epoch), 30);
            positions_of(plan, epoch, 30, found);
            positions_of(small, epoch, 30, among);
            for (int i = 0; i < 30; i++)
                assert_int_equal(found[i], some[among[i]]);
        }
        assert_int_equal(leat_plan_epoch_rows(plan, 3), 100);
        positions_of(plan, 3, 100, found);
        assert_memory_equal(found, whole, sizeof whole);
        for (uint64_t epoch = 0; epoch < 5; epoch++) {
            char *json;
            struct leat_position at;
            assert_ok(plan_state(plan, print, (struct leat_position){epoch, 10}, &json, &error));
            assert_ok(plan_load(again, print, json, &at, &error));
            leat_free(json);
            assert_int_equal(leat_plan_hash(again), leat_plan_hash(plan));
            const uint64_t rows = leat_plan_epoch_rows(plan, epoch);
            positions_of(plan, epoch, rows, found);
            positions_of(again, epoch, rows, among);
            assert_memory_equal(found, among, rows * sizeof *found);
        }
        leat_plan_free(plan);
        leat_plan_free(small);
        leat_plan_free(again);
    }
}

/* Steps of an epoch by walking its batches: they are numbered in order, and found by number. */
static void steps_are_those_of_a_walk(const struct leat_plan *plan, uint64_t epoch)
{
    struct leat_position at = {epoch, 0}, found;
    struct leat_plan_batch batch;
    uint64_t steps = 0, mine = 0;
    bool last = false;
    for (int rc; !(rc = leat_plan_batch(plan, at, &batch)); at = batch.next, steps++) {
        assert_false(last);
        last = batch.last;
        mine += batch.rows != 0;
        assert_int_equal(batch.step, steps);
        assert_int_equal(leat_plan_seek(plan, epoch, steps, &found), LEAT_OK);
        assert_true(leat_position_is(found, at));
    }
    assert_int_equal(leat_plan_steps(plan, epoch), steps);
    assert_int_equal(leat_plan_rank_steps(plan, epoch), mine);
    assert_int_equal(leat_plan_seek(plan, epoch, steps, &found), LEAT_E_RANGE);
}

TEST(steps_are_found_through_any_decisions)
{
    for (uint64_t t = 0; t < 300; t++) {
        const uint64_t n = draw(t, 0, 1, 400);
        const uint32_t world = (uint32_t)draw(t, 1, 1, 4);
        struct leat_plan *plan = simple_plan(LEAT_ORDER_SHUFFLED, n, t, draw(t, 2, world, 40),
                                             (uint32_t)draw(t, 3, 0, world - 1), world, (enum leat_tail)(t % 3));
        struct leat_error error = {0};
        struct leat_position at = {0, 0};
        for (uint64_t i = 0, times = draw(t, 4, 0, 60); i < times; i++) {
            at.row += draw(t, 100 + i, 0, 1) ? draw(t, 200 + i, 0, 20) : 0; /* some at one position */
            if (at.row >= n || !draw(t, 300 + i, 0, 29))
                at = (struct leat_position){at.epoch + draw(t, 400 + i, 1, 2), 0};
            struct leat_decision decision = {.at = at, .global_batch = draw(t, 500 + i, world, 40)};
            assert_ok(leat_plan_decide(plan, &decision, &error));
        }
        for (uint64_t epoch = 0; epoch <= at.epoch + 1; epoch++)
            steps_are_those_of_a_walk(plan, epoch);
        leat_plan_free(plan);
    }
}

TEST(an_epoch_may_have_a_hundred_thousand_decisions)
{
    enum { N = 100000, EACH = 64 };
    struct leat_plan *plan = simple_plan(LEAT_ORDER_SHUFFLED, (N + 1) * EACH, 1, EACH, 0, 1, LEAT_TAIL_PAD);
    struct leat_error error = {0};
    for (uint64_t i = 1; i <= N; i++) {
        struct leat_decision decision = {.at = {0, i * EACH}, .global_batch = i % 2 ? EACH / 2 : EACH};
        assert_ok(leat_plan_decide(plan, &decision, &error));
    }
    struct leat_position at;
    struct leat_plan_batch batch;
    for (uint64_t step = 0; step < N * 3 / 2; step++) { /* all pairs of decisions have three batches */
        const uint64_t in = step % 3, row = step / 3 * 2 * EACH + (in ? EACH / 2 * (in + 1) : 0);
        assert_int_equal(leat_plan_seek(plan, 0, step, &at), LEAT_OK);
        assert_int_equal(at.row, row);
        assert_int_equal(leat_plan_batch(plan, at, &batch), LEAT_OK);
        assert_int_equal(batch.step, step);
    }
    assert_int_equal(leat_plan_steps(plan, 0), N / 2 * 3 + 1);
    leat_plan_free(plan);
}

TEST_MAIN()
