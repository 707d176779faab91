/*
 * Windows over the records of a data set: parts of `length` elements of one of its fields, each a sample. Only numbers
 * are kept: how many elements each record has, and how many windows there are before it. So a billion windows take 16
 * bytes per record.
 *
 *     record    0 1 2 3 4 5 6 7 8 9 10        11 elements, windows of 4, stride 3
 *     all       [0 1 2 3]   [6 7 8 9]
 *                     [3 4 5 6]
 *     short                       [9 10]
 *     cover                   [7 8 9 10]
 *
 * A window is reached as its record is. The part of a value that lies in a file is a part of its extent: if the value
 * has checksums, leat_extent_narrow says what is read along, so that a part is verified as the whole would be.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/search.h"
#include "data/internal.h"
#include "format/fingerprint.h"

enum { CHUNK = 256 };
/* Records that are computed at a time have at most so many bytes, but for one. */
#define MOST_COMPUTED (UINT64_C(16) << 20)
#define MOST_STEPS (UINT64_C(1) << 62) /* elements of a window, and between two */

/* The fields: the record's own, its name if it has one, and the begin. */
enum { CUT = 0, FIELDS = 3 };

struct windows {
    struct leat_source source;
    struct leat_dataset *records;
    size_t theirs[FIELDS]; /* the field of the records; SIZE_MAX: begin */
    struct leat_field fields[FIELDS];
    uint8_t storage[FIELDS];
    uint64_t *lengths; /* elements of each record */
    uint64_t *before;  /* windows before each record; at the end, all */
    uint64_t length, stride;
    enum leat_windows_tail tail;
    uint64_t element; /* bytes of one */
};

/* A window: elements [begin, begin + count) of a record. */
struct part {
    uint64_t record, begin, count;
};

/* Windows of a record of n elements. */
static uint64_t count_windows(const struct windows *w, uint64_t n)
{
    if (n <= w->length)
        return w->tail == LEAT_WINDOWS_DROP ? n == w->length : n > 0;
    const uint64_t more = n - w->length, steps = more / w->stride, rest = more % w->stride;
    if (!rest || w->tail == LEAT_WINDOWS_DROP)
        return steps + 1;
    return steps + 1 + (w->tail == LEAT_WINDOWS_COVER || w->stride < n - steps * w->stride);
}

static struct part find(const struct windows *w, uint64_t sample)
{
    const uint64_t record = LEAT_BISECT(i, 1, leat_dataset_count(w->records), w->before[i] <= sample) - 1;
    const uint64_t n = w->lengths[record];
    uint64_t begin = (sample - w->before[record]) * w->stride;
    if (w->tail == LEAT_WINDOWS_COVER && n > w->length && begin > n - w->length)
        begin = n - w->length;
    return (struct part){record, begin, n - begin < w->length ? n - begin : w->length};
}

static const struct leat_dataset *windows_behind(const struct leat_source *source, size_t *field, uint64_t *sample)
{
    const struct windows *w = (const struct windows *)source;
    *field = w->theirs[*field];
    if (sample)
        *sample = find(w, *sample).record;
    return w->records;
}

static int check_length(const struct windows *w, uint64_t record, uint64_t bytes, struct leat_error *error)
{
    if (bytes == w->lengths[record] * w->element)
        return LEAT_OK;
    return leat_fail(error, LEAT_E_CHANGED,
                     "record %" PRIu64 " has %" PRIu64 " elements, and had %" PRIu64
                     " when its windows were made: open the data set again",
                     record, bytes / w->element, w->lengths[record]);
}

static int windows_extents(struct leat_source *source, size_t field, const uint64_t *samples, size_t n,
                           struct leat_extent *extents, size_t *failed, struct leat_error *error)
{
    const struct windows *w = (const struct windows *)source;
    struct leat_sample_ref refs[CHUNK];
    struct part parts[CHUNK];
    uint64_t records[CHUNK] = {0};
    for (size_t i = 0; i < n; i++) { /* at most CHUNK: leat_dataset_extents */
        parts[i] = find(w, samples[i]);
        records[i] = parts[i].record;
    }
    leat_dataset_locate(w->records, records, n, refs);
    int rc = leat_dataset_extents(w->records, w->theirs[field], refs, n, extents, failed, error);
    for (size_t i = 0; i < n && !rc && field == CUT; i++) {
        size_t of = w->theirs[field];
        *failed = i;
        leat_ref_resolve(&refs[i], &of);
        if (!(rc = check_length(w, parts[i].record, extents[i].length, error)))
            leat_extent_narrow(&refs[i], &extents[i], parts[i].begin * w->element, parts[i].count * w->element);
    }
    return rc;
}

/* Puts what a window has of a value of its record. */
static int put(const struct windows *w, size_t field, const struct part *p, const uint8_t *value, uint64_t bytes,
               struct leat_values *out, size_t f, size_t i, struct leat_error *error)
{
    int rc = field == CUT ? check_length(w, p->record, bytes, error) : LEAT_OK;
    if (!rc && leat_values_put(out, f, i, field == CUT ? value + p->begin * w->element : value,
                               field == CUT ? p->count * w->element : bytes))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for computed values");
    return rc;
}

/* Values that are at hand: the begins, and what lies in memory. *left: fields of which there is more to compute. */
static int put_at_hand(const struct windows *w, const size_t *fields, size_t n_fields, const struct part *parts,
                       size_t n, struct leat_values *out, bool left[FIELDS], size_t *failed, struct leat_error *error)
{
    int rc = LEAT_OK;
    for (size_t i = 0; i < n && !rc; i++)
        for (size_t f = 0; f < n_fields && !rc; f++) {
            struct leat_sample_ref ref;
            const int64_t begin = (int64_t)parts[i].begin;
            const uint8_t *value = (const uint8_t *)&begin;
            uint64_t bytes = sizeof begin;
            size_t of = w->theirs[fields[f]];
            *failed = i;
            if (of != SIZE_MAX) {
                leat_dataset_locate(w->records, &parts[i].record, 1, &ref);
                leat_ref_resolve(&ref, &of);
                value = ref.source->v->in_memory ? ref.source->v->in_memory(ref.source, of, ref.sample, &bytes) : NULL;
            }
            if (fields[f] == CUT && bytes != w->lengths[parts[i].record] * w->element)
                value = NULL; /* the record is a window itself, of a longer value */
            if (value)
                rc = put(w, fields[f], &parts[i], value, bytes, out, f, i, error);
            else
                left[f] = true;
        }
    return rc;
}

/* Values of some windows from those of their records, each of which is computed once for neighbours. *done: so many. */
static int compute_some(const struct windows *w, const size_t *fields, const size_t *at, size_t n_fields,
                        const struct part *parts, size_t first, size_t n, struct leat_values *out, size_t *done,
                        size_t *failed, struct leat_error *error)
{
    struct leat_values values;
    struct leat_sample_ref refs[CHUNK];
    size_t of[CHUNK], theirs[FIELDS], n_records = 0, k = 0, bad;
    uint64_t bytes = 0;
    for (; k < n - first && k < CHUNK; k++) {
        const struct part *p = &parts[first + k];
        if (!k || p->record != p[-1].record) {
            const uint64_t more = w->lengths[p->record] * w->element;
            if (k && (more > MOST_COMPUTED || bytes > MOST_COMPUTED - more))
                break;
            bytes += more;
            leat_dataset_locate(w->records, &p->record, 1, &refs[n_records++]);
        }
        of[k] = n_records - 1;
    }
    *done = k;
    *failed = n;
    for (size_t f = 0; f < n_fields; f++)
        theirs[f] = w->theirs[fields[f]];
    if (leat_values_init(&values, n_fields, n_records))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to compute values");
    values.cancelled = out->cancelled;
    values.may_lack = out->may_lack;
    bad = n_records;
    int rc = leat_dataset_compute(w->records, theirs, n_fields, refs, n_records, &values, &bad, error);
    for (size_t i = 0; rc && i < k && *failed == n; i++)
        *failed = of[i] == bad ? first + i : n;
    for (size_t i = 0; i < k && !rc; i++)
        for (size_t f = 0; f < n_fields && !rc; f++) {
            const struct leat_computed *whole = &values.at[f * n_records + of[i]];
            *failed = first + i;
            if (out->at[at[f] * n + first + i].data) /* it was at hand */
                continue;
            if (whole->lacking)
                leat_values_lack(out, at[f], first + i);
            else
                rc = put(w, fields[f], &parts[first + i], whole->data, whole->bytes, out, at[f], first + i, error);
        }
    leat_values_destroy(&values);
    return rc;
}

static int windows_compute(struct leat_source *source, const size_t *fields, size_t n_fields, const uint64_t *samples,
                           size_t n, struct leat_values *out, size_t *failed, struct leat_error *error)
{
    const struct windows *w = (const struct windows *)source;
    struct part *parts = leat_new_array(n, sizeof *parts);
    size_t wanted[FIELDS], at[FIELDS], k = 0, done;
    bool left[FIELDS] = {false};
    *failed = n;
    if (!parts)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to compute %zu windows", n);
    for (size_t i = 0; i < n; i++)
        parts[i] = find(w, samples[i]);
    int rc = put_at_hand(w, fields, n_fields, parts, n, out, left, failed, error);
    for (size_t f = 0; f < n_fields; f++)
        if (left[f]) {
            at[k] = f;
            wanted[k++] = fields[f];
        }
    for (size_t i = 0; i < n && k && !rc; i += done)
        rc = compute_some(w, wanted, at, k, parts, i, n, out, &done, failed, error);
    leat_free(parts);
    return rc;
}

static uint64_t windows_length(struct leat_source *source, size_t field, uint64_t sample)
{
    const struct windows *w = (const struct windows *)source;
    return field == CUT ? find(w, sample).count * w->element : UINT64_MAX;
}

static int windows_refresh(struct leat_source *source, struct leat_error *error)
{
    const struct windows *w = (const struct windows *)source;
    int rc = leat_dataset_refresh(w->records, error);
    if (!rc)
        atomic_store(&source->changes, leat_dataset_changes(w->records));
    return rc;
}

/* The sources behind it have files. */
static int windows_file(struct leat_source *source, uint64_t file, struct leat_io_file **out, struct leat_error *error)
{
    *out = NULL;
    return leat_fail(error, LEAT_E_NOT_FOUND, "windows have no files of their own");
}

static void windows_close(struct leat_source *source)
{
    struct windows *w = (struct windows *)source;
    leat_dataset_release(w->records);
    leat_free(w->lengths);
    leat_free(w->before);
    leat_free(w);
}

static const struct leat_source_vtable windows_vtable = {
    .name = "windows",
    .close = windows_close,
    .behind = windows_behind,
    .extents = windows_extents,
    .compute = windows_compute,
    .length = windows_length,
    .file = windows_file,
    .refresh = windows_refresh,
};

static void add_field(struct windows *w, const struct leat_field *field, size_t theirs, enum leat_storage storage)
{
    const size_t f = w->source.n_fields++;
    w->fields[f] = *field;
    w->fields[f].flags = 0;
    w->theirs[f] = theirs;
    w->storage[f] = (uint8_t)storage;
}

static int choose_fields(struct windows *w, const char *name, struct leat_error *error)
{
    static const struct leat_field begin = {.name = "begin", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64};
    size_t n, field = leat_dataset_field(w->records, name), named = leat_dataset_field(w->records, "name");
    const struct leat_field *fields = leat_dataset_fields(w->records, &n);
    if (field == n)
        return leat_dataset_no_field(w->records, name, " to cut windows from", error);
    const struct leat_field *f = &fields[field];
    if (f->kind != LEAT_KIND_ARRAY || f->ndim != 1 || f->shape[0] >= 0)
        return leat_fail(error, LEAT_E_TYPE,
                         "field \"%s\" is no list that varies in length: windows are cut from fields such as uint8 "
                         "(None,)",
                         f->name);
    if (!strcmp(name, "name") || !strcmp(name, "begin"))
        return leat_fail(error, LEAT_E_INVALID,
                         "windows have a field \"%s\" of their own: give that of the records "
                         "another name",
                         name);
    add_field(w, f, field, LEAT_STORAGE_BEHIND);
    if (w->tail == LEAT_WINDOWS_DROP)
        w->fields[CUT].shape[0] = (int64_t)w->length;
    if (named < n && fields[named].kind == LEAT_KIND_STR)
        add_field(w, &fields[named], named, LEAT_STORAGE_BEHIND);
    add_field(w, &begin, SIZE_MAX, LEAT_STORAGE_COMPUTED);
    w->element = leat_dtype_size(f->dtype);
    return LEAT_OK;
}

static int count_all(struct windows *w, struct leat_error *error)
{
    const uint64_t n = leat_dataset_count(w->records);
    int rc = leat_dataset_lengths(w->records, w->theirs[CUT], &w->lengths, error);
    if (!rc && !(w->before = leat_new_array(n + 1, sizeof *w->before)))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for the windows of %" PRIu64 " records", n);
    for (uint64_t i = 0; i < n && !rc; i++)
        if (!leat_add_u64(w->before[i], count_windows(w, w->lengths[i]), &w->before[i + 1]) ||
            w->before[i + 1] > INT64_MAX)
            rc = leat_fail(error, LEAT_E_RANGE, "there are more than 2^63 windows: take a longer stride");
    if (!rc)
        w->source.count = w->before[n];
    return rc;
}

static void make_fingerprint(struct windows *w)
{
    uint8_t bytes[16];
    leat_dataset_fingerprint(w->records, bytes);
    uint64_t sample[2] = {leat_get_u64(bytes), leat_get_u64(bytes + 8)};
    const uint64_t says[] = {w->theirs[CUT], w->length, w->stride, (uint64_t)w->tail};
    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        leat_fingerprint_value(sample, says[i]);
    leat_fingerprint_append(w->source.fingerprint, sample);
}

int leat_windows_open(struct leat_dataset *records, const char *field, uint64_t length, uint64_t stride,
                      enum leat_windows_tail tail, struct leat_source **out, struct leat_error *error)
{
    *out = NULL;
    if (!length || length > MOST_STEPS || !stride || stride > MOST_STEPS)
        return leat_fail(error, LEAT_E_INVALID,
                         "windows of %" PRIu64 " elements, each %" PRIu64 " behind the one before: 1 to 2^62", length,
                         stride);
    if ((unsigned)tail > LEAT_WINDOWS_DROP)
        return leat_fail(error, LEAT_E_INVALID, "the end of a record is not treated in way %u", (unsigned)tail);
    struct windows *w = leat_new(struct windows);
    if (!w)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for windows");
    w->records = leat_dataset_retain(records);
    w->length = length;
    w->stride = stride;
    w->tail = tail;
    int rc = choose_fields(w, field, error);
    rc = rc ? rc : count_all(w, error);
    if (rc) {
        windows_close(&w->source);
        return rc;
    }
    make_fingerprint(w);
    w->source.v = &windows_vtable;
    w->source.path = "";
    w->source.fields = w->fields;
    w->source.storage = w->storage;
    w->source.looks_up = leat_dataset_looks_up(records);
    w->source.metadata = leat_dataset_metadata(records);
    w->source.notice = leat_dataset_notice(records);
    *out = &w->source;
    return LEAT_OK;
}
