/*
 * The functions of a loader for its port beyond the public ones: rows by their place in the plan, and the loader's
 * memory. Only the port reads the loader. Any thread.
 */
#ifndef LEAT_ENGINE_SERVED_H
#define LEAT_ENGINE_SERVED_H

#include "engine/loader.h"

/* Whether a port can be opened over it: INVALID gives the reason. */
int leat_served_check(const struct leat_loader *loader, struct leat_error *error);
/* Rows of an epoch. RANGE: it has none, or decisions made since gave up its rows. */
int leat_served_epoch_rows(struct leat_loader *loader, uint64_t epoch, uint64_t *rows, struct leat_error *error);
/* The batch of the plan that a row is in. END: the epoch has fewer rows. RANGE as above, and if this rank has none of
 * the batch. */
int leat_served_find(struct leat_loader *loader, struct leat_position row, struct leat_plan_batch *out,
                     struct leat_error *error);
/* The start of the next batch that this rank has rows of. */
struct leat_position leat_served_after(struct leat_loader *loader, const struct leat_plan_batch *plan);
/* The loader's own reading goes on at `at`, at which a batch of the plan begins. */
int leat_served_seek(struct leat_loader *loader, struct leat_position at, uint64_t *iteration,
                     struct leat_error *error);
/* Ends all work for the loader, whose memory nothing writes to from here on. All that is left is to close it. */
void leat_served_end(struct leat_loader *loader);
/* Whether its epochs are random permutations of the data set's samples. */
static inline bool leat_served_is_shuffled(const struct leat_loader *l)
{
    return l->input.order == LEAT_ORDER_SHUFFLED && !l->input.mixed && !l->job.packing && !leat_plan_draws(l->plan);
}
/* Memory beside the batches, which leat_buffer_release gives back. Errors: HELD, NOMEM. */
int leat_served_lend(struct leat_loader *loader, uint64_t bytes, struct leat_buffer **out, struct leat_error *error);
/* Rows of a global batch; bytes of its buffers as far as they are known; bytes that batches may have that were handed
 * out; and the place at which its own reading begins next, or goes on. */
struct leat_served {
    uint64_t batch_rows, batch_bytes, max_held;
    struct leat_position at;
};
void leat_served_look(struct leat_loader *loader, struct leat_served *out);

#endif
