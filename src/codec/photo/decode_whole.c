/* Rows of a box out of an image that was decoded whole. */
#include "codec/photo/decode_whole.h"

#include "base/alloc.h"
#include "base/error.h"

/* Above this the buffer is given back when the photo ends. */
#define KEEP_BYTES LEAT_DECODE_BYTES

void leat_whole_free(struct leat_backend_decoder *p)
{
    leat_decode_buffer_free(&p->buffer);
}

static int find_header(const struct leat_whole_format *format, struct leat_bytes file, uint32_t frame,
                       struct leat_whole_header *header, struct leat_error *error)
{
    *header = (struct leat_whole_header){0};
    int rc = format->header(file, frame, header, error);
    return rc ? rc : leat_decode_check_size(format->name, header->width, header->height, error);
}

int leat_whole_probe(const struct leat_whole_format *format, struct leat_bytes file, struct leat_value_info *info,
                     struct leat_error *error)
{
    struct leat_whole_header header;
    int rc = find_header(format, file, 0, &header, error);
    if (rc)
        return rc;
    info->size[0] = header.width;
    info->size[1] = header.height;
    info->channels = header.channels;
    info->kind = header.kind;
    info->deep = header.deep;
    return LEAT_OK;
}

uint64_t leat_whole_bytes(const struct leat_whole_format *format, struct leat_bytes file, struct leat_value_info *info)
{
    struct leat_whole_header header;
    if (find_header(format, file, 0, &header, NULL))
        return 0;
    info->size[0] = header.width;
    info->size[1] = header.height;
    return (uint64_t)header.width * header.height * 4 + header.bytes;
}

struct leat_bytes leat_whole_orientation(unsigned orientation)
{
    /* a directory at byte 8 of one entry: tag 0x0112, type 3 (short), one value */
#define SAYS(n) "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0" n "\0\0\0\0\0"
    static const char data[8][27] = {SAYS("\1"), SAYS("\2"), SAYS("\3"), SAYS("\4"),
                                     SAYS("\5"), SAYS("\6"), SAYS("\7"), SAYS("\10")};
#undef SAYS
    if (orientation < 1 || orientation > 8)
        return (struct leat_bytes){NULL, 0};
    return (struct leat_bytes){(const uint8_t *)data[orientation - 1], 26};
}

int leat_whole_open(const struct leat_whole_format *format, struct leat_backend_decoder *p,
                    const struct leat_decode_request *request, uint32_t *width, uint32_t *height,
                    struct leat_decode_rows *rows, struct leat_error *error)
{
    p->format = format;
    p->file = (struct leat_bytes){request->data, request->length};
    p->frame = leat_image_wish_of(request)->frame;
    p->all = request->scan_to_end;
    p->opaque = leat_image_wish_of(request)->alpha == LEAT_ALPHA_DROP;
    p->decoded = false;
    p->lenient = request->lenient;
    p->warnings = 0;
    int rc = find_header(p->format, p->file, p->frame, &p->header, error);
    if (rc)
        return rc;
    rows->wide = p->image.wide = leat_image_wish_of(request)->wide && p->header.deep;
    rows->cmyk = p->header.inks;
    rows->inks = p->image.inks = leat_image_wish_of(request)->inks && rows->cmyk;
    rows->channels = p->header.channels;
    p->opaque = p->opaque && !rows->inks;
    *width = p->header.width;
    *height = p->header.height;
    return LEAT_OK;
}

static int decode(struct leat_backend_decoder *p, struct leat_error *error)
{
    p->image.stride = (size_t)p->header.width * (p->image.wide ? 8 : 4);
    int rc = leat_decode_reserve(&p->buffer, p->header.height, p->image.stride, error);
    p->image.pixels = p->buffer.p;
    p->image.warnings = p->lenient ? &p->warnings : NULL;
    rc = rc ? rc : p->format->decode(p->file, p->frame, p->all, &p->header, &p->image, error);
    p->decoded = !rc;
    return rc;
}

int leat_whole_begin(struct leat_backend_decoder *p, unsigned denominator, uint32_t x, uint32_t y, uint32_t w,
                     uint32_t h, struct leat_error *error)
{
    p->x = x;
    p->y = y;
    p->w = w;
    return decode(p, error);
}

int leat_whole_row(struct leat_backend_decoder *p, const uint8_t **row, struct leat_error *error)
{
    uint8_t *line = p->image.pixels + p->y++ * p->image.stride + (size_t)p->x * (p->image.wide ? 8 : 4);
    for (size_t i = 0; p->opaque && !p->image.wide && i < p->w; i++)
        line[4 * i + 3] = 255;
    for (size_t i = 0; p->opaque && p->image.wide && i < p->w; i++)
        line[8 * i + 6] = line[8 * i + 7] = 255;
    *row = line;
    return LEAT_OK;
}

int leat_whole_scan(struct leat_backend_decoder *p, struct leat_error *error)
{
    if (p->decoded && p->all)
        return LEAT_OK;
    p->all = true;
    return decode(p, error);
}

unsigned leat_whole_warnings(const struct leat_backend_decoder *p)
{
    return p->warnings;
}

void leat_whole_close(struct leat_backend_decoder *p)
{
    if (p->buffer.bytes > KEEP_BYTES)
        leat_decode_buffer_free(&p->buffer);
}
