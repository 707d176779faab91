/*
 * Parts of indexes that a job brings into memory before it locates values: look_up.c.
 */
#ifndef LEAT_ENGINE_LOOK_UP_H
#define LEAT_ENGINE_LOOK_UP_H

#include "engine/context.h"

struct leat_job;

/* Blocks of an index that a job asks for at a time. */
#define LEAT_MAX_LOOKUPS 16

/* Reads of an index, whose spans are the window's meanwhile. */
struct leat_index_reads {
    size_t looked; /* of the chunk's (field, row) pairs, those that were looked up */
    unsigned tries;
    struct leat_io_request *requests;
};

/* Before the first call of leat_reads_look_up for a chunk. */
void leat_reads_begin(struct leat_job *job);
/* Brings the index records that locate the chunk's rows into memory, before they are located. READS, SLEEPS: it is to
 * be called again; DONE. */
enum leat_job_status leat_reads_look_up(struct leat_job *job);

#endif
