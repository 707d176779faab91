/* Coefficients for the tests of the decode-fast form: made at random, or read by libjpeg. */
#ifndef LEAT_TESTS_JPEG_FAST_H
#define LEAT_TESTS_JPEG_FAST_H

#include "../../test.h"

#include <dirent.h>

#include <jpeglib.h>

#include "base/hash.h"
#include "codec/jpeg/fast_format.h"
#include "codec/jpeg/idct.h"

/* Grids of `width` by `height` pixels; `v`: down and across factors of the first component, the others have 1. Ended
 * with free. */
static inline struct leat_jpeg_coefficients *fast_grid(enum leat_jpeg_colour colour, uint32_t width, uint32_t height,
                                                       unsigned h, unsigned v)
{
    static const uint8_t components[] = {1, 3, 3, 4, 4};
    struct leat_jpeg_frame frame = {
        .width = width, .height = height, .colour = colour, .n_components = components[colour]};
    size_t blocks = 0;
    for (unsigned c = 0; c < frame.n_components; c++) {
        frame.component[c].h = c ? 1 : (uint8_t)h;
        frame.component[c].v = c ? 1 : (uint8_t)v;
        for (unsigned k = 0; k < 64; k++)
            frame.component[c].quant[k] = (uint16_t)(1 + k + (c ? 100 : 0));
    }
    assert_true(leat_jpeg_frame_complete(&frame));
    for (unsigned c = 0; c < frame.n_components; c++)
        blocks += (size_t)frame.component[c].blocks_w * frame.component[c].blocks_h;
    struct leat_jpeg_coefficients *made = aligned_alloc(64, (sizeof *made + 63) / 64 * 64 + 128 * blocks);
    assert_non_null(made);
    memset(made, 0, (sizeof *made + 63) / 64 * 64 + 128 * blocks);
    made->frame = frame;
    int16_t *at = (int16_t *)(void *)((uint8_t *)made + (sizeof *made + 63) / 64 * 64);
    for (unsigned c = 0; c < frame.n_components; c++) {
        made->of[c] = at;
        at += 64 * (size_t)frame.component[c].blocks_w * frame.component[c].blocks_h;
    }
    return made;
}

static inline size_t fast_component_bytes(const struct leat_jpeg_frame *frame, unsigned c)
{
    return 128 * (size_t)frame->component[c].blocks_w * frame->component[c].blocks_h;
}

/* A sequence of numbers that is the same in every run. */
static inline uint32_t fast_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

/* The coefficients of a JPEG, as libjpeg reads them; NULL if it is none that the form knows. */
static inline struct leat_jpeg_coefficients *fast_read_jpeg(const char *path)
{
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    cinfo.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&cinfo);
    jpeg_stdio_src(&cinfo, file);
    jpeg_read_header(&cinfo, TRUE);
    jvirt_barray_ptr *arrays = jpeg_read_coefficients(&cinfo);
    struct leat_jpeg_frame frame;
    struct leat_jpeg_coefficients *made = NULL;
    if (leat_jpeg_frame_of(&cinfo, &frame)) {
        made = fast_grid(frame.colour, frame.width, frame.height, frame.component[0].h, frame.component[0].v);
        for (unsigned c = 0; c < frame.n_components; c++) {
            assert_int_equal(made->frame.component[c].blocks_w, frame.component[c].blocks_w);
            const size_t row = 128 * (size_t)frame.component[c].blocks_w;
            const uint32_t held = cinfo.comp_info[c].height_in_blocks;
            for (uint32_t y = 0; y < frame.component[c].blocks_h && y < held; y++)
                memcpy((uint8_t *)made->of[c] + row * y,
                       cinfo.mem->access_virt_barray((j_common_ptr)&cinfo, arrays[c], y, 1, FALSE)[0], row);
        }
        made->frame = frame;
    }
    jpeg_destroy_decompress(&cinfo);
    fclose(file);
    return made;
}

#endif
