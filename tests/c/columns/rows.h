/* Rows whose values follow from (id, key, version): any test can say whether a row that it reads is whole. */
#ifndef LEAT_TESTS_COLUMNS_ROWS_H
#define LEAT_TESTS_COLUMNS_ROWS_H

#include "../folder.h"
#include "columns/internal.h"
#include "leat/columns.h"

enum { WIDTH = 30 }; /* numbers of a row: the version, and what follows from it */

/* Most tests need no disk to be waited for. */
static inline int rows_no_sync(int fd)
{
    return fd < 0 ? -1 : 0;
}

static char path[PATH_MAX + 16]; /* the file of a test */

/* The calls of the library to the system: those of calls.c, or a test's. */
static struct calls {
    int (*open)(const char *path, int flags, mode_t mode);
    int (*allocate)(int fd, uint64_t offset, uint64_t bytes);
    int (*cut)(int fd, uint64_t bytes);
    int (*write)(int fd, const void *data, uint64_t bytes);
    int (*read)(int fd, void *data, uint64_t bytes);
    ssize_t (*put)(int fd, const void *data, uint64_t bytes, uint64_t offset);
    int (*sync)(int fd);
    int (*publish)(const char *from, const char *to);
    int (*replace)(const char *from, const char *to);
    ssize_t (*move)(int from, int to, uint64_t offset, uint64_t bytes);
    void *(*map)(int fd, uint64_t offset, uint64_t bytes, bool writable);
    int (*lock)(int fd, uint64_t number, bool wait);
} calls, plain_calls;

/* The wrapped call NAME, with its parameters and arguments in brackets. */
#define ROWS_CALL(TYPE, NAME, PARAMETERS, ARGUMENTS)                                                                   \
    TYPE __real_leat_call_##NAME PARAMETERS;                                                                           \
    TYPE __wrap_leat_call_##NAME PARAMETERS;                                                                           \
    TYPE __wrap_leat_call_##NAME PARAMETERS                                                                            \
    {                                                                                                                  \
        return calls.NAME ARGUMENTS;                                                                                   \
    }
ROWS_CALL(int, open, (const char *at, int flags, mode_t mode), (at, flags, mode))
ROWS_CALL(int, allocate, (int fd, uint64_t offset, uint64_t bytes), (fd, offset, bytes))
ROWS_CALL(int, cut, (int fd, uint64_t bytes), (fd, bytes))
ROWS_CALL(int, write, (int fd, const void *data, uint64_t bytes), (fd, data, bytes))
ROWS_CALL(int, read, (int fd, void *data, uint64_t bytes), (fd, data, bytes))
ROWS_CALL(ssize_t, put, (int fd, const void *data, uint64_t bytes, uint64_t offset), (fd, data, bytes, offset))
ROWS_CALL(int, sync, (int fd), (fd))
ROWS_CALL(int, publish, (const char *from, const char *to), (from, to))
ROWS_CALL(int, replace, (const char *from, const char *to), (from, to))
ROWS_CALL(ssize_t, move, (int from, int to, uint64_t offset, uint64_t bytes), (from, to, offset, bytes))
ROWS_CALL(void *, map, (int fd, uint64_t offset, uint64_t bytes, bool writable), (fd, offset, bytes, writable))
ROWS_CALL(int, lock, (int fd, uint64_t number, bool wait), (fd, number, wait))

static inline int rows_make_folder(void **state)
{
    make_folder(state);
    calls = plain_calls = (struct calls){__real_leat_call_open,  __real_leat_call_allocate, __real_leat_call_cut,
                                         __real_leat_call_write, __real_leat_call_read,     __real_leat_call_put,
                                         rows_no_sync,           __real_leat_call_publish,  __real_leat_call_replace,
                                         __real_leat_call_move,  __real_leat_call_map,      __real_leat_call_lock};
    snprintf(path, sizeof path, "%s/a.store", folder);
    return 0;
}

static inline int rows_remove_folder(void **state)
{
    calls = plain_calls;
    return remove_folder(state);
}

static const struct leat_field rows_field = {
    .name = "x", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U64, .ndim = 1, .shape = {WIDTH}};

static inline uint64_t rows_number(uint64_t id, uint64_t key, uint64_t version, unsigned i)
{
    uint64_t x = (id * UINT64_C(0x9e3779b97f4a7c15) ^ key) + version * UINT64_C(0xbf58476d1ce4e5b9) + i;
    x ^= x >> 31;
    return x * UINT64_C(0x94d049bb133111eb);
}

static inline void rows_fill(uint64_t id, uint64_t key, uint64_t version, uint64_t *out)
{
    out[0] = version;
    for (unsigned i = 1; i < WIDTH; i++)
        out[i] = rows_number(id, key, version, i);
}

static inline bool rows_are_whole(uint64_t id, uint64_t key, const uint64_t *row)
{
    for (unsigned i = 1; i < WIDTH; i++)
        if (row[i] != rows_number(id, key, row[0], i))
            return false;
    return true;
}

static inline int rows_open(const char *at, bool keyed, struct leat_columns **out, struct leat_error *error)
{
    struct leat_columns_options options = LEAT_COLUMNS_OPTIONS_INIT;
    options.fields = &rows_field;
    options.n_fields = 1;
    options.keyed = keyed;
    return leat_columns_open(at, &options, out, error);
}

static inline int rows_write(struct leat_columns *c, uint64_t id, const uint64_t *key, uint64_t version,
                             struct leat_error *error)
{
    uint64_t row[WIDTH];
    rows_fill(id, key ? *key : 0, version, row);
    const struct leat_column column = {.data = row, .dtype = LEAT_U64};
    return leat_columns_write(c, &id, key, 1, &column, error);
}

enum { ROWS_MANY = 300 };

/* Rows of one call. They are put into the file if their slots are adjacent, and not written through the mapping: where
 * the file is counted as one in memory, that takes rows larger than these. */
static inline int rows_write_many(struct leat_columns *c, const uint64_t *ids, const uint64_t *keys,
                                  const uint64_t *versions, uint64_t n, struct leat_error *error)
{
    static _Thread_local uint64_t rows[ROWS_MANY][WIDTH];
    for (uint64_t i = 0; i < n; i++)
        rows_fill(ids[i], keys ? keys[i] : 0, versions[i], rows[i]);
    const struct leat_column column = {.data = rows, .dtype = LEAT_U64};
    return leat_columns_write(c, ids, keys, n, &column, error);
}

/* The version of a row; 0: missing, UINT64_MAX: broken, UINT64_MAX - 1: not whole. */
static inline uint64_t rows_version(struct leat_columns *c, uint64_t id, const uint64_t *key)
{
    uint64_t row[WIDTH];
    uint8_t present;
    struct leat_error error;
    struct leat_column_out out = {.wanted = true, .data = row};
    assert_ok(leat_columns_gather(c, &id, key, 1, &out, true, &present, &error));
    if (present != LEAT_PRESENT)
        return present == LEAT_BROKEN ? UINT64_MAX : 0;
    return rows_are_whole(id, key ? *key : 0, row) ? row[0] : UINT64_MAX - 1;
}

#endif
