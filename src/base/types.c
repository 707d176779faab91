/*
 * The table of element types: name and size.
 */
#include <string.h>

#include "leat/leat.h"

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
    [LEAT_U8] = {"uint8", 1},      [LEAT_I8] = {"int8", 1},     [LEAT_U16] = {"uint16", 2},
    [LEAT_I16] = {"int16", 2},     [LEAT_U32] = {"uint32", 4},  [LEAT_I32] = {"int32", 4},
    [LEAT_U64] = {"uint64", 8},    [LEAT_I64] = {"int64", 8},   [LEAT_F16] = {"float16", 2},
    [LEAT_BF16] = {"bfloat16", 2}, [LEAT_F32] = {"float32", 4}, [LEAT_F64] = {"float64", 8},
    [LEAT_BOOL] = {"bool", 1},
};

size_t leat_dtype_size(enum leat_dtype dtype)
{
    return (size_t)dtype < sizeof types / sizeof *types ? types[dtype].bytes : 0;
}

const char *leat_dtype_name(enum leat_dtype dtype)
{
    return (size_t)dtype < sizeof types / sizeof *types && types[dtype].name ? types[dtype].name : "";
}

enum leat_dtype leat_dtype_from_name(const char *name)
{
    for (size_t i = 1; i < sizeof types / sizeof *types; i++)
        if (types[i].name && !strcmp(types[i].name, name))
            return (enum leat_dtype)i;
    return (enum leat_dtype)0;
}

const char *leat_version(void)
{
    return LEAT_VERSION;
}
