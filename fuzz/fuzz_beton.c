/* A file of FFCV: it is refused, or each value lies within it, and no bytes are those of two. An input is u16 n, the
 * first n bytes of the file, and those from 2 MiB on, where values begin; all between are zeros. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "format/beton.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_up(const struct leat_places *p, const struct leat_beton_layout *l, size_t size)
{
    uint64_t sum = 0;
    if (!leat_beton_index_fits(p, l) || p->count != l->samples)
        abort();
    for (uint64_t i = 0; i < p->count * p->width; i++) {
        const struct leat_place *at = &p->at[i];
        if (at->offset > size || at->length > size - at->offset || (sum += at->length) > size)
            abort();
    }
}

static void read_file(const uint8_t *data, size_t size)
{
    const struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    struct leat_io_file *file;
    struct leat_beton_layout l;
    struct leat_places p;
    leat_beton_recognise(data, size);
    if (leat_io_from_memory("fuzz", data, size, &file, NULL))
        abort();
    if (!leat_beton_read_layout(file, &options, &l, NULL)) {
        for (size_t i = 0; i < l.n_columns; i++)
            if (l.columns[i].at + 8 > l.row_bytes || l.columns[i].ndim > LEAT_MAX_DIMS)
                abort();
        if (l.rows + l.samples * l.row_bytes > size)
            abort();
        if (!leat_beton_index_make(file, &l, &options, &p, NULL)) {
            look_up(&p, &l, size);
            leat_places_destroy(&p);
        }
    }
    leat_free(l.columns);
    leat_io_release(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { PAGE = 2 << 20 };
    const size_t n = size < 2 ? 0 : leat_get_u16(data);
    if (size < 2)
        return 0;
    if (n >= size - 2) {
        read_file(data + 2, size - 2);
        return 0;
    }
    uint8_t *file = leat_new_array(PAGE + size, 1);
    if (!file)
        return 0;
    memcpy(file, data + 2, n);
    memcpy(file + PAGE, data + 2 + n, size - 2 - n);
    read_file(file, PAGE + size - 2 - n);
    leat_free(file);
    return 0;
}
