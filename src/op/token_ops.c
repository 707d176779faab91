/* The common part of operators on tokens. */
#include "op/token_ops.h"

#include <string.h>

size_t leat_tokens_count(enum leat_dtype dtype, const void *src, uint64_t bytes, bool has_fill, int64_t fill)
{
    const size_t size = leat_dtype_size(dtype);
    size_t n = (size_t)(bytes / size);
    while (has_fill && n && !memcmp((const uint8_t *)src + (n - 1) * size, &fill, size)) /* little endian */
        n--;
    return n;
}

bool leat_type_is_tokens(const struct leat_type *type)
{
    return type->kind == LEAT_KIND_ARRAY && type->layout == LEAT_LAYOUT_NONE && type->ndim == 1 &&
           type->dtype <= LEAT_I64; /* the integers stand first in the enumeration */
}

bool leat_args_part(struct leat_args *args)
{
    static const char *const words[] = {"inputs", "labels", NULL};
    unsigned word;
    leat_args_word(args, "part", words, 0, &word);
    return word == 1;
}

void leat_args_token(struct leat_args *args, const char *name, int64_t fallback, int64_t *out)
{
    leat_args_int(args, name, 0, (INT64_C(1) << 53) - 1, fallback, out);
}

int leat_infer_tokens(const void *from, const struct leat_place *place, struct leat_type *type,
                      struct leat_effect *effect, struct leat_error *error)
{
    if (!leat_type_is_tokens(type))
        return leat_op_misfit(place, type, "a list of integers", error);
    type->dtype = LEAT_I64;
    type->range = LEAT_RANGE_PLAIN;
    return LEAT_OK;
}

uint64_t leat_count_tokens(const void *args, uint64_t n)
{
    return n;
}
