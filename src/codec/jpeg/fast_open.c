/*
 * Reading the decode-fast form: the header, and a source of blocks. The header's sizes are checked against each other
 * and against the payload once, so that rows need no check but their own; memory is allocated only if a photo is wider
 * than all before.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "codec/jpeg/fast_format.h"

static int no_sense(struct leat_error *error, const char *what)
{
    return leat_fail(error, LEAT_E_DECODE, "not a photo in the decode-fast form: %s", what);
}

static bool parse_frame(const uint8_t *p, size_t length, struct leat_jpeg_fast_parts *parts, size_t *used)
{
    struct leat_jpeg_frame *f = &parts->frame;
    memset(f, 0, sizeof *f);
    f->width = leat_get_u16(p + 32);
    f->height = leat_get_u16(p + 34);
    f->colour = (enum leat_jpeg_colour)p[36];
    f->n_components = p[37];
    const unsigned tables = p[38];
    if (f->n_components < 1 || f->n_components > LEAT_JPEG_MAX_COMPONENTS || tables < 1 || tables > f->n_components)
        return false;
    const size_t tables_at = LEAT_FAST_HEADER + (size_t)LEAT_FAST_COMPONENT * f->n_components;
    *used = tables_at + (size_t)LEAT_FAST_TABLE * tables;
    if (length < *used)
        return false;
    for (unsigned c = 0; c < f->n_components; c++) {
        const uint8_t *from = p + LEAT_FAST_HEADER + LEAT_FAST_COMPONENT * c;
        if (from[2] >= tables)
            return false;
        f->component[c].h = from[0];
        f->component[c].v = from[1];
        memcpy(f->component[c].quant, p + tables_at + (size_t)LEAT_FAST_TABLE * from[2], LEAT_FAST_TABLE);
    }
    return leat_jpeg_frame_complete(f);
}

int leat_jpeg_fast_parse(const void *data, size_t length, struct leat_jpeg_fast_parts *parts, struct leat_error *error)
{
    const uint8_t *p = data;
    size_t used;
    if (length < LEAT_FAST_HEADER + LEAT_FAST_TAIL || memcmp(p, LEAT_FAST_MAGIC, 8))
        return no_sense(error, "it does not begin as one");
    parts->original = (struct leat_jpeg_original){
        .length = leat_get_u64(p + 8), .checksum = leat_get_u64(p + 16), .orientation = p[39], .image_kind = p[40]};
    parts->rows_bytes = leat_get_u32(p + 24);
    parts->skeleton_length = leat_get_u32(p + 28);
    if (parts->original.orientation < 1 || parts->original.orientation > 8 || !parse_frame(p, length, parts, &used))
        return no_sense(error, "its header makes no sense");
    const struct leat_jpeg_frame *f = &parts->frame;
    uint64_t blocks = 0;
    parts->rows_per_mcu = 0;
    for (unsigned c = 0; c < f->n_components; c++) {
        parts->rows_per_mcu += f->component[c].v;
        blocks += (uint64_t)f->component[c].blocks_w * f->component[c].blocks_h;
    }
    parts->n_rows = parts->rows_per_mcu * f->mcus_h;
    /* each of these numbers is below 2^33 */
    if (used + 4 * (uint64_t)parts->n_rows + parts->rows_bytes + parts->skeleton_length + LEAT_FAST_TAIL != length)
        return no_sense(error, "its parts are not as long as it is");
    if (blocks > parts->rows_bytes)
        return no_sense(error, "it is too short for so large a photo");
    parts->ends = p + used;
    parts->rows = parts->ends + 4 * (size_t)parts->n_rows;
    parts->skeleton = parts->rows + parts->rows_bytes;
    return LEAT_OK;
}

int leat_jpeg_fast_original(const void *data, size_t length, struct leat_jpeg_original *original,
                            struct leat_error *error)
{
    struct leat_jpeg_fast_parts parts;
    const int rc = leat_jpeg_fast_parse(data, length, &parts, error);
    if (!rc)
        *original = parts.original;
    return rc;
}

int leat_jpeg_fast_headers(const void *data, size_t length, const uint8_t **headers, size_t *headers_length,
                           struct leat_error *error)
{
    struct leat_jpeg_fast_parts parts;
    const int rc = leat_jpeg_fast_parse(data, length, &parts, error);
    if (rc)
        return rc;
    *headers = parts.skeleton + (parts.skeleton_length ? 1 : 0); /* behind its flags */
    *headers_length = parts.skeleton_length - (parts.skeleton_length ? 1 : 0);
    return LEAT_OK;
}

int leat_jpeg_fast_frame(const void *data, size_t length, struct leat_jpeg_frame *frame, struct leat_error *error)
{
    struct leat_jpeg_fast_parts parts;
    const int rc = leat_jpeg_fast_parse(data, length, &parts, error);
    if (!rc)
        *frame = parts.frame;
    return rc;
}

/* ---- scratch ---- */

static uint32_t widest_of(const struct leat_jpeg_frame *frame)
{
    uint32_t widest = 0;
    for (unsigned c = 0; c < frame->n_components; c++)
        widest = frame->component[c].blocks_w > widest ? frame->component[c].blocks_w : widest;
    return widest;
}

/* Bytes of values, and of DC, for rows of so many blocks. */
static size_t values_room(uint32_t blocks)
{
    return ((size_t)64 * blocks + 256) * 2;
}

static size_t dc_room(uint32_t blocks)
{
    return ((size_t)blocks + 256 + 31) / 32 * 64;
}

uint64_t leat_jpeg_fast_most_bytes(const struct leat_jpeg_frame *frame)
{
    const uint32_t widest = widest_of(frame);
    return 2 * values_room(widest) + 2 * dc_room(widest) + 64;
}

bool leat_jpeg_fast_scratch_reserve(struct leat_jpeg_fast_scratch *s, uint32_t blocks)
{
    if (blocks <= s->blocks)
        return true;
    const size_t each = values_room(blocks), dc = dc_room(blocks);
    uint8_t *memory = leat_alloc(2 * each + 2 * dc + 64);
    if (!memory)
        return false;
    leat_free(s->memory);
    s->memory = memory;
    uint8_t *p = memory + (0 - (uintptr_t)memory) % 64;
    s->escapes = (uint16_t *)(void *)p;
    s->values = (int16_t *)(void *)(p + each);
    s->dc = (int16_t *)(void *)(p + 2 * each);
    s->last = p + 2 * each + dc;
    s->blocks = blocks;
    return true;
}

void leat_jpeg_fast_scratch_destroy(struct leat_jpeg_fast_scratch *s)
{
    leat_free(s->memory);
    *s = (struct leat_jpeg_fast_scratch){0};
}

/* ---- the source ---- */

struct leat_jpeg_fast {
    struct leat_jpeg_source source;
    struct leat_jpeg_fast_parts parts;
    leat_jpeg_unpack_row_fn *unpack;
    struct leat_jpeg_fast_scratch scratch;
};

/* Row number `row` (of all rows of blocks, as they are stored) of a component. */
static bool unpack(struct leat_jpeg_fast *fast, uint32_t row, const struct leat_jpeg_component *component, uint32_t x0,
                   uint32_t x1, bool dc_only, int16_t *out, uint8_t *last)
{
    const struct leat_jpeg_fast_parts *parts = &fast->parts;
    const uint32_t begin = row ? leat_get_u32(parts->ends + 4 * ((size_t)row - 1)) : 0,
                   end = leat_get_u32(parts->ends + 4 * (size_t)row);
    return begin <= end && end <= parts->rows_bytes &&
           fast->unpack(parts->rows + begin, end - begin, component->blocks_w, x0, x1, dc_only, &fast->scratch, out,
                        last);
}

static int read_rows(struct leat_jpeg_source *source, uint32_t row, uint32_t n, uint32_t x0, uint32_t x1,
                     uint64_t needed, struct leat_jpeg_blocks blocks[][LEAT_JPEG_MAX_COMPONENTS],
                     struct leat_error *error)
{
    struct leat_jpeg_fast *fast = (struct leat_jpeg_fast *)(void *)source;
    const struct leat_jpeg_frame *frame = &fast->parts.frame;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = (row + i) * fast->parts.rows_per_mcu;
        for (unsigned c = 0; c < frame->n_components; c++) {
            const struct leat_jpeg_component *component = &frame->component[c];
            const uint32_t begin = x0 * component->h, end = x1 * component->h;
            for (uint32_t v = 0; v < component->v; v++, at++) {
                const size_t before = (size_t)v * (end - begin);
                if (!unpack(fast, at, component, begin, end, needed == 1, blocks[i][c].coefficients + 64 * before,
                            blocks[i][c].last + before))
                    return leat_fail(error, LEAT_E_DECODE,
                                     "a photo in the decode-fast form is damaged: row %u of its blocks makes no sense",
                                     at);
            }
        }
    }
    return LEAT_OK;
}

struct leat_jpeg_fast *leat_jpeg_fast_new(enum leat_isa isa)
{
    struct leat_jpeg_fast *fast = leat_new(struct leat_jpeg_fast);
    if (fast) {
        fast->source.read = read_rows;
        fast->unpack = leat_jpeg_unpack_row(isa);
    }
    return fast;
}

void leat_jpeg_fast_free(struct leat_jpeg_fast *fast)
{
    if (!fast)
        return;
    leat_jpeg_fast_scratch_destroy(&fast->scratch);
    leat_free(fast);
}

int leat_jpeg_fast_open(struct leat_jpeg_fast *fast, const void *data, size_t length,
                        const struct leat_jpeg_frame **frame, struct leat_jpeg_source **source,
                        struct leat_error *error)
{
    const int rc = leat_jpeg_fast_parse(data, length, &fast->parts, error);
    if (rc)
        return rc;
    const uint32_t widest = widest_of(&fast->parts.frame);
    if (!leat_jpeg_fast_scratch_reserve(&fast->scratch, widest))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for unpacking a row of %u blocks", widest);
    *frame = &fast->parts.frame;
    *source = &fast->source;
    return LEAT_OK;
}

int leat_jpeg_fast_read_all(struct leat_jpeg_fast *fast, int16_t *const of[LEAT_JPEG_MAX_COMPONENTS],
                            struct leat_error *error)
{
    const struct leat_jpeg_frame *frame = &fast->parts.frame;
    uint32_t at = 0;
    for (uint32_t i = 0; i < frame->mcus_h; i++)
        for (unsigned c = 0; c < frame->n_components; c++) {
            const struct leat_jpeg_component *component = &frame->component[c];
            for (uint32_t v = 0; v < component->v; v++, at++)
                if (!unpack(fast, at, component, 0, component->blocks_w, false,
                            of[c] + 64 * (size_t)component->blocks_w * (i * component->v + v), fast->scratch.last))
                    return leat_fail(error, LEAT_E_DECODE,
                                     "a photo in the decode-fast form is damaged: row %u of its blocks makes no sense",
                                     at);
        }
    return LEAT_OK;
}
