/*
 * The header of a JPEG, read without a decoder: size and kind, EXIF, and the memory of decoding. It passes whatever
 * libjpeg passes between two segments, with or without a warning: the decoder says whether that is damage.
 */
#include "codec/jpeg/fast.h"
#include "codec/jpeg/picture.h"
#include "codec/photo/bytes.h"
#include "codec/photo/decode_internal.h"
#include "codec/photo/icc.h"

#include "base/error.h"

/* Rows of libjpeg between its steps: samples, pixels, and three groups of rows for smooth upsampling. */
#define ROWS_BYTES LEAT_DECODE_ROW_BYTES
/* The state of the entropy decoder and the packer of row indexes for a row of MCUs. */
#define INDEX_BYTES 128

/* TEM and restart markers. */
static bool has_no_body(uint8_t marker)
{
    return marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7);
}

/* From `at` on the place of the next marker, as libjpeg finds it: any bytes may stand before it, any number of fill
 * bytes, and markers that have no body. file.n: there is none. */
static size_t next_marker(struct leat_bytes file, size_t at)
{
    while (at < file.n) {
        const uint8_t *p = memchr(file.p + at, 0xff, file.n - at);
        if (!p)
            break;
        for (at = (size_t)(p - file.p); at + 1 < file.n && file.p[at + 1] == 0xff; at++)
            ;
        if (at + 1 < file.n && file.p[at + 1] && !has_no_body(file.p[at + 1]))
            return at;
        at += 2;
    }
    return file.n;
}

/* Walks the segments of a JPEG: `*at` (first 2) is where the next one begins. Gives its marker and body, or 0 at the
 * first scan, at the end and if the bytes make no sense. */
static uint8_t next_segment(struct leat_bytes file, size_t *at, struct leat_bytes *body)
{
    *at = next_marker(file, *at);
    struct leat_bytes head = leat_bytes_part(file, *at, 4);
    if (!head.p || head.p[1] == 0xda || head.p[1] == 0xd9)
        return 0;
    size_t length = leat_bytes_number(head.p + 2, 2, true);
    *body = leat_bytes_part(file, (uint64_t)*at + 4, length < 2 ? 0 : length - 2);
    if (length < 2 || !body->p)
        return 0;
    *at += 2 + length;
    return head.p[1];
}

struct leat_bytes leat_jpeg_exif(struct leat_bytes file)
{
    struct leat_bytes body;
    size_t at = 2;
    for (uint8_t marker; (marker = next_segment(file, &at, &body));)
        if (marker == 0xe1 && LEAT_BYTES_START(body, "Exif\0\0"))
            return leat_bytes_part(body, 6, body.n - 6);
    return (struct leat_bytes){NULL, 0};
}

/* If a profile is larger than a segment, each has a part: "ICC_PROFILE", 0, number of the part from 1, parts. */
static struct leat_bytes profile_part(struct leat_bytes file, size_t *at)
{
    struct leat_bytes body;
    for (uint8_t marker; (marker = next_segment(file, at, &body));)
        if (marker == 0xe2 && body.n >= 14 && LEAT_BYTES_START(body, "ICC_PROFILE\0"))
            return leat_bytes_part(body, 12, body.n - 12);
    return (struct leat_bytes){NULL, 0};
}

int leat_jpeg_profile(struct leat_bytes file, uint32_t frame, struct leat_decode_buffer *room,
                      struct leat_bytes *profile, struct leat_error *error)
{
    size_t at = 2, bytes = 0;
    const struct leat_bytes first = profile_part(file, &at);
    struct leat_bytes parts[256] = {{NULL, 0}}; /* by their numbers, all found in one walk */
    *profile = (struct leat_bytes){NULL, 0};
    if (!first.p)
        return LEAT_OK;
    const unsigned n = first.p[1];
    if (n == 1) {
        *profile = leat_bytes_part(first, 2, first.n - 2);
        return LEAT_OK;
    }
    for (struct leat_bytes part = first; part.p; part = profile_part(file, &at))
        if (!parts[part.p[0]].p)
            parts[part.p[0]] = part;
    int rc = leat_decode_reserve(room, n, 65536, error);
    for (unsigned i = 1; i <= n && !rc; i++) {
        if (!parts[i].p)
            return leat_icc_broken("JPEG", "a part of it is missing", error);
        memcpy(room->p + bytes, parts[i].p + 2, parts[i].n - 2);
        bytes += parts[i].n - 2;
    }
    *profile = (struct leat_bytes){room->p, bytes};
    return rc;
}

/* SOF0 to SOF15 but for DHT, JPG and DAC, which have numbers in between. */
static bool is_frame(uint8_t marker)
{
    return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

/* The frame header; `*at` is then behind it. */
static int find_frame(struct leat_bytes file, size_t *at, uint8_t *marker, struct leat_bytes *body,
                      struct leat_value_info *info, struct leat_error *error)
{
    do {
        *marker = next_segment(file, at, body);
        if (!*marker)
            return leat_decode_fail(error, "JPEG", (int64_t)*at, file.n, "no frame header (SOF) where one should be");
    } while (!is_frame(*marker));
    if (body->n < 6)
        return leat_decode_fail(error, "JPEG", (int64_t)*at, file.n, "the frame header (SOF) is too short");
    uint8_t components = body->p[5];
    if (!components || components > 4)
        return leat_fail(error, LEAT_E_DECODE, "JPEG: %d colour components; leat reads 1 to 4: convert the photo",
                         components);
    info->size[1] = leat_bytes_number(body->p + 1, 2, true);
    info->size[0] = leat_bytes_number(body->p + 3, 2, true);
    info->channels = components;
    info->deep = body->p[0] > 8;
    info->kind = LEAT_IMAGE_JPEG_OTHER;
    if (body->p[0] == 8 && *marker <= 0xc2)
        info->kind = *marker == 0xc2 ? LEAT_IMAGE_JPEG_PROGRESSIVE : LEAT_IMAGE_JPEG_BASELINE;
    return LEAT_OK;
}

int leat_jpeg_probe(struct leat_bytes file, struct leat_value_info *info, struct leat_error *error)
{
    struct leat_bytes body;
    size_t at = 2;
    uint8_t marker;
    return find_frame(file, &at, &marker, &body, info, error);
}

bool leat_jpeg_is_lossless(struct leat_bytes file)
{
    struct leat_value_info info;
    struct leat_bytes body;
    size_t at = 2;
    uint8_t marker;
    return !find_frame(file, &at, &marker, &body, &info, NULL) && (marker & 3) == 3;
}

/* The frame that a frame header describes, but for its tables and colours; false: libjpeg's business. */
static bool describe_frame(struct leat_bytes body, const struct leat_value_info *info, struct leat_jpeg_frame *frame)
{
    memset(frame, 0, sizeof *frame);
    frame->height = info->size[1];
    frame->width = info->size[0];
    frame->n_components = info->channels;
    frame->colour = info->channels == 1 ? LEAT_JPEG_GRAY : info->channels == 3 ? LEAT_JPEG_YCC : LEAT_JPEG_CMYK;
    if (body.n < 6 + 3 * (size_t)info->channels)
        return false;
    for (unsigned i = 0; i < frame->n_components; i++) {
        frame->component[i].h = body.p[6 + 3 * i + 1] >> 4;
        frame->component[i].v = body.p[6 + 3 * i + 1] & 15;
    }
    return leat_jpeg_frame_complete(frame);
}

static uint64_t fast_bytes(struct leat_bytes file, struct leat_value_info *info)
{
    struct leat_jpeg_frame frame;
    if (leat_jpeg_fast_frame(file.p, file.n, &frame, NULL))
        return 0;
    info->size[0] = frame.width;
    info->size[1] = frame.height;
    return leat_jpeg_picture_most_bytes(&frame) + leat_jpeg_fast_most_bytes(&frame);
}

/* As it came: libjpeg's rows, or ours, or first ours and then libjpeg's. libjpeg keeps all coefficients until it has
 * read the last scan of a progressive photo, or of one whose scans are apart. (For an arithmetic one that does not
 * count.) */
uint64_t leat_jpeg_bytes(struct leat_bytes file, struct leat_value_info *info)
{
    if (info->form == LEAT_FORM_FAST)
        return fast_bytes(file, info);
    struct leat_jpeg_frame frame;
    struct leat_bytes body, other;
    size_t at = 2;
    uint8_t marker;
    if (find_frame(file, &at, &marker, &body, info, NULL) ||
        leat_decode_check_size("JPEG", info->size[0], info->size[1], NULL))
        return 0;
    bool ours = describe_frame(body, info, &frame);
    while (next_segment(file, &at, &other))
        ;
    const struct leat_bytes scan = leat_bytes_part(file, at, 5); /* marker, length, components */
    uint64_t bytes = (uint64_t)info->size[0] * ROWS_BYTES, coefficients = 0;
    if (!ours) /* components that are kept to be upsampled, with what fills their last blocks */
        bytes += ((uint64_t)info->size[0] + 32) * ((uint64_t)info->size[1] + 32) * info->channels;
    if (marker <= 0xc1 && (!scan.p || scan.p[1] != 0xda || scan.p[4] >= info->channels))
        return bytes + (ours ? leat_jpeg_picture_most_bytes(&frame) + (uint64_t)frame.mcus_h * INDEX_BYTES : 0);
    for (unsigned c = 0; ours && c < frame.n_components; c++)
        coefficients += (uint64_t)frame.component[c].blocks_w * frame.component[c].blocks_h * 64 * 2;
    return bytes + (ours ? coefficients : (uint64_t)info->size[0] * info->size[1] * LEAT_JPEG_MAX_COMPONENTS * 2);
}
