/*
 * Formats whose images are decoded whole: a decoder is then a function from bytes to pixels, and boxes, rows and
 * frames are all the same (decode_whole.c). That costs the memory of the image, and spares each format a state.
 */
#ifndef LEAT_CODEC_PHOTO_DECODE_WHOLE_H
#define LEAT_CODEC_PHOTO_DECODE_WHOLE_H

#include "codec/photo/decode_internal.h"

/* The contents of the header of one image of a file. */
struct leat_whole_header {
    uint32_t width, height;
    uint8_t channels; /* 1 to 4: gray, gray and opacity, colours, colours and opacity */
    uint8_t kind;     /* enum leat_image_kind */
    bool deep;        /* more than 8 bits a sample */
    bool inks;        /* CMYK, which is available as such */
    uint64_t bytes;   /* that decoding takes beside the pixels */
};

/* The destination of pixels: RGBA, of 16 bits a sample if `wide`. */
struct leat_whole_image {
    uint8_t *pixels;
    size_t stride; /* bytes from row to row */
    bool wide;
    bool inks;          /* of CMYK: C, M, Y and K in the place of RGBA */
    unsigned *warnings; /* damage that can be passed is noted here (enum leat_jpeg_warning); NULL: it is an error */
};

struct leat_whole_format {
    const char *name;
    /* DECODE: the header makes no sense, or there is no such frame. Width and height are checked by the caller. */
    int (*header)(struct leat_bytes file, uint32_t frame, struct leat_whole_header *header, struct leat_error *error);
    /* Decodes frame `frame`, whose `header` was found; with `all` looks at the bytes behind it, too. */
    int (*decode)(struct leat_bytes file, uint32_t frame, bool all, const struct leat_whole_header *header,
                  const struct leat_whole_image *image, struct leat_error *error);
};

struct leat_backend_decoder {
    const struct leat_whole_format *format;
    struct leat_bytes file;
    uint32_t frame;
    bool opaque, all, decoded; /* X is to be made all ones; to the end of the file; without a failure */
    bool lenient;
    unsigned warnings;
    struct leat_whole_header header;
    struct leat_whole_image image;
    uint32_t x, y, w; /* of the box; y counts on with each row */
    struct leat_decode_buffer buffer;
};

int leat_whole_probe(const struct leat_whole_format *format, struct leat_bytes file, struct leat_value_info *info,
                     struct leat_error *error);
uint64_t leat_whole_bytes(const struct leat_whole_format *format, struct leat_bytes file, struct leat_value_info *info);
/* EXIF data that say this orientation (1 to 8), of a format that has it in another place. */
struct leat_bytes leat_whole_orientation(unsigned orientation);

void leat_whole_free(struct leat_backend_decoder *decoder);
int leat_whole_open(const struct leat_whole_format *format, struct leat_backend_decoder *decoder,
                    const struct leat_decode_request *request, uint32_t *width, uint32_t *height,
                    struct leat_decode_rows *rows, struct leat_error *error);
int leat_whole_begin(struct leat_backend_decoder *decoder, unsigned denominator, uint32_t x, uint32_t y, uint32_t w,
                     uint32_t h, struct leat_error *error);
int leat_whole_row(struct leat_backend_decoder *decoder, const uint8_t **row, struct leat_error *error);
int leat_whole_scan(struct leat_backend_decoder *decoder, struct leat_error *error);
unsigned leat_whole_warnings(const struct leat_backend_decoder *decoder);
void leat_whole_close(struct leat_backend_decoder *decoder);

/* The backend leat_decode_<id> of a format by the functions `header` and `decode`; `known`, `exif_of` and `icc`: the
 * functions that recognise it, and for EXIF data and the profile, or NULL. */
#define LEAT_WHOLE_BACKEND(id, title, known, frames, exif_of, icc)                                                     \
    static const struct leat_whole_format format = {.name = title, .header = header, .decode = decode};                \
    static int whole_probe(struct leat_bytes file, struct leat_value_info *info, struct leat_error *error)             \
    {                                                                                                                  \
        return leat_whole_probe(&format, file, info, error);                                                           \
    }                                                                                                                  \
    static uint64_t whole_bytes(struct leat_bytes file, struct leat_value_info *info)                                  \
    {                                                                                                                  \
        return leat_whole_bytes(&format, file, info);                                                                  \
    }                                                                                                                  \
    static int whole_open(struct leat_backend_decoder *decoder, const struct leat_decode_request *request,             \
                          uint32_t *width, uint32_t *height, struct leat_decode_rows *rows, struct leat_error *error)  \
    {                                                                                                                  \
        return leat_whole_open(&format, decoder, request, width, height, rows, error);                                 \
    }                                                                                                                  \
    const struct leat_decode_backend leat_decode_##id = {                                                              \
        .max_denominator = 1,                                                                                          \
        .has_frames = frames,                                                                                          \
        .recognise = known,                                                                                            \
        .probe = whole_probe,                                                                                          \
        .bytes = whole_bytes,                                                                                          \
        .exif = exif_of,                                                                                               \
        .profile = icc,                                                                                                \
        .decoder_bytes = sizeof(struct leat_backend_decoder),                                                          \
        .destroy = leat_whole_free,                                                                                    \
        .open = whole_open,                                                                                            \
        .begin = leat_whole_begin,                                                                                     \
        .row = leat_whole_row,                                                                                         \
        .scan = leat_whole_scan,                                                                                       \
        .warnings = leat_whole_warnings,                                                                               \
        .close = leat_whole_close,                                                                                     \
    }

/* The functions of a format whose library's headers were not there when leat was built: each says so. */
#define LEAT_WHOLE_NOT_BUILT(title, package)                                                                           \
    static int header(struct leat_bytes file, uint32_t frame, struct leat_whole_header *header,                        \
                      struct leat_error *error)                                                                        \
    {                                                                                                                  \
        return leat_library_not_built(title, package, error);                                                          \
    }                                                                                                                  \
    static int decode(struct leat_bytes file, uint32_t frame, bool all, const struct leat_whole_header *found,         \
                      const struct leat_whole_image *image, struct leat_error *error)                                  \
    {                                                                                                                  \
        return leat_library_not_built(title, package, error);                                                          \
    }

/* One pixel of 8 bits. */
static inline void leat_whole_put(uint8_t *at, unsigned r, unsigned g, unsigned b, unsigned a)
{
    at[0] = (uint8_t)r;
    at[1] = (uint8_t)g;
    at[2] = (uint8_t)b;
    at[3] = (uint8_t)a;
}

#endif
