/* The steps of a row of pixels between a format's decoder and the caller. All work in place, too. */
#ifndef LEAT_CODEC_PHOTO_COLOURS_H
#define LEAT_CODEC_PHOTO_COLOURS_H

#include <stddef.h>
#include <stdint.h>

/* n pixels RGBX to grey: Pillow's ITU-R 601-2 luma with 16 bits of fraction, rounded. */
void leat_luma(uint8_t *gray, const uint8_t *rgbx, size_t n);
void leat_luma_wide(uint16_t *gray, const uint16_t *rgbx, size_t n);

/* n samples of 8 bits to 16: 255 becomes 65535. It does not work in place. */
void leat_widen(uint16_t *wide, const uint8_t *samples, size_t n);

/* n pixels RGBA over a background, to RGBX: (colour A + background (255 - A)) / 255, rounded. */
void leat_blend(uint8_t *rgbx, const uint8_t *rgba, const uint8_t background[3], size_t n);
void leat_blend_wide(uint16_t *rgbx, const uint16_t *rgba, const uint8_t background[3], size_t n);

#endif
