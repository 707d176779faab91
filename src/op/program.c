/*
 * Applying a compiled program: rows of one output at a time, each path its loop. The path of a photo is
 * leat_stage_run, once per stage; the paths of arrays are kernels over all rows of the call at once.
 */
#include "op/program.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "op/program_internal.h"
#include "op/values.h"

/* The decoder's part of a stage's time is measured on every 16th photo: reading the clock for each row of each photo
 * would cost as much as normalising it. */
#define DETAIL_EVERY 16

struct step_time {
    uint64_t ns, rows;
    uint64_t detail_ns, detail_decode_ns; /* of the rows measured in detail */
};

struct leat_scratch {
    const struct leat_program *program;
    struct leat_work work;
    struct step_time *times;
    uint64_t photos;
};

size_t leat_program_outputs(const struct leat_program *program)
{
    return program->n_outputs;
}

const struct leat_output *leat_program_output(const struct leat_program *program, size_t output)
{
    return &program->outputs[output].face;
}

uint64_t leat_program_hash(const struct leat_program *program)
{
    return program->hash;
}

/* ---- scratch ---- */

struct leat_scratch *leat_scratch_new(const struct leat_program *program)
{
    struct leat_scratch *scratch = leat_new(struct leat_scratch);
    if (!scratch)
        return NULL;
    scratch->program = program;
    scratch->work.kernels = program->kernels;
    scratch->times = leat_new_array(program->n_times + 1, sizeof *scratch->times);
    bool good = scratch->times != NULL;
    if (good && program->decodes)
        good = (scratch->work.decoder = leat_decoder_new()) != NULL;
    for (size_t i = 0; good && i < program->n_outputs; i++) {
        const struct leat_compiled *c = &program->outputs[i];
        if (c->path == LEAT_PATH_IMAGE && c->face.in_place)
            good = !leat_stages_reserve(c->stages, c->n_stages, &scratch->work, (uint32_t)leat_type_width(&c->in),
                                        (uint32_t)leat_type_height(&c->in));
    }
    if (good)
        return scratch;
    leat_scratch_free(scratch);
    return NULL;
}

void leat_scratch_free(struct leat_scratch *scratch)
{
    if (!scratch)
        return;
    leat_work_destroy(&scratch->work);
    leat_free(scratch->times);
    leat_free(scratch);
}

/* For photos an estimate: the decoders' own memory and the buffers for a photo of some megapixels. */
uint64_t leat_program_scratch_bytes(const struct leat_program *program)
{
    uint64_t bytes = sizeof(struct leat_scratch) + program->n_times * sizeof(struct step_time);
    if (program->decodes)
        bytes += LEAT_DECODE_BYTES;
    for (size_t i = 0; i < program->n_outputs; i++) {
        const struct leat_compiled *c = &program->outputs[i];
        if (c->path != LEAT_PATH_IMAGE)
            continue;
        if (!c->face.decodes)
            bytes += c->n_stages * 2 * (uint64_t)(leat_type_width(&c->in) * leat_type_height(&c->in) * leat_type_channels(&c->in)) *
                     leat_dtype_size(c->in.dtype);
        else
            bytes += (c->n_stages - 1) * (UINT64_C(4) << 20);
    }
    return bytes;
}

/* ---- the loops ---- */

/* Elements of an array through its maps, in blocks that stay in the first-level cache. */
static void map_elements(const struct leat_compiled *c, const uint8_t *src, uint8_t *dst, uint64_t n)
{
    enum { BLOCK = 512 };
    uint64_t a[BLOCK], b[BLOCK];
    size_t in = leat_dtype_size(c->in.dtype), out = leat_dtype_size(c->out.dtype);
    for (uint64_t done = 0; done < n; done += BLOCK) {
        size_t some = n - done < BLOCK ? (size_t)(n - done) : BLOCK;
        const void *values = src + done * in;
        for (size_t s = 0; s < c->n_stages; s++)
            values = leat_stage_map(&c->stages[s], 0, values, some, a, b);
        memcpy(dst + done * out, values, some * out);
    }
}

static void convert_elements(const struct leat_compiled *c, const void *src, void *dst, uint64_t n)
{
    if (c->convert)
        c->convert(src, dst, n);
    else
        leat_values_convert(c->in.dtype, c->out.dtype, src, dst, n);
}

/* One photo or image field. */
static int apply_image(const struct leat_compiled *c, struct leat_scratch *scratch, const struct leat_row *row, void *dst,
                       struct leat_error *error)
{
    struct leat_work *work = &scratch->work;
    struct leat_image image, target;
    bool planar = c->in.layout == LEAT_LAYOUT_CHW;
    if (!c->face.decodes) /* read only: the base loses its const in the common type of sources and targets */
        leat_image_packed(&image, &c->in, planar, (uint32_t)leat_type_width(&c->in), (uint32_t)leat_type_height(&c->in),
                          (void *)(uintptr_t)row->data);
    int rc = LEAT_OK;
    struct step_time *time = &scratch->times[c->first_time + c->face.decodes];
    for (size_t s = 0; !rc && s < c->n_stages; s++, time++) {
        const struct leat_stage *stage = &c->stages[s];
        if (stage->last)
            leat_image_packed(&target, &stage->out, stage->planar, (uint32_t)leat_type_width(&stage->out),
                              (uint32_t)leat_type_height(&stage->out), dst);
        work->detail = stage->decode && scratch->photos++ % DETAIL_EVERY == 0;
        work->decode_ns = 0;
        int64_t begin = leat_clock_ns();
        rc = leat_stage_run(stage, work, row, s || !c->face.decodes ? &image : NULL, s & 1, &target, error);
        uint64_t ns = (uint64_t)(leat_clock_ns() - begin);
        time->ns += ns;
        time->rows++;
        if (work->detail) {
            time->detail_ns += ns;
            time->detail_decode_ns += work->decode_ns;
        }
        image = target;
    }
    if (c->face.decodes)
        leat_work_trim(work);
    return rc;
}

/* Rows that are some kilobytes apart anywhere in a mapping: the next one is asked for while this one is made. */
static inline void prefetch_row(const struct leat_row *rows, size_t i, size_t n, uint64_t bytes)
{
    if (i + 1 >= n)
        return;
    const uint8_t *p = rows[i + 1].data;
    for (uint64_t k = 0; k < bytes && k < 1024; k += 64)
        __builtin_prefetch(p + k);
}

size_t leat_program_apply(const struct leat_program *program, size_t output, struct leat_scratch *scratch, const struct leat_row *rows,
                          size_t n, void *dst, struct leat_error *error)
{
    const struct leat_compiled *c = &program->outputs[output];
    uint64_t row_bytes = c->face.row_bytes;
    uint8_t *to = dst;
    if (c->path == LEAT_PATH_IMAGE) {
        for (size_t i = 0; i < n; i++)
            if (apply_image(c, scratch, &rows[i], to + i * row_bytes, error))
                return i;
        return n;
    }
    int64_t begin = leat_clock_ns();
    if (c->path == LEAT_PATH_COPY)
        program->kernels->gather(rows, n, row_bytes, dst);
    for (size_t i = 0; i < n && c->path != LEAT_PATH_COPY; i++) {
        prefetch_row(rows, i, n, c->in_bytes);
        if (c->path == LEAT_PATH_CONVERT)
            convert_elements(c, rows[i].data, to + i * row_bytes, c->elements);
        else
            map_elements(c, rows[i].data, to + i * row_bytes, c->elements);
    }
    scratch->times[c->first_time].ns += (uint64_t)(leat_clock_ns() - begin);
    scratch->times[c->first_time].rows += n;
    return n;
}

uint64_t leat_program_ragged_bytes(const struct leat_program *program, size_t output, uint64_t length)
{
    const struct leat_compiled *c = &program->outputs[output];
    return c->in_bytes ? length / c->in_bytes * c->face.row_bytes : 0;
}

int leat_program_apply_ragged(const struct leat_program *program, size_t output, struct leat_scratch *scratch, const struct leat_row *row,
                              void *dst, struct leat_error *error)
{
    const struct leat_compiled *c = &program->outputs[output];
    if (c->in_bytes ? row->length % c->in_bytes : row->length)
        return leat_fail(error, LEAT_E_DECODE,
                         "A value of output '%s' has %llu bytes, which is no multiple of the %llu bytes of one of its rows.", c->face.name,
                         (unsigned long long)row->length, (unsigned long long)c->in_bytes);
    int64_t begin = leat_clock_ns();
    uint64_t n = row->length / leat_dtype_size(c->in.dtype);
    if (c->path == LEAT_PATH_COPY)
        memcpy(dst, row->length ? row->data : dst, row->length);
    else if (c->path == LEAT_PATH_CONVERT)
        convert_elements(c, row->data, dst, n);
    else
        map_elements(c, row->data, dst, n);
    scratch->times[c->first_time].ns += (uint64_t)(leat_clock_ns() - begin);
    scratch->times[c->first_time].rows++;
    return LEAT_OK;
}

/* ---- times ---- */

size_t leat_scratch_times(const struct leat_scratch *scratch, struct leat_step_time *times, size_t room)
{
    size_t used = 0;
    for (size_t i = 0; i < scratch->program->n_outputs; i++) {
        const struct leat_compiled *c = &scratch->program->outputs[i];
        const struct step_time *t = &scratch->times[c->first_time];
        if (!c->n_stages && used < room)
            times[used++] = (struct leat_step_time){c->face.name, "copy", t->ns, t->rows};
        for (size_t s = 0; s < c->n_stages; s++) {
            const struct leat_stage *stage = &c->stages[s];
            const struct step_time *st = &t[s + c->face.decodes];
            uint64_t decode = st->detail_ns ? (uint64_t)((double)st->ns * (double)st->detail_decode_ns / (double)st->detail_ns) : 0;
            if (stage->decode && used < room)
                times[used++] = (struct leat_step_time){c->face.name, "Decode", decode, st->rows};
            if (used < room)
                times[used++] = (struct leat_step_time){c->face.name, stage->label, st->ns - decode, st->rows};
        }
    }
    return used;
}
