/* Many values of varying size at once. One thread. */
#ifndef LEAT_DATA_TEXTS_H
#define LEAT_DATA_TEXTS_H

#include "data/internal.h"

#define LEAT_TEXTS 256 /* values at a time */

struct leat_texts {
    size_t n; /* values read */
    const uint8_t *at[LEAT_TEXTS];
    uint64_t length[LEAT_TEXTS];
    uint8_t *memory; /* of those that were read from files */
    uint64_t room;
    struct leat_values values; /* of those that were computed */
    bool computed;
    bool may_lack; /* set by the caller: a sample without a value is no error; it reads as empty */
    bool lacking[LEAT_TEXTS];
};

/* Reads the stored bytes of a field's values at the first t->n <= n <= LEAT_TEXTS of the positions, at least one. They
 * stay until the next call with `t`, which begins as zeros but for `may_lack`. */
int leat_texts_read(const struct leat_dataset *dataset, size_t field, const uint64_t *positions, size_t n,
                    struct leat_texts *t, struct leat_error *error);
void leat_texts_destroy(struct leat_texts *t);

#endif
