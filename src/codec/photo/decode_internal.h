/* The common part of the files of src/codec/photo. No other file includes this. */
#ifndef LEAT_CODEC_PHOTO_DECODE_INTERNAL_H
#define LEAT_CODEC_PHOTO_DECODE_INTERNAL_H

#include "base/library.h"
#include "codec/photo/bytes.h"
#include "codec/photo/photo.h"

/* Memory that only grows. Its contents are lost when it grows. */
struct leat_decode_buffer {
    uint8_t *p;
    size_t bytes;
};
/* Makes room for count * each bytes and LEAT_DECODE_PADDING more. */
int leat_decode_reserve(struct leat_decode_buffer *buffer, uint64_t count, uint64_t each, struct leat_error *error);
void leat_decode_buffer_free(struct leat_decode_buffer *buffer);

/* A failure of the photo's bytes: LEAT_E_DECODE, "FORMAT: words [at byte offset of length]; remedy". `offset` may be
 * -1. */
int leat_decode_fail(struct leat_error *error, const char *format, int64_t offset, size_t length, const char *words);

/* DECODE: frame `frame` of `count` does not exist. */
int leat_decode_no_frame(const char *format, uint32_t frame, uint32_t count, struct leat_error *error);

/* Whether the size is one that leat decodes: not empty, and within LEAT_MAX_PIXELS and LEAT_MAX_SIDE. */
int leat_decode_check_size(const char *format, uint64_t width, uint64_t height, struct leat_error *error);

/* The state of one format that one thread keeps from photo to photo. Each format's file defines its own. */
struct leat_backend_decoder;

/* The description that `open` gives of the rows to come. All false: RGBX, bytes. */
struct leat_decode_rows {
    bool gray;        /* one sample per pixel */
    bool wide;        /* 16 bits a sample: only of a request that is so */
    bool cmyk;        /* the photo is stored as C, M, Y and K; rows are RGBX unless `inks` */
    bool inks;        /* C, M, Y and K, 255 (65535) for most ink: only of a request that takes them */
    bool full_size;   /* this photo does not decode at 1/2, 1/4 and 1/8 */
    uint8_t channels; /* of this frame, as `probe` says them of the first; 0: all are like that */
};

/* The decoder of one format. Calls come in the order of the decoder in codec/codec.h. Sizes and boxes are those of the
 * stored image, before the EXIF orientation. X of RGBX is the opacity if the wish is not LEAT_ALPHA_DROP, else 255.
 */
struct leat_decode_backend {
    unsigned max_denominator;

    /* Whether the first bytes of a file with the magic are of this format; any thread. NULL: they are. */
    bool (*recognise)(struct leat_bytes file);
    /* Width, height, channels and kind. DECODE: the header makes no sense. */
    int (*probe)(struct leat_bytes file, struct leat_value_info *info, struct leat_error *error);
    /* The most memory that decoding takes, and width and height; 0 if the header makes no sense. */
    uint64_t (*bytes)(struct leat_bytes file, struct leat_value_info *info);
    /* The EXIF data: a TIFF header and its directories; n 0 if there are none. NULL: the format has none. */
    struct leat_bytes (*exif)(struct leat_bytes file);
    /* The ICC profile of a frame, in the file or in `room`; n 0 if there is none. NULL: the format has none. DECODE:
     * there is one, but not all of it. */
    int (*profile)(struct leat_bytes file, uint32_t frame, struct leat_decode_buffer *room, struct leat_bytes *profile,
                   struct leat_error *error);

    size_t decoder_bytes; /* of its struct leat_backend_decoder, which begins zeroed */
    /* Releases what the struct holds. */
    void (*destroy)(struct leat_backend_decoder *decoder);
    int (*open)(struct leat_backend_decoder *decoder, const struct leat_decode_request *request, uint32_t *width,
                uint32_t *height, struct leat_decode_rows *rows, struct leat_error *error);
    int (*begin)(struct leat_backend_decoder *decoder, unsigned denominator, uint32_t x, uint32_t y, uint32_t w,
                 uint32_t h, struct leat_error *error);
    int (*row)(struct leat_backend_decoder *decoder, const uint8_t **row, struct leat_error *error);
    /* As leat_decoder_blocks, whatever the orientation and the profile. May be NULL. */
    const struct leat_jpeg_frame *(*blocks)(struct leat_backend_decoder *decoder, struct leat_jpeg_source **source);
    /* Reads the bytes that have not been read yet, as cheaply as damage can be found. After open, begin or any row. */
    int (*scan)(struct leat_backend_decoder *decoder, struct leat_error *error);
    /* The row index that this scan has left, valid until the next open; or NULL. Asked after close. May be NULL. */
    const uint8_t *(*rows)(const struct leat_backend_decoder *decoder, size_t *length);
    /* Whether it knows of images behind the first one. */
    bool has_frames;
    /* The faults that a lenient request has passed (bits of enum leat_jpeg_warning). Asked after close. May be NULL. */
    unsigned (*warnings)(const struct leat_backend_decoder *decoder);
    /* Whether a strict request would have found no fault in the scanned part. Asked after close. NULL: if there are no
     * warnings. */
    bool (*strict)(const struct leat_backend_decoder *decoder);
    /* Always the last call, also after a failure of open. */
    void (*close)(struct leat_backend_decoder *decoder);
};

#define LEAT_PHOTO(id, ...) extern const struct leat_decode_backend leat_decode_##id;
#include "codec/photo/formats.def"
#undef LEAT_PHOTO
extern const struct leat_decode_backend leat_decode_raw;

/* The format of a photo in a form; NULL with an error that names the likely format of its bytes. */
const struct leat_photo_format *leat_photo_format_of(uint8_t form, const void *data, size_t length,
                                                     struct leat_error *error);

/* Bytes per pixel of width that a decoder's rows take between its steps. */
#define LEAT_DECODE_ROW_BYTES 160

/* As leat_photo_orientation, of a photo in any form. */
unsigned leat_decode_orientation(uint8_t form, const void *data, size_t length);

/* header_jpeg.c: the first functions of leat_decode_jpeg */
int leat_jpeg_probe(struct leat_bytes file, struct leat_value_info *info, struct leat_error *error);
uint64_t leat_jpeg_bytes(struct leat_bytes file, struct leat_value_info *info);
struct leat_bytes leat_jpeg_exif(struct leat_bytes file);
int leat_jpeg_profile(struct leat_bytes file, uint32_t frame, struct leat_decode_buffer *room,
                      struct leat_bytes *profile, struct leat_error *error);
bool leat_jpeg_is_lossless(struct leat_bytes file);

/* ---- the functions of leat_codec_photo, by file ---- */

/* header.c */
int leat_photo_probe(const void *data, size_t length, struct leat_value_info *info, struct leat_error *error);
uint64_t leat_photo_decode_bytes(const void *data, size_t length, const struct leat_value_info *info, bool exif);

/* decode.c */
struct leat_decoder *leat_photo_decoder_new(void);
void leat_photo_decoder_free(struct leat_decoder *decoder);
int leat_photo_open(struct leat_decoder *decoder, const struct leat_decode_request *request, uint32_t size[2],
                    struct leat_error *error);
unsigned leat_photo_scaled_size(const struct leat_decoder *decoder, unsigned denominator, uint32_t *width,
                                uint32_t *height);
int leat_photo_begin(struct leat_decoder *decoder, unsigned denominator, uint32_t x, uint32_t y, uint32_t w, uint32_t h,
                     struct leat_error *error);
int leat_photo_row(struct leat_decoder *decoder, const uint8_t **row, struct leat_error *error);
const struct leat_jpeg_frame *leat_photo_blocks(struct leat_decoder *decoder, struct leat_jpeg_source **source);
int leat_photo_end(struct leat_decoder *decoder, struct leat_error *error);
/* Whether the open photo is stored as C, M, Y and K. */
bool leat_photo_is_cmyk(const struct leat_decoder *decoder);
const uint8_t *leat_photo_rows(const struct leat_decoder *decoder, size_t *length);
unsigned leat_photo_warnings(const struct leat_decoder *decoder);
bool leat_photo_whole(const struct leat_decoder *decoder);
/* The packer of a decoder's thread, made when it is first asked for. NULL when memory is out. The decoder forgets the
 * last photo. */
struct leat_jpeg_packer *leat_photo_packer(struct leat_decoder *decoder);

/* shrink.c: antialiased bilinear, then encoded as JPEG */
int leat_photo_shrink(const void *data, size_t length, unsigned max_side, unsigned quality, bool lenient, uint8_t **out,
                      size_t *out_length, struct leat_error *error);

/* Those that leat was built for. */
extern struct leat_library leat_libtiff; /* decode_tiff.c */
extern struct leat_library leat_lcms;    /* icc.c */

/* DECODE: leat was built without the headers of the library that `package` has, and so without this format. */
int leat_library_not_built(const char *format, const char *package, struct leat_error *error);

#endif
