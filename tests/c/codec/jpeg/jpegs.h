/* JPEGs made by libjpeg for tests of the codec: every colour and sampling, coded in every way. */
#ifndef LEAT_TESTS_JPEG_JPEGS_H
#define LEAT_TESTS_JPEG_JPEGS_H

#include "../photo/photos.h"

#include "codec/jpeg/libjpeg.h"

enum way {
    BASELINE,
    OPTIMISED,
    PROGRESSIVE,
    SPECTRAL,
    APPROXIMATED,
    SEPARATE,
    MIXED,
    ARITHMETIC,
    ARITHMETIC_SEPARATE,
    ARITHMETIC_PROGRESSIVE
};
#define WAYS 10
static const char *const ways[WAYS] = {"baseline",
                                       "optimised tables",
                                       "progressive",
                                       "progressive, bands of frequencies",
                                       "progressive, bit by bit",
                                       "a scan for each component",
                                       "luma, then chroma",
                                       "arithmetic",
                                       "arithmetic, a scan for each component",
                                       "arithmetic, progressive"};

struct kind {
    const char *name;
    J_COLOR_SPACE in, stored;
    int h[4], v[4];
};
static const struct kind kinds[] = {
    {"gray", JCS_GRAYSCALE, JCS_GRAYSCALE, {1}, {1}},
    {"gray with factors 2x2", JCS_GRAYSCALE, JCS_GRAYSCALE, {2}, {2}},
    {"4:4:4", JCS_RGB, JCS_YCbCr, {1, 1, 1}, {1, 1, 1}},
    {"4:2:2", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {1, 1, 1}},
    {"4:2:0", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {2, 1, 1}},
    {"4:4:0", JCS_RGB, JCS_YCbCr, {1, 1, 1}, {2, 1, 1}},
    {"4:1:1", JCS_RGB, JCS_YCbCr, {4, 1, 1}, {1, 1, 1}},
    {"4:1:0", JCS_RGB, JCS_YCbCr, {4, 1, 1}, {2, 1, 1}},
    {"chroma finer across", JCS_RGB, JCS_YCbCr, {1, 2, 2}, {2, 1, 1}},
    {"4:4:4 with factors 2x1", JCS_RGB, JCS_YCbCr, {2, 2, 2}, {1, 1, 1}},
    {"RGB", JCS_RGB, JCS_RGB, {1, 1, 1}, {1, 1, 1}},
    {"CMYK", JCS_CMYK, JCS_CMYK, {1, 1, 1, 1}, {1, 1, 1, 1}},
    {"YCCK 4:2:0", JCS_CMYK, JCS_YCCK, {2, 1, 1, 2}, {2, 1, 1, 2}},
};
#define KINDS (sizeof kinds / sizeof *kinds)

/* Bands of frequencies, a scan for each component and band. */
static inline int spectral_script(const struct jpeg_compress_struct *c, jpeg_scan_info *scans)
{
    static const int bands[][2] = {{1, 5}, {6, 30}, {31, 63}};
    int n = 0;
    for (int i = 0; i < c->num_components; i++)
        scans[n++] = (jpeg_scan_info){.comps_in_scan = 1, .component_index = {i}};
    for (unsigned b = 0; b < 3; b++)
        for (int i = c->num_components; i-- > 0;)
            scans[n++] =
                (jpeg_scan_info){.comps_in_scan = 1, .component_index = {i}, .Ss = bands[b][0], .Se = bands[b][1]};
    return n;
}

/* Everything from bit 3 on, one bit a scan. */
static inline int approximating_script(const struct jpeg_compress_struct *c, jpeg_scan_info *scans)
{
    int n = 0;
    for (int bit = 3; bit >= 0; bit--) {
        int before = bit < 3 ? bit + 1 : 0;
        scans[n] = (jpeg_scan_info){.comps_in_scan = c->num_components, .Ah = before, .Al = bit};
        for (int i = 0; i < c->num_components; i++)
            scans[n].component_index[i] = i;
        n++;
        for (int i = 0; i < c->num_components; i++)
            scans[n++] = (jpeg_scan_info){
                .comps_in_scan = 1, .component_index = {i}, .Ss = 1, .Se = 63, .Ah = before, .Al = bit};
    }
    return n;
}

static inline int separate_script(const struct jpeg_compress_struct *c, jpeg_scan_info *scans, bool pairs)
{
    int n = 0;
    for (int i = 0; i < c->num_components; i += scans[n++].comps_in_scan) {
        scans[n] = (jpeg_scan_info){
            .comps_in_scan = pairs && i == 1 ? 2 : 1, .component_index = {i, i + 1}, .Ss = 0, .Se = 63};
    }
    return n;
}

static inline void set_way(struct jpeg_compress_struct *c, enum way way, jpeg_scan_info *scans)
{
    memset(scans, 0, 64 * sizeof *scans);
    c->arith_code = way >= ARITHMETIC;
    c->optimize_coding = way == OPTIMISED || way == MIXED;
    int n = 0;
    if (way == PROGRESSIVE || way == ARITHMETIC_PROGRESSIVE)
        jpeg_simple_progression(c);
    else if (way == SPECTRAL)
        n = spectral_script(c, scans);
    else if (way == APPROXIMATED)
        n = approximating_script(c, scans);
    else if (way == SEPARATE || way == ARITHMETIC_SEPARATE || way == MIXED)
        n = separate_script(c, scans, way == MIXED && c->num_components > 2);
    if (n) {
        c->scan_info = scans;
        c->num_scans = n;
    }
}

struct photo {
    uint8_t *data;
    size_t length;
};

/* With an EXIF segment and a comment. */
static inline struct photo make_photo(const struct kind *kind, enum way way, uint32_t w, uint32_t h, int quality,
                                      unsigned restart)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    jpeg_scan_info scans[64];
    unsigned char *out = NULL;
    unsigned long n = 0;
    unsigned channels = kind->in == JCS_GRAYSCALE ? 1 : kind->in == JCS_CMYK ? 4 : 3;
    uint8_t *pixels = photo_pixels(w, h, channels, w * 7 + h);
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &n);
    c.image_width = w;
    c.image_height = h;
    c.in_color_space = kind->in;
    c.input_components = (int)channels;
    jpeg_set_defaults(&c);
    jpeg_set_colorspace(&c, kind->stored);
    jpeg_set_quality(&c, quality, TRUE);
    for (int i = 0; i < c.num_components; i++) {
        c.comp_info[i].h_samp_factor = kind->h[i];
        c.comp_info[i].v_samp_factor = kind->v[i];
    }
    c.restart_interval = restart;
    set_way(&c, way, scans);
    jpeg_start_compress(&c, TRUE);
    static const JOCTET exif[] = "Exif\0\0II*\0\10\0\0\0\0\0";
    jpeg_write_marker(&c, JPEG_APP0 + 1, exif, sizeof exif);
    jpeg_write_marker(&c, JPEG_COM, (const JOCTET *)"\xff\xd9\xff\xda", 4); /* no marker: the text of a comment */
    for (uint32_t y = 0; y < h; y++) {
        JSAMPROW row = pixels + (size_t)y * w * channels;
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    free(pixels);
    return (struct photo){out, n};
}

/* Coefficients that no photo has: as large as tables have codes for, long runs of zeros, blocks that are full or end in
 * a coefficient. */
static inline struct photo make_wild(enum way way, uint64_t key, uint32_t one_of)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    jpeg_scan_info scans[64];
    unsigned char *out = NULL;
    unsigned long n = 0;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &n);
    c.image_width = 128;
    c.image_height = 96;
    c.in_color_space = JCS_YCbCr;
    c.input_components = 3;
    jpeg_set_defaults(&c);
    set_way(&c, way, scans);
    jvirt_barray_ptr arrays[3];
    for (unsigned i = 0; i < 3; i++)
        arrays[i] = c.mem->request_virt_barray((j_common_ptr)&c, JPOOL_IMAGE, TRUE, i ? 8 : 16, i ? 6 : 12, i ? 1 : 2);
    leat_jpeg_write_coefficients(&c, arrays);
    uint64_t index = 0;
    for (unsigned i = 0; i < 3; i++)
        for (unsigned y = 0; y < (i ? 6u : 12u); y++) {
            JBLOCKARRAY row = c.mem->access_virt_barray((j_common_ptr)&c, arrays[i], y, 1, TRUE);
            JCOEF *to = row[0][0];
            for (unsigned k = 0; k < (i ? 8u : 16u) * 64; k++, index++) {
                unsigned bits = 1 + (unsigned)leat_draw_below(key, 3 * index, 10);
                int value = (int)leat_draw_below(key, 3 * index + 1, UINT64_C(1) << bits);
                bool zero = leat_draw_below(key, 3 * index + 2, one_of) != 0;
                to[k] = (JCOEF)(zero ? 0 : value & 1 ? -value : value);
            }
        }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    return (struct photo){out, n};
}

#endif
