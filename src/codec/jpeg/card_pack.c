/*
 * The bytes that travel of a JPEG as it came, in one of two ways:
 *
 *     blocks    read by an entropy decoder, packed as rows of the decode-fast form
 *     coded     as the file has them, with the tables of codes and the places of the row index
 *
 * Of blocks only the MCUs that the box needs are read and travel, so rows begin with the first column of these. Coded
 * rows travel whole. Decoders of the card begin at the places of the index.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "codec/jpeg/card_plan.h"
#include "codec/jpeg/fast_format.h"
#include "codec/jpeg/huffman.h"

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

/* The zeros behind the bytes, and the description of all. */
static int end_bytes(struct leat_jpeg_fast_writer *w, enum leat_card_form form, struct leat_card_photo *photo,
                     const uint8_t **bytes, struct leat_error *error)
{
    int rc = leat_card_plan_bytes(photo, form, w->length, error);
    if (rc)
        return rc;
    if (!leat_jpeg_fast_writer_reserve(w, photo->bytes - w->length))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a photo on its way to a card");
    memset(w->out + w->length, 0, photo->bytes - w->length);
    *bytes = w->out;
    return LEAT_OK;
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
    return rc ? rc : end_bytes(w, LEAT_CARD_FAST, photo, bytes, error);
}

/* ---- coded bytes ------------------------------------------------------------------------------- */

/* The number of a table among those that travel, to which it is added. */
static unsigned table_of(const struct leat_jpeg_canonical_codes *codes,
                         const struct leat_jpeg_canonical_codes *tables[2 * LEAT_CARD_PLANES], unsigned *n)
{
    unsigned i = 0;
    while (i < *n && tables[i] != codes)
        i++;
    if (i == *n)
        tables[(*n)++] = codes;
    return i;
}

/* The tables of codes; *n of them. False: the components of an MCU are not in the order of the frame. */
static bool find_tables(const struct leat_jpeg_mcu *mcu, struct leat_card_photo *photo,
                        const struct leat_jpeg_canonical_codes *tables[2 * LEAT_CARD_PLANES], unsigned *n)
{
    *n = 0;
    for (unsigned i = 0; i < mcu->n_blocks; i++) {
        if (i && mcu->block[i].component < mcu->block[i - 1].component)
            return false;
        struct leat_card_plane *plane = &photo->plane[mcu->block[i].component];
        plane->dc = (uint16_t)table_of(&mcu->block[i].dc->codes, tables, n);
        plane->ac = (uint16_t)table_of(&mcu->block[i].ac->codes, tables, n);
    }
    return true;
}

/* The coded byte in which row i of the index begins; behind the last one, the end. */
static const uint8_t *coded_row(const struct leat_jpeg_coded *coded, uint32_t i)
{
    return i < coded->rows->n ? coded->scan + coded->rows->row[i].bit / 8 : coded->scan_end;
}

/* Copies coded bytes without the zeros behind 0xff and without restart markers, up to any other marker. */
static uint8_t *copy_coded(const uint8_t *in, const uint8_t *end, uint8_t *out)
{
    while (in < end) {
        const uint8_t *const ff = memchr(in, 0xff, (size_t)(end - in));
        const size_t n = (size_t)((ff ? ff : end) - in);
        memcpy(out, in, n);
        out += n;
        in += n;
        if (!ff)
            break;
        const unsigned next = end - ff > 1 ? ff[1] : 0;
        if (next && (next < 0xd0 || next > 0xd7))
            break;
        if (!next)
            *out++ = 0xff;
        in += 2;
    }
    return out;
}

int leat_card_pack_coded(struct leat_card_packer *packer, const struct leat_jpeg_coded *coded,
                         const struct leat_card_mcus *mcus, struct leat_card_photo *photo, const uint8_t **bytes,
                         struct leat_error *error)
{
    struct leat_jpeg_fast_writer *w = &packer->writer;
    const struct leat_jpeg_rows *rows = coded->rows;
    const struct leat_jpeg_canonical_codes *tables[2 * LEAT_CARD_PLANES];
    const uint32_t first = mcus->y0 / rows->every, end = (mcus->y1 - 1) / rows->every + 1;
    if (!find_tables(coded->mcu, photo, tables, &photo->n_tables))
        return leat_fail(error, LEAT_E_UNSUPPORTED,
                         "a card does not decode this photo: its components are out of order");
    photo->n_starts = end - first;
    photo->rows_per_start = rows->every;
    photo->mcus_w = coded->mcus_w;
    photo->mcu_x1 = mcus->x1;
    photo->interval = coded->interval;
    const uint8_t *in = coded_row(coded, first), *last = coded_row(coded, end);
    last += coded->scan_end - last > 2 ? 2 : coded->scan_end - last; /* the last bits, in 0xff and its zero at most */
    if ((uint64_t)(last - in) > UINT32_MAX / 8)                      /* the card counts bits in 32 */
        return leat_fail(error, LEAT_E_UNSUPPORTED, "the photo is too large for a card");
    const size_t before =
        photo->n_starts * sizeof(struct leat_card_start) + photo->n_tables * sizeof(struct leat_card_codes);
    w->length = 0;
    if (!leat_jpeg_fast_writer_reserve(w, before + (size_t)(last - in)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a photo on its way to a card");
    struct leat_card_start *starts = (struct leat_card_start *)(void *)w->out;
    struct leat_card_codes *codes = (struct leat_card_codes *)(void *)(starts + photo->n_starts);
    for (unsigned i = 0; i < photo->n_tables; i++) {
        memcpy(codes[i].bits, tables[i]->bits + 1, sizeof codes[i].bits);
        memcpy(codes[i].values, tables[i]->values, sizeof codes[i].values);
    }
    uint8_t *const begin = w->out + before, *out = begin;
    for (uint32_t i = first; i < end; i++) {
        const struct leat_jpeg_row_start *row = &rows->row[i];
        struct leat_card_start *start = &starts[i - first];
        *start =
            (struct leat_card_start){.bit = (unsigned)(8 * (size_t)(out - begin) + row->bit % 8), .left = row->restart};
        memcpy(start->dc, row->dc, sizeof start->dc);
        const uint8_t *const next = i + 1 < end ? coded_row(coded, i + 1) : last;
        out = copy_coded(in, next, out);
        in = next;
    }
    w->length = (size_t)(out - w->out);
    return end_bytes(w, LEAT_CARD_CODED, photo, bytes, error);
}
