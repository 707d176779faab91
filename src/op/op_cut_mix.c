/*
 * CutMix: Yun et al., "CutMix: Regularization strategy to train strong classifiers with localizable features", 2019;
 * one box per batch, as torchvision.transforms.v2 draws it.
 */
#include "op/mix.h"

#include <math.h>
#include <string.h>

#include "base/random.h"

/* Puts `bytes` of each row in the place of those of the row behind it, the last one's in the first. */
static void rotate(uint8_t *first, uint64_t row_bytes, uint64_t rows, size_t bytes)
{
    uint8_t last[1024];
    for (size_t at = 0; at < bytes; at += sizeof last) {
        size_t some = bytes - at < sizeof last ? bytes - at : sizeof last;
        memcpy(last, first + (rows - 1) * row_bytes + at, some);
        for (uint64_t i = rows - 1; i > 0; i--)
            memcpy(first + i * row_bytes + at, first + (i - 1) * row_bytes + at, some);
        memcpy(first + at, last, some);
    }
}

static void cut_mix(const void *from, uint64_t key, const struct leat_batch_part *part, uint64_t rows)
{
    const struct leat_mix_args *args = from;
    uint64_t counter = 2;
    int64_t x = (int64_t)leat_draw_below(key, 0, part->w), y = (int64_t)leat_draw_below(key, 1, part->h);
    double half = 0.5 * sqrt(1 - leat_draw_beta(key, args->alpha, &counter));
    int64_t half_w = (int64_t)(half * part->w), half_h = (int64_t)(half * part->h);
    int64_t x0 = x > half_w ? x - half_w : 0, x1 = x + half_w < part->w ? x + half_w : part->w;
    int64_t y0 = y > half_h ? y - half_h : 0, y1 = y + half_h < part->h ? y + half_h : part->h;
    if (part->label) {
        leat_mix_rows(part, rows, 1 - (double)((x1 - x0) * (y1 - y0)) / ((double)part->w * part->h));
        return;
    }
    size_t size = leat_dtype_size(part->dtype);
    bool planes = part->column == size;
    for (uint32_t c = 0; c < (planes ? part->channels : 1); c++)
        for (int64_t line = y0; line < y1; line++)
            rotate(part->data + c * part->plane + (uint64_t)line * part->row + (uint64_t)x0 * part->column,
                   part->row_bytes, rows, (size_t)(x1 - x0) * part->column);
}

const struct leat_op_class leat_op_cut_mix = {.type = "CutMix",
                                              .args_bytes = sizeof(struct leat_mix_args),
                                              .random = true,
                                              .parse = leat_mix_parse,
                                              .batch = cut_mix};
