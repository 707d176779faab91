/*
 * The third step of a job: from values to rows of the outputs. And what becomes of a sample that is broken: the error
 * is the batch's, the row is left out, or a substitute takes its place.
 */
#include "engine/job.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "io/guard.h"

#define READ_TRIES 4
#define MAX_NAME 255 /* a longer one is not said */

static uint64_t align64(uint64_t n)
{
    return (n + 63) & ~UINT64_C(63);
}

static uint8_t *memory_of(const struct leat_job *j, size_t o)
{
    return j->target.outputs[o];
}

static const struct leat_output *output_of(const struct leat_job *j, size_t o)
{
    return leat_program_output(j->context->program, o);
}

static const char *field_name(const struct leat_job *j, size_t field)
{
    return j->context->fields[field].name;
}

/* Row i of the chunk as a row of the batch. */
static uint64_t row_of(const struct leat_job *j, size_t i)
{
    return j->first + j->cursor + i;
}

/* ---- the policy ------------------------------------------------------------------------------ */

/* A sample whose bytes do not decode, or whose payload is not what was written (make_row), or on which a function of
 * the user's failed, is broken, and the policy says what becomes of it. Everything else that can fail is raised: a page
 * of a column or index that is damaged or cut off says nothing about one sample. */
static bool is_broken(int code)
{
    return code == LEAT_E_DECODE || code == LEAT_E_OPERATOR;
}

void leat_job_raise(struct leat_job *j, uint64_t row)
{
    if (row >= j->failed_row)
        return;
    j->failed_row = row;
    j->failure = j->error;
}

/* Puts what a sample is called, where its data set has names, in front of the error's text. Reads the name. */
static void say_name(struct leat_job *j, uint64_t position)
{
    const struct leat_dataset *d = j->context->dataset;
    struct leat_value value;
    size_t n, field = 0;
    const struct leat_field *fields = leat_dataset_fields(d, &n);
    while (field < n && (strcmp(fields[field].name, "name") != 0 || fields[field].kind != LEAT_KIND_STR))
        field++;
    if (field == n || leat_dataset_read(d, position, field, &value, NULL))
        return; /* the error is said without it */
    char name[MAX_NAME + 1] = "", said[sizeof j->error.message];
    if (value.length <= MAX_NAME)
        memcpy(name, value.data, value.length);
    leat_value_clear(&value);
    if (!*name || strstr(j->error.file, name))
        return;
    memcpy(said, j->error.message, sizeof said);
    int length = snprintf(j->error.message, sizeof j->error.message, "%s: ", name);
    snprintf(j->error.message + length, sizeof j->error.message - (size_t)length, "%s", said);
}

/* The place of the error stands in the reason: a batch keeps text, not errors. */
static char *reason_of(const struct leat_error *e)
{
    char text[sizeof e->message + sizeof e->file + sizeof e->field + 64];
    int n = snprintf(text, sizeof text, "%s", e->message);
    if (*e->field)
        n += snprintf(text + n, sizeof text - (size_t)n, "; field %s", e->field);
    if (*e->file)
        n += snprintf(text + n, sizeof text - (size_t)n, "; file %s", e->file);
    if (e->offset != LEAT_NO_OFFSET)
        snprintf(text + n, sizeof text - (size_t)n, "; byte %" PRId64, e->offset);
    return leat_strdup(text);
}

static struct leat_job_note *find_note(const struct leat_job *j, uint64_t row)
{
    for (size_t i = j->n_notes; i--;)
        if (j->notes[i].row == row)
            return &j->notes[i];
    return NULL;
}

/* False: no memory. Of a row that was noted before, the first reason stays. */
static bool note(struct leat_job *j, uint64_t row, int64_t planned, int code)
{
    if (find_note(j, row))
        return true;
    if (j->n_notes == j->notes_room) {
        size_t room = j->notes_room ? 2 * j->notes_room : 8;
        struct leat_job_note *grown = leat_realloc_array(j->notes, room, sizeof *grown);
        if (!grown)
            return false;
        j->notes = grown;
        j->notes_room = room;
    }
    char *reason = reason_of(&j->error);
    if (reason)
        j->notes[j->n_notes++] = (struct leat_job_note){row, planned, -1, code, reason};
    return reason != NULL;
}

/* Row i of the chunk has failed with `code` and job->error. */
static void row_failed(struct leat_job *j, size_t i, int code, bool broken)
{
    uint64_t row = row_of(j, i);
    leat_error_at_sample(&j->error, j->refs[i].id, NULL);
    if (j->marks[i] == LEAT_ROW_DONE)
        return;
    j->marks[i] = LEAT_ROW_DONE;
    if (broken)
        say_name(j, j->positions[i]);
    if (!broken || j->context->on_error == LEAT_ON_ERROR_RAISE) {
        leat_job_raise(j, row);
    } else if (!note(j, row, j->refs[i].id, code)) {
        leat_fail(&j->error, LEAT_E_NOMEM, "no memory to record a broken sample");
        leat_job_raise(j, row);
    } else if (j->context->on_error == LEAT_ON_ERROR_SUBSTITUTE) {
        j->marks[i] = LEAT_ROW_BROKEN;
    } else {
        j->target.left_out[row] = true;
    }
}

/* ---- outputs of mapped fields ---------------------------------------------------------------- */

struct apply {
    const struct leat_program *program;
    size_t output;
    struct leat_scratch *scratch;
    const struct leat_row *rows;
    size_t n, made;
    void *dst;
    struct leat_error *error;
};

static int apply_guarded(void *arg)
{
    struct apply *a = arg;
    a->made = leat_program_apply(a->program, a->output, a->scratch, a->rows, a->n, a->dst, a->error);
    return LEAT_OK;
}

/* Makes rows [i, i + n) of an output whose stored values stand in job->data. Stops at the first that fails, and returns
 * its code; *made counts those before it. */
static int apply_mapped(struct leat_job *j, struct leat_scratch *scratch, size_t o, size_t i, size_t n, size_t *made)
{
    uint8_t *dst = memory_of(j, o) + row_of(j, i) * output_of(j, o)->row_bytes;
    struct apply a = {j->context->program, o, scratch, j->args + i, n, 0, dst, &j->error};
    for (size_t k = i; k < i + n; k++)
        j->args[k].data = j->data[k];
    int rc = leat_guarded(apply_guarded, &a, &j->error);
    if (rc && n > 1) { /* a mapping faulted: go row by row, so that the sample has a name */
        for (size_t k = 0; k < n; k++) {
            size_t one = 0;
            rc = apply_mapped(j, scratch, o, i + k, 1, &one);
            if (rc) {
                *made = k;
                return rc;
            }
        }
        *made = n;
        return LEAT_OK;
    }
    *made = rc ? 0 : a.made;
    return rc ? rc : a.made == n ? LEAT_OK : j->error.code ? j->error.code : LEAT_E_DECODE;
}

/* How many of the rows from i on are mapped, or are not. */
static size_t same_storage(const struct leat_job *j, const struct leat_feed *feed, size_t i)
{
    size_t n = feed->fetched ? 1 : j->count - i;
    while (i + n < j->count && leat_job_is_mapped(j, feed, i + n) == leat_job_is_mapped(j, feed, i))
        n++;
    return n;
}

/* One output of a mapped field, of all rows of the chunk; rows that fail are handled and passed over. */
static void make_mapped(struct leat_job *j, struct leat_scratch *scratch, const struct leat_feed *feed, size_t o)
{
    const struct leat_job_context *c = j->context;
    uint64_t value = feed->value_bytes;
    bool small = value && value <= LEAT_COLD_VALUE;
    for (size_t k = 0; k < j->count; k++)
        j->args[k].length = value;
    for (size_t i = 0, n; i < j->count; i += n) {
        n = same_storage(j, feed, i);
        if (!leat_job_is_mapped(j, feed, i))
            continue;
        size_t failed = 0;
        if (small && n > c->cold_bytes / value)
            n = c->cold_bytes / value;
        int rc = leat_dataset_rows(c->dataset, feed->field, j->refs + i, n, small ? j->cold : NULL, j->data + i,
                                   &failed, &j->error);
        struct leat_error found = {0};
        if (rc) {
            found = j->error;
            n = failed;
        }
        for (size_t made = 0; made < n;) {
            size_t part = 0;
            int bad = apply_mapped(j, scratch, o, i + made, n - made, &part);
            made += part;
            if (bad) {
                leat_error_at_sample(&j->error, LEAT_NO_SAMPLE, field_name(j, feed->field));
                row_failed(j, i + made, bad, is_broken(bad));
                made++;
            }
        }
        if (rc) {
            j->error = found;
            row_failed(j, i + n, rc, is_broken(rc));
            n++;
        }
    }
}

/* All outputs of mapped fields of one row, for a substitute. The code of the first that fails. */
static int remake_mapped(struct leat_job *j, struct leat_scratch *scratch, size_t i)
{
    for (size_t f = 0; f < j->context->n_feeds; f++) {
        const struct leat_feed *feed = &j->context->feeds[f];
        if (!leat_job_is_mapped(j, feed, i))
            continue;
        size_t failed = 0, made = 0;
        j->args[i].length = feed->value_bytes;
        int rc =
            leat_dataset_rows(j->context->dataset, feed->field, j->refs + i, 1, NULL, j->data + i, &failed, &j->error);
        for (size_t k = 0; !rc && k < feed->n_outputs; k++)
            rc = apply_mapped(j, scratch, feed->outputs[k], i, 1, &made);
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

/* ---- outputs of fetched values --------------------------------------------------------------- */

/* What decoding to the end has shown: of a whole photo also where its rows begin. */
static void tell_source(const struct leat_fetch *fetch, const struct leat_row *row, struct leat_scratch *scratch,
                        int rc)
{
    size_t length = 0;
    if ((rc && rc != LEAT_E_DECODE) || fetch->extent.info.health != LEAT_HEALTH_UNCHECKED)
        return; /* it may not have come to the end, or there is nothing to tell */
    leat_fetch_mark(fetch, rc ? LEAT_HEALTH_BROKEN : LEAT_HEALTH_GOOD);
    if (rc || !row->scan_to_end)
        return;
    const uint8_t *rows = leat_scratch_rows(scratch, &length);
    leat_fetch_keep(fetch, rows, rows ? length : 0);
}

/* One output of one value. */
static int make_output(struct leat_job *j, struct leat_scratch *scratch, const struct leat_row *value, uint64_t row,
                       size_t o)
{
    const struct leat_program *program = j->context->program;
    const struct leat_output *output = output_of(j, o);
    uint8_t *dst = memory_of(j, o);
    if (!output->ragged) {
        if (leat_program_apply(program, o, scratch, value, 1, dst + row * output->row_bytes, &j->error) == 1)
            return LEAT_OK;
        return j->error.code ? j->error.code : LEAT_E_DECODE;
    }
    const int64_t *offsets = (const int64_t *)(const void *)dst;
    uint64_t room = (uint64_t)(offsets[row + 1] - offsets[row]) * output->row_bytes;
    if (leat_program_ragged_bytes(program, o, leat_value_bytes(&value->info, value->length)) != room)
        return leat_fail(&j->error, LEAT_E_CHANGED,
                         "a value changed its length while its batch was made; open the data set again");
    dst += leat_output_values(output, j->target.plan.rows) + (uint64_t)offsets[row] * output->row_bytes;
    return leat_program_apply_ragged(program, o, scratch, value, dst, &j->error);
}

/* The outputs of a field from a value that was read. */
static int make_outputs(struct leat_job *j, struct leat_scratch *scratch, const struct leat_feed *feed,
                        const struct leat_fetch *fetch, struct leat_row *value, uint64_t row)
{
    bool scan = feed->decodes && fetch->extent.info.health != LEAT_HEALTH_GOOD, scanned = false;
    for (size_t k = 0; k < feed->n_outputs; k++) {
        size_t o = feed->outputs[k];
        bool decodes = output_of(j, o)->decodes;
        value->scan_to_end = scan && !scanned && decodes;
        int rc = make_output(j, scratch, value, row, o);
        if (scan && decodes && (rc == LEAT_E_DECODE || !scanned))
            tell_source(fetch, value, scratch, rc);
        scanned |= decodes;
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

static void describe(struct leat_row *row, const struct leat_fetch *fetch)
{
    row->data = fetch->buffer;
    row->length = fetch->extent.length;
    row->info = fetch->extent.info;
    row->info.rows = leat_fetch_rows(fetch);
}

/* Whether a value takes more memory to decode than scratch has, and than was granted. */
static bool wants_memory(struct leat_job *j, const struct leat_feed *feed, const struct leat_row *row)
{
    if (!feed->decodes && row->info.form == LEAT_FORM_ORIGINAL)
        return false;
    uint64_t usual = feed->decodes || j->context->restores ? LEAT_DECODE_BYTES : 0, bytes = 0;
    for (size_t k = 0; k < feed->n_outputs; k++) {
        uint64_t one = leat_program_decode_bytes(j->context->program, feed->outputs[k], row);
        bytes = one > bytes ? one : bytes;
    }
    j->wants = j->room;
    j->wants_decoding = bytes > usual ? bytes - usual : 0;
    return j->wants_decoding > j->decoding;
}

static int known_broken(struct leat_job *j)
{
    return leat_fail(&j->error, LEAT_E_DECODE,
                     "the photo was found broken when it was packed or first used; replace it, or choose "
                     "on_error skip or substitute");
}

/* Where the error of a value lies. */
static int at_value(struct leat_job *j, const struct leat_feed *feed, size_t i, int rc)
{
    size_t v = feed->slot * j->context->chunk + i;
    if (is_broken(rc) || rc == LEAT_E_BUDGET)
        leat_error_at_extent(&j->error, j->values[v].source, &j->extents[v]);
    leat_error_at_sample(&j->error, LEAT_NO_SAMPLE, field_name(j, feed->field));
    return rc;
}

/* The outputs of one field of row i. LEAT_JOB_ROOM: they need more memory. */
static int make_value(struct leat_job *j, struct leat_scratch *scratch, const struct leat_feed *feed, size_t i,
                      bool *broken)
{
    size_t v = feed->slot * j->context->chunk + i;
    struct leat_fetch fetch = {.ref = j->refs[i],
                               .field = feed->field,
                               .extent = j->extents[v],
                               .with_rows = j->values[v].with_rows,
                               .buffer = leat_reads_value(j, feed->slot, i)};
    leat_ref_resolve(&fetch.ref, &fetch.field);
    bool known = feed->decodes && fetch.extent.info.health == LEAT_HEALTH_BROKEN;
    int64_t begun = leat_clock_ns();
    int rc = leat_fetch_check(&fetch, &j->error);
    j->fetch_ns += leat_clock_ns() - begun;
    *broken = rc == LEAT_E_CORRUPT; /* bytes that came but are not those that were written */
    if (!rc) {
        j->fetches++;
        describe(&j->args[i], &fetch);
        if (wants_memory(j, feed, &j->args[i]))
            return LEAT_JOB_ROOM;
        rc = make_outputs(j, scratch, feed, &fetch, &j->args[i], row_of(j, i));
        *broken = is_broken(rc);
    }
    /* A photo that is known to be broken stays so whatever comes of reading it again. */
    if (known && !*broken && !(rc && j->context->on_error == LEAT_ON_ERROR_RAISE)) {
        rc = known_broken(j);
        *broken = true;
    }
    return rc ? at_value(j, feed, i, rc) : LEAT_OK;
}

/* All outputs of row i that need fetched values, which are in the buffer. */
static int make_row(struct leat_job *j, struct leat_scratch *scratch, size_t i)
{
    for (size_t f = 0; f < j->context->n_feeds; f++) {
        const struct leat_feed *feed = &j->context->feeds[f];
        if (!leat_job_is_fetched(j, feed, i))
            continue;
        bool broken;
        int rc = make_value(j, scratch, feed, i, &broken);
        if (rc == LEAT_JOB_ROOM)
            return rc;
        if (rc) {
            row_failed(j, i, rc, broken);
            return LEAT_OK;
        }
    }
    j->marks[i] = LEAT_ROW_DONE;
    return LEAT_OK;
}

/* Row i cannot be had for a reason that is not its sample's fault; only a photo that is known to be broken is passed
 * over as such. */
static void refuse_row(struct leat_job *j, size_t i, int code)
{
    const struct leat_job_context *c = j->context;
    bool known = false;
    for (size_t f = 0; f < c->n_feeds && c->on_error != LEAT_ON_ERROR_RAISE; f++)
        known |= c->feeds[f].decodes && leat_job_is_fetched(j, &c->feeds[f], i) &&
                 j->extents[c->feeds[f].slot * c->chunk + i].info.health == LEAT_HEALTH_BROKEN;
    row_failed(j, i, known ? known_broken(j) : code, known);
}

/* The values of row i could not be read. It is tried again, alone: at first to learn which of them is to blame. */
static void read_failed(struct leat_job *j, size_t i, int rc)
{
    const struct leat_job_context *c = j->context;
    const struct leat_feed *blamed = NULL;
    bool cut = false;
    if (j->end > j->begin + 1) {
        j->tries[i] = 1;
        return;
    }
    for (size_t f = 0; f < c->n_feeds; f++) {
        const struct leat_feed *feed = &c->feeds[f];
        size_t v = feed->slot * c->chunk + i;
        if (!leat_job_is_fetched(j, feed, i) || !j->spans[j->values[v].span].status)
            continue;
        blamed = feed;
        if (rc != LEAT_E_CORRUPT || leat_fetch_bytes(&j->extents[v], j->values[v].with_rows) == j->extents[v].length)
            continue;
        j->values[v].with_rows = false; /* the file was cut: perhaps only the index behind the photo is lost */
        cut = true;
    }
    if (cut || (rc == LEAT_E_IO && ++j->tries[i] < READ_TRIES))
        return;
    leat_error_at_sample(&j->error, LEAT_NO_SAMPLE, field_name(j, blamed->field));
    refuse_row(j, i, rc);
}

/* ---- substitutes ----------------------------------------------------------------------------- */

/* Where the values of row i are. */
static void locate_row(struct leat_job *j, size_t i)
{
    const struct leat_job_context *c = j->context;
    for (size_t f = 0; f < c->n_feeds && j->marks[i] == LEAT_ROW_WANTED; f++) {
        const struct leat_feed *feed = &c->feeds[f];
        if (!leat_job_is_fetched(j, feed, i))
            continue;
        size_t v = feed->slot * c->chunk + i, failed = 0;
        int rc = leat_job_locate(j, feed, i, 1, &failed);
        j->values[v].with_rows = feed->decodes;
        if (rc)
            row_failed(j, i, rc, is_broken(rc));
        else if (feed->decodes && j->extents[v].info.health == LEAT_HEALTH_BROKEN)
            row_failed(j, i, at_value(j, feed, i, known_broken(j)), true); /* it is passed over, unread */
    }
}

/* Gives row i the next substitute whose mapped outputs can be made. */
static void substitute(struct leat_job *j, struct leat_scratch *scratch, size_t i)
{
    uint64_t row = row_of(j, i);
    while (leat_job_plan_substitute(j, i)) {
        j->args[i] = (struct leat_row){.key = j->rows[i].key, .sample = j->refs[i].id};
        int rc = remake_mapped(j, scratch, i);
        if (rc == LEAT_OK) {
            struct leat_job_note *said = find_note(j, row);
            if (said)
                said->delivered = j->refs[i].id;
            j->marks[i] = LEAT_ROW_WANTED;
            j->tries[i] = 0;
            j->target.ids[row] = j->refs[i].id;
            if (j->target.stand_in)
                j->target.stand_in = j->attempts[i] + 1u;
            locate_row(j, i);
            return;
        }
        if (!is_broken(rc)) {
            row_failed(j, i, rc, false);
            return;
        }
    }
    char text[sizeof j->error.message];
    memcpy(text, j->error.message, sizeof text);
    text[900] = 0;
    leat_fail(&j->error, LEAT_E_DECODE,
              "row %" PRIu64 " is broken, and so are %d samples that could stand in for it; the last: %s", row,
              LEAT_MAX_SUBSTITUTES, text);
    row_failed(j, i, LEAT_E_DECODE, false);
}

/* ---- the run --------------------------------------------------------------------------------- */

/* Of a photo that is known to be broken nobody has kept why: the planned one is read and decoded again, so that the
 * error or the note says it each time. */
static void locate_chunk(struct leat_job *j)
{
    const struct leat_job_context *c = j->context;
    for (size_t f = 0; f < c->n_feeds; f++) {
        const struct leat_feed *feed = &c->feeds[f];
        if (!feed->fetched)
            continue;
        for (size_t i = 0; i < j->count; i++)
            j->values[feed->slot * c->chunk + i].with_rows = feed->decodes;
        int rc;
        for (size_t i = 0, failed = 0; i < j->count && (rc = leat_job_locate(j, feed, i, j->count - i, &failed));
             i = failed + 1)
            if (j->marks[failed] == LEAT_ROW_WANTED)
                row_failed(j, failed, rc, is_broken(rc));
    }
}

static void start_chunk(struct leat_job *j, struct leat_scratch *scratch)
{
    const struct leat_job_context *c = j->context;
    const struct leat_job_target *to = &j->target;
    uint64_t first = j->first + j->cursor, failed;
    j->row = 0;
    j->open = false;
    if (leat_job_plan(j, first, j->n - j->cursor, &failed)) {
        leat_job_raise(j, failed);
        memset(j->marks, LEAT_ROW_DONE, j->count);
        return;
    }
    for (size_t i = 0; i < j->count; i++) {
        to->ids[first + i] = j->refs[i].id;
        to->keys[first + i] = j->rows[i].key;
        to->valid[first + i] = j->rows[i].valid;
        j->args[i] = (struct leat_row){.key = j->rows[i].key, .sample = j->refs[i].id};
    }
    memset(j->marks, LEAT_ROW_WANTED, j->count);
    memset(j->tries, 0, j->count);
    memset(j->attempts, 0, j->count);
    if (to->stand_in) { /* somebody else found the planned sample broken */
        j->attempts[0] = (uint8_t)(to->stand_in - 1);
        j->marks[0] = LEAT_ROW_BROKEN;
        leat_fail(&j->error, LEAT_E_DECODE, "the caller found it broken");
        return;
    }
    for (size_t f = 0; f < c->n_feeds; f++)
        for (size_t k = 0; c->feeds[f].mapped && k < c->feeds[f].n_outputs; k++)
            make_mapped(j, scratch, &c->feeds[f], c->feeds[f].outputs[k]);
    if (c->n_slots)
        locate_chunk(j);
}

/* Reads and makes the rows of the open window, those first whose values come first. */
static enum leat_job_status run_window(struct leat_job *j, struct leat_scratch *scratch)
{
    int64_t begun = leat_clock_ns();
    enum leat_job_status status = leat_reads_go(j);
    j->fetch_ns += leat_clock_ns() - begun;
    if (status == LEAT_JOB_ROOM) {
        j->asking = j->begin;
        j->asked_to_decode = false;
        return status;
    }
    for (size_t i = j->begin; i < j->end; i++) {
        int rc = j->marks[i] == LEAT_ROW_WANTED && !(j->tries[i] && j->end > j->begin + 1) ? leat_reads_row(j, i)
                                                                                           : LEAT_IO_PENDING;
        if (rc == LEAT_IO_PENDING)
            continue;
        if (rc)
            read_failed(j, i, rc);
        else if (make_row(j, scratch, i) == LEAT_JOB_ROOM) {
            j->asking = i;
            j->asked_to_decode = true;
            return LEAT_JOB_ROOM;
        }
    }
    return status;
}

/* The rows of the chunk that are not made, window by window. */
static enum leat_job_status make_fetched(struct leat_job *j, struct leat_scratch *scratch)
{
    for (;;) {
        if (j->open) {
            enum leat_job_status status = run_window(j, scratch);
            if (status != LEAT_JOB_DONE)
                return status;
            j->open = false;
            return LEAT_JOB_RELAX;
        }
        while (j->row < j->count && j->marks[j->row] != LEAT_ROW_WANTED)
            if (j->marks[j->row] == LEAT_ROW_BROKEN)
                substitute(j, scratch, j->row);
            else
                j->row++;
        if (j->row == j->count)
            return LEAT_JOB_DONE;
        leat_reads_plan(j, j->row);
    }
}

/* Rows of the run that are made for nothing: their batch is not wanted, or an earlier row of it has failed. */
static bool is_futile(const struct leat_job *j)
{
    uint64_t row = j->first + j->cursor;
    return atomic_load_explicit(j->target.cancelled, memory_order_relaxed) || j->failed_row < row ||
           atomic_load_explicit(j->target.failed_row, memory_order_relaxed) < row;
}

enum leat_job_status leat_job_run(struct leat_job *j, struct leat_scratch *scratch)
{
    while (j->cursor < j->n && (j->open || !is_futile(j))) {
        if (!j->prepared)
            start_chunk(j, scratch);
        j->prepared = true;
        if (j->context->n_slots || j->context->on_error == LEAT_ON_ERROR_SUBSTITUTE) {
            enum leat_job_status status = make_fetched(j, scratch);
            if (status != LEAT_JOB_DONE)
                return status;
        }
        j->cursor += j->count;
        j->prepared = false;
    }
    return LEAT_JOB_DONE;
}

void leat_job_grant(struct leat_job *j, void *buffer, uint64_t room, uint64_t decoding)
{
    j->buffer = buffer;
    j->room = room;
    j->decoding = decoding;
}

void leat_job_refuse(struct leat_job *j, int code)
{
    const struct leat_job_context *c = j->context;
    size_t f = 0;
    if (!j->asked_to_decode)
        j->open = false;
    if (!j->asked_to_decode && j->end > j->begin + 1) { /* less may do */
        j->tries[j->begin] = 1;
        return;
    }
    while (f + 1 < c->n_feeds && !leat_job_is_fetched(j, &c->feeds[f], j->asking))
        f++;
    at_value(j, &c->feeds[f], j->asking, code);
    refuse_row(j, j->asking, code);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The next `bytes` of memory that begins at `base`; NULL while it is only measured. */
static void *carve(uint8_t *base, uint64_t *at, uint64_t bytes)
{
    void *p = base ? base + *at : NULL;
    *at += align64(bytes);
    return p;
}

/* Points the arrays into memory, and returns how much of it they take. */
static uint64_t lay_out(struct leat_job *j, const struct leat_job_context *c, uint8_t *base)
{
    uint64_t n = c->chunk, values = c->n_slots * n, at = 0;
    j->rows = carve(base, &at, n * sizeof *j->rows);
    j->positions = carve(base, &at, n * sizeof *j->positions);
    j->refs = carve(base, &at, n * sizeof *j->refs);
    j->data = carve(base, &at, n * sizeof *j->data);
    j->args = carve(base, &at, n * sizeof *j->args);
    j->marks = carve(base, &at, n);
    j->attempts = carve(base, &at, n);
    j->tries = carve(base, &at, n);
    j->extents = carve(base, &at, values * sizeof *j->extents);
    j->values = carve(base, &at, values * sizeof *j->values);
    j->order = carve(base, &at, values * sizeof *j->order);
    j->spans = carve(base, &at, values * sizeof *j->spans);
    j->target.outputs = carve(base, &at, leat_program_outputs(c->program) * sizeof *j->target.outputs);
    j->cold = carve(base, &at, c->cold_bytes); /* last: it is touched only where it is used */
    return at;
}

uint64_t leat_job_size(const struct leat_job_context *c)
{
    struct leat_job j;
    return lay_out(&j, c, NULL);
}

void leat_job_init(struct leat_job *j, const struct leat_job_context *c, void *memory)
{
    memset(j, 0, sizeof *j);
    j->context = c;
    lay_out(j, c, memory);
    for (size_t f = 0; f < c->n_feeds; f++)
        for (size_t i = 0; c->feeds[f].fetched && i < c->chunk; i++)
            j->values[c->feeds[f].slot * c->chunk + i].align = c->feeds[f].align;
}

void leat_job_begin(struct leat_job *j, uint64_t first, uint64_t n)
{
    j->first = first;
    j->n = n;
    j->cursor = 0;
    j->prepared = j->open = j->pends = false;
    j->failed_row = UINT64_MAX;
    j->fetch_ns = 0;
    j->fetches = j->fetched_bytes = 0;
}

void leat_job_destroy(struct leat_job *j)
{
    for (size_t i = 0; i < j->n_notes; i++)
        leat_free(j->notes[i].reason);
    leat_free(j->notes);
}
