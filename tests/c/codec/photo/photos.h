/* Photos made by tests of the decoders, and the reference: libjpeg-turbo's full decode. */
#ifndef LEAT_TESTS_OP_PHOTOS_H
#define LEAT_TESTS_OP_PHOTOS_H

#include "../../test.h"

#include <dirent.h>
#include <sys/stat.h>

/* jpeglib.h wants stdio.h and stddef.h before it */
#include <jpeglib.h>

#include "base/random.h"

/* A file's bytes; the caller frees it. */
static inline uint8_t *photo_file(const char *folder, const char *name, size_t *length)
{
    char path[8192];
    assert_true(snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    long n = ftell(f);
    assert_true(n >= 0);
    rewind(f);
    uint8_t *p = malloc((size_t)n + 1);
    assert_non_null(p);
    assert_int_equal(fread(p, 1, (size_t)n, f), (size_t)n);
    fclose(f);
    *length = (size_t)n;
    return p;
}

/* Calls `visit` for each file in and below a folder; the sum of what it returns. */
static inline unsigned for_each_file(const char *folder,
                                     unsigned (*visit)(const char *path, const uint8_t *data, size_t length))
{
    DIR *dir = opendir(folder);
    if (!dir)
        return 0;
    unsigned n = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[8192];
        struct stat st;
        if (entry->d_name[0] == '.')
            continue;
        assert_true(snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) < (int)sizeof path);
        assert_int_equal(stat(path, &st), 0);
        if (S_ISDIR(st.st_mode)) {
            n += for_each_file(path, visit);
            continue;
        }
        size_t length;
        uint8_t *data = photo_file(folder, entry->d_name, &length);
        n += visit(path, data, length);
        free(data);
    }
    closedir(dir);
    return n;
}

/* A picture of waves, edges and noise: no two neighbours alike, in no channel. `channels` bytes per pixel. */
static inline uint8_t *photo_pixels(uint32_t w, uint32_t h, unsigned channels, uint64_t key)
{
    uint8_t *p = malloc((size_t)w * h * channels);
    assert_non_null(p);
    for (uint32_t y = 0; y < h; y++)
        for (uint32_t x = 0; x < w; x++)
            for (unsigned c = 0; c < channels; c++) {
                uint64_t noise = leat_draw_below(key, ((uint64_t)y * w + x) * channels + c, 48);
                uint32_t wave = x * (3 + c) + y * (7 - c) + ((x / 5 + y / 3) & 1) * 90;
                p[((size_t)y * w + x) * channels + c] = (uint8_t)((wave & 127) + noise);
            }
    return p;
}

struct photo_style {
    const char *name;
    J_COLOR_SPACE in, stored; /* of the pixels given, of the file */
    int h[4], v[4];           /* sampling factors */
    int restart;              /* MCUs between restart markers */
    bool progressive, arithmetic, separate_scans, optimized;
};

/* Encodes pixels. *length receives the bytes; the caller frees it. */
static inline uint8_t *photo_encode(const struct photo_style *style, const uint8_t *pixels, uint32_t w, uint32_t h,
                                    int quality, size_t *length)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned char *out = NULL;
    unsigned long n = 0;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &n);
    c.image_width = w;
    c.image_height = h;
    c.in_color_space = style->in;
    c.input_components = style->in == JCS_GRAYSCALE ? 1 : style->in == JCS_CMYK ? 4 : 3;
    jpeg_set_defaults(&c);
    jpeg_set_colorspace(&c, style->stored);
    jpeg_set_quality(&c, quality, TRUE);
    for (int i = 0; i < c.num_components; i++) {
        c.comp_info[i].h_samp_factor = style->h[i];
        c.comp_info[i].v_samp_factor = style->v[i];
    }
    c.restart_interval = (unsigned)style->restart;
    c.arith_code = style->arithmetic;
    c.optimize_coding = style->optimized;
    jpeg_scan_info scans[4];
    memset(scans, 0, sizeof scans);
    if (style->progressive) {
        jpeg_simple_progression(&c);
    } else if (style->separate_scans) {
        for (int i = 0; i < c.num_components; i++)
            scans[i] = (jpeg_scan_info){.comps_in_scan = 1, .component_index = {i}, .Ss = 0, .Se = 63};
        c.scan_info = scans;
        c.num_scans = c.num_components;
    }
    jpeg_start_compress(&c, TRUE);
    for (uint32_t y = 0; y < h; y++) {
        uint8_t line[4 * 4096];
        assert_true(w <= 4096);
        memcpy(line, pixels + (size_t)y * w * (unsigned)c.input_components, (size_t)w * (unsigned)c.input_components);
        JSAMPROW row = line;
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    *length = n;
    return out;
}

/* Puts an APP1 segment with this orientation behind the first marker of a JPEG. The caller frees it. */
static inline uint8_t *with_orientation(const uint8_t *data, size_t length, unsigned orientation, bool big,
                                        size_t *out_length)
{
    uint8_t exif[] = {0xff, 0xe1, 0,    34, 'E', 'x', 'i', 'f', 0, 0, 'I', 'I', '*', 0, 8, 0, 0, 0,
                      1,    0,    0x12, 1,  3,   0,   1,   0,   0, 0, 0,   0,   0,   0, 0, 0, 0, 0};
    uint8_t motorola[] = {'M', 'M', 0, '*', 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 0};
    exif[28] = (uint8_t)orientation;
    if (big) {
        motorola[19] = (uint8_t)orientation;
        memcpy(exif + 10, motorola, sizeof motorola);
    }
    uint8_t *out = malloc(length + sizeof exif);
    assert_non_null(out);
    memcpy(out, data, 2);
    memcpy(out + 2, exif, sizeof exif);
    memcpy(out + 2 + sizeof exif, data + 2, length - 2);
    *out_length = length + sizeof exif;
    return out;
}

/* A photo decoded in full: RGBX, or grey. CMYK is left as libjpeg gives it. */
struct photo_full {
    uint32_t width, height;
    unsigned pixel_bytes;
    uint8_t *pixels;
};

static inline struct photo_full photo_reference(const uint8_t *data, size_t length, bool gray, unsigned denominator)
{
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr errors;
    d.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, data, length);
    assert_int_equal(jpeg_read_header(&d, TRUE), JPEG_HEADER_OK);
    d.scale_num = 1;
    d.scale_denom = denominator;
    d.out_color_space = gray ? JCS_GRAYSCALE : d.num_components == 4 ? JCS_CMYK : JCS_EXT_RGBX;
    jpeg_start_decompress(&d);
    struct photo_full full = {d.output_width, d.output_height, gray ? 1 : 4, NULL};
    size_t stride = (size_t)full.width * full.pixel_bytes;
    full.pixels = malloc(stride * full.height);
    assert_non_null(full.pixels);
    while (d.output_scanline < d.output_height) {
        JSAMPROW row = full.pixels + stride * d.output_scanline;
        jpeg_read_scanlines(&d, &row, 1);
    }
    jpeg_finish_decompress(&d);
    jpeg_destroy_decompress(&d);
    return full;
}

#endif
