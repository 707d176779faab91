/*
 * Photos that a card decodes: of one output of a batch on its way there. The engine's rows have the bytes that travel,
 * and of each photo a description (codec/jpeg/card_plan.h); kernels make pixels of them (kernels/photo.h).
 */
#ifndef LEAT_DEVICE_DECODE_H
#define LEAT_DEVICE_DECODE_H

#include "codec/jpeg/card_plan.h"
#include "device/memory.h"

struct leat_device_photos {
    uint8_t *block; /* [n] of struct leat_card_photo, then [n] of u32: zeros, which the card replaces where it finds
                     * faults. Then [n + 1] offsets of the bytes */
    uint64_t n, room;
    uint8_t *staged;  /* pinned: descriptions and zeros on their way, */
    uint32_t *faults; /* ... and behind them what the card has left of these */
    uint64_t staged_room;
};

/* Keeps the descriptions of a batch's rows, and where the bytes of each begin. False: no memory. */
bool leat_device_photos_keep(struct leat_device_photos *photos, const void *described, const int64_t *offsets,
                             uint64_t n);
/* Once `before` has happened, the event behind the last use of `photos`, puts the kernels into a stream: from bytes at
 * `data` to uint8 pixels at `out`, (n, height, width, 3). The card was entered. Errors: as leat_device_buffer_take and
 * leat_card_kernel. */
int leat_device_photos_decode(struct leat_device_photos *photos, struct leat_device_memory *memory, const char *nvrtc,
                              leat_cu_memory data, leat_cu_memory out, leat_cu_handle stream, leat_cu_handle before,
                              struct leat_error *error);
/* Those that the card decodes; the others are pixels. */
uint64_t leat_device_photos_count(const struct leat_device_photos *photos);
/* Height and width of the pixels. */
void leat_device_photos_size(const struct leat_device_photos *photos, uint64_t *height, uint64_t *width);
/* Once that is done, if the card decodes any: DECODE, with the row of the first photo that makes no sense. */
int leat_device_photos_check(const struct leat_device_photos *photos, uint64_t *row, struct leat_error *error);
/* The card was entered. */
void leat_device_photos_free(struct leat_device_photos *photos, const struct leat_cuda *cuda);

#endif
