/* Rows received out of order become text and come back: each run of batches that a rank can be in, each damage. */
#include <jansson.h>

#include "base/alloc.h"
#include "common.h"
#include "plan/received.h"

enum { N = 1000, WORLD = 3, GLOBAL = 17 };

static struct leat_plan *make(uint32_t rank, enum leat_tail tail)
{
    struct leat_plan *plan = simple_plan(LEAT_ORDER_SHUFFLED, N, 1, GLOBAL, rank, WORLD, tail);
    const struct leat_decision d = {.at = {1, 100}, .global_batch = 8}; /* it cuts the batch before */
    struct leat_error error = {0};
    assert_ok(leat_plan_decide(plan, &d, &error));
    return plan;
}

static void set_bit(struct leat_plan_received *r, uint64_t i, bool value)
{
    const uint8_t mask = (uint8_t)(1u << i % 8);
    r->bits[i / 8] = (uint8_t)(value ? r->bits[i / 8] | mask : r->bits[i / 8] & ~mask);
}

static bool get_bit(const struct leat_plan_received *r, uint64_t i)
{
    return r->bits[i / 8] >> i % 8 & 1;
}

/* Rows that were received when `taken` batches were handed out from `at` on and the window had `window` batches: as
 * many as those taken have, at any places but the first row's, which is lacking. False: the epoch ends before. */
static bool draw_received(const struct leat_plan *plan, uint64_t key, struct leat_position at, uint64_t taken,
                          uint64_t window, struct leat_plan_received *out)
{
    struct leat_plan_batch batch = {0};
    uint64_t due = 0, all = 0;
    memset(out, 0, sizeof *out);
    for (uint64_t i = 0; i < window; i++, at = batch.next) {
        if (batch.last || leat_plan_batch(plan, at, &batch))
            return false;
        out->row = i == taken ? at.row : out->row;
        due += i < taken ? batch.rows : 0;
        all += batch.rows;
    }
    for (uint64_t i = 1; due; i++)
        if (draw(key, i, 1, all - i) <= due) {
            set_bit(out, i, true);
            out->n_bits = i + 1;
            due--;
        }
    return true;
}

TEST(what_is_written_is_read_back)
{
    uint64_t tried = 0;
    for (uint64_t t = 0; t < 600; t++) {
        struct leat_plan *plan = make((uint32_t)(t % WORLD), (enum leat_tail)(t / WORLD % 3));
        struct leat_plan_received made, found;
        struct leat_position at;
        struct leat_error error = {0};
        assert_int_equal(leat_plan_seek(plan, 1, draw(t, 0, 0, 100), &at), LEAT_OK);
        const uint64_t taken = draw(t, 1, 0, 8);
        if (draw_received(plan, t, at, taken, taken + draw(t, 2, 1, 9), &made)) {
            json_t *json = leat_received_json(plan, at, &made);
            assert_ok(leat_received_read(plan, json, at, &found, &error));
            assert_memory_equal(&found, &made, sizeof made);
            json_decref(json);
            tried++;
        }
        leat_plan_free(plan);
    }
    assert_true(tried > 500);
}

TEST(the_bitmap_may_be_as_long_as_the_limit_and_no_longer)
{
    enum { HALF = LEAT_PLAN_MAX_BITS / 2 };
    struct leat_plan *plan = simple_plan(LEAT_ORDER_SHUFFLED, 1 << 20, 1, HALF, 0, 1, LEAT_TAIL_PAD);
    const struct leat_position at = {0, 0};
    struct leat_plan_received made = {.row = HALF, .n_bits = LEAT_PLAN_MAX_BITS}, found;
    struct leat_error error = {0};
    for (uint64_t i = 1; i < HALF; i++)
        set_bit(&made, i, true);
    set_bit(&made, LEAT_PLAN_MAX_BITS - 1, true);
    json_t *json = leat_received_json(plan, at, &made);
    assert_ok(leat_received_read(plan, json, at, &found, &error));
    assert_memory_equal(&found, &made, sizeof made);
    json_object_set_new(json, "n", json_integer(LEAT_PLAN_MAX_BITS + 1));
    assert_int_equal(leat_received_read(plan, json, at, &found, &error), LEAT_E_INVALID);
    json_decref(json);
    leat_plan_free(plan);
}

/* Five batches from the start of epoch 0 on, of which two are handed out. */
static json_t *example(const struct leat_plan *plan, struct leat_plan_received *made)
{
    assert_true(draw_received(plan, 3, (struct leat_position){0, 0}, 2, 5, made));
    return leat_received_json(plan, (struct leat_position){0, 0}, made);
}

static void assert_refused(const struct leat_plan *plan, json_t *json, int code, const char *why)
{
    struct leat_plan_received found;
    struct leat_error error = {0};
    assert_int_equal(leat_received_read(plan, json, (struct leat_position){0, 0}, &found, &error), code);
    if (!strstr(error.message, why))
        fail_msg("%s", error.message);
    json_decref(json);
}

TEST(a_part_that_is_missing_or_of_another_type_is_refused)
{
    static const char *const keys[] = {"rank", "world_size", "row", "n", "bits"};
    struct leat_plan *plan = make(1, LEAT_TAIL_PAD);
    struct leat_plan_received made;
    for (size_t k = 0; k < 5; k++)
        for (int how = 0; how < 2; how++) {
            json_t *json = example(plan, &made);
            if (how)
                json_object_set_new(json, keys[k], json_true());
            else
                json_object_del(json, keys[k]);
            assert_refused(plan, json, LEAT_E_INVALID, "missing or out of range");
        }
    static const struct {
        const char *key, *text; /* text NULL: -1 */
    } bad[] = {{"row", NULL}, {"n", NULL}, {"bits", "?"}, {"bits", ""}, {"bits", "AAAA"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *json = example(plan, &made);
        json_object_set_new(json, bad[i].key, bad[i].text ? json_string(bad[i].text) : json_integer(-1));
        assert_refused(plan, json, LEAT_E_INVALID, "missing or out of range");
    }
    assert_refused(plan, json_null(), LEAT_E_INVALID, "missing or out of range");
    leat_plan_free(plan);
}

TEST(the_state_of_another_rank_is_refused)
{
    struct leat_plan *plan = make(1, LEAT_TAIL_PAD), *other = make(2, LEAT_TAIL_PAD),
                     *alone = simple_plan(LEAT_ORDER_SHUFFLED, N, 1, GLOBAL, 1, WORLD + 1, LEAT_TAIL_PAD);
    struct leat_plan_received made;
    assert_refused(other, example(plan, &made), LEAT_E_STATE, "rank 1 of 3");
    assert_refused(alone, example(plan, &made), LEAT_E_STATE, "rank 1 of 3");
    leat_plan_free(plan);
    leat_plan_free(other);
    leat_plan_free(alone);
}

/* Each change of one bit gives more rows or fewer than were handed out, or a bit behind the last. */
TEST(bits_that_are_not_those_of_batches_handed_out_are_refused)
{
    struct leat_plan *plan = make(1, LEAT_TAIL_PAD);
    const struct leat_position start = {0, 0};
    struct leat_plan_received made, first;
    json_t *json = example(plan, &first);
    json_decref(json);
    assert_true(first.n_bits % 8);
    for (uint64_t i = 0; i < first.n_bits + 8 - first.n_bits % 8; i++) {
        made = first;
        set_bit(&made, i, !get_bit(&made, i));
        json = leat_received_json(plan, start, &made);
        assert_refused(plan, json, LEAT_E_INVALID, i < first.n_bits ? "whole batches" : "missing or out of range");
    }
    for (uint64_t row = 0; row < 4 * GLOBAL; row++) { /* that of another batch, or of none */
        made = first;
        made.row = row;
        if (row != first.row)
            assert_refused(plan, leat_received_json(plan, start, &made), LEAT_E_INVALID, "whole batches");
    }
    leat_plan_free(plan);
}

TEST(bits_behind_the_last_row_of_the_epoch_are_refused)
{
    struct leat_plan *plan = simple_plan(LEAT_ORDER_SHUFFLED, 20, 1, 8, 0, 1, LEAT_TAIL_PAD);
    for (uint64_t more = 0; more < 2; more++) { /* eight of the 20 rows, and the last one is 19 or 20 */
        struct leat_plan_received made = {.row = 8, .n_bits = 20 + more}, found;
        const struct leat_position start = {0, 0};
        struct leat_error error = {0};
        for (uint64_t i = 1; i < 8; i++)
            set_bit(&made, i, true);
        set_bit(&made, 19 + more, true);
        json_t *json = leat_received_json(plan, start, &made);
        assert_int_equal(leat_received_read(plan, json, start, &found, &error), more ? LEAT_E_INVALID : LEAT_OK);
        json_decref(json);
    }
    leat_plan_free(plan);
}

TEST(a_frontier_whose_batch_is_complete_is_refused)
{
    struct leat_plan *plan = make(0, LEAT_TAIL_PAD);
    struct leat_plan_batch batch;
    struct leat_plan_received made = {0};
    assert_int_equal(leat_plan_batch(plan, (struct leat_position){0, 0}, &batch), LEAT_OK);
    made.row = batch.next.row;
    made.n_bits = batch.rows;
    for (uint64_t i = 0; i < batch.rows; i++)
        set_bit(&made, i, true);
    assert_refused(plan, leat_received_json(plan, (struct leat_position){0, 0}, &made), LEAT_E_INVALID,
                   "the first batch of the rows received out of order is complete");
    leat_plan_free(plan);
}

TEST_MAIN()
