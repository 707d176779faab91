/*
 * Step MAKE of a job, and LOCATE for mapped values: from values to rows of the outputs. Rows of mapped values are made
 * in runs, where they lie; those of other values one by one, from the job's buffer or from their source's results.
 */
#include "engine/make.h"

#include "engine/batch.h"
#include "engine/fetch.h"
#include "engine/job.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/policy.h"
#include "io/guard.h"

static uint8_t *memory_of(const struct leat_job *j, size_t o)
{
    return j->target.outputs[o];
}

static const struct leat_output *output_of(const struct leat_job *j, size_t o)
{
    return leat_program_output(j->target.program, o);
}

static uint8_t *beside_of(const struct leat_job *j, size_t o, size_t i)
{
    const size_t beside = leat_program_beside(j->target.program, o);
    return beside == SIZE_MAX ? NULL : memory_of(j, beside) + leat_job_row(j, i) * output_of(j, beside)->row_bytes;
}

static const char *field_name(const struct leat_job *j, size_t field)
{
    return j->context->fields[field].name;
}

static struct leat_fetch fetch_of(const struct leat_job *j, const struct leat_job_value *v)
{
    return (struct leat_fetch){.ref = v->ref,
                               .field = v->field,
                               .extent = v->extent,
                               .with_rows = v->with_rows,
                               .made = v->way == LEAT_VALUE_COMPUTED,
                               .buffer = leat_reads_value(j, v)};
}

static const struct leat_job_value *value_of_field(const struct leat_job *j, size_t field, size_t i)
{
    const struct leat_feed *feed = j->context->feeds;
    while (feed->field != field)
        feed++;
    return leat_job_value(j, feed, i);
}

/* ---- outputs of mapped fields ---------------------------------------------------------------- */

struct apply {
    const struct leat_program *program;
    size_t output;
    struct leat_scratch *scratch;
    const struct leat_row *rows;
    size_t n, made;
    void *dst, *beside; /* the destination of the rows, and of those of the output that is made in the same call; or
                         * NULL */
    struct leat_error *error;
};

static int apply_guarded(void *arg)
{
    struct apply *a = arg;
    a->made = a->beside ? leat_program_apply_both(a->program, a->output, a->scratch, a->rows, a->n, a->dst, a->beside,
                                                  a->error)
                        : leat_program_apply(a->program, a->output, a->scratch, a->rows, a->n, a->dst, a->error);
    return LEAT_OK;
}

int leat_job_apply(struct leat_job *j, struct leat_scratch *scratch, size_t o, uint64_t value_bytes, size_t i, size_t n,
                   size_t *made)
{
    uint8_t *dst = memory_of(j, o) + leat_job_row(j, i) * output_of(j, o)->row_bytes;
    struct apply a = {j->target.program, o, scratch, j->making.args + i, n, 0, dst, beside_of(j, o, i), &j->error};
    for (size_t k = i; k < i + n; k++) {
        j->making.args[k].data = j->making.data[k];
        j->making.args[k].length = value_bytes;
    }
    int rc = leat_guarded(apply_guarded, &a, &j->error);
    if (rc && n > 1) { /* a mapping faulted: go row by row, so that the sample has a name */
        for (size_t k = 0; k < n; k++) {
            size_t one = 0;
            rc = leat_job_apply(j, scratch, o, value_bytes, i + k, 1, &one);
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

/* The number of the rows from i on that are mapped, or are not. */
static size_t same_storage(const struct leat_job *j, const struct leat_feed *feed, size_t i)
{
    size_t n = feed->fetched ? 1 : j->chunk.count - i;
    while (i + n < j->chunk.count && leat_job_is_mapped(j, feed, i + n) == leat_job_is_mapped(j, feed, i))
        n++;
    return n;
}

void leat_job_make_mapped(struct leat_job *j, struct leat_scratch *scratch, const struct leat_feed *feed, size_t o)
{
    const struct leat_job_context *c = j->context;
    uint64_t value = feed->value_bytes;
    if (leat_program_is_beside(j->target.program, o))
        return;
    bool small = value && value <= LEAT_COLD_VALUE;
    for (size_t i = 0, n; i < j->chunk.count; i += n) {
        n = same_storage(j, feed, i);
        if (!leat_job_is_mapped(j, feed, i))
            continue;
        size_t failed = 0;
        if (small && n > c->cold_bytes / value)
            n = c->cold_bytes / value;
        int rc = leat_dataset_rows(c->dataset, feed->field, j->chunk.refs + i, n, small ? j->making.cold : NULL,
                                   j->making.data + i, &failed, &j->error);
        struct leat_error found = {0};
        if (rc) {
            found = j->error;
            n = failed;
        }
        for (size_t made = 0; made < n;) {
            size_t part = 0;
            int bad = leat_job_apply(j, scratch, o, value, i + made, n - made, &part);
            made += part;
            if (bad) {
                leat_error_at_sample(&j->error, LEAT_NO_SAMPLE, field_name(j, feed->field));
                leat_job_row_failed(j, i + made, bad, leat_is_broken(bad));
                made++;
            }
        }
        if (rc) {
            j->error = found;
            leat_job_row_failed(j, i + n, rc, leat_is_broken(rc));
            n++;
        }
    }
}

int leat_job_make_from(struct leat_job *j, struct leat_scratch *scratch, const struct leat_feed *feed, size_t i,
                       const void *value)
{
    int rc = LEAT_OK;
    size_t made = 0;
    j->making.data[i] = value;
    for (size_t k = 0; !rc && k < feed->n_outputs; k++)
        if (!leat_program_is_beside(j->target.program, feed->outputs[k]))
            rc = leat_job_apply(j, scratch, feed->outputs[k], feed->value_bytes, i, 1, &made);
    return rc;
}

int leat_job_remake_mapped(struct leat_job *j, struct leat_scratch *scratch, size_t i)
{
    for (size_t f = 0; f < j->context->n_feeds; f++) {
        const struct leat_feed *feed = &j->context->feeds[f];
        if (!leat_job_is_mapped(j, feed, i))
            continue;
        size_t failed = 0;
        const void *value;
        int rc =
            leat_dataset_rows(j->context->dataset, feed->field, j->chunk.refs + i, 1, NULL, &value, &failed, &j->error);
        rc = rc ? rc : leat_job_make_from(j, scratch, feed, i, value);
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

/* ---- outputs of other values ----------------------------------------------------------------- */

/* Counts the faults that lenient decoding has passed in the row made last. */
static void count_warnings(struct leat_job *j, struct leat_scratch *scratch)
{
    const char *const *names;
    unsigned warnings = leat_scratch_warnings(scratch, &names);
    for (unsigned i = 0; warnings >> i; i++)
        j->results.warned[i] += warnings >> i & 1;
    j->results.warning_names = warnings ? names : j->results.warning_names;
}

/* The result of decoding a value that nothing was known of. `rows`: the starts of its rows, NULL if they are not known.
 */
static void tell_source(const struct leat_fetch *fetch, enum leat_health health, const uint8_t *rows, size_t length)
{
    if (health == LEAT_HEALTH_UNCHECKED || fetch->extent.info.health != LEAT_HEALTH_UNCHECKED)
        return;
    leat_fetch_mark(fetch, health);
    if (health == LEAT_HEALTH_GOOD)
        leat_fetch_keep(fetch, rows, rows ? length : 0);
}

/* The destination of row `row` of an output, and the number of bytes there. */
static uint8_t *place_of(const struct leat_job *j, uint64_t row, size_t o, uint64_t *room)
{
    const struct leat_output *output = output_of(j, o);
    uint8_t *dst = memory_of(j, o);
    *room = output->row_bytes;
    if (output->open)
        return NULL;
    if (!output->ragged)
        return dst + row * output->row_bytes;
    const int64_t *offsets = (const int64_t *)(const void *)dst;
    *room = (uint64_t)(offsets[row + 1] - offsets[row]) * output->row_bytes;
    return dst + leat_output_values(output, j->target.plan.rows) + (uint64_t)offsets[row] * output->row_bytes;
}

static bool fits_room(struct leat_job *j, size_t o, const struct leat_value_info *info, uint64_t length, uint64_t room)
{
    const struct leat_output *output = output_of(j, o);
    if (!output->ragged || output->open || leat_program_value_bytes(j->target.program, o, info, length) == room)
        return true;
    leat_fail(&j->error, LEAT_E_CHANGED,
              "a value changed its length while its batch was made; open the data set again");
    return false;
}

uint8_t *leat_job_straight(const struct leat_job *j, const struct leat_job_value *v, size_t i, uint64_t *room)
{
    const struct leat_feed *feed = v->feed;
    if (feed->n_all != 1 || feed->n_outputs != 1 || v->with_rows || v->extent.before || v->extent.after ||
        v->extent.info.form != LEAT_FORM_ORIGINAL || !leat_program_copies(j->target.program, feed->outputs[0]))
        return NULL;
    return place_of(j, leat_job_row(j, i), feed->outputs[0], room);
}

/* The length of a row that only making it has told. */
static void note_steps(struct leat_job *j, const struct leat_scratch *scratch, uint64_t row, size_t o)
{
    if (output_of(j, o)->bounded)
        j->target.steps[o][row] = (int64_t)leat_scratch_steps(scratch);
}

/* One output of an ordinary chain; of lists also the one that is made in the same call. */
static int make_output(struct leat_job *j, struct leat_scratch *scratch, const struct leat_row *value, uint64_t row,
                       size_t o)
{
    const struct leat_program *program = j->target.program;
    const size_t other = leat_program_beside(program, o);
    uint64_t room;
    uint8_t *dst = place_of(j, row, o, &room), *beside;
    if (!fits_room(j, o, &value->info, value->length, room))
        return LEAT_E_CHANGED;
    if (dst && value->data == dst) /* it was read to there, or made there */
        return LEAT_OK;
    if (output_of(j, o)->ragged && other != SIZE_MAX) {
        beside = place_of(j, row, other, &room);
        if (!fits_room(j, other, &value->info, value->length, room))
            return LEAT_E_CHANGED;
        const int rc = leat_program_apply_list(program, o, scratch, value, dst, beside, &j->error);
        note_steps(j, scratch, row, o);
        note_steps(j, scratch, row, other); /* labels are as many as tokens */
        return rc;
    }
    if (output_of(j, o)->ragged) {
        const int rc = leat_program_apply_ragged(program, o, scratch, value, dst, &j->error);
        note_steps(j, scratch, row, o);
        return rc;
    }
    if (leat_program_apply(program, o, scratch, value, 1, dst, &j->error) == 1)
        return LEAT_OK;
    return j->error.code ? j->error.code : LEAT_E_DECODE;
}

/* The outputs of ordinary chains from one value. */
static int make_outputs(struct leat_job *j, struct leat_scratch *scratch, const struct leat_job_value *v,
                        struct leat_row *value, uint64_t row)
{
    const struct leat_feed *feed = v->feed;
    struct leat_fetch fetch = fetch_of(j, v);
    bool scan = feed->decodes && v->extent.info.health != LEAT_HEALTH_GOOD;
    for (size_t k = 0; k < feed->n_outputs; k++) {
        size_t o = feed->outputs[k], length;
        bool decodes = output_of(j, o)->decodes;
        if (output_of(j, o)->ragged && leat_program_is_beside(j->target.program, o))
            continue;
        value->scan_to_end = scan && decodes;
        int rc = make_output(j, scratch, value, row, o);
        if (decodes) {
            enum leat_health health = leat_scratch_health(scratch);
            const uint8_t *rows = leat_scratch_rows(scratch, &length);
            count_warnings(j, scratch);
            scan &= health == LEAT_HEALTH_UNCHECKED;
            if (v->way != LEAT_VALUE_COPIED)
                tell_source(&fetch, health, rows, length);
        }
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

static int take_room(struct leat_room *room, size_t output, uint64_t bytes, void **memory, struct leat_error *error)
{
    struct leat_job *j = (struct leat_job *)(void *)((char *)room - offsetof(struct leat_job, making.room_of_row));
    return j->result_room(j, output, leat_job_row(j, j->memory.asking), bytes, memory, error);
}

/* The most that an output takes of the values of a row's samples. */
static uint64_t tuple_bytes(const struct leat_job *j, size_t o, const struct leat_job_value *v, unsigned samples)
{
    uint64_t sum = 0;
    for (unsigned p = 0; p < (output_of(j, o)->bounded ? samples : 1); p++, v += j->context->own_slots)
        sum += leat_program_value_bytes(j->target.program, o, &v->extent.info, v->extent.length);
    return sum;
}

/* Whether masks of instances are too many, or too large, for any batch: that of the other rows was sized without them.
 */
static int check_drawn(struct leat_job *j, const struct leat_job_value *v, size_t o, unsigned samples)
{
    const struct leat_output *output = output_of(j, o);
    const uint64_t bytes = output->drawn && output->ragged ? tuple_bytes(j, o, v, samples) : 0;
    if (bytes <= LEAT_MOST_DRAWN)
        return LEAT_OK;
    return leat_fail(&j->error, LEAT_E_DECODE,
                     "masks of its %" PRIu64 " instances, of %" PRId64 " x %" PRId64 " pixels each, take %" PRIu64
                     " bytes, more than the %" PRIu64
                     " that a sample may take: ask for them smaller, or leave '%s' out",
                     output->row_bytes ? bytes / output->row_bytes : 0, output->shape[1], output->shape[2], bytes,
                     LEAT_MOST_DRAWN, output->name);
}

/* Whether the values of a row's samples are as long as they were when its batch got its memory. */
static bool fits_tuple(struct leat_job *j, const struct leat_program_chain *chain, size_t o, size_t i, unsigned pieces,
                       uint64_t room)
{
    const struct leat_output *output = output_of(j, o);
    const struct leat_job_value *v = value_of_field(j, output->field, i);
    if (chain->pieces == 1 || !output->bounded)
        return fits_room(j, o, &v->extent.info, v->extent.length, room);
    if (tuple_bytes(j, o, v, pieces) <= room)
        return true;
    leat_fail(&j->error, LEAT_E_CHANGED,
              "a value changed its length while its batch was made; open the data set again");
    return false;
}

/* All outputs of one row of a tuple's chain. `*blamed`: the value that is at fault, or NULL. */
static int make_tuple(struct leat_job *j, struct leat_scratch *scratch, size_t number, size_t i,
                      const struct leat_job_value **blamed)
{
    const struct leat_program_chain *chain = leat_program_chain(j->target.program, number);
    const size_t own = j->context->own_slots;
    const unsigned pieces = chain->pieces > 1 ? leat_program_row_pieces(j->target.program, j->making.args[i].key) : 1;
    const size_t n = pieces * chain->n_fields;
    uint64_t row = leat_job_row(j, i), room;
    size_t failed = n;
    for (size_t k = 0; k < n; k++) {
        const size_t piece = k / chain->n_fields, field = k % chain->n_fields;
        const struct leat_job_value *v = value_of_field(j, chain->fields[field], i) + piece * own;
        j->making.tied[k] = j->making.inputs[v->feed->slot + piece * own];
        j->making.tied[k].scan_to_end = chain->decodes[field] && v->extent.info.health != LEAT_HEALTH_GOOD;
    }
    for (size_t k = 0; k < chain->n_outputs; k++) {
        j->making.tied_outputs[k] = place_of(j, row, chain->outputs[k], &room);
        if (output_of(j, chain->outputs[k])->drawn) {
            *blamed = value_of_field(j, output_of(j, chain->outputs[k])->field, i);
            int rc = check_drawn(j, *blamed, chain->outputs[k], pieces);
            if (rc)
                return rc;
        }
        if (!fits_tuple(j, chain, chain->outputs[k], i, pieces, room))
            return LEAT_E_CHANGED;
    }
    j->making.room_of_row = (struct leat_room){take_room};
    j->memory.asking = i;
    leat_scratch_give_room(scratch, &j->making.room_of_row);
    int rc = leat_program_apply_tuple(j->target.program, number, scratch, j->making.tied, j->making.tied_outputs,
                                      j->making.tied_steps, &failed, &j->error);
    const size_t culprit = failed < n ? failed / chain->n_fields : 0;
    *blamed = failed < n ? value_of_field(j, chain->fields[failed % chain->n_fields], i) + culprit * own : NULL;
    size_t length;
    const uint8_t *rows = leat_scratch_rows(scratch, &length);
    if (rc == LEAT_IO_PENDING)
        return rc;
    count_warnings(j, scratch);
    for (size_t k = 0; k < n; k++) {
        const size_t piece = k / chain->n_fields, field = k % chain->n_fields;
        const struct leat_job_value *v = value_of_field(j, chain->fields[field], i) + piece * own;
        if (!j->making.tied[k].scan_to_end || v->way == LEAT_VALUE_COPIED || (rc && k != failed))
            continue;
        struct leat_fetch fetch = fetch_of(j, v);
        if (rc || k == chain->canvas) /* scratch knows the last value that was decoded */
            tell_source(&fetch, leat_scratch_health(scratch), rows, length);
        else if (!output_of(j, chain->outputs[field])->lenient)
            tell_source(&fetch, LEAT_HEALTH_GOOD, NULL, 0);
    }
    for (size_t k = 0; !rc && k < chain->n_outputs; k++)
        if (output_of(j, chain->outputs[k])->bounded)
            j->target.steps[chain->outputs[k]][row] = (int64_t)j->making.tied_steps[k];
    return rc;
}

/* Whether values take more memory to decode than scratch has, and than was granted. */
static bool wants_memory(struct leat_job *j, size_t i)
{
    const struct leat_job_context *c = j->context;
    j->memory.wants = j->memory.room;
    j->memory.wants_decoding = 0;
    for (size_t s = 0; s < c->n_slots; s++) {
        const struct leat_job_value *v = &j->chunk.values[i * c->n_slots + s];
        const struct leat_row *row = &j->making.inputs[s];
        if (v->way == LEAT_VALUE_NONE || (!v->feed->decodes && !v->feed->grows && row->info.form == LEAT_FORM_ORIGINAL))
            continue;
        uint64_t usual = v->feed->decodes || c->restores ? LEAT_DECODE_BYTES : 0, bytes = 0;
        for (size_t k = 0; k < v->feed->n_all; k++) {
            uint64_t one =
                leat_program_decode_bytes(j->target.program, v->feed->outputs[k], row, (unsigned)(s / c->own_slots));
            bytes = one > bytes ? one : bytes;
        }
        if (bytes > usual && bytes - usual > j->memory.wants_decoding)
            j->memory.wants_decoding = bytes - usual;
    }
    return j->memory.wants_decoding > j->memory.decoding;
}

static int known_broken(struct leat_job *j)
{
    return leat_fail(&j->error, LEAT_E_DECODE,
                     "the value was found broken when it was packed or first used; replace it, or choose "
                     "on_error skip or substitute");
}

int leat_job_at_value(struct leat_job *j, size_t i, const struct leat_job_value *v, int rc)
{
    const struct leat_job_context *c = j->context;
    const size_t piece = (size_t)(v - &j->chunk.values[i * c->n_slots]) / c->own_slots;
    j->chunk.culprit = piece ? j->chunk.others[i * (c->pieces - 1) + piece - 1].id : -1;
    if (v->way == LEAT_VALUE_READ && (leat_is_broken(rc) || rc == LEAT_E_BUDGET))
        leat_error_at_extent(&j->error, v->ref.source, &v->extent);
    leat_error_at_sample(&j->error, LEAT_NO_SAMPLE, field_name(j, v->feed->field));
    return rc;
}

/* A mapped value that is needed in plain memory. */
static int copy_mapped(struct leat_job *j, const struct leat_job_value *v)
{
    const void *from;
    size_t failed;
    int rc = leat_dataset_rows(j->context->dataset, v->feed->field, &v->ref, 1, NULL, &from, &failed, &j->error);
    return rc ? rc : leat_guarded_copy(leat_reads_value(j, v), from, (size_t)v->extent.length, &j->error);
}

static struct leat_value_id value_id(const struct leat_job_value *v)
{
    return (struct leat_value_id){v->ref.source, v->ref.sample, v->field};
}

bool leat_job_would_wait(const struct leat_job *j, const struct leat_scratch *scratch, size_t i)
{
    const struct leat_job_value *v = &j->chunk.values[i * j->context->n_slots];
    for (size_t s = 0; s < j->context->n_slots; s++, v++) {
        const struct leat_value_id id = value_id(v);
        if (v->way == LEAT_VALUE_READ && v->feed->decodes && leat_scratch_would_wait(scratch, &id))
            return true;
    }
    return false;
}

/* Measured where bytes are looked at. */
static int check_value(struct leat_job *j, struct leat_fetch *fetch)
{
    if (!fetch->extent.verify && fetch->ref.source->fields[fetch->field].kind == LEAT_KIND_ARRAY)
        return leat_fetch_check(fetch, &j->error);
    const int64_t begun = leat_clock_ns();
    const int rc = leat_fetch_check(fetch, &j->error);
    j->results.fetch_ns += leat_clock_ns() - begun;
    return rc;
}

/* One value of row i as programs take it, verified. */
static int take_value(struct leat_job *j, struct leat_job_value *v, struct leat_row *row, size_t i, bool *broken)
{
    struct leat_fetch fetch = fetch_of(j, v);
    int rc = LEAT_OK;
    *row = j->making.args[i];
    if (v->way == LEAT_VALUE_COPIED)
        rc = copy_mapped(j, v);
    if (v->way == LEAT_VALUE_READ && !v->checked) {
        rc = check_value(j, &fetch);
        *broken = rc == LEAT_E_CORRUPT; /* bytes that came but are not those that were written */
        v->checked = true;
        v->extent.info = fetch.extent.info;
        j->results.fetches++;
    }
    if (v->way == LEAT_VALUE_COMPUTED && v->feed->decodes && !v->checked) {
        leat_fetch_know(&fetch);
        v->checked = true;
        v->extent = fetch.extent;
    }
    if (v->way == LEAT_VALUE_READ)
        row->value = value_id(v);
    row->data = fetch.buffer;
    row->length = v->extent.length;
    row->info = v->extent.info;
    row->info.rows = v->way == LEAT_VALUE_READ ? leat_fetch_rows(&fetch) : v->extent.info.rows;
    return rc;
}

/* Makes the outputs of the values of row i, which are in the buffer or computed. LEAT_JOB_ROOM: that needs more
 * memory. */
static int make_from_values(struct leat_job *j, struct leat_scratch *scratch, size_t i, bool *broken,
                            const struct leat_job_value **blamed)
{
    const struct leat_job_context *c = j->context;
    struct leat_job_value *values = &j->chunk.values[i * c->n_slots];
    int rc = LEAT_OK;
    for (size_t s = 0; s < c->n_slots; s++) {
        *blamed = &values[s];
        if (values[s].way != LEAT_VALUE_NONE && (rc = take_value(j, &values[s], &j->making.inputs[s], i, broken)))
            return rc;
    }
    if (wants_memory(j, i))
        return LEAT_JOB_ROOM;
    for (size_t s = 0; s < c->own_slots && !rc; s++) {
        *blamed = &values[s];
        const bool copied = values[s].way == LEAT_VALUE_COPIED && values[s].feed->grows;
        if (values[s].way == LEAT_VALUE_READ || values[s].way == LEAT_VALUE_COMPUTED || copied)
            rc = make_outputs(j, scratch, &values[s], &j->making.inputs[s], leat_job_row(j, i));
    }
    for (size_t k = 0; c->most_tied && k < leat_program_chains(c->program) && !rc; k++)
        if (leat_program_chain(c->program, k)->tuple)
            rc = make_tuple(j, scratch, k, i, blamed);
    *broken = leat_is_broken(rc);
    return rc;
}

/* A value of row i that is known to be broken. A lenient decoder looks for itself. */
static const struct leat_job_value *find_known(const struct leat_job *j, size_t i)
{
    const struct leat_job_value *v = &j->chunk.values[i * j->context->n_slots];
    for (size_t s = 0; s < j->context->n_slots; s++, v++)
        if (v->way == LEAT_VALUE_READ && v->feed->strict && v->extent.info.health == LEAT_HEALTH_BROKEN)
            return v;
    return NULL;
}

bool leat_job_pass_known(struct leat_job *j, size_t i)
{
    const struct leat_job_value *known = find_known(j, i);
    if (known)
        leat_job_row_failed(j, i, leat_job_at_value(j, i, known, known_broken(j)), true);
    return known;
}

void leat_job_refuse_row(struct leat_job *j, size_t i, int code)
{
    bool known = j->context->on_error != LEAT_ON_ERROR_RAISE && find_known(j, i);
    leat_job_row_failed(j, i, known ? known_broken(j) : code, known);
}

int leat_job_make_row(struct leat_job *j, struct leat_scratch *scratch, size_t i)
{
    const struct leat_job_value *blamed = NULL, *known = find_known(j, i);
    bool broken = false;
    int rc = make_from_values(j, scratch, i, &broken, &blamed);
    if (rc == LEAT_JOB_ROOM || rc == LEAT_IO_PENDING)
        return LEAT_JOB_ROOM;
    /* A value that is known to be broken stays so whatever comes of reading it again. */
    if (known && !broken && !(rc && j->context->on_error == LEAT_ON_ERROR_RAISE)) {
        rc = known_broken(j);
        blamed = known;
        broken = true;
    }
    if (rc && blamed)
        leat_job_at_value(j, i, blamed, rc);
    if (rc)
        leat_job_row_failed(j, i, rc, broken);
    else
        j->chunk.marks[i] = LEAT_ROW_DONE;
    return LEAT_OK;
}
