/*
 * The rows of a box. Per component the blocks that the box needs are transformed into a ring of rows of samples; from
 * there each row of pixels is upsampled and coloured when it is asked for.
 *
 *     source --(rows of MCUs)--> blocks --(inverse DCT)--> rings --(pixels.h)--> a row
 *
 * libjpeg scales by 1/d with an inverse DCT that makes 8/d x 8/d samples of a block. A component that is sampled more
 * coarsely than the image gets a larger one, as long as that makes up for its sampling in both directions: at 1/2, the
 * chroma of a 4:2:0 photo is transformed in full and not upsampled at all. The rest is upsampled: doubled smoothly if
 * it is half the size (across, down, or both), and repeated in all other cases; repeated too if a row has only two
 * samples, or the scale is 1/8.
 *
 * Smooth doubling looks at the samples beside. Inside the image these are the real ones, also if they lie beyond the
 * box; at its edges the edge's own. A component's blocks may reach beyond the image; their contents there are never
 * seen.
 *
 * A ring holds rows of blocks: those of all rows of MCUs that are asked for at once and the one before, whose last row
 * of samples upsampling and pixels that wait for the row below them may need.
 *
 *     row of blocks      r - 1 | r | r + 1 ... r + n v - 1         one slot each, n v + 1 in all, round and round
 *     row of samples     64 bytes | samples of the blocks | 64 bytes or more
 */
#include "codec/jpeg/picture.h"

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "codec/jpeg/idct.h"
#include "codec/jpeg/pixels.h"
#include "codec/jpeg/sampling.h"

/* Bytes before and after a row of samples: kernels read there, and an inverse DCT writes behind. */
#define PAD 64
/* A thread keeps so much from photo to photo: rows of some 6000 pixels. */
#define KEPT ((size_t)1 << 20)

/* A component at the scale of the picture. */
struct plane {
    unsigned size, shift;  /* samples of a block, in both directions: 8, 4, 2 or 1; its logarithm */
    unsigned across, down; /* pixels per sample */
    bool smooth_across, smooth_down;
    unsigned h, v;
    uint32_t width, height;      /* samples of the whole image */
    uint32_t block_x0, block_x1; /* the blocks that the box needs */
    uint32_t block_y0, block_y1;
    leat_jpeg_idct_fn idct;
    const uint16_t *quant;
    uint8_t *ring; /* [slots][size][stride], from the first row's first sample on */
    size_t stride;
    uint32_t slots;
    uint32_t lap;                 /* the row of blocks in slot 0 that was transformed last */
    uint32_t ready;               /* rows of samples that are there, counted from the image's first */
    ptrdiff_t from;               /* the sample of the first pixel, in its row of the ring */
    struct leat_jpeg_samples now; /* of the row of pixels that is being made */
    uint8_t *line;                /* one upsampled row */
};

struct leat_jpeg_picture {
    const struct leat_jpeg_idct *idct;
    const struct leat_jpeg_pixels *pixels;
    uint8_t *memory;
    size_t room;

    struct leat_jpeg_source *source;
    enum leat_jpeg_colour colour;
    bool gray, inks;
    unsigned n_planes;
    struct plane plane[LEAT_JPEG_MAX_COMPONENTS];
    /* Y, Cb, Cr at once, NULL if components are upsampled first */
    void (*fused)(const uint8_t *y, const struct leat_jpeg_samples chroma[2], size_t n, uint8_t *out);

    uint32_t x, w;            /* pixels that are made: x is even, or the box's own if nothing is doubled */
    uint32_t before;          /* of which so many lie before the box */
    uint32_t y;               /* of the next row */
    uint32_t mcu_x0, mcu_x1;  /* asked of the source */
    uint32_t next, end, most; /* rows of MCUs: not read yet, behind the last one needed, at once */
    uint64_t needed;
    struct leat_jpeg_blocks blocks[LEAT_JPEG_ROWS_AT_ONCE][LEAT_JPEG_MAX_COMPONENTS];
    uint8_t *out;
};

struct leat_jpeg_picture *leat_jpeg_picture_new(enum leat_isa isa)
{
    struct leat_jpeg_picture *picture = leat_new(struct leat_jpeg_picture);
    if (picture) {
        picture->idct = leat_jpeg_idct(isa);
        picture->pixels = leat_jpeg_pixels(isa);
    }
    return picture;
}

void leat_jpeg_picture_free(struct leat_jpeg_picture *picture)
{
    if (picture)
        leat_free(picture->memory);
    leat_free(picture);
}

void leat_jpeg_picture_trim(struct leat_jpeg_picture *picture)
{
    if (picture->room <= KEPT)
        return;
    leat_free(picture->memory);
    picture->memory = NULL;
    picture->room = 0;
}

/* ---- the needs of a box ---------------------------------------------------------------------- */

static void plan_plane(struct leat_jpeg_picture *p, const struct leat_jpeg_frame *frame, unsigned c, unsigned least)
{
    static const uint64_t needed[9] = {
        [1] = LEAT_JPEG_NEEDED1, [2] = LEAT_JPEG_NEEDED2, [4] = LEAT_JPEG_NEEDED4, [8] = LEAT_JPEG_NEEDED8};
    const struct leat_jpeg_component *from = &frame->component[c];
    struct plane *plane = &p->plane[c];
    const struct leat_jpeg_sampling s = leat_jpeg_sampling_of(frame, c, least);
    *plane = (struct plane){
        .size = s.size,
        .shift = (unsigned)__builtin_ctz(s.size),
        .h = from->h,
        .v = from->v,
        .across = s.across,
        .down = s.down,
        .smooth_across = s.smooth_across,
        .smooth_down = s.smooth_down,
        .width = s.width,
        .height = s.height,
        .quant = from->quant,
        .idct = s.size == 8   ? p->idct->samples8
                : s.size == 4 ? p->idct->samples4
                : s.size == 2 ? p->idct->samples2
                              : p->idct->samples1,
    };
    p->needed |= needed[s.size];
}

static void plan_box(struct leat_jpeg_picture *p, uint32_t x, uint32_t y, uint32_t w, uint32_t h)
{
    p->mcu_x0 = p->next = UINT32_MAX;
    p->mcu_x1 = p->end = 0;
    for (unsigned c = 0; c < p->n_planes; c++) {
        struct plane *plane = &p->plane[c];
        const uint32_t size = plane->size;
        uint32_t first, end;
        leat_jpeg_samples_of(x, w, plane->across, plane->smooth_across, plane->width, &first, &end);
        plane->block_x0 = first / size;
        plane->block_x1 = leat_jpeg_ceil_div(end, size);
        leat_jpeg_samples_of(y, h, plane->down, plane->smooth_down, plane->height, &first, &end);
        plane->block_y0 = first / size;
        plane->block_y1 = leat_jpeg_ceil_div(end, size);

        const uint32_t x0 = plane->block_x0 / plane->h, x1 = leat_jpeg_ceil_div(plane->block_x1, plane->h);
        const uint32_t y0 = plane->block_y0 / plane->v, y1 = leat_jpeg_ceil_div(plane->block_y1, plane->v);
        p->mcu_x0 = x0 < p->mcu_x0 ? x0 : p->mcu_x0;
        p->mcu_x1 = x1 > p->mcu_x1 ? x1 : p->mcu_x1;
        p->next = y0 < p->next ? y0 : p->next;
        p->end = y1 > p->end ? y1 : p->end;
    }
    p->most = p->end - p->next < LEAT_JPEG_ROWS_AT_ONCE ? p->end - p->next : LEAT_JPEG_ROWS_AT_ONCE;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Sets aside a * b * c bytes and PAD more, and says where. */
static bool set_aside(uint64_t *total, uint64_t a, uint64_t b, uint64_t c, uint64_t *at)
{
    uint64_t bytes;
    *at = *total;
    return leat_mul_u64(a, b, &bytes) && leat_mul_u64(bytes, c, &bytes) && leat_add_u64(bytes, 2 * PAD - 1, &bytes) &&
           leat_add_u64(*total, bytes / PAD * PAD, total);
}

/* Places all buffers, first without memory to learn how much that takes. */
static bool place(struct leat_jpeg_picture *p, uint8_t *base, uint64_t *total)
{
    uint64_t at;
    *total = 0;
    for (unsigned c = 0; c < p->n_planes; c++) {
        struct plane *plane = &p->plane[c];
        const uint32_t across = (p->mcu_x1 - p->mcu_x0) * plane->h;
        plane->slots = p->most * plane->v + 1;
        plane->stride = ((size_t)(plane->block_x1 - plane->block_x0) * plane->size + 3 * PAD - 1) / PAD * PAD;
        if (plane->stride % 4096 == 0)
            plane->stride += PAD; /* or rows would meet in the same sets of the cache */
        if (!set_aside(total, plane->slots, plane->size, plane->stride, &at))
            return false;
        plane->ring = base ? base + at + PAD : NULL;
        if (plane->across > 1 || plane->down > 1) {
            if (!set_aside(total, (uint64_t)p->w + 256, 1, 1, &at))
                return false;
            plane->line = base ? base + at : NULL;
        }
        for (unsigned i = 0; i < p->most; i++) {
            struct leat_jpeg_blocks *blocks = &p->blocks[i][c];
            if (!set_aside(total, across, plane->v, 64 * sizeof *blocks->coefficients, &at))
                return false;
            blocks->coefficients = base ? (int16_t *)(void *)(base + at) : NULL;
            if (!set_aside(total, across, plane->v, 1, &at))
                return false;
            blocks->last = base ? base + at : NULL;
        }
    }
    if (!p->gray) {
        if (!set_aside(total, (uint64_t)p->w + 64, 4, 1, &at))
            return false;
        p->out = base ? base + at : NULL;
    }
    return true;
}

/* The room that `place` sets aside for a box of the whole image, and the most that borders can add. */
uint64_t leat_jpeg_picture_most_bytes(const struct leat_jpeg_frame *frame)
{
    const uint64_t width = frame->width;
    uint64_t total = 4 * (width + 64) + 4 * PAD;
    for (unsigned c = 0; c < frame->n_components; c++) {
        const struct leat_jpeg_component *component = &frame->component[c];
        const uint64_t blocks = (uint64_t)component->blocks_w * component->v;
        total +=
            (uint64_t)(LEAT_JPEG_ROWS_AT_ONCE * component->v + 1) * 8 * ((uint64_t)component->blocks_w * 8 + 4 * PAD) +
            2 * PAD;
        total += width + 256 + 2 * PAD;
        total += LEAT_JPEG_ROWS_AT_ONCE * (blocks * (64 * sizeof(int16_t) + 1) + 4 * PAD);
    }
    return total;
}

static int reserve(struct leat_jpeg_picture *p, struct leat_error *error)
{
    uint64_t bytes;
    if (!place(p, NULL, &bytes) || !leat_add_u64(bytes, PAD, &bytes) || bytes > SIZE_MAX)
        return leat_fail(error, LEAT_E_NOMEM, "JPEG: a row of %u pixels does not fit into memory", p->w);
    if (p->room < bytes) {
        leat_free(p->memory);
        p->memory = leat_new_array(1, (size_t)bytes); /* kernels read the bytes behind a row under weights of 0 */
        p->room = p->memory ? (size_t)bytes : 0;
        if (!p->memory)
            return leat_fail(error, LEAT_E_NOMEM, "JPEG: %llu bytes for rows of %u pixels could not be had",
                             (unsigned long long)bytes, p->w);
    }
    place(p, p->memory + (-(uintptr_t)p->memory & (PAD - 1)), &bytes);
    return LEAT_OK;
}

/* ---- begin ----------------------------------------------------------------------------------- */

/* Whether Cb and Cr are both sampled so that a kernel upsamples them on the way. */
static void choose(struct leat_jpeg_picture *p)
{
    const struct plane *y = &p->plane[0], *b = &p->plane[1], *r = &p->plane[2];
    p->fused = NULL;
    if (p->n_planes < 3 || p->colour == LEAT_JPEG_RGB || p->colour == LEAT_JPEG_CMYK)
        return;
    if (y->across != 1 || y->down != 1 || b->across != r->across || b->down != r->down)
        return;
    if (b->across == 1 && b->down == 1)
        p->fused = p->pixels->ycc;
    else if (b->smooth_across && r->smooth_across)
        p->fused = b->smooth_down ? p->pixels->ycc_h2v2 : p->pixels->ycc_h2v1;
}

int leat_jpeg_picture_begin(struct leat_jpeg_picture *p, const struct leat_jpeg_frame *frame,
                            struct leat_jpeg_source *source, unsigned denominator, bool gray, uint32_t x, uint32_t y,
                            uint32_t w, uint32_t h, struct leat_error *error)
{
    p->source = source;
    p->colour = frame->colour;
    p->gray = gray;
    p->inks = false;
    p->n_planes = frame->n_components;
    p->needed = 0;
    bool doubled = false;
    for (unsigned c = 0; c < p->n_planes; c++) {
        plan_plane(p, frame, c, 8 / denominator);
        doubled |= p->plane[c].smooth_across;
    }
    choose(p);
    plan_box(p, x, y, w, h);
    p->before = doubled ? x & 1 : 0;
    p->x = x - p->before;
    p->w = w + p->before;
    p->y = y;
    for (unsigned c = 0; c < p->n_planes; c++) {
        struct plane *plane = &p->plane[c];
        plane->lap = plane->block_y0;
        plane->from = (ptrdiff_t)(p->x / plane->across) - (ptrdiff_t)plane->block_x0 * plane->size;
    }
    return reserve(p, error);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static uint8_t *block_row(const struct plane *plane, uint32_t block_y)
{
    const uint32_t slot = block_y - plane->lap + (block_y < plane->lap ? plane->slots : 0);
    return plane->ring + (size_t)slot * plane->size * plane->stride;
}

static const uint8_t *sample_row(const struct plane *plane, uint32_t row)
{
    return block_row(plane, row >> plane->shift) + (row & (plane->size - 1)) * plane->stride;
}

/* The row of samples of the row y of pixels, and with smooth doubling the one beside it. */
static void rows_of(const struct plane *plane, uint32_t y, uint32_t *at, uint32_t *beside)
{
    *at = *beside = plane->down == 1 ? y : y / plane->down;
    if (!plane->smooth_down)
        return;
    if (y & 1)
        *beside += *at + 1 < plane->height;
    else
        *beside -= *at > 0;
}

/* One row of blocks of a component. */
static void transform(struct plane *plane, uint32_t block_y, const int16_t *coefficients, const uint8_t *last)
{
    const size_t n = plane->block_x1 - plane->block_x0;
    if (block_y - plane->lap == plane->slots)
        plane->lap = block_y;
    uint8_t *row = block_row(plane, block_y);
    plane->idct(coefficients, last, n, plane->quant, row, plane->stride);
    if (!plane->smooth_across)
        return;
    /* the image's edges stand in for the neighbours that are not there */
    const size_t first = (size_t)plane->block_x0 * plane->size;
    if (!plane->block_x0)
        for (unsigned i = 0; i < plane->size; i++) {
            uint8_t *begin = row + i * plane->stride;
            begin[-1] = begin[0];
        }
    if (first + n * plane->size >= plane->width)
        for (unsigned i = 0; i < plane->size; i++) {
            uint8_t *behind = row + i * plane->stride + (plane->width - first);
            *behind = behind[-1];
        }
}

static int read_more(struct leat_jpeg_picture *p, struct leat_error *error)
{
    const uint32_t n = p->end - p->next < p->most ? p->end - p->next : p->most;
    int rc = p->source->read(p->source, p->next, n, p->mcu_x0, p->mcu_x1, p->needed, p->blocks, error);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < n; i++, p->next++)
        for (unsigned c = 0; c < p->n_planes; c++) {
            struct plane *plane = &p->plane[c];
            const struct leat_jpeg_blocks *blocks = &p->blocks[i][c];
            const size_t across = (size_t)(p->mcu_x1 - p->mcu_x0) * plane->h;
            for (unsigned j = 0; j < plane->v; j++) {
                const uint32_t block_y = p->next * plane->v + j;
                const size_t block = j * across + (plane->block_x0 - (size_t)p->mcu_x0 * plane->h);
                if (block_y >= plane->block_y0 && block_y < plane->block_y1)
                    transform(plane, block_y, blocks->coefficients + block * 64, blocks->last + block);
            }
            plane->ready = (p->next + 1) * plane->v * plane->size;
        }
    return LEAT_OK;
}

/* A component in the size of the pixels. */
static const uint8_t *upsample(const struct leat_jpeg_picture *p, const struct plane *plane)
{
    const struct leat_jpeg_samples in = plane->now;
    if (plane->across == 1 && (plane->down == 1 || !plane->smooth_down))
        return in.at;
    if (plane->smooth_across && plane->smooth_down)
        p->pixels->h2v2(&in, p->w, plane->line);
    else if (plane->smooth_across)
        p->pixels->h2v1(&in, p->w, plane->line);
    else if (plane->smooth_down)
        p->pixels->h1v2(&in, p->y & 1, p->w, plane->line);
    else
        leat_jpeg_repeat(in.at, plane->across, p->x % plane->across, p->w, plane->line);
    return plane->line;
}

static void colour(const struct leat_jpeg_picture *p)
{
    const uint8_t *in[LEAT_JPEG_MAX_COMPONENTS] = {NULL};
    if (p->fused) {
        const struct leat_jpeg_samples chroma[2] = {p->plane[1].now, p->plane[2].now};
        p->fused(p->plane[0].now.at, chroma, p->w, p->out);
    } else {
        for (unsigned c = 0; c < p->n_planes && c < 3; c++)
            in[c] = upsample(p, &p->plane[c]);
        if (p->colour == LEAT_JPEG_GRAY) {
            p->pixels->gray(in[0], p->w, p->out);
        } else if (p->colour == LEAT_JPEG_RGB || p->colour == LEAT_JPEG_CMYK) {
            p->pixels->rgb(in[0], in[1], in[2], p->w, p->out);
        } else {
            const struct leat_jpeg_samples chroma[2] = {{in[1], NULL}, {in[2], NULL}};
            p->pixels->ycc(in[0], chroma, p->w, p->out);
        }
    }
    if (p->n_planes == 4 && p->inks)
        leat_jpeg_inks(upsample(p, &p->plane[3]), p->colour == LEAT_JPEG_CMYK, p->w, p->out);
    else if (p->n_planes == 4)
        leat_jpeg_blacken(upsample(p, &p->plane[3]), p->colour == LEAT_JPEG_CMYK, p->w, p->out);
}

void leat_jpeg_picture_inks(struct leat_jpeg_picture *p)
{
    p->inks = true;
}

int leat_jpeg_picture_row(struct leat_jpeg_picture *p, const uint8_t **row, struct leat_error *error)
{
    uint32_t at[LEAT_JPEG_MAX_COMPONENTS], beside[LEAT_JPEG_MAX_COMPONENTS];
    for (unsigned c = 0; c < p->n_planes; c++) {
        rows_of(&p->plane[c], p->y, &at[c], &beside[c]);
        while (at[c] >= p->plane[c].ready || beside[c] >= p->plane[c].ready) {
            int rc = read_more(p, error);
            if (rc)
                return rc;
        }
    }
    for (unsigned c = 0; c < p->n_planes; c++) {
        struct plane *plane = &p->plane[c];
        plane->now.at = sample_row(plane, at[c]) + plane->from;
        plane->now.beside = sample_row(plane, beside[c]) + plane->from;
    }
    if (p->gray) {
        *row = p->plane[0].now.at;
    } else {
        colour(p);
        *row = p->out + 4 * (size_t)p->before;
    }
    p->y++;
    return LEAT_OK;
}
