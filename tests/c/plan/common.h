/* What the tests of the plan share: random parameters from a counter, and walking a plan. */
#ifndef LEAT_TESTS_PLAN_COMMON_H
#define LEAT_TESTS_PLAN_COMMON_H

#include "../test.h"
#include "base/random.h"
#include "plan/plan.h"

/* A number in [low, high], the `counter`-th of test `key`. */
static inline uint64_t draw(uint64_t key, uint64_t counter, uint64_t low, uint64_t high)
{
    return low + leat_draw_below(key, counter, high - low + 1);
}

static inline struct leat_plan *make_plan(const struct leat_plan_source *sources, uint32_t n, uint64_t epoch_rows,
                                          uint64_t seed, uint64_t global, uint32_t rank, uint32_t world,
                                          enum leat_tail tail)
{
    struct leat_plan_spec spec = {.sources = sources,
                                  .n_sources = n,
                                  .epoch_rows = epoch_rows,
                                  .seed = seed,
                                  .global_batch = global,
                                  .rank = rank,
                                  .world_size = world,
                                  .tail = tail};
    struct leat_plan *plan;
    struct leat_error error = {0};
    assert_ok(leat_plan_new(&spec, &plan, &error));
    return plan;
}

static inline struct leat_plan *simple_plan(enum leat_order order, uint64_t count, uint64_t seed, uint64_t global,
                                            uint32_t rank, uint32_t world, enum leat_tail tail)
{
    struct leat_plan_source source = {.count = count, .order = {.order = order, .block_rows = 7}};
    return make_plan(&source, 1, 0, seed, global, rank, world, tail);
}

/* A state without rows received out of order. */
static inline int plan_state(const struct leat_plan *plan, const uint8_t fingerprint[16], struct leat_position at,
                             char **json, struct leat_error *error)
{
    return leat_plan_state(plan, fingerprint, at, NULL, json, error);
}

static inline int plan_load(struct leat_plan *plan, const uint8_t fingerprint[16], const char *json,
                            struct leat_position *at, struct leat_error *error)
{
    return leat_plan_load(plan, fingerprint, json, at, NULL, NULL, error);
}

static inline bool same_row(const struct leat_plan_row *a, const struct leat_plan_row *b)
{
    return a->row == b->row && a->key == b->key && a->valid == b->valid && a->piece.source == b->piece.source &&
           a->piece.position == b->piece.position && a->piece.begin == b->piece.begin &&
           a->piece.count == b->piece.count && a->more == b->more && a->n_more == b->n_more;
}

/* All real rows from `at` to the end of its epoch, of all ranks in rank order: plans[r] is rank r's. Returns how
 * many. */
static inline uint64_t walk(struct leat_plan *const *plans, uint32_t world, struct leat_position at,
                            struct leat_plan_row *out, uint64_t room)
{
    uint64_t n = 0;
    for (;;) {
        struct leat_plan_batch batch = {0};
        int rc = LEAT_OK;
        for (uint32_t r = 0; r < world; r++) {
            rc = leat_plan_batch(plans[r], at, &batch);
            if (rc)
                break;
            struct leat_plan_row *rows = calloc(batch.rows + 1, sizeof *rows);
            assert_non_null(rows);
            leat_plan_rows(plans[r], &batch, 0, batch.rows, rows);
            for (uint64_t i = 0; i < batch.rows; i++)
                if (rows[i].valid) {
                    assert_true(n < room);
                    out[n++] = rows[i];
                }
            free(rows);
        }
        if (rc == LEAT_E_END)
            return n;
        assert_int_equal(rc, LEAT_OK);
        at = batch.next;
    }
}

#endif
