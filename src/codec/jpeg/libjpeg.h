/*
 * libjpeg-turbo as leat calls it, for decoding (codec/photo/decode_libjpeg.c), for making photos smaller
 * (codec/photo/shrink.c) and for taking them apart (transcode.c): the photo is all in memory, warnings are errors
 * unless that is not wanted, errors jump, and the number of scans is bounded.
 */
#ifndef LEAT_CODEC_JPEG_LIBJPEG_H
#define LEAT_CODEC_JPEG_LIBJPEG_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

struct leat_jpeg_trouble {
    struct jpeg_error_mgr errors; /* first: libjpeg's pointer to it is cast back */
    jmp_buf jump;                 /* the destination of failures: to be set before each run of calls */
    char words[JMSG_LENGTH_MAX];  /* of the failure that jumped */
    bool lenient;                 /* warnings are passed, and noted here: */
    unsigned warnings;            /* bits of enum leat_jpeg_warning */
    bool warned;                  /* the failure is such a warning, of one that is not lenient */
};
/* The warnings of libjpeg-turbo that Pillow and browsers pass. */
enum leat_jpeg_warning {
    LEAT_JPEG_EXTRANEOUS = 0, /* bytes between two markers that belong to neither */
    LEAT_JPEG_FILE_ENDS,      /* the file ends before the photo does */
    LEAT_JPEG_SEGMENT_ENDS,   /* a marker stands in the place of data */
    LEAT_JPEG_BAD_CODE,       /* a code that no table has */
    LEAT_JPEG_RESTARTS,       /* restart markers are missing or out of order */
    LEAT_JPEG_PROGRESSION,    /* scans that do not follow from those before */
    LEAT_JPEG_OTHER_WARNING,
    LEAT_PNG_WRONG_SUM /* not libjpeg's: the checksum of a chunk of a PNG */
};
extern const char *const leat_jpeg_warning_names[]; /* ended by NULL */
/* The `err` of a (de)compressor, to be set before it is created. */
struct jpeg_error_mgr *leat_jpeg_trouble_begin(struct leat_jpeg_trouble *trouble, bool lenient);
bool leat_jpeg_trouble_is_memory(const struct leat_jpeg_trouble *trouble);

struct leat_jpeg_input {
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
};
/* Gives a decompressor that was just created `length` bytes, which must stay. Its `err` must be that of a
 * leat_jpeg_trouble. */
void leat_jpeg_input_begin(struct leat_jpeg_input *input, j_decompress_ptr cinfo, const void *data, size_t length);

struct leat_jpeg_output {
    struct jpeg_destination_mgr manager; /* first: libjpeg's pointer to it is cast back */
    uint8_t *bytes;                      /* the caller's to leat_free */
    size_t room, limit, length;          /* length: of the photo, once it is finished */
};
/* Gives a compressor that was just created memory that grows as the photo does, to `limit` bytes, beyond which writing
 * fails. Its `err` must be that of a leat_jpeg_trouble. */
void leat_jpeg_output_begin(struct leat_jpeg_output *output, j_compress_ptr cinfo, size_t limit);

/* jpeg_write_coefficients, which makes the arrays. In the interface of libjpeg 8, which Ubuntu's library has, its
 * caller says the size of the photo once more. */
static inline void leat_jpeg_write_coefficients(j_compress_ptr cinfo, jvirt_barray_ptr *arrays)
{
#if JPEG_LIB_VERSION >= 70
    jpeg_calc_jpeg_dimensions(cinfo);
#endif
    jpeg_write_coefficients(cinfo, arrays);
}

/* For a photo whose header was read. Each block of a Huffman-coded component costs at least one bit, so a header that
 * promises more than the bytes can hold is known to be cut off or false before memory is spent on it. */
bool leat_jpeg_promises_too_much(const struct jpeg_decompress_struct *cinfo, size_t length);
/* Whether all scans of a progressive photo are there, once they were read. If some are not, libjpeg smooths blocks by
 * their neighbours: the pixels depend on more than the coefficients, also on those of blocks that cropping has left
 * out. */
bool leat_jpeg_is_finished(const struct jpeg_decompress_struct *cinfo);

#endif
