/* Steps PLAN and LOCATE of a job: from rows of the plan to the places of their values; values that sources compute. */
#include "engine/locate.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "engine/fetch.h"
#include "engine/filled.h"
#include "engine/job.h"
#include "engine/policy.h"

static uint64_t position_of(const struct leat_job_context *c, const struct leat_piece *piece)
{
    return c->source_begin[piece->source] + piece->position;
}

/* The one definition of a row here: one whole sample. */
static bool is_whole_sample(const struct leat_plan_row *row)
{
    return !row->n_more && !row->piece.begin && row->piece.count == UINT64_MAX;
}

int leat_job_plan(struct leat_job *j, uint64_t first, uint64_t left, uint64_t *failed)
{
    const struct leat_job_context *c = j->context;
    const struct leat_job_target *to = &j->target;
    leat_job_drop_made(j);
    j->chunk.row = 0;
    j->chunk.count = left < c->chunk ? (size_t)left : c->chunk;
    *failed = first;
    int rc = LEAT_OK;
    if (c->given)
        leat_given_rows(c->given, first, j->chunk.count, j->chunk.rows);
    else
        rc = to->numbers
                 ? leat_plan_rows_at(c->plan, to->plan.epoch, to->numbers + first, j->chunk.count, j->chunk.rows)
                 : leat_plan_rows(c->plan, &to->plan, first, j->chunk.count, j->chunk.rows);
    if (rc)
        return leat_fail(&j->error, rc,
                         "row %" PRIu64 " of epoch %" PRIu64
                         " can no longer be planned: decisions made since gave up what it needs",
                         to->plan.begin + first, to->plan.epoch);
    for (size_t i = 0; c->key && i < j->chunk.count; i++)
        j->chunk.rows[i].key = leat_key_mix(j->chunk.rows[i].key, c->key);
    const size_t placed = c->steps->place(c, j->chunk.rows, j->chunk.count, j->chunk.positions, j->chunk.refs);
    if (placed < j->chunk.count) {
        *failed = first + placed;
        return leat_fail(&j->error, LEAT_E_UNSUPPORTED,
                         "row %" PRIu64 " is made of parts of samples, which this engine cannot join",
                         j->chunk.rows[placed].row);
    }
    j->step = LEAT_STEP_LOOK_UP;
    leat_reads_begin(j);
    return c->follows && !c->given ? leat_job_find_batch(j) : LEAT_OK;
}

size_t leat_place_samples(const struct leat_job_context *c, const struct leat_plan_row *rows, size_t n,
                          uint64_t *positions, struct leat_sample_ref *refs)
{
    for (size_t i = 0; i < n; i++) {
        if (!is_whole_sample(&rows[i]))
            return i;
        positions[i] = position_of(c, &rows[i].piece);
    }
    leat_dataset_locate(c->dataset, positions, n, refs);
    return n;
}

bool leat_job_plan_substitute(struct leat_job *j, size_t i)
{
    struct leat_job_chunk *chunk = &j->chunk;
    if (chunk->attempts[i] >= LEAT_MAX_SUBSTITUTES)
        return false;
    const struct leat_job_context *c = j->context;
    const uint64_t row = chunk->rows[i].row;
    const unsigned attempt = chunk->attempts[i]++;
    const struct leat_piece piece = c->given ? leat_given_substitute(c->given, row, attempt)
                                             : leat_plan_substitute(c->plan, j->target.plan.epoch, row, attempt);
    if (!piece.count)
        return false;
    chunk->rows[i].piece = piece;
    return c->steps->place(c, chunk->rows + i, 1, chunk->positions + i, chunk->refs + i) == 1;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The places of at most LEAT_EXTENTS values in extents. */
static int locate_extents(struct leat_job *j, const struct leat_feed *feed, const struct leat_sample_ref *refs,
                          struct leat_job_value *v, size_t n, size_t *failed)
{
    const struct leat_job_context *c = j->context;
    size_t bad = 0;
    int rc = leat_dataset_extents(c->dataset, feed->field, refs, n, j->chunk.extents, &bad, &j->error);
    for (size_t k = 0; k < (rc ? bad : n); k++, v += c->n_slots) {
        v->way = LEAT_VALUE_READ;
        v->with_rows = feed->decodes;
        v->extent = j->chunk.extents[k];
        leat_ref_resolve(&v->ref, &v->field);
        if (!feed->fixed || v->extent.length == feed->value_bytes)
            continue;
        *failed = k;
        rc = leat_fail(&j->error, LEAT_E_CORRUPT, "a value of %" PRIu64 " bytes has an extent of %" PRIu64,
                       feed->value_bytes, v->extent.length);
        leat_error_at_extent(&j->error, v->ref.source, &v->extent);
        leat_error_at_sample(&j->error, refs[k].id, c->fields[feed->field].name);
        return rc;
    }
    *failed = bad;
    return rc;
}

/* The values of n samples in a field, all of that storage; `v` is the first, a row's slots before the next. */
static int locate_values(struct leat_job *j, const struct leat_feed *feed, enum leat_storage storage, uint8_t if_mapped,
                         const struct leat_sample_ref *refs, struct leat_job_value *v, size_t n, size_t *failed)
{
    static const struct leat_job_value empty;
    const struct leat_job_context *c = j->context;
    const size_t next = c->n_slots;
    const bool lengths = !j->target.outputs && feed->computed && feed->known;
    const uint8_t way = storage == LEAT_STORAGE_COMPUTED ? LEAT_VALUE_COMPUTED
                        : storage == LEAT_STORAGE_MAPPED ? if_mapped
                                                         : LEAT_VALUE_NONE;
    for (size_t k = 0; k < n; k++) {
        struct leat_job_value *const at = &v[k * next];
        *at = empty; /* and then its fields: one that is put together first takes longer to copy */
        at->feed = feed;
        at->way = way;
        at->ref = refs[k];
        at->field = feed->field;
        at->extent.length = feed->value_bytes;
        const uint64_t length =
            lengths && way == LEAT_VALUE_COMPUTED ? leat_ref_length(&refs[k], feed->field) : UINT64_MAX;
        if (length <= feed->known) {
            at->way = LEAT_VALUE_KNOWN;
            at->extent.length = length;
        }
    }
    if (storage != LEAT_STORAGE_EXTENT)
        return LEAT_OK;
    for (size_t k = 0, some; k < n; k += some, v += some * next) {
        some = n - k < LEAT_EXTENTS ? n - k : LEAT_EXTENTS;
        const int rc = locate_extents(j, feed, refs + k, v, some, failed);
        *failed += k;
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

int leat_job_locate(struct leat_job *j, const struct leat_feed *feed, size_t i, size_t n, size_t *failed)
{
    const struct leat_sample_ref *refs = j->chunk.refs;
    for (size_t end = i + n, run; i < end; i += run) {
        enum leat_storage storage = leat_ref_storage(&refs[i], feed->field);
        for (run = 1; i + run < end && leat_ref_storage(&refs[i + run], feed->field) == storage; run++)
            ;
        size_t bad;
        int rc = locate_values(j, feed, storage, feed->tied ? LEAT_VALUE_COPIED : LEAT_VALUE_NONE, refs + i,
                               leat_job_value(j, feed, i), run, &bad);
        if (rc) {
            *failed = i + bad;
            return rc;
        }
    }
    return LEAT_OK;
}

/* The values of the other samples of a row. */
static int locate_others(struct leat_job *j, size_t i)
{
    const struct leat_job_context *c = j->context;
    const unsigned n =
        leat_program_row_pieces(j->target.program ? j->target.program : c->program, j->chunk.rows[i].key);
    memset(&j->chunk.values[i * c->n_slots + c->own_slots], 0, (c->n_slots - c->own_slots) * sizeof *j->chunk.values);
    j->chunk.culprit = -1;
    for (unsigned p = 1; p < n; p++) { /* a substitute's row has others, too: one of these may have been broken */
        struct leat_sample_ref *ref = &j->chunk.others[i * (c->pieces - 1) + p - 1];
        const uint64_t row = j->chunk.rows[i].row;
        const unsigned number = p - 1 + (c->pieces - 1) * j->chunk.attempts[i];
        const struct leat_piece piece = c->given ? leat_given_companion(c->given, row, number)
                                                 : leat_plan_companion(c->plan, j->target.plan.epoch, row, number);
        if (!piece.count)
            return leat_fail(&j->error, LEAT_E_RANGE, "the other samples of row %" PRIu64 " can no longer be planned",
                             j->chunk.rows[i].row);
        const uint64_t position = position_of(c, &piece);
        leat_dataset_locate(c->dataset, &position, 1, ref);
        j->chunk.culprit = ref->id;
        for (size_t f = 0; f < c->n_feeds; f++) {
            const struct leat_feed *feed = &c->feeds[f];
            size_t bad;
            int rc = feed->gathered ? locate_values(j, feed, leat_ref_storage(ref, feed->field), LEAT_VALUE_COPIED, ref,
                                                    leat_job_piece(j, feed, i, p), 1, &bad)
                                    : LEAT_OK;
            if (rc)
                return rc;
        }
    }
    j->chunk.culprit = -1;
    return LEAT_OK;
}

int leat_job_locate_others(struct leat_job *j, size_t i, size_t n, size_t *failed)
{
    for (*failed = i; j->context->pieces > 1 && *failed < i + n; ++*failed) {
        int rc = locate_others(j, *failed);
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

/* ---- computed values ------------------------------------------------------------------------- */

/* The slots of a sample of row i. */
static struct leat_job_value *slots_of(const struct leat_job *j, size_t i, size_t piece)
{
    return &j->chunk.values[i * j->context->n_slots + piece * j->context->own_slots];
}

/* Whether a value is still to be computed. */
static bool is_open(const struct leat_feed *feed, const struct leat_job_value *slots)
{
    const struct leat_job_value *v = feed->computed ? slots + feed->slot : NULL;
    return v && v->way == LEAT_VALUE_COMPUTED && !v->data;
}

/* Whether the same values are to be computed for two rows. */
static bool same_open(const struct leat_job *j, size_t a, size_t b)
{
    const struct leat_job_context *c = j->context;
    bool same = j->chunk.refs[a].source == j->chunk.refs[b].source;
    for (size_t f = 0; same && f < c->n_feeds; f++)
        same = is_open(&c->feeds[f], slots_of(j, a, 0)) == is_open(&c->feeds[f], slots_of(j, b, 0));
    return same;
}

/* Values of row i that were computed before, of the sample that was planned. */
static void take_made(struct leat_job *j, size_t i)
{
    const struct leat_values *made = j->chunk.attempts[i] ? NULL : j->target.made;
    for (size_t f = 0; made && f < j->context->n_feeds; f++) {
        const struct leat_feed *feed = &j->context->feeds[f];
        if (!is_open(feed, slots_of(j, i, 0)))
            continue;
        const struct leat_computed *got = &made->at[feed->made * made->n_samples + j->first + j->cursor + i];
        if (!got->data)
            continue;
        leat_job_value(j, feed, i)->data = got->data;
        leat_job_value(j, feed, i)->extent.length = got->bytes;
    }
}

/* An arena for values; it stays until the chunk is done. */
static struct leat_values *new_arena(struct leat_job *j, size_t n_fields, size_t n)
{
    if (!leat_grow(&j->chunk.made, &j->chunk.made_room, j->chunk.n_made + 1, sizeof *j->chunk.made))
        return NULL;
    struct leat_values *values = &j->chunk.made[j->chunk.n_made];
    if (leat_values_init(values, n_fields, n))
        return NULL;
    values->cancelled = j->target.cancelled;
    values->rows = NULL;
    j->chunk.n_made++;
    return values;
}

void leat_job_drop_made(struct leat_job *j)
{
    while (j->chunk.n_made)
        leat_values_destroy(&j->chunk.made[--j->chunk.n_made]);
}

/* Values that go into the batch as they are, are made there. Only those of rows' own samples. */
static void aim_values(const struct leat_job *j, const struct leat_job_value *slots, size_t n,
                       struct leat_values *values)
{
    const struct leat_job_context *c = j->context;
    const size_t at = (size_t)(slots - j->chunk.values);
    for (size_t f = 0, m = 0; j->target.outputs && at % c->n_slots == 0 && f < c->n_feeds; f++) {
        if (!is_open(&c->feeds[f], slots))
            continue;
        for (size_t i = 0; !c->feeds[f].fixed && i < n; i++) {
            uint64_t room;
            uint8_t *to = leat_job_straight(j, &slots[i * c->n_slots + c->feeds[f].slot], at / c->n_slots + i, &room);
            if (to)
                leat_values_aim(values, m, i, to, room);
        }
        m++;
    }
}

/* The values of n samples of one source, of which the same are still to be computed: `slots` are those of the first. */
static int compute_values(struct leat_job *j, const struct leat_sample_ref *refs, struct leat_job_value *slots,
                          size_t n, size_t *failed)
{
    const struct leat_job_context *c = j->context;
    size_t k = 0, m = 0;
    for (size_t f = 0; f < c->n_feeds; f++)
        if (is_open(&c->feeds[f], slots))
            j->chunk.fields[k++] = c->feeds[f].field;
    struct leat_values *values = k ? new_arena(j, k, n) : NULL;
    if (!values)
        return k ? leat_fail(&j->error, LEAT_E_NOMEM, "no memory for computed values") : LEAT_OK;
    aim_values(j, slots, n, values);
    struct leat_batch_rows rows = j->chunk.batch;
    rows.keys = j->target.keys + leat_job_row(j, (size_t)(refs - j->chunk.refs));
    values->rows = c->follows && !c->given ? &rows : NULL;
    int rc = leat_dataset_compute(c->dataset, j->chunk.fields, k, refs, n, values, failed, &j->error);
    values->rows = NULL;
    for (size_t f = 0; !rc && f < c->n_feeds; f++) {
        if (!is_open(&c->feeds[f], slots))
            continue;
        for (size_t i = 0; i < n; i++) {
            struct leat_job_value *v = &slots[i * c->n_slots + c->feeds[f].slot];
            v->data = values->at[m * n + i].data;
            v->extent.length = values->at[m * n + i].bytes;
        }
        m++;
    }
    return rc;
}

static int compute_own(struct leat_job *j, size_t i, size_t n, size_t *failed)
{
    const size_t end = i + n;
    for (size_t k = i; k < end; k++)
        take_made(j, k);
    for (size_t run; i < end; i += run) {
        for (run = 1; i + run < end && same_open(j, i, i + run); run++)
            ;
        size_t bad = run;
        int rc = compute_values(j, &j->chunk.refs[i], slots_of(j, i, 0), run, &bad);
        if (rc) {
            *failed = bad < run ? i + bad : end;
            return rc;
        }
    }
    return LEAT_OK;
}

int leat_job_compute(struct leat_job *j, size_t i, size_t n, size_t *failed)
{
    const size_t others = j->context->pieces - 1;
    int rc = compute_own(j, i, n, failed);
    for (size_t k = i; !rc && k < i + n; k++)
        for (size_t p = 0; !rc && p < others; p++) {
            const struct leat_sample_ref *ref = &j->chunk.others[k * others + p];
            size_t bad;
            rc = compute_values(j, ref, slots_of(j, k, p + 1), 1, &bad);
            j->chunk.culprit = rc ? ref->id : -1;
            *failed = k;
        }
    return rc;
}
