/*
 * The entropy decoder, with libjpeg as the oracle. Any bytes as a JPEG: libjpeg reads what is read here without an
 * error or a warning, to the same coefficients; a scan says the same as reading; rows by the index are those of the
 * whole. Then a byte of the index is changed and its checksum made right: reading by it touches nothing beyond the
 * bytes and blocks, which the sanitizers watch.
 */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#include "base/hash.h"
#include "codec/jpeg/huffman.h"
#include "codec/jpeg/idct.h"

#define MAX_BLOCKS 4096 /* larger photos say nothing new and take long */

#define FUZZ_ASSERT(condition)                                                                                         \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            __builtin_trap();                                                                                          \
    } while (0)

struct failure {
    struct jpeg_error_mgr errors;
    jmp_buf out;
};

static void on_error(j_common_ptr cinfo)
{
    longjmp(((struct failure *)cinfo->err)->out, 1);
}

static void on_message(j_common_ptr cinfo, int level)
{
    if (level < 0 && cinfo->err->msg_code != JWRN_JFIF_MAJOR)
        longjmp(((struct failure *)cinfo->err)->out, 1);
}

static void create(struct jpeg_decompress_struct *d, struct failure *failure)
{
    d->err = jpeg_std_error(&failure->errors);
    failure->errors.error_exit = on_error;
    failure->errors.emit_message = on_message;
    jpeg_create_decompress(d);
}

static size_t blocks_of(const struct leat_jpeg_frame *frame)
{
    size_t n = 0;
    for (unsigned c = 0; c < frame->n_components; c++)
        n += (size_t)frame->component[c].blocks_w * frame->component[c].blocks_h;
    return n;
}

static void divide(const struct leat_jpeg_frame *frame, int16_t *all, int16_t *of[LEAT_JPEG_MAX_COMPONENTS])
{
    for (unsigned c = 0; c < frame->n_components; c++) {
        of[c] = all;
        all += (size_t)64 * frame->component[c].blocks_w * frame->component[c].blocks_h;
    }
}

/* libjpeg's verdict and coefficients. */
static bool oracle(const uint8_t *data, size_t length, const struct leat_jpeg_frame *frame,
                   int16_t *const of[LEAT_JPEG_MAX_COMPONENTS])
{
    struct jpeg_decompress_struct d;
    struct failure failure;
    volatile bool clean = false;
    create(&d, &failure);
    if (!setjmp(failure.out)) {
        jpeg_mem_src(&d, data, length);
        jpeg_read_header(&d, TRUE);
        jvirt_barray_ptr *arrays = jpeg_read_coefficients(&d);
        for (unsigned c = 0; c < frame->n_components; c++)
            for (uint32_t y = 0; y < frame->component[c].blocks_h; y++) {
                JBLOCKARRAY row = d.mem->access_virt_barray((j_common_ptr)&d, arrays[c], y, 1, FALSE);
                memcpy(of[c] + (size_t)64 * y * frame->component[c].blocks_w, row[0],
                       (size_t)128 * frame->component[c].blocks_w);
            }
        jpeg_finish_decompress(&d);
        clean = true;
    }
    jpeg_destroy_decompress(&d);
    return clean;
}

/* Reads a box; its blocks have just the room that they need. Compared with `of`, unless that is NULL. */
static void read_box(const struct leat_jpeg_frame *frame, struct leat_jpeg_source *source, uint64_t draw,
                     int16_t *const *of)
{
    const uint32_t row = (uint32_t)(draw & 255) % frame->mcus_h, x0 = (uint32_t)(draw >> 8 & 255) % frame->mcus_w;
    const uint32_t x1 = x0 + 1 + (uint32_t)(draw >> 16 & 255) % (frame->mcus_w - x0);
    const uint32_t at_once = 1 + (draw >> 24 & 1);
    const uint64_t needed = (draw >> 25 & 7) == 7 ? LEAT_JPEG_NEEDED1 : LEAT_JPEG_NEEDED8;
    for (uint32_t r = row; r < frame->mcus_h; r += at_once) {
        struct leat_jpeg_blocks blocks[LEAT_JPEG_ROWS_AT_ONCE][LEAT_JPEG_MAX_COMPONENTS];
        const uint32_t n = frame->mcus_h - r < at_once ? frame->mcus_h - r : at_once;
        for (uint32_t i = 0; i < n; i++)
            for (unsigned c = 0; c < frame->n_components; c++) {
                const size_t room = (size_t)frame->component[c].v * (x1 - x0) * frame->component[c].h;
                blocks[i][c].coefficients = aligned_alloc(64, room * 128 + 64);
                blocks[i][c].last = malloc(room);
            }
        const int rc = source->read(source, r, n, x0, x1, needed, blocks, NULL);
        FUZZ_ASSERT(!rc || (rc == LEAT_E_DECODE && !of));
        for (uint32_t i = 0; i < n; i++)
            for (unsigned c = 0; c < frame->n_components; c++) {
                const struct leat_jpeg_component *f = &frame->component[c];
                const size_t across = (size_t)(x1 - x0) * f->h;
                for (size_t b = 0; !rc && of && b < across * f->v; b++) {
                    const int16_t *got = blocks[i][c].coefficients + 64 * b;
                    const int16_t *want = of[c] + 64 * (((size_t)(r + i) * f->v + b / across) * f->blocks_w +
                                                        (size_t)x0 * f->h + b % across);
                    for (unsigned k = 0; k < 64; k++) {
                        const unsigned at = leat_jpeg_natural[k];
                        FUZZ_ASSERT(!(needed >> at & 1) || got[at] == want[at]);
                        FUZZ_ASSERT(k <= blocks[i][c].last[b] || !got[at]);
                    }
                }
                free(blocks[i][c].coefficients);
                free(blocks[i][c].last);
            }
        if (rc)
            return;
    }
}

static void read_by_index(struct leat_jpeg_huffman *huffman, const struct leat_jpeg_frame *frame, uint64_t draw,
                          int16_t *const *of)
{
    static struct leat_jpeg_rows rows;
    struct leat_jpeg_source *source;
    uint8_t *index;
    size_t length;
    FUZZ_ASSERT(leat_jpeg_huffman_scan(huffman, &rows));
    FUZZ_ASSERT(leat_jpeg_huffman_begin(huffman, NULL, 0, &source));
    read_box(frame, source, draw, of);
    /* as if the photo were so large that the index may have all rows, or some */
    FUZZ_ASSERT(leat_jpeg_rows_pack(&rows, frame, draw & 1 ? 1 << 20 : 2000, &index, &length) == LEAT_OK);
    if (!length)
        return;
    FUZZ_ASSERT(leat_jpeg_huffman_begin(huffman, index, length, &source));
    read_box(frame, source, draw >> 8, of);
    index[4 + (draw >> 40) % (length - 4)] ^= (uint8_t)(1 + (draw >> 32) % 255);
    const uint64_t sum = leat_hash64(index + 4, length - 4);
    memcpy(index, &sum, 4);
    if (leat_jpeg_huffman_begin(huffman, index, length, &source))
        read_box(frame, source, draw >> 16, NULL);
}

static void try_header(struct jpeg_decompress_struct *d, const uint8_t *data, size_t length)
{
    static struct leat_jpeg_huffman *huffman;
    static int16_t *ours, *theirs;
    struct leat_jpeg_frame frame;
    int16_t *our_of[LEAT_JPEG_MAX_COMPONENTS], *their_of[LEAT_JPEG_MAX_COMPONENTS];
    if (!huffman) {
        huffman = leat_jpeg_huffman_new();
        ours = aligned_alloc(64, 128 * MAX_BLOCKS + 64);
        theirs = aligned_alloc(64, 128 * MAX_BLOCKS);
    }
    if (!leat_jpeg_frame_of(d, &frame) || blocks_of(&frame) > MAX_BLOCKS ||
        !leat_jpeg_huffman_knows(huffman, d, &frame))
        return;
    divide(&frame, ours, our_of);
    divide(&frame, theirs, their_of);
    memset(ours, 0x5a, 128 * MAX_BLOCKS);
    const bool read = leat_jpeg_huffman_read_all(huffman, our_of);
    FUZZ_ASSERT(leat_jpeg_huffman_scan(huffman, NULL) == read);
    if (!read)
        return;
    FUZZ_ASSERT(oracle(data, length, &frame, their_of));
    FUZZ_ASSERT(!memcmp(ours, theirs, 128 * blocks_of(&frame)));
    read_by_index(huffman, &frame, leat_hash64(data, length), their_of);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct jpeg_decompress_struct d;
    struct failure failure;
    if (length < 3 || memcmp(data, "\xff\xd8\xff", 3))
        return 0;
    uint8_t *copy = malloc(length); /* with nothing behind it */
    memcpy(copy, data, length);
    create(&d, &failure);
    if (!setjmp(failure.out)) {
        jpeg_mem_src(&d, copy, length);
        jpeg_read_header(&d, TRUE);
        try_header(&d, copy, length);
    }
    jpeg_destroy_decompress(&d);
    free(copy);
    return 0;
}
