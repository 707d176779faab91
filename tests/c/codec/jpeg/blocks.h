/* A photo's coefficients as libjpeg reads them, as a source of blocks that minds what it is asked for. */
#ifndef LEAT_TESTS_JPEG_BLOCKS_H
#define LEAT_TESTS_JPEG_BLOCKS_H

#include "../photo/photos.h"

#include "base/error.h"
#include "codec/jpeg/source.h"

struct held {
    struct leat_jpeg_source source;
    struct leat_jpeg_frame frame;
    int16_t *coefficients[LEAT_JPEG_MAX_COMPONENTS]; /* [blocks_h][blocks_w][64] */
    uint8_t *last[LEAT_JPEG_MAX_COMPONENTS];
    uint32_t next, x0, x1; /* what the calls so far allow */
    uint32_t fail_at;      /* the row of MCUs that cannot be read; UINT32_MAX: none */
    uint32_t rows_read;
};

static inline int held_read(struct leat_jpeg_source *source, uint32_t row, uint32_t n, uint32_t x0, uint32_t x1,
                            uint64_t needed, struct leat_jpeg_blocks blocks[][LEAT_JPEG_MAX_COMPONENTS],
                            struct leat_error *error)
{
    struct held *held = (struct held *)source;
    const struct leat_jpeg_frame *frame = &held->frame;
    assert_true(n >= 1 && n <= LEAT_JPEG_ROWS_AT_ONCE && row >= held->next && row + n <= frame->mcus_h);
    assert_true(x0 < x1 && x1 <= frame->mcus_w);
    assert_true(!held->next || (x0 == held->x0 && x1 == held->x1));
    held->next = row + n;
    held->x0 = x0;
    held->x1 = x1;
    held->rows_read += n;
    if (held->fail_at < row + n)
        return leat_fail(error, LEAT_E_DECODE, "no more blocks");
    for (uint32_t i = 0; i < n; i++)
        for (unsigned c = 0; c < frame->n_components; c++) {
            const struct leat_jpeg_component *p = &frame->component[c];
            const size_t across = (size_t)(x1 - x0) * p->h;
            assert_int_equal((uintptr_t)blocks[i][c].coefficients % 64, 0);
            for (uint32_t j = 0; j < p->v; j++) {
                const size_t from = ((size_t)(row + i) * p->v + j) * p->blocks_w + (size_t)x0 * p->h;
                int16_t *to = blocks[i][c].coefficients + j * across * 64;
                memcpy(to, held->coefficients[c] + from * 64, across * 128);
                memcpy(blocks[i][c].last + j * across, held->last[c] + from, across);
                for (size_t k = 0; k < across * 64; k++)
                    if (!(needed >> (k & 63) & 1))
                        to[k] = 0;
            }
            memset(blocks[i][c].coefficients + across * p->v * 64, 0x5a, 64); /* as the interface allows */
        }
    return LEAT_OK;
}

/* Forgets what was read. */
static inline void held_rewind(struct held *held)
{
    held->next = held->rows_read = 0;
    held->fail_at = UINT32_MAX;
}

/* The coefficients of a photo. False: not of a kind that a frame describes. */
static inline bool held_load(struct held *held, const uint8_t *data, size_t length)
{
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr errors;
    memset(held, 0, sizeof *held);
    d.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, data, length);
    assert_int_equal(jpeg_read_header(&d, TRUE), JPEG_HEADER_OK);
    jvirt_barray_ptr *arrays = jpeg_read_coefficients(&d);
    const bool known = leat_jpeg_frame_of(&d, &held->frame);
    for (unsigned c = 0; known && c < held->frame.n_components; c++) {
        const struct leat_jpeg_component *p = &held->frame.component[c];
        const size_t n = (size_t)p->blocks_w * p->blocks_h;
        held->coefficients[c] = malloc(n * 128);
        held->last[c] = calloc(n, 1);
        assert_true(held->coefficients[c] && held->last[c]);
        for (uint32_t y = 0; y < p->blocks_h; y++) {
            JBLOCKARRAY row = d.mem->access_virt_barray((j_common_ptr)&d, arrays[c], y, 1, FALSE);
            memcpy(held->coefficients[c] + (size_t)y * p->blocks_w * 64, row[0], (size_t)p->blocks_w * 128);
        }
        for (size_t i = 0; i < n; i++)
            for (uint8_t k = 0; k < 64; k++)
                if (held->coefficients[c][i * 64 + leat_jpeg_natural[k]])
                    held->last[c][i] = k;
    }
    jpeg_finish_decompress(&d);
    jpeg_destroy_decompress(&d);
    held->source.read = held_read;
    held_rewind(held);
    return known;
}

static inline void held_free(struct held *held)
{
    for (unsigned c = 0; c < LEAT_JPEG_MAX_COMPONENTS; c++) {
        free(held->coefficients[c]);
        free(held->last[c]);
    }
}

#endif
