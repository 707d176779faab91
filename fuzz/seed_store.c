/*
 * Writes the seeds of the store targets: `seed_store fuzz/corpus` in the root of the repository. Small files of the
 * writer's own, so that fuzzing starts behind header and checksums.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>

#include "../tests/c/codecs.h"
#include "../tests/c/tuning.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "codec/jpeg/fast.h"
#include "codec/photo/photo.h"
#include "codec/photo/raw.h"
#include "format/source.h"

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static int probe(const void *data, size_t length, struct leat_value_info *info, struct leat_error *error)
{
    (void)data;
    (void)error;
    *info = (struct leat_value_info){.size = {(uint32_t)length, 7}, .channels = 3, .kind = 1};
    return LEAT_OK;
}
/* Every photo is good, and some have a row index: of no photo, but with the checksum of one. */
static uint8_t index_of_nothing[9];
static size_t length_of_last;
static int open_any(struct leat_decoder *decoder, const struct leat_decode_request *request, uint32_t size[2],
                    struct leat_error *error)
{
    (void)decoder;
    (void)error;
    size[0] = size[1] = 7;
    length_of_last = request->length;
    return LEAT_OK;
}
static int end_any(struct leat_decoder *decoder, struct leat_error *error)
{
    (void)decoder;
    (void)error;
    return LEAT_OK;
}
static const uint8_t *rows_of_any(const struct leat_decoder *decoder, size_t *length)
{
    (void)decoder;
    memset(index_of_nothing, 3, sizeof index_of_nothing);
    leat_put_u32(index_of_nothing, (uint32_t)leat_hash64(index_of_nothing + 4, 5));
    *length = length_of_last % 2 ? sizeof index_of_nothing : 0;
    return *length ? index_of_nothing : NULL;
}
/* A gray JPEG of 9 x 7 in the fast form, whatever came; or pixels. */
static int pack(struct leat_decoder *decoder, enum leat_photos form, bool lenient, const void *data, size_t length,
                uint8_t **out, size_t *out_length, struct leat_error *error)
{
    (void)data;
    (void)decoder;
    if (!length)
        return leat_fail(error, LEAT_E_UNSUPPORTED, "it is empty");
    if (form == LEAT_PHOTOS_RAW) {
        *out_length = LEAT_RAW_HEADER + 7 * length;
        *out = leat_new_array(1, *out_length);
        leat_raw_photo_put(*out, &(struct leat_raw_photo){(uint32_t)length, 7, 1, 6, NULL, 0});
        return LEAT_OK;
    }
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned char *jpeg = NULL;
    unsigned long n = 0;
    const uint8_t *packed;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &jpeg, &n);
    c.image_width = 9;
    c.image_height = 7;
    c.in_color_space = JCS_GRAYSCALE;
    c.input_components = 1;
    jpeg_set_defaults(&c);
    jpeg_start_compress(&c, TRUE);
    for (unsigned y = 0; y < 7; y++) {
        JSAMPLE line[9];
        for (unsigned x = 0; x < 9; x++)
            line[x] = (JSAMPLE)(x * y * 29);
        JSAMPROW row = line;
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    static struct leat_jpeg_packer *packer;
    packer = packer ? packer : leat_jpeg_packer_new();
    int rc = leat_jpeg_pack(packer, jpeg, n, 1, LEAT_IMAGE_JPEG_BASELINE, &packed, out_length, error);
    free(jpeg);
    if (rc)
        return rc;
    *out = leat_alloc(*out_length);
    memcpy(*out, packed, *out_length);
    return LEAT_OK;
}

/* A file behind the byte that asks for checksums to be repaired. */
static void keep(const char *root, const char *target, const char *name, const char *from)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", root, target);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%s", root, target, name);
    FILE *in = fopen(from, "rb"), *out = fopen(path, "wb");
    if (!in || !out)
        fail(path);
    fputc(1, out);
    for (int c; (c = fgetc(in)) != EOF;)
        fputc(c, out);
    fclose(in);
    if (fclose(out))
        fail(path);
}

static void finish(struct leat_writer *w, int rc, struct leat_error *error)
{
    if (!rc)
        rc = leat_writer_finish(w, error);
    if (rc) {
        fprintf(stderr, "%s\n", error->message);
        exit(1);
    }
    leat_writer_free(w, false);
}

static struct leat_writer_options wish(bool check_them, enum leat_photos photos, uint64_t shard_bytes)
{
    struct leat_writer_options o = LEAT_WRITER_OPTIONS_INIT;
    o.check = check_them;
    o.photos = photos;
    o.shard_bytes = shard_bytes;
    return o;
}

static void make(const char *to, const struct leat_field *fields, size_t n, unsigned samples,
                 struct leat_writer_options o)
{
    struct leat_error error;
    struct leat_writer *w;
    static const char *const classes[] = {"one", "two"};
    uint8_t room[64];
    o.overwrite = true;
    o.classes = classes;
    o.n_classes = 2;
    o.num_threads = 1;
    int rc = leat_writer_open(to, fields, n, &o, &w, &error);
    for (unsigned i = 0; i < samples && !rc; i++) {
        struct leat_value_ref values[8] = {{0}};
        for (unsigned b = 0; b < sizeof room; b++)
            room[b] = (uint8_t)('a' + leat_draw_below(i, b, 26));
        for (size_t f = 0; f < n; f++)
            values[f] = (struct leat_value_ref){room,
                                                fields[f].kind != LEAT_KIND_ARRAY ? i * 3 % 40
                                                : fields[f].role                  ? 48
                                                                                  : 8,
                                                NULL};
        rc = leat_writer_add(w, values, NULL, &error);
    }
    finish(w, rc, &error);
}

/* Texts of few values, which become codes. */
static void make_codes(const char *to, unsigned samples, unsigned distinct)
{
    static const struct leat_field fields[] = {{.name = "meta", .kind = LEAT_KIND_JSON},
                                               {.name = "text", .kind = LEAT_KIND_STR}};
    struct leat_writer_options o = wish(false, LEAT_PHOTOS_ORIGINAL, 0);
    struct leat_error error;
    struct leat_writer *w;
    char meta[32], text[32];
    o.overwrite = true;
    o.num_threads = 1;
    tuning.coded_rows = 1;
    int rc = leat_writer_open(to, fields, 2, &o, &w, &error);
    for (unsigned i = 0; i < samples && !rc; i++) {
        const int m = snprintf(meta, sizeof meta, i % 3 ? "null" : "{\"a\": %u}", i % 2),
                  t = snprintf(text, sizeof text, "%u", i % distinct);
        const struct leat_value_ref values[2] = {{meta, (uint64_t)m, NULL}, {text, (uint64_t)t, NULL}};
        rc = leat_writer_add(w, values, NULL, &error);
    }
    finish(w, rc, &error);
    tuning.coded_rows = UINT64_MAX;
}

/* A conversion of arrays whose fingerprint is made of a text. */
static void make_converted(const char *to, const struct leat_field *fields, uint64_t shard_bytes)
{
    static const int64_t x[9];
    static const uint8_t y[9][8];
    static const size_t both[] = {0, 1};
    const struct leat_array arrays[2] = {{x, sizeof *x, NULL, 0}, {y, sizeof *y, NULL, 0}};
    struct leat_writer_options o = wish(false, LEAT_PHOTOS_ORIGINAL, shard_bytes);
    struct leat_error error;
    struct leat_writer *w = NULL;
    struct leat_dataset *d;
    o.overwrite = true;
    o.num_threads = 1;
    int rc = leat_dataset_from_arrays(fields, arrays, 2, 9, "a text", NULL, NULL, &d, &error);
    rc = rc ? rc : leat_writer_open(to, fields, 2, &o, &w, &error);
    rc = rc ? rc : leat_writer_set_source(w, d, &error);
    rc = rc ? rc : leat_dataset_write(d, both, 2, 0, 9, w, &error);
    finish(w, rc, &error);
    leat_dataset_release(d);
}

int main(int argc, char **argv)
{
    static struct leat_codec codec;
    codec = leat_codec_photo;
    codec.probe = probe;
    codec.open = open_any;
    codec.end = end_any;
    codec.rows = rows_of_any;
    codec.pack = pack;
    codec_instead = &codec;
    static const struct leat_field rows[] = {
        {.name = "x", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
        {.name = "y", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U8, .ndim = 1, .shape = {8}}};
    static const struct leat_field mixed[] = {
        {.name = "image", .kind = LEAT_KIND_IMAGE},
        {.name = "label", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
        {.name = "boxes", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U16, .ndim = 2, .shape = {-1, 2}},
        {.name = "text", .kind = LEAT_KIND_STR}};
    static const uint16_t pairs[] = {0, 1};
    static const struct leat_field roles[] = {{.name = "boxes",
                                               .kind = LEAT_KIND_ARRAY,
                                               .dtype = LEAT_F32,
                                               .ndim = 2,
                                               .shape = {-1, 4},
                                               .role = LEAT_ROLE_BOXES_XYWH,
                                               .normalized = true},
                                              {.name = "points",
                                               .kind = LEAT_KIND_ARRAY,
                                               .dtype = LEAT_F32,
                                               .ndim = 3,
                                               .shape = {-1, 2, 3},
                                               .role = LEAT_ROLE_KEYPOINTS,
                                               .pairs = pairs,
                                               .n_pairs = 1},
                                              {.name = "mask", .kind = LEAT_KIND_IMAGE, .role = LEAT_ROLE_MASK}};
    char folder[] = "/tmp/seed-store-XXXXXX", path[128];
    if (argc != 2 || !mkdtemp(folder))
        fail("usage: seed_store FOLDER");
    snprintf(path, sizeof path, "%s/a.leat", folder);
    make(path, rows, 2, 9, wish(false, LEAT_PHOTOS_ORIGINAL, 0));
    keep(argv[1], "fuzz_store_file", "rows", path);
    make(path, mixed, 4, 5, wish(false, LEAT_PHOTOS_ORIGINAL, 0));
    keep(argv[1], "fuzz_store_file", "mixed", path);
    make(path, mixed, 4, 0, wish(false, LEAT_PHOTOS_ORIGINAL, 0));
    keep(argv[1], "fuzz_store_file", "empty", path);
    make(path, mixed, 4, 4, wish(true, LEAT_PHOTOS_ORIGINAL, 0));
    keep(argv[1], "fuzz_store_file", "row-index", path);
    make(path, mixed, 4, 3, wish(false, LEAT_PHOTOS_FAST, 0));
    keep(argv[1], "fuzz_store_file", "fast", path);
    make(path, mixed, 4, 3, wish(true, LEAT_PHOTOS_RAW, 0));
    keep(argv[1], "fuzz_store_file", "raw", path);
    tuning = (struct leat_store_tuning){.large = 30, .shift = 6};
    make(path, mixed, 4, 14, wish(false, LEAT_PHOTOS_ORIGINAL, 0));
    keep(argv[1], "fuzz_store_file", "pages", path);
    tuning = (struct leat_store_tuning){0};
    make(path, roles, 3, 3, wish(false, LEAT_PHOTOS_ORIGINAL, 0));
    keep(argv[1], "fuzz_store_file", "roles", path);
    make_codes(path, 60, 7);
    keep(argv[1], "fuzz_store_file", "codes", path);
    make_converted(path, rows, 0);
    keep(argv[1], "fuzz_store_file", "converted", path);
    make(path, mixed, 4, 3, wish(false, LEAT_PHOTOS_ORIGINAL, 1));
    keep(argv[1], "fuzz_store_manifest", "one-shard", path);
    make_converted(path, rows, 1);
    keep(argv[1], "fuzz_store_manifest", "converted", path);
    unlink(path);
    snprintf(path, sizeof path, "%s/a.00000.leat", folder);
    unlink(path);
    rmdir(folder);
    return 0;
}
