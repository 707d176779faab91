/*
 * Values that are decoded to arrays, such as sound: slices of one come out of its decoder, go through the functions of
 * the chain, and into the row. A row of fixed length (PadTo) takes no more of the value than it has room for.
 */
#include "base/error.h"
#include "op/program_internal.h"

enum { SLICE = 1 << 14 }; /* bytes, about: it stays in the first-level cache */

static int read_slices(const struct leat_compiled *c, struct leat_stage_work *work, uint64_t steps, uint8_t *dst,
                       struct leat_error *error)
{
    const size_t step = c->codec->elements * leat_dtype_size(c->codec->dtype),
                 made = c->elements * leat_dtype_size(c->out.dtype);
    const uint64_t most = step < SLICE ? SLICE / step : 1;
    int rc = LEAT_OK;
    if (!c->n_stages)
        return steps ? leat_decoder_read(work->decoder, 0, steps, dst, error) : LEAT_OK;
    if (!leat_stage_buffer((void **)&work->line, &work->room_line, most * step, 1))
        return leat_fail(error, LEAT_E_NOMEM, "No memory for %zu bytes of a decoded value.", most * step);
    for (uint64_t at = 0, n; !rc && at < steps; at += n) {
        n = steps - at < most ? steps - at : most;
        rc = leat_decoder_read(work->decoder, at, n, work->line, error);
        if (!rc)
            leat_map_elements(c, c->codec->dtype, work->line, dst + at * made, n * c->elements);
    }
    return rc;
}

int leat_slices_apply(const struct leat_compiled *c, struct leat_stage_work *work, const struct leat_row *row,
                      void *dst, struct leat_error *error)
{
    const struct leat_decode_request request = leat_row_request(row, NULL, c->face.lenient);
    uint32_t size[2];
    work->decoder = leat_decoders_get(&work->decoders, c->codec);
    if (!work->decoder)
        return leat_fail(error, LEAT_E_NOMEM, "No memory for a decoder.");
    int rc = leat_decoder_open(work->decoder, &request, size, error);
    work->health = rc == LEAT_E_DECODE ? LEAT_HEALTH_BROKEN : LEAT_HEALTH_UNCHECKED;
    if (rc)
        return rc;
    const int misfit = c->pad_steps ? leat_pad_check(c, size[0], error) : LEAT_OK;
    const uint64_t steps = c->pad_steps && size[0] > c->pad_steps ? c->pad_steps : size[0];
    rc = misfit;
    if (!rc && !c->pad_steps && size[0] != row->info.size[0]) /* for which there is room */
        rc = leat_fail(error, LEAT_E_DECODE,
                       "The value has %u steps and not the %u that its index says: pack the file again.", size[0],
                       row->info.size[0]);
    rc = rc ? rc : read_slices(c, work, steps, dst, error);
    if (!rc && c->pad_steps)
        leat_pad_fill(c, steps, dst);
    return leat_stage_end_value(work, row, rc, misfit, error);
}
