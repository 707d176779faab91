/*
 * The samples of a data set, handed to a writer one after the other. Values that a source computes are asked for
 * together, for some samples in one call: a call may cost far more than a value.
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/internal.h"
#include "io/interrupt.h"
#include "store/writer.h"

enum { TOGETHER = 64 }; /* samples; of large values they are what memory is taken for */

struct copy {
    const struct leat_dataset *dataset;
    const size_t *fields;
    size_t n_fields, n_computed;
    size_t *computed;            /* the fields of the data set that are computed, and of each field ... */
    size_t *place;               /* ... its place among these; SIZE_MAX: it is none */
    struct leat_value *values;   /* of a sample */
    struct leat_value_ref *refs; /* what the writer gets */
};

static int begin_copy(struct copy *c, struct leat_error *error)
{
    c->computed = leat_new_array(c->n_fields + 1, sizeof *c->computed);
    c->place = leat_new_array(c->n_fields + 1, sizeof *c->place);
    c->values = leat_new_array(c->n_fields + 1, sizeof *c->values);
    c->refs = leat_new_array(c->n_fields + 1, sizeof *c->refs);
    if (!c->computed || !c->place || !c->values || !c->refs)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to copy samples");
    for (size_t f = 0; f < c->n_fields; f++) {
        const bool computed = leat_dataset_storages(c->dataset, c->fields[f]) == 1u << LEAT_STORAGE_COMPUTED;
        c->place[f] = computed ? c->n_computed : SIZE_MAX;
        if (computed)
            c->computed[c->n_computed++] = c->fields[f];
    }
    return LEAT_OK;
}

static int add_sample(struct copy *c, uint64_t sample, const struct leat_computed *computed, size_t n,
                      struct leat_writer *writer, struct leat_error *error)
{
    size_t read = 0;
    int rc = LEAT_OK;
    for (; read < c->n_fields && !rc; read += !rc) {
        struct leat_value *value = &c->values[read];
        *value = (struct leat_value){0};
        if (c->place[read] != SIZE_MAX) {
            const struct leat_computed *made = &computed[c->place[read] * n];
            c->refs[read] = (struct leat_value_ref){.data = made->data, .length = made->bytes};
            continue;
        }
        rc = leat_dataset_read(c->dataset, sample, c->fields[read], value, error);
        c->refs[read] = leat_value_given(value);
    }
    rc = rc ? rc : leat_writer_add(writer, c->refs, NULL, error);
    while (read)
        leat_value_clear(&c->values[--read]);
    return rc;
}

/* Adds n samples, at most TOGETHER. */
static int add_samples(struct copy *c, uint64_t begin, size_t n, struct leat_writer *writer, struct leat_error *error)
{
    struct leat_sample_ref refs[TOGETHER];
    uint64_t positions[TOGETHER] = {0};
    struct leat_values made = {0};
    size_t failed;
    int rc = LEAT_OK;
    for (size_t i = 0; i < n; i++)
        positions[i] = begin + i;
    leat_dataset_locate(c->dataset, positions, n, refs);
    if (c->n_computed && leat_values_init(&made, c->n_computed, n))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to copy samples");
    if (!rc && c->n_computed)
        rc = leat_dataset_compute(c->dataset, c->computed, c->n_computed, refs, n, &made, &failed, error);
    for (size_t i = 0; i < n && !rc; i++) {
        if (leat_io_interrupted())
            rc = leat_fail(error, LEAT_E_CANCELLED, "copying samples was interrupted at sample %" PRIu64, begin + i);
        rc = rc ? rc : add_sample(c, begin + i, made.at ? made.at + i : NULL, n, writer, error);
    }
    leat_values_destroy(&made);
    return rc;
}

int leat_writer_set_source(struct leat_writer *writer, const struct leat_dataset *dataset, struct leat_error *error)
{
    const struct leat_base *base = dataset->base;
    if (dataset->selected)
        return leat_fail(error, LEAT_E_INVALID,
                         "a view keeps the ids of its data set, which a file does not have: convert the whole");
    struct leat_writer_source source = {.count = base->count,
                                        .sums = {base->sums[0], base->sums[1]},
                                        .classes = base->classes,
                                        .n_classes = base->n_classes,
                                        .classes_apart = base->classes_apart};
    leat_dataset_fingerprint(dataset, source.fingerprint);
    return leat_writer_convert(writer, &source, error);
}

int leat_dataset_write(const struct leat_dataset *dataset, const size_t *fields, size_t n_fields, uint64_t begin,
                       uint64_t n, struct leat_writer *writer, struct leat_error *error)
{
    struct copy c = {.dataset = dataset, .fields = fields, .n_fields = n_fields};
    int rc = begin_copy(&c, error);
    for (uint64_t i = 0, run; i < n && !rc; i += run) {
        run = n - i < TOGETHER ? n - i : TOGETHER;
        rc = add_samples(&c, begin + i, (size_t)run, writer, error);
    }
    leat_free(c.computed);
    leat_free(c.place);
    leat_free(c.values);
    leat_free(c.refs);
    return rc;
}
