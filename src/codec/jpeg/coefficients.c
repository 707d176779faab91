/*
 * Taking a JPEG apart and putting it together.
 *
 * A skeleton is one byte of flags and the file without its entropy-coded bytes:
 *
 *     file       SOI tables SOF SOS | codes | tables SOS | codes | EOI, what follows
 *     skeleton   flags SOI tables SOF SOS      tables SOS          EOI, what follows
 *
 * The places of missing codes follow from the markers (markers.h), and the codes from the tables and the coefficients
 * (encode.h), because encoders have next to no choice. If one chose otherwise, the result differs from the original,
 * and leat_jpeg_together_equals says so.
 */
#include "codec/jpeg/coefficients.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "codec/jpeg/encode.h"
#include "codec/jpeg/transcode.h"

#define ALIGNMENT 64
#define FLAG_ZEROS 1u /* last bytes are filled up with zeros, not ones */
#define KNOWN_FLAGS FLAG_ZEROS

/* ---- coefficients ---------------------------------------------------------------------------- */

/* Bytes of all blocks of a component, and of those in a row of MCUs. */
static uint64_t all_bytes(const struct leat_jpeg_component *component)
{
    return (uint64_t)component->blocks_w * component->blocks_h * 64 * sizeof(int16_t);
}

static uint64_t row_bytes(const struct leat_jpeg_component *component)
{
    return (uint64_t)component->blocks_w * component->v * 64 * sizeof(int16_t);
}

int leat_jpeg_coefficients_reserve(struct leat_jpeg_coefficients *coefficients, const struct leat_jpeg_frame *frame,
                                   struct leat_jpeg_source *source)
{
    uint64_t at[LEAT_JPEG_MAX_COMPONENTS], all = 0, bytes = 0, last = 0;
    for (unsigned c = 0; c < frame->n_components; c++) {
        const struct leat_jpeg_component *component = &frame->component[c];
        at[c] = bytes;
        all += all_bytes(component);
        bytes += (source ? row_bytes(component) : all_bytes(component)) +
                 ALIGNMENT; /* a vector may be written behind the last block */
        last = row_bytes(component) > last ? row_bytes(component) : last;
        if (all > LEAT_JPEG_MAX_COEFFICIENT_BYTES)
            return LEAT_E_UNSUPPORTED;
    }
    const size_t room = (size_t)(bytes + (source ? last / 128 : 0)) + ALIGNMENT;
    if (coefficients->room < room) {
        leat_free(coefficients->memory);
        coefficients->room = 0;
        coefficients->memory = leat_alloc(room);
        if (!coefficients->memory)
            return LEAT_E_NOMEM;
        coefficients->room = room;
    }
    uintptr_t base = ((uintptr_t)coefficients->memory + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
    coefficients->frame = *frame;
    coefficients->source = source;
    coefficients->last = (uint8_t *)(base + (uintptr_t)bytes);
    memset(coefficients->of, 0, sizeof coefficients->of);
    for (unsigned c = 0; c < frame->n_components; c++)
        coefficients->of[c] = (int16_t *)(base + (uintptr_t)at[c]);
    return LEAT_OK;
}

int leat_jpeg_coefficients_row(const struct leat_jpeg_coefficients *coefficients, uint32_t row,
                               int16_t *of[LEAT_JPEG_MAX_COMPONENTS], struct leat_error *error)
{
    const struct leat_jpeg_frame *frame = &coefficients->frame;
    struct leat_jpeg_source *const source = coefficients->source;
    struct leat_jpeg_blocks blocks[1][LEAT_JPEG_MAX_COMPONENTS];
    for (unsigned c = 0; c < frame->n_components; c++) {
        of[c] = coefficients->of[c] + (source ? 0 : row_bytes(&frame->component[c]) / sizeof(int16_t) * row);
        blocks[0][c] = (struct leat_jpeg_blocks){of[c], coefficients->last};
    }
    return source ? source->read(source, row, 1, 0, frame->mcus_w, UINT64_MAX, blocks, error) : LEAT_OK;
}

void leat_jpeg_coefficients_destroy(struct leat_jpeg_coefficients *coefficients)
{
    leat_free(coefficients->memory);
    memset(coefficients, 0, sizeof *coefficients);
}

/* ---- apart ----------------------------------------------------------------------------------- */

struct leat_jpeg_apart {
    struct leat_jpeg_coefficients coefficients;
    struct leat_jpeg_huffman *huffman;
    struct leat_jpeg_encoder *encoder;
    uint8_t *skeleton;
    size_t length, room;
};

struct leat_jpeg_apart *leat_jpeg_apart_new(void)
{
    struct leat_jpeg_apart *apart = leat_new(struct leat_jpeg_apart);
    if (!apart)
        return NULL;
    apart->huffman = leat_jpeg_huffman_new();
    apart->encoder = leat_jpeg_encoder_new(leat_cpu_isa());
    if (!apart->huffman || !apart->encoder) {
        leat_jpeg_apart_free(apart);
        return NULL;
    }
    return apart;
}

void leat_jpeg_apart_free(struct leat_jpeg_apart *apart)
{
    if (!apart)
        return;
    leat_jpeg_coefficients_destroy(&apart->coefficients);
    leat_jpeg_huffman_free(apart->huffman);
    leat_jpeg_encoder_free(apart->encoder);
    leat_free(apart->skeleton);
    leat_free(apart);
}

void leat_jpeg_apart_trim(struct leat_jpeg_apart *apart, size_t most)
{
    if (apart->coefficients.room > most)
        leat_jpeg_coefficients_destroy(&apart->coefficients);
}

static int append(struct leat_jpeg_apart *apart, const uint8_t *bytes, size_t n, struct leat_error *error)
{
    if (!leat_grow(&apart->skeleton, &apart->room, apart->length + n, 1))
        return leat_fail(error, LEAT_E_NOMEM, "memory to take apart a photo could not be had");
    memcpy(apart->skeleton + apart->length, bytes, n);
    apart->length += n;
    return LEAT_OK;
}

/* The file has been read without complaint. */
static int make_skeleton(struct leat_jpeg_apart *apart, const uint8_t *data, size_t length, struct leat_error *error)
{
    const struct leat_jpeg_frame *frame = &apart->coefficients.frame;
    struct leat_jpeg_walk walk;
    leat_jpeg_walk_begin(&walk, data, length);
    size_t kept = 0;
    uint8_t flags = 0;
    apart->length = 0;
    int rc = append(apart, &flags, 1, error);
    enum leat_jpeg_met met;
    bool ones = false;
    while (!rc && (met = leat_jpeg_walk_next(&walk, frame)) == LEAT_JPEG_MET_SCAN) {
        rc = append(apart, data + kept, walk.at - kept, error);
        bool these = false;
        if (!rc && !leat_jpeg_walk_over(&walk, &these))
            rc = leat_fail(error, LEAT_E_UNSUPPORTED, "JPEG: a scan that no marker ends");
        ones |= these;
        kept = walk.at;
    }
    if (!rc && met == LEAT_JPEG_MET_NONSENSE) {
        rc = leat_fail(error, LEAT_E_UNSUPPORTED,
                       "JPEG: an unusual marker"); /* the position is not in the words: photos are counted by them */
        leat_error_at_file(error, NULL, (int64_t)walk.at);
    }
    if (!rc)
        rc = append(apart, data + kept, length - kept, error);
    if (!rc && !ones)
        apart->skeleton[0] |= FLAG_ZEROS;
    return rc;
}

static int take_apart(struct leat_jpeg_apart *apart, const void *data, size_t length, bool by_rows,
                      const struct leat_jpeg_coefficients **coefficients, const uint8_t **skeleton,
                      size_t *skeleton_length, struct leat_error *error)
{
    apart->coefficients.source = NULL;
    *coefficients = &apart->coefficients;
    int rc = leat_jpeg_transcode_read(apart->huffman, data, length, by_rows, &apart->coefficients, error);
    if (!rc)
        rc = make_skeleton(apart, data, length, error);
    if (rc)
        return rc;
    *skeleton = apart->skeleton;
    *skeleton_length = apart->length;
    return LEAT_OK;
}

int leat_jpeg_take_apart(struct leat_jpeg_apart *apart, const void *data, size_t length,
                         const struct leat_jpeg_coefficients **coefficients, const uint8_t **skeleton,
                         size_t *skeleton_length, struct leat_error *error)
{
    return take_apart(apart, data, length, false, coefficients, skeleton, skeleton_length, error);
}

int leat_jpeg_take_apart_by_rows(struct leat_jpeg_apart *apart, const void *data, size_t length,
                                 const struct leat_jpeg_coefficients **coefficients, const uint8_t **skeleton,
                                 size_t *skeleton_length, struct leat_error *error)
{
    return take_apart(apart, data, length, true, coefficients, skeleton, skeleton_length, error);
}

/* ---- together -------------------------------------------------------------------------------- */

/* The scans of an arithmetic file, cut out of libjpeg's output when the first of them is met. */
struct spliced {
    uint8_t *file;
    struct leat_jpeg_walk walk;
};

static int put_spliced(struct spliced *spliced, const struct leat_jpeg_walk *walk,
                       const struct leat_jpeg_coefficients *coefficients, struct leat_jpeg_sink *sink)
{
    if (!spliced->file) {
        size_t length = 0;
        int rc = leat_jpeg_transcode_write(walk, coefficients, sink->limit, &spliced->file, &length, NULL);
        if (rc) {
            sink->trouble = rc == LEAT_E_NOMEM ? "memory could not be had" : "libjpeg does not write such scans";
            return rc;
        }
        leat_jpeg_walk_begin(&spliced->walk, spliced->file, length);
    }
    sink->trouble = "libjpeg writes other scans";
    if (leat_jpeg_walk_next(&spliced->walk, &coefficients->frame) != LEAT_JPEG_MET_SCAN)
        return LEAT_E_CORRUPT;
    size_t from = spliced->walk.at;
    bool ones;
    if (!leat_jpeg_walk_over(&spliced->walk, &ones))
        return LEAT_E_CORRUPT;
    return leat_jpeg_sink_put(sink, spliced->file + from, spliced->walk.at - from);
}

/* A file without Huffman tables means those of the standard (frames of motion JPEG are such). */
static int add_default_tables(struct leat_jpeg_walk *walk, struct leat_jpeg_sink *sink)
{
    bool missing = false;
    for (unsigned i = 0; i < 2; i++)
        missing |= !walk->dc[i].set || !walk->ac[i].set;
    if (!missing)
        return LEAT_OK;
    struct leat_jpeg_symbols dc[2], ac[2];
    if (!leat_jpeg_transcode_default_symbols(dc, ac)) {
        sink->trouble = "memory could not be had";
        return LEAT_E_NOMEM;
    }
    for (unsigned i = 0; i < 2; i++) {
        if (!walk->dc[i].set)
            walk->dc[i] = dc[i];
        if (!walk->ac[i].set)
            walk->ac[i] = ac[i];
    }
    return LEAT_OK;
}

/* Whether the coefficients are where a frame's should be: the rest is bounded by that. */
static bool makes_sense(const struct leat_jpeg_coefficients *coefficients)
{
    struct leat_jpeg_frame frame = coefficients->frame;
    if (!leat_jpeg_frame_complete(&frame))
        return false;
    for (unsigned c = 0; c < frame.n_components; c++)
        if (!coefficients->of[c] || frame.component[c].blocks_w != coefficients->frame.component[c].blocks_w ||
            frame.component[c].blocks_h != coefficients->frame.component[c].blocks_h)
            return false;
    return true;
}

/* Whether the scan that was just met takes one row of MCUs after the other, from the first to the last, and nobody has
 * before it. */
static bool goes_by_rows(const struct leat_jpeg_walk *walk, const struct leat_jpeg_frame *frame)
{
    return walk->scans == 1 && !walk->progressive && !walk->arithmetic && walk->scan.n == frame->n_components;
}

static int put_together(struct leat_jpeg_encoder *encoder, const uint8_t *skeleton, size_t length,
                        const struct leat_jpeg_coefficients *coefficients, struct leat_jpeg_sink *sink)
{
    sink->trouble = "its markers make no sense";
    if (!length || skeleton[0] & ~KNOWN_FLAGS || !makes_sense(coefficients))
        return LEAT_E_CORRUPT;
    struct leat_jpeg_walk walk;
    struct spliced spliced = {0};
    leat_jpeg_walk_begin(&walk, skeleton + 1, length - 1);
    size_t kept = 0;
    int rc = LEAT_OK;
    enum leat_jpeg_met met;
    while (!rc && (met = leat_jpeg_walk_next(&walk, &coefficients->frame)) == LEAT_JPEG_MET_SCAN) {
        rc = leat_jpeg_sink_put(sink, walk.data + kept, walk.at - kept);
        kept = walk.at;
        if (!rc && coefficients->source && !goes_by_rows(&walk, &coefficients->frame)) {
            sink->trouble = "its markers make no sense";
            rc = LEAT_E_CORRUPT;
        }
        if (!rc && walk.arithmetic)
            rc = put_spliced(&spliced, &walk, coefficients, sink);
        else if (!rc && !(rc = walk.progressive ? LEAT_OK : add_default_tables(&walk, sink)))
            rc = leat_jpeg_encode_scan(encoder, &walk, coefficients, !(skeleton[0] & FLAG_ZEROS), sink);
    }
    if (!rc && met == LEAT_JPEG_MET_NONSENSE) {
        sink->trouble = "its markers make no sense";
        rc = LEAT_E_CORRUPT;
    }
    if (!rc)
        rc = leat_jpeg_sink_put(sink, walk.data + kept, walk.length - kept);
    if (!rc && sink->length != sink->limit) {
        sink->trouble = "there are fewer bytes than the original has";
        rc = LEAT_E_CORRUPT;
    }
    leat_free(spliced.file);
    return rc;
}

int leat_jpeg_together(const uint8_t *skeleton, size_t skeleton_length,
                       const struct leat_jpeg_coefficients *coefficients, uint64_t original, uint8_t **out,
                       size_t *out_length, struct leat_error *error)
{
    if (original > UINT32_MAX) /* the most that an index record can tell; a promise of more is not worth the memory */
        return leat_fail(error, LEAT_E_CORRUPT, "JPEG: the original cannot have had %llu bytes",
                         (unsigned long long)original);
    struct leat_jpeg_encoder *encoder = leat_jpeg_encoder_new(leat_cpu_isa());
    if (!encoder)
        return leat_fail(error, LEAT_E_NOMEM, "memory to put a photo together could not be had");
    struct leat_jpeg_sink sink = {.limit = (size_t)original};
    int rc = put_together(encoder, skeleton, skeleton_length, coefficients, &sink);
    leat_jpeg_encoder_free(encoder);
    if (rc) {
        leat_free(sink.out);
        return leat_fail(error, rc, "JPEG: the photo cannot be put together again: %s", sink.trouble);
    }
    *out = sink.out;
    *out_length = sink.length;
    return LEAT_OK;
}

int leat_jpeg_together_equals(struct leat_jpeg_apart *apart, const uint8_t *skeleton, size_t skeleton_length,
                              const struct leat_jpeg_coefficients *coefficients, const void *original,
                              size_t original_length, struct leat_error *error)
{
    struct leat_jpeg_sink sink = {.expected = original, .limit = original_length};
    int rc = put_together(apart->encoder, skeleton, skeleton_length, coefficients, &sink);
    if (rc == LEAT_E_NOMEM)
        return leat_fail(error, rc, "JPEG: %s", sink.trouble);
    if (rc) {
        rc = leat_fail(error, LEAT_E_UNSUPPORTED, "JPEG: not as leat would code it: %s", sink.trouble);
        leat_error_at_file(error, NULL, (int64_t)sink.length);
    }
    return rc;
}
