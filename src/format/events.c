/* Files of events as sources: events.h. The format "events" itself, lines "src dst time", is opened only where that is
 * said: any numbers look so. */
#include "format/events.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "format/compressed.h"
#include "format/fingerprint.h"
#include "format/npy_rows.h"
#include "io/guard.h"
#include "io/interrupt.h"

enum { FIELDS = LEAT_EVENT_FEATURES + 1, PATH = 4096 + 64, HEAD = 4096, TELL = 16 << 20, BATCH = 1 << 14 };

struct events {
    struct leat_source source;
    struct leat_field fields[FIELDS];
    enum leat_event_column column[FIELDS]; /* of each field */
    uint8_t storage[FIELDS];
    char metadata[96];
    char *path;
    uint64_t bytes; /* of the file */
    struct leat_event_table table;
    struct leat_npy_rows features; /* `values` NULL: features are a column, or there are none */
};

/* ---- recognising ----------------------------------------------------------------------------- */

static bool recognise(const char *path, bool folder, const uint8_t *head, size_t n)
{
    return false;
}

bool leat_events_recognise(enum leat_event_form form, bool folder, const uint8_t *head, size_t n)
{
    static const char jodie[] = "user_id,item_id,timestamp,";
    uint8_t decoded[HEAD];
    if (folder || !n)
        return false;
    n = leat_compressed_head(head, n, decoded, sizeof decoded);
    const size_t mark = n >= 3 && !memcmp(decoded, "\xef\xbb\xbf", 3) ? 3 : 0; /* of byte order */
    const uint8_t *line = decoded + mark, *newline = memchr(line, '\n', n - mark);
    if (form == LEAT_EVENTS_JODIE)
        return n - mark >= sizeof jodie - 1 && !memcmp(line, jodie, sizeof jodie - 1);
    return newline && leat_event_line_is_header(form, (const char *)line, (size_t)(newline - line));
}

/* ---- features -------------------------------------------------------------------------------- */

/* The row of the file of features that belongs to an event. */
static int row_of(const struct events *x, uint64_t sample, uint64_t *row, struct leat_error *error)
{
    const bool by_idx = x->table.facts.form == LEAT_EVENTS_TGN;
    const enum leat_event_column column = by_idx ? LEAT_EVENT_IDX : LEAT_EVENT_ORDER;
    int64_t found = (int64_t)sample;
    const int rc = x->table.columns[column] ? leat_event_table_get(&x->table, column, sample, &found, error) : LEAT_OK;
    *row = (uint64_t)found;
    if (!rc && *row >= x->features.count)
        return leat_fail_at(error, LEAT_E_CORRUPT, x->path, LEAT_NO_OFFSET,
                            "what was kept of %s is damaged: remove its " LEAT_KEPT_END, x->path);
    return rc;
}

/* "ml_X.npy" beside "ml_X.csv", if it is there. */
static bool features_beside(const char *path, char *out, size_t room)
{
    static const char *const ends[] = {".csv", ".csv.gz", ".csv.zst"};
    const size_t n = strlen(path);
    for (size_t i = 0; i < sizeof ends / sizeof *ends && !leat_io_is_remote(path); i++) {
        const size_t end = strlen(ends[i]);
        if (n > end && !strcmp(path + n - end, ends[i]) &&
            (size_t)snprintf(out, room, "%.*s.npy", (int)(n - end), path) < room)
            return !access(out, F_OK);
    }
    return false;
}

static int open_features(struct events *x, const struct leat_open_options *options, struct leat_error *error)
{
    const struct leat_event_facts *f = &x->table.facts;
    const bool tgn = f->form == LEAT_EVENTS_TGN;
    char beside[PATH];
    const char *path = options->features;
    if (!path && tgn && features_beside(x->path, beside, sizeof beside))
        path = beside;
    if (!path)
        return LEAT_OK;
    if (f->n_features)
        return leat_fail(error, LEAT_E_INVALID,
                         "the lines of %s have %" PRIu64 " features: leave features=%s out, or those columns", x->path,
                         f->n_features, path);
    int rc = leat_npy_rows_open(path, &x->features, error);
    const struct leat_npy_rows *h = &x->features;
    if (rc || (tgn ? h->count > (uint64_t)f->most_idx : h->count == f->count))
        return rc;
    if (tgn)
        return leat_fail_at(error, LEAT_E_CORRUPT, path, LEAT_NO_OFFSET,
                            "%s has %" PRIu64 " rows, and idx in %s goes up to %" PRId64
                            ": of TGN row idx has the features of an event, and row 0 is of none",
                            path, h->count, x->path, f->most_idx);
    return leat_fail_at(error, LEAT_E_CORRUPT, path, LEAT_NO_OFFSET,
                        "%s has %" PRIu64 " rows, and %s has %" PRIu64 " events: there is a row for each", path,
                        h->count, x->path, f->count);
}

/* ---- fields ---------------------------------------------------------------------------------- */

static void set_fields(struct events *x)
{
    static const char *const names[FIELDS] = {"src", "dst", "t", "label", "idx", "feat"};
    const struct leat_event_facts *f = &x->table.facts;
    const struct leat_npy_rows *h = &x->features;
    for (unsigned c = 0; c < FIELDS; c++) {
        const bool rows = c == LEAT_EVENT_FEATURES && x->features.values;
        if (!x->table.columns[c] && !rows)
            continue;
        struct leat_field *field = &x->fields[x->source.n_fields];
        *field = (struct leat_field){.name = names[c], .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64};
        if (c == LEAT_EVENT_TIME && f->real)
            field->dtype = LEAT_F64;
        if (rows) {
            field->dtype = h->dtype;
            field->ndim = h->ndim;
            memcpy(field->shape, h->shape, sizeof field->shape);
        } else if (c == LEAT_EVENT_FEATURES) {
            field->dtype = LEAT_F32;
            field->ndim = 1;
            field->shape[0] = (int64_t)f->n_features;
        }
        x->storage[x->source.n_fields] = LEAT_STORAGE_MAPPED;
        x->column[x->source.n_fields++] = c;
    }
    const uint64_t users = f->users, nodes = (uint64_t)(f->most_src > f->most_dst ? f->most_src : f->most_dst) + 1;
    if (f->form == LEAT_EVENTS_JODIE)
        snprintf(x->metadata, sizeof x->metadata,
                 "{\"nodes\": %" PRIu64 ", \"users\": %" PRIu64 ", \"items\": %" PRIu64 "}",
                 users + (uint64_t)f->most_dst + 1, users, (uint64_t)f->most_dst + 1);
    else
        snprintf(x->metadata, sizeof x->metadata, "{\"nodes\": %" PRIu64 "}", nodes);
    x->source.fields = x->fields;
    x->source.storage = x->storage;
    x->source.metadata = x->metadata;
}

/* The memory of a field if its values lie one after the other, else NULL; the bytes of each. */
static const uint8_t *base_of(const struct events *x, size_t field, uint64_t *each)
{
    const enum leat_event_column c = x->column[field];
    const bool apart = c == LEAT_EVENT_FEATURES && x->features.values;
    const bool by_row = x->table.columns[LEAT_EVENT_IDX] || x->table.columns[LEAT_EVENT_ORDER];
    *each = apart                      ? x->features.row_bytes
            : c == LEAT_EVENT_FEATURES ? x->table.facts.n_features * sizeof(float)
                                       : sizeof(int64_t);
    return !apart ? x->table.columns[c] : by_row ? NULL : x->features.values;
}

int leat_events_rows(struct leat_source *source, size_t field, const uint64_t *samples, size_t n, void *cold,
                     const void **rows, size_t *failed, struct leat_error *error)
{
    const struct events *x = (const struct events *)source;
    uint64_t each, row;
    const uint8_t *const base = base_of(x, field, &each);
    for (size_t i = 0; i < n; i++) {
        const int rc = base ? LEAT_OK : row_of(x, samples[i], &row, error);
        if (rc) {
            *failed = i;
            return rc;
        }
        rows[i] = base ? base + samples[i] * each : x->features.values + row * each;
    }
    return LEAT_OK;
}

int leat_events_column(struct leat_source *source, size_t field, const void **data, struct leat_error *error)
{
    uint64_t each;
    *data = base_of((const struct events *)source, field, &each);
    return LEAT_OK;
}

int leat_events_span(struct leat_source *source, size_t field, uint64_t sample, uint64_t n, const void **data,
                     uint64_t *got, struct leat_error *error)
{
    uint64_t each;
    const uint8_t *const base = base_of((const struct events *)source, field, &each);
    *data = base ? base + sample * each : NULL;
    *got = base ? n : 0;
    return LEAT_OK;
}

/* The columns are copies; rows of features are read where they lie. */
int leat_events_refresh(struct leat_source *source, struct leat_error *error)
{
    const struct events *x = (const struct events *)source;
    return x->features.file ? leat_io_unchanged(x->features.file, error) : LEAT_OK;
}

int leat_events_about(struct leat_source *source, struct leat_source_about *out, struct leat_error *error)
{
    const struct events *x = (const struct events *)source;
    *out = (struct leat_source_about){.bytes = x->bytes + (x->features.file ? x->features.file->size : 0)};
    return LEAT_OK;
}

/* ---- the fingerprint ------------------------------------------------------------------------- */

struct summing {
    struct events *x;
    uint64_t begin, end, sums[2];
    int rc;
    struct leat_error *error;
};

/* Appends some events; inside leat_guarded, so that everything is read here and nothing is allocated. */
static int sum_some(void *arg)
{
    struct summing *s = arg;
    for (uint64_t i = s->begin; i < s->end; i++) {
        uint64_t sample[2] = {0, 0};
        for (size_t f = 0; f < s->x->source.n_fields; f++) {
            uint64_t each, row = i;
            const uint8_t *base = base_of(s->x, f, &each);
            if (!base && (s->rc = row_of(s->x, i, &row, s->error)))
                return LEAT_OK;
            base = base ? base : s->x->features.values;
            leat_fingerprint_value(sample, leat_hash64(base + row * each, (size_t)each));
        }
        leat_fingerprint_append(s->sums, sample);
    }
    return LEAT_OK;
}

static int sum(struct events *x, struct leat_error *error)
{
    struct summing s = {.x = x, .error = error};
    for (; s.begin < x->table.facts.count; s.begin = s.end) {
        s.end = x->table.facts.count - s.begin < BATCH ? x->table.facts.count : s.begin + BATCH;
        const int rc = leat_io_interrupted() ? leat_fail(error, LEAT_E_CANCELLED, "reading %s was interrupted", x->path)
                                             : leat_guarded(sum_some, &s, error);
        if (rc || s.rc)
            return rc ? rc : s.rc;
    }
    memcpy(x->table.facts.sums, s.sums, sizeof s.sums);
    return LEAT_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

void leat_events_close(struct leat_source *source)
{
    struct events *x = (struct events *)source;
    leat_event_table_destroy(&x->table);
    leat_npy_rows_close(&x->features);
    leat_free(x->path);
    leat_free(x);
}

struct reading {
    const struct leat_open_options *options;
    struct leat_event_scan *scan;
    const char *path;
    uint64_t done, told, total;
};

static int take(void *user, const uint8_t *bytes, size_t n, struct leat_error *error)
{
    struct reading *r = user;
    int rc = leat_event_scan_push(r->scan, bytes, n, error);
    r->done += n;
    if (!rc && r->options->progress && r->done - r->told >= TELL) {
        r->told = r->done;
        if (r->options->progress(r->options->user, r->done, r->total))
            rc = leat_fail(error, LEAT_E_CANCELLED, "reading %s was stopped", r->path);
    }
    return rc;
}

static int read_text(struct events *x, enum leat_event_form form, struct leat_io_file *file,
                     const struct leat_open_options *options, struct leat_error *error)
{
    enum leat_compression compression;
    struct reading r = {.options = options, .path = x->path};
    int rc = leat_compression_of(file, &compression, error);
    rc = rc ? rc : leat_event_scan_begin(x->path, form, options->sort, &r.scan, error);
    if (rc)
        return rc;
    r.total = compression ? 0 : file->size;
    rc = leat_compressed_pass(file, compression, take, &r, error);
    const int end = leat_event_scan_end(r.scan, !rc, &x->table, rc ? NULL : error);
    return rc ? rc : end;
}

/* Whether the sums that were kept are of these features; notes whose they are from now on. */
static bool knows_features(struct events *x)
{
    struct leat_event_facts *f = &x->table.facts;
    const struct leat_io_file *file = x->features.file;
    uint64_t pieces = 0;
    const bool read = !file || leat_kept_pieces(x->features.file, &pieces);
    const bool same = read && f->features_bytes == (file ? file->size : 0) && f->features_pieces == pieces &&
                      f->features_time == (file ? file->mtime_ns : 0);
    f->features_bytes = file ? file->size : 0;
    f->features_pieces = pieces;
    f->features_time = file ? file->mtime_ns : 0;
    return same;
}

/* Reads the columns where they are kept, or from the text, and keeps them. */
static int load(struct events *x, enum leat_event_form form, const struct leat_open_options *options,
                struct leat_error *error)
{
    char place[4096];
    struct leat_io_file *file = NULL;
    int rc = leat_kept_check_dir(options->index_dir, error);
    rc = rc ? rc : leat_io_open(x->path, &file, error);
    if (rc)
        return rc;
    x->bytes = file->size;
    const bool keeps = leat_kept_path(x->path, options->index_dir, place, sizeof place);
    const bool kept = keeps && leat_event_table_load(&x->table, form, place, file, false);
    if (!kept)
        rc = read_text(x, form, file, options, error);
    else if (!options->sort)
        rc = leat_event_table_fall(&x->table, x->path, error);
    rc = rc ? rc : open_features(x, options, error);
    const bool same = !rc && knows_features(x);
    if (!rc && kept && !same && x->table.kept.file) { /* what is mapped cannot be written anew */
        leat_event_table_destroy(&x->table);
        rc = read_text(x, form, file, options, error);
        if (!rc)
            knows_features(x);
    }
    if (!rc)
        set_fields(x);
    if (!rc && (!same || !kept)) {
        rc = sum(x, error);
        if (!rc && keeps && options->index_dir)
            mkdir(options->index_dir, 0777);
        if (!rc && keeps)
            leat_event_table_save(&x->table, place, file);
    }
    leat_io_release(file);
    return rc;
}

int leat_events_open(const struct leat_source_vtable *v, enum leat_event_form form, const char *path,
                     const struct leat_open_options *options, struct leat_source **out, struct leat_error *error)
{
    struct events *x = leat_new(struct events);
    *out = NULL;
    int rc = LEAT_OK;
    if (!x || !(x->path = leat_strdup(path)))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    else
        rc = load(x, form, options, error);
    if (rc) {
        if (x)
            leat_events_close(&x->source);
        return rc;
    }
    x->source.v = v;
    x->source.path = x->path;
    x->source.count = x->table.facts.count;
    x->source.notice = "";
    memcpy(x->source.fingerprint, x->table.facts.sums, sizeof x->source.fingerprint);
    *out = &x->source;
    return LEAT_OK;
}

static int open_events(const char *path, const struct leat_open_options *options, struct leat_source **out,
                       struct leat_error *error)
{
    return leat_events_open(&leat_format_events, LEAT_EVENTS_PLAIN, path, options, out, error);
}

const struct leat_source_vtable leat_format_events = {
    .name = "events", .recognise = recognise, .open = open_events, LEAT_EVENTS_FUNCTIONS};
