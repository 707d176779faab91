/* A component's samples and the pixels that they become, for whoever makes pixels of them (picture.h has the rules). */
#ifndef LEAT_CODEC_JPEG_SAMPLING_H
#define LEAT_CODEC_JPEG_SAMPLING_H

#include "codec/jpeg/frame.h"

struct leat_jpeg_sampling {
    unsigned size;         /* samples of a block, in both directions: 8, 4, 2 or 1 */
    unsigned across, down; /* pixels per sample */
    bool smooth_across, smooth_down;
    uint32_t width, height; /* samples of the whole image */
};

static inline uint32_t leat_jpeg_ceil_div(uint64_t a, uint64_t b)
{
    return (uint32_t)((a + b - 1) / b);
}

/* Component c, if a block of the finest component becomes `least` x `least` samples: 8, or less at a smaller scale. */
static inline struct leat_jpeg_sampling leat_jpeg_sampling_of(const struct leat_jpeg_frame *frame, unsigned c,
                                                              unsigned least)
{
    const struct leat_jpeg_component *from = &frame->component[c];
    unsigned size = least;
    while (size < 8 && (frame->max_h * least) % (from->h * size * 2) == 0 &&
           (frame->max_v * least) % (from->v * size * 2) == 0)
        size *= 2;
    struct leat_jpeg_sampling s = {
        .size = size,
        .across = frame->max_h * least / (from->h * size),
        .down = frame->max_v * least / (from->v * size),
        .width = leat_jpeg_ceil_div((uint64_t)frame->width * from->h * size, frame->max_h * 8u),
        .height = leat_jpeg_ceil_div((uint64_t)frame->height * from->v * size, frame->max_v * 8u),
    };
    const bool twice = least > 1 && s.across == 2 && s.width > 2;
    s.smooth_across = twice && s.down <= 2;
    s.smooth_down = least > 1 && s.down == 2 && (s.across == 1 || twice);
    return s;
}

/* The samples that pixels [from, from + n) look at, in one direction: [*first, *end). */
static inline void leat_jpeg_samples_of(uint32_t from, uint32_t n, unsigned pixels, bool smooth, uint32_t samples,
                                        uint32_t *first, uint32_t *end)
{
    const uint32_t last = from + n - 1;
    *first = from / pixels;
    *end = last / pixels + 1;
    if (smooth && !(from & 1) && *first)
        --*first;
    if (smooth && (last & 1) && *end < samples)
        ++*end;
}

#endif
