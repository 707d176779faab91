/* Photos that the kernels of a card decode, run as C by a grid of threads. For tests and fuzz targets. */
#ifndef LEAT_TESTS_DEVICE_PHOTOS_H
#define LEAT_TESTS_DEVICE_PHOTOS_H

#include <stdlib.h>
#include <string.h>

#include "codec/jpeg/card_plan.h"
#include "device/kernels/photo_across.cu.h"
#include "device/kernels/photo_codes.cu.h"
#include "device/kernels/photo_colours.cu.h"
#include "device/kernels/photo_columns.cu.h"
#include "device/kernels/photo_down.cu.h"
#include "device/kernels/photo_rows.cu.h"
#include "device/kernels/photo_samples.cu.h"
#include "device/kernels/photo_scan.cu.h"
#include "device/kernels/photo_weights.cu.h"

/* All kernels, in the order of their launches. */
enum { PHOTO_KERNELS = 9 };
static void (*const photo_kernels[PHOTO_KERNELS])(struct leat_photo_args) = {
    photo_rows,    photo_codes,   photo_scan,   photo_columns, photo_samples,
    photo_colours, photo_weights, photo_across, photo_down};
static const char *const photo_names[PHOTO_KERNELS] = {"leat_photo_rows",    "leat_photo_codes",   "leat_photo_scan",
                                                       "leat_photo_columns", "leat_photo_samples", "leat_photo_colours",
                                                       "leat_photo_weights", "leat_photo_across",  "leat_photo_down"};

struct photo_launch {
    void (*kernel)(struct leat_photo_args args);
    struct leat_photo_args args;
};
static void photo_thread(const void *launch)
{
    ((const struct photo_launch *)launch)->kernel(((const struct photo_launch *)launch)->args);
}

/* A batch whose photos come one by one: first their description, then the bytes that travel. */
struct photo_batch {
    struct leat_card_photo *photos;
    int64_t *places;
    uint32_t *faults;
    size_t n, room;
    uint8_t *data, *out;
    uint64_t bytes;
    bool alone; /* on this thread */
};
static inline void photo_touched(void *user, u64 thread, const void *p, u32 bytes) {}

/* Room for the next photo's bytes; photo_begin's result counts until the next call. */
static inline uint8_t *photo_add(struct photo_batch *batch, const struct leat_card_photo *photo)
{
    if (batch->n == batch->room) {
        batch->room = batch->room ? 2 * batch->room : 8;
        batch->photos = realloc(batch->photos, batch->room * sizeof *batch->photos);
        batch->places = realloc(batch->places, batch->room * sizeof *batch->places);
    }
    batch->photos[batch->n] = *photo;
    batch->places[batch->n++] = (int64_t)batch->bytes;
    batch->data = realloc(batch->data, batch->bytes + photo->bytes); /* exactly: nothing behind may be read */
    batch->bytes += photo->bytes;
    return batch->data + batch->bytes - photo->bytes;
}

/* All kernels, over few threads, so that each has many items; memory is exactly as large as promised, and dirty. */
static inline void photo_run(struct photo_batch *batch)
{
    const uint64_t scratch = leat_card_place(batch->photos, batch->n, batch->places);
    const struct leat_card_photo *last = &batch->photos[batch->n - 1];
    const size_t out = last->out + 3 * (size_t)last->axis[0].n * last->axis[1].n;
    struct photo_launch launch = {.args = {.photos = batch->photos,
                                           .data = batch->data,
                                           .scratch = memset(malloc(scratch + 1), 0xee, scratch),
                                           .out = memset(malloc(out), 0xee, out),
                                           .faults = calloc(batch->n, sizeof *batch->faults),
                                           .n = (unsigned)batch->n,
                                           .together = 3}};
    for (size_t i = 0; i < PHOTO_KERNELS; i++) {
        launch.kernel = photo_kernels[i];
        struct grid grid = {.kernel = photo_thread,
                            .args = &launch,
                            .blocks = 3 * (u32)batch->n,
                            .threads = 32,
                            .touched = batch->alone ? photo_touched : NULL};
        grid_run(&grid);
    }
    free(launch.args.scratch);
    batch->out = launch.args.out;
    batch->faults = launch.args.faults;
}

static inline void photo_batch_destroy(struct photo_batch *batch)
{
    free(batch->photos);
    free(batch->places);
    free(batch->faults);
    free(batch->data);
    free(batch->out);
    *batch = (struct photo_batch){0};
}

#endif
