/* Operators on whole batches: the common part of those that mix rows (the share is drawn once, and each row meets the
 * one before it), and the way a batch is given to them. */
#include "op/mix.h"

#include <math.h>
#include <string.h>

#include "base/elementary.h"
#include "base/random.h"
#include "kernels/values.h"
#include "op/program_internal.h"

/* ---- Beta ---- */

/* exp(x) for x <= 0, 0 if that is below the range in which elementary.h is exact. */
static double small_exp(double x)
{
    return x < -700 ? 0 : leat_math_exp(x);
}

/* Uniform in (0, 1). */
static double open_unit(uint64_t key, uint64_t counter)
{
    return leat_draw_unit(key, counter) + 0x1p-54;
}

/* alpha <= 1: Johnk, "Erzeugung von betaverteilten und gammaverteilten Zufallszahlen", Metrika 8, 1964; in logarithms,
 * because the powers of small alpha are below all numbers. Above: algorithm BB of Cheng, "Generating beta variates with
 * nonintegral shape parameters", Communications of the ACM 21, 1978. */
double leat_draw_beta(uint64_t key, double alpha, uint64_t *counter)
{
    double lambda = alpha > 1 ? sqrt((2 * alpha - 2) / (2 * alpha * alpha - 2 * alpha)) : 0,
           gamma = alpha > 1 ? alpha + 1 / lambda : 0;
    for (;;) {
        double u = open_unit(key, (*counter)++), v = open_unit(key, (*counter)++);
        if (alpha <= 1) {
            double x = leat_math_log(u) / alpha, y = leat_math_log(v) / alpha, top = x > y ? x : y;
            if (small_exp(x) + small_exp(y) <= 1)
                return small_exp(x - top) / (small_exp(x - top) + small_exp(y - top));
            continue;
        }
        double logit = lambda * leat_math_log(u / (1 - u)), w = alpha * leat_math_exp(logit), z = u * u * v;
        double r = gamma * logit - 1.3862943611198906, s = alpha + r - w;
        if (s + 2.6094379124341003 >= 5 * z || s >= leat_math_log(z) ||
            r + 2 * alpha * leat_math_log(2 * alpha / (alpha + w)) >= leat_math_log(z))
            return w / (alpha + w);
    }
}

/* ---- common to all ---- */

void leat_mix_parse(void *into, struct leat_args *json)
{
    struct leat_mix_args *args = into;
    leat_args_int(json, "num_classes", 1, 1 << 24, 0, &args->num_classes);
    leat_args_double(json, "alpha", 1e-3, 1e6, 1, &args->alpha);
    const char *label = leat_args_text(json, "labels_getter");
    if (label && strlen(label) >= sizeof args->label)
        leat_args_wrong(json, "labels_getter", "\"default\", or the name of a field");
    else if (label && strcmp(label, "default") != 0)
        strcpy(args->label, label);
}

#define BLOCK 1024

/* row = row * keep + before * (1 - keep): float32, as torch computes it; float16 and bfloat16 through it; float64 in
 * itself. */
static void blend(enum leat_dtype dtype, uint8_t *row, const uint8_t *before, size_t n, double keep)
{
    if (dtype == LEAT_F64) {
        double a[BLOCK], b[BLOCK];
        memcpy(a, row, n * sizeof *a);
        memcpy(b, before, n * sizeof *b);
        for (size_t i = 0; i < n; i++)
            a[i] = b[i] * (1 - keep) + a[i] * keep;
        memcpy(row, a, n * sizeof *a);
        return;
    }
    float a[BLOCK], b[BLOCK], share = (float)keep, rest = (float)(1 - keep);
    leat_values_convert(dtype, LEAT_F32, row, a, n);
    leat_values_convert(dtype, LEAT_F32, before, b, n);
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] * rest + a[i] * share;
    leat_values_convert(LEAT_F32, dtype, a, row, n);
}

/* A block of all rows after the other: only a block of the last row is kept. */
void leat_mix_rows(const struct leat_batch_part *part, uint64_t rows, double keep)
{
    uint8_t last[BLOCK * 8];
    size_t size = leat_dtype_size(part->dtype);
    for (uint64_t at = 0; at < part->row_bytes; at += BLOCK * size) {
        size_t bytes = part->row_bytes - at < BLOCK * size ? (size_t)(part->row_bytes - at) : BLOCK * size;
        uint8_t *first = part->data + at;
        memcpy(last, first + (rows - 1) * part->row_bytes, bytes);
        for (uint64_t i = rows; i-- > 0;)
            blend(part->dtype, first + i * part->row_bytes, i ? first + (i - 1) * part->row_bytes : last, bytes / size,
                  keep);
    }
}

/* ---- a batch ---- */

bool leat_program_has_batch_stage(const struct leat_program *program)
{
    return program->mixes;
}

static void mix_output(const struct leat_compiled_chain *chain, const struct leat_op *op,
                       const struct leat_compiled *image, const struct leat_compiled *c, void *data, uint64_t rows,
                       uint64_t key)
{
    size_t size = leat_dtype_size(c->face.dtype);
    const struct leat_type *t = &image->out;
    struct leat_batch_part part = {.label = c->label,
                                   .dtype = c->face.dtype,
                                   .row_bytes = c->face.row_bytes,
                                   .data = data,
                                   .w = (uint32_t)leat_type_width(t),
                                   .h = (uint32_t)leat_type_height(t),
                                   .channels = (uint32_t)leat_type_channels(t)};
    if (!c->label) {
        part.w = (uint32_t)leat_type_width(&c->out);
        part.h = (uint32_t)leat_type_height(&c->out);
        part.channels = (uint32_t)leat_type_channels(&c->out);
        bool planes = c->path == LEAT_PATH_COPY ? c->out.layout == LEAT_LAYOUT_CHW
                                                : c->out.ask == LEAT_ASK_NOTHING || c->out.ask == LEAT_ASK_NCHW;
        part.column = planes ? size : size * part.channels;
        part.row = part.column * part.w;
        part.plane = planes ? part.row * part.h : size;
    }
    op->class->batch(op->args, leat_key_mix(key, op->instance), &part, rows);
}

void leat_program_finish_batch(const struct leat_program *program, void *const *dst, uint64_t rows,
                               const uint64_t *keys)
{
    for (size_t i = 0; rows && i < program->n_chains; i++) {
        const struct leat_compiled_chain *chain = &program->chains[i];
        for (size_t k = 0; chain->face.tuple && k < chain->n_uses; k++) {
            const struct leat_op *op = chain->uses[k].op;
            for (size_t f = 0; op->class->batch && f < chain->face.n_fields; f++) {
                const struct leat_compiled *c = leat_tuple_member(program, chain, f);
                if (c->pixels || c->label)
                    mix_output(chain, op, &program->outputs[chain->canvas], c, dst[c->index], rows, keys[0]);
            }
        }
    }
}
