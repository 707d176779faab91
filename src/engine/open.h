/*
 * Loaders that are opened beside another one, and what a loader may have for itself: open.c.
 */
#ifndef LEAT_ENGINE_OPEN_H
#define LEAT_ENGINE_OPEN_H

#include "engine/loader.h"

/* ---- without the lock ------------------------------------------------------------------------ */

/* Lists of positions in the data set, n each, as the epochs of a loader; `list` is that of `epoch`, where the loader
 * stands, if `given`, or else any. */
struct leat_own_list {
    const int64_t *list;
    uint64_t n, epoch;
    bool given;
};
/* Another loader over the data set and the plan of `base`, in memory of its own: of another program (JSON; NULL: of the
 * same one), and with row keys that are mixed with `key` (0: as they are). With `own` it has a plan of its own, of
 * lists that leat_loader_give_list gives. It is closed, and all its batches are given back, before `base` is closed; no
 * decision may change the plan meanwhile. Errors: those of leat_loader_open; BUDGET as well if it would need more than
 * a quarter of the memory here; INVALID as well for lists: `base` reads a mixture or packed rows. */
int leat_loader_open_beside(struct leat_loader *base, const char *program, uint64_t key,
                            const struct leat_own_list *own, struct leat_loader **out, struct leat_error *error);
/* The hash that such a program has. Errors: those of compiling. */
int leat_loader_hash_beside(const struct leat_loader *base, const char *program, uint64_t *hash,
                            struct leat_error *error);
/* Has a loader share decoded photos with others over the same data set; it retains the store until it closes. Takes the
 * lock; at any time before closing, once: a loader that has a store keeps it. */
void leat_loader_share_decoded(struct leat_loader *loader, struct leat_decoded *decoded);

/* ---- under the lock -------------------------------------------------------------------------- */

/* Sets bytes of the budget aside for reads that complete later (leat_budget_reserve), or ends that. */
void leat_loader_share(struct leat_loader *loader, bool wanted);
/* Cancels the batches in flight and waits for them; no new ones begin. False: a task hangs as the process ends. */
bool leat_loader_halt(struct leat_loader *loader);
/* Makes bounds and window fit batches of so many rows of all ranks. BUDGET: the caller's limit is too small. */
int leat_loader_fit(struct leat_loader *loader, uint64_t global_batch, struct leat_error *error);

/* INVALID: `what` does not go with a data set that follows batches. */
int leat_loader_fail_followed(const char *what, struct leat_error *error);

#endif
