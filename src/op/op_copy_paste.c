/*
 * CopyPaste: objects of another sample, cut out by their masks and put onto the row's own. Source: Ghiasi et al.,
 * "Simple Copy-Paste is a Strong Data Augmentation Method for Instance Segmentation", CVPR 2021; the choice of objects
 * and the blending are those of torchvision's detection references.
 *
 * Draws: 0: whether; 1 + i: one of the n objects, of i = 0 to n - 1: those that were drawn are pasted.
 */
#include <string.h>

#include "base/hash.h"
#include "base/random.h"
#include "op/gather.h"

static void parse(void *into, struct leat_args *json)
{
    struct leat_paste_args *args = into;
    leat_args_double(json, "p", 0, 1, 1, &args->common.p);
    leat_args_int(json, "min_area", 1, INT32_MAX, 1, &args->min_area);
    leat_args_bool(json, "blending", false, &args->blending);
}

/* Its bytes have a gap. */
static uint64_t hash(const void *from)
{
    const struct leat_paste_args *args = from;
    return leat_key_mix(leat_key_mix(leat_hash64(&args->common.p, sizeof args->common.p), (uint64_t)args->min_area),
                        args->blending);
}

void leat_paste_choose(uint64_t key, uint64_t n, bool *chosen)
{
    memset(chosen, 0, n * sizeof *chosen);
    for (uint64_t i = 0; i < n; i++)
        chosen[leat_draw_below(key, 1 + i, n)] = true;
}

/* A Gaussian of five pixels and sigma 2, in 256ths; the image is mirrored at its edges. */
#define REACH 2
static const uint16_t weights[2 * REACH + 1] = {39, 57, 64, 57, 39};

void leat_paste_blur(const uint8_t *cover, uint32_t w, uint32_t h, uint16_t *line, uint8_t *alpha)
{
    for (uint32_t y = 0; y < h; y++)
        for (uint32_t x = 0; x < w; x++) {
            uint16_t sum = 0;
            for (int k = -REACH; k <= REACH; k++)
                sum += (uint16_t)(cover[(size_t)y * w + (size_t)leat_padded_index(LEAT_PAD_REFLECT, (int64_t)x + k, w)]
                                      ? weights[k + REACH]
                                      : 0);
            line[(size_t)y * w + x] = sum;
        }
    for (uint32_t y = 0; y < h; y++)
        for (uint32_t x = 0; x < w; x++) {
            uint32_t sum = 0;
            for (int k = -REACH; k <= REACH; k++)
                sum += (uint32_t)line[(size_t)leat_padded_index(LEAT_PAD_REFLECT, (int64_t)y + k, h) * w + x] *
                       weights[k + REACH];
            alpha[(size_t)y * w + x] = (uint8_t)((sum * 255 + 32768) >> 16);
        }
}

const struct leat_op_class leat_op_copy_paste = {.type = "CopyPaste",
                                                 .input = LEAT_INPUT_PIXELS,
                                                 .args_bytes = sizeof(struct leat_paste_args),
                                                 .random = true,
                                                 .gathers = 2,
                                                 .overlays = true,
                                                 .pastes = true,
                                                 .parse = parse,
                                                 .hash = hash,
                                                 .infer = leat_overlay_infer,
                                                 .move = leat_overlay_move};
