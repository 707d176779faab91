/*
 * The bytes that travel of a JPEG as it came: its blocks, read by an entropy decoder, packed as rows of the decode-fast
 * form. Only the MCUs that the box needs are read and travel, so rows of blocks begin with the first column of these.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "codec/jpeg/card_plan.h"
#include "codec/jpeg/fast_format.h"

/* A thread keeps so much from photo to photo. */
#define KEPT ((size_t)1 << 20)

struct leat_card_packer {
    struct leat_jpeg_fast_writer writer;
    uint8_t *memory; /* of the blocks */
    size_t room;
    struct leat_jpeg_blocks blocks[LEAT_JPEG_ROWS_AT_ONCE][LEAT_JPEG_MAX_COMPONENTS];
};

struct leat_card_packer *leat_card_packer_new(void)
{
    struct leat_card_packer *packer = leat_new(struct leat_card_packer);
    if (packer)
        packer->writer.isa = leat_cpu_isa();
    return packer;
}

void leat_card_packer_free(struct leat_card_packer *packer)
{
    if (!packer)
        return;
    leat_jpeg_fast_writer_destroy(&packer->writer);
    leat_free(packer->memory);
    leat_free(packer);
}

void leat_card_packer_trim(struct leat_card_packer *packer)
{
    if (packer->room + packer->writer.room <= KEPT)
        return;
    leat_jpeg_fast_writer_destroy(&packer->writer);
    leat_free(packer->memory);
    packer->memory = NULL;
    packer->room = 0;
}

/* Room for the blocks of as many rows of MCUs as are read at once: 64 bytes behind each component's may be written. */
static bool reserve(struct leat_card_packer *p, const struct leat_card_photo *photo)
{
    size_t bytes = 0, at[LEAT_JPEG_ROWS_AT_ONCE][LEAT_CARD_PLANES];
    for (unsigned i = 0; i < LEAT_JPEG_ROWS_AT_ONCE; i++)
        for (unsigned c = 0; c < photo->n_planes; c++) {
            const size_t n = (size_t)photo->plane[c].v * photo->plane[c].blocks_w;
            at[i][c] = bytes;
            bytes += (n * (64 * sizeof(int16_t) + 1) + 127) / 64 * 64;
        }
    if (p->room < bytes) {
        leat_free(p->memory);
        p->memory = leat_alloc(bytes + 64);
        p->room = p->memory ? bytes : 0;
        if (!p->memory)
            return false;
    }
    uint8_t *const base = p->memory + (0 - (uintptr_t)p->memory) % 64;
    for (unsigned i = 0; i < LEAT_JPEG_ROWS_AT_ONCE; i++)
        for (unsigned c = 0; c < photo->n_planes; c++) {
            const size_t n = (size_t)photo->plane[c].v * photo->plane[c].blocks_w;
            p->blocks[i][c].coefficients = (int16_t *)(void *)(base + at[i][c]);
            p->blocks[i][c].last = base + at[i][c] + n * 64 * sizeof(int16_t) + 64;
        }
    return true;
}

/* The rows of blocks of a row of MCUs; `at` counts rows. */
static int pack_row(struct leat_jpeg_fast_writer *w, const struct leat_jpeg_blocks blocks[LEAT_JPEG_MAX_COMPONENTS],
                    const struct leat_card_photo *photo, uint32_t *at, struct leat_error *error)
{
    const size_t rows = 4 * (size_t)photo->n_rows;
    int rc = LEAT_OK;
    for (unsigned c = 0; c < photo->n_planes; c++) {
        const struct leat_card_plane *plane = &photo->plane[c];
        const int16_t *row = blocks[c].coefficients;
        for (unsigned v = 0; !rc && v < plane->v; v++, row += 64 * (size_t)plane->blocks_w) {
            rc = leat_jpeg_fast_write_row(w, row, plane->blocks_w, error);
            if (!rc && w->length > INT32_MAX)
                rc = leat_fail(error, LEAT_E_UNSUPPORTED, "the photo is too large for a card");
            if (!rc)
                leat_put_u32(w->out + 4 * (size_t)(*at)++, (uint32_t)(w->length - rows));
        }
    }
    return rc;
}

int leat_card_pack(struct leat_card_packer *packer, struct leat_jpeg_source *source, const struct leat_card_mcus *mcus,
                   struct leat_card_photo *photo, const uint8_t **bytes, struct leat_error *error)
{
    struct leat_jpeg_fast_writer *w = &packer->writer;
    const size_t ends = 4 * (size_t)photo->n_rows;
    for (unsigned c = 0; c < photo->n_planes; c++) {
        struct leat_card_plane *plane = &photo->plane[c];
        plane->left = plane->check0;
        plane->blocks_w = plane->check1 - plane->check0;
        plane->check1 -= plane->check0;
        plane->check0 = 0;
    }
    w->length = 0;
    if (!reserve(packer, photo) || !leat_jpeg_fast_writer_reserve(w, ends))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a photo on its way to a card");
    w->length = ends;
    int rc = LEAT_OK;
    uint32_t at = 0, n;
    for (uint32_t row = mcus->y0; !rc && row < mcus->y1; row += n) {
        n = mcus->y1 - row < LEAT_JPEG_ROWS_AT_ONCE ? mcus->y1 - row : LEAT_JPEG_ROWS_AT_ONCE;
        rc = source->read(source, row, n, mcus->x0, mcus->x1, UINT64_MAX, packer->blocks, error);
        for (uint32_t i = 0; !rc && i < n; i++)
            rc = pack_row(w, packer->blocks[i], photo, &at, error);
    }
    rc = rc ? rc : leat_card_plan_bytes(photo, w->length - ends, error);
    if (rc)
        return rc;
    if (!leat_jpeg_fast_writer_reserve(w, photo->bytes - w->length))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a photo on its way to a card");
    memset(w->out + w->length, 0, photo->bytes - w->length);
    *bytes = w->out;
    return LEAT_OK;
}
