/*
 * A follower: it is told of the batches at the front of a loader's window as they fill, and copies them to a device
 * before they are handed out. It learns of rows as they are made, where they stay where they are; else of a batch as it
 * is whole. There is one at most for a loader.
 *
 *     window    | ready | ready | filling | filling | ...
 *     follower  |<---- the first `ahead` ---->|
 *
 * A batch that is followed has the follower's mark, until it is handed out (leat_batch_take_mark) or given up (drop).
 * Batches out of order, and those that are put together from rows of others, are not followed.
 */
#ifndef LEAT_ENGINE_FOLLOW_H
#define LEAT_ENGINE_FOLLOW_H

#include "engine/batch.h"

struct leat_loader;

/* None of these may call the engine. */
struct leat_follower {
    void *user;
    _Atomic size_t ahead;
    /* Under the engine's lock: the mark of a batch that has its memory; NULL: not now. */
    void *(*begin)(void *user, const struct leat_batch *batch);
    /* Without it, by the thread that has made them: rows [first, first + n) of a batch whose rows stay. */
    void (*made)(void *mark, const struct leat_batch *batch, uint64_t first, uint64_t n);
    /* Under it: the batch is whole. `anew`: `made` has not told of all of its rows as they are. */
    void (*ready)(void *mark, const struct leat_batch *batch, bool anew);
    /* Under it: the batch is given up, or will be made again. */
    void (*drop)(void *mark);
    /* Under it: whatever was copied of the batch is to be let go of; it keeps its mark. */
    void (*stop)(void *mark);
};

/* Begins to tell of the loader's batches. `follower` stays until leat_loader_followed, and as long as there are marks
 * of it; until then it may read the memory of batches that were given up. CLOSED, FORKED. */
int leat_loader_follow(struct leat_loader *loader, struct leat_follower *follower, struct leat_error *error);
/* Ends it, in this process, before or after the loader is closed: no batch gets a mark any more, and those that no task
 * works on lose theirs; then, once the follower reads nothing any more. */
void leat_loader_unfollow(struct leat_loader *loader);
void leat_loader_followed(struct leat_loader *loader);
/* The mark of a batch that was handed out, which is whole and has none from then on; NULL: it was not followed. */
void *leat_batch_take_mark(struct leat_batch *batch);

/* Stops what is copied ahead of the batches in the window, so that its memory is free. */
void leat_loader_stop_following(struct leat_loader *loader);

/* ---- for the engine, under the lock ------------------------------------------------------------- */

/* Marks batches that have come to the front, and tells of those that are whole. */
void leat_follow(struct leat_loader *loader);
/* The batch is given up, or will be made again. */
void leat_follow_drop(struct leat_batch *batch);

#endif
