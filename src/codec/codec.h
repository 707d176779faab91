/*
 * Kinds of samples: what an encoded value is, as its bytes say. This layer is pure: no I/O, no threads, no clock.
 */
#ifndef LEAT_CODEC_CODEC_H
#define LEAT_CODEC_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat/leat.h"

/* What an encoded image is, as its bytes say (not its name). */
enum leat_image_kind {
    LEAT_IMAGE_UNKNOWN = 0,
    LEAT_IMAGE_JPEG_BASELINE,    /* baseline or extended, Huffman: can be decoded in part */
    LEAT_IMAGE_JPEG_PROGRESSIVE, /* progressive, Huffman */
    LEAT_IMAGE_JPEG_OTHER,       /* arithmetic, lossless, 12 bits */
    LEAT_IMAGE_PNG,
    LEAT_IMAGE_WEBP
};

/* How an image is stored. */
enum leat_image_form {
    LEAT_FORM_ORIGINAL = 0, /* its bytes as they came */
    LEAT_FORM_FAST,         /* a JPEG in the decode-fast form (codec/jpeg/fast.h) */
    LEAT_FORM_RAW           /* pixels (codec/photo/raw.h) */
};
#define LEAT_IMAGE_FORMS 3

/* What is known of a value's health. */
enum leat_health {
    LEAT_HEALTH_UNCHECKED =
        0,             /* decode to the end on first use in a process, unless the source remembers the bytes as good */
    LEAT_HEALTH_GOOD,  /* was scanned to its end when packed, or since */
    LEAT_HEALTH_BROKEN /* was found broken */
};

/* What is known of an encoded value beside its bytes. The source says it, src/data and the engine pass it on unread,
 * and the codec of the value's kind reads it. All zero: nothing is known. */
struct leat_value_info {
    uint32_t width, height; /* 0: unknown */
    uint8_t channels;       /* 0: unknown */
    uint8_t kind;           /* enum leat_image_kind */
    uint8_t health;         /* enum leat_health */
    uint8_t form;           /* enum leat_image_form */
    uint32_t original;      /* FAST, RAW: bytes of the value as it came */
    uint32_t rows_length;   /* ORIGINAL: bytes of the row index (codec/jpeg/rows.h), 0 if there is none: they lie right
                               behind the value ... */
    const uint8_t *rows;    /* ... unless this points to them, in memory that stays while the source is open ... */
    bool rows_apart;        /* ... or `recall` of the source has them */
    bool remembered;        /* `recall` knows with which checksum the value was found good */
};

/* Bytes of a value that is delivered without being decoded: of a photo in the fast form those that came. */
static inline uint64_t leat_value_bytes(const struct leat_value_info *info, uint64_t length)
{
    return info->form == LEAT_FORM_FAST ? info->original : length;
}

/* Photos of more pixels than this, or with a longer side, are refused as broken. The side also bounds what one resize
 * may take: of a photo of 1 x 2^28 pixels the weights alone would be 2 GiB. */
#define LEAT_MAX_PIXELS (UINT64_C(1) << 28)
#define LEAT_MAX_SIDE 65535

/* So much memory a decoder may keep from value to value. */
#define LEAT_DECODE_BYTES (UINT64_C(2) << 20)

#endif
