/*
 * Rows cut from documents, as the engine sees them: what the program's fields are, and a row from its pieces. Which
 * pieces a row has says the plan (plan/packed.c).
 */
#ifndef LEAT_ENGINE_PACKING_H
#define LEAT_ENGINE_PACKING_H

#include "engine/job.h"

enum leat_packed_field { LEAT_PACKED_TOKENS = 0, LEAT_PACKED_DOC_IDS, LEAT_PACKED_POSITIONS, LEAT_PACKED_LOSS_MASK };
#define LEAT_PACKED_FIELDS 4

struct leat_packing_rule {
    size_t field;     /* of the documents */
    uint64_t length;  /* elements of a row */
    unsigned element; /* bytes of one */
    bool has_bos, has_eos;
    uint64_t bos, eos, fill;                      /* their bits */
    struct leat_field fields[LEAT_PACKED_FIELDS]; /* by enum leat_packed_field; the first name is the data set's */
    _Atomic uint8_t *touched; /* a bit per document: its checksum was compared where it is mapped, ... */
    _Atomic uint64_t changes; /* ... since leat_dataset_changes was this */
};

/* Fields of the program for these options. INVALID, NOT_FOUND, TYPE, NOMEM. `rule` is memory of leat_new. */
int leat_packing_open(const struct leat_dataset *documents, const struct leat_pack_options *options,
                      struct leat_packing_rule *rule, struct leat_error *error);
/* Elements of each document with bos and eos, for the plan; ended with leat_free. NOMEM, and the errors of reading. */
int leat_packing_lengths(const struct leat_packing_rule *rule, const struct leat_dataset *documents, uint64_t **lengths,
                         struct leat_error *error);
/* Makes the fingerprint of the documents that of these rows. */
void leat_packing_fingerprint(const struct leat_packing_rule *rule, uint8_t fingerprint[16]);
/* As an epoch begins, after leat_dataset_refresh: documents are compared again if files have changed. */
void leat_packing_refresh(struct leat_packing_rule *rule, const struct leat_dataset *documents);
void leat_packing_close(struct leat_packing_rule *rule); /* NULL is allowed */
/* Bytes that a job needs for the values of one row. */
uint64_t leat_packing_row_bytes(const struct leat_packing_rule *rule);

/* Makes all outputs of row i of the chunk. An error is in job->error, with the document that is to blame, whose
 * position becomes that of the row; *broken: it is that document's fault. */
int leat_packing_make_row(struct leat_job *job, struct leat_scratch *scratch, size_t i, bool *broken);

#endif
