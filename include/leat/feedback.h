/*
 * Feedback by sample: a model's measurements of each (a loss, most often), in a table that reports fill in the
 * background, selections from it, and decisions which rows an epoch has. A header of its own, because nothing else of
 * leat needs it.
 *
 * leat_loader_decide_rows tells a loader the rows of an epoch; with `decided` among its options it plans nothing beyond
 * the epoch that is read, so that nothing is read that a decision leaves out.
 *
 * A table is one array of 16 bytes a sample, in anonymous memory or in a mapped file. A reader calls leat_feedback_wait
 * first. The selection depends on the numbers alone, so ranks with equal tables select the same.
 */
#ifndef LEAT_FEEDBACK_H
#define LEAT_FEEDBACK_H

#include "leat/leat.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The record of one sample. count 0: there is none, and all else is 0. */
struct leat_mark {
    float value;          /* the one reported last; finite */
    uint32_t count;       /* how many reports replaced it, the first included */
    uint32_t epoch, step; /* of the batch that it is of */
};

struct leat_feedback; /* calls from several threads take turns */

struct leat_feedback_options {
    size_t struct_size;
    uint64_t samples;
    const int64_t *ids; /* of the samples, by position; not used after opening. NULL: an id is a position */
    const char
        *folder;   /* the table is a file in it without a name, so that its pages can be written out; NULL: memory */
    bool deferred; /* reports are kept until leat_feedback_take, for ranks that exchange them first */
};
#define LEAT_FEEDBACK_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(struct leat_feedback_options), 0, NULL, NULL, false                                                     \
    }

/* Ids that are no positions take 8 bytes more for each up to the largest, or 16 a sample if they lie far apart.
 * Errors: INVALID (no sample, an id below 0 or of two samples), NOMEM, IO. */
LEAT_API int leat_feedback_new(const struct leat_feedback_options *options, struct leat_feedback **out,
                               struct leat_error *error);
/* NULL is allowed. Reports that still wait are dropped. */
LEAT_API void leat_feedback_free(struct leat_feedback *feedback);

/* Reports n values of a step. Copies both arrays, and returns: a thread of the table enters them. If 4 million values
 * wait already, it waits until they are fewer.
 *
 * A value replaces one of an earlier step; the greater of two values of one step stays; one of an earlier step than the
 * table's is dropped. So the order in which reports arrive does not matter, and a report that is repeated changes
 * nothing. Errors: RANGE (there is no such id), INVALID (a value is NaN or infinite): then nothing is entered. NOMEM.
 */
LEAT_API int leat_feedback_report(struct leat_feedback *feedback, const int64_t *ids, const float *values, uint64_t n,
                                  uint32_t epoch, uint32_t step, struct leat_error *error);
/* Waits until all reports are entered. */
LEAT_API void leat_feedback_wait(struct leat_feedback *feedback);
/* The table: as many marks as samples, valid until leat_feedback_free, and writable for a caller that has waited. */
LEAT_API struct leat_mark *leat_feedback_marks(struct leat_feedback *feedback);

/* A report on its way: `position` is that of the sample. */
struct leat_noted {
    uint64_t position;
    float value;
    uint32_t epoch, step, zero;
};
/* The number that a deferred table keeps. */
LEAT_API uint64_t leat_feedback_kept(struct leat_feedback *feedback);
/* Copies the first `n` of them, in the order of the reports; `clear`: they are not kept any more. Returns how many. */
LEAT_API uint64_t leat_feedback_take(struct leat_feedback *feedback, struct leat_noted *out, uint64_t n, bool clear);
/* Enters reports of any table of these samples, in the order of their steps. Errors: RANGE, INVALID: nothing is
 * entered.
 */
LEAT_API int leat_feedback_enter(struct leat_feedback *feedback, const struct leat_noted *reports, uint64_t n,
                                 struct leat_error *error);

/* ---- decisions ------------------------------------------------------------------------------------------------- */

/* Decides which rows epochs have from step `at` on (NULL, which needs a single rank: from the start of the epoch that
 * begins next). All ranks of a job must make the same decision. Batches in flight beyond it are computed again.
 *
 * From a step above 0 the epoch keeps its rows before it. Behind them come the listed rows; or the selected samples
 * (AS_OPENED: all) that the epoch has not had, in the order that the loader was opened with. Later epochs follow the
 * decision as if from their start. This takes 8 bytes for each row of that epoch, and for each position of the lists
 * decided within it until it has ended. Loaders with further consumers, without order (in_order) or of a list do not
 * allow it, others at most 256 times in an epoch, in 16 epochs to come.
 *
 * A decision enters the log, and so the state: lists that do not fit 44 KiB of text together, or for which it has no
 * room, by their hash alone, as those of leat_loader_set_positions. `positions` are copied. Errors: INVALID (that step
 * was handed out, or an earlier decision holds from a later place; several ranks and no step; a mixture, packed rows,
 * batches by size; SELECT in the order WEIGHTED; an empty list, or nothing is left of the epoch), RANGE (a position
 * leaves the data set; no such step). */
enum leat_rows {
    LEAT_ROWS_AS_OPENED = 0, /* as the loader was opened; positions NULL */
    LEAT_ROWS_LISTED,        /* these positions, in this order */
    LEAT_ROWS_SELECTED       /* these samples, in the order that the loader was opened with, each epoch anew */
};
LEAT_API int leat_loader_decide_rows(struct leat_loader *loader, const struct leat_step *at, enum leat_rows rows,
                                     const int64_t *positions, uint64_t n, struct leat_error *error);
/* A list that a state may have by its hash alone, for the next leat_loader_load_state, which forgets it whatever it
 * returns. Until then it changes nothing. `positions` are copied. Errors: RANGE (a negative position), NOMEM. */
LEAT_API int leat_loader_know_list(struct leat_loader *loader, const int64_t *positions, uint64_t n,
                                   struct leat_error *error);
/* The hash of a list, as states and logs have it. */
LEAT_API uint64_t leat_positions_hash(const int64_t *positions, uint64_t n);
/* The position at which leat_loader_start would begin: an epoch, and whether it lies within it. */
LEAT_API int leat_loader_next_start(const struct leat_loader *loader, uint64_t *epoch, bool *within,
                                    struct leat_error *error);
/* The state, as leat_loader_state gives it, of a run of this loader that comes to a step, with the decisions made so
 * far: to go on where something else counted to. Errors: RANGE (no such step), UNSUPPORTED (within an epoch without
 * in_order), NOMEM, CLOSED, FORKED. */
LEAT_API int leat_loader_state_at(const struct leat_loader *loader, const struct leat_step *at, char **json,
                                  struct leat_error *error);

/* ---- selections -------------------------------------------------------------------------------------------------- */

/* Numbers that lie `stride` bytes apart; with `counts` (NULL: all are known), equally spaced, those of count 0 are
 * unknown. */
struct leat_measured {
    const float *values;
    const uint32_t *counts;
    size_t stride;
    uint64_t n;
};
enum leat_extreme { LEAT_GREATEST = 0, LEAT_LEAST };
/* The k positions with the greatest or the least values, rising, in `positions`. Among equal values those at lower
 * positions are taken; -0 equals 0. Unknown ones come first with the greatest and last with the least, so that a
 * selection of high values makes them known, and one of low values does not trust them. Three passes, and half a MiB.
 * Errors: RANGE (k above n), INVALID (a value is NaN), NOMEM. */
LEAT_API int leat_select_extreme(const struct leat_measured *values, enum leat_extreme which, uint64_t k,
                                 int64_t *positions, struct leat_error *error);
/* Draws `k` positions with replacement, each in proportion to value^alpha; an unknown one has the greatest of these.
 * Draw i is a function of (key, i). If all are 0, each is as likely. 8 bytes a value. Errors: INVALID (no value, one
 * that is negative or not finite; alpha is negative or not finite), NOMEM. */
LEAT_API int leat_select_weighted(const struct leat_measured *values, double alpha, uint64_t key, uint64_t k,
                                  int64_t *positions, struct leat_error *error);

#ifdef __cplusplus
}
#endif

#endif
