/*
 * Kinds of samples. A codec knows one kind of encoded values (photos, say): their headers, the memory of decoding,
 * whether they are whole, the decoding of a part, and other forms of storage. Codecs are pure: bytes in, values out; no
 * I/O, no threads, no clock. codecs.def lists them, one line each; nobody above src/codec knows any by name.
 *
 * A value goes through the layers as its bytes and a leat_value_info: the source fills it, src/data and the engine pass
 * it on unread, the codec reads it.
 *
 *     field -> kind -> leat_codec_of(kind)
 *                         probe, decode_bytes           from the header
 *                         decoder: open, read .. end    slices of the value; scan_to_end: to its last byte
 *                         image                         in the place of read: boxes of rows (codec/image.h)
 *                         pack, shrink                  what a writer stores instead
 *                         restore, view                 what is delivered of that without decoding
 *
 * A decoded value is an array, which comes in slices along its first axis, or an image. codec/image.h has the parts
 * that only images have.
 */
#ifndef LEAT_CODEC_CODEC_H
#define LEAT_CODEC_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat/leat.h"

/* The form in which an encoded value is stored. */
enum leat_form {
    LEAT_FORM_ORIGINAL = 0, /* its bytes as they came */
    LEAT_FORM_FAST,         /* the form that decodes faster and gives back the original bytes */
    LEAT_FORM_RAW           /* decoded: the elements, such as pixels */
};
#define LEAT_FORMS 3

/* The known health of a value. */
enum leat_health {
    LEAT_HEALTH_UNCHECKED = 0, /* decode to the end on first use in a process, unless the source remembers the bytes as
                                  good */
    LEAT_HEALTH_GOOD,          /* was scanned to its end when packed, or since */
    LEAT_HEALTH_BROKEN         /* was found broken */
};

/* The known facts of an encoded value beside its bytes. All zero: nothing is known. */
struct leat_value_info {
    uint32_t size[2];  /* of an array: steps of its first axis, and a number of the codec's; of an image: width and
                          height; 0: unknown */
    uint8_t channels;  /* of the value as it came; 0: unknown */
    uint8_t kind;      /* a number of the codec's for its formats; 0: unknown */
    bool deep;         /* has more than 8 bits a sample: a probe alone says so */
    uint8_t health;    /* enum leat_health */
    bool unverified;   /* ... GOOD by a record alone: with LEAT_RECHECK_NEVER nobody looks at the bytes */
    uint8_t form;      /* enum leat_form */
    uint32_t original; /* FAST, RAW: bytes of the value as it came */
    uint32_t
        rows_length;     /* ORIGINAL: bytes of the row index, 0 if there is none: they lie right behind the value ... */
    const uint8_t *rows; /* ... unless this points to them, in memory that stays while the source is open ... */
    bool rows_apart;     /* ... or `recall` of the source has them */
    bool remembered;     /* `recall` knows with which checksum the value was found good */
};

/* Bytes of a value that is delivered without being decoded: in the fast form those that came. */
static inline uint64_t leat_value_bytes(const struct leat_value_info *info, uint64_t length)
{
    return info->form == LEAT_FORM_FAST ? info->original : length;
}

/* So much memory a decoder may keep from value to value. */
#define LEAT_DECODE_BYTES (UINT64_C(2) << 20)

struct leat_decode_request {
    const void *data; /* the encoded value: must stay in place until leat_decoder_end */
    size_t length;
    uint8_t form;        /* enum leat_form */
    const uint8_t *rows; /* the row index of a value in the form ORIGINAL, or NULL */
    size_t rows_length;
    const void *wish; /* the wanted form, in the terms of its kind (for images struct leat_image_wish); NULL: the usual
                       * one. It must stay in place until leat_decoder_open has returned */
    bool lenient;     /* damage that the decoder can pass is a warning, not an error */
    bool scan_to_end; /* leat_decoder_end reads the bytes that were not needed, and reports damage in them */
};

/* The objects that one thread keeps from value to value: the decoder's own and buffers, so that steady state
 * allocates nothing of ours. One thread at a time. A codec's own struct begins with it. */
struct leat_decoder {
    const struct leat_codec *codec;
};

struct leat_codec {
    const char *name; /* "photo": in messages, behind "encoded" */
    enum leat_kind kind;
    const char *kind_name; /* "image": leat_kind_name, and so the name for leat.field */
    const char *sizes[2]; /* "width", "height": fields that are derived from leat_value_info.size, of at most 8 bytes */
    size_t raw_header;    /* bytes that precede the elements of a value in the form RAW */
    /* For a kind that decodes to arrays: its type, and the number of elements in a step of the first axis. */
    enum leat_dtype dtype;
    uint32_t elements;

    /* ---- from the header; any thread ---- */

    /* Fills size, channels and kind. The first bytes of the value may be enough. LEAT_E_DECODE: the bytes are
     * none of this kind, or the header makes no sense. */
    int (*probe)(const void *data, size_t length, struct leat_value_info *info, struct leat_error *error);
    /* About the most memory that decoding takes (from the header, and from size and form in `info`); a decoder
     * keeps at most LEAT_DECODE_BYTES of it afterwards. 0 for bytes that it does not know. */
    uint64_t (*decode_bytes)(const void *data, size_t length, const struct leat_value_info *info, bool exif);

    /* ---- decoding: see leat_decoder_* below ---- */

    struct leat_decoder *(*decoder_new)(void);
    void (*decoder_free)(struct leat_decoder *decoder);
    int (*open)(struct leat_decoder *decoder, const struct leat_decode_request *request, uint32_t size[2],
                struct leat_error *error);
    int (*read)(struct leat_decoder *decoder, uint64_t begin, uint64_t count, void *out, struct leat_error *error);
    const struct leat_image_codec *image; /* NULL: arrays, which `read` gives */
    int (*end)(struct leat_decoder *decoder, struct leat_error *error);
    const uint8_t *(*rows)(const struct leat_decoder *decoder, size_t *length); /* NULL: there are no row indexes */
    unsigned (*warnings)(const struct leat_decoder *decoder); /* NULL, with warning_names: there are none */
    bool (*whole)(const struct leat_decoder *decoder);        /* NULL: leniency makes no difference */
    const char *const *warning_names;                         /* [LEAT_MAX_WARNINGS] at most, ended by NULL */

    /* ---- other forms of storage; each NULL if the kind has no such thing ---- */

    /* The value in another form; *out is ended with leat_free. It is read to its end: LEAT_E_DECODE if it is broken.
     * LEAT_E_UNSUPPORTED: it has no such form and is to be stored as it came; the error says why, in the same words for
     * all values of its sort. */
    int (*pack)(struct leat_decoder *decoder, enum leat_photos form, bool lenient, const void *data, size_t length,
                uint8_t **out, size_t *out_length, struct leat_error *error);
    /* Makes the longer side `max_side`. *out is ended with leat_free. LEAT_OK with *out NULL: small enough. */
    int (*shrink)(const void *data, size_t length, unsigned max_side, unsigned quality, bool lenient, uint8_t **out,
                  size_t *out_length, struct leat_error *error);

    /* ---- reading that; bytes may be hostile. Those of this group take no lock and allocate nothing ---- */

    /* Whether bytes in the form that `info` says are such: of the same size, and of `original` bytes as they came. */
    bool (*form_is_true)(const void *data, size_t length, const struct leat_value_info *info);
    bool (*rows_are_whole)(const uint8_t *rows, size_t length);
    /* The form of bytes of which no index says it: ORIGINAL or RAW. */
    enum leat_form (*form_of)(const void *data, size_t length);
    /* Fills in `out`, whose data are a value in the form RAW: data, length, shape and orientation of its elements, and
     * their dtype unless it is U8. CORRUPT */
    int (*view)(struct leat_value *out, struct leat_error *error);

    /* About the most memory that restoring takes; 0 for bytes that are not in the form FAST. */
    uint64_t (*restore_bytes)(const void *data, size_t length);
    /* The original of a value in the form FAST. *out is ended with leat_free. CORRUPT, NOMEM. */
    int (*restore)(const void *data, size_t length, uint8_t **out, size_t *out_length, struct leat_error *error);
    /* Whether the form FAST is that of the bytes that it gives back, in all that decoding takes from it. CORRUPT, NOMEM
     */
    int (*restore_check)(const void *data, size_t length, struct leat_error *error);
};

enum { LEAT_MAX_CODECS = 8, LEAT_MAX_WARNINGS = 8 };
/* The codec of a field's values; NULL: they are not encoded. */
const struct leat_codec *leat_codec_of(enum leat_kind kind);

/* ---- decoders -------------------------------------------------------------------------------- */

/* NULL when memory is out. */
static inline struct leat_decoder *leat_decoder_new(const struct leat_codec *codec)
{
    struct leat_decoder *decoder = codec->decoder_new();
    if (decoder)
        decoder->codec = codec;
    return decoder;
}

/* NULL is allowed. */
static inline void leat_decoder_free(struct leat_decoder *decoder)
{
    if (decoder)
        decoder->codec->decoder_free(decoder);
}

/* Reads the header. `size` receives the size of the value as it will be delivered. After a failure the decoder is ready
 * for the next open; after success leat_decoder_end must be called. Errors: DECODE, NOMEM. */
static inline int leat_decoder_open(struct leat_decoder *decoder, const struct leat_decode_request *request,
                                    uint32_t size[2], struct leat_error *error)
{
    return decoder->codec->open(decoder, request, size, error);
}

/* Copies the steps [begin, begin + count) of an array, which lie in it, to `out`. Slices come in the order of the
 * array, and may leave steps out between them. They are byte for byte those of the whole. After a failure only
 * leat_decoder_end may be called. Errors: DECODE, NOMEM. */
static inline int leat_decoder_read(struct leat_decoder *decoder, uint64_t begin, uint64_t count, void *out,
                                    struct leat_error *error)
{
    return decoder->codec->read(decoder, begin, count, out, error);
}

/* Ends the value. With scan_to_end, and if nothing has failed before, the rest of the bytes is read and damage
 * reported; else the rest is dropped. In each case the decoder is ready for the next open. Errors: DECODE, NOMEM. */
static inline int leat_decoder_end(struct leat_decoder *decoder, struct leat_error *error)
{
    return decoder->codec->end(decoder, error);
}

/* The row index of the value that was ended last: NULL if it was not scanned to its end, is broken, or of a sort that
 * has none. Valid until the next open. */
static inline const uint8_t *leat_decoder_rows(const struct leat_decoder *decoder, size_t *length)
{
    *length = 0;
    return decoder->codec->rows ? decoder->codec->rows(decoder, length) : NULL;
}

/* The faults that a lenient decoder has passed in the value that was ended last: a set of bits, one per name in
 * codec->warning_names. Valid until the next open. */
static inline unsigned leat_decoder_warnings(const struct leat_decoder *decoder)
{
    return decoder->codec->warnings ? decoder->codec->warnings(decoder) : 0;
}

/* For a value that was scanned to its end without a failure: whether it is good, in that a strict decoder finds no
 * fault either. Valid until the next open. */
static inline bool leat_decoder_whole(const struct leat_decoder *decoder)
{
    return !decoder->codec->whole || decoder->codec->whole(decoder);
}

/* Scans a value to its end. LEAT_E_DECODE with the reason and, where known, the byte offset, for anything that decoding
 * would report: the one reason that this value gets, whoever finds it broken. */
int leat_decoder_check(struct leat_decoder *decoder, const void *data, size_t length, bool lenient,
                       struct leat_error *error);

/* One decoder per codec, each made when it is first asked for. One thread at a time. */
struct leat_decoders {
    struct leat_decoder *of[LEAT_MAX_CODECS];
};
struct leat_decoder *leat_decoders_get(struct leat_decoders *decoders,
                                       const struct leat_codec *codec); /* NULL: NOMEM */
void leat_decoders_destroy(struct leat_decoders *decoders);

#endif
