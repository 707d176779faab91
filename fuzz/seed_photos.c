/*
 * Writes the seeds of the photo targets: `seed_photos fuzz/corpus` in the root of the repository. Small photos of each
 * kind, made by the encoders of the libraries themselves, so that fuzzing starts behind the headers.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jpeglib.h>
#include <spng.h>
#include <webp/encode.h>

#include "base/random.h"
#include "codec/jpeg/fast.h"

#define W 19
#define H 17

static const char *root;

static void write_file(const char *target, const char *name, const void *data, size_t length)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", root, target);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%s", root, target, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, length, f) != length || fclose(f)) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(1);
    }
}

/* The decode-fast form, behind the two bytes that say how fuzz_jpeg_fast takes it. */
static void write_fast_seed(const char *name, const void *data, size_t length)
{
    struct leat_jpeg_packer *packer = leat_jpeg_packer_new();
    const uint8_t *packed;
    size_t packed_length;
    struct leat_error error;
    if (!packer || leat_jpeg_pack(packer, data, length, 1, 1, &packed, &packed_length, &error)) {
        fprintf(stderr, "%s: %s\n", name, packer ? error.message : "no memory");
        exit(1);
    }
    uint8_t *seed = malloc(packed_length + 2);
    if (!seed)
        exit(1);
    seed[0] = 0;
    seed[1] = 1;
    memcpy(seed + 2, packed, packed_length);
    write_file("fuzz_jpeg_fast", name, seed, packed_length + 2);
    free(seed);
    leat_jpeg_packer_free(packer);
}

/* Behind the byte that announces a file to fuzz_jpeg_apart. */
static void write_apart_seed(const char *name, const void *data, size_t length)
{
    uint8_t *seed = malloc(length + 1);
    if (!seed)
        exit(1);
    seed[0] = 0;
    memcpy(seed + 1, data, length);
    write_file("fuzz_jpeg_apart", name, seed, length + 1);
    free(seed);
}

/* The seed of a decoder is one of the probe's too. */
static void write_seed(const char *target, const char *name, const void *data, size_t length)
{
    write_file(target, name, data, length);
    write_file("fuzz_photo_probe", name, data, length);
    if (!strcmp(target, "fuzz_decode_jpeg")) {
        write_fast_seed(name, data, length);
        write_apart_seed(name, data, length);
    }
}

static void fill(uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(i * 5 + leat_draw_below(1, i, 40));
}

static void jpeg(const char *name, int components, int h, int v, int restart, int progressive, int arithmetic,
                 int orientation)
{
    static const uint8_t exif[] = {'E', 'x', 'i', 'f',  0, 0, 'M', 'M', 0, '*', 0, 0, 0, 8,
                                   0,   1,   1,   0x12, 0, 3, 0,   0,   0, 1,   0, 0, 0, 0};
    static const J_COLOR_SPACE spaces[] = {0, JCS_GRAYSCALE, 0, JCS_RGB, JCS_CMYK};
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned char *out = NULL;
    unsigned long length = 0;
    uint8_t pixels[W * H * 4], app1[sizeof exif];
    fill(pixels, sizeof pixels);
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &length);
    c.image_width = W;
    c.image_height = H;
    c.input_components = components;
    c.in_color_space = spaces[components];
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, 40, TRUE);
    c.comp_info[0].h_samp_factor = h;
    c.comp_info[0].v_samp_factor = v;
    c.restart_interval = (unsigned)restart;
    c.arith_code = arithmetic;
    if (progressive)
        jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    memcpy(app1, exif, sizeof exif);
    app1[25] = (uint8_t)orientation;
    if (orientation)
        jpeg_write_marker(&c, JPEG_APP0 + 1, app1, sizeof app1);
    for (int y = 0; y < H; y++) {
        JSAMPROW row = pixels + y * W * components;
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    write_seed("fuzz_decode_jpeg", name, out, length);
    free(out);
}

static void png(const char *name, uint8_t type, uint8_t depth, unsigned channels)
{
    struct spng_ihdr header = {.width = W, .height = H, .bit_depth = depth, .color_type = type};
    struct spng_plte palette = {.n_entries = 1u << (depth > 8 ? 8 : depth)};
    uint8_t pixels[W * H * 8];
    size_t length;
    int code;
    fill(pixels, sizeof pixels);
    spng_ctx *spng = spng_ctx_new(SPNG_CTX_ENCODER);
    spng_set_option(spng, SPNG_ENCODE_TO_BUFFER, 1);
    spng_set_ihdr(spng, &header);
    if (type == 3)
        spng_set_plte(spng, &palette);
    code =
        spng_encode_image(spng, pixels, (size_t)(W * depth * channels + 7) / 8 * H, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
    void *out = spng_get_png_buffer(spng, &length, &code);
    if (out)
        write_seed("fuzz_decode_png", name, out, length);
    free(out);
    spng_ctx_free(spng);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: seed_photos FOLDER\n");
        return 2;
    }
    root = argv[1];
    mkdir(root, 0777);
    jpeg("gray", 1, 1, 1, 0, 0, 0, 0);
    jpeg("444", 3, 1, 1, 0, 0, 0, 6);
    jpeg("422", 3, 2, 1, 0, 0, 0, 0);
    jpeg("420-restarts", 3, 2, 2, 1, 0, 0, 3);
    jpeg("440", 3, 1, 2, 0, 0, 0, 0);
    jpeg("411", 3, 4, 1, 0, 0, 0, 0);
    jpeg("420-progressive", 3, 2, 2, 0, 1, 0, 0);
    jpeg("420-arithmetic", 3, 2, 2, 0, 0, 1, 0);
    jpeg("cmyk", 4, 1, 1, 0, 0, 0, 0);
    png("gray-1", 0, 1, 1);
    png("gray-16", 0, 16, 1);
    png("rgb-8", 2, 8, 3);
    png("palette-4", 3, 4, 1);
    png("gray-alpha-8", 4, 8, 2);
    png("rgba-16", 6, 16, 4);
    uint8_t pixels[W * H * 4], *out = NULL;
    fill(pixels, sizeof pixels);
    size_t length = WebPEncodeRGB(pixels, W, H, W * 3, 50, &out);
    write_seed("fuzz_decode_webp", "lossy", out, length);
    WebPFree(out);
    length = WebPEncodeRGBA(pixels, W, H, W * 4, 50, &out);
    write_seed("fuzz_decode_webp", "lossy-alpha", out, length);
    WebPFree(out);
    length = WebPEncodeLosslessRGBA(pixels, W, H, W * 4, &out);
    write_seed("fuzz_decode_webp", "lossless", out, length);
    WebPFree(out);
    return 0;
}
