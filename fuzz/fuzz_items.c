/* A folder of items: u16 bytes of index.json, that, and the bytes of every other file. It is refused, or each value is
 * read or refused, and lies within its file. The first byte of the name of the format comes first: 'm', 'l', or 't',
 * with block. */
#include <stdlib.h>
#include <string.h>

#include "../tests/c/doubles.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "format/items.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t *bytes[2]; /* of index.json, and of others */
static size_t lengths[2];

static int fuzz_open(const struct leat_io_backend *backend, const char *path, struct leat_io_file **out,
                     struct leat_error *error)
{
    const size_t n = strlen(path);
    const int other = n < 10 || strcmp(path + n - 10, "index.json") != 0;
    return leat_io_from_memory(path, bytes[other], lengths[other], out, error);
}
static const struct leat_io_backend backend = {.name = "fuzz", .open = fuzz_open};

static void read_all(struct leat_source *s)
{
    for (uint64_t i = 0; i < s->count && i < 64; i++)
        for (size_t f = 0; f < s->n_fields; f++) {
            struct leat_extent e;
            struct leat_values values;
            size_t failed;
            if (s->storage[f] == LEAT_STORAGE_COMPUTED) {
                if (leat_values_init(&values, 1, 1))
                    abort();
                if (!s->v->compute(s, &f, 1, &i, 1, &values, &failed, NULL) && !values.at[0].data)
                    abort();
                leat_values_destroy(&values);
            } else if (!s->v->extents(s, f, &i, 1, &e, &failed, NULL)) {
                struct leat_io_file *file;
                if (s->v->file(s, e.file, &file, NULL) || e.offset > file->size || e.length > file->size - e.offset)
                    abort();
                uint8_t *to = malloc(e.length + 1);
                if (to && leat_io_read(file, e.offset, e.length, to, NULL) == LEAT_E_NOMEM)
                    abort();
                free(to);
                leat_io_release(file);
            }
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    struct leat_source *source;
    if (size < 3 || (size_t)leat_get_u16(data + 1) > size - 3)
        return 0;
    bytes[0] = data + 3;
    lengths[0] = leat_get_u16(data + 1);
    bytes[1] = bytes[0] + lengths[0];
    lengths[1] = size - 3 - lengths[0];
    test_backend = &backend;
    options.format = data[0] == 'm' ? "mds" : "litdata";
    options.block = data[0] == 't' ? 4 : 0;
    options.index_dir = "/dev/null/nowhere"; /* nothing is kept */
    setenv("LEAT_LOG", "error", 1);
    if (!leat_source_open("fuzz/index.json", &options, &source, NULL)) {
        read_all(source);
        leat_source_close(source);
    }
    return 0;
}
