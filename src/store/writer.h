/*
 * The part of the writer that is not public: what leat_writer_set_source of src/data says.
 */
#ifndef LEAT_STORE_WRITER_H
#define LEAT_STORE_WRITER_H

#include "leat/leat.h"

/* The data set that a file is converted from. */
struct leat_writer_source {
    uint64_t count, sums[2]; /* samples; of the fingerprint */
    const char *const *classes;
    size_t n_classes;
    bool classes_apart; /* they are no part of the fingerprint */
    uint8_t fingerprint[16];
};

/* The finished file will have the fingerprint of this, which is read in this call only. INVALID. */
int leat_writer_convert(struct leat_writer *writer, const struct leat_writer_source *source, struct leat_error *error);

#endif
