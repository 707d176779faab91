/* Any bytes as a state: it is refused, or the plan then has batches whose rows lie in the data set, and its own state
 * loads again. */
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"

#define FUZZ_ASSERT(what)                                                                                              \
    do {                                                                                                               \
        if (!(what))                                                                                                   \
            abort();                                                                                                   \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static struct leat_plan *open_plan(int which)
{
    static const int64_t positions[] = {4, 2, 0};
    static const struct leat_plan_source sources[] = {
        {.count = 70, .exhausted = LEAT_EXHAUSTED_REPEAT, .share = 3, .order = {.order = LEAT_ORDER_SHUFFLED}},
        {.count = 50,
         .exhausted = LEAT_EXHAUSTED_REPEAT,
         .share = 1,
         .order = {.order = LEAT_ORDER_BLOCKS, .block_rows = 8}}};
    static const struct leat_plan_source list = {
        .count = 70, .order = {.order = LEAT_ORDER_LIST, .positions = positions, .n_positions = 3}};
    static const struct leat_plan_source shuffled = {.count = 70, .order = {.order = LEAT_ORDER_SHUFFLED}};
    static const struct leat_plan_source ending[] = {
        {.count = 70, .exhausted = LEAT_EXHAUSTED_REDISTRIBUTE, .share = 3, .tokens = 7},
        {.count = 50, .exhausted = LEAT_EXHAUSTED_STOP, .share = 1, .tokens = 5},
        {.count = 9, .exhausted = LEAT_EXHAUSTED_REPEAT, .limit = 2, .share = 1, .tokens = 1}};
    static const double shares[2][3] = {{0.6, 0.2, 0.2}, {0.1, 0.5, 0.4}};
    static const struct leat_mix_point schedule[] = {{0, shares[0]}, {100, shares[1]}};
    const bool mixed = which == 1 || which == 2;
    struct leat_plan_spec spec = {.sources = which == 3   ? &shuffled
                                             : which == 2 ? ending
                                             : which      ? sources
                                                          : &list,
                                  .n_sources = mixed ? 1 + (uint32_t)which : 1,
                                  .mixed = mixed,
                                  .epoch_rows = which == 1 ? 200 : 0,
                                  .schedule = schedule,
                                  .n_points = which == 2 ? 2 : 0,
                                  .linear = true,
                                  .seed = 3,
                                  .global_batch = 8,
                                  .rank = 1,
                                  .world_size = 3};
    struct leat_plan *plan;
    FUZZ_ASSERT(leat_plan_new(&spec, &plan, NULL) == LEAT_OK);
    return plan;
}

static void use(struct leat_plan *plan, const uint8_t print[16], struct leat_position at,
                const struct leat_plan_received *received)
{
    struct leat_plan_batch batch;
    struct leat_plan_row rows[16];
    const struct leat_position frontier = at;
    (void)leat_plan_steps(plan, at.epoch);
    for (int i = 0; i < 4 && leat_plan_batch(plan, at, &batch) == LEAT_OK; i++, at = batch.next) {
        FUZZ_ASSERT(batch.next.row > at.row);
        uint64_t n = batch.rows < 16 ? batch.rows : 16;
        FUZZ_ASSERT(leat_plan_rows(plan, &batch, batch.rows - n, n, rows) == LEAT_OK);
        for (uint64_t k = 0; k < n; k++)
            FUZZ_ASSERT(rows[k].piece.position < 70);
    }
    char *again;
    struct leat_position back;
    struct leat_plan_received same;
    bool found;
    if (leat_plan_state(plan, print, received ? frontier : at, received, &again, NULL))
        return;
    int rc = leat_plan_load(plan, print, again, &back, &same, &found, NULL);
    FUZZ_ASSERT(rc == LEAT_OK && found == (received != NULL));
    FUZZ_ASSERT(!found || (same.row == received->row && same.n_bits == received->n_bits &&
                           !memcmp(same.bits, received->bits, sizeof same.bits)));
    leat_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    static const uint8_t print[16] = {1, 2, 3};
    char *text = malloc(length + 1);
    FUZZ_ASSERT(text);
    memcpy(text, data, length);
    text[length] = '\0';
    for (int which = 0; which < 4; which++) {
        struct leat_plan *plan = open_plan(which);
        struct leat_position at;
        struct leat_plan_received received;
        bool found;
        int rc = leat_plan_load(plan, print, text, &at, &received, &found, NULL);
        FUZZ_ASSERT(rc == LEAT_OK || rc == LEAT_E_INVALID || rc == LEAT_E_STATE);
        if (!rc)
            use(plan, print, at, found ? &received : NULL);
        leat_plan_free(plan);
    }
    free(text);
    return 0;
}
