/*
 * GaussianBlur: arguments and distribution are those of torchvision.transforms.v2, and the pixels are within 1 of those
 * of its float arithmetic: first across, then down, with weights of 15 bits that add up to 1, and 7 bits of fraction in
 * between. Beyond its edge an image goes on mirrored, without the edge's pixel twice.
 *
 * Draw 0: sigma.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/elementary.h"
#include "base/random.h"
#include "op/filter.h"

LEAT_VECTORIZE

#define MAX_KERNEL 2047
#define WEIGHT_BITS 15
#define FRACTION_BITS 7
#define BLOCK 64

struct blur_args {
    int64_t width, height; /* of the kernel, odd */
    double low, high;      /* sigma */
};

static void parse_blur(void *into, struct leat_args *json)
{
    struct blur_args *args = into;
    int64_t size[2] = {0, 0};
    double sigma[2] = {0.1, 2.0};
    unsigned n = leat_args_ints(json, "kernel_size", 1, 2, 1, MAX_KERNEL, size);
    args->width = size[0];
    args->height = n == 2 ? size[1] : size[0];
    if (!n || args->width % 2 == 0 || args->height % 2 == 0)
        leat_args_wrong(json, "kernel_size", "an odd number of pixels of 1 to 2047, or (width, height) of these");
    if (leat_args_doubles(json, "sigma", 1, 2, sigma) == 1)
        sigma[1] = sigma[0];
    args->low = sigma[0];
    args->high = sigma[1];
    if (sigma[0] <= 0 || sigma[0] > sigma[1] || sigma[1] > 1e6)
        leat_args_wrong(json, "sigma", "a number above 0, or (low, high) of these");
}

static double draw_sigma(const struct blur_args *args, uint64_t key)
{
    return args->low + leat_draw_unit(key, 0) * (args->high - args->low);
}

/* weights[k] is that of the pixels k away on either side. Returns how far the weights reach that are not 0. */
static unsigned make_weights(double sigma, unsigned radius, uint16_t *weights)
{
    double sum = 1;
    for (unsigned k = 1; k <= radius; k++) {
        double x = (double)k / sigma;
        sum += x < 30 ? 2 * leat_math_exp(-0.5 * x * x) : 0;
    }
    unsigned given = 0, reach = 0;
    double exact = 0;
    for (unsigned k = radius; k; k--) { /* the sum is rounded */
        double x = (double)k / sigma;
        exact += x < 30 ? leat_math_exp(-0.5 * x * x) / sum * (1 << WEIGHT_BITS) : 0;
        weights[k] = (uint16_t)((unsigned)(exact + 0.5) - given);
        given += weights[k];
        reach = reach ? reach : weights[k] ? k : 0;
    }
    weights[0] = (uint16_t)((1u << WEIGHT_BITS) - 2 * given);
    return reach;
}

/* Blocks of n values; reads and writes beyond n have no meaning, and stay in scratch. */
LEAT_INLINE void across(const uint8_t *src, size_t step, const uint16_t *weights, unsigned reach, size_t n,
                        uint16_t *restrict dst)
{
    for (size_t done = 0; done < n; done += BLOCK) {
        uint32_t sum[BLOCK];
        for (unsigned i = 0; i < BLOCK; i++)
            sum[i] = (uint32_t)src[done + i] * weights[0] + (1 << (WEIGHT_BITS - FRACTION_BITS - 1));
        for (unsigned k = 1; k <= reach; k++) {
            const uint8_t *a = src + done - k * step, *b = src + done + k * step;
            uint16_t weight = weights[k];
            for (unsigned i = 0; i < BLOCK; i++)
                sum[i] += (uint32_t)(uint16_t)(a[i] + b[i]) * weight;
        }
        for (unsigned i = 0; i < BLOCK; i++)
            dst[done + i] = (uint16_t)(sum[i] >> (WEIGHT_BITS - FRACTION_BITS));
    }
}

/* rows[reach + k] is the row k below the one that is made. */
LEAT_INLINE void down(uint16_t *const *rows, const uint16_t *weights, unsigned reach, size_t n, uint8_t *restrict dst)
{
    for (size_t done = 0; done < n; done += BLOCK) {
        uint32_t sum[BLOCK];
        for (unsigned i = 0; i < BLOCK; i++)
            sum[i] = (uint32_t)rows[reach][done + i] * weights[0] + (1 << (WEIGHT_BITS + FRACTION_BITS - 1));
        for (unsigned k = 1; k <= reach; k++) {
            const uint16_t *a = rows[reach - k] + done, *b = rows[reach + k] + done;
            uint16_t weight = weights[k];
            for (unsigned i = 0; i < BLOCK; i++)
                sum[i] += (uint32_t)(uint16_t)(a[i] + b[i]) * weight;
        }
        for (unsigned i = 0; i < BLOCK; i++)
            dst[done + i] = (uint8_t)(sum[i] >> (WEIGHT_BITS + FRACTION_BITS));
    }
}

/* The scratch, all parts of it multiples of 64 bytes from each other. */
struct room {
    uint16_t *weights[2]; /* across, down */
    uint16_t **rows;
    uint8_t *line, *made; /* a row with its continuation beyond the edges, and a row of the result */
    uint16_t *ring;
    size_t slot; /* values of a row of the ring */
};

/* Lays out the scratch from `base` on, without reading it; returns its bytes. */
static size_t lay_out(const struct blur_args *args, const struct leat_image *in, uint8_t *base, struct room *room)
{
    uint64_t used = 0, step = in->column, n = in->w * step, height = (uint64_t)args->height;
    uint64_t w0 = leat_take64(&used, (uint64_t)(args->width / 2 + 1) * 2),
             w1 = leat_take64(&used, (height / 2 + 1) * 2), rows = leat_take64(&used, height * sizeof(uint16_t *));
    uint64_t line = leat_take64(&used, n + (uint64_t)(args->width - 1) * step + BLOCK),
             made = leat_take64(&used, n + BLOCK);
    uint64_t slot = (n + BLOCK - 1) / BLOCK * BLOCK,
             ring = leat_take64(&used, (in->h < height ? in->h : height) * slot * 2);
    if (base)
        *room = (struct room){{(uint16_t *)(base + w0), (uint16_t *)(base + w1)},
                              (uint16_t **)(base + rows),
                              base + line,
                              base + made,
                              (uint16_t *)(base + ring),
                              slot};
    return used;
}

static void plan_blur(const void *args, uint64_t key, const struct leat_image *in, struct leat_filter_plan *plan)
{
    plan->scratch = lay_out(args, in, NULL, NULL);
}

/* Row y with `reach` pixels more on either side, blurred across. */
LEAT_INLINE void blur_across(const uint8_t *src, const struct leat_image *in, const struct room *room, unsigned reach,
                             uint16_t *dst)
{
    size_t step = in->column;
    uint8_t *line = room->line + reach * step;
    memcpy(line, src, in->w * step);
    for (int64_t k = 1; k <= reach; k++) {
        memcpy(line - k * (int64_t)step, src + (size_t)leat_padded_index(LEAT_PAD_REFLECT, -k, in->w) * step, step);
        memcpy(line + (in->w + k - 1) * (int64_t)step,
               src + (size_t)leat_padded_index(LEAT_PAD_REFLECT, in->w + k - 1, in->w) * step, step);
    }
    across(line, step, room->weights[0], reach, in->w * step, dst);
}

LEAT_INLINE void blur(const void *from, uint64_t key, const struct leat_image *in, const struct leat_image *out,
                      void *scratch)
{
    const struct blur_args *args = from;
    struct room room = {0}; /* gcc cannot tell that there is scratch */
    lay_out(args, in, scratch, &room);
    double sigma = draw_sigma(args, key);
    unsigned sides = make_weights(sigma, (unsigned)args->width / 2, room.weights[0]);
    unsigned reach = make_weights(sigma, (unsigned)args->height / 2, room.weights[1]);
    uint32_t slots = in->h < 2 * reach + 1 ? in->h : 2 * reach + 1;
    for (unsigned plane = 0; plane < (in->column == 1 ? in->channels : 1); plane++) {
        const uint8_t *src = in->base + plane * in->plane;
        for (uint32_t y = 0, have = 0; y < in->h; y++) {
            for (; have < in->h && have <= y + reach; have++)
                blur_across(src + have * in->row, in, &room, sides, room.ring + have % slots * room.slot);
            for (int64_t k = 0; k <= 2 * (int64_t)reach; k++)
                room.rows[k] =
                    room.ring + (size_t)leat_padded_index(LEAT_PAD_REFLECT, y + k - reach, in->h) % slots * room.slot;
            down(room.rows, room.weights[1], reach, in->w * in->column, room.made);
            memcpy(out->base + plane * out->plane + y * out->row, room.made, in->w * in->column);
        }
    }
}
LEAT_FILTER_FOR_EACH_ISA(blur)

const struct leat_op_class leat_op_gaussian_blur = {.type = "GaussianBlur",
                                                    .input = LEAT_INPUT_PIXELS,
                                                    .args_bytes = sizeof(struct blur_args),
                                                    .random = true,
                                                    .parse = parse_blur,
                                                    .filter = blur_on,
                                                    .plan = plan_blur};
