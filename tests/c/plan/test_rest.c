/* Decisions on rows from within an epoch: what its rest is, against a slow reference. */
#include <string.h>

#include "common.h"
#include "plan/rest.h"

enum { COUNT = 60, MOST = 8 * COUNT };
static const uint8_t print[16] = {7};

/* All positions of an epoch. Returns how many. */
static uint64_t positions_of(const struct leat_plan *plan, uint64_t epoch, int64_t *out)
{
    const uint64_t n = leat_plan_epoch_rows(plan, epoch);
    struct leat_plan_row row;
    assert_true(n && n <= MOST);
    for (uint64_t i = 0; i < n; i++) {
        assert_int_equal(leat_plan_rows_at(plan, epoch, &i, 1, &row), LEAT_OK);
        assert_true(row.valid);
        out[i] = (int64_t)row.piece.position;
    }
    return n;
}

static void assert_epoch(const struct leat_plan *plan, uint64_t epoch, const int64_t *expected, uint64_t n)
{
    int64_t found[MOST];
    assert_int_equal(positions_of(plan, epoch, found), n);
    assert_memory_equal(found, expected, n * sizeof *found);
}

static bool among(int64_t position, const int64_t *list, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (list[i] == position)
            return true;
    return false;
}

/* `epoch` has n rows until row `at`, and then what is decided; `order`: as the plan was opened. Returns how many. */
static uint64_t expect(int64_t *epoch, uint64_t at, const int64_t *order, const struct leat_decision *d)
{
    uint64_t n = at;
    for (uint64_t i = 0; d->positions && !d->selects && i < d->n_positions; i++)
        epoch[n++] = d->positions[i];
    for (uint64_t i = 0; (!d->positions || d->selects) && i < COUNT; i++)
        if (!among(order[i], epoch, at) && (!d->positions || among(order[i], d->positions, d->n_positions)))
            epoch[n++] = order[i];
    return n;
}

static struct leat_plan *loaded_from(const struct leat_plan *plan, enum leat_order order, struct leat_position at)
{
    struct leat_plan *again = simple_plan(order, COUNT, 8, 6, 0, 2, LEAT_TAIL_PAD);
    struct leat_error error = {0};
    struct leat_position found;
    char *json;
    assert_ok(plan_state(plan, print, at, &json, &error));
    for (uint32_t i = 1; i < plan->n_log; i++) /* as of a folder that has all lists */
        if (plan->log[i].list && plan->log[i].list->positions)
            assert_ok(leat_plan_know_list(again, plan->log[i].list->positions, plan->log[i].list->n, &error));
    assert_ok(plan_load(again, print, json, &found, &error));
    assert_int_equal(found.epoch, at.epoch);
    assert_int_equal(leat_plan_hash(again), leat_plan_hash(plan));
    leat_free(json);
    return again;
}

/* Draws a decision on rows. Its list lies in `list`. */
static struct leat_decision drawn(uint64_t key, struct leat_position at, int64_t *list)
{
    struct leat_decision d = {.at = at};
    const uint64_t how = draw(key, 0, 0, 2), n = draw(key, 1, 20, 40);
    for (uint64_t i = 0; i < n; i++)
        list[i] = (int64_t)(how == 1 ? draw(key, 2 + i, 0, COUNT - 1) : (draw(key, 1, 0, 9) + 7 * i) % COUNT);
    d.positions = how ? list : NULL;
    d.n_positions = how ? n : 0;
    d.selects = how == 2;
    d.unlisted = !how;
    return d;
}

TEST(the_rest_of_an_epoch_is_that_of_a_reference_and_a_state_keeps_it)
{
    static const enum leat_order orders[] = {LEAT_ORDER_SEQUENTIAL, LEAT_ORDER_SHUFFLED, LEAT_ORDER_BLOCKS};
    struct leat_error error = {0};
    for (uint64_t trial = 0; trial < 300; trial++) {
        const enum leat_order order = orders[trial % 3];
        struct leat_plan *plan = simple_plan(order, COUNT, 8, 6, 0, 2, LEAT_TAIL_PAD);
        const uint64_t epoch = draw(trial, 0, 0, 3);
        int64_t opened[COUNT], rows[MOST], list[COUNT];
        positions_of(plan, epoch, opened);
        uint64_t n = positions_of(plan, epoch, rows), at = 0;
        for (uint64_t i = 0; i < 4; i++) {
            at += 6 * draw(trial, 1 + i, 0, 2);
            if (!at || at >= n)
                continue;
            struct leat_decision d = drawn(leat_key_mix(trial, i), (struct leat_position){epoch, at}, list);
            int64_t expected[MOST];
            memcpy(expected, rows, at * sizeof *rows);
            const uint64_t more = expect(expected, at, opened, &d);
            d.done = d.at;
            if (more == at) {
                assert_int_equal(leat_plan_decide(plan, &d, &error), LEAT_E_INVALID);
                assert_epoch(plan, epoch, rows, n);
                continue;
            }
            assert_ok(leat_plan_decide(plan, &d, &error));
            memcpy(rows, expected, more * sizeof *rows);
            n = more;
            assert_epoch(plan, epoch, rows, n);
            struct leat_plan *again = loaded_from(plan, order, (struct leat_position){epoch, at});
            assert_epoch(again, epoch, rows, n);
            leat_plan_free(again);
        }
        /* The next epoch has what was decided last, as from its start. */
        int64_t next[MOST];
        const uint64_t more = positions_of(plan, epoch + 1, next);
        struct leat_plan *again = loaded_from(plan, order, (struct leat_position){epoch + 1, 0});
        assert_epoch(again, epoch + 1, next, more);
        leat_plan_free(again);
        leat_plan_free(plan);
    }
}

TEST(batches_end_with_the_rest_and_other_decisions_follow)
{
    struct leat_plan *plan = simple_plan(LEAT_ORDER_SEQUENTIAL, COUNT, 8, 6, 0, 1, LEAT_TAIL_DROP);
    struct leat_error error = {0};
    struct leat_plan_row rows[COUNT];
    static const int64_t some[] = {50, 1, 30, 31, 32, 33, 34, 35, 36, 40};
    const struct leat_decision selects = {.at = {0, 12}, .positions = some, .n_positions = 10, .selects = true},
                               resizes = {.at = {0, 18}, .global_batch = 2};
    assert_ok(leat_plan_decide(plan, &selects, &error));
    assert_int_equal(leat_plan_steps(plan, 0), 3); /* 2, and one of the 9 rows that are left */
    assert_ok(leat_plan_decide(plan, &resizes, &error));
    assert_int_equal(leat_plan_epoch_rows(plan, 0), 21);
    assert_int_equal(leat_plan_steps(plan, 0), 4);
    assert_int_equal(walk(&plan, 1, (struct leat_position){0, 0}, rows, COUNT), 20);
    assert_int_equal(rows[12].piece.position, 30);
    assert_int_equal(rows[19].piece.position, 40);
    assert_int_equal(walk(&plan, 1, (struct leat_position){1, 0}, rows, COUNT), 10);
    assert_int_equal(rows[0].piece.position, 50);
    leat_plan_free(plan);
}

TEST(rows_of_epochs_that_were_passed_are_not_told_wrongly)
{
    struct leat_plan *plan = simple_plan(LEAT_ORDER_SHUFFLED, COUNT, 8, 6, 0, 1, LEAT_TAIL_PAD);
    struct leat_error error = {0};
    int64_t list[COUNT], rows[MOST];
    for (uint64_t epoch = 0; epoch < 2000; epoch++) {
        struct leat_decision d = drawn(epoch, (struct leat_position){epoch, 6}, list);
        d.done = d.at;
        assert_ok(leat_plan_decide(plan, &d, &error));
        positions_of(plan, epoch, rows);
        struct leat_plan_batch batch;
        struct leat_plan_row row;
        const uint64_t number = 7;
        for (uint64_t before = epoch > 3 ? epoch - 3 : 0; before < epoch; before++) {
            assert_int_equal(leat_plan_batch(plan, (struct leat_position){before, 6}, &batch), LEAT_E_RANGE);
            assert_int_equal(leat_plan_rows_at(plan, before, &number, 1, &row), LEAT_E_RANGE);
        }
        if (epoch % 100 == 99) {
            struct leat_plan *again = simple_plan(LEAT_ORDER_SHUFFLED, COUNT, 8, 6, 0, 1, LEAT_TAIL_PAD);
            struct leat_position at;
            char *json;
            assert_ok(plan_state(plan, print, (struct leat_position){epoch, 12}, &json, &error));
            assert_ok(plan_load(again, print, json, &at, &error));
            const uint64_t n = positions_of(plan, epoch, rows);
            assert_epoch(again, epoch, rows, n);
            assert_int_equal(leat_plan_hash(again), leat_plan_hash(plan));
            assert_true(strlen(json) < 16384);
            leat_free(json);
            leat_plan_free(again);
        }
    }
    assert_true(plan->n_log < 400);
    leat_plan_free(plan);
}

TEST(so_many_epochs_to_come_have_rows_that_are_decided_within_them)
{
    struct leat_plan *plan = simple_plan(LEAT_ORDER_SHUFFLED, COUNT, 8, 6, 0, 2, LEAT_TAIL_PAD), *again;
    struct leat_error error = {0};
    struct leat_decision d = {.unlisted = true};
    for (uint64_t epoch = 0; epoch < LEAT_PLAN_MAX_REST_EPOCHS; epoch++) {
        d.at = (struct leat_position){epoch, 6};
        assert_ok(leat_plan_decide(plan, &d, &error));
    }
    d.at.row = 12;
    assert_ok(leat_plan_decide(plan, &d, &error)); /* one that has some already */
    again = loaded_from(plan, LEAT_ORDER_SHUFFLED, (struct leat_position){0, 6});
    leat_plan_free(again);
    d.at = (struct leat_position){99, 6};
    assert_int_equal(leat_plan_decide(plan, &d, &error), LEAT_E_RANGE);
    assert_non_null(strstr(error.message, "16 epochs"));
    d.done = (struct leat_position){1, 0}; /* epoch 0 is over */
    assert_ok(leat_plan_decide(plan, &d, &error));
    leat_plan_free(plan);
}

TEST(what_cannot_be_decided_within_an_epoch_is_refused)
{
    static const int64_t list[] = {1, 2, 3};
    const double weights[] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct leat_error error = {0};
    struct leat_plan_source
        listed = {.count = 9, .order = {.order = LEAT_ORDER_LIST, .positions = list, .n_positions = 3}},
        weighted = {.count = 8,
                    .order = {.order = LEAT_ORDER_WEIGHTED, .weights = weights, .num_samples = 8, .replacement = true}};
    struct leat_plan *of_list = make_plan(&listed, 1, 0, 1, 1, 0, 1, LEAT_TAIL_PAD),
                     *by_weight = make_plan(&weighted, 1, 0, 1, 2, 0, 1, LEAT_TAIL_PAD);
    struct leat_decision d = {.at = {0, 2}, .positions = list, .n_positions = 3},
                         opened = {.at = {0, 4}, .unlisted = true},
                         selects = {.at = {0, 4}, .positions = list, .n_positions = 3, .selects = true};
    assert_int_equal(leat_plan_decide(of_list, &d, &error), LEAT_E_INVALID);
    assert_int_equal(leat_plan_decide(by_weight, &opened, &error), LEAT_E_INVALID);
    assert_int_equal(leat_plan_decide(by_weight, &selects, &error), LEAT_E_INVALID);
    assert_ok(leat_plan_decide(by_weight, &d, &error));
    assert_int_equal(leat_plan_epoch_rows(by_weight, 0), 5);
    leat_plan_free(of_list);
    char *json, *row;
    assert_ok(plan_state(by_weight, print, (struct leat_position){0, 2}, &json, &error));
    struct leat_position at;
    row = strstr(json, "\"list\":{"); /* what cannot be decided is in no state either */
    assert_non_null(row);
    char changed[2048];
    snprintf(changed, sizeof changed, "%.*s\"list\":null%s", (int)(row - json), json, strchr(row, '}') + 1);
    assert_int_equal(plan_load(by_weight, print, json, &at, &error), LEAT_OK);
    assert_int_equal(plan_load(by_weight, print, changed, &at, &error), LEAT_E_INVALID);
    leat_free(json);
    leat_plan_free(by_weight);
}

/* However often rows were decided within an epoch: substitutes of its first rows, and of padding, which repeats them,
 * are drawn as before, and its state has lists that are small. */
TEST(lists_of_the_epoch_that_is_read_are_kept)
{
    struct leat_plan *plan = simple_plan(LEAT_ORDER_SHUFFLED, COUNT, 8, 6, 0, 2, LEAT_TAIL_PAD),
                     *again = simple_plan(LEAT_ORDER_SHUFFLED, COUNT, 8, 6, 0, 2, LEAT_TAIL_PAD);
    struct leat_error error = {0};
    struct leat_position at;
    struct leat_piece before[COUNT];
    int64_t list[COUNT], rows[MOST];
    char *json;
    for (int64_t i = 0; i < 50; i++)
        list[i] = i;
    struct leat_decision d = {.at = {3, 0}, .positions = list, .n_positions = 50, .selects = true, .done = {3, 0}};
    assert_ok(leat_plan_decide(plan, &d, &error));
    for (uint64_t row = 0; row < 6; row++)
        before[row] = leat_plan_substitute(plan, 3, row, 0);
    for (uint64_t i = 1; i < 8; i++) {
        list[i] += 10;
        d.at = d.done = (struct leat_position){3, 6 * i};
        assert_ok(leat_plan_decide(plan, &d, &error));
    }
    const uint64_t n = positions_of(plan, 3, rows);
    for (uint64_t row = 0; row < 6; row++)
        assert_int_equal(leat_plan_substitute(plan, 3, row, 0).position, before[row].position);
    for (uint64_t row = 0; row < n + 2; row++)
        assert_true(leat_plan_substitute(plan, 3, row, 0).count);
    assert_ok(plan_state(plan, print, d.at, &json, &error));
    assert_ok(plan_load(again, print, json, &at, &error));
    assert_epoch(again, 3, rows, n);
    leat_free(json);
    leat_plan_free(plan);
    leat_plan_free(again);
}

TEST_MAIN()
