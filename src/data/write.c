/* The samples of a data set, handed to a writer one after the other. */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/internal.h"
#include "io/interrupt.h"

int leat_dataset_write(const struct leat_dataset *dataset, const size_t *fields, size_t n_fields, uint64_t begin,
                       uint64_t n, struct leat_writer *writer, struct leat_error *error)
{
    struct leat_value *values = leat_new_array(n_fields + 1, sizeof *values);
    struct leat_value_ref *refs = leat_new_array(n_fields + 1, sizeof *refs);
    int rc = values && refs ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory to copy samples");
    for (uint64_t i = begin; i < begin + n && !rc; i++) {
        size_t read = 0;
        if (leat_io_interrupted())
            rc = leat_fail(error, LEAT_E_CANCELLED, "copying samples was interrupted at sample %" PRIu64, i);
        for (; read < n_fields && !rc; read += !rc) {
            rc = leat_dataset_read(dataset, i, fields[read], &values[read], error);
            refs[read] = leat_value_given(&values[read]);
        }
        rc = rc ? rc : leat_writer_add(writer, refs, NULL, error);
        while (read)
            leat_value_clear(&values[--read]);
    }
    leat_free(values);
    leat_free(refs);
    return rc;
}
