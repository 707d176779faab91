/* The weights of the resize: a thread for each column and each row of the result. They are computed twice, once for
 * their sum, rather than kept. */
#include "device/kernels/photo.cu.h"
#include "kernels/weights.h"

/* Pixel i of the result, in one direction. */
KERNEL_FUNCTION void weights_of(const struct leat_card_axis *axis, u8 *scratch, u32 i)
{
    const u32 at = axis->from + (axis->flip ? axis->n - 1 - i : i);
    const enum leat_filter filter = (enum leat_filter)axis->filter;
    const struct leat_run run = leat_run_of(filter, axis->in, 0, (double)axis->in / axis->out, axis->taps,
                                            axis->mirrored ? axis->out - 1 - at : at);
    const u32 first = (axis->mirrored ? axis->in - run.first - run.n : run.first) - axis->skip;
    u8 *to = scratch + axis->weights_at;
    double sum = 0;
    kernel_store(to + 4 * (u64)i, 4, &first);
    kernel_store(to + 4 * ((u64)axis->n + i), 4, &run.n);
    to += 4 * ((u64)axis->n * 2 + (u64)i * axis->taps);
    KERNEL_ROLLED
    for (u32 t = 0; t < 2 * run.n; t++) { /* all for their sum, then all once more */
        const u32 k = t < run.n ? t : t - run.n;
        const double w = leat_run_weight(&run, filter, axis->in, k);
        if (t < run.n) {
            sum += w;
            continue;
        }
        const u32 weight = (u32)leat_fixed_weight(w, sum);
        kernel_store(to + 4 * (u64)(axis->mirrored ? run.n - 1 - k : k), 4, &weight);
    }
}

KERNEL_FUNCTION void photo_weights(struct leat_photo_args a)
{
    const struct photo_share s = photo_share_of(&a);
    const u32 columns = s.photo->axis[0].n, rows = s.photo->axis[1].n;
    for (u32 i = s.first; i < columns + rows; i += s.step)
        weights_of(&s.photo->axis[i >= columns], s.scratch, i < columns ? i : i - columns);
}

#ifdef __CUDACC__
extern "C" __global__ void leat_photo_weights(struct leat_photo_args a)
{
    photo_weights(a);
}
#endif
