/*
 * Opening and closing a loader: options, program, plan, budget, region; then it joins the engine.
 */
#include "engine/open.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "engine/context.h"
#include "engine/executor.h"
#include "engine/kept.h"
#include "engine/loader.h"
#include "engine/ordered.h"
#include "engine/packing.h"
#include "engine/record.h"
#include "engine/reserve.h"
#include "engine/run.h"
#include "engine/side.h"
#include "engine/sources.h"
#include "engine/task.h"
#include "engine/unordered.h"

#define WINDOW_BATCHES 24
#define LEAST_BATCHES 3
/* For the default: batches that are read in order and are smaller than a 24th of this may fill it, as far as they are
 * cheap (window.h). 256 integers a batch: with 24 in flight 31 us of CPU time each, half of it the system's for waking
 * threads; with 2 MiB of them 19 us. */
#define SMALL_WINDOW (UINT64_C(2) << 20)
/* For the default: for photos of which more than the crop must be kept. The number of batches in the window does not
 * count on it. */
#define DECODING_SPARE (UINT64_C(64) << 20)
#define LEAST_HELD                                                                                                     \
    (UINT64_C(64) << 20) /* of the default: with small batches, a list of an epoch's labels is no accident */
#define READING_SPARE (UINT64_C(16) << 20) /* for the default, if reads complete later: a thousand small values */
/* ... and of any: more than connections carry, 1.3 GB/s at a latency of 50 ms, would only wait for them. */
#define MOST_IN_FLIGHT (UINT64_C(64) << 20)
#define MOST_FLY_BYTES (UINT64_C(4) << 20)    /* of the values that one task reads ahead */
#define MAX_WINDOW_BYTES (UINT64_C(64) << 10) /* of small values that are read together: they stay in the cache */
#define MAX_THREADS 1024
#define CALLS_IN_FLIGHT 8 /* so many have memory set aside, each in a task; more if the budget has room for them */
#define EXIT_PATIENCE_NS INT64_C(2000000000)
#define REST_NS INT64_C(1000000000) /* a loader that was not asked for so long gives free memory back */

static int take_options(const struct leat_loader_options *given, struct leat_loader_options *o,
                        struct leat_error *error)
{
    static const struct leat_loader_options defaults = LEAT_LOADER_OPTIONS_INIT;
    *o = defaults;
    if (!given || given->struct_size < sizeof(size_t))
        return leat_fail(error, LEAT_E_INVALID, "options must be given and begun with LEAT_LOADER_OPTIONS_INIT");
    memcpy(o, given, given->struct_size < sizeof *o ? given->struct_size : sizeof *o);
    if (!o->batch_size == !o->global_batch_size)
        return leat_fail(error, LEAT_E_INVALID,
                         "give either batch_size (rows per rank) or global_batch_size (rows of all ranks)");
    if (!o->world_size || o->rank >= o->world_size)
        return leat_fail(error, LEAT_E_INVALID, "rank %" PRIu32 " of %" PRIu32 " does not exist: ranks count from 0",
                         o->rank, o->world_size);
    if (o->batch_size && !leat_mul_u64(o->batch_size, o->world_size, &o->global_batch_size))
        return leat_fail(error, LEAT_E_INVALID, "batch_size is too large");
    if (o->global_batch_size > LEAT_MAX_GLOBAL_BATCH)
        return leat_fail(error, LEAT_E_INVALID, "a batch of %" PRIu64 " rows is too large", o->global_batch_size);
    if (!(o->weight > 0) || o->weight > 1e9)
        return leat_fail(error, LEAT_E_INVALID, "weight must be above 0, not %g", o->weight);
    if (o->on_error < LEAT_ON_ERROR_RAISE || o->on_error > LEAT_ON_ERROR_SUBSTITUTE)
        return leat_fail(error, LEAT_E_INVALID, "on_error must be raise, skip or substitute");
    if (o->buckets && (o->batch_size != 1 || !o->in_order || o->pack))
        return leat_fail(error, LEAT_E_INVALID,
                         "batches by size need batch_size 1 and in_order, and are of samples that are not packed");
    if (o->one_of && (o->buckets || o->pack))
        return leat_fail(error, LEAT_E_INVALID,
                         "rows that draw one of a group have the length of the member, which is not known before: "
                         "neither batches by size nor packed rows are made of them");
    if (o->epochs < -1)
        return leat_fail(error, LEAT_E_INVALID, "epochs must be -1 (unknown) or a number");
    return LEAT_OK;
}

/* ---- program --------------------------------------------------------------------------------- */

static enum leat_open open_sizes(const struct leat_loader_options *o)
{
    return o->global_batch_size == o->world_size && !o->buckets ? LEAT_OPEN_ROWS : LEAT_OPEN_STACKS;
}

static int compile(struct leat_loader *l, const struct leat_sources *sources, const struct leat_loader_options *o,
                   struct leat_error *error)
{
    struct leat_job_context *c = &l->job;
    c->dataset = l->dataset;
    c->fields = c->documents = leat_dataset_fields(l->dataset, &c->n_fields);
    int rc = sources ? leat_sources_cut(sources, c, error) : LEAT_OK; /* beside another one: cut as there */
    if (rc)
        return rc;
    if (c->packing) {
        c->packing->seed_of_draws = o->seed;
        c->fields = c->packing->fields;
        c->n_fields = c->packing->n_fields;
    }
    rc = leat_program_compile(c->fields, c->n_fields, o->program, o->functions, o->n_functions, open_sizes(o),
                              &l->program, error);
    const char *path = leat_dataset_path(l->dataset);
    if (rc == LEAT_E_NOT_FOUND && error && *path) { /* a field that it has not */
        const size_t used = strlen(error->message);
        snprintf(error->message + used, sizeof error->message - used, " (%s)", path);
    }
    if (rc)
        return rc;
    l->program_text = o->program ? leat_strdup(o->program) : NULL;
    if (o->program && !l->program_text)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a loader");
    for (size_t k = 0; c->packing && k < leat_program_chains(l->program); k++)
        if (leat_program_chain(l->program, k)->tuple)
            return leat_fail(error, LEAT_E_TYPE,
                             "output %s: of rows that are cut from documents an output takes one field, without "
                             "geometry",
                             leat_program_output(l->program, leat_program_chain(l->program, k)->outputs[0])->name);
    c->program = l->program;
    l->pool.n_outputs = leat_program_outputs(l->program);
    l->pool.live = leat_new_array(l->pool.n_outputs + 1, sizeof *l->pool.live);
    l->pool.program = l->program;
    l->pool.seed = o->seed;
    if (leat_program_varies(l->program) && !o->in_order)
        return leat_fail(error, LEAT_E_INVALID,
                         "a size per batch needs in_order=True: without it a batch has rows of several steps");
    if (!l->pool.live)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a loader");
    l->executor = o->executor;
    double guess = 0;
    uint64_t row_bytes = 0;
    for (size_t i = 0; i < l->pool.n_outputs; i++) {
        const struct leat_output *output = leat_program_output(l->program, i);
        if (output->called && !o->executor)
            return leat_fail(error, LEAT_E_INVALID, "output %s has calls, and the loader has no executor for them",
                             output->name);
        if (output->called && output->segment > l->pool.n_segments)
            l->pool.n_segments = output->segment;
        if (output->called && output->segment % 2 == 0 && !o->in_order)
            return leat_fail(error, LEAT_E_INVALID,
                             "a function on the whole batch needs in_order=True: without it a batch is not as planned");
        l->pool.late |= (uint64_t)leat_output_is_late(output) << output->segment;
        if (output->ndim + 1 > LEAT_MAX_DIMS)
            return leat_fail(error, LEAT_E_TYPE,
                             "output %s has %u dimensions, and a batch of it one more: at most %d are possible",
                             output->name, output->ndim, LEAT_MAX_DIMS);
        if (output->ragged && (output->hidden || !leat_output_is_late(output)) &&
            o->on_error == LEAT_ON_ERROR_SUBSTITUTE)
            return leat_fail(error, LEAT_E_INVALID,
                             "on_error substitute needs outputs of fixed shape, and %s varies from row to row%s: leave "
                             "it out (ids of "
                             "the batch tell the samples), or use skip",
                             output->name, output->open ? " where a function takes it" : "");
        l->ragged |= output->ragged && !leat_output_is_late(output);
        l->pool.bounded |= output->bounded;
        if (!output->ragged && !leat_add_u64(row_bytes, output->row_bytes, &row_bytes))
            return leat_fail(error, LEAT_E_TYPE, "a row of output %s is too large", output->name);
        guess += output->decodes ? 1e6 : output->in_place ? 20 + (double)output->row_bytes / 20 : 2000;
    }
    l->tasks.ns_per_row = guess > 1 ? guess : 1;
    return LEAT_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The bytes of a batch of `rows` rows, ragged outputs as probed. */
static uint64_t batch_bytes(const struct leat_loader *l, uint64_t rows)
{
    uint64_t sum = leat_batch_meta_bytes(&l->pool, rows), values;
    for (size_t o = 0; o < l->pool.n_outputs; o++) {
        const struct leat_output *output = leat_program_output(l->program, o);
        if (!leat_add_u64(sum, leat_output_bytes(output, rows, 0), &sum))
            return UINT64_C(1) << 60;
    }
    const uint64_t weight = leat_plan_group_weight(l->plan); /* long rows are few to a batch */
    if (!leat_mul_u64(weight ? weight : rows, l->bounds.ragged_row + l->bounds.ragged_row / 4, &values) ||
        !leat_add_u64(sum, values, &sum))
        return UINT64_C(1) << 60;
    return sum;
}

static uint64_t rows_of_batch(const struct leat_loader *l, uint64_t global_batch)
{
    uint64_t rows = (global_batch + l->input.world_size - 1) / l->input.world_size,
             most = leat_plan_epoch_rows(l->plan, 0) + 1;
    if (leat_plan_group_rows(l->plan))
        return leat_plan_group_rows(l->plan);
    if (l->input.mixed)
        most = UINT64_MAX; /* epochs differ */
    if (l->input.lists_later)
        most = l->job.packing || leat_plan_draws(l->plan) ? UINT64_MAX : leat_dataset_count(l->dataset) + 1;
    return rows < most ? rows : most;
}

/* Whether more than the usual number of batches may be in flight if they are cheap. */
static bool may_run_ahead(const struct leat_loader *l)
{
    return !l->bounds.asked_budget && l->delivery == &leat_delivery_in_order && !l->executor && !(l->pool.late & 1);
}

/* Bytes in flight: the caller's number, or so many batches with the scratch of the threads. */
static int choose_budget(const struct leat_loader *l, uint64_t batch, uint64_t scratch, uint64_t least_scratch,
                         uint64_t *budget, struct leat_error *error)
{
    if (batch >= UINT64_C(1) << 50)
        return leat_fail(error, LEAT_E_BUDGET,
                         "a batch of that size needs more memory than any machine has; make batch_size smaller");
    uint64_t least = LEAST_BATCHES * batch + least_scratch, most = leat_memory_allowed() / 4;
    if (l->bounds.asked_budget && l->bounds.asked_budget < least)
        return leat_fail(error, LEAT_E_BUDGET,
                         "budget_bytes = %" PRIu64 " is too small: three batches of %" PRIu64
                         " bytes and scratch need %" PRIu64,
                         l->bounds.asked_budget, batch, least);
    if (batch > leat_memory_allowed() / 2) /* which all loaders together leave to the program: it would never begin */
        return leat_fail(error, LEAT_E_BUDGET,
                         "a batch takes %" PRIu64
                         " bytes, more than half of the memory that this process may use; make "
                         "batch_size smaller",
                         batch);
    bool open = l->pool.late & 1; /* the needs of its batches are unknown: they are at most so many */
    uint64_t window = WINDOW_BATCHES * batch;
    if (may_run_ahead(l) && window < SMALL_WINDOW)
        window = LEAT_MAX_WINDOW * batch < SMALL_WINDOW ? LEAT_MAX_WINDOW * batch : SMALL_WINDOW;
    if (l->pool.late >> 1 && window < SMALL_WINDOW)
        window = SMALL_WINDOW; /* results of functions are no part of the estimate, and take more than small rows do */
    *budget = !open && window + scratch < most ? window + scratch : most;
    *budget = l->bounds.asked_budget ? l->bounds.asked_budget : *budget > least ? *budget : least;
    return LEAT_OK;
}

int leat_loader_fit(struct leat_loader *l, uint64_t global_batch, struct leat_error *error)
{
    struct leat_budget *b = &l->budget;
    uint64_t batch = batch_bytes(l, rows_of_batch(l, global_batch)), scratch = b->fixed + b->reserved, budget = 0;
    int rc = choose_budget(l, batch, scratch, scratch, &budget, error);
    if (rc)
        return rc;
    uint64_t held = l->bounds.asked_held ? l->bounds.asked_held : budget > LEAST_HELD ? budget : LEAST_HELD;
    if (held < batch)
        return leat_fail(error, LEAT_E_BUDGET, "max_held_bytes = %" PRIu64 " is too small: one batch needs %" PRIu64,
                         held, batch);
    b->limit = budget + l->bounds.spare > b->limit ? budget + l->bounds.spare : b->limit; /* memory in use stays */
    b->max_held = held > b->max_held ? held : b->max_held;
    uint64_t room = (b->limit - l->bounds.spare - scratch) / batch;
    room = l->ragged ? 2 * room : room;
    room = l->pool.late && !l->bounds.asked_budget && room > WINDOW_BATCHES ? WINDOW_BATCHES : room;
    l->window.room = room < LEAST_BATCHES ? LEAST_BATCHES : room > LEAT_MAX_WINDOW ? LEAT_MAX_WINDOW : (size_t)room;
    l->window.cheap_room = l->window.room;
    const size_t usual = l->ragged ? 2 * WINDOW_BATCHES : WINDOW_BATCHES;
    if (may_run_ahead(l) && batch * usual < SMALL_WINDOW && l->window.room > usual)
        l->window.room = usual;
    l->window.estimate = batch;
    l->bounds.region_limit = b->limit - scratch + b->max_held;
    return LEAT_OK;
}

/* The share of `threads` and a consumer that helps: scratch, and tasks of which one more may wait. */
static uint64_t scratch_of(const struct leat_loader *l, unsigned threads)
{
    uint64_t task = leat_task_size(l);
    return (threads + 1) * (l->bounds.scratch_bytes + task + l->tasks.usual_room) +
           task * (l->pool.n_segments ? CALLS_IN_FLIGHT : 1);
}

/* Reads that are in flight while nobody works at them get a share of the budget: a quarter of one that the caller has
 * stated, without which it still has two batches; the default is raised. */
void leat_loader_share(struct leat_loader *l, bool wanted)
{
    struct leat_tasks *t = &l->tasks;
    uint64_t scratch = l->budget.fixed + l->budget.reserved, least = scratch + 2 * l->window.estimate;
    uint64_t left = l->budget.limit > least ? l->budget.limit - least : 0, quarter = l->budget.limit / 4;
    quarter = quarter < MOST_IN_FLIGHT ? quarter : MOST_IN_FLIGHT;
    if (!wanted) {
        leat_budget_unreserve(&l->budget, t->share);
        t->share = t->wanted_share = 0;
    } else if (l->bounds.asked_budget) {
        t->wanted_share = quarter < left ? quarter : left;
    } else {
        t->wanted_share = READING_SPARE;
        if (!l->bounds.raised) {
            l->budget.limit += READING_SPARE;
            l->bounds.spare += READING_SPARE;
        }
        l->bounds.raised = true;
    }
    t->most_in_flight = quarter > READING_SPARE              ? quarter
                        : t->wanted_share > l->job.fly_bytes ? t->wanted_share
                                                             : l->job.fly_bytes;
}

static int make_budget(struct leat_loader *l, const struct leat_loader_options *o, struct leat_error *error)
{
    uint64_t largest, budget = 0, eighth = leat_memory_allowed() / 8;
    leat_job_context_probe(&l->job, &l->bounds.ragged_row, &largest);
    l->bounds.asked_budget = o->budget_bytes;
    l->bounds.asked_held = o->max_held_bytes;
    l->bounds.scratch_bytes = leat_program_scratch_bytes(l->program) + (l->job.restores ? LEAT_DECODE_BYTES : 0);
    l->bounds.scratch_bytes += l->job.packing ? leat_packing_document_bytes(l->job.packing) : 0;
    l->tasks.usual_room = leat_region_round(2 * largest);
    l->job.window_bytes = l->tasks.usual_room < MAX_WINDOW_BYTES ? l->tasks.usual_room : MAX_WINDOW_BYTES;
    uint64_t batch = batch_bytes(l, rows_of_batch(l, o->global_batch_size));
    unsigned cores = leat_cpu_count() / (o->local_ranks ? o->local_ranks : 1);
    unsigned threads = o->num_threads ? o->num_threads : cores ? cores : 1;
    threads = threads > MAX_THREADS ? MAX_THREADS : threads;
    int rc = choose_budget(l, batch, scratch_of(l, threads), scratch_of(l, 1), &budget, error);
    if (rc)
        return rc;
    while (threads > 1 && scratch_of(l, threads) + LEAST_BATCHES * batch > budget)
        threads--; /* better fewer threads than a window that starves them */
    l->client.max_threads = threads;
    l->one_core = leat_cpu_count() == 1;
    l->budget.fixed = (threads + 1) * l->bounds.scratch_bytes;
    l->budget.reserved = scratch_of(l, threads) - l->budget.fixed;
    for (size_t f = 0; f < l->job.n_feeds && !l->bounds.asked_budget; f++)
        if (l->job.feeds[f].decodes || l->job.feeds[f].grows)
            l->bounds.spare = DECODING_SPARE < eighth ? DECODING_SPARE : eighth;
    rc = leat_loader_fit(l, o->global_batch_size, error);
    l->job.fly_bytes = l->budget.limit / 64 < MOST_FLY_BYTES ? l->budget.limit / 64 : MOST_FLY_BYTES;
    if (l->job.fly_bytes < l->job.window_bytes)
        l->job.fly_bytes = l->job.window_bytes;
    return rc ? rc : leat_region_open(&l->pool.region, o->region, l->bounds.region_limit, o->pinning, error);
}

static int open_report(struct leat_loader *l, const char *path, struct leat_error *error)
{
    if (!path)
        return LEAT_OK;
    l->report.fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (l->report.fd >= 0)
        return LEAT_OK;
    int rc = leat_fail_errno(error, LEAT_E_IO, "cannot open the error report");
    leat_error_at_file(error, path, LEAT_NO_OFFSET);
    return rc;
}

/* ---- open and close -------------------------------------------------------------------------- */

static struct leat_task *take(struct leat_client *client)
{
    return leat_task_take(leat_loader_of(client), true);
}

static bool rest(struct leat_client *client, int64_t now_ns)
{
    struct leat_loader *l = leat_loader_of(client);
    if (now_ns - l->pace.last_next_ns < REST_NS)
        return l->pool.region.dirty > 0;
    leat_region_trim(&l->pool.region);
    return false;
}

static void wake(struct leat_client *client)
{
    struct leat_loader *l = leat_loader_of(client);
    l->due |= LEAT_DUE_WAKE;
    leat_loader_settle(l);
}

static const struct leat_client_functions functions = {take, leat_task_run, leat_task_finish, rest, wake};

static void given_back(struct leat_batch_pool *pool)
{
    leat_loader_settle(leat_loader_of_pool(pool));
}

static void destroy(struct leat_batch_pool *pool)
{
    struct leat_loader *l = leat_loader_of_pool(pool);
    if (l->input.beside) { /* these are that one's */
        l->plan = l->input.listed ? l->plan : NULL;
        l->job.packing = NULL;
        l->job.source_begin = l->job.row_begin = NULL;
    }
    leat_plan_free(l->plan);
    for (struct leat_task *t; (t = l->tasks.free);) {
        l->tasks.free = t->next;
        leat_task_destroy(t);
    }
    for (struct leat_work *w; (w = l->tasks.all_work);) {
        l->tasks.all_work = w->all;
        leat_scratch_free(w->scratch);
        leat_free(w);
    }
    leat_batch_pool_clear(pool);
    if (l->delivery->free)
        l->delivery->free(l);
    leat_record_close(l->record);
    leat_trace_clear(&l->trace);
    leat_job_context_destroy(&l->job);
    leat_program_free(l->program);
    leat_free(l->program_text);
    if (l->report.fd >= 0)
        close(l->report.fd);
    leat_free(l);
}

static int join_engine(struct leat_loader *l, struct leat_error *error)
{
    leat_engine_lock();
    int rc = LEAT_OK;
    struct leat_task *list = NULL, *t; /* so that no thread can fail to get one later */
    for (unsigned i = 0; !rc && i < l->client.max_threads + 2; i++)
        if ((t = leat_task_new(l))) {
            t->next = list;
            list = t;
        } else {
            rc = leat_fail(error, LEAT_E_NOMEM, "no memory for the tasks of a loader");
        }
    l->tasks.free = list;
    leat_budget_open(&l->budget);
    leat_loader_evict_others(l, 0); /* the least that a loader has may have passed the limit of them all */
    if (!rc)
        rc = leat_client_join(&l->client, error);
    if (rc)
        leat_budget_close(&l->budget);
    else if (!leat_dataset_is_lent(l->dataset) && (l->slot = leat_page_join())) /* that is a function, not a reader */
        leat_page_update(l, leat_clock_ns());
    leat_engine_unlock();
    return rc;
}

static struct leat_loader *new_loader(const struct leat_loader_options *o)
{
    struct leat_loader *l = leat_new(struct leat_loader);
    if (!l)
        return NULL;
    leat_condition_init(&l->callers.changed);
    l->client.functions = &functions;
    l->client.weight = o->weight;
    l->delivery = o->in_order ? &leat_delivery_in_order : &leat_delivery_out_of_order;
    l->pool.numbered = l->delivery->numbers_rows;
    l->pool.budget = &l->budget;
    l->pool.references = 1;
    l->pool.generation = leat_engine_generation();
    l->pool.given_back = given_back;
    l->pool.destroy = destroy;
    l->report.fd = l->pool.region.fd = -1;
    l->tasks.resumed_tail = &l->tasks.resumed;
    l->job.on_error = o->on_error;
    l->job.trace = &l->trace;
    l->input.epochs = o->epochs;
    l->input.rank = o->rank;
    l->input.world_size = o->world_size;
    leat_consumer_init(l);
    l->input.list_epoch = -1;
    l->pace.opened_ns = l->pace.last_next_ns = leat_clock_ns();
    return l;
}

/* Gives up a loader that could not be opened. */
static void undo(struct leat_loader *l)
{
    leat_dataset_release(l->dataset);
    destroy(&l->pool);
}

int leat_loader_fail_followed(const char *what, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_INVALID,
                     "%s: a graph of events is read in the order of time, each event once, since what comes with an "
                     "event is what was known before it: leave that out, and take parts of the graph by split_time or "
                     "slices",
                     what);
}

/* Values that follow from the batch have a meaning only in batches that are runs of one data set in its order. */
static int check_followed(const struct leat_loader *l, const struct leat_sources *sources,
                          const struct leat_loader_options *o, struct leat_error *error)
{
    if (!leat_dataset_follows_batches(l->dataset))
        return LEAT_OK;
    const char *what = sources->mix || sources->n > 1            ? "a mixture"
                       : sources->at[0].pack                     ? "packed rows"
                       : sources->at[0].one_of                   ? "one of a group"
                       : o->buckets                              ? "batches by size"
                       : !o->in_order                            ? "in_order=False"
                       : o->decided                              ? "feedback="
                       : o->on_error == LEAT_ON_ERROR_SUBSTITUTE ? "on_error=\"substitute\""
                       : l->input.order == LEAT_ORDER_SEQUENTIAL ? NULL
                       : l->input.order == LEAT_ORDER_SHUFFLED   ? "shuffle=True"
                       : l->input.order == LEAT_ORDER_BLOCKS     ? "shuffle=Blocks(...)"
                                                                 : "a sampler";
    if (!what && !leat_dataset_is_in_order(l->dataset))
        what = "a view in another order, or graphs that are joined or zipped (join and zip their events)";
    return what ? leat_loader_fail_followed(what, error) : LEAT_OK;
}

static int open_sources(const struct leat_sources *sources, const struct leat_loader_options *o,
                        struct leat_loader **out, struct leat_error *error)
{
    struct leat_loader *l = new_loader(o);
    if (!l)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a loader");
    l->input.order = sources->order.order;
    l->input.mixed = sources->mix != NULL;
    l->input.n_sources = sources->n;
    l->input.lists_later = o->decided || (l->input.order == LEAT_ORDER_LIST && !sources->order.positions);
    int rc = leat_sources_join(sources, &l->dataset, error);
    if (!rc)
        rc = check_followed(l, sources, o, error);
    if (!rc)
        rc = compile(l, sources, o, error);
    if (!rc)
        rc = leat_sources_plan(sources, l, o, error);
    if (!rc)
        rc = make_budget(l, o, error);
    if (!rc)
        rc = open_report(l, o->error_report, error);
    if (!rc)
        leat_dataset_fingerprint(l->dataset, l->fingerprint);
    for (uint32_t k = 0; !rc && l->job.packing && k < sources->n; k++)
        leat_packing_fingerprint(&l->job.packing[k], l->fingerprint);
    if (!rc && l->delivery->open)
        rc = l->delivery->open(l, o, error);
    if (!rc)
        rc = join_engine(l, error);
    if (rc) {
        undo(l);
        return rc;
    }
    *out = l;
    return LEAT_OK;
}

/* ---- beside another one ---------------------------------------------------------------------- */

static struct leat_loader_options beside(const struct leat_loader *base, const char *program)
{
    struct leat_loader_options o = LEAT_LOADER_OPTIONS_INIT;
    o.global_batch_size = leat_plan_global_batch(base->plan);
    o.rank = base->input.rank;
    o.world_size = base->input.world_size;
    o.seed = base->pool.seed;
    o.epochs = base->input.epochs;
    o.on_error = base->job.on_error;
    o.num_threads = base->client.max_threads;
    o.budget_bytes = base->bounds.asked_budget;
    o.max_held_bytes = base->bounds.asked_held;
    o.weight = base->client.weight;
    o.in_order = !base->delivery->numbers_rows;
    o.region = base->pool.region.fd >= 0;
    o.pinning = base->pool.region.pinning;
    o.program = program;
    if (!program) { /* functions of the user's stand in that one alone */
        o.program = base->program_text;
        o.functions = leat_program_functions(base->program, &o.n_functions);
    }
    return o;
}

int leat_loader_hash_beside(const struct leat_loader *base, const char *program, uint64_t *hash,
                            struct leat_error *error)
{
    const struct leat_loader_options o = beside(base, program);
    struct leat_program *compiled;
    int rc =
        leat_program_compile(base->job.fields, base->job.n_fields, program, NULL, 0, open_sizes(&o), &compiled, error);
    if (rc)
        return rc;
    *hash = leat_program_hash(compiled);
    leat_program_free(compiled);
    return LEAT_OK;
}

/* The requests of others must not take the memory of all. */
static int check_share(const struct leat_loader *l, struct leat_error *error)
{
    const uint64_t least = LEAST_BATCHES * l->window.estimate + l->budget.fixed + l->budget.reserved;
    return least <= leat_memory_allowed() / 4 ? LEAT_OK
                                              : leat_fail(error, LEAT_E_BUDGET,
                                                          "three batches of %" PRIu64 " bytes and scratch need %" PRIu64
                                                          ", which is more than a quarter of the memory here",
                                                          l->window.estimate, least);
}

/* Epochs of lists that come later. */
static int plan_lists(struct leat_loader *l, const struct leat_loader_options *o, const struct leat_own_list *own,
                      struct leat_error *error)
{
    const struct leat_plan_source source = {
        .count = leat_dataset_count(l->dataset),
        .order = {.order = LEAT_ORDER_LIST, .positions = own->list, .n_positions = own->n}};
    const struct leat_plan_spec spec = {.sources = &source,
                                        .n_sources = 1,
                                        .seed = o->seed,
                                        .global_batch = o->global_batch_size,
                                        .world_size = 1,
                                        .tail = LEAT_TAIL_UNEVEN};
    if (l->input.mixed || l->job.packing || leat_plan_group_rows(l->plan) || leat_plan_draws(l->plan))
        return leat_fail(error, LEAT_E_INVALID,
                         "samples of one's own are those of one data set, not of a mixture, packed rows, batches by "
                         "length or one of a group");
    if (o->world_size != 1)
        return leat_fail(
            error, LEAT_E_INVALID,
            "samples of one's own are read of a port that makes all rows, not those of one rank of several");
    l->plan = NULL;
    l->input.listed = l->input.lists_later = true;
    l->input.order = LEAT_ORDER_LIST;
    l->input.list_epoch = (int64_t)own->epoch - !own->given;
    int rc = leat_plan_new(&spec, &l->plan, error);
    l->job.plan = l->plan;
    if (!rc) {
        leat_consumer_stand(&l->consumer, (struct leat_position){own->epoch, 0});
        l->consumer.reader.loaded = true;
    }
    return rc;
}

int leat_loader_open_beside(struct leat_loader *base, const char *program, uint64_t key,
                            const struct leat_own_list *own, struct leat_loader **out, struct leat_error *error)
{
    const struct leat_loader_options o = beside(base, program);
    *out = NULL;
    struct leat_loader *l = new_loader(&o);
    if (!l)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a loader");
    l->input.beside = true;
    l->input.order = base->input.order;
    l->input.mixed = base->input.mixed;
    l->input.n_sources = base->input.n_sources;
    l->plan = base->plan;
    l->job.plan = base->plan;
    l->job.packing = base->job.packing;
    l->job.source_begin = base->job.source_begin;
    l->job.row_begin = base->job.row_begin;
    l->job.key = key;
    l->dataset = leat_dataset_retain(base->dataset);
    memcpy(l->fingerprint, base->fingerprint, sizeof l->fingerprint);
    int rc = own ? plan_lists(l, &o, own, error) : LEAT_OK;
    rc = rc ? rc : compile(l, NULL, &o, error);
    rc = rc ? rc : leat_job_context_make(&l->job, error);
    rc = rc ? rc : make_budget(l, &o, error);
    rc = rc ? rc : check_share(l, error);
    rc = rc ? rc : join_engine(l, error);
    if (rc) {
        undo(l);
        return rc;
    }
    *out = l;
    return LEAT_OK;
}

static struct leat_order_spec order_of(const struct leat_loader_options *o)
{
    return (struct leat_order_spec){.order = o->order,
                                    .block_rows = o->block_rows,
                                    .weights = o->weights,
                                    .num_samples = o->num_samples,
                                    .replacement = o->replacement,
                                    .positions = o->positions,
                                    .n_positions = o->n_positions,
                                    .block_window = o->block_window};
}

int leat_loader_open(struct leat_dataset *dataset, const struct leat_loader_options *options, struct leat_loader **out,
                     struct leat_error *error)
{
    *out = NULL;
    struct leat_loader_options o;
    int rc = take_options(options, &o, error);
    if (rc)
        return rc;
    const struct leat_mix_source source = {.dataset = dataset, .pack = o.pack, .share = 1, .one_of = o.one_of};
    const struct leat_sources sources = {.at = &source, .n = 1, .order = order_of(&o)};
    const uint64_t count = o.one_of ? o.one_of->n_groups : leat_dataset_count(dataset);
    if (o.order == LEAT_ORDER_WEIGHTED && !o.pack && o.n_weights != count)
        return leat_fail(error, LEAT_E_INVALID, "weights must be %" PRIu64 ", one per %s, not %" PRIu64, count,
                         o.one_of ? "group" : "sample", o.n_weights);
    return open_sources(&sources, &o, out, error);
}

int leat_loader_open_mix(const struct leat_mix_options *given, const struct leat_loader_options *options,
                         struct leat_loader **out, struct leat_error *error)
{
    static const struct leat_mix_options defaults = LEAT_MIX_OPTIONS_INIT;
    struct leat_mix_options mix = defaults;
    struct leat_loader_options o;
    *out = NULL;
    if (!given || given->struct_size < sizeof(size_t))
        return leat_fail(error, LEAT_E_INVALID, "a mixture must be given and begun with LEAT_MIX_OPTIONS_INIT");
    memcpy(&mix, given, given->struct_size < sizeof mix ? given->struct_size : sizeof mix);
    int rc = take_options(options, &o, error);
    if (rc)
        return rc;
    const struct leat_sources sources = {.at = mix.sources, .n = mix.n_sources, .mix = &mix, .order = order_of(&o)};
    rc = leat_sources_check(&sources, error);
    return rc ? rc : open_sources(&sources, &o, out, error);
}

bool leat_loader_halt(struct leat_loader *l)
{
    l->closed = true;
    leat_client_deactivate(&l->client);
    leat_kept_drop_all(l);
    leat_window_cancel(l, 0);
    for (const struct leat_consumer *c = &l->consumer; c; c = c->next)
        leat_side_cancel(l, c, (struct leat_position){UINT64_MAX, 0});
    leat_loader_settle(l);
    /* It waits for running tasks. When the process ends, a stuck one must not hold it: the loader is left as it is. */
    int64_t patience = leat_scheduler.stopping ? leat_clock_ns() + EXIT_PATIENCE_NS : INT64_MAX;
    while (l->tasks.running || l->callers.in_next)
        if (!leat_loader_wait(l, patience))
            return false;
    leat_consumers_drop_peeked(l);
    return true;
}

void leat_loader_close(struct leat_loader *l)
{
    if (!l || !leat_batch_pool_is_ours(&l->pool))
        return;
    leat_engine_lock();
    if (!leat_loader_halt(l)) {
        leat_engine_unlock();
        return;
    }
    leat_client_leave(&l->client);
    leat_page_leave(l->slot);
    l->slot = NULL;
    leat_task_feed(l);
    l->detached = true;
    l->pool.references++; /* until tasks at rest are ended */
    leat_task_end_all(l);
    leat_engine_lock();
    struct leat_dataset *dataset = NULL;
    struct leat_decoded *decoded = atomic_exchange(&l->decoded, NULL);
    if (!l->tasks.parked) {
        dataset = l->dataset;
        l->dataset = NULL;
    }
    leat_budget_close(&l->budget);
    if (l->pool.references > 2) /* else the whole region goes, and the lock is not held for it */
        leat_region_trim(&l->pool.region);
    l->pool.references--;
    leat_batch_pool_unref_unlock(&l->pool);
    leat_decoded_release(decoded);
    leat_dataset_release(dataset);
}

void leat_loader_share_decoded(struct leat_loader *l, struct leat_decoded *decoded)
{
    leat_engine_lock();
    if (!atomic_load_explicit(&l->decoded, memory_order_relaxed))
        atomic_store_explicit(&l->decoded, leat_decoded_retain(decoded), memory_order_release);
    leat_engine_unlock();
}

int leat_loader_region(const struct leat_loader *l, int *fd, uint64_t *bytes, struct leat_error *error)
{
    *fd = l->pool.region.fd; /* both are fixed as long as the loader is open */
    *bytes = l->pool.region.bytes;
    return *fd >= 0 ? LEAT_OK
                    : leat_fail(error, LEAT_E_UNSUPPORTED, "the loader's memory is private: open it with region 1");
}
