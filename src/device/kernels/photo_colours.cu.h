/* Upsampling and colours: a thread for each pixel of the box. The arithmetic is libjpeg's; codec/jpeg/pixels.h says it,
 * and codec/jpeg/picture.h which samples are doubled smoothly. */
#include "device/kernels/photo.cu.h"

enum { COLOURS_GRAY = 0, COLOURS_RGB = 2 }; /* of enum leat_jpeg_colour */

KERNEL_FUNCTION u32 colours_clamp(int v)
{
    return (u32)(v < 0 ? 0 : v > 255 ? 255 : v);
}

KERNEL_FUNCTION u32 colours_pixel(u32 r, u32 g, u32 b)
{
    return r | g << 8 | b << 16 | 0xff000000;
}

/* JFIF's: factors in units of 2^-16. */
KERNEL_FUNCTION u32 colours_ycc(u32 y, u32 cb, u32 cr)
{
    const int x = (int)cb - 128, z = (int)cr - 128;
    return colours_pixel(colours_clamp((int)y + ((91881 * z + 32768) >> 16)),
                         colours_clamp((int)y - ((22554 * x + 46802 * z + 32767) >> 16)),
                         colours_clamp((int)y + ((116130 * x + 32768) >> 16)));
}

/* A component at pixel (x, y) of the photo. */
KERNEL_FUNCTION u32 colours_sample(const struct leat_card_plane *p, const u8 *samples, u32 x, u32 y)
{
    u32 at = x / p->across, row = y / p->down, side = at, beside = row;
    if (p->smooth_across)
        side = x & 1 ? (at + 1 < p->width ? at + 1 : at) : (at ? at - 1 : at);
    if (p->smooth_down)
        beside = y & 1 ? (row + 1 < p->height ? row + 1 : row) : (row ? row - 1 : row);
    const u8 *near = samples + 64 * (u64)p->first + (u64)(row - 8 * p->y0) * 8 * p->w,
             *other = samples + 64 * (u64)p->first + (u64)(beside - 8 * p->y0) * 8 * p->w;
    at -= 8 * p->x0;
    side -= 8 * p->x0;
    if (!p->smooth_across)
        return p->smooth_down ? (3u * photo_byte(near + at) + photo_byte(other + at) + (y & 1 ? 2 : 1)) >> 2
                              : photo_byte(near + at);
    if (!p->smooth_down)
        return (3u * photo_byte(near + at) + photo_byte(near + side) + (x & 1 ? 2 : 1)) >> 2;
    return (3 * (3u * photo_byte(near + at) + photo_byte(other + at)) +
            (3u * photo_byte(near + side) + photo_byte(other + side)) + (x & 1 ? 7 : 8)) >>
           4;
}

KERNEL_FUNCTION void photo_colours(struct leat_photo_args a)
{
    const struct photo_share s = photo_share_of(&a);
    const struct leat_card_photo *photo = s.photo;
    const u8 *samples = s.scratch + photo->second_at;
    for (u32 i = s.first; i < photo->w * photo->h; i += s.step) {
        const u32 x = photo->x + i % photo->w, y = photo->y + i / photo->w;
        const u32 first = colours_sample(&photo->plane[0], samples, x, y);
        u32 pixel = colours_pixel(first, first, first);
        if (photo->colour != COLOURS_GRAY) {
            const u32 second = colours_sample(&photo->plane[1], samples, x, y),
                      third = colours_sample(&photo->plane[2], samples, x, y);
            pixel =
                photo->colour == COLOURS_RGB ? colours_pixel(first, second, third) : colours_ycc(first, second, third);
        }
        kernel_store(s.scratch + photo->first_at + 4 * (u64)i, 4, &pixel);
    }
}

#ifdef __CUDACC__
extern "C" __global__ void leat_photo_colours(struct leat_photo_args a)
{
    photo_colours(a);
}
#endif
