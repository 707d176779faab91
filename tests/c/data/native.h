/* A small file of leat's own format, whose values a test can compute: x[i] = 10 i, pair[i] = {i, -i}, points[i] has
 * i mod 4 rows {i, i + 0.5}, text[i] = "text i". Wants a shard size to be sharded. */
#ifndef LEAT_TESTS_NATIVE_H
#define LEAT_TESTS_NATIVE_H

#include "../files.h"
#include "leat/leat.h"

enum { X, PAIR, POINTS, TEXT, NATIVE_FIELDS };

static const struct leat_field native_fields[NATIVE_FIELDS] = {
    {.name = "x", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
    {.name = "pair", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I32, .ndim = 1, .shape = {2}},
    {.name = "points", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_F32, .ndim = 2, .shape = {-1, 2}},
    {.name = "text", .kind = LEAT_KIND_STR, .dtype = LEAT_U8},
};

static inline void native_write(const char *path, uint64_t first, uint64_t count, uint64_t shard_bytes)
{
    struct leat_error error;
    struct leat_writer *writer;
    struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    options.num_threads = 1;
    options.shard_bytes = shard_bytes;
    options.overwrite = true;
    assert_ok(leat_writer_open(path, native_fields, NATIVE_FIELDS, &options, &writer, &error));
    for (uint64_t i = first; i < first + count; i++) {
        int64_t x = (int64_t)i * 10;
        int32_t pair[2] = {(int32_t)i, -(int32_t)i};
        float points[8];
        char text[32];
        for (int p = 0; p < 8; p++)
            points[p] = (float)i + (float)(p % 2) / 2;
        snprintf(text, sizeof text, "text %" PRIu64, i);
        struct leat_value_ref values[NATIVE_FIELDS] = {
            {.data = &x, .length = 8},
            {.data = pair, .length = 8},
            {.data = points, .length = (i % 4) * 8},
            {.data = text, .length = strlen(text)},
        };
        assert_ok(leat_writer_add(writer, values, NULL, &error));
    }
    assert_ok(leat_writer_finish(writer, &error));
    leat_writer_free(writer, false);
}

#endif
