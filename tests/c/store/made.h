/*
 * Data that tests of the file write and compare: every kind of field, each value a function of the sample's number, and
 * photos of a toy format whose codec the tests put into the table.
 *
 *     toy photo:  'T' 'P' | width u16 | height u16 | health | body
 *     health: 'g' good, 'b' broken when scanned to its end; without the first two bytes it is no photo
 */
#ifndef LEAT_TESTS_STORE_MADE_H
#define LEAT_TESTS_STORE_MADE_H

#include "../codecs.h"
#include "../files.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "codec/photo/photo.h"
#include "codec/photo/raw.h"
#include "format/source.h"
#include "store/writer.h"

static int toy_probe(const void *data, size_t length, struct leat_value_info *info, struct leat_error *error)
{
    const uint8_t *p = data;
    if (length < 7 || p[0] != 'T' || p[1] != 'P')
        return leat_fail(error, LEAT_E_DECODE, "this is no toy photo");
    *info = (struct leat_value_info){
        .size = {leat_get_u16(p + 2), leat_get_u16(p + 4)}, .channels = 3, .kind = LEAT_IMAGE_PNG};
    return LEAT_OK;
}
/* Toys with a row index of ROWS_BYTES, and forms: small ones can become pixels, and what stands for the fast form is no
 * such thing. */
enum { ROWS_BYTES = 14, TOY_PIXELS = 1024 };
static struct leat_codec toy_codec, toy_form_codec;
struct toy_decoder {
    struct leat_decoder base;
    uint8_t rows[ROWS_BYTES];
    bool has_rows;
};
static struct leat_decoder *toy_decoder_new(void)
{
    struct toy_decoder *d = leat_new(struct toy_decoder);
    return d ? &d->base : NULL;
}
static void toy_decoder_free(struct leat_decoder *decoder)
{
    leat_free(decoder);
}
static int toy_open(struct leat_decoder *decoder, const struct leat_decode_request *request, uint32_t size[2],
                    struct leat_error *error)
{
    struct leat_value_info info = {0};
    struct toy_decoder *d = (struct toy_decoder *)decoder;
    int rc = toy_probe(request->data, request->length, &info, error);
    if (rc)
        return rc;
    memcpy(size, info.size, sizeof info.size);
    d->has_rows = decoder->codec->pack && request->length % 3;
    memset(d->rows + 4, (int)(request->length & 255), ROWS_BYTES - 4);
    leat_put_u32(d->rows, (uint32_t)leat_hash64(d->rows + 4, ROWS_BYTES - 4));
    return ((const uint8_t *)request->data)[6] == 'g' ? LEAT_OK
                                                      : leat_fail(error, LEAT_E_DECODE, "the toy photo is broken");
}
static int toy_end(struct leat_decoder *decoder, struct leat_error *error)
{
    return LEAT_OK;
}
static const uint8_t *toy_rows(const struct leat_decoder *decoder, size_t *length)
{
    const struct toy_decoder *d = (const struct toy_decoder *)decoder;
    *length = d->has_rows ? ROWS_BYTES : 0;
    return d->has_rows ? d->rows : NULL;
}
static int toy_shrink(const void *data, size_t length, unsigned max_side, unsigned quality, bool lenient, uint8_t **out,
                      size_t *out_length, struct leat_error *error)
{
    uint8_t *p = leat_alloc(8);
    *out = p;
    if (!p)
        return leat_fail(error, LEAT_E_NOMEM, "no memory");
    memcpy(p, data, 7);
    leat_put_u16(p + 2, (uint16_t)max_side);
    leat_put_u16(p + 4, (uint16_t)max_side);
    p[7] = (uint8_t)quality;
    *out_length = 8;
    return LEAT_OK;
}
static int toy_pack(struct leat_decoder *decoder, enum leat_photos form, bool lenient, const void *data, size_t length,
                    uint8_t **out, size_t *out_length, struct leat_error *error)
{
    struct leat_value_info facts = {0};
    int rc = toy_probe(data, length, &facts, error);
    if (!rc)
        rc = leat_decoder_check(decoder, data, length, false, error);
    if (rc)
        return rc;
    const size_t pixels = (size_t)facts.size[0] * facts.size[1],
                 bytes = form == LEAT_PHOTOS_RAW ? pixels + LEAT_RAW_HEADER : 100;
    if (pixels > TOY_PIXELS)
        return leat_fail(error, LEAT_E_UNSUPPORTED, length % 4 ? "it is too large" : "it is much too large");
    if (!(*out = leat_alloc(bytes)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory");
    memset(*out, (int)(length & 255), bytes);
    if (form == LEAT_PHOTOS_RAW)
        leat_raw_photo_put(*out, &(struct leat_raw_photo){
                                     .width = facts.size[0], .height = facts.size[1], .channels = 1, .orientation = 1});
    *out_length = bytes;
    return LEAT_OK;
}
__attribute__((constructor)) static void make_toys(void)
{
    toy_codec = leat_codec_photo; /* reads its forms */
    toy_codec.probe = toy_probe;
    toy_codec.decoder_new = toy_decoder_new;
    toy_codec.decoder_free = toy_decoder_free;
    toy_codec.open = toy_open;
    toy_codec.end = toy_end;
    toy_codec.rows = toy_rows;
    toy_codec.warnings = NULL;
    toy_codec.whole = NULL;
    toy_codec.shrink = toy_shrink;
    toy_form_codec = toy_codec;
    toy_codec.pack = NULL;
    toy_form_codec.pack = toy_pack;
}
/* That which made_open gives to the writer. */
static const struct leat_codec *made_codec = &toy_codec;

/* leat_writer_open with another codec of images; NULL: the schema has none. */
static inline int writer_open_with(const char *path, const struct leat_field *fields, size_t n_fields,
                                   const struct leat_writer_options *options, const struct leat_codec *codec,
                                   struct leat_writer **out, struct leat_error *error)
{
    if (codec)
        codec_instead = codec;
    return leat_writer_open(path, fields, n_fields, options, out, error);
}

enum { MADE_FIELDS = 22, MADE_ROOM = 4096 };
/* Bytes more in each value of `raw`, so that few samples fill a group. */
static uint64_t made_extra;

/* Two of each thing that could be told apart wrongly. */
static const struct leat_field made_fields[MADE_FIELDS] = {
    {.name = "image", .kind = LEAT_KIND_IMAGE, .flags = LEAT_FIELD_FILES},
    {.name = "u8", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U8},
    {.name = "i8", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I8},
    {.name = "u16", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U16},
    {.name = "i16", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I16},
    {.name = "u32", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U32},
    {.name = "i32", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I32},
    {.name = "u64", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U64},
    {.name = "i64", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
    {.name = "f16", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_F16},
    {.name = "bf16", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_BF16},
    {.name = "f32", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_F32},
    {.name = "f64", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_F64},
    {.name = "flag", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_BOOL},
    {.name = "grid", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_F32, .ndim = 2, .shape = {3, 5}},
    {.name = "pixels",
     .kind = LEAT_KIND_ARRAY,
     .dtype = LEAT_U8,
     .layout = LEAT_LAYOUT_HWC,
     .ndim = 3,
     .shape = {4, 3, 3}},
    {.name = "boxes", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_F32, .ndim = 2, .shape = {-1, 4}},
    {.name = "tokens", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U16, .ndim = 1, .shape = {-1}},
    {.name = "raw", .kind = LEAT_KIND_BYTES},
    {.name = "text", .kind = LEAT_KIND_STR},
    {.name = "about", .kind = LEAT_KIND_JSON},
    {.name = "name", .kind = LEAT_KIND_STR, .flags = LEAT_FIELD_DERIVED},
};

/* Value of field f of sample i; gives its length. */
static inline uint64_t made_value(size_t f, uint64_t i, uint8_t *out)
{
    const struct leat_field *field = &made_fields[f];
    uint64_t key = leat_key_mix(f, i), length;
    switch (field->kind) {
    case LEAT_KIND_IMAGE:
        length = 7 + leat_draw_below(key, 0, 300);
        for (uint64_t b = 0; b < length; b++)
            out[b] = (uint8_t)leat_draw_u64(key, b + 1);
        memcpy(out, "TP", 2);
        leat_put_u16(out + 2, (uint16_t)(i % 1000 + 1));
        leat_put_u16(out + 4, (uint16_t)(i % 700 + 1));
        out[6] = i % 11 == 5 ? 'b' : 'g';
        return length;
    case LEAT_KIND_STR:
        return (uint64_t)snprintf((char *)out, MADE_ROOM, "%s/%" PRIu64 "-\xc3\xa4.toy", f % 2 ? "a" : "b", i);
    case LEAT_KIND_JSON:
        return (uint64_t)snprintf((char *)out, MADE_ROOM,
                                  "{\"i\": %" PRIu64 ", \"list\": [1.5e3, true, null, \"\\u00e4\"]}", i);
    case LEAT_KIND_BYTES:
        length = i % 5 == 0 ? 0 : leat_draw_below(key, 0, 200);
        memset(out + length, (uint8_t)i, made_extra);
        for (uint64_t b = 0; b < length; b++)
            out[b] = (uint8_t)leat_draw_u64(key, b);
        return length + made_extra;
    default:
        length = leat_dtype_size(field->dtype);
        for (unsigned d = 0; d < field->ndim; d++)
            length *= field->shape[d] < 0 ? i % 7 : (uint64_t)field->shape[d];
    }
    for (uint64_t b = 0; b < length; b++)
        out[b] = (uint8_t)leat_draw_u64(key, b);
    if (field->dtype == LEAT_BOOL)
        out[0] = i % 2;
    return length;
}

static inline int made_add(struct leat_writer *writer, uint64_t i, struct leat_error *error)
{
    static uint8_t room[MADE_FIELDS][MADE_ROOM];
    struct leat_value_ref values[MADE_FIELDS] = {0};
    for (size_t f = 0; f < MADE_FIELDS; f++) {
        values[f].data = room[f];
        values[f].length = made_value(f, i, room[f]);
    }
    return leat_writer_add(writer, values, NULL, error);
}

static const char *const made_classes[] = {"cat", "dog", "\xc3\xa4pfel"};

static inline struct leat_writer_options made_options(void)
{
    struct leat_writer_options o = LEAT_WRITER_OPTIONS_INIT;
    o.num_threads = 2;
    o.metadata = "{\"made\": [1, 2]}";
    o.classes = made_classes;
    o.n_classes = 3;
    o.source_id = "made";
    return o;
}

static inline int made_open(const char *path, const struct leat_writer_options *o, struct leat_writer **w,
                            struct leat_error *error)
{
    return writer_open_with(path, made_fields, MADE_FIELDS, o, made_codec, w, error);
}

/* What files of made_file are converted from; NULL: nothing. */
static const struct leat_writer_source *made_source;

/* Writes a file of n samples; what fails is given back, and the writer freed with its partial file kept. */
static inline int made_file(const char *path, uint64_t n, const struct leat_writer_options *o, struct leat_error *error)
{
    struct leat_writer *w;
    int rc = made_open(path, o, &w, error);
    if (rc)
        return rc;
    if (made_source)
        rc = leat_writer_convert(w, made_source, error);
    for (uint64_t i = leat_writer_count(w); i < n && !rc; i++)
        rc = made_add(w, i, error);
    if (!rc)
        rc = leat_writer_finish(w, error);
    leat_writer_free(w, true);
    return rc;
}

/* The whole file; the caller frees it. */
static inline uint8_t *made_bytes(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    uint8_t *p = malloc(*n + 1);
    assert_non_null(p);
    assert_int_equal(fread(p, 1, *n, f), *n);
    fclose(f);
    return p;
}

/* Not by truncating to 0 first: some file systems then wait for the disk at each close. */
static inline void made_write(const char *path, const void *data, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, data, n, 0), n);
    assert_int_equal(ftruncate(fd, (off_t)n), 0);
    close(fd);
}

static inline void assert_same_files(const char *a, const char *b)
{
    size_t n, m;
    uint8_t *p = made_bytes(a, &n), *q = made_bytes(b, &m);
    assert_int_equal(n, m);
    assert_memory_equal(p, q, n);
    free(p);
    free(q);
}

/* Reads one value as src/data does: rows, or extent, read, checksum. LEAT_E_CORRUPT also for a failed checksum. */
static inline int made_read(struct leat_source *s, size_t f, uint64_t i, uint8_t *out, uint64_t *length,
                            struct leat_error *error)
{
    size_t failed;
    if (s->fields[f].kind == LEAT_KIND_ARRAY && !(s->fields[f].ndim && s->fields[f].shape[0] < 0)) {
        const void *row;
        int rc = s->v->rows(s, f, &i, 1, NULL, &row, &failed, error);
        if (rc)
            return rc;
        *length = leat_dtype_size(s->fields[f].dtype);
        for (unsigned d = 0; d < s->fields[f].ndim; d++)
            *length *= (uint64_t)s->fields[f].shape[d];
        memcpy(out, row, *length);
        return LEAT_OK;
    }
    struct leat_extent e;
    struct leat_io_file *file;
    int rc = s->v->extents(s, f, &i, 1, &e, &failed, error);
    if (rc)
        return rc;
    if (e.length > MADE_ROOM)
        return leat_fail(error, LEAT_E_CORRUPT, "too long");
    rc = s->v->file(s, e.file, &file, error);
    if (rc)
        return rc;
    rc = leat_io_read(file, e.offset, e.length, out, error);
    leat_io_release(file);
    if (!rc && e.verify && leat_hash64(out, e.length) != e.checksum)
        return leat_fail(error, LEAT_E_CORRUPT, "payload");
    *length = e.length;
    return rc;
}

/* Checks that sample `row` of the source is made sample `i`. */
static inline void assert_made(struct leat_source *s, uint64_t row, uint64_t i)
{
    static uint8_t want[MADE_ROOM], got[MADE_ROOM];
    struct leat_error error;
    for (size_t f = 0; f < MADE_FIELDS; f++) {
        uint64_t n = made_value(f, i, want), m;
        assert_ok(made_read(s, f, row, got, &m, &error));
        assert_int_equal(n, m);
        assert_memory_equal(want, got, n);
    }
}

#endif
