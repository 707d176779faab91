/* PNGs of class ids: the values of a field of semantic masks, if a format makes them of something else. */
#ifndef LEAT_CODEC_IDS_PNG_H
#define LEAT_CODEC_IDS_PNG_H

#include "codec/shapes.h"

/* Appends a gray PNG of ids[y * w + x], w and h at least 1; false: no memory. The same ids are the same bytes on every
 * machine, as no library has a say in them. */
bool leat_ids_png(struct leat_shape_bytes *to, const uint8_t *ids, uint32_t w, uint32_t h);

#endif
