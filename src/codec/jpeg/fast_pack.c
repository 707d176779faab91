/*
 * A JPEG file to the decode-fast form and back. Packing trusts nothing: its result is unpacked by the functions that
 * will unpack it later, and put together to the original, byte for byte, before anybody may store it.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "codec/jpeg/fast_format.h"

#define KEPT ((size_t)64 << 20) /* buffers above this are given back at once */

struct leat_jpeg_packer {
    struct leat_jpeg_apart *apart;
    struct leat_jpeg_fast *fast;
    struct leat_jpeg_fast_writer writer;
    struct leat_jpeg_coefficients unpacked;
};

struct leat_jpeg_packer *leat_jpeg_packer_new(void)
{
    struct leat_jpeg_packer *packer = leat_new(struct leat_jpeg_packer);
    if (!packer)
        return NULL;
    packer->writer.isa = leat_cpu_isa();
    packer->apart = leat_jpeg_apart_new();
    packer->fast = leat_jpeg_fast_new(packer->writer.isa);
    if (!packer->apart || !packer->fast) {
        leat_jpeg_packer_free(packer);
        return NULL;
    }
    return packer;
}

void leat_jpeg_packer_free(struct leat_jpeg_packer *packer)
{
    if (!packer)
        return;
    leat_jpeg_apart_free(packer->apart);
    leat_jpeg_fast_free(packer->fast);
    leat_jpeg_fast_writer_destroy(&packer->writer);
    leat_jpeg_coefficients_destroy(&packer->unpacked);
    leat_free(packer);
}

/* Opens a payload and unpacks all of it to `coefficients`, or, by rows, makes it their source. */
static int unpack(struct leat_jpeg_fast *fast, const void *data, size_t length, bool by_rows,
                  struct leat_jpeg_coefficients *coefficients, struct leat_error *error)
{
    const struct leat_jpeg_frame *frame;
    struct leat_jpeg_source *source;
    int rc = leat_jpeg_fast_open(fast, data, length, &frame, &source, error);
    if (!rc && (rc = leat_jpeg_coefficients_reserve(coefficients, frame, by_rows ? source : NULL)))
        leat_fail(error, rc,
                  rc == LEAT_E_NOMEM ? "no memory for the coefficients of a photo"
                                     : "the photo is too large to be put together again");
    return rc || by_rows ? rc : leat_jpeg_fast_read_all(fast, coefficients->of, error);
}

/* Whether the payload gives the photo's pixels and the photo. */
static int check(struct leat_jpeg_packer *packer, const struct leat_jpeg_coefficients *coefficients, const void *data,
                 size_t length, struct leat_error *error)
{
    const struct leat_jpeg_fast_writer *made = &packer->writer;
    struct leat_jpeg_fast_parts parts;
    int rc = unpack(packer->fast, made->out, made->length, coefficients->source != NULL, &packer->unpacked, error);
    if (!rc)
        rc = leat_jpeg_fast_parse(made->out, made->length, &parts, error);
    if (rc == LEAT_E_DECODE || (!rc && memcmp(&parts.frame, &coefficients->frame, sizeof parts.frame)))
        return leat_fail(error, LEAT_E_UNSUPPORTED,
                         "JPEG: the decode-fast form of this photo is not what it was made from");
    return rc ? rc
              : leat_jpeg_together_equals(packer->apart, parts.skeleton, parts.skeleton_length, &packer->unpacked, data,
                                          length, error);
}

/* Packs and checks. *read: the photo was read to its end, so that a failure will repeat. */
static int pack(struct leat_jpeg_packer *packer, const void *data, size_t length,
                const struct leat_jpeg_original *original, bool by_rows, bool *read, struct leat_error *error)
{
    const struct leat_jpeg_coefficients *coefficients;
    const uint8_t *skeleton;
    size_t skeleton_length;
    int rc = by_rows
                 ? leat_jpeg_take_apart_by_rows(packer->apart, data, length, &coefficients, &skeleton, &skeleton_length,
                                                error)
                 : leat_jpeg_take_apart(packer->apart, data, length, &coefficients, &skeleton, &skeleton_length, error);
    *read = !coefficients->source;
    if (!rc)
        rc = leat_jpeg_fast_write(&packer->writer, coefficients, skeleton, skeleton_length, original, error);
    *read |= !rc;
    return rc ? rc : check(packer, coefficients, data, length, error);
}

int leat_jpeg_pack(struct leat_jpeg_packer *packer, const void *data, size_t length, unsigned orientation,
                   unsigned image_kind, const uint8_t **out, size_t *out_length, struct leat_error *error)
{
    if (orientation < 1 || orientation > 8 || image_kind > UINT8_MAX)
        return leat_fail(error, LEAT_E_INVALID, "a photo's orientation is 1 to 8 and its kind below 256, not %u and %u",
                         orientation, image_kind);
    if (length > UINT32_MAX)
        return leat_fail(error, LEAT_E_UNSUPPORTED, "the photo is too large for the decode-fast form");
    const struct leat_jpeg_original original = {.length = length,
                                                .checksum = leat_hash64(data, length),
                                                .orientation = (uint8_t)orientation,
                                                .image_kind = (uint8_t)image_kind};
    bool read;
    int rc = pack(packer, data, length, &original, true, &read, error); /* a row stays in the cache from step to step */
    if (rc && rc != LEAT_E_NOMEM && !read) {                            /* the long way finds the cause */
        leat_error_clear(error);
        rc = pack(packer, data, length, &original, false, &read, error);
    }
    leat_jpeg_apart_trim(packer->apart, KEPT);
    if (packer->unpacked.room > KEPT)
        leat_jpeg_coefficients_destroy(&packer->unpacked);
    if (!rc) {
        *out = packer->writer.out;
        *out_length = packer->writer.length;
    }
    return rc;
}

/* All coefficients, twice if libjpeg has to write them (arithmetic coding), and its output; the file, and its beginning
 * while it grows. */
uint64_t leat_jpeg_restore_most_bytes(const struct leat_jpeg_frame *frame, const struct leat_jpeg_original *original)
{
    uint64_t coefficients = 0;
    for (unsigned c = 0; c < frame->n_components; c++)
        coefficients += (uint64_t)frame->component[c].blocks_w * frame->component[c].blocks_h * 64 * sizeof(int16_t);
    const uint64_t file = original->length < UINT32_MAX ? original->length : UINT32_MAX;
    return 2 * coefficients + 3 * file + leat_jpeg_fast_most_bytes(frame) + (UINT64_C(1) << 19);
}

int leat_jpeg_restore(const void *data, size_t length, uint8_t **out, size_t *out_length, struct leat_error *error)
{
    struct leat_jpeg_coefficients coefficients = {0};
    struct leat_jpeg_fast_parts parts;
    struct leat_jpeg_fast *fast = NULL;
    uint8_t *made = NULL;
    size_t made_length = 0;
    int rc = leat_jpeg_fast_parse(data, length, &parts, error);
    if (!rc && !(fast = leat_jpeg_fast_new(leat_cpu_isa())))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for unpacking a photo");
    if (!rc)
        rc = unpack(fast, data, length, false, &coefficients, error);
    if (!rc)
        rc = leat_jpeg_together(parts.skeleton, parts.skeleton_length, &coefficients, parts.original.length, &made,
                                &made_length, error);
    if (!rc && (made_length != parts.original.length || leat_hash64(made, made_length) != parts.original.checksum))
        rc = leat_fail(error, LEAT_E_CORRUPT,
                       "a photo in the decode-fast form is damaged: the JPEG put together again is not the original");
    if (!rc) {
        *out = made;
        *out_length = made_length;
    } else {
        leat_free(made);
        if (rc != LEAT_E_NOMEM) {
            rc = LEAT_E_CORRUPT;
            if (error)
                error->code = rc;
        }
    }
    leat_jpeg_fast_free(fast);
    leat_jpeg_coefficients_destroy(&coefficients);
    return rc;
}

int leat_jpeg_fast_check(const void *data, size_t length, struct leat_error *error)
{
    const struct leat_jpeg_coefficients *coefficients;
    const uint8_t *skeleton;
    uint8_t *file = NULL;
    size_t file_length, skeleton_length;
    struct leat_jpeg_frame frame;
    struct leat_jpeg_apart *apart = NULL;
    int rc = leat_jpeg_restore(data, length, &file, &file_length, error);
    if (rc)
        return rc;
    if (!(apart = leat_jpeg_apart_new()))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for checking a photo");
    if (!rc)
        rc = leat_jpeg_take_apart_by_rows(apart, file, file_length, &coefficients, &skeleton, &skeleton_length, error);
    if (!rc)
        rc = leat_jpeg_fast_frame(data, length, &frame, error);
    if (rc != LEAT_E_NOMEM && (rc || memcmp(&frame, &coefficients->frame, sizeof frame)))
        rc = leat_fail(error, LEAT_E_CORRUPT,
                       "a photo in the decode-fast form is damaged: its header is not that of the original");
    leat_jpeg_apart_free(apart);
    leat_free(file);
    return rc;
}
