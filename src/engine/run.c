/*
 * What a task does, without the engine's lock: from positions to rows of the batch's buffers. Nothing here knows the
 * time or how many threads there are: the same rows come out of the same plan, whoever runs it.
 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "codec/photo/photo.h"
#include "engine/task.h"
#include "io/guard.h"

#define READ_TRIES 4

static const struct leat_output *output_of(const struct leat_task *t, size_t o)
{
    return leat_program_output(t->loader->program, o);
}

static uint8_t *buffer_of(const struct leat_task *t, size_t o)
{
    return t->batch->buffers[o]->data;
}

static uint64_t position_of(const struct leat_loader *l, const struct leat_piece *piece)
{
    return l->source_begin[piece->source] + piece->position;
}

static const char *field_name(const struct leat_task *t, size_t field)
{
    return t->loader->fields[field].name;
}

/* ---- the policy ------------------------------------------------------------------------------ */

/* A sample whose bytes do not decode, or whose payload is not what was written (fetch_group), or on which a function of
 * the user's failed, is broken, and the policy says what becomes of it. Everything else that can fail is raised: a page
 * of a column or index that is damaged or cut off says nothing about one sample. */
static bool is_broken(int code)
{
    return code == LEAT_E_DECODE || code == LEAT_E_OPERATOR;
}

/* Row i of the chunk has failed with `code` and task->error. */
static void row_failed(struct leat_task *t, size_t i, int code, bool broken)
{
    uint64_t row = t->first + t->cursor + i;
    leat_error_at_sample(&t->error, t->refs[i].id, NULL);
    if (t->marks[i] == LEAT_ROW_DONE)
        return;
    if (broken)
        leat_task_say_name(t, t->positions[i]);
    if (!broken || t->loader->on_error == LEAT_ON_ERROR_RAISE) {
        leat_task_raise(t, row);
        t->marks[i] = LEAT_ROW_DONE;
        return;
    }
    if (!leat_task_note(t, row, t->refs[i].id, code)) {
        leat_fail(&t->error, LEAT_E_NOMEM, "no memory to record a broken sample");
        leat_task_raise(t, row);
        t->marks[i] = LEAT_ROW_DONE;
        return;
    }
    if (t->loader->on_error == LEAT_ON_ERROR_SUBSTITUTE) {
        t->marks[i] = LEAT_ROW_BROKEN;
        return;
    }
    t->batch->left_out[row] = true;
    t->marks[i] = LEAT_ROW_DONE;
}

/* ---- in-place outputs ------------------------------------------------------------------------ */

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

/* Makes rows [i, i + n) of an in-place output whose stored values stand in task->data. Stops at the first that fails,
 * and returns its code; *made counts those before it. */
static int apply_in_place(struct leat_task *t, size_t o, size_t i, size_t n, size_t *made)
{
    const struct leat_output *output = output_of(t, o);
    uint64_t first = t->first + t->cursor + i;
    struct apply a = {
        t->loader->program, o, t->work->scratch, t->args + i, n, 0, buffer_of(t, o) + first * output->row_bytes,
        &t->error};
    for (size_t k = i; k < i + n; k++)
        t->args[k].data = t->data[k];
    int rc = leat_guarded(apply_guarded, &a, &t->error);
    if (rc && n > 1) { /* a mapping faulted: go row by row, so that the sample has a name */
        for (size_t k = 0; k < n; k++) {
            size_t one = 0;
            rc = apply_in_place(t, o, i + k, 1, &one);
            if (rc) {
                *made = k;
                return rc;
            }
        }
        *made = n;
        return LEAT_OK;
    }
    *made = rc ? 0 : a.made;
    return rc ? rc : a.made == n ? LEAT_OK : t->error.code ? t->error.code : LEAT_E_DECODE;
}

/* Bytes of a stored value of an in-place output. */
uint64_t leat_loader_value_bytes(const struct leat_loader *l, size_t o)
{
    const struct leat_field *field = &l->fields[leat_program_output(l->program, o)->field];
    uint64_t length = leat_dtype_size(field->dtype);
    for (unsigned d = 0; d < field->ndim; d++)
        length *= (uint64_t)field->shape[d];
    return length;
}

static void set_length(struct leat_task *t, size_t o, uint64_t length)
{
    for (size_t k = 0; k < t->count; k++)
        t->args[k].length = length;
}

/* Rows [i, n) of one in-place output; rows that fail are handled and passed over. */
static void make_in_place(struct leat_task *t, size_t o)
{
    uint64_t value = leat_loader_value_bytes(t->loader, o);
    bool small = value && value <= LEAT_COLD_VALUE;
    set_length(t, o, value);
    for (size_t i = 0; i < t->count;) {
        size_t n = t->count - i, failed = 0;
        if (small && n > t->loader->cold_bytes / value)
            n = t->loader->cold_bytes / value;
        int rc = leat_dataset_rows(t->loader->dataset, output_of(t, o)->field, t->refs + i, n, small ? t->cold : NULL,
                                   t->data + i, &failed, &t->error);
        struct leat_error found = {0};
        if (rc) {
            found = t->error;
            n = failed;
        }
        for (size_t made = 0; made < n;) {
            size_t part = 0;
            int bad = apply_in_place(t, o, i + made, n - made, &part);
            made += part;
            if (bad) {
                leat_error_at_sample(&t->error, LEAT_NO_SAMPLE, field_name(t, output_of(t, o)->field));
                row_failed(t, i + made, bad, is_broken(bad));
                made++;
            }
        }
        i += n;
        if (rc) {
            t->error = found;
            row_failed(t, i, rc, is_broken(rc));
            i++;
        }
    }
}

/* All in-place outputs of one row, for a substitute. The code of the first that fails. */
static int remake_in_place(struct leat_task *t, size_t i)
{
    for (size_t k = 0; k < t->loader->n_in_place; k++) {
        size_t o = t->loader->in_place[k], failed = 0, made = 0;
        set_length(t, o, leat_loader_value_bytes(t->loader, o));
        int rc = leat_dataset_rows(t->loader->dataset, output_of(t, o)->field, t->refs + i, 1, NULL, t->data + i,
                                   &failed, &t->error);
        if (!rc)
            rc = apply_in_place(t, o, i, 1, &made);
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

/* ---- fetched outputs ------------------------------------------------------------------------- */

/* Gives row i of the chunk the next substitute whose in-place outputs can be made. False: the row has failed for
 * good. */
static bool substitute(struct leat_task *t, size_t i)
{
    struct leat_loader *l = t->loader;
    uint64_t row = t->first + t->cursor + i;
    while (t->attempt < LEAT_MAX_SUBSTITUTES) {
        struct leat_piece piece = leat_plan_substitute(l->plan, t->batch->plan.epoch, t->rows[i].row, t->attempt++);
        if (!piece.count)
            break;
        t->positions[i] = position_of(l, &piece);
        leat_dataset_locate(l->dataset, t->positions + i, 1, t->refs + i);
        t->args[i].sample = t->refs[i].id;
        int rc = remake_in_place(t, i);
        if (rc == LEAT_OK) {
            t->marks[i] = LEAT_ROW_GOOD;
            t->batch->ids[row] = t->refs[i].id;
            leat_task_note_delivered(t, row, t->refs[i].id);
            if (t->batch->stand_in)
                t->batch->stand_in = t->attempt + 1;
            return true;
        }
        if (!is_broken(rc)) {
            row_failed(t, i, rc, false);
            return false;
        }
    }
    char text[sizeof t->error.message];
    memcpy(text, t->error.message, sizeof text);
    text[900] = 0;
    leat_fail(&t->error, LEAT_E_DECODE,
              "row %" PRIu64 " is broken, and so are %d samples that could stand in for it; the last: %s", row,
              LEAT_MAX_SUBSTITUTES, text);
    row_failed(t, i, LEAT_E_DECODE, false);
    return false;
}

static void describe(struct leat_task *t, size_t i)
{
    struct leat_row *row = &t->args[i];
    const struct leat_extent *extent = &t->fetch.extent;
    row->data = t->buffer;
    row->length = extent->length;
    row->info = extent->info;
    row->info.rows = leat_fetch_rows(&t->fetch);
}

/* What decoding to the end has shown: of a whole photo also where its rows begin. */
static void tell_source(const struct leat_task *t, size_t i, int rc)
{
    size_t length = 0;
    if ((rc && rc != LEAT_E_DECODE) || t->fetch.extent.info.health != LEAT_HEALTH_UNCHECKED)
        return; /* it may not have come to the end, or there is nothing to tell */
    leat_fetch_mark(&t->fetch, rc ? LEAT_HEALTH_BROKEN : LEAT_HEALTH_GOOD);
    if (rc || !t->args[i].scan_to_end)
        return;
    const uint8_t *rows = leat_scratch_rows(t->work->scratch, &length);
    leat_fetch_keep(&t->fetch, rows, rows ? length : 0);
}

/* The outputs of a group from the bytes that were read. */
static int make_group(struct leat_task *t, size_t i, const struct leat_fetch_group *group)
{
    struct leat_loader *l = t->loader;
    uint64_t row = t->first + t->cursor + i;
    bool scan = group->decodes && t->fetch.extent.info.health != LEAT_HEALTH_GOOD, scanned = false;
    for (size_t k = 0; k < group->n_outputs; k++) {
        size_t o = group->outputs[k];
        const struct leat_output *output = output_of(t, o);
        t->args[i].scan_to_end = scan && !scanned && output->decodes;
        int rc = LEAT_OK;
        if (output->ragged) {
            const int64_t *offsets = (const int64_t *)(const void *)buffer_of(t, o);
            uint64_t room = (uint64_t)(offsets[row + 1] - offsets[row]) * output->row_bytes;
            uint8_t *dst = buffer_of(t, o) + leat_output_values(output, t->batch->plan.rows) +
                           (uint64_t)offsets[row] * output->row_bytes;
            if (leat_program_ragged_bytes(l->program, o,
                                          leat_value_bytes(&t->fetch.extent.info, t->fetch.extent.length)) != room)
                return leat_fail(&t->error, LEAT_E_CHANGED,
                                 "a value changed its length while its batch was made; open the data set again");
            rc = leat_program_apply_ragged(l->program, o, t->work->scratch, &t->args[i], dst, &t->error);
        } else {
            uint8_t *dst = buffer_of(t, o) + row * output->row_bytes;
            if (leat_program_apply(l->program, o, t->work->scratch, &t->args[i], 1, dst, &t->error) < 1)
                rc = t->error.code ? t->error.code : LEAT_E_DECODE;
        }
        if (scan && output->decodes && (rc == LEAT_E_DECODE || !scanned))
            tell_source(t, i, rc);
        scanned |= output->decodes;
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

static int submit(struct leat_task *t, size_t i, size_t field, bool with_rows)
{
    struct leat_extent extent = t->fetch.extent;
    memset(&t->fetch, 0, sizeof t->fetch);
    t->fetch.ref = t->refs[i];
    t->fetch.field = field;
    t->fetch.extent = extent;
    t->fetch.with_rows = with_rows;
    t->fetch.buffer = t->buffer;
    t->fetch.request.done = leat_task_read_done;
    t->fetch.request.user = t;
    t->fetching = true;
    t->completed = false;
    return leat_fetch_submit(&t->fetch, &t->error);
}

static int known_broken(struct leat_task *t)
{
    return leat_fail(&t->error, LEAT_E_DECODE,
                     "the photo was found broken when it was packed or first used; replace it, or choose "
                     "on_error skip or substitute");
}

/* Finds the value of row i and makes place for it. Of a photo that is known to be broken nobody has kept why: the
 * planned one is read and decoded again, so that the error or the note says it each time. One that would only have
 * stood in for another is passed over. */
static int prepare_read(struct leat_task *t, size_t i, const struct leat_fetch_group *group)
{
    size_t failed = 0;
    t->fetch.extent = (struct leat_extent){0};
    int rc =
        leat_dataset_extents(t->loader->dataset, group->field, t->refs + i, 1, &t->fetch.extent, &failed, &t->error);
    if (rc)
        return rc;
    if (group->decodes && t->fetch.extent.info.health == LEAT_HEALTH_BROKEN && t->attempt)
        return known_broken(t);
    return leat_task_reserve(t, leat_fetch_room(&t->fetch.extent, group->decodes), t->decode_wanted, &t->error);
}

/* Memory for a photo that was read, if it takes more than scratch has. Where the task must wait for that, the photo is
 * read again afterwards: keeping it would keep memory from those that are waited for. */
static int prepare_decoding(struct leat_task *t, size_t i, const struct leat_fetch_group *group)
{
    const struct leat_row *row = &t->args[i];
    uint64_t bytes = group->decodes ? leat_photo_decode_bytes(row->data, row->length, &row->info, group->turns) : 0;
    uint64_t restoring = group->delivers && row->info.form == LEAT_FORM_FAST
                             ? leat_photo_restore_bytes(row->data, row->length, &row->info)
                             : 0;
    uint64_t usual = group->decodes || t->loader->restores ? LEAT_DECODE_BYTES : 0;
    bytes = restoring > bytes ? restoring : bytes;
    t->decode_wanted = bytes > usual ? bytes - usual : 0;
    return leat_task_reserve(t, t->room, t->decode_wanted, &t->error);
}

/* One field of row i: LEAT_OK, LEAT_IO_PENDING, or the error; *broken says whether that is the sample's fault. */
static int fetch_group(struct leat_task *t, size_t i, const struct leat_fetch_group *group, bool *broken)
{
    int rc = LEAT_OK;
    int64_t begun = leat_clock_ns();
    *broken = false;
    if (!t->fetching) {
        t->tries = 0;
        rc = prepare_read(t, i, group);
        if (rc) {
            *broken = is_broken(rc);
            return rc;
        }
        rc = submit(t, i, group->field, group->decodes);
    }
    for (;;) {
        if (rc == LEAT_IO_PENDING)
            break;
        t->fetching = false;
        int io = rc;
        if (!rc) {
            rc = leat_fetch_check(&t->fetch, &t->error);
            io = t->fetch.request.status;
        }
        bool with_rows = t->fetch.with_rows;
        if (rc == LEAT_E_CORRUPT && io && with_rows && leat_fetch_rows(&t->fetch)) {
            with_rows = false; /* the file was cut: perhaps only the index is lost */
        } else if (rc != LEAT_E_IO || ++t->tries >= READ_TRIES) {
            *broken = rc == LEAT_E_CORRUPT && !io; /* bytes that came but are not those that were written */
            break;
        }
        rc = submit(t, i, group->field, with_rows);
    }
    t->fetch_ns += leat_clock_ns() - begun;
    if (rc)
        return rc;
    t->fetches++;
    t->fetched_bytes += t->fetch.request.length;
    describe(t, i);
    if ((group->decodes || t->args[i].info.form != LEAT_FORM_ORIGINAL) && (rc = prepare_decoding(t, i, group)))
        return rc;
    rc = make_group(t, i, group);
    *broken = is_broken(rc);
    return rc;
}

/* fetch_group, but a photo that is known to be broken stays so whatever comes of reading it again. */
static int fetch_row(struct leat_task *t, size_t i, const struct leat_fetch_group *group, bool *broken)
{
    int rc = fetch_group(t, i, group, broken);
    bool known = group->decodes && t->fetch.extent.info.health == LEAT_HEALTH_BROKEN && rc != LEAT_IO_PENDING;
    if (!known || *broken || (rc && t->loader->on_error == LEAT_ON_ERROR_RAISE))
        return rc;
    *broken = true;
    return known_broken(t);
}

/* The fetched outputs of the chunk, and its broken rows. LEAT_IO_PENDING: the task is to be parked, and goes on
 * here. */
static int make_fetched(struct leat_task *t)
{
    struct leat_loader *l = t->loader;
    for (; t->row < t->count; t->row++, t->group = 0, t->attempt = 0) {
        size_t i = t->row;
        while (t->marks[i] == LEAT_ROW_BROKEN || (t->marks[i] == LEAT_ROW_GOOD && t->group < l->n_groups)) {
            if (t->marks[i] == LEAT_ROW_BROKEN) {
                t->group = 0;
                substitute(t, i);
                continue;
            }
            bool broken;
            int rc = fetch_row(t, i, &l->groups[t->group], &broken);
            if (rc == LEAT_IO_PENDING)
                return rc;
            leat_task_relax(t);
            if (rc) {
                if (is_broken(rc) || rc == LEAT_E_BUDGET)
                    leat_error_at_extent(&t->error, t->refs[i].source, &t->fetch.extent);
                leat_error_at_sample(&t->error, LEAT_NO_SAMPLE, field_name(t, l->groups[t->group].field));
                row_failed(t, i, rc, broken);
            } else {
                t->group++;
            }
        }
    }
    return LEAT_OK;
}

/* ---- the run --------------------------------------------------------------------------------- */

/* The one place that says what a row may be here: one whole sample. */
static bool is_whole_sample(const struct leat_plan_row *row)
{
    return !row->n_more && !row->piece.begin && row->piece.count == UINT64_MAX;
}

/* False with the batch failed: decisions gave up what its plan needs, as may befall one that was asked for long after
 * its turn. */
static bool prepare_chunk(struct leat_task *t, uint64_t first, uint64_t left)
{
    struct leat_loader *l = t->loader;
    t->count = left < l->chunk ? (size_t)left : l->chunk;
    const struct leat_batch *b = t->batch;
    int rc = b->listed ? leat_plan_rows_at(l->plan, b->plan.epoch, b->numbers + first, t->count, t->rows)
                       : leat_plan_rows(l->plan, &b->plan, first, t->count, t->rows);
    if (rc) {
        leat_fail(&t->error, rc,
                  "row %" PRIu64 " of epoch %" PRIu64
                  " can no longer be planned: decisions made since gave up what it needs",
                  t->batch->plan.begin + first, t->batch->plan.epoch);
        leat_task_raise(t, first);
        return false;
    }
    for (size_t i = 0; i < t->count; i++) {
        if (!is_whole_sample(&t->rows[i])) {
            leat_fail(&t->error, LEAT_E_UNSUPPORTED,
                      "row %" PRIu64 " is made of parts of samples, which this engine cannot join", t->rows[i].row);
            leat_task_raise(t, first + i);
            return false;
        }
        t->positions[i] = position_of(l, &t->rows[i].piece);
    }
    leat_dataset_locate(l->dataset, t->positions, t->count, t->refs);
    return true;
}

static void start_chunk(struct leat_task *t)
{
    struct leat_loader *l = t->loader;
    struct leat_batch *b = t->batch;
    uint64_t first = t->first + t->cursor;
    t->row = t->group = 0;
    t->attempt = 0;
    if (!prepare_chunk(t, first, t->n - t->cursor)) {
        memset(t->marks, LEAT_ROW_DONE, t->count);
        return;
    }
    for (size_t i = 0; i < t->count; i++) {
        b->ids[first + i] = t->refs[i].id;
        b->keys[first + i] = t->rows[i].key;
        b->valid[first + i] = t->rows[i].valid;
        t->args[i] = (struct leat_row){.key = t->rows[i].key, .sample = t->refs[i].id};
    }
    memset(t->marks, LEAT_ROW_GOOD, t->count);
    if (b->stand_in) { /* somebody else found the planned sample broken */
        t->attempt = b->stand_in - 1;
        t->marks[0] = LEAT_ROW_BROKEN;
        leat_fail(&t->error, LEAT_E_DECODE, "the caller found it broken");
        return;
    }
    for (size_t k = 0; k < l->n_in_place; k++)
        make_in_place(t, l->in_place[k]);
}

/* Lengths of all ragged outputs, summed. A value whose length cannot be learned counts as empty: its row will fail with
 * the same error when it is made. */
static void size_batch(struct leat_task *t)
{
    struct leat_loader *l = t->loader;
    struct leat_batch *b = t->batch;
    for (uint64_t first = 0; first < b->plan.rows; first += t->count) {
        if (!prepare_chunk(t, first, b->plan.rows - first))
            return;
        for (size_t g = 0; g < l->n_groups; g++) {
            const struct leat_fetch_group *group = &l->groups[g];
            for (size_t i = 0; i < t->count;) {
                size_t failed = 0;
                int rc = leat_dataset_extents(l->dataset, group->field, t->refs + i, t->count - i, t->extents + i,
                                              &failed, NULL);
                if (!rc)
                    break;
                i += failed;
                t->extents[i++] = (struct leat_extent){0};
            }
            for (size_t k = 0; k < group->n_outputs; k++) {
                const struct leat_output *output = output_of(t, group->outputs[k]);
                int64_t *offsets = b->offsets[group->outputs[k]];
                for (size_t i = 0; offsets && i < t->count; i++) {
                    uint64_t bytes = leat_program_ragged_bytes(
                        l->program, group->outputs[k], leat_value_bytes(&t->extents[i].info, t->extents[i].length));
                    uint64_t steps = output->row_bytes ? bytes / output->row_bytes : 0, sum = 0;
                    if (!leat_add_u64((uint64_t)offsets[first + i], steps, &sum) || sum > (UINT64_C(1) << 60))
                        sum = UINT64_C(1)
                              << 60; /* more than any budget: the batch is refused when its buffers are cut */
                    offsets[first + i + 1] = (int64_t)sum;
                }
            }
        }
    }
}

/* Rows of the run that are not made for nothing: their batch is wanted, and no earlier row of it has failed. */
static bool is_futile(const struct leat_task *t)
{
    return atomic_load_explicit(&t->batch->cancelled, memory_order_relaxed) ||
           atomic_load_explicit(&t->batch->failed_row, memory_order_relaxed) < t->first + t->cursor;
}

static void make_rows(struct leat_task *t)
{
    while (t->cursor < t->n && (t->fetching || !is_futile(t))) {
        if (!t->prepared) {
            start_chunk(t);
            t->prepared = true;
        }
        if ((t->loader->n_groups || t->loader->on_error == LEAT_ON_ERROR_SUBSTITUTE) &&
            make_fetched(t) == LEAT_IO_PENDING) {
            t->pending = true;
            return;
        }
        t->cursor += t->count;
        t->prepared = false;
    }
}

static bool has_scratch(struct leat_task *t)
{
    if (t->work)
        return true;
    t->work = leat_new(struct leat_work);
    if (t->work)
        t->work->scratch = leat_scratch_new(t->loader->program);
    if (t->work && t->work->scratch)
        return true;
    leat_free(t->work);
    t->work = NULL;
    leat_fail(&t->error, LEAT_E_NOMEM, "no memory for a thread's scratch");
    leat_task_raise(t, t->first + t->cursor);
    if (t->fetching) { /* resumed, but nothing can be made of what was read */
        leat_fetch_check(&t->fetch, NULL);
        t->fetching = false;
    }
    return false;
}

void leat_task_run(struct leat_task *t)
{
    int64_t begun = leat_clock_ns();
    struct leat_batch *b = t->batch;
    if (t->sizing)
        size_batch(t);
    else if (has_scratch(t))
        make_rows(t);
    if (!t->sizing && !t->pending &&
        atomic_fetch_add_explicit(&b->done, t->n, memory_order_acq_rel) + t->n == b->plan.rows && b->n_broken &&
        !b->loose)
        leat_batch_compact(b); /* whoever makes the last row */
    t->ns = leat_clock_ns() - begun;
}
