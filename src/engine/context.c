/*
 * What the jobs of a loader are made from: which fields the program takes, how their values are reached, and how much
 * they need.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/job.h"

/* Rows that a job handles at a time: where all is mapped, as many as share the cost of a call; else as many as are
 * worth reading ahead of being made. */
#define CHUNK_MAPPED 256
#define CHUNK_FETCHED 32
#define COLD_BYTES 65536
#define PROBES 64

static struct leat_feed *feed_of(struct leat_job_context *c, size_t field)
{
    for (size_t f = 0; f < c->n_feeds; f++)
        if (c->feeds[f].field == field)
            return &c->feeds[f];
    struct leat_feed *feed = &c->feeds[c->n_feeds];
    feed->field = field;
    feed->outputs = leat_new_array(leat_program_outputs(c->program), sizeof *feed->outputs);
    c->n_feeds += feed->outputs != NULL;
    return feed->outputs ? feed : NULL;
}

static int add_output(struct leat_job_context *c, size_t o)
{
    const struct leat_output *output = leat_program_output(c->program, o);
    struct leat_feed *feed = feed_of(c, output->field);
    if (!feed)
        return LEAT_E_NOMEM;
    feed->outputs[feed->n_outputs++] = o;
    feed->decodes |= output->decodes;
    feed->delivers |= !output->decodes;
    feed->ragged |= output->ragged;
    return LEAT_OK;
}

static void describe(struct leat_job_context *c, struct leat_feed *feed)
{
    const struct leat_field *field = &c->fields[feed->field];
    unsigned storages = leat_dataset_storages(c->dataset, feed->field);
    feed->mapped = storages & 1u << LEAT_STORAGE_MAPPED;
    feed->fetched = storages & ~(1u << LEAT_STORAGE_MAPPED);
    feed->slot = feed->fetched ? c->n_slots++ : 0;
    feed->align = (uint8_t)leat_dtype_size(field->dtype);
    feed->fixed = field->kind == LEAT_KIND_ARRAY && (!field->ndim || field->shape[0] >= 0);
    feed->value_bytes = leat_dtype_size(field->dtype);
    for (unsigned d = 0; feed->fixed && d < field->ndim; d++)
        feed->value_bytes *= (uint64_t)field->shape[d];
}

int leat_job_context_make(struct leat_job_context *c, struct leat_error *error)
{
    size_t n = leat_program_outputs(c->program);
    c->feeds = leat_new_array(n + 1, sizeof *c->feeds);
    int rc = c->feeds ? LEAT_OK : LEAT_E_NOMEM;
    for (size_t o = 0; !rc && o < n; o++)
        rc = add_output(c, o);
    if (rc)
        return leat_fail(error, rc, "no memory for a loader");
    for (size_t f = 0; f < c->n_feeds; f++)
        describe(c, &c->feeds[f]);
    c->chunk = c->n_slots ? CHUNK_FETCHED : CHUNK_MAPPED;
    for (size_t f = 0; f < c->n_feeds; f++) {
        uint64_t value = c->feeds[f].value_bytes, room = value * c->chunk;
        if (c->feeds[f].mapped && value <= LEAT_COLD_VALUE && room > c->cold_bytes)
            c->cold_bytes = room < COLD_BYTES ? room : COLD_BYTES;
    }
    return LEAT_OK;
}

void leat_job_context_destroy(struct leat_job_context *c)
{
    for (size_t f = 0; f < c->n_feeds; f++)
        leat_free(c->feeds[f].outputs);
    leat_free(c->feeds);
}

/* Adds what a value of one sample needs. Where it cannot be asked, it is passed over: its row will say why. */
static void probe(struct leat_job_context *c, const struct leat_feed *feed, const struct leat_sample_ref *ref,
                  uint64_t *ragged, uint64_t *room)
{
    struct leat_extent extent;
    size_t failed;
    if (!feed->fetched || leat_ref_storage(ref, feed->field) != LEAT_STORAGE_EXTENT ||
        leat_dataset_extents(c->dataset, feed->field, ref, 1, &extent, &failed, NULL))
        return;
    if (!leat_add_u64(*room, leat_fetch_room(&extent, feed->decodes), room))
        return;
    c->restores |= feed->delivers && extent.info.form == LEAT_FORM_FAST;
    for (size_t k = 0; k < feed->n_outputs; k++)
        if (leat_program_output(c->program, feed->outputs[k])->ragged)
            *ragged +=
                leat_program_ragged_bytes(c->program, feed->outputs[k], leat_value_bytes(&extent.info, extent.length));
}

void leat_job_context_probe(struct leat_job_context *c, uint64_t *ragged_row, uint64_t *largest)
{
    uint64_t count = leat_dataset_count(c->dataset), n = count < PROBES ? count : PROBES, sum = 0;
    *largest = 0;
    for (uint64_t i = 0; c->n_slots && i < n; i++) {
        uint64_t position = n > 1 ? (uint64_t)((unsigned __int128)i * (count - 1) / (n - 1)) : 0, room = 0;
        struct leat_sample_ref ref;
        leat_dataset_locate(c->dataset, &position, 1, &ref);
        for (size_t f = 0; f < c->n_feeds; f++)
            probe(c, &c->feeds[f], &ref, &sum, &room);
        *largest = room > *largest ? room : *largest;
    }
    *ragged_row = n ? sum / n : 0;
}
