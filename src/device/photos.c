/* See photos.h. All kernels are compiled before the first one is launched: after an error none runs. */
#include "device/photos.h"

#include "base/error.h"

enum { MOST_TOGETHER = 32 }; /* blocks of a photo: more have nothing to do for one of some 500 x 375 pixels */

int leat_photos_launch(struct leat_card *card, const char *nvrtc, const struct leat_photo_args *args,
                       leat_cu_handle stream, struct leat_error *error)
{
    leat_cu_handle functions[LEAT_KERNELS_PHOTO];
    struct leat_photo_args a = *args;
    if (!a.n)
        return LEAT_OK;
    if (a.n > LEAT_CARD_BLOCKS)
        return leat_fail(error, LEAT_E_INVALID, "a card decodes up to %d photos at once, not %u", LEAT_CARD_BLOCKS,
                         a.n);
    a.together = LEAT_CARD_BLOCKS / a.n < MOST_TOGETHER ? LEAT_CARD_BLOCKS / a.n : MOST_TOGETHER;
    for (int i = 0; i < LEAT_KERNELS_PHOTO; i++) {
        const int rc = leat_card_kernel(card, nvrtc, &leat_kernel_photo[i], (const unsigned[LEAT_KERNEL_DEFINES]){0},
                                        &functions[i], error);
        if (rc)
            return rc;
    }
    leat_cu_result code = 0;
    for (int i = 0; i < LEAT_KERNELS_PHOTO && !code; i++)
        code = leat_card_launch(card, functions[i], (uint64_t)a.n * a.together, LEAT_CARD_BLOCK, &a, stream);
    return code ? leat_cuda_fail(card->cuda, code, "the card does not decode photos", error) : LEAT_OK;
}
