/*
 * Batches of before the size changed, whose rows are copied: kept.c. Under the lock, unless said otherwise.
 */
#ifndef LEAT_ENGINE_KEPT_H
#define LEAT_ENGINE_KEPT_H

#include "engine/loader.h"

/* The batches of the window from index `from` on leave it, and their rows are kept for a plan with other borders; if
 * rows depend on more than their number in the epoch, nothing happens. */
void leat_kept_add(struct leat_loader *loader, size_t from);
/* While the loader is paused: gives up those that have rows under way or broken ones. */
void leat_kept_settle(struct leat_loader *loader);
/* Gives up the last one, and all of them: the order of the samples is another, or they take memory that is wanted.
 * False: there is none. */
bool leat_kept_evict(struct leat_loader *loader);
void leat_kept_drop_all(struct leat_loader *loader);
/* Before a batch gets buffers: if these would lie in pages that the kernel has yet to make, which takes longer than
 * copying into them, the last ones that are kept, far behind it, give it theirs. */
void leat_kept_lend_pages(struct leat_loader *loader, const struct leat_batch *batch);
/* The batch with the rows of `batch` that are to be taken next, and their number; it stays until leat_kept_let_go.
 * NULL: none has the first of them; *n is how many are to be made before one has. */
struct leat_batch *leat_kept_find(struct leat_loader *loader, const struct leat_batch *batch, uint64_t *n);
/* Whether the next rows of a batch are to be copied and somebody waits for an earlier one, whose rows come first: on as
 * many cores as there are threads, another one would be in their way. */
bool leat_kept_can_wait(const struct leat_loader *loader, const struct leat_batch *batch);
/* Copies rows [first, first + n) of `to`. Without the lock. */
void leat_kept_copy(const struct leat_batch *from, struct leat_batch *to, uint64_t first, uint64_t n);
void leat_kept_let_go(struct leat_loader *loader, struct leat_batch *kept);

#endif
