/*
 * The base of the jobs of a loader: the fields that the program takes, the ways to their values, and their needs.
 */
#include "engine/context.h"

#include "engine/job.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/packing.h"

/* Rows that a job handles at a time: if all is mapped, or computed by a source, as many as share the cost of a call;
 * else as many as are worth reading ahead of being made. */
#define CHUNK_MAPPED 256
#define CHUNK_FETCHED 32
#define COLD_BYTES 65536
#define MADE_BYTES (UINT64_C(4) << 20) /* of computed values of fixed size, of a chunk */
#define PROBES 64
#define PROBES_MADE 8 /* of a source that computes its values: each may be slow */

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

static int add_chain(struct leat_job_context *c, const struct leat_program_chain *chain)
{
    for (size_t i = 0; i < chain->n_fields; i++) {
        struct leat_feed *feed = feed_of(c, chain->fields[i]);
        if (!feed)
            return LEAT_E_NOMEM;
        feed->tied |= chain->tuple;
        feed->gathered |= chain->pieces > 1;
        feed->decodes |= chain->decodes[i];
        feed->delivers |= !chain->decodes[i];
    }
    for (size_t i = 0; i < chain->n_outputs; i++) {
        const struct leat_output *output = leat_program_output(c->program, chain->outputs[i]);
        struct leat_feed *feed = feed_of(c, output->field);
        if (!feed)
            return LEAT_E_NOMEM;
        feed->ragged |= output->ragged && !output->open;
        feed->strict |= output->decodes && !output->lenient;
        feed->grows |= output->grows;
        feed->tied |= output->grows;
        if (chain->tuple && !output->decodes && !output->grows)
            continue;
        feed->outputs[feed->n_all++] = chain->outputs[i];
        feed->n_outputs += !chain->tuple;
    }
    size_t most = chain->n_fields > chain->n_outputs ? chain->n_fields : chain->n_outputs;
    c->most_tied = chain->tuple && most > c->most_tied ? most : c->most_tied;
    return LEAT_OK;
}

/* Whether the only use of a field is an output that has its values as they are, which its source writes. */
static bool is_filled(const struct leat_job_context *c, const struct leat_feed *feed)
{
    return c->n_filled < LEAT_MAX_FILLED && !feed->tied && feed->n_all == 1 && feed->n_outputs == 1 &&
           leat_dataset_is_filled(c->dataset, feed->field) && leat_program_copies(c->program, feed->outputs[0]);
}

/* Values that go straight into their batch have no memory of their own; others wait for their rows with those of the
 * chunk. */
static uint64_t most_known(const struct leat_job_context *c, const struct leat_feed *feed)
{
    if (!feed->computed || !feed->ragged || feed->fixed)
        return 0;
    const bool straight = feed->n_all == 1 && feed->n_outputs == 1 && leat_program_copies(c->program, feed->outputs[0]);
    return straight ? UINT64_MAX - 1 : MADE_BYTES / c->chunk;
}

static void describe(struct leat_job_context *c, struct leat_feed *feed)
{
    const struct leat_field *field = &c->fields[feed->field];
    unsigned storages = c->packing ? 0 : leat_dataset_storages(c->dataset, feed->field);
    feed->mapped = storages & 1u << LEAT_STORAGE_MAPPED;
    feed->computed = storages & 1u << LEAT_STORAGE_COMPUTED;
    feed->fetched = storages & ~(1u << LEAT_STORAGE_MAPPED);
    feed->filled = !c->packing && is_filled(c, feed);
    feed->fetched &= !feed->filled;
    feed->computed &= !feed->filled;
    feed->slotted = feed->fetched || feed->tied;
    feed->slot = feed->slotted ? c->n_slots++ : 0;
    feed->made = feed->computed ? c->n_made++ : 0;
    c->n_filled += feed->filled;
    feed->align = (uint8_t)leat_dtype_size(field->dtype);
    feed->fixed = field->kind == LEAT_KIND_ARRAY && (!field->ndim || field->shape[0] >= 0);
    feed->value_bytes = leat_dtype_size(field->dtype);
    for (unsigned d = 0; feed->fixed && d < field->ndim; d++)
        feed->value_bytes *= (uint64_t)field->shape[d];
    c->sizes_made |= feed->computed && feed->ragged && !feed->fixed;
}

int leat_job_context_make(struct leat_job_context *c, struct leat_error *error)
{
    size_t n = 1, made_bytes = 0;
    for (size_t i = 0; i < leat_program_chains(c->program); i++)
        n += leat_program_chain(c->program, i)->n_fields;
    c->feeds = leat_new_array(n, sizeof *c->feeds);
    int rc = c->feeds ? LEAT_OK : LEAT_E_NOMEM;
    for (int tuple = 0; tuple < 2; tuple++) /* ordinary ones first */
        for (size_t i = 0; !rc && i < leat_program_chains(c->program); i++)
            if (leat_program_chain(c->program, i)->tuple == tuple)
                rc = add_chain(c, leat_program_chain(c->program, i));
    if (rc)
        return leat_fail(error, rc, "no memory for a loader");
    bool reads = false;
    c->follows = !c->packing && leat_dataset_follows_batches(c->dataset);
    for (size_t f = 0; f < c->n_feeds; f++) {
        struct leat_feed *feed = &c->feeds[f];
        describe(c, feed);
        const size_t stored = c->packing ? c->packing->field : feed->field;
        reads |= feed->tied || (leat_dataset_storages(c->dataset, stored) & 1u << LEAT_STORAGE_EXTENT);
        reads |= c->packing && c->packing->mask &&
                 (leat_dataset_storages(c->dataset, c->packing->mask->field) & 1u << LEAT_STORAGE_EXTENT);
        made_bytes += feed->computed && feed->fixed ? feed->value_bytes : 0;
    }
    c->pieces = leat_program_pieces(c->program);
    c->own_slots = c->n_slots;
    c->n_slots *= c->pieces;
    c->looks_up = reads && !c->packing && leat_dataset_looks_up(c->dataset);
    c->chunk = reads ? CHUNK_FETCHED : CHUNK_MAPPED;
    if (made_bytes * c->chunk > MADE_BYTES)
        c->chunk = made_bytes < MADE_BYTES ? (unsigned)(MADE_BYTES / made_bytes) : 1;
    c->made_bytes = made_bytes * c->chunk;
    for (size_t f = 0; f < c->n_feeds; f++)
        c->feeds[f].known = most_known(c, &c->feeds[f]);
    c->steps = c->packing ? &leat_steps_of_pieces : &leat_steps_of_samples;
    c->fly_rows = c->packing ? 1 : c->chunk; /* a row that is cut from documents waits for its reads alone */
    c->chunk_values = c->packing ? leat_packing_values() : c->n_slots * c->chunk;
    c->assembly_bytes = c->packing ? leat_packing_row_bytes(c->packing) : 0;
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
    leat_free(c->source_begin);
    leat_free(c->row_begin);
    leat_packing_close(c->packing);
}

/* ---- the needs of values --------------------------------------------------------------------- */

/* Bytes of the ragged outputs whose lengths follow from a value of `bytes`. */
static uint64_t ragged_bytes(const struct leat_job_context *c, const struct leat_feed *feed,
                             const struct leat_value_info *info, uint64_t bytes)
{
    uint64_t sum = 0;
    for (size_t o = 0; feed->ragged && o < leat_program_outputs(c->program); o++) {
        const struct leat_output *output = leat_program_output(c->program, o);
        if (!output->ragged || output->open || output->field != feed->field)
            continue;
        const uint64_t one = leat_program_value_bytes(c->program, o, info, bytes);
        sum += output->drawn && one > LEAT_MOST_DRAWN ? 0 : one; /* such a row is broken */
    }
    return sum;
}

/* Adds the needs of a value of one sample. If it cannot be asked, it is passed over: its row will give the reason. */
static void probe(struct leat_job_context *c, const struct leat_feed *feed, const struct leat_sample_ref *ref,
                  uint64_t *ragged, uint64_t *room)
{
    struct leat_extent extent = {0};
    size_t failed;
    enum leat_storage storage = leat_ref_storage(ref, feed->field);
    if (storage == LEAT_STORAGE_MAPPED) {
        *room += feed->tied ? feed->value_bytes : 0;
        *ragged += ragged_bytes(c, feed, &extent.info, feed->value_bytes);
        return;
    }
    if (storage != LEAT_STORAGE_EXTENT ||
        leat_dataset_extents(c->dataset, feed->field, ref, 1, &extent, &failed, NULL) ||
        !leat_add_u64(*room, leat_fetch_room(&extent, feed->decodes), room))
        return;
    c->restores |= feed->delivers && extent.info.form == LEAT_FORM_FAST;
    *ragged += ragged_bytes(c, feed, &extent.info, extent.length);
}

/* Values of ragged outputs that a source has to compute to say how long they are. */
static void probe_made(struct leat_job_context *c, const struct leat_sample_ref *ref, uint64_t *ragged)
{
    for (size_t f = 0; f < c->n_feeds; f++) {
        const struct leat_feed *feed = &c->feeds[f];
        const struct leat_value_info none = {0};
        struct leat_values values;
        size_t failed;
        const uint64_t known = feed->known ? leat_ref_length(ref, feed->field) : UINT64_MAX;
        if (known <= feed->known) {
            *ragged += ragged_bytes(c, feed, &none, known);
            continue;
        }
        if (!feed->computed || !feed->ragged || leat_ref_storage(ref, feed->field) != LEAT_STORAGE_COMPUTED ||
            leat_values_init(&values, 1, 1))
            continue;
        if (!leat_dataset_compute(c->dataset, &feed->field, 1, ref, 1, &values, &failed, NULL))
            *ragged += ragged_bytes(c, feed, &none, values.at[0].bytes) + values.at[0].bytes;
        leat_values_destroy(&values);
    }
}

void leat_job_context_probe(struct leat_job_context *c, uint64_t *ragged_row, uint64_t *largest)
{
    uint64_t count = leat_dataset_count(c->dataset), n = c->sizes_made ? PROBES_MADE : PROBES, sum = 0;
    n = count < n ? count : n;
    *largest = c->packing ? leat_packing_probe(c) : 0;
    for (uint64_t i = 0; c->n_slots && i < n; i++) {
        uint64_t position = n > 1 ? (uint64_t)((unsigned __int128)i * (count - 1) / (n - 1)) : 0, room = 0;
        struct leat_sample_ref ref;
        leat_dataset_locate(c->dataset, &position, 1, &ref);
        for (size_t f = 0; f < c->n_feeds; f++)
            probe(c, &c->feeds[f], &ref, &sum, &room);
        if (c->sizes_made)
            probe_made(c, &ref, &sum);
        room *= c->pieces;
        *largest = room > *largest ? room : *largest;
    }
    *ragged_row = n ? sum / n : 0;
}
