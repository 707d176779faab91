/* Photos that a card decodes: the launches of the kernels for a batch (kernels/photo.h). */
#ifndef LEAT_DEVICE_PHOTOS_H
#define LEAT_DEVICE_PHOTOS_H

#include "device/card.h"
#include "device/kernels/photo.h"

/* Launches all kernels in a stream, for up to LEAT_CARD_BLOCKS photos, which leat_card_place has placed; args->together
 * is chosen here, its pointers are the card's. `faults` are 0 before, and read when the stream is done: leat_card_fault
 * has their text. The card was entered. Errors: those of leat_card_kernel; INVALID (more photos); IO. */
int leat_photos_launch(struct leat_card *card, const char *nvrtc, const struct leat_photo_args *args,
                       leat_cu_handle stream, struct leat_error *error);

#endif
