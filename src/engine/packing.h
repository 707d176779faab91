/*
 * Rows cut from documents, as the engine sees them: the program's fields, and a row from its pieces. The plan gives the
 * pieces of a row (plan/packed.c).
 */
#ifndef LEAT_ENGINE_PACKING_H
#define LEAT_ENGINE_PACKING_H

#include "engine/job.h"

enum leat_packed_field {
    LEAT_PACKED_TOKENS = 0,
    LEAT_PACKED_DOC_IDS,
    LEAT_PACKED_POSITIONS,
    LEAT_PACKED_LOSS_MASK,
    LEAT_PACKED_LABELS, /* of a chain that has them */
    LEAT_PACKED_FIELDS
};

struct leat_packing_rule {
    enum leat_pack_how how;
    uint64_t seed;
    size_t field;      /* of the documents */
    uint64_t length;   /* elements of a row */
    uint64_t multiple; /* behind each piece there is padding up to a multiple of this; 1: none */
    unsigned element;  /* bytes of one */
    unsigned stored;   /* ... as the documents have it */
    bool has_bos, has_eos;
    uint64_t bos, eos, fill;                      /* their bits */
    struct leat_field fields[LEAT_PACKED_FIELDS]; /* by enum leat_packed_field; the first name is the data set's */
    size_t n_fields;                              /* with labels, or without */
    char labels_name[80];
    /* A program that is applied to each whole document, of which the row then has pieces; NULL: there is none. */
    struct leat_program *chain;
    size_t made[LEAT_PACKED_FIELDS]; /* its outputs; SIZE_MAX: it does not make that field */
    uint64_t seed_of_draws;          /* the loader's */
    uint64_t longest;                /* bytes of a document, once the lengths were read */
    _Atomic uint8_t *touched;        /* a bit per document: its checksum was compared where it is mapped, ... */
    _Atomic uint64_t changes;        /* ... since leat_dataset_changes was this */
    bool is_mask;
    struct leat_packing_rule *mask; /* of the documents' own "loss_mask", as if it were the tokens; NULL: none. For a
                                     * mask, that of another source, which is closed with it */
};

/* Elements of a document that is stored in so many bytes, without bos and eos. */
uint64_t leat_packing_elements(const struct leat_packing_rule *rule, uint64_t bytes);
/* Memory of a thread that applies the chain to the longest document; 0: there is no chain. */
uint64_t leat_packing_document_bytes(const struct leat_packing_rule *rule);
/* Fields of the program for these options. INVALID, NOT_FOUND, TYPE, NOMEM. `rule` is memory of leat_new; that of the
 * first of several sources also has the common part of all their rows. */
int leat_packing_open(const struct leat_dataset *documents, const struct leat_pack_options *options,
                      struct leat_packing_rule *rule, struct leat_error *error);
/* Elements of each document with bos and eos, for the plan; ended with leat_free. NOMEM, and the errors of reading. */
int leat_packing_lengths(struct leat_packing_rule *rule, const struct leat_dataset *documents, uint64_t **lengths,
                         struct leat_error *error);
/* Makes the fingerprint of the documents that of these rows. */
void leat_packing_fingerprint(const struct leat_packing_rule *rule, uint8_t fingerprint[16]);
void leat_packing_close(struct leat_packing_rule *rule); /* NULL is allowed */
/* The mask of `rule`, if it has one, is closed with that of `first`, whose marks of compared documents serve for both.
 */
void leat_packing_join(struct leat_packing_rule *first, struct leat_packing_rule *rule);
/* The needs of a job for a row: bytes, zero at first, and the number of values that are read together. */
uint64_t leat_packing_row_bytes(const struct leat_packing_rule *rule);
size_t leat_packing_values(void);
/* The most bytes that are read for a piece of one of a few documents, if these are not mapped. */
uint64_t leat_packing_probe(const struct leat_job_context *context);

/* Rows that are cut from documents. */
extern const struct leat_job_steps leat_steps_of_pieces;

#endif
