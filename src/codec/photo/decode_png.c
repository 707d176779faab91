/*
 * PNG by libspng: row by row, so that memory is a few rows, except interlaced ones, whose rows come in seven passes and
 * which are decoded in full. A chunk with a wrong checksum is an error, whatever the chunk.
 *
 * Samples of 16 bits are cut to their upper 8, as Pillow does for colour. (From 16-bit grey Pillow makes an image of
 * its own mode, whose conversion is another matter.) A request for 16 bits has them all. Gamma is not applied.
 *
 * A lenient request takes data under a wrong checksum, as Pillow does. libspng does not say that it has passed one, so
 * the checksums are then looked at before.
 */
#include <string.h>

#include <spng.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "codec/jpeg/libjpeg.h"
#include "codec/photo/decode_internal.h"
#include "codec/photo/icc.h"

/* The most that text, profiles and the like may take, one chunk and all together, after decompression. */
#define MAX_ANCILLARY_BYTES ((size_t)32 << 20)
/* Deflate never packs tighter: a header that promises more than this times the file is cut off or false. */
#define MAX_DEFLATE_RATIO 1032

struct leat_backend_decoder {
    spng_ctx *spng;
    struct spng_ihdr header;
    const uint8_t *data;
    size_t length, position;
    bool started, finished; /* decoding has begun; all rows have been read */

    uint32_t x, y, w;                /* of the box; y counts on with each row */
    uint64_t row_bytes;              /* of spng's output */
    bool ids;                        /* palette indices and grays as they are stored */
    bool wide, opaque;               /* rows have 16 bits a sample; X is to be made all ones */
    bool wrong_sums;                 /* some checksum is wrong, which a lenient request passes */
    struct leat_decode_buffer line;  /* of these, a row of the box */
    struct leat_decode_buffer image; /* one row; for an interlaced image, all */
};

/* zlib, behind libspng, reports some refused allocations as a corrupt stream. A decoder is used by one thread at a
 * time, and libspng's functions have no argument that would say for whom they allocate. */
static _Thread_local bool memory_was_out;

static void *noted(void *p)
{
    if (!p)
        memory_was_out = true;
    return p;
}

static void *zeroed(size_t count, size_t bytes)
{
    return noted(leat_new_array(count, bytes));
}

static void *allocate(size_t bytes)
{
    return noted(leat_alloc(bytes));
}

static void *resize(void *p, size_t bytes)
{
    return noted(p ? leat_realloc_array(p, 1, bytes) : leat_alloc(bytes));
}

static int read_bytes(spng_ctx *spng, void *user, void *dst, size_t n)
{
    struct leat_backend_decoder *p = user;
    if (n > p->length - p->position)
        return SPNG_IO_EOF;
    memcpy(dst, p->data + p->position, n);
    p->position += n;
    return 0;
}

static int failed(const struct leat_backend_decoder *p, int code, struct leat_error *error)
{
    if (code == SPNG_EMEM || memory_was_out)
        return leat_fail(error, LEAT_E_NOMEM, "PNG: memory to decode a photo of %u x %u could not be had",
                         p->header.width, p->header.height);
    return leat_decode_fail(error, "PNG", (int64_t)p->position, p->length,
                            code == SPNG_IO_EOF ? "the file ends before the photo does" : spng_strerror(code));
}

static void png_close(struct leat_backend_decoder *p)
{
    spng_ctx_free(p->spng);
    p->spng = NULL;
    if (p->header.interlace_method)
        leat_decode_buffer_free(&p->image); /* a whole image is not kept */
    leat_decode_buffer_free(&p->line);
}

static void png_destroy(struct leat_backend_decoder *p)
{
    png_close(p);
    leat_decode_buffer_free(&p->image);
}

static unsigned stored_channels(const struct spng_ihdr *header)
{
    static const uint8_t channels[] = {1, 0, 3, 1, 2, 0, 4};
    return header->color_type <= 6 ? channels[header->color_type] : 0;
}

/* Whether a chunk has a checksum that is wrong, up to the last chunk or the end of the bytes. That of the header counts
 * as right: with a wrong one no other byte can be believed. */
static bool has_wrong_sums(struct leat_bytes file)
{
    for (size_t at = 8;;) {
        struct leat_bytes head = leat_bytes_part(file, at, 8);
        uint64_t length = head.p ? leat_bytes_number(head.p, 4, true) : 0;
        struct leat_bytes sum = leat_bytes_part(file, (uint64_t)at + 8 + length, 4);
        if (!head.p || !sum.p)
            return false;
        if (crc32_z(0, head.p + 4, (size_t)length + 4) != leat_bytes_number(sum.p, 4, true))
            return at > 8;
        if (!memcmp(head.p + 4, "IEND", 4))
            return false;
        at += 12 + (size_t)length;
    }
}

static int png_open(struct leat_backend_decoder *p, const struct leat_decode_request *request, uint32_t *width,
                    uint32_t *height, struct leat_decode_rows *rows, struct leat_error *error)
{
    p->data = request->data;
    p->length = request->length;
    p->position = 0;
    p->started = p->finished = memory_was_out = false;
    memset(&p->header, 0, sizeof p->header);
    struct spng_alloc alloc = {allocate, resize, zeroed, leat_free};
    p->spng = spng_ctx_new2(&alloc, 0);
    if (!p->spng)
        return failed(p, SPNG_EMEM, error);
    p->wrong_sums = request->lenient && has_wrong_sums((struct leat_bytes){p->data, p->length});
    const int action = p->wrong_sums ? SPNG_CRC_USE : SPNG_CRC_ERROR;
    int code = spng_set_crc_action(p->spng, action, action);
    if (!code)
        code = spng_set_chunk_limits(p->spng, MAX_ANCILLARY_BYTES, MAX_ANCILLARY_BYTES);
    if (!code)
        code = spng_set_png_stream(p->spng, read_bytes, p);
    if (!code)
        code = spng_get_ihdr(p->spng, &p->header);
    if (code)
        return failed(p, code, error);
    int rc = leat_decode_check_size("PNG", p->header.width, p->header.height, error);
    if (rc)
        return rc;
    uint64_t bits = (uint64_t)p->header.width * p->header.height * stored_channels(&p->header) * p->header.bit_depth;
    if (bits / 8 / MAX_DEFLATE_RATIO > p->length)
        return leat_decode_fail(error, "PNG", (int64_t)p->length, p->length, "the file ends before the photo does");
    *width = p->header.width;
    *height = p->header.height;
    rows->gray = p->ids = leat_image_wish_of(request)->ids;
    rows->wide = p->wide = leat_image_wish_of(request)->wide && !p->ids && p->header.bit_depth == 16;
    p->opaque = leat_image_wish_of(request)->alpha == LEAT_ALPHA_DROP;
    if (p->ids && (p->header.bit_depth > 8 || stored_channels(&p->header) != 1))
        return leat_fail(error, LEAT_E_DECODE,
                         "a PNG of class ids is gray or has a palette, with at most 8 bits a pixel: store the mask so");
    return LEAT_OK;
}

/* Starts decoding to `format`; reads an interlaced image at once. */
static int start(struct leat_backend_decoder *p, int format, struct leat_error *error)
{
    bool whole = p->header.interlace_method != SPNG_INTERLACE_NONE;
    p->row_bytes = (uint64_t)p->header.width * 8; /* no format takes more */
    const int flags = p->opaque || format == SPNG_FMT_PNG ? 0 : SPNG_DECODE_TRNS;
    if (format == SPNG_FMT_RGBA8)
        p->row_bytes = (uint64_t)p->header.width * 4;
    int rc = leat_decode_reserve(&p->image, whole ? p->header.height : 1, p->row_bytes, error);
    if (rc)
        return rc;
    p->started = true;
    size_t bytes;
    int code = spng_decoded_image_size(p->spng, format, &bytes);
    if (!code)
        code = whole ? spng_decode_image(p->spng, p->image.p, bytes, format, flags)
                     : spng_decode_image(p->spng, NULL, 0, format, flags | SPNG_DECODE_PROGRESSIVE);
    if (!code)
        p->row_bytes = bytes / p->header.height;
    p->finished = whole;
    return code ? failed(p, code, error) : LEAT_OK;
}

static int next_row(struct leat_backend_decoder *p, struct leat_error *error)
{
    int code = spng_decode_row(p->spng, p->image.p, (size_t)p->row_bytes);
    if (code == SPNG_EOI) {
        p->finished = true;
        code = 0;
    }
    return code ? failed(p, code, error) : LEAT_OK;
}

static int png_begin(struct leat_backend_decoder *p, unsigned denominator, uint32_t x, uint32_t y, uint32_t w,
                     uint32_t h, struct leat_error *error)
{
    int rc = start(p, p->ids ? SPNG_FMT_PNG : p->wide ? SPNG_FMT_RGBA16 : SPNG_FMT_RGBA8, error);
    rc = rc || !p->ids ? rc : leat_decode_reserve(&p->line, w, 1, error);
    p->x = x;
    p->y = y;
    p->w = w;
    for (uint32_t i = 0; !rc && !p->finished && i < y; i++)
        rc = next_row(p, error);
    return rc;
}

/* The numbers of a row of the box, which are packed into bytes from the highest bits on: all of eight bits as they lie,
 * others into a line of their own. */
static const uint8_t *unpack_ids(const struct leat_backend_decoder *p, const uint8_t *packed)
{
    unsigned depth = p->header.bit_depth, mask = (1u << depth) - 1;
    if (depth == 8)
        return packed + p->x;
    for (size_t i = 0; i < p->w; i++) {
        size_t bit = (p->x + i) * depth;
        p->line.p[i] = (uint8_t)(packed[bit / 8] >> (8 - depth - bit % 8) & mask);
    }
    return p->line.p;
}

static int png_row(struct leat_backend_decoder *p, const uint8_t **row, struct leat_error *error)
{
    uint8_t *line = p->image.p;
    if (p->header.interlace_method) {
        line += p->y++ * p->row_bytes;
    } else {
        int rc = next_row(p, error);
        if (rc)
            return rc;
    }
    if (p->ids) {
        *row = unpack_ids(p, line);
        return LEAT_OK;
    }
    line += (size_t)p->x * (p->wide ? 8 : 4);
    for (size_t i = 0; p->opaque && !p->wide && i < p->w; i++)
        line[4 * i + 3] = 255;
    for (size_t i = 0; p->opaque && p->wide && i < p->w; i++)
        line[8 * i + 6] = line[8 * i + 7] = 255;
    *row = line;
    return LEAT_OK;
}

/* libspng stops after the name of the last chunk, IEND: its checksum, the last four bytes of the photo, is ours to
 * read. */
static int check_end(const struct leat_backend_decoder *p, struct leat_error *error)
{
    static const uint8_t end[] = {'I', 'E', 'N', 'D', 0xae, 0x42, 0x60, 0x82};
    size_t name = p->position;
    while (name >= 4 && memcmp(p->data + name - 4, end, 4) && p->position - name < 4)
        name--;
    if (name < 4 || memcmp(p->data + name - 4, end, 4))
        return leat_decode_fail(error, "PNG", (int64_t)p->position, p->length,
                                "no last chunk (IEND) where one should be");
    if (p->length - name < 4)
        return failed(p, SPNG_IO_EOF, error);
    return !p->wrong_sums && memcmp(p->data + name, end + 4, 4) ? failed(p, SPNG_ECHUNK_CRC, error) : LEAT_OK;
}

static int png_scan(struct leat_backend_decoder *p, struct leat_error *error)
{
    int rc = p->started ? LEAT_OK : start(p, SPNG_FMT_PNG, error);
    while (!rc && !p->finished)
        rc = next_row(p, error);
    if (rc)
        return rc;
    int code = spng_decode_chunks(p->spng); /* the rest, to IEND */
    return code ? failed(p, code, error) : check_end(p, error);
}

static unsigned png_warnings(const struct leat_backend_decoder *p)
{
    return p->wrong_sums ? 1u << LEAT_PNG_WRONG_SUM : 0;
}

/* ---- the header ------------------------------------------------------------------------------ */

static int probe(struct leat_bytes file, struct leat_value_info *info, struct leat_error *error)
{
    static const uint8_t channels[] = {1, 0, 3, 3, 2, 0, 4};
    struct leat_bytes body = leat_bytes_chunk(leat_bytes_part(file, 0, file.n < 33 ? file.n : 33), 8, "IHDR", true);
    if (body.n != 13 || body.p != file.p + 16)
        return leat_decode_fail(error, "PNG", 8, file.n, "no header chunk (IHDR) where one should be");
    if (body.p[9] > 6 || !channels[body.p[9]])
        return leat_decode_fail(error, "PNG", 25, file.n,
                                "the header chunk (IHDR) has a colour type that does not exist");
    info->size[0] = leat_bytes_number(body.p, 4, true);
    info->size[1] = leat_bytes_number(body.p + 4, 4, true);
    info->channels = channels[body.p[9]];
    info->kind = LEAT_IMAGE_PNG;
    info->deep = body.p[8] == 16;
    return LEAT_OK;
}

/* An interlaced one: its rows come in seven passes. */
static uint64_t bytes(struct leat_bytes file, struct leat_value_info *info)
{
    if (probe(file, info, NULL) || leat_decode_check_size("PNG", info->size[0], info->size[1], NULL))
        return 0;
    return (uint64_t)info->size[0] * LEAT_DECODE_ROW_BYTES +
           (file.p[28] ? (uint64_t)info->size[0] * info->size[1] * 4 : 0);
}

static struct leat_bytes exif(struct leat_bytes file)
{
    return leat_bytes_chunk(file, 8, "eXIf", true);
}

/* iCCP: a name and its end, 0 for deflate, the profile in zlib's form. */
static int profile(struct leat_bytes file, uint32_t frame, struct leat_decode_buffer *room, struct leat_bytes *found,
                   struct leat_error *error)
{
    struct leat_bytes chunk = leat_bytes_chunk(file, 8, "iCCP", true);
    const uint8_t *end = chunk.p ? memchr(chunk.p, 0, chunk.n) : NULL;
    *found = (struct leat_bytes){NULL, 0};
    if (!chunk.p)
        return LEAT_OK;
    const size_t head = end ? (size_t)(end - chunk.p) + 2 : chunk.n;
    struct leat_bytes packed = leat_bytes_part(chunk, head, chunk.n > head ? chunk.n - head : 0);
    for (size_t most = 1 << 14; packed.n && most <= LEAT_ICC_MOST_BYTES; most *= 4) {
        int rc = leat_decode_reserve(room, most, 1, error);
        if (rc)
            return rc;
        uLongf n = most;
        const int state = uncompress(room->p, &n, packed.p, (uLong)packed.n);
        if (state == Z_OK) {
            *found = (struct leat_bytes){room->p, n};
            return LEAT_OK;
        }
        if (state != Z_BUF_ERROR)
            break;
    }
    return leat_icc_broken("PNG", "it cannot be decompressed", error);
}

const struct leat_decode_backend leat_decode_png = {
    .max_denominator = 1,
    .probe = probe,
    .bytes = bytes,
    .exif = exif,
    .profile = profile,
    .decoder_bytes = sizeof(struct leat_backend_decoder),
    .destroy = png_destroy,
    .open = png_open,
    .begin = png_begin,
    .row = png_row,
    .scan = png_scan,
    .warnings = png_warnings,
    .close = png_close,
};
