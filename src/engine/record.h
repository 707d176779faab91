/*
 * The record of which rows were handed out together: record.c. It has a lock of its own.
 */
#ifndef LEAT_ENGINE_RECORD_H
#define LEAT_ENGINE_RECORD_H

#include "engine/loader.h"

/* The record of which rows were handed out together, in a folder: docs/order.md. Errors: IO, NOMEM. */
int leat_record_open(const char *folder, const struct leat_loader *loader, uint64_t seed, uint32_t rank,
                     uint32_t world_size, struct leat_record **out, struct leat_error *error);
void leat_record_close(struct leat_record *record);
/* Reads the record's entries of an epoch, for leat_record_find. Not under the engine's lock. Errors: IO, STATE (of
 * another run). */
int leat_record_read(struct leat_record *record, uint64_t epoch, struct leat_error *error);
/* The rows of a step of an epoch that was read, if they are `n`. `numbers` has room for n. */
bool leat_record_find(struct leat_record *record, uint64_t epoch, uint64_t step, uint64_t n, uint64_t *numbers);
/* Forgets the steps from `step` on. */
void leat_record_forget(struct leat_record *record, uint64_t epoch, uint64_t step);
/* Reads and finds. RANGE: it has no such step of n rows. Not under the engine's lock. */
int leat_record_seek(struct leat_record *record, uint64_t epoch, uint64_t step, uint64_t n, uint64_t *numbers,
                     struct leat_error *error);
/* Appends one batch. The first failure is a warning in the log. Not under the engine's lock. */
void leat_record_append(struct leat_record *record, const struct leat_batch *batch);

#endif
