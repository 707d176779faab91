/*
 * Any bytes in the decode-fast form of a JPEG (fuzz_fast.h), for the kernels of a card. These must hold:
 *
 *     a photo is planned, or refused, without a fault
 *     the kernels read and write nothing but their memory, of bytes that changed on their way too
 *     they find a fault exactly where the processor refuses a row that the box needs
 *     else the pixels are those of the processor
 */
#include "fuzz_fast.h"

#include "../tests/c/device/photos.h"
#include "base/random.h"
#include "codec/jpeg/picture.h"

/* A part of the photo, and, if it is resized, what of that. */
static struct leat_card_view draw_view(uint32_t w, uint32_t h, uint64_t key, bool resized)
{
    const uint32_t size[2] = {w, h};
    struct leat_card_view v = {.filter = resized ? LEAT_FILTER_BICUBIC : LEAT_FILTER_ANTIALIAS};
    for (unsigned d = 0; d < 2; d++) {
        const uint32_t most = size[d] < 64 ? size[d] : 64;
        v.source_size[d] = 1 + (uint32_t)leat_draw_below(key, 8 * d, most);
        v.source[d] = (uint32_t)leat_draw_below(key, 8 * d + 1, size[d] - v.source_size[d] + 1);
        v.grid[d] = resized ? 1 + (uint32_t)leat_draw_below(key, 8 * d + 2, 30) : v.source_size[d];
        v.window_size[d] = resized ? 1 + (uint32_t)leat_draw_below(key, 8 * d + 3, v.grid[d]) : v.grid[d];
        v.window[d] = (uint32_t)leat_draw_below(key, 8 * d + 4, v.grid[d] - v.window_size[d] + 1);
    }
    return v;
}

/* Whether the processor decodes the box; `out`, if it is not NULL, has its pixels then. */
static void check(const uint8_t *payload, size_t length, const struct leat_card_photo *p, bool fault,
                  const uint8_t *out)
{
    struct leat_jpeg_fast *fast = leat_jpeg_fast_new(leat_cpu_isa());
    struct leat_jpeg_picture *picture = leat_jpeg_picture_new(leat_cpu_isa());
    const struct leat_jpeg_frame *frame;
    struct leat_jpeg_source *source;
    FUZZ_ASSERT(fast && picture && !leat_jpeg_fast_open(fast, payload, length, &frame, &source, NULL) &&
                !leat_jpeg_picture_begin(picture, frame, source, 1, false, p->x, p->y, p->w, p->h, NULL));
    bool refused = false;
    for (uint32_t y = 0; y < p->h && !refused; y++) {
        const uint8_t *row;
        refused = leat_jpeg_picture_row(picture, &row, NULL);
        for (uint32_t x = 0; out && !fault && !refused && x < p->w; x++, out += 3)
            FUZZ_ASSERT(!memcmp(out, row + 4 * (size_t)x, 3));
    }
    FUZZ_ASSERT(refused == fault);
    leat_jpeg_picture_free(picture);
    leat_jpeg_fast_free(fast);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    if (length < 2)
        return 0;
    size_t payload_length;
    struct leat_jpeg_fast_parts parts;
    uint8_t *payload = payload_of(data, length, &payload_length);
    const uint64_t blocks = payload ? blocks_of(payload, payload_length, &parts) : 0;
    for (unsigned resized = 0; resized < 2 && blocks && blocks <= MAX_BLOCKS; resized++) {
        struct photo_batch batch = {.alone = true};
        struct leat_card_photo photo;
        struct leat_card_source source;
        const struct leat_card_view view =
            draw_view(parts.frame.width, parts.frame.height, data[1] + 256u * resized, resized);
        const int rc = leat_card_plan(payload, payload_length, &view, &photo, &source, NULL);
        FUZZ_ASSERT(rc == LEAT_OK || rc == LEAT_E_DECODE || (rc == LEAT_E_UNSUPPORTED && parts.frame.n_components > 3));
        if (rc)
            continue;
        leat_card_write(&photo, &source, photo_add(&batch, &photo));
        photo_run(&batch);
        FUZZ_ASSERT(leat_card_check(&photo, &source, leat_cpu_isa()) == !batch.faults[0]);
        check(payload, payload_length, &photo, batch.faults[0], resized ? NULL : batch.out);
        free(batch.out);
        free(batch.faults);
        for (uint64_t i = 0; i < batch.bytes; i++)
            batch.data[i] ^= data[i % length];
        photo_run(&batch);
        photo_batch_destroy(&batch);
    }
    free(payload);
    return 0;
}
