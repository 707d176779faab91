/*
 * JPEG by libjpeg-turbo: headers of all photos, and the pixels of those that our own decoder (decode_jpeg.c) leaves to
 * it.
 *
 * Only the pixels that a box needs are decoded: rows above it are entropy-decoded only (jpeg_skip_scanlines), columns
 * beside it are neither transformed nor upsampled (jpeg_crop_scanline), rows below it are not read at all. Smooth
 * ("fancy") upsampling mixes each chroma sample with its neighbour, so the box for libjpeg is larger by MARGIN on the
 * left and right, from where the neighbours come; above and below libjpeg reads the context rows itself. This equals a
 * full decode byte for byte for the kinds that `decodes_in_part` names (tests/c/codec/photo/test_decode_jpeg.c holds it
 * for every offset); other kinds are decoded in full and the box is picked from the rows. Photos in several scans, as
 * progressive ones, are entropy-decoded in full in any case.
 *
 * A new decompressor is made for each photo: it costs a tenth of a microsecond, and an old one would lend its tables to
 * a photo that lacks its own.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "codec/photo/decode_internal.h"
#include "codec/photo/decode_libjpeg.h"

#include <jerror.h>

/* Pixels of the scaled image, beside the box, that upsampling may look at. */
#define MARGIN 2

/* ---- errors ---------------------------------------------------------------------------------- */

/* A kind of JPEG that libjpeg has no decoder for, rather than damage: lossless, 12 bits. */
static bool is_unknown_kind(int code)
{
    return code == JERR_SOF_UNSUPPORTED || code == JERR_BAD_PRECISION;
}

/* Damage that a lenient request passes. */
static void advise_lenient(bool lenient, struct leat_error *error)
{
    const size_t used = error ? strlen(error->message) : 0;
    if (error && !lenient)
        snprintf(error->message + used, sizeof error->message - used, "; Decode(strict=False) decodes what there is");
}

/* The result after a jump. */
static int failed(struct leat_libjpeg *j, struct leat_error *error)
{
    if (leat_jpeg_trouble_is_memory(&j->trouble))
        return leat_fail(error, LEAT_E_NOMEM, "JPEG: memory to decode a photo of %u x %u could not be had",
                         j->cinfo.image_width, j->cinfo.image_height);
    if (is_unknown_kind(j->trouble.errors.msg_code) && !leat_libjpeg_has_rare())
        return leat_fail(error, LEAT_E_DECODE,
                         "JPEG: %s; 12 bits and lossless photos need libjpeg-turbo 3 or newer, and leat runs with an "
                         "older one: install that, convert the photo, or leave it out",
                         j->trouble.words);
    if (is_unknown_kind(j->trouble.errors.msg_code))
        return leat_fail(error, LEAT_E_DECODE,
                         "JPEG: %s; leat does not decode this kind: convert the photo, or leave it out",
                         j->trouble.words);
    const uint8_t *at = j->input.source.next_input_byte; /* a lenient reader may be behind the end */
    int64_t offset = at && at >= j->data && at <= j->data + j->length ? (int64_t)(at - j->data) : -1;
    leat_decode_fail(error, "JPEG", offset, j->length, j->trouble.words);
    if (j->trouble.warned || (j->trouble.errors.msg_code == JERR_INPUT_EOF && j->cinfo.comps_in_scan))
        advise_lenient(j->trouble.lenient, error);
    return LEAT_E_DECODE;
}

/* ---- kinds ----------------------------------------------------------------------------------- */

/* Kinds for which libjpeg's cropping and skipping give the same as a full decode: samplings whose upsampling looks no
 * further than MARGIN. */
static bool decodes_in_part(j_decompress_ptr cinfo)
{
    const jpeg_component_info *c = cinfo->comp_info;
    if (cinfo->arith_code)
        return false;
    if (cinfo->num_components == 1)
        return c[0].h_samp_factor == 1 && c[0].v_samp_factor == 1;
    if (cinfo->num_components != 3)
        return false;
    for (int i = 1; i < 3; i++)
        if (c[i].h_samp_factor != 1 || c[i].v_samp_factor != 1)
            return false;
    return c[0].h_samp_factor <= 2 && c[0].v_samp_factor <= 2;
}

/* ---- the calls ------------------------------------------------------------------------------- */

void leat_libjpeg_close(struct leat_libjpeg *j)
{
    if (j->created)
        jpeg_destroy_decompress(&j->cinfo);
    j->created = false;
    for (int c = 0; c < MAX_COMPONENTS; c++)
        leat_decode_buffer_free(&j->plane[c]);
}

void leat_libjpeg_destroy(struct leat_libjpeg *j)
{
    leat_libjpeg_close(j);
    leat_decode_buffer_free(&j->line);
    leat_decode_buffer_free(&j->samples);
    leat_decode_buffer_free(&j->pixels);
    memset(j, 0, sizeof *j);
}

static void create_decompressor(struct leat_libjpeg *j, bool lenient)
{
    j->cinfo.err = leat_jpeg_trouble_begin(&j->trouble, lenient);
    j->input.source.next_input_byte = NULL;
    jpeg_create_decompress(&j->cinfo);
    j->created = true;
    leat_jpeg_input_begin(&j->input, &j->cinfo, j->data, j->length);
}

int leat_libjpeg_open(struct leat_libjpeg *j, const struct leat_decode_request *request, uint32_t *width,
                      uint32_t *height, struct leat_decode_rows *rows, struct leat_error *error)
{
    j->data = request->data;
    j->length = request->length;
    j->created = j->started = j->partial = false;
    if (setjmp(j->trouble.jump))
        return failed(j, error);
    create_decompressor(j, request->lenient);
    j_decompress_ptr cinfo = &j->cinfo;
    jpeg_read_header(cinfo, TRUE);

    int rc = leat_decode_check_size("JPEG", cinfo->image_width, cinfo->image_height, error);
    if (rc)
        return rc;
    if (cinfo->num_components > 4)
        return leat_fail(error, LEAT_E_DECODE, "JPEG: %d colour components; leat reads 1 to 4: convert the photo",
                         cinfo->num_components);
    if (!request->lenient && leat_jpeg_promises_too_much(cinfo, j->length)) {
        leat_decode_fail(error, "JPEG", (int64_t)j->length, j->length, "the file ends before the photo does");
        advise_lenient(false, error);
        return LEAT_E_DECODE;
    }
    j->rare = leat_libjpeg_rare_of(j);
    j->partial = !j->rare && decodes_in_part(cinfo);
    *width = cinfo->image_width;
    *height = cinfo->image_height;
    rows->gray = leat_image_wish_of(request)->gray && cinfo->num_components == 1;
    j->pixel_bytes = j->pixel_samples = rows->gray ? 1 : 4;
    rows->cmyk = cinfo->num_components == 4;
    rows->inks = j->inks = leat_image_wish_of(request)->inks && rows->cmyk;
    rows->full_size = j->rare;
    rows->wide = j->wide = leat_image_wish_of(request)->wide && cinfo->data_precision > 8;
    return LEAT_OK;
}

int leat_libjpeg_begin(struct leat_libjpeg *j, unsigned denominator, uint32_t x, uint32_t y, uint32_t w, uint32_t h,
                       struct leat_error *error)
{
    j_decompress_ptr cinfo = &j->cinfo;
    if (setjmp(j->trouble.jump))
        return failed(j, error);
    if (j->rare)
        return leat_libjpeg_rare_begin(j, x, y, w, error);
    cinfo->scale_num = 1;
    cinfo->scale_denom = denominator;
    cinfo->dct_method = JDCT_ISLOW;
    cinfo->do_fancy_upsampling = TRUE;
    cinfo->out_color_space = j->pixel_bytes == 1          ? JCS_GRAYSCALE
                             : cinfo->num_components == 4 ? JCS_CMYK
                             : cinfo->num_components == 2 ? JCS_UNKNOWN
                                                          : JCS_EXT_RGBX;
    j->started = true;
    jpeg_start_decompress(cinfo); /* reads all scans, if there are several */
    j->partial = j->partial && leat_jpeg_is_finished(cinfo);
    int rc = leat_decode_reserve(&j->line, (uint64_t)cinfo->output_width + 2, j->pixel_bytes, error);
    if (rc)
        return rc;

    j->box_w = w;
    j->skip_pixels = x;
    JSAMPROW line = j->line.p;
    if (j->partial) {
        JDIMENSION left = x > MARGIN ? x - MARGIN : 0;
        JDIMENSION width = (cinfo->output_width - x - w > MARGIN ? x + w + MARGIN : cinfo->output_width) - left;
        jpeg_crop_scanline(cinfo, &left, &width);
        j->skip_pixels = x - left;
        if (y)
            jpeg_skip_scanlines(cinfo, y);
    } else {
        for (uint32_t i = 0; i < y; i++)
            jpeg_read_scanlines(cinfo, &line, 1);
    }
    return LEAT_OK;
}

/* Pillow's: CMYK in a JPEG is inverted, as Adobe writes it: R = K C / 255, rounded. */
static void cmyk_to_rgbx(uint8_t *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, p += 4) {
        unsigned k = p[3];
        for (unsigned c = 0; c < 3; c++) {
            unsigned t = (255u - p[c]) * k + 128;
            int v = (int)k - (int)((t + (t >> 8)) >> 8);
            p[c] = (uint8_t)(v < 0 ? 0 : v);
        }
        p[3] = 255;
    }
}

/* The first of two components is taken as brightness. No standard says what the second one is. Two bytes a pixel become
 * four in place, from the last one on. */
static void two_to_rgbx(uint8_t *line, uint32_t n)
{
    for (size_t i = n; i-- > 0;) {
        uint8_t v = line[2 * i];
        memset(line + 4 * i, v, 3);
        line[4 * i + 3] = 255;
    }
}

/* libjpeg-turbo writes a row that is aligned to 16 or 32 bytes past the caches, and the next reader waits for the
 * memory: 0.4 us a row. So rows of four bytes a pixel begin one pixel beside such a border. */
static JSAMPROW row_of(const struct leat_libjpeg *j)
{
    uintptr_t off = (uintptr_t)j->line.p & 15;
    return j->line.p + (j->pixel_bytes == 4 && !off ? 4 : 0);
}

int leat_libjpeg_row(struct leat_libjpeg *j, const uint8_t **row, struct leat_error *error)
{
    if (setjmp(j->trouble.jump))
        return failed(j, error);
    if (j->rare) {
        *row = leat_libjpeg_rare_row(j);
        return LEAT_OK;
    }
    JSAMPROW line = row_of(j);
    jpeg_read_scanlines(&j->cinfo, &line, 1);
    if (j->cinfo.out_color_space == JCS_UNKNOWN)
        two_to_rgbx(line, j->cinfo.output_width);
    uint8_t *box = line + (size_t)j->skip_pixels * j->pixel_bytes;
    for (size_t i = 0; j->inks && i < 4 * (size_t)j->box_w; i++)
        box[i] = (uint8_t)(255 - box[i]);
    if (j->cinfo.out_color_space == JCS_CMYK && !j->inks)
        cmyk_to_rgbx(box, j->box_w);
    *row = box;
    return LEAT_OK;
}

/* The cheapest start from which jpeg_skip_scanlines only entropy-decodes: no upsampling with context, no colours, one
 * column of blocks. */
static void start_scan(struct leat_libjpeg *j)
{
    j_decompress_ptr cinfo = &j->cinfo;
    cinfo->do_fancy_upsampling = FALSE;
    if (cinfo->jpeg_color_space == JCS_YCbCr || cinfo->jpeg_color_space == JCS_GRAYSCALE)
        cinfo->out_color_space = JCS_GRAYSCALE;
    else
        cinfo->out_color_space = cinfo->jpeg_color_space;
    j->started = true;
    jpeg_start_decompress(cinfo);
    JDIMENSION left = 0, width = 1;
    if (j->partial)
        jpeg_crop_scanline(cinfo, &left, &width);
}

int leat_libjpeg_scan(struct leat_libjpeg *j, struct leat_error *error)
{
    j_decompress_ptr cinfo = &j->cinfo;
    int rc = leat_decode_reserve(&j->line, cinfo->image_width, 4, error);
    if (rc)
        return rc;
    if (setjmp(j->trouble.jump))
        return failed(j, error);
    if (j->rare)
        return leat_libjpeg_rare_scan(j, error);
    JSAMPROW line = j->line.p;
    if (!j->started && (jpeg_has_multiple_scans(cinfo) || (!j->partial && !j->trouble.lenient))) {
        jpeg_read_coefficients(cinfo);
        return LEAT_OK;
    }
    if (jpeg_has_multiple_scans(cinfo))
        return LEAT_OK;
    if (!j->started)
        start_scan(j);
    /* skipping to the very end would not read it: all but the last row */
    JDIMENSION left = cinfo->output_height - cinfo->output_scanline;
    if (left > 1 && j->partial)
        jpeg_skip_scanlines(cinfo, left - 1);
    while (cinfo->output_scanline < cinfo->output_height)
        jpeg_read_scanlines(cinfo, &line, 1);
    if (!j->trouble.lenient) /* the bytes behind the last row do not matter then */
        jpeg_finish_decompress(cinfo);
    return LEAT_OK;
}
