/*
 * JPEGs of rare kinds, decoded through libjpeg-turbo at full size:
 *
 *     12 bits a sample, lossless    libjpeg-turbo 3 has functions for their rows, which are looked up at run time: the
 *                                   one at hand may be older
 *     sampling factors of which     libjpeg decodes the components and has no upsampling for them. Here all components
 *     one does not divide the       are kept, and samples are interpolated linearly between the centres of their
 *     largest                       neighbours, as libjpeg's smooth upsampling does for factors of 1 and 2
 *
 * libjpeg converts no colours of a lossless photo, so the colours of all these are converted here, with its numbers.
 * A sample of p bits becomes v * 255 / (2^p - 1), rounded; for 16 bits v * 65535 / (2^p - 1).
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "codec/photo/decode_libjpeg.h"

typedef JDIMENSION (*read_rows)(j_decompress_ptr cinfo, short **rows, JDIMENSION count);

/* The functions for rows of samples of 9 to 12 and of 13 to 16 bits; NULL: libjpeg has none. */
static read_rows readers[2];

static void find_readers(void)
{
    static const char *const names[2] = {"jpeg12_read_scanlines", "jpeg16_read_scanlines"};
    for (unsigned i = 0; i < 2; i++) {
        void *found = dlsym(RTLD_DEFAULT, names[i]);
        memcpy(&readers[i], &found, sizeof found);
    }
}

static read_rows deep_reader(unsigned bits)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_readers);
    return readers[bits > 12];
}

bool leat_libjpeg_has_rare(void)
{
    return deep_reader(12) && deep_reader(16);
}

static bool is_fractional(j_decompress_ptr cinfo)
{
    for (int i = 0; i < cinfo->num_components; i++) {
        const jpeg_component_info *c = &cinfo->comp_info[i];
        if (cinfo->max_h_samp_factor % c->h_samp_factor || cinfo->max_v_samp_factor % c->v_samp_factor)
            return true;
    }
    return false;
}

enum leat_jpeg_rare leat_libjpeg_rare_of(const struct leat_libjpeg *j)
{
    j_decompress_ptr cinfo = (j_decompress_ptr)&j->cinfo;
    const struct leat_bytes file = {j->data, j->length};
    if (is_fractional(cinfo))
        return LEAT_JPEG_FRACTIONAL;
    if (cinfo->data_precision != 8 || (leat_libjpeg_has_rare() && leat_jpeg_is_lossless(file)))
        return LEAT_JPEG_ROWS;
    return LEAT_JPEG_COMMON;
}

/* ---- components of any sampling -------------------------------------------------------------- */

/* Reads every component in full. */
static int read_planes(struct leat_libjpeg *j, struct leat_error *error)
{
    j_decompress_ptr cinfo = &j->cinfo;
    JSAMPROW rows[MAX_COMPONENTS][MAX_SAMP_FACTOR * DCTSIZE];
    JSAMPARRAY image[MAX_COMPONENTS];
    const JDIMENSION mcu_w = (JDIMENSION)(cinfo->max_h_samp_factor * DCTSIZE);
    const JDIMENSION mcus_w = (cinfo->image_width + mcu_w - 1) / mcu_w;
    for (int c = 0; c < cinfo->num_components; c++) {
        const jpeg_component_info *p = &cinfo->comp_info[c];
        j->plane_stride[c] = (size_t)mcus_w * (unsigned)p->h_samp_factor * DCTSIZE;
        int rc = leat_decode_reserve(&j->plane[c], (uint64_t)cinfo->total_iMCU_rows * (unsigned)p->v_samp_factor,
                                     (uint64_t)j->plane_stride[c] * DCTSIZE, error);
        if (rc)
            return rc;
        image[c] = rows[c];
    }
    for (size_t m = 0; m < cinfo->total_iMCU_rows; m++) {
        for (int c = 0; c < cinfo->num_components; c++) {
            const size_t n = (size_t)cinfo->comp_info[c].v_samp_factor * DCTSIZE;
            for (size_t i = 0; i < n; i++)
                rows[c][i] = j->plane[c].p + (m * n + i) * j->plane_stride[c];
        }
        jpeg_read_raw_data(cinfo, image, (JDIMENSION)(cinfo->max_v_samp_factor * DCTSIZE));
    }
    return LEAT_OK;
}

/* The two samples of `n` that the pixel lies between, and its distance from the first one, in parts of 2 * most. */
struct between {
    uint32_t a, b, part;
};
static struct between between(uint32_t pixel, uint32_t factor, uint32_t most, uint32_t n)
{
    const int64_t at = (int64_t)(2 * (uint64_t)pixel + 1) * factor - most;
    if (at < 0)
        return (struct between){0, 0, 0};
    const uint32_t first = (uint32_t)(at / (2 * most));
    return (struct between){first < n ? first : n - 1, first + 1 < n ? first + 1 : n - 1, (uint32_t)(at % (2 * most))};
}

/* The samples of the box in the next row, from the components. */
static void planes_row(struct leat_libjpeg *j, uint16_t *samples)
{
    j_decompress_ptr cinfo = &j->cinfo;
    const unsigned n = (unsigned)cinfo->num_components;
    const uint32_t most_h = (uint32_t)cinfo->max_h_samp_factor, most_v = (uint32_t)cinfo->max_v_samp_factor;
    const uint32_t whole = 4 * most_h * most_v;
    for (unsigned c = 0; c < n; c++) {
        const jpeg_component_info *p = &cinfo->comp_info[c];
        const struct between v = between(j->rare_y, (uint32_t)p->v_samp_factor, most_v, p->downsampled_height);
        const uint8_t *above = j->plane[c].p + v.a * j->plane_stride[c];
        const uint8_t *below = j->plane[c].p + v.b * j->plane_stride[c];
        for (uint32_t x = 0; x < j->box_w; x++) {
            const struct between h =
                between(j->skip_pixels + x, (uint32_t)p->h_samp_factor, most_h, p->downsampled_width);
            const uint32_t left = above[h.a] * (2 * most_v - v.part) + below[h.a] * v.part;
            const uint32_t right = above[h.b] * (2 * most_v - v.part) + below[h.b] * v.part;
            samples[x * n + c] = (uint16_t)((left * (2 * most_h - h.part) + right * h.part + whole / 2) / whole);
        }
    }
    j->rare_y++;
}

/* ---- rows of libjpeg ------------------------------------------------------------------------- */

static void read_row(struct leat_libjpeg *j)
{
    j_decompress_ptr cinfo = &j->cinfo;
    if (cinfo->data_precision <= 8) {
        JSAMPROW row = j->line.p;
        jpeg_read_scanlines(cinfo, &row, 1);
    } else {
        short *row = (short *)(void *)j->line.p;
        deep_reader((unsigned)cinfo->data_precision)(cinfo, &row, 1);
    }
}

static void libjpeg_row(struct leat_libjpeg *j, uint16_t *samples)
{
    const size_t n = (size_t)j->cinfo.num_components, first = n * j->skip_pixels;
    read_row(j);
    if (j->cinfo.data_precision > 8)
        memcpy(samples, j->line.p + 2 * first, 2 * n * j->box_w);
    for (size_t i = 0; j->cinfo.data_precision <= 8 && i < n * j->box_w; i++)
        samples[i] = j->line.p[first + i];
}

/* ---- colours --------------------------------------------------------------------------------- */

static int64_t clamp(int64_t v, int64_t most)
{
    return v < 0 ? 0 : v > most ? most : v;
}

/* R, G, B and X of a pixel, or the inks of CMYK: this is as Adobe writes it, inverted. */
static void colours_of(J_COLOR_SPACE space, bool inks, const uint16_t *v, int64_t most, int64_t rgb[4])
{
    rgb[0] = v[0];
    rgb[1] = rgb[2] = v[0];
    rgb[3] = inks ? most - v[3] : most;
    if (space == JCS_YCbCr || space == JCS_YCCK) {
        const int64_t cb = v[1] - (most + 1) / 2, cr = v[2] - (most + 1) / 2;
        rgb[0] = clamp(v[0] + ((91881 * cr + 32768) >> 16), most);
        rgb[1] = clamp(v[0] + ((-22554 * cb - 46802 * cr + 32768) >> 16), most);
        rgb[2] = clamp(v[0] + ((116130 * cb + 32768) >> 16), most);
    } else if (space == JCS_RGB || space == JCS_CMYK) {
        rgb[1] = v[1];
        rgb[2] = v[2];
    }
    for (unsigned c = 0; c < 3 && (space == JCS_YCCK || space == JCS_CMYK); c++) {
        const int64_t ink = space == JCS_YCCK ? rgb[c] : most - rgb[c];
        rgb[c] = inks ? ink : ((most - ink) * v[3] + most / 2) / most;
    }
}

static void put_pixels(struct leat_libjpeg *j, const uint16_t *samples)
{
    const J_COLOR_SPACE space = j->cinfo.jpeg_color_space;
    const int64_t most = ((int64_t)1 << j->cinfo.data_precision) - 1, full = j->wide ? 65535 : 255;
    const unsigned channels = j->pixel_samples;
    uint16_t *wide = (uint16_t *)(void *)j->pixels.p;
    for (size_t x = 0; x < j->box_w; x++) {
        int64_t rgb[4];
        colours_of(space, j->inks, samples + x * (size_t)j->cinfo.num_components, most, rgb);
        for (unsigned c = 0; c < channels; c++) {
            const int64_t v = (clamp(rgb[c], most) * full * 2 + most) / (2 * most);
            if (j->wide)
                wide[x * channels + c] = (uint16_t)v;
            else
                j->pixels.p[x * channels + c] = (uint8_t)v;
        }
    }
}

/* ---- the calls, behind a setjmp of the caller's ----------------------------------------------- */

int leat_libjpeg_rare_begin(struct leat_libjpeg *j, uint32_t x, uint32_t y, uint32_t w, struct leat_error *error)
{
    j_decompress_ptr cinfo = &j->cinfo;
    j->box_w = w;
    j->skip_pixels = x;
    j->rare_y = 0;
    cinfo->dct_method = JDCT_ISLOW;
    cinfo->do_fancy_upsampling = TRUE;
    cinfo->out_color_space = cinfo->jpeg_color_space;
    cinfo->raw_data_out = j->rare == LEAT_JPEG_FRACTIONAL;
    j->started = true;
    jpeg_start_decompress(cinfo);
    const uint64_t row = (uint64_t)cinfo->image_width * (unsigned)cinfo->num_components * 2;
    int rc = leat_decode_reserve(&j->line, row, 1, error);
    rc = rc ? rc : leat_decode_reserve(&j->samples, row, 1, error);
    rc = rc ? rc : leat_decode_reserve(&j->pixels, w, 8, error);
    if (rc)
        return rc;
    if (j->rare == LEAT_JPEG_FRACTIONAL) {
        j->rare_y = y;
        return read_planes(j, error);
    }
    for (; j->rare_y < y; j->rare_y++)
        read_row(j);
    return LEAT_OK;
}

const uint8_t *leat_libjpeg_rare_row(struct leat_libjpeg *j)
{
    uint16_t *samples = (uint16_t *)(void *)j->samples.p;
    if (j->rare == LEAT_JPEG_FRACTIONAL)
        planes_row(j, samples);
    else
        libjpeg_row(j, samples);
    put_pixels(j, samples);
    return j->pixels.p;
}

int leat_libjpeg_rare_scan(struct leat_libjpeg *j, struct leat_error *error)
{
    int rc = j->started ? LEAT_OK : leat_libjpeg_rare_begin(j, 0, 0, j->cinfo.image_width, error);
    while (!rc && j->cinfo.output_scanline < j->cinfo.output_height)
        read_row(j);
    if (!rc && !j->trouble.lenient) /* the bytes behind the last row do not matter then */
        jpeg_finish_decompress(&j->cinfo);
    return rc;
}
