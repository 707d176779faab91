/* Rows of pixels: grey, 16 bits, transparency. Plain loops, which compilers turn into vector instructions. */
#include "codec/photo/colours.h"

/* Parts of 65536, which add up to it: three equal samples give that sample. */
enum { RED = 19595, GREEN = 38470, BLUE = 7471, HALF = 0x8000 };

void leat_luma(uint8_t *gray, const uint8_t *rgbx, size_t n)
{
    for (size_t i = 0; i < n; i++, rgbx += 4)
        gray[i] =
            (uint8_t)((rgbx[0] * (unsigned)RED + rgbx[1] * (unsigned)GREEN + rgbx[2] * (unsigned)BLUE + HALF) >> 16);
}

void leat_luma_wide(uint16_t *gray, const uint16_t *rgbx, size_t n)
{
    for (size_t i = 0; i < n; i++, rgbx += 4)
        gray[i] =
            (uint16_t)((rgbx[0] * (uint64_t)RED + rgbx[1] * (uint64_t)GREEN + rgbx[2] * (uint64_t)BLUE + HALF) >> 16);
}

void leat_widen(uint16_t *wide, const uint8_t *samples, size_t n)
{
    for (size_t i = 0; i < n; i++)
        wide[i] = (uint16_t)(samples[i] * 257u);
}

void leat_blend(uint8_t *rgbx, const uint8_t *rgba, const uint8_t background[3], size_t n)
{
    for (size_t i = 0; i < n; i++, rgbx += 4, rgba += 4) {
        unsigned opacity = rgba[3];
        for (unsigned c = 0; c < 3; c++)
            rgbx[c] = (uint8_t)((rgba[c] * opacity + background[c] * (255 - opacity) + 127) / 255);
        rgbx[3] = 255;
    }
}

void leat_blend_wide(uint16_t *rgbx, const uint16_t *rgba, const uint8_t background[3], size_t n)
{
    for (size_t i = 0; i < n; i++, rgbx += 4, rgba += 4) {
        uint64_t opacity = rgba[3];
        for (unsigned c = 0; c < 3; c++)
            rgbx[c] =
                (uint16_t)((rgba[c] * opacity + background[c] * UINT64_C(257) * (65535 - opacity) + 32767) / 65535);
        rgbx[3] = 65535;
    }
}
