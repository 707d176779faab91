/*
 * Batches of so many rows, counted from an origin, and the part that a rank has of each.
 */
#include "plan/cut.h"

#include "base/alloc.h"

void leat_cut_part(const struct leat_cut *cut, uint64_t real, uint64_t *begin, uint64_t *rows)
{
    uint64_t w = cut->world_size, with_padding = real;
    *begin = real;
    *rows = 0;
    if (cut->rank >= w) /* before a resume on more ranks this one had no part */
        return;
    if (real < cut->global_batch && cut->tail != LEAT_TAIL_UNEVEN)
        with_padding = (real + w - 1) / w * w;
    *begin = (uint64_t)((unsigned __int128)with_padding * cut->rank / w);
    *rows = (uint64_t)((unsigned __int128)with_padding * (cut->rank + 1u) / w) - *begin;
}

int leat_cut_batch(const struct leat_cut *cut, uint64_t epoch, uint64_t epoch_rows, uint64_t step,
                   struct leat_plan_batch *out)
{
    *out = (struct leat_plan_batch){.epoch = epoch, .step = step};
    uint64_t row;
    if (step < cut->first_step || !leat_mul_u64(step - cut->first_step, cut->global_batch, &row) ||
        !leat_add_u64(row, cut->origin, &row) || row >= epoch_rows)
        return LEAT_E_END;
    const uint64_t left = epoch_rows - row, real = left < cut->global_batch ? left : cut->global_batch;
    if (real < cut->global_batch && cut->tail == LEAT_TAIL_DROP)
        return LEAT_E_END;
    out->at = (struct leat_position){epoch, row};
    out->global_rows = real;
    out->last = left - real < (cut->tail == LEAT_TAIL_DROP ? cut->global_batch : 1);
    out->next = (struct leat_position){epoch, out->last ? epoch_rows : row + real};
    uint64_t begin;
    leat_cut_part(cut, real, &begin, &out->rows);
    out->begin = row + begin;
    return LEAT_OK;
}

uint64_t leat_cut_steps(const struct leat_cut *cut, uint64_t epoch_rows)
{
    uint64_t begin, rows;
    if (cut->origin >= epoch_rows)
        return cut->first_step;
    const uint64_t length = epoch_rows - cut->origin, whole = length / cut->global_batch;
    const uint64_t rest = length % cut->global_batch;
    leat_cut_part(cut, rest, &begin, &rows);
    return cut->first_step + whole + (rest && cut->tail != LEAT_TAIL_DROP && rows);
}
