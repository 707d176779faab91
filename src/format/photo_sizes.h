/*
 * Annotations say how large their photos are, and boxes are cut off there. Whether the photos are, their headers say:
 * those of some, spread over all, and of photos with boxes that reach out of what is said, are read when the
 * annotations are opened, and of all if that is asked for. Where annotations say no size, boxes are cut off at that of
 * the header.
 */
#ifndef LEAT_FORMAT_PHOTO_SIZES_H
#define LEAT_FORMAT_PHOTO_SIZES_H

#include "format/annotated.h"

/* The facts that the header of a photo has given so far; begins with zeros. */
struct leat_photo_size {
    uint32_t width, height; /* 0: nothing */
    enum { LEAT_PHOTO_NOT_ASKED, LEAT_PHOTO_ASKED_HEAD, LEAT_PHOTO_ASKED_WHOLE } asked;
    bool turned; /* EXIF exchanges its sides */
};

struct leat_said_size {
    uint32_t width, height; /* 0: nothing is said */
    uint32_t number, line;  /* where */
    uint64_t byte;
    bool exceeded; /* a box reaches out of it: the photo may be larger */
};

/* The size that the first bytes of a photo's file give, read to `head` of `room`. False: none. */
bool leat_photo_sizes_look(struct leat_annotated *annotated, uint64_t sample, uint8_t *head, size_t room,
                           struct leat_photo_size *photo);

/* The size at which a box (x0, y0, x1, y1) of a sample is cut off: a side that is infinite, because the annotations do
 * not say it, becomes that of the photo's header. It stays infinite where the header cannot be read, and where EXIF
 * turns the photo and the box lies in one of the two sizes alone. NOMEM. */
int leat_photo_sizes_find(struct leat_annotated *annotated, uint64_t sample, const float box[4],
                          struct leat_photo_size *photo, double *width, double *height, struct leat_error *error);

/* Whether a mask of w x h pixels may be that of an image: as large as the annotations say, and on a side that they do
 * not say (infinite) as its photo, as that is stored or as EXIF turns it. True where neither is known. */
bool leat_photo_sizes_agree(const struct leat_photo_size *photo, double width, double height, uint32_t w, uint32_t h);

/* Compares; `said`: of each sample. `where` writes where that stands. Photos that cannot be read are passed over. With
 * LEAT_BAD_RAISE another size is CORRUPT, else a note. CANCELLED, NOMEM. */
int leat_photo_sizes_check(struct leat_annotated *annotated, const struct leat_said_size *said,
                           void (*where)(const struct leat_annotated *annotated, uint64_t sample,
                                         const struct leat_said_size *said, char *out, size_t room),
                           struct leat_error *error);

#endif
