/*
 * The outputs of the rows of a job: make.c.
 */
#ifndef LEAT_ENGINE_MAKE_H
#define LEAT_ENGINE_MAKE_H

#include "engine/context.h"

struct leat_job;
struct leat_job_value;

/* The operands of the program. */
struct leat_job_making {
    struct leat_row *args; /* of the chunk */
    const void **data;
    uint8_t *cold;                /* context->cold_bytes */
    struct leat_row *inputs;      /* the values of the row at hand, by slot */
    struct leat_room room_of_row; /* for images of open size: asks `result_room` */
    struct leat_row *tied;        /* context->most_tied, as are */
    void **tied_outputs;
    uint64_t *tied_steps;
};

/* One output of a mapped field, of all rows of the chunk; the policy handles rows that fail. */
void leat_job_make_mapped(struct leat_job *job, struct leat_scratch *scratch, const struct leat_feed *feed,
                          size_t output);
/* Makes rows [i, i + n) of an output of values of one size, which stand in job->making.data, in mappings or in memory.
 * Stops at the first that fails, and returns its code; *made counts those before it. */
int leat_job_apply(struct leat_job *job, struct leat_scratch *scratch, size_t output, uint64_t value_bytes, size_t i,
                   size_t n, size_t *made);
/* The outputs of ordinary chains of row i from the value of a field, which has its one size. */
int leat_job_make_from(struct leat_job *job, struct leat_scratch *scratch, const struct leat_feed *feed, size_t i,
                       const void *value);
/* All outputs of mapped fields of row i, for a substitute. The code of the first that fails. */
int leat_job_remake_mapped(struct leat_job *job, struct leat_scratch *scratch, size_t i);
/* The outputs of the other values of row i, which are in the buffer or computed. LEAT_OK, also if the row has failed.
 * LEAT_JOB_ROOM: decoding, or an image of open size, needs more memory. */
int leat_job_make_row(struct leat_job *job, struct leat_scratch *scratch, size_t i);
/* The place in the batch of a value of row i of the chunk, if it goes there as it is, and nowhere else; else NULL. Of
 * other values than one of `room` bytes it is not the place. */
uint8_t *leat_job_straight(const struct leat_job *job, const struct leat_job_value *value, size_t i, uint64_t *room);
/* Whether it would wait for another thread, which decodes a photo of row i for several users. */
bool leat_job_would_wait(const struct leat_job *job, const struct leat_scratch *scratch, size_t i);
/* Row i fails for a reason that is not its sample's fault, unless it is a photo that is known to be broken. */
void leat_job_refuse_row(struct leat_job *job, size_t i, int code);
/* Whether a value of row i is known to be broken. Then the row fails, unread. */
bool leat_job_pass_known(struct leat_job *job, size_t i);
/* job->error is that of a value of row i: adds its place, and says which of the row's samples is to blame; returns
 * `rc`. */
int leat_job_at_value(struct leat_job *job, size_t i, const struct leat_job_value *value, int rc);

#endif
