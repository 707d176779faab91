/*
 * Annotations say how large their photos are, and boxes are cut off there. Whether the photos are, their headers say:
 * those of some, spread over all, are read when the annotations are opened, and of all if that is asked for. Where
 * annotations do not say it, boxes are cut off at the size that the photo's header says.
 */
#ifndef LEAT_FORMAT_PHOTO_SIZES_H
#define LEAT_FORMAT_PHOTO_SIZES_H

#include "format/annotated.h"

/* What the header of a photo has said so far; begins with zeros. */
struct leat_photo_size {
    uint32_t width, height; /* 0: nothing */
    enum { LEAT_PHOTO_NOT_ASKED, LEAT_PHOTO_ASKED_HEAD, LEAT_PHOTO_ASKED_WHOLE } asked;
    bool turned; /* EXIF exchanges its sides */
};

struct leat_said_size {
    uint32_t width, height; /* 0: nothing is said */
    uint32_t number, line;  /* where */
    uint64_t byte;
};

/* The size at which a box (x0, y0, x1, y1) of a sample is cut off: a side that is infinite, because the annotations do
 * not say it, becomes that of the photo's header. It stays infinite where the header cannot be read, and where EXIF
 * turns the photo and the box lies in one of the two sizes alone. NOMEM. */
int leat_photo_sizes_find(struct leat_annotated *annotated, uint64_t sample, const float box[4],
                          struct leat_photo_size *photo, double *width, double *height, struct leat_error *error);

/* Says of a box whose photo has no such size that it is not cut off; the rest says where it stands, as in printf. */
#define leat_photo_sizes_lack(annotated, ...)                                                                          \
    leat_annotated_tell(annotated,                                                                                     \
                        "boxes are not cut off at their photo: neither the annotations nor the photo's header says "   \
                        "how large it is as it was annotated",                                                         \
                        __VA_ARGS__)

/* Compares; `said`: of each sample. `where` writes where that stands. Photos that cannot be read are passed over. With
 * LEAT_BAD_RAISE another size is CORRUPT, else a note. CANCELLED, NOMEM. */
int leat_photo_sizes_check(struct leat_annotated *annotated, const struct leat_said_size *said,
                           void (*where)(const struct leat_annotated *annotated, uint64_t sample,
                                         const struct leat_said_size *said, char *out, size_t room),
                           struct leat_error *error);

#endif
