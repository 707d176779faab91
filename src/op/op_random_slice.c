/*
 * RandomSlice: n elements of a list, from a place that is drawn: each of the length - n + 1 that there are is as
 * likely. A shorter list stays whole. Draw 0, of [0, length - n]: the place.
 */
#include <string.h>

#include "base/random.h"
#include "op/token_ops.h"

struct slice_args {
    int64_t n;
};

static void parse(void *into, struct leat_args *json)
{
    struct slice_args *args = into;
    leat_args_int(json, "n", 1, INT64_C(1) << 53, 0, &args->n);
    if (!args->n)
        leat_args_wrong(json, "n", "given: the elements of a slice");
}

static uint64_t count(const void *from, uint64_t n)
{
    const struct slice_args *args = from;
    return n < (uint64_t)args->n ? n : (uint64_t)args->n;
}

static int infer(const void *args, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    if (type->kind != LEAT_KIND_ARRAY || type->ndim != 1)
        return leat_op_misfit(place, type, "a list of numbers, such as tokens or residues", error);
    if (type->shape[0] >= 0)
        type->shape[0] = (int64_t)count(args, (uint64_t)type->shape[0]);
    return LEAT_OK;
}

static int call(const struct leat_use *use, const char *output, const struct leat_row *row, const void *in,
                uint64_t length, void *out, struct leat_error *error)
{
    const size_t size = leat_dtype_size(use->in.dtype), n = leat_list_count(use, length),
                 made = (size_t)count(use->op->args, n);
    const uint64_t at = leat_draw_below(leat_key_mix(row->key, use->op->instance), 0, n - made + 1);
    if (made)
        memcpy(out, (const uint8_t *)in + at * size, made * size);
    return LEAT_OK;
}

static const char *label(const void *args)
{
    return "RandomSlice";
}

const struct leat_op_class leat_op_random_slice = {.type = "RandomSlice",
                                                   .args_bytes = sizeof(struct slice_args),
                                                   .random = true,
                                                   .parse = parse,
                                                   .infer = infer,
                                                   .label = label,
                                                   .count = count,
                                                   .call = call};
