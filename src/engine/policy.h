/*
 * Rows of a job that fail: policy.c.
 */
#ifndef LEAT_ENGINE_POLICY_H
#define LEAT_ENGINE_POLICY_H

#include "engine/context.h"

struct leat_job;

/* A row that the policy has left out or replaced. */
struct leat_job_note {
    uint64_t row;
    int64_t planned, delivered; /* -1: left out */
    int code;
    char *reason; /* the booker of the note owns it */
};

/* The results of a job, beside the rows, for the booker. */
struct leat_job_results {
    uint64_t failed_row; /* UINT64_MAX: none */
    struct leat_error failure;
    struct leat_job_note *notes;
    size_t n_notes, notes_room;
    bool pends; /* some read was pending */
    int64_t fetch_ns;
    uint64_t fetches, fetched_bytes;
    const char *const *warning_names;   /* faults that lenient decoding has passed, NULL: none */
    uint64_t warned[LEAT_MAX_WARNINGS]; /* values */
};

/* Whether an error of this code is a sample's fault: its bytes do not decode, or a function of the user's, or a source
 * that computes, failed on it. Everything else that can fail is raised: a page of a column or index that is damaged or
 * cut off says nothing about one sample. */
static inline bool leat_is_broken(int code)
{
    return code == LEAT_E_DECODE || code == LEAT_E_OPERATOR;
}
/* Makes job->error the job's, unless an earlier row has failed. */
void leat_job_raise(struct leat_job *job, uint64_t row);
/* The fate of a row of the batch that has failed with `code` and job->error; `broken`: its sample is to blame. */
enum leat_row_fate { LEAT_ROW_RAISED, LEAT_ROW_LEFT_OUT, LEAT_ROW_REPLACED };
enum leat_row_fate leat_policy(struct leat_job *job, uint64_t row, int64_t planned, int code, bool broken);
/* The same for row i of the chunk. */
void leat_job_row_failed(struct leat_job *job, size_t i, int code, bool broken);
/* Adds the name and the file of the sample of a row, after so many attempts to replace it, to job->error. A chunk
 * that the job was at is lost: the row is planned. */
void leat_job_say_sample(struct leat_job *job, uint64_t row, unsigned attempts);
/* A substitute was made for a row that was noted as broken. */
void leat_job_row_delivered(struct leat_job *job, uint64_t row, int64_t delivered);

#endif
