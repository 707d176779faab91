/* Tables of Huffman codes become tables by the next bits: a thread for each entry. */
#include "device/kernels/photo_coded.cu.h"

KERNEL_FUNCTION void photo_codes(struct leat_photo_args a)
{
    const struct photo_share s = photo_share_of(&a);
    const struct leat_card_photo *photo = s.photo;
    const u32 looks = 1u << LEAT_CARD_LOOK, items = photo->form == LEAT_CARD_CODED ? photo->n_tables * looks : 0;
    const u8 *const tables = s.data + photo->n_starts * sizeof(struct leat_card_start);
    for (u32 i = s.first; i < items; i += s.step) {
        const u8 *const table = tables + i / looks * sizeof(struct leat_card_codes);
        const u32 code = coded_find(table, i % looks << (32 - LEAT_CARD_LOOK), LEAT_CARD_LOOK);
        kernel_store(s.scratch + photo->codes_at + 2 * (u64)i, 2, &code);
    }
}

#ifdef __CUDACC__
extern "C" __global__ void leat_photo_codes(struct leat_photo_args a)
{
    photo_codes(a);
}
#endif
