/* The facts of a JPEG, from libjpeg's reading of its header. */
#include "codec/jpeg/frame.h"

#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

const uint8_t leat_jpeg_natural[128] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45,
    38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,
    63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,
    63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,
};

static uint32_t ceil_div(uint64_t a, uint64_t b)
{
    return (uint32_t)((a + b - 1) / b);
}

bool leat_jpeg_frame_complete(struct leat_jpeg_frame *f)
{
    static const uint8_t components[] = {1, 3, 3, 4, 4}; /* of each colour */
    if ((unsigned)f->colour > LEAT_JPEG_YCCK || f->n_components != components[f->colour] || !f->width || !f->height ||
        f->width > 65535 || f->height > 65535)
        return false;
    if (f->n_components == 1)
        f->component[0].h = f->component[0].v = 1;
    f->max_h = f->max_v = 1;
    for (unsigned c = 0; c < f->n_components; c++) {
        const struct leat_jpeg_component *p = &f->component[c];
        if (p->h < 1 || p->h > 4 || p->v < 1 || p->v > 4)
            return false;
        f->max_h = p->h > f->max_h ? p->h : f->max_h;
        f->max_v = p->v > f->max_v ? p->v : f->max_v;
    }
    f->mcus_w = ceil_div(f->width, 8u * f->max_h);
    f->mcus_h = ceil_div(f->height, 8u * f->max_v);
    for (unsigned c = 0; c < f->n_components; c++) {
        struct leat_jpeg_component *p = &f->component[c];
        if (f->max_h % p->h || f->max_v % p->v)
            return false;
        p->width = ceil_div((uint64_t)f->width * p->h, f->max_h);
        p->height = ceil_div((uint64_t)f->height * p->v, f->max_v);
        p->blocks_w = f->mcus_w * p->h;
        p->blocks_h = f->mcus_h * p->v;
    }
    return true;
}

static bool colour_of(J_COLOR_SPACE space, enum leat_jpeg_colour *colour)
{
    switch (space) {
    case JCS_GRAYSCALE:
        *colour = LEAT_JPEG_GRAY;
        return true;
    case JCS_YCbCr:
        *colour = LEAT_JPEG_YCC;
        return true;
    case JCS_RGB:
        *colour = LEAT_JPEG_RGB;
        return true;
    case JCS_CMYK:
        *colour = LEAT_JPEG_CMYK;
        return true;
    case JCS_YCCK:
        *colour = LEAT_JPEG_YCCK;
        return true;
    default:
        return false;
    }
}

bool leat_jpeg_frame_of(const struct jpeg_decompress_struct *cinfo, struct leat_jpeg_frame *frame)
{
    memset(frame, 0, sizeof *frame);
    if (cinfo->data_precision != 8 || cinfo->num_components < 1 || cinfo->num_components > LEAT_JPEG_MAX_COMPONENTS ||
        !colour_of(cinfo->jpeg_color_space, &frame->colour))
        return false;
    frame->width = cinfo->image_width;
    frame->height = cinfo->image_height;
    frame->n_components = (uint8_t)cinfo->num_components;
    for (int c = 0; c < cinfo->num_components; c++) {
        const jpeg_component_info *from = &cinfo->comp_info[c];
        struct leat_jpeg_component *to = &frame->component[c];
        const JQUANT_TBL *table = from->quant_table; /* kept from the component's first scan, if that was read */
        if (!table && from->quant_tbl_no >= 0 && from->quant_tbl_no < NUM_QUANT_TBLS)
            table = cinfo->quant_tbl_ptrs[from->quant_tbl_no];
        if (!table)
            return false;
        to->h = (uint8_t)from->h_samp_factor;
        to->v = (uint8_t)from->v_samp_factor;
        memcpy(to->quant, table->quantval, sizeof to->quant); /* libjpeg keeps it in natural order */
    }
    return leat_jpeg_frame_complete(frame);
}
