/*
 * Annotations say how large their photos are, and boxes are cut off there. Whether the photos are, their headers say:
 * those of some, spread over all, are read when the annotations are opened, and of all if that is asked for.
 */
#ifndef LEAT_FORMAT_PHOTO_SIZES_H
#define LEAT_FORMAT_PHOTO_SIZES_H

#include "format/annotated.h"

struct leat_said_size {
    uint32_t width, height; /* 0: nothing is said */
    uint32_t number, line;  /* where */
    uint64_t byte;
};

/* Compares; `said`: of each sample. `where` writes where that stands. Photos that cannot be read are passed over. With
 * LEAT_BAD_RAISE another size is CORRUPT, else a note. CANCELLED, NOMEM. */
int leat_photo_sizes_check(struct leat_annotated *annotated, const struct leat_said_size *said,
                           void (*where)(const struct leat_annotated *annotated, uint64_t sample,
                                         const struct leat_said_size *said, char *out, size_t room),
                           struct leat_error *error);

#endif
