/* Copies of the host's memory to a card. */
#ifndef LEAT_DEVICE_COPIES_H
#define LEAT_DEVICE_COPIES_H

#include "device/card.h"
#include "engine/region.h"

/* What lies on a card begins at multiples of this. */
static inline uint64_t leat_device_aligned(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Puts a copy into a stream: several where `from` lies in several pieces of a region that is pinned. The card was
 * entered. IO. */
static inline int leat_copy_there(const struct leat_card *card, const struct leat_region *region, leat_cu_memory to,
                                  const uint8_t *from, uint64_t bytes, leat_cu_handle stream, struct leat_error *error)
{
    leat_cu_result code = 0;
    for (uint64_t n; !code && bytes; from += n, to += n, bytes -= n) {
        n = bytes;
        if (region->pinning && from >= region->base && from < region->base + region->bytes) {
            const uint64_t piece = leat_region_piece(region, (uint64_t)(from - region->base));
            n = n < piece ? n : piece;
        }
        code = card->cuda->cuMemcpyHtoDAsync_v2(to, from, n, stream);
    }
    return code ? leat_cuda_fail(card->cuda, code, "a batch is not copied to the card", error) : LEAT_OK;
}

#endif
