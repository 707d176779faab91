/*
 * The epochs of a reader, and its state: the epoch that it reads, the one that begins next, and the effects of a loaded
 * position, set_epoch and the end of an epoch on these. The loader's own consumer, further ones (consumer.c) and
 * attached readers of a port (port/attach.c) are readers, each with rows and batches from elsewhere.
 */
#ifndef LEAT_ENGINE_READER_H
#define LEAT_ENGINE_READER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "leat/leat.h"
#include "plan/plan.h"

struct leat_reader {
    uint64_t epoch;      /* that it reads, or that the loaded position is in */
    uint64_t step;       /* of its next batch */
    uint64_t iteration;  /* counts what begins or ends a pass: `next` of an older one is refused */
    uint64_t next_epoch; /* if has_next_epoch: the value of set_epoch */
    bool has_next_epoch;
    bool started, loaded; /* loaded: a position, which the next start begins at */
    bool ended, told_end; /* the epoch's last batch was handed out; `next` has said so */
};

static inline bool leat_reader_is_reading(const struct leat_reader *r)
{
    return r->started && !r->ended;
}
/* The epoch of the next start. */
uint64_t leat_reader_next_epoch(const struct leat_reader *reader);
/* The epoch that is read, or else that of the next start. */
uint64_t leat_reader_epoch(const struct leat_reader *reader);
/* Begins a pass through reader->epoch, which is set already. Its number. */
uint64_t leat_reader_begin(struct leat_reader *reader);
/* Sets the epoch of the next start. True: a position that was loaded in another epoch is dropped. */
bool leat_reader_set_epoch(struct leat_reader *reader, uint64_t epoch);
/* A position is loaded, and stands in reader->epoch: the pass that runs ends. */
void leat_reader_load(struct leat_reader *reader);

/* All states have one form: "reader" (the kind of it), "state" (a version), "at" (a position), "fingerprint" and
 * "order", and more by the kind; plan/state.c writes that of a loader. States of versions before have the position
 * beside these, and the version under the name of the kind. */
struct leat_reader_run {
    const char *kind;
    const char *fingerprint, *order;
    const char *not_one; /* the error of an invalid one */
};
struct leat_state_number {
    const char *name;
    uint64_t value;
};
/* A new state with n numbers, or NULL. */
json_t *leat_reader_state(const struct leat_reader_run *run, struct leat_position at,
                          const struct leat_state_number *numbers, size_t n);
/* The text of a JSON value, whose reference is taken; freed with leat_free. NOMEM, also for NULL. */
int leat_reader_text(json_t *value, char **text, struct leat_error *error);
/* Reads the numbers of a state, or of NULL. INVALID: it is none. STATE: it is of another run or a later version. */
int leat_reader_read(const struct leat_reader_run *run, const json_t *state, struct leat_position *at,
                     struct leat_state_number *numbers, size_t n, struct leat_error *error);

#endif
