/*
 * The fate of a row that fails: its error is the batch's, it is left out, or a substitute takes its place.
 */
#include "engine/policy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/job.h"

#define MAX_NAME 255 /* a longer one is not said */

void leat_job_raise(struct leat_job *j, uint64_t row)
{
    if (row >= j->results.failed_row)
        return;
    j->results.failed_row = row;
    j->results.failure = j->error;
}

/* Whether a name is a part of a path, with or without its extension. */
static bool is_in_path(const char *path, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = path; (at = strstr(at, name)); at++)
        if ((at == path || at[-1] == '/') && (!at[n] || at[n] == '/' || at[n] == '.'))
            return true;
    return false;
}

/* Puts the name of a sample, if its data set has names, in front of the error's text. Reads the name. */
static void say_name(struct leat_job *j, uint64_t position)
{
    const struct leat_dataset *d = j->context->dataset;
    struct leat_value value;
    size_t n, field = leat_dataset_field(d, "name");
    const struct leat_field *fields = leat_dataset_fields(d, &n);
    if (field == n || fields[field].kind != LEAT_KIND_STR || leat_dataset_read(d, position, field, &value, NULL))
        return; /* the error is reported without it */
    char name[MAX_NAME + 1] = "", shown[4 * sizeof name], said[sizeof j->error.message];
    if (value.length <= MAX_NAME)
        memcpy(name, value.data, value.length);
    leat_value_clear(&value);
    if (!*name || is_in_path(j->error.file, name))
        return;
    memcpy(said, j->error.message, sizeof said);
    int length = snprintf(j->error.message, sizeof j->error.message, "%s: ", leat_escape(name, shown, sizeof shown));
    snprintf(j->error.message + length, sizeof j->error.message - (size_t)length, "%s", said);
}

/* Whether a value has n bytes, none or one, which is 0. */
static bool is_zero(const struct leat_dataset *d, uint64_t position, size_t field, size_t n)
{
    struct leat_value value;
    if (leat_dataset_read(d, position, field, &value, NULL))
        return false;
    const bool found = value.length == n && (!n || !*(const uint8_t *)value.data);
    leat_value_clear(&value);
    return found;
}

/* A value that breaks its sample may be one that the sample has not: it is empty, and its format says so in NAME.valid.
 * That is then the error. */
static void say_absent(struct leat_job *j, uint64_t position)
{
    const struct leat_dataset *d = j->context->dataset;
    char valid[sizeof j->error.field + 8], own[4 * sizeof valid], name[4 * sizeof valid];
    size_t n;
    if (!*j->error.field)
        return;
    snprintf(valid, sizeof valid, "%s.valid", j->error.field);
    const size_t field = leat_dataset_field(d, j->error.field), says = leat_dataset_field(d, valid);
    const struct leat_field *fields = leat_dataset_fields(d, &n);
    if (field < n && says < n && fields[says].dtype == LEAT_BOOL && fields[says].kind == LEAT_KIND_ARRAY &&
        is_zero(d, position, says, 1) && is_zero(d, position, field, 0))
        snprintf(j->error.message, sizeof j->error.message,
                 "there is no %s here (%s is false): ds.where('\"%s\"') has those that have one",
                 leat_escape(j->error.field, own, sizeof own), leat_escape(valid, name, sizeof name), name);
}

/* The file of the first value of row i that lies in one. */
static void say_file(struct leat_job *j, size_t i)
{
    const struct leat_job_context *c = j->context;
    for (const struct leat_feed *feed = c->feeds; feed < c->feeds + c->n_feeds && !*j->error.file; feed++) {
        struct leat_sample_ref ref = j->chunk.refs[i];
        struct leat_extent extent;
        size_t field = feed->field, failed;
        if (leat_ref_storage(&ref, field) != LEAT_STORAGE_EXTENT ||
            leat_dataset_extents(c->dataset, field, &ref, 1, &extent, &failed, NULL))
            continue;
        leat_ref_resolve(&ref, &field);
        leat_error_at_extent(&j->error, ref.source, &extent);
    }
}

void leat_job_say_sample(struct leat_job *j, uint64_t row, unsigned attempts)
{
    const struct leat_error said = j->error;
    uint64_t failed;
    if (j->context->steps->names_samples || leat_job_plan(j, row, 1, &failed)) {
        j->error = said;
        return;
    }
    if (attempts) {
        j->chunk.attempts[0] = (uint8_t)(attempts - 1);
        leat_job_plan_substitute(j, 0);
    }
    say_file(j, 0);
    say_name(j, j->chunk.positions[0]);
}

/* The place of the error stands in the reason: a batch keeps text, not errors. */
static char *reason_of(const struct leat_error *e)
{
    char text[sizeof e->message + 4 * sizeof e->file + 4 * sizeof e->field + 64], shown[4 * sizeof e->file];
    int n = snprintf(text, sizeof text, "%s", e->message);
    if (*e->field)
        n += snprintf(text + n, sizeof text - (size_t)n, "; field %s", leat_escape(e->field, shown, sizeof shown));
    if (*e->file)
        n += snprintf(text + n, sizeof text - (size_t)n, "; file %s", leat_escape(e->file, shown, sizeof shown));
    if (e->offset != LEAT_NO_OFFSET)
        snprintf(text + n, sizeof text - (size_t)n, "; byte %" PRId64, e->offset);
    return leat_strdup(text);
}

static struct leat_job_note *find_note(const struct leat_job *j, uint64_t row)
{
    for (size_t i = j->results.n_notes; i--;)
        if (j->results.notes[i].row == row)
            return &j->results.notes[i];
    return NULL;
}

/* False: no memory. If a row was noted before, the first reason stays. */
static bool note(struct leat_job *j, uint64_t row, int64_t planned, int code)
{
    if (find_note(j, row))
        return true;
    if (!leat_grow(&j->results.notes, &j->results.notes_room, j->results.n_notes + 1, sizeof *j->results.notes))
        return false;
    char *reason = reason_of(&j->error);
    if (reason)
        j->results.notes[j->results.n_notes++] = (struct leat_job_note){row, planned, -1, code, reason};
    return reason != NULL;
}

static void say_way_on(struct leat_job *j)
{
    struct leat_error *e = &j->error;
    const size_t used = strlen(e->message);
    snprintf(e->message + used, sizeof e->message - used,
             "; to go on without it: %s(on_error=\"skip\" or \"substitute\")%s", j->context->given ? "apply" : "Loader",
             j->context->given ? "" : ", or leat pack --on-error skip");
}

enum leat_row_fate leat_policy(struct leat_job *j, uint64_t row, int64_t planned, int code, bool broken)
{
    bool raises = !broken || j->context->on_error == LEAT_ON_ERROR_RAISE;
    if (!raises && !note(j, row, planned, code)) {
        leat_fail(&j->error, LEAT_E_NOMEM, "no memory to record a broken sample");
        raises = true;
    }
    if (raises) {
        if (broken && code == LEAT_E_DECODE)
            say_way_on(j);
        leat_job_raise(j, row);
        return LEAT_ROW_RAISED;
    }
    if (j->context->on_error == LEAT_ON_ERROR_SUBSTITUTE)
        return LEAT_ROW_REPLACED;
    j->target.left_out[row] = true;
    return LEAT_ROW_LEFT_OUT;
}

void leat_job_row_failed(struct leat_job *j, size_t i, int code, bool broken)
{
    uint64_t row = leat_job_row(j, i);
    int64_t culprit = j->chunk.culprit;
    j->chunk.culprit = -1;
    if (!j->context->steps->names_samples)
        leat_error_at_sample(&j->error, culprit < 0 ? j->chunk.refs[i].id : culprit, NULL);
    if (j->chunk.marks[i] >= LEAT_ROW_DONE)
        return;
    j->chunk.marks[i] = LEAT_ROW_DONE;
    if (broken && culprit < 0) {
        say_absent(j, j->chunk.positions[i]);
        say_name(j, j->chunk.positions[i]);
    }
    if (leat_policy(j, row, j->chunk.refs[i].id, code, broken) == LEAT_ROW_REPLACED)
        j->chunk.marks[i] = LEAT_ROW_BROKEN;
}

void leat_job_row_delivered(struct leat_job *j, uint64_t row, int64_t delivered)
{
    struct leat_job_note *said = find_note(j, row);
    if (said)
        said->delivered = delivered;
}
