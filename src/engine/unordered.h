/*
 * Delivery out of order: received rows and planned batches (unordered.c), for the choice of batches to hand out
 * (gather.h). All functions: under the lock.
 */
#ifndef LEAT_ENGINE_UNORDERED_H
#define LEAT_ENGINE_UNORDERED_H

#include "engine/loader.h"

struct leat_unordered {
    struct leat_received *received; /* planned batches from the frontier on of which rows were received, in order */
    uint64_t at_step;               /* of the frontier */
    struct leat_position serve;     /* the planned batch whose step and size the next one handed out has */
    uint64_t plan_skip;             /* rows of this rank's part at window.plan_at that are planned already */
    bool replay;                    /* batches are planned as the record has them; plan_at is that of their steps */
    uint64_t *chosen;               /* rows of the next batch, by number: the caller chooses (chosen.c). Else NULL */
    uint64_t n_chosen;              /* 0 once it is planned */
    struct leat_excerpt *parts;     /* of the batch at hand */
    size_t parts_room;
};

extern const struct leat_delivery leat_delivery_out_of_order;

/* Sees that n rows of the running epoch, by rising number, are this rank's and were not received, and that they can be
 * marked: false also if memory is out. */
bool leat_unordered_can_mark(struct leat_loader *loader, const uint64_t *numbers, uint64_t n);
/* After can_mark: they are received, and the frontier goes past complete batches. */
void leat_unordered_mark(struct leat_loader *loader, const uint64_t *numbers, uint64_t n);
/* Whether row `row` of this rank's part of the planned batch at `at`, of the running epoch, was received. */
bool leat_unordered_was_received(const struct leat_loader *loader, struct leat_position at, uint64_t row);
/* The next batch has these rows, which the caller has checked and gives away; no other is planned any more. */
void leat_unordered_choose(struct leat_loader *loader, uint64_t *numbers, uint64_t n);
/* The frontier goes past complete batches. */
void leat_unordered_advance(struct leat_loader *loader);
/* Whether a state could still record that a row was received. */
bool leat_unordered_is_near(const struct leat_loader *loader, uint64_t number);
/* The batch of step and size `served` is handed out: to the next one, or the epoch's end. */
void leat_unordered_served(struct leat_loader *loader, const struct leat_plan_batch *served);
/* The window is empty: planning begins again, at the frontier or with the record's entries. */
void leat_unordered_replan(struct leat_loader *loader);

#endif
