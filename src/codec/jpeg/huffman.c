/*
 * The entropy decoder of baseline and extended Huffman photos of one scan: the photos that it knows, and the order in
 * which it goes through their MCUs. The loops are huffman_kernels.h. A lane is one place in the scan at which it reads.
 *
 *     row 0  ................    without an index: all MCUs before the wanted ones are skipped, by one lane
 *     row 1  ................
 *     row 2  |<~~~~####|         with an index: from a row's first MCU to its last wanted one (~ skipped, # read),
 *     row 3  |<~~~~####|         by two lanes, each in a row of its own
 *
 * Everything that is not exactly as an encoder writes it (a code that does not exist, a block that is too long, a
 * marker too early or too late, a table missing) is a failure here; the caller then asks libjpeg-turbo, which decides
 * and has the words. libjpeg-turbo reads what is read here, too, to the same coefficients; a fuzz target compares the
 * two.
 */
#include "codec/jpeg/huffman.h"

#include <stdio.h>

#include <jpeglib.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/error.h"
#include "codec/jpeg/huffman_stream.h"
#include "codec/jpeg/idct.h"

struct leat_jpeg_huffman {
    struct leat_jpeg_source source;
    const struct leat_jpeg_huffman_kernels *kernels;
    struct leat_jpeg_frame frame;
    struct leat_jpeg_mcu mcu;
    const uint8_t *scan, *scan_end;
    uint32_t interval; /* MCUs between restart markers; 0: none */
    struct leat_jpeg_rows rows;
    struct leat_jpeg_coded coded;
    bool indexed;
    struct lane {      /* a place in the scan, and the state to read on from there */
        uint64_t at;   /* MCUs passed, from the first of the scan on; none if that is above their number */
        uint32_t left; /* MCUs until a restart marker; without markers, until the end of the scan at least */
        struct leat_jpeg_stream stream;
    } lane[LEAT_JPEG_ROWS_AT_ONCE];
    struct leat_jpeg_dc_table dc[NUM_HUFF_TBLS];
    struct leat_jpeg_ac_table ac[NUM_HUFF_TBLS];
};

struct leat_jpeg_huffman *leat_jpeg_huffman_new(void)
{
    struct leat_jpeg_huffman *h = leat_new(struct leat_jpeg_huffman);
    if (!h)
        return NULL;
    h->kernels = &leat_jpeg_huffman_portable;
#if defined(__x86_64__)
    if (leat_cpu_isa() >= LEAT_ISA_AVX2)
        h->kernels = &leat_jpeg_huffman_avx2;
#endif
    return h;
}

void leat_jpeg_huffman_free(struct leat_jpeg_huffman *h)
{
    if (!h)
        return;
    leat_jpeg_rows_destroy(&h->rows);
    leat_free(h);
}

/* ---- known photos ---------------------------------------------------------------------------- */

static bool make_tables(struct leat_jpeg_huffman *h, const struct jpeg_decompress_struct *cinfo, int dc, int ac)
{
    if (dc < 0 || dc >= NUM_HUFF_TBLS || ac < 0 || ac >= NUM_HUFF_TBLS)
        return false;
    const JHUFF_TBL *d = cinfo->dc_huff_tbl_ptrs[dc], *a = cinfo->ac_huff_tbl_ptrs[ac];
    return d && a && leat_jpeg_dc_table_make(&h->dc[dc], d->bits, d->huffval) &&
           leat_jpeg_ac_table_make(&h->ac[ac], a->bits, a->huffval);
}

bool leat_jpeg_huffman_knows(struct leat_jpeg_huffman *h, const struct jpeg_decompress_struct *cinfo,
                             const struct leat_jpeg_frame *frame)
{
    if (cinfo->arith_code || cinfo->progressive_mode || cinfo->comps_in_scan != cinfo->num_components ||
        cinfo->Ss != 0 || cinfo->Se != 63 || cinfo->Ah || cinfo->Al || cinfo->data_precision != 8 || !cinfo->src ||
        !cinfo->src->next_input_byte)
        return false;
    h->frame = *frame;
    h->mcu.n_blocks = 0;
    for (int i = 0; i < cinfo->comps_in_scan; i++) {
        const jpeg_component_info *c = cinfo->cur_comp_info[i];
        const unsigned component = (unsigned)c->component_index;
        if (component >= frame->n_components || !make_tables(h, cinfo, c->dc_tbl_no, c->ac_tbl_no))
            return false;
        for (unsigned n = frame->component[component].h * frame->component[component].v; n; n--) {
            if (h->mcu.n_blocks == LEAT_JPEG_MCU_BLOCKS)
                return false;
            h->mcu.block[h->mcu.n_blocks].dc = &h->dc[c->dc_tbl_no];
            h->mcu.block[h->mcu.n_blocks].ac = &h->ac[c->ac_tbl_no];
            h->mcu.block[h->mcu.n_blocks++].component = component;
        }
    }
    h->interval = cinfo->restart_interval;
    h->scan = cinfo->src->next_input_byte;
    h->scan_end = h->scan + cinfo->src->bytes_in_buffer;
    return true;
}

/* ---- lanes ----------------------------------------------------------------------------------- */

static uint64_t mcus(const struct leat_jpeg_huffman *h)
{
    return (uint64_t)h->frame.mcus_w * h->frame.mcus_h;
}

/* Goes to row i of the index. Rows behind the next one of the index are to be gone to by that. */
static void go_to_indexed(struct leat_jpeg_huffman *h, struct lane *lane, uint32_t i)
{
    const struct leat_jpeg_row_start *row = &h->rows.row[i];
    lane->at = (uint64_t)i * h->rows.every * h->frame.mcus_w;
    lane->left = h->interval ? row->restart : UINT32_MAX;
    for (unsigned c = 0; c < LEAT_JPEG_MAX_COMPONENTS; c++)
        lane->stream.dc[c] = row->dc[c];
    const uint8_t *end = h->scan_end;
    if (i + 1 < h->rows.n) { /* no further than the next one, with the zero behind its byte */
        const uint64_t next = h->rows.row[i + 1].bit / 8;
        if ((uint64_t)(end - h->scan) - next > 2)
            end = h->scan + next + 2;
    }
    leat_jpeg_stream_begin(&lane->stream, h->scan + row->bit / 8, end, row->bit & 7);
}

static void go_to_begin(struct leat_jpeg_huffman *h, struct lane *lane)
{
    lane->at = 0;
    lane->left = h->interval ? h->interval : UINT32_MAX;
    memset(lane->stream.dc, 0, sizeof lane->stream.dc);
    leat_jpeg_stream_begin(&lane->stream, h->scan, h->scan_end, 0);
}

/* Steps over a restart marker that is due before the next MCU. */
static bool restart_if_due(struct leat_jpeg_huffman *h, struct lane *lane)
{
    if (lane->left)
        return true;
    if (!h->interval || !leat_jpeg_stream_marker(&lane->stream, (uint8_t)(0xd0 + ((lane->at / h->interval - 1) & 7))))
        return false;
    lane->left = h->interval;
    memset(lane->stream.dc, 0, sizeof lane->stream.dc);
    return true;
}

/* Books n MCUs that were passed; whether they were all there. */
static bool passed(struct lane *lane, uint32_t n)
{
    lane->at += n;
    lane->left -= lane->left == UINT32_MAX ? 0 : n;
    return leat_jpeg_stream_within(&lane->stream);
}

static uint32_t run_of(const struct lane *lane, uint64_t n)
{
    return n < lane->left ? (uint32_t)n : lane->left;
}

/* Reads n MCUs, or only over them if `to` is NULL. */
static bool pass(struct leat_jpeg_huffman *h, struct lane *lane, uint64_t n, struct leat_jpeg_places *to, bool ac)
{
    while (n) {
        if (!restart_if_due(h, lane))
            return false;
        const uint32_t run = run_of(lane, n);
        if (!(to ? h->kernels->read(&lane->stream, &h->mcu, run, to, ac)
                 : h->kernels->skip(&lane->stream, &h->mcu, run)) ||
            !passed(lane, run))
            return false;
        n -= run;
    }
    return true;
}

/* The same for both lanes, in turns. */
static bool pass_two(struct leat_jpeg_huffman *h, uint64_t n, struct leat_jpeg_places *to)
{
    struct lane *a = &h->lane[0], *b = &h->lane[1];
    while (n) {
        if (!restart_if_due(h, a) || !restart_if_due(h, b))
            return false;
        const uint32_t run = run_of(b, run_of(a, n));
        if (!(to ? h->kernels->read_two(&a->stream, &b->stream, &h->mcu, run, &to[0], &to[1])
                 : h->kernels->skip_two(&a->stream, &b->stream, &h->mcu, run)) ||
            !passed(a, run) || !passed(b, run))
            return false;
        n -= run;
    }
    return true;
}

/* After all MCUs: whether the end marker follows. */
static bool ends(struct lane *lane)
{
    return leat_jpeg_stream_marker(&lane->stream, 0xd9);
}

/* ---- all of a photo -------------------------------------------------------------------------- */

static bool note_row(struct leat_jpeg_huffman *h, struct lane *lane, struct leat_jpeg_row_start *row)
{
    if (!restart_if_due(h, lane))
        return false;
    unsigned bit;
    const uint8_t *at = leat_jpeg_stream_bit(&lane->stream, &bit);
    row->bit = 8 * (uint64_t)(at - h->scan) + bit;
    row->restart = h->interval ? lane->left : 0;
    for (unsigned c = 0; c < LEAT_JPEG_MAX_COMPONENTS; c++)
        row->dc[c] = (int16_t)lane->stream.dc[c];
    return true;
}

bool leat_jpeg_huffman_scan(struct leat_jpeg_huffman *h, struct leat_jpeg_rows *rows)
{
    struct lane *lane = &h->lane[0];
    go_to_begin(h, lane);
    if (!rows)
        return pass(h, lane, mcus(h), NULL, false) && ends(lane);
    const uint32_t n = h->frame.mcus_h;
    if (!leat_jpeg_rows_reserve(rows, n))
        return false;
    rows->every = 1;
    rows->n = 0;
    for (uint32_t r = 0; r < n; r++)
        if (!note_row(h, lane, &rows->row[r]) || !pass(h, lane, h->frame.mcus_w, NULL, false))
            return false;
    if (!ends(lane))
        return false;
    rows->n = n;
    return true;
}

/* The destination of each block of an MCU, in rows of `across[c]` blocks of component c. */
static void places_of(const struct leat_jpeg_huffman *h, struct leat_jpeg_blocks blocks[LEAT_JPEG_MAX_COMPONENTS],
                      const uint32_t across[LEAT_JPEG_MAX_COMPONENTS], uint8_t *no_last, struct leat_jpeg_places *to)
{
    unsigned of_component[LEAT_JPEG_MAX_COMPONENTS] = {0};
    for (unsigned i = 0; i < h->mcu.n_blocks; i++) {
        const unsigned c = h->mcu.block[i].component, n = of_component[c]++, wide = h->frame.component[c].h;
        const size_t at = (size_t)(n / wide) * across[c] + n % wide;
        to->block[i].coefficients = blocks[c].coefficients + 64 * at;
        to->block[i].last = no_last ? no_last : blocks[c].last + at;
        to->block[i].step = wide;
        to->block[i].last_step = no_last ? 0 : wide;
    }
}

bool leat_jpeg_huffman_read_all(struct leat_jpeg_huffman *h, int16_t *const coefficients[LEAT_JPEG_MAX_COMPONENTS])
{
    struct lane *lane = &h->lane[0];
    uint32_t across[LEAT_JPEG_MAX_COMPONENTS];
    for (unsigned c = 0; c < h->frame.n_components; c++)
        across[c] = h->frame.component[c].blocks_w;
    go_to_begin(h, lane);
    for (uint32_t r = 0; r < h->frame.mcus_h; r++) {
        struct leat_jpeg_blocks blocks[LEAT_JPEG_MAX_COMPONENTS];
        struct leat_jpeg_places to;
        uint8_t no_last;
        for (unsigned c = 0; c < h->frame.n_components; c++)
            blocks[c].coefficients = coefficients[c] + (size_t)64 * r * h->frame.component[c].v * across[c];
        places_of(h, blocks, across, &no_last, &to);
        if (!pass(h, lane, h->frame.mcus_w, &to, true))
            return false;
    }
    return ends(lane);
}

/* ---- the source ------------------------------------------------------------------------------ */

/* Goes to the last row of the index that is not behind row r, unless the lane is behind that already. */
static void go_near(struct leat_jpeg_huffman *h, struct lane *lane, uint32_t r)
{
    if (h->indexed && (uint64_t)(r / h->rows.every) * h->rows.every * h->frame.mcus_w >= lane->at)
        go_to_indexed(h, lane, r / h->rows.every);
}

static bool is_indexed(const struct leat_jpeg_huffman *h, uint32_t r)
{
    return h->indexed && r % h->rows.every == 0;
}

static int source_read(struct leat_jpeg_source *source, uint32_t row, uint32_t n, uint32_t x0, uint32_t x1,
                       uint64_t needed, struct leat_jpeg_blocks blocks[][LEAT_JPEG_MAX_COMPONENTS],
                       struct leat_error *error)
{
    struct leat_jpeg_huffman *h = (struct leat_jpeg_huffman *)source;
    const bool ac = needed != LEAT_JPEG_NEEDED1;
    struct leat_jpeg_places to[LEAT_JPEG_ROWS_AT_ONCE];
    uint32_t across[LEAT_JPEG_MAX_COMPONENTS];
    for (unsigned c = 0; c < h->frame.n_components; c++)
        across[c] = (x1 - x0) * h->frame.component[c].h;
    for (uint32_t i = 0; i < n; i++)
        places_of(h, blocks[i], across, NULL, &to[i]);
    bool read = true;
    if (n == 2 && ac && is_indexed(h, row) && is_indexed(h, row + 1)) {
        go_to_indexed(h, &h->lane[0], row / h->rows.every);
        go_to_indexed(h, &h->lane[1], (row + 1) / h->rows.every);
        read = pass_two(h, x0, NULL) && pass_two(h, x1 - x0, to);
    } else {
        for (uint32_t i = 0; i < n && read; i++) {
            const uint64_t first = (uint64_t)(row + i) * h->frame.mcus_w + x0;
            go_near(h, &h->lane[0], row + i);
            read = h->lane[0].at <= first && pass(h, &h->lane[0], first - h->lane[0].at, NULL, false) &&
                   pass(h, &h->lane[0], x1 - x0, &to[i], ac);
        }
    }
    for (uint32_t i = 0; i < LEAT_JPEG_ROWS_AT_ONCE && read;
         i++) /* without an end libjpeg may refuse a photo of which no row lacks anything: it looks ahead */
        if (h->lane[i].at == mcus(h)) {
            read = ends(&h->lane[i]);
            h->lane[i].at++;
        }
    return read ? LEAT_OK
                : leat_fail(error, LEAT_E_DECODE,
                            "JPEG: damage, or something unusual, in the coded data of rows %u to %u of blocks", row,
                            row + n - 1);
}

bool leat_jpeg_huffman_begin(struct leat_jpeg_huffman *h, const uint8_t *index, size_t length,
                             struct leat_jpeg_source **source)
{
    h->indexed = false;
    if (index) {
        if (!leat_jpeg_rows_unpack(&h->rows, &h->frame, index, length, (uint64_t)(h->scan_end - h->scan)) ||
            h->rows.row[0].restart != h->interval)
            return false;
        h->indexed = true;
    } else {
        go_to_begin(h, &h->lane[0]);
    }
    h->lane[0].at = h->lane[1].at = 0;
    h->coded = (struct leat_jpeg_coded){h->scan, h->scan_end, &h->mcu, &h->rows, h->frame.mcus_w, h->interval};
    h->source = (struct leat_jpeg_source){h->indexed ? &h->coded : NULL, source_read};
    *source = &h->source;
    return true;
}
