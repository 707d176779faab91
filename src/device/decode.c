#include "device/decode.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "device/copies.h"
#include "device/photos.h"
#include "leat/device.h"

#define MOST_SCRATCH (UINT64_C(256) << 20) /* of the photos that are decoded together */

static struct leat_card_photo *described(const struct leat_device_photos *p)
{
    return (struct leat_card_photo *)(void *)p->block;
}

static uint64_t faults_at(uint64_t n)
{
    return n * sizeof(struct leat_card_photo);
}

static const int64_t *offsets_of(const struct leat_device_photos *p)
{
    return (const int64_t *)(const void *)(p->block + leat_align64(faults_at(p->n) + 4 * p->n));
}

bool leat_device_photos_keep(struct leat_device_photos *p, const void *from, const int64_t *offsets, uint64_t n)
{
    const uint64_t begin = leat_align64(faults_at(n) + 4 * n), bytes = begin + 8 * (n + 1);
    if (p->room < bytes) {
        leat_free(p->block);
        p->room = 0;
        if (!(p->block = leat_alloc(bytes)))
            return false;
        p->room = bytes;
    }
    p->n = n;
    memcpy(p->block, from, faults_at(n));
    memset(p->block + faults_at(n), 0, 4 * n);
    memcpy(p->block + begin, offsets, 8 * (n + 1));
    return true;
}

/* Photos from `first` on that are decoded together: their places, and their scratch. */
static uint64_t place(const struct leat_device_photos *p, uint64_t first, uint64_t *scratch)
{
    struct leat_card_photo *photos = described(p) + first;
    uint64_t n = 0, bytes = 0;
    while (first + n < p->n && (!n || bytes + photos[n].scratch_bytes <= MOST_SCRATCH) && n < LEAT_CARD_BLOCKS)
        bytes += photos[n++].scratch_bytes;
    *scratch = leat_card_place(photos, n, offsets_of(p) + first);
    return n;
}

/* Pinned memory for what goes there and comes back; pageable memory would make the copier wait for the stream. */
static int stage(struct leat_device_photos *p, const struct leat_cuda *cuda, leat_cu_handle before,
                 struct leat_error *error)
{
    const uint64_t bytes = faults_at(p->n) + 4 * p->n;
    void *memory = p->staged;
    const leat_cu_result late = p->staged ? cuda->cuEventSynchronize(before) : 0;
    if (late)
        return leat_cuda_fail(cuda, late, "photos do not come to the card", error);
    if (p->staged_room < bytes + 4 * p->n) {
        if (p->staged)
            cuda->cuMemFreeHost(p->staged);
        p->staged = NULL;
        p->staged_room = 0;
        const leat_cu_result code = cuda->cuMemHostAlloc(&memory, bytes + 4 * p->n, LEAT_CU_HOST_PORTABLE);
        if (code)
            return leat_cuda_fail_pinning(cuda, code, bytes + 4 * p->n, error);
        p->staged = memory;
        p->staged_room = bytes + 4 * p->n;
    }
    p->faults = (uint32_t *)(void *)(p->staged + bytes);
    return LEAT_OK;
}

uint64_t leat_device_photos_count(const struct leat_device_photos *p)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < p->n; i++)
        n += described(p)[i].form >= LEAT_CARD_FAST;
    return n;
}

void leat_device_photos_size(const struct leat_device_photos *p, uint64_t *height, uint64_t *width)
{
    *width = p->n ? described(p)->axis[0].n : 0;
    *height = p->n ? described(p)->axis[1].n : 0;
}

int leat_device_photos_decode(struct leat_device_photos *p, struct leat_device_memory *m, const char *nvrtc,
                              leat_cu_memory data, leat_cu_memory out, leat_cu_handle stream, leat_cu_handle before,
                              struct leat_error *error)
{
    const struct leat_cuda *cuda = m->card->cuda;
    struct leat_device_buffer *told = NULL, *scratch = NULL;
    uint64_t bytes = 0, most = 0, height, width;
    int rc = stage(p, cuda, before, error);
    for (uint64_t i = 0; i < p->n;) {
        i += place(p, i, &bytes);
        most = bytes > most ? bytes : most;
    }
    rc = rc ? rc : leat_device_buffer_take(m, faults_at(p->n) + 4 * p->n, stream, &told, error);
    rc = rc ? rc : leat_device_buffer_take(m, most, stream, &scratch, error);
    leat_cu_result code = 0;
    if (!rc) {
        memcpy(p->staged, p->block, faults_at(p->n) + 4 * p->n);
        code = cuda->cuMemcpyHtoDAsync_v2(told->at, p->staged, faults_at(p->n) + 4 * p->n, stream);
    }
    leat_device_photos_size(p, &height, &width);
    for (uint64_t i = 0, n; !rc && !code && i < p->n; i += n) { /* one part behind the other has the scratch */
        n = place(p, i, &bytes);
        struct leat_photo_args a = {
            .photos = (const struct leat_card_photo *)(uintptr_t)told->at + i,
            .data = (const unsigned char *)(uintptr_t)data,
            .scratch = (unsigned char *)(uintptr_t)scratch->at,
            .out = (unsigned char *)(uintptr_t)(out + i * 3 * height * width),
            .faults = (unsigned *)(uintptr_t)(told->at + faults_at(p->n) + 4 * i),
            .n = (unsigned)n,
        };
        rc = leat_photos_launch(m->card, nvrtc, &a, stream, error);
    }
    if (!rc && !code && leat_device_photos_count(p))
        code = cuda->cuMemcpyDtoHAsync_v2(p->faults, told->at + faults_at(p->n), 4 * p->n, stream);
    leat_device_buffer_release(told);
    leat_device_buffer_release(scratch);
    return code ? leat_cuda_fail(cuda, code, "photos do not come to the card", error) : rc;
}

int leat_device_photos_check(const struct leat_device_photos *p, uint64_t *row, struct leat_error *error)
{
    for (uint64_t i = 0; i < p->n; i++)
        if (p->faults[i]) {
            *row = i;
            return leat_card_fault(&described(p)[i], p->faults[i], error);
        }
    return LEAT_OK;
}

void leat_device_photos_free(struct leat_device_photos *p, const struct leat_cuda *cuda)
{
    if (p->staged)
        cuda->cuMemFreeHost(p->staged);
    leat_free(p->block);
    *p = (struct leat_device_photos){0};
}
