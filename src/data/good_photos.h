/*
 * Photos that this process has decoded to their end, by the checksum of their bytes: for values that come without a
 * place of their own. So the same photo is decoded to its end once, as in a folder, and then as far as a crop needs.
 */
#ifndef LEAT_DATA_GOOD_PHOTOS_H
#define LEAT_DATA_GOOD_PHOTOS_H

#include <stddef.h>
#include <stdint.h>

#include "codec/codec.h"

/* Any thread; no locks, so a forked child may call them at any time. Memory is bounded: a checksum may be forgotten. */

/* Fills in the health of the photo, and where its rows begin, if it is known. */
void leat_good_photos_describe(uint64_t checksum, struct leat_value_info *info);
/* `rows`: its row index (codec/jpeg/rows.h), copied; length 0: it has none. */
void leat_good_photos_add(uint64_t checksum, const uint8_t *rows, size_t length);

#endif
