/*
 * Writing rows. Some are worked on together:
 *
 *     prepare   slots and entries are found, for which there are locks
 *     put       each row's record is written into its slot
 *     publish   the entries' words are exchanged, in the order of the rows. From that on everybody sees them
 *
 * Records get into the file in two ways. Through the mapping is fast if a page is mapped and dirty; its first touch is
 * a page fault, which takes several times as long as the row. So pages that were not written to since the last flush
 * are put: records are made in a buffer, and those that are adjacent in the file are written by one call. Both ways
 * meet in the page cache, so readers and flushes need not know. The way by which a page was written lately is a hint:
 * the system may have written it to disk since, and then it faults.
 */
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/role.h"
#include "columns/internal.h"
#include "io/guard.h"
#include "kernels/sparse.h"

struct job {
    struct leat_columns *c;
    const uint64_t *ids, *keys;
    const struct leat_column *columns;
    struct scratch *scratch;
    uint64_t size;     /* of the file; UINT64_MAX: not asked for yet */
    uint16_t era;      /* that puts are counted in */
    uint64_t first, n; /* rows of the call */
    uint64_t done;     /* of these, visible */
    int put_errno;     /* why a row could not be put, 0: all were */
    uint64_t put_at;
    uint8_t order[WRITTEN_TOGETHER]; /* of rows, as they lie in the file */
    struct {
        struct group *group;
        struct entry *entry;
        uint8_t *slot;
        uint64_t offset, bytes, stamp, before; /* bytes: of its record */
        bool written;
    } rows[WRITTEN_TOGETHER];
};

static void make_record(struct job *job, uint64_t r, void *to)
{
    const uint64_t i = job->first + r;
    struct record *record = to;
    uint8_t *payload = (uint8_t *)to + sizeof *record;
    struct record header = {
        .id = job->ids[i], .key = job->keys ? job->keys[i] : 0, .length = job->rows[r].bytes - sizeof header};
    header.stamp = atomic_fetch_add_explicit(&job->c->stamp, 1, memory_order_relaxed);
    leat_columns_encode(job->c, job->columns, i, payload);
    header.checksum = leat_columns_checksum(&header, leat_hash64(payload, header.length));
    *record = header;
    job->rows[r].stamp = header.stamp;
}

/* ---- pages --------------------------------------------------------------------------------------------------------
 */

/* A word about a page: in which era it was put, and how often. An era ends with a flush, and after some seconds: from
 * then on pages may have been written to disk, and the next touch is a fault. In memory there is one era only. */
enum { PUTS_SHIFT = 4, PUTS_MASK = (1 << PUTS_SHIFT) - 1, ERA_SHIFT = 4 };

static uint16_t era_now(const struct leat_columns *c)
{
    struct timespec now = {0};
    if (c->in_memory)
        return 0;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    const uint64_t flushes = atomic_load_explicit(&c->flushes, memory_order_relaxed);
    return (uint16_t)((flushes + ((uint64_t)now.tv_sec >> ERA_SHIFT)) << PUTS_SHIFT);
}

static _Atomic uint16_t *puts_of(const struct job *job, uint64_t r, uint64_t offset)
{
    const struct group *g = job->rows[r].group;
    return &g->puts[(offset - (g->segment << SEGMENT_SHIFT)) >> PAGE_SHIFT];
}

/* Whether a row is to be written through the mapping, as its last page was: the first page of a job that goes on at the
 * end of another one was put by that one. */
static bool goes_through_mapping(const struct job *job, uint64_t r)
{
    if (job->c->in_memory && job->rows[r].bytes < PUT_ROW_IN_MEMORY)
        return true;
    const uint64_t end = job->rows[r].offset + job->rows[r].bytes;
    const uint16_t puts = atomic_load_explicit(puts_of(job, r, end - 1), memory_order_relaxed);
    const int most = job->c->in_memory ? PUTS_IN_MEMORY : PUTS_ON_DISK;
    return (puts & ~PUTS_MASK) == job->era && (puts & PUTS_MASK) >= most;
}

/* Notes how row r's pages from `from` on were written. */
static void note_pages(const struct job *job, uint64_t r, uint64_t from, bool through_mapping)
{
    const uint64_t end = job->rows[r].offset + job->rows[r].bytes;
    for (uint64_t at = from; at < end; at = ((at >> PAGE_SHIFT) + 1) << PAGE_SHIFT) {
        _Atomic uint16_t *page = puts_of(job, r, at);
        uint16_t puts = atomic_load_explicit(page, memory_order_relaxed);
        if ((puts & ~PUTS_MASK) != job->era)
            puts = job->era;
        if (through_mapping || (puts & PUTS_MASK) == PUTS_MASK)
            puts |= PUTS_MASK;
        else
            puts++;
        atomic_store_explicit(page, puts, memory_order_relaxed);
    }
}

/* ---- putting ------------------------------------------------------------------------------------------------------
 */

static void put_mapped(struct job *job, uint64_t r)
{
    make_record(job, r, job->rows[r].slot);
    atomic_signal_fence(memory_order_seq_cst); /* a writer that is abandoned after this has written it */
    job->rows[r].written = true;
    note_pages(job, r, job->rows[r].offset, true);
}

static uint64_t slot_bytes(const struct job *job, uint64_t r)
{
    return (uint64_t)job->rows[r].group->units * UNIT;
}

/* A file that was cut is left to the mapping, which finds that out: it must not become longer. */
static bool is_in_file(struct job *job, uint64_t end)
{
    struct stat st;
    if (job->size == UINT64_MAX)
        job->size = fstat(job->c->fd, &st) ? 0 : (uint64_t)st.st_size;
    return end <= job->size;
}

/* The end of the run that begins with row order[k], and its number of bytes. */
static uint64_t run_from(struct job *job, uint64_t k, uint64_t *bytes)
{
    const uint64_t begin = job->rows[job->order[k]].offset;
    uint64_t at = begin, room = job->scratch ? job->scratch->room : 0;
    if (room > PUT_BYTES && job->rows[job->order[k]].bytes < PUT_BYTES)
        room = PUT_BYTES;
    *bytes = 0;
    for (; k < job->n; k++) {
        const uint64_t r = job->order[k], end = job->rows[r].offset + job->rows[r].bytes;
        if (job->rows[r].offset != at || end - begin > room || goes_through_mapping(job, r) || !is_in_file(job, end))
            break;
        *bytes = end - begin;
        at += slot_bytes(job, r);
    }
    return k;
}

static bool put_all(struct job *job, uint64_t offset, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes;) {
        const ssize_t n =
            leat_call_put(job->c->fd, (const uint8_t *)job->scratch->bytes + done, bytes - done, offset + done);
        if (n > 0) {
            done += (uint64_t)n;
        } else if (n == 0 || errno != EINTR) {
            job->put_errno = n ? errno : EIO;
            job->put_at = offset + done;
            return false;
        }
    }
    return true;
}

/* Puts rows order[k] to order[end], which are adjacent. The bytes between their records have no owner: they are of
 * others that were made here before, or zeroes. */
static bool put_run(struct job *job, uint64_t k, uint64_t end, uint64_t bytes)
{
    const uint64_t begin = job->rows[job->order[k]].offset;
    uint64_t noted = begin;
    for (uint64_t i = k; i < end; i++) {
        const uint64_t r = job->order[i], at = job->rows[r].offset - begin;
        make_record(job, r, (uint8_t *)job->scratch->bytes + at);
    }
    if (!put_all(job, begin, bytes))
        return false;
    for (uint64_t i = k; i < end; i++) {
        const uint64_t r = job->order[i], at = job->rows[r].offset;
        job->rows[r].written = true;
        note_pages(job, r, at > noted ? at : noted, false);
        noted = (((at + job->rows[r].bytes - 1) >> PAGE_SHIFT) + 1) << PAGE_SHIFT;
    }
    return true;
}

/* Writes the records, until one cannot be. */
static void put_rows(struct job *job)
{
    for (uint64_t k = 0; k < job->n;) {
        uint64_t bytes, end = run_from(job, k, &bytes);
        if (bytes >= PUT_LEAST) {
            if (!put_run(job, k, end, bytes))
                return;
            k = end;
            continue;
        }
        for (end += end == k; k < end; k++)
            put_mapped(job, job->order[k]);
    }
}

/* Rows are visible in their order, up to the first that could not be written. */
static int publish(void *arg)
{
    struct job *job = arg;
    for (; job->done < job->n && job->rows[job->done].written; job->done++) {
        const uint64_t r = job->done, w = leat_columns_word(job->rows[r].offset, job->rows[r].stamp);
        job->rows[r].before = atomic_exchange_explicit(&job->rows[r].entry->live, w, memory_order_acq_rel);
    }
    return LEAT_OK;
}

static int write_rows(void *arg)
{
    put_rows(arg);
    return publish(arg);
}

/* ---- a job --------------------------------------------------------------------------------------------------------
 */

/* Finds slots and entries for the rows of a job, as many as it can. */
static int prepare(struct job *job, uint64_t n, struct leat_error *error)
{
    struct leat_columns *c = job->c;
    job->done = job->n = 0;
    job->put_errno = 0;
    for (uint64_t r = 0; r < n; r++) {
        const uint64_t i = job->first + r, bytes = sizeof(struct record) + leat_columns_payload(c, job->columns, i);
        int rc = leat_columns_look_up(c, job->ids[i], job->keys ? job->keys[i] : 0, true, &job->rows[r].entry, error);
        if (!rc)
            rc = leat_columns_slot(c, bytes, &job->rows[r].group, &job->rows[r].offset, error);
        if (rc)
            return rc;
        uint64_t k = job->n++;
        for (; k && job->rows[job->order[k - 1]].offset > job->rows[r].offset; k--)
            job->order[k] = job->order[k - 1];
        job->order[k] = (uint8_t)r;
        job->rows[r].bytes = bytes;
        job->rows[r].slot = leat_columns_at(c, job->rows[r].offset);
        job->rows[r].written = false;
    }
    job->era = era_now(c);
    job->size = UINT64_MAX;
    return LEAT_OK;
}

static int say_unwritten(const struct job *job, struct leat_error *error)
{
    errno = job->put_errno;
    leat_fail_errno(error, LEAT_E_IO, "%s cannot be written to; what it holds is as it was", job->c->path);
    leat_error_at_file(error, job->c->path, (int64_t)job->put_at);
    return LEAT_E_IO;
}

static int write_some(struct job *job, uint64_t n, struct leat_error *error)
{
    int rc = prepare(job, n, error), guarded;
    struct leat_error later;
    guarded = leat_guarded(write_rows, job, &later);
    if (guarded) /* those before the one that could not be written */
        leat_guarded(publish, job, NULL);
    for (uint64_t r = 0; r < job->n; r++)
        leat_columns_slot_done(job->c, job->rows[r].group, job->rows[r].offset,
                               r < job->done ? job->rows[r].entry : NULL, job->rows[r].before);
    if (guarded) {
        rc = guarded;
        if (error)
            *error = later;
    } else if (job->put_errno)
        rc = say_unwritten(job, error);
    if (rc)
        leat_error_at_sample(error, (int64_t)job->ids[job->first + job->done], NULL);
    return rc;
}

/* Room for the records of a job, as much as is worth while: that of the last writer. Without it rows are written
 * through the mapping. */
static void get_scratch(struct job *job, uint64_t n)
{
    struct leat_columns *c = job->c;
    uint64_t bytes = 0, row, most = 0;
    for (uint64_t i = 0; i < n && (i < WRITTEN_TOGETHER || c->ragged); i++) {
        row = sizeof(struct record) + leat_columns_payload(c, job->columns, i);
        row += row / 8 + UNIT; /* as its slot */
        most = row > most && row <= PUT_MOST ? row : most;
        bytes += row;
    }
    if (bytes < c->put_least)
        return;
    bytes = bytes > PUT_BYTES ? PUT_BYTES : bytes;
    bytes = bytes > most ? bytes : most;
    struct scratch *s = atomic_exchange(&c->scratch, NULL);
    if (s && s->room < bytes) {
        leat_free(s);
        s = NULL;
    }
    if (!s && (s = leat_new_array(1, sizeof *s + bytes)))
        s->room = bytes;
    job->scratch = s;
}

static void give_scratch_back(struct job *job)
{
    if (job->scratch)
        leat_free(atomic_exchange(&job->c->scratch, job->scratch));
}

/* ---- checks of the input ------------------------------------------------------------------------------------------
 */

/* The row of an element. */
static uint64_t row_of(const struct shape *s, const struct leat_column *column, uint64_t element)
{
    uint64_t row = element / s->n_items;
    if (!column->offsets)
        return row;
    uint64_t i = 0;
    while ((uint64_t)column->offsets[i + 1] <= row)
        i++;
    return i;
}

/* The first of n numbers from `least` to `most`, whatever their sign, or n. */
static uint64_t find_between(const float *values, uint64_t n, float least, float most)
{
    enum { TOGETHER = 256 };
    for (uint64_t i = 0; i < n; i += TOGETHER) {
        const uint64_t end = n - i < TOGETHER ? n : i + TOGETHER;
        int found = 0;
        for (uint64_t k = i; k < end; k++)
            found |= (fabsf(values[k]) >= least) & (fabsf(values[k]) <= most);
        for (uint64_t k = i; found && k < end; k++)
            if (fabsf(values[k]) >= least && fabsf(values[k]) <= most)
                return k;
    }
    return n;
}

/* Refuses float32 that has no word in a smaller format: for int8 all that is not finite, for others finite ones that
 * would be infinite there. */
static int check_floats(const struct leat_field *field, const struct shape *s, const struct leat_column *column,
                        const uint64_t *ids, uint64_t n, struct leat_error *error)
{
    const uint64_t elements = (column->offsets ? (uint64_t)column->offsets[n] : n) * s->n_items;
    const float *values = column->data;
    uint64_t i = 0;
    if (s->dtype == LEAT_I8)
        while (i < elements && isfinite(values[i]))
            i++;
    else
        i = find_between(values, elements, s->dtype == LEAT_F16 ? 65520.0F : 0x1.ffp127F, FLT_MAX);
    if (i == elements)
        return LEAT_OK;
    const uint64_t id = ids[row_of(s, column, i)];
    const int rc = leat_fail(error, LEAT_E_INVALID,
                             s->dtype == LEAT_I8
                                 ? "field %s of id %" PRIu64 ": %g is not finite, for which int8 has no word: keep it "
                                   "as float16"
                                 : "field %s of id %" PRIu64 ": %g is beyond what its numbers have: keep it as float32",
                             field->name, id, (double)values[i]);
    leat_error_at_sample(error, (int64_t)id, NULL);
    return rc;
}

/* Refuses sparse rows whose columns do not rise, or are beyond the last. */
static int check_sparse(const struct leat_field *field, const struct leat_column *column, const uint64_t *ids,
                        uint64_t n, struct leat_error *error)
{
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t begin = (uint64_t)column->offsets[i], values = (uint64_t)column->offsets[i + 1] - begin;
        const uint8_t *row = (const uint8_t *)column->data + begin * leat_sparse_step(field->item);
        if (!values || leat_sparse_rises(row, field->item, values, field->columns))
            continue;
        const int rc = leat_fail(error, LEAT_E_INVALID,
                                 "field %s of id %" PRIu64 ": columns of a sparse row rise, and are 0 to %" PRId64,
                                 field->name, ids[i], field->columns - 1);
        leat_error_at_sample(error, (int64_t)ids[i], NULL);
        return rc;
    }
    return LEAT_OK;
}

static int check_column(const struct leat_columns *c, size_t f, const struct leat_column *column, const uint64_t *ids,
                        uint64_t n, struct leat_error *error)
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
    if (field->columns)
        return check_sparse(field, column, ids, n, error);
    return rounded && column->dtype == LEAT_F32 ? check_floats(field, s, column, ids, n, error) : LEAT_OK;
}

static int check(const struct leat_columns *c, const uint64_t *ids, const uint64_t *keys, uint64_t n,
                 const struct leat_column *columns, struct leat_error *error)
{
    int rc = leat_columns_check_ids(c, ids, keys, n, error);
    for (size_t f = 0; !rc && f < c->n_fields; f++)
        rc = check_column(c, f, &columns[f], ids, n, error);
    if (rc)
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
    struct job job; /* of some KB: not set as a whole */
    int rc = leat_columns_may_write(c, error);
    if (!rc && n)
        rc = check(c, ids, keys, n, columns_of, error);
    if (rc)
        return rc;
    job.c = c;
    job.ids = ids;
    job.keys = keys;
    job.columns = columns_of;
    job.scratch = NULL;
    get_scratch(&job, n);
    for (uint64_t i = 0; !rc && i < n; i += WRITTEN_TOGETHER) {
        job.first = i;
        rc = write_some(&job, n - i < WRITTEN_TOGETHER ? n - i : WRITTEN_TOGETHER, error);
    }
    give_scratch_back(&job);
    return rc;
}
