/*
 * Writing rows. Some are worked on together: slots and entries are found first, for which there are locks; then, within
 * a guard, each row is written into its slot and its entry's word exchanged. From that on everybody sees it.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "columns/internal.h"
#include "io/guard.h"

struct job {
    struct leat_columns *c;
    const uint64_t *ids, *keys;
    const struct leat_column *columns;
    uint64_t first, n; /* rows of the call */
    uint64_t done;     /* of these, visible */
    struct {
        struct group *group;
        struct entry *entry;
        uint8_t *slot;
        uint64_t offset, length, before;
    } rows[ROWS_TOGETHER];
};

static void write_record(struct job *job, uint64_t r)
{
    const struct leat_columns *c = job->c;
    const uint64_t i = job->first + r;
    struct record *record = (struct record *)(void *)job->rows[r].slot;
    uint8_t *payload = job->rows[r].slot + sizeof *record;
    struct record header = {.id = job->ids[i], .key = job->keys ? job->keys[i] : 0, .length = job->rows[r].length};
    header.stamp = atomic_fetch_add_explicit(&job->c->stamp, 1, memory_order_relaxed);
    leat_columns_encode(c, job->columns, i, payload);
    header.checksum = leat_columns_checksum(&header, leat_hash64(payload, header.length));
    *record = header;
    job->rows[r].before = atomic_exchange_explicit(
        &job->rows[r].entry->live, leat_columns_word(job->rows[r].offset, header.stamp), memory_order_acq_rel);
}

static int write_rows(void *arg)
{
    struct job *job = arg;
    for (; job->done < job->n; job->done++)
        write_record(job, job->done);
    return LEAT_OK;
}

/* Finds slots and entries for the rows of a job, as many as it can. */
static int prepare(struct job *job, uint64_t n, struct leat_error *error)
{
    struct leat_columns *c = job->c;
    job->done = job->n = 0;
    for (uint64_t r = 0; r < n; r++) {
        const uint64_t i = job->first + r, length = leat_columns_payload(c, job->columns, i);
        int rc = leat_columns_look_up(c, job->ids[i], job->keys ? job->keys[i] : 0, true, &job->rows[r].entry, error);
        if (!rc)
            rc = leat_columns_slot(c, sizeof(struct record) + length, &job->rows[r].group, &job->rows[r].offset, error);
        if (rc)
            return rc;
        job->rows[r].length = length;
        job->rows[r].slot = leat_columns_at(c, job->rows[r].offset);
        job->n++;
    }
    return LEAT_OK;
}

static int write_some(struct job *job, uint64_t n, struct leat_error *error)
{
    int rc = prepare(job, n, error), guarded;
    struct leat_error later;
    guarded = leat_guarded(write_rows, job, &later);
    for (uint64_t r = 0; r < job->n; r++)
        leat_columns_slot_done(job->c, job->rows[r].group, job->rows[r].offset,
                               r < job->done ? job->rows[r].entry : NULL, job->rows[r].before);
    if (guarded) {
        rc = guarded;
        if (error)
            *error = later;
    }
    if (rc)
        leat_error_at_sample(error, (int64_t)job->ids[job->first + job->done], NULL);
    return rc;
}

/* ---- what is given ------------------------------------------------------------------------------------------------
 */

static int check_finite(const struct leat_field *field, const struct shape *s, const struct leat_column *column,
                        uint64_t n, struct leat_error *error)
{
    const uint64_t elements = (column->offsets ? (uint64_t)column->offsets[n] : n) * s->n_items;
    const float *values = column->data;
    for (uint64_t i = 0; i < elements; i++)
        if (!isfinite(values[i]))
            return leat_fail(error, LEAT_E_INVALID,
                             "a value of field %s is not finite: int8 has no word for that; keep it as float16",
                             field->name);
    return LEAT_OK;
}

static int check_column(const struct leat_columns *c, size_t f, const struct leat_column *column, uint64_t n,
                        struct leat_error *error)
{
    const struct leat_field *field = &c->fields[f];
    const struct shape *s = &c->shapes[f];
    const bool rounded = s->dtype == LEAT_F16 || s->dtype == LEAT_BF16 || s->dtype == LEAT_I8;
    if (column->dtype != s->dtype && !(rounded && column->dtype == LEAT_F32))
        return leat_fail(error, LEAT_E_INVALID, "field %s takes %s%s, not %s", field->name, leat_dtype_name(s->dtype),
                         rounded ? " or float32" : "", leat_dtype_name(column->dtype));
    if (s->ragged != (column->offsets != NULL))
        return leat_fail(error, LEAT_E_INVALID, "field %s: offsets belong to fields whose first dimension varies",
                         field->name);
    if (s->ragged && column->offsets[0])
        return leat_fail(error, LEAT_E_INVALID, "field %s: the first offset is 0", field->name);
    for (uint64_t i = 0; s->ragged && i < n; i++)
        if (column->offsets[i + 1] < column->offsets[i] || (uint64_t)column->offsets[i + 1] > INT64_MAX / s->item)
            return leat_fail(error, LEAT_E_INVALID, "field %s: offsets fall, or are too large", field->name);
    return rounded && s->dtype == LEAT_I8 && column->dtype == LEAT_F32 ? check_finite(field, s, column, n, error)
                                                                       : LEAT_OK;
}

static int check(const struct leat_columns *c, const uint64_t *ids, const uint64_t *keys, uint64_t n,
                 const struct leat_column *columns, struct leat_error *error)
{
    int rc;
    if (c->keyed != (keys != NULL))
        return leat_fail(error, LEAT_E_INVALID,
                         c->keyed ? "rows of %s are found by id and key: keys are missing"
                                  : "rows of %s are found by id alone",
                         c->path);
    for (uint64_t i = 0; !c->keyed && i < n; i++)
        if (ids[i] >= LEAT_COLUMNS_MAX_ID) {
            rc = leat_fail(error, LEAT_E_INVALID,
                           "id %" PRIu64 " is above the largest of a store without keys, %" PRIu64, ids[i],
                           LEAT_COLUMNS_MAX_ID - 1);
            leat_error_at_sample(error, (int64_t)ids[i], NULL);
            return rc;
        }
    for (size_t f = 0; f < c->n_fields; f++)
        if ((rc = check_column(c, f, &columns[f], n, error)))
            return rc;
    for (uint64_t i = 0; c->ragged && i < n; i++)
        if (leat_columns_payload(c, columns, i) > LEAT_COLUMNS_MAX_ROW_BYTES) {
            rc = leat_fail(error, LEAT_E_INVALID, "a row has more than %" PRIu64 " bytes", LEAT_COLUMNS_MAX_ROW_BYTES);
            leat_error_at_sample(error, (int64_t)ids[i], NULL);
            return rc;
        }
    return LEAT_OK;
}

int leat_columns_write(struct leat_columns *c, const uint64_t *ids, const uint64_t *keys, uint64_t n,
                       const struct leat_column *columns_of, struct leat_error *error)
{
    struct job job = {.c = c, .ids = ids, .keys = keys, .columns = columns_of};
    int rc = leat_columns_may_write(c, error);
    if (!rc && n)
        rc = check(c, ids, keys, n, columns_of, error);
    for (uint64_t i = 0; !rc && i < n; i += ROWS_TOGETHER) {
        job.first = i;
        rc = write_some(&job, n - i < ROWS_TOGETHER ? n - i : ROWS_TOGETHER, error);
    }
    return rc;
}
